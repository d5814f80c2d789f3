"""WIQL and AB-Whittle: number for number as plain loops have them, to the limits that theory knows, and good at it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import meritfair as mf
from meritfair.model.whittle import pull_advantage, whittle_index
from meritfair.policies.ab_whittle import ABWhittle
from meritfair.policies.base import Policy
from meritfair.policies.step_learner import StepLearner
from meritfair.policies.view import View
from meritfair.policies.whittle import Whittle
from meritfair.policies.wiql import WIQL
from reference.q_learning import PAIRS, ABWhittleArm, WIQLArm

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
POLICIES: list[Any] = [WIQL(), WIQL(discount=1.0), ABWhittle(), ABWhittle(exploration=0.3, fast=0.6, slow=1.0)]


def started(policy: Any, n_arms: int) -> tuple[StepLearner, Floats]:
    """Return the plan for so many arms, and a memory that may be written to."""
    plan = policy.plan(View(mf.Counts.none(n_arms), 1, 1, np.full((n_arms, 2, 2), np.nan)))
    return plan, np.array(plan.memory)


def walk(P: Floats, steps: int, chance: float, seed: int, learn: Callable[[Ints, Ints, Ints], None]) -> None:
    """Let arms move by themselves, each pulled with this chance, and show every step."""
    rng, arms = np.random.default_rng(seed), np.arange(len(P))
    states = np.zeros(len(P), np.int64)
    for _ in range(steps):
        u = rng.random((2, len(P)))
        actions = (u[0] < chance).astype(np.int64)
        next_states = (u[1] < P[arms, states, actions]).astype(np.int64)
        learn(states, actions, next_states)
        states = next_states


def learned(policy: Any, P: Floats, steps: int, chance: float, seed: int) -> tuple[StepLearner, Floats]:
    plan, memory = started(policy, len(P))
    assert plan.learn is not None
    learn = plan.learn
    walk(P, steps, chance, seed, lambda *step: learn(memory, *step))
    return plan, memory


def index_of(plan: StepLearner, memory: Floats, exploring: bool = False) -> Floats:
    """Return the index by arm and state."""
    index, pulled = np.full((2, len(memory)), np.nan), np.zeros(len(memory), np.int64)
    for state in (0, 1):
        plan.rank(memory, np.full(len(memory), state), pulled, 5, exploring, index[state])
    return index.T


# ---- the twins


@pytest.mark.parametrize("discount", [0.0, 0.9, 1.0])
def test_wiql_is_its_plain_twin_number_for_number(discount: float) -> None:
    P = np.random.default_rng(1).uniform(0, 1, (6, 2, 2))
    twins = [WIQLArm(discount) for _ in P]
    plan, memory = started(WIQL(discount=discount), len(P))

    def learn_both(*step: Ints) -> None:
        assert plan.learn is not None
        plan.learn(memory, *step)
        for twin, *own in zip(twins, *step, strict=True):
            twin.learn(*map(int, own))
        np.testing.assert_array_equal(memory[:, :4], [[twin.Q[pair] for pair in PAIRS] for twin in twins])
        np.testing.assert_array_equal(memory[:, 4:8], [[twin.seen[pair] for pair in PAIRS] for twin in twins])

    walk(P, 300, 0.3, 2, learn_both)
    np.testing.assert_array_equal(index_of(plan, memory), [[twin.index(s) for s in (0, 1)] for twin in twins])


@pytest.mark.parametrize(("fast", "slow"), [(0.7, 0.9), (0.55, 1.0)])
def test_ab_whittle_is_its_plain_twin_number_for_number(fast: float, slow: float) -> None:
    P = np.random.default_rng(3).uniform(0, 1, (6, 2, 2))
    twins = [ABWhittleArm(fast, slow) for _ in P]
    plan, memory = started(ABWhittle(fast=fast, slow=slow), len(P))

    def learn_both(*step: Ints) -> None:
        assert plan.learn is not None
        plan.learn(memory, *step)
        for twin, *own in zip(twins, *step, strict=True):
            twin.learn(*map(int, own))
        values = [[Q[pair] for Q in twin.Q for pair in PAIRS] + twin.subsidy for twin in twins]
        np.testing.assert_allclose(memory[:, :10], values, rtol=1e-12, atol=1e-12)  # powers may differ in a last digit
        np.testing.assert_array_equal(memory[:, 10:14], [[twin.seen[pair] for pair in PAIRS] for twin in twins])

    walk(P, 300, 0.3, 4, learn_both)
    twin_index = [[twin.index(s) for s in (0, 1)] for twin in twins]
    np.testing.assert_allclose(index_of(plan, memory), twin_index, rtol=1e-12)


@pytest.mark.parametrize("policy", POLICIES, ids=repr)
def test_an_arm_learns_by_itself(policy: Any) -> None:
    P = np.random.default_rng(5).uniform(0, 1, (8, 2, 2))
    plan, memory = learned(policy, P, 50, 0.5, 6)
    assert plan.learn is not None
    step = tuple(np.random.default_rng(7).integers(0, 2, (3, 8)))
    whole = memory.copy()
    plan.learn(whole, *step)
    some = np.array([6, 1, 4])  # in another order, and without the others
    rows = memory[some]
    plan.learn(rows, *(of[some] for of in step))
    np.testing.assert_array_equal(rows, whole[some])
    assert not np.array_equal(rows, memory[some])


# ---- exploring


@pytest.mark.parametrize("policy", POLICIES, ids=repr)
def test_exploring_makes_all_arms_level(policy: Any) -> None:
    plan, memory = learned(policy, np.random.default_rng(8).uniform(0, 1, (5, 2, 2)), 50, 0.5, 9)
    assert np.ptp(index_of(plan, memory, exploring=True)) == 0
    assert len(np.unique(index_of(plan, memory))) == 10


def test_how_much_is_explored() -> None:
    plan, memory = started(WIQL(), 20)
    assert plan.explore is not None
    assert [plan.explore(memory, step) for step in (0, 20, 180)] == [1.0, 0.5, 0.1]
    plan, memory = started(ABWhittle(exploration=0.3), 20)
    assert plan.explore is not None
    assert [plan.explore(memory, step) for step in (0, 1000)] == [0.3, 0.3]


def test_what_is_explored_is_a_random_set_of_arms() -> None:
    """AB-Whittle that always explores pulls each arm at K/N of the steps, whatever it has learned."""
    arms = mf.datasets.synthetic(n_arms=5, seed=1)
    run = mf.simulate(arms, ABWhittle(exploration=1.0), budget=2, episodes=50, seed=3)
    spread = 4.3 * np.sqrt(10_000 * 0.4 * 0.6)  # two-sided, alpha 1e-4 split over 5 arms
    assert np.abs(run.pulls - 4000).max() < spread
    greedy = mf.simulate(arms, ABWhittle(exploration=0.0), budget=2, episodes=50, seed=3)
    assert np.abs(greedy.pulls - 4000).max() > 10 * spread


# ---- what is learned


@pytest.mark.slow
@pytest.mark.parametrize("discount", [0.0, 0.5, 0.9, 1.0])
def test_wiql_tends_to_the_gain_of_a_free_pull(discount: float) -> None:
    """After 40,000 steps with a pull at every second. Without the mean subtracted, 0.9 and 1 are far off."""
    P = np.random.default_rng(10).uniform(0.2, 0.8, (40, 2, 2))
    limit = pull_advantage(P, discount) / discount if discount > 0 else P[..., 1] - P[..., 0]
    wrong = np.abs(index_of(*learned(WIQL(discount=discount), P, 40_000, 0.5, 11)) - limit)
    assert wrong.mean() < 0.01
    assert wrong.max() < 0.06


def test_wiql_stays_bounded_without_a_discount() -> None:
    P = np.random.default_rng(12).uniform(0.2, 0.8, (40, 2, 2))
    _, memory = learned(WIQL(discount=1.0), P, 5_000, 0.5, 13)
    assert np.abs(memory[:, :4]).max() < 2  # the paper's Q goes on growing, and is beyond 3.5 for every arm by then


@pytest.mark.slow
@pytest.mark.parametrize("chance", [0.5, 0.2])
def test_ab_whittle_tends_to_the_whittle_index(chance: float) -> None:
    """After 60,000 steps: the true index of average reward, within 0.02 on average and 0.1 for each of 40 arms."""
    P = np.random.default_rng(14).uniform(0.1, 0.9, (40, 2, 2))
    wrong = np.abs(index_of(*learned(ABWhittle(), P, 60_000, chance, 15)) - whittle_index(P, 1.0))
    assert wrong.mean() < 0.02
    assert wrong.max() < 0.1
    assert np.abs(whittle_index(P, 1.0) - pull_advantage(P, 1.0)).max() > 0.5  # which another update would tend to


# ---- in simulation


def part_of_whittle(policy: Policy, episodes: int, carry_states: bool) -> float:
    """Return (R - R_none) / (R_whittle - R_none) in the last tenth, over six sets of 20 arms."""
    arms = [mf.datasets.synthetic(n_arms=20, seed=seed) for seed in range(1, 7)]
    same: dict[str, Any] = {"budget": 4, "seed": 1, "carry_states": carry_states}
    none = mf.simulate(arms, mf.NoAction(), episodes=100, **same).reward.mean()
    best = mf.simulate(arms, Whittle(), episodes=100, **same).reward.mean()
    run = mf.simulate(arms, policy, episodes=episodes, **same)
    return float((run.reward[:, -(episodes // 10) :].mean() - none) / (best - none))


@pytest.mark.slow
@pytest.mark.parametrize("carry_states", [False, True])
@pytest.mark.parametrize(("policy", "least"), [(WIQL(), 0.92), (ABWhittle(), 0.88)], ids=["wiql", "ab-whittle"])
def test_learning_pays(policy: Policy, least: float, carry_states: bool) -> None:
    assert part_of_whittle(policy, 100, carry_states) > least  # random pulls have 0.0, the paper's update of WIQL 0.82


@pytest.mark.parametrize("policy", POLICIES, ids=repr)
@pytest.mark.parametrize(("n_arms", "budget"), [(1, 1), (2, 2), (3, 1)])
def test_small_problems_have_no_nan(policy: Policy, n_arms: int, budget: int) -> None:
    obedient = np.tile([[0.0, 1.0], [0.0, 1.0]], (n_arms, 1, 1))  # no noise at all
    run = mf.simulate(mf.Arms(obedient), policy, budget=budget, episodes=30, horizon=1, runs=2, seed=1)
    assert run.pulls.sum() == 2 * 30 * budget
    stuck = np.tile([[0.0, 1.0], [1.0, 0.0]], (n_arms, 1, 1))  # its Whittle index is infinite
    for arms in (obedient, stuck):
        plan, memory = learned(policy, arms, 200, 0.5, 16)
        assert np.isfinite(memory).all()
        assert np.isfinite(index_of(plan, memory)).all()


@pytest.mark.parametrize("policy", POLICIES, ids=repr)
def test_a_run_is_the_same_alone_and_goes_on_through_episodes(policy: Policy) -> None:
    arms = [mf.datasets.synthetic(n_arms=6, seed=seed) for seed in (1, 2)]
    same: dict[str, Any] = {"budget": 2, "seed": 4, "carry_states": True}
    both = mf.simulate(arms, policy, episodes=8, horizon=25, **same)
    alone = mf.simulate(arms[0], policy, episodes=8, horizon=25, **same)
    np.testing.assert_array_equal(both.visits[0], alone.visits[0])
    many = mf.datasets.synthetic(n_arms=1100, seed=3)  # so many that coins are made for one word of 64 steps at a time
    often, once = (mf.simulate(many, policy, episodes=t, horizon=192 // t, **same) for t in (3, 1))
    np.testing.assert_array_equal(once.visits, often.visits)  # nothing happens between episodes


@pytest.mark.parametrize("policy", POLICIES, ids=repr)
def test_plan_has_a_row_for_each_arm_of_each_run(policy: Policy) -> None:
    zeros = np.zeros((3, 5, 2, 2), np.int64)
    plan = policy.plan(View(mf.Counts(zeros, zeros), 1, 2, np.full((3, 5, 2, 2), np.nan)))
    assert isinstance(plan, StepLearner)
    assert plan.memory.shape[:2] == (3, 5)
    assert policy.plans_once
    assert not policy.oracle


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: WIQL(discount=1.1), "discount must lie between 0 and 1, got 1.1"),
        (lambda: WIQL(discount=-0.1), "discount must lie between 0 and 1, got -0.1"),
        (lambda: WIQL(discount="high"), "discount must be a number, got 'high'"),  # type: ignore[arg-type]
        (lambda: ABWhittle(exploration=1.5), "exploration must lie between 0 and 1, got 1.5"),
        (lambda: ABWhittle(fast=0.9, slow=0.7), "fast must be above 0.5 and below slow, got 0.9 and 0.7"),
        (lambda: ABWhittle(fast=0.9), "fast must be above 0.5 and below slow, got 0.9 and 0.9"),
        (lambda: ABWhittle(fast=0.5), "fast must be above 0.5 and below slow, got 0.5 and 0.9"),
        (lambda: ABWhittle(slow=1.2), "slow must lie between 0 and 1, got 1.2"),
        (lambda: ABWhittle(slow=float("nan")), "slow must lie between 0 and 1, got nan"),
    ],
)
def test_mistakes_are_named(call: Any, message: str) -> None:
    with pytest.raises(mf.InputError, match=message):
        call()
