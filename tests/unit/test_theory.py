from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import meritfair as mf
from meritfair.core.arrays import FloatArray
from meritfair.model import theory
from meritfair.model.accounts import exploration
from meritfair.model.allocation import allocate

ARMS = mf.datasets.synthetic(n_arms=5, seed=1, budget=1, authors=True)


def test_largest_exposure_of_one_pull_is_the_extreme_share() -> None:
    merit = mf.Exponential(3.0)
    expected = math.exp(3) / (math.exp(3) + 4 * math.exp(-3))
    assert theory.largest_exposure(5, 1, merit) == pytest.approx(expected, rel=1e-12)
    assert theory.largest_exposure(5, 5, merit) == 1.0
    assert theory.largest_exposure(1, 1, merit) == 1.0


def test_coverage_gap_limit_is_lemma_5_1() -> None:
    merit, N, K, H, epsilon = mf.Exponential(1.0), 5, 1, 200, 0.1
    most = math.e / (math.e + 4 / math.e)
    A = 2 * (1 - epsilon) ** H
    B = most**H + (1 - math.exp(-2) / N) ** H
    assert theory.coverage_gap_limit(epsilon, N, K, H, merit) == pytest.approx(1 / (1 - (A + B - A * B)), rel=1e-10)


@pytest.mark.parametrize(
    ("epsilon", "n_arms", "budget", "horizon", "c"),
    [
        (0.01, 5, 1, 200, 3.0),  # the paper's own setting
        (0.0, 5, 1, 200, 1.0),  # degenerate arms: a state may never be left
        (0.1, 5, 5, 200, 1.0),  # everyone is always pulled
        (0.1, 1, 1, 200, 1.0),
        (0.1, 5, 1, 1, 1.0),
    ],
)
def test_where_the_lemma_says_nothing_the_limit_is_infinite(
    epsilon: float, n_arms: int, budget: int, horizon: int, c: float
) -> None:
    assert theory.coverage_gap_limit(epsilon, n_arms, budget, horizon, mf.Exponential(c)) == math.inf


def test_coverage_gap_limit_holds_on_average() -> None:
    # G_i = 1 / psi is the mean number of episodes until one covers the arm.
    merit = mf.Exponential(1.0)
    arms = mf.datasets.synthetic(n_arms=5, seed=3, epsilon=0.1)
    run = mf.simulate(arms, mf.MeritFair(merit=merit), budget=1, episodes=100, runs=5, horizon=200, seed=0)
    limit = theory.coverage_gap_limit(0.1, 5, 1, 200, merit)
    assert limit < 1.01
    assert run.coverage_gap.mean() <= 2  # so hardly any episode misses


def test_benefit_error_bound_is_theorem_5_4() -> None:
    d = np.array([[0.1, 0.2], [0.3, 0.4]])
    expected = (0.4 + 2 * 0.2 + 0.3 + 2 * 0.1) / ((1 - 0.8) * (1 - 0.3))
    assert float(theory.benefit_error_bound(d, eta=0.8, omega=0.3)) == pytest.approx(expected, rel=1e-14)


def test_benefit_error_bound_holds_wherever_the_truth_is_in_the_ball() -> None:
    rng = np.random.default_rng(8)
    P = rng.uniform(0.05, 0.95, (300, 2, 2))
    visits = rng.integers(2_000, 50_000, P.shape)
    ball = mf.Ball(mf.Counts(visits, rng.binomial(visits, P)), episode=50, delta=0.01)
    valid = ball.contains(P) & (ball.eta < 1).all(axis=-1)
    assert valid.sum() > 100
    eta, omega = float(ball.eta[valid].max()), float(ball.omega[valid].max())
    bound = theory.benefit_error_bound(ball.radius, eta, omega)
    for kind in ("optimistic", "mean", "pessimistic"):
        error = np.abs(mf.benefit(ball.estimate(kind)) - mf.benefit(P))
        assert (error[valid] <= bound[valid]).all()


