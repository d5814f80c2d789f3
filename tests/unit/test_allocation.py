from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import meritfair as mf
from meritfair.core.arrays import FloatArray
from meritfair.model.allocation import allocate, check_bounds, learning_cap
from reference import plain

EXACT = 1e-9


def cases() -> list[tuple[FloatArray, int, FloatArray, FloatArray]]:
    """Return merits from flat to 300 orders of magnitude, any budget, with and without floors and caps."""
    rng = np.random.default_rng(31)
    found: list[tuple[FloatArray, int, FloatArray, FloatArray]] = []
    for spread in (0.0, 0.5, 3.0, 10.0, 100.0, 345.0):  # e^690 is 10^300
        for number in range(40):
            n_arms = int(rng.integers(1, 25))
            budget = int(rng.integers(1, n_arms + 1))
            merit = np.exp(rng.uniform(-spread, spread, n_arms))
            if number % 4 == 0:  # many alike
                merit = np.exp(spread * rng.choice([-1.0, 0.0, 1.0], n_arms))
            floor, cap = np.zeros(n_arms), np.ones(n_arms)
            if number % 2:
                floor = rng.random(n_arms) * rng.random() * budget / n_arms
            if number % 3:
                cap = np.maximum(floor, 1 - rng.random(n_arms) * (1 - budget / n_arms))
            found.append((merit, budget, floor, cap))
    return found


CASES = cases()


def test_exposures_are_those_of_bisection_and_sum_to_the_budget() -> None:
    bounded = 0
    for merit, budget, floor, cap in CASES:
        shared = allocate(merit, budget, floor=floor, cap=cap)
        expected = plain.allocation(merit, budget, floor, cap)
        np.testing.assert_allclose(shared.exposure, expected, rtol=0, atol=EXACT)
        assert abs(shared.exposure.sum() - budget) < EXACT
        assert ((shared.exposure >= floor) & (shared.exposure <= cap)).all()
        bounded += bool(shared.at_floor.any()) and bool(shared.saturated.any()) and len(merit) > 2
    assert bounded > 30  # with arms at floors and at caps


def test_between_bounds_exposures_are_as_merits() -> None:
    # Eq. (1): the same exposure for each unit of merit.
    several = 0
    for merit, budget, floor, cap in CASES:
        shared = allocate(merit, budget, floor=floor, cap=cap)
        free = ~shared.saturated & ~shared.at_floor
        if free.any():
            log_rate = np.log(shared.exposure[free]) - np.log(merit[free])
            np.testing.assert_allclose(log_rate, np.log(shared.rate), rtol=0, atol=EXACT)
        several += free.sum() > 1
        with np.errstate(over="ignore", under="ignore"):
            wanted = np.exp(np.log(merit) + np.log(np.maximum(shared.rate, 1e-320)))
        np.testing.assert_array_equal(shared.exposure[shared.saturated], cap[shared.saturated])
        assert (wanted[shared.saturated] >= cap[shared.saturated] * (1 - EXACT)).all()
        np.testing.assert_array_equal(shared.exposure[shared.at_floor], floor[shared.at_floor])
        assert (wanted[shared.at_floor] <= floor[shared.at_floor] * (1 + EXACT)).all()
        assert not (shared.saturated & shared.at_floor).any()
    assert several > 100


def test_one_pull_is_the_share_of_merit_and_all_pulls_are_certain() -> None:
    for merit, *_ in CASES:
        np.testing.assert_allclose(allocate(merit, 1).exposure, mf.merit_share(merit), rtol=0, atol=EXACT)
        everyone = allocate(merit, len(merit))
        np.testing.assert_array_equal(everyone.exposure, np.ones(len(merit)))
        assert everyone.saturated.all()
    assert allocate([2.0, 6.0], 1).rate == pytest.approx(1 / 8, rel=1e-12)


def test_who_is_saturated_also_at_the_boundary() -> None:
    # Of merits 5, 2, 2, 1 and two pulls, the first is entitled to 2 · 5 / 10 = 1, exactly.
    exactly = allocate([5.0, 2.0, 2.0, 1.0], 2)
    np.testing.assert_allclose(exactly.exposure, [1.0, 0.4, 0.4, 0.2], rtol=1e-12)
    assert exactly.exposure[0] == 1.0
    assert exactly.saturated.tolist() == [True, False, False, False]
    assert exactly.rate == pytest.approx(0.2, rel=1e-12)
    below = allocate([5.0 - 1e-9, 2.0, 2.0, 1.0], 2)
    assert not below.saturated.any()
    assert below.exposure[0] < 1.0
    above = allocate([5000.0, 2.0, 2.0, 1.0], 2)
    np.testing.assert_allclose(above.exposure, [1.0, 0.4, 0.4, 0.2], rtol=1e-12)
    assert above.saturated.tolist() == [True, False, False, False]
    assert not above.at_floor.any()
    again = allocate([50.0, 20.0, 2.0, 1.0], 3)  # the second is saturated once the first is
    np.testing.assert_allclose(again.exposure, [1.0, 1.0, 2 / 3, 1 / 3], rtol=1e-12)
    assert again.saturated.tolist() == [True, True, False, False]
    capped = allocate([5.0, 2.0, 2.0, 1.0], 2, cap=[1.0, 0.4, 1.0, 1.0])  # a cap just where it would be
    assert capped.saturated.tolist() == [True, True, False, False]


