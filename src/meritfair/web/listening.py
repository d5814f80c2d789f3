"""Where a server listens: its socket, and whether that is for this machine alone."""

from __future__ import annotations

import ipaddress
import socket
from contextlib import suppress

from meritfair.core.errors import InputError

_PORTS = 20  # that are tried, one after the other


def is_loopback(host: str) -> bool:
    """Return whether only this machine itself can reach an address.

    Examples
    --------
    >>> is_loopback("localhost"), is_loopback("127.0.0.5"), is_loopback("::1"), is_loopback("0.0.0.0")
    (True, True, True, False)
    """
    with suppress(ValueError):
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    return False


def listen(host: str, port: int, *, next_free: bool = False) -> socket.socket:
    """Return a socket that listens; with `next_free` on one of the next ports if this one is taken."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except OSError:
        raise InputError(f"--host must be an address of this machine, got {host!r}") from None
    last = min(port + _PORTS, 65_536) if next_free and port else port + 1
    for each in range(port, last):
        made = socket.socket(family, kind, protocol)
        try:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.bind((address[0], each, *address[2:]))
            made.listen(2048)
            return made
        except OSError as error:
            made.close()
            if each == last - 1:
                raise InputError(_no_port(host, port, last - 1, error)) from None
    raise AssertionError("there is no port")


def _no_port(host: str, first: int, last: int, error: OSError) -> str:
    which = f"port {first}" if first == last else f"none of the ports {first} to {last}"
    return f"cannot listen on {host}, {which} ({error.strerror}): is a server running already? --port names another"
