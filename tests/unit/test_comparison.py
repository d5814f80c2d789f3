"""Policies against each other: the same problem for all, exact references, tables, files and the figure."""

from __future__ import annotations

import csv
import dataclasses
import json
import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar
from xml.etree import ElementTree as ET

import numpy as np
import pyarrow.parquet as pq
import pytest

import meritfair as mf
from meritfair.policies import registry
from meritfair.policies.base import Policy
from meritfair.policies.plans import Lottery
from meritfair.policies.registry import RECOMMENDED_TEXT, create_under
from meritfair.policies.view import View
from meritfair.simulation.bootstrap import Interval
from meritfair.simulation.columns import Column
from meritfair.simulation.comparison import Comparison, compare
from meritfair.simulation.labels import place_labels
from meritfair.simulation.plots import plot_comparison, trade_off

QUICK: dict[str, Any] = {"budget": 2, "episodes": 6, "horizon": 40, "seed": 3}
SETS = mf.datasets.instances("cpap", 6, 5, seed=2)
LABELS = ["random", "none", "whittle", "fair-oracle", "merit-fair", "merit-fair:estimate=mean"]
MEASURES = [
    "intervention_benefit",
    "price_of_fairness",
    "good_state",
    "fairness_regret",
    "exposure_regret",
    "gini",
    "jain",
    "hhi",
    "earth_mover",
    "smallest_exposure",
    "longest_wait",
    "largest_account",
    "worst_window",
]


@pytest.fixture(scope="module")
def found() -> Comparison:
    return compare(SETS, [*LABELS[:4], mf.MeritFair(), mf.MeritFair(estimate="mean")], **QUICK)


