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

from meritfair.core.figures import Band, draw_band, new_figure
from meritfair.lab.resampling import below, every, shown, span
from meritfair.model import theory
from meritfair.reproduction.artefact import DATASETS, Artefact, Findings, PaperTable, Verdict
from meritfair.reproduction.figures import COLORS, band, label_steps
from meritfair.reproduction.panels import add_legend, add_remark, outcome_of, played
from meritfair.simulation.metrics import interval

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from meritfair.core.arrays import BoolArray, FloatArray
    from meritfair.lab.spec import Spec
    from meritfair.lab.tasks import Outcome
    from meritfair.model.merit import Merit
    from meritfair.reproduction.artefact import Results, Scale
    from meritfair.simulation.metrics import Interval

__all__ = ["THEOREM_5_5", "Bounds", "Theorem55", "bounds", "first_useful", "make_bounds"]

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


@dataclass(frozen=True)
class Theorem55:
    """What is drawn: a panel for each data set, and a remark on how they were played."""

    panels: tuple[Bounds, ...]
    remark: str


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
    text = played(scale, f"MF-RMAB, N = {_SIZE[0]}, K = {_SIZE[1]}", _SHOWN)
    text += "\nMF-RMAB: mean of the runs; bounds: their medians. Bands: the middle 80 % of runs." * (scale.runs > 1)
    return Findings(
        numbers=Theorem55(panels, text),
        caption=_caption(),
        tables=(_table(found, scale),),
        verdicts=(_keeps(found, _specs(scale)[0].delta), _says_something(found, scale), _lemma(found)),
        headline=_headline(panels),
    )


def _keeps(found: Sequence[Bounds], delta: float) -> Verdict:
    """Judge the theorem itself: of all runs, a part delta may be above the bound."""
    runs, below_bound = sum(len(each.theorem) for each in found), sum(each.below for each in found)
    all_runs = sum(each.runs for each in found)
    text = f"regret is below the bound in {below_bound} of {runs} runs, at all kept episodes after t0"
    ratios = [each.last / each.total.mean for each in found if not math.isnan(each.last)]
    if ratios:
        text += f"; at the end the bound is {_power(min(ratios))} to {_power(max(ratios))} times the regret measured"
    if runs < all_runs:
        text += f"; {all_runs - runs} runs did not reach t0"
    claim = "For T > t0 and K = 1, fairness regret is below the bound with probability of at least 1 − delta."
    return Verdict(claim, "Theorem 5.5", runs - below_bound <= delta * runs if runs else None, text)


def _says_something(found: Sequence[Bounds], scale: Scale) -> Verdict:
    answers, texts = [], []
    for c in _STRENGTHS:
        own = [each for each in found if each.c == c and not math.isnan(each.last)]
        if own:
            answers += [each.last < 2 * scale.episodes for each in own]
            parts = sorted(each.last / (2 * scale.episodes) for each in own)
            needed = sorted(each.useful for each in own)
            texts.append(
                f"c = {c}: {_power(parts[0])} to {_power(parts[-1])} times 2T, "
                f"and below it from {_power(needed[0])} to {_power(needed[-1])} episodes on"
            )
    claim = "At the length of the experiments the bound is below 2T, which no policy can exceed."
    text = f"after {scale.episodes:,} episodes the bound is (medians of the data sets) " + "; ".join(texts)
    return Verdict(claim, "Theorem 5.5, taken as a number", every(answers) if answers else None, text)


def _lemma(found: Sequence[Bounds]) -> Verdict:
    """Judge Lemma 5.1 where it gives a limit; an infinite one says nothing."""
    finite = [each for each in found if math.isfinite(each.gap_limit)]
    silent = sorted({each.c for each in found} - {each.c for each in finite})
    texts = [f"c = {each.c}, {each.dataset}: G is {shown(each.coverage_gap, 1)}" for each in finite]
    if finite:
        limit = span(each.gap_limit for each in finite)
        texts.insert(
            0, f"1/psi is {limit}, a mean wait for both states and both actions; G is the longest, for all pairs"
        )
    if silent:
        texts.append(f"for c = {' and '.join(map(str, silent))} the lemma's limit is infinite")
    answers = [below(each.coverage_gap, each.gap_limit) for each in finite]
    claim = "In every G episodes an arm is seen in both states, pulled and not, with G of at most 1/psi."
    return Verdict(claim, "Lemma 5.1", every(answers) if answers else None, "; ".join(texts))


