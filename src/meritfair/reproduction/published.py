r"""The published Table 1, and when a measured mean is within sampling error of a number in it.

A published number is the mean of 30 runs with other random numbers, rounded to a whole number. Where might such a mean
be, given :math:`n` runs of ours? Probabilities :math:`p \sim \text{Dirichlet}(1, \dots, 1)` of our runs say that it is
not known how likely each kind of run is; 30 runs drawn with these probabilities say that theirs were others; their mean
is one possible published number. This needs no normal law, which t0 is far from: one instance of thirty can have more
of it than all others together. The range that holds such a mean with probability :math:`1 - \alpha` is stretched away
from our mean by

.. math:: \frac{t_{n-1}(\alpha/2)}{z(\alpha/2)} \sqrt{\frac{n+1}{n-1}},

as Student's t stretches the normal law, and so that its variance is :math:`s^2 (1/n + 1/30)`. With 30 comparisons
:math:`\alpha` is 0.05/30; half a unit at either end is for rounding. Our runs are on the very instances of the authors,
so the two means share much of what varies between runs, and the range is wider than it had to be.

Only whole samples are compared. With fewer than 30 runs the instance that decides the mean may be missing; in shorter
runs G is smaller, as the longest of fewer waits, and t0 may not be reached, for which the authors' code has H.
"""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import NamedTuple

import numpy as np

from meritfair.core.arrays import FloatArray
from meritfair.core.seeding import stream
from meritfair.lab.tasks import Outcome
from meritfair.reproduction.artefact import DATASETS, SIZES
from meritfair.simulation.bootstrap import Interval, interval_of, weights

RUNS, EPISODES = 30, 10_000  # of the paper
MEASURES = {"t0": "first_valid_episode", "G": "coverage_gap"}
COMPARISONS = len(MEASURES) * len(DATASETS) * len(SIZES)
ALPHA = 0.05  # of all comparisons together
_RESAMPLES = 20_000


class Printed(NamedTuple):
    """A row of the published table: what stands under G and under t0 for a data set and size."""

    dataset: str
    n_arms: int
    budget: int
    G: int
    t0: int


@dataclass(frozen=True)
class Cell:
    """One quantity of one data set and size.

    Attributes
    ----------
    dataset : str
        Its title.
    n_arms, budget : int
    quantity : {"t0", "G"}
    straight, crosswise : int
        What the published table has under this quantity, and under the other one.
    authors, defined : Interval
        The mean over runs as the authors' code measures it, and by the definition.
    range : tuple of (float, float)
        Between which a published mean could be, before rounding, by `could_be`; NaN if there is no comparison.
    censored : int
        In how many runs the quantity, by the definition, is only a lower bound, as the run ended too early: some eta is
        1 or more at the last episode, or the longest wait is not over.
    """

    dataset: str
    n_arms: int
    budget: int
    quantity: str
    straight: int
    crosswise: int
    authors: Interval
    defined: Interval
    range: tuple[float, float]
    censored: int

    def fits(self, published: int) -> bool | None:
        """Return whether a published number, rounded as it is, lies in the range; None if there is none."""
        low, high = self.range
        return low - 0.5 <= published <= high + 0.5 if self.compared else None

    @property
    def compared(self) -> bool:
        """Whether there is a range."""
        return not math.isnan(self.range[0])

    @property
    def fits_straight(self) -> bool | None:
        """Whether the number published under its own name fits."""
        return self.fits(self.straight)

    @property
    def fits_crosswise(self) -> bool | None:
        """Whether the number published under the other name fits."""
        return self.fits(self.crosswise)


def printed() -> dict[tuple[str, int], Printed]:
    """Return the published table by title of the data set and N, columns as they are printed.

    Examples
    --------
    >>> printed()["Synthetic", 5]
    Printed(dataset='Synthetic', n_arms=5, budget=1, G=38, t0=8)
    """
    titles = {name.partition(":")[0]: title for name, title in DATASETS.items()}
    text = (files("meritfair.reproduction") / "table1.csv").read_text(encoding="utf-8")
    _, *lines = csv.reader(text.splitlines())
    rows = [Printed(titles[name], *map(int, numbers)) for name, *numbers in lines]
    return {(row.dataset, row.n_arms): row for row in rows}


def could_be(values: FloatArray, chance: float, runs: int = RUNS, seed: int = 0) -> tuple[float, float]:
    """Return between which values the mean of that many other runs lies; half of the chance is left out at each end.

    NaN if there is only one value, which says nothing about spread.

    Examples
    --------
    >>> low, high = could_be(np.arange(30.0), chance=0.05)
    >>> round(low, 1), round(high, 1)         # 14.5 ± t s sqrt(2/30) has 9.8 and 19.2
    (9.9, 19.2)
    """
    from scipy.special import ndtri, stdtrit

    n = len(values)
    if n < 2:
        return math.nan, math.nan
    means = _times_drawn(n, runs, seed) @ values / runs
    stretch = stdtrit(n - 1, chance / 2) / ndtri(chance / 2) * math.sqrt((n + 1) / (n - 1))
    centre = float(values.mean())
    low, high = centre + stretch * (np.quantile(means, [chance / 2, 1 - chance / 2]) - centre)
    return float(low), float(high)


@lru_cache(maxsize=4)
def _times_drawn(n: int, runs: int, seed: int) -> FloatArray:
    """Return how often each of n runs is among that many others, in each resample."""
    random = stream(seed, "bootstrap")
    drawn = random.multinomial(runs, random.dirichlet(np.ones(n), _RESAMPLES)).astype(np.float64)
    drawn.flags.writeable = False
    return drawn


def make_cell(outcome: Outcome, quantity: str, row: Printed, seed: int) -> Cell:
    """Return what is known of one quantity in one setting."""
    by_definition = outcome.measures[MEASURES[quantity]]
    by_authors = outcome.measures[f"{MEASURES[quantity]}_authors"]
    censored = int(outcome.measures[f"{MEASURES[quantity]}_censored"].sum())
    known_early = quantity == "t0" and censored == 0 and outcome.setting.episodes < EPISODES
    whole = len(outcome.runs) >= RUNS and (outcome.setting.episodes == EPISODES or known_early)
    weight = weights(len(outcome.runs), seed)
    straight, crosswise = (row.t0, row.G) if quantity == "t0" else (row.G, row.t0)
    return Cell(
        *row[:3],
        quantity=quantity,
        straight=straight,
        crosswise=crosswise,
        authors=interval_of(weight @ by_authors),
        defined=interval_of(weight @ by_definition),
        range=could_be(by_authors, ALPHA / COMPARISONS, seed=seed) if whole else (math.nan, math.nan),
        censored=censored,
    )
