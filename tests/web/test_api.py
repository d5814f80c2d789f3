"""The API: what goes in and what comes out, on both databases where that may matter."""

from __future__ import annotations

import hashlib
import io
import time
import zipfile
from pathlib import Path
from typing import Any

import pytest

import meritfair as mf
from meritfair.programme.keeping import Places, set_places
from meritfair.programme.ledger.heads import short_code
from meritfair.programme.storage.store import StoreError
from meritfair.programme.users import Role
from programme.clinics import clinic
from web.clients import TestClient, Web, serving

pytestmark = pytest.mark.slow

P = "/api/v1/programmes"


@pytest.fixture
def web(tmp_path: Path) -> Web:
    return serving(f"sqlite:///{tmp_path / 'programmes.db'}", tmp_path)


@pytest.fixture
def ada(web: Web) -> TestClient:
    """A program of an admin, and a programme with twelve people."""
    clinic(web.frame.store.url)
    return web.program("Ada", {"*": Role.ADMIN})


def waited(client: TestClient, method: str, path: str, **how: Any) -> Any:
    """Ask until long work is done."""
    for _ in range(300):
        answer = client.request(method, path, **how)
        if answer.status_code != 202:
            return answer
        assert answer.headers["location"].startswith(f"{P}/calls/jobs/")
        assert int(answer.headers["retry-after"]) >= 1
        time.sleep(0.05)
    raise AssertionError(f"{path} took too long")


def test_a_round_from_the_first_request_to_the_last(store_url: str, tmp_path: Path) -> None:
    web = serving(store_url, tmp_path)
    ada = web.program("Ada", {"*": Role.ADMIN})
    made = ada.post(P, json={"name": "calls", "budget": 2, "rules": {"cooldown": 1}, "features": ["age"]})
    assert (made.status_code, made.headers["location"]) == (201, f"{P}/calls")
    rows = [{"id": f"p{k}", "group": "north", "features": {"age": 40 + k}} for k in range(6)]
    assert ada.post(f"{P}/calls/participants", json={"participants": rows}).json()["taken"] == 6
    more = "id,group,staff,age\nq1,south,Bea,31\nq2,south,Bea,\n"
    answer = ada.post(f"{P}/calls/participants", content=more, headers={"Content-Type": "text/csv"})
    assert answer.json()["taken"] == 2
    ada.post(f"{P}/calls/participants/away", json={"ids": ["p5"]})

    drawn = ada.post(f"{P}/calls/rounds", json={"states": [{"id": "p0", "state": 0}]}).json()
    ids = [each["id"] for each in drawn["outcomes"]]
    assert len(ids) == 2
    assert "p5" not in ids
    assert ada.post(f"{P}/calls/rounds").json() == drawn  # there is one draw for each round
    seen = [{"id": ids[0], "action": 1, "state": 1}, {"id": ids[1], "action": 0}]
    assert ada.post(f"{P}/calls/rounds/1/outcomes", json={"outcomes": seen}).json()["taken"] == 2
    right = {"outcomes": [{"id": ids[0], "state": "unknown"}], "reason": "a wrong line"}
    assert ada.patch(f"{P}/calls/rounds/1/outcomes", json=right).json()["what"] == "correct"
    assert ada.post(f"{P}/calls/rounds/1/close").json()["round"] == 1

    came = {each["id"]: each for each in ada.get(f"{P}/calls/rounds/1").json()["outcomes"]}
    assert (came[ids[0]]["action"], came[ids[0]]["after"]) == (1, None)
    status = ada.get(f"{P}/calls").json()
    assert (status["round"], status["phase"], status["enrolled"], status["away"]) == (1, "closed", 8, 1)
    assert status["settings"]["rules"] == {"cooldown": 1, "warmup": 0, "once": False, "accrue": False}
    assert status["settings"]["parts"][0]["policy"]["name"] == "merit-fair"
    programme = mf.programme.open(store_url, "calls")
    assert status["head"] == programme.status().head
    assert programme.verify().whole
    assert {each["by"] for each in ada.get(f"{P}/calls/ledger").json()["entries"]} == {"Ada"}


