"""Appendix B: the same as Figures 2 to 4 with merit exp(c · benefit) for c = 1 and c = 10, against c = 3.

All values of c meet the same arms with the same seeds, so ratios and differences are taken run by run. The paper says
that for c = 1 "the variance has increased" without saying of what; both readings are measured, the standard deviation
of the regret over runs, and that relative to its mean. The appendix draws one figure for each data set, so claims about
ratios and exponents are judged by their means over the five sizes of each, and have to hold on all three; the report
also says in how many settings they hold. How near MF-RMAB is to Optimal is the part of its pulls that would have to go
to other arms to be Optimal's: half the L1 distance of their exposures, divided by K.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise, product
from typing import TYPE_CHECKING, Any

import numpy as np

from meritfair.core.arrays import FloatArray
from meritfair.lab.resampling import above, below, every
from meritfair.lab.tasks import Outcome
from meritfair.model.exposure import merit_share
from meritfair.model.merit import Exponential
from meritfair.reproduction.artefact import DATASETS, SIZES, Artefact, Findings, Results, Scale, Specs
from meritfair.reproduction.growth import exponents
from meritfair.reproduction.panels import USUAL, Panel, draw_grid, growth_rows, make_panel
from meritfair.reproduction.prose import Rows, compose, place
from meritfair.simulation.bootstrap import Interval, interval_of, ratio, spread, weights

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_ALL = (1, 3, 10)
_USUAL_C = 3
_ROUNDING = 1e-9
_SETTINGS = tuple(product(DATASETS, SIZES))
_DRAWN = ("merit_fair", "optimal", "reference")


def change(other: Outcome, usual: Outcome, seed: int = 0) -> dict[str, FloatArray]:
    """Return what changes in MF-RMAB's regret from the usual to the other outcome, whose runs are the same.

    These are ratios of the mean, of the standard deviation and of that relative to the mean, and the difference of
    exponents; as played, then in each resample (see `interval_of`).
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


def _specs(scale: Scale, c: int) -> Specs:
    everything = {"datasets": tuple(DATASETS), "sizes": SIZES}
    merits = tuple(f"exponential:c={each}" for each in _ALL)
    return (
        scale.spec(**everything, policies=("merit-fair",), merits=merits),
        scale.spec(**everything, policies=("optimal",), merits=(f"exponential:c={c}",)),
    )


def _analyse(results: Results, scale: Scale, c: int) -> Findings:
    panels = tuple(make_panel(results, scale, *each, c, (*USUAL, "reference")) for each in _SETTINGS)
    changes, rows = [], []
    for each in _SETTINGS:
        other, usual = (scale.outcome(results, *each, c=value) for value in (c, _USUAL_C))
        changes.append(change(other, usual, scale.seed))
        rows.append(place(usual.setting) | {kind: interval_of(values) for kind, values in changes[-1].items()})
    averages = {kind: on_average([each[kind] for each in changes], ratios=kind != "exponent") for kind in changes[0]}
    return compose(
        "appendix-b",
        scale,
        panels,
        specs=partial(_specs, c=c),
        tables={f"appendix-b-c{c}-regret": growth_rows(panels), f"appendix-b-c{c}-change": rows},
        c=c,
        rows=rows,
        averages=averages,
        **(_low(rows, averages) if c < _USUAL_C else _high(results, scale, averages)),
    )


def _low(rows: Rows, averages: Mapping[str, Mapping[str, Interval]]) -> dict[str, Any]:
    """Return what holds of a small c."""
    moved = [True if below(row["regret"], 1.0) or above(row["regret"], 1.0) else None for row in rows]
    more = {kind: every(above(each, 1.0) for each in averages[kind].values()) for kind in ("spread", "relative")}
    verdicts = {"influences": every(moved), **more}
    return {"verdicts": verdicts, "moved": moved}


def _high(results: Results, scale: Scale, averages: Mapping[str, Mapping[str, Interval]]) -> dict[str, Any]:
    """Return what holds of a large c."""
    uneven, (far, nearer) = _most_uneven(results, scale), _distances(results, scale)
    verdicts = {
        "higher": every(above(each, 1.0) for each in averages["regret"].values()),
        "more_linear": every(above(each, 0.0) for each in averages["exponent"].values()),
        "uniform": uneven < _ROUNDING,
        "nearer": every(nearer),
    }
    return {"verdicts": verdicts, "at_any_length": ("uniform",), "uneven": uneven, "far": far, "nearer": nearer}


def _most_uneven(results: Results, scale: Scale) -> float:
    """Return by which part shares with c = 0 differ from 1/N at most, on all arms that were played."""
    gaps = []
    for each in _SETTINGS:
        shares = merit_share(Exponential(0.0)(scale.outcome(results, *each).by_arm["benefit"]))
        gaps.append(float(np.abs(shares * shares.shape[-1] - 1).max()))
    return max(gaps)


def _distances(results: Results, scale: Scale) -> tuple[dict[int, list[float]], list[bool | None]]:
    """Return how far MF-RMAB is from Optimal in each setting, by c, and whether it is nearer with each step of c."""
    far: dict[int, list[float]] = {c: [] for c in _ALL}
    nearer = []
    for each in _SETTINGS:
        greedy = scale.outcome(results, *each, "optimal", _ALL[-1]).by_arm["exposure"]
        weight = weights(len(greedy), scale.seed)
        apart = [np.abs(scale.outcome(results, *each, c=c).by_arm["exposure"] - greedy).sum(axis=1) for c in _ALL]
        means = [weight @ (distance / (2 * each[1][1])) for distance in apart]
        for c, mean in zip(_ALL, means, strict=True):
            far[c].append(float(mean[0]))
        nearer += [below(interval_of(after - before), 0.0) for before, after in pairwise(means)]
    return far, nearer


def _draw(panels: tuple[Panel, ...]) -> Figure:
    return draw_grid([replace(each, lines={name: each.lines[name] for name in _DRAWN}) for each in panels], 6.8)


def _artefact(c: int) -> Artefact:
    title, specs, analyse = f"Appendix B: regret with c = {c}", partial(_specs, c=c), partial(_analyse, c=c)
    return Artefact(f"appendix-b-c{c}", title, specs, analyse, _draw)


APPENDIX_B = tuple(map(_artefact, (1, 10)))
