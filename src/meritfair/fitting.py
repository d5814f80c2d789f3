"""From records to arms: what a log says of each arm, how sure that is, and which exposure it is due.

Transition probabilities are estimated by their posterior means, under a uniform prior (estimate ``mean``) or one that
is fitted to all arms together (``pooled``), so that an arm of which little was seen borrows from the others: from all,
or where features tell of which kind it is, from those like it (:mod:`meritfair.model.feature_prior`). States
that were not observed cost no more than they must: :mod:`meritfair.model.gaps`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

import meritfair
from meritfair.core.arrays import FloatArray, IntArray
from meritfair.core.checks import check_choice, check_known
from meritfair.core.errors import InputError
from meritfair.core.figures import two_panels
from meritfair.core.progress import Progress
from meritfair.core.seeding import fresh_seed
from meritfair.core.tables import data_frame, rows_of, write_table
from meritfair.core.texts import for_figure, several
from meritfair.datasets.logs import StateLog
from meritfair.datasets.missing import unseen_states
from meritfair.model.arms import Arms
from meritfair.model.benefit import benefit
from meritfair.model.by_feature import by_feature, class_words
from meritfair.model.counts import Counts, check_forget
from meritfair.model.criterion import Confidence, Criterion, loose_settings_allowed
from meritfair.model.features import Features
from meritfair.model.gaps import Gaps, fill, posterior
from meritfair.model.merit import merit_from_settings
from meritfair.model.posterior import Posterior, Prior, fit_prior
from meritfair.model.sensitivity import BenefitSensitivity
from meritfair.model.uncertainty import Assessment, assess

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from meritfair.model.feature_prior import FeaturePrior

ESTIMATES = ("mean", "pooled")

_PROBABILITIES = ("p00", "p01", "p10", "p11")  # by state and action, as in files of arms
_INTERVALS = ("benefit", "benefit_low", "benefit_high", "exposure", "exposure_low", "exposure_high")
_MOST_NAMES = 40  # on the axis of a figure
_LONGEST_NAME = 24
_BLUE, _ORANGE = "#0072B2", "#D55E00"  # the first two of the style


@dataclass(frozen=True, eq=False)
class Fit:
    """What was learnt of each arm.

    Attributes
    ----------
    arms : Arms
        The estimated arms, with their names: they can be simulated at once.
    counts : Counts
        The complete transitions of each; with `forget`, what they are worth.
    gaps : Gaps
        Rounds between two states that were observed, in which it is known what was done but not the state.
    effective : Counts
        What both are worth: the counts from which estimates are made, those of the transitions if there are no gaps.
    posterior : Posterior
        What is known of the arms, to draw from.
    assessment : Assessment
        Benefit and due exposure of each, with intervals.
    classes : ndarray, shape (N, C), or None
        For the estimate ``pooled``: with which probability each arm belongs to each class.
    settings : dict
        All settings, the seed and the version, as plain values.
    feature_prior : FeaturePrior, or None
        Which of the features that may predict do, and how; None if none may.
    sensitivity : BenefitSensitivity, or None
        What next states that were not observed could change of the mean benefit; None for counts, and if none
        was due.
    """

    arms: Arms
    counts: Counts
    gaps: Gaps
    effective: Counts
    posterior: Posterior
    assessment: Assessment
    classes: FloatArray | None
    settings: dict[str, Any]
    feature_prior: FeaturePrior | None = None
    sensitivity: BenefitSensitivity | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the arms."""
        return self.arms.names

    @property
    def estimate(self) -> FloatArray:
        """The estimated probabilities of a good next state, shape (N, 2, 2)."""
        return self.arms.transitions

    @property
    def features(self) -> Features | None:
        """All features of the arms that the log has, also those that may not predict."""
        return self.arms.features

    @cached_property
    def due_by_feature(self) -> list[dict[str, Any]]:
        """For each value of each feature, forbidden or not: how many arms, their mean due exposure and benefit."""
        if self.features is None:
            return []
        return by_feature(self.features, self.assessment.exposure, self.assessment.benefit)

    @property
    def feature_gains(self) -> dict[str, float]:
        """By how much each feature that may predict raises the held-out log-likelihood."""
        return {} if self.feature_prior is None else dict(self.feature_prior.gains)

    @property
    def used_features(self) -> tuple[str, ...]:
        """The features that predict."""
        return () if self.feature_prior is None else self.feature_prior.used

    @property
    def class_features(self) -> list[str]:
        """For each class the features of its arms in words, of those features that predict; empty if none does."""
        if self.classes is None or self.features is None or not self.used_features:
            return []
        return class_words(self.features.only(self.used_features), self.classes)

    @property
    def class_benefits(self) -> list[float]:
        """The benefit of an average arm of each class, where features predict; empty if none does."""
        if self.feature_prior is None or not self.used_features:
            return []
        means = self.feature_prior.good / (self.feature_prior.good + self.feature_prior.bad)
        return [float(each) for each in benefit(means)]

    @property
    def unknown_values(self) -> dict[str, int]:
        """For each feature that predicts, how many arms have a value that counts as not known: too few have it."""
        if self.feature_prior is None or self.features is None:
            return {}
        return self.feature_prior.encoding.unknown(self.features)

    @cached_property
    def seen(self) -> IntArray | FloatArray:
        """How many transitions of each arm were seen, shape (N,)."""
        return np.asarray(self.counts.visits.sum(axis=(-2, -1)))

    @cached_property
    def pulled(self) -> IntArray | FloatArray:
        """In how many of these the arm was pulled, shape (N,)."""
        return np.asarray(self.counts.visits[..., 1].sum(axis=-1))

    @property
    def description(self) -> str:
        """What was fitted, in one line."""
        rules, merit = self.settings, self.settings["merit"]
        label = merit["name"] if merit["kind"] == "custom" else merit_from_settings(merit)
        n_classes = 0 if self.classes is None else self.classes.shape[1]
        used = f" by {', '.join(self.used_features)}" if self.used_features else ""
        pooled = f" · {several(n_classes, 'pooled class', 'pooled classes')}{used}" * (n_classes > 0)
        bounds = [(name, rules[name]) for name, usual in (("floor", 0.0), ("cap", 1.0)) if rules[name] != usual]
        own = "of its own for each arm"
        between = "".join(f" · {name} {own if isinstance(value, list) else f'{value:g}'}" for name, value in bounds)
        return (
            f"{several(self.arms.n_arms, 'arm')}, {rules['budget']} pulled at each step · "
            f"{self._seen}{pooled} · merit {label} · "
            f"design {rules['design']}{between} · {100 * self.assessment.level:g} % intervals"
        )

    @property
    def _seen(self) -> str:
        total, forget = self.seen.sum(), self.settings["forget"]
        if forget < 1:
            return f"transitions worth {total:,.0f}, each {forget:g} of its worth a round later"
        return several(int(total), "transition")

    def __repr__(self) -> str:
        return f"Fit({self.description})"

    def rows(self) -> list[dict[str, Any]]:
        """Return the `table` as rows of plain values."""
        return rows_of(self._columns())

    def table(self) -> pd.DataFrame:
        """Return a DataFrame with a row for each arm: what was seen, the estimates, and the intervals.

        ``p01`` is the probability of a good next state from state 0 (bad) under action 1 (pull), as in files of arms.
        It needs the extra ``lab``.
        """
        return data_frame(self._columns())

    def save(self, path: str | PathLike[str]) -> None:
        """Write the table to a .csv or .parquet file, which replaces an old one once it is complete.

        `meritfair.datasets.read_arms` can read it. A Parquet file also holds the settings.
        """
        write_table(path, "fits", self._columns(), {"meritfair": json.dumps(self.settings, sort_keys=True)})

    def _columns(self) -> dict[str, list[Any]]:
        columns = {"arm": list(self.names), "seen": self.seen.tolist(), "pulled": self.pulled.tolist()}
        columns.update(zip(_PROBABILITIES, self.estimate.reshape(-1, 4).T.tolist(), strict=True))
        columns.update({name: getattr(self.assessment, name).tolist() for name in _INTERVALS})
        if self.classes is not None:
            columns.update({f"class_{c + 1}": values for c, values in enumerate(self.classes.T.tolist())})
        for name, values in () if self.features is None else self.features.columns.items():
            if name in columns:
                raise InputError(f"a feature must not be called {name!r}, which is another column of the table")
            columns[name] = list(values)
        return columns

    def plot(self, *, ax: Sequence[Axes] | None = None, figsize: tuple[float, float] | None = None) -> Figure:
        """Draw the benefit and the due exposure of each arm with their intervals; needs the extra ``plots``.

        It is drawn into two Axes that are given, or on a new figure, by default of a size that suits.
        """
        order = np.argsort(self.assessment.benefit, kind="stable")
        height = 1.7 + (0.27 * max(len(order), 4) if len(order) <= _MOST_NAMES else 6.5)
        with two_panels(self.description, height, ax, figsize, sharey=True) as (figure, left, right):
            _draw(left, self, "benefit", order, 0.0)
            _draw(right, self, "exposure", order, self.settings["budget"] / len(order))
            left.set(title="Benefit", xlabel="gain in good states by always over never pulling")
            right.set(title="Due exposure", xlabel="probability of a pull at a step; dashed: equal shares")
            right.set_xlim(0, None)
            for axes in (left, right):  # which share an axis only if they are ours
                _name_arms(axes, [self.names[i] for i in order])
            if len(order) > _MOST_NAMES:
                left.set_ylabel("arms, from least to most benefit")
        return figure


