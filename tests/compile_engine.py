"""Compiles what most tests need if nothing of this source is compiled yet: once, before many processes all would."""

from __future__ import annotations

import itertools

import meritfair as mf
from meritfair.engine.compiling import cache_directory
from meritfair.model.confidence import BALLS, ESTIMATES
from meritfair.model.exposure import DESIGNS


def main() -> None:
    directory = cache_directory()
    if directory is None or any(directory.glob("*.code")):
        return
    policies = [mf.policies.create(name) for name in mf.policies.names()]
    policies += [mf.MeritFair(design=design, estimate=each) for design, each in itertools.product(DESIGNS, ESTIMATES)]
    policies += [mf.MeritFair(ball=ball) for ball in BALLS]
    for n_arms, budget in ((6, 2), (20, 8)):  # drawn in passes, and by arrival
        arms = mf.datasets.synthetic(n_arms=n_arms, seed=1)
        for policy in policies:
            mf.simulate(arms, policy, budget=budget, episodes=2, horizon=2, seed=1, exposure_regret=True)
        for policy in (mf.MeritFair(), mf.MeritFair(design="exact", slack=1.0), mf.Whittle()):
            mf.simulate(arms, policy, budget=budget, episodes=2, horizon=2, seed=1, observed=0.5)
    mf.fit(mf.datasets.clinic(n_arms=5, rounds=6, budget=1, seed=1), budget=1)


if __name__ == "__main__":
    main()
