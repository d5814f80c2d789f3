"""The page of one participant, to print and hand over: why they were called or not, and every round."""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING

import meritfair
from meritfair.core.figures import new_figure
from meritfair.core.pages import Drawing, Page, PageSection, PageTable, svg, write_page
from meritfair.core.texts import printable, several
from meritfair.programme.ledger.heads import short_code
from meritfair.programme.showing.figure_parts import BLUE, ORANGE, accounts_axis
from meritfair.programme.showing.person import Account, PersonReport
from meritfair.programme.showing.person_history import Correction, PersonRound
from meritfair.programme.showing.person_words import last_round, paragraphs
from meritfair.programme.showing.wording import day, percent, signed, state_word

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SEEN = {"before": "state before", "action": "reached", "after": "state after"}
_HOW_TO_READ = (
    "Due: the chance of being drawn that the rules of the programme give in a round. It follows from what a call is "
    "estimated to change for this person, compared with all others, between a floor and a cap that hold for everyone.",
    "Chance: with which probability the person was drawn. It may differ from what is due in a single round, so that "
    "calls come when they help most; the account keeps what is still owed. The slack says how large it may get, unless "
    "rules keep people out of draws, or it was larger before: then accounts can be beyond it for a time.",
    "Drawn: whether the lottery chose the person. Reached: whether the call took place.",
    "Each round is shown as it was known when it was drawn: the state is the last one that was known then. What was "
    "reported later, or corrected, is said in the last column.",
)


def write_person_page(person: PersonReport, path: str | PathLike[str]) -> None:
    """Write the page of a participant to an .html file."""
    write_page(person_page(person), path)


def person_page(person: PersonReport) -> Page:
    """Return what the page says."""
    when = f"after round {person.round}" if person.round else "before the first round"
    then = "" if person.latest else f" This page shows what was known {when}, before the next round was drawn."
    lead = " ".join(map(printable, last_round(person))) + then
    sections = [PageSection("Over all rounds", [printable(" ".join(each)) for each in paragraphs(person)])]
    if person.rounds:
        sections.append(_rounds(person))
    sections += [PageSection("Taking part", _enrolment(person)), PageSection("How to read this", _HOW_TO_READ)]
    return Page(f"{printable(person.id)}: why called, why not", lead, _numbers(person), sections, _made_with(person))


def _numbers(person: PersonReport) -> dict[str, str]:
    if not person.rounds:
        return {}
    return {
        "due to be drawn, in all": f"{person.account.due:.1f}",
        "drawn": f"{person.drawn:,}",
        "reached": f"{person.reached:,}",
        "account: draws still owed": signed(person.account.balance),
    }


def _rounds(person: PersonReport) -> PageSection:
    headings = (
        "round",
        "drawn on",
        "state then",
        "due",
        "chance",
        "drawn",
        "reached",
        "state\nafter",
        "account",
        "remarks",
    )
    cells = [_row(each) for each in reversed(person.rounds)]
    slack = "" if person.account.slack is None else f" {_slack_lines(person.account)}"
    drawing = Drawing(
        svg(account_figure(person)),
        f"The account of {person.id} after each round, between {min(each.account for each in person.rounds):.2f} and "
        f"{max(each.account for each in person.rounds):.2f} draws, with the rounds in which they were drawn.",
        f"The account after each round: above 0, draws are still owed; below 0, they came ahead of time.{slack} Dots: "
        "rounds in which they were drawn.",
    )
    notes = ("The last round is first. State then: the last state known when the round was drawn.",)
    table = PageTable("Every round", headings, cells)
    return PageSection("Round by round", (), drawing, (table,), notes)


def _slack_lines(account: Account) -> str:
    if account.bounded:
        return "The dashed lines are the slack now in force: it is not to leave them."
    if account.rules:
        return "The dashed lines are the slack: it can leave them for a time, as rules keep people out of some draws."
    return "The dashed lines are the slack now in force: it can leave them until all accounts are back within it."


def _row(each: PersonRound) -> list[str]:
    stale = each.seen_after is not None and each.seen_after < each.round - 1
    state = state_word(each.state) + (f" (after {each.seen_after})" if stale else "")
    drawn = {True: "yes", False: "no", None: "not yet"}[each.drawn]
    reached = {1: "yes", 0: "no"}.get(each.action, "not reported" if each.drawn else "")
    after = state_word(each.after) if each.after >= 0 else "–"
    due, chance = percent(each.due), percent(each.chance)
    return [
        str(each.round),
        day(each.time),
        state,
        due,
        chance,
        drawn,
        reached,
        after,
        signed(each.account),
        _remarks(each),
    ]


def _remarks(each: PersonRound) -> str:
    said = [each.kept_out] if each.kept_out else []
    if each.override:
        said.append("reached without being drawn" + (f": {printable(each.reason)}" if each.reason else ""))
    if each.late:
        said.append("reported late")
    return "; ".join([*said, *map(_correction, each.corrections)])


def _correction(each: Correction) -> str:
    changes = [f"{_SEEN[name]} {_value(name, each.old[name])} → {_value(name, new)}" for name, new in each.new.items()]
    return f"corrected: {', '.join(changes)} ({day(each.time)}, {printable(each.by)})"


def _value(name: str, value: int) -> str:
    return {0: "no", 1: "yes"}.get(value, "not known") if name == "action" else state_word(value)


def _enrolment(person: PersonReport) -> list[str]:
    known, said = person.enrolment, list[str]()
    for stay in known.stays:
        until = "" if stay.left is None else f", and left on {day(stay.left)}, after round {stay.last}"
        said.append(f"Joined on {day(stay.joined)}, with round {stay.first} as the first{until}.")
    if known.away:
        said.append(f"Away since {day(known.away_since)}, as {printable(known.away_by)} has noted.")
    if known.erased:
        said.append(f"Erased on {day(known.erased)}: who it was is not kept any more.")
    shown = {"Group": known.group, "Arm of the trial": known.part, "Staff": known.staff, **known.features}
    facts = [f"{printable(name)}: {printable(value)}." for name, value in shown.items() if value]
    before = [f"Records of {several(person.seen.before, 'round')} before the first were taken in."]
    return [" ".join(each) for each in (said, facts, before if person.seen.before else []) if each]


def _made_with(person: PersonReport) -> dict[str, str]:
    return {
        "programme": printable(person.programme),
        "number in the ledger": str(person.number),
        "as of": f"{person.time}, after round {person.round}",
        "head of the ledger": person.head,
        "short code of the head": short_code(person.head),
        "how to check": "verify.py of an export checks the whole ledger; a proof checks the rows of this person alone",
        "meritfair": meritfair.__version__,
    }


def account_figure(person: PersonReport) -> Figure:
    """Draw the account after each round, and the rounds in which somebody was drawn."""
    rounds, account = [each.round for each in person.rounds], [each.account for each in person.rounds]
    with new_figure(2.6) as figure:
        axes = figure.subplots()
        accounts_axis(axes, max(map(abs, account)), person.account.slack)
        axes.step([rounds[0] - 1, *rounds], [0.0, *account], where="post", color=BLUE)
        hits = [each for each in person.rounds if each.drawn]
        axes.plot(
            [each.round for each in hits], [each.account for each in hits], "o", color=ORANGE, markersize=6, zorder=3
        )
    return figure
