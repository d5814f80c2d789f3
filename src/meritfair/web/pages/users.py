"""Users for admins of all programmes: who may do what, their tokens, and what was changed about them.

Users are named in forms, never in addresses: those are kept in logs.
"""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Form
from fastapi.responses import HTMLResponse, RedirectResponse
from starlette.responses import Response

from meritfair.core.errors import InputError
from meritfair.core.language import _
from meritfair.programme.user_rows import LINK_HOURS
from meritfair.programme.users import EVERYWHERE, LogLine, Role
from meritfair.web.access import AdminOfAll, Here, role_word
from meritfair.web.pages.me import days_of
from meritfair.web.rendering import page

router = APIRouter()
Name = Annotated[str, Form()]
_SHOWN = 200  # lines of the log


@router.get("/users")
def show_users(here: AdminOfAll) -> HTMLResponse:
    """Show all users."""
    return _page(here)


@router.post("/users/add")
def add_user(
    here: AdminOfAll,
    name: Name = "",
    role: Annotated[int, Form()] = int(Role.COORDINATOR),
    programme: Annotated[str, Form()] = EVERYWHERE,
) -> Response:
    """Add a user, and show the link with which they sign in first."""
    try:
        here.frame.users.add(name, {programme: Role(role)}, by=here.by)
    except ValueError as error:
        return _page(here, str(error), 422)
    return make_link(here, name)


@router.post("/users/role")
def set_role(
    here: AdminOfAll,
    name: Name,
    role: Annotated[int, Form()] = 0,
    programme: Annotated[str, Form()] = EVERYWHERE,
) -> Response:
    """Give a user a role in a programme; 0 takes it away."""
    try:
        here.frame.users.set_role(name, programme, Role(role) if role else None, by=here.by)
    except ValueError as error:
        return _page(here, str(error), 422)
    return RedirectResponse("/users", 303)


@router.post("/users/disable")
def disable_user(here: AdminOfAll, name: Name) -> Response:
    """Keep a user out."""
    try:
        here.frame.users.disable(name, by=here.by)
    except InputError as error:
        return _page(here, str(error), 422)
    return RedirectResponse("/users", 303)


@router.post("/users/enable")
def enable_user(here: AdminOfAll, name: Name) -> Response:
    """Let a user in again."""
    here.frame.users.enable(name, by=here.by)
    return RedirectResponse("/users", 303)


@router.post("/users/link")
def make_link(here: AdminOfAll, name: Name) -> Response:
    """Make a one-time link of a user, and show it once."""
    try:
        token = here.frame.users.link(name, by=here.by)
    except InputError as error:
        return _page(here, str(error), 422)
    link = here.frame.settings.sign_in_link(token)
    return _page(here, link=link, link_name=here.frame.users.get(name).name, hours=LINK_HOURS)


@router.post("/users/tokens")
def make_token(
    here: AdminOfAll,
    name: Name,
    label: Annotated[str, Form()] = "",
    role: Annotated[int, Form()] = 0,
    programme: Annotated[str, Form()] = "",
    days: Annotated[str, Form()] = "",
) -> Response:
    """Make an API token of a user, and show it once."""
    try:
        limit = Role(role) if role else None
        made, token = here.frame.users.new_token(
            name, label, by=here.by, role=limit, programme=programme, days=days_of(days)
        )
    except ValueError as error:
        return _page(here, str(error), 422)
    return _page(here, made=made, token=token)


@router.post("/users/tokens/revoke")
def revoke_token(here: AdminOfAll, token: Annotated[int, Form()]) -> Response:
    """Revoke an API token."""
    here.frame.users.revoke(token, by=here.by)
    return RedirectResponse("/users#tokens", 303)


def _page(here: Here, problem: str = "", status: int = 200, **made: Any) -> HTMLResponse:
    users = here.frame.users
    values: dict[str, Any] = {
        "problem": problem,
        "users": users.all(),
        "tokens": users.tokens(),
        "programmes": here.frame.reader.names(),
        "log": [(line, in_words(line)) for line in users.log()[:_SHOWN]],
        "link": "",
        "link_name": "",
        "hours": 0,
        "made": None,
        "token": "",
    }
    return page(here, "users.html", status=status, **values | made)


def in_words(line: LogLine) -> str:
    """Return what was done about a user, as people say it."""
    sentences = {
        "add": _("{user} added: {detail}"),
        "role": _("{user}: {detail}"),
        "disable": _("{user} disabled"),
        "enable": _("{user} enabled"),
        "password": _("new password of {user}"),
        "link": _("one-time link made for {user}"),
        "link used": _("{user} signed in by link"),
        "token": _("token made for {user}: {detail}"),
        "revoke": _("token of {user} revoked: {detail}"),
    }
    detail = _roles_in_words(line.detail) if line.kind in ("add", "role") else line.detail
    return sentences[line.kind].format(user=line.about, detail=detail)


def _roles_in_words(detail: str) -> str:
    """Return roles as the log has them, such as ``viewer in *, admin in clinic``, in the reader's language."""
    words = {"none": _("no role"), **{role.word: role_word(role) for role in Role}}
    said = []
    for part in detail.split(", "):
        word, found, programme = part.partition(" in ")
        if not found or word not in words:
            return detail or words["none"]
        where = _("all programmes") if programme == EVERYWHERE else programme
        said.append(_("{role} in {programme}").format(role=words[word], programme=where))
    return ", ".join(said)
