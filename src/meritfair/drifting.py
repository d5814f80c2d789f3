r"""Do recent outcomes still fit the old ones? An alarm for people who change, to be looked at whenever one likes.

Each outcome has an expected chance :math:`\hat p`, the posterior mean of its arm, state and action. Let outcomes after
one (state, action) have log-odds :math:`\text{logit}\, \hat p + \eta`, with a shift :math:`\eta` that all arms share
and a normal prior. If nothing changes, one shift fits all rounds; if something has changed in round :math:`\tau`, it
takes two. With :math:`m(r \dots t)` the probability of the outcomes of these rounds, averaged over the shift, the
*e-value* after round t is the mean over change times, with weights :math:`w_\tau = 1 / (\tau (\tau + 1))`,

.. math:: E_t = \sum_{\tau \le t} w_\tau \frac{m(1 \dots \tau - 1)\; m(\tau \dots t)}{m(1 \dots t)}
    + \Big( 1 - \sum_{\tau \le t} w_\tau \Big) ,

and the mean over the four (state, action) and all of them together. It is a Bayes factor, and a martingale that starts
at 1 if the model is right: so the probability that it *ever* reaches :math:`1/\alpha` is at most :math:`\alpha`.

**Approximate.** The null hypothesis is fitted: the expected chances come from the same log, under a prior for classes
of arms that is fitted to it too (`fit_prior`). That leaves chances a little too close to the outcomes, which makes
alarms a little rarer. Simulations without any change show how well the bound holds. Only complete transitions are
looked at, not gaps.

References
----------
A. Ramdas, P. Grünwald, V. Vovk and G. Shafer, "Game-theoretic statistics and safe anytime-valid inference",
Statistical Science 38 (2023).
J. Shin, A. Ramdas and A. Rinaldo, "E-detectors: a nonparametric framework for sequential change detection",
New England Journal of Statistics in Data Science 2 (2024).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from meritfair.core.arrays import FloatArray, IntArray, frozen
from meritfair.core.checks import check_kind, check_number
from meritfair.core.errors import InputError
from meritfair.core.figures import two_panels
from meritfair.core.texts import several
from meritfair.datasets.logs import StateLog
from meritfair.model.posterior import fit_prior

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHIFTS = np.linspace(-2.4, 2.4, 49)  # of log-odds
_WIDTH = 0.7  # standard deviation of the shift under the prior
CELLS = ("bad, not pulled", "bad, pulled", "good, not pulled", "good, pulled")  # before the outcome
_EVERYWHERE = 4  # after the four cells
_BLUE, _ORANGE = "#0072B2", "#D55E00"


@dataclass(frozen=True, eq=False)
class Drift:
    """Whether outcomes have changed over the rounds of a log.

    Attributes
    ----------
    rounds : ndarray of str
        The rounds that have outcomes, as the log names them: numbers or dates.
    e_values : ndarray
        The e-value after each of them.
    arm_e_values : ndarray, shape (N,)
        After the last round, the e-value for a change of each arm by itself, divided by the number of arms: it compares
        with the same 1 / alpha.
    cells : list of dict
        For everyone, by state and action before the outcome: the e-value, the most plausible round of a change, and the
        shares of good outcomes before it and since.
    alpha : float
        The probability of a false alarm, ever.
    names : tuple of str
        The arms.
    """

    rounds: Any
    e_values: FloatArray
    arm_e_values: FloatArray
    cells: list[dict[str, Any]]
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
        if self.alarm is None:
            return f"no sign of a change in {several(len(self.rounds), 'round')}: e-value {self.e_values[-1]:.2g}"
        most = max(self.cells, key=lambda cell: cell["e_value"])
        return (
            f"outcomes after {most['after']} no longer fit earlier ones since about round {most['since']}: "
            f"{100 * most['before']:.0f} % good before, {100 * most['now']:.0f} % since (alarm in round {self.alarm})"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {
            "alarm": self.alarm,
            "alpha": self.alpha,
            "e_value": float(self.e_values[-1]),
            "largest_e_value": float(self.e_values.max()),
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


def drift(log: StateLog, *, alpha: float = 0.05) -> Drift:
    """Test whether outcomes have changed over the rounds of a log.

    Parameters
    ----------
    log : StateLog
    alpha : float
        The probability of a false alarm, however often one looks.

    Examples
    --------
    Forty arms that answer a pull less and less often after round 30:

    >>> rng = np.random.default_rng(1)
    >>> good = np.where(np.arange(60) < 30, 0.7, 0.4)
    >>> states = (rng.random((40, 60)) < good).astype(int)
    >>> log = StateLog(np.repeat(np.arange(40), 60), np.tile(np.arange(60), 40), states.ravel(), np.zeros(2400))
    >>> found = drift(log)
    >>> 29 <= int(found.alarm) <= 33
    True
    """
    check_kind("log", log, StateLog)
    level = check_number("alpha", alpha, 0.0, 1.0, open_ends=True)
    if not log.transitions:
        raise InputError("the log has no transitions, so there is nothing to compare")
    outcomes = _outcomes(log)
    odds, rounds = _signed_odds(log, outcomes), len(outcomes.labels)
    cells = _summed(odds, 5 * outcomes.round + outcomes.cell, 5 * rounds).reshape(rounds, 5, -1)
    cells[:, _EVERYWHERE] = cells[:, :_EVERYWHERE].sum(axis=1)
    by_cell = _mixed(cells, range(1, rounds + 1))
    both = _log_sum(by_cell, 1) - np.log(by_cell.shape[1])
    found = [_about(outcomes, cells, by_cell[-1, cell], cell) for cell in range(5)]
    mine = _exp(_of_arms(odds, outcomes, log.n_arms) - np.log(log.n_arms))
    return Drift(outcomes.labels, frozen(_exp(both)), frozen(mine), found, level, log.arms)


@dataclass(frozen=True)
class _Outcomes:
    """The transitions of a log in order of their rounds."""

    labels: Any  # of the rounds
    round: IntArray  # the place of each transition's round among them
    arm: IntArray
    cell: IntArray
    good: IntArray


def _outcomes(log: StateLog) -> _Outcomes:
    now = np.flatnonzero(log.has_outcome)
    now = now[np.argsort(log.rounds[now], kind="stable")]
    numbers, first, place = np.unique(log.rounds[now], return_index=True, return_inverse=True)
    labels = numbers.astype(str) if log.dates is None else log.dates[now[first]].astype(str)
    cell = 2 * log.states[now] + log.actions[now]
    return _Outcomes(labels, place, log.arm[now], cell, log.states[now + 1])


def _signed_odds(log: StateLog, seen: _Outcomes) -> FloatArray:
    """Return the expected log-odds of each outcome, and 1 if it was good, -1 if bad; shape (2, outcomes)."""
    mean = fit_prior(log.counts).posterior(log.counts).mean.reshape(-1, 4)[seen.arm, seen.cell]
    return np.stack([np.log(mean) - np.log1p(-mean), np.where(seen.good == 1, 1.0, -1.0)])


def _heights(odds: FloatArray, shift: FloatArray | float) -> FloatArray:
    """Return the log-probability of each outcome if its log-odds are shifted."""
    return np.asarray(-np.logaddexp(0.0, -odds[1] * (odds[0] + shift)))


def _summed(odds: FloatArray, place: IntArray, number: int) -> FloatArray:
    """Return the sums of log-probabilities by place and shift."""
    columns = [np.bincount(place, weights=_heights(odds, shift), minlength=number) for shift in SHIFTS]
    return np.stack(columns, axis=1)


def _mixed(heights: FloatArray, looks: Iterable[int]) -> FloatArray:
    """Return the logarithm of the mean over change times after some rounds, for heights of shape (rounds, ..., shifts).

    The result has shape (looks, ...).
    """
    total, before = _cumulated(heights)
    result = []
    for t in looks:
        weights = -np.log(np.arange(1, t + 1) * np.arange(2, t + 2.0))
        change = before[:t] + _averaged(total[t] - total[:t]) - before[t]
        parts = change + weights.reshape(-1, *[1] * (change.ndim - 1))
        result.append(np.logaddexp(_log_sum(parts, 0), -np.log(t + 1.0)))
    return np.array(result)


def _changes(heights: FloatArray) -> FloatArray:
    """Return the log Bayes factor of a change in each round, shape (rounds, ...)."""
    total, before = _cumulated(heights)
    return np.asarray(before[:-1] + _averaged(total[-1] - total[:-1]) - before[-1])


def _cumulated(heights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the sums of heights before each round and after the last, and the same averaged over the shift."""
    total = np.concatenate([np.zeros_like(heights[:1]), heights.cumsum(axis=0)])
    return total, _averaged(total)


