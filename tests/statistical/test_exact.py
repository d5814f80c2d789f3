"""Draws by the designs exact and systematic have the exposures, and the joint law, that the model says.

Seeds are fixed. All tests of this file together reject a correct program with probability below about 1e-4: each of the
COMPARISONS is made at ALPHA / COMPARISONS, and a comparison of many numbers is corrected for how many they are.

Single draws each have an order of their own, so they are independent: how often an arm is pulled is binomial, and a
whole set of arms has the mean over all orders of the chance that plain enumeration finds. In the engine, 64 steps share
an order. Given the order, steps are independent and each pulls an arm with its exposure whatever the order; so pulls
over steps, and products of pulls at different steps, are still binomial. Who is pulled together at a step does depend
on the order, so that is averaged over the 256 steps of each order, and these averages are compared by their own spread.

Power: 1 % in one exposure e moves its frequency by 0.01 sqrt(n e / (1 - e)) standard errors, 10 and more for a million
draws and e of 1/2; the critical value is about 6. That errors are found is asserted with planted ones.
"""

from __future__ import annotations

from itertools import permutations
from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy import stats

import meritfair as mf
from meritfair.core.arrays import AnyArray, BoolArray, FloatArray, IntArray
from meritfair.engine.bits import ONE, count_ones
from meritfair.engine.episodes import RunSettings, RunState, Stages, new_run_state, open_loop, stages
from meritfair.engine.lotteries import PULLS
from meritfair.engine.rules import EXPONENTIAL, PAPER, BallRule, MeritRule
from meritfair.model.draws import draw_exposures, joint_exposure
from meritfair.model.exposure import DESIGNS
from reference import numpy_simulator as reference
from reference import plain
from reference.compiled import kernel_of_tests
from reference.pulls import wrong_steps

pytestmark = pytest.mark.slow

ALPHA = 1e-4
COMPARISONS = 150
LEVEL = ALPHA / COMPARISONS
BIAS = 0.01  # planted: relative, in one exposure

both_designs = pytest.mark.parametrize("design", DESIGNS[1:])


class Case(NamedTuple):
    name: str
    exposure: FloatArray
    draws: int = 1_000_000


def by_merit(merit: Any, budget: int, **bounds: Any) -> FloatArray:
    return mf.fair_exposure(merit, budget, "exact", **bounds)


CASES = [
    Case("flat", by_merit(np.ones(6), 3)),
    Case("steep", by_merit(np.exp(3 * np.linspace(-1, 1, 8)), 2)),
    Case("saturated arms", by_merit([50.0, 20.0, 2.0, 1.0, 0.5], 3)),
    Case("floors and caps", by_merit([9.0, 3.0, 2.0, 1.0, 0.1], 2, floor=0.1, cap=[0.6, 1.0, 1.0, 1.0, 1.0])),
    Case("all arms", by_merit([3.0, 2.0, 1.0], 3), 1000),
    Case("all but one", by_merit(np.exp(np.linspace(-1, 1, 6)), 5)),
    Case("one pull", by_merit([5.0, 2.0, 2.0, 1.0], 1)),
    Case("one of two", by_merit([1.0, 0.6], 1)),
    Case("a single arm", np.ones(1), 1000),
    Case("300 orders of magnitude", by_merit(10.0 ** np.array([150, 149, 0, -1, -150]), 3)),
    Case("0 and 1 among others", np.array([0.0, 1.0, 0.35, 0.0, 0.65, 1.0, 0.5, 0.5])),
    Case("nearly certain and nearly never", np.array([0.999, 0.998, 0.001, 0.002, 0.5, 0.5])),
    Case("a thousand arms", by_merit(np.exp(2 * np.linspace(-1, 1, 1000)), 300), 10_000),
]


# --- Comparisons: each returns a p-value that is corrected for how many numbers are compared.


def least(p_values: AnyArray) -> float:
    return float(min(1.0, np.min(p_values) * np.size(p_values))) if np.size(p_values) else 1.0


def of_z(z: AnyArray) -> float:
    return least(2 * stats.norm.sf(np.abs(z)))


