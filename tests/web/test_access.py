"""No one in who does not belong: every page for nobody, for the wrong role and for another programme."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.routing import RouteContext, iter_route_contexts
from starlette.responses import PlainTextResponse

import meritfair as mf
from meritfair.programme import Outcomes, People
from meritfair.programme.users import Role
from meritfair.web.access import COOKIE, NeedsRole, NeedsSignIn, check_csrf
from meritfair.web.middleware import POLICY, BodyBounds, BodyLimit
from programme.clinics import clinic
from programme.quick_hashes import quick_hashes as quick_hashes
from web.clients import ADDRESS, TestClient, Web, serving

pytestmark = pytest.mark.slow

# For those who are not signed in yet, and for programs that watch the server.
OPEN = {"/sign-in", "/sign-in/link", "/language", "/healthz", "/readyz", "/metrics"}
SECRET = "participant-"  # begins the ids of some people
FOREIGN = [
    {"sec-fetch-site": "cross-site"},
    {"sec-fetch-site": "same-site"},
    {"origin": "https://example.org"},
    {"origin": "null"},
]


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Web:
    """A server with two programmes, and a user of each kind."""
    folder = tmp_path_factory.mktemp("server")
    url = f"sqlite:///{folder / 'programmes.db'}"
    people = People([f"{SECRET}{number}" for number in range(12)], ["north", "south"] * 6)
    calls = mf.programme.open(url, "calls")
    calls.create(3, by="Ada")
    calls.enrol(people, by="Ada")
    for after in (0, 1):
        drawn = [each.number for each in calls.draw(by="Ada").people]
        actions = [int(number in drawn) for number in range(12)]
        calls.report(Outcomes(people.ids, actions, [after] * 12, [0] * 12), by="Ada")
        calls.close(by="Ada")
    calls.draw(by="Ada")
    clinic(url, name="other")
    web = serving(url, folder)
    for role in Role:
        web.users.add(role.word, {"calls": role}, by="test")
        web.users.add(f"{role.word} of all", {"*": role}, by="test")
    web.users.add("stranger", {"other": Role.ADMIN}, by="test")
    web.users.add("nobody", {}, by="test")
    return web


@pytest.fixture(scope="module")
def browsers(web: Web) -> dict[str, TestClient]:
    """A browser of each user."""
    return {user.name: web.browser(user.name) for user in web.users.all()}


def page_routes(web: Web) -> list[tuple[str, str, RouteContext]]:
    """Return method, path and route of every page, but not of what is open to all."""
    found = []
    for route in iter_route_contexts(web.app.routes):
        path = route.path or ""
        if not path.startswith(("/api/", "/static")) and path not in OPEN:
            found += [(method, path, route) for method in sorted(route.methods or ()) if method != "HEAD"]
    return found


def guard_of(route: RouteContext) -> NeedsRole | NeedsSignIn:
    """Return what keeps those out who may not use a route: there must be exactly one."""
    assert route.dependant is not None
    (guard,) = [each.call for each in route.dependant.dependencies if isinstance(each.call, (NeedsRole, NeedsSignIn))]
    return guard


def ask(client: TestClient, method: str, path: str, **headers: str) -> Any:
    """Ask for a route, with something for each of its parameters."""
    address = re.sub(r"\{[^}]+\}", "0", path.replace("{programme}", "calls"))
    return client.request(method, address, headers=headers)


def test_every_page_has_one_guard_and_those_of_programmes_need_a_role_in_them(web: Web) -> None:
    routes = page_routes(web)
    assert {path for _, path, _ in routes} >= {"/me", "/users", "/sign-out"}
    for _, path, route in routes:
        assert isinstance(guard_of(route), NeedsRole) == ("{programme}" in path), path


def test_nobody_is_sent_to_sign_in(web: Web) -> None:
    client = web.anyone("192.0.2.50")
    for method, path, _ in page_routes(web):
        answer = ask(client, method, path, **{"X-CSRF-Token": web.csrf(client)})
        assert answer.status_code == 303, (method, path)
        assert answer.headers["location"].startswith("/sign-in"), (method, path)


def test_a_role_too_low_is_refused(web: Web, browsers: dict[str, TestClient]) -> None:
    tried = 0
    for method, path, route in page_routes(web):
        guard = guard_of(route)
        for role in Role:
            if guard.role is not None and role < guard.role:
                name = role.word if isinstance(guard, NeedsRole) else f"{role.word} of all"
                assert ask(browsers[name], method, path).status_code == 403, (method, path, name)
                tried += 1
    assert tried > 10


def test_viewers_see_nobodys_id(web: Web, browsers: dict[str, TestClient]) -> None:
    seen = 0
    for method, path, route in page_routes(web):
        if method == "GET" and "{programme}" in path:
            viewer, auditor = (ask(browsers[name], method, path) for name in ("viewer", "auditor"))
            assert SECRET not in viewer.text, path
            assert guard_of(route).role == Role.VIEWER or viewer.status_code == 403, path
            seen += SECRET in auditor.text
    assert seen >= 1  # there was something to be seen


def test_admins_of_one_programme_do_not_manage_users(web: Web, browsers: dict[str, TestClient]) -> None:
    for method, path, _ in page_routes(web):
        if path.startswith("/users"):
            assert ask(browsers["admin"], method, path).status_code == 403, (method, path)


def test_another_programme_is_as_if_it_were_not_there(web: Web, browsers: dict[str, TestClient]) -> None:
    for method, path, _ in page_routes(web):
        if "{programme}" in path:
            for name in ("stranger", "nobody"):
                here = ask(browsers[name], method, path)
                assert here.status_code == 404, (method, path, name)
                missing = ask(browsers[name], method, path.replace("{programme}", "missing"))
                assert here.text.replace("calls", "missing") == missing.text, (method, path)


def test_every_change_needs_the_token_of_the_session(web: Web, browsers: dict[str, TestClient]) -> None:
    changes = [(method, path) for method, path, _ in page_routes(web) if method != "GET"]
    assert ("POST", "/users/add") in changes
    before = web.users.all(), web.users.tokens(), web.users.log(), web.frame.reader.look("calls").head
    for method, path in changes:
        for wrong in ("", "0" * 64, web.csrf(browsers["auditor of all"]), web.csrf(web.anyone()), "é"):
            headers = {"X-CSRF-Token": wrong.encode("latin-1")}
            address = re.sub(r"\{[^}]+\}", "0", path.replace("{programme}", "calls"))
            answer = browsers["admin of all"].request(method, address, headers=headers)
            assert answer.status_code == 403, (method, path, wrong)
    assert (web.users.all(), web.users.tokens(), web.users.log(), web.frame.reader.look("calls").head) == before


def test_every_page_route_checks_where_changes_come_from(web: Web) -> None:
    for method, path, route in page_routes(web):
        assert route.dependant is not None
        assert check_csrf in [each.call for each in route.dependant.dependencies], (method, path)


@pytest.mark.parametrize("foreign", FOREIGN, ids=lambda each: str(next(iter(each.values()))))
def test_what_another_site_sends_is_refused(web: Web, browsers: dict[str, TestClient], foreign: dict[str, str]) -> None:
    admin = browsers["admin of all"]
    answer = admin.post("/users/add", data={"name": "Eve", "role": "4"}, headers=foreign)
    assert answer.status_code == 403
    assert "Eve" not in [user.name for user in web.users.all()]
    for path in ("/sign-in", "/sign-in/link", "/language"):  # signing a victim in as someone else
        answer = web.anyone().post(path, data={"name": "x", "language": "de"}, headers=foreign)
        assert answer.status_code == 403, path
        assert "set-cookie" not in answer.headers


def test_pages_take_no_token_and_the_api_no_session(web: Web, browsers: dict[str, TestClient]) -> None:
    program = web.program("admin of all")
    assert program.get("/me").status_code == 303
    assert program.get("/api/v1/programmes").status_code == 200
    assert browsers["admin of all"].get("/api/v1/programmes").status_code == 401


def test_pages_tell_browsers_what_to_refuse(web: Web, browsers: dict[str, TestClient]) -> None:
    admin = browsers["admin of all"]
    for path in ("/sign-in", "/sign-in/link", "/me", "/users", "/none", "/p/none/round"):
        headers = admin.get(path).headers
        assert headers["content-security-policy"] == POLICY
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "same-origin"
        assert headers["cache-control"] == "no-store", path
    assert "unsafe" not in POLICY
    assert "frame-ancestors 'none'" in POLICY
    assert not re.search(r"https?:", POLICY)


def test_pages_have_nothing_inline_and_nothing_from_elsewhere(web: Web, browsers: dict[str, TestClient]) -> None:
    tried = 0
    for method, path, _ in page_routes(web):
        answer = ask(browsers["admin of all"], method, path) if method == "GET" else None
        if answer is None or not answer.headers.get("content-type", "").startswith("text/html"):
            continue
        assert answer.status_code < 500, path
        for tag in re.findall(r"<[a-z][^>]*>", answer.text):
            assert not re.search(r"\s(on\w+|style)=", tag), (path, tag)
            assert not re.search(r"""(src|href|action)=["']?(https?:)?//""", tag), (path, tag)
        assert not re.search(r"<script(?![^>]*\ssrc=)|<style", answer.text), path
        tried += 1
    assert tried >= 2


