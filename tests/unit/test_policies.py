from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import meritfair as mf
from meritfair.engine.pulls import to_the_end
from meritfair.policies import Lottery, PriorityTable, Rotation, View

RNG = np.random.default_rng(23)


def view(n_arms: int = 5, budget: int = 2, episode: int = 9) -> View:
    visits = RNG.integers(0, 500, (n_arms, 2, 2))
    truth = RNG.uniform(0.05, 0.95, (n_arms, 2, 2))
    return View(mf.Counts(visits, RNG.binomial(visits, truth)), episode, budget, truth)


def test_registry_has_the_names_of_the_contract() -> None:
    assert mf.policies.names() == ["merit-fair", "optimal", "fair-oracle", "random", "round-robin", "none"]
    for name in mf.policies.names():
        assert mf.policies.create(name).name == name


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: mf.policies.create("merit-fare"), "no policy 'merit-fare', did you mean 'merit-fair'"),
        (lambda: mf.policies.create("zzz"), "no policy 'zzz': there are merit-fair, optimal"),
        (lambda: mf.policies.create(3), "no policy 3"),  # type: ignore[arg-type]
        (lambda: mf.policies.create("merit-fair", estimat="mean"), "no setting 'estimat', did you mean 'estimate'"),
        (lambda: mf.policies.create("optimal", zzz=1), "its settings are delta, estimate"),
        (lambda: mf.policies.create("random", zzz=1), "it has none"),
        (lambda: mf.MeritFair(estimate="best"), "estimate must be one of optimistic, mean, pessimistic, got 'best'"),
        (lambda: mf.MeritFair(design="best"), "design must be 'sequential', got 'best'"),
        (lambda: mf.MeritFair(merit=np.exp), r"wrap your own as CustomMerit\(function, lipschitz=\.\.\.\)"),  # type: ignore[arg-type]
        (lambda: mf.FairOracle(merit=3.0), "merit must be a merit function"),  # type: ignore[arg-type]
    ],
)
def test_mistakes_are_named(call: Any, message: str) -> None:
    with pytest.raises(mf.InputError, match=message):
        call()


@pytest.mark.parametrize("estimate", ["optimistic", "mean", "pessimistic"])
def test_merit_fair_believes_its_point_of_the_ball(estimate: str) -> None:
    seen = view()
    plan = mf.MeritFair(merit=mf.Affine(1.0, 2.0), delta=0.2, estimate=estimate).plan(seen)
    believed = mf.Ball(seen.counts, 9, 0.2).estimate(estimate)
    np.testing.assert_allclose(plan.merit, 2 + mf.benefit(believed))


def test_merit_fair_treats_all_alike_before_it_has_seen_anything() -> None:
    nothing = View(mf.Counts.none(4), 1, 1, np.full((4, 2, 2), np.nan))
    for estimate in ("optimistic", "mean", "pessimistic"):
        np.testing.assert_allclose(mf.MeritFair(estimate=estimate).plan(nothing).share(1), 0.25)


def test_fair_oracle_knows_the_truth() -> None:
    seen = view()
    np.testing.assert_allclose(
        mf.FairOracle().plan(seen).share(2), mf.merit_share(np.exp(3 * mf.benefit(seen.true_transitions)))
    )


def test_optimal_gives_all_to_the_k_best() -> None:
    seen = view(n_arms=6, budget=2)
    plan = mf.Optimal().plan(seen)
    best = np.argsort(mf.benefit(mf.Ball(seen.counts, 9, 0.01).upper))[-2:]
    share = plan.share(2)
    assert share is not None
    np.testing.assert_array_equal(np.flatnonzero(share), np.sort(best))
    np.testing.assert_array_equal(share[best], 0.5)


def test_priority_table_shares_out_ties_and_leaves_minus_infinity() -> None:
    index = np.repeat(np.array([3.0, 1.0, 1.0, 1.0, -np.inf])[:, None], 2, axis=1)
    share = np.asarray(PriorityTable(index).share(2))
    np.testing.assert_allclose(share, np.array([1, 1 / 3, 1 / 3, 1 / 3, 0]) / 2)
    everyone = PriorityTable(index).choose(np.zeros(5, bool), np.zeros(5, int), RNG.random(5), 5)
    assert everyone.tolist() == [True, True, True, True, False]
    runs = np.stack([index, index[::-1]])
    np.testing.assert_allclose(np.asarray(PriorityTable(runs).share(2)), np.stack([share, share[::-1]]))


def test_priority_table_ties_fall_at_random() -> None:
    plan = PriorityTable(np.zeros((4, 2)))
    picks = sum(plan.choose(np.zeros(4, bool), np.zeros(4, int), RNG.random(4), 1) for _ in range(2000))
    assert (np.abs(picks - 500) < 5 * np.sqrt(2000 * 0.25 * 0.75)).all()


def test_priority_table_looks_at_states() -> None:
    plan = PriorityTable(np.array([[0.0, 5.0], [1.0, 1.0]]))
    assert plan.share(1) is None
    line, noise = np.arange(2), RNG.random(2)
    assert plan.choose(np.array([False, False]), line, noise, 1).tolist() == [False, True]
    assert plan.choose(np.array([True, False]), line, noise, 1).tolist() == [True, False]


def test_rotation_takes_those_who_are_next_and_they_go_to_the_end() -> None:
    line = np.array([2, 0, 1, 3])
    pulled = Rotation(4).choose(np.zeros(4, bool), line, RNG.random(4), 2)
    assert pulled.tolist() == [False, True, True, False]
    assert to_the_end(line, pulled).tolist() == [0, 2, 3, 1]


def test_settings_are_plain_values() -> None:
    assert mf.MeritFair(merit=mf.Exponential(2.0)).settings() == {
        "merit": {"kind": "exponential", "c": 2.0},
        "delta": 0.01,
        "estimate": "optimistic",
        "design": "sequential",
    }
    assert mf.Random().settings() == {}


@pytest.mark.parametrize("name", mf.policies.names())
def test_plans_go_through_leading_axes(name: str) -> None:
    one, two = view(), view()
    both = View(
        mf.Counts(np.stack([one.counts.visits, two.counts.visits]), np.stack([one.counts.good, two.counts.good])),
        9,
        2,
        np.stack([one.true_transitions, two.true_transitions]),
    )
    policy = mf.policies.create(name)
    together = np.broadcast_to(np.asarray(policy.plan(both).share(2)), (2, 5))
    for row, single in zip(together, (one, two), strict=True):
        np.testing.assert_allclose(row, np.asarray(policy.plan(single).share(2)), atol=1e-15)


def test_lottery_draws_exactly_the_budget() -> None:
    merit = np.exp(np.linspace(-300, 300, 7))
    for budget in range(1, 8):
        pulls = Lottery(merit).pulls(RNG.standard_exponential((50, 7)), budget)
        assert (pulls.sum(axis=-1) == budget).all()
