"""Long work: the audit, the effect, verifications, exports and what-ifs.

Each is worked out once for each head of the ledger, in a process of its own. If it is not there yet, the answer is 202
with the address of the job in ``Location``; asking again after ``Retry-After`` seconds gives the result. A user has few
jobs at a time: 429 says that there are enough, and one of one's own can be cancelled.
"""

from __future__ import annotations

import time
from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Path, Response
from fastapi.responses import JSONResponse

from meritfair.core.errors import MeritfairError
from meritfair.core.json_values import finite
from meritfair.core.language import current
from meritfair.programme.users import Role
from meritfair.web.access import Auditor, Here, Viewer
from meritfair.web.api.bodies import body
from meritfair.web.api.openapi import problems
from meritfair.web.api.request_models import Heads, WhatIfIn
from meritfair.web.api.response_models import AuditOut, EffectOut, JobOut
from meritfair.web.errors import MissingError
from meritfair.web.job_download import file_response
from meritfair.web.job_kinds import ROLES
from meritfair.web.job_table import MEDIA_TYPES, Job
from meritfair.web.rendering import path

router = APIRouter(prefix="/api/v1/programmes/{programme}", tags=["long work"])

JobId = Annotated[str, Path(pattern="^[0-9a-f]{1,64}$", description="As `Location` says.")]
_RETRY = "1"  # seconds
_FORGIVEN = 60.0  # seconds after which what has failed is begun anew by whoever asks: a disk is no longer full
_LATER: dict[int | str, dict[str, Any]] = {
    202: {
        "model": JobOut,
        "description": "It is being worked out; ask again.",
        "headers": {
            "Location": {"description": "The job.", "schema": {"type": "string"}},
            "Retry-After": {"description": "Seconds.", "schema": {"type": "string"}},
        },
    }
}


class FailedError(MeritfairError):
    """Long work could not be done."""


@router.get("/audit", operation_id="audit", summary="Audit", response_model=AuditOut, responses=_LATER)
def audit(here: Viewer) -> Any:
    """Return for a board whether the programme was fair: due, given, drawn and reached, accounts, waits, effect.

    Viewers are told sums only; auditors also which waits were the least likely, and whom absences favoured, by number.
    """
    job = _ask(here, "report")
    return _answer(here, job) if job.result is None else _result(here, job)


@router.get("/effect", operation_id="effect", summary="Effect", response_model=EffectOut, responses=_LATER)
def effect(here: Viewer) -> Any:
    """Return whether being drawn helps, with its interval, and what was learned of benefits."""
    job = _ask(here, "report")
    if job.result is None:
        return _answer(here, job)
    found = _result(here, job)
    return {name: found[name] for name in ("head", "effect", "no_effect", "learned", "missing")}


@router.post(
    "/verifications", operation_id="verify", summary="Verify the ledger", response_model=JobOut, responses=_LATER
)
def verify(here: Auditor, given: Annotated[Heads, body(Heads, optional=True)]) -> Any:
    """Check the whole ledger: its chain, every draw, and that exposures follow from what was recorded."""
    return _answer(here, _ask(here, "verify", {"heads": given.heads}))


@router.post("/exports", operation_id="export", summary="Export the ledger", response_model=JobOut, responses=_LATER)
def export(here: Auditor) -> Any:
    """Make an anonymous export, with which anyone can check the ledger and nobody can tell who is who.

    Exports with ids and the secret are for the command line on the server.
    """
    return _answer(here, _ask(here, "export"))


@router.post("/whatif", operation_id="what_if", summary="What if", response_model=JobOut, responses=_LATER)
def what_if(here: Viewer, given: Annotated[WhatIfIn, body(WhatIfIn)]) -> Any:
    """Return what other budgets would do in the next rounds, for people like those that are enrolled."""
    return _answer(here, _ask(here, "whatif", given.model_dump()))


