"""What someone sends who means harm: formulas, odd names, headers and addresses that are none, uploads of others."""

from __future__ import annotations

import csv
import io
import re
import sqlite3
from pathlib import Path

import pytest

import meritfair as mf
from meritfair.programme import Outcomes, People
from meritfair.programme.users import Role
from meritfair.web.middleware import POLICY
from programme.quick_hashes import quick_hashes as quick_hashes
from web.clients import TestClient, Web, serving

pytestmark = pytest.mark.slow

NAME = 'calls "☃" é'  # cannot be in a header as it is
AT = "/p/calls%20%22%E2%98%83%22%20%C3%A9"
API = f"/api/v1/programmes{AT.removeprefix('/p')}"
FORMULA = "=cmd|' /C calc'!A0"
GONE = "person-to-be-erased"


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Web:
    """A server with a programme whose name and groups mean harm."""
    folder = tmp_path_factory.mktemp("server")
    url = f"sqlite:///{folder / 'programmes.db'}"
    people = People([GONE, *(f"p{number}" for number in range(1, 8))], [FORMULA, "@south"] * 4)
    calls = mf.programme.open(url, NAME)
    calls.create(2, by="Ada")
    calls.enrol(people, by="Ada")
    for _ in range(2):
        drawn = [each.id for each in calls.draw(by="Ada").people]
        calls.report(Outcomes(drawn, [1] * 2, [1] * 2), by="Ada")
        calls.close(by="Ada")
    web = serving(url, folder)
    for role in Role:
        web.users.add(role.word, {NAME: role}, by="test")
    web.users.add("colleague", {NAME: Role.COORDINATOR}, by="test")
    return web


def browser(web: Web, role: Role) -> TestClient:
    return web.browser(role.word)


def test_groups_are_no_formulas(web: Web) -> None:
    rows = list(csv.DictReader(io.StringIO(browser(web, Role.VIEWER).get(f"{AT}/fairness/groups.csv").text)))
    assert {row["group"] for row in rows} == {f"'{FORMULA}", "'@south"}


def test_the_table_of_people_has_no_formulas(web: Web) -> None:
    auditor = web.program("auditor")
    job = web.frame.jobs.ask("report", NAME, now=True)
    rows = list(csv.DictReader(io.StringIO(auditor.get(f"{API}/jobs/{job.id}/file").text)))
    assert len(rows) == 8
    assert {row["group"] for row in rows} == {f"'{FORMULA}", "'@south"}


def test_a_viewer_sees_no_row_of_one_person(web: Web) -> None:
    caption = "Least likely waits"
    assert caption in browser(web, Role.AUDITOR).get(f"{AT}/fairness").text
    assert caption not in browser(web, Role.VIEWER).get(f"{AT}/fairness").text
    assert web.program("auditor").get(f"{API}/audit").json()["waits"]
    assert web.program("viewer").get(f"{API}/audit").json()["waits"] == []


def test_a_link_to_the_next_page_has_any_name_in_it(web: Web) -> None:
    auditor = web.program("auditor")
    answer = auditor.get(f"{API}/participants?limit=3")
    assert answer.status_code == 200
    assert auditor.get(answer.links["next"]["url"]).json()["offset"] == 3


@pytest.mark.parametrize("encoding", ["zlib", "rot13", "hex", "a\0b"])
def test_a_file_in_no_encoding_of_text_is_refused(web: Web, encoding: str) -> None:
    headers = {"Content-Type": f'text/csv; charset="{encoding}"'}
    answer = web.program("coordinator").post(f"{API}/participants/away", content=b"id\np1\n", headers=headers)
    assert answer.status_code == 422
    assert "encoding" in answer.json()["detail"]


def test_an_origin_that_is_no_address_is_another_site(web: Web) -> None:
    answer = web.anyone().post("/sign-in", data={"name": "Ada"}, headers={"Origin": "http://["})
    assert answer.status_code == 403


def test_any_number_in_an_address_is_answered(web: Web) -> None:
    assert browser(web, Role.AUDITOR).get(f"{AT}/round?did=report&n={'9' * 400}").status_code == 200