def _headline(panels: Sequence[Bounds]) -> str:
    known = [each for each in panels if not math.isnan(each.last)]
    if not known:
        return ""
    least = min(each.last / each.total.mean for each in known)
    return (
        f"Theorem 5.5's bound is at least {_power(least)} times the measured regret, and below the trivial limit 2T "
        f"only from {_power(min(each.useful for each in known))} episodes on."
    )


def _caption() -> str:
    return (
        "Fairness regret of MF-RMAB, added up, and what it cannot exceed; both axes are logarithmic. Blue: the mean of "
        "the runs, with the middle 80 % of them. Each run has its own bound, from its own t0, G, eta and omega; these "
        "lines are medians of the runs, with the middle 80 % of them for Theorem 5.5, and begin where the theorem "
        "applies to all runs. Where a bound lies above the dotted line, 2T, it says less than what is true of every "
        "policy."
    )


def _power(value: float) -> str:
    """Return a large number by its power of ten.

    Examples
    --------
    >>> _power(23_456_789.0), _power(12.0)
    ('2·10⁷', '12')
    """
    if not math.isfinite(value) or value < 10_000:
        return f"{value:,.0f}".replace("inf", "∞")
    mantissa, exponent = f"{value:.0e}".split("e")
    return f"{mantissa}·10{str(int(exponent)).translate(str.maketrans('0123456789', '⁰¹²³⁴⁵⁶⁷⁸⁹'))}"


def _table(found: Sequence[Bounds], scale: Scale) -> PaperTable:
    headings = ["data set", "c", "t0", "G", "eta", "omega", "regret", "2T", "Theorem 5.5", "below 2T from T ="]
    cells = [
        [
            each.dataset,
            str(each.c),
            shown(each.first_valid_episode, 1),
            shown(each.coverage_gap, 1),
            f"{each.eta:.4f}",
            f"{each.omega:.2f}",
            shown(each.total, 0),
            f"{2 * scale.episodes:,}",
            _power(each.last),
            _power(each.useful),
        ]
        for each in found
    ]
    columns: dict[str, list[Any]] = {
        "dataset": [each.dataset for each in found],
        "n_arms": [_SIZE[0]] * len(found),
        "budget": [_SIZE[1]] * len(found),
        "c": [each.c for each in found],
        "t0": [each.first_valid_episode.mean for each in found],
        "G": [each.coverage_gap.mean for each in found],
        "G_limit": [each.gap_limit for each in found],
        "eta_median": [each.eta for each in found],
        "omega_median": [each.omega for each in found],
        "fairness_regret": [each.total.mean for each in found],
        "trivial_limit": [2 * scale.episodes] * len(found),
        "bound_median": [each.last for each in found],
        "our_bound_median": [_median(each.ours[:, -1]) for each in found],
        "useful_from_median": [each.useful for each in found],
        "runs": [each.runs for each in found],
        "runs_with_bound": [len(each.theorem) for each in found],
        "runs_below_bound": [each.below for each in found],
    }
    title = f"Theorem 5.5 with measured constants, N = {_SIZE[0]}, K = {_SIZE[1]} (means; eta, omega, bounds: medians)"
    return PaperTable("theorem-5-5", title, headings, cells, columns)


def _draw(numbers: Theorem55) -> Figure:
    with new_figure(4.4) as figure:
        panels = figure.subplots(1, len(numbers.panels), sharex=True, sharey=True)
        for axes, shown_here in zip(panels, numbers.panels, strict=True):
            lines = _draw_panel(axes, shown_here)
            axes.set(title=shown_here.dataset)
        panels[0].set_ylabel("regret, added up over episodes")
        labels = ["Theorem 5.5", "bound of docs/theory.md", "trivial limit 2T", "MF-RMAB, measured"]
        add_legend(figure, lines, labels)
        add_remark(figure, numbers.remark)
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


THEOREM_5_5 = Artefact(
    name="theorem-5-5",
    title="Theorem 5.5: the bound and the regret",
    about=(
        "The paper proves that for one pull at a step fairness regret grows no faster than sqrt(T ln T), with a bound "
        "that has constants: how steep the merit function is, and t0, G, eta and omega, which a run shows. Here they "
        "are measured, and the bound with these numbers is drawn over the regret of the same runs, for the merit of "
        "the paper's experiments; the table has two other merits too. Beside it is the trivial limit: in each episode "
        "regret is at most 2, whatever is done."
    ),
    specs=_specs,
    analyse=_analyse,
    draw=_draw,
)
