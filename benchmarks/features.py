"""What features are worth to newcomers, as tables: `./mf python benchmarks/features.py [--quick]`.

Half of the arms were seen for 50 rounds, each pulled in one round of five; of the others, the newcomers, nothing was.
Errors are mean absolute errors of the estimate ``pooled``, with features and without, over many instances.

1. CPAP with a feature that names the kind of patient (adherer or not) rightly nine times in ten. Bar: the newcomers'
   error of the probabilities of a good next state is at most 0.65 of that without.
2. Features that tell nothing, on the paper's three data sets. Bar: at most 2 % worse, for newcomers and for the others.
3. How long a plan takes in live use, by the number of arms, with four features, one of them of twenty levels.

The benefit of CPAP patients hardly depends on their kind: the noise of each patient is larger. The table says how small
the error could become if the kind of every newcomer were known, and all of that kind had the mean of it.
"""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING, Any

import numpy as np

import meritfair as mf
from meritfair.cli.show import print_note, print_table
from meritfair.core.progress import progress_bar

if TYPE_CHECKING:
    from collections.abc import Callable

    from meritfair.core.arrays import BoolArray, FloatArray

DATASETS = {"cpap": mf.datasets.cpap, "synthetic": mf.datasets.synthetic, "alternate": mf.datasets.synthetic_alternate}
SIZES = (60, 200)
ROUNDS, SHARE = 50, 0.2
RIGHT = 0.9
BAR, COST = 0.65, 1.02


def seen_for(arms: mf.Arms, rounds: int, newcomers: BoolArray, rng: np.random.Generator) -> mf.Counts:
    """Return counts of so many rounds, of newcomers none."""
    everyone = np.arange(arms.n_arms)
    states, (visits, good) = rng.integers(0, 2, arms.n_arms), np.zeros((2, arms.n_arms, 2, 2), np.int64)
    for _ in range(rounds):
        actions = (rng.random(arms.n_arms) < SHARE).astype(np.int64)
        after = (rng.random(arms.n_arms) < arms.transitions[everyone, states, actions]).astype(np.int64)
        visits[everyone, states, actions] += 1
        good[everyone, states, actions] += after
        states = after
    visits[newcomers] = good[newcomers] = 0
    return mf.Counts(visits, good)


def features_of(kind: str, arms: mf.Arms, rng: np.random.Generator) -> mf.Features:
    """Return features that tell the kind of patient, or nothing."""
    n_arms = arms.n_arms
    if kind == "kind":
        truth = np.array([name.startswith("non-adherer") for name in arms.names])
        return mf.Features({"kind": np.where(truth ^ (rng.random(n_arms) > RIGHT), "b", "a").tolist()})
    if kind == "coin":
        return mf.Features({"coin": rng.choice(["a", "b"], n_arms).tolist()})
    return mf.Features(
        {"number": rng.normal(size=n_arms).tolist(), "letter": rng.choice(list("abcde"), n_arms).tolist()}
    )


def errors(dataset: str, n_arms: int, kind: str, seed: int) -> FloatArray:
    """Return errors of probabilities and of benefits: of newcomers and of others, without features and with."""
    rng = np.random.default_rng(seed)
    arms = DATASETS[dataset](n_arms=n_arms, seed=seed)
    newcomers = rng.random(n_arms) < 0.5
    counts, features = seen_for(arms, ROUNDS, newcomers, rng), features_of(kind, arms, rng)
    without, with_features = mf.fit_prior(counts), mf.fit_feature_prior(counts, features)
    found = []
    for mean in (without.posterior(counts).mean, with_features.posterior(counts, features).mean):
        off = np.abs(mean - arms.transitions).mean(axis=(1, 2)), np.abs(mf.benefit(mean) - arms.benefit)
        found.append([each[who].mean() for each in off for who in (newcomers, ~newcomers)])
    return np.array([*found, np.full(4, float(len(with_features.used)))])


