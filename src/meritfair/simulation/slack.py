"""One policy with several slacks: its variants before they are played, and its curve among those that were.

The slack is how far the account of an arm may go, what it was due less what it was given, in pulls. With 0 the policy
is a lottery that is blind to states; the more slack it has, the better it can choose when an arm gets what it is due.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from meritfair.core.arrays import FloatArray, IntArray
from meritfair.core.checks import float_array
from meritfair.core.errors import InputError
from meritfair.core.parsing import split_name
from meritfair.policies.base import Policy
from meritfair.simulation.bootstrap import Interval

if TYPE_CHECKING:
    from meritfair.simulation.run import Run

_SETTING = "slack"
_IN_LABEL = re.compile(r"(?<=[:,])slack=[^,]*,|[:,]slack=[^,]*$")


def with_slacks(players: Mapping[str, Policy], slacks: Sequence[float]) -> dict[str, Policy]:
    """Return policies by label, with a variant for each slack in place of every one that has this setting at 0.

    Examples
    --------
    >>> from meritfair import Random
    >>> with_slacks({"random": Random()}, [0, 1])
    Traceback (most recent call last):
    ...
    meritfair.core.errors.InputError: none of these policies has a setting 'slack' that is not set yet: random
    """
    values = _checked(slacks)
    varied = [label for label, policy in players.items() if policy.settings().get(_SETTING) == 0]
    if not varied:
        raise InputError(f"none of these policies has a setting 'slack' that is not set yet: {', '.join(players)}")
    made: dict[str, Policy] = {}
    for label, policy in players.items():
        variants = _variants(label, policy, values) if label in varied else {label: policy}
        for name, variant in variants.items():
            if name in made or (name != label and name in players):
                raise InputError(f"duplicate policy: {name}")
            made[name] = variant
    return made


def _checked(slacks: Sequence[float]) -> list[float]:
    values = float_array("slack", slacks)
    if values.ndim != 1 or not len(values) or not (values >= 0).all():
        raise InputError(f"slack must be one or more numbers of at least 0, got {slacks!r}")
    if len(np.unique(values)) < len(values):
        raise InputError(f"duplicate slack: {', '.join(f'{value:g}' for value in values)}")
    return [float(value) for value in values]


def _variants(label: str, policy: Policy, slacks: Sequence[float]) -> dict[str, Policy]:
    """Return a policy with each slack, by labels that can be typed if its own can."""
    fair = policy.criterion
    if fair is not None and fair.design == "sequential" and any(slacks):
        raise InputError(f"slack needs the design 'exact' or 'systematic', got 'sequential' for {label}")
    joined = label + ("," if split_name(label)[1] else ":")
    settings: Any = [{_SETTING: value} for value in slacks]
    return {f"{joined}slack={each[_SETTING]:g}": dataclasses.replace(policy, **each) for each in settings}


@dataclass(frozen=True)
class SlackCurve:
    """One policy with several slacks, from the smallest: what it is called without them, and the label of each."""

    label: str
    slacks: tuple[float, ...]
    members: tuple[str, ...]


def slack_curves(runs: Mapping[str, Run]) -> tuple[SlackCurve, ...]:
    """Return the policies that were played with at least two slacks and are the same otherwise."""
    alike: dict[str, dict[float, str]] = {}
    for label, run in runs.items():
        settings = dict(run.settings["policy"])
        if _SETTING in settings:
            slack = float(settings.pop(_SETTING))
            alike.setdefault(json.dumps(settings, sort_keys=True), {}).setdefault(slack, label)
    return tuple(_curve(dict(sorted(found.items()))) for found in alike.values() if len(found) > 1)


def _curve(found: Mapping[float, str]) -> SlackCurve:
    return SlackCurve(_IN_LABEL.sub("", next(iter(found.values()))), tuple(found), tuple(found.values()))


@dataclass(frozen=True)
class SlackLines:
    """Reward against slack, a line for each policy that was played with several.

    ``slacks`` are all there are, in order. A line has the places of its own among them, shape (k,), and its rewards
    with rows mean, low and high, shape (3, k).
    """

    slacks: tuple[float, ...]
    places: tuple[IntArray, ...]
    rewards: tuple[FloatArray, ...]


def slack_lines(
    measures: Mapping[str, Mapping[str, Interval]], curves: Sequence[SlackCurve], reward: str
) -> SlackLines:
    """Return what the panel of slacks shows of a comparison."""
    slacks = sorted({slack for curve in curves for slack in curve.slacks})
    places = tuple(np.searchsorted(slacks, curve.slacks) for curve in curves)
    rewards = tuple(np.array([measures[label][reward] for label in curve.members]).T for curve in curves)
    return SlackLines(tuple(slacks), places, rewards)
