"""Pulls in every window, by the definition: nothing is shared with the package.

An arm's history is the list of the steps at which it was pulled. Whether all windows can still be kept is found by
playing on with the arms that are due first, or by trying everything; the best set of arms by trying all sets, or by
taking one arm after another in order of its index as long as not too many of them can wait.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations

import numpy as np
import numpy.typing as npt

Bools = npt.NDArray[np.bool_]
Histories = Sequence[Sequence[int]]
State = tuple[tuple[int, ...], ...]  # for each arm, in how many steps each of its next pulls is due at the latest


def fewest_in_a_window(pulls: Bools, window: int) -> int:
    """Return the fewest pulls of any arm in any `window` steps in a row, for pulls of shape (steps, N)."""
    total = np.concatenate([np.zeros((1, pulls.shape[1]), int), np.cumsum(pulls, axis=0)])
    return int((total[window:] - total[:-window]).min())


def first_histories(n_arms: int, least: int) -> list[list[int]]:
    """Return the histories at step 0: as if each arm was pulled at the last steps before it."""
    return [list(range(-least, 0)) for _ in range(n_arms)]


def state_of(histories: Histories, least: int, window: int, now: int) -> State:
    """Return what is due when, seen from now: a window after each of its last pulls, an arm must have one more."""
    return tuple(tuple(time + window - now for time in times[-least:]) for times in histories)


def after(state: State, pulled: Iterable[int], window: int) -> State | None:
    """Return what is due when after a step that pulls these arms; None if something is overdue then."""
    chosen = set(pulled)
    moved = [(*due[1:], window) if arm in chosen else due for arm, due in enumerate(state)]
    if any(due[0] < 1 for due in moved):
        return None
    return tuple(tuple(each - 1 for each in due) for due in moved)


def can_be_kept(state: State, budget: int, window: int) -> bool:
    """Whether pulling those who are due first keeps all windows, for as long as anything of now matters, and longer."""
    now: State | None = state
    for _ in range(3 * window):
        if now is None or any(due[0] < 0 for due in now):
            return False
        here = now
        now = after(here, sorted(range(len(here)), key=lambda arm: here[arm][0])[:budget], window)
    return True


def all_that_can_be_kept(n_arms: int, budget: int, least: int, window: int) -> tuple[set[State], set[State]]:
    """Return all states that some pulls lead to, and those from which some pulls keep all windows for ever."""
    start = state_of(first_histories(n_arms, least), least, window, 0)
    follow: dict[State, list[State]] = {}
    to_do = [start]
    while to_do:
        state = to_do.pop()
        if state in follow:
            continue
        reached = (after(state, pulled, window) for pulled in combinations(range(n_arms), budget))
        follow[state] = [each for each in reached if each is not None]
        to_do.extend(follow[state])
    good = set(follow)
    while True:
        better = {state for state in good if any(each in good for each in follow[state])}
        if better == good:
            return set(follow), good
        good = better


def best_sets(state: State, index: Sequence[float], budget: int, window: int) -> tuple[float, list[set[int]]]:
    """Return the largest sum of indices of any set from which all windows can be kept, and the sets that have it."""
    found: list[tuple[float, set[int]]] = []
    for pulled in combinations(range(len(index)), budget):
        following = after(state, pulled, window)
        if following is not None and can_be_kept(following, budget, window):
            found.append((sum(index[arm] for arm in pulled), set(pulled)))
    most = max(total for total, _ in found)
    return most, [pulled for total, pulled in found if total > most - 1e-9]


def best_set(state: State, index: Sequence[float], budget: int) -> set[int]:
    """Return the best set, for indices that differ: take arms by their index, unless too many would be due late.

    After this step, what is due within `ahead` steps must fit into the pulls of `ahead` steps. So of the K arms pulled
    now, only so many may be due later than that.
    """
    latest = max(due[-1] for due in state)
    due_by = [sum(each <= ahead for due in state for each in due) for ahead in range(latest + 1)]
    may_be_later = [budget - (due_by[ahead] - budget * ahead) for ahead in range(latest + 1)]
    chosen: set[int] = set()
    for arm in sorted(range(len(index)), key=lambda arm: -index[arm]):
        later = [sum(state[i][0] > ahead for i in {*chosen, arm}) for ahead in range(latest + 1)]
        if len(chosen) < budget and all(here <= most for here, most in zip(later, may_be_later, strict=True)):
            chosen.add(arm)
    return chosen


class Values:
    """Q-learning of one arm, by state, steps since the last pull and action: relative to the mean of all values."""

    def __init__(self, ages: int, discount: float) -> None:
        self.ages, self.discount = ages, discount
        self.age = 0
        self.value: dict[tuple[int, int, int], float] = {}
        self.seen: dict[tuple[int, int, int], int] = {}

    def index(self, state: int) -> float:
        return self.gain(state, self.age)

    def gain(self, state: int, age: int) -> float:
        return self.value.get((state, age, 1), 0.0) - self.value.get((state, age, 0), 0.0)

    def best(self, state: int, age: int) -> float:
        return max(self.value.get((state, age, a), 0.0) for a in (0, 1))

    def move(self, key: tuple[int, int, int], rate: float, target: float) -> None:
        self.value[key] = (1 - rate) * self.value.get(key, 0.0) + rate * target

    def grow(self, action: int) -> int:
        """Move on to the next age; return the one before."""
        before, self.age = self.age, 0 if action else min(self.age + 1, self.ages - 1)
        return before

    def learn(self, state: int, action: int, following: int) -> None:
        key = state, self.grow(action), action
        mean = sum(self.value.values()) / max(1, len(self.value))
        rate = 1 / (self.seen.get(key, 0) + 1)
        self.seen[key] = self.seen.get(key, 0) + 1
        self.move(key, rate, following + self.discount * (self.best(following, self.age) - mean))


class LiValues(Values):
    """As Li and Varakantham have released it: half of the way, and the next value is that of the age of now."""

    def learn(self, state: int, action: int, following: int) -> None:
        age = self.grow(action)
        self.move((state, age, action), 0.5, following + self.discount * self.best(following, age))


class PublishedValues(Values):
    """As in the MF-RMAB repository: visits are counted, and an index is refreshed, at the age after the step."""

    mended = False  # then both are at the age before it

    def __init__(self, ages: int, discount: float) -> None:
        super().__init__(ages, discount)
        self.indices: dict[tuple[int, int], float] = {}

    def index(self, state: int) -> float:
        return self.indices.get((state, self.age), 0.0)

    def learn(self, state: int, action: int, following: int) -> None:
        age = self.grow(action)
        counted = age if self.mended else self.age
        self.seen[state, counted, action] = self.seen.get((state, counted, action), 0) + 1
        rate = 1 / (1 + self.seen.get((state, age, action), 0))
        self.move((state, age, action), rate, state + self.discount * self.best(following, self.age))
        self.indices[state, counted] = self.gain(state, counted)


class MendedValues(PublishedValues):
    """The same with both at the age before the step."""

    mended = True
