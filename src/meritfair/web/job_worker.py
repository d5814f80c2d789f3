"""Doing long work: one job after another, with progress and errors in words.

While a job is worked on, a thread beside it writes down how far it is, says that it is still worked on, and looks
whether it was cancelled or takes too long. Then the work is stopped where it next tells its progress; if that takes a
while, and the process is there for long work alone, by ending the process, which the server starts anew.

Progress and errors are kept in English, whoever has asked; pages say them in the language of whoever looks.
"""

from __future__ import annotations

import logging
import os
import tempfile
import threading
import time
from dataclasses import replace
from pathlib import Path

from meritfair.core.errors import NO_SPACE, MeritfairError
from meritfair.core.language import ENGLISH, _, speaking
from meritfair.programme.storage.store import Store, StoreError
from meritfair.web.job_kinds import KINDS, MOST_SECONDS, JobContext, JobResult
from meritfair.web.job_table import Job, JobTable, check_size
from meritfair.web.processes import STOPPED

_TICK = 0.2  # seconds between two looks at what the work has told
_EVERY = 1.0  # seconds between two states that are written down, and between two looks whether a job was cancelled
_BEAT = 5.0  # seconds after which it is written down that a job is still worked on, with nothing new
_GRACE = 5.0  # seconds in which work that is to stop tells its progress once more
_log = logging.getLogger("meritfair.jobs")


class JobStoppedError(BaseException):
    """A job is to stop where it is; nothing that it runs in may catch this as an error of its own."""


def failure() -> str:
    """Return what is said of a job that failed for a reason of our own."""
    with speaking(ENGLISH):
        return _("That did not work. The server's log says more.")


class Worker:
    """Works through the jobs of a store.

    Parameters
    ----------
    table : JobTable
    store : Store
    name : str
        Of this worker: nobody else has it at the same time.
    folder : Path
        Where files are made; nobody else may look into it.
    own_process : bool
        Whether this process does nothing else, so that it may end to stop a job.
    """

    def __init__(self, table: JobTable, store: Store, name: str, folder: Path, *, own_process: bool = False) -> None:
        self._table, self._store, self._name, self._own_process = table, store, name, own_process
        self._folder = folder
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def step(self) -> bool:
        """Do the job that is next; return whether there was one."""
        job = self._table.claim(self._name)
        if job is None:
            return False
        began = time.monotonic()
        try:
            state = self._finish(job)
        except OSError as error:
            if error.errno not in NO_SPACE:
                raise
            _log.warning("a job failed: there is no space left for its files")
            self._table.finish(replace(job, state="failed", error=_no_space()), self._name)
            state = "failed"
        _log.info("job %s %s after %.1f s", job.kind, state, time.monotonic() - began)
        return True

    def work_now(self, job: Job) -> Job:
        """Do a job in this thread, which nobody else knows of, and keep what came of it."""
        with tempfile.TemporaryDirectory(dir=self._folder, prefix="job-") as folder:
            over = self._work(job, Path(folder), None)
            return self._table.keep(over, Path(folder) / over.file if over.file else None)

    def _finish(self, job: Job) -> str:
        """Do a job that is claimed, and keep what came of it; return its state."""
        watch = _Watch(self._table, job, self._name, end_process=self._own_process)
        with tempfile.TemporaryDirectory(dir=self._folder, prefix="job-") as folder, watch:
            try:
                over = self._work(job, Path(folder), watch)
            except JobStoppedError:
                over = watch.stopped()
            watch.rest()
            kept = self._table.finish(over, self._name, Path(folder) / over.file if over.file else None)
        return over.state if kept else "dropped"

    def _work(self, job: Job, folder: Path, watch: _Watch | None) -> Job:
        """Return a job that is over: done, or failed."""
        store = self._store
        try:
            with self._store.still(folder) as store:
                job = self._as_of_now(job, store)
                made = self._make(job, store, folder, watch)
                if made.file:
                    check_size(folder / made.file)
            return replace(job, state="done", result=made.values, file=made.file)
        except MeritfairError as error:
            return replace(job, state="failed", error=store.hide(self._store.hide(str(error))))
        except Exception as error:  # of our own making: the words are for people, the log has the rest
            if isinstance(error, OSError) and error.errno in NO_SPACE:
                raise
            _log.exception("a job failed", extra={"kind": job.kind})
            return replace(job, state="failed", error=failure())

    def _make(self, job: Job, store: Store, folder: Path, watch: _Watch | None) -> JobResult:
        if watch is not None:
            watch.begin(job)
        tell = _tell_nobody if watch is None else watch.tell
        with speaking(ENGLISH):
            return KINDS[job.kind](JobContext(store, job.programme, job.arguments, folder, tell))

    def _as_of_now(self, job: Job, store: Store) -> Job:
        """Return a job as of the head that it will see, which may be newer than when it was asked."""
        try:
            with store.reading(job.programme) as session:
                return replace(job, head=session.head.hex(), entries=session.length)
        except MeritfairError:  # the work itself will say why
            return job


class _Watch:
    """A thread beside the work on a job."""

    def __init__(self, table: JobTable, job: Job, worker: str, *, end_process: bool) -> None:
        self._table, self._worker, self._end_process = table, worker, end_process
        self._job = self._written = job
        self._began = self._last_look = time.monotonic()
        self._last_write = self._began - _EVERY  # what is told first is written down at once
        self._most = MOST_SECONDS.get(job.kind, float("inf"))
        self._stop_since, self._error = 0.0, ""
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="meritfair job watch", daemon=True)

    def __enter__(self) -> _Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.rest()

    def rest(self) -> None:
        """Watch no longer."""
        self._over.set()
        self._thread.join()

    def begin(self, job: Job) -> None:
        """Note as of which head the work is done."""
        self._job = job

    def tell(self, words: str, done: int, total: int) -> None:
        """Note how far the work is; stop it if nobody wants it any more."""
        if self._stop_since:
            raise JobStoppedError
        self._job = replace(self._job, words=words, done=done, total=total)

    def stopped(self) -> Job:
        """Return the job as it is over because it was stopped."""
        return replace(self._job, state="failed", error=self._error)

    def _run(self) -> None:
        while not self._over.wait(_TICK):
            try:
                self._look()
            except StoreError as error:  # it is tried again; if it takes too long, another worker has the job
                _log.warning("how far a job is could not be written down: %s", type(error).__name__)

    def _look(self) -> None:
        now = time.monotonic()
        if self._stop_since:
            if self._end_process and now - self._stop_since > _GRACE:
                self._end()
            return
        if now - self._began > self._most:
            self._error = _too_long()
            self._stop_since = now
            return
        since = now - self._last_write
        if since > (_BEAT if self._job == self._written else _EVERY):
            job, self._last_write = self._job, now
            mine = self._table.update(job, self._worker)
            self._written = job
        elif now - self._last_look > _EVERY:
            mine, self._last_look = self._table.is_claimed(self._job, self._worker), now
        else:
            return
        if not mine:
            self._stop_since = now

    def _end(self) -> None:
        """End the process: what it runs does not listen."""
        if self._error:
            self._table.finish(self.stopped(), self._worker)
        _log.info("a job is stopped by ending its process")
        os._exit(STOPPED)


def _tell_nobody(_words: str, _done: int, _total: int) -> None:
    """Take no note of how far work is."""


def _no_space() -> str:
    with speaking(ENGLISH):
        return _("There is no space left on the server for files of this work. Try again later.")


def _too_long() -> str:
    with speaking(ENGLISH):
        return _("This took longer than a quarter of an hour and was stopped: ask for less, such as fewer rounds.")
