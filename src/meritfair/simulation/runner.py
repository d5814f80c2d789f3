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
from typing import ClassVar, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numba.core.errors import NumbaError

from meritfair.core.arrays import AnyArray, FloatArray, IntArray
from meritfair.core.errors import InputError
from meritfair.core.seeding import sequence
from meritfair.engine.accounts import NO_TIMING, Timing
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
    play_steps,
    play_timed_run,
    stages,
    tightener,
)
from meritfair.engine.rounds import new_rounds
from meritfair.engine.rules import (
    EXACT,
    EXPONENTIAL,
    FIXED,
    GREEDY,
    OPTIMISTIC,
    PESSIMISTIC,
    POOLED,
    SEQUENTIAL,
    BallRule,
    MeritRule,
    Rule,
)
from meritfair.engine.steps import (
    NO_GROUPS,
    NO_ORDER,
    Choosing,
    StepPlan,
    Steps,
    choosing,
    new_groups,
    new_steps,
)
from meritfair.engine.timed import play_timed
from meritfair.model.accounts import account_pull
from meritfair.model.benefit import benefit
from meritfair.model.confidence import Ball
from meritfair.model.counts import Counts
from meritfair.model.criterion import Criterion
from meritfair.model.exposure import merit_share
from meritfair.policies.base import Policy
from meritfair.policies.plans import Lottery, Plan, StepFunctions, check_plan
from meritfair.policies.timed import TimedLottery, with_accounts
from meritfair.policies.view import View
from meritfair.simulation import metrics
from meritfair.simulation.problem import Problem

_Array = TypeVar("_Array", FloatArray, IntArray)
_GLANCE = 0.1  # seconds between looks at how far the runs are
_NO_MERIT = MeritRule(EXPONENTIAL, 0.0, 0.0)
_NO_STAGES = Stages(*[0] * len(Stages._fields))


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
        criterion = problem.criterion
        known = problem.exposure_regret or not criterion.integrates(fair_merit, problem.budget)
        self.fair_share = merit_share(fair_merit)
        self.fair_exposure = np.full(fair_merit.shape, np.nan)
        if known:
            self.fair_exposure = problem.rules.fair_exposure(fair_merit, criterion, problem.budgets)
        self.ball = _with_stage(problem.confidence.rule())
        by_run, by_arm = (problem.runs, problem.episodes), problem.transitions.shape
        self.measures = _new_measures(by_run)
        self.visits, self.good = np.zeros(by_arm, np.int64), np.zeros(by_arm, np.int64)
        self.longest_wait = np.zeros(by_arm[:2], np.int64)
        self.given, self.account_range = np.zeros(by_arm[:2]), np.zeros((*by_arm[:2], 2))
        self.coverage_gaps = np.zeros((2, problem.runs), np.int64)
        self.control = np.zeros((problem.runs, 2), np.int64)  # episodes done, and whether to stop

    def settings(self, run: int) -> RunSettings:
        p = self.problem
        merit = p.criterion.merit.rule() or _NO_MERIT
        fair = self.fair_share[run], self.fair_exposure[run]
        return RunSettings(*fair, p.budget, p.mean_budget, p.horizon, p.carry_states, self.ball, merit)

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
            rounds=new_rounds(p.n_arms, p.cycle, p.rules.cooldown, p.rules.warmup, p.rules.once),
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
        book, pulls = state.accounts, self.visits[run, ..., 1].sum(axis=-1)
        self.given[run] = book.total if book.total.any() else pulls
        self.account_range[run] = np.stack([book.least, book.largest], axis=-1)
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
            "given": self.given,
            "account_range": self.account_range,
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


def _rows(values: _Array, shape: tuple[int, ...]) -> _Array:
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

    plans: list[StepPlan]  # one for each run
    learned: FloatArray | None = None  # the memory of all runs, if it is for the next episode too

    def play_run(self, run: int, settings: RunSettings, state: RunState, measures: Measures, control: IntArray) -> None:
        pulled, episodes = np.zeros(len(state.chains.state)), (0, len(measures.reward))
        play_steps(settings, self.plans[run], state, _new_steps(state), measures, pulled, control, *episodes)
        _check_reward(int(measures.reward.min(initial=0)))

    def play_episode(self, t: int, run: int, settings: RunSettings, at: _Episode) -> None:
        play_steps(settings, self.plans[run], at.state, at.steps, at.measures, at.pulled, at.control, t, t + 1)
        _check_reward(int(at.measures.reward[t]))


