"""From a log to the effect of a pull: overall, by state, by group, by period, and after each round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from scipy.special import stdtrit

import meritfair
from meritfair.core.arrays import FloatArray, IntArray
from meritfair.core.checks import check_number, check_whole
from meritfair.core.errors import InputError
from meritfair.core.tables import numbered
from meritfair.datasets.logs import StateLog
from meritfair.effects.estimator import PseudoOutcomes, pseudo_outcomes
from meritfair.effects.report import Effect, EffectTable
from meritfair.effects.sensitivity import sensitivity_of
from meritfair.effects.sequence import (
    ALIKE,
    LEAST,
    ROUNDS,
    first_variance,
    mixture_precision,
    mixture_radius,
    small_sample,
)
from meritfair.effects.together import drawn_together
from meritfair.effects.trial import Trial, trial_of

STATES = ("bad (0)", "good (1)")
NOT_RECORDED = "not recorded"
_MOST_PERIODS = 8


def effect(
    log: StateLog,
    *,
    group: str | None = None,
    cluster: str | None = None,
    level: float = 0.95,
    period: int | None = None,
) -> Effect:
    """Estimate by how much a pull raises the probability of a good next state, from a log of draws with known chances.

    Each arm must have been drawn by a chance of its own, as by all designs of meritfair, or `cluster` must say with
    which others. What next states that were not observed could change is in `Effect.sensitivity`.

    Parameters
    ----------
    log : StateLog
        With the exposure of each arm in each round, and the features that `group` asks for.
    group : str, optional
        A feature of the arms, by whose values effects are estimated as well.
    cluster : str, optional
        A feature of the arms, such as a clinic, whose arms were drawn together, or by draws that depend on each other.
        Arms without a value are drawn by themselves. By default each arm is.
    level : float
        Level of the intervals: the probability that one holds the truth.
    period : int, optional
        How many rounds a period has; by default 1, 2, 4, 8, …, so that there are at most 8.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> chance, arms, rounds = np.full(3000, 0.3), np.repeat(np.arange(100), 30), np.tile(np.arange(30), 100)
    >>> drawn = rng.random(3000) < chance
    >>> states = np.r_[0, rng.random(2999) < 0.4 + 0.3 * drawn[:-1]]  # a pull raises the chance from 0.4 to 0.7
    >>> found = effect(StateLog(arms, rounds, states, drawn, exposure=chance))
    >>> print(found)
    A pull raises the chance of a good next state by 29 percentage points (between 23 and 35, at 95 % confidence).
    >>> found.states.estimate.round(2)
    array([0.28, 0.29])
    """
    if not isinstance(log, StateLog):
        raise InputError(f"log must be a StateLog, such as read_log returns, got {log!r}")
    alpha = 1 - check_number("level", level, 0.0, 1.0, open_ends=True)
    names, member = ((), None) if group is None else _groups(log, "group", group)
    unit = np.arange(log.n_arms) if cluster is None else _clusters(log, cluster)
    trial = trial_of(log, unit)
    rows = _Rows(trial, pseudo_outcomes(trial), alpha)
    length = _period_length(trial) if period is None else check_whole("period", period, 1)
    overall, found = rows.overall()
    return Effect(
        overall=overall,
        states=rows.table(STATES, trial.state),
        groups=None if member is None else rows.table(names, member[trial.arm]),
        periods=_periods(trial, rows, length),
        rounds=rows.course(),
        left_out=trial.left_out,
        overridden=trial.overridden,
        missing=trial.missing,
        together=drawn_together(log, unit),
        sensitivity=sensitivity_of(trial, found, partial(_overall, alpha=alpha)),
        settings={
            "group": group,
            "cluster": cluster,
            **_cluster_counts(log, cluster, trial),
            "level": float(level),
            "period": length,
            "arms": log.n_arms,
            "rows": len(log),
            "first_round": trial.labels[0],
            "last_round": trial.labels[-1],
            "versions": {"meritfair": meritfair.__version__, "numpy": np.__version__},
        },
    )


def name_clusters(found: Effect, log: StateLog, features: Mapping[str, Sequence[str]]) -> Effect:
    """Return an effect that names the column if one of these features of the log's arms says who is drawn with whom."""
    cluster = found.settings["cluster"]
    unit = np.arange(log.n_arms) if cluster is None else _clusters(log, cluster)
    return replace(found, together=drawn_together(log, unit, features))


def _overall(trial: Trial, alpha: float) -> tuple[float, float, float]:
    return _Rows(trial, pseudo_outcomes(trial), alpha).overall()[1]


