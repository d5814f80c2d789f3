from __future__ import annotations

import itertools
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.optimize import linprog
from scipy.stats import norm

import meritfair as mf
from meritfair.core.arrays import AnyArray, FloatArray
from meritfair.model.fluid import GroupWorth, arm_worth, divide_budget, group_worth
from meritfair.model.whittle import whittle_index
from meritfair.policies.equitable import Equitable
from meritfair.policies.view import View
from meritfair.policies.whittle import Whittle

policy_of: Any = Equitable  # takes settings of any type


def most_good(P: AnyArray, budget: float) -> float:
    """The most arms that can be good in the long run with so many pulls at a step, by a programme of occupancies.

    The unknowns are how often arm i is in state s and action a is taken. They sum to 1 for each arm, and the good state
    is entered as often as it is there; in all there are `budget` pulls.
    """
    N = len(P)
    rows, sums = np.zeros((2 * N + 1, N, 2, 2)), np.zeros(2 * N + 1)
    for i in range(N):
        rows[2 * i, i], sums[2 * i] = 1.0, 1.0
        rows[2 * i + 1, i] = P[i] - np.array([[0.0, 0.0], [1.0, 1.0]])
    rows[2 * N, :, :, 1], sums[2 * N] = 1.0, budget
    reward = np.zeros((N, 2, 2))
    reward[:, 1] = 1.0
    solved = linprog(-reward.ravel(), A_eq=rows.reshape(2 * N + 1, -1), b_eq=sums, bounds=(0, 1))
    assert solved.success
    return float(-solved.fun)


def arms_of(kind: str, n_arms: int, seed: int) -> FloatArray:
    rng = np.random.default_rng(seed)
    P = rng.uniform(0.02, 0.98, (n_arms, 2, 2))
    if kind == "helped":
        P.sort(axis=-1)
    elif kind == "harmed":
        P = -np.sort(-P, axis=-1)
    return P


@pytest.mark.parametrize("kind", ["any", "helped", "harmed"])
def test_an_arm_is_worth_what_the_best_policy_makes_of_it(kind: str) -> None:
    P = arms_of(kind, 12, seed=1)
    worth = arm_worth(P)
    for pulled in (0.0, 0.1, 0.35, 0.5, 0.8, 1.0):
        expected = [most_good(arm[None], pulled) for arm in P]
        np.testing.assert_allclose(worth.at(pulled), expected, atol=1e-9)
    np.testing.assert_allclose(worth.at(worth.kink), [most_good(P[i : i + 1], k) for i, k in enumerate(worth.kink)])
    assert (worth.slope[:, 0] >= worth.slope[:, 1]).all()
    np.testing.assert_allclose(np.sort(worth.slope), np.sort(whittle_index(P)))
    np.testing.assert_allclose(worth.at(1.0), mf.steady_state(P, 1.0))


def test_arms_that_never_leave_a_state_are_named() -> None:
    for stuck in ([[0.0, 0.5], [1.0, 0.5]], [[0.5, 0.0], [0.5, 1.0]]):
        with pytest.raises(mf.InputError, match="arm 1 has no steady state"):
            arm_worth([[[0.2, 0.4], [0.5, 0.6]], stuck])


def test_arms_that_stay_where_they_are_if_pulled_in_one_state_only() -> None:
    P = np.array([[[0.0, 0.5], [0.5, 1.0]], [[0.0, 0.3], [0.5, 1.0]], [[0.3, 0.0], [1.0, 0.6]]])
    for pulled in (0.0, 0.3, 1.0):
        np.testing.assert_allclose(arm_worth(P).at(pulled), [pulled, pulled, 1 - pulled])
        np.testing.assert_allclose(arm_worth(P).at(pulled), [most_good(arm[None], pulled) for arm in P], atol=1e-9)


