"""Scores for a change, in plain loops over outcomes; and those of Mantel and Haenszel, which know no other arms."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

import meritfair as mf
from meritfair.core.arrays import FloatArray

HORIZON, WIDTH = 20.0, 0.5


class Outcome(NamedTuple):
    arm: int
    cell: int
    round: int
    good: int


def outcomes(log: mf.StateLog) -> list[Outcome]:
    """Return the outcomes of a log whose first round is 0, one of an arm after another."""
    found = []
    for k in np.flatnonzero(log.has_outcome):
        cell = 2 * int(log.states[k]) + int(log.actions[k])
        found.append(Outcome(int(log.arm[k]), cell, int(log.rounds[k]), int(log.states[k + 1])))
    return found


def scores(seen: list[Outcome], rounds: int, mean: FloatArray, variance: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return scores, shape (4, rounds), and covariances for changes before each round; mean and variance are (N, 4)."""
    score, covariance = np.zeros((4, rounds)), np.zeros((4, rounds, rounds))
    number = np.zeros((*mean.shape, rounds))  # outcomes of a cell from a round on
    for arm, cell, when, good in seen:
        for tau in range(when + 1):
            score[cell, tau] += good - mean[arm, cell]
            number[arm, cell, tau] += 1
    for arm, cell in np.ndindex(mean.shape):
        m, v, after = mean[arm, cell], variance[arm, cell], number[arm, cell]
        for one in range(rounds):
            for two in range(rounds):
                both = min(after[one], after[two])
                covariance[cell, one, two] += (m * (1 - m) - v) * both - v * after[one] * after[two]
    return score, covariance


def pooled(log: mf.StateLog) -> tuple[FloatArray, FloatArray]:
    """Return the mean and the variance of each arm's chances, shape (N, 4), under the pooled posterior of one class."""
    prior = mf.fit_prior(log.counts)
    assert prior.classes == 1
    known = prior.posterior(log.counts)
    return known.mean.reshape(-1, 4), known.variance.reshape(-1, 4)


def e_value(*cohorts: tuple[FloatArray, FloatArray]) -> float:
    """Return the e-value of scores for changes before each round so far, of one cell or of everything.

    Scores and covariances are those of each cohort of arms that joined together.
    """
    rounds = len(cohorts[0][0])
    total = HORIZON / (rounds + HORIZON)
    for tau in range(rounds):
        s = v = 0.0
        for score, covariance in cohorts:
            slope = covariance[0, tau] / covariance[0, 0]
            s += score[tau] - slope * score[0]
            v += covariance[tau, tau] - slope * covariance[0, tau]
        factor = np.exp(WIDTH**2 * s**2 / (2 * (1 + WIDTH**2 * v))) / np.sqrt(1 + WIDTH**2 * v)
        total += HORIZON / ((tau + HORIZON) * (tau + 1 + HORIZON)) * factor
    return float(total)


def mantel_haenszel(log: mf.StateLog) -> tuple[FloatArray, FloatArray]:
    """Return scores and covariances where each arm's own share is expected: the hypergeometric law of its strata.

    In arrays, as it is for benchmarks.
    """
    rounds = int(log.rounds.max())
    visits, good = np.zeros((2, 4, log.n_arms, rounds))
    for arm, cell, when, hit in outcomes(log):
        visits[cell, arm, when] += 1
        good[cell, arm, when] += hit
    n, k = visits.sum(axis=2, keepdims=True), good.sum(axis=2, keepdims=True)
    after, hits = (x[:, :, ::-1].cumsum(axis=2)[:, :, ::-1] for x in (visits, good))
    share, spread = k / np.maximum(n, 1), k * (n - k) / np.maximum(n * (n - 1), 1)
    likely = (spread * after).sum(axis=1)
    shared = (spread / np.maximum(n, 1) * after).swapaxes(1, 2) @ after
    return (hits - share * after).sum(axis=1), np.minimum(likely[:, :, None], likely[:, None, :]) - shared
