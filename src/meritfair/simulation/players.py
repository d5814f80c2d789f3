"""Who is compared: policies by label, from what users give, and why some of them cannot be played."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from meritfair.core.errors import InputError, MeritfairError
from meritfair.core.parsing import as_inner, join_settings
from meritfair.model.criterion import Confidence, Criterion
from meritfair.model.merit import Merit
from meritfair.policies import registry
from meritfair.policies.base import Policy
from meritfair.simulation.simulate import make_policy


@dataclass(frozen=True)
class Notes:
    """Why policies could not be played, if they may be skipped."""

    may_skip: bool
    skipped: dict[str, str] = dataclasses.field(default_factory=dict)

    @contextmanager
    def about(self, label: str) -> Iterator[None]:
        """Note why this policy fails, or raise it."""
        try:
            yield
        except MeritfairError as error:
            if not self.may_skip:
                raise InputError(f"{label} cannot be played here: {error}") from error
            self.skipped[label] = str(error)


def players_of(policies: Any, criterion: Criterion, confidence: Confidence, notes: Notes) -> dict[str, Policy]:
    """Return the policies to be compared, by label."""
    players: dict[str, Policy] = {}
    if policies is None:
        for label in [*registry.names(), registry.RECOMMENDED]:
            with notes.about(label):
                players[label] = make_policy(label, criterion, confidence)
        return players
    if not isinstance(policies, (Mapping, Sequence)) or isinstance(policies, str) or not policies:
        raise InputError(f"policies must be a non-empty list, or a mapping of labels to policies, got {policies!r}")
    for key in policies:
        each = policies[key] if isinstance(policies, Mapping) else key
        made = make_policy(each, criterion, confidence)
        label = str(key) if isinstance(policies, Mapping) or isinstance(each, str) else _label(made)
        if not (visible := "".join(label.split())) or not visible.isprintable():
            raise InputError(f"a label must be text that can be seen, without control characters, got {label!r}")
        if label in players:
            raise InputError(f"duplicate policy: {label}")
        players[label] = made
    return players


def _label(policy: Policy) -> str:
    """Return a policy's name, with those of its settings that are not the usual ones, as `registry.create` reads it."""
    fields = dataclasses.fields(policy) if dataclasses.is_dataclass(policy) else ()
    usual = {f.name: _default(f) for f in fields}
    values = {name: getattr(policy, name) for name in usual}
    changed = {name: _typed(value) for name, value in values.items() if not np.array_equal(value, usual[name])}
    return join_settings(policy.name, changed)


def _typed(value: Any) -> Any:
    """Return a setting as it is typed; what cannot be typed, such as a list, is given as text."""
    if isinstance(value, Merit):
        return as_inner(str(value))
    return value if value is None or isinstance(value, (int, float)) else str(value).replace(",", ";")


def _default(field: dataclasses.Field[Any]) -> Any:
    return field.default_factory() if field.default_factory is not dataclasses.MISSING else field.default