@pytest.mark.parametrize("kind", ["any", "helped", "harmed"])
def test_a_group_is_worth_what_the_relaxation_says_at_whole_budgets(kind: str) -> None:
    P, groups = arms_of(kind, 9, seed=2), np.array([1, 0, 2, 1, 1, 0, 1, 0, 2])
    worth = group_worth(P, groups)
    np.testing.assert_array_equal(worth.size, [3, 4, 2])
    for budgets in ([0, 0, 0], [1, 1, 1], [2, 3, 1], [3, 4, 2]):
        expected = [most_good(P[groups == g], b) for g, b in enumerate(budgets)]
        np.testing.assert_allclose(worth.at(budgets), expected, atol=1e-9)
    middle = (worth.at([1, 2, 0]) + worth.at([2, 3, 1])) / 2  # in between, rounding decides
    np.testing.assert_allclose(worth.at([1.5, 2.5, 0.5]), middle)
    np.testing.assert_allclose(worth.before[worth.group == 1], [worth.at([0, b, 0])[1] for b in range(4)])


def grid(worth: GroupWorth, budget: int, step: float) -> FloatArray:
    """All divisions of a budget in small steps."""
    sides = [np.arange(0, size + step / 2, step) for size in worth.size[:-1]]
    some = np.array(list(itertools.product(*sides)))
    last = budget - some.sum(axis=1)
    inside = (last >= -1e-9) & (last <= worth.size[-1] + 1e-9)
    return np.asarray(np.column_stack([some, last])[inside].clip(0, worth.size))


def welfare_of(worth: GroupWorth, division: AnyArray, welfare: str) -> float:
    mean = worth.at(division) / worth.size
    with np.errstate(divide="ignore"):
        return float(mean.min() if welfare == "maximin" else np.log(mean).sum())


def examples() -> list[tuple[GroupWorth, int]]:
    rng = np.random.default_rng(3)
    cases = []
    all_sizes = (3, 2), (1, 5), (2, 2, 2), (1, 3, 2), (1, 1, 1)
    for kind, sizes in itertools.product(("any", "helped", "harmed"), all_sizes):
        groups = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
        P = arms_of(kind, len(groups), int(rng.integers(1000)))
        cases += [(group_worth(P, groups), K) for K in range(1, len(groups) + 1)]
    return cases


@pytest.mark.slow
@pytest.mark.parametrize("welfare", ["maximin", "nash"])
def test_a_division_is_the_best_of_all(welfare: str) -> None:
    close = 0
    for worth, K in examples():
        division = divide_budget(worth, K, welfare)
        assert division.sum() == pytest.approx(K, abs=1e-12)
        assert (division >= 0).all()
        assert (division <= worth.size).all()
        best = max(welfare_of(worth, other, welfare) for other in grid(worth, K, 1 / 20))
        reached = welfare_of(worth, division, welfare)
        assert reached >= best - 1e-12
        close += reached < best + 0.01
    assert close == len(examples())


def test_maximin_raises_the_next_worst_too() -> None:
    for worth, K in examples():
        ours = np.sort(worth.at(divide_budget(worth, K)) / worth.size)
        for other in grid(worth, K, 1 / 12):
            theirs = np.sort(worth.at(other) / worth.size)
            apart = np.flatnonzero(np.abs(ours - theirs) > 1e-9)
            assert len(apart) == 0 or ours[apart[0]] > theirs[apart[0]]


def test_maximin_by_hand() -> None:
    # 0 + 0.8 b up to 1, then 0.6; 1 + 0.4 b: level at 0.8 + 0.6 (b - 1) = 1 + 0.4 (2 - b), b = 1.6
    worth = GroupWorth(np.array([2, 2]), np.array([0.0, 1.0]), np.array([0.8, 0.6, 0.4, 0.2]))
    np.testing.assert_allclose(divide_budget(worth, 2), [1.6, 0.4])
    np.testing.assert_allclose(divide_budget(worth, 1), [1.0, 0.0])  # the first is behind all the way
    np.testing.assert_allclose(divide_budget(worth, 4), [2.0, 2.0])


def test_nash_by_hand() -> None:
    def division(first: float, gain: float, second: float) -> FloatArray:
        return divide_budget(GroupWorth(np.array([1, 1]), np.array([first, second]), np.array([gain, 0.4])), 1, "nash")

    np.testing.assert_allclose(division(0.2, 0.8, 0.6), [1.0, 0.0])  # 0.8 / (0.2 + 0.8 b) > 0.4 / (1 - 0.4 b) to b = 1
    np.testing.assert_allclose(division(0.5, 0.4, 0.5), [0.5, 0.5])  # alike
    np.testing.assert_allclose(division(0.3, 0.4, 0.5), [0.75, 0.25])  # 0.3 + 0.4 b = 0.9 - 0.4 b
    np.testing.assert_allclose(division(0.3, 0.2, 0.5), [0.375, 0.625])  # 0.2 / (0.3 + 0.2 b) = 0.4 / (0.9 - 0.4 b)


