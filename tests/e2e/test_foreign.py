"""A page of another site tries to act in the name of someone who is signed in (reliability 19)."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser

import meritfair as mf
from e2e.browser import watched
from meritfair.programme.users import Role, Users
from programme.clinics import clinic
from web.server import running_server

pytestmark = pytest.mark.slow


@contextmanager
def foreign_site(page: str) -> Iterator[str]:
    """Serve one page from another origin; return its address."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(page.encode())

        def log_message(self, *words: object) -> None: ...

    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://localhost:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()


def form(action: str, **fields: str) -> str:
    """Return a page that sends a form as soon as it is opened."""
    inputs = "".join(f'<input name="{name}" value="{value}">' for name, value in fields.items())
    return f'<form method="post" action="{action}">{inputs}</form><script>document.forms[0].submit()</script>'


@pytest.mark.parametrize("address", ["/p/calls/draw", "/p/calls/people/enrol", "/users/add", "/new", "/sign-out"])
def test_a_form_of_another_site_changes_nothing(chromium: Browser, tmp_path: Path, address: str) -> None:
    store = str(tmp_path / "calls.db")
    clinic(store)
    programme = mf.programme.open(store, "calls")
    users = Users(programme.store)
    users.add("Efua", {"*": Role.ADMIN}, by="test")
    session = users.use_link(users.link("Efua", by="test"))
    head = programme.status().head
    with running_server(store) as server, watched(chromium, server.address) as window:
        cookie = {"name": "meritfair_session", "value": session, "url": server.address, "sameSite": "None"}
        window.context.add_cookies([cookie | {"sameSite": "Lax"}])  # type: ignore[list-item]
        window.go("/p/calls/round")
        assert "/sign-in" not in window.page.url
        fields = {"id": "intruder", "name": "intruder", "number": "1", "key": "k", "csrf": "guess", "role": "4"}
        with foreign_site(form(server.address + address, **fields)) as site:
            window.complaints.clear()
            window.page.goto(site)
            window.page.wait_for_load_state("networkidle")
        assert window.page.url.startswith(server.address), "the form was sent"
        window.complaints.clear()
        window.go("/p/calls/round")
        assert "/sign-in" not in window.page.url, "still signed in"
        window.complaints.clear()
    assert programme.status().head == head
    assert [each.name for each in users.all()] == ["Efua"]
    assert users.session(session) is not None
    assert programme.store.names() == ["calls"]
