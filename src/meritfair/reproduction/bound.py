r"""Theorem 5.5 over the measured regret: the bound, with the constants that were measured, for K = 1.

.. math:: FR^T \le N t_0 + N\sqrt{T} + \frac{96\, L \sqrt{G\, T \ln(8NT/\delta)}}{\gamma (1-\eta)(1-\omega)}
          \qquad (T > t_0)

t0, G, eta and omega, all by the definition, are known only after a run, so each run has its own bound. Beside it stand
the trivial limit 2T, as two sets of shares are never further apart than 2, and the bound of ``docs/theory.md``, which
has smaller constants. Where a run does not reach t0 the theorem says nothing, and the run is left out.

Lemma 5.1 gives G a limit that needs no run: :math:`1/\psi`, with :math:`\psi` the least chance that an episode sees
both states and both actions of an arm. It is looked at here too, as the theorem rests on it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from meritfair.core.arrays import BoolArray, FloatArray
from meritfair.core.figures import Band, draw_band, new_figure
from meritfair.lab.resampling import below, every
from meritfair.lab.tasks import Outcome
from meritfair.model import theory
from meritfair.reproduction.artefact import DATASETS, Artefact, Findings, Results, Scale, Specs
from meritfair.reproduction.figures import COLORS, add_legend, band, label_steps
from meritfair.reproduction.prose import Rows, compose, place
from meritfair.simulation.bootstrap import interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_SIZE = (5, 1)
_STRENGTHS = (1, 3, 10)
_SHOWN = 3  # the c of the figure
_CONSTANTS = ("first_valid_episode", "coverage_gap", "largest_eta", "largest_omega")  # of the theorem, of each run
_MEANS = ("t0", "G", "fairness_regret")  # of which the file of the table has no intervals
_EPSILON = 0.01  # to which the paper clips
_GRID = 10.0 ** np.arange(0.0, 60.0, 0.01)  # numbers of episodes at which bounds are compared with 2T
_GREY = "#777777"


@dataclass(frozen=True)
class Bounds:
    """The theorem on one data set with one merit.

    Attributes
    ----------
    regret : Band
        As measured.
    trivial : ndarray, shape (points,)
        2T, at the steps of `regret`.
    theorem, ours : ndarray, shape (runs, points)
        Bounds of the runs that have one, at the steps of `regret`; NaN up to t0.
    row : dict
        What the table says: regret of the whole run, t0 and G as intervals over all runs, and in how many runs these
        two are only lower bounds; eta, omega and the bounds at the end as medians of the runs that have one; from how
        many episodes on the theorem's bound is below 2T; in how many runs regret is below it wherever it applies; what
        Lemma 5.1 allows for G, infinite where it says nothing.
    """

    regret: Band
    trivial: FloatArray
    theorem: FloatArray
    ours: FloatArray
    row: dict[str, Any]

    @property
    def times(self) -> float:
        """How many times the regret the theorem's bound is at the end, NaN if no run has one."""
        return float(self.row["bound_median"] / self.row["fairness_regret"].mean)