def of_counts(seen: AnyArray, n: int, chance: AnyArray) -> float:
    """Exact binomial tests; what cannot happen never did, and what is certain always did."""
    if (seen[chance < 1e-12] > 0).any() or (seen[chance > 1 - 1e-12] < n).any():
        return 0.0
    inside = (chance >= 1e-12) & (chance <= 1 - 1e-12)
    k, p = seen[inside], chance[inside]
    return least(np.minimum(1.0, 2 * np.minimum(stats.binom.cdf(k, n, p), stats.binom.sf(k - 1, n, p))))


def chi_square(observed: AnyArray, expected: AnyArray) -> float:
    """Pearson's test; cells with fewer than 10 expected are put together."""
    if (observed[expected < 1e-9] > 0).any():
        return 0.0
    rare = expected < 10
    o, e = observed[~rare], expected[~rare]
    if expected[rare].sum() >= 10:
        o, e = np.append(o, observed[rare].sum()), np.append(e, expected[rare].sum())
    return float(stats.chi2.sf(((o - e) ** 2 / e).sum(), len(e) - 1)) if len(e) > 1 else 1.0


def biased(exposure: FloatArray) -> FloatArray:
    """Return exposures of which the one that tells most is planted too small."""
    planted = exposure.copy()
    planted[np.argmax(np.where(exposure < 0.99, exposure, 0.0))] *= 1 - BIAS
    return planted


# --- Single draws.


@both_designs
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_draw_has_the_right_number_and_every_arm_its_exposure(case: Case, design: str) -> None:
    exposure, budget = case.exposure, round(float(case.exposure.sum()))
    seen = np.zeros(len(exposure), np.int64)
    rng, left = np.random.default_rng(CASES.index(case)), case.draws
    while left > 0:  # in pieces, for the sake of memory
        pulled = draw_exposures(exposure, rng=rng, size=min(left, 250_000), design=design)
        assert (pulled.sum(axis=1) == budget).all()  # arms are marked, so none can be pulled twice
        seen += pulled.sum(axis=0)
        left -= len(pulled)
    assert of_counts(seen, case.draws, exposure) > LEVEL
    if case.draws == 1_000_000 and ((exposure > 0.4) & (exposure < 0.99)).any():
        assert of_counts(seen, case.draws, biased(exposure)) < LEVEL


def law_over_orders(exposure: FloatArray, design: str) -> FloatArray:
    """Return the chance of each set of arms, as bits, by plain enumeration for each of the orders."""
    law_of = {"exact": plain.rounding_law, "systematic": plain.systematic_law}[design]
    n_arms = len(exposure)
    chances = np.zeros(1 << n_arms)
    orders = list(permutations(range(n_arms)))
    for order in orders:
        for places, chance in law_of(exposure[list(order)]).items():
            chances[sum(1 << order[place] for place in places)] += chance / len(orders)
    return chances


SMALL = [
    by_merit([4.0, 2.0, 1.0, 1.0, 0.5], 2),
    by_merit([4.0, 2.0, 1.0, 1.0, 0.5], 3),
    by_merit([1.0, 1.0, 1.0, 1.0], 2),
    by_merit([10.0, 2.0, 1.0, 1.0, 1.0], 2),
    by_merit(np.exp(np.linspace(-1, 1, 6)), 3),
]


@both_designs
@pytest.mark.parametrize("exposure", SMALL, ids=lambda e: str(e.round(3)))
def test_whole_draws_have_the_law_of_plain_enumeration(exposure: FloatArray, design: str) -> None:
    n_arms, draws = len(exposure), 300_000
    pulled = draw_exposures(exposure, rng=np.random.default_rng(7), size=draws, design=design)
    law = law_over_orders(exposure, design)
    seen = np.bincount(pulled @ (1 << np.arange(n_arms)), minlength=1 << n_arms)
    assert chi_square(seen, draws * law) > LEVEL
    both, upper = joint_exposure(exposure, design), np.triu_indices(n_arms, 1)
    pairs = np.array([(pulled[:, i] & pulled[:, j]).sum() for i, j in zip(*upper, strict=True)])
    assert of_counts(pairs, draws, both[upper]) > LEVEL
    independent = np.outer(exposure, exposure)
    assert of_counts(pairs, draws, independent[upper]) < LEVEL
    other = joint_exposure(exposure, "systematic" if design == "exact" else "exact")
    if np.abs(other - both).max() > 0.01:  # the two designs differ in who is drawn together
        assert of_counts(pairs, draws, other[upper]) < LEVEL


