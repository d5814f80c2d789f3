"""The audit of a programme in plain sentences."""

from __future__ import annotations

import math

import numpy as np

from meritfair.auditing.report import readable
from meritfair.core.arrays import FloatArray
from meritfair.core.texts import several
from meritfair.effects.report import Effect
from meritfair.effects.sequence import LEAST
from meritfair.programme.showing.report import ProgrammeReport
from meritfair.programme.showing.wording import draws, percent, points, times

_MANY = 0.1  # overrides, as a part of all who were reached, that a board should ask about
_SHIFT = 0.05  # by how much a group's part of those reached may differ from its part of the draws
_EVEN = 5e-4  # draws
_MOST_NAMES = 10
_LEFT_OUT = (
    "of the last round, whose next state is not known yet",
    "of people who were not in the draw",
    "with a chance of exactly 0 or 1, where nothing was left to chance",
    "with an unknown state before",
    "with an unknown state after",
    "without a draw",
)


def verdict_of(report: ProgrammeReport) -> str:
    """Return what was found, in a few sentences: what matters most first."""
    return " ".join([*_ledger(report), _draws(report), accounts_words(report), overrides_words(report)])


def _ledger(report: ProgrammeReport) -> list[str]:
    found = report.verification
    if found is None or found.whole:
        return []
    return [f"The ledger is not whole: {found.problems[0]}. Until that is explained, nothing below can be relied on."]


def _draws(report: ProgrammeReport) -> str:
    size = f"{several(int(report.total['drawn']), 'draw')} of {several(report.rounds, 'round')}"
    evidence, certain = report.audit.overall, report.audit.certain
    if not evidence.violated:
        return f"Nothing speaks against the {size}: they fit the chances that were committed before each of them."
    if certain:
        first = certain[0]
        did = "was drawn with a chance of 0" if first.exposure == 0 else "was not drawn with a chance of 1"
        return f"The {size} did not follow the chances that were stated: in round {first.round}, {first.arm} {did}."
    return (
        f"The {size} did not follow the chances that were stated: since round {evidence.found} the evidence is beyond "
        f"what fair draws ever reach with a probability of more than {percent(report.alpha)}."
    )


def accounts_words(report: ProgrammeReport) -> str:
    """Return whether everyone was given what they were due."""
    known = report.standings
    far = int(np.abs(known.farthest).argmax())
    account = float(known.farthest[far])
    if abs(account) < _EVEN:
        return "In every round everyone was given the chance that they were due."
    side = "behind" if account > 0 else "ahead"
    largest = f"{report.people.names[far]} was {draws(abs(account))} {side}"
    slacks = {slack for round_ in report.happened.slack for slack in round_ if math.isfinite(slack)}
    if not slacks:
        return f"The account farthest from even: {largest}; the policy sets no bound to it."
    bound = f"its slack of {draws(slacks.pop())}" if len(slacks) == 1 else "its slack"
    if report.within_slack:
        return f"Over time everyone was given what they were due: no account left {bound} (at most, {largest})."
    beyond = several(int((known.beyond > 0).sum()), "account")
    why = " Rules that keep people out of a draw can do that." if report.settings.rules else ""
    return f"{beyond} of {len(known.number):,} left {bound}: {largest}.{why}"


def overrides_words(report: ProgrammeReport) -> str:
    """Return how many were reached without being drawn, and whether that shifts who is reached."""
    number, reached = report.overrides.number, int(report.total["reached"])
    if not number:
        return "Nobody was reached without being drawn."
    said = f"{number:,} of the {reached:,} who were reached ({percent(number / reached)}) had not been drawn"
    shift = shifts(report)
    place = int(np.abs(shift).argmax())
    if abs(shift[place]) > _SHIFT:
        moved = (
            f"{points(float(shift[place]))} percentage points of all calls to the group {report.groups.names[place]}"
        )
        return f"{said}; together with those who could not be reached, this moves {moved}."
    return f"{said}; that is much, and the board should ask why." if number > _MANY * reached else f"{said}."


def shifts(report: ProgrammeReport) -> FloatArray:
    """Return for each group its part of those reached less its part of the draws that were reported on."""
    drawn, reached = report.groups.drawn - report.groups.not_reported, report.groups.reached
    return np.asarray(reached / max(1, reached.sum()) - drawn / max(1, drawn.sum()))


def evidence_words(report: ProgrammeReport) -> list[str]:
    """Return what the evidence says, and what it means."""
    found, need = report.audit.overall, readable(-math.log(report.alpha))
    return [
        "Before each draw the chance of everyone was written into the ledger. If people are then drawn more or less "
        "often than these chances say, evidence builds up: a number that starts at 1, and that fair draws ever take "
        f"to {need} with a probability of {percent(report.alpha)} at most, however often somebody looks. It is "
        f"{readable(found.log_e)} now, and was {readable(found.log_largest)} at most. {_flagged(report)}"
    ]


def _flagged(report: ProgrammeReport) -> str:
    tables = {"people": report.audit.arms, "groups": report.audit.groups}
    named = []
    for what, table in tables.items():
        names = [] if table is None else [table.names[k] for k in np.flatnonzero(table.flagged)]
        more = f" and {len(names) - _MOST_NAMES:,} more" if len(names) > _MOST_NAMES else ""
        named += [f"the {what} {', '.join(names[:_MOST_NAMES])}{more}"] if names else []
    return f"These stand out: {' and '.join(named)}." if named else "No person and no group stands out."


