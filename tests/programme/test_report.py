"""The audit for a board: sums that were counted one by one, planted faults, and trials."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import meritfair as mf
from meritfair import InputError
from meritfair.core.arrays import BoolArray
from meritfair.programme import Outcomes, Part, People, Programme, Trial, rounds
from meritfair.programme.ledger.lottery import ONE
from meritfair.programme.records import Records, records
from meritfair.programme.showing import report_sections as sections
from meritfair.programme.showing.board import board_values, board_words
from meritfair.programme.showing.happenings import Happenings, policy_words
from meritfair.programme.showing.report import ProgrammeReport, report_of
from meritfair.programme.showing.report_page import check_section, report_page, settings_section, write_report_page
from meritfair.programme.showing.report_sections import MOST_PEOPLE
from meritfair.programme.showing.report_words import (
    accounts_words,
    data_words,
    effect_words,
    learned_words,
    unseen_words,
    waits_words,
)
from meritfair.programme.showing.tallying import Standings
from meritfair.programme.showing.trial_page import trial_sections
from meritfair.programme.showing.trial_tables import wilson
from meritfair.programme.work import Work
from programme.clinics import clinic


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'programmes.db'}"


def reported(programme: Programme, **options: Any) -> ProgrammeReport:
    with programme.store.reading(programme.name) as session:
        return report_of(Work(session), **options)


def plain(text: str) -> str:
    return text.replace("\N{NO-BREAK SPACE}", " ")


def started(url: str, policy: Any = "random", budget: Any = 2, groups: bool = True, **settings: Any) -> Programme:
    """Six people in two groups of three."""
    programme = mf.programme.open(url, "calls")
    programme.create(budget, policy, by="Dr. Osei", **settings)
    ids = [f"p{number}" for number in range(6)]
    programme.enrol(People(ids, group=["north", "south"] * 3 if groups else None), by="Dr. Osei")
    return programme


# ---- counted one by one


def test_sums_are_those_of_all_rows(url: str) -> None:
    made = clinic(url, people=15, budget=4, rules=mf.Rules(cooldown=1))
    for _ in range(5):
        made.play(seen=0.7)
    found = reported(made.programme)
    counts: dict[str, Counter[str]] = {name: Counter() for name in ("due", "given", "drawn", "reached", "missing")}
    with made.programme.store.reading("calls") as session:
        work = Work(session)
        rows, groups = records(work), work.state.texts("group")
    for k in range(len(rows.number)):
        for unit in (f"p{rows.number[k]}", groups[rows.number[k]]):
            counts["due"][unit] += int(rows.due[k])
            counts["given"][unit] += int(rows.chance[k])
            counts["drawn"][unit] += int(rows.drawn[k] == 1)
            counts["reached"][unit] += int(rows.action[k] == 1)
            counts["missing"][unit] += int(rows.after[k] < 0)
    for table in (found.people, found.groups):
        for k, name in enumerate(table.names):
            assert table.due[k] == pytest.approx(counts["due"][name] / ONE)
            assert table.given[k] == pytest.approx(counts["given"][name] / ONE)
            for what in ("drawn", "reached", "missing"):
                assert int(vars(table)[what][k]) == counts[what][name]
    assert found.total["drawn"] == found.total["given"] == pytest.approx(20)
    assert found.groups.people.tolist() == [8, 7]
    assert found.people.rounds.tolist() == [5] * 15
    accounts = [(counts["due"][name] - counts["given"][name]) / ONE for name in found.people.names]
    assert found.standings.account == pytest.approx(accounts)
    assert (found.rounds, found.enrolled, found.left, found.erased) == (5, 15, 0, 0)
    assert found.within_slack
    assert "20 draws of 5 rounds" in found.verdict


def test_accounts_and_waits_by_hand() -> None:
    """Of two people; the second joins in round 2."""
    half, columns = ONE // 2, {name: np.zeros(5, np.int64) for name in ("part", "away", "before", "action", "after")}
    found = Records(
        number=np.array([0, 0, 1, 0, 1]),
        round=np.array([1, 2, 2, 3, 3]),
        due=np.array([half, half, half, half, half]),
        chance=np.array([0, 0, ONE, ONE, half]),
        drawn=np.array([0, 0, 1, 1, 0]),
        **columns,
    )
    known = Standings.of(found, np.array([0.75, 0.75, 0.75, 0.75, 0.75]))
    assert known.number.tolist() == [0, 1]
    assert known.account.tolist() == [0.5, -0.5]
    assert known.farthest.tolist() == [1.0, -0.5]
    assert known.beyond.tolist() == [0.25, 0.0]  # an account of 1 after round 2
    assert (known.wait.tolist(), known.wait_end.tolist()) == ([2, 1], [2, 3])
    assert known.probability.tolist() == [1.0, 0.5]
    assert Standings.of(found, np.full(5, np.inf)).beyond.tolist() == [0.0, 0.0]


def test_overrides_are_counted_by_name_group_and_reason(url: str) -> None:
    calls = started(url)
    for step in range(3):
        drawn = calls.draw().ids
        others = [id_ for id_ in ("p0", "p2", "p4") if id_ not in drawn]  # of the north
        done = {drawn[0]: 1, drawn[1]: 0, others[0]: 1}
        reasons = {others[0]: ["Asked for help", "asked for help ", "in hospital"][step]}
        calls.report(Outcomes(list(done), list(done.values()), reasons=reasons), by=["Ann", "Ben", "Ann"][step])
        calls.close()
    found = reported(calls)
    assert found.overrides.number == 3
    assert found.overrides.by == {"Ann": 2, "Ben": 1}
    assert (found.overrides.reasons, found.overrides.different, found.overrides.commonest) == (3, 2, 2)
    assert found.groups.overrides.tolist() == [3, 0]
    assert found.groups.not_reached.sum() == 3
    assert found.groups.reached.sum() == 6
    assert "3 of the 6 who were reached (50.0 %) had not been drawn" in plain(found.verdict)
    page = sections.overrides(found)
    assert "asked for help" not in json.dumps([list(page.paragraphs), found.to_dict()]).lower()
    assert "reported by: Ann 2, Ben 1. For 3 of them a reason is kept: 2 different ones" in page.paragraphs[1]
    # an override that is corrected is none any more
    with calls.store.reading("calls") as session:
        (first, number) = min(Happenings.of(Work(session)).overrides)
    calls.correct(Outcomes([f"p{number}"], action=[0]), round=first, reason="another person", by="Ann")
    assert reported(calls).overrides.number == 2


def test_missing_late_and_corrected(url: str) -> None:
    calls = started(url)
    everyone = [f"p{number}" for number in range(6)]
    for step in range(3):
        drawn = calls.draw().ids
        seen = Outcomes(everyone, [int(id_ in drawn) for id_ in everyone], [1, None, 1, None, 1, 0])
        if step != 1:
            calls.report(seen, by="Ann")
        calls.close()
    calls.report(Outcomes(["p0", "p1"], after=[0, 0]), round=2, by="Ann")  # after one more draw
    calls.report(Outcomes(["p1"], after=[0]), round=1, by="Ann")  # after two
    calls.correct(Outcomes(["p0", "p2"], after=[0, 0]), round=1, reason="wrong line", by="Ben")
    found = reported(calls)
    # north (p0, p2, p4): round 2 lacks p2, p4; south: rounds 1 and 3 lack p1, p3 less one late, round 2 lacks p3, p5
    assert found.groups.names == ("north", "south")
    assert found.groups.states.tolist() == [9, 9]
    assert found.groups.missing.tolist() == [2, 5]
    assert found.groups.not_reported.sum() == 2  # both draws of round 2
    assert (found.happened.reported, found.happened.late, found.happened.delays) == (15, 3, {1: 2, 2: 1})
    assert (found.happened.corrected, found.happened.corrected_by) == (2, {"Ben": 2})
    said = " ".join(sections.data(found).paragraphs)
    assert "3 of 15 reports on a person came after the next draw: 2 after 1 draw, 1 after 2 draws" in said
    assert "2 corrections, by: Ben 2" in said
    assert [row[0] for row in sections.data(found).tables[0].cells] == ["south", "north"]  # the worse first


def test_absences_are_counted_by_who_noted_them(url: str) -> None:
    calls = started(url)
    calls.away(["p0", "p1"], by="Ben")
    calls.away("p0", back=True, by="Cid")
    calls.away("p0", by="Ann")
    calls.draw()
    found = reported(calls)
    assert found.happened.away_by == {"Ben": 2, "Ann": 1, "Cid": 0}
    said = sections.overrides(found).paragraphs[-1]
    assert said.startswith("Somebody was noted as away 3 times, by: Ben 2, Ann 1.")


def test_an_open_round_is_not_missing_yet(url: str) -> None:
    calls = started(url)
    calls.draw()
    found = reported(calls)
    assert found.total["states"] == found.total["missing"] == found.total["not_reported"] == 0
    assert found.total["drawn"] == 2


def test_changes_of_settings_in_words(url: str) -> None:
    calls = started(url, policy="merit-fair:estimate=mean,design=exact,slack=1")
    calls.draw()
    calls.close()
    calls.change(budget=3, reason="more staff", by="Dr. Osei")
    calls.change(policy="merit-fair:estimate=mean,design=exact,slack=2", reason="the board", by="Dr. Osei")
    calls.change(rules=mf.Rules(cooldown=1), floor=0.5, reason="complaints", by="Dr. Osei")
    calls.draw()
    found = reported(calls)
    assert [each.what for each in found.happened.changes] == [
        ("budget 2 → 3",),
        ("policy slack 1.0 → 2.0",),
        ("floor 0.25 → 0.5 of an equal share", "rules: none → cooldown 1"),
    ]
    assert [each.first_round for each in found.happened.changes] == [2, 2, 2]
    assert found.happened.slack == ((1.0,), (2.0,))
    assert found.happened.asked == ((2,), (3,))
    rows = settings_section(found).tables[0].cells
    assert [row[-1] for row in rows] == ["complaints", "the board", "more staff"]  # the last one first
    assert "They were never changed." not in settings_section(found).paragraphs
    assert policy_words(Part([3, 0], "round-robin")) == "policy round-robin, 3,0 people a round"


# ---- faults that are planted


def favouring(name: int) -> Any:
    """Return a draw that always takes one person, and of the others one after another."""

    def drawn(entry: Any, table: Any, seed: bytes) -> BoolArray:
        others, made = np.delete(np.arange(len(table)), name), np.zeros(len(table), np.bool_)
        made[[name, others[entry.body["round"] % len(others)]]] = True
        return made

    return drawn


@pytest.mark.slow
def test_unfair_draws_are_found(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "drawn_rows", favouring(3))
    calls = started(url)
    for _ in range(25):
        calls.draw()
        calls.close()
    found = reported(calls)
    assert found.audit.overall.violated
    assert "did not follow the chances that were stated: since round" in found.verdict
    page = report_page(found)
    assert "Find out why before the next draw." in " ".join(page.warnings)
    assert "These stand out: the people p3" in " ".join(page.sections[1].paragraphs)
    people = {row["id"]: row for row in found.to_dict()["people"]}
    assert [id_ for id_, row in people.items() if row["flagged"]] == ["p3"]
    monkeypatch.undo()
    checked = calls.verify()
    assert not checked.whole
    both = reported(calls, verification=checked)
    assert both.verdict.startswith("The ledger is not whole: entry ")
    assert "The ledger is not whole" in report_page(both).warnings[0]


def test_an_impossible_draw_is_named(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = started(url, policy="round-robin", budget=1)
    calls.away("p3", by="Ann")
    monkeypatch.setattr(rounds, "drawn_rows", favouring(3))
    calls.draw()
    found = reported(calls)
    assert "in round 1, p3 was drawn with a chance of 0." in found.verdict


@pytest.mark.parametrize(
    ("number", "probability", "expected", "verdict"),
    [(20, "0.03 %", "0.0018", "That is hardly by chance."), (8, "3.9 %", "0.23", "That is nothing odd.")],
)
def test_waits_that_are_odd_and_not_odd(
    url: str, monkeypatch: pytest.MonkeyPatch, number: int, probability: str, expected: str, verdict: str
) -> None:
    def never_the_last(entry: Any, table: Any, seed: bytes) -> BoolArray:
        made = np.zeros(len(table), np.bool_)
        made[[entry.body["round"] % (len(table) - 1), (entry.body["round"] + 1) % (len(table) - 1)]] = True
        return made

    monkeypatch.setattr(rounds, "drawn_rows", never_the_last)
    calls = started(url)
    for _ in range(number):
        calls.draw()
        calls.close()
    found = reported(calls)
    k = found.people.names.index("p5")
    assert found.least_likely_waits(1).tolist() == [k]
    assert found.farthest_behind(1).tolist() == [k]
    assert found.standings.probability[k] == pytest.approx((2 / 3) ** number)
    said = plain(waits_words(found)[0])
    assert f"wait was that of p5: {number} rounds, which had a probability of {probability}" in said
    assert f"Of 6 people, {expected} can be expected to have one that is as unlikely. {verdict}" in said


def test_an_account_beyond_its_slack_is_told(url: str) -> None:
    calls = started(url, policy="merit-fair:estimate=mean,design=exact,slack=0.25", rules=mf.Rules(accrue=True))
    calls.away(["p0", "p1", "p2"], reason="on leave", by="Ann")
    for _ in range(4):
        calls.draw()
        calls.close()
    found = reported(calls)
    assert not found.within_slack
    assert "left its slack of 0.25 draws" in found.verdict
    assert "Rules that keep people out of a draw can do that." in found.verdict
    assert any("left its slack" in warning for warning in report_page(found).warnings)
    # a rule under which nobody is due anything when they may not be drawn moves no account: slack was less since
    once = replace(found, settings=replace(found.settings, rules=mf.Rules(once=True)))
    assert "left its slack of 0.25 draws" in accounts_words(once)
    assert "Rules" not in accounts_words(once)


# ---- what was learned, and whether it helps


@pytest.mark.slow
def test_what_was_learned_and_whether_being_drawn_helps(url: str) -> None:
    made = clinic(url, people=40, budget=8)
    made.transitions = np.tile([[[0.1, 0.8], [0.3, 0.95]]], (40, 1, 1))  # everyone gains: 0.94 less 0.125
    for _ in range(12):
        made.play()
    found = reported(made.programme)
    (learned,) = found.learned
    assert learned.pooled
    assert learned.everyone.mean == pytest.approx(0.94 - 0.125, abs=0.15)
    assert [group.name for group in learned.groups] == ["north", "south"]
    assert learned.everyone.people == 40 == sum(group.people for group in learned.groups)
    assert learned.everyone.gain > 30
    assert list(learned.everyone.quantiles) == sorted(learned.everyone.quantiles)
    assert sum(each.share for each in learned.classes) == pytest.approx(1)
    assert found.effect is not None
    assert found.effect.estimate == pytest.approx(0.7, abs=0.2)
    assert effect_words(found).startswith("Being drawn raises the chance of a good state")
    tables = sections.effect(found).tables
    assert tables[-1].cells[-1][0].endswith("12")  # round 13 has not been drawn
    assert [table.title for table in tables] == ["Overall", "By state before", "By group", "By time"]


@pytest.mark.slow
def test_what_states_that_are_not_known_could_change_always_stands_there(url: str) -> None:
    made = clinic(url, people=40, budget=8)
    made.transitions = np.tile([[[0.1, 0.8], [0.3, 0.95]]], (40, 1, 1))
    for _ in range(12):
        made.play(seen=0.7)
    found = reported(made.programme)
    assert found.effect is not None
    known, (learned,) = found.effect.sensitivity, found.learned
    (line,) = unseen_words(found.effect)
    assert line in sections.effect(found).paragraphs
    assert f"The state after {known.missing} of {known.rows} rounds of a person" in line
    assert f"With {100 * known.tipping['worse']:.0f} points for both, it would no longer be clear" in line
    low, high = (f"{100 * end:+.0f}".replace("-", "−") for end in known.bounds)
    assert f"the effect lies between {low} and {high}" in line
    told, more = learned_words(found)
    assert learned.sensitivity.mean_benefit() == pytest.approx(learned.everyone.mean)
    assert f"The state after {learned.sensitivity.missing.sum()} of {learned.sensitivity.visits.sum()} rounds" in more
    assert more in sections.learned(found).paragraphs
    assert told != more
    board = board_words(found)
    assert board["effect_unseen"] == [line]
    assert more in board["learned"]
    assert json.loads(json.dumps(found.to_dict()))["effect"]["sensitivity"]["missing"] == known.missing
    harms = replace(found.effect, sensitivity=replace(known, interval=(-0.1, -0.02)))
    assert "it would no longer be clear that being drawn harms." in unseen_words(harms)[0]
    unclear = replace(found.effect, sensitivity=replace(known, interval=(-0.1, 0.1)))
    sure = replace(found.effect, sensitivity=replace(known, interval=(0.9, 0.95)))
    assert "Even with 100 points for both, it would still be clear that being drawn helps." in unseen_words(sure)[0]
    assert "It would be clear that being drawn helps if those drawn" in unseen_words(unclear)[0]
    assert "It would be clear that being drawn harms if those drawn" in unseen_words(unclear)[0]


def test_where_all_states_are_known_that_is_said(url: str) -> None:
    made = clinic(url, people=12, budget=3)
    for _ in range(3):
        made.play()
    found = reported(made.programme)
    assert found.effect is not None
    (line,) = unseen_words(found.effect)
    assert line.startswith(f"The state after each of {found.effect.sensitivity.rows} rounds of a person is known, so")
    assert line in sections.effect(found).paragraphs
    assert board_words(found)["effect_unseen"] == [line]
    assert learned_words(found)[1].startswith("The state after each of ")


def test_too_early_to_say(url: str) -> None:
    calls = started(url)
    drawn = calls.draw().ids
    found = reported(calls)
    assert found.effect is None
    assert "no row of the log can be used" in found.no_effect
    assert effect_words(found).startswith("It is too early to say whether being drawn helps.")
    assert found.learned == ()
    assert "Nothing yet" in sections.learned(found).paragraphs[0]
    everyone = [f"p{number}" for number in range(6)]
    reached = [int(id_ in drawn) for id_ in everyone]
    calls.report(Outcomes(everyone, reached, [1, 0] * 3, [0, 0] * 3))
    calls.close()
    calls.draw()
    few = reported(calls)
    assert few.effect is not None
    assert effect_words(few).startswith("It is too early")
    report_page(few)


# ---- edge cases


def test_nothing_was_drawn_yet(url: str) -> None:
    with pytest.raises(InputError, match="there was no draw yet"):
        reported(started(url))


@pytest.mark.parametrize("policy", ["random", "round-robin", "none", "merit-fair:estimate=pooled,design=exact"])
def test_policies_and_no_groups(url: str, policy: str, tmp_path: Path) -> None:
    calls = started(url, policy=policy, groups=False)
    for _ in range(3):
        drawn = calls.draw().ids
        if drawn:
            calls.report(Outcomes(drawn, [1] * len(drawn), [1] * len(drawn), [0] * len(drawn)))
        calls.close()
    found = reported(calls)
    assert not found.has_groups
    assert found.groups.names == ("all",)
    assert "In every round everyone who was in the draw was given the chance that they were due." in found.verdict
    assert "Nobody was reached without being drawn." in found.verdict
    write_report_page(found, tmp_path / "page.html")
    json.dumps(found.to_dict(), allow_nan=True)


def test_people_who_left_or_were_erased(url: str) -> None:
    calls = started(url)
    calls.draw()
    calls.close()
    calls.withdraw(["p1", "p2"])
    calls.erase("p1", by="Ann")
    calls.draw()
    found = reported(calls)
    assert (found.enrolled, found.left, found.erased) == (4, 2, 1)
    assert found.people.names == ("p0", "participant 1", "p2", "p3", "p4", "p5")
    assert found.people.rounds.tolist() == [2, 1, 1, 2, 2, 2]
    assert found.group == ("north", "south") * 3
    assert "p1" not in json.dumps(found.to_dict()["people"])


def test_public_randomness_is_told(url: str) -> None:
    calls = started(url)
    calls.change(source="the lottery of Saturday", reason="the board asked for it", by="Ann")
    calls.draw()
    calls.draw(value="12 34 56 7 /")
    calls.close()
    assert "All draws used public randomness" in check_section(reported(calls)).paragraphs[1]
    calls.change(source="secret", reason="the lottery was shut", by="Ann")
    calls.draw()
    said = check_section(reported(calls)).paragraphs
    assert "1 of 2 draws used public randomness" in said[1]
    assert said[0] == "No verification was made for this report."
    checked = calls.verify()
    assert "The ledger is whole" in check_section(reported(calls, verification=checked)).paragraphs[0]
    calls.close()
    calls.change(source="the lottery of Sunday", reason="open again", by="Ann")
    calls.draw()  # not drawn yet
    assert reported(calls).rounds == 2


# ---- the page, and plain values


@pytest.mark.slow
def test_the_page_needs_nothing_beside_it(url: str, tmp_path: Path) -> None:
    made = clinic(url, people=MOST_PEOPLE + 10, budget=10)
    made.programme.enrol(People(["<b>Ada</b>"], group=["<i>west</i>"]))
    made.ids.append("<b>Ada</b>")
    made.transitions = np.concatenate([made.transitions, made.transitions[:1]])
    made.states = np.append(made.states, 0)
    for _ in range(5):
        made.play(seen=0.9)
    found = reported(made.programme)
    page = report_page(found)
    people = sections.people(found)
    assert len(people.tables[0].cells) == MOST_PEOPLE
    assert people.notes[0].startswith("11 more people are not shown here")
    missed = [float(row[-2].replace("−", "-")) for row in people.tables[0].cells]
    assert missed == sorted(missed)
    for each in page.sections:
        assert each.drawing is None or each.tables
    write_report_page(found, tmp_path / "page.html")
    html = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<i>west" not in html
    assert "&lt;i&gt;west&lt;/i&gt;" in html
    for word in ("<script", "<link", "https:", "url("):
        assert word not in html
    assert html.count("data:image/svg+xml;base64") == 4
    values = json.loads(json.dumps(found.to_dict()))
    assert len(values["people"]) == MOST_PEOPLE + 11
    assert values["people"][0].keys() >= {"id", "due", "given", "drawn", "reached", "account", "wait_probability"}
    assert values["verdict"] == found.verdict
    assert values["head"] == made.programme.status().head
    with pytest.raises(InputError, match="alpha must"):
        reported(made.programme, alpha=0.0)


# ---- trials


def trial(url: str) -> Programme:
    programme = mf.programme.open(url, "trial")
    parts = [Part(2, "random", name="calls"), Part(0, "none", name="control")]
    features = {"site": ["A", "B"] * 12, "age": [str(20 + number) for number in range(24)]}
    programme.create(trial=Trial("ab" * 32, ("site",)), parts=parts, features=["site", "age"], by="Dr. Osei")
    programme.enrol(People([f"p{number}" for number in range(24)], features=features), by="Dr. Osei")
    return programme


def test_tables_of_a_trial(url: str) -> None:
    programme = trial(url)
    with programme.store.reading("trial") as session:
        work = Work(session)
        part, first = work.state.part, work.entry(0)[0]
    called = np.flatnonzero(part == 0)
    everyone = [f"p{number}" for number in range(24)]
    shares: dict[int, list[int]] = {number: [] for number in range(24)}
    reached = 0
    for step in range(3):
        if step == 2:
            programme.withdraw([f"p{called[0]}"])
            programme.erase(f"p{called[0]}", by="Ann")
            programme.change(part="calls", budget=3, reason="amendment 1", by="Dr. Osei")
        drawn = programme.draw()
        there = [number for number in range(24) if step < 2 or number != called[0]]
        states = [int(number * (step + 1) % 5 < 2) for number in there]
        actions = [int(everyone[number] in drawn.ids) for number in there]
        programme.report(Outcomes([everyone[number] for number in there], actions, states), by="Ann")
        programme.close()
        for number, state in zip(there, states, strict=True):
            shares[number].append(state)
        reached += sum(actions)
    found = reported(programme)
    tables = found.trial
    assert tables is not None
    assert (tables.protocol, tables.strata, tables.reference) == ("ab" * 32, ("site",), "control")
    assert tables.first_entry == first.digest.hex()
    flow = {row["arm"]: row for row in tables.flow}
    assert [flow["calls"][key] for key in ("randomised", "enrolled", "withdrawn", "erased", "analysed")] == [
        12,
        11,
        1,
        1,
        12,
    ]
    assert [flow["control"][key] for key in ("randomised", "enrolled", "reached", "analysed")] == [12, 12, 0, 12]
    assert [row["reason"] for row in tables.changes] == ["amendment 1"]
    assert tables.changes[0]["what"] == ["calls: budget 2 → 3"]
    sites = {row["value"]: row for row in tables.baseline if row["what"] == "site"}
    assert [sites[site][arm] for site in "AB" for arm in ("calls", "control")] == [6] * 4  # three blocks in each site
    (age,) = [row for row in tables.baseline if row["what"] == "age"]
    assert age["calls"] == pytest.approx([np.mean(20 + called), np.std(20 + called, ddof=1)])
    calls = [row for row in tables.allocation if row["arm"] == "calls"]
    assert [(row["people"], row["budget"], row["drawn"]) for row in calls] == [(12, 2, 2), (12, 2, 2), (11, 3, 3)]
    assert sum(row["reached"] for row in calls) == reached == 7
    totals = {row["arm"]: row for row in tables.totals}
    assert (totals["calls"]["drawn"], totals["control"]["drawn"]) == (7, 0)
    means = {
        name: [np.mean(shares[k]) for k in np.flatnonzero(part == place).tolist()]
        for place, name in enumerate(["calls", "control"])
    }
    outcomes = {row["arm"]: row for row in tables.outcomes}
    for name, values in means.items():
        assert outcomes[name]["share"] == pytest.approx(np.mean(values))
        assert outcomes[name]["people"] == 12
    from scipy.stats import ttest_ind

    compared = ttest_ind(means["calls"], means["control"], equal_var=False).confidence_interval()
    ends = [outcomes["calls"]["difference_low"], outcomes["calls"]["difference_high"]]
    assert ends == pytest.approx([compared.low, compared.high])
    assert "difference" not in outcomes["control"]
    second = next(row for row in tables.course if row["round"] == 2 and row["arm"] == "calls")
    assert second["share"] == pytest.approx(np.mean([number * 2 % 5 < 2 for number in called]))
    assert [each.part for each in found.learned] == ["calls"]  # nobody of the control arm was ever reached
    assert len(trial_sections(tables)) == 4
    json.dumps(found.to_dict())


def test_a_trial_that_has_just_begun(url: str) -> None:
    programme = trial(url)
    programme.draw()
    found = reported(programme)
    assert found.trial is not None
    assert all(math.isnan(row["share"]) for row in found.trial.outcomes)
    design, _, _, outcomes = trial_sections(found.trial)
    assert [row[2] for row in outcomes.tables[0].cells] == ["–", "–"]
    assert "Nothing was changed since (item 3c)." in design.paragraphs


@pytest.mark.slow
def test_intervals_of_shares_are_those_of_statsmodels() -> None:
    from statsmodels.stats.proportion import proportion_confint

    for good, number in ((0, 7), (3, 7), (7, 7), (120, 400)):
        share, low, high = wilson(good, number)
        assert share == good / number
        assert (low, high) == pytest.approx(proportion_confint(good, number, method="wilson"))


# ---- improbable outcomes


def lying(url: str, rounds: int = 20) -> Programme:
    """Return a programme whose first person says "good" exactly after a call, as far as the state is seen."""
    made = clinic(url, people=14, budget=5)
    for _ in range(rounds):
        choice = made.programme.draw(by="Ada")
        actions = np.zeros(14, np.int64)
        actions[[each.number for each in choice.people]] = 1
        _, after = made.move(actions)
        after = np.where(made.rng.random(14) < 0.9, after, -1)
        after[0] = actions[0]
        made.programme.report(Outcomes(made.ids, actions, after), by="Ada")
        made.programme.close(by="Ada")
    return made.programme


def test_who_says_good_exactly_after_calls_is_listed_and_not_accused(url: str) -> None:
    programme = lying(url)
    found = reported(programme)
    (row,) = found.improbable_people()
    log = programme.log()
    k = log.arms.index("p0")
    assert row["number"] == 0
    assert (row["pulled"], row["unpulled"]) == tuple(log.counts.visits[k].sum(axis=0)[::-1])
    assert row["good_pulled"] == row["pulled"] > 0 == row["good_unpulled"]
    assert found.to_dict()["improbable"]["people"] == [row]
    text = " ".join(plain(each) for each in data_words(found))
    assert "The outcomes of 1 person of 14 are improbable beside those of the others." in text
    assert "probability of 5.0 % at most" in text
    assert "This does not say why" in text
    assert not re.search("lie|lying|cheat|fraud|manipul", text)
    table = sections.data(found).tables[1]
    assert [each[:3] for each in table.cells] == [
        ["p0", f"{row['pulled']} of {row['pulled']}", f"0 of {row['unpulled']}"]
    ]
    assert len(sections.data(found, people=False).tables) == 1
    words = board_words(found)
    assert "improbable" in " ".join(words["data"])
    assert not re.search(r"\bp0\b", json.dumps([words, board_values(found)]))


def test_corrections_and_missing_states_count_in_what_is_improbable(url: str) -> None:
    """Nothing is left to be improbable once the states of the person are corrected to be unknown."""
    programme = lying(url, rounds=14)
    assert reported(programme).improbable_people()
    for number in range(1, 15):
        unknown = Outcomes(["p0"], after=[-2], forgets=True)
        programme.correct(unknown, round=number, reason="nobody saw it", by="Ada")
    found = reported(programme)
    assert not found.improbable_people()
    assert "Nobody's outcomes are improbable" in " ".join(data_words(found))


def test_of_few_people_none_is_said_to_be_improbable(url: str) -> None:
    made = clinic(url, people=6, budget=2)
    made.play()
    assert "There are too few people" in " ".join(data_words(reported(made.programme)))
