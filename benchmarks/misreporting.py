"""What one person gains by reporting wrongly, and what helps: `./mf python benchmarks/misreporting.py [--quick]`.

Programmes of 20 people, of whom 4 are called in each of 100 rounds, start from nothing. One person reports a good state
after every call and a bad one after every round without: as if calls did everything. States are reported to the
programme, so lies are learned from, and count as the state at the start of the next round. A part of that person's
states may be verified: seen by others, and entered as they are. The first table has in how many rounds that person is
called, and how many they are due, by defence; beside it how many they would be called if they told the truth, in the
same programmes; and in which part of the programmes the audit lists their outcomes as improbable beside those of the
others (`meritfair.model.improbable`). Where two people report so, all of it is the mean of both. The second table has
how often anybody is listed where all are honest, at 5 %.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import meritfair as mf
from meritfair.cli.show import print_note, print_table
from meritfair.core.arrays import BoolArray, FloatArray
from meritfair.core.seeding import stream
from meritfair.model.counts import Counts
from meritfair.model.improbable import improbable

PEOPLE, CALLS, ROUNDS = 20, 4, 100
TWO = "none, two lie"
KNOWN: dict[str, Any] = {"estimate": "mean", "design": "exact", "slack": 2.0}
DEFENCES: dict[str, tuple[dict[str, Any], float]] = {  # settings, and which part of the states is verified
    "none": ({}, 0.0),
    TWO: ({}, 0.0),
    "slack 0": ({"slack": 0.0}, 0.0),
    "cap 0.4": ({"cap": 0.4}, 0.0),
    "cap 0.3": ({"cap": 0.3}, 0.0),
    "pooled": ({"estimate": "pooled"}, 0.0),
    "pooled, cap 0.3": ({"estimate": "pooled", "cap": 0.3}, 0.0),
    "a quarter verified": ({}, 0.25),
    "half verified": ({}, 0.5),
    "all verified": ({}, 1.0),
    "cap 0.3, half verified": ({"cap": 0.3}, 0.5),
}


@dataclass(frozen=True)
class Played:
    """What came of one programme: calls and due exposure of each person, and what was reported."""

    calls: FloatArray
    due: FloatArray
    counts: Counts

    @property
    def listed(self) -> BoolArray:
        """Whether each person is listed."""
        return improbable(self.counts).named


def play(arms: mf.Arms, settings: dict[str, Any], seed: int, *, liars: int = 0, verified: float = 0.0) -> Played:
    """Play one programme in which the first people report good exactly after calls, unless a state is verified."""
    N = arms.n_arms
    learner = mf.MeritFair(**(KNOWN | settings)).start(n_arms=N, budget=N * CALLS // PEOPLE, seed=seed)
    coins, checks = stream(seed, "environment", 0), stream(seed, "sight", 0)
    truth, states = np.zeros((2, N), np.int64)
    visits, good = np.zeros((2, N, 2, 2), np.int64)
    calls, due = np.zeros((2, N))
    for _ in range(ROUNDS):
        choice = learner.choose(states)
        actions = np.asarray(choice.actions)
        calls, due = calls + actions, due + choice.due
        truth = (coins.random(N) < arms.transitions[np.arange(N), truth, actions]).astype(np.int64)
        after = truth.copy()
        lie = checks.random(liars) >= verified
        after[:liars] = np.where(lie, actions[:liars], after[:liars])
        learner.observe(states, actions, after)
        visits[np.arange(N), states, actions] += 1
        good[np.arange(N), states, actions] += after
        states = after
    return Played(calls, due, Counts(visits, good))


def logit_normal(n_arms: int, seed: int) -> mf.Arms:
    """Return people with an effect of the person on all four probabilities, who follow no prior of ours."""
    rng = stream(seed, "instance", 2)
    person, call = 0.9 * rng.normal(size=n_arms), 0.5 + 0.4 * rng.normal(size=n_arms)
    logits = np.array([[-0.8, -0.8], [0.8, 0.8]]) + person[:, None, None] + 0.3 * rng.normal(size=(n_arms, 2, 2))
    logits[:, :, 1] += call[:, None]
    return mf.Arms(1 / (1 + np.exp(-logits)))


def rare_kind(n_arms: int, seed: int) -> mf.Arms:
    """Return people of whom one in twenty is of a kind that is well after nearly every call, and hardly otherwise."""
    rng = stream(seed, "instance", 3)
    usual, rare = np.array([[0.2, 0.35], [0.6, 0.7]]), np.array([[0.08, 0.9], [0.1, 0.93]])
    return mf.Arms(np.where(rng.random((n_arms, 1, 1)) < 0.05, rare, usual))


POPULATIONS = {
    "CPAP": lambda n, seed: mf.datasets.cpap(n_arms=n, seed=seed),
    "Synthetic": lambda n, seed: mf.datasets.synthetic(n_arms=n, seed=seed),
    "Synthetic-alternate": lambda n, seed: mf.datasets.synthetic_alternate(n_arms=n, seed=seed),
    "logit-normal": logit_normal,
    "a rare kind": rare_kind,
}


def defences(population: str, runs: int) -> Iterator[list[str]]:
    """Yield a row for each defence."""
    make, honest = POPULATIONS[population], dict[str, FloatArray]()
    for name, (settings, verified) in DEFENCES.items():
        n = 2 if name == TWO else 1
        if str(settings) not in honest:
            truthful = [play(make(PEOPLE, seed), settings, seed) for seed in range(runs)]
            honest[str(settings)] = np.array([each.calls for each in truthful])
        lying = [play(make(PEOPLE, seed), settings, seed, liars=n, verified=verified) for seed in range(runs)]
        before = honest[str(settings)][:, :n].mean(axis=1)
        calls = np.array([each.calls[:n].mean() for each in lying])
        error = (calls - before).std(ddof=1) / np.sqrt(runs)
        gain = f"{(calls - before).mean():+.1f} ± {error:.1f}"
        due, listed = np.mean([each.due[:n] for each in lying]), np.mean([each.listed[:n] for each in lying])
        yield [population, name, f"{before.mean():.1f}", f"{calls.mean():.1f}", gain, f"{due:.1f}", f"{listed:.0%}"]


def false_alarms(runs: int, sizes: tuple[int, ...]) -> Iterator[list[str]]:
    """Yield a row for each population and size: how often anybody is listed, though all are honest."""
    for population, make in POPULATIONS.items():
        for people in sizes:
            found = [play(make(people, seed), {}, seed).listed for seed in range(1000, 1000 + runs)]
            some = np.array([each.any() for each in found])
            yield [population, str(people), f"{some.sum()} of {runs}", f"{np.mean(found):.3%}"]


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer programmes")
    quick = parser.parse_args().quick
    runs = 5 if quick else 60
    print_note(f"one of {PEOPLE} people lies for {ROUNDS} rounds of {CALLS} calls; {runs} programmes")
    headings = ["people", "defence", "calls if honest", "if lying", "gain", "due if lying", "listed"]
    print_table(headings, [row for name in ("CPAP", "Synthetic") for row in defences(name, runs)])
    print_note(f"all are honest, {ROUNDS} rounds: programmes in which anybody is listed")
    alarms = list(false_alarms(5 if quick else 40, (20, 100)))
    print_table(["people", "how many", "programmes", "of all people"], alarms)


if __name__ == "__main__":
    main()
