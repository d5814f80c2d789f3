"""Plans: what a policy hands over for the next episode, and the engine plays.

A *lottery* fixes a merit for each arm and draws K arms afresh at each step, by one of three designs; a *rotation*
pulls those who are next in line. They do not look at states, so the engine moves 64 steps at once. A *priority table*
gives an index for each arm and state, and the K arms with the largest index are pulled (or are drawn softly by it, or
so many of each group); a *step learner* makes such an index anew at every step, and learns from what happened. These
two are played step by step, compiled.

Arrays may carry leading axes, one entry for each run.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from meritfair.core.checks import check_merit, float_array
from meritfair.core.errors import InputError
from meritfair.engine.rules import ROTATION, SEQUENTIAL
from meritfair.model.allocation import check_bounds
from meritfair.model.draws import draw, draw_exposures
from meritfair.model.exposure import DESIGNS, check_design, fair_exposure, merit_share

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from meritfair.core.arrays import BoolArray, FloatArray, IntArray

__all__ = ["AnyPlan", "Lottery", "Plan", "PriorityTable", "Rotation", "StepLearner", "check_plan"]


class Plan(ABC):
    """What to do in the next episode: one of the four kinds of this module."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """The leading axes of its arrays, if there are any, and how many arms the plan is made for."""

    @property
    def n_arms(self) -> int:
        """How many arms the plan is made for."""
        return self.shape[-1]

    @abstractmethod
    def share(self, budget: int) -> FloatArray | None:
        """Return each arm's share of the draws, the paper's pi, shape (..., N); it sums to 1.

        None where pulls depend on states: then the share is taken from the pulls that were made.
        """

    @abstractmethod
    def exposure(self, budget: int) -> FloatArray | None:
        """Return each arm's chance of being pulled at a step, shape (..., N); None where pulls depend on states."""

    def integrates(self, budget: int) -> bool:  # noqa: ARG002
        """Whether its exposures take an integral: those of a sequential draw of several arms that differ."""
        return False

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
    def shape(self) -> tuple[int, ...]:
        return self.merit.shape

    def share(self, budget: int) -> FloatArray:  # noqa: ARG002
        return merit_share(self.merit)

    def exposure(self, budget: int) -> FloatArray:
        if budget not in self._known:  # it is asked for twice: to draw by, and for the regret
            self._known[budget] = fair_exposure(self.merit, budget, self.design, floor=self.floor, cap=self.cap)
        return self._known[budget]

    def integrates(self, budget: int) -> bool:
        return self.drawn_by == SEQUENTIAL and budget > 1 and bool(np.ptp(self.merit, axis=-1).any())

    @property
    def drawn_by(self) -> int:
        return DESIGNS.index(self.design)

    def weights(self, budget: int) -> FloatArray:
        if self.drawn_by != SEQUENTIAL:
            return self.exposure(budget)
        return np.asarray(self.merit / self.merit.max(axis=-1, keepdims=True))

    def at(self, states: IntArray, turn: FloatArray) -> Lottery:  # noqa: ARG002
        """Return the plan for one step, of arms in these states with these turns in a line, shape (N,)."""
        return self

    def among(self, available: BoolArray, budget: int) -> Lottery:
        """Return the lottery of the available arms; caps that are too low for so few are raised."""
        if self.drawn_by == SEQUENTIAL:
            return Lottery(self.merit[available])
        floor = np.broadcast_to(np.asarray(self.floor), self.merit.shape)[available]
        cap = np.broadcast_to(np.asarray(self.cap), self.merit.shape)[available]
        n, most = len(cap), cap.sum()
        if most < budget:
            cap = 1 - (1 - cap) * ((n - budget) / (n - most))
        return Lottery(self.merit[available], self.design, floor, cap)

    def chances(self, budget: int) -> FloatArray:
        """Return each arm's chance of being pulled at one step."""
        return self.exposure(budget)

    def draw(self, budget: int, rng: np.random.Generator) -> BoolArray:
        """Draw who is pulled at one step, shape (N,)."""
        if self.drawn_by == SEQUENTIAL:
            return np.asarray(draw(self.merit, budget, rng=rng)[0])
        return np.asarray(draw_exposures(self.exposure(budget), rng=rng, design=self.design)[0])


