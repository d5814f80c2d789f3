"""Could anyone have steered the draws: limits on who is taken out, what absences move, and honest programmes."""

from __future__ import annotations

import importlib.util
import json
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import meritfair as mf
from meritfair.core.language import speaking
from meritfair.programme import Outcomes, Part, People, Programme, Trial, work
from meritfair.programme.inputs import ReasonNeededError
from meritfair.programme.records import records
from meritfair.programme.showing.board import board_values, board_words
from meritfair.programme.showing.report_page import report_page
from meritfair.programme.showing.steering import Absences, Choice, Steering, steering_of
from meritfair.programme.work import Work
from meritfair.web.language import language_of


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'programmes.db'}"


def started(url: str, people: int = 40, budget: Any = 5, policy: Any = "random", **settings: Any) -> Programme:
    made = mf.programme.open(url, "calls")
    made.create(budget, policy, by="Dr. Osei", **settings)
    made.enrol(People(ids(people)), by="Dr. Osei")
    return made


def ids(stop: int, start: int = 0) -> list[str]:
    return [f"p{number:03d}" for number in range(start, stop)]


def played(calls: Programme, rounds: int = 1, by: str = "Ann", **options: Any) -> None:
    for _ in range(rounds):
        drawn = calls.draw(by=by, **options).ids
        if drawn:
            calls.report(Outcomes(drawn, [1] * len(drawn), [1] * len(drawn)), by=by)
        calls.close(by=by)


def found_in(calls: Programme) -> Steering:
    with calls.store.reading(calls.name) as session:
        work = Work(session)
        return steering_of(work, records(work))


def kinds(found: Steering) -> list[str]:
    return [each.kind for each in found.findings]


# ---- reasons


def test_a_tenth_may_be_taken_out_without_a_reason(url: str) -> None:
    calls = started(url, 50)
    played(calls)
    calls.away(ids(3), by="Ann")
    calls.withdraw(ids(5, 3), by="Ann")
    with pytest.raises(ReasonNeededError, match=r"6 of 50 participants .* more than the 5 .* \(reason, or --reason\)"):
        calls.withdraw(ids(6, 5), by="Ann")
    calls.away(ids(2), back=True, by="Ann")
    calls.away(ids(7, 5), by="Ann")  # five again
    played(calls)
    calls.away(ids(11, 7), by="Ann")  # a tenth of the 48 who are enrolled
    calls.away(ids(40, 11), reason=" a flood ", by="Ann")
    with calls.store.reading("calls") as session:
        bodies = [entry.body for entry, _ in Work(session).heads() if entry.kind in ("away", "withdraw", "commit")]
    assert all("reason" in body for body in bodies)
    assert bodies[-1] == {"reason": "a flood"}
    assert calls.verify().whole


def test_three_may_always_be_taken_out_unless_fewer_than_twice_the_budget_are_left(url: str) -> None:
    calls = started(url, 9, 3)
    played(calls)
    calls.away(ids(3), by="Ann")
    with pytest.raises(ReasonNeededError, match="more than the 3 who may be without a reason"):
        calls.away(ids(4, 3), by="Ann")
    calls.away(ids(3), back=True, by="Ann")
    calls.change(budget=4, reason="more staff", by="Ann")
    calls.away(ids(1), by="Ann")
    with pytest.raises(ReasonNeededError, match=r"7 of 9 .* fewer than twice the budget of 4"):
        calls.withdraw(ids(2, 1), by="Ann")
    calls.withdraw(ids(2, 1), reason="moved away", by="Ann")


def test_those_who_joined_since_the_last_draw_count_too(url: str) -> None:
    calls = started(url, 40)
    with pytest.raises(ReasonNeededError, match="35 of 40"):
        calls.withdraw(ids(35), by="Ann")
    calls.withdraw(ids(4), by="Ann")
    with pytest.raises(ReasonNeededError, match="5 of 40"):
        calls.withdraw(ids(5, 4), by="Ann")


