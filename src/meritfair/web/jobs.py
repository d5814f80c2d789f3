"""Long work of a server: it is done in a process of its own, shows its progress, and survives a reload of the page.

Whoever needs something asks for it by kind, programme and arguments. The same question about the same head of the
ledger is one job, whoever asks, in whichever worker of whichever server on the store. What came of it stays in the
store for a while (`meritfair.web.job_table`); it never names participants, but by their numbers in the ledger, so that
nothing of someone who is erased is left in it.

Nobody can keep others waiting: a user has few jobs at a time, of which each comes later than the one before, and some
places are for verifications and reports alone, which come before the rest. What was begun is finished first.

The work is done by `meritfair.web.job_process`; or, where the settings say that there is no such process (in tests, or
an application without `meritfair serve`), by one thread of this process.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from meritfair.core.checks import check_known
from meritfair.core.language import _, ngettext
from meritfair.programme.storage.store import Store
from meritfair.web.job_kinds import ESSENTIAL, KINDS
from meritfair.web.job_table import Job as Job
from meritfair.web.job_table import JobTable, is_given_up
from meritfair.web.job_worker import Worker
from meritfair.web.quota import QuotaError
from meritfair.web.settings import ServerSettings

MOST_WAITING = 30
KEPT_FREE = 10  # of these, for what everyone relies on
MOST_OF_ONE = 6  # jobs of one user that wait or are worked on
HEAD_START = 6 * 3600.0  # seconds by which what everyone relies on comes before the rest
TURN = 120.0  # seconds by which a job comes later for each that its user has already
_IDLE = 30.0  # seconds after which a thread without work ends


class Jobs:
    """The long work of a server.

    Parameters
    ----------
    settings : ServerSettings
    store : Store
    """

    def __init__(self, settings: ServerSettings, store: Store) -> None:
        self._store, self._table = store, JobTable(store)
        self._own = None if settings.run_folder else tempfile.TemporaryDirectory(prefix="meritfair-")
        folder = Path(self._own.name if self._own else settings.run_folder)
        self._worker = Worker(self._table, store, f"thread {secrets.token_hex(8)}", folder / "now")
        self._threaded = not settings.job_process
        self._thread: threading.Thread | None = None
        self._wake, self._lock, self._at_once = threading.Condition(), threading.Lock(), threading.Lock()

    def ask(
        self,
        kind: str,
        programme: str,
        arguments: dict[str, Any] | None = None,
        *,
        by: str = "",
        now: bool = False,
        again: bool = False,
    ) -> Job:
        """Return the job for what is asked; it is begun if it is not there yet.

        Parameters
        ----------
        kind : str
            One of `KINDS`.
        programme : str
        arguments : dict, optional
            Plain values, as the kind takes them.
        by : str
            Who asks; empty for the server itself, which may always ask.
        now : bool
            Do the work before returning, in this thread: for programmes that are small.
        again : bool
            Begin anew what has failed or was cancelled.
        """
        check_known("kind of job", kind, KINDS)
        asked = self._new(kind, programme, arguments or {})
        if now:
            return self._now(asked, again)
        job = self._table.read(asked.id)
        if job is None or (again and is_given_up(job.state)) or (not job.is_over and by not in ("", *job.askers)):
            job = self._table.ask(asked, by, again, lambda live: _admit(live, asked, by))
        if job.state == "waiting":
            self._begin()
        return job

    def get(self, id_: str) -> Job | None:
        """Return a job."""
        return self._table.read(id_)

    def latest(self, kind: str, programme: str, arguments: dict[str, Any] | None = None) -> Job | None:
        """Return the newest job of a kind that is done, whatever the head was; None if there is none."""
        return self._table.latest_like(self._new(kind, programme, arguments or {}))

    def recent(self, kind: str, programme: str) -> Job | None:
        """Return the job of a kind that was asked last, whatever its arguments and however far it is."""
        with self._store.reading(programme) as session:
            identity = session.identity
        return self._table.recent(kind, identity)

    def file(self, job: Job) -> tuple[int, Iterator[bytes]]:
        """Return the size of the file that a job has made, and its bytes, part by part."""
        return self._table.file(job)

    def cancel(self, job: Job, by: str | None) -> Job:
        """Cancel a job that is not over, as far as a user has asked for it; None cancels it for all."""
        return self._table.cancel(job.id, by) or job

    def forget(self, programme: str) -> None:
        """Delete what has come of the jobs of a programme."""
        self._table.forget(programme)

    def _new(self, kind: str, programme: str, arguments: dict[str, Any]) -> Job:
        with self._store.reading(programme) as session:
            identity, head, entries = session.identity, session.head.hex(), session.length
        question = json.dumps([kind, identity, arguments, head], sort_keys=True)
        id_ = hashlib.sha256(question.encode()).hexdigest()[:32]
        return Job(id_, kind, programme, head, identity=identity, arguments=arguments, entries=entries)

    def _now(self, asked: Job, again: bool) -> Job:
        """Return a job that is over; threads that want the same wait for one of them."""
        with self._at_once:
            there = self._table.read(asked.id)
            if there is not None and there.is_over and not (again and is_given_up(there.state)):
                return there
            return self._worker.work_now(asked)

    def _begin(self) -> None:
        """Let the thread know that there is work, if there is no process for it."""
        if not self._threaded:
            return
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="meritfair jobs", daemon=True)
                self._thread.start()
        with self._wake:
            self._wake.notify()

    def _run(self) -> None:
        last = time.monotonic()
        while time.monotonic() - last < _IDLE:
            if self._worker.step():
                last = time.monotonic()
                continue
            with self._wake:
                self._wake.wait(0.2)


def _admit(live: list[Job], job: Job, by: str) -> float:
    """Return by how many seconds a job is due later than it was asked.

    Refuse it if its user has enough of them, or if there is no place left. Whatever waits is next at some time, since
    what is asked much later is due later.
    """
    own = sum(by in each.askers for each in live) if by else 0
    if own >= MOST_OF_ONE:
        raise QuotaError(
            ngettext(
                "{n} thing that you have asked for is still being worked out: wait for it, or cancel it",
                "{n} things that you have asked for are still being worked out: wait for one of them, or cancel one",
                own,
            ).format(n=own)
        )
    waiting = sum(each.state == "waiting" for each in live)
    others = sum(each.state == "waiting" and each.kind not in ESSENTIAL for each in live)
    if waiting >= MOST_WAITING or (job.kind not in ESSENTIAL and others >= MOST_WAITING - KEPT_FREE):
        raise QuotaError(
            _("{n} other things are waiting to be worked out: try again in a few minutes").format(n=waiting)
        )
    return TURN * own - HEAD_START * (job.kind in ESSENTIAL)
