"""Episodes of the compiled engine have the law of the plain model, exactly.

Seeds are fixed. All tests of this file together reject a correct program with probability below about 1e-4: each of the
COMPARISONS is made at ALPHA / COMPARISONS, and a comparison of many numbers is corrected for how many they are.

Of an episode, four things are held against exact values, and one against the NumPy reference with its own generator:

* *outcomes*: good minus P times visits is a martingale, so over n visits its variance is n P (1 - P), in any design;
* *pulls* of an arm are independent over steps, so their number is binomial, with the exposure as chance;
* *visits* have the mean of a forward recursion over the steps;
* *products* of counts, within an arm and between two, have the mean of a recursion over the joint chain of two arms;
* the *joint* law of two arms' counts, cut into cells, is that of the reference, by a two-sample chi-square.

Power: 0.005 in one probability moves the mean outcome by 0.005 sqrt(n / (P (1 - P))) standard errors, and 0.5 % in one
exposure e moves the mean pulls by 0.005 sqrt(n e / (1 - e)). Sample sizes make that more than the critical value (about
6.5) plus 3, so such an error is missed with a chance below 0.002; that it is found is asserted with planted errors.
"""

from __future__ import annotations

from functools import cache
from itertools import combinations, permutations, product
from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy import stats

import meritfair as mf
from meritfair.core.arrays import AnyArray, FloatArray, IntArray
from meritfair.engine import arrivals
from meritfair.engine.bits import ONE, count_ones
from meritfair.engine.chains import start_states
from meritfair.engine.episodes import RunSettings, RunState, Stages, new_run_state, open_loop, stages
from meritfair.engine.lotteries import DRAWN, PULLS
from meritfair.engine.rules import EXPONENTIAL, PAPER, SEQUENTIAL, BallRule, MeritRule
from reference import numpy_simulator as reference
from reference.compiled import kernel_of_tests
from reference.pulls import wrong_steps

pytestmark = pytest.mark.slow

ALPHA = 1e-4
COMPARISONS = 350
LEVEL = ALPHA / COMPARISONS
BIAS = 0.005  # planted: added to one probability, or relative in one exposure or weight
ENOUGH = 1000  # expected events from which a mean of products is normal as far out as LEVEL

HELPS = [[0.2, 0.6], [0.5, 0.9]]  # by state and action: the chance of a good next state
HURTS = [[0.6, 0.2], [0.9, 0.5]]
FLIPS = [[0.8, 0.9], [0.3, 0.1]]  # a good state is bad for the next
NEAR = [[0.01, 0.99], [0.01, 0.99]]
STICKY = [[0.01, 0.05], [0.95, 0.99]]
SHAKY = [[0.97, 0.95], [0.04, 0.02]]
CERTAIN = [[0.0, 1.0], [1.0, 0.0]]
HALF_CERTAIN = [[0.0, 0.3], [0.7, 1.0]]
SWITCH = [[1.0, 1.0], [0.0, 0.0]]
MIXED = [HELPS, HURTS, FLIPS, NEAR, STICKY]
EXTREME = [CERTAIN, HALF_CERTAIN, SWITCH, NEAR]


class Instance(NamedTuple):
    name: str
    kinds: list[list[list[float]]]  # of the arms, in turn
    weights: FloatArray
    budget: int
    horizon: int
    units: int  # independent pieces that are played
    episodes: int = 1  # in each, with states carried on


def merits(n_arms: int, c: float) -> FloatArray:
    weights = np.exp(c * np.linspace(-1, 1, n_arms))
    return np.asarray(weights / weights.max())


def lonely(n_arms: int) -> FloatArray:
    """One arm with nearly all the weight."""
    return np.array([1.0] + [1e-6] * (n_arms - 1))


