"""What the participants of one part are estimated to gain, how sure that is, and which bound says what each is due.

Estimates are the posterior that the part's policy plans with: under the prior that is fitted to all of the part where
it says ``pooled``, else under a uniform one. What is due follows from the policy itself, asked as for a draw.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from meritfair.core.arrays import BoolArray, FloatArray, IntArray
from meritfair.model.allocation import allocate
from meritfair.model.benefit import benefit
from meritfair.model.counts import Counts
from meritfair.model.gaps import FilledPosterior, Gaps
from meritfair.model.gaps import posterior as posterior_with_gaps
from meritfair.model.posterior import Posterior, Prior, fit_prior
from meritfair.policies.plans import Lottery
from meritfair.policies.timed import TimedLottery
from meritfair.policies.track import gaps_of
from meritfair.policies.view import View
from meritfair.programme.planning import Known, planning_rng
from meritfair.programme.settings import Part
from meritfair.programme.state import State

LEVEL = 0.95
_DRAWS = 4000  # for the interval of one person
_ALIKE = 1e-9  # exposures that differ by less are the same
_EDGE = 1e-12  # draws are kept this far from 0 and 1, where nobody may have a steady state


@dataclass(frozen=True, eq=False)
class PartEstimates:
    """What is known of the participants of a part.

    Attributes
    ----------
    part : Part
    members : ndarray of int
        Their numbers, in order.
    known : Known
    prior : Prior
    posterior : Posterior
    pooled : bool
        Whether each was estimated with what all together say of the classes that there are.
    """

    part: Part
    members: IntArray
    known: Known
    prior: Prior
    posterior: Posterior
    pooled: bool

    @classmethod
    def of(cls, state: State, place: int, members: IntArray) -> PartEstimates:
        """Return the estimates for these members of a part, from all that is known now."""
        part, known = state.settings.parts[place], Known.of(state, members)
        pooled = part.policy.settings().get("estimate") == "pooled"
        ages = np.arange(known.track.shape[1] - 1, -1, -1, dtype=np.float64)
        gaps = gaps_of(known.track, ages, state.settings.forget)
        prior = _prior(known) if pooled and len(members) else Prior.uniform()
        return cls(part, members, known, prior, posterior_with_gaps(prior, known.complete, gaps, known.counts), pooled)

    @cached_property
    def benefit(self) -> FloatArray:
        """The benefit of each at the mean of the posterior."""
        return benefit(self.posterior.mean)

    @cached_property
    def worth(self) -> FloatArray:
        """How many outcomes of each were seen, with what gaps are worth."""
        return np.asarray(self.known.counts.visits.sum(axis=(-2, -1)), np.float64)

    def budget(self, round_: int) -> int:
        """Return how many are to be drawn in a round, by the settings."""
        return self.part.budget_in(round_)

    def place_of(self, number: int) -> int:
        """Return where a participant is among the members."""
        return int(np.searchsorted(self.members, number))

    def interval(self, number: int, level: float = LEVEL) -> tuple[float, float]:
        """Return the interval that holds the benefit of one participant, by draws from the posterior."""
        drawn = _of_one(self.posterior, self.place_of(number)).draw(np.random.default_rng(number), _DRAWS)
        ends = np.quantile(benefit(np.clip(drawn[:, 0], _EDGE, 1 - _EDGE)), [(1 - level) / 2, (1 + level) / 2])
        return float(ends[0]), float(ends[1])

    def lottery(self, state: State, identity: str, place: int, budget: int) -> Lottery | None:
        """Return the lottery by merit that says what is due in the next round, None for policies without merit."""
        if self.part.policy.criterion is None or budget == 0:
            return None
        number, largest = len(self.members), min(max(*self.part.budget, budget), len(self.members))
        policy, round_ = self.part.policy_for(number, largest), state.summary.round
        states, rng = np.full(number, -1), planning_rng(identity, round_ + 1, place)
        nothing = np.full((number, 2, 2), np.nan)
        counts, features = self.known.counts, self.known.features
        plan = policy.plan(View(counts, round_ + 1, largest, nothing, (rng,), states, None, round_, features))
        plan = plan.lottery if isinstance(plan, TimedLottery) else plan
        return plan if isinstance(plan, Lottery) else None


@dataclass(frozen=True)
class Bound:
    """What says how much someone is due, if it is not their merit.

    Attributes
    ----------
    kind : str
        ``none``, ``floor``, ``cap``, ``saturated``; ``learning cap``, which leaves room to see how someone fares who is
        not reached; or a rule: ``away``, ``cool-down``, ``warm-up``, ``once``, and ``cool-down share``, the most that a
        cool-down allows; or ``budget`` where nobody is drawn.
    value : float or None
        The bound itself, where it is a number.
    """

    kind: str
    value: float | None = None


class MeritBounds:
    """Which bound of a lottery binds for each participant.

    Parameters
    ----------
    lottery : Lottery
    entitled : ndarray of bool
        Who is due something.
    budget : int
    most_due : float
        The most that rules allow anyone to be due.
    has_cap : bool
        Whether the settings have a cap; without one, caps below 1 are those to learn from.
    """

    def __init__(self, lottery: Lottery, entitled: BoolArray, budget: int, most_due: float, has_cap: bool) -> None:
        self._entitled, self._most_due, self._has_cap = entitled, most_due, has_cap
        self._everyone = _everyone_alike(lottery, int(entitled.sum()), budget, most_due)
        if self._everyone is None:
            self._among = lottery.among(entitled, budget, most_due)
            self._shared = allocate(self._among.merit, budget, floor=self._among.floor, cap=self._among.cap)
            self._alone = allocate(self._among.merit, budget).exposure  # by merit alone, which may say the same

    def at(self, place: int) -> Bound:
        """Return the bound of the participant at this place, who is entitled."""
        if self._everyone is not None:
            return self._everyone
        own = int(self._entitled[:place].sum())
        floor, cap = (float(np.asarray(each)[own]) for each in (self._among.floor, self._among.cap))
        if self._shared.saturated[own] and (cap >= 1 or abs(self._alone[own] - cap) > _ALIKE):
            return _highest(cap, self._most_due, self._has_cap)
        return Bound("floor", floor) if self._shared.at_floor[own] and floor > 0 else Bound("none")


def _everyone_alike(lottery: Lottery, people: int, budget: int, most_due: float) -> Bound | None:
    """Return the bound of everyone, None if it is not the same for all."""
    if people * most_due <= budget:
        return _highest(most_due, most_due, has_cap=False)
    return Bound("none") if lottery.design == "sequential" else None


def _highest(cap: float, most_due: float, has_cap: bool) -> Bound:
    if cap >= 1:
        return Bound("saturated", 1.0)
    if cap == most_due:
        return Bound("cool-down share", cap)
    return Bound("cap" if has_cap else "learning cap", cap)


def _prior(known: Known) -> Prior:
    """Return the prior that is fitted to all members, by features where the policy may look at them."""
    if known.features is None:
        return fit_prior(known.counts)
    from meritfair.model.feature_prior import fit_feature_prior  # takes a while to load

    return fit_feature_prior(known.counts, known.features).of(known.features)


def _of_one(known: Posterior, place: int) -> Posterior:
    """Return what is known of one participant alone."""
    one = slice(place, place + 1)
    alone = Posterior(known.weights[one], known.good[one], known.bad[one])
    if not isinstance(known, FilledPosterior):
        return alone
    counts = Counts(known.counts.visits[one], known.counts.good[one])
    rest = known.prior, counts, _gaps_of_one(known.gaps, place), known.class_weights[one]
    return FilledPosterior(alone.weights, alone.good, alone.bad, *rest)


def _gaps_of_one(gaps: Gaps, place: int) -> Gaps:
    first, last = np.searchsorted(gaps.arm, [place, place + 1])
    bounds, weight = gaps.first[first : last + 1], gaps.weight
    actions = gaps.actions[bounds[0] : bounds[-1]]
    rows = slice(first, last)
    mine = np.zeros(last - first, np.int64), gaps.start[rows], gaps.end[rows], bounds - bounds[0], actions
    return Gaps(*mine, None if weight is None else weight[rows])
