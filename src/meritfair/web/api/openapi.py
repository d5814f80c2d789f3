"""The description of the API (OpenAPI 3.1): what FastAPI makes of the routes, and what it cannot know.

Dependencies say what a route needs (`meritfair.web.access.NeedsRole`), what it reads (`ReadsBody`), and how its answers
may be kept, so the description follows from the code: the role of each operation is in ``x-role``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi.dependencies.models import Dependant
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from pydantic.json_schema import models_json_schema

from meritfair.web.access import NeedsRole, NeedsSignIn
from meritfair.web.api.bodies import CSV, JSON, ReadsBody
from meritfair.web.api.dependencies import Creating, Reads, Writes
from meritfair.web.errors import PROBLEM

_REF = {"$ref": "#/components/schemas/Problem"}
_WORDS = {
    400: "The request cannot be read.",
    401: "No token, or one that is not known.",
    403: "Your role is too low.",
    404: "There is no such thing, or you have no role in the programme.",
    409: "The key was used before, for another request.",
    412: "Something was entered since the head in `If-Match`.",
    413: "The body is too large.",
    415: "The body is of another media type.",
    422: "Something in the request cannot be used; `errors` says what and where.",
    429: "Too many wrong tokens, or too much long work at once; wait for `Retry-After` seconds.",
    503: "The database cannot be used now, or much is being worked out for others; wait for `Retry-After` seconds.",
    507: "There is no space left on the server; nothing was saved.",
}
_ETAG = {
    "ETag": {"description": "Stands for this answer; it begins with the head.", "schema": {"type": "string"}},
}
_TEXT = (
    "Who is called this round, and the proof that the draw was fair.\n\n"
    "Every request carries `Authorization: Bearer TOKEN`. Writes may carry an `Idempotency-Key`, so that they can be "
    "sent again, and `If-Match`, so that they are refused if anything has been entered meanwhile. Participants are "
    "addressed by their number in the ledger: ids are personal data and do not belong into addresses. Errors are "
    "`application/problem+json` (RFC 9457). `x-role` is the least role that an operation needs."
)


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return how errors with these statuses are described."""
    return {each: {"description": _WORDS[each], "content": {PROBLEM: {"schema": _REF}}} for each in statuses}


def describe(app: FastAPI, routers: Iterable[APIRouter]) -> None:
    """Let the application describe its API."""
    routes = [route for router in routers for route in router.routes if isinstance(route, APIRoute)]

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _description(app, routes)
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]


def _description(app: FastAPI, routes: list[APIRoute]) -> dict[str, Any]:
    made = get_openapi(title=app.title, version=app.version, description=_TEXT, routes=routes)
    schemas = made["components"]["schemas"]
    schemas |= _schemas(routes)
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    for route in routes:
        for method in route.methods or ():
            operation = made["paths"][route.path_format][method.lower()]
            _complete(operation, list(dependencies_of(route)))
    return made


def dependencies_of(route: APIRoute) -> Iterator[Any]:
    """Yield the dependencies of a route: the objects that are called."""

    def of(dependant: Dependant) -> Iterator[Any]:
        for each in dependant.dependencies:
            yield each.call
            yield from of(each)

    yield from of(route.dependant)


def _schemas(routes: list[APIRoute]) -> dict[str, Any]:
    """Return the schemas of all bodies, and of problems."""
    from meritfair.web.api.response_models import Problem

    models = {each.model for route in routes for each in dependencies_of(route) if isinstance(each, ReadsBody)}
    wanted: list[Any] = [(model, "validation") for model in sorted(models, key=lambda each: each.__name__)]
    _, made = models_json_schema([*wanted, (Problem, "serialization")], ref_template="#/components/schemas/{model}")
    return dict(made["$defs"])


def _complete(operation: dict[str, Any], needed: list[Any]) -> None:
    """Add to an operation what its dependencies say."""
    answers = operation["responses"]
    statuses = set[int]()
    for each in needed:
        if isinstance(each, (NeedsRole, NeedsSignIn)):
            operation["x-role"] = "" if each.role is None else each.role.word
            operation["x-programme"] = isinstance(each, NeedsRole)
            statuses |= {401, 422, 429, 503} | ({404, 403} if isinstance(each, NeedsRole) else set())
            statuses |= {403} if each.role is not None else set()
        if isinstance(each, (Writes, Creating)):
            statuses |= {409, 412} if isinstance(each, Writes) else {409}
        if isinstance(each, Reads):
            answers["304"] = {"description": "Nothing has changed.", "headers": _ETAG}
            answers["200"].setdefault("headers", {}).update(_ETAG)
        if isinstance(each, ReadsBody):
            operation["requestBody"] = _body(each)
            statuses |= {413, 415, 422, 507}
    answers.pop("422", None)
    for status, said in problems(*sorted(statuses)).items():
        answers.setdefault(str(status), said)


def _body(reads: ReadsBody) -> dict[str, Any]:
    content: dict[str, Any] = {JSON: {"schema": {"$ref": f"#/components/schemas/{reads.model.__name__}"}}}
    if reads.csv:
        content[CSV] = {"schema": {"type": "string"}, "example": reads.csv}
    return {"required": not reads.optional, "content": content}