def test_one_order_for_all_draws_would_be_found() -> None:
    exposure, draws = SMALL[0], 300_000
    rng = np.random.default_rng(8)
    shuffle = np.broadcast_to(np.arange(5.0), (draws, 5))
    pulled = reference.rounded_pulls(exposure, shuffle, rng.random((draws, 5)))
    seen = np.bincount(pulled @ (1 << np.arange(5)), minlength=32)
    assert of_counts(pulled.sum(axis=0), draws, exposure) > LEVEL
    assert chi_square(seen, draws * law_over_orders(exposure, "exact")) < LEVEL


@both_designs
def test_the_numpy_reference_has_the_law_of_plain_enumeration(design: str) -> None:
    rng, draws = np.random.default_rng(9), 200_000
    for exposure in [*SMALL, np.array([0.0, 1.0, 0.35, 0.65])]:
        n_arms = len(exposure)
        shuffle, coins = rng.random((draws, n_arms)), rng.random((draws, n_arms))
        if design == "exact":
            pulled = reference.rounded_pulls(exposure, shuffle, coins)
        else:
            pulled = reference.systematic_pulls(exposure, shuffle, coins[:, 0])
        seen = np.bincount(pulled @ (1 << np.arange(n_arms)), minlength=1 << n_arms)
        assert chi_square(seen, draws * law_over_orders(exposure, design)) > LEVEL


# --- Groups.


def group_variance(both: FloatArray, group: BoolArray) -> float:
    """Return the variance of how many of a group are drawn."""
    single = np.diag(both)
    return float(group @ (both - np.outer(single, single)) @ group)


def test_rounding_never_draws_two_arms_together_more_often_than_coins_would() -> None:
    # So for any group the number drawn varies no more than with independent coins of the same exposures.
    rng = np.random.default_rng(10)
    for _ in range(200):
        n_arms = int(rng.integers(2, 13))
        exposure = by_merit(np.exp(rng.uniform(-2, 2, n_arms)), int(rng.integers(1, n_arms + 1)))
        both = joint_exposure(exposure, "exact", rng.permutation(n_arms))
        apart = ~np.eye(n_arms, dtype=bool)
        assert (both <= np.outer(exposure, exposure) + 1e-12)[apart].all()
    lined_up = joint_exposure([0.5] * 4, "systematic", range(4))
    assert lined_up[0, 2] > 0.25  # of a systematic draw in one order that is not so


@pytest.mark.parametrize("merit", [np.ones(20), np.exp(np.linspace(-1, 1, 20)), np.exp(3 * np.linspace(-1, 1, 20))])
def test_groups_vary_less_than_with_independent_coins(merit: FloatArray) -> None:
    draws, rng = 100_000, np.random.default_rng(11)
    exposure = by_merit(merit, 4)
    group = np.isin(np.arange(20), rng.permutation(20)[:10])
    coins = float((exposure * (1 - exposure))[group].sum())
    for design in DESIGNS[1:]:
        number = draw_exposures(exposure, rng=rng, size=draws, design=design)[:, group].sum(axis=1)
        away = (number - exposure[group].sum()) ** 2
        z = (away.mean() - coins) / (away.std() / np.sqrt(draws))
        assert stats.norm.cdf(z) < LEVEL  # less, beyond any doubt
    alone = (rng.random((draws, 20)) < exposure)[:, group].sum(axis=1)
    away = (alone - exposure[group].sum()) ** 2
    assert abs(away.mean() - coins) / (away.std() / np.sqrt(draws)) < stats.norm.isf(LEVEL)


# --- The engine: 256 steps in one order.


WORDS_IN_ORDER = 4


class Draws(NamedTuple):
    """What was seen of pulls over steps, each by pair of arms (N, N)."""

    pairs: IntArray  # both at one step, by word: (words, N, N); on the diagonal, the pulls
    next_step: IntArray  # the first at a step of even number, the second at the next
    next_word: IntArray  # the first at a step in a word of even number, the second 64 steps later
    wrong: IntArray  # steps at which not exactly K are pulled