def waits_words(report: ProgrammeReport) -> list[str]:
    """Return how long people waited, and whether that is odd for that many people."""
    known, people = report.standings, len(report.people)
    worst, longest = int(report.least_likely_waits(1)[0]), int(known.wait.max())
    if not longest:
        return ["Nobody has waited for a round yet."]
    chance = float(known.probability[worst])
    verdict = "That is hardly by chance." if chance * people < report.alpha else "That is nothing odd."
    return [
        f"The longest time that anybody went without being drawn was {several(longest, 'round')}. The least likely "
        f"wait was that of {report.people.names[worst]}: {several(int(known.wait[worst]), 'round')}, which had a "
        f"probability of {percent(chance)} with this person's chances. Of {several(people, 'person', 'people')}, "
        f"{expected(chance, people)} can be expected to have one that is as unlikely. {verdict}"
    ]


def expected(chance: float, people: int) -> str:
    """Return how many of some people can be expected to have a wait that is as unlikely.

    Examples
    --------
    >>> expected(0.01, 300), expected(0.0001, 300), expected(1e-9, 300)
    ('3.0', '0.03', 'fewer than 0.001')
    """
    number = chance * people
    if number < 0.001:
        return "fewer than 0.001"
    return f"{number:,.1f}" if number >= 1 else f"{number:.2g}"


def override_details(report: ProgrammeReport) -> list[str]:
    """Return who has reported overrides, and how many reasons were given; reasons are counted, not quoted."""
    found = report.overrides
    if not found.number:
        return [overrides_words(report), *_absences(report)]
    kept = f"For {found.reasons:,} of them a reason is kept: {several(found.different, 'different one')}, of which the "
    reasons = f"{kept}commonest was given {times(found.commonest)}." if found.reasons else "No reason is kept any more."
    learning = "The programme learns from what was done, not from what was drawn."
    details = f"They were reported by: {_counted(found.by)}. {reasons} {learning}"
    return [overrides_words(report), details, *_absences(report)]


def _absences(report: ProgrammeReport) -> list[str]:
    by = {name: number for name, number in report.happened.away_by.items() if number}
    if not by:
        return []
    noted = f"Somebody was noted as away {times(sum(by.values()))}, by: {_counted(by)}."
    return [f"{noted} Whoever is away cannot be drawn, which raises the chances of the others."]


def _counted(by: dict[str, int]) -> str:
    return ", ".join(f"{name or 'nobody named'} {number:,}" for name, number in by.items())


def data_words(report: ProgrammeReport) -> list[str]:
    """Return what is missing, late or corrected."""
    total, happened = report.total, report.happened
    missing = percent(total["missing"] / max(1.0, total["states"]))
    silent = int(total["not_reported"])
    reports = f"; of {several(silent, 'draw')} it was not reported what was done" if silent else ""
    said = [f"The state after a round is missing in {missing} of all cases{reports}."]
    if report.missing.uneven:
        said.append(
            "States are missing more often after some states and actions than after others. If they are missing "
            "because of what they are, estimates and effects are biased, and no records can show by how much."
        )
    if happened.late:
        after = [f"{number:,} after {several(delay, 'draw')}" for delay, number in happened.delays.items()]
        more = " and so on" if len(after) > _MOST_NAMES else ""
        said.append(
            f"{happened.late:,} of {happened.reported:,} reports on a person came after the next draw: "
            f"{', '.join(after[:_MOST_NAMES])}{more}. Each counts for its own round from then on."
        )
    if happened.corrected:
        by = _counted(happened.corrected_by)
        said.append(f"{several(happened.corrected, 'correction')}, by: {by}. The old values stay in the ledger.")
    return said


def learned_words(report: ProgrammeReport) -> list[str]:
    """Return what was learned of how much people gain."""
    said = list[str]()
    for each in report.learned:
        who, known = f"In the arm {each.part}, if" if each.part else "If", each.everyone
        half = f"{points(known.quantiles[1])} to {points(known.quantiles[3])}"
        said.append(
            f"{who} everyone who is enrolled were reached in every round rather than in none, the share of rounds in "
            f"the good state would change by {points(known.mean)} percentage points, by the mean of all estimates; for "
            f"half of the people by {half}. For {known.gain:,} of {known.people:,} people it is clear that it would "
            "rise: the 95 % interval of their own is above 0."
        )
    return said


def effect_words(report: ProgrammeReport) -> str:
    """Return whether being drawn helps, in a sentence."""
    found = report.effect
    if found is None or not math.isfinite(found.interval[0]):
        least = f"{LEAST} draws with a known outcome, and {LEAST} people who were in a draw and not drawn"
        return f"It is too early to say whether being drawn helps. It takes at least {least}."
    low, high = found.interval
    sure = f"at {100 * found.level:g} % confidence, whenever one looks"
    if low <= 0 <= high:
        return (
            f"It is not clear whether being drawn helps: the estimate is {points(found.estimate)} percentage points, "
            f"and anything between {points(low)} and {points(high)} fits the records, {sure}."
        )
    verb = "raises" if low > 0 else "lowers"
    least, most = (f"{end:.0f}" for end in sorted(abs(100 * end) for end in (low, high)))
    return (
        f"Being drawn {verb} the chance of a good state after the round by {100 * abs(found.estimate):.0f} percentage "
        f"points (between {least} and {most}, {sure})."
    )


def effect_notes(found: Effect) -> list[str]:
    """Return on what an effect rests, and what was left out."""
    rows, drawn = int(found.overall.rows[0]), int(found.overall.pulled[0])
    left = [f"{number:,} {why}" for why, number in zip(_LEFT_OUT, found.left_out, strict=True) if number]
    rests = f"This rests on {rows:,} rounds of a person, in {drawn:,} of which the person was drawn."
    return [
        rests + (f" Left out are {'; '.join(left)}." if left else ""),
        "The effect is that of being drawn, whoever was reached in the end, since chance decided that alone. “At any "
        "time” holds however often one looks; “for one look” only if the time of the look was set beforehand. Worth: "
        "as many rounds with a chance of one half would say as much.",
    ]
