"""What a programme does, on both databases."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import meritfair as mf
from meritfair import InputError
from meritfair.policies.registry import names as policy_names
from meritfair.policies.registry import policy_class
from meritfair.programme import KeyConflictError, Outcomes, Part, People, Programme, Trial
from meritfair.programme.ledger.lottery import ONE
from meritfair.programme.planning import Known
from meritfair.programme.records import records
from meritfair.programme.work import Work
from programme.clinics import clinic


def work_of(programme: Programme) -> Any:
    return programme.store.reading(programme.name)


def test_a_round_from_draw_to_close(store_url: str) -> None:
    calls = clinic(store_url).programme
    drawn = calls.draw(by="Ada")
    assert drawn.number == 1
    assert drawn.phase == "open"
    assert len(drawn.people) == len(set(drawn.ids)) == 3
    assert [each.chance for each in drawn.people] == pytest.approx([0.25] * 3)
    assert {each.group for each in drawn.people} <= {"north", "south"}
    assert calls.draw() == drawn  # one draw for each round
    found = calls.report(Outcomes(drawn.ids, [1, 1, 0], [1, None, 0]), by="Bo")
    assert (found.taken, found.repeated, found.overrides) == (3, 0, 0)
    status = calls.status()
    assert (status.round, status.phase, status.drawn, status.reported, status.states) == (1, "open", 3, 3, 2)
    assert calls.close(by="Ada").round == 1
    again = calls.draw(by="Ada")
    assert again.number == 2
    assert calls.round(1).ids == drawn.ids
    assert calls.verify().whole


def test_reports_come_in_parts_late_and_twice(store_url: str) -> None:
    calls = clinic(store_url).programme
    first = calls.draw()
    calls.close()
    calls.draw()
    who = first.ids[0]
    assert calls.report(Outcomes([who], action=[1]), round=1).taken == 1
    assert calls.report(Outcomes([who], after=[0]), round=1).taken == 1
    before = calls.status().head
    again = calls.report(Outcomes([who], action=[1], after=[0]), round=1)
    assert (again.taken, again.repeated, again.entries) == (0, 1, 0)
    assert calls.status().head == before
    with pytest.raises(InputError, match=f"the state of '{who}' in round 1 was reported as 0, not 1: correct it"):
        calls.report(Outcomes([who, "p0" if who != "p0" else "p1"], after=[1, 1]), round=1)
    assert calls.status().head == before  # nothing of it was taken in
    calls.correct(Outcomes([who], after=[1]), round=1, reason="typed wrongly", by="Bo")
    with work_of(calls) as session:
        assert Work(session).state.seen(1)[3, first.people[0].number] == 1
    forgotten = Outcomes([who], after=[-2], forgets=True)
    calls.correct(forgotten, round=1, reason="another person", by="Bo")
    with work_of(calls) as session:
        assert Work(session).state.seen(1)[3, first.people[0].number] == -1
    assert calls.verify().whole


def test_an_override_needs_a_reason_and_a_name_and_learning_uses_what_was_done(store_url: str) -> None:
    calls = clinic(store_url).programme
    drawn = calls.draw()
    other = next(id_ for id_ in (f"p{k}" for k in range(12)) if id_ not in drawn.ids)
    for reasons, by in (({}, "Bo"), ({other: "asked for help"}, "")):
        with pytest.raises(InputError, match="such an override needs"):
            calls.report(Outcomes([other], [1], [1], [0], reasons), by=by)
    found = calls.report(Outcomes([other], [1], [1], [0], {other: "asked for help"}), by="Bo")
    assert found.overrides == 1
    not_reached = drawn.people[0]
    calls.report(Outcomes([not_reached.id], [0], [1], [0]), by="Bo")
    with work_of(calls) as session:
        work = Work(session)
        known = Known.of(work.state, np.arange(12))
        number = int(work.numbers([other])[0])
        assert known.counts.visits[number, 0].tolist() == [0, 1]  # it was done, though not drawn
        assert known.counts.visits[not_reached.number, 0].tolist() == [1, 0]  # it was not, though drawn
        assert work.session.notes(number)[0][2] == "asked for help"
        kept = records(work)
        assert kept.drawn[kept.number == number].tolist() == [0]
    assert calls.verify().whole


def test_people_join_leave_come_back_and_are_away(store_url: str) -> None:
    calls = clinic(store_url, 6, 2).programme
    calls.draw()
    calls.close()
    calls.withdraw(["p0", "p1"], by="Ada")
    calls.enrol(["new"], by="Ada")
    calls.away(["p2"], by="Ada")
    drawn = calls.draw()
    assert drawn.enrolled == 5
    assert drawn.away == 1
    assert not {"p0", "p1", "p2"} & set(drawn.ids)
    with pytest.raises(InputError, match="'p0' was not enrolled in round 2"):
        calls.report(Outcomes(["p0"], after=[1]))
    calls.report(Outcomes(["p0"], after=[1]), round=1)  # late, of a round in which they were there
    calls.close()
    calls.enrol(["p1"], by="Ada")
    with pytest.raises(InputError, match="'p1' is enrolled already"):
        calls.enrol(["p1"])
    calls.away(["p2"], back=True, by="Ada")
    status = calls.status()
    assert (status.enrolled, status.away, status.left) == (6, 0, 1)
    with pytest.raises(InputError, match="needs the name of who does it"):
        calls.away(["p2"])
    with pytest.raises(InputError, match="there is no participant 'p9'"):
        calls.withdraw(["p9"])
    assert calls.draw(by="Ada").enrolled == 6
    assert calls.verify().whole


def test_keys_have_one_effect_and_another_request_is_refused(store_url: str) -> None:
    calls = clinic(store_url).programme
    rounds = [calls.draw(by="Ada", key="draw-1") for _ in range(3)]
    assert rounds[0] == rounds[1] == rounds[2]
    outcomes = Outcomes(rounds[0].ids, [1, 1, 1], [1, 0, 1])
    receipts = [calls.report(outcomes, by="Ada", key="report-1") for _ in range(3)]
    assert receipts[0] == receipts[1] == receipts[2]
    assert receipts[0].taken == 3
    closed = [calls.close(key="close-1") for _ in range(3)]
    assert closed[0] == closed[2]
    enrolled = [calls.enrol(["late"], key="enrol-1") for _ in range(3)]
    assert enrolled[0] == enrolled[2]
    assert calls.draw(by="Ada", key="draw-1") == calls.round(1)
    with pytest.raises(KeyConflictError, match="'report-1' was used before"):
        calls.report(Outcomes(rounds[0].ids, [1, 1, 1], [1, 1, 1]), by="Ada", key="report-1")
    with pytest.raises(KeyConflictError):
        calls.close(key="enrol-1")
    assert calls.status().entries == 7


def test_a_failed_verb_leaves_nothing_behind(store_url: str) -> None:
    calls = clinic(store_url).programme
    head = calls.status().head
    for wrong in (
        lambda: calls.enrol(["a", "p1"]),
        lambda: calls.withdraw(["p1", "nobody"]),
        lambda: calls.report(Outcomes(["p1"], after=[1])),
        lambda: calls.close(),
        lambda: calls.draw(budget=-1),
        lambda: calls.draw(value="ab" * 32),
        lambda: calls.change(budget=5, by="Ada"),
        lambda: calls.erase("p1", by="Ada"),
    ):
        with pytest.raises(InputError):
            wrong()
    assert calls.status().head == head


def test_settings_change_with_a_reason(store_url: str) -> None:
    calls = clinic(store_url).programme
    calls.change(budget=5, rules=mf.Rules(cooldown=1), reason="more staff", by="Ada")
    first = calls.draw()
    assert len(first.people) == 5
    with pytest.raises(InputError, match="round 1 is open"):
        calls.change(budget=4, reason="fewer", by="Ada")
    calls.close()
    assert not set(calls.draw().ids) & set(first.ids)  # the cool-down
    assert calls.verify().whole


def test_a_cool_down_follows_what_was_done(store_url: str) -> None:
    calls = clinic(store_url, 4, 1, rules=mf.Rules(cooldown=1)).programme
    drawn = calls.draw()
    other = next(f"p{k}" for k in range(4) if f"p{k}" not in drawn.ids)
    calls.report(Outcomes([drawn.ids[0]], [0]), by="Ada")
    calls.report(Outcomes([other], [1], reasons={other: "in need"}), by="Ada")
    calls.close()
    chances = {each.id: each.chance for each in calls.preview()[1]}
    assert chances[other] == 0
    assert chances[drawn.ids[0]] > 0


def test_budgets_of_a_round(store_url: str) -> None:
    calls = clinic(store_url, 5, [2, 0]).programme
    assert len(calls.draw(budget=4, reason="more staff this week").people) == 4
    with pytest.raises(InputError, match=r"drawn already.*its budget was \[4\], not \[3\]"):
        calls.draw(budget=3)
    calls.close()
    assert calls.draw().people == ()
    calls.close()
    assert len(calls.draw(budget=9, reason="an open day").people) == 5  # all there are
    assert calls.verify().whole


def test_a_dry_run_shows_exposures_and_changes_nothing(store_url: str) -> None:
    calls = clinic(store_url).programme
    head = calls.status().head
    planned, people = calls.preview(budget=4)
    assert planned.chance.sum() == 4 * ONE
    assert len(people) == 12
    assert calls.status().head == head
    assert calls.status().round == 0


POLICIES = [name for name in policy_names() if not policy_class(name)().oracle]


@pytest.mark.parametrize("policy", [*POLICIES, "merit-fair:estimate=thompson,design=exact", "prob-fair:estimate=mean"])
def test_every_policy_that_can_work_live_runs_and_verifies(policy: str, tmp_path: Any) -> None:
    here = clinic(str(tmp_path / "calls.db"), 10, 2, policy=policy)
    for _ in range(4):
        drawn = here.play(seen=0.7)
        assert len(drawn.people) == (0 if policy == "none" else 2)
    found = here.programme.verify()
    assert found.whole
    assert found.exact == 4


def test_policies_that_know_the_truth_are_refused(tmp_path: Any) -> None:
    with pytest.raises(InputError, match="which nobody does in a programme"):
        mf.programme.open(str(tmp_path / "calls.db"), "calls").create(2, "fair-oracle")


def test_the_slack_holds_and_accounts_are_whole_numbers(store_url: str) -> None:
    here = clinic(store_url, 20, 4, policy="merit-fair:estimate=mean,design=exact,slack=1")
    for _ in range(12):
        here.play()
        with work_of(here.programme) as session:
            account = Work(session).state.account
        assert account.sum() == 0
        assert np.abs(account).max() <= ONE * (1 + 1e-6)


def test_floors_follow_the_number_of_participants(store_url: str) -> None:
    calls = clinic(store_url, 4, 1, floor=0.5).programme
    calls.draw()
    calls.close()
    calls.enrol([f"n{k}" for k in range(96)])
    planned, _ = calls.preview()
    assert planned.due.min() >= 0.5 / 100 * ONE * (1 - 1e-9)


def test_history_is_taken_in(store_url: str) -> None:
    log = mf.datasets.clinic(n_arms=30, rounds=10, budget=5, seed=1)
    calls = mf.programme.open(store_url, "calls")
    calls.create(5, "merit-fair:estimate=mean,design=exact", floor=0.0, history=log, by="Ada")
    with work_of(calls) as session:
        work = Work(session)
        known = Known.of(work.state, np.arange(30))
        places = work.numbers(log.arms)
        assert np.array_equal(known.complete.visits[places], log.counts.visits)
        assert np.array_equal(known.complete.good[places], log.counts.good)
    learner = mf.MeritFair(estimate="mean", design="exact").start(budget=5, seed=1, history=log)
    due = {each.id: each.due for each in calls.preview()[1]}
    assert [due[name] for name in log.arms] == pytest.approx(learner.choose().due.tolist(), abs=1e-9)
    calls.draw()
    assert calls.verify().whole


@pytest.mark.parametrize("forget", [1.0, 0.9])
def test_exposures_are_those_of_a_learner_that_has_seen_the_same(store_url: str, forget: float) -> None:
    policy = mf.MeritFair(estimate="pooled", design="exact", slack=1)
    here = clinic(store_url, 12, 3, policy=policy, floor=0.0, forget=forget)
    learner = policy.start(n_arms=12, budget=3, seed=1, names=here.ids, forget=forget)
    for _ in range(6):
        drawn = here.play(seen=0.8)
        with work_of(here.programme) as session:
            seen = Work(session).state.seen(drawn.number)
            rows = records(Work(session), rounds=range(drawn.number, drawn.number + 1))
        choice = learner.choose(None)
        assert rows.due / ONE == pytest.approx(choice.due, abs=1e-8)
        if drawn.number > 1:
            return
        learner.observe(seen[1], seen[2], seen[3], round=choice.round)


def test_pseudonyms_stand_for_ids(store_url: str) -> None:
    calls = mf.programme.open(store_url, "calls")
    calls.create(1, pseudonymise=True)
    calls.enrol(["Ada Lovelace", "Bo"])
    drawn = calls.draw()
    assert drawn.ids[0].startswith("p-")
    calls.report(Outcomes(["Ada Lovelace", "Bo"], after=[1, 0]))
    with work_of(calls) as session:
        assert "Ada Lovelace" not in {each.id for each in session.people()}
    calls.close()
    calls.withdraw("Bo", reason="moved away")
    assert calls.verify().whole


def test_a_person_can_be_erased_and_the_chain_stays_valid(store_url: str) -> None:
    here = clinic(store_url)
    here.play()
    calls = here.programme
    with pytest.raises(InputError, match="must be withdrawn before"):
        calls.erase("p3", by="Ada")
    calls.withdraw("p3")
    calls.erase("p3", by="Ada")
    assert calls.verify().whole
    with pytest.raises(InputError, match="there is no participant 'p3'"):
        calls.withdraw("p3")
    calls.enrol(["p3"])  # someone new
    assert calls.draw().enrolled == 12
    with work_of(calls) as session:
        assert Work(session).state.people == 13


def test_trials_randomise_in_blocks_within_strata(store_url: str) -> None:
    calls = mf.programme.open(store_url, "trial")
    arms = [Part(3, "merit-fair:estimate=mean,design=exact", name="calls"), Part(0, "none", name="control")]
    calls.create(trial=Trial("ab" * 32, ("district",)), parts=arms, features=["district"], by="Ada")
    districts = ["north"] * 8 + ["south"] * 8
    for district, number in zip(districts, range(16), strict=True):  # one at a time
        calls.enrol(People([f"p{number}"], features={"district": [district]}))
    with work_of(calls) as session:
        part = Work(session).state.part
    for stratum in (part[:8], part[8:]):
        assert stratum[:4].sum() == stratum[4:].sum() == 2  # each block of four is balanced
    drawn = calls.draw()
    assert len(drawn.people) == 3
    assert all(part[each.number] == 0 for each in drawn.people)
    calls.close()
    with pytest.raises(InputError, match="given by part"):
        calls.draw(budget=2)
    assert len(calls.draw(budget={"calls": 5}, reason="more staff this week").people) == 5
    calls.close()
    calls.end(by="Ada")
    assert calls.verify().whole
    with pytest.raises(InputError, match="has ended"):
        calls.draw()


def test_the_secret_is_published_at_the_end(store_url: str) -> None:
    here = clinic(store_url)
    here.play()
    calls = here.programme
    with work_of(calls) as session:
        secret = session.secret
        assert all(secret not in data and secret.hex().encode() not in data for _, data, _ in session.entries())
    calls.end(by="Ada")
    with work_of(calls) as session:
        *_, (_, last, _) = session.entries()
    assert secret.hex().encode() in last
    assert calls.verify().whole


def test_which_programme(store_url: str) -> None:
    with pytest.raises(InputError, match="there is none yet"):
        mf.programme.open(store_url).status()
    clinic(store_url, name="one")
    assert mf.programme.open(store_url).name == "one"
    clinic(store_url, name="two")
    with pytest.raises(InputError, match="say which: one, two"):
        mf.programme.open(store_url).status()
    with pytest.raises(InputError):
        mf.programme.open(store_url, "three").status()
