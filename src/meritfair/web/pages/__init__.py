"""The pages: each module has the routes of one subject."""

from __future__ import annotations

from fastapi import APIRouter, Depends, FastAPI

from meritfair.web.access import check_csrf
from meritfair.web.pages import (
    demo,
    fairness,
    jobs,
    learning,
    ledger,
    me,
    people,
    person,
    programmes,
    rounds,
    settings,
    sign_in,
    uploads,
    users,
)

MODULES: tuple[APIRouter, ...] = (
    me.router,
    users.router,
    programmes.router,
    uploads.router,  # before those with a number in the same place
    rounds.router,
    people.router,
    person.router,
    fairness.router,
    learning.router,
    ledger.router,
    settings.router,
    jobs.router,
    demo.router,
)


def install(app: FastAPI) -> None:
    """Add all pages; whatever changes something needs the token of the session."""
    app.include_router(sign_in.router, include_in_schema=False)  # which is for those who have no session yet
    for router in MODULES:
        app.include_router(router, dependencies=[Depends(check_csrf)], include_in_schema=False)
