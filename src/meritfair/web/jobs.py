"""Long work of a server: it is done in a process of its own, shows its progress, and survives a reload of the page.

Whoever needs something asks for it by kind, programme and arguments. The same question about the same head of the
ledger is one job, whoever asks, in whichever worker. What came of it stays in the server's run folder for a while
(`meritfair.web.job_files`); it never names participants, but by their numbers in the ledger, so that nothing of someone
who is erased is left in it.

The work is done by `meritfair.web.job_process`; or, where the settings say that there is no such process (in tests, or
an application without `meritfair serve`), by one thread of this process.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from meritfair.core.checks import check_known
from meritfair.core.errors import InputError
from meritfair.programme.storage.store import Store
from meritfair.web.job_files import Job as Job
from meritfair.web.job_files import JobFiles
from meritfair.web.job_kinds import KINDS
from meritfair.web.job_worker import Worker
from meritfair.web.settings import ServerSettings

MOST_WAITING = 30
MOST_ALIKE = 10  # of one kind of one programme, so that nobody keeps all others waiting
_IDLE = 30.0  # seconds after which a thread without work ends


class Jobs:
    """The long work of a server.

    Parameters
    ----------
    settings : ServerSettings
    store : Store
    """

    def __init__(self, settings: ServerSettings, store: Store) -> None:
        self._store = store
        self._own = None if settings.run_folder else tempfile.TemporaryDirectory(prefix="meritfair-")
        self._files = JobFiles(Path(self._own.name if self._own else settings.run_folder) / "jobs")
        self._threaded = not settings.job_process
        self._thread: threading.Thread | None = None
        self._wake, self._lock = threading.Condition(), threading.Lock()

    def ask(
        self,
        kind: str,
        programme: str,
        arguments: dict[str, Any] | None = None,
        *,
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
        now : bool
            Do the work before returning, in this thread: for programmes that are small.
        again : bool
            Begin anew what has failed.
        """
        check_known("kind of job", kind, KINDS)
        job = self._new(kind, programme, arguments or {})
        there = self._files.read(job.id) or self._files.waiting_like(job)
        if there is not None and (there.state != "failed" or not again):
            job = there
        else:
            self._check_room(job)
            self._files.add(job)
        if job.state != "waiting":
            return job
        if now:
            Worker(self._files, self._store).work(job)
            return self._files.read(job.id) or job
        self._begin()
        return job

    def get(self, id_: str) -> Job | None:
        """Return a job."""
        return self._files.read(id_)

    def latest(self, kind: str, programme: str, arguments: dict[str, Any] | None = None) -> Job | None:
        """Return the newest job of a kind that is done, whatever the head was; None if there is none."""
        like = self._new(kind, programme, arguments or {})
        return self._files.latest_like(like)

    def recent(self, kind: str, programme: str) -> Job | None:
        """Return the job of a kind that was asked last, whatever its arguments and however far it is."""
        identity = self._new(kind, programme, {}).identity
        return self._files.recent(kind, identity)

    def path(self, job: Job) -> Path:
        """Return the file that a job has made."""
        return self._files.folder / job.id / job.file

    def forget(self, programme: str) -> None:
        """Delete what has come of the jobs of a programme."""
        self._files.forget(programme)

    def _new(self, kind: str, programme: str, arguments: dict[str, Any]) -> Job:
        with self._store.reading(programme) as session:
            identity, head, entries = session.identity, session.head.hex(), session.length
        question = json.dumps([kind, identity, arguments, head], sort_keys=True)
        id_ = hashlib.sha256(question.encode()).hexdigest()[:32]
        return Job(
            id_, kind, programme, head, identity=identity, arguments=arguments, entries=entries, asked=time.time()
        )

    def _check_room(self, job: Job) -> None:
        waiting = [each for each in self._files.all() if each.state == "waiting"]
        alike = sum((each.kind, each.identity) == (job.kind, job.identity) for each in waiting)
        if len(waiting) >= MOST_WAITING or alike >= MOST_ALIKE:
            raise InputError(f"{len(waiting)} other things are waiting to be worked out: try again in a few minutes")

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
        worker, last = Worker(self._files, self._store), time.monotonic()
        while time.monotonic() - last < _IDLE:
            if worker.step():
                last = time.monotonic()
                continue
            with self._wake:
                self._wake.wait(0.2)
