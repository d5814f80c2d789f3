"""What is seen and believed, once more in plain loops: from what happened in an episode, step by step.

Arrays are (steps, N). Nothing is shared with the engine; `episodes` has it play, and writes down what happened.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import meritfair as mf
from meritfair.simulation import watching

if TYPE_CHECKING:
    import pytest

    from meritfair.core.arrays import BoolArray, FloatArray, IntArray, WordArray

__all__ = [
    "Happened",
    "beliefs_along",
    "by_all_paths",
    "episodes",
    "likely_index",
    "mixed_index",
    "transitions_and_gaps",
]


class Happened(NamedTuple):
    """What happened in an episode of a run."""

    states: IntArray  # (H + 1, N)
    seen: BoolArray  # (H + 1, N)
    actions: IntArray  # (H, N)


def _bits(words: WordArray, rows: int, n_arms: int) -> IntArray:
    """Return bits of words, a row for each step."""
    blocks = -(-n_arms // 64)
    by_step = words[: rows * blocks].reshape(rows, blocks)
    return np.array([[int(row[arm // 64]) >> (arm % 64) & 1 for arm in range(n_arms)] for row in by_step])


def episodes(monkeypatch: pytest.MonkeyPatch, *given: Any, **settings: Any) -> tuple[mf.Run, list[Happened]]:
    """Simulate one run; return it, and what happened in each of its episodes."""
    happened: list[Happened] = []
    play = watching.PartOfIt.play

    def noted(self: Any, *args: Any) -> None:
        play(self, *args)
        sight, n, horizon = self.sights[0], self.problem.n_arms, self.problem.horizon
        seen = _bits(sight.seen, horizon + 1, n) == 1
        if sight.pulled_only:
            seen[-1] = False
        happened.append(Happened(_bits(sight.states, horizon + 1, n), seen, _bits(sight.pulls, horizon, n)))

    with monkeypatch.context() as patch:
        patch.setattr(watching.PartOfIt, "play", noted)
        run = mf.simulate(*given, **settings)
    return run, happened


def beliefs_along(P: FloatArray, happened: Happened, pulled_only: bool, belief: FloatArray) -> FloatArray:
    """Return the belief at which each arm is chosen or not, (H, N), from the belief before the first step."""
    chosen_at, belief = [], belief.copy()
    for states, seen, actions in zip(*happened, strict=False):
        for arm in range(len(belief)):
            if seen[arm] and not pulled_only:
                belief[arm] = states[arm]
        chosen_at.append(belief.copy())
        for arm, action in enumerate(actions):
            if pulled_only and action:
                belief[arm] = states[arm]
            belief[arm] = (1 - belief[arm]) * P[arm, 0, action] + belief[arm] * P[arm, 1, action]
    return np.array(chosen_at)


def mixed_index(table: FloatArray, belief: FloatArray) -> FloatArray:
    """Return the index of each arm at its belief."""
    return (1 - belief) * table[:, 0] + belief * table[:, 1]


def likely_index(table: FloatArray, belief: FloatArray) -> FloatArray:
    """Return the index of each arm at its more likely state."""
    return np.where(belief > 0.5, table[:, 1], table[:, 0])


def by_all_paths(P: FloatArray, start: FloatArray, actions: IntArray) -> float:
    """Return the probability that an arm is good after these actions, by going through all paths of hidden states."""
    total = 0.0
    for path in np.ndindex(*[2] * (len(actions) + 1)):
        chance = start[path[0]]
        for before, after, action in zip(path, path[1:], actions, strict=False):
            good = P[before, action]
            chance *= good if after else 1 - good
        total += chance * path[-1]
    return float(total)


def transitions_and_gaps(
    happened: list[Happened], carry: bool, kept: int = 64
) -> tuple[IntArray, IntArray, list[tuple[Any, ...]]]:
    """Return visits and good outcomes of transitions, (N, 2, 2), and gaps as (arm, start, end, actions), in order.

    Gaps with a pull after that many steps are left out.
    """
    n_arms = happened[0].actions.shape[1]
    visits, good = np.zeros((2, n_arms, 2, 2), int)
    gaps = []
    for arm in range(n_arms):
        before: int | None = None
        done: list[int] = []
        for each in happened:
            if not carry:
                before, done = None, []
            for step in range(len(each.states)):
                if each.seen[step, arm]:
                    state = int(each.states[step, arm])
                    if before is not None and len(done) == 1:
                        visits[arm, before, done[0]] += 1
                        good[arm, before, done[0]] += state
                    elif before is not None and len(done) > 1 and not any(done[kept:]):
                        gaps.append((arm, before, state, tuple(done)))
                    before, done = state, []
                if step < len(each.actions):
                    done.append(int(each.actions[step, arm]))
    return visits, good, sorted(gaps)