def test_who_is_at_the_floor_also_at_the_boundary() -> None:
    shared = allocate([5.0, 2.0, 2.0, 1.0], 2, floor=0.3)
    np.testing.assert_allclose(shared.exposure, [1.7 * 5 / 9, 1.7 * 2 / 9, 1.7 * 2 / 9, 0.3], rtol=1e-12)
    assert shared.at_floor.tolist() == [False, False, False, True]
    with pytest.warns(DeprecationWarning, match="lifted is now at_floor"):
        assert shared.lifted is shared.at_floor
    exactly = allocate([4.0, 2.0, 1.0, 1.0], 1, floor=[0.0, 0.0, 0.0, 0.125])  # all powers of two
    np.testing.assert_allclose(exactly.exposure, [0.5, 0.25, 0.125, 0.125], rtol=1e-12)
    assert not exactly.at_floor.any()
    assert allocate([4.0, 2.0, 1.0, 1.0], 1, floor=[0.0, 0.0, 0.0, 0.126]).at_floor.tolist() == [
        False,
        False,
        False,
        True,
    ]


def test_bounds_just_where_merit_puts_an_arm_do_not_depend_on_rounding() -> None:
    rng = np.random.default_rng(35)
    for _ in range(200):
        merit = rng.integers(1, 20, 6).astype(float)
        entitled = 2 * merit / merit.sum()
        if entitled.max() < 1:
            floor, cap = np.zeros(6), np.ones(6)
            floor[0], cap[1] = entitled[0], entitled[1]
            shared = allocate(merit, 2, floor=floor, cap=cap)
            np.testing.assert_allclose(shared.exposure, entitled, rtol=1e-12)
            assert np.flatnonzero(shared.saturated).tolist() == [1]  # entitled to at least as much
            assert not shared.at_floor.any()  # entitled to no less


def test_floors_and_caps_can_take_the_whole_budget() -> None:
    floor = np.array([0.9, 0.6, 0.3, 0.2])
    raised = allocate([1.0, 5.0, 7.0, 2.0], 2, floor=floor)
    np.testing.assert_array_equal(raised.exposure, floor)
    assert raised.rate == 0.0
    cap = np.array([0.9, 0.6, 0.3, 0.2])
    capped = allocate([1.0, 5.0, 7.0, 2.0], 2, cap=cap)
    np.testing.assert_array_equal(capped.exposure, cap)
    assert capped.saturated.all()
    same = allocate([1.0, 5.0, 7.0, 2.0], 2, floor=cap, cap=cap)
    np.testing.assert_array_equal(same.exposure, cap)
    never = allocate([1.0, 5.0, 7.0, 2.0], 2, cap=[1.0, 0.0, 1.0, 1.0])  # one is excluded, whatever its merit
    np.testing.assert_allclose(never.exposure, [1 / 3, 0.0, 1.0, 2 / 3], rtol=1e-12)
    assert never.exposure[1] == 0.0


def test_merits_over_300_orders_of_magnitude() -> None:
    merit = 10 ** np.array([150.0, 149.0, 0.0, -1.0, -150.0])
    first = [10 / 11, 1 / 11, 0.0, 0.0, 0.0]
    third = [1.0, 1.0, 10 / 11, 1 / 11, 0.0]
    np.testing.assert_allclose(allocate(merit, 1).exposure, first, atol=EXACT)
    np.testing.assert_allclose(allocate(merit, 2).exposure, [1.0, 1.0, 0.0, 0.0, 0.0], atol=EXACT)
    np.testing.assert_allclose(allocate(merit, 3).exposure, third, atol=EXACT)
    np.testing.assert_allclose(allocate(merit, 4).exposure, [1.0, 1.0, 1.0, 1.0, 0.0], atol=EXACT)
    tiny = allocate(merit, 3).exposure[-1]
    assert tiny == pytest.approx(1e-150 / 1.1, rel=1e-9)  # small, but not lost
    np.testing.assert_allclose(allocate(merit, 4).exposure[-1], 1e-149, rtol=1e-9)


