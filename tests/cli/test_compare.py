"""`meritfair compare`, as a person or a script uses it."""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import meritfair as mf
from meritfair.policies import registry
from meritfair.policies.base import Policy
from meritfair.policies.plans import Lottery
from meritfair.policies.view import View
from meritfair.simulation.comparison import compare

QUICK = ["-d", "cpap", "-n", "6", "-k", "2", "--episodes", "4", "--horizon", "30", "--runs", "3", "--seed", "5"]
THREE = ["-p", "random", "-p", "merit-fair:estimate=mean", "-p", "whittle"]


@pytest.fixture
def call(command: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)
    return partial(command, "compare")


@dataclass(frozen=True)
class Picky(Policy):
    """Refuses more than one pull."""

    name: ClassVar[str] = "picky"

    def plan(self, view: View) -> Lottery:
        if view.budget > 1:
            raise mf.InputError(f"picky pulls one arm, got a budget of {view.budget}")
        return Lottery(np.ones(view.counts.visits.shape[:-2]))


@dataclass(frozen=True)
class Patient(Policy):
    """Has a slack."""

    name: ClassVar[str] = "patient"
    adopts: ClassVar[tuple[str, ...]] = ("design",)
    design: str = "sequential"
    slack: float = 0.0

    @property
    def criterion(self) -> mf.Criterion:
        return mf.Criterion(design=self.design)

    def plan(self, view: View) -> Lottery:
        n_arms = view.counts.visits.shape[-3]
        return Lottery(np.tile(1.0 + self.slack * np.arange(n_arms), (len(view.counts.visits), 1)), self.design)


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let there be few policies, one of which has a slack."""
    classes = {name: registry.policy_class(name) for name in ("random", "none", "whittle")}
    monkeypatch.setattr(registry, "_POLICIES", {"patient": Patient, **classes})


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let there be few policies, one of which is picky, in the order of their reward but for the first."""
    names = ("none", "whittle", "fair-oracle", "random", "merit-fair")
    monkeypatch.setattr(
        registry, "_POLICIES", {"picky": Picky, **{name: registry.policy_class(name) for name in names}}
    )


def direct(policies: Any, **settings: Any) -> Any:
    sets = mf.datasets.instances("cpap", 6, 3, seed=5)
    return compare(sets, policies, **{"budget": 2, "episodes": 4, "horizon": 30, "seed": 5, **settings})


def first_words(answer: Any) -> list[str]:
    lines = answer.out.split("─\n")[1].split("\n\n")[0].splitlines()
    return [line.split()[0] for line in lines if line.strip()]


def test_a_table_for_people(call: Any) -> None:
    answer = call(*QUICK, *THREE)
    assert answer.code == 0
    assert answer.words.startswith("6 arms, 2 pulled at each step · 4 episodes of 30 steps · 3 runs")
    assert first_words(answer) == ["random", "merit-fair", "estimate=mean", "whittle"]
    assert max(len(line.rstrip()) for line in answer.out.splitlines()) <= 80
    found = direct({"random": mf.Random(), "mean": mf.MeritFair(estimate="mean")}).measures["random"]
    line = next(line for line in answer.out.splitlines() if line.startswith("random"))
    cells = line.split()
    half = (found["intervention_benefit"].high - found["intervention_benefit"].low) / 2
    assert cells[1:3] == [f"{found['intervention_benefit'].mean:.2f}".replace("-", "−"), f"±{half:.2f}"]
    assert cells[3] == f"{100 * found['price_of_fairness'].mean:.1f}".replace("-", "−")
    assert cells[-3:] == [
        f"{found['gini'].mean:.2f}",
        f"{found['smallest_exposure'].mean:.3f}",
        f"{found['longest_wait'].mean:.0f}",
    ]
    assert "whittle ° 1.00 ±0.00 0.0 %" in answer.words
    for words in (
        "none is 0 and whittle is 1",
        "the 95 % interval",
        "°: knows the true arms",
        "Longest wait: most steps",
    ):
        assert words in answer.words


