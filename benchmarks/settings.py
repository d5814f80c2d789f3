"""What floors, designs and pooling do, for the page on settings: `./mf python benchmarks/settings.py [--quick]`.

1. Floors: 20 arms of Synthetic, 4 pulled, 300 episodes of 200 steps, estimate mean. What the least exposure and the
   longest wait are, which part of the pulls goes to others than without a floor, and how many are in the good state.
2. Designs: how much the number drawn from half of the arms varies, with independent coins beside it; 20 arms with
   exponential merits, 4 drawn, halves at random.
3. Pooling: how much less regret `pooled` has than `mean` on CPAP, 100 arms, 20 pulled, states carried on, by the number
   of rounds; up to 50 plans in all.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

import numpy as np

import meritfair as mf
from meritfair.cli.show import print_note, print_table
from meritfair.core.progress import progress_bar
from meritfair.datasets import instances

if TYPE_CHECKING:
    from collections.abc import Callable

    from meritfair.core.arrays import FloatArray

MERIT = mf.Exponential(3.0)
FLOORS = (0.0, 0.05, 0.1, 0.15)
DESIGNS = ("sequential", "exact", "systematic")
ROUNDS = (50, 200, 2000)


def floors(runs: int, begin: Callable[[str], object]) -> list[list[str]]:
    """Return for each floor what everyone gets, and what it costs."""
    arms = instances("synthetic", 20, runs, authors=True, budget=4)
    due = np.array([mf.fair_exposure(MERIT(each.benefit), 4, "exact") for each in arms])
    rows = []
    for floor in FLOORS:
        begin(f"floor {floor}")
        policy = mf.MeritFair(merit=MERIT, estimate="mean", design="exact", floor=floor)
        run = mf.simulate(arms, policy, budget=4, episodes=300, horizon=200, seed=1)
        elsewhere = np.abs(run.exposure - due).sum(axis=1).mean() / 2 / 4
        good = run.reward.mean() / 20 / 200
        cells = [
            f"{run.exposure.min(axis=1).mean():.2f}",
            f"{run.longest_wait.max(axis=1).mean():.0f}",
            f"{100 * elsewhere:.1f} %",
            f"{100 * good:.1f} %",
        ]
        rows.append([f"{floor:g}", *cells])
    return rows


def designs(draws: int, begin: Callable[[str], object]) -> list[list[str]]:
    """Return for each design the variance of the number drawn from a half of the arms."""
    begin("designs")
    rng = np.random.default_rng(1)
    found: dict[str, list[float]] = {name: [] for name in (*DESIGNS, "coins")}
    for _ in range(20):
        merit, half = rng.exponential(size=20), rng.permutation(20) < 10
        exposure = mf.fair_exposure(merit, 4, "exact")
        for design in DESIGNS:
            pulled = mf.draw(merit, 4, design=design, rng=rng, size=draws)
            found[design].append(float(pulled[:, half].sum(axis=1).var()))
        found["coins"].append(float((exposure * (1 - exposure))[half].sum()))
    return [[name, f"{np.mean(each):.2f}"] for name, each in found.items()]


def pooling(runs: int, rounds: tuple[int, ...], begin: Callable[[str], object]) -> list[list[str]]:
    """Return by the number of rounds how much less regret pooling has."""
    arms = instances("cpap", 100, runs, authors=True, budget=20)
    rows = []
    for number in rounds:
        regret: dict[str, FloatArray] = {}
        for estimate in ("mean", "pooled"):
            begin(f"{estimate}, {number:,} rounds")
            policy = mf.MeritFair(merit=MERIT, estimate=estimate)
            how = {"budget": 20, "episodes": 50, "horizon": number // 50, "carry_states": True, "seed": 1}
            regret[estimate] = mf.simulate(arms, policy, **how).fairness_regret.sum(axis=1)  # type: ignore[arg-type]
        less = 1 - regret["pooled"].sum() / regret["mean"].sum()
        rows.append([f"{number:,}", f"{100 * less:.0f} %"])
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few instances and draws: to see that it works")
    quick = parser.parse_args().quick
    runs, draws, rounds = (3, 100, ROUNDS[:2]) if quick else (30, 20_000, ROUNDS)
    with progress_bar(len(FLOORS) + 1 + 2 * len(rounds)) as begin:
        tables = floors(runs, begin), designs(draws, begin), pooling(runs, rounds, begin)
    headings = ["floor", "least\nexposure", "longest\nwait", "moved by\nthe floor", "in the\ngood state"]
    print_table(headings, tables[0], "1. Floors")
    print_table(["design", "variance"], tables[1], "2. The number drawn from half of the arms")
    print_table(["rounds", "less regret"], tables[2], "3. What pooling saves on CPAP")
    print_note(f"{runs} of the authors' instances. Means over runs; the longest wait is that of any arm, in steps.")


if __name__ == "__main__":
    main()
