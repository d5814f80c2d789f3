"""One piece of work on a programme in one transaction: its state, and entries that are added to its ledger."""

from __future__ import annotations

import hashlib
import hmac
import platform
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

import meritfair
from meritfair.core.arrays import IntArray
from meritfair.core.checks import check_known
from meritfair.core.errors import InputError
from meritfair.programme.columns import StoredColumns
from meritfair.programme.inputs import ParticipantError
from meritfair.programme.ledger.canonical import canonical
from meritfair.programme.ledger.entries import Entry, clock_behind, make_table, now
from meritfair.programme.ledger.rowtable import RowTable
from meritfair.programme.state import State
from meritfair.programme.storage.store import Session
from meritfair.programme.view import ProgrammeView, Texts

_PSEUDONYM = re.compile("p-[0-9a-f]{20}")
_SECRET = 32  # bytes; what follows them is the key of pseudonyms
_FEW = 10_000  # people among whom the nearest id is looked for


class Work(ProgrammeView):
    """What is done in one transaction.

    Parameters
    ----------
    session : Session
    known : State, optional
        What follows from the entries so far, if it is in memory; else it is read as it is needed. It is not changed.
    """

    def __init__(self, session: Session, known: State | None = None) -> None:
        self.session = session
        self.columns = StoredColumns(session, None if known is None else known.columns)
        self.state = State(self.columns, session.summary) if known is None else known.copy(self.columns)
        self._tables: dict[int, RowTable] = {}  # that were added or read
        self.warning = ""  # what was noticed when entries were added

    @property
    def name(self) -> str:
        return self.session.name

    @property
    def identity(self) -> str:
        return self.session.identity

    @property
    def length(self) -> int:
        return self.session.length

    @property
    def head(self) -> bytes:
        return self.session.head

    @property
    def secret(self) -> bytes:
        """What the seeds of draws are made with."""
        return self.session.secret[:_SECRET]

    def next_time(self) -> str:
        """Return the time of the next entry: now or, if the clock has gone back, that of the last entry."""
        return max(now(), self.state.summary.time)

    def append(
        self,
        kind: str,
        body: Mapping[str, Any],
        columns: Mapping[str, Any] | None = None,
        by: str = "",
        *,
        time: str = "",
    ) -> Entry:
        """Add an entry, and take it in; by default at this time."""
        when, self.warning = time or self.next_time(), self.warning or clock_behind(self.state.summary.time, now())
        session, table = self.session, make_table(kind, body, columns)
        described = None if table is None else table.describe()
        entry = Entry(session.identity, session.length, session.head, kind, when, check_by(by), dict(body), described)
        self.state.apply(entry, table)
        session.append(entry.to_bytes(), entry.digest, None if table is None else table.to_bytes())
        if table is not None:
            self._tables[entry.seq] = table
        return entry

    def save(self) -> None:
        """Write what follows from the new entries."""
        self.columns.save()
        self.session.set_summary(self.state.to_dict())

    def heads(self, start: int = 0, stop: int | None = None) -> Iterator[tuple[Entry, bytes]]:
        for _, data, digest in self.session.entries(start, stop):
            yield Entry.from_bytes(data), digest

    def entries(self, start: int = 0, stop: int | None = None) -> Iterator[tuple[Entry, RowTable | None]]:
        for entry, _ in self.heads(start, stop):
            rows = None if entry.table is None else self.session.rows(entry.seq)
            yield entry, table_of(entry, rows)

    def entry(self, seq: int) -> tuple[Entry, RowTable | None]:
        _, data, _ = next(iter(self.session.entries(seq, seq + 1)))
        entry = Entry.from_bytes(data)
        if entry.table is not None and seq not in self._tables:
            self._tables[seq] = RowTable.from_bytes(entry.table, self.session.rows(seq) or b"", check=False)
        return entry, self._tables.get(seq)

    # ---- who is who

    def names(self, ids: Sequence[str]) -> list[str]:
        """Return what the database calls these people: their ids or, if it keeps none, pseudonyms."""
        return Naming(self.session.secret).names(ids)

    def texts(self, numbers: Sequence[int]) -> dict[int, Texts]:
        people = self.session.people(numbers) if len(numbers) else []
        return {each.number: Texts(each.id or "", each.group or "", each.staff or "") for each in people}

    def notes(self, number: int) -> dict[int, str]:
        return {seq: text for seq, _, text in self.session.notes(number)}

    def numbers(self, ids: Sequence[str], *, enrolled: bool = False) -> IntArray:
        names = self.names(ids)
        known = self.session.numbers_of(names)
        for row, (id_, name) in enumerate(zip(ids, names, strict=True)):
            if name not in known:
                raise ParticipantError(str(self._unknown(id_)), row)
        numbers = np.array([known[name] for name in names], np.int64)
        if enrolled and len(numbers):
            gone = np.flatnonzero(~self.state.here[numbers])
            if len(gone):
                raise ParticipantError(f"the participant {ids[gone[0]]!r} is not enrolled now", gone[0])
        return numbers

    def number(self, id_: str | int) -> int:
        """Return the number of a participant who is named by their id or by that number."""
        if isinstance(id_, str):
            return int(self.numbers([id_])[0])
        if not 0 <= id_ < self.state.people:
            raise InputError(f"participants have numbers from 0 to {self.state.people - 1}, got {id_}")
        return id_

    def _unknown(self, id_: str) -> InputError:
        def everyone() -> list[str]:
            return [each.id for each in self.session.people() if each.id]

        return Naming(self.session.secret).unknown(id_, self.state.people, everyone)