def test_a_draw_whose_head_cannot_be_kept_stands_with_a_warning(ada: TestClient, web: Web, tmp_path: Path) -> None:
    set_places(web.frame.store, Places(str(tmp_path / "heads.tsv")))
    (tmp_path / "heads.tsv").unlink()
    (tmp_path / "heads.tsv").mkdir()
    answer = ada.post(f"{P}/calls/rounds")
    assert (answer.status_code, len(answer.json()["outcomes"])) == (200, 3)
    assert answer.json()["warning"] == "The head could not be kept at heads.tsv: Is a directory."


def test_what_is_read_is_what_the_core_says(ada: TestClient, web: Web) -> None:
    calls = mf.programme.open(web.frame.store.url, "calls")
    drawn = calls.draw(by="Ada")
    report = calls.person("p3")
    said = ada.get(f"{P}/calls/participants/3/report").json()
    assert said["sentences"][1:] == report.sentences()[1:]  # the first has a day, as the reader writes it
    assert said["next"]["due"] == report.next.due if report.next else said["next"] is None
    assert said["rounds"][0]["action"] is None  # not -1
    assert ada.get(f"{P}/calls/participants/3/proof").json() == calls.proof("p3")
    shown = ada.get(f"{P}/calls/rounds/1").json()
    assert [each["id"] for each in shown["outcomes"]] == list(drawn.ids)
    assert [each["chance"] for each in shown["outcomes"]] == [each.chance for each in drawn.people]
    lines = ada.get(f"{P}/calls/rounds/1", headers={"Accept": "text/csv"})
    assert lines.text.splitlines()[0] == "round,id,group,staff,due,chance,action,state,reason"
    assert lines.headers["content-disposition"] == 'attachment; filename="round-1.csv"'
    filled = lines.text.replace(",,,\n", ",1,1,\n")
    answer = ada.post(f"{P}/calls/rounds/1/outcomes", content=filled, headers={"Content-Type": "text/csv"})
    assert answer.json()["taken"] == len(drawn.ids)


def test_pages_of_lists(ada: TestClient) -> None:
    path, found = f"{P}/calls/participants?limit=5&sort=number&order=descending", []
    while path:
        answer = ada.get(path)
        found += [each["number"] for each in answer.json()["participants"]]
        path = answer.links.get("next", {}).get("url", "")
    assert found == list(range(11, -1, -1))
    few = ada.get(f"{P}/calls/participants", params={"search": "P1", "group": "south"}).json()
    assert (few["total"], {each["id"] for each in few["participants"]}) == (2, {"p1", "p11"})
    assert ada.get(f"{P}/calls/participants?limit=1001").status_code == 422
    table = ada.get(f"{P}/calls/accounts", headers={"Accept": "text/csv, application/json;q=0.5"}).text.splitlines()
    assert len(table) == 13
    first = ada.get(f"{P}/calls/accounts?limit=2&offset=3").json()
    assert (first["total"], [each["number"] for each in first["accounts"]]) == (12, [3, 4])


@pytest.mark.parametrize(
    ("body", "where"),
    [
        ({"outcomes": [{"id": "p0", "action": False}]}, ["body", "outcomes", 0, "action"]),
        ({"outcomes": [{"id": "p0", "action": "1"}]}, ["body", "outcomes", 0, "action"]),
        ({"outcomes": [{"id": "p0", "state": 1.0}]}, ["body", "outcomes", 0, "state"]),
        ({"outcomes": [{"id": "p0", "state": 2}]}, ["body", "outcomes", 0, "state"]),
        ({"outcomes": [{"id": "p0", "before": "unknown"}]}, ["body", "outcomes", 0, "before"]),
        ({"outcomes": [{"id": 7}]}, ["body", "outcomes", 0, "id"]),
        ({"outcomes": [{"id": "p0", "acton": 1}]}, ["body", "outcomes", 0, "acton"]),
        ({"outcomes": []}, ["body", "outcomes"]),
        ({"outcomes": [{"id": "p0", "action": 1}, {"id": "zz", "action": 1}]}, ["body", "outcomes", 1, "id"]),
        ({"outcomes": [{"id": "p0", "action": 1}, {"id": "p0", "action": 1}]}, ["body", "outcomes", 1, "id"]),
        ([], ["body"]),
    ],
)
def test_a_row_that_is_wrong_is_named(ada: TestClient, body: Any, where: list[Any]) -> None:
    ada.post(f"{P}/calls/rounds")
    head = ada.get(f"{P}/calls/ledger/head").json()
    answer = ada.post(f"{P}/calls/rounds/1/outcomes", json=body)
    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"
    assert any(each["where"][: len(where)] == where for each in answer.json()["errors"]), answer.text
    assert ada.get(f"{P}/calls/ledger/head").json() == head


