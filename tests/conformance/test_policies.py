"""Every policy passes every check that users can run on theirs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import meritfair as mf
from meritfair.policies import create, names
from meritfair.testing import (
    CHECKS,
    check_exposures,
    check_join_and_leave,
    check_learner_and_simulation,
    check_missing,
    check_policy,
    check_pulls,
    check_relabelling,
    check_restart,
    check_runs,
    check_seeds,
    check_sizes,
    check_ties,
)

STATISTICAL = (check_exposures, check_ties, check_relabelling, check_learner_and_simulation)
GROUPS = ("a", "b", "a", "b", "b", "b")
SETTINGS: list[tuple[str, dict[str, Any]]] = [
    ("merit-fair", {"estimate": "pooled"}),
    ("merit-fair", {"estimate": "thompson"}),
    ("merit-fair", {"estimate": "mean", "design": "exact"}),
    ("merit-fair", {"estimate": "mean", "design": "systematic", "ball": "kl"}),
    ("merit-fair", {"design": "exact", "floor": (0.1, 0.2, 0.1, 0.1, 0.3, 0.1), "cap": 0.8}),
    ("merit-fair", {"estimate": "mean", "design": "exact", "slack": 2.0}),
    ("merit-fair", {"estimate": "thompson", "design": "systematic", "slack": 0.5, "floor": 0.1}),
    ("merit-fair", {"merit": mf.CustomMerit(lambda mu: 2 + mu, lipschitz=1.0)}),
    ("optimal", {"estimate": "mean"}),
    ("fair-oracle", {"design": "exact", "cap": (0.5, 0.5, 0.5, 0.3, 0.3, 0.5)}),
    ("fair-oracle", {"design": "exact", "slack": 1.0}),
    ("fair-oracle", {"design": "exact", "slack": np.inf, "cap": (0.5, 0.5, 0.5, 0.3, 0.3, 0.5)}),
    ("uc-whittle", {"bound": "value"}),
    ("uc-whittle", {"bound": "extreme", "discount": 1.0}),
    ("soft-fair", {"estimate": "known"}),
    ("prob-fair", {"estimate": "mean", "lower": 0.1, "upper": 0.8}),
    ("equitable", {"groups": GROUPS, "welfare": "nash", "estimate": "mean"}),
    ("fawt", {"least": 1}),
    ("fawt-q", {"update": "li"}),
]


@pytest.mark.parametrize("name", names())
def test_policies_pass_with_their_defaults(name: str) -> None:
    for check in (check for check in CHECKS if check not in STATISTICAL):
        check(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", names())
def test_policies_have_the_laws_that_they_state(name: str) -> None:
    for check in STATISTICAL:
        check(name)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "settings"), SETTINGS, ids=lambda value: str(value))
def test_policies_pass_with_other_settings(name: str, settings: dict[str, Any]) -> None:
    check_policy(create(name, **settings))


@pytest.mark.slow
@pytest.mark.parametrize("name", names())
def test_policies_pass_on_other_sizes(name: str) -> None:
    for n_arms, budget in ((4, 1), (7, 5)):
        for check in (check_pulls, check_seeds, check_runs, check_restart, check_sizes, check_missing):
            check(name, n_arms, budget)


@pytest.mark.parametrize("name", ["merit-fair", "fair-oracle"])
def test_settings_for_each_arm_are_refused_where_they_do_not_fit_and_nothing_changes(name: str) -> None:
    policy = create(name, design="exact", floor=(0.1,) * 6)
    check_join_and_leave(policy)
    check_sizes(policy)
    learner = policy.start(6, 2, seed=1, transitions=np.full((6, 2, 2), 0.5))
    with pytest.raises(mf.InputError, match=r"floor must .* 7 arms"):
        learner.join(1, np.full((1, 2, 2), 0.5))
    assert learner.n_arms == 6
    with pytest.raises(mf.InputError, match="cannot be checked on 5 arms with budget 2: floor must"):
        check_sizes(policy, n_arms=5)
