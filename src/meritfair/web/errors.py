"""Errors as answers: a problem (RFC 9457) for programs, a page or a message for people.

What a user did wrong is told in words, as on the command line; what we did wrong is told without details, which are in
the log.
"""

from __future__ import annotations

import logging
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse
from fastapi.routing import APIRoute, iter_route_contexts
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.responses import Response
from starlette.routing import compile_path

from meritfair.core.errors import NO_SPACE, BusyError, InputError, MeritfairError
from meritfair.core.language import _
from meritfair.programme.programme import HeadMovedError, KeyConflictError
from meritfair.programme.storage.store_errors import StoreError
from meritfair.web.access import COOKIE, SignInNeededError, is_api
from meritfair.web.frame import frame_of
from meritfair.web.middleware import HEADERS
from meritfair.web.quota import RETRY_SECONDS, QuotaError
from meritfair.web.rendering import path, render


class MissingError(InputError):
    """Something that is asked for by its address is not there."""


class BodyError(InputError):
    """A row of a body cannot be used; errors of the core know nothing of bodies."""

    def __init__(
        self,
        problem: str,
        *,
        where: tuple[str | int, ...] = (),
        line: int | None = None,
        column: str | None = None,
    ) -> None:
        place = [f"line {line}"] * (line is not None) + [f"column {column}"] * (column is not None)
        super().__init__(f"{', '.join(place)}: {problem}" if place else problem)
        said: dict[str, Any] = {"problem": problem, "where": [*where]}
        self.errors = [said | {"line": line, "column": column}]


PROBLEM = "application/problem+json"
_STATUS: dict[type[MeritfairError], int] = {
    KeyConflictError: 409,
    HeadMovedError: 412,
    MissingError: 404,
    QuotaError: 429,
}
_MOST = 20  # things that are wrong with one request, of which an answer tells
_log = logging.getLogger("meritfair.web")


def answer_errors(app: FastAPI) -> None:
    """Say how errors are answered."""
    app.add_exception_handler(SignInNeededError, _sign_in)
    app.add_exception_handler(MeritfairError, _mistake)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(StarletteHTTPException, _refused)
    app.add_exception_handler(OSError, _no_space)
    app.add_exception_handler(Exception, _failed)


def problem(status: int, detail: str, headers: dict[str, str] | None = None, **more: Any) -> JSONResponse:
    """Return a problem for a program."""
    said = {"type": "about:blank", "title": HTTPStatus(status).phrase, "status": status, "detail": detail, **more}
    return JSONResponse(said, status, headers, PROBLEM)


def status_of(error: MeritfairError) -> int:
    """Return the status that stands for an error of the core."""
    for kind, status in _STATUS.items():
        if isinstance(error, kind):
            return status
    return 503 if isinstance(error, (StoreError, BusyError)) else 422


def _for_programs(request: Request) -> bool:
    return is_api(request) or request.url.path in ("/healthz", "/readyz", "/metrics")


def _sign_in(request: Request, _error: Exception) -> Response:
    if _for_programs(request):
        said = "this token is not known, was revoked, or has expired"
        if not request.headers.get("authorization", "").lower().startswith("bearer "):
            said = "a token is needed: Authorization: Bearer TOKEN"
        return problem(401, said, {"WWW-Authenticate": "Bearer"})
    target = path("sign-in", next=request.url.path if request.method == "GET" else "")
    if request.headers.get("hx-request"):
        answer: Response = Response(status_code=204, headers={"HX-Redirect": target})
    else:
        answer = RedirectResponse(target, 303)
    if COOKIE in request.cookies:  # of a session that has ended
        answer.delete_cookie(COOKIE, httponly=True, samesite="lax", secure=frame_of(request).settings.secure)
    return answer


def _mistake(request: Request, error: Exception) -> Response:
    assert isinstance(error, MeritfairError)
    if isinstance(error, BodyError) and is_api(request):
        return problem(422, str(error), errors=error.errors)
    if isinstance(error, KeyConflictError) and is_api(request):
        return problem(409, "this Idempotency-Key was used before, for another request")
    headers = None
    if isinstance(error, BusyError | QuotaError):
        headers = {"Retry-After": str(error.seconds if isinstance(error, BusyError) else RETRY_SECONDS)}
    return _answer(request, status_of(error), frame_of(request).store.hide(str(error)), headers)


def _no_space(request: Request, error: Exception) -> Response:
    """Answer that a disk is full, on which files are kept for a while; any other error of the system is our mistake."""
    if not isinstance(error, OSError) or error.errno not in NO_SPACE:
        raise error
    _log.warning("a request was refused: there is no space left for files that are kept for a while")
    return _answer(request, 507, _("There is no space left on the server; nothing was saved. Try again later."))


def _failed(request: Request, _error: Exception) -> Response:
    """Answer what should never happen; only the log has more, where whoever runs the application writes it."""
    said = _("Something went wrong on the server. Its log says more.")
    return _answer(request, 500, said, HEADERS)  # which are not added to it by the middleware


def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, (HTTPException, StarletteHTTPException))
    headers = dict(error.headers or {})
    if error.status_code == 405:
        headers["Allow"] = ", ".join(_allowed(request))
    return _answer(request, error.status_code, _detail(request, error), headers)


def _detail(request: Request, error: StarletteHTTPException) -> str:
    """Return what a refusal says; where it says no more than its status, people are told in their language."""
    if _for_programs(request) or error.detail != HTTPStatus(error.status_code).phrase:
        return str(error.detail)
    return _("There is no such page.") if error.status_code == 404 else _("This cannot be done here.")


def _allowed(request: Request) -> list[str]:
    """Return the methods of a path: all of them, and not only those of the first route that has it."""
    there = [each for each in iter_route_contexts(request.app.routes) if isinstance(each.route, APIRoute)]
    fits = [each for each in there if compile_path(each.path or "")[0].match(request.url.path)]
    fewest = min(((each.path or "").count("{") for each in fits), default=0)  # the route that is meant
    return sorted({name for each in fits if (each.path or "").count("{") == fewest for name in each.methods or ()})


def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    errors = [{"where": list(each["loc"]), "problem": each["msg"]} for each in error.errors()[:_MOST]]
    detail = "; ".join(f"{'.'.join(map(str, each['where']))}: {each['problem']}" for each in errors)
    if is_api(request):
        return problem(422, detail, errors=errors)
    return _answer(request, 422, detail)


def _answer(request: Request, status: int, detail: str, headers: dict[str, str] | None = None) -> Response:
    if _for_programs(request):
        return problem(status, detail, headers)
    short = bool(request.headers.get("hx-request"))
    template = "parts/message.html" if short else "error.html"
    titles = {403: _("Not allowed"), 404: _("Not found"), 409: _("Done before"), 429: _("Not now")}
    values = {"status": status, "title": titles.get(status, _("That did not work")), "detail": detail}
    sent = {**(headers or {}), **({"HX-Retarget": "#message", "HX-Reswap": "innerHTML"} if short else {})}
    return HTMLResponse(render(template, **values), status, sent)
