"""Settings of a programme: parts with a policy and a budget, and rules for all; frozen, and kept in the ledger.

A plain programme has one part. In a trial there are several, the arms of the trial, and participants are randomised
into them. In the ledger decimal numbers are texts, and a policy is a text that holds JSON.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from meritfair.core.checks import check_kind, check_known, check_number, check_whole
from meritfair.core.errors import InputError
from meritfair.core.json_values import DAMAGE, from_json
from meritfair.core.texts import shortened
from meritfair.model.counts import check_forget
from meritfair.model.merit import CustomMerit
from meritfair.model.rules import Rules, check_rules
from meritfair.policies.base import Policy
from meritfair.policies.merit_fair import MeritFair
from meritfair.policies.registry import RECOMMENDED, create, from_settings
from meritfair.programme.ledger.randomness import SECRET, check_source

FLOOR = 0.25  # of an equal share
_MOST_PARTS = 16
_MOST_DRAWN = 2**31


@dataclass(frozen=True)
class Part:
    """People who share a budget under one policy: all participants, or one arm of a trial.

    Parameters
    ----------
    budget : int or sequence of int
        People drawn in a round, or one number for each of some rounds, which repeat.
    policy : Policy or str
    floor : float
        The least that everyone is due, as a part of an equal share (budget / participants): with 0.25 everyone is due
        a quarter of an equal share or more. It is for policies that have a floor; others ignore it.
    name : str
    share : int
        In a trial, how many are randomised to this part for each randomised to a part with a share of 1.

    Examples
    --------
    >>> Part(40, "merit-fair:estimate=mean,design=exact").policy.estimate
    'mean'
    >>> Part(40, "whittle")
    Traceback (most recent call last):
    ...
    meritfair.core.errors.InputError: the policy whittle knows the true transition probabilities, which nobody does in \
