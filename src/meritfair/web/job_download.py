"""The file that long work has made, as an answer to a request."""

from __future__ import annotations

from urllib.parse import quote

from starlette.responses import StreamingResponse

from meritfair.web.access import Here
from meritfair.web.job_table import Job


def file_response(here: Here, job: Job, name: str) -> StreamingResponse:
    """Return the file of a job under a name, part by part: none of it has to fit into memory or on this disk."""
    size, parts = here.frame.jobs.file(job)
    shown = f"attachment; filename*=UTF-8''{quote(name)}" if quote(name) != name else f'attachment; filename="{name}"'
    return StreamingResponse(
        parts, media_type=job.media_type, headers={"Content-Disposition": shown, "Content-Length": str(size)}
    )
