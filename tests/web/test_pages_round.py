"""A round in the browser: taps, corrections, calls beside the draw, closing and drawing."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import meritfair as mf
from meritfair.datasets.clinic import clinic_people
from meritfair.programme import Outcomes, People, Programme, live_demo
from meritfair.programme.keeping import Places, set_places
from meritfair.programme.ledger.heads import short_code
from meritfair.programme.live_demo import NAME, PEOPLE, WEEKS, open_clinic
from meritfair.programme.reading import Reader
from meritfair.programme.storage.store import Store
from meritfair.programme.users import Role
from programme.clinics import clinic
from programme.quick_hashes import quick_hashes as quick_hashes
from web.clients import TestClient, Web, serving

pytestmark = pytest.mark.slow
HTMX = {"HX-Request": "true"}
ROUND = "/p/calls/round"


@pytest.fixture
def programme(store_url: str) -> Programme:
    """A programme whose first round is drawn."""
    made = clinic(store_url).programme
    made.draw(by="Ada")
    return made


@pytest.fixture
def web(store_url: str, programme: Programme, tmp_path: Path) -> Web:
    return serving(store_url, tmp_path)


@pytest.fixture
def coordinator(web: Web) -> TestClient:
    return web.browser("Efua", {"calls": Role.COORDINATOR})


@pytest.fixture
def auditor(web: Web) -> TestClient:
    return web.browser("Kofi", {"calls": Role.AUDITOR})


def key_in(page: str, person: int) -> str:
    """Return the key in the form of a person, as a page has it."""
    form = page[page.index(f'id="call-{person}"') :]
    found = re.search(r'name="key" value="([^"]+)"', form)
    assert found is not None
    return found[1]


def tap(client: TestClient, person: int, outcome: str, **more: Any) -> Any:
    key = key_in(client.get(ROUND).text, person)
    sent = {"outcome": outcome, "key": key, **more}
    return client.post(f"{ROUND}/1/people/{person}/report", data=sent, headers=HTMX)


def outcome_of(programme: Programme, person: int) -> tuple[int, int]:
    """Return action and state of someone in the first round, as the core knows them."""
    outcomes = Reader(programme.store).look(programme.name).outcomes(1)
    return next((each.action, each.after) for each in outcomes if each.number == person)


def not_drawn(programme: Programme) -> str:
    drawn = programme.round().ids
    return next(f"p{number}" for number in range(12) if f"p{number}" not in drawn)


# ---- taps


@pytest.mark.parametrize(
    ("outcome", "known"), [("good", (1, 1)), ("bad", (1, 0)), ("reached", (1, -1)), ("missed", (0, -1))]
)
def test_one_tap_says_whether_someone_was_reached_and_how_they_are(
    programme: Programme, coordinator: TestClient, outcome: str, known: tuple[int, int]
) -> None:
    person = programme.round().people[0]
    answer = tap(coordinator, person.number, outcome)
    assert answer.status_code == 200
    assert f'id="call-{person.number}"' in answer.text
    assert "2 of 3 still to report" in answer.text
    assert outcome_of(programme, person.number) == known


def test_a_tap_is_kept_with_the_name_of_who_made_it(programme: Programme, coordinator: TestClient, web: Web) -> None:
    tap(coordinator, programme.round().people[0].number, "good")
    look = web.frame.reader.look("calls")
    assert look.entry_lines(look.entries - 1, look.entries)[0].by == "Efua"


def test_the_same_tap_twice_has_one_effect(programme: Programme, coordinator: TestClient) -> None:
    person = programme.round().people[0].number
    key = key_in(coordinator.get(ROUND).text, person)
    sent = {"outcome": "good", "key": key}
    before = programme.status().entries
    answers = [coordinator.post(f"{ROUND}/1/people/{person}/report", data=sent, headers=HTMX) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [200, 200]
    assert programme.status().entries == before + 1


def test_another_tap_on_an_old_page_is_refused_in_words(programme: Programme, coordinator: TestClient) -> None:
    person = programme.round().people[0].number
    key = key_in(coordinator.get(ROUND).text, person)
    first = coordinator.post(f"{ROUND}/1/people/{person}/report", data={"outcome": "good", "key": key}, headers=HTMX)
    second = coordinator.post(f"{ROUND}/1/people/{person}/report", data={"outcome": "missed", "key": key}, headers=HTMX)
    assert (first.status_code, second.status_code) == (200, 422)
    assert "correct it if that was wrong" in second.text
    assert second.headers["hx-retarget"] == "#message"
    assert outcome_of(programme, person) == (1, 1)


def test_without_scripts_a_tap_leads_back_to_the_round(programme: Programme, coordinator: TestClient) -> None:
    person = programme.round().people[0].number
    answer = coordinator.post(f"{ROUND}/1/people/{person}/report", data={"outcome": "good", "key": "k"})
    assert (answer.status_code, answer.headers["location"]) == (303, f"{ROUND}/1")


def test_a_tap_that_there_is_not_and_someone_not_drawn_are_refused(
    programme: Programme, coordinator: TestClient
) -> None:
    person = programme.round().people[0].number
    before = programme.status()
    assert tap(coordinator, person, "excellent").status_code == 422
    other = int(not_drawn(programme)[1:])
    sent = {"outcome": "good", "key": "k"}
    assert coordinator.post(f"{ROUND}/1/people/{other}/report", data=sent, headers=HTMX).status_code == 422
    assert programme.status() == before


def test_auditors_see_the_list_and_cannot_tap(programme: Programme, auditor: TestClient) -> None:
    page = auditor.get(ROUND)
    person = programme.round().people[0]
    assert person.id in page.text
    assert 'name="outcome"' not in page.text
    assert "Close round" not in page.text
    sent = {"outcome": "good", "key": "k"}
    assert auditor.post(f"{ROUND}/1/people/{person.number}/report", data=sent).status_code == 403


def test_viewers_are_led_to_fairness_and_see_nobody(web: Web) -> None:
    viewer = web.browser("Board", {"calls": Role.VIEWER})
    assert viewer.get("/p/calls").headers["location"] == "/p/calls/fairness"
    assert viewer.get(ROUND).status_code == 403


# ---- corrections


def test_a_correction_needs_a_reason_and_replaces_what_was_reported(
    programme: Programme, coordinator: TestClient
) -> None:
    person = programme.round().people[0].number
    tap(coordinator, person, "good")
    address = f"{ROUND}/1/people/{person}/correct"
    sent = {"action": "no", "state": "unknown", "key": "k"}
    refused = coordinator.post(address, data=sent, headers=HTMX)
    assert (refused.status_code, outcome_of(programme, person)) == (422, (1, 1))
    assert "needs a reason" in refused.text
    answer = coordinator.post(address, data={**sent, "reason": "wrong line"}, headers=HTMX)
    assert (answer.status_code, outcome_of(programme, person)) == (200, (0, -1))


def test_a_state_that_was_seen_later_needs_no_reason(programme: Programme, coordinator: TestClient) -> None:
    person = programme.round().people[0].number
    tap(coordinator, person, "reached")
    assert tap(coordinator, person, "state-bad").status_code == 200
    assert outcome_of(programme, person) == (1, 0)


# ---- others


def test_a_call_beside_the_draw_needs_a_reason(programme: Programme, coordinator: TestClient) -> None:
    other = not_drawn(programme)
    sent = {"id": other, "outcome": "good", "key": "k"}
    refused = coordinator.post(f"{ROUND}/1/others", data=sent, headers=HTMX)
    assert refused.status_code == 422
    assert "needs a reason" in refused.text
    answer = coordinator.post(f"{ROUND}/1/others", data={**sent, "reason": "<b>came</b> by"}, headers=HTMX)
    assert answer.headers["hx-redirect"] == f"{ROUND}/1?did=report&n=1"
    page = coordinator.get(ROUND).text
    assert "Called without being drawn" in page
    assert "&lt;b&gt;came&lt;/b&gt; by" in page
    assert "3 of 3 still to report" in page


def test_a_call_beside_the_draw_that_never_was_can_be_taken_back(programme: Programme, coordinator: TestClient) -> None:
    other = not_drawn(programme)
    sent = {"id": other, "outcome": "good", "reason": "came by", "key": "k"}
    coordinator.post(f"{ROUND}/1/others", data=sent)
    wrong = {"action": "no", "state": "unknown", "reason": "it was someone else", "key": "k"}
    answer = coordinator.post(f"{ROUND}/1/people/{other[1:]}/correct", data=wrong, headers=HTMX)
    assert (answer.status_code, "Not reached" in answer.text) == (200, True)
    assert "Called without being drawn" not in coordinator.get(ROUND).text


def test_the_state_of_someone_who_was_not_called_needs_none(programme: Programme, coordinator: TestClient) -> None:
    sent = {"id": not_drawn(programme), "outcome": "state-bad", "key": "k"}
    assert coordinator.post(f"{ROUND}/1/others", data=sent).status_code == 303
    assert programme.status().states == 1


def test_an_id_that_nobody_has_is_refused_without_naming_all_others(coordinator: TestClient) -> None:
    sent = {"id": "px", "outcome": "good", "reason": "r", "key": "k"}
    refused = coordinator.post(f"{ROUND}/1/others", data=sent, headers=HTMX)
    assert refused.status_code == 422
    assert "px" in refused.text
    assert "p11" not in refused.text


def test_ids_are_suggested(coordinator: TestClient, auditor: TestClient) -> None:
    found = coordinator.get("/p/calls/ids", params={"id": "P1"}).text
    assert re.findall(r'value="([^"]+)"', found) == ["p1", "p10", "p11"]
    assert auditor.get("/p/calls/ids", params={"id": "p"}).status_code == 403


# ---- what others do


def test_the_page_notices_what_others_do_and_not_what_oneself_does(
    programme: Programme, coordinator: TestClient, web: Web
) -> None:
    since = web.frame.reader.look("calls").entries
    people = programme.round().people
    tap(coordinator, people[0].number, "good")
    news = f"{ROUND}/1/news?since={since}"
    assert coordinator.get(news).status_code == 204
    programme.report(Outcomes([people[1].id, people[2].id], action=[1, 0]), by="Yaw <i>")
    told = coordinator.get(news)
    assert told.status_code == 200
    assert "Yaw &lt;i&gt; has reported on 2 people." in told.text


# ---- closing and drawing


def drawing(client: TestClient, number: int, key: str = "draw", **more: Any) -> Any:
    return client.post("/p/calls/draw", data={"number": number, "key": key, **more})


def test_what_is_missing_is_said_before_a_round_is_closed(programme: Programme, coordinator: TestClient) -> None:
    page = coordinator.get(ROUND).text
    assert "3 of 3 still to report" in page
    assert "Close round 1 anyway" in page
    for person in programme.round().people:
        tap(coordinator, person.number, "good")
    page = coordinator.get(ROUND).text
    assert "All 3 reported" in page
    assert "anyway" not in page
    assert coordinator.post(f"{ROUND}/1/close", data={"key": "k"}).status_code == 303
    assert programme.status().phase == "closed"
    assert "Draw round 2" in coordinator.get(ROUND).text


def test_a_round_is_closed_and_drawn_once_however_often_it_is_asked(
    programme: Programme, coordinator: TestClient
) -> None:
    for _ in range(2):
        coordinator.post(f"{ROUND}/1/close", data={"key": "close"})
    first, second = drawing(coordinator, 2), drawing(coordinator, 2)
    assert first.headers["location"] == f"{ROUND}?did=drawn"
    assert second.headers["location"] == f"{ROUND}?did=moved"
    status = programme.status()
    assert (status.round, status.phase) == (2, "open")


def test_an_old_page_does_not_close_or_draw_a_later_round(programme: Programme, coordinator: TestClient) -> None:
    programme.close(by="Ada")
    programme.draw(by="Ada")
    coordinator.post(f"{ROUND}/1/close", data={"key": "old"})
    assert programme.status().phase == "open"
    programme.close(by="Ada")
    assert drawing(coordinator, 2, "old draw").headers["location"] == f"{ROUND}?did=moved"
    assert programme.status().phase == "closed"


def test_a_draw_takes_a_budget_who_is_away_and_states(programme: Programme, coordinator: TestClient) -> None:
    programme.close(by="Ada")
    states = {"states": ("states.csv", b"id,state\np3,1\np4,0\n", "text/csv")}
    data = {"number": "2", "key": "k", "budget": ["2"], "away": "p1\n p2 \n\n", "reason": "a nurse is ill"}
    answer = coordinator.post("/p/calls/draw", data=data, files=states)
    assert answer.status_code == 303
    found = programme.round()
    assert (len(found.people), found.away) == (2, 2)
    assert programme.status().away == 2


@pytest.mark.parametrize(
    ("sent", "problem"),
    [
        ({"budget": ["many"]}, "whole number"),
        ({"away": "nobody"}, "nobody"),
    ],
)
def test_a_draw_that_is_refused_changes_nothing(
    programme: Programme, coordinator: TestClient, sent: dict[str, Any], problem: str
) -> None:
    programme.close(by="Ada")
    before = programme.status()
    answer = drawing(coordinator, 2, **sent)
    assert answer.status_code == 422
    assert problem in answer.text
    assert programme.status() == before


def test_states_with_a_mistake_are_told_with_line_and_column(programme: Programme, coordinator: TestClient) -> None:
    programme.close(by="Ada")
    states = {"states": ("my states.csv", b"id,state\np3,1\np4,7\n", "text/csv")}
    answer = coordinator.post("/p/calls/draw", data={"number": "2", "key": "k"}, files=states)
    assert answer.status_code == 422
    assert "my states.csv, line 3, column state" in answer.text
    assert programme.status().round == 1


def test_a_committed_round_shows_what_it_waits_for_and_is_drawn_with_the_value(
    programme: Programme, coordinator: TestClient
) -> None:
    programme.close(by="Ada")
    programme.change(source="the lottery of Saturday", reason="the board asked for it", by="Ada")
    assert drawing(coordinator, 2).headers["location"] == f"{ROUND}?did=committed"
    page = coordinator.get(ROUND).text
    assert "the lottery of Saturday" in page
    answer = coordinator.post(f"{ROUND}/2/value", data={"key": "v", "value": "9319 / 2 5 12 8 10 /"})
    assert answer.headers["location"] == f"{ROUND}?did=drawn"
    assert len(programme.round().people) == 3


def test_past_rounds_are_shown_and_others_are_not_found(programme: Programme, coordinator: TestClient) -> None:
    programme.close(by="Ada")
    programme.draw(by="Ada")
    assert "Round 1" in coordinator.get(f"{ROUND}/1").text
    assert coordinator.get(f"{ROUND}/3").status_code == 422
    assert coordinator.get(f"{ROUND}/0").status_code == 422


def test_the_list_can_be_that_of_one_nurse_or_of_those_missing(store_url: str, tmp_path: Path) -> None:
    programme = mf.programme.open(store_url, "calls")
    programme.create(4, by="Ada")
    ids = ["a", "b", "c", "d"]
    programme.enrol(People(ids, staff=["Efua", "Efua", "Yaw", "Yaw"]), by="Ada")
    programme.draw(by="Ada")
    programme.report(Outcomes(["a"], action=[1]), by="Ada")
    client = serving(store_url, tmp_path).browser("Efua", {"calls": Role.COORDINATOR})

    def shown(query: str) -> list[str]:
        return re.findall(r'class="name"[^>]*>([^<]+)<', client.get(f"{ROUND}?{query}").text)

    assert shown("") == ids
    assert shown("staff=Efua") == ["a", "b"]
    assert shown("staff=Efua&missing=true") == ["b"]
    assert shown("staff=Nobody") == []


def test_before_the_first_round_the_page_says_what_to_do(store_url: str, tmp_path: Path) -> None:
    programme = mf.programme.open(store_url, "calls")
    programme.create(1, by="Ada")
    client = serving(store_url, tmp_path).browser("Efua", {"calls": Role.COORDINATOR})
    assert "who takes part" in client.get(ROUND).text
    programme.enrol(["a", "b"], by="Ada")
    assert "Draw round 1" in client.get(ROUND).text
    drawing(client, 1)
    assert len(programme.round().people) == 1


def test_names_that_are_markup_stay_text(store_url: str, tmp_path: Path) -> None:
    bad = "<script>alert(1)</script>"
    programme = mf.programme.open(store_url, "calls")
    programme.create(1, by="Ada")
    programme.enrol(People([bad], [bad], [bad]), by="Ada")
    programme.draw(by="Ada")
    client = serving(store_url, tmp_path).browser("Efua", {"calls": Role.COORDINATOR})
    for page in (ROUND, f"{ROUND}/1/print", "/p/calls/people", "/p/calls/ids?id=script"):
        text = client.get(page).text
        assert bad not in text, page
        assert "&lt;script&gt;" in text, page


# ---- the simulated clinic


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Web]:
    """A simulated clinic that is set up once."""
    folder = tmp_path_factory.mktemp("demo")
    url = f"sqlite:///{folder / 'demo.db'}"
    web = serving(url, folder, demo=True)
    return lambda: web


def test_the_weeks_behind_the_clinic_are_whole_and_its_people_those_who_are_simulated(tmp_path: Path) -> None:
    store = Store(tmp_path / "clinic.db")
    open_clinic(store)
    open_clinic(store)  # which is there already
    clinic = Programme(store, NAME)
    assert clinic.verify().whole
    status = clinic.status()
    assert (status.round, status.phase) == (WEEKS + 1, "open")
    with store.reading(NAME) as session:
        assert set(session.people_columns()[1]) == set(clinic_people(PEOPLE, live_demo.SEED)[0].names)


def test_a_visitor_is_led_to_the_round_and_plays_it(demo: Callable[[], Web]) -> None:
    web = demo()
    visitor = web.anyone()
    assert visitor.get("/").headers["location"] == f"/p/{NAME}"
    status = web.frame.reader.look(NAME).status
    assert (status.round, status.phase, status.reported) == (13, "open", 0)
    first = web.frame.reader.look(NAME).outcomes(13)[0]
    headers = {"X-CSRF-Token": web.csrf(visitor), **HTMX}
    sent = {"outcome": "bad", "key": "k"}
    visitor.post(f"/p/{NAME}/round/13/people/{first.number}/report", data=sent, headers=headers)
    answer = visitor.post(f"/p/{NAME}/demo", data={"rounds": 1}, headers={"X-CSRF-Token": web.csrf(visitor)})
    assert answer.headers["location"] == f"/p/{NAME}/round?did=played&n=1"
    look = web.frame.reader.look(NAME)
    assert (look.status.round, look.status.phase) == (14, "open")
    outcomes = {each.number: each for each in look.outcomes(13)}
    assert (outcomes[first.number].action, outcomes[first.number].after) == (1, 0)
    assert all(each.action >= 0 for each in outcomes.values())
    reached = [each.action for each in outcomes.values()]
    assert sum(reached) > 0


def test_what_is_simulated_follows_from_what_was_done(demo: Callable[[], Web]) -> None:
    web = demo()
    programme = web.frame.reader.programme(NAME)
    round_ = programme.status().round
    once, again = (live_demo._missing(programme, round_) for _ in range(2))
    assert [each.by for each in once] == [each.by for each in again]
    assert all((a.outcomes.after == b.outcomes.after).all() for a, b in zip(once, again, strict=True))


def test_only_the_simulated_clinic_can_be_played(coordinator: TestClient) -> None:
    assert coordinator.post("/p/calls/demo", data={"rounds": 1}).status_code == 404


# ---- what is noticed


def test_a_head_that_cannot_be_kept_is_told_after_the_draw(
    coordinator: TestClient, programme: Programme, tmp_path: Path
) -> None:
    file = tmp_path / "shared" / "heads.tsv"
    file.parent.mkdir()
    set_places(programme.store, Places(str(file)))
    programme.close(by="Ada")
    file.unlink()
    file.parent.rmdir()
    answer = coordinator.post("/p/calls/draw", data={"number": "2", "key": "second"})
    assert answer.status_code == 303
    page = coordinator.get(answer.headers["location"]).text
    assert "The draw stands, but its head was not kept elsewhere." in page
    assert "The head could not be kept at heads.tsv: No such file or directory." in page
    assert str(tmp_path) not in page
    assert "not kept elsewhere" not in coordinator.get(ROUND).text
    file.parent.mkdir()
    programme.close(by="Ada")
    answer = coordinator.post("/p/calls/draw", data={"number": "3", "key": "third"})
    assert "not kept elsewhere" not in coordinator.get(answer.headers["location"]).text
    assert programme.round().head in file.read_text()


def test_the_printed_list_has_the_head(coordinator: TestClient, programme: Programme) -> None:
    page, head = coordinator.get(f"{ROUND}/1/print").text, programme.status().head
    assert f"<strong>{short_code(head)}</strong>" in page
    assert head in page