def test_those_who_came_back_and_go_again_count_too(url: str) -> None:
    calls = started(url, 40)
    calls.away(ids(4), by="Ann")
    played(calls)
    calls.away(ids(4), back=True, by="Ann")
    calls.away(ids(4), by="Ann")
    with pytest.raises(ReasonNeededError, match="5 of 40"):
        calls.away(ids(5, 4), by="Ann")


def test_few_people_may_be_few(url: str) -> None:
    calls = started(url, 5, 3)
    played(calls)
    calls.away(ids(1), by="Ann")  # there were fewer than twice the budget before


def test_a_draw_needs_a_reason_for_many_absent_and_for_another_budget(url: str) -> None:
    calls = started(url)
    with pytest.raises(ReasonNeededError, match="35 of 40"):
        calls.draw(away=ids(35), by="Ann")
    assert calls.status().away == 0
    with pytest.raises(ReasonNeededError, match="the budget for round 1 alone is 0, and that of the settings 5"):
        calls.draw(budget=0, by="Ann")
    assert calls.status().round == 0
    assert len(calls.draw(budget=5, by="Ann").people) == 5  # which is that of the settings
    calls.close(by="Ann")
    drawn = calls.draw(budget=2, away=ids(35), reason="a flood", by="Ann", key="k")
    assert len(drawn.people) == 2
    assert calls.draw(budget=2, away=ids(35), reason="a flood", by="Ann", key="k") == drawn
    with calls.store.reading("calls") as session:
        entries = {entry.kind: entry.body for entry, _ in Work(session).heads()}
    assert (entries["away"]["reason"], entries["commit"]["reason"]) == ("a flood", "a flood")
    found = found_in(calls)
    assert [(each.round, each.asked, each.settings, each.reason) for each in found.budgets] == [
        (2, (2,), (5,), "a flood")
    ]


def test_the_parts_of_a_trial_are_looked_at_one_by_one(url: str) -> None:
    calls = mf.programme.open(url, "calls")
    parts = [Part(4, "random", name="calls"), Part(0, "none", name="control")]
    calls.create(trial=Trial("0" * 64), parts=parts, by="Ann")
    calls.enrol(People(ids(20)), by="Ann")
    played(calls)
    with calls.store.reading("calls") as session:
        part = Work(session).state.part
    first = [id_ for id_, own in zip(ids(20), part, strict=True) if own == 0]
    other = [id_ for id_, own in zip(ids(20), part, strict=True) if own == 1]
    calls.away(other[:2], by="Ann")
    calls.away(other[:2], back=True, by="Ann")
    calls.away(first[:2], by="Ann")
    with pytest.raises(ReasonNeededError, match="fewer than twice the budget of 4"):
        calls.away(first[2:3], by="Ann")


# ---- what absences move


def test_absences_are_gaps_between_draws(url: str) -> None:
    calls = started(url)
    calls.away(ids(1), by="Ann")  # before the first draw
    played(calls)
    calls.away(ids(1), back=True, by="Ann")
    calls.withdraw(ids(3, 2), by="Ann")
    calls.away(ids(2, 1), by="Ann")
    played(calls, 2)
    calls.enrol(ids(3, 2), by="Ann")
    calls.withdraw(ids(4, 3), by="Ann")  # for good
    played(calls)
    with calls.store.reading("calls") as session:
        work = Work(session)
        found = Absences.of(work, records(work))
    rows = zip(found.number.tolist(), found.first.tolist(), found.last.tolist(), strict=True)
    assert list(rows) == [(0, 1, 1), (1, 2, 4), (2, 2, 3)]
    part = np.zeros(40, np.int64)
    assert found.covering(part, 1, 4)[:, 0].tolist() == [1, 2, 2, 1]
    assert {round_: found.number[places].tolist() for round_, places in found.by_round().items()} == {
        1: [0],
        2: [1, 2],
        3: [1, 2],
        4: [1],
    }


