"""Intervals of benefit and exposure.

Statistical tests have fixed seeds, and together reject a correct program with probability below about 1e-4: each
of the COMPARISONS is made at ALPHA / COMPARISONS. Each must find a variance that is half of the right one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

import meritfair as mf
from meritfair.core.arrays import AnyArray, BoolArray, FloatArray
from meritfair.model.posterior import Posterior, Prior
from meritfair.model.uncertainty import Assessment

ALPHA = 1e-4
COMPARISONS = 12
LEVEL = ALPHA / COMPARISONS
Z = stats.norm.ppf(0.975)
MERIT = mf.Exponential(3.0)


def assess(posterior: Any, merit: mf.Merit, budget: int = 1, design: str = "exact", **options: Any) -> Any:
    bounds = {name: options.pop(name) for name in ("floor", "cap") if name in options}
    return mf.assess(posterior, mf.Criterion(merit, design, **bounds), budget, **options)


KNOWN = np.array([[[0.2, 0.6], [0.5, 0.9]], [[0.3, 0.4], [0.7, 0.8]], [[0.1, 0.1], [0.9, 0.9]]])


def posterior_of(transitions: AnyArray, visits: int, seed: int = 1) -> Posterior:
    """Return what is known after `visits` outcomes of every chance."""
    seen = np.full(transitions.shape, visits)
    good = np.random.default_rng(seed).binomial(seen, transitions)
    return Prior.uniform().posterior(mf.Counts(seen, good))


def random_arms(n_arms: int, seed: int = 2) -> FloatArray:
    return np.random.default_rng(seed).uniform(0.1, 0.9, (n_arms, 2, 2))


def mixture() -> Posterior:
    """Return what is known of three arms that may belong to either of two very different classes."""
    alike = np.ones((2, 2))
    prior = Prior([0.4, 0.6], np.stack([4 * alike, [[2, 30], [9, 30]]]), np.stack([12 * alike, [[30, 4], [9, 4]]]))
    seen = mf.Counts(visits=np.ones((3, 2, 2)), good=[[[0, 0], [0, 0]], [[0, 1], [0, 1]], [[0, 1], [1, 0]]])
    return prior.posterior(seen)


def test_values_are_at_the_mean_of_the_chances() -> None:
    posterior = mixture()
    for method in ("draws", "delta"):
        found = assess(posterior, MERIT, 2, method=method, rng=1)
        np.testing.assert_array_equal(found.benefit, mf.benefit(posterior.mean))
        np.testing.assert_array_equal(found.merit, MERIT(found.benefit))
        np.testing.assert_array_equal(found.exposure, mf.fair_exposure(found.merit, 2, "exact"))
        assert found.level == 0.95
        with pytest.raises(ValueError, match="read-only"):
            found.benefit_low[0] = 0


def test_the_variance_of_a_benefit_has_parts_within_and_between_classes() -> None:
    posterior = mixture()
    assert 0.05 < posterior.weights[2, 0] < 0.95  # else there is only one class to speak of
    gradient = mf.model.benefit.benefit_gradient(posterior.mean).reshape(3, 4)
    draws = posterior.draw(np.random.default_rng(1), 100_000).reshape(-1, 3, 4)
    variance = [gradient[i] @ np.cov(draws[:, i].T) @ gradient[i] for i in range(3)]
    found = assess(posterior, mf.Exponential(0.1), method="delta", level=0.1)
    spread = (found.benefit_high - found.benefit_low) / (2 * stats.norm.ppf(0.55))
    # a sample variance of n draws is off by sqrt((kurtosis - 1) / n), here at most 1 %
    np.testing.assert_allclose(spread**2, variance, rtol=0.05)
    apart = np.sqrt((gradient.reshape(3, 2, 2) ** 2 * posterior.variance).sum(axis=(1, 2)))  # as if independent
    assert abs(apart[2] / spread[2] - 1) > 0.05


def by_moving(mu: FloatArray, spread: FloatArray, **rules: Any) -> FloatArray:
    """Return the standard deviation of exposures, moving each benefit up and down."""
    total = np.zeros(len(mu))
    for j in range(len(mu)):
        up, down = mu.copy(), mu.copy()
        up[j], down[j] = up[j] + 1e-4, down[j] - 1e-4
        slope = (mf.fair_exposure(MERIT(up), **rules) - mf.fair_exposure(MERIT(down), **rules)) / 2e-4
        total += (slope * spread[j]) ** 2
    return np.asarray(np.sqrt(total))


@pytest.mark.parametrize(
    ("rules", "at_bounds"),
    [
        ({"budget": 1, "design": "exact"}, 0),
        ({"budget": 1, "design": "sequential"}, 0),
        ({"budget": 3, "design": "sequential"}, 0),
        ({"budget": 3, "design": "exact"}, 0),
        ({"budget": 5, "design": "systematic"}, 2),
        ({"budget": 3, "design": "exact", "floor": 0.2}, 2),
        ({"budget": 3, "design": "exact", "floor": 0.15, "cap": 0.6}, 3),
        ({"budget": 3, "design": "systematic", "cap": [0.9, 0.2, 1, 1, 1, 0.5, 1, 1]}, 1),
        ({"budget": 8, "design": "exact"}, 8),
        ({"budget": 8, "design": "sequential"}, 8),
    ],
)
def test_delta_follows_the_slopes_of_the_exposures(rules: dict[str, Any], at_bounds: int) -> None:
    posterior = posterior_of(random_arms(8), 1000)
    found = assess(posterior, MERIT, method="delta", level=0.01, **rules)
    z = stats.norm.ppf(0.505)  # so narrow that no end is cut off
    spread = (found.benefit_high - found.benefit_low) / (2 * z)
    low, high = np.broadcast_to(rules.get("floor", 0.0), 8), np.broadcast_to(rules.get("cap", 1.0), 8)
    bound = (found.exposure == low) | (found.exposure == high)
    assert bound.sum() == at_bounds
    expected = by_moving(found.benefit, spread, **rules)
    got = (found.exposure_high - found.exposure_low) / (2 * z)
    np.testing.assert_allclose(got, expected, rtol=2e-4, atol=1e-9)
    assert (got[bound] == 0).all()


def agree(quick: Assessment, drawn: Assessment, draws: int) -> bool:
    """Say whether two ways to intervals agree as well as so many draws allow, once much was seen."""
    p = 0.025
    rough = np.sqrt(p * (1 - p) / draws) / stats.norm.pdf(stats.norm.ppf(p))  # of a quantile, in standard deviations
    for what in ("benefit", "exposure"):
        spread = (getattr(quick, what + "_high") - getattr(quick, what + "_low")) / (2 * Z)
        for end in ("_low", "_high"):
            off = np.abs(getattr(quick, what + end) - getattr(drawn, what + end)) / spread
            limit = (
                stats.norm.isf(LEVEL / (8 * len(off))) * rough + 0.05
            )  # what is not linear is of order 1 / sqrt(visits)
            if not (off < limit).all():
                return False
    return True


def with_variance(posterior: Posterior, factor: float) -> Posterior:
    """Return a posterior with the same means, and about `factor` times the variances."""
    return Posterior(posterior.weights, posterior.good / factor, posterior.bad / factor)


@pytest.mark.parametrize(
    "rules",
    [
        {"budget": 1},
        {"budget": 3, "cap": 0.9, "floor": 0.05},
        pytest.param({"budget": 3, "design": "sequential"}, marks=pytest.mark.slow),
    ],
)
def test_the_two_ways_agree_when_much_was_seen(rules: dict[str, Any]) -> None:
    posterior, draws = posterior_of(random_arms(8), 100_000), 2000
    drawn = assess(posterior, MERIT, draws=draws, rng=1, **rules)
    assert agree(assess(posterior, MERIT, method="delta", **rules), drawn, draws)
    half = assess(with_variance(posterior, 0.5), MERIT, method="delta", **rules)
    assert not agree(half, drawn, draws)


def test_the_two_ways_differ_where_little_was_seen() -> None:
    posterior = posterior_of(random_arms(8), 3)
    assert not agree(assess(posterior, MERIT, method="delta"), assess(posterior, MERIT, draws=2000, rng=1), 2000)


def holds(low: FloatArray, high: FloatArray, truth: AnyArray) -> BoolArray:
    return np.asarray((low <= truth) & (truth <= high))


def shrunk(low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return intervals as they were if the variance were half of what it is."""
    middle, half = (low + high) / 2, (high - low) / 2
    return middle - half / np.sqrt(2), middle + half / np.sqrt(2)