@dataclass(frozen=True)
class Picky(Policy):
    """Refuses more than one pull, from some episode on."""

    name: ClassVar[str] = "picky"
    adopts: ClassVar[tuple[str, ...]] = ("delta",)
    delta: float = 0.3
    since: int = 1

    def plan(self, view: View) -> Lottery:
        if view.budget > 1 and view.episode >= self.since:
            raise mf.InputError(f"picky pulls one arm, got a budget of {view.budget}")
        return Lottery(np.ones(view.counts.visits.shape[:-2]))


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let there be five policies, one of which is picky."""
    classes = {name: registry.policy_class(name) for name in ("random", "none", "whittle", "merit-fair")}
    monkeypatch.setattr(registry, "_POLICIES", {"picky": Picky, **classes})


# --- what is played ---


def test_each_policy_is_played_as_by_simulate(found: Comparison) -> None:
    assert list(found.runs) == LABELS
    for label, policy in [("random", mf.Random()), ("merit-fair:estimate=mean", mf.MeritFair(estimate="mean"))]:
        alone = mf.simulate(SETS, policy, **QUICK)
        np.testing.assert_array_equal(found.runs[label].reward, alone.reward)
        np.testing.assert_array_equal(found.runs[label].visits, alone.visits)
        np.testing.assert_array_equal(found.runs[label].fairness_regret, alone.fairness_regret)


def test_the_yardstick_is_the_same_for_all() -> None:
    own = mf.MeritFair(merit=mf.Exponential(1.0), delta=0.2)
    alike = compare(SETS, [own, "fair-oracle"], **QUICK)
    assert alike.runs["merit-fair:delta=0.2,merit=exponential:c=1"].settings["policy"]["delta"] == 0.2
    fair: Any = {"criterion": mf.Criterion(mf.Exponential(1.0)), "confidence": mf.Confidence(delta=0.1)}
    other = compare(SETS, {"own": own, "oracle": "fair-oracle"}, **QUICK, **fair)
    for each, c, delta in ((alike, 3.0, 0.01), (other, 1.0, 0.1)):
        problems = [run.settings["problem"] for run in (*each.runs.values(), each.none, each.best)]
        assert all(problem == problems[0] for problem in problems)
        assert problems[0]["merit"] == {"kind": "exponential", "c": c}
        assert problems[0]["delta"] == delta
    assert other.measures["oracle"]["fairness_regret"].mean == 0  # it is made by the same rules
    assert other.runs["own"].settings["policy"]["delta"] == 0.2  # but a policy that was given stays as it is


@pytest.mark.parametrize(
    "policy",
    [
        mf.MeritFair(merit=mf.Exponential(1.0)),
        mf.MeritFair(merit=mf.Affine(0.5, 2.0), delta=1 / 3, design="exact", floor=0.1),
        mf.FairOracle(merit=mf.Power(3.0)),
        mf.SoftFair(c=10.0),
        mf.Random(),
    ],
    ids=repr,
)
def test_a_label_can_be_typed(policy: mf.Policy) -> None:
    (label,) = compare(SETS, [policy], **QUICK).runs
    assert registry.create(label) == policy
    assert compare(SETS, [label], **QUICK).runs[label].settings["policy"] == {"name": policy.name, **policy.settings()}


def test_what_cannot_be_typed_has_a_label_all_the_same() -> None:
    own = mf.CustomMerit(lambda mu: 2 + mu, lipschitz=1.0, name="two, plus")
    policy = mf.MeritFair(merit=own, design="exact", floor=(0.1,) * 6)
    assert list(compare(SETS, [policy], **QUICK).runs) == [
        "merit-fair:design=exact,floor=(0.1; 0.1; 0.1; 0.1; 0.1; 0.1),merit=two: plus"
    ]


@pytest.mark.parametrize("label", ["", " \n", "a\x1b[31m", "\x00", "\ud800", "\u202eabc"])
def test_a_label_can_be_seen(label: str) -> None:
    with pytest.raises(mf.InputError, match=rf"a label must be text that can be seen.*, got {re.escape(repr(label))}"):
        compare(SETS, {label: "random"}, **QUICK)


def test_policies_by_name_keep_their_own_defaults_unless_the_criterion_changes_them(few: None) -> None:
    usual, sure = mf.Criterion(), mf.Confidence(delta=0.1)
    assert create_under("picky", usual, mf.Confidence()) == Picky()
    assert create_under("picky", usual, sure) == Picky(delta=0.1)
    assert create_under("picky:delta=0.2", usual, sure) == Picky(delta=0.2)
    assert create_under("random", mf.Criterion(mf.Affine(), "exact", floor=(0.0, 0.1)), sure) == mf.Random()
    policies: dict[str, Any] = {"own": Picky(), "named": "picky", "usual": "picky"}
    found = compare(SETS, policies, **{**QUICK, "budget": 1}, confidence=sure)
    assert [run.settings["policy"]["delta"] for run in found.runs.values()] == [0.3, 0.1, 0.1]


def test_references_are_played_though_not_listed(found: Comparison) -> None:
    alone = compare(SETS, ["merit-fair"], **QUICK)
    assert list(alone.runs) == ["merit-fair"]
    assert str(alone.measures["merit-fair"]) == str(found.measures["merit-fair"])  # as text, as some are NaN
    assert (alone.none.policy, alone.best.policy) == ("none", "whittle")
    assert found.none is found.runs["none"]
    assert found.best is found.runs["whittle"]


def test_a_whittle_with_other_settings_is_not_the_reference() -> None:
    other = type(registry.create("whittle"))(discount=0.5)  # type: ignore[call-arg]
    both = compare(SETS, {"none": "random", "far": other}, **QUICK)
    assert both.runs["far"].settings["policy"]["discount"] == 0.5
    assert both.best.settings["policy"]["discount"] == 1.0
    assert both.runs["none"].pulls.sum() > 0  # a label is only a label
    assert both.none.pulls.sum() == 0


def test_a_function_can_be_compared() -> None:
    def all_alike(view: View, weight: float = 1.0) -> Lottery:
        return Lottery(np.full(view.counts.visits.shape[:-2], weight))

    assert list(compare(SETS, [all_alike], **QUICK).runs) == ["all-alike"]


def test_oracles_are_known(found: Comparison) -> None:
    assert found.oracles == ("whittle", "fair-oracle")


def test_progress_is_told_over_all_policies() -> None:
    told: list[tuple[str, int, int]] = []
    compare(SETS, ["random", "whittle", "optimal"], progress=lambda *news: told.append(news), **QUICK)
    ready = [f"getting ready, {number} of 3" for number in range(3)]  # all are tried out before the first is played
    assert list(dict.fromkeys(label for label, _, _ in told)) == [*ready, "none", "whittle", "random", "optimal"]
    told = told[3:]
    done = [number for _, number, _ in told]
    assert done == sorted(done)
    assert {total for _, _, total in told} == {4 * 6 * 5}
    assert done[-1] == 4 * 6 * 5


@pytest.mark.parametrize("text", ["merit-fair:estimate=mean", "merit-fair:merit=exponential:c=1,delta=0.2"])
def test_a_policy_by_name_may_have_settings(text: str) -> None:
    (found,) = compare(SETS, [text], **QUICK).runs.items()
    alone = mf.simulate(SETS, registry.create(text), **QUICK)
    assert found[0] == text
    assert found[1].settings["policy"] == alone.settings["policy"]
    np.testing.assert_array_equal(found[1].reward, alone.reward)


def test_the_table_is_also_a_data_frame(found: Comparison) -> None:
    frame = found.table()
    assert str(frame.to_dict("records")) == str(found.rows())  # as text, as some numbers are NaN
    assert frame.set_index("policy").loc["random", "gini_low"] == found.measures["random"]["gini"].low


# --- rules, and budgets that change ---


def test_rules_are_kept_by_all_policies() -> None:
    rules = mf.Rules(cooldown=1, warmup=3)
    fair = mf.Criterion(design="exact")
    found = compare(SETS, ["whittle", "merit-fair", "none"], rules=rules, criterion=fair, **QUICK)
    for label, run in found.runs.items():
        direct = mf.simulate(SETS, label, rules=rules, criterion=fair, **QUICK)
        np.testing.assert_array_equal(run.reward, direct.reward)
        assert run.rules == rules
    assert (found.runs["whittle"].pulls.sum(axis=1) == 2 * (6 * 40 - 3)).all()
    assert found.runs["whittle"].pulls.max() <= 6 * 40 / 2
    assert found.settings["problem"]["rules"] == rules.settings()
    assert found.description.startswith("6 arms, 2 pulled at each step · cooldown 1, warmup 3 · 6 episodes")
    assert found.has_accounts


def test_a_budget_may_change_from_step_to_step() -> None:
    fair = mf.Criterion(design="exact")
    found = compare(SETS, ["whittle", "merit-fair"], criterion=fair, **{**QUICK, "budget": [3, 0]})
    assert {int(pulls) for run in found.runs.values() for pulls in run.pulls.sum(axis=1)} == {3 * 6 * 40 // 2}
    assert found.settings["problem"]["budget"] == [3, 0]
    assert found.description.startswith("6 arms, 3,0 pulled at steps in turn · 6 episodes of 40 steps")
    assert not found.has_accounts  # what is due follows the budget, so nobody is ahead or behind


def test_who_cannot_keep_the_rules_is_skipped_or_named(few: None, monkeypatch: pytest.MonkeyPatch) -> None:
    classes = {name: registry.policy_class(name) for name in ("none", "whittle")}
    monkeypatch.setattr(registry, "_POLICIES", {"merit-fair": mf.MeritFair, **classes})
    rules = mf.Rules(cooldown=1)
    found = compare(SETS, rules=rules, **QUICK)
    assert list(found.runs) == ["none", "whittle", "recommended"]  # its design is exact
    assert found.skipped["merit-fair"].startswith("cooldown needs the design 'exact' or 'systematic'")
    with pytest.raises(mf.InputError, match=r"^merit-fair cannot be played here: cooldown needs the design"):
        compare(SETS, ["whittle", "merit-fair"], rules=rules, **QUICK)
    assert "merit-fair" in compare(SETS, rules=rules, criterion=mf.Criterion(design="exact"), **QUICK).runs


def test_a_policy_that_plans_quotas_needs_one_budget() -> None:
    with pytest.raises(mf.InputError, match=r"^equitable cannot be played here: .* for one budget, it cannot change"):
        compare(SETS, ["whittle", "equitable"], **{**QUICK, "budget": (2, 1)})


# --- what cannot be played ---


def test_all_policies_are_compared_but_for_those_that_cannot_be_played(few: None) -> None:
    all_of_them = compare(SETS, **QUICK)
    assert list(all_of_them.runs) == ["random", "none", "whittle", "merit-fair", "recommended"]
    assert all_of_them.skipped == {"picky": "picky pulls one arm, got a budget of 2"}
    assert all_of_them.settings["skipped"] == all_of_them.skipped
    one = compare(SETS, **{**QUICK, "budget": 1})
    assert list(one.runs) == ["picky", "random", "none", "whittle", "merit-fair", "recommended"]
    assert one.skipped == {}


def test_a_policy_that_fails_later_does_not_lose_the_others(few: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Picky, "__post_init__", lambda self: object.__setattr__(self, "since", 4), raising=False)
    late = compare(SETS, **QUICK)
    assert list(late.runs) == ["random", "none", "whittle", "merit-fair", "recommended"]
    assert "picky" in late.skipped


def test_all_policies_are_compared_with_merit_fair_as_we_recommend_it(few: None) -> None:
    fair = mf.Criterion(mf.Affine(), design="systematic", floor=0.1)
    found = compare(SETS, criterion=fair, **QUICK)
    told = found.runs["recommended"].settings["policy"]
    assert (told["name"], told["estimate"], told["design"], told["slack"]) == ("merit-fair", "pooled", "exact", 2.0)
    assert told["floor"] == 0.1  # all but the design is as the criterion says
    named = compare(SETS, [RECOMMENDED_TEXT], criterion=fair, **QUICK)
    np.testing.assert_array_equal(found.runs["recommended"].reward, named.runs[RECOMMENDED_TEXT].reward)


def test_a_named_policy_that_cannot_be_played_is_an_error_before_others_are(few: None) -> None:
    told: list[str] = []
    with pytest.raises(mf.InputError, match=r"picky .* got a budget of 2"):
        compare(SETS, ["random", "picky"], progress=lambda label, *_: told.append(label), **QUICK)
    assert all(label.startswith("getting ready") for label in told)


@pytest.mark.parametrize(
    ("policies", "message"),
    [
        ("random", "policies must be a non-empty list, or a mapping of labels to policies, got 'random'"),
        (mf.Random(), "policies must be a non-empty list"),
        ([], "policies must be a non-empty list"),
        ({}, "policies must be a non-empty list"),
        (["merit-fare"], "there is no policy 'merit-fare', did you mean 'merit-fair'"),
        (["random", mf.Random()], "duplicate policy: random"),
        ([mf.Optimal(), mf.Optimal(delta=0.01)], "duplicate policy: optimal"),
        ([3], "policy must be a Policy"),
        ({"x": None}, "policy must be a Policy"),
    ],
)
def test_policies_that_are_no_policies(policies: Any, message: str) -> None:
    with pytest.raises(mf.InputError, match=message):
        compare(SETS, policies, **QUICK)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"budget": 7}, "budget must be between 1 and the 6 arms, got 7"),
        ({"episodes": 0}, "episodes must be at least 1, got 0"),
        ({"runs": 4}, "runs must be the number of sets of arms, 5, got 4"),
        ({"seed": -1}, "seed must be at least 0, got -1"),
        (
            {"criterion": mf.Criterion(design="exact", floor=0.5)},
            "floors must add up to at most the budget of 2, got 3",
        ),
        ({"criterion": mf.Exponential()}, r"criterion must be a Criterion, got Exponential\(c=3.0\)"),
        ({"confidence": "kl"}, "confidence must be a Confidence, got 'kl'"),
        ({"budget": [2, 7]}, "budget must be between 0 and the 6 arms in each round, got 7"),
        ({"rules": 2}, "rules must be a Rules, got 2"),
        ({"rules": mf.Rules(cooldown=3)}, "8 different arms are pulled in 4 rounds, but there are 6"),
    ],
)
def test_what_is_wrong_for_all_is_no_policys_fault(few: None, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(mf.InputError, match=message) as raised:
        compare(SETS, **{**QUICK, **settings})
    assert "cannot be played" not in str(raised.value)


# --- measures ---


def test_references_are_0_and_1(found: Comparison) -> None:
    assert found.measures["whittle"]["intervention_benefit"] == (1.0, 1.0, 1.0)
    assert found.measures["whittle"]["price_of_fairness"] == (0.0, 0.0, 0.0)
    assert found.measures["none"]["intervention_benefit"] == (0.0, 0.0, 0.0)


def test_measures_by_hand(found: Comparison) -> None:
    reward, none, best = (found.runs[label].reward.sum() for label in ("random", "none", "whittle"))
    measures = found.measures["random"]
    assert list(measures) == MEASURES
    assert measures["intervention_benefit"].mean == pytest.approx((reward - none) / (best - none))
    assert measures["price_of_fairness"].mean == pytest.approx((best - reward) / best)
    assert measures["good_state"].mean == pytest.approx(reward / (5 * 6 * 40 * 6))
    assert measures["fairness_regret"] == found.runs["random"].summary()["fairness_regret"]
    for value in measures.values():
        assert math.isnan(value.low) or value.low <= value.mean <= value.high


def test_what_cannot_be_measured_is_nan(found: Comparison) -> None:
    nothing = {name for name, value in found.measures["none"].items() if math.isnan(value.mean)}
    assert nothing == {"gini", "jain", "hhi", "earth_mover", "exposure_regret", "largest_account", "worst_window"}


def test_with_an_exact_design_exposures_are_measured_too() -> None:
    exact = compare(
        SETS, ["fair-oracle", "whittle", "none"], criterion=mf.Criterion(design="exact", floor=0.1), **QUICK
    )
    assert exact.measures["fair-oracle"]["exposure_regret"].mean == pytest.approx(0, abs=1e-9)
    assert exact.measures["whittle"]["exposure_regret"].mean > 0
    assert exact.runs["fair-oracle"].settings["policy"]["floor"] == 0.1


def test_a_single_run_has_no_intervals(tmp_path: Path) -> None:
    single = compare(SETS[0], ["random", "none"], **QUICK)
    for value in single.measures["random"].values():
        assert np.isnan([value.low, value.high]).all()
    single.save(tmp_path / "table.md")
    text = (tmp_path / "table.md").read_text()
    assert " to " not in text
    assert "interval" not in text


def test_with_everyone_pulled_all_are_equal() -> None:
    everyone = compare(SETS, ["random", "optimal"], **{**QUICK, "budget": 6})
    for measures in everyone.measures.values():
        assert measures["gini"].mean == measures["earth_mover"].mean == measures["longest_wait"].mean == 0
        assert measures["smallest_exposure"].mean == 1


def test_where_nothing_can_be_won_there_is_no_benefit() -> None:
    always_good = mf.Arms(np.ones((4, 2, 2)))
    good = compare(always_good, ["random", "none"], runs=3, **QUICK)
    bad = compare(mf.Arms(np.zeros((4, 2, 2))), ["random"], runs=3, **QUICK)
    for each in (good, bad):
        assert np.isnan(each.measures["random"]["intervention_benefit"]).all()
    assert good.measures["random"]["price_of_fairness"] == (0.0, 0.0, 0.0)
    assert np.isnan(bad.measures["random"]["price_of_fairness"]).all()
    assert good.measures["random"]["good_state"].mean == 1
    assert good.plot().axes[0].get_ylabel() == "share of arms in the good state"


def test_where_it_is_chance_whether_anything_is_won_the_benefit_has_no_bounds(
    found: Comparison, tmp_path: Path
) -> None:
    won = np.array([[10], [10], [10], [10], [-30]])  # by the best policy, in each run
    best = dataclasses.replace(found.best, reward=found.none.reward + won)
    vain = dataclasses.replace(found, best=best)
    benefit = vain.measures["random"]["intervention_benefit"]
    assert np.isfinite(benefit.mean)
    assert benefit[1:] == (-np.inf, np.inf)
    assert vain.plot().axes[0].get_ylabel() == "share of arms in the good state"
    vain.save(tmp_path / "table.tex")
    assert r"{\scriptsize $-$$\infty$ to $\infty$}" in (tmp_path / "table.tex").read_text()


def test_the_most_rewarding_first(found: Comparison) -> None:
    ordered = found.by_reward()
    rewards = [run.reward.sum() for run in ordered.runs.values()]
    assert rewards == sorted(rewards, reverse=True)
    assert set(ordered.runs) == set(LABELS)
    assert str(ordered.measures["random"]) == str(found.measures["random"])


def test_the_same_seed_gives_the_same_table(found: Comparison) -> None:
    again = compare(SETS, ["random", "merit-fair"], workers=1, **QUICK)
    assert str(again.rows()[0]) == str(found.rows()[0])
    other = compare(SETS, ["random"], **{**QUICK, "seed": 4})
    assert other.rows()[0]["good_state"] != found.rows()[0]["good_state"]


# --- tables and files ---


def test_a_row_for_each_policy(found: Comparison) -> None:
    rows = found.rows()
    columns = ["policy", *(name + end for name in MEASURES for end in ("", "_low", "_high"))]
    columns += ["against", "difference", "difference_low", "difference_high"]
    columns += ["difference_unpaired_low", "difference_unpaired_high"]
    assert [row["policy"] for row in rows] == LABELS
    for row in rows:
        assert list(row) == columns
        mean, low, high = found.measures[row["policy"]]["fairness_regret"]
        regret = row["fairness_regret"], row["fairness_regret_low"], row["fairness_regret_high"]
        assert regret == (mean, low, high)


def test_numbers_come_back_from_csv(found: Comparison, tmp_path: Path) -> None:
    found.save(tmp_path / "table.csv")
    with (tmp_path / "table.csv").open(newline="") as stream:
        back = list(csv.DictReader(stream))
    for row, there in zip(found.rows(), back, strict=True):
        assert there.pop("policy") == row.pop("policy")
        assert list(there) == list(row)
        assert there.pop("against") == row.pop("against") == "merit-fair"
        for name, value in row.items():
            assert there[name] == "" if math.isnan(value) else float(there[name]) == value


def test_numbers_and_settings_come_back_from_parquet(found: Comparison, tmp_path: Path) -> None:
    found.save(tmp_path / "table.parquet")
    stored = pq.read_table(tmp_path / "table.parquet")
    assert str(stored.to_pylist()) == str(found.rows())  # as text, as some numbers are NaN
    assert {str(field.type) for field in stored.schema} == {"string", "double"}
    settings = json.loads(stored.schema.metadata[b"meritfair"])
    assert settings == found.settings
    assert settings["seed"] == 3
    assert settings["versions"]["meritfair"] == mf.__version__
    assert settings["policies"]["merit-fair:estimate=mean"]["estimate"] == "mean"
    assert settings["problem"]["budget"] == 2


def test_a_table_in_markdown(found: Comparison, tmp_path: Path) -> None:
    found.save(tmp_path / "table.md")
    lines = (tmp_path / "table.md").read_text(encoding="utf-8").splitlines()
    comment = lines[0].removeprefix("<!-- meritfair ").removesuffix(" -->")
    assert json.loads(comment)["seed"] == 3
    assert json.loads(comment)["versions"]["meritfair"] == mf.__version__
    table = [line.strip("| ").split(" | ") for line in lines if line.startswith("| ")]
    assert table[0][:3] == ["policy", "intervention benefit", "price of fairness"]
    assert [row[0] for row in table[1:]] == ["random", "none", "whittle °", "fair-oracle °", *LABELS[4:]]
    assert {len(row) for row in table} == {8}
    mean, low, high = found.measures["random"]["gini"]
    assert table[1][5] == f"{mean:.2f} ({low:.2f} to {high:.2f})"
    assert table[2][5] == "–"
    assert table[3][1] == "1.00 (1.00 to 1.00)"
    assert lines[-1].startswith("6 arms, 2 pulled at each step · 6 episodes of 40 steps · 5 runs")
    assert lines[-1].endswith("°: knows the true arms.")


def test_a_table_in_latex(found: Comparison, tmp_path: Path) -> None:
    found.save(tmp_path / "table.tex")
    lines = (tmp_path / "table.tex").read_text(encoding="utf-8").splitlines()
    assert json.loads(lines[0].removeprefix("% meritfair "))["problem"]["episodes"] == 6
    assert lines[3] == r"\begin{tabular}{lrrrrrrr}"
    assert lines[-1] == r"\end{tabular}"
    rules = [line for line in lines if line.endswith("rule")]
    assert rules == [r"\toprule", r"\midrule", r"\bottomrule"]
    rows = [line.removesuffix(r" \\").split(" & ") for line in lines if line.endswith(r" \\")]
    assert len(rows) == 2 + 2 * len(LABELS)
    assert {len(row) for row in rows} == {8}
    assert rows[2][0] == "random"
    mean, low, high = found.measures["random"]["price_of_fairness"]
    assert rows[2][2] == rf"{100 * mean:.1f} \%".replace("-", "$-$")
    assert rows[3][2] == rf"{{\scriptsize {100 * low:.1f} to {100 * high:.1f} \%}}".replace("-", "$-$")
    assert rows[6][0] == r"whittle $^\circ$"


def test_labels_do_not_break_tables(tmp_path: Path) -> None:
    odd = r"50% & a_b | [*] {x}\n --> #1 $y^2$ ~ <b>" + "\nsecond  line"
    strange = compare(SETS, {odd: "random", "[0.5]": "none"}, **QUICK)
    strange.save(tmp_path / "table.tex")
    lines = (tmp_path / "table.tex").read_text().splitlines()
    expected = (
        r"50\% \& a\_b | {[}{*}{]} \{x\}\textbackslash{}n --\textgreater{} \#1 \$y\textasciicircum{}2\$ "
        r"\textasciitilde{} \textless{}b\textgreater{} second line"
    )
    assert any(line.startswith(f"{expected} & ") for line in lines)
    assert any(line.startswith("{[}0.5{]} & ") for line in lines)  # else it would be an argument of the line before
    strange.save(tmp_path / "table.md")
    text = (tmp_path / "table.md").read_text()
    assert text.count("-->") == text.splitlines()[0].count("-->") == 1
    assert odd in json.loads(text.splitlines()[0].removeprefix("<!-- meritfair ").removesuffix(" -->"))["policies"]
    assert r"| 50% & a\_b \| \[\*\] {x}\\n --\> \#1 $y^2$ \~ \<b\> second line |" in text
    strange.plot().savefig(tmp_path / "figure.png")
    strange.save(tmp_path / "table.csv")
    with (tmp_path / "table.csv").open(newline="") as stream:
        assert next(csv.DictReader(stream))["policy"] == odd


def test_a_file_of_another_kind_is_refused(found: Comparison, tmp_path: Path) -> None:
    message = "table.xlsx: comparisons are kept in .csv or .parquet or .md or .tex files"
    with pytest.raises(mf.FileError, match=message):
        found.save(tmp_path / "table.xlsx")
    assert not list(tmp_path.iterdir())


def test_numbers_as_people_read_them() -> None:
    plain, percent = Column("a", 1, ""), Column("b", 1, "", percent=True)
    assert [plain.number(value) for value in (1.25, -1.26, -0.01, 99.96, 123.45, 12345.0, np.nan)] == [
        "1.2",
        "−1.3",
        "0.0",
        "100.0",
        "123",
        "12,345",
        "–",
    ]
    assert plain.in_short(Interval(123.4, 120.0, 126.0)) == "123 ±3"
    assert plain.in_short(Interval(2.0, np.nan, np.nan)) == "2.0"
    assert plain.in_short(Interval(2.0, -np.inf, np.inf)) == "2.0 ±∞"
    assert plain.in_full(Interval(101.0, 98.6, 103.4)) == "101\n99 to 103"
    assert percent.in_full(Interval(0.012, -0.001, 0.02)) == "1.2 %\n−0.1 to 2.0 %"


def test_it_says_what_it_is(found: Comparison) -> None:
    assert repr(found).startswith("Comparison(6 policies: 6 arms, 2 pulled at each step · 6 episodes of 40 steps")
    assert "(1 policy: " in repr(compare(SETS, ["random"], **QUICK))


# --- the figure ---


def measured(points: dict[str, tuple[float, float]]) -> dict[str, dict[str, Interval]]:
    return {
        label: {"unfair": Interval(x, x - 0.1, x + 0.1), "reward": Interval(y, y - 0.2, y + 0.2)}
        for label, (x, y) in points.items()
    }


def test_the_front_has_whom_none_beats_in_both() -> None:
    points = {"a": (0.3, 0.5), "b": (0.1, 0.2), "c": (0.5, 0.4), "d": (0.3, 0.4), "e": (0.9, 1.0), "f": (0.1, 0.1)}
    shown = trade_off(measured(points), "unfair", "reward")
    assert [shown.labels[i] for i in shown.front] == ["b", "a", "e"]
    np.testing.assert_allclose(shown.fairness[:, 1], [0.1, 0.0, 0.2])
    np.testing.assert_allclose(shown.reward[:, 4], [1.0, 0.8, 1.2])


def test_points_without_a_number_are_left_out() -> None:
    shown = trade_off(measured({"a": (np.nan, 0.5), "b": (0.1, 0.2), "c": (0.2, np.nan)}), "unfair", "reward")
    assert shown.labels == ("b",)
    assert shown.front.tolist() == [0]
    assert len(trade_off(measured({"a": (np.nan, 0.5)}), "unfair", "reward").front) == 0


FRAME = np.array([[40.0, 30.0], [370.0, 330.0]])


def crowd(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return 18 points in three crowds, and sizes of labels."""
    rng = np.random.default_rng(seed)
    middles = np.repeat([[80.0, 100.0], [330.0, 300.0], [180.0, 200.0]], 6, axis=0)
    return middles + rng.normal(0.0, 9.0, (18, 2)), np.stack([rng.uniform(30, 80, 18), np.full(18, 8.0)], axis=-1)


