"""What happened, as a log: the same rows that simulations and recorded data have, for `fit`, `effect` and the audit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from meritfair.auditing.log import DrawLog
from meritfair.core.arrays import AnyArray, FloatArray, IntArray
from meritfair.core.errors import InputError
from meritfair.core.tables import Labels, numbered
from meritfair.datasets.logs import StateLog
from meritfair.programme.ledger.lottery import ONE
from meritfair.programme.rounds import committed
from meritfair.programme.state import COMMITTED
from meritfair.programme.view import NO_GROUP
from meritfair.programme.work import Work


@dataclass(frozen=True, eq=False)
class Records:
    """Every participant of every round that was drawn, in order of rounds; a row for each.

    Attributes
    ----------
    number, round, part : ndarray of int
    away : ndarray of int
    due, chance : ndarray of int
        In units of 2^-40.
    drawn, before, action, after : ndarray of int
        -1 where it is not known. `before` is the state at the start as it was reported, or after the round before.
    done : ndarray of int
        The action or, where nothing was reported of it, what was drawn.
    """

    number: IntArray
    round: IntArray
    part: IntArray
    away: IntArray
    due: IntArray
    chance: IntArray
    drawn: IntArray
    before: IntArray
    action: IntArray
    after: IntArray

    @property
    def done(self) -> IntArray:
        """What was done, as far as it is known."""
        return np.where(self.action >= 0, self.action, self.drawn)

    @property
    def given(self) -> FloatArray:
        """The chance that each had."""
        return self.chance / ONE

    def only(self, rows: AnyArray) -> Records:
        """Return some rows."""
        return Records(**{name: column[rows] for name, column in vars(self).items()})


def records(work: Work, *, rounds: range | None = None) -> Records:
    """Return the records of all rounds that were drawn, or of some of them."""
    state, summary = work.state, work.state.summary
    last = summary.round - (summary.phase == COMMITTED)
    columns: dict[str, list[AnyArray]] = {name: [] for name in Records.__dataclass_fields__}
    for number in rounds or range(1, last + 1):
        _, table = committed(work, number)
        who, seen = table["number"].astype(np.int64), state.seen(number)
        before = seen[1, who]
        if number > 1:
            before = np.where(before >= 0, before, state.seen(number - 1)[3, who])
        found = {"number": who, "round": np.full(len(who), number), "drawn": seen[0, who], "before": before}
        found |= {"action": seen[2, who], "after": seen[3, who]}
        found |= {name: table[name] for name in ("part", "away", "due", "chance")}
        for name, column in found.items():
            columns[name].append(column.astype(np.int64))
    empty = [np.zeros(0, np.int64)]
    return Records(**{name: np.concatenate(parts or empty) for name, parts in columns.items()})


def names_of(work: Work) -> list[str]:
    """Return what each participant is called: their id or, if they were erased, their number."""
    numbers, ids = work.session.people_columns()
    known = {number: name for number, name in zip(numbers.tolist(), ids, strict=True) if name}
    if len(known) == work.state.people:
        return list(known.values())
    taken, names = set(known.values()), []
    for number in range(work.state.people):
        name = known.get(number) or f"participant {number}"
        while number not in known and name in taken:
            name += "*"
        names.append(name)
    return names


def state_log(work: Work, found: Records, names: Sequence[str]) -> StateLog:
    """Return all rounds as a log of states and actions, with what came after the last one.

    `found` are the records of all rounds, and `names` says what each participant is called.
    """
    if not len(found.number):
        raise InputError("there was no draw yet, so there is nothing to tell from")
    last = int(found.round.max())
    after = np.flatnonzero((found.round == last) & (found.after >= 0))
    here = np.concatenate([found.number, found.number[after]])
    more = len(after)
    exposure = np.where((found.away == 1) & (found.chance == 0), np.nan, found.given)
    gap = np.full(more, np.nan)
    columns = (
        ["group", *work.state.settings.features]
        if work.state.summary.levels.get("group")
        else [*work.state.settings.features]
    )
    return StateLog(
        Labels(names, here),
        np.concatenate([found.round, np.full(more, last + 1)]),
        np.concatenate([found.before, found.after[after]]),
        np.concatenate([found.done, np.full(more, -1)]),
        exposure=np.concatenate([exposure, gap]),
        drawn=np.concatenate([found.drawn, np.full(more, -1)]),
        due=np.concatenate([np.where(np.isnan(exposure), np.nan, found.due / ONE), gap]),
        features={name: _labels(work.state.texts(name), here) for name in columns},
    )


def draw_log(work: Work, found: Records, names: Sequence[str]) -> DrawLog:
    """Return all draws as a log for the audit, with groups where there are any.

    `found` are the records of all rounds, and `names` says what each participant is called.
    """
    if not len(found.number):
        raise InputError("there was no draw yet, so there is nothing to audit")
    group = None
    if work.state.summary.levels.get("group"):
        group = _labels([text or NO_GROUP for text in work.state.texts("group")], found.number)
    return DrawLog(found.round, Labels(names, found.number), found.given, found.drawn, group, found.due / ONE)


def _labels(texts: Sequence[str], rows: IntArray) -> Labels:
    """Return the labels of rows of participants, of whom each has a text."""
    names, number = numbered(texts)
    return Labels(names, number[rows])
