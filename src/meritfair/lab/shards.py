"""A shard: arrays as the bytes of one Parquet file, which says whose they are and whether it is whole.

The file has a row for each run: a number is a column, an array by episode or by arm a list of fixed length. Two entries
of its metadata are ours. ``meritfair`` is JSON for people: what was played, by which versions. ``seal`` is one
line with format, key and SHA-256 of the whole file, itself counted as zeros. The seal is looked at before anything is
parsed, so a damaged file never reaches a reader that could stumble over it, and every bit of it counts.

The bytes depend on the contents and on the version of pyarrow alone: there is no time, host or path inside.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from meritfair.core.arrays import AnyArray

__all__ = ["check_seal", "pack", "unpack"]

_FORMAT = "meritfair-shard-1"
_OPEN = "0" * 64
_SEAL = re.compile(rb"(meritfair-shard-\d+) key=([0-9a-f]{32}) sha256=([0-9a-f]{64})")


def pack(columns: Mapping[str, AnyArray], about: Mapping[str, Any], key: str) -> bytes:
    """Return arrays, all with a row for each run, as a sealed Parquet file.

    Examples
    --------
    >>> data = pack({"run": np.arange(2), "curve": np.ones((2, 3))}, {"policy": "random"}, "0" * 32)
    >>> columns, about = unpack(data, "0" * 32)
    >>> columns["curve"].shape, about
    ((2, 3), {'policy': 'random'})
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table({name: _column(np.ascontiguousarray(values)) for name, values in columns.items()})
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, table.schema, compression="zstd", use_dictionary=False, write_statistics=False) as file:
        file.write_table(table)
        entry = json.dumps(about, sort_keys=True)
        file.add_key_value_metadata({"meritfair": entry, "seal": f"{_FORMAT} key={key} sha256={_OPEN}"})
    data = bytes(sink.getvalue())
    return data.replace(f"sha256={_OPEN}".encode(), f"sha256={hashlib.sha256(data).hexdigest()}".encode())


def _column(values: AnyArray) -> Any:
    """Return an array as a column: of numbers, or of lists of one length."""
    import pyarrow as pa

    flat = pa.array(values.reshape(-1))
    return flat if values.ndim == 1 else pa.FixedSizeListArray.from_arrays(flat, values.shape[1])


def check_seal(data: bytes, key: str) -> None:
    """Raise a ValueError if the bytes are not a whole shard with this key.

    Examples
    --------
    >>> check_seal(pack({"run": np.arange(2)}, {}, "0" * 32)[:-1], "0" * 32)
    Traceback (most recent call last):
    ...
    ValueError: its contents do not match their checksum
    """
    found = _SEAL.search(data)
    if found is None:
        raise ValueError("it is cut short, or no shard")
    form, owner, checksum = (each.decode() for each in found.groups())
    if hashlib.sha256(data[: found.start(3)] + _OPEN.encode() + data[found.end(3) :]).hexdigest() != checksum:
        raise ValueError("its contents do not match their checksum")
    if form != _FORMAT:
        raise ValueError(f"its format is {form}, not {_FORMAT}")
    if owner != key:
        raise ValueError(f"it is the shard {owner}, of something else")


def unpack(data: bytes, key: str) -> tuple[dict[str, AnyArray], dict[str, Any]]:
    """Return the arrays of a shard and what they are about; raise a ValueError as `check_seal` does."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    check_seal(data, key)
    file = pq.ParquetFile(pa.BufferReader(data))
    table = file.read(use_threads=False)
    columns = {name: _values(table.column(name).combine_chunks()) for name in table.column_names}
    return columns, json.loads(file.metadata.metadata[b"meritfair"])


def _values(column: Any) -> AnyArray:
    """Return a column as an array, with an axis for its lists if it has some."""
    import pyarrow as pa

    if not pa.types.is_fixed_size_list(column.type):
        return np.asarray(column)
    return np.asarray(column.flatten()).reshape(-1, column.type.list_size)
