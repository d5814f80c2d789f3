from __future__ import annotations

from collections.abc import Callable
from itertools import permutations
from typing import Any

import numpy as np
import pytest

import meritfair as mf
from meritfair.core.arrays import FloatArray
from meritfair.model.draws import draw_exposures, joint_exposure
from reference import plain

EXACT = 1e-9
LAWS: dict[str, Callable[[Any], dict[frozenset[int], float]]] = {
    "exact": plain.rounding_law,
    "systematic": plain.systematic_law,
}
both_designs = pytest.mark.parametrize("design", list(LAWS))

EXPOSURES = [
    [1.0],
    [0.3, 0.7],
    [0.5, 0.5, 0.5, 0.5],
    [0.25, 0.75, 0.5, 0.5],  # ends that meet
    [1.0, 0.4, 0.4, 0.2],
    [0.0, 0.6, 1.0, 0.4, 0.0, 1.0],
    [0.9, 0.8, 0.7, 0.6],
    [0.05, 0.1, 0.15, 0.2, 0.5],
    [0.99, 0.98, 0.97, 0.03, 0.02, 0.01],
    [1e-12, 1 - 1e-12, 0.5, 0.5],
    [1.0, 1.0, 1.0],
]


def some_exposures(rng: np.random.Generator, most: int) -> FloatArray:
    n_arms = int(rng.integers(1, most + 1))
    merit = np.exp(rng.uniform(-3, 3, n_arms))
    return mf.fair_exposure(merit, int(rng.integers(1, n_arms + 1)), "exact")


def brute_force(exposure: Any, design: str, order: Any) -> FloatArray:
    """Return the joint exposures of arms that stand in this order, from the chances of all sets of arms."""
    order = np.asarray(order)
    both = np.zeros((len(order), len(order)))
    both[np.ix_(order, order)] = plain.joint(LAWS[design](np.asarray(exposure)[order]), len(order))
    return both


# --- The references themselves.


@both_designs
def test_the_references_pull_each_arm_with_its_exposure_and_always_as_many(design: str) -> None:
    rng = np.random.default_rng(40)
    for exposure in [*map(np.array, EXPOSURES), *(some_exposures(rng, 8) for _ in range(50))]:
        law = LAWS[design](exposure)
        assert sum(law.values()) == pytest.approx(1, abs=1e-12)
        assert {len(arms) for arms, chance in law.items() if chance > 1e-12} == {round(float(exposure.sum()))}
        np.testing.assert_allclose(np.diag(plain.joint(law, len(exposure))), exposure, rtol=0, atol=1e-12)


# --- Who is drawn together.


@both_designs
@pytest.mark.parametrize("exposure", EXPOSURES, ids=str)
def test_joint_exposures_of_an_order_equal_enumeration(exposure: list[float], design: str) -> None:
    rng = np.random.default_rng(41)
    for _ in range(10):
        order = rng.permutation(len(exposure))
        both = joint_exposure(exposure, design, order)
        np.testing.assert_allclose(both, brute_force(exposure, design, order), rtol=0, atol=EXACT)


@both_designs
def test_joint_exposures_of_random_arms_equal_enumeration(design: str) -> None:
    rng = np.random.default_rng(42)
    missed = 0
    for _ in range(100):
        exposure = some_exposures(rng, 10)
        order = rng.permutation(len(exposure))
        both, budget = joint_exposure(exposure, design, order), round(float(exposure.sum()))
        np.testing.assert_allclose(both, brute_force(exposure, design, order), rtol=0, atol=EXACT)
        np.testing.assert_array_equal(np.diag(both), exposure)
        np.testing.assert_allclose(both.sum(axis=1), budget * exposure, rtol=0, atol=1e-8)
        np.testing.assert_allclose(both, both.T, rtol=0, atol=1e-12)
        independent = np.outer(exposure, exposure)
        np.fill_diagonal(independent, exposure)
        missed += np.abs(both - independent).max() > 0.01
    assert missed > 50  # independence, planted, would be found


@both_designs
@pytest.mark.parametrize("exposure", [e for e in EXPOSURES if len(e) <= 5], ids=str)
def test_joint_exposures_without_an_order_are_the_mean_over_all(exposure: list[float], design: str) -> None:
    orders = list(permutations(range(len(exposure))))
    expected = sum((brute_force(exposure, design, order) for order in orders), np.zeros((len(exposure),) * 2))
    np.testing.assert_allclose(joint_exposure(exposure, design), expected / len(orders), rtol=0, atol=EXACT)


