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
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from meritfair.lab.resampling import below, every
from meritfair.model import theory
from meritfair.reproduction.artefact import DATASETS, Artefact, Findings, Results, Scale, outcome_of
from meritfair.reproduction.figures import COLORS, Band, add_legend, band, draw_band, label_steps
from meritfair.reproduction.prose import compose
from meritfair.simulation.metrics import Interval, interval
from meritfair.simulation.plots import new_figure

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from meritfair.core.arrays import BoolArray, FloatArray
    from meritfair.lab.spec import Spec
    from meritfair.lab.tasks import Outcome

__all__ = ["THEOREM_5_5", "Bounds", "bounds", "first_useful", "make_bounds"]

_SIZE = (5, 1)
_STRENGTHS = (1, 3, 10)
_SHOWN = 3  # the c of the figure
_EPSILON = 0.01  # to which the paper clips
_GRID = 10.0 ** np.arange(0.0, 60.0, 0.01)  # numbers of episodes at which bounds are held against 2T
_GREY = "#777777"


@dataclass(frozen=True)
class Bounds:
    """The theorem on one data set with one merit.

    Attributes
    ----------
    dataset : str
        Its title.
    c : int
        Of the merit exp(c · benefit).
    regret : Band
        As measured.
    trivial : ndarray, shape (points,)
        2T, at the steps of `regret`.
    total, coverage_gap, first_valid_episode : Interval
        Regret of the whole run, G and t0 as means over runs.
    theorem, ours : ndarray, shape (runs, points)
        Bounds of the runs that have one, at the steps of `regret`; NaN up to t0.
    eta, omega : float
        Medians over these runs.
    below : int
        In how many of them regret is below the theorem's bound wherever it applies.
    useful : float
        From how many episodes on the theorem's bound is below 2T: the median of these runs.
    runs : int
        All runs, those without a bound too.
    gap_limit : float
        What Lemma 5.1 allows for G; infinite where it says nothing.
    """

    dataset: str
    c: int
    regret: Band
    trivial: FloatArray
    total: Interval
    coverage_gap: Interval
    first_valid_episode: Interval
    theorem: FloatArray
    ours: FloatArray
    eta: float
    omega: float
    below: int
    useful: float
    runs: int
    gap_limit: float

    @property
    def last(self) -> float:
        """The theorem's bound at the end: the median over runs, NaN if none has one."""
        return _median(self.theorem[:, -1])

    @property
    def times(self) -> float:
        """How many times the regret the theorem's bound is at the end."""
        return self.last / self.total.mean


def bounds(outcome: Outcome, episodes: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the theorem's bound and ours for each run that reached t0, shape (runs, points); NaN up to t0."""
    reached = _reached(outcome)
    merit: Merit = outcome.setting.criterion.merit
    theirs, ours = [], []
    for run in np.flatnonzero(reached):
        t0 = float(outcome.measures["first_valid_episode"][run])
        known: dict[str, Any] = {
            "n_arms": outcome.setting.n_arms,
            "merit": merit,
            "delta": outcome.setting.delta,
            "first_valid_episode": t0,
            "coverage_gap": float(outcome.measures["coverage_gap"][run]),
            "eta": float(outcome.measures["largest_eta"][run]),
        }
        omega = float(outcome.measures["largest_omega"][run])
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


def make_bounds(outcome: Outcome, dataset: str, c: int, seed: int) -> Bounds:
    """Return what is known of the theorem on one data set with one merit."""
    reached = _reached(outcome)
    kept = outcome.episodes.astype(np.float64)
    theorem, ours = bounds(outcome, kept)
    regret = outcome.curves["fairness_regret"][reached]
    setting, measures = outcome.setting, outcome.measures
    merit = setting.criterion.merit
    return Bounds(
        dataset=dataset,
        c=c,
        regret=band(outcome),
        trivial=2 * kept,
        total=interval(measures["fairness_regret"], seed),
        coverage_gap=interval(measures["coverage_gap"], seed),
        first_valid_episode=interval(measures["first_valid_episode"], seed),
        theorem=theorem,
        ours=ours,
        eta=_median(measures["largest_eta"][reached]),
        omega=_median(measures["largest_omega"][reached]),
        below=int((~(regret > theorem)).all(axis=1).sum()),
        useful=_median(first_useful(bounds(outcome, _GRID)[0], _GRID)),
        runs=len(outcome.runs),
        gap_limit=theory.coverage_gap_limit(_EPSILON, setting.n_arms, setting.budget, setting.horizon, merit),
    )


def _reached(outcome: Outcome) -> BoolArray:
    """Return which runs have a t0 below T."""
    return np.asarray(outcome.measures["first_valid_episode"] < outcome.episodes[-1])


def _median(values: FloatArray) -> float:
    return float(np.median(values)) if len(values) else math.nan


def _specs(scale: Scale) -> tuple[Spec, ...]:
    merits = tuple(f"exponential:c={c}" for c in _STRENGTHS)
    return (scale.spec(datasets=tuple(DATASETS), sizes=(_SIZE,), policies=("merit-fair",), merits=merits),)


def _analyse(results: Results, scale: Scale) -> Findings:
    found = tuple(
        make_bounds(outcome_of(results, scale, name, _SIZE, c=c), title, c, scale.seed)
        for c in _STRENGTHS
        for name, title in DATASETS.items()
    )
    panels = tuple(each for each in found if each.c == _SHOWN)
    known = [each for each in found if not math.isnan(each.last)]
    limited = [each for each in found if math.isfinite(each.gap_limit)]  # an infinite limit says nothing
    useful = [each.last < 2 * scale.episodes for each in known]
    lemma = [below(each.coverage_gap, each.gap_limit) for each in limited]
    return compose(
        "theorem-5-5",
        scale,
        panels,
        verdicts={
            "keeps": _keeps(found, _specs(scale)[0].delta),
            "useful": every(useful) if useful else None,
            "lemma": every(lemma) if lemma else None,
        },
        tables={"theorem-5-5": [_row(each, scale) for each in found]},
        found=found,
        known=known,
        limited=limited,
        strengths=_STRENGTHS,
    )


def _keeps(found: Sequence[Bounds], delta: float) -> bool | None:
    """Judge the theorem itself: of all runs, a part delta may be above the bound."""
    runs, below_bound = sum(len(each.theorem) for each in found), sum(each.below for each in found)
    return runs - below_bound <= delta * runs if runs else None


def _row(each: Bounds, scale: Scale) -> Mapping[str, Any]:
    """Return a row of the table."""
    return {
        "dataset": each.dataset,
        "n_arms": _SIZE[0],
        "budget": _SIZE[1],
        "c": each.c,
        "t0": each.first_valid_episode.mean,
        "G": each.coverage_gap.mean,
        "G_limit": each.gap_limit,
        "eta_median": each.eta,
        "omega_median": each.omega,
        "fairness_regret": each.total.mean,
        "trivial_limit": 2 * scale.episodes,
        "bound_median": each.last,
        "our_bound_median": _median(each.ours[:, -1]),
        "useful_from_median": each.useful,
        "runs": each.runs,
        "runs_with_bound": len(each.theorem),
        "runs_below_bound": each.below,
    }


def _draw(panels: Sequence[Bounds]) -> Figure:
    with new_figure(4.4) as figure:
        many = figure.subplots(1, len(panels), sharex=True, sharey=True)
        for axes, shown_here in zip(many, panels, strict=True):
            lines = _draw_panel(axes, shown_here)
            axes.set(title=shown_here.dataset)
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
