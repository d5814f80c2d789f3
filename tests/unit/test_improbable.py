"""Outcomes that are improbable beside those of others: e-values that are exact, a liar who is found, honest people."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

import meritfair as mf
from meritfair import InputError
from meritfair.core.arrays import FloatArray
from meritfair.model.counts import Counts
from meritfair.model.improbable import _at, _like_none, _of_several, _under, improbable
from meritfair.model.posterior import Prior

GOOD, BAD = [[[2.0, 3.0], [4.0, 6.0]], [[1.0, 1.0], [2.0, 2.0]]], [[[5.0, 4.0], [3.0, 2.0]], [[1.0, 3.0], [1.0, 0.5]]]
PRIOR = Prior([0.7, 0.3], GOOD, BAD)


def everything(visits: Any) -> tuple[Counts, FloatArray]:
    """Return all good outcomes that there can be of these visits, and in how many orders each can come."""
    v = np.array(visits)
    goods = np.array(list(itertools.product(*[range(n + 1) for n in v.ravel()]))).reshape(-1, 2, 2)
    ways = [
        math.prod(math.comb(int(n), int(g)) for n, g in zip(v.ravel(), good.ravel(), strict=True)) for good in goods
    ]
    return Counts(np.broadcast_to(v, goods.shape), goods), np.array(ways, np.float64)


@pytest.mark.parametrize("visits", [[[2, 1], [3, 0]], [[0, 4], [1, 2]]])
def test_both_sides_are_probabilities_and_the_evidence_is_at_most_1_on_average(visits: Any) -> None:
    counts, ways = everything(visits)
    assert ways @ np.exp(_like_none(counts)) == pytest.approx(1)
    assert ways @ np.exp(_at(PRIOR, counts, 0.0, 0.0)) == pytest.approx(1)
    assert ways @ np.exp(_at(PRIOR, counts, 1.2, -0.5)) == pytest.approx(1)
    prior, e_values = np.exp(_at(PRIOR, counts, 0.0, 0.0)), np.exp(_like_none(counts) - _under(PRIOR, counts))
    assert (ways * prior) @ e_values <= 1 + 1e-12


def played(arms: mf.Arms, rounds: int, seed: int, liars: int = 0) -> Counts:
    """Return what is reported of people who are called at random; the first may say good exactly after calls."""
    rng, N = np.random.default_rng(seed), arms.n_arms
    truth, states = np.zeros((2, N), np.int64)
    visits, good = np.zeros((2, N, 2, 2), np.int64)
    for _ in range(rounds):
        actions = (rng.random(N) < 0.3).astype(np.int64)
        truth = (rng.random(N) < arms.transitions[np.arange(N), truth, actions]).astype(np.int64)
        after = truth.copy()
        after[:liars] = actions[:liars]
        visits[np.arange(N), states, actions] += 1
        good[np.arange(N), states, actions] += after
        states = after
    return Counts(visits, good)


@pytest.mark.parametrize("dataset", ["cpap", "synthetic", "synthetic_alternate"])
def test_who_reports_good_exactly_after_calls_is_named_and_nobody_else(dataset: str) -> None:
    for seed in range(4):
        arms = getattr(mf.datasets, dataset)(n_arms=20, seed=seed)
        found = improbable(played(arms, 80, seed, liars=1))
        assert found.order.tolist() == [0]
        assert found.good_pulled[0] == found.pulled[0] > 0 == found.good_unpulled[0]
        assert [row["arm"] for row in found.rows(list("abcdefghijklmnopqrst"))] == ["a"]


def test_two_who_report_alike_do_not_hide_each_other() -> None:
    """With a class of their own in the prior, neither would be named."""
    for seed in range(3):
        found = improbable(played(mf.datasets.cpap(n_arms=20, seed=seed), 80, seed, liars=2))
        assert sorted(found.order) == [0, 1]


def test_a_class_needs_three_arms() -> None:
    visits = np.full((12, 2, 2), 50)
    good = np.full((12, 2, 2), 25)
    good[:2], good[2:5] = 0, 50
    prior = Prior(
        [0.5, 0.2, 0.3], [np.full((2, 2), x) for x in (5.0, 0.5, 9.5)], [np.full((2, 2), x) for x in (5.0, 9.5, 0.5)]
    )
    kept = _of_several(prior, Counts(visits, good))
    assert kept.weights == pytest.approx([0.625, 0.375])
    assert kept.good[:, 0, 0].tolist() == [5.0, 9.5]
    alone = Counts(visits[:2], good[:2])
    assert _of_several(prior, alone) is prior  # else nothing would be left


def test_who_is_only_well_more_often_is_not_named() -> None:
    transitions = np.tile([[0.3, 0.4], [0.5, 0.6]], (20, 1, 1))
    transitions[0] = [[0.55, 0.65], [0.73, 0.8]]  # by 1.05 more in log odds everywhere, the spread that is usual
    assert not improbable(played(mf.Arms(transitions), 100, 1)).named.any()


@pytest.mark.slow
@pytest.mark.parametrize("dataset", ["cpap", "synthetic", "synthetic_alternate"])
def test_honest_people_are_hardly_ever_named(dataset: str) -> None:
    """At 5 %, of 40 programmes 6 or more with somebody named would have a probability of 1.4 %; seeds are fixed."""
    made = [getattr(mf.datasets, dataset)(n_arms=30, seed=seed) for seed in range(40)]
    named = [improbable(played(arms, 60, 100 + seed)).named.any() for seed, arms in enumerate(made)]
    assert sum(named) <= 5


def test_few_people_say_nothing_of_another_one() -> None:
    counts = played(mf.datasets.cpap(n_arms=9, seed=1), 80, 1, liars=1)
    assert not improbable(counts).log_evidence.any()


def test_input_is_checked() -> None:
    with pytest.raises(InputError, match=r"alpha must lie strictly between 0 and 1, got 1\.5"):
        improbable(Counts.none(12), alpha=1.5)
    with pytest.raises(InputError, match="counts must be of one set of arms"):
        improbable(Counts(np.zeros((2, 12, 2, 2), int), np.zeros((2, 12, 2, 2), int)))
