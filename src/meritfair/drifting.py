r"""Do recent outcomes still fit the old ones? A test to be looked at whenever one likes, and one for a single look.

If nothing changes, the outcomes of arm i after state s and action a are good with a probability that stays as it is. If
something changes in round :math:`\tau`, their log-odds are shifted by :math:`\eta` from then on, for all arms alike:
after one (state, action), or after all four.

**Scores.** Let :math:`\mu_c, \sigma_c^2` be the mean and variance of the probability of cell c = (i, s, a) under the
pooled posterior (`fit_prior`) after the rounds up to t, and :math:`a_c` the number of its outcomes, :math:`g_c` of the
good ones, in the rounds :math:`\tau \dots t`. The logarithm of the marginal likelihood has the derivatives

.. math:: S_t(\tau) = \sum_c (g_c - a_c \mu_c), \qquad
    C_t(\tau, \tau') = \sum_c \big( \mu_c (1 - \mu_c) - \sigma_c^2 \big) \min(a_c, a'_c) - \sigma_c^2 a_c a'_c

in :math:`\eta` at 0: the score for a change in :math:`\tau`, and its covariance with the one for :math:`\tau'`. For a
prior that knows nothing this is the Mantel-Haenszel score, with an arm's state and action as the stratum. The part of a
score that a shift from the first round on explains is subtracted (regression on :math:`S_t(1)`), so that the place of
the prior does not matter, only its shape. This is done for each cohort of arms that joined at about the same time, and
then scores are added up: otherwise newcomers who differ from all others, and of whom little is known, look like a
change.

**At any time.** For a normal shift, :math:`\eta \sim N(0, w^2)`, the Bayes factor is, with :math:`V = C_t(\tau, \tau)`,

.. math:: E_t(\tau) = \frac{1}{\sqrt{1 + w^2 V}} \exp \frac{w^2 S_t(\tau)^2}{2 (1 + w^2 V)} .

The *e-value* after round t is the mean over change times, with weights :math:`h / ((\tau + h - 1)(\tau + h))` and 1 for
those yet to come, and over where: half of the weight is on everything, the rest on the four (state, action). If the
model is right it is a martingale from 1, so that the probability that it *ever* reaches :math:`1/\alpha` is at most
:math:`\alpha`. What is expected after round t is worked out from the rounds up to t alone.

**One look.** The statistic is the largest :math:`|S_T(\tau)| / \sqrt V` over change times and over where. Its p-value
comes from draws of normal scores with the covariance C. It is valid for one look whose time was chosen beforehand, and
finds smaller changes, as nothing is kept for later looks.

**Why pooled.** With each arm's own share as the expected one, scores are biased: an arm stays in the good state as long
as outcomes are good, so how often, and when, a cell is visited depends on its outcomes. A posterior is not misled by
that. Among thousands of arms with few rounds it is the difference between a level that holds and one that does not.

**Approximate.** Scores are taken as normal, and the prior is fitted to the same outcomes, anew whenever there are 30 %
more rounds. Where it is uncertain to which class an arm belongs, its cells are taken as independent, and
:math:`\sigma_c^2` is at most what it would be without a prior, so that no variance is below the one of Mantel and
Haenszel. ``benchmarks/drift.py`` measures how well both levels hold. Outcomes of a round are taken as independent,
given states and actions: rounds that are good or bad for all count as changes. Only complete transitions are looked at,
not gaps. After `_EVERY` rounds, changes and looks are every second round, after twice as many every fourth, and so on.

References
----------
N. Mantel and W. Haenszel, "Statistical aspects of the analysis of data from retrospective studies of disease",
Journal of the National Cancer Institute 22 (1959).
D. W. K. Andrews, "Tests for parameter instability and structural change with unknown change point",
Econometrica 61 (1993).
A. Ramdas, P. Grünwald, V. Vovk and G. Shafer, "Game-theoretic statistics and safe anytime-valid inference",
Statistical Science 38 (2023).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from meritfair.core.arrays import BoolArray, FloatArray, IntArray, frozen
from meritfair.core.checks import check_kind, check_number, check_whole
from meritfair.core.errors import InputError
from meritfair.core.figures import two_panels
from meritfair.core.texts import several
from meritfair.datasets.logs import StateLog
from meritfair.model.counts import Counts
from meritfair.model.posterior import Prior, fit_prior

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CELLS = ("bad, not pulled", "bad, pulled", "good, not pulled", "good, pulled")  # before the outcome
POWER = 0.8  # with which a change of the stated size is found
_EVERYWHERE = 4  # after the four cells
_WHERE = np.array([0.125, 0.125, 0.125, 0.125, 0.5])  # weights of the cells, and of everything
_WIDTH = 0.5  # w: standard deviation of the shift
_HORIZON = 20.0  # h: half of the weight is on changes in this many rounds
_EVERY = 64
_GROWTH = 1.3  # in rounds, from one fit of the prior to the next
_LEAST_INFORMATION = 0.1  # of a change that one look considers, as a part of the most
_DRAWS = 10_000
_DRAWS_OF_POWER = 1_000
_LARGEST = 3.0  # shift of the log-odds: from 50 to 5 %
_AT_ONCE = 1 << 22  # numbers
_BLUE, _ORANGE = "#0072B2", "#D55E00"


class Change(NamedTuple):
    """The size of a change: of the log-odds of a good outcome, and by how many percentage points fewer are good."""

    log_odds: float
    points: float

    def __str__(self) -> str:
        return f"{self.points:.1f} percentage points fewer good outcomes ({self.log_odds:.2f} in log-odds)"


@dataclass(frozen=True, eq=False)
class Drift:
    """Whether outcomes have changed over the rounds of a log.

    Attributes
    ----------
    rounds : ndarray of str
        The rounds that have outcomes, as the log names them: numbers or dates.
    e_values : ndarray
        The e-value after each of them: the test to be looked at whenever one likes. It stays as it is in rounds after
        which one does not look.
    arm_e_values : ndarray, shape (N,)
        After the last round, the e-value for a change of each arm by itself, divided by the number of arms: it compares
        with the same 1 / alpha.
    p_value : float
        That of the test for one look, after the last round.
    cells : list of dict
        For everyone, by state and action before the outcome: the e-value, the p-value of one look, adjusted for all
        that is looked at, the most plausible round of a change, and the shares of good outcomes before it and since.
    findable, findable_at_one_look : Change or None
        Which change for everyone, after half of the rounds, is found with a probability of about 80 % at any time,
        and at one look; None if not even 3 in log-odds would be. To first order: large changes, the only ones to be
        found with few arms, are found somewhat less often.
    alpha : float
        The probability of a false alarm: ever, and at one look.
    names : tuple of str
        The arms.
    """

    rounds: Any
    e_values: FloatArray
    arm_e_values: FloatArray
    p_value: float
    cells: list[dict[str, Any]]
    findable: Change | None
    findable_at_one_look: Change | None
    alpha: float
    names: tuple[str, ...]

    @property
    def alarm(self) -> str | None:
        """The first round after which the e-value had reached 1 / alpha, or None."""
        reached = np.flatnonzero(self.e_values >= 1 / self.alpha)
        return str(self.rounds[reached[0]]) if len(reached) else None

    @property
    def arms(self) -> tuple[str, ...]:
        """The arms that have changed by themselves."""
        return tuple(self.names[i] for i in np.flatnonzero(self.arm_e_values >= 1 / self.alpha))

    def __repr__(self) -> str:
        return f"Drift({self.description})"

    @property
    def description(self) -> str:
        """What was found, in a sentence."""
        if self.alarm is not None:
            return f"{self._change('e_value', max)} (alarm in round {self.alarm})"
        none = f"no sign of a change in {several(len(self.rounds), 'round')}: e-value {self.e_values[-1]:.2g}"
        if self.p_value > self.alpha:
            return f"{none}, p-value of one look {self.p_value:.2g}"
        return (
            f"no alarm, e-value {self.e_values[-1]:.2g}, but at one look {self._change('p_value', min)} "
            f"(p-value {self.p_value:.2g})"
        )

    def _change(self, by: str, best: Callable[..., dict[str, Any]]) -> str:
        most = best(self.cells, key=lambda cell: cell[by])
        return (
            f"outcomes after {most['after']} no longer fit earlier ones since about round {most['since']}: "
            f"{100 * most['before']:.0f} % good before, {100 * most['now']:.0f} % since"
        )

    @property
    def power(self) -> str:
        """Which change would have been found, in a sentence."""
        sizes = [
            f"not even {_LARGEST:g} in log-odds" if size is None else str(size)
            for size in (self.findable, self.findable_at_one_look)
        ]
        return (
            "A change for everyone after half of the rounds would be found with a probability of about "
            f"{100 * POWER:.0f} % from this size on: {sizes[0]} at any time, {sizes[1]} at one look."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values."""
        found = {"findable": self.findable, "findable_at_one_look": self.findable_at_one_look}
        return {
            "alarm": self.alarm,
            "alpha": self.alpha,
            "e_value": float(self.e_values[-1]),
            "largest_e_value": float(self.e_values.max()),
            "p_value": self.p_value,
            "power": POWER,
            **{name: None if size is None else size._asdict() for name, size in found.items()},
            "cells": self.cells,
            "arms": list(self.arms),
        }

    def plot(self, *, figsize: tuple[float, float] | None = None) -> Figure:
        """Draw the e-value over the rounds, and the shares of good outcomes before and since the likeliest change."""
        with two_panels(self.description, 3.6, None, figsize) as (figure, left, right):
            steps = np.arange(1, len(self.rounds) + 1)
            left.plot(steps, self.e_values, color=_BLUE)
            left.axhline(1 / self.alpha, color="#888888", linestyle="--", linewidth=1)
            left.set(yscale="log", title="Evidence of a change", xlabel="round", ylabel="e-value; dashed: alarm")
            place = np.arange(len(CELLS))
            for key, color, side in (("before", _BLUE, 0.12), ("now", _ORANGE, -0.12)):
                shares = [cell[key] for cell in self.cells[: len(CELLS)]]
                right.plot(shares, place + side, "o", color=color, label={"now": "since"}.get(key, key))
            right.set_yticks(place, CELLS)
            right.set(title="Good outcomes", xlabel="share, before and since the likeliest change", xlim=(0, 1))
            right.legend()
        return figure


