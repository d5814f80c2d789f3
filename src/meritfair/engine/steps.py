"""Step by step: plans that look at the states, and perhaps learn, at every step.

At each step a *ranker* gives every arm an index, a *chooser* picks K arms by it, and a *learner* learns from what
happened; an *explorer* says how likely a step is one that explores. All four are stages, so the loop is compiled once
for all plans, and a plan brings along only what is its own. A priority table is a ranker that looks into it.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numba
import numpy as np

from meritfair.core.arrays import FloatArray, IntArray, WordArray
from meritfair.engine.bits import ALL, Word
from meritfair.engine.chains import Tally
from meritfair.engine.compiling import address, call_real, call_void, expect, inlined, own_stage, part, stage
from meritfair.engine.random import new_source, next_word, open_uniform, thresholds, uniform
from meritfair.engine.selection import smallest


class Choosing(NamedTuple):
    """The addresses of what chooses at each step; 0 stands for what is not needed."""

    ranker: int
    learner: int
    explorer: int
    chooser: int


class Steps(NamedTuple):
    """Room for plans that choose at each step."""

    limits: WordArray  # (N, 2, 2), the transition probabilities as thresholds
    states: IntArray  # (N,)
    actions: IntArray  # (N,), 1 for those who are pulled
    next_states: IntArray  # (N,)
    index: FloatArray  # (N,), what arms are ranked by
    scratch: FloatArray  # (N,), to select in
    group_index: FloatArray  # (N,), the index of the arms of a group
    group_actions: IntArray  # (N,)


class Groups(NamedTuple):
    """Which arms are in which group, and how many of each are pulled."""

    members: IntArray  # (N,), the arms, group by group
    starts: IntArray  # (G + 1,), where each group starts among them, and where the last ends
    quotas: IntArray  # (G,)


class StepPlan(NamedTuple):
    """What a plan that chooses at each step brings along."""

    choosing: Choosing
    memory: FloatArray  # (N, m), what its stages keep
    groups: Groups


def new_steps(transitions: FloatArray) -> Steps:
    """Return the room for arms with these transition probabilities, shape (N, 2, 2)."""
    n_arms = len(transitions)
    states, actions, next_states, group_actions = np.zeros((4, n_arms), np.int64)
    index, scratch, group_index = np.zeros((3, n_arms))
    return Steps(thresholds(transitions), states, actions, next_states, index, scratch, group_index, group_actions)


def new_groups(groups: IntArray, quotas: IntArray) -> Groups:
    """Return the groups for arms of which each has a group, counted from 0."""
    sizes = np.bincount(groups, minlength=len(quotas))
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    return Groups(np.argsort(groups, kind="stable"), starts, np.array(quotas, np.int64))


NO_GROUPS = new_groups(np.zeros(0, np.int64), np.zeros(0, np.int64))


@part
def _top(
    index: FloatArray, n: int, scratch: FloatArray, pulls: IntArray, rng: WordArray, budget: int, guess: float
) -> float:
    """Pull the K of the first n arms with the largest index; ties at random, and -inf never.

    Return the smallest index of them, or NaN if some index is NaN.
    """
    numbers = True
    for arm in range(n):
        scratch[arm] = index[arm]
        numbers &= index[arm] == index[arm]
    if not numbers:
        return np.nan
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
            actions[i] = 0
        if quota > 0 and np.isnan(_top(index, n, steps.scratch, actions, rng, quota, 0.0)):
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


_LIKE = new_steps(np.full((1, 2, 2), 0.5))
_RNG = new_source(np.random.SeedSequence(0))
_MEMORY = np.zeros((1, 1))
_TO_RANK = _MEMORY, _LIKE.states, _LIKE.actions, 1, True, _LIKE.index
_TO_LEARN = _MEMORY, _LIKE.states, _LIKE.actions, _LIKE.next_states
_TO_EXPLORE = _MEMORY, 1
_TO_CHOOSE = _LIKE, NO_GROUPS, _RNG, 1, 1.0
for _arguments in (_TO_RANK, _TO_LEARN, _TO_EXPLORE, _TO_CHOOSE):
    expect(*_arguments)


@cache
def choosing(rank: Any, learn: Any = None, explore: Any = None, choose: Any = choose_top) -> Choosing:
    """Return the compiled stages of a plan that chooses at each step."""
    return Choosing(
        ranker=address(own_stage(rank), *_TO_RANK, returns=numba.void),
        learner=0 if learn is None else address(own_stage(learn), *_TO_LEARN, returns=numba.void),
        explorer=0 if explore is None else address(own_stage(explore), *_TO_EXPLORE, returns=numba.float64),
        chooser=address(choose, *_TO_CHOOSE, returns=numba.float64),
    )


@part
def _happens(rng: WordArray, limit: Word) -> bool:
    """Toss one coin."""
    return next_word(rng) < limit or limit == ALL


@inlined
def _move(steps: Steps, tally: Tally, rng: WordArray) -> int:
    """Move all arms by one step and count; return how many are good after it."""
    good = 0
    for arm in range(len(steps.states)):
        state, action = steps.states[arm], steps.actions[arm]
        after = np.int64(_happens(rng, steps.limits[arm, state, action]))
        steps.next_states[arm] = after
        tally.visits[state, action, arm] += 1.0
        tally.good[state, action, arm] += after
        tally.seen[arm] |= 1 << (2 * state + action)
        waited = (tally.waited[arm] + 1) * (1 - action)
        tally.waited[arm] = waited
        tally.longest_wait[arm] = max(tally.longest_wait[arm], waited)
        good += after
    return good


@inlined
def play_steps(
    first_states: WordArray,
    tally: Tally,
    steps: Steps,
    groups: Groups,
    environment_rng: WordArray,
    policy_rng: WordArray,
    choosing: Choosing,
    memory: FloatArray,
    budget: int,
    horizon: int,
    step: int,
) -> int:
    """Play an episode's steps, counted from `step`; return the reward, or -1 - step if the index is NaN there.

    While arms are ranked, the actions are those of the step before; those of the last step stay. `first_states` become
    the states after the last step.
    """
    states, actions, next_states = steps.states, steps.actions, steps.next_states
    reward, last = 0, 0.0
    for arm in range(len(states)):
        states[arm] = np.int64(first_states[arm])
    for _ in range(horizon):
        exploring = False
        if choosing.explorer != 0:
            exploring = uniform(policy_rng) < call_real(choosing.explorer, memory, step)
        call_void(choosing.ranker, memory, states, actions, step, exploring, steps.index)
        last = call_real(choosing.chooser, steps, groups, policy_rng, budget, last)
        if np.isnan(last):
            return -1 - step
        reward += _move(steps, tally, environment_rng)
        if choosing.learner != 0:
            call_void(choosing.learner, memory, states, actions, next_states)
        for arm in range(len(states)):
            states[arm] = next_states[arm]
        step += 1
    for arm in range(len(states)):
        first_states[arm] = np.uint64(states[arm])
    return reward
