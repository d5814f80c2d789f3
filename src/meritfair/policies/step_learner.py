"""The step learner: a plan that ranks the arms anew at every step, and learns from what happened."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from meritfair.core.arrays import FloatArray, IntArray
from meritfair.core.checks import float_array
from meritfair.core.errors import InputError
from meritfair.policies.drawing import Draw, Mixture, Observed, Ranking, Situation, Step
from meritfair.policies.plans import Plan, StepFunctions


@dataclass(frozen=True)
class StepLearner(Plan):
    """Rank the arms anew at every step, pull the K largest (ties at random), and learn from what happened.

    An arm whose state is not known is ranked as if it were in the more likely one, the bad one if both are as likely.

    The functions are compiled with Numba: loops over arms and plain arithmetic. They keep what they know in `memory`,
    which is passed on from step to step and from episode to episode.

    Parameters
    ----------
    memory : ndarray of float, shape (..., N, m)
        What is known at the start, a row for each arm.
    rank : callable
        ``rank(memory, states, last_actions, step, exploring, index)`` sets `index[i]` for each arm i: the K largest are
        pulled, -inf never. `last_actions[i]` is 1 if the arm was pulled at the step before, `step` counts from 0
        through the whole run. It draws no random numbers, and may change `memory`.
    learn : callable, optional
        ``learn(memory, states, actions, next_states)`` changes `memory`, when the states after the step are known. In
        live use, and where not every state is seen, it is called with the rows of those arms whose outcome was seen.
    explore : callable, optional
        ``explore(memory, step)`` returns the probability that `exploring` is True at this step; without it, it never
        is.
    keeps_memory : bool
        Whether the memory of the last episode is kept, and `memory` is for the first only. Else `memory` is that of
        this episode: it can be made from `View.memory`, which is how the last one ended.
    """

    memory: FloatArray
    rank: Callable[[FloatArray, IntArray, IntArray, int, bool, FloatArray], None]
    learn: Callable[[FloatArray, IntArray, IntArray, IntArray], None] | None = None
    explore: Callable[[FloatArray, int], float] | None = None
    keeps_memory: bool = True
    looks_at_states = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "memory", float_array("memory", self.memory))
        if self.memory.ndim < 2:
            raise InputError(f"memory must have shape (..., N, m), a row for each arm, got {self.memory.shape}")

    @property
    def shape(self) -> tuple[int, ...]:
        return self.memory.shape[:-1]

    def step_functions(self, memory: FloatArray | None, *, restricted: bool = False) -> StepFunctions:  # noqa: ARG002
        from meritfair.engine.steps import choose_top, play_by_index

        known = self.begin(memory)
        return StepFunctions(play_by_index, known, self.rank, choose_top, self.learn, self.explore, remembers=True)

    def begin(self, memory: FloatArray | None = None) -> FloatArray:
        return self.memory if memory is None or not self.keeps_memory else memory

    def learn_from(self, memory: FloatArray | None, seen: Observed) -> FloatArray | None:
        if self.learn is None:
            return memory
        after = np.array(self.memory if memory is None else memory, order="C")
        rows = after[seen.arms]
        self.learn(rows, seen.states, seen.actions, seen.next_states)
        after[seen.arms] = rows
        return after

    def play(self, now: Situation, budget: int, rng: np.random.Generator) -> Step:
        known = self.memory if now.memory is None else now.memory
        memory, otherwise = np.array(known, order="C"), np.array(known, order="C")  # ranking may change them
        chance, exploring = 0.0, False
        if now.free.any():
            chance = 0.0 if self.explore is None else float(np.clip(self.explore(memory, now.step), 0.0, 1.0))
            exploring = bool(rng.random() < chance)
        how: Draw = self._ranking(now, memory, exploring)
        other = 1 - chance if exploring else chance
        if other > 0:
            how = Mixture(how, self._ranking(now, otherwise, not exploring), other)
        return replace(now, memory=memory).draw(how, budget, rng)

    def _ranking(self, now: Situation, memory: FloatArray, exploring: bool) -> Ranking:
        index = np.full(self.n_arms, np.nan)
        states = (now.belief > 0.5).astype(np.int64)  # where it is not known, the more likely one
        self.rank(memory, states, now.last_actions, now.step, exploring, index)
        missing = np.flatnonzero(np.isnan(index))
        if len(missing):
            raise InputError(f"rank must set a number for each arm, got nan for {now.names[missing[0]]!r}")
        return Ranking(index)
