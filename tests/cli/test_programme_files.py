"""Files that people hand in to a programme: each is taken as it is meant, or refused clearly, and never by halves."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import meritfair as mf
from meritfair.programme import Outcomes, People
from meritfair.programme.files import read_ids, read_outcomes, read_people, read_states

IDS = ["Ada", "Bo", "Cy", "Di", "Müller", "=1+1"]
Call = Callable[..., Any]


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> mf.programme.Programme:
    """A programme with six people, all drawn in its first round."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MERITFAIR_STORE", "calls.db")
    monkeypatch.setenv("MERITFAIR_BY", "Nurse Ama")
    monkeypatch.setenv("COLUMNS", "200")
    programme = mf.programme.open("calls.db", "calls")
    programme.create(6, "random")
    programme.enrol(IDS)
    programme.draw()
    return programme


@pytest.fixture
def call(command: Call, calls: mf.programme.Programme) -> Call:
    return lambda *words: command("programme", *words)


def head(programme: mf.programme.Programme) -> str:
    return programme.status().head


def write(name: str, data: str | bytes) -> Path:
    Path(name).write_bytes(data if isinstance(data, bytes) else data.encode())
    return Path(name)


# What is accepted: the text of a file, and who is enrolled by it, with their groups

ACCEPTED: dict[str, str | bytes] = {
    "plain": "id,group\nEd,north\nFlo,south\n",
    "blank lines": "id,group\n\nEd,north\n,\n  , \nFlo,south\n\n",
    "byte order mark": b"\xef\xbb\xbfid,group\nEd,north\nFlo,south\n",
    "semicolons": "id;group\nEd;north\nFlo;south\n",
    "tabs": "id\tgroup\nEd\tnorth\nFlo\tsouth\n",
    "Excel": b'\xef\xbb\xbfsep=;\r\n"id";group;chance\r\nEd;north;0,25\r\n"Flo";south;0,5\r\n',
    "Unicode text of Excel": "id\tgroup\r\nEd\tnorth\r\nFlo\tsouth\r\n".encode("utf-16"),
    "other columns and order": "phone,GROUP,Id\n1,north, Ed \n2,south,Flo\n",
}


@pytest.mark.parametrize("kind", ACCEPTED)
def test_enrol_takes(kind: str, call: Call, calls: mf.programme.Programme) -> None:
    answer = call("enrol", write("people.csv", ACCEPTED[kind]))
    assert (answer.code, answer.out.splitlines()[0]) == (0, "Enrolled 2 participants in calls.")
    with calls.store.reading("calls") as session:
        people = session.people()
    assert [(each.id, each.group) for each in people][len(IDS) :] == [("Ed", "north"), ("Flo", "south")]


def test_columns_that_are_not_read_are_named(call: Call) -> None:
    answer = call("enrol", write("people.csv", "id,grup,phone\nEd,north,1\n"))
    assert answer.code == 0
    assert answer.err == "Ignored columns: grup, phone.\n"


