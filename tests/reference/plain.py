"""The paper once more, as plainly as it can be written: slow loops, other formulas, no shared code.

What the package computes is compared with this.
"""

from __future__ import annotations

import math
from itertools import permutations
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]


def steady_state(P: Floats, p: float) -> float:
    """Solve x = x M, sum(x) = 1 for the two-state chain of one arm that is pulled with probability p."""
    good = [(1 - p) * P[s, 0] + p * P[s, 1] for s in (0, 1)]
    M = np.array([[1 - good[0], good[0]], [1 - good[1], good[1]]])
    system = np.vstack([M.T - np.eye(2), np.ones(2)])
    solution, *_ = np.linalg.lstsq(system, np.array([0.0, 0.0, 1.0]), rcond=None)
    return float(solution[1])


def inclusion(merit: list[float], K: int) -> Floats:
    """Sum the probabilities of all ordered draws of K arms without replacement."""
    included = np.zeros(len(merit))
    for order in permutations(range(len(merit)), K):
        left, chance = list(merit), 1.0
        for arm in order:
            chance *= merit[arm] / math.fsum(left)
            left.remove(merit[arm])
        included[list(order)] += chance
    return included


def radius(visits: float, t: int, n_arms: int, delta: float) -> float:
    return math.sqrt(2 * 2 * math.log(2 * 2 * 2 * n_arms * t**4 / delta) / max(1, visits))


def optimistic_share(visits: Any, good: Any, t: int, c: float, delta: float) -> Floats:
    n_arms = len(visits)
    merits = []
    for i in range(n_arms):
        upper = np.empty((2, 2))
        for s in (0, 1):
            for a in (0, 1):
                frequency = good[i][s][a] / max(1, visits[i][s][a])
                upper[s, a] = min(1.0, frequency + radius(visits[i][s][a], t, n_arms, delta) / 2)
        merits.append(math.exp(c * (steady_state(upper, 1.0) - steady_state(upper, 0.0))))
    return np.array(merits) / math.fsum(merits)


def mf_rmab(
    P: Floats,
    *,
    budget: int,
    episodes: int,
    horizon: int,
    c: float,
    delta: float,
    start: Callable[[], npt.NDArray[np.bool_]],
    choose: Callable[[Floats], set[int]],
    uniform: Callable[[], Floats],
    new_episode: Callable[[], None] = lambda: None,
    carry: bool = False,
) -> dict[str, Any]:
    """Run Algorithm 1 line by line; the random numbers come from the callables."""
    n_arms = len(P)
    visits, good = np.zeros((n_arms, 2, 2), dtype=int), np.zeros((n_arms, 2, 2), dtype=int)
    merit = np.array([math.exp(c * (steady_state(arm, 1.0) - steady_state(arm, 0.0))) for arm in P])
    regret, reward, covered = [], [], []
    states = start()
    for t in range(1, episodes + 1):
        share = optimistic_share(visits, good, t, c, delta)
        regret.append(float(np.abs(share - merit / merit.sum()).sum()))
        if t > 1 and not carry:
            states = start()
        new_episode()
        seen, gained, reached = np.zeros_like(visits), np.zeros_like(good), 0
        for _ in range(horizon):
            pulled = choose(share)
            assert len(pulled) == budget
            luck = uniform()
            following = states.copy()
            for i in range(n_arms):
                s, a = int(states[i]), int(i in pulled)
                following[i] = luck[i] < P[i, s, a]
                seen[i, s, a] += 1
                gained[i, s, a] += int(following[i])
            states = following
            reached += int(states.sum())
        visits, good = visits + seen, good + gained
        reward.append(reached)
        covered.append([bool((seen[i] > 0).all()) for i in range(n_arms)])
    return {"visits": visits, "good": good, "regret": regret, "reward": reward, "covered": covered}


def independent_run(P: Floats, rng: np.random.Generator, **settings: Any) -> dict[str, Any]:
    """Run the reference on one ordinary generator, drawing arms by NumPy's own choice."""
    n_arms, K = len(P), settings["budget"]
    return mf_rmab(
        P,
        start=lambda: rng.random(n_arms) < 0.5,
        choose=lambda share: set(rng.choice(n_arms, size=K, replace=False, p=share).tolist()),
        uniform=lambda: rng.random(n_arms),
        **settings,
    )


def longest_gap(covered: list[list[bool]]) -> int:
    """G by its definition: walk through the episodes of each arm."""
    longest = 0
    for arm in zip(*covered, strict=True):
        missed = 0
        for ok in arm:
            missed = 0 if ok else missed + 1
            longest = max(longest, missed)
    return longest + 1
