"""The engine once more in NumPy: all runs side by side, one step at a time, no trick.

What the compiled engine simulates has the law of this. Arrays are laid out (runs, horizon, N); random numbers come
from NumPy's own generators, one stream for each run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from meritfair.core.seeding import stream
from meritfair.model.arms import Arms
from meritfair.model.benefit import benefit
from meritfair.model.confidence import Ball
from meritfair.model.counts import Counts
from meritfair.model.exposure import fair_exposure, merit_share
from meritfair.policies.base import Policy
from meritfair.policies.plans import Lottery, Plan, PriorityTable, Rotation
from meritfair.policies.view import View
from meritfair.simulation import metrics

if TYPE_CHECKING:
    from collections.abc import Sequence

    from meritfair.core.arrays import BoolArray, FloatArray, IntArray
    from meritfair.model.merit import Merit

__all__ = [
    "count_transitions",
    "longest_waits",
    "rounded_pulls",
    "sequential_pulls",
    "simulate",
    "systematic_pulls",
    "walk",
]


def sequential_pulls(merit: FloatArray, exponential: FloatArray, budget: int) -> BoolArray:
    """Pull the first K to arrive in a race of exponential times, along the last axis."""
    with np.errstate(divide="ignore"):
        arrival = np.log(exponential) - np.log(merit)
    pulls = np.zeros(arrival.shape, dtype=np.bool_)
    np.put_along_axis(pulls, np.argpartition(arrival, budget - 1, axis=-1)[..., :budget], True, axis=-1)
    return pulls


def rounded_pulls(exposure: FloatArray, shuffle: FloatArray, coins: FloatArray) -> BoolArray:
    """Pull by dependent rounding, in the order of `shuffle`: a carrier meets one arm after another; last axis is arms.

    A number 0 in place of a carrier's name stands for nobody: the names of arms count from 1.
    """
    order = np.argsort(shuffle, axis=-1)
    p = np.take_along_axis(np.broadcast_to(exposure, shuffle.shape), order, axis=-1)
    pulled_at = np.zeros((*shuffle.shape[:-1], shuffle.shape[-1] + 1), dtype=np.bool_)  # by name
    carrier, pooled = np.zeros(shuffle.shape[:-1], dtype=np.int64), np.zeros(shuffle.shape[:-1])
    for k in range(shuffle.shape[-1]):
        arm, both = order[..., k] + 1, pooled + p[..., k]
        full = both >= 1
        with np.errstate(divide="ignore", invalid="ignore"):
            takes = np.where(full, (1 - pooled) / (2 - both), p[..., k] / both)
        wins = coins[..., k] < np.where(np.isnan(takes), 1.0, takes)  # 0/0: an arm of 1 after nobody, or of 0
        done = np.where(full, np.where(wins, arm, carrier), 0)
        np.put_along_axis(pulled_at, done[..., None], True, axis=-1)
        carrier = np.where(full == wins, carrier, arm)
        pooled = np.where(full, both - 1, both)
    np.put_along_axis(pulled_at, np.where(pooled > 0.5, carrier, 0)[..., None], True, axis=-1)
    return pulled_at[..., 1:]


def systematic_pulls(exposure: FloatArray, shuffle: FloatArray, point: FloatArray) -> BoolArray:
    """Pull the arms that a comb of distance 1 hits, when exposures are laid end to end in the order of `shuffle`."""
    order = np.argsort(shuffle, axis=-1)
    ends = np.cumsum(np.take_along_axis(np.broadcast_to(exposure, shuffle.shape), order, axis=-1), axis=-1)
    ends[..., -1] = np.round(ends[..., -1])
    below = np.concatenate([np.zeros_like(ends[..., :1]), np.floor(ends + point[..., None])], axis=-1)
    pulls = np.zeros(shuffle.shape, dtype=np.bool_)
    np.put_along_axis(pulls, order, np.diff(below, axis=-1) > 0, axis=-1)
    return pulls


def first_pulls(index: FloatArray, noise: FloatArray, budget: int) -> BoolArray:
    """Pull the K arms with the largest index; `noise` breaks ties, and an index of -inf is never pulled."""
    pulls = np.zeros(index.shape, dtype=np.bool_)
    np.put_along_axis(pulls, np.lexsort((noise, -index), axis=-1)[..., :budget], True, axis=-1)
    return pulls & (index > -np.inf)


def next_states(transitions: FloatArray, states: BoolArray, pulls: BoolArray, uniform: FloatArray) -> BoolArray:
    """Move every arm by one step; all arrays (runs, N) but `transitions`."""
    return uniform < np.where(
        states,
        np.where(pulls, transitions[..., 1, 1], transitions[..., 1, 0]),
        np.where(pulls, transitions[..., 0, 1], transitions[..., 0, 0]),
    )


def walk(transitions: FloatArray, states: BoolArray, pulls: BoolArray, uniform: FloatArray) -> BoolArray:
    """Return the states before the first step, between steps and after the last, (runs, horizon + 1, N)."""
    runs, horizon, n_arms = pulls.shape
    path = np.empty((runs, horizon + 1, n_arms), dtype=np.bool_)
    path[:, 0] = states
    for h in range(horizon):
        path[:, h + 1] = next_states(transitions, path[:, h], pulls[:, h], uniform[:, h])
    return path


def count_transitions(path: BoolArray, pulls: BoolArray) -> tuple[IntArray, IntArray]:
    """Count an episode's visits and good outcomes by arm, state and action, each (runs, N, 2, 2)."""
    now, then = path[:, :-1], path[:, 1:]
    visits = np.empty((len(pulls), pulls.shape[2], 2, 2), dtype=np.int64)
    good = np.empty_like(visits)
    for state in (0, 1):
        for action in (0, 1):
            there = (now == bool(state)) & (pulls == bool(action))
            visits[:, :, state, action] = there.sum(axis=1)
            good[:, :, state, action] = (there & then).sum(axis=1)
    return visits, good


