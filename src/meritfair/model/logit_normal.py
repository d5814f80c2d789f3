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

**Many arms.** Classes that overlap merge only after about as many sweeps as there are arms. So each chain begins with
100 arms and doubles them (Chopin 2002), another 100 in each chain. Classes are learned from at most 1,000 arms, chosen
at random; each other arm is drawn given the classes and what was seen of it. Whether chains have converged is seen by
`split_r_hat`: draw k is from chain k modulo `CHAINS`.

References
----------
A. Huang and M. P. Wand, "Simple marginally noninformative prior distributions for covariance matrices", Bayesian
Analysis 8 (2013).
N. Chopin, "A sequential particle filter method for static models", Biometrika 89 (2002).
A. Vehtari, A. Gelman, D. Simpson, B. Carpenter and P.-C. Bürkner, "Rank-normalization, folding, and localization: An
improved R-hat for assessing convergence of MCMC", Bayesian Analysis 16 (2021), for the split form.
J. Rousseau and K. Mengersen, "Asymptotic behaviour of the posterior distribution in overfitted mixture models",
J. R. Statist. Soc. B 73 (2011), for the weights.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from meritfair.core.arrays import FloatArray, IntArray, WordArray
from meritfair.core.machine import available_cores
from meritfair.engine.gaps import BAD, GOOD, GapArrays
from meritfair.engine.logits import LogitChain, LogitRoom, move_arms, new_room, sweep
from meritfair.engine.random import new_source
from meritfair.model.counts import Counts
from meritfair.model.gaps import Gaps, outcomes

