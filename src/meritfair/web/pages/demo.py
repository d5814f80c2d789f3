"""The simulated clinic: its rounds by the push of a button."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, HTTPException
from starlette.responses import Response

from meritfair.core.language import _
from meritfair.programme import live_demo
from meritfair.web.access import Coordinator
from meritfair.web.pages.responses import go

router = APIRouter()


@router.post("/p/{programme}/demo")
def play(here: Coordinator, rounds: Annotated[int, Form(ge=1, le=20)] = 1) -> Response:
    """Play rounds of the simulated clinic."""
    if not here.frame.settings.demo or here.name != live_demo.NAME:
        raise HTTPException(404, _("Only the simulated clinic can be played."))
    played = live_demo.play(here.programme, rounds)
    return go(here, "p", here.name, "round", did="played" if played else "drawn", n=played)
