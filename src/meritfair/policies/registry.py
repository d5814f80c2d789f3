"""The one list of policies, by name: what the command line, files and `create` know.

Others join it by `register`, or by an entry point of an installed package in the group ``meritfair.policies``, whose
name is the policy's and whose value is a `Policy` class or a function that plans.

`recommended` is not a policy of its own but short for merit-fair with the settings that we recommend, which are written
down here and nowhere else. It can stand wherever a policy is named, also with settings: ``recommended:floor=0.05``.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, TypeVar

from meritfair.core.checks import check_kind, check_known, check_settings
from meritfair.core.errors import InputError
from meritfair.core.parsing import join_settings, split_settings
from meritfair.model.criterion import Confidence, Criterion, changed
from meritfair.model.merit import merit_from_settings, merit_from_text
from meritfair.policies.ab_whittle import ABWhittle
from meritfair.policies.base import Policy, check_name
from meritfair.policies.equitable import Equitable
from meritfair.policies.fair_oracle import FairOracle
from meritfair.policies.fair_ucrl import FairUCRL
from meritfair.policies.fawt import FaWT
from meritfair.policies.fawt_q import FaWTQ
from meritfair.policies.merit_fair import MeritFair
from meritfair.policies.optimal import Optimal
from meritfair.policies.own import policy_from_function
from meritfair.policies.prob_fair import ProbFair
from meritfair.policies.simple import NoAction, Random, RoundRobin
from meritfair.policies.soft_fair import SoftFair
from meritfair.policies.thompson_whittle import ThompsonWhittle
from meritfair.policies.uc_whittle import UCWhittle
from meritfair.policies.whittle import Myopic, Whittle
from meritfair.policies.wiql import WIQL

_Anything = TypeVar("_Anything")

RECOMMENDED = "recommended"
_RECOMMENDED_SETTINGS: dict[str, Any] = {"estimate": "pooled", "design": "exact", "slack": 2.0}
RECOMMENDED_TEXT = join_settings(MeritFair.name, _RECOMMENDED_SETTINGS)

_POLICIES: dict[str, type[Policy]] = {
    policy.name: policy
    for policy in (
        MeritFair,
        Optimal,
        FairOracle,
        Random,
        RoundRobin,
        NoAction,
        Myopic,
        Whittle,
        WIQL,
        ABWhittle,
        UCWhittle,
        ThompsonWhittle,
        FaWT,
        FaWTQ,
        ProbFair,
        SoftFair,
        FairUCRL,
        Equitable,
    )
}


def names() -> list[str]:
    """Return the names of all policies: those of meritfair, then those that others have added.

    Examples
    --------
    >>> names()[:4]
    ['merit-fair', 'optimal', 'fair-oracle', 'random']
    """
    return [*_POLICIES, *(name for name in _installed() if name not in _POLICIES)]


def register(policy: _Anything) -> _Anything:
    """Add a policy of your own: a `Policy` class, or a function that plans. Returns it, so it can be a decorator."""
    made = _as_class(policy)
    name = check_name(made)
    if name == RECOMMENDED or (name in _POLICIES and _home(_POLICIES[name]) != _home(made)):
        raise InputError(f"there is a policy {name!r} already")
    _check_class(made)
    _POLICIES[name] = made
    return policy


def _home(policy: type[Policy]) -> tuple[str, str]:
    """Return where a class is defined; who defines it again there, as in a notebook, may replace it."""
    return policy.__module__, policy.__qualname__


def _check_class(policy: type[Policy]) -> None:
    """Refuse a class of which no policy can be made by its name alone."""
    if ":" in policy.name or policy.name != policy.name.strip():
        raise InputError(f"the name of a policy must have no colon and no blanks around it, got {policy.name!r}")
    if inspect.isabstract(policy):
        raise InputError(f"the policy {policy.name!r} has no method plan")
    if not dataclasses.is_dataclass(policy):
        raise InputError(f"the policy {policy.name!r} must be a dataclass: put @dataclass(frozen=True) before it")
    for each in dataclasses.fields(policy):
        if each.init and each.default is each.default_factory is dataclasses.MISSING:
            raise InputError(f"the setting {each.name!r} of the policy {policy.name!r} needs a default")


def _as_class(policy: Any) -> type[Policy]:
    """Return the class of a policy that is given as a class or a function."""
    if isinstance(policy, type) and issubclass(policy, Policy):
        return policy
    if callable(policy) and not isinstance(policy, type):
        return policy_from_function(policy)
    raise InputError(f"a policy must be a class derived from Policy, or a function that plans, got {policy!r}")


@cache
def _installed() -> dict[str, EntryPoint]:
    """Return the policies of installed packages, not loaded yet."""
    return {each.name: each for each in entry_points(group="meritfair.policies")}


def policy_class(name: str) -> type[Policy]:
    """Return the class of the policy of this name."""
    check_known("policy", name, names())
    if name not in _POLICIES:
        entry = _installed()[name]
        try:
            made = _as_class(entry.load())
            _check_class(made)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # whatever a package of others may raise, also sys.exit
            why = str(error) if isinstance(error, Exception) else repr(error)
            raise InputError(f"the policy {name!r}, {entry.value}, could not be loaded: {why}") from error
        if made.name != name:
            raise InputError(f"the policy {name!r}, {entry.value}, calls itself {made.name!r}")
        _POLICIES[name] = made
    return _POLICIES[name]


def create(text: str, **settings: Any) -> Policy:
    """Make a policy from its name and settings; those in the text come first.

    Examples
    --------
    >>> create("optimal", delta=0.05)
    Optimal(delta=0.05, estimate='optimistic', ball='paper')
    >>> create("fair-oracle:merit=exponential:c=1").merit
    Exponential(c=1.0)
    >>> create("recommended:floor=0.05") == create("merit-fair:estimate=pooled,design=exact,slack=2,floor=0.05")
    True
    >>> create("merit-fare")
    Traceback (most recent call last):
    ...
    meritfair.core.errors.InputError: there is no policy 'merit-fare', did you mean 'merit-fair'?
    """
    name, typed = _split(text) if isinstance(text, str) else (text, {})
    policy, given = policy_class(name), settings | typed
    check_settings(name, given, (f.name for f in dataclasses.fields(policy)))
    if isinstance(given.get("merit"), str):
        given["merit"] = merit_from_text(given["merit"])
    return policy(**given)


def _split(text: str) -> tuple[str, dict[str, Any]]:
    """Return the name of a policy and its settings, of what is recommended those that it stands for."""
    name, typed = split_settings(text)
    return (MeritFair.name, _RECOMMENDED_SETTINGS | typed) if name == RECOMMENDED else (name, typed)


def create_under(text: str, criterion: Criterion, confidence: Confidence) -> Policy:
    """Make a policy from its text for a problem with this fairness criterion and confidence.

    It takes over what differs from the defaults, of the settings that it `adopts`; those in the text come first.

    Examples
    --------
    >>> create_under("optimal:estimate=mean", Criterion(design="exact"), Confidence(delta=0.05))
    Optimal(delta=0.05, estimate='mean', ball='paper')
    """
    fair, sure = check_kind("criterion", criterion, Criterion), check_kind("confidence", confidence, Confidence)
    given = changed(fair) | changed(sure)
    adopted = policy_class(_split(text)[0]).adopts
    return create(text, **{name: given[name] for name in adopted if name in given})


def from_settings(settings: Mapping[str, Any]) -> Policy:
    """Make a policy from its name and settings as plain values, as files have them.

    Examples
    --------
    >>> from_settings({"name": "fair-oracle", "merit": {"kind": "exponential", "c": 1.0}}).merit
    Exponential(c=1.0)
    """
    given = {key: value for key, value in settings.items() if key != "name"}
    if isinstance(given.get("merit"), dict):
        if given["merit"].get("kind") == "custom":
            raise InputError(f"the policy {settings['name']!r} has a merit function of its own: give the policy itself")
        given["merit"] = merit_from_settings(given["merit"])
    return create(settings["name"], **given)
