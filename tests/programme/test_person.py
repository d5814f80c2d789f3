"""Why this person: numbers that were worked out by hand, and everything that may be odd about someone."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import meritfair as mf
from meritfair import InputError
from meritfair.policies.plans import Lottery
from meritfair.programme import Outcomes, Part, People, Programme, Trial
from meritfair.programme.showing.estimating import Bound, MeritBounds
from meritfair.programme.showing.person import PersonReport, person_of
from meritfair.programme.showing.person_page import person_page, write_person_page
from meritfair.programme.work import Work
from programme.clinics import clinic

EXACT = "merit-fair:estimate=mean,design=exact"


@contextmanager
def working(programme: Programme) -> Iterator[Work]:
    with programme.store.reading(programme.name) as session:
        yield Work(session)


def person(programme: Programme, id_: str | int, **options: Any) -> PersonReport:
    with working(programme) as work:
        return person_of(work, id_, **options)


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'programmes.db'}"


def started(url: str, ids: list[str], budget: Any = 1, policy: Any = EXACT, **settings: Any) -> Programme:
    programme = mf.programme.open(url, "calls")
    programme.create(budget, policy, by="Dr. Osei", **settings)
    programme.enrol(People(ids), by="Dr. Osei")
    return programme


def words(found: PersonReport) -> str:
    return " ".join(found.sentences()).replace("\N{NO-BREAK SPACE}", " ")


# ---- by hand


def test_numbers_by_hand(url: str) -> None:
    """Twice, Ada was bad, is reached, and becomes good; Bo was good, is not reached, and stays good."""
    calls = started(url, ["Ada", "Bo"], floor=0.0)
    drawn = []
    for _ in range(2):
        drawn.append("Ada" in calls.draw().ids)
        reasons = {} if drawn[-1] else {"Ada": "asked for a call"}
        seen = Outcomes(["Ada", "Bo"], action=[1, 0], before=[0, 1], after=[1, 1], reasons=reasons)
        calls.report(seen, by="Dr. Osei")
        calls.close()
    ada, bo = person(calls, "Ada"), person(calls, "Bo")
    # posterior means: (good + 1) / (visits + 2); benefit f(always) - f(never) with f = P(0) / (1 - P(1) + P(0))
    benefit = {"Ada": 0.75 / (0.5 + 0.75) - 0.5, "Bo": 0.5 - 0.5 / (0.25 + 0.5)}
    for found in (ada, bo):
        assert found.estimate.benefit == pytest.approx(benefit[found.id])
        assert found.estimate.merit == pytest.approx(math.exp(3 * benefit[found.id]))
        assert found.estimate.low < found.estimate.benefit < found.estimate.high
        assert found.estimate.worth == 2
        assert not found.estimate.pooled
    assert ada.estimate.mean_merit == pytest.approx((math.exp(3 * benefit["Ada"]) + math.exp(3 * benefit["Bo"])) / 2)
    # nobody has seen Ada when she was not reached: her cap is 1 - (1 - 1/2) / (1 + 0); Bo may have 1 - (1/2) / (1 + 2)
    assert ada.next is not None
    assert bo.next is not None
    assert (ada.next.round, ada.next.open, ada.next.people, ada.next.budget, ada.next.equal) == (3, False, 2, 1, 0.5)
    assert ada.next.due == pytest.approx(0.5)
    assert ada.next.bound == Bound("learning cap", 0.5)
    assert bo.next.bound == Bound("none")
    assert ada.drawn == sum(drawn)
    assert (ada.reached, ada.overrides, bo.reached) == (2, 2 - sum(drawn), 0)
    # in round 2 the due of both was 1/2: after one report Ada's cap was 1/2
    assert [each.due for each in ada.rounds] == pytest.approx([0.5, 0.5])
    assert (ada.account.due, ada.account.given, ada.account.balance) == pytest.approx((1.0, 1.0, 0.0))
    assert ada.account.slack == 0.0
    assert (ada.seen.rounds, ada.seen.good, ada.seen.bad, ada.seen.missing, ada.seen.reports) == (2, 2, 0, 0, 2)
    assert [each.state for each in ada.rounds] == [-1, 1]  # what was known when each was drawn
    assert [each.seen_after for each in ada.rounds] == [None, 1]
    assert "change by an estimated +10 percentage points" in words(ada)
    assert "change by an estimated −17 percentage points" in words(bo)


def test_estimates_are_those_of_a_fit_to_the_log(url: str) -> None:
    made = clinic(url, people=30, budget=6)
    for _ in range(6):
        made.play(seen=0.8)
    fitted = mf.fit(made.programme.log(), estimate="pooled", budget=6)
    for id_ in ("p3", "p17"):
        found, k = person(made.programme, id_).estimate, fitted.names.index(id_)
        assert found.pooled
        assert found.benefit == pytest.approx(fitted.assessment.benefit[k], abs=1e-9)
        assert found.low == pytest.approx(fitted.assessment.benefit_low[k], abs=0.08)
        assert found.high == pytest.approx(fitted.assessment.benefit_high[k], abs=0.08)


# ---- then, and now


def test_what_was_due_next_is_what_was_then_committed(url: str) -> None:
    made = clinic(url, people=20, budget=4, rules=mf.Rules(cooldown=1))
    for number in range(6):
        made.play(seen=0.7)
        if number == 3:
            made.programme.change(budget=5, reason="more staff", by="Ada")
    for id_ in ("p0", "p13"):
        now = person(made.programme, id_)
        assert now.latest
        for before in now.rounds:
            then = person(made.programme, id_, round=before.round - 1)
            assert then.next is not None
            assert (then.next.round, then.next.open) == (before.round, False)
            assert (then.next.due, then.next.budget) == (before.due, before.budget)
            assert len(then.rounds) == before.round - 1
            assert [each.round for each in then.rounds] == list(range(1, before.round))
            assert then.latest is False
            assert then.account.balance == (then.rounds[-1].account if then.rounds else 0.0)


def test_a_page_of_an_earlier_round_does_not_know_what_came_later(url: str) -> None:
    calls = started(url, ["Ada", "Bo", "Cy"], policy="random")
    calls.draw()
    calls.report(Outcomes(["Ada"], after=[0], action=[0]), round=1, by="Ann")
    calls.close()
    calls.draw()
    calls.close()
    calls.draw()
    calls.correct(Outcomes(["Ada"], after=[1]), round=1, reason="wrong line", by="Ann")
    calls.report(Outcomes(["Ada"], after=[1], action=[0]), round=2, by="Ann")
    after_two, now = person(calls, "Ada", round=2), person(calls, "Ada")
    assert [each.after for each in after_two.rounds] == [0, -1]
    assert [each.corrections for each in after_two.rounds] == [(), ()]
    assert [each.after for each in now.rounds] == [1, 1, -1]
    (correction,) = now.rounds[0].corrections
    assert (correction.by, correction.reason, correction.old, correction.new) == (
        "Ann",
        "wrong line",
        {"after": 0},
        {"after": 1},
    )
    assert [each.state for each in now.rounds] == [-1, 0, 0]  # what each draw knew, also after the correction
    assert [each.seen_after for each in now.rounds] == [None, 1, 1]
    assert [each.late for each in now.rounds] == [False, True, False]
    assert (now.seen.late, now.seen.corrected) == (1, 1)
    assert (now.seen.good, now.seen.bad, now.seen.missing) == (2, 0, 0)  # round 3 is still open
    assert "1 report came after the next draw and 1 round was corrected" in words(now)
    assert after_two.head != now.head == calls.status().head
    remarks = person_page(now).sections[1].tables[0].cells
    assert "corrected: state after bad → good (" in remarks[2][-1]
    assert "reported late" in remarks[1][-1]


def test_a_correction_may_say_that_something_is_not_known(url: str) -> None:
    calls = started(url, ["Ada", "Bo"], policy="random")
    calls.draw()
    calls.report(Outcomes(["Ada"], after=[1], action=[0]), by="Ann")
    calls.correct(Outcomes(["Ada"], after=[-2], forgets=True), reason="someone else", by="Ann")
    (only,) = person(calls, "Ada").rounds
    assert only.after == -1
    assert only.corrections[0].new == {"after": -1}
    assert "state after good → not known" in person_page(person(calls, "Ada")).sections[1].tables[0].cells[0][-1]


def test_rounds_that_there_were_not_are_refused(url: str) -> None:
    calls = started(url, ["Ada", "Bo"], policy="random")
    calls.draw()
    with pytest.raises(InputError, match="round must be between 0 and 1, the last one, got 2"):
        person(calls, "Ada", round=2)
    calls.close()
    calls.enrol(["Cy"])
    with pytest.raises(InputError, match="'Cy' had not joined yet when round 1 was drawn"):
        person(calls, "Cy", round=0)
    with pytest.raises(InputError, match="no participant 'Adb'"):
        person(calls, "Adb")
    with pytest.raises(InputError, match="numbers from 0 to 2, got 3"):
        person(calls, 3)


# ---- the round that is open


def test_an_open_round_is_explained_as_it_was_committed(url: str) -> None:
    made = clinic(url, people=10, budget=2)
    for _ in range(4):
        made.play()
    made.programme.draw()
    made.programme.report(Outcomes(["p1"], action=[0], after=[0]), round=5)
    found, before = person(made.programme, "p1"), person(made.programme, "p1", round=4)
    assert found.next is not None
    assert before.next is not None
    assert (found.next.round, found.next.open, found.next.due) == (5, True, found.rounds[-1].due)
    assert found.next.due == before.next.due
    assert found.estimate == before.estimate  # what is reported of the open round came later
    assert found.next.bound == before.next.bound


def test_a_round_that_waits_for_its_public_value(url: str) -> None:
    calls = started(url, ["Ada", "Bo"], policy="random")
    calls.change(source="the lottery of Saturday", reason="the board asked for it", by="Ann")
    calls.draw()
    found = person(calls, "Ada")
    assert found.rounds[0].drawn is None
    assert found.wait.longest == 0
    assert words(found).startswith("Round 1 is committed and not drawn yet: it waits for its public random value.")
    assert person_page(found).sections[1].tables[0].cells[0][5] == "not yet"


def test_someone_who_joins_while_a_round_is_open(url: str) -> None:
    calls = started(url, ["Ada", "Bo"])
    calls.draw()
    calls.enrol(["Cy"])
    found = person(calls, "Cy")
    assert found.rounds == ()
    assert found.next is None
    assert words(found).startswith("There was no draw yet since Cy joined.")
    assert "Cy joined after round 1 was drawn, and can be drawn from the next one on." in words(found)


# ---- odd people


def test_nobody_was_drawn_yet(url: str) -> None:
    found = person(started(url, ["Ada", "Bo"]), "Ada")
    assert (found.round, found.rounds, found.drawn, found.reached) == (0, (), 0, 0)
    assert found.next is not None
    assert found.next.due == pytest.approx(0.5)
    assert (found.account.due, found.account.balance) == (0.0, 0.0)
    assert "rests on no outcome of their own" in words(found)
    assert "round 1, the next one, Ada is due a chance of 50.0 %" in words(found)


def test_someone_who_is_never_drawn(url: str) -> None:
    calls = started(url, [f"p{number}" for number in range(6)], policy="random")
    for _ in range(3):
        calls.draw()
        calls.close()
    never = next(id_ for id_ in (f"p{number}" for number in range(6)) if not person(calls, id_).drawn)
    found = person(calls, never)
    assert (found.wait.longest, found.wait.first, found.wait.last, found.wait.waiting) == (3, 1, 3, 3)
    assert found.wait.probability == pytest.approx((5 / 6) ** 3)
    assert "Of 6 people 1 was drawn" in words(found)
    assert "about 1 in 6: a lottery with these chances decided." in words(found)
    assert "was never drawn, and was never reached." in words(found)
    assert "It still lasts" in words(found)


def test_someone_who_left_and_came_back(url: str) -> None:
    calls = started(url, ["Ada", "Bo", "Cy"], policy="random")
    for step in range(4):
        if step == 1:
            calls.withdraw("Ada", by="Ann")
            gone = person(calls, "Ada")
        if step == 3:
            calls.enrol(["Ada"])
        calls.draw()
        calls.close()
    assert gone.next is None
    assert not gone.enrolment.here
    assert "does not take part any more" in words(gone)
    missed = person(calls, "Ada", round=3)
    assert missed.next is not None  # came back before round 4
    assert "Ada was not enrolled in the last 2 rounds." in words(missed)
    found = person(calls, "Ada")
    assert [each.round for each in found.rounds] == [1, 4]
    assert [(stay.first, stay.last) for stay in found.enrolment.stays] == [(1, 1), (4, None)]
    assert "left on" in " ".join(person_page(found).sections[2].paragraphs)


def test_someone_who_was_erased(url: str) -> None:
    calls = started(url, ["Ada", "Bo", "Cy"], budget=1, policy="random")
    drawn = calls.draw()
    who = next(id_ for id_ in ("Ada", "Bo") if id_ not in drawn.ids)
    calls.report(Outcomes([who], [1], [1], reasons={who: "wrote a letter"}), by="Ann")
    calls.close()
    number = person(calls, who).number
    assert person(calls, who).rounds[0].reason == "wrote a letter"
    calls.withdraw(who)
    calls.erase(who, by="Ann")
    with pytest.raises(InputError, match=f"no participant '{who}'"):
        person(calls, who)
    found = person(calls, number)
    assert found.id == f"participant {number}"
    assert found.enrolment.erased
    assert (found.overrides, found.rounds[0].reason) == (1, "")
    assert "wrote a letter" not in json.dumps(found.to_dict())
    assert "who it was is not kept any more" in " ".join(person_page(found).sections[2].paragraphs)


def test_someone_who_is_away(url: str) -> None:
    calls = started(url, ["Ada", "Bo", "Cy"])
    calls.away("Ada", by="Ben")
    found = person(calls, "Ada")
    assert found.next is not None
    assert (found.next.bound.kind, found.next.due, found.next.chance) == ("away", 0.0, 0.0)
    assert "That is because they are away." in words(found)
    assert "From this follows a merit" not in words(found)
    calls.draw()
    found = person(calls, "Ada")
    assert found.rounds[0].kept_out == "away"
    assert "The reason: Ada was marked as away." in words(found)
    assert "as Ben has noted" in " ".join(person_page(found).sections[2].paragraphs)
    calls.close()
    calls.away("Ada", back=True, by="Ben")
    assert person(calls, "Ada").enrolment.away is False


def test_what_is_due_to_someone_who_is_away_stays_in_the_account(url: str) -> None:
    """That they are away is no reason of a chance of a third that is due."""
    calls = started(url, ["Ada", "Bo", "Cy"], rules=mf.Rules(accrue=True))
    calls.away("Ada", by="Ben")
    found = person(calls, "Ada")
    assert found.next is not None
    assert (found.next.due, found.next.chance) == pytest.approx((1 / 3, 0.0))
    assert "They are away and cannot be drawn now; what they are due stays in the account." in words(found)
    assert "That is because" not in words(found)


def test_less_slack_is_no_rule(url: str) -> None:
    """Accounts that were within a slack of 2 come back to 0: no rule keeps anyone out of a draw."""
    policy = "merit-fair:estimate=mean,design=exact,slack={}"
    made = clinic(url, people=6, policy=policy.format(2))
    for _ in range(4):
        made.play()
    made.programme.change(policy=policy.format(0), reason="each round by itself", by="Ada")
    made.programme.draw(by="Ada")
    said = [words(person(made.programme, who)) for who in made.ids]
    assert any("that were due: chances go first to those whom" in each for each in said)
    assert not any("rules keep" in each for each in said)


def test_bounds_in_words(url: str) -> None:
    """Bounds of others move what someone is due as well, so nothing is said of what it would be without them."""
    calls = started(url, ["Ada", "Bo", "Cy"], policy=f"{EXACT},cap=0.4", floor=0.9)
    for number in range(6):
        drawn = {each.id for each in calls.draw().people}
        reached = ("Ada", "Cy")[number % 2]  # who is well then if it is Ada, and else if it is Cy
        actions = [int(who == reached) for who in ("Ada", "Bo", "Cy")]
        after = [actions[0], 1, 1 - actions[2]]
        reasons = {reached: "by hand"} if reached not in drawn else {}
        calls.report(Outcomes(["Ada", "Bo", "Cy"], actions, after, reasons=reasons), by="Ben")
        calls.close()
    said = {name: person(calls, name) for name in ("Ada", "Bo", "Cy")}
    kinds = {found.next.bound.kind: words(found) for found in said.values() if found.next is not None}
    assert "The cap, which holds for everyone, keeps it from being more." in kinds["cap"]
    assert "The floor, which everyone is due, keeps it from being less." in kinds["floor"]


def test_a_programme_that_has_ended(url: str) -> None:
    calls = started(url, ["Ada", "Bo"])
    calls.draw()
    calls.close()
    calls.end(by="Dr. Osei")
    found = person(calls, "Ada")
    assert found.ended
    assert found.next is None
    assert "The programme has ended, so nothing more is due." in words(found)
    before = person(calls, "Ada", round=0)
    assert before.next is not None
    assert not before.ended


def test_an_override_is_told_with_its_reason(url: str) -> None:
    calls = started(url, ["Ada", "Bo", "Cy"], policy="random")
    drawn = calls.draw()
    who = next(id_ for id_ in ("Ada", "Bo", "Cy") if id_ not in drawn.ids)
    calls.report(Outcomes([who], [1], [1], reasons={who: "wrote a letter"}), by="Ann")
    found = person(calls, who)
    assert (found.drawn, found.reached, found.overrides) == (0, 1, 1)
    assert "was not drawn, but was reached all the same (wrote a letter)." in words(found)
    assert "was never drawn, and was reached once (once without being drawn)." in words(found)
    assert "reached without being drawn: wrote a letter" in person_page(found).sections[1].tables[0].cells[0][-1]
    hit = person(calls, drawn.ids[0])
    assert f"{drawn.ids[0]} was drawn; what was done is not reported yet." in words(hit)


# ---- rules, bounds and policies


@pytest.mark.parametrize(
    ("rules", "kept_out", "afterwards"),
    [
        (mf.Rules(cooldown=2), ["", "cool-down", "cool-down"], "none"),
        (mf.Rules(cooldown=3), ["", "cool-down", "cool-down"], "cool-down"),
        (mf.Rules(once=True), ["", "once", "once"], "once"),
        (mf.Rules(warmup=3), ["warm-up", "warm-up", "warm-up"], "none"),
        (mf.Rules(warmup=4), ["warm-up", "warm-up", "warm-up"], "warm-up"),
    ],
)
def test_rules_that_keep_people_out(url: str, rules: mf.Rules, kept_out: list[str], afterwards: str) -> None:
    calls = started(url, [f"p{number}" for number in range(8)], rules=rules)
    first = calls.draw().ids
    calls.close()
    for _ in range(2):
        calls.draw()
        calls.close()
    found = person(calls, first[0] if first else "p0")
    assert [each.kept_out for each in found.rounds] == kept_out
    assert all(each.chance == 0 for each in found.rounds if each.kept_out)
    assert found.next is not None
    assert found.next.bound.kind == afterwards


@pytest.mark.parametrize("policy", ["random", "round-robin", "none"])
def test_policies_without_merit(url: str, policy: str) -> None:
    calls = started(url, ["Ada", "Bo", "Cy"], policy=policy)
    for _ in range(4):
        calls.draw()
        calls.report(Outcomes(["Ada", "Bo"], after=[1, 0], before=[0, 0]))
        calls.close()
    found = person(calls, "Ada")
    assert (found.estimate.merit, found.estimate.mean_merit, found.account.slack) == (None, None, None)
    assert found.account.balance == 0.0
    assert "is even" in words(found)
    assert "merit" not in words(found)
    if policy == "round-robin":
        assert sum(each.drawn is True for each in found.rounds) in (1, 2)
        assert "had no chance in this round" in words(found) or "was certain to be among them" in words(found)
    json.dumps(found.to_dict())


def test_bounds_of_a_lottery() -> None:
    everyone = np.ones(4, np.bool_)
    lottery = Lottery(np.array([9.0, 1.0, 1.0, 0.01]), "exact", floor=0.1)
    bounds = partial(MeritBounds, has_cap=False)
    kinds = [bounds(lottery, everyone, 2, 1.0).at(place).kind for place in range(4)]
    assert kinds == ["saturated", "none", "none", "floor"]
    assert bounds(lottery, everyone, 2, 1.0).at(3).value == 0.1
    capped = Lottery(np.array([9.0, 1.0, 1.0, 0.01]), "exact", cap=0.8)
    assert bounds(capped, everyone, 2, 1.0).at(0) == Bound("learning cap", 0.8)
    assert MeritBounds(capped, everyone, 2, 1.0, has_cap=True).at(0) == Bound("cap", 0.8)
    assert bounds(lottery, everyone, 1, 0.5).at(0) == Bound("cool-down share", 0.5)
    assert bounds(lottery, everyone, 4, 1.0).at(3) == Bound("saturated", 1.0)
    some = np.array([True, False, True, True])
    assert bounds(lottery, some, 2, 1.0).at(3).kind == "floor"
    assert bounds(Lottery(np.array([9.0, 1.0])), everyone[:2], 1, 1.0).at(0) == Bound("none")


def test_the_floor_binds(url: str) -> None:
    calls = started(url, ["Ada", "Bo", "Cy", "Dee"], floor=0.9)
    reasons = {"Ada": "planned", "Bo": "planned", "Cy": "planned", "Dee": "planned"}
    for action in (0, 1):  # everyone is seen once when they are not reached, so that caps are not in the way
        drawn = calls.draw().ids
        given = {id_: reasons[id_] for id_ in reasons if action and id_ not in drawn}
        after, before = ([0, 1, 1, 1], [1, 0, 0, 0]) if action else ([0] * 4, [0] * 4)
        calls.report(Outcomes(list(reasons), [action] * 4, after, before, given), by="Ann")
        calls.close()
    found = person(calls, "Ada")
    assert found.next is not None
    assert found.next.bound.kind == "floor"
    assert found.next.bound.value == pytest.approx(0.9 / 4)
    assert "The floor, which everyone is due, keeps it from being less." in words(found)


def test_arms_of_a_trial(url: str) -> None:
    programme = mf.programme.open(url, "trial")
    parts = [Part(1, EXACT, name="calls"), Part(0, "none", name="control")]
    programme.create(trial=Trial("0" * 64), parts=parts, by="Dr. Osei")
    programme.enrol(People([f"p{number}" for number in range(8)], group=["f", "m"] * 4), by="Dr. Osei")
    programme.draw()
    programme.close()
    arms = {id_: person(programme, id_) for id_ in (f"p{number}" for number in range(8))}
    control = next(found for found in arms.values() if found.enrolment.part == "control")
    assert control.next is not None
    assert (control.next.bound, control.next.due, control.next.people) == (Bound("budget"), 0.0, 4)
    assert "Nobody is drawn in it." in words(control)
    assert control.enrolment.group in ("f", "m")
    called = next(found for found in arms.values() if found.enrolment.part == "calls")
    assert called.next is not None
    assert called.next.people == 4
    assert "Arm of the trial: calls." in " ".join(person_page(called).sections[2].paragraphs)


def test_records_from_before_the_first_round(url: str) -> None:
    log = mf.StateLog(["Ada"] * 3 + ["Bo"] * 3, [1, 2, 3] * 2, [0, 1, 1, 1, 0, 0], [1, 0, 0, 0, 1, 0])
    programme = mf.programme.open(url, "calls")
    programme.create(1, EXACT, history=log, by="Dr. Osei")
    found = person(programme, "Ada")
    assert (found.seen.before, found.seen.good, found.seen.rounds) == (3, 2, 0)
    assert "rests on 2 outcomes of their own" in words(found)
    assert "Records of 3 rounds before the first" in " ".join(person_page(found).sections[1].paragraphs)
    programme.draw()
    assert person(programme, "Ada").rounds[0].state in (-1, 1)


# ---- the page


def test_a_page_needs_nothing_beside_it_and_shows_names_as_they_are(url: str, tmp_path: Path) -> None:
    name = "<script>alert(1)</script>"
    made = started(url, [name, "Bo", "Cy"], policy="merit-fair:estimate=pooled,design=exact,slack=2")
    for _ in range(3):
        made.draw()
        made.report(Outcomes([name, "Bo"], after=[1, 0], action=[0, 0]), by="Ann")
        made.close()
    found = person(made, name)
    write_person_page(found, tmp_path / "page.html")
    html = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<script" not in html
    assert "&lt;script&gt;" in html
    assert "http:" not in html.replace("http://www.w3.org", "")
    assert "https:" not in html
    page = person_page(found)
    assert len(page.sections[1].tables[0].cells) == 3
    assert page.made_with["head of the ledger"] == made.status().head
    assert page.made_with["short code of the head"].replace("-", "") == made.status().head[:12]
    then = person_page(person(made, name, round=1))
    assert "This page shows what was known after round 1" in then.lead
    assert len(then.sections[1].tables[0].cells) == 1


def test_everything_as_plain_values(url: str) -> None:
    made = clinic(url, people=6, budget=2)
    made.play()
    found = person(made.programme, "p0")
    values = json.loads(json.dumps(found.to_dict()))
    assert values["id"] == "p0"
    assert values["sentences"] == found.sentences()
    assert values["rounds"][0]["round"] == 1
    assert values["wait"].keys() == {
        "longest",
        "first",
        "last",
        "probability",
        "waiting",
        "waiting_probability",
    }
    assert values["enrolment"]["stays"][0]["first"] == 1
    assert (values["drawn"], values["reached"]) == (found.drawn, found.reached)
    with pytest.raises(InputError, match="level must lie strictly between 0 and 1"):
        person(made.programme, "p0", level=1.0)
