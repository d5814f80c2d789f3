from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.optimize import minimize
from scipy.stats import norm

import meritfair as mf
from meritfair.core.arrays import AnyArray, FloatArray
from meritfair.model.stationary import best_exposure
from meritfair.policies.prob_fair import ProbFair
from meritfair.policies.view import View

STRAIGHT = [[0.25, 0.5], [0.5, 0.75]]  # 0.25 more in either state
ROUNDED = [[0.1, 0.3], [0.6, 0.8]]  # the same, but 0.3 - 0.1 < 0.8 - 0.6 in floating point
CONCAVE = [[0.1, 0.5], [0.5, 0.6]]
CONVEX = [[0.1, 0.2], [0.5, 0.9]]
HARMED = [[0.3, 0.2], [0.7, 0.6]]
policy_of: Any = ProbFair  # takes settings of any type


def good_arms(P: AnyArray, p: AnyArray) -> float:
    return float(mf.steady_state(P, np.clip(p, 0, 1)).sum())


def curvature(P: AnyArray) -> FloatArray:
    """The sign of f'' of each arm, from differences of f itself."""
    f = mf.steady_state(P[:, None], np.array([0.0, 0.5, 1.0]))
    second = f[:, 0] - 2 * f[:, 1] + f[:, 2]
    return np.asarray(np.where(np.abs(second) < 1e-12, 0.0, np.sign(second)))


def best_on_a_grid(P: AnyArray, K: int, lower: float, upper: float, steps: int = 48) -> FloatArray:
    """The best exposures on a grid, by going through all ways to share the budget between the arms so far."""
    units = (K - len(P) * lower) / (upper - lower) * steps
    assert abs(units - round(units)) < 1e-9
    budget, grid = round(units), lower + (upper - lower) * np.arange(steps + 1) / steps
    best, choices = np.where(np.arange(budget + 1) == 0, 0.0, -np.inf), []
    for arm in P:
        f = mf.steady_state(arm, grid)
        spent = np.arange(budget + 1)[:, None] - np.arange(steps + 1)
        value = np.where(spent >= 0, best[np.maximum(spent, 0)] + f, -np.inf)
        choices.append(value.argmax(axis=1))
        best = value.max(axis=1)
    p, left = np.zeros(len(P)), budget
    for arm in range(len(P) - 1, -1, -1):
        p[arm] = grid[choices[arm][left]]
        left -= choices[arm][left]
    return p


def best_by_search(P: AnyArray, K: int, lower: float, upper: float) -> float:
    """The best value on a grid, then uphill from there, and from where convex arms are at their ends."""
    found = []
    for start in (best_on_a_grid(P, K, lower, upper), np.full(len(P), K / len(P))):
        uphill = minimize(
            lambda p: -good_arms(P, p),
            start,
            bounds=[(lower, upper)] * len(P),
            constraints={"type": "eq", "fun": lambda p: p.sum() - K},
            method="SLSQP",
            options={"ftol": 1e-14, "maxiter": 500},
        )
        found += [good_arms(P, start), -uphill.fun if abs(uphill.x.sum() - K) < 1e-10 else -np.inf]
    return max(found)


