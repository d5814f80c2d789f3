"""From a log to its audit: all arms, all groups and the draws as a whole are tested together, at one level."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import count

import numpy as np

from meritfair.auditing import evidence
from meritfair.auditing.accounts import accounts
from meritfair.auditing.log import DrawLog
from meritfair.auditing.report import Audit, AuditTable, Budget, Evidence, Violation
from meritfair.core.arrays import AnyArray, FloatArray, IntArray
from meritfair.core.checks import check_flag, check_number
from meritfair.core.errors import InputError
from meritfair.core.progress import Progress, following

_UNEVEN = 0.01  # exposures that were rounded do not add up to the last digit


def audit(
    log: DrawLog,
    alpha: float = 0.05,
    *,
    fixed_budget: bool = False,
    independent: bool = False,
    slack: float | None = None,
    progress: Progress = None,
) -> Audit:
    """Weigh the evidence that the draws of a log did not follow the stated exposures.

    Parameters
    ----------
    log : DrawLog
    alpha : float
        The probability of a false alarm that is allowed, however often the growing log is audited.
    fixed_budget : bool
        Take it as given that the number of draws in each round was set before the draw. No group can then get more
        than that, which makes it much quicker to find a group that gets too little when groups are large.
    independent : bool
        Take it as given that each arm was drawn by itself, with a coin of its own, as in trials of apps. The number
        drawn then varies, and groups are tested more powerfully.
    slack : float, optional
        How far from 0 the account of an arm may be, in pulls; for a log with due exposures.
    progress : bool or callable
        True shows a bar. A function is told how many of how many steps are done.

    Examples
    --------
    >>> from meritfair import DrawLog
    >>> rng = np.random.default_rng(1)
    >>> rounds, arms = np.repeat(np.arange(500), 2), ["Ada", "Bo"] * 500
    >>> heads = rng.random(500) < 0.7
    >>> log = DrawLog(rounds, arms, np.full(1000, 0.5), np.column_stack([heads, ~heads]).ravel())
    >>> report = audit(log)
    >>> report.overall.violated, report.overall.found, report.arms.flagged.tolist()
    (True, 97, [True, True])
    """
    if not isinstance(log, DrawLog):
        raise InputError(f"log must be a DrawLog, such as read_draws returns, got {log!r}")
    level = check_number("alpha", alpha, 0.0, 1.0, open_ends=True)
    check_flag("fixed_budget", fixed_budget)
    if check_flag("independent", independent) and fixed_budget:
        raise InputError("with independent draws the number drawn is not fixed: give independent or fixed_budget")
    bound = check_slack(slack)
    if bound is not None and log.due is None:
        raise InputError("slack needs a log with due exposures, and this one has none")
    with following(progress, "auditing") as tell:
        return _audit(log, level, (fixed_budget, independent), bound, tell)


def check_slack(slack: float | None) -> float | None:
    """Return the slack if it is None, infinite or a number from 0."""
    return slack if slack is None or slack == math.inf else check_number("slack", slack, 0.0)


def _audit(
    log: DrawLog, level: float, given: tuple[bool, bool], slack: float | None, tell: Callable[[int, int], None]
) -> Audit:
    """Weigh all arms, all groups, and the draws as a whole; `given` is whether budgets are fixed, draws independent."""
    fixed_budget, independent = given
    n_rounds, kinds = len(log.rounds), 2 if log.group is None else 3
    tick = _ticks(tell, (len(evidence.SHIFTS) + 1) * (kinds - 1) + len(evidence.DIRECTIONS))
    arms, ones = evidence.histories(log, log.arm), np.ones(len(log.names), np.int64)
    arm_table, arm_logs, overall = _weigh(arms, arms, log.names, ones, log.rounds, kinds, level, tick)
    group_table: AuditTable | None = None
    courses: tuple[tuple[IntArray, FloatArray], ...] = ()
    if log.group is not None:
        unit, sizes = log.group[log.arm], np.bincount(log.group)
        groups = evidence.histories(log, unit, fixed_budget)
        bets = evidence.histories(log, unit, each_draw=True) if independent else groups
        group_table, logs, summed = _weigh(groups, bets, log.group_names, sizes, log.rounds, kinds, level, tick)
        courses = tuple(zip(*(np.split(part, groups.starts[1:]) for part in (groups.round, logs)), strict=True))
        overall = np.logaddexp(overall, summed)
    overall = np.logaddexp(overall, evidence.log_direction(arms, n_rounds, independent, tick)) - math.log(kinds)
    largest_arm = np.full(n_rounds, -np.inf)
    np.maximum.at(largest_arm, arms.round, arm_logs)
    return Audit(
        alpha=level,
        fixed_budget=fixed_budget,
        independent=independent,
        slack=slack,
        overall=_evidence(overall, log.rounds, level),
        arms=arm_table,
        groups=group_table,
        certain=_certain(log),
        budget=_budget(log),
        rounds=log.rounds,
        _overall=overall,
        _largest_arm=np.maximum.accumulate(largest_arm),
        _groups=courses,
    )


def _ticks(tell: Callable[[int, int], None], total: int) -> Callable[[], None]:
    numbers = count(1)
    return lambda: tell(next(numbers), total)


def _weigh(
    units: evidence.Histories,
    bets: evidence.Histories,
    names: tuple[str, ...],
    members: IntArray,
    rounds: IntArray,
    kinds: int,
    alpha: float,
    tick: Callable[[], None],
) -> tuple[AuditTable, FloatArray, FloatArray]:
    """Return the table of the units, logarithms of their staked e-values by row, and of their sum by round.

    What is bet on at once are the rows of `bets`: the rounds of the units, or their single draws.
    """
    parts = evidence.parts_of_level(units.round[units.starts])
    plain = evidence.log_evidence(bets, tick)
    if bets is not units:
        plain = plain[np.cumsum(units.size).astype(np.int64) - 1]  # after the last draw of each round
    summed = evidence.together(units, plain, parts, len(rounds))
    low, high = evidence.shortfall_bounds(bets, alpha * parts)
    log_e = plain + np.log(parts / kinds)[units.unit]
    largest = np.maximum.reduceat(log_e, units.starts)
    tick()
    table = AuditTable(
        names=names,
        members=members,
        rounds=units.lengths,
        turns=units.total(units.size).astype(np.int64),
        entitled=units.total(units.expected),
        drawn=units.total(units.drawn),
        low=low,
        high=high,
        stake=parts / kinds,
        log_e=log_e[units.starts + units.lengths - 1],
        log_largest=largest,
        flagged=largest >= -math.log(alpha),
        account=accounts(units, names, rounds),
    )
    return table, log_e, summed


def _evidence(log_e: FloatArray, rounds: IntArray, alpha: float) -> Evidence:
    passed = np.flatnonzero(log_e >= -math.log(alpha))
    return Evidence(float(log_e[-1]), float(log_e.max()), int(rounds[passed[0]]) if len(passed) else None, alpha)


def _certain(log: DrawLog) -> tuple[Violation, ...]:
    wrong = np.flatnonzero((log.exposure == 0) & (log.drawn == 1) | (log.exposure == 1) & (log.drawn == 0))
    wrong = wrong[np.argsort(log.round[wrong], kind="stable")]
    return tuple(
        Violation(int(log.rounds[log.round[row]]), log.names[log.arm[row]], float(log.exposure[row])) for row in wrong
    )


def _budget(log: DrawLog) -> Budget:
    drawn, stated = np.bincount(log.round, log.drawn), np.bincount(log.round, log.exposure)
    uneven, first = _uneven(log, drawn - stated)
    uneven_due, first_due = (None, None) if log.due is None else _uneven(log, np.bincount(log.round, log.due) - stated)
    variation, error = _variation(log, drawn - stated)
    return Budget(int(drawn.min()), int(drawn.max()), uneven, first, uneven_due, first_due, variation, error)


def _variation(log: DrawLog, difference: AnyArray) -> tuple[float | None, float | None]:
    """Return how much the number drawn varies beside that of independent draws, and the standard error of that."""
    each = log.exposure * (1 - log.exposure)
    variance, fourth = np.bincount(log.round, each), np.bincount(log.round, each * (1 - 6 * each))
    if not variance.sum():
        return None, None
    error = np.sqrt((fourth + 2 * variance**2).sum()) / variance.sum()
    return float((difference**2).sum() / variance.sum()), float(error)


def _uneven(log: DrawLog, difference: AnyArray) -> tuple[int, int | None]:
    """Return how many rounds have a difference that rounding does not explain, and the number of the first."""
    places = np.flatnonzero(np.abs(difference) > _UNEVEN)
    return len(places), int(log.rounds[places[0]]) if len(places) else None
