r"""Arms under a mixture of normal distributions over the logits of their probabilities: sweeps of a Gibbs sampler.

The model is that of :mod:`meritfair.model.logit_normal`. The *coordinates* of an arm are, for each state, the logit of
its probability without a pull and what a pull adds to that logit,

.. math:: u = (\ell_{00},\; \ell_{01} - \ell_{00},\; \ell_{10},\; \ell_{11} - \ell_{10}), \qquad
    \ell_{sa} = \text{logit} P(s, a) .

A sweep draws, in turn,

1. the classes given the arms, all from known distributions: :math:`\Sigma_c` from an inverse Wishart, its scales b from
   gammas, :math:`m_c` from a normal, the weights from a Dirichlet distribution;
2. of each arm the states in its gaps given its probabilities, its class given u, and u by *elliptical slice sampling*:
   with a normal draw v of mean 0 from its class, the ellipse :math:`m + (u - m) \cos\theta + v \sin\theta` is cut
   until a point is found whose likelihood exceeds the slice;
3. each class with all its arms: the mean of a coordinate is *shifted*, and then its standard deviation *stretched*,
   and the arms move along (Metropolis–Hastings). Where little was seen of each arm, a class would follow its arms and
   arms their class, in tiny steps; these two moves are as long as the data allow.

For the second move, with factor s, the prior of u cancels the Jacobian, and what remains beside the likelihoods is that
of the inverse Wishart distribution, :math:`-5 \log s - 2\, b_k (\Sigma^{-1})_{kk} (s^{-2} - 1)`. Lengths of steps are
themselves random, between 0.03 and 1, so there is nothing to tune.

References
----------
I. Murray, R. P. Adams and D. J. C. MacKay, "Elliptical slice sampling", AISTATS 2010.
Y. Yu and X.-L. Meng, "To center or not to center: an ancillarity–sufficiency interweaving strategy", Journal of
Computational and Graphical Statistics 20 (2011).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from meritfair.core.arrays import FloatArray, IntArray, WordArray
from meritfair.engine.compiling import kernel, part
from meritfair.engine.gaps import BAD, GOOD, GapArrays, draw_gap
from meritfair.engine.options import draw_gamma
from meritfair.engine.random import open_uniform, uniform

SPREAD = 2.5  # prior standard deviation of the means of classes
FREEDOM, WIDTH = 2.0, 2.0  # of the half-t distributions of standard deviations within a class
_TURN = 2.0 * math.pi
_TINY = 1e-300
_SHORTEST = math.log(0.03)  # step of a shift or stretch


class LogitChain(NamedTuple):
    """One chain of the sampler."""

    coordinates: FloatArray  # (N, 4)
    which: IntArray  # (N,), the class of each arm
    filled: FloatArray  # (N, 2, 4), outcomes with those drawn in gaps
    log_weights: FloatArray  # (C,)
    means: FloatArray  # (C, 4)
    scales: FloatArray  # (C, 4), b
    precisions: FloatArray  # (C, 4, 4), the inverse of each covariance
    factors: FloatArray  # (C, 4, 4), Cholesky factors of the covariances


class LogitRoom(NamedTuple):
    """Room to work in."""

    ahead: FloatArray  # (longest gap,)
    point: FloatArray  # (4,)
    first: FloatArray  # (4,)
    second: FloatArray  # (4,)
    matrices: FloatArray  # (4, 4, 4)


def new_room(gap: FloatArray) -> LogitRoom:
    """Return room for sweeps, given that for the rounds of the longest gap."""
    return LogitRoom(gap, np.empty(4), np.empty(4), np.empty(4), np.empty((4, 4, 4)))


@kernel
def sweep(
    chain: LogitChain,
    gaps: GapArrays,
    seen: FloatArray,
    room: LogitRoom,
    rng: WordArray,
    arms: IntArray,
    sweeps: int,
    alpha: float,
) -> None:
    """Move the classes and these arms on by that many sweeps, in place.

    `seen` (N, 2, 4) are complete outcomes, `alpha` is the parameter of the Dirichlet distribution.
    """
    for _ in range(sweeps):
        for c in range(len(chain.means)):
            number = _add_up(chain, c, arms, room)
            _draw_covariance(chain, c, number, room, rng)
            _draw_mean(chain, c, number, room, rng)
            chain.log_weights[c] = math.log(max(draw_gamma(alpha + number, rng), _TINY))
        for arm in arms:
            _draw_arm(chain, arm, gaps, seen, room, rng)
        for c in range(len(chain.means)):
            for k in range(4):
                _shift(chain, c, k, arms, rng)
                _stretch(chain, c, k, arms, rng)


@kernel
def move_arms(
    chain: LogitChain,
    gaps: GapArrays,
    seen: FloatArray,
    room: LogitRoom,
    rng: WordArray,
    arms: IntArray,
    turns: int,
) -> None:
    """Move these arms on, with the classes as they are."""
    for arm in arms:
        for _ in range(turns):
            _draw_arm(chain, arm, gaps, seen, room, rng)


# ---- classes given arms


@part
def _add_up(chain: LogitChain, c: int, arms: IntArray, room: LogitRoom) -> float:
    """Set the sum of the coordinates of a class's arms, and the matrix of their inverse Wishart; return how many."""
    total, scatter, number = room.first, room.matrices[0], 0.0
    for i in range(4):
        total[i] = 0.0
        for j in range(4):
            scatter[i, j] = 2.0 * FREEDOM * chain.scales[c, i] if i == j else 0.0
    for arm in arms:
        if chain.which[arm] == c:
            number += 1.0
            for i in range(4):
                total[i] += chain.coordinates[arm, i]
                for j in range(4):
                    scatter[i, j] += (chain.coordinates[arm, i] - chain.means[c, i]) * (
                        chain.coordinates[arm, j] - chain.means[c, j]
                    )
    return number


