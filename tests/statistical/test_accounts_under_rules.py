"""How far accounts go beyond the slack under a cool-down, in many programmes; docs/theory.md has the figures."""

from __future__ import annotations

import numpy as np
import pytest

import meritfair as mf
from meritfair.policies.own import as_policy
from meritfair.policies.plans import Lottery
from meritfair.policies.timed import TimedLottery

PROGRAMMES, ROUNDS = 100, 2_000
LONG_PROGRAMMES, LONG = 20, 100_000


def farthest(seed: int, slack: float, rounds: int = ROUNDS) -> float:
    """Return how far any account went beyond the slack in one programme."""
    rng = np.random.default_rng(seed)
    cooldown, budget = int(rng.integers(1, 5)), int(rng.integers(1, 5))
    n_arms = int(budget * (1 + cooldown) * rng.uniform(1.0, 3.0)) + 1
    merit = np.exp(rng.choice([0.3, 1.0, 3.0]) * rng.normal(size=n_arms))
    arms = mf.datasets.synthetic(n_arms=n_arms, seed=seed)
    plan = TimedLottery(Lottery(merit, "exact"), arms.transitions, slack=slack)
    rules = mf.Rules(cooldown=cooldown)
    run = mf.simulate(
        arms, as_policy(lambda _: plan), budget=budget, episodes=1, horizon=rounds, seed=seed, rules=rules
    )
    return float(np.abs(run.account_range).max() - slack)


@pytest.mark.slow
@pytest.mark.parametrize("slack", [0.0, 0.5, 2.0])
def test_accounts_stay_near_the_slack(slack: float) -> None:
    """What is missing in a round used to be shared in proportion: without slack, accounts then grew without end."""
    beyond = np.array([farthest(seed, slack) for seed in range(PROGRAMMES)])
    assert beyond.max() < 1.5
    assert 0.5 < np.median(beyond) < 1  # a cool-down does push accounts beyond it


@pytest.mark.slow
def test_accounts_do_not_grow_with_the_rounds() -> None:
    for seed in range(LONG_PROGRAMMES):
        assert farthest(seed, 0.0, LONG) < farthest(seed, 0.0) + 0.1
