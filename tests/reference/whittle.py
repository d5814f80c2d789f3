"""The Whittle index by its definition: the subsidy at which pulling and leaving alone are worth the same.

Nothing is shared with the package: the subsidised arm is solved numerically, by value iteration or by trying the four
deterministic policies, and the subsidy is found by halving an interval. Many arms are done side by side.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Advantage = Callable[[Floats, Floats, float], Floats]  # arms (M, 2, 2), subsidies (M,), discount -> (M, 2)


def action_values(P: Floats, subsidy: Floats, discount: float, value: Floats) -> Floats:
    """Return Q(s, a) for arms (M, 2, 2), where `value` (M, 2) is what each state is worth at the next step."""
    state, left_alone = np.array([[0.0], [1.0]]), np.array([1.0, 0.0])
    reward = state + subsidy[:, None, None] * left_alone  # for the state that the arm is found in
    return np.asarray(reward + discount * ((1 - P) * value[:, :1, None] + P * value[:, 1:, None]))


def values_by_iteration(P: Floats, subsidy: Floats, discount: float) -> Floats:
    """Return V(s), shape (M, 2), by applying Bellman's equation until nothing moves; the discount is below 1."""
    value = np.zeros((len(P), 2))
    while True:
        new = action_values(P, subsidy, discount, value).max(axis=2)
        if np.abs(new - value).max() < 1e-14 * (1 + np.abs(value).max()):
            return np.asarray(new)
        value = new


def advantage_by_value_iteration(P: Floats, subsidy: Floats, discount: float) -> Floats:
    """Return Q(s, 1) - Q(s, 0) at the values that value iteration arrives at."""
    Q = action_values(P, subsidy, discount, values_by_iteration(P, subsidy, discount))
    return np.asarray(Q[:, :, 1] - Q[:, :, 0])


def advantage_by_policies(P: Floats, subsidy: Floats, discount: float) -> Floats:
    """Return Q(s, 1) - Q(s, 0) under that one of the four deterministic policies which is its own best answer.

    The values of a policy solve linear equations. With a discount of 1 these are for the reward of a step in the long
    run and for how much more the good state is worth, for arms with one steady state.
    """
    arms = np.arange(len(P))
    best, regret = np.zeros((len(P), 2)), np.full(len(P), np.inf)
    for policy in product((0, 1), repeat=2):
        good = np.stack([P[:, s, policy[s]] for s in (0, 1)], axis=1)
        reward = np.stack([s + subsidy * (policy[s] == 0) for s in (0, 1)], axis=1)
        if discount < 1:
            M = np.stack([1 - good, good], axis=2)
            value = np.asarray(np.linalg.solve(np.eye(2) - discount * M, reward[..., None])[..., 0], np.float64)
        else:  # long_run + value[s] = reward[s] + good[s] * value[1], where value[0] is 0
            system = np.stack([np.ones(good.shape), np.array([0.0, 1.0]) - good], axis=2)
            value = np.linalg.solve(system, reward[..., None])[..., 0] * np.array([0.0, 1.0])
        Q = action_values(P, subsidy, discount, value)
        lost = np.max(Q.max(axis=2) - np.stack([Q[arms, s, policy[s]] for s in (0, 1)], axis=1), axis=1)
        better = lost < regret
        regret[better], best[better] = lost[better], (Q[:, :, 1] - Q[:, :, 0])[better]
    return best


def whittle_index(P: Floats, discount: float, advantage: Advantage, bound: float, halvings: int = 60) -> Floats:
    """Return the index (M, 2) by halving [-bound, bound], for each state by itself."""
    each, state = np.repeat(P, 2, axis=0), np.tile([0, 1], len(P))
    below, above = np.full(len(each), -bound), np.full(len(each), bound)
    for _ in range(halvings):
        middle = (below + above) / 2
        pulls = advantage(each, middle, discount)[np.arange(len(each)), state] > 0
        below, above = np.where(pulls, middle, below), np.where(pulls, above, middle)
    return np.reshape((below + above) / 2, (len(P), 2))
