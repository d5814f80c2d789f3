"""Fair-UCRL: the optimum of its programme, its index, the debts that keep the minimums, and what it earns."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy.optimize import linprog

import meritfair as mf
from meritfair.engine.fractions import new_debts, rank_by_debt
from meritfair.model.whittle import whittle_index
from meritfair.policies.base import Policy
from meritfair.policies.fair_ucrl import FairUCRL, Programme
from meritfair.policies.view import View
from meritfair.policies.whittle import Whittle

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
fair_ucrl: Any = FairUCRL  # takes bounds of any type


# ---- the programme, solved in other ways


def whole_programme(lower: Floats, upper: Floats, budget: int, minimum: Floats) -> float:
    """Return the optimum of the programme as the paper has it: over z(s, a, s') of each arm, in dense matrices."""
    N = len(lower)
    z = np.eye(8 * N).reshape(N, 2, 2, 2, 8 * N)  # each is a row that reads one variable
    mu, to_good = z.sum(axis=3), z[:, :, :, 1]
    balance = mu[:, 1].sum(axis=1) - to_good.sum(axis=(1, 2))
    equal = [*mu.sum(axis=(1, 2)), *balance, mu[:, :, 1].sum(axis=(0, 1))]
    above = [lower[..., None] * mu - to_good, to_good - upper[..., None] * mu]
    found = linprog(
        -mu[:, 1].sum(axis=(0, 1)),
        A_ub=np.concatenate([*(rows.reshape(-1, 8 * N) for rows in above), -mu[:, :, 1].sum(axis=1)]),
        b_ub=[*np.zeros(8 * N), *-minimum],
        A_eq=np.array(equal),
        b_eq=[*np.ones(N), *np.zeros(N), budget],
    )
    assert found.success
    return float(-found.fun)


def by_segments(P: Floats, budget: int, minimum: Floats) -> float:
    """Return the optimum for known arms: give pulls to where they add most, along what each arm can reach.

    An arm reaches the mixtures of its four deterministic policies: (how often pulled, how often good).
    """
    value, offers = 0.0, []
    for arm, least in zip(P, minimum, strict=True):
        points = []
        for policy in product((0, 1), repeat=2):
            enter, stay = arm[0, policy[0]], arm[1, policy[1]]
            good = enter / (1 - stay + enter)
            points.append((good * policy[1] + (1 - good) * policy[0], good))
        pulled, good = points[0]  # never
        value, need = value + good, least
        while right := [(x - pulled, y - good) for x, y in points if x > pulled + 1e-12]:
            length, rise = max(right, key=lambda move: (move[1] / move[0], move[0]))  # the steepest, and of these all
            forced = min(need, length)
            value, need = value + rise * forced / length, need - forced
            offers.append((rise / length, length - forced))
            pulled, good = pulled + length, good + rise
    left = budget - float(minimum.sum())
    for slope, length in sorted(offers, reverse=True):
        taken = min(left, length)
        value, left = value + slope * taken, left - taken
    assert abs(left) < 1e-9
    return value


def some_minimums(rng: np.random.Generator, n_arms: int, budget: int) -> Floats:
    """Return minimums that add up to the budget or less, in turn."""
    kind = rng.integers(4)
    if kind == 0:
        return np.zeros(n_arms)
    if kind == 1:
        return np.full(n_arms, budget / n_arms)
    raw = rng.dirichlet(np.ones(n_arms)) * budget
    return np.minimum(raw, 1.0) * (1.0 if kind == 2 else 0.5)


@pytest.mark.parametrize("seed", range(12))
def test_programme_without_z_attains_the_optimum_of_the_whole(seed: int) -> None:
    rng = np.random.default_rng(seed)
    N = int(rng.integers(1, 7))
    K = int(rng.integers(1, N + 1))
    middle, width = rng.uniform(0, 1, (2, N, 2, 2))
    lower, upper = np.clip(middle - 0.5 * width, 0, 1), np.clip(middle + 0.5 * width, 0.01, 1)  # some ends are 0 and 1
    minimum = some_minimums(rng, N, K)
    value = Programme(K, minimum).solve(upper, [rng]).value
    assert value == pytest.approx(whole_programme(lower, upper, K, minimum), abs=1e-7)
    assert value > whole_programme(lower, (lower + upper) / 2, K, minimum) - 1e-9  # a smaller box allows no more


@pytest.mark.parametrize("seed", range(12))
def test_programme_for_known_arms_gives_pulls_to_where_they_add_most(seed: int) -> None:
    rng = np.random.default_rng(100 + seed)
    N = int(rng.integers(1, 25))
    K = int(rng.integers(1, N + 1))
    P, minimum = rng.uniform(0.02, 0.98, (N, 2, 2)), some_minimums(rng, N, K)
    optimum = Programme(K, minimum).solve(P, [rng])
    assert optimum.value == pytest.approx(by_segments(P, K, minimum), abs=1e-7)
    # and the measure is one of those arms, with all that is asked for
    mu = optimum.measure
    np.testing.assert_allclose(mu.sum(axis=(1, 2)), 1, atol=1e-8)
    np.testing.assert_allclose((mu * P).sum(axis=(1, 2)), mu[:, 1].sum(axis=1), atol=1e-8)
    assert mu[..., 1].sum() == pytest.approx(K)
    assert np.all(mu[..., 1].sum(axis=1) >= minimum - 1e-8)
    assert mu[:, 1].sum() == pytest.approx(optimum.value)


@pytest.mark.parametrize("seed", range(8))
def test_prices_separate_what_is_pulled_from_what_is_not(seed: int) -> None:
    rng = np.random.default_rng(200 + seed)
    N, K = 12, 3
    P, minimum = rng.uniform(0.02, 0.98, (N, 2, 2)), some_minimums(rng, N, K)
    optimum = Programme(K, minimum).solve(P, [rng])
    fraction = optimum.measure[..., 1] / optimum.measure.sum(axis=-1)
    gain = whittle_index(P) - optimum.price[:, None]
    assert np.all(fraction[gain > 1e-6] > 1 - 1e-6)
    assert np.all(fraction[gain < -1e-6] < 1e-6)
    pulls = optimum.measure[..., 1].sum(axis=-1)
    above = pulls > minimum + 1e-6  # those who are pulled more than they must be have one price, and nobody a higher
    assert np.all(optimum.price[above] == optimum.price.max())
    assert above.any() == (minimum.sum() < K - 1e-9)


def test_programme_is_optimistic_when_the_box_holds_the_truth() -> None:
    rng = np.random.default_rng(3)
    gaps = []
    for _ in range(30):
        P = rng.uniform(0.1, 0.9, (6, 2, 2))
        visits = rng.integers(1, 3000, (6, 2, 2))
        ball = mf.Ball(mf.Counts(visits, rng.binomial(visits, P)), 5)
        assert ball.contains(P).all()
        minimum = some_minimums(rng, 6, 2)
        truth = by_segments(P, 2, minimum)
        gaps.append(Programme(2, minimum).solve(ball.upper, [rng]).value - truth)
        assert Programme(2, minimum).solve(np.maximum(ball.lower, 1e-9), [rng]).value < truth
    assert min(gaps) > 0


# ---- the plan


def view_of(counts: mf.Counts, budget: int, episode: int = 9, seed: int = 0, memory: Floats | None = None) -> View:
    runs = int(np.prod(counts.visits.shape[:-3]))
    rngs = tuple(np.random.default_rng((seed, run)) for run in range(runs))
    return View(counts, episode, budget, np.full(counts.visits.shape, np.nan), rngs, memory=memory)


def some_counts(shape: tuple[int, ...], seed: int = 5) -> mf.Counts:
    rng = np.random.default_rng(seed)
    visits = rng.integers(500, 50_000, (*shape, 2, 2))
    return mf.Counts(visits, rng.binomial(visits, rng.uniform(0.1, 0.9, visits.shape)))


def index_of(policy: Any, view: View) -> Floats:
    return np.asarray(policy.plan(view).memory[..., :2])


def test_index_is_the_fraction_of_pulls_of_arms_that_are_all_but_known() -> None:
    P = np.random.default_rng(6).uniform(0.1, 0.9, (10, 2, 2)).round(2)
    visits = np.full(P.shape, 10**14)
    view = view_of(mf.Counts(visits, np.round(visits * P).astype(np.int64)), 3, episode=1)
    for minimum in (0.0, 0.1, 0.3):
        index = index_of(FairUCRL(minimum=minimum), view)
        measure = Programme(3, np.full(10, minimum)).solve(P).measure
        np.testing.assert_allclose(index, measure[..., 1] / measure.sum(axis=-1), atol=1.1e-3)


def test_equal_fractions_are_ordered_by_what_a_pull_is_worth() -> None:
    counts = some_counts((20,))
    index = index_of(FairUCRL(minimum=0.0), view_of(counts, 4))
    worth = whittle_index(mf.Ball(counts, 9).upper)
    order = np.argsort(index.ravel())
    assert np.all(np.diff(worth.ravel()[order]) >= 0)  # without minimums all have one price
    for whole in (0, 1):
        assert (np.abs(index - whole) < 2e-3).sum() > 5
    assert len(np.unique(index)) == 40


def test_states_that_the_optimum_never_visits_go_by_worth() -> None:
    """Seen always good: then bad states do not occur, but they have an index, that of a pull there."""
    visits = np.full((3, 2, 2), 10**12)
    good = np.round(visits * np.array([[[0.1, 0.9], [1, 1]], [[0.4, 0.5], [1, 1]], [[0.3, 0.5], [0.4, 0.6]]]))
    view = view_of(mf.Counts(visits, good), 1, episode=1)
    index = index_of(FairUCRL(minimum=0.0), view)
    np.testing.assert_allclose(index[0, 0], 1, atol=2e-3)  # 0.8 / (1 - 1 + 0.1): worth far more than the third arm's
    assert index[0, 0] > index[1, 0]
    unseen = index_of(FairUCRL(minimum=0.0), view_of(mf.Counts.none(3), 1, episode=1))
    np.testing.assert_array_equal(unseen[:, 0], 0.5)


def test_runs_planned_together_are_those_planned_alone() -> None:
    counts = some_counts((2, 3, 8))
    together = view_of(counts, 2, memory=np.random.default_rng(7).uniform(-3, 3, (2, 3, 8, 4)))
    plan = FairUCRL(minimum=0.1).plan(together)
    rngs = tuple(np.random.default_rng((0, run)) for run in range(6))
    for run, place in enumerate(np.ndindex(2, 3)):
        seen = mf.Counts(counts.visits[place], counts.good[place])
        assert together.memory is not None
        alone = View(seen, 9, 2, np.full((8, 2, 2), np.nan), rngs[run : run + 1], memory=together.memory[place])
        np.testing.assert_array_equal(FairUCRL(minimum=0.1).plan(alone).memory, plan.memory[place])


@pytest.mark.parametrize("seed", range(5))
def test_relabelling_arms_relabels_the_plan(seed: int) -> None:
    counts, order = some_counts((9,), seed), np.random.default_rng(seed).permutation(9)
    minimum = np.random.default_rng(8).uniform(0, 0.3, 9)
    plan = FairUCRL(minimum=tuple(minimum)).plan(view_of(counts, 3, seed=1))
    moved = mf.Counts(counts.visits[order], counts.good[order])
    other = FairUCRL(minimum=tuple(minimum[order])).plan(view_of(moved, 3, seed=2))
    np.testing.assert_allclose(other.memory, plan.memory[order], rtol=0, atol=1e-8)


@pytest.mark.slow
def test_position_does_not_decide_between_equals() -> None:
    """Nothing was seen, so each of 5 arms is among the 2 that the programme pulls in 2/5 of 300 plans."""
    first = np.zeros(5)
    for seed in range(300):
        index = index_of(FairUCRL(minimum=0.0), view_of(mf.Counts.none(5), 2, episode=1, seed=seed))
        first += index[:, 1] > 0.5
    assert first.sum() == 600
    assert np.abs(first - 120).max() < 4.3 * np.sqrt(300 * 0.4 * 0.6)  # alpha 1e-4 split over 5 arms
    fixed = View(mf.Counts.none(5), 1, 2, np.full((5, 2, 2), np.nan))  # the planted error: no rngs
    alike = [index_of(FairUCRL(minimum=0.0), fixed) for _ in range(3)]
    assert all(np.array_equal(alike[0], each) for each in alike)


def test_debts_are_taken_over_and_the_index_is_made_anew() -> None:
    counts = some_counts((4,))
    before = np.arange(16.0).reshape(4, 4)
    plan = FairUCRL(minimum=(0.1, 0.2, 0.3, 0.4)).plan(view_of(counts, 1, memory=before))
    np.testing.assert_array_equal(plan.memory[:, 3], [3, 7, 11, 15])
    np.testing.assert_allclose(plan.memory[:, 2], [0.1, 0.2, 0.3, 0.4])
    assert np.abs(plan.memory[:, :2]).max() < 1.01
    np.testing.assert_array_equal(FairUCRL().plan(view_of(counts, 1)).memory[:, 2:], [[0.125, 0.0]] * 4)  # K / 2N


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: FairUCRL(minimum=1.5), "minimum must be a number between 0 and 1, or one for each arm, got 1.5"),
        (lambda: FairUCRL(minimum=-0.1), "minimum must be a number between 0 and 1"),
        (lambda: fair_ucrl(minimum="all"), "minimum must be an array of numbers"),
        (lambda: FairUCRL(delta=0.0), "delta must lie strictly between 0 and 1, got 0"),
        (lambda: FairUCRL(ball="round"), "ball must be one of paper, bernstein, kl, got 'round'"),
        (
            lambda: FairUCRL(minimum=0.3).plan(view_of(mf.Counts.none(5), 1)),
            "minimum must add up to at most the budget of 1 over the 5 arms, got 1.5",
        ),
        (
            lambda: FairUCRL(minimum=(0.9, 0.9)).plan(view_of(mf.Counts.none(2), 1)),
            "minimum must add up to at most the budget of 1 over the 2 arms, got 1.8",
        ),
        (
            lambda: FairUCRL(minimum=(0.1, 0.1, 0.1)).plan(view_of(mf.Counts.none(4), 1)),
            "minimum must be one number, or one for each of the 4 arms, got 3",
        ),
    ],
)
def test_mistakes_are_named(call: Any, message: str) -> None:
    with pytest.raises(mf.InputError, match=message):
        call()


