"""CSV files as spreadsheets and other programs write them.

Columns are separated by commas or, if the header has no comma, by semicolons, tabs or bars; a first line such as
``sep=;``, which Excel knows, says so too. Text is in UTF-8, or in UTF-16 if the file begins with its mark; no other
encoding is guessed, as a wrong guess would change names without anyone noticing. Lines without any value are skipped.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, islice, pairwise
from operator import itemgetter
from pathlib import Path
from typing import Any, TextIO

from meritfair.core.errors import FileError, InputError
from meritfair.core.texts import from_spreadsheet, shortened

_AT_ONCE = 20_000  # rows
_DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+")
_SEPARATOR_LINE = re.compile(r'"?sep=(.)"?', re.IGNORECASE)
_LINE_END = re.compile("\r\n|\r|\n")
_QUOTED = re.compile(r'"[^"]*"')
_MARKS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
_WORKBOOK = (b"PK\x03\x04", b"\xd0\xcf\x11\xe0")  # how .xlsx and .xls files begin


class EncodingError(FileError):
    """A file is not text in the encoding that it should have."""


@dataclass(frozen=True)
class CsvCells:
    """What a CSV file holds.

    Attributes
    ----------
    columns : dict of str to list of str
        The columns that were chosen.
    lines : sequence of int
        The line in which each row ends.
    decimal_comma : bool
        Whether numbers may have a comma in place of the decimal point, as columns are not separated by commas.
    """

    columns: dict[str, list[Any]]
    lines: Sequence[int]
    decimal_comma: bool


Choose = Callable[[Sequence[str], int], Sequence[tuple[str, int]]]


def read_csv(
    file: Path, choose: Choose, encoding: str = "utf-8", tell: Callable[[int, int], None] | None = None
) -> CsvCells:
    """Read the columns of a CSV file that are wanted.

    Parameters
    ----------
    file : Path
    choose : callable
        Is given the names in the header and its line, and returns what is read: names with their places.
    encoding : str
        Of a file that does not begin with a mark of its own.
    tell : callable, optional
        Is told how much of how much is read.
    """
    encoding = check_encoding(_marked(file) or encoding)
    try:
        with file.open(newline="", encoding=encoding) as stream:
            return _read(file, stream, choose, tell)
    except UnicodeError:
        raise _not_encoded(file, encoding) from None
    except csv.Error as error:
        raise FileError(file, f"is not a CSV file: {error}") from None


def csv_header(file: Path, encoding: str = "utf-8") -> list[str]:
    """Return the names of the columns; none if the file is not what it seems, which `read_csv` says in full."""
    try:
        with file.open(newline="", encoding=check_encoding(_marked(file) or encoding)) as stream:
            rows, _, _ = _begin(stream)
            return [name.strip() for name in next(rows, [])]
    except (UnicodeError, csv.Error, FileError):
        return []


def check_encoding(name: str) -> str:
    """Return the name of an encoding, if there is such a one."""
    try:
        found = codecs.lookup(name).name
        io.TextIOWrapper(io.BytesIO(), encoding=found)  # which refuses codecs that are not for text, such as zlib
    except (LookupError, ValueError):
        raise InputError(f"there is no encoding {name!r}: take utf-8, cp1252 or latin-1, for example") from None
    return "utf-8-sig" if found == "utf-8" else found


def _marked(file: Path) -> str | None:
    """Return the encoding that a file's first bytes tell; refuse a workbook, whatever it is called."""
    with file.open("rb") as stream:
        start = stream.read(4)
    if start.startswith(_WORKBOOK):
        raise FileError(file, "is an Excel workbook and not a CSV file: open it, and save it as 'CSV UTF-8'")
    return next((encoding for mark, encoding in _MARKS.items() if start.startswith(mark)), None)


def _begin(stream: TextIO) -> tuple[Any, str, int]:
    """Return a reader that begins with the header, the separator, and how many lines were before the header."""
    first = stream.readline()
    said = _SEPARATOR_LINE.fullmatch(first.strip(" \r\n"))
    if said:
        return csv.reader(stream, delimiter=said[1]), said[1], 1
    bare = _QUOTED.sub("", first)
    separator = next((mark for mark in ";\t|" if mark in bare), ",") if "," not in bare else ","
    return csv.reader(chain([first], stream), delimiter=separator), separator, 0


