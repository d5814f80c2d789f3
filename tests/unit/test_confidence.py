from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import optimize, special, stats

import meritfair as mf
from meritfair.core.arrays import AnyArray, FloatArray
from meritfair.model.confidence import BALLS
from reference import plain

RNG = np.random.default_rng(3)
every_ball = pytest.mark.parametrize("kind", BALLS)
tighter_balls = pytest.mark.parametrize("kind", BALLS[1:])


def some_counts(n_arms: int = 6) -> mf.Counts:
    visits = RNG.integers(0, 300, (n_arms, 2, 2))
    return mf.Counts(visits, RNG.binomial(visits, RNG.random((n_arms, 2, 2))))


def test_radius_is_equation_6() -> None:
    for visits, t, n_arms, delta in [(0, 1, 5, 0.01), (7, 3, 10, 0.5), (10**6, 10_000, 100, 0.001)]:
        expected = plain.radius(visits, t, n_arms, delta)
        assert float(mf.confidence_radius(visits, t, n_arms, delta)) == pytest.approx(expected, rel=1e-14)


@every_ball
def test_before_the_first_visit_the_ball_is_everything(kind: str) -> None:
    for delta in (1e-9, 0.01, 0.999):
        ball = mf.Ball(mf.Counts.none(1), 1, delta, kind)
        np.testing.assert_array_equal(ball.upper, np.ones((1, 2, 2)))
        np.testing.assert_array_equal(ball.lower, np.zeros((1, 2, 2)))
        np.testing.assert_array_equal(ball.eta, np.ones((1, 2)))
        np.testing.assert_array_equal(ball.omega, -np.ones((1, 2)))
        assert ball.contains(RNG.random((1, 2, 2))).all()


def test_corners_eta_and_omega_as_the_paper_defines_them() -> None:
    counts = some_counts()
    ball = mf.Ball(counts, 12, 0.05)
    for i in range(counts.n_arms):
        corner: dict[tuple[str, int, int], float] = {}
        for s in (0, 1):
            for a in (0, 1):
                seen = int(counts.visits[i, s, a])
                frequency = counts.good[i, s, a] / max(1, seen)
                half = plain.radius(seen, 12, counts.n_arms, 0.05) / 2
                corner["+", s, a] = min(1.0, frequency + half)
                corner["-", s, a] = max(0.0, frequency - half)
                assert ball.upper[i, s, a] == pytest.approx(corner["+", s, a], rel=1e-12)
                assert ball.lower[i, s, a] == pytest.approx(corner["-", s, a], rel=1e-12, abs=1e-15)
        eta = [corner["+", 1, 1] - corner["-", 0, 1], corner["+", 1, 0] - corner["-", 0, 0]]
        omega = [corner["-", 1, 1] - corner["+", 0, 1], corner["-", 1, 0] - corner["+", 0, 0]]
        np.testing.assert_allclose(ball.eta[i], eta, rtol=1e-12)
        np.testing.assert_allclose(ball.omega[i], omega, rtol=1e-12)


def test_membership_is_by_l1_distance_for_each_arm() -> None:
    counts = mf.Counts(np.full((2, 2, 2), 400), np.full((2, 2, 2), 200))
    ball = mf.Ball(counts, 5, 0.1)
    half = float(ball.radius[0, 0, 0]) / 2
    P = np.full((2, 2, 2), 0.5)
    P[1, 0, 1] = 0.5 + half * 1.001
    assert ball.contains(P).tolist() == [True, False]
    P[1, 0, 1] = 0.5 + half * 0.999
    assert ball.contains(P).tolist() == [True, True]


@every_ball
def test_every_estimate_is_in_the_ball(kind: str) -> None:
    ball = mf.Ball(some_counts(), 3, 0.9, kind)
    for estimate in ("optimistic", "mean", "pessimistic", "thompson"):
        assert ball.contains(ball.estimate(estimate, [np.random.default_rng(1)])).all()
    np.testing.assert_array_equal(ball.estimate("optimistic"), ball.upper)
    np.testing.assert_array_equal(ball.estimate("pessimistic"), ball.lower)


