"""Pages that need long work: what is there of it is shown at once, the rest with its progress."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, HTTPException
from starlette.responses import Response

from meritfair.core.language import _, current
from meritfair.programme.users import Role
from meritfair.web.access import Here, Viewer
from meritfair.web.job_download import file_response
from meritfair.web.job_kinds import ROLES
from meritfair.web.job_table import Job
from meritfair.web.pages.responses import is_htmx
from meritfair.web.pages.whatif import whatif_chart
from meritfair.web.quota import QuotaError
from meritfair.web.rendering import part

router = APIRouter()
_SMALL = 4000  # people times rounds of which a report is made in a blink
_FRESH = 60.0  # seconds for which a result is shown although there are newer entries, unless someone asks for them


@dataclass(frozen=True)
class LatestResult:
    """How long work stands, for a page.

    Attributes
    ----------
    job : Job or None
        What was asked, as far as it is; None if there is no room for it now.
    found : Job or None
        The newest result that there is.
    behind : int
        How many entries the ledger has beyond those that it is about.
    busy : str
        Why there is no room.
    """

    job: Job | None
    found: Job | None
    behind: int
    busy: str = ""

    @property
    def result(self) -> dict[str, Any] | None:
        """The values of the newest result."""
        return None if self.found is None else self.found.result

    def words(self) -> dict[str, list[str]]:
        """Return the sentences of a report in the reader's language."""
        words = (self.result or {}).get("words", {})
        return dict(words.get(current().code) or words["en"])


def work_of(here: Here, kind: str, arguments: dict[str, Any] | None = None) -> LatestResult:
    """Return what there is of something that takes long, and have the rest worked out."""
    look, jobs = here.look(), here.frame.jobs
    people = look.status.enrolled + look.status.left
    now = kind == "report" and people * look.status.round <= _SMALL
    found = jobs.latest(kind, here.name, arguments)
    recent = found is not None and time.time() - found.ended < _FRESH and "fresh" not in here.request.query_params
    job, busy = found, ""
    if found is None or (found.head != look.head and (now or not recent)):
        try:
            job = jobs.ask(kind, here.name, arguments, by=here.by, now=now)
        except QuotaError as error:
            job, busy = None, str(error)
    found = job if job is not None and job.state == "done" else found
    return LatestResult(job, found, 0 if found is None else max(0, look.entries - found.entries), busy)


@router.get("/p/{programme}/jobs/{job}")
def show_job(here: Viewer, job: str, stale: bool = False) -> Response:
    """Show how far a job is or, once it is done, what came of it."""
    found = _job(here, job)
    shown = part(here, "parts/job.html", job=found, stale=stale, whatif_chart=whatif_chart)
    if found.state == "done" and found.kind in ("report", "learning", "preview") and not stale and is_htmx(here):
        shown.headers["HX-Refresh"] = "true"
    return shown


@router.get("/p/{programme}/jobs/{job}/file")
def download(here: Viewer, job: str) -> Response:
    """Hand out the file that a job has made."""
    found = _job(here, job)
    if found.state != "done" or not found.file:
        raise HTTPException(404, _("there is no such file, or it was deleted: have it made again"))
    if found.kind == "report" and not here.may(Role.AUDITOR):
        raise HTTPException(403, _("this needs the role auditor: it has a row for everyone"))
    return file_response(here, found, f"{here.name}-{found.file}")


@router.post("/p/{programme}/jobs/{job}/again")
def again(here: Viewer, job: str) -> Response:
    """Try once more what has failed or was cancelled."""
    found = _job(here, job)
    made = here.frame.jobs.ask(found.kind, here.name, found.arguments, by=here.by, again=True)
    return part(here, "parts/job.html", job=made, stale=False, whatif_chart=whatif_chart)


@router.post("/p/{programme}/jobs/{job}/cancel")
def cancel(here: Viewer, job: str) -> Response:
    """Cancel what one has asked for, or as an admin what anyone has."""
    found, by = _job(here, job), None if here.may(Role.ADMIN) else here.by
    if not found.may_be_cancelled(by):
        raise HTTPException(403, _("only those who have asked for this, and admins, can cancel it"))
    left = here.frame.jobs.cancel(found, by)
    return part(here, "parts/job.html", job=left, stale=False, whatif_chart=whatif_chart)


def _job(here: Here, id_: str) -> Job:
    """Return a job of this programme, if the caller may see what comes of it."""
    found = here.frame.jobs.get(id_)
    if found is None or found.programme != here.name or not here.may(ROLES[found.kind]):
        raise HTTPException(404, _("there is no such job, or it was deleted: reload the page"))
    return found
