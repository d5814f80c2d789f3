"""What a policy sees of the arms in a simulation: everything, or not every state.

`Everything` is what policies are planned from if all states are seen: the counts of the engine. `PartOfIt` keeps for
each run what was seen of it (:mod:`meritfair.engine.sight`): transitions of which both ends were seen, and gaps between
states that were seen, in which others were not. Gaps of the same arm, ends and actions are kept once, with how many
there were. What gaps are worth takes EM (:func:`meritfair.model.gaps.fill`), which is repeated, from where it was, when
there are a quarter more episodes; transitions count from the next episode on.
"""

from __future__ import annotations

import math

import numpy as np

from meritfair.core.arrays import FloatArray, IntArray, WordArray
from meritfair.core.seeding import sequence
from meritfair.engine.episodes import RunSettings, RunState
from meritfair.engine.sight import (
    ARMS_AT_ONCE,
    NO_SIGHT,
    UNKNOWN,
    Noted,
    Sight,
    begin_to_see,
    new_noted,
    new_sight,
    note_seen,
)
from meritfair.model.counts import Counts
from meritfair.model.gaps import Gaps, fill
from meritfair.model.observation import PULLED
from meritfair.policies.beliefs import arms_behind
from meritfair.policies.plans import Plan
from meritfair.simulation.playables import Episode, OpenLoop, StepByStep, Timed
from meritfair.simulation.problem import Problem

_STEPS, _ENOUGH = 100, 1e-6  # of EM, each time that gaps are looked at anew
_PENDING = 2**22  # gaps that wait to be put together
_KEPT = 64  # actions that are kept of a gap; after them it has no pull


class Everything:
    """All states are seen."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.share = np.ones(problem.runs)

    def sight(self, run: int) -> Sight:  # noqa: ARG002
        """Return room for what is seen in a run, which is not needed."""
        return NO_SIGHT

    def begin(self, t: int, at: list[Episode]) -> tuple[Counts, IntArray]:  # noqa: ARG002
        """Return what was counted before episode t, from 0, and the states at its start."""
        return _counts([each.state for each in at]), _states(at)

    def plan(self, plan: Plan, counts: Counts, oracle: bool) -> None:
        """Take in what will be played."""

    def play(self, how: OpenLoop | StepByStep | Timed, t: int, run: int, settings: RunSettings, at: Episode) -> None:
        """Play an episode of a run."""
        how.play_episode(t, run, settings, at)


class PartOfIt(Everything):
    """Not every state is seen."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        chance, only = (1.0, True) if problem.observed == PULLED else (float(problem.observed), False)
        N, H, first = problem.n_arms, problem.horizon, problem.first_run
        seeds = [sequence(problem.seed, "sight", first + run) for run in range(problem.runs)]
        self.sights = [new_sight(N, H, chance, only, each) for each in seeds]
        self.noted = [new_noted(N, H) for _ in seeds]
        self.gaps = [GapsSoFar() for _ in seeds]
        self.points: list[FloatArray | None] = [None] * problem.runs  # where EM was last, in each run
        self.added = np.zeros((2, *problem.transitions.shape))  # visits and good outcomes that gaps are worth

    def sight(self, run: int) -> Sight:
        return self.sights[run]

    def begin(self, t: int, at: list[Episode]) -> tuple[Counts, IntArray]:
        for sight in self.sights:
            begin_to_see(sight, self.problem.carry_states and t > 0)
        complete = [self._complete(run) for run in range(self.problem.runs)]
        known = np.array([[each.visits for each in complete], [each.good for each in complete]])
        visits, good = known + self.added if self.added.any() else known
        return Counts(visits, np.clip(good, 0, visits)), self._seen_states(at)

    def _complete(self, run: int) -> Counts:
        """Return the transitions of a run of which both ends were seen, and what was seen before the first episode."""
        seen = Counts(self.noted[run].visits, self.noted[run].good)
        return seen if self.problem.history is None else seen + self.problem.history

    def _seen_states(self, at: list[Episode]) -> IntArray:
        """Return the states at the start of an episode, -1 where they are not seen yet."""
        states, arm = _states(at), np.arange(self.problem.n_arms)
        if self.problem.observed == PULLED:
            return np.full_like(states, UNKNOWN)
        seen = np.stack([(each.seen[arm >> 6] >> (arm & 63).astype(np.uint64)) & np.uint64(1) for each in self.sights])
        return np.where(seen == 1, states, UNKNOWN)

    def plan(self, plan: Plan, counts: Counts, oracle: bool) -> None:
        arms = np.broadcast_to(
            arms_behind(plan, counts, self.problem.transitions, oracle), self.problem.transitions.shape
        )
        for sight, own in zip(self.sights, arms, strict=True):
            sight.point[:] = np.moveaxis(own, 0, -1)

    def play(self, how: OpenLoop | StepByStep | Timed, t: int, run: int, settings: RunSettings, at: Episode) -> None:
        how.play_episode(t, run, settings, at)
        noted = self.noted[run]
        for first in range(0, self.problem.n_arms, ARMS_AT_ONCE):
            note_seen(noted, self.sights[run], self.problem.carry_states, first)
            self.gaps[run].add(noted)
        self.share[run] = noted.number[1] / (self.problem.n_arms * self.problem.horizon * (t + 1))
        if fills_before(t + 2) and t + 1 < self.problem.episodes:
            self._fill(run)

    def _fill(self, run: int) -> None:
        """Find what the gaps of a run are worth, from where EM was before."""
        complete, gaps = self._complete(run), self.gaps[run].all()
        filled = fill(complete, gaps, first=self.points[run], steps=_STEPS, enough=_ENOUGH)
        self.points[run], worth = filled.estimate, filled.effective
        self.added[:, run] = np.maximum(worth.visits - complete.visits, 0), worth.good - complete.good


