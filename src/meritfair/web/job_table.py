"""The table of long work: what was asked by whom, how far it is, and what came of it, for all servers on a store.

Whoever works on a job has *claimed* it, and says every few seconds that they still do: the claim is a lease, and if it
runs out, someone else takes the job over. Whatever is written about a job that was claimed by another, was cancelled
or forgotten meanwhile is dropped. Everything here is one short transaction.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from meritfair.core.errors import InputError
from meritfair.core.language import _
from meritfair.programme.storage.store import Store, StoreError
from meritfair.programme.storage.temporary_rows import LIVE, JobRow, TemporaryRows, in_parts, job_data

KEPT = 5  # results of one kind of one programme
LEASE = 30_000  # milliseconds that a claim lasts
MOST_BYTES = 128 << 20  # of one file that a job makes
_MOST_BYTES_IN_ALL = 512 << 20
_AGE = 24 * 3_600_000  # milliseconds that a result is kept
_TRIES = 2
_CHUNK = 1 << 20
MEDIA_TYPES = {".zip": "application/zip", ".html": "text/html", ".csv": "text/csv"}


@dataclass(frozen=True)
class Job:
    """A piece of long work.

    Attributes
    ----------
    id, kind, programme, head : str
        What is worked out, of which programme, as of which entry: the last one when it was asked or, once someone works
        on it, when that began.
    state : {"waiting", "running", "done", "failed", "cancelled"}
    done, total : int
        How much of how much is done.
    words, error : str
        What is going on, and why it failed.
    result : dict or None
        What came of it, as plain values.
    file : str
        The name of a file that was made; empty if none was.
    entries : int
        How many entries the ledger had at that head.
    identity : str
        Of the programme.
    arguments : dict
    askers : tuple of str
        Who has asked for it, and has not cancelled that.
    asked, ended : float
        When, in seconds.
    tries : int
        How often it was begun.
    """

    id: str
    kind: str
    programme: str
    head: str
    state: str = "waiting"
    done: int = 0
    total: int = 0
    words: str = ""
    error: str = ""
    result: dict[str, Any] | None = None
    file: str = ""
    entries: int = 0
    identity: str = ""
    arguments: dict[str, Any] = field(default_factory=dict)
    askers: tuple[str, ...] = ()
    asked: float = 0.0
    ended: float = 0.0
    tries: int = 0

    @property
    def is_over(self) -> bool:
        """Whether nobody works on it any more."""
        return self.state not in LIVE

    def may_be_cancelled(self, by: str | None) -> bool:
        """Return whether a user may cancel it, who has asked for it; None stands for those who may cancel all."""
        return by is None or by in self.askers

    @property
    def media_type(self) -> str:
        """Of the file that was made."""
        return MEDIA_TYPES[Path(self.file).suffix]


class JobTable:
    """The jobs of all servers on a store.

    Parameters
    ----------
    store : Store
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    # Asking

    def read(self, id_: str) -> Job | None:
        """Return a job; None if there is none."""
        if not (id_.isalnum() and id_.isascii()):
            return None
        with self._store.temporary() as rows:
            row = rows.job(id_)
            with suppress(StoreError):
                return None if row is None else _job(row, rows)
        self._remove(row)
        return None

    def ask(self, job: Job, by: str, again: bool, admit: Callable[[list[Job]], float]) -> Job:
        """Return the job for a question: this one, one that is there, or one that waits and asks the same.

        `admit` is told all jobs that are not over. It refuses another one if there is no room for it, or returns by how
        many seconds it is due later than it was asked.
        """
        with self._store.temporary(writing=True) as rows:
            there = rows.job(job.id)
            if there is None or (again and is_given_up(there.state)):
                there = _waiting_like(rows, job) or there
            if there is not None and not (again and is_given_up(there.state)):
                return _job(_join(rows, there, by), rows)
            later = admit([_job(row) for row in rows.live_jobs()])
            if there is not None:
                rows.remove_job(there)
            now = rows.now()
            row = replace(_row(job, now, by), due=now + int(1000 * later))
            rows.put_job(row)
            return _job(row)

    def keep(self, job: Job, file: Path | None = None) -> Job:
        """Keep a job that was done outside of the queue; return it as it is kept."""
        with self._store.temporary(writing=True) as rows:
            now = rows.now()
            there = rows.job(job.id)
            if there is not None:
                rows.remove_job(there)
            row = replace(_row(job, now, ""), state=job.state, error=job.error, file=job.file, ended=now, tries=1)
            rows.put_job(row)
            _put_result(rows, job, file)
            _prune(rows)
            return _job(row, rows)

    def live(self) -> list[Job]:
        """Return the jobs that wait or are worked on, in the order in which they were asked."""
        with self._store.temporary() as rows:
            return [_job(row) for row in rows.live_jobs()]

    def latest_like(self, job: Job) -> Job | None:
        """Return the newest job that asks the same, whatever the head, and is done."""
        with self._store.temporary() as rows:
            found = [row for row in rows.jobs_of(job.identity, job.kind) if row.state == "done" and _is_like(row, job)]
            if not found:
                return None
            newest = max(found, key=lambda row: (row.entries, row.ended))
            with suppress(StoreError):
                return _job(newest, rows)
        self._remove(newest)
        return self.latest_like(job)

    def recent(self, kind: str, identity: str) -> Job | None:
        """Return the job of a kind that was asked last."""
        with self._store.temporary() as rows:
            found = rows.jobs_of(identity, kind)
        return self.read(found[-1].id) if found else None

    def file(self, job: Job) -> tuple[int, Iterator[bytes]]:
        """Return the size of the file that a job has made, and its bytes, in parts that are read when they are due."""
        owner = job_data(job.id)[1]

        def parts() -> Iterator[bytes]:
            number = 0
            while (part := self._part(owner, number)) is not None:
                yield part
                number += 1

        with self._store.temporary() as rows:
            return rows.size_of_data(owner), parts()

    def cancel(self, id_: str, by: str | None) -> Job | None:
        """Let a user no longer ask for a job, which is cancelled if nobody else does; None cancels it for all."""
        with self._store.temporary(writing=True) as rows:
            row = rows.job(id_)
            if row is None or row.state not in LIVE:
                return None if row is None else _job(row, rows)
            others = [each for each in json.loads(row.askers) if by is not None and each != by]
            left = replace(row, askers=json.dumps(others))
            if not others:
                left = replace(left, state="cancelled", askers=row.askers, worker="", lease=0, ended=rows.now())
            rows.put_job(left)
            _prune(rows)
            return _job(left)

    def forget(self, programme: str) -> None:
        """Delete what has come of the jobs of a programme."""
        with self._store.temporary(writing=True) as rows:
            for row in rows.ended_jobs():
                if row.programme == programme:
                    rows.remove_job(row)

    # Working

    def claim(self, worker: str) -> Job | None:
        """Claim the job that is next of those that wait; return it, None if there is none.

        Jobs whose claim has run out wait again first, or have failed if that has happened before.
        """
        with self._store.temporary() as rows:
            now = rows.now()
            if not any(row.state == "waiting" or row.lease < now for row in rows.live_jobs()):
                return None
        with self._store.temporary(writing=True) as rows:
            _put_back(rows, lambda row: row.lease < rows.now())
            row = min((each for each in rows.live_jobs() if each.state == "waiting"), key=_due, default=None)
            if row is None:
                return None
            row = replace(row, state="running", tries=row.tries + 1, worker=worker, lease=rows.now() + LEASE)
            rows.put_job(row)
            return _job(row)

    def is_claimed(self, job: Job, worker: str) -> bool:
        """Return whether a worker still has a job."""
        with self._store.temporary() as rows:
            return _own(rows, job, worker) is not None

    def update(self, job: Job, worker: str) -> bool:
        """Write how far a job is, and that a worker is still at it; return whether they still have it."""
        with self._store.temporary(writing=True) as rows:
            row = _own(rows, job, worker)
            if row is None:
                return False
            row = replace(row, words=job.words, done=job.done, total=job.total, head=job.head, entries=job.entries)
            rows.put_job(replace(row, lease=rows.now() + LEASE))
            return True

    def finish(self, job: Job, worker: str, file: Path | None = None) -> bool:
        """Write what came of a job, if a worker still has it; return whether they had."""
        with self._store.temporary(writing=True) as rows:
            row = _own(rows, job, worker)
            if row is None:
                return False
            row = replace(row, state=job.state, error=job.error, file=job.file, head=job.head, entries=job.entries)
            rows.put_job(replace(row, worker="", lease=0, ended=rows.now()))
            _put_result(rows, job, file)
            _prune(rows)
            return True

    def release(self, worker: str) -> None:
        """Let others take over at once what a worker has, who stops for another reason."""
        with self._store.temporary(writing=True) as rows:
            for row in rows.live_jobs():
                if row.worker == worker:
                    rows.put_job(replace(row, state="waiting", tries=row.tries - 1, worker="", lease=0, done=0))

    def put_back(self, worker: str) -> None:
        """Let jobs be done again that a worker had who has died."""
        with self._store.temporary(writing=True) as rows:
            _put_back(rows, lambda row: row.worker == worker)

    def prune(self) -> None:
        """Delete old results: all but the last few of a kind of a programme, and all after a day."""
        with self._store.temporary(writing=True) as rows:
            _prune(rows)

    def _remove(self, row: JobRow | None) -> None:
        """Delete a job whose result is damaged: whoever needs it asks again."""
        if row is not None:
            with self._store.temporary(writing=True) as rows:
                rows.remove_job(row)

    def _part(self, owner: str, number: int) -> bytes | None:
        with self._store.temporary() as rows:
            return rows.data_part(owner, number)


