"""A programme in memory as of one entry of its ledger: loaded once, then brought up to date entry by entry.

What follows from new entries is worked out by the same `State.apply` as everywhere, on a copy, and must be what the
database says that follows; if it is not, or if the ledger is not the one that was loaded, nothing of it is used.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from meritfair.core.arrays import IntArray
from meritfair.core.errors import InputError
from meritfair.programme.columns import StoredColumns
from meritfair.programme.inputs import ParticipantError
from meritfair.programme.ledger.entries import Entry
from meritfair.programme.ledger.rowtable import RowTable
from meritfair.programme.ledger_cache import LedgerCache
from meritfair.programme.roster import Roster
from meritfair.programme.showing.before_round import BeforeRound
from meritfair.programme.state import State, Summary
from meritfair.programme.storage.store import Session
from meritfair.programme.tallies import RoundTally
from meritfair.programme.view import ProgrammeView, Texts
from meritfair.programme.work import Naming

Notes = Mapping[int, Mapping[int, str]]  # reasons, by participant and by entry


@dataclass(frozen=True, eq=False)
class _Fixed:
    """What is the same for a programme at any time."""

    name: str
    identity: str
    naming: Naming
    cache: LedgerCache


class LoadedProgramme(ProgrammeView):
    """A programme in memory; it never changes."""

    def __init__(self, fixed: _Fixed, length: int, head: bytes, state: State, roster: Roster, notes: Notes) -> None:
        self._fixed, self._length, self._head = fixed, length, head
        self.state, self.roster, self._notes = state, roster, notes

    @classmethod
    def load(cls, session: Session, cache: LedgerCache) -> LoadedProgramme:
        """Return a programme as it is in a session."""
        fixed = _Fixed(session.name, session.identity, Naming(session.secret), cache)
        stored = StoredColumns(session)
        for name, round_ in session.vector_names():
            stored.get(name, round_)
        state = State(stored.copy(), session.summary)
        roster = Roster.of(session.people(), state.people)
        return cls(fixed, session.length, session.head, state, roster, _by_person(session.notes()))

    def advanced(self, session: Session) -> LoadedProgramme | None:
        """Return the programme as it is in a session; None if its ledger does not go on from this one."""
        if session.identity != self.identity or session.length < self.length:
            return None
        state, head, new = self.state.copy(), self._head, list[tuple[Entry, RowTable | None]]()
        for entry in self.cache.read_heads(session, self._length, session.length):
            if entry.previous != head:
                return None
            if entry.kind == "commit":
                self.cache.keep_state(entry.seq, state.copy())
            table = self.cache.read_table(session, entry)
            state.apply(entry, table)
            new.append((entry, table))
            head = entry.digest
        if head != session.head or state.summary != Summary(**session.summary):
            return None
        roster, notes = self._roster(session, state, new), self._new_notes(session, new)
        return LoadedProgramme(self._fixed, session.length, head, state, roster, notes)

    def _roster(self, session: Session, state: State, new: list[tuple[Entry, RowTable | None]]) -> Roster:
        numbers = {kind: list[int]() for kind in ("enrol", "erase")}
        for entry, table in new:
            if entry.kind in numbers and table is not None:
                numbers[entry.kind] += table["number"].tolist()
        roster = self.roster
        if numbers["enrol"]:
            roster = roster.changed(session.people(sorted(set(numbers["enrol"]))), state.people)
        return roster.without(numbers["erase"]) if numbers["erase"] else roster

    def _new_notes(self, session: Session, new: list[tuple[Entry, RowTable | None]]) -> Notes:
        """Return the reasons; only those that are new are read, unless some were deleted."""
        if any(entry.kind == "erase" for entry, _ in new):
            return _by_person(session.notes())
        added = _by_person(session.notes_since(self._length, sum(map(len, self._notes.values()))))
        changed = {number: {**self._notes.get(number, {}), **texts} for number, texts in added.items()}
        return {**self._notes, **changed} if changed else self._notes

    @property
    def cache(self) -> LedgerCache:
        """What is kept of the ledger."""
        return self._fixed.cache

    @property
    def name(self) -> str:
        return self._fixed.name

    @property
    def identity(self) -> str:
        return self._fixed.identity

    @property
    def length(self) -> int:
        return self._length

    @property
    def head(self) -> bytes:
        return self._head

    # ---- the ledger

    def heads(self, start: int = 0, stop: int | None = None) -> Iterator[tuple[Entry, bytes]]:
        return self.cache.heads(self._range(start, stop))

    def entry(self, seq: int) -> tuple[Entry, RowTable | None]:
        return next(self.entries(seq, seq + 1))

    def entries(self, start: int = 0, stop: int | None = None) -> Iterator[tuple[Entry, RowTable | None]]:
        return self.cache.entries(self._range(start, stop))

    def entries_about(self, number: int, stop: int) -> Iterator[tuple[Entry, RowTable | None]]:
        return self.cache.entries(self.cache.about(number, stop))

    def _range(self, start: int, stop: int | None) -> range:
        return range(start, self.length if stop is None else min(stop, self.length))

    def state_before(self, seq: int) -> State:
        return self.cache.state_before(seq)

    def before_round(self, seq: int, state: State) -> BeforeRound:
        return self.cache.before_round(seq, state, self.identity)

    def tally(self, round_: int) -> RoundTally:
        return self.cache.tallies.of_round(self.state, round_)

    # ---- who is who

    def numbers(self, ids: Sequence[str], *, enrolled: bool = False) -> IntArray:
        found, here = [], self.state.here
        for row, (id_, name) in enumerate(zip(ids, self._fixed.naming.names(ids), strict=True)):
            number = self.roster.number_of(name)
            if number is None:
                raise ParticipantError(str(self._unknown(id_)), row)
            if enrolled and not here[number]:
                raise ParticipantError(f"the participant {id_!r} is not enrolled now", row)
            found.append(number)
        return np.array(found, np.int64)

    def _unknown(self, id_: str) -> InputError:
        return self._fixed.naming.unknown(id_, self.state.people, lambda: filter(None, self.roster.ids.to_pylist()))

    def texts(self, numbers: Sequence[int]) -> dict[int, Texts]:
        return self.roster.texts(numbers)

    def notes(self, number: int) -> dict[int, str]:
        return dict(self._notes.get(number, {}))


def _by_person(notes: Iterable[tuple[int, int, str]]) -> Notes:
    found = dict[int, dict[int, str]]()
    for seq, number, text in notes:
        found.setdefault(number, {})[seq] = text
    return found