INSTANCES = [
    Instance("a single arm", [HELPS], merits(1, 0.0), 1, 65, 40_000),
    Instance("one step", [NEAR, HELPS], merits(2, 1.0), 1, 1, 400_000),
    Instance("two of two", [HELPS, STICKY], merits(2, 1.0), 2, 63, 20_000),
    Instance("acting helps", [HELPS], merits(3, 1.0), 1, 63, 60_000),
    Instance("acting hurts", [HURTS], merits(3, 1.0), 1, 64, 60_000),
    Instance("good states hurt", [FLIPS], merits(3, 1.0), 1, 65, 60_000),
    Instance("two of three", MIXED, merits(3, 3.0), 2, 64, 40_000),
    Instance("three of three", MIXED, merits(3, 3.0), 3, 65, 30_000),
    Instance("one of four", MIXED, merits(4, 2.0), 1, 200, 15_000),
    Instance("two of four", MIXED, merits(4, 2.0), 2, 200, 15_000),
    Instance("three of four", MIXED, merits(4, 2.0), 3, 200, 15_000),
    Instance("four of four", MIXED, merits(4, 2.0), 4, 200, 15_000),
    Instance("states carried on", MIXED, merits(5, 3.0), 1, 63, 10_000, 3),
    Instance("carried on, whole words", MIXED, merits(5, 0.0), 2, 64, 10_000, 3),
    Instance("carried on, one bit more", MIXED, merits(5, 1.0), 4, 65, 10_000, 3),
    Instance("carried on, single steps", MIXED, merits(5, 1.0), 2, 1, 60_000, 7),
    Instance("concentrated", MIXED, merits(5, 10.0), 1, 200, 10_000),
    Instance("one arm with all the weight", MIXED, lonely(5), 2, 200, 10_000),
    Instance("near-degenerate", [NEAR, STICKY], merits(6, 1.0), 3, 64, 20_000),
    Instance("probabilities 0 and 1", EXTREME, merits(6, 1.0), 3, 65, 20_000, 2),
    Instance("five of eight", [FLIPS, HELPS], merits(8, 0.0), 5, 65, 30_000),
    Instance("seven of eight, concentrated", MIXED, merits(8, 10.0), 7, 200, 8_000),
    Instance("long", MIXED, merits(10, 1.0), 1, 1000, 2_000),
    Instance("all but one", MIXED, merits(10, 0.0), 9, 200, 8_000),
    Instance("one step, many pulls", [NEAR, STICKY, HELPS], merits(12, 1.0), 6, 1, 200_000),
    Instance("by arrival", MIXED, merits(20, 3.0), 12, 200, 5_000),
    Instance("with heavy arms", MIXED, np.r_[np.ones(4), np.full(26, 0.01)], 10, 65, 8_000),
    Instance("a word of arms", MIXED, np.ones(64), 20, 64, 6_000),
    Instance("without a time", MIXED, np.ones(65), 5, 63, 8_000),
    Instance("many arms, concentrated", MIXED, merits(100, 10.0), 40, 200, 1_500),
    Instance("more words than at once", MIXED, np.ones(200), 10, 1000, 1_000),
    Instance("some always, some never", MIXED, np.r_[np.inf, np.inf, np.ones(6), np.zeros(4)], 4, 200, 8_000),
    Instance("always or never", MIXED, np.r_[np.inf, np.inf, 0.0, 0.0, 0.0], 2, 64, 20_000),
]


def arms_of(instance: Instance) -> FloatArray:
    n_arms = len(instance.weights)
    return np.array([instance.kinds[i % len(instance.kinds)] for i in range(n_arms)])


def state_and_settings(transitions: FloatArray, budget: int, horizon: int, seed: int) -> tuple[RunState, RunSettings]:
    seeds = np.random.SeedSequence(seed, spawn_key=(1,)), np.random.SeedSequence(seed, spawn_key=(2,))
    state = new_run_state(transitions, budget, 1, horizon, *seeds)
    n_arms = len(transitions)
    fair = np.full(n_arms, 1 / n_arms)
    ball, merit = BallRule(PAPER, 0.01), MeritRule(EXPONENTIAL, 1.0, 0.0)
    return state, RunSettings(fair, budget * fair, budget, float(budget), horizon, False, ball, merit)


@kernel_of_tests
def _play_units(
    settings: RunSettings, how: Stages, state: RunState, weights: FloatArray, episodes: int, counts: AnyArray
) -> int:
    """Play units of that many episodes from fresh states; write their counts, (units, 2, 2, 2, N), visits and good.

    Return in how many episodes the reward was not the number of good outcomes.
    """
    wrong, tally = 0, state.tally
    for unit in range(len(counts)):
        start_states(state.chains.state, state.environment_rng)
        for s in range(2):
            for a in range(2):
                for arm in range(len(weights)):
                    tally.visits[s, a, arm] = tally.good[s, a, arm] = 0.0
        reward = 0
        for _ in range(episodes):
            reward += open_loop(settings, how, state, weights, True)
        good = 0
        for s in range(2):
            for a in range(2):
                for arm in range(len(weights)):
                    counts[unit, 0, s, a, arm] = tally.visits[s, a, arm]
                    counts[unit, 1, s, a, arm] = tally.good[s, a, arm]
                    good += int(tally.good[s, a, arm])
        wrong += good != reward
    return wrong


@kernel_of_tests
def _play_once(settings: RunSettings, how: Stages, state: RunState, weights: FloatArray) -> int:
    return open_loop(settings, how, state, weights, True)


def play_units(instance: Instance, seed: int) -> AnyArray:
    """Return the counts of each unit, (units, 2, 2, 2, N): visits and good, by state, action and arm."""
    transitions = arms_of(instance)
    state, settings = state_and_settings(transitions, instance.budget, instance.horizon, seed)
    counts = np.zeros((instance.units, 2, 2, 2, len(transitions)), np.int16)
    how = stages(len(instance.weights), instance.budget, SEQUENTIAL)
    assert _play_units(settings, how, state, instance.weights, instance.episodes, counts) == 0
    return counts


# --- Exact values.


def exposures(weights: FloatArray, budget: int) -> FloatArray:
    """Return the chance of a pull of each arm; infinity is always pulled, 0 never."""
    certain, open_arms = weights == np.inf, (weights > 0) & (weights < np.inf)
    drawn = min(budget - int(certain.sum()), int(open_arms.sum()))
    exposure: FloatArray = certain.astype(np.float64)
    if drawn > 0:
        exposure[open_arms] = mf.fair_exposure(weights[open_arms], drawn)
    return exposure