def test_gains_are_those_of_equal_chances(url: str) -> None:
    """With equal chances 5 of 40 and 5 of 20: who stays gains an eighth, who is away loses one."""
    calls = started(url)
    played(calls)
    calls.away(ids(5), reason="ill", by="Ann")
    calls.away(ids(20, 5), reason="on leave", by="Ben")
    played(calls)
    calls.away(ids(20), back=True, by="Cem")
    played(calls)
    found = found_in(calls)
    assert found.budget == 15
    assert found.moved == pytest.approx(2.5)
    assert [(each.by, each.absences, each.reasons) for each in found.users] == [
        ("Ben", 15, ("on leave",)),
        ("Ann", 5, ("ill",)),
    ]
    assert [each.moved for each in found.users] == pytest.approx([1.875, 0.625])
    assert [each.number for each in found.gains[:2]] == [20, 21]
    assert found.gains[0].gain == pytest.approx(0.125)
    assert found.losses[0].gain == pytest.approx(-0.125)
    assert (found.rounds[0].round, found.rounds[0].present, found.rounds[0].absent) == (2, 20, 20)
    assert found.choice.score == pytest.approx(0, abs=1e-6)
    assert found.answer == "nothing"


def test_long_absences_are_planned_again_and_those_who_left_are_not(url: str) -> None:
    calls = started(url)
    played(calls)
    calls.away(ids(2), by="Ann")
    calls.withdraw(ids(4, 2), by="Ann")
    played(calls, 12)
    calls.away(ids(1), back=True, by="Ann")  # the other may still
    played(calls)
    found = found_in(calls)
    assert [(each.round, each.absent) for each in found.rounds] == [*((k, 2) for k in range(2, 14)), (14, 1)]
    assert found.moved == pytest.approx(12 * 2 * 5 / 38 + 5 / 38, rel=1e-6)
    assert (found.turnover.left, found.turnover.brief, found.answer) == (2, 2, "nothing")


def test_long_absences_are_found_that_need_no_reason(url: str) -> None:
    """Two users note six a round as away, one by one, for nine rounds each, until most of the others are gone."""
    calls = started(url, 60, 6)
    back: dict[int, list[str]] = {}
    for week in range(26):
        if back.get(week):
            calls.away(back.pop(week), back=True, by="Ben")
        gone = {id_ for some in back.values() for id_ in some}
        out = [id_ for id_ in ids(60, 12) if id_ not in gone][:6]
        for k, id_ in enumerate(out):
            calls.away([id_], by=("Ann", "Ben")[k % 2])
        back[week + 9] = out
        played(calls)
    found = found_in(calls)
    assert {"gained", "moved"} <= set(kinds(found))
    assert set(next(each for each in found.findings if each.kind == "gained").people) == set(range(12))


def test_someone_who_is_hardly_ever_there_is_found(url: str) -> None:
    calls = started(url, 20, 5)
    for week in range(30):
        played(calls)
        calls.away(ids(1), back=week % 10 == 9, by="Mallory")
    found = found_in(calls)
    assert kinds(found) == ["lost"]
    assert (found.findings[0].people, found.findings[0].by) == ((0,), ("Mallory",))


def test_many_who_leave_at_once_are_found(url: str) -> None:
    calls = started(url)
    played(calls, 3)
    calls.withdraw(ids(19), reason="moved away", by="Ann")
    played(calls)
    assert found_in(calls).answer == "nothing"
    calls.withdraw(ids(20, 19), by="Mallory")
    played(calls)
    found = found_in(calls)
    assert kinds(found) == ["left"]
    assert (found.findings[0].value, found.findings[0].of, found.findings[0].by) == (20, 40, ("Ann", "Mallory"))
    assert (found.turnover.fewest, found.turnover.most) == (20, 40)


