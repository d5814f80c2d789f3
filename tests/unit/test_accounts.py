"""Given exposures: they sum to the budget, keep every account within the slack, and equal those of the plain twin."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meritfair.core.arrays import FloatArray
from meritfair.core.errors import InputError
from meritfair.engine.accounts import give_once
from meritfair.model.accounts import account_pull, given_exposure
from reference.accounts import plain_given

SLACKS = (0.0, 0.05, 0.5, 1.0, 2.0, 10.0, math.inf)


def shares(rng: np.random.Generator, n_arms: int, budget: int) -> FloatArray:
    """Return exposures between 0 and 1 that sum to the budget, some of them at the ends."""
    due = rng.dirichlet(rng.choice([0.1, 1.0, 20.0], n_arms))
    for _ in range(100):
        due = np.minimum(1.0, due * budget / due.sum())
    return due if abs(due.sum() - budget) < 1e-12 else np.full(n_arms, budget / n_arms)


@given(seed=st.integers(0, 10**6), n_arms=st.integers(1, 30), slack=st.sampled_from(SLACKS), resting=st.booleans())
@settings(max_examples=200, deadline=None)
def test_equals_the_plain_twin(seed: int, n_arms: int, slack: float, resting: bool) -> None:
    rng = np.random.default_rng(seed)
    budget = int(rng.integers(0, n_arms + 1))
    due = shares(rng, n_arms, budget) if budget else np.zeros(n_arms)
    account = rng.uniform(-1, 1, n_arms) * (3.0 if math.isinf(slack) else 1.5 * slack)
    wanted, free = np.exp(rng.normal(0, 6, n_arms)), rng.random(n_arms) < 0.6 if resting else np.ones(n_arms, bool)
    found = given_exposure(wanted, account, due, slack, budget, free)
    plain = plain_given(
        wanted.tolist(), account.tolist(), due.tolist(), slack, budget, free.tolist(), account_pull(slack)
    )
    np.testing.assert_allclose(found, plain, atol=2e-8)
    assert abs(found.sum() - min(budget, free.sum())) < 1e-12 * n_arms
    assert found.min() >= 0
    assert found.max() <= 1 + 1e-12
    assert np.all(found[~free] == 0)


@pytest.mark.parametrize("slack", [0.3, 2.0])
@pytest.mark.parametrize("states", ["random", "hostile"])
def test_accounts_stay_within_the_slack_for_any_states(slack: float, states: str) -> None:
    rng = np.random.default_rng(1)
    for n_arms, budget in ((1, 1), (2, 1), (7, 3), (40, 8)):
        account, due = np.zeros(n_arms), shares(rng, n_arms, budget)
        for step in range(500):
            if step % 50 == 0:
                due = shares(rng, n_arms, budget)
            # hostile: who is ahead asks for more, and who is behind for less
            wanted = np.exp(12.0 * (rng.random(n_arms) < 0.5 if states == "random" else account < 0))
            given_now = given_exposure(wanted, account, due, slack, budget)
            account += due - given_now
            assert np.abs(account).max() <= slack + 1e-9
            assert abs(given_now.sum() - budget) < 1e-9
        assert n_arms == budget or np.abs(account).max() > 0.01 * slack  # it makes use of the slack


def test_what_is_given_does_not_depend_on_where_arrays_are_in_memory() -> None:
    """Not in the last bit: a learner that is loaded resumes exactly, and a run is the same each time."""
    rng, n_arms = np.random.default_rng(5), 6
    due = np.array([0.43, 0.23, 0.38, 0.28, 0.35, 0.33])
    account, odds = rng.uniform(-0.5, 0.5, n_arms), np.exp(rng.normal(0, 6, n_arms))
    memory, found = np.zeros(200), set()
    for _ in range(500):
        firsts = np.cumsum(n_arms + rng.integers(0, 5, 8))[rng.permutation(8)]
        given_now, wanted, low, high, least, most, owed, e = (memory[first : first + n_arms] for first in firsts)
        wanted[:], least[:], most[:], owed[:], e[:] = odds, 0.0, 1.0, account, due
        everyone = np.ones(n_arms, np.bool_)
        give_once(given_now, wanted, low, high, least, most, owed, e, everyone, 0.5, 2, account_pull(0.5))
        found.add(given_now.tobytes())
    assert len(found) == 1


def test_no_slack_is_what_is_due() -> None:
    due = np.array([0.7, 0.2, 0.1, 1.0])
    found = given_exposure([9.0, 0.001, 1.0, 0.4], np.zeros(4), due, 0.0, 2)
    np.testing.assert_allclose(found, due, atol=1e-15)


def test_relabelled_arms_are_given_the_same() -> None:
    rng = np.random.default_rng(3)
    wanted, account, due = rng.exponential(1, 12), rng.uniform(-1, 1, 12), shares(rng, 12, 5)
    order = rng.permutation(12)
    found = given_exposure(wanted, account, due, 1.0, 5)
    np.testing.assert_allclose(
        given_exposure(wanted[order], account[order], due[order], 1.0, 5), found[order], atol=1e-8
    )


def test_rules_win_over_slack() -> None:
    due = np.full(4, 0.5)
    rested = given_exposure(due, [0.5, 0.5, -0.5, -0.5], due, 0.5, 2, np.array([False, False, True, True]))
    np.testing.assert_allclose(rested, [0, 0, 1, 1])  # the budget is spent on those who may be pulled
    owed = given_exposure(due, [3.0, 3.0, 3.0, 1.0], due, 0.5, 2)  # owed more than can be given
    np.testing.assert_allclose(owed, [2 / 3, 2 / 3, 2 / 3, 0])  # who is owed most comes first
    nobody = given_exposure(due, np.zeros(4), due, 0.5, 2, np.zeros(4, bool))
    np.testing.assert_array_equal(nobody, 0)


def test_learning_gives_way_before_the_slack_does() -> None:
    due, account = np.array([0.2, 0.2, 0.6]), np.array([0.5, 0.5, -1.0])
    free, least = np.array([True, True, False]), np.array([0.19, 0.19, 0.0])
    given_now = given_exposure(due, account, due, 0.6, 1, free, least)  # low by slack: 0.1 each; to learn: 0.19
    np.testing.assert_allclose(given_now, [0.5, 0.5, 0])
    due, account = np.array([0.8, 0.8, 0.4]), np.array([0.5, -0.5, 0.0])
    given_now = given_exposure(due, account, due, 0.5, 1, np.array([True, True, False]), [0.7, 0.7, 0.0])
    np.testing.assert_allclose(given_now, [0.8 + 0.0, 0.2, 0])  # the first must have 0.8, so learning gets 0.2 of 0.7


@given(seed=st.integers(0, 10**6), slack=st.sampled_from([0.0, 0.5, 2.0]))
@settings(max_examples=200, deadline=None)
def test_accounts_beyond_the_slack_end_at_one_level(seed: int, slack: float) -> None:
    """So no other exposures bring one closer without another one going farther; docs/theory.md has the proof."""
    rng = np.random.default_rng(seed)
    n, budget = 8, int(rng.integers(1, 5))
    due, free = shares(rng, n, budget), rng.random(n) < 0.6
    account = rng.uniform(-1, 1, n) * (slack + 1.5)
    found = given_exposure(due + 0.01, account, due, slack, budget, free)
    after, number = account + due - found, min(budget, int(free.sum()))
    least, most = (np.clip(account + due - bound, 0, 1)[free].sum() for bound in (slack, -slack))
    inside = free & (found > 1e-9) & (found < 1 - 1e-9)
    if least > number:
        level = after[inside].max(initial=-np.inf)
        np.testing.assert_allclose(after[inside], level, atol=1e-9)
        assert level >= slack - 1e-9 or not inside.any()
    elif most < number:
        level = after[inside].min(initial=np.inf)
        np.testing.assert_allclose(after[inside], level, atol=1e-9)
        assert level <= -slack + 1e-9 or not inside.any()
    else:
        held = np.clip(account + due - slack, 0, 1) - 1e-9, np.clip(account + due + slack, 0, 1) + 1e-9
        assert np.all((found >= held[0])[free] & (found <= held[1])[free])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"slack": -1.0}, "slack must be at least 0, got -1"),
        ({"slack": math.nan}, "slack"),
        ({"budget": -1}, "budget"),
        ({"due": [0.5]}, "one number for each arm"),
    ],
)
def test_refuses(change: dict[str, Any], said: str) -> None:
    good: dict[str, Any] = {"odds": [1.0, 1.0], "account": [0.0, 0.0], "due": [0.5, 0.5], "slack": 1.0, "budget": 1}
    with pytest.raises(InputError, match=said):
        given_exposure(**{**good, **change})
