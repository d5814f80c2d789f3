r"""Audit a log of draws: whether the arms got the exposures that were stated.

In round r arm i was to be drawn with probability :math:`e_{ri}`, and :math:`x_{ri}` says whether it was. The
hypothesis is that, given all earlier rounds, :math:`\Pr(x_{ri}=1) = e_{ri}` for every arm; how the arms of a round
depend on each other is left open. Everything here may be looked at after every round.

**Evidence.** An e-value is money made by betting against the hypothesis, from 1, at odds that are fair if it holds:
a nonnegative martingale, so that it ever reaches :math:`1/\alpha` with probability at most :math:`\alpha` (Ville).
For a group (or an arm, a group of one) of :math:`n_r` members let :math:`D_r = \sum_i (x_{ri} - e_{ri})`. A bet
multiplies the money by :math:`1 + \lambda_r D_r`. Since :math:`D_r \ge -c_r` with :math:`c_r = \sum_i e_{ri}`,

.. math:: \lambda_r = \frac{m}{1 + c_r m}, \qquad m = e^{\theta} - 1, \quad \theta > 0,

leaves at least :math:`1/(1 + c_r m) > 0`, whatever the dependence; for a bet on too few draws :math:`D_r` and
:math:`-D_r` change places and :math:`c_r = n_r - \sum_i e_{ri}`. For one arm this is exactly the likelihood ratio of
odds that are shifted by :math:`e^{\pm\theta}`. The e-value is the average over :math:`\theta` in `SHIFTS`, both ways.

**Independent draws.** If each arm was drawn by itself, as in trials of apps, so are the bets of a round: one after
another, with :math:`D` and :math:`c` of a single draw. What a bet on a group then multiplies its money by is the
likelihood ratio of odds that are shifted for all its members alike, which does not have to allow for members who are
all drawn together. The bets on a learned direction are made arm by arm, too, and so are the intervals of groups.

**Many arms.** Arm i owns a part :math:`w_i` of the level: those of the first round share 3/4 evenly, and when later
the arms grow from M' to M, the new ones get :math:`M_1/(4 M' M)` each, which adds up to at most 1/4 however many come
and whatever made them come. The sum of the :math:`w_i` times e-values, with what no arm owns yet, is an e-value again.
The same holds for groups.

**Overall** is the average of two e-values, or three. The sum over arms finds one favoured arm. The sum over groups, if
there are any, finds a favoured group. Bets on a learned direction, :math:`D_r = \sum_i s_{ri} (x_{ri} - e_{ri})` with
:math:`s_{ri} = S_{ri} / (V_{ri} + q)`, which is what the residuals :math:`S` and variances :math:`V` of earlier rounds
say of the arm's odds, find a bias spread thinly over many; they are averaged over `DIRECTIONS`, the q, and over betting
on all arms or only on those drawn too often, which risks less when arms are many. Since the average of three is at
least a third of each, single e-values are shown times their *stake*, :math:`w_i` over two or three. They are compared
with :math:`1/\alpha` as the overall one is, none gets there without it, and the probability that fair draws are ever
accused of anything is at most :math:`\alpha`.

**Intervals.** With :math:`p_{ri}` the true probability, :math:`\psi_c(\lambda) = (-\ln(1-c\lambda) - c\lambda)/c^2` and
:math:`D_r \ge -c_r`, the product of
:math:`\exp(\lambda (D_r - \sum_i (p_{ri} - e_{ri})) - \psi_{c_r}(\lambda) D_r^2)` is a supermartingale for every
:math:`\lambda < 1/c_r`, as :math:`\exp(\lambda\xi - \psi_c(\lambda)\xi^2) \le 1 + \lambda\xi` for
:math:`\xi \ge -c` (Fan, Grama and Liu 2015; Howard, Ramdas, McAuliffe and Sekhon 2021). An average over :math:`\lambda`
bounds the true shortfall :math:`\sum_r \sum_i (e_{ri} - p_{ri})` at all times, also when it drifts. One whose
:math:`\lambda` a later round forbids loses its money.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from meritfair.auditing.log import DrawLog
from meritfair.core.arrays import AnyArray, FloatArray, IntArray

SHIFTS = 0.005 * 2.0 ** np.arange(10)  # theta: odds shifted by half a percent up to thirteen times
DIRECTIONS = (4.0, 32.0, 256.0, 2048.0)  # q: biases of the odds of about 1/sqrt(q) are expected
_FIRST_ROUND = 0.75  # part of the level that the arms of the first round share
_RATES = 2.0 ** np.arange(4, -10, -1)  # lambda, for one arm
_AT_ONCE = 8192  # rows


@dataclass(frozen=True, eq=False)
class Histories:
    """The rounds of each unit (an arm or a group), one unit after another, each in order of time.

    ``round`` and ``unit`` are numbers from 0; ``size`` is how many members took part, ``expected`` and ``drawn`` how
    many were to be drawn and were, ``most`` how many could be; ``starts`` is where each unit begins. ``due`` is what
    was due, if the log says so.
    """

    unit: IntArray
    round: IntArray
    size: FloatArray
    expected: FloatArray
    drawn: FloatArray
    most: FloatArray
    starts: IntArray
    due: FloatArray | None

    @cached_property
    def deviation(self) -> FloatArray:
        """D: drawn less expected."""
        return self.drawn - self.expected

    @cached_property
    def losses(self) -> tuple[FloatArray, FloatArray]:
        """The most that D, and that -D, can be below zero."""
        return self.expected, np.maximum(0.0, self.most - self.expected)

    @cached_property
    def lengths(self) -> IntArray:
        """How many rounds each unit has."""
        return np.diff(np.append(self.starts, len(self.unit)))

    def total(self, values: AnyArray) -> FloatArray:
        """Return the sum over each unit's rounds."""
        return np.asarray(np.add.reduceat(values, self.starts), dtype=np.float64)

    def running(self, values: FloatArray) -> FloatArray:
        """Return the sums over each unit's rounds up to each."""
        sums = np.cumsum(values)
        return np.asarray(sums - np.repeat((sums - values)[self.starts], self.lengths))


