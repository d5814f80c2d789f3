"""How long arms wait for an episode that visits all their states and actions: the paper's G, on the way.

G by the definition is the longest wait of any arm. The authors' code lists each arm's waits and takes the list
that is largest *entry by entry* (see `meritfair.simulation.metrics`). Their list is found without keeping all lists:
`leader` is the largest so far, and each arm remembers only how many of its own entries agree with it, or that it is
out.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from meritfair.core.arrays import IntArray
from meritfair.engine.compiling import inlined, part

_ELIMINATED = -1
_LONGEST, _LENGTH = range(2)


class Coverage(NamedTuple):
    """Waits of the arms of one run, in episodes."""

    missed: IntArray  # (N,), episodes in a row that did not cover the arm
    waiting: IntArray  # (N,), whether the next covering episode ends a wait
    agrees: IntArray  # (N,), how many entries are those of the leader, or _ELIMINATED
    leader: IntArray  # (episodes + 1,)
    facts: IntArray  # the longest wait so far, and how many entries the leader has


def new_coverage(n_arms: int, episodes: int) -> Coverage:
    """Return the waits before the first episode."""
    missed, waiting, agrees = np.zeros((3, n_arms), np.int64)
    waiting[:] = 1
    return Coverage(missed, waiting, agrees, np.zeros(episodes + 1, np.int64), np.zeros(2, np.int64))


@inlined
def note_episode(coverage: Coverage, seen: IntArray, last: bool) -> None:
    """Take in which (s, a) of each arm an episode has visited, as bits, and clear them."""
    missed, waiting, facts = coverage.missed, coverage.waiting, coverage.facts
    if last:  # the authors leave out the last episode: all lists end here
        for arm in range(len(seen)):
            if waiting[arm]:
                _append(missed, coverage.agrees, coverage.leader, facts, arm)
                waiting[arm] = 0
    for arm in range(len(seen)):
        if seen[arm] == 15:
            if waiting[arm]:
                _append(missed, coverage.agrees, coverage.leader, facts, arm)
                waiting[arm] = 0
            missed[arm] = 0
        else:
            missed[arm] += 1
            facts[_LONGEST] = max(facts[_LONGEST], missed[arm])
            waiting[arm] = not last
        seen[arm] = 0


@part
def _append(missed: IntArray, agrees: IntArray, leader: IntArray, facts: IntArray, arm: int) -> None:
    """Add a wait to an arm's list, and see whether it leads."""
    place, wait = agrees[arm], missed[arm] + 1
    if place == _ELIMINATED:
        return
    if place < facts[_LENGTH] and wait < leader[place]:
        agrees[arm] = _ELIMINATED
        return
    if place < facts[_LENGTH] and wait > leader[place]:
        for other in range(len(agrees)):
            if agrees[other] > place:
                agrees[other] = _ELIMINATED
        facts[_LENGTH] = place
    if place == facts[_LENGTH]:
        leader[place] = wait
        facts[_LENGTH] += 1
    agrees[arm] = place + 1


def coverage_gaps(coverage: Coverage) -> tuple[int, int, bool]:
    """Return G by its definition and as the authors have it, and whether the longest wait was not over.

    A wait that is not over counts as if it ended next, so if it is the longest, G is a lower bound.
    """
    longest, entries = coverage.facts[_LONGEST], coverage.leader[: coverage.facts[_LENGTH]]
    return int(longest) + 1, int(entries.max()), bool(0 < longest == coverage.missed.max())
