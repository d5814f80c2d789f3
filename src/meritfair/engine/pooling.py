r"""What all arms together say of each: a prior of latent classes by EM, of as many as there is evidence for.

The model is that of :mod:`meritfair.model.posterior`. A class has a weight :math:`w_c` and, for each (s, a), a Beta
distribution of mean :math:`m` and strength :math:`k`: :math:`\alpha = k m`, :math:`\beta = k (1 - m)`. EM climbs

.. math::
    \log L + \sum_c \Big[ \log w_c - \tfrac12 \sum_{s,a} (x_c^2 + y_c^2) \Big], \qquad
    L = \prod_i \sum_c w_c \prod_{s,a}
    \frac{B(\alpha_c + \text{good}_i, \beta_c + \text{bad}_i)}{B(\alpha_c, \beta_c)} ,

the likelihood under a weak hyperprior that keeps everything bounded: Dirichlet(2) for the weights, and independent
normal :math:`x = \text{logit}(m) / 1.5` and :math:`y = \log(k / 8) / 1.5`, so that means may be anywhere and arms of
one class are somewhat alike. The expectation is the chance of each class for each arm. The maximisation is one step
of Newton's method in (x, y), with the absolute values of the curvature, halved until the sum grows. That is Lange's
EM gradient algorithm: where it ends it is as fast as EM, and both halves of a step cost the same.

How many classes there are, C, is decided by the evidence, as approximated by Cheeseman and Stutz:

.. math::
    \log L - \sum_c \Big[ \tfrac12 \sum_{s,a} \big( x_c^2 + y_c^2 + \log\det(I + H_c) \big) + n_c \log w_c \Big]
    + \log \frac{\Gamma(2C) \prod_c \Gamma(n_c + 2)}{\Gamma(N + 2C)} + \log C! .

:math:`n_c` is the expected number of arms in c, and :math:`H_c(s,a)` the information on (x, y) if classes were known,
its negative eigenvalues taken as 0. What was never seen costs nothing. The uniform prior is a candidate as well:
it has no parameters, so its evidence is its likelihood, and arms that have nothing in common are not pooled.

The fit of C classes starts from that of C - 1: each class in turn is split along the direction in which the posterior
means of its arms differ most, and the split with the most evidence is kept. Two more classes
without a gain end it.

References
----------
K. Lange, "A gradient algorithm locally equivalent to the EM algorithm", J. R. Statist. Soc. B 57 (1995).
P. Cheeseman and J. Stutz, "Bayesian classification (AutoClass): theory and results", Advances in Knowledge Discovery
and Data Mining (1996).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from meritfair.core.arrays import FloatArray, IntArray
from meritfair.engine.compiling import inlined, part, stage
from meritfair.engine.gammas import ROOM, TABLE, log_rise, rises, tabulate_logs, tabulate_slopes

MAX_CLASSES = 4
_SCALE = 1.5  # standard deviation of logit m and of log k under the hyperprior
_STRENGTH = math.log(8.0)  # the hyperprior's mean of log k
_UNIFORM = math.log(2.0)  # log k of Beta(1, 1)
_STEPS = 60  # of EM, at most
_ENOUGH = 1e-3  # a step that gains less is the last one
_LONGEST = 1.0  # step in logit m and log k
_HALVINGS = 10
_PATIENCE = 50.0  # how often the last gain may come again, for evidence to be in reach
_SHARPNESS = 4.0  # how fast chances go from one half of a split to the other, in standard deviations
_TURNS = 16  # of power iteration
_ALIKE = 1e-9  # standard deviation below which arms are not split
_TINY = 1e-300
# A class is a row of nine numbers: its weight, then logit m and log k for each of the four (s, a), the cells.
_WEIGHT = 0
_COLUMNS = 9
STAYS = 1  # in `facts`
# Versions of the classes: what EM is at, its step, one class less, the best of this number, the best of all.
_NOW, _STEP, _FEWER, _TRIED, _BEST = range(5)
# Rows of `axes`, by cell: alpha and alpha + beta of a class, its centre, an arm's offset, its axis and the next guess.
_ALPHA, _BOTH, _CENTRE, _OFFSET, _AXIS, _IMAGE = range(6)


class Pool(NamedTuple):
    """The prior that was fitted last, and room to work in."""

    arms: FloatArray  # (C + 1, N): the chance of each class, and where arms are along the axis of a class
    classes: FloatArray  # (5, C, 9), by version
    kept: FloatArray  # (C, C, 9): the best of each number of classes that was tried, from 1
    tables: FloatArray  # (6, ROOM)
    axes: FloatArray  # (6, 4)
    evidence: FloatArray  # (C + 1,): of the uniform prior, then of each number of classes; -inf if it was not tried
    facts: IntArray  # how many classes the best version has, and whether it was fitted before the run and stays


def new_pool(n_arms: int, max_classes: int = MAX_CLASSES) -> Pool:
    """Return room for that many arms and classes, with the uniform prior."""
    room = Pool(
        arms=np.zeros((max_classes + 1, n_arms)),
        classes=np.zeros((5, max_classes, _COLUMNS)),
        kept=np.zeros((max_classes, max_classes, _COLUMNS)),
        tables=np.zeros((6, ROOM)),
        axes=np.zeros((6, 4)),
        evidence=np.zeros(max_classes + 1),
        facts=np.array([1, 0], np.int64),
    )
    room.classes[_BEST, 0] = [1.0] + 4 * [0.0, _UNIFORM]
    return room


def keep_prior(room: Pool, fitted: Pool) -> None:
    """Take over a prior that was fitted before the run, for all of it."""
    room.classes[_BEST] = fitted.classes[_BEST]
    room.facts[:] = fitted.facts[0], 1


def fitted_prior(room: Pool) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the prior that was fitted last: the weights, (C,), largest first, and both Beta parameters, (C, 2, 2)."""
    return _as_prior(room.classes[_BEST, : room.facts[0]])


