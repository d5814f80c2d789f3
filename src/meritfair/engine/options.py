r"""What only some settings need, each a stage: compiled when it is in use, and not before.

`tighten` measures the balls ``bernstein`` and ``kl``, `draw_posterior` draws the estimate ``thompson``, and `allot`
shares the budget exactly. The formulas are those of `confidence`, `posterior` and `allocation` in the model.

References
----------
G. Marsaglia and W. W. Tsang, "A simple method for generating gamma variables", ACM Trans. Math. Softw. 26 (2000).
"""

from __future__ import annotations

import math

import numpy as np

from meritfair.core.arrays import FloatArray, WordArray
from meritfair.engine.compiling import part, stage
from meritfair.engine.random import open_uniform, uniform
from meritfair.engine.rules import BERNSTEIN

_NEWTON_STEPS = 60
_LOG_BETA_HALF = 1.1447298858494002  # of Beta(1/2, 1/2), which is pi


@stage
def tighten(
    upper: FloatArray, lower: FloatArray, visits: FloatArray, good: FloatArray, kind: int, allowed: float
) -> int:
    """Set the corners of a tighter ball; `allowed` is the logarithm of 1/alpha."""
    for state in range(2):
        for action in range(2):
            for arm in range(visits.shape[2]):
                low, high = _tight_ends(kind, visits[state, action, arm], good[state, action, arm], allowed)
                upper[state, action, arm], lower[state, action, arm] = high, low
    return 0


@part
def _tight_ends(kind: int, n: float, good: float, allowed: float) -> tuple[float, float]:
    """Return the least and the largest chance in a tighter ball; `allowed` is the logarithm of 1/alpha."""
    if n == 0.0:
        return 0.0, 1.0
    if kind == BERNSTEIN:
        frequency, x = good / n, math.log(3.0 * n * (n + 1.0)) + allowed
        half = math.sqrt(2.0 * frequency * (1.0 - frequency) * x / n) + 3.0 * x / n
        return max(0.0, frequency - half), min(1.0, frequency + half)
    bad = n - good
    level = math.lgamma(good + 0.5) + math.lgamma(bad + 0.5) - math.lgamma(n + 1.0) - _LOG_BETA_HALF - allowed
    low, high = 0.0, 1.0
    if good > 0.0:
        low = _kl_end(good, bad, level, -1.0) if bad > 0.0 else math.exp(level / n)
    if bad > 0.0:
        high = _kl_end(good, bad, level, 1.0) if good > 0.0 else -math.expm1(level / n)
    return low, high


@part
def _kl_end(good: float, bad: float, level: float, side: float) -> float:
    """Return the chance on one side of the frequency at which good · z - n ln(1 + e^z) equals the level, by Newton.

    It starts where a parabola would reach the level. From inside, a step may go too far, but never beyond `outer`.
    """
    n, outer = good + bad, -side * level / (bad if side > 0.0 else good)
    odds, height = math.log(good / bad), good * math.log(good / n) + bad * math.log(bad / n) - level
    z = odds + side * math.sqrt(2.0 * height * n / (good * bad))
    for _ in range(_NEWTON_STEPS):
        if side * (z - outer) > 0.0:
            z = outer
        above = math.exp(-abs(z))
        softplus = max(z, 0.0) + math.log1p(above)
        chance = 1.0 / (1.0 + above) if z > 0.0 else above / (1.0 + above)
        step = (good * z - n * softplus - level) / (good - n * chance)
        z -= step
        if abs(step) <= 1e-12 * (1.0 + abs(z)):
            break
    above = math.exp(-abs(z))
    return 1.0 / (1.0 + above) if z > 0.0 else above / (1.0 + above)


@stage
def draw_posterior(point: FloatArray, visits: FloatArray, good: FloatArray, rng: WordArray) -> int:
    """Set `point` to a draw from the posterior under a uniform prior; all by state, action and arm."""
    for state in range(2):
        for action in range(2):
            for arm in range(visits.shape[2]):
                seen, seen_good = visits[state, action, arm], good[state, action, arm]
                point[state, action, arm] = _draw_beta(seen_good + 1.0, seen - seen_good + 1.0, rng)
    return 0


