"""The process of a server that does its long work, so that pages stay quick whatever is worked out."""

from __future__ import annotations

import logging
import os
import signal
import time
from pathlib import Path

from meritfair.programme.storage.store import Store
from meritfair.web.job_files import JobFiles
from meritfair.web.job_kinds import warm_up
from meritfair.web.job_worker import Worker
from meritfair.web.settings import ServerSettings

_PAUSE = 0.1  # seconds between two looks, while there is nothing to do
_log = logging.getLogger("meritfair.jobs")


def run(settings: ServerSettings) -> None:
    """Work through the jobs of a server until the process that has started this one ends.

    An interrupt from the terminal is for the server, which then ends this process; a job that is cut short so is put
    back by the next one.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(os, "nice"):  # not on Windows
        os.nice(19)
    parent, files = os.getppid(), JobFiles(Path(settings.run_folder) / "jobs")
    files.put_back()
    worker = Worker(files, Store(settings.store or None))
    warm_up()
    _log.info("ready for long work")
    while os.getppid() == parent:
        if not worker.step():
            time.sleep(_PAUSE)