def test_differences_are_a_second_table(call: Any) -> None:
    answer = call(*QUICK, *THREE)
    table = answer.out.split("Difference to merit-fair:estimate=mean: share of arms in the good state")[1]
    assert [line.split()[0] for line in table.splitlines() if line.startswith(("random", "merit", "whittle"))] == [
        "random",
        "whittle",
    ]
    policies = {"random": mf.Random(), "merit-fair:estimate=mean": mf.MeritFair(estimate="mean")}
    paired, unpaired = direct(policies).differences()["random"]
    (line,) = (line for line in table.splitlines() if line.startswith("random"))
    numbers = (paired.mean, *paired[1:], *unpaired[1:])
    expected = "random {} {} to {} {} to {}".format(*(f"{100 * x:+.2f}".replace("-", "−") for x in numbers))
    assert " ".join(line.split()) == expected
    assert "of the differences run by run" in answer.words
    assert max(len(line.rstrip()) for line in answer.out.splitlines()) <= 80


def test_who_others_are_held_against(call: Any) -> None:
    answer = call(*QUICK, *THREE[:2], "--against", "none", "--out", "table.csv")
    assert "Difference to none: share" in answer.words
    with Path("table.csv").open(newline="") as stream:
        row = next(csv.DictReader(stream))
    expected = direct(["random"], against="none").rows()[0]
    assert row["against"] == "none"
    for name in ("difference", "difference_low", "difference_high", "difference_unpaired_low"):
        assert float(row[name]) == expected[name]
    told = json.loads(call(*QUICK, *THREE[:2], "--against", "none", "--json").out)
    assert told["policies"][0]["difference_high"] == expected["difference_high"]


def test_with_nobody_else_or_one_run_there_is_nothing_to_hold_against(call: Any) -> None:
    assert "Difference" not in call(*QUICK, "-p", "random").out
    assert "Difference" not in call(*QUICK[:-4], "--runs", "1", "--seed", "1", *THREE).out
    answer = call(*QUICK[:-4], "--runs", "1", "--seed", "1", *THREE, "--against", "random")
    assert "Difference to random" in answer.out
    assert "nan" not in answer.out
    assert "interval" not in answer.out


def test_a_policy_with_several_slacks(call: Any, patient: None) -> None:
    two = [*QUICK, "--design", "exact", "-p", "random", "-p", "patient"]
    told = json.loads(call(*two, "--slack", "0,0.5", "--json").out)
    assert [row["policy"] for row in told["policies"]] == ["random", "patient:slack=0", "patient:slack=0.5"]
    assert told["settings"]["policies"]["patient:slack=0.5"]["slack"] == 0.5
    assert told["settings"]["policies"]["patient:slack=0.5"]["design"] == "exact"


def test_all_policies_with_several_slacks(call: Any, patient: None) -> None:
    answer = call(*QUICK, "--design", "exact", "--slack", "0,2", "--against", "patient:slack=2", "--plot", "a.png")
    assert answer.code == 0
    assert sorted(first_words(answer)) == ["none", "patient", "patient", "random", "slack=0", "slack=2", "whittle"]
    assert "Difference to patient:slack=2: share" in answer.words
    assert Path("a.png").exists()


def test_accounts_fit_into_the_table(call: Any) -> None:
    answer = call(*QUICK, "--design", "exact", "-p", "merit-fair:estimate=mean", "--slack", "0,2")
    assert answer.code == 0
    assert "Largest account: most pulls" in answer.words
    assert "Price of fairness" not in answer.words
    assert max(len(line.rstrip()) for line in answer.out.splitlines()) <= 80