def fills_before(episode: int) -> bool:
    """Return whether gaps are looked at anew before an episode, from 2: at each growth by a quarter."""
    rate = 1.0 / math.log(1.25)
    return math.floor(rate * math.log(episode)) > math.floor(rate * math.log(episode - 1.0))


def watching(problem: Problem) -> Everything:
    """Return what is seen of a problem's arms."""
    return Everything(problem) if problem.sees_all else PartOfIt(problem)


def _states(at: list[Episode]) -> IntArray:
    """Return the states of all runs, (runs, N)."""
    return np.stack([each.state.chains.state for each in at]).astype(np.int64)


def _counts(states: list[RunState]) -> Counts:
    """Return what was counted in each run."""
    visits, good = (
        np.stack([getattr(state.tally, name).transpose(2, 0, 1) for state in states]) for name in ("visits", "good")
    )
    return Counts(visits, good)


class GapsSoFar:
    """The gaps of a run: each kind once, with how many there were."""

    def __init__(self) -> None:
        self._kinds = np.zeros((2, 0), np.uint64)
        self._weight = np.zeros(0)
        self._new = [self._kinds]

    def add(self, noted: Noted) -> None:
        """Take in the gaps that ended in an episode."""
        n = int(noted.number[0])
        if n > 0:
            arm, ends, length = (x[:n].astype(np.uint64) for x in (noted.gap_arm, noted.gap_ends, noted.gap_length))
            key = (arm << np.uint64(32)) | (ends << np.uint64(30)) | length
            self._new.append(np.stack([key, noted.gap_actions[:n]]))

            if sum(each.shape[1] for each in self._new) > _PENDING:
                self._merge()

    def all(self) -> Gaps:
        """Return all gaps."""
        self._merge()
        return _gaps(self._kinds[0], self._kinds[1], self._weight)

    def _merge(self) -> None:
        """Put gaps of the same kind together."""
        kinds = np.concatenate([self._kinds, *self._new], axis=1)
        weight = np.concatenate([self._weight, np.ones(kinds.shape[1] - len(self._weight))])
        order = np.lexsort(kinds[::-1])
        kinds, weight = kinds[:, order], weight[order]
        first = np.flatnonzero(np.diff(kinds, axis=1, prepend=~kinds[:, :1]).any(axis=0))
        self._kinds, self._new = kinds[:, first], []
        self._weight = np.add.reduceat(weight, first) if len(first) else weight


def _gaps(key: WordArray, actions: WordArray, weight: FloatArray) -> Gaps:
    """Return gaps with these keys and first actions."""
    arm, ends, length = key >> np.uint64(32), (key >> np.uint64(30)) & np.uint64(3), key & np.uint64(2**30 - 1)
    first = np.concatenate([[0], np.cumsum(length.astype(np.int64))])
    rounds = np.arange(first[-1]) - np.repeat(first[:-1], np.diff(first))
    kept = np.repeat(actions, np.diff(first)) >> np.minimum(rounds, _KEPT - 1).astype(np.uint64)
    done = np.where(rounds < _KEPT, kept & np.uint64(1), np.uint64(0))
    before, after = ends >> np.uint64(1), ends & np.uint64(1)
    return Gaps(_ints(arm), _ints(before), _ints(after), first, _ints(done), weight)


def _ints(words: WordArray) -> IntArray:
    return words.astype(np.int64)
