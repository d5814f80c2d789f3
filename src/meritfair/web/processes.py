"""What the processes of a server do: answer requests, or do long work.

They are started by `meritfair.web.serving`. If their parent is gone, however that came about, they end by themselves
and take the files of the run with them. Ctrl-C in a terminal reaches every process of it: only the parent heeds it.

The parent imports this module, so what takes long to import waits until a process needs it.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import shutil
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection

from meritfair.core.errors import MeritfairError
from meritfair.web.logs import write_logs
from meritfair.web.settings import ServerSettings

STOPPED = 75  # the exit code of a process that has ended to stop a job
FINISH_SECONDS = 20  # that requests have to finish in, when the server stops
_log = logging.getLogger("meritfair.web")


@dataclass(frozen=True)
class Tls:
    """The files of a certificate and its key."""

    certificate: str
    key: str


def answer(settings: ServerSettings, sockets: list[socket.socket], tls: Tls | None, ready: Connection) -> None:
    """Answer requests until the parent says stop."""
    with _child(settings):
        from meritfair.web.worker import answer_requests

        answer_requests(settings, sockets, tls, lambda: ready.send_bytes(b"ready"))


def work(settings: ServerSettings) -> None:
    """Do long work until the parent says stop."""
    with _child(settings):
        from meritfair.web.job_process import run

        run(settings)


def _raise_limit_of_files() -> None:
    """Let this process have as many connections open as the system allows it, which is often more than at first."""
    with suppress(ImportError, OSError, ValueError):  # Windows has no such limit
        import resource

        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


@contextmanager
def _child(settings: ServerSettings) -> Iterator[None]:
    """Prepare a process of a server; write down what it fails with, and clean up if nobody else will."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    write_logs()
    _raise_limit_of_files()
    parent = multiprocessing.parent_process()
    threading.Thread(target=_follow_parent, daemon=True).start()
    try:
        yield
    except Exception as error:
        told = f": {error}" if isinstance(error, (MeritfairError, ImportError)) else ""  # of others it may tell values
        _log.exception("a process of the server has failed%s", told)
        raise SystemExit(1) from None
    finally:
        if parent is not None and not parent.is_alive():
            shutil.rmtree(settings.run_folder, ignore_errors=True)


def _follow_parent() -> None:
    """Stop this process when its parent is gone: first kindly, then for good."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return
    parent.join()
    os.kill(os.getpid(), signal.SIGTERM)
    threading.Event().wait(FINISH_SECONDS + 5)
    os._exit(1)
