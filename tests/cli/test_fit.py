"""`meritfair fit`, as a person or a script uses it."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import meritfair as mf
from meritfair.datasets.logs import read_log
from meritfair.fitting import fit


@pytest.fixture
def call(command: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)
    return partial(command, "fit")


def write_log(n_arms: int, rounds: int = 30, name: str = "log.csv") -> Path:
    """Write a log in the current folder; of the last arm only one row."""
    rng = np.random.default_rng(1)
    lines = ["arm,round,state,action"]
    for arm in range(1, n_arms + 1):
        length = rounds if arm < n_arms else 1
        lines += [f"person-{arm},{t},{rng.integers(2)},{rng.integers(2)}" for t in range(length)]
    file = Path(name)
    file.write_text("\n".join(lines) + "\n")
    return file


def test_a_table_for_people(call: Any) -> None:
    write_log(4)
    answer = call("log.csv", "--budget", "2")
    assert answer.code == 0
    told = " ".join(answer.out.split())
    assert told.startswith("4 arms, 2 pulled at each step · 87 transitions · merit exponential:c=3 · design exact")
    for words in (
        "benefit and",
        "95 % interval",
        "Benefit: long-run share of good states",
        "log.csv: 91 rows of 4 arms; 0 gaps; 1 arm without transitions",
    ):
        assert words in told
    rows = [line.split() for line in answer.out.splitlines() if line.startswith("person-")]
    expected = sorted(fit(read_log("log.csv"), budget=2).rows(), key=lambda row: -row["exposure"])
    assert [row[0] for row in rows] == [row["arm"] for row in expected]
    for cells, row in zip(rows, expected, strict=True):
        assert [int(cells[1]), int(cells[2])] == [row["seen"], row["pulled"]]
        keys = ["benefit", "benefit_low", "benefit_high", "exposure", "exposure_low", "exposure_high"]
        numbers = [float(cell) for cell in cells[3:] if cell != "to"]
        np.testing.assert_allclose(numbers, [row[key] for key in keys], atol=0.0051)
    assert max(len(line.rstrip()) for line in answer.out.splitlines()) <= 80


def test_outcomes_like_nobody_elses_are_named_and_nobody_is_accused(call: Any) -> None:
    rng, rounds, seen = np.random.default_rng(2), 41, (0, 0)
    lines = ["arm,round,state,action"]
    for arm in range(15):
        actions = rng.integers(0, 2, rounds)
        states = np.append(0, actions[:-1]) if arm == 3 else rng.integers(0, 2, rounds)  # person-3: good after pulls
        lines += [f"person-{arm},{t},{states[t]},{actions[t]}" for t in range(rounds)]
        if arm == 3:
            seen = int(actions[:-1].sum()), int((1 - actions[:-1]).sum())
    Path("log.csv").write_text("\n".join(lines) + "\n")
    told = " ".join(call("log.csv").out.split())
    counted = f"person-3 (good {seen[0]} of {seen[0]} times after a pull, 0 of {seen[1]} times otherwise)"
    assert f"Outcomes improbable beside those of the others: {counted}. If all are alike" in told
    assert "It does not say why" in told
    (row,) = json.loads(call("log.csv", "--json").out)["improbable"]
    assert (row["arm"], row["good_pulled"], row["pulled"], row["good_unpulled"]) == ("person-3", seen[0], seen[0], 0)


def test_many_arms_are_cut_off_and_say_so(call: Any) -> None:
    write_log(150)
    answer = call("log.csv")
    rows = [line.split() for line in answer.out.splitlines() if line.startswith("person-")]
    assert len(rows) == 20
    assert "… and 130 more with no more exposure; --out FILE keeps all." in answer.out
    assert len(rows[0][-1]) == len("0.0123")  # small exposures get more digits
    exposures = [float(row[-4]) for row in rows]
    assert exposures == sorted(exposures, reverse=True)
    assert "all are in people.csv." in call("log.csv", "--out", "people.csv").out
    assert len(mf.datasets.read_arms("people.csv").names) == 150


def test_json_has_the_numbers_of_the_library(call: Any) -> None:
    write_log(5)
    options = ["-k", "2", "--merit", "affine", "--design", "systematic", "--floor", "0.1", "--cap", "0.8"]
    told = json.loads(call("log.csv", *options, "--level", "0.5", "--seed", "7", "--json").out)
    log = read_log("log.csv")
    direct = fit(log, criterion=mf.Criterion(mf.Affine(), "systematic", 0.1, 0.8), budget=2, level=0.5, seed=7)
    assert told["arms"] == direct.rows()
    assert told["settings"] == direct.settings
    assert told["improbable"] == []
    missing = told["log"].pop("missing")
    assert (missing["p_value"], missing["uneven"]) == (1.0, False)
    assert told["log"] == {
        "rows": 121,
        "arms": 5,
        "transitions": 116,
        "gaps": 0,
        "unobserved": 0,
        "bridged": 0,
        "rows_added": 0,
        "first_round": 0,
        "last_round": 29,
        "round_length": None,
    }
    assert told["files"] == []


def test_results_and_figure_are_kept(call: Any) -> None:
    write_log(5)
    answer = call("log.csv", "--out", "people.parquet", "--plot", "people.png")
    assert answer.code == 0
    assert "wrote people.parquet\nwrote people.png\n" in answer.out
    assert Path("people.png").read_bytes().startswith(b"\x89PNG")
    assert pq.read_table("people.parquet").to_pylist() == fit(read_log("log.csv")).rows()


def test_gaps_and_unseen_arms_are_told(call: Any) -> None:
    Path("log.csv").write_text("arm,round,state,action\nAda,1,0,1\nAda,2,1,\nAda,4,1,\nBo,1,0,\nCy,9,1,\n")
    told = " ".join(call("log.csv").out.split())
    assert "5 rows of 3 arms; 1 gap, across which nothing is counted; 2 arms without transitions" in told
    Path("one.csv").write_text("arm,round,state,action\nAda,1,0,\n")
    assert "1 row of 1 arm; 0 gaps; 1 arm without transitions" in " ".join(call("one.csv").out.split())


def test_rounds_that_are_dates_say_how_long_one_is(call: Any) -> None:
    rows = ["Ada,20260302,0,1", "Ada,20260309,1,0", "Ada,20260323,1,0", "Ada,20260330,0,"]
    Path("log.csv").write_text("\n".join(["arm,round,state,action", *rows]))
    told = " ".join(call("log.csv").out.split())
    assert "4 rows of 1 arm; from 2026-03-02 to 2026-03-30, a round is 7 days; 1 gap" in told
    numbers = json.loads(call("log.csv", "--json").out)["log"]
    assert (numbers["transitions"], numbers["first_round"], numbers["round_length"]) == (2, "2026-03-02", "7 days")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Missing argument 'LOG'"),
        (["none.csv"], "none.csv: there is no such file"),
        (["log.xlsx"], "log.xlsx: observations are kept in .csv or .parquet files"),
        (["bad.csv"], "or 1 (good), or false or true, or empty if not observed, got '2'"),
        (["log.csv", "-k", "5"], "budget must be between 1 and the 4 arms, got 5"),
        (["log.csv", "-k", "two"], "'--budget' / '-k': must be a whole number, got 'two'"),
        (["log.csv", "--level", "95"], "level must lie strictly between 0 and 1, got 95.0"),
        (["log.csv", "--seed", "-1"], "seed must be at least 0, got -1"),
        (["log.csv", "--floor", "0.5"], "floors must add up to at most the budget of 1, got 2"),
        (["log.csv", "--cap", "high"], "'--cap': must be a number, got 'high'"),
        (["log.csv", "--design", "sequential", "--cap", "0.5"], "floor and cap need the design 'exact'"),
        (["log.csv", "--design", "sistematic"], "did you mean 'systematic'?"),
        (["log.csv", "--estimate", "pool"], "estimate must be one of mean, pooled, got 'pool'"),
        (["log.csv", "--merit", "exponental"], "did you mean 'exponential'?"),
        (["log.csv", "--out", "people.xlsx"], "people.xlsx: fits are kept in .csv or .parquet files"),
        (["num.csv"], "no transitions: the next round must be one more, but rounds step by 7"),
        (["log.csv", "--plot", "people.gif"], "a figure is a .png, .pdf or .svg file"),
    ],
)
def test_a_mistake_is_one_clear_line_and_exit_code_2(call: Any, arguments: list[str], message: str) -> None:
    write_log(4)
    Path("bad.csv").write_text("arm,round,state,action\nAda,1,0,1\nAda,2,2,1\n")
    Path("num.csv").write_text("arm,round,state,action\nAda,1,0,1\nAda,8,1,1\nAda,22,1,1\nBo,15,1,1\n")
    answer = call(*arguments)
    assert answer.code == 2
    assert message in answer.err
    lines = [line for line in answer.err.splitlines() if line.strip()]
    assert len(lines) == 1
    assert lines[0].startswith("meritfair: ")
    assert sorted(file.name for file in Path().iterdir()) == ["bad.csv", "log.csv", "num.csv"]


def test_what_was_out_is_kept_if_the_log_is_bad(call: Any) -> None:
    Path("people.csv").write_text("old")
    Path("log.csv").write_text("arm,round,state,action\nAda,1,0,1\nAda,1,0,1\n")
    answer = call("log.csv", "--out", "people.csv")
    assert answer.code == 2
    assert "line 3, column round: the arm 'Ada' already has round 1 in line 2" in answer.err
    assert Path("people.csv").read_text() == "old"


def test_states_that_are_not_observed_are_told_and_used(call: Any) -> None:
    Path("log.csv").write_text("arm,round,state,action\nAda,1,0,1\nAda,2,,0\nAda,3,1,0\nBo,1,1,0\nBo,4,1,1\n")
    shown = " ".join(call("log.csv").out.split())
    assert "1 state not observed; 2 gaps, 1 with known actions: used; across the others nothing is counted" in shown
    assert "1 arm without transitions" in shown
    told = json.loads(call("log.csv", "--absent", "not-pulled", "--json").out)["log"]
    assert (told["rows_added"], told["bridged"], told["gaps"]) == (2, 2, 2)
    assert "2 rounds without a row, taken as not pulled" in " ".join(
        call("log.csv", "--absent", "not-pulled").out.split()
    )
    answer = call("log.csv", "--absent", "none")
    assert (answer.code, "absent must be one of" in answer.err) == (2, True)


def test_states_missing_unevenly_are_warned_of(call: Any) -> None:
    rows = [f"{arm},{t},{'' if t % 2 else arm % 2},0" for arm in range(20) for t in range(10)]
    rows += [f"x{arm},{t},1,1" for arm in range(20) for t in range(10)]
    Path("log.csv").write_text("arm,round,state,action\n" + "\n".join(rows))
    shown = " ".join(call("log.csv").out.split())
    assert "States are not missing evenly: 100 % after bad and not pulled" in shown
    assert "0 % after good and pulled" in shown
    assert "Not seen: 100 of 280 next states (36 %)." in shown
    assert "Whatever the unseen states were, it lies between" in shown
    told = json.loads(call("log.csv", "--json").out)["sensitivity"]
    assert sum(map(sum, told["missing"])) == 100
    assert told["bounds"][0] <= told["mean_benefit"] <= told["bounds"][1]


def test_where_nothing_has_changed_it_says_what_would_have_been_found(call: Any) -> None:
    states = (np.random.default_rng(2).random((30, 40)) < 0.6).astype(int)
    rows = [f"p{i},{t + 1},{states[i, t]},0" for i in range(30) for t in range(40)]
    Path("log.csv").write_text("arm,round,state,action\n" + "\n".join(rows))
    answer = call("log.csv", "--drift")
    shown = " ".join(answer.out.split())
    assert "Not seen: nothing. All 1,170 next states were observed" in shown
    assert "Has anything changed? No sign of a change in 39 rounds: e-value 0." in shown
    assert "p-values allow for all five rows and all rounds, and are valid if it was decided beforehand" in shown
    found = json.loads(call("log.csv", "--drift", "--json").out)["drift"]
    size = found["findable"]
    said = (
        f"{size['points']:.1f} percentage points fewer good outcomes ({size['log_odds']:.2f} in log-odds) at any time"
    )
    assert f"would be found with a probability of about 80 % from this size on: {said}" in shown
    assert 0.2 < found["findable_at_one_look"]["log_odds"] < size["log_odds"] < 1
    assert max(map(len, answer.out.splitlines())) <= 100


def test_forgetting_and_drift(call: Any) -> None:
    rng = np.random.default_rng(1)
    good = np.where(np.arange(40) < 20, 0.8, 0.3)
    states = (rng.random((30, 40)) < good).astype(int)
    rows = [f"p{i},{t + 1},{states[i, t]},0" for i in range(30) for t in range(40)]
    Path("log.csv").write_text("arm,round,state,action\n" + "\n".join(rows))
    shown = " ".join(call("log.csv", "--drift").out.split())
    assert "Has anything changed? Outcomes after any state and action no longer fit earlier ones since about" in shown
    assert "--forget 0.95 gives old outcomes less weight" in shown
    assert "be found with a probability" not in shown
    told = json.loads(call("log.csv", "--drift", "--forget", "0.9", "--json").out)
    assert told["settings"]["forget"] == 0.9
    assert 19 <= int(told["drift"]["alarm"]) <= 23
    assert told["drift"]["p_value"] < 0.001
    assert sum(row["seen"] for row in told["arms"]) < 30 * 10
    assert "each 0.9 of its worth a round later" in " ".join(call("log.csv", "--forget", "0.9").out.split())
    answer = call("log.csv", "--forget", "0")
    assert (answer.code, "forget must be above 0 and at most 1" in answer.err) == (2, True)
