"""No one in who does not belong: every operation of the API for nobody, another programme, and each role.

Operations are taken from the description, which follows from the routes, so a new one cannot be missed.
"""

from __future__ import annotations

from typing import Any

import pytest
from fastapi.routing import iter_route_contexts

from meritfair.programme.users import Role
from programme.clinics import clinic
from web.clients import TestClient, Web, serving

pytestmark = pytest.mark.slow

PLACES = {"programme": "calls", "number": "1", "job": "0" * 32}
UNCHANGED = {"If-Match": '"0"', "Content-Type": "application/json"}  # refused after it is known that one may
OPEN = {"get_health", "get_readiness", "get_metrics"}  # for whoever watches over the server
MAY = {  # the least role of each operation, as it was decided
    "": {"list_programmes", *OPEN},
    "viewer": {"get_programme", "list_rounds", "get_head", "audit", "effect", "what_if", "get_job", "cancel_job"},
    "auditor": {
        *("list_participants", "get_participant", "explain_participant", "get_proof", "list_accounts", "get_round"),
        *("preview_round", "list_entries", "verify", "export", "get_job_file"),
    },
    "coordinator": {
        *("enrol_participants", "withdraw_participants", "mark_away", "mark_back", "draw_round", "report_outcomes"),
        *("correct_outcomes", "close_round"),
    },
    "admin": {"create_programme", "change_settings", "end_programme", "erase_participant"},
}


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Web:
    folder = tmp_path_factory.mktemp("server")
    url = f"sqlite:///{folder / 'programmes.db'}"
    clinic(url).play()
    clinic(url, name="other")
    made = serving(url, folder)
    for role in Role:
        made.users.add(role.word, {"calls": role}, by="test")
        made.users.add(f"{role.word} of all", {"*": role}, by="test")
    made.users.add("stranger", {"other": Role.ADMIN}, by="test")
    return made


@pytest.fixture(scope="module")
def programs(web: Web) -> dict[str, TestClient]:
    """A program with a token of each user."""
    return {user.name: web.program(user.name) for user in web.users.all()}


def operations(web: Web) -> dict[str, tuple[str, str, dict[str, Any]]]:
    """Return method, address and description of every operation, by name."""
    found = {}
    for path, methods in web.app.openapi()["paths"].items():
        for method, said in methods.items():
            found[said["operationId"]] = method.upper(), path.format(**PLACES), said
    return found


def send(client: TestClient, method: str, path: str) -> Any:
    return client.request(method, path, headers=UNCHANGED)


def test_every_route_is_described_with_its_role(web: Web) -> None:
    described = web.app.openapi()["paths"]
    routes = [each for each in iter_route_contexts(web.app.routes) if (each.path or "").startswith("/api/")]
    assert len(routes) > 30
    for route in routes:
        if route.path == "/api/v1/openapi.json":
            continue
        for method in route.methods or ():
            assert "x-role" in described[route.path_format][method.lower()], (method, route.path)


def test_roles_are_those_that_were_decided(web: Web) -> None:
    described = {name: said.get("x-role", "") for name, (*_, said) in operations(web).items()}
    assert described == {name: role for role, names in MAY.items() for name in names}


def test_nobody_gets_in_without_a_token(web: Web) -> None:
    for place, (name, (method, path, _)) in enumerate(operations(web).items()):
        if name in OPEN - {"get_metrics"}:
            continue
        client = web.anyone(f"192.0.2.{place + 1}")  # an address of its own: guessing is slowed down
        for token in ("", "Bearer mf_wrong", "Basic mf_wrong", "Bearer"):
            client.headers["Authorization"] = token
            answer = send(client, method, path)
            assert answer.status_code == 401, (name, token)
            assert answer.headers["content-type"] == "application/problem+json", name
            assert answer.headers["www-authenticate"] == "Bearer"


def test_a_session_of_a_browser_does_not_serve(web: Web) -> None:
    browser = web.browser("admin of all")
    assert browser.get("/api/v1/programmes").status_code == 401


def test_another_programme_does_not_exist(web: Web, programs: dict[str, TestClient]) -> None:
    for name, (method, path, said) in operations(web).items():
        if "{programme}" not in path and not said.get("x-programme"):
            continue
        answer = send(programs["stranger"], method, path)
        missing = send(programs["stranger"], method, path.replace("calls", "nothing"))
        assert (answer.status_code, missing.status_code) == (404, 404), name
        assert answer.json()["detail"].replace("calls", "nothing") == missing.json()["detail"]  # as if it did not exist


def test_each_role_may_do_what_it_may(web: Web, programs: dict[str, TestClient]) -> None:
    checked = 0
    for name, (method, path, said) in operations(web).items():
        if name in OPEN:
            continue
        needed = Role.named(said["x-role"]) if said["x-role"] else Role.VIEWER
        for role in Role:
            answer = send(programs[role.word if said["x-programme"] else f"{role.word} of all"], method, path)
            if role < needed:
                assert answer.status_code == 403, (name, role, answer.text)
                assert needed.word in answer.json()["detail"]
            else:
                assert answer.status_code not in (401, 403), (name, role, answer.text)
                assert answer.status_code < 500, (name, role, answer.text)
            checked += 1
    assert checked > 100
    assert len(web.frame.reader.look("calls").entry_lines(0, 99)) == 6  # nothing of it has changed anything


def test_creating_needs_a_role_for_all_programmes(programs: dict[str, TestClient]) -> None:
    body = {"name": "new", "budget": 1}
    assert programs["admin"].post("/api/v1/programmes", json=body).status_code == 403
    assert programs["admin of all"].post("/api/v1/programmes", json=body).status_code == 201


def test_lists_show_only_programmes_that_one_has_a_role_in(programs: dict[str, TestClient]) -> None:
    def names(user: str) -> set[str]:
        return {each["name"] for each in programs[user].get("/api/v1/programmes").json()["programmes"]}

    assert names("viewer") == {"calls"}
    assert names("stranger") == {"other"}
    assert names("viewer of all") >= {"calls", "other"}


def test_a_limited_token_does_no_more(web: Web) -> None:
    limited = web.program("admin of all", role=Role.VIEWER, programme="calls")
    assert limited.get("/api/v1/programmes/calls").status_code == 200
    assert limited.get("/api/v1/programmes/calls/participants").status_code == 403
    assert limited.get("/api/v1/programmes/other").status_code == 404


def test_guessing_tokens_is_slowed_down(web: Web) -> None:
    client = web.anyone("198.51.100.7")
    client.headers["Authorization"] = "Bearer mf_guess"
    answers = [client.get("/api/v1/programmes") for _ in range(200)]
    assert answers[0].status_code == 401
    assert answers[-1].status_code == 429
    assert answers[-1].headers["content-type"] == "application/problem+json"
    assert int(answers[-1].headers["retry-after"]) > 0


def test_viewers_are_told_of_nobody(web: Web, programs: dict[str, TestClient]) -> None:
    """What a viewer can read has no id in it, and does not say whose waits they are."""
    for name in ("get_programme", "list_rounds", "get_head", "audit", "effect"):
        method, path, _ = operations(web)[name]
        answer = programs["viewer"].request(method, path)
        while answer.status_code == 202:
            answer = programs["viewer"].request(method, path)
        assert answer.status_code == 200, (name, answer.text)
        assert not any(f'"p{number}"' in answer.text for number in range(12)), name
        assert not any("number" in each for each in answer.json().get("waits", ())), name
