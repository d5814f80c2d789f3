"""The one list of policies, by name: what the command line, files and `create` know."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from meritfair.checks import check_known, check_settings
from meritfair.policies.fair_oracle import FairOracle
from meritfair.policies.merit_fair import MeritFair
from meritfair.policies.optimal import Optimal
from meritfair.policies.simple import NoAction, Random, RoundRobin

if TYPE_CHECKING:
    from meritfair.policies.base import Policy

__all__ = ["create", "names", "policy_class"]

_POLICIES: dict[str, type[Policy]] = {
    policy.name: policy for policy in (MeritFair, Optimal, FairOracle, Random, RoundRobin, NoAction)
}


def names() -> list[str]:
    """Return the names of all policies.

    Examples
    --------
    >>> names()
    ['merit-fair', 'optimal', 'fair-oracle', 'random', 'round-robin', 'none']
    """
    return list(_POLICIES)


def policy_class(name: str) -> type[Policy]:
    """Return the class of the policy of this name."""
    return _POLICIES[check_known("policy", name, _POLICIES)]


def create(name: str, **settings: Any) -> Policy:
    """Make a policy from its name and settings.

    Examples
    --------
    >>> create("optimal", delta=0.05)
    Optimal(delta=0.05, estimate='optimistic', ball='paper')
    >>> create("merit-fare")
    Traceback (most recent call last):
    ...
    meritfair.errors.InputError: there is no policy 'merit-fare', did you mean 'merit-fair'?
    """
    policy = policy_class(name)
    check_settings(name, settings, (f.name for f in dataclasses.fields(policy)))
    return policy(**settings)