def is_share(inside: BoolArray, expected: float, slack: float = 0.0) -> bool:
    """Say whether so many inside are likely, if each is with the expected probability, give or take the slack."""
    n, k = len(inside), int(inside.sum())
    too_few = stats.binom.cdf(k, n, expected - slack)
    too_many = stats.binom.sf(k - 1, n, min(1.0, expected + slack))
    return bool(min(too_few, too_many) > LEVEL / 2)


@pytest.mark.slow
def test_intervals_hold_what_the_prior_brings_forth() -> None:
    # If arms are drawn from the prior, the truth is one more draw from the posterior, however little was seen: its rank
    # among M draws is uniform on M + 1 places, and (M - 1) 0.95 of the gaps between them are inside.
    rng, n_arms, draws = np.random.default_rng(3), 3000, 400
    truth = rng.random((n_arms, 2, 2))
    seen = rng.integers(0, 12, truth.shape)
    found = assess(Prior.uniform().posterior(mf.Counts(seen, rng.binomial(seen, truth))), MERIT, draws=draws, rng=rng)
    expected = 0.95 * (draws - 1) / (draws + 1)
    ends = (found.benefit_low, found.benefit_high)
    assert is_share(holds(*ends, mf.benefit(truth)), expected)
    assert not is_share(holds(*shrunk(*ends), mf.benefit(truth)), expected)


