"""Reads for a server: a programme as of one entry of its ledger, for many readers at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from meritfair.core.errors import InputError
from meritfair.programme.ledger.entries import Entry
from meritfair.programme.ledger.lottery import ONE
from meritfair.programme.listing import PeoplePage, PeopleQuery, PersonLine
from meritfair.programme.programme import Programme
from meritfair.programme.rounds import Round, committed, read_round
from meritfair.programme.settings import Settings
from meritfair.programme.state import COMMITTED
from meritfair.programme.status import Status, status_of
from meritfair.programme.storage.store import Store
from meritfair.programme.work import Work

if TYPE_CHECKING:
    from meritfair.programme.showing.person import PersonReport


@dataclass(frozen=True)
class RoundOutcome:
    """What came of one person in a round: of someone who was drawn, or who was reached without being drawn.

    Attributes
    ----------
    number : int
    id, group, staff : str
    due, chance : float
    drawn : bool
    before, action, after : int
        The state at the start, whether they were reached, and the state after the round, as they were reported; -1
        where that is not known.
    reason : str
        Why they were reached without being drawn.
    """

    number: int
    id: str
    group: str
    staff: str
    due: float
    chance: float
    drawn: bool
    before: int
    action: int
    after: int
    reason: str


@dataclass(frozen=True)
class EntryLine:
    """An entry of the ledger in one line.

    Attributes
    ----------
    seq : int
    kind, time, by : str
    round : int or None
        The round that it is about, if it is about one.
    rows : int
        How many participants its table has.
    digest : str
        Its hash, hexadecimal.
    """

    seq: int
    kind: str
    time: str
    by: str
    round: int | None
    rows: int
    digest: str


class Snapshot:
    """A programme as of one entry of its ledger; it never changes."""

    def __init__(self, store: Store, work: Work) -> None:
        self._store = store
        session, state = work.session, work.state
        self.name, self.identity, self.head = session.name, session.identity, session.head.hex()
        self.entries, self.time = session.length, state.summary.time
        self.status: Status = status_of(work)
        self.settings: Settings = state.settings
        people = session.people()
        self.groups = tuple(sorted({each.group for each in people} - {""}))
        self.staff = tuple(sorted({each.staff for each in people} - {""}))
        self.parts = tuple(part.name for part in self.settings.parts if part.name)

    @contextmanager
    def _work(self) -> Iterator[Work]:
        with self._store.reading(self.name) as session:
            yield Work(session)

    def round(self, number: int | None = None) -> Round:
        """Return a round, by default the last one."""
        with self._work() as work:
            if not work.state.summary.round:
                raise InputError("there was no round yet")
            return read_round(work, work.state.summary.round if number is None else number)

    def outcomes(self, round: int) -> tuple[RoundOutcome, ...]:  # noqa: A002
        """Return what came of those who were drawn in a round, and of those reached without being drawn."""
        with self._work() as work:
            summary = work.state.summary
            read_round(work, round)
            if round == summary.round and summary.phase == COMMITTED:
                return ()
            seen, (_, table) = work.state.seen(round), committed(work, round)
            numbers = np.flatnonzero((seen[0] == 1) | (seen[0] == 0) & (seen[2] == 1))
            people = {each.number: each for each in work.session.people(numbers)}
            notes = {}
            for seq, number, text in work.session.notes():
                entry, _ = work.entry(seq)
                if entry.body["round"] == round:
                    notes[number] = text
            found = []
            for number in numbers.tolist():
                row, who = int(np.searchsorted(table["number"], number)), people.get(number)
                texts = (who.id, who.group, who.staff) if who else (f"participant {number}", "", "")
                due, chance = float(table["due"][row] / ONE), float(table["chance"][row] / ONE)
                drawn, before, action, after = seen[:, number].tolist()
                reason = "" if drawn else notes.get(number, "")
                found.append(RoundOutcome(number, *texts, due, chance, drawn == 1, before, action, after, reason))
            return tuple(found)

    def people(self, query: PeopleQuery) -> PeoplePage:
        """Return a page of the list of people."""
        with self._work() as work:
            state = work.state
            known = {each.number: each for each in work.session.people()}
            lines = []
            for number in range(state.people):
                who = known.get(number)
                standing = "left" if not state.here[number] else "away" if state.away[number] else "enrolled"
                part = state.settings.parts[int(state.part[number])].name
                drawn, last_drawn, last, when = 0, None, -1, None
                for round_ in range(1 - state.summary.before, state.summary.round + 1):
                    chosen, before, _, after = state.seen(round_)[:, number].tolist()
                    drawn, last_drawn = (drawn + 1, round_) if chosen == 1 else (drawn, last_drawn)
                    last, when = (before, round_ - 1) if before >= 0 else (last, when)
                    last, when = (after, round_) if after >= 0 else (last, when)
                lines.append(
                    PersonLine(
                        number,
                        who.id if who else f"participant {number}",
                        who.group if who else "",
                        who.staff if who else "",
                        part,
                        standing,
                        float(state.account[number] / ONE),
                        drawn,
                        last_drawn,
                        last,
                        when,
                        who is None,
                    )
                )
        return _page(query, lines)

    def person(self, number: int, round: int | None = None) -> PersonReport:  # noqa: A002
        """Return why someone was drawn or not, by their number in the ledger."""
        from meritfair.programme.showing.person import person_of

        with self._work() as work:
            return person_of(work, number, round=round)

    def number_of(self, id: str) -> int:  # noqa: A002
        """Return the number of someone in the ledger; refuse an id that is not known."""
        with self._work() as work:
            return int(work.numbers([id])[0])

    def entry_lines(self, start: int, stop: int) -> tuple[EntryLine, ...]:
        """Return the entries from `start` on, before `stop`, in one line each."""
        found = []
        with self._work() as work:
            for seq, data, digest in work.session.entries(max(0, start), min(stop, self.entries)):
                entry = Entry.from_bytes(data)
                rows = 0 if entry.table is None else int(entry.table["rows"])
                line = seq, entry.kind, entry.time, entry.by, entry.body.get("round"), rows, digest.hex()
                found.append(EntryLine(*line))
        return tuple(found)


def _page(query: PeopleQuery, lines: list[PersonLine]) -> PeoplePage:
    wanted = [each for each in lines if query.search.lower() in each.id.lower()]
    for name in ("group", "staff", "part"):
        if value := vars(query)[name]:
            wanted = [each for each in wanted if vars(each)[name] == value]
    if query.standing != "all":
        standings = ("enrolled", "away") if query.standing == "enrolled" else (query.standing,)
        wanted = [each for each in wanted if each.standing in standings]
    wanted.sort(key=lambda each: -1 if (value := vars(each)[query.sort]) is None else value, reverse=query.descending)
    return PeoplePage(len(wanted), tuple(wanted[query.offset : query.offset + query.limit]))


class Reader:
    """The programmes of a store for a server: one for each process, for any thread, up to date at each call.

    Parameters
    ----------
    store : Store
    """

    def __init__(self, store: Store) -> None:
        self.store = store

    def names(self) -> list[str]:
        """Return the names of all programmes, in order."""
        return self.store.names()

    def programme(self, name: str) -> Programme:
        """Return a programme for the verbs that change it."""
        return Programme(self.store, name)

    def look(self, name: str) -> Snapshot:
        """Return a programme as it is now."""
        with self.store.reading(name) as session:
            return Snapshot(self.store, Work(session))
