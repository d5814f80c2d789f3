"""The audit of a programme as one page of HTML, for a board."""

from __future__ import annotations

from os import PathLike

import meritfair
from meritfair.core.language import _
from meritfair.core.pages import Page, PageSection, PageTable, write_page
from meritfair.core.texts import printable
from meritfair.programme.ledger.heads import short_code
from meritfair.programme.showing import report_sections as sections
from meritfair.programme.showing.happenings import policy_words, rules_text
from meritfair.programme.showing.report import ProgrammeReport
from meritfair.programme.showing.report_words import accounts_words
from meritfair.programme.showing.steering import NOTHING
from meritfair.programme.showing.steering_words import answer_words
from meritfair.programme.showing.trial_page import trial_sections
from meritfair.programme.showing.wording import day, percent, whole


def write_report_page(report: ProgrammeReport, path: str | PathLike[str], *, people: bool = True) -> None:
    """Write the audit of a programme to an .html file, with or without tables of single people."""
    write_page(report_page(report, people=people), path)


def report_page(report: ProgrammeReport, *, people: bool = True) -> Page:
    """Return what the page says."""
    shown = [
        sections.shares(report),
        sections.evidence(report, people=people),
        sections.steered(report, people=people),
        sections.overrides(report),
        sections.data(report, people=people),
        sections.learned(report),
        sections.effect(report),
        *([] if report.trial is None else trial_sections(report.trial)),
        *([sections.waits(report), sections.people(report)] if people else []),
        settings_section(report),
        check_section(report),
        PageSection(_("How to read this"), _how_to_read()),
    ]
    title = _("Audit of {name}").format(name=printable(report.name))
    return Page(title, printable(report.verdict), _numbers(report), shown, _made_with(report), _warnings(report))


def _numbers(report: ProgrammeReport) -> dict[str, str]:
    total = report.total
    return {
        _("people"): whole(len(report.people)),
        _("rounds"): whole(report.rounds),
        _("draws"): whole(int(total["drawn"])),
        _("reached"): whole(int(total["reached"])),
        _("states missing"): percent(total["missing"] / max(1.0, total["states"])),
    }


def _warnings(report: ProgrammeReport) -> list[str]:
    said = []
    if report.verification is not None and not report.verification.whole:
        said.append(printable(str(report.verification)))
    if report.audit.overall.violated:
        said.append(_("The draws did not follow the chances that were stated. Find out why before the next draw."))
    if report.steering.answer != NOTHING:
        said.append(printable(answer_words(report)))
    if not report.within_slack:
        said.append(printable(accounts_words(report)))
    if report.effect is not None and report.effect.missing.differs:
        drawn, others = report.effect.missing[:2]
        said.append(
            _(
                "The state after a round is missing for {drawn} of those drawn and {others} of the others, which is "
                "more than chance explains: the effect of being drawn may be biased."
            ).format(drawn=percent(drawn), others=percent(others))
        )
    return said


def settings_section(report: ProgrammeReport) -> PageSection:
    """Return the settings in force, and how they were changed."""
    now = [
        f"{each.name}: {policy_words(each)}." if each.name else f"{policy_words(each)}."
        for each in report.settings.parts
    ]
    text = _("In force now: {parts} Rules: {rules}.")
    said = [printable(text.format(parts=" ".join(now), rules=rules_text(report.settings.rules)))]
    changes = [
        [
            day(each.time),
            printable(each.by),
            str(each.first_round),
            printable("; ".join(each.what)),
            printable(each.reason),
        ]
        for each in reversed(report.happened.changes)
    ]
    if not changes:
        return PageSection(_("Settings"), [*said, _("They were never changed.")])
    headings = (_("on"), _("by"), _("from round"), _("what"), _("reason"))
    return PageSection(_("Settings"), said, None, [PageTable(_("Changes"), headings, changes)])


def check_section(report: ProgrammeReport) -> PageSection:
    """Return how all of it can be checked, and what came of a verification."""
    found = report.verification
    said = [
        _("No verification was made for this report.") if found is None else str(found),
        _seeds(report.rounds, report.happened.public),
        _(
            "The ledger has {entries} entries, and its head is {head}, with the short code {code}. Compare it with a "
            "head that was kept elsewhere. Anyone can check an export with the verify.py that lies in it, which needs "
            "Python alone: that no entry was changed, and that every draw follows from its chances and its seed."
        ).format(entries=whole(report.entries), head=report.head, code=short_code(report.head)),
    ]
    return PageSection(_("How to check this"), list(map(printable, said)))


def _seeds(rounds: int, public: int) -> str:
    """Return where the randomness of the draws came from."""
    if not public:
        return _(
            "All draws used the secret whose hash is in the first entry: nobody without it could foresee them, or try "
            "another draw."
        )
    if public == rounds:
        return _(
            "All draws used public randomness that did not exist when their chances were committed, together with the "
            "secret whose hash is in the first entry."
        )
    return _(
        "{public} of {rounds} draws used public randomness, together with the secret whose hash is in the first entry; "
        "the others used that secret alone: nobody without it could foresee them, or try another draw."
    ).format(public=whole(public), rounds=whole(rounds))


def _made_with(report: ProgrammeReport) -> dict[str, str]:
    there = _("{enrolled} enrolled, {away} of them away; {left} left; {erased} erased").format(
        enrolled=whole(report.enrolled), away=whole(report.away), left=whole(report.left), erased=whole(report.erased)
    )
    times = report.happened.times[: report.rounds]
    return {
        _("programme"): f"{printable(report.name)} ({report.identity})",
        _("as of"): report.time,
        _("draws"): _("from {first} to {last}").format(first=day(times[0]), last=day(times[-1])),
        _("people"): there,
        _("false alarms"): _("{part} at most, however often one looks").format(part=percent(report.alpha)),
        "meritfair": meritfair.__version__,
    }


def _how_to_read() -> tuple[str, ...]:
    return (
        _(
            "Due: the chance of being drawn that the rules of the programme give a person in a round. Given: the "
            "chance that the person had. Both are sums over rounds here, so they are numbers of draws that were to be "
            "expected. Drawn: how often the lottery chose the person. Reached: how often the call took place, whoever "
            "was drawn."
        ),
        _(
            "Given and drawn differ by chance: somebody due 3 draws may well be drawn once or 6 times. Whether all of "
            "them together differ by more than chance is what the evidence says. Due and given differ on purpose, so "
            "that calls come when they help most; an account keeps the difference, and the slack bounds it, unless "
            "rules keep people out of draws."
        ),
        _(
            "Drawn and reached differ because people could not be reached, and by overrides: somebody was reached "
            "without being drawn. The ledger has a name for each override, and the hash of a reason."
        ),
        _(
            "Benefit: by how much the share of rounds in the good state would change if a person were always reached, "
            "rather than never. It is an estimate for each person. Effect: by how much one draw changes the chance of "
            "a good state after that round, over all people; it rests on the lottery alone, and on no model."
        ),
    )
