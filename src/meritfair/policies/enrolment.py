"""What a learner knows of its arms from when they enrolled: the features of each, by name.

Features are known by name, not by place, so that those who have left keep theirs. The first that are given say which
features there are; later a name that is not one of them is refused, and one that is not given is missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from meritfair.core.checks import check_known
from meritfair.core.errors import InputError
from meritfair.model.features import MISSING, Features


@dataclass(frozen=True)
class Enrolment:
    """The features of arms, by name; empty where none were ever given.

    Examples
    --------
    >>> known = Enrolment().with_features(["Ada", "Bo"], {"age": [34, 61]})
    >>> known.features_of(["Bo", "Cy"])["age"]
    ('61', '')
    >>> known.with_features(["Cy"], {"agee": 50})
    Traceback (most recent call last):
    ...
    meritfair.core.errors.InputError: features: there is no feature 'agee', did you mean 'age'?
    """

    names: tuple[str, ...] = ()  # of features
    by_arm: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def features_of(self, arms: Sequence[str]) -> Features | None:
        """Return the features of these arms in order, or None if there are no features at all."""
        if not self.names:
            return None
        rows = [self.by_arm.get(arm, {}) for arm in arms]
        return Features({name: [row.get(name, MISSING) for row in rows] for name in self.names}, len(rows))

    def with_features(self, arms: Sequence[str], given: Any) -> Enrolment:
        """Return this with the features of more arms: values in their order, by name of the arm, or one for one arm."""
        if given is None:
            return self
        found = as_features(given, arms)
        for name in found if self.names else ():
            check_known("feature", name, self.names, where="features")
        rows = {arm: found.of(place) for place, arm in enumerate(arms)}
        return Enrolment(self.names or found.names, {**self.by_arm, **rows})

    def without(self, arms: Iterable[str]) -> Enrolment:
        """Return this without some arms."""
        gone = set(arms)
        return Enrolment(self.names, {arm: row for arm, row in self.by_arm.items() if arm not in gone})

    def to_dict(self) -> dict[str, Any] | None:
        """Return this as plain values, None if there are no features."""
        if not self.names:
            return None
        return {"names": list(self.names), "by_arm": {arm: dict(row) for arm, row in self.by_arm.items()}}

    @classmethod
    def from_dict(cls, values: Any, arms: Iterable[str]) -> Enrolment:
        """Return what `to_dict` has described, for some of these arms; nothing in it is trusted."""
        if values is None:
            return cls()
        names, rows = (values.get(key) if isinstance(values, Mapping) else None for key in ("names", "by_arm"))
        if not isinstance(names, (list, tuple)) or not isinstance(rows, Mapping) or not names:
            raise InputError(f"features must have names, and values by arm, got {values!r}")
        known = set(arms)
        for arm, row in rows.items():
            if arm not in known or not isinstance(row, Mapping) or not set(row) <= set(names):
                raise InputError(f"features must be of arms that there are or were, got {row!r} for {arm!r}")
        checked = Features({name: [row.get(name) for row in rows.values()] for name in names}, len(rows))
        return cls(checked.names, {arm: checked.of(place) for place, arm in enumerate(rows)})


def as_features(given: Any, arms: Sequence[str]) -> Features:
    """Return the features of these arms, from a `Features` or a mapping of names to values."""
    if isinstance(given, Features):
        if given.n_arms != len(arms):
            raise InputError(f"features must be of the {len(arms)} arms, got those of {given.n_arms}")
        return given
    if not isinstance(given, Mapping) or not given:
        raise InputError(f"features must be a mapping of their names to values, got {given!r}")
    return Features({name: _in_order(name, values, arms) for name, values in given.items()}, len(arms))


def _in_order(name: str, values: Any, arms: Sequence[str]) -> Any:
    """Return the values of one feature in the order of the arms."""
    if isinstance(values, Mapping):
        for arm in values:
            check_known("arm", arm, arms, where=f"the feature {name!r}")
        return [values.get(arm) for arm in arms]
    one = isinstance(values, (str, bytes)) or not isinstance(values, Iterable)
    return [values] if one and len(arms) == 1 else values