def bounds(outcome: Outcome, episodes: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the theorem's bound and ours for each run that reached t0, shape (runs, points); NaN up to t0."""
    theirs, ours, setting = [], [], outcome.setting
    same: Any = {"n_arms": setting.n_arms, "merit": setting.criterion.merit, "delta": setting.delta}
    for run in np.flatnonzero(_reached(outcome)):
        t0, G, eta, omega = (float(outcome.measures[name][run]) for name in _CONSTANTS)
        known = {**same, "first_valid_episode": t0, "coverage_gap": G, "eta": eta}
        applies = episodes > t0
        theirs.append(np.where(applies, theory.regret_bound(episodes, omega=omega, **known), np.nan))
        ours.append(np.where(applies, theory.exposure_regret_bound(episodes, budget=1, **known), np.nan))
    shape = (-1, len(episodes))
    return np.reshape(theirs, shape), np.reshape(ours, shape)


def first_useful(bound: FloatArray, episodes: FloatArray) -> FloatArray:
    """Return from which number of episodes on a bound stays below 2T, for each row; infinite if it is not at the last.

    Examples
    --------
    >>> T = np.arange(1.0, 200.0)
    >>> first_useful(np.stack([20 * np.sqrt(T), 3 * T]), T)      # 20 sqrt(T) = 2 T at T = 100
    array([101.,  inf])
    """
    useless = ~(bound < 2 * episodes)
    first = bound.shape[1] - np.argmax(useless[:, ::-1], axis=1)  # after the last that is useless
    first = np.where(useless.any(axis=1), first, 0)
    return np.append(episodes, np.inf)[first]


def make_bounds(outcome: Outcome, c: int, seed: int) -> Bounds:
    """Return what is known of the theorem on one data set with one merit."""
    reached = _reached(outcome)
    kept = outcome.episodes.astype(np.float64)
    theorem, ours = bounds(outcome, kept)
    setting, measures = outcome.setting, outcome.measures
    merit = setting.criterion.merit
    row = {
        **place(setting),
        "c": c,
        "t0": interval(measures["first_valid_episode"], seed),
        "G": interval(measures["coverage_gap"], seed),
        "t0_censored": int(measures["first_valid_episode_censored"].sum()),
        "G_censored": int(measures["coverage_gap_censored"].sum()),
        "G_limit": theory.coverage_gap_limit(_EPSILON, setting.n_arms, setting.budget, setting.horizon, merit),
        "eta_median": _median(measures["largest_eta"][reached]),
        "omega_median": _median(measures["largest_omega"][reached]),
        "fairness_regret": interval(measures["fairness_regret"], seed),
        "trivial_limit": 2 * setting.episodes,
        "bound_median": _median(theorem[:, -1]),
        "our_bound_median": _median(ours[:, -1]),
        "useful_from_median": _median(first_useful(bounds(outcome, _GRID)[0], _GRID)),
        "runs": len(outcome.runs),
        "runs_with_bound": len(theorem),
        "runs_below_bound": int((~(outcome.curves["fairness_regret"][reached] > theorem)).all(axis=1).sum()),
    }
    return Bounds(band(outcome), 2 * kept, theorem, ours, row)


def _reached(outcome: Outcome) -> BoolArray:
    """Return which runs have a t0 below T."""
    return np.asarray(outcome.measures["first_valid_episode"] < outcome.episodes[-1])


def _median(values: FloatArray) -> float:
    return float(np.median(values)) if len(values) else math.nan


def _specs(scale: Scale) -> Specs:
    merits = tuple(f"exponential:c={c}" for c in _STRENGTHS)
    return (scale.spec(datasets=tuple(DATASETS), sizes=(_SIZE,), policies=("merit-fair",), merits=merits),)


def _analyse(results: Results, scale: Scale) -> Findings:
    cases = product(_STRENGTHS, DATASETS)
    found = [make_bounds(scale.outcome(results, dataset, _SIZE, c=c), c, scale.seed) for c, dataset in cases]
    rows = [each.row for each in found]
    known = [each for each in found if len(each.theorem)]
    useful = [each.row["bound_median"] < each.row["trivial_limit"] for each in known]
    lemma = [_within_limit(row) for row in rows if math.isfinite(row["G_limit"])]  # infinite says nothing
    return compose(
        "theorem-5-5",
        scale,
        tuple(each for each in found if each.row["c"] == _SHOWN),
        specs=_specs,
        verdicts={
            "keeps": _keeps(rows, _specs(scale)[0].delta),
            "useful": every(useful) if useful else None,
            "lemma": every(lemma) if lemma else None,
        },
        at_any_length=("keeps", "lemma"),
        delta=_specs(scale)[0].delta,
        tables={"theorem-5-5": [row | {name: row[name].mean for name in _MEANS} for row in rows]},
        rows=rows,
        known=known,
    )


def _within_limit(row: Mapping[str, Any]) -> bool | None:
    """Judge G; a lower bound can say that it is too large, but not that it is not."""
    answer = below(row["G"], row["G_limit"])
    return None if answer and row["G_censored"] else answer


def _keeps(rows: Rows, delta: float) -> bool | None:
    """Judge the theorem itself: of all runs, a part delta may be above the bound."""
    runs, below_bound = (sum(row[name] for row in rows) for name in ("runs_with_bound", "runs_below_bound"))
    return bool(runs - below_bound <= delta * runs) if runs else None


def _draw(panels: Sequence[Bounds]) -> Figure:
    with new_figure(4.4) as figure:
        many = figure.subplots(1, len(panels), sharex=True, sharey=True)
        for axes, shown_here in zip(many, panels, strict=True):
            lines = _draw_panel(axes, shown_here)
            axes.set(title=shown_here.row["dataset"])
        many[0].set_ylabel("regret, added up over episodes")
        labels = ["Theorem 5.5", "bound of docs/theory.md", "trivial limit 2T", "MF-RMAB, measured"]
        add_legend(figure, lines, labels)
    return figure


def _draw_panel(axes: Axes, shown_here: Bounds) -> list[Any]:
    """Draw one data set; return the lines from top to bottom."""
    axes.set(xscale="log", yscale="log")
    steps = shown_here.regret.steps
    low, middle, high = _quantiles(shown_here.theorem, len(steps))
    theirs = draw_band(axes, Band(steps, middle, low, high), COLORS["limit"])
    (ours,) = axes.plot(steps, _quantiles(shown_here.ours, len(steps))[1], color=_GREY, linestyle="-.", linewidth=1.4)
    (trivial,) = axes.plot(steps, shown_here.trivial, color=COLORS["mean"], linestyle=":", linewidth=2.2)
    regret = draw_band(axes, shown_here.regret, COLORS["merit-fair"])
    label_steps(axes)
    return [theirs, ours, trivial, regret]


def _quantiles(rows: FloatArray, points: int) -> FloatArray:
    """Return the tenth, the middle and the ninetieth per cent of runs; NaN where one of them has no bound."""
    return np.quantile(rows, [0.1, 0.5, 0.9], axis=0) if len(rows) else np.full((3, points), np.nan)


THEOREM_5_5 = Artefact("theorem-5-5", "Theorem 5.5: the bound and the regret", _specs, _analyse, _draw)
