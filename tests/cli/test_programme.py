"""`meritfair programme`, as a coordinator uses it."""

from __future__ import annotations

import csv
import hashlib
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import meritfair as mf
from meritfair.cli.programme import app
from meritfair.programme.work import Work

PEOPLE = "id,group,staff,age\n" + "".join(
    f"P{i},{'north' if i % 2 else 'south'},Nurse {'Ama' if i < 6 else 'Kofi'},{20 + i}\n" for i in range(1, 13)
)
HASH = "0" * 64
Call = Callable[..., Any]


@pytest.fixture
def call(command: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MERITFAIR_STORE", "calls.db")
    monkeypatch.setenv("MERITFAIR_BY", "Dr. Osei")
    monkeypatch.setenv("COLUMNS", "100")
    Path("people.csv").write_text(PEOPLE)
    Path("seen.csv").write_text("id,state\nP1,1\n")
    return lambda *words: command("programme", *words)


@pytest.fixture
def clinic(call: Call) -> mf.programme.Programme:
    """A programme of twelve people, of whom three are drawn by plain lot."""
    assert call("create", "clinic", "--budget", 3, "--policy", "random").code == 0
    assert call("enrol", "people.csv").code == 0
    return mf.programme.open("calls.db", "clinic")


def read(name: str) -> list[dict[str, str]]:
    with Path(name).open(newline="") as stream:
        return list(csv.DictReader(stream))


def write(name: str, rows: list[dict[str, str]]) -> None:
    with Path(name).open("w", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def fill_in(name: str, **cells: str) -> None:
    write(name, [row | cells for row in read(name)])


def test_help_names_every_command_and_how_to_begin(call: Call) -> None:
    answer = call("--help")
    for command in app.registered_commands:
        assert f" {command.name} " in answer.out
    assert "meritfair programme demo" in answer.words
    assert "env var: MERITFAIR_STORE" in call("draw", "--help").words


@pytest.mark.slow
def test_a_round_from_nothing_to_its_end(call: Call) -> None:
    assert "There is no programme in " in call("list").out
    made = call("create", "clinic", "-k", 3, "--policy", "random", "--cooldown", 1, "--features", "age")
    assert made.code == 0
    for text in ("Created clinic in calls.db", "budget 3", "rules cooldown 1", "features age"):
        assert text in made.words.replace("  ", " ")
    assert "Hash of the secret: " in made.out
    assert "Next: meritfair programme enrol people.csv" in made.out
    assert "Enrolled 12 participants in clinic." in call("enrol", "people.csv").out
    drawn = call("draw", "--out", "calls.csv")
    assert "clinic, round 1: 3 of 12 are drawn." in drawn.out
    programme = mf.programme.open("calls.db")
    assert f"Head of the ledger: {programme.status().head}" in drawn.out
    assert "Keep this hash elsewhere" in drawn.out
    for each in programme.round().people:
        assert f"{each.id} " in drawn.out
        assert "0.250" in drawn.out
    fill_in("calls.csv", action="1", state="0")
    assert call("report", "calls.csv").out == "Round 1: took in what was seen of 3 participants.\n"
    status = call("status")
    assert "3, 3 of them reported" in status.words
    assert "Next: Close round 1." in status.out
    assert call("close").out == "Round 1 of clinic is closed.\n"
    assert "The ledger is whole: 6 entries, 1 round, 1 draw checked." in call("verify").out
    assert "clinic 1 closed 12" in " ".join(call("list").words.split())


def test_a_draw_asked_for_again_is_the_same(call: Call, clinic: mf.programme.Programme) -> None:
    first = json.loads(call("draw", "--json").out)
    again = call("draw")
    assert f"Round 1 was drawn already, at {first['time']}; this is its list again." in again.out
    assert json.loads(call("draw", "--json").out) == first
    assert "round 1 is drawn already, and there is one draw for each round" in call("draw", "-k", 4).err
    assert "'P1' was not away in it" in call("draw", "--away", "P1").err


def test_a_dry_run_draws_nothing(call: Call, clinic: mf.programme.Programme) -> None:
    before = clinic.status().head
    answer = call("draw", "--dry-run", "--budget", 6, "--out", "due.csv")
    assert "If clinic were drawn now: 6 people of 12. Nothing is drawn, nothing is kept." in answer.words
    assert answer.out.count("0.5000") == 24
    rows = read("due.csv")
    assert [row["id"] for row in rows] == [f"P{i}" for i in range(1, 13)]
    assert {(row["due"], row["chance"], row["state"]) for row in rows} == {("0.5", "0.5", "")}
    values = json.loads(call("draw", "--dry-run", "--json").out)
    assert values["budgets"] == [3]
    assert clinic.status().head == before
    assert "--dry-run goes with" in call("draw", "--dry-run", "--away", "P1").err


@pytest.mark.slow
def test_many_are_taken_out_for_a_reason_and_the_audit_says_so(call: Call, clinic: mf.programme.Programme) -> None:
    many = [f"P{number}" for number in range(4, 13)]
    for verb in (["away", *many], ["withdraw", *many], ["draw", "--away", ",".join(many)]):
        answer = call(*verb)
        assert answer.code != 0
        assert "9 of 12 participants would be taken out since the last draw" in answer.err
        assert "--reason" in answer.err
    assert "the budget for round 1 alone is 0, and that of the settings 3" in call("draw", "-k", 0).err
    assert call("draw", "--away", ",".join(many), "--reason", "a flood").code == 0
    assert call("close").code == 0
    assert call("away", *many, "--back").code == 0
    answer = call("audit", "--html", "audit.html", "--unverified")
    assert answer.out.startswith("3 of the 3 draws of 1 round were not left to chance")
    assert "“a flood”" in answer.words
    assert "Could anyone have steered this?" in Path("audit.html").read_text()
    found = json.loads(call("audit", "--unverified", "--json").out)["steering"]
    assert (found["answer"], found["findings"][0]["by"]) == ("not-chance", ["Dr. Osei"])


def test_who_is_away_is_not_drawn_and_somebody_said_so(call: Call, clinic: mf.programme.Programme) -> None:
    assert call("away", "P1", "P2").out == "2 participants are away from now on.\n"
    assert call("away", "P2", "P3").out == "1 participant is away from now on. 1 other already was.\n"
    assert call("away", "P3", "--back").out == "1 participant is back from now on.\n"
    drawn = json.loads(call("draw", "--away", "P4,P5", "-k", 8, "--reason", "an open day", "--json").out)
    assert {each["id"] for each in drawn["people"]} == {"P3", *(f"P{i}" for i in range(6, 13))}
    assert drawn["away"] == 4
    assert "there is no participant 'P77'" in call("away", "P77").err
    unsigned = "a change of who is away needs the name of who does it"
    assert f"{unsigned}: --by NAME, or the variable MERITFAIR_BY" in call("away", "P6", "--by", "").err
    assert call("close").code == 0
    assert unsigned in call("draw", "--away", "P6", "--by", "").err


def test_leaving_coming_back_and_being_erased(call: Call, clinic: mf.programme.Programme) -> None:
    assert "someone who is enrolled must be withdrawn before" in call("erase", "P1", "--yes").err
    assert call("withdraw", "P1", "P2").out == "2 participants left clinic.\n"
    answer = call("erase", "P1")
    assert (answer.code, "It cannot be undone: say --yes to do it" in answer.err) == (2, True)
    assert call("erase", "P1", "--yes").out.startswith("Erased.")
    assert "there is no participant 'P1'" in call("person", "P1").err
    Path("back.csv").write_text("id\nP2\n")
    assert call("enrol", "back.csv").code == 0
    assert call("verify").code == 0
    assert "11 enrolled; 1 have left" in call("status").words


def test_settings_change_with_a_reason(call: Call, clinic: mf.programme.Programme) -> None:
    answer = call("change", "--budget", "5,0", "--cooldown", 1, "--reason", "a new nurse")
    assert "clinic from round 1 on:" in answer.out
    assert "budget 5,0" in answer.words.replace("  ", " ")
    assert clinic.status().rules == "cooldown 1"
    assert call("change", "--once", "--reason", "x").code == 0
    assert clinic.status().rules == "cooldown 1, once"
    assert "a change of settings needs a reason" in call("change", "--budget", 2).err
    assert "say what changes: --budget" in call("change", "--reason", "x").err
    assert "there is no part 'calls'" in call("change", "--part", "calls", "-k", 2, "--reason", "x").err


def test_a_key_is_done_once(call: Call, clinic: mf.programme.Programme) -> None:
    Path("one.csv").write_text("id\nEd\n")
    first = json.loads(call("enrol", "one.csv", "--key", "k1", "--json").out)
    assert json.loads(call("enrol", "one.csv", "--key", "k1", "--json").out) == first
    Path("one.csv").write_text("id\nFlo\n")
    answer = call("enrol", "one.csv", "--key", "k1")
    assert (answer.code, "the key 'k1' was used before, for another request" in answer.err) == (2, True)


def test_a_public_value_decides(call: Call, clinic: mf.programme.Programme) -> None:
    assert call("change", "--source", "the lottery of Saturday", "--reason", "more trust").code == 0
    answer = call("draw", "--out", "calls.csv")
    assert "Round 1 is committed, and waits for the lottery of Saturday. Nobody is drawn yet." in answer.out
    assert not Path("calls.csv").exists()
    assert "Round 1 waits for its public value" in call("status").out
    assert "waits for the lottery of Saturday. Nobody is drawn yet." in call("draw").out
    assert "must be hexadecimal of 16 to 1024 bytes" in call("draw", "--value", "12").err
    assert "clinic, round 1: 3 of 12 are drawn." in call("draw", "--value", "2 5 12 8 10 41 /").out
    assert call("close").code == 0
    assert "1 draw of 1 rests on a public value that no program can check" in call("verify").out
    assert call("change", "--source", "drand", "--reason", "can be checked").code == 0
    answer = call("draw")
    assert "Round 2 is committed, and waits for drand quicknet round " in answer.out
    assert "/public/" in answer.out
    with clinic.store.reading("clinic") as session:
        assert json.loads(list(session.entries())[-1][1])["body"]["source"]["kind"] == "drand-quicknet"


def test_verify_finds_a_head_that_is_gone(call: Call, clinic: mf.programme.Programme) -> None:
    head = clinic.status().head
    assert call("draw").code == 0
    answer = call("verify", "--head", head)
    assert (answer.code, "It holds 1 head that was kept elsewhere." in answer.out) == (0, True)
    answer = call("verify", "--head", head, "--head", HASH)
    assert answer.code == 1
    assert f"The ledger is not whole. the head {HASH} is not in the ledger" in answer.out
    values = json.loads(call("verify", "--head", HASH, "--json").out)
    assert values["whole"] is False
    assert HASH in values["problems"][0]["text"]


def test_export_check_and_import_with_the_same_head(call: Call, clinic: mf.programme.Programme) -> None:
    assert call("draw").code == 0
    assert call("close").code == 0
    answer = call("export", "open", "--anonymous")
    assert "Nothing in it says who the participants are." in answer.out
    assert not any(b"P10" in file.read_bytes() for file in Path("open").rglob("*") if file.is_file())
    checked = subprocess.run([sys.executable, "open/verify.py"], capture_output=True, text=True, check=True)
    assert clinic.status().head in checked.stdout
    assert "private.json in it has ids, reasons and the secret" in call("export", "moving").words
    moved = call("import", "moving", "--store", "other.db")
    assert "Imported clinic: 5 entries." in moved.out
    assert clinic.status().head in moved.out
    assert call("import", "moving", "--name", "second", "--store", "other.db").code == 0
    listed = json.loads(call("list", "--store", "other.db", "--json").out)
    assert [each["name"] for each in listed["programmes"]] == ["clinic", "second"]
    assert "say which: clinic, second" in call("status", "--store", "other.db").err
    assert call("draw", "--store", "other.db", "-p", "second").code == 0
    assert "moving: is not empty" in call("export", "moving").err
    assert "private.json: there is no such file" in call("import", "open", "--store", "third.db").err


def test_the_proof_of_one_person(call: Call, clinic: mf.programme.Programme) -> None:
    assert call("draw").code == 0
    assert "P3 has " in call("proof", "P3", "--out", "P3.json").out
    assert call("export", "open", "--anonymous").code == 0
    command = [sys.executable, "open/verify.py", "--proof", "P3.json"]
    assert "P3" in subprocess.run(command, capture_output=True, text=True, check=True).stdout
    content = Path("P3.json").read_text()
    assert not any(f'"P{i}"' in content for i in range(1, 13) if i != 3)
    assert Path("P3.json").stat().st_mode & 0o077 == 0
    assert "proofs are kept in .json files" in call("proof", "P3", "--out", "P3.csv").err


def test_the_end_tells_the_secret(call: Call, clinic: mf.programme.Programme) -> None:
    assert call("draw").code == 0
    assert "round 1 must be closed" in call("end", "--yes").err
    assert call("close").code == 0
    assert "say --yes" in call("end").err
    assert "to end a programme needs the name" in call("end", "--yes", "--by", " ").err
    values = json.loads(call("end", "--yes", "--json").out)
    with clinic.store.reading("clinic") as session:
        assert values["secret"] == session.secret[:32].hex()
    assert call("draw").err == "meritfair: the programme has ended\n"
    assert call("verify").code == 0


def test_a_trial(call: Call) -> None:
    Path("protocol.txt").write_text("What we will do.")
    arms = ["--arm", "calls:budget=3,policy=random", "--arm", "control:policy=none,budget=0,share=2"]
    made = call("create", "trial", "--trial", "protocol.txt", *arms, "--features", "age", "--strata", "age")
    assert made.code == 0, made.err
    for text in ("budget of calls 3", "policy of control none", "strata age"):
        assert text in " ".join(made.out.split())
    assert call("enrol", "people.csv").code == 0
    assert "in a trial a budget is given by part" in call("draw", "-k", 2).err
    drawn = json.loads(call("draw", "-k", "calls=2", "--reason", "a nurse is ill", "--json").out)
    with mf.programme.open("calls.db").store.reading("trial") as session:
        _, entry, _ = next(session.entries())
        members = int((Work(session).state.part == 0).sum())  # as chance has it
    assert len(drawn["people"]) == min(2, members)
    assert json.loads(entry)["body"]["trial"]["protocol"] == hashlib.sha256(b"What we will do.").hexdigest()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["create", "x"], "say how many are drawn in a round: --budget 40"),
        (["create", "x", "-k", "1.5"], "must be a whole number, or several as in 4,4,0, got '1.5'"),
        (["create", "x", "-k", "2", "--policy", "merit-fare"], "no policy 'merit-fare', did you mean 'merit-fair'?"),
        (["create", "x", "-k", "2", "--policy", "whittle"], "knows the true transition probabilities"),
        (["create", "x", "-k", "2", "--floor", "2"], "floor must lie between 0 and 1, got 2"),
        (["create", "x", "-k", "2", "--forget", "0"], "forget must"),
        (["create", "x", "-k", "2", "--arm", "a:budget=1"], "name its protocol with --trial FILE"),
        (["create", "x", "--trial", "people.csv", "--arm", "a:budget=1"], "a trial has two arms or more"),
        (["create", "x", "--trial", "none.pdf", "--arm", "a:budget=1", "--arm", "b:budget=0"], "there is no such file"),
        (["create", "x", "--trial", "people.csv", "--arm", "a:k=1", "--arm", "b:budget=0"], "has no setting 'k'"),
        (["create", "x", "--trial", "people.csv", "--arm", "a", "--arm", "b:budget=0"], "has a name and a budget"),
        (
            ["create", "x", "--trial", "people.csv", "--arm", "a:budget=2:x", "--arm", "b:budget=0"],
            "a budget is a whole number, or several as in 40:40:0, got '2:x'",
        ),
        (
            ["create", "x", "-k", "1", "--trial", "people.csv", "--arm", "a:budget=1", "--arm", "b:budget=0"],
            "in a trial each arm has its own budget and policy",
        ),
        (["create", "x", "-k", "2", "--history", "people.csv"], "people.csv, line 1: lacks the columns arm, round"),
        (["create", "clinic", "-k", "2"], "there is already a programme 'clinic'"),
        (["draw", "-p", "other"], "there is no programme 'other'; there are 'clinic'"),
        (["draw", "-k", "many"], "--budget is a whole number, or calls=40,control=0 in a trial, got 'many'"),
        (["draw", "-k", "-1"], "budget must be between 0 and"),
        (["draw", "--value", "00"], "a public value finishes a draw that was committed to its source"),
        (["draw", "--out", "calls.xlsx"], "calls.xlsx: lists are kept in .csv or .parquet files"),
        (["report", "seen.csv"], "there is no round to report on yet"),
        (["close"], "no round is open"),
        (["status", "--store", "none.db"], "none.db yet: meritfair programme create makes one"),
        (["status", "--store", "mysql://x/y"], "a store is PATH, sqlite:///PATH or postgresql://"),
        (["status", "--store", "people.csv"], "people.csv"),
        (["effect"], "there was no draw yet"),
        (["audit"], "there was no draw yet"),
        (["person", "P99"], "there is no participant 'P99'"),
        (["person", "P1", "--html", "P1.pdf"], "a report is an .html file"),
        (["dance"], "No such command"),
    ],
)
def test_a_mistake_is_one_clear_line(
    words: list[str], message: str, call: Call, clinic: mf.programme.Programme
) -> None:
    before = clinic.status().head
    answer = call(*words)
    assert answer.code == 2
    assert answer.out == ""
    assert message in answer.err
    assert answer.err.count("\n") == 1
    assert clinic.status().head == before
    assert not Path("none.db").exists()


