"""Heads are kept elsewhere by themselves: after each draw one is appended to a file, or posted to an address.

Where, is a setting of the store. Only its operator sets it, on the command line: an address that a web page could set
would let its users have the server send requests. A head is kept after the transaction of the draw, by the process that
has drawn, once. If that fails, the draw stands, whoever has drawn is warned, and the next head that is kept covers this
one.

A round that waits for a public value has its head kept when it is committed, and again when it is drawn: the first one
shows that its chances were fixed before the value was known.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from http.client import HTTPException
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from meritfair.core.errors import InputError
from meritfair.core.texts import printable
from meritfair.programme.ledger.heads import HEADER, KeptHead
from meritfair.programme.storage.store import Store, StoreError
from meritfair.programme.view import ProgrammeView
from meritfair.programme.work import Work

SETTING, _FAILED = "heads", "heads not kept"  # names of settings; the second with a programme's identity
SECONDS = 5.0  # that a file or an address is waited for
_TRIES = 2


@dataclass(frozen=True)
class Places:
    """Where heads are kept; empty if nowhere.

    Attributes
    ----------
    file : str
        The path of a file.
    address : str
        An address of http or https.
    """

    file: str = ""
    address: str = ""

    def __bool__(self) -> bool:
        return bool(self.file or self.address)

    def __str__(self) -> str:
        return " and ".join(each for each in (self.file, self.address) if each) or "nowhere"


class NotKeptError(Exception):
    """A head could not be kept; why, in words."""


def places_of(store: Store) -> Places:
    """Return where the heads of a store are kept."""
    return read_places(store.setting(SETTING))


def read_places(setting: str | None) -> Places:
    """Return what the setting of a store says."""
    return Places(**json.loads(setting)) if setting else Places()


def set_places(store: Store, places: Places) -> list[KeptHead]:
    """Say where heads are kept from now on; those of now are kept there first, and returned.

    Nothing is set if they cannot be kept there.
    """
    if places.address:
        check_address(places.address)
    heads = [head for name in store.names() if (head := head_of(store, name)) is not None] if places else []
    if places.file and not heads:
        _insist([_tried(Path(places.file).name, lambda: append_line(Path(places.file), None))])
    for head in heads:
        _insist(_keep_at(places, head))
    store.set_setting(SETTING, json.dumps(asdict(places)))
    for head in heads:
        _note(store, head, "")
    return heads


def _insist(failed: list[str]) -> None:
    if any(failed):
        raise InputError(f"{' '.join(filter(None, failed))} Nothing was set")


def head_of(store: Store, name: str) -> KeptHead | None:
    """Return the head of a programme, None if it has no entry yet."""
    with store.reading(name) as session:
        return kept_head(Work(session)) if session.length else None


def kept_head(view: ProgrammeView) -> KeptHead:
    """Return the head of a programme with what is kept beside it."""
    summary = view.state.summary
    return KeptHead(summary.time, view.name, view.identity, summary.round, view.length - 1, view.head.hex())


def head_of_draw(store: Store, name: str) -> KeptHead | None:
    """Return the head that was to be kept last: that of the last draw, or of a commitment; None if there is none."""
    with store.reading(name) as session:
        work = Work(session)
        found = None
        for entry, digest in work.heads(work.state.summary.commits[-1]) if work.state.summary.commits else ():
            if entry.kind in ("commit", "draw"):
                found = KeptHead(entry.time, name, work.identity, entry.body["round"], entry.seq, digest.hex())
        return found


def keep_head(store: Store, head: KeptHead) -> str:
    """Keep a head where the store says; return a warning if that fails, empty if all is well."""
    try:
        places = places_of(store)
        warning = " ".join(_keep_at(places, head))
        if places:
            _note(store, head, warning)
    except StoreError as error:  # what was drawn is on the disk, whatever has happened since
        return f"The head could not be kept: {store.hide(str(error))}."
    return warning


def failure_of(store: Store, identity: str) -> str:
    """Return the warning that the last head of a programme could not be kept; empty if it was."""
    return store.setting(f"{_FAILED} {identity}") or ""


def _note(store: Store, head: KeptHead, warning: str) -> None:
    """Note that keeping has failed, or works again, for whoever looks at the programme later."""
    if failure_of(store, head.identity) != warning:
        store.set_setting(f"{_FAILED} {head.identity}", warning)


def _keep_at(places: Places, head: KeptHead) -> list[str]:
    """Keep a head at all places; return a sentence for each that fails, which tells no address."""
    failed = []
    if places.file:
        file = Path(places.file)
        failed.append(_tried(file.name, lambda: append_line(file, head.line())))
    if places.address:
        host = str(urlsplit(places.address).hostname)
        failed.append(_tried(host, lambda: _post_once_more(places.address, asdict(head))))
    return [each for each in failed if each]


def _tried(where: str, way: Callable[[], None]) -> str:
    """Return in a sentence why a head could not be kept; empty if it was."""
    try:
        _bounded(way)
    except NotKeptError as error:
        return f"The head could not be kept at {where}: {error}."
    return ""


def _bounded(way: Callable[[], None]) -> None:
    """Do something, and give up if it takes too long: a network drive or a slow server must not hold up a draw."""
    failed: list[Exception] = []

    def run() -> None:
        try:
            way()
        except Exception as error:  # of any kind: the draw is made, and must not look as if it were not
            failed.append(error)

    thread, longest = Thread(target=run, name="keep-head", daemon=True), _TRIES * SECONDS + 1.0
    thread.start()
    thread.join(longest)
    if thread.is_alive():
        raise NotKeptError(f"it took longer than {longest:g} seconds")
    if failed:
        raise failed[0] if isinstance(failed[0], NotKeptError) else NotKeptError(_reason(failed[0]))


# ---- a file


def append_line(file: Path, line: str | None) -> None:
    """Append a line to a file, which is made if it is not there; when it returns, the line is on the disk."""
    try:
        handle = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NONBLOCK", 0), 0o644)
        try:
            start = f"{HEADER}\n" if os.fstat(handle).st_size == 0 else "" if _ends_in_line(file) else "\n"
            _write(handle, (start + ("" if line is None else f"{line}\n")).encode())
            os.fsync(handle)
        finally:
            os.close(handle)
    except OSError as error:
        raise NotKeptError(error.strerror or str(error)) from None


def _ends_in_line(file: Path) -> bool:
    """Return whether the last line of a file has an end; a file that may not be read is believed to be so."""
    with suppress(OSError), file.open("rb") as content:
        content.seek(-1, os.SEEK_END)
        return content.read(1) == b"\n"
    return True


def _write(handle: int, data: bytes) -> None:
    """Write all bytes: with one call if the system does, so that lines of two processes do not mix."""
    while data:
        data = data[os.write(handle, data) :]


# ---- an address


def check_address(address: str) -> str:
    """Return an address to which heads can be posted; refuse another."""
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https") or not parts.hostname or not address.isprintable() or " " in address:
        raise InputError(f"heads are posted to an address such as https://example.org/heads, got {address!r}")
    if parts.username is not None or parts.password is not None:
        raise InputError(
            f"the address to which heads are posted has no user and no password in it, got {parts.hostname}"
        )
    return address


class _NoRedirects(HTTPRedirectHandler):
    """Refuses redirects: what is posted would get lost on the way, or go where nobody has said."""

    def redirect_request(self, req: Request, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> None:  # noqa: ARG002
        fp.close()
        raise NotKeptError(f"it redirects to {urlsplit(newurl).hostname or 'another address'}: name that one instead")


def _post_once_more(address: str, values: dict[str, Any]) -> None:
    """Post values as JSON; if no answer comes, or the server cannot take it just now, once more."""
    try:
        _post(address, values)
    except _NotNowError:
        _post(address, values)


class _NotNowError(NotKeptError):
    """It may work at the next try."""


def _post(address: str, values: dict[str, Any]) -> None:
    data, kind = json.dumps(values).encode(), {"Content-Type": "application/json", "User-Agent": "meritfair"}
    request = Request(address, data, kind, method="POST")
    try:
        with build_opener(_NoRedirects).open(request, timeout=SECONDS):
            return
    except HTTPError as error:
        error.close()
        answer = f"it answers {error.code} {printable(str(error.reason))}" if error.code >= 400 else "it redirects"
        raise (_NotNowError if error.code >= 500 else NotKeptError)(answer) from None
    except URLError as error:
        raise _NotNowError(_reason(error.reason)) from None
    except (OSError, HTTPException) as error:
        raise _NotNowError(_reason(error)) from None


def _reason(error: object) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer within {SECONDS:g} seconds"
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
