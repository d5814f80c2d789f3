"""`meritfair whatif`: what other policies, budgets, floors, slacks and merits would do after a log."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from meritfair.cli import options
from meritfair.cli.show import Files, check_html, check_out, check_plot, policy_cell, print_note, print_table, say
from meritfair.core.progress import bar

if TYPE_CHECKING:
    from meritfair.scenarios import WhatIf

EXAMPLES = """What would ten more calls a week do? With a figure and a page for the board:

[cyan]meritfair whatif log.csv --budget 20 --budget 30 --plot budget.png --html budget.html[/]

Other policies, beside the one that was logged:

[cyan]meritfair whatif log.csv -p merit-fair:estimate=pooled,design=exact,slack=2 -p whittle -p random[/]

What do a floor, and slack, cost or gain?

[cyan]meritfair whatif log.csv --floor 0 --floor 0.05 --floor 0.1[/]
[cyan]meritfair whatif log.csv --slack 0 --slack 1 --slack 2 --slack 5 --plot slack.png[/]"""

_HOW, _POLICIES = "How", "What is asked"


def whatif(
    log: Annotated[
        Path,
        typer.Argument(metavar="LOG", help="A .csv or .parquet file with columns arm, round, state, action, exposure."),
    ],
    policy: Annotated[
        list[str] | None,
        options.text(
            "--policy",
            "-p",
            help="Policy, with settings, as for [cyan]compare[/], also your own in a file, [cyan]mine.py:name[/]; "
            "repeat for several. By default what we recommend, "
            "[cyan]merit-fair:estimate=pooled,design=exact,slack=2[/].",
            panel=_POLICIES,
        ),
    ] = None,
    budget: Annotated[
        list[int] | None,
        options.whole(
            "--budget",
            "-k",
            help="Arms pulled per round; repeat for several. By default as in the log.",
            panel=_POLICIES,
        ),
    ] = None,
    floor: Annotated[
        list[float] | None,
        options.number("--floor", help="Least exposure of any arm; repeat for several.", panel=_POLICIES),
    ] = None,
    slack: Annotated[
        list[float] | None,
        options.number("--slack", help="How far an arm may be ahead or behind, in pulls; repeat.", panel=_POLICIES),
    ] = None,
    merit: Annotated[
        list[str] | None,
        options.text(
            "--merit", help="Merit, as [cyan]exponential:c=3[/]; repeat. Fairness is by the first.", panel=_POLICIES
        ),
    ] = None,
    against: Annotated[
        str | None,
        options.text("--against", help="Show differences to this row; by default to what was logged.", panel=_POLICIES),
    ] = None,
    rounds: Annotated[
        int | None,
        options.whole("--rounds", "-t", help="Rounds ahead; by default as many as the log has, up to 52.", panel=_HOW),
    ] = None,
    window: Annotated[int, options.whole("--window", help="Rounds over which the log is asked.", panel=_HOW)] = 3,
    draws: Annotated[
        int | None,
        options.whole("--draws", help="Draws of the chains; by default 200, or 100 for many arms.", panel=_HOW),
    ] = None,
    estimate: Annotated[
        str, options.text("--estimate", help="[cyan]pooled[/] or [cyan]mean[/], as for [cyan]fit[/].", panel=_HOW)
    ] = "pooled",
    extrapolate: Annotated[
        bool,
        options.flag(
            "--extrapolate", "Also answer by the model alone where the log cannot check it, or contradicts it.", _HOW
        ),
    ] = False,
    seed: Annotated[int, options.whole("--seed", "-s", help="Seed of all random numbers.", panel=_HOW)] = 0,
    absent: options.AbsentOption = "unknown",
    workers: options.WorkersOption = None,
    out: Annotated[
        Path | None,
        options.out_option("Save the table: all numbers as .csv or .parquet, the main ones as .md or .tex."),
    ] = None,
    plot: options.PlotOption = None,
    html: options.HtmlOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Say what other policies and budgets would do in the rounds after a log, and how fair they would be.

    Every combination is played on from where the log ends. The log itself is
    asked, too, whether it bears the answer out; where it cannot answer,
    because it never did anything like it, the row is refused.
    """
    from meritfair.datasets.logs import read_log
    from meritfair.scenarios import whatif as ask
    from meritfair.scenarios.answer import SUFFIXES

    check_plot(plot)
    check_out(out, "scenarios", SUFFIXES)
    check_html(html)
    asked: dict[str, Any] = {"budget": budget, "floor": floor, "slack": slack, "merit": merit}
    asked = {name: values or None for name, values in asked.items()}
    how: dict[str, Any] = {"rounds": rounds, "window": window, "draws": draws, "estimate": estimate, "seed": seed}
    how |= {"against": against} if against is not None else {}
    with bar(f"reading {log.name}", keep=False) as tell:
        records = read_log(log, absent=absent)
        files = Files(out, plot, html)
        found = ask(records, policy or None, **asked, **how, extrapolate=extrapolate, workers=workers, progress=tell)
    files.save(out, found.save)
    files.plot(plot, found.plot)
    files.save(html, found.write_html)
    files.report(as_json, lambda: _numbers(found), lambda: _show(found))
    if found.refused:
        raise typer.Exit(1)


def _numbers(found: WhatIf) -> dict[str, Any]:
    from meritfair.scenarios.wording import lead

    arms = {"arms": found.n_arms, "left": found.left}
    return {"sentence": lead(found), "settings": found.settings, **arms, "scenarios": found.rows()}


def _show(found: WhatIf) -> None:
    from meritfair.scenarios.page import warnings_of
    from meritfair.scenarios.wording import hidden, lead, narrow, note

    print_note(lead(found), style="none")
    say("")
    headings, rows = narrow(found)
    print_table(headings, [[policy_cell(row[0]), *row[1:]] for row in rows], found.description)
    for warning in warnings_of(found):
        print_note(warning)
    print_note(note(found, hidden(found)))
    if any(not each.answered for each in found.asked):
        say("--extrapolate answers by the model alone where the log cannot check it, or contradicts it.")
