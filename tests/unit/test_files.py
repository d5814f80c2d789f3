from __future__ import annotations

import math
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import meritfair as mf
from meritfair.core.tables import read_table, write_table
from meritfair.core.texts import from_spreadsheet, to_spreadsheet
from meritfair.datasets import read_arms, write_arms

HEADER = "arm,p00,p01,p10,p11\n"


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".CSV"])
def test_arms_come_back_exactly(tmp_path: Path, suffix: str) -> None:
    names = ["Ada", 'Bo, "the" second', "Çelik", "=1+1", "-Bo", "+1", "@Cy", "Di=", "'=Ed", "''-Flo", "'t Hooft"]
    arms = mf.Arms(np.random.default_rng(1).random((11, 2, 2)), names)
    write_arms(arms, tmp_path / f"arms{suffix}")
    assert read_arms(tmp_path / f"arms{suffix}") == arms
    assert [f.name for f in tmp_path.iterdir()] == [f"arms{suffix}"]


def test_no_name_is_a_formula_and_numbers_stay_numbers(tmp_path: Path) -> None:
    file = tmp_path / "table.csv"
    write_table(
        file, "tables", {"arm": ["=1+1", "-Bo", "+1", "@Cy", "\tDi", "Ed"], "gain": [-0.5, -1, 0, 1, 2, math.nan]}
    )
    assert file.read_text() == "arm,gain\n'=1+1,-0.5\n'-Bo,-1\n'+1,0\n'@Cy,1\n'\tDi,2\nEd,\n"
    assert read_table(file, "tables", ["arm"]).columns["arm"] == ["=1+1", "-Bo", "+1", "@Cy", "\tDi", "Ed"]


@given(st.text(alphabet="'=+-@\t\r\nab"))
def test_any_text_comes_back_from_a_spreadsheet(text: str) -> None:
    assert from_spreadsheet(to_spreadsheet(text)) == text
    assert to_spreadsheet(text)[:1] not in set("=+-@\t\r\n")


def test_columns_mean_state_then_action(tmp_path: Path) -> None:
    file = tmp_path / "arms.csv"
    file.write_text(HEADER + "Ada,0.1,0.2,0.3,0.4\n")
    assert read_arms(file).transitions[0, 0, 1] == 0.2
    assert read_arms(file).transitions[0, 1, 0] == 0.3


