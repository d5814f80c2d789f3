"""Plans: what a policy hands over for the next episode, to the engine or to a learner.

A *lottery* fixes a merit for each arm and draws K arms afresh at each step, by one of three designs; a *rotation*
pulls those who are next in line. They do not look at states, so the engine moves 64 steps at once. A *priority table*
gives an index for each arm and state, and the K arms with the largest index are pulled (or are drawn softly by it, or
a quota of each group); a *step learner* makes such an index anew at every step, and learns from what happened. These
two are played step by step, compiled. So is a *timed lottery*, which gives each arm what a lottery says when a pull
helps most. The last two are in :mod:`meritfair.policies.step_learner` and :mod:`meritfair.policies.timed`.

In live use every plan has the same interface (`Plan.play`): at these states, among those available, with this budget,
it gives an exposure for each arm and a draw with exactly these exposures. Arrays may carry leading axes for the engine,
one entry for each run.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from meritfair.core.arrays import BoolArray, FloatArray, IntArray
from meritfair.core.checks import check_merit, float_array
from meritfair.core.deprecation import Renamed
from meritfair.core.errors import InputError
from meritfair.engine.rules import ROTATION, SEQUENTIAL
from meritfair.model.allocation import check_bounds, fitting_bounds
from meritfair.model.draws import draw, draw_exposures
from meritfair.model.exposure import DESIGNS, check_design, fair_exposure, merit_share, takes_integral
from meritfair.policies.drawing import Observed, Ranking, Situation, Step, at_belief

_SMALLEST = 1e-300  # a merit must be positive


class StepFunctions(NamedTuple):
    """What plays a plan in the engine, and what it is given; `play` is one of its players.

    The player of :mod:`meritfair.engine.steps` calls `rank`, `choose` (one of that module), `learn` and `explore` at
    each step; that of :mod:`meritfair.engine.tables` needs only an order.
    """

    play: Callable[..., int]
    memory: FloatArray  # (..., N, m)
    rank: Callable[..., None] | None = None
    choose: Callable[..., float] | None = None
    learn: Callable[..., None] | None = None
    explore: Callable[..., float] | None = None
    groups: IntArray | None = None
    quotas: IntArray | None = None
    order: IntArray | None = None  # (..., 4, 2N)
    timing: tuple[Any, ...] | None = None  # of a timed lottery, as in :mod:`meritfair.engine.accounts`
    remembers: bool = False  # whether the memory after an episode is for the next one


class Plan(ABC):
    """What to do in the next episode: one of the five kinds of plans."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """The leading axes of its arrays, if there are any, and how many arms the plan is made for."""

    @property
    def n_arms(self) -> int:
        """How many arms the plan is made for."""
        return self.shape[-1]

    def check(self, n_arms: int, budget: int, runs: tuple[int, ...] = ()) -> None:  # noqa: ARG002
        """Refuse a plan that cannot be followed with that many arms and this budget, in these runs or live."""
        if self.n_arms != n_arms:
            raise InputError(f"the policy planned for {self.n_arms} arms, but there are {n_arms}")
        if self.shape[:-1] not in ((), runs):
            raise InputError(f"the policy planned for shape {self.shape}, it must be {(*runs, n_arms)}")

    # ---- in a simulation

    def share(self, budget: int) -> FloatArray | None:  # noqa: ARG002
        """Return each arm's share of the draws, the paper's pi, shape (..., N); it sums to 1.

        None where pulls depend on states: then the share is taken from the pulls that were made.
        """
        return None

    def exposure(self, budget: int) -> FloatArray | None:  # noqa: ARG002
        """Return the probability that each arm is pulled at a step, shape (..., N); None where it depends on states."""
        return None

    chances = Renamed("exposure")

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

    def step_functions(self, memory: FloatArray | None, *, restricted: bool = False) -> StepFunctions:
        """Return what the engine calls at each step, where pulls depend on states; `memory` is of the last episode.

        It is restricted if some arms may not be pulled at some steps, or the budget changes.
        """
        raise NotImplementedError(f"a {type(self).__name__} is not played step by step")

    def belief_functions(self, memory: FloatArray | None) -> StepFunctions:
        """Return what the engine calls at each step where not every state is seen."""
        from meritfair.engine.partial import play_on_beliefs

        return self.step_functions(memory, restricted=True)._replace(play=play_on_beliefs)

    # ---- live

    @property
    def looks_at_states(self) -> bool:
        """Whether who is pulled depends on the states of the arms; on how likely each is, where they are not known."""
        return False

    @property
    def point(self) -> FloatArray | None:
        """The arms that it was made for, shape (..., N, 2, 2), if it says so: beliefs of states follow from them."""
        return None

    @property
    def takes_any_budget(self) -> bool:
        """Whether it can be played with another budget than the one that it was made for."""
        return True

    @abstractmethod
    def play(self, now: Situation, budget: int, rng: np.random.Generator) -> Step:
        """Draw who is pulled at one step, among those available; of what is given only `rng` changes."""

    def begin(self, memory: FloatArray | None = None) -> FloatArray | None:
        """Return the memory at the start of the plan, if the last plan ended with this one."""
        return memory

    def learn_from(self, memory: FloatArray | None, seen: Observed) -> FloatArray | None:  # noqa: ARG002
        """Return the memory after these outcomes."""
        return memory


def check_plan(plan: Any, n_arms: int, budget: int, runs: tuple[int, ...] = ()) -> Plan:
    """Return what a policy has planned, if it can be followed."""
    made = check_kind_of_plan(plan, "a policy")
    made.check(n_arms, budget, runs)
    return made


def check_kind_of_plan(plan: Any, whose: str) -> Plan:
    """Return what a policy has planned, if it is a plan."""
    if not isinstance(plan, Plan):
        kinds = "Lottery, TimedLottery, PriorityTable, Rotation or StepLearner"
        raise InputError(f"{whose} must plan a {kinds}, got {plan!r}")
    return plan


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

    def check(self, n_arms: int, budget: int, runs: tuple[int, ...] = ()) -> None:
        super().check(n_arms, budget, runs)
        check_bounds(self.floor, self.cap, n_arms, budget)

    def share(self, budget: int) -> FloatArray:  # noqa: ARG002
        return merit_share(self.merit)

    def exposure(self, budget: int) -> FloatArray:
        if budget not in self._known:  # it is asked for twice: to draw by, and for the regret
            self._known[budget] = fair_exposure(self.merit, budget, self.design, floor=self.floor, cap=self.cap)
        return self._known[budget]

    def integrates(self, budget: int) -> bool:
        return takes_integral(self.merit, budget, self.design)

    @property
    def drawn_by(self) -> int:
        return DESIGNS.index(self.design)

    def weights(self, budget: int) -> FloatArray:
        if self.drawn_by != SEQUENTIAL:
            return self.exposure(budget)
        return np.asarray(self.merit / self.merit.max(axis=-1, keepdims=True))

    def play(self, now: Situation, budget: int, rng: np.random.Generator) -> Step:
        return now.draw(self, budget, rng)

    def among(self, available: BoolArray, budget: int, highest: float = 1.0) -> Lottery:
        """Return the lottery of the available arms, where no cap is above the highest.

        Caps that are too low for that few are raised, and floors that are too high for a lower budget are reduced, each
        in proportion.
        """
        if self.drawn_by == SEQUENTIAL:
            return Lottery(self.merit[available])
        floor, cap = (np.broadcast_to(np.asarray(each), self.merit.shape)[available] for each in (self.floor, self.cap))
        return Lottery(self.merit[available], self.design, *fitting_bounds(floor, cap, budget, highest))

    def due(self, entitled: BoolArray, budget: int, highest: float = 1.0) -> FloatArray:
        """Return what each arm is due at a step, shape (N,): nothing if it is not entitled, at most the highest."""
        due, number = np.zeros(self.merit.shape), int(entitled.sum())
        if number * highest <= budget:
            due[entitled] = highest
        elif budget > 0:
            due[entitled] = self.among(entitled, budget, highest).exposure(budget)
        return due

    def draw(self, budget: int, rng: np.random.Generator) -> BoolArray:
        """Draw who is pulled at one step, shape (N,)."""
        if self.drawn_by == SEQUENTIAL:
            return np.asarray(draw(self.merit, budget, rng=rng)[0])
        return np.asarray(draw_exposures(self.exposure(budget), rng=rng, design=self.design)[0])


@dataclass(frozen=True)
class PriorityTable(Plan):
    """Pull the K arms with the largest index at their current state; ties at random.

    Of an arm whose state is not known, the index is the mean over both states by how likely each is.

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

    def check(self, n_arms: int, budget: int, runs: tuple[int, ...] = ()) -> None:
        super().check(n_arms, budget, runs)
        if self.quotas is not None and np.any(self.quotas.sum(axis=-1) != budget):
            raise InputError(f"quotas must sum to the budget {budget}, got {self.quotas}")

    def share(self, budget: int) -> FloatArray | None:
        exposure = self.exposure(budget)
        return None if exposure is None else np.asarray(exposure / budget)

    def exposure(self, budget: int) -> FloatArray | None:
        if self.soft or self.looks_at_states:
            return None
        return self._ranking(self.index[..., 0]).exposure(budget)

    def weights(self, budget: int) -> FloatArray | None:
        if self.soft or self.groups is not None or self.looks_at_states:
            return None
        return self._ranking(self.index[..., 0]).weights(budget)

    @classmethod
    def of(cls, index: FloatArray, groups: IntArray | None = None, quotas: IntArray | None = None) -> PriorityTable:
        """Return the table of an index that is the same in both states, shape (..., N)."""
        return cls(np.stack([index, index], axis=-1), groups=groups, quotas=quotas)

    @property
    def looks_at_states(self) -> bool:
        return not np.array_equal(self.index[..., 0], self.index[..., 1])

    @property
    def takes_any_budget(self) -> bool:
        return self.quotas is None

    def step_functions(self, memory: FloatArray | None, *, restricted: bool = False) -> StepFunctions:  # noqa: ARG002
        from meritfair.engine.steps import choose_in_groups, choose_softly, choose_top, play_by_index, rank_by_table
        from meritfair.engine.tables import play_by_table, table_order

        if not (self.soft or restricted) and self.groups is None:
            return StepFunctions(play_by_table, self.index, order=table_order(self.index))
        choose = choose_softly if self.soft else choose_top if self.groups is None else choose_in_groups
        return StepFunctions(play_by_index, self.index, rank_by_table, choose, groups=self.groups, quotas=self.quotas)

    def belief_functions(self, memory: FloatArray | None) -> StepFunctions:
        return super().belief_functions(memory)._replace(rank=None)

    def play(self, now: Situation, budget: int, rng: np.random.Generator) -> Step:
        index = at_belief(self.index[..., 0], self.index[..., 1], now.belief)
        if self.soft:
            return now.draw(Lottery(np.maximum(np.exp(index - index.max()), _SMALLEST)), budget, rng)
        return now.draw(self._ranking(index), budget, rng)

    def _ranking(self, index: FloatArray) -> Ranking:
        return Ranking(index, self.groups, self.quotas)


@dataclass(frozen=True)
class Rotation(Plan):
    """Pull the K arms that are next in line, so that everyone has the same turns; the line is random at first.

    Parameters
    ----------
    length : int
        How many arms stand in line.
    """

    length: int
    drawn_by = ROTATION

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.length,)

    def share(self, budget: int) -> FloatArray:  # noqa: ARG002
        return np.full(self.length, 1 / self.length)

    def exposure(self, budget: int) -> FloatArray:
        return np.full(self.length, budget / self.length)

    def weights(self, budget: int) -> FloatArray:  # noqa: ARG002
        return np.ones(self.length)

    def step_functions(self, memory: FloatArray | None, *, restricted: bool = False) -> StepFunctions:  # noqa: ARG002
        from meritfair.engine.steps import choose_top, play_by_index, rank_by_turn

        turns = np.zeros((self.length, 1)) if memory is None else memory
        return StepFunctions(play_by_index, turns, rank_by_turn, choose_top, remembers=True)

    def play(self, now: Situation, budget: int, rng: np.random.Generator) -> Step:
        return now.draw(Ranking(-now.turn), budget, rng)