@dataclass(frozen=True)
class _Timed:
    """A timed lottery: it is given by state and account, and drawn at each step."""

    rule: Rule
    plans: list[StepPlan]
    shares: Shares  # (runs, N) each
    learned: ClassVar[None] = None

    def play_run(self, run: int, settings: RunSettings, state: RunState, measures: Measures, control: IntArray) -> None:
        shares, none = Shares(*(each[run] for each in self.shares)), (np.zeros(0), np.zeros(0))
        rest = self.plans[run], none, state, _new_steps(state), measures, control
        play_timed_run(settings, self.rule, _NO_STAGES, shares, *rest)

    def play_episode(self, t: int, run: int, settings: RunSettings, at: _Episode) -> None:
        before = at.state.accounts.total.copy()
        at.state.accounts.budget[0] = -1  # the plan is new
        play_steps(settings, self.plans[run], at.state, at.steps, at.measures, at.pulled, at.control, t, t + 1)
        at.pulled[:] = at.state.accounts.total - before


@dataclass(frozen=True)
class _LearnedTimed:
    """A timed lottery that the engine plans for itself."""

    rule: Rule
    stages: Stages
    floor: FloatArray
    cap: FloatArray

    def play_run(
        self, _run: int, settings: RunSettings, state: RunState, measures: Measures, control: IntArray
    ) -> None:
        now, rule = state.estimates, self.rule
        how = rule.slack, account_pull(rule.slack), rule.design, rule.slack > 0
        point = {OPTIMISTIC: now.upper, PESSIMISTIC: now.lower}.get(rule.estimate, now.inside)
        timing = Timing(now.merit, self.floor, now.cap, point, np.zeros_like(point), *how)
        plan = StepPlan(choosing(play=play_timed), np.zeros((1, 1)), NO_GROUPS, NO_ORDER, timing)
        shares, bounds = Shares(now.exposure, now.share, now.exposure), (self.floor, self.cap)
        rest = plan, bounds, state, _new_steps(state), measures, control
        play_timed_run(settings, rule, self.stages, shares, *rest)


_Playable: TypeAlias = _Learned | _OpenLoop | _StepByStep | _Timed | _LearnedTimed


def _new_steps(state: RunState) -> Steps:
    """Return room for plans that choose at each step."""
    return new_steps(len(state.chains.state), state.at_once, state.accounts, state.rounds)


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
    if rule is not None and not (problem.restricted and rule.kind == GREEDY):
        floor, cap = (policy.criterion or Criterion()).bounds(N, K)
        rule = rule._replace(ball=_with_stage(rule.ball))
        timed = rule.slack > 0 or problem.restricted
        if timed and rule.design == SEQUENTIAL:
            rule = rule._replace(design=_exact_if_one(problem))
        how = stages(N, K, rule.design, estimate=rule.estimate, integrates=problem.integrates and not timed)
        return (_LearnedTimed if timed else _Learned)(rule, how, np.array(floor), np.array(cap))
    if not policy.plans_once:
        return None
    nothing = Counts(*np.zeros((2, *problem.transitions.shape), np.int64))
    view = View(nothing, 1, K, problem.transitions, runs.rngs())
    return _playable(check_plan(policy.plan(view), N, K, (problem.runs,)), problem)


def _exact_if_one(problem: Problem) -> int:
    """Return the exact design for a draw of one arm, which is the sequential one; refuse to draw several otherwise."""
    if problem.budget > 1:
        raise InputError(
            "slack, rules and budgets that change need the design 'exact' or 'systematic' for a lottery of several "
            f"arms, got 'sequential' with a budget of {problem.budget}"
        )
    return EXACT


