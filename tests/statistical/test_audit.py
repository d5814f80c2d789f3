"""The audit keeps its level however often it is looked at, its intervals hold, and a bias of 2 % is found.

Seeds are fixed. All tests of this file together reject a correct program with probability below about 1e-4: each of
the COMPARISONS is made at ALPHA / COMPARISONS. That each could fail is shown by planted errors, which must be found.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

import meritfair as mf
from meritfair.auditing import Audit, DrawLog, audit, evidence
from meritfair.core.arrays import AnyArray, FloatArray, IntArray

pytestmark = pytest.mark.slow

ALPHA = 1e-4
COMPARISONS = 14
LEVEL = ALPHA / COMPARISONS
N, K = 20, 4
MERIT = np.exp(np.linspace(-1, 1, N))
MOST_DRAWS = 100_000


def make_log(exposure: FloatArray, drawn: AnyArray, group: AnyArray | None = None) -> DrawLog:
    rounds, arms = drawn.shape
    return DrawLog(
        np.repeat(np.arange(1, rounds + 1), arms),
        np.tile(np.arange(arms), rounds),
        np.broadcast_to(exposure, drawn.shape).ravel(),
        drawn.ravel(),
        None if group is None else np.tile(group, rounds),
    )


def systematic(exposure: FloatArray, rounds: int, rng: np.random.Generator) -> IntArray:
    """Draw a whole number of arms with exactly these exposures: equal steps along the arms in random order."""
    order = np.argsort(rng.random((rounds, len(exposure))), axis=1)
    ends = np.cumsum(exposure[order], axis=1)
    ends[:, -1] = round(exposure.sum())
    steps = np.ceil(np.concatenate([np.zeros((rounds, 1)), ends], axis=1) - rng.random((rounds, 1)))
    drawn = np.empty(order.shape, np.int64)
    np.put_along_axis(drawn, order, np.diff(steps, axis=1).astype(np.int64), axis=1)
    return drawn


def put_in_place(drawn: IntArray, favourite: int, share: float, rng: np.random.Generator) -> IntArray:
    """In a share of the rounds the favourite takes the place of an arm that was drawn."""
    rows = np.flatnonzero((rng.random(len(drawn)) < share) & (drawn[:, favourite] == 0))
    out = np.where(drawn[rows] == 1, rng.random((len(rows), drawn.shape[1])), -1).argmax(axis=1)
    changed = drawn.copy()
    changed[rows, out] = 0
    changed[rows, favourite] = 1
    return changed


def too_many(alarms: int, logs: int, level: float) -> bool:
    """Whether so many alarms in so many logs refute that each has one with probability `level` at most."""
    return bool(stats.binom.sf(alarms - 1, logs, level) < LEVEL)


def ever_beyond(drawn: AnyArray, exposure: FloatArray, level: float) -> bool:
    """The planted error: z-tests of all arms after every round, at a level meant for one look, divided by the arms."""
    n = np.arange(1, len(drawn) + 1)[:, None]
    z = np.cumsum(drawn - exposure, axis=0) / np.sqrt(n * exposure * (1 - exposure))
    return bool((np.abs(z[30:]) > stats.norm.isf(level / (2 * drawn.shape[1]))).any())


def fair_logs(logs: int, rounds: int) -> list[tuple[FloatArray, AnyArray]]:
    rng = np.random.default_rng(5)
    made = []
    for _ in range(logs):
        merit = np.exp(rng.normal(size=8))
        made.append((mf.fair_exposure(merit, 3), mf.draw(merit, 3, rng=rng, size=rounds)))
    return made


def test_fair_logs_pass_at_the_stated_level_when_looked_at_after_every_round() -> None:
    level, logs, group = 0.2, 400, np.arange(8) % 2
    alarms = wrong_alarms = 0
    for exposure, drawn in fair_logs(logs, 300):
        report = audit(make_log(exposure, drawn, group), level, fixed_budget=True)
        assert report.groups is not None
        assert report.overall.violated >= bool(report.arms.flagged.any() or report.groups.flagged.any())
        alarms += report.overall.violated
        wrong_alarms += ever_beyond(drawn, exposure, level)
    assert not too_many(alarms, logs, level)
    assert alarms > 0  # not so cautious that it never says anything: about one log in twenty
    assert too_many(wrong_alarms, logs, level)


def test_fair_logs_pass_when_arms_come_and_go_as_it_suits_the_accuser() -> None:
    # New arms come whenever the first one has been drawn less than stated, and exposures follow the draws.
    level, logs, rounds = 0.2, 200, 80
    rng = np.random.default_rng(6)
    alarms = 0
    for _ in range(logs):
        rows: list[tuple[int, int, float, bool]] = []
        n_arms, balance = 2, 0.0
        for r in range(rounds):
            n_arms += int(balance < 0 and n_arms < 30)
            exposure = np.full(n_arms, 0.5 if balance < 0 else 0.1)
            drawn = rng.random(n_arms) < exposure
            balance += float(drawn[0]) - exposure[0]
            rows.extend(zip([r] * n_arms, range(n_arms), exposure.tolist(), drawn.tolist(), strict=True))
        alarms += audit(DrawLog(*zip(*rows, strict=True)), level).overall.violated
    assert not too_many(alarms, logs, level)


def test_intervals_hold_the_true_shortfall_at_all_looks_while_it_drifts() -> None:
    level, logs, rounds = 0.1, 100, 1000
    looks = [10, 50, 200, 1000]
    rng = np.random.default_rng(7)
    stated = np.full(4, 0.3)
    swing = 0.25 * np.sin(np.arange(rounds) / 40)[:, None] * np.array([1, -1, 0.5, 0])
    group = np.array(["x", "x", "x", "y"])
    missed = missed_by_less = 0
    for _ in range(logs):
        drift = swing * rng.choice([-1, 1])
        drawn = rng.random((rounds, 4)) < stated + drift
        errors = [_distance(audit(make_log(stated, drawn[:n], group), level), -drift[:n]) for n in looks]
        missed += max(errors) > 1
        missed_by_less += max(errors) > 0.4
    assert not too_many(missed, logs, 2 * level)  # two tables, each at this level
    assert too_many(missed_by_less, logs, 2 * level)


def _distance(report: Audit, shortfall: FloatArray) -> float:
    """How far the truth is from what was observed, as a part of the way to the end of the interval; the largest."""
    assert report.groups is not None
    arms = shortfall.mean(axis=0)
    groups = np.array([arms[:3].mean(), arms[3]])
    worst = 0.0
    for table, truth in ((report.arms, arms), (report.groups, groups)):
        way = np.where(truth > table.shortfall, table.high, table.low) - table.shortfall
        worst = max(worst, float(((truth - table.shortfall) / way).max()))
    return worst


def test_a_fair_log_of_a_hundred_thousand_draws_passes() -> None:
    exposure = mf.fair_exposure(MERIT, K)
    drawn = mf.draw(MERIT, K, rng=np.random.default_rng(8), size=MOST_DRAWS // K)
    report = audit(make_log(exposure, drawn, np.arange(N) % 2), fixed_budget=True)
    assert not report.overall.violated
    assert not report.arms.flagged.any()
    assert (report.arms.low < 0).all()
    assert (report.arms.high > 0).all()


def test_a_favourite_put_in_place_in_two_percent_of_the_rounds_is_found() -> None:
    # Its chance is 0.183 instead of 0.167: 25,000 rounds hold 25 nats, some 9 are needed.
    rng = np.random.default_rng(9)
    drawn = put_in_place(mf.draw(MERIT, K, rng=rng, size=MOST_DRAWS // K).astype(np.int64), 9, 0.02, rng)
    report = audit(make_log(mf.fair_exposure(MERIT, K), drawn))
    assert report.overall.violated
    assert np.flatnonzero(report.arms.flagged).tolist() == [9]
    assert report.arms.low[9] < 0.02 * (mf.fair_exposure(MERIT, K)[9] - 1) < report.arms.high[9] < 0


def test_two_percent_of_all_draws_diverted_to_a_favourite_are_found_much_sooner() -> None:
    rng = np.random.default_rng(10)
    exposure = np.full(N, K / N)
    drawn = put_in_place(systematic(exposure, 6000, rng), 0, 1 - 0.98**K, rng)
    report = audit(make_log(exposure, drawn))
    assert report.overall.found is not None
    assert report.overall.found * K < 0.2 * MOST_DRAWS
    assert np.flatnonzero(report.arms.flagged).tolist() == [0]


def test_a_group_with_two_percent_of_the_budget_more_than_stated_is_found() -> None:
    rng = np.random.default_rng(11)
    exposure, group = mf.fair_exposure(MERIT, K), np.arange(N) % 2
    extra = 0.02 * K / (N / 2) * np.where(group == 0, 1, -1)
    drawn = systematic(exposure + extra, 5000, rng)
    report = audit(make_log(exposure, drawn, group))
    assert report.groups is not None
    assert report.groups.flagged.tolist() == [True, True]
    assert report.groups.high[0] < 0 < report.groups.low[1]
    unsaid = audit(make_log(exposure, drawn))  # the learned direction finds it without being told of groups
    assert unsaid.overall.violated
    assert not unsaid.arms.flagged.any()


def test_a_bias_spread_thinly_over_all_arms_is_found_before_any_arm_shows_it() -> None:
    rng = np.random.default_rng(12)
    exposure = mf.fair_exposure(MERIT, K)
    flatter = exposure + 0.02 * np.where(np.arange(N) < N // 2, 1, -1)
    report = audit(make_log(exposure, systematic(flatter, 1500, rng)))
    assert report.overall.found is not None
    assert report.overall.found * K < 0.05 * MOST_DRAWS
    assert report.course.arms[report.overall.found - 1] < math.log(1 / report.alpha)


def test_with_many_arms_a_fixed_budget_shows_the_disadvantaged_group_sooner() -> None:
    # Of ten groups one gets a third less: 200 arms, five draws, so that without it a group could get all 20.
    rng = np.random.default_rng(13)
    group = np.arange(200) % 10
    exposure = np.full(200, 0.025)
    chance = exposure * np.where(group == 0, 2 / 3, 1 + 1 / 27)
    log = make_log(exposure, systematic(chance, 700, rng), group)
    plain, fixed = audit(log).groups, audit(log, fixed_budget=True).groups
    assert plain is not None
    assert fixed is not None
    assert np.flatnonzero(fixed.flagged).tolist() == [0]
    assert not plain.flagged.any()
    assert fixed.low[0] > plain.low[0]


def test_independent_draws_pass_at_the_stated_level_and_fixed_numbers_are_not_bet_on_so() -> None:
    # The bets on groups assume independence: draws of all at once, or none, are what must not be audited so.
    level, logs, rounds, group = 0.2, 200, 100, np.arange(8) % 2
    rng = np.random.default_rng(14)
    alarms = wrong_alarms = 0
    for _ in range(logs):
        exposure = rng.uniform(0.05, 0.6, 8)
        drawn = rng.random((rounds, 8)) < exposure
        alarms += audit(make_log(exposure, drawn, group), level, independent=True).overall.violated
        together = np.repeat(rng.random((rounds, 1)) < 0.3, 8, axis=1)
        wrong_alarms += audit(make_log(np.full(8, 0.3), together, group), level, independent=True).overall.violated
    assert not too_many(alarms, logs, level)
    assert too_many(wrong_alarms, logs, level)


def test_groups_of_independent_draws_are_tested_more_powerfully() -> None:
    # One of two groups of 100 people in a trial of an app is drawn a twelfth less often than stated.
    rng, group = np.random.default_rng(15), np.arange(200) % 2
    chance = np.where(group == 0, 0.275, 0.3)
    log = make_log(np.full(200, 0.3), rng.random((120, 200)) < chance, group)
    plain, independent = audit(log).groups, audit(log, independent=True).groups
    assert plain is not None
    assert independent is not None
    assert independent.flagged.tolist() == [True, False]
    assert not plain.flagged.any()
    assert 0 < independent.low[0] < 0.025 < independent.high[0]


def test_one_who_is_drawn_a_tenth_less_often_shows_after_about_as_many_rounds_as_said() -> None:
    # Medians of 60 first rounds have a standard error of about a tenth: within a third of what is said.
    rng, exposure, rounds = np.random.default_rng(16), np.full(3, 0.6), 4000
    said = audit(make_log(exposure, rng.random((50, 3)) < exposure)).rounds_until_found
    assert said < rounds / 3
    found = []
    for _ in range(60):
        drawn = rng.random((rounds, 3)) < exposure * np.array([0.9, 1, 1])
        history = evidence.histories(make_log(exposure, drawn), np.tile(np.arange(3), rounds))
        log_e = evidence.log_evidence(history, lambda: None)[:rounds] + math.log(0.75 / 3 / 2)
        found.append(int(np.argmax(log_e >= math.log(20))) + 1 if (log_e >= math.log(20)).any() else rounds)
    assert 2 / 3 < np.median(found) / said < 4 / 3