def test_a_line_of_csv_that_is_wrong_is_named(ada: TestClient) -> None:
    drawn = ada.post(f"{P}/calls/rounds").json()["outcomes"]
    outside = next(f"p{k}" for k in range(12) if f"p{k}" not in {each["id"] for each in drawn})

    def send(text: str, charset: str = "utf-8") -> Any:
        kind = {"Content-Type": f"text/csv; charset={charset}"}
        return ada.post(f"{P}/calls/rounds/1/outcomes", content=text.encode("latin-1"), headers=kind)

    answer = send(f"id,action,state\n{drawn[0]['id']},1,1\n\n{drawn[1]['id']},1,2\n")
    assert answer.json()["detail"].startswith("line 4, column state: must be 0 (bad) or 1 (good)")
    assert (answer.json()["errors"][0]["line"], answer.json()["errors"][0]["column"]) == (4, "state")
    assert send(f"id,action,reason\n{outside},1,\n").json()["errors"][0]["column"] == "reason"
    assert send("id,action\nnobody,1\n").json()["detail"].startswith("line 2, column id: there is no participant")
    assert send(f"round,id,action\n2,{drawn[0]['id']},1\n").json()["detail"] == (
        "is about round 2, as its column round says, not about 1"
    )
    assert send("id,action\nZoë,1\n").json()["detail"].startswith("line 2: is not text in UTF-8")
    assert "Zoë" in send("id,action\nZoë,1\n", "latin-1").json()["detail"]
    assert "tmp" not in send("").text
    assert ada.get(f"{P}/calls").json()["reported"] == 0


def test_an_override_needs_a_reason(ada: TestClient) -> None:
    drawn = {each["id"] for each in ada.post(f"{P}/calls/rounds").json()["outcomes"]}
    other = next(f"p{k}" for k in range(12) if f"p{k}" not in drawn)
    path, row = f"{P}/calls/rounds/1/outcomes", {"id": other, "action": 1}
    refused = ada.post(path, json={"outcomes": [row]})
    assert refused.status_code == 422
    assert refused.json()["errors"][0]["where"] == ["body", "outcomes", 0, "reason"]
    assert ada.post(path, json={"outcomes": [row | {"reason": "asked for it"}]}).json()["overrides"] == 1
    came = {each["id"]: each for each in ada.get(f"{P}/calls/rounds/1").json()["outcomes"]}
    assert (came[other]["drawn"], came[other]["reason"]) == (False, "asked for it")


def test_long_work(ada: TestClient, web: Web, tmp_path: Path) -> None:
    calls = mf.programme.open(web.frame.store.url, "calls")
    drawn = calls.draw(by="Ada")
    calls.report(mf.programme.Outcomes(drawn.ids, [1] * 3, [1] * 3), by="Ada")
    calls.close(by="Ada")
    audit = waited(ada, "GET", f"{P}/calls/audit").json()
    assert audit["verdict"].startswith("Nothing speaks against the 3 draws of 1 round")
    assert audit["head"] == calls.status().head
    assert {"number", "wait"} <= audit["waits"][0].keys()
    assert waited(ada, "GET", f"{P}/calls/effect").json()["no_effect"]
    found = waited(ada, "POST", f"{P}/calls/verifications", json={"heads": [drawn.head]}).json()["result"]
    assert (found["whole"], found["rounds"]) == (True, 1)
    short = waited(ada, "POST", f"{P}/calls/verifications", json={"heads": [short_code(drawn.head)]}).json()["result"]
    assert (short["whole"], "weaker than a whole head" in short["words"]) == (True, True)
    assert ada.post(f"{P}/calls/verifications", json={"heads": ["6f52"]}).status_code == 422
    wrong = waited(ada, "POST", f"{P}/calls/verifications", json={"heads": ["0" * 64]}).json()["result"]
    assert not wrong["whole"]
    export = waited(ada, "POST", f"{P}/calls/exports").json()
    with zipfile.ZipFile(io.BytesIO(ada.get(export["file"]).content)) as made:
        names = {Path(each).name for each in made.namelist()}
        assert {"ledger.jsonl", "verify.py"} <= names
        assert "private.json" not in names
    other = ada.get(export["file"].replace("/calls/", "/nothing/"))
    assert other.status_code == 404