def test_rules_and_a_budget_that_changes(call: Any) -> None:
    arguments = [*QUICK, "-k", "3,0", "--cooldown", "1", "--design", "exact", "-p", "whittle", "-p", "merit-fair"]
    told = json.loads(call(*arguments, "--json").out)
    rules, fair = mf.Rules(cooldown=1), mf.Criterion(design="exact")
    expected = direct(["whittle", "merit-fair"], budget=[3, 0], rules=rules, criterion=fair)
    assert [row["good_state"] for row in told["policies"]] == [row["good_state"] for row in expected.rows()]
    assert told["settings"]["problem"]["rules"] == rules.settings()
    answer = call(*arguments, "--out", "table.md")
    assert answer.words.startswith("6 arms, 3,0 pulled at steps in turn · cooldown 1 · 4 episodes of 30 steps")
    assert max(len(line.rstrip()) for line in answer.out.splitlines()) <= 80
    assert "3,0 pulled at steps in turn · cooldown 1" in Path("table.md").read_text(encoding="utf-8")


def test_who_cannot_keep_the_rules_is_told(call: Any, few: None) -> None:
    answer = call(*QUICK, "--cooldown", "1", "--budget", "1")
    assert answer.code == 0
    assert "skipped: fair-oracle: cooldown needs the design 'exact' or 'systematic'" in answer.out
    refused = call(*QUICK, "--cooldown", "1", "-p", "random", "-p", "fair-oracle")
    assert refused.code == 2
    assert "fair-oracle cannot be played here: cooldown needs the design" in refused.err


def test_slack_needs_a_design(call: Any, patient: None) -> None:
    answer = call(*QUICK, "-p", "patient", "--slack", "0,1")
    assert answer.code == 2
    assert "slack needs the design 'exact' or 'systematic', got 'sequential' for patient" in answer.err


def test_a_single_run_without_oracles_says_no_more_than_there_is(call: Any) -> None:
    answer = call(*QUICK[:-4], "--runs", "1", "-p", "random")
    assert answer.code == 0
    assert "±" not in answer.out
    assert "°" not in answer.out


def test_all_policies_the_most_rewarding_first_and_who_was_left_out(call: Any, few: None) -> None:
    answer = call(*QUICK)
    assert answer.code == 0
    rewards = {label: run.reward.sum() for label, run in direct(None).runs.items()}
    assert first_words(answer) == sorted(rewards, key=lambda label: -rewards[label])
    assert "skipped: picky: picky pulls one arm, got a budget of 2\n" in answer.out
    assert "recommended: merit-fair:design=exact,estimate=pooled,slack=2." in answer.words
    assert "price of fairness" in answer.words.lower()
    assert "recommended: merit-fair" in call(*QUICK, "--design", "exact", "--slack", "0,1").words
    told = json.loads(call(*QUICK, "--json").out)
    assert told["skipped"] == {"picky": "picky pulls one arm, got a budget of 2"}


def test_every_registered_policy_is_played_or_told(call: Any) -> None:
    told = json.loads(call(*QUICK[:-6], "--runs", "2", "--horizon", "10", "--seed", "1", "--json").out)
    assert {*(row["policy"] for row in told["policies"]), *told["skipped"]} == {*mf.policies.names(), "recommended"}


def test_a_named_policy_that_cannot_be_played_is_an_error(call: Any, few: None) -> None:
    answer = call(*QUICK, "-p", "random", "-p", "picky", "--out", "table.csv")
    assert answer.code == 2
    message = "meritfair: picky cannot be played here: picky pulls one arm, got a budget of 2"
    assert [line for line in answer.err.splitlines() if line.strip()] == [message]
    assert not list(Path().iterdir())