def test_nash_rescues_a_group_that_has_nothing() -> None:
    worth = GroupWorth(np.array([1, 1]), np.array([0.0, 0.5]), np.array([0.01, 0.5]))
    np.testing.assert_allclose(divide_budget(worth, 1, "nash"), [1.0, 0.0])
    lost = GroupWorth(np.array([1, 1]), np.array([0.0, 0.5]), np.array([0.0, 0.5]))  # nothing can be done
    for welfare in ("maximin", "nash"):
        np.testing.assert_allclose(divide_budget(lost, 1, welfare), [0.0, 1.0])


@pytest.mark.parametrize("welfare", ["maximin", "nash"])
def test_equal_groups_are_treated_alike(welfare: str) -> None:
    for kind in ("any", "helped", "harmed"):
        P = np.tile(arms_of(kind, 3, seed=5), (4, 1, 1))
        for K in (1, 2, 6, 11):
            division = divide_budget(group_worth(P, np.repeat(np.arange(4), 3)), K, welfare)
            np.testing.assert_allclose(division, K / 4, atol=1e-9)


@pytest.mark.parametrize("welfare", ["maximin", "nash"])
def test_pulls_that_change_nothing_go_to_all_and_those_that_harm_to_nobody_if_possible(welfare: str) -> None:
    nothing = np.full((6, 2, 2), 0.5)
    np.testing.assert_allclose(divide_budget(group_worth(nothing, [0, 0, 0, 0, 1, 1]), 3, welfare), [2, 1])
    gain = np.array([0.3, -0.1, 0.0, 0.0, -0.1, -0.2])  # three groups of two
    worth = GroupWorth(np.array([2, 2, 2]), np.array([0.5, 0.5, 1.0]), gain)
    np.testing.assert_allclose(divide_budget(worth, 1, welfare), [1, 0, 0])
    np.testing.assert_allclose(divide_budget(worth, 2, welfare), [1, 1, 0])
    np.testing.assert_allclose(divide_budget(worth, 3, welfare), [1, 2, 0])
    np.testing.assert_allclose(divide_budget(worth, 4, welfare), [1, 2, 1])  # the harm to those who have most
    np.testing.assert_allclose(divide_budget(worth, 6, welfare), [2, 2, 2])


@pytest.mark.slow
@given(st.data())
@settings(max_examples=60)
def test_no_other_division_is_better_for_the_worst_off(data: st.DataObject) -> None:
    n_arms = data.draw(st.integers(1, 10))
    P = data.draw(hnp.arrays(np.float64, (n_arms, 2, 2), elements=st.floats(0.01, 0.99)))
    groups = np.unique(data.draw(hnp.arrays(np.int64, n_arms, elements=st.integers(0, 3))), return_inverse=True)[1]
    K, rng = data.draw(st.integers(1, n_arms)), np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    worth = group_worth(P, groups)
    for welfare in ("maximin", "nash"):
        division = divide_budget(worth, K, welfare)
        assert abs(division.sum() - K) < 1e-9
        assert (division >= 0).all()
        assert (division <= worth.size).all()
        for _ in range(20):
            chances = mf.fair_exposure(rng.exponential(size=n_arms), K, "exact")
            other = np.bincount(groups, chances, len(worth.size))
            assert welfare_of(worth, division, welfare) >= welfare_of(worth, other, welfare) - 1e-9
    order = rng.permutation(n_arms)
    relabelled = divide_budget(group_worth(P[order], groups[order]), K)
    np.testing.assert_allclose(relabelled, divide_budget(worth, K), atol=1e-6)