def _groups(log: StateLog, what: str, group: str) -> tuple[tuple[str, ...], IntArray]:
    """Return the values of a feature and which of them each arm has, in the order of the alphabet."""
    values = log.features.get(group) if isinstance(group, str) else None
    if values is None:
        known = f"the log was read with {', '.join(log.features)}" if log.features else "the log was read without any"
        raise InputError(f"{what} must be a feature of the arms, got {group!r}, but {known}: see read_log")
    names, member = numbered(value or NOT_RECORDED for value in values)
    order = np.argsort(names, kind="stable")
    return tuple(names[k] for k in order), np.asarray(np.argsort(order)[member])


def _clusters(log: StateLog, cluster: str) -> IntArray:
    """Return which cluster each arm is of; without a value for it, one of its own."""
    names, member = _groups(log, "cluster", cluster)
    alone = np.array([not value for value in log.features[cluster]])
    if alone.all():
        raise InputError(f"cluster must say who is drawn with whom, but no arm has a value in the column {cluster}")
    return np.where(alone, len(names) + np.arange(log.n_arms), member)


def _cluster_counts(log: StateLog, cluster: str | None, trial: Trial) -> dict[str, int | None]:
    """Return the number of clusters, of arms without one, of arms in the largest, and of rounds that divided one."""
    if cluster is None:
        return dict.fromkeys(("clusters", "without_cluster", "largest_cluster", "divided"))
    used = trial.used
    arms, first = np.unique(trial.arm[used], return_index=True)
    alone = sum(not log.features[cluster][arm] for arm in arms)
    sizes = np.unique(trial.unit[used][first], return_counts=True)[1]
    _, which, number = np.unique(trial.unit_round[used], return_inverse=True, return_counts=True)
    drawn = np.bincount(which, trial.drawn[used])
    divided = int(((drawn > 0) & (drawn < number)).sum())
    counts = {"clusters": len(sizes) - alone, "without_cluster": alone, "largest_cluster": int(sizes.max())}
    return {**counts, "divided": divided}


def _period_length(trial: Trial) -> int:
    """Return how many rounds a period has: a power of two, so that there are not more than a table shows well."""
    rounds, length = int(trial.numbers[-1] - trial.numbers[0]), 1
    while rounds > _MOST_PERIODS * length:
        length *= 2
    return length


