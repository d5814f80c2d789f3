"""What gaps are worth where not every state is seen, and what it costs to simulate that.

Error of the benefit: the mean over arms and runs of the distance between the estimated benefit and the true one, after
some rounds of calls at random, from transitions of which both ends were seen alone, and from gaps too. A ratio below 1
says that gaps help. Then nanoseconds for each arm and step, of policies that look at no state, at states, and at states
and accounts. Run it by `python benchmarks/observed.py`; it takes about two minutes.
"""

from __future__ import annotations

import time
from typing import Any
from unittest import mock

import numpy as np

import meritfair as mf
from meritfair.model.benefit import benefit
from meritfair.model.gaps import Filled
from meritfair.policies.plans import Lottery, Plan
from meritfair.policies.view import View
from meritfair.simulation import watching

ARMS, BUDGET, RUNS = 100, 20, 20


def complete_only(counts: mf.Counts, *_: Any, **__: Any) -> Filled:
    """Return what is known without gaps."""
    return Filled(counts.mean, counts, counts)


def error(dataset: str, observed: Any, rounds: int) -> float:
    """Return the error of the benefit after that many rounds of calls at random."""
    last: list[View] = []

    def calls(view: View) -> Plan:
        last[:] = [view]
        return Lottery(np.ones(view.n_arms))

    arms = [getattr(mf.datasets, dataset)(n_arms=ARMS, seed=seed) for seed in range(RUNS)]
    mf.simulate(arms, calls, budget=BUDGET, episodes=2, horizon=rounds, seed=1, observed=observed)
    truth = np.stack([each.benefit for each in arms])
    return float(np.abs(benefit(last[0].counts.mean) - truth).mean())


def show_errors() -> None:
    """Print errors of the benefit, from complete transitions alone and with gaps."""
    print(f"error of the benefit: {ARMS} arms, {BUDGET} called at random, {RUNS} runs")
    print(f"{'data set':22} {'seen':8} {'rounds':>6} {'all seen':>9} {'complete':>9} {'with gaps':>9} {'ratio':>6}")
    for dataset in ("cpap", "synthetic", "synthetic_alternate"):
        for rounds in (52, 520):
            for observed in (0.7, "pulled"):
                with mock.patch.object(watching, "fill", complete_only):
                    alone = error(dataset, observed, rounds)
                both, everything = error(dataset, observed, rounds), error(dataset, None, rounds)
                numbers = f"{everything:9.4f} {alone:9.4f} {both:9.4f} {both / alone:6.2f}"
                print(f"{dataset:22} {observed!s:8} {rounds:6} {numbers}")


def show_times() -> None:
    """Print how long a step of an arm takes."""
    arms, length = mf.datasets.cpap(n_arms=ARMS, seed=1), {"budget": BUDGET, "episodes": 50, "seed": 1, "workers": 1}
    print(f"\nnanoseconds for each arm and step: {ARMS} arms, 50 episodes of 200 steps, one run")
    for policy in ("random", "merit-fair:estimate=mean", "whittle", "recommended"):
        found = []
        for observed in (None, 0.7, "pulled"):
            mf.simulate(arms, policy, **(length | {"episodes": 2}), observed=observed)  # type: ignore[arg-type]
            start = time.perf_counter()
            mf.simulate(arms, policy, **length, observed=observed)  # type: ignore[arg-type]
            found.append((time.perf_counter() - start) / (ARMS * 50 * 200) * 1e9)
        print(f"{policy:50} all seen {found[0]:6.1f}   0.7 {found[1]:6.1f}   pulled {found[2]:6.1f}")


if __name__ == "__main__":
    show_errors()
    show_times()
