"""Arms in files: CSV or Parquet with the columns arm, p00, p01, p10, p11.

``p01`` is the probability that the next state is good from state 0 (bad) under action 1 (pull). Other
columns are left alone. A file that cannot be used is refused with its line, column and value.
"""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from meritfair.errors import FileError
from meritfair.model.arms import Arms
from meritfair.storage import check_suffix, write_whole

if TYPE_CHECKING:
    from collections.abc import Sequence
    from os import PathLike

__all__ = ["read_arms", "write_arms"]

_PROBABILITIES = ("p00", "p01", "p10", "p11")
_COLUMNS = ("arm", *_PROBABILITIES)
_SUFFIXES = (".csv", ".parquet")


def read_arms(path: str | PathLike[str]) -> Arms:
    r"""Read arms from a .csv or .parquet file.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder, "arms.csv")
    ...     _ = file.write_text("arm,p00,p01,p10,p11\nAda,0.2,0.6,0.5,0.9\n")
    ...     read_arms(file).names
    ('Ada',)
    """
    file = Path(path)
    suffix = check_suffix(file, "arms", _SUFFIXES)
    if not file.is_file():
        raise FileError(file, "there is no such file" if not file.exists() else "is not a file")
    rows = _rows_of_csv(file) if suffix == ".csv" else _rows_of_parquet(file)
    if not rows:
        raise FileError(file, "has no arms in it, only a header" if suffix == ".csv" else "has no arms in it")
    first_seen: dict[str, int] = {}
    for line, row in rows:
        name = _name(file, line, row["arm"])
        if name in first_seen:
            raise FileError(
                file, f"the arm {name!r} stands in line {first_seen[name]} already", line=line, column="arm"
            )
        first_seen[name] = line
    values = [[_probability(file, line, column, row[column]) for column in _PROBABILITIES] for line, row in rows]
    return Arms(np.reshape(values, (-1, 2, 2)), first_seen)


def write_arms(arms: Arms, path: str | PathLike[str]) -> None:
    """Write arms to a .csv or .parquet file, so that `read_arms` gives back the very same.

    An existing file is replaced only once the new one is complete.
    """
    file = Path(path)
    columns: dict[str, list[Any]] = {"arm": list(arms.names)}
    columns.update(zip(_PROBABILITIES, arms.transitions.reshape(-1, 4).T.tolist(), strict=True))
    if check_suffix(file, "arms", _SUFFIXES) == ".csv":
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(_COLUMNS)
        writer.writerows(zip(*columns.values(), strict=True))
        write_whole(file, lambda temporary: temporary.write_text(text.getvalue(), encoding="utf-8", newline=""))
    else:
        import pyarrow as pa
        import pyarrow.parquet as pq

        write_whole(file, lambda temporary: pq.write_table(pa.table(columns), temporary))


def _rows_of_csv(file: Path) -> list[tuple[int, dict[str, Any]]]:
    """Return (line, row) for each data row; a row's line is where it ends."""
    try:
        with file.open(newline="", encoding="utf-8-sig") as stream:
            reader = csv.reader(stream)
            header = [name.strip() for name in next(reader, [])]
            _check_columns(file, header, line=1)
            rows = []
            for cells in reader:
                if not any(cell.strip() for cell in cells):
                    continue
                if len(cells) < len(header):
                    raise FileError(
                        file, f"has {len(cells)} of the {len(header)} columns of the header", line=reader.line_num
                    )
                rows.append((reader.line_num, dict(zip(header, cells, strict=False))))
            return rows
    except UnicodeDecodeError as error:
        raise FileError(file, f"is not text in UTF-8: {error}") from None
    except csv.Error as error:
        raise FileError(file, f"is not a CSV file: {error}") from None


def _rows_of_parquet(file: Path) -> list[tuple[int, dict[str, Any]]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(file)
    except (pa.ArrowInvalid, OSError) as error:
        raise FileError(file, f"is not a Parquet file that can be read: {error}") from None
    _check_columns(file, table.column_names, line=None)
    return list(enumerate(table.select(_COLUMNS).to_pylist(), start=1))


def _check_columns(file: Path, header: Sequence[str], line: int | None) -> None:
    if not any(header):
        raise FileError(file, "is empty")
    missing = [name for name in _COLUMNS if name not in header]
    if missing:
        wanted, found = ", ".join(missing), ", ".join(header)
        raise FileError(file, f"lacks the column{'s' * (len(missing) > 1)} {wanted}; it has {found}", line=line)
    twice = [name for name in _COLUMNS if list(header).count(name) > 1]
    if twice:
        raise FileError(file, "the column stands there twice", line=line, column=twice[0])


def _name(file: Path, line: int, value: Any) -> str:
    name = str(value).strip() if value is not None else ""
    if not name:
        raise FileError(file, "the name of the arm is missing", line=line, column="arm")
    return name


def _probability(file: Path, line: int, column: str, value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise FileError(file, f"must be a number, got {value!r}", line=line, column=column) from None
    if not 0 <= number <= 1:  # also refuses NaN
        raise FileError(file, f"must lie between 0 and 1, got {value!r}", line=line, column=column)
    return number