def longest_waits(pulls: BoolArray, waited: IntArray) -> tuple[IntArray, IntArray]:
    """Return the longest wait of each arm within an episode, and the wait at its end; `waited` is brought along."""
    step = np.arange(1, pulls.shape[1] + 1)[None, :, None]
    last_pull = np.maximum.accumulate(np.where(pulls, step, -waited[:, None, :]), axis=1)
    wait = step - last_pull
    return wait.max(axis=1), wait[:, -1]


def simulate(
    arms: Sequence[Arms],
    policy: Policy,
    *,
    budget: int,
    episodes: int,
    horizon: int,
    merit: Merit,
    delta: float = 0.01,
    ball: str = "paper",
    design: str = "sequential",
    floor: Any = 0.0,
    cap: Any = 1.0,
    carry_states: bool = False,
    exposure_regret: bool = False,
    seed: int = 0,
) -> dict[str, Any]:
    """Play a policy; return the arrays of a `Run`, measured by this merit, ball and design.

    The exposure regret, which takes an integral for each episode if draws are sequential, is NaN unless asked for.
    """
    P = np.stack([each.transitions for each in arms])
    fair_merit = merit(np.stack([each.benefit for each in arms]))
    fair_share = merit_share(fair_merit)
    fair = fair_exposure(fair_merit, budget, design, floor=floor, cap=cap) if exposure_regret else fair_share
    runs, n_arms = len(P), P.shape[1]
    regret, regret_authors, of_exposure, eta, omega = (np.full((runs, episodes), np.nan) for _ in range(5))
    reward = np.empty((runs, episodes), dtype=np.int64)
    covered = np.empty((runs, episodes, n_arms), dtype=np.bool_)
    visits, good = (np.zeros((runs, n_arms, 2, 2), dtype=np.int64) for _ in range(2))
    longest, waited = (np.zeros((runs, n_arms), dtype=np.int64) for _ in range(2))
    environment = [stream(seed, "environment", r) for r in range(runs)]
    luck = [stream(seed, "policy", r) for r in range(runs)]
    line = np.stack([rng.permutation(n_arms) for rng in luck])
    states = np.stack([rng.random(n_arms) < 0.5 for rng in environment])
    for t in range(episodes):
        counts = Counts(visits, good)
        box = Ball(counts, t + 1, delta, ball)
        plan = policy.plan(View(counts, t + 1, budget, P, tuple(luck)))
        if t > 0 and not carry_states:
            states = np.stack([rng.random(n_arms) < 0.5 for rng in environment])
        pulls, path, line = _episode(plan, P, states, line, budget, horizon, environment, luck)
        seen, turned_good = count_transitions(path, pulls)
        states = path[:, -1]
        share, made = plan.share(budget), pulls.mean(axis=1)
        regret[:, t] = metrics.fairness_regret(made / budget if share is None else share, fair_share)
        if exposure_regret:
            exposure = plan.exposure(budget)
            of_exposure[:, t] = metrics.fairness_regret(made if exposure is None else exposure, fair)
        regret_authors[:, t] = metrics.fairness_regret(merit_share(merit(benefit(box.upper))), fair_share)
        eta[:, t], omega[:, t] = box.eta.max(axis=(-2, -1)), box.omega.max(axis=(-2, -1))
        reward[:, t] = path[:, 1:].sum(axis=(1, 2))
        covered[:, t] = (seen > 0).all(axis=(-2, -1))
        visits, good = visits + seen, good + turned_good
        wait, waited = longest_waits(pulls, waited)
        longest = np.maximum(longest, wait)
    return {
        "fairness_regret": regret,
        "fairness_regret_authors": regret_authors,
        "exposure_regret": of_exposure,
        "reward": reward,
        "eta": eta,
        "omega": omega,
        "visits": visits,
        "good": good,
        "longest_wait": longest,
        "coverage_gap": metrics.coverage_gap(covered),
        "coverage_gap_authors": metrics.coverage_gap_authors(covered),
        "coverage_gap_censored": metrics.coverage_gap_censored(covered),
    }


