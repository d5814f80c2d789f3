"""What is summed up over rounds: who was drawn how often, whose state was seen last, what was reported.

Sums of a round stay right until something of that round changes. Columns are replaced and never changed, so a column
that is still the same object has not changed, and what was worked out from it is used again.
"""

from __future__ import annotations

from dataclasses import dataclass
from threading import RLock

import numpy as np

from meritfair.core.arrays import AnyArray, IntArray
from meritfair.programme.columns import SEEN, UNKNOWN
from meritfair.programme.state import COMMITTED, State


@dataclass(frozen=True)
class RoundTally:
    """How many were drawn in a round, of how many of them it is known what was done, and how many states are known."""

    drawn: int
    reported: int
    states: int

    @classmethod
    def of(cls, seen: AnyArray) -> RoundTally:
        """Return the sums of what was seen in a round, shape (4, people)."""
        drawn = seen[0] == 1
        return cls(int(drawn.sum()), int((drawn & (seen[2] >= 0)).sum()), int((seen[3] >= 0).sum()))


@dataclass(frozen=True, eq=False)
class PersonTallies:
    """For some participants: how often and when last they were drawn, their last known state and after which round.

    Attributes
    ----------
    drawn, last_drawn, state, state_round : ndarray of int
        `last_drawn` is 0 for those who never were, `state` -1 where none is known; `state_round` says nothing there.
    """

    drawn: AnyArray
    last_drawn: AnyArray
    state: AnyArray
    state_round: AnyArray

    @classmethod
    def nothing(cls, people: int) -> PersonTallies:
        """Return those of people of whom nothing is known."""
        drawn, last_drawn, state_round = np.zeros((3, people), np.int32)
        return cls(drawn, last_drawn, np.full(people, UNKNOWN, np.int8), state_round)

    def with_round(self, round_: int, seen: AnyArray) -> PersonTallies:
        """Return them with one more round, of which `seen` has the rows of these participants."""
        drawn, before, _, after = seen
        once = drawn == 1
        now, known = np.where(after >= 0, after, before), (after >= 0) | (before >= 0)
        return PersonTallies(
            self.drawn + once,
            np.where(once, np.int32(round_), self.last_drawn),
            np.where(known, now, self.state),
            np.where(known, np.where(after >= 0, np.int32(round_), np.int32(round_ - 1)), self.state_round),
        )

    @classmethod
    def of(cls, state: State, numbers: IntArray) -> PersonTallies:
        """Return those of a few participants."""
        made = cls.nothing(len(numbers))
        for round_ in _rounds(state):
            made = made.with_round(round_, state.seen(round_)[:, numbers])
        return made


class Tallies:
    """Sums for all participants of one ledger, used again as far as nothing has changed; for any thread."""

    def __init__(self) -> None:
        self._rounds: dict[int, tuple[AnyArray, RoundTally]] = {}
        self._columns: tuple[AnyArray, ...] = ()
        self._before: PersonTallies | None = None  # by all of these columns but the last
        self._now: PersonTallies | None = None
        self._lock = RLock()

    def of_round(self, state: State, round_: int) -> RoundTally:
        """Return the sums of a round."""
        column = state.columns.get("seen", round_)
        known = self._rounds.get(round_)
        if known is None or known[0] is not column:
            known = column, RoundTally.of(column.reshape(len(SEEN), -1))
            self._rounds[round_] = known
        return known[1]

    def of_everyone(self, state: State) -> PersonTallies:
        """Return the sums of all participants; the same object as long as nothing has changed."""
        rounds, people = _rounds(state), state.people
        columns = tuple(state.columns.get("seen", round_) for round_ in rounds)
        with self._lock:
            found = self._now
            if found is not None and _same(columns, self._columns) and len(found.drawn) == people:
                return found
            before = self._kept_before(columns, people)
            if before is None:
                before = PersonTallies.nothing(people)
                for round_ in rounds[:-1]:
                    before = before.with_round(round_, state.seen(round_))
            now = before.with_round(rounds[-1], state.seen(rounds[-1])) if rounds else before
            self._columns, self._before, self._now = columns, before, now
            return now

    def _kept_before(self, columns: tuple[AnyArray, ...], people: int) -> PersonTallies | None:
        """Return the sums of all rounds but the last one, if they are known."""
        if not columns or self._before is None or len(self._before.drawn) != people:
            return None
        if _same(columns[:-1], self._columns[:-1]):
            return self._before
        return self._now if _same(columns[:-1], self._columns) else None


def _same(columns: tuple[AnyArray, ...], others: tuple[AnyArray, ...]) -> bool:
    return len(columns) == len(others) and all(one is other for one, other in zip(columns, others, strict=True))


def _rounds(state: State) -> range:
    """Return the rounds of which something may have been seen, those of the history first."""
    return range(1 - state.summary.before, state.summary.round + 1)


def drawn_rounds(state: State) -> range:
    """Return the rounds that were drawn."""
    return range(1, state.summary.round + (state.summary.phase != COMMITTED))
