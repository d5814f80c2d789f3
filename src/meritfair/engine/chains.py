"""How the arms' states move within an episode, and what is counted on the way.

Arrays are laid out (runs, horizon, N). ``transitions`` has shape (runs, N, 2, 2), or one for all runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from meritfair.arrays import BoolArray, FloatArray, IntArray

__all__ = ["count_transitions", "longest_waits", "next_states", "walk"]


def next_states(transitions: FloatArray, states: BoolArray, pulls: BoolArray, uniform: FloatArray) -> BoolArray:
    """Move every arm by one step; all arrays (runs, N) but `transitions`."""
    chance = np.where(
        states,
        np.where(pulls, transitions[..., 1, 1], transitions[..., 1, 0]),
        np.where(pulls, transitions[..., 0, 1], transitions[..., 0, 0]),
    )
    return uniform < chance


def walk(transitions: FloatArray, states: BoolArray, pulls: BoolArray, uniform: FloatArray) -> BoolArray:
    """Move every arm through an episode whose pulls are known beforehand.

    Returns
    -------
    ndarray of bool, shape (runs, horizon + 1, N)
        The states before the first step, between steps, and after the last.
    """
    P = transitions[:, None]  # one axis for the steps
    from_bad = uniform < np.where(pulls, P[..., 0, 1], P[..., 0, 0])
    from_good = uniform < np.where(pulls, P[..., 1, 1], P[..., 1, 0])
    runs, horizon, n_arms = pulls.shape
    path = np.empty((runs, horizon + 1, n_arms), dtype=np.bool_)
    path[:, 0] = states
    for h in range(horizon):
        path[:, h + 1] = np.where(path[:, h], from_good[:, h], from_bad[:, h])
    return path


def count_transitions(path: BoolArray, pulls: BoolArray) -> tuple[IntArray, IntArray]:
    """Count an episode's visits and good outcomes by arm, state and action, each (runs, N, 2, 2)."""
    now, then = path[:, :-1], path[:, 1:]
    runs, _, n_arms = pulls.shape
    visits = np.empty((runs, n_arms, 2, 2), dtype=np.int64)
    good = np.empty_like(visits)
    for state in (0, 1):
        for action in (0, 1):
            there = (now == bool(state)) & (pulls == bool(action))
            visits[:, :, state, action] = there.sum(axis=1)
            good[:, :, state, action] = (there & then).sum(axis=1)
    return visits, good


def longest_waits(pulls: BoolArray, waited: IntArray) -> tuple[IntArray, IntArray]:
    """Return for each run and arm the longest wait within an episode, and the wait at its end.

    A wait is a number of steps in a row without a pull; `waited` is the one that an arm brings along.
    """
    horizon = pulls.shape[1]
    step = np.arange(1, horizon + 1)[None, :, None]
    last_pull = np.maximum.accumulate(np.where(pulls, step, -waited[:, None, :]), axis=1)
    wait = step - last_pull
    return wait.max(axis=1), wait[:, -1]
