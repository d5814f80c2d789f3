"""One step of live use: with which exposure each available arm is drawn, and who is pulled."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from meritfair.core.arrays import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Step:
    """What a plan does at one step."""

    exposure: FloatArray
    pulled: BoolArray
    memory: FloatArray | None  # after the step
    due: FloatArray  # the same as the exposure, unless the plan keeps accounts


@dataclass(frozen=True, eq=False)
class Situation:
    """The arms at one step, in the order of all arrays."""

    names: tuple[str, ...]
    states: IntArray  # -1 where it is not known
    available: BoolArray
    last_actions: IntArray  # at the step before
    turn: FloatArray  # grows with the step of the last pull
    memory: FloatArray | None  # (N, m), of a step learner
    step: int  # steps before this one
    account: FloatArray  # what each was due so far, less what it was given
    free: BoolArray  # who of those available may be pulled by the rules
    entitled: BoolArray  # who is due something
    most_due: float = 1.0  # at this step, by the rules
    believed: FloatArray | None = None  # how likely each arm is good, where its state is not known; None is 1/2

    @property
    def belief(self) -> FloatArray:
        """The probability that each arm is good, shape (N,): 0 or 1 where its state is known."""
        return np.where(self.states < 0, 0.5 if self.believed is None else self.believed, self.states)

    @classmethod
    def start(cls, names: tuple[str, ...], states: IntArray) -> Situation:
        """Return the first step of arms who are all there."""
        n, here = len(names), np.ones(len(names), np.bool_)
        return cls(names, states, here, np.zeros(n, np.int64), np.zeros(n), None, 0, np.zeros(n), here, here)

    def draw(self, how: Draw, budget: int, rng: np.random.Generator) -> Step:
        """Draw among those who are free; the others have an exposure of 0."""
        exposure, pulled = np.zeros(len(self.names)), np.zeros(len(self.names), np.bool_)
        most = min(budget, int(self.free.sum()))
        if most > 0:
            here = how.among(self.free, most)
            exposure[self.free], pulled[self.free] = here.exposure(most), here.draw(most, rng)
        return Step(exposure, pulled, self.memory, exposure.copy())


class Observed(NamedTuple):
    """Outcomes that were seen, at most one of each arm."""

    arms: IntArray  # places
    states: IntArray
    actions: IntArray
    next_states: IntArray


class Draw(Protocol):
    """A way to draw K arms whose states are known or do not matter."""

    def among(self, available: BoolArray, budget: int) -> Draw:
        """Return the draw among the available arms, with a budget of at most their number."""

    def exposure(self, budget: int) -> FloatArray:
        """Return the probability that each arm is pulled, shape (N,)."""

    def draw(self, budget: int, rng: np.random.Generator) -> BoolArray:
        """Draw who is pulled, shape (N,)."""


@dataclass(frozen=True, eq=False)
class Mixture:
    """One of two draws, where the other had a probability of `weight` instead."""

    one: Draw
    other: Draw
    weight: float

    def among(self, available: BoolArray, budget: int) -> Mixture:
        """Return the mixture for the available arms."""
        return Mixture(self.one.among(available, budget), self.other.among(available, budget), self.weight)

    def exposure(self, budget: int) -> FloatArray:
        """Return the mean of both exposures, by how likely each is."""
        return np.asarray((1 - self.weight) * self.one.exposure(budget) + self.weight * self.other.exposure(budget))

    def draw(self, budget: int, rng: np.random.Generator) -> BoolArray:
        """Draw who is pulled, by the first."""
        return self.one.draw(budget, rng)


@dataclass(frozen=True, eq=False)
class Ranking:
    """Pull the K arms with the largest index; ties at random, -inf never.

    Parameters
    ----------
    index : ndarray, shape (..., N)
    groups : ndarray of int, shape (N,), optional
        The group of each arm, from 0.
    quotas : ndarray of int, shape (..., G), optional
        How many arms of each group are pulled, instead of the budget.

    Examples
    --------
    >>> Ranking(np.array([3.0, 1.0, 1.0, 1.0, -np.inf])).exposure(2).round(3)
    array([1.   , 0.333, 0.333, 0.333, 0.   ])
    """

    index: FloatArray
    groups: IntArray | None = None
    quotas: IntArray | None = None

    def _parts(self, budget: int) -> Iterator[tuple[BoolArray, IntArray]]:
        """Yield who is in each group, and how many of them are pulled."""
        if self.groups is None or self.quotas is None:
            yield np.ones(self.index.shape[-1], np.bool_), np.array(budget)
            return
        for group in range(self.quotas.shape[-1]):
            yield self.groups == group, self.quotas[..., group]

    def exposure(self, budget: int) -> FloatArray:
        """Return the probability that each arm is pulled, shape (..., N)."""
        parts = list(self._parts(budget))
        shape = np.broadcast_shapes(self.index.shape[:-1], parts[0][1].shape)
        exposure = np.zeros((*shape, self.index.shape[-1]))
        for inside, quota in parts:
            if inside.any():  # those level with the last share what is left
                above, level = _largest(self.index[..., inside], quota)
                left = quota[..., None] - above.sum(axis=-1, keepdims=True)
                exposure[..., inside] = above + level * (left / np.maximum(1, level.sum(axis=-1, keepdims=True)))
        return exposure

    def weights(self, budget: int) -> FloatArray:
        """Return weights of a sequential draw with these exposures, without groups: infinity, 1 or 0."""
        above, level = _largest(self.index, np.array(budget))
        return np.where(above, np.inf, level.astype(np.float64))

    def among(self, available: BoolArray, budget: int) -> Ranking:  # noqa: ARG002
        """Return the ranking of the available arms; a group with too few of them leaves part of its quota unspent."""
        if self.groups is None or self.quotas is None:
            return Ranking(self.index[available])
        groups = self.groups[available]
        sizes = np.bincount(groups, minlength=len(self.quotas))
        return Ranking(self.index[available], groups, np.minimum(self.quotas, sizes))

    def draw(self, budget: int, rng: np.random.Generator) -> BoolArray:
        """Draw who is pulled, shape (N,)."""
        exposure = self.exposure(budget)
        pulled = exposure == 1.0
        for inside, _ in self._parts(budget):
            level = np.flatnonzero(inside & (exposure > 0.0) & (exposure < 1.0))  # all with the same exposure
            if len(level):
                pulled[rng.choice(level, round(float(exposure[level].sum())), replace=False)] = True
        return np.asarray(pulled)


def at_belief(bad: FloatArray, good: FloatArray, belief: FloatArray) -> FloatArray:
    """Return what lies between the values of both states; -inf in a state that is possible is -inf.

    Examples
    --------
    >>> at_belief(np.array([1.0, 1.0, -np.inf]), np.array([3.0, 3.0, 3.0]), np.array([0.0, 0.5, 0.9]))
    array([  1.,   2., -inf])
    """
    with np.errstate(invalid="ignore"):
        between = (1 - belief) * bad + belief * good
    never = (bad == -np.inf) | (good == -np.inf)
    between = np.where(never, -np.inf, between)
    return np.where((belief == 0) | (bad == good), bad, np.where(belief == 1, good, between))


def _largest(index: FloatArray, budget: IntArray) -> tuple[BoolArray, BoolArray]:
    """Return who is above the K-th largest index, and who is level with it; -inf is neither."""
    take = np.broadcast_to(budget, index.shape[:-1])[..., None]
    last = np.take_along_axis(-np.sort(-index, axis=-1), np.maximum(take - 1, 0), axis=-1)
    return (index > last) & (take > 0), (index == last) & (index > -np.inf) & (take > 0)
