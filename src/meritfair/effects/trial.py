"""A log as a micro-randomised trial: the arm-rounds in which chance decided who was pulled, and what came of them.

A row of the log is used if its exposure lies strictly between 0 and 1, and its state, its draw and the state of the
arm's next round were recorded. All others are left out, and counted by what they lack.

What is drawn by one chance is a *unit*: an arm, or the arms of a cluster, such as a clinic, that are drawn together.

What is `drawn` was randomised, what was done (`action`) need not be: where somebody overrode the draw, the effect is
that of being drawn ("intention to treat"), since who is overridden is not left to chance.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from meritfair.core.arrays import BoolArray, FloatArray, IntArray
from meritfair.core.errors import InputError
from meritfair.core.texts import several
from meritfair.datasets.logs import StateLog

_SUSPICIOUS = 2.58  # standard errors: about one trial in a hundred in which nothing is wrong


class LeftOut(NamedTuple):
    """How many rows are not used, each counted by the first that it lacks."""

    latest: int
    no_exposure: int
    certain: int
    state_unknown: int
    outcome_unknown: int
    no_draw: int

    @property
    def total(self) -> int:
        """All of them."""
        return sum(self)

    def reasons(self) -> dict[str, int]:
        """Return the number of rows by the reason why they are left out, in words."""
        words = (
            "of the last round (the next state is not known yet)",
            "without an exposure (the arm was not in the draw)",
            "with an exposure of exactly 0 or 1 (nothing was left to chance)",
            "whose state was not observed",
            "whose next state was not observed",
            "that do not say whether the arm was drawn",
        )
        return {word: number for word, number in zip(words, self, strict=True) if number}


class Missing(NamedTuple):
    """Outcomes that were not observed: the parts of those drawn and of those not drawn, and how far these differ.

    `z` is in standard errors, and 0 on average if being drawn does not change whether the outcome is observed.
    """

    drawn: float
    not_drawn: float
    z: float

    @property
    def differs(self) -> bool:
        """Whether outcomes are missing at rates that differ by more than chance explains."""
        return abs(self.z) > _SUSPICIOUS


@dataclass(frozen=True, eq=False)
class Trial:
    """The rows of a log whose arms were in a draw, with a known state; in the order of rounds, then of arms.

    Attributes
    ----------
    labels : tuple of str
        The rounds: numbers, or dates.
    numbers : ndarray
        The number of each of these rounds.
    round : ndarray
        For each row, which of these rounds.
    unit : ndarray
        For each row, what it was drawn with: its arm, or its cluster.
    arm, state, drawn, outcome : ndarray
        For each row; `drawn` and `outcome`, the next state, are -1 if not known.
    exposure : ndarray
        For each row; NaN where the arm was not in the draw.
    usable : ndarray of bool
        Whether the exposure lies strictly between 0 and 1.
    due : ndarray of bool
        Whether the log goes on after the row's round, so that its next state could have been observed.
    left_out : LeftOut
    overridden : int
        In how many used rows the arm was pulled though not drawn, or drawn and not pulled.
    missing : Missing
    """

    labels: tuple[str, ...]
    numbers: IntArray
    round: IntArray
    unit: IntArray
    arm: IntArray
    state: IntArray
    drawn: IntArray
    outcome: IntArray
    exposure: FloatArray
    usable: BoolArray
    due: BoolArray
    left_out: LeftOut
    overridden: int
    missing: Missing

    @property
    def complete(self) -> BoolArray:
        """For each row, whether the draw and the outcome are known."""
        return (self.drawn >= 0) & (self.outcome >= 0)

    @property
    def used(self) -> BoolArray:
        """For each row, whether it is used."""
        return self.usable & self.complete

    @property
    def lost(self) -> BoolArray:
        """For each row, whether it would be used if its next state, which is due, had been observed."""
        return self.usable & self.due & (self.drawn >= 0) & (self.outcome < 0)

    @property
    def unit_round(self) -> IntArray:
        """For each row a number that those of its unit and round have, and no others."""
        return np.asarray(self.round * (int(self.unit.max()) + 1) + self.unit)


def trial_of(log: StateLog, unit: IntArray | None = None) -> Trial:
    """Return what of a log is a trial; refuse a log without chances, or with nothing that can be used.

    `unit` says for each arm with which others it is drawn; by default with none.

    Examples
    --------
    >>> log = StateLog(["Ada"] * 3, [1, 2, 3], [0, 1, 1], [1, 0, None], exposure=[0.4, 1, 0.3], drawn=[1, 0, None])
    >>> trial_of(log).left_out
    LeftOut(latest=1, no_exposure=0, certain=1, state_unknown=0, outcome_unknown=0, no_draw=0)
    """
    if log.exposure is None or log.drawn is None:
        raise InputError(
            "the log has no column exposure, and without it what pulls changed cannot be told from who was pulled: "
            "record for each arm and round the probability with which it was drawn"
        )
    log.check_transitions()
    outcome = np.where(log.has_outcome, np.append(log.states[1:], -1), -1)
    inside, latest = (log.exposure > 0) & (log.exposure < 1), log.rounds == log.rounds.max()
    left_out = _left_out(log, outcome, inside, latest)
    rows = np.flatnonzero(log.states >= 0)
    rows = rows[np.argsort(log.rounds[rows], kind="stable")]
    numbers, first, place = np.unique(log.rounds[rows], return_index=True, return_inverse=True)
    days = log.rounds if log.dates is None else log.dates
    used = inside & (log.drawn >= 0) & (outcome >= 0)
    drawn_as = log.arm if unit is None else unit[log.arm]
    if not used.any():
        raise InputError(f"no row of the log can be used: {_listed(left_out)}")
    return Trial(
        labels=tuple(str(day) for day in days[rows][first]),
        numbers=numbers,
        round=place.astype(np.int64),
        unit=drawn_as[rows],
        arm=log.arm[rows],
        state=log.states[rows],
        drawn=log.drawn[rows],
        outcome=outcome[rows],
        exposure=log.exposure[rows],
        usable=inside[rows],
        due=~latest[rows],
        left_out=left_out,
        overridden=int((used & (log.actions != log.drawn)).sum()),
        missing=_missing(log, log.exposure, outcome, drawn_as, inside & ~latest & (log.states >= 0)),
    )


def _left_out(log: StateLog, outcome: IntArray, inside: BoolArray, latest: BoolArray) -> LeftOut:
    assert log.exposure is not None
    assert log.drawn is not None
    unknown = np.isnan(log.exposure)
    lacks = (latest & (outcome < 0), unknown, ~inside, log.states < 0, outcome < 0, log.drawn < 0)
    first = np.where(np.any(lacks, axis=0), np.argmax(lacks, axis=0), len(lacks))
    return LeftOut(*np.bincount(first, minlength=len(lacks) + 1)[: len(lacks)].tolist())


def _listed(left_out: LeftOut) -> str:
    return "; ".join(f"{several(number, 'row')} {reason}" for reason, number in left_out.reasons().items())


def _missing(log: StateLog, exposure: FloatArray, outcome: IntArray, unit: IntArray, rows: BoolArray) -> Missing:
    """Return how often outcomes of some rows are missing, by draw.

    If missing is not caused by the draw, each row was drawn with its exposure whether or not its outcome is missing:
    so the sum of (drawn - exposure) times what is missing more than usual is 0 on average, for each unit and round.
    """
    assert log.drawn is not None
    rows = rows & (log.drawn >= 0)
    drawn, lost, chance = log.drawn[rows] == 1, outcome[rows] < 0, exposure[rows]
    of_drawn, of_others = (float(lost[part].mean()) if part.any() else 0.0 for part in (drawn, ~drawn))
    if not lost.any() or lost.all():
        return Missing(of_drawn, of_others, 0.0)
    more = lost - lost.mean()
    odd = (drawn - chance) * more
    if np.array_equal(unit, log.arm):
        spread = float((chance * (1 - chance) * more**2).sum())
    else:
        _, of = np.unique(np.stack([log.rounds[rows], unit[rows]]), axis=1, return_inverse=True)
        spread = float((np.bincount(of.ravel(), odd) ** 2).sum())
    return Missing(of_drawn, of_others, float(odd.sum()) / math.sqrt(spread))