def test_joint_exposures_by_hand() -> None:
    # Two of four, all alike: any pair is as likely as any other, and on the circle arms lie opposite each other.
    for design in LAWS:
        both = joint_exposure([0.5] * 4, design)
        np.testing.assert_allclose(both[~np.eye(4, dtype=bool)], 1 / 6)
    opposite = joint_exposure([0.5] * 4, "systematic", [0, 1, 2, 3])
    np.testing.assert_allclose(opposite, 0.5 * np.array([[1, 0, 1, 0], [0, 1, 0, 1]] * 2))
    # In a rounding, 0 and 1 are the first to meet: one of them is pulled and then, of 2 and 3, one.
    neighbours = joint_exposure([0.5] * 4, "exact", [0, 1, 2, 3])
    np.testing.assert_allclose(neighbours[0], [0.5, 0.0, 0.25, 0.25])
    np.testing.assert_array_equal(joint_exposure([1.0, 0.0, 1.0], "exact"), [[1, 0, 1], [0, 0, 0], [1, 0, 1]])


# --- Draws.


@both_designs
def test_draws_are_fixed_by_the_generator(design: str) -> None:
    merit = [5.0, 2.0, 2.0, 1.0, 0.5]
    draws = [mf.draw(merit, 2, rng=np.random.default_rng(seed), size=200, design=design) for seed in (1, 1, 2)]
    np.testing.assert_array_equal(draws[0], draws[1])
    assert (draws[0] != draws[2]).any()
    rng = np.random.default_rng(1)
    first, second = (mf.draw(merit, 2, rng=rng, size=200, design=design) for _ in range(2))
    np.testing.assert_array_equal(first, draws[0])
    assert (second != first).any()  # the generator has moved on
    assert first.dtype == np.bool_
    assert first.shape == (200, 5)


@both_designs
def test_draws_by_merit_are_draws_of_its_exposures(design: str) -> None:
    merit = [5.0, 2.0, 2.0, 1.0]
    settings: dict[str, Any] = {"floor": 0.3, "cap": [0.9, 1.0, 1.0, 1.0]}
    by_merit = mf.draw(merit, 2, rng=np.random.default_rng(3), size=50, design=design, **settings)
    exposure = mf.fair_exposure(merit, 2, design, **settings)
    np.testing.assert_array_equal(
        by_merit, draw_exposures(exposure, rng=np.random.default_rng(3), size=50, design=design)
    )


@pytest.mark.slow
@both_designs
def test_draws_of_a_million_arms(design: str) -> None:
    merit = np.exp(np.random.default_rng(43).normal(size=1_000_000))
    pulled = mf.draw(merit, 200_000, rng=np.random.default_rng(44), size=2, design=design)
    assert (pulled.sum(axis=1) == 200_000).all()
    exposure = mf.fair_exposure(merit, 200_000, design)
    assert pulled[:, exposure == 1].all()
    for low, high in ((0.0, 0.1), (0.1, 0.3), (0.3, 0.9)):  # in groups, five standard deviations
        group = (exposure > low) & (exposure < high)
        spread = np.sqrt((exposure * (1 - exposure))[group].sum())
        assert (np.abs(pulled[:, group].sum(axis=1) - exposure[group].sum()) < 5 * spread).all()
    assert (pulled[0] != pulled[1]).sum() > 100_000


@both_designs
@pytest.mark.parametrize(
    ("merit", "budget"),
    [
        ([1.0, 1e-17, 1e-17], 1),  # the exposures of the last two are below the rounding of the first
        ([1.0, 1e-15, 1e-15], 1),
        ([1.0, 1.0, 1e-14, 1e-14], 2),
        ([1.0, 1.0, 3e-17, 1e-17], 3),
        ([1.0, 1e-18, 1e-18, 1e-18, 1e-19], 1),
        ([1.0, 1e-16, 1e-100, 1e-300], 1),
        ([1.0, 1.0, 1.0, 1e-13], 3),
        ([1.0, 1 / 3, 1 / 7, 1 / 11, 1 / 13], 2),
    ],
)
def test_as_many_arms_as_the_budget_whatever_rounding_leaves(merit: list[float], budget: int, design: str) -> None:
    pulled = mf.draw(merit, budget, rng=np.random.default_rng(45), size=5000, design=design)
    assert (pulled.sum(axis=1) == budget).all()


