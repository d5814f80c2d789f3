"""People in the browser: search, sort and pages; who joins, leaves or is away; files with a preview."""

from __future__ import annotations

import codecs
import csv
import io
import re
from pathlib import Path
from typing import Any

import pytest

import meritfair as mf
from meritfair.programme import Outcomes, People, Programme
from meritfair.programme.users import Role
from meritfair.web import pending_uploads
from programme.quick_hashes import quick_hashes as quick_hashes
from web.clients import TestClient, Web, serving

pytestmark = pytest.mark.slow
HTMX = {"HX-Request": "true", "HX-Current-URL": "http://127.0.0.1:8000/p/calls/people?group=north"}
PEOPLE = "/p/calls/people"


@pytest.fixture
def programme(store_url: str) -> Programme:
    """A programme of 120 people in two groups, of whom the first five are called."""
    made = mf.programme.open(store_url, "calls")
    made.create(5, by="Ada")
    ids = [f"p{number:03}" for number in range(120)]
    groups = [("north", "south")[number % 2] for number in range(120)]
    staff = [("Efua", "Yaw", "")[number % 3] for number in range(120)]
    made.enrol(People(ids, groups, staff), by="Ada")
    return made


@pytest.fixture
def web(store_url: str, programme: Programme, tmp_path: Path) -> Web:
    return serving(store_url, tmp_path / "run")


@pytest.fixture
def coordinator(web: Web) -> TestClient:
    return web.browser("Efua", {"calls": Role.COORDINATOR})


@pytest.fixture
def auditor(web: Web) -> TestClient:
    return web.browser("Kofi", {"calls": Role.AUDITOR})


def listed(text: str) -> list[str]:
    return re.findall(r'<th scope="row"><a [^>]*>([^<]+)</a>', text)


# ---- the list


def test_people_are_shown_page_by_page(auditor: TestClient) -> None:
    first = auditor.get(PEOPLE).text
    assert "1–50 of 120 people" in first
    assert listed(first) == [f"p{number:03}" for number in range(50)]
    last = auditor.get(f"{PEOPLE}?start=100").text
    assert "101–120 of 120 people" in last
    assert len(listed(last)) == 20
    assert 'rel="next"' not in last


def test_a_page_behind_the_last_is_the_last(auditor: TestClient) -> None:
    assert listed(auditor.get(f"{PEOPLE}?start=5000").text)[-1] == "p119"


@pytest.mark.parametrize(
    ("query", "total"),
    [("search=P01", 10), ("group=south", 60), ("staff=Yaw", 40), ("group=north&staff=Efua", 20), ("standing=left", 0)],
)
def test_people_are_searched_and_filtered(auditor: TestClient, query: str, total: int) -> None:
    page = auditor.get(f"{PEOPLE}?{query}", headers={"HX-Request": "true"}).text
    assert "<html" not in page
    assert ("Nobody fits" in page) if not total else (len(listed(page)) == min(total, 50))


def test_columns_are_sorted_by_their_headings(programme: Programme, auditor: TestClient) -> None:
    drawn = set(programme.draw(by="Ada").ids)
    page = auditor.get(f"{PEOPLE}?sort=drawn&descending=True").text
    assert set(listed(page)[:5]) == drawn
    assert page.count('aria-sort="descending"') == 1
    assert auditor.get(f"{PEOPLE}?sort=descending").status_code == 422


def test_a_query_that_means_nothing_is_refused(auditor: TestClient) -> None:
    for query in ("sort=secret", "standing=dead", "start=-1", "start=many", f"search={'x' * 201}"):
        assert auditor.get(f"{PEOPLE}?{query}").status_code == 422, query


def test_auditors_see_people_and_change_nothing(auditor: TestClient) -> None:
    page = auditor.get(PEOPLE).text
    assert "Mark as away" not in page
    assert "Enrol one person" not in page
    sent = {"id": "p001", "action": "away", "key": "k"}
    assert auditor.post(f"{PEOPLE}/standing", data=sent).status_code == 403


# ---- who joins, leaves or is away


