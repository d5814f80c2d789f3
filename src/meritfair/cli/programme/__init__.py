"""`meritfair programme`: a fair call list, round after round, with a ledger that anyone can check."""

from __future__ import annotations

import typer

from meritfair.cli.programme import checking, creating, demo, drawing, explaining, keeping, looking, people, reporting

__all__ = ["EXAMPLES", "app"]

EXAMPLES = """From nothing to the first list of calls, and what was seen handed back:

[cyan]meritfair programme create clinic --budget 40 --by "Dr. Osei"[/]
[cyan]meritfair programme enrol people.csv[/]
[cyan]meritfair programme draw --out calls.csv[/]
[cyan]meritfair programme report calls.csv[/]
[cyan]meritfair programme close[/]

To look around first, a year of a made-up clinic: [cyan]meritfair programme demo[/]"""

_SET_UP, _ROUND, _LOOK, _CHECK = "Set up, and who takes part", "Each round", "Look", "Check, move, end"

app = typer.Typer(
    name="programme",
    help="Run a fair call list: who is next, round after round, with a ledger that anyone can check.",
    epilog=EXAMPLES,
    no_args_is_help=True,
    rich_markup_mode="rich",
)

for name, command, panel, epilog in (
    ("create", creating.create, _SET_UP, creating.EXAMPLES),
    ("enrol", people.enrol, _SET_UP, people.EXAMPLES),
    ("withdraw", people.withdraw, _SET_UP, None),
    ("away", people.away, _SET_UP, people.AWAY_EXAMPLES),
    ("change", creating.change, _SET_UP, creating.CHANGE_EXAMPLES),
    ("erase", people.erase, _SET_UP, None),
    ("demo", demo.demo, _SET_UP, None),
    ("draw", drawing.draw, _ROUND, drawing.EXAMPLES),
    ("report", reporting.report, _ROUND, reporting.EXAMPLES),
    ("correct", reporting.correct, _ROUND, reporting.CORRECT_EXAMPLES),
    ("close", reporting.close, _ROUND, None),
    ("status", looking.status, _LOOK, None),
    ("list", looking.list_, _LOOK, None),
    ("person", explaining.person, _LOOK, explaining.PERSON_EXAMPLES),
    ("audit", explaining.audit, _LOOK, explaining.AUDIT_EXAMPLES),
    ("effect", looking.effect, _LOOK, None),
    ("heads", keeping.heads, _CHECK, keeping.EXAMPLES),
    ("verify", checking.verify, _CHECK, checking.EXAMPLES),
    ("export", checking.export, _CHECK, checking.EXPORT_EXAMPLES),
    ("import", checking.import_, _CHECK, checking.IMPORT_EXAMPLES),
    ("proof", checking.proof, _CHECK, None),
    ("end", checking.end, _CHECK, None),
):
    app.command(name, epilog=epilog, rich_help_panel=panel)(command)
