"""Priority tables that stay: the bitmap of who is where against the plain rule, step by step."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import meritfair as mf
from meritfair.core.arrays import AnyArray, FloatArray, IntArray, WordArray
from meritfair.engine.chains import Chains, new_chains
from meritfair.engine.coins import count_word, make_coins
from meritfair.engine.counting import Tally, new_tally
from meritfair.engine.random import new_source
from meritfair.engine.steps import NO_GROUPS, StepPlan, Steps, choosing, new_steps
from meritfair.engine.tables import play_by_table, table_order
from meritfair.policies.plans import PriorityTable
from meritfair.policies.step_learner import StepLearner
from reference.compiled import kernel_of_tests
from reference.planned import Planned


@kernel_of_tests
def _play(
    chains: Chains,
    tally: Tally,
    steps: Steps,
    plan: StepPlan,
    source: WordArray,
    rng: WordArray,
    budget: int,
    by_arm: WordArray,
    pulls: WordArray,
    states: WordArray,
) -> None:
    """Play whole words by a table; keep pulls and states, by word, and by step and block of arms."""
    for word in range(len(pulls)):
        make_coins(chains, steps.coins, source, 1, 0)
        play_by_table(plan, steps, rng, budget, 64, 0)
        for i in range(pulls.shape[1]):
            pulls[word, i], states[word, i] = steps.coins.pulls[i], steps.coins.states[i]
        count_word(chains, tally, steps.coins, by_arm, 64)


def bits_of(words: WordArray, n_arms: int) -> AnyArray:
    """Return words by word and step, then block of arms, as a row of 0 and 1 for each step."""
    by_step = words.reshape(-1, -(-n_arms // 64), 1) >> np.arange(64, dtype=np.uint64)
    return (by_step & np.uint64(1)).astype(np.int64).reshape(len(by_step), -1)[:, :n_arms]


def play(transitions: FloatArray, index: FloatArray, budget: int, words: int, seed: int = 1) -> tuple[AnyArray, ...]:
    """Play a table from bad states; return who was pulled and who was good at each step, (steps, N) each."""
    n_arms, size = len(index), 64 * (-(-len(index) // 64))
    chains, tally, steps = new_chains(transitions, 1), new_tally(n_arms), new_steps(n_arms, 1)
    plan = StepPlan(choosing(play=play_by_table), index, NO_GROUPS, table_order(index))
    source, rng = (new_source(np.random.SeedSequence([seed, k])) for k in (1, 2))
    by_arm, (pulls, states) = np.zeros(n_arms, np.uint64), np.zeros((2, words, size), np.uint64)
    _play(chains, tally, steps, plan, source, rng, budget, by_arm, pulls, states)
    assert steps.actions.tolist() == bits_of(pulls, n_arms)[-1].tolist()
    return bits_of(pulls, n_arms), bits_of(states, n_arms)


@given(st.lists(st.sampled_from([-np.inf, -1.0, -0.0, 0.0, 0.5, np.inf]), min_size=1, max_size=12).filter(len))
def test_the_order_is_that_of_the_index(values: list[float]) -> None:
    index = np.array([values, values[::-1]]).T  # (N, 2)
    flat, n_pairs = index.ravel(), 2 * len(values)
    places, arms, starts, ends = table_order(index)
    order = sorted(range(n_pairs), key=lambda pair: -flat[pair])
    assert arms.tolist() == [pair // 2 for pair in order]
    for place, pair in enumerate(order):
        alike = [k for k, other in enumerate(order) if flat[other] == flat[pair]]
        assert (starts[place], ends[place]) == (alike[0], alike[-1] + 1)
        assert places[pair] == (place if flat[pair] > -np.inf else 64)  # behind all others
    both = table_order(np.stack([index, -index]))
    np.testing.assert_array_equal(both[0], table_order(index))
    np.testing.assert_array_equal(both[1], table_order(-index))


@pytest.mark.parametrize("kind", ["no ties", "ties", "few levels", "never"])
@pytest.mark.parametrize("n_arms", [1, 2, 5, 31, 32, 33, 64, 65, 200])
def test_the_largest_are_pulled_at_every_step(n_arms: int, kind: str) -> None:
    rng = np.random.default_rng(n_arms)
    index = rng.normal(size=(n_arms, 2))
    if kind != "no ties":
        index = np.round(index * (3 if kind == "ties" else 0.7))
    if kind == "never":
        index[rng.random((n_arms, 2)) < 0.5] = -np.inf
    transitions = rng.random((n_arms, 2, 2))
    for budget in sorted({1, max(1, n_arms // 5), max(1, n_arms // 2), n_arms}):
        pulls, states = play(transitions, index, budget, 4)
        now = np.where(states == 1, index[:, 1], index[:, 0])
        last = -np.sort(-now, axis=1)[:, [budget - 1]]
        assert pulls[now > last].all()
        assert not pulls[(now < last) | (now == -np.inf)].any()
        assert (pulls.sum(axis=1) == np.minimum(budget, (now > -np.inf).sum(axis=1))).all()
        assert 0 < states.mean() < 1 or n_arms == 1


@pytest.mark.parametrize("n_arms", [3, 40])
def test_nobody_is_pulled_without_a_budget(n_arms: int) -> None:
    pulls, states = play(np.full((n_arms, 2, 2), 0.5), np.zeros((n_arms, 2)), 0, 3)
    assert not pulls.any()
    assert states.any()


@pytest.mark.parametrize("n_arms", [6, 40])
@pytest.mark.parametrize(("before", "tied", "left"), [(0, 2, 1), (2, 4, 1), (1, 4, 3), (2, 4, 2)])
def test_ties_are_broken_alike_and_anew_at_each_step(n_arms: int, before: int, tied: int, left: int) -> None:
    index = np.tile(np.where(np.arange(n_arms) < before + tied, 1.0, 0.0)[:, None], 2)
    index[:before] = 2.0
    index = np.random.default_rng(1).permutation(index)
    arms = np.flatnonzero(index[:, 0] == 1.0)
    pulls, _ = play(np.full((n_arms, 2, 2), 0.5), index, before + left, 1500)
    codes = pulls[:, arms] @ (1 << np.arange(tied))
    times = np.unique(codes, return_counts=True)[1]
    assert len(times) == len(list(combinations(range(tied), left)))
    assert stats.chisquare(times).pvalue > 1e-5
    assert stats.chisquare(times + np.linspace(-0.03, 0.03, len(times)) * times.sum()).pvalue < 1e-5  # planted
    pairs = np.unique(codes[:-1] * 2**tied + codes[1:], return_counts=True)[1]
    assert len(pairs) == len(times) ** 2
    assert stats.chi2_contingency(pairs.reshape(len(times), -1)).pvalue > 1e-5


def test_ties_between_arms_of_different_states_are_broken_alike() -> None:
    # Arm 0 when bad, arm 1 when good and arm 2 always are level; arm 3 comes first when good.
    index = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [0.0, 2.0]])
    pulls, states = play(np.full((4, 2, 2), 0.5), index, 2, 3000)
    level = (pulls[:, 3] == 1) & (states[:, 3] == 1) & (states[:, 0] == 0) & (states[:, 1] == 1)
    times = pulls[level][:, :3].sum(axis=0)
    assert times.sum() == level.sum() > 10_000
    assert stats.chisquare(times).pvalue > 1e-5


def _look_up(
    memory: FloatArray, states: IntArray, _pulled: IntArray, _step: int, _exploring: bool, index: FloatArray
) -> None:
    for arm in range(len(states)):
        index[arm] = memory[arm, states[arm]]


@pytest.mark.parametrize("n_arms", [3, 32, 33, 130])
def test_without_ties_a_table_has_the_outcome_of_ranking_at_every_step(n_arms: int) -> None:
    table = np.random.default_rng(n_arms).normal(size=(n_arms, 2))
    table[-1] = -np.inf, 0.5
    arms = mf.datasets.synthetic(n_arms=n_arms, seed=1)
    for budget in (1, n_arms // 3, n_arms - 1):
        one, other = (
            mf.simulate(arms, Planned(plan, once=False), budget=budget, episodes=3, horizon=150, seed=2)
            for plan in (PriorityTable(table), StepLearner(table, _look_up))
        )
        np.testing.assert_array_equal(one.visits, other.visits)
        np.testing.assert_array_equal(one.good, other.good)
        np.testing.assert_array_equal(one.longest_wait, other.longest_wait)
        np.testing.assert_array_equal(one.reward, other.reward)
