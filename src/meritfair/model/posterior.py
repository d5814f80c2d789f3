r"""What the counts say of the arms when something is known beforehand: priors, and posteriors by Bayes' rule.

An arm belongs to one of C latent classes, class c with probability :math:`w_c`; within it, the probability
:math:`P(s,a)` of a good next state is drawn from a Beta distribution of its own for each (s, a), independently. After
`good` of `visits` good outcomes the posterior is of the same kind,

.. math::
    P(s,a) \mid c \sim \text{Beta}(\alpha_c(s,a) + \text{good},\; \beta_c(s,a) + \text{visits} - \text{good}), \qquad
    \Pr(c) \propto w_c \prod_{s,a} \frac{B(\alpha_c + \text{good}, \beta_c + \text{visits} - \text{good})}
    {B(\alpha_c, \beta_c)} .

The uniform prior, one class of Beta(1, 1), knows nothing: its posterior mean is the estimate ``mean``. `fit_prior`
takes the prior from the arms themselves (empirical Bayes): what was seen of many arms tells which kinds there are, and
the little that was seen of one arm tells of which kind it is. Its posterior mean is the estimate ``pooled``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from meritfair.core.arrays import BoolArray, FloatArray, frozen
from meritfair.core.checks import check_whole, float_array
from meritfair.core.deprecation import Renamed
from meritfair.core.errors import InputError
from meritfair.model.counts import Counts

if TYPE_CHECKING:
    from meritfair.engine.pooling import Pool

_WEIGHTS = np.sqrt([2.0, 3.0, 5.0, 7.0, 11.0, 13.0, 17.0, 19.0])  # of counts, to put arms in order
_FEW = 1_000  # values for which the engine is not worth loading


@dataclass(frozen=True, init=False, eq=False)
class Prior:
    """A mixture of classes of arms, each a product of Beta distributions over the four probabilities of an arm.

    Parameters
    ----------
    weights : array_like, shape (C,)
        How common each class is; they sum to 1.
    good, bad : array_like, shape (C, 2, 2)
        Parameters of the Beta distributions by class, state and action: as if that many good and bad outcomes had
        been seen. All positive.

    Examples
    --------
    >>> from meritfair import Counts
    >>> seen = Counts(visits=[[[8, 0], [0, 0]]], good=[[[2, 0], [0, 0]]])
    >>> Prior.uniform().posterior(seen).mean
    array([[[0.3, 0.5],
            [0.5, 0.5]]])
    """

    weights: FloatArray
    good: FloatArray
    bad: FloatArray

    def __init__(self, weights: npt.ArrayLike, good: npt.ArrayLike, bad: npt.ArrayLike) -> None:
        object.__setattr__(self, "weights", frozen(float_array("weights", weights)))
        object.__setattr__(self, "good", frozen(float_array("good", good)))
        object.__setattr__(self, "bad", frozen(float_array("bad", bad)))
        shape = (self.weights.size, 2, 2)
        if self.weights.ndim != 1 or self.good.shape != shape or self.bad.shape != shape:
            raise InputError(
                f"weights must have shape (C,), good and bad (C, 2, 2), got {self.weights.shape}, "
                f"{self.good.shape} and {self.bad.shape}"
            )
        if not (np.all(self.weights >= 0) and abs(self.weights.sum() - 1) < 1e-9):
            raise InputError(f"weights must not be negative and sum to 1, got {self.weights}")
        both = np.concatenate([self.good.ravel(), self.bad.ravel()])
        if not np.all((both > 0) & np.isfinite(both)):
            raise InputError(f"good and bad must be positive and finite, got {both[~(both > 0)].tolist()}")

    @classmethod
    def uniform(cls) -> Prior:
        """Return the prior that knows nothing: one class, all values equally likely."""
        return cls([1.0], np.ones((1, 2, 2)), np.ones((1, 2, 2)))

    @property
    def classes(self) -> int:
        """How many classes there are."""
        return len(self.weights)

    def posterior(self, counts: Counts) -> Posterior:
        """Return what is known after the counts, whose leading axes are kept."""
        with np.errstate(divide="ignore"):
            return self._posterior(counts, np.log(self.weights))

    def _posterior(self, counts: Counts, log_weights: FloatArray) -> Posterior:
        """Return what is known after the counts, with weights for all arms, (C,), or for each, (N, C)."""
        seen_good = counts.good[..., None, :, :]
        seen_bad = (counts.visits - counts.good)[..., None, :, :]
        good, bad = self.good + seen_good, self.bad + seen_bad
        if self.classes == 1:
            return Posterior(np.ones(good.shape[:-2]), good, bad)
        evidence = (log_beta(good, bad) - log_beta(self.good, self.bad)).sum(axis=(-2, -1))
        log_odds = log_weights + evidence
        odds = np.exp(log_odds - log_odds.max(axis=-1, keepdims=True))
        return Posterior(odds / odds.sum(axis=-1, keepdims=True), good, bad)


@dataclass(frozen=True, eq=False)
class Posterior:
    """What is known of each arm: a mixture of products of Beta distributions.

    Attributes
    ----------
    weights : ndarray, shape (..., N, C)
        With which probability an arm belongs to each class.
    good, bad : ndarray, shape (..., N, C, 2, 2)
        Parameters of the Beta distributions.
    """

    weights: FloatArray
    good: FloatArray
    bad: FloatArray
    chance = Renamed("weights")

    @cached_property
    def mean(self) -> FloatArray:
        """The mean of each probability, shape (..., N, 2, 2)."""
        return np.asarray(np.einsum("...c,...csa->...sa", self.weights, self.good / (self.good + self.bad)))

    @cached_property
    def variance(self) -> FloatArray:
        """The variance of each probability, shape (..., N, 2, 2)."""
        total = self.good + self.bad
        each = self.good / total
        second = each * (self.good + 1) / (total + 1)
        return np.asarray(np.maximum(0.0, np.einsum("...c,...csa->...sa", self.weights, second) - self.mean**2))

    def draw(self, rng: np.random.Generator, size: int = 1) -> FloatArray:
        """Return `size` draws of all probabilities, shape (size, ..., N, 2, 2).

        Examples
        --------
        >>> from meritfair import Counts
        >>> Prior.uniform().posterior(Counts.none(3)).draw(np.random.default_rng(1), size=5).shape
        (5, 3, 2, 2)
        """
        n = check_whole("size", size, 1)
        return next(self.in_chunks(rng, n, n))

    def in_chunks(
        self,
        rng: np.random.Generator,
        size: int,
        chunk: int,
        settled: BoolArray | None = None,  # noqa: ARG002 - all arms share one generator
    ) -> Iterator[FloatArray]:
        """Yield that many draws, up to `chunk` at a time; those of arms that are `settled` need not mean anything."""
        for start in range(0, size, chunk):
            yield self._drawn(rng, min(chunk, size - start))

    def _drawn(self, rng: np.random.Generator, n: int) -> FloatArray:
        if self.weights.shape[-1] == 1:
            good, bad = self.good[..., 0, :, :], self.bad[..., 0, :, :]
            return rng.beta(good, bad, (n, *good.shape))
        level = rng.random((n, *self.weights.shape[:-1], 1))
        which = (level >= self.weights.cumsum(axis=-1)[..., :-1]).sum(axis=-1)[..., None, None, None]
        good, bad = (np.take_along_axis(np.broadcast_to(x, (n, *x.shape)), which, -3) for x in (self.good, self.bad))
        return rng.beta(good, bad)[..., 0, :, :]


def fit_prior(counts: Counts, max_classes: int = 4, most_arms: int | None = 2_000) -> Prior:
    """Return the prior under which all counts together are most plausible, of as many classes as the evidence is for.

    Nothing is drawn, and the order of arms does not matter. :mod:`meritfair.engine.pooling` has the formulas: EM, a
    weak hyperprior, and evidence with a price for each parameter that the counts tell of. Arms that have nothing in
    common, or of which too little was seen to say so, get the uniform prior.

    Parameters
    ----------
    counts : Counts
        What was seen of the arms, shape (N, 2, 2).
    max_classes : int
        Most classes to look for.
    most_arms : int, optional
        How many arms are used, spread evenly over what was seen of all, if there are more; None is all of them. Two
        thousand tell as much of classes as estimates of single arms can use, and a live round stays quick.

    Returns
    -------
    Prior
        Its classes by weight, the largest first.

    Examples
    --------
    Forty arms of two kinds, each seen eight times in each state under each action:

    >>> from meritfair import Counts
    >>> good = np.repeat([[[1, 2], [2, 3]], [[6, 7], [7, 8]]], [10, 30], axis=0)
    >>> prior = fit_prior(Counts(np.full(good.shape, 8), good))
    >>> prior.weights.round(2)
    array([0.74, 0.26])
    >>> (prior.good / (prior.good + prior.bad)).round(2)
    array([[[0.75, 0.87],
            [0.87, 0.98]],
    <BLANKLINE>
           [[0.14, 0.26],
            [0.26, 0.38]]])
    """
    from meritfair.engine.pooling import fitted_prior  # takes a second to load

    some = counts if most_arms is None else _thinned(counts, check_whole("most_arms", most_arms, 1))
    return Prior(*fitted_prior(fitted_pool(some, max_classes)))


def fitted_pool(counts: Counts, max_classes: int = 4) -> Pool:
    """Return what `fit_prior` fits, as the engine keeps it."""
    from meritfair.engine.pooling import new_pool, pool

    if counts.visits.ndim != 3:
        raise InputError(f"counts must be of one set of arms, shape (N, 2, 2), got {counts.visits.shape}")
    room = new_pool(counts.n_arms, check_whole("max_classes", max_classes, 1))
    visits, good = (np.array(x.transpose(1, 2, 0), np.float64, order="C") for x in (counts.visits, counts.good))
    pool(room, visits, good, np.empty_like(visits), True)
    return room


def _thinned(counts: Counts, most: int) -> Counts:
    """Return the counts of at most that many arms, spread evenly over what was seen of all.

    The sum that puts arms in order has a weight of its own for each count, so that the order in which they are given
    does not matter.
    """
    N = counts.n_arms
    if most >= N or counts.visits.ndim != 3:
        return counts
    seen = np.concatenate([counts.visits.reshape(N, 4), counts.good.reshape(N, 4)], axis=1)
    order = np.argsort(sum(seen[:, k] * weight for k, weight in enumerate(_WEIGHTS)), kind="stable")  # the same bits
    taken = order[((np.arange(most) + 0.5) * (N / most)).astype(np.int64)]
    return Counts(counts.visits[taken], counts.good[taken])


def log_beta(a: FloatArray, b: FloatArray) -> FloatArray:
    """Return the logarithm of the Beta function."""
    return np.asarray(_log_gamma(a) + _log_gamma(b) - _log_gamma(a + b))


def _log_gamma(x: FloatArray) -> FloatArray:
    """Return the logarithm of the gamma function, by Python's own function, once for each value that occurs."""
    flat = np.ascontiguousarray(x, np.float64).ravel()
    if flat.size < _FEW:
        return _each_log_gamma(flat).reshape(x.shape)
    from meritfair.engine.gammas import number  # takes a second to load

    numbers, values = np.empty(flat.size, np.uint32), np.empty(flat.size + 1)
    found = number(flat, numbers, values, np.zeros(2 * flat.size + 1, np.uint32))
    values[1 : found + 1] = _each_log_gamma(values[1 : found + 1])
    return np.asarray(values[numbers].reshape(x.shape))


def _each_log_gamma(values: FloatArray) -> FloatArray:
    return np.fromiter(map(math.lgamma, values.tolist()), np.float64, len(values))
