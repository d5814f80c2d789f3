"""What a policy may look at when it plans, and what it must offer to be used live."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from meritfair.core.arrays import FloatArray, IntArray
from meritfair.core.deprecation import Renamed
from meritfair.model.confidence import ESTIMATES, Ball
from meritfair.model.counts import Counts
from meritfair.model.features import Features
from meritfair.policies.plans import Plan

KNOWN = "known"
KNOWN_OR_ESTIMATED = (KNOWN, *ESTIMATES)  # which arms a policy plans for: the true ones, or an estimate


@dataclass(frozen=True)
class View:
    """What a policy may look at when it plans an episode.

    Parameters
    ----------
    counts : Counts
        All that was seen before this episode. Its arrays have shape (..., N, 2, 2), where the
        leading axes stand for independent runs that are planned together.
    episode : int
        The episode to be planned, from 1.
    budget : int
        Arms to pull at each step; the most of any round, if that changes.
    true_transitions : ndarray, shape (..., N, 2, 2)
        The truth. Only oracles may look.
    rngs : tuple of Generator
        Random number generators for the plan, one for each run.
    states : ndarray of int, shape (..., N), optional
        The state that each arm starts the episode in; -1 where it is not known, live or where not all is observed.
    memory : ndarray, shape (..., N, m), optional
        The memory of a step learner at the end of the last episode; None at the first.
    step : int
        How many steps were played before this episode.
    features : Features, optional
        What is known of the arms from when they enrolled, in live use; the estimate ``pooled`` looks at it.
    """

    counts: Counts
    episode: int
    budget: int
    true_transitions: FloatArray
    rngs: tuple[np.random.Generator, ...] = ()
    states: IntArray | None = None
    memory: FloatArray | None = None
    step: int = 0
    features: Features | None = None

    def estimated_transitions(self, estimate: str, delta: float = 0.01, ball: str = "paper") -> FloatArray:
        """Return the arms that a policy plans for: the true ones if they are ``known``, else a point of the ball."""
        if estimate == KNOWN:
            return self.true_transitions
        return Ball(self.counts, self.episode, delta, ball, self.features).estimate(estimate, self.rngs)

    @property
    def n_arms(self) -> int:
        """How many arms there are."""
        return self.counts.n_arms

    luck = Renamed("rngs")
    believed = Renamed("estimated_transitions")


class Planner(Protocol):
    """What a learner needs of a policy."""

    @property
    def name(self) -> str:
        """The policy's name."""

    @property
    def oracle(self) -> bool:
        """Whether it looks at the true arms."""

    def plan(self, view: View) -> Plan:
        """Return the plan for the next episode."""

    def settings(self) -> dict[str, Any]:
        """Return the policy's settings as plain values."""