def test_people_are_away_back_and_withdrawn(programme: Programme, coordinator: TestClient) -> None:
    def set_standing(action: str) -> Any:
        return coordinator.post(f"{PEOPLE}/standing", data={"id": "p002", "action": action, "key": "k"}, headers=HTMX)

    answer = set_standing("away")
    assert programme.status().away == 1
    assert "1–50 of 60 people" in answer.text  # the list as it was filtered
    set_standing("back")
    assert programme.status().away == 0
    set_standing("withdraw")
    assert programme.status().enrolled == 119
    assert set_standing("promote").status_code == 422
    assert listed(coordinator.get(f"{PEOPLE}?standing=left").text) == ["p002"]


def test_someone_is_enrolled_once(programme: Programme, coordinator: TestClient) -> None:
    sent = {"id": " new one ", "group": "north", "staff": "Yaw", "key": "k"}
    for _ in range(2):
        answer = coordinator.post(f"{PEOPLE}/enrol", data=sent)
        assert answer.headers["location"].startswith(PEOPLE)
    assert programme.status().enrolled == 121
    again = coordinator.post(f"{PEOPLE}/enrol", data={**sent, "key": "other"})
    assert again.status_code == 422
    assert "enrolled already" in again.text


def test_features_are_asked_for_in_their_order(store_url: str, tmp_path: Path) -> None:
    programme = mf.programme.open(store_url, "calls")
    programme.create(1, features=["age", "language"], by="Ada")
    client = serving(store_url, tmp_path).browser("Efua", {"calls": Role.COORDINATOR})
    assert "language" in client.get(f"{PEOPLE}/enrol").text
    sent = {"id": "a", "feature": ["34", "B"], "key": "k"}
    assert client.post(f"{PEOPLE}/enrol", data=sent).status_code == 303
    assert client.post(f"{PEOPLE}/enrol", data={**sent, "id": "b", "feature": ["34"]}).status_code == 422
    with programme.store.reading("calls") as session:
        from meritfair.programme.work import Work

        assert Work(session).state.texts("language") == ["B"]


# ---- files


def upload(client: TestClient, text: str, kind: str = "report", name: str = "calls.csv", **more: Any) -> Any:
    files = {"file": (name, text.encode(), "text/csv")}
    return client.post("/p/calls/uploads", data={"kind": kind, "number": "1", **more}, files=files)


def token_in(page: str) -> str:
    found = re.search(r"/p/calls/uploads/([A-Za-z0-9_-]+)\"", page)
    assert found is not None
    return found[1]


def waiting(web: Web) -> list[str]:
    """Return the tokens of files that wait, the oldest first."""
    with web.frame.store.temporary() as rows:
        return [each.token for each in rows.uploads()]


def test_a_file_shows_what_it_would_change_and_changes_it_when_confirmed(
    programme: Programme, coordinator: TestClient, web: Web
) -> None:
    ids = programme.draw(by="Ada").ids
    programme.report(Outcomes([ids[0]], action=[1], after=[1]), by="Ada")
    other = next(each for each in (f"p{number:03}" for number in range(120)) if each not in ids)
    text = f"id,action,state,reason\n{ids[0]},1,1,\n{ids[1]},0,,\n{ids[2]},1,0,\n{other},1,1,asked for it\n"
    before = programme.status()
    page = upload(coordinator, text).text
    shown = dict(re.findall(r"<dt>([^<]+)</dt><dd>([^<]+)</dd>", page))
    counts = {"New outcomes": "3", "Known already, or empty": "1", "Called without being drawn": "1"}
    assert shown == {"Rows": "4", **counts}
    assert "asked for it" in page
    assert programme.status() == before
    assert waiting(web) == [token_in(page)]
    answer = coordinator.post(f"/p/calls/uploads/{token_in(page)}")
    assert answer.headers["location"] == "/p/calls/round/1?did=report&n=3"
    assert programme.status().reported == 3
    assert waiting(web) == []
    again = coordinator.post(f"/p/calls/uploads/{token_in(page)}")
    assert (again.status_code, programme.status().entries) == (404, before.entries + 1)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("id,action\n{0},1\n{1},2\n", "calls.csv, line 3, column action: must be 1 (reached) or 0"),
        ("id,action\n{0},1\n{0},0\n", "calls.csv, line 3, column id"),
        ("id,action\nsomeone,1\n", "calls.csv, line 2, column id: there is no participant"),
        ("id,action,reason\n{other},1,\n", "calls.csv, line 2, column reason"),
        ("id,state\n{0}\n", "calls.csv, line 2: has 1 of the 2 columns"),
        ("who,action\n{0},1\n", "calls.csv"),
        ("id,action,round\n{0},1,7\n", "calls.csv: is about round 7"),
        ("", "calls.csv"),
        ("PK\x03\x04", "calls.csv: is an Excel workbook"),
    ],
)
def test_a_file_with_a_mistake_is_told_by_line_and_column_and_changes_nothing(
    programme: Programme, coordinator: TestClient, web: Web, text: str, problem: str
) -> None:
    ids = programme.draw(by="Ada").ids
    other = next(each for each in (f"p{number:03}" for number in range(120)) if each not in ids)
    before = programme.status()
    page = upload(coordinator, text.format(*ids, other=other)).text
    assert problem in page.replace("&#39;", "'")
    assert "Nothing was changed" in page
    assert "/meritfair-" not in page, "where it was read from is no business of theirs"
    assert programme.status() == before
    assert waiting(web) == []


