r"""Classes of arms whose weights depend on features: EM with a penalised multinomial logit.

The model of :mod:`meritfair.model.posterior`, with a weight of each class that is an arm's own,

.. math::
    w_c(x_i) = \frac{e^{\beta_{0c} + \beta_c \cdot x_i}}{\sum_d e^{\beta_{0d} + \beta_d \cdot x_i}} ,

where :math:`x_i` are the arm's features as numbers, 0 for an average arm. EM climbs

.. math::
    \sum_i \log \sum_c w_c(x_i) L_{ic} + \sum_c \log w_c(0) - \tfrac{\rho}{2} \sum_c |\beta_c|^2
    - \tfrac12 \sum_{c,s,a} (x^2 + y^2), \qquad
    L_{ic} = \prod_{s,a} \frac{B(\alpha_c + \text{good}_i, \beta_c + \text{bad}_i)}{B(\alpha_c, \beta_c)} ,

with the hyperprior of :mod:`meritfair.engine.pooling` on the Beta distributions, and its Dirichlet(2) on the weights of
an average arm: without features it is the same sum. The expectation is the probability of each class for each arm, r.
Given r the maximisation falls into two parts: a multinomial logit of r on x with a ridge penalty, which is concave and
solved by Newton's method; and one step of Newton's method for the Beta distributions, halved until the sum grows.

Gamma functions are taken once for each count that occurs, not for each arm: counts may be fractional.

References
----------
K. Lange, "A gradient algorithm locally equivalent to the EM algorithm", J. R. Statist. Soc. B 57 (1995). C. M. Dayton
and G. B. Macready, "Concomitant-variable latent-class models", J. Am. Statist. Assoc. 83 (1988).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import digamma, expit, gammaln, polygamma

from meritfair.core.arrays import FloatArray, IntArray
from meritfair.model.counts import Counts

_SCALE, _STRENGTH = 1.5, np.log(8.0)  # the hyperprior: standard deviation of logit m and log k, mean of log k
_STEPS = 60  # of EM, at most
_ENOUGH = 1e-3  # a step that gains less is the last one
_LONGEST = 1.0  # step in logit m and log k
_HALVINGS = 12
_LOGIT_STEPS = 50
_LOGIT_ENOUGH = 1e-9  # a step of the logit that gains less is its last one
_TINY = 1e-9


@dataclass(frozen=True)
class Classes:
    """Classes of arms: logit of the mean and logarithm of the strength, (C, 4), and coefficients, (1 + P, C)."""

    tilt: FloatArray
    strength: FloatArray
    coefficients: FloatArray

    @classmethod
    def of(cls, weights: FloatArray, good: FloatArray, bad: FloatArray, n_columns: int) -> Classes:
        """Return the classes of a prior, whose weights do not depend on features yet."""
        alpha, beta = good.reshape(-1, 4), bad.reshape(-1, 4)
        coefficients = np.zeros((1 + n_columns, len(weights)))
        coefficients[0] = np.log(weights) - np.log(weights).mean()
        return cls(np.log(alpha / beta), np.log(alpha + beta), coefficients)

    @property
    def parameters(self) -> tuple[FloatArray, FloatArray]:
        """Both parameters of the Beta distributions, (C, 4)."""
        k = np.exp(self.strength)
        return k * expit(self.tilt), k * expit(-self.tilt)

    def ordered(self, order: IntArray) -> Classes:
        """Return the classes in another order."""
        return Classes(self.tilt[order], self.strength[order], self.coefficients[:, order])


class _Numbers(NamedTuple):
    """The counts of one kind in one cell: those that occur, and which each arm has."""

    values: FloatArray  # (U,)
    places: IntArray  # (N,)


class Tally:
    """What was seen of arms, with each count once; a cell for each state and action."""

    def __init__(self, counts: Counts) -> None:
        visits, good = (np.asarray(each, np.float64).reshape(-1, 4) for each in (counts.visits, counts.good))
        self.n_arms = len(visits)
        self._kinds = tuple(
            tuple(_Numbers(*np.unique(kind[:, cell], return_inverse=True)) for cell in range(4))
            for kind in (good, visits - good, visits)
        )

    def evidence(self, classes: Classes) -> FloatArray:
        """Return the log-likelihood of each arm's counts under each class, log L, (N, C)."""
        alpha, beta = classes.parameters
        total = np.zeros((self.n_arms, len(alpha)))
        for start, kind, sign in zip((alpha, beta, alpha + beta), self._kinds, (1.0, 1.0, -1.0), strict=True):
            for cell, (values, places) in enumerate(kind):
                total += sign * _rise(gammaln, start[:, cell], values).T[places]
        return total

    def slopes(self, classes: Classes, r: FloatArray) -> tuple[tuple[FloatArray, FloatArray], ...]:
        """Return the sums over arms, by r, of both derivatives of log Gamma: from alpha, beta, alpha + beta; (C, 4)."""
        alpha, beta = classes.parameters
        found = []
        for start, kind in zip((alpha, beta, alpha + beta), self._kinds, strict=True):
            once, twice = np.empty_like(start), np.empty_like(start)
            for cell, (values, places) in enumerate(kind):
                often = np.array([np.bincount(places, weights, len(values)) for weights in r.T])
                once[:, cell] = (often * _rise(digamma, start[:, cell], values)).sum(axis=1)
                twice[:, cell] = -(often * _rise(_trigamma, start[:, cell], values)).sum(axis=1)
            found.append((once, twice))
        return tuple(found)