def test_long_work_that_cannot_be_done_says_why(ada: TestClient) -> None:
    answer = waited(ada, "GET", f"{P}/calls/audit")  # no round yet
    assert answer.status_code == 422
    assert answer.json()["detail"].startswith("there was no draw yet")


def test_words_are_in_the_readers_language(ada: TestClient) -> None:
    german = ada.get(f"{P}/calls/participants/3/report", headers={"Accept-Language": "de"})
    english = ada.get(f"{P}/calls/participants/3/report", headers={"Accept-Language": "fr"})
    assert german.json()["rounds"] == english.json()["rounds"]
    assert german.json()["sentences"] != english.json()["sentences"]
    assert german.headers["etag"] != english.headers["etag"]


def test_people_leave_and_are_erased_by_number(ada: TestClient) -> None:
    assert ada.delete(f"{P}/calls/participants/3").status_code == 422  # enrolled
    ada.post(f"{P}/calls/participants/withdraw", json={"ids": ["p3"]})
    assert ada.get(f"{P}/calls/participants/3").json()["standing"] == "left"
    assert ada.delete(f"{P}/calls/participants/3").json()["what"] == "erase"
    gone = ada.get(f"{P}/calls/participants/3").json()
    assert (gone["erased"], gone["id"], gone["group"]) == (True, "participant 3", "")
    assert ada.get(f"{P}/calls/participants/3/proof").status_code == 422
    assert ada.get(f"{P}/calls/participants/12").status_code == 404
    assert ada.get(f"{P}/calls/participants/12").json()["detail"] == "there is no participant 12"


def test_settings_change_with_a_reason(ada: TestClient) -> None:
    path = f"{P}/calls/settings"
    assert ada.patch(path, json={"budget": 4}).status_code == 422
    assert ada.patch(path, json={"budget": 4, "reason": " "}).status_code == 422
    assert ada.patch(path, json={"reason": "nothing"}).status_code == 422
    assert (
        ada.patch(path, json={"rules": {"cooldown": 1}, "budget": [4, 0], "reason": "a new nurse"}).status_code == 200
    )
    settings = ada.get(f"{P}/calls").json()["settings"]
    assert (settings["parts"][0]["budget"], settings["rules"]["cooldown"]) == ([4, 0], 1)
    assert ada.post(f"{P}/calls/end").json()["what"] == "end"
    assert ada.post(f"{P}/calls/rounds").status_code == 422
    assert ada.get(f"{P}/calls").json()["next_step"] == "The programme has ended."


def test_a_trial_is_created(ada: TestClient) -> None:
    protocol = hashlib.sha256(b"protocol").hexdigest()
    arms = [{"name": "calls", "budget": 2}, {"name": "control", "budget": 0, "policy": "none"}]
    body: dict[str, Any] = {"name": "trial", "trial": {"protocol": protocol, "arms": arms}}
    assert ada.post(P, json=body | {"budget": 3}).status_code == 422
    assert ada.post(P, json=body).status_code == 201
    rows = [{"id": f"t{k}"} for k in range(8)]
    ada.post(f"{P}/trial/participants", json={"participants": rows})
    drawn = ada.post(f"{P}/trial/rounds", json={"budget": {"calls": 1}, "reason": "a nurse is ill"}).json()
    assert len(drawn["outcomes"]) == 1
    people = ada.get(f"{P}/trial/participants?part=calls").json()
    assert people["total"] == 4


@pytest.mark.parametrize("name", ["", "a/b", "..", "a\nb", "x" * 101])
def test_names_that_no_address_can_have_are_refused(ada: TestClient, name: str) -> None:
    assert ada.post(P, json={"name": name, "budget": 1}).status_code == 422


