"""What a programme has learned: how much people are estimated to gain from being reached, by group and by class."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from meritfair.core.arrays import BoolArray, FloatArray, IntArray
from meritfair.model.benefit import benefit
from meritfair.programme.showing.estimating import LEVEL, PartEstimates
from meritfair.programme.state import State

_DRAWS = 200
_AT_ONCE = 2_000_000  # numbers drawn at a time
_EDGE = 1e-12
_SEED = 1
_QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


@dataclass(frozen=True)
class LearnedGroup:
    """What was learned of some people.

    Attributes
    ----------
    name : str
    people : int
    mean : float
        Of their estimated benefits.
    quantiles : tuple of float
        Of the estimated benefits of the people: 5 %, 25 %, 50 %, 75 % and 95 % of them are below.
    gain : int
        For how many the interval of their own lies above 0.
    """

    name: str
    people: int
    mean: float
    quantiles: tuple[float, ...]
    gain: int


@dataclass(frozen=True)
class LearnedClass:
    """A class of people that was found: how many are of it, as a part of all, and the benefit of an average one."""

    share: float
    benefit: float


@dataclass(frozen=True)
class Learned:
    """What was learned of those who are enrolled in one part.

    Attributes
    ----------
    part : str
    pooled : bool
    outcomes : float
        How many were seen, with what those around missing states are worth.
    everyone : LearnedGroup
    groups : tuple of LearnedGroup
    classes : tuple of LearnedClass
        Those that were found, if the estimate is pooled.
    """

    part: str
    pooled: bool
    outcomes: float
    everyone: LearnedGroup
    groups: tuple[LearnedGroup, ...]
    classes: tuple[LearnedClass, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values."""
        groups = [vars(each) | {"quantiles": list(each.quantiles)} for each in (self.everyone, *self.groups)]
        classes = [dict(vars(each)) for each in self.classes]
        return {**vars(self), "everyone": groups[0], "groups": groups[1:], "classes": classes}


def learned_of(state: State, place: int, groups: Sequence[str], group: IntArray) -> Learned | None:
    """Return what was learned of those who are enrolled in a part; None if nobody is, or none of them was ever reached.

    `group` says for each participant which of `groups` they belong to.
    """
    members = np.flatnonzero(state.here & (state.part == place))
    if not len(members):
        return None
    known = PartEstimates.of(state, place, members)
    if not known.known.counts.visits[..., 1].any():
        return None
    own, sure = group[members], _above(known) >= (1 + LEVEL) / 2
    there = [k for k in range(len(groups)) if (own == k).any()]
    by_group = [_group(groups[k], known.benefit[own == k], sure[own == k]) for k in there] if len(groups) > 1 else []
    classes = _classes(known) if known.pooled else ()
    everyone = _group("all", known.benefit, sure)
    return Learned(known.part.name, known.pooled, float(known.worth.sum()), everyone, tuple(by_group), classes)


def _above(known: PartEstimates) -> FloatArray:
    """Return for each member the probability that their benefit is above 0, by draws from the posterior."""
    above = np.zeros(len(known.members))
    chunk = max(1, _AT_ONCE // (4 * len(above)))
    for drawn in known.posterior.in_chunks(np.random.default_rng(_SEED), _DRAWS, chunk):
        above += (benefit(np.clip(drawn, _EDGE, 1 - _EDGE)) > 0).sum(axis=0)
    return above / _DRAWS


def _group(name: str, gains: FloatArray, sure: BoolArray) -> LearnedGroup:
    quantiles = tuple(float(each) for each in np.quantile(gains, _QUANTILES))
    return LearnedGroup(name, len(gains), float(gains.mean()), quantiles, int(sure.sum()))


def _classes(known: PartEstimates) -> tuple[LearnedClass, ...]:
    shares = known.posterior.weights.mean(axis=0)
    gains = benefit(known.prior.good / (known.prior.good + known.prior.bad))
    return tuple(LearnedClass(float(share), float(gain)) for share, gain in zip(shares, gains, strict=True))