def test_a_million_arms() -> None:
    rng = np.random.default_rng(32)
    merit = np.exp(3 * rng.uniform(-1, 1, 1_000_000))
    shared = allocate(merit, 600_000)
    assert abs(shared.exposure.sum() - 600_000) < 1e-4
    assert 0 < shared.saturated.sum() < 600_000
    free = ~shared.saturated
    np.testing.assert_allclose(shared.exposure[free] / merit[free], shared.rate, rtol=1e-9)
    assert (shared.rate * merit[shared.saturated] >= 1 - 1e-12).all()


def test_leading_axes_are_separate_problems_with_bounds_of_their_own() -> None:
    rng = np.random.default_rng(33)
    merit = np.exp(rng.uniform(-3, 3, (2, 3, 6)))
    cap = rng.uniform(0.5, 1.0, (2, 3, 6))
    floor = rng.uniform(0.0, 0.2, 6)
    together = allocate(merit, 2, floor=floor, cap=cap)
    assert together.exposure.shape == together.saturated.shape == together.at_floor.shape == (2, 3, 6)
    assert together.rate.shape == (2, 3)
    for at in np.ndindex(2, 3):
        alone = allocate(merit[at], 2, floor=floor, cap=cap[at])
        np.testing.assert_array_equal(together.exposure[at], alone.exposure)
        np.testing.assert_array_equal(together.saturated[at], alone.saturated)
        assert together.rate[at] == alone.rate
    assert len(np.unique(together.saturated.reshape(6, 6), axis=0)) > 1  # so rows could be mixed up


