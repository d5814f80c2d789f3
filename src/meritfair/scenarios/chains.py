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
from meritfair.model.posterior import Posterior, Prior, fit_prior
from meritfair.scenarios.start import Start

_WORK = 400_000  # arms to which priors are fitted in all, unless there are many
_FEWEST = 20  # replicates


@dataclass(frozen=True, eq=False)
class Chains:
    """What is known of the transitions of the arms that are there.

    Attributes
    ----------
    counts : Counts
        What was seen of each, shape (N, 2, 2).
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
    seen, rng = log.counts, stream(seed, "bootstrap")
    here = Counts(seen.visits[start.arms], seen.good[start.arms])
    if estimate == "mean":
        posterior = Prior.uniform().posterior(here)
        return Chains(here, posterior.mean, posterior.draw(rng, draws))
    replicates = min(draws, max(_FEWEST, _WORK // log.n_arms))
    made = np.empty((draws, start.n_arms, 2, 2))
    for replicate in range(replicates):
        tell(replicate, replicates)
        which = np.arange(replicate, draws, replicates)
        made[which] = _posterior(seen, here, rng).draw(rng, len(which))
    return Chains(here, fit_prior(seen).posterior(here).mean, made)


def _posterior(seen: Counts, here: Counts, rng: np.random.Generator) -> Posterior:
    """Return the posterior of arms under the prior of arms that are drawn with replacement."""
    again = rng.integers(0, seen.n_arms, seen.n_arms)
    return fit_prior(Counts(seen.visits[again], seen.good[again])).posterior(here)
