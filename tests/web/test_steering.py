"""Attacks on the draws through the API, with a coordinator's token alone: each is refused, or the audit says so."""

from __future__ import annotations

import html
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import meritfair as mf
from meritfair.programme import People
from meritfair.programme.users import Role
from web.clients import TestClient, Web, serving

pytestmark = pytest.mark.slow

P = "/api/v1/programmes/calls"
IDS = [f"p{number:03d}" for number in range(40)]
FAVOURITES, OTHERS = IDS[:5], IDS[5:]
HONEST = "Nothing speaks against"


@dataclass(frozen=True)
class Clinic:
    """A programme of 40 people of whom 5 are drawn, and the tokens of coordinators."""

    web: Web
    mallory: TestClient
    ann: TestClient

    def audit(self) -> dict[str, Any]:
        """Return the audit as a coordinator's program gets it."""
        return waited(self.ann, f"{P}/audit")

    def page(self) -> str:
        """Return the text of the page for the board, as a viewer sees it."""
        viewer = self.web.browser("Bo", {"*": Role.VIEWER})
        end = time.monotonic() + 120
        while time.monotonic() < end:
            text = viewer.get("/p/calls/fairness").text
            if "<progress" not in text:
                return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", " ", text)))
            time.sleep(0.05)
        raise AssertionError("the audit took too long")


@pytest.fixture
def clinic(tmp_path: Path) -> Clinic:
    web = serving(f"sqlite:///{tmp_path / 'programmes.db'}", tmp_path)
    calls = mf.programme.open(web.frame.store.url, "calls")
    calls.create(5, "merit-fair:estimate=mean,design=exact,slack=2", by="Dr. Osei")
    calls.enrol(People(IDS), by="Dr. Osei")
    tokens = [web.program(name, {"calls": Role.COORDINATOR}) for name in ("Mallory", "Ann")]
    return Clinic(web, *tokens)


def waited(client: TestClient, path: str) -> dict[str, Any]:
    for _ in range(600):
        answer = client.get(path)
        if answer.status_code != 202:
            assert answer.status_code == 200, answer.text
            return dict(answer.json())
        time.sleep(0.05)
    raise AssertionError(f"{path} took too long")


def post(client: TestClient, path: str, **body: Any) -> dict[str, Any]:
    answer = client.post(f"{P}/{path}", json=body) if body else client.post(f"{P}/{path}")
    assert answer.status_code in (200, 201), answer.text
    return dict(answer.json())


def refused(client: TestClient, path: str, words: str, **body: Any) -> None:
    answer = client.post(f"{P}/{path}", json=body)
    assert answer.status_code == 422
    assert words in answer.json()["detail"]


def finish(client: TestClient, drawn: dict[str, Any]) -> None:
    """Report that all who were drawn were reached, and close the round."""
    number = drawn["number"]
    rows = [{"id": each["id"], "action": 1, "state": number % 2} for each in drawn["outcomes"] if each["drawn"]]
    if rows:
        post(client, f"rounds/{number}/outcomes", outcomes=rows)
    post(client, f"rounds/{number}/close")


def withdraw_and_enrol_again(clinic: Clinic) -> None:
    """Withdraw 35 of 40, draw 5 of 5, and enrol the 35 again."""
    who = clinic.mallory
    refused(who, "participants/withdraw", "35 of 40 participants", ids=OTHERS)
    for _ in range(5):
        post(who, "participants/withdraw", ids=OTHERS, reason="they have left")
        finish(who, post(who, "rounds"))
        post(who, "participants", participants=[{"id": id_} for id_ in OTHERS])


def draw_with_many_away(clinic: Clinic) -> None:
    """Draw with 35 away, then note that they are back."""
    who = clinic.mallory
    refused(who, "rounds", "35 of 40 participants", away=OTHERS)
    for _ in range(5):
        finish(who, post(who, "rounds", away=OTHERS, reason="holidays"))
        post(who, "participants/back", ids=OTHERS)


def skip_weeks(clinic: Clinic) -> None:
    """Draw nobody in weeks in which the favourites have small chances, as a dry run shows."""
    who = clinic.mallory
    refused(who, "rounds", "the budget for round 1 alone is 0", budget=0)
    for week in range(12):
        skip = {"budget": 0, "reason": "a nurse is ill"} if week % 2 else {}
        finish(who, post(who, "rounds", **skip))