@dataclass(frozen=True)
class PriorityTable(Plan):
    """Pull the K arms with the largest index at their current state; ties at random.

    Parameters
    ----------
    index : ndarray, shape (..., N, 2)
        Index by arm and state; an arm at an index of -inf is not pulled, even if budget is left.
    soft : bool
        Draw K arms one after another with weights exp(index) instead, where each index must be finite.
    groups : ndarray of int, shape (N,), optional
        The group of each arm, counted from 0; then each group has a part of the budget.
    quotas : ndarray of int, shape (..., G), optional
        How many arms of each group are pulled at a step; they sum to the budget.
    """

    index: FloatArray
    soft: bool = False
    groups: IntArray | None = None
    quotas: IntArray | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "index", float_array("index", self.index))
        if self.index.ndim < 2 or self.index.shape[-1] != 2:
            raise InputError(f"index must have shape (..., N, 2) by arm and state, got {self.index.shape}")
        missing = np.argwhere(np.isnan(self.index))
        if len(missing):
            raise InputError(f"index must be a number for each arm and state, got nan for arm {missing[0, -2]}")
        if self.soft and not np.isfinite(self.index).all():
            raise InputError(f"a soft index must be finite, got {self.index[~np.isfinite(self.index)][0]}")
        if (self.groups is None) != (self.quotas is None) or (self.soft and self.groups is not None):
            raise InputError("groups and quotas go together, and not with soft")
        if self.groups is not None:
            self._check_groups()

    def _check_groups(self) -> None:
        groups, quotas = np.asarray(self.groups, dtype=np.int64), np.asarray(self.quotas, dtype=np.int64)
        if groups.shape != (self.n_arms,) or quotas.ndim == 0 or groups.min() < 0 or groups.max() >= quotas.shape[-1]:
            raise InputError(
                f"groups must hold for each of the {self.n_arms} arms one of the groups that quotas has, from 0; "
                f"got groups {self.groups!r} and quotas {self.quotas!r}"
            )
        sizes = np.bincount(groups, minlength=quotas.shape[-1])
        if np.any((quotas < 0) | (quotas > sizes)):
            raise InputError(f"quotas must be between 0 and the sizes of the groups, {sizes}, got {self.quotas!r}")
        object.__setattr__(self, "groups", groups)
        object.__setattr__(self, "quotas", quotas)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.index.shape[:-1]

    def share(self, budget: int) -> FloatArray | None:
        exposure = self.exposure(budget)
        return None if exposure is None else np.asarray(exposure / budget)

    def exposure(self, budget: int) -> FloatArray | None:
        return None if self.soft or self.looks_at_states else self.chances(budget)

    def chances(self, budget: int) -> FloatArray:
        """Return each arm's chance of being pulled, by a table that does not look at states, shape (..., N)."""
        index = self.index[..., 0]
        if self.groups is None or self.quotas is None:
            return _exposure_of_largest(index, np.array(budget))
        shape = np.broadcast_shapes(index.shape[:-1], self.quotas.shape[:-1])
        exposure = np.zeros((*shape, self.n_arms))
        for group in range(self.quotas.shape[-1]):
            inside = self.groups == group
            exposure[..., inside] = _exposure_of_largest(index[..., inside], self.quotas[..., group])
        return exposure

    def weights(self, budget: int) -> FloatArray | None:
        if self.soft or self.groups is not None or self.looks_at_states:
            return None
        above, level = _largest(self.index[..., 0], np.array(budget))
        return np.where(above, np.inf, level.astype(np.float64))

    @classmethod
    def of(cls, index: FloatArray, groups: IntArray | None = None, quotas: IntArray | None = None) -> PriorityTable:
        """Return the table of an index that is the same in both states, shape (..., N)."""
        return cls(np.stack([index, index], axis=-1), groups=groups, quotas=quotas)

    @property
    def looks_at_states(self) -> bool:
        """Whether the index is not the same in both states."""
        return not np.array_equal(self.index[..., 0], self.index[..., 1])

    def at(self, states: IntArray, turn: FloatArray) -> Lottery | PriorityTable:  # noqa: ARG002
        """Return the plan for one step, of arms in these states with these turns in a line, shape (N,)."""
        here = np.where(states == 1, self.index[..., 1], self.index[..., 0])
        if self.soft:
            return Lottery(np.maximum(np.exp(here - here.max()), _SMALLEST))
        return PriorityTable.of(here, self.groups, self.quotas)

    def among(self, available: BoolArray, budget: int) -> PriorityTable:  # noqa: ARG002
        """Return the table of the available arms; a group with fewer of them than its quota leaves the rest unspent."""
        if self.groups is None or self.quotas is None:
            return PriorityTable(self.index[available])
        groups = self.groups[available]
        sizes = np.bincount(groups, minlength=len(self.quotas))
        return PriorityTable(self.index[available], groups=groups, quotas=np.minimum(self.quotas, sizes))

    def draw(self, budget: int, rng: np.random.Generator) -> BoolArray:
        """Draw who is pulled at one step, by a table that does not look at states; shape (N,)."""
        exposure = self.chances(budget)
        pulled = exposure == 1.0
        groups = np.zeros(self.n_arms, np.int64) if self.groups is None else self.groups
        for group in np.unique(groups):
            level = np.flatnonzero((groups == group) & (exposure > 0.0) & (exposure < 1.0))  # all with the same chance
            if len(level):
                pulled[rng.choice(level, round(float(exposure[level].sum())), replace=False)] = True
        return np.asarray(pulled)


