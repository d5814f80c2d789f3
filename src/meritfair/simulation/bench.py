"""How fast the engine is on this machine, against the same model as one would write it at first.

The *plain loop* is Algorithm 1, one step, one arm and one `rng.random()` at a time, with the simplest draw of K arms.
It is timed twice: compiled by Numba, and as Python runs it. It does less than the engine: it measures regret and
reward, but neither eta, omega, waits nor coverage. All figures of a row are from one run of this program; on a machine
that does other things as well, look at the ratios.
"""

from __future__ import annotations

import math
import platform
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import llvmlite.binding
import numba
import numpy as np

import meritfair
from meritfair.core.arrays import FloatArray
from meritfair.core.machine import available_cores
from meritfair.datasets import instances, synthetic
from meritfair.model.arms import Arms
from meritfair.model.exposure import merit_share
from meritfair.model.merit import Exponential
from meritfair.policies.base import Policy
from meritfair.policies.merit_fair import MeritFair
from meritfair.policies.whittle import Myopic
from meritfair.simulation.run import Run
from meritfair.simulation.simulate import simulate

SIZES = ((5, 1), (10, 2), (20, 4), (40, 8), (100, 20))
SETTINGS: dict[str, dict[str, str]] = {
    "merit-fair": {},
    "mean": {"estimate": "mean"},
    "exact": {"design": "exact", "estimate": "mean"},
    "systematic": {"design": "systematic", "estimate": "mean"},
}
CASES = [
    (name, n_arms, budget, c)
    for name in SETTINGS
    for n_arms, budget in SIZES
    for c in ((1, 3, 10) if name in ("merit-fair", "exact") else (3,))
]
_HORIZON = 200
_REPEATS = 5