def test_people_who_join_only_to_leave_are_found(url: str) -> None:
    """Others are withdrawn before each draw, and come back under other ids after it."""
    calls = started(url)
    played(calls, 2)
    others = ids(40, 10)
    for week in range(4):
        calls.withdraw(others, reason="moved away", by="Mallory")
        played(calls)
        others = [f"w{week}-{k}" for k in range(30)]
        calls.enrol(People(others), by="Mallory")
    found = found_in(calls)
    assert {"brief", "left"} <= set(kinds(found))
    brief = next(each for each in found.findings if each.kind == "brief")
    assert (brief.value, brief.of, brief.by) == (120, 160, ("Mallory",))


@pytest.mark.parametrize("back", [True, False])
def test_draws_that_absences_have_emptied_were_not_left_to_chance(url: str, back: bool) -> None:
    calls = started(url)
    played(calls)
    for _ in range(3):
        calls.withdraw(ids(40, 5), reason="they have left", by="Mallory")
        played(calls)
        calls.enrol(ids(40, 5), by="Mallory")
    if not back:
        calls.withdraw(ids(40, 5), reason="they have left", by="Mallory")
        played(calls)
    found = found_in(calls)
    assert found.answer == "not-chance"
    assert kinds(found)[0] == "emptied"
    assert (found.findings[0].rounds, found.findings[0].by) == ((2, 3, 4), ("Mallory",))
    assert (found.emptied, found.certain) == (15, 15 + 5 * (not back))
    assert found.findings[0].reasons == ("they have left",)
    assert ("left" in kinds(found)) == (not back)
    assert {"gained"} <= set(kinds(found))
    assert set(next(each for each in found.findings if each.kind == "gained").people) == set(range(5))


def test_a_small_programme_is_a_fact_and_no_accusation(url: str) -> None:
    calls = started(url, 8, 5)
    played(calls, 10)
    found = found_in(calls)
    assert (found.answer, found.thin, found.certain) == ("nothing", 10, 0)
    calls.withdraw(ids(3), by="Ann")
    played(calls, 3)
    found = found_in(calls)
    assert (found.answer, found.certain) == ("nothing", 15)
    assert "that is the size of the programme" in " ".join(board_words(calls.audit())["steering"])


def test_whoever_takes_out_the_largest_chances_is_found(url: str) -> None:
    """Slack makes chances differ from week to week, so whoever sees them can take out those whose turn it is."""
    calls = started(url, 30, 3, "merit-fair:estimate=mean,design=exact,slack=2", floor=0.0)
    rng = np.random.default_rng(1)
    out: list[str] = []
    for _ in range(26):
        planned, people = calls.preview()
        order = np.argsort(-planned.chance, kind="stable")
        out = [people[k].id for k in order if people[k].id not in ids(2)][:3]
        for id_ in out:
            calls.away(id_, by="Mallory")
        drawn = calls.draw(by="Ann").ids
        others = sorted(set(ids(30)) - set(drawn))
        everyone = [*drawn, *others]
        actions, states = [1] * len(drawn) + [0] * len(others), rng.integers(0, 2, 30).tolist()
        calls.report(Outcomes(everyone, actions, states), by="Ann")
        calls.close(by="Ann")
        calls.away(out, back=True, by="Ann")
    found = found_in(calls)
    assert "chosen" in kinds(found)
    assert next(each for each in found.findings if each.kind == "chosen").by == ("Mallory",)
    assert found.choice.ratio > 1.5


def test_a_choice_counts_if_it_is_made_again_and_again() -> None:
    one = Choice(2, 0.9, 0.5, 0.4**2)
    assert (one + one).absences == 4
    assert one.score == pytest.approx(1.0)
    assert (one + one + one + one).score == pytest.approx(2.0)
    assert [one.ratio, one.excess] == pytest.approx([1.8, 0.4])
    assert not one.odd
    assert not Choice(60, 27.0, 15.0, 12.0**2).odd, "a ward that is closed once"
    assert sum((one for _ in range(13)), Choice()).odd
    assert (Choice().score, Choice().ratio) == (0.0, 1.0)


