"""What a server writes down: one line for each request, and errors with where they happened.

A line names the route, such as ``/p/{programme}/people/{number}``, never the address that was asked for: addresses,
headers and bodies have names, ids and tokens in them. For the same reason errors are written without their messages
and without values: a traceback shows files, lines and functions. Who asked is shown as a pseudonym that holds for one
run of the server; who changed what is in the ledger, by name.

Lines are JSON in ASCII on the standard error, or plain text if that is a terminal; whatever is in a message, it can
neither begin another line nor control a terminal, and is cut if it is long. Of other libraries, a few messages a minute
are written.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import re
import secrets
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from meritfair.core.texts import printable, shortened

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

OURS = ("meritfair", "uvicorn")  # loggers whose messages hold no one's data; of others only the name is written
HEADER = b"x-request-id"
_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
_QUIET = ("/static", "/healthz", "/readyz", "/metrics")
_LONGEST = 8000  # characters of a message, or of where an error was raised
_A_MINUTE = 20  # messages of another library
_log = logging.getLogger("meritfair.web")


def write_logs() -> None:
    """Let this process write its log to the standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Readable() if sys.stderr.isatty() else _Lines())
    handler.addFilter(_Seldom())
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    for name in OURS:
        logging.getLogger(name).setLevel(logging.INFO)
    logging.getLogger("uvicorn").setLevel(logging.WARNING)  # that it starts and stops is told by the parent


def said(record: logging.LogRecord) -> str:
    """Return the message of a record, if it may be written: in one line, and not too long."""
    text = record.getMessage() if record.name.split(".")[0] in OURS else f"a message of {record.name}"
    return shortened(printable(text), _LONGEST)


def where(error: BaseException) -> str:
    """Return the kinds of an error and its causes, and where they were raised; no messages, no values.

    Examples
    --------
    >>> try:
    ...     int("Ada")
    ... except ValueError as error:
    ...     print(where(error))
    ValueError
      <doctest meritfair.web.logs.where[0]>:2 in <module>
    """
    lines: list[str] = []
    for each in _causes(error):
        kind = type(each)
        lines.append(kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}")
        frames = traceback.extract_tb(each.__traceback__)
        lines += [f"  {frame.filename}:{frame.lineno} in {frame.name}" for frame in frames]
    return shortened("\n".join(map(printable, lines)), _LONGEST)


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Give an error and those that it came from, the first one first."""
    chain: list[BaseException] = []
    at: BaseException | None = error
    while at is not None and at not in chain and len(chain) < 10:
        chain.append(at)
        if isinstance(at, BaseExceptionGroup):
            chain += at.exceptions
        at = at.__cause__ or (None if at.__suppress_context__ else at.__context__)
    return reversed(chain)


class _Seldom(logging.Filter):
    """Lets a few messages of other libraries pass each minute: one that repeats itself must not fill a disk."""

    def __init__(self) -> None:
        super().__init__()
        self._minute, self._passed = 0, Counter[str]()

    def filter(self, record: logging.LogRecord) -> bool:
        if record.name.split(".")[0] in OURS:
            return True
        minute = int(record.created // 60)
        if minute != self._minute:
            self._minute, self._passed = minute, Counter()
        self._passed[record.name] += 1
        return self._passed[record.name] <= _A_MINUTE


class _Lines(logging.Formatter):
    """A JSON object in each line."""

    def format(self, record: logging.LogRecord) -> str:
        values: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "process": record.process,
            "message": said(record),
            **_request(record),
        }
        if record.exc_info and record.exc_info[1] is not None:
            values["error"] = where(record.exc_info[1])
        return json.dumps(values).replace("\x7f", "\\u007f")  # ASCII alone: nothing moves a cursor or turns text


class _Readable(logging.Formatter):
    """Text for someone who watches."""

    def format(self, record: logging.LogRecord) -> str:
        values = _request(record)
        at = datetime.fromtimestamp(record.created).strftime("%H:%M:%S")
        text = "{method} {route} {status} · {ms} ms".format(**values) if values else said(record)
        line = f"{at}  {text}" if record.levelno < logging.WARNING else f"{at}  {record.levelname.lower()}: {text}"
        if record.exc_info and record.exc_info[1] is not None:
            line += "\n" + where(record.exc_info[1])
        return line


def _request(record: logging.LogRecord) -> dict[str, Any]:
    found = vars(record).get("request")
    return found if isinstance(found, dict) else {}


class RequestLog:
    """The outermost layer of an application: one line for each request, which has a number that its answer tells.

    Parameters
    ----------
    app : ASGI application
    key : str
        Makes pseudonyms of those who ask.
    """

    def __init__(self, app: ASGIApp, key: str) -> None:
        self._app, self._key = app, key.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, and write down that it was."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        number, status, start = secrets.token_hex(8), 0, time.perf_counter()
        scope.setdefault("state", {})["request_id"] = number

        async def numbered(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), (HEADER, number.encode())]
            await send(message)

        error: BaseException | None = None
        try:
            await self._app(scope, receive, numbered)
        except Exception as raised:
            error = raised
            if not status:  # nobody has answered: the server itself has to
                raise
        finally:
            line = self._line(scope, status or 500, number, time.perf_counter() - start)
            if error is not None:
                _log.error("a request failed", exc_info=error, extra={"request": line})
            elif status >= 400 or line["route"] not in _QUIET:
                _log.info("request", extra={"request": line})

    def _line(self, scope: Scope, status: int, number: str, seconds: float) -> dict[str, Any]:
        caller = scope["state"].get("caller", "")
        user = hmac.new(self._key, f"log {caller}".encode(), hashlib.sha256).hexdigest()[:8] if caller else ""
        return {
            "method": method_of(scope),
            "route": route_of(scope),
            "status": status,
            "ms": round(1000 * seconds, 1),
            "user": user,
            "request": number,
        }


def method_of(scope: Scope) -> str:
    """Return the method of a request, ``other`` if it is none that there is: whoever asks could make up any text."""
    method = str(scope["method"])
    return method if method in _METHODS else "other"


def route_of(scope: Scope) -> str:
    """Return the template of the route that has answered, ``-`` if none has."""
    route = scope.get("route")
    if route is None:
        return "/static" if str(scope["path"]).startswith("/static/") else "-"
    return re.sub(r":\w+}", "}", str(route.path))  # without the types of its parameters
