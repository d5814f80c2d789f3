"""Requests that are sent again, or too late: keys, and tags of what was read."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from meritfair.programme.users import Role
from programme.clinics import clinic
from web.clients import TestClient, Web, serving

pytestmark = pytest.mark.slow

P = "/api/v1/programmes"
OTHER = {"participants": [{"id": "other"}]}


@pytest.fixture
def web(store_url: str, tmp_path: Path) -> Web:
    clinic(store_url)
    return serving(store_url, tmp_path)


@pytest.fixture
def ada(web: Web) -> TestClient:
    return web.program("Ada", {"*": Role.ADMIN})


def _nothing(_: TestClient) -> None:
    pass


def _draw(ada: TestClient) -> None:
    ada.post(f"{P}/calls/rounds")


def _report(ada: TestClient) -> None:
    _draw(ada)
    ada.post(f"{P}/calls/rounds/1/outcomes", json={"outcomes": [{"id": "p0", "state": 1}]})


def _withdraw(ada: TestClient) -> None:
    ada.post(f"{P}/calls/participants/withdraw", json={"ids": ["p3", "p4"]})


@dataclass(frozen=True)
class Write:
    """A request that changes something, and another one that must not take its key."""

    method: str
    path: str
    body: Any
    other: Any
    other_path: str = ""
    before: Callable[[TestClient], None] = _nothing
    entries: int = 1


WRITES = {  # by operation
    "create_programme": Write("POST", P, {"name": "new", "budget": 1}, {"name": "new", "budget": 2}),
    "change_settings": Write(
        "PATCH", f"{P}/calls/settings", {"budget": 4, "reason": "a"}, {"budget": 5, "reason": "a"}
    ),
    "end_programme": Write("POST", f"{P}/calls/end", None, OTHER, f"{P}/calls/participants"),
    "enrol_participants": Write("POST", f"{P}/calls/participants", {"participants": [{"id": "new"}]}, OTHER),
    "withdraw_participants": Write("POST", f"{P}/calls/participants/withdraw", {"ids": ["p1"]}, {"ids": ["p2"]}),
    "mark_away": Write("POST", f"{P}/calls/participants/away", {"ids": ["p1"]}, {"ids": ["p2"]}),
    "mark_back": Write(
        *("POST", f"{P}/calls/participants/back", {"ids": ["p1"]}, {"ids": ["p1"]}),
        other_path=f"{P}/calls/participants/away",
        entries=0,
    ),
    "erase_participant": Write(
        "DELETE", f"{P}/calls/participants/3", None, None, f"{P}/calls/participants/4", before=_withdraw
    ),
    "draw_round": Write("POST", f"{P}/calls/rounds", None, {"budget": 2}, entries=2),
    "report_outcomes": Write(
        *("POST", f"{P}/calls/rounds/1/outcomes"),
        *({"outcomes": [{"id": "p0", "state": 1}]}, {"outcomes": [{"id": "p0", "state": 0}]}),
        before=_draw,
    ),
    "correct_outcomes": Write(
        *("PATCH", f"{P}/calls/rounds/1/outcomes"),
        {"outcomes": [{"id": "p0", "state": 0}], "reason": "wrong"},
        {"outcomes": [{"id": "p0", "state": 0}], "reason": "other"},
        before=_report,
    ),
    "close_round": Write("POST", f"{P}/calls/rounds/1/close", None, OTHER, f"{P}/calls/participants", before=_draw),
}


def _send(client: TestClient, method: str, path: str, body: Any, key: str = "k") -> Any:
    content = {} if body is None else {"json": body}
    return client.request(method, path, headers={"Idempotency-Key": key}, **content)


def _entries(client: TestClient) -> int:
    return sum(client.get(f"{P}/{each['name']}").json()["entries"] for each in client.get(P).json()["programmes"])


def test_every_write_takes_a_key(web: Web) -> None:
    keyed = {
        said["operationId"]
        for methods in web.app.openapi()["paths"].values()
        for said in methods.values()
        if any(each["name"] == "idempotency-key" for each in said.get("parameters", ()))
    }
    assert keyed == set(WRITES)
    reads = {"GET"} | {f"POST {P}/{{programme}}/{name}" for name in ("verifications", "exports", "whatif")}  # jobs
    reads.add(f"POST {P}/{{programme}}/jobs/{{job}}/cancel")
    for path, methods in web.app.openapi()["paths"].items():
        for method, said in methods.items():
            if not {method.upper(), f"{method.upper()} {path}"} & reads:
                assert said["operationId"] in keyed


@pytest.mark.parametrize("name", WRITES)
def test_a_write_that_is_sent_three_times_has_one_effect(name: str, web: Web, ada: TestClient) -> None:
    write = WRITES[name]
    write.before(ada)
    length = _entries(ada)
    answers = [_send(ada, write.method, write.path, write.body) for _ in range(3)]
    assert answers[0].status_code in (200, 201), answers[0].text
    assert [each.json() for each in answers[1:]] == [answers[0].json()] * 2
    assert [each.status_code for each in answers[1:]] == [answers[0].status_code] * 2
    assert _entries(ada) - length == write.entries
    same = _send(ada, write.method, write.other_path or write.path, write.other)
    assert same.status_code == 409, same.text
    assert "Idempotency-Key" in same.json()["detail"]
    assert _entries(ada) - length == write.entries


def test_keys_are_those_of_one_user(web: Web, ada: TestClient) -> None:
    bea = web.program("Bea", {"*": Role.ADMIN})
    first = _send(ada, "POST", f"{P}/calls/participants", {"participants": [{"id": "x"}]})
    second = _send(bea, "POST", f"{P}/calls/participants", {"participants": [{"id": "y"}]})
    assert (first.status_code, second.status_code) == (200, 200)


def test_ten_who_ask_for_the_same_round_get_the_same(web: Web) -> None:
    clients = [web.program(f"user {k}", {"calls": Role.COORDINATOR}) for k in range(10)]
    with ThreadPoolExecutor(10) as pool:
        answers = list(pool.map(lambda each: each.post(f"{P}/calls/rounds"), clients))
    assert {each.status_code for each in answers} == {200}
    assert len({each.text for each in answers}) == 1
    assert len(answers[0].json()["outcomes"]) == 3


@pytest.mark.parametrize("key", ["", " ", "x" * 201, "a b", "é".encode().decode("latin-1")])
def test_keys_that_cannot_be_kept_are_refused(ada: TestClient, key: str) -> None:
    raw = {b"Idempotency-Key": key.encode("latin-1"), b"Content-Type": b"application/json"}
    answer = ada.post(f"{P}/calls/rounds", headers=raw, content="{}")
    assert answer.status_code == 422
    assert ada.get(f"{P}/calls").json()["round"] == 0


def test_what_has_not_changed_is_not_sent_again(web: Web, ada: TestClient) -> None:
    for path in ("", "/participants", "/participants/1", "/participants/1/report", "/accounts", "/ledger", "/rounds"):
        first = ada.get(f"{P}/calls{path}")
        tag = first.headers["etag"]
        assert tag.startswith(f'"{web.frame.reader.look("calls").head}-')
        for sent in (tag, f"W/{tag}", f'"other", {tag}'):
            again = ada.get(f"{P}/calls{path}", headers={"If-None-Match": sent})
            assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
        assert ada.get(f"{P}/calls{path}", headers={"If-None-Match": '"other"'}).status_code == 200
        assert first.headers["cache-control"] == "private, no-cache"
    tag = ada.get(f"{P}/calls/accounts").headers["etag"]
    asked = {"If-None-Match": tag, "Accept": "text/csv"}
    assert ada.get(f"{P}/calls/accounts", headers=asked).status_code == 200  # another representation
    assert ada.get(f"{P}/calls/accounts?limit=1", headers={"If-None-Match": tag}).status_code == 200
    ada.post(f"{P}/calls/rounds")
    assert ada.get(f"{P}/calls/accounts", headers={"If-None-Match": tag}).status_code == 200


def test_a_tag_is_no_way_in(web: Web, ada: TestClient) -> None:
    tag = ada.get(f"{P}/calls/participants").headers["etag"]
    assert web.anyone().get(f"{P}/calls/participants", headers={"If-None-Match": tag}).status_code == 401
    viewer = web.program("Vic", {"calls": Role.VIEWER})
    assert viewer.get(f"{P}/calls/participants", headers={"If-None-Match": tag}).status_code == 403


def test_a_write_is_refused_if_something_was_entered_meanwhile(web: Web, ada: TestClient) -> None:
    tag = ada.get(f"{P}/calls").headers["etag"]
    bea = web.program("Bea", {"*": Role.ADMIN})
    first = {"If-Match": tag, "Idempotency-Key": "k"}
    body = {"ids": ["p1"]}
    assert ada.post(f"{P}/calls/participants/away", json=body, headers=first).status_code == 200
    assert ada.post(f"{P}/calls/participants/away", json=body, headers=first).status_code == 200  # sent again
    late = bea.post(f"{P}/calls/participants/away", json={"ids": ["p2"]}, headers={"If-Match": tag})
    assert late.status_code == 412
    assert late.headers["content-type"] == "application/problem+json"
    assert ada.get(f"{P}/calls").json()["away"] == 1
    fresh = ada.get(f"{P}/calls/rounds").headers["etag"]
    for id_, tag in (("p2", fresh), ("p3", "*")):
        answer = bea.post(f"{P}/calls/participants/away", json={"ids": [id_]}, headers={"If-Match": tag})
        assert answer.status_code == 200