def some_arms(kind: str, n_arms: int, rng: np.random.Generator) -> FloatArray:
    """Arms of a kind, taken from many random ones."""
    many = rng.uniform(0.02, 0.98, (400, 2, 2))
    sign, benefit = curvature(many), mf.benefit(many)
    match kind:
        case "concave":
            return many[sign < 0][:n_arms]
        case "convex":
            return many[sign > 0][:n_arms]
        case "straight":
            rise = rng.uniform(-0.1, 0.1, n_arms)
            return np.stack([many[:n_arms, :, 0], many[:n_arms, :, 0] + rise[:, None]], axis=-1).clip(0.01, 0.99)
        case "harmful":
            return many[benefit < 0][:n_arms]
        case "equal":
            return np.repeat(many[:1], n_arms, axis=0)
        case "pairs":
            return np.concatenate([many[sign > 0][:1].repeat(n_arms // 2, 0), many[sign < 0][: n_arms - n_arms // 2]])
        case "mild":  # convex arms that hardly bend, and concave ones that do
            bends = rng.random((n_arms, 1, 1)) < 0.5
            arms = np.where(bends, [[0.1, 0.9], [0.3, 0.3]], [[0.3, 0.5], [0.6, 0.82]])
            return np.clip(arms + rng.normal(0, 0.01, (n_arms, 2, 2)), 0.01, 0.99)
    return many[:n_arms]


@pytest.mark.parametrize(
    "kind", ["concave", "convex", "straight", "harmful", "equal", "pairs", "mild", "mixed", "mixed again"]
)
@pytest.mark.parametrize("n_arms", [2, 3, 4, 5])
def test_exposures_are_the_best_there_are(kind: str, n_arms: int) -> None:
    rng = np.random.default_rng([n_arms, *kind.encode()])
    for K in range(1, n_arms):
        for lower, upper in ((0.0, 1.0), (0.125, 0.875)):
            if not lower <= K / n_arms <= upper:
                continue
            P = some_arms(kind, n_arms, rng)
            p = best_exposure(P, K, lower, upper)
            assert abs(p.sum() - K) < 1e-12
            assert p.min() >= lower
            assert p.max() <= upper
            best = best_by_search(P, K, lower, upper)
            assert best - 1e-9 <= good_arms(P, p) <= best + 1e-7  # uphill ends up to 1e-10 beside the budget


def test_more_arms_than_can_be_searched_uphill_are_no_worse_than_any_grid() -> None:
    rng = np.random.default_rng(8)
    inside = 0
    for _ in range(60):
        P, K = some_arms("mild", 8, rng), int(rng.integers(1, 8))
        p = best_exposure(P, K)
        assert good_arms(P, p) >= good_arms(P, best_on_a_grid(P, K, 0.0, 1.0, steps=24)) - 1e-12
        within = (p > 1e-9) & (p < 1 - 1e-9)
        convex = curvature(P) > 0
        assert (within & convex).sum() <= 1
        inside += int((within & convex).any() and (within & ~convex).any())
    assert inside >= 10  # the hard case is among them


def test_one_convex_arm_may_be_inside_where_its_slope_is_that_of_a_concave_one() -> None:
    P = np.array([[[0.1, 0.9], [0.3, 0.3]], [[0.3, 0.5], [0.6, 0.82]]])
    np.testing.assert_array_equal(curvature(P), [-1, 1])
    p = best_exposure(P, 1)
    assert 0.1 < p[1] < 0.9
    slopes = (mf.steady_state(P, p + 1e-5) - mf.steady_state(P, p - 1e-5)) / 2e-5
    assert slopes[0] == pytest.approx(slopes[1], abs=1e-6)
    line = np.linspace(0, 1, 10_001)
    along = mf.steady_state(P[0], line) + mf.steady_state(P[1], 1 - line)
    assert good_arms(P, p) >= along.max()
    assert good_arms(P, p) == pytest.approx(along.max(), abs=1e-8)


def test_a_convex_arm_takes_what_concave_arms_cannot() -> None:
    P = np.array([CONCAVE, [[0.1, 0.12], [0.5, 0.6]], [[0.1, 0.12], [0.5, 0.6]]])
    np.testing.assert_array_equal(curvature(P), [-1, 1, 1])
    p = best_exposure(P, 2, 0.1, 0.75)
    assert p[0] == pytest.approx(0.75)
    assert sorted(p[1:]) == pytest.approx([0.5, 0.75])


@pytest.mark.parametrize("arm", [STRAIGHT, CONCAVE, HARMED, ROUNDED, [[0.3, 0.3], [0.6, 0.6]]])
def test_equal_arms_that_are_not_convex_have_equal_exposures(arm: Any) -> None:
    np.testing.assert_allclose(best_exposure(np.array([arm] * 7), 3, 0.1, 0.9), 3 / 7, rtol=1e-12)


def test_equal_convex_arms_are_at_the_ends_and_the_rng_says_who() -> None:
    P = np.array([CONVEX] * 5 + [HARMED])
    first = best_exposure(P, 2, 0.1, 0.7)
    np.testing.assert_allclose(np.sort(first), [0.1, 0.1, 0.1, 0.3, 0.7, 0.7])
    rng = np.random.default_rng(4)
    drawn = np.array([best_exposure(P, 2, 0.1, 0.7, rng) for _ in range(500)])
    assert drawn[:, 5] == pytest.approx(0.1)
    alike, sd = 1.9 / 5, np.std([0.1, 0.1, 0.3, 0.7, 0.7]) / np.sqrt(500)
    limit = norm.isf(1e-4 / 5 / 2) * sd
    assert np.abs(drawn[:, :5].mean(axis=0) - alike).max() < limit
    assert np.abs(first[:5] - alike).max() > limit  # what ties by position would give


def test_the_rng_is_not_used_where_nothing_is_tied() -> None:
    rng = np.random.default_rng(4)
    best_exposure(np.random.default_rng(1).uniform(0.1, 0.9, (9, 2, 2)), 3, rng=rng)
    assert rng.random() == np.random.default_rng(4).random()


def test_arms_that_gain_get_it_and_arms_that_are_harmed_do_not() -> None:
    p = best_exposure(np.array([STRAIGHT, HARMED, [[0.3, 0.5], [0.5, 0.9]]]), 1, 0.2, 0.6)
    np.testing.assert_allclose(p, [0.2, 0.2, 0.6])
    harmed = np.array([HARMED, [[0.5, 0.1], [0.6, 0.2]]])
    np.testing.assert_allclose(best_exposure(harmed, 1, 0.1, 0.9), [0.9, 0.1])  # a pull must go to somebody


def test_bounds_that_leave_no_choice() -> None:
    P = np.random.default_rng(2).uniform(0.1, 0.9, (4, 2, 2))
    np.testing.assert_allclose(best_exposure(P, 2, 0.5, 1.0), 0.5)
    np.testing.assert_allclose(best_exposure(P, 2, 0.0, 0.5), 0.5)
    np.testing.assert_allclose(best_exposure(P, 2, 0.5, 0.5), 0.5)
    np.testing.assert_allclose(best_exposure(P, 4), 1.0)
    np.testing.assert_allclose(best_exposure(P[:1], 1), 1.0)


@st.composite
def problems(draw: st.DrawFn) -> tuple[AnyArray, int, float, float]:
    n_arms = draw(st.integers(1, 12))
    chance = st.one_of(st.sampled_from([0.001, 0.25, 0.5, 0.999]), st.floats(0.001, 0.999))
    K = draw(st.integers(1, n_arms))
    lower, upper = draw(st.floats(0, K / n_arms)), draw(st.floats(K / n_arms, 1))
    return draw(hnp.arrays(np.float64, (n_arms, 2, 2), elements=chance)), K, lower, upper


@given(problems(), st.integers(0, 2**32 - 1))
@settings(max_examples=150)
def test_exposures_keep_their_bounds_and_beat_others(case: tuple[AnyArray, int, float, float], seed: int) -> None:
    P, K, lower, upper = case
    p = best_exposure(P, K, lower, upper)
    assert abs(p.sum() - K) < 1e-11
    assert p.min() >= lower
    assert p.max() <= upper
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(P))
    assert good_arms(P, p) >= good_arms(P, np.full(len(P), K / len(P))) - 1e-9
    i, j = order[0], order[-1]
    moved = p.copy()
    step = rng.random() * min(p[i] - lower, upper - p[j])
    moved[i] -= step
    moved[j] += step
    assert good_arms(P, p) >= good_arms(P, moved) - 1e-9
    relabelled = best_exposure(P[order], K, lower, upper)
    assert good_arms(P[order], relabelled) == pytest.approx(good_arms(P, p), abs=1e-9)


def test_relabelling_arms_relabels_exposures() -> None:
    rng = np.random.default_rng(12)
    for _ in range(20):
        P, order = rng.uniform(0.02, 0.98, (30, 2, 2)), rng.permutation(30)
        np.testing.assert_allclose(best_exposure(P[order], 7, 0.1), best_exposure(P, 7, 0.1)[order], atol=1e-12)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: best_exposure(np.full((5, 2, 2), 0.5), 2, 0.5), r"lower must be at most .*, 2 / 5 = 0\.4, got 0\.5"),
        (
            lambda: best_exposure(np.full((5, 2, 2), 0.5), 2, 0.0, 0.3),
            r"upper must be at least an equal share of the budget, 2 / 5 = 0\.4, got 0\.3",
        ),
        (lambda: best_exposure(np.full((5, 2, 2), 0.5), 6), "budget must be between 1 and the 5 arms, got 6"),
        (lambda: best_exposure(np.full((2, 2), 0.5), 1), r"transitions must have shape \(N, 2, 2\)"),
        (lambda: best_exposure([STRAIGHT, [[0.0, 0.5], [1.0, 1.0]]], 1), "arm 1 has no steady state"),
        (lambda: policy_of(lower=-0.1), r"lower must lie between 0 and 1, got -0\.1"),
        (lambda: policy_of(lower="low"), "lower must be a number, got 'low'"),
        (lambda: policy_of(upper=1.1), r"upper must lie between 0 and 1, got 1\.1"),
        (lambda: policy_of(lower=0.5, upper=0.4), r"lower must be at most upper, got 0\.5 and 0\.4"),
        (lambda: policy_of(estimate="truth"), "estimate must be one of known, optimistic, .*, got 'truth'"),
        (lambda: policy_of(delta=1), "delta must lie strictly between 0 and 1, got 1"),
        (lambda: ProbFair(lower=0.5).plan(view(5, 2)), r"lower must be at most .*, 2 / 5 = 0\.4, got 0\.5"),
        (lambda: ProbFair(upper=0.3).plan(view(5, 2)), r"upper must be at least .*, 2 / 5 = 0\.4, got 0\.3"),
    ],
)
def test_mistakes_are_named(call: Any, message: str) -> None:
    with pytest.raises(mf.InputError, match=message):
        call()


