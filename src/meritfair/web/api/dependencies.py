"""What routes of the API depend on: reads that a client may already have, and writes that are done once.

**Reads** carry an ``ETag``: the head of the ledger and a mark of the representation. A client that sends it back in
``If-None-Match`` is told 304 as long as nothing has changed.

**Writes** may come with an ``Idempotency-Key``, which stands for the request: however often it is sent, it is done once
and answered alike. Keys are those of one user. With ``If-Match``, an ``ETag`` of any read of the programme, a write is
refused if anything has been entered since.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, Header, Request, Response

import meritfair
from meritfair.programme.ledger.canonical import canonical
from meritfair.programme.programme import Programme
from meritfair.programme.reading import Snapshot
from meritfair.programme.users import Role
from meritfair.web.access import Credentials, Here, NeedsRole, NeedsSignIn, ProgrammeName
from meritfair.web.errors import MissingError

_Key = Annotated[
    str | None,
    Header(
        description="Any text that stands for this request: sent again with the same key, it has no second effect and "
        "the same answer. Take a new one for each request, such as a UUID.",
        min_length=1,
        max_length=200,
        pattern="^[!-~]+$",
        examples=["5b0c1b9e-7a35-4f0e-9d0c-3a1f8f6f1d2e"],
    ),
]
_IfMatch = Annotated[
    str | None,
    Header(
        description="The ETag of any read of this programme: the write is refused (412) if anything has been entered "
        "since.",
        max_length=200,
    ),
]
_IfNoneMatch = Annotated[
    str | None, Header(description="The ETag of the last answer: 304 if nothing has changed.", max_length=2000)
]


class NotModifiedError(Exception):
    """The client has the answer already."""

    def __init__(self, headers: dict[str, str]) -> None:
        super().__init__()
        self.headers = headers


@dataclass(frozen=True)
class Reading:
    """A read: who asks, the programme as it is now, and the headers that go with the answer."""

    here: Here
    snapshot: Snapshot
    headers: dict[str, str]


@dataclass(frozen=True)
class Writing:
    """A write: who asks, what stands for the request, and the programme to change."""

    here: Here
    key: str | None
    programme: Programme

    @property
    def once(self) -> dict[str, Any]:
        """What every verb that changes something is told: who does it, and what stands for it."""
        return {"by": self.here.by, "key": self.key}


@dataclass(frozen=True)
class Reads(NeedsRole):
    """A dependency of routes that read a programme."""

    def __call__(  # type: ignore[override]
        self,
        request: Request,
        response: Response,
        programme: ProgrammeName,
        credentials: Credentials,
        if_none_match: _IfNoneMatch = None,
    ) -> Reading:
        here = super().__call__(request, programme, credentials)
        snapshot = here.look()
        headers = {
            "ETag": etag(here, snapshot.head),
            "Cache-Control": "private, no-cache",
            "Vary": "Accept, Accept-Language, Authorization",
        }
        if if_none_match and headers["ETag"] in map(_strong, if_none_match.split(",")):
            raise NotModifiedError(headers)
        response.headers.update(headers)
        return Reading(here, snapshot, headers)


@dataclass(frozen=True)
class Writes(NeedsRole):
    """A dependency of routes that change a programme."""

    def __call__(  # type: ignore[override]
        self,
        request: Request,
        programme: ProgrammeName,
        credentials: Credentials,
        idempotency_key: _Key = None,
        if_match: _IfMatch = None,
    ) -> Writing:
        here = super().__call__(request, programme, credentials)
        found = here.programme
        if if_match is not None and if_match.strip() != "*":
            found = found.expecting(_strong(if_match).strip('"').partition("-")[0])
        return Writing(here, own_key(here, idempotency_key), found)


@dataclass(frozen=True)
class Creating(NeedsSignIn):
    """A dependency of routes that change the store: who asks, and what stands for the request."""

    def __call__(  # type: ignore[override]
        self, request: Request, credentials: Credentials, idempotency_key: _Key = None
    ) -> tuple[Here, str | None]:
        here = super().__call__(request, credentials)
        return here, own_key(here, idempotency_key)


def reads(role: Role) -> Any:
    """Return the dependency of a route that reads a programme."""
    return Depends(Reads(role))


def writes(role: Role) -> Any:
    """Return the dependency of a route that changes a programme."""
    return Depends(Writes(role))


def own_key(here: Here, key: str | None) -> str | None:
    """Return a key that nobody else can have: two users may think of the same."""
    return None if key is None else canonical([here.by, key]).decode()


def etag(here: Here, head: str) -> str:
    """Return what stands for an answer: the head, and a mark of all else that it depends on."""
    asked = here.request
    said = [asked.url.path, asked.url.query, asked.headers.get("accept", ""), asked.headers.get("accept-language", "")]
    mark = zlib.crc32(canonical([*said, str(here.role), meritfair.__version__]))
    return f'"{head}-{mark:08x}"'


def _strong(tag: str) -> str:
    return tag.strip().removeprefix("W/")


def check_number(snapshot: Snapshot, number: int) -> int:
    """Return the number of a participant, if there is one."""
    people = snapshot.status.enrolled + snapshot.status.left
    if number >= people:
        raise MissingError(f"there is no participant {number}")
    return number
