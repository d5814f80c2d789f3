"""A year in the life of a clinic: 2,000 patients, 52 weekly rounds, through the command line alone.

Patients drift as in the CPAP data set. Some join late, leave, or come back; reports are missing, late, or wrong and
corrected; staff do not reach everyone, and now and then call someone who was not drawn. What the programme says is
compared with what this test has noted by itself.
"""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import meritfair as mf
from meritfair.cli import main
from meritfair.model.benefit import benefit
from meritfair.programme.showing.estimating import PartEstimates
from meritfair.programme.work import Work

FULL = os.environ.get("MERITFAIR_FULL") == "1"
PATIENTS, WEEKS, CALLS, SLACK, MONTH_7 = (2_000, 52, 40, 2.0, 30) if FULL else (400, 32, 12, 2.0, 30)


def mf_programme(*words: object) -> str:
    """Run a command as a person does; return what it prints."""
    out = io.StringIO()
    with redirect_stdout(out), pytest.raises(SystemExit) as stopped:
        main(["programme", *map(str, words)])
    assert stopped.value.code == 0, out.getvalue()
    return out.getvalue()


def rows_of(file: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(file.read_text(encoding="utf-8"))))


class Year:
    """The clinic, its patients, and a notebook."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.rng = folder, np.random.default_rng(7)
        self.ids = [f"patient-{number:04}" for number in range(PATIENTS)]
        self.place = {id_: number for number, id_ in enumerate(self.ids)}
        self.arms = mf.datasets.cpap(n_arms=PATIENTS, seed=5).transitions[self.rng.permutation(PATIENTS)]
        self.states = self.rng.integers(0, 2, PATIENTS)
        self.joins = np.sort(np.where(self.rng.random(PATIENTS) < 0.85, 1, self.rng.integers(2, WEEKS, PATIENTS)))
        self.here = np.zeros(PATIENTS, bool)
        self.late: list[tuple[int, int, dict[str, Any]]] = []  # week of arrival, round, row
        self.due, self.given, self.drawn = np.zeros((3, PATIENTS))
        self.largest = 0.0
        self.heads: list[str] = []
        self.overrides = 0

    def file(self, name: str, columns: list[str], rows: list[dict[str, Any]]) -> Path:
        path = self.folder / name
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, columns, restval="")
            writer.writeheader()
            writer.writerows(rows)
        return path

    def week(self, week: int) -> None:
        self.people(week)
        self.note_dry_run(week)
        out = self.folder / "calls.csv"
        drawn = json.loads(mf_programme("draw", "--out", out, "--json"))
        self.heads.append(drawn["head"])
        listed = rows_of(out)
        assert len(listed) == min(CALLS, len(listed))
        for row in listed:
            self.drawn[self.place[row["id"]]] += 1
        reports = self.call(week, listed)
        self.hand_in(week, [row for _, _, row in reports])
        mf_programme("close")

    def people(self, week: int) -> None:
        """Let people join, leave, come back, be away."""
        new = np.flatnonzero(self.joins == week)
        if len(new):
            rows = [{"id": self.ids[k], "group": ("north", "south")[k % 2], "staff": f"nurse {k % 5}"} for k in new]
            mf_programme("enrol", self.file("join.csv", ["id", "group", "staff"], rows))
            self.here[new] = True
        if week % 4 == 2:
            gone = self.rng.choice(np.flatnonzero(self.here), 3, replace=False)
            mf_programme("withdraw", *(self.ids[k] for k in gone))
            self.here[gone] = False
        if week % 10 == 9:
            back = [int(k) for k in np.flatnonzero(~self.here & (self.joins < week))[:2]]
            mf_programme("enrol", self.file("back.csv", ["id"], [{"id": self.ids[k]} for k in back]))
            self.here[back] = True
        if week % 5 == 3:
            self.away = self.rng.choice(np.flatnonzero(self.here), 4, replace=False)
            mf_programme("away", *(self.ids[k] for k in self.away))
        if week % 5 == 0:
            still = [self.ids[k] for k in self.away if self.here[k]]
            mf_programme("away", "--back", *still)

    def note_dry_run(self, week: int) -> None:
        """Note what everyone is due and given in the round that will be drawn: a dry run shows exposures alone."""
        out = self.folder / "dry.csv"
        mf_programme("draw", "--dry-run", "--out", out)
        for row in rows_of(out):
            place = self.place[row["id"]]
            self.due[place] += float(row["due"])
            self.given[place] += float(row["chance"])
        self.largest = max(self.largest, float(np.abs(self.due - self.given).max()))

    def call(self, week: int, listed: list[dict[str, str]]) -> list[tuple[int, int, dict[str, Any]]]:
        """Call people, let everyone drift, and return what is seen of it now; the rest comes late, or never."""
        rng, action = self.rng, np.zeros(PATIENTS, int)
        rows: dict[int, dict[str, Any]] = {}
        for row in listed:
            place = self.place[row["id"]]
            action[place] = rng.random() < 0.9
            rows[place] = {"id": row["id"], "action": action[place]}
        if week % 2 == 0:  # somebody asks for help
            other = int(rng.choice([k for k in np.flatnonzero(self.here) if k not in rows]))
            action[other] = 1
            rows[other] = {"id": self.ids[other], "action": 1, "reason": "asked for help"}
            self.overrides += 1
        before = self.states
        self.states = (rng.random(PATIENTS) < self.arms[np.arange(PATIENTS), before, action]).astype(int)
        for place in np.flatnonzero(self.here).tolist():
            row = rows.setdefault(int(place), {"id": self.ids[place], "action": 0})
            if week == 1 or self.joins[place] == week:
                row["before"] = before[place]
            if rng.random() < 0.85:
                row["state"] = self.states[place]
        now = []
        for place, row in rows.items():
            if "reason" not in row and rng.random() < 0.15:
                self.late.append((week + int(rng.integers(1, 5)), week, row))
            else:
                now.append((week, place, row))
        return now

    def hand_in(self, week: int, rows: list[dict[str, Any]]) -> None:
        """Report this week, with two slips of the pen that are corrected; and what comes in late."""
        columns = ["id", "action", "state", "before", "reason"]
        wrong = [row for row in rows if "state" in row][:2]
        slips = [{**row, "state": 1 - row["state"]} for row in wrong]
        sent = [row for row in rows if row not in wrong] + slips
        mf_programme("report", self.file("report.csv", columns, sent))
        fixed = [{"id": row["id"], "state": row["state"]} for row in wrong]
        mf_programme("correct", self.file("fix.csv", ["id", "state"], fixed), "--round", week, "--reason", "typo")
        for round_ in sorted({when for arrives, when, _ in self.late if arrives == week}):
            due = [row for arrives, when, row in self.late if arrives == week and when == round_]
            mf_programme("report", self.file("late.csv", columns, due), "--round", round_)

    def check_person(self, week: int, id_: str) -> None:
        """Compare a page with the notebook."""
        place = self.place[id_]
        page = json.loads(mf_programme("person", id_, "--json", "--html", self.folder / "page.html"))
        assert page["round"] == week
        assert page["drawn"] == self.drawn[place]
        assert page["account"]["due"] == pytest.approx(self.due[place], abs=1e-6)
        assert page["account"]["given"] == pytest.approx(self.given[place], abs=1e-6)
        assert page["account"]["balance"] == pytest.approx(self.due[place] - self.given[place], abs=1e-6)
        assert len(page["rounds"]) == page["seen"]["rounds"]
        assert id_ in (self.folder / "page.html").read_text(encoding="utf-8")
        self.page = page


@pytest.mark.slow
def test_a_year(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MERITFAIR_STORE", str(tmp_path / "year.db"))
    monkeypatch.setenv("MERITFAIR_BY", "Dr. Osei")
    year = Year(tmp_path)
    mf_programme("create", "clinic", "--budget", CALLS, "--cooldown", 2)
    for week in range(1, WEEKS + 1):
        year.week(week)
        if week == MONTH_7:
            watched = [year.ids[int(k)] for k in np.flatnonzero(year.here)[[0, 100, -1]]]
            for id_ in watched:
                year.check_person(week, id_)
    then = year.page
    again = json.loads(mf_programme("person", watched[-1], "--round", MONTH_7, "--json"))  # as it was in month 7
    for what in ("rounds", "account", "seen", "drawn"):
        assert again[what] == then[what], what
    assert again["estimate"]["benefit"] == pytest.approx(then["estimate"]["benefit"], abs=0.02)  # others were late

    assert year.largest <= SLACK + 1e-6
    assert "is whole" in mf_programme("verify", *(word for head in year.heads for word in ("--head", head)))
    mf_programme("export", tmp_path / "public", "--anonymous")
    command = [sys.executable, "-I", "-S", str(tmp_path / "public" / "verify.py"), "--head", year.heads[0]]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr

    report = json.loads(mf_programme("audit", "--json", "--html", tmp_path / "audit.html"))
    assert "overrides" in json.dumps(report)
    status = json.loads(mf_programme("status", "--json"))
    assert status["round"] == WEEKS
    assert status["largest_account"] == pytest.approx(max(year.due - year.given, key=abs, default=0.0), abs=1e-6)

    programme = mf.programme.open()
    with programme.store.reading("clinic") as session:
        state = Work(session).state
        members = np.flatnonzero(state.here)
        estimates = PartEstimates.of(state, 0, members)
        names = {each.number: each.id for each in session.people()}
    truth = benefit(year.arms)
    watched_numbers = members[:: max(1, len(members) // 400)]
    inside = [
        low <= truth[year.place[names[number]]] <= high
        for number in watched_numbers.tolist()
        for low, high in [estimates.interval(number)]
    ]
    print(f"coverage {np.mean(inside):.3f} of {len(inside)}, largest account {year.largest:.2f}")
    assert np.mean(inside) >= 0.90
