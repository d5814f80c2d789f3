"""`meritfair effect`: whether pulls helped, from a log of draws with known chances."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from meritfair.cli import options
from meritfair.cli.show import Files, check_html, check_out, check_plot, print_note, print_table
from meritfair.core.progress import progress_bar

if TYPE_CHECKING:
    from meritfair.effects import Effect

EXAMPLES = """Did the calls help, and whom? With a page for the board, and the numbers in a file:

[cyan]meritfair effect log.csv --group district --html effect.html --out effect.csv[/]"""

_MOST_GROUPS = 20

GroupOption = Annotated[
    str | None,
    options.text("--group", "-g", metavar="COLUMN", help="Also by the values of this column, such as a district."),
]
ClusterOption = Annotated[
    str | None,
    options.text(
        "--cluster",
        metavar="COLUMN",
        help="Arms with the same value of this column, such as a clinic, were drawn together and count as one.",
    ),
]
LevelOption = Annotated[float, options.number("--level", help="Level of the intervals.")]
PeriodOption = Annotated[
    int | None, options.whole("--period", help="Rounds in a period; by default so that there are at most 8.")
]
OutOption = Annotated[
    Path | None, options.out_option("Save the table: .csv or .parquet; that of the rounds goes to a file beside it.")
]


def effect(
    log: Annotated[
        Path,
        typer.Argument(
            metavar="LOG",
            show_default=False,
            help="A .csv or .parquet file with columns arm, round, state, action and exposure, the probability with "
            "which the arm was drawn; drawn (0 or 1) if it may differ from action.",
        ),
    ],
    group: GroupOption = None,
    cluster: ClusterOption = None,
    level: LevelOption = 0.95,
    period: PeriodOption = None,
    out: OutOption = None,
    plot: options.PlotOption = None,
    html: options.HtmlOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Estimate how much a pull raises the chance of a good next state: overall, by last state, by group, over time.

    Every draw with a known chance is a small experiment, so the log can tell. Each arm must have been drawn by a chance
    of its own, as by all designs of meritfair; if whole clinics were drawn, name their column with --cluster.
    The main interval holds whenever one looks, and however often.
    """
    from meritfair.core.checks import check_number
    from meritfair.datasets.logs import read_features, read_log
    from meritfair.effects import effect as estimate
    from meritfair.effects.estimate import name_clusters

    check_number("level", level, 0.0, 1.0, open_ends=True)
    check_plot(plot)
    check_html(html)
    check_out(out, "effects")
    with progress_bar(2) as begin:
        begin(f"reading {log.name}")
        seen = read_log(log, [name for name in (group, cluster) if name is not None])
        files = Files(out, plot, html)
        begin("estimating")
        found = estimate(seen, group=group, cluster=cluster, level=level, period=period)
        if found.together is not None:  # some column of the file may say who is drawn with whom
            found = name_clusters(found, seen, read_features(log))
    files.save(out, found.save)
    files.plot(plot, found.plot)
    files.save(html, found.write_page)
    files.report(as_json, lambda: effect_values(found), lambda: show_effect(found))


def effect_values(found: Effect) -> dict[str, Any]:
    """Return all numbers, as --json prints them."""
    return {
        "verdict": str(found),
        "settings": found.settings,
        "effect": found.overall.records("part")[0],
        "states": found.states.records("state"),
        "groups": None if found.groups is None else found.groups.records("group"),
        "periods": found.periods.records("period"),
        "rounds": found.rounds.records("round"),
        "left_out": found.left_out._asdict(),
        "overridden": found.overridden,
        "missing": found.missing._asdict(),
        "together": None if found.together is None else str(found.together),
        "sensitivity": found.sensitivity.to_dict(),
    }


def show_effect(found: Effect) -> None:
    """Print the answer in a sentence, and the tables behind it."""
    from meritfair.effects.page import cells, headings
    from meritfair.effects.report import counted, plain_difference

    for text in (str(found), *found.warnings()):
        print_note(text, style="bold")
    rows = cells(found.overall)
    for part, table in found.parts[1:]:
        rows += [[f"by {part}:", *[""] * (len(rows[0]) - 1)]]
        rows += cells(table, [f"  {name}" for name in table.names])[:_MOST_GROUPS]
    print_table(["", *headings(found.level)], rows, "\nEffect of a pull on the next state, in percentage points:")
    if found.groups is not None and len(found.groups) > _MOST_GROUPS:
        print_note(f"… and {len(found.groups) - _MOST_GROUPS:,} more groups; --out FILE keeps all.")
    print_note(plain_difference(found))
    print_note(
        "At any time: holds after every round at once, so one may look whenever one likes; each row on its own. For "
        "one look: narrower, and right only if the time of the look was set beforehand. Effective: as many "
        f"{counted(found)} with a chance of one half would say as much."
    )
    for note in found.notes():
        print_note(note, style="none" if note.startswith("Not seen") else "dim")
