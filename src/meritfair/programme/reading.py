"""Reads for a server: a programme as of one entry of its ledger, for many readers at once, out of memory.

A `Reader` keeps each programme in memory. Whenever it is looked at, one short transaction asks for the head of its
ledger: if that is the one in memory, nothing else is read; if the ledger has grown, whoever made it grow, its new
entries are read and taken in. What is shown belongs to one head: a `Snapshot` never changes, and who has one is not
disturbed by others who write.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np

from meritfair.core.arrays import IntArray
from meritfair.core.errors import InputError
from meritfair.core.sharing import SharedLook, WorkSlots
from meritfair.programme.ledger.lottery import ONE
from meritfair.programme.ledger_cache import ByteCache, LedgerCache
from meritfair.programme.listing import Listing, PeoplePage, PeopleQuery, PersonLine, lines_of
from meritfair.programme.loaded import LoadedProgramme
from meritfair.programme.programme import Programme
from meritfair.programme.rounds import Round, check_round, committed, read_round
from meritfair.programme.settings import Settings
from meritfair.programme.state import CLOSED, COMMITTED, State
from meritfair.programme.status import Status, status_of
from meritfair.programme.storage.store import Session, Store
from meritfair.programme.view import Texts, without_name

if TYPE_CHECKING:
    from meritfair.programme.showing.change_preview import ChangePreview
    from meritfair.programme.showing.happenings import Change
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
    """A programme as of one entry of its ledger; it never changes.

    Attributes
    ----------
    name, identity : str
    head : str
        The hash of the last entry, hexadecimal.
    entries : int
        How many there are.
    time : str
        When the last one was made.
    settings : Settings
    parts : tuple of str
        The names of the parts of a trial.
    """

    def __init__(self, loaded: LoadedProgramme, listing: Listing) -> None:
        self._loaded, self._listing = loaded, listing
        self.name, self.identity, self.head = loaded.name, loaded.identity, loaded.head.hex()
        self.entries, self.time = loaded.length, loaded.state.summary.time
        self.settings: Settings = loaded.state.settings
        self.parts = tuple(part.name for part in self.settings.parts if part.name)

    def __repr__(self) -> str:
        return f"Snapshot({self.name}, {self.entries} entries, head {self.head[:12]})"

    @cached_property
    def status(self) -> Status:
        """How the programme stands."""
        return status_of(self._loaded)

    @property
    def groups(self) -> tuple[str, ...]:
        """The groups that someone is in, in order."""
        return self._loaded.roster.groups.used

    @property
    def staff(self) -> tuple[str, ...]:
        """The staff that someone belongs to, in order."""
        return self._loaded.roster.staff.used

    def round(self, number: int | None = None) -> Round:
        """Return a round, by default the last one."""
        return read_round(self._loaded, number)

    def outcomes(self, round: int) -> tuple[RoundOutcome, ...]:  # noqa: A002
        """Return what came of those who were drawn in a round, and of those who were reached without being drawn."""
        number, phase = check_round(self._loaded, round)
        if phase == COMMITTED:
            return ()
        seen = self._loaded.state.seen(number)
        return self._outcomes(number, np.flatnonzero((seen[0] == 1) | (seen[0] == 0) & (seen[2] == 1)))

    def outcome(self, round: int, number: int) -> RoundOutcome:  # noqa: A002
        """Return what came of one person in a round, whether they were drawn or not."""
        found, phase = check_round(self._loaded, round)
        state = self._loaded.state
        if phase == COMMITTED or not 0 <= number < state.people or state.seen(found)[0, number] < 0:
            raise InputError(f"participant {number} was not enrolled when round {found} was drawn")
        return self._outcomes(found, np.array([number]))[0]

    def progress(self, round: int) -> tuple[int, int]:  # noqa: A002
        """Return how many were drawn in a round, and of how many of them it is known whether they were reached."""
        number, _phase = check_round(self._loaded, round)
        drawn, _before, action, _after = self._loaded.state.seen(number)
        return int((drawn == 1).sum()), int(((drawn == 1) & (action >= 0)).sum())

    def _outcomes(self, round_: int, numbers: IntArray) -> tuple[RoundOutcome, ...]:
        _entry, table = committed(self._loaded, round_)
        rows, known = np.searchsorted(table["number"], numbers), self._loaded.texts(numbers.tolist())
        due, chance = table["due"][rows] / ONE, table["chance"][rows] / ONE
        made = []
        for place, (number, values) in enumerate(
            zip(numbers.tolist(), self._loaded.state.seen(round_)[:, numbers].T.tolist(), strict=True)
        ):
            drawn, before, action, after = values
            texts = known.get(number) or Texts(without_name(number), "", "")
            reason = "" if drawn else self._reason(round_, number)
            chances = float(due[place]), float(chance[place])
            made.append(RoundOutcome(number, *texts, *chances, drawn == 1, before, action, after, reason))
        return tuple(made)

    def _reason(self, round_: int, number: int) -> str:
        """Return why someone was reached in a round without being drawn, as it was said last."""
        notes = self._loaded.notes(number)
        rounds = {seq: entry.body["round"] for seq in notes for entry, _digest in self._loaded.heads(seq, seq + 1)}
        return notes[max(seqs)] if (seqs := [seq for seq in notes if rounds[seq] == round_]) else ""

    def people(self, query: PeopleQuery) -> PeoplePage:
        """Return a page of the list of people."""
        return self._listing.page(self._loaded.state, self._loaded.roster, query)

    def lines(self, numbers: Sequence[int]) -> tuple[PersonLine, ...]:
        """Return the lines of some people, by their numbers in the ledger."""
        return lines_of(self._loaded.state, self._loaded.roster, np.asarray(numbers, np.int64))

    def person(self, number: int, round: int | None = None) -> PersonReport:  # noqa: A002
        """Return why someone was drawn or not, by their number in the ledger: as known now, or after a round.

        What that needs of everyone is worked out once for all who ask for the same round, and for few rounds at a
        time; others wait, and if that takes too long, or too many wait, a `BusyError` says so.
        """
        from meritfair.programme.showing.person import person_of

        with self._loaded.cache.slots.request():
            return person_of(self._loaded, number, round=round)

    def prepare(self) -> None:
        """Work out what reports on single people need of everyone, so that nobody waits for it at the first of them.

        With a million participants that takes seconds. It stays right while a round is open.
        """
        view, state = self._loaded, self._loaded.state
        stop = view.length if state.summary.phase == CLOSED else state.summary.commits[-1]
        everyone = view.before_round(stop, state if stop == view.length else view.state_before(stop))
        if state.summary.ended:
            return
        for place, part in enumerate(everyone.state.settings.parts):
            for number in everyone.enrolled(place)[:1].tolist():
                everyone.bound(place, number, part.budget_in(everyone.state.summary.round + 1))
                _ = everyone.planned if stop == view.length else None

    def number_of(self, id: str) -> int:  # noqa: A002
        """Return the number of someone in the ledger; refuse an id that is not known."""
        return int(self._loaded.numbers([id])[0])

    def ids(self, numbers: Sequence[int]) -> dict[int, str]:
        """Return the ids of participants by their numbers in the ledger; those who are erased have none."""
        known = self._loaded.texts(list(numbers))
        return {number: known[number].id if number in known else without_name(number) for number in numbers}

    def changes(self) -> list[Change]:
        """Return all changes of settings, from the first on."""
        from meritfair.programme.showing.happenings import changes_of

        return changes_of(self._loaded)

    def preview_change(self, settings: Settings) -> ChangePreview:
        """Return what other settings would do to the next draw."""
        from meritfair.programme.showing.change_preview import preview_change

        return preview_change(self._loaded, settings)

    def entry_lines(self, start: int, stop: int) -> tuple[EntryLine, ...]:
        """Return the entries from `start` on, before `stop`, in one line each."""
        found = []
        for entry, digest in self._loaded.heads(max(0, start), stop):
            rows = 0 if entry.table is None else int(entry.table["rows"])
            line = entry.seq, entry.kind, entry.time, entry.by, entry.body.get("round"), rows, digest.hex()
            found.append(EntryLine(*line))
        return tuple(found)

    def same_as(self, session: Session) -> bool:
        """Whether a session shows the same head."""
        return session.identity == self.identity and session.head.hex() == self.head

    def advanced(self, session: Session) -> Snapshot | None:
        """Return the programme as it is in a session; None if its ledger does not go on from this one."""
        loaded = self._loaded.advanced(session)
        return None if loaded is None else Snapshot(loaded, self._listing)

    @property
    def state(self) -> State:
        """What follows from the entries; not to be changed."""
        return self._loaded.state


class Reader:
    """The programmes of a store for a server: one for each process, for any thread, up to date at each call.

    Parameters
    ----------
    store : Store

    Examples
    --------
    >>> import meritfair as mf
    >>> from tempfile import TemporaryDirectory
    >>> folder = TemporaryDirectory()
    >>> store = mf.programme.Store(f"{folder.name}/calls.db")
    >>> _ = mf.programme.Programme(store, "calls").create(budget=1, by="Dr. Osei")
    >>> reader = Reader(store)
    >>> reader.look("calls").status.next_step
    'Enrol participants.'
    >>> _ = reader.programme("calls").enrol(["Ada", "Bo"], by="Dr. Osei")
    >>> reader.look("calls").people(PeopleQuery(search="a")).rows[0].id
    'Ada'
    >>> folder.cleanup()
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self._kept, self._slots = ByteCache(), WorkSlots()
        self._lock = Lock()  # for a moment, unlike those of single programmes
        self._looks: dict[str, SharedLook[Snapshot]] = {}
        self._last: dict[str, Snapshot] = {}

    def names(self) -> list[str]:
        """Return the names of all programmes, in order."""
        return self.store.names()

    def programme(self, name: str) -> Programme:
        """Return a programme for the verbs that change it; they start from what is in memory."""
        return Programme(self.store, name, known=self._known)

    def has(self, name: str) -> bool:
        """Return whether there is a programme of this name; one that was there stays."""
        return name in self._last or name in self.names()

    def look(self, name: str) -> Snapshot:
        """Return a programme as it is now.

        Of all who ask at the same time one looks into the database, and the others wait for what it finds.
        """
        with self._lock:
            shared = self._looks.setdefault(name, SharedLook(partial(self._look, name)))
        return shared.get()

    def _look(self, name: str) -> Snapshot:
        with self.store.reading(name) as session:
            return self._up_to_date(session)

    def prepare(self, name: str) -> None:
        """Work out ahead what reports on single people need of everyone; for a thread in the background of a server.

        It is worth while after a round is closed or drawn.
        """
        self.look(name).prepare()

    def _up_to_date(self, session: Session) -> Snapshot:
        """Return a programme as it is in a session, from what is in memory if possible."""
        last = self._last.get(session.name)
        if last is not None and last.same_as(session):
            return last
        made = None if last is None else last.advanced(session)
        if made is None:
            cache = LedgerCache(self.store, session.name, self._kept, self._slots)
            made = Snapshot(LoadedProgramme.load(session, cache), Listing(cache.tallies))
        self._last[session.name] = made
        return made

    def _known(self, session: Session) -> State | None:
        """Return what follows from the entries that a session shows, if a programme is in memory."""
        last = self._last.get(session.name)
        if last is None or last.same_as(session):
            return None if last is None else last.state
        made = last.advanced(session)
        if made is None:
            return None
        with self._lock:
            if self._last.get(session.name) is last:
                self._last[session.name] = made
        return made.state
