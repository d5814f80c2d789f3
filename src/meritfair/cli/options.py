"""Options that several commands share, and how their text becomes values."""

from __future__ import annotations

import dataclasses
import inspect
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from meritfair.cli.show import say
from meritfair.core.errors import InputError
from meritfair.core.parsing import split_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Executor
    from contextlib import AbstractContextManager

    from meritfair.model.arms import Arms
    from meritfair.model.criterion import Confidence, Criterion
    from meritfair.policies.base import Policy

_ARMS, _PROBLEM, RESULTS = "Arms", "Problem", "Results"


def _numeric(parse: Callable[[str], Any], metavar: str, wanted: str) -> Callable[..., Any]:
    """Return what makes options for numbers whose error message names the value."""

    def checked(text: str) -> Any:
        try:
            return parse(text)
        except ValueError:
            raise typer.BadParameter(f"must be {wanted}, got {text!r}") from None

    def option(*flags: str, help: str, panel: str | None = None) -> Any:  # noqa: A002
        return typer.Option(*flags, help=help, rich_help_panel=panel, parser=checked, metavar=metavar)

    return option


def _whole(text: str) -> int:
    """Return a whole number, which may be written as 1e5."""
    try:
        return int(text)
    except ValueError:
        if not float(text).is_integer():
            raise
        return int(float(text))


def _cycle(text: str) -> tuple[int, ...]:
    """Return whole numbers that have commas between them; a default may be a number."""
    return tuple(map(_whole, str(text).split(",")))


def _chance_or_pulled(text: str) -> float | str:
    """Return how much is seen: a number, or the word for those who are pulled."""
    return text if text == "pulled" else float(text)


def text(*flags: str, help: str, panel: str | None = None, metavar: str = "NAME") -> Any:  # noqa: A002
    """Return an option for a name or a file."""
    return typer.Option(*flags, help=help, rich_help_panel=panel, metavar=metavar)


def names(text: str) -> list[str]:
    """Return names that have commas between them."""
    return [name.strip() for name in text.split(",") if name.strip()]


def out_option(help: str, metavar: str = "FILE") -> Any:  # noqa: A002
    """Return the option that says where results are written."""
    return text("--out", "-o", metavar=metavar, help=help, panel=RESULTS)


def flag(name: str, help: str, panel: str | None = None) -> Any:  # noqa: A002
    """Return an option that is set or not."""
    return typer.Option(name, help=help, rich_help_panel=panel)


number = _numeric(float, "NUMBER", "a number")
whole = _numeric(_whole, "INTEGER", "a whole number")
cycle = _numeric(_cycle, "INTEGERS", "a whole number, or several as in 4,4,0")

BudgetOption = Annotated[int, whole("--budget", "-k", help="Arms pulled per step (K).", panel=_PROBLEM)]
MeritOption = Annotated[
    str,
    text(
        "--merit",
        help="Merit as a function of benefit: [cyan]exponential:c=3[/], [cyan]affine:slope=1,intercept=1.5[/], "
        "[cyan]power[/], [cyan]logistic[/].",
        panel=_PROBLEM,
    ),
]
AbsentOption = Annotated[
    str,
    text(
        "--absent",
        metavar="WHAT",
        help="Rounds without a row, between two rows of an arm: [cyan]unknown[/], or [cyan]not-pulled[/] (the arm was "
        "not pulled, and its state not observed).",
    ),
]
DesignOption = Annotated[
    str,
    text(
        "--design",
        help="How K arms are drawn by merit: [cyan]sequential[/] (the paper's), [cyan]exact[/] or [cyan]systematic[/] "
        "(exposure in proportion to merit).",
        panel=_PROBLEM,
    ),
]
FloorOption = Annotated[
    float, number("--floor", help="Least exposure of any arm; not with --design sequential.", panel=_PROBLEM)
]
CapOption = Annotated[
    float, number("--cap", help="Most exposure of any arm; not with --design sequential.", panel=_PROBLEM)
]
WorkersOption = Annotated[
    int | None, whole("--workers", help="Runs played in parallel; by default one per core. Never changes results.")
]
PlotOption = Annotated[
    Path | None, text("--plot", metavar="FILE", help="Draw the figure: .png, .pdf or .svg.", panel=RESULTS)
]
HtmlOption = Annotated[
    Path | None, text("--html", metavar="FILE", help="Write a report that people can read: .html.", panel=RESULTS)
]
JsonOption = Annotated[bool, flag("--json", "Print JSON instead of a table.")]


