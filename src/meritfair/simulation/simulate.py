"""Simulation: a policy meets arms, episode after episode (Algorithm 1 of the paper).

At the start of each episode the policy turns what it has seen into a plan. Arms start in random
states (or where the last episode left them), the plan is played for `horizon` steps, and every
transition of every arm is seen, pulled or not (unless `observed` says otherwise); counts are updated at the end.

Each run draws from streams of its own, so its numbers do not depend on how many runs there are.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numba
import numpy as np
import numpy.typing as npt

import meritfair
from meritfair.core.arrays import IntArray
from meritfair.core.checks import check_flag, check_kind, check_whole, float_array
from meritfair.core.errors import InputError
from meritfair.core.machine import available_cores, check_size
from meritfair.core.progress import Progress, following
from meritfair.core.seeding import fresh_seed
from meritfair.model.arms import Arms
from meritfair.model.counts import Counts
from meritfair.model.criterion import Confidence, Criterion, loose_settings_allowed
from meritfair.model.observation import Observation, check_observed
from meritfair.model.rules import Rules, check_budgets, check_rules
from meritfair.policies import registry
from meritfair.policies.base import Policy
from meritfair.policies.own import as_policy
from meritfair.policies.plans import Plan
from meritfair.simulation.problem import Problem
from meritfair.simulation.run import Run
from meritfair.simulation.runner import play


def _of_policy(_arms: Any, policy: Any, **_: Any) -> tuple[Criterion, Confidence]:
    """Return what the policy says is fair and sure, for loose settings to depart from."""
    if not isinstance(policy, Policy):
        return Criterion(), Confidence()
    return policy.criterion or Criterion(), policy.confidence or Confidence()


@loose_settings_allowed(_of_policy)
def simulate(
    arms: Arms | Sequence[Arms],
    policy: Policy | str | Callable[..., Plan],
    *,
    budget: int | Sequence[int],
    episodes: int,
    horizon: int = 200,
    runs: int | None = None,
    seed: int | None = None,
    first_run: int = 0,
    carry_states: bool = False,
    states: npt.ArrayLike | None = None,
    history: Counts | None = None,
    criterion: Criterion | None = None,
    confidence: Confidence | None = None,
    rules: Rules | None = None,
    observed: Observation | None = None,
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
        `View` and returns a plan. A policy given by name takes over what the criterion and the confidence below change,
        where it has such settings.
    budget : int or sequence of int
        Arms pulled at each step, the paper's K. Several numbers are for as many steps, and repeat: ``[4, 4, 4, 4, 0]``.
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
        Carry states over from one episode to the next, as in practice; else each episode starts at random.
    states : array_like of int, shape (N,) or (runs, N), optional
        The state in which each arm starts the first episode; by default at random. Several episodes need
        `carry_states`.
    history : Counts, optional
        What was seen of the arms before, shape (N, 2, 2): policies plan from it, and learn on. What arms have in
        common, for the estimate ``pooled``, is fitted to it once. The result counts only what is played.
    criterion : Criterion, optional
        What counts as fair. By default the policy's own if it draws by merit, else ``Criterion()``: the paper's.
    confidence : Confidence, optional
        The confidence ball behind eta and omega. By default the policy's own if it has one, else ``Confidence()``.
    rules : Rules, optional
        Who may be pulled: cool-down, warm-up, once. At the first step of a run everyone is a newcomer.
    observed : float or "pulled", optional
        The chance with which each state is seen at each step, above 0, before arms are chosen; or ``"pulled"``: the
        state of an arm is seen only when it is pulled. By default all are. What is not seen is neither looked at nor
        counted: policies that look at states work on the probability that each arm is good
        (:mod:`meritfair.policies.beliefs`). Measures such as the reward are of what happened, seen or not.
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
    policy = make_policy(policy, criterion, confidence)
    sets, number = arms_of_runs(arms, runs)
    n_arms = sets[0].n_arms
    threads = available_cores() if workers is None else check_whole("workers", workers, 1)
    check_size(n_arms, runs=number, episodes=episodes, horizon=horizon, workers=threads)
    instances = sets * (number // len(sets))
    fair = check_kind("criterion", criterion or policy.criterion or Criterion(), Criterion)
    sure = check_kind("confidence", confidence or policy.confidence or Confidence(), Confidence)
    budgets, restrictions = check_budgets(budget, n_arms), check_rules(rules)
    restrictions.check(n_arms, budgets, policy.criterion)
    fair.bounds(n_arms, max(np.atleast_1d(budgets)))
    problem = Problem(
        transitions=np.stack([each.transitions for each in instances]),
        names=instances[0].names,
        budgets=budgets,
        rules=restrictions,
        episodes=int(episodes),
        horizon=int(horizon),
        carry_states=check_flag("carry_states", carry_states),
        criterion=fair,
        confidence=sure,
        exposure_regret=check_flag("exposure_regret", exposure_regret),
        seed=fresh_seed(seed),
        first_run=check_whole("first_run", first_run, 0),
        observed=check_observed(observed),
        states=_first_states(states, (number, n_arms), carried=carry_states or int(episodes) == 1),
        history=_known_before(history, n_arms),
    )
    fair_merit = fair.merit(np.stack([each.benefit for each in instances]))
    settings = {
        "policy": {"name": policy.name, **policy.settings()},
        "problem": problem.settings(),
        "seed": problem.seed,
        "versions": {
            "meritfair": meritfair.__version__,
            "numba": numba.__version__,
            "numpy": np.__version__,
            "python": platform.python_version(),
        },
    }
    with following(progress, policy.name) as tell:
        measured = play(problem, policy, fair_merit, threads, tell)
    return Run(settings=settings, transitions=problem.transitions, fair_merit=fair_merit, **measured)


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


def _first_states(states: npt.ArrayLike | None, shape: tuple[int, int], *, carried: bool) -> IntArray | None:
    """Return the state in which each arm of each run starts; None if these are random."""
    if states is None:
        return None
    given = float_array("states", states)
    if given.shape not in (shape, shape[1:]) or not np.isin(given, (0, 1)).all():
        raise InputError(f"states must be 0 or 1 for each arm, shape {shape[1:]} or {shape}, got shape {given.shape}")
    if not carried:
        raise InputError("states are for the first episode: several need carry_states=True, others start at random")
    return np.broadcast_to(given.astype(np.int64), shape)


def _known_before(history: Counts | None, n_arms: int) -> Counts | None:
    """Return what was seen of the arms before, checked."""
    if history is None:
        return None
    seen = check_kind("history", history, Counts)
    if seen.visits.shape != (n_arms, 2, 2):
        raise InputError(
            f"history must have counts of the {n_arms} arms, shape ({n_arms}, 2, 2), got {seen.visits.shape}"
        )
    return seen


def make_policy(
    policy: Policy | str | Callable[..., Plan], criterion: Criterion | None, confidence: Confidence | None
) -> Policy:
    """Return a policy as it is, one that plans by a function, or one made from its name for this criterion."""
    if isinstance(policy, str):
        return registry.create_under(policy, criterion or Criterion(), confidence or Confidence())
    return as_policy(policy)
