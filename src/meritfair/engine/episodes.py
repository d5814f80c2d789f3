"""Whole episodes and whole runs (Algorithm 1 of the paper).

`play_run` plays all episodes of a run whose policy is built in, in one call; `play_steps_run` those of a plan that
chooses at each step and stays the same. For plans made in Python there are kernels that begin, play and end one
episode. All go through the same parts. A `Player` holds everything that changes during a run, its random numbers come
from its own sources.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from meritfair.engine.arrivals import draw_by_arrival
from meritfair.engine.chains import SEEN, Chains, Tally, new_chains, new_tally, start_states, walk
from meritfair.engine.compiling import address, call, expect, inlined, kernel
from meritfair.engine.coverage import Coverage, new_coverage, note_episode
from meritfair.engine.exact import draw_by_rounding, draw_systematically
from meritfair.engine.inclusion import Race, include, new_race
from meritfair.engine.learning import (
    EXPOSURE,
    INSIDE,
    MERIT,
    SHARE,
    Beliefs,
    believe,
    greedy_weights,
    measure_ball,
    merits,
    new_beliefs,
    regret,
    shares,
)
from meritfair.engine.lotteries import PULLS, Lottery, new_lottery, rotate
from meritfair.engine.options import allot, draw_posterior, tighten
from meritfair.engine.passes import draw_in_passes
from meritfair.engine.pooling import Pool, new_pool, pool, refits_at
from meritfair.engine.random import new_source
from meritfair.engine.rules import (
    EXACT,
    FIXED,
    GREEDY,
    LOTTERY,
    OPTIMISTIC,
    PAPER,
    POOLED,
    ROTATION,
    SEQUENTIAL,
    SYSTEMATIC,
    THOMPSON,
    BallRule,
    MeritRule,
    Rule,
)
from meritfair.engine.steps import Choosing, Steps, play_steps_of

if TYPE_CHECKING:
    from meritfair.core.arrays import FloatArray, IntArray, WordArray

__all__ = [
    "Game",
    "Outcome",
    "Player",
    "Stages",
    "begin_episode",
    "drawer",
    "end_episode",
    "new_player",
    "play_open_loop",
    "play_run",
    "play_steps",
    "play_steps_run",
    "stages",
    "tightener",
]

_LANES_AT_ONCE = 2048  # words of all arms that are drawn and walked together
_IN_PASSES_UP_TO = 128  # lotteries are drawn in passes while (K + 1) N is at most this, and K at most half of N


class Game(NamedTuple):
    """What is played, and how its fairness is measured."""

    fair_share: FloatArray  # (N,)
    fair_exposure: FloatArray  # (N,)
    budget: int
    horizon: int
    carry_states: bool
    ball: BallRule
    merit: MeritRule


class Player(NamedTuple):
    """Everything that changes during a run."""

    environment: WordArray
    luck: WordArray
    chains: Chains
    tally: Tally
    lottery: Lottery
    beliefs: Beliefs
    coverage: Coverage
    race: Race
    pool: Pool
    at_once: int  # words of 64 steps that are drawn and walked together


class Stages(NamedTuple):
    """The addresses of what plays an episode whose pulls do not look at states; 0 stands for what is not needed."""

    drawer: int
    walker: int
    includer: int  # finds the exposures of a sequential draw
    pooler: int  # finds what all arms together say of each
    sampler: int  # draws from the posterior
    allotter: int  # shares the budget exactly


class Outcome(NamedTuple):
    """What is kept of each episode of a run."""

    regret: FloatArray
    regret_authors: FloatArray
    exposure_regret: FloatArray
    eta: FloatArray
    omega: FloatArray
    reward: IntArray


def new_player(
    transitions: FloatArray,
    budget: int,
    episodes: int,
    horizon: int,
    environment: np.random.SeedSequence,
    luck: np.random.SeedSequence,
    *,
    integrates: bool = False,
    pools: bool = False,
) -> Player:
    """Return a player at the start of a run, with room to integrate exposures or to pool arms if that is needed."""
    n_arms = len(transitions)
    words = -(-horizon // 64)
    at_once = min(words, max(1, _LANES_AT_ONCE // n_arms))
    line = np.random.default_rng(luck.spawn(1)[0]).permutation(n_arms)
    return Player(
        environment=new_source(environment),
        luck=new_source(luck),
        chains=new_chains(transitions, at_once),
        tally=new_tally(n_arms),
        lottery=new_lottery(n_arms, budget, at_once, line),
        beliefs=new_beliefs(n_arms),
        coverage=new_coverage(n_arms, episodes),
        race=new_race(n_arms, budget) if integrates else new_race(1, 1),
        pool=new_pool(n_arms if pools else 1),
        at_once=at_once,
    )


@cache
def stages(n_arms: int, budget: int, design: int, *, estimate: int | None = None, integrates: bool = False) -> Stages:
    """Return the compiled stages for draws by this design among so many arms; without an estimate, of a given plan."""
    allots = estimate is not None and design in (EXACT, SYSTEMATIC)
    return Stages(
        drawer=drawer(n_arms, budget, design),
        walker=address(walk, *_TO_WALK),
        includer=address(include, *_TO_INCLUDE) if integrates else 0,
        pooler=address(pool, *_TO_POOL) if estimate == POOLED else 0,
        sampler=address(draw_posterior, *_TO_SAMPLE) if estimate == THOMPSON else 0,
        allotter=address(allot, *_TO_ALLOT) if allots else 0,
    )


@cache
def tightener(ball: int) -> int:
    """Return the address of what measures a ball of this kind, or 0 for the paper's, which needs no stage."""
    return 0 if ball == PAPER else address(tighten, *_TO_TIGHTEN)


