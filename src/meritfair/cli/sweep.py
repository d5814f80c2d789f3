"""`meritfair sweep`: play every setting of a spec into a folder; `meritfair results`: show what is there."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from meritfair.cli.options import JsonOption, WorkOptions, out_option, with_options
from meritfair.cli.show import Files, check_out, measure_cells, print_json, print_measures, say
from meritfair.core.progress import bar
from meritfair.core.texts import several
from meritfair.simulation.columns import ACCOUNTS

if TYPE_CHECKING:
    from meritfair.lab.results import Results
    from meritfair.lab.sweep import Failure, Sweep, SweepSummary
    from meritfair.lab.tasks import Task

EXAMPLES = """A spec lists data sets, sizes, policies and merits; every combination is played:

[cyan]datasets = "cpap"[/]
[cyan]sizes    = [[10, 2], [20, 4]][/]
[cyan]policies = ["merit-fair", "merit-fair:estimate=mean"][/]
[cyan]episodes = 1000[/]

Play it and show the results. With more runs in the spec, only the new ones are played.

[cyan]meritfair sweep spec.toml --out found[/]
[cyan]meritfair results found[/]"""

RESULTS_EXAMPLES = """As a LaTeX table, or with all measures for a spreadsheet:

[cyan]meritfair results found --out table.tex[/]
[cyan]meritfair results found --out table.csv[/]"""


@with_options()
def sweep(
    spec: Annotated[Path, typer.Argument(metavar="SPEC", help="A .toml file.")],
    out: Annotated[Path, out_option("Folder for the results; tasks that are done there are kept.", "FOLDER")],
    work: WorkOptions,
    as_json: JsonOption = False,
) -> None:
    """Play every setting of a spec, on all cores or a cluster, and save the results.

    It can be stopped at any time: run the same command again to resume.
    """
    from meritfair.lab.sweep import Sweep

    executor = work.executor()
    planned = Sweep.of(spec, out)
    unfinished = planned.unfinished()
    if not as_json:
        _announce(planned, unfinished)
    begin = time.perf_counter()
    try:
        with bar(keep=False) as tell:
            planned.check(planned.tasks if work.force else unfinished, tell)
            tally = planned.play(executor=executor, workers=work.workers, force=work.force, progress=tell)
    except KeyboardInterrupt:
        total, left = len(planned.tasks), len(planned.unfinished())
        say(f"stopped: {total - left:,} of {total:,} tasks are done; run the same command again to resume", err=True)
        sys.exit(130)
    (_tell_json if as_json else _tell)(planned, tally, time.perf_counter() - begin)
    if tally.failed:
        raise typer.Exit(1)


def _announce(planned: Sweep, unfinished: list[Task]) -> None:
    spec, total = planned.spec, len(planned.tasks)
    settings = several(len(spec.settings()), "setting")
    work = sum(task.work for task in planned.tasks)
    say(f"{settings} of {several(spec.runs, 'run')}: {several(total, 'task')}, {_large(work)} arm-steps")
    if len(unfinished) < total:
        done = f"{total - len(unfinished):,} of {total:,}" if unfinished else f"all {total:,}"
        say(f"{done} tasks are done already")


def _tell(planned: Sweep, tally: SweepSummary, seconds: float) -> None:
    from meritfair.core.texts import duration

    say(f"played {several(tally.played, 'task')} in {duration(seconds)}, kept {tally.kept:,}")
    for file in tally.damaged:
        say(f"damaged, played again: {file}")
    if tally.foreign:
        say(f"ignored, from other specs or versions: {several(tally.foreign, 'shard')}")
    for failure in tally.failed:
        say(f"failed: {_words(failure)}", err=True)
    if tally.failed:
        say(f"{several(len(tally.failed), 'task')} failed; run the same command again to retry", err=True)
    say(f"Show the results: meritfair results {planned.folder}; in the browser: meritfair view {planned.folder}")


def _words(failure: Failure) -> str:
    task, setting = failure.task, failure.task.setting
    budget = ",".join(map(str, setting.cycle))
    problem = f"{setting.dataset}, {setting.n_arms} arms, budget {budget}, merit {setting.merit}"
    return f"{setting.policy} on {problem}, runs {task.first} to {task.first + task.runs - 1}: {failure.problem}"


def _tell_json(planned: Sweep, tally: SweepSummary, seconds: float) -> None:
    failed = [
        {"setting": task.setting.settings(), "first": task.first, "runs": task.runs, "problem": problem}
        for task, problem in ((each.task, each.problem) for each in tally.failed)
    ]
    sizes = {"settings": len(planned.spec.settings()), "tasks": len(planned.tasks)}
    told = {**vars(tally), "failed": failed, "damaged": [str(file) for file in tally.damaged]}
    print_json({"folder": str(planned.folder), **sizes, **told, "seconds": round(seconds, 1)})


def _large(number: int) -> str:
    """Return a large number as people say it: 32 million."""
    for size, word in ((10**12, "trillion"), (10**9, "billion"), (10**6, "million")):
        if number >= size:
            return f"{number / size:.3g} {word}"
    return f"{number:,}"


def results(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="The folder of a sweep.")],
    out: Annotated[
        Path | None, out_option("Save the table: all measures as .csv or .parquet, the main ones as .md or .tex.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Show the results of a sweep so far: a row for each setting, means over runs with confidence intervals."""
    from meritfair.lab.results import SUFFIXES, read_results

    check_out(out, "results", SUFFIXES)
    found = read_results(folder)
    files = Files(out)
    files.save(out, found.save)
    about = {"missing": found.missing, "damaged": [*map(str, found.damaged)], "versions": dict(found.manifest.versions)}
    files.report(as_json, lambda: {"settings": found.rows(), **about}, lambda: _show(found))


