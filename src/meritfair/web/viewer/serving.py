"""Serves the viewer on this machine alone: it asks nobody to sign in, so no other machine may reach it."""

from __future__ import annotations

import ipaddress
import os
import socket
import sys
import webbrowser
from contextlib import suppress
from threading import Timer

import uvicorn
from fastapi import FastAPI

from meritfair.core.errors import InputError

_USUAL = range(8000, 8100)  # where a free port is looked for
_MOMENT = 0.5  # seconds until the browser is opened


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens on this machine alone; port 0 is a free one, near 8000 if there is.

    An InputError names an address that other machines could reach, or a port that is taken.
    """
    check_loopback(host)
    address = "127.0.0.1" if host == "localhost" else host
    for each in (*_USUAL, 0) if port == 0 else (port,):
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        made = socket.socket(family, socket.SOCK_STREAM)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            made.bind((address, each))
            made.listen()
        except OSError as error:
            made.close()
            problem = error
        else:
            return made
    raise InputError(f"port {port} on {host} cannot be used: {problem.strerror or problem}")


def check_loopback(host: str) -> None:
    """Refuse an address that other machines could reach.

    Examples
    --------
    >>> check_loopback("0.0.0.0")
    Traceback (most recent call last):
    ...
    meritfair.core.errors.InputError: host must be this machine itself (127.0.0.1, ::1 or localhost), got '0.0.0.0'
    """
    with suppress(ValueError):
        if host == "localhost" or ipaddress.ip_address(host).is_loopback:
            return
    raise InputError(f"host must be this machine itself (127.0.0.1, ::1 or localhost), got {host!r}")


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