def is_given_up(state: str) -> bool:
    """Return whether a job of this state is over, and nothing came of it."""
    return state in ("failed", "cancelled")


def _row(job: Job, now: int, by: str) -> JobRow:
    """Return the row of a job that is new."""
    arguments, askers = json.dumps(job.arguments, sort_keys=True), json.dumps([by] * bool(by))
    about = (job.id, job.kind, job.programme, job.identity, arguments, askers)
    return JobRow(*about, asked=now, due=now, state="waiting", head=job.head, entries=job.entries)


def _job(row: JobRow, rows: TemporaryRows | None = None) -> Job:
    """Return a job as it is kept; what came of it, too, if the tables to read that from are given."""
    result = None
    if rows is not None and row.state == "done":
        data = b"".join(rows.data(job_data(row.id)[0]))
        result = json.loads(zlib.decompress(data)) if data else None
    same = ("id", "kind", "programme", "head", "state", "done", "total", "words", "error", "file", "entries")
    values = {name: vars(row)[name] for name in (*same, "identity", "tries")}
    arguments, askers = json.loads(row.arguments), tuple(json.loads(row.askers))
    return Job(
        **values, arguments=arguments, askers=askers, asked=row.asked / 1000, ended=row.ended / 1000, result=result
    )


def _due(row: JobRow) -> tuple[int, str]:
    return row.due, row.id