def drift(log: StateLog, *, alpha: float = 0.05, seed: int = 0) -> Drift:
    """Test whether outcomes have changed over the rounds of a log: at any time, and for one look.

    Parameters
    ----------
    log : StateLog
    alpha : float
        The probability of a false alarm: of the one test however often one looks, of the other at one look.
    seed : int
        Of the draws behind the p-value of one look, and behind the size of a change that is found.

    Examples
    --------
    Forty arms that answer a pull less and less often after round 30:

    >>> rng = np.random.default_rng(1)
    >>> good = np.where(np.arange(60) < 30, 0.7, 0.4)
    >>> states = (rng.random((40, 60)) < good).astype(int)
    >>> log = StateLog(np.repeat(np.arange(40), 60), np.tile(np.arange(60), 40), states.ravel(), np.zeros(2400))
    >>> found = drift(log)
    >>> 29 <= int(found.alarm) <= 33, found.p_value < 0.001
    (True, True)
    """
    check_kind("log", log, StateLog)
    level = check_number("alpha", alpha, 0.0, 1.0, open_ends=True)
    rng = np.random.default_rng(check_whole("seed", seed, 0))
    if not log.transitions:
        raise InputError("the log has no transitions, so there is nothing to compare")
    order, starts = _by_cohort(log)
    seen = _outcomes(log, order, starts)
    scores, variances = _over_time(seen)
    evidence = _averaged(_log_evidence(scores, variances, seen.looks), seen.looks)
    both = _log_sum(evidence + np.log(_WHERE)[:, None], 0)
    last = _last_look(seen)
    one = _OneLook.of(last.sums, rng)
    arm_e_values = np.empty(log.n_arms)
    arm_e_values[order] = _exp(last.log_arms - np.log(log.n_arms))
    return Drift(
        rounds=seen.labels,
        e_values=frozen(_exp(both[np.searchsorted(seen.looks, np.arange(len(seen.labels)), side="right") - 1])),
        arm_e_values=frozen(arm_e_values),
        p_value=float(one.p_values.min()),
        cells=[_about(seen, last.sums, evidence[where, -1], one.p_values[where], where) for where in range(5)],
        findable=last.change(one.size_found(seen.half, lambda some: _reach(some, one.variance, seen.looks, level))),
        findable_at_one_look=last.change(one.size_found(seen.half, lambda some: one.rejected(some, level))),
        alpha=level,
        names=log.arms,
    )


