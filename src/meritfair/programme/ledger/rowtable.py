"""Tables of the ledger: rows of fixed width, under one Merkle root, so that one row can be proved without the others.

The bytes of a row are its fields in order, little-endian and without padding. The tree over the rows is that of RFC
6962: a leaf is the hash of a zero byte and the row, a node that of a one byte and its two children; at each level nodes
are paired from the left, and one that is left over moves up as it is. Tables are kept by column, which is compact and
quick to read.

References
----------
B. Laurie, A. Langley and E. Kasper, "Certificate Transparency", RFC 6962, 2013, Section 2.1.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from meritfair.core.arrays import AnyArray
from meritfair.core.errors import InputError

_TYPES = {"u8": "u1", "u16": "<u2", "u32": "<u4", "u64": "<u8", "i8": "i1", "i32": "<i4", "h256": "V32"}
_OTHER = "the table is not the one that the entry was made with"
Fields = tuple[tuple[str, str], ...]


@dataclass(frozen=True, eq=False)
class RowTable:
    """Columns of the same length, with the type of each.

    Examples
    --------
    >>> table = RowTable.of((("number", "u32"), ("away", "u8")), {"number": [3, 5, 9], "away": [1, 0, 1]})
    >>> table.row(1).hex()
    '0500000000'
    >>> table.root.hex()[:16]
    '310d7b39144c799a'
    >>> proves(table.root, table.row(2), table.path(2))
    True
    """

    fields: Fields
    columns: Mapping[str, AnyArray]

    @classmethod
    def of(cls, fields: Fields, columns: Mapping[str, Any]) -> RowTable:
        """Return the table of these columns; a column of hashes is a list of bytes."""
        made = {name: _column(name, kind, columns[name]) for name, kind in fields}
        if len({len(column) for column in made.values()}) > 1:
            raise InputError("the columns of a table must have the same length")
        return cls(fields, made)

    def __len__(self) -> int:
        return len(self.columns[self.fields[0][0]])

    def __getitem__(self, name: str) -> AnyArray:
        return self.columns[name]

    def describe(self) -> dict[str, Any]:
        """Return what its entry says of the table."""
        return {"fields": [list(field) for field in self.fields], "rows": len(self), "root": self.root.hex()}

    def to_bytes(self) -> bytes:
        """Return the table by column."""
        return b"".join(np.ascontiguousarray(self.columns[name]).tobytes() for name, _ in self.fields)

    @classmethod
    def from_bytes(cls, described: Mapping[str, Any], data: bytes, *, check: bool = True) -> RowTable:
        """Return the table that its entry describes; refuse bytes of another length or, to `check`, another root."""
        fields = tuple((str(name), str(kind)) for name, kind in described["fields"])
        rows, place, columns = int(described["rows"]), 0, dict[str, AnyArray]()
        sizes = [rows * np.dtype(_TYPES[kind]).itemsize for _, kind in fields]
        if rows < 0 or sum(sizes) != len(data):
            raise InputError(_OTHER)
        for (name, kind), size in zip(fields, sizes, strict=True):
            columns[name] = np.frombuffer(data[place : place + size], _TYPES[kind])
            place += size
        table = cls(fields, columns)
        if check and table.root.hex() != described["root"]:
            raise InputError(_OTHER)
        return table

    def rows(self) -> list[bytes]:
        """Return the bytes of all rows."""
        packed = np.zeros(len(self), np.dtype([(name, _TYPES[kind]) for name, kind in self.fields]))
        for name, _ in self.fields:
            packed[name] = self.columns[name]
        data, width = packed.tobytes(), packed.dtype.itemsize
        return [data[place : place + width] for place in range(0, len(data), width)]

    def row(self, index: int) -> bytes:
        """Return the bytes of one row."""
        return b"".join(self.columns[name][index : index + 1].tobytes() for name, _ in self.fields)

    @property
    def root(self) -> bytes:
        """The root of the tree over its rows; the hash of nothing if there are none."""
        level = _leaves(self.rows())
        while len(level) > 1:
            level = _level_above(level)
        return level[0] if level else hashlib.sha256().digest()

    def path(self, index: int) -> list[tuple[str, bytes]]:
        """Return the hashes that lead from a row up to the root, each with the side it stands on."""
        level, steps = _leaves(self.rows()), list[tuple[str, bytes]]()
        while len(level) > 1:
            beside = index ^ 1
            if beside < len(level):
                steps.append(("left" if beside < index else "right", level[beside]))
            level, index = _level_above(level), index // 2
        return steps


def proves(root: bytes, row: bytes, path: Sequence[tuple[str, bytes]]) -> bool:
    """Return whether a path leads from a row to the root."""
    here = hashlib.sha256(b"\0" + row).digest()
    for side, other in path:
        here = hashlib.sha256(b"\1" + (other + here if side == "left" else here + other)).digest()
    return here == root


def _leaves(rows: Sequence[bytes]) -> list[bytes]:
    return [hashlib.sha256(b"\0" + row).digest() for row in rows]


def _level_above(level: list[bytes]) -> list[bytes]:
    above = [
        hashlib.sha256(b"\1" + left + right).digest() for left, right in zip(level[::2], level[1::2], strict=False)
    ]
    return above + level[-1:] if len(level) % 2 else above


def _column(name: str, kind: str, values: Any) -> AnyArray:
    """Return a column of this type; refuse a number that does not fit into it."""
    if kind == "h256":
        joined = values.tobytes() if isinstance(values, np.ndarray) else b"".join(values)
        return np.frombuffer(joined, "V32")
    given = np.asarray(values)
    if given.dtype.kind not in "iub" and given.size:
        raise InputError(f"{name} must be whole numbers, got {given.flat[0]!r}")
    limits = np.iinfo(_TYPES[kind])
    wrong = (given < limits.min) | (given > limits.max) if given.size else np.zeros(0, np.bool_)
    if wrong.any():
        raise InputError(f"{name} must be between {limits.min} and {limits.max}, got {given[wrong][0]}")
    return given.astype(_TYPES[kind])