def _averaged(heights: FloatArray) -> FloatArray:
    """Return log-probabilities averaged over the shift."""
    prior = -0.5 * (SHIFTS / _WIDTH) ** 2
    return _log_sum(heights + (prior - _log_sum(prior, 0)), -1)


def _log_sum(logs: FloatArray, axis: int) -> FloatArray:
    """Return the logarithm of the sum of exponentials."""
    top = logs.max(axis=axis, keepdims=True)
    return np.asarray(np.log(np.exp(logs - top).sum(axis=axis)) + np.squeeze(top, axis))


def _of_arms(odds: FloatArray, seen: _Outcomes, n_arms: int) -> FloatArray:
    """Return for each arm the logarithm of its e-value after its last round, for a change of it alone."""
    order = np.argsort(seen.arm, kind="stable")
    edges = np.searchsorted(seen.arm[order], np.arange(n_arms + 1))
    result = np.zeros(n_arms)
    for arm in np.flatnonzero(np.diff(edges)):
        mine = _heights(odds[:, None, order[edges[arm] : edges[arm + 1]]], SHIFTS[:, None]).T
        result[arm] = _mixed(mine, [len(mine)])[0]
    return result


def _about(seen: _Outcomes, heights: FloatArray, log_e_value: FloatArray, cell: int) -> dict[str, Any]:
    """Return what is known of a change in one cell, or in all."""
    when = np.arange(1, len(heights) + 1)
    start = int(np.argmax(_changes(heights[:, cell]) - np.log(when * (when + 1.0))))
    mine = np.ones(len(seen.cell), np.bool_) if cell == _EVERYWHERE else seen.cell == cell
    later = seen.round >= start
    with np.errstate(invalid="ignore"):
        before, now = (
            float(np.mean(seen.good[rows])) if rows.any() else np.nan for rows in (mine & ~later, mine & later)
        )
    return {
        "after": "any state and action" if cell == _EVERYWHERE else CELLS[cell],
        "e_value": float(_exp(log_e_value)),
        "since": str(seen.labels[start]),
        "before": before,
        "now": now,
        "outcomes": int(mine.sum()),
    }


def _exp(values: FloatArray) -> FloatArray:
    """Return e-values from their logarithms, at most 10 to the power of 300."""
    return np.asarray(np.exp(np.minimum(values, 300 * np.log(10.0))))