def _periods(trial: Trial, rows: _Rows, length: int) -> EffectTable:
    """Return the effect in each period that has any rows."""
    numbers, of_round = np.unique((trial.numbers - trial.numbers[0]) // length, return_inverse=True)
    first = np.searchsorted(of_round, np.arange(len(numbers)))
    last = np.r_[first[1:], len(trial.labels)] - 1
    names = [
        trial.labels[a] if a == b else f"{trial.labels[a]} to {trial.labels[b]}"
        for a, b in zip(first, last, strict=True)
    ]
    found = rows.table(names, of_round[trial.round], min(length, ROUNDS))
    return found.take(np.flatnonzero(found.rows))


class _Rows:
    """The rows of a trial with their pseudo-outcomes, of which tables are made."""

    def __init__(self, trial: Trial, made: PseudoOutcomes, alpha: float) -> None:
        self.trial, self.alpha, self.factor = trial, alpha, made.factor
        used = trial.used
        drawn, outcome, e = trial.drawn[used], trial.outcome[used], trial.exposure[used]
        units, self.unit = np.unique(trial.unit_round[used], return_inverse=True)
        self.alone = len(units) == len(self.unit)  # every row is a unit
        self.columns = {
            "rows": np.ones(len(drawn)),
            "pulled": drawn,
            "value": made.value,
            "good": outcome,
            "good_pulled": outcome * drawn,
        }
        self.of_units = {
            "residual": made.residual,
            "weight": 1 / np.where(drawn == 1, e, 1 - e),
            "drawn": drawn,
            "not_drawn": 1 - drawn,
        }

    def _sums(self, cell: IntArray, cells: int) -> dict[str, FloatArray]:
        """Return the sums of all columns, for each number that a row of the trial may have."""
        mine = cell[self.trial.used]
        units = self._by_unit(mine, cells)
        square = units["residual"] ** 2 * units["factor"]
        of_units = {
            "square": square,
            "fourth": square**2,
            "weight": units["weight"],
            "weight_squared": units["weight"] ** 2,
            "units_drawn": units["drawn"] > 0,
            "units_not_drawn": units["not_drawn"] > 0,
        }
        found = {name: np.bincount(mine, values, minlength=cells) for name, values in self.columns.items()}
        found |= {name: np.bincount(units["cell"], values, minlength=cells) for name, values in of_units.items()}
        return {name: np.asarray(values, float) for name, values in found.items()}

    def _by_unit(self, cell: IntArray, cells: int) -> dict[str, Any]:
        """Return the sums of columns over the rows of a unit that are in one cell, and the cell and factor of each."""
        if self.alone:
            return {**self.of_units, "cell": cell, "factor": self.factor}
        keys, first, which = np.unique(self.unit * cells + cell, return_index=True, return_inverse=True)
        sums = {name: np.bincount(which, values) for name, values in self.of_units.items()}
        return {**sums, "cell": keys % cells, "factor": self.factor[first]}

    def table(self, names: Sequence[str], part: IntArray, rounds: int = ROUNDS) -> EffectTable:
        """Return the effect in each part, with intervals that are narrowest after so many rounds.

        `part` says for every row of the trial in which part it is.
        """
        variance = rounds * self._first_variance(part, len(names))
        return _table(names, self._sums(part, len(names)), variance, self.alpha)

    def overall(self) -> tuple[EffectTable, tuple[float, float, float]]:
        """Return the effect in all rows, also as numbers: with its interval at any time."""
        found = self.table(("all",), np.zeros_like(self.trial.arm))
        return found, (float(found.estimate[0]), float(found.anytime_low[0]), float(found.anytime_high[0]))

    def course(self) -> EffectTable:
        """Return the effect up to each round that has rows."""
        trial = self.trial
        looks = np.unique(trial.round[trial.used])
        sums = self._sums(trial.round, len(trial.labels))
        until = {name: np.cumsum(values)[looks] for name, values in sums.items()}
        variance = ROUNDS * self._first_variance(np.zeros_like(trial.round), 1)
        return _table([trial.labels[look] for look in looks], until, variance, self.alpha)

    def _first_variance(self, part: IntArray, parts: int) -> FloatArray:
        """Return for each part the most that the pseudo-outcomes of its first round can vary; 1 if it has none."""
        usable = self.trial.usable
        mine, when = part[usable], self.trial.round[usable]
        first = np.full(parts, len(self.trial.labels))
        np.minimum.at(first, mine, when)
        at_first = when == first[mine]
        _, which, members = np.unique(
            self.trial.unit_round[usable][at_first] * parts + mine[at_first], return_inverse=True, return_counts=True
        )
        variance = first_variance(self.trial.exposure[usable][at_first]) * (1 + (members[which] - 1) * ALIKE)
        found = np.bincount(mine[at_first], variance, minlength=parts)
        return np.where(found > 0, found, 1.0)


def _table(names: Sequence[str], sums: Mapping[str, FloatArray], variance: FloatArray, alpha: float) -> EffectTable:
    """Return estimates from sums, with intervals for those that have enough rows, narrowest at some variance."""
    n, pulled = sums["rows"], sums["pulled"]
    rho_squared = mixture_precision(variance, alpha)
    with np.errstate(divide="ignore", invalid="ignore"):  # where there is nothing it is NaN
        estimate, error = sums["value"] / n, np.sqrt(sums["square"]) / n
        freedom = 2 * sums["square"] ** 2 / sums["fourth"]  # of the variance, as Satterthwaite has it
        anytime = mixture_radius(sums["square"], rho_squared, alpha) * small_sample(freedom) / n
        difference = sums["good_pulled"] / pulled - (sums["good"] - sums["good_pulled"]) / (n - pulled)
        effective = sums["weight"] ** 2 / sums["weight_squared"]  # that many rows with exposures of 1/2 say as much
    asymptotic = stdtrit(freedom, 1 - alpha / 2) * error
    enough = (sums["units_drawn"] >= LEAST) & (sums["units_not_drawn"] >= LEAST)

    def bound(end: FloatArray) -> FloatArray:
        return np.where(enough, np.clip(end, -1.0, 1.0), np.nan)  # probabilities differ by at most 1

    return EffectTable(
        names=tuple(names),
        estimate=estimate,
        standard_error=error,
        low=bound(estimate - asymptotic),
        high=bound(estimate + asymptotic),
        anytime_low=bound(estimate - anytime),
        anytime_high=bound(estimate + anytime),
        rows=n.astype(np.int64),
        pulled=pulled.astype(np.int64),
        units_drawn=sums["units_drawn"].astype(np.int64),
        units_not_drawn=sums["units_not_drawn"].astype(np.int64),
        effective=np.where(n > 0, effective, 0.0),
        difference=difference,
    )