# ---- the debts


def highest_debts(minimum: Floats, budget: int, steps: int, seed: int, spite: bool) -> tuple[Floats, Floats]:
    """Play steps by hand; return each arm's highest debt at any of them, and its pulls.

    With spite, those who are owed most are never wanted by the index, and it changes all the time.
    """
    rng, N = np.random.default_rng(seed), len(minimum)
    memory = new_debts(rng.uniform(-0.001, 1, (N, 2)), minimum, None)
    pulled, index = np.zeros(N, np.int64), np.zeros(N)
    highest, pulls = np.full(N, -np.inf), np.zeros(N)
    for step in range(1, steps + 1):
        if spite:
            memory[:, :2] = np.where(memory[:, 3:] > 0, -0.001, rng.uniform(0, 1, (N, 2)))
        rank_by_debt(memory, rng.integers(0, 2, N), pulled, step, False, index)
        owed = minimum * step - pulls
        assert np.abs(memory[:, 3] - owed).max() < 1e-8
        highest = np.maximum(highest, owed)
        chosen = np.lexsort((rng.random(N), -index))[:budget]
        pulled[:] = 0
        pulled[chosen] = 1
        pulls += pulled
    return highest, pulls


def proven_bound(n_arms: int, budget: int) -> float:
    return 3 + 1 + sum(1 + min(n, budget) for n in range(1, n_arms))


