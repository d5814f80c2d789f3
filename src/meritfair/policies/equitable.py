r"""Equitable: the budget is divided between groups so that no group is left behind; within a group, by index.

Group g, with :math:`n_g` arms, pulls :math:`b_g` of them at each step, which in the long run keeps at best
:math:`R_g(b_g)` of them in the good state (:mod:`meritfair.model.fluid`). The division has :math:`\sum_g b_g = K` and

.. math:: \max \min_g R_g(b_g) / n_g \quad (\text{maximin}) \qquad \text{or} \qquad
    \max \prod_g R_g(b_g) \quad (\text{nash}) ,

where ``maximin`` then raises the next worst group, and so on. In each episode :math:`b_g` is rounded up or down at
random, so that the quotas are K in all and :math:`b_g` on average, and at each step a group's quota goes to its arms
with the largest Whittle index for the average reward.

The paper has these two welfares, its maximin reward and maximum Nash welfare, and gives out the budget in whole units.
Here a group's reward is its long-run mean in the fluid relaxation, and the division is exact. With each arm a group of
its own, an arm is pulled throughout an episode or not at all, and :math:`b_g` is the share of episodes.

References
----------
J. A. Killian, M. Jain, Y. Jia, J. Amar, E. Huang and M. Tambe, "Equitable Restless Multi-Armed Bandits: A General
Framework Inspired By Digital Health", 2023.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from numbers import Integral
from typing import Any, ClassVar, TypeAlias

import numpy as np

from meritfair.core.arrays import FloatArray, IntArray, frozen
from meritfair.core.checks import check_choice
from meritfair.core.errors import InputError
from meritfair.model.fluid import WELFARES, divide_budget, group_worth
from meritfair.model.whittle import whittle_index
from meritfair.policies.base import Estimator, check_estimate
from meritfair.policies.plans import PriorityTable
from meritfair.policies.view import KNOWN, View

Labels: TypeAlias = "str | Sequence[str | int]"
_ROUNDING = 1e-10


@dataclass(frozen=True)
class Equitable(Estimator):
    """Divides the budget between groups so as to raise the worst off, and pulls by index within each.

    Parameters
    ----------
    groups : sequence of str or int, optional
        A label for each arm; arms with the same label are a group. A plain string has one character for each arm.
        None: each arm is a group of its own.
    welfare : {"maximin", "nash"}
        Raise the group that is worst off, or the product of what all groups have.
    estimate : {"known", "optimistic", "pessimistic", "mean", "pooled", "thompson"}
        Which arms it plans for: the true ones, or a point of the confidence ball.
    delta : float
        Probability that the ball misses the truth, strictly between 0 and 1; for estimates other than ``known``.

    Examples
    --------
    Pulls help the first group more, and the second is worse off: ``maximin`` serves the second, ``nash`` the first.

    >>> from meritfair import Counts
    >>> truth = np.array([[[0.2, 0.6], [0.5, 0.9]]] * 2 + [[[0.1, 0.2], [0.3, 0.4]]] * 2)
    >>> view = View(Counts.none(4), 1, 2, truth, rngs=(np.random.default_rng(1),))
    >>> Equitable(groups="aabb").plan(view).quotas, Equitable(groups="aabb", welfare="nash").plan(view).quotas
    (array([0, 2]), array([2, 0]))
    """

    name: ClassVar[str] = "equitable"
    groups: Labels | None = None
    welfare: str = "maximin"
    estimate: str = KNOWN
    delta: float = 0.01

    def __post_init__(self) -> None:
        object.__setattr__(self, "groups", _labels(self.groups))
        check_choice("welfare", self.welfare, WELFARES)
        check_estimate(self)

    def plan(self, view: View) -> PriorityTable:
        shape = view.counts.visits.shape
        arms = np.broadcast_to(view.estimated_transitions(self.estimate, self.delta), shape)
        groups = self._numbers(view.n_arms)
        find = _divide if self.oracle else _divide.__wrapped__  # what is known stays the same
        index, budgets = find(arms.tobytes(), shape, groups.tobytes(), view.budget, self.welfare)
        return PriorityTable(index, groups=groups, quotas=_round(budgets, view.rngs))

    def _numbers(self, n_arms: int) -> IntArray:
        """Return the group of each arm, counted from 0."""
        if self.groups is None:
            return np.arange(n_arms)
        if len(self.groups) != n_arms:
            raise InputError(f"groups must have one label for each of the {n_arms} arms, got {len(self.groups)}")
        number: dict[str | int, int] = {}
        return np.array([number.setdefault(label, len(number)) for label in self.groups])


def _labels(groups: Any) -> tuple[str | int, ...] | None:
    """Return the label of each arm as a plain value."""
    if groups is None:
        return None
    problem = f"groups must be a label for each arm, such as 'aabb' or ['north', 'north', 'south'], got {groups!r}"
    try:
        labels = tuple(groups)
    except TypeError:
        raise InputError(problem) from None
    if not labels or not all(isinstance(label, (str, Integral)) for label in labels):
        raise InputError(problem)
    return tuple(str(label) if isinstance(label, str) else int(label) for label in labels)


@lru_cache(maxsize=4)
def _divide(
    transitions: bytes, shape: tuple[int, ...], groups: bytes, budget: int, welfare: str
) -> tuple[FloatArray, FloatArray]:
    """Return the index, shape (..., N, 2), and how many arms of each group are pulled, shape (..., G)."""
    P, group = np.frombuffer(transitions).reshape(shape), np.frombuffer(groups, np.int64)
    runs = P.reshape(-1, *shape[-3:])
    budgets = np.array([divide_budget(group_worth(arms, group), budget, welfare) for arms in runs])
    return frozen(whittle_index(P)), frozen(budgets.reshape(*shape[:-3], -1))


def _round(budgets: FloatArray, rngs: tuple[np.random.Generator, ...]) -> IntArray:
    """Return budgets rounded up or down at random, each with its own mean, and with the same sum in all.

    By systematic sampling: what budgets have over a whole number is laid end to end, in random order, on a line that
    has a mark at every whole number and is moved at random; who has a mark is rounded up.
    """
    whole = np.floor(budgets + _ROUNDING).astype(np.int64)
    quotas, over = whole.reshape(-1, whole.shape[-1]), (budgets - whole).reshape(-1, whole.shape[-1])
    for run, part in enumerate(over):
        between = np.flatnonzero(part > _ROUNDING)
        if len(between):
            if run >= len(rngs):
                raise InputError("the policy 'equitable' needs a generator for each run")
            order = rngs[run].permutation(between)
            ends = np.cumsum(part[order])
            ends[-1] = np.rint(ends[-1])
            quotas[run, order] += np.diff(np.floor(ends + rngs[run].random()), prepend=0.0).astype(np.int64)
    return whole
