"""How the engine plays what a policy has planned: a small class for each way, made by `playable` or `learned`.

==================  ================================================================================================
`Learned`           the engine plans before each episode, and draws 64 steps at a time
`OpenLoop`          a lottery or a rotation, drawn 64 steps at a time
`Drawn`             the same, kept step by step, where not every state is seen
`StepByStep`        a priority table or a step learner, which choose at each step
`Timed`             a timed lottery: exposures by state and account, drawn at each step
`LearnedTimed`      the same, if the engine plans before each episode
==================  ================================================================================================

Where some arms may not be pulled at some steps, or the budget changes, a lottery is played as a timed one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numba.core.errors import NumbaError

from meritfair.core.arrays import FloatArray, IntArray
from meritfair.core.errors import InputError
from meritfair.engine.accounts import NO_TIMING, Timing
from meritfair.engine.episodes import (
    Measures,
    RunSettings,
    RunState,
    Shares,
    Stages,
    play_episode,
    play_run,
    play_steps,
    play_timed_run,
    stages,
    tightener,
)
from meritfair.engine.partial import play_drawn, play_on_beliefs
from meritfair.engine.rules import (
    EXACT,
    FIXED,
    GREEDY,
    NO_MERIT,
    OPTIMISTIC,
    PESSIMISTIC,
    SEQUENTIAL,
    BallRule,
    Rule,
)
from meritfair.engine.sight import NO_SIGHT, Sight
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
from meritfair.model.criterion import Criterion
from meritfair.model.observation import PULLED
from meritfair.policies.plans import Lottery, Plan, StepFunctions
from meritfair.policies.timed import TimedLottery, with_accounts
from meritfair.simulation.problem import Problem

_Array = TypeVar("_Array", FloatArray, IntArray)
_NO_STAGES = Stages(*[0] * len(Stages._fields))


class Episode(NamedTuple):
    """Where a run is before an episode that was planned in Python."""

    state: RunState
    steps: Steps
    measures: Measures
    pulled: FloatArray  # (N,), how often each arm was pulled in the last episode
    control: IntArray


def with_stage(ball: BallRule) -> BallRule:
    """Return how a ball is measured, with the stage that it needs."""
    return ball._replace(tightener=tightener(ball.kind))


def _rows(values: _Array, shape: tuple[int, ...]) -> _Array:
    """Return a row for each run: the engine is compiled for arrays that can be written to."""
    return np.array(np.broadcast_to(values, shape), order="C")


@dataclass(frozen=True)
class Learned:
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
class OpenLoop:
    """A lottery or a rotation: pulls do not depend on states."""

    rule: Rule
    stages: Stages
    shares: Shares  # (runs, N) each
    learned: ClassVar[None] = None

    def play_run(self, run: int, settings: RunSettings, state: RunState, measures: Measures, control: IntArray) -> None:
        shares, none = Shares(*(each[run] for each in self.shares)), np.zeros(0)
        play_run(settings, self.rule, self.stages, shares, none, none, state, measures, control)

    def play_episode(self, t: int, run: int, settings: RunSettings, at: Episode) -> None:
        play_episode(settings, self.stages, self.shares.weights[run], at.state, at.measures, at.pulled, t)
        at.state.accounts.total[:] += at.pulled


@dataclass(frozen=True)
class Drawn(OpenLoop):
    """The same, where it has to be known who was where, as not every state is seen."""

    def play_episode(self, t: int, run: int, settings: RunSettings, at: Episode) -> None:
        how, weights = choosing(play=play_on_beliefs), self.shares.weights[run]
        play_drawn(settings, self.stages, how, weights, at.state, at.steps, at.measures, at.pulled, t)
        at.state.accounts.total[:] += at.pulled


@dataclass(frozen=True)
class StepByStep:
    """A priority table or a step learner: it chooses at each step."""

    plans: list[StepPlan]  # one for each run
    learned: FloatArray | None = None  # the memory of all runs, if it is for the next episode too

    def play_run(self, run: int, settings: RunSettings, state: RunState, measures: Measures, control: IntArray) -> None:
        pulled, episodes = np.zeros(len(state.chains.state)), (0, len(measures.reward))
        play_steps(settings, self.plans[run], state, room_for_steps(state), measures, pulled, control, *episodes)
        _check_reward(int(measures.reward.min(initial=0)))

    def play_episode(self, t: int, run: int, settings: RunSettings, at: Episode) -> None:
        play_steps(settings, self.plans[run], at.state, at.steps, at.measures, at.pulled, at.control, t, t + 1)
        _check_reward(int(at.measures.reward[t]))
        at.state.accounts.total[:] += at.pulled


@dataclass(frozen=True)
class Timed:
    """A timed lottery: it is given by state and account, and drawn at each step."""

    rule: Rule
    plans: list[StepPlan]
    shares: Shares  # (runs, N) each
    learned: ClassVar[None] = None

    def play_run(self, run: int, settings: RunSettings, state: RunState, measures: Measures, control: IntArray) -> None:
        shares, none = Shares(*(each[run] for each in self.shares)), (np.zeros(0), np.zeros(0))
        rest = self.plans[run], none, state, room_for_steps(state), measures, control
        play_timed_run(settings, self.rule, _NO_STAGES, shares, *rest)

    def play_episode(self, t: int, run: int, settings: RunSettings, at: Episode) -> None:
        before = at.state.accounts.total.copy()
        at.state.accounts.budget[0] = -1  # the plan is new
        play_steps(settings, self.plans[run], at.state, at.steps, at.measures, at.pulled, at.control, t, t + 1)
        at.pulled[:] = at.state.accounts.total - before


@dataclass(frozen=True)
class LearnedTimed(Learned):
    """A timed lottery that the engine plans for itself."""

    def play_run(
        self, _run: int, settings: RunSettings, state: RunState, measures: Measures, control: IntArray
    ) -> None:
        now, rule = state.estimates, self.rule
        how = rule.slack, account_pull(rule.slack), rule.design, rule.slack > 0
        point = {OPTIMISTIC: now.upper, PESSIMISTIC: now.lower}.get(rule.estimate, now.inside)
        timing = Timing(now.merit, self.floor, now.cap, point, np.zeros_like(point), *how)
        plan = StepPlan(choosing(play=play_timed), np.zeros((1, 1)), NO_GROUPS, NO_ORDER, timing)
        shares, bounds = Shares(now.exposure, now.share, now.exposure), (self.floor, self.cap)
        rest = plan, bounds, state, room_for_steps(state), measures, control
        play_timed_run(settings, rule, self.stages, shares, *rest)


Playable: TypeAlias = Learned | OpenLoop | StepByStep | Timed


def room_for_steps(state: RunState, sight: Sight = NO_SIGHT) -> Steps:
    """Return room for plans that choose at each step."""
    return new_steps(len(state.chains.state), state.at_once, state.accounts, state.rounds, sight)


def _check_reward(reward: int) -> None:
    """Refuse a reward that says that an index was no number."""
    if reward < 0:
        raise InputError(f"rank must set a number for each arm, got nan at step {-1 - reward}")


def learned(rule: Rule, criterion: Criterion, problem: Problem) -> Learned:
    """Return how the engine plays whole runs of a policy that it plans for."""
    N, K = problem.n_arms, problem.budget
    floor, cap = criterion.bounds(N, K)
    timed = rule.slack > 0 or problem.restricted
    if timed and rule.design == SEQUENTIAL:
        rule = rule._replace(design=_exact_if_one(problem))
    how = stages(N, K, rule.design, estimate=rule.estimate, integrates=problem.integrates and not timed)
    rule = rule._replace(ball=with_stage(rule.ball))
    return (LearnedTimed if timed else Learned)(rule, how, np.array(floor), np.array(cap))


def _exact_if_one(problem: Problem) -> int:
    """Return the exact design for a draw of one arm, which is the sequential one; refuse to draw several otherwise."""
    if problem.budget > 1:
        raise InputError(
            "slack, rules and budgets that change need the design 'exact' or 'systematic' for a lottery of several "
            f"arms, got 'sequential' with a budget of {problem.budget}"
        )
    return EXACT


def playable(plan: Plan, problem: Problem, memory: FloatArray | None = None) -> OpenLoop | StepByStep | Timed:
    """Return how the engine plays a plan, after an episode that ended with this memory."""
    runs, N, K = problem.runs, problem.n_arms, problem.budget
    if problem.restricted:
        plan = _restricted(plan, problem)
    weights = None if problem.restricted else plan.weights(K)
    fixed = Rule(FIXED, OPTIMISTIC, plan.drawn_by, problem.confidence.rule(), NO_MERIT)
    if weights is not None:
        rows = (_rows(np.asarray(x), (runs, N)) for x in (weights, plan.share(K), exposure_of(plan, problem)))
        return (OpenLoop if problem.sees_all else Drawn)(fixed, stages(N, K, plan.drawn_by), Shares(*rows))
    steps = _step_functions(plan, problem, memory)
    known = _rows(steps.memory, (runs, *steps.memory.shape[-2:]))
    plans = _step_plans(steps, known, N)
    if steps.timing is None:
        return StepByStep(plans, known if steps.remembers else None)
    rows = (_rows(np.asarray(x), (runs, N)) for x in (plan.exposure(K), plan.share(K), plan.exposure(K)))
    return Timed(fixed, plans, Shares(*rows))


def _step_functions(plan: Plan, problem: Problem, memory: FloatArray | None) -> StepFunctions:
    """Return what the engine calls at each step, by what is seen of the states."""
    if problem.sees_all:
        return plan.step_functions(memory, restricted=problem.restricted)
    steps = plan.belief_functions(memory)
    if steps.learn is not None and problem.observed == PULLED:
        raise InputError(
            "a policy that learns from single transitions needs some without a pull, "
            "and with observed='pulled' both ends of such a transition are never seen"
        )
    return steps


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


def exposure_of(plan: Plan, problem: Problem) -> FloatArray | None:
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
