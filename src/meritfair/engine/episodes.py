"""Whole episodes and whole runs (Algorithm 1 of the paper).

An episode is measured, planned and played:

- `measure_episode` builds the confidence ball from the counts, for eta, omega and the regret as the authors count it;
- `_plan` estimates benefits and merits anew, if the policy is one that the engine plans for;
- `open_loop` draws the pulls and moves the arms 64 steps at a time, if pulls do not depend on states; if they do,
  `_closed_loop` goes step by step. Arms meet the same coins in both: the environment's random words, and the order in
  which they are taken, do not depend on the pulls.

`play_run` and `play_steps` play all episodes of a run in one call. Of plans that are made in Python for each episode,
`play_episode` plays one, and so does `play_steps`. All that changes in a run is in its `RunState`.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np

from meritfair.core.arrays import FloatArray, IntArray, WordArray
from meritfair.engine import rules
from meritfair.engine.accounts import Accounts, new_accounts
from meritfair.engine.arrivals import draw_by_arrival
from meritfair.engine.chains import Chains, new_chains, start_states, walk
from meritfair.engine.compiling import address, call, expect, inlined, kernel
from meritfair.engine.counting import Tally, new_tally
from meritfair.engine.coverage import Coverage, new_coverage, note_episode
from meritfair.engine.exact import draw_by_rounding, draw_systematically
from meritfair.engine.inclusion import Race, include, new_race
from meritfair.engine.learning import (
    Estimates,
    estimate_benefits,
    greedy_weights,
    measure_ball,
    merits,
    new_estimates,
    regret,
    shares,
)
from meritfair.engine.lotteries import PULLS, Drawing, new_drawing, rotate
from meritfair.engine.options import allot, draw_posterior, tighten
from meritfair.engine.passes import draw_in_passes
from meritfair.engine.pooling import STAYS, Pool, new_pool, pool, refits_at
from meritfair.engine.random import new_source
from meritfair.engine.rounds import Rounds, new_rounds
from meritfair.engine.rules import BallRule, MeritRule, Rule
from meritfair.engine.steps import StepPlan, Steps, walk_steps
from meritfair.engine.timing import set_exploration

_LANES_AT_ONCE = 2048  # words of all arms that are drawn and walked together
_IN_PASSES_UP_TO = 128  # lotteries are drawn in passes while (K + 1) N is at most this, and K at most half of N


class RunSettings(NamedTuple):
    """What is the same for all episodes of a run: its size, and how fairness is measured."""

    fair_share: FloatArray  # (N,)
    fair_exposure: FloatArray  # (N,)
    budget: int  # the largest, if it changes from step to step
    mean_budget: float
    horizon: int
    carry_states: bool
    ball: BallRule
    merit: MeritRule


class RunState(NamedTuple):
    """Everything that changes during a run."""

    environment_rng: WordArray
    policy_rng: WordArray
    chains: Chains
    tally: Tally
    drawing: Drawing
    estimates: Estimates
    coverage: Coverage
    race: Race
    pool: Pool
    accounts: Accounts
    rounds: Rounds
    at_once: int  # words of 64 steps that are drawn and walked together


class Shares(NamedTuple):
    """What K arms are drawn by in an episode, and what each gets by it; (N,) each."""

    weights: FloatArray  # weights of a sequential draw, or exposures
    share: FloatArray
    exposure: FloatArray


class Measures(NamedTuple):
    """What is kept of each episode of a run, (episodes,) each."""

    fairness_regret: FloatArray
    fairness_regret_authors: FloatArray
    exposure_regret: FloatArray
    eta: FloatArray
    omega: FloatArray
    reward: IntArray


class Stages(NamedTuple):
    """The addresses of what plans and plays an episode whose pulls do not depend on states; 0 is what is not needed."""

    drawer: int
    walker: int
    includer: int  # finds the exposures of a sequential draw
    pooler: int  # finds what all arms together say of each
    sampler: int  # draws from the posterior
    allotter: int  # shares the budget exactly


def new_run_state(
    transitions: FloatArray,
    budget: int,
    episodes: int,
    horizon: int,
    environment: np.random.SeedSequence,
    policy: np.random.SeedSequence,
    *,
    integrates: bool = False,
    pools: bool = False,
    rounds: Rounds | None = None,
) -> RunState:
    """Return the state before a run, with room to integrate exposures or to pool arms if that is needed."""
    n_arms = len(transitions)
    words = -(-horizon // 64)
    at_once = min(words, max(1, _LANES_AT_ONCE // n_arms))
    line = np.random.default_rng(policy.spawn(1)[0]).permutation(n_arms)
    return RunState(
        environment_rng=new_source(environment),
        policy_rng=new_source(policy),
        chains=new_chains(transitions, at_once),
        tally=new_tally(n_arms),
        drawing=new_drawing(n_arms, budget, at_once, line),
        estimates=new_estimates(n_arms),
        coverage=new_coverage(n_arms, episodes),
        race=new_race(n_arms, budget) if integrates else new_race(1, 1),
        pool=new_pool(n_arms if pools else 1),
        accounts=new_accounts(n_arms),
        rounds=new_rounds(n_arms, (budget,)) if rounds is None else rounds,
        at_once=at_once,
    )


@cache
def stages(n_arms: int, budget: int, design: int, *, estimate: int | None = None, integrates: bool = False) -> Stages:
    """Return the compiled stages for draws by this design; without an estimate, those of a given plan."""
    allots = estimate is not None and design in (rules.EXACT, rules.SYSTEMATIC)
    return Stages(
        drawer=drawer(n_arms, budget, design),
        walker=address(walk, *_TO_WALK),
        includer=address(include, *_TO_INCLUDE) if integrates else 0,
        pooler=address(pool, *_TO_POOL) if estimate == rules.POOLED else 0,
        sampler=address(draw_posterior, *_TO_SAMPLE) if estimate == rules.THOMPSON else 0,
        allotter=address(allot, *_TO_ALLOT) if allots else 0,
    )


@cache
def tightener(ball: int) -> int:
    """Return the address of what measures a ball of this kind, or 0 for the paper's, which needs no stage."""
    return 0 if ball == rules.PAPER else address(tighten, *_TO_TIGHTEN)


