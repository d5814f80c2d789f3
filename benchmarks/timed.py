"""How fast plans are that look at states, beside their bars: `./mf python benchmarks/timed.py`.

One run on one core: nanoseconds of processor time for each arm and step of a priority table, of timed lotteries whose
arms are known, and of one that learns; the least of some repetitions. And live use: how long a choice takes among a
million arms. Figures mean little while the machine does other things. It takes about a minute, with `--quick` ten
seconds.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np

import meritfair as mf
from meritfair.cli.show import print_note, print_table
from meritfair.core.progress import progress_bar

SIZES = ((20, 4), (100, 20), (1000, 200), (10_000, 2000))
POLICIES: dict[str, mf.Policy] = {
    "whittle": mf.Whittle(),
    "fair-oracle, slack 2": mf.FairOracle(design="exact", slack=2.0),
    "systematic": mf.FairOracle(design="systematic", slack=2.0),
    "merit-fair, slack 2": mf.MeritFair(estimate="mean", design="exact", slack=2.0),
}
BARS = {("whittle", 100): 4.5, **{("fair-oracle, slack 2", n): 15.0 for n in (20, 100, 1000)}} | {
    ("fair-oracle, slack 2", 10_000): 30.0
}
MOST_SECONDS = 1.5  # for a choice among a million arms
HORIZON = 200


def nanoseconds(policy: mf.Policy, n_arms: int, budget: int, arm_steps: int, repeats: int) -> float:
    """Return the time that an arm takes for a step; all that is done once a run is left out."""
    arms = mf.datasets.synthetic(n_arms, seed=1)
    how: dict[str, Any] = {"budget": budget, "horizon": HORIZON, "seed": 1, "carry_states": True, "workers": 1}
    few = max(2, arm_steps // (n_arms * HORIZON))
    times = []
    for _ in range(repeats + 1):  # the first compiles
        ends = [time.process_time()]
        for episodes in (few, 3 * few):
            mf.simulate(arms, policy, episodes=episodes, **how)
            ends.append(time.process_time())
        times.append(np.diff(ends))
    short, long = np.min(times, axis=0)
    return float((long - short) / (2 * few * n_arms * HORIZON) * 1e9)


def live_seconds(n_arms: int, policy: mf.Policy, repeats: int) -> float:
    """Return the time of a choice among that many arms."""
    rng = np.random.default_rng(1)
    learner = policy.start(budget=n_arms // 5, seed=1, transitions=rng.uniform(0.05, 0.95, (n_arms, 2, 2)))
    times = []
    for _ in range(repeats + 1):
        states = rng.integers(0, 2, n_arms)
        start = time.perf_counter()
        learner.choose(states)
        times.append(time.perf_counter() - start)
    return min(times)


def judged(value: float, bar: float | None) -> str:
    return "" if bar is None else f" (≤ {bar:g}: {'yes' if value <= bar else 'NO'})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer steps and arms: to see that it works")
    quick = parser.parse_args().quick
    arm_steps, repeats, many = (400_000, 1, 100_000) if quick else (4_000_000, 5, 1_000_000)
    rows = []
    with progress_bar(len(POLICIES) * len(SIZES)) as begin:
        for n_arms, budget in SIZES:
            for name, policy in POLICIES.items():
                begin(f"{name}, {n_arms} arms")
                took = nanoseconds(policy, n_arms, budget, arm_steps, repeats)
                rows.append(
                    [f"{n_arms:,}", f"{budget:,}", name, f"{took:.1f}" + judged(took, BARS.get((name, n_arms)))]
                )
    print_table(["arms", "budget", "policy", "ns"], rows, "Nanoseconds for each arm and step, one core")
    for name in ("fair-oracle, slack 2", "systematic"):
        took = live_seconds(many, POLICIES[name], repeats)
        print_note(f"A live choice among {many:,} arms, {name}: {took:.2f} s{judged(took, MOST_SECONDS)}.")


if __name__ == "__main__":
    main()
