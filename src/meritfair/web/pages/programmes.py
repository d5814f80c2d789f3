"""The programmes of a server, and a new one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Form
from starlette.responses import Response

from meritfair.core.errors import InputError
from meritfair.core.language import _
from meritfair.core.texts import quoted
from meritfair.model.rules import Rules
from meritfair.programme.settings import FLOOR
from meritfair.programme.status import Status
from meritfair.programme.storage.names import check_name
from meritfair.programme.users import Role
from meritfair.web.access import AdminOfAll, Here, Someone
from meritfair.web.pages.forms import Text
from meritfair.web.pages.responses import go
from meritfair.web.rendering import page

router = APIRouter()


@dataclass(frozen=True)
class ProgrammeCard:
    """A programme in the list: how it stands, and what is to be done."""

    status: Status
    role: Role


@router.get("/")
def start(here: Someone) -> Response:
    """Lead to the programme, if there is one only; otherwise to all of them."""
    names = _names(here)
    return go(here, "p", names[0]) if len(names) == 1 else go(here, "programmes")


@router.get("/programmes")
def show_programmes(here: Someone) -> Response:
    """Show all programmes that the caller may see."""
    roles = {name: here.caller.role_in(name) for name in _names(here)}
    cards = [
        ProgrammeCard(here.frame.reader.look(name).status, role) for name, role in roles.items() if role is not None
    ]
    return page(here, "programmes.html", cards=cards)


def _names(here: Here) -> list[str]:
    return [name for name in here.frame.reader.names() if here.caller.role_in(name) is not None]


@router.get("/new")
def ask_for_programme(here: AdminOfAll) -> Response:
    """Ask for the settings of a new programme."""
    return page(here, "new_programme.html", floor=FLOOR)


@router.post("/new")
def create_programme(
    here: AdminOfAll,
    name: Text,
    budget: Annotated[int, Form(ge=1)] = 1,
    floor: Annotated[float, Form(ge=0, le=1)] = FLOOR,
    cooldown: Annotated[int, Form(ge=0)] = 0,
    features: Text = "",
    pseudonymise: Annotated[bool, Form()] = False,
    source: Text = "",
) -> Response:
    """Create a programme."""
    try:
        called = check_name(name)
    except InputError:
        said = _("a programme needs a name of 1 to 100 characters without '/', got {name}")
        raise InputError(said.format(name=quoted(name))) from None
    known = [each.strip() for each in features.split(",") if each.strip()]
    made = here.frame.reader.programme(called)
    settings: dict[str, Any] = {"floor": floor, "rules": Rules(cooldown=cooldown), "features": known, "source": source}
    made.create(budget, **settings, pseudonymise=pseudonymise, by=here.by)
    return go(here, "p", called, "round", did="created")