@both_designs
@pytest.mark.parametrize(
    "exposure",
    [
        [1 - 1e-12, 0.0, 1.0],
        [1 - 1e-12, 1 - 1e-12, 0.0],
        [1e-12, 1.0, 0.0],
        [1e-12, 1 - 1e-11, 1e-12],
        [*[1e-10] * 5, 1.0],
        [0.3333333333, 0.3333333333, 0.3333333333],
        [0.6666666667, 0.6666666667, 0.6666666667],
    ],
    ids=str,
)
def test_exposures_that_sum_to_a_whole_number_but_for_rounding(exposure: list[float], design: str) -> None:
    pulled = draw_exposures(exposure, rng=np.random.default_rng(46), size=5000, design=design)
    assert (pulled.sum(axis=1) == round(sum(exposure))).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda rng: draw_exposures([0.5, 0.4], rng=rng), r"exposures must sum to a whole number, got 0\.9"),
        (lambda rng: draw_exposures([0.5, 0.5 + 1e-6], rng=rng), "exposures must sum to a whole number, got 1.000001"),
        (lambda rng: draw_exposures([1.5, 0.5], rng=rng), "exposure must hold one probability for each arm"),
        (lambda rng: draw_exposures([-0.5, 0.5, 1.0], rng=rng), "exposure must hold one probability for each arm"),
        (lambda rng: draw_exposures([np.nan, 1.0], rng=rng), "exposure must hold one probability for each arm"),
        (lambda rng: draw_exposures([[0.5, 0.5]], rng=rng), "exposure must hold one probability for each arm"),
        (lambda rng: draw_exposures([], rng=rng), "exposure must hold one probability for each arm"),
        (lambda rng: draw_exposures(["a"], rng=rng), "exposure must be an array of numbers"),
        (
            lambda rng: draw_exposures([0.5, 0.5], rng=rng, design="sequential"),
            "design must be one of exact, systematic",
        ),
        (lambda rng: draw_exposures([0.5, 0.5], rng=rng, design="exat"), "did you mean 'exact'"),
        (lambda rng: draw_exposures([0.5, 0.5], rng=rng, size=0), "size must be at least 1, got 0"),
        (lambda rng: mf.draw([1.0, 2.0], 1, rng=rng, design="best"), "design must be one of sequential, exact"),
        (lambda rng: mf.draw([1.0, 2.0], 1, rng=rng, size=0), "size must be at least 1, got 0"),
        (lambda rng: mf.draw([1.0, 2.0], 1, rng=rng, size=0, design="exact"), "size must be at least 1, got 0"),
        (lambda rng: mf.draw([1.0, 2.0], 3, rng=rng, design="exact"), "budget must be between 1 and the 2 arms, got 3"),
        (lambda rng: mf.draw([[1.0, 2.0]], 1, rng=rng), r"merit must have shape \(N,\), one number for each arm"),
        (lambda rng: mf.draw([[1.0, 2.0]], 1, rng=rng, design="exact"), r"merit must have shape \(N,\)"),
        (
            lambda rng: mf.draw([1.0, 2.0], 1, rng=rng, floor=0.1),
            "floor and cap need the design 'exact' or 'systematic'",
        ),
        (lambda rng: mf.draw([1.0, 2.0], 1, rng=rng, cap=0.9), "floor and cap need the design 'exact' or 'systematic'"),
        (lambda rng: mf.draw([1.0, 2.0], 1, rng=rng, design="exact", floor=0.6), "floors must add up to at most"),
        (lambda rng: joint_exposure([0.5, 0.4]), "exposures must sum to a whole number"),
        (lambda rng: joint_exposure([0.5, 0.5], "sequential"), "design must be one of exact, systematic"),
        (lambda rng: joint_exposure([0.5, 0.5], order=[0, 0]), "order must hold each of the 2 arms once"),
        (lambda rng: joint_exposure([0.5, 0.5], order=[1, 2]), "order must hold each of the 2 arms once"),
        (lambda rng: joint_exposure([0.5, 0.5], order=[0]), "order must hold each of the 2 arms once"),
        (lambda rng: joint_exposure(np.full(10, 0.5)), "order must be given for more than 8 arms, got 10 arms"),
    ],
)
def test_mistakes_are_named(call: Callable[[np.random.Generator], Any], message: str) -> None:
    with pytest.raises(mf.InputError, match=message):
        call(np.random.default_rng(1))
