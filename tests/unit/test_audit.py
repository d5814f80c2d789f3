"""The audit of draws: its numbers against plain loops, its martingales by enumeration, its errors."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Sequence
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq

from meritfair.auditing import DrawLog, audit, read_draws
from meritfair.auditing.evidence import _log_sums
from meritfair.auditing.report import readable
from meritfair.core.arrays import AnyArray, FloatArray
from meritfair.core.errors import FileError, InputError

SHIFTS = [sign * 0.005 * 2**k for k in range(10) for sign in (1, -1)]
Row = tuple[int, str, float, int, str]


def make_log(rows: Sequence[Row], grouped: bool = False) -> DrawLog:
    rounds, arms, exposure, drawn, group = zip(*rows, strict=True)
    return DrawLog(rounds, arms, exposure, drawn, group if grouped else None)


def ragged_rows(seed: int = 1, rounds: int = 40) -> list[Row]:
    """Arms that join late, leave and skip, with exposures that change."""
    rng = np.random.default_rng(seed)
    names = {"a": (0, 40), "b": (0, 25), "c": (7, 40), "d": (7, 40), "e": (20, 30)}
    rows: list[Row] = []
    for r in range(rounds):
        for name, (first, last) in names.items():
            if first <= r < last and (rng.random() < 0.8 or r in (0, 7, 20)):
                e = float(rng.uniform(0.05, 0.95))
                rows.append((10 * r, name, e, int(rng.random() < e), "f" if name in "abe" else "m"))
    return rows


def odds_ratio_evidence(history: Sequence[tuple[float, int]]) -> float:
    """The average likelihood ratio of shifted odds, in plain loops."""
    total = 0.0
    for theta in SHIFTS:
        ratio = 1.0
        for e, x in history:
            shifted = e * math.exp(theta) / (1 - e + e * math.exp(theta))
            ratio *= shifted / e if x else (1 - shifted) / (1 - e)
        total += ratio / len(SHIFTS)
    return total


def group_evidence(history: Sequence[tuple[float, int, int]]) -> float:
    """The average over bets, each 1 + lambda D; history is of (expected, drawn, most that can be drawn)."""
    total = 0.0
    for theta in SHIFTS:
        money, m = 1.0, math.exp(abs(theta)) - 1
        for expected, drawn, most in history:
            loss = expected if theta > 0 else most - expected
            money *= 1 + math.copysign(m / (1 + loss * m), theta) * (drawn - expected)
        total += money / len(SHIFTS)
    return total


def test_an_arms_evidence_is_the_mixture_of_likelihood_ratios_of_shifted_odds() -> None:
    rows = ragged_rows()
    table = audit(make_log(rows)).arms
    for k, name in enumerate(table.names):
        history = [(e, x) for _, arm, e, x, _ in rows if arm == name]
        values = [table.stake[k] * odds_ratio_evidence(history[:n]) for n in range(1, len(history) + 1)]
        assert table.e_value[k] == pytest.approx(values[-1], rel=1e-9)
        assert table.largest[k] == pytest.approx(max(values), rel=1e-9)
        assert table.p_value[k] == pytest.approx(min(1, 1 / max(values)), rel=1e-9)
        assert table.entitled[k] == pytest.approx(sum(e for e, _ in history))
        assert (table.drawn[k], table.rounds[k]) == (sum(x for _, x in history), len(history))


def test_a_groups_evidence_is_the_mixture_of_bets_on_its_draws() -> None:
    rows = ragged_rows()
    table = audit(make_log(rows, grouped=True)).groups
    assert table is not None
    for k, name in enumerate(table.names):
        history = []
        for r in sorted({row[0] for row in rows}):
            mine = [row for row in rows if row[0] == r and row[4] == name]
            history.append((sum(row[2] for row in mine), sum(row[3] for row in mine), len(mine)))
        assert table.turns[k] == sum(size for _, _, size in history)
        assert table.e_value[k] == pytest.approx(table.stake[k] * group_evidence(history), rel=1e-9)
    assert table.members.tolist() == [3, 2]


def test_a_fixed_budget_bounds_what_a_group_can_get() -> None:
    # Two groups of four, one draw: a group gets one at most, so it can be bet on getting none.
    rows = [(r, f"{g}{i}", 1 / 8, int(i == r % 4 and g == "f"), g) for r in range(30) for g in "fm" for i in range(4)]
    log = make_log(rows, grouped=True)
    for fixed, most in ((False, 4), (True, 1)):
        table = audit(log, fixed_budget=fixed).groups
        assert table is not None
        expected = table.stake[1] * group_evidence([(0.5, 0, most)] * 30)
        assert table.e_value[1] == pytest.approx(expected, rel=1e-9)


def test_independent_draws_of_a_group_are_bet_on_one_after_another() -> None:
    rows = ragged_rows()
    report = audit(make_log(rows, grouped=True), independent=True)
    assert report.groups is not None
    for k, name in enumerate(report.groups.names):
        history = [(e, x) for _, _, e, x, group in rows if group == name]
        assert report.groups.e_value[k] == pytest.approx(report.groups.stake[k] * odds_ratio_evidence(history))
        ends = [n for n in range(1, len(rows) + 1) if n == len(rows) or rows[n][0] != rows[n - 1][0]]  # of rounds
        after = [[(e, x) for _, _, e, x, group in rows[:n] if group == name] for n in ends]
        largest = max(odds_ratio_evidence(part) for part in after if part)
        assert report.groups.largest[k] == pytest.approx(report.groups.stake[k] * largest)
    plain = audit(make_log(rows, grouped=True))
    assert report.arms.log_e == pytest.approx(plain.arms.log_e)
    assert report.arms.low == pytest.approx(plain.arms.low)


def test_an_interval_of_a_group_of_independent_draws_is_that_of_one_arm_with_all_of_them() -> None:
    rng = np.random.default_rng(3)
    drawn = (rng.random((50, 4)) < 0.3).astype(int)
    rows = [(r, f"{k}", 0.3, int(drawn[r, k]), "all") for r in range(50) for k in range(4)]
    table = audit(make_log(rows, grouped=True), independent=True).groups
    alone = [(4 * r + int(name), "one", e, x, "all") for r, name, e, x, _ in rows]
    same = audit(make_log(alone)).arms
    assert table is not None
    assert (table.low[0], table.high[0]) == pytest.approx((same.low[0], same.high[0]))


def test_whether_draws_look_independent() -> None:
    rng = np.random.default_rng(4)
    exposure = rng.uniform(0.1, 0.6, (200, 10))
    coins = (rng.random((200, 10)) < exposure).astype(int)
    together = np.repeat((rng.random((200, 1)) < 0.3).astype(int), 10, axis=1)

    def budget(drawn: AnyArray, stated: AnyArray) -> Any:
        rows = [(r, str(k), float(stated[r, k]), int(drawn[r, k]), "") for r, k in np.ndindex(drawn.shape)]
        return audit(make_log(rows)).budget

    found = budget(coins, exposure)
    spread = (coins - exposure).sum(axis=1)
    assert found.variation == pytest.approx((spread**2).sum() / (exposure * (1 - exposure)).sum())
    assert found.as_independent
    assert not budget(together, np.full((200, 10), 0.3)).as_independent
    fixed = budget(np.tile(np.arange(10) < 3, (200, 1)), np.full((200, 10), 0.3))
    assert (fixed.variation, fixed.as_independent) == (pytest.approx(0), False)
    few = budget(coins[:3], exposure[:3])  # too few rounds to tell
    assert (few.within_chance, few.as_independent) == (True, False)
    assert budget(np.ones((5, 2)), np.ones((5, 2))).variation is None


def test_the_error_of_the_variation_is_its_standard_deviation() -> None:
    """By 400 logs of 30 rounds: the ratio of two standard deviations is within 15 % (four standard errors)."""
    rng = np.random.default_rng(5)
    exposure = np.array([0.1, 0.5, 0.7, 0.05])
    drawn = rng.random((400, 30, 4)) < exposure
    variation = ((drawn - exposure).sum(axis=2) ** 2).sum(axis=1) / (30 * (exposure * (1 - exposure)).sum())
    rows = [(r, str(k), float(exposure[k]), int(drawn[0, r, k]), "") for r in range(30) for k in range(4)]
    error = audit(make_log(rows)).budget.variation_error
    assert error is not None
    assert variation.std() / error == pytest.approx(1, abs=0.15)


def test_when_one_who_is_drawn_a_tenth_less_often_would_show() -> None:
    rows = [(r, name, 0.4, (r + k) % 2, "") for r in range(20) for k, name in enumerate("abc")]
    report = audit(make_log(rows))
    need = report.rounds_until_found
    grows = []
    for theta in SHIFTS:
        up, down = math.exp(theta) / (0.6 + 0.4 * math.exp(theta)), 1 / (0.6 + 0.4 * math.exp(theta))
        grows.append(0.36 * math.log(up) + 0.64 * math.log(down))
    e_value = report.arms.stake[0] * np.mean(np.exp(need * np.array(grows)))
    assert e_value == pytest.approx(20, rel=1e-6)
    assert report.power == {"less_often": 0.1, "rounds": need}
    never = audit(make_log([(r, "a", 0.0, 0, "") for r in range(5)]))
    assert never.rounds_until_found == math.inf
    assert never.power["rounds"] is None
    always = audit(make_log([(r, "a", 1.0, 1, "") for r in range(5)]))
    assert 0.9**always.rounds_until_found == pytest.approx(0.5)  # the median of when the first draw is missed


def direction_evidence(rows: Sequence[Row], independent: bool) -> float:
    """The average over bets on what earlier rounds say of each arm, made at once or one by one, in plain loops."""
    total = 0.0
    for q, only_up in product((4.0, 32.0, 256.0, 2048.0), (False, True)):
        money, residual, variance = 1.0, dict.fromkeys("abcde", 0.0), dict.fromkeys("abcde", 0.0)
        for r in sorted({row[0] for row in rows}):
            gain, loss, one_by_one = 0.0, 0.0, 1.0
            now = [(arm, e, x) for when, arm, e, x, _ in rows if when == r]
            for arm, e, x in now:
                s = residual[arm] / (variance[arm] + q)
                s = max(0.0, s) if only_up else s
                most = s * e if s > 0 else -s * (1 - e)
                gain, loss = gain + s * (x - e), loss + most
                one_by_one *= 1 + s * (x - e) / (1 + most)
            money *= one_by_one if independent else 1 + gain / (1 + loss)
            for arm, e, x in now:
                residual[arm] += x - e
                variance[arm] += e * (1 - e)
        total += money / 8
    return total


@pytest.mark.parametrize("independent", [False, True])
@pytest.mark.parametrize("grouped", [False, True])
def test_the_overall_evidence_is_the_average_of_its_kinds(grouped: bool, independent: bool) -> None:
    rows = ragged_rows(seed=4)
    report = audit(make_log(rows, grouped), independent=independent)
    kinds = 3 if grouped else 2
    tables = [report.arms, *([] if report.groups is None else [report.groups])]
    money = direction_evidence(rows, independent) / kinds
    for table in tables:
        money += table.e_value.sum() + (1 / kinds - table.stake.sum())  # with what is not staked
    assert report.overall.e_value == pytest.approx(money, rel=1e-9)


def test_a_group_of_all_is_not_accused_of_rounded_exposures() -> None:
    # 3 times 0.334 is more than the one draw there is, round after round.
    rows = [(r, name, 0.334, int(k == r % 3), "all") for r in range(500) for k, name in enumerate("abc")]
    report = audit(make_log(rows, grouped=True), fixed_budget=True)
    assert not report.overall.violated
    assert report.budget.uneven == 0


def test_the_order_of_rows_does_not_matter() -> None:
    rows = ragged_rows()
    shuffled = [rows[k] for k in np.random.default_rng(0).permutation(len(rows))]
    a, b = (audit(make_log(each, grouped=True)) for each in (rows, shuffled))
    order = [b.arms.names.index(name) for name in a.arms.names]
    assert b.arms.log_e[order] == pytest.approx(a.arms.log_e)
    assert b.arms.low[order] == pytest.approx(a.arms.low)
    assert b.course.overall == pytest.approx(a.course.overall)


def test_a_look_at_an_early_round_sees_what_an_audit_then_would_have_seen() -> None:
    # Nothing of a later round may change an e-value of an earlier one.
    rows = ragged_rows()
    whole = audit(make_log(rows, grouped=True))
    assert whole.groups is not None
    for look, r in enumerate(whole.rounds):
        then = audit(make_log([row for row in rows if row[0] <= r], grouped=True))
        assert then.groups is not None
        assert then.overall.log_e == pytest.approx(whole.course.overall[look], abs=1e-9)
        assert then.arms.log_largest.max() == pytest.approx(whole.course.arms[look], abs=1e-9)
        for name, log_e in zip(then.groups.names, then.groups.log_e, strict=True):
            there = whole.course.groups[whole.groups.names.index(name), look]
            assert there == pytest.approx(log_e, abs=1e-9)
    assert whole.overall.log_largest == whole.course.overall.max()


# A rule says who takes part in a round and with which exposures, given all that happened; a law says with which
# probability each set of arms is then drawn.
Past = list[dict[str, int]]
Rule = Callable[[Past], dict[str, float]]
Law = Callable[[dict[str, float]], list[tuple[float, dict[str, int]]]]


def everyone(past: Past) -> dict[str, float]:
    return {"a": 0.5, "b": 0.3, "c": 0.2} if len(past) % 2 == 0 else {"a": 0.2, "b": 0.7, "c": 0.1}


def joins_after_losses(past: Past) -> dict[str, float]:
    """The worst for an average over arms: others come only when the first ones have shown nothing."""
    newcomers = "cde"[: sum(1 - each["a"] for each in past)]
    return {"a": 0.3, "b": 0.7} if not newcomers else {"a": 0.3, **dict.fromkeys(newcomers, 0.7 / len(newcomers))}


def one_of_them(exposure: dict[str, float]) -> list[tuple[float, dict[str, int]]]:
    return [(chance, {name: int(name == drawn) for name in exposure}) for drawn, chance in exposure.items()]


def each_alone(exposure: dict[str, float]) -> list[tuple[float, dict[str, int]]]:
    law = []
    for outcome in product((0, 1), repeat=len(exposure)):
        chances = [e if x else 1 - e for x, e in zip(outcome, exposure.values(), strict=True)]
        law.append((math.prod(chances), dict(zip(exposure, outcome, strict=True))))
    return law


def all_from_one_number(exposure: dict[str, float]) -> list[tuple[float, dict[str, int]]]:
    ends = sorted({0.0, 1.0, *exposure.values()})
    return [(high - low, {name: int(e >= high) for name, e in exposure.items()}) for low, high in pairwise(ends)]


def histories(rule: Rule, law: Law, rounds: int) -> list[tuple[float, list[Row]]]:
    """All that can happen, with its probability."""
    paths: list[tuple[float, list[Row], Past]] = [(1.0, [], [])]
    for r in range(rounds):
        following = []
        for chance, rows, past in paths:
            exposure = rule(past)
            for weight, drawn in law(exposure):
                more = [(r, name, e, drawn[name], "f" if name in "ad" else "m") for name, e in exposure.items()]
                following.append((chance * weight, rows + more, [*past, drawn]))
        paths = following
    return [(chance, rows) for chance, rows, _ in paths]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rule", "law", "rounds", "fixed"),
    [
        (everyone, one_of_them, 4, False),
        (everyone, one_of_them, 4, True),
        (everyone, each_alone, 2, False),
        (everyone, all_from_one_number, 4, False),
        (joins_after_losses, one_of_them, 4, False),
        (joins_after_losses, one_of_them, 4, True),
    ],
)
def test_evidence_against_fair_draws_is_worth_one_on_average(rule: Rule, law: Law, rounds: int, fixed: bool) -> None:
    # Exactly, by enumeration: stopped as soon as it is 1.02 or at the end, the e-value has mean 1, whatever the
    # dependence of the arms, and whatever made new ones join. So do the staked ones have their stakes.
    paths = histories(rule, law, rounds)
    assert sum(chance for chance, _ in paths) == pytest.approx(1)
    at_end = stopped = 0.0
    first_arm = first_group = 0.0
    for chance, rows in paths:
        report = audit(make_log(rows, grouped=True), fixed_budget=fixed)
        assert report.groups is not None
        course = np.exp(report.course.overall)
        high = np.flatnonzero(course >= 1.02)
        stopped += chance * course[high[0] if len(high) else -1]
        at_end += chance * course[-1]
        first_arm += chance * report.arms.e_value[0] / report.arms.stake[0]
        first_group += chance * report.groups.e_value[0] / report.groups.stake[0]
    assert [at_end, stopped, first_arm, first_group] == pytest.approx([1, 1, 1, 1], abs=1e-10)


def test_an_average_over_the_arms_there_are_would_not_be() -> None:
    # Why stakes are needed: the same rule of joining fools a plain average of the e-values so far.
    stopped = 0.0
    for chance, rows in histories(joins_after_losses, one_of_them, 4):
        table = [audit(make_log([row for row in rows if row[0] <= r])).arms for r in range(4)]
        plain = [float(np.mean(each.e_value / each.stake)) for each in table]
        stopped += chance * next((value for value in plain if value >= 1.02), plain[-1])
    assert stopped > 1.005


@settings(max_examples=30)
@given(st.lists(st.integers(0, 5), min_size=1, max_size=40))
def test_parts_of_the_level_never_add_up_to_more_than_it(joins: list[int]) -> None:
    first = np.array([0, *joins])
    rows: list[Row] = [(r, "early", 0.5, 1, "") for r in range(6)]
    rows += [(r, f"arm {k}", 0.5, 0, "") for k, begin in enumerate(first) for r in range(begin, 6)]
    for now in range(6):
        table = audit(make_log([row for row in rows if row[0] <= now])).arms
        assert 2 * table.stake.sum() < 1  # half of the money is on the learned direction
    assert (table.stake > 0).all()


def test_no_one_is_flagged_without_the_overall_verdict() -> None:
    rows = [(r, name, 0.5, int(name == "a"), name) for r in range(40) for name in "ab"]
    for until in range(1, 40):
        report = audit(make_log(rows[: 2 * until], grouped=True))
        assert report.groups is not None
        largest = max(report.arms.log_largest.max(), report.groups.log_largest.max())
        assert report.overall.log_largest >= largest
        assert report.arms.flagged.any() <= report.overall.violated
        assert report.groups.flagged.any() <= report.overall.violated
    assert report.groups is not None
    assert [report.arms.flagged.tolist(), report.groups.flagged.tolist()] == [[True, True]] * 2


def test_impossible_draws_are_certain_violations_not_errors() -> None:
    rows: list[Row] = [(r, name, 0.5, (r + k) % 2, "") for r in range(6) for k, name in enumerate("ab")]
    rows += [(3, "never", 0.0, 1, ""), (4, "never", 0.0, 0, ""), (5, "always", 1.0, 0, "")]
    report = audit(make_log(rows))
    assert report.certain == ((3, "never", 0.0), (5, "always", 1.0))
    assert report.overall.violated
    assert (report.overall.e_value, report.overall.p_value, report.overall.found) == (math.inf, 0.0, 3)
    assert np.isfinite(report.course.overall).tolist() == [True, True, True, False, False, False]
    assert dict(zip(report.arms.names, report.arms.flagged.tolist(), strict=True)) == {
        "a": False,
        "b": False,
        "never": True,
        "always": True,
    }
    assert "2 of them are impossible, first in round 3, where never was drawn at exposure 0" in str(report)
    one = audit(make_log([row for row in rows if row[1] != "never"]))
    assert "1 of them is impossible, first in round 5, where always was not drawn at exposure 1" in str(one)
    assert not audit(make_log(rows[:12])).overall.violated
    report.plot()


def test_exposures_of_zero_and_one_that_were_kept_say_nothing() -> None:
    report = audit(
        make_log([(r, name, e, int(e), "g") for r in range(50) for name, e in (("a", 1.0), ("b", 0.0))], True)
    )
    assert report.overall.log_e == pytest.approx(0)
    assert report.certain == ()
    assert report.groups is not None
    assert report.groups.log_e[0] == pytest.approx(math.log(report.groups.stake[0]))
    # An arm whose chance was 1 cannot have had more; whether it had less is bounded.
    assert report.arms.low[0] <= 0 <= report.arms.high[0] < 0.5


def reference_luck(history: Sequence[tuple[float, float]], level: float) -> float:
    """Where the averaged supermartingale of an arm is 1/level: history is of (deviation, largest loss)."""
    rates = [2.0**k for k in range(4, -10, -1)]

    def money(luck: float) -> float:
        total = 0.0
        for rate in rates:
            spent = 0.0
            for deviation, loss in history:
                if rate * loss >= 0.99:
                    break
                x = rate * loss
                psi = rate**2 / 2 if loss == 0 else (-math.log(1 - x) - x) / loss**2
                spent += psi * deviation**2
            else:
                total += math.exp(min(700.0, rate * luck - spent)) / len(rates)
        return math.log(total) + math.log(level)

    return float(brentq(money, 0.0, 1e4, xtol=1e-12))


def test_the_bounds_on_the_shortfall_are_where_the_supermartingale_says() -> None:
    rows, alpha = ragged_rows(seed=3, rounds=40), 0.1
    table = audit(make_log(rows), alpha).arms
    for k, name in enumerate(table.names):
        history = [(e, x) for _, arm, e, x, _ in rows if arm == name]
        level = alpha * (2 * table.stake[k]) / 2  # two kinds of e-values share the money; two sides the level
        more = reference_luck([(x - e, e) for e, x in history], level)
        fewer = reference_luck([(e - x, 1 - e) for e, x in history], level)
        short, n, entitled = sum(e - x for e, x in history), len(history), sum(e for e, _ in history)
        assert table.shortfall[k] == pytest.approx(short / n)
        assert table.high[k] == pytest.approx(min(entitled, short + more) / n, rel=1e-6)
        assert table.low[k] == pytest.approx(max(entitled - n, short - fewer) / n, rel=1e-6)
        assert table.low[k] < table.shortfall[k] < table.high[k]


def test_bounds_narrow_with_time_and_stay_within_what_is_possible() -> None:
    def width(rounds: int) -> float:
        report = audit(make_log([(r, "a", 0.25, int(r % 4 == 0), "") for r in range(rounds)]))
        (low,), (high,) = report.arms.low, report.arms.high
        assert 0.25 - 1 <= low <= 0 <= high <= 0.25
        return float(high - low)

    assert width(1) == pytest.approx(1.0)
    assert width(10_000) < width(1000) / 2.5 < width(100) / 5
    assert width(10_000) < 0.04  # about eight standard errors from end to end


def test_bounds_of_a_group_that_outgrows_its_first_round_are_wide_not_wrong() -> None:
    rows = [(0, "a", 0.5, 1, "g"), *((1, f"b{k}", 0.5, k % 2, "g") for k in range(2000))]
    table = audit(make_log(rows, grouped=True)).groups
    assert table is not None
    assert (table.low[0], table.high[0]) == (pytest.approx(-0.5), pytest.approx(0.5))


def test_facts_about_the_budget() -> None:
    rows: list[Row] = [(1, "a", 0.5, 1, ""), (1, "b", 0.5, 0, ""), (2, "a", 0.5, 1, ""), (2, "b", 0.5, 1, "")]
    rows += [(3, "a", 0.333, 0, ""), (3, "b", 0.333, 1, ""), (3, "c", 0.333, 0, "")]  # rounded, but meant to be 1
    assert audit(make_log(rows)).budget[:6] == (1, 2, 1, 2, None, None)


def test_a_verdict_in_words() -> None:
    fair = audit(make_log([(r, name, 0.5, (r + k) % 2, "") for r in range(20) for k, name in enumerate("ab")]))
    assert str(fair).startswith("The draws are compatible with the stated exposures: e-value 0.")
    assert "20 would be needed at level 0.05" in str(fair)
    bad = audit(make_log([(7 * r, "a", 0.5, 1, "") for r in range(60)]), alpha=0.01)
    assert bad.overall.found is not None
    assert f"the e-value passed 100 in round {bad.overall.found} and reached" in str(bad)
    assert bad.overall.found % 7 == 0
    assert bad.overall.p_value == pytest.approx(1 / bad.overall.largest)


def test_e_values_beyond_all_floats() -> None:
    report = audit(make_log([(r, "a", 0.5, 1, "") for r in range(3000)]))
    assert report.overall.e_value == math.inf
    assert report.overall.log_e == pytest.approx(report.arms.log_e[0], abs=1)
    assert 1000 < report.overall.log_e < 3000 * math.log(2)
    assert "reached" in str(report)
    assert report.arms.p_value[0] == 0
    assert readable(report.overall.log_e).endswith(f"e+{math.floor(report.overall.log_e / math.log(10))}")


@settings(max_examples=50)
@given(st.data())
def test_sums_over_time_are_those_of_plain_loops(data: st.DataObject) -> None:
    length = data.draw(st.integers(1, 40))
    spans = data.draw(
        st.lists(st.tuples(st.integers(0, length - 1), st.integers(1, length), st.floats(-300, 300)), min_size=1)
    )
    begin = np.array([b for b, _, _ in spans])
    end = np.minimum(begin + [n for _, n, _ in spans], length)
    logs = np.array([v for _, _, v in spans])
    sums = _log_sums(begin, end, logs, length)
    for t in range(length):
        there = [math.exp(v) for b, e, v in zip(begin, end, logs, strict=True) if b <= t < e]
        assert sums[t] == (pytest.approx(math.log(math.fsum(there)), abs=1e-9) if there else -math.inf)


def test_progress_is_told_until_all_is_done() -> None:
    told: list[tuple[int, int]] = []
    audit(make_log(ragged_rows(), grouped=True), progress=lambda done, total: told.append((done, total)))
    assert told == [(k, told[0][1]) for k in range(1, told[0][1] + 1)]


# ---- logs from arrays and files


@pytest.mark.parametrize("log", [3, None, "draws.csv"])
def test_what_is_not_a_log_is_refused(log: Any) -> None:
    with pytest.raises(InputError, match=f"log must be a DrawLog, such as read_draws returns, got {log!r}"):
        audit(log)


def test_a_flag_is_true_or_false() -> None:
    with pytest.raises(InputError, match="fixed_budget must be true or false, got 'no'"):
        audit(DrawLog([1], ["a"], [0.5], [1]), fixed_budget="no")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="with independent draws the number drawn is not fixed: give independent or f"):
        audit(DrawLog([1], ["a"], [0.5], [1]), fixed_budget=True, independent=True)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (([1], ["a"], [1.5], [0]), "exposure must lie between 0 and 1, got 1.5"),
        (([1], ["a"], [math.nan], [0]), "exposure must lie between 0 and 1, got nan"),
        (([1], ["a"], [0.5], [2]), "drawn must be 0 or 1, got 2"),
        (([1.5], ["a"], [0.5], [1]), "rounds must be whole numbers, got 1.5"),
        (([math.inf], ["a"], [0.5], [1]), "rounds must be whole numbers, got inf"),
        (([1, 2], ["a"], [0.5], [1]), "must be lists of the same length"),
        (([[1]], ["a"], [[0.5]], [[1]]), "must be lists of the same length"),
        (([1], ["a"], [0.5], [1], ["f", "m"]), "must be lists of the same length"),
        (([], [], [], []), "the log has no rows"),
        (([1], ["a"], ["x"], [1]), "exposure must be an array of numbers"),
        (([3, 3], ["a", "a"], [0.5, 0.5], [1, 0]), "row 1, round: the arm 'a' already has round 3 in row 0"),
        (
            ([3, 4], ["a", "a"], [0.5, 0.5], [1, 0], ["f", "m"]),
            "row 1, group: the arm 'a' is in 'm', but in 'f' in row 0",
        ),
    ],
)
def test_arrays_that_cannot_be_a_log(columns: tuple[Any, ...], message: str) -> None:
    with pytest.raises(InputError, match=message):
        DrawLog(*columns)


@pytest.mark.parametrize("alpha", [0, 1, -0.1, math.nan])
def test_the_level_lies_between_0_and_1(alpha: float) -> None:
    with pytest.raises(InputError, match="alpha must lie strictly between 0 and 1"):
        audit(make_log(ragged_rows()), alpha)


def test_a_log_of_arrays_takes_numbers_and_booleans_and_keeps_its_own_copy() -> None:
    exposure = np.array([0.2, 0.8])
    log = DrawLog(np.array([5, 2]), np.array([7, 9]), exposure, np.array([True, False]), np.array(["x", "y"]))
    exposure[:] = 1
    assert (log.names, log.group_names) == (("7", "9"), ("x", "y"))
    assert log.rounds.tolist() == [2, 5]
    assert log.exposure.tolist() == [0.2, 0.8]
    assert log.drawn.tolist() == [1, 0]
    assert repr(log) == "DrawLog(2 rows of 2 arms: 2 rounds)"
    with pytest.raises(ValueError, match="read-only"):
        log.exposure[0] = 0.3


HEADER = "round,arm,exposure,drawn,sex\n"


def write(folder: Path, text: str) -> Path:
    file = folder / "draws.csv"
    file.write_text(text)
    return file


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("round,arm,exposure\n1,a,0.5\n", "line 1: lacks the column drawn; it has round, arm, exposure"),
        (HEADER + "1,a,1.5,0,f\n", "line 2, column exposure: must lie between 0 and 1, got '1.5'"),
        (HEADER + "1,a,half,0,f\n", "line 2, column exposure: must be a number, got 'half'"),
        (HEADER + "1,a,0.5,2,f\n", "line 2, column drawn: must be 0 or 1, or false or true, got '2'"),
        (HEADER + "1,a,0.5,0.5,f\n", "line 2, column drawn: must be 0 or 1, or false or true, got '0.5'"),
        (HEADER + "1,a,0.5,yes,f\n", "line 2, column drawn: must be 0 or 1, or false or true, got 'yes'"),
        (HEADER + "1.5,a,0.5,1,f\n", "line 2, column round: must be a whole number, got '1.5'"),
        (
            "round,arm,exposure,drawn\n1,P0,0,1,0\n",
            "line 2: has 5 cells, but the header has 4 columns: perhaps a decimal comma, '0,1' (write 0.1)",
        ),
        (
            HEADER + "2026-03-02,a,0.5,1,f\n2026-03-02,a,0.5,1,f\n",
            "line 3, column round: the arm 'a' already has round 20260302 in line 2",
        ),
        (HEADER + "1,,0.5,1,f\n", "line 2, column arm: the cell is empty"),
        (HEADER + "1,a,0.5,1,\n", "line 2, column sex: the cell is empty"),
        (
            HEADER + "1,a,0.5,1,f\n1,b,0.5,0,f\n\n2,a,.5,1,f\n1,a,0.5,0,f\n",
            "line 6, column round: the arm 'a' already has round 1 in line 2",
        ),
        (
            HEADER + "1,a,0.5,1,f\n1,b,0.5,0,f\n2,a,.5,1,m\n",
            "line 4, column sex: the arm 'a' is in 'm', but in 'f' in line 2",
        ),
        (HEADER, "has no draws in it, only a header"),
    ],
)
def test_files_that_cannot_be_a_log(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(FileError) as raised:
        read_draws(write(tmp_path, text), group="sex" if "sex" in text else None)
    assert str(raised.value).endswith(message)


def test_the_first_of_several_rows_that_stand_twice_is_named(tmp_path: Path) -> None:
    text = HEADER + "9,z,.5,1,f\n1,a,.5,1,f\n9,z,.5,0,f\n1,a,.5,1,f\n"
    with pytest.raises(FileError, match=r"line 4, column round: .* 'z' .* round 9 .* line 2"):
        read_draws(write(tmp_path, text))


def test_a_group_column_that_is_not_there_lists_those_that_are(tmp_path: Path) -> None:
    file = write(tmp_path, HEADER + "1,a,0.5,1,f\n")
    with pytest.raises(FileError, match=r"column site.* round, arm, exposure, drawn, sex"):
        read_draws(file, group="site")


def test_csv_and_parquet_give_the_same_log(tmp_path: Path) -> None:
    rows = ragged_rows()
    text = HEADER + "".join(f"{r},{arm},{e!r},{bool(x)},{sex}\n" for r, arm, e, x, sex in rows)
    columns = dict(zip(HEADER.strip().split(","), zip(*rows, strict=True), strict=True))
    columns["drawn"] = tuple(bool(x) for x in columns["drawn"])
    pq.write_table(pa.table({key: list(values) for key, values in columns.items()}), tmp_path / "draws.parquet")
    for file in (write(tmp_path, text), tmp_path / "draws.parquet"):
        report = audit(read_draws(file, group="sex"))
        assert report.overall == audit(make_log(rows, grouped=True)).overall


def test_rounds_may_be_dates_and_keep_their_order(tmp_path: Path) -> None:
    rows = [(r, arm, 0.5, (r + k) % 3 == 0) for r in range(9) for k, arm in enumerate("ab")]
    days = np.datetime64("2026-02-16") + 7 * np.arange(9)
    expected = audit(DrawLog(*zip(*rows, strict=True)))
    for written in (days.astype(str), np.char.replace(days.astype(str), "-", ""), days):
        if written is days:
            log = DrawLog([days[r] for r, *_ in rows], *list(zip(*rows, strict=True))[1:])
        else:
            log = read_draws(write(tmp_path, HEADER + "".join(f"{written[r]},{a},{e},{x},f\n" for r, a, e, x in rows)))
        assert log.rounds[[0, -1]].tolist() == [20260216, 20260413]
        assert audit(log).overall.log_e == expected.overall.log_e
    months = DrawLog(np.array(["2026-03", "2025-12"], "datetime64[M]"), ["a", "a"], [0.5, 0.5], [0, 1])
    assert months.rounds.tolist() == [202512, 202603]


def test_names_in_the_figure_are_no_mathematics(tmp_path: Path) -> None:
    rows = [(r, arm, 0.5, (r + k) % 2, "$\\frac{$") for r in range(9) for k, arm in enumerate(["$x$", "$\\frac{$"])]
    audit(DrawLog(*zip(*rows, strict=True))).plot().savefig(tmp_path / "audit.png")
    audit(DrawLog(*list(zip(*rows, strict=True))[:4])).plot().savefig(tmp_path / "audit.png")


def test_groups_of_any_name_have_a_line_of_their_own() -> None:
    rows = [(r, arm, 0.5, (r + k) % 2, arm) for r in range(9) for k, arm in enumerate(["overall", "_hidden"])]
    left, _ = audit(DrawLog(*zip(*rows, strict=True))).plot().axes
    names = labels(left)
    assert names[0] == "overall"
    assert {"group overall", "group _hidden"} < set(names)


def test_tables_are_saved_with_the_groups_beside_them(tmp_path: Path) -> None:
    report = audit(make_log(ragged_rows(), grouped=True))
    assert report.groups is not None
    files = report.save(tmp_path / "audit.csv")
    assert [file.name for file in files] == ["audit.csv", "audit-groups.csv"]
    with files[0].open(newline="") as stream:
        kept = list(csv.DictReader(stream))
    assert [row["arm"] for row in kept] == list(report.arms.names)
    assert [float(row["low"]) for row in kept] == report.arms.low.tolist()
    assert [row["flagged"] for row in kept] == ["False"] * 5
    files = report.save(tmp_path / "audit.parquet")
    stored = pq.read_table(files[1]).to_pydict()
    assert stored["group"] == ["f", "m"]
    assert stored["members"] == [3, 2]
    assert stored["e_value"] == report.groups.e_value.tolist()
    alone = audit(make_log(ragged_rows()))
    assert alone.save(tmp_path / "alone.csv") == (tmp_path / "alone.csv",)
    with pytest.raises(FileError, match=r"audits are kept in \.csv or \.parquet files"):
        report.save(tmp_path / "audit.xlsx")


def test_tables_are_also_data_frames() -> None:
    report = audit(make_log(ragged_rows(), grouped=True))
    assert report.groups is not None
    assert report.table().to_dict("list") == report.arms.columns("arm")
    assert report.table("groups").to_dict("list") == report.groups.columns("group")
    with pytest.raises(InputError, match="there is no table of groups"):
        audit(make_log(ragged_rows())).table("groups")
    with pytest.raises(InputError, match="what must be one of arms, groups, got 'people'"):
        report.table("people")  # type: ignore[arg-type]


def labels(axes: Any) -> list[str]:
    return [text.get_text() for text in axes.get_legend().get_texts()]


def test_the_figure_shows_groups_or_the_most_suspicious_arms(tmp_path: Path) -> None:
    figure = audit(make_log(ragged_rows(), grouped=True)).plot()
    left, right = figure.axes
    assert labels(left)[:2] == ["overall", "largest of any arm so far"]
    assert sorted(labels(left)[2:4]) == ["group f", "group m"]
    assert labels(left)[4] == "20, needed at level 0.05"
    assert [tick.get_text() for tick in right.get_yticklabels()] == ["m", "f"]
    rng = np.random.default_rng(2)
    drawn: AnyArray = rng.random((30, 60)) < 0.2
    drawn[:, 50] = True
    exposure: FloatArray = np.full(30 * 60, 0.2)
    log = DrawLog(np.repeat(np.arange(30), 60), np.tile(np.arange(60), 30), exposure, drawn.ravel())
    figure = audit(log).plot()
    figure.savefig(tmp_path / "audit.png")
    ticks = [tick.get_text() for tick in figure.axes[1].get_yticklabels()]
    assert len(ticks) == 40
    assert "50" in ticks
    assert figure.axes[1].get_title(loc="left") == "Shortfall of 40 of 60 arms"
