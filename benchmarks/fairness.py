"""How fair the settings are, as tables: `./mf python benchmarks/fairness.py [--quick]`.

Four questions, on the authors' instances (30 of each size) of the paper's three data sets:

1. Which part of the budget goes to other arms than merit says, for known merits, by design?
2. How near do estimates come to the information limit, and how far below the paper's, after 10,000 episodes?
3. The same with the exact design, on exposures.
4. In a short programme (50 rounds, states carried on, 100 arms, 20 pulled), what does pooling gain?
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

import numpy as np

import meritfair as mf
from meritfair.cli.show import print_note, print_table
from meritfair.core.progress import progress_bar
from meritfair.datasets import instances

if TYPE_CHECKING:
    from meritfair.core.arrays import FloatArray

DATASETS = ("synthetic", "synthetic_alternate", "cpap")
SIZES = ((5, 1), (20, 4), (100, 20))
TABLE_1 = ((5, 1), (10, 2), (20, 4), (40, 8), (100, 20))
RUNS = 30
MERIT = mf.Exponential(3.0)
PAPER = "opti-\nmistic"
ESTIMATES = {
    PAPER: {},
    "kl\nball": {"ball": "kl"},
    "mean": {"estimate": "mean"},
    "thomp-\nson": {"estimate": "thompson"},
}


def by_definition(merit: FloatArray, budget: int) -> FloatArray:
    """Return min(1, lambda merit) by plain bisection."""
    low, high = 0.0, budget / float(merit.min())
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if np.minimum(1, middle * merit).sum() < budget else (low, middle)
    return np.minimum(1, high * merit)


def budget_gap(arms: mf.Arms, budget: int, design: str) -> float:
    """Return the part of the budget that goes to other arms than merit says."""
    merit = MERIT(arms.benefit)
    away = np.abs(mf.fair_exposure(merit, budget, design) - by_definition(merit, budget)).sum()
    return float(away) / 2 / budget


def gaps(n_instances: int) -> list[list[str]]:
    rows = []
    for name in DATASETS:
        for n_arms, budget in TABLE_1:
            arms = instances(name, n_arms, n_instances, authors=True, budget=budget)
            found = {d: [budget_gap(each, budget, d) for each in arms] for d in ("sequential", "exact")}
            saturated = [mf.allocate(MERIT(each.benefit), budget).saturated.sum() for each in arms]
            rows.append(
                [
                    name,
                    f"{n_arms}, {budget}",
                    f"{100 * np.mean(found['sequential']):.1f} %",
                    f"{100 * np.max(found['sequential']):.1f} %",
                    f"{np.max(found['exact']):.0e}",
                    f"{np.mean(saturated):.1f}",
                ]
            )
    return rows


def regrets(settings: dict[str, Any], arms: tuple[mf.Arms, ...], budget: int, episodes: int, **more: Any) -> FloatArray:
    """Return the regret of each run: on shares for the sequential design, else on exposures."""
    policy = mf.MeritFair(merit=MERIT, **settings)
    run = mf.simulate(arms, policy, budget=budget, episodes=episodes, seed=1, **more)
    each = run.fairness_regret if policy.design == "sequential" else run.exposure_regret
    return np.asarray(each.sum(axis=1))


def against_the_limit(design: str, episodes: int, sizes: tuple[tuple[int, int], ...], step: Any) -> list[list[str]]:
    rows = []
    for name in DATASETS:
        for n_arms, budget in sizes:
            arms = instances(name, n_arms, RUNS, authors=True, budget=budget)
            limit = np.array([mf.information_limit(each, budget, episodes, 200, MERIT, design) for each in arms])
            step(f"{design}: {name}, {n_arms} arms")
            found = {
                name: regrets({"design": design, **settings}, arms, budget, episodes)
                for name, settings in ESTIMATES.items()
                if design == "sequential" or "ball" not in settings
            }
            ratio = found["mean"] / limit
            error = ratio.std(ddof=1) / np.sqrt(RUNS)
            rows.append(
                [
                    name.removeprefix("synthetic_"),
                    f"{n_arms}, {budget}",
                    *(f"{found[e].mean():,.1f}" for e in found),
                    f"{limit.mean():,.1f}",
                    f"{found['mean'].sum() / limit.sum():.2f}±{error:.2f}",
                    f"{found[PAPER].sum() / found['mean'].sum():.1f}",
                ]
            )
    return rows


def short_programme(step: Any) -> list[list[str]]:
    rows = []
    for name in DATASETS:
        arms = instances(name, 100, RUNS, authors=True, budget=20)
        found: dict[str, FloatArray] = {}
        for estimate in ("optimistic", "mean", "pooled", "thompson"):
            step(f"short programme: {name}, {estimate}")
            found[estimate] = regrets({"estimate": estimate}, arms, 20, 50, horizon=1, carry_states=True)
        change = found["pooled"].sum() / found["mean"].sum() - 1
        rows.append([name, *(f"{each.mean():.2f}" for each in found.values()), f"{100 * change:+.0f} %"])
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer instances, episodes and sizes")
    quick = parser.parse_args().quick
    episodes, sizes = (1000, SIZES[:2]) if quick else (10_000, SIZES)
    with progress_bar(2 * len(DATASETS) * len(sizes) + 4 * len(DATASETS) + 1) as begin:
        begin("exposures")
        known = gaps(3 if quick else RUNS)
        sequential = against_the_limit("sequential", episodes, sizes, begin)
        exact = against_the_limit("exact", episodes, sizes, begin)
        short = short_programme(begin)
    columns = ["data set", "N, K"]
    headings = ["sequential\nmean", "sequential\nlargest", "exact\nlargest", "saturated\narms"]
    title = "1. Part of the budget that goes to other arms than merit says"
    print_table([*columns, *headings], known, title)
    limits = ["limit", "mean /\nlimit", "times\nless"]
    shares = [*columns, *ESTIMATES, *limits]
    exposures = [*columns, *(e for e in ESTIMATES if "ball" not in ESTIMATES[e]), *limits]
    print_table(shares, sequential, f"2. Regret on shares after {episodes:,} episodes, sequential design")
    print_table(exposures, exact, f"3. Regret on exposures after {episodes:,} episodes, exact design")
    columns = ["data set", "optimistic", "mean", "pooled", "thompson", "pooled\nto mean"]
    print_table(columns, short, "4. Regret on shares of a programme of 50 rounds")
    print_note(
        "Where an arm is almost saturated it is almost always pulled, so that its benefit is hard to learn, but its "
        "exposure cannot be far off: there the limit on exposures, a first-order figure, is too high."
    )
    print_note(
        f"Means of {RUNS} runs, one on each instance; merit {MERIT}; ± is a standard error. "
        "Times less: the regret of optimistic over that of mean."
    )


if __name__ == "__main__":
    main()