@part
def _draw_beta(a: float, b: float, source: WordArray) -> float:
    """Return a draw from Beta(a, b), for a and b of at least 1."""
    x, y = draw_gamma(a, source), draw_gamma(b, source)
    return x / (x + y)


@part
def draw_gamma(shape: float, source: WordArray) -> float:
    """Return a draw from Gamma(shape) (Marsaglia and Tsang 2000); below 1 times a power of a uniform number."""
    scale = 1.0
    if shape < 1.0:
        scale = open_uniform(source) ** (1.0 / shape)
        shape += 1.0
    d = shape - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    while True:
        normal = math.sqrt(-2.0 * math.log(open_uniform(source))) * math.cos(2.0 * math.pi * uniform(source))
        v = 1.0 + c * normal
        if v > 0.0:
            v = v * v * v
            if math.log(open_uniform(source)) < 0.5 * normal * normal + d - d * v + d * math.log(v):
                return scale * d * v


@stage
def allot(
    merit: FloatArray,
    exposure: FloatArray,
    cap: FloatArray,
    visits: FloatArray,
    floor: FloatArray,
    most: FloatArray,
    budget: int,
) -> int:
    """Set each arm's exposure in proportion to merit, between its floor and a cap under which it can be learned.

    The `cap` is set here, and is at most `most`.
    """
    _set_caps(cap, visits, floor, most, budget)
    share_out(merit, exposure, floor, cap, budget)
    return 0


@part
def share_out(merit: FloatArray, exposure: FloatArray, floor: FloatArray, cap: FloatArray, budget: int) -> None:
    """Set each arm's exposure in proportion to merit, between its floor and its cap.

    The sum of exposures grows with the rate, and is linear between the points where some arm reaches a bound: Newton's
    method ends after a few steps. Where no arm moves, it takes the next such point. Where it would leave what is known
    to hold the rate, that is halved, in logarithms.
    """
    total = 0.0
    for each in merit:
        total += each
    rate, low, high = budget / total, 0.0, np.inf
    for _ in range(_NEWTON_STEPS + len(merit)):
        total = slope = 0.0
        for arm in range(len(merit)):
            wanted = rate * merit[arm]
            exposure[arm] = min(cap[arm], max(floor[arm], wanted))
            total += exposure[arm]
            slope += merit[arm] if floor[arm] < wanted < cap[arm] else 0.0
        missing = budget - total
        if abs(missing) <= 1e-13 * budget:
            break
        if missing > 0.0:
            low = rate
        else:
            high = rate
        rate = rate + missing / slope if slope > 0.0 else _next_point(merit, floor, cap, rate, missing)
        if not low < rate < high:
            rate = 2.0 * low if high == np.inf else 0.5 * high if low == 0.0 else math.sqrt(low * high)


@part
def _set_caps(cap: FloatArray, visits: FloatArray, floor: FloatArray, most: FloatArray, budget: int) -> None:
    """Set caps that are below 1 as long as an arm was hardly seen without a pull."""
    n_arms, total = len(cap), 0.0
    for arm in range(n_arms):
        not_pulled = visits[0, 0, arm] + visits[1, 0, arm]
        careful = 1.0 - (1.0 - budget / n_arms) / (1.0 + not_pulled)
        cap[arm] = most[arm] if most[arm] < 1.0 else max(floor[arm], careful)
        total += cap[arm]
    for arm in range(n_arms if total < budget else 0):
        cap[arm] = most[arm]


@part
def _next_point(merit: FloatArray, floor: FloatArray, cap: FloatArray, rate: float, missing: float) -> float:
    """Return a rate just beyond the next one at which some arm leaves its floor, or if too much is given, its cap."""
    up, down = np.inf, 0.0
    for arm in range(len(merit)):
        if rate * merit[arm] <= floor[arm]:
            up = min(up, floor[arm] / merit[arm])
        if rate * merit[arm] >= cap[arm]:
            down = max(down, cap[arm] / merit[arm])
    return up * (1.0 + 1e-9) if missing > 0.0 else down * (1.0 - 1e-9)