def _playable(plan: Plan, problem: Problem, memory: FloatArray | None = None) -> _OpenLoop | _StepByStep | _Timed:
    """Return how the engine plays a plan, after an episode that ended with this memory."""
    runs, N, K = problem.runs, problem.n_arms, problem.budget
    if problem.restricted:
        plan = _restricted(plan, problem)
    weights = None if problem.restricted else plan.weights(K)
    fixed = Rule(FIXED, OPTIMISTIC, plan.drawn_by, problem.confidence.rule(), _NO_MERIT)
    if weights is not None:
        rows = (_rows(np.asarray(x), (runs, N)) for x in (weights, plan.share(K), _exposure(plan, problem)))
        return _OpenLoop(fixed, stages(N, K, plan.drawn_by), Shares(*rows))
    steps = plan.step_functions(memory, restricted=problem.restricted)
    known = _rows(steps.memory, (runs, *steps.memory.shape[-2:]))
    plans = _step_plans(steps, known, N)
    if steps.timing is None:
        return _StepByStep(plans, known if steps.remembers else None)
    rows = (_rows(np.asarray(x), (runs, N)) for x in (plan.exposure(K), plan.share(K), plan.exposure(K)))
    return _Timed(fixed, plans, Shares(*rows))


def _restricted(plan: Plan, problem: Problem) -> Plan:
    """Return a plan as it is played where some arms may not be pulled at some steps, or the budget changes."""
    plan = with_accounts(plan)
    if isinstance(plan, Lottery):
        _exact_if_one(problem)
        plan = TimedLottery(Lottery(plan.merit, "exact"))
    if len(problem.cycle) > 1 and not plan.takes_any_budget:
        raise InputError(f"the policy plans quotas for one budget, it cannot change: got {list(problem.cycle)}")
    return plan


def _step_plans(steps: StepFunctions, memory: FloatArray, n_arms: int) -> list[StepPlan]:
    """Return what the engine needs to play each run step by step."""
    runs, how, groups = len(memory), _compiled(steps), [NO_GROUPS] * len(memory)
    if steps.groups is not None and steps.quotas is not None:
        quotas = np.broadcast_to(steps.quotas, (runs, steps.quotas.shape[-1]))
        groups = [new_groups(steps.groups, each) for each in quotas]
    order = NO_ORDER if steps.order is None else steps.order
    orders = _rows(order, (runs, *order.shape[-2:]))
    timings = [NO_TIMING] * runs
    if steps.timing is not None:
        merit, floor, cap, point, explore, *own = steps.timing
        merit, floor, cap = (_rows(np.asarray(x), (runs, n_arms)) for x in (merit, floor, cap))
        point, explore = (_rows(x, (runs, 2, 2, n_arms)) for x in (point, explore))
        rows = zip(merit, floor, cap, point, explore, strict=True)
        timings = [Timing(*each, *own) for each in rows]
    return [StepPlan(how, *each) for each in zip(memory, groups, orders, timings, strict=True)]


def _exposure(plan: Plan, problem: Problem) -> FloatArray | None:
    """Return the exposures of a plan, NaN where they take an integral and none is asked for; None if it has none.

    It has none either if arms are given something else than they are due.
    """
    if problem.restricted or isinstance(plan, TimedLottery):
        return None
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
    one = problem.transitions[0, :1].copy()
    state = new_run_state(one, 1, 0, problem.horizon, seed, seed, rounds=new_rounds(1, problem.cycle))
    new_states(state.chains.state, state.environment_rng)
    plan.play_run(0, runs.settings(0), state, _new_measures((0,)), np.zeros(2, np.int64))


class _Episode(NamedTuple):
    """Where a run is before an episode that was planned in Python."""

    state: RunState
    steps: Steps
    measures: Measures
    pulled: FloatArray  # (N,), how often each arm was pulled in the last episode
    control: IntArray


def _new_episode(runs: _Runs, run: int, pulled: FloatArray) -> _Episode:
    """Return where a run is before its first episode."""
    state = runs.new_state(run)
    return _Episode(state, _new_steps(state), runs.measures_of(run), pulled, runs.control[run])


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
            if not isinstance(playable, _Timed):
                for each in at:
                    each.state.accounts.total[:] += each.pulled
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
    share = made / problem.mean_budget if share is None else share
    exposure = made if exposure is None else exposure
    measures.fairness_regret[:, t] = metrics.fairness_regret(share, runs.fair_share)
    measures.exposure_regret[:, t] = metrics.fairness_regret(exposure, runs.fair_exposure)
    if problem.criterion.merit.rule() is None:
        ball = Ball(counts, t + 1, problem.confidence.delta, problem.confidence.ball)
        optimistic = merit_share(problem.criterion.merit(benefit(ball.upper)))
        measures.fairness_regret_authors[:, t] = metrics.fairness_regret(optimistic, runs.fair_share)