def histories(log: DrawLog, unit: IntArray, fixed_budget: bool = False, *, each_draw: bool = False) -> Histories:
    """Gather the rows of the log by unit and round, or one after another; `unit` has a number for each row."""
    key = unit * len(log.rounds) + log.round
    order = np.argsort(key, kind="stable")
    begins = np.arange(len(key)) if each_draw else np.flatnonzero(np.diff(key[order], prepend=-1))
    size = np.diff(np.append(begins, len(key))).astype(np.float64)
    of_unit, of_round = np.divmod(key[order[begins]], len(log.rounds))
    most = size
    if fixed_budget:
        taken, there = np.bincount(log.round, log.drawn)[of_round], np.bincount(log.round)[of_round]
        most = np.where(size < there, np.minimum(size, taken), size)
    return Histories(
        of_unit,
        of_round,
        size,
        np.add.reduceat(log.exposure[order], begins),
        np.add.reduceat(log.drawn[order], begins),
        most,
        np.flatnonzero(np.diff(of_unit, prepend=-1)),
        None if log.due is None else np.add.reduceat(log.due[order], begins),
    )


def parts_of_level(first: IntArray) -> FloatArray:
    """Return each unit's part of the level, from the number of the round in which it first took part."""
    there = np.cumsum(np.bincount(first)).astype(np.float64)
    before = np.append(there[0], there[:-1])
    late = (1 - _FIRST_ROUND) * there[0] / (before[first] * there[first])
    return np.asarray(np.where(first == 0, _FIRST_ROUND / there[0], late))


def log_evidence(units: Histories, tick: Callable[[], None]) -> FloatArray:
    """Return the logarithm of each unit's e-value after each of its rounds, without its stake."""
    found = np.empty(len(units.unit))
    ticks = np.linspace(0, len(found), len(SHIFTS) + 1)[1:]
    for some, rows in _stretches(units):
        starts, lengths = units.starts[some] - rows.start, units.lengths[some]
        money = np.stack([*_bets(units.deviation[rows], *(loss[rows] for loss in units.losses))])
        np.cumsum(money, axis=1, out=money)
        before = np.concatenate([np.zeros((len(money), 1)), money[:, starts[1:] - 1]], axis=1)
        money -= np.repeat(before, lengths, axis=1)
        found[rows] = _log_mean(money)
        while len(ticks) and rows.stop >= ticks[0]:
            ticks = ticks[1:]
            tick()
    certain = (units.expected == 0) & (units.drawn > 0) | (units.expected == units.size) & (units.drawn < units.size)
    impossible = units.running(certain.astype(np.float64)) > 0.5
    return np.where(impossible, np.inf, found)


