"""Numbers that were computed with the authors' published code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import meritfair as mf

GOLDEN = json.loads((Path(__file__).parents[1] / "data" / "golden.json").read_text())
EXACT = 1e-9


@pytest.mark.parametrize("case", GOLDEN["instances"], ids=lambda c: f"{c['dataset']}-{c['n_arms']}-{c['seed_no']}")
def test_authors_instances(case: dict[str, Any]) -> None:
    make = getattr(mf.datasets, case["dataset"])
    arms = make(n_arms=case["n_arms"], seed=case["seed_no"], budget=case["budget"], authors=True)
    np.testing.assert_allclose(arms.transitions, case["good_next"], rtol=0, atol=EXACT)
    np.testing.assert_allclose(arms.benefit, case["benefit"], rtol=0, atol=EXACT)
    share = mf.fair_exposure(mf.Exponential(3.0)(arms.benefit))
    np.testing.assert_allclose(share, case["fair_policy_c3"], rtol=0, atol=EXACT)


@pytest.mark.parametrize("case", GOLDEN["policies"], ids=lambda c: f"episode-{c['episode']}")
def test_authors_policies(case: dict[str, Any]) -> None:
    counts = mf.Counts(case["visits"], case["good"])
    ball = mf.Ball(counts, case["episode"], case["delta"])
    np.testing.assert_allclose(ball.radius, case["radius"], rtol=0, atol=EXACT)
    np.testing.assert_allclose(ball.upper, case["optimistic"], rtol=0, atol=EXACT)
    np.testing.assert_allclose(mf.benefit(ball.upper), case["benefit"], rtol=0, atol=EXACT)
    policy = mf.MeritFair(merit=mf.Exponential(case["c"]), delta=case["delta"])
    view = mf.policies.View(counts, case["episode"], 1, np.full(counts.visits.shape, np.nan))
    plan = policy.plan(view)
    np.testing.assert_allclose(plan.share(1), case["policy"], rtol=0, atol=EXACT)
