"""A simulation that starts from given states, and from what was seen before."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import meritfair as mf
from meritfair.core.errors import InputError
from meritfair.model.exposure import merit_share
from meritfair.simulation.metrics import fairness_regret

ARMS = mf.datasets.cpap(n_arms=6, seed=1)
HOW: Any = {"budget": 2, "episodes": 2, "horizon": 5, "carry_states": True, "seed": 1}


def history(n_arms: int = 6, visits: int = 40) -> mf.Counts:
    good = np.random.default_rng(3).binomial(visits, mf.datasets.cpap(n_arms=n_arms, seed=1).transitions)
    return mf.Counts(np.full((n_arms, 2, 2), visits), good)


def test_first_states_are_those_given() -> None:
    still = mf.Arms(np.broadcast_to([[1e-12], [1 - 1e-12]], (6, 2, 2)))  # every arm stays where it is
    states = [[0, 1, 1, 0, 1, 0], [1, 1, 1, 1, 0, 0]]
    run = mf.simulate(still, "random", **HOW, runs=2, states=states)
    np.testing.assert_array_equal(run.visits.sum(axis=-1)[..., 1], 10 * np.array(states))
    one = mf.simulate(still, "random", **HOW, runs=2, states=states[0])
    np.testing.assert_array_equal(one.visits.sum(axis=-1)[..., 1], 10 * np.array([states[0]] * 2))


def test_states_do_not_move_other_random_numbers() -> None:
    """Who is pulled at random does not depend on states, and does not change with them."""
    one, other = (mf.simulate(ARMS, "random", **HOW, states=s) for s in (None, [1] * 6))
    np.testing.assert_array_equal(one.pulls, other.pulls)


@pytest.mark.parametrize("slack", [0.0, 2.0])
@pytest.mark.parametrize("estimate", ["mean", "pooled", "optimistic"])
def test_policies_plan_from_the_history(estimate: str, slack: float) -> None:
    """The shares of the first plan are those of the same policy that has seen these counts."""
    seen = history(n_arms=30)
    arms = mf.datasets.cpap(n_arms=30, seed=1)
    policy = mf.MeritFair(estimate=estimate, design="exact", slack=slack)
    run = mf.simulate(arms, policy, **HOW | {"budget": 5}, history=seen)
    plan = policy.plan(mf.policies.View(seen, 1, 5, arms.transitions))
    fair = merit_share(policy.merit(arms.benefit))
    assert run.fairness_regret[0, 0] == pytest.approx(float(fairness_regret(plan.share(5), fair)), rel=1e-6)


def test_results_count_what_is_played() -> None:
    run = mf.simulate(ARMS, mf.MeritFair(estimate="mean"), **HOW, history=history())
    assert run.visits.sum() == 6 * 10
    assert run.pulls.sum() == 2 * 10
    assert (run.good <= run.visits).all()
    assert (run.visits >= 0).all()


@pytest.mark.parametrize("policy", ["thompson-whittle", "uc-whittle"])
def test_policies_that_plan_in_python_have_the_history_too(policy: str) -> None:
    """With a long history they pull as if they knew the arms."""
    good = np.round(ARMS.transitions * 10**7).astype(np.int64)
    seen = mf.Counts(np.full((6, 2, 2), 10**7), good)
    how: Any = HOW | {"budget": 1, "states": [0] * 6, "history": seen}
    one, other = (mf.simulate(ARMS, p, **how) for p in (policy, "whittle"))
    np.testing.assert_array_equal(one.pulls, other.pulls)


def test_expected_counts_can_be_a_history() -> None:
    seen = mf.Counts(np.full((6, 2, 2), 2.5), np.full((6, 2, 2), 1.25))
    run = mf.simulate(ARMS, mf.MeritFair(estimate="pooled", design="exact"), **HOW, history=seen)
    assert run.visits.sum() == 60


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"states": [0, 1]}, r"states must be 0 or 1 for each arm, shape \(6,\) or \(1, 6\), got shape \(2,\)"),
        ({"states": [2] * 6}, "states must be 0 or 1"),
        ({"states": [0] * 6, "carry_states": False}, "several need carry_states=True"),
        ({"history": 3}, "history must be a Counts, got 3"),
        ({"history": mf.Counts.none(5)}, r"history must have counts of the 6 arms, shape \(6, 2, 2\), got \(5, 2, 2\)"),
    ],
)
def test_mistakes(given: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        mf.simulate(ARMS, "random", **HOW | given)


def test_settings_say_so() -> None:
    run = mf.simulate(ARMS, "random", **HOW, states=[0] * 6, history=history())
    assert run.settings["problem"]["states"] == run.settings["problem"]["history"] == "given"
    assert "states" not in mf.simulate(ARMS, "random", **HOW).settings["problem"]


def test_a_history_counts_where_not_every_state_is_seen_too() -> None:
    arms = mf.datasets.synthetic(n_arms=4, seed=1)
    rng = np.random.default_rng(1)
    visits = np.full((4, 2, 2), 5000)
    known = mf.Counts(visits, rng.binomial(visits, arms.transitions))
    how: dict[str, Any] = {"budget": 1, "episodes": 3, "horizon": 20, "runs": 2, "seed": 3, "observed": 0.5}
    policy = mf.MeritFair(estimate="mean")
    with_history = mf.simulate(arms, policy, history=known, **how)
    without = mf.simulate(arms, policy, **how)
    assert with_history.fairness_regret.max() < 0.1 < without.fairness_regret[:, 0].min()
    assert with_history.visits.sum() == without.visits.sum() == 2 * 3 * 20 * 4