@part
def _draw_covariance(chain: LogitChain, c: int, number: float, room: LogitRoom, rng: WordArray) -> None:
    """Draw the covariance of a class, by Bartlett's decomposition, and then its scales.

    With the scatter L Lᵀ and a lower triangle T of normals and chi variables, the precision is
    (Tᵀ L⁻¹)ᵀ (Tᵀ L⁻¹) and the covariance (L T⁻ᵀ) (L T⁻ᵀ)ᵀ.
    """
    lower, inverse, triangle, half = room.matrices[0], room.matrices[1], room.matrices[2], room.matrices[3]
    _factorise(lower)
    for i in range(4):
        triangle[i, i] = math.sqrt(2.0 * draw_gamma((FREEDOM + 3.0 + number - i) / 2.0, rng))
        for j in range(4):
            if j != i:
                triangle[i, j] = _normal(rng) if j < i else 0.0
    _invert(lower, inverse)
    for i in range(4):
        for j in range(4):
            half[i, j] = 0.0
            for k in range(4):
                half[i, j] += triangle[k, i] * inverse[k, j]
    _square(half, chain.precisions[c])
    for k in range(4):
        rate = WIDTH**-2.0 + FREEDOM * chain.precisions[c, k, k]
        chain.scales[c, k] = draw_gamma((FREEDOM + 4.0) / 2.0, rng) / rate
    _invert(triangle, inverse)
    for i in range(4):
        for j in range(4):
            half[i, j] = 0.0
            for k in range(4):
                half[i, j] += inverse[i, k] * lower[j, k]
    _square(half, chain.factors[c])
    _factorise(chain.factors[c])


@part
def _draw_mean(chain: LogitChain, c: int, number: float, room: LogitRoom, rng: WordArray) -> None:
    """Draw the mean of a class given its covariance; the sum of its arms is in `room.first`."""
    total, right, precise, inverse = room.first, room.second, room.matrices[0], room.matrices[1]
    for i in range(4):
        right[i] = 0.0
        for j in range(4):
            right[i] += chain.precisions[c, i, j] * total[j]
            precise[i, j] = number * chain.precisions[c, i, j]
        precise[i, i] += SPREAD**-2.0
    _factorise(precise)
    _invert(precise, inverse)
    for i in range(4):  # the precision Q = R Rᵀ: the mean is R⁻ᵀ (R⁻¹ right + normals)
        total[i] = _normal(rng)
        for j in range(i + 1):
            total[i] += inverse[i, j] * right[j]
    for i in range(4):
        chain.means[c, i] = 0.0
        for j in range(i, 4):
            chain.means[c, i] += inverse[j, i] * total[j]