# ---- budgets, settings, overrides, outcomes


def test_many_budgets_of_their_own_need_an_explanation(url: str) -> None:
    calls = started(url)
    played(calls, 3)
    for _ in range(3):
        played(calls, budget=0, reason="public holiday")
    assert found_in(calls).answer == "nothing"
    played(calls, budget=0, reason="a nurse is ill", by="Mallory")
    found = found_in(calls)
    assert kinds(found) == ["budgets"]
    assert found.findings[0].reasons == ("public holiday", "a nurse is ill")
    assert found.findings[0].by == ("Ann", "Mallory")


def test_settings_that_are_changed_back_need_an_explanation(url: str) -> None:
    calls = started(url)
    played(calls)
    calls.change(budget=6, reason="mistyped", by="Ann")
    calls.change(budget=5, reason="put right", by="Ann")  # no draw in between
    played(calls)
    calls.change(budget=7, reason="more staff", by="Ann")
    played(calls)
    assert found_in(calls).answer == "nothing"
    calls.change(budget=5, reason="fewer again", by="Mallory")
    found = found_in(calls)
    assert kinds(found) == ["flipped"]
    assert (found.flips[0].first, found.flips[0].last, found.flips[0].by) == (3, 3, ("Ann", "Mallory"))
    assert found.hasty == 3


def test_rounds_that_are_not_carried_out_need_an_explanation(url: str) -> None:
    calls = started(url, policy="merit-fair:estimate=mean,design=exact,slack=2")
    played(calls, 8)
    for _ in range(3):
        calls.draw(by="Mallory")  # nobody liked is drawn: once more
        calls.close(by="Mallory")
        played(calls)
    drawn = calls.draw(by="Ann").ids
    calls.report(Outcomes(drawn, after=[1] * 5), by="Ann")  # how they were, not what was done
    calls.close(by="Ann")
    played(calls, 2)
    found = found_in(calls)
    assert (found.answer, found.unused) == ("nothing", (9, 11, 13))
    drawn = calls.draw(by="Mallory").ids
    calls.report(Outcomes(drawn, [0] * 5), by="Mallory")
    calls.close(by="Mallory")
    assert found_in(calls).unused == (9, 11, 13), "the newest may still be reported"
    played(calls, 2)
    found = found_in(calls)
    assert kinds(found) == ["unused"]
    assert (found.findings[0].rounds, found.findings[0].by) == ((9, 11, 13, 18), ("Mallory",))
    calls.correct(Outcomes(drawn[:1], [1]), round=18, reason="mistyped", by="Ann")
    assert found_in(calls).answer == "nothing"


def test_where_few_can_be_reached_a_round_without_any_is_usual(url: str) -> None:
    calls = started(url, 10, 2)
    for week in range(20):
        drawn = calls.draw(by="Ann").ids
        calls.report(Outcomes(drawn, [week % 2, 0], [1, 1]), by="Ann")
        calls.close(by="Ann")
    assert found_in(calls).unused == ()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[datetime]:
    """A clock that stands still until its only item is changed."""
    time = [datetime(2026, 3, 2, 9, tzinfo=UTC)]
    monkeypatch.setattr(work, "now", lambda: f"{time[0]:%Y-%m-%dT%H:%M:%SZ}")
    return time


def test_rounds_that_come_too_soon_need_an_explanation(url: str, clock: list[datetime]) -> None:
    calls = started(url)
    for _week in range(8):
        played(calls)
        clock[0] += timedelta(days=7)
    clock[0] += timedelta(days=60)  # a long break
    for _week in range(4):
        played(calls)
        clock[0] += timedelta(minutes=5)
        played(calls)
        clock[0] += timedelta(days=7)
        if _week == 2:
            assert (found_in(calls).answer, found_in(calls).hurried) == ("nothing", (10, 12, 14))
    found = found_in(calls)
    assert kinds(found) == ["hurried"]
    assert (found.findings[0].rounds, found.findings[0].value, found.findings[0].of) == ((10, 12, 14, 16), 4, 16)


