"""The pages: each module has the routes of one subject."""

from __future__ import annotations

from fastapi import APIRouter, Depends, FastAPI

from meritfair.web.access import check_csrf

MODULES: tuple[APIRouter, ...] = ()


def install(app: FastAPI) -> None:
    """Add all pages; whatever changes something needs the token of the session."""
    for router in MODULES:
        app.include_router(router, dependencies=[Depends(check_csrf)], include_in_schema=False)