def test_regret_bound_is_theorem_5_5() -> None:
    N, T, delta, t0, G, eta, omega = 5, 10_000, 0.01, 37, 8, 0.95, 0.6
    L, gamma = 3 * math.exp(3), math.exp(-3)
    main = 96 * L * math.sqrt(G * T * math.log(8 * N * T / delta)) / (gamma * (1 - eta) * (1 - omega))
    bound = theory.regret_bound(
        [T, 4 * T],
        n_arms=N,
        merit=mf.Exponential(3.0),
        delta=delta,
        first_valid_episode=t0,
        coverage_gap=G,
        eta=eta,
        omega=omega,
    )
    assert bound[0] == pytest.approx(N * t0 + N * math.sqrt(T) + main, rel=1e-12)
    assert bound.shape == (2,)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"eta": 1.0}, "eta must be below 1"),
        ({"omega": 1.5}, "omega must be below 1"),
        ({"delta": 1.0}, "delta must lie strictly between 0 and 1"),
        ({"coverage_gap": 0.5}, "coverage_gap must be at least 1"),
        ({"first_valid_episode": -1}, "first_valid_episode must be at least 0"),
        ({"episodes": 0}, "episodes must be positive, got 0"),
        ({"n_arms": 0}, "n_arms must be at least 1"),
    ],
)
def test_regret_bound_refuses_what_the_theorem_does_not_cover(change: dict[str, Any], message: str) -> None:
    known: dict[str, Any] = {
        "episodes": 100,
        "n_arms": 5,
        "merit": mf.Exponential(1.0),
        "delta": 0.01,
        "first_valid_episode": 3,
        "coverage_gap": 2,
        "eta": 0.9,
        "omega": 0.5,
    }
    known.update(change)
    with pytest.raises(mf.InputError, match=message):
        theory.regret_bound(**known)


def test_regret_bound_holds_in_a_run() -> None:
    merit = mf.Exponential(1.0)
    run = mf.simulate(ARMS, mf.MeritFair(merit=merit), budget=1, episodes=300, runs=4, seed=2)
    for r in range(run.runs):
        t0 = int(run.first_valid_episode[r])
        assert t0 < run.episodes
        bound = theory.regret_bound(
            np.arange(t0 + 1, 301),
            n_arms=5,
            merit=merit,
            delta=0.01,
            first_valid_episode=t0,
            coverage_gap=int(run.coverage_gap[r]),
            eta=float(run.largest_eta[r]),
            omega=float(run.largest_omega[r]),
        )
        assert (np.cumsum(run.fairness_regret[r])[t0:] <= bound).all()


def test_expected_visits_are_those_of_the_chain() -> None:
    exposure, horizon = mf.fair_exposure(mf.Exponential(3.0)(ARMS.benefit), 2), 7
    visits = theory.expected_visits(ARMS, exposure, horizon)
    for i, P in enumerate(ARMS.transitions):
        good, expected = 0.5, np.zeros((2, 2))
        for _ in range(horizon):
            e = exposure[i]
            expected += np.outer([1 - good, good], [1 - e, e])
            from_state = P @ [1 - e, e]
            good = good * from_state[1] + (1 - good) * from_state[0]
        np.testing.assert_allclose(visits[i], expected, rtol=1e-12)


def test_information_limit_by_numerical_derivatives() -> None:
    merit, budget, horizon = mf.Exponential(2.0), 2, 50
    J = np.empty((5, 5))
    for j in range(5):
        step = np.zeros(5)
        step[j] = 1e-6
        up, down = (mf.merit_share(merit(ARMS.benefit + sign * step)) for sign in (1, -1))
        J[:, j] = (up - down) / 2e-6
    visits = theory.expected_visits(ARMS, mf.fair_exposure(merit(ARMS.benefit), budget), horizon)
    v = np.zeros(5)
    for s in (0, 1):
        for a in (0, 1):
            step2 = np.zeros((2, 2))
            step2[s, a] = 1e-6
            slope = (mf.benefit(ARMS.transitions + step2) - mf.benefit(ARMS.transitions - step2)) / 2e-6
            p = ARMS.transitions[:, s, a]
            v += slope**2 * p * (1 - p) / visits[:, s, a]
    expected = math.sqrt(2 / math.pi) * np.sqrt(J**2 @ v).sum() * sum(1 / math.sqrt(t) for t in range(1, 301))
    assert float(mf.information_limit(ARMS, budget, 300, horizon, merit)) == pytest.approx(expected, rel=1e-5)