def joint_exposure(weights: FloatArray, budget: int, i: int, j: int) -> float:
    """Return the chance that both arms are pulled: that of one plus that of the other minus that of either.

    In the race, the first of the two arrives like one arm with the weight of both.
    """
    single = exposures(weights, budget)
    if np.isin(weights[[i, j]], [0.0, np.inf]).any():
        return float(single[i] * single[j])
    merged = np.append(np.delete(weights, [i, j]), weights[i] + weights[j])
    return float(single[i] + single[j] - exposures(merged, budget)[-1])


def expected_visits(transitions: FloatArray, exposure: FloatArray, steps: int) -> FloatArray:
    """Return the expected visits, (2, 2, N), by going through the steps."""
    good, visits = np.full(len(exposure), 0.5), np.zeros((2, 2, len(exposure)))
    for _ in range(steps):
        following = np.zeros_like(good)
        for state, action in product((0, 1), repeat=2):
            here = (good if state else 1 - good) * (exposure if action else 1 - exposure)
            visits[state, action] += here
            following += here * transitions[:, state, action]
        good = following
    return visits


def features() -> FloatArray:
    """Return what one step adds to the features of two arms, (4 pairs of states, 16 events, 8 features).

    Of each arm: pulls, steps in a good state, good outcomes, pulls in a good state. An event is two actions and two
    outcomes.
    """
    table = np.zeros((2, 2, 2, 2, 2, 2, 8))
    for states in product((0, 1), repeat=2):
        for actions in product((0, 1), repeat=2):
            for following in product((0, 1), repeat=2):
                table[(*states, *actions, *following)] = [
                    value for s, a, n in zip(states, actions, following, strict=True) for value in (a, s, n, s * a)
                ]
    return table.reshape(4, 16, 8)


def summed_up(counts: AnyArray) -> FloatArray:
    """Return the features of each arm, (units, N, 4), from the counts (units, 2, 2, 2, N)."""
    visits, good = counts[:, 0], counts[:, 1]
    of_arm = [visits[:, 0, 1] + visits[:, 1, 1], visits[:, 1].sum(axis=1), good.sum(axis=(1, 2)), visits[:, 1, 1]]
    return np.stack(of_arm, axis=-1).astype(np.float64)


def exact_moments(pair: FloatArray, actions: FloatArray, steps: int) -> tuple[FloatArray, FloatArray]:
    """Return mean and covariance of the 8 features of two arms with chances `pair` (2, 2, 2) and actions (2, 2).

    Goes through the steps with the law of the pair's states, and the mean of the features in each of them.
    """
    from_i = np.stack([1 - pair[0], pair[0]], axis=-1)  # by state, action, following
    from_j = np.stack([1 - pair[1], pair[1]], axis=-1)
    event = np.einsum("ab,iax,jby->ijabxy", actions, from_i, from_j).reshape(4, 16)
    gain = features()
    to = np.eye(4)[np.arange(16) % 4]  # the states after an event
    move, mean_gain = event @ to, np.einsum("ze,zef->zf", event, gain)
    moved_gain = np.einsum("ze,zef,ey->zyf", event, gain, to)
    square = np.einsum("ze,zef,zeg->zfg", event, gain, gain)
    law, mean, second = np.full(4, 0.25), np.zeros((4, 8)), np.zeros((8, 8))
    for _ in range(steps):
        cross = mean.T @ mean_gain
        second += cross + cross.T + np.tensordot(law, square, 1)
        mean = move.T @ mean + np.tensordot(law, moved_gain, 1)
        law = law @ move
    total = mean.sum(axis=0)
    return total, second - np.outer(total, total)


# --- Comparisons: each returns a p-value that is corrected for how many numbers are compared.


def least(p_values: AnyArray) -> float:
    return float(min(1.0, np.min(p_values) * np.size(p_values))) if np.size(p_values) else 1.0


def of_z(z: AnyArray) -> float:
    return least(2 * stats.norm.sf(np.abs(z)))


def of_counts(seen: AnyArray, n: int, chance: AnyArray) -> float:
    """Exact binomial tests; what cannot happen never did, and what is certain always did."""
    rounding = 1e-9  # of the exposures
    inside = (chance > rounding) & (chance < 1 - rounding)
    allowed = stats.poisson.isf(LEVEL, n * rounding)
    if (seen[chance <= rounding] > allowed).any() or (n - seen[chance >= 1 - rounding] > allowed).any():
        return 0.0
    k, p = seen[inside], chance[inside]
    return least(np.minimum(1.0, 2 * np.minimum(stats.binom.cdf(k, n, p), stats.binom.sf(k - 1, n, p))))


def compare_outcomes(counts: AnyArray, transitions: FloatArray) -> float:
    visits, good = (total.transpose(2, 0, 1) for total in counts.sum(axis=0))
    variance = visits * transitions * (1 - transitions)
    certain = (transitions == 0) | (transitions == 1)
    if (good != transitions * visits)[certain].any():
        return 0.0
    often = variance > ENOUGH / 5
    return of_z((good - transitions * visits)[often] / np.sqrt(variance[often]))


