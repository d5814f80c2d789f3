"""Sums over the rounds of a programme: what people, or groups, were due, given, drawn and reached."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from meritfair.core.arrays import BoolArray, FloatArray, IntArray
from meritfair.core.tables import rows_of
from meritfair.programme.ledger.lottery import ONE
from meritfair.programme.records import Records
from meritfair.programme.showing.waits import RowLayout, probabilities_of_waits, running_waits

_NEAR = 1e-6  # draws: as the audit allows for


@dataclass(frozen=True, eq=False)
class Tally:
    """Sums over the rounds of each person, group or part; arrays have an entry for each.

    Attributes
    ----------
    names : tuple of str
    people, rounds : ndarray of int
        How many there are, and in how many rounds, a round of each counted by itself.
    due, given : ndarray
        The sums of what was due, and of the chances.
    drawn, reached : ndarray of int
        Draws; and those who were reached, drawn or not.
    not_reached, not_reported : ndarray of int
        Draws in which nobody was reached, and those of which that is not known.
    overrides : ndarray of int
        Those reached without being drawn.
    states, missing : ndarray of int
        Rounds that have ended, and those of them after which the state is not known.
    """

    names: tuple[str, ...]
    people: IntArray
    rounds: IntArray
    due: FloatArray
    given: FloatArray
    drawn: IntArray
    reached: IntArray
    not_reached: IntArray
    not_reported: IntArray
    overrides: IntArray
    states: IntArray
    missing: IntArray

    @classmethod
    def of(cls, names: Sequence[str], unit: IntArray, found: Records, ended: BoolArray) -> Tally:
        """Return the sums of records; `unit` says for each participant to whom of `names` they belong."""
        of_row, size = unit[found.number], len(names)
        drawn, action = found.drawn == 1, found.action
        there = np.flatnonzero(np.bincount(found.number))

        def count(rows: BoolArray) -> IntArray:
            return np.bincount(of_row[rows], minlength=size)

        return cls(
            names=tuple(names),
            people=np.bincount(unit[there], minlength=size),
            rounds=np.bincount(of_row, minlength=size),
            due=np.bincount(of_row, found.due / ONE, size).astype(np.float64),
            given=np.bincount(of_row, found.chance / ONE, size).astype(np.float64),
            drawn=count(drawn),
            reached=count(action == 1),
            not_reached=count(drawn & (action == 0)),
            not_reported=count(drawn & (action < 0) & ended),
            overrides=count(~drawn & (action == 1)),
            states=count(ended),
            missing=count(ended & (found.after < 0)),
        )

    def __len__(self) -> int:
        return len(self.names)

    @property
    def missing_rate(self) -> FloatArray:
        """The part of the states that is missing; 0 where there are none."""
        return np.asarray(self.missing / np.maximum(1, self.states))

    def rows(self, what: str) -> list[dict[str, Any]]:
        """Return it as rows of plain values; the first column is called `what`."""
        values = {each.name: vars(self)[each.name].tolist() for each in fields(self) if each.name != "names"}
        return rows_of({what: list(self.names), **values})


@dataclass(frozen=True, eq=False)
class Standings:
    """The accounts and waits of everyone who was ever in a draw; arrays have an entry for each.

    Attributes
    ----------
    number : ndarray of int
        Who it is.
    account, farthest : ndarray
        Due less given now, and the account that was farthest from 0 after any round.
    beyond : ndarray
        By how much the account was beyond the slack at most; 0 if it never was.
    wait, wait_end : ndarray of int
        The longest wait, and the last round of it; 0 if there was none.
    probability : ndarray
        How likely a wait of this length or more was.
    """

    number: IntArray
    account: FloatArray
    farthest: FloatArray
    beyond: FloatArray
    wait: IntArray
    wait_end: IntArray
    probability: FloatArray

    @classmethod
    def of(cls, found: Records, slack: FloatArray) -> Standings:
        """Return the standings; `slack` has a number for each record."""
        layout = RowLayout(found.number)
        accounts = np.cumsum(layout.rows(found.due - found.chance, 0), axis=1) / ONE
        bounds = layout.rows(slack, np.inf)
        far = np.abs(accounts).argmax(axis=1)[:, None]
        excess = (np.abs(accounts) - bounds).max(axis=1, initial=0.0)
        runs = running_waits(layout.rows(found.drawn == 1, True))
        end = runs.argmax(axis=1)[:, None]
        longest = np.take_along_axis(runs, end, 1)[:, 0]
        return cls(
            number=layout.who,
            account=accounts[:, -1],
            farthest=np.take_along_axis(accounts, far, 1)[:, 0],
            beyond=np.where(excess > _NEAR, excess, 0.0),
            wait=longest,
            wait_end=np.where(longest > 0, np.take_along_axis(layout.rows(found.round, 0), end, 1)[:, 0], 0),
            probability=probabilities_of_waits(layout.rows(found.given, 1.0), longest),
        )
