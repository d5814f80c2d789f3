"""Appendix B: the same as Figures 2 to 4 with merit exp(c · benefit) for c = 1 and c = 10, against c = 3.

All values of c meet the same arms with the same seeds, so ratios and differences are taken run by run. The paper says
that for c = 1 "the variance has increased" without saying of what; both readings are measured, the standard deviation
of the regret over runs, and that in parts of its mean. The appendix draws one figure for each data set, so claims about
ratios and exponents are judged by their means over the five sizes of each, and have to hold on all three; it is told in
how many settings they hold alone. How near MF-RMAB is to Optimal is the part of its pulls that would have to go to
other arms to be Optimal's: half the L1 distance of their exposures, in parts of K.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from meritfair.core.figures import new_figure
from meritfair.lab.resampling import (
    above,
    below,
    every,
    interval_columns,
    interval_of,
    percent,
    ratio,
    shown,
    span,
    spread,
    tally,
    weights,
)
from meritfair.model.exposure import merit_share
from meritfair.model.merit import Exponential
from meritfair.reproduction.artefact import DATASETS, SIZES, Artefact, Findings, PaperTable, Verdict
from meritfair.reproduction.growth import exponents
from meritfair.reproduction.panels import (
    USUAL,
    Panel,
    add_remark,
    draw_grid,
    growth_table,
    make_panel,
    outcome_of,
    remark,
    unless_short,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import TypeAlias

    from matplotlib.figure import Figure

    from meritfair.core.arrays import FloatArray
    from meritfair.lab.spec import Spec
    from meritfair.lab.tasks import Outcome
    from meritfair.reproduction.artefact import Results, Scale
    from meritfair.simulation.metrics import Interval

    _Changes: TypeAlias = Mapping[str, Sequence[FloatArray]]

__all__ = ["APPENDIX_B_C1", "APPENDIX_B_C10", "CHANGES", "SteepnessFigure", "change", "on_average"]

_ALL = (1, 3, 10)
_USUAL_C = 3
_SETTINGS = tuple((dataset, size) for dataset in DATASETS for size in SIZES)
_DRAWN = ("merit_fair", "optimal", "reference")
CHANGES = {
    "regret": "regret, ratio",
    "spread": "standard deviation, ratio",
    "relative": "standard deviation in parts of the mean, ratio",
    "exponent": "exponent, difference",
}


@dataclass(frozen=True)
class SteepnessFigure:
    """What is drawn: a panel for each data set and size, and a remark."""

    panels: tuple[Panel, ...]
    remark: str


def change(other: Outcome, usual: Outcome, seed: int = 0) -> dict[str, FloatArray]:
    """Return what changes in MF-RMAB's regret from the usual to the other outcome, whose runs are the same.

    The keys are those of `CHANGES`: ratios of the mean, of the standard deviation and of that in parts of the mean, and
    the difference of exponents; as played, then in each resample (see `interval_of`).
    """
    weight = weights(len(usual.runs), seed)
    after, before = (each.measures["fairness_regret"] for each in (other, usual))
    mean = ratio(weight @ after, weight @ before)
    deviation = ratio(spread(after, weight), spread(before, weight))
    growth = exponents(other, weight) - exponents(usual, weight)
    return {"regret": mean, "spread": deviation, "relative": ratio(deviation, mean), "exponent": growth}


def on_average(found: Sequence[FloatArray], *, ratios: bool = True) -> dict[str, Interval]:
    """Return, for each data set, the mean over its sizes, of ratios the geometric one."""
    table = np.stack(found).reshape(len(DATASETS), len(SIZES), -1)
    logs = np.log(np.where(table > 0, table, np.nan)) if ratios else table
    means = np.exp(logs.mean(axis=1)) if ratios else logs.mean(axis=1)
    return {label: interval_of(row) for label, row in zip(DATASETS.values(), means, strict=True)}


def _specs(scale: Scale, c: int) -> tuple[Spec, ...]:
    everything = {"datasets": tuple(DATASETS), "sizes": SIZES}
    merits = tuple(f"exponential:c={each}" for each in _ALL)
    return (
        scale.spec(**everything, policies=("merit-fair",), merits=merits),
        scale.spec(**everything, policies=("optimal",), merits=(f"exponential:c={c}",)),
    )


def _analyse(results: Results, scale: Scale, c: int) -> Findings:
    names = (*USUAL, "reference")
    panels = tuple(make_panel(results, scale, dataset, size, c, names) for dataset, size in _SETTINGS)
    each_change = []
    for each in _SETTINGS:
        other, usual = (outcome_of(results, scale, *each, c=value) for value in (c, _USUAL_C))
        each_change.append(change(other, usual, scale.seed))
    changes = {kind: [each[kind] for each in each_change] for kind in CHANGES}
    table = growth_table(f"appendix-b-c{c}-regret", f"Regret after {scale.episodes:,} episodes, c = {c}", panels)
    found = _low_verdicts(changes) if c < _USUAL_C else _high_verdicts(results, scale, changes, panels)
    return Findings(
        numbers=SteepnessFigure(panels, remark(scale, "All data sets", c)),
        caption=(
            f"Fairness regret with merit exp({c} · benefit), added up over episodes, on logarithmic axes, where slopes "
            "are exponents; these are at the upper left of each panel. Grey: MF-RMAB with c = 3, for comparison. "
            "Lines are means of the runs, bands the middle 80 % of runs. Optimal's regret is by the definition."
        ),
        tables=(table, _change_table(c, changes)),
        verdicts=unless_short(found, scale),
        headline=f"With c = {c} instead of 3, MF-RMAB has {_ratios(changes)} times the regret.",
    )


def _low_verdicts(changes: _Changes) -> tuple[Verdict, ...]:
    where = "Appendix B, c = 1"
    regret = [interval_of(each) for each in changes["regret"]]
    moved = [True if below(each, 1.0) or above(each, 1.0) else None for each in regret]
    return (
        Verdict(
            "The value of c directly influences the value of fairness regret.",
            where,
            every(moved),
            f"With c = 1 the regret is {span(each.mean for each in regret)} times that with c = 3; the interval "
            f"leaves out 1 {tally(moved)}.",
        ),
        _more("The variance of regret has increased.", where, "standard deviation over runs", changes["spread"]),
        _more(
            "The variance of regret has increased (taken as: in parts of the mean regret).",
            where,
            "standard deviation over runs, in parts of the mean,",
            changes["relative"],
        ),
    )


def _more(claim: str, where: str, what: str, found: Sequence[FloatArray]) -> Verdict:
    """Return whether something has grown by a ratio."""
    averages, alone = on_average(found), [above(interval_of(values), 1.0) for values in found]
    return Verdict(
        claim,
        where,
        every(above(each, 1.0) for each in averages.values()),
        f"With {where.rpartition(', ')[2]} the {what} is, on average over sizes, {_listed(averages)} times that with "
        f"c = 3; taken alone, it is more {tally(alone)}.",
    )


def _ratios(changes: _Changes) -> str:
    return span(float(each[0]) for each in changes["regret"])


def _listed(averages: dict[str, Interval]) -> str:
    return ", ".join(f"{shown(each)} on {label}" for label, each in averages.items())


def _high_verdicts(results: Results, scale: Scale, changes: _Changes, panels: Sequence[Panel]) -> tuple[Verdict, ...]:
    where, averages = "Appendix B, c = 10", on_average(changes["exponent"], ratios=False)
    alone = [above(interval_of(each), 0.0) for each in changes["exponent"]]
    now, usual = (span(panel.lines[name].growth.mean for panel in panels) for name in ("merit_fair", "reference"))
    return (
        _more("A higher c leads to higher regret.", where, "regret", changes["regret"]),
        Verdict(
            "The regret curve becomes increasingly more linear with c.",
            where,
            every(above(each, 0.0) for each in averages.values()),
            f"The exponents are {now} with c = 10 and {usual} with c = 3. The difference is, on average over sizes, "
            f"{_listed(averages)}; taken alone, it is more {tally(alone)}.",
        ),
        _uniform_verdict(results, scale, where),
        _nearer_verdict(results, scale, where),
    )


def _uniform_verdict(results: Results, scale: Scale, where: str) -> Verdict:
    """Return whether c = 0 treats all arms alike, on all arms that were played."""
    gaps = []
    for each in _SETTINGS:
        shares = merit_share(Exponential(0.0)(outcome_of(results, scale, *each).by_arm["benefit"]))
        gaps.append(float(np.abs(shares * shares.shape[-1] - 1).max()))
    found = f"The shares differ from 1/N by at most {max(gaps):.1g} of it, on all arms that were played."
    return Verdict("c = 0 is uniform fairness across all arms.", where, max(gaps) < 1e-9, found)


def _nearer_verdict(results: Results, scale: Scale, where: str) -> Verdict:
    """Return whether MF-RMAB comes nearer to Optimal with every step of c."""
    far: dict[int, list[float]] = {c: [] for c in _ALL}
    answers = []
    for each in _SETTINGS:
        greedy = outcome_of(results, scale, *each, "optimal", _ALL[-1]).by_arm["exposure"]
        weight = weights(len(greedy), scale.seed)
        apart = [np.abs(outcome_of(results, scale, *each, c=c).by_arm["exposure"] - greedy).sum(axis=1) for c in _ALL]
        means = [weight @ (distance / (2 * each[1][1])) for distance in apart]
        for c, mean in zip(_ALL, means, strict=True):
            far[c].append(float(mean[0]))
        answers += [below(interval_of(after - before), 0.0) for before, after in pairwise(means)]
    parts = ", ".join(f"{percent(min(far[c]))} to {percent(max(far[c]))} with c = {c}" for c in _ALL)
    return Verdict(
        "c trades fairness for optimality: with a very high c the algorithm is nearly Optimal (taken as: nearer with "
        "each larger c).",
        where,
        every(answers),
        f"Of MF-RMAB's pulls, {parts} would have to go to other arms to be Optimal's; nearer {tally(answers)}, each "
        "from one c to the next.",
    )


def _change_table(c: int, changes: _Changes) -> PaperTable:
    """Return what c changes, a row for each data set and size."""
    columns: dict[str, list[Any]] = {
        "dataset": [DATASETS[dataset] for dataset, _ in _SETTINGS],
        "n_arms": [n_arms for _, (n_arms, _) in _SETTINGS],
        "budget": [budget for _, (_, budget) in _SETTINGS],
    }
    cells = [[str(cell) for cell in row] for row in zip(*columns.values(), strict=True)]
    for kind in CHANGES:
        found = [interval_of(each) for each in changes[kind]]
        for row, value in zip(cells, found, strict=True):
            row.append(shown(value))
        columns |= interval_columns(kind, found)
    title, headings = f"MF-RMAB with c = {c} against c = 3", ["data set", "N", "K", *CHANGES.values()]
    return PaperTable(f"appendix-b-c{c}-change", title, headings, cells, columns)


def _draw(numbers: SteepnessFigure) -> Figure:
    with new_figure(6.8) as figure:
        draw_grid(figure, numbers.panels, _DRAWN)
        add_remark(figure, numbers.remark)
    return figure


def _artefact(c: int) -> Artefact:
    return Artefact(
        name=f"appendix-b-c{c}",
        title=f"Appendix B: regret with c = {c}",
        about=(
            "Merit is exp(c · benefit). A small c makes merits alike, and fair shares nearly equal; a large one gives "
            "nearly everything to the arms with the largest benefit. Here are all data sets and sizes of the paper "
            f"with c = {c}, and MF-RMAB with c = 3 beside it, on the same arms with the same seeds."
        ),
        specs=partial(_specs, c=c),
        analyse=partial(_analyse, c=c),
        draw=_draw,
    )


APPENDIX_B_C1 = _artefact(1)
APPENDIX_B_C10 = _artefact(10)
