"""The pooled estimate once more in NumPy and SciPy: EM over latent classes, number for number as the engine has it.

Counts have shape (N, 4), a cell for each state and action. Nothing is tabulated, and all arms are done at once.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import betaln, digamma, expit, gammaln, logsumexp, polygamma

if TYPE_CHECKING:
    from meritfair.core.arrays import AnyArray, FloatArray

__all__ = ["Classes", "Fit", "climb", "evidence", "expect", "fit", "height", "maximise", "sides", "split"]

SCALE, STRENGTH = 1.5, np.log(8.0)  # the hyperprior: standard deviation of logit m and log k, mean of log k
STEPS, ENOUGH, LONGEST, HALVINGS, PATIENCE = 60, 1e-3, 1.0, 10, 50.0
SHARPNESS, ALIKE = 4.0, 1e-9


@dataclass(frozen=True)
class Classes:
    """Weights (C,), and logit of the mean and logarithm of the strength (C, 4)."""

    weights: FloatArray
    tilt: FloatArray
    strength: FloatArray

    @property
    def parameters(self) -> tuple[FloatArray, FloatArray]:
        """Both parameters of the Beta distributions, (C, 4)."""
        k = np.exp(self.strength)
        return k * expit(self.tilt), k * expit(-self.tilt)

    def plus(self, step: Classes, fraction: float = 1.0) -> Classes:
        """Return the classes after part of a step."""
        return Classes(
            self.weights + fraction * step.weights,
            self.tilt + fraction * step.tilt,
            self.strength + fraction * step.strength,
        )


UNIFORM = Classes(np.ones(1), np.zeros((1, 4)), np.full((1, 4), np.log(2.0)))


@dataclass
class Fit:
    """What was chosen, and the way there: evidence by number of classes, and the heights of each climb."""

    classes: Classes
    uniform: float
    evidence: dict[int, float] = field(default_factory=dict)
    climbs: list[tuple[int, list[float]]] = field(default_factory=list)


def expect(visits: AnyArray, good: AnyArray, classes: Classes) -> tuple[float, FloatArray]:
    """Return the log-likelihood, and the chance of each class for each arm, (N, C)."""
    alpha, beta = classes.parameters
    seen_good, bad = good[:, None, :], (visits - good)[:, None, :]
    each = (betaln(alpha + seen_good, beta + bad) - betaln(alpha, beta)).sum(axis=-1) + np.log(classes.weights)
    total = logsumexp(each, axis=1)
    return float(total.sum()), np.asarray(np.exp(each - total[:, None]))


def log_hyperprior(classes: Classes) -> float:
    """Return the log-density of the parameters but for a constant."""
    x, y = classes.tilt / SCALE, (classes.strength - STRENGTH) / SCALE
    return float(np.log(classes.weights).sum() - 0.5 * (x**2 + y**2).sum())


def height(visits: AnyArray, good: AnyArray, classes: Classes) -> float:
    """Return what EM climbs."""
    return expect(visits, good, classes)[0] + log_hyperprior(classes)


def maximise(visits: AnyArray, good: AnyArray, classes: Classes, chance: FloatArray) -> tuple[Classes, float]:
    """Return the step of maximisation given the chances, and the sum of log det (I + H)."""
    alpha, beta = classes.parameters
    k, m, c = alpha + beta, expit(classes.tilt), chance.T[:, :, None]

    def rises(start: FloatArray, counts: AnyArray, order: int) -> FloatArray:
        derivative = digamma if order == 0 else lambda x: -polygamma(1, x)
        return np.asarray((c * (derivative(start[:, None, :] + counts) - derivative(start)[:, None, :])).sum(axis=1))

    up, up_2 = (rises(alpha, good, order) for order in (0, 1))
    down, down_2 = (rises(beta, visits - good, order) for order in (0, 1))
    both, both_2 = (rises(k, visits, order) for order in (0, 1))
    q = k * m * (1 - m)
    gradient = np.stack([q * (up - down), alpha * up + beta * down - k * both], axis=-1)
    h_tilt = q**2 * (up_2 + down_2) - (1 - 2 * m) * q * (up - down)
    h_strength = alpha**2 * up_2 + beta**2 * down_2 - k**2 * both_2 - gradient[..., 1]
    h_both = q * (alpha * up_2 - beta * down_2) - gradient[..., 0]
    information = SCALE**2 * np.stack([np.stack([h_tilt, h_both], -1), np.stack([h_both, h_strength], -1)], -1)
    values, vectors = np.linalg.eigh(information)
    curvature = np.einsum("...ij,...j,...kj->...ik", vectors, 1 + np.abs(values), vectors)
    pull = SCALE**2 * gradient - np.stack([classes.tilt, classes.strength - STRENGTH], axis=-1)
    step = np.linalg.solve(curvature, pull[..., None])[..., 0]
    step *= LONGEST / np.maximum(LONGEST, np.abs(step).max(axis=-1, keepdims=True))
    weights = (chance.sum(axis=0) + 1) / (len(visits) + len(classes.weights))
    return (
        Classes(weights - classes.weights, step[..., 0], step[..., 1]),
        float(np.log1p(np.maximum(0, values)).sum()),
    )


def evidence(visits: AnyArray, good: AnyArray, classes: Classes) -> float:
    """Return the evidence of Cheeseman and Stutz for this many classes, at a maximum of the height."""
    likelihood, chance = expect(visits, good, classes)
    _, occam = maximise(visits, good, classes, chance)
    N, C, n = len(visits), len(classes.weights), chance.sum(axis=0)
    complete = gammaln(2 * C) + gammaln(n + 2).sum() - gammaln(N + 2 * C) - (n * np.log(classes.weights)).sum()
    parameters = log_hyperprior(classes) - np.log(classes.weights).sum() - 0.5 * occam
    return float(likelihood + parameters + complete + gammaln(C + 1))


def sides(visits: AnyArray, good: AnyArray, of: Classes, chance: FloatArray) -> FloatArray | None:
    """Return where arms are along the main axis of a class, in standard deviations, or None if they are alike."""
    alpha, beta = of.parameters
    mean = (alpha + good) / (alpha + beta + visits)
    offset = mean - np.average(mean, axis=0, weights=chance)
    covariance = np.einsum("i,ij,ik->jk", chance, offset, offset)
    axis = 1 / np.arange(2.0, 6.0)
    for _ in range(14):
        axis = covariance @ axis
        axis /= max(np.linalg.norm(axis), 1e-300)
    along = offset @ axis
    spread = np.sqrt(np.average(along**2, weights=chance))
    return along / spread if spread > ALIKE else None


def split(visits: AnyArray, good: AnyArray, fewer: Classes, c: int) -> Classes | None:
    """Return one class more, from class c, after one step with the chances of the split; None if its arms are alike."""
    _, chance = expect(visits, good, fewer)
    kept = np.arange(len(fewer.weights))
    along = sides(visits, good, Classes(fewer.weights[[c]], fewer.tilt[[c]], fewer.strength[[c]]), chance[:, c])
    if along is None:
        return None
    over = chance[:, c] * expit(SHARPNESS * along)
    chance[:, c] -= over
    rows = np.append(kept, c)
    more = Classes(fewer.weights[rows], fewer.tilt[rows], fewer.strength[rows])
    step, _ = maximise(visits, good, more, np.column_stack([chance, over]))
    return more.plus(step)


def climb(
    visits: AnyArray, good: AnyArray, now: Classes, wanted: float = -np.inf, steps: int = STEPS
) -> tuple[Classes, float, list[float]]:
    """Take steps of EM; return where they lead, the evidence, and the height after each."""
    heights: list[float] = []
    last, found, step, halvings = -np.inf, -np.inf, now, 0
    for _ in range(steps):
        here = height(visits, good, now)
        if here < last and halvings < HALVINGS:
            step = replace(step, weights=step.weights / 2, tilt=step.tilt / 2, strength=step.strength / 2)
            now, halvings = now.plus(step, -1.0), halvings + 1
            continue
        heights.append(here)
        if here < last + ENOUGH:
            break
        found = evidence(visits, good, now)
        if found + PATIENCE * (here - last) < wanted:
            break
        last, halvings = here, 0
        step, _ = maximise(visits, good, now, expect(visits, good, now)[1])
        now = now.plus(step)
    return now, found, heights


def fit(visits: AnyArray, good: AnyArray, max_classes: int = 4) -> Fit:
    """Return the classes with the most evidence, or the uniform prior."""
    top = float(betaln(1 + good, 1 + visits - good).sum())
    result, chosen, fewer = Fit(UNIFORM, top), 1, UNIFORM
    for n in range(1, min(max_classes, len(visits)) + 1):
        here, tried = -np.inf, fewer
        for c in range(max(n - 1, 1)):
            begin = split(visits, good, fewer, c) if n > 1 else fewer
            if begin is None:
                continue
            end, found, heights = climb(visits, good, begin, top, STEPS - (n > 1))
            result.climbs.append((n, heights))
            if found > here:
                here, tried = found, end
        if here > -np.inf:
            result.evidence[n] = here
        if here > top + ENOUGH:
            top, chosen, result.classes = here, n, tried
        elif n >= chosen + 2 or here == -np.inf:
            break
        fewer = tried
    return result
