"""Simulation: a policy meets arms, episode after episode (Algorithm 1 of the paper).

At the start of each episode the policy turns what it has seen into a plan. Arms start in random
states (or where the last episode left them), the plan is played for `horizon` steps, and every
transition of every arm is seen, pulled or not; counts are updated at the end.

Each run draws from streams of its own, so its numbers do not depend on how many runs there are.
"""

from __future__ import annotations

import dataclasses
import platform
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numba
import numpy as np

import meritfair
from meritfair.core.checks import check_budget, check_choice, check_flag, check_number, check_whole
from meritfair.core.errors import InputError
from meritfair.core.machine import available_cores, check_size
from meritfair.core.parsing import split_settings
from meritfair.core.progress import following
from meritfair.core.seeding import fresh_seed
from meritfair.model.allocation import check_bounds
from meritfair.model.arms import Arms
from meritfair.model.confidence import BALLS
from meritfair.model.exposure import check_design
from meritfair.model.merit import Exponential, Merit
from meritfair.policies import registry
from meritfair.policies.base import Bound, bound_setting, check_merit_function, plain_setting
from meritfair.policies.own import as_policy
from meritfair.simulation.run import Run
from meritfair.simulation.runner import play

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy.typing as npt

    from meritfair.core.arrays import FloatArray
    from meritfair.core.progress import Progress
    from meritfair.policies.base import Policy
    from meritfair.policies.plans import Plan

__all__ = ["YARDSTICK", "Problem", "arms_of_runs", "make_policy", "policy_under", "simulate"]

YARDSTICK: dict[str, Any] = {
    "merit": Exponential(),
    "design": "sequential",
    "floor": 0.0,
    "cap": 1.0,
    "ball": "paper",
    "delta": 0.01,
}  # where the policy has no such setting


@dataclass(frozen=True, eq=False)
class Problem:
    """What is simulated: the arms of each run, the budget, the length, and the yardstick of fairness."""

    transitions: FloatArray  # (runs, N, 2, 2)
    names: tuple[str, ...]
    budget: int
    episodes: int
    horizon: int
    carry_states: bool
    merit: Merit
    design: str
    floor: Bound
    cap: Bound
    ball: str
    delta: float
    exposure_regret: bool
    first_run: int = 0

    @property
    def runs(self) -> int:
        """How many independent runs there are."""
        return len(self.transitions)

    @property
    def n_arms(self) -> int:
        """How many arms there are."""
        return int(self.transitions.shape[1])

    def settings(self) -> dict[str, Any]:
        """Return everything but the arms' probabilities as plain values."""
        return {
            "names": list(self.names),
            "budget": self.budget,
            "episodes": self.episodes,
            "horizon": self.horizon,
            "carry_states": self.carry_states,
            "merit": self.merit.settings(),
            "design": self.design,
            "floor": plain_setting(self.floor),
            "cap": plain_setting(self.cap),
            "ball": self.ball,
            "delta": self.delta,
            "first_run": self.first_run,
        }


