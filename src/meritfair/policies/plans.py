"""Plans: what a policy hands over for the next episode, and the simulator plays.

A *lottery* fixes a merit for each arm and draws K arms afresh at each step. It does not look at
states, so all pulls of an episode can be drawn beforehand. A *priority table* gives an index for each
arm and state, and the K arms with the largest index are pulled; a *rotation* pulls those who are
next in line. These two choose step by step.

Arrays may carry leading axes, one entry for each run.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from meritfair.checks import float_array
from meritfair.engine.pulls import first_pulls, sequential_pulls
from meritfair.errors import InputError
from meritfair.model.exposure import check_merit, merit_share

if TYPE_CHECKING:
    from meritfair.arrays import BoolArray, FloatArray, IntArray

__all__ = ["Lottery", "Plan", "PriorityTable", "Rotation", "StepPlan"]


class Plan(ABC):
    """What to do in the next episode."""

    @property
    @abstractmethod
    def n_arms(self) -> int:
        """How many arms the plan is made for."""

    @abstractmethod
    def share(self, budget: int) -> FloatArray | None:
        """Return each arm's share of the draws, the paper's pi, shape (..., N); it sums to 1.

        None where pulls depend on states: then the share is taken from the pulls that were made.
        """


@dataclass(frozen=True)
class Lottery(Plan):
    """Draw K arms at each step, one after another in proportion to merit.

    Parameters
    ----------
    merit : ndarray, shape (..., N)
        Positive merits; only their ratios matter.
    """

    merit: FloatArray

    def __post_init__(self) -> None:
        object.__setattr__(self, "merit", check_merit(self.merit))

    @property
    def n_arms(self) -> int:
        return int(self.merit.shape[-1])

    def share(self, budget: int) -> FloatArray:  # noqa: ARG002
        return merit_share(self.merit)

    def pulls(self, exponential: FloatArray, budget: int) -> BoolArray:
        """Return the pulls of a whole episode, from exponential numbers of shape (..., horizon, N)."""
        return sequential_pulls(np.log(self.merit)[..., None, :], exponential, budget)


class StepPlan(Plan):
    """A plan that chooses at each step, when it has seen the states."""

    @abstractmethod
    def choose(self, states: BoolArray, line: IntArray, noise: FloatArray, budget: int) -> BoolArray:
        """Return which arms to pull now; all arrays have shape (..., N).

        Parameters
        ----------
        states : ndarray of bool
            Which arms are good.
        line : ndarray of int
            Each arm's place in a line, 0 is next: at first a random order, and who is pulled goes to the end.
        noise : ndarray of float
            Uniform random numbers, to break ties.
        budget : int
        """


@dataclass(frozen=True)
class PriorityTable(StepPlan):
    """Pull the K arms with the largest index at their current state; ties at random.

    Parameters
    ----------
    index : ndarray, shape (..., N, 2)
        Index by arm and state; an arm at an index of -inf is not pulled, even if budget is left.
    """

    index: FloatArray

    def __post_init__(self) -> None:
        object.__setattr__(self, "index", float_array("index", self.index))
        if self.index.ndim < 2 or self.index.shape[-1] != 2:
            raise InputError(f"index must have shape (..., N, 2) by arm and state, got {self.index.shape}")
        missing = np.argwhere(np.isnan(self.index))
        if len(missing):
            raise InputError(f"index must be a number for each arm and state, got nan for arm {missing[0, -2]}")

    @property
    def n_arms(self) -> int:
        return int(self.index.shape[-2])

    def share(self, budget: int) -> FloatArray | None:
        if not np.array_equal(self.index[..., 0], self.index[..., 1]):
            return None
        index = self.index[..., 0]
        last = -np.sort(-index, axis=-1)[..., budget - 1 : budget]  # the smallest index that is still pulled
        above, level = index > last, index == last
        left = (budget - above.sum(axis=-1, keepdims=True)) / level.sum(axis=-1, keepdims=True)
        exposure = (above + level * left) * (index > -np.inf)  # ties share what is left
        return np.asarray(exposure / budget)

    def choose(self, states: BoolArray, line: IntArray, noise: FloatArray, budget: int) -> BoolArray:  # noqa: ARG002
        return first_pulls(np.where(states, self.index[..., 1], self.index[..., 0]), noise, budget)


@dataclass(frozen=True)
class Rotation(StepPlan):
    """Pull the K arms that are next in line, so that everyone has the same turns.

    Parameters
    ----------
    length : int
        How many arms stand in line.
    """

    length: int

    @property
    def n_arms(self) -> int:
        return self.length

    def share(self, budget: int) -> FloatArray:  # noqa: ARG002
        return np.full(self.length, 1 / self.length)

    def choose(self, states: BoolArray, line: IntArray, noise: FloatArray, budget: int) -> BoolArray:  # noqa: ARG002
        return line < budget
