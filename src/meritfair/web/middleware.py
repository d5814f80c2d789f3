"""Around every request: what is read of it, and what browsers are told to refuse.

A body is read while its route waits for it. Whoever shows no valid token or session may send enough to sign in. How
many bodies are waited for at once, how long, and how many bytes are held is bounded for each worker.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus

from fastapi import HTTPException, Request
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from meritfair.core.language import _, current
from meritfair.web.limits import address_of

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "font-src 'self'; manifest-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_LONGEST_TYPE = 500  # bytes of a Content-Type


class SecurityHeaders:
    """Middleware: no page may load anything from elsewhere, be framed, or be kept by browsers."""

    def __init__(self, app: ASGIApp, *, secure: bool) -> None:
        self._app = app
        self._headers = HEADERS | ({"Strict-Transport-Security": "max-age=31536000"} if secure else {})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, with the headers."""

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in self._headers.items():
                    headers.setdefault(name, value)  # a route may have a stricter one
            await send(message)

        await self._app(scope, receive, with_headers if scope["type"] == "http" else send)


class BodyRefusedError(HTTPException):
    """The body of a request is not read to its end; the connection is closed, since the rest of it may still come."""

    def __init__(self, status: int, detail: str, **headers: str) -> None:
        super().__init__(status, detail, {"Connection": "close", **headers})


@dataclass(eq=False)
class _Waiting:
    """A body that has not come to its end yet."""

    address: str
    until: asyncio.Timeout | None = None  # while the next piece of it is waited for


@dataclass(frozen=True)
class BodyBounds:
    """What a worker reads of requests.

    Attributes
    ----------
    most, unknown : int
        Bytes of a request, and of one that shows no valid token or session: enough to sign in.
    waiting, of_address : int
        Bodies that are waited for at once, in all and from one address.
    held, held_of_address : int
        Bytes of all requests that are not answered yet, and of those from one address.
    seconds, rate : float
        A body has this many seconds, and one more for each `rate` bytes that have come.
    """

    most: int = 64 << 20
    unknown: int = 64 << 10
    waiting: int = 256
    of_address: int = 32
    held: int = 256 << 20
    held_of_address: int = 128 << 20
    seconds: float = 20.0
    rate: float = 16 << 10


class UnfinishedBodies:
    """The bodies that a worker waits for, and how many bytes it has of requests that are not answered yet.

    An address has a few of them. If there are too many in all, the oldest one of the address that has most is given up,
    so that whoever sends slowly on purpose keeps nobody else from sending.
    """

    def __init__(self, bounds: BodyBounds) -> None:
        self.bounds, self._bytes = bounds, Counter[str]()  # by address
        self._waiting: dict[_Waiting, None] = {}  # the oldest first

    def begin(self, address: str) -> _Waiting:
        """Count a body that is waited for; refuse it if its address has too many."""
        bounds, mine = self.bounds, [each.address for each in self._waiting].count(address)
        if mine >= bounds.of_address:
            said = _("too many requests from your address are unfinished, at most {n} may be")
            raise BodyRefusedError(429, said.format(n=bounds.of_address), **{"Retry-After": "5"})
        if len(self._waiting) >= bounds.waiting:
            self._give_one_up()
        made = _Waiting(address)
        self._waiting[made] = None
        return made

    def hold(self, address: str, size: int) -> None:
        """Count bytes that have come; refuse them if too many are held."""
        self._bytes[address] += size
        wait = {"Retry-After": "5"}
        if self._bytes[address] > self.bounds.held_of_address:
            said = _("large requests from your address are still being read: send this one again when they are done")
            raise BodyRefusedError(429, said, **wait)
        if self._bytes.total() > self.bounds.held:
            raise BodyRefusedError(503, _("the server reads too much at once: try again later"), **wait)

    def release(self, address: str, size: int) -> None:
        """Note that a request with so many bytes is answered."""
        self._bytes[address] -= size
        if not self._bytes[address]:
            del self._bytes[address]

    def end(self, body: _Waiting) -> None:
        """Note that a body is not waited for any more."""
        self._waiting.pop(body, None)

    def _give_one_up(self) -> None:
        most = Counter(each.address for each in self._waiting).most_common(1)[0][0]
        oldest = next(each for each in self._waiting if each.address == most)
        self.end(oldest)
        if oldest.until is not None:
            oldest.until.reschedule(asyncio.get_running_loop().time())


