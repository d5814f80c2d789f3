"""Why, and whether it was fair: `meritfair programme person`, for one of them, and `audit`, for a board."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from meritfair.cli.options import HtmlOption, JsonOption, flag, number, out_option, whole, with_options
from meritfair.cli.programme.common import Which, working
from meritfair.cli.show import Files, check_html, check_out, print_note, print_table
from meritfair.core.progress import bar

if TYPE_CHECKING:
    from meritfair.programme.showing.person import PersonReport
    from meritfair.programme.showing.person_history import PersonRound
    from meritfair.programme.showing.report import ProgrammeReport
    from meritfair.programme.showing.tallying import Tally

PERSON_EXAMPLES = """Why was she not called? In words, and as a page to print and hand over:

[cyan]meritfair programme person P017 --html P017.html[/]"""

AUDIT_EXAMPLES = """For the board, as one page that needs nothing beside it:

[cyan]meritfair programme audit --html audit.html[/]"""

_MOST_ROUNDS = 12


@with_options()
def person(
    id_: Annotated[str, typer.Argument(metavar="ID", show_default=False, help="Whom.")],
    which: Which,
    round_: Annotated[
        int | None, whole("--round", "-r", help="As it was known after this round; by default as it is known now.")
    ] = None,
    html: HtmlOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say why someone was called or not: what was seen, what they are due, their account, every round."""
    from meritfair.programme.showing.person import person_of
    from meritfair.programme.showing.person_page import write_person_page

    check_html(html)
    programme, files = which.open(), Files(html)
    with working(programme) as work:
        found = person_of(work, id_, round=round_)
    files.save(html, lambda path: write_person_page(found, path))
    files.report(as_json, found.to_dict, lambda: _show_person(found))


def _show_person(found: PersonReport) -> None:
    from meritfair.programme.ledger.heads import short_code

    print_note(f"{found.id} in {found.programme}", style="bold")
    for sentence in found.sentences():
        print_note(sentence, style="none")
    rows = [_round_cells(each) for each in found.rounds[-_MOST_ROUNDS:]]
    if rows:
        some = f"The last {_MOST_ROUNDS} of {len(found.rounds):,} rounds:" if len(found.rounds) > _MOST_ROUNDS else ""
        headings = ["round", "due", "chance", "drawn", "reached", "state\nafter", "account"]
        print_table(headings, rows, some, "rrrlllr")
    print_note(f"As of {found.time}; short code of the ledger's head: {short_code(found.head)}")


def _round_cells(each: PersonRound) -> list[str]:
    words = {None: "", -1: "", 0: "no", 1: "yes"}
    state = {-1: "", 0: "bad", 1: "good"}[each.after]
    numbers = [f"{each.round:,}", f"{each.due:.3f}", f"{each.chance:.3f}"]
    return [*numbers, words[each.drawn], words[each.action], state, f"{each.account:+.2f}"]


@with_options()
def audit(
    which: Which,
    alpha: Annotated[float, number("--alpha", help="Probability of a false alarm.")] = 0.05,
    unverified: Annotated[
        bool, flag("--unverified", "Do not verify the ledger first, which takes most of the time.")
    ] = False,
    out: Annotated[Path | None, out_option("Save the table of all participants: .csv or .parquet.")] = None,
    html: HtmlOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show for a board whether the programme was fair: due against given against drawn, waits, overrides, effect.

    It is valid after every round: fair draws ever raise a false alarm with probability at most alpha.
    """
    from meritfair.core.checks import check_number
    from meritfair.programme.showing.report import report_of
    from meritfair.programme.showing.report_page import write_report_page

    check_number("alpha", alpha, 0.0, 1.0, open_ends=True)
    check_html(html)
    check_out(out, "audits")
    programme, files = which.open(), Files(out, html)
    with bar(keep=False) as tell:
        verified = None if unverified else programme.verify(progress=partial(tell, "verifying"))
        with working(programme) as work:
            found = report_of(work, alpha=alpha, verification=verified)
    files.save(out, lambda path: _write_people(found, path))
    files.save(html, lambda path: write_report_page(found, path))
    files.report(as_json, found.to_dict, lambda: _show_audit(found))
    if verified is not None and not verified.whole:
        raise typer.Exit(1)


def _write_people(found: ProgrammeReport, path: Path) -> None:
    from meritfair.core.tables import write_table

    rows = found.to_dict()["people"]
    write_table(path, "audits", {name: [row[name] for row in rows] for name in rows[0]})


def _show_audit(found: ProgrammeReport) -> None:
    from meritfair.programme.showing.report_words import effect_words, improbable_words, power_words, waits_words

    print_note(found.verdict, style="bold")
    _show_steering(found)
    groups = found.groups
    rows = []
    for k, name in enumerate(groups.names):
        sums = [f"{groups.people[k]:,}", f"{groups.due[k]:,.1f}", f"{groups.given[k]:,.1f}", f"{groups.drawn[k]:,}"]
        rows.append([name, *sums, f"{groups.reached[k]:,}", f"{groups.overrides[k]:,}", _share(groups, k)])
    headings = ["group" if found.has_groups else "", "people", "due", "given", "drawn", "reached", "over-\nrides"]
    print_table([*headings, "states\nmissing"], rows)
    for sentence in (power_words(found), *waits_words(found), effect_words(found), *improbable_words(found)):
        print_note(sentence, style="none")
    _show_improbable(found)
    print_note(
        "Due: what the policy owes. Given: the chances, summed. Overrides: of those reached, who had not been drawn."
    )


def _show_steering(found: ProgrammeReport) -> None:
    """Print what needs an explanation, by whom and when, and who entered absences."""
    from meritfair.programme.showing import steering_words as words

    if not found.steering.findings:
        return
    print_note(words.answer_words(found), style="none")
    rows = [
        [
            words.finding_words(found, each),
            words.listed_rounds(each.rounds),
            each.time[:10],
            words.names_of_users(each.by),
            words.listed_reasons(each.reasons),
        ]
        for each in found.steering.findings
    ]
    print_table(["to be explained", "rounds", "first\nentered", "by", "reasons given"], rows, "", "lllll")


def _show_improbable(found: ProgrammeReport) -> None:
    """Print whose outcomes are improbable beside those of the others."""
    from meritfair.programme.showing.report_sections import improbable_table

    if found.improbable.named.any():
        table = improbable_table(found)
        print_table(list(table.headings), [list(row) for row in table.cells], "", "lrrr")


def _share(groups: Tally, k: int) -> str:
    return f"{100 * groups.missing[k] / groups.states[k]:.0f} %" if groups.states[k] else ""
