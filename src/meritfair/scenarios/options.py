"""What is asked: policies, budgets, floors, slacks and merits, one scenario for each combination."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, TypeAlias

from meritfair.core.errors import InputError, MeritfairError
from meritfair.core.parsing import as_inner, split_name
from meritfair.model.criterion import Confidence, Criterion
from meritfair.model.merit import Merit, merit_from_text
from meritfair.model.rules import check_budgets
from meritfair.policies.base import Policy
from meritfair.policies.plans import Plan
from meritfair.policies.registry import RECOMMENDED
from meritfair.simulation.players import Notes, players_of

AS_LOGGED = "as logged"
Player: TypeAlias = "Policy | str | Callable[..., Plan]"
Players: TypeAlias = "Mapping[str, Player | Mapping[int, Player]] | Sequence[Player]"


@dataclass(frozen=True)
class Scenario:
    """One thing that could be done: a policy, with a budget.

    Attributes
    ----------
    label : str
        The policy as it was asked for, without what varies.
    policy : Policy
    budget : int
    varied : dict of str to str
        Which of its settings vary between scenarios, as text.
    """

    label: str
    policy: Policy
    budget: int
    varied: dict[str, str]

    @property
    def name(self) -> str:
        """All that tells it from others."""
        budget = [f"budget {self.budget}"] * self.policy.spends_budget
        return ", ".join([self.label, *budget, *(f"{k} {v}" for k, v in self.varied.items())])


def scenarios_of(
    policies: Players | None,
    budgets: Sequence[int],
    n_arms: int,
    settings: Mapping[str, Sequence[Any]],
) -> list[Scenario]:
    """Return all combinations; a policy varies in the settings that it has."""
    asked: Any = [RECOMMENDED] if policies is None else policies
    for budget in budgets:
        check_budgets(budget, n_arms)
    by_budget = {int(budget): _players(asked, int(budget)) for budget in budgets}
    players = by_budget[int(budgets[0])]
    given = {name: values for name, values in settings.items() if values}
    for name in given:
        if not any(name in policy.settings() for policy in players.values()):
            raise InputError(f"none of these policies has a setting {name!r}: {', '.join(players)}")
    labels = [_without(label, given) for label in players]
    labels = labels if len(set(labels)) == len(labels) else list(players)
    return [
        each
        for (own, policy), label in zip(players.items(), labels, strict=True)
        for budget in (by_budget if policy.spends_budget else [*by_budget][:1])
        for each in _variants(label, by_budget[budget][own], budget, given)
    ]


def _players(asked: Any, budget: int) -> dict[str, Policy]:
    """Return the policies by label, of one that differs by budget that of this budget."""
    if isinstance(asked, Mapping):
        asked = {label: _with_budget(label, policy, budget) for label, policy in asked.items()}
    players = players_of(asked, Criterion(), Confidence(), Notes(may_skip=False))
    if AS_LOGGED in players:
        raise InputError(f"the label {AS_LOGGED!r} is that of the log's own row")
    return players


def _with_budget(label: Any, policy: Any, budget: int) -> Any:
    if not isinstance(policy, Mapping):
        return policy
    if budget not in policy:
        raise InputError(f"{label} has no policy for the budget {budget}, it has one for {', '.join(map(str, policy))}")
    return policy[budget]


def _without(label: str, varied: Iterable[str]) -> str:
    """Return a label without the settings that vary.

    Examples
    --------
    >>> _without("merit-fair:design=exact,slack=2", ["slack", "floor"])
    'merit-fair:design=exact'
    """
    name, settings = split_name(label)
    kept = [each for each in settings.split(",") if each and each.partition("=")[0] not in varied]
    return f"{name}:{','.join(kept)}" if kept else name


def _variants(label: str, policy: Policy, budget: int, given: Mapping[str, Sequence[Any]]) -> Iterable[Scenario]:
    own = {name: values for name, values in given.items() if name in policy.settings()}
    for values in product(*own.values()):
        changes: Any = dict(zip(own, values, strict=True))
        try:
            varied = dataclasses.replace(policy, **changes) if changes else policy
        except MeritfairError as error:
            raise InputError(f"{label} cannot be played here: {error}") from error
        yield Scenario(label, varied, budget, {name: _text(value) for name, value in changes.items()})


def _text(value: Any) -> str:
    return as_inner(str(value)) if isinstance(value, Merit) else f"{value:g}"


def several_of(name: str, given: Any, make: Callable[[Any], Any]) -> list[Any]:
    """Return one or several values of a setting as a list, without duplicates."""
    if given is None:
        return []
    values = [make(each) for each in (given if isinstance(given, (list, tuple)) else [given])]
    if len({str(each) for each in values}) < len(values):
        raise InputError(f"duplicate {name}: {', '.join(str(each) for each in values)}")
    return values


def merit_of(given: Any) -> Merit:
    """Return a merit function that is given as such, or as text."""
    return given if isinstance(given, Merit) else merit_from_text(given)
