"""Whether the server is alive, and whether it can be asked: for whoever watches over it, without a token."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request

from meritfair.programme.storage.store_errors import StoreError
from meritfair.web.api.openapi import problems
from meritfair.web.api.response_models import HealthOut
from meritfair.web.errors import problem
from meritfair.web.frame import frame_of

router = APIRouter(tags=["operations"])


@router.get("/healthz", operation_id="get_health", summary="Whether the process is alive")
async def get_health() -> HealthOut:
    """Return that the process answers; nothing else is looked at."""
    return HealthOut(status="ok")


@router.get(
    "/readyz",
    operation_id="get_readiness",
    summary="Whether requests can be answered",
    response_model=HealthOut,
    responses=problems(503),
)
def get_readiness(request: Request) -> Any:
    """Return whether the database can be reached and its schema is the one that this version knows."""
    try:
        current = frame_of(request).store.is_current()
    except StoreError:
        current = False
    return HealthOut(status="ok") if current else problem(503, "the database cannot be used now")