def view(n_arms: int = 6, budget: int = 2, runs: tuple[int, ...] = (), *, seed: int = 3, rngs: int = 0) -> View:
    rng = np.random.default_rng(seed)
    truth = rng.uniform(0.05, 0.95, (*runs, n_arms, 2, 2))
    visits = rng.integers(0, 500, truth.shape)
    return View(
        mf.Counts(visits, rng.binomial(visits, truth)),
        episode=9,
        budget=budget,
        true_transitions=truth,
        rngs=tuple(np.random.default_rng(i) for i in range(rngs)),
    )


def test_the_plan_draws_with_the_best_exposures() -> None:
    seen = view(6, 2)
    plan = ProbFair(lower=0.1, upper=0.8).plan(seen)
    assert plan.design == "exact"
    np.testing.assert_allclose(plan.exposure(2), best_exposure(seen.true_transitions, 2, 0.1, 0.8), atol=1e-12)


def test_no_exposure_stays_none() -> None:
    seen = view(40, 8)
    best = best_exposure(seen.true_transitions, 8)
    assert (best == 0).sum() > 10
    assert (best == 1).sum() > 1
    np.testing.assert_allclose(ProbFair(lower=0).plan(seen).exposure(8), best, atol=1e-12)
    one = View(mf.Counts.none(3), 1, 1, np.array([CONVEX, HARMED, HARMED]))
    np.testing.assert_allclose(ProbFair(lower=0).plan(one).exposure(1), [1, 0, 0], atol=1e-12)