def test_several_rounds_a_day_have_no_usual_time(url: str, clock: list[datetime]) -> None:
    calls = started(url)
    for k in range(24):
        played(calls)
        clock[0] += timedelta(minutes=10) if k % 8 else timedelta(hours=9)
    assert found_in(calls).hurried == ()


def test_a_change_on_the_evening_before_a_draw_is_soon_before_it(url: str, clock: list[datetime]) -> None:
    calls = started(url)
    played(calls)
    for hours, hasty in ((23, 1), (24, 1)):
        calls.change(budget=hours, reason="staff", by="Ann")
        clock[0] += timedelta(hours=hours)
        played(calls)
        assert found_in(calls).hasty == hasty


def test_groups_that_are_changed_after_draws_need_an_explanation(url: str) -> None:
    calls = mf.programme.open(url, "calls")
    calls.create(5, "random", by="Dr. Osei")
    calls.enrol(People(ids(40), group=["north"] * 20 + ["south"] * 20), by="Dr. Osei")
    calls.withdraw(ids(3), by="Mallory")
    calls.enrol(People(ids(3), group=["south"] * 3), by="Mallory")  # before any draw
    played(calls)
    assert found_in(calls).turnover.regrouped == 0
    calls.withdraw(ids(40, 20), reason="moved", by="Mallory")
    calls.enrol(People(ids(24, 20), group=["north"] * 4), by="Mallory")
    calls.enrol(People(ids(40, 24)), by="Mallory")  # nothing is said of it
    played(calls)
    found = found_in(calls)
    assert (found.turnover.regrouped, found.answer) == (4, "nothing")
    calls.withdraw(ids(1), by="Mallory")
    calls.enrol(People(ids(1), group=["north"]), by="Mallory")
    found = found_in(calls)
    assert kinds(found) == ["regrouped"]
    assert (found.findings[0].people, found.findings[0].by) == ((0, 20, 21, 22, 23), ("Mallory",))


def test_many_who_are_called_without_a_draw_need_an_explanation(url: str) -> None:
    calls = started(url, policy="round-robin")
    for week in range(8):
        drawn = calls.draw(by="Ann").ids
        calls.report(Outcomes(drawn, [1] * 5, [1] * 5), by="Ann")
        other = next(id_ for id_ in ids(40, 3 * week) if id_ not in drawn)
        calls.report(Outcomes([other], [1], [1], reasons={other: "asked"}), by="Mallory")
        calls.close(by="Ann")
    found = found_in(calls)
    assert kinds(found) == ["overrides"]
    assert (found.findings[0].by, found.findings[0].reasons) == (("Mallory",), ("asked",))
    assert "that is much, and the board should ask" in calls.audit().verdict


def test_someone_who_is_called_again_and_again_without_a_draw(url: str) -> None:
    calls = started(url, budget=8, policy="round-robin")
    for _ in range(6):
        drawn = calls.draw(by="Ann").ids
        calls.report(Outcomes(drawn, [1] * 8, [1] * 8), by="Ann")
        if "p039" not in drawn:
            calls.report(Outcomes(["p039"], [1], [1], reasons={"p039": "asked"}), by="Mallory")
        calls.close(by="Ann")
    found = found_in(calls)
    assert kinds(found) == ["favoured"]
    assert (found.findings[0].people, found.findings[0].by, found.findings[0].reasons) == (
        (39,),
        ("Mallory",),
        ("asked",),
    )


