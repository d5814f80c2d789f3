"""Plans: what a policy hands over for the next episode, and the engine plays.

A *lottery* fixes a merit for each arm and draws K arms afresh at each step, by one of three designs; a *rotation*
pulls those who are next in line. They do not look at states, so the engine moves 64 steps at once. A *priority table*
gives an index for each arm and state, and the K arms with the largest index are pulled; a *step learner* makes such an
index anew at every step, and learns from what happened. These two are played step by step, compiled.

Arrays of the first three may carry leading axes, one entry for each run.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from meritfair.checks import check_merit, float_array
from meritfair.engine.rules import ROTATION, SEQUENTIAL
from meritfair.errors import InputError
from meritfair.model.exposure import DESIGNS, check_design, fair_exposure, merit_share

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from meritfair.arrays import FloatArray, IntArray

__all__ = ["Lottery", "Plan", "PriorityTable", "Rotation", "StepLearner"]


class Plan(ABC):
    """What to do in the next episode: one of the four kinds of this module."""

    @property
    @abstractmethod
    def n_arms(self) -> int:
        """How many arms the plan is made for."""

    @abstractmethod
    def share(self, budget: int) -> FloatArray | None:
        """Return each arm's share of the draws, the paper's pi, shape (..., N); it sums to 1.

        None where pulls depend on states: then the share is taken from the pulls that were made.
        """

    @abstractmethod
    def exposure(self, budget: int) -> FloatArray | None:
        """Return each arm's chance of being pulled at a step, shape (..., N); None where pulls depend on states."""

    @property
    def drawn_by(self) -> int:
        """How the engine draws this plan, a design of :mod:`meritfair.engine.rules`."""
        return SEQUENTIAL

    def weights(self, budget: int) -> FloatArray | None:  # noqa: ARG002
        """Return what the engine draws by, shape (..., N); None where pulls depend on states.

        For a sequential draw these are weights of any scale, where 0 is never pulled and infinity always; for the
        other designs they are exposures.
        """
        return None


@dataclass(frozen=True)
class Lottery(Plan):
    """Draw K arms at each step by merit.

    Parameters
    ----------
    merit : ndarray, shape (..., N)
        Positive merits; only their ratios matter.
    design : {"sequential", "exact", "systematic"}
        How K arms are drawn, as for `fair_exposure`.
    floor, cap : float or sequence of float
        The least and the most exposure of each arm, for designs other than ``sequential``.
    """

    merit: FloatArray
    design: str = "sequential"
    floor: npt.ArrayLike = 0.0
    cap: npt.ArrayLike = 1.0
    _known: dict[int, FloatArray] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "merit", check_merit(self.merit))
        check_design(self.design, self.floor, self.cap)

    @property
    def n_arms(self) -> int:
        return int(self.merit.shape[-1])

    def share(self, budget: int) -> FloatArray:  # noqa: ARG002
        return merit_share(self.merit)

    def exposure(self, budget: int) -> FloatArray:
        if budget not in self._known:  # it is asked for twice: to draw by, and for the regret
            self._known[budget] = fair_exposure(self.merit, budget, self.design, floor=self.floor, cap=self.cap)
        return self._known[budget]

    @property
    def drawn_by(self) -> int:
        return DESIGNS.index(self.design)

    def weights(self, budget: int) -> FloatArray:
        if self.drawn_by != SEQUENTIAL:
            return self.exposure(budget)
        return np.asarray(self.merit / self.merit.max(axis=-1, keepdims=True))


@dataclass(frozen=True)
class PriorityTable(Plan):
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
        weights = self.weights(budget)
        if weights is None:
            return None
        above, level = weights == np.inf, weights == 1.0
        left = (budget - above.sum(axis=-1, keepdims=True)) / np.maximum(1, level.sum(axis=-1, keepdims=True))
        return np.asarray((above + level * left) / budget)  # ties share what is left

    def exposure(self, budget: int) -> FloatArray | None:
        share = self.share(budget)
        return None if share is None else np.asarray(share * budget)

    def weights(self, budget: int) -> FloatArray | None:
        index = self.index[..., 0]
        if not np.array_equal(index, self.index[..., 1]):
            return None
        last = -np.sort(-index, axis=-1)[..., budget - 1 : budget]  # the smallest index that is still pulled
        return np.where(index == -np.inf, 0.0, np.where(index > last, np.inf, np.where(index == last, 1.0, 0.0)))


@dataclass(frozen=True)
class Rotation(Plan):
    """Pull the K arms that are next in line, so that everyone has the same turns; the line is random at first.

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

    def exposure(self, budget: int) -> FloatArray:
        return np.full(self.length, budget / self.length)

    @property
    def drawn_by(self) -> int:
        return ROTATION

    def weights(self, budget: int) -> FloatArray:  # noqa: ARG002
        return np.ones(self.length)


def _learn_nothing(memory: FloatArray, states: IntArray, pulls: IntArray, following: IntArray) -> None:
    pass


@dataclass(frozen=True)
class StepLearner(Plan):
    """Rank the arms anew at every step, pull the K largest (ties at random), and learn from what happened.

    Both functions are compiled with Numba, so they are loops over arms that raise nothing. They keep what they know in
    `memory`; the simulation hands it on from step to step and from episode to episode, one copy for each run.

    Parameters
    ----------
    length : int
        How many arms there are.
    memory : ndarray of float
        What is known at the start, of any shape.
    rank : callable
        ``rank(memory, states, step, luck, index)`` sets `index[i]` for each arm i: the K largest are pulled, -inf
        never. `step` counts from 0 through the whole run, `luck` is a uniform random number for this step.
    learn : callable
        ``learn(memory, states, pulls, following)`` changes `memory`, when the states after the step are known.
    """

    length: int
    memory: FloatArray
    rank: Callable[[FloatArray, IntArray, int, float, FloatArray], None]
    learn: Callable[[FloatArray, IntArray, IntArray, IntArray], None] = field(default=_learn_nothing)

    def __post_init__(self) -> None:
        object.__setattr__(self, "memory", float_array("memory", self.memory))

    @property
    def n_arms(self) -> int:
        return self.length

    def share(self, budget: int) -> None:  # noqa: ARG002
        return None

    def exposure(self, budget: int) -> None:  # noqa: ARG002
        return None
