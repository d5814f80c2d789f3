"""Differences of policies, run by run: their intervals, what they are held against, and tables."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

import meritfair as mf
from meritfair.simulation.bootstrap import Interval, difference, interval
from meritfair.simulation.comparison import Comparison, compare

QUICK: dict[str, Any] = {"budget": 2, "episodes": 6, "horizon": 40, "seed": 3}
SETS = mf.datasets.instances("synthetic", 6, 8, seed=2)
LABELS = ["random", "merit-fair:estimate=mean", "whittle"]


@pytest.fixture(scope="module")
def found() -> Comparison:
    return compare(SETS, LABELS, **QUICK)


def share(run: mf.Run) -> Any:
    return run.reward.sum(axis=1) / (6 * 6 * 40)


def width(one: Interval) -> float:
    return one.high - one.low


# --- of numbers ---


def test_what_two_have_in_common_cancels() -> None:
    rng = np.random.default_rng(1)
    common, own = rng.normal(0, 10, 50), rng.normal(1, 0.1, 50)
    both = difference(common + own, common, seed=7)
    assert both.paired == interval(own + common - common, seed=7)
    assert both.paired.mean == both.unpaired.mean == pytest.approx(own.mean())
    assert width(both.paired) < 0.1  # about 4 standard errors, 4 * 0.1 / sqrt(50)
    assert 5.0 < width(both.unpaired) < 11.0  # of which the standard error is 10 * sqrt(2 / 50)


def test_without_anything_in_common_pairs_gain_nothing() -> None:
    rng = np.random.default_rng(2)
    both = difference(rng.normal(0, 1, 200), rng.normal(0, 1, 200))
    assert width(both.paired) / width(both.unpaired) == pytest.approx(1, abs=0.15)


def test_a_single_run_has_no_interval() -> None:
    both = difference([3.0], [1.0])
    for each in both:
        assert each.mean == 2
        assert np.isnan(each[1:]).all()


def test_two_that_do_not_have_the_same_runs() -> None:
    with pytest.raises(mf.InputError, match=r"one number for each run twice, got \(3,\) and \(2,\)"):
        difference([1.0, 2.0, 3.0], [1.0, 2.0])


# --- of policies ---


def test_the_interval_is_that_of_the_differences_of_runs(found: Comparison) -> None:
    between = found.differences("whittle")
    assert list(between) == LABELS
    gap = share(found.runs["random"]) - share(found.best)
    assert between["random"].paired == interval(gap, seed=3)
    assert between["random"].paired.mean == pytest.approx(
        found.measures["random"]["good_state"].mean - found.measures["whittle"]["good_state"].mean
    )
    assert between["whittle"].paired == (0, 0, 0)


def test_pairs_of_runs_make_it_narrower(found: Comparison) -> None:
    for label, each in found.differences("random").items():
        if label != "random":
            assert width(each.paired) < 0.8 * width(each.unpaired)


def test_with_everyone_pulled_all_have_the_same_reward_in_each_run() -> None:
    everyone = compare(SETS, ["random", "whittle", "wiql", "merit-fair"], **{**QUICK, "budget": 6})
    for each in everyone.differences("random").values():
        assert each.paired == (0, 0, 0)
        assert width(each.unpaired) > 0


def test_any_measure_has_differences(found: Comparison) -> None:
    between = found.differences("random", "gini")
    expected = mf.metrics.gini(found.best.pulls) - mf.metrics.gini(found.runs["random"].pulls)
    assert between["whittle"].paired == interval(expected, seed=3)
    with pytest.raises(mf.InputError, match=r"measure must be one of .*gini.*, got 'ginni'"):
        found.differences("random", "ginni")


@pytest.mark.parametrize(
    ("policies", "expected"),
    [
        (["random", "merit-fair", "merit-fair:estimate=mean"], "merit-fair"),
        (["random", "merit-fair:estimate=mean"], "merit-fair:estimate=mean"),
        ({"a": "random", "ours": "merit-fair"}, "ours"),
        (["whittle", "random"], "whittle"),
    ],
)
def test_by_default_it_is_held_against_merit_fair_or_the_first(policies: Any, expected: str) -> None:
    usual = compare(SETS, policies, **QUICK)
    assert usual.against == usual.by_reward().against == expected
    assert usual.differences()[expected].paired == (0, 0, 0)


def test_another_may_be_named_also_one_that_is_not_listed(found: Comparison) -> None:
    named = compare(SETS, LABELS[:2], against="none", **QUICK)
    assert named.against == "none"
    assert named.differences()["random"] == found.differences("none")["random"]
    gap = share(named.runs["random"]) - share(named.none)
    row = named.rows()[0]
    assert row["against"] == "none"
    assert (row["difference"], row["difference_low"], row["difference_high"]) == interval(gap, seed=3)
    unpaired = named.differences()["random"].unpaired
    assert (row["difference_unpaired_low"], row["difference_unpaired_high"]) == unpaired[1:]


def test_a_label_hides_the_reference_of_that_name() -> None:
    named = compare(SETS, {"none": "random", "b": "whittle"}, **QUICK)
    assert named.differences("none")["none"].paired == (0, 0, 0)
    assert named.none.pulls.sum() == 0


def test_one_that_is_not_there_is_refused_before_anything_is_played(found: Comparison) -> None:
    told: list[str] = []
    with pytest.raises(mf.InputError, match="there is no policy 'wittle', did you mean 'whittle'"):
        compare(SETS, LABELS, against="wittle", progress=lambda label, *_: told.append(label), **QUICK)
    assert told == []
    with pytest.raises(mf.InputError, match="there is no policy 'randon', did you mean 'random'"):
        found.differences("randon")


def test_one_that_cannot_be_played_is_refused_before_others_are(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise mf.InputError("not today")

    monkeypatch.setattr(mf.ProbFair, "plan", refuse)
    told: list[str] = []
    with pytest.raises(mf.InputError, match="prob-fair cannot be played here: not today"):
        compare(SETS, against="prob-fair", progress=lambda label, *_: told.append(label), **QUICK)
    assert all(label.startswith("getting ready") for label in told)


def test_a_single_run_of_policies() -> None:
    (first, second) = compare(SETS[0], ["random", "whittle"], **QUICK).rows()
    assert first["difference"] == 0
    assert second["difference"] == pytest.approx(second["good_state"] - first["good_state"])
    assert np.isnan([second["difference_low"], second["difference_unpaired_high"]]).all()


def test_without_policies_there_are_no_differences(found: Comparison) -> None:
    empty = dataclasses.replace(found, runs={}, against="")
    assert empty.differences() == {}
    assert empty.rows() == []