def test_history_is_where_it_starts(call: Call) -> None:
    log = mf.datasets.clinic(n_arms=12, rounds=6, budget=3, seed=1)
    log.save("log.csv")
    rows = [{**row, "group": row["district"]} for row in read("log.csv")]
    write("log.csv", rows)
    made = call("create", "clinic", "-k", 3, "--history", "log.csv", "--features", "age")
    assert "enrolled 12" in made.words.replace("  ", " ")
    assert "Next: meritfair programme draw" in made.out
    with mf.programme.open("calls.db").store.reading("clinic") as session:
        state = mf.programme.work.Work(session).state
        assert state.summary.before == 6
        assert set(state.texts("group")) == {row["district"] for row in rows}


def test_pseudonyms_are_kept_instead_of_ids(call: Call) -> None:
    assert call("create", "secret", "-k", 2, "--policy", "random", "--pseudonymise").code == 0
    assert call("enrol", "people.csv").code == 0
    drawn = json.loads(call("draw", "--json").out)
    assert all(each["id"].startswith("p-") for each in drawn["people"])
    assert call("draw", "--out", "calls.csv").code == 0
    fill_in("calls.csv", action="1", state="0")
    assert call("report", "calls.csv").out == "Round 1: took in what was seen of 2 participants.\n"
    assert call("draw", "--out", "who.csv", "--resolve", "people.csv").code == 0
    ids = [row["id"] for row in read("who.csv")]
    assert len({*ids} & {f"P{i}" for i in range(1, 13)}) == 2
    assert call("person", ids[0]).out.startswith(f"{ids[0]} in secret\nIn round 1, ")
    fill_in("who.csv", action="1", state="0")
    assert "2 rows said nothing new" in call("report", "who.csv").out
    assert call("away", "P3").code == 0
    assert b"P11" not in Path("calls.db").read_bytes()


