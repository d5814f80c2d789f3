"""How what is known of people has grown: the intervals of their benefits after each of some rounds.

The ledger is read once from its first entry on. At the end of the chosen rounds everyone who was enrolled then is
estimated from what was known then, as the policy did for the next draw.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from meritfair.core.arrays import FloatArray, IntArray
from meritfair.core.progress import Progress, following
from meritfair.model.benefit import benefit
from meritfair.programme.columns import Columns
from meritfair.programme.showing.estimating import LEVEL, PartEstimates
from meritfair.programme.state import State
from meritfair.programme.work import Work

_MOST_LOOKS = 12
_MOST_PEOPLE = 2000  # of whom intervals are worked out, if there are more
_DRAWS = 400
_SEED = 1
_EDGE = 1e-12
_BARS = 20


@dataclass(frozen=True)
class LearnedByRound:
    """What was known of those in a part after a round.

    Attributes
    ----------
    part : str
    round, people : int
    mean : float
        Of the estimated benefits.
    width : float
        The mean width of the intervals of single people.
    narrow, wide : float
        A tenth of the intervals are narrower, and a tenth wider.
    """

    part: str
    round: int
    people: int
    mean: float
    width: float
    narrow: float
    wide: float


@dataclass(frozen=True)
class BenefitsNow:
    """The estimated benefits of those in a part now: how many people lie between two edges and the next."""

    part: str
    edges: tuple[float, ...]
    people: tuple[int, ...]


@dataclass(frozen=True)
class Learning:
    """How what is known of people has grown.

    Attributes
    ----------
    level : float
        Of the intervals.
    course : tuple of LearnedByRound
    now : tuple of BenefitsNow
    sampled : bool
        Whether only some of the people were looked at, since there are many.
    """

    level: float
    course: tuple[LearnedByRound, ...]
    now: tuple[BenefitsNow, ...]
    sampled: bool

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain values."""
        return asdict(self)


def learning_of(work: Work, progress: Progress = None) -> Learning:
    """Return how the intervals of people's benefits went, round after round.

    Parameters
    ----------
    work : Work
    progress : bool or callable, optional
    """
    last = work.state.summary.round
    looks = np.unique(np.linspace(0, last, min(last + 1, _MOST_LOOKS)).round().astype(np.int64)).tolist()
    ends = {work.end_of_round(look): look for look in looks}  # of rounds with one end, the last
    state, course, sampled = State(Columns()), list[LearnedByRound](), False
    with following(progress, "learning") as tell:
        for done, (entry, table) in enumerate(work.entries(), start=1):
            state.apply(entry, table)
            tell(done, work.length)
            if done in ends:
                for place in range(len(state.settings.parts)):
                    known = _known(state, place)
                    course += [] if known is None else [_after(known, ends[done])]
                    sampled |= known is not None and len(known.members) == _MOST_PEOPLE
    now = [_known(work.state, place) for place in range(len(work.state.settings.parts))]
    return Learning(LEVEL, tuple(course), tuple(_now(each) for each in now if each is not None), sampled)


def _known(state: State, place: int) -> PartEstimates | None:
    """Return the estimates of those enrolled in a part, or of some of them if there are many."""
    members = np.flatnonzero(state.here & (state.part == place))
    return PartEstimates.of(state, place, _some(members)) if len(members) else None


def _some(members: IntArray) -> IntArray:
    places = np.linspace(0, len(members) - 1, min(len(members), _MOST_PEOPLE)).round().astype(np.int64)
    return members[places]


def _after(known: PartEstimates, round_: int) -> LearnedByRound:
    width = _widths(known)
    narrow, wide = np.quantile(width, (0.1, 0.9))
    mean = float(known.benefit.mean()), float(width.mean())
    return LearnedByRound(known.part.name, round_, len(width), *mean, float(narrow), float(wide))


def _widths(known: PartEstimates) -> FloatArray:
    """Return the width of the interval of each member's benefit, by draws from the posterior."""
    drawn = known.posterior.draw(np.random.default_rng(_SEED), _DRAWS)
    low, high = np.quantile(benefit(np.clip(drawn, _EDGE, 1 - _EDGE)), [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
    return np.asarray(high - low)


def _now(known: PartEstimates) -> BenefitsNow:
    people, edges = np.histogram(known.benefit, _BARS)
    return BenefitsNow(known.part.name, tuple(edges.tolist()), tuple(people.tolist()))
