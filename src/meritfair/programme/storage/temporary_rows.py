"""What the servers on a store share for a while: long work, uploads that wait, and the large data of both.

Each row proves itself by a checksum when it is read, each part of large data by its SHA-256. A row that is damaged is
as if it were not there, and rows are not counted: what is lost is asked, or uploaded, again. Whoever writes is alone
with these tables, so that nothing changes between what they read and what they write. Times are the database's, in
milliseconds: the clocks of servers may differ.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, ClassVar, TypeVar

import sqlalchemy as sa

from meritfair.core.errors import InputError
from meritfair.programme.storage.checked_rows import CheckedRow
from meritfair.programme.storage.schema import JOB, TEMPORARY_PART, UPLOAD, check_texts
from meritfair.programme.storage.store_errors import StoreError, damaged

LIVE = ("waiting", "running")  # states of jobs that are not over
_PART = 1 << 20  # bytes
_LOCK = 0x4D46544D  # of PostgreSQL, for whoever writes here
Row = TypeVar("Row", bound=CheckedRow)
_NOW = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint"


@dataclass(frozen=True)
class JobRow(CheckedRow):
    """A piece of long work.

    Attributes
    ----------
    id : str
        A hash of what is asked about which head.
    identity : str
        Of the programme.
    arguments, askers : str
        JSON: what the kind takes, and the names of those who have asked.
    due : int
        Whose is the least is next.
    worker : str
        Who works on it; empty if nobody does.
    lease : int
        Until when that is so, unless they say so again.
    """

    table: ClassVar[sa.Table] = JOB
    id: str
    kind: str
    programme: str
    identity: str
    arguments: str
    askers: str
    asked: int
    due: int
    state: str
    head: str
    entries: int
    done: int = 0
    total: int = 0
    words: str = ""
    error: str = ""
    file: str = ""
    tries: int = 0
    worker: str = ""
    lease: int = 0
    ended: int = 0


@dataclass(frozen=True)
class UploadRow(CheckedRow):
    """A file that waits until someone confirms it."""

    table: ClassVar[sa.Table] = UPLOAD
    token: str
    programme: str
    done_by: str
    kind: str
    name: str
    round: int
    reason: str
    size: int
    time: int


class TemporaryRows:
    """The temporary tables within one transaction; `meritfair.programme.storage.store.Store` opens it."""

    def __init__(self, connection: sa.Connection, where: str, *, writable: bool) -> None:
        self._connection, self._where, self._writable = connection, where, writable
        self._is_sqlite = connection.dialect.name == "sqlite"
        if writable and not self._is_sqlite:
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_LOCK})")

    def now(self) -> int:
        """Return the time of the database, in milliseconds."""
        if self._is_sqlite:  # which is on this machine
            return int(time.time() * 1000)
        return int(self._connection.exec_driver_sql(_NOW).scalar_one())

    # Jobs

    def job(self, id_: str) -> JobRow | None:
        """Return a job."""
        found = self._jobs(JOB.c.id == id_)
        return found[0] if found else None

    def live_jobs(self) -> list[JobRow]:
        """Return the jobs that wait or are worked on, in the order in which they were asked."""
        return self._jobs(JOB.c.state.in_(LIVE))

    def ended_jobs(self) -> list[JobRow]:
        """Return the jobs that are over, in the order in which they were asked."""
        return self._jobs(JOB.c.state.not_in(LIVE))

    def jobs_of(self, identity: str, kind: str) -> list[JobRow]:
        """Return the jobs of a kind of a programme, in the order in which they were asked."""
        return self._jobs((JOB.c.identity == identity) & (JOB.c.kind == kind))

    def put_job(self, row: JobRow) -> None:
        """Keep a job, in place of one of the same id."""
        self._put(row, JOB.c.id == row.id)

    def remove_job(self, row: JobRow) -> None:
        """Delete a job, and what came of it."""
        self._check_writable()
        self._connection.execute(sa.delete(JOB).where(JOB.c.id == row.id))
        for owner in job_data(row.id):
            self.remove_data(owner)

    # Uploads

    def upload(self, token: str) -> UploadRow | None:
        """Return an upload."""
        check_texts([token])
        return next(self._intact(UploadRow, sa.select(UPLOAD).where(UPLOAD.c.token == token)), None)

    def uploads(self) -> list[UploadRow]:
        """Return all uploads, the oldest first."""
        return list(self._intact(UploadRow, sa.select(UPLOAD).order_by(UPLOAD.c.time, UPLOAD.c.token)))

    def put_upload(self, row: UploadRow) -> None:
        """Keep an upload."""
        self._put(row, UPLOAD.c.token == row.token)

    def remove_upload(self, token: str) -> None:
        """Delete an upload, with its data."""
        self._check_writable()
        self._connection.execute(sa.delete(UPLOAD).where(UPLOAD.c.token == token))
        self.remove_data(token)

    # Large data

    def put_data(self, owner: str, chunks: Iterable[bytes]) -> None:
        """Keep data under a name, in place of those of the same name."""
        self.remove_data(owner)
        for number, data in enumerate(chunks):
            values = {"owner": owner, "number": number, "digest": _digest(owner, number, data), "data": data}
            self._connection.execute(sa.insert(TEMPORARY_PART).values(values))

    def data_part(self, owner: str, number: int) -> bytes | None:
        """Return a part of data; None after the last one."""
        ours = (TEMPORARY_PART.c.owner == owner) & (TEMPORARY_PART.c.number == number)
        query = sa.select(TEMPORARY_PART.c.digest, TEMPORARY_PART.c.data).where(ours)
        row = self._connection.execute(query).one_or_none()
        if row is not None and _digest(owner, number, row.data) != row.digest:
            raise damaged(self._where, f"part {number} of {owner}")
        return None if row is None else bytes(row.data)

    def data(self, owner: str) -> Iterator[bytes]:
        """Yield all parts of data."""
        number = 0
        while (part := self.data_part(owner, number)) is not None:
            yield part
            number += 1

    def size_of_data(self, owner: str) -> int:
        """Return how many bytes data have."""
        query = sa.select(sa.func.sum(sa.func.length(TEMPORARY_PART.c.data))).where(TEMPORARY_PART.c.owner == owner)
        return int(self._connection.execute(query).scalar() or 0)

    def remove_data(self, owner: str) -> None:
        """Delete data."""
        self._check_writable()
        self._connection.execute(sa.delete(TEMPORARY_PART).where(TEMPORARY_PART.c.owner == owner))

    def problems(self) -> list[str]:
        """Read everything; return what is damaged, in words."""
        found = list[str]()
        try:
            for row in self._intact(JobRow, sa.select(JOB), found):
                for owner in job_data(row.id):
                    found += self._problems_of_data(owner)
            for each in self._intact(UploadRow, sa.select(UPLOAD), found):
                found += self._problems_of_data(each.token)
        except StoreError as error:
            found.append(str(error))
        return found

    def _problems_of_data(self, owner: str) -> list[str]:
        try:
            for _part in self.data(owner):
                pass
        except StoreError as error:
            return [str(error)]
        return []

    def _jobs(self, condition: sa.ColumnElement[bool]) -> list[JobRow]:
        return list(self._intact(JobRow, sa.select(JOB).where(condition).order_by(JOB.c.asked, JOB.c.id)))

    def _intact(self, kind: type[Row], query: sa.Select[Any], problems: list[str] | None = None) -> Iterator[Row]:
        """Yield the rows that are as they were written; note the others in `problems`."""
        for row in self._connection.execute(query).mappings().all():
            try:
                yield kind.of(row, self._where)
            except StoreError as error:
                if problems is not None:
                    problems.append(str(error))

    def _put(self, row: CheckedRow, same: sa.ColumnElement[bool]) -> None:
        self._check_writable()
        values = row.columns()
        check_texts([each for each in values.values() if isinstance(each, str)])
        if not self._connection.execute(sa.update(row.table).where(same).values(values)).rowcount:
            self._connection.execute(sa.insert(row.table).values(values))

    def _check_writable(self) -> None:
        if not self._writable:
            raise InputError(f"{self._where}: temporary tables were opened for reading, so nothing can be written")


def job_data(id_: str) -> tuple[str, str]:
    """Return the names under which data of a job are kept: its result, and its file."""
    return f"{id_} result", f"{id_} file"


def in_parts(data: bytes) -> Iterator[bytes]:
    """Yield data in parts of the size in which they are kept; there is at least one."""
    for start in range(0, max(1, len(data)), _PART):
        yield data[start : start + _PART]


def _digest(owner: str, number: int, data: bytes) -> bytes:
    digest = sha256(f"{owner} {number} ".encode())
    digest.update(data)
    return digest.digest()