def test_the_mean_is_that_of_the_posterior_but_for_the_ball() -> None:
    counts = some_counts()
    posterior = (counts.good + 1) / (counts.visits + 2)
    np.testing.assert_array_equal(mf.Ball(counts, 3, 0.9).estimate("mean"), posterior)
    # After a single good outcome the mean is 2/3. A ball that starts above 2/3 takes its own end instead.
    once = mf.Counts(np.full((1, 2, 2), 40), np.full((1, 2, 2), 40))
    ball = mf.Ball(once, 1, 0.99, "kl")
    assert (ball.lower < 41 / 42).all()
    np.testing.assert_array_equal(ball.estimate("mean"), np.full((1, 2, 2), 41 / 42))
    narrow = mf.Ball(mf.Counts(np.full((1, 2, 2), 10**9), np.zeros((1, 2, 2), int)), 1, 0.99, "paper")
    np.testing.assert_allclose(narrow.estimate("mean"), 1e-9, rtol=1e-6)


def test_radius_covers_each_row_often_enough() -> None:
    # Exactly, by the binomial law: a row may be missed with probability delta / (4 N t^4) at most, so that
    # all 4 N rows together keep Proposition 5.3. Half the radius would not do.
    delta, t, n_arms = 0.9, 1, 1
    allowed = delta / (4 * n_arms * t**4)
    worst = {1.0: 0.0, 0.25: 0.0}
    for visits in (1, 2, 5, 10, 50, 200, 1000):
        outcomes = np.arange(visits + 1)
        for p in np.linspace(0.01, 0.99, 50):
            law = stats.binom.pmf(outcomes, visits, p)
            for factor in worst:
                half = factor * float(mf.confidence_radius(visits, t, n_arms, delta)) / 2
                worst[factor] = max(worst[factor], float(law[np.abs(outcomes / visits - p) > half].sum()))
    assert worst[1.0] <= allowed
    assert worst[0.25] > allowed


@pytest.mark.parametrize("delta", [0, 1, -0.1, 1.5, math.nan, "x", True])
def test_delta_outside_0_1_is_refused(delta: Any) -> None:
    with pytest.raises(mf.InputError, match="delta must"):
        mf.confidence_radius(1, 1, 1, delta)
    with pytest.raises(mf.InputError, match="delta must"):
        mf.MeritFair(delta=delta)
    with pytest.raises(mf.InputError, match="delta must"):
        mf.Optimal(delta=delta)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((-1, 1, 1, 0.1), "visits must not be negative, got -1"),
        ((math.nan, 1, 1, 0.1), "visits must not be negative, got nan"),
        ((1, 0, 1, 0.1), "episode must be at least 1, got 0"),
        ((1, 1, 0, 0.1), "n_arms must be at least 1, got 0"),
    ],
)
def test_bad_arguments_are_refused(arguments: Any, message: str) -> None:
    with pytest.raises(mf.InputError, match=message):
        mf.confidence_radius(*arguments)


def test_unknown_estimate_and_wrong_shape_are_refused() -> None:
    ball = mf.Ball(some_counts(), 3, 0.9)
    with pytest.raises(mf.InputError, match=r"estimate .* optimistic, pessimistic, mean, .*, got 'median'"):
        ball.estimate("median")
    with pytest.raises(mf.InputError, match=r"transitions must have shape \(6, 2, 2\), got \(5, 2, 2\)"):
        ball.contains(np.zeros((5, 2, 2)))


@pytest.mark.parametrize(
    ("visits", "good", "message"),
    [
        ([[[1, 1], [1, 1]]], [[[2, 1], [1, 1]]], r"good must be at most visits, got 2 of 1 at \(0, 0, 0\)"),
        ([[[-1, 1], [1, 1]]], [[[0, 1], [1, 1]]], "visits must not be negative, got -1"),
        ([[[1.5, 1], [1, 1]]], [[[1.7, 1], [1, 1]]], r"good must be at most visits, got 1\.7 of 1\.5"),
        ([[[math.nan, 1], [1, 1]]], [[[0, 1], [1, 1]]], "visits must be finite, got nan"),
        ([[1, 1], [1, 1]], [[0, 1], [1, 1]], r"shape \(\.\.\., N, 2, 2\)"),
        (np.zeros((2, 2, 2)), np.zeros((3, 2, 2)), "one shape"),
    ],
)
def test_impossible_counts_are_refused(visits: Any, good: Any, message: str) -> None:
    with pytest.raises(mf.InputError, match=message):
        mf.Counts(visits, good)