@kernel_of_tests
def _count_draws(
    settings: RunSettings, how: Stages, state: RunState, weights: FloatArray, rounds: int, draws: Draws
) -> None:
    """Play rounds of whole words, an even number of them, and count the bits of the pulls."""
    n_arms, words = len(weights), settings.horizon // 64
    pulls = state.drawing.words[PULLS]
    even = np.uint64(0x5555555555555555)
    for number in range(rounds):
        open_loop(settings, how, state, weights, True)
        for word in range(words):
            first = word * n_arms
            draws.wrong[0] += wrong_steps(pulls, first, n_arms, settings.budget)
            for i in range(n_arms):
                for j in range(n_arms):
                    a, b = pulls[first + i], pulls[first + j]
                    draws.pairs[number * words + word, i, j] = np.int64(count_ones(a & b))
                    draws.next_step[i, j] += np.int64(count_ones(a & (b >> ONE) & even))
                    if word % 2 == 0:
                        draws.next_word[i, j] += np.int64(count_ones(a & pulls[first + n_arms + j]))


def count_draws(exposure: FloatArray, design: str, rounds: int, seed: int) -> Draws:
    n_arms, budget, words = len(exposure), round(float(exposure.sum())), 16
    seeds = np.random.SeedSequence(seed, spawn_key=(1,)), np.random.SeedSequence(seed, spawn_key=(2,))
    state = new_run_state(np.full((n_arms, 2, 2), 0.5), budget, 1, 64 * words, *seeds)
    fair = np.full(n_arms, 1 / n_arms)
    settings = RunSettings(
        fair,
        budget * fair,
        budget,
        float(budget),
        64 * words,
        False,
        BallRule(PAPER, 0.01),
        MeritRule(EXPONENTIAL, 1.0, 0.0),
    )
    assert words * n_arms <= 2048  # all words of an episode are still there after it
    next_step, next_word = (np.zeros((n_arms, n_arms), np.int64) for _ in range(2))
    pairs = np.zeros((rounds * words, n_arms, n_arms), np.int64)
    draws = Draws(pairs, next_step, next_word, np.zeros(1, np.int64))
    _count_draws(settings, stages(n_arms, budget, DESIGNS.index(design)), state, exposure, rounds, draws)
    return draws


