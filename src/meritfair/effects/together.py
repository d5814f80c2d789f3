r"""Whether arms were drawn together: whole clinics, say, rather than each person by a chance of their own.

Take it that arms are in S sets, and that in every round the arms of a set that were in the draw were either all drawn
or all not. If each arm was drawn by a chance of its own, the first of a set decides nothing for the others; that these
agree with it has the probability :math:`\prod p_{it}` over all arm-rounds but the first of each set and round, where p
is the probability of what was drawn, e or 1 - e. So :math:`\prod 1/p_{it}` if all agree, and 0 if not, has the mean 1:
it is an e-value against draws one by one, for sets that were named beforehand, such as the values of a column. For sets
that were found by looking at the draws, it is divided by :math:`N S^N`, as there are at most :math:`S^N` ways to put N
arms into S sets. Once it reaches `_ENOUGH` arms were drawn together; draws one by one ever do that in one log out of
`_ENOUGH` at most, and hardly ever where a fixed number is drawn, so that arms compete.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from meritfair.core.arrays import BoolArray, FloatArray, IntArray
from meritfair.core.tables import numbered
from meritfair.core.texts import several
from meritfair.datasets.logs import StateLog

_ENOUGH = 1000.0
_MOST_ARMS = 2_000  # among which sets are looked for


@dataclass(frozen=True)
class Together:
    """Sets of arms that were always drawn together.

    Attributes
    ----------
    column : str
        The feature whose values are the sets; empty if no feature that is known says who is drawn with whom.
    sets : int
        How many there are of two arms or more.
    arms : int
        How many arms are in them; where it is known that some are drawn together, these count as one.
    log_e : float
        The logarithm of the e-value against draws one by one.
    """

    column: str
    sets: int
    arms: int
    log_e: float

    def __str__(self) -> str:
        sets = several(self.sets, "set")
        if self.column:
            return f"arms with the same {self.column} were always either all drawn or all not drawn ({sets})"
        return f"{self.arms:,} arms were always drawn together with others, in {sets}"


def drawn_together(log: StateLog, unit: IntArray, more: Mapping[str, Sequence[str]] | None = None) -> Together | None:
    """Return which arms were always drawn together, or None if draws one by one explain what was drawn.

    Parameters
    ----------
    log : StateLog
    unit : ndarray
        For each arm with which others it is known to be drawn; whether these are drawn with yet others is the question.
    more : mapping of str to sequence of str
        Features of the arms besides those of the log, which may say who is drawn with whom.

    Examples
    --------
    >>> rng, rounds = np.random.default_rng(1), np.arange(20)
    >>> drawn = np.repeat(rng.random((20, 3)) < 0.5, 4, axis=1)  # three clinics of four people
    >>> names, clinic = np.tile(np.arange(12), 20), np.tile(np.repeat(["a", "b", "c"], 4), 20)
    >>> log = StateLog(
    ...     names, np.repeat(rounds, 12), [1] * 240, drawn.ravel(), exposure=[0.5] * 240, features={"clinic": clinic}
    ... )
    >>> print(drawn_together(log, np.arange(12)))
    arms with the same clinic were always either all drawn or all not drawn (3 sets)
    """
    draws = _Draws.of(log, unit)
    columns = {**log.features, **(more or {})}
    found = [each for name, values in columns.items() if (each := draws.by_column(name, values)) is not None]
    return max(found, key=lambda each: each.log_e) if found else draws.by_looking()


@dataclass(frozen=True, eq=False)
class _Draws:
    """Who was drawn in which round, one arm for each unit, and with which probability that was to be expected.

    Attributes
    ----------
    arm, round, drawn : ndarray of int
    surprise : ndarray
        Minus the logarithm of the probability of what was drawn.
    unit : ndarray of int
        For each arm of the log.
    """

    arm: IntArray
    round: IntArray
    drawn: IntArray
    surprise: FloatArray
    unit: IntArray

    @classmethod
    def of(cls, log: StateLog, unit: IntArray) -> _Draws:
        assert log.exposure is not None
        assert log.drawn is not None
        rows = np.flatnonzero((log.exposure > 0) & (log.exposure < 1) & (log.drawn >= 0))
        _, place = np.unique(log.rounds[rows], return_inverse=True)
        _, one, own = np.unique(unit, return_index=True, return_inverse=True)
        _, first = np.unique(place * len(one) + own[log.arm[rows]], return_index=True)
        rows, place = rows[first], place[first]
        drawn, e, arm = log.drawn[rows], log.exposure[rows], one[own[log.arm[rows]]]
        return cls(arm, place.astype(np.int64), drawn, -np.log(np.where(drawn == 1, e, 1 - e)), unit)

    def by_column(self, name: str, values: Sequence[str]) -> Together | None:
        """Return the values of a feature as sets, if their arms were always drawn together."""
        names, member = numbered(values)
        if "" in names:  # who has no value is in no set
            alone = member == names.index("")
            member = np.where(alone, len(names) + np.arange(len(member)), member)
        return self._found(name, member, self._evidence(member))

    def by_looking(self) -> Together | None:
        """Return sets that the draws themselves show."""
        units, first = np.unique(self.unit[self.arm], return_inverse=True)
        some = first < _MOST_ARMS
        n_arms = min(len(units), _MOST_ARMS)
        member_of_unit = self._agreeing(first[some], n_arms, some)
        full = np.concatenate([member_of_unit, np.arange(len(units) - n_arms) + len(units)])
        member = np.full(len(self.unit), -1)
        member[self.arm] = full[first]
        sets = len(np.unique(member_of_unit))
        price = math.log(n_arms) + n_arms * math.log(sets)
        return self._found("", member, self._evidence(member) - price)

    def _evidence(self, member: IntArray) -> float:
        """Return the logarithm of the e-value against draws one by one, for these sets."""
        cell = _numbered_from_0(self.round * (int(member.max()) + 1) + member[self.arm])
        number, drawn = np.bincount(cell), np.bincount(cell, self.drawn)
        if (number < 2).all() or ((drawn > 0) & (drawn < number)).any():
            return -math.inf
        first = np.zeros(len(number))
        first[cell[::-1]] = self.surprise[::-1]  # what is set last is that of the first row
        return float(self.surprise.sum() - first.sum())

    def _agreeing(self, unit: IntArray, n_arms: int, rows: BoolArray) -> IntArray:
        """Return a set for each unit: the first with which it was drawn together whenever both were in a draw."""
        rounds = int(self.round.max()) + 1
        pattern = np.zeros((n_arms, rounds), np.float32)
        pattern[unit, self.round[rows]] = 2 * self.drawn[rows] - 1  # 0 where it was not in the draw
        sets, known, member = np.zeros((n_arms, rounds), np.float32), 0, np.zeros(n_arms, np.int64)
        for k, mine in enumerate(pattern):
            common = np.abs(sets[:known]) @ np.abs(mine)
            fits = (sets[:known] @ mine == common) & (common > 0)
            member[k] = np.argmax(np.where(fits, common, -1.0)) if fits.any() else known
            known += int(member[k] == known)
            sets[member[k]] = np.where(mine != 0, mine, sets[member[k]])
        return member

    def _found(self, name: str, member: IntArray, log_e: float) -> Together | None:
        if log_e < math.log(_ENOUGH):
            return None
        _, size = np.unique(member[np.unique(self.arm)], return_counts=True)
        return Together(name, int((size > 1).sum()), int(size[size > 1].sum()), log_e)


def _numbered_from_0(keys: IntArray) -> IntArray:
    """Return keys, or where these are much larger than there are rows, other numbers that tell the same ones apart."""
    if keys.max(initial=0) <= 4 * len(keys) + 1000:
        return keys
    return np.asarray(np.unique(keys, return_inverse=True)[1])
