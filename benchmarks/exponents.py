r"""How fast exposure regret grows, beside what is proved: `./mf python benchmarks/exponents.py [--quick]`.

Four arms, two of them pulled at each step, merit exp(5 mu). Three arms are alike; how much more merit the first has
says whether it is saturated: with lambda as in `docs/theory.md`, its lambda g is 0.8 (nobody is saturated), 1.5
(saturated) or 1 (just at the limit). The exponent alpha of T^alpha is the slope of the least-squares line through the
logarithms, with a 95 % bootstrap interval over runs.

without slack
    The distance of the exposures of an episode from the fair ones falls as t^(alpha - 1). Its mean over the episodes of
    each half octave, for t from T / 32 to T.
slack
    The same for what is *due* at episode t, from runs of t episodes: what would be due next, for t from T / 16 to T.
instances that become harder
    The first arm has lambda g = 1 - T^(-1/4), so it is the closer to saturation, the longer the run. The regret of runs
    of T episodes, by T.

It takes about five minutes on one core, with `--quick` ten seconds.
"""

from __future__ import annotations

import argparse
import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import meritfair as mf
from meritfair.cli.show import print_note, print_table
from meritfair.core.progress import progress_bar
from meritfair.model.allocation import allocate, learning_cap
from meritfair.model.confidence import Ball
from meritfair.model.counts import Counts
from meritfair.reproduction.growth import slope
from meritfair.simulation.bootstrap import Interval, interval_of, weights

if TYPE_CHECKING:
    from collections.abc import Callable

    from meritfair.core.arrays import FloatArray

C = 5
MERIT = mf.Exponential(C)
BUDGET, HORIZON = 2, 64
KINDS = {"nobody saturated": 0.8, "one saturated": 1.5, "one just at the limit": 1.0}  # lambda g of the first arm
PROVED = {0.0: ("1/2", "1/2", "2/3"), 2.0: ("2/3", "2/3", "3/4")}  # by slack, for each kind
ESTIMATES = {0.0: ("mean", "optimistic"), 2.0: ("mean",)}
SEED = 1


class Scale(NamedTuple):
    episodes: int
    runs: int
    slack_episodes: int
    slack_runs: int
    harder: tuple[int, ...]
    harder_runs: int


FULL = Scale(1_000_000, 20, 16_000, 96, (1_000, 4_000, 16_000, 64_000, 256_000), 32)
QUICK = Scale(10_000, 4, 1_600, 4, (500, 2_000, 8_000), 4)


def arms_with(saturation: float) -> mf.Arms:
    """Return arms of which the first has this lambda g, if lambda shares the budget among all, or among the others."""
    ratio = 3 * saturation / (BUDGET - saturation) if saturation < 1 else 3 * saturation  # of merits
    good = 1 / 3 + 1 / 6 + math.log(ratio) / C  # of the first arm when it is always pulled
    first = [[0.4 / 3, 0.8 * good], [0.6 + 0.4 / 3, 0.2 + 0.8 * good]]
    others = [[0.2, 0.8 * 2 / 3], [0.8, 0.2 + 0.8 * 2 / 3]]
    return mf.Arms(np.array([first, others, others, others]))


def simulate(arms: mf.Arms, estimate: str, slack: float, episodes: int, runs: int, seed: int = SEED) -> mf.Run:
    policy = mf.MeritFair(merit=MERIT, estimate=estimate, design="exact", slack=slack)
    how: dict[str, Any] = {"budget": BUDGET, "horizon": HORIZON, "seed": seed, "workers": 1}
    return mf.simulate(arms, policy, episodes=episodes, runs=runs, **how)


def exponent(points: FloatArray, values: FloatArray) -> Interval:
    """Return the exponent of the mean over runs, of values of shape (runs, points)."""
    return interval_of(slope(points, weights(len(values), SEED) @ values))


def plus_one(found: Interval) -> Interval:
    return Interval(*(1 + each for each in found))


def of_all_episodes(kind: str, estimate: str, scale: Scale) -> Interval:
    ends = (scale.episodes / 2 ** np.arange(5, -0.1, -0.5)).astype(int)
    means = []
    for run in range(scale.runs):  # one by one: a run of a million episodes takes 50 MB
        played = simulate(arms_with(KINDS[kind]), estimate, 0.0, scale.episodes, 1, SEED + run)
        means.append(np.diff(np.cumsum(played.exposure_regret[0])[ends - 1]) / np.diff(ends))
    return plus_one(exponent(np.sqrt(ends[1:] * ends[:-1]), np.array(means)))


def due_next(run: mf.Run, estimate: str) -> FloatArray:
    """Return how far what is due after a run is from the fair exposures, of each run."""
    counts = Counts(run.visits, run.good)
    merit = MERIT(mf.benefit(Ball(counts, run.episodes + 1).estimate(estimate)))
    cap = learning_cap(run.visits[..., 0].sum(axis=-1), BUDGET, 0.0, 1.0)
    due = allocate(merit, BUDGET, cap=cap).exposure
    return np.asarray(np.abs(due - run.fair_exposure).sum(axis=-1))


def of_what_is_due(kind: str, estimate: str, scale: Scale) -> Interval:
    points = scale.slack_episodes // 2 ** np.arange(4, -1, -1)
    arms = arms_with(KINDS[kind])
    runs = [simulate(arms, estimate, 2.0, int(t), scale.slack_runs) for t in points]
    return plus_one(exponent(points.astype(float), np.stack([due_next(run, estimate) for run in runs], axis=1)))


def of_harder_instances(scale: Scale) -> Interval:
    totals = [
        simulate(arms_with(1 - t**-0.25), "mean", 0.0, t, scale.harder_runs).exposure_regret.sum(axis=1)
        for t in scale.harder
    ]
    return exponent(np.array(scale.harder, float), np.stack(totals, axis=1))


def row(name: str, estimate: str, slack: float, proved: str, found: Interval) -> list[str]:
    return [name, estimate, f"{slack:g}", proved, f"{found.mean:.2f}", f"{found.low:.2f} to {found.high:.2f}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="short runs: to see that it works")
    scale = QUICK if parser.parse_args().quick else FULL
    ways: dict[float, Callable[[str, str, Scale], Interval]] = {0.0: of_all_episodes, 2.0: of_what_is_due}
    rows = []
    with progress_bar(3 * len(KINDS) + 1) as begin:
        for slack, measured in ways.items():
            for kind, proved in zip(KINDS, PROVED[slack], strict=True):
                for estimate in ESTIMATES[slack]:
                    begin(f"{kind}, {estimate}, slack {slack:g}")
                    rows.append(row(kind, estimate, slack, proved, measured(kind, estimate, scale)))
        begin("harder with T")
        rows.append(row("harder with T", "mean", 0.0, "3/4", of_harder_instances(scale)))
    headings = ["first arm", "estimate", "slack", "proved:\nat most", "measured", "95 % interval"]
    print_table(headings, rows, f"exponents of exposure regret; up to {scale.episodes:,} episodes of {HORIZON} steps")
    print_note("Proved are upper bounds, up to logarithms, in the long run (docs/theory.md).")


if __name__ == "__main__":
    main()