def test_json_has_the_numbers_of_the_library(call: Any) -> None:
    told = json.loads(call(*QUICK, *THREE, "--merit", "affine", "--delta", "0.1", "--carry-states", "--json").out)
    policies = {
        "random": mf.Random(),
        "merit-fair:estimate=mean": mf.MeritFair(estimate="mean", merit=mf.Affine(), delta=0.1),
        "whittle": "whittle",
    }
    found = direct(
        policies, criterion=mf.Criterion(mf.Affine()), confidence=mf.Confidence(delta=0.1), carry_states=True
    )
    for row, there in zip(found.rows(), told["policies"], strict=True):
        assert {name: value for name, value in row.items() if value == value} == {
            name: value for name, value in there.items() if value is not None
        }
    assert told["settings"] == found.settings
    assert told["oracles"] == ["whittle"]
    assert told["skipped"] == {}
    assert told["files"] == []


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["csv", "parquet", "md", "tex"])
def test_the_table_and_the_figure_are_kept(call: Any, suffix: str) -> None:
    answer = call(*QUICK, *THREE, "--out", f"table.{suffix}", "--plot", "figure.png")
    assert answer.code == 0
    assert answer.out.endswith(f"wrote table.{suffix}\nwrote figure.png\n")
    assert Path("figure.png").read_bytes().startswith(b"\x89PNG")
    policies = {"random": mf.Random(), THREE[3]: mf.MeritFair(estimate="mean"), "whittle": "whittle"}
    direct(policies).save(f"again.{suffix}")
    assert Path(f"again.{suffix}").read_bytes() == Path(f"table.{suffix}").read_bytes()


def test_all_runs_on_one_instance(call: Any) -> None:
    answer = call(*QUICK, "--same-arms", "-p", "random", "--out", "table.csv")
    assert answer.code == 0
    one = mf.datasets.instances("cpap", 6, 1, seed=5)[0]
    expected = compare(one, ["random"], budget=2, episodes=4, horizon=30, runs=3, seed=5).rows()[0]
    with Path("table.csv").open(newline="") as stream:
        assert float(next(csv.DictReader(stream))["good_state"]) == expected["good_state"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "say which arms: --dataset synthetic, or --arms-file arms.csv"),
        ([*QUICK, "-p", "merit-fare"], "no policy 'merit-fare', did you mean 'merit-fair'?"),
        ([*QUICK, "-p", "random", "-p", "none", "-p", "random"], "duplicate policy: random, none, random"),
        ([*QUICK, "-p", "random:c=1"], "random has no setting 'c'; it has none"),
        ([*QUICK, "-k", "7"], "budget must be between 1 and the 6 arms, got 7"),
        ([*QUICK, "--runs", "0"], "runs must be at least 1, got 0"),
        ([*QUICK, "--episodes", "0"], "episodes must be at least 1, got 0"),
        ([*QUICK, "--seed", "-1"], "seed must be at least 0, got -1"),
        ([*QUICK, "--floor", "0.1"], "floor and cap need the design 'exact'"),
        ([*QUICK, "--merit", "exponental"], "did you mean 'exponential'?"),
        ([*QUICK, "--out", "table.xlsx"], "table.xlsx: comparisons are kept in .csv or .parquet or .md or .tex files"),
        ([*QUICK, *THREE, "--against", "randon"], "there is no policy 'randon', did you mean 'random'?"),
        ([*QUICK, "-p", "random", "--slack", "0,1"], "none of these policies has a setting 'slack'"),
        ([*QUICK, "-p", "random", "--slack", "0;1"], "as in 0,1,5, got '0;1'"),
        ([*QUICK, "-p", "random", "--slack", "0,-1"], "slack must be one or more numbers of at least 0"),
        ([*QUICK, "--plot", "figure.gif"], "a figure is a .png, .pdf or .svg file"),
    ],
)
def test_a_mistake_is_one_clear_line_and_exit_code_2(call: Any, arguments: list[str], message: str) -> None:
    answer = call(*arguments)
    assert answer.code == 2
    assert message in answer.err
    lines = [line for line in answer.err.splitlines() if line.strip()]
    assert len(lines) == 1
    assert lines[0].startswith("meritfair: ")
    assert not list(Path().iterdir())
