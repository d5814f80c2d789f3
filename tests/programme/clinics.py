"""Small programmes for tests, whose people really drift: what is reported follows from known transitions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

import meritfair as mf
from meritfair.core.arrays import FloatArray, IntArray
from meritfair.programme import Outcomes, People, Programme


@dataclass
class Clinic:
    """A programme and the people behind it.

    `play` draws a round, moves everyone, reports what is seen of it, and closes the round.
    """

    programme: Programme
    transitions: FloatArray
    rng: np.random.Generator
    ids: list[str]
    states: IntArray = field(init=False)

    def __post_init__(self) -> None:
        self.states = self.rng.integers(0, 2, len(self.ids))

    def move(self, actions: IntArray) -> tuple[IntArray, IntArray]:
        """Return the states before and after a round with these actions."""
        before = self.states
        good = self.transitions[np.arange(len(before)), before, actions]
        self.states = (self.rng.random(len(before)) < good).astype(np.int64)
        return before, self.states

    def play(self, seen: float = 1.0, by: str = "Ada", **options: Any) -> mf.programme.Round:
        """Play one round in which everyone is enrolled."""
        drawn = self.programme.draw(by=by, **options)
        actions = np.zeros(len(self.ids), np.int64)
        actions[[each.number for each in drawn.people]] = 1
        before, after = self.move(actions)
        known = np.where(self.rng.random(len(self.ids)) < seen, after, -1)
        first = before if drawn.number == 1 else None
        self.programme.report(Outcomes(self.ids, actions, known, first), by=by)
        self.programme.close(by=by)
        return drawn


def clinic(url: str, people: int = 12, budget: Any = 3, seed: int = 1, name: str = "calls", **settings: Any) -> Clinic:
    """Create a programme in a store, and enrol people in two groups."""
    programme = mf.programme.open(url, name)
    programme.create(budget, by="Ada", **settings)
    ids = [f"p{number}" for number in range(people)]
    groups = [("north", "south")[number % 2] for number in range(people)]
    programme.enrol(People(ids, groups), by="Ada")
    arms = mf.datasets.cpap(n_arms=people, seed=seed).transitions
    return Clinic(programme, arms, np.random.default_rng(seed), ids)
