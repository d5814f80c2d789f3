from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import meritfair as mf
from meritfair.core.seeding import stream
from meritfair.simulation import metrics
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


def test_coverage_gap_is_a_lower_bound_where_the_longest_wait_is_not_over() -> None:
    found = []
    for _ in range(200):
        covered = RNG.random((12, 3)) < RNG.uniform(0.2, 0.95)
        found.append(bool(metrics.coverage_gap_censored(covered)))
        assert found[-1] == plain.longest_gap_is_open(covered.tolist())
    assert 20 < sum(found) < 180
    assert not metrics.coverage_gap_censored(np.ones((5, 3), dtype=bool))
    assert metrics.coverage_gap_censored(np.zeros((5, 3), dtype=bool))
    stacked = RNG.random((9, 30, 4)) < 0.5
    assert metrics.coverage_gap_censored(stacked).tolist() == [bool(metrics.coverage_gap_censored(x)) for x in stacked]


def test_t0_is_a_lower_bound_where_the_last_episode_has_some_eta_of_1() -> None:
    assert metrics.first_valid_episode_censored([[1.0, 0.9], [0.9, 1.0], [0.9, 0.8]]).tolist() == [False, True, False]


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


def test_the_interval_of_a_ratio_is_the_bootstrap_of_whole_runs() -> None:
    above, below = RNG.normal(3.0, 1.0, 12), RNG.normal(9.0, 2.0, 12)
    ratios = []
    for picks in stream(5, "bootstrap").integers(0, 12, (2000, 12)):
        ratios.append(sum(above[r] for r in picks) / sum(below[r] for r in picks))
    mean, low, high = metrics.ratio_interval(above, below, seed=5)
    assert mean == pytest.approx(above.sum() / below.sum())
    ratios.sort()
    assert (low, high) == pytest.approx((ratios[49], ratios[1950]))  # of 2000
    assert metrics.ratio_interval(above, below, seed=6) != (mean, low, high)


def test_the_interval_of_a_ratio_covers_it_about_as_often_as_it_says() -> None:
    hits, widths = 0, []
    for trial in range(300):
        size = RNG.uniform(1.0, 9.0, 40)  # how much can be won differs much more than which part is won
        low, high = metrics.ratio_interval(size * RNG.normal(0.6, 0.05, 40), size, seed=trial)[1:]
        hits += low <= 0.6 <= high
        widths.append(high - low)
    assert 0.88 < hits / 300 < 0.99
    assert np.mean(widths) < 0.06  # runs drawn apart for numerator and denominator would give about 0.2


def test_benefit_and_price_are_ratios_of_means() -> None:
    none, best, reward = [0.0, 50.0], [2.0, 150.0], [1.0, 60.0]
    assert metrics.intervention_benefit(reward, none, best).mean == pytest.approx(11 / 102)
    assert metrics.price_of_fairness(reward, best).mean == pytest.approx((152 - 61) / 152)


def test_benefit_and_price_of_the_references_are_exact() -> None:
    none, best = RNG.integers(50, 60, 9), RNG.integers(70, 80, 9)
    assert metrics.intervention_benefit(none, none, best) == (0.0, 0.0, 0.0)
    assert metrics.intervention_benefit(best, none, best) == (1.0, 1.0, 1.0)
    assert metrics.price_of_fairness(best, best) == (0.0, 0.0, 0.0)
    assert metrics.price_of_fairness(best + 1, best).mean < 0
    assert metrics.intervention_benefit(none - 1, none, best).mean < 0


def test_there_is_no_part_of_nothing() -> None:
    assert np.isnan(metrics.intervention_benefit([5, 6], [5, 6], [5, 6])).all()
    assert np.isnan(metrics.intervention_benefit([5, 6], [7, 8], [5, 6])).all()
    assert np.isnan(metrics.price_of_fairness([0, 0], [0, 0])).all()


