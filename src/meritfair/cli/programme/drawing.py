"""`meritfair programme draw`: who is called in the next round."""

from __future__ import annotations

from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from meritfair.cli.options import JsonOption, flag, names, out_option, text, with_options
from meritfair.cli.programme.common import (
    EncodingOption,
    Who,
    from_file,
    next_command,
    tell_head,
    tell_ignored,
    tell_warning,
    working,
)
from meritfair.cli.show import Files, check_out, print_note, print_table, say
from meritfair.core.errors import InputError
from meritfair.core.texts import printable, several

if TYPE_CHECKING:
    from collections.abc import Sequence

    from meritfair.programme import Drawn, Outcomes, Programme, Round

EXAMPLES = """Draw the next round, and write the list of calls, with columns to be filled in:

[cyan]meritfair programme draw --out calls.csv[/]

What everyone is due now, without a draw: [cyan]meritfair programme draw --dry-run[/]

If the programme has a public source of randomness, the round is committed first, and drawn when the value is there:

[cyan]meritfair programme draw[/]
[cyan]meritfair programme draw --value b446...[/]"""

_MOST_ROWS, _MOST_PREVIEWED = 100, 20


@with_options()
def draw(
    who: Who,
    states: Annotated[
        Path | None,
        text("--states", metavar="FILE", help="States observed now: a file with columns id and state."),
    ] = None,
    budget: Annotated[
        str | None,
        text("--budget", "-k", metavar="INTEGER", help="How many in this round alone; in a trial calls=40,control=0."),
    ] = None,
    away: Annotated[
        str, text("--away", metavar="IDS", help="Who cannot be called from now on: [cyan]P001,P002[/].")
    ] = "",
    reason: Annotated[
        str,
        text(
            "--reason",
            metavar="TEXT",
            help="Why the budget is not that of the settings, or why so many are away. The ledger keeps it.",
        ),
    ] = "",
    value: Annotated[
        str | None,
        text(
            "--value",
            metavar="VALUE",
            help="The value of the public source: draw what was committed. Of drand it is the signature of the round.",
        ),
    ] = None,
    dry_run: Annotated[
        bool, flag("--dry-run", "Show what everyone is due and their chances; nothing is drawn, nothing is kept.")
    ] = False,
    out: Annotated[Path | None, out_option("Write the list: .csv or .parquet, to be filled in and reported.")] = None,
    resolve: Annotated[
        Path | None,
        text(
            "--resolve",
            metavar="FILE",
            help="Where pseudonyms are kept instead of ids: a file with the column id, to show who they are. It is not "
            "kept.",
        ),
    ] = None,
    encoding: EncodingOption = "utf-8",
    as_json: JsonOption = False,
) -> None:
    """Draw who is called in the next round, and record it.

    There is one draw for each round: asked again, it shows the same list until the round is closed.
    """
    from meritfair.programme.files import locating, read_states, write_list

    check_out(out, "lists")
    programme, absent = who.open(), names(away)
    files, seen, table = Files(out), None, None
    if states is not None:
        with from_file(states, "drawing") as read:
            found = read(partial(read_states, encoding=encoding))
        seen, table = found.value, found.table
        tell_ignored(table)
    budgets = _budgets(budget)
    if dry_run:
        if absent or reason or value is not None:
            raise InputError("--dry-run goes with --states, --budget and --out alone")
        with locating(table):
            _preview(programme, seen, budgets, out, files, as_json)
        return
    with working(programme) as work:
        again = work.state.summary.phase == "open"
    with locating(table):
        drawn = programme.draw(
            states=seen, budget=budgets, away=absent, value=value, reason=reason, by=who.by, key=who.key
        )
    tell_warning(drawn.warning)
    if resolve is not None:
        drawn = _resolved(programme, drawn, resolve, encoding)
    if drawn.phase != "committed":
        files.save(out, lambda path: write_list(path, drawn))
    files.report(as_json, lambda: _values(programme, drawn), lambda: _show(programme, drawn, again, out, who.store))


