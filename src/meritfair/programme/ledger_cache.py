"""What was read of a ledger, and worked out from it, kept in memory: all of it stays true as the ledger grows.

Entries never change, so that what was read once need not be read again; how much is kept is bounded. An index says
which entries are about a participant: those about all (draws, changes of settings), those with large tables, and the
small ones that name them, such as reports. So with any number of reports a person's history is a few entries.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Hashable, Iterable, Iterator
from contextlib import ExitStack
from functools import partial
from threading import Lock, RLock
from typing import Any

from meritfair.core.sharing import WorkSlots
from meritfair.programme.columns import Columns
from meritfair.programme.ledger.entries import Entry
from meritfair.programme.ledger.rowtable import RowTable
from meritfair.programme.showing.before_round import BeforeRound
from meritfair.programme.state import State
from meritfair.programme.storage.store import Session, Store
from meritfair.programme.tallies import Tallies
from meritfair.programme.work import table_of

MOST_BYTES = 512 * 2**20  # of entries and tables that are kept
_ABOUT_ALL = ("create", "change", "commit", "draw", "history")
_LARGE = 256  # rows of a table that is not indexed
_SMALL = 1000  # bytes, about, of an entry in memory
_STATES = 6  # that are kept
_PEOPLE = 600_000  # of whom estimates are kept, in all: about a kilobyte for each


class ByteCache:
    """Values that were used last, as many as a number of bytes allows; for any thread."""

    def __init__(self, most: int = MOST_BYTES) -> None:
        self._most, self._bytes = most, 0
        self._kept: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self._lock = Lock()

    def get(self, key: Hashable) -> Any:
        """Return a value; None if it is not kept."""
        with self._lock:
            found = self._kept.get(key)
            if found is None:
                return None
            self._kept.move_to_end(key)
            return found[0]

    def put(self, key: Hashable, value: Any, size: int) -> None:
        """Keep a value of this many bytes."""
        with self._lock:
            _, old = self._kept.pop(key, (None, 0))
            self._kept[key] = value, size
            self._bytes += size - old
            while self._bytes > self._most and len(self._kept) > 1:
                _, (_, gone) = self._kept.popitem(last=False)
                self._bytes -= gone


class LedgerCache:
    """What is kept in memory of one ledger.

    Parameters
    ----------
    store : Store
    name : str
        Of the programme.
    kept : ByteCache
        Which several ledgers may share.
    slots : WorkSlots
        For what is worked out for all participants; several ledgers may share them.
    """

    def __init__(self, store: Store, name: str, kept: ByteCache, slots: WorkSlots) -> None:
        self._store, self._name, self._kept, self.slots = store, name, kept, slots
        self.tallies = Tallies()
        self._lock = Lock()  # for a moment
        self._indexing, self._working = RLock(), RLock()  # for as long as reading takes
        self._indexed, self._about_all, self._about = 0, list[int](), dict[int, list[int]]()
        self._states: OrderedDict[int, State] = OrderedDict()
        self._before: OrderedDict[int, BeforeRound] = OrderedDict()

    # ---- entries

    def heads(self, seqs: Iterable[int]) -> Iterator[tuple[Entry, bytes]]:
        """Yield entries with their hashes, from memory where they are kept."""
        with _Lazily(self._store, self._name) as sessions:
            for seq in seqs:
                yield self._kept.get((self, seq)) or self._read_head(sessions.one(), seq)

    def entries(self, seqs: Iterable[int]) -> Iterator[tuple[Entry, RowTable | None]]:
        """Yield entries with their tables, from memory where they are kept."""
        with _Lazily(self._store, self._name) as sessions:
            for seq in seqs:
                entry, _ = self._kept.get((self, seq)) or self._read_head(sessions.one(), seq)
                table = None if entry.table is None else self._kept.get((self, seq, "table"))
                if table is None and entry.table is not None:
                    table = self.read_table(sessions.one(), entry)
                yield entry, table

    def read_heads(self, session: Session, start: int, stop: int) -> Iterator[Entry]:
        """Read entries, and keep them."""
        for seq, data, digest in session.entries(start, stop):
            entry = Entry.from_bytes(data)
            self._kept.put((self, seq), (entry, digest), len(data) + _SMALL)
            yield entry

    def read_table(self, session: Session, entry: Entry) -> RowTable | None:
        """Read the table of an entry, and keep it."""
        if entry.table is None:
            return None
        rows = session.rows(entry.seq)
        table = table_of(entry, rows)
        self._kept.put((self, entry.seq, "table"), table, len(rows or b"") + _SMALL)
        return table

    def _read_head(self, session: Session, seq: int) -> tuple[Entry, bytes]:
        _, data, digest = next(session.entries(seq, seq + 1))
        entry = Entry.from_bytes(data)
        self._kept.put((self, seq), (entry, digest), len(data) + _SMALL)
        return entry, digest

    # ---- whom they are about

    def about(self, number: int, stop: int) -> list[int]:
        """Return the entries before `stop` that may say something of a participant, and the last one in any case."""
        with self._indexing:
            if self._indexed < stop:
                self._index(stop)
            own = self._about.get(number, [])
            found = {*self._about_all[: bisect_left(self._about_all, stop)], *own[: bisect_left(own, stop)], stop - 1}
        return sorted(found)

    def _index(self, stop: int) -> None:
        """Index the entries before `stop`."""
        with _Lazily(self._store, self._name) as sessions:
            while self._indexed < stop:
                seq = self._indexed
                kept = self._kept.get((self, seq))
                if kept is None:
                    for _ in self.read_heads(sessions.one(), seq, min(seq + 1000, stop)):
                        pass
                    kept = self._kept.get((self, seq)) or self._read_head(sessions.one(), seq)
                self._note(kept[0], sessions)
                self._indexed = seq + 1

    def _note(self, entry: Entry, sessions: _Lazily) -> None:
        rows = 0 if entry.table is None else int(entry.table["rows"])
        if entry.kind in _ABOUT_ALL or rows > _LARGE:
            self._about_all.append(entry.seq)
        elif rows:
            table = self._kept.get((self, entry.seq, "table")) or self.read_table(sessions.one(), entry)
            for number in [] if table is None else table["number"].tolist():
                self._about.setdefault(number, []).append(entry.seq)

    # ---- what followed

    def keep_state(self, seq: int, state: State) -> None:
        """Keep what followed from the entries before one of them; it must not change any more."""
        with self._lock:
            self._states[seq] = state
            self._states.move_to_end(seq)
            while len(self._states) > _STATES:
                self._states.popitem(last=False)

    def state_before(self, seq: int) -> State:
        """Return what followed from the entries before one of them; worked out from the nearest that is known."""
        known = self._known_state(seq)
        if known is not None:
            return known
        self.slots.take((self, seq))
        with self._working:
            start, state = self._nearest(seq)
            if start < seq:
                for entry, table in self.entries(range(start, seq)):
                    state.apply(entry, table)
                self.keep_state(seq, state)
            return state

    def _known_state(self, seq: int) -> State | None:
        with self._lock:
            if seq in self._states:
                self._states.move_to_end(seq)
                return self._states[seq]
            return self._before[seq].state if seq in self._before else None

    def _nearest(self, seq: int) -> tuple[int, State]:
        """Return the last state that is known up to an entry: the one asked for, or a copy of one before."""
        with self._lock:
            if seq in self._states:
                self._states.move_to_end(seq)
                return seq, self._states[seq]
            start = max((known for known in self._states if known < seq), default=0)
            return start, self._states[start].copy() if start else State(Columns())

    def before_round(self, seq: int, state: State, identity: str) -> BeforeRound:
        """Return how everyone stood before the next round, by the first `seq` entries, from which `state` follows."""
        with self._lock:
            wait = partial(self.slots.take, (self, seq))
            found = self._before.setdefault(seq, BeforeRound(state, identity, wait))
            self._before.move_to_end(seq)
            while len(self._before) > max(2, min(12, _PEOPLE // max(1, state.people))):
                self._before.popitem(last=False)
            return found


class _Lazily:
    """A session that is opened when it is first needed, and closed at the end."""

    def __init__(self, store: Store, name: str) -> None:
        self._store, self._name = store, name
        self._stack = ExitStack()
        self._session: Session | None = None

    def __enter__(self) -> _Lazily:
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.close()

    def one(self) -> Session:
        if self._session is None:
            self._session = self._stack.enter_context(self._store.reading(self._name))
        return self._session