class BodyLimit:
    """Middleware: refuses requests whose bodies are too large, too slow, too many, or of unclear length.

    Parameters
    ----------
    bounds : BodyBounds
    known : callable
        Says whether a request shows a valid token or session; it may wait, and is asked where more than
        ``bounds.unknown`` bytes come.
    """

    def __init__(self, app: ASGIApp, *, bounds: BodyBounds, known: Callable[[Request], bool]) -> None:
        self._app, self._known, self._unfinished = app, known, UnfinishedBodies(bounds)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, unless its body is refused."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started, body = False, _Body(Request(scope), receive, self._unfinished, self._known)

        async def noted(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            body.check_length()
            await self._app(scope, body.receive, noted)
        except BodyRefusedError as error:
            if started:
                raise
            status = HTTPStatus(error.status_code)
            problem = {"type": "about:blank", "title": status.phrase, "status": status.value, "detail": error.detail}
            answer = JSONResponse(problem, status.value, error.headers, "application/problem+json")
            await answer(scope, receive, send)
        finally:
            body.leave()


class _Body:
    """The body of one request, as it comes."""

    def __init__(
        self, request: Request, receive: Receive, unfinished: UnfinishedBodies, known: Callable[[Request], bool]
    ) -> None:
        self._request, self._receive, self._unfinished, self._known = request, receive, unfinished, known
        self._bounds, self._seen, self._complete = unfinished.bounds, 0, False
        self._address = address_of(request)
        self._waiting: _Waiting | None = None
        self._began, self._most = 0.0, min(unfinished.bounds.unknown, unfinished.bounds.most)

    def check_length(self) -> None:
        """Refuse a request that says its length twice, or one that nobody may send."""
        headers = self._request.headers
        said = set(headers.getlist("content-length"))
        if len(said) > 1 or (said and "transfer-encoding" in headers):
            raise BodyRefusedError(400, _("a request has one Content-Length, or Transfer-Encoding, not both"))
        if len(headers.get("content-type", "")) > _LONGEST_TYPE:  # libraries take quadratic time for it
            raise BodyRefusedError(
                400, _("the Content-Type of a request has at most {n} bytes").format(n=_LONGEST_TYPE)
            )
        if self._length() > self._bounds.most:
            raise self._too_large(self._bounds.most)

    async def receive(self) -> Message:
        """Return the next piece."""
        if self._complete:
            return await self._receive()
        if self._waiting is None:
            await self._check_size(self._length())
            self._waiting = self._unfinished.begin(self._address)
            self._began = asyncio.get_running_loop().time()
        message = await self._next(self._waiting)
        piece = len(message.get("body", b""))
        self._seen += piece
        if not message.get("more_body", False):  # the end, or nobody is there any more
            self._complete = True
            self._unfinished.end(self._waiting)
        self._unfinished.hold(self._address, piece)
        await self._check_size(self._seen)
        return message

    async def _next(self, waiting: _Waiting) -> Message:
        end = self._began + self._bounds.seconds + self._seen / self._bounds.rate
        try:
            async with asyncio.timeout_at(end) as waiting.until:
                return await self._receive()
        except TimeoutError:
            raise BodyRefusedError(408, _("the rest of the request did not come in time")) from None
        finally:
            waiting.until = None

    async def _check_size(self, size: int) -> None:
        """Refuse a body of this size, unless whoever sends it is known and may."""
        if size <= self._most:
            return
        if self._most < self._bounds.most and await run_in_threadpool(self._known, self._request):
            self._most = self._bounds.most
        if size > self._most:
            raise self._too_large(self._most)

    def _length(self) -> int:
        said = self._request.headers.get("content-length", "0")
        return int(said[:20]) if said.isascii() and said.isdigit() else 0

    def _too_large(self, most: int) -> BodyRefusedError:
        said = _("a request has at most {most} bytes")
        if most < self._bounds.most:
            said = _("a request of someone who is not signed in has at most {most} bytes")
        return BodyRefusedError(413, said.format(most=current().decimal(most)))

    def leave(self) -> None:
        """Note that the request is answered."""
        self._unfinished.release(self._address, self._seen)
        if self._waiting is not None:
            self._unfinished.end(self._waiting)
