"""`meritfair compare`: many policies on the same arms, reward against fairness."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from meritfair.cli.options import JsonOption, PlotOption, SimulationOptions, out_option, text, with_options
from meritfair.cli.show import (
    Files,
    check_out,
    check_plot,
    measure_cells,
    policy_cell,
    print_measures,
    print_note,
    print_table,
    say,
)
from meritfair.core.errors import InputError
from meritfair.core.progress import bar
from meritfair.simulation.columns import ACCOUNTS

if TYPE_CHECKING:
    from meritfair.simulation.bootstrap import Interval
    from meritfair.simulation.comparison import Comparison

EXAMPLES = """All policies on twenty patients, four calls a day, with a figure and a LaTeX table:

[cyan]meritfair compare -d cpap -n 20 -k 4 --plot compare.png --out compare.tex[/]

Three policies, one with its own settings, and all measures in a table:

[cyan]meritfair compare -d cpap -n 20 -k 4 -p whittle -p merit-fair:estimate=mean -p random --out compare.csv[/]

What slack gains, in the table and in a third panel of the figure:

[cyan]meritfair compare -d cpap -n 20 -k 4 --design exact -p merit-fair --slack 0,1,2,5 --plot slack.png[/]

What is lost if states are known only of those who are called:

[cyan]meritfair compare -d cpap -n 20 -k 4 -p whittle -p merit-fair:estimate=mean --observed pulled[/]"""


@with_options(episodes=200, runs=30)
def compare(
    options: SimulationOptions,
    slack: Annotated[
        str | None,
        text(
            "--slack",
            metavar="NUMBERS",
            help="Play each policy that has a setting slack once with each of these: [cyan]0,0.5,1,2,5,10[/]. "
            "Needs [cyan]--design exact[/] or [cyan]systematic[/].",
        ),
    ] = None,
    against: Annotated[
        str | None,
        text("--against", metavar="POLICY", help="Show differences to this policy; by default to merit-fair."),
    ] = None,
    out: Annotated[
        Path | None, out_option("Save the table: all measures as .csv or .parquet, the main ones as .md or .tex.")
    ] = None,
    plot: PlotOption = None,
    as_json: JsonOption = False,
) -> None:
    """Play many policies on the same arms with the same seeds, and compare reward and fairness.

    Without --policy: all policies with their usual settings, and merit-fair as
    we recommend it, the most rewarding first. Those that cannot be played with
    these arms and this budget are listed below the table.
    """
    from meritfair.core.seeding import fresh_seed
    from meritfair.simulation.comparison import SUFFIXES
    from meritfair.simulation.comparison import compare as play

    root = fresh_seed(options.seed)
    players = options.policies(options.policy) if options.policy else None
    slacks = None if slack is None else _numbers(slack)
    check_plot(plot)
    check_out(out, "comparisons", SUFFIXES)
    instances = options.instances(root, options.runs, len(players or [1]) * len(slacks or [1]), same=options.same_arms)
    files = Files(out, plot)
    with bar("getting ready", keep=False) as tell:
        found = play(instances, players, **options.settings(root), slack=slacks, against=against, progress=tell)
    if players is None:
        found = found.by_reward()
    files.save(out, found.save)
    files.plot(plot, found.plot)
    about = {"oracles": found.oracles, "skipped": found.skipped}
    files.report(
        as_json,
        lambda: {"settings": found.settings, "policies": found.rows(), **about},
        lambda: _show(found, always=against is not None, accounts=bool(players or slacks)),
    )


def _numbers(typed: str) -> list[float]:
    try:
        return [float(part) for part in typed.split(",")]
    except ValueError:
        raise InputError(f"--slack must be numbers with commas between them, as in 0,1,5, got {typed!r}") from None


_SHOWN = ("intervention_benefit", "price_of_fairness", "fairness_regret", "gini", "smallest_exposure", "longest_wait")
_WITH_ACCOUNTS = ("intervention_benefit", "fairness_regret", "gini", "longest_wait", *ACCOUNTS)  # in 80 columns


def _show(found: Comparison, *, always: bool, accounts: bool) -> None:
    """Print the table of measures, with accounts if policies or slacks were asked for, and that of differences."""
    from meritfair.policies.registry import RECOMMENDED, RECOMMENDED_TEXT
    from meritfair.simulation.comparison import ORACLE

    names = {label: policy_cell(label) + f" {ORACLE}" * (label in found.oracles) for label in found.runs}
    shown = _WITH_ACCOUNTS if accounts and found.has_accounts else _SHOWN
    rows = [[names[label], *measure_cells(measures, shown)] for label, measures in found.measures.items()]
    more = [f"{ORACLE}: knows the true arms."] if found.oracles else []
    if RECOMMENDED in found.runs:
        more.append(f"{RECOMMENDED}: {RECOMMENDED_TEXT}.")
    print_measures(shown, rows, found.description, "policy", intervals=found.none.runs > 1, more=" ".join(more))
    if found.none.runs > 1 or always:
        _show_differences(found, names)
    for label, reason in found.skipped.items():
        say(f"skipped: {label}: {reason}")


def _show_differences(found: Comparison, names: dict[str, str]) -> None:
    """Print how far each policy is above the one that others are held against, if there are others."""
    shown = {label: each for label, each in found.differences().items() if label != found.against}
    if not shown:
        return
    headings = ["policy", "difference", "95 % interval", "if runs were\nnot paired"]
    rows = [
        [names[label], _points(each.paired.mean), _ends(each.paired), _ends(each.unpaired)]
        for label, each in shown.items()
    ]
    kept = 4 if found.none.runs > 1 else 2  # a single run has no intervals
    title = f"\nDifference to {found.against}: share of arms in the good state, in percentage points"
    print_table(headings[:kept], [row[:kept] for row in rows], title)
    if kept == 4:
        print_note("95 % interval: of the differences run by run. In a run all policies meet the same environment.")


def _ends(value: Interval) -> str:
    return f"{_points(value.low)} to {_points(value.high)}"


def _points(value: float) -> str:
    return f"{100 * value:+z.2f}".replace("-", "−")