def test_another_host_is_refused(web: Web) -> None:
    for host in ("example.org", "127.0.0.1.example.org", ""):
        assert web.anyone().get("/sign-in", headers={"host": host}).status_code == 400, host
    for host in ("localhost:8000", "127.0.0.1", "[::1]:8000"):
        assert web.anyone().get("/sign-in", headers={"host": host}).status_code == 200, host


def test_a_body_that_is_too_large_is_refused(web: Web, tmp_path: Path) -> None:
    small = serving(f"sqlite:///{tmp_path / 'x.db'}", tmp_path, max_body=1000)
    assert small.anyone().post("/sign-in", data={"name": "x" * 500}).status_code == 401
    assert small.anyone().post("/sign-in", data={"name": "x" * 2000}).status_code == 413

    def without_length() -> Iterator[bytes]:
        for _ in range(20):
            yield b"name=" + b"x" * 100

    headers = {"content-type": "application/x-www-form-urlencoded"}
    assert small.anyone().post("/sign-in", content=without_length(), headers=headers).status_code == 413
    assert web.anyone().post("/sign-in", data={"name": "x" * 70_000}).status_code == 413  # of somebody unknown
    known = web.browser("nobody").post("/me/tokens", data={"label": "x" * 70_000})
    assert known.status_code == 422


