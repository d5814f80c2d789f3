"""What the viewer's pages show, as values for their templates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from meritfair.core.language import _
from meritfair.lab.side_by_side import BENEFIT, REGRETS, SideBySide, side_by_side
from meritfair.lab.spec import Setting
from meritfair.model.rules import budget_text
from meritfair.web.rendering import number
from meritfair.web.viewer.choice import Selection
from meritfair.web.viewer.contents import Contents
from meritfair.web.viewer.tables import (
    FigureTable,
    benefit_table,
    exposure_table,
    policy_table,
    regret_table,
)
from meritfair.web.viewer.wording import field_label, measure_label, measure_meaning, verdict_text

_SIGNS = {"holds": ("good", "✓"), "does not hold": ("bad", "✗")}


@dataclass(frozen=True)
class ShownFigure:
    """A figure of a page, with its table."""

    name: str
    title: str
    caption: str
    table: FigureTable


@dataclass(frozen=True)
class Version:
    """A version with which a folder was played, and the one here if that is another."""

    name: str
    then: str
    now: str


def overview_values(now: Contents) -> dict[str, Any]:
    """Return what the overview says beyond what is in the folder itself."""
    changed = now.results.manifest.changed
    versions = [
        Version(name, then, changed[name][1] if name in changed else "")
        for name, then in now.results.manifest.versions.items()
    ]
    return {"facts": _facts(now), "versions": versions, "policies": _unique(each.policy for each in now.settings)}


def _facts(now: Contents) -> dict[str, str]:
    """Return what was to be played, by label."""
    settings = now.settings
    return {
        _("Data sets"): " · ".join(_unique(now.wording.dataset(each) for each in settings)),
        _("Arms and budgets"): " · ".join(_unique(map(_size, settings))),
        _("Merits"): " · ".join(_unique(each.merit for each in settings)),
        _("Episodes"): _span(each.episodes for each in settings),
        _("Steps in an episode"): _span(each.horizon for each in settings),
        _("Runs of a setting"): _span(now.runs.values()),
        _("Settings"): number(len(settings)),
    }


def _size(setting: Setting) -> str:
    return f"N = {setting.n_arms}, K = {budget_text(setting.cycle)}"


def _span(values: Iterable[int]) -> str:
    """Return the only value, or the least and the largest."""
    several = sorted(set(values))
    if len(several) == 1:
        return number(several[0])
    return _("{low} to {high}").format(low=number(several[0]), high=number(several[-1]))


def comparison_values(now: Contents, choice: Selection, sort: str, *, descending: bool) -> dict[str, Any]:
    """Return what policies did on the problem that was picked."""
    found = now.results.outcomes
    there = [each for each in choice.shown if each in found]
    values: dict[str, Any] = {
        "labels": {field.name: field_label(field.name) for field in choice.fields},
        "waiting": [each.policy for each in choice.policies if each not in found],
        "fewer": [each.policy for each in there if len(found[each].runs) < now.runs[each]],
        "regrets": {},
        "figures": (),
        "table": None,
        "description": "",
    }
    if not there:
        return values
    shown = side_by_side(found, there)
    regret = choice.regret if shown.has(choice.regret) else REGRETS[0]
    names = now.results.only(there).shown
    return values | {
        "regrets": {name: measure_label(name) for name in REGRETS if shown.has(name)},
        "figures": _figures(shown, regret),
        "table": policy_table(shown, names, sort, descending=descending),
        "meanings": {measure_label(name): measure_meaning(name) for name in [BENEFIT] * bool(shown.references) + names},
        "description": shown.description,
    }


def _figures(shown: SideBySide, regret: str) -> tuple[ShownFigure, ...]:
    benefit = shown.reward == BENEFIT
    upward = _("intervention benefit") if benefit else _("the share of arms in the good state")
    why = "" if benefit else " " + _("For the intervention benefit, the sweep needs the policies none and whittle.")
    words = _("Further left is fairer, further up is better: {upward}. No policy on the grey line is beaten in both.")
    return (
        ShownFigure(
            "regret",
            _("{regret} by episode").format(regret=measure_label(regret)),
            _("Added up over episodes: mean over runs, with 95 % intervals. A line that bends becomes fairer."),
            regret_table(shown, regret),
        ),
        ShownFigure(
            "exposure",
            _("Exposure by arm"),
            _("Probability of a pull at a step, arms from least to most benefit. Black: the fair exposure."),
            exposure_table(shown),
        ),
        ShownFigure("benefit", _("Benefit and fairness"), words.format(upward=upward) + why, benefit_table(shown)),
    )


@dataclass(frozen=True)
class Claim:
    """A claim of a report and its verdict."""

    key: str
    verdict: str
    claim: str
    where: str
    found: str
    rule: str


def report_values(now: Contents) -> dict[str, Any]:
    """Return the verdicts of a reproduction, by part and artefact."""
    parts: dict[str, dict[str, list[Claim]]] = {}
    for row in now.verdicts:
        key, sign = _SIGNS.get(row["verdict"], ("open", "?"))
        texts = (row[name] for name in ("claim", "where", "found", "rule"))
        claim = Claim(key, f"{sign} {verdict_text(row['verdict'])}", *texts)
        parts.setdefault(row["about"], {}).setdefault(row["title"], []).append(claim)
    titles = {"the paper": _("What the paper claims"), "beyond the paper": _("Beyond the paper")}
    counts = Counter(_SIGNS.get(row["verdict"], ("open", ""))[0] for row in now.verdicts)
    return {"parts": {titles.get(about, about): claims for about, claims in parts.items()}, "counts": counts}


def _unique(texts: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(texts))
