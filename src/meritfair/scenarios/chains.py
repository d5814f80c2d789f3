"""The chains that a log leaves possible: transition probabilities of all its arms, drawn from what is known of them.

Arms of which little was seen are known by what arms have in common. What that is, is itself uncertain, and it moves all
arms in the same direction, so its uncertainty does not average out over arms: it decides how wide the interval of a
mean over arms is. So both are drawn together, by `meritfair.model.logit_normal`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from meritfair.core.arrays import FloatArray, IntArray
from meritfair.core.seeding import sequence, stream
from meritfair.datasets.logs import StateLog
from meritfair.model.counts import Counts
from meritfair.model.gaps import fill, posterior
from meritfair.model.logit_normal import posterior_draws
from meritfair.model.posterior import Prior, fit_prior
from meritfair.scenarios.start import Start

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
    """Draw the chains of the arms that are there."""
    effective, here = fill(log.counts, log.bridged).effective, start.arms
    if estimate == "pooled":
        prior = fit_prior(effective)
        made = posterior_draws(log.counts, log.bridged, draws, sequence(seed, "bootstrap"), tell)
        mean = posterior(prior, log.counts, log.bridged, effective).mean
    else:
        known = posterior(Prior.uniform(), log.counts, log.bridged, effective)
        made, mean = known.draw(stream(seed, "bootstrap"), draws), known.mean
    return Chains(whole(effective, here), mean[here], np.clip(made[:, here], _INSIDE, 1 - _INSIDE))


def whole(counts: Counts, arms: IntArray) -> Counts:
    """Return the counts of some arms, rounded where they are not whole: policies plan from these much faster."""
    visits, good = (np.rint(x[arms]).astype(np.int64) for x in (counts.visits, counts.good))
    return Counts(visits, np.minimum(good, visits))