_SMALLEST = 1e-300  # a merit must be positive


def _largest(index: FloatArray, budget: IntArray) -> tuple[BoolArray, BoolArray]:
    """Return who is above the last of so many with the largest index, and who is level with it; -inf is neither."""
    take = np.broadcast_to(budget, index.shape[:-1])[..., None]
    last = np.take_along_axis(-np.sort(-index, axis=-1), np.maximum(take - 1, 0), axis=-1)
    return (index > last) & (take > 0), (index == last) & (index > -np.inf) & (take > 0)


def _exposure_of_largest(index: FloatArray, budget: IntArray) -> FloatArray:
    """Return the chance of each arm to be among so many with the largest index; ties share what is left."""
    if index.shape[-1] == 0:
        return index
    above, level = _largest(index, budget)
    left = np.asarray(budget)[..., None] - above.sum(axis=-1, keepdims=True)
    return np.asarray(above + level * (left / np.maximum(1, level.sum(axis=-1, keepdims=True))))


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
    def shape(self) -> tuple[int, ...]:
        return (self.length,)

    def share(self, budget: int) -> FloatArray:  # noqa: ARG002
        return np.full(self.length, 1 / self.length)

    def exposure(self, budget: int) -> FloatArray:
        return np.full(self.length, budget / self.length)

    @property
    def drawn_by(self) -> int:
        return ROTATION

    def weights(self, budget: int) -> FloatArray:  # noqa: ARG002
        return np.ones(self.length)

    def at(self, states: IntArray, turn: FloatArray) -> PriorityTable:  # noqa: ARG002
        """Return the plan for one step, of arms in these states with these turns in a line, shape (N,)."""
        return PriorityTable.of(-turn)


@dataclass(frozen=True)
class StepLearner(Plan):
    """Rank the arms anew at every step, pull the K largest (ties at random), and learn from what happened.

    The functions are compiled with Numba: loops over arms and plain arithmetic. They keep what they know in `memory`,
    which goes on from step to step and from episode to episode.

    Parameters
    ----------
    memory : ndarray of float, shape (..., N, m)
        What is known at the start, a row for each arm.
    rank : callable
        ``rank(memory, states, pulled, step, exploring, index)`` sets `index[i]` for each arm i: the K largest are
        pulled, -inf never. `pulled[i]` is 1 if the arm was pulled at the step before, `step` counts from 0 through
        the whole run. It leaves nothing to chance, and may change `memory`.
    learn : callable, optional
        ``learn(memory, states, pulls, following)`` changes `memory`, when the states after the step are known. In live
        use it is called with the rows of those arms whose outcome was seen.
    explore : callable, optional
        ``explore(memory, step)`` returns the chance that `exploring` is True at this step; without it, it never is.
    keeps_memory : bool
        Whether the memory of the last episode goes on, and `memory` is for the first only. Else `memory` is that of
        this episode: it can be made from `View.memory`, which is how the last one ended.
    """

    memory: FloatArray
    rank: Callable[[FloatArray, IntArray, IntArray, int, bool, FloatArray], None]
    learn: Callable[[FloatArray, IntArray, IntArray, IntArray], None] | None = None
    explore: Callable[[FloatArray, int], float] | None = None
    keeps_memory: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "memory", float_array("memory", self.memory))
        if self.memory.ndim < 2:
            raise InputError(f"memory must have shape (..., N, m), a row for each arm, got {self.memory.shape}")

    @property
    def shape(self) -> tuple[int, ...]:
        return self.memory.shape[:-1]

    def share(self, budget: int) -> None:  # noqa: ARG002
        return None

    def exposure(self, budget: int) -> None:  # noqa: ARG002
        return None


AnyPlan: TypeAlias = Lottery | PriorityTable | Rotation | StepLearner


def check_plan(plan: Any, n_arms: int, budget: int, runs: tuple[int, ...] = ()) -> AnyPlan:
    """Return what a policy has planned, if it can be followed with so many arms, in so many runs or in life."""
    if not isinstance(plan, AnyPlan):
        raise InputError(f"a policy must plan a Lottery, PriorityTable, Rotation or StepLearner, got {plan!r}")
    if plan.n_arms != n_arms:
        raise InputError(f"the policy planned for {plan.n_arms} arms, but there are {n_arms}")
    if plan.shape[:-1] not in ((), runs):
        raise InputError(f"the policy planned for shape {plan.shape}, it must be {(*runs, n_arms)}")
    if isinstance(plan, Lottery):
        check_bounds(plan.floor, plan.cap, n_arms, budget)
    if isinstance(plan, PriorityTable) and plan.quotas is not None and np.any(plan.quotas.sum(axis=-1) != budget):
        raise InputError(f"quotas must sum to the budget {budget}, got {plan.quotas}")
    return plan
