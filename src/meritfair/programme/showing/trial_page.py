"""The sections of a page with the tables of a trial, after the items of the checklist that they are for."""

from __future__ import annotations

import math
from typing import Any

from meritfair.core.language import _, current
from meritfair.core.pages import Drawing, PageSection, PageTable, svg
from meritfair.core.texts import printable
from meritfair.programme.showing.report_figure import plot_course
from meritfair.programme.showing.trial_tables import TrialTables
from meritfair.programme.showing.wording import day, percent, points, whole

_MOST_ROUNDS = 60


def trial_sections(trial: TrialTables) -> list[PageSection]:
    """Return the sections of a trial."""
    return [_design(trial), _flow(trial), _allocation(trial), _outcomes(trial)]


def _design(trial: TrialTables) -> PageSection:
    said = [
        _(
            "The SHA-256 of the protocol is {protocol}. It is in the first entry of the ledger, made on {day} by "
            "{who}, whose hash is {hash}."
        ).format(
            protocol=trial.protocol,
            day=day(trial.created),
            who=printable(trial.created_by) or _("nobody named"),
            hash=trial.first_entry,
        ),
        _randomised(trial),
    ]
    arms = [[printable(row["arm"]), str(row["share"]), printable(row["plan"])] for row in trial.arms]
    changes = [
        [
            day(row["time"]),
            printable(row["by"]),
            str(row["first_round"]),
            printable("; ".join(row["what"])),
            printable(row["reason"]),
        ]
        for row in trial.changes
    ]
    tables = [PageTable(_("Arms as planned (items 3a, 3b, 8b)"), (_("arm"), _("share"), _("plan")), arms)]
    if changes:
        headings = (_("on"), _("by"), _("from round"), _("what"), _("reason"))
        tables.append(PageTable(_("Changes since (item 3c)"), headings, changes))
    else:
        said.append(_("Nothing was changed since (item 3c)."))
    return PageSection(_("The trial: design and protocol (items 3, 8, 24)"), said, None, tables)


def _randomised(trial: TrialTables) -> str:
    adapted = _(
        "Within an arm, chances are adapted in every round to what was seen, as its policy says: these adaptations are "
        "planned. All else that was changed after the start is told below."
    )
    how = (
        _(
            "People were randomised in permuted blocks, in strata by {strata}, in an order that follows from the "
            "programme's secret."
        ).format(strata=", ".join(map(printable, trial.strata)))
        if trial.strata
        else _("People were randomised in permuted blocks, in an order that follows from the programme's secret.")
    )
    return f"{how} {adapted}"


def _flow(trial: TrialTables) -> PageSection:
    names = [row["arm"] for row in trial.arms]
    lines = {
        "randomised": _("randomised"),
        "reached": _("reached at least once"),
        "enrolled": _("still enrolled"),
        "withdrawn": _("left"),
        "erased": _("erased, of those who left"),
        "analysed": _("analysed: a state is known"),
    }
    flow = [[words, *(whole(row[key]) for row in trial.flow)] for key, words in lines.items()]
    for key, words in (("first_joined", _("first joined")), ("last_joined", _("last joined"))):
        flow.append([words, *(day(row[key]) or "–" for row in trial.flow)])
    headings = ("", *map(printable, names))
    tables = [PageTable(_("Participants (items 13a, 13b, 14a, 16)"), (_("people"), *headings[1:]), flow)]
    totals = {row["arm"]: row["randomised"] for row in trial.flow}
    baseline = [
        [printable(row["what"]), printable(row["value"]), *(_baseline(row[name], totals[name]) for name in names)]
        for row in trial.baseline
    ]
    if baseline:
        tables.append(PageTable(_("At enrolment (item 15a)"), (_("what"), _("value"), *headings[1:]), baseline))
    return PageSection(_("The trial: participants"), (), None, tables)


def _baseline(value: Any, total: int) -> str:
    if isinstance(value, list):
        mean, spread = (current().decimal(each, 1) for each in value)
        return f"{mean} ({spread})" if math.isfinite(value[0]) else "–"
    return f"{whole(value)} ({percent(value / total)})" if total else "0"


