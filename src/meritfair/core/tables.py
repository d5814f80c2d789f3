"""Tables of users: .csv or .parquet files, read with the line and the column of whatever is wrong, written whole.

For people to read, tables of text can be set in Markdown and LaTeX.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from html import escape
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from meritfair.core.arrays import BoolArray, DateArray, FloatArray, IntArray
from meritfair.core.csv_files import csv_header, read_csv, with_point
from meritfair.core.errors import FileError, MissingExtraError, RowError
from meritfair.core.storage import check_readable, check_suffix, write_text, write_whole
from meritfair.core.texts import listed, quoted, to_spreadsheet

if TYPE_CHECKING:
    import pandas as pd

SUFFIXES = (".csv", ".parquet")
TEXT_SUFFIXES = (".md", ".tex")
MOST_COLUMNS = 10_000
EMPTY, _WRONG = -1, -2  # in columns of 0 and 1
_LARGEST_WHOLE = 2**53  # beyond this, numbers in files may have been rounded
_MONTH = re.compile(r"\d{4}-(0[1-9]|1[0-2])")
_DATES = {"D": "a date such as 2026-03-02, without a time of day", "M": "a month such as 2026-03"}


@dataclass(frozen=True, eq=False)
class Table:
    """Columns of cells as they stand in a file, with the line of each row (the row's number, in a Parquet file).

    Attributes
    ----------
    file : Path
    columns : dict of str to list
    lines : sequence of int
    decimal_comma : bool
        Whether a number may have a comma in place of the decimal point.
    ignored : sequence of str
        The columns that the file has besides.
    """

    file: Path
    columns: dict[str, list[Any]]
    lines: Sequence[int]
    decimal_comma: bool = False
    ignored: Sequence[str] = ()

    def error(self, row: int, column: str, problem: str) -> FileError:
        """Return the error that says what is wrong with a cell; rows are counted from 0."""
        return FileError(self.file, problem, line=self.lines[row], column=column)

    def located(self, bad: RowError, column: str | None = None) -> FileError:
        """Return the error of a row that contradicts another one, with the lines of both."""
        return self.error(bad.row, column or bad.column, f"{bad.problem} line {self.lines[bad.other]}")

    def only(self, rows: IntArray) -> Table:
        """Return these rows alone."""
        columns = {name: [cells[row] for row in rows] for name, cells in self.columns.items()}
        return dataclasses.replace(self, columns=columns, lines=[self.lines[row] for row in rows])

    def text(self, column: str) -> list[str]:
        """Return a column as text, without blanks around it; refuse a cell that is empty."""
        values = ["" if cell is None else str(cell).strip() for cell in self.columns[column]]
        if "" in values:
            raise self.error(values.index(""), column, "the cell is empty")
        return values

    def with_points(self, column: str) -> list[Any]:
        """Return a column in which decimal numbers have a point, whatever they have in the file."""
        cells = self.columns[column]
        return [with_point(cell) for cell in cells] if self.decimal_comma else cells

    def numbers(self, column: str, low: float, high: float, *, may_be_empty: bool = False) -> FloatArray:
        """Return a column as numbers between the bounds; empty cells are NaN where there may be some."""
        cells = self.with_points(column)
        if may_be_empty:
            cells = [math.nan if _is_empty(cell) else cell for cell in cells]
        try:
            values = np.array([float(cell) for cell in cells])
        except (TypeError, ValueError):
            row = next(row for row, cell in enumerate(cells) if not _is_number(cell))
            raise self.error(row, column, f"must be a number, got {quoted(cells[row])}") from None
        inside = (values >= low) & (values <= high)
        if may_be_empty:
            inside |= [cell is math.nan for cell in cells]
        self._check(column, inside, f"must lie between {low:g} and {high:g}")
        return values

    def all_or_none(self, column: str, low: float, high: float) -> FloatArray | None:
        """Return a column as numbers between the bounds, or None if it is not there or all of its cells are empty."""
        empty = np.array([_is_empty(cell) for cell in self.columns.get(column, ())])
        if empty.all():
            return None
        if empty.any():
            other = self.lines[int(empty.argmin())]
            raise self.error(int(empty.argmax()), column, f"the cell is empty, but there is a number in line {other}")
        return self.numbers(column, low, high)

    def rounds(self, column: str, low: int, high: int = _LARGEST_WHOLE) -> IntArray | DateArray:
        """Return a column as whole numbers between the bounds, or as dates if its first cell is one."""
        cells = self.columns[column]
        first = _date(cells[0])
        if first is None and not _is_number(cells[0]):
            raise self.error(0, column, f"must be a whole number, or {_DATES['D']}, got {quoted(cells[0])}")
        if first is None:
            values = self.numbers(column, low, high)
            self._check(column, values == np.round(values), "must be a whole number")
            return values.astype(np.int64)
        meaning = {text: _date(text) for text in set(map(str, cells))}
        dates = [meaning[str(cell)] for cell in cells]
        same = np.array([day is not None and day.dtype == first.dtype for day in dates])
        wanted = _DATES[np.datetime_data(first.dtype)[0]]
        self._check(column, same, f"must be {wanted}, as in line {self.lines[0]}")
        return np.array(dates)

    def bits(
        self, column: str, wanted: str = "must be 0 or 1, or false or true", *, may_be_empty: bool = False
    ) -> IntArray:
        """Return a column of 0 and 1, or false and true; empty cells are -1 where there may be some."""
        texts = ["" if cell is None else str(cell).strip().lower() for cell in self.columns[column]]
        meaning = {text: _bit(text) for text in set(texts)}
        values = np.fromiter(map(meaning.__getitem__, texts), np.int64, len(texts))
        self._check(column, values >= (EMPTY if may_be_empty else 0), wanted)
        return values

    def _check(self, column: str, right: BoolArray, wanted: str) -> None:
        """Refuse the first cell that is not right."""
        wrong = np.flatnonzero(~right)
        if len(wrong):
            row = int(wrong[0])
            raise self.error(row, column, f"{wanted}, got {quoted(self.columns[column][row])}")


@dataclass(frozen=True, eq=False)
class Labels:
    """The labels of many rows by number, without a text for each row.

    Attributes
    ----------
    names : sequence of str
        The labels that there may be, all different.
    numbers : ndarray of int
        For each row which of them it has.
    """

    names: Sequence[str]
    numbers: IntArray

    def __len__(self) -> int:
        return len(self.numbers)

    def in_order(self) -> tuple[tuple[str, ...], IntArray]:
        """Return the labels that occur, in order of appearance, and the number of each row's."""
        first = np.full(len(self.names), -1)
        first[self.numbers[::-1]] = np.arange(len(self.numbers) - 1, -1, -1)  # the last that is set is the first row
        there = np.flatnonzero(first >= 0)
        there = there[np.argsort(first[there], kind="stable")]
        place = np.empty(len(self.names), np.int64)
        place[there] = np.arange(len(there))
        return tuple(self.names[k] for k in there.tolist()), place[self.numbers]


def numbered(labels: Iterable[object] | Labels) -> tuple[tuple[str, ...], IntArray]:
    """Return the different labels as text, in order of appearance, and the number of each row's.

    Examples
    --------
    >>> numbered(["Bo", "Ada", "Bo"])
    (('Bo', 'Ada'), array([0, 1, 0]))
    >>> numbered(Labels(["Ada", "Bo", "Cy"], np.array([1, 0, 1])))
    (('Bo', 'Ada'), array([0, 1, 0]))
    """
    if isinstance(labels, Labels):
        return labels.in_order()
    seen: dict[str, int] = {}
    plain = labels.tolist() if isinstance(labels, np.ndarray) else labels
    numbers = np.array([seen.setdefault(str(label), len(seen)) for label in plain], dtype=np.int64)
    return tuple(seen), numbers


def first_duplicate(*columns: IntArray) -> tuple[int, int] | None:
    """Return the first row that was there before, after the row where it was.

    Examples
    --------
    >>> first_duplicate(np.array([0, 1, 0, 1]), np.array([5, 5, 6, 5]))
    (1, 3)
    """
    order = np.lexsort(columns)  # stable: rows that agree stay in order
    same = np.all([np.diff(column[order]) == 0 for column in columns], axis=0)
    if not same.any():
        return None
    at = np.flatnonzero(same)
    at = at[np.argmin(order[at + 1])]
    return int(order[at]), int(order[at + 1])


def read_table(
    path: str | PathLike[str],
    what: str,
    required: Sequence[str],
    optional: Sequence[str] = (),
    *,
    encoding: str = "utf-8",
    tell: Callable[[int, int], None] | None = None,
) -> Table:
    """Read the columns of a .csv or .parquet file that are wanted; others are ignored.

    Parameters
    ----------
    path : path
    what : str
        What a row of the file is, in the plural, such as "arms".
    required : sequence of str
        Columns that must be there. Capital letters do not matter.
    optional : sequence of str
        Columns that are read if they are there.
    encoding : str
        Of a .csv file that does not say its own.
    tell : callable, optional
        Is told how much of how much of a .csv file is read.
    """
    file = Path(path)
    suffix = check_suffix(file, what, SUFFIXES)
    check_readable(file)
    ignored = list[str]()

    def choose(header: Sequence[str], line: int | None) -> list[tuple[str, int]]:
        chosen = _check_header(file, header, required, optional, line)
        read = {place for _, place in chosen}
        ignored.extend(name for place, name in enumerate(header) if name and place not in read)
        return chosen

    if suffix == ".csv":
        cells = read_csv(file, choose, encoding, tell)
        table = Table(file, cells.columns, cells.lines, cells.decimal_comma, ignored)
    else:
        table = _read_parquet(file, choose, ignored)
    if not table.lines:
        raise FileError(file, f"has no {what} in it" + ", only a header" * (suffix == ".csv"))
    return table


def column_names(path: str | PathLike[str], what: str) -> list[str]:
    """Return the columns of a .csv or .parquet file, whatever they are."""
    file = Path(path)
    suffix = check_suffix(file, what, SUFFIXES)
    check_readable(file)
    return (csv_header if suffix == ".csv" else _parquet_header)(file)


def write_table(
    path: str | PathLike[str],
    what: str,
    columns: Mapping[str, Sequence[Any]],
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Write columns to a .csv or .parquet file, which replaces an old one once it is complete.

    Parameters
    ----------
    path : path
    what : str
        What is kept in such a file, in the plural.
    columns : mapping
        Cells by column. In a .csv file a cell without a number (NaN) is empty, and text that a spreadsheet would take
        for a formula stands after an apostrophe, which `read_table` takes away again.
    metadata : mapping, optional
        Further text, which only a Parquet file can hold.
    """
    file = Path(path)
    if check_suffix(file, what, SUFFIXES) == ".csv":
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(zip(*map(_csv_cells, columns.values()), strict=True))
        write_text(file, text.getvalue())
    else:
        import pyarrow as pa
        import pyarrow.parquet as pq

        table = pa.table(dict(columns)).replace_schema_metadata(metadata)
        write_whole(file, lambda temporary: pq.write_table(table, temporary))


def data_frame(*parts: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Return columns, or rows, as a pandas DataFrame; several are put below each other."""
    try:
        import pandas as pd
    except ImportError:
        raise MissingExtraError("a DataFrame", "lab") from None
    return pd.concat(map(pd.DataFrame, parts), ignore_index=True)


def rows_of(columns: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """Return columns as rows.

    Examples
    --------
    >>> rows_of({"arm": ["Ada", "Bo"], "seen": [3, 1]})
    [{'arm': 'Ada', 'seen': 3}, {'arm': 'Bo', 'seen': 1}]
    """
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


_MARKDOWN = str.maketrans({mark: f"\\{mark}" for mark in r"\`*_[]<>|#~"})
_NAMED = {"\\": "backslash", "~": "asciitilde", "^": "asciicircum", "<": "less", ">": "greater"}
_RELATIONS = {"≥": r"\geq", "≤": r"\leq", "→": r"\rightarrow", "✓": r"\checkmark"}  # the last of amssymb
_OPERATORS = {"−": "-", "±": r"\pm", "×": r"\times", "✗": r"\times", "·": r"\cdot", "√": r"\sqrt{}"}
_MATHS = {**_RELATIONS, **_OPERATORS, "°": r"^\circ", "∞": r"\infty"}
_LATEX = str.maketrans(
    {
        **{mark: f"\\{mark}" for mark in "&%$#_{}"},
        **{mark: f"{{{mark}}}" for mark in "[]*"},  # which would mean something at the start of a line
        **{mark: rf"\text{name}{{}}" for mark, name in _NAMED.items()},
        **{mark: f"${symbol}$" for mark, symbol in _MATHS.items()},
        **dict(zip("–’“”", ("--", "'", "``", "''"), strict=True)),
    }
)
_RAISED = "⁰¹²³⁴⁵⁶⁷⁸⁹"


def markdown_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    r"""Return cells of text as a Markdown table, the first column to the left; lines of a cell are joined.

    Examples
    --------
    >>> print(markdown_table(["policy", "Gini"], [["a_b", "0.10\n0.05 to 0.20"]]), end="")
    | policy | Gini |
    |:---|---:|
    | a\_b | 0.10 (0.05 to 0.20) |
    """
    texts = [[_in_one_line(cell).translate(_MARKDOWN) for cell in row] for row in rows]
    lines = [[heading.replace("\n", " ") for heading in headings], *texts]
    head, *body = [f"| {' | '.join(line)} |\n" for line in lines]
    return head + f"|:---|{'---:|' * (len(headings) - 1)}\n" + "".join(body)


def _in_one_line(cell: str) -> str:
    first, *more = cell.split("\n")
    return f"{first} ({' '.join(more)})" if more else first


def html_table(headings: Sequence[str], rows: Sequence[Sequence[str]], title: str, note: str = "") -> str:
    r"""Return cells of text as a table of HTML, as notebooks show it; further lines of a cell are small.

    Examples
    --------
    >>> print(html_table(["policy", "price of\nfairness"], [["a<b", "10 %\n8 to 12 %"]], "two runs"), end="")
    <table>
    <caption>two runs</caption>
    <tr><th style="text-align: left">policy</th><th>price of fairness</th></tr>
    <tr><td style="text-align: left">a&lt;b</td><td>10 %<br><small>8 to 12 %</small></td></tr>
    </table>
    """
    head = _html_row([heading.replace("\n", " ") for heading in headings], "th")
    body = [_html_row(row, "td") for row in rows]
    below = [f"<p><small>{escape(note)}</small></p>"] if note else []
    return "\n".join(["<table>", f"<caption>{escape(title)}</caption>", head, *body, "</table>", *below, ""])


def _html_row(cells: Sequence[str], tag: str) -> str:
    styles = [' style="text-align: left"', *[""] * (len(cells) - 1)]
    texts = [f"<{tag}{style}>{_html_lines(cell)}</{tag}>" for style, cell in zip(styles, cells, strict=True)]
    return f"<tr>{''.join(texts)}</tr>"


def _html_lines(cell: str) -> str:
    first, *more = escape(cell).split("\n")
    return "<br>".join([first, *(f"<small>{line}</small>" for line in more)])


def latex_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    r"""Return cells of text as a LaTeX tabular for the package booktabs; further lines of a cell are small.

    Examples
    --------
    >>> print(latex_table(["policy", "price of\nfairness"], [["a_b", "10 %\n8 to 12 %"]]), end="")
    \begin{tabular}{lr}
    \toprule
     & price of \\
    policy & fairness \\
    \midrule
    a\_b & 10 \% \\
     & {\scriptsize 8 to 12 \%} \\
    \bottomrule
    \end{tabular}
    """
    head = _latex_lines([[heading.split("\n") for heading in headings]], at_bottom=True)
    body = _latex_lines([[cell.split("\n") for cell in row] for row in rows], at_bottom=False)
    columns = "l" + "r" * (len(headings) - 1)
    parts = [rf"\begin{{tabular}}{{{columns}}}", r"\toprule", *head, r"\midrule", *body, r"\bottomrule"]
    return "\n".join([*parts, r"\end{tabular}", ""])


def write_text_table(
    file: Path, headings: Sequence[str], rows: Sequence[Sequence[str]], *, about: str, note: str
) -> None:
    """Write cells of text to a .md or .tex file, which replaces an old one once it is complete.

    Parameters
    ----------
    file : Path
    headings, rows
        As for `markdown_table` and `latex_table`.
    about : str
        JSON with what the table is about, which readers of the document are not shown.
    note : str
        A remark below the table; in LaTeX, where captions are the author's own, a comment above it.
    """
    if file.suffix.lower() == ".md":
        comment = about.replace("--", "-\\u002d")  # the same JSON, but no end of a comment
        text = f"<!-- meritfair {comment} -->\n\n{markdown_table(headings, rows)}\n{note}\n"
    else:
        table = latex_table(headings, rows)
        text = f"% meritfair {about}\n% {note}\n% Needs \\usepackage{{booktabs}}.\n{table}"
    write_text(file, text)


def _latex_lines(rows: Sequence[Sequence[list[str]]], *, at_bottom: bool) -> list[str]:
    """Return lines of LaTeX for rows whose cells have one or several lines."""
    lines = []
    for row in rows:
        height = max(map(len, row))
        blanks = [[""] * (height - len(cell)) for cell in row]
        cells = [(blank + cell if at_bottom else cell + blank) for cell, blank in zip(row, blanks, strict=True)]
        for number, line in enumerate(zip(*cells, strict=True)):
            texts = [_in_latex(text) for text in line]
            small = number > 0 and not at_bottom
            lines.append(" & ".join(rf"{{\scriptsize {text}}}" if small and text else text for text in texts) + r" \\")
    return lines


def _in_latex(text: str) -> str:
    r"""Return a text with what LaTeX would take for something else, or does not know, in its own words.

    Examples
    --------
    >>> print(_in_latex("≥ 4·10¹² %"))
    $\geq$ 4$\cdot$10$^{12}$ \%
    """
    plain = str.maketrans(_RAISED, "0123456789")
    return re.sub(f"[{_RAISED}]+", lambda found: f"$^{{{found[0].translate(plain)}}}$", text.translate(_LATEX))


def _csv_cells(column: Sequence[Any]) -> Sequence[Any]:
    return column if set(map(type, column)) <= {int, bool} else [_csv_cell(cell) for cell in column]


def _csv_cell(cell: Any) -> Any:
    if isinstance(cell, str):
        return to_spreadsheet(cell)
    return "" if cell is None or (isinstance(cell, float) and math.isnan(cell)) else cell


def _parquet_header(file: Path) -> list[str]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return list(pq.read_schema(file).names)
    except (pa.ArrowInvalid, OSError):  # said in full when it is read
        return []


def _read_parquet(
    file: Path, choose: Callable[[Sequence[str], int | None], list[tuple[str, int]]], ignored: Sequence[str]
) -> Table:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(file) as stored:
            names = stored.schema_arrow.names
            chosen = [(name, names[place]) for name, place in choose(names, None)]
            cells = stored.read([column for _, column in chosen])
    except (pa.ArrowException, OSError) as error:
        raise FileError(file, f"is not a Parquet file that can be read: {error}") from None
    columns = {name: cells.column(column).to_pylist() for name, column in chosen}
    return Table(file, columns, range(1, cells.num_rows + 1), ignored=ignored)


def _check_header(
    file: Path, header: Sequence[str], required: Sequence[str], optional: Sequence[str], line: int | None
) -> list[tuple[str, int]]:
    """Return the columns that are read, with their places; refuse a file in which one is missing, or there twice."""
    if not any(header):
        raise FileError(file, "is empty")
    if len(header) > MOST_COLUMNS:
        raise FileError(file, f"has {len(header):,} columns, of which at most {MOST_COLUMNS:,} are read", line=line)
    places = {name: _places(header, name) for name in (*required, *optional)}
    missing = [name for name in required if not places[name]]
    if missing:
        wanted, found = ", ".join(missing), listed(header)
        raise FileError(file, f"lacks the column{'s' * (len(missing) > 1)} {wanted}; it has {found}", line=line)
    for name, found_at in places.items():
        if len(found_at) > 1:
            raise FileError(file, "duplicate column", line=line, column=name)
    return [(name, found_at[0]) for name, found_at in places.items() if found_at]


def _places(header: Sequence[str], name: str) -> list[int]:
    """Return where a column is: under its very name or, if there is none, with other capital letters."""
    exact = [place for place, each in enumerate(header) if each == name]
    return exact or [place for place, each in enumerate(header) if each.casefold() == name.casefold()]


def _date(cell: Any) -> np.datetime64 | None:
    """Return the day of a cell such as 2026-03-02 or 2026-W10 (a Monday), the month of 2026-03, or else None."""
    text = str(cell).strip()
    if "-" not in text:
        return None
    if _MONTH.fullmatch(text):
        return np.datetime64(text, "M")
    try:
        return np.datetime64(date.fromisoformat(text.removesuffix("00:00:00").rstrip(" T")), "D")
    except ValueError:
        return None


def _bit(text: str) -> int:
    if text in ("true", "false"):
        return int(text == "true")
    if text in ("", "nan"):  # the latter is how a Parquet column of floats shows an empty cell
        return EMPTY
    return int(float(text)) if _is_number(text) and float(text) in (0.0, 1.0) else _WRONG


def _is_empty(cell: Any) -> bool:
    return str(cell).strip() in ("", "None", "nan")


def _is_number(cell: Any) -> bool:
    try:
        float(cell)
    except (TypeError, ValueError):
        return False
    return True
