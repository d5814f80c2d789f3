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

Gamma functions are taken once for each count that occurs, and looked up for each arm (:mod:`meritfair.engine.gammas`).
Sums go over arms, in their order.

References
----------
K. Lange, "A gradient algorithm locally equivalent to the EM algorithm", J. R. Statist. Soc. B 57 (1995).
P. Cheeseman and J. Stutz, "Bayesian classification (AutoClass): theory and results", Advances in Knowledge Discovery
and Data Mining (1996).
"""

from __future__ import annotations

import math
from typing import NamedTuple, TypeAlias

import numpy as np

from meritfair.core.arrays import FloatArray, IntArray
from meritfair.engine.compiling import inlined, part, stage
from meritfair.engine.gammas import (
    ROOM,
    TABLE,
    PlaceArray,
    find_places,
    tabulate_log_gammas,
    tabulate_logs,
    tabulate_slopes,
)

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
STAYS, _ENDS = 1, 2  # in `facts`
# Versions of the classes: what EM is at, its step, one class less, the best of this number, the best of all.
_NOW, _STEP, _FEWER, _TRIED, _BEST = range(5)
# A cell has counts of three kinds: good outcomes, bad ones and both. Those of all cells are rows, three for each cell.
_ROWS = 12
_COUNTS = 6  # the first row of `tables` with counts

_ByCell: TypeAlias = tuple[float, float, float, float]


class Pool(NamedTuple):
    """The prior that was fitted last, and room to work in."""

    arms: FloatArray  # (C + 1, N): the chance of each class, and where arms are along the axis of a class
    classes: FloatArray  # (5, C, 9), by version
    kept: FloatArray  # (C, C, 9): the best of each number of classes that was tried, from 1
    tables: FloatArray  # (6 + 12, ROOM + N): values of gamma functions by place, and the count at each place
    places: PlaceArray  # (12 + 1, 2 N + 1): the place of each arm's count, and at last a hash table to find places
    evidence: FloatArray  # (C + 1,): of the uniform prior, then of each number of classes; -inf if it was not tried
    facts: IntArray  # (2 + 24,): the number of classes, whether they were fitted before the run and stay, `ends` by row


def new_pool(n_arms: int, max_classes: int = MAX_CLASSES) -> Pool:
    """Return room for that many arms and classes, with the uniform prior."""
    room = Pool(
        arms=np.zeros((max_classes + 1, n_arms)),
        classes=np.zeros((5, max_classes, _COLUMNS)),
        kept=np.zeros((max_classes, max_classes, _COLUMNS)),
        tables=np.zeros((_COUNTS + _ROWS, ROOM + n_arms)),
        places=np.zeros((_ROWS + 1, 2 * n_arms + 1), np.uint32),
        evidence=np.zeros(max_classes + 1),
        facts=np.zeros(_ENDS + 2 * _ROWS, np.int64),
    )
    room.facts[0] = 1
    room.classes[_BEST, 0] = [1.0] + 4 * [0.0, _UNIFORM]
    return room


def keep_prior(room: Pool, fitted: Pool) -> None:
    """Take over a prior that was fitted before the run, for all of it."""
    room.classes[_BEST] = fitted.classes[_BEST]
    room.facts[0], room.facts[STAYS] = fitted.facts[0], 1


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
    arms, best = room.arms, room.classes[_BEST]
    reach = _reach(visits)
    _find_places(room, visits, good)
    if refit:
        room.facts[0] = _fit(room, visits, good, points, reach)
    n = room.facts[0]
    _expect(arms, best, room.tables, room.places, room.facts, n, reach)
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
def _find_places(room: Pool, visits: FloatArray, good: FloatArray) -> None:
    """Set the places of all counts."""
    tables, places, facts, given = room.tables, room.places, room.facts, room.arms[len(room.arms) - 1]
    for row in range(_ROWS):
        cell, kind = row // 3, row % 3
        seen, seen_good = visits[cell >> 1, cell & 1], good[cell >> 1, cell & 1]
        for arm in range(len(given)):
            given[arm] = _of_kind(kind, seen_good[arm], seen[arm] - seen_good[arm], seen[arm])
        find_places(given, places[row], tables[_COUNTS + row], facts[_ENDS + 2 * row :], places[_ROWS])


@part
def _of_kind(kind: int, good: float, bad: float, both: float) -> float:
    """Return the one of a kind of counts."""
    return good if kind == 0 else bad if kind == 1 else both


@inlined
def _fit(room: Pool, visits: FloatArray, good: FloatArray, points: FloatArray, reach: int) -> int:
    """Set the best version of the classes; return how many they are. Uses `points` as room to work in."""
    classes, evidence, n_arms = room.classes, room.evidence, room.arms.shape[1]
    now, best = classes[_NOW], classes[_BEST]
    best[0, _WEIGHT] = 1.0
    for cell in range(4):
        best[0, 1 + 2 * cell], best[0, 2 + 2 * cell] = 0.0, _UNIFORM
    _copy(best, classes[_FEWER])
    evidence[:] = -np.inf
    evidence[0] = top = _uniform_evidence(room.tables, room.places, room.facts, n_arms, reach)
    chosen = 1
    for n in range(1, min(len(now), n_arms) + 1):
        for c in range(max(n - 1, 1)):  # the class to split
            _copy(classes[_FEWER], now)
            found = _climb(room, visits, good, points, n, c, reach, top)
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
def _uniform_evidence(tables: FloatArray, places: PlaceArray, facts: IntArray, n_arms: int, reach: int) -> float:
    """Return the log-likelihood of the uniform prior."""
    total, good, bad, both = 0.0, tables[0], tables[1], tables[2]
    for cell in range(4):
        for kind in range(3):
            row, start = 3 * cell + kind, _of_kind(kind, 1.0, 1.0, 2.0)
            tabulate_log_gammas(tables[kind], tables[_COUNTS + row], facts[_ENDS + 2 * row :], start, reach)
        at_good, at_bad, at_both = places[3 * cell], places[3 * cell + 1], places[3 * cell + 2]
        for arm in range(n_arms):
            total += good[at_good[arm]] + bad[at_bad[arm]] - both[at_both[arm]]
    return total


@inlined
def _climb(
    room: Pool, visits: FloatArray, good: FloatArray, points: FloatArray, n: int, c: int, reach: int, wanted: float
) -> float:
    """Fit n classes by EM, from n - 1 of which class c is split; return the evidence, or -inf if its arms are alike.

    Gives up once as much evidence as is wanted is out of reach.
    """
    arms, now, step = room.arms, room.classes[_NOW], room.classes[_STEP]
    last, evidence, halvings, to_split = -np.inf, -np.inf, 0, n > 1
    for _ in range(_STEPS):
        height = _expect(arms, now, room.tables, room.places, room.facts, n - to_split, reach)
        if to_split:
            _set_means(now[c], visits, good, points)
            if not _split(arms, now, points, n - 1, c):
                break
        else:
            height += _log_hyperprior(now, n)
            if height < last and halvings < _HALVINGS:
                halvings += 1
                _move(now, step, n, -0.5)
                continue
            if height < last + _ENOUGH:
                break
        occam = _ascend(room, n, reach)
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
    arms: FloatArray, now: FloatArray, tables: FloatArray, places: PlaceArray, facts: IntArray, n: int, reach: int
) -> float:
    """Set the chance of each class for each arm; return the log-likelihood."""
    for c in range(n):
        arms[c] = math.log(now[c, _WEIGHT])
        for cell in range(4):
            alpha, beta = _parameters(now[c], cell)
            for kind in range(3):
                row, start = 3 * cell + kind, _of_kind(kind, alpha, beta, alpha + beta)
                tabulate_logs(tables[kind], tables[_COUNTS + row], facts[_ENDS + 2 * row :], start, reach)
            _add_evidence(arms[c], tables, places[3 * cell :])
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
def _add_evidence(row: FloatArray, tables: FloatArray, places: PlaceArray) -> None:
    """Add to each arm the log-probability of its outcomes in a cell, by the tables of a class."""
    good, bad, both = tables[0], tables[1], tables[2]
    at_good, at_bad, at_both = places[0], places[1], places[2]
    for arm in range(len(row)):
        row[arm] += good[at_good[arm]] + bad[at_bad[arm]] - both[at_both[arm]]


# ---- maximisation


@inlined
def _ascend(room: Pool, n: int, reach: int) -> float:
    """Set the step that maximisation asks for, given the chances; return the sum of log det (I + H)."""
    arms, now, step = room.arms, room.classes[_NOW], room.classes[_STEP]
    tables, facts, occam, n_arms = room.tables, room.facts, 0.0, arms.shape[1]
    for c in range(n):
        members = 0.0
        for arm in range(n_arms):
            members += arms[c, arm]
        step[c, _WEIGHT] = (members + 1.0) / (n_arms + n) - now[c, _WEIGHT]
        for cell in range(4):
            alpha, beta = _parameters(now[c], cell)
            for kind in range(3):
                row, start = 3 * cell + kind, _of_kind(kind, alpha, beta, alpha + beta)
                counts, ends = tables[_COUNTS + row], facts[_ENDS + 2 * row :]
                tabulate_slopes(tables[2 * kind], tables[2 * kind + 1], counts, ends, start, reach)
            slopes = _slopes(arms[c], tables, room.places[3 * cell :])
            occam += _newton(now[c], step[c], cell, alpha, beta, slopes)
    return occam


@part
def _slopes(
    chance: FloatArray, tables: FloatArray, places: PlaceArray
) -> tuple[float, float, float, float, float, float]:
    """Return the sums over arms, by their chances, of both rises from alpha, from beta, and from alpha + beta."""
    up, up_twice, down, down_twice, both, both_twice = tables[0], tables[1], tables[2], tables[3], tables[4], tables[5]
    at_good, at_bad, at_both = places[0], places[1], places[2]
    up_1 = up_2 = down_1 = down_2 = both_1 = both_2 = 0.0
    for arm in range(len(chance)):
        weight = chance[arm]
        up_1 += weight * up[at_good[arm]]
        up_2 += weight * up_twice[at_good[arm]]
        down_1 += weight * down[at_bad[arm]]
        down_2 += weight * down_twice[at_bad[arm]]
        both_1 += weight * both[at_both[arm]]
        both_2 += weight * both_twice[at_both[arm]]
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
def _set_means(of: FloatArray, visits: FloatArray, good: FloatArray, points: FloatArray) -> None:
    """Set `points`, (2, 2, N), to the posterior means of arms that are of one class."""
    for cell in range(4):
        row, seen, seen_good = points[cell >> 1, cell & 1], visits[cell >> 1, cell & 1], good[cell >> 1, cell & 1]
        alpha, beta = _parameters(of, cell)
        both = alpha + beta
        for arm in range(len(row)):
            row[arm] = (alpha + seen_good[arm]) / (both + seen[arm])


@part
def _split(arms: FloatArray, now: FloatArray, points: FloatArray, new: int, c: int) -> bool:
    """Share out the chances of class c between it and a new one, which is alike; return False if its arms are.

    Arms part along the main axis of their posterior means, found by power iteration: each turn adds up the offsets of
    arms from the centre, weighed by where they are along the axis. The first, with all at 1, finds the centre.
    """
    side, chance = arms[len(arms) - 1], arms[c]
    centre = axis = (0.0, 0.0, 0.0, 0.0)
    first, spread = 1.0, 0.0
    for _ in range(_TURNS):
        members, spread, image = _turn(chance, points, centre, axis, first, side)
        if first > 0.0:
            centre = (image[0] / members, image[1] / members, image[2] / members, image[3] / members)
            axis = (1.0 / 2.0, 1.0 / 3.0, 1.0 / 4.0, 1.0 / 5.0)  # like no other
        else:
            length = max(math.sqrt(image[0] ** 2 + image[1] ** 2 + image[2] ** 2 + image[3] ** 2), _TINY)
            axis = (image[0] / length, image[1] / length, image[2] / length, image[3] / length)
        first, spread = 0.0, math.sqrt(spread / members)
    for arm in range(len(side)):
        over = chance[arm] / (1.0 + math.exp(-_SHARPNESS * side[arm] / spread))
        arms[new, arm] = over
        chance[arm] -= over
    for j in range(_COLUMNS):
        now[new, j] = now[c, j]
    return spread > _ALIKE


@part
def _turn(
    chance: FloatArray, points: FloatArray, centre: _ByCell, axis: _ByCell, first: float, side: FloatArray
) -> tuple[float, float, _ByCell]:
    """Set where arms are along the axis; return the sums of their chances, of squares along the axis, and its image."""
    members = spread = image_0 = image_1 = image_2 = image_3 = 0.0
    for arm in range(len(side)):
        offset_0, offset_1 = points[0, 0, arm] - centre[0], points[0, 1, arm] - centre[1]
        offset_2, offset_3 = points[1, 0, arm] - centre[2], points[1, 1, arm] - centre[3]
        along = first + axis[0] * offset_0 + axis[1] * offset_1 + axis[2] * offset_2 + axis[3] * offset_3
        pull = chance[arm] * along
        image_0 += pull * offset_0
        image_1 += pull * offset_1
        image_2 += pull * offset_2
        image_3 += pull * offset_3
        members += chance[arm]
        spread += pull * along
        side[arm] = along
    return members, spread, (image_0, image_1, image_2, image_3)
