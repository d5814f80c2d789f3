"""`meritfair serve`: programmes for a team, in the browser and over HTTP."""

from __future__ import annotations

import os
import shlex
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

from meritfair.cli.options import flag, text, whole
from meritfair.cli.programme.common import StoreOption
from meritfair.cli.show import say
from meritfair.core.errors import InputError, MissingExtraError
from meritfair.web.listening import is_loopback

if TYPE_CHECKING:
    from meritfair.programme.users import FirstSignIn
    from meritfair.web.processes import Tls
    from meritfair.web.settings import ServerSettings

EXAMPLES = """A simulated clinic to look around in: [cyan]meritfair serve --demo[/]

On your own machine: [cyan]meritfair serve --store calls.db[/]

For a team, behind a proxy that speaks https:

[cyan]meritfair serve --store postgresql://meritfair@db/meritfair --workers 2 --url https://calls.example.org[/]"""

_NETWORK = "Network"
_MOST_WORKERS = 64


def serve(
    store: StoreOption = None,
    demo: Annotated[bool, flag("--demo", "Show a simulated clinic, which is gone when the server stops.")] = False,
    workers: Annotated[int, whole("--workers", help="How many processes answer.")] = 1,
    host: Annotated[str, text("--host", metavar="ADDRESS", help="Where to listen.", panel=_NETWORK)] = "127.0.0.1",
    port: Annotated[int, whole("--port", help="On which port; 0 for a free one.", panel=_NETWORK)] = 8000,
    url: Annotated[
        str,
        text(
            "--url",
            metavar="URL",
            help="The address by which people reach it, such as [cyan]https://calls.example.org[/]; needed if others "
            "than this machine do.",
            panel=_NETWORK,
        ),
    ] = "",
    tls_cert: Annotated[
        str, text("--tls-cert", metavar="FILE", help="A certificate, to speak https without a proxy.", panel=_NETWORK)
    ] = "",
    tls_key: Annotated[str, text("--tls-key", metavar="FILE", help="Its private key.", panel=_NETWORK)] = "",
) -> None:
    """Serve the programmes of a store to a team: pages for the browser, and an HTTP API."""
    _check_extra()
    check_address(host, port, url, demo=demo)
    if demo and store not in (None, os.environ.get("MERITFAIR_STORE")):
        raise InputError("--demo has a store of its own: leave --store away")
    if not 1 <= workers <= _MOST_WORKERS:
        raise InputError(f"--workers must be between 1 and {_MOST_WORKERS}, got {workers}")
    tls = _tls(tls_cert, tls_key)
    _run(store or "", host, port, url, workers, demo, tls)


def _run(store: str, host: str, port: int, url: str, workers: int, demo: bool, tls: Tls | None) -> None:
    import tempfile

    from meritfair.web.listening import listen
    from meritfair.web.logs import write_logs
    from meritfair.web.serving import Supervisor
    from meritfair.web.settings import ServerSettings

    listening = listen(host, port, next_free=demo)
    port = listening.getsockname()[1]
    if tls is not None and not url:
        url = ServerSettings(host=host, port=port).address.replace("http://", "https://")
    settings = ServerSettings(store, host, port, url, workers, demo)
    first = None if demo else _first_sign_in(settings)
    folder = tempfile.mkdtemp(prefix="meritfair-serve-")  # which nobody else may look into
    settings = replace(settings, run_folder=folder, job_process=True, store=f"{folder}/demo.db" if demo else store)
    write_logs()
    supervisor = Supervisor(settings, listening, tls)
    if not supervisor.run(lambda: _tell(settings, first)):
        raise InputError("the server could not start: what is wrong is told above")


def check_address(host: str, port: int, url: str, *, demo: bool) -> None:
    """Refuse an address where strangers could come in, or that does not exist."""
    if not 0 <= port <= 65_535:
        raise InputError(f"--port must be between 0 and 65535, got {port}")
    if url:
        _check_url(url)
    if is_loopback(host):
        return
    if demo:
        raise InputError(f"--demo lets everyone in, so --host must be 127.0.0.1, got {host!r}")
    if not url:
        raise InputError(
            f"--host {host} can be reached from elsewhere: say by which address, such as --url https://calls.example.org"
        )


def _check_url(url: str) -> None:
    found = urlsplit(url)
    plain = not (found.query or found.fragment or found.username or found.path.strip("/"))
    if found.scheme not in ("http", "https") or not found.hostname or not plain:
        raise InputError(f"--url must be an address such as https://calls.example.org, without a path, got {url!r}")
    if found.scheme == "http" and not is_loopback(found.hostname):
        say("Passwords and names will cross the network for anyone to read: --url should begin with https.", err=True)


def _tls(certificate: str, key: str) -> Tls | None:
    from pathlib import Path

    from meritfair.web.processes import Tls

    if not certificate and not key:
        return None
    if not certificate or not key:
        raise InputError("https needs both --tls-cert and --tls-key")
    for option, file in (("--tls-cert", certificate), ("--tls-key", key)):
        if not Path(file).is_file():
            raise InputError(f"{option}: there is no file {file}")
    return Tls(certificate, key)


def _first_sign_in(settings: ServerSettings) -> FirstSignIn | None:
    """Open the store, so that what is wrong with it is told first; return how the first user signs in.

    A link is made for a terminal alone: whatever else is printed to (a journal, a file) is kept, and may be read by
    others.
    """
    from meritfair.programme.storage.store import Store
    from meritfair.programme.users import Users

    store = Store(settings.store or None)
    try:
        return Users(store).first_sign_in(make_link=sys.stdout.isatty())
    finally:
        store.close()


def _tell(settings: ServerSettings, first: FirstSignIn | None) -> None:
    say(f"Open {settings.address}" + (" to look at a simulated clinic." if settings.demo else ""))
    if first is not None:
        say(_how_to_sign_in(settings, first))
    say("Ctrl-C stops the server.")


def _how_to_sign_in(settings: ServerSettings, first: FirstSignIn) -> str:
    if first.link:
        link = settings.sign_in_link(first.link)
        return f"Nobody has signed in yet. This link signs the first user in, once, within a day: {link}"
    command = f"meritfair users link {shlex.quote(first.name)} --url {settings.address}"
    if first.until:
        return (
            f"Nobody has signed in yet. {first.name} has a link that can be used until {first.until}. If it is lost, "
            f"make another one: {command}"
        )
    return f"Nobody has signed in yet. For a link that signs the first user in, once, within a day: {command}"


def _check_extra() -> None:
    from importlib.util import find_spec

    if not all(map(find_spec, ("fastapi", "uvicorn", "argon2", "babel"))):
        raise MissingExtraError("the server", "web")