_EXACT = Criterion(design="exact")


@loose_settings_allowed(lambda *_, **__: (_EXACT, Confidence()))
def fit(
    seen: StateLog | Counts,
    names: Iterable[str] | None = None,
    *,
    criterion: Criterion = _EXACT,
    budget: int = 1,
    estimate: str | None = None,
    forget: float = 1.0,
    level: float = 0.95,
    method: Literal["draws", "delta"] = "draws",
    seed: int = 0,
    features: Sequence[str] = (),
    never: Sequence[str] = (),
    progress: Progress = None,
) -> Fit:
    """Estimate arms from what was recorded of them, with the benefit and the due exposure of each.

    Parameters
    ----------
    seen : StateLog or Counts
        What was recorded. An arm of which no transition was seen is known by the prior alone.
    names : iterable of str, optional
        Names of the arms, for counts; a log has its own.
    criterion : Criterion
        What each arm is due; by default in proportion to Exponential(3), exactly.
    budget : int
        Arms pulled at each step.
    estimate : {"mean", "pooled"}, optional
        Each arm by itself, with nothing known beforehand; or with what all arms together say of the classes there are.
        By default ``mean``, and with `features` ``pooled``.
    forget : float
        What an outcome is worth one round later, above 0 and at most 1: with 0.98, one of 35 rounds before the last
        counts half. For people who change (`meritfair.drift`); for a log, not for counts.
    level : float
        Level of the intervals: the probability that one holds the truth.
    method : {"draws", "delta"}
        How intervals are found: as for `assess`.
    seed : int
        Fixes the draws behind the intervals.
    features : sequence of str
        Which features of the log may predict the class of an arm. Whether each does is decided by held-out likelihood.
    never : sequence of str
        Which must not. They are shown like all features of the log, so that a proxy shows (`Fit.due_by_feature`).
    progress : bool or callable
        True shows a bar. A function is told now and then how many of how many draws are done.

    Examples
    --------
    >>> arms, rounds = ["Ada"] * 4 + ["Bo"] * 2, [1, 2, 3, 4, 1, 2]
    >>> log = StateLog(arms, rounds, states=[0, 1, 1, 0, 0, 0], actions=[1, 1, 0, 0, 0, 0])
    >>> found = fit(log, budget=1)
    >>> found
    Fit(2 arms, 1 pulled at each step · 4 transitions · merit exponential:c=3 · design exact · 95 % intervals)
    >>> [(row["arm"], row["seen"], row["pulled"], round(row["exposure"], 2)) for row in found.rows()]
    [('Ada', 3, 2, 0.6), ('Bo', 1, 0, 0.4)]
    """
    known, gaps, labels = _known(seen, names, check_forget(forget))
    there, predictors = _features(seen, features, never)
    estimate = check_estimate(estimate, predictors)
    root, effective = fresh_seed(seed), fill(known, gaps).effective
    prior, feature_prior = _prior(estimate, effective, there.only(predictors) if predictors else None)
    after = posterior(prior, known, gaps, effective)
    arms = Arms(after.mean, labels, there if there.names else None)
    found = assess(after, criterion, budget, level=level, method=method, rng=root, progress=progress)
    settings = {
        "budget": int(budget),
        **criterion.settings(),
        "estimate": estimate,
        "forget": float(forget),
        "level": found.level,
        "method": method,
        "seed": root,
        "versions": {"meritfair": meritfair.__version__, "numpy": np.__version__},
    }
    settings |= {"features": predictors, "never": list(never)} if there.names else {}
    classes = after.weights if estimate == "pooled" else None
    unseen = _sensitivity(seen, after)
    return Fit(arms, known, gaps, effective, after, found, classes, settings, feature_prior, unseen)


