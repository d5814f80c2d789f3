"""An effect as one page of HTML, for people who read no code."""

from __future__ import annotations

import math
from os import PathLike

import numpy as np

from meritfair.core.figures import evenly
from meritfair.core.language import _, current
from meritfair.core.pages import Drawing, Page, PageSection, PageTable, svg, write_page
from meritfair.core.texts import printable
from meritfair.effects.report import Effect, EffectTable, about_unseen, counted, needed, plain_difference, signed

_MOST_ROUNDS = 60
_DIFFERENCES = (0.05, 0.1, 0.2, 0.3, 0.5)  # of those who were not seen from those who were


def write_effect_page(found: Effect, path: str | PathLike[str]) -> None:
    """Write an effect as a page of HTML."""
    write_page(effect_page(found), path)


def headings(level: float) -> list[str]:
    """Return the headings of the cells of `cells`."""
    sure = f"{100 * level:g} %"
    columns = [_("effect"), _("{sure} interval\nat any time"), _("{sure} interval\nfor one look")]
    return [*(text.format(sure=sure) for text in columns), _("arm-\nrounds"), _("drawn"), _("effec-\ntive")]


def cells(table: EffectTable, first: list[str] | None = None) -> list[list[str]]:
    """Return the cells of a table: its names, or others, then effects and intervals in percentage points."""
    return [
        [
            printable(name),
            signed(float(table.estimate[k])),
            span(float(table.anytime_low[k]), float(table.anytime_high[k])),
            span(float(table.low[k]), float(table.high[k])),
            *(current().decimal(float(values[k])) for values in (table.rows, table.pulled, table.effective)),
        ]
        for k, name in enumerate(first or table.names)
    ]


def span(low: float, high: float) -> str:
    """Return an interval in percentage points.

    Examples
    --------
    >>> span(-0.031, 0.17), span(float("nan"), float("nan"))
    ('−3.1 to 17.0', '–')
    """
    if not math.isfinite(low):
        return "–"
    return _("{low} to {high}").format(low=signed(low).lstrip("+"), high=signed(high).lstrip("+"))


def effect_page(found: Effect) -> Page:
    """Return what the page says."""
    low, high = found.interval
    numbers = {
        "effect of a pull, in percentage points": signed(found.estimate),
        f"{100 * found.level:g} % interval, whenever one looks": span(low, high),
        "arm-rounds used": f"{found.overall.rows[0]:,}",
        "plain difference of means": signed(found.difference),
    }
    left_out = PageSection("What was left out", [note for note in found.notes() if note != about_unseen(found)])
    sections = (_shown(found), _not_seen(found), _over_time(found), _how_to_read(found), left_out)
    return Page("Did it help?", str(found), numbers, sections, _made_with(found), found.warnings())


def _shown(found: Effect) -> PageSection:
    kinds = {"overall": found.overall, "state before": found.states}
    group = str(found.settings["group"])
    if found.groups is not None:
        kinds[printable(group)] = found.groups
    columns = headings(found.level)
    tables = [
        PageTable("Overall" if what == "overall" else f"By {what}", [what, *columns], cells(table))
        for what, table in kinds.items()
    ]
    drawing = Drawing(
        svg(found.plot()),
        f"Left: the effect after each round with two intervals that narrow. Right: the effect by state. {found}",
        "Left: the effect of a pull on the next state, estimated after each round from all rounds before, with both "
        "intervals. Right: the effect overall and in parts; the cross is the plain difference of means.",
    )
    own = ["Each interval holds on its own, not all intervals of a table at once."]
    return PageSection("The effect of a pull", ["Effects are in percentage points."], drawing, tables, own)


def _not_seen(found: Effect) -> PageSection:
    """Return by how much the answer would change if those who were not seen had done worse or better."""
    heading, known = "States that were not observed", found.sensitivity
    if not known.missing:
        return PageSection(heading, [about_unseen(found)])
    rows = [
        [f"{100 * d:.0f}", *(_with(found, known.shift(-way * d, way * d)) for way in (1, -1))] for d in _DIFFERENCES
    ]
    headings = (
        "percentage points",
        "those drawn did worse,\nthe others better",
        "those drawn did better,\nthe others worse",
    )
    table = PageTable("If those who were not seen had differed from those who were", headings, rows)
    return PageSection(heading, [about_unseen(found)], None, [table], ["The effect with its interval at any time."])


def _with(found: Effect, shift: float) -> str:
    low, high = (float(end) for end in np.clip(np.array(found.interval) + shift, -1.0, 1.0))
    return f"{signed(found.estimate + shift)} ({span(low, high)})"


def _over_time(found: Effect) -> PageSection:
    columns = headings(found.level)
    looks = evenly(len(found.rounds))
    step = -(-len(looks) // _MOST_ROUNDS)
    shown = found.rounds.take(looks[::-1][::step][::-1])  # the last one always
    tables = [
        PageTable("By period", ["rounds", *columns], cells(found.periods)),
        PageTable("Up to each round", ["up to round", *columns], cells(shown)),
    ]
    return PageSection(
        "Over time", ("A period stands for itself; below, each row has all rounds up to one.",), None, tables
    )


def _how_to_read(found: Effect) -> PageSection:
    sure, misled = (f"{100 * part:.6g} %" for part in (found.level, 1 - found.level))
    return PageSection(
        "How to read this",
        (
            "Chance decided who was pulled, with probabilities that were recorded. So those who were pulled and those "
            "who were not can be compared, if each is weighted by how likely that was. An effect of +12 means: of 100 "
            "pulls, 12 led to a good next state that would otherwise have been a bad one, less those that did harm.",
            "The interval “at any time” holds the true mean effect after every round at once, with probability "
            f"{sure}: somebody who looks after each round, and stops when they like, is misled with probability "
            f"{misled} at most. The interval “for one look” is narrower, and right only if the time of the one look "
            "was set beforehand.",
            plain_difference(found),
            f"Effective: as many {counted(found)} with a chance of one half would say as much. An interval needs "
            f"{needed(clusters=found.settings['cluster'] is not None)}; until then there is a dash.",
        ),
    )


def _made_with(found: Effect) -> dict[str, str]:
    settings, versions = found.settings, found.settings["versions"]
    return {
        "log": f"{settings['rows']:,} rows of {settings['arms']:,} arms, rounds {settings['first_round']} to "
        f"{settings['last_round']}",
        "level": f"{100 * found.level:g} %",
        "group": printable(str(settings["group"] or "none")),
        "drawn together": printable(str(settings["cluster"] or "nobody")),
        "rounds in a period": f"{settings['period']:,}",
        **{name: str(version) for name, version in versions.items()},
    }
