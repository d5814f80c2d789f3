"""`meritfair reproduce`: every figure and table of the paper, and a report that says which claims hold."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from meritfair.cli.options import JsonOption, WorkOptions, flag, out_option, text, with_options
from meritfair.cli.show import print_json, print_note, print_table, say
from meritfair.core.progress import bar
from meritfair.core.texts import several

if TYPE_CHECKING:
    from meritfair.reproduction.artefact import PaperTable
    from meritfair.reproduction.report import Report
    from meritfair.reproduction.reproduce import Played, Selection

EXAMPLES = """A quick version in under a minute, then the full one:

[cyan]meritfair reproduce --quick[/]
[cyan]meritfair reproduce[/]

Only some figures and tables, in another folder:

[cyan]meritfair reproduce --only figure-2 --only table-1 --out mine[/]"""


@with_options()
def reproduce(
    quick: Annotated[bool, flag("--quick", "A tenth of the episodes and a third of the runs: under a minute.")] = False,
    only: Annotated[
        list[str] | None, text("--only", help="Only this figure or table; repeat for more. See --list.")
    ] = None,
    names: Annotated[bool, flag("--list", "List the figures and tables, and exit.")] = False,
    *,
    work: WorkOptions,
    out: Annotated[Path | None, out_option("Output folder; by default paper, or paper-quick.", "FOLDER")] = None,
    as_json: JsonOption = False,
) -> None:
    """Rerun the paper's experiments, make every figure and table, and report which claims hold.

    Writes report.html, figures/ and tables/ into a folder.
    It can be stopped at any time: run the same command again to resume.
    """
    if names:
        _list(as_json)
        return
    from meritfair.reproduction import reproduce as lab

    scale = lab.QUICK if quick else lab.FULL
    executor = work.executor()
    wanted = lab.plan(out or Path("paper-quick" if quick else "paper"), scale, only or (), work.workers)
    try:
        with bar(keep=False) as tell:
            played = lab.play(wanted, executor=executor, force=work.force, progress=tell)
            report = lab.write(wanted, played, progress=tell)
    except KeyboardInterrupt:
        done, total = wanted.done(), len(wanted.all_tasks)
        say(f"stopped: {done:,} of {total:,} tasks are done; run the same command again to resume", err=True)
        sys.exit(130)
    (_show_json if as_json else _show)(wanted, played, report)
    if report.left_out:
        raise typer.Exit(1)


def _list(as_json: bool) -> None:
    from meritfair.reproduction import ARTEFACTS

    if as_json:
        print_json([{"name": each.name, "title": each.title} for each in ARTEFACTS])
    else:
        print_table(["name", "what it is"], [(each.name, each.title) for each in ARTEFACTS], align="ll")


def _show_json(wanted: Selection, played: Played, report: Report) -> None:
    sections = {
        each.name: {
            "title": each.title,
            "headline": each.findings.headline,
            "beyond": each.beyond,
            "note": each.note,
            "verdicts": [asdict(verdict) for verdict in each.findings.verdicts],
            "tables": {table.name: _table(table) for table in each.findings.tables},
            "files": each.files,
        }
        for each in report.sections
    }
    tally = played.tally
    print_json(
        {
            "report": str(wanted.report),
            "summary": report.summary,
            "headlines": report.headlines,
            "sections": sections,
            "left_out": report.left_out,
            "tasks": {"played": tally.played, "kept": tally.kept, "failed": len(tally.failed)},
        }
    )


def _table(table: PaperTable) -> dict[str, Any]:
    """Return a table as people are shown it; files have it in full precision."""
    return {"title": table.title, "headings": table.headings, "cells": table.cells}


def _show(wanted: Selection, played: Played, report: Report) -> None:
    from rich.console import Console
    from rich.padding import Padding

    console = Console(markup=False, highlight=False)
    _complain(played, report)
    print_note(f"Played {report.made_with['Played']}; {report.made_with['Time']}.")
    if wanted.scale.quick:
        print_note(f"{wanted.scale.note}. For the full version: meritfair reproduce")
    for line in report.summary:
        console.print(line)
    for headline in report.headlines:
        console.print()
        console.print(Padding(headline, (0, 0, 0, 2), expand=False))
    console.print()
    say(f"Report: {wanted.report}")


def _complain(played: Played, report: Report) -> None:
    """Say what went wrong, if anything did."""
    tally = played.tally
    for file in tally.damaged:
        say(f"damaged, played again: {file}", err=True)
    for title, why in report.left_out.items():
        say(f"left out: {title}: {why}", err=True)
    if tally.failed:
        say(f"{several(len(tally.failed), 'task')} failed; run the same command again to retry", err=True)
