"""The audit of a programme as one page of HTML, for a board."""

from __future__ import annotations

from os import PathLike

import meritfair
from meritfair.core.pages import Page, PageSection, PageTable, write_page
from meritfair.core.texts import printable
from meritfair.programme.showing import report_sections as sections
from meritfair.programme.showing.happenings import policy_words
from meritfair.programme.showing.report import ProgrammeReport
from meritfair.programme.showing.report_words import accounts_words
from meritfair.programme.showing.trial_page import trial_sections
from meritfair.programme.showing.wording import day, percent

_HOW_TO_READ = (
    "Due: the chance of being drawn that the rules of the programme give a person in a round. Given: the chance that "
    "the person had. Both are sums over rounds here, so they are numbers of draws that were to be expected. Drawn: "
    "how often the lottery chose the person. Reached: how often the call took place, whoever was drawn.",
    "Given and drawn differ by chance: somebody due 3 draws may well be drawn once or 6 times. Whether all of them "
    "together differ by more than chance is what the evidence says. Due and given differ on purpose, so that calls "
    "come when they help most; an account keeps the difference, and the slack bounds it.",
    "Drawn and reached differ because people could not be reached, and by overrides: somebody was reached without "
    "being drawn. The ledger has a name for each override, and the hash of a reason.",
    "Benefit: by how much the share of rounds in the good state would change if a person were always reached, rather "
    "than never. It is an estimate for each person. Effect: by how much one draw changes the chance of a good state "
    "after that round, over all people; it rests on the lottery alone, and on no model.",
)
_SECRET = "the secret whose hash is in the first entry: nobody without it could foresee them, or try another draw"


def write_report_page(report: ProgrammeReport, path: str | PathLike[str], *, people: bool = True) -> None:
    """Write the audit of a programme to an .html file, with or without tables of single people."""
    write_page(report_page(report, people=people), path)


def report_page(report: ProgrammeReport, *, people: bool = True) -> Page:
    """Return what the page says."""
    shown = [
        sections.shares(report),
        sections.evidence(report, people=people),
        sections.overrides(report),
        sections.data(report),
        sections.learned(report),
        sections.effect(report),
        *([] if report.trial is None else trial_sections(report.trial)),
        *([sections.waits(report), sections.people(report)] if people else []),
        settings_section(report),
        check_section(report),
        PageSection("How to read this", _HOW_TO_READ),
    ]
    title = f"Audit of {printable(report.name)}"
    return Page(title, printable(report.verdict), _numbers(report), shown, _made_with(report), _warnings(report))


def _numbers(report: ProgrammeReport) -> dict[str, str]:
    total = report.total
    return {
        "people": f"{len(report.people):,}",
        "rounds": f"{report.rounds:,}",
        "draws": f"{int(total['drawn']):,}",
        "reached": f"{int(total['reached']):,}",
        "states missing": percent(total["missing"] / max(1.0, total["states"])),
    }


def _warnings(report: ProgrammeReport) -> list[str]:
    said = []
    if report.verification is not None and not report.verification.whole:
        said.append(printable(str(report.verification)))
    if report.audit.overall.violated:
        said.append("The draws did not follow the chances that were stated. Find out why before the next draw.")
    if not report.within_slack:
        said.append(printable(accounts_words(report)))
    if report.effect is not None and report.effect.missing.differs:
        drawn, others = report.effect.missing[:2]
        said.append(
            f"The state after a round is missing for {percent(drawn)} of those drawn and {percent(others)} of the "
            "others, which is more than chance explains: the effect of being drawn may be biased."
        )
    return said


def settings_section(report: ProgrammeReport) -> PageSection:
    """Return the settings in force, and how they were changed."""
    now = [
        f"{each.name}: {policy_words(each)}." if each.name else f"{policy_words(each)}."
        for each in report.settings.parts
    ]
    said = [printable(f"In force now: {' '.join(now)} Rules: {str(report.settings.rules) or 'none'}.")]
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
        return PageSection("Settings", [*said, "They were never changed."])
    return PageSection(
        "Settings", said, None, [PageTable("Changes", ("on", "by", "from round", "what", "reason"), changes)]
    )


def check_section(report: ProgrammeReport) -> PageSection:
    """Return how all of it can be checked, and what came of a verification."""
    found = report.verification
    said = [
        "No verification was made for this report." if found is None else str(found),
        _seeds(report.rounds, report.happened.public),
        f"The ledger has {report.entries:,} entries, and its head is {report.head}. Compare it with a head that was "
        "kept elsewhere. Anyone can check an export with the verify.py that lies in it, which needs Python alone: that "
        "no entry was changed, and that every draw follows from its chances and its seed.",
    ]
    return PageSection("How to check this", list(map(printable, said)))


def _seeds(rounds: int, public: int) -> str:
    """Return where the randomness of the draws came from."""
    if not public:
        return f"All draws used {_SECRET}."
    if public == rounds:
        return "All draws used public randomness that did not exist when their chances were committed."
    return f"{public:,} of {rounds:,} draws used public randomness, the others {_SECRET}."


def _made_with(report: ProgrammeReport) -> dict[str, str]:
    there = (
        f"{report.enrolled:,} enrolled, {report.away:,} of them away; {report.left:,} left; {report.erased:,} erased"
    )
    times = report.happened.times[: report.rounds]
    return {
        "programme": f"{printable(report.name)} ({report.identity})",
        "as of": report.time,
        "draws": f"from {day(times[0])} to {day(times[-1])}",
        "people": there,
        "false alarms": f"{percent(report.alpha)} at most, however often one looks",
        "meritfair": meritfair.__version__,
    }