@cache
def drawer(n_arms: int, budget: int, design: int) -> int:
    """Return the address of what draws by this design among so many arms; for one pull all designs are the same."""
    few = (budget + 1) * n_arms <= _IN_PASSES_UP_TO and 2 * budget <= n_arms
    stage = {
        SEQUENTIAL: draw_in_passes if few else draw_by_arrival,
        EXACT: draw_by_rounding,
        SYSTEMATIC: draw_systematically,
        ROTATION: rotate,
    }[SEQUENTIAL if budget == 1 and design != ROTATION else design]
    return address(stage, *_TO_DRAW)


# What stages are called with. Kernels that may call them are compiled before it is known whether they will.
_LIKE = new_player(np.full((1, 2, 2), 0.5), 1, 1, 1, *[np.random.SeedSequence(0)] * 2)
_TO_DRAW = _LIKE.lottery, _LIKE.luck, _LIKE.beliefs.arms[MERIT], 1, 1, 1, True
_TO_WALK = _LIKE.chains, _LIKE.tally, _LIKE.environment, _LIKE.lottery.words[PULLS], 1, 1
_TO_INCLUDE = _LIKE.race, _LIKE.beliefs.arms[MERIT], _LIKE.beliefs.arms[EXPOSURE], 1
_TO_POOL = _LIKE.pool, _LIKE.tally.visits, _LIKE.tally.good, _LIKE.beliefs.points[INSIDE], True
_TO_SAMPLE = _LIKE.beliefs.points[INSIDE], _LIKE.tally.visits, _LIKE.tally.good, _LIKE.luck
_TO_ALLOT = _LIKE.beliefs.arms, _LIKE.tally.visits, np.zeros((2, 1)), 1
_TO_TIGHTEN = _LIKE.beliefs.points, _LIKE.tally.visits, _LIKE.tally.good, 1, 1.0
for _arguments in (_TO_DRAW, _TO_WALK, _TO_INCLUDE, _TO_POOL, _TO_SAMPLE, _TO_ALLOT, _TO_TIGHTEN):
    expect(*_arguments)


