"""How everyone stands before a round: what is estimated, what is due, and which bounds bind.

All of it is worked out for everyone at once and takes a while with many participants. It is made when it is first asked
for, and once: any number of threads may ask, for any of the participants.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from threading import RLock
from typing import TypeVar

import numpy as np

from meritfair.core.arrays import IntArray
from meritfair.policies.plans import Lottery
from meritfair.programme.columns import UNKNOWN
from meritfair.programme.planning import PlannedRound, plan_round, unknown_states
from meritfair.programme.showing.estimating import Bound, MeritBounds, PartEstimates
from meritfair.programme.state import State

_Value = TypeVar("_Value")


class BeforeRound:
    """How everyone stands before the next round.

    Parameters
    ----------
    state : State
        All that is known; it must not change any more.
    identity : str
        Of the programme.
    wait : callable
        Is called before anything is worked out, and returns when that may begin.
    """

    def __init__(self, state: State, identity: str, wait: Callable[[], None] = lambda: None) -> None:
        self.state, self._identity, self._wait = state, identity, wait
        self._made: dict[tuple[object, ...], object] = {}
        self._with_left: tuple[int, PartEstimates] | None = None
        self._lock = RLock()

    @property
    def planned(self) -> PlannedRound:
        """The next round as it would be drawn now."""

        def plan() -> PlannedRound:
            nothing, own = unknown_states(self.state.people), (None,) * len(self.state.settings.parts)
            return plan_round(self.state, self._identity, nothing, own)

        return self._once(("planned",), plan)

    def enrolled(self, place: int) -> IntArray:
        """Return the numbers of those who are enrolled in a part, in order."""
        return self._once(
            ("enrolled", place), lambda: np.flatnonzero(self.state.here & (self.state.part == place)).astype(np.int64)
        )

    def estimates(self, place: int, number: int) -> PartEstimates:
        """Return the estimates for a part, with a participant who may have left it."""
        enrolled = self.enrolled(place)
        row = int(np.searchsorted(enrolled, number))
        if row < len(enrolled) and enrolled[row] == number:
            return self._once(("estimates", place), partial(PartEstimates.of, self.state, place, enrolled))
        return self._estimates_with(place, np.union1d(enrolled, [number]), number)

    def _estimates_with(self, place: int, members: IntArray, number: int) -> PartEstimates:
        """Return the estimates for a part and one who has left it; only the last ones are kept, as they are large."""
        self._wait()
        with self._lock:
            if self._with_left is None or self._with_left[0] != number:
                self._with_left = None
                self._with_left = number, PartEstimates.of(self.state, place, members)
            return self._with_left[1]

    def lottery(self, place: int, number: int, budget: int) -> Lottery | None:
        """Return the lottery by merit that says what is due, None for policies without merit."""
        estimates = self.estimates(place, number)
        make = partial(estimates.lottery, self.state, self._identity, place, budget)
        return self._once(("lottery", place, budget, id(estimates)), make)

    def bound(self, place: int, number: int, budget: int) -> Bound:
        """Return what decides how much is due to someone who may be drawn."""
        lottery, estimates = self.lottery(place, number, budget), self.estimates(place, number)
        if lottery is None:
            return Bound("none" if budget else "budget")

        def bounds() -> MeritBounds:
            states = np.full(len(estimates.members), UNKNOWN)
            now = estimates.known.situation(self.state, "", place, estimates.members, states, budget)
            criterion = estimates.part.policy.criterion
            has_cap = criterion is not None and bool(np.min(criterion.cap) < 1)
            return MeritBounds(lottery, now.entitled, budget, now.most_due, has_cap)

        return self._once(("bounds", place, budget, id(estimates)), bounds).at(estimates.place_of(number))

    def _once(self, key: tuple[object, ...], make: Callable[[], _Value]) -> _Value:
        """Return what is made only once; whoever else asks for it meanwhile waits."""
        found = self._made.get(key, self)
        if found is self:
            self._wait()
            with self._lock:
                if key not in self._made:
                    self._made[key] = make()
                found = self._made[key]
        return found  # type: ignore[return-value]