def test_by_default_everyone_has_half_an_equal_share_for_any_budget() -> None:
    for budget in range(1, 7):
        seen = view(6, budget)
        exposure = ProbFair().plan(seen).exposure(budget)
        np.testing.assert_allclose(exposure, best_exposure(seen.true_transitions, budget, budget / 12), atol=1e-12)
        assert exposure.min() >= budget / 12 - 1e-12


@pytest.mark.parametrize("estimate", ["optimistic", "pessimistic", "mean", "thompson"])
def test_a_learner_plans_for_its_estimate(estimate: str) -> None:
    seen = view(6, 2, rngs=1)
    policy = ProbFair(estimate=estimate, delta=0.2)
    estimated = mf.Ball(seen.counts, 9, 0.2).estimate(estimate, (np.random.default_rng(0),))
    np.testing.assert_allclose(policy.plan(seen).exposure(2), best_exposure(estimated, 2, 1 / 6), atol=1e-12)
    assert (policy.plans_once, policy.oracle) == (False, False)
    assert (ProbFair().plans_once, ProbFair().oracle) == (True, True)


def test_before_anything_is_seen_all_are_alike() -> None:
    nothing = View(mf.Counts.none(5), 1, 2, np.full((5, 2, 2), np.nan))
    for estimate in ("optimistic", "mean", "pessimistic"):
        np.testing.assert_allclose(ProbFair(estimate=estimate).plan(nothing).exposure(2), 0.4)


