"""What a policy is: settings, and one method that turns what was seen into a plan."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from meritfair.core.checks import check_choice
from meritfair.model.confidence import ESTIMATES, Ball
from meritfair.model.criterion import plain

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy as np
    import numpy.typing as npt

    from meritfair.core.arrays import FloatArray, IntArray
    from meritfair.datasets.logs import Log
    from meritfair.engine.rules import Rule
    from meritfair.model.counts import Counts
    from meritfair.model.criterion import Confidence, Criterion
    from meritfair.policies.learner import Learner
    from meritfair.policies.plans import Plan

__all__ = [
    "BELIEFS",
    "KNOWN",
    "Policy",
    "View",
    "check_beliefs",
]

KNOWN = "known"
BELIEFS = (KNOWN, *ESTIMATES)  # which arms a policy plans for: an oracle's, or a learner's


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
        Arms to pull at each step.
    true_transitions : ndarray, shape (..., N, 2, 2)
        The truth. Only oracles may look.
    luck : tuple of Generator
        Random numbers for the plan, one source for each run.
    states : ndarray of int, shape (..., N), optional
        The state that each arm starts the episode in; in live use -1 where it is not known.
    memory : ndarray, shape (..., N, m), optional
        What a step learner knew at the end of the last episode; None at the first.
    step : int
        How many steps were played before this episode.
    """

    counts: Counts
    episode: int
    budget: int
    true_transitions: FloatArray
    luck: tuple[np.random.Generator, ...] = ()
    states: IntArray | None = None
    memory: FloatArray | None = None
    step: int = 0

    def believed(self, estimate: str, delta: float = 0.01, ball: str = "paper") -> FloatArray:
        """Return the arms that a policy plans for: the true ones if they are ``known``, else a point of the ball."""
        if estimate == KNOWN:
            return self.true_transitions
        return Ball(self.counts, self.episode, delta, ball).estimate(estimate, self.luck)

    @property
    def n_arms(self) -> int:
        """How many arms there are."""
        return self.counts.n_arms


class Policy(ABC):
    """A way to decide who is pulled; subclasses are frozen dataclasses of settings."""

    name: ClassVar[str]
    constant: bool = False  # whether every episode has the plan of the first
    oracle: bool = False  # whether it looks at the true arms, which nobody knows in life
    spends_budget: bool = True  # whether it pulls K arms at every step
    adopts: ClassVar[tuple[str, ...]] = ()  # which settings it takes over from a problem, if it is made by name
    __dataclass_fields__: ClassVar[dict[str, Any]]  # set by @dataclass on the subclass

    @abstractmethod
    def plan(self, view: View) -> Plan:
        """Return the plan for the next episode."""

    @property
    def criterion(self) -> Criterion | None:
        """The fairness criterion that it draws by, if it does."""
        return None

    @property
    def confidence(self) -> Confidence | None:
        """How sure its estimates are to be, if it estimates by a confidence ball."""
        return None

    def rule(self) -> Rule | None:
        """Return what the engine needs to plan by itself, or None if it cannot: then `plan` is called each episode."""
        return None

    def start(
        self,
        n_arms: int | None = None,
        budget: int | None = None,
        seed: int | None = None,
        *,
        horizon: int = 1,
        names: Iterable[str] | None = None,
        transitions: npt.ArrayLike | None = None,
        history: Log | None = None,
    ) -> Learner:
        """Put the policy to work on real arms; the parameters are those of `Learner`."""
        from meritfair.policies.learner import Learner

        first: dict[str, Any] = {"names": names, "transitions": transitions, "history": history}
        return Learner(self, n_arms, budget, seed, horizon=horizon, **first)

    def settings(self) -> dict[str, Any]:
        """Return the policy's settings as plain values, for results and files."""
        return plain(self) if dataclasses.is_dataclass(self) else {}


def check_beliefs(policy: Any) -> None:
    """Check which arms a policy plans for, and how sure it is to be: estimate and delta. Known arms make an oracle."""
    check_choice("estimate", policy.estimate, BELIEFS)
    object.__setattr__(policy, "delta", policy.confidence.delta)
    object.__setattr__(policy, "oracle", policy.estimate == KNOWN)
