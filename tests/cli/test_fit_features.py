"""`meritfair fit --features`, as a person or a script uses it."""

from __future__ import annotations

import csv
import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import meritfair as mf


@pytest.fixture
def call(command: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)
    write_log()
    return partial(command, "fit", "log.csv", "--budget", 6)


def write_log(n_arms: int = 60, rounds: int = 20) -> None:
    rng = np.random.default_rng(1)
    kind = rng.random(n_arms) < 0.4
    P = np.where(kind[:, None, None], [[0.2, 0.7], [0.5, 0.9]], [[0.6, 0.65], [0.8, 0.85]])
    area = np.where(kind ^ (rng.random(n_arms) < 0.1), "north", "south").astype(object)
    area[3] = "nowhere"
    age, gender = rng.integers(20, 80, n_arms), np.where(kind ^ (rng.random(n_arms) < 0.2), "f", "m")
    states = rng.integers(0, 2, n_arms)
    with Path("log.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["arm", "round", "state", "action", "area", "age", "gender"])
        for t in range(rounds):
            actions = (rng.random(n_arms) < 0.3).astype(int)
            for i in range(n_arms):
                writer.writerow([f"p{i}", t, states[i], actions[i], area[i], age[i], gender[i]])
            states = (rng.random(n_arms) < P[np.arange(n_arms), states, actions]).astype(int)


def test_tables_for_people(call: Any) -> None:
    answer = call("--features", "area, age", "--never", "gender")
    assert answer.code == 0
    for words in (
        "pooled classes by area",
        "Due exposure by feature",
        "gender: never used to predict.",
        "area: predicts (held-out log-likelihood +",
        "age: does not help, and is not used (held-out",
        "area: 1 arm with a value that fewer than three have, taken as not known.",
        "class 1, ",
    ):
        assert words in answer.words, words
    found = mf.fit(
        mf.read_log("log.csv", ["area", "age", "gender"]), budget=6, features=["area", "age"], never=["gender"]
    )
    rows = [line.split() for line in answer.out.splitlines() if line.startswith("gender ")]
    expected = [row for row in found.due_by_feature if row["feature"] == "gender"]
    assert [row[:3] for row in rows] == [["gender", row["value"], str(row["arms"])] for row in expected]
    np.testing.assert_allclose([float(row[3]) for row in rows], [row["exposure"] for row in expected], atol=0.0051)
    assert max(len(line.rstrip()) for line in answer.out.splitlines()) <= 80


def test_json_has_the_same(call: Any) -> None:
    told = json.loads(call("--features", "area", "--never", "gender", "--json").out)
    assert told["settings"]["estimate"] == "pooled"
    assert told["features"]["used"] == ["area"]
    assert told["features"]["unknown_values"] == {"area": 1}
    assert len(told["features"]["classes"]) >= 2
    assert {row["feature"] for row in told["due_by_feature"]} == {"area", "gender"}
    assert told["arms"][0]["area"] in {"north", "south"}
    plain = json.loads(call("--json").out)
    assert {"features", "due_by_feature"}.isdisjoint(plain)
    assert plain["settings"]["estimate"] == "mean"


def test_a_forbidden_feature_alone_is_shown_and_changes_nothing(call: Any) -> None:
    told, plain = (json.loads(call(*more, "--json").out) for more in (("--never", "gender"), ()))
    assert [row["benefit"] for row in told["arms"]] == [row["benefit"] for row in plain["arms"]]
    assert told["features"]["gains"] == {}


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (
            ["--features", "distric"],
            "log.csv, line 1: lacks the column distric; it has arm, round, state, action, area",
        ),
        (["--features", "area", "--estimate", "mean"], "features need the estimate 'pooled', got 'mean'"),
        (["--features", "area", "--never", "area"], "the feature 'area' cannot both predict and never predict"),
        (["--features", "state"], "features must be columns of their own, got 'state'"),
    ],
)
def test_errors_say_what_to_do(call: Any, options: list[str], problem: str) -> None:
    answer = call(*options)
    assert answer.code == 2
    assert problem in answer.err


def test_a_feature_that_changes_for_an_arm_is_refused_with_its_line(call: Any) -> None:
    text = Path("log.csv").read_text().splitlines()
    text[70] = text[70].rsplit(",", 1)[0] + ",x"
    Path("log.csv").write_text("\n".join(text) + "\n")
    answer = call("--never", "gender")
    assert answer.code == 2
    assert "line 71, column gender" in answer.err


def test_a_forbidden_feature_may_have_many_values_of_which_some_are_shown(call: Any) -> None:
    lines = Path("log.csv").read_text().splitlines()
    named = [f"{line},{'who' if i == 0 else 'x' + line.split(',')[0]}" for i, line in enumerate(lines)]
    Path("log.csv").write_text("\n".join(named) + "\n")
    assert "… and 2 more; --json prints all." in call("--never", "who,gender").words
    assert len(json.loads(call("--never", "who", "--json").out)["due_by_feature"]) == 60
    answer = call("--features", "arm")
    assert (answer.code, "features must be columns of their own, got 'arm'" in answer.err) == (2, True)


def test_help_teaches_it(command: Any) -> None:
    told = command("fit", "--help").words
    assert "--features age,district --never gender" in told
