"""The HTTP API, version 1: what the command line can do, for programs."""

from __future__ import annotations

from fastapi import FastAPI, Request
from starlette.responses import Response

from meritfair.web.api import health, jobs, ledger, metrics, participants, programmes, rounds
from meritfair.web.api.dependencies import NotModifiedError
from meritfair.web.api.openapi import describe
from meritfair.web.frame import Frame

ROUTERS = tuple(module.router for module in (programmes, participants, rounds, jobs, ledger, health, metrics))


def install(app: FastAPI) -> None:
    """Add all routes of the API."""
    frame = app.state.frame
    assert isinstance(frame, Frame)
    for router in ROUTERS:
        app.include_router(router)
    app.add_exception_handler(NotModifiedError, _not_modified)
    app.state.metrics = metrics.Metrics(frame.settings, frame.reader)
    describe(app, ROUTERS)


def _not_modified(_: Request, error: Exception) -> Response:
    assert isinstance(error, NotModifiedError)
    return Response(status_code=304, headers=error.headers)
