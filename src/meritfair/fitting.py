"""From records to arms: what a log says of each arm, how sure that is, and which exposure it is due.

Transition probabilities are estimated by their posterior means, under a uniform prior (estimate ``mean``) or one that
is fitted to all arms together (``pooled``), so that an arm of which little was seen borrows from the others. States
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
from meritfair.core.checks import check_choice
from meritfair.core.errors import InputError
from meritfair.core.figures import two_panels
from meritfair.core.progress import Progress
from meritfair.core.seeding import fresh_seed
from meritfair.core.tables import data_frame, rows_of, write_table
from meritfair.core.texts import for_figure, several
from meritfair.datasets.logs import StateLog
from meritfair.model.arms import Arms
from meritfair.model.counts import Counts
from meritfair.model.criterion import Confidence, Criterion, loose_settings_allowed
from meritfair.model.gaps import Gaps, fill, posterior
from meritfair.model.merit import merit_from_settings
from meritfair.model.posterior import Posterior, Prior, fit_prior
from meritfair.model.uncertainty import Assessment, assess

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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
        The complete transitions of each.
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
    """

    arms: Arms
    counts: Counts
    gaps: Gaps
    effective: Counts
    posterior: Posterior
    assessment: Assessment
    classes: FloatArray | None
    settings: dict[str, Any]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the arms."""
        return self.arms.names

    @property
    def estimate(self) -> FloatArray:
        """The estimated probabilities of a good next state, shape (N, 2, 2)."""
        return self.arms.transitions

    @cached_property
    def seen(self) -> IntArray:
        """How many transitions of each arm were seen, shape (N,)."""
        return np.asarray(self.counts.visits.sum(axis=(-2, -1)))

    @cached_property
    def pulled(self) -> IntArray:
        """In how many of these the arm was pulled, shape (N,)."""
        return np.asarray(self.counts.visits[..., 1].sum(axis=-1))

    @property
    def description(self) -> str:
        """What was fitted, in one line."""
        rules, merit = self.settings, self.settings["merit"]
        label = merit["name"] if merit["kind"] == "custom" else merit_from_settings(merit)
        n_classes = 0 if self.classes is None else self.classes.shape[1]
        pooled = f" · {several(n_classes, 'pooled class', 'pooled classes')}" * (n_classes > 0)
        bounds = [(name, rules[name]) for name, usual in (("floor", 0.0), ("cap", 1.0)) if rules[name] != usual]
        own = "of its own for each arm"
        between = "".join(f" · {name} {own if isinstance(value, list) else f'{value:g}'}" for name, value in bounds)
        return (
            f"{several(self.arms.n_arms, 'arm')}, {rules['budget']} pulled at each step · "
            f"{several(int(self.seen.sum()), 'transition')}{pooled} · merit {label} · "
            f"design {rules['design']}{between} · {100 * self.assessment.level:g} % intervals"
        )

    def __repr__(self) -> str:
        return f"Fit({self.description})"

    def table(self) -> list[dict[str, Any]]:
        """Return a row for each arm: what was seen, the estimates, and the intervals, as plain values.

        ``p01`` is the probability of a good next state from state 0 (bad) under action 1 (pull), as in files of arms.
        """
        return rows_of(self._columns())

    def to_frame(self) -> pd.DataFrame:
        """Return the table as a pandas DataFrame; needs the extra ``lab``."""
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
    estimate: str = "mean",
    level: float = 0.95,
    method: Literal["draws", "delta"] = "draws",
    seed: int = 0,
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
    estimate : {"mean", "pooled"}
        Each arm by itself, with nothing known beforehand; or with what all arms together say of the classes there are.
    level : float
        Level of the intervals: the probability that one holds the truth.
    method : {"draws", "delta"}
        How intervals are found: as for `assess`.
    seed : int
        Fixes the draws behind the intervals.
    progress : bool or callable
        True shows a bar. A function is told now and then how many of how many draws are done.

    Examples
    --------
    >>> arms, rounds = ["Ada"] * 4 + ["Bo"] * 2, [1, 2, 3, 4, 1, 2]
    >>> log = StateLog(arms, rounds, states=[0, 1, 1, 0, 0, 0], actions=[1, 1, 0, 0, 0, 0])
    >>> found = fit(log, budget=1)
    >>> found
    Fit(2 arms, 1 pulled at each step · 4 transitions · merit exponential:c=3 · design exact · 95 % intervals)
    >>> [(row["arm"], row["seen"], row["pulled"], round(row["exposure"], 2)) for row in found.table()]
    [('Ada', 3, 2, 0.6), ('Bo', 1, 0, 0.4)]
    """
    known, gaps, labels = _known(seen, names)
    pooled = check_choice("estimate", estimate, ESTIMATES) == "pooled"
    root, effective = fresh_seed(seed), fill(known, gaps).effective
    prior = fit_prior(effective) if pooled else Prior.uniform()
    after = posterior(prior, known, gaps, effective)
    arms = Arms(after.mean, labels)
    found = assess(after, criterion, budget, level=level, method=method, rng=root, progress=progress)
    settings = {
        "budget": int(budget),
        **criterion.settings(),
        "estimate": estimate,
        "level": found.level,
        "method": method,
        "seed": root,
        "versions": {"meritfair": meritfair.__version__, "numpy": np.__version__},
    }
    return Fit(arms, known, gaps, effective, after, found, after.weights if pooled else None, settings)


def _known(seen: StateLog | Counts, names: Iterable[str] | None) -> tuple[Counts, Gaps, Iterable[str] | None]:
    """Return counts, gaps and names."""
    if isinstance(seen, StateLog):
        if names is not None:
            raise InputError("names are for counts: a log has its own")
        seen.check_transitions()
        return seen.counts, seen.bridged, seen.arms
    if not isinstance(seen, Counts):
        raise InputError(f"a fit needs a StateLog or Counts, got {type(seen).__name__}")
    if seen.visits.ndim != 3:
        raise InputError(f"counts must have shape (N, 2, 2) for a fit, got {seen.visits.shape}")
    return seen, Gaps.none(), names


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
