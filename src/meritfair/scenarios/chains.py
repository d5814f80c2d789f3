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
from dataclasses import dataclass

import numpy as np

from meritfair.core.arrays import FloatArray
from meritfair.core.seeding import stream
from meritfair.datasets.logs import StateLog
from meritfair.model.counts import Counts
from meritfair.model.gaps import Gaps, fill, posterior
from meritfair.model.posterior import Posterior, Prior, fit_prior
from meritfair.scenarios.start import Start

_WORK = 200_000  # arms to which priors are fitted in all, unless there are many
_FEWEST = 20  # replicates
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


def chains_of(
    log: StateLog, start: Start, estimate: str, draws: int, seed: int, tell: Callable[[int, int], None]
) -> Chains:
    """Draw the chains of the arms that are there."""
    known, rng = _Known(log.counts, log.bridged, fill(log.counts, log.bridged).effective), stream(seed, "bootstrap")
    worth, here = known.effective, start.arms
    replicates = min(draws, max(_FEWEST, _WORK // log.n_arms)) if estimate == "pooled" else 1
    made = np.empty((draws, start.n_arms, 2, 2))
    for replicate in range(replicates):
        tell(replicate, replicates)
        which = np.arange(replicate, draws, replicates)
        prior = _prior_of_resample(worth, rng) if estimate == "pooled" else Prior.uniform()
        made[which] = known.posterior(prior).draw(rng, len(which))[:, here]
    prior = fit_prior(worth) if estimate == "pooled" else Prior.uniform()
    mean = np.asarray(known.posterior(prior).mean[here])
    return Chains(Counts(worth.visits[here], worth.good[here]), mean, np.clip(made, _INSIDE, 1 - _INSIDE))


@dataclass(frozen=True, eq=False)
class _Known:
    """What a log has of its arms: complete transitions, gaps, and what both are worth."""

    counts: Counts
    gaps: Gaps
    effective: Counts

    def posterior(self, prior: Prior) -> Posterior:
        return posterior(prior, self.counts, self.gaps, self.effective)


def _prior_of_resample(seen: Counts, rng: np.random.Generator) -> Prior:
    """Return the prior of arms that are drawn with replacement."""
    again = rng.integers(0, seen.n_arms, seen.n_arms)
    return fit_prior(Counts(seen.visits[again], seen.good[again]))