def simulate(
    arms: Arms | Sequence[Arms],
    policy: Policy | str | Callable[..., Plan],
    *,
    budget: int,
    episodes: int,
    horizon: int = 200,
    runs: int | None = None,
    seed: int | None = None,
    first_run: int = 0,
    carry_states: bool = False,
    merit: Merit | None = None,
    design: str | None = None,
    floor: npt.ArrayLike | None = None,
    cap: npt.ArrayLike | None = None,
    ball: str | None = None,
    delta: float | None = None,
    exposure_regret: bool = False,
    workers: int | None = None,
    progress: Progress = None,
) -> Run:
    """Play a policy on arms that it does not know, and measure how fair it was.

    Parameters
    ----------
    arms : Arms or sequence of Arms
        The true arms; or one set for each run, all of one size, as in the paper's experiments.
    policy : Policy, str or callable
        A policy; its name, with settings if need be, such as ``"merit-fair:estimate=mean"``; or a function that takes a
        `View` and returns a plan. A policy given by name is made with the merit, design, floor, cap, ball and delta
        below that depart from the usual ones, where it has such settings.
    budget : int
        Arms pulled at each step, the paper's K.
    episodes : int
        Episodes in a run, T; the policy changes only between episodes.
    horizon : int
        Steps in an episode, H.
    runs : int, optional
        Independent repetitions: 1 by default, or as many as there are sets of arms.
    seed : int, optional
        Fixes every random number; None takes a new one, which the result records.
    first_run : int
        The number of the first run: 20 makes the runs that would come after the first twenty.
    carry_states : bool
        Let states run on from one episode to the next, as in life; else each episode starts at random.
    merit, design, floor, cap : optional
        What makes an exposure fair: merit, and how K arms are drawn by it (as for `fair_exposure`). By default the
        policy's own, or Exponential(3) and the paper's ``sequential`` draw.
    ball, delta : optional
        For the confidence ball behind eta and omega. By default the policy's own, or ``paper`` and 0.01.
    exposure_regret : bool
        Measure `Run.exposure_regret` also where several arms are drawn one after another. That takes an integral for
        each episode; without it, it is NaN there.
    workers : int, optional
        Runs that are played at the same time; by default as many as there are cores. Results do not depend on it.
    progress : bool or callable
        True shows a bar. A function is called now and then with the number of episodes done and their total, over all
        runs.

    Returns
    -------
    Run

    Examples
    --------
    >>> import meritfair as mf
    >>> arms = mf.datasets.synthetic(n_arms=5, seed=1)
    >>> run = mf.simulate(arms, mf.MeritFair(), budget=1, episodes=20, horizon=50, runs=3, seed=0)
    >>> run
    Run(merit-fair: 3 runs of 20 episodes, 5 arms, budget 1)
    >>> run.fairness_regret.shape, int(run.pulls.sum())
    ((3, 20), 3000)
    """
    rules = {"design": design, "floor": floor, "cap": cap, "ball": ball, "delta": delta, "merit": merit}
    given = {name: value for name, value in rules.items() if value is not None}
    policy = make_policy(policy, given)
    sets, number = arms_of_runs(arms, runs)
    n_arms = sets[0].n_arms
    threads = available_cores() if workers is None else check_whole("workers", workers, 1)
    check_size(n_arms, runs=number, episodes=episodes, horizon=horizon, workers=threads)
    instances = sets * (number // len(sets))
    own = {**YARDSTICK, **{name: getattr(policy, name) for name in YARDSTICK if hasattr(policy, name)}}
    yardstick = own | given
    check_design(yardstick["design"], yardstick["floor"], yardstick["cap"])
    K = check_budget(budget, n_arms)
    check_bounds(yardstick["floor"], yardstick["cap"], n_arms, K)
    problem = Problem(
        transitions=np.stack([each.transitions for each in instances]),
        names=instances[0].names,
        budget=K,
        episodes=int(episodes),
        horizon=int(horizon),
        carry_states=check_flag("carry_states", carry_states),
        merit=check_merit_function(yardstick["merit"]),
        design=yardstick["design"],
        floor=bound_setting("floor", yardstick["floor"]),
        cap=bound_setting("cap", yardstick["cap"]),
        ball=check_choice("ball", yardstick["ball"], BALLS),
        delta=check_number("delta", yardstick["delta"], 0, 1, open_ends=True),
        exposure_regret=check_flag("exposure_regret", exposure_regret),
        first_run=check_whole("first_run", first_run, 0),
    )
    fair_merit = problem.merit(np.stack([each.benefit for each in instances]))
    root = fresh_seed(seed)
    settings = {
        "policy": {"name": policy.name, **policy.settings()},
        "problem": problem.settings(),
        "seed": root,
        "versions": {
            "meritfair": meritfair.__version__,
            "numba": numba.__version__,
            "numpy": np.__version__,
            "python": platform.python_version(),
        },
    }
    run = Run.before(settings, problem.transitions, fair_merit, problem.episodes)
    with following(progress, policy.name) as tell:
        play(problem, policy, run, root, threads, tell)
    return run


def arms_of_runs(arms: Arms | Sequence[Arms], runs: int | None) -> tuple[list[Arms], int]:
    """Return the arms of each run, or those that all runs have, and the number of runs."""
    if isinstance(arms, Arms):
        return [arms], 1 if runs is None else check_whole("runs", runs, 1)
    each = list(arms) if isinstance(arms, Iterable) else []
    if not each or not all(isinstance(one, Arms) for one in each):
        raise InputError(f"arms must be Arms or a sequence of Arms, got {arms!r}")
    if runs is not None and check_whole("runs", runs, 1) != len(each):
        raise InputError(f"runs must be the number of sets of arms, {len(each)}, got {runs}")
    sizes = sorted({one.n_arms for one in each})
    if len(sizes) > 1:
        raise InputError(f"all sets of arms must be of one size, got sizes {', '.join(map(str, sizes))}")
    if len({one.names for one in each}) > 1:
        raise InputError("all sets of arms must have the same names, as results are by arm")
    return each, len(each)


def policy_under(rules: Mapping[str, Any], text: str) -> Policy:
    """Make a policy from its text, where those rules of fairness hold that depart from the usual ones.

    A rule (merit, design, floor, …) matters where the policy has such a setting, and its own settings come first.
    An unchanged rule leaves a policy its own default, which may be another.

    Examples
    --------
    >>> policy_under({"delta": 0.05, "design": "exact", "ball": "paper"}, "optimal:estimate=mean")
    Optimal(delta=0.05, estimate='mean', ball='paper')
    """
    has = {f.name for f in dataclasses.fields(registry.policy_class(split_settings(text)[0]))}
    changed = {key: value for key, value in rules.items() if not np.array_equal(value, YARDSTICK[key])}
    return registry.create(text, **{key: value for key, value in changed.items() if key in has})


def make_policy(policy: Policy | str | Callable[..., Plan], rules: Mapping[str, Any]) -> Policy:
    """Return a policy as it is, one that plans by a function, or one made from its name under these rules."""
    return policy_under(rules, policy) if isinstance(policy, str) else as_policy(policy)
