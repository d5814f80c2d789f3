r"""Draws of the transitions of all arms together, from what was seen of them: a hierarchical model, fitted by MCMC.

Arms of which little was seen are known by what arms have in common, and that is not known either. Here both are drawn
together. Each arm belongs to one of C latent classes, and within a class the coordinates of an arm,

.. math:: u = (\ell_{00},\; \ell_{01} - \ell_{00},\; \ell_{10},\; \ell_{11} - \ell_{10}), \qquad
    \ell_{sa} = \text{logit} P(s, a) ,

are jointly normal, :math:`u \mid c \sim \text{Normal}(m_c, \Sigma_c)`: who does better than others in one state may do
so in the other, and be helped more or less by a pull. Counts are binomial given P, and states that were not observed
are drawn with the rest (`meritfair.model.gaps`). Beforehand,

.. math::
    w \sim \text{Dirichlet}(1/C, \dots, 1/C), \qquad m_c \sim \text{Normal}(0, 2.5^2 I), \qquad
    \Sigma_c \mid b \sim \text{Inverse-Wishart}(5, 4\, \text{diag}(b)), \\
    b_k \sim \text{Gamma}(\tfrac12, \tfrac14) ,

so that only as many classes are used as there is reason for, the standard deviations in :math:`\Sigma_c` are half-t
with 2 degrees of freedom and scale 2, and correlations are uniform between -1 and 1 (Huang and Wand 2013).

**Why not** the classes of Beta distributions that `fit_prior` finds? They are made for estimates of single arms. What a
policy that chooses by state gains on another depends on how much arms *differ*, in pairs of state and action that were
hardly ever visited, and there those classes make arms too different: their four probabilities are independent within a
class, and one prior is taken for granted. `benchmarks/whatif.py` has what either does to the answers of `whatif`.

The sampler (:mod:`meritfair.engine.logits`) alternates between arms given classes and classes given arms, which are
drawn from known distributions:

.. math::
    \Sigma_c \mid \cdot &\sim \text{Inverse-Wishart}\Big(5 + n_c,\;
        4\, \text{diag}(b) + \sum_{i \in c} (u_i - m_c)(u_i - m_c)^\top\Big), \\
    b_k \mid \cdot &\sim \text{Gamma}\big(3,\; \tfrac14 + 2 (\Sigma_c^{-1})_{kk}\big), \\
    m_c \mid \cdot &\sim \text{Normal}\Big(Q^{-1} \Sigma_c^{-1} \sum_{i \in c} u_i,\; Q^{-1}\Big), \quad
        Q = n_c \Sigma_c^{-1} + 2.5^{-2} I, \\
    w \mid \cdot &\sim \text{Dirichlet}(1/C + n_1, \dots, 1/C + n_C) .

References
----------
A. Huang and M. P. Wand, "Simple marginally noninformative prior distributions for covariance matrices", Bayesian
Analysis 8 (2013).
J. Rousseau and K. Mengersen, "Asymptotic behaviour of the posterior distribution in overfitted mixture models",
J. R. Statist. Soc. B 73 (2011), for the weights.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from meritfair.core.arrays import FloatArray, WordArray
from meritfair.core.machine import available_cores
from meritfair.engine.gaps import BAD, GOOD
from meritfair.engine.logits import LogitChain, new_room, sweep
from meritfair.engine.random import new_source
from meritfair.model.counts import Counts
from meritfair.model.gaps import Gaps, outcomes

CLASSES = 4
CHAINS = 4
_BURN_IN = 300  # sweeps of each chain before its first draw
_BETWEEN = 10  # sweeps from one draw to the next
_MANY = 2_000  # arms, of which half the sweeps are enough


def posterior_draws(
    counts: Counts, gaps: Gaps, size: int, seed: np.random.SeedSequence, tell: Callable[[int, int], None]
) -> FloatArray:
    """Return draws of the transitions of all arms, shape (size, N, 2, 2).

    Parameters
    ----------
    counts : Counts
        Complete outcomes, shape (N, 2, 2).
    gaps : Gaps
        Rounds in which states were not observed.
    size : int
        How many draws. They come from four chains in turn.
    seed : SeedSequence
    tell : callable
        Is told how many sweeps are done, of how many.

    Examples
    --------
    Of fifty arms one was never seen. It is taken to be like the others, all of which are good half the time.

    >>> seen = Counts(np.full((50, 2, 2), 40) * (np.arange(50) > 0)[:, None, None],
    ...               np.full((50, 2, 2), 20) * (np.arange(50) > 0)[:, None, None])
    >>> drawn = posterior_draws(seen, Gaps.none(), 100, np.random.SeedSequence(1), lambda done, total: None)
    >>> drawn.shape
    (100, 50, 2, 2)
    >>> bool(np.all(abs(drawn[:, 0].mean(axis=0) - 0.5) < 0.05))
    True
    """
    seen = outcomes(counts)
    chains = [_Sampler.start(seen, gaps, each) for each in seed.spawn(CHAINS)]
    part = 2 if counts.n_arms > _MANY else 1
    burn_in, between = _BURN_IN // part, _BETWEEN // part
    each = -(-size // CHAINS)
    drawn = np.empty((each, CHAINS, counts.n_arms, 4))
    with ThreadPoolExecutor(min(CHAINS, available_cores()), thread_name_prefix="meritfair") as pool:
        for k in range(each):
            sweeps = [between + burn_in * (k == 0)] * CHAINS
            for m, made in enumerate(pool.map(_Sampler.after, chains, sweeps)):
                drawn[k, m] = made
            tell(burn_in + (k + 1) * between, burn_in + each * between)
    return drawn.reshape(-1, counts.n_arms, 2, 2)[:size]


@dataclass(frozen=True, eq=False)
class _Sampler:
    """A chain of the sampler, with what it needs to move on; the chain changes in place."""

    chain: LogitChain
    seen: FloatArray  # (N, 2, 4), complete outcomes
    gaps: Gaps
    rng: WordArray

    @classmethod
    def start(cls, seen: FloatArray, gaps: Gaps, seed: np.random.SeedSequence) -> _Sampler:
        """Return a chain at what was seen of each arm, in classes along a random direction."""
        of_start, of_sweeps = seed.spawn(2)
        coordinates = np.log(seen[:, GOOD] + 0.5) - np.log(seen[:, BAD] + 0.5)
        coordinates[:, 1::2] -= coordinates[:, ::2]
        along = coordinates @ np.random.default_rng(of_start).normal(size=4)
        which = np.argsort(np.argsort(along, kind="stable"), kind="stable") * CLASSES // len(seen)
        means = np.tile(coordinates.mean(axis=0), (CLASSES, 1))
        square = np.tile(np.eye(4), (CLASSES, 1, 1))
        chain = LogitChain(
            coordinates,
            which,
            seen.copy(),
            np.zeros(CLASSES),
            means,
            np.ones((CLASSES, 4)),
            square,
            square.copy(),
        )
        return cls(chain, seen, gaps, new_source(of_sweeps))

    def after(self, sweeps: int) -> FloatArray:
        """Return the probabilities of all arms that many sweeps later, shape (N, 4)."""
        gaps, room = self.gaps.arrays(len(self.seen)), new_room(self.gaps.room)
        sweep(self.chain, gaps, self.seen, room, self.rng, sweeps, 1 / CLASSES)
        logits = self.chain.coordinates.copy()
        logits[:, 1::2] += logits[:, ::2]
        return np.asarray(expit(logits))
