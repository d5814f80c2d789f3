"""Simulation: a policy meets arms, episode after episode (Algorithm 1 of the paper).

At the start of each episode the policy turns what it has seen into a plan. Arms start in random
states (or where the last episode left them), the plan is played for `horizon` steps, and every
transition of every arm is seen, pulled or not; counts are updated at the end.

Each run draws from streams of its own, so its numbers do not depend on how many runs there are.
"""

from __future__ import annotations

import platform
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

import meritfair
from meritfair import metrics
from meritfair.checks import check_budget, check_number, check_whole
from meritfair.engine.chains import count_transitions, longest_waits, next_states, walk
from meritfair.engine.pulls import to_the_end
from meritfair.errors import InputError
from meritfair.model.arms import Arms
from meritfair.model.benefit import benefit
from meritfair.model.confidence import Ball
from meritfair.model.counts import Counts
from meritfair.model.exposure import merit_share
from meritfair.model.merit import Exponential, Merit
from meritfair.policies.base import Policy, View, check_merit_function
from meritfair.policies.plans import Lottery, Plan, StepPlan
from meritfair.run import Run
from meritfair.seeding import fresh_seed, stream

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from meritfair.arrays import BoolArray, FloatArray, IntArray

__all__ = ["Problem", "simulate"]

_DEFAULT_DELTA = 0.01


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
    delta: float

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
            "delta": self.delta,
        }