def test_any_page_from_which_a_change_is_sent(web: Web) -> None:
    for place in ("http://[", f"http://127.0.0.1/?start={'9' * 5000}"):
        answer = browser(web, Role.COORDINATOR).post(
            f"{AT}/people/standing",
            data={"id": "p1", "action": "away", "key": "one"},
            headers={"HX-Request": "true", "HX-Current-URL": place},
        )
        assert answer.status_code == 200


def test_what_is_kept_of_a_request_does_not_say_whom_it_was_about(web: Web, tmp_path: Path) -> None:
    answer = browser(web, Role.COORDINATOR).post(
        f"{AT}/people/standing", data={"id": GONE, "action": "withdraw", "key": "two"}
    )
    assert answer.status_code == 303
    web.frame.reader.programme(NAME).erase(GONE, by="test")
    web.frame.store.backup(tmp_path / "copy.db")
    assert GONE.encode() not in (tmp_path / "copy.db").read_bytes()


def upload(client: TestClient, text: str) -> str:
    """Upload a file of people; return the address where it waits."""
    answer = client.post(f"{AT}/uploads", data={"kind": "enrol"}, files={"file": ("../../people.csv", text)})
    found = re.search(r"/uploads/([\w-]{32})", answer.text)
    assert found is not None, answer.text
    return f"{AT}/uploads/{found[1]}"


def test_nobody_else_finds_what_someone_has_uploaded(web: Web) -> None:
    own = browser(web, Role.COORDINATOR)
    place = upload(own, "id\nnew-person\n")
    assert web.browser("colleague").post(place).status_code == 404
    assert own.post(f"{place}/discard").status_code == 303
    assert own.post(place).status_code == 404, "it is gone"


@pytest.mark.parametrize("by", ["page", "program"])
def test_uploads_go_when_someone_is_erased(web: Web, by: str) -> None:
    coordinator, programme = browser(web, Role.COORDINATOR), web.frame.reader.programme(NAME)
    id_ = f"erased-by-{by}"
    programme.enrol([id_], by="test")
    number = web.frame.reader.look(NAME).number_of(id_)
    programme.withdraw(id_, reason="asked for it", by="test")
    place = upload(coordinator, f"id\n{id_}\n")  # to let them come back
    if by == "page":
        answer = browser(web, Role.ADMIN).post(f"{AT}/people/{number}/erase", data={"typed": id_, "key": "three"})
        assert answer.status_code == 303
    else:
        assert web.program("admin").delete(f"{API}/participants/{number}").status_code == 200
    with web.frame.store.temporary() as rows:
        assert not rows.uploads()
        assert not list(rows.data(place.rpartition("/")[2]))
    assert coordinator.post(place).status_code == 404


def test_errors_do_not_say_where_the_store_is(tmp_path: Path) -> None:
    file = tmp_path / "programmes.db"
    calls = mf.programme.open(f"sqlite:///{file}", "calls")
    calls.create(2, by="Ada")
    calls.enrol(["a", "b", "c"], by="Ada")
    web = serving(f"sqlite:///{file}", tmp_path)
    admin = web.browser("Ada", {"*": Role.ADMIN})
    with sqlite3.connect(file) as connection:
        for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            connection.execute(f"DROP TRIGGER {name}")
        connection.execute("UPDATE entry SET data = x'00' WHERE seq = 1")
    job = web.frame.jobs.ask("report", "calls", now=True)
    assert job.state == "failed"
    answers = [job.error, admin.get("/p/calls/people").text, admin.get("/p/calls/ledger").text]
    assert any("is not as it was written" in each for each in answers)
    assert not any(str(tmp_path) in each for each in answers)


def test_an_answer_to_a_failure_has_the_headers_of_all_others(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("secret")

    monkeypatch.setattr(type(web.frame.reader), "look", fail)
    client = web.browser("auditor")
    quiet = TestClient(web.app, str(client.base_url), raise_server_exceptions=False, cookies=client.cookies)
    answer = quiet.get(f"{AT}/people")
    assert answer.status_code == 500
    assert "secret" not in answer.text
    assert answer.headers["content-security-policy"] == POLICY
    assert answer.headers["cache-control"] == "no-store"
