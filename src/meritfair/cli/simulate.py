"""`meritfair simulate`: play policies on arms, show how fair each was."""

from __future__ import annotations

import json
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from meritfair.cli.options import (
    AuthorsOption,
    BudgetOption,
    DatasetOption,
    DeltaOption,
    FileOption,
    HorizonOption,
    JsonOption,
    MeritOption,
    NumberOption,
    SeedOption,
    make_arms,
    make_merit,
    make_policy,
)
from meritfair.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from meritfair.run import Run

__all__ = ["progress_bar", "simulate"]

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
            help="A policy, with settings: [cyan]merit-fair[/] or [cyan]merit-fair:estimate=mean[/]; "
            "repeat to compare. See [cyan]meritfair policies[/].",
        ),
    ] = None,
    budget: BudgetOption = 1,
    episodes: Annotated[
        int, typer.Option("--episodes", "-t", help="Episodes in a run (T).", rich_help_panel="The rules")
    ] = 300,
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
    runs: Annotated[int, typer.Option("--runs", "-r", help="Independent repetitions.")] = 10,
    seed: SeedOption = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="Keep the runs: a folder, or for one policy a .parquet or .npz file.",
            rich_help_panel=_RESULTS,
        ),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option("--plot", help="Draw the figure: .png, .pdf or .svg.", rich_help_panel=_RESULTS)
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
    files = _files(out, texts)
    _check_plot(plot)
    instances = make_arms(
        dataset, arms_file, arms, runs=runs, budget=budget, authors=authors, same=same_arms, seed=root
    )
    results: dict[str, Run] = {}
    with progress_bar(len(players) * max(episodes, 0)) as advance:
        for text, player in players.items():
            advance(text)
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
                progress=lambda _done, _all: advance(None),
            )
    for text, file in files.items():
        results[text].save(file)
    if plot is not None:
        from meritfair.plots import plot_runs

        _save_figure(plot_runs(list(results.values()), list(results)), plot)
    if as_json:
        _print_json(results, [*files.values(), *([plot] if plot else [])])
    else:
        _print_table(results, [*files.values(), *([plot] if plot else [])])


@contextmanager
def progress_bar(total: int) -> Iterator[Callable[[str | None], None]]:
    """Show a bar with the time left on the error stream; call the result with a name, or None for one step done."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TextColumn("·"),
        TimeRemainingColumn(),
        TextColumn("left"),
        console=Console(stderr=True),
        transient=True,
    )
    with bar:
        task = bar.add_task("", total=total)

        def advance(name: str | None) -> None:
            if name is None:
                bar.advance(task)
            else:
                bar.update(task, description=name)

        yield advance


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
    if not plot.parent.is_dir():
        raise InputError(f"--plot {plot}: there is no folder {plot.parent}")


def _save_figure(figure: Any, path: Path) -> None:
    from meritfair.storage import write_whole

    write_whole(path, lambda temporary: figure.savefig(temporary, dpi=160))


def _print_json(results: dict[str, Run], files: list[Path]) -> None:
    summaries = {
        text: {
            "settings": run.settings,
            "summary": {
                key: {"mean": value.mean, "low": _number(value.low), "high": _number(value.high)}
                for key, value in run.summary().items()
            },
        }
        for text, run in results.items()
    }
    json.dump({"policies": summaries, "files": [str(f) for f in files]}, sys.stdout, indent=2)
    sys.stdout.write("\n")


def _number(value: float) -> float | None:
    return None if value != value else value  # JSON knows no NaN


def _print_table(results: dict[str, Run], files: list[Path]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    run = next(iter(results.values()))
    table = Table(box=box.SIMPLE_HEAD, title_justify="left", caption_justify="left")
    table.title = (
        f"{run.n_arms} arms, {run.budget} pulled at each step · {run.episodes:,} episodes of {run.horizon} steps · "
        f"{run.runs} run{'s' * (run.runs != 1)} · merit {run.merit_label} · seed {run.settings['seed']}"
    )
    table.add_column("policy", no_wrap=True)
    for heading in ("fairness regret", "good state", "Gini", "longest wait", "t0", "G"):
        table.add_column(heading, justify="right")
    for text, result in results.items():
        s = result.summary()
        regret = s["fairness_regret"]
        spread = f" ({regret.low:,.1f} – {regret.high:,.1f})" if regret.low == regret.low else ""
        late = "≥ " if (result.first_valid_episode == result.episodes).any() else ""
        gini = "–" if s["gini"].mean != s["gini"].mean else f"{s['gini'].mean:.2f}"
        table.add_row(
            text,
            f"{regret.mean:,.1f}{spread}",
            f"{100 * s['good_state'].mean:.1f} %",
            gini,
            f"{s['longest_wait'].mean:,.0f}",
            f"{late}{s['first_valid_episode'].mean:,.0f}",
            f"{s['coverage_gap'].mean:,.0f}",
        )
    console = Console()
    console.print(table)
    console.print(
        "Fairness regret: distance from fair exposure, added up over episodes (0 is perfect, at most 2 an episode), "
        "with a 95 % interval. Good state: share of arms in it. Gini of the pulls: 0 is equal. "
        "Longest wait: steps that some arm went without a pull. t0: the episode after which every eta is below 1, "
        "so that the paper's bound applies. G: the most episodes that some arm waited for one that saw it "
        "in both states under both actions.",
        style="dim",
    )
    for file in files:
        console.print(f"wrote {file}", soft_wrap=True)
