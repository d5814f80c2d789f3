"""`meritfair simulate`: play policies on arms, show how fair each was."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from meritfair.cli.options import (
    RESULTS,
    AuthorsOption,
    BallOption,
    BudgetOption,
    CapOption,
    CarryStatesOption,
    ClipOption,
    DatasetOption,
    DeltaOption,
    DesignOption,
    EpisodesOption,
    FileOption,
    FloorOption,
    HorizonOption,
    JsonOption,
    MeritOption,
    NumberOption,
    PlotOption,
    PoliciesOption,
    RunsOption,
    SameArmsOption,
    SeedOption,
    WorkersOption,
    make_arms,
    make_confidence,
    make_criterion,
    make_policies,
    out_option,
)
from meritfair.cli.show import Files, check_plot, policy_cell, print_json, print_note, print_table, progress_bar
from meritfair.core.errors import InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from meritfair.simulation.metrics import Interval
    from meritfair.simulation.run import Run

__all__ = ["EXAMPLES", "simulate"]

EXAMPLES = """Compare the paper's algorithm with its baseline on the authors' own arms, and draw it:

[cyan]meritfair simulate -d synthetic --authors --plot regret.png[/]

Twenty patients, four calls a day, three ways to choose, kept for later:

[cyan]meritfair simulate -d cpap -n 20 -k 4 -p merit-fair -p merit-fair:estimate=mean -p random --out results[/]"""


def simulate(
    dataset: DatasetOption = None,
    arms_file: FileOption = None,
    arms: NumberOption = None,
    clip: ClipOption = None,
    authors: AuthorsOption = False,
    same_arms: SameArmsOption = False,
    policy: PoliciesOption = None,
    budget: BudgetOption = 1,
    episodes: EpisodesOption = 300,
    horizon: HorizonOption = 200,
    merit: MeritOption = "exponential:c=3",
    design: DesignOption = "sequential",
    floor: FloorOption = 0.0,
    cap: CapOption = 1.0,
    ball: BallOption = "paper",
    delta: DeltaOption = 0.01,
    carry_states: CarryStatesOption = False,
    exposure_regret: Annotated[
        bool,
        typer.Option(
            "--exposure-regret",
            help="Measure the regret on exposures also for sequential draws of several arms: an integral an episode.",
            rich_help_panel=RESULTS,
        ),
    ] = False,
    runs: RunsOption = 10,
    seed: SeedOption = None,
    workers: WorkersOption = None,
    out: Annotated[
        Path | None,
        out_option("Keep the runs: a folder, or for one policy a .parquet or .npz file.", "PATH"),
    ] = None,
    plot: PlotOption = None,
    as_json: JsonOption = False,
) -> None:
    """Play policies on arms that they do not know, and show how fair each was.

    Without --policy: merit-fair (the paper's MF-RMAB) and optimal (its baseline).
    """
    from meritfair.core.seeding import fresh_seed
    from meritfair.simulation.simulate import simulate as play

    root = fresh_seed(seed)
    texts = policy or ["merit-fair", "optimal"]
    criterion, confidence = make_criterion(merit, design, floor, cap), make_confidence(ball, delta)
    players = make_policies(texts, criterion, confidence)
    check_plot(plot)
    instances = make_arms(
        dataset,
        arms_file,
        arms,
        runs=runs,
        budget=budget,
        episodes=episodes,
        horizon=horizon,
        policies=len(players),
        authors=authors,
        same=same_arms,
        clip=clip,
        seed=root,
    )
    runs_files = _runs_files(out, texts)
    files = Files(*runs_files.values(), plot)
    results: dict[str, Run] = {}
    with progress_bar(len(players)) as begin:
        for text, player in players.items():
            results[text] = play(
                instances,
                player,
                budget=budget,
                episodes=episodes,
                horizon=horizon,
                seed=root,
                carry_states=carry_states,
                exposure_regret=exposure_regret,
                criterion=criterion,
                confidence=confidence,
                workers=workers,
                progress=begin(text),
            )
            files.save(runs_files.get(text), results[text].save)  # at once: a later policy may be interrupted
    files.plot(plot, lambda: _figure(results))
    if as_json:
        _show_json(results, files.written)
    else:
        _show_table(results)
    files.tell(quiet=as_json)


def _figure(results: dict[str, Run]) -> Figure:
    from meritfair.simulation.plots import plot_runs

    return plot_runs(list(results.values()), list(results))


def _runs_files(out: Path | None, texts: list[str]) -> dict[str, Path]:
    """Return where each policy's run will be kept."""
    if out is None:
        return {}
    if out.suffix.lower() in (".parquet", ".npz"):
        if len(texts) > 1:
            raise InputError(f"--out {out} is one file, but there are {len(texts)} policies: name a folder")
        return {texts[0]: out}
    return {text: out / f"{_slug(text)}.parquet" for text in texts}


def _slug(text: str) -> str:
    return "".join(c if c.isalnum() or c in "-._" else "-" for c in text)


def _show_json(results: dict[str, Run], files: list[str]) -> None:
    policies = {
        text: {
            "settings": run.settings,
            "summary": {key: value._asdict() for key, value in run.summary().items()},
        }
        for text, run in results.items()
    }
    print_json({"policies": policies, "files": files})


_LEGEND = (
    "Fairness regret: distance of the shares of merit from the fair ones, added up over episodes (0 is perfect, at "
    "most 2 an episode), with a 95 % interval. {exposure}"
    "Good state: share of arms in it. Gini of the pulls: 0 is equal. "
    "Longest wait: steps that some arm went without a pull. t0: the episode after which every eta is below 1, "
    "so that the paper's bound applies. G: the most episodes that some arm waited for one that saw it "
    "in both states under both actions."
)
_LEGEND_EXPOSURE = "Exposure regret: the same for the chances of being pulled, which sum to the budget. "


def _show_table(results: dict[str, Run]) -> None:
    runs = list(results.values())
    found = [run.summary() for run in runs]
    several = runs[0].budget > 1 and not all(math.isnan(each["exposure_regret"].mean) for each in found)
    columns = {
        "fairness\nregret": [_with_interval(each["fairness_regret"]) for each in found],
        "exposure\nregret": [_with_interval(each["exposure_regret"]) for each in found] if several else None,
        "good\nstate": [f"{100 * each['good_state'].mean:.1f} %" for each in found],
        "Gini": ["–" if math.isnan(each["gini"].mean) else f"{each['gini'].mean:.2f}" for each in found],
        "longest\nwait": [f"{each['longest_wait'].mean:,.0f}" for each in found],
        "t0": [_late(run) + f"{each['first_valid_episode'].mean:,.0f}" for run, each in zip(runs, found, strict=True)],
        "G": [f"{each['coverage_gap'].mean:,.0f}" for each in found],
    }
    shown = {heading: cells for heading, cells in columns.items() if cells is not None}
    names = [policy_cell(text) for text in results]
    headings = [("policy", "left"), *((heading, "right") for heading in shown)]
    print_table(headings, list(zip(names, *shown.values(), strict=True)), runs[0].description)
    print_note(_LEGEND.format(exposure=_LEGEND_EXPOSURE if several else ""))


def _with_interval(value: Interval) -> str:
    """Return a mean over runs, and below it its interval if there is one."""
    if math.isnan(value.mean):
        return "–"
    return _short(value.mean) + ("" if math.isnan(value.low) else f"\n{_short(value.low)}–{_short(value.high)}")


def _late(run: Run) -> str:
    return "≥ " if (run.first_valid_episode == run.episodes).any() else ""


def _short(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:,.1f}"
