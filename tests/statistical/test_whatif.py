"""The interval of an expected share holds the truth as often as it says, and arms that are no chains are refused.

Of n logs the number whose interval holds the truth is binomial if the intervals are right: of 100 logs and a level of
95 % fewer than 83 have a probability below 1e-5. Intervals of half the width hold it in 67 %: they must be found.
An interval that is too narrow is found so. `benchmarks/whatif.py` measures it with logs of live learners, and policies
that are simulated.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from scipy.special import expit, logit

import meritfair as mf
from meritfair.core.arrays import FloatArray, IntArray
from meritfair.scenarios.answer import Outlook
from meritfair.scenarios.chains import Chains, chains_of
from meritfair.scenarios.playing import Ahead, expected, follow
from meritfair.scenarios.start import Start, logged_chance, start_of

LOGS, FEWEST, ROUNDS = 100, 83, 30


@dataclass(frozen=True)
class Change:
    """What is added to all log-odds: by the state before, if there was a pull before, and in the second half."""

    state: float = 0.0
    pull: float = 0.0
    half: float = 0.0

    def __call__(self, before: IntArray, last: IntArray, t: int) -> FloatArray:
        return self.state * (before - 0.5) + self.pull * last + self.half * (t >= ROUNDS / 2)


CHAINS = Change()


def lottery_log(arms: mf.Arms, budget: int, seed: int, change: Change = CHAINS) -> mf.StateLog:
    """Return the log of a lottery with unequal exposures, without states in one row of ten."""
    rng, n_arms = np.random.default_rng(seed), arms.n_arms
    before, last = np.zeros((2, n_arms), np.int64)
    exposure = mf.fair_exposure(rng.uniform(0.5, 2, n_arms), budget, design="exact")
    states, rows = rng.integers(0, 2, n_arms), []
    for t in range(ROUNDS):
        actions = mf.draw_exposures(exposure, rng=rng)[0].astype(np.int64)
        rows.append((states, actions))
        chance = expit(logit(arms.transitions[np.arange(n_arms), states, actions]) + change(before, last, t))
        before, last = states, actions
        states = (rng.random(n_arms) < chance).astype(np.int64)
    rows.append((states, np.full(n_arms, -1)))
    seen, done = (np.concatenate(column) for column in zip(*rows, strict=True))
    seen = np.where(rng.random(len(seen)) < 0.1, -1, seen)
    names, numbers = np.tile(np.arange(n_arms), ROUNDS + 1), np.repeat(np.arange(ROUNDS + 1), n_arms)
    stated = np.where(done < 0, np.nan, np.tile(exposure, ROUNDS + 1))
    return mf.StateLog(names, numbers, seen, done, exposure=stated)


def shares(start: Start, chains: Chains, chance: FloatArray) -> FloatArray:
    """Return the expected share for each draw of the chains, if arms are pulled by these chances."""
    return follow(Ahead(chains, start.belief(chains.draws), ROUNDS, 1, 2, 0), chance)[0]


@pytest.mark.slow
@pytest.mark.parametrize("dataset", ["cpap", "synthetic"])
def test_intervals_hold_the_truth(dataset: str) -> None:
    held = narrow = 0
    for seed in range(LOGS):
        arms = mf.datasets.instances(dataset, 30, 1, seed=seed)[0]
        log = lottery_log(arms, 6, seed)
        start = start_of(log)
        chance = logged_chance(log, start)
        drawn = chains_of(log, start, "pooled", 40, seed, lambda *_: None)
        found = shares(start, drawn, chance)
        truth = shares(start, Chains(drawn.counts, arms.transitions, arms.transitions[None]), chance)[0]
        mean, low, high = expected(found, found[:20])
        held += low <= truth <= high
        narrow += abs(truth - mean) <= (high - mean) / 2
    assert FEWEST <= held <= LOGS
    assert narrow < FEWEST


NO_CHAINS = {
    "the state before the last": Change(state=1.5),
    "whether there was a pull the round before": Change(pull=1.5),
    "whether it was in the second half of the log": Change(half=1.0),
}


@pytest.mark.slow
@pytest.mark.parametrize("about", NO_CHAINS)
def test_arms_that_are_no_chains_are_refused(about: str) -> None:
    """Of ten logs at least nine, by the reason that was planted."""
    found = [whatif_of(seed, NO_CHAINS[about]) for seed in range(10)]
    assert sum(f"in the log outcomes also depend on {about}" in each.check.refusal for each in found) >= 9
    assert {each.verdict for each in found} <= {"disagrees", "agrees"}


@pytest.mark.slow
def test_arms_that_are_chains_are_hardly_ever_refused() -> None:
    """More than 3 of 60 logs have a probability below 1e-5 if one in two hundred is refused."""
    assert sum(whatif_of(seed, CHAINS).verdict == "disagrees" for seed in range(60)) <= 3


def whatif_of(seed: int, change: Change) -> Outlook:
    arms = mf.datasets.synthetic(n_arms=80, seed=seed)
    return mf.whatif(lottery_log(arms, 20, seed, change), ["random"], draws=40, rounds=4, seed=seed).asked[0]