REFUSED: dict[str, tuple[str | bytes, str]] = {
    "wrong header": ("name,group\nEd,north\n", "people.csv, line 1: lacks the column id; it has name, group"),
    "nothing": ("", "people.csv: is empty"),
    "only a header": ("id,group\n", "people.csv: has no participants in it, only a header"),
    "blank cell": ("id,group\nEd,north\n ,south\n", "people.csv, line 3, column id: the cell is empty"),
    "duplicate": (
        "id,group\nEd,north\nFlo,north\n\nEd,south\n",
        "people.csv, line 5, column id: the participant 'Ed' is already in line 2",
    ),
    "known": (
        "id,group\nEd,north\n\nBo,south\n",
        "people.csv, line 4, column id: the participant 'Bo' is enrolled already",
    ),
    "Latin-1": (
        "id,group\nEd,north\nRenée,south\n".encode("latin-1"),
        "people.csv, line 3: is not text in UTF-8, as the bytes b'Ren\\xe9e,south' show: save it as 'CSV UTF-8', or "
        "say which encoding it has, such as --encoding cp1252",
    ),
    "a comma too many": (
        "id,group\nEd,north\nHopper, Grace,south\n",
        "people.csv, line 3: has 3 cells, but the header has 2 columns: perhaps a comma inside a text, 'Hopper, Grace' "
        "(put it in quotation marks)",
    ),
    "a cell too few": ("id,group,staff\nEd,north,x\nFlo\n", "people.csv, line 3: has 1 of the 3 columns of the header"),
    "two columns id": ("id,ID,id\nEd,Flo,Gil\n", "people.csv, line 1, column id: duplicate column"),
    "control characters": (
        "id\nEd\nF\x1b[31mlo\n",
        "people.csv, line 3, column id: an id is a text of 1 to 200 printable characters, got 'F\\x1b[31mlo'",
    ),
    "a long name": (
        f"id,group\nEd,north\nFlo,{'x' * 201}\n",
        f"people.csv, line 3, column group: group must be at most 200 printable characters, got '{'x' * 200}'",
    ),
    "binary": (bytes(range(256)), "people.csv, line 3: is not text in UTF-8, as the bytes"),
    "zeros": (bytes(100), "people.csv"),
    "a workbook": (b"PK\x03\x04" + bytes(50), "people.csv: is an Excel workbook and not a CSV file: open it, and save"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_enrol_refuses(kind: str, call: Call, calls: mf.programme.Programme) -> None:
    text, message = REFUSED[kind]
    before = head(calls)
    answer = call("enrol", write("people.csv", text))
    assert answer.code == 2
    assert answer.out == ""
    assert answer.err.startswith(f"meritfair: {message}")
    assert answer.err.count("\n") == 1
    assert head(calls) == before


def test_an_encoding_can_be_said(call: Call, calls: mf.programme.Programme) -> None:
    write("people.csv", "id\nRenée\n".encode("latin-1"))
    assert call("enrol", "people.csv", "--encoding", "latin-1").code == 0
    assert calls.withdraw("Renée").taken == 1
    assert "there is no encoding 'x'" in call("enrol", "people.csv", "--encoding", "x").err


@pytest.mark.parametrize("verb", ["enrol", "report"])
def test_what_is_no_file(verb: str, call: Call, calls: mf.programme.Programme) -> None:
    before = head(calls)
    Path("folder.csv").mkdir()
    for name, message in [
        ("none.csv", "none.csv: there is no such file"),
        ("folder.csv", "folder.csv: is not a file"),
        (write("people.xlsx", "x"), "people.xlsx: participants are kept in .csv or .parquet files"),
        (write("people.parquet", "id\nEd\n"), "people.parquet: is not a Parquet file that can be read: "),
    ]:
        answer = call(verb, name)
        assert answer.code == 2
        assert message in answer.err
    assert head(calls) == before


# Reports: the text of a file, and what is known then of the action and the state of some people

REPORTS: dict[str, tuple[str | bytes, dict[str, tuple[int, int]]]] = {
    "plain": ("id,action,state\nAda,1,0\nBo,0,1\n", {"Ada": (1, 0), "Bo": (0, 1)}),
    "in part": ("id,action,state\nAda,1,\nBo,,1\n", {"Ada": (1, -1), "Bo": (-1, 1)}),
    "true and false": ("id,action,state\nAda,TRUE,false\nBo,0.0,1.0\n", {"Ada": (1, 0), "Bo": (0, 1)}),
    "blank lines": ("id,action,state\n\nAda,1,0\n,,\n", {"Ada": (1, 0)}),
    "byte order mark": (b"\xef\xbb\xbfid,state\nAda,1\n", {"Ada": (-1, 1)}),
    "semicolons": ("id;action;state\nAda;1;0\n", {"Ada": (1, 0)}),
    "Latin-1, as said": ("id;action\nMüller;1\n".encode("latin-1"), {"Müller": (1, -1)}),
    "Excel": (
        b"\xef\xbb\xbfsep=;\r\nround;id;group;staff;due;chance;action;state;reason\r\n"
        b'1;Ada;"north; or so";;0,25;0,33;1;0;\r\n1;\'=1+1;;;0,25;0,33;1;1;"a; b"\r\n',
        {"Ada": (1, 0), "=1+1": (1, 1)},
    ),
}


@pytest.mark.parametrize("kind", REPORTS)
def test_report_takes(kind: str, call: Call, calls: mf.programme.Programme) -> None:
    text, expected = REPORTS[kind]
    options = ["--encoding", "cp1252"] if "Latin" in kind else []
    answer = call("report", write("seen.csv", text), *options)
    assert answer.code == 0, answer.err
    assert answer.out == f"Round 1: took in what was seen of {len(expected)} participant{'s' * (len(expected) > 1)}.\n"
    with calls.store.reading("calls") as session:
        work = mf.programme.work.Work(session)
        _, _, action, after = work.state.seen(1)
        found = {each: (int(action[n]), int(after[n])) for each in expected for n in work.numbers([each])}
    assert found == expected


BAD_REPORTS: dict[str, tuple[str | bytes, str]] = {
    "wrong header": ("name,state\nAda,1\n", "seen.csv, line 1: lacks the column id; it has name, state"),
    "nothing said": (
        "id,outcome\nAda,1\n",
        "seen.csv: has none of the columns action, state and before; it has id, outcome",
    ),
    "unknown id": (
        "id,state\nAda,1\nBob,1\n",
        "seen.csv, line 3, column id: there is no participant 'Bob', did you mean 'Bo'?",
    ),
    "state 2": (
        "id,state\nAda,1\nBo,2\n",
        "seen.csv, line 3, column state: must be 0 (bad) or 1 (good), or empty if it was not seen, got '2'",
    ),
    "action yes": (
        "id,action\nAda,yes\n",
        "seen.csv, line 2, column action: must be 1 (reached) or 0 (not reached), or empty if it is not "
        "said, got 'yes'",
    ),
    "a word of corrections": ("id,action\nAda,unknown\n", "seen.csv, line 2, column action: must be 1 (reached)"),
    "blank cell": ("id,state\nAda,1\n,1\n", "seen.csv, line 3, column id: the cell is empty"),
    "duplicate": (
        "id,state\nAda,1\nBo,1\nAda,1\n",
        "seen.csv, line 4, column id: the participant 'Ada' is already in line 2",
    ),
    "Latin-1": ("id,state\nMüller,1\n".encode("latin-1"), "seen.csv, line 2: is not text in UTF-8"),
    "empty": ("", "seen.csv: is empty"),
    "only a header": ("id,state\n", "seen.csv: has no participants in it, only a header"),
    "two rounds": (
        "round,id,state\n1,Ada,1\n2,Bo,1\n",
        "seen.csv, line 3, column round: is 2, but 1 in line 2: hand rounds in one by one",
    ),
    "a round that there is not": ("round,id,state\n7,Ada,1\n", "round must be between 1 and 1, the last one drawn"),
    "a round that is none": ("round,id,state\nx,Ada,1\n", "seen.csv, line 2, column round: must be a number, got 'x'"),
    "a decimal comma": ("id,state,chance\nAda,1,0,25\n", "seen.csv, line 2: has 4 cells, but the header has 3 columns"),
}


@pytest.mark.parametrize("verb", ["report", "correct"])
@pytest.mark.parametrize("kind", BAD_REPORTS)
def test_report_refuses(kind: str, verb: str, call: Call, calls: mf.programme.Programme) -> None:
    text, message = BAD_REPORTS[kind]
    if verb == "correct" and kind == "a word of corrections":
        return
    before = head(calls)
    answer = call(verb, write("seen.csv", text), *["--reason", "why"] * (verb == "correct"))
    assert answer.code == 2
    assert answer.out == ""
    if verb == "correct":
        message = re.sub(", or empty if it .* got", ", the word unknown, or empty to leave it as it is, got", message)
    assert answer.err.startswith(f"meritfair: {message}")
    assert answer.err.count("\n") == 1
    assert head(calls) == before


def test_what_contradicts_the_ledger_is_refused_with_its_line(call: Call, calls: mf.programme.Programme) -> None:
    calls.report(Outcomes(["Bo"], action=[1], after=[0]))
    calls.close()
    calls.withdraw("Cy")
    calls.draw(budget=0, reason="a holiday")
    before = head(calls)
    for text, message in [
        (
            "id,state,round\nAda,1,1\nBo,1,1\n",
            "line 3, column state: the state of 'Bo' in round 1 was reported as 0, not 1: correct it if that was wrong",
        ),
        ("id,state\nAda,1\nCy,1\n", "line 3, column id: the participant 'Cy' was not enrolled in round 2"),
        (
            "id,action\nAda,0\nBo,1\n",
            "line 3, column id: 'Bo' was reached without being drawn: such an override needs a reason",
        ),
        (
            "id,action,reason\nAda,0,\nBo,1, \n",
            "line 3, column reason: 'Bo' was reached without being drawn: such an override needs a reason",
        ),
    ]:
        answer = call("report", write("seen.csv", text))
        assert answer.code == 2
        assert answer.err.startswith(f"meritfair: seen.csv, {message}")
    assert head(calls) == before
    answer = call("report", write("seen.csv", "id,action,reason\nBo,1,came by\n"), "--by", "")
    assert "such an override needs the name of who reports it" in answer.err
    assert call("report", "seen.csv").out.endswith("1 override: reached without being drawn, with a reason.\n")


def test_the_round_of_a_file_counts_and_may_not_contradict(call: Call, calls: mf.programme.Programme) -> None:
    calls.close()
    calls.draw()
    write("seen.csv", "round,id,state\n1,Ada,1\n,Bo,0\n")
    answer = call("report", "seen.csv", "--round", 2)
    assert answer.err == "meritfair: seen.csv: is about round 1, as its column round says, not about 2\n"
    assert json.loads(call("report", "seen.csv", "--json").out)["round"] == 1
    assert json.loads(call("report", write("late.csv", "id,state\nAda,0\n"), "--json").out)["round"] == 2


def test_corrections_take_values_back(call: Call, calls: mf.programme.Programme) -> None:
    calls.report(Outcomes(["Ada", "Bo"], action=[1, 1], after=[0, 1]))
    write("fixed.csv", "id,action,state\nAda,,unknown\nBo,0, UNKNOWN \n")
    answer = call("correct", "fixed.csv", "--reason", "mixed up")
    assert answer.out == "Round 1: corrected what is known of 2 participants.\n"
    with calls.store.reading("calls") as session:
        seen = mf.programme.work.Work(session).state.seen(1)
    assert seen[2:, :2].tolist() == [[1, 0], [-1, -1]]
    assert "1 row changed nothing" in call("correct", write("one.csv", "id,action\nBo,0\n"), "--reason", "again").out
    assert "a correction needs a reason" in call("correct", "fixed.csv").err
    assert "a correction needs the name of who does it: --by NAME" in call("correct", "fixed.csv", "--by", "").err


@pytest.mark.slow
def test_parquet_goes_in_and_out(call: Call, calls: mf.programme.Programme) -> None:
    pq.write_table(pa.table({"id": [17, 18], "group": ["north", None]}), "people.parquet")
    assert call("enrol", "people.parquet").code == 0
    calls.close()
    assert call("draw", "--out", "calls.parquet", "-k", 8, "--reason", "more hands").code == 0
    table = pq.read_table("calls.parquet").to_pydict()
    assert table["id"] == [*IDS, "17", "18"]
    assert table["action"] == [None] * 8
    pq.write_table(pa.table({**table, "action": [1.0] * 7 + [None], "state": [0] * 8}), "calls.parquet")
    assert "took in what was seen of 8 participants" in call("report", "calls.parquet").out
    pq.write_table(pa.table({"id": ["17", "19"], "state": [1, 1]}), "more.parquet")
    assert "more.parquet, line 2, column id: there is no participant '19'" in call("report", "more.parquet").err


def test_the_list_of_a_draw_is_no_formula_and_can_be_handed_back(call: Call, calls: mf.programme.Programme) -> None:
    answer = call("draw", "--out", "calls.csv")
    assert answer.out.endswith("wrote calls.csv\n")
    with Path("calls.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert list(rows[0]) == ["round", "id", "group", "staff", "due", "chance", "action", "state", "reason"]
    assert rows[-1]["id"] == "'=1+1"
    assert {row["chance"] for row in rows} == {"1.0"}
    assert call("report", "calls.csv").out == "Round 1: 6 rows said nothing new; the ledger stays as it was.\n"
    with Path("calls.csv").open("w", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(row | {"action": "1", "state": "0"} for row in rows)
    answer = call("report", "calls.csv")
    assert answer.out == "Round 1: took in what was seen of 6 participants.\n"
    assert answer.err == ""


def test_states_before_a_draw(call: Call, calls: mf.programme.Programme) -> None:
    calls.close()
    write("now.csv", "id,state\nAda,1\nBo,\nCy,0\n")
    assert call("draw", "--states", "now.csv").code == 0
    assert [each.state for each in calls.round().people] == [1, -1, 0, -1, -1, -1]
    calls.close()
    calls.withdraw("Bo")
    before = head(calls)
    for text, message in [
        ("id,state\nAda,1\nBo,1\n", "now.csv, line 3, column id: the participant 'Bo' is not enrolled now"),
        ("id\nAda\n", "now.csv, line 1: lacks the column state; it has id"),
        ("id,state\nAda,2\n", "now.csv, line 2, column state: must be 0 (bad) or 1 (good)"),
    ]:
        for options in ([], ["--dry-run"]):
            assert call("draw", "--states", write("now.csv", text), *options).err.startswith(f"meritfair: {message}")
    assert head(calls) == before


def test_people_named_in_a_file(call: Call, calls: mf.programme.Programme) -> None:
    write("gone.csv", "ID;since\nAda;May\nBo;June\n")
    assert call("away", "--file", "gone.csv").out == "2 participants are away from now on.\n"
    assert call("away", "--file", "gone.csv", "--back").out == "2 participants are back from now on.\n"
    assert call("withdraw", "--file", "gone.csv").out == "2 participants left calls.\n"
    answer = call("withdraw", "-f", "gone.csv")
    assert answer.err == "meritfair: gone.csv, line 2, column id: the participant 'Ada' is not enrolled now\n"
    assert call("withdraw", "Cy", "--file", "gone.csv").err.endswith("with --file, not both\n")
    assert call("away").err == "meritfair: say who: ids, or a file of them with --file\n"


def test_features_must_be_in_the_file_and_may_have_decimal_commas(command: Call, tmp_path: Path) -> None:
    store = ["--store", tmp_path / "more.db"]
    assert command("programme", "create", "more", "-k", 1, "--features", "age,weight", *store).code == 0
    file = tmp_path / "people.csv"
    file.write_text("id,age\nEd,34\n")
    assert "line 1: lacks the column weight; it has id, age" in command("programme", "enrol", file, *store).err
    file.write_text("id;age;weight\nEd;34;71,5\nFlo;;60\n")
    assert command("programme", "enrol", file, *store).code == 0
    with mf.programme.open(str(store[1])).store.reading("more") as session:
        assert mf.programme.work.Work(session).state.texts("weight") == ["71.5", "60"]


def test_readers_of_the_library(tmp_path: Path) -> None:
    file = tmp_path / "people.csv"
    file.write_text("id,group,age,state,before\nAda,north,34,1,0\nBo,,,,\n")
    people = read_people(file, ["age"])
    assert isinstance(people.value, People)
    assert (people.value.ids, people.value.group, people.value.staff) == (["Ada", "Bo"], ["north", ""], None)
    assert people.value.features == {"age": ["34", ""]}
    assert people.table.ignored == ["state", "before"]
    outcomes = read_outcomes(file)
    assert (outcomes.value.after.tolist(), outcomes.value.before.tolist()) == ([1, -1], [0, -1])
    assert outcomes.round is None
    assert read_states(file).value.before.tolist() == [1, -1]
    assert read_ids(file).value == ["Ada", "Bo"]


@pytest.mark.slow
def test_many_rows(call: Call, calls: mf.programme.Programme) -> None:
    with Path("many.csv").open("w") as stream:
        stream.write("id,group,staff\n")
        stream.writelines(f"P{i},g{i % 5},s{i % 9}\n" for i in range(100_000))
    assert "Enrolled 100,000 participants" in call("enrol", "many.csv").out
    answer = call("enrol", write("again.csv", "id\nEd\nP99999\n"))
    assert answer.err == "meritfair: again.csv, line 3, column id: the participant 'P99999' is enrolled already\n"
