"""Two servers on one store: whichever is asked, forms, sessions, long work and uploads are the same."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from meritfair.programme.storage.store import Store
from meritfair.programme.users import Role, Users
from meritfair.web.access import COOKIE
from programme.clinics import clinic
from web.clients import TestClient, Web, serving
from web.server import RunningServer, running_server

pytestmark = pytest.mark.slow
API = "/api/v1/programmes/calls"
PATIENCE = 120.0


@pytest.fixture
def servers(store_url: str, tmp_path: Path) -> tuple[Web, Web]:
    """Two servers, with run folders and random keys of their own, of which only the second does long work."""
    made = clinic(store_url)
    made.play()
    first = serving(store_url, tmp_path / "first", job_process=True)
    return first, serving(store_url, tmp_path / "second")


def both(servers: tuple[Web, Web], name: str, role: Role) -> tuple[TestClient, TestClient]:
    """Return a browser at each server, in which one session of a user was begun at the first."""
    first, second = servers
    one, other = first.browser(name, {"*": role}), second.anyone()
    other.cookies.set(COOKIE, one.cookies[COOKIE])
    for each in (one, other):
        each.headers.pop("X-CSRF-Token", None)
    return one, other


def csrf_in(page: str) -> str:
    found = re.search(r'name="csrf" value="([0-9a-f]{64})"', page)
    assert found is not None
    return found[1]


def settled(client: Any, address: str, **how: Any) -> Any:
    """Return what a job comes to."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        found = client.get(address, **how).json()
        if found["state"] not in ("waiting", "running"):
            return found
        time.sleep(0.1)
    raise AssertionError(found)


def test_a_form_of_one_is_taken_by_the_other(servers: tuple[Web, Web]) -> None:
    one, other = both(servers, "Ada", Role.ADMIN)
    page = one.get("/p/calls/ledger")
    assert page.status_code == 200
    answer = other.post("/p/calls/ledger/verify", data={"csrf": csrf_in(page.text)})
    assert answer.status_code == 303
    assert other.get("/me").status_code == 200
    wrong = other.post("/p/calls/ledger/verify", data={"csrf": "0" * 64})
    assert wrong.status_code == 403


def test_a_job_that_one_was_asked_is_read_at_the_other(servers: tuple[Web, Web]) -> None:
    one = servers[0].program("Ada", {"*": Role.AUDITOR})
    other = servers[1].anyone()
    other.headers["Authorization"] = one.headers["Authorization"]
    asked = one.post(f"{API}/exports")
    assert asked.status_code == 202
    assert other.post(f"{API}/exports").json()["id"] == asked.json()["id"], "the second does the work"
    done = settled(one, asked.headers["location"])
    assert done["state"] == "done"
    files = [client.get(done["file"]) for client in (one, other)]
    assert files[0].content[:2] == b"PK"
    assert files[0].content == files[1].content
    assert int(files[0].headers["content-length"]) == len(files[0].content)


def test_a_file_that_was_uploaded_to_one_is_confirmed_at_the_other(servers: tuple[Web, Web]) -> None:
    one, other = both(servers, "Ada", Role.COORDINATOR)
    token = csrf_in(one.get("/p/calls/people/upload").text)
    page = one.post("/p/calls/uploads", data={"kind": "enrol", "csrf": token}, files={"file": ("a.csv", "id\nnew\n")})
    place = re.search(r"/p/calls/uploads/[\w-]{32}", page.text)
    assert place is not None, page.text
    answer = other.post(place[0], data={"csrf": csrf_in(page.text)})
    assert answer.headers["location"] == "/p/calls/people?did=enrol&n=1"


def test_nobody_can_keep_others_from_verifying(servers: tuple[Web, Web]) -> None:
    first = servers[0]
    viewer, auditor = first.program("Vic", {"*": Role.VIEWER}), first.program("Ann", {"*": Role.AUDITOR})
    asked = [viewer.post(f"{API}/whatif", json={"budgets": [k], "rounds": 5}) for k in range(1, 13)]
    assert [each.status_code for each in asked] == [202] * 6 + [429] * 6
    refused = asked[-1]
    assert refused.headers["retry-after"] == "10"
    assert refused.headers["content-type"] == "application/problem+json"
    assert "wait for one of them, or cancel one" in refused.json()["detail"]
    assert auditor.post(f"{API}/verifications").status_code == 202
    own = asked[0].headers["location"]
    assert auditor.post(f"{own}/cancel").status_code == 403
    assert viewer.post(f"{own}/cancel").json()["state"] == "cancelled"
    assert viewer.post(f"{own}/cancel").status_code == 409
    assert viewer.post(f"{API}/whatif", json={"budgets": [7], "rounds": 5}).status_code == 202
    admin = first.program("Ada", {"*": Role.ADMIN})
    assert admin.post(f"{asked[1].headers['location']}/cancel").json()["state"] == "cancelled"
    again = viewer.post(f"{API}/whatif", json={"budgets": [2], "rounds": 5})
    assert (again.status_code, again.json()["state"]) == (202, "waiting"), "who asks after that wants it"


def test_pages_say_what_is_under_way_and_let_it_be_cancelled(
    servers: tuple[Web, Web], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("meritfair.web.pages.jobs._SMALL", 0)
    viewer = servers[0].browser("Vic", {"*": Role.VIEWER})
    page = viewer.get("/p/calls/fairness").text
    found = re.search(r'action="(/p/calls/jobs/\w+)/cancel"', page)
    assert found is not None
    other = servers[0].browser("Wes", {"*": Role.VIEWER})
    assert f"{found[1]}/cancel" not in other.get(found[1]).text, "it is not theirs"
    assert other.post(f"{found[1]}/cancel").status_code == 403
    assert "This was cancelled." in viewer.post(f"{found[1]}/cancel").text
    assert "Begin again" in viewer.get("/p/calls/fairness").text
    assert "<progress" in viewer.post(f"{found[1]}/again").text
    for budget in range(1, 6):
        servers[0].frame.jobs.ask("whatif", "calls", {"budgets": [budget]}, by="Vic")
    page = viewer.get("/p/calls/learning").text
    assert "6 things that you have asked for are still being worked out" in page
    refused = viewer.post("/p/calls/fairness/board")
    assert refused.status_code == 429
    assert "wait for one of them, or cancel one" in refused.text


def at(server: RunningServer, session: str) -> httpx.Client:
    return httpx.Client(base_url=server.address, cookies={COOKIE: session}, timeout=60)


def test_two_servers_in_processes_of_their_own(store_url: str) -> None:
    clinic(store_url).play()
    users = Users(Store(store_url))
    users.add("Ada", {"*": Role.ADMIN}, by="test")
    session = users.use_link(users.link("Ada", by="test"))
    with running_server(store_url) as first, running_server(store_url) as second:
        one, other = at(first, session), at(second, session)
        with one, other:
            page = one.get("/p/calls/ledger")
            assert page.status_code == 200
            answer = other.post("/p/calls/ledger/verify", data={"csrf": csrf_in(page.text)})
            assert answer.status_code == 303, answer.text
            end = time.monotonic() + PATIENCE
            while "The ledger is whole." not in (shown := one.get("/p/calls/ledger").text):
                assert time.monotonic() < end, shown
                time.sleep(0.2)
