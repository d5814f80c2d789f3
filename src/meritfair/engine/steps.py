"""Step by step: plans that look at the states, and perhaps learn, at every step.

At each step every arm has an index, and the K arms with the largest are pulled, ties at random. Two functions make a
plan: one ranks the arms, one learns from what happened. They are compiled into the loop.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from meritfair.engine.bits import ALL, Word
from meritfair.engine.chains import LONGEST, SEEN, WAITED
from meritfair.engine.compiling import inlined, kernel_not_kept, part
from meritfair.engine.random import next_word, thresholds, uniform
from meritfair.engine.selection import smallest

if TYPE_CHECKING:
    from collections.abc import Callable

    from meritfair.arrays import FloatArray, IntArray, WordArray
    from meritfair.engine.chains import Tally

__all__ = ["Steps", "new_steps", "step_player", "table_steps"]


class Steps(NamedTuple):
    """Room to work in for plans that choose at each step."""

    limits: WordArray  # (N, 2, 2), the chances of the arms as thresholds
    ints: IntArray  # (3, N): states, states after the step, pulls
    floats: FloatArray  # (2, N): the index of each arm; room to select in


_STATES, _FOLLOWING, _PULLS = range(3)
_INDEX, _SCRATCH = range(2)


def new_steps(transitions: FloatArray) -> Steps:
    """Return the room for arms of these chances, shape (N, 2, 2)."""
    n_arms = len(transitions)
    return Steps(thresholds(transitions), np.zeros((3, n_arms), np.int64), np.zeros((2, n_arms)))


@part
def _choose(
    index: FloatArray, scratch: FloatArray, pulls: IntArray, source: WordArray, budget: int, guess: float
) -> float:
    """Pull the K arms with the largest index; ties at random, and -inf never.

    Return the smallest index of them, or NaN if some index is NaN.
    """
    n_arms, numbers = len(index), True
    for arm in range(n_arms):
        scratch[arm] = index[arm]
        numbers &= index[arm] == index[arm]
    if not numbers:
        return np.nan
    last = smallest(scratch, n_arms, n_arms - budget, guess)
    level, left = 0, budget
    for arm in range(n_arms):
        level += index[arm] == last
        left -= index[arm] > last
    ties = last > -np.inf  # who is level with the last may be pulled
    certain = ties and left == level  # then nothing is left to chance
    for arm in range(n_arms):
        pulls[arm] = index[arm] > last or (certain and index[arm] == last)
    if ties and not certain:
        for arm in range(n_arms):
            if index[arm] == last:
                pulls[arm] = uniform(source) * level < left
                left -= pulls[arm]
                level -= 1
    return last


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


@part
def _rank_table(table: FloatArray, states: IntArray, _step: int, _luck: float, index: FloatArray) -> None:
    """Set the index of each arm at its state, from a table of shape (N, 2)."""
    for arm in range(len(states)):
        index[arm] = table[arm, states[arm]]


@part
def _learn_nothing(table: FloatArray, states: IntArray, pulls: IntArray, following: IntArray) -> None:
    """Leave the table as it is."""


def _loop(rank: Any, learn: Any) -> Callable[..., int]:
    """Return the loop over an episode's steps for these functions, to be compiled.

    It returns the reward, or -1 - step if the ranking of that step has no number for some arm.
    """

    def play(
        first_states: WordArray,
        tally: Tally,
        steps: Steps,
        environment: WordArray,
        luck: WordArray,
        memory: FloatArray,
        budget: int,
        horizon: int,
        step: int,
    ) -> int:
        states, following, pulls = steps.ints[_STATES], steps.ints[_FOLLOWING], steps.ints[_PULLS]
        index, reward, last = steps.floats[_INDEX], 0, 0.0
        for arm in range(len(states)):
            states[arm] = np.int64(first_states[arm])
        for _ in range(horizon):
            rank(memory, states, step, uniform(luck), index)
            last = _choose(index, steps.floats[_SCRATCH], pulls, luck, budget, last)
            if np.isnan(last):
                return -1 - step
            reward += _move(steps, tally, environment)
            learn(memory, states, pulls, following)
            for arm in range(len(states)):
                states[arm] = following[arm]
            step += 1
        for arm in range(len(states)):
            first_states[arm] = np.uint64(states[arm])
        return reward

    return play


table_steps = inlined(_loop(_rank_table, _learn_nothing))  # part of the kernels for priority tables


@cache
def step_player(rank: Callable[..., None], learn: Callable[..., None]) -> Callable[..., int]:
    """Return the compiled loop for a plan of one's own."""
    return kernel_not_kept(_loop(part(rank), part(learn)))