def compare_draws(draws: Draws, exposure: FloatArray, both: FloatArray) -> dict[str, float]:
    upper, n = np.triu_indices(len(exposure), 1), 64 * len(draws.pairs)
    apart = np.outer(exposure, exposure).ravel()
    by_order = draws.pairs[:, *upper].reshape(-1, WORDS_IN_ORDER, len(upper[0])).mean(axis=1) / 64
    spread = by_order.std(axis=0) / np.sqrt(len(by_order))
    if (np.abs(by_order.mean(axis=0) - both[upper])[spread == 0] > 1e-9).any():
        together = 0.0
    else:
        together = of_z(((by_order.mean(axis=0) - both[upper])[spread > 0]) / spread[spread > 0])
    return {
        "pulls": of_counts(np.diag(draws.pairs.sum(axis=0)), n, exposure),
        "pairs": together,
        "next step": of_counts(draws.next_step.ravel(), n // 2, apart),
        "next word": of_counts(draws.next_word.ravel(), n // 2, apart),
    }


@both_designs
@pytest.mark.parametrize(
    "exposure",
    [*SMALL, by_merit([50.0, 20.0, 2.0, 1.0, 0.5], 3), by_merit([2.0, 1.0], 1)],
    ids=lambda e: str(e.round(3)),
)
def test_draws_of_the_engine_have_the_exact_law(exposure: FloatArray, design: str) -> None:
    draws = count_draws(exposure, design, 1500, 20)
    assert draws.wrong[0] == 0
    both = joint_exposure(exposure, design)
    p_values = compare_draws(draws, exposure, both)
    assert min(p_values.values()) > LEVEL, p_values

    assert compare_draws(draws, biased(exposure), both)["pulls"] < LEVEL
    if len(exposure) > 2:
        independent = np.outer(exposure, exposure)
        np.fill_diagonal(independent, exposure)
        assert compare_draws(draws, exposure, independent)["pairs"] < LEVEL
    n = 64 * len(draws.pairs)
    repeated = np.where(
        np.eye(len(exposure), dtype=bool), exposure, both
    )  # were the arms of the last step pulled again
    for name in ("next_step", "next_word"):
        stuck = draws._replace(**{name: (getattr(draws, name) * 0.98 + 0.02 * n / 2 * repeated).astype(np.int64)})
        assert compare_draws(stuck, exposure, both)[name.replace("_", " ")] < LEVEL  # 2 % of the steps


@both_designs
def test_256_steps_share_an_order_and_others_do_not(design: str) -> None:
    # Not a promise, but what the test above is built on: pairs vary more from order to order than by single coins.
    exposure = SMALL[2]
    steps = 64 * WORDS_IN_ORDER
    pairs = count_draws(exposure, design, 1200, 21).pairs[:, 0, 1].reshape(-1, WORDS_IN_ORDER).sum(axis=1)
    single = pairs.mean() * (1 - pairs.mean() / steps)
    assert pairs.var() > 3 * single
    following = np.corrcoef(pairs[:-1], pairs[1:])[0, 1]
    assert abs(following) * np.sqrt(len(pairs)) < stats.norm.isf(LEVEL)


# --- Whole runs, against the NumPy reference with its own draws, one order for each step.


RUNS = [
    mf.MeritFair(merit=mf.Exponential(2.0), design="exact", estimate="mean"),
    mf.MeritFair(merit=mf.Exponential(2.0), design="systematic", estimate="mean", floor=0.2),
    mf.MeritFair(merit=mf.Exponential(3.0), design="exact", estimate="thompson", ball="kl", delta=0.5),
    mf.MeritFair(merit=mf.Exponential(3.0), design="systematic", estimate="mean", cap=(0.6, 1.0, 1.0, 0.8)),
]


@pytest.mark.parametrize("policy", RUNS, ids=repr)
def test_runs_have_the_law_of_the_numpy_reference(policy: mf.MeritFair) -> None:
    arms = mf.datasets.synthetic(n_arms=4, seed=8)
    settings: dict[str, Any] = {"budget": 2, "episodes": 6, "horizon": 15}
    runs = 800
    ours = mf.simulate(arms, policy, runs=runs, seed=22, **settings)
    fair = {name: getattr(policy, name) for name in ("merit", "delta", "ball", "design", "floor", "cap")}
    theirs = reference.simulate([arms] * runs, policy, exposure_regret=True, seed=23, **settings, **fair)
    numbers = ("visits", "good", "fairness_regret", "exposure_regret", "reward", "eta", "omega", "longest_wait")
    pairs = [(getattr(ours, name).reshape(runs, -1), theirs[name].reshape(runs, -1)) for name in numbers]
    limit = stats.norm.isf(LEVEL / (2 * sum(a.shape[1] for a, _ in pairs)))
    for name, (a, b) in zip(numbers, pairs, strict=True):
        error = np.sqrt((a.var(axis=0) + b.var(axis=0)) / runs)
        fixed = error < 1e-12
        np.testing.assert_allclose(a.mean(axis=0)[fixed], b.mean(axis=0)[fixed], atol=1e-9)  # the first episode
        away = np.abs(a.mean(axis=0) - b.mean(axis=0))[~fixed] / error[~fixed]
        assert (away < limit).all(), name
        planted = {"visits": 1.2, "good": 1.2, "reward": 1.2, "fairness_regret": 1.5, "exposure_regret": 1.5}.get(name)
        if planted is not None:
            shifted = np.abs(a.mean(axis=0) - planted * b.mean(axis=0))[~fixed] / error[~fixed]
            assert (shifted > limit).any(), name


@pytest.mark.parametrize(
    ("design", "budget"), [(design, budget) for design in DESIGNS[1:] for budget in (1, 3)], ids=str
)
def test_episodes_pull_each_arm_as_a_fair_oracle_should(design: str, budget: int) -> None:
    # Over 200 steps, which are three words and a part of one; pulls of an arm are independent over steps.
    arms = mf.datasets.synthetic(n_arms=5, seed=3)
    run = mf.simulate(arms, mf.FairOracle(design=design), budget=budget, episodes=200, horizon=200, runs=20, seed=24)
    n = 200 * 200 * 20
    exposure = run.fair_exposure[0]
    assert of_counts(run.pulls.sum(axis=0), n, exposure) > LEVEL
    assert of_counts(run.pulls.sum(axis=0), n, biased(exposure)) < LEVEL
    sequential = mf.fair_exposure(run.fair_merit[0], budget)
    if budget > 1:
        assert of_counts(run.pulls.sum(axis=0), n, sequential) < LEVEL  # another design