def overlaps(centres: np.ndarray, sizes: np.ndarray) -> int:
    apart, reach = np.abs(centres[:, None] - centres), (sizes[:, None] + sizes) / 2
    return int(np.triu((apart < reach).all(axis=-1), 1).sum())


def covered(centres: np.ndarray, sizes: np.ndarray, points: np.ndarray) -> int:
    return int((np.abs(points[:, None] - centres) < sizes / 2).all(axis=-1).sum())


@pytest.mark.parametrize("seed", range(5))
def test_labels_of_a_crowd_do_not_overlap(seed: int) -> None:
    points, sizes = crowd(seed)
    beside = points + [1, 0] * (sizes / 2 + 5)
    assert overlaps(beside, sizes) > 3  # where one would put them without a thought
    centres = place_labels(points, sizes, FRAME, np.zeros((0, 2)))
    assert overlaps(centres, sizes) == 0
    assert covered(centres, sizes, points) == 0
    assert (centres - sizes / 2 >= FRAME[0]).all()
    assert (centres + sizes / 2 <= FRAME[1]).all()
    assert np.abs(centres - points).max() < 150


def test_a_label_alone_is_beside_its_point() -> None:
    point, size = np.array([[200.0, 150.0]]), np.array([[40.0, 8.0]])
    (centre,) = place_labels(point, size, FRAME, np.zeros((0, 2)))
    gap = np.abs(centre - point[0]) - size[0] / 2
    assert 0 < gap.max() <= 5
    above = np.linspace([150, 155], [250, 155], 20)  # then not there
    (centre,) = place_labels(point, size, FRAME, above)
    assert covered(centre[None], size, above) == 0


