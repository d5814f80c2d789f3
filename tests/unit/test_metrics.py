from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import meritfair as mf
from meritfair import metrics
from reference import plain

RNG = np.random.default_rng(17)


def test_fairness_regret_is_the_l1_distance() -> None:
    assert float(metrics.fairness_regret([1.0, 0.0, 0.0], [0.2, 0.3, 0.5])) == pytest.approx(1.6)
    assert metrics.fairness_regret(np.ones((4, 3)), np.ones(3)).tolist() == [0, 0, 0, 0]


def test_t0_by_definition_and_by_the_authors_code() -> None:
    eta = [[1.0, 1.0, 0.9, 1.0, 0.8], [0.5, 0.5, 0.5, 0.5, 0.5], [1.0, 1.0, 1.0, 1.0, 1.0]]
    assert metrics.first_valid_episode(eta).tolist() == [4, 0, 5]
    assert metrics.first_valid_episode_authors(eta, horizon=200).tolist() == [3, 1, 200]


def test_coverage_gap_by_definition() -> None:
    for _ in range(50):
        covered = RNG.random((30, 4)) < RNG.uniform(0.2, 0.95)
        assert int(metrics.coverage_gap(covered)) == plain.longest_gap(covered.tolist())
    assert int(metrics.coverage_gap(np.ones((5, 3), dtype=bool))) == 1
    assert int(metrics.coverage_gap(np.zeros((5, 3), dtype=bool))) == 6
    stacked = RNG.random((3, 30, 4)) < 0.5
    assert metrics.coverage_gap(stacked).tolist() == [int(metrics.coverage_gap(one)) for one in stacked]


def test_coverage_gap_of_the_authors_compares_lists() -> None:
    # By hand, without the last episode: arm 0 waits [2], arm 1 waits [1, 5]; [2] > [1, 5] as lists.
    arm0 = [False, True, True, True, True, True, True, True]
    arm1 = [True, False, False, False, False, True, True, True]
    covered = np.array([arm0, arm1]).T
    assert int(metrics.coverage_gap_authors(covered)) == 2
    assert int(metrics.coverage_gap(covered)) == 5
    # An unfinished wait is listed too: arm 1 waits [1, 8].
    assert int(metrics.coverage_gap_authors(np.array([[True] * 9, [True] + [False] * 8]).T)) == 8


def test_inequality_of_known_distributions() -> None:
    assert float(metrics.jain([1, 2, 3])) == pytest.approx(36 / (3 * 14))
    assert float(metrics.gini([1, 2, 3])) == pytest.approx(2 / 9)
    assert float(metrics.hhi([1, 2, 3])) == pytest.approx(14 / 36)
    amounts = RNG.random(20)
    pairs = np.abs(amounts[:, None] - amounts[None, :]).sum()
    assert float(metrics.gini(amounts)) == pytest.approx(pairs / (2 * 20**2 * amounts.mean()))


def test_inequality_of_nothing_is_not_a_number() -> None:
    for measure in (metrics.jain, metrics.gini, metrics.hhi):
        assert np.isnan(measure([0, 0, 0]))


@pytest.mark.parametrize("amounts", [[1, -1], [np.nan, 1], 3.0])
def test_inequality_refuses_negative_amounts(amounts: Any) -> None:
    with pytest.raises(mf.InputError, match="not negative"):
        metrics.gini(amounts)


def test_interval_covers_the_mean_about_as_often_as_it_says() -> None:
    hits = 0
    for trial in range(300):
        low, high = metrics.interval(RNG.normal(3.0, 1.0, 40), seed=trial)[1:]
        hits += low <= 3.0 <= high
    assert 0.88 < hits / 300 < 0.99


def test_interval_of_one_run_has_no_ends() -> None:
    mean, low, high = metrics.interval([2.0])
    assert mean == 2.0
    assert np.isnan([low, high]).all()


def test_interval_is_reproducible() -> None:
    values = RNG.random(10)
    assert metrics.interval(values, seed=1) == metrics.interval(values, seed=1)