def _is_like(row: JobRow, job: Job) -> bool:
    """Return whether both ask the same, whatever the head."""
    arguments = json.loads(row.arguments)
    return (row.kind, row.identity, arguments) == (job.kind, job.identity, job.arguments)


def _waiting_like(rows: TemporaryRows, job: Job) -> JobRow | None:
    """Return a job that waits and asks the same: it will be worked out for what is the head then."""
    return next((row for row in rows.live_jobs() if row.state == "waiting" and _is_like(row, job)), None)


def _join(rows: TemporaryRows, row: JobRow, by: str) -> JobRow:
    """Note that someone else asks for a job that is not over."""
    askers = json.loads(row.askers)
    if row.state not in LIVE or not by or by in askers:
        return row
    joined = replace(row, askers=json.dumps([*askers, by]))
    rows.put_job(joined)
    return joined


def _own(rows: TemporaryRows, job: Job, worker: str) -> JobRow | None:
    row = rows.job(job.id)
    return row if row is not None and (row.state, row.worker) == ("running", worker) else None


def _put_back(rows: TemporaryRows, is_orphan: Callable[[JobRow], bool]) -> None:
    for row in rows.live_jobs():
        if row.state != "running" or not is_orphan(row):
            continue
        free = replace(row, worker="", lease=0, done=0, words="")
        if row.tries < _TRIES:
            rows.put_job(replace(free, state="waiting"))
        else:
            why = _("The process that worked on this ended twice; it may need more memory than there is.")
            rows.put_job(replace(free, state="failed", error=why, ended=rows.now()))


def _put_result(rows: TemporaryRows, job: Job, file: Path | None) -> None:
    result, made = job_data(job.id)
    if job.result is not None:
        rows.put_data(result, in_parts(zlib.compress(json.dumps(job.result).encode(), 1)))
    if file is not None:
        rows.put_data(made, _chunks(file))


def _chunks(file: Path) -> Iterable[bytes]:
    with file.open("rb") as stream:
        while chunk := stream.read(_CHUNK):
            yield chunk


def check_size(file: Path) -> None:
    """Refuse a file that is too large to be kept in the store."""
    size = file.stat().st_size
    if size > MOST_BYTES:
        raise InputError(
            f"the file has {size >> 20} MB, and a server keeps files of at most {MOST_BYTES >> 20} MB: use the command "
            "line on the server instead (meritfair programme export, meritfair programme audit)"
        )


def _prune(rows: TemporaryRows) -> None:
    """Delete all but the last few of a kind of a programme, those after a day, and the oldest large ones.

    Those of which nothing came are counted apart, so that they push out no result.
    """
    now, seen, kept = rows.now(), dict[tuple[str, str, bool], int](), 0
    for row in sorted(rows.ended_jobs(), key=lambda row: (-row.ended, row.id)):
        key = row.kind, row.identity, is_given_up(row.state)
        place = seen[key] = seen.get(key, 0) + 1
        kept += rows.size_of_data(job_data(row.id)[1]) if row.file else 0
        if place > KEPT or now - row.ended > _AGE or kept > _MOST_BYTES_IN_ALL:
            rows.remove_job(row)
