"""Programmes whose people may change half way: three populations, of which our priors are made for the second alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import meritfair as mf
from meritfair.core.arrays import FloatArray

POPULATIONS = ("CPAP", "two Beta classes", "logit-normal")
_CLASS = np.array([[[1.5, 3], [6, 8]], [[4, 5], [12, 14]]]), np.array([[[6, 5], [4, 3]], [[5, 3], [3, 2]]])


@dataclass(frozen=True)
class Programme:
    """People, how they change, how many states are not observed, and whether calls depend on states."""

    population: str = "CPAP"
    n_arms: int = 100
    rounds: int = 60
    shift: float = 0.0  # of all log-odds, after half of the rounds
    missing: float = 0.0
    by_state: bool = False

    def log(self, rng: np.random.Generator) -> mf.StateLog:
        """Return the log of one such programme."""
        chances = people(self.population, self.n_arms, rng)
        later = chances / (chances + (1 - chances) * np.exp(-self.shift))
        states = np.empty((self.rounds, self.n_arms), np.int64)
        actions = np.empty_like(states)
        now, everyone = rng.integers(0, 2, self.n_arms), np.arange(self.n_arms)
        for t in range(self.rounds):
            called = np.where(now == 1, 0.1, 0.5) if self.by_state else 0.3
            states[t], actions[t] = now, rng.random(self.n_arms) < called
            good = (later if 2 * t >= self.rounds else chances)[everyone, now, actions[t]]
            now = (rng.random(self.n_arms) < good).astype(np.int64)
        states[rng.random(states.shape) < self.missing] = -1
        where = np.tile(everyone, self.rounds), np.repeat(np.arange(1, self.rounds + 1), self.n_arms)
        return mf.StateLog(*where, states.ravel(), actions.ravel())


def people(population: str, n_arms: int, rng: np.random.Generator) -> FloatArray:
    """Return the probabilities of a good next state of people of some kind, shape (N, 2, 2)."""
    if population == "CPAP":
        return mf.datasets.cpap(n_arms=n_arms, seed=int(rng.integers(1 << 30))).transitions
    if population == "two Beta classes":
        kind = (rng.random(n_arms) < 0.6).astype(np.int64)
        return rng.beta(_CLASS[0][kind], _CLASS[1][kind])
    person = rng.normal(0, 0.8, (n_arms, 1, 1)) + rng.normal(0, 0.3, (n_arms, 2, 2))
    return np.asarray(1 / (1 + np.exp(-(np.array([[-1.0, -0.4], [0.8, 1.3]]) + person))))
