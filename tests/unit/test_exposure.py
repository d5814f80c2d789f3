from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import meritfair as mf
from meritfair.model import exposure
from reference import plain

EXACT = 1e-8
RNG = np.random.default_rng(11)


def cases() -> list[tuple[list[float], int]]:
    found: list[tuple[list[float], int]] = []
    for n_arms in range(1, 8):
        for budget in range(1, n_arms + 1):
            flat = RNG.uniform(0.5, 2.0, n_arms).tolist()
            steep = np.exp(10 * RNG.uniform(-1, 1, n_arms)).tolist()
            found += [(flat, budget), (steep, budget)]
    return found


def test_inclusion_probabilities_equal_enumeration() -> None:
    for merit, budget in cases():
        exposure = mf.fair_exposure(merit, budget)
        np.testing.assert_allclose(exposure, plain.inclusion(merit, budget), rtol=0, atol=EXACT, err_msg=f"{merit}")
        assert exposure.sum() == pytest.approx(budget, abs=EXACT)


def test_equal_merits_share_equally() -> None:
    for n_arms, budget in [(100, 20), (1000, 10), (50, 49), (300, 150)]:
        np.testing.assert_allclose(mf.fair_exposure(np.full(n_arms, 7.0), budget), budget / n_arms, atol=EXACT)


def test_two_groups_by_an_independent_chain() -> None:
    # All arms of a group are alike, so the draw is a walk over how many of the first group are taken.
    big, small, budget, weight = 60, 40, 30, 4.0
    law = {0: 1.0}
    for taken in range(budget):
        following: dict[int, float] = {}
        for first, chance in law.items():
            up = weight * (big - first)
            rest = small - (taken - first)
            following[first + 1] = following.get(first + 1, 0.0) + chance * up / (up + rest)
            following[first] = following.get(first, 0.0) + chance * rest / (up + rest)
        law = following
    expected = sum(first * chance for first, chance in law.items()) / big
    exposure = mf.fair_exposure([weight] * big + [1.0] * small, budget)
    np.testing.assert_allclose(exposure[:big], expected, atol=EXACT)
    np.testing.assert_allclose(exposure[big:], (budget - big * expected) / small, atol=EXACT)


@pytest.mark.parametrize("spread", [50.0, 300.0, 600.0])
def test_merits_over_hundreds_of_orders_of_magnitude(spread: float) -> None:
    merit = 10 ** np.linspace(spread / 2, -spread / 2, 8)
    exposure = mf.fair_exposure(merit, 3)
    assert exposure.sum() == pytest.approx(3, abs=EXACT)
    if spread >= 300:
        np.testing.assert_allclose(exposure, [1, 1, 1, 0, 0, 0, 0, 0], atol=EXACT)


def test_only_ratios_matter() -> None:
    merit = RNG.uniform(0.1, 1, 12)
    for factor in (1e-300, 1e300):
        np.testing.assert_allclose(mf.fair_exposure(merit * factor, 5), mf.fair_exposure(merit, 5), atol=1e-10)


def test_one_pull_is_the_share_of_merit_and_all_pulls_are_certain() -> None:
    merit = RNG.uniform(0.1, 1, 6)
    np.testing.assert_allclose(mf.fair_exposure(merit, 1), merit / merit.sum(), rtol=1e-14)
    np.testing.assert_array_equal(mf.fair_exposure(merit, 6), np.ones(6))
    np.testing.assert_array_equal(mf.fair_exposure([3.0], 1), [1.0])


def test_leading_axes_are_separate_problems() -> None:
    merit = RNG.uniform(0.1, 1, (2, 3, 5))
    together = mf.fair_exposure(merit, 2)
    np.testing.assert_array_equal(together[1, 2], mf.fair_exposure(merit[1, 2], 2))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1.0, 2.0], 0), "budget must be between 1 and the 2 arms, got 0"),
        (([1.0, 2.0], 3), "budget must be between 1 and the 2 arms, got 3"),
        (([1.0], 2), "budget must be between 1 and the only arm, got 2"),
        (([1.0, 2.0], 1.5), "budget must be a whole number, got 1.5"),
        (([1.0, 2.0], True), "budget must be a whole number, got True"),
        (([1.0, 0.0], 1), "merit must be positive and finite, got 0.0 for arm 1"),
        (([1.0, -2.0], 1), "merit must be positive and finite, got -2.0 for arm 1"),
        (([float("nan"), 2.0], 1), "got nan for arm 0"),
        (([float("inf"), 2.0], 2), "got inf for arm 0"),
        (([], 1), "one number for each arm"),
        ((1.0, 1), "one number for each arm"),
        (([1.0, 2.0], 1, "exakt"), "one of sequential, exact, systematic, got 'exakt', did you mean 'exact'"),
        (([1.0, 2.0], 1, 3), "design must be one of sequential, exact, systematic, got 3"),
    ],
)
def test_bad_input_is_refused(arguments: Any, message: str) -> None:
    with pytest.raises(mf.InputError, match=message):
        mf.fair_exposure(*arguments)


def test_designs_differ_only_where_several_arms_are_drawn() -> None:
    merit = RNG.uniform(0.1, 1, 6)
    for budget in range(1, 7):
        exact = mf.fair_exposure(merit, budget, "exact")
        np.testing.assert_array_equal(mf.fair_exposure(merit, budget, "systematic"), exact)
        away = np.abs(mf.fair_exposure(merit, budget) - exact).max()
        assert away < 1e-12 if budget in (1, 6) else away > 0.01


@pytest.mark.parametrize(
    "bounds", [{"floor": 0.1}, {"cap": 0.9}, {"floor": [0.0, 0.1]}, {"cap": [1.0, 0.9]}, {"floor": 0.1, "cap": 0.9}]
)
def test_a_sequential_draw_cannot_keep_floors_and_caps(bounds: dict[str, Any]) -> None:
    with pytest.raises(mf.InputError, match="floor and cap need the design 'exact' or 'systematic'"):
        mf.fair_exposure([1.0, 2.0], 1, **bounds)
    kept = mf.fair_exposure([1.0, 2.0], 1, "exact", **bounds)
    assert kept.sum() == pytest.approx(1)


def test_bounds_that_bind_nobody_are_no_bounds() -> None:
    merit = RNG.uniform(0.1, 1, 6)
    np.testing.assert_array_equal(mf.fair_exposure(merit, 2, floor=0, cap=[1] * 6), mf.fair_exposure(merit, 2))


@pytest.mark.parametrize(
    ("n_arms", "budget", "spread"), [(300, 60, 3.0), (400, 20, 30.0), (150, 140, 1.0), (90, 60, 170.0)]
)
def test_many_arms_are_integrated_by_the_engine(n_arms: int, budget: int, spread: float) -> None:
    log_merit = spread * np.random.default_rng(3).uniform(-1, 0, n_arms)
    log_merit -= log_merit.max()
    expected = exposure._sequential(log_merit, budget)
    found = mf.fair_exposure(np.exp(log_merit), budget)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9)
    assert found.sum() == pytest.approx(budget, rel=0, abs=1e-7)
