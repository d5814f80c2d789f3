r"""Where a log ends: who is there, in which state each is, and what the log did.

The state of an arm at the end is the last one that was observed, if nothing was done since. Otherwise only a belief is
known, the probability b of the good state. In each round since then it moves by the action a of that round,

.. math:: b' = b \, P(1, a) + (1 - b) \, P(0, a) .

Before anything was observed it is 1/2; in a round without a row an arm is taken as not pulled. An arm without a row in
the last few rounds has left.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from meritfair.core.arrays import BoolArray, FloatArray, IntArray
from meritfair.core.errors import InputError
from meritfair.datasets.logs import StateLog

LEFT_AFTER = 4  # rounds without a row, after which an arm has left
_LONGEST = 64  # rounds since the last state that are followed: the chains have forgotten it by then
_STRENGTH = 4.0  # rounds that the mean of all arms counts for, where the chance of a pull is estimated from pulls


@dataclass(frozen=True, eq=False)
class Start:
    """The arms that are there at the end of a log.

    Attributes
    ----------
    arms : ndarray of int, shape (N,)
        Which arms of the log they are.
    names : tuple of str
    state : ndarray, shape (N,)
        The last observed state of each, 1/2 if there is none.
    actions : ndarray of int, shape (rounds, N)
        What was done in the last rounds.
    since : ndarray of int, shape (N,)
        How many of these, at the end, came after the last observed state.
    """

    arms: IntArray
    names: tuple[str, ...]
    state: FloatArray
    actions: IntArray
    since: IntArray

    @property
    def n_arms(self) -> int:
        """How many arms there are."""
        return len(self.arms)

    def belief(self, transitions: FloatArray) -> FloatArray:
        """Return the probability that each arm is good at the start, for transitions of shape (..., N, 2, 2)."""
        good = np.broadcast_to(self.state, transitions.shape[:-2]).copy()
        for left in range(len(self.actions), 0, -1):
            moved = np.flatnonzero(self.since >= left)
            if len(moved):
                p = transitions[..., moved, :, self.actions[-left, moved]]  # (moved, ..., state)
                p = np.moveaxis(p, 0, -2)
                now = good[..., moved]
                good[..., moved] = now * p[..., 1] + (1 - now) * p[..., 0]
        return good


def start_of(log: StateLog) -> Start:
    """Return who is there at the end of a log, and what is known of their states."""
    now = int((log.rounds + (log.actions >= 0)).max())
    present = np.flatnonzero(log.last_rounds > now - 1 - LEFT_AFTER)
    place = np.full(log.n_arms, -1)
    place[present] = np.arange(len(present))
    state, seen_at = np.full(len(present), 0.5), np.full(len(present), now - _LONGEST)
    rows = np.flatnonzero((place[log.arm] >= 0) & (log.states >= 0))  # in order of rounds: the last one stays
    state[place[log.arm[rows]]], seen_at[place[log.arm[rows]]] = log.states[rows], log.rounds[rows]
    first = np.maximum(log.first_rounds[present], now - _LONGEST)
    since = now - np.maximum(seen_at, first)
    actions = np.zeros((int(since.max(initial=0)), len(present)), np.int64)
    late = (place[log.arm] >= 0) & (log.rounds >= now - len(actions)) & (log.actions >= 0)
    actions[log.rounds[late] - now + len(actions), place[log.arm[late]]] = log.actions[late]
    return Start(present, tuple(log.arms[i] for i in present), state, actions, since)


def budget_of(log: StateLog) -> int:
    """Return how many arms the log pulled in a round, rounded: the mean over rounds in which anything was done."""
    done = log.actions >= 0
    if not (log.actions == 1).any():
        raise InputError("the log has no pulls: say how many there would be (budget)")
    return max(1, round(float((log.actions == 1).sum()) / len(np.unique(log.rounds[done]))))


def logged_chance(log: StateLog, start: Start) -> FloatArray:
    """Return the chance of a pull in a round by arm and state, as the log had it in the mean; shape (N, 2).

    It is the mean of the exposures that the log states. Where it states none, pulls are counted, together with a few
    at the rate of all arms.
    """
    stated = log.exposure is not None
    given = log.exposure if log.exposure is not None else log.actions
    usable = (log.actions >= 0) & (log.states >= 0) & ~np.isnan(given)
    cell, values = 2 * log.arm[usable] + log.states[usable], given[usable].astype(np.float64)
    size = 2 * log.n_arms
    total: FloatArray = np.asarray(np.bincount(cell, values, size).reshape(-1, 2)[start.arms], np.float64)
    rounds = np.bincount(cell, minlength=size).reshape(-1, 2)[start.arms]
    overall = values.mean() if len(values) else 0.0
    if not stated:
        rate = total.sum(axis=0) / np.maximum(rounds.sum(axis=0), 1)
        return np.asarray((total + _STRENGTH * rate) / (rounds + _STRENGTH))
    of_arm = _ratio(np.asarray(total.sum(axis=1)), np.asarray(rounds.sum(axis=1)), overall)
    return np.asarray(_ratio(total, rounds, of_arm[:, None]))


def _ratio(above: FloatArray, below: IntArray, otherwise: FloatArray | float) -> FloatArray:
    return np.where(below > 0, above / np.maximum(below, 1), otherwise)


def longest_waits(log: StateLog) -> IntArray:
    """Return for each arm of the log its most rounds in a row without a pull."""
    waits = np.zeros(log.n_arms, np.int64)
    breaks: BoolArray = np.r_[True, log.arm[1:] != log.arm[:-1]]
    pulled = log.actions == 1
    place = np.arange(len(log))
    reset = np.maximum.accumulate(np.where(pulled, place, np.where(breaks, place - 1, -1)))
    np.maximum.at(waits, log.arm, np.where(log.actions < 0, 0, place - reset))
    return waits
