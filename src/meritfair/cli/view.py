"""`meritfair view`: a sweep or a reproduction in the browser."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from meritfair.cli.options import flag
from meritfair.cli.show import say
from meritfair.core.errors import MissingExtraError

EXAMPLES = """Play a sweep, and look at it; also while it is still running:

[cyan]meritfair sweep spec.toml --out found[/]
[cyan]meritfair view found[/]

On a machine without a screen, forward the port from your own:

[cyan]meritfair view found --no-browser --port 8000[/]
[cyan]ssh -L 8000:localhost:8000 that-machine[/]"""


def view(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="The folder of a sweep or a reproduction.")],
    host: Annotated[
        str, typer.Option("--host", help="Address of this machine itself; others are refused, as there is no sign-in.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0 is a free one near 8000.")] = 0,
    no_browser: Annotated[bool, flag("--no-browser", "Only print the address.")] = False,
) -> None:
    """Show a sweep or a reproduction in the browser: compare policies, download figures and data.

    It changes nothing, and ends with Ctrl-C.
    """
    if any(find_spec(library) is None for library in ("fastapi", "uvicorn", "babel", "jinja2")):
        raise MissingExtraError("meritfair view", "web")
    from meritfair.web.viewer.app import create_viewer
    from meritfair.web.viewer.serving import address_of, listen_here, serve

    app = create_viewer(folder)
    with listen_here(host, port) as listening:
        say(f"{folder} is shown at {address_of(listening)} (Ctrl-C ends it)")
        serve(app, listening, browser=not no_browser)