@dataclass(frozen=True)
class ProblemOptions:
    """The options that say which problem: arms, budget, length, merit."""

    dataset: Annotated[
        str | None,
        text(
            "--dataset",
            "-d",
            help="Data set, with settings: [cyan]cpap[/] or [cyan]cpap:noise=0.2,variant=probfair[/]. "
            "See [cyan]meritfair datasets[/].",
            panel=_ARMS,
        ),
    ] = None
    arms_file: Annotated[
        Path | None,
        text(
            "--arms-file",
            metavar="FILE",
            help="Instead of --dataset: a .csv or .parquet file with columns arm, p00, p01, p10, p11.",
            panel=_ARMS,
        ),
    ] = None
    arms: Annotated[int | None, whole("--arms", "-n", help="Number of arms (N); 5 by default.", panel=_ARMS)] = None
    clip: Annotated[
        float | None, number("--clip", help="Clip all probabilities to [NUMBER, 1 - NUMBER].", panel=_ARMS)
    ] = None
    authors: Annotated[bool, flag("--authors", "Use the instances of the paper's authors.", _ARMS)] = False
    budget: Annotated[
        Any,  # a tuple of whole numbers, which would else be an option with several values
        cycle(
            "--budget",
            "-k",
            help="Arms pulled per step (K); or a number for each of some steps, which repeat: [cyan]4,4,4,4,0[/].",
            panel=_PROBLEM,
        ),
    ] = 1
    episodes: Annotated[int, whole("--episodes", "-t", help="Episodes per run (T).", panel=_PROBLEM)] = 0
    horizon: Annotated[int, whole("--horizon", help="Steps per episode (H).", panel=_PROBLEM)] = 200
    merit: MeritOption = "exponential:c=3"
    design: DesignOption = "sequential"
    delta: Annotated[
        float, number("--delta", help="Probability that the confidence ball misses the truth.", panel=_PROBLEM)
    ] = 0.01
    seed: Annotated[
        int | None, whole("--seed", "-s", help="Seed of all random numbers; without it, a new one is drawn and shown.")
    ] = None

    @property
    def budgets(self) -> int | tuple[int, ...]:
        """Arms pulled at each step; or at each of some steps, which repeat."""
        return self.budget[0] if len(self.budget) == 1 else tuple(self.budget)

    def one_budget(self, what: str) -> int:
        """Return the budget, if it is the same at all steps, as `what` needs."""
        if len(self.budget) > 1:
            raise InputError(f"{what} needs one budget for all steps, got --budget {','.join(map(str, self.budget))}")
        return int(self.budget[0])

    def instances(self, seed: int, runs: int = 1, policies: int = 1, *, same: bool = False) -> tuple[Arms, ...]:
        """Make the arms of each run, if the machine can play that much on them."""
        from meritfair import datasets
        from meritfair.core.checks import check_whole
        from meritfair.core.machine import check_size
        from meritfair.model.rules import check_budgets

        length: Any = {"runs": runs, "episodes": self.episodes, "horizon": self.horizon, "policies": policies}
        if self.arms_file is not None:
            if self.dataset is not None or self.arms is not None or self.authors:
                raise InputError("--arms-file cannot go together with --dataset, --arms or --authors")
            made: tuple[Arms, ...] = (datasets.read_arms(self.arms_file),)
            check_size(made[0].n_arms, **length)
        elif self.dataset is None:
            raise InputError("say which arms: --dataset synthetic, or --arms-file arms.csv")
        else:
            name, settings = split_settings(self.dataset)
            N = check_whole("arms", 5 if self.arms is None else self.arms, 1)
            check_budgets(self.budgets, N)
            check_size(N, **length)
            chosen: Any = {"seed": None, "budget": self.one_budget("--authors")} if self.authors else {"seed": seed}
            made = datasets.instances(name, N, 1 if same else runs, authors=self.authors, **chosen, **settings)
        if self.clip is not None:
            made = tuple(each.clip(self.clip) for each in made)
        return made * (runs // len(made))


@dataclass(frozen=True)
class SimulationOptions(ProblemOptions):
    """The options that say what is played: a problem, policies, and how often."""

    same_arms: Annotated[
        bool, flag("--same-arms", "Play all runs on one instance; by default each run draws its own.", _ARMS)
    ] = False
    policy: Annotated[
        list[str] | None,
        text(
            "--policy",
            "-p",
            help="Policy, with settings: [cyan]merit-fair:estimate=mean[/] or "
            "[cyan]merit-fair:merit=affine:slope=1:intercept=1.5[/]; or yours in a file, "
            "[cyan]mine.py:gain_first:need=0.5[/]; repeat for several. See [cyan]meritfair policies[/].",
        ),
    ] = None
    floor: FloorOption = 0.0
    cap: CapOption = 1.0
    ball: Annotated[
        str,
        text(
            "--ball",
            help="Confidence ball: [cyan]paper[/], or the tighter [cyan]bernstein[/] or [cyan]kl[/].",
            panel=_PROBLEM,
        ),
    ] = "paper"
    carry_states: Annotated[
        bool,
        flag("--carry-states", "Keep states between episodes; by default each episode starts at random.", _PROBLEM),
    ] = False
    cooldown: Annotated[
        int,
        whole(
            "--cooldown",
            help="Steps after a pull in which the arm is not pulled again; it loses nothing, as its account runs on. "
            "Draws by merit need [cyan]--design exact[/] or [cyan]systematic[/].",
            panel=_PROBLEM,
        ),
    ] = 0
    warmup: Annotated[
        int, whole("--warmup", help="Steps at the start of a run in which nobody is pulled.", panel=_PROBLEM)
    ] = 0
    once: Annotated[bool, flag("--once", "Pull each arm at most once in a run.", _PROBLEM)] = False
    observed: Annotated[
        Any,  # a number or a text
        _numeric(_chance_or_pulled, "CHANCE", "a number, or pulled")(
            "--observed",
            help="The chance that a state is seen, such as [cyan]0.7[/]; or [cyan]pulled[/]: only the states of those "
            "who are pulled.",
            panel=_PROBLEM,
        ),
    ] = 1.0
    runs: Annotated[int, whole("--runs", "-r", help="Independent runs.")] = 1
    workers: WorkersOption = None

    def judged_by(self) -> tuple[Criterion, Confidence]:
        """Return the fairness criterion, and the confidence ball behind eta and omega."""
        from meritfair.model.criterion import Confidence

        criterion = make_criterion(self.merit, self.design, self.floor, self.cap)
        return criterion, Confidence(self.ball, self.delta)

    def policies(self, texts: Sequence[str]) -> dict[str, Policy]:
        """Make policies from the texts of --policy, which take over what the criterion and the confidence change."""
        from meritfair.policies.registry import create_under

        if len(set(texts)) < len(texts):
            raise InputError(f"duplicate policy: {', '.join(texts)}")
        criterion, confidence = self.judged_by()
        return {text: create_under(text, criterion, confidence) for text in texts}

    def settings(self, seed: int) -> dict[str, Any]:
        """Return what `simulate` and `compare` are told beside the arms and the policies."""
        from meritfair.model.rules import Rules

        criterion, confidence = self.judged_by()
        return {
            "budget": self.budgets,
            "episodes": self.episodes,
            "horizon": self.horizon,
            "seed": seed,
            "carry_states": self.carry_states,
            "workers": self.workers,
            "criterion": criterion,
            "confidence": confidence,
            "rules": Rules(self.cooldown, self.warmup, self.once),
            "observed": self.observed,
        }


@dataclass(frozen=True)
class WorkOptions:
    """The options that say who plays the tasks of a sweep."""

    workers: WorkersOption = None
    cluster: Annotated[
        str | None,
        text(
            "--cluster",
            metavar="ADDRESS",
            help="Run on a dask cluster: [cyan]tcp://host:8786[/], or [cyan]local:4[/] for four workers here.",
        ),
    ] = None
    force: Annotated[bool, flag("--force", "Run everything again, even what is done.")] = False

    def executor(self) -> AbstractContextManager[Executor] | None:
        """Return a cluster, or None for processes on this machine."""
        if self.cluster is None:
            return None
        if self.workers is not None:
            raise InputError("--workers cannot go together with --cluster: the cluster sets the number of workers")
        from meritfair.lab.cluster import cluster

        return cluster(self.cluster, say=lambda text: say(text, err=True))


def with_options(**defaults: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a command of a function of which one parameter is a dataclass: its fields become options in its place.

    Defaults of the command replace those of the dataclass.
    """

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        hints = get_type_hints(function, include_extras=True)
        own = {name: each.default for name, each in inspect.signature(function).parameters.items()}
        (holder,) = (name for name in own if dataclasses.is_dataclass(hints[name]))
        shared = hints[holder]
        fields = {each.name: defaults.get(each.name, each.default) for each in dataclasses.fields(shared)}
        hints |= get_type_hints(shared, include_extras=True)

        @wraps(function)
        def command(**given: Any) -> None:
            options = shared(**{name: given.pop(name) for name in fields})
            function(**{holder: options}, **given)

        places = ((fields if name == holder else {name: default}) for name, default in own.items())
        command.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [
                inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hints[name])
                for place in places
                for name, default in place.items()
            ]
        )
        return command

    return decorate


def make_criterion(merit: str, design: str, floor: float = 0.0, cap: float = 1.0) -> Criterion:
    """Make the fairness criterion from the options that say it."""
    from meritfair.model.criterion import Criterion
    from meritfair.model.merit import merit_from_text

    return Criterion(merit_from_text(merit), design, floor, cap)