def one_by_one_by_two(clinic: Clinic) -> None:
    """Two users mark a few as away each week, one by one and without a reason: those with the largest chances."""
    calls = mf.programme.open(clinic.web.frame.store.url, "calls")
    for _ in range(26):
        planned, people = calls.preview()
        order = sorted(range(len(people)), key=lambda k: -int(planned.chance[k]))
        out = [people[k].id for k in order if people[k].id not in FAVOURITES][:4]
        for k, id_ in enumerate(out):
            post((clinic.mallory, clinic.ann)[k % 2], "participants/away", ids=[id_])
        refused(clinic.mallory, "participants/away", "5 of 40 participants", ids=[people[order[-1]].id])
        finish(clinic.mallory, post(clinic.mallory, "rounds"))
        post(clinic.ann, "participants/back", ids=out)


def leave_twice_the_budget(clinic: Clinic) -> None:
    """Leave as many as twice the budget, favourites among them, so that no draw is certain."""
    for _ in range(6):
        finish(clinic.mallory, post(clinic.mallory, "rounds", away=IDS[10:], reason="holidays"))
        post(clinic.ann, "participants/back", ids=IDS[10:])


def draw_until_liked(clinic: Clinic) -> None:
    """Close a round in which no favourite was drawn, report nothing of it, and draw again."""
    who = clinic.mallory
    for _week in range(8):
        drawn = post(who, "rounds")
        while not {each["id"] for each in drawn["outcomes"] if each["drawn"]} & set(FAVOURITES[:2]):
            post(who, f"rounds/{drawn['number']}/close")
            drawn = post(who, "rounds")
        finish(who, drawn)


def nine_weeks_each(clinic: Clinic) -> None:
    """Two users note a few as away each week, as many as need no reason, each for nine weeks."""
    back: dict[int, list[str]] = {}
    for week in range(20):
        if back.get(week):
            post(clinic.ann, "participants/back", ids=back.pop(week))
        gone = {id_ for some in back.values() for id_ in some}
        back[week + 9] = [id_ for id_ in OTHERS[5:] if id_ not in gone][:3]
        for k, id_ in enumerate(back[week + 9]):
            post((clinic.mallory, clinic.ann)[k % 2], "participants/away", ids=[id_])
        finish(clinic.mallory, post(clinic.mallory, "rounds"))


def others_under_new_ids(clinic: Clinic) -> None:
    """Withdraw most of the others before each draw, and enrol as many under new ids after it."""
    who, others = clinic.mallory, OTHERS[6:]
    for week in range(5):
        post(who, "participants/withdraw", ids=others, reason="moved away")
        finish(who, post(who, "rounds"))
        others = [f"w{week}-{k}" for k in range(29)]
        post(who, "participants", participants=[{"id": id_} for id_ in others])


@pytest.mark.parametrize(
    ("attack", "answer", "kinds"),
    [
        (draw_until_liked, "explain", ("unused",)),
        (nine_weeks_each, "explain", ("gained", "moved")),
        (others_under_new_ids, "explain", ("brief", "left")),
        (withdraw_and_enrol_again, "not-chance", ("emptied",)),
        (draw_with_many_away, "not-chance", ("emptied",)),
        (skip_weeks, "explain", ("budgets",)),
        (one_by_one_by_two, "explain", ("chosen", "gained", "lost")),
        (leave_twice_the_budget, "explain", ("gained",)),
    ],
)
def test_an_attack_is_in_the_first_sentence(
    clinic: Clinic, attack: Callable[[Clinic], None], answer: str, kinds: tuple[str, ...]
) -> None:
    attack(clinic)
    found = clinic.audit()
    steering = found["steering"]
    assert steering["answer"] == answer
    named = next(each for each in steering["findings"] if each["kind"] in kinds)
    assert "Mallory" in named["by"]
    first = found["verdict"].partition(". ")[0]
    words = {"not-chance": "were not left to chance", "explain": "an explanation"}[answer]
    assert words in first
    assert HONEST not in first
    page = clinic.page()
    assert first in page
    assert "look closer" in page
    assert "Could anyone have steered this?" in page
    assert "p000" not in page, "a viewer sees nobody's id"
    if named["reasons"]:
        assert f"“{named['reasons'][0]}”" in page
    calls = mf.programme.open(clinic.web.frame.store.url, "calls")
    assert calls.verify().whole
    assert calls.audit().to_dict()["steering"]["answer"] == answer


def test_a_coordinator_cannot_change_settings_and_change_them_back(clinic: Clinic) -> None:
    answer = clinic.mallory.patch(f"{P}/settings", json={"budget": 40, "reason": "a try"})
    assert answer.status_code in (403, 404, 405)
    assert mf.programme.open(clinic.web.frame.store.url, "calls").status().budget == "5"


