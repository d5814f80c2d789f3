"""Live use and simulation agree where not every state is seen: the same law of rewards and pulls."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import meritfair as mf
from meritfair.core.arrays import FloatArray
from meritfair.policies import create

RUNS, STEPS, N = 250, 20, 5


def arms() -> FloatArray:
    """Return arms that are good half of the time if they are never pulled, as they are at the start of an episode."""
    rng = np.random.default_rng(8)
    never = rng.uniform(0.05, 0.45, N)
    pulled = rng.uniform(0.2, 0.95, (N, 2))
    return np.stack([np.stack([never, 1 - never], axis=-1), pulled], axis=-1)


def live(policy: str, observed: Any, *, late: bool = False) -> FloatArray:
    """Return what learners do, a row for each: reward, pulls of each arm, and those in the bad state.

    If it is too late, states that are seen by chance are told after the choice.
    """
    truth, rng, found = arms(), np.random.default_rng(9), np.zeros((RUNS, 1 + 2 * N))
    for run in range(RUNS):
        learner = create(policy).start(N, 2, run, horizon=STEPS, transitions=truth)
        states = rng.integers(0, 2, N)
        for _ in range(STEPS):
            by_chance = observed != "pulled" and rng.random(N) < observed
            choice = learner.choose(np.where(by_chance, states, -1) if not late else None)
            seen = choice.actions == 1 if observed == "pulled" else by_chance
            learner.observe(np.where(seen, states, -1), choice.actions, np.full(N, -1), round=choice.round)
            found[run, 1:] += [*choice.actions, *(choice.actions * (1 - states))]
            states = (rng.random(N) < truth[np.arange(N), states, choice.actions]).astype(np.int64)
            found[run, 0] += states.sum()
    return found


def simulated(policy: str, observed: Any) -> FloatArray:
    how: Any = {"budget": 2, "episodes": 1, "horizon": STEPS, "runs": RUNS, "seed": 3}
    run = mf.simulate(mf.Arms(arms()), policy, **how, observed=observed)
    return np.column_stack([run.reward.sum(axis=1), run.pulls, run.visits[:, :, 0, 1]]).astype(np.float64)


def largest_difference(one: FloatArray, other: FloatArray) -> float:
    """Return the largest difference between means, in standard errors."""
    error = np.sqrt((one.var(axis=0) + other.var(axis=0)) / RUNS)
    return float(np.max(np.abs(one.mean(axis=0) - other.mean(axis=0)) / np.maximum(error, 1e-9)))


@pytest.mark.slow
@pytest.mark.parametrize("observed", [0.5, "pulled"])
@pytest.mark.parametrize("policy", ["whittle", "soft-fair:estimate=known", "fair-oracle:design=exact,slack=1"])
def test_live_use_and_simulation_agree(policy: str, observed: Any) -> None:
    """Level 1e-4 for 11 numbers of six cases: 4.8 standard errors."""
    assert largest_difference(live(policy, observed), simulated(policy, observed)) < 4.8


@pytest.mark.slow
def test_states_that_are_told_too_late_are_found() -> None:
    assert largest_difference(live("whittle", 0.5, late=True), simulated("whittle", 0.5)) > 4.8
