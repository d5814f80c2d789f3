"""`meritfair whatif`, as a person or a script uses it."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import meritfair as mf


@pytest.fixture
def call(command: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)
    return partial(command, "whatif")


def write_log(exposure: bool = True, n_arms: int = 40, rounds: int = 30) -> None:
    """Write the log of a fair lottery to log.csv in the current folder."""
    rng, arms = np.random.default_rng(1), mf.datasets.cpap(n_arms=n_arms, seed=1)
    states, lines = np.zeros(n_arms, int), ["arm,round,state,action,exposure"]
    for t in range(rounds):
        actions = np.isin(np.arange(n_arms), rng.choice(n_arms, n_arms // 5, replace=False)).astype(int)
        stated = 0.2 if exposure else ""
        lines += [f"person {i},{t},{states[i]},{actions[i]},{stated}" for i in range(n_arms)]
        states = (rng.random(n_arms) < arms.transitions[np.arange(n_arms), states, actions]).astype(int)
    Path("log.csv").write_text("\n".join(lines) + "\n")


QUICK = ("--rounds", 8, "--draws", 20)


def test_a_sentence_and_a_table(call: Any) -> None:
    write_log()
    answer = call("log.csv", "-p", "random", "-k", 8, "-k", 12, *QUICK)
    assert answer.code == 0
    assert answer.words.startswith("With random, budget 8, ")
    for words in (
        "of the 40 arms would be in the good state over the next 8 rounds",
        "4 more pulls a round (12 instead of 8)",
        "40 arms · the next 8 rounds · 20 draws of chains, estimate pooled",
        "as logged",
        "agrees",
        "Misplaced: part of the pulls",
    ):
        assert words in answer.words
    assert "Per pull" not in answer.words  # there is no room for this column
    assert max(len(line.rstrip()) for line in answer.out.splitlines()) <= 80


def test_the_recommended_policy_by_default(call: Any) -> None:
    write_log()
    answer = call("log.csv", *QUICK, "--json")
    (logged, asked) = json.loads(answer.out)["scenarios"]
    assert logged["policy"] == "as logged"
    assert asked["policy"] == "recommended"
    assert asked["budget"] == 8


def test_json_has_all_numbers(call: Any) -> None:
    write_log()
    answer = call("log.csv", "-p", "random", "--seed", 3, *QUICK, "--json")
    found = json.loads(answer.out)
    from_library = mf.whatif(mf.read_log("log.csv"), ["random"], rounds=8, draws=20, seed=3)
    assert found["scenarios"][1]["share"] == pytest.approx(from_library.asked[0].share.mean)
    assert found["settings"]["seed"] == 3
    assert found["sentence"].startswith("With random")


def test_files(call: Any) -> None:
    write_log()
    policy = "merit-fair:estimate=mean,design=exact"
    files = ("--out", "new/found.csv", "--plot", "found.svg", "--html", "found.html")
    answer = call("log.csv", "-p", policy, "--slack", 0, "--slack", 2, *QUICK, *files)
    assert answer.code == 0
    assert pd.read_csv("new/found.csv")["slack"].tolist()[1:] == [0, 2]
    assert Path("found.svg").stat().st_size > 1000
    assert "What if?" in Path("found.html").read_text(encoding="utf-8")
    for file in ("new/found.csv", "found.svg", "found.html"):
        assert f"wrote {file}" in answer.out


def test_refusals_are_shown_and_fail_only_if_nothing_is_left(call: Any) -> None:
    write_log()
    some = call("log.csv", "-p", "random", "-k", 8, "-k", 40, *QUICK)
    assert some.code == 0
    assert "No answer for random, budget 40: the log's" in some.words
    assert "--extrapolate answers by the model alone" in some.words
    alone = call("log.csv", "-p", "random", "-k", 40, *QUICK)
    assert alone.code == 1
    assert alone.words.startswith("The log cannot answer this: random, budget 40:")
    shown = call("log.csv", "-p", "random", "-k", 40, *QUICK, "--extrapolate")
    assert shown.code == 0
    assert "By the model alone for random, budget 40" in shown.words


def test_logs_without_chances(call: Any) -> None:
    write_log(exposure=False)
    answer = call("log.csv", "-p", "random", *QUICK)
    assert answer.code == 1
    assert "does not state the chances of its draws (exposure)" in answer.words


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("-p", "randon"), "there is no policy 'randon', did you mean 'random'?"),
        (("-k", "two"), "must be a whole number, got 'two'"),
        (("--floor", 0.1, "-p", "random"), "none of these policies has a setting 'floor': random"),
        (("--out", "found.xlsx"), "found.xlsx"),
        (("--html", "found.pdf"), "found.pdf"),
        (("--plot", "found.doc"), "--plot found.doc: a figure is a .png, .pdf or .svg file"),
        (("--against", "nobody"), "there is no scenario 'nobody'"),
    ],
)
def test_mistakes_are_one_line(call: Any, arguments: Any, message: str) -> None:
    write_log(rounds=5)
    answer = call("log.csv", *arguments)
    assert answer.code == 2
    assert message in " ".join(answer.err.split())
    assert "Traceback" not in answer.err