def test_fair_exposure_by_the_exact_designs_is_this_allocation() -> None:
    for design in ("exact", "systematic"):
        for merit, budget, floor, cap in CASES[::20]:
            np.testing.assert_array_equal(
                mf.fair_exposure(merit, budget, design, floor=floor, cap=cap),
                allocate(merit, budget, floor=floor, cap=cap).exposure,
            )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"floor": 0.6}, "floors must add up to at most the budget of 2, got 2.4"),
        ({"floor": [1.0, 1.0, 0.1, 0.0]}, "floors must add up to at most the budget of 2, got 2.1"),
        ({"cap": 0.4}, "caps must add up to at least the budget of 2, got 1.6"),
        ({"cap": [1.0, 0.9, 0.0, 0.0]}, "caps must add up to at least the budget of 2, got 1.9"),
        ({"floor": 0.3, "cap": [1.0, 1.0, 0.2, 1.0]}, "floor must be at most cap, got 0.3 and 0.2 for arm 2"),
        ({"floor": [0.1, 0.5, 0.1, 0.1], "cap": 0.45}, "floor must be at most cap, got 0.5 and 0.45 for arm 1"),
        ({"floor": [0.1, 0.1]}, r"floor must be one number, or one for each of the 4 arms, got shape \(2,\)"),
        ({"cap": np.ones(5)}, r"cap must be one number, or one for each of the 4 arms, got shape \(5,\)"),
        ({"floor": -0.1}, "floor must lie between 0 and 1, got -0.1"),
        ({"cap": 1.5}, "cap must lie between 0 and 1, got 1.5"),
        ({"cap": [1.0, np.nan, 1.0, 1.0]}, "cap must lie between 0 and 1, got nan"),
        ({"floor": [0.0, 0.0, 2.0, 0.0]}, "floor must lie between 0 and 1, got 2"),
        ({"floor": "abc"}, "floor must be an array of numbers"),
        ({"floor": [0.1, None, 0.1, 0.1]}, "floor must "),
        ({"budget": 0}, "budget must be between 1 and the 4 arms, got 0"),
        ({"budget": 5}, "budget must be between 1 and the 4 arms, got 5"),
        ({"merit": [1.0, 0.0, 1.0, 1.0]}, "merit must be positive and finite, got 0.0 for arm 1"),
        ({"merit": [1.0, np.inf, 1.0, 1.0]}, "merit must be positive and finite, got inf for arm 1"),
    ],
)
def test_what_cannot_be_shared_is_refused(settings: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {"merit": [4.0, 3.0, 2.0, 1.0], "budget": 2, **settings}
    with pytest.raises(mf.InputError, match=message):
        allocate(given.pop("merit"), given.pop("budget"), **given)


def test_one_row_that_cannot_be_shared_is_refused() -> None:
    cap = np.ones((3, 4))
    cap[1] = 0.4
    with pytest.raises(mf.InputError, match=r"caps must add up to at least the budget of 2, got 1\.6"):
        allocate(np.ones((3, 4)), 2, cap=cap)
    cap[1] = [1.0, 1.0, 0.2, 1.0]
    with pytest.raises(mf.InputError, match=r"floor must be at most cap, got 0.3 and 0.2 for arm 2"):
        allocate(np.ones((3, 4)), 2, floor=[0.1, 0.1, 0.3, 0.1], cap=cap)


def test_floors_that_use_up_the_budget_but_for_rounding_are_allowed() -> None:
    thirds = np.full(3, 1 / 3)
    for n_arms, each in ((3, thirds), (10, np.full(10, 0.1)), (7, np.full(7, 3 / 7))):
        budget = round(float(each.sum()))
        low, high = check_bounds(each, each, n_arms, budget)
        np.testing.assert_allclose(allocate(np.arange(1.0, n_arms + 1), budget, floor=low, cap=high).exposure, each)


# --- Caps for learning.


def test_learning_caps_are_one_minus_what_is_not_known() -> None:
    n_arms, budget, not_pulled = 5, 2, np.array([0, 1, 9, 99, 10**9])
    expected = [2 / 5, 1 - (3 / 5) / 2, 1 - (3 / 5) / 10, 1 - (3 / 5) / 100, 1 - (3 / 5) / (1 + 10**9)]
    np.testing.assert_allclose(learning_cap(not_pulled, budget, 0.0, 1.0), expected, rtol=1e-14)
    assert (learning_cap(not_pulled, budget, 0.0, 1.0) < 1).all()
    np.testing.assert_array_equal(learning_cap(np.arange(n_arms), n_arms, 0.0, 1.0), np.ones(n_arms))  # all are pulled


def test_learning_caps_keep_floors_and_the_caps_of_others() -> None:
    floor, cap = np.array([0.7, 0.0, 0.0, 0.1]), np.array([1.0, 0.9, 0.3, 1.0])
    found = learning_cap([0, 0, 1000, 3], 2, floor, cap)
    np.testing.assert_allclose(found, [0.7, 0.9, 0.3, 1 - 0.5 / 4], rtol=1e-14)  # caps below 1 stay as they are
    assert ((floor <= found) & (found <= cap)).all()


def test_learning_caps_leave_room_for_the_budget() -> None:
    # One arm is capped at 0.1, so with 2 / 3 for each of the others the budget of 2 could not be used up.
    np.testing.assert_array_equal(learning_cap([0, 0, 0], 2, 0.0, [0.1, 1.0, 1.0]), [0.1, 1.0, 1.0])
    np.testing.assert_allclose(learning_cap([0, 50, 50], 2, 0.0, [0.1, 1.0, 1.0]), [0.1, *[1 - 1 / 3 / 51] * 2])


def test_learning_caps_by_row() -> None:
    not_pulled = np.array([[0, 0, 0], [0, 5, 50], [10, 10, 10]])
    together = learning_cap(not_pulled, 1, [0.0, 0.0, 0.2], 1.0)
    for row, seen in zip(together, not_pulled, strict=True):
        np.testing.assert_array_equal(row, learning_cap(seen, 1, [0.0, 0.0, 0.2], 1.0))
    # The budget must be used up in each row by itself.
    capped = learning_cap([[0, 0, 0], [0, 10**6, 10**6]], 2, 0.0, [0.5, 1.0, 1.0])
    np.testing.assert_array_equal(capped[0], [0.5, 1.0, 1.0])
    np.testing.assert_allclose(capped[1], [0.5, 1 - 1e-6 / 3, 1 - 1e-6 / 3], atol=1e-9)
    assert (capped[1, 1:] < 1).all()


def test_budgets_can_be_shared_under_learning_caps() -> None:
    rng = np.random.default_rng(34)
    fell_back = 0
    for merit, budget, floor, cap in CASES:
        not_pulled = rng.integers(0, 10 ** rng.integers(1, 5), len(merit))
        most = np.where(rng.random(len(merit)) < 0.5, cap, 1.0)
        careful = learning_cap(not_pulled, budget, floor, most)
        shared = allocate(merit, budget, floor=floor, cap=careful)  # refused if it could not be
        assert (shared.exposure <= most).all()
        assert (shared.exposure >= floor).all()
        fell_back += bool((careful == most).all()) and budget < len(merit)
    assert fell_back > 0


@pytest.mark.parametrize(
    ("not_pulled", "message"),
    [("abc", "not_pulled must be an array of numbers"), ([0, 0, 0], "floor must be one number")],
)
def test_mistakes_about_learning_caps_are_named(not_pulled: Any, message: str) -> None:
    with pytest.raises(mf.InputError, match=message):
        learning_cap(not_pulled, 1, [0.1, 0.1], 1.0)
