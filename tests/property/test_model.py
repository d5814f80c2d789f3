"""What must hold for any arms, merits and counts."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import meritfair as mf
from meritfair.core.arrays import AnyArray
from meritfair.policies import View
from meritfair.simulation import metrics

PROBABILITY = st.floats(0.001, 0.999)


def arms_arrays(most: int = 8) -> st.SearchStrategy[AnyArray]:
    return st.integers(1, most).flatmap(lambda n: hnp.arrays(np.float64, (n, 2, 2), elements=PROBABILITY))


@st.composite
def merits_and_budget(draw: st.DrawFn, most: int = 10) -> tuple[AnyArray, int]:
    n_arms = draw(st.integers(1, most))
    logs = draw(hnp.arrays(np.float64, n_arms, elements=st.floats(-300, 300)))
    return np.exp(logs), draw(st.integers(1, n_arms))


@st.composite
def some_counts(draw: st.DrawFn, most: int = 6) -> mf.Counts:
    n_arms = draw(st.integers(1, most))
    visits = draw(hnp.arrays(np.int64, (n_arms, 2, 2), elements=st.integers(0, 10**6)))
    share = draw(hnp.arrays(np.float64, (n_arms, 2, 2), elements=st.floats(0, 1)))
    return mf.Counts(visits, np.floor(visits * share).astype(np.int64))


@given(merits_and_budget())
@settings(max_examples=200)
def test_exposures_sum_to_the_budget_and_are_probabilities(case: tuple[AnyArray, int]) -> None:
    merit, budget = case
    exposure = mf.fair_exposure(merit, budget)
    assert ((exposure >= 0) & (exposure <= 1)).all()
    assert abs(exposure.sum() - budget) < 1e-8
    order = np.argsort(merit)
    assert (np.diff(exposure[order]) >= -1e-9).all()  # more merit, no less exposure


@given(merits_and_budget(), st.randoms(use_true_random=False))
@settings(max_examples=100)
def test_relabelling_arms_relabels_exposures(case: tuple[AnyArray, int], random: object) -> None:
    merit, budget = case
    order = list(range(len(merit)))
    random.shuffle(order)  # type: ignore[attr-defined]
    np.testing.assert_allclose(
        mf.fair_exposure(merit[order], budget), mf.fair_exposure(merit, budget)[order], atol=1e-9
    )


@given(arms_arrays(), st.floats(0, 1))
def test_steady_state_and_benefit_are_in_range(P: AnyArray, p: float) -> None:
    f = mf.steady_state(P, p)
    assert ((f > 0) & (f < 1)).all()
    assert (np.abs(mf.benefit(P)) <= 1).all()
    opposite = 1 - P[:, ::-1]  # good and bad change places
    np.testing.assert_allclose(mf.benefit(opposite), -mf.benefit(P), atol=1e-9)


@given(some_counts(), st.integers(1, 10**4), st.floats(1e-6, 1 - 1e-6))
def test_every_estimate_lies_in_the_ball(counts: mf.Counts, episode: int, delta: float) -> None:
    ball = mf.Ball(counts, episode, delta)
    assert (ball.lower <= ball.upper).all()
    assert (ball.omega <= ball.eta).all()
    for kind in ("optimistic", "mean", "pessimistic"):
        assert ball.contains(ball.estimate(kind)).all()
        assert np.isfinite(mf.benefit(ball.estimate(kind))).all()  # none can be absorbing


@given(some_counts(), st.integers(1, 1000), st.data())
def test_relabelling_arms_relabels_plans_with_shares(counts: mf.Counts, episode: int, data: st.DataObject) -> None:
    n_arms = counts.n_arms
    budget = data.draw(st.integers(1, n_arms))
    order = data.draw(st.permutations(range(n_arms)))
    truth = np.random.default_rng(1).uniform(0.1, 0.9, (n_arms, 2, 2))
    relabelled = mf.Counts(counts.visits[order], counts.good[order])
    for name in ("merit-fair", "optimal", "fair-oracle", "random", "round-robin", "none"):
        policy = mf.policies.create(name)
        before = policy.plan(View(counts, episode, budget, truth)).share(budget)
        after = policy.plan(View(relabelled, episode, budget, truth[order])).share(budget)
        assert before is not None
        assert after is not None
        np.testing.assert_allclose(after, before[order], atol=1e-12)


@given(arms_arrays())
@settings(max_examples=50)
def test_relabelling_arms_relabels_benefit_and_keeps_the_limit(P: AnyArray) -> None:
    order = np.arange(len(P))[::-1]
    np.testing.assert_array_equal(mf.benefit(P[order]), mf.benefit(P)[order])
    if len(P) > 1:
        limits = [float(mf.information_limit(mf.Arms(each), 1, 10, 20)) for each in (P, P[order])]
        np.testing.assert_allclose(limits[0], limits[1], rtol=1e-9)


@given(hnp.arrays(np.float64, st.integers(1, 20), elements=st.floats(0.0, 1e6)))
def test_inequality_measures_stay_in_range(amounts: AnyArray) -> None:
    n = len(amounts)
    if amounts.sum() < 1e-100:
        return
    assert 1 / n - 1e-9 <= metrics.jain(amounts) <= 1 + 1e-9
    assert -1e-9 <= metrics.gini(amounts) <= 1 - 1 / n + 1e-9
    assert 1 / n - 1e-9 <= metrics.hhi(amounts) <= 1 + 1e-9


@given(
    st.integers(1, 5).flatmap(lambda n: st.tuples(st.just(n), st.integers(1, n))),
    st.integers(1, 6),
    st.integers(1, 8),
    st.integers(0, 10**6),
    st.sampled_from(mf.policies.names()),
)
@settings(max_examples=60)
def test_any_small_simulation_keeps_its_books(
    size: tuple[int, int], episodes: int, horizon: int, seed: int, name: str
) -> None:
    n_arms, budget = size
    arms = mf.datasets.synthetic(n_arms, seed)
    run = mf.simulate(
        arms, mf.policies.create(name), budget=budget, episodes=episodes, horizon=horizon, runs=2, seed=seed
    )
    steps = episodes * horizon
    assert (run.visits.sum(axis=(2, 3)) == steps).all()
    assert (run.pulls.sum(axis=1) == (0 if name == "none" else budget * steps)).all()
    assert (run.pulls <= steps).all()
    assert ((run.fairness_regret >= 0) & (run.fairness_regret <= 2)).all()
    assert ((run.longest_wait >= 0) & (run.longest_wait <= steps)).all()
    assert ((run.first_valid_episode >= 0) & (run.first_valid_episode <= episodes)).all()
    assert ((run.coverage_gap >= 1) & (run.coverage_gap <= episodes + 1)).all()