def _rise(function: Callable[[FloatArray], FloatArray], start: FloatArray, counts: FloatArray) -> FloatArray:
    """Return by how much a function rises from each start over each count, (C, U)."""
    return np.asarray(function(start[:, None] + counts) - function(start)[:, None])


def _trigamma(x: FloatArray) -> FloatArray:
    return np.asarray(polygamma(1, x))


# ---- weights


def log_weights(coefficients: FloatArray, x: FloatArray) -> FloatArray:
    """Return the logarithm of the weight of each class for each arm, (N, C)."""
    return _log_softmax(coefficients[0] + x @ coefficients[1:])


def fit_weights(
    evidence: FloatArray, x: FloatArray, ridge: float, start: FloatArray, enough: float = 0.01
) -> FloatArray:
    """Return the coefficients, (1 + P, C), that are best for classes that stay as they are.

    They maximise the first three terms of the sum in the docstring of this module, from `start`.
    """
    return _solved(lambda log_w: _expected(log_w, evidence), x, ridge, start, enough)


def fit_logit(
    r: FloatArray, x: FloatArray, ridge: float, start: FloatArray, enough: float = _LOGIT_ENOUGH
) -> FloatArray:
    r"""Return the coefficients, (1 + P, C), of a multinomial logit of probabilities of classes, (N, C), on features.

    They maximise :math:`\sum_{ic} r_{ic} \log w_c(x_i) + \sum_c \log w_c(0) - \rho |\beta|^2 / 2`.

    Examples
    --------
    >>> r = np.repeat([[0.9, 0.1], [0.2, 0.8]], 500, axis=0)
    >>> x = np.repeat([[-1.0], [1.0]], 500, axis=0)
    >>> coefficients = fit_logit(r, x, 1e-6, np.zeros((2, 2)))
    >>> np.exp(log_weights(coefficients, np.array([[-1.0], [1.0], [0.0]]))).round(2)
    array([[0.9, 0.1],
           [0.2, 0.8],
           [0.6, 0.4]])
    """
    return _solved(lambda log_w: (float((r * log_w).sum()), r), x, ridge, start, enough)


def _solved(
    scored: Callable[[FloatArray], tuple[float, FloatArray]],
    x: FloatArray,
    ridge: float,
    start: FloatArray,
    enough: float,
) -> FloatArray:
    """Return coefficients at which a step gains less than `enough`; log-weights are scored, by a sum and wanted r.

    Steps are those of Newton's method for given r, halved until the sum grows.
    """
    ones, coefficients, gain = np.column_stack([np.ones(len(x)), x]), start, np.inf
    log_w = _log_softmax(ones @ coefficients)
    total, r = scored(log_w)
    total += _log_penalty(coefficients, ridge)
    for _ in range(_LOGIT_STEPS):
        step = _logit_step(ones, coefficients, np.exp(log_w), r, ridge)
        for _ in range(_HALVINGS):
            log_w = _log_softmax(ones @ (coefficients + step))
            beyond, r = scored(log_w)
            gain = beyond + _log_penalty(coefficients + step, ridge) - total
            if gain >= 0:
                break
            step = 0.5 * step
        if not gain >= 0:
            break
        coefficients, total = coefficients + step, total + gain
        if gain < enough:
            break
    return coefficients


def _log_penalty(coefficients: FloatArray, ridge: float) -> float:
    """Return the log-density of coefficients but for a constant."""
    return float(_log_softmax(coefficients[:1]).sum() - 0.5 * ridge * (coefficients[1:] ** 2).sum())


def logit_gradient(x: FloatArray, coefficients: FloatArray, r: FloatArray, ridge: float) -> FloatArray:
    """Return the gradient of what `fit_logit` maximises, (1 + P, C)."""
    ones = np.column_stack([np.ones(len(x)), x])
    return _gradient(ones, coefficients, np.exp(_log_softmax(ones @ coefficients)), r, ridge)


def _gradient(ones: FloatArray, coefficients: FloatArray, w: FloatArray, r: FloatArray, ridge: float) -> FloatArray:
    gradient = ones.T @ (r - w)
    gradient[0] += 1.0 - w.shape[1] * _average(coefficients)
    gradient[1:] -= ridge * coefficients[1:]
    return np.asarray(gradient)


def _average(coefficients: FloatArray) -> FloatArray:
    """Return the weight of each class for an average arm, (C,)."""
    return np.asarray(np.exp(_log_softmax(coefficients[:1]))[0])