def test_who_alone_enters_outcomes_is_shown(url: str) -> None:
    calls = started(url, 10, 5)
    drawn = calls.draw(by="Ann").ids
    calls.report(Outcomes(drawn[:4], [1] * 4, [1] * 4), by="Ann")
    calls.report(Outcomes(drawn[:1], before=[0]), by="Ben")
    calls.report(Outcomes(drawn[4:], [1], [1]), by="Ben")
    found = found_in(calls).reporters
    assert (found.people, found.alone, found.told) == (5, {"Ann": 3, "Ben": 1}, {})
    calls.close(by="Ann")
    calls.draw(states=Outcomes(ids(10), before=[1] * 10), by="Cem")
    found = found_in(calls).reporters
    assert found.people == 10
    assert (found.alone, found.told) == ({"Cem": 5}, {"Cem": 10})


# ---- in words


@pytest.fixture
def steered(url: str) -> Programme:
    calls = started(url)
    played(calls)
    played(calls, away=ids(40, 5), reason="<i>holidays</i>", by="Mallory")
    calls.away(ids(40, 5), back=True, by="Mallory")
    return calls


def test_the_first_sentence_says_whether_anyone_could_have_steered(steered: Programme) -> None:
    report = steered.audit()
    assert report.verdict.startswith(
        "5 of the 10 draws of 2 rounds were not left to chance, since absences had left no more people than were "
        "drawn; the draws fit the chances that were committed before each of them. "
    )
    with speaking(language_of("de") or pytest.fail("German")):
        german = report.verdict
    assert german.startswith("5 der 10 Ziehungen")


def test_an_honest_programme_has_nothing_to_explain(url: str) -> None:
    calls = started(url)
    played(calls, 3)
    calls.away(ids(2), by="Ann")
    played(calls)
    calls.away(ids(2), back=True, by="Ann")
    report = calls.audit()
    assert report.verdict.startswith(
        "Nothing speaks against the 20 draws of 4 rounds: they fit the chances that were committed before each of "
        "them; nothing that could have steered them needs an explanation. "
    )
    assert report.to_dict()["steering"]["answer"] == "nothing"
    assert not any("steered" in each for each in report_page(report).warnings)


def test_pages_files_and_json_say_the_same(steered: Programme) -> None:
    report = steered.audit()
    page = report_page(report)
    section = next(each for each in page.sections if each.heading == "Could anyone have steered this?")
    assert "by Mallory. Reasons given: “<i>holidays</i>”." in section.paragraphs[1]
    assert section.tables[0].cells[0] == ["Mallory", "35", "35", "4.4", "“<i>holidays</i>”"]
    assert page.lead == report.verdict
    assert any("not left to chance" in each for each in page.warnings)
    values = json.loads(json.dumps(report.to_dict()))["steering"]
    assert (values["answer"], values["findings"][0]["kind"]) == ("not-chance", "emptied")
    words, shown = board_words(report), board_values(report)
    assert shown["steering"] == report.steering.to_dict()
    assert words["steering_findings"][0].startswith("5 of 10 draws had a chance of 1")
    assert "p000" not in json.dumps(words)


# ---- honest years


def benchmark() -> ModuleType:
    file = Path(__file__).parents[2] / "benchmarks" / "steering.py"
    spec = importlib.util.spec_from_file_location("steering_benchmark", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # which dataclasses look up
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_honest_years_are_hardly_ever_questioned_and_attacks_are_found(tmp_path: Path) -> None:
    """At most 2 % of honest years are questioned: of 20, 3 or more with a probability of 0.7 %."""
    play = benchmark()
    answers = [play.year_of(tmp_path, 12, 3, seed).answer for seed in range(1, 21)]
    assert sum(answer != "nothing" for answer in answers) < 3
    found = {name: play.year_of(tmp_path, 60, 6, 100, attack, weeks=26) for name, attack in play.ATTACKS.items()}
    missed = [name for name, each in found.items() if each.answer == "nothing"]
    assert set(missed) <= {"others away at random, without a reason", "one victim away 3 weeks in 4"}
