"""`meritfair sweep`: play every setting of a spec into a folder; `meritfair results`: show what is there."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from meritfair.cli.options import ClusterOption, ForceOption, JsonOption, WorkersOption, make_executor, out_option
from meritfair.cli.show import Files, check_out, print_json, print_note, print_table, say
from meritfair.core.progress import bar

if TYPE_CHECKING:
    from meritfair.lab.results import Results
    from meritfair.lab.sweep import Failure, Sweep, Tally
    from meritfair.lab.tasks import Task

__all__ = ["EXAMPLES", "RESULTS_EXAMPLES", "results", "sweep"]

EXAMPLES = """A spec says which data sets, sizes, policies and merits to play, each with each:

[cyan]datasets = "cpap"[/]
[cyan]sizes    = [[10, 2], [20, 4]][/]
[cyan]policies = ["merit-fair", "merit-fair:estimate=mean"][/]
[cyan]episodes = 1000[/]

Play it, look at it, and once more with more runs: those that are done are kept.

[cyan]meritfair sweep spec.toml --out found[/]
[cyan]meritfair results found[/]"""

RESULTS_EXAMPLES = """As a table for a paper, or with all measures for a spreadsheet:

[cyan]meritfair results found --out table.tex[/]
[cyan]meritfair results found --out table.csv[/]"""


def sweep(
    spec: Annotated[Path, typer.Argument(metavar="SPEC", help="A .toml file that says what to play.")],
    out: Annotated[Path, out_option("The folder for the results; what is done there already is kept.", "FOLDER")],
    workers: WorkersOption = None,
    cluster: ClusterOption = None,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Play every setting of a spec, on all cores or a cluster, and keep what comes of it.

    Stopped at any time and in any way, the same command goes on where it was.
    """
    from meritfair.lab.sweep import Sweep

    executor = make_executor(cluster, workers)
    planned = Sweep.of(spec, out)
    unfinished = planned.unfinished()
    if not as_json:
        _announce(planned, unfinished)
    begin = time.perf_counter()
    try:
        with bar(keep=False) as tell:
            planned.check(planned.tasks if force else unfinished, tell)
            tally = planned.play(executor=executor, workers=workers, force=force, progress=tell)
    except KeyboardInterrupt:
        total, left = len(planned.tasks), len(planned.unfinished())
        say(f"stopped: {total - left:,} of {total:,} tasks are done; the same command goes on", err=True)
        sys.exit(130)
    (_tell_json if as_json else _tell)(planned, tally, time.perf_counter() - begin)
    if tally.failed:
        raise typer.Exit(1)


def _announce(planned: Sweep, unfinished: list[Task]) -> None:
    from meritfair.core.texts import several

    spec, total = planned.spec, len(planned.tasks)
    settings = several(len(spec.settings()), "setting")
    work = sum(task.work for task in planned.tasks)
    say(f"{settings} of {several(spec.runs, 'run')}: {several(total, 'task')}, {_large(work)} arm-steps")
    if len(unfinished) < total:
        done = f"{total - len(unfinished):,} of {total:,}" if unfinished else f"all {total:,}"
        say(f"{done} tasks are done already")


def _tell(planned: Sweep, tally: Tally, seconds: float) -> None:
    from meritfair.core.texts import duration, several

    say(f"played {several(tally.played, 'task')} in {duration(seconds)}, kept {tally.kept:,}")
    for file in tally.damaged:
        say(f"was damaged, and played again: {file}")
    if tally.foreign:
        say(f"left alone, as they are of other specs or versions: {several(tally.foreign, 'shard')}")
    for failure in tally.failed:
        say(f"failed: {_words(failure)}", err=True)
    if tally.failed:
        say(f"{several(len(tally.failed), 'task')} failed; the same command tries them again", err=True)
    say(f"The results: meritfair results {planned.folder}")


def _words(failure: Failure) -> str:
    task, setting = failure.task, failure.task.setting
    problem = f"{setting.dataset}, {setting.n_arms} arms, budget {setting.budget}, merit {setting.merit}"
    return f"{setting.policy} on {problem}, runs {task.first} to {task.first + task.runs - 1}: {failure.problem}"


