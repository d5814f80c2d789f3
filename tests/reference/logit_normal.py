"""The model of arms in classes that are normal in the logits, drawn forwards: classes, arms, and logs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import stats
from scipy.special import expit

import meritfair as mf
from meritfair.core.arrays import FloatArray, IntArray

SPREAD, FREEDOM, WIDTH = 2.5, 2.0, 2.0


@dataclass(frozen=True, eq=False)
class Population:
    """Classes, and arms that belong to them."""

    weights: FloatArray  # (C,)
    means: FloatArray  # (C, 4)
    scales: FloatArray  # (C, 4)
    covariances: FloatArray  # (C, 4, 4)
    which: IntArray  # (N,)
    coordinates: FloatArray  # (N, 4)

    @classmethod
    def drawn(cls, classes: int, n_arms: int, rng: np.random.Generator) -> Population:
        weights = rng.dirichlet(np.full(classes, 1 / classes))
        means = rng.normal(0, SPREAD, (classes, 4))
        scales = rng.gamma(0.5, WIDTH**2, (classes, 4))
        of_class = [stats.invwishart(FREEDOM + 3, 2 * FREEDOM * np.diag(b)).rvs(random_state=rng) for b in scales]
        covariances = np.array(of_class)
        which = rng.choice(classes, n_arms, p=weights)
        around = [rng.multivariate_normal(means[c], covariances[c], method="cholesky") for c in which]
        return cls(weights, means, scales, covariances, which, np.array(around))

    @property
    def transitions(self) -> FloatArray:
        logits = self.coordinates.copy()
        logits[:, 1::2] += logits[:, ::2]
        return np.asarray(expit(logits).reshape(-1, 2, 2))


def play(transitions: FloatArray, rounds: int, missing: float, rng: np.random.Generator) -> mf.StateLog:
    """Return a log of these arms; the first state of each is known, others are missing at random."""
    n_arms = len(transitions)
    states, actions = np.empty((2, rounds + 1, n_arms), np.int64)
    states[0], actions[:] = rng.integers(0, 2, n_arms), rng.random(actions.shape) < 0.3
    for t in range(rounds):
        states[t + 1] = rng.random(n_arms) < transitions[np.arange(n_arms), states[t], actions[t]]
    gone = rng.random(states.shape) < missing
    gone[0] = False
    seen = np.where(gone, -1, states)
    where = np.tile(np.arange(n_arms), rounds + 1), np.repeat(np.arange(rounds + 1), n_arms)
    return mf.StateLog(*where, seen.ravel(), actions.ravel())
