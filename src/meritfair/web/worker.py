"""A worker: answers requests until its parent says stop."""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn

from meritfair.web.app import create_app
from meritfair.web.logs import RequestLog
from meritfair.web.processes import FINISH_SECONDS, Tls
from meritfair.web.settings import ServerSettings


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
        proxy_headers=bool(settings.url),  # from a proxy on this machine, or where FORWARDED_ALLOW_IPS says
        timeout_graceful_shutdown=FINISH_SECONDS,
        ssl_certfile=tls.certificate if tls else None,
        ssl_keyfile=tls.key if tls else None,
    )
    _Server(config, tell_ready).run(sockets)