def slope_by_steps(merit: mf.Merit, benefit: FloatArray, budget: int, design: str) -> FloatArray:
    """Return the derivatives of shares or exposures by each benefit, from small steps up and down."""
    slope = np.empty((len(benefit), len(benefit)))
    for j, step in enumerate(1e-6 * np.eye(len(benefit))):
        up, down = (
            mf.merit_share(g) if design == "sequential" else mf.fair_exposure(g, budget, design)
            for g in (merit(benefit + step), merit(benefit - step))
        )
        slope[:, j] = (up - down) / 2e-6
    return slope


@pytest.mark.parametrize("design", ["sequential", "exact", "systematic"])
@pytest.mark.parametrize(
    "merit", [mf.Exponential(2.0), mf.Exponential(6.0), mf.Affine(1.0, 1.5), mf.Logistic(4.0, 0.2)]
)
def test_exposure_slope_is_that_of_small_steps(merit: mf.Merit, design: str) -> None:
    benefit = np.array([0.71, 0.52, 0.33, 0.11, -0.24, -0.55])
    for budget in (1, 2, 4, 6):
        a, b = theory.exposure_slope(merit, benefit, budget, design)
        np.testing.assert_allclose(
            np.diag(a) - np.outer(b, a), slope_by_steps(merit, benefit, budget, design), rtol=1e-5, atol=1e-7
        )


def test_exposure_slope_where_some_are_saturated_and_where_all_are() -> None:
    merit, benefit = mf.Exponential(6.0), np.array([0.71, 0.52, 0.33, 0.11, -0.24, -0.55])
    saturated = allocate(merit(benefit), 3).saturated
    assert 0 < saturated.sum() < 3
    a, b = theory.exposure_slope(merit, benefit, 3, "exact")
    assert (a[saturated] == 0).all()
    assert (b[saturated] == 0).all()
    assert b.sum() == pytest.approx(1)
    a, _ = theory.exposure_slope(merit, benefit, 6, "exact")
    assert not a.any()


def test_information_limit_of_the_exact_design_by_numerical_derivatives() -> None:
    merit, horizon = mf.Exponential(2.0), 50
    for budget in (1, 2, 3):
        J = slope_by_steps(merit, ARMS.benefit, budget, "exact")
        visits = theory.expected_visits(ARMS, mf.fair_exposure(merit(ARMS.benefit), budget, "exact"), horizon)
        P, v = ARMS.transitions, np.zeros(5)
        for s in (0, 1):
            for a in (0, 1):
                step = np.zeros((2, 2))
                step[s, a] = 1e-6
                slope = (mf.benefit(P + step) - mf.benefit(P - step)) / 2e-6
                with np.errstate(divide="ignore"):
                    v += slope**2 * P[:, s, a] * (1 - P[:, s, a]) / visits[:, s, a]
        moves = J.any(axis=0)  # of the others nothing need be known
        error = np.sqrt(J[:, moves] ** 2 @ v[moves]).sum()
        expected = math.sqrt(2 / math.pi) * error * sum(1 / math.sqrt(t) for t in range(1, 301))
        limit = float(mf.information_limit(ARMS, budget, 300, horizon, merit, "exact"))
        assert limit == pytest.approx(expected, rel=1e-5)
        assert float(mf.information_limit(ARMS, budget, 300, horizon, merit, "systematic")) == limit


def test_information_limit_of_one_pull_does_not_depend_on_the_design() -> None:
    limits = [float(mf.information_limit(ARMS, 1, 100, design=design)) for design in ("sequential", "exact")]
    assert limits[0] == pytest.approx(limits[1], rel=1e-9)


def test_information_limit_is_finite_where_arms_are_saturated() -> None:
    # An arm that is pulled for certain is never seen left alone, but neither does its exposure move.
    merit = mf.Exponential(6.0)
    shared = allocate(merit(ARMS.benefit), 2)
    assert shared.saturated.any()
    limit = float(mf.information_limit(ARMS, 2, 100, merit=merit, design="exact"))
    assert 0 < limit < math.inf
    assert (
        float(mf.information_limit(ARMS, 5, 100, merit=merit, design="exact")) == 0
    )  # all are pulled, whoever they are
    with pytest.raises(mf.InputError, match="design must be one of sequential, exact, systematic"):
        mf.information_limit(ARMS, 2, 100, design="exakt")


