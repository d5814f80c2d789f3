"""What a programme has learned: how much people are estimated to gain from being reached, by group and by class."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import digamma, zeta

from meritfair.core.arrays import BoolArray, FloatArray, IntArray
from meritfair.model.benefit import benefit
from meritfair.model.posterior import Posterior
from meritfair.model.sensitivity import BenefitSensitivity
from meritfair.programme.showing.estimating import LEVEL, PartEstimates
from meritfair.programme.state import State

_DRAWS = 200
_SURE = (1 + LEVEL) / 2  # part of the draws above 0
_AT_ONCE = 2_000_000  # numbers drawn at a time
_EDGE = 1e-12
_SEED = 1
_HOPELESS = 0.5  # standard deviations above 0: who is at less cannot be sure, which takes about two
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
    sensitivity : BenefitSensitivity
        What states that are not known could change of the mean.
    """

    part: str
    pooled: bool
    outcomes: float
    everyone: LearnedGroup
    groups: tuple[LearnedGroup, ...]
    classes: tuple[LearnedClass, ...]
    sensitivity: BenefitSensitivity

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values."""
        groups = [vars(each) | {"quantiles": list(each.quantiles)} for each in (self.everyone, *self.groups)]
        classes = [dict(vars(each)) for each in self.classes]
        own = {"everyone": groups[0], "groups": groups[1:], "classes": classes}
        return {**vars(self), **own, "sensitivity": self.sensitivity.to_dict()}


def learned_of(
    state: State, groups: Sequence[str], group: IntArray, unseen: tuple[IntArray, IntArray]
) -> Future[tuple[Learned, ...]]:
    """Return what was learned of those who are enrolled, by part; parts in which nobody was ever reached are left out.

    `group` says for each participant which of `groups` they belong to, `unseen` how often state and action were known,
    and how often then not the state after, shape (participants, 2, 2) each. Estimates are made at once; draws from the
    posterior, which take longest, in a thread, so that other work can go on meanwhile.
    """
    estimates = [_estimates(state, place) for place in range(len(state.settings.parts))]
    pool = ThreadPoolExecutor(1, thread_name_prefix="meritfair")
    try:
        known = [each for each in estimates if each is not None]
        return pool.submit(lambda: tuple(_learned(each, groups, group, *unseen) for each in known))
    finally:
        pool.shutdown(wait=False)  # it ends when the work is done


def _estimates(state: State, place: int) -> PartEstimates | None:
    """Return the estimates for those who are enrolled in a part; None if none of them was ever reached."""
    members = np.flatnonzero(state.here & (state.part == place))
    known = PartEstimates.of(state, place, members) if len(members) else None
    return known if known is not None and known.known.counts.visits[..., 1].any() else None


def _learned(
    known: PartEstimates, groups: Sequence[str], group: IntArray, visits: IntArray, missing: IntArray
) -> Learned:
    """Return what was learned of the members of a part."""
    own, sure = group[known.members], _gain(known)
    there = [k for k in range(len(groups)) if (own == k).any()]
    by_group = [_group(groups[k], known.benefit[own == k], sure[own == k]) for k in there] if len(groups) > 1 else []
    classes = _classes(known) if known.pooled else ()
    everyone = _group("all", known.benefit, sure)
    unseen = BenefitSensitivity(known.posterior.mean, visits[known.members], missing[known.members])
    return Learned(
        known.part.name,
        known.pooled,
        float(known.worth.sum()),
        everyone,
        tuple(by_group),
        classes,
        unseen,
    )


def _gain(known: PartEstimates) -> BoolArray:
    """Return for each member whether their interval lies above 0: their benefit is, in most draws from the posterior.

    Who has too many draws that are not above 0 is settled, and so is from the start who is not even likely to gain by
    the first two moments: nothing is drawn of them.
    """
    settled, left = _standing(known.posterior) < _HOPELESS, _DRAWS
    above = np.zeros(len(settled))
    chunk = max(1, _AT_ONCE // (4 * len(above)))
    for drawn in known.posterior.in_chunks(np.random.default_rng(_SEED), _DRAWS, chunk, settled):
        left -= len(drawn)
        rest = np.flatnonzero(~settled)
        above[rest] += (benefit(np.clip(drawn[:, rest], _EDGE, 1 - _EDGE)) > 0).sum(axis=0)
        settled |= (above + left) / _DRAWS < _SURE
        if settled.all():
            break
    return np.asarray(above / _DRAWS >= _SURE)


def _standing(known: Posterior) -> FloatArray:
    r"""Return how many standard deviations the mean of a quantity lies above 0 that has the sign of the benefit.

    The benefit is above 0 where :math:`\log P(0,a) - \log(1 - P(1,a))`, the log-odds of the good state in the long run,
    is larger with a pull than without; its moments under a Beta distribution are known.
    """
    total, odds, variance = known.good + known.bad, 0.0, 0.0
    for state, counts, sign in ((0, known.good, 1.0), (1, known.bad, -1.0)):
        mine, all_ = counts[..., state, :], total[..., state, :]
        mean = sign * (digamma(mine) - digamma(all_))
        odds += mean[..., 1] - mean[..., 0]
        variance += (zeta(2, mine) - zeta(2, all_)).sum(axis=-1)
    mean = (known.weights * odds).sum(axis=-1)
    spread = (known.weights * (variance + odds**2)).sum(axis=-1) - mean**2
    return np.asarray(mean / np.sqrt(spread))


def _group(name: str, gains: FloatArray, sure: BoolArray) -> LearnedGroup:
    quantiles = tuple(float(each) for each in np.quantile(gains, _QUANTILES))
    return LearnedGroup(name, len(gains), float(gains.mean()), quantiles, int(sure.sum()))


def _classes(known: PartEstimates) -> tuple[LearnedClass, ...]:
    shares = known.posterior.weights.mean(axis=0)
    gains = benefit(known.prior.good / (known.prior.good + known.prior.bad))
    return tuple(LearnedClass(float(share), float(gain)) for share, gain in zip(shares, gains, strict=True))