def machine() -> dict[str, Any]:
    """Return what the figures depend on."""
    return {
        "processor": llvmlite.binding.get_host_cpu_name(),
        "cores": available_cores(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "numba": numba.__version__,
        "meritfair": meritfair.__version__,
    }


def measure_policies(episodes: int) -> Iterator[dict[str, Any]]:
    """Measure merit-fair on the authors' synthetic instances, one run on one core, and a priority table.

    With designs other than the paper's the estimate is the mean. The plain loop is always the paper's, and is timed on
    fewer than `episodes`.
    """
    for name, n_arms, budget, c in CASES:
        (arms,) = instances("synthetic", n_arms, 1, authors=True, budget=budget)
        policy = MeritFair(merit=Exponential(float(c)), **SETTINGS[name])  # type: ignore[arg-type]
        fair = merit_share(policy.merit(arms.benefit))
        problem = arms.transitions, fair, budget, float(c), policy.delta, _HORIZON, np.random.default_rng(1)
        fewer = max(2, episodes // (4 * n_arms))
        few = max(2, fewer // 20)
        play, loop = partial(_play, arms, policy, budget, 1), partial(_compiled_loop, *problem)
        ours, plain = _seconds((play, episodes), (loop, fewer))
        row = _row(name, n_arms, budget, c, ours, episodes)
        row["ratio_to_plain"] = (plain / fewer) / (ours / episodes)
        if name == "merit-fair":
            (slow,) = _seconds((partial(_plain_loop, *problem), few), repeats=1)
            row["ratio_to_python"] = (slow / few) / (ours / episodes)
        yield row
    fewer = max(2, episodes // 20)
    (seconds,) = _seconds((partial(_play, synthetic(100, seed=1), Myopic(), 20, 1), fewer))
    yield _row("priority table", 100, 20, 3, seconds * episodes / fewer, episodes)


def measure_sizes(largest: int = 1_000_000) -> Iterator[dict[str, Any]]:
    """Measure merit-fair for 10^2 arms and up, a tenth of them pulled."""
    for n_arms in (10**power for power in range(2, len(str(largest)))):
        episodes = max(20, 200_000 // n_arms)
        work = partial(_play, synthetic(n_arms, seed=1), MeritFair(), n_arms // 10, 1)
        (seconds,) = _seconds((work, episodes), repeats=_REPEATS if n_arms < 100_000 else 1)
        more = {"seconds_per_episode": seconds / episodes, "peak_memory_mb": _peak_memory()}
        yield _row("merit-fair", n_arms, n_arms // 10, 3, seconds, episodes) | more


def measure_workers(episodes: int) -> Iterator[dict[str, Any]]:
    """Measure how much more work several workers do than one."""
    arms = instances("synthetic", 100, 8, authors=True, budget=20)
    numbers = range(1, available_cores() + 1)
    times = _seconds(*((partial(_play, arms, MeritFair(), 20, workers), episodes) for workers in numbers))
    for workers, seconds in zip(numbers, times, strict=True):
        yield {"workers": workers, "runs": len(arms), "seconds": seconds, "times_one_worker": times[0] / seconds}


def _peak_memory() -> float:
    """Return the most memory this process has had, in MB; NaN where the system does not say."""
    if sys.platform == "win32":
        return math.nan
    import resource

    unit = 1024 * 1024 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def _play(arms: Arms | Sequence[Arms], policy: Policy, budget: int, workers: int, episodes: int) -> Run:
    return simulate(arms, policy, budget=budget, episodes=episodes, horizon=_HORIZON, seed=1, workers=workers)


def _row(policy: str, n_arms: int, budget: int, c: float, seconds: float, episodes: int) -> dict[str, Any]:
    return {
        "policy": policy,
        "arms": n_arms,
        "budget": budget,
        "c": c,
        "episodes": episodes,
        "seconds": seconds,
        "ns_per_arm_step": seconds * 1e9 / (episodes * _HORIZON * n_arms),
    }


def _seconds(*works: tuple[Callable[[int], Any], int], repeats: int = _REPEATS) -> list[float]:
    """Return the least time of each work for its number of episodes; what has to be compiled is compiled before.

    They take turns, because a machine is often slower for a while: then it is slower for all.
    """
    for work, _ in works:
        work(1)
    least = [math.inf] * len(works)
    for _ in range(repeats):
        for i, (work, episodes) in enumerate(works):
            start = time.perf_counter()
            work(episodes)
            least[i] = min(least[i], time.perf_counter() - start)
    return least


def _plain_loop(
    transitions: FloatArray,
    fair: FloatArray,
    budget: int,
    c: float,
    delta: float,
    horizon: int,
    rng: np.random.Generator,
    episodes: int,
) -> tuple[FloatArray, FloatArray]:
    """Return regret and reward of each episode of Algorithm 1 with exponential merit."""
    n_arms = len(transitions)
    visits, good = np.zeros((n_arms, 2, 2)), np.zeros((n_arms, 2, 2))
    merit, upper = np.zeros(n_arms), np.zeros((2, 2))
    states, pulled = np.zeros(n_arms, np.int64), np.zeros(n_arms, np.int64)
    regret, reward = np.zeros(episodes), np.zeros(episodes)
    for t in range(episodes):
        log_term = math.log(8 * n_arms / delta) + 4 * math.log(t + 1)
        for arm in range(n_arms):
            for s in range(2):
                for a in range(2):
                    seen = max(1.0, visits[arm, s, a])
                    upper[s, a] = min(1.0, good[arm, s, a] / seen + math.sqrt(log_term / seen))
            always = upper[0, 1] / (1 - upper[1, 1] + upper[0, 1])
            never = upper[0, 0] / (1 - upper[1, 0] + upper[0, 0])
            merit[arm] = math.exp(c * (always - never))
        total = merit.sum()
        regret[t] = np.abs(merit / total - fair).sum()
        for arm in range(n_arms):
            states[arm] = rng.random() < 0.5
        for _ in range(horizon):
            pulled[:] = 0
            left = total
            for _ in range(budget):
                x, last = rng.random() * left, -1
                for arm in range(n_arms):
                    if pulled[arm] == 0:
                        last = arm
                        x -= merit[arm]
                        if x < 0:
                            break
                pulled[last] = 1
                left -= merit[last]
            for arm in range(n_arms):
                s, a = states[arm], pulled[arm]
                following = int(rng.random() < transitions[arm, s, a])
                visits[arm, s, a] += 1
                good[arm, s, a] += following
                states[arm] = following
                reward[t] += following
    return regret, reward


_compiled_loop: Any = numba.njit(_plain_loop)