@pytest.mark.slow
def test_intervals_of_exposure_hold_what_the_prior_brings_forth() -> None:
    rng, draws, repeats = np.random.default_rng(4), 150, 1000
    low, high, due = np.empty((3, repeats))
    for r in range(repeats):
        truth = rng.random((4, 2, 2))
        seen = rng.integers(0, 40, truth.shape)
        posterior = Prior.uniform().posterior(mf.Counts(seen, rng.binomial(seen, truth)))
        found = assess(posterior, MERIT, 1, "sequential", draws=draws, rng=rng)
        due[r] = mf.merit_share(MERIT(mf.benefit(truth)))[0]
        low[r], high[r] = found.exposure_low[0], found.exposure_high[0]
    expected = 0.95 * (draws - 1) / (draws + 1)
    assert is_share(holds(low, high, due), expected)
    assert not is_share(holds(*shrunk(low, high), due), expected)


def seen_of(arms: FloatArray, rounds: int, rng: np.random.Generator) -> mf.Counts:
    """Return the counts of chains that are pulled with probability 1/2 in each round."""
    n_arms = len(arms)
    who, state = np.arange(n_arms), rng.integers(0, 2, n_arms)
    visits, good = np.zeros((2, n_arms, 2, 2), dtype=np.int64)
    for _ in range(rounds):
        action = rng.integers(0, 2, n_arms)
        following = (rng.random(n_arms) < arms[who, state, action]).astype(np.int64)
        visits[who, state, action] += 1
        good[who, state, action] += following
        state = following
    return mf.Counts(visits, good)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["draws", "delta"])
@pytest.mark.parametrize("arm", range(len(KNOWN)))
def test_intervals_hold_the_benefit_of_known_arms(arm: int, method: Any) -> None:
    # For a fixed arm the prior is not right, but after n rounds that matters to 1/n only, or 1/sqrt(n) where a
    # chance is near 0 or 1: the slack.
    rng, copies = np.random.default_rng(5 + arm), 2000
    arms = np.broadcast_to(KNOWN[arm], (copies, 2, 2))
    posterior = Prior.uniform().posterior(seen_of(arms, 1500, rng))
    found = assess(posterior, MERIT, method=method, draws=400, rng=rng)
    truth = np.full(copies, mf.benefit(KNOWN[arm]))
    ends = (found.benefit_low, found.benefit_high)
    assert is_share(holds(*ends, truth), 0.95, slack=0.015)
    assert not is_share(holds(*shrunk(*ends), truth), 0.95, slack=0.015)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["draws", "delta"])
def test_width_goes_with_the_root_of_what_was_seen(method: Any) -> None:
    narrow, wide = (
        assess(posterior_of(random_arms(6), visits), MERIT, method=method, draws=4000, rng=1)
        for visits in (40_000, 400)
    )
    for what in ("benefit", "exposure"):
        ratio = [(getattr(x, what + "_high") - getattr(x, what + "_low")) for x in (wide, narrow)]
        np.testing.assert_allclose(ratio[0] / ratio[1], 10.0, rtol=0.15)