def test_runs_are_planned_each_by_itself() -> None:
    seen = view(5, 2, (2, 3), rngs=6)
    together = ProbFair().plan(seen).exposure(2)
    assert together.shape == (2, 3, 5)
    for at in np.ndindex(2, 3):
        np.testing.assert_allclose(together[at], best_exposure(seen.true_transitions[at], 2, 0.2), atol=1e-12)
    shared = View(seen.counts, 9, 2, seen.true_transitions[0, 0], seen.rngs)  # one set of arms for all runs
    np.testing.assert_allclose(ProbFair().plan(shared).exposure(2), np.broadcast_to(together[0, 0], (2, 3, 5)))


def test_twins_take_turns_between_runs() -> None:
    truth = np.array([CONVEX] * 4)
    none = mf.Counts(*(np.zeros((200, 4, 2, 2), np.int64) for _ in range(2)))
    rngs = tuple(np.random.default_rng(i) for i in range(200))
    ahead = ProbFair().plan(View(none, 1, 1, truth, rngs)).exposure(1).argmax(axis=-1)
    times = np.bincount(ahead, minlength=4)
    assert np.abs(times - 50).max() < norm.isf(1e-4 / 4 / 2) * np.sqrt(200 * 0.25 * 0.75)
    without = ProbFair().plan(View(none, 1, 1, truth)).exposure(1).argmax(axis=-1)
    assert len(np.unique(without)) == 1


def test_settings_are_plain_values() -> None:
    assert ProbFair().settings() == {"lower": None, "upper": 1.0, "estimate": "known", "delta": 0.01}
    assert ProbFair(lower=0).settings()["lower"] == 0.0
    assert ProbFair.name == "prob-fair"


@pytest.mark.parametrize("estimate", ["known", "mean"])
def test_simulated_pulls_have_the_planned_exposures(estimate: str) -> None:
    arms, steps = mf.datasets.cpap(n_arms=6, seed=3), 40 * 500
    policy = ProbFair(lower=0.2, upper=0.7, estimate=estimate)
    run = mf.simulate(arms, policy, budget=2, episodes=40, horizon=500, seed=5)
    pulled = run.pulls[0] / steps
    assert pulled.sum() == pytest.approx(2)
    if estimate == "mean":  # changes with what is seen, within its bounds
        assert pulled.min() > 0.2 - 0.02
        assert pulled.max() < 0.7 + 0.02
        return
    best = best_exposure(arms.transitions, 2, 0.2, 0.7)
    limit = norm.isf(1e-4 / 6 / 2) * np.sqrt(best * (1 - best) / steps)
    assert (np.abs(pulled - best) < limit).all()
    assert (np.abs(pulled - 1 / 3) > limit).any()  # equal shares would be found out
    expected = good_arms(arms.transitions, best)
    assert run.reward.mean() / 500 == pytest.approx(expected, abs=0.05)