def _episode(
    plan: Plan,
    P: FloatArray,
    states: BoolArray,
    line: IntArray,
    budget: int,
    horizon: int,
    environment: list[np.random.Generator],
    luck: list[np.random.Generator],
) -> tuple[BoolArray, BoolArray, IntArray]:
    """Play one episode; return its pulls, its states, and the line of a rotation (each arm's place, 0 is next)."""
    runs, n_arms = states.shape
    uniform = np.stack([rng.random((horizon, n_arms)) for rng in environment])
    if isinstance(plan, Lottery) and plan.design != "sequential":
        exposure = np.broadcast_to(plan.exposure(budget), (runs, n_arms))[:, None, :]
        shuffle, coins = (np.stack([rng.random((horizon, n_arms)) for rng in luck]) for _ in range(2))
        if plan.design == "exact":
            pulls = rounded_pulls(exposure, shuffle, coins)
        else:
            pulls = systematic_pulls(exposure, shuffle, coins[..., 0])
        return pulls, walk(P, states, pulls, uniform), line
    if isinstance(plan, Lottery):
        exponential = np.stack([rng.standard_exponential((horizon, n_arms)) for rng in luck])
        merit = np.broadcast_to(plan.merit, (runs, n_arms))[:, None, :]
        pulls = sequential_pulls(merit, exponential, budget)
        return pulls, walk(P, states, pulls, uniform), line
    noise = np.stack([rng.random((horizon, n_arms)) for rng in luck])
    pulls = np.empty((runs, horizon, n_arms), dtype=np.bool_)
    path = np.empty((runs, horizon + 1, n_arms), dtype=np.bool_)
    path[:, 0] = states
    for h in range(horizon):
        if isinstance(plan, Rotation):
            pulls[:, h] = line < budget
            line = np.argsort(np.argsort(line + n_arms * pulls[:, h], axis=-1), axis=-1)
        else:
            assert isinstance(plan, PriorityTable)
            index = np.where(path[:, h], plan.index[..., 1], plan.index[..., 0])
            pulls[:, h] = first_pulls(index, noise[:, h], budget)
        path[:, h + 1] = next_states(P, path[:, h], pulls[:, h], uniform[:, h])
    return pulls, path, line
