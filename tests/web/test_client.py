"""The client against the description of the API and against servers, good ones and bad ones."""

from __future__ import annotations

import json
import re
import types
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, Union, get_args, get_origin, get_type_hints

import httpx
import jsonschema_rs
import pytest

import meritfair as mf
from meritfair.client import Client, NotAllowedError, ServerError, connect
from meritfair.client import results as shown
from meritfair.client.connection import KEYED, ROUTES, Connection
from meritfair.core.errors import InputError, MeritfairError
from meritfair.programme import Outcomes, People
from meritfair.programme.programme import HeadMovedError, KeyConflictError
from meritfair.programme.reporting import Receipt
from meritfair.programme.storage.store import Store, StoreError
from meritfair.programme.users import Role, Users
from programme.clinics import clinic
from web.clients import ADDRESS, TestClient, Web, serving
from web.server import running_server

pytestmark = pytest.mark.slow

RECEIPTS = ("create_programme", "change_settings", "end_programme", "close_round", "report_outcomes", "mark_away")
RESULTS: dict[str, Any] = {  # by operation: what the client makes of its answer, or of each row of it
    **dict.fromkeys((*RECEIPTS, "correct_outcomes", "mark_back", "enrol_participants", "erase_participant"), Receipt),
    "withdraw_participants": Receipt,
    "list_programmes": ("programmes", shown.ProgrammeLine),
    "get_programme": shown.ProgrammeStatus,
    "list_participants": ("participants", shown.Participant),
    "get_participant": shown.Participant,
    "explain_participant": shown.PersonExplained,
    "list_accounts": ("accounts", shown.ParticipantAccount),
    "list_rounds": ("rounds", shown.RoundLine),
    "get_round": shown.RemoteRound,
    "draw_round": shown.RemoteRound,
    "preview_round": shown.Preview,
    "list_entries": ("entries", shown.Entry),
    "get_head": shown.Head,
}
PLAIN = {"get_proof", "audit", "effect", "verify", "export", "what_if", "get_job", "get_job_file"}  # as they come
PLAIN |= {"cancel_job", "get_health", "get_readiness", "get_metrics"}


@pytest.fixture
def web(tmp_path: Path) -> Web:
    clinic(f"sqlite:///{tmp_path / 'programmes.db'}")
    return serving(f"sqlite:///{tmp_path / 'programmes.db'}", tmp_path)


@pytest.fixture
def program(web: Web) -> TestClient:
    return web.program("Ada", {"*": Role.ADMIN})