def view(
    n_arms: int = 6, budget: int = 2, runs: tuple[int, ...] = (), *, seed: int = 3, rngs: int | None = None
) -> View:
    rng = np.random.default_rng(seed)
    truth = np.sort(rng.uniform(0.05, 0.95, (*runs, n_arms, 2, 2)), axis=-1)
    visits = rng.integers(0, 500, truth.shape)
    many = int(np.prod(runs)) if rngs is None else rngs
    return View(
        mf.Counts(visits, rng.binomial(visits, truth)),
        episode=9,
        budget=budget,
        true_transitions=truth,
        rngs=tuple(np.random.default_rng(i) for i in range(many)),
    )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: policy_of(groups=11), r"groups must be a label for each arm, such as 'aabb' or .*, got 11"),
        (lambda: policy_of(groups=""), "groups must be a label for each arm"),
        (lambda: policy_of(groups=[0.5, 0.5]), r"groups must be a label for each arm, .*got \[0\.5, 0\.5\]"),
        (lambda: policy_of(welfare="nush"), "welfare must be one of maximin, nash, got 'nush', did you mean 'nash'"),
        (lambda: policy_of(estimate="truth"), "estimate must be one of known, optimistic, .*, got 'truth'"),
        (lambda: policy_of(delta=0), "delta must lie strictly between 0 and 1, got 0"),
        (lambda: Equitable("aabb").plan(view(5)), "groups must have one label for each of the 5 arms, got 4"),
        (lambda: Equitable().plan(view(5, rngs=0)), "'equitable' needs a generator for each run"),
        (lambda: Equitable().plan(view(5, runs=(2,), rngs=1)), "'equitable' needs a generator for each run"),
        (lambda: group_worth(np.full((3, 2, 2), 0.5), [0, 2, 2]), "groups must number the groups of the 3 arms from 0"),
        (lambda: group_worth(np.full((3, 2, 2), 0.5), [0, 1]), "groups must number the groups of the 3 arms from 0"),
        (lambda: divide_budget(group_worth(np.full((3, 2, 2), 0.5), [0, 0, 1]), 4), "budget must be between 1 and"),
    ],
)
def test_mistakes_are_named(call: Any, message: str) -> None:
    with pytest.raises(mf.InputError, match=message):
        call()


def test_labels_are_plain_values_however_they_are_written() -> None:
    assert Equitable("aab").groups == ("a", "a", "b")
    assert policy_of(groups=np.array([1, 1, 0])).settings()["groups"] == [1, 1, 0]
    assert policy_of(groups=np.array(["n", "s"])).settings()["groups"] == ["n", "s"]
    saved = json.loads(json.dumps(Equitable(["north", "south"], "nash").settings()))
    assert saved == {"groups": ["north", "south"], "welfare": "nash", "estimate": "known", "delta": 0.01}
    assert Equitable(**saved) == Equitable(("north", "south"), "nash")
    assert hash(Equitable("ab")) == hash(Equitable(["a", "b"]))
    assert Equitable().settings()["groups"] is None
    assert Equitable.name == "equitable"


@pytest.mark.parametrize("welfare", ["maximin", "nash"])
def test_quotas_are_the_division_on_average_and_the_budget_always(welfare: str) -> None:
    seen, draws = view(12, 5, (1000,), seed=37), 1000
    shared = View(seen.counts, 9, 5, seen.true_transitions[0], seen.rngs)
    plan = Equitable("abcd" * 3, welfare).plan(shared)
    division = divide_budget(group_worth(shared.true_transitions, np.arange(12) % 4), 5, welfare)
    assert plan.groups is not None
    assert plan.quotas is not None
    np.testing.assert_array_equal(plan.groups, np.arange(12) % 4)
    np.testing.assert_array_equal(plan.quotas.sum(axis=-1), 5)
    assert np.abs(plan.quotas - division).max() < 1
    part = division % 1
    limit = norm.isf(1e-4 / 8 / 2) * np.sqrt(part * (1 - part) / draws) + 1e-12
    assert (np.abs(plan.quotas.mean(axis=0) - division) <= limit).all()
    assert (np.abs(np.floor(division + 0.5) - division) > limit).sum() >= 2  # rounding to the nearest is found out


def test_a_plan_pulls_by_the_index_for_the_average_reward() -> None:
    seen = view(6, 2, (2, 3))
    plan = Equitable("aabbab").plan(seen)
    np.testing.assert_allclose(plan.index, whittle_index(seen.true_transitions))
    assert np.asarray(plan.quotas).shape == (2, 3, 2)
    one = View(seen.counts, 9, 2, seen.true_transitions[1, 2], seen.rngs)
    assert np.asarray(Equitable().plan(one).quotas).shape == (2, 3, 6)


