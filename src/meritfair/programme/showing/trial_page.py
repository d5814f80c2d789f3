"""The sections of a page with the tables of a trial, after the items of the checklist that they are for."""

from __future__ import annotations

import math
from typing import Any

from meritfair.core.pages import Drawing, PageSection, PageTable, svg
from meritfair.core.texts import printable
from meritfair.programme.showing.report_figure import plot_course
from meritfair.programme.showing.trial_tables import TrialTables
from meritfair.programme.showing.wording import day, percent, points

_MOST_ROUNDS = 60


def trial_sections(trial: TrialTables) -> list[PageSection]:
    """Return the sections of a trial."""
    return [_design(trial), _flow(trial), _allocation(trial), _outcomes(trial)]


def _design(trial: TrialTables) -> PageSection:
    strata = f", in strata by {', '.join(map(printable, trial.strata))}" if trial.strata else ""
    said = [
        f"The SHA-256 of the protocol is {trial.protocol}. It is in the first entry of the ledger, made on "
        f"{day(trial.created)} by {printable(trial.created_by) or 'nobody named'}, whose hash is {trial.first_entry}.",
        f"People were randomised in permuted blocks{strata}, in an order that follows from the programme's secret. "
        "Within an arm, chances are adapted in every round to what was seen, as its policy says: these adaptations are "
        "planned. All else that was changed after the start is told below.",
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
    tables = [PageTable("Arms as planned (items 3a, 3b, 8b)", ("arm", "share", "plan"), arms)]
    if changes:
        tables.append(PageTable("Changes since (item 3c)", ("on", "by", "from round", "what", "reason"), changes))
    else:
        said.append("Nothing was changed since (item 3c).")
    return PageSection("The trial: design and protocol (items 3, 8, 24)", said, None, tables)


def _flow(trial: TrialTables) -> PageSection:
    names = [row["arm"] for row in trial.arms]
    lines = {
        "randomised": "randomised",
        "reached": "reached at least once",
        "enrolled": "still enrolled",
        "withdrawn": "left",
        "erased": "erased, of those who left",
        "analysed": "analysed: a state is known",
    }
    flow = [[words, *(f"{row[key]:,}" for row in trial.flow)] for key, words in lines.items()]
    for key, words in (("first_joined", "first joined"), ("last_joined", "last joined")):
        flow.append([words, *(day(row[key]) or "–" for row in trial.flow)])
    headings = ("", *map(printable, names))
    tables = [PageTable("Participants (items 13a, 13b, 14a, 16)", ("people", *headings[1:]), flow)]
    totals = {row["arm"]: row["randomised"] for row in trial.flow}
    baseline = [
        [printable(row["what"]), printable(row["value"]), *(_baseline(row[name], totals[name]) for name in names)]
        for row in trial.baseline
    ]
    if baseline:
        tables.append(PageTable("At enrolment (item 15a)", ("what", "value", *headings[1:]), baseline))
    return PageSection("The trial: participants", (), None, tables)


def _baseline(value: Any, total: int) -> str:
    if isinstance(value, list):
        return f"{value[0]:.1f} ({value[1]:.1f})" if math.isfinite(value[0]) else "–"
    return f"{value:,} ({percent(value / total)})" if total else "0"


def _allocation(trial: TrialTables) -> PageSection:
    names = [row["arm"] for row in trial.arms]
    rounds = sorted({row["round"] for row in trial.allocation}, reverse=True)
    cell = {(row["round"], row["arm"]): row for row in trial.allocation}
    rows = [
        [str(number), day(cell[number, names[0]]["time"]), *(_given(cell[number, name]) for name in names)]
        for number in rounds[:_MOST_ROUNDS]
    ]
    more = len(rounds) - _MOST_ROUNDS
    notes = [f"{more:,} earlier rounds are not shown here; the JSON of this report has all."] if more > 0 else []
    totals = [
        [
            printable(row["arm"]),
            *(f"{row[key]:,.0f}" for key in ("people", "rounds", "due", "given", "drawn", "reached")),
        ]
        for row in trial.totals
    ]
    headings = ("arm", "people", "rounds of\na person", "due", "given", "drawn", "reached")
    tables = [
        PageTable("In all", headings, totals),
        PageTable("By round: people, drawn of budget, reached", ("round", "on", *map(printable, names)), rows),
    ]
    return PageSection("The trial: allocation (items 8b, 14c)", (), None, tables, notes)


def _given(row: dict[str, Any]) -> str:
    return f"{row['people']:,}: {row['drawn']:,} of {row['budget']:,}, {row['reached']:,} reached"


def _outcomes(trial: TrialTables) -> PageSection:
    names = [row["arm"] for row in trial.arms]
    rows = [
        [
            printable(row["arm"]),
            f"{row['people']:,}",
            _share(row["share"]),
            f"{_share(row['low'])} to {_share(row['high'])}",
            points(row["difference"]) if "difference" in row else "–",
            f"{points(row['difference_low'])} to {points(row['difference_high'])}" if "difference" in row else "–",
        ]
        for row in trial.outcomes
    ]
    reference = printable(trial.reference)
    headings = (
        "arm",
        "people",
        "share in the\ngood state",
        "95 % interval",
        f"less {reference},\npercentage points",
        "95 % interval",
    )
    cell = {(row["round"], row["arm"]): row for row in trial.course}
    rounds = sorted({row["round"] for row in trial.course}, reverse=True)
    course = [[str(number), *(_interval(cell[number, name]) for name in names)] for number in rounds[:_MOST_ROUNDS]]
    tables = [
        PageTable("Over all rounds (item 17a)", headings, rows),
        PageTable("After each round, with 95 % intervals (item 17c)", ("round", *map(printable, names)), course),
    ]
    drawing = Drawing(
        svg(plot_course(trial)),
        "The share in the good state after each round, by arm. The table has the numbers.",
        "The share of people in the good state after each round, of those whose state is known, with 95 % intervals.",
    )
    note = (
        "The share over all rounds is a mean over people, of whom each counts once. Intervals are for one look at the "
        "end: whoever looks after every round, and stops when they like, is misled more often."
    )
    return PageSection("The trial: outcomes", (), drawing, tables, (note,))


def _share(value: float) -> str:
    return (
        percent(value)
        if math.isfinite(value) and 0 <= value <= 1
        else (f"{100 * value:.1f} %" if math.isfinite(value) else "–")
    )


def _interval(row: dict[str, Any]) -> str:
    if not row["people"]:
        return "–"
    return f"{100 * row['share']:.0f} % ({100 * row['low']:.0f} to {100 * row['high']:.0f})"