MINIMUMS = {
    "all alike": (np.full(20, 0.2), 4),
    "one in many": (np.full(300, 1 / 300), 1),
    "one for itself": (np.array([1.0, 0.5, 0.25, 0.125, 0.125]), 2),
    "nearly all for some": (np.array([0.99, 0.98, 0.03, 0.0, 0.0, 0.0]), 2),
    "thirds": (np.full(3, 1 / 3), 1),
    "any": (np.random.default_rng(1).dirichlet(np.full(15, 5.0)) * 3, 3),
    "everyone": (np.ones(3), 3),
    "less": (np.full(10, 0.05), 2),
}


@pytest.mark.slow
@pytest.mark.parametrize("spite", [False, True])
@pytest.mark.parametrize("which", MINIMUMS)
def test_no_debt_ever_passes_its_bound(which: str, spite: bool) -> None:
    minimum, budget = MINIMUMS[which]
    assert minimum.max() <= 1
    assert minimum.sum() <= budget + 1e-9
    highest, pulls = highest_debts(minimum, budget, 3000, 1, spite)
    assert pulls.sum() == 3000 * budget
    assert highest.max() <= proven_bound(len(minimum), budget)
    assert highest.max() < 6  # it is much better than that


def test_too_much_promised_is_more_than_debts_can_keep() -> None:
    """The planted error: minimums that add up to more than the budget."""
    highest, _ = highest_debts(np.full(5, 0.3), 1, 2000, 1, False)
    assert highest.max() > proven_bound(5, 1)


