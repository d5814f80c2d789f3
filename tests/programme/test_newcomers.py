"""Someone who joins while a round is open, and is the first of their group or level: every report still works."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import meritfair as mf
from meritfair.programme import Outcomes, Part, People, Programme, Trial
from meritfair.programme.showing.board import board_values, board_words, people_columns, without_names
from meritfair.programme.showing.change_preview import preview_change
from meritfair.programme.showing.learning import learning_of
from meritfair.programme.showing.person_page import write_person_page
from meritfair.programme.showing.report import report_of
from meritfair.programme.showing.report_page import write_report_page
from meritfair.programme.work import Work

FIRST = ["A", "B", "C", "E"]
GROUPS = ["north", "north", "south", "south"]
SITES = {"site": ["x", "x", "y", "y"]}


def _new_group(programme: Programme) -> None:
    programme.create(1, by="Ada")
    programme.enrol(People(FIRST, group=GROUPS), by="Ada")


def _first_group(programme: Programme) -> None:
    programme.create(1, by="Ada")
    programme.enrol(People(FIRST), by="Ada")


def _new_level(programme: Programme) -> None:
    programme.create(1, features=["site"], by="Ada")
    programme.enrol(People(FIRST, group=GROUPS, features=SITES), by="Ada")


def _trial(programme: Programme) -> None:
    parts = [Part(1, "random", name="calls"), Part(0, "none", name="control")]
    programme.create(trial=Trial("ab" * 32, ("site",)), parts=parts, features=["site"], by="Ada")
    programme.enrol(People(FIRST, group=GROUPS, features=SITES), by="Ada")


EAST: dict[str, Any] = {"group": ["east"]}
NOBODY: dict[str, Any] = {}
CASES = {
    "a new group": (_new_group, EAST),
    "no group": (_new_group, NOBODY),
    "the first group of all": (_first_group, EAST),
    "a new level": (_new_level, EAST | {"features": {"site": ["z"]}}),
    "no level": (_new_level, {"features": {"site": [""]}}),
    "a trial": (_trial, EAST | {"features": {"site": ["z"]}}),
    "a trial, no level": (_trial, {"features": {"site": [""]}}),
}


def _looked_at(programme: Programme, folder: Path) -> dict[str, Any]:
    """Make everything that is shown of a programme; return the audit as plain values."""
    with programme.store.reading(programme.name) as session:
        work = Work(session)
        report = report_of(work)
        write_report_page(report, folder / "audit.html")
        write_report_page(without_names(report), folder / "board.html", people=False)
        values: dict[str, Any] = json.loads(json.dumps(board_values(report)))
        assert board_words(report)["verdict"]
        assert len(people_columns(report)["number"]) == len(report.people)
        learning_of(work).to_dict()
        assert len(preview_change(work, work.state.settings).groups) >= 1
    for id_ in [*FIRST, "D"]:
        person = programme.person(id_)
        write_person_page(person, folder / "person.html")
        json.dumps(person.to_dict())
    programme.log()
    assert programme.verify().whole
    return {**report.to_dict(), "moved": values["moved"], "rates": values["rates"]}


def test_the_audit_has_the_groups_that_were_in_a_draw(tmp_path: Path) -> None:
    programme = mf.programme.open(f"sqlite:///{tmp_path / 'programmes.db'}", "calls")
    _new_group(programme)
    programme.draw(by="Ada")
    programme.enrol(People(["D"], **EAST), by="Ada")
    rows = programme.audit().to_dict()["groups"]
    assert [(row["group"], row["people"], row["flagged"]) for row in rows] == [("north", 2, False), ("south", 2, False)]


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_a_newcomer_of_a_new_kind_breaks_no_report(case: str, tmp_path: Path) -> None:
    setting_up, new = CASES[case]
    programme = mf.programme.open(f"sqlite:///{tmp_path / 'programmes.db'}", "calls")
    setting_up(programme)
    drawn = programme.draw(by="Ada")
    programme.enrol(People(["D"], **new), by="Ada")
    audit = _looked_at(programme, tmp_path)
    there = sorted({row["group"] for row in audit["people"]})
    assert sorted(row["group"] for row in audit["groups"]) == there, "groups are of those who were in a draw"
    assert sum(row["people"] for row in audit["groups"]) == len(FIRST)
    assert sorted(audit["moved"]) == sorted(audit["rates"]["group"]) == there
    called = {each.id for each in drawn.people}
    programme.report(Outcomes(FIRST, [int(id_ in called) for id_ in FIRST], [1, 0, 1, 0]), by="Ada")
    programme.close(by="Ada")
    programme.draw(by="Ada")
    audit = programme.audit().to_dict()
    assert sum(row["people"] for row in audit["groups"]) == len(FIRST) + 1
    flagged = [row["flagged"] for row in audit["groups"] if "flagged" in row]
    assert len(flagged) in (0, len(audit["groups"]))
