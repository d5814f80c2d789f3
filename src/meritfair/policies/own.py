"""A policy from a function: `plan(view)`, with whatever settings it takes."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from typing import Any

from meritfair.core.errors import InputError
from meritfair.policies.base import Policy, check_name
from meritfair.policies.plans import Plan
from meritfair.policies.view import View


def policy_from_function(function: Callable[..., Plan], name: str | None = None) -> type[Policy]:
    """Return the class of policies that plan by a function.

    Parameters
    ----------
    function : callable
        ``function(view, setting=default, ...)`` returns the plan for the next episode. What it takes besides the view
        are the settings of the policy; each needs a default.
    name : str, optional
        The policy's name; by default the function's, with hyphens.

    Examples
    --------
    >>> from meritfair.policies import PriorityTable
    >>> def by_gain(view, weight=1.0):
    ...     gain = view.counts.mean[..., 1] - view.counts.mean[..., 0]
    ...     return PriorityTable(weight * gain)
    >>> ByGain = policy_from_function(by_gain)
    >>> ByGain(weight=2.0)
    by-gain(weight=2.0)
    """
    called = getattr(function, "__name__", type(function).__name__).replace("_", "-") if name is None else name
    parameters = list(inspect.signature(function).parameters.values())
    if not parameters:
        raise InputError(f"the policy {called!r} must take the view as its first argument")
    taken = parameters[1:]
    for parameter in taken:
        if parameter.name in {*dir(Policy), "name"} or parameter.kind == parameter.POSITIONAL_ONLY:
            raise InputError(f"a setting of the policy {called!r} cannot be called {parameter.name!r}")
        if parameter.default is parameter.empty:
            raise InputError(f"the setting {parameter.name!r} of the policy {called!r} needs a default")
    fields = [(p.name, Any, dataclasses.field(default=p.default)) for p in taken]

    def plan(self: Any, view: View) -> Plan:
        return function(view, **{p.name: getattr(self, p.name) for p in taken})

    body = {"name": called, "plan": plan, "__doc__": inspect.getdoc(function) or f"Plans by {called}."}
    try:
        made: type[Policy] = dataclasses.make_dataclass(called, fields, bases=(Policy,), namespace=body, frozen=True)
    except ValueError as error:  # a list or an array as a default
        raise InputError(
            f"the settings of the policy {called!r} must be plain values, such as tuples: {error}"
        ) from None
    made.__module__ = getattr(function, "__module__", __name__)
    return made


def as_policy(policy: Any) -> Policy:
    """Return a policy, or one that plans by a function, with its defaults."""
    if isinstance(policy, Policy):
        check_name(policy)
        return policy
    if callable(policy) and not isinstance(policy, type):
        return policy_from_function(policy)()
    raise InputError(
        f"policy must be a Policy, such as MeritFair(), or its name, or a function that plans, got {policy!r}"
    )
