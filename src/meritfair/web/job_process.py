"""The process of a server that does its long work, so that pages stay quick whatever is worked out."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import socket
import threading
import time
from pathlib import Path

from meritfair.programme.storage.store import Store, StoreError
from meritfair.web.job_kinds import warm_up
from meritfair.web.job_table import JobTable
from meritfair.web.job_worker import Worker
from meritfair.web.settings import ServerSettings

_PAUSE = 0.2  # seconds between two looks, while there is nothing to do
_LONG_PAUSE = 2.0  # seconds, while the database cannot be used
_MOST_TO_RELEASE = 3.0  # seconds
_log = logging.getLogger("meritfair.jobs")


def run(settings: ServerSettings) -> None:
    """Work through the jobs of a store until the process that has started this one ends.

    A server has one such process at a time, so whatever is claimed in its name was left by one that has died. An
    interrupt from the terminal is for the server, which then ends this process; others take over at once what it was
    at.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(os, "nice"):  # not on Windows
        os.nice(19)
    parent, folder, store = os.getppid(), Path(settings.run_folder) / "jobs", Store(settings.store or None)
    shutil.rmtree(folder, ignore_errors=True)  # of one that has died: copies of the store may be there
    table = JobTable(store)
    worker = Worker(table, store, settings.run, folder, own_process=True)
    _release_at_end(table, settings.run)
    table.put_back(settings.run)
    warm_up()
    _log.info("ready for long work")
    while os.getppid() == parent:
        try:
            if not worker.step():
                time.sleep(_PAUSE)
        except StoreError as error:  # it is said where people ask; here it is tried again
            _log.warning("the database cannot be used: %s", type(error).__name__)
            time.sleep(_LONG_PAUSE)


def _release_at_end(table: JobTable, name: str) -> None:
    """Wait in a thread for the signal to end; whatever the process is at then, others may take it over at once."""
    told, writes = socket.socketpair()
    writes.setblocking(False)
    signal.signal(signal.SIGTERM, lambda *_: None)  # the main thread may be far from looking at signals
    signal.set_wakeup_fd(writes.fileno())

    def release() -> None:
        try:
            table.release(name)
        except StoreError as error:  # then the claim runs out
            _log.warning("a job could not be handed over: %s", type(error).__name__)

    def wait() -> None:
        with told, writes:
            told.recv(1)
            last = threading.Thread(target=release, daemon=True)
            last.start()
            last.join(_MOST_TO_RELEASE)
            os._exit(0)

    threading.Thread(target=wait, name="meritfair end", daemon=True).start()