def _logit_step(ones: FloatArray, coefficients: FloatArray, w: FloatArray, r: FloatArray, ridge: float) -> FloatArray:
    """Return the step of Newton's method, (1 + P, C)."""
    width, n = coefficients.shape
    average = _average(coefficients)
    curvature = np.zeros((n, width, n, width))
    for c in range(n):
        for d in range(c, n):
            block = ones.T @ ((w[:, c] * ((c == d) - w[:, d]))[:, None] * ones)
            block[0, 0] += n * average[c] * ((c == d) - average[d]) + 1.0 / n  # the last: all intercepts may move alike
            curvature[c, :, d] = curvature[d, :, c] = block
    flat = curvature.reshape(n * width, n * width)
    diagonal = flat.reshape(-1)[:: n * width + 1].reshape(n, width)
    diagonal[:, 0] += _TINY
    diagonal[:, 1:] += ridge + _TINY
    gradient = _gradient(ones, coefficients, w, r, ridge)
    return np.asarray(np.linalg.solve(flat, gradient.T.ravel())).reshape(n, width).T


def _log_softmax(z: FloatArray) -> FloatArray:
    """Return the logarithm of softmax along the rows, (N, C)."""
    return np.asarray(z - _log_sum(z)[:, None])


def _log_sum(z: FloatArray) -> FloatArray:
    """Return log sum exp along the rows, (N, C); they are short, so that columns are quicker to go along."""
    top = functools.reduce(np.maximum, z.T)
    return np.asarray(top + np.log(np.exp(z - top[:, None]) @ np.ones(z.shape[1])))


def log_likelihoods(log_w: FloatArray, evidence: FloatArray) -> FloatArray:
    """Return the log-likelihood of each arm, from those of the classes and their weights, (N,)."""
    return _log_sum(log_w + evidence)


def _expected(log_w: FloatArray, evidence: FloatArray) -> tuple[float, FloatArray]:
    """Return the log-likelihood, and the probability of each class for each arm."""
    each = log_w + evidence
    total = _log_sum(each)
    return float(total.sum()), np.exp(each - total[:, None])


# ---- EM


def height(tally: Tally, x: FloatArray, classes: Classes, ridge: float) -> float:
    """Return what EM climbs."""
    return _expect(tally, x, classes, ridge)[0]


def _expect(tally: Tally, x: FloatArray, classes: Classes, ridge: float) -> tuple[float, FloatArray]:
    """Return the height, and the probability of each class for each arm."""
    likelihood, r = _expected(log_weights(classes.coefficients, x), tally.evidence(classes))
    return likelihood + _log_hyperprior(classes, ridge), r


def climb(
    tally: Tally, x: FloatArray, classes: Classes, ridge: float, *, steps: int = _STEPS, enough: float = _ENOUGH
) -> tuple[Classes, list[float]]:
    """Take steps of EM; return where they lead, and the height before and after each."""
    last, r = _expect(tally, x, classes, ridge)
    heights = [last]
    for _ in range(steps):
        coefficients = fit_logit(r, x, ridge, classes.coefficients)
        to_tilt, to_strength = _newton(classes, tally.slopes(classes, r))
        for halving in range(_HALVINGS):
            part = 0.5**halving
            beyond = Classes(classes.tilt + part * to_tilt, classes.strength + part * to_strength, coefficients)
            here, r = _expect(tally, x, beyond, ridge)
            if here >= last:
                break
        if here < last:  # by rounding alone
            break
        classes, gain, last = beyond, here - last, here
        heights.append(here)
        if gain < enough:
            break
    return classes, heights


def _log_hyperprior(classes: Classes, ridge: float) -> float:
    """Return the log-density of the parameters but for a constant."""
    x, y = classes.tilt / _SCALE, (classes.strength - _STRENGTH) / _SCALE
    return _log_penalty(classes.coefficients, ridge) - 0.5 * float((x**2 + y**2).sum())


def _newton(classes: Classes, slopes: tuple[tuple[FloatArray, FloatArray], ...]) -> tuple[FloatArray, FloatArray]:
    """Return the step in logit m and log k, (C, 4), with the absolute values of the curvature."""
    (up, up_2), (down, down_2), (both, both_2) = slopes
    alpha, beta = classes.parameters
    k, m = alpha + beta, expit(classes.tilt)
    q = k * m * (1 - m)  # derivative of alpha by logit m
    by_tilt, by_strength = q * (up - down), alpha * up + beta * down - k * both
    h_tilt = q**2 * (up_2 + down_2) - (1 - 2 * m) * by_tilt
    h_strength = alpha**2 * up_2 + beta**2 * down_2 - k**2 * both_2 - by_strength
    h_both = q * (alpha * up_2 - beta * down_2) - by_tilt
    information = _SCALE**2 * np.stack([np.stack([h_tilt, h_both], -1), np.stack([h_both, h_strength], -1)], -1)
    values, vectors = np.linalg.eigh(information)
    curvature = np.einsum("...ij,...j,...kj->...ik", vectors, 1 + np.abs(values), vectors)
    pull = _SCALE**2 * np.stack([by_tilt, by_strength], -1)
    pull -= np.stack([classes.tilt, classes.strength - _STRENGTH], axis=-1)
    step = np.linalg.solve(curvature, pull[..., None])[..., 0]
    step *= _LONGEST / np.maximum(_LONGEST, np.abs(step).max(axis=-1, keepdims=True))
    return step[..., 0], step[..., 1]