def written(figure: Any) -> list[list[str]]:
    return [[text.get_text() for text in axes.texts] for axes in figure.axes]


def test_the_figure_names_each_policy(found: Comparison, tmp_path: Path) -> None:
    figure = plot_comparison(found)
    left, right = written(figure)
    assert left == LABELS
    assert right == [label for label in LABELS if label != "none"]
    assert figure.axes[0].get_ylabel().startswith("intervention benefit")
    for word in ("No Gini where nobody is pulled", "Hollow: knows the true arms", "95 % intervals", "seed 3"):
        assert word in figure.get_supxlabel()
    for suffix in ("png", "pdf", "svg"):
        figure.savefig(tmp_path / f"figure.{suffix}")


def test_the_figure_shows_regret_of_an_episode(found: Comparison) -> None:
    lines = [line for line in found.plot().axes[0].lines if line.get_marker() == "o"]
    for label, line in zip(LABELS, lines, strict=True):
        ((x, y),) = np.asarray(line.get_xydata()).tolist()
        assert x == pytest.approx(found.runs[label].fairness_regret.mean())
        assert y == found.measures[label]["intervention_benefit"].mean
    inside = [line.get_markerfacecolor() for line in lines]
    assert [label for label, color in zip(LABELS, inside, strict=True) if color == "white"] == list(found.oracles)


