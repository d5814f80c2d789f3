"""The one list of policies, by name: what the command line, files and `create` know.

Others join it by `register`, or by an entry point of an installed package in the group ``meritfair.policies``, whose
name is the policy's and whose value is a `Policy` class or a function that plans. `policy` and `create_under` also take
what is in no list: functions, and policies in files (:mod:`meritfair.policies.own`). `create` and `from_settings` do
not, as what they are given may come from anyone.

`recommended` is not a policy of its own but short for merit-fair with the settings that we recommend, which are written
down here and nowhere else. It can stand wherever a policy is named, also with settings: ``recommended:floor=0.05``.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, TypeVar

import numpy as np

from meritfair.core.checks import check_kind, check_known, check_settings
from meritfair.core.errors import InputError
from meritfair.core.parsing import as_inner, is_own, join_settings, split_settings
from meritfair.model.criterion import Confidence, Criterion, changed
from meritfair.model.merit import Merit, merit_from_settings, merit_from_text
from meritfair.policies.ab_whittle import ABWhittle
from meritfair.policies.base import Policy, check_name
from meritfair.policies.equitable import Equitable
from meritfair.policies.fair_oracle import FairOracle
from meritfair.policies.fair_ucrl import FairUCRL
from meritfair.policies.fawt import FaWT
from meritfair.policies.fawt_q import FaWTQ
from meritfair.policies.merit_fair import MeritFair
from meritfair.policies.optimal import Optimal
from meritfair.policies.own import PolicySource, as_policy, policy_from_function
from meritfair.policies.plans import Plan
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
    return policy.__module__.partition("@")[0], policy.__qualname__  # after that comes the hash of a file


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
    if is_own(name):
        raise InputError(f"the policy {name!r} is not registered, and only those that are can be named here")
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
    return _made(name, policy_class(name), settings | typed)


def policy(given: Policy | str | Callable[..., Plan], **settings: Any) -> Policy:
    """Make a policy from whatever says one, with these settings.

    Parameters
    ----------
    given : Policy, str or callable
        A function that plans; a policy, of which settings are replaced; or a name, also with settings, and also of what
        stands in a file or a module: ``"mine.py:gain_first:need=0.5"``, ``"clinic.policies:gain_first"``.

    Examples
    --------
    >>> from meritfair.policies import PriorityTable
    >>> import numpy as np
    >>> def gain_first(view, need=0.0):
    ...     gain = view.counts.mean[..., 1] - view.counts.mean[..., 0]
    ...     return PriorityTable(gain + need * np.array([1.0, 0.0]))
    >>> policy(gain_first, need=0.5)
    gain-first(need=0.5)
    >>> learner = policy(gain_first).start(n_arms=5, budget=2, seed=1)
    >>> len(learner.choose(states=[0, 1, 1, 0, 1]).arms)
    2
    """
    if isinstance(given, str):
        name, typed = _split(given)
        return _made(name, _named(name), settings | typed)
    made = as_policy(given)
    return _made(made.name, made, settings) if settings else made


def _named(name: str) -> type[Policy] | Policy:
    """Return the class of a policy of this name, or what is called so in a file."""
    return policy_in(PolicySource.read(name)) if is_own(name) else policy_class(name)


def policy_in(source: PolicySource) -> type[Policy] | Policy:
    """Return the class, or the policy, of which this is the source."""
    found = source.load()
    if isinstance(found, type):
        _check_class(found)
    return found


def _made(name: str, found: type[Policy] | Policy, settings: dict[str, Any]) -> Policy:
    """Return a policy of a class, or another with other settings."""
    check_settings(name, settings, (f.name for f in dataclasses.fields(found)))
    if isinstance(settings.get("merit"), str):
        settings["merit"] = merit_from_text(settings["merit"])
    return found(**settings) if isinstance(found, type) else dataclasses.replace(found, **settings)


def _split(text: str) -> tuple[str, dict[str, Any]]:
    """Return the name of a policy and its settings, of what is recommended those that it stands for."""
    name, typed = split_settings(text)
    return (MeritFair.name, _RECOMMENDED_SETTINGS | typed) if name == RECOMMENDED else (name, typed)


def create_under(
    text: str, criterion: Criterion, confidence: Confidence, found: type[Policy] | Policy | None = None
) -> Policy:
    """Make a policy from its text for a problem with this fairness criterion and confidence.

    It takes over what differs from the defaults, of the settings that it `adopts`; those in the text come first.

    Parameters
    ----------
    text : str
        As for `policy`.
    criterion : Criterion
    confidence : Confidence
    found : Policy or its class, optional
        What has the name in the text; by default it is looked for.

    Examples
    --------
    >>> create_under("optimal:estimate=mean", Criterion(design="exact"), Confidence(delta=0.05))
    Optimal(delta=0.05, estimate='mean', ball='paper')
    """
    fair, sure = check_kind("criterion", criterion, Criterion), check_kind("confidence", confidence, Confidence)
    given = changed(fair) | changed(sure)
    name, typed = _split(text)
    known = _named(name) if found is None else found
    adopted = known.adopts if isinstance(known, type) else ()
    return _made(name, known, {each: given[each] for each in adopted if each in given} | typed)


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


def text_of(policy: Policy, name: str | None = None) -> str:
    """Return a policy's name, with those of its settings that are not the usual ones, as `policy` reads it."""
    fields = dataclasses.fields(policy) if dataclasses.is_dataclass(policy) else ()
    usual = {f.name: _default(f) for f in fields}
    values = {name: getattr(policy, name) for name in usual}
    changed = {name: _typed(value) for name, value in values.items() if not np.array_equal(value, usual[name])}
    return join_settings(policy.name if name is None else name, changed)


def _typed(value: Any) -> Any:
    """Return a setting as it is typed; what cannot be typed, such as a list, is given as text."""
    if isinstance(value, Merit):
        return as_inner(str(value))
    return value if value is None or isinstance(value, (int, float)) else str(value).replace(",", ";")


def _default(field: dataclasses.Field[Any]) -> Any:
    return field.default_factory() if field.default_factory is not dataclasses.MISSING else field.default
