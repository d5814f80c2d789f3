"""When to pull an arm whose exposure is given: the formulas of :mod:`meritfair.model.timing`, for kernels."""

from __future__ import annotations

import math

from meritfair.core.arrays import FloatArray
from meritfair.engine.compiling import part
from meritfair.engine.rules import EQUAL, FAINT, LEAD, LITTLE, ZEAL


@part
def best_by_state(p00: float, p01: float, p10: float, p11: float, e: float) -> tuple[float, float]:
    """Return the best chances of a pull in the bad and in the good state, for exposure e in the long run."""
    unpulled = p00 + (1.0 - p10)  # how fast the arm forgets its state under each action
    pulled = p01 + (1.0 - p11)
    if abs(pulled - unpulled) <= EQUAL * (pulled + unpulled) or e == 1.0:
        return e, e
    bad_first = pulled > unpulled
    excess = e * p01 - (1.0 - e) * (1.0 - p10) if bad_first else e * (1.0 - p11) - (1.0 - e) * p00
    first, other = 1.0, 0.0
    if excess > 0.0:
        other = excess / (excess + (1.0 - e) * pulled)
    elif e * unpulled - excess > 0.0:
        first = e * unpulled / (e * unpulled - excess)
    elif e == 0.0:
        first = 0.0
    return (first, other) if bad_first else (other, first)


@part
def odds_by_state(p00: float, p01: float, p10: float, p11: float, e: float) -> tuple[float, float]:
    """Return the odds of what is wanted in the bad and in the good state, as `wanted_odds` in the model has them."""
    bad, good = best_by_state(p00, p01, p10, p11, e)
    unpulled, pulled = p00 + (1.0 - p10), p01 + (1.0 - p11)
    gain = 1.0
    if unpulled > 0.0:
        gain = min(1.0, math.sqrt(abs(pulled / unpulled - 1.0)))
    lead = math.exp(LEAD * gain if pulled >= unpulled else -LEAD * gain)
    return odds_of(bad) * lead, odds_of(good) / lead


@part
def odds_of(exposure: float) -> float:
    """Return the odds of an exposure, which is kept away from 0 and 1."""
    kept = min(1.0 - FAINT, max(FAINT, exposure))
    return kept / (1.0 - kept)


@part
def set_state_exposure(point: FloatArray, exposure: FloatArray, out: FloatArray) -> None:
    """Set the best chances of a pull, (N, 2) by arm and state, for arms of (2, 2, N) by state, action and arm."""
    for arm in range(len(exposure)):
        out[arm, 0], out[arm, 1] = best_by_state(
            point[0, 0, arm], point[0, 1, arm], point[1, 0, arm], point[1, 1, arm], exposure[arm]
        )


@part
def set_exploration(explore: FloatArray, visits: FloatArray, good: FloatArray) -> None:
    """Set how much of each state and action is to be seen, as `exploration` in the model says.

    All arrays are (2, 2, N), by state, action and arm.
    """
    for arm in range(visits.shape[2]):
        unpulled, pulled, total = _mean_rate(visits, good, 0, arm), _mean_rate(visits, good, 1, arm), 0.0
        for action in range(2):
            rate = pulled if action == 1 else unpulled
            enter, leave = _mean(visits, good, 0, action, arm), 1.0 - _mean(visits, good, 1, action, arm)
            for state in range(2):
                p, slope = (enter, leave) if state == 0 else (1.0 - leave, enter)  # of the benefit, times rate squared
                error = slope / (rate * rate) * math.sqrt(p * (1.0 - p) / (1.0 + visits[state, action, arm]))
                explore[state, action, arm] = error
                total += error
        part_of_it = min(1.0 / total, ZEAL / math.sqrt(abs(pulled / unpulled - 1.0) + LITTLE))
        for state in range(2):
            for action in range(2):
                explore[state, action, arm] *= part_of_it


@part
def _mean(visits: FloatArray, good: FloatArray, state: int, action: int, arm: int) -> float:
    """Return the posterior mean of the probability of a good next state, under a uniform prior."""
    return (good[state, action, arm] + 1.0) / (visits[state, action, arm] + 2.0)


@part
def _mean_rate(visits: FloatArray, good: FloatArray, action: int, arm: int) -> float:
    """Return how fast the arm forgets its state under an action, by posterior means."""
    return _mean(visits, good, 0, action, arm) + (1.0 - _mean(visits, good, 1, action, arm))
