r"""Whose outcomes are improbable beside those of all others: an e-value for each arm.

A prior is fitted to the other arms (:mod:`meritfair.model.posterior`), so it says which outcomes are to be expected of
an arm of which nothing is known but that it is like them. The evidence of an arm compares two probabilities of its good
outcomes g, given its visits v, by state s and action a:

.. math::
    E = \frac{q(g \mid v)}{\max(p, \tilde p)(g \mid v)} .

Below, p is that of the prior. :math:`\tilde p` moves the means of the prior by normal effects of the arm on the log
odds: of standard deviation 1 on all four probabilities, and ½ on those after a pull. So an arm that is well more or
less often than the others, or whom a pull helps somewhat more, is not improbable. Classes of the prior to which fewer
than three of the other arms belong are left out: else two who report alike would hide each other. Above, q is the mean
of three: that the four probabilities may be anything, that they depend on the action alone (both from Beta(½, ½)), and
that outcomes are good after pulls and bad otherwise, with few exceptions (whose part is from Beta(½, 20)).

Whatever has decided who was pulled, and whichever states are missing at random, cancels: both sides take only what came
after a state and an action that were known. So E is at most 1 on average if the arm is drawn from the prior, and
exceeds :math:`N / \alpha` with a probability of at most :math:`\alpha / N` (Markov). Arms are named if it does. Then
the chance that any of N arms is named is at most :math:`\alpha`, up to the error of the prior, however their outcomes
depend on each other. The prior does not know a kind to which only a few arms belong: they may be named.

That outcomes are improbable says nothing of why: an arm may be of a kind of its own, a state may have been entered
wrongly, or reported wrongly.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from meritfair.core.arrays import AnyArray, BoolArray, FloatArray, IntArray
from meritfair.core.checks import check_number
from meritfair.core.errors import InputError
from meritfair.core.tables import rows_of
from meritfair.model.counts import Counts
from meritfair.model.posterior import Prior, fit_prior, log_beta

FEWEST = 10  # arms; fewer do not say what is to be expected of another one
_FOLDS = 10
_FEWEST_ALIKE = 2.5  # other arms that a class needs, each counted by how likely it belongs to it


def _normal(values: FloatArray) -> FloatArray:
    """Return weights in proportion to the standard normal density, which sum to 1."""
    density = np.exp(-(values**2) / 2)
    return np.asarray(density / density.sum())


_Z = np.linspace(-2.4, 2.4, 9)  # standard deviations
_SHIFTS = [
    (float(person), float(0.5 * call), math.log(here * there))
    for person, here in zip(_Z, _normal(_Z), strict=True)
    for call, there in zip(_Z[::2], _normal(_Z[::2]), strict=True)
]  # effects of an arm on the log odds of all probabilities, and of those after a pull, with their log weights


@dataclass(frozen=True, eq=False)
class Improbable:
    """How improbable the outcomes of each arm are beside those of the others.

    Attributes
    ----------
    log_evidence : ndarray, shape (N,)
        The natural logarithm of each arm's e-value; 0 where nothing was seen.
    alpha : float
        The chance that any arm is named if all are alike.
    pulled, good_pulled, unpulled, good_unpulled : ndarray of int, shape (N,)
        Outcomes after a pull and without one, and how many of them were good.
    """

    log_evidence: FloatArray
    alpha: float
    pulled: IntArray
    good_pulled: IntArray
    unpulled: IntArray
    good_unpulled: IntArray

    @property
    def limit(self) -> float:
        """What the logarithm of the evidence must exceed for an arm to be named."""
        return math.log(max(1, len(self.log_evidence)) / self.alpha)

    @property
    def named(self) -> BoolArray:
        """Which arms have outcomes so improbable, shape (N,)."""
        return np.asarray(self.log_evidence > self.limit)

    @property
    def order(self) -> IntArray:
        """The arms that are named, those with the most evidence first."""
        found = np.flatnonzero(self.named)
        return found[np.argsort(-self.log_evidence[found], kind="stable")]

    def rows(self, names: Sequence[Any]) -> list[dict[str, Any]]:
        """Return a row for each arm that is named, the one with the most evidence first, as plain values."""
        at = self.order
        columns: dict[str, list[Any]] = {"arm": [names[each] for each in at]}
        for name in ("pulled", "good_pulled", "unpulled", "good_unpulled", "log_evidence"):
            columns[name] = vars(self)[name][at].tolist()
        return rows_of(columns)


def improbable(counts: Counts, alpha: float = 0.05) -> Improbable:
    """Return how improbable the outcomes of each arm are beside those of the others.

    Parameters
    ----------
    counts : Counts
        Complete outcomes, shape (N, 2, 2), each of full worth. Of fewer than ten arms nobody is named.
    alpha : float
        The chance that any arm is named if all are of the same population.

    Examples
    --------
    Twenty arms are alike. Another one is always well after a pull, and never otherwise:

    >>> visits = np.full((21, 2, 2), 10)
    >>> good = np.tile([[3, 4], [6, 7]], (21, 1, 1))
    >>> good[20] = [[0, 10], [0, 10]]
    >>> found = improbable(Counts(visits, good))
    >>> found.order, found.good_pulled[20], found.good_unpulled[20]
    (array([20]), np.int64(20), np.int64(0))
    """
    level = check_number("alpha", alpha, 0.0, 1.0, open_ends=True)
    if counts.visits.ndim != 3:
        raise InputError(f"counts must be of one set of arms, shape (N, 2, 2), got {counts.visits.shape}")
    visits, good = (np.asarray(each.sum(axis=-2)) for each in (counts.visits, counts.good))
    by_action = visits[:, 1], good[:, 1], visits[:, 0], good[:, 0]
    return Improbable(_log_evidence(counts), level, *by_action)


def _log_evidence(counts: Counts) -> FloatArray:
    """Return the logarithm of each arm's e-value, with a prior that is fitted to arms of other folds."""
    N = counts.n_arms
    found = np.zeros(N)
    if N < FEWEST:
        return found
    fold = np.arange(N) % _FOLDS
    for each in range(_FOLDS):
        inside, outside = (Counts(counts.visits[at], counts.good[at]) for at in (fold == each, fold != each))
        found[fold == each] = _like_none(inside) - _under(_of_several(fit_prior(outside), outside), inside)
    return found