@cache
def drawer(n_arms: int, budget: int, design: int) -> int:
    """Return the address of what draws by this design among that many arms; for one pull all designs are the same."""
    few = (budget + 1) * n_arms <= _IN_PASSES_UP_TO and 2 * budget <= n_arms
    stage = {
        rules.SEQUENTIAL: draw_in_passes if few else draw_by_arrival,
        rules.EXACT: draw_by_rounding,
        rules.SYSTEMATIC: draw_systematically,
        rules.ROTATION: rotate,
    }[rules.SEQUENTIAL if budget == 1 and design != rules.ROTATION else design]
    return address(stage, *_TO_DRAW)


# What stages are called with. Kernels that may call them are compiled before it is known whether they will.
_LIKE = new_run_state(np.full((1, 2, 2), 0.5), 1, 1, 1, *[np.random.SeedSequence(0)] * 2)
_NOW, _SEEN = _LIKE.estimates, (_LIKE.tally.visits, _LIKE.tally.good)
_TO_DRAW = _LIKE.drawing, _LIKE.policy_rng, _NOW.merit, 1, 1, 1, True
_TO_WALK = _LIKE.chains, _LIKE.tally, _LIKE.environment_rng, _LIKE.drawing.words[PULLS], 1, 1
_TO_INCLUDE = _LIKE.race, _NOW.merit, _NOW.exposure, 1
_TO_POOL = _LIKE.pool, *_SEEN, _NOW.inside, True
_TO_SAMPLE = _NOW.inside, *_SEEN, _LIKE.policy_rng
_TO_ALLOT = _NOW.merit, _NOW.exposure, _NOW.cap, _LIKE.tally.visits, _NOW.cap, _NOW.cap, 1
_TO_TIGHTEN = _NOW.upper, _NOW.lower, *_SEEN, 1, 1.0
for _arguments in (_TO_DRAW, _TO_WALK, _TO_INCLUDE, _TO_POOL, _TO_SAMPLE, _TO_ALLOT, _TO_TIGHTEN):
    expect(*_arguments)


@kernel
def new_states(states: WordArray, rng: WordArray) -> None:
    """Make each arm bad or good with probability 1/2, before the first episode."""
    start_states(states, rng)