def test_a_user_has_few_files_that_wait(
    coordinator: TestClient, web: Web, programme: Programme, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pending_uploads, "MOST_OF_ONE", 3)
    tokens = [token_in(upload(coordinator, f"id\nnew-{k}\n", kind="enrol").text) for k in range(5)]
    assert waiting(web) == tokens[2:], "the oldest have made room"
    gone = coordinator.post(f"/p/calls/uploads/{tokens[0]}")
    assert gone.status_code == 404
    assert "has made room for newer ones; upload it again" in gone.text
    assert coordinator.post(f"/p/calls/uploads/{tokens[4]}").status_code == 303
    monkeypatch.setattr(pending_uploads, "MOST_BYTES_OF_ONE", 20)
    last = token_in(upload(coordinator, "id\nnew-long-name\n", kind="enrol").text)
    assert waiting(web) == [last], "large ones make room for each other, too"
    monkeypatch.setattr(pending_uploads, "MOST_BYTES", 30)
    other = web.browser("Cleo", {"*": Role.COORDINATOR})
    refused = upload(other, "id\nanother-long-name\n", kind="enrol")
    assert refused.status_code == 429
    assert refused.headers["retry-after"] == "10"
    assert "too many files of others wait to be confirmed" in refused.text
    assert waiting(web) == [last], "nobody pushes out what is another one's"


def test_a_file_that_contradicts_what_is_known_is_refused_but_may_correct_it(
    programme: Programme, coordinator: TestClient
) -> None:
    ids = programme.draw(by="Ada").ids
    programme.report(Outcomes([ids[0]], action=[1], after=[1]), by="Ada")
    text = f"id,state\n{ids[0]},0\n"
    assert "line 2, column state" in upload(coordinator, text).text
    assert "needs a reason" in upload(coordinator, text, kind="correct").text
    page = upload(coordinator, text, kind="correct", reason="wrong line").text
    assert coordinator.post(f"/p/calls/uploads/{token_in(page)}").status_code == 303
    assert programme.status().entries == 6


def test_people_are_enrolled_from_a_file(programme: Programme, coordinator: TestClient) -> None:
    page = upload(coordinator, "id,group,staff,shoe size\na,north,Yaw,41\nb,south,,\n", kind="enrol").text
    assert "Enrol 2 people" in page
    assert "shoe size" in page
    assert coordinator.post(f"/p/calls/uploads/{token_in(page)}").headers["location"] == f"{PEOPLE}?did=enrol&n=2"
    assert programme.status().enrolled == 122
    assert "enrolled already" in upload(coordinator, "id\na\n", kind="enrol").text


def test_files_wait_for_their_user_alone_and_can_be_discarded(
    programme: Programme, coordinator: TestClient, web: Web
) -> None:
    token = token_in(upload(coordinator, "id\na\n", kind="enrol").text)
    other = web.browser("Yaw", {"calls": Role.COORDINATOR})
    assert other.post(f"/p/calls/uploads/{token}").status_code == 404
    assert other.post(f"/p/calls/uploads/{token}/discard").status_code == 404
    assert waiting(web) == [token]
    assert coordinator.post(f"/p/calls/uploads/{token}/discard").status_code == 303
    assert waiting(web) == []
    assert programme.status().enrolled == 120