def test_nothing_controls_the_terminal(call: Call) -> None:
    for name in ("\x1b[31mred", "", "x" * 101):
        answer = call("create", name, "-k", "1")
        assert answer.code == 2
        assert answer.err.startswith(
            "meritfair: the name of a programme has 1 to 100 characters, all of which can be seen"
        )
        assert "\x1b" not in answer.err
    assert not Path("calls.db").exists()
    mf.programme.open("calls.db", "red").create(1, "random", by="\x1b[32m")
    for words in (["list"], ["status"], ["enrol", "people.csv"], ["draw"], ["verify"], ["status", "-p", "\x1b[31m"]):
        answer = call(*words)
        assert "\x1b" not in answer.out + answer.err


@pytest.mark.slow
def test_one_person_and_the_board(call: Call, clinic: mf.programme.Programme) -> None:
    for _ in range(3):
        assert call("draw", "--out", "calls.csv").code == 0
        fill_in("calls.csv", action="1", state="1")
        assert call("report", "calls.csv").code == 0
        assert call("close").code == 0
    answer = call("person", "P3", "--html", "P3.html")
    assert answer.out.startswith("P3 in clinic\nIn round 3, ")
    assert "wrote P3.html" in answer.out
    assert "P3" in Path("P3.html").read_text()
    assert json.loads(call("person", "P3", "--round", 2, "--json").out)["round"] == 2
    answer = call("audit", "--html", "audit.html", "--out", "audit.csv")
    assert answer.out.startswith("Nothing speaks against the 9 draws of 3 rounds")
    assert {line.split()[0] for line in answer.out.splitlines() if line.strip()} >= {"north", "south"}
    assert len(read("audit.csv")) == 12
    assert json.loads(call("audit", "--json").out)["verification"]["whole"] is True
    assert json.loads(call("audit", "--unverified", "--json").out)["verification"] is None


