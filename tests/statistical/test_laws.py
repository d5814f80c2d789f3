"""What is random has the right law.

Seeds are fixed. All tests of this file together reject a correct program with probability below about
1e-4: each of the COMPARISONS is made at ALPHA / COMPARISONS. That each could fail is shown by planted
errors, which must be found.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy import stats

import meritfair as mf
from meritfair.core.arrays import AnyArray
from reference import plain

pytestmark = pytest.mark.slow

ALPHA = 1e-4
COMPARISONS = 100
LEVEL = ALPHA / COMPARISONS


def chi_square(observed: AnyArray, expected: AnyArray) -> float:
    """Return the p-value of Pearson's test, rare cells put together."""
    order = np.argsort(expected)
    rare = order[np.cumsum(expected[order]) < 10]
    common = np.setdiff1d(order, rare)
    o = np.r_[observed[common], observed[rare].sum()] if len(rare) else observed
    e = np.r_[expected[common], expected[rare].sum()] if len(rare) else expected
    keep = e > 0
    assert o[~keep].sum() == 0
    return float(stats.chi2.sf(((o - e)[keep] ** 2 / e[keep]).sum(), keep.sum() - 1))


@pytest.mark.parametrize(
    ("merit", "budget"),
    [
        ([0.5, 0.2, 0.2, 0.1], 1),
        ([0.5, 0.2, 0.2, 0.1], 2),
        ([0.5, 0.2, 0.2, 0.1], 3),
        ([1e4, 1.0, 1e-2, 1e-2, 3.0], 2),
        (list(np.exp(3 * np.linspace(-1, 1, 8))), 5),
    ],
)
def test_draws_follow_the_exact_exposures(merit: list[float], budget: int) -> None:
    draws = 200_000
    pulled = mf.draw(merit, budget, rng=np.random.default_rng(1), size=draws)
    assert (pulled.sum(axis=1) == budget).all()
    exposure = mf.fair_exposure(merit, budget)
    inside = (exposure > 1e-6) & (exposure < 1 - 1e-6)
    z = (pulled.mean(axis=0) - exposure)[inside] / np.sqrt((exposure * (1 - exposure))[inside] / draws)
    limit = stats.norm.isf(LEVEL / (2 * len(merit)))
    assert (np.abs(z) < limit).all()


def test_whole_draws_have_the_law_of_the_sequential_draw() -> None:
    merit, budget, draws = [4.0, 2.0, 1.0, 1.0, 0.5], 2, 200_000
    pulled = mf.draw(merit, budget, rng=np.random.default_rng(2), size=draws)
    codes = np.bincount(pulled @ (1 << np.arange(5)), minlength=32)
    expected = np.zeros(32)
    for first, second in product(range(5), repeat=2):
        if first != second:
            expected[(1 << first) | (1 << second)] += (
                merit[first] / sum(merit) * merit[second] / (sum(merit) - merit[first])
            )
    assert chi_square(codes, draws * expected) > LEVEL
    planted = expected.copy()
    planted[3], planted[24] = planted[3] * 0.97, planted[24] + planted[3] * 0.03
    assert chi_square(codes, draws * planted) < LEVEL


def enumerate_counts(arms: mf.Arms, share: AnyArray, horizon: int) -> dict[tuple[int, ...], float]:
    """Return the exact law of an episode's counts for two arms, one pull and random first states."""
    P = arms.transitions
    law: dict[tuple[int, ...], float] = {}
    for start in product((0, 1), repeat=2):
        paths: dict[tuple[tuple[int, ...], tuple[int, ...]], float] = {(start, (0,) * 16): 0.25}
        for _ in range(horizon):
            following: dict[tuple[tuple[int, ...], tuple[int, ...]], float] = {}
            for (states, counts), chance in paths.items():
                for pulled, new in product((0, 1), product((0, 1), repeat=2)):
                    weight = chance * share[pulled]
                    seen = list(counts)
                    for i in (0, 1):
                        action = int(i == pulled)
                        good = P[i, states[i], action]
                        weight *= good if new[i] else 1 - good
                        cell = 4 * i + 2 * states[i] + action
                        seen[cell] += 1
                        seen[8 + cell] += new[i]
                    key = (new, tuple(seen))
                    following[key] = following.get(key, 0.0) + weight
            paths = following
        for (_, counts), chance in paths.items():
            law[counts] = law.get(counts, 0.0) + chance
    return law


def test_counts_of_an_episode_equal_enumeration() -> None:
    arms = mf.Arms([[[0.2, 0.9], [0.6, 0.35]], [[0.05, 0.5], [0.95, 0.99]]])  # acting helps and hurts
    runs, horizon, oracle = 10_000, 3, mf.FairOracle(merit=mf.Exponential(1.0))
    run = mf.simulate(arms, oracle, budget=1, episodes=1, horizon=3, runs=runs, seed=6)
    law = enumerate_counts(arms, mf.merit_share(run.fair_merit[0]), horizon)
    assert sum(law.values()) == pytest.approx(1)
    place = {counts: k for k, counts in enumerate(law)}
    seen = np.concatenate([run.visits.reshape(runs, 8), run.good.reshape(runs, 8)], axis=1)
    observed = np.bincount([place[tuple(row)] for row in seen.tolist()], minlength=len(law))
    assert chi_square(observed, runs * np.array(list(law.values()))) > LEVEL
    off = mf.Arms([[[0.2, 0.9], [0.6, 0.45]], [[0.05, 0.5], [0.95, 0.99]]])
    planted = enumerate_counts(off, mf.merit_share(run.fair_merit[0]), horizon)
    assert chi_square(observed, runs * np.array([planted[c] for c in law])) < LEVEL


