"""Who asks, and whether they may: one dependency for all routes, of pages and of the API.

A route says the least role that it needs; what it gets is `Here`: the caller, the programme and the ways to read and
write it. The API takes tokens in the header ``Authorization`` and nothing else, so no foreign page can make a browser
use it. Pages take the cookie of a session, and whatever changes something comes with a token that foreign pages cannot
know (`check_csrf`).

A caller without a role in a programme is told that there is none of that name.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import urlsplit

from fastapi import Depends, HTTPException, Path, Request, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from meritfair.core.language import _
from meritfair.programme.programme import Programme
from meritfair.programme.reading import Snapshot
from meritfair.programme.users import Caller, Role
from meritfair.web.frame import Frame, frame_of

COOKIE = "meritfair_session"
VISITOR = Caller("Visitor", {"*": Role.ADMIN})
_SAFE = ("GET", "HEAD", "OPTIONS")
_BEARER = HTTPBearer(auto_error=False, description="A token made by `meritfair tokens add`.")
Credentials = Annotated[HTTPAuthorizationCredentials | None, Security(_BEARER)]
ProgrammeName = Annotated[str, Path(description="The programme's name.", min_length=1)]


class SignInNeededError(Exception):
    """Nobody is signed in, or the token is not known."""


@dataclass(frozen=True)
class Here:
    """Who asks for what.

    Attributes
    ----------
    request : Request
    frame : Frame
    caller : Caller
    name : str
        Of the programme; empty outside of one.
    role : Role or None
        The caller's role in it; outside of one, the role for all programmes.
    """

    request: Request
    frame: Frame
    caller: Caller
    name: str = ""
    role: Role | None = None

    @property
    def by(self) -> str:
        """Who does what is done, for the ledger."""
        return self.caller.name

    @property
    def programme(self) -> Programme:
        """The programme, to change it."""
        return self.frame.reader.programme(self.name)

    def look(self) -> Snapshot:
        """Return the programme as it is now."""
        return self.frame.reader.look(self.name)

    def may(self, role: Role) -> bool:
        """Return whether the caller has at least this role here."""
        return self.role is not None and self.role >= role

    @property
    def csrf(self) -> str:
        """What pages send along with everything that changes something."""
        return csrf_of(self.request)


@dataclass(frozen=True)
class NeedsRole:
    """A dependency of routes of a programme."""

    role: Role

    def __call__(
        self,
        request: Request,
        programme: ProgrammeName,
        credentials: Credentials,
    ) -> Here:
        frame, caller = frame_of(request), caller_of(request, credentials)
        mine = caller.role_in(programme)
        if mine is None or not frame.reader.has(programme):
            raise HTTPException(404, _("there is no programme {name}").format(name=repr(programme)))
        if mine < self.role:
            said = _("this needs the role {needed}, and yours is {own}")
            raise HTTPException(403, said.format(needed=role_word(self.role), own=role_word(mine)))
        return Here(request, frame, caller, programme, mine)


@dataclass(frozen=True)
class NeedsSignIn:
    """A dependency of routes outside of a programme; `role` is for all programmes."""

    role: Role | None = None

    def __call__(self, request: Request, credentials: Credentials) -> Here:
        caller = caller_of(request, credentials)
        mine = caller.role_in("*")
        if self.role is not None and (mine is None or mine < self.role):
            said = _("this needs the role {needed} for all programmes")
            raise HTTPException(403, said.format(needed=role_word(self.role)))
        return Here(request, frame_of(request), caller, "", mine)


def needs(role: Role) -> Any:
    """Return the dependency of a route of a programme, for which callers need this role in it."""
    return Depends(NeedsRole(role))


def signed_in(role: Role | None = None) -> Any:
    """Return the dependency of a route outside of programmes, for anyone who is signed in or has a role for all."""
    return Depends(NeedsSignIn(role))


Viewer = Annotated[Here, needs(Role.VIEWER)]
Auditor = Annotated[Here, needs(Role.AUDITOR)]
Coordinator = Annotated[Here, needs(Role.COORDINATOR)]
Admin = Annotated[Here, needs(Role.ADMIN)]
Someone = Annotated[Here, signed_in()]  # outside of programmes
AdminOfAll = Annotated[Here, signed_in(Role.ADMIN)]


def role_word(role: Role) -> str:
    """Return what a role is called."""
    return {
        Role.VIEWER: _("viewer"),
        Role.AUDITOR: _("auditor"),
        Role.COORDINATOR: _("coordinator"),
        Role.ADMIN: _("admin"),
    }[role]


def is_api(request: Request) -> bool:
    """Return whether a request is for the API, not for a page."""
    return request.url.path.startswith("/api/")


def caller_of(request: Request, credentials: HTTPAuthorizationCredentials | None) -> Caller:
    """Return who asks."""
    return caller_of_token(request, credentials) if is_api(request) else _caller_of_session(request)


def caller_of_token(request: Request, credentials: HTTPAuthorizationCredentials | None) -> Caller:
    """Return who asks by an API token."""
    shown = "" if credentials is None else credentials.credentials
    return _known(request, shown, frame_of(request).users.caller(shown) if shown else None)


def _caller_of_session(request: Request) -> Caller:
    """Return who asks by the cookie of a session; in a demonstration, whoever has none is a visitor."""
    frame, shown = frame_of(request), request.cookies.get(COOKIE, "")
    found = frame.users.session(shown) if shown else None
    return _known(request, shown, VISITOR if found is None and frame.settings.demo else found)


def _known(request: Request, shown: str, found: Caller | None) -> Caller:
    """Return the caller, and note them for the log; refuse one who is not known, and count what they have shown."""
    if found is None:
        if shown:
            frame_of(request).limits.not_known(request)
        raise SignInNeededError
    request.state.caller = found.name  # of which the log makes a pseudonym
    return found


def is_known(request: Request) -> bool:
    """Return whether a request shows a valid token or session; one that is not valid is counted."""
    kind, _space, shown = request.headers.get("authorization", "").partition(" ")
    token = HTTPAuthorizationCredentials(scheme=kind, credentials=shown.strip()) if kind.lower() == "bearer" else None
    try:
        caller_of(request, token)
    except SignInNeededError:
        return False
    return True


def csrf_of(request: Request) -> str:
    """Return the token that goes with a session: nobody can make it without the cookie."""
    session, key = request.cookies.get(COOKIE, ""), frame_of(request).key
    return hmac.new(key.encode(), b"csrf " + session.encode("utf-8", "replace"), hashlib.sha256).hexdigest()


async def check_csrf(request: Request) -> None:
    """Refuse a change that does not come from one of our pages."""
    if request.method in _SAFE:
        return
    check_same_site(request)
    sent = request.headers.get("x-csrf-token")
    if sent is None:
        value = (await request.form()).get("csrf")
        sent = value if isinstance(value, str) else ""
    if not hmac.compare_digest(sent.encode("utf-8", "replace"), csrf_of(request).encode()):
        raise HTTPException(403, _("this page is out of date: reload it and try again"))


def check_same_site(request: Request) -> None:
    """Refuse what another site has made the browser send: browsers say so, new ones better than old ones."""
    if request.method in _SAFE:
        return
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if site is not None:
        own = site in ("same-origin", "none")
    else:
        own = origin is None or _host_of(origin) in frame_of(request).settings.hosts
    if not own:
        raise HTTPException(403, _("this was sent by another site: open the page here and try again"))


def _host_of(origin: str) -> str | None:
    try:
        return urlsplit(origin).hostname
    except ValueError:  # what is no address is no site of ours
        return None