def test_few_large_bodies_are_read_at_once_from_an_address() -> None:
    """Each is kept in memory or on the disk until it is answered."""
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        while (await receive()).get("more_body"):
            pass
        begun.set()
        await go_on.wait()
        await PlainTextResponse("read")(scope, receive, send)

    bounds = BodyBounds(10_000_000, 10_000_000, held_of_address=8_000_100)
    limited = BodyLimit(app, bounds=bounds, known=lambda _: True)

    async def send_one(address: str, size: int) -> int:
        bodies = iter([b"x" * size])
        said = list[Any]()

        async def receive() -> Any:
            body = next(bodies, b"")
            return {"type": "http.request", "body": body, "more_body": bool(body)}

        async def send(message: Any) -> None:
            said.append(message)

        scope = {"type": "http", "method": "POST", "path": "/", "headers": [], "client": (address, 1)}
        await limited(scope, receive, send)
        return int(said[0]["status"])

    async def play() -> None:
        many = [asyncio.create_task(send_one("192.0.2.1", 2_000_000)) for _ in range(4)]
        await begun.wait()
        await asyncio.sleep(0.01)
        assert await send_one("192.0.2.1", 2_000_000) == 429
        others = [asyncio.create_task(send_one("192.0.2.2", 2_000_000)), asyncio.create_task(send_one("192.0.2.1", 9))]
        go_on.set()
        assert await asyncio.gather(*many, *others) == [200] * 6
        assert await send_one("192.0.2.1", 2_000_000) == 200, "there is room again"

    asyncio.run(play())


def test_cookies_cannot_be_read_by_scripts_or_sent_by_other_sites(web: Web, tmp_path: Path) -> None:
    for settings, secure in (({}, False), ({"url": "https://calls.example.org"}, True)):
        there = serving(f"sqlite:///{tmp_path / f'{secure}.db'}", tmp_path, **settings)
        first = there.users.first_sign_in(make_link=True)
        assert first is not None
        client = TestClient(there.app, "https://127.0.0.1:8000", follow_redirects=False)
        sent = client.post("/sign-in/link", data={"link": first.link}).headers["set-cookie"]
        parts = {part.strip().lower() for part in sent.split(";")[1:]}
        assert {"httponly", "samesite=lax", "path=/"} <= parts
        assert ("secure" in parts) == secure
        assert not any(part.startswith("domain") for part in parts)


# Guessing


def guess(client: TestClient, name: str = "viewer", password: str = "wrong password", times: int = 1) -> list[int]:
    data = {"name": name, "password": password}
    return [client.post("/sign-in", data=data).status_code for _ in range(times)]


@pytest.fixture
def quiet(tmp_path: Path, quick_hashes: None) -> Web:
    """A server of its own, with quick hashes, and one user who has a password."""
    web = serving(f"sqlite:///{tmp_path / 'x.db'}", tmp_path)
    web.users.add("viewer", {"*": Role.VIEWER}, by="test")
    web.users.set_password("viewer", "correct horse", by="test")
    return web