def check_estimate(estimate: str | None, features: Sequence[str]) -> str:
    """Return the estimate; with features it is `pooled`, as each arm by itself does not learn from others like it."""
    if estimate is None:
        return "pooled" if features else "mean"
    if check_choice("estimate", estimate, ESTIMATES) != "pooled" and features:
        raise InputError(f"features need the estimate 'pooled', got {estimate!r}")
    return estimate


def _features(seen: StateLog | Counts, features: Sequence[str], never: Sequence[str]) -> tuple[Features, list[str]]:
    """Return all features of a log, and the names of those that may predict."""
    columns = seen.features if isinstance(seen, StateLog) else {}
    for given in (features, never):
        if isinstance(given, str):
            raise InputError(f"features and never must be lists of names, got {given!r}")
        for name in given:
            if not columns:
                raise InputError(f"there is no feature {name!r}: a log has features, if it is read with them")
            check_known("feature", name, columns)
    for name in features:
        if name in never:
            raise InputError(f"the feature {name!r} cannot both predict and never predict")
    return Features(columns, seen.n_arms), list(dict.fromkeys(features))


def _prior(estimate: str, counts: Counts, features: Features | None) -> tuple[Prior, FeaturePrior | None]:
    """Return the prior of the arms and, if there are features, which of them it uses and how."""
    if estimate == "mean":
        return Prior.uniform(), None
    if features is None:
        return fit_prior(counts), None
    from meritfair.model.feature_prior import fit_feature_prior  # takes a while to load

    found = fit_feature_prior(counts, features)
    return found.of(features), found