def test_what_spreadsheets_write_is_read(tmp_path: Path) -> None:
    file = tmp_path / "arms.csv"
    text = "p11, p00 ,p01,p10,arm,group\r\n0.4,0.1,0.2,0.3,Ada,north\r\n\r\n0.5,0.5,0.5,0.5, Bo ,south\r\n"
    index = text.replace("p11", ",p11").replace("0.4,0.1", "1,0.4,0.1").replace("0.5,0.5,0.5,0.5", "2,0.5,0.5,0.5,0.5")
    for each in (text, text.replace("\r\n", ",,\r\n"), index):  # also with columns that have no name
        file.write_bytes(b"\xef\xbb\xbf" + each.encode())
        arms = read_arms(file)
        assert arms.names == ("Ada", "Bo")
        np.testing.assert_array_equal(arms.transitions[0], [[0.1, 0.2], [0.3, 0.4]])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "arms.csv: is empty"),
        ("\n", "arms.csv: is empty"),
        (HEADER, "arms.csv: has no arms in it, only a header"),
        ("arm,p00,p01\nAda,1,1\n", "arms.csv, line 1: lacks the columns p10, p11; it has arm, p00, p01"),
        ("arm;p00;p01\n", "line 1: lacks the columns p10, p11; it has arm, p00, p01"),
        ("arm,p00,p01,p10,p11,p00\n", "arms.csv, line 1, column p00: duplicate column"),
        (
            HEADER + "Ada,0.1,0.2,0.3,0.4\nBo,0.1,1.2,0.3,0.4\n",
            "line 3, column p01: must lie between 0 and 1, got '1.2'",
        ),
        (HEADER + "Ada,-0.1,0.2,0.3,0.4\n", "line 2, column p00: must lie between 0 and 1, got '-0.1'"),
        (HEADER + "Ada,nan,0.2,0.3,0.4\n", "line 2, column p00: must lie between 0 and 1, got 'nan'"),
        (HEADER + "Ada,0.1,0.2,x,0.4\n", "line 2, column p10: must be a number, got 'x'"),
        (HEADER + "Ada,0.1,0.2,,0.4\n", "line 2, column p10: must be a number, got ''"),
        (
            HEADER + "Ada,0.1,0.2,0.3,0.4\nBo,0,1,0.2,0.3,0.4\n",
            "line 3: has 6 cells, but the header has 5 columns: perhaps a decimal comma, '0,1' (write 0.1)",
        ),
        (
            HEADER + "Hopper, Grace,0.1,0.2,0.3,0.4\n",
            "perhaps a comma inside a text, 'Hopper, Grace' (put it in quotation marks)",
        ),
        ("p00,p01,p10,p11,arm,\n0.1,0.2,0.3,0.4,Hopper, Grace\n", "line 2: has 6 cells, but the header has 5 columns"),
        (HEADER + "Ada,0.1,0.2,0.3,0.4,\n", "has 6 cells, but the header has 5 columns: perhaps a comma at its end"),
        (HEADER + "Ada,0.1,0.2\n", "line 2: has 3 of the 5 columns of the header"),
        (HEADER + " ,0.1,0.2,0.3,0.4\n", "line 2, column arm: the cell is empty"),
        (
            HEADER + "Ada,0.1,0.2,0.3,0.4\n\nAda,0.1,0.2,0.3,0.4\n",
            "line 4, column arm: the arm 'Ada' is already in line 2",
        ),
        ("arm,p00,p01,p10,p11\nAd\x00a", "arms.csv"),
    ],
)
def test_bad_csv_is_refused_with_its_place(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "arms.csv"
    file.write_text(text)
    with pytest.raises(mf.FileError) as caught:
        read_arms(file)
    assert message in str(caught.value)


def test_files_that_are_not_what_they_seem(tmp_path: Path) -> None:
    (tmp_path / "latin.csv").write_bytes(HEADER.encode() + b"\xe9,0.1,0.2,0.3,0.4\n")
    with pytest.raises(mf.FileError, match="is not text in UTF-8"):
        read_arms(tmp_path / "latin.csv")
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 but no")
    with pytest.raises(mf.FileError, match="is not a Parquet file that can be read"):
        read_arms(tmp_path / "bad.parquet")
    with pytest.raises(mf.FileError, match="there is no such file"):
        read_arms(tmp_path / "none.csv")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(mf.FileError, match="is not a file"):
        read_arms(tmp_path / "folder.csv")
    with pytest.raises(mf.FileError, match=r"\.csv or \.parquet"):
        read_arms(tmp_path / "arms.xlsx")


@pytest.mark.parametrize("name", ["arms.csv", "arms.parquet", "run.npz", "run.parquet"])
def test_a_file_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, os.strerror(13))

    (tmp_path / name).touch()
    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(mf.FileError, match=rf"{name}: cannot be read: Permission denied$"):
        (mf.Run.load if name.startswith("run") else read_arms)(tmp_path / name)
    monkeypatch.setattr(Path, "is_file", refuse)  # as in a folder that may not be entered
    with pytest.raises(mf.FileError, match="cannot be read: Permission denied"):
        read_arms(tmp_path / "arms.csv")


def test_bad_parquet_values_are_named(tmp_path: Path) -> None:
    columns = {"arm": ["a", "b"], "p00": [0.1, 0.1], "p01": [0.1, None], "p10": [0.1, 0.1], "p11": [0.1, 0.1]}
    pq.write_table(pa.table(columns), tmp_path / "arms.parquet")
    with pytest.raises(mf.FileError, match="line 2, column p01: must be a number, got None"):
        read_arms(tmp_path / "arms.parquet")
    pq.write_table(pa.table({"arm": ["a"]}), tmp_path / "arms.parquet")
    with pytest.raises(mf.FileError, match="lacks the columns p00, p01, p10, p11"):
        read_arms(tmp_path / "arms.parquet")
    pq.write_table(pa.table({name: [] for name in columns}), tmp_path / "arms.parquet")
    with pytest.raises(mf.FileError, match="has no arms in it"):
        read_arms(tmp_path / "arms.parquet")


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arms = mf.datasets.synthetic(3, seed=1)
    file = tmp_path / "arms.csv"
    write_arms(arms, file)

    def fail(*_: object) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(mf.FileError, match=r"arms\.csv: cannot be written: No space left on device"):
        write_arms(mf.datasets.synthetic(5, seed=2), file)
    monkeypatch.undo()
    assert read_arms(file) == arms
    assert list(tmp_path.iterdir()) == [file]


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(mf.FileError, match="cannot be written: No such file or directory"):
        write_arms(mf.datasets.synthetic(3, seed=1), tmp_path / "nowhere" / "arms.csv")