class Naming:
    """What the people of a programme are called: by their ids or, if it keeps none, by pseudonyms.

    Parameters
    ----------
    secret : bytes
        Of the programme; what follows the secret of draws is the key of pseudonyms.
    """

    def __init__(self, secret: bytes) -> None:
        self._key = secret[_SECRET:]

    def names(self, ids: Sequence[str]) -> list[str]:
        """Return what the database calls these people; pseudonyms stand for themselves, as lists of draws have them."""
        if not self._key:
            return list(ids)
        return [each if _PSEUDONYM.fullmatch(each) else pseudonym(self._key, each) for each in ids]

    def unknown(self, id_: str, people: int, everyone: Callable[[], Iterable[str]]) -> InputError:
        """Return the error for an id that is not known, with the nearest one if there are few people."""
        if people > _FEW or self._key:
            return InputError(f"there is no participant {id_!r}")
        try:
            check_known("participant", id_, list(everyone()))
        except InputError as error:
            return error
        return InputError(f"there is no participant {id_!r}")  # pragma: no cover


def table_of(entry: Entry, rows: bytes | None) -> RowTable | None:
    """Return the table of an entry from its bytes, which the store has checked.

    Its Merkle root is not worked out, which is what takes long: whether the bytes are those that the ledger was made
    with is for `verify` to say.
    """
    return None if entry.table is None or rows is None else RowTable.from_bytes(entry.table, rows, check=False)


def pseudonym(key: bytes, id_: str) -> str:
    """Return what stands for an id; the same each time, and nobody without the key can tell whose it is.

    Examples
    --------
    >>> pseudonym(bytes(32), "Ada")
    'p-ceeb1b0fed3a241b5220'
    """
    return "p-" + hmac.new(key, id_.encode(), hashlib.sha256).hexdigest()[:20]


def check_by(by: Any, *, needed: str = "") -> str:
    """Return the name of who does something; refuse an empty one where one is needed."""
    name = str(by or "").strip()
    if needed and not name:
        raise InputError(f"{needed} needs the name of who does it")
    canonical(name)
    return name


def versions() -> dict[str, str]:
    """Return what exposures may depend on."""
    import numba
    import scipy

    return {
        "meritfair": meritfair.__version__,
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "numba": numba.__version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
    }