def _bets(deviation: FloatArray, too_many: FloatArray, too_few: FloatArray) -> Iterator[FloatArray]:
    """Yield by what factor each bet multiplies its money, as logarithms: by shift of the odds, both ways."""
    for m in np.expm1(SHIFTS).tolist():
        yield np.log1p(m * deviation / (1 + too_many * m))
        yield np.log1p(-m * deviation / (1 + too_few * m))


def _log_mean(logs: FloatArray) -> FloatArray:
    """Return the logarithm of the mean of numbers over the first axis, from their logarithms, which are overwritten."""
    top = logs.max(axis=0)
    logs -= top
    np.exp(logs, out=logs)
    return np.asarray(top + np.log(logs.sum(axis=0)) - math.log(len(logs)))


def together(units: Histories, log_e: FloatArray, parts: FloatArray, n_rounds: int) -> FloatArray:
    """Return the logarithm of the sum of the units' parts times e-values, with what none owns yet, after each round."""
    until = np.append(units.round[1:], n_rounds)
    until[units.starts[1:] - 1] = n_rounds
    owned = np.cumsum(np.bincount(units.round[units.starts], parts, n_rounds))
    sums = _log_sums(units.round, until, log_e + np.log(parts)[units.unit], n_rounds)
    return np.asarray(np.logaddexp(sums, np.log(1 - owned)))


def _log_sums(begin: IntArray, end: IntArray, logs: FloatArray, length: int) -> FloatArray:
    """Return for each time the logarithm of the sum of what holds then; each holds from `begin` to before `end`.

    Times are halved again and again, and each summand goes to the few longest stretches that make up its time.
    So nothing is ever subtracted, which would lose all digits when an e-value falls from a great height.
    """
    size = 1 << (length - 1).bit_length()
    sums = np.full(2 * size, -np.inf)  # stretch k is made of the stretches 2 k and 2 k + 1
    left, right = begin + size, end + size
    while len(left):
        for alone, stretch in ((left % 2 == 1, left), (right % 2 == 1, right - 1)):
            np.logaddexp.at(sums, stretch[alone], logs[alone])
        left, right = (left + 1) // 2, right // 2
        more = left < right
        left, right, logs = left[more], right[more], logs[more]
    width = 1
    while width < size:
        whole, halves = sums[width : 2 * width], sums[2 * width : 4 * width]
        np.logaddexp(halves, np.repeat(whole, 2), out=halves)
        width *= 2
    return sums[size : size + length]


def log_direction(arms: Histories, n_rounds: int, independent: bool, tick: Callable[[], None]) -> FloatArray:
    """Return the logarithm of the e-value of bets on the learned direction, after each round."""
    variance = arms.expected * (1 - arms.expected)
    residual_before = arms.running(arms.deviation) - arms.deviation
    variance_before = arms.running(variance) - variance
    mixed = np.full(n_rounds, -np.inf)
    for q in DIRECTIONS:
        direction = residual_before / (variance_before + q)
        for s in (direction, np.maximum(direction, 0.0)):
            gain, loss = s * arms.deviation, np.where(s > 0, s * arms.losses[0], -s * arms.losses[1])
            if independent:
                money = np.bincount(arms.round, np.log1p(gain / (1 + loss)), n_rounds)
            else:
                gains, losses = (np.bincount(arms.round, values, n_rounds) for values in (gain, loss))
                money = np.log1p(gains / (1 + losses))
            mixed = np.logaddexp(mixed, np.cumsum(money))
        tick()
    return np.asarray(mixed - math.log(2 * len(DIRECTIONS)))