@inlined
def _open_loop(game: Game, stages: Stages, player: Player, weights: FloatArray, new: bool) -> int:
    """Play an episode of pulls that do not look at states, by weights that may be new; return the reward."""
    lottery, luck, environment = player.lottery, player.luck, player.environment
    reward, left = 0, game.horizon
    while left > 0:
        words = min(player.at_once, (left + 63) // 64)
        bits = min(left - 64 * (words - 1), 64)
        call(stages.drawer, lottery, luck, weights, game.budget, words, bits, new)
        reward += call(stages.walker, player.chains, player.tally, environment, lottery.words[PULLS], words, bits)
        left -= 64 * (words - 1) + bits
        new = False
    return reward


@inlined
def _begin(game: Game, rule: Rule, stages: Stages, player: Player, outcome: Outcome, t: int) -> None:
    """Begin an episode, t from 0: measure its ball, and if the rule needs other beliefs than those, make them.

    What is measured are the optimistic beliefs under the game's merit and ball; the paper's rule has just these.
    """
    if t == 0 or not game.carry_states:
        start_states(player.chains.state, player.environment)
    beliefs, tally = player.beliefs, player.tally
    for own in range(2):
        ball = rule.ball if own else game.ball
        estimate = rule.estimate if own else OPTIMISTIC
        merit = rule.merit if own else game.merit
        if not own or ball != game.ball:
            eta, omega = measure_ball(beliefs, tally, t + 1, ball)
            if not own:
                outcome.eta[t], outcome.omega[t] = eta, omega
        if estimate == POOLED:
            call(stages.pooler, player.pool, tally.visits, tally.good, beliefs.points[INSIDE], refits_at(t + 1))
        elif estimate == THOMPSON:
            call(stages.sampler, beliefs.points[INSIDE], tally.visits, tally.good, player.luck)
        believe(beliefs, tally, estimate)
        if own and rule.kind == GREEDY:
            greedy_weights(beliefs, game.budget)
            return
        merits(beliefs, merit.kind, merit.first, merit.second)
        shares(beliefs)
        if not own:
            outcome.regret_authors[t] = regret(beliefs.arms[SHARE], game.fair_share)
            same = rule.estimate == OPTIMISTIC and rule.ball == game.ball and rule.merit == game.merit
            if rule.kind == FIXED or (rule.kind == LOTTERY and same):
                return


@kernel
def play_run(
    game: Game,
    rule: Rule,
    stages: Stages,
    plan: FloatArray,
    bounds: FloatArray,
    player: Player,
    outcome: Outcome,
    control: IntArray,
) -> None:
    """Play all episodes of a run.

    A `plan` that stays has rows like the beliefs. `bounds` are the floors and the caps, for designs that keep them.
    `control` holds the number of episodes done, for others to read, and a flag that others set to stop.
    """
    learns = rule.kind == LOTTERY or rule.kind == GREEDY
    now = player.beliefs.arms if learns else plan
    drawn_by = MERIT if rule.kind == GREEDY or rule.design == SEQUENTIAL else EXPOSURE
    episodes = len(outcome.reward)
    for t in range(episodes):
        if control[1] != 0:
            return
        _begin(game, rule, stages, player, outcome, t)
        if rule.kind == LOTTERY:
            _expose(game, rule, stages, player, bounds)
        outcome.regret[t] = regret(now[SHARE], game.fair_share)
        outcome.exposure_regret[t] = regret(now[EXPOSURE], game.fair_exposure)
        outcome.reward[t] = _open_loop(game, stages, player, now[drawn_by], learns or t == 0)
        note_episode(player.coverage, player.tally.ints[SEEN], t == episodes - 1)
        control[0] = t + 1


@inlined
def _expose(game: Game, rule: Rule, stages: Stages, player: Player, bounds: FloatArray) -> None:
    """Set the exposures of a lottery by the merits that are believed; NaN if nobody asks for their integral."""
    beliefs = player.beliefs
    if rule.design != SEQUENTIAL:
        call(stages.allotter, beliefs.arms, player.tally.visits, bounds, game.budget)
    elif stages.includer != 0:
        call(stages.includer, player.race, beliefs.arms[MERIT], beliefs.arms[EXPOSURE], game.budget)
    else:
        for arm in range(beliefs.arms.shape[1]):
            beliefs.arms[EXPOSURE, arm] = beliefs.arms[SHARE, arm] if game.budget == 1 else np.nan


@inlined
def _begin_given(game: Game, player: Player, outcome: Outcome, t: int) -> None:
    """Begin an episode, t from 0, of a plan that the engine does not make."""
    _begin(
        game, Rule(FIXED, OPTIMISTIC, SEQUENTIAL, game.ball, game.merit), Stages(0, 0, 0, 0, 0, 0), player, outcome, t
    )


@inlined
def _note_pulls(tally: Tally, pulled: FloatArray) -> None:
    """Set how often each arm was pulled since `pulled` was set to how often it was pulled till then, or to 0."""
    for arm in range(len(pulled)):
        pulled[arm] = tally.visits[0, 1, arm] + tally.visits[1, 1, arm] - pulled[arm]


@inlined
def _step_by_step(game: Game, how: Choosing, memory: FloatArray, player: Player, steps: Steps, t: int) -> int:
    """Play an episode, t from 0, of a plan that chooses at each step; return the reward, as `play_steps_of` does."""
    return play_steps_of(
        player.chains.state,
        player.tally,
        steps,
        player.environment,
        player.luck,
        how,
        memory,
        game.budget,
        game.horizon,
        t * game.horizon,
    )


@kernel
def play_steps_run(
    game: Game,
    how: Choosing,
    memory: FloatArray,
    player: Player,
    steps: Steps,
    outcome: Outcome,
    control: IntArray,
) -> None:
    """Play all episodes of a run by one plan that chooses at each step; `control` is as in `play_run`.

    A reward below 0 says that the run has ended there, as in `play_steps_of`.
    """
    tally, pulled = player.tally, player.beliefs.arms[MERIT]
    episodes = len(outcome.reward)
    for t in range(episodes):
        if control[1] != 0:
            return
        _begin_given(game, player, outcome, t)
        pulled[:] = 0.0
        _note_pulls(tally, pulled)
        outcome.reward[t] = _step_by_step(game, how, memory, player, steps, t)
        if outcome.reward[t] < 0:
            return
        _note_pulls(tally, pulled)
        for arm in range(len(pulled)):
            pulled[arm] /= game.horizon
        outcome.exposure_regret[t] = regret(pulled, game.fair_exposure)
        for arm in range(len(pulled)):
            pulled[arm] /= game.budget
        outcome.regret[t] = regret(pulled, game.fair_share)
        note_episode(player.coverage, tally.ints[SEEN], t == episodes - 1)
        control[0] = t + 1


@kernel
def begin_episode(game: Game, player: Player, outcome: Outcome, pulled: FloatArray, t: int) -> None:
    """Start an episode, t from 0, of a plan that was made in Python; note how often each arm was pulled before."""
    _begin_given(game, player, outcome, t)
    pulled[:] = 0.0
    _note_pulls(player.tally, pulled)


@kernel
def play_open_loop(game: Game, stages: Stages, player: Player, weights: FloatArray) -> int:
    """Play an episode of a lottery or a rotation; return the reward."""
    return _open_loop(game, stages, player, weights, True)


@kernel
def play_steps(game: Game, how: Choosing, memory: FloatArray, player: Player, steps: Steps, t: int) -> int:
    """Play an episode of a plan that chooses at each step; return the reward, as `play_steps_of` does."""
    return _step_by_step(game, how, memory, player, steps, t)


@kernel
def end_episode(tally: Tally, coverage: Coverage, pulled: FloatArray, last: bool) -> None:
    """End an episode; turn the pulls before it into the pulls during it."""
    _note_pulls(tally, pulled)
    note_episode(coverage, tally.ints[SEEN], last)