def test_counts_add_up() -> None:
    first, second = some_counts(), some_counts()
    total = first + second
    np.testing.assert_array_equal(total.visits, first.visits + second.visits)
    np.testing.assert_array_equal(total.good, first.good + second.good)


# --- Tighter balls.


def ball_of(visits: AnyArray, good: AnyArray, delta: float, kind: str) -> tuple[FloatArray, FloatArray]:
    """Return both ends for single chances, each as if there were one arm: alpha is delta / 4."""
    pad = (0, -len(visits) % 4)
    counts = mf.Counts(*(np.pad(x, pad).reshape(-1, 1, 2, 2) for x in (visits, good)))
    ball = mf.Ball(counts, 1, delta, kind)
    return ball.lower.ravel()[: len(visits)], ball.upper.ravel()[: len(visits)]


def test_the_bernstein_ball_is_its_formula() -> None:
    counts, delta = some_counts(), 0.05
    ball = mf.Ball(counts, 12, delta, "bernstein")
    alpha = delta / (4 * counts.n_arms)
    for at in np.ndindex(counts.visits.shape):
        n = int(counts.visits[at])
        if n > 0:
            mean = float(counts.good[at]) / n
            x = math.log(3 * n * (n + 1) / alpha)
            half = math.sqrt(2 * mean * (1 - mean) * x / n) + 3 * x / n
            assert ball.radius[at] == pytest.approx(2 * half, rel=1e-12)
            assert ball.upper[at] == pytest.approx(min(1.0, mean + half), rel=1e-12)
            assert ball.lower[at] == pytest.approx(max(0.0, mean - half), rel=1e-12, abs=1e-15)


def kl_by_root_finding(n: int, good: int, alpha: float) -> tuple[float, float]:
    """Return where the martingale reaches 1 / alpha, on either side of the frequency, by Brent's method."""

    def lower(good: int) -> float:
        mixture = special.betaln(good + 0.5, n - good + 0.5) - special.betaln(0.5, 0.5)

        def above(p: float) -> float:
            return float(mixture - special.xlogy(good, p) - special.xlog1py(n - good, -p) + math.log(alpha))

        return float(optimize.brentq(above, 1e-300, good / n, xtol=1e-15, rtol=1e-14)) if good > 0 else 0.0

    return lower(good), 1 - lower(n - good)  # good and bad change places