@router.get("/jobs/{job}", operation_id="get_job", summary="How far long work is", response_model=JobOut)
def get_job(here: Viewer, job: JobId) -> Any:
    """Return how far long work is and, when it is done, its result."""
    return _shown(here, _find(here, job))


@router.post(
    "/jobs/{job}/cancel",
    operation_id="cancel_job",
    summary="Cancel long work",
    response_model=JobOut,
    responses={409: {**problems(409)[409], "description": "It is over."}},
)
def cancel_job(here: Viewer, job: JobId) -> Any:
    """Cancel long work that you have asked for; it goes on if others have asked for it, too.

    Admins cancel it for all. What is over cannot be cancelled (409).
    """
    found = _find(here, job)
    by = None if here.may(Role.ADMIN) else here.by
    if not found.may_be_cancelled(by):
        raise HTTPException(403, "only those who have asked for it, and admins, can cancel it")
    if found.is_over:
        raise HTTPException(409, f"it is {found.state}, so it cannot be cancelled")
    return _shown(here, here.frame.jobs.cancel(found, by))


@router.get(
    "/jobs/{job}/file",
    operation_id="get_job_file",
    summary="The file that long work has made",
    response_class=Response,
    responses={
        200: {"content": {kind: {"schema": {"type": "string", "format": "binary"}} for kind in MEDIA_TYPES.values()}}
    },
)
def get_job_file(here: Auditor, job: JobId) -> Response:
    """Return the file that was made.

    Of an export it is a zip with the ledger and a verifier of its own, of an audit a table of everyone, by number.
    """
    found = _find(here, job)
    if not found.file:
        raise MissingError("this job has no file, or not yet")
    return file_response(here, found, found.file)


def _ask(here: Here, kind: str, arguments: dict[str, Any] | None = None) -> Job:
    job = here.frame.jobs.ask(kind, here.name, arguments, by=here.by)
    if job.state == "cancelled" or (job.state == "failed" and time.time() - job.ended > _FORGIVEN):
        job = here.frame.jobs.ask(kind, here.name, arguments, by=here.by, again=True)
    if job.state == "failed":
        raise FailedError(job.error)
    return job


def _find(here: Here, id_: str) -> Job:
    found = here.frame.jobs.get(id_)
    if found is None or found.programme != here.name:
        raise MissingError("there is no such job, or its result is too old: ask for it again")
    needed = ROLES[found.kind]
    if not here.may(needed):
        raise HTTPException(403, f"this needs the role {needed.word}")
    return found


def _answer(here: Here, job: Job) -> JSONResponse:
    """Return a job: 200 if it is done, 202 if it is still under way."""
    place = path("api", "v1", "programmes", here.name, "jobs", job.id)
    shown = _shown(here, job)
    if job.state == "done":
        return JSONResponse(shown)
    return JSONResponse(shown, 202, {"Location": place, "Retry-After": _RETRY})


def _shown(here: Here, job: Job) -> dict[str, Any]:
    place = path("api", "v1", "programmes", here.name, "jobs", job.id, "file") if job.file else None
    names = ("id", "kind", "head", "state", "done", "total", "words", "error")
    result = None if job.result is None else _result(here, job)
    return {**{name: vars(job)[name] for name in names}, "result": result, "file": place}


def _without_people(steering: dict[str, Any]) -> dict[str, Any]:
    """Return whether draws could have been steered, without whom that is about."""
    findings = [{**each, "people": []} for each in steering["findings"]]
    return {**steering, "findings": findings, "gains": [], "losses": []}


def _result(here: Here, job: Job) -> dict[str, Any]:
    """Return what came of a job, without what is about single participants if the caller may not see that."""
    found: dict[str, Any] = finite(job.result)
    if job.kind == "report":
        found["words"] = found["words"].get(current().code, found["words"]["en"])
        found["verdict"] = " ".join(found["words"]["verdict"])
        if not here.may(Role.AUDITOR):
            found["waits"] = []  # each is that of one person
            found["improbable"] = {**found["improbable"], "people": []}
            found["steering"] = _without_people(found["steering"])
    return found