def test_an_arm_never_pulled_is_hardly_known() -> None:
    much = [[500, 500], [500, 500]]
    seen = np.array([much, [[500, 0], [500, 0]], [[0, 0], [0, 0]]])
    found = assess(Prior.uniform().posterior(mf.Counts(seen, seen // 2)), MERIT, rng=1)
    known, never_pulled, never_seen = found.benefit_high - found.benefit_low
    assert known < 0.2
    # Always pulled it would be good U / (U + V) of the time, with U and V uniform: below x with probability
    # x / (2 (1 - x)), which is 0.025 for x = 0.05 / 1.05. The other end mirrors it.
    assert never_pulled == pytest.approx(1 - 2 * 0.05 / 1.05, abs=0.06)
    assert never_seen > 1.2


def test_an_exposure_may_lie_outside_its_interval() -> None:
    seen = np.zeros((60, 2, 2), dtype=np.int64)
    seen[0] = 5000
    found = assess(Prior.uniform().posterior(mf.Counts(seen, seen // 2)), MERIT, rng=1)
    assert found.exposure[0] > found.exposure_high[0]


def test_arms_at_a_bound_and_a_single_arm() -> None:
    posterior = posterior_of(random_arms(4), 50)
    for method in ("draws", "delta"):
        options: dict[str, Any] = {"method": method, "rng": 1}
        found = assess(posterior, MERIT, 4, **options)
        assert (found.exposure_low == 1).all()
        assert (found.exposure_high == 1).all()
        found = assess(posterior, MERIT, 2, floor=0.2, cap=[0.3, 1, 1, 1], **options)
        assert (found.exposure_low >= 0.2).all()
        assert found.exposure_high[0] <= 0.3
        alone = assess(posterior_of(random_arms(1), 5), MERIT, **options)
        assert alone.exposure_low == alone.exposure == alone.exposure_high == 1
        assert -1 <= alone.benefit_low[0] < alone.benefit_high[0] <= 1


def test_the_same_seed_gives_the_same_intervals() -> None:
    posterior = posterior_of(random_arms(5), 20)
    first, again = assess(posterior, MERIT, rng=7), assess(posterior, MERIT, rng=7)
    np.testing.assert_array_equal(first.exposure_low, again.exposure_low)
    for other in (assess(posterior, MERIT, rng=8), assess(posterior, MERIT)):
        assert not np.array_equal(first.exposure_low, other.exposure_low)
    stream = np.random.default_rng(7)
    assert not np.array_equal(
        assess(posterior, MERIT, rng=stream).benefit_low, assess(posterior, MERIT, rng=stream).benefit_low
    )


def test_relabelling_arms_relabels_the_answer() -> None:
    posterior = posterior_of(random_arms(6), 20)
    order = np.array([3, 1, 5, 0, 2, 4])
    other = Posterior(posterior.weights[order], posterior.good[order], posterior.bad[order])
    for design in ("exact", "sequential"):
        a, b = (assess(x, MERIT, 2, design, method="delta") for x in (posterior, other))
        np.testing.assert_allclose(a.exposure_high[order], b.exposure_high, rtol=1e-4)


def test_chances_next_to_0_and_1_are_no_trouble() -> None:
    prior = Prior([1.0], np.full((1, 2, 2), 1e-3), np.full((1, 2, 2), 1e-3))
    found = assess(prior.posterior(mf.Counts.none(3)), MERIT, rng=1)
    assert (found.benefit_low < -0.9).all()
    assert (found.benefit_high > 0.9).all()


@pytest.mark.parametrize(
    ("rules", "total"),
    [
        ({}, 1000),
        ({"design": "sequential"}, 1000),
        ({"design": "sequential", "budget": 2}, 250),
        ({"design": "sequential", "budget": 4}, 1000),
        ({"draws": 17}, 17),
        ({"design": "sequential", "budget": 2, "method": "delta"}, 4),
    ],
)
def test_progress_is_told(rules: dict[str, Any], total: int) -> None:
    told: list[tuple[int, int]] = []
    assess(posterior_of(random_arms(4), 9), MERIT, rng=1, progress=lambda *x: told.append(x), **rules)
    assert told[-1] == (total, total)
    assert told == sorted(told)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"level": 1.0}, "level must lie strictly between 0 and 1, got 1.0"),
        ({"level": 95}, "level must lie strictly between 0 and 1, got 95"),
        ({"method": "exact"}, "method must be one of draws, delta, got 'exact'"),
        ({"draws": 0}, "draws must be at least 1, got 0"),
        ({"rng": -1}, "seed must be at least 0, got -1"),
        ({"budget": 5}, "budget must be between 1 and the 4 arms, got 5"),
        ({"design": "exakt"}, "did you mean 'exact'?"),
        ({"design": "sequential", "floor": 0.1}, "floor and cap need the design 'exact' or 'systematic'"),
        ({"floor": 0.3}, "floors must add up to at most the budget of 1, got 1.2"),
        ({"cap": 0.2}, "caps must add up to at least the budget of 1, got 0.8"),
    ],
)
def test_mistakes_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(mf.InputError) as caught:
        assess(posterior_of(random_arms(4), 9), MERIT, **options)
    assert message in str(caught.value)


def test_many_runs_at_once_are_refused() -> None:
    seen = np.ones((2, 3, 2, 2))
    with pytest.raises(mf.InputError, match=r"without leading axes, got shape \(2, 3, 1\)"):
        assess(Prior.uniform().posterior(mf.Counts(seen, seen)), MERIT)