def test_someone_under_a_new_id_is_not_visible_and_the_audit_says_so(clinic: Clinic) -> None:
    post(clinic.mallory, "participants/withdraw", ids=[IDS[39]])
    post(clinic.mallory, "participants", participants=[{"id": "new"}])
    finish(clinic.mallory, post(clinic.mallory, "rounds"))
    found = clinic.audit()
    assert found["steering"]["answer"] == "nothing"
    assert "enrolled again under another id" in " ".join(found["words"]["steering"])


def test_an_honest_programme_has_nothing_to_explain(clinic: Clinic) -> None:
    for week in range(8):
        ill = IDS[3 * week : 3 * week + 2]
        post(clinic.ann, "participants/away", ids=ill)
        holiday = {"budget": 0, "reason": "public holiday"} if week == 5 else {}
        finish(clinic.ann, post(clinic.ann, "rounds", **holiday))
        post(clinic.ann, "participants/back", ids=ill)
    found = clinic.audit()
    assert found["steering"]["answer"] == "nothing"
    assert found["verdict"].startswith(HONEST)
    page = clinic.page()
    assert "nothing to explain" in page
    assert "look closer" not in page


def test_a_viewer_is_told_no_number_of_a_person(clinic: Clinic) -> None:
    draw_with_many_away(clinic)
    viewer = clinic.web.program("Vic", {"calls": Role.VIEWER})
    steering = waited(viewer, f"{P}/audit")["steering"]
    assert steering["gains"] == steering["losses"] == []
    assert all(each["people"] == [] for each in steering["findings"])
    assert clinic.audit()["steering"]["gains"]


def test_forms_come_back_and_ask_for_the_reason(clinic: Clinic) -> None:
    ann = clinic.web.browser("Ann")
    many = "\n".join(OTHERS)
    form = {"number": "1", "key": "k1", "budget": "", "away": many}
    answer = ann.post("/p/calls/draw", data=form)
    assert answer.status_code == 422
    assert "35 of 40 participants would be taken out" in answer.text
    assert OTHERS[-1] in answer.text, "what was typed is kept"
    assert 'name="reason" required' in answer.text
    part = ann.post("/p/calls/draw", data=form, headers={"HX-Request": "true"})
    assert (part.status_code, part.headers["hx-retarget"]) == (422, "#draw-next")
    assert "<html" not in part.text
    done = ann.post("/p/calls/draw", data={**form, "reason": "a flood"})
    assert done.status_code == 303
    assert ann.post("/p/calls/round/1/close", data={"key": "c"}).status_code == 303
    later = ann.post("/p/calls/draw", data={"number": "2", "key": "k2", "budget": "0"})
    assert later.status_code == 422
    assert "the budget for round 2 alone is 0, and that of the settings 5" in later.text
    assert 'value="0"' in later.text


def test_people_are_taken_out_with_a_reason_where_one_is_needed(clinic: Clinic) -> None:
    ann = clinic.web.browser("Ann")
    post(clinic.ann, "participants/away", ids=OTHERS[:4])
    form = {"id": OTHERS[4], "action": "away", "key": "k"}
    asked = ann.post("/p/calls/people/standing", data=form)
    assert asked.status_code == 422
    assert "5 of 40 participants would be taken out" in asked.text
    assert f'value="{OTHERS[4]}"' in asked.text
    part = ann.post("/p/calls/people/standing", data=form, headers={"HX-Request": "true"})
    assert part.headers["hx-retarget"] == "#message"
    assert ann.post("/p/calls/people/standing", data={**form, "reason": "ill"}).status_code == 303
    number = IDS.index(OTHERS[5])
    for what in ("away", "withdraw"):
        asked = ann.post(f"/p/calls/people/{number}/{what}", data={"key": f"x{what}"})
        assert asked.status_code == 422
        again = ann.post(f"/p/calls/people/{number}/{what}", data={"key": f"x{what}", "reason": "ill"})
        assert again.status_code == 303
    status = mf.programme.open(clinic.web.frame.store.url, "calls").status()
    assert (status.away, status.left) == (5, 1)


def test_a_client_gives_reasons(clinic: Clinic, tmp_path: Path) -> None:
    csv = "id\n" + "\n".join(OTHERS)
    headers = {"Content-Type": "text/csv"}
    assert clinic.ann.post(f"{P}/participants/away", content=csv, headers=headers).status_code == 422
    path = f"{P}/participants/away?reason=a%20flood"
    assert clinic.ann.post(path, content=csv, headers=headers).json()["taken"] == 35
