"""A worker: answers requests until its parent says stop."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import ClassVar

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from meritfair.web.app import create_app
from meritfair.web.logs import RequestLog
from meritfair.web.processes import FINISH_SECONDS, Tls
from meritfair.web.settings import ServerSettings

HEAD_SECONDS = 20.0  # in which the head of a request has to come
MOST_WITHOUT_HEAD, GRACE_SECONDS = 256, 2.0  # connections of a worker of which no whole head has come in this time


class Connection(H11Protocol):
    """A connection that is closed if a whole head of a request does not come in time.

    The rest of a body that nobody waits for any more has to come in that time, too. If too many connections wait for a
    head, the oldest is closed, so that whoever opens them keeps nobody else out.
    """

    _without_head: ClassVar[dict[Connection, float]] = {}  # of this process, since when: the oldest first
    _head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_watching()
        super().connection_lost(exc)

    def _watch(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:  # a request is being answered
            self._stop_watching()
        elif self._head_timer is None:
            self._head_timer = self.loop.call_later(HEAD_SECONDS, self.transport.close)
            if self.conn.their_state is h11.IDLE:  # else the rest of a body comes, from who has been answered
                self._without_head[self] = self.loop.time()
            self._close_oldest()

    def _close_oldest(self) -> None:
        """Close the connection that waits longest for a head, if too many do; what has just come is read first."""
        oldest, since = next(iter(self._without_head.items()), (self, self.loop.time()))
        if len(self._without_head) > MOST_WITHOUT_HEAD and self.loop.time() - since > GRACE_SECONDS:
            oldest._stop_watching()
            oldest.transport.close()

    def _stop_watching(self) -> None:
        self._without_head.pop(self, None)
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None


class _Server(uvicorn.Server):
    """Tells its parent when it answers, and stops when its parent says so."""

    def __init__(self, config: uvicorn.Config, tell_ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._tell_ready = tell_ready

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        signal.signal(signal.SIGTERM, self.handle_exit)
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._tell_ready()


def answer_requests(
    settings: ServerSettings, sockets: list[socket.socket], tls: Tls | None, tell_ready: Callable[[], None]
) -> None:
    """Answer requests until told to stop; those that have begun are finished."""
    config = uvicorn.Config(
        RequestLog(create_app(settings), settings.key),
        log_config=None,
        access_log=False,
        server_header=False,
        http=Connection,
        ws="none",
        proxy_headers=bool(settings.url),  # from a proxy on this machine, or where FORWARDED_ALLOW_IPS says
        timeout_graceful_shutdown=FINISH_SECONDS,
        ssl_certfile=tls.certificate if tls else None,
        ssl_keyfile=tls.key if tls else None,
    )
    _Server(config, tell_ready).run(sockets)
