"""Options that several commands share, and how their text becomes values."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from meritfair.cli.show import say
from meritfair.core.errors import InputError
from meritfair.core.parsing import split_settings

if TYPE_CHECKING:
    from collections.abc import Sequence
    from concurrent.futures import Executor
    from contextlib import AbstractContextManager

    from meritfair.model.arms import Arms
    from meritfair.model.criterion import Confidence, Criterion
    from meritfair.model.merit import Merit
    from meritfair.policies.base import Policy

__all__ = [
    "RESULTS",
    "AuthorsOption",
    "BallOption",
    "BudgetOption",
    "CapOption",
    "CarryStatesOption",
    "ClipOption",
    "ClusterOption",
    "DatasetOption",
    "DeltaOption",
    "DesignOption",
    "EpisodesOption",
    "FileOption",
    "FloorOption",
    "ForceOption",
    "HorizonOption",
    "JsonOption",
    "MeritOption",
    "NumberOption",
    "PlotOption",
    "PoliciesOption",
    "RunsOption",
    "SameArmsOption",
    "SeedOption",
    "WorkersOption",
    "make_arms",
    "make_confidence",
    "make_criterion",
    "make_executor",
    "make_merit",
    "make_policies",
    "number_option",
    "out_option",
]

_ARMS = "The arms"
_RULES = "The rules"
RESULTS = "The results"


def number_option(kind: type[int] | type[float], *flags: str, help: str, panel: str | None = None) -> Any:  # noqa: A002
    """Return an option for a number whose error message names the value."""
    word, wanted = ("INTEGER", "a whole number") if kind is int else ("NUMBER", "a number")

    def parse(text: str) -> float:
        try:
            return _whole(text) if kind is int else float(text)
        except ValueError:
            raise typer.BadParameter(f"must be {wanted}, got {text!r}") from None

    return typer.Option(*flags, help=help, rich_help_panel=panel, parser=parse, metavar=word)


def _whole(text: str) -> int:
    """Return a whole number, which may be written as 1e5."""
    try:
        return int(text)
    except ValueError:
        if not float(text).is_integer():
            raise
        return int(float(text))


def out_option(help: str, metavar: str = "FILE") -> Any:  # noqa: A002
    """Return the option that says where results are kept."""
    return typer.Option("--out", "-o", metavar=metavar, help=help, rich_help_panel=RESULTS)


DatasetOption = Annotated[
    str | None,
    typer.Option(
        "--dataset",
        "-d",
        metavar="NAME",
        help="A data set, with settings: [cyan]cpap[/] or [cyan]cpap:noise=0.2,variant=probfair[/]. "
        "See [cyan]meritfair datasets[/].",
        rich_help_panel=_ARMS,
    ),
]
FileOption = Annotated[
    Path | None,
    typer.Option(
        "--arms-file",
        metavar="FILE",
        help="Instead: a .csv or .parquet file with columns arm, p00, p01, p10, p11.",
        rich_help_panel=_ARMS,
    ),
]
NumberOption = Annotated[
    int | None, number_option(int, "--arms", "-n", help="How many arms (N); 5 by default.", panel=_ARMS)
]
ClipOption = Annotated[
    float | None,
    number_option(float, "--clip", help="Move all probabilities into [NUMBER, 1 - NUMBER].", panel=_ARMS),
]
AuthorsOption = Annotated[
    bool,
    typer.Option("--authors", help="The very instances of the paper's authors, number 1, 2, …", rich_help_panel=_ARMS),
]
SameArmsOption = Annotated[
    bool,
    typer.Option("--same-arms", help="All runs on one instance; else each run draws its own.", rich_help_panel=_ARMS),
]
PoliciesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--policy",
        "-p",
        metavar="NAME",
        help="A policy, with settings: [cyan]merit-fair:estimate=mean[/] or "
        "[cyan]merit-fair:merit=affine:slope=1:intercept=1.5[/]; repeat to compare. See [cyan]meritfair policies[/].",
    ),
]
BudgetOption = Annotated[int, number_option(int, "--budget", "-k", help="Arms pulled at each step (K).", panel=_RULES)]
EpisodesOption = Annotated[int, number_option(int, "--episodes", "-t", help="Episodes in a run (T).", panel=_RULES)]
HorizonOption = Annotated[int, number_option(int, "--horizon", help="Steps in an episode (H).", panel=_RULES)]
MeritOption = Annotated[
    str,
    typer.Option(
        "--merit",
        metavar="NAME",
        help="Merit of a benefit: [cyan]exponential:c=3[/], [cyan]affine:slope=1,intercept=1.5[/], "
        "[cyan]power[/], [cyan]logistic[/].",
        rich_help_panel=_RULES,
    ),
]
DesignOption = Annotated[
    str,
    typer.Option(
        "--design",
        metavar="NAME",
        help="How K arms are drawn by merit: [cyan]sequential[/] (the paper's), [cyan]exact[/] or [cyan]systematic[/] "
        "(exposure in proportion to merit).",
        rich_help_panel=_RULES,
    ),
]
FloorOption = Annotated[
    float,
    number_option(float, "--floor", help="The least exposure of any arm; not with a sequential design.", panel=_RULES),
]
CapOption = Annotated[
    float,
    number_option(float, "--cap", help="The most exposure of any arm; not with a sequential design.", panel=_RULES),
]
BallOption = Annotated[
    str,
    typer.Option(
        "--ball",
        metavar="NAME",
        help="How confidence is measured: [cyan]paper[/], or tighter [cyan]bernstein[/] or [cyan]kl[/].",
        rich_help_panel=_RULES,
    ),
]
DeltaOption = Annotated[
    float, number_option(float, "--delta", help="Chance that the confidence ball may miss the truth.", panel=_RULES)
]
CarryStatesOption = Annotated[
    bool,
    typer.Option(
        "--carry-states", help="States run on between episodes; else each starts at random.", rich_help_panel=_RULES
    ),
]
RunsOption = Annotated[int, number_option(int, "--runs", "-r", help="Independent repetitions.")]
SeedOption = Annotated[
    int | None,
    number_option(int, "--seed", "-s", help="Fixes every random number; without it, a new one is taken and shown."),
]
WorkersOption = Annotated[
    int | None,
    number_option(
        int, "--workers", help="Runs played at the same time; all cores by default. Results do not depend on it."
    ),
]

PlotOption = Annotated[
    Path | None,
    typer.Option("--plot", metavar="FILE", help="Draw the figure: .png, .pdf or .svg.", rich_help_panel=RESULTS),
]
ClusterOption = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        metavar="ADDRESS",
        help="Play on a dask cluster: [cyan]tcp://host:8786[/], or [cyan]local:4[/] for four workers here.",
    ),
]
ForceOption = Annotated[bool, typer.Option("--force", help="Play everything again, also what is done.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for a script instead of a table.")]

_DEFAULT_ARMS = 5


def make_merit(text: str) -> Merit:
    """Make a merit function from the text of --merit."""
    from meritfair.model.merit import merit_from_text

    return merit_from_text(text)


def make_criterion(merit: str, design: str, floor: float, cap: float) -> Criterion:
    """Make the fairness criterion from the options that say it."""
    from meritfair.model.criterion import Criterion

    return Criterion(make_merit(merit), design, floor, cap)


def make_confidence(ball: str, delta: float) -> Confidence:
    """Make the confidence from the options that say it."""
    from meritfair.model.criterion import Confidence

    return Confidence(ball, delta)


def make_policies(texts: Sequence[str], criterion: Criterion, confidence: Confidence) -> dict[str, Policy]:
    """Make policies from the texts of --policy, which take over what the criterion and the confidence change."""
    from meritfair.policies.registry import create_under

    if len(set(texts)) < len(texts):
        raise InputError(f"the same policy twice: {', '.join(texts)}")
    return {text: create_under(text, criterion, confidence) for text in texts}


def make_arms(
    dataset: str | None,
    file: Path | None,
    n_arms: int | None,
    *,
    runs: int,
    budget: int,
    episodes: int,
    horizon: int,
    policies: int = 1,
    authors: bool,
    same: bool,
    clip: float | None,
    seed: int,
) -> tuple[Arms, ...]:
    """Make the arms of each run from the options that say which, if so much can be played on them."""
    from meritfair import datasets
    from meritfair.core.checks import check_budget, check_whole
    from meritfair.core.machine import check_size

    length: dict[str, int] = {"runs": runs, "episodes": episodes, "horizon": horizon, "policies": policies}
    if file is not None:
        if dataset is not None or n_arms is not None or authors:
            raise InputError("--arms-file cannot go together with --dataset, --arms or --authors")
        made: tuple[Arms, ...] = (datasets.read_arms(file),)
        check_size(made[0].n_arms, **length)
    elif dataset is None:
        raise InputError("say which arms: --dataset synthetic, or --arms-file arms.csv")
    else:
        name, settings = split_settings(dataset)
        N = check_whole("arms", _DEFAULT_ARMS if n_arms is None else n_arms, 1)
        check_budget(budget, N)
        check_size(N, **length)
        chosen: dict[str, Any] = {"seed": None, "budget": budget} if authors else {"seed": seed}
        made = datasets.instances(name, N, 1 if same else runs, authors=authors, **chosen, **settings)
    if clip is not None:
        made = tuple(each.clip(clip) for each in made)
    return made * (runs // len(made))


def make_executor(cluster: str | None, workers: int | None) -> AbstractContextManager[Executor] | None:
    """Return what plays the tasks of a sweep: a cluster, or None for processes on this machine."""
    if cluster is None:
        return None
    if workers is not None:
        raise InputError("--workers cannot go together with --cluster: a cluster has as many as it has")
    from meritfair.lab.cluster import cluster as connect

    return connect(cluster, say=lambda text: say(text, err=True))
