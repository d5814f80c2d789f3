"""What a worker works out ahead, in a thread of its own, so that nobody waits for it.

A page about one person needs estimates of everyone. They stay right while a round is open, so they are made anew when a
round is drawn or closed. With a million participants that takes seconds.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from threading import Event, Thread

from fastapi import FastAPI

from meritfair.core.errors import MeritfairError
from meritfair.programme.reading import Reader
from meritfair.web.job_kinds import warm_up

_SECONDS = 2.0  # between two looks
_log = logging.getLogger("meritfair.web")


@asynccontextmanager
async def preparing(app: FastAPI) -> AsyncIterator[None]:
    """Prepare the programmes of a worker while it answers requests."""
    done = Event()
    Thread(target=prepare, args=(app.state.frame.reader, done), daemon=True).start()
    try:
        yield
    finally:
        done.set()


def prepare(reader: Reader, done: Event) -> None:
    """Prepare all programmes, and again when a round is drawn or closed, until told that it is enough."""
    warm_up()
    made: dict[str, tuple[int, str]] = {}
    while not done.is_set():
        try:
            _once(reader, made)
        except MeritfairError as error:  # a database that cannot be reached now: it is tried again
            _log.warning("nothing could be worked out ahead: %s", type(error).__name__)
        except Exception:  # pages work it out when they are asked for
            _log.exception("nothing is worked out ahead any more")
            return
        done.wait(_SECONDS)


def _once(reader: Reader, made: dict[str, tuple[int, str]]) -> None:
    for name in reader.names():
        status = reader.look(name).status
        now = status.round, status.phase
        if made.get(name) != now and status.enrolled:
            reader.prepare(name)
        made[name] = now
