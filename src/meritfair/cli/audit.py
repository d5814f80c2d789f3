"""`meritfair audit`: whether the draws of a log followed the exposures that were stated."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from meritfair.cli.options import JsonOption, PlotOption, flag, number, out_option, text
from meritfair.cli.show import Files, check_out, check_plot, print_note, print_table
from meritfair.core.errors import InputError
from meritfair.core.progress import progress_bar
from meritfair.core.texts import printable, several

if TYPE_CHECKING:
    from meritfair.auditing import Accounts, Audit, AuditTable

EXAMPLES = """Were the draws fair, to women as to men? With a figure, and the numbers for each arm in a file:

[cyan]meritfair audit draws.csv --group sex --plot audit.png --out audit.csv[/]

Was everyone always given what they were due, up to two pulls?

[cyan]meritfair audit draws.csv --slack 2[/]

A trial of an app, in which a coin was tossed for each person: [cyan]meritfair audit trial.csv --independent[/]"""

_MOST_ARMS = 10


def audit(
    log: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            show_default=False,
            help="A .csv or .parquet file with columns round, arm, exposure, drawn (0 or 1; or action): "
            "a row for each arm that took part in a round. With a column due, the exposure that the arm was due, "
            "accounts are kept.",
        ),
    ],
    group: Annotated[
        str | None, text("--group", "-g", metavar="COLUMN", help="Also audit groups of arms, named by this column.")
    ] = None,
    alpha: Annotated[float, number("--alpha", help="Probability of a false alarm.")] = 0.05,
    fixed_budget: Annotated[
        bool,
        flag(
            "--fixed-budget",
            "The number of arms drawn was fixed before each draw: finds groups that get too little sooner.",
        ),
    ] = False,
    independent: Annotated[
        bool,
        flag(
            "--independent",
            "Each arm was drawn by itself, with a coin of its own, as in trials of apps: finds groups that get too "
            "much or too little sooner.",
        ),
    ] = False,
    slack: Annotated[
        float | None,
        number(
            "--slack",
            help="Check that no arm's account, due less given exposure summed over the rounds, ever was farther "
            "from 0 than this.",
        ),
    ] = None,
    out: Annotated[
        Path | None, out_option("Save the table of all arms: .csv or .parquet; groups go to a second file beside it.")
    ] = None,
    plot: PlotOption = None,
    as_json: JsonOption = False,
) -> None:
    """Test whether the draws in a log followed the stated exposures.

    The test is valid after every round: fair draws ever raise a false alarm with probability at most alpha.
    """
    from meritfair.auditing import audit as test
    from meritfair.auditing import read_draws
    from meritfair.auditing.weighing import check_slack
    from meritfair.core.checks import check_number

    check_number("alpha", alpha, 0.0, 1.0, open_ends=True)
    if independent and fixed_budget:
        raise InputError("with independent draws the number drawn is not fixed: give --independent or --fixed-budget")
    check_slack(slack)
    check_plot(plot)
    check_out(out, "audits")
    with progress_bar(2) as begin:
        begin(f"reading {log.name}")
        draws = read_draws(log, group)
        if slack is not None and draws.due is None:
            raise InputError(f"--slack needs the exposures that were due, and {log} has no column due")
        files = Files(out, plot)
        given: Any = {"fixed_budget": fixed_budget, "independent": independent, "slack": slack}
        report = test(draws, alpha, **given, progress=begin("auditing"))
    files.save(out, report.save)
    files.plot(plot, report.plot)
    files.report(as_json, lambda: _values(report), lambda: _show(report, group))


def _values(report: Audit) -> dict[str, Any]:
    return {
        "verdict": str(report),
        "alpha": report.alpha,
        "fixed_budget": report.fixed_budget,
        "independent": report.independent,
        "rounds": len(report.rounds),
        "overall": report.overall.values(),
        "power": report.power,
        "certain": [violation._asdict() for violation in report.certain],
        "budget": report.budget._asdict(),
        "slack": report.slack,
        "within_slack": report.within_slack,
        "largest_account": report.largest_account and report.largest_account._asdict(),
        "worst_window": report.worst_window and report.worst_window._asdict(),
        "groups": None if report.groups is None else report.groups.rows("group"),
        "arms": report.arms.rows("arm"),
    }


def _show(report: Audit, group: str | None) -> None:
    print_note(printable(str(report)), style="bold")
    print_note(_facts(report))
    print_note(_power(report))
    if report.groups is not None:
        _show_groups(report.groups, group or "group")
    _show_arms(report.arms)
    print_note(
        "Shortfall: stated exposure minus true probability of being drawn, per member and round; these bounds hold for "
        f"the whole table at all times with probability {1 - report.alpha:g}. E-value: the largest so far, adjusted "
        f"for multiple testing; from {1 / report.alpha:.3g} on it is flagged as more or less than stated. Fair draws "
        f"are ever flagged with probability at most {report.alpha:g}."
    )
    if report.arms.account is not None:
        _show_accounts(report, report.arms.account, group)


def _facts(report: Audit) -> str:
    b = report.budget
    number = f"{b.smallest:,}" if b.smallest == b.largest else f"{b.smallest:,} to {b.largest:,}"
    text = f"{several(len(report.arms), 'arm')}, {several(len(report.rounds), 'round')}, {number} drawn in a round."
    if report.independent or b.as_independent:
        text += _as_independent(report)
    elif b.uneven:
        text += _not_equal(b.uneven, "the exposures do not sum to the number drawn", b.first_uneven)
        if b.within_chance:
            text += " That is in order if each arm was drawn by itself, which so few rounds cannot show: --independent."
    elif report.groups is not None and not report.fixed_budget:
        text += " If that number was fixed before each draw, --fixed-budget makes the test of groups more powerful."
    if b.uneven_due:
        text += _not_equal(b.uneven_due, "the due exposures do not sum to the given ones", b.first_uneven_due)
    elif report.arms.account is not None:
        text += " In every round the due exposures sum to the given ones."
    return text


def _as_independent(report: Audit) -> str:
    """Return whether the number drawn varies as it does if each arm is drawn by itself."""
    b = report.budget
    if b.variation is None or b.by_chance is None:
        return ""
    low, high = b.by_chance
    varies = (
        f"That number varies {b.variation:.2f} times as much as with independent draws (variance; {low:.2f} to "
        f"{high:.2f} by chance)"
    )
    if not b.within_chance:
        return f" {varies}, which is rare at one look. If the arms were not drawn independently, omit --independent."
    if report.independent:
        return f" {varies}, as it should."
    more = " and makes the test of groups more powerful" if report.groups is not None else ""
    return f" {varies}. If each arm was drawn by itself, that is in order; --independent says so{more}."


def _power(report: Audit) -> str:
    """Return how soon it would show that one arm is drawn less often than stated."""
    from meritfair.auditing.report import in_two_digits

    rounds = report.rounds_until_found
    if math.isinf(rounds):
        return "One arm that is drawn a tenth less often than stated would never show."
    return (
        f"One arm that is drawn a tenth less often than stated would show after about {in_two_digits(rounds):,} rounds."
    )


def _not_equal(count: int, what: str, first: int | None) -> str:
    return f" In {several(count, 'round')} {what}, first in round {first}."


def _show_groups(table: AuditTable, heading: str) -> None:
    shares = [100 * count / max(1.0, count.sum()) for count in (table.entitled, table.drawn)]
    rates = [100 * count / table.turns for count in (table.entitled, table.drawn)]
    headings = [printable(heading), "arms", "share, %\nstated drawn", "rate, %\nstated drawn"]
    cells = [
        [f"{members:,}", *(f"{stated[k]:.1f}  {drawn[k]:.1f}" for stated, drawn in (shares, rates))]
        for k, members in enumerate(table.members)
    ]
    _show_table(table, range(len(table)), headings, cells)


def _show_arms(table: AuditTable) -> None:
    shown = table.most_suspicious(_MOST_ARMS)
    cells = [[f"{table.rounds[k]:,}", f"{table.entitled[k]:,.1f}", f"{table.drawn[k]:,.0f}"] for k in shown]
    title = f"The {_MOST_ARMS} most suspicious of {len(table):,} arms:" if len(table) > _MOST_ARMS else ""
    _show_table(table, shown, ["arm", "rounds", "entitled", "drawn"], cells, title)


def _show_table(
    table: AuditTable, shown: Iterable[int], headings: list[str], cells: list[list[str]], title: str = ""
) -> None:
    """Print rows of arms or groups: their names, their own cells, and those that both have."""
    from meritfair.auditing.report import readable

    rows = []
    for k, own in zip(shown, cells, strict=True):
        interval = f"{100 * table.low[k]:+.2f}  {100 * table.high[k]:+.2f}"
        flag = ("less" if table.shortfall[k] > 0 else "more") if table.flagged[k] else ""
        rows.append([printable(table.names[k]), *own, interval, readable(table.log_largest[k]), flag])
    print_table([*headings, "shortfall, %\nfrom    to", "e-value", "flag"], rows, title, "lrrrrrl")


def _show_accounts(report: Audit, arms: Accounts, group: str | None) -> None:
    """Print the accounts of groups, and those of the arms that went farthest."""
    from meritfair.auditing.accounts import TOLERANCE

    if report.groups is not None and report.groups.account is not None:
        groups = report.groups.account
        _show_account_table(groups, range(len(groups.names)), group or "group", "Accounts of groups, in pulls:")
    shown = arms.farthest_first(_MOST_ARMS)
    some = f"The {_MOST_ARMS} largest of {len(report.arms):,} accounts" if len(report.arms) > _MOST_ARMS else "Accounts"
    _show_account_table(arms, shown, "arm", f"{some}, in pulls:")
    note = "Account: due less given exposure, summed from the first round on; above 0 is behind, below 0 ahead. "
    worst = report.worst_window
    if worst is not None and abs(worst.owed) > TOLERANCE:
        note += f"Worst window of all: {worst}. "
    print_note(note + "Accounts compare what was stated; whether the draws followed it is what the e-values say.")


def _show_account_table(table: Accounts, shown: Iterable[int], heading: str, title: str) -> None:
    rows = []
    for k in shown:
        first, last = table.window[k].tolist()
        extremes = [f"{value[k]:+.2f}" for value in (table.now, table.least, table.largest, table.owed)]
        rows.append([printable(table.names[k]), f"{table.due[k]:,.1f}", *extremes, f"{first} to {last}"])
    headings = [printable(heading), "due", "account\nnow", "\nleast", "\nlargest", "worst\nwindow", "\nrounds"]
    print_table(headings, rows, title, "lrrrrrl")