def test_runs_of_mf_rmab_have_the_law_of_the_plain_reference() -> None:
    # The reference draws in another way from another generator; means over runs are compared by z-tests.
    arms = mf.datasets.synthetic(n_arms=4, seed=8)
    settings: dict[str, Any] = {"budget": 2, "episodes": 6, "horizon": 15}
    many, few = 4000, 400
    run = mf.simulate(arms, mf.MeritFair(merit=mf.Exponential(2.0), delta=0.5), runs=many, seed=4, **settings)
    rng = np.random.default_rng(4)
    plainly = [plain.independent_run(arms.transitions, rng, c=2.0, delta=0.5, **settings) for _ in range(few)]
    pairs = [
        (run.visits.reshape(many, -1), np.array([p["visits"].ravel() for p in plainly])),
        (run.good.reshape(many, -1), np.array([p["good"].ravel() for p in plainly])),
        (run.fairness_regret[:, 1:], np.array([p["regret"][1:] for p in plainly])),
        (run.reward, np.array([p["reward"] for p in plainly])),
    ]
    tests = sum(a.shape[1] for a, _ in pairs)
    limit = stats.norm.isf(LEVEL / (2 * tests))
    for ours, theirs in pairs:
        error = np.sqrt(ours.var(axis=0) / many + theirs.var(axis=0) / few)
        z = (ours.mean(axis=0) - theirs.mean(axis=0)) / error
        assert np.abs(z).max() < limit
        shifted = (ours.mean(axis=0) - 1.15 * theirs.mean(axis=0)) / error
        assert np.abs(shifted).max() > limit  # an error of 15 % would be found


def test_the_ball_holds_the_truth_as_often_as_proposition_5_3_says() -> None:
    # At every episode of every run, for a delta so large that the ball is as small as it can be.
    arms = mf.datasets.synthetic(n_arms=3, seed=3)
    delta, runs, episodes = 0.99, 200, 5
    missed, missed_by_less = np.zeros(episodes), np.zeros(episodes)
    for t in range(1, episodes + 1):
        run = mf.simulate(arms, mf.MeritFair(delta=delta), budget=1, episodes=t, horizon=20, runs=runs, seed=t)
        counts = mf.Counts(run.visits, run.good)
        ball = mf.Ball(counts, t, delta)
        missed[t - 1] = 1 - ball.contains(np.broadcast_to(arms.transitions, run.visits.shape)).all(axis=-1).mean()
        near = np.abs(arms.transitions - counts.frequency) <= ball.radius / 8
        missed_by_less[t - 1] = 1 - near.all(axis=(-3, -2, -1)).mean()
    allowed = delta / np.arange(1, episodes + 1) ** 4.0
    assert (missed <= allowed).all()
    assert (missed_by_less > allowed)[1:].all()  # a quarter of the radius would not do


def test_authors_synthetic_instances_give_the_published_numbers() -> None:
    # Table 1, whose columns are swapped: the published "G" of 38 is t0. Over 30 instances the standard error
    # of a mean is about 0.9 for t0.
    instances = mf.datasets.instances("synthetic", 5, 30, authors=True, budget=1)
    run = mf.simulate(instances, mf.MeritFair(), budget=1, episodes=300, seed=0)
    assert abs(run.first_valid_episode_authors.mean() - 38) < 4
    assert (run.first_valid_episode < run.first_valid_episode_authors).mean() > 0.8


def test_regret_and_g_on_the_authors_instances_are_those_of_the_plain_reference() -> None:
    # Synthetic, N = 5, K = 1, 300 episodes; the reference with other random numbers. One value against eight
    # is a t-test with 7 degrees of freedom: 8 standard deviations are a level of 1e-4.
    instances = mf.datasets.instances("synthetic", 5, 10, authors=True, budget=1)
    settings: dict[str, Any] = {"budget": 1, "episodes": 300, "horizon": 200}
    ours = [mf.simulate(instances, mf.MeritFair(), seed=s, **settings) for s in range(8)]
    regret = np.array([run.fairness_regret.sum(axis=1) for run in ours])  # (8, 10)
    gap = np.array([run.coverage_gap for run in ours])
    rng = np.random.default_rng(12)
    for i in (0, 6):
        plainly = plain.independent_run(instances[i].transitions, rng, c=3.0, delta=0.01, **settings)
        spread = regret[:, i].std(ddof=1)
        assert abs(sum(plainly["regret"]) - regret[:, i].mean()) < 8 * spread
        assert gap[:, i].min() - 3 <= plain.longest_gap(plainly["covered"]) <= gap[:, i].max() + 3
