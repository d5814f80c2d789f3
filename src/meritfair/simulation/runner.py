"""How a simulation is carried out: `play` decides, and the engine plays.

========================================  =========================================================================
the policy                                is played
========================================  =========================================================================
has a rule that the engine knows          all episodes of a run in one call, planning included
makes one plan for all episodes           its plan is made once; then all episodes of a run are one call
any other, or a merit function in Python  it plans each episode for all runs at once; each run's episode is one call
========================================  =========================================================================

Runs are independent, and go to a pool of threads: the engine releases Python's lock. Each draws from random number
generators of its own, so its numbers depend on the seed and its own number alone.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass
from itertools import repeat
from typing import ClassVar, NamedTuple, TypeAlias

import numpy as np
from numba.core.errors import NumbaError

from meritfair.core.arrays import AnyArray, FloatArray, IntArray
from meritfair.core.errors import InputError
from meritfair.core.seeding import sequence
from meritfair.engine.coverage import coverage_gaps
from meritfair.engine.episodes import (
    Measures,
    RunSettings,
    RunState,
    Shares,
    Stages,
    new_run_state,
    new_states,
    play_episode,
    play_run,
    play_steps_episode,
    play_steps_run,
    stages,
    tightener,
)
from meritfair.engine.rules import EXPONENTIAL, FIXED, GREEDY, OPTIMISTIC, POOLED, SEQUENTIAL, BallRule, MeritRule, Rule
from meritfair.engine.steps import (
    NO_GROUPS,
    NO_ORDER,
    Choosing,
    Groups,
    StepPlan,
    Steps,
    choosing,
    new_groups,
    new_steps,
)
from meritfair.model.benefit import benefit
from meritfair.model.confidence import Ball
from meritfair.model.counts import Counts
from meritfair.model.criterion import Criterion
from meritfair.model.exposure import merit_share
from meritfair.policies.base import Policy
from meritfair.policies.plans import Plan, StepFunctions, check_plan
from meritfair.policies.view import View
from meritfair.simulation import metrics
from meritfair.simulation.problem import Problem

_GLANCE = 0.1  # seconds between looks at how far the runs are
_NO_MERIT = MeritRule(EXPONENTIAL, 0.0, 0.0)


def play(
    problem: Problem, policy: Policy, fair_merit: FloatArray, workers: int, progress: Callable[[int, int], None]
) -> dict[str, AnyArray]:
    """Play all runs; return what was measured, an array for each field of `Run` that has runs first."""
    runs = _Runs(problem, policy, fair_merit)
    plan = _plan_of_all_episodes(runs)
    if plan is not None:
        _play_whole_runs(runs, plan, workers, progress)
    else:
        _play_by_episode(runs, workers, progress)
    return runs.measured


# ---- what the engine is given


class _Runs:
    """The runs of a problem: what the engine is given for each, and where it writes."""

    def __init__(self, problem: Problem, policy: Policy, fair_merit: FloatArray) -> None:
        self.problem, self.policy, self.rule = problem, policy, policy.rule()
        criterion, K = problem.criterion, problem.budget
        known = problem.exposure_regret or not criterion.integrates(fair_merit, K)
        self.fair_share = merit_share(fair_merit)
        self.fair_exposure = criterion.exposure(fair_merit, K) if known else np.full(fair_merit.shape, np.nan)
        self.ball = _with_stage(problem.confidence.rule())
        by_run, by_arm = (problem.runs, problem.episodes), problem.transitions.shape
        self.measures = _new_measures(by_run)
        self.visits, self.good = np.zeros(by_arm, np.int64), np.zeros(by_arm, np.int64)
        self.longest_wait = np.zeros(by_arm[:2], np.int64)
        self.coverage_gaps = np.zeros((2, problem.runs), np.int64)
        self.control = np.zeros((problem.runs, 2), np.int64)  # episodes done, and whether to stop

    def settings(self, run: int) -> RunSettings:
        p = self.problem
        merit = p.criterion.merit.rule() or _NO_MERIT
        fair = self.fair_share[run], self.fair_exposure[run]
        return RunSettings(*fair, p.budget, p.horizon, p.carry_states, self.ball, merit)

    def new_state(self, run: int) -> RunState:
        p = self.problem
        seeds = (sequence(p.seed, name, p.first_run + run) for name in ("environment", "policy"))
        state = new_run_state(
            p.transitions[run],
            p.budget,
            p.episodes,
            p.horizon,
            *seeds,
            integrates=p.integrates,
            pools=self.rule is not None and self.rule.estimate == POOLED,
        )
        new_states(state.chains.state, state.environment_rng)
        return state

    def measures_of(self, run: int) -> Measures:
        return Measures(*(each[run] for each in self.measures))

    def rngs(self) -> tuple[np.random.Generator, ...]:
        """Return what plans made in Python draw from, one generator for each run."""
        first, seed = self.problem.first_run, self.problem.seed
        numbers = range(first, first + self.problem.runs)
        return tuple(np.random.default_rng(sequence(seed, "policy", run).spawn(2)[1]) for run in numbers)

    def keep(self, run: int, state: RunState) -> None:
        """Take over what a run has counted."""
        self.visits[run], self.good[run] = (x.transpose(2, 0, 1) for x in (state.tally.visits, state.tally.good))
        self.longest_wait[run] = state.tally.longest_wait
        self.coverage_gaps[:, run] = coverage_gaps(state.coverage)

    def tell(self, progress: Callable[[int, int], None]) -> None:
        progress(int(self.control[:, 0].sum()), self.problem.runs * self.problem.episodes)

    @property
    def measured(self) -> dict[str, AnyArray]:
        gap, gap_authors = self.coverage_gaps
        return {
            **self.measures._asdict(),
            "visits": self.visits,
            "good": self.good,
            "longest_wait": self.longest_wait,
            "coverage_gap": gap,
            "coverage_gap_authors": gap_authors,
        }


def _new_measures(shape: tuple[int, ...]) -> Measures:
    """Return room for what is kept of each episode."""
    regret, regret_authors, exposure_regret, eta, omega = np.zeros((5, *shape))
    return Measures(regret, regret_authors, exposure_regret, eta, omega, np.zeros(shape, np.int64))


def _with_stage(ball: BallRule) -> BallRule:
    """Return how a ball is measured, with the stage that it needs."""
    return ball._replace(tightener=tightener(ball.kind))


def _rows(values: FloatArray, shape: tuple[int, ...]) -> FloatArray:
    """Return a row for each run: the engine is compiled for arrays that can be written to."""
    return np.array(np.broadcast_to(values, shape), order="C")


# ---- how plans are played


@dataclass(frozen=True)
class _Learned:
    """A policy that the engine plans for itself, from the counts before each episode."""

    rule: Rule
    stages: Stages
    floor: FloatArray
    cap: FloatArray

    def play_run(
        self, _run: int, settings: RunSettings, state: RunState, measures: Measures, control: IntArray
    ) -> None:
        now = state.estimates
        by_merit = self.rule.kind == GREEDY or self.rule.design == SEQUENTIAL
        shares = Shares(now.merit if by_merit else now.exposure, now.share, now.exposure)
        play_run(settings, self.rule, self.stages, shares, self.floor, self.cap, state, measures, control)


@dataclass(frozen=True)
class _OpenLoop:
    """A lottery or a rotation: pulls do not depend on states."""

    rule: Rule
    stages: Stages
    shares: Shares  # (runs, N) each
    learned: ClassVar[None] = None

    def play_run(self, run: int, settings: RunSettings, state: RunState, measures: Measures, control: IntArray) -> None:
        shares, none = Shares(*(each[run] for each in self.shares)), np.zeros(0)
        play_run(settings, self.rule, self.stages, shares, none, none, state, measures, control)

    def play_episode(self, t: int, run: int, settings: RunSettings, at: _Episode) -> None:
        play_episode(settings, self.stages, self.shares.weights[run], at.state, at.measures, at.pulled, t)


@dataclass(frozen=True)
class _StepByStep:
    """A priority table or a step learner: it chooses at each step."""

    choosing: Choosing
    memory: FloatArray  # (runs, N, m)
    groups: list[Groups]
    orders: IntArray  # (runs, 4, 2N)
    learned: FloatArray | None = None  # the memory, if it is for the next episode too

    def play_run(self, run: int, settings: RunSettings, state: RunState, measures: Measures, control: IntArray) -> None:
        steps = new_steps(len(state.chains.state), state.at_once)
        plan = StepPlan(self.choosing, self.memory[run], self.groups[run], self.orders[run])
        play_steps_run(settings, plan, state, steps, measures, control)
        _check_reward(int(measures.reward.min(initial=0)))

    def play_episode(self, t: int, run: int, settings: RunSettings, at: _Episode) -> None:
        plan = StepPlan(self.choosing, self.memory[run], self.groups[run], self.orders[run])
        play_steps_episode(settings, plan, at.state, at.steps, at.measures, at.pulled, t)
        _check_reward(int(at.measures.reward[t]))


_Playable: TypeAlias = _Learned | _OpenLoop | _StepByStep


def _check_reward(reward: int) -> None:
    """Refuse a reward that says that an index was no number."""
    if reward < 0:
        raise InputError(f"rank must set a number for each arm, got nan at step {-1 - reward}")


def _plan_of_all_episodes(runs: _Runs) -> _Playable | None:
    """Return how the engine plays whole runs of the policy, or None if it has to be asked before each episode."""
    problem, policy, rule = runs.problem, runs.policy, runs.rule
    N, K = problem.n_arms, problem.budget
    if problem.criterion.merit.rule() is None:
        return None
    if rule is not None:
        floor, cap = (policy.criterion or Criterion()).bounds(N, K)
        how = stages(N, K, rule.design, estimate=rule.estimate, integrates=problem.integrates)
        return _Learned(rule._replace(ball=_with_stage(rule.ball)), how, np.array(floor), np.array(cap))
    if not policy.plans_once:
        return None
    nothing = Counts(*np.zeros((2, *problem.transitions.shape), np.int64))
    view = View(nothing, 1, K, problem.transitions, runs.rngs())
    return _playable(check_plan(policy.plan(view), N, K, (problem.runs,)), problem)


def _playable(plan: Plan, problem: Problem, memory: FloatArray | None = None) -> _OpenLoop | _StepByStep:
    """Return how the engine plays a plan, after an episode that ended with this memory."""
    runs, N, K = problem.runs, problem.n_arms, problem.budget
    weights = plan.weights(K)
    if weights is not None:
        fixed = Rule(FIXED, OPTIMISTIC, plan.drawn_by, problem.confidence.rule(), _NO_MERIT)
        rows = (_rows(np.asarray(x), (runs, N)) for x in (weights, plan.share(K), _exposure(plan, problem)))
        return _OpenLoop(fixed, stages(N, K, plan.drawn_by), Shares(*rows))
    steps = plan.step_functions(memory)
    known, groups = _rows(steps.memory, (runs, *steps.memory.shape[-2:])), [NO_GROUPS] * runs
    if steps.groups is not None and steps.quotas is not None:
        quotas = np.broadcast_to(steps.quotas, (runs, steps.quotas.shape[-1]))
        groups = [new_groups(steps.groups, each) for each in quotas]
    order = NO_ORDER if steps.order is None else steps.order
    orders = np.array(np.broadcast_to(order, (runs, *order.shape[-2:])), order="C")
    return _StepByStep(_compiled(steps), known, groups, orders, known if steps.remembers else None)


def _exposure(plan: Plan, problem: Problem) -> FloatArray | None:
    """Return the exposures of a plan, NaN where they take an integral and none is asked for; None if it has none."""
    if plan.integrates(problem.budget) and not problem.exposure_regret:
        return np.array(np.nan)
    return plan.exposure(problem.budget)


def _compiled(steps: StepFunctions) -> Choosing:
    """Return the functions of a plan, compiled."""
    try:
        return choosing(steps.rank, steps.learn, steps.explore, steps.choose, steps.play)
    except (NumbaError, TypeError) as error:
        said = " ".join(str(error).split())
        raise InputError(f"the functions of a StepLearner must be such that Numba can compile them: {said}") from error


# ---- playing


def _play_whole_runs(runs: _Runs, plan: _Playable, workers: int, progress: Callable[[int, int], None]) -> None:
    """Play each run in one call of the engine, on a pool of threads; an interrupt stops them within an episode."""
    control = runs.control
    _compile(runs, plan)
    to_play = iter(range(runs.problem.runs))  # shared: each worker takes the next

    def work() -> None:
        for run in to_play:
            if control[run, 1]:
                return
            state = runs.new_state(run)
            plan.play_run(run, runs.settings(run), state, runs.measures_of(run), control[run])
            runs.keep(run, state)

    threads = min(workers, runs.problem.runs)
    pool = ThreadPoolExecutor(threads, thread_name_prefix="meritfair")
    try:
        waiting = {pool.submit(work) for _ in range(threads)}
        while waiting:
            done, waiting = wait(waiting, _GLANCE, FIRST_EXCEPTION)
            for each in done:
                each.result()  # raises what the run has raised
            runs.tell(progress)
    finally:
        control[:, 1] = 1
        pool.shutdown(wait=True, cancel_futures=True)


def _compile(runs: _Runs, plan: _Playable) -> None:
    """Play no episode on one arm: so that an interrupt stops the compiler, which it cannot in a pool of threads."""
    problem, seed = runs.problem, sequence(runs.problem.seed, "policy")
    state = new_run_state(problem.transitions[0, :1].copy(), 1, 0, problem.horizon, seed, seed)
    new_states(state.chains.state, state.environment_rng)
    plan.play_run(0, runs.settings(0), state, _new_measures((0,)), np.zeros(2, np.int64))


class _Episode(NamedTuple):
    """Where a run is before an episode that was planned in Python."""

    state: RunState
    steps: Steps
    measures: Measures
    pulled: FloatArray  # (N,), how often each arm was pulled in the last episode


def _new_episode(runs: _Runs, run: int, pulled: FloatArray) -> _Episode:
    """Return where a run is before its first episode."""
    state = runs.new_state(run)
    return _Episode(state, new_steps(runs.problem.n_arms, state.at_once), runs.measures_of(run), pulled)


def _play_by_episode(runs: _Runs, workers: int, progress: Callable[[int, int], None]) -> None:
    """Ask the policy for a plan before each episode, for all runs at once, and play it."""
    problem, rngs = runs.problem, runs.rngs()
    numbers, settings = range(problem.runs), [runs.settings(run) for run in range(problem.runs)]
    pulled = np.zeros((problem.runs, problem.n_arms))
    at = [_new_episode(runs, run, pulled[run]) for run in numbers]
    memory = None
    with ThreadPoolExecutor(min(workers, problem.runs), thread_name_prefix="meritfair") as pool:
        for t in range(problem.episodes):
            counts = _counts([each.state for each in at])
            states = np.stack([each.state.chains.state for each in at]).astype(np.int64)
            step = t * problem.horizon
            view = View(counts, t + 1, problem.budget, problem.transitions, rngs, states, memory, step)
            plan = check_plan(runs.policy.plan(view), problem.n_arms, problem.budget, (problem.runs,))
            playable = _playable(plan, problem, memory)
            list(pool.map(playable.play_episode, repeat(t), numbers, settings, at))
            memory = playable.learned
            _measure_plan(runs, t, plan, pulled, counts)
            runs.control[:, 0] = t + 1
            runs.tell(progress)
    for run, each in enumerate(at):
        runs.keep(run, each.state)


def _counts(states: list[RunState]) -> Counts:
    """Return what was counted in each run."""
    visits, good = (
        np.stack([getattr(state.tally, name).transpose(2, 0, 1) for state in states]).astype(np.int64)
        for name in ("visits", "good")
    )
    return Counts(visits, good)


def _measure_plan(runs: _Runs, t: int, plan: Plan, pulled: FloatArray, counts: Counts) -> None:
    """Note the regrets of an episode planned in Python: of the plan, or of the pulls if they depend on states."""
    problem, measures, K = runs.problem, runs.measures, runs.problem.budget
    share, exposure, made = plan.share(K), _exposure(plan, problem), pulled / problem.horizon
    share, exposure = made / K if share is None else share, made if exposure is None else exposure
    measures.fairness_regret[:, t] = metrics.fairness_regret(share, runs.fair_share)
    measures.exposure_regret[:, t] = metrics.fairness_regret(exposure, runs.fair_exposure)
    if problem.criterion.merit.rule() is None:
        ball = Ball(counts, t + 1, problem.confidence.delta, problem.confidence.ball)
        optimistic = merit_share(problem.criterion.merit(benefit(ball.upper)))
        measures.fairness_regret_authors[:, t] = metrics.fairness_regret(optimistic, runs.fair_share)
