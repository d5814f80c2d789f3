"""Signing in, by a password or a one-time link, and out; and the language of the pages.

Nobody is known yet, so there is no token of a session to check. Instead, what browsers say about where a form was sent
from is checked (`meritfair.web.access.check_same_site`).

A one-time link has its token behind ``#``, which browsers do not send: no log, no proxy and no page to which one goes
from there sees it. A script puts it into a form.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Form, Request
from fastapi.responses import HTMLResponse, RedirectResponse
from starlette.responses import Response

from meritfair.core.language import _
from meritfair.programme.user_rows import SESSION_HOURS
from meritfair.programme.users import SignInError
from meritfair.web.access import COOKIE, check_same_site
from meritfair.web.frame import Frame, frame_of
from meritfair.web.language import COOKIE as LANGUAGE_COOKIE
from meritfair.web.language import LANGUAGES
from meritfair.web.rendering import render

router = APIRouter(dependencies=[Depends(check_same_site)])
_YEAR = 365 * 24 * 3600


@router.get("/sign-in")
def show_sign_in(next: str = "") -> HTMLResponse:  # noqa: A002
    """Show the form for name and password."""
    return HTMLResponse(render("sign_in.html", next=local(next), name="", problem=""))


@router.post("/sign-in")
def sign_in(
    request: Request,
    name: Annotated[str, Form()] = "",
    password: Annotated[str, Form()] = "",
    next: Annotated[str, Form()] = "",  # noqa: A002
) -> Response:
    """Begin a session by name and password."""
    frame = frame_of(request)
    frame.limits.try_to_sign_in(request, name or "?")
    try:
        token = frame.users.sign_in(name, password)
    except SignInError:
        problem = _("The name or the password is not right.")
        return HTMLResponse(render("sign_in.html", next=local(next), name=name, problem=problem), 401)
    frame.limits.signed_in(request, name)
    return with_session(RedirectResponse(local(next), 303), frame, token)


@router.get("/sign-in/link")
def show_link() -> HTMLResponse:
    """Show the page to which a one-time link leads; the token is behind # and stays in the browser."""
    return HTMLResponse(render("link.html", problem=""))


@router.post("/sign-in/link")
def use_link(request: Request, link: Annotated[str, Form()] = "") -> Response:
    """Begin a session by a one-time link."""
    frame = frame_of(request)
    frame.limits.try_to_sign_in(request)
    try:
        token = frame.users.use_link(link)
    except SignInError:
        problem = _("This link has been used before, or is too old. Ask for another one.")
        return HTMLResponse(render("link.html", problem=problem), 401)
    frame.limits.signed_in(request)
    caller = frame.users.session(token)
    known = caller is not None and frame.users.get(caller.name).has_password
    return with_session(RedirectResponse("/" if known else "/me", 303), frame, token)


@router.post("/language")
def choose_language(
    request: Request,
    language: Annotated[str, Form()] = "",
    next: Annotated[str, Form()] = "",  # noqa: A002
) -> Response:
    """Keep the language that someone has chosen, in a cookie."""
    response = RedirectResponse(local(next), 303)
    secure = frame_of(request).settings.secure
    if language in LANGUAGES:
        response.set_cookie(LANGUAGE_COOKIE, language, _YEAR, httponly=True, samesite="lax", secure=secure)
    else:  # as the browser asks for
        response.delete_cookie(LANGUAGE_COOKIE, httponly=True, samesite="lax", secure=secure)
    return response


def with_session(response: Response, frame: Frame, token: str) -> Response:
    """Hand a session's token to the browser.

    Lax, because with Strict somebody who follows a link from a mail would have to sign in again; changes have a token
    of their own against other sites.
    """
    response.set_cookie(
        COOKIE, token, int(SESSION_HOURS * 3600), httponly=True, samesite="lax", secure=frame.settings.secure
    )
    return response


def without_session(response: Response, frame: Frame) -> Response:
    """Have the browser forget a session's token."""
    response.delete_cookie(COOKIE, httponly=True, samesite="lax", secure=frame.settings.secure)
    return response


def local(address: str) -> str:
    r"""Return an address to go to, if it is one of this server; else the first page.

    Examples
    --------
    >>> local("/p/clinic/round?page=2"), local("//example.org"), local("/\\example.org"), local("https://example.org")
    ('/p/clinic/round?page=2', '/', '/', '/')
    """
    fine = address.startswith("/") and not address.startswith(("//", "/sign-")) and "\\" not in address
    return address if fine and address.isprintable() else "/"
