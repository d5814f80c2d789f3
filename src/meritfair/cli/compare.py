"""`meritfair compare`: many policies on the same arms, reward against fairness."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from meritfair.cli.options import JsonOption, PlotOption, SimulationOptions, out_option, with_options
from meritfair.cli.show import Files, check_out, check_plot, measure_cells, policy_cell, print_measures, say
from meritfair.core.progress import bar

if TYPE_CHECKING:
    from meritfair.simulation.comparison import Comparison

EXAMPLES = """All policies on twenty patients, four calls a day, with a figure and a LaTeX table:

[cyan]meritfair compare -d cpap -n 20 -k 4 --plot compare.png --out compare.tex[/]

Three policies, one with its own settings, and all measures in a table:

[cyan]meritfair compare -d cpap -n 20 -k 4 -p whittle -p merit-fair:estimate=mean -p random --out compare.csv[/]"""


@with_options(episodes=200, runs=30)
def compare(
    options: SimulationOptions,
    out: Annotated[
        Path | None, out_option("Save the table: all measures as .csv or .parquet, the main ones as .md or .tex.")
    ] = None,
    plot: PlotOption = None,
    as_json: JsonOption = False,
) -> None:
    """Play many policies on the same arms with the same seeds, and compare reward and fairness.

    Without --policy: all policies, the most rewarding first. Those that
    cannot be played with these arms and this budget are listed below the table.
    """
    from meritfair.core.seeding import fresh_seed
    from meritfair.simulation.comparison import SUFFIXES
    from meritfair.simulation.comparison import compare as play

    root = fresh_seed(options.seed)
    players = options.policies(options.policy) if options.policy else None
    check_plot(plot)
    check_out(out, "comparisons", SUFFIXES)
    instances = options.instances(root, options.runs, len(players or [1]), same=options.same_arms)
    files = Files(out, plot)
    with bar("getting ready", keep=False) as tell:
        found = play(instances, players, **options.settings(root), progress=tell)
    if players is None:
        found = found.by_reward()
    files.save(out, found.save)
    files.plot(plot, found.plot)
    about = {"oracles": found.oracles, "skipped": found.skipped}
    files.report(
        as_json, lambda: {"settings": found.settings, "policies": found.table(), **about}, lambda: _show(found)
    )


_SHOWN = ("intervention_benefit", "price_of_fairness", "fairness_regret", "gini", "smallest_exposure", "longest_wait")


def _show(found: Comparison) -> None:
    from meritfair.simulation.comparison import ORACLE

    rows = [
        [policy_cell(label) + f" {ORACLE}" * (label in found.oracles), *measure_cells(measures, _SHOWN)]
        for label, measures in found.measures.items()
    ]
    oracle = f"{ORACLE}: knows the true arms." if found.oracles else ""
    print_measures(_SHOWN, rows, found.description, "policy", intervals=found.none.runs > 1, more=oracle)
    for label, reason in found.skipped.items():
        say(f"skipped: {label}: {reason}")
