"""Figures for Prometheus: requests by route, status and time, and entries of all ledgers by kind.

Nothing tells of a participant or names a programme. Routes are told by their templates. Several workers write what they
count into files of the server's run folder, so that whichever is asked tells of all.

On one's own machine no token is needed. A server that others reach through a proxy cannot tell who is on its machine,
so there it takes a token, of any role.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from threading import Lock
from typing import Any

from fastapi import APIRouter, Request, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from meritfair.programme.reading import Reader
from meritfair.web.access import Credentials, caller_of_token
from meritfair.web.api.openapi import problems
from meritfair.web.frame import frame_of
from meritfair.web.listening import is_loopback
from meritfair.web.logs import method_of, route_of
from meritfair.web.settings import ServerSettings

router = APIRouter(tags=["operations"])
_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Entries:
    """Counts the entries of all ledgers by kind; what was counted before is not read again."""

    def __init__(self, reader: Reader) -> None:
        self._reader, self._lock = reader, Lock()
        self._counted: dict[str, tuple[int, Counter[str]]] = {}  # by identity: up to which entry, and how many

    def collect(self) -> Iterator[Any]:
        """Yield the figures, as Prometheus wants them."""
        from prometheus_client.core import CounterMetricFamily

        family = CounterMetricFamily("meritfair_entries", "Entries of all ledgers.", labels=["kind"])
        for kind, number in sorted(self.totals().items()):
            family.add_metric([kind], number)
        yield family

    def totals(self) -> Counter[str]:
        """Return how many entries there are of each kind."""
        total = Counter[str]()
        with self._lock:
            for name in self._reader.names():
                total += self._of(name)
        return total

    def _of(self, name: str) -> Counter[str]:
        snapshot = self._reader.look(name)
        start, counts = self._counted.get(snapshot.identity, (0, Counter[str]()))
        counts = counts + Counter(each.kind for each in snapshot.entry_lines(start, snapshot.entries))
        self._counted[snapshot.identity] = snapshot.entries, counts
        return counts


class Metrics:
    """What one worker counts."""

    def __init__(self, settings: ServerSettings, reader: Reader) -> None:
        self._shared = settings.workers > 1 and bool(settings.run_folder)
        if self._shared:  # prometheus_client looks at this once, when it is first imported
            folder = Path(settings.run_folder) / "metrics"
            folder.mkdir(mode=0o700, exist_ok=True)
            os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(folder)
        from prometheus_client import CollectorRegistry, Counter, Histogram

        self._registry, self._entries = CollectorRegistry(), Entries(reader)
        kept = None if self._shared else self._registry
        labels = ["method", "route"]
        self._requests = Counter("meritfair_requests", "Requests.", [*labels, "status"], registry=kept)
        self._seconds = Histogram(
            "meritfair_request_seconds", "How long requests took.", labels, registry=kept, buckets=_BUCKETS
        )
        if not self._shared:
            self._registry.register(self._entries)

    def count(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request."""
        self._requests.labels(method, route, str(status)).inc()
        self._seconds.labels(method, route).observe(seconds)

    def text(self) -> bytes:
        """Return all figures, of all workers, in the format of Prometheus."""
        from prometheus_client import CollectorRegistry, generate_latest
        from prometheus_client.multiprocess import MultiProcessCollector

        if not self._shared:
            return generate_latest(self._registry)
        registry = CollectorRegistry()
        MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        registry.register(self._entries)
        return generate_latest(registry)


class RequestCounter:
    """Middleware: counts requests and how long they take, by the template of their route."""

    def __init__(self, app: ASGIApp, *, metrics: Metrics) -> None:
        self._app, self._metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, and count it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status = time.perf_counter(), 500

        async def noting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, noting)
        finally:
            self._metrics.count(method_of(scope), route_of(scope), status, time.perf_counter() - began)


@router.get(
    "/metrics",
    operation_id="get_metrics",
    summary="Figures for Prometheus",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}, **problems(401, 429, 503)},
)
def get_metrics(request: Request, credentials: Credentials) -> Response:
    """Return figures for Prometheus.

    From the server's own machine no token is needed, unless it has a public address; otherwise one of any role is.
    """
    frame = frame_of(request)
    if not _is_local(request, frame.settings):
        caller_of_token(request, credentials)
    metrics = request.app.state.metrics
    assert isinstance(metrics, Metrics)
    return Response(metrics.text(), media_type="text/plain; version=1.0.0; charset=utf-8")


def _is_local(request: Request, settings: ServerSettings) -> bool:
    """Return whether a request comes from the server's own machine, and surely not through a proxy."""
    return not settings.url and request.client is not None and is_loopback(request.client.host)
