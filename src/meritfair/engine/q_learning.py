r"""Step by step: Q-learning of what a pull is worth, for each arm by itself.

Both kinds here are *relative*: from what a step is worth, the mean of the arm's four values Q(s, a) is subtracted,

.. math:: \max_{a'} Q(s', a') - \tfrac14 \sum_{s, a} Q(s, a) .

A constant that is added to all four values adds nothing to this. So values neither drift away without a discount nor
have to climb to a common level with one, and what they converge to is the same but for a constant, which no
index sees.

A memory has a row for each arm; the column of (s, a) is 2 s + a after the first of its four.
"""

from __future__ import annotations

import numpy as np

from meritfair.core.arrays import FloatArray, IntArray
from meritfair.engine.compiling import part, stage


@part
def _relative(memory: FloatArray, arm: int, first: int, after: int) -> float:
    """Return how much more a state is worth than the mean of the four values that begin in this column."""
    best = max(memory[arm, first + 2 * after], memory[arm, first + 2 * after + 1])
    total = memory[arm, first] + memory[arm, first + 1] + memory[arm, first + 2] + memory[arm, first + 3]
    return best - 0.25 * total


@stage
def explore_less(memory: FloatArray, step: int) -> float:
    """Return the chance to explore, N / (N + t)."""
    return len(memory) / (len(memory) + step)


# ---- values by state and action: WIQL

_VALUES, _SEEN, _DISCOUNT, _COLUMNS = 0, 4, 8, 9


def new_values(discount: float) -> FloatArray:
    """Return what is known at the start about the values of an arm: a row of 9 columns."""
    row = np.zeros(_COLUMNS)
    row[_DISCOUNT] = discount
    return row


@stage
def rank_by_values(
    memory: FloatArray, states: IntArray, _last_actions: IntArray, _step: int, exploring: bool, index: FloatArray
) -> None:
    """Set the index of each arm to Q(s, 1) - Q(s, 0) at its state, or to 0 if exploring."""
    for arm in range(len(states)):
        at = _VALUES + 2 * states[arm]
        index[arm] = 0.0 if exploring else memory[arm, at + 1] - memory[arm, at]


@stage
def learn_values(memory: FloatArray, states: IntArray, actions: IntArray, next_states: IntArray) -> None:
    """Move Q at the state and action of each arm towards what came of it, by 1 / (n + 1) of the way."""
    for arm in range(len(states)):
        at, after = 2 * states[arm] + actions[arm], next_states[arm]
        seen = memory[arm, _SEEN + at]
        target = after + memory[arm, _DISCOUNT] * _relative(memory, arm, _VALUES, after)
        memory[arm, _VALUES + at] += (target - memory[arm, _VALUES + at]) / (seen + 1.0)
        memory[arm, _SEEN + at] = seen + 1.0


# ---- a subsidy for each state, and the values by state and action under each: AB-Whittle

_SUBSIDIES, _VISITS, _EXPLORATION, _FAST, _SLOW, _WIDTH = 8, 10, 14, 15, 16, 17


def new_subsidies(exploration: float, fast: float, slow: float) -> FloatArray:
    """Return what is known at the start about an arm: a row of 17 columns, which begins with Q_0 and Q_1."""
    row = np.zeros(_WIDTH)
    row[_EXPLORATION], row[_FAST], row[_SLOW] = exploration, fast, slow
    return row


@stage
def rank_by_subsidies(
    memory: FloatArray, states: IntArray, _last_actions: IntArray, _step: int, exploring: bool, index: FloatArray
) -> None:
    """Set the index of each arm to the subsidy of its state, or to 0 if exploring."""
    for arm in range(len(states)):
        index[arm] = 0.0 if exploring else memory[arm, _SUBSIDIES + states[arm]]


@stage
def learn_subsidies(memory: FloatArray, states: IntArray, actions: IntArray, next_states: IntArray) -> None:
    """Move the values under both subsidies by a fast step, then both subsidies by a slow one."""
    for arm in range(len(states)):
        at, after = 2 * states[arm] + actions[arm], next_states[arm]
        visits = memory[arm, _VISITS + at] + 1.0
        memory[arm, _VISITS + at] = visits
        steps = memory[arm, _VISITS] + memory[arm, _VISITS + 1] + memory[arm, _VISITS + 2] + memory[arm, _VISITS + 3]
        fast, slow = visits ** -memory[arm, _FAST], steps ** -memory[arm, _SLOW]
        for x in range(2):
            values, subsidy = 4 * x, memory[arm, _SUBSIDIES + x]
            target = after + (1 - actions[arm]) * subsidy + _relative(memory, arm, values, after)
            memory[arm, values + at] += fast * (target - memory[arm, values + at])
            here = values + 2 * x
            memory[arm, _SUBSIDIES + x] = subsidy + slow * (memory[arm, here + 1] - memory[arm, here])


@stage
def explore_by_setting(memory: FloatArray, _step: int) -> float:
    """Return the chance to explore that was set: that of the last arm, if arms differ because some have joined."""
    return memory[len(memory) - 1, _EXPLORATION]