def _tell_json(planned: Sweep, tally: Tally, seconds: float) -> None:
    failed = [
        {
            "setting": each.task.setting.settings(),
            "first": each.task.first,
            "runs": each.task.runs,
            "problem": each.problem,
        }
        for each in tally.failed
    ]
    print_json(
        {
            "folder": str(planned.folder),
            "settings": len(planned.spec.settings()),
            "tasks": len(planned.tasks),
            "played": tally.played,
            "kept": tally.kept,
            "failed": failed,
            "damaged": [str(file) for file in tally.damaged],
            "foreign": tally.foreign,
            "seconds": round(seconds, 1),
        }
    )


def _large(number: int) -> str:
    """Return a large number as people say it: 32 million."""
    for size, word in ((10**12, "trillion"), (10**9, "billion"), (10**6, "million")):
        if number >= size:
            return f"{number / size:.3g} {word}"
    return f"{number:,}"


def results(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="The folder of a sweep.")],
    out: Annotated[
        Path | None,
        out_option("Keep the table: all measures as .csv or .parquet, those shown as .md or .tex."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Show what a sweep has found so far: a row for each setting, means over runs with intervals."""
    from meritfair.lab.results import SUFFIXES, read_results

    check_out(out, "results", SUFFIXES)
    found = read_results(folder)
    files = Files(out)
    files.save(out, found.save)
    if as_json:
        print_json(
            {
                "settings": found.table(),
                "missing": found.missing,
                "damaged": [str(file) for file in found.damaged],
                "versions": dict(found.manifest.versions),
                "files": files.written,
            }
        )
    else:
        _show(found)
    files.tell(quiet=as_json)


_ON_SCREEN = ("fairness_regret", "exposure_regret", "good_state", "gini", "longest_wait")
_LEGEND = (
    "Fairness regret: distance of the shares of merit from the fair ones, added up over episodes (0 is perfect, at "
    "most 2 an episode). {exposure}Good state: share of arms in it. Gini of the pulls: 0 is equal. Longest wait: steps "
    "that some arm went without a pull.{interval}"
)
_LEGEND_EXPOSURE = "Exposure regret: the same for the chances of being pulled, which sum to the budget. "


def _show(found: Results) -> None:
    if found.outcomes:
        _show_table(found)
    for file in found.damaged:
        say(f"damaged: {file}", err=True)
    if found.warning:
        say(found.warning, err=True)
    changed = [f"{name} {then} (here {now})" for name, (then, now) in found.manifest.changed.items()]
    if changed:
        say(f"played by other versions, which a new sweep would not use: {', '.join(changed)}", err=True)


def _show_table(found: Results) -> None:
    wording = found.wording
    shown = {name: column for name, column in found.shown.items() if name in _ON_SCREEN}
    counts = {setting: len(each.runs) for setting, each in found.outcomes.items()}
    uneven = len(set(counts.values())) > 1
    rows: list[list[str]] = []
    above = ""
    for setting, measures in found.measures.items():
        problem = _in_lines(wording.problem(setting))
        if wording.several_policies and problem != above:  # a line for the problem, and its policies below
            rows.append([problem, *[""] * (len(shown) + uneven)])
        above = problem
        label = "  " * bool(problem) + setting.policy if wording.several_policies else problem or setting.policy
        cells = [
            column.in_short(measures[name]) if name.endswith("regret") else column.number(measures[name].mean)
            for name, column in shown.items()
        ]
        rows.append([label, *[str(counts[setting])] * uneven, *cells])
    headings = ["policy" if above == "" or wording.several_policies else "setting", *["runs"] * uneven]
    headings += [column.heading for column in shown.values()]
    sides = ["left", *["right"] * (len(headings) - 1)]
    print_table(list(zip(headings, sides, strict=True)), rows, found.description)
    interval = " After ±: half of the 95 % interval." if max(counts.values()) > 1 else ""
    print_note(_LEGEND.format(exposure=_LEGEND_EXPOSURE * ("exposure_regret" in shown), interval=interval))


def _in_lines(parts: list[str], width: int = 30) -> str:
    """Return parts in lines, as many in each as it has room for."""
    lines = [""]
    for part in parts:
        longer = f"{lines[-1]} · {part}" if lines[-1] else part
        if lines[-1] and len(longer) > width:
            lines.append(part)
        else:
            lines[-1] = longer
    return "\n".join(lines)
