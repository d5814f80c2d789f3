"""Timed lotteries under rules once more in NumPy: all runs side by side, one step at a time, everything by bisection.

Arrays are (runs, N). Nothing is shared with the engine or the model but the rules themselves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from meritfair.model.rules import Rules
from reference.numpy_simulator import next_states, rounded_pulls, systematic_pulls

if TYPE_CHECKING:
    from collections.abc import Callable

    from meritfair.core.arrays import BoolArray, FloatArray, IntArray

__all__ = ["Outcome", "Programme", "due_of", "given_of", "highest_of", "play", "wanted_of"]

_HALVINGS = 48


class Outcome(NamedTuple):
    """What is known of each run at its end."""

    reward: IntArray  # (runs,)
    visits: IntArray  # (runs, N, 2, 2)
    given: FloatArray  # (runs, N), in all
    least: FloatArray  # (runs, N)
    largest: FloatArray  # (runs, N)


@dataclass(frozen=True)
class Programme:
    """Arms, what they are due, and the rules; all arms (N,)."""

    transitions: FloatArray  # (N, 2, 2)
    merit: FloatArray
    budgets: tuple[int, ...]
    slack: float
    pull: float  # log odds for each pull that is owed
    rules: Rules
    floor: FloatArray
    cap: FloatArray
    design: str = "exact"
    looks: bool = True  # at states


def bisected(
    total: Callable[[FloatArray], FloatArray], low: FloatArray, high: FloatArray, to: FloatArray
) -> FloatArray:
    """Return for each run, (runs, 1), where a sum that grows reaches a number."""
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        less = total(middle) < to
        low, high = np.where(less, middle, low), np.where(less, high, middle)
    return np.asarray((low + high) / 2)


def highest_of(budgets: tuple[int, ...], cooldown: int, budget: int) -> float:
    """Return the most that is due in a round, by how often an arm is pulled that is pulled whenever it may be."""
    if cooldown == 0:
        return 1.0
    before: dict[int, tuple[int, int]] = {}
    pulls = step = 0
    while True:  # until it is pulled in a round of the same number as once before
        while budgets[step % len(budgets)] == 0:
            step += 1
        if step % len(budgets) in before:
            start, made = before[step % len(budgets)]
            rate = (pulls - made) / (step - start)
            return min(1.0, budget / (sum(budgets) / len(budgets)) * rate)
        before[step % len(budgets)] = step, pulls
        pulls, step = pulls + 1, step + 1 + cooldown


def due_of(
    merit: FloatArray,
    floor: FloatArray,
    cap: FloatArray,
    entitled: BoolArray,
    budget: int,
    highest: float,
    number: IntArray,
) -> FloatArray:
    """Return what is due, (runs, N), if `number`, (runs, 1), arms can be pulled."""
    top = highest * entitled
    room, K = top.sum(axis=1, keepdims=True), float(budget)
    high = np.minimum(cap, top)
    most = high.sum(axis=1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        raised = top - (top - high) * ((room - K) / (room - most))
        high = np.where((most < K) & entitled & (room > K), raised, high)
        low = np.minimum(floor, high)
        least = low.sum(axis=1, keepdims=True)
        low = np.where(least > K, low * (K / least), low)
        ends = np.full((len(entitled), 1), -400.0), np.full((len(entitled), 1), 400.0)
        rate = bisected(lambda x: np.clip(merit * np.exp(x), low, high).sum(axis=1, keepdims=True), *ends, room * 0 + K)
        shared = np.clip(merit * np.exp(rate), low, high)
        due = np.where((K > 0) & (room > K), shared, top)
        total = due.sum(axis=1, keepdims=True)
        return np.where(total > 0, np.minimum(1.0, due * (number / total)), 0.0)


def wanted_of(transitions: FloatArray, due: FloatArray) -> FloatArray:
    """Return the odds wanted by state, (runs, N, 2): by going along from never to always, the better state first."""
    P = transitions
    r0, r1 = P[:, 0, 0] + 1 - P[:, 1, 0], P[:, 0, 1] + 1 - P[:, 1, 1]
    v = r1 / r0 - 1

    def chances(way: FloatArray) -> FloatArray:
        first, other = np.minimum(1.0, way), np.maximum(0.0, way - 1)
        return np.stack([np.where(v >= 0, first, other), np.where(v >= 0, other, first)], axis=-1)

    def rate(way: FloatArray) -> FloatArray:
        phi = chances(way)
        good = (1 - phi) * P[:, :, 0] + phi * P[:, :, 1]
        share = good[..., 0] / (good[..., 0] + 1 - good[..., 1])
        return np.asarray((1 - share) * phi[..., 0] + share * phi[..., 1])

    phi = np.clip(chances(bisected(rate, due * 0, due * 0 + 2, due)), 1e-3, 1 - 1e-3)
    lead = np.exp(12 * np.minimum(1, np.sqrt(np.abs(v))) * np.where(v >= 0, 1, -1))
    return np.asarray(phi / (1 - phi) * np.stack([lead, 1 / lead], axis=-1))


def given_of(
    log_odds: FloatArray, account: FloatArray, due: FloatArray, slack: float, number: IntArray, free: BoolArray
) -> FloatArray:
    """Return what is given at a step, (runs, N)."""
    low = np.where(free, np.clip(account + due - slack, 0, 1), 0.0)
    high = np.where(free, np.clip(account + due + slack, 0, 1), 0.0)
    least, most = (x.sum(axis=1, keepdims=True) for x in (low, high))

    def of(scale: FloatArray) -> FloatArray:
        return np.clip(1 / (1 + np.exp(-np.clip(log_odds + scale, -700, 700))), low, high)

    edge = np.full((len(due), 1), 700.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        between = of(bisected(lambda x: of(x).sum(axis=1, keepdims=True), -edge, edge, number + 0.0 * edge))
        after, wide = np.where(free, account + due, -np.inf), np.full((len(due), 1), np.abs(account).max() + 2.0)
        level = bisected(
            lambda x: np.clip(after + x, 0, 1).sum(axis=1, keepdims=True), -wide, wide, number + 0.0 * wide
        )
    return np.where((least <= number) & (number <= most), between, np.clip(after + level, 0, 1))


def play(it: Programme, runs: int, steps: int, seed: int, shuffles: int = 64) -> Outcome:
    """Play all runs; the order in which arms are drawn is shuffled after so many steps."""
    rng, shape, rules = np.random.default_rng(seed), (runs, len(it.merit)), it.rules
    states, account, least, largest, total = rng.random(shape) < 0.5, *np.zeros((4, *shape))
    visits, reward, last = np.zeros((*shape, 2, 2), np.int64), np.zeros(runs, np.int64), np.full(shape, -(10**9))
    arm, run = np.arange(shape[1]), np.arange(runs)[:, None]
    order = rng.random(shape)
    for step in range(steps):
        order = rng.random(shape) if step % shuffles == 0 else order
        budget = it.budgets[step % len(it.budgets)]
        entitled = np.full(shape, step >= rules.warmup) & ((last < 0) | (not rules.once))
        free = entitled & (step - last > rules.cooldown)
        number = np.minimum(budget, free.sum(axis=1, keepdims=True))
        highest = highest_of(it.budgets, rules.cooldown, budget)
        due = due_of(it.merit, it.floor, it.cap, entitled, budget, highest, number)
        odds = wanted_of(it.transitions, due)[run, arm, states.astype(int)] if it.looks else _odds(due)
        given = given_of(np.log(odds) + _lift(it.pull * account), account, due, it.slack, number, free)
        pulls = _drawn(it.design, given, order, rng)
        account, total = account + due - given, total + given
        least, largest = np.minimum(least, account), np.maximum(largest, account)
        last = np.where(pulls, step, last)
        visits[run, arm, states.astype(int), pulls.astype(int)] += 1
        states = next_states(it.transitions, states, pulls, rng.random(shape))
        reward += states.sum(axis=1)
    return Outcome(reward, visits, total, least, largest)


def _lift(owed: FloatArray) -> FloatArray:
    """Return the log odds that an account adds: nearly what is owed, by a power instead of an exponential."""
    return np.asarray(256 * np.log1p(np.clip(owed, -200, 2000) / 256))


def _odds(due: FloatArray) -> FloatArray:
    kept = np.clip(due, 1e-3, 1 - 1e-3)
    return np.asarray(kept / (1 - kept))


def _drawn(design: str, given: FloatArray, order: FloatArray, rng: np.random.Generator) -> BoolArray:
    if design == "exact":
        return rounded_pulls(given, order, rng.random(given.shape))
    return systematic_pulls(given, order, rng.random(len(given)))
