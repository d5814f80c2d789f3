"""Intervals of an effect hold, whenever one looks; no effect is found where there is none; planted errors are.

Seeds are fixed. All tests of this file together reject a correct program with probability below about 1e-4: each of the
COMPARISONS is made at ALPHA / COMPARISONS. The bars themselves, on 1,000 programmes of each kind, are for
benchmarks/effect.py; that the tests here could fail is shown by planted errors, which must be found.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest
from scipy import stats

import meritfair as mf
from meritfair.core.arrays import BoolArray, FloatArray
from meritfair.effects import Effect, EffectTable
from reference.programmes import Programme, Settings, play, silenced, unseen_shift

pytestmark = pytest.mark.slow

ALPHA = 1e-4
COMPARISONS = 20
LEVEL = ALPHA / COMPARISONS
PROGRAMMES = 400
KINDS = {
    "exact": Settings(rounds=25),
    "timed": Settings(rounds=25, design="systematic", timed=3.0),
    "sequential, no effect": Settings(rounds=25, design="sequential", replan=5, helps=False),
    "timed, no effect": Settings(rounds=25, design="systematic", timed=3.0, helps=False),
}

SITES = {
    "2 sites": Settings(n_arms=60, rounds=30, sites=2, budget=1, shared=0.3, helps=False),
    "8 sites, lasting": Settings(n_arms=64, rounds=30, sites=8, budget=2, shared=0.3, lasting=0.8, helps=True),
}
SILENT = {
    "not helped": (Settings(n_arms=60, budget=18, rounds=30), [[0.31, 0.31], [0.5, 0.1]]),
    "opposite": (Settings(n_arms=60, budget=18, rounds=30, helps=False), [[0.1, 0.5], [0.335, 0.1]]),
}


@lru_cache
def played(kind: str) -> list[Programme]:
    return [play(KINDS[kind], np.random.default_rng([3, seed])) for seed in range(PROGRAMMES)]


@lru_cache
def found(kind: str) -> list[Effect]:
    return [mf.effect(programme.log()) for programme in played(kind)]


def too_many(misses: int, level: float) -> bool:
    """Whether so many misses refute that each programme has one with probability `level` at most."""
    return bool(stats.binom.sf(misses - 1, PROGRAMMES, level) < LEVEL)


def outside(low: FloatArray, high: FloatArray, truth: FloatArray | float = 0.0) -> BoolArray:
    """Whether the truth is outside; not where there is no interval yet."""
    return np.asarray((low > truth) | (high < truth))


def ever_called(courses: Iterable[EffectTable]) -> int:
    """In how many programmes 0 was ever outside the anytime interval."""
    return sum(bool(outside(each.anytime_low, each.anytime_high).any()) for each in courses)


@pytest.mark.parametrize("kind", KINDS)
def test_the_anytime_interval_holds_after_every_round(kind: str) -> None:
    misses = sum(
        bool(outside(each.rounds.anytime_low, each.rounds.anytime_high, programme.truth()).any())
        for each, programme in zip(found(kind), played(kind), strict=True)
    )
    assert not too_many(misses, 0.05)


@pytest.mark.parametrize("kind", KINDS)
def test_the_asymptotic_interval_holds_at_the_end(kind: str) -> None:
    low, high = np.array([each.asymptotic for each in found(kind)]).T
    truth = np.array([programme.truth()[-1] for programme in played(kind)])
    misses = int(outside(low, high, truth).sum())
    assert not too_many(misses, 0.07)
    assert not too_many(PROGRAMMES - misses, 0.97)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if "no effect" in kind])
def test_no_effect_is_called_one_however_often_one_looks(kind: str) -> None:
    assert not too_many(ever_called(each.rounds for each in found(kind)), 0.05)


def test_looking_at_the_asymptotic_interval_after_every_round_is_caught() -> None:
    called = sum(bool(outside(each.rounds.low, each.rounds.high).any()) for each in found("timed, no effect"))
    assert too_many(called, 0.05)


def test_draws_that_were_not_left_to_chance_are_caught() -> None:
    """In every second round, a place goes from somebody who will be in the bad state to somebody who will not."""
    rng = np.random.default_rng(5)
    looks = []
    for programme in played("timed, no effect"):
        drawn, after = programme.drawn.copy(), programme.states[1:]
        for t in np.flatnonzero(rng.random(len(drawn)) < 0.5):
            loses, gains = np.flatnonzero(drawn[t] & (after[t] == 0)), np.flatnonzero(~drawn[t] & (after[t] == 1))
            if len(loses) and len(gains):
                drawn[t, [rng.choice(loses), rng.choice(gains)]] = False, True
        looks.append(mf.effect(replace(programme, drawn=drawn).log()).rounds)
    assert too_many(ever_called(looks), 0.05)


def test_estimates_are_unbiased_and_the_plain_difference_is_not() -> None:
    kind = "timed, no effect"
    estimates = np.array([each.estimate for each in found(kind)])
    plain = np.array([each.difference for each in found(kind)])
    z_estimate, z_plain = (x.mean() / x.std(ddof=1) * np.sqrt(PROGRAMMES) for x in (estimates, plain))
    bound = stats.norm.isf(LEVEL / 2)
    assert abs(z_estimate) < bound < abs(z_plain)
    errors = np.sqrt(np.mean([each.overall.standard_error[0] ** 2 for each in found(kind)]))
    assert errors == pytest.approx(estimates.std(ddof=1), rel=0.25)


@lru_cache
def of_sites(kind: str) -> list[Programme]:
    return [play(SITES[kind], np.random.default_rng([4, seed])) for seed in range(PROGRAMMES)]


def misses_of_sites(kind: str, cluster: str | None) -> int:
    """In how many programmes the anytime interval ever missed the truth."""
    misses = 0
    for programme in of_sites(kind):
        course = mf.effect(programme.log(), cluster=cluster).rounds
        misses += bool(outside(course.anytime_low, course.anytime_high, programme.truth()).any())
    return misses


@pytest.mark.parametrize("kind", SITES)
def test_the_interval_holds_where_whole_sites_are_drawn_if_that_is_said(kind: str) -> None:
    assert not too_many(misses_of_sites(kind, "site"), 0.05)


@pytest.mark.parametrize("kind", SITES)
def test_sites_that_are_taken_for_people_are_caught(kind: str) -> None:
    assert too_many(misses_of_sites(kind, None), 0.05)


@lru_cache
def of_silent(kind: str) -> list[tuple[Programme, Effect]]:
    settings, chances = SILENT[kind]
    made = []
    for seed in range(PROGRAMMES):
        rng = np.random.default_rng([5, seed])
        programme = silenced(play(settings, rng), np.array(chances), rng)
        made.append((programme, mf.effect(programme.log())))
    return made


@pytest.mark.parametrize("kind", SILENT)
def test_the_interval_moved_by_as_much_as_those_not_seen_differed_holds(kind: str) -> None:
    as_it_is = moved = 0
    for programme, each in of_silent(kind):
        (low, high), truth, off = each.interval, programme.mean_effect(), unseen_shift(programme)
        as_it_is += not low <= truth <= high
        moved += not low + off <= truth <= high + off
    assert too_many(as_it_is, 0.05)
    assert not too_many(moved, 0.05)


@pytest.mark.parametrize("kind", SILENT)
def test_the_outer_bounds_hold_whatever_is_missing_and_why(kind: str) -> None:
    misses = 0
    for programme, each in of_silent(kind):
        low, high = each.sensitivity.outer
        misses += not low <= programme.mean_effect() <= high
    assert not too_many(misses, 0.05)


def test_an_effect_that_is_none_tips_before_those_not_seen_differ_as_much_as_they_did() -> None:
    """Of all that are called an effect, hardly any bears the difference that there was."""
    bear = called = 0
    for programme, each in of_silent("opposite"):
        if each.interval[0] > 0:
            called += 1
            bear += each.sensitivity.tipping["worse"] > -unseen_shift(programme) / each.sensitivity.weight.sum()
    assert called > PROGRAMMES / 2
    assert not too_many(bear, 0.05)