_ON_SCREEN = ("fairness_regret", "exposure_regret", "good_state", "gini", "longest_wait")
_WITH_ACCOUNTS = ("fairness_regret", "good_state", "longest_wait", *ACCOUNTS)  # in 80 columns


def _show(found: Results) -> None:
    if found.outcomes:
        _show_table(found)
    for file in found.damaged:
        say(f"damaged: {file}", err=True)
    if found.warning:
        say(found.warning, err=True)
    changed = [f"{name} {then} (here {now})" for name, (then, now) in found.manifest.changed.items()]
    if changed:
        say(f"played by other versions, so a new sweep would play it again: {', '.join(changed)}", err=True)


def _show_table(found: Results) -> None:
    wording = found.wording
    on_screen = _WITH_ACCOUNTS if ACCOUNTS[0] in found.shown else _ON_SCREEN
    names = [name for name in found.shown if name in on_screen]
    counts = {setting: len(each.runs) for setting, each in found.outcomes.items()}
    uneven = len(set(counts.values())) > 1
    rows: list[list[str]] = []
    above = ""
    for setting, measures in found.measures.items():
        problem = _in_lines(wording.problem(setting))
        if wording.several_policies and problem != above:  # a line for the problem, and its policies below
            rows.append([problem, *[""] * (len(names) + uneven)])
        above = problem
        label = "  " * bool(problem) + setting.policy if wording.several_policies else problem or setting.policy
        rows.append([label, *[str(counts[setting])] * uneven, *measure_cells(measures, names)])
    headings = ["policy" if above == "" or wording.several_policies else "setting", *["runs"] * uneven]
    print_measures(names, rows, found.description, *headings, intervals=max(counts.values()) > 1)


def _in_lines(parts: list[str], width: int = 30) -> str:
    """Return parts in lines, as many in each as it has room for."""
    lines: list[list[str]] = [[]]
    for part in parts:
        if lines[-1] and len(" · ".join([*lines[-1], part])) > width:
            lines.append([])
        lines[-1].append(part)
    return "\n".join(map(" · ".join, lines))
