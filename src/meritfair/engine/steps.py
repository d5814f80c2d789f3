"""Step by step: plans that look at the states, and perhaps learn, at every step.

At each step a *ranker* gives every arm an index, a *chooser* picks K arms by it, and a *learner* learns from what
happened; an *explorer* says how likely a step is one that explores. All four are stages, so the loop is compiled once
for all plans, and a plan brings along only what is its own. A priority table is a ranker that looks into it.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numba
import numpy as np

from meritfair.engine.bits import ALL, Word
from meritfair.engine.chains import LONGEST, SEEN, WAITED
from meritfair.engine.compiling import address, call_real, call_void, expect, inlined, own_stage, part, stage
from meritfair.engine.random import new_source, next_word, open_uniform, thresholds, uniform
from meritfair.engine.selection import smallest

if TYPE_CHECKING:
    from meritfair.core.arrays import FloatArray, IntArray, WordArray
    from meritfair.engine.chains import Tally

__all__ = [
    "Choosing",
    "Steps",
    "choose_in_groups",
    "choose_softly",
    "choose_top",
    "choosing",
    "new_quotas",
    "new_steps",
    "play_steps_of",
    "rank_by_table",
]


class Choosing(NamedTuple):
    """The addresses of what chooses at each step; 0 stands for what is not needed."""

    ranker: int
    learner: int
    explorer: int
    chooser: int


class Steps(NamedTuple):
    """Room to work in for plans that choose at each step."""

    limits: WordArray  # (N, 2, 2), the chances of the arms as thresholds
    ints: IntArray  # (4, N): states, states after the step, pulls; room for the pulls of a group
    floats: FloatArray  # (3, N): the index of each arm; room to select in; room for the index of a group
    quotas: IntArray  # (3, N + 1), as `new_quotas` makes it


_STATES, _FOLLOWING, _PULLS, _PULLS_OF_GROUP = range(4)
_INDEX, _SCRATCH, _INDEX_OF_GROUP = range(3)
_MEMBERS, _STARTS, _QUOTAS = range(3)  # rows of `quotas`


def new_steps(transitions: FloatArray) -> Steps:
    """Return the room for arms of these chances, shape (N, 2, 2)."""
    n_arms = len(transitions)
    room = np.zeros((4, n_arms), np.int64), np.zeros((3, n_arms)), np.zeros((3, n_arms + 1), np.int64)
    return Steps(thresholds(transitions), *room)


def new_quotas(groups: IntArray, quotas: IntArray) -> IntArray:
    """Return which arms are in which group and how many of each are pulled, as the chooser of groups reads it.

    The rows are: the arms, group by group, and in the end how many groups there are; where each group starts; how many
    of it are pulled.
    """
    n_groups = len(quotas)
    rows = np.zeros((3, len(groups) + 1), np.int64)
    rows[_MEMBERS, :-1], rows[_MEMBERS, -1] = np.argsort(groups, kind="stable"), n_groups
    rows[_STARTS, 1 : n_groups + 1] = np.cumsum(np.bincount(groups, minlength=n_groups))
    rows[_QUOTAS, :n_groups] = quotas
    return rows


@part
def _top(
    index: FloatArray, n: int, scratch: FloatArray, pulls: IntArray, source: WordArray, budget: int, guess: float
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
                pulls[arm] = uniform(source) * level < left
                left -= pulls[arm]
                level -= 1
    return last


@stage
def choose_top(
    floats: FloatArray, ints: IntArray, _quotas: IntArray, source: WordArray, budget: int, guess: float
) -> float:
    """Pull the K arms with the largest index."""
    index = floats[_INDEX]
    return _top(index, len(index), floats[_SCRATCH], ints[_PULLS], source, budget, guess)


@stage
def choose_softly(
    floats: FloatArray, ints: IntArray, _quotas: IntArray, source: WordArray, budget: int, guess: float
) -> float:
    """Draw K arms one after another with weights exp(index): the first to arrive in a race of these rates."""
    index = floats[_INDEX]
    for arm in range(len(index)):
        index[arm] -= np.log(-np.log(open_uniform(source)))
    return _top(index, len(index), floats[_SCRATCH], ints[_PULLS], source, budget, guess)


@stage
def choose_in_groups(
    floats: FloatArray, ints: IntArray, quotas: IntArray, source: WordArray, _budget: int, _guess: float
) -> float:
    """Pull the arms of each group with the largest index, as many as its quota says."""
    index, pulls = floats[_INDEX_OF_GROUP], ints[_PULLS_OF_GROUP]
    for group in range(quotas[_MEMBERS, -1]):
        start, n = quotas[_STARTS, group], quotas[_STARTS, group + 1] - quotas[_STARTS, group]
        quota = quotas[_QUOTAS, group]
        for i in range(n):
            index[i] = floats[_INDEX, quotas[_MEMBERS, start + i]]
            pulls[i] = 0
        if quota > 0 and np.isnan(_top(index, n, floats[_SCRATCH], pulls, source, quota, 0.0)):
            return np.nan
        for i in range(n):
            ints[_PULLS, quotas[_MEMBERS, start + i]] = pulls[i]
    return 0.0


@stage
def rank_by_table(
    table: FloatArray, states: IntArray, _pulled: IntArray, _step: int, _exploring: bool, index: FloatArray
) -> None:
    """Set the index of each arm at its state, from a table of shape (N, 2)."""
    for arm in range(len(states)):
        index[arm] = table[arm, states[arm]]


_LIKE = new_steps(np.full((1, 2, 2), 0.5))
_SOURCE = new_source(np.random.SeedSequence(0))
_MEMORY = np.zeros((1, 1))
_TO_RANK = _MEMORY, _LIKE.ints[0], _LIKE.ints[0], 1, True, _LIKE.floats[0]
_TO_LEARN = _MEMORY, _LIKE.ints[0], _LIKE.ints[0], _LIKE.ints[0]
_TO_EXPLORE = _MEMORY, 1
_TO_CHOOSE = _LIKE.floats, _LIKE.ints, _LIKE.quotas, _SOURCE, 1, 1.0
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
def _happens(source: WordArray, limit: Word) -> bool:
    """Toss one coin."""
    return next_word(source) < limit or limit == ALL


@inlined
def _move(steps: Steps, tally: Tally, source: WordArray) -> int:
    """Move all arms by one step and count; return how many are good after it."""
    good = 0
    for arm in range(steps.ints.shape[1]):
        state, action = steps.ints[_STATES, arm], steps.ints[_PULLS, arm]
        after = np.int64(_happens(source, steps.limits[arm, state, action]))
        steps.ints[_FOLLOWING, arm] = after
        tally.visits[state, action, arm] += 1.0
        tally.good[state, action, arm] += after
        tally.ints[SEEN, arm] |= 1 << (2 * state + action)
        waited = (tally.ints[WAITED, arm] + 1) * (1 - action)
        tally.ints[WAITED, arm] = waited
        tally.ints[LONGEST, arm] = max(tally.ints[LONGEST, arm], waited)
        good += after
    return good


@inlined
def play_steps_of(
    first_states: WordArray,
    tally: Tally,
    steps: Steps,
    environment: WordArray,
    luck: WordArray,
    how: Choosing,
    memory: FloatArray,
    budget: int,
    horizon: int,
    step: int,
) -> int:
    """Play an episode's steps, counted from `step`; return the reward, or -1 - step if the index has no number then.

    While arms are ranked, the pulls are those of the step before; those of the last step stay.
    """
    states, following, pulls = steps.ints[_STATES], steps.ints[_FOLLOWING], steps.ints[_PULLS]
    index, reward, last = steps.floats[_INDEX], 0, 0.0
    for arm in range(len(states)):
        states[arm] = np.int64(first_states[arm])
    for _ in range(horizon):
        exploring = False
        if how.explorer != 0:
            exploring = uniform(luck) < call_real(how.explorer, memory, step)
        call_void(how.ranker, memory, states, pulls, step, exploring, index)
        last = call_real(how.chooser, steps.floats, steps.ints, steps.quotas, luck, budget, last)
        if np.isnan(last):
            return -1 - step
        reward += _move(steps, tally, environment)
        if how.learner != 0:
            call_void(how.learner, memory, states, pulls, following)
        for arm in range(len(states)):
            states[arm] = following[arm]
        step += 1
    for arm in range(len(states)):
        first_states[arm] = np.uint64(states[arm])
    return reward