def _of_several(prior: Prior, counts: Counts) -> Prior:
    """Return a prior without the classes that rest on one or two of these arms."""
    kept = prior.posterior(counts).weights.sum(axis=0) >= _FEWEST_ALIKE
    if kept.all() or not kept.any():
        return prior
    return Prior(prior.weights[kept] / prior.weights[kept].sum(), prior.good[kept], prior.bad[kept])


def _under(prior: Prior, counts: Counts) -> FloatArray:
    """Return the log probability of each arm's outcomes if it is like the others, shape (N,)."""
    found = [_at(prior, counts, person, call) + weight for person, call, weight in _SHIFTS]
    return np.maximum(_at(prior, counts, 0.0, 0.0), np.logaddexp.reduce(found, axis=0))


def _at(prior: Prior, counts: Counts, person: float, call: float) -> FloatArray:
    """Return the log probability of each arm's outcomes under a prior whose means are moved, in log odds."""
    size = prior.good + prior.bad
    moved = (prior.good / prior.bad) * np.exp(person + np.array([0.0, call]))
    good = size * moved / (1 + moved)
    bad = size - good
    cells = log_beta(good + counts.good[:, None], bad + (counts.visits - counts.good)[:, None]) - log_beta(good, bad)
    return np.asarray(np.logaddexp.reduce(cells.sum(axis=(-2, -1)) + np.log(prior.weights), axis=-1))


def _like_none(counts: Counts) -> FloatArray:
    """Return the log probability of each arm's outcomes if it is like no other, shape (N,)."""
    good, visits = counts.good, counts.visits
    any_ = _from_beta(good, visits).sum(axis=(-2, -1))
    by_action = _from_beta(good.sum(axis=-2), visits.sum(axis=-2)).sum(axis=-1)
    exceptions = good[..., 0].sum(axis=-1) + (visits - good)[..., 1].sum(axis=-1)
    as_pulled = _from_beta(exceptions, visits.sum(axis=(-2, -1)), 20.0)
    return np.asarray(np.logaddexp.reduce([any_, by_action, as_pulled], axis=0) - math.log(3))


def _from_beta(good: AnyArray, visits: AnyArray, bad: float = 0.5) -> FloatArray:
    """Return the log probability of outcomes of which a part is good that is drawn from Beta(1/2, bad)."""
    return log_beta(good + 0.5, visits - good + bad) - log_beta(np.asarray(0.5), np.asarray(bad))
