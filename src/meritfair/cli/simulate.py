"""`meritfair simulate`: play policies on arms, show how fair each was."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from meritfair.cli.options import RESULTS, JsonOption, PlotOption, SimulationOptions, flag, out_option, with_options
from meritfair.cli.show import Files, check_plot, measure_cells, policy_cell, print_measures
from meritfair.core.errors import InputError
from meritfair.core.progress import bar, in_parts
from meritfair.simulation.columns import ACCOUNTS

if TYPE_CHECKING:
    from meritfair.simulation.run import Run

EXAMPLES = """Compare the paper's algorithm with its baseline on the authors' own arms, and plot the result:

[cyan]meritfair simulate -d synthetic --authors --plot regret.png[/]

Twenty patients, four calls a day, three policies, with the runs saved:

[cyan]meritfair simulate -d cpap -n 20 -k 4 -p merit-fair -p merit-fair:estimate=mean -p random --out results[/]"""


@with_options(episodes=300, runs=10)
def simulate(
    options: SimulationOptions,
    exposure_regret: Annotated[
        bool,
        flag(
            "--exposure-regret",
            "Measure exposure regret also where it needs numerical integration: sequential draws of several arms.",
            RESULTS,
        ),
    ] = False,
    out: Annotated[
        Path | None, out_option("Save the runs: a folder, or for one policy a .parquet or .npz file.", "PATH")
    ] = None,
    plot: PlotOption = None,
    as_json: JsonOption = False,
) -> None:
    """Play policies on arms that they do not know, and show how fair each was.

    Without --policy: merit-fair (the paper's MF-RMAB) and optimal (its baseline).
    """
    from meritfair.core.seeding import fresh_seed
    from meritfair.simulation.players import Notes, try_out
    from meritfair.simulation.plots import plot_runs
    from meritfair.simulation.simulate import simulate as play

    root = fresh_seed(options.seed)
    players = options.policies(options.policy or ["merit-fair", "optimal"])
    check_plot(plot)
    instances = options.instances(root, options.runs, len(players), same=options.same_arms)
    runs_files = _runs_files(out, list(players))
    files = Files(*runs_files.values(), plot)
    settings = options.settings(root) | {"exposure_regret": exposure_regret}
    results: dict[str, Run] = {}
    with bar(keep=False) as tell:
        if len(players) > 1:
            try_out(instances[0], players, Notes(may_skip=False), lambda what: tell(what, 0, 1), **settings)
        begin = in_parts(tell, len(players))
        for text, player in players.items():
            results[text] = play(instances, player, **settings, progress=begin(text))
            files.save(runs_files.get(text), results[text].save)  # at once: a later policy may be interrupted
    files.plot(plot, lambda: plot_runs(list(results.values()), list(results)))
    files.report(as_json, lambda: {"policies": _values(results)}, lambda: _show_table(results))


def _runs_files(out: Path | None, texts: list[str]) -> dict[str, Path]:
    """Return where each policy's run will be saved."""
    if out is None:
        return {}
    if out.suffix.lower() in (".parquet", ".npz"):
        if len(texts) > 1:
            raise InputError(f"--out {out} is one file, but there are {len(texts)} policies: name a folder")
        return {texts[0]: out}
    return {text: out / (re.sub(r"[^\w.-]", "-", text) + ".parquet") for text in texts}


def _values(results: dict[str, Run]) -> dict[str, Any]:
    return {
        text: {"settings": run.settings, "summary": {key: value._asdict() for key, value in run.summary().items()}}
        for text, run in results.items()
    }


_SHOWN = (
    "fairness_regret",
    "exposure_regret",
    "good_state",
    "gini",
    "longest_wait",
    "first_valid_episode",
    "coverage_gap",
)
_WITH_ACCOUNTS = ("fairness_regret", "exposure_regret", "good_state", "longest_wait", *ACCOUNTS)  # in 80 columns


def _show_table(results: dict[str, Run]) -> None:
    found = {text: run.summary() for text, run in results.items()}
    one = next(iter(results.values()))
    measured = one.budget > 1 and not all(math.isnan(each["exposure_regret"].mean) for each in found.values())
    accounts = any(each[ACCOUNTS[0]].mean > 0 for each in found.values())
    names = [name for name in (_WITH_ACCOUNTS if accounts else _SHOWN) if name != "exposure_regret" or measured]
    rows = [[policy_cell(text), *measure_cells(each, names)] for text, each in found.items()]
    print_measures(names, rows, one.description, "policy", intervals=one.runs > 1)