def test_where_it_is_not_sure_that_anything_can_be_won_the_part_could_be_anything() -> None:
    mean, low, high = metrics.intervention_benefit([6, 8], [5, 5], [4, 9])  # only in the second run is there something
    assert mean == pytest.approx(4 / 3)
    assert (low, high) == (-np.inf, np.inf)
    ones, drawn = np.ones(8), stream(0, "bootstrap").integers(0, 8, (2000, 8))
    for least, often, bounded in ((-9.0, 0.26, False), (-4.0, 0.02, True)):
        best = np.array([*[3.0] * 7, least])
        assert (best[drawn].mean(axis=1) <= 0).mean() == pytest.approx(often, abs=0.005)  # more than 0.025, or less
        assert np.isfinite(metrics.ratio_interval(ones, best)[1:]).tolist() == [bounded, bounded]


def test_a_ratio_of_one_run_has_no_ends() -> None:
    mean, low, high = metrics.intervention_benefit([6.0], [5.0], [9.0])
    assert mean == 0.25
    assert np.isnan([low, high]).all()


def test_a_ratio_needs_the_same_runs() -> None:
    with pytest.raises(mf.InputError, match=r"got \(2,\) and \(3,\)"):
        metrics.ratio_interval([1.0, 2.0], [1.0, 2.0, 3.0])


def test_earth_mover_is_the_distance_between_distributions_of_pulls() -> None:
    from scipy.stats import wasserstein_distance

    steps, n_arms = 50, 7
    for _ in range(50):
        pulls = RNG.integers(0, steps + 1, n_arms)
        total = int(pulls.sum())
        even = [total // n_arms + (arm < total % n_arms) for arm in range(n_arms)]
        most = [min(steps, max(0, total - arm * steps)) for arm in range(n_arms)]
        expected = wasserstein_distance(pulls, even) / wasserstein_distance(most, even)
        assert float(metrics.earth_mover(pulls, steps)) == pytest.approx(expected)
        assert 0 <= expected <= 1
        assert metrics.earth_mover(RNG.permutation(pulls), steps) == metrics.earth_mover(pulls, steps)


def test_earth_mover_from_round_robin_to_always_the_same() -> None:
    assert metrics.earth_mover([[3, 3, 2, 2], [2, 3, 2, 3]], steps=5).tolist() == [0, 0]
    assert metrics.earth_mover([[5, 5, 0, 0], [0, 5, 0, 5]], steps=5).tolist() == [1, 1]
    assert float(metrics.earth_mover([20, 10, 10, 0], steps=20)) == 0.5  # 10 of the 20 that could be moved
    assert float(metrics.earth_mover([5, 5, 5], steps=5)) == 0  # there is no other way
    assert float(metrics.earth_mover([4], steps=5)) == 0
    assert np.isnan(metrics.earth_mover([0, 0], steps=5))
    with pytest.raises(mf.InputError, match="pulls must be at most the number of steps, 5, got 6"):
        metrics.earth_mover([6, 0], steps=5)


def test_a_summary_has_the_smallest_exposure_and_the_distance_from_round_robin() -> None:
    arms = mf.datasets.synthetic(6, seed=1)
    run = mf.simulate(arms, mf.MeritFair(), budget=2, episodes=4, horizon=30, runs=3, seed=1)
    found = run.summary()
    assert found["smallest_exposure"].mean == pytest.approx((run.pulls.min(axis=1) / 120).mean())
    assert found["earth_mover"].mean == pytest.approx(metrics.earth_mover(run.pulls, 120).mean())
    even = mf.simulate(arms, mf.RoundRobin(), budget=2, episodes=4, horizon=31, runs=3, seed=1).summary()
    assert even["earth_mover"] == (0.0, 0.0, 0.0)
    nothing = mf.simulate(arms, mf.NoAction(), budget=2, episodes=4, horizon=30, runs=3, seed=1).summary()
    assert np.isnan(nothing["earth_mover"].mean)
    assert nothing["smallest_exposure"] == (0.0, 0.0, 0.0)