KNOWN: dict[str, Any] = {
    "n_arms": 20,
    "budget": 4,
    "merit": mf.Exponential(1.0),
    "delta": 0.01,
    "first_valid_episode": 8,
    "coverage_gap": 20,
    "eta": 0.9,
}


def test_exposure_regret_bound_is_its_formula() -> None:
    T, N, K, G, t0, eta, delta = 10_000, 20, 4, 20, 8, 0.9, 0.01
    L, gamma = math.e, math.exp(-1)
    estimates = 32 * K * L * math.sqrt(G * T * math.log(8 * N * T / delta)) / (gamma * (1 - eta))
    expected = 2 * K * max(t0, G) + estimates + 1.5 * K * G * math.log(1 + 2 * T / G)
    bound = theory.exposure_regret_bound([T, 4 * T], **KNOWN)
    assert bound.shape == (2,)
    assert bound[0] == pytest.approx(expected, rel=1e-12)
    assert bound[0] < bound[1] < 2.2 * bound[0]
    assert float(theory.exposure_regret_bound(T, **KNOWN)) == bound[0]


def test_exposure_regret_bound_of_one_pull_is_below_theorem_5_5() -> None:
    known = {**KNOWN, "n_arms": 5, "budget": 1}
    ours = theory.exposure_regret_bound([10**4, 10**6], **known)
    del known["budget"]
    papers = theory.regret_bound([10**4, 10**6], omega=0.0, **known)  # where 1 / (1 - omega) does no harm
    assert (ours < papers / 2).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"eta": 1.0}, "eta must be below 1"),
        ({"delta": 1.0}, "delta must lie strictly between 0 and 1"),
        ({"coverage_gap": 0.5}, "coverage_gap must be at least 1"),
        ({"first_valid_episode": -1}, "first_valid_episode must be at least 0"),
        ({"episodes": 0}, "episodes must be positive, got 0"),
        ({"n_arms": 0}, "n_arms must be at least 1"),
        ({"budget": 21}, "budget must be between 1 and the 20 arms, got 21"),
        ({"budget": 0}, "budget must be between 1 and the 20 arms, got 0"),
    ],
)
def test_exposure_regret_bound_refuses_what_it_does_not_cover(change: dict[str, Any], message: str) -> None:
    with pytest.raises(mf.InputError, match=message):
        theory.exposure_regret_bound(**{"episodes": 100, **KNOWN, **change})


@pytest.mark.parametrize("budget", [1, 2, 4])  # with 4 of 5, arms are saturated
def test_exposure_regret_bound_holds_in_a_run(budget: int) -> None:
    merit = mf.Exponential(1.0)
    policy = mf.MeritFair(merit=merit, design="exact")
    run = mf.simulate(ARMS, policy, budget=budget, episodes=300, runs=4, seed=2)
    for r in range(run.runs):
        t0 = int(run.first_valid_episode[r])
        assert t0 < run.episodes
        bound = theory.exposure_regret_bound(
            np.arange(t0 + 1, 301),
            n_arms=5,
            budget=budget,
            merit=merit,
            delta=0.01,
            first_valid_episode=t0,
            coverage_gap=int(run.coverage_gap[r]),
            eta=float(run.largest_eta[r]),
        )
        assert (np.cumsum(run.exposure_regret[r])[t0:] <= bound).all()


def test_saturation_margin_is_the_least_distance_from_the_limit() -> None:
    # lambda is 1/5, as the last three, of 5 in all, share the one pull that the first leaves over.
    assert theory.saturation_margin([6.0, 2.0, 2.0, 1.0], 2) == pytest.approx(6 / 5 - 1)
    assert theory.saturation_margin([4.0, 2.0, 2.0, 1.0], 2) == pytest.approx(1 - 2 * 4 / 9)  # nobody is: lambda is 2/9
    assert theory.saturation_margin([5.0, 2.0, 2.0, 1.0], 2) == pytest.approx(0, abs=1e-12)
    assert theory.saturation_margin([5.0, 2.0], 2) == math.inf
    with pytest.raises(mf.InputError, match="budget must be between 1 and the 2 arms, got 3"):
        theory.saturation_margin([5.0, 2.0], 3)


# The steps of the proofs of Theorems 2 and 3 in docs/theory.md; its lemmas are in tests/property/test_allocation.py

