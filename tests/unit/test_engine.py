"""The engine's kernels, number for number, against twins in plain Python that share their random words.

The twins know nothing of words of 64 steps: they compare one number with one threshold at a time, and move one arm by
one step. Only the order in which random words are taken is the engine's.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import meritfair as mf
from meritfair.core.arrays import AnyArray, FloatArray, IntArray, WordArray
from meritfair.engine.bits import ALL
from meritfair.engine.chains import Chains, new_chains, start_states, walk
from meritfair.engine.counting import Tally, new_tally
from meritfair.engine.coverage import Coverage, coverage_gaps, new_coverage, note_episode
from meritfair.engine.episodes import tightener
from meritfair.engine.inclusion import include, new_race
from meritfair.engine.learning import (
    Estimates,
    estimate_benefits,
    greedy_weights,
    measure_ball,
    merits,
    new_estimates,
    regret,
    shares,
)
from meritfair.engine.options import allot, draw_posterior
from meritfair.engine.random import (
    LANES,
    LEVELS,
    new_source,
    next_word,
    open_uniform,
    random_words,
    threshold,
    thresholds,
    toss_words,
    uniform,
)
from meritfair.engine.rules import BERNSTEIN, KL, MEAN, OPTIMISTIC, PAPER, PESSIMISTIC, THOMPSON, BallRule
from meritfair.engine.selection import smallest
from meritfair.engine.steps import (
    NO_GROUPS,
    NO_ORDER,
    Groups,
    StepPlan,
    Steps,
    choose_in_groups,
    choose_softly,
    choose_top,
    choosing,
    new_groups,
    new_steps,
    walk_steps,
)
from meritfair.model.allocation import allocate, learning_cap
from meritfair.model.confidence import BALLS, ESTIMATES
from meritfair.policies.base import Policy
from meritfair.policies.plans import PriorityTable
from meritfair.policies.view import View
from meritfair.simulation import metrics
from reference.compiled import kernel_of_tests

MASK = (1 << 64) - 1
CERTAIN = int(ALL)


# --- Kernels around parts, which cannot be called from Python.


@kernel_of_tests
def _next_words(source: WordArray, words: WordArray) -> None:
    for i in range(len(words)):
        words[i] = next_word(source)


@kernel_of_tests
def _random_words(source: WordArray, words: WordArray) -> None:
    for i in range(len(words)):
        random_words(source, words[i])


@kernel_of_tests
def _uniforms(source: WordArray, closed: FloatArray, opened: FloatArray) -> None:
    for i in range(len(closed)):
        closed[i] = uniform(source)
    for i in range(len(opened)):
        opened[i] = open_uniform(source)


@kernel_of_tests
def _thresholds(chances: FloatArray, limits: WordArray) -> None:
    for i in range(len(chances)):
        limits[i] = threshold(chances[i])


@kernel_of_tests
def _toss_words(source: WordArray, limits: WordArray, heads: WordArray, heads_from: int, n: int) -> None:
    toss_words(source, limits, heads, heads_from, n)


@kernel_of_tests
def _start(chains: Chains, source: WordArray) -> None:
    start_states(chains.state, source)


@kernel_of_tests
def _walk(chains: Chains, tally: Tally, source: WordArray, pulls: WordArray, words: int, bits: int) -> int:
    return walk(chains, tally, source, pulls, words, bits)


@kernel_of_tests
def _note_episodes(coverage: Coverage, seen: IntArray) -> None:
    for t in range(len(seen)):
        note_episode(coverage, seen[t], t == len(seen) - 1)


@kernel_of_tests
def _smallest(values: FloatArray, n: int, rank: int, guess: float) -> float:
    return smallest(values, n, rank, guess)


@kernel_of_tests
def _learn(
    now: Estimates,
    tally: Tally,
    episode: int,
    ball: BallRule,
    estimate: int,
    kind: int,
    first: float,
    second: float,
) -> tuple[float, float]:
    eta, omega = measure_ball(now.upper, now.lower, tally.visits, tally.good, episode, ball)
    estimate_benefits(now, tally, estimate)
    merits(now.benefit, now.merit, kind, first, second)
    shares(now.merit, now.share)
    return eta, omega


@kernel_of_tests
def _estimate_often(now: Estimates, tally: Tally, rng: WordArray, ball: BallRule, points: FloatArray) -> None:
    """Draw from the posterior as often as there are points, (draws, 2, 2, N)."""
    measure_ball(now.upper, now.lower, tally.visits, tally.good, 1, ball)
    for number in range(len(points)):
        draw_posterior(now.inside, tally.visits, tally.good, rng)
        estimate_benefits(now, tally, THOMPSON)
        for state in range(2):
            for action in range(2):
                for arm in range(points.shape[3]):
                    points[number, state, action, arm] = now.inside[state, action, arm]


def _expose(now: Estimates, tally: Tally, floor: FloatArray, most: FloatArray, budget: int) -> None:
    allot(now.merit, now.exposure, now.cap, tally.visits, floor, most, budget)


@kernel_of_tests
def _greedy(now: Estimates, budget: int) -> None:
    greedy_weights(now, budget)


@kernel_of_tests
def _regret(share: FloatArray, fair_share: FloatArray) -> float:
    return regret(share, fair_share)


# --- The generators.


def rotated(word: int, k: int) -> int:
    return ((word << k) | (word >> (64 - k))) & MASK


def xoshiro(state: list[int]) -> int:
    """Return the next output of xoshiro256++ and change the state, as in Blackman and Vigna's paper."""
    result = (rotated((state[0] + state[3]) & MASK, 23) + state[0]) & MASK
    t = (state[1] << 17) & MASK
    state[2] ^= state[0]
    state[3] ^= state[1]
    state[1] ^= state[2]
    state[0] ^= state[3]
    state[2] ^= t
    state[3] = rotated(state[3], 45)
    return result


