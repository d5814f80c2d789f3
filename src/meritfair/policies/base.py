"""What a policy is: settings, and one method that turns what was seen into a plan."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

import numpy.typing as npt

from meritfair.core.checks import check_choice
from meritfair.core.deprecation import Renamed, warn_renamed
from meritfair.core.errors import InputError
from meritfair.datasets.logs import StateLog
from meritfair.engine.rules import Rule
from meritfair.model.criterion import Confidence, Criterion, plain
from meritfair.model.features import Features
from meritfair.model.rules import Rules, check_rules
from meritfair.policies.learner import Learner
from meritfair.policies.plans import Plan
from meritfair.policies.record import Record, enrolled, first_arms
from meritfair.policies.view import KNOWN, KNOWN_OR_ESTIMATED, View


class Policy(ABC):
    """A way to decide who is pulled; subclasses are frozen dataclasses of settings."""

    name: ClassVar[str]
    plans_once: bool = False  # whether every episode has the plan of the first
    oracle: bool = False  # whether it looks at the true arms, which nobody knows in practice
    spends_budget: bool = True  # whether it pulls K arms at every step
    adopts: ClassVar[tuple[str, ...]] = ()  # which settings it takes over from a problem, if it is made by name
    __dataclass_fields__: ClassVar[dict[str, Any]]  # set by @dataclass on the subclass
    constant = Renamed("plans_once")

    def __init_subclass__(cls, **given: Any) -> None:
        super().__init_subclass__(**given)
        if "constant" in vars(cls):
            warn_renamed("constant", "plans_once", level=4)  # of the class statement, behind that of ABC
            cls.plans_once = vars(cls)["constant"]
            del cls.constant

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
        budget: int | Sequence[int] | None = None,
        seed: int | None = None,
        *,
        horizon: int = 1,
        names: Iterable[str] | None = None,
        transitions: npt.ArrayLike | None = None,
        history: StateLog | None = None,
        rules: Rules | None = None,
        forget: float = 1.0,
        features: Features | Mapping[str, Any] | None = None,
    ) -> Learner:
        """Start live use of the policy: a learner that chooses round by round.

        Parameters
        ----------
        n_arms : int, optional
            How many arms there are at first; by default as many as `names`, `transitions` or `history` have.
        budget : int or sequence of int
            Arms pulled in a round, if that many are available; or one number for each of some rounds, which repeat.
            Of these, some may be 0.
        seed : int, optional
            Fixes every draw; None takes a new one from the system, which `Learner.seed` then tells.
        horizon : int
            Rounds in an episode: the policy plans anew after that many.
        names : iterable of str, optional
            A different name for each arm; by default those of `history`, or "arm-1", "arm-2" and so on.
        transitions : array_like, shape (N, 2, 2), optional
            The true arms, for policies that know them.
        history : StateLog, optional
            What was recorded before: all its transitions are taken in, in order. Arms that it does not name are
            unknown; those that it names and `names` does not have left, and bring what was seen of them when they
            join.
        rules : Rules, optional
            Who may be pulled, besides those who are away; by default everyone.
        features : Features or mapping of str to sequence, optional
            What is known of the arms from when they enrolled, such as ``{"age": [34, 61]}``: for each feature a value
            for each arm, in order or by name. By default those of `history`, if it has any. Policies with the estimate
            ``pooled`` look at them; others do not.
        forget : float
            What an outcome is worth one round later, above 0 and at most 1: with 0.98, one of 35 rounds ago counts
            half. For people who change; 1 forgets nothing.
        """
        check_name(self)
        found, rows = first_arms(n_arms, names, transitions, history)
        record = Record.new(found, rows, budget, seed, horizon, check_rules(rules), forget)
        record.rules.check(len(rows), record.budget, self.criterion)
        record.features = enrolled(found, features, history)
        return Learner(self, record, history=history)

    def settings(self) -> dict[str, Any]:
        """Return the policy's settings as plain values, for results and files."""
        return plain(self) if dataclasses.is_dataclass(self) else {}


class Estimator(Policy):
    """A policy that may plan for an estimate of the arms, taken from a confidence ball around what was seen."""

    adopts: ClassVar[tuple[str, ...]] = ("delta",)
    delta: float
    ball: str = "paper"

    def __post_init__(self) -> None:
        object.__setattr__(self, "delta", self.confidence.delta)

    @property
    def confidence(self) -> Confidence:
        return Confidence(self.ball, self.delta)


def check_estimate(policy: Any) -> None:
    """Check which arms a policy plans for, and how sure it is to be: estimate and delta. Known arms make an oracle."""
    check_choice("estimate", policy.estimate, KNOWN_OR_ESTIMATED)
    object.__setattr__(policy, "delta", policy.confidence.delta)
    object.__setattr__(policy, "oracle", policy.estimate == KNOWN)


def check_name(policy: Any) -> str:
    """Return the name of a policy or of its class, if it has one."""
    name = getattr(policy, "name", None)
    if not isinstance(name, str) or not name:
        raise InputError(f"a policy needs a name, a text in its class: {policy!r} has none")
    return name