def test_what_is_known_is_divided_once() -> None:
    seen, policy = view(6, 2), Equitable("aabbab")
    assert policy.plan(seen).index is policy.plan(seen).index
    assert not np.array_equal(policy.plan(view(6, 2, seed=4)).index, policy.plan(seen).index)
    quotas = [divide_budget(group_worth(seen.true_transitions, [0, 0, 1, 1, 0, 1]), K) for K in (2, 5)]
    for K, expected in zip((2, 5), quotas, strict=True):
        plan = policy.plan(View(seen.counts, 9, K, seen.true_transitions, seen.rngs))
        assert np.abs(np.asarray(plan.quotas) - expected).max() < 1


@pytest.mark.parametrize("estimate", ["optimistic", "pessimistic", "mean", "thompson"])
def test_a_learner_plans_for_its_estimate(estimate: str) -> None:
    seen = view(6, 3)
    policy = Equitable("aabbab", estimate=estimate, delta=0.2)
    plan = policy.plan(seen)
    estimated = mf.Ball(seen.counts, 9, 0.2).estimate(estimate, (np.random.default_rng(0),))
    np.testing.assert_allclose(plan.index, whittle_index(estimated))
    division = divide_budget(group_worth(estimated, [0, 0, 1, 1, 0, 1]), 3)
    assert np.abs(np.asarray(plan.quotas) - division).max() < 1
    assert (policy.plans_once, policy.oracle) == (False, False)
    assert (Equitable().plans_once, Equitable().oracle) == (False, True)


def test_before_anything_is_seen_all_have_the_same_chance() -> None:
    none = mf.Counts(*(np.zeros((2000, 5, 2, 2), np.int64) for _ in range(2)))
    rngs = tuple(np.random.default_rng(i) for i in range(2000))
    plan = Equitable(estimate="optimistic").plan(View(none, 1, 2, np.full((5, 2, 2), np.nan), rngs))
    quotas = np.asarray(plan.quotas)
    assert np.abs(quotas.mean(axis=0) - 0.4).max() < norm.isf(1e-4 / 15 / 2) * np.sqrt(0.4 * 0.6 / 2000)
    pairs = (quotas.T @ quotas / 2000)[np.triu_indices(5, 1)]  # 2 of 5: each pair in one of ten, neighbours too
    assert np.abs(pairs - 0.1).max() < norm.isf(1e-4 / 15 / 2) * np.sqrt(0.1 * 0.9 / 2000)


def share_good(run: mf.Run, groups: AnyArray) -> FloatArray:
    """How often the arms of each group were good."""
    visits = run.visits.sum(axis=0)
    each = visits[:, 1].sum(axis=-1) / visits.sum(axis=(1, 2))
    return np.bincount(groups, each) / np.bincount(groups)


@pytest.mark.parametrize("variant", ["kang", "probfair"])
def test_simulated_the_worst_group_is_better_off_than_by_index_alone(variant: str) -> None:
    arms = mf.datasets.cpap(n_arms=20, seed=1, variant=variant)
    labels = [name.rsplit("-", 1)[0] for name in arms.names]
    groups = np.array([int(label != "non-adherer") for label in labels])
    played: dict[str, Any] = {"budget": 4, "episodes": 40, "horizon": 500, "runs": 2, "seed": 6}
    by_index = share_good(mf.simulate(arms, Whittle(), **played), groups)
    fair = share_good(mf.simulate(arms, Equitable(labels), **played), groups)
    worth = group_worth(arms.transitions, groups)
    promised = worth.at(divide_budget(worth, 4)) / worth.size
    assert fair[0] == fair.min()
    assert fair[0] > by_index[0] + 0.008
    np.testing.assert_allclose(fair, promised, atol=0.006)


@pytest.mark.slow
def test_simulated_single_arms_are_raised_to_one_level() -> None:
    arms = mf.Arms(np.sort(np.random.default_rng(5).uniform(0.1, 0.9, (6, 2, 2)), axis=-1))
    run = mf.simulate(arms, Equitable(), budget=2, episodes=2000, horizon=200, seed=2)
    worth = group_worth(arms.transitions, np.arange(6))
    promised = worth.at(divide_budget(worth, 2))
    np.testing.assert_allclose(share_good(run, np.arange(6)), promised, atol=0.02)
