"""Made-up outcomes of an artefact's settings whose answers are known, and what every artefact must keep."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from meritfair.lab.spec import Setting
from meritfair.lab.tasks import Outcome, curve_episodes
from meritfair.reproduction.artefact import Artefact, Findings, Results, Scale, Verdict

NOISE = 1 + 0.004 * np.array(
    [-1.0, 1.0, 0.5, -0.5, 0.2, -0.2]
)  # a run is a little more or less, for all policies alike
Planted = Callable[[Setting], dict[str, Any]]


def outcome(setting: Setting, runs: int, planted: dict[str, Any]) -> Outcome:
    """Return an outcome with these measures, curves and exposures by arm, and nothing else."""
    rows = {kind: {} for kind in ("measures", "curves", "by_arm")} | planted
    return Outcome(setting, np.arange(runs), curve_episodes(setting.episodes), **rows)


def made(artefact: Artefact, scale: Scale, plant: Planted) -> Results:
    settings = {setting for spec in artefact.specs(scale) for setting in spec.settings()}
    return {setting: outcome(setting, scale.runs, plant(setting)) for setting in settings}


def verdicts(artefact: Artefact, scale: Scale, plant: Planted) -> tuple[Verdict, ...]:
    return artefact.analyse(made(artefact, scale, plant), scale).verdicts


def check_whole(artefact: Artefact, found: Findings) -> None:
    """What every artefact must keep: a figure, tables with whole columns, sentences without blanks."""
    for table in found.tables:
        assert table.cells
        assert all(len(row) == len(table.headings) for row in table.cells)
        assert {len(column) for column in table.columns.values()} == {len(table.cells)}
    for text in [
        found.caption,
        found.headline,
        *(text for v in found.verdicts for text in (v.claim, v.where, v.found, v.rule)),
    ]:
        assert text
        assert not re.search(r"\bnan\b|\binf\b|None|\{|\}|  ", text), text
    assert all("hold" in verdict.rule for verdict in found.verdicts)
    assert len({verdict.claim for verdict in found.verdicts}) == len(found.verdicts)
    figure = artefact.draw(found.numbers)
    figure.draw_without_rendering()
    assert all(axes.has_data() and axes.get_xlabel() for axes in figure.axes)


def first_run(found: Outcome) -> Outcome:
    rows = [{name: each[:1] for name, each in of.items()} for of in (found.measures, found.curves, found.by_arm)]
    return Outcome(found.setting, found.runs[:1], found.episodes, *rows)
