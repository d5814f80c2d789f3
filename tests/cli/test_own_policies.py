"""Policies in files on the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import meritfair as mf

MINE = """
import numpy as np
from meritfair.policies import PriorityTable


def gain_first(view, need=0.0):
    mean = view.counts.mean
    return PriorityTable(mean[..., 1] - mean[..., 0] + need * np.array([1.0, 0.0]))


def fails(view):
    return view.counts.mean[99]


def wrong(view):
    return np.ones(view.n_arms)
"""
PROBLEM = ["-d", "cpap", "-n", "5", "-k", "2", "--episodes", "3", "--horizon", "10", "--runs", "2", "--seed", "1"]


@pytest.fixture
def call(command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return what runs a command in a folder with a file of policies."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(MINE)
    return command


def test_they_are_simulated_and_compared_as_others_are(call: Any) -> None:
    own = ["-p", "mine.py:gain_first", "-p", "mine.py:gain_first:need=0.5", "-p", "random"]
    told = json.loads(call("simulate", *PROBLEM, *own, "--out", "runs", "--json").out)
    assert list(told["policies"]) == own[1::2]
    assert sorted(file.name for file in Path("runs").iterdir()) == [
        "mine.py-gain_first-need-0.5.parquet",
        "mine.py-gain_first.parquet",
        "random.parquet",
    ]
    saved = mf.Run.load("runs/mine.py-gain_first-need-0.5.parquet")
    assert saved.settings["policy"] == {"name": "gain-first", "need": 0.5}
    compared = json.loads(call("compare", *PROBLEM, *own, "--json").out)["policies"]
    assert [row["good_state"] for row in compared] == [
        each["summary"]["good_state"]["mean"] for each in told["policies"].values()
    ]
    shown = call("compare", *PROBLEM, *own).out
    assert "mine.py:gain_first  " in shown
    assert "\nneed=0.5 " in shown  # below the name


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ("mine.py:gain_frist", "mine.py: there is no policy 'gain_frist', did you mean 'gain_first'?"),
        ("nine.py:gain_first", "nine.py: there is no such file"),
        ("mine.py", "say which policy of mine.py: mine.py:gain_first, mine.py:fails, mine.py:wrong"),
        ("mine.py:wrong", "the policy 'wrong' must plan a Lottery, TimedLottery, PriorityTable, Rotation or"),
        ("mine.py:fails", "mine.py, line 12: IndexError: index 99 is out of bounds"),
    ],
)
def test_a_mistake_is_one_line(call: Any, policy: str, message: str) -> None:
    for name in ("simulate", "compare"):
        answer = call(name, *PROBLEM, "-p", policy)
        assert answer.code == 2
        assert len(answer.err.splitlines()) == 1
        assert message in answer.err


def test_what_goes_wrong_in_our_own_code_is_not_taken_for_it(call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("meritfair.simulation.run.Run.summary", lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        call("simulate", *PROBLEM, "-p", "mine.py:gain_first")


@pytest.mark.slow
def test_they_are_swept_and_a_changed_file_is_played_again(call: Any) -> None:
    policies = '["random", "mine.py:gain_first", {name = "mine.py:gain_first", need = 0.5}]'
    text = f'datasets = "cpap"\nsizes = [5, 2]\npolicies = {policies}\nepisodes = 3\nhorizon = 10\nruns = 2\n'
    Path("specs").mkdir()
    Path("specs/spec.toml").write_text(text)
    Path("specs/mine.py").write_text(MINE)
    Path("mine.py").unlink()  # it is beside the spec that it is looked for
    assert "played 3 tasks" in call("sweep", "specs/spec.toml", "--out", "found").out
    assert "played 0 tasks" in call("sweep", "specs/spec.toml", "--out", "found").out
    Path("specs/mine.py").write_text(MINE.replace("need *", "2 * need *"))
    assert "played 2 tasks" in call("sweep", "specs/spec.toml", "--out", "found").out
    Path("specs/mine.py").unlink()
    shown = call("results", "found")  # which needs no file
    assert shown.code == 0
    assert "mine.py:gain_first:need=0.5" in shown.out
    assert json.loads(Path("found/sweep.json").read_text())["own_policies"].keys() == {"mine.py:gain_first"}


@pytest.mark.slow
def test_they_are_asked_what_they_would_do(call: Any) -> None:
    mf.datasets.clinic(n_arms=20, rounds=20, budget=4, seed=1).save("log.csv")
    own = ["-p", "mine.py:gain_first", "-p", "random"]
    answer = call("whatif", "log.csv", *own, "--rounds", "4", "--draws", "20", "--extrapolate", "--json")
    assert [row["policy"] for row in json.loads(answer.out)["scenarios"]] == ["as logged", *own[1::2]]
    refused = call("whatif", "log.csv", "-p", "random", "-p", "mine.py:wrong", "--draws", "20", "--extrapolate")
    assert refused.code == 2
    assert refused.err.startswith("meritfair: mine.py:wrong cannot be played here: the policy 'wrong' must plan a")
