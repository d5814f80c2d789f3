"""Requests to a server: sent again if they may have been lost, with the same key; problems become errors.

A write carries an ``Idempotency-Key``, so that sending it again has no second effect. It is sent again after errors of
the connection, and when the server or a proxy before it is busy (429, 502, 503, 504).
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

from meritfair.core.errors import InputError, MeritfairError, MissingExtraError
from meritfair.programme.programme import HeadMovedError, KeyConflictError
from meritfair.programme.storage.store_errors import StoreError

try:
    import httpx
except ImportError:
    raise MissingExtraError("the client of a server", "client") from None

_P = "/api/v1/programmes"
ROUTES: dict[str, tuple[str, str]] = {  # by operation: the method and the path
    "list_programmes": ("GET", _P),
    "create_programme": ("POST", _P),
    "get_programme": ("GET", f"{_P}/{{programme}}"),
    "change_settings": ("PATCH", f"{_P}/{{programme}}/settings"),
    "end_programme": ("POST", f"{_P}/{{programme}}/end"),
    "list_participants": ("GET", f"{_P}/{{programme}}/participants"),
    "enrol_participants": ("POST", f"{_P}/{{programme}}/participants"),
    "get_participant": ("GET", f"{_P}/{{programme}}/participants/{{number}}"),
    "withdraw_participants": ("POST", f"{_P}/{{programme}}/participants/withdraw"),
    "mark_away": ("POST", f"{_P}/{{programme}}/participants/away"),
    "mark_back": ("POST", f"{_P}/{{programme}}/participants/back"),
    "erase_participant": ("DELETE", f"{_P}/{{programme}}/participants/{{number}}"),
    "explain_participant": ("GET", f"{_P}/{{programme}}/participants/{{number}}/report"),
    "get_proof": ("GET", f"{_P}/{{programme}}/participants/{{number}}/proof"),
    "list_accounts": ("GET", f"{_P}/{{programme}}/accounts"),
    "list_rounds": ("GET", f"{_P}/{{programme}}/rounds"),
    "draw_round": ("POST", f"{_P}/{{programme}}/rounds"),
    "preview_round": ("GET", f"{_P}/{{programme}}/preview"),
    "get_round": ("GET", f"{_P}/{{programme}}/rounds/{{number}}"),
    "report_outcomes": ("POST", f"{_P}/{{programme}}/rounds/{{number}}/outcomes"),
    "correct_outcomes": ("PATCH", f"{_P}/{{programme}}/rounds/{{number}}/outcomes"),
    "close_round": ("POST", f"{_P}/{{programme}}/rounds/{{number}}/close"),
    "audit": ("GET", f"{_P}/{{programme}}/audit"),
    "effect": ("GET", f"{_P}/{{programme}}/effect"),
    "verify": ("POST", f"{_P}/{{programme}}/verifications"),
    "export": ("POST", f"{_P}/{{programme}}/exports"),
    "what_if": ("POST", f"{_P}/{{programme}}/whatif"),
    "get_job": ("GET", f"{_P}/{{programme}}/jobs/{{job}}"),
    "cancel_job": ("POST", f"{_P}/{{programme}}/jobs/{{job}}/cancel"),
    "get_job_file": ("GET", f"{_P}/{{programme}}/jobs/{{job}}/file"),
    "list_entries": ("GET", f"{_P}/{{programme}}/ledger"),
    "get_head": ("GET", f"{_P}/{{programme}}/ledger/head"),
    "get_health": ("GET", "/healthz"),
    "get_readiness": ("GET", "/readyz"),
    "get_metrics": ("GET", "/metrics"),
}
KEYED = (  # what changes something
    *("create_programme", "change_settings", "end_programme", "enrol_participants", "withdraw_participants"),
    *(
        "mark_away",
        "mark_back",
        "erase_participant",
        "draw_round",
        "report_outcomes",
        "correct_outcomes",
        "close_round",
    ),
)
_BUSY = (429, 502, 503, 504)
_LONGEST_WAIT = 30.0  # seconds


class ServerError(MeritfairError):
    """The server cannot be reached, or cannot answer."""


class NotAllowedError(MeritfairError):
    """The token is not known, or its role is too low."""


_ERRORS: dict[int, type[MeritfairError]] = {
    401: NotAllowedError,
    403: NotAllowedError,
    409: KeyConflictError,
    412: HeadMovedError,
    503: StoreError,
}


class Connection:
    """Sends requests to a server.

    Parameters
    ----------
    http : httpx.Client
        With the server's address and the token.
    tries : int
        How often a request is sent at most.
    """

    def __init__(self, http: httpx.Client, tries: int = 6) -> None:
        self._http, self._tries = http, tries

    def close(self) -> None:
        """Let go of all connections."""
        self._http.close()

    def send(
        self,
        operation: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        csv: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        key: str | None = None,
        **place: Any,
    ) -> httpx.Response:
        """Send a request, again if need be, and return the answer; raise what the server refuses."""
        method, template = ROUTES[operation]
        path = template.format(**{name: quote(str(value), safe="") for name, value in place.items()})
        sent = dict(headers or {}) | ({"Idempotency-Key": key or str(uuid.uuid4())} if operation in KEYED else {})
        content = csv
        if csv is not None:
            sent["Content-Type"] = "text/csv"
        elif body is not None:
            content, sent["Content-Type"] = json.dumps(body).encode(), "application/json"
        asked = {name: value for name, value in (query or {}).items() if value is not None}
        request = self._http.build_request(method, path, params=asked, content=content, headers=sent)
        return _checked(self._deliver(request))

    def get(self, operation: str, **how: Any) -> Any:
        """Send a request and return the JSON of the answer."""
        return self.send(operation, **how).json()

    def pages(self, operation: str, field: str, query: Mapping[str, Any], **place: Any) -> Iterator[Any]:
        """Yield the rows of all pages."""
        offset = 0
        while True:
            answer = self.send(operation, query={**query, "offset": offset}, **place)
            rows = answer.json()[field]
            yield from rows
            offset += len(rows)
            if "next" not in answer.links or not rows:
                return

    def _deliver(self, request: httpx.Request) -> httpx.Response:
        """Send a request until it is answered."""
        for left in reversed(range(self._tries)):
            wait = 0.1 * 2 ** (self._tries - 1 - left)
            try:
                answer = self._http.send(request)
            except httpx.TransportError as error:
                if not left:
                    raise ServerError(f"{request.url.host} cannot be reached: {error}") from None
            else:
                if answer.status_code not in _BUSY or not left:
                    return answer
                wait = _seconds(answer.headers.get("retry-after", ""), wait)
            time.sleep(min(wait, _LONGEST_WAIT))
        raise ServerError("a request is sent at least once")  # pragma: no cover


def _seconds(text: str, usual: float) -> float:
    return float(text) if text.isdigit() else usual


def _checked(answer: httpx.Response) -> httpx.Response:
    """Return an answer, if it is none of a problem."""
    if answer.status_code < 400:
        return answer
    try:
        detail = str(answer.json()["detail"])
    except (ValueError, KeyError, TypeError):
        detail = answer.reason_phrase
    usual = InputError if answer.status_code < 500 else ServerError
    raise _ERRORS.get(answer.status_code, usual)(detail)
