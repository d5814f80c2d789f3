"""Doing long work: one job after another, with progress and errors in words.

These are kept in English, whoever has asked; pages say them in the language of whoever looks.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import replace

from meritfair.core.errors import MeritfairError
from meritfair.core.language import ENGLISH, _, speaking
from meritfair.programme.storage.store import Store
from meritfair.web.job_files import Job, JobFiles
from meritfair.web.job_kinds import KINDS, JobContext

_EVERY = 0.2  # seconds between two states that are written down
_log = logging.getLogger("meritfair.jobs")


def failure() -> str:
    """Return what is said of a job that failed for a reason of our own."""
    with speaking(ENGLISH):
        return _("That did not work. The server's log says more.")


class Worker:
    """Works through the jobs of a server, the oldest first.

    Parameters
    ----------
    files : JobFiles
    store : Store
    """

    def __init__(self, files: JobFiles, store: Store) -> None:
        self._files, self._store = files, store

    def step(self) -> bool:
        """Do the oldest job that waits; return whether there was one."""
        return any(self.work(each) for each in self._files.all() if each.state == "waiting")

    def work(self, job: Job) -> bool:
        """Do a job, unless someone else does; return whether it was done here."""
        if not self._files.claim(job):
            return False
        began, job = time.monotonic(), replace(job, state="running", tries=job.tries + 1)
        self._files.update(job)
        store = self._store
        try:
            with self._store.still(self._files.folder / job.id) as store:
                job = self._as_of_now(job, store)
                self._files.update(job)
                task = JobContext(store, job.programme, job.arguments, self._files.folder / job.id, self._telling(job))
                with speaking(ENGLISH):
                    made = KINDS[job.kind](task)
            over = replace(job, state="done", result=made.values, file=made.file)
        except MeritfairError as error:
            over = replace(job, state="failed", error=store.hide(self._store.hide(str(error))))
        except Exception:  # of our own making: the words are for people, the log has the rest
            _log.exception("a job failed", extra={"kind": job.kind})
            over = replace(job, state="failed", error=failure())
        self._files.finish(over)
        self._files.prune()
        _log.info("job %s %s after %.1f s", job.kind, over.state, time.monotonic() - began)
        return True

    def _as_of_now(self, job: Job, store: Store) -> Job:
        """Return a job as of the head that it will see, which may be newer than when it was asked."""
        try:
            with store.reading(job.programme) as session:
                return replace(job, head=session.head.hex(), entries=session.length)
        except MeritfairError:  # the work itself will say why
            return job

    def _telling(self, job: Job) -> Callable[[str, int, int], None]:
        """Return what is told how far a job is, and writes it down now and then."""
        last = 0.0

        def tell(words: str, done: int, total: int) -> None:
            nonlocal last
            if time.monotonic() - last < _EVERY:
                return
            last = time.monotonic()
            self._files.update(replace(job, words=words, done=done, total=total))

        return tell