@pytest.fixture
def no_waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses that the client would have made."""
    made = list[float]()
    monkeypatch.setattr("meritfair.client.connection.time.sleep", made.append)
    return made


def described(web: Web) -> dict[str, tuple[str, str, dict[str, Any]]]:
    """Return method, path and description of each operation."""
    paths = web.app.openapi()["paths"].items()
    return {
        said["operationId"]: (method.upper(), path, said) for path, methods in paths for method, said in methods.items()
    }


# ---- the description


def test_every_operation_has_its_place_in_the_client(web: Web) -> None:
    operations = described(web)
    assert {name: (method, path) for name, (method, path, _) in operations.items()} == ROUTES
    assert RESULTS.keys() | PLAIN == ROUTES.keys()
    keyed = {name for name, (*_, said) in operations.items() if "idempotency-key" in _names(said)}
    assert keyed == set(KEYED)


def _names(said: Mapping[str, Any]) -> set[str]:
    return {each["name"] for each in said.get("parameters", ())}


@pytest.mark.parametrize("operation", RESULTS)
def test_results_have_the_fields_of_the_description(web: Web, operation: str) -> None:
    said = described(web)[operation][2]
    status = next(each for each in ("200", "201") if each in said["responses"])
    schema = said["responses"][status]["content"]["application/json"]["schema"]
    kind = RESULTS[operation]
    if isinstance(kind, tuple):
        schema, kind = _schema(web, schema)["properties"][kind[0]]["items"], kind[1]
    _compare(web, kind, schema, operation)


def _schema(web: Web, schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema itself, where there is a reference to it."""
    while "$ref" in schema:
        schema = web.app.openapi()["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return schema


def _compare(web: Web, kind: Any, schema: dict[str, Any], where: str) -> None:
    """Check that a type of the client is what a schema says."""
    schema, origin, inner = _schema(web, schema), get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        choices = [each for each in schema["anyOf"] if each.get("type") != "null"]
        assert len(choices) < len(schema["anyOf"]), f"{where} is never null"
        _compare(web, next(each for each in inner if each is not type(None)), choices[0], where)
    elif is_dataclass(kind):
        hints, properties = get_type_hints(kind), schema["properties"]
        assert {each.name for each in fields(kind)} == properties.keys(), where
        for name, each in properties.items():
            _compare(web, hints[name], each, f"{where}.{name}")
    elif origin is tuple:
        assert schema["type"] == "array", where
        _compare(web, inner[0], schema["items"], f"{where}[]")
    else:
        types_ = {int: "integer", float: "number", str: "string", bool: "boolean"}
        assert schema.get("type") == types_.get(kind, "object"), where


def test_what_the_client_sends_and_gets_fits_the_description(web: Web, program: TestClient, tmp_path: Path) -> None:
    """All that a client can do, with every request and every answer held against the description."""
    operations, seen = described(web), set[str]()

    def checked(answer: httpx.Response) -> None:
        answer.read()
        request = answer.request
        name = next(
            name
            for name, (method, path, _) in operations.items()
            if method == request.method and _fits(path, request.url.path)
        )
        said = operations[name][2]
        assert request.url.params.keys() <= _names(said), name
        sent = request.read()
        if sent:
            kind = request.headers["content-type"]
            content = said["requestBody"]["content"][kind]
            if kind == "application/json":
                _validator(web, content["schema"]).validate(json.loads(sent))
        content = said["responses"][str(answer.status_code)].get("content", {})
        kind = answer.headers["content-type"].partition(";")[0]
        assert kind in content, (name, kind)
        if kind == "application/json":
            _validator(web, content[kind]["schema"]).validate(answer.json())
        seen.add(name)

    program.event_hooks = {"response": [checked]}
    _do_everything(Client(Connection(program)), tmp_path)
    assert seen == ROUTES.keys()


def _fits(path: str, asked: str) -> bool:
    parts, given = path.split("/"), asked.split("/")
    if len(parts) != len(given):
        return False
    return all(
        each == there or (each.startswith("{") and there not in ("away", "back", "withdraw"))
        for each, there in zip(parts, given, strict=True)
    )


def _validator(web: Web, schema: dict[str, Any]) -> Any:
    return jsonschema_rs.Draft202012Validator({**schema, "components": web.app.openapi()["components"]})


def _do_everything(server: Client, folder: Path) -> None:
    """Use every verb of the client, and look at what comes of it."""
    assert server.is_alive()
    assert server.is_ready()
    assert "meritfair_requests_total" in server.metrics()
    server.create("visits", 2, rules={"cooldown": 1}, features=["age"])
    assert {each.name for each in server.programmes()} == {"calls", "visits"}
    visits = server.programme("visits")
    ids = [f"v{k}" for k in range(6)]
    assert visits.enrol(People(ids, group=["a"] * 6, features={"age": list(range(6))})).taken == 6
    assert visits.enrol("id,age\nw1,3\n").taken == 1
    visits.away(["v5"])
    visits.away(["v5"], back=True)
    visits.withdraw(["v4"])
    visits.erase(4)
    assert visits.participant(4).erased
    assert [each.number for each in visits.participants(standing="all", sort="number")] == list(range(7))
    planned = visits.preview(budget=1)
    assert sum(each.chance for each in planned.participants) == pytest.approx(1)
    drawn = visits.draw(states={"v0": 0, "v1": 1})
    assert len(drawn.ids) == 2
    assert visits.round().ids == drawn.ids
    first, second = drawn.ids
    visits.report(Outcomes([first], [1], [1]), round=1)
    visits.report(f"id,action\n{second},0\n", round=1)
    visits.correct(Outcomes([first], after=[-2], forgets=True), round=1, reason="a wrong line")
    assert {each.id: (each.action, each.after) for each in visits.round(1).outcomes}[first] == (1, None)
    assert first in visits.call_list(1)
    visits.close(round=1)
    assert [each.phase for each in visits.rounds()] == ["closed"]
    person = visits.person(drawn.outcomes[0].number, round=1)
    assert (person.drawn, person.rounds[0].action) == (1, 1)
    assert visits.proof(0)["number"] == 0
    assert {each.number for each in visits.accounts()} == set(range(7))
    assert [each.kind for each in visits.ledger()][-1] == "close"
    head = visits.head()
    assert visits.expecting(head.head).change(budget=3, reason="a new nurse").what == "change"
    with pytest.raises(HeadMovedError):
        visits.expecting(head.head).change(budget=4, reason="too late")
    assert visits.status().settings.parts[0].budget == (3,)
    assert visits.audit()["rounds"] == 1
    assert visits.effect()["no_effect"]
    assert visits.verify(heads=[head.head])["whole"]
    assert visits.export(folder / "ledger.zip").stat().st_size > 1000
    assert visits.what_if([1, 2], rounds=3)["rounds"] == 3
    with pytest.raises(MeritfairError, match="what_if was not done within 0 seconds"):
        visits.what_if([1, 2], rounds=26, seconds=0)
    visits.end()
    assert visits.status().ended


# ---- bad servers


class Flaky(httpx.BaseTransport):
    """A way to a server on which things go wrong: each in `faults` once, then nothing more."""

    def __init__(self, inner: TestClient, faults: list[Callable[[], httpx.Response]], *, answers_lost: bool) -> None:
        self._inner: httpx.BaseTransport = inner._transport
        self.faults, self._lost = faults, answers_lost
        self.keys = list[str]()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Pass a request on, or not."""
        self.keys.append(request.headers.get("idempotency-key", ""))
        if self.faults:
            if self._lost:
                self._inner.handle_request(request).read()
            return self.faults.pop(0)()
        return self._inner.handle_request(request)


def _broken() -> httpx.Response:
    raise httpx.ConnectError("connection refused")


def _silent() -> httpx.Response:
    raise httpx.ReadTimeout("nothing was heard")


def _busy(status: int, **headers: str) -> Callable[[], httpx.Response]:
    return lambda: httpx.Response(status, headers=headers)


def _through(program: TestClient, faults: list[Callable[[], httpx.Response]], *, lost: bool) -> tuple[Client, Flaky]:
    way = Flaky(program, faults, answers_lost=lost)
    return Client(Connection(httpx.Client(transport=way, base_url=ADDRESS, headers=program.headers))), way


@pytest.mark.parametrize("lost", [False, True])
def test_a_request_that_may_be_lost_is_sent_again_and_done_once(
    web: Web, program: TestClient, no_waits: list[float], lost: bool
) -> None:
    faults = [_broken, _silent, _busy(503), _busy(429, **{"Retry-After": "7"}), _busy(502)]
    server, way = _through(program, faults, lost=lost)
    receipt = server.programme("calls").enrol(["new"])
    assert receipt.taken == 1
    assert len(way.keys) == 6
    assert len(set(way.keys)) == 1
    assert way.keys[0]
    assert [each.kind for each in server.programme("calls").ledger()].count("enrol") == 2
    assert no_waits == [0.1, 0.2, 0.4, 7.0, 1.6]  # as long as the server says, else twice as long each time


def test_two_requests_have_two_keys(program: TestClient, no_waits: list[float]) -> None:
    server, way = _through(program, [], lost=False)
    server.programme("calls").enrol(["one"])
    server.programme("calls").enrol(["two"])
    assert len(set(way.keys)) == 2


def test_a_server_that_cannot_be_reached(program: TestClient, no_waits: list[float]) -> None:
    server, way = _through(program, [_broken] * 99, lost=False)
    with pytest.raises(ServerError, match=r"127\.0\.0\.1 cannot be reached: connection refused"):
        server.programmes()
    assert len(way.keys) == 6


def test_what_the_server_refuses_is_an_error_with_its_words(web: Web, program: TestClient) -> None:
    server = Client(Connection(program))
    calls = server.programme("calls")
    with pytest.raises(InputError, match="there is no programme 'nothing'"):
        server.programme("nothing").status()
    with pytest.raises(InputError, match="there is no participant 'p99'"):
        calls.withdraw(["p99"])
    calls.away(["p1"], key="k")
    with pytest.raises(KeyConflictError):
        calls.away(["p2"], key="k")
    viewer = Client(Connection(web.program("Vic", {"calls": Role.VIEWER})))
    with pytest.raises(NotAllowedError, match="needs the role auditor"):
        viewer.programme("calls").participant(1)
    with pytest.raises(NotAllowedError, match="a token is needed"):
        Client(Connection(web.anyone())).programmes()


def test_a_database_that_cannot_be_used(program: TestClient, no_waits: list[float]) -> None:
    body = {"detail": "the database is read-only"}
    server, _ = _through(program, [lambda: httpx.Response(503, json=body)] * 6, lost=False)
    with pytest.raises(StoreError, match="the database is read-only"):
        server.programmes()
    server, _ = _through(program, [lambda: httpx.Response(500, text="<html>")], lost=False)
    with pytest.raises(ServerError, match="Internal Server Error"):
        server.programmes()


def test_names_are_encoded(web: Web, program: TestClient) -> None:
    server = Client(Connection(program))
    name = "calls & visits? 100 % #1"
    server.create(name, 1)
    assert server.programme(name).status().name == name


def test_more_than_one_page(program: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("meritfair.client.programme._PAGE", 5)
    calls = Client(Connection(program)).programme("calls")
    assert [each.number for each in calls.accounts()] == list(range(12))


def test_long_work_has_a_limit(program: TestClient, monkeypatch: pytest.MonkeyPatch, web: Web) -> None:
    monkeypatch.setattr(type(web.frame.jobs), "_begin", lambda _: None)  # nobody works
    with pytest.raises(MeritfairError, match=r"verify was not done within 0\.2 seconds"):
        Client(Connection(program)).programme("calls").verify(seconds=0.2)
    left = web.frame.jobs.recent("verify", "calls")
    assert left is not None
    assert left.state == "cancelled", "nobody waits for it any more"


def test_the_same_round_as_in_the_core(web: Web, program: TestClient) -> None:
    calls = Client(Connection(program)).programme("calls")
    drawn = calls.draw()
    local = mf.programme.open(web.frame.store.url, "calls").round(1)
    assert drawn.ids == local.ids
    assert drawn.seed == local.seed


def test_the_example_in_the_guide_runs(web: Web, program: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    guide = (Path(__file__).parents[2] / "docs" / "http.md").read_text(encoding="utf-8")
    block = re.search(r"^```python3\n(.*?)^```", guide, re.MULTILINE | re.DOTALL)
    assert block is not None
    monkeypatch.setattr("meritfair.client.connect", lambda *_: Client(Connection(program)))
    exec(compile(block[1], "http.md", "exec"), {"token": "mf_token"})
    status = web.frame.reader.look("calls").status
    assert (status.round, status.phase, status.enrolled, status.reported) == (1, "closed", 14, 3)


def test_a_server_that_is_not_there() -> None:
    with (
        connect("http://127.0.0.1:9", "mf_token", tries=1) as server,
        pytest.raises(ServerError, match="cannot be reached"),
    ):
        server.programmes()


def test_a_server_of_two_workers(tmp_path: Path) -> None:
    """Whichever worker answers, it is one programme, and the figures are those of both."""
    url = f"sqlite:///{tmp_path / 'programmes.db'}"
    clinic(url)
    users = Users(Store(url))
    users.add("Ada", {"*": Role.ADMIN}, by="test")
    token = users.new_token("Ada", "test", by="test")[1]
    with running_server(url, workers=2) as running, connect(running.address, token) as server:
        drawn = server.programme("calls").draw()
        with ThreadPoolExecutor(8) as pool:
            asked = [pool.submit(httpx.get, f"{running.address}/healthz") for _ in range(60)]
            rounds = list(pool.map(lambda _: _draw_anew(running.address, token), range(8)))
        assert {each.result().status_code for each in asked} == {200}
        assert {each.ids for each in rounds} == {drawn.ids}
        assert server.programme("calls").verify()["whole"]
        assert _counted(server.metrics(), route="/healthz") >= 60


def _draw_anew(address: str, token: str) -> shown.RemoteRound:
    with connect(address, token) as server:
        return server.programme("calls").draw()


def _counted(text: str, route: str) -> float:
    lines = [line for line in text.splitlines() if line.startswith("meritfair_requests_total") and f'"{route}"' in line]
    return sum(float(line.rpartition(" ")[2]) for line in lines)
