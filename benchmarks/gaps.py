"""States that were not observed: what bridging gaps is worth, whether intervals hold, and how long it takes.

    ./mf python benchmarks/gaps.py [--part error|coverage|speed]

The error of the benefit is the root mean square over arms and repetitions. It is compared with that of complete
transitions alone, and with that of the same log with nothing missing: no estimate can be expected to do better.
"""

from __future__ import annotations

import argparse
import resource
import time
from typing import Any

import numpy as np

import meritfair as mf
from meritfair.model.gaps import fill
from meritfair.model.posterior import fit_prior

SETTINGS = [(5, 1, 100), (20, 4, 20), (20, 4, 52), (20, 4, 200), (100, 20, 52), (100, 20, 200)]


def make_log(transitions: Any, budget: int, rounds: int, missing: float | str, seed: int) -> mf.StateLog:
    """Return a log of a uniform lottery; `missing` is a rate, or "pulled": a state is seen only when pulled."""
    rng, N = np.random.default_rng(seed), len(transitions)
    now = rng.integers(0, 2, N)
    states, actions = np.empty((2, rounds + 1, N), np.int64)
    for t in range(rounds + 1):
        states[t], actions[t] = now, 0
        actions[t, rng.choice(N, budget, replace=False)] = 1
        now = (rng.random(N) < transitions[np.arange(N), now, actions[t]]).astype(int)
    seen = actions == 1 if missing == "pulled" else rng.random(states.shape) >= float(missing)
    arms, when = np.tile(np.arange(N), rounds + 1), np.repeat(np.arange(rounds + 1), N)
    return mf.StateLog(arms, when, np.where(seen, states, -1).ravel(), actions.ravel())


def estimates(counts: mf.Counts) -> dict[str, Any]:
    return {"mean": counts.mean, "pooled": np.clip(fit_prior(counts).posterior(counts).mean, 1e-9, 1 - 1e-9)}


def errors(data: str, size: tuple[int, int, int], missing: float | str, arms_in_all: int = 1000) -> dict[str, Any]:
    """Return the error of each estimate: of complete transitions alone, with gaps, and with nothing missing."""
    N, K, H = size
    squares: dict[tuple[str, str], list[float]] = {}
    for seed in range(-(-arms_in_all // N)):
        arms = getattr(mf.datasets, data)(n_arms=N, seed=seed)
        log, full = (make_log(arms.transitions, K, H, rate, seed) for rate in (missing, 0.0))
        known = {"alone": log.counts, "bridged": fill(log.counts, log.bridged).effective, "full": full.counts}
        for how, counts in known.items():
            for name, point in estimates(counts).items():
                squares.setdefault((name, how), []).append(((mf.benefit(point) - arms.benefit) ** 2).mean())
    return {name: {how: np.sqrt(np.mean(squares[name, how])) for how in known} for name in ("mean", "pooled")}


def show_errors() -> None:
    print("Error of the benefit: complete transitions alone, gaps bridged, nothing missing; ratios to the first")
    for data in ("cpap", "synthetic", "synthetic_alternate"):
        for missing in (0.3, 0.6, "pulled"):
            for size in SETTINGS:
                for name, found in errors(data, size, missing).items():
                    alone, bridged, full = (found[how] for how in ("alone", "bridged", "full"))
                    print(
                        f"{data:20} N,K,H {size!s:14} missing {missing!s:6} {name:6} {alone:.3f} {bridged:.3f} "
                        f"{full:.3f}   ratio {bridged / alone:.2f}   nothing missing {full / alone:.2f}",
                        flush=True,
                    )


def show_coverage() -> None:
    print("Coverage of 95 % intervals of the benefit, 4,000 arms with uniform probabilities (bar: 93 to 97 %)")
    for rounds in (40, 120):
        for missing in (0.0, 0.1, 0.3, 0.6, "pulled"):
            truth = np.random.default_rng(5).random((4000, 2, 2))
            log, benefit = make_log(truth, 1000, rounds, missing, 1), mf.benefit(truth)
            inside = {}
            for method in ("draws", "delta"):
                found = mf.fit(log, budget=1000, method=method).assessment
                inside[method] = 100 * ((found.benefit_low <= benefit) & (benefit <= found.benefit_high)).mean()
            print(
                f"{rounds:4} rounds, missing {missing!s:6}: "
                f"draws {inside['draws']:.1f} %, delta {inside['delta']:.1f} %"
            )


def live_round(missing: float, n_arms: int = 10_000, rounds: int = 25) -> float:
    """Return how long a choice takes, as the median of the last five rounds, if that part of states is missing."""
    arms, rng = mf.datasets.cpap(n_arms=n_arms, seed=1), np.random.default_rng(1)
    policy = mf.MeritFair(estimate="pooled", design="exact", floor=0.01, slack=2)
    learner, now, took = policy.start(n_arms=n_arms, budget=n_arms // 50, seed=1), rng.integers(0, 2, n_arms), []
    for _ in range(rounds):
        seen = np.where(rng.random(n_arms) >= missing, now, -1)
        start = time.perf_counter()
        choice = learner.choose(seen)
        took.append(time.perf_counter() - start)
        now = (rng.random(n_arms) < arms.transitions[np.arange(n_arms), now, choice.actions]).astype(int)
        learner.observe(seen, choice.actions, np.full(n_arms, -1), round=choice.round)
    return float(np.median(took[-5:]))


def show_speed() -> None:
    arms = mf.datasets.cpap(n_arms=10_000, seed=1)
    log = make_log(arms.transitions, 2000, 52, 0.3, 1)
    few = make_log(arms.transitions[:20], 2, 10, 0.3, 1)
    fit_prior(fill(few.counts, few.bridged).effective)  # compiles
    mf.fit(few, budget=2)
    start = time.perf_counter()
    filled = fill(log.counts, log.bridged)
    em = time.perf_counter() - start
    fit_prior(filled.effective)
    both = time.perf_counter() - start
    start = time.perf_counter()
    mf.fit(log, budget=2000, method="delta")
    delta = time.perf_counter() - start
    start = time.perf_counter()
    mf.fit(log, budget=2000)
    whole = time.perf_counter() - start
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(f"10,000 arms × 52 rounds, 30 % missing: EM {em:.2f} s, with classes {both:.2f} s (bar 5 s)")
    complete, missing = (live_round(rate) for rate in (0.0, 0.3))
    print(f"live round of 10,000 arms, pooled: {complete:.3f} s (bar 0.15 s), {missing:.3f} s with 30 % missing")
    print(f"fit: {delta:.1f} s by delta, {whole:.1f} s by 1,000 draws; at most {memory:.2f} GB (bar 1 GB)")


PARTS = {"error": show_errors, "coverage": show_coverage, "speed": show_speed}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--part", choices=PARTS)
    chosen = parser.parse_args().part
    for name, show in PARTS.items():
        if chosen in (None, name):
            show()