def compare_pulls(counts: AnyArray, exposure: FloatArray, steps: int) -> float:
    return of_counts(counts[:, 0, :, 1].sum(axis=(0, 1)), steps, exposure)


def compare_visits(counts: AnyArray, transitions: FloatArray, exposure: FloatArray, steps: int) -> float:
    """Each of the (s, a) of each arm; the steps are those of one unit."""
    visits, expected = counts[:, 0], expected_visits(transitions, exposure, steps)
    away, spread = visits.mean(axis=0) - expected, visits.std(axis=0)
    fixed = spread == 0
    if (len(counts) * np.abs(away[fixed]) > ENOUGH / 50).any():  # nothing seen of 20 events or more
        return 0.0
    often = (len(counts) * np.minimum(expected, steps - expected) > ENOUGH) & ~fixed
    return of_z(away[often] / spread[often] * np.sqrt(len(counts)))


def compare_products(counts: AnyArray, instance: Instance, transitions: FloatArray) -> float:
    """The covariances of all features of up to five arms."""
    steps, exposure = instance.horizon * instance.episodes, exposures(instance.weights, instance.budget)
    telling = np.linspace(0, len(transitions) - 1, min(5, len(transitions))).astype(int)
    seen = summed_up(counts[..., telling])
    z: list[AnyArray] = []
    for (a, i), (b, j) in combinations(enumerate(telling), 2):
        both = joint_exposure(instance.weights, instance.budget, i, j)
        actions = np.array([[1 - exposure[i] - exposure[j] + both, exposure[j] - both], [exposure[i] - both, both]])
        mean, covariance = exact_moments(transitions[[i, j]], np.maximum(actions, 0.0), steps)
        away = np.concatenate([seen[:, a], seen[:, b]], axis=1) - mean
        events = len(counts) * np.minimum(mean, steps - mean)
        usable = np.flatnonzero((events > ENOUGH) & (np.diag(covariance) > 1e-9))
        for f, g in product(usable, repeat=2):
            if f <= g:
                products = away[:, f] * away[:, g]
                error = max(float(products.std()) / np.sqrt(len(counts)), 1e-9)  # a square of ±1/2 has no spread
                z.append((products.mean() - covariance[f, g]) / error)
    return of_z(np.array(z))


def two_samples(ours: AnyArray, theirs: AnyArray) -> float:
    """The p-value that two samples of vectors have one law: coordinates are cut near the median, cells compared."""
    pooled = np.concatenate([ours, theirs])
    cuts = np.median(pooled, axis=0)
    powers = 1 << np.arange(pooled.shape[1])
    cells = [np.bincount((x > cuts) @ powers, minlength=1 << pooled.shape[1]) for x in (ours, theirs)]
    total = cells[0] + cells[1]
    order = np.argsort(total)
    rare = np.cumsum(total[order]) < 40
    table = np.array([np.append(c[order[~rare]], c[order[rare]].sum()) for c in cells])
    table = table[:, table.sum(axis=0) > 0]
    return float(stats.chi2_contingency(table, correction=False).pvalue) if table.shape[1] > 1 else 1.0


def reference_units(instance: Instance, units: int, seed: int) -> IntArray:
    """Return what the NumPy reference counts, as `play_units`."""
    transitions, rng = arms_of(instance), np.random.default_rng(seed)
    shape = (units, instance.horizon * instance.episodes, len(transitions))
    pulls = reference.sequential_pulls(instance.weights, rng.standard_exponential(shape), instance.budget)
    path = reference.walk(transitions, rng.random((shape[0], shape[2])) < 0.5, pulls, rng.random(shape))
    visits, good = reference.count_transitions(path, pulls)
    return np.stack([visits, good], axis=1).transpose(0, 1, 3, 4, 2)


