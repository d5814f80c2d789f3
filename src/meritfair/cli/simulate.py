"""`meritfair simulate`: play policies on arms, show how fair each was."""

from __future__ import annotations

import math
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from meritfair.cli.options import (
    AuthorsOption,
    BudgetOption,
    DatasetOption,
    DeltaOption,
    EpisodesOption,
    FileOption,
    HorizonOption,
    JsonOption,
    MeritOption,
    NumberOption,
    RunsOption,
    SeedOption,
    WorkersOption,
    make_arms,
    make_merit,
    make_policy,
)
from meritfair.cli.show import print_json, print_note, print_table, progress_bar
from meritfair.errors import InputError, MissingExtraError

if TYPE_CHECKING:
    from meritfair.run import Run

__all__ = ["EXAMPLES", "simulate"]

EXAMPLES = """Compare the paper's algorithm with its baseline on the authors' own arms, and draw it:

[cyan]meritfair simulate -d synthetic --authors --plot regret.png[/]

Twenty patients, four calls a day, three ways to choose, kept for later:

[cyan]meritfair simulate -d cpap -n 20 -k 4 -p merit-fair -p merit-fair:estimate=mean -p random --out results[/]"""

_RESULTS = "The results"


def simulate(
    dataset: DatasetOption = None,
    arms_file: FileOption = None,
    arms: NumberOption = None,
    authors: AuthorsOption = False,
    same_arms: Annotated[
        bool,
        typer.Option(
            "--same-arms", help="All runs on one instance; else each run draws its own.", rich_help_panel="The arms"
        ),
    ] = False,
    policy: Annotated[
        list[str] | None,
        typer.Option(
            "--policy",
            "-p",
            metavar="NAME",
            help="A policy, with settings: [cyan]merit-fair[/] or [cyan]merit-fair:estimate=mean[/]; "
            "repeat to compare. See [cyan]meritfair policies[/].",
        ),
    ] = None,
    budget: BudgetOption = 1,
    episodes: EpisodesOption = 300,
    horizon: HorizonOption = 200,
    merit: MeritOption = "exponential:c=3",
    delta: DeltaOption = 0.01,
    carry_states: Annotated[
        bool,
        typer.Option(
            "--carry-states",
            help="States run on between episodes; else each starts at random.",
            rich_help_panel="The rules",
        ),
    ] = False,
    runs: RunsOption = 10,
    seed: SeedOption = None,
    workers: WorkersOption = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            metavar="PATH",
            help="Keep the runs: a folder, or for one policy a .parquet or .npz file.",
            rich_help_panel=_RESULTS,
        ),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option("--plot", metavar="FILE", help="Draw the figure: .png, .pdf or .svg.", rich_help_panel=_RESULTS),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Play policies on arms that they do not know, and show how fair each was.

    Without --policy: merit-fair (the paper's MF-RMAB) and optimal (its baseline).
    """
    from meritfair.seeding import fresh_seed
    from meritfair.simulation import simulate as play

    root = fresh_seed(seed)
    texts = policy or ["merit-fair", "optimal"]
    if len(set(texts)) < len(texts):
        raise InputError(f"the same policy twice: {', '.join(texts)}")
    yardstick = make_merit(merit)
    players = {text: make_policy(text, yardstick, delta) for text in texts}
    _check_plot(plot)
    instances = make_arms(
        dataset, arms_file, arms, runs=runs, budget=budget, authors=authors, same=same_arms, seed=root
    )
    files = _files(out, texts)
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
                merit=yardstick,
                delta=delta,
                workers=workers,
                progress=begin(text),
            )
            if text in files:  # at once: a later policy may be interrupted
                results[text].save(files[text])
    if plot is not None:
        from meritfair.plots import plot_runs

        _save_figure(plot_runs(list(results.values()), list(results)), plot)
    written = [str(file) for file in (*files.values(), plot) if file is not None]
    if as_json:
        _show_json(results, written)
    else:
        _show_table(results, written)


def _files(out: Path | None, texts: list[str]) -> dict[str, Path]:
    """Return where each policy's run will be kept, and make the folder, before hours are spent."""
    if out is None:
        return {}
    if out.suffix.lower() in (".parquet", ".npz"):
        if len(texts) > 1:
            raise InputError(f"--out {out} is one file, but there are {len(texts)} policies: name a folder")
        files = {texts[0]: out}
    else:
        files = {text: out / f"{_slug(text)}.parquet" for text in texts}
    folder = next(iter(files.values())).parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"--out {out}: {error.strerror}") from None
    return files


def _slug(text: str) -> str:
    return "".join(c if c.isalnum() or c in "-._" else "-" for c in text)


def _check_plot(plot: Path | None) -> None:
    if plot is None:
        return
    if plot.suffix.lower() not in (".png", ".pdf", ".svg"):
        raise InputError(f"--plot {plot}: a figure is a .png, .pdf or .svg file")
    if find_spec("matplotlib") is None:
        raise MissingExtraError("--plot", "plots")
    if not plot.parent.is_dir():
        raise InputError(f"--plot {plot}: there is no folder {plot.parent}")


def _save_figure(figure: Any, path: Path) -> None:
    from meritfair.storage import write_whole

    write_whole(path, lambda temporary: figure.savefig(temporary, dpi=160))


def _show_json(results: dict[str, Run], files: list[str]) -> None:
    policies = {
        text: {
            "settings": run.settings,
            "summary": {key: value._asdict() for key, value in run.summary().items()},
        }
        for text, run in results.items()
    }
    print_json({"policies": policies, "files": files})


_COLUMNS = [
    ("policy", "left"),
    ("fairness\nregret", "right"),
    ("95 %\ninterval", "right"),
    ("good\nstate", "right"),
    ("Gini", "right"),
    ("longest\nwait", "right"),
    ("t0", "right"),
    ("G", "right"),
]
_LEGEND = (
    "Fairness regret: distance from fair exposure, added up over episodes (0 is perfect, at most 2 an episode). "
    "Good state: share of arms in it. Gini of the pulls: 0 is equal. "
    "Longest wait: steps that some arm went without a pull. t0: the episode after which every eta is below 1, "
    "so that the paper's bound applies. G: the most episodes that some arm waited for one that saw it "
    "in both states under both actions."
)


def _show_table(results: dict[str, Run], files: list[str]) -> None:
    rows = [_row(text, run) for text, run in results.items()]
    print_table(_COLUMNS, rows, next(iter(results.values())).description)
    print_note(_LEGEND)
    for file in files:
        typer.echo(f"wrote {file}")


def _row(text: str, run: Run) -> list[str]:
    s = run.summary()
    regret, gini = s["fairness_regret"], s["gini"].mean
    late = "≥ " if (run.first_valid_episode == run.episodes).any() else ""
    return [
        text.replace(":", "\n", 1),
        _short(regret.mean),
        "–" if math.isnan(regret.low) else f"{_short(regret.low)} – {_short(regret.high)}",
        f"{100 * s['good_state'].mean:.1f} %",
        "–" if math.isnan(gini) else f"{gini:.2f}",
        f"{s['longest_wait'].mean:,.0f}",
        f"{late}{s['first_valid_episode'].mean:,.0f}",
        f"{s['coverage_gap'].mean:,.0f}",
    ]


def _short(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:,.1f}"
