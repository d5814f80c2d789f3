"""The pooled estimate does what it is for: its laws, and how much fairer a short programme is with it.

Seeds are fixed. All tests of this file together reject a correct program with probability below about 1e-4: each of the
COMPARISONS is made at ALPHA / COMPARISONS. Planted errors must be found.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

import meritfair as mf
from meritfair.core.arrays import FloatArray
from meritfair.model.posterior import Posterior, Prior, fit_prior

pytestmark = pytest.mark.slow

ALPHA = 1e-4
COMPARISONS = 100
LEVEL = ALPHA / COMPARISONS

# Classes that overlap, so that counts leave it open to which an arm belongs.
PRIOR = Prior(
    [0.35, 0.65],
    [[[2.0, 4.0], [3.0, 5.0]], [[6.0, 8.0], [0.8, 1.5]]],
    [[[6.0, 3.0], [2.0, 4.0]], [[2.0, 1.0], [0.7, 1.0]]],
)


def arms_of(prior: Prior, n_arms: int, visits: float, rng: np.random.Generator) -> tuple[FloatArray, mf.Counts]:
    """Return chances drawn from a prior, and counts of visits to them."""
    P = prior.posterior(mf.Counts.none(n_arms)).draw(rng)[0]
    seen = rng.poisson(visits, P.shape)
    return P, mf.Counts(seen, rng.binomial(seen, P))


def without_counts(posterior: Posterior, prior: Prior) -> Posterior:
    """Return a posterior with an error: the counts do not tell of which class an arm is."""
    return Posterior(np.broadcast_to(prior.weights, posterior.weights.shape), posterior.good, posterior.bad)


# ---- laws


def test_draws_have_the_mean_and_variance_of_the_posterior() -> None:
    rng, size = np.random.default_rng(1), 40_000
    _, counts = arms_of(PRIOR, 6, 4, rng)
    posterior = PRIOR.posterior(counts)
    limit = stats.norm.isf(LEVEL / (2 * posterior.mean.size))

    def furthest(draws: FloatArray, expected: Posterior) -> tuple[float, float]:
        """Return the largest z-values of mean and variance."""
        mean, variance = draws.mean(axis=0), draws.var(axis=0)
        of_variance = np.sqrt((((draws - mean) ** 2).var(axis=0)) / size)
        z = (mean - expected.mean) / np.sqrt(expected.variance / size), (variance - expected.variance) / of_variance
        return float(np.abs(z[0]).max()), float(np.abs(z[1]).max())

    draws = posterior.draw(rng, size)
    assert max(furthest(draws, posterior)) < limit
    for planted in (without_counts(posterior, PRIOR), Prior.uniform().posterior(counts)):
        assert min(furthest(draws, planted)) > limit
        assert min(furthest(planted.draw(rng, size), posterior)) > limit


def test_draws_are_of_one_class_at_a_time() -> None:
    # With two far classes and no counts, an arm's chances are all low or all high: means and variances cannot tell.
    far = Prior([0.5, 0.5], np.stack([np.full((2, 2), 2.0), np.full((2, 2), 98.0)]), [[[98, 98]] * 2, [[2, 2]] * 2])
    draws = far.posterior(mf.Counts.none(1)).draw(np.random.default_rng(2), 4_000)[:, 0].reshape(-1, 4) > 0.5
    assert set(draws.sum(axis=1).tolist()) == {0, 4}
    assert stats.binomtest(int(draws[:, 0].sum()), 4_000, 0.5).pvalue > LEVEL


def test_the_posterior_is_calibrated() -> None:
    # Where a chance was drawn from the prior, its rank among draws from its posterior is uniform: also among those arms
    # whose counts speak for one class, which a posterior that is deaf to that cannot have.
    rng, n_arms, ranks = np.random.default_rng(3), 4_000, 19
    P, counts = arms_of(PRIOR, n_arms, 3, rng)
    of_second = PRIOR.posterior(counts).weights[:, 1] > 0.65

    def p_value(posterior: Posterior) -> float:
        """Return the smallest p-value of two sets of arms and four chances."""
        below = (posterior.draw(rng, ranks) < P).sum(axis=0).reshape(n_arms, 4)
        ranked = [below[group, cell] for group in (of_second, ~of_second) for cell in range(4)]
        return min(float(stats.chisquare(np.bincount(each, minlength=ranks + 1)).pvalue) for each in ranked)

    assert p_value(PRIOR.posterior(counts)) > LEVEL / 8
    assert p_value(fit_prior(counts).posterior(counts)) > LEVEL / 8  # about the same prior, from the counts
    assert p_value(without_counts(PRIOR.posterior(counts), PRIOR)) < LEVEL / 8
    assert p_value(Prior.uniform().posterior(counts)) < LEVEL / 8


# ---- what is gained


def test_as_good_as_knowing_the_prior_and_never_worse_than_not_pooling() -> None:
    rng = np.random.default_rng(4)

    def squares(prior: Prior, sets: int = 30) -> FloatArray:
        """Return the squared errors by set of arms: of the estimates mean and pooled, and if the prior is known."""
        errors = []
        for _ in range(sets):
            P, counts = arms_of(prior, 150, 5, rng)
            points = (counts.mean, fit_prior(counts).posterior(counts).mean, prior.posterior(counts).mean)
            errors.append([float(((point - P) ** 2).mean()) for point in points])
        return np.array(errors)

    mean, pooled, known = squares(PRIOR).T
    assert pooled.mean() < 0.87 * mean.mean()  # 0.82
    assert pooled.mean() < 1.1 * known.mean()  # 1.05
    mean, pooled, _ = squares(Prior.uniform()).T
    np.testing.assert_allclose(pooled, mean, rtol=0.02)
    assert np.mean(pooled != mean) < 0.1  # hardly ever is anything fitted at all


def regret(name: str, estimate: str, **settings: Any) -> FloatArray:
    """Return the fairness regret of each run of a short programme: fifty rounds, a fifth of the arms in each."""
    arms = mf.datasets.instances(name, 100, 12, authors=True, budget=20)
    policy = mf.MeritFair(merit=mf.Exponential(3.0), estimate=estimate, **settings)
    run = mf.simulate(arms, policy, budget=20, episodes=50, horizon=1, seed=5, carry_states=True)
    return np.asarray(run.fairness_regret.sum(axis=1))


def test_a_short_programme_is_much_fairer_where_arms_are_of_kinds() -> None:
    mean, pooled = regret("cpap", "mean"), regret("cpap", "pooled")
    assert pooled.mean() < 0.6 * mean.mean()  # 0.49
    assert (pooled < mean).all()


def test_a_short_programme_is_as_fair_where_they_are_not() -> None:
    mean, pooled = regret("synthetic", "mean"), regret("synthetic", "pooled")
    assert pooled.mean() < 1.05 * mean.mean()  # 1.00
