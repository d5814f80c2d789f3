"""Serves the viewer on this machine alone: it asks nobody to sign in, so no other machine may reach it."""

from __future__ import annotations

import os
import socket
import sys
import webbrowser
from contextlib import suppress
from threading import Timer

import uvicorn
from fastapi import FastAPI

from meritfair.core.errors import InputError
from meritfair.web.listening import is_loopback, listen

_USUAL = 8000  # the port from which on a free one is looked for
_MOMENT = 0.5  # seconds until the browser is opened


def listen_here(host: str, port: int) -> socket.socket:
    """Return a socket that listens on this machine alone; port 0 is a free one near 8000.

    Examples
    --------
    >>> listen_here("0.0.0.0", 0)
    Traceback (most recent call last):
    ...
    meritfair.core.errors.InputError: --host must be this machine itself (127.0.0.1, ::1 or localhost), got '0.0.0.0'
    """
    if not is_loopback(host):
        raise InputError(f"--host must be this machine itself (127.0.0.1, ::1 or localhost), got {host!r}")
    return listen("127.0.0.1" if host == "localhost" else host, port or _USUAL, next_free=not port)


def address_of(listening: socket.socket) -> str:
    """Return the address of a page on this socket."""
    host, port, *_ = listening.getsockname()
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


def has_screen() -> bool:
    """Return whether there is a screen on which a browser could be opened."""
    return sys.platform in ("darwin", "win32") or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def serve(app: FastAPI, listening: socket.socket, *, browser: bool) -> None:
    """Serve the viewer until someone presses Ctrl-C."""
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False, lifespan="off"))
    opening = Timer(_MOMENT, webbrowser.open, [address_of(listening)])
    opening.daemon = True
    if browser and has_screen():
        opening.start()
    with suppress(KeyboardInterrupt):  # how it is meant to end
        server.run(sockets=[listening])
    opening.cancel()
