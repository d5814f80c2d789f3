"""Sealed files: each says its format and carries a SHA-256 checksum, so that a damaged one is never taken for whole.

*Content* (a learner, a run) is sealed by what it means: a mapping of plain values, and arrays. The mapping gets the
entries ``format`` and ``digest``, and the arrays go into a .npz or .parquet file with it.

A *shard* of a sweep is sealed byte by byte, as one Parquet file. Two entries of its metadata are ours: ``meritfair`` is
JSON for people; ``seal`` is one line with format, key and checksum of the whole file, itself counted as zeros. It is
checked before anything is parsed, so a damaged file never reaches a reader that could stumble over it. The bytes depend
on the contents and on the version of pyarrow alone: there is no time, host or path inside.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from meritfair.core.arrays import AnyArray

if TYPE_CHECKING:
    _Arrays = dict[str, AnyArray]

_META, _SHAPES = "meritfair", "shapes"  # entries of a file beside its arrays
_DAMAGED = "its contents do not match their checksum"
_SHARD = "meritfair-shard-1"
_ZEROS = "0" * 64
_SEAL = re.compile(rb"(meritfair-shard-\d+) key=([0-9a-f]{32}) sha256=([0-9a-f]{64})")


def seal(form: str, content: Mapping[str, Any], arrays: Mapping[str, AnyArray] | None = None) -> dict[str, Any]:
    """Return the content with its format and a checksum of it and of the arrays.

    Examples
    --------
    >>> unseal(seal("notes-1", {"a": 1}), "notes-1")
    {'a': 1}
    >>> unseal({**seal("notes-1", {"a": 1}), "a": 2}, "notes-1")
    Traceback (most recent call last):
    ...
    ValueError: its contents do not match their checksum
    """
    return {"format": form, "digest": _digest(_unmarked(content), arrays or {}), **content}


def unseal(
    sealed: Mapping[str, Any], form: str, *older: str, arrays: Mapping[str, AnyArray] | None = None
) -> dict[str, Any]:
    """Return the content without format and checksum; raise a ValueError if it is damaged, or in another format."""
    if sealed["format"] not in (form, *older):
        raise ValueError(f"its format is {sealed['format']}, not {form}")
    content = _unmarked(sealed)
    if sealed["digest"] != _digest(content, arrays or {}):
        raise ValueError(_DAMAGED)
    return content


def _unmarked(content: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in content.items() if key not in ("format", "digest")}


def _digest(content: Mapping[str, Any], arrays: Mapping[str, AnyArray]) -> str:
    total = hashlib.sha256(json.dumps(content, sort_keys=True).encode())
    for name, array in arrays.items():
        total.update(f"{name} {array.dtype.str} {array.shape} ".encode())
        total.update(np.ascontiguousarray(array).tobytes())
    return total.hexdigest()


def save_arrays(file: Path, arrays: _Arrays, meta: str, suffix: str) -> None:
    """Write arrays, all with a row for each run, and a text to a .npz or .parquet file."""
    if suffix == ".npz":
        np.savez_compressed(file, **arrays, **{_META: np.array(meta)})  # type: ignore[arg-type]
    else:
        rows = np.arange(len(next(iter(arrays.values()))))
        file.write_bytes(_to_parquet({"run": rows, **arrays}, meta))


def load_arrays(file: Path, suffix: str) -> tuple[_Arrays, str]:
    """Return the arrays and the text of a file; damaged bytes can make this fail in any way."""
    if suffix == ".npz":
        with file.open("rb") as stream, np.load(stream, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
        return arrays, str(arrays.pop(_META))
    arrays, metadata = _from_parquet(file.read_bytes())
    del arrays["run"]
    return arrays, metadata[_META]


def _to_parquet(arrays: _Arrays, meta: str, **more: str) -> bytes:
    """Return a Parquet file with a row for each run; an array of several axes is a list in row-major order.

    Unlike `meta`, the entries of `more` stand in it once, as they are.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = {}
    for name, array in arrays.items():
        flat = pa.array(np.ascontiguousarray(array).reshape(-1))
        size = int(np.prod(array.shape[1:]))
        columns[name] = flat if array.ndim == 1 else pa.FixedSizeListArray.from_arrays(flat, size)
    shapes = json.dumps({name: array.shape[1:] for name, array in arrays.items()})
    table = pa.table(columns).replace_schema_metadata({_META: meta, _SHAPES: shapes})
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, table.schema, compression="zstd", use_dictionary=False, write_statistics=False) as file:
        file.write_table(table)
        file.add_key_value_metadata(more)
    return bytes(sink.getvalue())


def _from_parquet(data: bytes) -> tuple[_Arrays, dict[str, str]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    file = pq.ParquetFile(pa.BufferReader(data))
    table = file.read(use_threads=False)
    metadata = {key.decode(): value.decode() for key, value in file.metadata.metadata.items()}
    arrays, shapes = {}, json.loads(metadata[_SHAPES])
    for name in table.column_names:
        column, shape = table.column(name).combine_chunks(), shapes.get(name, [])
        flat = column.flatten() if shape else column
        arrays[name] = flat.to_numpy(zero_copy_only=False).reshape(table.num_rows, *shape)
    return arrays, metadata


def pack_shard(columns: _Arrays, about: Mapping[str, Any], key: str) -> bytes:
    """Return arrays, all with a row for each run, as a sealed Parquet file.

    Examples
    --------
    >>> data = pack_shard({"run": np.arange(2), "curve": np.ones((2, 3))}, {"policy": "random"}, "0" * 32)
    >>> columns, about = unpack_shard(data, "0" * 32)
    >>> columns["curve"].shape, about
    ((2, 3), {'policy': 'random'})
    """
    data = _to_parquet(columns, json.dumps(about, sort_keys=True), seal=f"{_SHARD} key={key} sha256={_ZEROS}")
    return data.replace(f"sha256={_ZEROS}".encode(), f"sha256={hashlib.sha256(data).hexdigest()}".encode())


def check_shard(data: bytes, key: str) -> None:
    """Raise a ValueError if the bytes are not a whole shard with this key.

    Examples
    --------
    >>> check_shard(pack_shard({"run": np.arange(2)}, {}, "0" * 32)[:-1], "0" * 32)
    Traceback (most recent call last):
    ...
    ValueError: its contents do not match their checksum
    """
    found = _SEAL.search(data)
    if found is None:
        raise ValueError("it is cut short, or no shard")
    form, owner, checksum = (each.decode() for each in found.groups())
    if hashlib.sha256(data[: found.start(3)] + _ZEROS.encode() + data[found.end(3) :]).hexdigest() != checksum:
        raise ValueError(_DAMAGED)
    if form != _SHARD:
        raise ValueError(f"its format is {form}, not {_SHARD}")
    if owner != key:
        raise ValueError(f"it is the shard {owner}, of something else")


def unpack_shard(data: bytes, key: str) -> tuple[_Arrays, dict[str, Any]]:
    """Return the arrays of a shard and what they are about; raise a ValueError as `check_shard` does."""
    check_shard(data, key)
    columns, metadata = _from_parquet(data)
    return columns, json.loads(metadata[_META])
