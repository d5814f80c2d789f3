"""All policies meet the same coins: where arms go depends on states and pulls alone, not on what chose the pulls."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import meritfair as mf
from meritfair.core.arrays import AnyArray, FloatArray, IntArray, WordArray
from meritfair.engine.bits import transpose
from meritfair.engine.chains import Chains, new_chains, walk
from meritfair.engine.coins import Coins, count_word, make_coins, move, new_coins
from meritfair.engine.counting import Tally, new_tally
from meritfair.engine.random import new_source
from meritfair.policies.plans import Lottery, Plan, PriorityTable, Rotation
from meritfair.policies.step_learner import StepLearner
from reference.compiled import kernel_of_tests
from reference.planned import Planned


def _rank(
    memory: FloatArray, states: IntArray, _pulled: IntArray, step: int, exploring: bool, index: FloatArray
) -> None:
    for arm in range(len(states)):
        index[arm] = memory[arm, 0] + states[arm] * step - exploring


def _learn(memory: FloatArray, states: IntArray, pulls: IntArray, following: IntArray) -> None:
    for arm in range(len(states)):
        memory[arm, 0] += states[arm] - pulls[arm] + 3.0 * following[arm]


def _explore(_memory: FloatArray, step: int) -> float:
    return 1.0 / (1.0 + step)


def plans(n_arms: int, budget: int) -> Iterator[Plan]:
    """Return plans of every kind."""
    rng = np.random.default_rng(n_arms)
    merit, table = rng.random(n_arms) + 0.1, rng.random((n_arms, 2))
    yield from (Lottery(merit, design=design) for design in ("sequential", "exact", "systematic"))
    yield Rotation(n_arms)
    yield PriorityTable(table)
    yield PriorityTable(np.round(2 * table))  # with ties
    yield PriorityTable.of(table[:, 0])
    yield PriorityTable(table, soft=True)
    groups = np.arange(n_arms) % min(2, n_arms)
    quotas = np.bincount(groups)
    if quotas.sum() == budget:
        yield PriorityTable(table, groups=groups, quotas=quotas)
    yield StepLearner(rng.random((n_arms, 1)), _rank, _learn, _explore)


def outcome(run: mf.Run) -> list[AnyArray]:
    return [run.reward, run.visits, run.good, run.longest_wait, run.coverage_gap, run.coverage_gap_authors]


def same(one: list[AnyArray], other: list[AnyArray]) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


SIZES = [(1, 1), (1, 200), (5, 63), (5, 64), (5, 65), (5, 1000), (70, 200), (70, 1000), (3000, 65)]


@pytest.mark.parametrize("carry", [False, True])
@pytest.mark.parametrize(("n_arms", "horizon"), SIZES)
def test_if_all_are_pulled_all_kinds_of_plans_have_the_same_outcome(n_arms: int, horizon: int, carry: bool) -> None:
    arms = mf.datasets.synthetic(n_arms=n_arms, seed=3)
    how: dict[str, Any] = {"budget": n_arms, "episodes": 3, "horizon": horizon, "carry_states": carry, "seed": 4}
    first = outcome(mf.simulate(arms, mf.policies.create("random"), **how))
    assert n_arms * horizon == 1 or first[0].sum() > 0
    for plan in plans(n_arms, n_arms):
        for once in (True, False):
            assert same(outcome(mf.simulate(arms, Planned(plan, once), **how)), first), plan
    other = outcome(mf.simulate(arms, mf.policies.create("random"), **{**how, "seed": 5}))
    assert n_arms * horizon == 1 or not same(other, first)


@pytest.mark.parametrize("carry", [False, True])
@pytest.mark.parametrize(("n_arms", "horizon"), SIZES)
def test_if_nobody_is_pulled_a_table_has_the_outcome_of_the_policy_none(n_arms: int, horizon: int, carry: bool) -> None:
    arms = mf.datasets.synthetic(n_arms=n_arms, seed=6)
    how: dict[str, Any] = {"budget": 1, "episodes": 3, "horizon": horizon, "carry_states": carry, "seed": 7}
    first = outcome(mf.simulate(arms, mf.policies.create("none"), **how))
    table = np.full((n_arms, 2), -np.inf)
    assert same(outcome(mf.simulate(arms, Planned(PriorityTable(table), True), **how)), first)
    table[0, 1] = 1.0  # pulled when good
    assert horizon == 1 or not same(outcome(mf.simulate(arms, Planned(PriorityTable(table), True), **how)), first)


@pytest.mark.parametrize("name", mf.policies.names())
def test_if_all_are_pulled_all_policies_have_the_same_outcome(name: str) -> None:
    arms = mf.datasets.cpap(n_arms=6, seed=8)
    how: dict[str, Any] = {"budget": 6, "episodes": 4, "horizon": 70, "seed": 9}
    ours, first = (outcome(mf.simulate(arms, mf.policies.create(each), **how)) for each in (name, "random"))
    assert same(ours, first) == (name != "none")


# --- The two ways to move arms, as kernels.


@kernel_of_tests
def _transpose(words: WordArray) -> None:
    transpose(words)


@kernel_of_tests
def _walk(chains: Chains, tally: Tally, source: WordArray, pulls: WordArray, words: int, bits: int) -> int:
    return walk(chains, tally, source, pulls, words, bits)


@kernel_of_tests
def _step_through(
    chains: Chains, tally: Tally, coins: Coins, source: WordArray, pulls: WordArray, words: int, bits: int
) -> int:
    """Move arms step by step under pulls that are given by lane; return the reward."""
    n_arms, blocks, reward = len(chains.state), len(coins.pulls) // 64, 0
    for arm in range(n_arms):
        coins.states[arm // 64] |= chains.state[arm] << np.uint64(arm % 64)
    for word in range(words):
        make_coins(chains, coins, source, words, word)
        steps = 64 if word < words - 1 else bits
        for step in range(steps):
            for block in range(blocks):
                coins.pulls[step * blocks + block] = 0
            for arm in range(n_arms):
                pulled = (pulls[word * n_arms + arm] >> np.uint64(step)) & np.uint64(1)
                coins.pulls[step * blocks + arm // 64] |= pulled << np.uint64(arm % 64)
            move(coins, np.uint64(step))
        reward += count_word(chains, tally, coins, pulls[word * n_arms :], steps)
    return reward


def test_a_matrix_of_bits_is_transposed() -> None:
    bits = np.random.default_rng(1).integers(0, 2, (64, 64)).astype(np.uint64)
    places = np.arange(64, dtype=np.uint64)
    words = np.zeros(128, np.uint64)
    words[:64] = (bits << places).sum(axis=1, dtype=np.uint64)
    _transpose(words)
    assert words[:64].tolist() == (bits.T << places).sum(axis=1, dtype=np.uint64).tolist()


@pytest.mark.parametrize("horizon", [1, 63, 64, 65, 200, 1000])
@pytest.mark.parametrize("n_arms", [1, 5, 64, 70])
def test_arms_go_the_same_way_step_by_step_and_64_steps_at_a_time(n_arms: int, horizon: int) -> None:
    rng = np.random.default_rng(n_arms + horizon)
    words, bits = -(-horizon // 64), (horizon - 1) % 64 + 1
    chances = rng.choice([0.0, 2.0**-12, 0.3, 0.5, 0.5 + 2.0**-12, 0.9, 1.0], (n_arms, 2, 2))
    pulls = rng.integers(0, 2**64 - 1, words * n_arms + 3, np.uint64, endpoint=True)
    states = rng.integers(0, 2, n_arms).astype(np.uint64)
    ends = []
    for step_by_step in (False, True):
        chains, tally = new_chains(chances, words), new_tally(n_arms)
        source, given = new_source(np.random.SeedSequence(2)), pulls.copy()
        chains.state[:] = states
        if step_by_step:
            coins = new_coins(n_arms, words)
            reward = _step_through(chains, tally, coins, source, given, words, bits)
        else:
            reward = _walk(chains, tally, source, given, words, bits)
        singles = source[[*range(256), *range(-4, 0)]]  # the states of all generators
        ends.append([reward, *(each.tolist() for each in (chains.state, singles, given[: words * n_arms], *tally))])
    assert ends[0] == ends[1]