def rounds_until_found(exposure: FloatArray, stake: FloatArray, alpha: float, part: float) -> FloatArray:
    """Return after how many rounds each arm's e-value reaches 1 / alpha if it is drawn less often, by a part.

    That is where the average over bets is if each grows at the rate that is expected of it; infinite if never.
    """
    e, p = exposure, (1 - part) * exposure
    growth = []
    for drawn, not_drawn in zip(_bets(1 - e, e, 1 - e), _bets(-e, e, 1 - e), strict=True):
        growth.append(p * drawn + (1 - p) * not_drawn)
    rates, goal = np.array(growth), -np.log(alpha * stake)
    low, high = np.zeros(len(e)), np.full(len(e), 50.0)  # of the logarithm
    for _ in range(60):
        middle = (low + high) / 2
        reached = _log_mean(np.exp(middle) * rates) >= goal
        low, high = np.where(reached, low, middle), np.where(reached, middle, high)
    found = np.where(high < 49, np.exp(high), np.inf)
    return np.where(e < 1, found, math.log(0.5) / math.log1p(-part))  # at exposure 1 the first miss is decisive


def shortfall_bounds(units: Histories, level: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return bounds on each unit's true mean shortfall for a member and round; each unit has a level of its own."""
    turns, entitled = units.total(units.size), units.total(units.expected)
    short = -units.total(units.deviation)
    too_many, too_few = (_largest_deviation(units, loss, level / 2) for loss in units.losses)
    low = np.maximum((short - too_few) / turns, entitled / turns - 1)
    high = np.minimum((short + too_many) / turns, entitled / turns)
    return low, high


def _largest_deviation(units: Histories, loss: FloatArray, level: FloatArray) -> FloatArray:
    """Return how far each unit's draws can have strayed by chance to the side on which D loses at most `loss`."""
    rates = _RATES / units.most[units.starts].clip(1)[:, None]
    found = np.empty(len(rates))
    for some, rows in _stretches(units):
        starts, lengths = units.starts[some] - rows.start, units.lengths[some]
        spent = _spent(starts, lengths, loss[rows], units.deviation[rows], rates[some])
        found[some] = _deviation(rates[some], spent, level[some])
    return found


def _stretches(units: Histories) -> Iterator[tuple[slice, slice]]:
    """Yield units, and their rows, about `_AT_ONCE` at a time: what fits into a core's cache is worked out quicker."""
    ends = units.starts + units.lengths
    first = 0
    while first < len(ends):
        begin = int(units.starts[first])
        last = max(first + 1, int(np.searchsorted(ends, begin + _AT_ONCE, "right")))
        yield slice(first, last), slice(begin, int(ends[last - 1]))
        first = last


def _spent(
    starts: IntArray, lengths: IntArray, loss: FloatArray, deviation: FloatArray, rates: FloatArray
) -> FloatArray:
    """Return what each unit has spent at each rate, shape (units, rates): the sums of psi times the square of D."""
    spent, square = np.empty_like(rates), deviation**2
    with np.errstate(divide="ignore", invalid="ignore"):  # where nothing could be lost, x is small
        part = square / loss**2
        for k in range(len(_RATES)):
            rate = np.repeat(rates[:, k], lengths)
            x = rate * loss
            psi = (-np.log1p(-np.minimum(x, 0.99)) - x) * part
            psi[x >= 0.99] = np.inf
            small = x < 1e-5  # where digits would be lost
            if small.any():
                psi[small] = rate[small] ** 2 * (0.5 + x[small] / 3) * square[small]
            spent[:, k] = np.add.reduceat(psi, starts)
    return spent


def _deviation(rates: FloatArray, spent: FloatArray, level: FloatArray) -> FloatArray:
    """Return the deviation at which the average over the rates reaches 1 / level."""
    goal = np.log(len(_RATES) / level)
    deviation = ((goal[:, None] + spent) / rates).min(axis=1)
    some = np.isfinite(deviation)
    rates, spent, goal, at = rates[some], spent[some], goal[some], deviation[some]
    for _ in range(6):  # Newton's method on a convex function, from above: every step is a valid bound
        powers = rates * at[:, None] - spent
        top = powers.max(axis=1, keepdims=True)
        weight = np.exp(powers - top)
        height = top[:, 0] + np.log(weight.sum(axis=1)) - goal
        at = at - height * weight.sum(axis=1) / (weight * rates).sum(axis=1)
    deviation[some] = at
    return np.asarray(deviation)