def _read(file: Path, stream: TextIO, choose: Choose, tell: Callable[[int, int], None] | None) -> CsvCells:
    reader, separator, before = _begin(stream)
    header = [name.strip() for name in next(reader, [])]
    chosen = choose(header, before + 1)
    named = max(place for place, name in enumerate(header, 1) if name)
    columns: dict[str, list[Any]] = {name: [] for name, _ in chosen}
    lines, size = list[int](), file.stat().st_size
    for rows, ends in _in_parts(reader):
        if set(map(len, rows)) != {named} or "" in set(map(str.strip, map(itemgetter(0), rows))):
            rows, ends = _checked(file, rows, ends, named, len(header), separator, before)
        lines += [before + end for end in ends]
        for name, place in chosen:
            columns[name] += _texts(list(map(itemgetter(place), rows)))
        if tell is not None:
            tell(stream.buffer.tell(), size)
    return CsvCells(columns, lines, separator != ",")


def _texts(cells: list[str]) -> list[str]:
    return list(map(from_spreadsheet, cells)) if "'" in "".join(cells) else cells


def _in_parts(reader: Any) -> Iterator[tuple[list[list[str]], Sequence[int]]]:
    """Yield rows, many at a time, with the lines in which they end."""
    while True:
        before = reader.line_num
        rows = list(islice(reader, _AT_ONCE))
        if not rows:
            return
        plain = reader.line_num - before == len(rows)
        yield rows, range(before + 1, before + len(rows) + 1) if plain else _ends(rows, before)


def _ends(rows: list[list[str]], before: int) -> list[int]:
    """Return the lines in which rows end, some of which have cells of several lines."""
    return list(accumulate((1 + len(_LINE_END.findall("\0".join(row))) for row in rows), initial=before))[1:]


def _checked(
    file: Path, rows: list[list[str]], ends: Sequence[int], named: int, most: int, separator: str, before: int
) -> tuple[list[list[str]], list[int]]:
    """Return the rows that say something; refuse one that does not fit the header."""
    kept = [place for place, row in enumerate(rows) if any(map(str.strip, row))]
    for place in kept:
        row = rows[place]
        if not named <= len(row) <= most or any(map(str.strip, row[named:])):
            raise FileError(file, _misfit(row, named, separator), line=before + ends[place])
    return [rows[place] for place in kept], [ends[place] for place in kept]


def _misfit(row: Sequence[str], named: int, separator: str) -> str:
    """Return what is wrong with a row of fewer or more cells than there are columns, and what may have caused it."""
    if len(row) < named:
        return f"has {len(row)} of the {named} columns of the header"
    causes = []
    beside = list(pairwise(row)) if separator == "," else []
    texts = [f"{left},{right}" for left, right in beside if _has_letters(left) and _has_letters(right)]
    pairs = [f"{left},{right}" for left, right in beside]
    decimals = [pair for pair in pairs if _DECIMAL_COMMA.fullmatch(pair)]
    if not any(map(str.strip, row[named:])):
        causes.append(f"{_called(separator)} at its end")
    causes += [f"a comma inside a text, {shortened(text)!r} (put it in quotation marks)" for text in texts[:1]]
    decimals = [shortened(pair) for pair in decimals[:1]]
    causes += [f"a decimal comma, {pair!r} (write {pair.replace(',', '.')})" for pair in decimals]
    perhaps = f": perhaps {' or '.join(causes)}" if causes else ""
    return f"has {len(row)} cells, but the header has {named} columns{perhaps}"


def _has_letters(cell: str) -> bool:
    return "," not in cell and any(map(str.isalpha, cell))


def _called(separator: str) -> str:
    return {",": "a comma", ";": "a semicolon", "\t": "a tab"}.get(separator, f"a {separator!r}")


def _not_encoded(file: Path, encoding: str) -> EncodingError:
    """Return the error of a file that is not text in an encoding, with its first line that is not."""
    name = "UTF-8" if encoding == "utf-8-sig" else encoding.upper()
    if name == "UTF-8":
        for line, data in enumerate(file.read_bytes().splitlines(), 1):
            try:
                data.decode(encoding)
            except UnicodeDecodeError as error:
                around = data[max(0, error.start - 8) : error.end + 8]
                problem = f"is not text in UTF-8, as the bytes {around!r} show: save it as 'CSV UTF-8'"
                return EncodingError(file, problem, line=line)
    return EncodingError(file, f"is not text in {name}")


def with_point(cell: Any) -> Any:
    """Return a cell with a decimal point, if it has a decimal comma.

    Examples
    --------
    >>> with_point("0,25"), with_point("Ada, Bo")
    ('0.25', 'Ada, Bo')
    """
    return cell.replace(",", ".") if isinstance(cell, str) and _DECIMAL_COMMA.fullmatch(cell.strip()) else cell
