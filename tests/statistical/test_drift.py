"""Both tests of a change keep their level, also among people no prior is made for, and find what they say they find.

Seeds are fixed. All comparisons together reject a correct program with a probability below about 1e-4.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import meritfair as mf
from meritfair import drifting
from reference.changing import POPULATIONS, Programme
from reference.drift import mantel_haenszel

pytestmark = pytest.mark.slow

LEVEL = 1e-5  # of each comparison
ALPHA = 0.05
SMALL = Programme(n_arms=40, rounds=40)


def played(programme: Programme, logs: int) -> list[mf.StateLog]:
    return [programme.log(np.random.default_rng([7, k])) for k in range(logs)]


def too_many(found: int, logs: int) -> bool:
    return bool(stats.binom.sf(found - 1, logs, ALPHA) < LEVEL)


@pytest.mark.parametrize("population", POPULATIONS)
def test_without_a_change_alarms_are_as_rare_as_said_and_a_change_is_found(population: str) -> None:
    programme = replace(SMALL, population=population)
    found = [mf.drift(log, alpha=ALPHA) for log in played(programme, 60)]
    assert not too_many(sum(each.alarm is not None for each in found), 60)
    assert not too_many(sum(each.p_value <= ALPHA for each in found), 60)
    assert not too_many(sum(bool(each.arms) for each in found), 60)
    changed = [mf.drift(log, alpha=ALPHA) for log in played(replace(programme, shift=-1.0), 20)]
    assert sum(each.alarm is not None for each in changed) >= 12
    assert sum(each.p_value <= ALPHA for each in changed) >= 18


def test_many_people_and_few_rounds_do_not_mislead_it_as_they_do_a_test_that_does_not_pool() -> None:
    programme = Programme("two Beta classes", n_arms=2_000, rounds=15)
    alarms = looks = plain = 0
    for log in played(programme, 20):
        found = mf.drift(log, alpha=ALPHA)
        alarms, looks = alarms + (found.alarm is not None), looks + (found.p_value <= ALPHA)
        parts = (np.concatenate([part, part.sum(axis=0, keepdims=True)])[None] for part in mantel_haenszel(log))
        alone = drifting._OneLook.of(drifting._Sums(*parts), np.random.default_rng(1))
        plain += bool(alone.p_values.min() <= ALPHA)
    assert not too_many(alarms, 20)
    assert not too_many(looks, 20)
    assert too_many(plain, 20)


def test_newcomers_who_differ_from_all_others_are_no_change() -> None:
    """Nobody changes, but from the ninth round on there are as many people again who are worse off."""
    alarms = looks = 0
    for k in range(20):
        rng = np.random.default_rng([9, k])
        columns = []
        for first, level in ((0, 0.0), (8, -1.0)):
            person = level + rng.normal(0, 0.7, (300, 1, 1)) + np.array([[-1.0, -0.3], [0.5, 1.0]])
            chance = 1 / (1 + np.exp(-person))
            arm, state = np.arange(300), rng.integers(0, 2, 300)
            for t in range(first, 16):
                action = (rng.random(300) < 0.2).astype(int)
                columns.append((arm + 300 * (first > 0), np.full(300, t), state, action))
                state = (rng.random(300) < chance[arm, state, action]).astype(int)
        found = mf.drift(mf.StateLog(*np.concatenate(columns, axis=1)), alpha=ALPHA)
        alarms, looks = alarms + (found.alarm is not None), looks + (found.p_value <= ALPHA)
    assert not too_many(alarms, 20)
    assert not too_many(looks, 20)


def test_a_change_of_the_size_that_is_said_is_found_with_the_power_that_is_said() -> None:
    """One look: 80 % of 120 logs, within 3.9 standard errors. At any time it is at least that, as changes go on."""
    programme = replace(SMALL, population="logit-normal")
    sizes = mf.drift(programme.log(np.random.default_rng(1)), alpha=ALPHA)
    assert sizes.findable is not None
    assert sizes.findable_at_one_look is not None
    changed = played(replace(programme, shift=-sizes.findable_at_one_look.log_odds), 120)
    power = np.mean([mf.drift(log, alpha=ALPHA).p_value <= ALPHA for log in changed])
    assert abs(power - drifting.POWER) < 0.14
    changed = played(replace(programme, shift=-sizes.findable.log_odds), 60)
    power = np.mean([mf.drift(log, alpha=ALPHA).alarm is not None for log in changed])
    assert 0.6 < power < 0.97