def _resolved(programme: Programme, drawn: Round, file: Path, encoding: str) -> Round:
    """Return a round with ids in place of pseudonyms, as far as a file has them."""
    from meritfair.programme.files import read_ids

    with from_file(file, "resolving") as read:
        ids = read(partial(read_ids, encoding=encoding)).value
    with working(programme) as work:
        known = dict(zip(work.names(ids), ids, strict=True))
    return replace(drawn, people=tuple(replace(each, id=known.get(each.id, each.id)) for each in drawn.people))


def _budgets(text: str | None) -> Any:
    """Return the budget of a round, or those of the parts of a trial."""
    if text is None:
        return None
    try:
        if "=" not in text:
            return int(text)
        return {name.strip(): int(value) for name, _, value in (each.partition("=") for each in text.split(","))}
    except ValueError:
        raise InputError(f"--budget is a whole number, or calls=40,control=0 in a trial, got {text!r}") from None


def _values(programme: Programme, drawn: Round) -> dict[str, Any]:
    return {"programme": programme.name, **asdict(drawn)}


def _show(programme: Programme, drawn: Round, again: bool, out: Path | None, store: str | None) -> None:
    if drawn.phase == "committed":
        _show_source(drawn)
        say(f"Draw it when the value is known: {next_command('draw --value VALUE', store, programme)}")
        return tell_head(drawn.head)
    if again:
        say(f"Round {drawn.number} was drawn already, at {drawn.time}; this is its list again.")
    rows = [_cells(each) for each in sorted(drawn.people, key=lambda each: (each.staff, each.number))]
    absent = f", {drawn.away:,} away" if drawn.away else ""
    title = f"{programme.name}, round {drawn.number}: {len(rows):,} of {drawn.enrolled:,} are drawn{absent}."
    _table(["id", "group", "staff", "chance"], rows, _MOST_ROWS, title, "lllr", out)
    tell_head(drawn.head)
    if out is None:
        print_note("With --out calls.csv it also writes the list, to be filled in and handed back by report.")
    return None


def _show_source(drawn: Round) -> None:
    """Say what a round that is committed waits for."""
    when = f", which is published at {drawn.appears}" if drawn.appears else ""
    say(f"Round {drawn.number} is committed, and waits for {drawn.source}{when}. Nobody is drawn yet.")
    if drawn.address:
        say(f"Its value will be at {drawn.address}")


def _table(
    headings: list[str], rows: Sequence[Sequence[str]], most: int, title: str, align: str, out: Path | None
) -> None:
    """Print the first rows, without columns in which there is nothing."""
    kept = [k for k in range(len(headings)) if any(row[k] for row in rows)] or [0]
    shown = [[row[k] for k in kept] for row in rows[:most]]
    print_table([headings[k] for k in kept], shown, printable(title), "".join(align[k] for k in kept))
    if len(rows) > most:
        where = "--out FILE writes all" if out is None else f"all are in {out}"
        say(f"... and {len(rows) - most:,} more; {where}.\n")


def _cells(each: Drawn) -> list[str]:
    name = each.id or f"(erased, number {each.number})"
    return [printable(name), printable(each.group), printable(each.staff), f"{each.chance:.3f}"]


def _preview(
    programme: Programme, seen: Outcomes | None, budgets: Any, out: Path | None, files: Files, as_json: bool
) -> None:
    """Show what a draw would be committed to now."""
    from meritfair.programme.files import write_preview

    planned, people = programme.preview(states=seen, budget=budgets)
    files.save(out, lambda path: write_preview(path, people))
    values = {"programme": programme.name, "budgets": planned.budgets, "people": [asdict(each) for each in people]}

    def show() -> None:
        order = sorted(people, key=lambda each: (-each.chance, -each.due, each.number))
        rows = [[*_cells(each)[:3], f"{each.due:.4f}", f"{each.chance:.4f}"] for each in order]
        number = several(sum(planned.budgets), "person", "people")
        title = f"If {programme.name} were drawn now: {number} of {len(people):,}. Nothing is drawn, nothing is kept."
        _table(["id", "group", "staff", "due", "chance"], rows, _MOST_PREVIEWED, title, "lllrr", out)
        print_note(
            "Due: what each is due in this round. Chance: of being drawn in it; it differs from due where someone is "
            "ahead or behind, by their account."
        )

    files.report(as_json, lambda: values, show)
