"""Step by step: plans that look at the states, and perhaps learn, at every step.

`walk_steps` plays an episode, a word of 64 steps at a time: it makes the coins of the word ready, has a *player* go
through its steps, and counts. Coins and counts are those of :mod:`meritfair.engine.coins`, the same for all plans. A
player is a stage. At each step it chooses who is pulled, writes that down as a bit for each arm, and moves all arms.

`play_by_index` is the player for plans that rank arms anew at each step: a *ranker* gives every arm an index, a
*chooser* picks K arms by it, and a *learner* learns from what happened; an *explorer* says how likely a step is one
that explores. All four are stages, so the player is compiled once for all such plans, and a plan brings along only
what is its own. Priority tables that are soft or have groups are played by a ranker that looks into them; all others
have a player of their own, in :mod:`meritfair.engine.tables`.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numba
import numpy as np

from meritfair.core.arrays import FloatArray, IntArray, WordArray
from meritfair.engine.accounts import NO_TIMING, Accounts, Timing, new_accounts
from meritfair.engine.bits import NONE, ONE
from meritfair.engine.chains import Chains, new_chains
from meritfair.engine.coins import Coins, count_word, make_coins, move, new_coins, pack, unpack
from meritfair.engine.compiling import (
    address,
    call,
    call_real,
    call_user,
    call_void,
    expect,
    inlined,
    own_stage,
    part,
    stage,
)
from meritfair.engine.counting import Tally, new_tally
from meritfair.engine.random import new_source, open_uniform, uniform
from meritfair.engine.rounds import Rounds, new_rounds, note_pulled, set_free
from meritfair.engine.selection import smallest
from meritfair.engine.sight import NO_SIGHT, Sight


class Choosing(NamedTuple):
    """The addresses of what plays an episode step by step; 0 stands for what is not needed."""

    ranker: int  # this and the next three are for `play_by_index`
    learner: int
    explorer: int
    chooser: int
    maker: int  # makes the coins of a word ready
    player: int  # chooses and moves arms at each step of a word
    counter: int  # counts what happened in a word


class Steps(NamedTuple):
    """Room for plans that choose at each step."""

    states: IntArray  # (N,)
    actions: IntArray  # (N,), 1 for those who are pulled
    next_states: IntArray  # (N,)
    index: FloatArray  # (N,), what arms are ranked by
    scratch: FloatArray  # (N,), to select in
    group_index: FloatArray  # (N,), the index of the arms of a group
    group_actions: IntArray  # (N,)
    coins: Coins
    present: WordArray  # bits for all pairs of an arm and a state, and a word for those that are never pulled
    accounts: Accounts
    rounds: Rounds
    sight: Sight  # for plans that do not see everything


class Groups(NamedTuple):
    """Which arms are in which group, and how many of each are pulled."""

    members: IntArray  # (N,), the arms, group by group
    starts: IntArray  # (G + 1,), where each group starts among them, and where the last ends
    quotas: IntArray  # (G,)


class StepPlan(NamedTuple):
    """What a plan that chooses at each step brings along; each player looks only at what it needs."""

    choosing: Choosing
    memory: FloatArray  # (N, m), what its stages keep
    groups: Groups
    order: IntArray  # of the pairs of arms and states by a table that stays, as `table_order` gives it
    timing: Timing = NO_TIMING  # of a timed lottery


def new_steps(
    n_arms: int,
    words: int,
    accounts: Accounts | None = None,
    rounds: Rounds | None = None,
    sight: Sight = NO_SIGHT,
) -> Steps:
    """Return the room for that many arms, and for coins of that many words at a time; by default without rules."""
    states, actions, next_states, group_actions = np.zeros((4, n_arms), np.int64)
    index, scratch, group_index = np.zeros((3, n_arms))
    coins = new_coins(n_arms, words)
    present = np.zeros(-(-2 * n_arms // 64) + 1, np.uint64)
    numbers = states, actions, next_states, index, scratch, group_index, group_actions
    kept = accounts or new_accounts(n_arms), rounds or new_rounds(n_arms, (n_arms,))
    return Steps(*numbers, coins, present, *kept, sight)


def new_groups(groups: IntArray, quotas: IntArray) -> Groups:
    """Return the groups for arms of which each has a group, counted from 0."""
    sizes = np.bincount(groups, minlength=len(quotas))
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    return Groups(np.argsort(groups, kind="stable"), starts, np.array(quotas, np.int64))


NO_GROUPS = new_groups(np.zeros(0, np.int64), np.zeros(0, np.int64))
NO_ORDER = np.zeros((4, 0), np.int64)


@part
def _top(
    index: FloatArray, n: int, scratch: FloatArray, pulls: IntArray, rng: WordArray, budget: int, guess: float
) -> float:
    """Pull the K of the first n arms with the largest index; ties at random, and -inf never.

    Return the smallest index of them (`guess` if K is 0), or NaN if some index is NaN.
    """
    numbers = True
    for arm in range(n):
        scratch[arm] = index[arm]
        numbers &= index[arm] == index[arm]
        pulls[arm] = 0
    if not numbers:
        return np.nan
    if budget == 0:
        return guess
    last = smallest(scratch, n, n - budget, guess)
    level, left = 0, budget
    for arm in range(n):
        level += index[arm] == last
        left -= index[arm] > last
    ties = last > -np.inf  # who is level with the last may be pulled
    certain = ties and left == level  # then nothing is left to chance
    for arm in range(n):
        pulls[arm] = index[arm] > last or (certain and index[arm] == last)
    if ties and not certain:
        for arm in range(n):
            if index[arm] == last:
                pulls[arm] = uniform(rng) * level < left
                left -= pulls[arm]
                level -= 1
    return last


@stage
def choose_top(steps: Steps, _groups: Groups, rng: WordArray, budget: int, guess: float) -> float:
    """Pull the K arms with the largest index."""
    return _top(steps.index, len(steps.index), steps.scratch, steps.actions, rng, budget, guess)


@stage
def choose_softly(steps: Steps, _groups: Groups, rng: WordArray, budget: int, guess: float) -> float:
    """Draw K arms without replacement with weights exp(index): the first to arrive in a race of these rates."""
    index = steps.index
    for arm in range(len(index)):
        index[arm] -= np.log(-np.log(open_uniform(rng)))
    return _top(index, len(index), steps.scratch, steps.actions, rng, budget, guess)


@stage
def choose_in_groups(steps: Steps, groups: Groups, rng: WordArray, _budget: int, _guess: float) -> float:
    """Pull the arms of each group with the largest index, as many as its quota says."""
    index, actions = steps.group_index, steps.group_actions
    for group in range(len(groups.quotas)):
        start, quota = groups.starts[group], groups.quotas[group]
        n = groups.starts[group + 1] - start
        for i in range(n):
            index[i] = steps.index[groups.members[start + i]]
        if np.isnan(_top(index, n, steps.scratch, actions, rng, quota, 0.0)):
            return np.nan
        for i in range(n):
            steps.actions[groups.members[start + i]] = actions[i]
    return 0.0


@stage
def rank_by_table(
    table: FloatArray, states: IntArray, _actions: IntArray, _step: int, _exploring: bool, index: FloatArray
) -> None:
    """Set the index of each arm at its state, from a table of shape (N, 2)."""
    for arm in range(len(states)):
        index[arm] = table[arm, states[arm]]


@stage
def rank_by_turn(
    turns: FloatArray, states: IntArray, actions: IntArray, step: int, _exploring: bool, index: FloatArray
) -> None:
    """Rank those first who have waited longest; `turns`, of shape (N, 1), holds when each was last pulled."""
    for arm in range(len(states)):
        turns[arm, 0] = step if actions[arm] != 0 else turns[arm, 0]
        index[arm] = -turns[arm, 0]


@inlined
def who_may(rounds: Rounds, index: FloatArray, step: int) -> int:
    """Give those who may not be pulled at a step an index of -inf, unless it is NaN; return how many may."""
    number = set_free(rounds.free, rounds.next_free, step)
    for arm in range(len(index)):
        index[arm] = index[arm] if rounds.free[arm] or np.isnan(index[arm]) else -np.inf
    return number


@stage
def play_by_index(plan: StepPlan, steps: Steps, rng: WordArray, budget: int, bits: int, step: int) -> int:
    """Play that many steps of a word, counted from `step`: rank, choose, move, learn; return -1 - step if NaN ends it.

    While arms are ranked, the actions are those of the step before; those of the last step stay.
    """
    choosing, memory, coins, rounds = plan.choosing, plan.memory, steps.coins, steps.rounds
    states, actions, next_states = steps.states, steps.actions, steps.next_states
    blocks, last = np.uint64(len(coins.pulls) >> 6), 0.0
    unpack(coins.states, NONE, states)
    for h in range(np.uint64(bits)):
        exploring = False
        if choosing.explorer != 0:
            exploring = uniform(rng) < call_real(choosing.explorer, memory, step)
        call_void(choosing.ranker, memory, states, actions, step, exploring, steps.index)
        number = who_may(rounds, steps.index, step) if rounds.active else budget
        number = min(number, rounds.budgets[step % len(rounds.budgets)])
        if number > 0:
            last = call_real(choosing.chooser, steps, plan.groups, rng, number, last)
        else:
            actions[:] = 0
        if np.isnan(last):
            return -1 - step
        if rounds.active:
            note_pulled(actions, rounds.next_free, step, rounds.cooldown, rounds.once)
        pack(actions, coins.pulls, h * blocks)
        move(coins, h)
        unpack(coins.states, (h + ONE) * blocks, next_states)
        if choosing.learner != 0:
            call_void(choosing.learner, memory, states, actions, next_states)
        for arm in range(len(states)):
            states[arm] = next_states[arm]
        step += 1
    return 0


# What stages are called with. Kernels that may call them are compiled before it is known whether they will.
_CHAINS, _TALLY = new_chains(np.full((1, 2, 2), 0.5), 1), new_tally(1)
_LIKE = new_steps(1, 1)
_RNG = new_source(np.random.SeedSequence(0))
_MEMORY = np.zeros((1, 1))
_TO_RANK = _MEMORY, _LIKE.states, _LIKE.actions, 1, True, _LIKE.index
_TO_LEARN = _MEMORY, _LIKE.states, _LIKE.actions, _LIKE.next_states
_TO_EXPLORE = _MEMORY, 1
_TO_CHOOSE = _LIKE, NO_GROUPS, _RNG, 1, 1.0
_TO_MAKE = _CHAINS, _LIKE.coins, _RNG, 1, 1
_TO_PLAY = StepPlan(Choosing(*range(7)), _MEMORY, NO_GROUPS, NO_ORDER), _LIKE, _RNG, 1, 1, 1
_TO_COUNT = _CHAINS, _TALLY, _LIKE.coins, _RNG, 1
for _arguments in (_TO_RANK, _TO_LEARN, _TO_EXPLORE, _TO_CHOOSE, _TO_MAKE, _TO_PLAY, _TO_COUNT):
    expect(*_arguments)


def _address_of(function: Any, arguments: tuple[Any, ...], returns: Any) -> int:
    """Return the address of what may not be needed, or 0."""
    return 0 if function is None else address(own_stage(function), *arguments, returns=returns)


@cache
def choosing(
    rank: Any = None, learn: Any = None, explore: Any = None, choose: Any = None, play: Any = play_by_index
) -> Choosing:
    """Return the compiled stages of a plan that chooses at each step."""
    return Choosing(
        ranker=_address_of(rank, _TO_RANK, numba.void),
        learner=_address_of(learn, _TO_LEARN, numba.void),
        explorer=_address_of(explore, _TO_EXPLORE, numba.float64),
        chooser=_address_of(choose, _TO_CHOOSE, numba.float64),
        maker=address(make_coins, *_TO_MAKE),
        player=address(play, *_TO_PLAY),
        counter=address(count_word, *_TO_COUNT),
    )


@inlined
def walk_steps(
    chains: Chains,
    tally: Tally,
    pulls: WordArray,
    steps: Steps,
    plan: StepPlan,
    environment_rng: WordArray,
    policy_rng: WordArray,
    budget: int,
    horizon: int,
    step: int,
    at_once: int,
) -> int:
    """Play an episode's steps, counted from `step`; return the reward, or -1 - step if the index is NaN there.

    The coins of `at_once` words are made together.
    """
    how, coins, reward, left = plan.choosing, steps.coins, 0, horizon
    pack(chains.state, coins.states, NONE)
    while left > 0:
        words = min(at_once, (left + 63) // 64)
        for word in range(words):
            bits = min(left, 64)
            call(how.maker, chains, coins, environment_rng, words, word)
            ended = call_user(how.player, plan, steps, policy_rng, budget, bits, step)
            if ended < 0:
                return ended
            reward += call(how.counter, chains, tally, coins, pulls, bits)
            left -= bits
            step += bits
    return reward
