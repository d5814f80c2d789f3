"""CSV files as other programs write them: what is read, and what is refused with its place."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import meritfair as mf
from meritfair.core.csv_files import EncodingError
from meritfair.core.tables import Table, column_names, read_table

ROWS = 'arm,exposure,note\nÄda,0.25,"a, ""b"""\nBo,0.75,\n'
EXPECTED = {"arm": ["Äda", "Bo"], "exposure": ["0.25", "0.75"], "note": ['a, "b"', ""]}


def read(file: Path, data: bytes | str, encoding: str = "utf-8") -> Table:
    file.write_bytes(data if isinstance(data, bytes) else data.encode())
    return read_table(file, "rows", ["arm"], ["exposure", "note"], encoding=encoding)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "rows.csv"


@pytest.mark.parametrize("mark", [",", ";", "\t", "|"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_any_separator_mark_and_line_end(file: Path, mark: str, encoding: str, end: str) -> None:
    stream = io.StringIO()
    csv.writer(stream, delimiter=mark, lineterminator=end).writerows(csv.reader(io.StringIO(ROWS)))
    table = read(file, stream.getvalue().encode(encoding))
    assert table.columns == EXPECTED
    assert list(table.lines) == [2, 3]
    assert column_names(file, "rows") == ["arm", "exposure", "note"]


@pytest.mark.parametrize("line", ["sep=;", "SEP=;", '"sep=;"'])
def test_excel_may_say_the_separator(file: Path, line: str) -> None:
    table = read(file, f'{line}\r\narm;exposure;note\r\nAda;0,25;"1;2"\r\n;;\r\nBo;-1,5;x\r\n')
    assert table.columns == {"arm": ["Ada", "Bo"], "exposure": ["0,25", "-1,5"], "note": ["1;2", "x"]}
    assert list(table.lines) == [3, 5]
    assert table.numbers("exposure", -2, 2).tolist() == [0.25, -1.5]
    with pytest.raises(mf.FileError, match=r"rows\.csv, line 5, column exposure: must lie between 0 and 1, got '-1,5'"):
        table.numbers("exposure", 0, 1)


def test_a_decimal_comma_is_none_where_commas_separate(file: Path) -> None:
    table = read(file, 'arm,exposure\nAda,"0,25"\n')
    with pytest.raises(mf.FileError, match="line 2, column exposure: must be a number, got '0,25'"):
        table.numbers("exposure", 0, 1)


def test_a_comma_in_a_quoted_name_of_a_column_separates_nothing(file: Path) -> None:
    assert read(file, 'arm;"note";"of, course"\nAda;x;y\n').columns["note"] == ["x"]


def test_capital_letters_of_names_do_not_matter_unless_there_are_two(file: Path) -> None:
    assert read(file, "ARM,Exposure\nAda,0.5\n").columns == {"arm": ["Ada"], "exposure": ["0.5"]}
    assert read(file, "arm,Arm\nAda,Bo\n").columns == {"arm": ["Ada"]}
    with pytest.raises(mf.FileError, match="line 1, column arm: duplicate column"):
        read(file, "Arm,ARM\nAda,Bo\n")


def test_columns_that_are_not_read_are_known(file: Path) -> None:
    assert read(file, "phone,arm,,age\n1,Ada,,7\n").ignored == ["phone", "age"]
    pq.write_table(pa.table({"Arm": ["Ada"], "age": [7]}), file.with_suffix(".parquet"))
    table = read_table(file.with_suffix(".parquet"), "rows", ["arm"])
    assert (table.columns, table.ignored) == ({"arm": ["Ada"]}, ["age"])


def test_another_encoding_is_never_guessed(file: Path) -> None:
    data = "arm\nBo\nMüller\n".encode("cp1252")
    with pytest.raises(
        EncodingError, match=r"rows\.csv, line 3: is not text in UTF-8, as the bytes b'M\\xfcller' show"
    ):
        read(file, data)
    assert read(file, data, encoding="cp1252").columns["arm"] == ["Bo", "Müller"]
    assert read(file, "arm\nMüller\n".encode("utf-8-sig"), encoding="cp1252").columns["arm"] == ["Müller"]
    with pytest.raises(EncodingError, match=r"rows\.csv: is not text in ASCII"):
        read(file, data, encoding="ascii")
    with pytest.raises(mf.InputError, match="there is no encoding 'latin-0': take utf-8, cp1252 or latin-1"):
        read(file, data, encoding="latin-0")
    assert column_names(file, "rows") == []  # which is said in full when it is read


@pytest.mark.parametrize("start", [b"PK\x03\x04", b"\xd0\xcf\x11\xe0"])
def test_a_workbook_is_none_whatever_it_is_called(file: Path, start: bytes) -> None:
    with pytest.raises(
        mf.FileError, match=r"is an Excel workbook and not a CSV file: open it, and save it as 'CSV UTF"
    ):
        read(file, start + bytes(100))
    assert column_names(file, "rows") == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("arm;note\nAda;x;y\n", "line 2: has 3 cells, but the header has 2 columns"),
        ("arm;note\nAda;x;\n", "has 3 cells, but the header has 2 columns: perhaps a semicolon at its end"),
        ("sep=;\narm;note\nAda\n", "line 3: has 1 of the 2 columns of the header"),
        ("sep=;\n", "is empty"),
        ('arm\n"two\nlines"\n\n"3\r\n4\r5"\nBo,1\n', "line 8: has 2 cells, but the header has 1 columns"),
    ],
)
def test_lines_are_those_of_the_file(file: Path, text: str, message: str) -> None:
    with pytest.raises(mf.FileError) as caught:
        read(file, text)
    assert message in str(caught.value)


def test_many_rows_are_read_in_parts_and_told(file: Path) -> None:
    told = list[tuple[int, int]]()
    file.write_text("arm\n" + "".join(f"P{i}\n" for i in range(45_000)) + "\n ,\nlast\n".replace(",", ""))
    table = read_table(file, "rows", ["arm"], tell=lambda done, total: told.append((done, total)))
    assert len(table.columns["arm"]) == 45_001
    assert table.lines[-1] == 45_004
    assert told[-1] == (file.stat().st_size,) * 2
    assert len(told) == 3


@given(st.lists(st.lists(st.text(alphabet="'=a, ;\"\n", max_size=4), min_size=2, max_size=2), max_size=6))
def test_what_the_csv_module_writes_comes_back(tmp_path_factory: pytest.TempPathFactory, rows: list[list[str]]) -> None:
    file = tmp_path_factory.mktemp("csv") / "rows.csv"
    with file.open("w", newline="") as stream:
        csv.writer(stream).writerows([["arm", "note"], *rows, ["end", ""]])
    table = read_table(file, "rows", ["arm", "note"])
    plain = [
        [
            cell[1:] if cell[:1] == "'" and cell.lstrip("'")[:1] in set("=\n") and cell.lstrip("'") else cell
            for cell in row
        ]
        for row in rows
    ]
    assert list(zip(*table.columns.values(), strict=True)) == [tuple(row) for row in plain if "".join(row).strip()] + [
        ("end", "")
    ]
