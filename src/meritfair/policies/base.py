"""What a policy is: settings, and one method that turns what was seen into a plan."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from meritfair.errors import InputError
from meritfair.model.merit import Merit

if TYPE_CHECKING:
    from meritfair.arrays import FloatArray
    from meritfair.engine.rules import Rule
    from meritfair.model.counts import Counts
    from meritfair.policies.plans import Plan

__all__ = ["Policy", "View", "check_merit_function"]


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
    """

    counts: Counts
    episode: int
    budget: int
    true_transitions: FloatArray

    @property
    def n_arms(self) -> int:
        """How many arms there are."""
        return self.counts.n_arms


class Policy(ABC):
    """A way to decide who is pulled; subclasses are frozen dataclasses of settings."""

    name: ClassVar[str]
    constant: ClassVar[bool] = False  # whether every episode has the plan of the first
    __dataclass_fields__: ClassVar[dict[str, Any]]  # set by @dataclass on the subclass

    @abstractmethod
    def plan(self, view: View) -> Plan:
        """Return the plan for the next episode."""

    def rule(self) -> Rule | None:
        """Return what the engine needs to plan by itself, or None if it cannot: then `plan` is called each episode."""
        return None

    def settings(self) -> dict[str, Any]:
        """Return the policy's settings as plain values, for results and files."""
        values = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        return {k: v.settings() if isinstance(v, Merit) else v for k, v in values.items()}


def check_merit_function(merit: Any) -> Merit:
    """Return `merit` if it is a merit function."""
    if isinstance(merit, Merit):
        return merit
    if callable(merit):
        raise InputError("merit must be a merit function; wrap your own as CustomMerit(function, lipschitz=...)")
    raise InputError(f"merit must be a merit function such as Exponential(3.0), got {merit!r}")