@pytest.mark.parametrize("name", ["../../evil.csv", "..\\evil.csv", "/etc/passwd", "a\x00b.csv", "<b>.csv"])
def test_the_name_of_a_file_is_shown_and_never_used(
    coordinator: TestClient, web: Web, tmp_path: Path, name: str
) -> None:
    page = upload(coordinator, "id\na\n", kind="enrol", name=name).text
    assert "<b>" not in page
    assert waiting(web) == [token_in(page)]
    assert [each.name for each in tmp_path.iterdir() if not each.name.startswith("programmes.db")] == ["run"]
    for token in ("..%2f..%2fx", "%2e%2e", "x" * 32):
        assert coordinator.post(f"/p/calls/uploads/{token}").status_code in (404, 422)


def test_the_list_of_a_round_can_be_filled_in_and_handed_back(store_url: str, tmp_path: Path) -> None:
    programme = mf.programme.open(store_url, "calls")
    programme.create(3, by="Ada")
    formulas = ['=HYPERLINK("http://example.org")', "+1", "@x"]
    programme.enrol(People(formulas, group=["-1+1"] * 3), by="Ada")
    programme.draw(by="Ada")
    client = serving(store_url, tmp_path).browser("Efua", {"calls": Role.COORDINATOR})
    answer = client.get("/p/calls/round/1/list.csv")
    assert answer.headers["content-disposition"] == 'attachment; filename="round-1.csv"'
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert [row["id"] for row in rows] == [f"'{each}" for each in formulas]
    assert {row["group"] for row in rows} == {"'-1+1"}
    filled = answer.text.replace(",,,\n", ",1,0,\n")
    page = upload(client, filled).text
    assert client.post(f"/p/calls/uploads/{token_in(page)}").status_code == 303
    assert programme.status().reported == 3
    again = client.get("/p/calls/round/1/list.csv").text
    assert [(row["action"], row["state"]) for row in csv.DictReader(io.StringIO(again))] == [("1", "0")] * 3
    assert "known already" in upload(client, again).text


def test_a_list_opens_in_the_spreadsheets_of_its_reader(store_url: str, tmp_path: Path) -> None:
    programme = mf.programme.open(store_url, "calls")
    programme.create(1, by="Ada")
    programme.enrol(People(["Jörg", "Zoë"], group=["a;b"] * 2), by="Ada")
    programme.draw(by="Ada")
    client = serving(store_url, tmp_path).browser("Efua", {"calls": Role.COORDINATOR})
    german = client.get("/p/calls/round/1/list.csv", headers={"Accept-Language": "de"}).content
    assert german.startswith(codecs.BOM_UTF8)
    (row,) = csv.DictReader(io.StringIO(german.decode("utf-8-sig")), delimiter=";")
    assert (row["chance"], row["group"]) == ("0,5", "a;b")
    page = upload(client, german.decode("utf-8-sig")).text
    assert "No row says what happened" in page
    filled = german.decode("utf-8-sig").replace(";;;\n", ";1;0;\n")
    assert client.post(f"/p/calls/uploads/{token_in(upload(client, filled).text)}").status_code == 303
    assert programme.status().reported == 1


# ---- programmes


def test_someone_with_one_programme_is_led_to_it_and_others_see_a_list(programme: Programme, web: Web) -> None:
    one = web.browser("Efua", {"calls": Role.COORDINATOR})
    assert one.get("/").headers["location"] == "/p/calls"
    assert one.get("/p/calls").headers["location"] == "/p/calls/round"
    assert "Draw round 1." in one.get("/programmes").text
    nobody = web.browser("Nobody", {})
    assert nobody.get("/").headers["location"] == "/programmes"
    page = nobody.get("/programmes").text
    assert "calls" not in page
    assert "There is no programme yet" in page


def test_admins_create_programmes_and_others_do_not(store_url: str, web: Web, coordinator: TestClient) -> None:
    admin = web.browser("Ama", {"*": Role.ADMIN})
    assert "/new" in admin.get("/programmes").text
    assert coordinator.get("/new").status_code == 403
    assert coordinator.post("/new", data={"name": "mine"}).status_code == 403
    answer = admin.post(
        "/new", data={"name": "visits & calls", "budget": 4, "cooldown": 1, "features": "age, language"}
    )
    assert answer.headers["location"] == "/p/visits%20%26%20calls/round?did=created"
    made = mf.programme.open(store_url, "visits & calls").status()
    assert (made.enrolled, made.budget) == (0, "4")
    for name in ("calls", "", "a/b", "x" * 101):
        assert admin.post("/new", data={"name": name}).status_code == 422, name
    assert admin.get("/").headers["location"] == "/programmes"