def test_who_comes_first() -> None:
    index = np.array([[0.9, 0.0], [0.5, 1.0], [-0.001, 0.2], [0.3, 0.3], [0.4, 0.4]])
    memory = new_debts(index, np.zeros(5), None)
    memory[:, 3] = [3.5, 1.5, 1.5, 4.5, 0.9]
    ranks = np.zeros(5)
    rank_by_debt(memory, np.zeros(5, np.int64), np.zeros(5, np.int64), 3, False, ranks)
    assert np.argsort(-ranks).tolist() == [
        3,
        0,
        1,
        4,
        2,
    ]  # overdue: 3, 0; owed: 1; others: 4, 2
    rank_by_debt(memory, np.ones(5, np.int64), np.array([0, 0, 0, 1, 0]), 4, False, ranks)
    np.testing.assert_allclose(memory[:, 3], [3.5, 1.5, 1.5, 3.5, 0.9])
    assert ranks[0] == ranks[3] > ranks[1] > ranks[2] > ranks[4]


@pytest.mark.slow
@pytest.mark.parametrize("n_arms", [5, 10])
def test_every_arm_has_its_minimum_in_the_long_run(n_arms: int) -> None:
    """40,000 steps; by top K alone arms are pulled far less than that."""
    arms = [mf.datasets.synthetic(n_arms=n_arms, seed=seed) for seed in (1, 2)]
    uneven = tuple(2 * np.arange(n_arms) / (n_arms * (n_arms - 1)) * 2 * 0.9)
    for minimum in (2 / n_arms, 1 / n_arms, uneven):
        policy = FairUCRL(minimum=minimum)
        run = mf.simulate(arms, policy, budget=2, episodes=100, horizon=400, seed=2, carry_states=True)
        assert run.pulls.sum() == 2 * 2 * 40_000
        assert (np.broadcast_to(minimum, n_arms) * 40_000 - run.pulls).max() < 5
    free = mf.simulate(arms, FairUCRL(minimum=0.0), budget=2, episodes=100, horizon=400, seed=2, carry_states=True)
    assert free.pulls.min() < 0.25 * 40_000 / n_arms


