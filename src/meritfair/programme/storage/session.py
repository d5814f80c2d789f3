"""A programme within one transaction: its entries, vectors, people and answers, each checked when it is read."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

import numpy as np
import numpy.typing as npt
import sqlalchemy as sa

from meritfair.core.errors import InputError
from meritfair.programme.storage.answered import AnsweredKeys
from meritfair.programme.storage.checked_rows import CheckedRows, ProgrammeRow, insist
from meritfair.programme.storage.people import Person, PersonTable
from meritfair.programme.storage.schema import ANSWER, ENTRY, ENTRY_ROWS, NOTE, VECTOR, check_texts, checksum
from meritfair.programme.storage.store_errors import StoreError, damaged

_AT_ONCE = 1000  # entries that are read together
_ENTRY = [ENTRY.c[name] for name in ("seq", "kind", "time", "digest", "checksum", "data")]


class Session(CheckedRows):
    """What a programme holds, as of one transaction; `meritfair.programme.storage.store.Store` opens it.

    Everything that is written belongs to the transaction: all of it is kept, or none. Everything that is read is
    checked against its checksum, and what is said not to be there is really not there; else a `StoreError` names what
    is damaged.
    """

    def __init__(
        self,
        connection: sa.Connection,
        row: ProgrammeRow,
        where: str,
        *,
        writable: bool,
        answered: AnsweredKeys | None = None,
    ) -> None:
        super().__init__(connection, row, where, writable=writable)
        self._answered = AnsweredKeys() if answered is None else answered
        self._new_keys: list[str] = []
        self._people = PersonTable(connection, row.id, row.identity, self._named)

    @property
    def identity(self) -> str:
        """The programme's identity, 32 hexadecimal digits."""
        return self._row.identity

    @property
    def name(self) -> str:
        """The programme's name in this store."""
        return self._row.name

    @property
    def secret(self) -> bytes:
        """The secret from which seeds of draws are made."""
        return self._row.secret

    @property
    def length(self) -> int:
        """How many entries there are."""
        return self._row.length

    @property
    def head(self) -> bytes:
        """The SHA-256 of the last entry, zeros if there is none."""
        return self._row.head

    @property
    def summary(self) -> dict[str, Any]:
        """What was kept by `set_summary`."""
        found: dict[str, Any] = json.loads(self._row.summary)
        return found

    def set_summary(self, summary: Mapping[str, Any]) -> None:
        """Keep what can be told of the programme without reading its entries."""
        self._change(summary=json.dumps(summary))

    # The ledger

    def append(self, data: bytes, digest: bytes, rows: bytes | None) -> int:
        """Add the next entry: its canonical bytes, their SHA-256, and the bytes of its table; return its number."""
        entry = json.loads(data)
        if sha256(data).digest() != digest:
            raise InputError(f"the digest of an entry must be its SHA-256, got {digest.hex()} for entry {self.length}")
        if (rows is None) != (entry.get("table") is None):
            raise InputError(
                f"entry {self.length} must come with the rows of its table, or with none if it has no table"
            )
        self._check_writable()
        seq = self._row.length
        key = {"programme": self._row.id, "seq": seq}
        named = {"kind": str(entry["kind"]), "time": str(entry["time"])}
        right = checksum(self.identity, seq, *named.values(), digest)
        self._connection.execute(sa.insert(ENTRY).values(**key, **named, digest=digest, checksum=right, data=data))
        if rows is not None:
            self._connection.execute(sa.insert(ENTRY_ROWS).values(**key, **self._packed(f"rows {seq}", rows)))
        self._change(length=seq + 1, head=digest)
        return seq

    def entries(self, start: int = 0, stop: int | None = None) -> Iterator[tuple[int, bytes, bytes]]:
        """Yield number, bytes and digest of each entry from `start` on, before `stop`."""
        end = self.length if stop is None else min(stop, self.length)
        ours = sa.select(*_ENTRY).where(ENTRY.c.programme == self._row.id)
        for first in range(start, end, _AT_ONCE):
            last = min(first + _AT_ONCE, end)
            found = self._connection.execute(ours.where(ENTRY.c.seq >= first, ENTRY.c.seq < last).order_by(ENTRY.c.seq))
            by_seq = {seq: rest for seq, *rest in found}
            for seq in range(first, last):
                with self._intact(f"entry {seq}"):
                    kind, time, digest, right, data = by_seq[seq]
                    insist(checksum(self.identity, seq, kind, time, digest) == right)
                    insist(sha256(data).digest() == digest)
                    insist(seq != self.length - 1 or digest == self.head)
                yield seq, data, digest

    def rows(self, seq: int) -> bytes | None:
        """Return the bytes of an entry's table, None if it has none."""
        self._check_seq(seq)
        ours = (ENTRY_ROWS.c.programme == self._row.id, ENTRY_ROWS.c.seq == seq)
        found = self._connection.execute(sa.select(ENTRY_ROWS.c.digest, ENTRY_ROWS.c.data).where(*ours)).one_or_none()
        if found is not None:
            return self._unpacked(f"rows {seq}", f"the table of entry {seq}", *found)
        for _, data, _ in self.entries(seq, seq + 1):
            if json.loads(data).get("table") is not None:
                raise damaged(self._named, f"the table of entry {seq}")
        return None

    def _check_seq(self, seq: int) -> None:
        if not 0 <= seq < self.length:
            raise InputError(f"an entry must be one of the {self.length} that there are, counted from 0, got {seq}")

    # Derived vectors

    def vector(self, name: str, round: int = 0) -> bytes | None:  # noqa: A002
        """Return the bytes kept under a name for a round, None if there are none."""
        found = self._connection.execute(
            sa.select(VECTOR.c.digest, VECTOR.c.data).where(*self._vector(name, round))
        ).one_or_none()
        if found is not None:
            return self._unpacked(f"vector {name} {round}", f"vector {name!r} of round {round}", *found)
        if round in self.vectors(name):
            raise damaged(self._named, f"vector {name!r} of round {round}")
        return None

    def put_vector(self, name: str, data: bytes, round: int = 0) -> None:  # noqa: A002
        """Keep bytes under a name for a round, instead of those that were there."""
        self._check_writable()
        values = self._packed(f"vector {name} {round}", data)
        values["checksum"] = checksum(self.identity, name, round, values["digest"])
        if self._connection.execute(sa.update(VECTOR).where(*self._vector(name, round)).values(**values)).rowcount:
            return
        key = {"programme": self._row.id, "name": name, "round": round}
        self._connection.execute(sa.insert(VECTOR).values(**key, **values))
        self._change(vectors=self._row.vectors + 1)

    def vectors(self, name: str) -> list[int]:
        """Return the rounds for which something is kept under a name."""
        return sorted(number for each, number, _ in self._vector_keys() if each == name)

    def vector_names(self) -> list[tuple[str, int]]:
        """Return the name and the round of everything that is kept."""
        return sorted((name, number) for name, number, _ in self._vector_keys())

    def _vector_keys(self) -> list[tuple[Any, ...]]:
        query = sa.select(VECTOR.c.name, VECTOR.c.round, VECTOR.c.digest, VECTOR.c.checksum)
        return self._counted(query.where(VECTOR.c.programme == self._row.id), self._row.vectors, "vectors")

    def _vector(self, name: str, round: int) -> tuple[sa.ColumnElement[bool], ...]:  # noqa: A002
        return VECTOR.c.programme == self._row.id, VECTOR.c.name == name, VECTOR.c.round == round

    # People

    def add_people(
        self,
        numbers: Sequence[int] | npt.NDArray[Any],
        ids: Sequence[str],
        salts: Sequence[bytes],
        groups: Sequence[str],
        staff: Sequence[str],
    ) -> None:
        """Add people who are not there yet; numbers and ids must be new."""
        self._check_writable()
        self._people.add(_as_list(numbers), ids, salts, groups, staff)
        self._change(people=self._row.people + len(numbers))

    def update_people(
        self,
        numbers: Sequence[int] | npt.NDArray[Any],
        groups: Sequence[str] | None = None,
        staff: Sequence[str] | None = None,
    ) -> None:
        """Change the groups or the staff of people who are there; None leaves them as they are."""
        self._check_writable()
        order = _as_list(numbers)
        there = {person.number: person for person in self.people(order)}
        if missing := [each for each in order if each not in there]:
            raise InputError(f"people to change must be there, got number {missing[0]}")
        people = [there[each] for each in order]
        self._people.remove(order)
        self._people.add(
            order,
            [each.id for each in people],
            [each.salt for each in people],
            [each.group for each in people] if groups is None else groups,
            [each.staff for each in people] if staff is None else staff,
        )

    def people(self, numbers: Sequence[int] | npt.NDArray[Any] | None = None) -> list[Person]:
        """Return those of these numbers who are there, or everyone, by number."""
        if numbers is None:
            return self._people.all(self._row.people)
        return self._people.by_number(_as_list(numbers), self._row.people)

    def people_columns(self) -> tuple[npt.NDArray[np.int64], list[str]]:
        """Return the numbers and ids of everyone, by number."""
        numbers, ids = self._people.columns(self._row.people)
        return np.array(numbers, dtype=np.int64), ids

    def numbers_of(self, ids: Sequence[str]) -> dict[str, int]:
        """Return the numbers of those of these ids who are there."""
        return self._people.numbers(ids, self._row.people)

    def erase(self, number: int) -> None:
        """Delete the id, salt, group and staff of a person, and the notes about them."""
        self._check_writable()
        if not self.people([number]):
            raise InputError(f"a person to erase must be there, got number {number}")
        self._people.remove([number])
        about = (NOTE.c.programme == self._row.id, NOTE.c.number == number)
        deleted = self._connection.execute(sa.delete(NOTE).where(*about)).rowcount
        self._change(people=self._row.people - 1, notes=self._row.notes - deleted)

    def add_notes(self, seq: int, notes: Mapping[int, str]) -> None:
        """Keep a text about each of some people, which belongs to an entry."""
        self._check_seq(seq)
        check_texts(list(notes.values()))
        if not notes:
            return
        self._check_writable()
        key = {"programme": self._row.id, "seq": seq}
        rows = [
            {**key, "number": number, "text": text, "checksum": checksum(self.identity, seq, number, text)}
            for number, text in ((int(number), text) for number, text in notes.items())
        ]
        self._connection.execute(sa.insert(NOTE), rows)
        self._change(notes=self._row.notes + len(notes))

    def notes(self, number: int | None = None) -> list[tuple[int, int, str]]:
        """Return entry, person and text of all notes, or of those about one person, in order."""
        query = sa.select(NOTE.c.seq, NOTE.c.number, NOTE.c.text, NOTE.c.checksum)
        ours = query.where(NOTE.c.programme == self._row.id).order_by(NOTE.c.seq, NOTE.c.number)
        found = self._counted(ours, self._row.notes, "notes")
        return [(seq, whom, text) for seq, whom, text in found if number is None or whom == number]

    def notes_since(self, seq: int, known: int) -> list[tuple[int, int, str]]:
        """Return entry, person and text of the notes of entries from `seq` on, where those before are `known` ones."""
        query = sa.select(NOTE.c.seq, NOTE.c.number, NOTE.c.text, NOTE.c.checksum)
        ours = query.where(NOTE.c.programme == self._row.id, NOTE.c.seq >= seq).order_by(NOTE.c.seq, NOTE.c.number)
        return [(seq, whom, text) for seq, whom, text in self._counted(ours, self._row.notes - known, "notes")]

    # Answers

    def answer(self, key: str) -> tuple[bytes, str] | None:
        """Return the hash of the request that came with a key, and its answer; None if there was none."""
        check_texts([key])
        for _, request, _, digest in self._answer_keys(key):
            ours = (ANSWER.c.programme == self._row.id, ANSWER.c.key == key)
            text = self._connection.execute(sa.select(ANSWER.c.answer).where(*ours)).scalar()
            with self._intact(f"the answer to {key!r}"):
                insist(isinstance(text, str) and sha256(text.encode()).digest() == digest)
            return request, str(text)
        if not self._answered.lack(self.identity, key, self._row.answers):
            self._read_keys(key)
        return None

    def _read_keys(self, key: str) -> None:
        """Read the keys of all answers; this one must not be among them, as it was not found."""
        keys = [each for each, *_ in self._answer_keys()]
        if key in keys:
            raise damaged(self._named, f"the answer to {key!r}")
        if not self._new_keys:  # which may yet be rolled back
            self._answered.learn(self.identity, keys)

    def committed(self) -> None:
        """Note that what was written is on the disk now."""
        self._answered.add(self.identity, self._new_keys)

    def _answer_keys(self, key: str | None = None) -> list[tuple[Any, ...]]:
        query = sa.select(ANSWER.c.key, ANSWER.c.request, ANSWER.c.time, ANSWER.c.digest, ANSWER.c.checksum)
        ours = query.where(ANSWER.c.programme == self._row.id)
        if key is None:
            return self._counted(ours, self._row.answers, "answers")
        return self._counted(ours.where(ANSWER.c.key == key), None, "answers")

    def keep_answer(self, key: str, request_hash: bytes, answer: str) -> None:
        """Keep what a request with a key was answered."""
        check_texts([answer])
        if self.answer(key) is not None:
            raise InputError(f"a key serves one request, got {key!r} again")
        self._check_writable()
        time, digest = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"), sha256(answer.encode()).digest()
        values = {"programme": self._row.id, "key": key, "request": request_hash, "time": time, "digest": digest}
        right = checksum(self.identity, key, request_hash, time, digest)
        self._connection.execute(sa.insert(ANSWER).values(**values, checksum=right, answer=answer))
        self._change(answers=self._row.answers + 1)
        self._new_keys.append(key)

    def problems(self) -> list[str]:
        """Read everything; return the first damage of each kind, in words."""
        return self._problems_of(self._read_ledger) + self.problems_beside()

    def problems_beside(self) -> list[str]:
        """Read all that is kept beside the ledger; return the first damage of each kind, in words."""
        return self._problems_of(self._read_vectors, self.people, self.notes, self._read_answers)

    def _problems_of(self, *parts: Callable[[], object]) -> list[str]:
        found = []
        for part in parts:
            try:
                part()
            except StoreError as error:
                found.append(str(error))
        return found

    def _read_ledger(self) -> None:
        tables = sum(self.rows(seq) is not None for seq, _, _ in self.entries())
        self.check_counts(tables)

    def check_counts(self, tables: int) -> None:
        """Refuse a ledger with more rows in the database than it has entries, and tables of them."""
        for table, count, what in ((ENTRY, self.length, "entries"), (ENTRY_ROWS, tables, "tables of entries")):
            query = sa.select(sa.func.count()).select_from(table).where(table.c.programme == self._row.id)
            found = self._connection.execute(query).scalar()
            if found != count:
                raise damaged(self._named, f"the list of its {what}: there are {found} of {count}, which")

    def table_sizes(self) -> dict[int, int]:
        """Return how many bytes the database has for the table of each entry that has one."""
        query = sa.select(ENTRY_ROWS.c.seq, sa.func.length(ENTRY_ROWS.c.data))
        found = self._connection.execute(query.where(ENTRY_ROWS.c.programme == self._row.id))
        return {row.seq: row[1] for row in found}

    def _read_vectors(self) -> None:
        for name, number, _ in self._vector_keys():
            self.vector(name, number)

    def _read_answers(self) -> None:
        for key, *_ in self._answer_keys():
            self.answer(key)


def _as_list(numbers: Sequence[int] | npt.NDArray[Any]) -> list[int]:
    found: list[int] = np.asarray(numbers, dtype=np.int64).tolist()
    return found
