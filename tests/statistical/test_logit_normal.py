"""The sampler of classes and arms keeps their posterior, and a sampler that does not is found.

A population drawn from the prior is also a draw from its posterior, given a log of it. So whatever number of sweeps
starts there ends in a population that is again distributed as the prior, together with the log. Thousands of such ends
are independent draws, and are compared with populations and logs that were never swept (Geweke 2004). A sampler with
another prior, or one that reads the log wrongly, must be found.

J. Geweke, "Getting it right: joint distribution tests of posterior simulators", JASA 99 (2004).
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import meritfair as mf
from meritfair.core.arrays import FloatArray
from meritfair.engine.logits import LogitChain, new_room, sweep
from meritfair.engine.random import new_source
from meritfair.model.gaps import outcomes
from reference.logit_normal import Population, play

LEVEL = 1e-6  # of each comparison; there are fewer than a hundred
CLASSES, ARMS, ROUNDS, STARTS, SWEEPS = 3, 8, 10, 2000, 3


def swept(of: Population, log: mf.StateLog, alpha: float, seed: int, added: float) -> Population:
    """Return the population after some sweeps; the log may be told wrongly."""
    seen = outcomes(log.counts)
    seen[:, 0] += added
    covariances = of.covariances.copy()
    chain = LogitChain(
        of.coordinates.copy(),
        of.which.copy(),
        seen.copy(),
        np.log(np.maximum(of.weights, 1e-300)),
        of.means.copy(),
        of.scales.copy(),
        np.asarray(np.linalg.inv(covariances), np.float64),
        np.asarray(np.linalg.cholesky(covariances), np.float64),
    )
    room, rng = new_room(log.bridged.room), new_source(np.random.SeedSequence(seed))
    sweep(chain, log.bridged.arrays(ARMS), seen, room, rng, np.arange(ARMS), SWEEPS, alpha)
    weights = np.exp(chain.log_weights)
    factors = chain.factors
    return Population(
        weights / max(weights.sum(), 1e-300),
        chain.means,
        chain.scales,
        factors @ factors.swapaxes(1, 2),
        chain.which,
        chain.coordinates,
    )


def features(of: Population, log: mf.StateLog) -> list[float]:
    """Return what is compared: of classes, of an arm, and of an arm and what was seen of it."""
    sd = np.sqrt(of.covariances[0][range(4), range(4)])
    seen, P = outcomes(log.counts)[0], of.transitions[0].ravel()
    return [
        *of.means[0],
        *np.log(sd),
        *(of.covariances[0][i, j] / (sd[i] * sd[j]) for i, j in ((0, 1), (0, 2), (1, 3))),
        *of.scales[0],
        *of.coordinates[0],
        float(of.weights.max()),
        float(len(set(of.which.tolist()))),
        *(seen[0] - seen.sum(axis=0) * P),
        float(of.coordinates[:, 0].std()),
    ]


def compared(alpha: float = 1 / CLASSES, added: float = 0.0) -> FloatArray:
    """Return the p-values of two-sample tests of Kolmogorov and Smirnov, one for each feature."""
    rng = np.random.default_rng(1)
    kept: tuple[list[list[float]], list[list[float]]] = ([], [])
    for start in range(2 * STARTS):
        of = Population.drawn(CLASSES, ARMS, rng)
        log = play(of.transitions, ROUNDS, 0.3, rng)
        if start % 2:
            of = swept(of, log, alpha, start, added)
        kept[start % 2].append(features(of, log))
    plain, after = np.array(kept[0]), np.array(kept[1])
    return np.array([stats.ks_2samp(plain[:, k], after[:, k]).pvalue for k in range(plain.shape[1])])


@pytest.mark.slow
def test_sweeps_keep_the_posterior() -> None:
    p_values = compared()
    assert p_values.min() > LEVEL / len(p_values), p_values


@pytest.mark.slow
@pytest.mark.parametrize("wrong", [{"alpha": 3.0}, {"added": 1.0}])
def test_a_sampler_of_another_posterior_is_found(wrong: dict[str, float]) -> None:
    assert compared(**wrong).min() < LEVEL / 100