def compare_joint(counts: AnyArray, instance: Instance, seed: int) -> float:
    """Pulls and good outcomes of the first and the last two arms, against the reference."""
    units = min(10_000, 1_500_000 // (instance.horizon * instance.episodes * len(instance.weights)))
    if units < 500:
        return 1.0  # too large for the reference
    chosen = np.unique([0, len(instance.weights) - 2, len(instance.weights) - 1])
    chosen = chosen[chosen >= 0]
    ours, theirs = (
        summed_up(x[..., chosen])[:, :, [0, 2]].reshape(len(x), -1)
        for x in (counts, reference_units(instance, units, seed))
    )
    return two_samples(ours, theirs)


def most_telling(shift: AnyArray) -> Any:
    return np.unravel_index(np.argmax(shift), shift.shape)


@pytest.mark.parametrize("instance", INSTANCES, ids=lambda each: each.name)
def test_an_episode_has_the_law_of_the_model(instance: Instance) -> None:
    seed = INSTANCES.index(instance)
    transitions, exposure = arms_of(instance), exposures(instance.weights, instance.budget)
    steps = instance.horizon * instance.episodes
    counts = play_units(instance, seed)
    assert (counts[:, 0].sum(axis=(1, 2)) == steps).all()
    assert compare_outcomes(counts, transitions) > LEVEL
    assert compare_pulls(counts, exposure, instance.units * steps) > LEVEL
    assert compare_visits(counts, transitions, exposure, steps) > LEVEL
    assert compare_products(counts, instance, transitions) > LEVEL
    assert compare_joint(counts, instance, 1000 + seed) > LEVEL

    inside = (transitions > BIAS) & (transitions < 1 - BIAS)
    information = counts[:, 0].sum(axis=0).transpose(2, 0, 1) / np.maximum(1e-9, transitions * (1 - transitions))
    planted = transitions.copy()
    planted[most_telling(np.where(inside, information, 0.0))] -= BIAS
    assert compare_outcomes(counts, planted) < LEVEL


@pytest.mark.parametrize(
    "name",
    ["two of four", "three of four", "all but one", "five of eight", "by arrival", "seven of eight, concentrated"],
)
def test_pulls_of_an_episode_would_show_half_a_percent(name: str) -> None:
    [instance] = [each for each in INSTANCES if each.name == name]
    steps = instance.horizon * instance.units
    counts, exposure = play_units(instance, 77), exposures(instance.weights, instance.budget)
    assert compare_pulls(counts, exposure, steps) > LEVEL
    planted = exposure.copy()
    planted[most_telling(np.where(exposure < 0.99, exposure, 0.0))] *= 1 - BIAS
    assert compare_pulls(counts, planted, steps) < LEVEL


def test_visits_products_and_the_joint_law_would_show_errors() -> None:
    instance = Instance("planted", [HELPS, STICKY, FLIPS], merits(3, 1.0), 1, 65, 60_000)
    transitions, counts = arms_of(instance), play_units(instance, 50)
    exposure = exposures(instance.weights, 1)
    off = transitions.copy()
    off[1, 1, 0] -= BIAS  # 0.945 in place of 0.95
    assert compare_visits(counts, transitions, exposure, 65) > LEVEL
    assert compare_visits(counts, off, exposure, 65) < LEVEL
    assert compare_products(counts, instance, transitions) > LEVEL
    assert compare_products(counts, instance, off) < LEVEL
    # Arms whose pulls are right one by one, but do not exclude each other: each from an episode of its own.
    apart = np.stack([np.roll(counts[..., i], i, axis=0) for i in range(3)], axis=-1)
    assert compare_outcomes(apart, transitions) > LEVEL
    assert compare_pulls(apart, exposure, 65 * 60_000) > LEVEL
    assert compare_visits(apart, transitions, exposure, 65) > LEVEL
    assert compare_products(apart, instance, transitions) < LEVEL
    assert compare_joint(counts, instance, 51) > LEVEL
    assert compare_joint(apart, instance, 51) < LEVEL
    # Episodes that should start afresh, but go on from where the last one ended.
    short = Instance("fresh", [STICKY, HELPS], merits(2, 1.0), 1, 5, 30_000)
    going_on = play_units(short._replace(episodes=2), 52) - play_units(short, 52)
    assert compare_visits(play_units(short, 53), arms_of(short), exposures(short.weights, 1), 5) > LEVEL
    assert compare_visits(going_on, arms_of(short), exposures(short.weights, 1), 5) < LEVEL


def test_exact_moments_are_those_of_enumeration() -> None:
    # Of the ruler itself: all paths of three steps of two arms, one by one.
    pair, actions = np.array([HELPS, FLIPS]), np.array([[0.1, 0.3], [0.4, 0.2]])
    gain = features().reshape(2, 2, 2, 2, 2, 2, 8)
    mean, second = np.zeros(8), np.zeros((8, 8))
    for start in product((0, 1), repeat=2):
        for path in product(product((0, 1), repeat=4), repeat=3):
            states, chance, total = start, 0.25, np.zeros(8)
            for a, b, x, y in path:
                chance *= actions[a, b]
                for arm, action, following in ((0, a, x), (1, b, y)):
                    good = pair[arm, states[arm], action]
                    chance *= good if following else 1 - good
                total = total + gain[(*states, a, b, x, y)]
                states = (x, y)
            mean += chance * total
            second += chance * np.outer(total, total)
    exact_mean, exact_covariance = exact_moments(pair, actions, 3)
    np.testing.assert_allclose(exact_mean, mean, atol=1e-12)
    np.testing.assert_allclose(exact_covariance, second - np.outer(mean, mean), atol=1e-12)


# --- The whole law of a small episode.


def enumerate_counts(transitions: FloatArray, share: FloatArray, horizon: int) -> dict[tuple[int, ...], float]:
    """Return the chance of each (visits, good), by state, action and arm, of two arms and one pull."""
    law: dict[tuple[int, ...], float] = {}
    for start in product((0, 1), repeat=2):
        for pulled in product((0, 1), repeat=horizon):
            for outcomes in product(product((0, 1), repeat=2), repeat=horizon):
                states, chance, counts = start, 0.25, [0] * 16
                for h in range(horizon):
                    chance *= share[pulled[h]]
                    for arm in (0, 1):
                        action = int(pulled[h] == arm)
                        good = transitions[arm, states[arm], action]
                        chance *= good if outcomes[h][arm] else 1 - good
                        cell = 4 * states[arm] + 2 * action + arm
                        counts[cell] += 1
                        counts[8 + cell] += outcomes[h][arm]
                    states = outcomes[h]
                law[tuple(counts)] = law.get(tuple(counts), 0.0) + chance
    return law


def twice(law: dict[tuple[int, ...], float]) -> dict[tuple[int, ...], float]:
    """Return the law of the sum of two independent episodes."""
    both: dict[tuple[int, ...], float] = {}
    for (one, p), (two, q) in product(law.items(), repeat=2):
        total = tuple(a + b for a, b in zip(one, two, strict=True))
        both[total] = both.get(total, 0.0) + p * q
    return both


def compare_law(counts: AnyArray, law: dict[tuple[int, ...], float]) -> float:
    """Pearson's test of counts, one row of 16 for each unit; cells with fewer than 5 expected are put together."""
    base = 8 ** np.arange(16)  # counts are below 8
    seen, times = np.unique(counts.reshape(len(counts), 16) @ base, return_counts=True)
    cells, chance = np.array(list(law)) @ base, np.array(list(law.values()))
    if not np.isin(seen, cells[chance > 0]).all():
        return 0.0
    observed, order = np.zeros(len(cells)), np.argsort(cells)
    observed[order[np.searchsorted(cells[order], seen)]] = times
    expected = len(counts) * chance
    rare = expected < 5
    o, e = observed[~rare], expected[~rare]
    if expected[rare].sum() >= 5:
        o, e = np.append(o, observed[rare].sum()), np.append(e, expected[rare].sum())
    return float(stats.chi2.sf(((o - e) ** 2 / e).sum(), len(e) - 1))


@pytest.mark.parametrize("kinds", [[HELPS, STICKY], [HURTS, SHAKY], [NEAR, FLIPS], [HALF_CERTAIN, SHAKY]])
@pytest.mark.parametrize("weight", [1.0, 0.2])
def test_counts_of_three_steps_equal_enumeration(kinds: list[list[list[float]]], weight: float) -> None:
    instance = Instance("small", kinds, np.array([1.0, weight]), 1, 3, 1_000_000)
    transitions, counts = arms_of(instance), play_units(instance, 60)
    share = mf.merit_share(instance.weights)
    law = enumerate_counts(transitions, share, 3)
    assert sum(law.values()) == pytest.approx(1)
    assert compare_law(counts, law) > LEVEL
    information = counts[:, 0].sum(axis=0).transpose(2, 0, 1) / np.maximum(1e-9, transitions * (1 - transitions))
    inside = (transitions > BIAS) & (transitions < 1 - BIAS)
    off = transitions.copy()
    off[most_telling(np.where(inside, information, 0.0))] += BIAS
    assert compare_law(counts, enumerate_counts(off, share, 3)) < LEVEL


def test_episodes_start_afresh_or_go_on_as_enumeration_says() -> None:
    arms = mf.Arms([STICKY, FLIPS])
    policy = mf.FairOracle(merit=mf.Exponential(1.0))
    share = mf.merit_share(policy.merit(arms.benefit))
    fresh = twice(enumerate_counts(arms.transitions, share, 2))
    going_on = enumerate_counts(arms.transitions, share, 4)
    runs: dict[bool, AnyArray] = {}
    for carry in (False, True):
        run = mf.simulate(arms, policy, budget=1, episodes=2, horizon=2, runs=6_000, seed=61, carry_states=carry)
        runs[carry] = np.stack([run.visits, run.good], axis=1).transpose(0, 1, 3, 4, 2)
    assert compare_law(runs[False], fresh) > LEVEL
    assert compare_law(runs[True], going_on) > LEVEL
    assert compare_law(runs[False], going_on) < LEVEL
    assert compare_law(runs[True], fresh) < LEVEL


# --- Drawing alone.


class Draws(NamedTuple):
    """What was seen of pulls over steps, each by pair of arms (N, N)."""

    pairs: IntArray  # both at one step; on the diagonal, the pulls
    next_step: IntArray  # the first at a step of even number, the second at the next
    next_word: IntArray  # the first at a step in a word of even number, the second 64 steps later
    wrong: IntArray  # steps at which not exactly K are pulled


@kernel_of_tests
def _count_draws(
    settings: RunSettings, how: Stages, state: RunState, weights: FloatArray, rounds: int, pulled: int, draws: Draws
) -> None:
    """Play rounds of whole words, an even number of them, and count the bits of the pulls."""
    n_arms, words = len(weights), settings.horizon // 64
    pulls = state.drawing.words[PULLS]
    even = np.uint64(0x5555555555555555)
    for _ in range(rounds):
        open_loop(settings, how, state, weights, True)
        for word in range(words):
            first = word * n_arms
            draws.wrong[0] += wrong_steps(pulls, first, n_arms, pulled)
            for i in range(n_arms):
                for j in range(n_arms):
                    a, b = pulls[first + i], pulls[first + j]
                    draws.pairs[i, j] += np.int64(count_ones(a & b))
                    draws.next_step[i, j] += np.int64(count_ones(a & (b >> ONE) & even))
                    if word % 2 == 0:
                        draws.next_word[i, j] += np.int64(count_ones(a & pulls[first + n_arms + j]))


def count_draws(weights: FloatArray, budget: int, pulled: int, words: int, rounds: int, seed: int) -> Draws:
    n_arms = len(weights)
    transitions = np.tile(np.array(HELPS), (n_arms, 1, 1))
    state, settings = state_and_settings(transitions, budget, 64 * words, seed)
    assert words * n_arms <= 2048  # all words of an episode are still there after it
    pairs, next_step, next_word = (np.zeros((n_arms, n_arms), np.int64) for _ in range(3))
    draws = Draws(pairs, next_step, next_word, np.zeros(1, np.int64))
    _count_draws(settings, stages(n_arms, budget, SEQUENTIAL), state, weights, rounds, pulled, draws)
    return draws


@cache
def enumerate_pairs(weights: tuple[float, ...], budget: int) -> FloatArray:
    """Return the chance that both of two arms are among the ordered draws, (N, N), summed over all of them."""
    n_arms = len(weights)
    both = np.zeros((n_arms, n_arms))
    for order in permutations(range(n_arms), budget):
        chance = 1.0
        for k, arm in enumerate(order):
            chance *= weights[arm] / sum(weights[other] for other in range(n_arms) if other not in order[:k])
        both[np.ix_(order, order)] += chance
    return both


def pair_exposures(weights: FloatArray, budget: int) -> FloatArray:
    """Return the chance that both of two arms are pulled, (N, N); all of equal weight are computed once."""
    both = np.diag(exposures(weights, budget))
    known: dict[tuple[float, ...], float] = {}
    for i, j in combinations(range(len(weights)), 2):
        key = tuple(sorted((float(weights[i]), float(weights[j]))))
        if key not in known:
            known[key] = joint_exposure(weights, budget, i, j)
        both[i, j] = both[j, i] = known[key]
    return both


def compare_draws(draws: Draws, both: FloatArray, n: int) -> dict[str, float]:
    upper = np.triu_indices(len(both), 1)
    single = np.diag(both)
    of_group = (single[:, None] == np.unique(single)).astype(np.float64)  # arms of one weight, taken together
    variance = np.einsum("ig,ij,jg->g", of_group, both - np.outer(single, single), of_group)
    open_groups = variance > 1e-6
    away = (np.diag(draws.pairs) - n * single) @ of_group
    return {
        "groups": of_z(away[open_groups] / np.sqrt(n * variance[open_groups])),
        "pulls": of_counts(np.diag(draws.pairs), n, single),
        "pairs": of_counts(draws.pairs[upper], n, both[upper]),
        "next step": of_counts(draws.next_step.ravel(), n // 2, np.outer(single, single).ravel()),
        "next word": of_counts(draws.next_word.ravel(), n // 2, np.outer(single, single).ravel()),
    }


DRAWS = [  # weights, budget, rounds of 16 words or fewer
    ([1.0, 0.6], 1, 10_000),
    ([1.0, 0.5, 0.25], 1, 20_000),
    ([1.0, 0.5, 0.25], 2, 20_000),
    ([1.0, 0.5, 0.5, 0.2, 0.1], 2, 10_000),
    ([1.0, 0.5, 0.5, 0.2, 0.1], 3, 10_000),
    ([1.0, 0.5, 0.5, 0.2, 0.1], 4, 10_000),
    ([1.0] * 6, 3, 20_000),
    ([1.0, 1.0, 0.3, 0.3, 0.05, 0.05, 0.01], 3, 10_000),
    ([1.0, 1e-2, 1e-2, 2e-2, 1e-3, 1e-3, 5e-2], 4, 10_000),
    (list(merits(7, 3.0)), 5, 15_000),
    (list(np.repeat([1.0, 0.5, 0.1], 4)), 5, 10_000),  # in passes
    (list(np.repeat([1.0, 0.5, 0.1], 8)), 12, 8_000),  # by arrival
    (list(np.repeat([1.0, 0.5, 0.03], [4, 2, 30])), 12, 8_000),  # by arrival, with heavy arms
    (list(np.repeat([1.0, 0.6, 0.02], [10, 10, 60])), 27, 2_000),  # heavy arms that differ
    (list(np.repeat([1.0, 0.01], [3, 60])), 4, 8_000),  # heavy arms, and far more light ones
    (list(np.repeat([1.0, 0.2], [4, 60])), 5, 10_000),  # without a time
]


@pytest.mark.parametrize(("weights", "budget", "rounds"), DRAWS)
def test_draws_have_the_exact_law(weights: list[float], budget: int, rounds: int) -> None:
    w = np.array(weights)
    words = min(16, 2048 // len(w) // 2 * 2)
    n = 64 * words * rounds
    assert n >= 200_000
    both = pair_exposures(w, budget)
    if len(w) <= 7:
        np.testing.assert_allclose(both, enumerate_pairs(tuple(weights), budget), atol=1e-9)
    draws = count_draws(w, budget, budget, words, rounds, 70)
    assert draws.wrong[0] == 0
    p_values = compare_draws(draws, both, n)
    assert min(p_values.values()) > LEVEL, p_values

    single = np.diag(both)
    less = single.copy()
    less[most_telling(np.where(single < 0.999, single, 0.0))] *= 1 - BIAS
    assert of_counts(np.diag(draws.pairs), n, less) < LEVEL
    if len(w) <= 12:  # with more arms, a single weight says too little
        planted = w.copy()
        planted[np.argmin(np.abs(single - 0.6))] *= 1 + BIAS
        assert of_counts(np.diag(draws.pairs), n, exposures(planted, budget)) < LEVEL
    independent = np.outer(single, single)
    np.fill_diagonal(independent, single)
    assert compare_draws(draws, independent, n)["pairs"] < LEVEL


@pytest.mark.parametrize(
    ("weights", "budget", "both"),
    [  # what is pulled with which other, by hand
        ([1.0, 1e-300, 1e-300, 1e-150], 1, np.diag([1.0, 0, 0, 0])),
        ([1.0, 1e-300, 1e-300, 1e-150], 2, [[1, 0, 0, 1], [0, 0, 0, 0], [0, 0, 0, 0], [1, 0, 0, 1]]),
        (
            [1.0, 1e-300, 1e-300, 1e-150],
            3,
            [[1, 0.5, 0.5, 1], [0.5, 0.5, 0, 0.5], [0.5, 0, 0.5, 0.5], [1, 0.5, 0.5, 1]],
        ),
        ([1.0, 1e-300, 1e-300, 1e-150], 4, np.ones((4, 4))),
        ([1e-300, 1.0, 1e-300], 2, [[0.5, 0.5, 0], [0.5, 1, 0.5], [0, 0.5, 0.5]]),
        ([np.inf, 1.0, 1.0, 0.0], 2, [[1, 0.5, 0.5, 0], [0.5, 0.5, 0, 0], [0.5, 0, 0.5, 0], [0, 0, 0, 0]]),
        (
            [np.inf, 1.0, 3.0, np.inf],
            3,
            [[1, 0.25, 0.75, 1], [0.25, 0.25, 0, 0.25], [0.75, 0, 0.75, 0.75], [1, 0.25, 0.75, 1]],
        ),
        ([np.inf, 0.0, np.inf], 2, [[1, 0, 1], [0, 0, 0], [1, 0, 1]]),
        ([0.0, 1.0, 0.0, 1.0, 1.0], 1, np.diag([0, 1 / 3, 0, 1 / 3, 1 / 3])),
        ([0.0, 1.0, 0.0, 1.0], 3, [[0, 0, 0, 0], [0, 1, 0, 1], [0, 0, 0, 0], [0, 1, 0, 1]]),
        ([0.0, 0.0], 1, np.zeros((2, 2))),
    ],
)
def test_draws_by_weights_of_all_sizes(weights: list[float], budget: int, both: AnyArray) -> None:
    expected = np.asarray(both, dtype=np.float64)
    pulled = round(float(np.trace(expected)))
    draws = count_draws(np.array(weights), budget, pulled, 16, 400, 71)
    assert draws.wrong[0] == 0
    p_values = compare_draws(draws, expected, 64 * 16 * 400)
    assert min(p_values.values()) > LEVEL, p_values
    other = np.roll(expected, 1, axis=(0, 1))  # the arms mixed up
    if not np.allclose(other, expected):
        assert min(compare_draws(draws, other, 64 * 16 * 400).values()) < LEVEL


def test_draws_that_are_not_independent_would_be_found() -> None:
    draws = count_draws(np.array([1.0, 0.5, 0.25]), 1, 1, 16, 1000, 72)
    both = pair_exposures(np.array([1.0, 0.5, 0.25]), 1)
    n = 64 * 16 * 1000
    for name in ("next_step", "next_word"):
        stuck = draws._replace(**{name: (getattr(draws, name) * 0.98 + 0.02 * n / 2 * both).astype(np.int64)})
        assert compare_draws(stuck, both, n)[name.replace("_", " ")] < LEVEL  # 2 % of the draws repeat the last


def test_instances_and_draws_go_through_every_way_of_drawing() -> None:
    ways: set[tuple[str, bool, bool]] = set()
    cases = [(i.weights, i.budget) for i in INSTANCES] + [(np.array(w), budget) for w, budget, _ in DRAWS]
    for weights, budget in cases:
        state, settings = state_and_settings(np.tile(np.array(HELPS), (len(weights), 1, 1)), budget, 1, 0)
        how, facts = stages(len(weights), budget, SEQUENTIAL), state.drawing.facts
        _play_once(settings, how, state, weights)
        many = how.drawer == stages(1000, 500, SEQUENTIAL).drawer
        way = "nothing" if facts[DRAWN] == 0 else "by arrival" if many else "in passes"
        arriving = way == "by arrival"
        ways.add(
            (way, arriving and bool(state.drawing.numbers[0] > 0), bool(arriving and facts[arrivals._N_HEAVY] > 0))
        )
    assert ways == {
        ("nothing", False, False),
        ("in passes", False, False),
        ("by arrival", False, False),  # without a time
        ("by arrival", True, False),
        ("by arrival", True, True),  # with heavy arms
    }