@dataclass(frozen=True)
class _Outcomes:
    """The transitions of a log in order of their rounds; arms are in the order of their cohorts."""

    labels: Any  # of the rounds
    round: IntArray  # the place of each transition's round among them
    arm: IntArray
    cell: IntArray
    good: IntArray
    starts: IntArray  # the first arm of each cohort, and the number of arms

    @property
    def n_arms(self) -> int:
        """The number of arms."""
        return int(self.starts[-1])

    @cached_property
    def looks(self) -> IntArray:
        """The rounds after which one looks, before which a change may have come."""
        rounds = len(self.labels)
        return np.union1d(_grid(rounds), [rounds - 1])

    @property
    def half(self) -> int:
        """The place among change times of one after half of the rounds."""
        return int(np.searchsorted(self.looks, len(self.labels) // 2))

    def cumulated(self, arms: slice) -> tuple[FloatArray, FloatArray]:
        """Return the visits, and the good outcomes, of some arms up to each look, shape (4, arms, looks)."""
        mine = np.flatnonzero((self.arm >= arms.start) & (self.arm < arms.stop))
        shape = (4, arms.stop - arms.start, len(self.looks))
        look = np.searchsorted(self.looks, self.round[mine])
        place = np.ravel_multi_index((self.cell[mine], self.arm[mine] - arms.start, look), shape)
        visits, good = (
            np.bincount(place, weights, np.prod(shape)).reshape(shape).cumsum(axis=2)
            for weights in (None, self.good[mine])
        )
        return visits, good

    def cohorts(self) -> Iterator[list[slice]]:
        """Yield the arms of each cohort, as many at a time as memory allows."""
        step = max(1, _AT_ONCE // (4 * len(self.looks)))
        for start, end in pairwise(self.starts.tolist()):
            yield [slice(first, min(first + step, end)) for first in range(start, end, step)]

    def prior(self, last: int) -> Prior:
        """Return the prior of the arms that were seen, fitted to the rounds up to one."""
        rows = self.round <= last
        place = 4 * self.arm[rows] + self.cell[rows]
        visits, good = (
            np.bincount(place, weights, 4 * self.n_arms).reshape(-1, 2, 2) for weights in (None, self.good[rows])
        )
        known = visits.sum(axis=(1, 2)) > 0
        return fit_prior(Counts(visits[known], good[known]))


def _grid(rounds: int) -> IntArray:
    """Return every round at first, then every second, and so on: a change is long beside the distance."""
    places, step = [np.arange(min(rounds, _EVERY))], 2
    while _EVERY * step // 2 < rounds:
        places.append(np.arange(_EVERY * step // 2 + step - 1, min(rounds, _EVERY * step), step))
        step *= 2
    return np.concatenate(places)


def _outcomes(log: StateLog, order: IntArray, starts: IntArray) -> _Outcomes:
    now = np.flatnonzero(log.has_outcome)
    now = now[np.argsort(log.rounds[now], kind="stable")]
    numbers, first, place = np.unique(log.rounds[now], return_index=True, return_inverse=True)
    labels = numbers.astype(str) if log.dates is None else log.dates[now[first]].astype(str)
    cell = 2 * log.states[now] + log.actions[now]
    return _Outcomes(labels, place, np.argsort(order)[log.arm[now]], cell, log.states[now + 1], starts)


def _by_cohort(log: StateLog) -> tuple[IntArray, IntArray]:
    """Return the arms by cohort, and where each cohort starts.

    A cohort has joined in round 0, in round 1, in round 2 or 3, in 4 to 7, and so on.
    """
    joined = np.full(log.n_arms, log.rounds.max())
    np.minimum.at(joined, log.arm, log.rounds)
    cohort = np.frexp(joined - log.rounds.min())[1]
    order = np.argsort(cohort, kind="stable")
    return order, np.append(np.flatnonzero(np.diff(cohort[order], prepend=-1)), log.n_arms)


@dataclass(frozen=True)
class _Expected:
    """What is expected of the cells of some arms, from all that was seen of them; each of shape (4, arms)."""

    mean: FloatArray  # mu
    variance: FloatArray  # sigma squared
    spread: FloatArray  # mu (1 - mu) - sigma squared

    @classmethod
    def of(cls, prior: Prior, visits: FloatArray, good: FloatArray) -> _Expected:
        known = prior.posterior(Counts(visits.T.reshape(-1, 2, 2), good.T.reshape(-1, 2, 2)))
        mean, variance = (values.reshape(-1, 4).T for values in (known.mean, known.variance))
        spread = mean * (1 - mean) - variance
        return cls(mean, np.minimum(variance, spread / np.maximum(visits, 1)), spread)


def _over_time(seen: _Outcomes) -> tuple[FloatArray, FloatArray]:
    """Return after each look the scores for a change after each, and their variances, shape (5, looks, looks)."""
    looks = len(seen.looks)
    priors = list(_priors(seen))
    scores, variances = np.zeros((2, 5, looks, looks))
    for cohort in seen.cohorts():
        sums = np.zeros((3, 4, looks, looks))  # scores, variances, and covariances with the first score
        for arms in cohort:
            visits, good = seen.cumulated(arms)
            for t in range(looks):
                expected = _Expected.of(priors[t], visits[:, :, t], good[:, :, t])
                sums[:, :, t, : t + 1] += _at_look(expected, visits[:, :, : t + 1], good[:, :, : t + 1])
        score, variance, first = np.concatenate([sums, sums.sum(axis=1, keepdims=True)], axis=1)
        slope = first / np.maximum(first[:, :, :1], 1e-12)
        scores += score - slope * score[:, :, :1]
        variances += np.maximum(variance - slope * first, 0.0)
    return scores, variances


def _priors(seen: _Outcomes) -> Iterator[Prior]:
    """Yield the prior for each look: of the rounds up to it, or up to one not much before."""
    prior, until = None, 0.0
    for look in seen.looks:
        if prior is None or look + 1 >= until:
            prior, until = seen.prior(look), max(look + 2.0, _GROWTH * (look + 1))
        yield prior


def _at_look(expected: _Expected, visits: FloatArray, good: FloatArray) -> FloatArray:
    """Return what some arms add to scores, variances, and covariances with the first score, shape (3, 4, looks)."""
    mean, variance, spread = (x[:, None] for x in (expected.mean, expected.variance, expected.spread))
    before, total = _before(visits), visits[:, :, -1:]
    after = total - before
    likely, widened = (spread @ after)[:, 0], variance * total.swapaxes(1, 2)
    score = (good[:, :, -1:] - _before(good)).sum(axis=1) - (mean @ after)[:, 0]
    return np.stack([score, likely - (variance @ after**2)[:, 0], likely - (widened @ after)[:, 0]])


def _before(cumulated: FloatArray) -> FloatArray:
    """Return the sums before each look's rounds, from those up to it."""
    return np.concatenate([np.zeros_like(cumulated[:, :, :1]), cumulated[:, :, :-1]], axis=2)


def _log_evidence(scores: FloatArray, variances: FloatArray, looks: IntArray) -> FloatArray:
    """Return the logarithms of Bayes factors, times the weights of the change times.

    The change times are on the last axis; each stands for the rounds since the look before.
    """
    wider = 1 + _WIDTH**2 * variances
    first = np.append(0, looks[:-1] + 1)
    weights = _HORIZON / (first + _HORIZON) - _HORIZON / (looks + 1 + _HORIZON)
    return np.asarray((_WIDTH * scores) ** 2 / (2 * wider) - np.log(wider) / 2 + np.log(weights))


def _averaged(log_evidence: FloatArray, looks: IntArray) -> FloatArray:
    """Return the logarithm of the e-value after each look, from shape (..., looks, change times)."""
    there = np.tril(np.ones((len(looks), len(looks)), np.bool_))
    past = _log_sum(np.where(there, log_evidence, -np.inf), -1)
    return np.asarray(np.logaddexp(past, np.log(_HORIZON / (looks + 1 + _HORIZON))))


def _reach(scores: FloatArray, variance: FloatArray, looks: IntArray, level: float) -> BoolArray:
    """Return which draws of scores after the last round, shape (5, draws, looks), have an e-value of 1 / level."""
    past = _log_sum(_log_evidence(scores, variance[:, None], looks), -1)
    e_value = np.logaddexp(past, np.log(_HORIZON / (looks[-1] + 1 + _HORIZON)))
    return np.asarray(_log_sum(e_value + np.log(_WHERE)[:, None], 0) >= -np.log(level))


@dataclass(frozen=True)
class _Sums:
    """The scores after the last round, shape (cohorts, 5, looks), and their covariances, before regression."""

    score: FloatArray
    covariance: FloatArray

    def regressed(self, scores: FloatArray) -> FloatArray:
        """Return the sum over cohorts, shape (5, ..., looks), of scores less what a shift from the start explains."""
        slope = self.covariance[:, :, 0] / np.maximum(self.covariance[:, :, 0, :1], 1e-12)
        slope = slope.reshape(*slope.shape[:2], *[1] * (scores.ndim - 3), -1)
        return np.asarray((scores - slope * scores[..., :1]).sum(axis=0))

    @cached_property
    def variance(self) -> FloatArray:
        """The variances of the scores after that, shape (5, looks)."""
        first = self.covariance[:, :, 0]
        explained = first**2 / np.maximum(first[:, :, :1], 1e-12)
        return np.asarray(np.maximum(np.diagonal(self.covariance, axis1=2, axis2=3) - explained, 0.0).sum(axis=0))


@dataclass(frozen=True)
class _LastLook:
    """What is known after the last round, with the prior of all rounds."""

    sums: _Sums
    log_arms: FloatArray  # logarithms of the e-values of arms by themselves, in the order of cohorts
    mean: FloatArray  # expected chances by cell, arms one after another
    visits: FloatArray

    def change(self, shift: float | None) -> Change | None:
        """Return a shift of the log-odds with what it means in percentage points, if it is downwards."""
        if shift is None:
            return None
        lower = self.mean / (self.mean + (1 - self.mean) * np.exp(shift))
        return Change(shift, 100 * float(np.average(self.mean - lower, weights=self.visits)))


def _last_look(seen: _Outcomes) -> _LastLook:
    prior, cohorts = seen.prior(len(seen.labels)), list(seen.cohorts())
    shape = (len(cohorts), 4, len(seen.looks))
    score, covariance = np.zeros(shape), np.zeros((*shape, len(seen.looks)))
    log_arms, mean, visited = [], [], []
    for k, arms in ((k, arms) for k, cohort in enumerate(cohorts) for arms in cohort):
        visits, good = seen.cumulated(arms)
        expected = _Expected.of(prior, visits[:, :, -1], good[:, :, -1])
        after = visits[:, :, -1:] - _before(visits)
        extra = good[:, :, -1:] - _before(good) - expected.mean[:, :, None] * after
        score[k] += extra.sum(axis=1)
        covariance[k] += _covariance(expected, after)
        own = expected.spread[:, :, None] * after - expected.variance[:, :, None] * after**2
        log_arms.append(_log_evidence(extra.sum(axis=0), own.sum(axis=0), seen.looks))
        mean.append(expected.mean.ravel())
        visited.append(visits[:, :, -1].ravel())
    rest = np.log(_HORIZON / (seen.looks[-1] + 1 + _HORIZON))
    sums = _Sums(*(np.concatenate([part, part.sum(axis=1, keepdims=True)], axis=1) for part in (score, covariance)))
    alone = np.logaddexp(_log_sum(np.concatenate(log_arms), -1), rest)
    return _LastLook(sums, alone, np.concatenate(mean), np.concatenate(visited))


def _covariance(expected: _Expected, after: FloatArray) -> FloatArray:
    """Return what some arms add to the covariances of the scores of each cell, shape (4, looks, looks)."""
    likely = (expected.spread[:, None] @ after)[:, 0]
    shared = (expected.variance[:, :, None] * after).swapaxes(1, 2) @ after
    return np.asarray(np.minimum(likely[:, :, None], likely[:, None, :]) - shared)


@dataclass(frozen=True)
class _OneLook:
    """The test for one look, with draws of normal scores as they are without a change.

    Attributes
    ----------
    sums : _Sums
    variance : ndarray, shape (5, looks)
    considered : ndarray of bool, shape (5, looks)
        Which changes leave enough outcomes before and after.
    scores : ndarray, shape (5, draws, looks)
    """

    sums: _Sums
    considered: BoolArray
    scores: FloatArray

    @classmethod
    def of(cls, sums: _Sums, rng: np.random.Generator) -> _OneLook:
        least = _LEAST_INFORMATION * sums.variance.max(axis=1, keepdims=True)
        return cls(sums, sums.variance >= np.maximum(least, 1e-9), _draw_scores(sums, rng))

    @property
    def variance(self) -> FloatArray:
        """The variances of the scores, shape (5, looks)."""
        return self.sums.variance

    def largest(self, scores: FloatArray) -> FloatArray:
        """Return the largest standardised score of each cell, and of everything, over change times."""
        shape = (5, *[1] * (scores.ndim - 2), -1)
        scale = np.where(self.considered, np.sqrt(np.maximum(self.variance, 1e-12)), np.inf)
        return np.asarray(np.abs(scores / scale.reshape(shape)).max(axis=-1))

    @cached_property
    def without_change(self) -> FloatArray:
        """The largest of all standardised scores in each draw, in ascending order."""
        return np.sort(self.largest(self.scores).max(axis=0))

    @cached_property
    def p_values(self) -> FloatArray:
        """For each cell, and for everything: how often the largest of all is at least what it is here."""
        beyond = _DRAWS - np.searchsorted(self.without_change, self.largest(self.sums.regressed(self.sums.score)))
        return np.asarray((1 + beyond) / (1 + _DRAWS))

    def rejected(self, scores: FloatArray, level: float) -> BoolArray:
        """Return which draws of scores have a p-value below the level."""
        return np.asarray(self.largest(scores).max(axis=0) >= np.quantile(self.without_change, 1 - level))

    def size_found(self, when: int, is_found: Callable[[FloatArray], BoolArray]) -> float | None:
        """Return the shift of everything from one change time on that is found with the stated power, by bisection."""
        direction = self.sums.regressed(self.sums.covariance[:, :, when])[:, None]
        draws = self.scores[:, :_DRAWS_OF_POWER]
        low, high = 0.0, _LARGEST
        if np.mean(is_found(draws + high * direction)) < POWER:
            return None
        while high - low > 0.005:
            middle = (low + high) / 2
            if np.mean(is_found(draws + middle * direction)) < POWER:
                low = middle
            else:
                high = middle
        return high


def _draw_scores(sums: _Sums, rng: np.random.Generator) -> FloatArray:
    """Return draws of normal scores, regressed; those for everything are first the sums of the cells'."""
    total = np.zeros((5, _DRAWS, sums.score.shape[-1]))
    for score, covariance in zip(sums.score, sums.covariance, strict=True):
        values, vectors = np.linalg.eigh(covariance[:4])
        root = (vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]) @ vectors.swapaxes(1, 2)  # whatever their signs
        cells = rng.standard_normal((4, _DRAWS, root.shape[-1])) @ root
        draws = np.concatenate([cells, cells.sum(axis=0, keepdims=True)])
        total += _Sums(score[None], covariance[None]).regressed(draws[None])
    return total


def _log_sum(logs: FloatArray, axis: int) -> FloatArray:
    """Return the logarithm of the sum of exponentials."""
    top = logs.max(axis=axis, keepdims=True)
    return np.asarray(np.log(np.exp(logs - top).sum(axis=axis)) + np.squeeze(top, axis))


def _about(seen: _Outcomes, sums: _Sums, log_e_value: float, p_value: float, where: int) -> dict[str, Any]:
    """Return what is known of a change in one cell, or in all."""
    evidence = _log_evidence(sums.regressed(sums.score), sums.variance, seen.looks)[where]
    k = int(np.argmax(evidence))
    start = 0 if k == 0 else int(seen.looks[k - 1]) + 1
    mine = np.ones(len(seen.cell), np.bool_) if where == _EVERYWHERE else seen.cell == where
    later = seen.round >= start
    before, now = (float(np.mean(seen.good[rows])) if rows.any() else np.nan for rows in (mine & ~later, mine & later))
    return {
        "after": "any state and action" if where == _EVERYWHERE else CELLS[where],
        "e_value": float(_exp(log_e_value)),
        "p_value": float(p_value),
        "since": str(seen.labels[start]),
        "before": before,
        "now": now,
        "outcomes": int(mine.sum()),
    }


def _exp(values: FloatArray | float) -> FloatArray:
    """Return e-values from their logarithms, at most 10 to the power of 300."""
    return np.asarray(np.exp(np.minimum(values, 300 * np.log(10.0))))
