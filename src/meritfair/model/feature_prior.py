r"""A prior that knows features: which class a newcomer probably belongs to, before anything was seen of it.

The model is that of :mod:`meritfair.model.class_weights`. What is used is decided by **held-out likelihood**: arms are
divided into five parts, each part is predicted by a fit to the other four, and what counts is the sum of
:math:`\log \sum_c w_c(x_i) L_{ic}` over all arms. One choice is *better* than another if this sum is larger by more
than the standard error of the difference. With each number of classes, features are added one by one, always the one
that gains most, as long as that is better; then the ridge penalty is chosen. The number of classes is that which there
is most evidence for without features, unless another one is better by one and a half standard errors. If the result is
not better than the prior without features, that prior is taken, to the last bit: so a feature that tells nothing
changes nothing.

*Departures.* While features are compared the classes of each part are those without features, which saves most of the
time; then classes and coefficients are fitted together. Of many arms, only every second, third, … of those sorted by
counts and features are used: at most 1,000 to compare, 2,000 for the final fit. So 10,000 arms take no longer. Nothing
is drawn, and the order of arms does not matter.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from meritfair.core.arrays import BoolArray, FloatArray, IntArray, frozen
from meritfair.core.errors import InputError
from meritfair.model.class_weights import Classes, Tally, climb, fit_weights, log_likelihoods, log_weights
from meritfair.model.counts import Counts
from meritfair.model.features import Encoding, Features
from meritfair.model.posterior import Posterior, Prior, fit_prior

_Prior: TypeAlias = "tuple[FloatArray, FloatArray, FloatArray]"  # weights and both parameters

_PARTS = 5
_LEAST_ARMS = 2 * _PARTS  # of which something was seen, for features to be compared
_COMPARED, _FITTED = 1000, 2000  # arms, at most
_USUAL_RIDGE = 1.0
_OTHER_RIDGES = (0.3, 3.0, 10.0)
_MARGIN, _CLASS_MARGIN = 1.0, 1.5  # standard errors


@dataclass(frozen=True, init=False, eq=False)
class PriorOfArms(Prior):
    """A prior of some arms, each of which has weights of its own.

    Parameters
    ----------
    prior : Prior
        The classes.
    arm_weights : ndarray, shape (N, C)
        The probability of each class for each arm, before anything was seen of it.
    """

    arm_weights: FloatArray

    def __init__(self, prior: Prior, arm_weights: FloatArray) -> None:
        super().__init__(prior.weights, prior.good, prior.bad)
        object.__setattr__(self, "arm_weights", frozen(arm_weights))

    def posterior(self, counts: Counts) -> Posterior:
        """Return what is known of the arms after the counts, shape (N, 2, 2)."""
        if counts.visits.shape != (len(self.arm_weights), 2, 2):
            raise InputError(f"counts must be of the {len(self.arm_weights)} arms, got shape {counts.visits.shape}")
        with np.errstate(divide="ignore"):
            return self._posterior(counts, np.log(self.arm_weights))


@dataclass(frozen=True, init=False, eq=False)
class FeaturePrior(Prior):
    """A mixture of classes of arms, whose weights depend on features.

    Parameters
    ----------
    weights, good, bad
        As of `Prior`; the weights are those of an arm of which no feature is known.
    encoding : Encoding
        How features become numbers; that of the features which are used.
    coefficients : array_like, shape (P, C)
        By how much a unit of each column adds to the logarithm of a weight.
    gains : mapping of str to float
        For each feature that was considered, by how much it raises the held-out log-likelihood.

    Examples
    --------
    Fifty arms of two kinds. The feature tells nine times in ten of which kind an arm is:

    >>> from meritfair import Counts, Features
    >>> good = np.repeat([[[1, 2], [2, 3]], [[6, 7], [7, 8]]], [30, 20], axis=0)
    >>> area = (["north"] * 27 + ["south"] * 3) + (["south"] * 18 + ["north"] * 2)
    >>> prior = fit_feature_prior(Counts(np.full(good.shape, 8), good), Features({"area": area}))
    >>> newcomers = Features({"area": ["north", "south", "east"]})
    >>> prior.weights_of(newcomers).round(1)
    array([[0.9, 0.1],
           [0.2, 0.8],
           [0.7, 0.3]])
    >>> prior.posterior(Counts.none(3), newcomers).mean[:, 0, 0].round(2)
    array([0.18, 0.65, 0.34])
    """

    encoding: Encoding
    coefficients: FloatArray
    gains: Mapping[str, float]

    def __init__(
        self,
        weights: npt.ArrayLike,
        good: npt.ArrayLike,
        bad: npt.ArrayLike,
        encoding: Encoding,
        coefficients: npt.ArrayLike,
        gains: Mapping[str, float] | None = None,
    ) -> None:
        super().__init__(weights, good, bad)
        given = frozen(np.asarray(coefficients, np.float64))
        shape = (len(encoding.columns), self.classes)
        if given.shape != shape or not np.isfinite(given).all():
            raise InputError(f"coefficients must be finite numbers of shape {shape}, got shape {given.shape}")
        object.__setattr__(self, "encoding", encoding)
        object.__setattr__(self, "coefficients", given)
        object.__setattr__(self, "gains", dict(gains or {}))

    @property
    def used(self) -> tuple[str, ...]:
        """The features that are used."""
        return self.encoding.names

    def weights_of(self, features: Features) -> FloatArray:
        """Return the probability of each class for arms of which only the features are known, shape (N, C)."""
        if not self.used:
            return np.tile(self.weights, (features.n_arms, 1))
        with np.errstate(divide="ignore"):
            coefficients = np.vstack([np.log(self.weights), self.coefficients])
        return np.exp(log_weights(coefficients, self.encoding.encode(features)))

    def of(self, features: Features) -> Prior:
        """Return the prior of arms with these features, which has weights for each."""
        return PriorOfArms(self, self.weights_of(features)) if self.used else Prior(self.weights, self.good, self.bad)

    def posterior(self, counts: Counts, features: Features | None = None) -> Posterior:
        """Return what is known after the counts, shape (N, 2, 2), of arms with these features."""
        return super().posterior(counts) if features is None else self.of(features).posterior(counts)


def fit_feature_prior(counts: Counts, features: Features, max_classes: int = 4) -> FeaturePrior:
    """Return the prior of `fit_prior` with those features that tell of which class an arm is, if there are any.

    Parameters
    ----------
    counts : Counts
        What was seen of the arms, shape (N, 2, 2). Of some of them nothing may have been seen.
    features : Features
        What else is known of the arms.
    max_classes : int
        Most classes to look for.
    """
    if features.n_arms != counts.n_arms:
        raise InputError(f"features must be of the {counts.n_arms} arms, got those of {features.n_arms}")
    encoding = Encoding.of(features)
    arms = _Arms.of(counts, encoding, features, max_classes)
    if arms is None or not arms.numbers:
        return _without(fit_prior(counts, max_classes), dict.fromkeys(features.names, 0.0))
    best, *others = (_Candidate(arms, n).grown() for n in arms.numbers)
    for other in others:
        best = other if _beats(other.scores, best.scores, _CLASS_MARGIN) else best
    gains = best.gains()
    if not best.used or not _beats(best.scores, arms.base_scores):
        return _without(fit_prior(counts, max_classes), gains)
    return best.fitted(gains)


def _without(base: Prior, gains: Mapping[str, float]) -> FeaturePrior:
    """Return a prior that uses no feature."""
    return FeaturePrior(base.weights, base.good, base.bad, Encoding((), ()), np.zeros((0, base.classes)), gains)


def _beats(new: FloatArray, old: FloatArray, margin: float = _MARGIN) -> bool:
    """Whether the scores of arms are better together, by more than so many standard errors of the difference."""
    gain = new - old
    return bool(gain.sum() > margin * np.sqrt(len(gain)) * gain.std() + 1e-9)


@dataclass(frozen=True)
class _Part:
    """One part of the arms, and what the others say of classes."""

    out: IntArray  # the arms held out
    rest: IntArray
    preferred: int  # how many classes there is most evidence for without features
    base: FloatArray  # the score of each held-out arm by the prior without features
    start: Mapping[int, tuple[FloatArray, FloatArray, FloatArray]]  # by number of classes: weights, log L of both kinds

    @classmethod
    def of(cls, counts: Counts, out: IntArray, max_classes: int) -> _Part:
        rest = np.setdiff1d(np.arange(counts.n_arms), out)
        priors = _priors(_only(counts, rest), max_classes)
        held, others = Tally(_only(counts, out)), Tally(_only(counts, rest))
        start = {}
        for n, prior in priors.items():
            classes = Classes.of(*prior, 0)
            start[n] = prior[0], held.evidence(classes), others.evidence(classes)
        chosen = start.pop(0)
        return cls(out, rest, len(chosen[0]), log_likelihoods(np.log(chosen[0]), chosen[1]), start)


@dataclass(frozen=True)
class _Arms:
    """The arms that are compared, and those that are fitted in the end; both sorted."""

    x: FloatArray
    encoding: Encoding
    parts: tuple[_Part, ...]
    fitted: tuple[Counts, FloatArray]
    priors: Mapping[int, _Prior]  # of these, without features, by number of classes

    @classmethod
    def of(cls, counts: Counts, encoding: Encoding, features: Features, max_classes: int) -> _Arms | None:
        """Return them, or None if they are too few."""
        seen = np.flatnonzero(counts.visits.sum(axis=(1, 2)) > 0)
        if len(seen) < _LEAST_ARMS:
            return None
        own, x = _only(counts, seen), encoding.encode(features)[seen]
        order = np.lexsort([*x.T, *own.visits.reshape(len(seen), 4).T, *own.good.reshape(len(seen), 4).T])
        few, many = (order[:: -(-len(order) // most)] for most in (_COMPARED, _FITTED))
        compared, part = _only(own, few), np.arange(len(few)) % _PARTS
        parts = tuple(_Part.of(compared, np.flatnonzero(part == each), max_classes) for each in range(_PARTS))
        fitted = _only(own, many)
        return cls(x[few], encoding, parts, (fitted, x[many]), _priors(fitted, max_classes))

    @property
    def numbers(self) -> list[int]:
        """The numbers of classes from 2 that were tried everywhere; first what most parts prefer without features."""
        common = set(self.priors).intersection(*(part.start for part in self.parts)) - {1}
        return sorted(common, key=lambda n: (-sum(part.preferred == n for part in self.parts), n))

    @property
    def base_scores(self) -> FloatArray:
        """The score of each arm by the prior without features, (N,)."""
        scores = np.empty(len(self.x))
        for part in self.parts:
            scores[part.out] = part.base
        return scores

    def chosen(self, used: tuple[str, ...]) -> BoolArray:
        """Return which columns are those of some features."""
        return np.array([column.feature in used for column in self.encoding.columns], np.bool_)

    def scores(self, n: int, used: tuple[str, ...], ridge: float) -> FloatArray:
        """Return the held-out score of each arm with n classes and these features, (N,)."""
        scores, x = np.empty(len(self.x)), self.x[:, self.chosen(used)]
        for part in self.parts:
            weights, held, others = part.start[n]
            coefficients = np.zeros((1 + x.shape[1], n))
            coefficients[0] = np.log(weights)
            if used:
                coefficients = fit_weights(others, x[part.rest], ridge, coefficients)
            scores[part.out] = log_likelihoods(log_weights(coefficients, x[part.out]), held)
        return scores


class _Candidate:
    """A number of classes with the features that help."""

    def __init__(self, arms: _Arms, n: int) -> None:
        self.arms, self.n = arms, n
        self.used: tuple[str, ...] = ()
        self.ridge = _USUAL_RIDGE
        self.scores = arms.scores(n, (), _USUAL_RIDGE)
        self.left_over: dict[str, float] = {}  # what each feature that is not used would gain

    @property
    def total(self) -> float:
        return float(self.scores.sum())

    def grown(self) -> _Candidate:
        """Add features as long as they help, then choose the ridge penalty."""
        while left := [name for name in self.arms.encoding.names if name not in self.used]:
            tried = {name: self.arms.scores(self.n, (*self.used, name), self.ridge) for name in left}
            best = max(tried, key=lambda name: tried[name].sum())
            if not _beats(tried[best], self.scores):
                self.left_over = {name: float(scores.sum()) - self.total for name, scores in tried.items()}
                break
            self.used, self.scores = (*self.used, best), tried[best]
        for ridge in _OTHER_RIDGES if self.used else ():
            scores = self.arms.scores(self.n, self.used, ridge)
            if scores.sum() > self.total:
                self.ridge, self.scores = ridge, scores
        return self

    def gains(self) -> dict[str, float]:
        """Return for each feature by how much the held-out log-likelihood is larger with it than without."""
        found = dict(self.left_over)
        for name in self.used:
            others = tuple(each for each in self.used if each != name)
            found[name] = self.total - float(self.arms.scores(self.n, others, self.ridge).sum())
        return {name: found[name] for name in self.arms.encoding.names}

    def fitted(self, gains: Mapping[str, float]) -> FeaturePrior:
        """Return the prior, with classes and coefficients fitted together."""
        (counts, x), encoding = self.arms.fitted, self.arms.encoding.only(self.used)
        x = x[:, self.arms.chosen(self.used)]
        start = Classes.of(*self.arms.priors[self.n], x.shape[1])
        found, _ = climb(Tally(counts), x, start, self.ridge)
        common = np.exp(log_weights(found.coefficients, x)).mean(axis=0)
        found = found.ordered(np.argsort(-common, kind="stable"))
        good, bad = (each.reshape(-1, 2, 2) for each in found.parameters)
        weights = np.exp(log_weights(found.coefficients[:1], np.zeros((1, 0))))[0]
        return FeaturePrior(weights / weights.sum(), good, bad, encoding, found.coefficients[1:], gains)


def _only(counts: Counts, arms: IntArray) -> Counts:
    return Counts(counts.visits[arms], counts.good[arms])


def _priors(counts: Counts, max_classes: int) -> dict[int, _Prior]:
    """Return the prior without features of each number of classes that there is evidence for, and as 0 the best."""
    from meritfair.engine.pooling import fitted_by_number, fitted_prior, new_pool, pool  # takes a second to load

    room = new_pool(counts.n_arms, max_classes)
    visits, good = (np.array(x.transpose(1, 2, 0), np.float64, order="C") for x in (counts.visits, counts.good))
    pool(room, visits, good, np.empty_like(visits), True)
    return fitted_by_number(room) | {0: fitted_prior(room)}