@inlined
def measure_episode(settings: RunSettings, state: RunState, measures: Measures, t: int) -> None:
    """Measure the ball of episode t, from 0, and the regret of the shares that MF-RMAB would form from these counts."""
    now, tally = state.estimates, state.tally
    measures.eta[t], measures.omega[t] = measure_ball(
        now.upper, now.lower, tally.visits, tally.good, t + 1, settings.ball
    )
    estimate_benefits(now, tally, rules.OPTIMISTIC)
    merits(now.benefit, now.merit, settings.merit.kind, settings.merit.first, settings.merit.second)
    shares(now.merit, now.share)
    measures.fairness_regret_authors[t] = regret(now.share, settings.fair_share)


@inlined
def _plan(
    settings: RunSettings, rule: Rule, stages: Stages, state: RunState, floor: FloatArray, cap: FloatArray, t: int
) -> None:
    """Set the shares and exposures of episode t, from 0, by a built-in rule; those of the paper are set already."""
    now, tally = state.estimates, state.tally
    if rule.ball != settings.ball:
        measure_ball(now.upper, now.lower, tally.visits, tally.good, t + 1, rule.ball)
    if rule.estimate == rules.POOLED:
        refit = state.pool.facts[STAYS] == 0 and refits_at(t + 1)
        call(stages.pooler, state.pool, tally.visits, tally.good, now.inside, refit)
    elif rule.estimate == rules.THOMPSON:
        call(stages.sampler, now.inside, tally.visits, tally.good, state.policy_rng)
    if rule.kind == rules.GREEDY:
        estimate_benefits(now, tally, rule.estimate)
        greedy_weights(now, settings.budget)
        return
    if rule.estimate != rules.OPTIMISTIC or rule.ball != settings.ball or rule.merit != settings.merit:
        estimate_benefits(now, tally, rule.estimate)
        merits(now.benefit, now.merit, rule.merit.kind, rule.merit.first, rule.merit.second)
        shares(now.merit, now.share)
    if rule.design != rules.SEQUENTIAL:
        call(stages.allotter, now.merit, now.exposure, now.cap, tally.visits, floor, cap, settings.budget)
    elif stages.includer != 0:
        call(stages.includer, state.race, now.merit, now.exposure, settings.budget)
    else:  # nobody asks for the integral
        for arm in range(len(now.exposure)):
            now.exposure[arm] = now.share[arm] if settings.budget == 1 else np.nan


