r"""The chains that a log leaves possible: transition probabilities of all its arms, drawn from what is known of them.

Arms of which little was seen are known by what arms have in common: their prior, fitted to all of them
(`meritfair.model.posterior.fit_prior`). That prior is itself uncertain, and it moves all arms in the same direction, so
its uncertainty does not average out over arms: it decides how wide the interval of a mean over arms is. Draws take
it in by the bootstrap: for each of several replicates, arms are drawn with replacement, the prior is fitted to these,
and the arms of the log, all as they are, are drawn from their posterior under it.

References
----------
N. M. Laird and T. A. Louis, "Empirical Bayes confidence intervals based on bootstrap samples", JASA 82 (1987).
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from meritfair.core.arrays import FloatArray, IntArray
from meritfair.core.machine import available_cores
from meritfair.core.seeding import stream
from meritfair.datasets.logs import StateLog
from meritfair.model.counts import Counts
from meritfair.model.gaps import Gaps, fill, posterior
from meritfair.model.posterior import Posterior, Prior, fit_prior
from meritfair.scenarios.start import Start

_WORK = 200_000  # arms to which priors are fitted in all, unless there are many
_FEWEST = 20  # replicates
_MANY = 2_000  # arms whose counts are rounded, so that fits are fast
_INSIDE = 1e-9  # how far draws stay from 0 and 1, so that no chain is stuck


@dataclass(frozen=True, eq=False)
class Chains:
    """What is known of the transitions of the arms that are there.

    Attributes
    ----------
    counts : Counts
        What was seen of each, shape (N, 2, 2); where states are missing, what that is worth.
    mean : ndarray, shape (N, 2, 2)
        The estimated probabilities of a good next state.
    draws : ndarray, shape (draws, N, 2, 2)
        What they may be.
    """

    counts: Counts
    mean: FloatArray
    draws: FloatArray


@dataclass(frozen=True, eq=False)
class Half:
    """What was seen in the rounds before or after a log's middle, and what is estimated from that alone."""

    counts: Counts
    mean: FloatArray


def halves_of(log: StateLog, start: Start, estimate: str, middle: int) -> tuple[Half, Half]:
    """Return what the rounds before the middle say, and those from it on; of complete transitions."""
    made = []
    for rows in (log.rounds < middle, log.rounds >= middle):
        seen = log.counts_of(rows)
        prior = fit_prior(seen) if estimate == "pooled" else Prior.uniform()
        here = Counts(seen.visits[start.arms], seen.good[start.arms])
        made.append(Half(here, prior.posterior(here).mean))
    return made[0], made[1]


def chains_of(
    log: StateLog, start: Start, estimate: str, draws: int, seed: int, tell: Callable[[int, int], None]
) -> Chains:
    """Draw the chains of the arms that are there; each replicate has a stream of its own."""
    known, here = _Known(log.counts, log.bridged, fill(log.counts, log.bridged).effective), start.arms
    pooled = estimate == "pooled"
    replicates = min(draws, max(_FEWEST, _WORK // log.n_arms)) if pooled else 1
    made = np.empty((draws, start.n_arms, 2, 2))

    def draw(replicate: int) -> None:
        rng, which = stream(seed, "bootstrap", replicate), np.arange(replicate, draws, replicates)
        prior = _prior_of_resample(known.effective, rng) if pooled else Prior.uniform()
        made[which] = known.posterior(prior).draw(rng, len(which))[:, here]

    with ThreadPoolExecutor(available_cores()) as pool:
        for done, _ in enumerate(pool.map(draw, range(replicates))):
            tell(done, replicates)
    mean = known.posterior(fit_prior(known.effective) if pooled else Prior.uniform()).mean[here]
    return Chains(whole(known.effective, here), mean, np.clip(made, _INSIDE, 1 - _INSIDE))


def whole(counts: Counts, arms: IntArray) -> Counts:
    """Return the counts of some arms, rounded where they are not whole: policies plan from these much faster."""
    visits, good = (np.rint(x[arms]).astype(np.int64) for x in (counts.visits, counts.good))
    return Counts(visits, np.minimum(good, visits))


@dataclass(frozen=True, eq=False)
class _Known:
    """What a log has of its arms: complete transitions, gaps, and what both are worth."""

    counts: Counts
    gaps: Gaps
    effective: Counts

    def posterior(self, prior: Prior) -> Posterior:
        return posterior(prior, self.counts, self.gaps, self.effective)


def _prior_of_resample(seen: Counts, rng: np.random.Generator) -> Prior:
    """Return the prior of arms that are drawn with replacement.

    Of many arms, counts that are not whole are rounded up or down at random, with the same mean: the fit is much faster
    then. Of few it is not needed, and would make arms seem to differ more than they do.
    """
    again = rng.integers(0, seen.n_arms, seen.n_arms)
    good, bad = seen.good[again], (seen.visits - seen.good)[again]
    if good.dtype.kind == "f" and seen.n_arms > _MANY:
        good, bad = (np.floor(x + rng.random(x.shape)).astype(np.int64) for x in (good, bad))
    return fit_prior(Counts(good + bad, good))
