r"""How often states are missing after what: a log cannot prove that they are missing at random, but it can show signs.

Estimates across gaps take it that a state is missing for reasons that have nothing to do with what it is, given what
was seen before. If states are missing *because* of what they are (those who do badly do not answer), estimates are
biased, and nothing in the log tells by how much: :mod:`meritfair.model.sensitivity` asks what would follow. If the rate
differs by the last state or by the last action, that is no bias by itself, as both are known; but where the known state
matters, the unknown one often does as well.

The test is Pearson's chi-squared for one rate in all four cells (last state, last action).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from meritfair.core.arrays import FloatArray, IntArray, frozen
from meritfair.datasets.logs import StateLog

_SURE = 1e-3  # a p-value below this is a sign
_LARGE = 0.05  # a smaller difference of rates does not matter


@dataclass(frozen=True, eq=False)
class MissingStates:
    """How often the state of the next round is missing, by state and action.

    Attributes
    ----------
    rounds : ndarray of int, shape (2, 2)
        How many rows with an observed state have a next round, by state and action.
    missing : ndarray of int, shape (2, 2)
        In how many of these the next state was not observed.

    Examples
    --------
    >>> log = StateLog(["a"] * 5, range(5), states=[0, None, 1, 1, None], actions=[1, 0, 0, 1, 0])
    >>> missing_states(log).rates.tolist()
    [[nan, 1.0], [0.0, 1.0]]
    """

    rounds: IntArray
    missing: IntArray

    @property
    def rates(self) -> FloatArray:
        """The rate of missing next states, shape (2, 2); NaN where nothing was seen."""
        with np.errstate(invalid="ignore"):
            return np.asarray(self.missing / self.rounds)

    @cached_property
    def p_value(self) -> float:
        """The p-value of Pearson's test that the rate is the same in all four; 1 if nothing is missing."""
        from scipy.special import chdtrc  # as scipy.stats has it, which takes a second to load

        there = self.rounds > 0
        n, k = self.rounds[there], self.missing[there]
        rate = k.sum() / max(n.sum(), 1)
        if len(n) < 2 or not 0 < rate < 1:
            return 1.0
        statistic = ((k - n * rate) ** 2 / (n * rate * (1 - rate))).sum()
        return float(chdtrc(len(n) - 1, statistic))

    @property
    def spread(self) -> float:
        """The largest rate less the least, of those of at least ten rounds."""
        rates = self.rates[self.rounds >= 10]
        return float(np.ptp(rates)) if len(rates) else 0.0

    @property
    def uneven(self) -> bool:
        """Whether rates differ by more than chance and by so much that it may matter."""
        return self.p_value < _SURE and self.spread > _LARGE

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values."""
        rows = [
            {"state": s, "action": a, "rounds": int(self.rounds[s, a]), "missing": int(self.missing[s, a])}
            for s, a in np.ndindex(2, 2)
        ]
        return {"after": rows, "p_value": self.p_value, "uneven": self.uneven}


def missing_states(log: StateLog) -> MissingStates:
    """Return how often the next state is missing, by what was seen and done before."""
    now = np.flatnonzero(log.followed & (log.states >= 0))
    cell = 2 * log.states[now] + log.actions[now]
    rounds = np.bincount(cell, minlength=4)
    missing = np.bincount(cell[log.states[now + 1] < 0], minlength=4)
    return MissingStates(frozen(rounds.reshape(2, 2)), frozen(missing.reshape(2, 2)))


def unseen_states(log: StateLog) -> tuple[IntArray, IntArray]:
    """Return how often each arm's state and action were known, and in how many of these cases not the next state.

    Shape (N, 2, 2) each, by state and action, without the last round of the log, after which nothing could be seen. A
    round after which an arm has no row any more counts as one after which it was not seen.

    Examples
    --------
    >>> log = StateLog(["a"] * 5, range(5), states=[0, None, 1, 1, None], actions=[1, 0, 0, 1, 0])
    >>> visits, missing = unseen_states(log)
    >>> visits[0].tolist(), missing[0].tolist()
    ([[0, 1], [1, 1]], [[0, 1], [0, 1]])
    """
    known = (log.states >= 0) & (log.actions >= 0) & (log.rounds < log.rounds.max())
    cell = 4 * log.arm + 2 * log.states + log.actions
    counts = [np.bincount(cell[rows], minlength=4 * log.n_arms) for rows in (known, known & ~log.has_outcome)]
    visits, missing = (frozen(each.reshape(-1, 2, 2)) for each in counts)
    return visits, missing
