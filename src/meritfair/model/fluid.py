r"""What a budget is worth to a group of arms, and how to divide it between groups: the programme of equitable policies.

*One arm*, pulled a fraction p of the time by a policy that looks at its state, is good at best a fraction :math:`r(p)`
of the time. All policies lie between the four that pull always or never in each of the two states, so r is the upper
hull of four points. With :math:`p_{sa}` the probability of a good next state, :math:`d_s = p_{s1} - p_{s0}` and hi the
state with the larger d, it goes from never pulling to pulling in hi only, with slope :math:`W(hi)`, and on to pulling
always, with slope :math:`W(lo) \le W(hi)`: the slopes are the Whittle indices for the average reward (`whittle_index`).
To see it, take two policies that differ only in state s: what the pulls in s gain, over how many they are, is
:math:`d_s / (1 - k_a)`, where a is the action in the other state and :math:`k_a = p_{1a} - p_{0a}`. From never pulling,
both states have the same denominator, so the larger d is steeper; and

.. math:: d_{hi} (1 - k_1) - d_{lo} (1 - k_0) = (d_{hi} - d_{lo}) (1 - p_{10} + p_{01}) \ge 0

if hi is the bad state, with :math:`1 - p_{11} + p_{00}` in its place if hi is the good one: the slopes fall.

*A group* that may pull b of its arms, on average over time, is good at best
:math:`\max \sum_i r_i(p_i)` with :math:`\sum_i p_i = b` in all: the segments of its arms, from the steepest down. This
is the fluid relaxation; to pull exactly b arms at each step, those with the largest index, comes the closer to it the
larger the group. Which of its arms are pulled is decided at each step, but how many for a whole episode: b = 1.3 are 2
arms in three episodes of ten, and 1 in seven. So between whole numbers the worth :math:`R_g(b)` of a budget is what
lies between: :math:`R_g` is concave, and straight from each whole number to the next.

*Between groups*, :math:`b_g` are chosen that sum to K. Because K arms are pulled at each step, also where that harms,
they are filled in three phases: steps of :math:`R_g` that gain, then those that change nothing (all in the same
proportion), then those that lose. With :math:`n_g` arms in group g,

* ``maximin`` raises the lowest mean reward :math:`R_g(b_g) / n_g`, then the next lowest that can still be raised, and
  so on: a level rises, and each group is filled up to it; in the last phase the level falls;
* ``nash`` makes :math:`\prod_g R_g(b_g) / n_g` as large as possible, groups counting alike whatever their size. There
  :math:`R_g' / R_g` is the same for all that are between two steps, so :math:`x = R_g / R_g'` rises, and each group is
  filled up to it; a step of gain :math:`\Delta` from R is filled from :math:`x = R / \Delta` to
  :math:`R / \Delta + 1`.

Either way the parts filled are straight in what rises, between the points where some step begins or ends: two of these
are found by bisection, and the answer lies between them, without iteration.

References
----------
J. A. Killian, M. Jain, Y. Jia, J. Amar, E. Huang and M. Tambe, "Equitable Restless Multi-Armed Bandits: A General
Framework Inspired By Digital Health", 2023. P. Whittle, "Restless bandits: activity allocation in a changing world",
J. Appl. Probab. 25A (1988).
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from meritfair.core.arrays import FloatArray, IntArray
from meritfair.core.checks import check_budget, check_choice, float_array
from meritfair.core.errors import InputError
from meritfair.model.benefit import steady_state
from meritfair.model.whittle import whittle_index

WELFARES = ("maximin", "nash")
_NOTHING = 1e-13  # a step that changes a group's mean reward by less is left to the second phase


@dataclass(frozen=True, eq=False)
class ArmWorth:
    """The long-run probability of the good state of each arm, as a function of how often it is pulled.

    Attributes
    ----------
    never : ndarray, shape (..., N)
        If it is never pulled.
    slope : ndarray, shape (..., N, 2)
        What more pulls gain, up to the kink and from there on.
    kink : ndarray, shape (..., N)
        How often it is pulled if that is done in one of the two states only, the one where it is worth more.
    """

    never: FloatArray
    slope: FloatArray
    kink: FloatArray

    def at(self, pulled: npt.ArrayLike) -> FloatArray:
        """Return the worth of arms that are pulled a fraction of the time: one number, or one for each."""
        p = float_array("pulled", pulled)
        first = np.minimum(p, self.kink)
        return np.asarray(self.never + self.slope[..., 0] * first + self.slope[..., 1] * (p - first))


@dataclass(frozen=True, eq=False)
class GroupWorth:
    """How many arms of each group are good in the long run, as a function of how many of it are pulled at a step.

    Attributes
    ----------
    size : ndarray of int, shape (G,)
        Arms of each group.
    never : ndarray, shape (G,)
        If none is pulled.
    gain : ndarray, shape (N,)
        What one more pull gains, from the first pull of the first group to the last of the last.
    """

    size: IntArray
    never: FloatArray
    gain: FloatArray

    @property
    def group(self) -> IntArray:
        """The group of each step, shape (N,)."""
        return np.repeat(np.arange(len(self.size)), self.size)

    @property
    def before(self) -> FloatArray:
        """The worth that each step starts from, shape (N,)."""
        start = np.cumsum(self.gain) - self.gain
        first = np.cumsum(self.size) - self.size
        return np.asarray(start - (start[first] - self.never)[self.group])

    def at(self, budgets: npt.ArrayLike) -> FloatArray:
        """Return the worth of a budget for each group, shape (G,)."""
        b = float_array("budgets", budgets)
        step = np.arange(len(self.gain)) - (np.cumsum(self.size) - self.size)[self.group]
        filled = np.clip(b[self.group] - step, 0.0, 1.0)
        return self.never + np.bincount(self.group, filled * self.gain, len(self.size))


def arm_worth(transitions: npt.ArrayLike) -> ArmWorth:
    """Return what pulls are worth to each arm in the long run.

    Parameters
    ----------
    transitions : array_like, shape (..., N, 2, 2)
        Probability that the next state is good, by arm, state and action.

    Examples
    --------
    >>> worth = arm_worth([[[0.2, 0.8], [0.6, 0.7]]])
    >>> worth.never.round(4), worth.kink.round(4), worth.slope.round(4)
    (array([0.3333]), array([0.3333]), array([[1.    , 0.0909]]))
    >>> worth.at([1.0]).round(4)    # always pulled: 0.8 / (1 - 0.7 + 0.8)
    array([0.7273])
    """
    P = float_array("transitions", transitions)
    never, index = steady_state(P, 0.0), whittle_index(P)
    steady_state(P, 1.0)  # refuses an arm that would stay where it is forever
    good_first = P[..., 1, 1] - P[..., 1, 0] >= P[..., 0, 1] - P[..., 0, 0]
    enters = np.where(good_first, P[..., 0, 0], 1 - P[..., 1, 0])  # from the other state to the one where it is pulled
    leaves = np.where(good_first, 1 - P[..., 1, 1], P[..., 0, 1])
    moves = enters + leaves  # if it never does, both slopes are the same
    kink = np.where(moves > 0, enters / np.where(moves > 0, moves, 1.0), 0.5)
    return ArmWorth(never, np.where(good_first[..., None], index[..., ::-1], index), kink)


def group_worth(transitions: npt.ArrayLike, groups: npt.ArrayLike) -> GroupWorth:
    """Return what pulls are worth to each group in the long run.

    Parameters
    ----------
    transitions : array_like, shape (N, 2, 2)
        Probability that the next state is good, by arm, state and action.
    groups : array_like of int, shape (N,)
        The group of each arm, 0 to G - 1; none is empty.

    Examples
    --------
    >>> arms = [[[0.2, 0.8], [0.6, 0.7]], [[0.1, 0.3], [0.8, 0.9]], [[0.4, 0.4], [0.5, 0.9]]]
    >>> worth = group_worth(arms, [0, 0, 1])
    >>> worth.never.round(4), worth.gain.round(4)
    (array([0.6667, 0.4444]), array([0.6667, 0.1439, 0.3556]))
    """
    worth, g = arm_worth(transitions), np.asarray(groups)
    N = len(worth.kink)
    if g.shape != (N,) or not np.array_equal(np.unique(g), np.arange(g.max() + 1)):
        raise InputError(f"groups must number the groups of the {N} arms from 0, with none empty, got {groups!r}")
    slope, length = worth.slope.ravel(), np.stack([worth.kink, 1 - worth.kink], axis=-1).ravel()
    order = np.lexsort((-slope, np.repeat(g, 2)))  # by group, the steepest first
    pulled, gained = (np.concatenate([[0.0], np.cumsum(x[order])]) for x in (length, slope * length))
    gain = np.diff(np.interp(np.arange(N + 1), pulled, gained))  # lengths of a group add up to its size
    return GroupWorth(np.bincount(g), np.asarray(np.bincount(g, worth.never), np.float64), gain)


def divide_budget(worth: GroupWorth, budget: int, welfare: Any = "maximin") -> FloatArray:
    """Divide a budget between groups.

    Parameters
    ----------
    worth : GroupWorth
    budget : int
        Arms pulled at each step.
    welfare : {"maximin", "nash"}
        Raise the group that is worst off, or the product of all.

    Returns
    -------
    ndarray, shape (G,)
        How many arms of each group are pulled at each step, on average; they sum to the budget.

    Examples
    --------
    The first group has no good state without pulls, the second has; the third gains nothing.

    >>> worth = GroupWorth(np.array([2, 2, 1]), np.array([0.0, 1.0, 0.9]), np.array([0.8, 0.6, 0.4, 0.2, 0.0]))
    >>> divide_budget(worth, 2, "maximin").round(4)
    array([1.6, 0.4, 0. ])
    >>> divide_budget(worth, 3, "nash").round(4)
    array([2., 1., 0.])
    """
    check_choice("welfare", welfare, WELFARES)
    left = float(check_budget(budget, len(worth.gain)))
    mean_gain, gain, before = worth.gain / worth.size[worth.group], worth.gain, worth.before
    filled = np.zeros(len(gain))
    for phase in (mean_gain > _NOTHING, np.abs(mean_gain) <= _NOTHING, mean_gain < -_NOTHING):
        part = min(left, float(phase.sum()))
        left -= part
        if part == phase.sum() or np.all(np.abs(mean_gain[phase]) <= _NOTHING):
            filled[phase] = part / max(1, phase.sum())
        elif welfare == "nash":
            start = before[phase] / gain[phase]
            filled[phase] = _fill(part, start, start + 1)
        else:
            level = before[phase] / worth.size[worth.group][phase] * np.sign(gain[phase])
            filled[phase] = _fill(part, level, level + np.abs(mean_gain[phase]))
    return np.minimum(np.bincount(worth.group, filled, len(worth.size)), worth.size)


def _fill(total: float, start: FloatArray, end: FloatArray) -> FloatArray:
    """Return how full each step is, 0 to 1, when a common level has risen so far that `total` are full in all."""
    levels = np.unique(np.concatenate([start, end]))

    def full(level: float) -> FloatArray:
        return np.clip((level - start) / (end - start), 0.0, 1.0)

    high = bisect_right(levels, total, 1, len(levels) - 1, key=lambda level: float(full(level).sum()))
    less, more = full(levels[high - 1]), full(levels[high])
    span = float(more.sum() - less.sum())
    return less + (more - less) * ((total - less.sum()) / span if span > 0 else 0.0)
