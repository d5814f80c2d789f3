"""What a change of settings would do to the next draw, before anyone makes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from meritfair.core.arrays import FloatArray, IntArray
from meritfair.programme.ledger.lottery import ONE
from meritfair.programme.planning import PlannedRound, plan_round, unknown_states
from meritfair.programme.settings import Settings
from meritfair.programme.showing.happenings import differences
from meritfair.programme.showing.report import groups_of
from meritfair.programme.view import ProgrammeView

_MOST_PEOPLE = 10


@dataclass(frozen=True)
class GroupShift:
    """What a group would be due in the next round, in draws: as things are, and after a change."""

    name: str
    people: int
    now: float
    then: float


@dataclass(frozen=True)
class ChangePreview:
    """What a change of settings would do to the next draw.

    Attributes
    ----------
    what : tuple of str
        What would change, in words; empty if nothing would.
    round : int
        The first round that it would be about.
    budget : tuple of int
        How many are drawn in it as things are, and after the change.
    groups : tuple of GroupShift
    least, most : tuple of float
        The least and the most that is due to anyone who is due something, as things are and after the change.
    moved : float
        How many draws would be due to others, of all: 0 if shares stay as they are.
    people : tuple of (int, float, float)
        Those for whom most would change: number in the ledger, what is due as things are, and after the change.
    """

    what: tuple[str, ...]
    round: int
    budget: tuple[int, int]
    groups: tuple[GroupShift, ...]
    least: tuple[float, float]
    most: tuple[float, float]
    moved: float
    people: tuple[tuple[int, float, float], ...]

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], what: Sequence[str]) -> ChangePreview:
        """Return what `asdict` has made plain, also if it was JSON meanwhile; `what` in the reader's words."""
        lists = {name: tuple(value) for name, value in values.items() if isinstance(value, (list, tuple))}
        groups = tuple(GroupShift(**each) for each in values["groups"])
        people = tuple(tuple(each) for each in values["people"])
        return cls(**{**values, **lists, "groups": groups, "people": people, "what": tuple(what)})


def preview_change(view: ProgrammeView, new: Settings) -> ChangePreview:
    """Return what other settings would do to the next draw; nothing is changed or kept.

    Parameters
    ----------
    view : ProgrammeView
    new : Settings
        Those that would hold from the next round on.
    """
    state, old = view.state, view.state.settings
    what = differences(old, new)
    before = _planned(view, old)
    after = _planned(view, new) if what else before
    now, then = (_due(each, state.people) for each in (before, after))
    return ChangePreview(
        what=tuple(what),
        round=state.summary.round + 1,
        budget=(sum(before.budgets), sum(after.budgets)),
        groups=_groups(view, before.number, now, then),
        least=(_least(now), _least(then)),
        most=(float(now.max(initial=0.0)), float(then.max(initial=0.0))),
        moved=_moved(now, then),
        people=_people(before.number, now, then),
    )


def _planned(view: ProgrammeView, settings: Settings) -> PlannedRound:
    state, own = view.state.with_settings(settings), (None,) * len(settings.parts)
    return plan_round(state, view.identity, unknown_states(state.people), own)


def _due(planned: PlannedRound, people: int) -> FloatArray:
    due = np.zeros(people)
    due[planned.number] = planned.due / ONE
    return due


def _groups(view: ProgrammeView, numbers: IntArray, now: FloatArray, then: FloatArray) -> tuple[GroupShift, ...]:
    names, group = groups_of(view)
    own = group[numbers]
    size = len(names)
    people = np.bincount(own, minlength=size)
    sums = [np.bincount(own, due[numbers], size) for due in (now, then)]
    rows = zip(names, people.tolist(), *(each.tolist() for each in sums), strict=True)
    return tuple(GroupShift(*row) for row in rows if row[1])


def _least(due: FloatArray) -> float:
    return float(due[due > 0].min(initial=1.0)) if due.any() else 0.0


def _moved(now: FloatArray, then: FloatArray) -> float:
    """Return how many draws would go to others, allowing for another budget."""
    total = float(then.sum())
    if not total or not now.sum():
        return 0.0
    return float(np.abs(then - now * (total / now.sum())).sum() / 2)


def _people(numbers: IntArray, now: FloatArray, then: FloatArray) -> tuple[tuple[int, float, float], ...]:
    change = np.abs(then - now)[numbers]
    first = numbers[np.argsort(-change, kind="stable")[:_MOST_PEOPLE]].tolist()
    return tuple((number, float(now[number]), float(then[number])) for number in first if now[number] != then[number])
