r"""Step by step: Q-learning by state and age, for arms that have a number of pulls in every window (FaWT-Q).

An arm's *age* l is the steps since its last pull. Let s be its state, a the action, s' the next state and l' the next
age. There are three ways to move Q(s, l, a), and one index, Q(s, l, 1) - Q(s, l, 0):

- *relative*, ours: by 1 / (n + 1) towards :math:`s' + \beta (\max_{a'} Q(s', l', a') - \bar Q)`, with n the visits to
  (s, l, a) before and :math:`\bar Q` the mean of all values that were ever moved (:mod:`meritfair.engine.q_learning`
  says why);
- *constant*, of Li and Varakantham's release: half of the way towards :math:`s' + \beta \max_{a'} Q(s', l, a')`, where
  the age is that of now;
- *published*, of the MF-RMAB repository: by 1 / (n + 1) towards :math:`s + \beta \max_{a'} Q(s', l', a')`, where visits
  are counted at (s, l', a) and read at (s, l, a), and arms are ranked by a table of indices of which only that of
  (s, l') is refreshed. A pull has l' = 0, so n is 0 for pulls at any other age: Q is then what came of the last pull,
  whatever came of those before. *Mended*, counts and indices are of (s, l).

A memory has a row for each arm: settings and totals in five columns, then four for each state and age, then an index
for each state and age if they are published, then the windows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from meritfair.core.arrays import FloatArray, IntArray
from meritfair.engine.compiling import part, stage
from meritfair.engine.windows import keep_windows, note_pulls, setting

_AGES, _DISCOUNT, _AGE, _MET, _TOTAL, _VALUES = range(6)
_SEEN = 2  # of the four columns, two are values Q of the actions, and two say how often each was seen
_RATE = 0.5  # the constant one


def new_values(ages: int, discount: float, *, keep_indices: bool = False) -> FloatArray:
    """Return what is known at the start about the values of an arm, shape (5 + 8 ages,), or 10 ages with indices."""
    row = np.zeros(_VALUES + (10 if keep_indices else 8) * ages)
    row[_AGES], row[_DISCOUNT], row[_AGE] = ages, discount, -1  # at the first step it will be 0
    return row


@part
def _cell(ages: int, state: int, age: int) -> Any:
    """Return the first of the four columns of a state and age."""
    return _VALUES + 4 * (ages * state + age)


@part
def _next_age(ages: int, age: int, action: int) -> Any:
    """Return the age after this action; those that are not told apart are the last."""
    return 0 if action else min(age + 1, ages - 1)


@stage
def rank_by_values(
    memory: FloatArray, states: IntArray, last_actions: IntArray, step: int, exploring: bool, index: FloatArray
) -> None:
    """Set the index of each arm to Q(1) - Q(0) at its state and age, or to 0 if exploring, and keep the windows."""
    ages = setting(memory, _AGES)
    for arm in range(len(states)):
        memory[arm, _AGE] = age = _next_age(ages, np.int64(memory[arm, _AGE]), last_actions[arm])
        cell = _cell(ages, states[arm], age)
        index[arm] = 0.0 if exploring else memory[arm, cell + 1] - memory[arm, cell]
    note_pulls(memory, last_actions, step, _VALUES + 8 * ages)
    keep_windows(memory, index, step, _VALUES + 8 * ages)


@stage
def rank_by_kept_indices(
    memory: FloatArray, states: IntArray, last_actions: IntArray, step: int, exploring: bool, index: FloatArray
) -> None:
    """Set the index of each arm to the one kept for its state and age, or to 0 if exploring, and keep the windows."""
    ages = setting(memory, _AGES)
    kept = _VALUES + 8 * ages
    for arm in range(len(states)):
        memory[arm, _AGE] = age = _next_age(ages, np.int64(memory[arm, _AGE]), last_actions[arm])
        index[arm] = 0.0 if exploring else memory[arm, kept + ages * states[arm] + age]
    note_pulls(memory, last_actions, step, kept + 2 * ages)
    keep_windows(memory, index, step, kept + 2 * ages)


@stage
def learn_relative(memory: FloatArray, states: IntArray, actions: IntArray, next_states: IntArray) -> None:
    """Move Q at the state, age and action of each arm towards what came of it, by 1 / (n + 1) of the way.

    The sum of an arm's values, and the number of those that were ever moved, are kept along.
    """
    for arm in range(len(states)):
        ages, age, action = np.int64(memory[arm, _AGES]), max(0, np.int64(memory[arm, _AGE])), actions[arm]
        cell, after = _cell(ages, states[arm], age), _cell(ages, next_states[arm], _next_age(ages, age, action))
        best, mean = max(memory[arm, after], memory[arm, after + 1]), memory[arm, _TOTAL] / max(1.0, memory[arm, _MET])
        target = next_states[arm] + memory[arm, _DISCOUNT] * (best - mean)
        seen = memory[arm, cell + _SEEN + action]
        move = (target - memory[arm, cell + action]) / (seen + 1.0)
        memory[arm, cell + action] += move
        memory[arm, cell + _SEEN + action] = seen + 1.0
        memory[arm, _TOTAL] += move
        memory[arm, _MET] += seen == 0.0


@stage
def learn_at_constant_rate(memory: FloatArray, states: IntArray, actions: IntArray, next_states: IntArray) -> None:
    """Move Q at the state, age and action of each arm half of the way towards what came of it."""
    for arm in range(len(states)):
        ages, age, action = np.int64(memory[arm, _AGES]), max(0, np.int64(memory[arm, _AGE])), actions[arm]
        cell, after = _cell(ages, states[arm], age), _cell(ages, next_states[arm], age)
        target = next_states[arm] + memory[arm, _DISCOUNT] * max(memory[arm, after], memory[arm, after + 1])
        memory[arm, cell + action] += _RATE * (target - memory[arm, cell + action])


@part
def _learn_with_kept_index(
    memory: FloatArray, arm: int, state: int, action: int, next_state: int, mended: bool
) -> None:
    """Move Q of an arm as published: counts and the index refreshed are of the next age, or, mended, of its own."""
    ages, age = np.int64(memory[arm, _AGES]), max(0, np.int64(memory[arm, _AGE]))
    new = _next_age(ages, age, action)
    at = age if mended else new
    cell, after, counted = _cell(ages, state, age), _cell(ages, next_state, new), _cell(ages, state, at)
    memory[arm, counted + _SEEN + action] += 1.0
    target = state + memory[arm, _DISCOUNT] * max(memory[arm, after], memory[arm, after + 1])
    move = (target - memory[arm, cell + action]) / (memory[arm, cell + _SEEN + action] + 1.0)
    memory[arm, cell + action] += move
    memory[arm, _VALUES + 8 * ages + ages * state + at] = memory[arm, counted + 1] - memory[arm, counted]


@stage
def learn_as_published(memory: FloatArray, states: IntArray, actions: IntArray, next_states: IntArray) -> None:
    """Move Q as the MF-RMAB repository does, errors included."""
    for arm in range(len(states)):
        _learn_with_kept_index(memory, arm, states[arm], actions[arm], next_states[arm], False)


@stage
def learn_as_mended(memory: FloatArray, states: IntArray, actions: IntArray, next_states: IntArray) -> None:
    """Move Q as the MF-RMAB repository does, with visits and indices at the right age."""
    for arm in range(len(states)):
        _learn_with_kept_index(memory, arm, states[arm], actions[arm], next_states[arm], True)