@part
def _factorise(matrix: FloatArray) -> None:
    """Replace a positive definite matrix by its Cholesky factor, a lower triangle."""
    for i in range(4):
        for j in range(4):
            if j > i:
                matrix[i, j] = 0.0
                continue
            rest = matrix[i, j]
            for k in range(j):
                rest -= matrix[i, k] * matrix[j, k]
            matrix[i, j] = math.sqrt(max(rest, 1e-24)) if i == j else rest / matrix[j, j]


@part
def _invert(lower: FloatArray, inverse: FloatArray) -> None:
    """Set the inverse of a lower triangle."""
    for j in range(4):
        for i in range(4):
            rest = 1.0 if i == j else 0.0
            for k in range(j, i):
                rest -= lower[i, k] * inverse[k, j]
            inverse[i, j] = rest / lower[i, i] if i >= j else 0.0


@part
def _square(half: FloatArray, product: FloatArray) -> None:
    """Set a matrix to the transpose of another times that."""
    for i in range(4):
        for j in range(4):
            product[i, j] = 0.0
            for k in range(4):
                product[i, j] += half[k, i] * half[k, j]


# ---- arms given classes


@part
def _draw_arm(chain: LogitChain, arm: int, gaps: GapArrays, seen: FloatArray, room: LogitRoom, rng: WordArray) -> None:
    """Draw the states in an arm's gaps, its class and its coordinates."""
    _fill(chain, arm, gaps, seen, room, rng)
    c = _draw_class(chain, chain.coordinates[arm], room.first, rng)
    chain.which[arm] = c
    _slice(chain.filled[arm], chain.means[c], chain.factors[c], chain.coordinates[arm], room, rng)


@part
def _fill(chain: LogitChain, arm: int, gaps: GapArrays, seen: FloatArray, room: LogitRoom, rng: WordArray) -> None:
    """Set the outcomes of an arm, of which those in gaps are drawn."""
    u, filled = chain.coordinates[arm], chain.filled[arm]
    for cell in range(4):
        filled[GOOD, cell], filled[BAD, cell] = seen[arm, GOOD, cell], seen[arm, BAD, cell]
        room.point[cell] = 1.0 / (1.0 + math.exp(-(u[cell] + u[cell - 1] if cell % 2 == 1 else u[cell])))
    for gap in range(gaps.bounds[arm], gaps.bounds[arm + 1]):
        draw_gap(gaps, gap, room.point, room.ahead, filled, rng)


@part
def _draw_class(chain: LogitChain, u: FloatArray, scaled: FloatArray, rng: WordArray) -> int:
    """Draw the class of an arm, given its coordinates: the largest of the log-odds with Gumbel noise."""
    best, highest = 0, -np.inf
    for c in range(len(chain.means)):
        odds = chain.log_weights[c] - math.log(-math.log(open_uniform(rng)))
        for i in range(4):
            rest = u[i] - chain.means[c, i]
            for j in range(i):
                rest -= chain.factors[c, i, j] * scaled[j]
            scaled[i] = rest / chain.factors[c, i, i]
            odds -= 0.5 * scaled[i] * scaled[i] + math.log(chain.factors[c, i, i])
        if odds > highest:
            best, highest = c, odds
    return best