def hashed(key: int, place: int) -> int:
    """Return number `place` of SplitMix64 from this state."""
    z = (key + (place + 1) * 0x9E3779B97F4A7C15) & MASK
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB & MASK
    return z ^ (z >> 31)


class Twin:
    """A source in Python: 64 generators side by side, and one for single words."""

    def __init__(self, source: WordArray) -> None:
        rows = source[: 4 * LANES].reshape(4, LANES)
        self.lanes = [[int(word) for word in rows[:, i]] for i in range(LANES)]
        self.single = [int(word) for word in source[-4:]]

    def top_bits(self, lane: int) -> list[int]:
        """Return the first LEVELS bits of 64 numbers: each word of the generator has the next bit of all of them."""
        words = [xoshiro(self.lanes[lane]) for _ in range(LEVELS)]
        return [sum(((word >> h) & 1) << (LEVELS - 1 - k) for k, word in enumerate(words)) for h in range(64)]

    def is_at(self, source: WordArray) -> bool:
        """Whether the engine's source has taken the same words."""
        other = Twin(source)
        return self.lanes == other.lanes and self.single == other.single


def undecided(top: int, limit: int) -> bool:
    return top == limit >> (64 - LEVELS)


def is_below(top: int, rest: int, limit: int) -> bool:
    """Whether the number with these first bits and this rest is below a threshold, of which ALL stands for certain."""
    return (top << 64) + rest < limit << LEVELS or limit == CERTAIN


def source_of(seed: int) -> WordArray:
    return new_source(np.random.SeedSequence(seed))


def words_with(rng: np.random.Generator, *shape: int) -> WordArray:
    return rng.integers(0, MASK, shape, np.uint64, endpoint=True)


def test_xoshiro_gives_the_published_numbers() -> None:
    # Made with the authors' C code from the state 1, 2, 3, 4; also the test of the crate rand_xoshiro.
    published = [
        41943041,
        58720359,
        3588806011781223,
        3591011842654386,
        9228616714210784205,
        9973669472204895162,
        14011001112246962877,
        12406186145184390807,
        15849039046786891736,
        10450023813501588000,
    ]
    source, words = source_of(0), np.zeros(10, np.uint64)
    source[-4:] = [1, 2, 3, 4]
    _next_words(source, words)
    assert words.tolist() == published
    state = [1, 2, 3, 4]
    assert [xoshiro(state) for _ in range(10)] == published


def test_single_words_and_all_lanes_advance_as_the_twin() -> None:
    source = source_of(1)
    twin = Twin(source)
    assert len({tuple(lane) for lane in [*twin.lanes, twin.single]}) == LANES + 1  # no two are seeded alike
    words, single = np.zeros((50, LANES), np.uint64), np.zeros(1000, np.uint64)
    _random_words(source, words)
    assert words.tolist() == [[xoshiro(lane) for lane in twin.lanes] for _ in range(50)]
    _next_words(source, single)
    assert single.tolist() == [xoshiro(twin.single) for _ in range(1000)]
    assert twin.is_at(source)


def test_uniform_numbers_are_the_first_53_bits() -> None:
    source = source_of(2)
    twin = Twin(source)
    closed, opened = np.zeros(500), np.zeros(500)
    _uniforms(source, closed, opened)
    assert closed.tolist() == [(xoshiro(twin.single) >> 11) / 2**53 for _ in range(500)]
    assert opened.tolist() == [((xoshiro(twin.single) >> 11) + 1) / 2**53 for _ in range(500)]


def test_thresholds_are_chances_in_64_bits() -> None:
    chances = np.array([0.0, 5e-324, 2.0**-64, 0.1, 0.5, 2 / 3, 1 - 2.0**-53, 1.0])
    limits = np.zeros(len(chances), np.uint64)
    _thresholds(chances, limits)
    # A product with 2^64 is exact in floats; what is left of the point goes.
    assert limits.tolist() == [int(float(p) * 2**64) for p in chances[:-1]] + [CERTAIN]
    assert thresholds(chances).tolist() == limits.tolist()


# --- Coins.