FULL = mf.Arms([[[0.2, 0.65], [0.6, 0.85]], *[[[0.2, 0.5], [0.8, 0.7]]] * 3])  # of two pulls the first is due one
STEEP, DELTA = mf.Exponential(5.0), 0.01
SMALL = math.log(6 * 4 / DELTA)  # l
KAPPA = 1 - 2 / 4


def play(estimate: str, episodes: int, slack: float = 0.0) -> mf.Run:
    policy = mf.MeritFair(merit=STEEP, delta=DELTA, estimate=estimate, design="exact", slack=slack)
    return mf.simulate(FULL, policy, budget=2, episodes=episodes, horizon=50, runs=10, seed=3)


@pytest.mark.parametrize("estimate", ["optimistic", "pessimistic", "mean"])
@pytest.mark.parametrize("episodes", [4, 40, 400, 4000])
def test_visits_are_no_fewer_than_step_1_says(estimate: str, episodes: int) -> None:
    run, steps = play(estimate, episodes), 50 * episodes
    assert (run.fair_exposure[:, 0] == 1).all()
    visits = run.visits.sum(axis=2)  # by action
    least = 2 * STEEP.gamma / (4 * float(STEEP(1.0)))
    assert (visits[..., 0] >= math.sqrt(KAPPA * steps / 2) - SMALL).all()
    assert (visits[..., 1] >= least * steps / 2 - SMALL).all()
    assert (run.visits >= FULL.epsilon * visits[:, :, None] / 2 - SMALL).all()


def test_an_arm_that_seems_saturated_is_left_out_as_often_as_its_cap_says() -> None:
    # d u / d h = kappa / (1 + u), so u is about sqrt(2 kappa h): twice the bound of step 1.
    run = play("pessimistic", 4000)  # it takes the first arm for better than it is
    not_pulled = run.visits[:, 0, :, 0].sum(axis=-1).mean()
    assert not_pulled == pytest.approx(math.sqrt(2 * KAPPA * 50 * 4000), rel=0.1)


@pytest.mark.parametrize("estimate", ["optimistic", "pessimistic", "mean"])
@pytest.mark.parametrize("episodes", [4, 40, 400, 4000])
def test_merits_are_no_further_off_than_step_2_says(estimate: str, episodes: int) -> None:
    run = play(estimate, episodes)
    ball = mf.Ball(mf.Counts(run.visits, run.good), episodes + 1, DELTA)
    assert ball.contains(FULL.transitions).all()
    widths = (ball.upper - ball.lower).max(axis=2)  # of the states, by action
    logs = math.log(8 * 4 * (episodes + 1) / DELTA)
    often = 8 * np.sqrt(logs / (FULL.epsilon * run.visits.sum(axis=2)))
    assert (widths <= often).all()
    error = np.abs(mf.benefit(ball.estimate(estimate)) - FULL.benefit)
    assert (error <= widths.sum(axis=-1) / (2 * FULL.epsilon)).all()
    merits = np.abs(STEEP(mf.benefit(ball.estimate(estimate))) - STEEP(FULL.benefit))
    A = 4 * STEEP.lipschitz * math.sqrt(logs) / FULL.epsilon**1.5
    assert (merits <= A * (1 / np.sqrt(run.visits.sum(axis=2))).sum(axis=-1)).all()


@pytest.mark.parametrize("estimate", ["optimistic", "pessimistic", "mean"])
def test_regret_is_below_the_bound_without_a_gap(estimate: str) -> None:  # Theorem 2 (a)
    T, H, K, N = 4000, 50, 2, 4
    logs, e0 = math.log(8 * N * T / DELTA), K * STEEP.gamma / (N * float(STEEP(1.0)))
    A = 4 * STEEP.lipschitz * math.sqrt(logs) / FULL.epsilon**1.5
    h0 = max(4 * SMALL / e0, 8 * SMALL**2 / KAPPA)
    widths = 4 * math.sqrt(T / (e0 * H)) + 2.25 * T**0.75 / (KAPPA * H) ** 0.25
    bound = 2 * K * (1 + h0 / H) + 23 * K * math.sqrt(KAPPA * T / H) + 2 * K * A / STEEP.gamma * widths
    assert (play(estimate, T).exposure_regret.sum(axis=1) <= bound).all()