def _allocation(trial: TrialTables) -> PageSection:
    names = [row["arm"] for row in trial.arms]
    rounds = sorted({row["round"] for row in trial.allocation}, reverse=True)
    cell = {(row["round"], row["arm"]): row for row in trial.allocation}
    rows = [
        [str(number), day(cell[number, names[0]]["time"]), *(_given(cell[number, name]) for name in names)]
        for number in rounds[:_MOST_ROUNDS]
    ]
    more = len(rounds) - _MOST_ROUNDS
    hidden = _("{n} earlier rounds are not shown here; the JSON of this report has all.").format(n=whole(more))
    notes = [hidden] if more > 0 else []
    totals = [
        [
            printable(row["arm"]),
            *(whole(row[key]) for key in ("people", "rounds", "due", "given", "drawn", "reached")),
        ]
        for row in trial.totals
    ]
    sums = (_("due"), _("given"), _("drawn"), _("reached"))
    headings = (_("arm"), _("people"), _("rounds of\na person"), *sums)
    tables = [
        PageTable(_("In all"), headings, totals),
        PageTable(_("By round: people, drawn of budget, reached"), (_("round"), _("on"), *map(printable, names)), rows),
    ]
    return PageSection(_("The trial: allocation (items 8b, 14c)"), (), None, tables, notes)


def _given(row: dict[str, Any]) -> str:
    names = ("people", "drawn", "budget", "reached")
    return _("{people}: {drawn} of {budget}, {reached} reached").format(**{name: whole(row[name]) for name in names})


def _outcomes(trial: TrialTables) -> PageSection:
    names = [row["arm"] for row in trial.arms]
    rows = [
        [
            printable(row["arm"]),
            whole(row["people"]),
            _share(row["share"]),
            _("{low} to {high}").format(low=_share(row["low"]), high=_share(row["high"])),
            points(row["difference"]) if "difference" in row else "–",
            _span(row) if "difference" in row else "–",
        ]
        for row in trial.outcomes
    ]
    reference = printable(trial.reference)
    headings = (
        _("arm"),
        _("people"),
        _("share in the\ngood state"),
        _("95 % interval"),
        _("less {arm},\npercentage points").format(arm=reference),
        _("95 % interval"),
    )
    cell = {(row["round"], row["arm"]): row for row in trial.course}
    rounds = sorted({row["round"] for row in trial.course}, reverse=True)
    course = [[str(number), *(_interval(cell[number, name]) for name in names)] for number in rounds[:_MOST_ROUNDS]]
    tables = [
        PageTable(_("Over all rounds (item 17a)"), headings, rows),
        PageTable(_("After each round, with 95 % intervals (item 17c)"), (_("round"), *map(printable, names)), course),
    ]
    drawing = Drawing(
        svg(plot_course(trial)),
        _("The share in the good state after each round, by arm. The table has the numbers."),
        _(
            "The share of people in the good state after each round, of those whose state is known, with 95 % "
            "intervals."
        ),
    )
    note = _(
        "The share over all rounds is a mean over people, of whom each counts once. Intervals are for one look at the "
        "end: whoever looks after every round, and stops when they like, is misled more often."
    )
    return PageSection(_("The trial: outcomes"), (), drawing, tables, (note,))


def _span(row: dict[str, Any]) -> str:
    return _("{low} to {high}").format(low=points(row["difference_low"]), high=points(row["difference_high"]))


def _share(value: float) -> str:
    return (
        percent(value)
        if math.isfinite(value) and 0 <= value <= 1
        else (f"{current().decimal(100 * value, 1)} %" if math.isfinite(value) else "–")
    )


def _interval(row: dict[str, Any]) -> str:
    if not row["people"]:
        return "–"
    share, low, high = (whole(100 * row[name]) for name in ("share", "low", "high"))
    return _("{share} % ({low} to {high})").format(share=share, low=low, high=high)