def test_guessing_a_password_is_stopped_but_not_its_owner_elsewhere(quiet: Web) -> None:
    assert guess(quiet.anyone(), times=10) == [401] * 10
    answer = quiet.anyone().post("/sign-in", data={"name": "VIEWER ", "password": "correct horse"})
    assert answer.status_code == 429  # even with the right one: nothing is learned
    assert 0 < int(answer.headers["retry-after"]) <= 300
    assert guess(quiet.anyone("192.0.2.2"), password="correct horse") == [303]
    assert guess(quiet.anyone(), "someone else") == [401]  # a name by itself does not stop others


def test_guessing_from_many_addresses_stops_all_but_where_the_owner_was_before(quiet: Web) -> None:
    home = quiet.anyone("198.51.100.1")
    assert guess(home, password="correct horse") == [303]
    for number in range(10):
        assert guess(quiet.anyone(f"192.0.2.{number}"), times=10) == [401] * 10
    assert guess(quiet.anyone("203.0.113.1"), password="correct horse") == [429]
    assert guess(home, password="correct horse") == [303]


def test_trying_many_names_is_stopped(quiet: Web) -> None:
    codes = [guess(quiet.anyone(), f"user {number}")[0] for number in range(61)]
    assert codes == [401] * 60 + [429]


def test_who_signs_in_often_is_not_stopped(quiet: Web) -> None:
    assert guess(quiet.anyone(), password="correct horse", times=70) == [303] * 70
    for _ in range(5):
        assert guess(quiet.anyone(), times=5) == [401] * 5
        assert guess(quiet.anyone(), password="correct horse") == [303]


def test_one_network_is_one_address(quiet: Web) -> None:
    codes = [guess(quiet.anyone(f"2001:db8::{number:x}"))[0] for number in range(11)]
    assert codes == [401] * 10 + [429]
    assert guess(quiet.anyone("2001:db8:0:1::1")) == [401]


def test_guessing_links_sessions_and_tokens_is_stopped(quiet: Web) -> None:
    answers = [quiet.anyone().post("/sign-in/link", data={"link": str(number)}) for number in range(61)]
    assert [each.status_code for each in answers] == [401] * 60 + [429]
    codes = []
    for number in range(61):
        client = quiet.anyone("192.0.2.9")
        client.cookies.set(COOKIE, f"{number}")
        codes.append(client.get("/me").status_code)
    assert codes == [303] * 60 + [429]
    program = quiet.anyone("192.0.2.10")
    codes = [
        program.get("/api/v1/programmes", headers={"Authorization": f"Bearer mf_{number}"}).status_code
        for number in range(61)
    ]
    assert codes == [401] * 60 + [429]
    token = quiet.program("viewer").headers["authorization"]
    assert program.get("/api/v1/programmes", headers={"Authorization": token}).status_code == 200
    right = quiet.browser("viewer")
    right._transport.client = ("192.0.2.9", 5000)
    assert right.get("/me").status_code == 200  # a right one always serves


def test_a_session_that_has_ended_is_forgotten_by_the_browser(quiet: Web) -> None:
    client = quiet.browser("viewer")
    quiet.users.end_session(client.cookies[COOKIE])
    answer = client.get("/me")
    assert answer.status_code == 303
    assert f'{COOKIE}=""' in answer.headers["set-cookie"]


def test_the_workers_share_what_is_allowed(tmp_path: Path) -> None:
    web = serving(f"sqlite:///{tmp_path / 'x.db'}", tmp_path, workers=5)
    assert guess(web.anyone(), times=3) == [401, 401, 429]


def test_no_token_is_in_logs_errors_or_addresses(web: Web, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    link = web.users.link("coordinator", by="test")
    client = web.anyone()
    answers = [
        client.get("/sign-in/link"),
        client.post("/sign-in/link", data={"link": link}),
        client.post("/sign-in/link", data={"link": link}),
        client.get("/me"),
        client.get("/users"),
        client.get("/p/none/round"),
        client.get("/p/calls/none"),
    ]
    assert [each.status_code for each in answers[:4]] == [200, 303, 401, 200]
    session = client.cookies.get(COOKIE)
    assert session
    api = web.program("coordinator")
    token = api.headers["authorization"].removeprefix("Bearer ")
    answers += [api.get("/api/v1/none"), api.get("/api/v1/programmes/none")]
    for secret in (link, session, token):
        assert secret not in caplog.text.replace(ADDRESS, "")
        for answer in answers:
            assert secret not in answer.text
            assert secret not in str(answer.request.url)
            assert secret not in answer.headers.get("location", "")
