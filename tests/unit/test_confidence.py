from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

import meritfair as mf
from reference import plain

RNG = np.random.default_rng(3)


def some_counts(n_arms: int = 6) -> mf.Counts:
    visits = RNG.integers(0, 300, (n_arms, 2, 2))
    return mf.Counts(visits, RNG.binomial(visits, RNG.random((n_arms, 2, 2))))


def test_radius_is_equation_6() -> None:
    for visits, t, n_arms, delta in [(0, 1, 5, 0.01), (7, 3, 10, 0.5), (10**6, 10_000, 100, 0.001)]:
        expected = plain.radius(visits, t, n_arms, delta)
        assert float(mf.confidence_radius(visits, t, n_arms, delta)) == pytest.approx(expected, rel=1e-14)


def test_before_the_first_visit_the_ball_is_everything() -> None:
    for delta in (1e-9, 0.01, 0.999):
        ball = mf.Ball(mf.Counts.none(1), 1, delta)
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


def test_every_estimate_is_in_the_ball() -> None:
    ball = mf.Ball(some_counts(), 3, 0.9)
    for kind in ("optimistic", "mean", "pessimistic"):
        assert ball.contains(ball.estimate(kind)).all()
    counts = ball.counts
    np.testing.assert_array_equal(ball.estimate("mean"), (counts.good + 1) / (counts.visits + 2))


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
    with pytest.raises(mf.InputError, match="estimate must be one of optimistic, mean, pessimistic, got 'median'"):
        ball.estimate("median")
    with pytest.raises(mf.InputError, match=r"transitions must have shape \(6, 2, 2\), got \(5, 2, 2\)"):
        ball.contains(np.zeros((5, 2, 2)))


@pytest.mark.parametrize(
    ("visits", "good", "message"),
    [
        ([[[1, 1], [1, 1]]], [[[2, 1], [1, 1]]], r"good must be at most visits, got 2 of 1 at \(0, 0, 0\)"),
        ([[[-1, 1], [1, 1]]], [[[0, 1], [1, 1]]], "visits must not be negative, got -1"),
        ([[[1.5, 1], [1, 1]]], [[[0, 1], [1, 1]]], "visits must hold whole numbers"),
        ([[[math.nan, 1], [1, 1]]], [[[0, 1], [1, 1]]], "visits must hold whole numbers"),
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
