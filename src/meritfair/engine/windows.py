r"""Step by step: a number of pulls for every arm in every window, and otherwise the arms with the largest index.

*Deadlines.* Every arm is to have at least :math:`\eta` pulls in any L steps in a row. Let :math:`t_1 < t_2 < \dots`
be the times of an arm's pulls, with :math:`\eta` pulls at times :math:`-\eta, \dots, -1` put before the first. If
each pull is followed by :math:`\eta` more within L steps,

.. math:: t_{j + \eta} \le t_j + L \quad \text{for all } j ,

then so is the last pull before any window, and these fall into the window. Conversely, the window that begins after
:math:`t_j` holds :math:`\eta` pulls only if this is so, and the window that begins at 0 only if its :math:`\eta`
pulls, one at a time, meet the deadlines :math:`L - \eta, \dots, L - 1` of those put before. So each arm has
:math:`\eta` deadlines to meet, L after its last :math:`\eta` pulls, all different; a pull meets the first,
:math:`d_i`, and adds one at now + L.

*What can be kept.* Let :math:`n(\tau)` be the number of deadlines of all arms up to :math:`\tau`. K pulls a step meet
them only if

.. math:: n(\tau) \le K (\tau - now + 1) \quad \text{for all } \tau \ge now , \qquad (1)

and that is enough, as will be seen. At the start it says :math:`N (\eta - j) \le K (L - j)` for :math:`j < \eta`,
which follows from :math:`N \eta \le K L` and :math:`N \ge K`. If the set S of K arms is pulled, then (1) holds at the
next step if and only if S has enough arms that are due soon,

.. math::
    |\{ i \in S : d_i \le \tau \}| \ge need(\tau) = n(\tau) - K (\tau - now)
    \quad \text{for all } \tau ; \qquad (2)

for :math:`\tau = now` this is that no deadline passes, and from :math:`\tau = now + L` on, where all deadlines have
come, it is :math:`N \eta \le K L` once more. By (1) no need is above K. The K arms that are due first always satisfy
(2): if K arms or more have :math:`d_i \le \tau`, then K of them are pulled. If only a < K have, all of these are, and
each has at most :math:`\tau - now + 1` deadlines up to :math:`\tau`, as they differ; so :math:`n(\tau) \le a + a
(\tau - now)`, and the need is at most a. Hence (1) can be kept for ever, and a set S is one from which all windows
can be kept if and only if (2).

*The best such set.* Go through :math:`\tau` upwards. Where more are needed than were picked so far, pick the arms
with the largest index among those with :math:`d_i \le \tau`; in the end fill up with the largest of all. No set with
(2) has a larger sum of indices. For let S be one that holds all arms picked before :math:`\tau`, but not i, which is
picked there. As S meets the need at :math:`\tau`, it has some other arm k with :math:`d_k \le \tau` that was not
picked, so with no larger index. Put i in its place: later needs count both arms alike, and earlier ones are met by
those picked before. Step by step S becomes the set that is picked, and its sum never falls. A need is positive only
where :math:`\tau - now < N \eta / K`, so no more of the future is looked at.

*Ties.* Arms that are picked get an index of infinity. Where some that are level compete for the last places picked,
and no place is left after them, they share one index above all others, and whoever draws between equal indices draws
among them. Else that cannot be said by indices, so the draw is made here, by a hash of the step, the arm and a number
that each run has drawn for this at the start.

=====================  ================================
here                   is
=====================  ================================
``least``, ``window``  :math:`\eta`, L
``budget``             K
``outstanding``        :math:`n(\tau)`
``ahead``              :math:`\tau - now`
``oldest``             :math:`d_i - L`
=====================  ================================

Times are numbers of steps in a whole run, so windows continue from one episode into the next. An arm that was never
ranked before begins now; what is overdue, because an arm could not be pulled in time, counts as due now.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from meritfair.core.arrays import FloatArray, IntArray
from meritfair.engine.bits import Word
from meritfair.engine.compiling import part, stage
from meritfair.engine.selection import smallest

# The columns of the windows in a memory; they come after those of the policy itself. The first four are settings, the
# same for all arms; if they are not, because arms have joined, those of the last arm hold. The times of an arm's last
# pulls are a ring of `least` columns, of which `_SLOT` is the oldest, at time `_OLDEST`; as many follow, to count in.
_BUDGET, _LEAST, _WINDOW, _SALT, _SLOT, _OLDEST, _ROOM, _TIMES = range(8)

_LEVEL = 1e300  # an index above all others but infinity

_STRIDE = np.uint64(0x9E3779B97F4A7C15)
_FACTOR_1 = np.uint64(0xBF58476D1CE4E5B9)
_FACTOR_2 = np.uint64(0x94D049BB133111EB)


def new_windows(n_arms: int, budget: int, least: int, window: int, salt: FloatArray) -> FloatArray:
    """Return what is known at the start about the windows, shape (..., N, 7 + 2 least).

    `salt` holds a whole number from 0 to 2^53 for each run, by which it breaks ties.
    """
    memory = np.zeros((*salt.shape, n_arms, _TIMES + 2 * least))
    memory[..., _BUDGET], memory[..., _LEAST], memory[..., _WINDOW] = budget, least, window
    memory[..., _SALT] = salt[..., None]
    memory[..., _SLOT] = -1  # not ranked yet
    return memory


@part
def setting(memory: FloatArray, column: int) -> Any:
    """Return a setting: that of the last arm."""
    return np.int64(memory[len(memory) - 1, column])


@part
def note_pulls(memory: FloatArray, last_actions: IntArray, step: int, at: int) -> None:
    """Take note of who was pulled at the step before; `at` is where the columns of the windows begin."""
    least = setting(memory, at + _LEAST)
    for arm in range(len(memory)):
        slot = np.int64(memory[arm, at + _SLOT])
        if slot < 0:
            for j in range(least):
                memory[arm, at + _TIMES + j] = step - least + j
            memory[arm, at + _SLOT], memory[arm, at + _OLDEST] = 0.0, step - least
        elif last_actions[arm]:
            memory[arm, at + _TIMES + slot] = step - 1
            slot = 0 if slot + 1 == least else slot + 1
            memory[arm, at + _SLOT], memory[arm, at + _OLDEST] = slot, memory[arm, at + _TIMES + slot]


@part
def _count_deadlines(memory: FloatArray, step: int, span: int, at: int) -> None:
    """Count the deadlines that many steps ahead, from 0 to below span, down one column after another."""
    n, least, window = len(memory), setting(memory, at + _LEAST), setting(memory, at + _WINDOW)
    counts = at + _TIMES + least
    row, column = 0, counts
    for _ in range(span):
        memory[row, column] = 0.0
        row += 1
        if row == n:
            row, column = 0, column + 1
    for arm in range(n):
        for j in range(least):
            ahead = max(0, np.int64(memory[arm, at + _TIMES + j]) + window - step)
            if ahead < span:
                row, column = ahead, counts
                while row >= n:
                    row, column = row - n, column + 1
                memory[row, column] += 1.0


@part
def keep_windows(memory: FloatArray, index: FloatArray, step: int, at: int) -> None:
    """Raise the index of those arms that must be pulled now, so that all windows can be kept; others stay."""
    n, budget, least = len(memory), setting(memory, at + _BUDGET), setting(memory, at + _LEAST)
    span = (n * least + budget - 1) // budget
    _count_deadlines(memory, step, span, at)
    outstanding, picked = 0, 0
    row, column = 0, at + _TIMES + least
    for ahead in range(span):
        outstanding += np.int64(memory[row, column])
        need = min(outstanding - budget * ahead, budget)  # Eq. (2)
        if need > picked:
            _pick(memory, index, step, ahead, need - picked, need == budget, at)
            picked = need
        row += 1
        if row == n:
            row, column = 0, column + 1


@part
def _pick(memory: FloatArray, index: FloatArray, step: int, ahead: int, more: int, all_places: bool, at: int) -> None:
    """Set the index of that many more arms, the best of those due that many steps ahead, to infinity."""
    n, room, oldest = len(memory), memory[:, at + _ROOM], memory[:, at + _OLDEST]
    latest = np.float64(step + ahead - setting(memory, at + _WINDOW))
    level = 0  # first all who may be picked, then those who are level with the last
    for arm in range(n):
        room[level] = index[arm]
        level += oldest[arm] <= latest and index[arm] < np.inf
    last = smallest(room, level, level - more, room[0]) if more < level else -np.inf
    level, left = 0, more
    for arm in range(n):
        if oldest[arm] <= latest and last <= index[arm] < np.inf:
            level += index[arm] == last
            left -= index[arm] > last
    word = _mixed(np.uint64(setting(memory, at + _SALT)) + np.uint64(step) * _STRIDE)
    for arm in range(n):
        if oldest[arm] <= latest and last <= index[arm] < np.inf:
            if index[arm] > last or left == level:
                index[arm] = np.inf
            elif all_places:
                index[arm] = _LEVEL
            else:
                wins = _uniform(word, ahead * n + arm) * level < left
                level -= 1
                left -= wins
                index[arm] = np.inf if wins else index[arm]


@part
def _uniform(word: Word, place: int) -> float:
    """Return a number of [0, 1) that belongs to this place in the sequence that begins with this word."""
    return np.float64(_mixed(word + np.uint64(place) * _STRIDE) >> np.uint64(11)) * 1.1102230246251565e-16


@part
def _mixed(word: Word) -> Word:
    """Return a word each of whose bits depends on all bits of the one given: the last part of SplitMix64."""
    word = (word ^ (word >> np.uint64(30))) * _FACTOR_1
    word = (word ^ (word >> np.uint64(27))) * _FACTOR_2
    return word ^ (word >> np.uint64(31))


# ---- an index by arm and state: the memory begins with its two columns


@stage
def rank_by_table_in_windows(
    memory: FloatArray, states: IntArray, last_actions: IntArray, step: int, _exploring: bool, index: FloatArray
) -> None:
    """Set the index of each arm at its state, from the first two columns, and keep the windows."""
    note_pulls(memory, last_actions, step, 2)
    for arm in range(len(states)):
        index[arm] = memory[arm, states[arm]]
    keep_windows(memory, index, step, 2)