def test_the_kl_ball_ends_where_the_martingale_reaches_its_level() -> None:
    pairs = [(n, good) for n in (1, 2, 3, 10, 50, 400, 10**4, 10**6) for good in {0, 1, 2, n // 7, n // 2, n - 1, n}]
    pairs = [(n, good) for n, good in pairs if 0 <= good <= n]
    visits, good = np.array(pairs).T
    for delta in (0.9, 0.01, 1e-9):
        low, high = ball_of(visits, good, delta, "kl")
        expected = np.array([kl_by_root_finding(n, k, delta / 4) for n, k in pairs])
        np.testing.assert_allclose(low, expected[:, 0], rtol=0, atol=1e-10)
        np.testing.assert_allclose(high, expected[:, 1], rtol=0, atol=1e-10)


def test_the_kl_ball_shares_its_level_among_arms() -> None:
    counts = mf.Counts(np.full((7, 2, 2), 100), np.full((7, 2, 2), 30))
    ball = mf.Ball(counts, 1, 0.05, "kl")
    low, high = kl_by_root_finding(100, 30, 0.05 / (4 * 7))
    np.testing.assert_allclose(ball.lower, low, atol=1e-12)
    np.testing.assert_allclose(ball.upper, high, atol=1e-12)
    np.testing.assert_allclose(ball.radius, high - low, atol=1e-12)
    runs = mf.Counts(*(np.stack([x, x]) for x in (counts.visits, counts.good)))  # leading axes are not arms
    np.testing.assert_array_equal(mf.Ball(runs, 1, 0.05, "kl").lower[1], ball.lower)


@tighter_balls
def test_tighter_balls_hold_the_frequency_and_are_nested_in_delta(kind: str) -> None:
    rng = np.random.default_rng(4)
    visits = np.concatenate([np.arange(1, 40), rng.integers(1, 10**6, 500)])
    good = np.concatenate([rng.binomial(visits, rng.random(len(visits))), np.zeros(20, int), np.arange(1, 21)])
    visits = np.concatenate([visits, np.arange(1, 21), np.arange(1, 21)])
    wider_low, wider_high = np.zeros(len(visits)), np.ones(len(visits))
    for delta in (1e-12, 1e-3, 0.1, 0.999):
        low, high = ball_of(visits, good, delta, kind)
        assert (low >= wider_low).all()
        assert (high <= wider_high).all()
        assert (low <= good / visits + 1e-15).all()
        assert (high >= good / visits - 1e-15).all()
        assert (low < high).all()
        wider_low, wider_high = low, high


def test_tighter_balls_do_not_depend_on_the_episode_and_the_kl_ball_is_narrower_than_the_papers() -> None:
    rng = np.random.default_rng(5)
    visits = rng.integers(51, 10**5, (20, 2, 2))
    counts = mf.Counts(visits, rng.binomial(visits, rng.random(visits.shape)))
    episode = int(visits.max()) // 200 + 1  # of 200 steps each, there were no fewer
    paper, kl = (mf.Ball(counts, episode, 0.01, kind) for kind in ("paper", "kl"))
    assert (kl.upper - kl.lower < paper.upper - paper.lower).all()
    assert (kl.radius < 0.7 * paper.radius).mean() > 0.5
    for kind in BALLS[1:]:
        later = mf.Ball(counts, 10 * episode, 0.01, kind)
        np.testing.assert_array_equal(later.upper, mf.Ball(counts, episode, 0.01, kind).upper)


def ever_missed(kind: str, p: float, delta: float, factors: tuple[float, ...]) -> tuple[list[int], int]:
    """Return in how many of that many sequences of outcomes the ball misses the truth at any of 2000 visits.

    A factor below 1 draws both ends nearer to the frequency.
    """
    sequences, length = 600, 2000
    good = (np.random.default_rng(6).random((sequences, length)) < p).cumsum(axis=1)
    visits = np.broadcast_to(np.arange(1, length + 1), good.shape)
    codes, where = np.unique(visits * (length + 1) + good, return_inverse=True)
    n, k = codes // (length + 1), codes % (length + 1)
    low, high = ball_of(n, k, delta, kind)
    outside = [(p < k / n - factor * (k / n - low)) | (p > k / n + factor * (high - k / n)) for factor in factors]
    return [int(each[where.reshape(good.shape)].any(axis=1).sum()) for each in outside], sequences


@pytest.mark.slow
@pytest.mark.parametrize("p", [0.01, 0.3, 0.5, 0.99])
@tighter_balls
def test_tighter_balls_hold_the_truth_at_all_visits_at_once(kind: str, p: float) -> None:
    # With probability 1 - alpha, for an alpha of 0.8 / 4, as large as it gets. All 8 together at a level of 1e-4.
    (missed, missed_by_less), sequences = ever_missed(kind, p, 0.8, factors=(1.0, 0.25))
    assert stats.binom.sf(missed - 1, sequences, 0.2) > 1e-4 / 8
    assert stats.binom.sf(missed_by_less - 1, sequences, 0.2) < 1e-4 / 8  # a quarter of the radius would not do
    if kind == "kl":
        assert missed > 0.1 * 0.2 * sequences  # nor is it wider than it has to be


@every_ball
def test_membership_is_between_both_ends(kind: str) -> None:
    counts = mf.Counts(np.full((2, 2, 2), 400), np.full((2, 2, 2), 100))
    ball = mf.Ball(counts, 5, 0.1, kind)
    P = np.full((2, 2, 2), 0.25)
    for end, outwards in ((ball.upper, 1e-6), (ball.lower, -1e-6)):
        P[1, 0, 1] = end[1, 0, 1] + outwards
        assert ball.contains(P).tolist() == [True, False]
        P[1, 0, 1] = end[1, 0, 1] - outwards
        assert ball.contains(P).tolist() == [True, True]
    assert ball.contains(np.stack([P, P])).shape == (2, 2)


# --- Draws from the posterior.


def test_thompson_draws_from_the_posterior_where_the_ball_does_not_bind() -> None:
    visits, good = np.array([0, 10, 30, 100]), np.array([0, 3, 15, 99])
    counts, runs = mf.Counts(visits.reshape(1, 2, 2), good.reshape(1, 2, 2)), 4000
    many = mf.Counts(*(np.broadcast_to(x, (runs, 1, 2, 2)) for x in (counts.visits, counts.good)))
    luck = [np.random.default_rng(seed) for seed in range(runs)]
    drawn = mf.Ball(many, 1, 1e-9).estimate("thompson", luck).reshape(runs, 4)
    for place, (n, k) in enumerate(zip(visits, good, strict=True)):
        law = stats.beta(k + 1, n - k + 1)
        assert stats.kstest(drawn[:, place], law.cdf).pvalue > 1e-4 / 12
        assert abs(drawn[:, place].mean() - law.mean()) < stats.norm.isf(1e-4 / 24) * law.std() / math.sqrt(runs)
        spread = math.sqrt((float(law.stats("k")) + 2) / runs)  # of the ratio of variances
        assert abs(drawn[:, place].var() / law.var() - 1) < stats.norm.isf(1e-4 / 24) * spread
    planted = stats.beta(good[1] + 1, visits[1] - good[1] + 2)  # a bad outcome more
    assert stats.kstest(drawn[:, 1], planted.cdf).pvalue < 1e-4 / 12


def test_thompson_is_clipped_into_the_ball_and_fixed_by_its_generators() -> None:
    visits = np.full((3, 50, 2, 2), 2000)
    counts = mf.Counts(visits, visits // 3)
    ball = mf.Ball(counts, 1, 0.99, "kl")
    first, again = (ball.estimate("thompson", [np.random.default_rng(s) for s in (1, 2, 3)]) for _ in range(2))
    np.testing.assert_array_equal(first, again)
    assert (first[0] != first[1]).any()
    assert ((first >= ball.lower) & (first <= ball.upper)).all()
    narrow = mf.Ball(mf.Counts(visits[:, :1], visits[:, :1] // 3), 1, 0.99, "kl")
    drawn = np.concatenate(
        [
            narrow.estimate("thompson", [np.random.default_rng(s) for s in (k, k + 1, k + 2)]).ravel()
            for k in range(4, 900, 3)
        ]
    )
    ends = (drawn == narrow.lower.flat[0]) | (drawn == narrow.upper.flat[0])
    law = stats.beta(667, 1335)
    beyond = law.cdf(narrow.lower.flat[0]) + law.sf(narrow.upper.flat[0])
    assert ends.mean() == pytest.approx(beyond, abs=5 * math.sqrt(beyond / len(drawn)) + 1e-12)


@pytest.mark.parametrize("rngs", [(), [np.random.default_rng(1)] * 2])
def test_thompson_needs_a_generator_for_each_run(rngs: Any) -> None:
    with pytest.raises(mf.InputError, match="the estimate 'thompson' needs a generator for each run"):
        mf.Ball(some_counts(), 3, 0.9).estimate("thompson", rngs)


def test_the_old_name_of_the_generators_works() -> None:
    ball = mf.Ball(some_counts(), 3, 0.9)
    with pytest.warns(DeprecationWarning, match="luck of Ball.estimate is now rngs"):
        old = ball.estimate("thompson", luck=[np.random.default_rng(1)])
    np.testing.assert_array_equal(old, ball.estimate("thompson", rngs=[np.random.default_rng(1)]))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"kind": "kel"}, "ball must be one of paper, bernstein, kl, got 'kel'"),
        ({"kind": None}, "ball must be one of paper, bernstein, kl, got None"),
        ({"delta": 0.0}, "delta must lie strictly between 0 and 1"),
        ({"delta": 1.0, "kind": "kl"}, "delta must lie strictly between 0 and 1"),
    ],
)
def test_balls_that_there_are_not_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(mf.InputError, match=message):
        mf.Ball(some_counts(), 3, **arguments)
