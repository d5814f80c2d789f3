"""Around every request: how large it may be, and what browsers are told to refuse."""

from __future__ import annotations

from fastapi import HTTPException
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

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


class TooLargeError(HTTPException):
    """A request has more bytes than it may."""

    def __init__(self, most: int) -> None:
        super().__init__(413, f"a request has at most {most:,} bytes")


class BodySizeLimit:
    """Middleware: refuses requests that are too large, whatever their header says.

    Parameters
    ----------
    most : int
        Bytes.
    unknown : int
        Bytes of a request that shows neither a token nor a session: enough to sign in.
    """

    def __init__(self, app: ASGIApp, *, most: int, unknown: int) -> None:
        self._app, self._most, self._unknown = app, most, unknown

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, unless it is too large."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers, seen, started = Headers(scope=scope), 0, False
        most = self._most if "authorization" in headers or "cookie" in headers else min(self._most, self._unknown)

        async def counted() -> Message:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > most:
                raise TooLargeError(most)
            return message

        async def noted(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        said = headers.get("content-length", "0")
        try:
            if said.isdigit() and int(said) > most:
                raise TooLargeError(most)
            await self._app(scope, counted, noted)
        except TooLargeError as error:
            if started:
                raise
            problem = {"type": "about:blank", "title": "Content Too Large", "status": 413, "detail": error.detail}
            await JSONResponse(problem, 413, media_type="application/problem+json")(scope, receive, send)
