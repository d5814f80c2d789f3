"""The paper once more, as plainly as it can be written: slow loops, other formulas, no shared code.

What the package computes is compared with this.
"""

from __future__ import annotations

import math
from itertools import pairwise, permutations
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


def allocation(merit: Any, budget: int, floor: Any, cap: Any) -> Floats:
    """Halve the interval of ln(lambda) until min(cap, max(floor, lambda * merit)) adds up to the budget."""
    logs = [math.log(g) for g in merit]
    start, end = -1500.0, 1500.0

    def exposures(x: float) -> list[float]:
        wanted = [math.exp(min(0.0, log + x)) for log in logs]  # no cap is above 1
        return [min(c, max(f, w)) for w, f, c in zip(wanted, floor, cap, strict=True)]

    for _ in range(70):
        middle = (start + end) / 2
        start, end = (middle, end) if math.fsum(exposures(middle)) < budget else (start, middle)
    return np.array(exposures(end))


def rounding_law(exposure: Any) -> dict[frozenset[int], float]:
    """Follow every coin of dependent rounding, along the order given; return the chance of each set of arms."""
    law: dict[frozenset[int], float] = {}

    def meet(arm: int, carrier: int, pooled: float, pulled: frozenset[int], chance: float) -> None:
        if chance == 0.0:
            return
        if arm == len(exposure):
            final = pulled | {carrier} if pooled > 0.5 else pulled
            law[final] = law.get(final, 0.0) + chance
            return
        both = pooled + exposure[arm]
        if both < 1.0:  # one of the two takes all
            takes = exposure[arm] / both if both > 0.0 else 1.0
            meet(arm + 1, arm, both, pulled, chance * takes)
            meet(arm + 1, carrier, both, pulled, chance * (1 - takes))
        else:  # one of the two is pulled, the other goes on with what is left
            takes = (1 - pooled) / (2 - both) if both < 2.0 else 1.0
            meet(arm + 1, carrier, both - 1, pulled | {arm}, chance * takes)
            meet(arm + 1, arm, both - 1, pulled | {carrier}, chance * (1 - takes))

    meet(0, -1, 0.0, frozenset(), 1.0)
    return law


def systematic_law(exposure: Any) -> dict[frozenset[int], float]:
    """Lay the exposures end to end and move the point through [0, 1): between two ends, the same arms are hit."""
    ends = np.cumsum(exposure)
    cuts = np.unique(np.concatenate([[0.0], ends % 1.0, [1.0]]))
    law: dict[frozenset[int], float] = {}
    for left, right in pairwise(cuts):
        point = (left + right) / 2  # and all points at whole distances from it
        hit = frozenset(
            i
            for i, (length, end) in enumerate(zip(exposure, ends, strict=True))
            if math.floor(end - point) > math.floor(end - length - point)
        )
        law[hit] = law.get(hit, 0.0) + float(right - left)
    return law


def joint(law: dict[frozenset[int], float], n_arms: int) -> Floats:
    """Return the chance that two arms are both in the set, (N, N)."""
    both = np.zeros((n_arms, n_arms))
    for arms, chance in law.items():
        for i in arms:
            for j in arms:
                both[i, j] += chance
    return both


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


def longest_gap_is_open(covered: list[list[bool]]) -> bool:
    """Whether G is a lower bound: one more episode that covers nobody makes it longer."""
    return longest_gap([*covered, [False] * len(covered[0])]) > longest_gap(covered) > 1
