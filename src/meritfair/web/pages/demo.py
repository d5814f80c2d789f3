"""The simulated clinic: a page while it is set up, and its rounds by the push of a button."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, HTTPException
from starlette.responses import Response

from meritfair.core.language import _
from meritfair.programme import live_demo
from meritfair.programme.programme import Programme
from meritfair.web.access import Here, signed_in
from meritfair.web.frame import Frame
from meritfair.web.pages.answers import go
from meritfair.web.pages.rounds import Coordinator
from meritfair.web.rendering import page, part

router = APIRouter()


def weeks_made(frame: Frame) -> int:
    """Return how many weeks of the clinic are made so far."""
    if live_demo.NAME not in frame.reader.names():
        return 0
    return min(Programme(frame.store, live_demo.NAME).status().round, live_demo.WEEKS)


def is_set_up(frame: Frame) -> bool:
    """Return whether the clinic is there for the visitor."""
    names = frame.reader.names()
    return live_demo.NAME in names and live_demo.is_ready(Programme(frame.store, live_demo.NAME).status())


def show_setting_up(here: Here) -> Response:
    """Show how far the clinic is set up; the page follows by itself."""
    return page(here, "setting_up.html", done=weeks_made(here.frame), total=live_demo.WEEKS)


@router.get("/setting-up")
def follow_setting_up(here: Annotated[Here, signed_in()]) -> Response:
    """Show how far the clinic is, and lead to it when it is there."""
    if not here.frame.settings.demo or is_set_up(here.frame):
        return go(here)
    return part(here, "parts/setting_up.html", done=weeks_made(here.frame), total=live_demo.WEEKS)


@router.post("/p/{programme}/demo")
def play(here: Coordinator, rounds: Annotated[int, Form(ge=1, le=20)] = 1) -> Response:
    """Play rounds of the simulated clinic."""
    if not here.frame.settings.demo or here.name != live_demo.NAME:
        raise HTTPException(404, _("Only the simulated clinic can be played."))
    played = live_demo.play(here.programme, rounds)
    return go(here, "p", here.name, "round", did="played" if played else "drawn", n=played)