def simulate(
    arms: Arms | Sequence[Arms],
    policy: Policy,
    *,
    budget: int,
    episodes: int,
    horizon: int = 200,
    runs: int | None = None,
    seed: int | None = None,
    carry_states: bool = False,
    merit: Merit | None = None,
    delta: float | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Run:
    """Play a policy on arms that it does not know, and measure how fair it was.

    Parameters
    ----------
    arms : Arms or sequence of Arms
        The true arms; or one set for each run, all of one size, as in the paper's experiments.
    policy : Policy
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
    carry_states : bool
        Let states run on from one episode to the next, as in life; else each episode starts at random.
    merit : Merit, optional
        What makes an exposure fair. By default the policy's own merit, or Exponential(3).
    delta : float, optional
        For the confidence ball behind eta and omega. By default the policy's own, or 0.01.
    progress : callable, optional
        Called after each episode with the number of episodes done and their total.

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
    if not isinstance(policy, Policy):
        raise InputError(f"policy must be a Policy, such as MeritFair() or policies.create('random'), got {policy!r}")
    instances = _instances(arms, runs)
    problem = Problem(
        transitions=np.stack([each.transitions for each in instances]),
        names=instances[0].names,
        budget=check_budget(budget, instances[0].n_arms),
        episodes=check_whole("episodes", episodes, 1),
        horizon=check_whole("horizon", horizon, 1),
        carry_states=bool(carry_states),
        merit=check_merit_function(getattr(policy, "merit", Exponential()) if merit is None else merit),
        delta=check_number(
            "delta", getattr(policy, "delta", _DEFAULT_DELTA) if delta is None else delta, 0, 1, open_ends=True
        ),
    )
    fair_merit = problem.merit(np.stack([each.benefit for each in instances]))
    root = fresh_seed(seed)
    measured = _play(problem, policy, merit_share(fair_merit), root, progress)
    settings = {
        "policy": {"name": policy.name, **policy.settings()},
        "problem": problem.settings(),
        "seed": root,
        "versions": {"meritfair": meritfair.__version__, "numpy": np.__version__, "python": platform.python_version()},
    }
    return Run(settings=settings, transitions=problem.transitions, fair_merit=fair_merit, **measured)


def _instances(arms: Arms | Sequence[Arms], runs: int | None) -> list[Arms]:
    """Return the arms of each run."""
    if isinstance(arms, Arms):
        return [arms] * (1 if runs is None else check_whole("runs", runs, 1))
    each = list(arms)
    if not each or not all(isinstance(one, Arms) for one in each):
        raise InputError(f"arms must be Arms or a sequence of Arms, got {arms!r}")
    if runs is not None and check_whole("runs", runs, 1) != len(each):
        raise InputError(f"runs must be the number of sets of arms, {len(each)}, got {runs}")
    sizes = sorted({one.n_arms for one in each})
    if len(sizes) > 1:
        raise InputError(f"all sets of arms must be of one size, got sizes {', '.join(map(str, sizes))}")
    if len({one.names for one in each}) > 1:
        raise InputError("all sets of arms must have the same names, as results are by arm")
    return each


def _play(
    problem: Problem, policy: Policy, fair_share: FloatArray, seed: int, progress: Callable[[int, int], None] | None
) -> dict[str, Any]:
    """Run Algorithm 1 for all runs side by side; return the arrays of a Run."""
    runs, n_arms, episodes = problem.runs, problem.n_arms, problem.episodes
    regret, regret_authors, eta, omega = (np.empty((runs, episodes)) for _ in range(4))
    reward = np.empty((runs, episodes), dtype=np.int64)
    covered = np.empty((runs, episodes, n_arms), dtype=np.bool_)
    visits, good = (np.zeros((runs, n_arms, 2, 2), dtype=np.int64) for _ in range(2))
    longest, waited = (np.zeros((runs, n_arms), dtype=np.int64) for _ in range(2))
    environment = [stream(seed, "environment", r) for r in range(runs)]
    luck = [stream(seed, "policy", r) for r in range(runs)]
    line = np.stack([rng.permutation(n_arms) for rng in luck])
    states = _random_states(environment, n_arms)
    for t in range(episodes):
        counts = Counts(visits, good)
        ball = Ball(counts, t + 1, problem.delta)
        plan = _check_plan(policy.plan(View(counts, t + 1, problem.budget, problem.transitions)), problem)
        if t > 0 and not problem.carry_states:
            states = _random_states(environment, n_arms)
        pulls, path, line = _episode(plan, problem, states, line, environment, luck)
        seen, turned_good = count_transitions(path, pulls)
        states = path[:, -1]

        share = plan.share(problem.budget)
        if share is None:
            share = pulls.sum(axis=1) / (problem.budget * problem.horizon)
        regret[:, t] = metrics.fairness_regret(share, fair_share)
        softmax = merit_share(problem.merit(benefit(ball.upper)))
        regret_authors[:, t] = metrics.fairness_regret(softmax, fair_share)
        eta[:, t], omega[:, t] = ball.eta.max(axis=(-2, -1)), ball.omega.max(axis=(-2, -1))
        reward[:, t] = path[:, 1:].sum(axis=(1, 2))
        covered[:, t] = (seen > 0).all(axis=(-2, -1))
        visits, good = visits + seen, good + turned_good
        wait, waited = longest_waits(pulls, waited)
        longest = np.maximum(longest, wait)
        if progress is not None:
            progress(t + 1, episodes)
    return {
        "fairness_regret": regret,
        "fairness_regret_authors": regret_authors,
        "reward": reward,
        "eta": eta,
        "omega": omega,
        "visits": visits,
        "good": good,
        "longest_wait": longest,
        "coverage_gap": metrics.coverage_gap(covered),
        "coverage_gap_authors": metrics.coverage_gap_authors(covered),
    }


def _check_plan(plan: Plan, problem: Problem) -> Lottery | StepPlan:
    """Return what a policy has planned, if it can be played."""
    if not isinstance(plan, (Lottery, StepPlan)):
        raise InputError(f"a policy must plan a Lottery or a StepPlan, got {plan!r}")
    if plan.n_arms != problem.n_arms:
        raise InputError(f"the policy planned for {plan.n_arms} arms, but there are {problem.n_arms}")
    return plan


def _random_states(environment: list[np.random.Generator], n_arms: int) -> BoolArray:
    """Return every arm bad or good with probability 1/2, shape (runs, N)."""
    return np.stack([rng.random(n_arms) < 0.5 for rng in environment])


def _episode(
    plan: Lottery | StepPlan,
    problem: Problem,
    states: BoolArray,
    line: IntArray,
    environment: list[np.random.Generator],
    luck: list[np.random.Generator],
) -> tuple[BoolArray, BoolArray, IntArray]:
    """Play one episode; return its pulls (runs, horizon, N), its states (runs, horizon + 1, N), and the line."""
    shape = (problem.horizon, problem.n_arms)
    uniform = np.stack([rng.random(shape) for rng in environment])
    if isinstance(plan, Lottery):
        exponential = np.stack([rng.standard_exponential(shape) for rng in luck])
        pulls = np.broadcast_to(plan.pulls(exponential, problem.budget), uniform.shape)
        return pulls, walk(problem.transitions, states, pulls, uniform), line
    noise = np.stack([rng.random(shape) for rng in luck])
    pulls = np.empty(uniform.shape, dtype=np.bool_)
    path = np.empty((problem.runs, problem.horizon + 1, problem.n_arms), dtype=np.bool_)
    path[:, 0] = states
    for h in range(problem.horizon):
        pulls[:, h] = plan.choose(path[:, h], line, noise[:, h], problem.budget)
        path[:, h + 1] = next_states(problem.transitions, path[:, h], pulls[:, h], uniform[:, h])
        line = to_the_end(line, pulls[:, h])
    return pulls, path, line
