"""What pages show of a programme beside its report: curves, what was learned when, and what a change would do."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from meritfair.core.errors import InputError
from meritfair.model.rules import Rules
from meritfair.programme.settings import Part, Settings
from meritfair.programme.showing.board import board_values, board_words, people_columns, without_names
from meritfair.programme.showing.change_preview import preview_change
from meritfair.programme.showing.happenings import Change, changes_of
from meritfair.programme.showing.learning import learning_of
from meritfair.programme.work import Work
from programme.clinics import Clinic, clinic


@pytest.fixture
def calls(tmp_path_factory: pytest.TempPathFactory) -> Clinic:
    """A programme of four rounds."""
    made = clinic(f"sqlite:///{tmp_path_factory.mktemp('store') / 'programmes.db'}")
    for _ in range(4):
        made.play()
    return made


def test_a_board_is_told_no_name(calls: Clinic) -> None:
    report = calls.programme.audit()
    text = json.dumps([board_words(report), board_values(report), people_columns(report)])
    assert not [name for name in calls.ids if f'"{name}"' in text or f" {name} " in text]
    assert "someone was" in board_words(report)["accounts"][0]
    assert report.verdict.count("someone") == 0, "the report itself keeps its names"


def test_those_who_stand_out_are_counted_where_nobody_is_named(calls: Clinic) -> None:
    from dataclasses import replace

    from meritfair.programme.showing.report_words import evidence_words

    report = calls.programme.audit()
    flags = np.zeros(len(report.audit.arms), np.bool_)
    flags[:3] = True
    odd = replace(report, audit=replace(report.audit, arms=replace(report.audit.arms, flagged=flags)))
    assert evidence_words(odd)[0].endswith("These stand out: the people p0, p1, p2.")
    assert evidence_words(without_names(odd))[0].endswith("These stand out: 3 people.")


def test_the_curves_of_a_board_are_those_of_the_report(calls: Clinic) -> None:
    report = calls.programme.audit()
    values = board_values(report)
    course = values["course"]
    assert course["round"] == [1, 2, 3, 4]
    assert course["evidence"][-1] == pytest.approx(report.audit.overall.log_e / math.log(10))
    assert max(course["largest_account"]) == pytest.approx(max(report.standings.farthest.max(), 0))
    assert sum(values["accounts"]["people"]) == 12
    assert values["accounts"]["edges"][0] == -values["accounts"]["edges"][-1]
    assert values["rates"]["due"][0] == pytest.approx(100 * report.groups.due[0] / report.groups.rounds[0])
    assert [row["number"] for row in values["waits"]] == [
        int(report.numbers[k]) for k in report.least_likely_waits(10) if report.standings.wait[k]
    ]


def test_intervals_narrow_as_outcomes_come_in(calls: Clinic) -> None:
    told = list[tuple[int, int]]()
    with calls.programme.store.reading("calls") as session:
        work = Work(session)
        found = learning_of(work, lambda done, total: told.append((done, total)))
    assert [each.round for each in found.course] == [0, 1, 2, 3, 4]
    assert found.course[0].width > 1.5 * found.course[-1].width
    assert all(each.narrow <= each.width <= each.wide for each in found.course)
    assert sum(found.now[0].people) == 12
    assert not found.sampled
    length = calls.programme.status().entries
    assert told == [(k, length) for k in range(1, length + 1)]


def test_what_was_learned_is_what_a_person_is_told(calls: Clinic) -> None:
    with calls.programme.store.reading("calls") as session:
        found = learning_of(Work(session))
    now = [calls.programme.person(id_).estimate for id_ in calls.ids]
    assert found.course[-1].mean == pytest.approx(np.mean([each.benefit for each in now]))
    assert found.course[-1].width == pytest.approx(np.mean([each.high - each.low for each in now]), rel=0.1)
    then = [calls.programme.person(id_, round=2).estimate for id_ in calls.ids]
    assert found.course[2].mean == pytest.approx(np.mean([each.benefit for each in then]))


def test_nothing_is_learned_before_anyone_is_enrolled(tmp_path_factory: pytest.TempPathFactory) -> None:
    import meritfair as mf

    empty = mf.programme.open(str(tmp_path_factory.mktemp("store") / "empty.db"), "empty")
    empty.create(by="Ada")
    with empty.store.reading("empty") as session:
        found = learning_of(Work(session))
    assert (found.course, found.now) == ((), ())


def test_a_preview_of_a_change_is_what_it_does(calls: Clinic) -> None:
    with calls.programme.store.reading("calls") as session:
        work = Work(session)
        new = work.state.settings.changed(budget=6, floor=0.5)
        shown = preview_change(work, new)
        same = preview_change(work, work.state.settings)
    assert shown.what == ("budget 3 → 6", "floor 0.25 → 0.5 of an equal share")
    assert (shown.round, shown.budget) == (5, (3, 6))
    assert (same.what, same.moved, same.people) == ((), 0.0, ())
    before, _ = calls.programme.preview()
    calls.programme.change(budget=6, floor=0.5, reason="more calls", by="Ada")
    after, _ = calls.programme.preview()
    for each, rows in ((0, before), (1, after)):
        assert shown.least[each] == rows.due.min() / 2**40
        assert shown.most[each] == rows.due.max() / 2**40
    assert sum(each.then for each in shown.groups) == pytest.approx(6)
    changed = [each for each in changes_of_(calls) if each.reason == "more calls"]
    assert [each.what for each in changed] == [shown.what]
    assert changed[0].first_round == 5


def changes_of_(calls: Clinic) -> list[Change]:
    with calls.programme.store.reading("calls") as session:
        found = changes_of(Work(session))
    assert tuple(found) == calls.programme.audit().happened.changes
    return list(found)


def test_rules_can_be_changed_back_to_none_with_a_key(calls: Clinic) -> None:
    first = calls.programme.change(rules=Rules(cooldown=1), reason="rest", by="Ada", key="a")
    second = calls.programme.change(rules=Rules(), reason="no rest", by="Ada", key="b")
    assert calls.programme.change(rules=Rules(), reason="no rest", by="Ada", key="b") == second != first
    assert calls.programme.status().rules == ""


def test_settings_that_change_keep_the_rest() -> None:
    old = Settings((Part(3, name="a"), Part(4, name="b", share=2)), Rules(warmup=1), features=("age",))
    new = old.changed("b", floor=0.5)
    assert new.parts[0] == old.parts[0]
    assert (new.parts[1].floor, new.parts[1].budget, new.parts[1].share) == (0.5, (4,), 2)
    assert (new.rules, new.features) == (old.rules, old.features)
    assert old.changed("a", rules=Rules()).rules == Rules()
    with pytest.raises(InputError, match="part"):
        old.changed("c", budget=1)