@part
def _slice(
    counts: FloatArray, mean: FloatArray, factor: FloatArray, u: FloatArray, room: LogitRoom, rng: WordArray
) -> None:
    """Draw the coordinates of an arm of a class from their posterior, from where they are, by elliptical slices."""
    across, tried = room.first, room.second
    for i in range(4):
        tried[i] = _normal(rng)
    for i in range(4):
        across[i] = 0.0
        for j in range(i + 1):
            across[i] += factor[i, j] * tried[j]
    least = log_likelihood(u, counts) + math.log(open_uniform(rng))
    angle = _TURN * uniform(rng)
    low, high = angle - _TURN, angle
    while True:
        for i in range(4):
            tried[i] = mean[i] + (u[i] - mean[i]) * math.cos(angle) + across[i] * math.sin(angle)
        if high - low < 1e-12 or log_likelihood(tried, counts) >= least:  # at angle 0 it is where it was
            break
        if angle < 0.0:
            low = angle
        else:
            high = angle
        angle = low + (high - low) * uniform(rng)
    for i in range(4):
        u[i] = tried[i]


@part
def log_likelihood(u: FloatArray, counts: FloatArray) -> float:
    """Return the logarithm of the probability of outcomes (2, 4), given the coordinates of their arm."""
    return _of_state(0, u[0], u[1], counts) + _of_state(1, u[2], u[3], counts)


@part
def _of_state(state: int, passive: float, added: float, counts: FloatArray) -> float:
    """Return the part of the log-likelihood that one state has."""
    return _of_cell(2 * state, passive, counts) + _of_cell(2 * state + 1, passive + added, counts)


@part
def _of_cell(cell: int, logit: float, counts: FloatArray) -> float:
    softplus = max(logit, 0.0) + math.log1p(math.exp(-abs(logit)))
    return counts[GOOD, cell] * logit - (counts[GOOD, cell] + counts[BAD, cell]) * softplus


# ---- classes with their arms


@part
def _shift(chain: LogitChain, c: int, k: int, arms: IntArray, rng: WordArray) -> None:
    """Move the mean of a coordinate, and all arms of the class with it."""
    mean = chain.means[c, k]
    step = _step(rng)
    gain = (mean**2 - (mean + step) ** 2) / (2.0 * SPREAD**2) + _gain(chain, c, k, arms, step, 1.0)
    if math.log(open_uniform(rng)) < gain:
        _move(chain, c, k, arms, step, 1.0)
        chain.means[c, k] = mean + step


@part
def _stretch(chain: LogitChain, c: int, k: int, arms: IntArray, rng: WordArray) -> None:
    """Multiply the standard deviation of a coordinate, and how far all arms of the class are from its mean."""
    length = _step(rng)
    factor = math.exp(length)
    gain = -5.0 * length - FREEDOM * chain.scales[c, k] * chain.precisions[c, k, k] * (factor**-2.0 - 1.0)
    gain += _gain(chain, c, k, arms, 0.0, factor)
    if math.log(open_uniform(rng)) < gain:
        _move(chain, c, k, arms, 0.0, factor)
        for i in range(4):
            chain.factors[c, k, i] *= factor
            chain.precisions[c, k, i] /= factor
            chain.precisions[c, i, k] /= factor


@part
def _gain(chain: LogitChain, c: int, k: int, arms: IntArray, step: float, factor: float) -> float:
    """Return what the log-likelihood of a class's arms gains by a move of one coordinate."""
    state, gain = k // 2, 0.0
    for arm in arms:
        if chain.which[arm] == c:
            u, counts = chain.coordinates[arm], chain.filled[arm]
            moved = chain.means[c, k] + factor * (u[k] - chain.means[c, k]) + step
            passive, added = (moved, u[k + 1]) if k % 2 == 0 else (u[k - 1], moved)
            gain += _of_state(state, passive, added, counts) - _of_state(state, u[2 * state], u[2 * state + 1], counts)
    return gain


@part
def _move(chain: LogitChain, c: int, k: int, arms: IntArray, step: float, factor: float) -> None:
    for arm in arms:
        if chain.which[arm] == c:
            far = chain.coordinates[arm, k] - chain.means[c, k]
            chain.coordinates[arm, k] = chain.means[c, k] + factor * far + step


@part
def _step(rng: WordArray) -> float:
    """Return a step of random length."""
    return math.exp(_SHORTEST * uniform(rng)) * _normal(rng)


@part
def _normal(rng: WordArray) -> float:
    return math.sqrt(-2.0 * math.log(open_uniform(rng))) * math.cos(_TURN * uniform(rng))