CLASSES = 4
CHAINS = 4
_LEARNED = 1_000  # arms that classes are learned from, at most
_FIRST, _FIRST_SWEEPS = 100, 400
_STAGE_SWEEPS, _LAST_SWEEPS = 150, 300  # after each doubling, and with all arms
_BETWEEN, _LEAST_BETWEEN, _WORK = 40, 20, 20_000  # sweeps from one draw to the next; fewer of more than 500 arms
_TURNS, _FEW_TURNS = 30, 3  # of arms that are new, and of those that classes are not learned from


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
        Is told how much is done, of how much.

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
    seen, of_gaps = outcomes(counts), gaps.arrays(counts.n_arms)
    stages = _stages(min(counts.n_arms, _LEARNED))
    learned = stages[-1][0]
    between = min(_BETWEEN, max(_LEAST_BETWEEN, _WORK // learned))
    of_arms, *of_chains = seed.spawn(1 + CHAINS)
    order = np.random.default_rng(of_arms).permutation(counts.n_arms)
    chains = [_Sampler.start(seen, of_gaps, new_room(gaps.room), order, learned, each) for each in of_chains]

    def begin(chain: _Sampler) -> None:
        before = 0
        for number, sweeps in stages:
            if before:
                chain.move(before, number, _TURNS)
            chain.learn(number, sweeps)
            before = number
        chain.move(learned, counts.n_arms, _TURNS)

    def draw(chain: _Sampler) -> FloatArray:
        chain.learn(learned, between)
        chain.move(learned, counts.n_arms, _FEW_TURNS)
        return chain.probabilities

    each = -(-size // CHAINS)
    begun = sum(number * sweeps for number, sweeps in stages)
    total = begun + each * between * learned
    drawn = np.empty((each, CHAINS, counts.n_arms, 4))
    with ThreadPoolExecutor(min(CHAINS, available_cores()), thread_name_prefix="meritfair") as pool:
        list(pool.map(begin, chains))
        tell(begun, total)
        for k in range(each):
            for m, made in enumerate(pool.map(draw, chains)):
                drawn[k, m] = made
            tell(begun + (k + 1) * between * learned, total)
    return drawn.reshape(-1, counts.n_arms, 2, 2)[:size]


def split_r_hat(values: FloatArray) -> float:
    r"""Return how much more numbers differ between halves of chains than within: 1 after convergence.

    .. math:: \hat R = \sqrt{\frac{n - 1}{n} + \frac{B}{W}} , where B is the variance of the means of the halves, W the
        mean of their variances, and n how many numbers a half has.

    Parameters
    ----------
    values : ndarray, shape (size,)
        A number of each draw, in the order of `posterior_draws`.

    Examples
    --------
    >>> round(split_r_hat(np.random.default_rng(1).normal(size=400)), 1)
    1.0
    >>> split_r_hat(np.arange(400.0)) > 2
    True
    """
    halves = _halves(values)
    within, between = float(halves.var(axis=0, ddof=1).mean()), float(halves.mean(axis=0).var(ddof=1))
    return float(np.sqrt(1 - 1 / len(halves) + between / within)) if within > 0 else 1.0


def effective_draws(values: FloatArray) -> float:
    """Return how many independent numbers would have a mean as precise as that of these, at most as many as these.

    The means of the halves of chains tell how precise it is. Fewer than four numbers a chain are taken as independent.

    Examples
    --------
    >>> effective_draws(np.random.default_rng(1).normal(size=400)) > 100
    True
    >>> bool(effective_draws(np.arange(400.0)) < 10)
    True
    """
    if len(values) < 4 * CHAINS:
        return float(len(values))
    halves = _halves(values)
    precise = float(halves.mean(axis=0).var(ddof=1)) / halves.shape[1]
    return min(float(values.var(ddof=1)) / precise, float(len(values))) if precise > 0 else float(len(values))


def _halves(values: FloatArray) -> FloatArray:
    """Return the first and the second half of each chain, as columns."""
    chains = values[: len(values) // (2 * CHAINS) * 2 * CHAINS].reshape(-1, CHAINS)
    return np.concatenate(np.split(chains, 2), axis=1)


def _stages(arms: int) -> list[tuple[int, int]]:
    """Return from how many arms classes are learned, one stage after another, and for how many sweeps.

    Examples
    --------
    >>> _stages(50), _stages(300)
    ([(50, 400), (50, 300)], [(100, 400), (200, 150), (300, 150), (300, 300)])
    """
    stages = [(min(_FIRST, arms), _FIRST_SWEEPS)]
    while stages[-1][0] < arms:
        stages.append((min(2 * stages[-1][0], arms), _STAGE_SWEEPS))
    return [*stages, (arms, _LAST_SWEEPS)]


@dataclass(frozen=True, eq=False)
class _Sampler:
    """A chain of the sampler, with what it needs to move on; the chain changes in place."""

    chain: LogitChain
    seen: FloatArray  # (N, 2, 4), complete outcomes
    gaps: GapArrays
    room: LogitRoom
    rng: WordArray
    order: IntArray  # of arms; classes are learned from the first ones

    @classmethod
    def start(
        cls,
        seen: FloatArray,
        gaps: GapArrays,
        room: LogitRoom,
        order: IntArray,
        learned: int,
        seed: np.random.SeedSequence,
    ) -> _Sampler:
        """Return a chain at what was seen of each arm, in classes along a random direction.

        Classes are learned from the first `learned` arms of `order`, in every chain, but in an order of its own.
        """
        of_start, of_sweeps = seed.spawn(2)
        rng = np.random.default_rng(of_start)
        coordinates = np.log(seen[:, GOOD] + 0.5) - np.log(seen[:, BAD] + 0.5)
        coordinates[:, 1::2] -= coordinates[:, ::2]
        along = coordinates @ rng.normal(size=4)
        which = np.argsort(np.argsort(along, kind="stable"), kind="stable") * CLASSES // len(seen)
        square = np.tile(np.eye(4), (CLASSES, 1, 1))
        chain = LogitChain(
            coordinates,
            which,
            seen.copy(),
            np.zeros(CLASSES),
            np.tile(coordinates.mean(axis=0), (CLASSES, 1)),
            np.ones((CLASSES, 4)),
            square,
            square.copy(),
        )
        own = np.r_[rng.permutation(order[:learned]), order[learned:]]
        return cls(chain, seen, gaps, room, new_source(of_sweeps), own)

    def learn(self, number: int, sweeps: int) -> None:
        """Move the classes and the first arms on."""
        sweep(self.chain, self.gaps, self.seen, self.room, self.rng, self.order[:number], sweeps, 1 / CLASSES)

    def move(self, first: int, last: int, turns: int) -> None:
        """Move some arms on, with the classes as they are."""
        move_arms(self.chain, self.gaps, self.seen, self.room, self.rng, self.order[first:last], turns)

    @property
    def probabilities(self) -> FloatArray:
        """Those of all arms, shape (N, 4)."""
        logits = self.chain.coordinates.copy()
        logits[:, 1::2] += logits[:, ::2]
        return np.asarray(expit(logits))