@pytest.mark.slow
def test_the_effect_is_that_of_the_log(call: Call, clinic: mf.programme.Programme) -> None:
    for week in range(30):
        everyone = [f"P{i}" for i in range(1, 13)]
        drawn = clinic.draw().ids
        action = [int(each in drawn) for each in everyone]
        after = [int(week % 3 == 0 or a == 1) for a in action]
        clinic.report(mf.programme.Outcomes(everyone, action, after))
        clinic.close()
    values = json.loads(call("effect", "--group", "group", "--json", "--html", "effect.html").out)
    found = mf.effect(clinic.log(), group="group")
    assert values["effect"]["estimate"] == found.estimate
    assert [row["group"] for row in values["groups"]] == ["north", "south"]
    assert call("effect").out.startswith("A pull raises the chance of a good next state by ")
    assert Path("effect.html").exists()


@pytest.mark.slow
def test_a_demonstration_has_all_that_happens(call: Call) -> None:
    answer = call("demo", "--participants", 40, "--rounds", 8, "--seed", 5)
    assert answer.code == 0, answer.err
    assert "Made demo in calls.db: 40 people, 8 weeks." in answer.out
    assert "meritfair programme audit --html audit.html" in answer.out
    assert call("verify").code == 0
    assert call("audit").code == 0
    assert "there is already a programme 'demo'" in call("demo").err
    values = json.loads(call("demo", "-n", 40, "--rounds", 30, "--seed", 5, "--name", "long", "--json").out)
    assert values["weeks"] == 30
    for what in ("joined", "left", "returned", "away", "overrides", "late", "lost", "corrections"):
        assert values[what] > 0, what
    assert call("person", values["waited"], "-p", "long").code == 0
    assert call("verify", "-p", "long").code == 0
    assert "participants must be between 10 and 1000000, got 3" in call("demo", "-n", 3, "--name", "x").err


@pytest.mark.parametrize("name", ["CLINIC", "clinic ", "cli\u200bnic"])
def test_no_second_programme_that_looks_alike(call: Call, clinic: mf.programme.Programme, name: str) -> None:
    made = call("create", name, "-k", 2)
    assert made.code != 0
    assert "already a programme 'clinic'" in made.err or "all of which can be seen" in made.err
    assert clinic.store.names() == ["clinic"]
