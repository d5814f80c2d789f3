"""The chain of a ledger, read from end to end: whether entries, tables and what is beside them are as written.

Checked are the form of each entry, that it has the hash of the one before it, the Merkle root of its table, and the
checksums and counts of all other rows. Nothing is worked out anew: whether draws and exposures follow from what was
recorded, `meritfair.programme.verifying` says.

A ledger only grows. So it is read in several short transactions, between which others can write.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic

from meritfair.core.errors import MeritfairError
from meritfair.programme.ledger.entries import NO_HASH, Entry
from meritfair.programme.ledger.rowtable import RowTable
from meritfair.programme.storage.database import Database
from meritfair.programme.storage.looking import looking_into
from meritfair.programme.storage.session import Session

_TURN = 1.0  # seconds that a transaction lasts
_ENTRY = 500  # bytes of an entry, about, beside its table


@dataclass(frozen=True)
class ChainCheck:
    """What came of reading a ledger.

    Attributes
    ----------
    name, identity : str
        Of the programme.
    entries, rows : int
        How many entries were read, and how many rows their tables have.
    hashes : frozenset of bytes
        Of the entries.
    problems : tuple of str
        What is wrong, in words; nothing after an entry that is wrong was looked at.
    """

    name: str
    identity: str
    entries: int
    rows: int
    hashes: frozenset[bytes]
    problems: tuple[str, ...]


def check_chain(
    database: Database, name: str, tell: Callable[[int, int], None] = lambda _done, _total: None
) -> ChainCheck:
    """Read the ledger of a programme, and all that is kept beside it."""
    walk, problems = _Walk(tell), list[str]()
    try:
        while not walk.finished:
            with looking_into(database, name) as session:
                walk.go(session, monotonic() + _TURN)
    except MeritfairError as error:
        problems.append(str(error))
    with looking_into(database, name) as session:
        problems += session.problems_beside()
        identity = session.identity
    return ChainCheck(name, identity, walk.seq, walk.rows, frozenset(walk.hashes), tuple(problems))


class _Walk:
    """How far a ledger was read."""

    def __init__(self, tell: Callable[[int, int], None]) -> None:
        self._tell, self._stop, self._done, self._total = tell, 0, 0, 0
        self._sizes: dict[int, int] = {}
        self.seq, self.head, self.rows, self.tables, self.hashes = 0, NO_HASH, 0, 0, set[bytes]()
        self.finished = False

    def go(self, session: Session, until: float) -> None:
        """Read on from where it stopped, up to a time; entries that were added since the start are not read."""
        if not self._total:
            self._sizes, self._stop = session.table_sizes(), session.length
            self._total = sum(self._sizes.values()) + _ENTRY * self._stop
        for seq, data, digest in session.entries(self.seq, self._stop):
            try:
                self._read(session, Entry.from_bytes(data))
            except (MeritfairError, KeyError, TypeError, ValueError) as error:
                raise MeritfairError(f"entry {seq}: {error}") from None
            self.seq, self.head = seq + 1, digest
            self.hashes.add(digest)
            self._done += _ENTRY + self._sizes.get(seq, 0)
            self._tell(self._done, self._total)
            if monotonic() > until and self.seq < self._stop:
                return
        if session.length == self._stop:
            session.check_counts(self.tables)
        self.finished = True

    def _read(self, session: Session, entry: Entry) -> None:
        entry.check_follows(self.seq, self.head, session.identity)
        if entry.table is not None:
            table = RowTable.from_bytes(entry.table, session.rows(self.seq) or b"")
            self.rows, self.tables = self.rows + len(table), self.tables + 1