def by_kind(n_arms: int, seed: int) -> FloatArray:
    """Return the errors of probabilities and benefits if nothing is known of CPAP patients, and if their kind is."""
    arms = mf.datasets.cpap(n_arms=n_arms, seed=seed)
    kind = np.array([name.startswith("non-adherer") for name in arms.names])
    P, found = arms.transitions, []
    for mean in (np.full(P.shape, P.mean(axis=0)), np.where(kind[:, None, None], P[kind].mean(0), P[~kind].mean(0))):
        found.append([np.abs(mean - P).mean(), np.abs(mf.benefit(mean) - arms.benefit).mean()])
    return np.array(found)


def table(cases: list[tuple[str, str]], instances: int) -> list[list[str]]:
    """Return a row for each data set, size and kind of feature."""
    rows = []
    for dataset, kind in cases:
        for n_arms in SIZES:
            each = np.mean([errors(dataset, n_arms, kind, seed) for seed in range(instances)], axis=0)
            ratio = each[1] / each[0]
            bar = BAR if kind == "kind" else COST
            kept = ratio[0] <= bar and ratio[1] <= COST
            numbers = [f"{each[0, 0]:.3f}", f"{ratio[0]:.3f}", f"{ratio[1]:.3f}", f"{ratio[2]:.3f}", f"{ratio[3]:.3f}"]
            rows.append([dataset, str(n_arms), kind, *numbers, f"{each[2, 0]:.2f}", "yes" if kept else "NO"])
    return rows


def seconds(n_arms: int) -> list[str]:
    """Return how long fits take."""
    rng = np.random.default_rng(1)
    arms = mf.datasets.cpap(n_arms=n_arms, seed=1)
    counts = seen_for(arms, ROUNDS, np.zeros(n_arms, np.bool_), rng)
    columns: dict[str, Any] = dict(features_of("kind", arms, rng).columns)
    columns |= {"age": rng.integers(18, 90, n_arms).tolist(), "sex": rng.choice(["f", "m"], n_arms).tolist()}
    columns["district"] = [f"d{i}" for i in rng.integers(0, 20, n_arms)]
    features, took = mf.Features(columns), []
    fractional = mf.Counts(counts.visits * 0.97, counts.good * 0.96)
    for fit in (
        lambda: mf.fit_prior(counts),
        lambda: mf.fit_feature_prior(counts, features).posterior(counts, features),
        lambda: mf.fit_feature_prior(fractional, features).posterior(fractional, features),
    ):
        fit()
        took.append(min(_seconds(fit) for _ in range(3)))
    return [f"{n_arms:,}", *(f"{each:.2f}" for each in took)]


def _seconds(function: Callable[[], object]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="20 instances instead of 100")
    instances = 20 if parser.parse_args().quick else 100
    head = [
        "data set",
        "arms",
        "feature",
        "error,\nnew",
        "ratio,\nnew",
        "ratio,\nseen",
        "benefit,\nnew",
        "benefit,\nseen",
    ]
    head += ["features\nused", "bar\nkept"]
    useless = [(dataset, kind) for dataset in DATASETS for kind in ("coin", "two")]
    with progress_bar(1) as begin:
        begin("instances")
        rows = table([("cpap", "kind"), *useless], instances)
        floor = np.mean([by_kind(200, seed) for seed in range(instances)], axis=0)
    print_table(head, rows, f"Newcomers, and arms seen for {ROUNDS} rounds; {instances} instances")
    print_note(f"Bars: ratio of newcomers at most {BAR} if the feature tells the kind, else all at most {COST}.")
    print_note(
        f"CPAP if the kind of each were known: the error of probabilities would be {floor[1, 0]:.3f}, which is "
        f"{floor[1, 0] / floor[0, 0]:.2f} of that if nothing were known; that of benefits {floor[1, 1]:.3f}, "
        f"which is {floor[1, 1] / floor[0, 1]:.2f}."
    )
    print_table(
        ["arms", "pooled", "with features", "counts with\nfractions"], list(map(seconds, (100, 1000, 10000))), "Seconds"
    )


if __name__ == "__main__":
    main()
