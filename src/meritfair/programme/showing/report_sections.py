"""The sections of the audit of a programme, from what matters to all down to single people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from meritfair.core.language import _, current, ngettext
from meritfair.core.pages import Drawing, PageSection, PageTable, svg
from meritfair.core.texts import printable
from meritfair.effects.page import cells as effect_cells
from meritfair.effects.page import headings as effect_headings
from meritfair.programme.showing import report_words as words
from meritfair.programme.showing.report import ProgrammeReport
from meritfair.programme.showing.report_figure import plot_effect, plot_evidence, plot_groups, plot_learned
from meritfair.programme.showing.steering_words import (
    answer_words,
    finding_details,
    listed_reasons,
    names_of_users,
    steering_words,
)
from meritfair.programme.showing.wording import evidence as evidence_text
from meritfair.programme.showing.wording import percent, points, signed, whole
from meritfair.programme.view import NO_GROUP

MOST_PEOPLE = 50
_MOST_WAITS = 15
_MOST_ACCOUNTS = 10
_MOST_LOOKS = 12


def decimal(value: float, digits: int) -> str:
    """Return a number with this many digits behind the point."""
    return current().decimal(value, digits)


def shares(report: ProgrammeReport) -> PageSection:
    """Return what groups were due, given, drawn and reached."""
    table, flagged = report.groups, _flagged_groups(report)
    names = _names(table.names)
    what = (_("By group"), _("group")) if report.has_groups else (_("In all"), _("who"))
    sums = (_("due"), _("given"), _("drawn"), _("reached"), _("drawn\nless due"), _("drawn fits\nthe chances"))
    rows = [
        [
            printable(names[k]),
            whole(table.people[k]),
            whole(table.rounds[k]),
            decimal(table.due[k], 1),
            decimal(table.given[k], 1),
            whole(table.drawn[k]),
            whole(table.reached[k]),
            signed(table.drawn[k] - table.due[k], 1),
            _("no") if table.names[k] in flagged else _("yes"),
        ]
        for k in np.argsort(-np.abs(table.drawn - table.due) / np.maximum(1, table.rounds), kind="stable")
    ]
    drawing = Drawing(
        svg(plot_groups(report)),
        _("Bars for each group: due, given, drawn and reached in 100 rounds of one person. The table has the numbers."),
        _(
            "What each group was due, was given as chances, was drawn and was reached, for 100 rounds of one person. "
            "Groups may be due different amounts; within a group the four should be alike."
        ),
    )
    shown = PageTable(what[0], (what[1], _("people"), _("rounds of\na person"), *sums), rows)
    return PageSection(_("Who was due what, and who got it"), (), drawing, [shown])


def _flagged_groups(report: ProgrammeReport) -> set[str]:
    found = report.audit.groups
    if found is None:
        return {"all"} if report.audit.overall.violated else set()
    return {name for name, flagged in zip(found.names, found.flagged, strict=True) if flagged}


def evidence(report: ProgrammeReport, *, people: bool = True) -> PageSection:
    """Return whether the draws were as stated, and how accounts stood."""
    looks = np.unique(np.linspace(0, len(report.audit.rounds) - 1, _MOST_LOOKS).round().astype(np.int64))
    course, account = report.audit.course_at(looks), report.audit.arms.account
    assert account is not None
    low, high = account.envelope(looks)
    rows = [
        [str(course.rounds[k]), evidence_text(float(course.overall[k])), signed(float(low[k])), signed(float(high[k]))]
        for k in range(len(looks))
    ]
    headings = (_("up to round"), _("evidence"), _("account\nfarthest ahead"), _("account\nfarthest behind"))
    now = evidence_text(report.audit.overall.log_e)
    drawing = Drawing(
        svg(plot_evidence(report)),
        _(
            "Left: the evidence after each round, {now} at the end. Right: the range of all accounts after each round."
        ).format(now=now),
        _(
            "Left: evidence that the draws were not as stated; at the dashed line it would be proof. Right: the range "
            "of all accounts; dashed is the slack."
        ),
    )
    said = [*words.evidence_words(report), words.accounts_words(report)]
    tables = [PageTable(_("Over the rounds"), headings, rows), *(_accounts(report) if people else [])]
    return PageSection(_("Were the draws as stated?"), list(map(printable, said)), drawing, tables)


def _accounts(report: ProgrammeReport) -> list[PageTable]:
    known, names = report.standings, report.people.names
    places = np.argsort(-np.abs(known.farthest), kind="stable")[:_MOST_ACCOUNTS]
    rows = [
        [printable(names[k]), signed(known.farthest[k]), signed(known.account[k])]
        for k in places
        if abs(known.farthest[k]) >= 0.005
    ]
    headings = (_("person"), _("farthest"), _("now"))
    return [PageTable(_("Accounts that were farthest from even"), headings, rows)] if rows else []


def steered(report: ProgrammeReport, *, people: bool = True) -> PageSection:
    """Return whether anyone could have steered the draws: what is to be explained, by whom, and what was looked at."""
    tables = _moved_by(report)
    if people and report.steering.gains:
        tables.append(_gains(report))
    listed = [finding_details(report, each) for each in report.steering.findings]
    said = [answer_words(report), *listed, *steering_words(report)]
    return PageSection(_("Could anyone have steered this?"), list(map(printable, said)), None, tables)


def _moved_by(report: ProgrammeReport) -> list[PageTable]:
    rows = [
        [
            printable(names_of_users([each.by])),
            whole(each.absences),
            whole(each.people),
            decimal(each.moved, 1),
            printable(listed_reasons(each.reasons)),
        ]
        for each in report.steering.users
    ]
    headings = (_("by"), _("absences"), _("of people"), _("draws\nmoved"), _("reasons given"))
    return [PageTable(_("Who entered absences, and how many draws they moved"), headings, rows)] if rows else []


def _gains(report: ProgrammeReport) -> PageTable:
    place = {int(number): k for k, number in enumerate(report.numbers)}
    rows = [
        [printable(report.people.names[place[each.number]]), signed(each.gain), decimal(each.given, 1)]
        for each in report.steering.gains
        if each.number in place
    ]
    headings = (_("person"), _("gained by\nabsences"), _("given\nin all"))
    return PageTable(_("Largest gains by absences of others, in draws"), headings, rows)


def overrides(report: ProgrammeReport) -> PageSection:
    """Return who was reached without being drawn, and who was drawn and not reached."""
    table, shift = report.groups, words.shifts(report)
    names = _names(table.names)
    counts = (table.drawn, table.not_reached, table.not_reported, table.overrides, table.reached)
    drawn, reached = max(1, table.drawn.sum()), max(1, table.reached.sum())
    rows = [
        [
            printable(names[k]),
            *(whole(values[k]) for values in counts),
            percent(float(table.drawn[k] / drawn)),
            percent(float(table.reached[k] / reached)),
            signed(100 * float(shift[k]), 1),
        ]
        for k in np.argsort(-np.abs(shift), kind="stable")
    ]
    reached_or_not = (_("of these\nnot reached"), _("not\nreported"), _("reached,\nnot drawn"), _("reached"))
    headings = (_("group"), _("drawn"), *reached_or_not)
    parts = (_("part of\nall draws"), _("part of all\nreached"), _("moved,\n% points"))
    note = _(
        "Moved: the group's part of those reached less its part of the draws of which it was reported what was done."
    )
    shown = PageTable(_("From drawn to reached"), (*headings, *parts), rows)
    said = list(map(printable, words.override_details(report)))
    return PageSection(_("Overrides, and who could not be reached"), said, None, [shown], (note,))


def data(report: ProgrammeReport, *, people: bool = True) -> PageSection:
    """Return what is missing, late, corrected or improbable; whose outcomes are, only with `people`."""
    table, names = report.groups, _names(report.groups.names)
    rows = [
        [
            printable(names[k]),
            whole(table.states[k]),
            whole(table.missing[k]),
            percent(float(table.missing_rate[k])),
            whole(table.not_reported[k]),
        ]
        for k in np.argsort(-table.missing_rate, kind="stable")
    ]
    counts = (_("states after\na round"), _("missing"), _("part"), _("draws without\na report"))
    shown = PageTable(_("Missing"), (_("group"), *counts), rows)
    said = list(map(printable, words.data_words(report)))
    more = [improbable_table(report)] if people and report.improbable.named.any() else []
    return PageSection(_("Missing, late, corrected and improbable data"), said, None, [shown, *more])


def improbable_table(report: ProgrammeReport) -> PageTable:
    """Return whose outcomes are improbable beside those of the others."""
    name_of = dict(zip(report.numbers.tolist(), report.people.names, strict=True))
    rows = [
        [
            printable(name_of[row["number"]]),
            words.good_of(row["good_pulled"], row["pulled"]),
            words.good_of(row["good_unpulled"], row["unpulled"]),
            evidence_text(row["log_evidence"]),
        ]
        for row in report.improbable_people()
    ]
    headings = (_("person"), _("good\nwhen reached"), _("good\notherwise"), _("evidence"))
    return PageTable(_("Outcomes improbable beside those of the others"), headings, rows)


def learned(report: ProgrammeReport) -> PageSection:
    """Return how much people are estimated to gain."""
    groups = [
        replace(group, name=f"{each.part}: {name}" if len(report.learned) > 1 else name)
        for each in report.learned
        for group in (each.everyone, *sorted(each.groups, key=lambda group: -group.mean))
        for name in _names([group.name])
    ]
    if not groups:
        nothing = _("Nothing yet: nobody who is enrolled was reached, with a known outcome.")
        return PageSection(_("What was learned"), [nothing])
    spread = (_("nine in ten\nbetween"), _("half\nbetween"), _("with an interval\nabove 0"))
    headings = (_("who"), _("people"), _("mean"), *spread)
    rows = [
        [
            printable(group.name),
            whole(group.people),
            points(group.mean),
            *(
                _("{first} and {second}").format(
                    first=points(group.quantiles[low]), second=points(group.quantiles[high])
                )
                for low, high in ((0, 4), (1, 3))
            ),
            whole(group.gain),
        ]
        for group in groups
    ]
    drawing = Drawing(
        svg(plot_learned(groups)),
        _("The estimated benefits of the people of each group. The table has the numbers."),
        _(
            "Estimated benefits of people: nine in ten lie on the thin line, half of them on the thick one; the dot is "
            "the median."
        ),
    )
    tables = [PageTable(_("Estimated benefit, in percentage points"), headings, rows), *_classes(report)]
    return PageSection(_("What was learned"), list(map(printable, words.learned_words(report))), drawing, tables)


def _classes(report: ProgrammeReport) -> list[PageTable]:
    rows = [
        [printable(each.part) or _("all"), str(number), percent(found.share), points(found.benefit)]
        for each in report.learned
        if len(each.classes) > 1
        for number, found in enumerate(each.classes, start=1)
    ]
    headings = (_("part"), _("class"), _("of the people"), _("benefit"))
    return [PageTable(_("Classes of people that were found"), headings, rows)] if rows else []


def effect(report: ProgrammeReport) -> PageSection:
    """Return whether being drawn helps."""
    heading, said, found = _("Does being drawn help?"), words.effect_words(report), report.effect
    if found is None:
        why = _("In the words of the analysis: {words}.").format(words=printable(report.no_effect))
        return PageSection(heading, [said, why])
    columns = [*effect_headings(found.level)[:3], _("rounds of\na person"), _("drawn"), _("worth")]
    kinds = {_("Overall"): found.overall, _("By state before"): found.states}
    if found.groups is not None:
        kinds[_("By group")] = found.groups
    tables = [
        PageTable(title, [_("of"), *columns], effect_cells(table, _names(table.names)))
        for title, table in kinds.items()
    ]
    spans = [_without_next(name, report.rounds) for name in found.periods.names]
    tables.append(PageTable(_("By time"), [_("rounds"), *columns], effect_cells(found.periods, spans)))
    drawing = Drawing(
        svg(plot_effect(found)),
        _("Left: the effect of being drawn, estimated after each round, with intervals that narrow. {words}").format(
            words=said
        ),
        _(
            "Left: the effect of being drawn on the state after the round, from all rounds so far, with both "
            "intervals. Right: in parts."
        ),
    )
    notes = words.effect_notes(found)
    shown = [said, *words.unseen_words(found), _("All effects are in percentage points.")]
    return PageSection(heading, shown, drawing, tables, notes)


def _names(names: Sequence[str]) -> list[str]:
    """Return the names of groups and parts, in words those that are no data."""
    known = {"all": _("all"), NO_GROUP: _("(none)"), "bad (0)": _("bad"), "good (1)": _("good")}
    return [known.get(name, name) for name in names]


def _without_next(period: str, last: int) -> str:
    """Return the rounds of a period without the next one, of which only the state at its start is known.

    Examples
    --------
    >>> _without_next("26 to 29", 30), _without_next("30 to 31", 30), _without_next("28 to 31", 30)
    ('26 to 29', '30', '28 to 30')
    """
    first, _to, end = period.partition(" to ")
    if end != str(last + 1):
        return period
    return first if first == str(last) else f"{first} to {last}"


def waits(report: ProgrammeReport) -> PageSection:
    """Return the waits that were least likely."""
    known, table, people = report.standings, report.people, len(report.people)
    rows = [
        [
            printable(table.names[k]),
            whole(table.rounds[k]),
            whole(known.wait[k]),
            str(known.wait_end[k]),
            decimal(table.due[k], 1),
            percent(float(known.probability[k])),
            words.expected(float(known.probability[k]), people),
        ]
        for k in report.least_likely_waits(_MOST_WAITS)
    ]
    waited = (_("rounds\nin all"), _("longest\nwait"), _("up to\nround"), _("due\nin all"), _("probability"))
    note = _(
        "The least likely are first. Probability: that someone with these chances waits that long or longer. The last "
        "column allows for how many people there are; a wait is odd only if it is far below 1."
    )
    headings = (_("person"), *waited, _("as unlikely: people\nto be expected"))
    shown = PageTable(_("Least likely waits"), headings, rows)
    return PageSection(_("Longest waits"), list(map(printable, words.waits_words(report))), None, [shown], (note,))


def people(report: ProgrammeReport) -> PageSection:
    """Return single people, those first who were drawn least often compared with what they were due."""
    table, known = report.people, report.standings
    group = [_("group")] if report.has_groups else []
    rows = [
        [
            printable(table.names[k]),
            *([printable(report.group[k])] if group else []),
            whole(table.rounds[k]),
            decimal(table.due[k], 2),
            decimal(table.given[k], 2),
            whole(table.drawn[k]),
            whole(table.reached[k]),
            signed(table.drawn[k] - table.due[k]),
            signed(known.account[k]),
        ]
        for k in report.farthest_behind(MOST_PEOPLE)
    ]
    more = len(report.people) - len(rows)
    rest = ngettext(
        "{n} more person is not shown here; the JSON of this report has everyone.",
        "{n} more people are not shown here; the JSON of this report has everyone.",
        more,
    ).format(n=whole(more))
    said = _(
        "Those are first who were drawn least often, compared with what they were due. That may be bad luck alone: an "
        "account tells by how much their chances were less than due, which is what the programme owes them."
    )
    sums = (_("due"), _("given"), _("drawn"), _("reached"), _("drawn\nless due"), _("account"))
    headings = (_("person"), *group, _("rounds"), *sums)
    shown = PageTable(_("Person by person"), headings, rows)
    return PageSection(_("Single people"), (said,), None, [shown], [rest] if more else [])