def _known(
    seen: StateLog | Counts, names: Iterable[str] | None, forget: float
) -> tuple[Counts, Gaps, Iterable[str] | None]:
    """Return counts, gaps and names."""
    if isinstance(seen, StateLog):
        if names is not None:
            raise InputError("names are for counts: a log has its own")
        seen.check_transitions()
        return seen.weighted_counts(forget), seen.weighted_gaps(forget), seen.arms
    if not isinstance(seen, Counts):
        raise InputError(f"a fit needs a StateLog or Counts, got {type(seen).__name__}")
    if forget < 1:
        raise InputError("forget is for a log: counts do not say when they were made")
    if seen.visits.ndim != 3:
        raise InputError(f"counts must have shape (N, 2, 2) for a fit, got {seen.visits.shape}")
    return seen, Gaps.none(), names


def _sensitivity(seen: StateLog | Counts, after: Posterior) -> BenefitSensitivity | None:
    """Return what next states that were not observed could change; None if it is not known which, or none was due."""
    if not isinstance(seen, StateLog):
        return None
    visits, missing = unseen_states(seen)
    return BenefitSensitivity(after.mean, visits, missing) if visits.any() else None


def _draw(axes: Axes, found: Fit, what: str, order: IntArray, usual: float) -> None:
    """Draw an interval and a dot for each arm, one above the other in the given order."""
    value, low, high = (getattr(found.assessment, what + end)[order] for end in ("", "_low", "_high"))
    place = np.arange(1, len(order) + 1)
    line, dot = (3.5, 5.0) if len(order) <= _MOST_NAMES else (max(0.6, 300 / len(order)), max(1.5, 500 / len(order)))
    axes.axvline(usual, color="#888888", linewidth=1, linestyle="--", zorder=1)
    axes.hlines(place, low, high, color=_BLUE, alpha=0.45, linewidth=line, zorder=2)
    axes.plot(value, place, "o", color=_ORANGE, markersize=dot, zorder=3)


def _name_arms(axes: Axes, names: list[str]) -> None:
    """Name the arms on the vertical axis, unless they are too many."""
    n_arms = len(names)
    axes.set_ylim(0.3, n_arms + 0.7)
    if n_arms <= _MOST_NAMES:
        short = [name if len(name) <= _LONGEST_NAME else name[: _LONGEST_NAME - 1] + "…" for name in names]
        axes.set_yticks(range(1, n_arms + 1), [for_figure(name) for name in short])