def test_problems_are_problems(web: Web, ada: TestClient) -> None:
    cases = {
        404: ada.get("/api/v1/nothing"),
        405: ada.put(P),
        413: ada.post(P, content=b"x" * (web.frame.settings.max_body + 1)),
        415: ada.post(P, content="name=x", headers={"Content-Type": "application/x-www-form-urlencoded"}),
        422: ada.post(P, content="{", headers={"Content-Type": "application/json"}),
    }
    for status, answer in cases.items():
        assert answer.status_code == status
        assert answer.headers["content-type"] == "application/problem+json"
        assert {"type", "title", "status", "detail"} <= answer.json().keys()
    assert cases[405].headers["allow"] == "GET, POST"
    assert (
        ada.post(f"{P}/calls/participants", content="id\nx\n", headers={"Content-Type": "text/csv"}).status_code == 200
    )


def test_what_should_never_happen_is_told_without_details(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    ada = web.program("Ada", {"*": Role.ADMIN})
    monkeypatch.setattr(web.frame.reader, "names", lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):  # for the log
        ada.get(P)
    quiet = TestClient(web.app, "http://127.0.0.1", raise_server_exceptions=False, headers=dict(ada.headers))
    answer = quiet.get(P)
    assert answer.status_code == 500
    assert answer.headers["content-type"] == "application/problem+json"
    assert "Zero" not in answer.text


def test_damage_and_busy_databases_are_503_and_tell_no_path(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    ada = web.program("Ada", {"*": Role.ADMIN})
    url = web.frame.store.url

    def broken() -> list[str]:
        raise StoreError(f"{url}: the database is damaged")

    monkeypatch.setattr(web.frame.reader, "names", broken)
    answer = ada.get(P)
    assert (answer.status_code, answer.json()["detail"]) == (503, "the database is damaged")


def test_health(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    nobody = web.anyone()
    assert nobody.get("/healthz").json() == {"status": "ok"}
    assert nobody.get("/readyz").json() == {"status": "ok"}
    monkeypatch.setattr(type(web.frame.store), "is_current", lambda _: False)
    answer = nobody.get("/readyz")
    assert (answer.status_code, answer.json()["detail"]) == (503, "the database cannot be used now")
    assert nobody.get("/healthz").status_code == 200


def test_figures_for_prometheus(ada: TestClient, web: Web) -> None:
    ada.get(f"{P}/calls/participants/3")
    ada.get(f"{P}/calls/participants/99")
    ada.get("/api/v1/nothing")
    text = web.anyone("127.0.0.1").get("/metrics").text
    route = f"{P}/{{programme}}/participants/{{number}}"
    assert f'meritfair_requests_total{{method="GET",route="{route}",status="200"}} 1.0' in text
    assert f'meritfair_requests_total{{method="GET",route="{route}",status="404"}} 1.0' in text
    assert f'meritfair_request_seconds_count{{method="GET",route="{route}"}} 2.0' in text
    assert 'meritfair_requests_total{method="GET",route="-",status="404"} 1.0' in text
    assert 'meritfair_entries_total{kind="enrol"} 1.0' in text
    ada.post(f"{P}/calls/rounds")
    assert 'meritfair_entries_total{kind="draw"} 1.0' in web.anyone("127.0.0.1").get("/metrics").text
    assert "calls/" not in text.replace(P, "")
    assert web.anyone("192.0.2.9").get("/metrics").status_code == 401
    assert ada.get("/metrics").status_code == 200


def test_a_public_server_tells_its_figures_only_to_those_with_a_token(tmp_path: Path) -> None:
    web = serving(f"sqlite:///{tmp_path / 'p.db'}", tmp_path, url="http://127.0.0.1:8000")
    assert web.anyone("127.0.0.1").get("/metrics").status_code == 401  # may have come through a proxy
    assert web.program("Ada", {}).get("/metrics").status_code == 200


def test_a_formula_in_an_id_stays_text(ada: TestClient) -> None:
    ada.post(f"{P}/calls/participants", json={"participants": [{"id": '=cmd|"x"!A1', "group": "<script>"}]})
    table = ada.get(f"{P}/calls/accounts", headers={"Accept": "text/csv"}).text
    assert "'=cmd|" in table
    answer = ada.get(f"{P}/calls/participants?search==cmd")
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-content-type-options"] == "nosniff"