def toss(twin: Twin, limits: list[int]) -> list[int]:
    """Toss 64 coins for each threshold, in blocks of 64 thresholds; numbers are completed at the end of a block."""
    heads: list[int] = []
    for start in range(0, len(limits), LANES):
        block = limits[start : start + LANES]
        tops = [twin.top_bits(i) for i in range(-(-len(block) // 4) * 4)]  # four generators at a time
        for limit, numbers in zip(block, tops, strict=False):
            word = 0
            for h, top in enumerate(numbers):
                rest = xoshiro(twin.single) if undecided(top, limit) else 0
                word |= is_below(top, rest, limit) << h
            heads.append(word)
    return heads


NARROW = 0b101100111 << (64 - LEVELS)  # thresholds that differ only in bits after the first LEVELS
SPECIAL = [0, 1, CERTAIN, CERTAIN - 1, 1 << 63, (1 << 63) - 1, NARROW, NARROW + 1, NARROW + (1 << 54), NARROW - 1]


@pytest.mark.parametrize("n", [1, 2, 4, 63, 64, 65, 130])
def test_coins_are_those_of_the_twin(n: int) -> None:
    rng = np.random.default_rng(n)
    source = source_of(3)
    twin = Twin(source)
    for _ in range(3):
        limits = words_with(rng, n + 5)
        special = rng.random(n + 5) < 0.5
        limits[special] = rng.choice(np.array(SPECIAL, np.uint64), special.sum())
        heads = np.zeros(n + 10, np.uint64)
        _toss_words(source, limits, heads, 7, n)
        assert heads[7 : 7 + n].tolist() == toss(twin, limits[:n].tolist())
        assert twin.is_at(source)
        assert not heads[:7].any()


def test_coins_of_chance_0_and_1_are_certain_and_low_bits_count() -> None:
    source, n = source_of(4), 200_000
    narrow, wide = NARROW, NARROW + (1 << (64 - LEVELS)) - 1  # the same first LEVELS bits, but 2^-LEVELS apart
    limits = np.tile(np.array([0, CERTAIN, narrow, wide], np.uint64), n)
    heads = np.zeros(4 * n + 3, np.uint64)
    _toss_words(source, limits, heads, 0, 4 * n)
    never, always, seldom, often = heads[:-3].reshape(n, 4).T
    assert not never.any()
    assert (always == ALL).all()
    spread = np.sqrt(64 * n / 4)
    assert abs(np.bitwise_count(seldom).sum() - 64 * n * (narrow / 2**64)) < 5 * spread
    assert abs(np.bitwise_count(often).sum() - 64 * n * (wide / 2**64)) < 5 * spread
    assert 64 * n * ((wide - narrow) / 2**64) > 10 * spread  # so the last bits forgotten would be found


# --- Chains.


class Walker:
    """Arms that are moved and counted one by one, one step at a time."""

    def __init__(self, transitions: FloatArray, states: list[int]) -> None:
        n_arms = len(states)
        self.limits, self.states = limits_of(transitions), states
        self.visits, self.good = np.zeros((2, 2, n_arms)), np.zeros((2, 2, n_arms))
        self.seen: list[set[int]] = [set() for _ in states]
        self.waited, self.longest = [0] * n_arms, [0] * n_arms

    def numbers(self, twin: Twin, lanes: int) -> list[list[tuple[int, int]]]:
        """Return the uniform number of each of 64 steps of each lane, in two parts.

        The rest is a hash of its place in a block of lanes, with a key that is drawn for each block.
        """
        found: list[list[tuple[int, int]]] = []
        for start in range(0, lanes, LANES):
            block = min(LANES, lanes - start)
            tops = [twin.top_bits(i) for i in range(-(-block // 4) * 4)]  # four generators at a time
            key = xoshiro(twin.single)
            for lane in range(block):
                found.append([(top, hashed(key, 64 * lane + h)) for h, top in enumerate(tops[lane])])
        return found

    def walk(self, twin: Twin, pulls: list[int], horizon: int) -> int:
        """Move all arms through the steps; return how often an arm was good after a step."""
        n_arms, reward = len(self.states), 0
        numbers = self.numbers(twin, len(pulls))
        for arm in range(n_arms):
            for step in range(horizon):
                lane, h = step // 64 * n_arms + arm, step % 64
                state, action = self.states[arm], (pulls[lane] >> h) & 1
                following = int(is_below(*numbers[lane][h], self.limits[arm][state][action]))
                self.visits[state, action, arm] += 1
                self.good[state, action, arm] += following
                self.seen[arm].add(2 * state + action)
                self.waited[arm] = 0 if action else self.waited[arm] + 1
                self.longest[arm] = max(self.longest[arm], self.waited[arm])
                self.states[arm] = following
                reward += following
        return reward


def limits_of(transitions: FloatArray) -> list[list[list[int]]]:
    limits = np.zeros(transitions.size, np.uint64)
    _thresholds(transitions.ravel(), limits)
    return [[[int(limit) for limit in row] for row in arm] for arm in limits.reshape(transitions.shape)]


def some_pulls(rng: np.random.Generator, lanes: int, chance: float) -> WordArray:
    """Return pulls by lane, with what walks in blocks may read beyond."""
    pulled = (rng.random((lanes, 64)) < chance).astype(np.uint64)
    pulls = np.zeros(lanes + 3, np.uint64)
    pulls[:-3] = (pulled << np.arange(64, dtype=np.uint64)).sum(axis=1, dtype=np.uint64)
    return pulls


KINDS = np.array(
    [
        [[0.2, 0.6], [0.5, 0.9]],
        [[0.8, 0.9], [0.3, 0.1]],  # flips
        [[0.0, 1.0], [1.0, 0.0]],
        [[0.01, 0.99], [0.99, 0.01]],
        [[0.5, 0.5 + 2.0**-12], [0.5 - 2.0**-12, 0.5]],  # not decided by the first bits
        [[0.0, 0.0], [1.0, 1.0]],  # keeps its state for ever
        [[1.0, 1.0], [0.0, 0.0]],  # flips for ever
    ]
)


@pytest.mark.parametrize("horizon", [1, 5, 63, 64, 65, 130, 200])
@pytest.mark.parametrize("n_arms", [1, 7, 70])
def test_arms_walk_as_in_a_plain_loop(n_arms: int, horizon: int) -> None:
    rng = np.random.default_rng(horizon)
    words, bits = -(-horizon // 64), (horizon - 1) % 64 + 1
    transitions = KINDS[np.arange(n_arms) % len(KINDS)]
    chains, tally, source = new_chains(transitions, words), new_tally(n_arms), source_of(5)
    twin = Twin(source)
    _start(chains, source)
    fresh = [xoshiro(twin.single) for _ in range(-(-n_arms // 64))]
    assert chains.state.tolist() == [(fresh[i // 64] >> (i % 64)) & 1 for i in range(n_arms)]
    plain = Walker(transitions, chains.state.tolist())
    for chance in (0.5, 0.05, 0.01, 0.2, 0.0):  # rare pulls, so that waits grow, also over several episodes
        pulls = some_pulls(rng, words * n_arms, chance)
        given_pulls = pulls.tolist()
        reward = _walk(chains, tally, source, pulls, words, bits)
        assert reward == plain.walk(twin, given_pulls[:-3], horizon)
        assert twin.is_at(source)
        assert chains.state.tolist() == plain.states
        np.testing.assert_array_equal(tally.visits, plain.visits)
        np.testing.assert_array_equal(tally.good, plain.good)
        assert tally.seen.tolist() == [sum(1 << cell for cell in seen) for seen in plain.seen]
        assert tally.waited.tolist() == plain.waited
        assert tally.longest_wait.tolist() == plain.longest
        last = given_pulls[(words - 1) * n_arms : words * n_arms]
        assert pulls[(words - 1) * n_arms : -3].tolist() == [word & ((1 << bits) - 1) for word in last]


@settings(max_examples=300)
@given(st.lists(st.integers(0, MASK), min_size=3, max_size=3), st.integers(1, 64), st.integers(0, 70))
def test_longest_waits_of_any_bits(words: list[int], bits: int, waited: int) -> None:
    chains, tally, source = new_chains(KINDS[:1], 3), new_tally(1), source_of(6)
    tally.waited[:] = tally.longest_wait[:] = waited
    _walk(chains, tally, source, np.array([*words, 0, 0, 0], np.uint64), 3, bits)
    wait = longest = waited
    for step in range(128 + bits):
        wait = 0 if (words[step // 64] >> (step % 64)) & 1 else wait + 1
        longest = max(longest, wait)
    assert tally.waited[0] == wait
    assert tally.longest_wait[0] == longest


# --- Coverage.


def engine_gaps(covered: AnyArray, rng: np.random.Generator) -> tuple[int, int, bool]:
    seen = np.where(covered, 15, rng.integers(0, 15, covered.shape))
    coverage = new_coverage(covered.shape[1], len(covered))
    _note_episodes(coverage, seen)
    assert not seen.any()  # cleared for the next episode
    return coverage_gaps(coverage)


def gaps_of_the_metrics(covered: AnyArray) -> tuple[int, int, bool]:
    gap, authors = int(metrics.coverage_gap(covered)), int(metrics.coverage_gap_authors(covered))
    return gap, authors, bool(metrics.coverage_gap_censored(covered))


def test_coverage_gaps_are_those_of_the_metrics() -> None:
    rng = np.random.default_rng(7)
    differ = 0
    for _ in range(1500):
        shape = int(rng.integers(1, 30)), int(rng.integers(1, 6))
        covered = rng.random(shape) < rng.choice([0.05, 0.3, 0.5, 0.7, 0.95])
        gaps = engine_gaps(covered, rng)
        assert gaps == gaps_of_the_metrics(covered)
        differ += gaps[0] != gaps[1]
    assert differ > 350  # the two are far from the same


@settings(max_examples=300)
@given(
    st.integers(1, 4).flatmap(
        lambda n: st.lists(st.lists(st.booleans(), min_size=n, max_size=n), min_size=1, max_size=9)
    )
)
def test_coverage_gaps_of_any_episodes(rows: list[list[bool]]) -> None:
    covered = np.array(rows)
    assert engine_gaps(covered, np.random.default_rng(0)) == gaps_of_the_metrics(covered)


# --- Selection.


@settings(max_examples=200)
@given(
    st.lists(st.sampled_from([0.0, 1.0, 2.0, np.inf, -np.inf]) | st.floats(allow_nan=False), min_size=1, max_size=40),
    st.data(),
)
def test_selection_is_that_of_a_partition(values: list[float], data: st.DataObject) -> None:
    n = data.draw(st.integers(1, len(values)))
    rank = data.draw(st.integers(0, n - 1))
    guess = data.draw(st.sampled_from(values) | st.floats(allow_nan=False))
    array = np.array(values)
    assert _smallest(array, n, rank, guess) == np.partition(values[:n], rank)[rank]
    assert sorted(array[:n]) == sorted(values[:n])  # moved, but none is lost
    assert array[n:].tolist() == values[n:]


# --- Learning.


MERITS = [
    mf.Exponential(3.0),
    mf.Exponential(10.0),
    mf.Affine(1.0, 1.5),
    mf.Power(2.0, 0.1),
    mf.Power(0.5, 0.3),
    mf.Logistic(4.0, 0.2),
    mf.Logistic(50.0, -0.5),
]


def some_counts(rng: np.random.Generator, n_arms: int, most: int) -> tuple[mf.Counts, Tally]:
    """Return the same counts for the model and for the engine; some are zero."""
    visits = rng.integers(0, most + 1, (n_arms, 2, 2)) * (rng.random((n_arms, 2, 2)) < 0.8)
    good = rng.binomial(visits, rng.random(visits.shape))
    tally = new_tally(n_arms)
    tally.visits[:], tally.good[:] = visits.transpose(1, 2, 0), good.transpose(1, 2, 0)
    return mf.Counts(visits, good), tally


STEEPEST = 50.0  # the largest slope of the logarithm of a merit in this list


@pytest.mark.parametrize("merit", MERITS, ids=repr)
@pytest.mark.parametrize("estimate", [OPTIMISTIC, MEAN, PESSIMISTIC])
@pytest.mark.parametrize("kind", [PAPER, BERNSTEIN, KL])
def test_estimates_are_those_of_the_model(merit: mf.Merit, estimate: int, kind: int) -> None:
    rng = np.random.default_rng(8)
    rule = merit.rule()
    assert rule is not None
    # The ends of a KL ball are roots of sums of logarithms as large as the counts: 1e5 of them leave about 1e-11.
    rounding = 1e-11 if kind == KL else 1e-13
    for n_arms, most, episode, delta in [(1, 0, 1, 0.01), (3, 3, 1, 0.5), (5, 400, 7, 0.01), (40, 100_000, 3000, 0.99)]:
        counts, tally = some_counts(rng, n_arms, most)
        now = new_estimates(n_arms)
        eta, omega = _learn(now, tally, episode, BallRule(kind, delta, tightener(kind)), estimate, *rule)
        ball = mf.Ball(counts, episode, delta, BALLS[kind])
        expected = ball.estimate(ESTIMATES[estimate])
        point = {OPTIMISTIC: now.upper, PESSIMISTIC: now.lower}.get(estimate, now.inside)
        merits_there = merit(mf.benefit(expected))
        np.testing.assert_allclose(point.transpose(2, 0, 1), expected, rtol=0, atol=rounding)
        # An error in a chance is larger in the benefit by at most 1 / (1 - P(1) + P(0)), for either action.
        steepest = (1 / (1 - expected[:, 1] + expected[:, 0])).sum(axis=-1).max()
        relative = max(1e-12, rounding * steepest * STEEPEST)
        np.testing.assert_allclose(now.merit, merits_there / merits_there.max(), rtol=relative)
        np.testing.assert_allclose(now.share, mf.merit_share(merits_there), rtol=relative)
        assert now.merit.max() == 1.0
        assert eta == pytest.approx(ball.eta.max(), rel=0, abs=2 * rounding)
        assert omega == pytest.approx(ball.omega.max(), rel=0, abs=2 * rounding)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [PAPER, KL])
def test_draws_from_the_posterior_have_its_law(kind: int) -> None:
    # Where the ball does not bind, as for few visits and a small delta. Planted: one visit more would be found.
    visits, good = np.array([0, 1, 10, 10, 30, 100, 100, 7]), np.array([0, 1, 3, 10, 15, 31, 99, 0])
    n_arms, draws, delta = 2, 100_000, 1e-9
    tally, now, points = new_tally(n_arms), new_estimates(n_arms), np.zeros((draws, 2, 2, n_arms))
    tally.visits[:], tally.good[:] = visits.reshape(2, 2, 2), good.reshape(2, 2, 2)
    _estimate_often(now, tally, source_of(14), BallRule(kind, delta, tightener(kind)), points)
    level = 1e-5 / (3 * len(visits))
    for place, (n, k) in enumerate(zip(visits, good, strict=True)):
        drawn, law = points.reshape(draws, -1)[:, place], stats.beta(k + 1, n - k + 1)
        assert stats.kstest(drawn, law.cdf).pvalue > level
        assert abs(drawn.mean() - law.mean()) < stats.norm.isf(level) * law.std() / np.sqrt(draws)
        assert abs(drawn.var() / law.var() - 1) < stats.norm.isf(level) * np.sqrt((law.stats("k") + 2) / draws)
        assert stats.kstest(drawn, stats.beta(k + 1, n - k + 2).cdf).pvalue < level
    together = np.asarray(np.corrcoef(points.reshape(draws, -1).T))[np.triu_indices(8, 1)]
    assert np.abs(together).max() * np.sqrt(draws) < stats.norm.isf(1e-5 / 28)  # each is drawn by itself


@pytest.mark.parametrize("kind", [PAPER, BERNSTEIN, KL])
def test_draws_from_the_posterior_are_clipped_into_the_ball(kind: int) -> None:
    visits = np.full((4, 2, 2), 3)
    visits[1], visits[2] = 40, 2000
    counts = mf.Counts(visits, visits // 3)
    ball = mf.Ball(counts, 1, 0.99, BALLS[kind])
    tally, points = new_tally(4), np.zeros((20_000, 2, 2, 4))
    tally.visits[:], tally.good[:] = counts.visits.transpose(1, 2, 0), counts.good.transpose(1, 2, 0)
    _estimate_often(new_estimates(4), tally, source_of(15), BallRule(kind, 0.99, tightener(kind)), points)
    low, high = ball.lower.transpose(1, 2, 0), ball.upper.transpose(1, 2, 0)
    assert (points >= low - 1e-12).all()
    assert (points <= high + 1e-12).all()
    if kind == KL:  # the tightest: for many visits it still ends within four standard deviations
        assert np.isclose(points[..., 2], low[..., 2]).any() or np.isclose(points[..., 2], high[..., 2]).any()


def exposure_cases(rng: np.random.Generator, number: int) -> list[tuple[FloatArray, int, FloatArray, FloatArray]]:
    """Return merits, budgets, floors and caps: flat to 140 orders of magnitude, up to as many pulls as arms."""
    found = []
    for k in range(number):
        n_arms = int(rng.integers(1, 30))
        budget = n_arms if k % 10 == 0 else int(rng.integers(1, n_arms + 1))
        merit = np.exp(rng.uniform(-1, 0, n_arms) * rng.choice([0.0, 0.5, 3.0, 10.0, 40.0, 160.0, 320.0]))
        floor, most = np.zeros(n_arms), np.ones(n_arms)
        if rng.random() < 0.5:
            floor = rng.random(n_arms) * rng.random() * budget / n_arms
        if rng.random() < 0.5:
            most = np.where(
                rng.random(n_arms) < 0.5, 1.0, np.maximum(floor, 1 - rng.random(n_arms) * (1 - budget / n_arms))
            )
        found.append((merit / merit.max(), budget, floor, most))
    return found


def test_exposures_are_those_of_the_allocation() -> None:
    rng = np.random.default_rng(16)
    wrong, saturated, lifted, careful = [], 0, 0, 0
    for merit, budget, floor, most in exposure_cases(rng, 1500):
        now, tally = new_estimates(len(merit)), new_tally(len(merit))
        now.merit[:] = merit
        tally.visits[:] = rng.integers(0, 10 ** rng.integers(1, 6), (2, 2, len(merit)))
        _expose(now, tally, floor, most, budget)
        cap = learning_cap(tally.visits[:, 0].sum(axis=0), budget, floor, most)
        shared = allocate(merit, budget, floor=floor, cap=cap)
        away = np.abs(now.exposure - shared.exposure).max()
        if away > 1e-9:
            wrong.append((merit.tolist(), budget, floor.tolist(), cap.tolist(), float(away)))
        saturated += bool(shared.saturated.any())
        lifted += bool(shared.at_floor.any())
        careful += not np.array_equal(cap, most)
    assert min(saturated, lifted, careful) > 250
    assert not wrong, f"{len(wrong)} of 1500, the smallest {min(wrong, key=lambda case: len(case[0]))}"


# --- Inclusion.


def included(merit: FloatArray, budget: int) -> FloatArray:
    exposure = np.zeros(len(merit))
    include(new_race(len(merit), budget), merit / merit.max(), exposure, budget)
    return exposure


@pytest.mark.parametrize("c", [0.0, 0.1, 1.0, 3.0, 10.0])
def test_inclusion_is_that_of_the_model(c: float) -> None:
    rng = np.random.default_rng(17)
    worst: tuple[float, Any] = (0.0, None)
    for number in range(120):
        n_arms = int(rng.integers(3, 101 if number % 8 == 0 else 15))
        budget = int(rng.integers(2, n_arms))
        benefit = rng.choice([-1.0, 1.0], n_arms) if number % 5 == 0 else rng.uniform(-1, 1, n_arms)
        merit = np.exp(c * benefit)
        away = float(np.abs(included(merit, budget) - mf.fair_exposure(merit, budget)).max())
        worst = max(worst, (away, (merit.tolist(), budget)), key=lambda case: case[0])
    assert worst[0] < 1e-7, worst


def test_inclusion_of_two_arms_of_all_and_of_one_that_is_far_ahead() -> None:
    np.testing.assert_array_equal(included(np.array([0.3, 1.0]), 2), [1.0, 1.0])
    np.testing.assert_array_equal(included(np.exp(np.linspace(-3, 3, 9)), 9), np.ones(9))
    np.testing.assert_allclose(included(np.ones(10), 3), 0.3, atol=1e-9)
    lonely = np.array([1.0, 1e-6, 1e-6, 1e-6])
    np.testing.assert_allclose(included(lonely, 2), mf.fair_exposure(lonely, 2), atol=1e-7)
    np.testing.assert_allclose(included(lonely, 2), [1.0, 1 / 3, 1 / 3, 1 / 3], atol=1e-5)


def test_greedy_weights_and_regret_are_those_of_a_priority_table() -> None:
    rng = np.random.default_rng(9)
    ties = 0
    for _ in range(800):
        n_arms = int(rng.integers(1, 9))
        budget = int(rng.integers(1, n_arms + 1))
        benefit = rng.choice([-0.5, 0.0, 0.1, 0.7], n_arms) if rng.random() < 0.7 else rng.normal(size=n_arms)
        now = new_estimates(n_arms)
        now.benefit[:] = benefit
        _greedy(now, budget)
        table = PriorityTable(np.stack([benefit, benefit], axis=-1))
        share, weights = table.share(budget), table.weights(budget)
        assert share is not None
        assert weights is not None
        np.testing.assert_array_equal(now.merit, weights)
        np.testing.assert_allclose(now.share, share, rtol=0, atol=1e-12)
        ties += not np.isin(share, [0, 1 / budget]).all()
        fair = mf.merit_share(rng.random(n_arms) + 0.1)
        expected = float(metrics.fairness_regret(share, fair))
        assert _regret(share, fair) == pytest.approx(expected, rel=0, abs=1e-12)
    assert ties > 120


# --- Step by step.


def _rank_and_note(
    memory: FloatArray, states: IntArray, pulled: IntArray, step: int, exploring: bool, index: FloatArray
) -> None:
    """Rank by the table in the first rows of the memory; note what is seen in its row for the step."""
    n_arms = len(states)
    for arm in range(n_arms):
        index[arm] = memory[states[arm], arm]
        memory[2 + step, arm] = states[arm]
        memory[2 + step, 3 * n_arms + arm] = pulled[arm]
    memory[2 + step, 4 * n_arms] = exploring


def _note_pulls(memory: FloatArray, states: IntArray, pulls: IntArray, following: IntArray) -> None:
    """Note pulls and states after a step in the first row without them."""
    n_arms = len(states)
    step = np.int64(memory[0, 4 * n_arms])
    for arm in range(n_arms):
        memory[2 + step, n_arms + arm] = pulls[arm]
        memory[2 + step, 2 * n_arms + arm] = following[arm]
    memory[0, 4 * n_arms] = step + 1


def _three_in_ten(memory: FloatArray, step: int) -> float:
    return 0.3


@kernel_of_tests
def _play(
    chains: Chains,
    tally: Tally,
    steps: Steps,
    plan: StepPlan,
    environment: WordArray,
    rng: WordArray,
    pulls: WordArray,
    budget: int,
    horizon: int,
    step: int,
) -> int:
    return walk_steps(chains, tally, pulls, steps, plan, environment, rng, budget, horizon, step, 1)


@pytest.mark.slow
def test_steps_pull_the_largest_and_break_ties_at_random() -> None:
    n_arms, budget, horizon, episodes = 6, 3, 1000, 100
    rng = np.random.default_rng(10)
    transitions = rng.uniform(0.1, 0.9, (n_arms, 2, 2))
    chains, tally, steps = new_chains(transitions, 1), new_tally(n_arms), new_steps(n_arms, 1)
    environment, rng_words, pulls = source_of(11), source_of(12), np.zeros(n_arms, np.uint64)
    table = np.array([[0.0, 0.0, 0.0, 1.0, 1.0, -np.inf], [1.0, 1.0, 2.0, 0.0, -np.inf, -np.inf]])  # by state and arm
    memory = np.zeros((2 + horizon * episodes, 4 * n_arms + 1))
    memory[:2, :n_arms] = table
    plan = StepPlan(choosing(_rank_and_note, _note_pulls, _three_in_ten, choose_top), memory, NO_GROUPS, NO_ORDER)
    rewards = [
        _play(chains, tally, steps, plan, environment, rng_words, pulls, budget, horizon, t * horizon)
        for t in range(episodes)
    ]
    seen, pulled, following, before = (memory[2:, k * n_arms : (k + 1) * n_arms].astype(bool) for k in range(4))
    assert not before[0].any()
    assert (before[1:] == pulled[:-1]).all()
    index = np.where(seen, table[1], table[0])
    last = np.sort(index, axis=1)[:, [-budget]]
    assert pulled[index > last].all()
    assert not pulled[(index < last) | (index == -np.inf)].any()
    assert (pulled.sum(axis=1) == np.minimum(budget, (index > -np.inf).sum(axis=1))).all()
    assert (seen[1:] == following[:-1]).all()
    assert sum(rewards) == following.sum()
    for state in (0, 1):
        for action in (0, 1):
            there = (seen == bool(state)) & (pulled == bool(action))
            np.testing.assert_array_equal(tally.visits[state, action], there.sum(axis=0))
            np.testing.assert_array_equal(tally.good[state, action], (there & following).sum(axis=0))
    chance = np.where(seen, *(np.where(pulled, transitions[:, s, 1], transitions[:, s, 0]) for s in (1, 0)))
    z_good = (following - chance).sum(axis=0) / np.sqrt((chance * (1 - chance)).sum(axis=0))
    assert np.abs(z_good).max() < stats.norm.isf(1e-5 / n_arms)
    level = (index == last) & (last > -np.inf)
    places = budget - (index > last).sum(axis=1)
    kinds, which = np.unique(np.column_stack([level, places]), axis=0, return_inverse=True)
    p_values = []
    for kind, (*tied, left) in enumerate(kinds):
        tied_arms = np.flatnonzero(tied)
        if left < len(tied_arms):  # each choice of so many arms is as likely as any other
            choices = pulled[which.ravel() == kind][:, tied_arms] @ (1 << np.arange(len(tied_arms)))
            times = np.unique(choices, return_counts=True)[1]
            assert len(times) == math.comb(len(tied_arms), left)
            p_values.append(stats.chisquare(times).pvalue)
            planted = times + np.round(0.1 * times.mean() * np.linspace(-1, 1, len(times)))
            if len(choices) > 8000:  # planted: up to 10 % too often or too seldom
                assert stats.chisquare(planted * times.sum() / planted.sum()).pvalue < 1e-5
    assert len(p_values) > 5
    assert min(p_values) > 1e-5 / len(p_values)
    assert stats.binomtest(int(memory[2:, -1].sum()), horizon * episodes, 0.3).pvalue > 1e-5
    assert stats.binomtest(int(memory[2:, -1].sum()), horizon * episodes, 0.31).pvalue < 1e-5  # planted


def _played(choose: Any, index: FloatArray, budget: int, steps_of_all: int, groups: Groups = NO_GROUPS) -> IntArray:
    """Return who was pulled at each of many steps, (steps, N), by an index that does not change."""
    n_arms = len(index)
    steps, memory = new_steps(n_arms, 1), np.zeros((2 + steps_of_all, 4 * n_arms + 1))
    memory[:2, :n_arms] = index
    plan = StepPlan(choosing(_rank_and_note, _note_pulls, None, choose), memory, groups, NO_ORDER)
    chains, pulls = new_chains(np.full((n_arms, 2, 2), 0.5), 1), np.zeros(n_arms, np.uint64)
    _play(chains, new_tally(n_arms), steps, plan, source_of(21), source_of(22), pulls, budget, steps_of_all, 0)
    return memory[2:, n_arms : 2 * n_arms].astype(np.int64)


def _z(pulls: IntArray, exposure: FloatArray) -> float:
    """Return how far the arms' pulls are from what their exposures say, in standard errors, at most."""
    inside = (exposure > 0) & (exposure < 1)
    e = exposure[inside]
    assert (pulls[:, exposure == 0] == 0).all()
    assert (pulls[:, exposure == 1] == 1).all()
    return float(np.abs((pulls[:, inside].mean(axis=0) - e) / np.sqrt(e * (1 - e) / len(pulls))).max(initial=0.0))


@pytest.mark.parametrize("budget", [1, 3, 5])
def test_soft_choices_have_the_law_of_a_sequential_draw(budget: int) -> None:
    index = np.array([0.0, 1.0, -1.5, 2.0, 0.5, -np.inf])
    pulls = _played(choose_softly, index, budget, 200_000)
    assert (pulls.sum(axis=1) == budget).all()
    exposure = np.append(mf.fair_exposure(np.exp(index[:5]), budget), 0.0)
    limit = stats.norm.isf(1e-5 / 6)
    assert _z(pulls, exposure) < limit
    if budget < 5:  # planted: one weight is 5 % too large
        wrong = np.append(mf.fair_exposure(np.exp(index[:5]) * [1, 1.05, 1, 1, 1], budget), 0.0)
        assert _z(pulls, wrong) > limit


def test_choices_in_groups_keep_their_quotas_and_break_ties_at_random() -> None:
    groups = np.array([2, 0, 1, 0, 2, 2, 0, 1, 2])
    index = np.array([5.0, 1.0, 7.0, 1.0, 5.0, 9.0, 1.0, 8.0, 5.0])
    quotas = np.array([2, 0, 3])
    pulls = _played(choose_in_groups, index, 5, 100_000, new_groups(groups, quotas))
    for group, quota in enumerate(quotas):
        assert (pulls[:, groups == group].sum(axis=1) == quota).all()
    exposure = np.array([2 / 3, 2 / 3, 0, 2 / 3, 2 / 3, 1, 2 / 3, 0, 2 / 3])
    limit = stats.norm.isf(1e-5 / 9)
    assert _z(pulls, exposure) < limit
    assert _z(pulls, exposure + 0.01 * (np.arange(9) == 0)) > limit  # planted
    np.testing.assert_allclose(np.asarray(PriorityTable.of(index, groups, quotas).exposure(5)), exposure)
    index[1] = np.nan
    assert not _played(choose_in_groups, index, 5, 10, new_groups(groups, quotas)).any()  # it stops


def test_nobody_is_chosen_without_a_budget() -> None:
    index = np.array([1.0, 1.0, -np.inf, 2.0])
    for choose in (choose_top, choose_softly):
        assert not _played(choose, index, 0, 20).any()


class ByState(Policy):
    """Always arms 0 and 1, one of 2, 3 and 4, and never arm 5 or who is in a bad state."""

    name = "by-state"

    def plan(self, view: View) -> PriorityTable:
        return PriorityTable(np.array([[-np.inf, index] for index in (3.0, 2.0, 1.0, 1.0, 1.0, -np.inf)]))

    def settings(self) -> dict[str, Any]:
        return {}


def test_a_priority_table_is_played_with_ties_at_random() -> None:
    arms = mf.Arms([[[1.0, 1.0], [1.0, 1.0]]] * 6)  # all are good from the second step on
    run = mf.simulate(arms, ByState(), budget=3, episodes=4, horizon=200, runs=100, seed=13)
    assert not run.visits[:, :, 0, 1].any()
    assert not run.visits[:, :2, 1, 0].any()
    assert not run.visits[:, 5, 1, 1].any()
    tied = run.visits[:, 2:5, 1, 1]
    one_each = 100 * 4 * 199  # from the second step on; at the first more than one of the three may be pulled
    assert one_each <= tied.sum() <= one_each + 3 * 400
    z = (tied.sum(axis=0) - tied.sum() / 3) / np.sqrt(tied.sum() * 2 / 9)
    assert np.abs(z).max() < stats.norm.isf(1e-5 / 3)
    by_run = ((tied - tied.mean(axis=1, keepdims=True)) ** 2).sum(axis=1) / tied.mean(axis=1)
    assert 1e-5 < stats.chi2.sf(by_run.sum(), 2 * len(by_run)) < 1 - 1e-5  # spread over runs as by fair dice
    # Planted: one arm in a hundred pulls would go to the next arm instead.
    moved = tied.sum(axis=0) + np.array([-1, 1, 0]) * tied[:, 0].sum() // 20
    assert np.abs((moved - tied.sum() / 3) / np.sqrt(tied.sum() * 2 / 9)).max() > stats.norm.isf(1e-5 / 3)
