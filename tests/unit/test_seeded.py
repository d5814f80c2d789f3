"""Seeded results of every policy, design, estimate, ball and merit are what they have always been.

``tests/data/seeded.json`` holds them: integers (pulls, reward, a hash of all counts and choices) to the last digit,
floats to nine digits, as the last ones may differ from processor to processor. A change that is meant to move a number
writes the file again, and says why in the changelog::

    ./mf python tests/unit/test_seeded.py
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import meritfair as mf
from meritfair.model.confidence import BALLS, ESTIMATES
from meritfair.model.exposure import DESIGNS

FILE = Path(__file__).parents[1] / "data" / "seeded.json"
EXACT = 1e-9
MERITS = (mf.Exponential(1.0), mf.Exponential(10.0), mf.Affine(), mf.Power(), mf.Logistic())

Results = dict[str, dict[str, Any]]


def digest(*arrays: Any) -> str:
    total = hashlib.sha256()
    for array in arrays:
        total.update(np.ascontiguousarray(array, np.int64).tobytes())
    return total.hexdigest()[:16]


def played(arms: mf.Arms, policy: mf.Policy, budget: int | list[int], **settings: Any) -> dict[str, Any]:
    """Return what is remembered of two short runs."""
    run = mf.simulate(arms, policy, budget=budget, episodes=8, horizon=70, runs=2, seed=5, **settings)
    floats = (run.fairness_regret, run.fairness_regret_authors, run.exposure_regret, run.eta, run.omega)
    gaps = run.coverage_gap, run.coverage_gap_authors
    return {
        "pulls": run.pulls.sum(axis=0).tolist(),
        "reward": int(run.reward.sum()),
        "counts": digest(run.visits, run.good, run.reward, run.longest_wait, *gaps),
        "floats": [*(float(each.sum()) for each in floats), *np.abs(run.account_range).sum(axis=(0, 2)).tolist()],
    }


def policies() -> Results:
    one, other = mf.datasets.synthetic(n_arms=6, seed=1), mf.datasets.cpap(n_arms=20, seed=2)
    every = {name: mf.policies.create(name) for name in mf.policies.names()}
    return {
        **{f"{name}, synthetic": played(one, policy, 2) for name, policy in every.items()},
        **{f"{name}, cpap, carried on": played(other, policy, 8, carry_states=True) for name, policy in every.items()},
    }


def designs() -> Results:
    arms = mf.datasets.synthetic_alternate(n_arms=8, seed=3)
    return {
        f"{design}, {estimate}": played(
            arms, mf.MeritFair(design=design, estimate=estimate), budget=3, exposure_regret=True
        )
        for design in DESIGNS
        for estimate in ESTIMATES
    }


def balls() -> Results:
    arms = mf.datasets.cpap(n_arms=5, seed=4)
    return {
        f"{ball}, {estimate}": played(arms, mf.MeritFair(ball=ball, estimate=estimate, delta=0.2), budget=1)
        for ball in BALLS
        for estimate in ESTIMATES
    }


def merits_and_bounds() -> Results:
    arms = mf.datasets.synthetic(n_arms=7, seed=5)
    between = {design: mf.MeritFair(design=design, floor=0.05, cap=0.7) for design in DESIGNS[1:]}
    return {
        **{str(merit): played(arms, mf.MeritFair(merit=merit), budget=2) for merit in MERITS},
        **{f"{design}, bounds": played(arms, policy, budget=2) for design, policy in between.items()},
    }


def over_time() -> Results:
    arms, rules = mf.datasets.cpap(n_arms=12, seed=8), mf.Rules(cooldown=1, warmup=3)
    exact = {estimate: mf.MeritFair(design="exact", estimate=estimate, slack=1.0) for estimate in ESTIMATES}
    free, blind = mf.FairOracle(design="systematic", slack=np.inf), mf.MeritFair(design="exact", estimate="mean")
    found = {estimate: played(arms, policy, budget=3) for estimate, policy in exact.items()}
    found |= {"known": played(arms, free, budget=3), "rules": played(arms, exact["mean"], budget=[3, 0], rules=rules)}
    return found | {
        name: played(arms, policy, budget=3, rules=rules)
        for name, policy in {"blind": blind, "whittle": mf.Whittle(), "round-robin": mf.RoundRobin()}.items()
    }


def learners() -> Results:
    arms, found = mf.datasets.synthetic(n_arms=6, seed=6), {}
    everyone = np.arange(arms.n_arms)
    for name in mf.policies.names():
        learner = mf.policies.create(name).start(n_arms=6, budget=2, seed=9, horizon=3, transitions=arms.transitions)
        rng = np.random.default_rng(4)
        states, chosen, exposure = rng.integers(0, 2, 6), [], np.zeros(6)
        for number in range(1, 13):
            choice = learner.choose(states=states)
            following = rng.random(6) < arms.transitions[everyone, states, choice.actions]
            learner.observe(states, choice.actions, following.astype(np.int64))
            states = following.astype(np.int64)
            chosen.append(choice.arms.tolist())
            exposure += number * choice.exposure  # an exposure of another round would tell
        found[name] = {"chosen": chosen, "floats": exposure.tolist()}
    return found


def draws_and_fits() -> Results:
    merit, rng = np.array([5.0, 3.0, 2.0, 1.0, 1.0, 0.5]), np.random.default_rng(7)
    visits = rng.integers(0, 40, (6, 2, 2))
    counts = mf.Counts(visits, rng.binomial(visits, 0.4))
    found: Results = {}
    for design in DESIGNS:
        drawn = mf.draw(merit, 2, rng=np.random.default_rng(8), size=50, design=design)
        found[f"draw, {design}"] = {"chosen": digest(drawn), "floats": mf.fair_exposure(merit, 2, design).tolist()}
    for estimate in ("mean", "pooled"):
        rows = mf.fit(counts, budget=2, estimate=estimate, seed=3).rows()
        names = ("benefit", "benefit_low", "benefit_high", "exposure", "exposure_low", "exposure_high")
        found[f"fit, {estimate}"] = {"floats": [row[name] for row in rows for name in names]}
    return found


GROUPS: tuple[Callable[[], Results], ...] = (
    policies,
    designs,
    balls,
    merits_and_bounds,
    over_time,
    learners,
    draws_and_fits,
)


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.__name__)
def test_seeded_results_are_what_they_were(group: Callable[[], Results]) -> None:
    expected, found = json.loads(FILE.read_text())[group.__name__], group()
    assert found.keys() == expected.keys()
    for name, values in found.items():
        np.testing.assert_allclose(values.pop("floats"), expected[name].pop("floats"), EXACT, EXACT, err_msg=name)
        assert values == expected[name], name


def test_other_seeds_would_be_noticed() -> None:
    arms = mf.datasets.synthetic(n_arms=6, seed=1)
    first, second = (played(arms, mf.MeritFair(), 2, first_run=number) for number in (0, 1))
    assert first["counts"] != second["counts"]


def written(results: Results) -> str:
    """Return results as JSON with a line for each."""
    return "{\n" + ",\n".join(f"{json.dumps(name)}: {json.dumps(values)}" for name, values in results.items()) + "\n}"


if __name__ == "__main__":
    groups = ",\n".join(f'"{group.__name__}": {written(group())}' for group in GROUPS)
    FILE.write_text(f"{{\n{groups}\n}}\n")