@inlined
def open_loop(settings: RunSettings, stages: Stages, state: RunState, weights: FloatArray, new: bool) -> int:
    """Play an episode of pulls that do not depend on states, by weights that may be new; return the reward."""
    drawing, policy_rng, environment_rng = state.drawing, state.policy_rng, state.environment_rng
    reward, left = 0, settings.horizon
    while left > 0:
        words = min(state.at_once, (left + 63) // 64)
        bits = min(left - 64 * (words - 1), 64)
        call(stages.drawer, drawing, policy_rng, weights, settings.budget, words, bits, new)
        reward += call(stages.walker, state.chains, state.tally, environment_rng, drawing.words[PULLS], words, bits)
        left -= 64 * (words - 1) + bits
        new = False
    return reward


@inlined
def _closed_loop(settings: RunSettings, plan: StepPlan, state: RunState, steps: Steps, step: int) -> int:
    """Play an episode step by step, the first of which has this number; return the reward, as `walk_steps` does.

    As many words are made at once as in the open loop, so that the coins are the same.
    """
    chains, pulls, rng, policy_rng = state.chains, state.drawing.words[PULLS], state.environment_rng, state.policy_rng
    budget, horizon, at_once = settings.budget, settings.horizon, state.at_once
    return walk_steps(chains, state.tally, pulls, steps, plan, rng, policy_rng, budget, horizon, step, at_once)


@inlined
def end_episode(settings: RunSettings, state: RunState, last: bool) -> None:
    """End an episode, and start the next unless it was the last one."""
    note_episode(state.coverage, state.tally.seen, last)
    if not (last or settings.carry_states):
        start_states(state.chains.state, state.environment_rng)


@inlined
def count_pulls(tally: Tally, pulled: FloatArray) -> None:
    """Set how often each arm was pulled since `pulled` was set to how often it was pulled till then, or to 0."""
    for arm in range(len(pulled)):
        pulled[arm] = tally.visits[0, 1, arm] + tally.visits[1, 1, arm] - pulled[arm]


@kernel
def play_run(
    settings: RunSettings,
    rule: Rule,
    stages: Stages,
    now: Shares,
    floor: FloatArray,
    cap: FloatArray,
    state: RunState,
    measures: Measures,
    control: IntArray,
) -> None:
    """Play all episodes of a run whose pulls do not depend on states.

    What arms are drawn by is `now`: arrays of the estimates, if the rule plans each episode, or of a plan that stays.
    `floor` and `cap` are for designs that keep them. `control` holds the number of episodes done, for others to read,
    and a flag that others set to stop.
    """
    episodes = len(measures.reward)
    for t in range(episodes):
        if control[1] != 0:
            return
        measure_episode(settings, state, measures, t)
        if rule.kind != rules.FIXED:
            _plan(settings, rule, stages, state, floor, cap, t)
        measures.fairness_regret[t] = regret(now.share, settings.fair_share)
        measures.exposure_regret[t] = regret(now.exposure, settings.fair_exposure)
        measures.reward[t] = open_loop(settings, stages, state, now.weights, t == 0 or rule.kind != rules.FIXED)
        end_episode(settings, state, t == episodes - 1)
        control[0] = t + 1


@kernel
def play_steps(
    settings: RunSettings,
    plan: StepPlan,
    state: RunState,
    steps: Steps,
    measures: Measures,
    pulled: FloatArray,
    control: IntArray,
    first: int,
    end: int,
) -> None:
    """Play episodes of a run, from `first` on and before `end`, by one plan that chooses at each step.

    `control` is as in `play_run`. A reward below 0 says that the run has ended there, as in `walk_steps`.
    At the end, `pulled` is how often each arm was pulled in the last episode.
    """
    exposure, share = state.estimates.exposure, state.estimates.share
    for t in range(first, end):
        if control[1] != 0:
            return
        measure_episode(settings, state, measures, t)
        pulled[:] = 0.0
        count_pulls(state.tally, pulled)
        measures.reward[t] = _closed_loop(settings, plan, state, steps, t * settings.horizon)
        if measures.reward[t] < 0:
            return
        count_pulls(state.tally, pulled)
        for arm in range(len(pulled)):
            exposure[arm] = pulled[arm] / settings.horizon
            share[arm] = exposure[arm] / settings.mean_budget
        measures.exposure_regret[t] = regret(exposure, settings.fair_exposure)
        measures.fairness_regret[t] = regret(share, settings.fair_share)
        end_episode(settings, state, t == len(measures.reward) - 1)
        control[0] = t + 1


@kernel
def play_timed_run(
    settings: RunSettings,
    rule: Rule,
    stages: Stages,
    now: Shares,
    plan: StepPlan,
    bounds: tuple[FloatArray, FloatArray],
    state: RunState,
    steps: Steps,
    measures: Measures,
    control: IntArray,
) -> None:
    """Play all episodes of a run of a timed lottery; the rest is as in `play_run`.

    `bounds` are floor and cap of what is due, if the rule plans each episode.
    """
    book, given, horizon, episodes = state.accounts, steps.scratch, settings.horizon, len(measures.reward)
    for t in range(episodes):
        if control[1] != 0:
            return
        measure_episode(settings, state, measures, t)
        if rule.kind != rules.FIXED:
            _plan(settings, rule, stages, state, bounds[0], bounds[1], t)
            set_exploration(plan.timing.explore, state.tally.visits, state.tally.good)
            book.budget[0] = -1
        measures.fairness_regret[t] = regret(now.share, settings.fair_share)
        for arm in range(len(given)):
            given[arm] = book.total[arm]
        measures.reward[t] = _closed_loop(settings, plan, state, steps, t * horizon)
        for arm in range(len(given)):
            given[arm] = (book.total[arm] - given[arm]) / horizon
        measures.exposure_regret[t] = regret(given, settings.fair_exposure)
        end_episode(settings, state, t == episodes - 1)
        control[0] = t + 1


@kernel
def play_episode(
    settings: RunSettings,
    stages: Stages,
    weights: FloatArray,
    state: RunState,
    measures: Measures,
    pulled: FloatArray,
    t: int,
) -> None:
    """Play episode t, from 0, of a lottery or a rotation that was made in Python; set how often each arm was pulled."""
    measure_episode(settings, state, measures, t)
    pulled[:] = 0.0
    count_pulls(state.tally, pulled)
    measures.reward[t] = open_loop(settings, stages, state, weights, True)
    count_pulls(state.tally, pulled)
    end_episode(settings, state, t == len(measures.reward) - 1)
