"""One's own page: password, language, API tokens, and signing out."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Form, HTTPException
from fastapi.responses import HTMLResponse, RedirectResponse
from starlette.responses import Response

from meritfair.core.errors import InputError
from meritfair.core.language import _
from meritfair.programme.users import Role, Token
from meritfair.web.access import COOKIE, VISITOR, Here, Someone
from meritfair.web.pages.sign_in import with_session, without_session
from meritfair.web.rendering import page

router = APIRouter()
LONGEST_DAYS = 3650


@router.get("/me")
def show_me(here: Someone) -> HTMLResponse:
    """Show one's own page."""
    return _page(here)


@router.post("/me/password")
def change_password(
    here: Someone,
    password: Annotated[str, Form()] = "",
    again: Annotated[str, Form()] = "",
    current: Annotated[str, Form()] = "",
) -> Response:
    """Set one's password; all other sessions end."""
    _refuse_visitor(here)
    frame, name = here.frame, here.caller.name
    if password != again:
        return _page(here, _("The two passwords are not the same."), 422)
    if _needs_current(here):
        frame.limits.try_to_sign_in(here.request, name)
        if not frame.users.knows(name, current):
            return _page(here, _("The current password is not right."), 422)
        frame.limits.signed_in(here.request, name)
    try:
        frame.users.set_password(name, password, by=here.by)
    except InputError as error:
        return _page(here, str(error), 422)
    return with_session(RedirectResponse("/me?changed=1", 303), frame, frame.users.sign_in(name, password))


@router.post("/me/tokens")
def make_token(
    here: Someone,
    label: Annotated[str, Form()] = "",
    role: Annotated[int, Form()] = 0,
    days: Annotated[str, Form()] = "",
) -> HTMLResponse:
    """Make an API token of one's own, and show it once."""
    _refuse_visitor(here)
    try:
        made, token = here.frame.users.new_token(
            here.caller.name, label, by=here.by, role=Role(role) if role else None, days=days_of(days)
        )
    except ValueError as error:
        return _page(here, str(error), 422)
    return _page(here, made=made, token=token)


@router.post("/me/tokens/revoke")
def revoke_token(here: Someone, token: Annotated[int, Form()]) -> Response:
    """Revoke an API token of one's own."""
    if token not in [each.id for each in _tokens(here)]:
        raise HTTPException(404, _("there is no token {number}").format(number=token))
    here.frame.users.revoke(token, by=here.by)
    return RedirectResponse("/me#tokens", 303)


@router.post("/sign-out")
def sign_out(here: Someone) -> Response:
    """End the session."""
    here.frame.users.end_session(here.request.cookies.get(COOKIE, ""))
    return without_session(RedirectResponse("/sign-in", 303), here.frame)


def days_of(text: str) -> int | None:
    """Return for how many days a token is to serve; None if nothing was said."""
    if not text.strip():
        return None
    days = int(text) if text.strip().isdecimal() else 0
    if not 1 <= days <= LONGEST_DAYS:
        raise InputError(
            _("a token serves between 1 and {most} days, got {given}").format(most=LONGEST_DAYS, given=repr(text))
        )
    return days


def _page(here: Here, problem: str = "", status: int = 200, **made: Any) -> HTMLResponse:
    visitor = here.caller is VISITOR
    values: dict[str, Any] = {
        "problem": problem,
        "visitor": visitor,
        "changed": here.request.query_params.get("changed") == "1" and not problem,
        "has_password": not visitor and here.frame.users.get(here.caller.name).has_password,
        "needs_current": _needs_current(here),
        "tokens": _tokens(here),
        "made": None,
        "token": "",
    }
    return page(here, "me.html", status=status, **values | made)


def _needs_current(here: Here) -> bool:
    """Return whether the old password is to be shown with the new one: not after a one-time link, which replaces it."""
    known = here.caller is not VISITOR and here.frame.users.get(here.caller.name).has_password
    return known and here.caller.label != "link"


def _tokens(here: Here) -> list[Token]:
    return [] if here.caller is VISITOR else here.frame.users.tokens(here.caller.name)


def _refuse_visitor(here: Here) -> None:
    if here.caller is VISITOR:
        raise HTTPException(403, _("visitors of the demonstration have no password and no tokens"))