def fitted_by_number(room: Pool) -> dict[int, tuple[FloatArray, FloatArray, FloatArray]]:
    """Return the prior of each number of classes that was tried, as `fitted_prior` does."""
    return {n: _as_prior(room.kept[n - 1, :n]) for n in range(1, len(room.kept) + 1) if room.evidence[n] > -np.inf}


def _as_prior(best: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    best = best[np.argsort(-best[:, _WEIGHT], kind="stable")]
    tilt, strength = (best[:, column::2].reshape(-1, 2, 2) for column in (1, 2))
    good, bad = (np.exp(strength) / (1.0 + np.exp(sign * tilt)) for sign in (-1.0, 1.0))
    return best[:, _WEIGHT] / best[:, _WEIGHT].sum(), good, bad


@inlined
def refits_at(episode: int) -> bool:
    """Return whether the prior is fitted anew at an episode, from 1: at each up to 20, then at each growth by 10 %."""
    rate = 1.0 / math.log(1.1)
    return episode <= 20 or math.floor(rate * math.log(episode)) > math.floor(rate * math.log(episode - 1.0))


@stage
def pool(room: Pool, visits: FloatArray, good: FloatArray, points: FloatArray, refit: bool) -> int:
    """Set `points` to the posterior means under the prior, which is first fitted to the counts if `refit`.

    All three have shape (2, 2, N) by state, action and arm. Returns the number of classes.
    """
    arms, tables, best = room.arms, room.tables, room.classes[_BEST]
    reach = _reach(visits)
    if refit:
        room.facts[0] = _fit(room, visits, good, reach)
    n = room.facts[0]
    _expect(arms, best, tables, visits, good, n, reach)
    for cell in range(4):
        row, seen, seen_good = points[cell >> 1, cell & 1], visits[cell >> 1, cell & 1], good[cell >> 1, cell & 1]
        row[:] = 0.0
        for c in range(n):
            alpha, beta = _parameters(best[c], cell)
            for arm in range(len(row)):
                row[arm] += arms[c, arm] * ((alpha + seen_good[arm]) / (alpha + beta + seen[arm]))
    return n


@inlined
def _reach(visits: FloatArray) -> int:
    """Return how many entries of the tables are used."""
    most = 0.0
    for cell in range(4):
        for seen in visits[cell >> 1, cell & 1]:
            most = max(most, seen)
    return int(min(most, TABLE)) + 1


@inlined
def _fit(room: Pool, visits: FloatArray, good: FloatArray, reach: int) -> int:
    """Set the best version of the classes; return how many they are."""
    classes, evidence, n_arms = room.classes, room.evidence, room.arms.shape[1]
    now, best = classes[_NOW], classes[_BEST]
    best[0, _WEIGHT] = 1.0
    for cell in range(4):
        best[0, 1 + 2 * cell], best[0, 2 + 2 * cell] = 0.0, _UNIFORM
    _copy(best, classes[_FEWER])
    evidence[:] = -np.inf
    evidence[0] = top = _uniform_evidence(visits, good)
    chosen = 1
    for n in range(1, min(len(now), n_arms) + 1):
        for c in range(max(n - 1, 1)):  # the class to split
            _copy(classes[_FEWER], now)
            found = _climb(room, visits, good, n, c, reach, top)
            if found > evidence[n]:
                evidence[n] = found
                _copy(now, classes[_TRIED])
        _copy(classes[_TRIED], room.kept[n - 1])
        if evidence[n] > top + _ENOUGH:
            top, chosen = evidence[n], n
            _copy(classes[_TRIED], best)
        elif n >= chosen + 2 or evidence[n] == -np.inf:
            break
        _copy(classes[_TRIED], classes[_FEWER])
    return chosen


@part
def _copy(source: FloatArray, target: FloatArray) -> None:
    """Set one version of the classes to another."""
    for c in range(len(source)):
        for j in range(_COLUMNS):
            target[c, j] = source[c, j]


@part
def _uniform_evidence(visits: FloatArray, good: FloatArray) -> float:
    """Return the log-likelihood of the uniform prior."""
    total = 0.0
    for cell in range(4):
        seen, seen_good = visits[cell >> 1, cell & 1], good[cell >> 1, cell & 1]
        for arm in range(len(seen)):
            bad = seen[arm] - seen_good[arm]
            total += math.lgamma(seen_good[arm] + 1.0) + math.lgamma(bad + 1.0) - math.lgamma(seen[arm] + 2.0)
    return total


@inlined
def _climb(room: Pool, visits: FloatArray, good: FloatArray, n: int, c: int, reach: int, wanted: float) -> float:
    """Fit n classes by EM, from n - 1 of which class c is split; return the evidence, or -inf if its arms are alike.

    Gives up once as much evidence as is wanted is out of reach.
    """
    arms, tables, now, step = room.arms, room.tables, room.classes[_NOW], room.classes[_STEP]
    last, evidence, halvings, to_split = -np.inf, -np.inf, 0, n > 1
    for _ in range(_STEPS):
        height = _expect(arms, now, tables, visits, good, n - to_split, reach)
        if to_split:
            if not _split(arms, now, room.axes, visits, good, n - 1, c):
                break
        else:
            height += _log_hyperprior(now, n)
            if height < last and halvings < _HALVINGS:
                halvings += 1
                _move(now, step, n, -0.5)
                continue
            if height < last + _ENOUGH:
                break
        occam = _ascend(room, visits, good, n, reach)
        if not to_split:
            evidence = height - 0.5 * occam + _weights_evidence(now, step, n, arms.shape[1])
            if evidence + _PATIENCE * (height - last) < wanted:
                break
            last = height
        _move(now, step, n, 1.0)
        to_split, halvings = False, 0
    return evidence


@part
def _move(now: FloatArray, step: FloatArray, n: int, fraction: float) -> None:
    """Take a step, or with -1/2 take half of it back; then the step is that half."""
    for c in range(n):
        for j in range(_COLUMNS):
            now[c, j] += fraction * step[c, j]
            step[c, j] *= abs(fraction)


@part
def _parameters(of: FloatArray, cell: int) -> tuple[float, float]:
    """Return the Beta parameters of a class for one cell."""
    tilt, strength = of[1 + 2 * cell], math.exp(of[2 + 2 * cell])
    return strength / (1.0 + math.exp(-tilt)), strength / (1.0 + math.exp(tilt))


@inlined
def _log_hyperprior(now: FloatArray, n: int) -> float:
    """Return the log-density of the parameters, but for a constant."""
    total = 0.0
    for c in range(n):
        total += math.log(now[c, _WEIGHT])
        for cell in range(4):
            x, y = now[c, 1 + 2 * cell] / _SCALE, (now[c, 2 + 2 * cell] - _STRENGTH) / _SCALE
            total -= 0.5 * (x * x + y * y)
    return total


@inlined
def _weights_evidence(now: FloatArray, step: FloatArray, n: int, n_arms: int) -> float:
    """Return the terms of the evidence that are about weights, less those of the hyperprior."""
    total = math.lgamma(2.0 * n) - math.lgamma(n_arms + 2.0 * n) + math.lgamma(n + 1.0)
    for c in range(n):
        members = (now[c, _WEIGHT] + step[c, _WEIGHT]) * (n_arms + n) - 1.0
        total += math.lgamma(members + 2.0) - (members + 1.0) * math.log(now[c, _WEIGHT])
    return total


# ---- expectation


@part
def _expect(
    arms: FloatArray, now: FloatArray, tables: FloatArray, visits: FloatArray, good: FloatArray, n: int, reach: int
) -> float:
    """Set the chance of each class for each arm; return the log-likelihood."""
    for c in range(n):
        arms[c] = math.log(now[c, _WEIGHT])
        for cell in range(4):
            alpha, beta = _parameters(now[c], cell)
            tabulate_logs(tables[0], alpha, reach)
            tabulate_logs(tables[1], beta, reach)
            tabulate_logs(tables[2], alpha + beta, reach)
            _add_evidence(arms[c], tables, visits[cell >> 1, cell & 1], good[cell >> 1, cell & 1], alpha, beta)
    total = 0.0
    for arm in range(arms.shape[1]):
        top, mass = arms[0, arm], 0.0
        for c in range(1, n):
            top = max(top, arms[c, arm])
        for c in range(n):
            arms[c, arm] = math.exp(arms[c, arm] - top)
            mass += arms[c, arm]
        for c in range(n):
            arms[c, arm] /= mass
        total += top + math.log(mass)
    return total


@inlined
def _add_evidence(
    row: FloatArray, tables: FloatArray, visits: FloatArray, good: FloatArray, alpha: float, beta: float
) -> None:
    """Add to each arm the log-probability of its outcomes in a cell under Beta(alpha, beta)."""
    for arm in range(len(row)):
        seen, seen_good = visits[arm], good[arm]
        row[arm] += (
            log_rise(tables[0], alpha, seen_good)
            + log_rise(tables[1], beta, seen - seen_good)
            - log_rise(tables[2], alpha + beta, seen)
        )


# ---- maximisation


@inlined
def _ascend(room: Pool, visits: FloatArray, good: FloatArray, n: int, reach: int) -> float:
    """Set the step that maximisation asks for, given the chances; return the sum of log det (I + H)."""
    arms, tables, now, step = room.arms, room.tables, room.classes[_NOW], room.classes[_STEP]
    occam, n_arms = 0.0, arms.shape[1]
    for c in range(n):
        members = 0.0
        for arm in range(n_arms):
            members += arms[c, arm]
        step[c, _WEIGHT] = (members + 1.0) / (n_arms + n) - now[c, _WEIGHT]
        for cell in range(4):
            alpha, beta = _parameters(now[c], cell)
            tabulate_slopes(tables[0], tables[1], alpha, reach)
            tabulate_slopes(tables[2], tables[3], beta, reach)
            tabulate_slopes(tables[4], tables[5], alpha + beta, reach)
            slopes = _slopes(arms[c], tables, visits[cell >> 1, cell & 1], good[cell >> 1, cell & 1], alpha, beta)
            occam += _newton(now[c], step[c], cell, alpha, beta, slopes)
    return occam


@inlined
def _slopes(
    chance: FloatArray, tables: FloatArray, visits: FloatArray, good: FloatArray, alpha: float, beta: float
) -> tuple[float, float, float, float, float, float]:
    """Return the sums over arms, by their chances, of both rises from alpha, from beta, and from alpha + beta."""
    up_1 = up_2 = down_1 = down_2 = both_1 = both_2 = 0.0
    for arm in range(len(chance)):
        seen, seen_good, weight = visits[arm], good[arm], chance[arm]
        once, twice = rises(tables[0], tables[1], alpha, seen_good)
        up_1 += weight * once
        up_2 += weight * twice
        once, twice = rises(tables[2], tables[3], beta, seen - seen_good)
        down_1 += weight * once
        down_2 += weight * twice
        once, twice = rises(tables[4], tables[5], alpha + beta, seen)
        both_1 += weight * once
        both_2 += weight * twice
    return up_1, up_2, down_1, down_2, both_1, both_2


@inlined
def _newton(
    now: FloatArray, step: FloatArray, cell: int, alpha: float, beta: float, slopes: tuple[float, ...]
) -> float:
    """Set the step of a class in one cell; return log det (I + H)."""
    up_1, up_2, down_1, down_2, both_1, both_2 = slopes
    k, scale = alpha + beta, _SCALE * _SCALE
    spread = alpha * beta / k  # derivative of alpha by logit m
    by_tilt, by_strength = spread * (up_1 - down_1), alpha * up_1 + beta * down_1 - k * both_1
    h_tilt = scale * (spread * spread * (up_2 + down_2) - (beta - alpha) / k * by_tilt)
    h_strength = scale * (alpha * alpha * up_2 + beta * beta * down_2 - k * k * both_2 - by_strength)
    h_both = scale * (spread * (alpha * up_2 - beta * down_2) - by_tilt)
    middle, half = 0.5 * (h_tilt + h_strength), 0.5 * (h_tilt - h_strength)
    radius = math.sqrt(half * half + h_both * h_both)
    low, high = middle - radius, middle + radius  # eigenvalues of H
    middle, turn = 0.5 * (abs(high) + abs(low)), 0.5 * (abs(high) - abs(low)) / max(radius, _TINY)
    h_tilt, h_strength, h_both = 1.0 + middle + turn * half, 1.0 + middle - turn * half, turn * h_both
    by_tilt = scale * by_tilt - now[1 + 2 * cell]
    by_strength = scale * by_strength - (now[2 + 2 * cell] - _STRENGTH)
    det = h_tilt * h_strength - h_both * h_both
    to_tilt = (h_strength * by_tilt - h_both * by_strength) / det
    to_strength = (h_tilt * by_strength - h_both * by_tilt) / det
    shorter = _LONGEST / max(_LONGEST, abs(to_tilt), abs(to_strength))
    step[1 + 2 * cell], step[2 + 2 * cell] = shorter * to_tilt, shorter * to_strength
    return math.log1p(max(0.0, low)) + math.log1p(max(0.0, high))


# ---- one class more


@part
def _split(
    arms: FloatArray, now: FloatArray, axes: FloatArray, visits: FloatArray, good: FloatArray, new: int, c: int
) -> bool:
    """Share out the chances of class c between it and a new one, which is alike; return False if its arms are.

    Arms part along the main axis of their posterior means, found by power iteration: each turn adds up the offsets of
    arms from the centre, weighed by where they are along the axis. The first, with all at 1, finds the centre.
    """
    side, chance, centre, axis, image = arms[len(arms) - 1], arms[c], axes[_CENTRE], axes[_AXIS], axes[_IMAGE]
    for cell in range(4):
        alpha, beta = _parameters(now[c], cell)
        axes[_ALPHA, cell], axes[_BOTH, cell] = alpha, alpha + beta
        centre[cell] = axis[cell] = 0.0
    first, spread = 1.0, 0.0
    for _ in range(_TURNS):
        members = spread = 0.0
        for cell in range(4):
            image[cell] = 0.0
        for arm in range(len(side)):
            _measure_offset(axes, visits, good, arm)
            along = first
            for cell in range(4):
                along += axis[cell] * axes[_OFFSET, cell]
            for cell in range(4):
                image[cell] += chance[arm] * along * axes[_OFFSET, cell]
            members += chance[arm]
            spread += chance[arm] * along * along
            side[arm] = along
        length = math.sqrt(image[0] ** 2 + image[1] ** 2 + image[2] ** 2 + image[3] ** 2)
        for cell in range(4):
            if first > 0.0:
                centre[cell], axis[cell] = image[cell] / members, 1.0 / (2.0 + cell)  # an axis like no other
            else:
                axis[cell] = image[cell] / max(length, _TINY)
        first, spread = 0.0, math.sqrt(spread / members)
    for arm in range(len(side)):
        over = chance[arm] / (1.0 + math.exp(-_SHARPNESS * side[arm] / spread))
        arms[new, arm] = over
        chance[arm] -= over
    for j in range(_COLUMNS):
        now[new, j] = now[c, j]
    return spread > _ALIKE


@inlined
def _measure_offset(axes: FloatArray, visits: FloatArray, good: FloatArray, arm: int) -> None:
    """Set how far the posterior means of an arm are from the centre."""
    for cell in range(4):
        seen, seen_good = visits[cell >> 1, cell & 1, arm], good[cell >> 1, cell & 1, arm]
        axes[_OFFSET, cell] = (axes[_ALPHA, cell] + seen_good) / (axes[_BOTH, cell] + seen) - axes[_CENTRE, cell]