def test_a_figure_of_little(tmp_path: Path) -> None:
    nothing = compare(SETS[0], ["none"], **QUICK).plot()
    assert written(nothing) == [["none"], []]
    nothing.savefig(tmp_path / "nothing.png")
    assert "interval" not in nothing.get_supxlabel()
    assert "Hollow" not in nothing.get_supxlabel()


def test_files_have_the_columns_that_are_asked_for(found: Comparison, tmp_path: Path) -> None:
    wanted = ("jain", "difference", "good_state")
    found.save(tmp_path / "table.csv", columns=wanted)
    with (tmp_path / "table.csv").open(newline="") as stream:
        kept = list(csv.DictReader(stream))
    ends = ("", "_low", "_high")
    expected = ["policy", *(name + end for name in ("jain", "good_state") for end in ends), "against"]
    expected += ["difference", "difference_low", "difference_high"]
    assert list(kept[0]) == [*expected, "difference_unpaired_low", "difference_unpaired_high"]
    assert [float(row["jain"]) for row in kept if row["jain"]] == [
        each["jain"].mean for each in found.measures.values() if not math.isnan(each["jain"].mean)
    ]
    found.save(tmp_path / "table.tex", columns=wanted)
    lines = (tmp_path / "table.tex").read_text(encoding="utf-8").splitlines()
    assert r"\begin{tabular}{lrrr}" in lines
    rows = [line.removesuffix(r" \\").split(" & ") for line in lines if line.endswith(r" \\")]
    assert rows[1] == ["policy", "Jain", "merit-fair, points", "state"]
    mean = found.differences()["random"].paired.mean
    assert rows[2][2] == f"{100 * mean:z.2f}".replace("-", "$-$")
    found.save(tmp_path / "table.md", columns="gini")
    assert "| policy | Gini |\n" in (tmp_path / "table.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("suffix", ["csv", "parquet", "md", "tex"])
@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (["gini", "jian"], "there is no measure 'jian', did you mean 'jain'?"),
        (["gini", "gini"], r"columns must be one or more different names, got \['gini', 'gini'\]"),
        ([], r"columns must be one or more different names, got \[\]"),
    ],
)
def test_columns_that_there_are_not_are_refused(
    found: Comparison, tmp_path: Path, suffix: str, columns: list[str], message: str
) -> None:
    with pytest.raises(mf.InputError, match=message):
        found.save(tmp_path / f"table.{suffix}", columns=columns)
    assert not list(tmp_path.iterdir())


def test_a_notebook_shows_a_table(found: Comparison) -> None:
    page = ET.fromstring(f"<div>{found._repr_html_()}</div>".replace("<br>", "<br/>"))  # well-formed
    rows = [["".join(cell.itertext()) for cell in row] for row in page.iter("tr")]
    assert rows[0][:3] == ["policy", "intervention benefit", "price of fairness"]
    assert [row[0] for row in rows[1:]] == ["random", "none", "whittle °", "fair-oracle °", *LABELS[4:]]
    mean, low, high = found.measures["random"]["gini"]
    assert rows[1][rows[0].index("Gini")] == f"{mean:.2f}{low:.2f} to {high:.2f}"
    odd = compare(SETS, {"<script>": "random"}, **QUICK)._repr_html_()
    assert "<script>" not in odd
    assert "&lt;script&gt;" in odd
