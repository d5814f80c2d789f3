"""A year of a clinic that never was, to look at: a programme with all that happens in a real one.

The people are those of :mod:`meritfair.datasets.clinic`. Every week some are drawn and called; most are reached. Nurses
report what they see, now and then late, wrongly or not at all, and sometimes call someone else than was drawn, with a
reason. People join, leave, come back and go on holiday, and in the middle of the year the budget is raised. What people
do follows from a seed; who is drawn does not, as nobody can choose the secret of a programme.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from meritfair.core.arrays import BoolArray, IntArray
from meritfair.core.checks import check_whole
from meritfair.core.progress import Progress, following
from meritfair.core.seeding import fresh_seed, stream
from meritfair.datasets.clinic import clinic_people
from meritfair.programme.inputs import Outcomes, People
from meritfair.programme.programme import Programme

FEATURES = ("age", "language")
_NURSES = ("Nurse Ama", "Nurse Kofi", "Nurse Efua", "Nurse Yaw")
LEAD = "Dr. Osei"
_REASONS = ("asked to be called", "came by in person", "the family was worried", "number was called by mistake")
_BUDGET = 8  # one in so many is drawn in a week
_LATE_JOINERS, _LEAVERS, _RETURNERS = 0.2, 0.12, 0.3
REACHED, SEEN = 0.92, 0.8
_AWAY, _STAY_AWAY = 0.01, 3  # how many set out in a week, and for how many weeks at most
_OVERRIDES, _LATE, _LOST, _WRONG = 0.3, 0.1, 0.03, 0.25  # chances in a week; of lists of nurses the second and third


@dataclass
class Demo:
    """What happened in a demonstration.

    Attributes
    ----------
    weeks, joined, left, returned, away : int
    overrides, late, lost, corrections : int
        Calls of people who were not drawn; lists that came late, or never; reports that were corrected.
    waited : str
        The id of someone who was there all the time and was drawn least.
    """

    weeks: int = 0
    joined: int = 0
    left: int = 0
    returned: int = 0
    away: int = 0
    overrides: int = 0
    late: int = 0
    lost: int = 0
    corrections: int = 0
    waited: str = ""


@dataclass
class _Report:
    """A list that a nurse will hand in, in some week."""

    due: int
    round: int
    by: str
    outcomes: Outcomes


def make_demo(
    programme: Programme,
    participants: int = 200,
    rounds: int = 52,
    seed: int | None = None,
    progress: Progress = None,
) -> Demo:
    """Create a programme and play it.

    Parameters
    ----------
    programme : Programme
        One that there is not yet, with a name.
    participants, rounds : int
        People and weeks.
    seed : int, optional
        Fixes the people and what they do.
    progress : bool or callable, optional
    """
    people = check_whole("participants", participants, 10, 1_000_000)
    weeks = check_whole("rounds", rounds, 1, 10_000)
    clinic = _Clinic(programme, people, weeks, fresh_seed(seed))
    with following(progress, "a year in the clinic") as tell:
        clinic.open()
        for week in range(1, weeks + 1):
            clinic.play(week)
            tell(week, weeks)
    return clinic.ended()


@dataclass
class _Clinic:
    """The clinic, week after week."""

    programme: Programme
    people: int
    weeks: int
    seed: int
    demo: Demo = field(default_factory=Demo)

    def __post_init__(self) -> None:
        self.rng = rng = stream(self.seed, "instance", 1)
        self.arms, self.features = clinic_people(self.people, self.seed)
        N, weeks = self.people, self.weeks
        late = rng.random(N) < _LATE_JOINERS
        self.joins = np.where(late, rng.integers(2, max(3, weeks // 2 + 2), N), 1)
        self.leaves = np.where(rng.random(N) < _LEAVERS, rng.integers(max(2, weeks // 2), weeks + 2, N), weeks + 1)
        self.returns = np.where(rng.random(N) < _RETURNERS, self.leaves + rng.integers(2, 6, N), weeks + 1)
        self.back = np.zeros(N, np.int64)  # in which week those who are away come back
        self.state = rng.integers(0, 2, N)
        self.drawn = np.zeros(N, np.int64)
        self.nurse = rng.integers(0, len(_NURSES), N)
        self.pending: list[_Report] = []
        self.wrong: list[tuple[int, int, int, int]] = []  # week of the correction, round, person, what is right
        self.budget = max(1, N // _BUDGET)

    def open(self) -> None:
        """Create the programme, and enrol those who are there from the start."""
        self.programme.create(self.budget, features=FEATURES, by=LEAD)
        self._enrol(np.flatnonzero(self.joins == 1))

    def play(self, week: int) -> None:
        """Play one week."""
        self._come_and_go(week)
        if week == self.weeks // 2 + 1 and self.weeks > 3:
            self.programme.change(
                budget=self.budget + max(1, self.budget // 5), reason="a new nurse has begun", by=LEAD
            )
        round_ = self.programme.draw(by=LEAD)
        drawn = np.zeros(self.people, np.bool_)
        drawn[[self._place[each] for each in round_.ids]] = True
        self.drawn += drawn
        here = self._here(week)
        action, reasons = self._call(week, drawn, here)
        good = self.arms.transitions[np.arange(self.people), self.state, action]
        self.state = (self.rng.random(self.people) < good).astype(np.int64)
        self._write_down(week, drawn, action, here, reasons)
        self._hand_in(week)
        self._correct(week)
        self.programme.close(by=LEAD)
        self.demo.weeks = week

    def ended(self) -> Demo:
        """Return what happened."""
        always = np.flatnonzero((self.joins == 1) & (self.leaves > self.weeks))
        waited = always[np.argmin(self.drawn[always])] if len(always) else 0
        self.demo.waited = self.arms.names[waited]
        return self.demo

    @property
    def _place(self) -> dict[str, int]:
        return {name: place for place, name in enumerate(self.arms.names)}

    def _here(self, week: int) -> BoolArray:
        """Return who takes part in a week."""
        there = (self.joins <= week) & (week < self.leaves)
        return np.asarray(there | (self.returns <= week))

    def _ids(self, people: IntArray) -> list[str]:
        return [self.arms.names[place] for place in people]

    def _enrol(self, people: IntArray) -> None:
        def of(column: Sequence[str]) -> list[str]:
            return [column[place] for place in people]

        known = {name: of(self.features[name]) for name in FEATURES}
        staff = [_NURSES[self.nurse[place]] for place in people]
        self.programme.enrol(People(self._ids(people), of(self.features["district"]), staff, known), by=LEAD)

    def _come_and_go(self, week: int) -> None:
        """Let people join, leave and come back, go on holiday and return."""
        coming, returning = np.flatnonzero(self.joins == week), np.flatnonzero(self.returns == week)
        leaving = np.flatnonzero((self.leaves == week) & (self.joins < week))
        back = np.flatnonzero((self.back == week) & self._here(week - 1))
        if len(back):
            self.programme.away(self._ids(back), back=True, by=_NURSES[0])
        if len(leaving):
            self.programme.withdraw(self._ids(leaving), reason="moved away", by=LEAD)
        if week > 1 and len(coming):
            self._enrol(coming)
        if len(returning):
            self._enrol(returning)
        setting_out = np.flatnonzero(self._here(week) & (self.back <= week) & (self.rng.random(self.people) < _AWAY))
        if len(setting_out):
            self.back[setting_out] = week + self.rng.integers(1, _STAY_AWAY + 1, len(setting_out))
            self.programme.away(self._ids(setting_out), reason="on holiday", by=_NURSES[0])
        self.demo.joined += len(coming)
        self.demo.left += len(leaving)
        self.demo.returned += len(returning)
        self.demo.away += len(setting_out)

    def _call(self, week: int, drawn: BoolArray, here: BoolArray) -> tuple[IntArray, dict[str, str]]:
        """Return who is reached, and by id why someone is who was not drawn."""
        action = (drawn & (self.rng.random(self.people) < REACHED)).astype(np.int64)
        others = np.flatnonzero(here & ~drawn & (self.back <= week))
        if not len(others) or self.rng.random() > _OVERRIDES:
            return action, {}
        chosen = self.rng.choice(others)
        action[chosen] = 1
        self.demo.overrides += 1
        return action, {self.arms.names[chosen]: str(self.rng.choice(_REASONS))}

    def _write_down(
        self, week: int, drawn: BoolArray, action: IntArray, here: BoolArray, reasons: dict[str, str]
    ) -> None:
        """Let each nurse make a list of what was done and seen, with a mistake now and then."""
        seen = np.where(self.rng.random(self.people) < SEEN, self.state, -1)
        told = np.where(drawn | (action == 1), action, -1)
        if self.rng.random() < _WRONG:
            person = int(self.rng.choice(np.flatnonzero(here)))
            if seen[person] >= 0:
                self.wrong.append((week + int(self.rng.integers(1, 4)), week, person, int(seen[person])))
                seen[person] = 1 - seen[person]
        for number, nurse in enumerate(_NURSES):
            own = np.flatnonzero(here & (self.nurse == number) & ((seen >= 0) | (told >= 0)))
            if not len(own):
                continue
            late, lost = self.rng.random(2) < (_LATE, _LOST)
            if lost and not any(name in reasons for name in self._ids(own)):
                self.demo.lost += 1
                continue
            self.demo.late += int(late)
            ids = self._ids(own)
            why = {name: reasons[name] for name in ids if name in reasons}
            outcomes = Outcomes(ids, told[own], seen[own], reasons=why)
            self.pending.append(_Report(week + 2 * int(late), week, nurse, outcomes))

    def _hand_in(self, week: int) -> None:
        for each in [each for each in self.pending if each.due <= week]:
            self.programme.report(each.outcomes, round=each.round, by=each.by)
            self.pending.remove(each)

    def _correct(self, week: int) -> None:
        """Put right what was wrong, once it was handed in."""
        waiting = {each.round for each in self.pending}
        for each in [each for each in self.wrong if each[0] <= week and each[1] not in waiting]:
            _, round_, person, right = each
            self.wrong.remove(each)
            fixed = Outcomes(self._ids(np.array([person])), after=[right])
            nurse = _NURSES[self.nurse[person]]
            self.demo.corrections += self.programme.correct(
                fixed, round=round_, reason="entered wrongly", by=nurse
            ).taken
