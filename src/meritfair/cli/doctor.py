"""`meritfair doctor`: what may keep programmes or the server from working here, and what to do."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

import meritfair
from meritfair.cli.options import JsonOption, flag, whole
from meritfair.cli.programme.common import StoreOption
from meritfair.cli.show import print_json, say
from meritfair.core.progress import bar
from meritfair.core.texts import several

if TYPE_CHECKING:
    from meritfair.core.checkup import Check

EXAMPLES = """Of the store that a server uses:

[cyan]meritfair doctor --store postgresql://meritfair@localhost/meritfair[/]"""

_SOON = 2.0  # seconds: what takes longer shows how far it is


def doctor(
    store: StoreOption = None,
    port: Annotated[int, whole("--port", help="Where the server is to listen.")] = 8000,
    quick: Annotated[
        bool, flag("--quick", "Do not read the ledgers, which takes long if there are millions of rows.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Check versions, machine code, database, ledgers, users, disk, clock and more; nothing is changed.

    It reads the chain of every ledger and all rows of the store, and says what it has not looked at. Exit code 1 says
    that there is a problem. Warnings are for you to weigh.
    """
    from meritfair.programme.doctor import examine

    with bar(keep=False, delay=_SOON) as tell:
        found = examine(store, port, quick=quick, progress=tell)
    problems, warnings = (sum(each.state == state for each in found) for state in ("problem", "warning"))
    if as_json:
        counts = {"version": meritfair.__version__, "problems": problems, "warnings": warnings}
        print_json({**counts, "checks": [asdict(each) for each in found]})
    else:
        _show(found)
        say(f"{several(problems, 'problem')}, {several(warnings, 'warning')}.")
    if problems:
        raise typer.Exit(1)


def _show(found: list[Check]) -> None:
    """Show each check in a line, and below it what to do."""
    width = max(len(each.name) for each in found)
    for each in found:
        say(f"{each.state:<8} {each.name:<{width}}  {each.found}")
        if each.advice:
            say(f"{'':<8} {'':<{width}}  → {each.advice}")