# ---- what it earns


def part_of_whittle(policy: Policy, episodes: int, carry_states: bool) -> float:
    """Return (R - R_none) / (R_whittle - R_none) in the last third, over three sets of 20 arms."""
    arms = [mf.datasets.synthetic(n_arms=20, seed=seed) for seed in range(1, 4)]
    same: dict[str, Any] = {"budget": 4, "seed": 1, "carry_states": carry_states}
    none = mf.simulate(arms, mf.NoAction(), episodes=100, **same).reward.mean()
    best = mf.simulate(arms, Whittle(), episodes=100, **same).reward.mean()
    run = mf.simulate(arms, policy, episodes=episodes, **same)
    return float((run.reward[:, -(episodes // 3) :].mean() - none) / (best - none))


@pytest.mark.slow
@pytest.mark.parametrize("carry_states", [False, True])
def test_learning_pays(carry_states: bool) -> None:
    assert part_of_whittle(FairUCRL(minimum=0.0), 60, carry_states) > 0.9
    fair = part_of_whittle(FairUCRL(), 60, carry_states)
    assert 0.6 < fair < 0.9  # half of the budget goes to everyone alike


@pytest.mark.slow
@pytest.mark.parametrize(("n_arms", "budget"), [(1, 1), (2, 2), (3, 1)])
@pytest.mark.parametrize("minimum", [None, 0.0, 1 / 3])
def test_small_problems_are_played(n_arms: int, budget: int, minimum: float | None) -> None:
    obedient = mf.Arms(np.tile([[0.0, 1.0], [0.0, 1.0]], (n_arms, 1, 1)))  # no noise at all
    run = mf.simulate(obedient, FairUCRL(minimum=minimum), budget=budget, episodes=40, horizon=1, runs=2, seed=1)
    assert run.pulls.sum() == 2 * 40 * budget
    assert run.pulls.min() >= (minimum or 0) * 40 - 4