@pytest.mark.parametrize(("T", "H"), [(10, 1), (1000, 7), (100_000, 64)])
def test_sums_over_episodes_are_below_those_of_the_proof(T: int, H: int) -> None:
    steps = H * np.arange(1.0, T)  # before each episode but the first
    assert (steps**-0.5).sum() <= 2 * math.sqrt(T / H)
    assert (steps**-0.25).sum() <= 4 / 3 * T**0.75 / H**0.25
    blocks = np.arange(1, T + 1)
    assert (1 / (1 + 2 * blocks)).sum() <= math.log(1 + 2 * T) / 2
    assert (1 / np.sqrt(blocks)).sum() <= 2 * math.sqrt(T)


@pytest.mark.parametrize("error", [0.1, 3.0, 100.0])  # A / gamma
@pytest.mark.parametrize("H", [1, 64])
def test_an_arm_at_the_limit_is_left_out_no_more_than_step_6_says(error: float, H: int) -> None:
    q, T = 0.0, 20_000
    for _ in range(T):  # the most that can be: always as if merit were too low by the whole error, and few visits
        visits = q / 2 - SMALL
        q += H * min(1.0, 2 * error / math.sqrt(visits) if visits > 0 else 1.0)
    least = min((error * H * T) ** (2 / 3), H * T)  # it does grow so
    assert least / 2 <= q <= max(4 * SMALL, H) + H + (6 * math.sqrt(2) * error * H * T) ** (2 / 3)


@pytest.mark.parametrize("inside", [0.3, 0.05, 0.01])  # epsilon'
def test_exploration_is_no_less_than_theorem_3_says(inside: float) -> None:
    rng = np.random.default_rng(1)
    visits = np.floor(10 ** rng.uniform(math.log10(2 / inside), 7, (20_000, 2, 2)))
    ends = rng.choice([inside, 1 - inside], visits.shape)
    mean = np.where(rng.random(visits.shape) < 0.5, ends, rng.uniform(inside, 1 - inside, visits.shape))
    counts = mf.Counts(visits, np.clip(np.rint((visits + 2) * mean - 1), 0, visits))
    kept = ((counts.mean >= inside) & (counts.mean <= 1 - inside)).all(axis=(1, 2))
    assert kept.sum() > 1000
    least = inside**2 * math.sqrt(inside * (1 - inside)) / 4
    assert (exploration(counts) * np.sqrt(1 + visits) >= least)[kept].all()


@pytest.mark.parametrize("episodes", [4, 40, 400])
def test_with_slack_visits_are_no_fewer_than_theorem_3_says(episodes: int) -> None:
    run = play("mean", episodes, slack=2.0)
    assert (run.visits[..., 0].sum(axis=2) >= math.sqrt(KAPPA * 50 * episodes / 2) - SMALL - 1).all()
    assert np.abs(run.account_range).max() <= 2 + 1e-9


def test_information_limit_of_many_lengths_and_of_no_information() -> None:
    limits = mf.information_limit(ARMS, 1, [1, 10, 100])
    assert (np.diff(limits) > 0).all()
    assert float(mf.information_limit(ARMS, 1, 10)) == limits[1]
    assert float(mf.information_limit(ARMS, 5, 10)) == math.inf
    assert float(mf.information_limit(ARMS, 5, 10, merit=mf.Exponential(0.0))) == 0  # all alike: nothing to learn
    for episodes in (0, 1.5, [1, 0]):
        with pytest.raises(mf.InputError, match="episodes must be whole numbers"):
            mf.information_limit(ARMS, 1, episodes)


@pytest.mark.slow
def test_posterior_mean_reaches_the_information_limit() -> None:
    # Late in a run, where the first episodes' lack of any data no longer counts. The standard error of the
    # ratio is about 0.02; the optimistic estimate is far above.
    ratio = {}
    for estimate in ("mean", "optimistic"):
        run = mf.simulate(ARMS, mf.MeritFair(estimate=estimate), budget=1, episodes=400, runs=150, seed=7)
        late = run.fairness_regret[:, 200:].sum(axis=1).mean()
        ratio[estimate] = late / np.diff(mf.information_limit(ARMS, 1, [200, 400]))[0]
    assert 0.9 < ratio["mean"] < 1.1
    assert ratio["optimistic"] > 4