a programme; give it an estimate, such as whittle:estimate=mean, if it can have one
    """

    budget: Any = 1
    policy: Any = RECOMMENDED
    floor: float = FLOOR
    name: str = ""
    share: int = 1

    def __post_init__(self) -> None:
        policy = create(self.policy) if isinstance(self.policy, str) else self.policy
        object.__setattr__(self, "policy", _check_policy(policy))
        object.__setattr__(self, "budget", _cycle(self.budget))
        object.__setattr__(self, "floor", check_number("floor", self.floor, 0.0, 1.0))
        object.__setattr__(self, "share", check_whole("share", self.share, 1, 1000))

    @property
    def slack(self) -> float:
        """How far an account may be from 0 by its policy; infinity for policies that keep none."""
        return float(self.policy.slack) if isinstance(self.policy, MeritFair) else float("inf")

    def budget_in(self, round_: int) -> int:
        """Return how many are to be drawn in a round, counted from 1."""
        return int(self.budget[(round_ - 1) % len(self.budget)])

    def policy_for(self, people: int, budget: int) -> Policy:
        """Return the policy with the floor that this many people have with this budget."""
        policy: Policy = self.policy
        criterion = policy.criterion
        if criterion is None or criterion.design == "sequential" or people == 0:
            return policy
        equal = min(1.0, budget / people)
        own = float(np.asarray(criterion.floor))
        return dataclasses.replace(policy, floor=min(max(own, self.floor * equal), equal))

    def body(self) -> dict[str, Any]:
        """Return it as the ledger has it."""
        policy = json.dumps({"name": self.policy.name, **self.policy.settings()}, sort_keys=True)
        return {
            "name": self.name,
            "policy": policy,
            "budget": list(self.budget),
            "floor": repr(self.floor),
            "share": self.share,
        }

    @classmethod
    def from_body(cls, body: Mapping[str, Any]) -> Part:
        """Return the part that the ledger has."""
        with _reading():
            policy = from_settings(from_json(body["policy"]))
            return cls(
                body["budget"], policy, float(body["floor"]), check_kind("name", body["name"], str), body["share"]
            )


@dataclass(frozen=True)
class Trial:
    """What is fixed before a trial: the hash of its protocol, and by which features it is stratified."""

    protocol: str
    strata: tuple[str, ...] = ()

    def body(self) -> dict[str, Any]:
        """Return it as the ledger has it."""
        return {"protocol": self.protocol, "strata": list(self.strata)}


@dataclass(frozen=True)
class Settings:
    """All settings of a programme.

    Parameters
    ----------
    parts : sequence of Part
    rules : Rules
    forget : float
        What an outcome is worth one round later.
    features : sequence of str
        What policies may look at of what is known at enrolment.
    trial : Trial, optional
    source : str
        Where draws take their randomness from beside the secret: ``secret`` (nowhere), ``drand``, ``drand after 60
        minutes``, or the name of another public source.
    """

    parts: tuple[Part, ...]
    rules: Rules = field(default_factory=Rules)
    forget: float = 1.0
    features: tuple[str, ...] = ()
    trial: Trial | None = None
    source: str = SECRET

    def __post_init__(self) -> None:
        check_whole("the number of parts", len(self.parts), 1, _MOST_PARTS)
        names = [part.name for part in self.parts]
        if len(set(names)) < len(names):
            raise InputError(f"the parts of a trial must have different names, got {', '.join(map(repr, names))}")
        object.__setattr__(self, "rules", check_rules(self.rules))
        object.__setattr__(self, "forget", check_forget(self.forget))
        object.__setattr__(self, "source", check_source(self.source))
        for part in self.parts:
            self.rules.check(_MOST_DRAWN, part.budget, part.policy.criterion)

    def changed(
        self,
        part: str = "",
        *,
        budget: Any = None,
        policy: Any = None,
        floor: float | None = None,
        rules: Rules | None = None,
        source: str | None = None,
    ) -> Settings:
        """Return the settings with some of a part changed, or the rules or the source of all; what is None stays."""
        check_known("part", part, [each.name for each in self.parts])
        given = {"budget": budget, "policy": policy, "floor": floor}
        new = {name: value for name, value in given.items() if value is not None}
        parts = [dataclasses.replace(each, **new) if each.name == part else each for each in self.parts]
        return dataclasses.replace(
            self,
            parts=tuple(parts),
            rules=self.rules if rules is None else rules,
            source=self.source if source is None else source,
        )

    def body(self) -> dict[str, Any]:
        """Return them as the ledger has them."""
        return {
            "parts": [part.body() for part in self.parts],
            "rules": self.rules.settings(),
            "forget": repr(self.forget),
            "features": list(self.features),
            "trial": None if self.trial is None else self.trial.body(),
            "source": self.source,
        }

    @classmethod
    def from_body(cls, body: Mapping[str, Any]) -> Settings:
        """Return the settings that the ledger has."""
        with _reading():
            parts = tuple(map(Part.from_body, body["parts"]))
            trial = body["trial"] and Trial(body["trial"]["protocol"], tuple(body["trial"]["strata"]))
            rules = Rules.from_settings(body["rules"])
            return cls(parts, rules, float(body["forget"]), tuple(body["features"]), trial or None, body["source"])


@contextmanager
def _reading() -> Iterator[None]:
    """Say that settings of a ledger, which may be anyone's, are none."""
    try:
        yield
    except InputError:
        raise
    except DAMAGE as error:
        raise InputError(f"not the settings of a programme: {shortened(str(error) or type(error).__name__)}") from None


def _check_policy(policy: Any) -> Policy:
    """Return a policy that can be used in a programme."""
    if not isinstance(policy, Policy):
        raise InputError(f"policy must be a policy or its name, got {policy!r}")
    if policy.oracle:
        raise InputError(
            f"the policy {policy.name} knows the true transition probabilities, which nobody does in a programme; give "
            f"it an estimate, such as {policy.name}:estimate=mean, if it can have one"
        )
    criterion = policy.criterion
    if criterion is not None and isinstance(criterion.merit, CustomMerit):
        raise InputError("a merit function of your own cannot be kept in a ledger; take one of those that have a name")
    if criterion is not None and np.ndim(criterion.floor) + np.ndim(criterion.cap):
        raise InputError("floor and cap must be the same for everyone in a programme, got a number for each arm")
    return policy


def _cycle(budget: Any) -> tuple[int, ...]:
    """Return the budgets of rounds that repeat."""
    several: Sequence[Any] = budget if isinstance(budget, (list, tuple)) else (budget,)
    cycle = tuple(check_whole("budget", each, 0, _MOST_DRAWN) for each in several)
    if not any(cycle) and cycle != (0,):
        raise InputError(f"budget must be above 0 in some round, got {budget!r}")
    return cycle
