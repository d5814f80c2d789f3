"""What someone sends who means harm: formulas, odd names, headers and addresses that are none, uploads of others."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

import meritfair as mf
from meritfair.programme import Outcomes, People
from meritfair.programme.users import Role
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
