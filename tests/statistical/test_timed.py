"""Timed lotteries of the engine have the law of the plain simulator, and accounts keep within the slack for long.

Seeds are fixed. A comparison of means rejects beyond FAR standard errors, so all together reject a correct program with
a chance below 1e-3. That the wrong rule would be found is asserted with planted errors.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

import meritfair as mf
from meritfair.core.arrays import BoolArray, FloatArray
from meritfair.engine.accounts import give_once
from meritfair.model.rules import Rules
from meritfair.policies import Lottery, TimedLottery
from meritfair.policies.view import View
from reference.compiled import kernel_of_tests
from reference.planned import Planned
from reference.timed import Outcome, Programme, play

pytestmark = pytest.mark.slow

RUNS, STEPS, FAR = 2000, 100, 5.0
ARMS = np.random.default_rng(11).uniform(0.05, 0.95, (5, 2, 2))
MERIT = np.exp(np.linspace(-0.7, 0.7, 5))


def programme(budgets: tuple[int, ...], slack: float, rules: Rules, **more: Any) -> Programme:
    none, all_ = np.zeros(5), np.ones(5)
    return Programme(ARMS, MERIT, budgets, slack, 0.2 + 10 / (1 + slack), rules, **{"floor": none, "cap": all_, **more})


def engine(it: Programme, seed: int = 5) -> Outcome:
    """Play a programme by the engine."""
    lottery = Lottery(it.merit, it.design, it.floor, it.cap)
    plan = TimedLottery(lottery, it.transitions if it.looks else None, it.slack)
    budget: Any = it.budgets if len(it.budgets) > 1 else it.budgets[0]
    run = mf.simulate(
        mf.Arms(it.transitions),
        Planned(plan, once=True),
        budget=budget,
        episodes=1,
        horizon=STEPS,
        runs=RUNS,
        seed=seed,
        rules=it.rules,
    )
    return Outcome(run.reward[:, 0], run.visits, run.given, *np.moveaxis(run.account_range, -1, 0))


def distances(one: Outcome, other: Outcome) -> FloatArray:
    """Return how far means are apart, in standard errors, for all that is known of runs."""
    found = []
    for a, b in zip(one, other, strict=True):
        error = np.sqrt((a.var(axis=0) + b.var(axis=0)) / RUNS)
        apart = np.abs(a.mean(axis=0) - b.mean(axis=0))
        found.append(np.ravel(np.where(apart < 1e-7, 0.0, apart / np.maximum(error, 1e-9))))
    return np.concatenate(found)


CASES = {
    "exact": programme((2,), 1.0, Rules()),
    "systematic": programme((2,), 1.0, Rules(), design="systematic"),
    "little slack": programme((1,), 0.3, Rules()),
    "no limit": programme((2,), np.inf, Rules()),
    "blind": programme((2,), 1.0, Rules(), looks=False),
    "bounds": programme((2,), 2.0, Rules(), floor=np.full(5, 0.3), cap=np.full(5, 0.6)),
    "budgets": programme((2, 0, 3), 1.0, Rules()),
    "cooldown": programme((1,), 1.0, Rules(cooldown=2)),
    "cooldown and budgets": programme((2, 0, 1), 1.0, Rules(cooldown=2), design="systematic"),
    "no slack, cooldown": programme((2,), 0.0, Rules(cooldown=1), looks=False),
    "warmup": programme((2,), 1.0, Rules(warmup=40)),
    "once": programme((1, 0, 0, 0), 1.0, Rules(once=True)),
}


@pytest.mark.parametrize("name", CASES)
def test_runs_have_the_law_of_the_plain_simulator(name: str) -> None:
    ours, plain = engine(CASES[name]), play(CASES[name], RUNS, STEPS, seed=6)
    assert distances(ours, plain).max() < FAR
    assert stats.ks_2samp(ours.reward, plain.reward).pvalue > 1e-4


@pytest.mark.parametrize("wrong", ["pull", "states", "slack", "merit", "cooldown"])
def test_a_wrong_rule_would_be_found(wrong: str) -> None:
    it = CASES["exact"]
    planted = {
        "pull": replace(it, pull=it.pull / 2),
        "states": replace(it, transitions=ARMS[:, ::-1]),
        "slack": replace(it, slack=1.1),
        "merit": replace(it, merit=MERIT * [1.02, 1, 1, 1, 1]),
        "cooldown": replace(it, rules=Rules(cooldown=1)),
    }
    assert distances(engine(it), play(planted[wrong], RUNS, STEPS, seed=7)).max() > 2 * FAR


@pytest.mark.parametrize("design", ["exact", "systematic"])
def test_without_slack_runs_have_the_law_of_the_lottery(design: str) -> None:
    arms, lottery = mf.Arms(ARMS), Lottery(MERIT, design)
    how: dict[str, Any] = {"budget": 2, "episodes": 1, "horizon": STEPS, "runs": RUNS}
    timed, blind, late = (
        mf.simulate(arms, Planned(plan, once=True), seed=seed, **how)
        for plan, seed in ((TimedLottery(lottery, ARMS, 0.0), 8), (lottery, 9), (TimedLottery(lottery, ARMS, 0.2), 8))
    )

    def outcome(run: mf.Run) -> Outcome:
        exact = np.tile(STEPS * lottery.exposure(2), (RUNS, 1))
        waits, good = (x.astype(np.float64) for x in (run.longest_wait, run.good.sum(axis=(2, 3))))
        return Outcome(run.reward[:, 0], run.visits, exact, waits, good)

    np.testing.assert_allclose(timed.given, STEPS * np.tile(lottery.exposure(2), (RUNS, 1)), atol=1e-7)
    assert distances(outcome(timed), outcome(blind)).max() < FAR
    assert distances(outcome(late), outcome(blind)).max() > 2 * FAR  # some slack would be found


def test_labels_of_arms_make_no_difference() -> None:
    it, order = CASES["exact"], np.array([3, 0, 4, 1, 2])
    same = engine(replace(it, transitions=ARMS[order], merit=MERIT[order]), seed=10)
    first = engine(it)
    by_label = Outcome(first.reward, first.visits[:, order], *(each[:, order] for each in first[2:]))
    assert distances(same, by_label).max() < FAR
    assert distances(same, first).max() > 2 * FAR


# ---- a million steps

MILLION = 1_000_000


@pytest.mark.parametrize("slack", [0.0, 0.5, 2.0, 10.0])
@pytest.mark.parametrize("design", ["exact", "systematic"])
def test_accounts_of_known_arms_keep_within_the_slack_for_a_million_steps(design: str, slack: float) -> None:
    arms = mf.Arms(np.random.default_rng(12).random((8, 2, 2)))
    plan = TimedLottery(Lottery(np.exp(np.linspace(-1, 1, 8)), design, 0.1, 0.7), arms.transitions, slack)
    run = mf.simulate(arms, Planned(plan, once=True), budget=3, episodes=100, horizon=MILLION // 100, seed=1)
    assert np.abs(run.account_range).max() <= slack + 1e-9
    assert np.abs(run.account_range).max() > 0.9 * slack - 1e-9  # it is used
    np.testing.assert_allclose(run.given[0], MILLION * plan.exposure(3), rtol=0, atol=slack + 1e-4)
    assert run.given.sum() == pytest.approx(3 * MILLION, abs=1e-3)
    assert run.pulls.sum() == 3 * MILLION


@pytest.mark.parametrize("estimate", ["mean", "optimistic", "thompson"])
def test_accounts_of_learned_arms_keep_within_the_slack_for_a_million_steps(estimate: str) -> None:
    arms = mf.Arms(np.random.default_rng(13).random((8, 2, 2)))
    policy = mf.MeritFair(estimate=estimate, design="exact", slack=1.0)
    run = mf.simulate(arms, policy, budget=3, episodes=5000, horizon=MILLION // 5000, seed=1)
    assert 0.9 < np.abs(run.account_range).max() <= 1 + 1e-9
    assert run.given.sum() == pytest.approx(3 * MILLION, abs=1e-3)


def test_accounts_keep_within_the_slack_however_wrong_the_estimates_are() -> None:
    rng = np.random.default_rng(14)
    arms = mf.Arms(rng.random((8, 2, 2)))

    def mistaken(view: View) -> TimedLottery:  # other arms, merits and bounds in each episode
        P, explore = rng.integers(0, 2, (2, 8, 2, 2)) + 0.0
        return TimedLottery(Lottery(np.exp(rng.normal(0, 3, 8)), "exact", 0.02), P, 0.5, explore * rng.integers(0, 2))

    run = mf.simulate(arms, mistaken, budget=3, episodes=2000, horizon=MILLION // 2000, seed=1)
    assert 0.45 < np.abs(run.account_range).max() <= 0.5 + 1e-9
    assert run.given.sum() == pytest.approx(3 * MILLION, abs=1e-3)


@kernel_of_tests
def _hurt(
    due: FloatArray,
    odds: FloatArray,
    slack: float,
    pull: float,
    budget: int,
    steps: int,
    room: FloatArray,
    free: BoolArray,
) -> tuple[float, float]:
    """Give at states that are chosen to hurt; return the largest account and the largest error of a sum.

    Who is ahead is put into the state in which more is wanted, who is behind into the other; after some time it is
    turned round, so that accounts are swung from one end to the other.
    """
    given, wanted, low, high, floor, ceiling, account = room
    largest = error = 0.0
    for step in range(steps):
        turned = (step // 50) % 2
        for arm in range(len(due)):
            state = (account[arm] < 0.0) != (turned == 1) if (step // 500) % 2 == 0 else (arm + step // 7) % 2 == 0
            wanted[arm], floor[arm], ceiling[arm] = odds[arm, 0] if state else odds[arm, 1], 0.0, 1.0
        give_once(given, wanted, low, high, floor, ceiling, account, due, free, slack, budget, pull)
        total = 0.0
        for arm in range(len(due)):
            account[arm] += due[arm] - given[arm]
            largest = max(largest, abs(account[arm]))
            total += given[arm]
        error = max(error, abs(total - budget))
    return largest, error


@pytest.mark.parametrize("slack", [0.0, 0.25, 2.0, 10.0])
@pytest.mark.parametrize(("n_arms", "budget"), [(2, 1), (7, 3), (20, 19)])
def test_accounts_keep_within_the_slack_when_states_are_chosen_to_hurt(n_arms: int, budget: int, slack: float) -> None:
    rng = np.random.default_rng(15)
    due = Lottery(np.exp(rng.normal(0, 1, n_arms)), "exact", 0.01).exposure(budget)
    odds, room = np.exp(rng.normal(0, 12, (n_arms, 2))), np.zeros((7, n_arms))
    pull = 0.2 + 10 / (1 + slack)
    largest, error = _hurt(due, odds, slack, pull, budget, MILLION, room, np.ones(n_arms, np.bool_))
    assert largest <= slack + 1e-9
    assert largest >= 0.5 * slack  # it is used
    assert error < 1e-9
