"""The server's application: the API, the pages, and what stands around both."""

from __future__ import annotations

from fastapi import FastAPI
from starlette.middleware.trustedhost import TrustedHostMiddleware

import meritfair
from meritfair.web import api, pages
from meritfair.web.access import is_known
from meritfair.web.api.metrics import RequestCounter
from meritfair.web.errors import answer_errors
from meritfair.web.frame import Frame
from meritfair.web.language import ReaderLanguage
from meritfair.web.middleware import BodyBounds, BodyLimit, SecurityHeaders
from meritfair.web.preparing import preparing
from meritfair.web.rendering import STATIC
from meritfair.web.settings import ServerSettings
from meritfair.web.static_files import StaticFiles

DESCRIPTION = "Who is called this round, and the proof that the draw was fair."


def create_app(settings: ServerSettings) -> FastAPI:
    """Return the application of one worker."""
    app = FastAPI(
        title="meritfair",
        version=meritfair.__version__,
        description=DESCRIPTION,
        openapi_url="/api/v1/openapi.json",
        docs_url=None,  # the usual pages load scripts from elsewhere
        redoc_url=None,
        lifespan=preparing,
    )
    app.state.frame = Frame.of(settings)
    api.install(app)
    pages.install(app)
    app.mount("/static", StaticFiles(directory=STATIC), name="static")
    answer_errors(app)
    app.add_middleware(BodyLimit, bounds=BodyBounds(most=settings.max_body), known=is_known)
    app.add_middleware(ReaderLanguage)
    app.add_middleware(SecurityHeaders, secure=settings.secure)
    hosts = [f"[{host}]" if ":" in host else host for host in settings.hosts]
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=hosts, www_redirect=False)
    app.add_middleware(RequestCounter, metrics=app.state.metrics)  # around all others: it sees every answer
    return app
