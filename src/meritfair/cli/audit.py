"""`meritfair audit`: whether the draws of a log followed the exposures that were stated."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from meritfair.cli.options import JsonOption, PlotOption, number_option, out_option
from meritfair.cli.show import Files, check_out, check_plot, print_json, print_note, print_table, progress_bar
from meritfair.core.texts import printable

if TYPE_CHECKING:
    from meritfair.auditing import Audit, AuditTable

__all__ = ["EXAMPLES", "audit"]

EXAMPLES = """Were the draws fair, and to women as to men? With a figure, and the numbers of each arm in a file:

[cyan]meritfair audit draws.csv --group sex --plot audit.png --out audit.csv[/]"""

_MOST_ARMS = 10


def audit(
    log: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            show_default=False,
            help="A .csv or .parquet file with columns round, arm, exposure, drawn (0 or 1): "
            "a row for each arm that took part in a round.",
        ),
    ],
    group: Annotated[
        str | None,
        typer.Option("--group", "-g", metavar="COLUMN", help="Also audit groups of arms, which this column names."),
    ] = None,
    alpha: Annotated[float, number_option(float, "--alpha", help="Chance of a false alarm that is allowed.")] = 0.05,
    fixed_budget: Annotated[
        bool,
        typer.Option(
            "--fixed-budget",
            help="How many are drawn in a round was set before the draw: finds groups that get too little sooner.",
        ),
    ] = False,
    out: Annotated[
        Path | None,
        out_option("Keep the table of all arms: .csv or .parquet; groups go to a second file beside it."),
    ] = None,
    plot: PlotOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show whether the draws of a log followed the exposures that were stated.

    It may be asked after every round: fair draws ever raise a false alarm with probability alpha at most.
    """
    from meritfair.auditing import audit as weigh
    from meritfair.auditing import read_draws
    from meritfair.core.checks import check_number

    check_number("alpha", alpha, 0.0, 1.0, open_ends=True)
    check_plot(plot)
    check_out(out, "audits")
    with progress_bar(2) as begin:
        begin(f"reading {log.name}")
        draws = read_draws(log, group)
        files = Files(out, plot)
        report = weigh(draws, alpha, fixed_budget=fixed_budget, progress=begin("weighing"))
    files.save(out, report.save)
    files.plot(plot, report.plot)
    if as_json:
        _show_json(report, files.written)
    else:
        _show(report, group)
    files.tell(quiet=as_json)


def _show_json(report: Audit, files: list[str]) -> None:
    o = report.overall
    overall = {
        "e_value": o.e_value,
        "largest": o.largest,
        "log_e": o.log_e,
        "log_largest": o.log_largest,
        "p_value": o.p_value,
        "violated": o.violated,
        "found": o.found,
    }
    print_json(
        {
            "verdict": str(report),
            "alpha": report.alpha,
            "fixed_budget": report.fixed_budget,
            "rounds": len(report.rounds),
            "overall": overall,
            "certain": [violation._asdict() for violation in report.certain],
            "budget": report.budget._asdict(),
            "groups": None if report.groups is None else _records(report.groups, "group"),
            "arms": _records(report.arms, "arm"),
            "files": files,
        }
    )


def _records(table: AuditTable, what: str) -> list[dict[str, Any]]:
    columns = table.columns(what)
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _show(report: Audit, group: str | None) -> None:
    print_note(printable(str(report)), style="bold")
    print_note(_facts(report))
    if report.groups is not None:
        _show_groups(report.groups, group or "group")
    _show_arms(report.arms)
    print_note(_legend(report))


def _facts(report: Audit) -> str:
    b = report.budget
    number = f"{b.smallest:,}" if b.smallest == b.largest else f"{b.smallest:,} to {b.largest:,}"
    text = f"{len(report.arms):,} arms, {len(report.rounds):,} rounds, {number} drawn in a round."
    if b.uneven:
        text += f" In {b.uneven:,} rounds the exposures do not add up to the number drawn."
    elif report.groups is not None and not report.fixed_budget:
        text += " If that number was set before each draw, --fixed-budget makes the test of groups sharper."
    return text


def _show_groups(table: AuditTable, heading: str) -> None:
    columns = [
        (printable(heading), "left"),
        ("arms", "right"),
        ("share, %\nstated drawn", "right"),
        ("rate, %\nstated drawn", "right"),
        *_SHARED,
    ]
    shares = [100 * count / max(1.0, count.sum()) for count in (table.entitled, table.drawn)]
    rates = [100 * count / table.turns for count in (table.entitled, table.drawn)]
    rows = [
        [
            printable(table.names[k]),
            f"{table.members[k]:,}",
            *(f"{stated[k]:.1f}  {drawn[k]:.1f}" for stated, drawn in (shares, rates)),
            *_shared(table, k),
        ]
        for k in range(len(table))
    ]
    print_table(columns, rows)


def _show_arms(table: AuditTable) -> None:
    columns = [("arm", "left"), ("rounds", "right"), ("entitled", "right"), ("drawn", "right"), *_SHARED]
    rows = [
        [
            printable(table.names[k]),
            f"{table.rounds[k]:,}",
            f"{table.entitled[k]:,.1f}",
            f"{table.drawn[k]:,.0f}",
            *_shared(table, k),
        ]
        for k in table.most_suspicious(_MOST_ARMS)
    ]
    title = f"The {_MOST_ARMS} most suspicious of {len(table):,} arms:" if len(table) > _MOST_ARMS else ""
    print_table(columns, rows, title)


_SHARED = [("shortfall, %\nfrom    to", "right"), ("e-value", "right"), ("flag", "left")]


def _shared(table: AuditTable, k: int) -> list[str]:
    """Return the cells that arms and groups have in common."""
    from meritfair.auditing.report import readable

    flag = "less" if table.shortfall[k] > 0 else "more"
    return [
        f"{100 * table.low[k]:+.2f}  {100 * table.high[k]:+.2f}",
        readable(table.log_largest[k]),
        flag if table.flagged[k] else "",
    ]


def _legend(report: Audit) -> str:
    return (
        "Shortfall: by how much the true chance falls below the stated exposure, for each member and round; all of a "
        f"table lie between these bounds at all times with probability {1 - report.alpha:g}. E-value: evidence against "
        f"the stated exposures at its largest, allowing for how many there are; from {1 / report.alpha:.3g} on it is "
        "flagged as more or less than stated. Fair draws are ever flagged, anywhere, with probability at most "
        f"{report.alpha:g}."
    )
