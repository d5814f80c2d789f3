from __future__ import annotations

import contextlib
import io
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest

import meritfair as mf
from meritfair.model.whittle import largest_whittle_index, pull_advantage, whittle_index
from reference import whittle as reference

with np.errstate():  # it sets NumPy's errors for everyone when it is loaded
    import markovianbandit

EPS = np.finfo(float).eps


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(31)


def random_arms(rng: np.random.Generator, n: int, ends: int = 0) -> Any:
    """Return n arms of uniform chances, the first few of them of chances that are often 0, 1 or equal."""
    P = rng.random((n, 2, 2))
    P[:ends] = rng.choice([0.0, 0.2, 0.5, 1.0], (ends, 2, 2))
    return P


def gains(P: Any) -> Any:
    return P[..., 1] - P[..., 0]


def mixing(P: Any) -> Any:
    """Return 1 - k for every choice of the action in each state, shape (..., 4); 0 where two states last for ever."""
    return np.stack([1 - P[..., 1, a] + P[..., 0, b] for a in (0, 1) for b in (0, 1)], axis=-1)


@pytest.mark.parametrize("discount", [0.0, 0.5, 0.9, 0.99])
def test_index_is_the_subsidy_at_which_both_actions_are_worth_the_same(
    discount: float, rng: np.random.Generator
) -> None:
    P = random_arms(rng, 1000, ends=300)
    d = gains(P)
    assert (d[:, 0] > d[:, 1]).sum() > 300  # the state to be pulled first is the bad one, or the good one
    assert (d[:, 0] < d[:, 1]).sum() > 300
    assert (d < 0).all(axis=1).sum() > 150  # and pulling may harm
    bound = 1 / (1 - discount) + 1
    expected = reference.whittle_index(P, discount, reference.advantage_by_policies, bound)
    np.testing.assert_allclose(whittle_index(P, discount), expected, rtol=0, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(("discount", "bound"), [(0.5, 3.0), (0.9, 10.0)])
def test_index_by_value_iteration(discount: float, bound: float, rng: np.random.Generator) -> None:
    P = random_arms(rng, 300, ends=90)
    expected = reference.whittle_index(P, discount, reference.advantage_by_value_iteration, bound, halvings=40)
    np.testing.assert_allclose(whittle_index(P, discount), expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("discount", [0.5, 0.9, 0.99])
def test_the_two_references_agree(discount: float, rng: np.random.Generator) -> None:
    P, subsidy = random_arms(rng, 1000, ends=300), rng.normal(0, 1, 1000)
    np.testing.assert_allclose(
        reference.advantage_by_policies(P, subsidy, discount),
        reference.advantage_by_value_iteration(P, subsidy, discount),
        atol=1e-9,
    )


def test_index_of_the_average_reward(rng: np.random.Generator) -> None:
    P = random_arms(rng, 1500, ends=600)
    P = P[(mixing(P) > 0).all(axis=1)][:1000]  # with one steady state under every policy
    assert len(P) == 1000
    expected = reference.whittle_index(P, 1.0, reference.advantage_by_policies, 1000.0, halvings=60)
    np.testing.assert_allclose(whittle_index(P), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("discount", [0.5, 0.9, 0.99, 1.0])
def test_index_is_that_of_another_package(discount: float, rng: np.random.Generator) -> None:
    """markovianbandit-pkg computes indices for any number of states; with a discount of 1 it needs one steady state."""
    P = random_arms(rng, 150, ends=50)
    P = P if discount < 1 else P[(mixing(P) > 0).all(axis=1)]
    assert len(P) > 110
    reward, found = np.array([0.0, 1.0]), []
    for arm in P:
        rows = np.stack([1 - arm, arm], axis=-1)
        other = markovianbandit.restless_bandit_from_P0P1_R0R1(rows[:, 0], rows[:, 1], reward, reward)
        with contextlib.redirect_stdout(io.StringIO()):
            found.append(other.whittle_indices(discount=discount))
        assert other.is_indexable(discount=discount)
    np.testing.assert_allclose(whittle_index(P, discount), found, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("discount", [0.25, 0.875, 1.0])
def test_index_is_accurate_to_the_last_digits(discount: float, rng: np.random.Generator) -> None:
    """Held against the formula by cases, in fractions: hi is the state with the larger gain, if equal the good one."""
    P = random_arms(rng, 300, ends=50)
    P[50:150] **= 12  # many near 0
    P[100:150] = 1 - P[100:150]
    P = P[(mixing(P) > 0).all(axis=1)]
    beta = Fraction(discount)
    for arm, found in zip(P, whittle_index(P, discount), strict=True):
        p = [[Fraction(float(x)) for x in row] for row in arm]
        d = [p[s][1] - p[s][0] for s in (0, 1)]
        hi = 0 if d[0] > d[1] else 1
        expected = [Fraction(0)] * 2
        expected[hi] = beta * d[hi] / (1 - beta * (p[1][0] - p[0][0]))
        expected[1 - hi] = beta * d[1 - hi] / (1 - beta * (p[1][1] - p[0][1]))
        np.testing.assert_allclose(found, [float(x) for x in expected], rtol=2e-15, atol=0)


def test_infinite_indices_are_large_and_keep_their_order(rng: np.random.Generator) -> None:
    stays = [[[0.0, 0.3], [1.0, 0.4]], [[0.0, 0.6], [1.0, 1.0]]]  # only a pull leads out of the bad state
    held = [[[0.3, 0.0], [0.4, 1.0]], [[0.6, 0.0], [0.2, 1.0]]]  # a pull keeps the bad state for ever
    fixed = [[0.0, 0.0], [1.0, 1.0]]  # nothing does anything
    index = whittle_index([*stays, *held, fixed])
    assert np.isfinite(index).all()
    np.testing.assert_allclose(index[:, 0], np.array([0.3, 0.6, -0.3, -0.6, 0.0]) / EPS)
    np.testing.assert_allclose(index[:, 1], [-0.6 / 0.9, 0.0, 0.6 / 0.9, 0.8 / 1.4, 0.0])
    nearly = whittle_index([*stays, *held, fixed], 1 - 1e-9)
    np.testing.assert_allclose(nearly[:, 0] * 1e-9, [0.3, 0.6, -0.3, -0.6, 0.0], rtol=1e-6)
    np.testing.assert_allclose(nearly[:, 1], index[:, 1], rtol=1e-6, atol=1e-9)
    assert np.abs(whittle_index(np.clip(random_arms(rng, 500), 1e-9, 1 - 1e-9))).max() < index[0, 0]


def test_average_reward_is_the_limit_where_a_policy_has_two_steady_states() -> None:
    P = np.array(list(product([0.0, 0.3, 0.7, 1.0], repeat=4))).reshape(-1, 2, 2)
    P = P[(mixing(P) == 0).any(axis=1) & (mixing(P)[:, [0, 3]] > 0).all(axis=1)]
    assert len(P) > 10
    np.testing.assert_allclose(whittle_index(P), whittle_index(P, 1 - 1e-10), atol=1e-8)
    np.testing.assert_array_equal(whittle_index([[0.0, 0.2], [0.0, 1.0]]), [1.0, 1.0])


@pytest.mark.parametrize("discount", [0.3, 0.95, 1.0])
def test_properties_of_the_index(discount: float, rng: np.random.Generator) -> None:
    P = random_arms(rng, 500, ends=200)
    index = whittle_index(P, discount)
    assert index.shape == (500, 2)
    order = rng.permutation(500)
    np.testing.assert_array_equal(whittle_index(P[order], discount), index[order])
    np.testing.assert_array_equal(whittle_index(P[..., ::-1], discount), -index)  # a subsidy for the other action
    np.testing.assert_array_equal(np.sign(index), np.sign(gains(P)))
    idle = np.repeat(P[..., :1], 2, axis=-1)
    np.testing.assert_array_equal(whittle_index(idle, discount), 0.0)
    forgetful = np.repeat(P[:, :1], 2, axis=1)  # the next state does not depend on this one
    np.testing.assert_allclose(whittle_index(forgetful, discount), discount * gains(forgetful), rtol=1e-14)
    alike = P[:, :, :1] * 0.6 + np.array([0.0, 0.3])  # pulling gains the same in both states
    same = whittle_index(alike, discount)
    np.testing.assert_allclose(same[:, 0], same[:, 1], rtol=1e-13)
    stacked = whittle_index(P.reshape(5, 4, 25, 2, 2), discount)
    np.testing.assert_array_equal(stacked.reshape(500, 2), index)
    np.testing.assert_array_equal(whittle_index(P[7], discount), index[7])


def test_without_a_future_no_pull_pays(rng: np.random.Generator) -> None:
    np.testing.assert_array_equal(whittle_index(random_arms(rng, 9), 0.0), 0.0)


def random_boxes(rng: np.random.Generator, n: int) -> tuple[Any, Any]:
    """Return the ends of n boxes: wide, narrow, and without width, some reaching 0 and 1."""
    width = rng.choice([0.0, 0.05, 0.3, 2.0], (n, 1, 1)) * rng.random((n, 2, 2))
    middle = rng.random((n, 2, 2))
    return np.clip(middle - width, 0, 1), np.clip(middle + width, 0, 1)


@pytest.mark.parametrize("discount", [0.5, 0.9, 1.0])
def test_the_largest_index_of_a_box_is_found_by_no_grid(discount: float, rng: np.random.Generator) -> None:
    lower, upper = random_boxes(rng, 200)
    lower[:20], upper[:20] = np.clip(lower[:20], 1e-3, None), np.clip(upper[:20], None, 1 - 1e-3)
    found = largest_whittle_index(lower, upper, discount)
    steps = np.array(list(product(np.linspace(0, 1, 7), repeat=4))).reshape(-1, 1, 2, 2)
    on_grid = whittle_index(np.clip(lower + steps * (upper - lower), lower, upper), discount).max(axis=0)
    ends = np.array(list(product([0, 1], repeat=4))).reshape(-1, 1, 2, 2)
    at_corners = whittle_index(np.where(ends, upper, lower), discount).max(axis=0)
    np.testing.assert_allclose(found, at_corners, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(found, on_grid, rtol=1e-12, atol=1e-12)  # the grid holds the corners
    inside = lower + rng.random((500, 200, 2, 2)) * (upper - lower)
    assert (whittle_index(inside, discount).max(axis=0) <= found + 1e-12 * np.abs(found)).all()


def test_where_no_pull_can_help_the_corner_is_another_one() -> None:
    lower, upper = np.array([[0.6, 0.1], [0.7, 0.2]]), np.array([[0.8, 0.3], [0.9, 0.4]])
    found = largest_whittle_index(lower, upper, 0.9)
    hopeful = whittle_index([[0.6, 0.3], [0.9, 0.4]], 0.9)[0], whittle_index([[0.6, 0.1], [0.7, 0.4]], 0.9)[1]
    assert (found > np.array(hopeful) + 0.01).all()
    expected = whittle_index([[0.6, 0.3], [0.7, 0.2]], 0.9)[0], whittle_index([[0.8, 0.3], [0.7, 0.4]], 0.9)[1]
    np.testing.assert_array_equal(found, expected)


def test_a_box_without_width_has_the_index_of_its_point(rng: np.random.Generator) -> None:
    P = random_arms(rng, 50, ends=20)
    np.testing.assert_array_equal(largest_whittle_index(P, P, 0.9), whittle_index(P, 0.9))


def test_an_arm_is_worth_most_at_the_upper_ends(rng: np.random.Generator) -> None:
    """Whatever the start and the subsidy: this is what the bound ``value`` of UCWhittle relies on."""
    lower, upper = random_boxes(rng, 100)
    subsidy = rng.normal(0, 1, 100)
    best = reference.values_by_iteration(upper, subsidy, 0.9)
    assert (best[:, 1] > best[:, 0]).all()
    for ends in product([False, True], repeat=4):
        corner = np.where(np.reshape(ends, (2, 2)), upper, lower)
        assert (reference.values_by_iteration(corner, subsidy, 0.9) <= best + 1e-11).all()


@pytest.mark.parametrize("discount", [0.5, 0.9, 0.99])
def test_advantage_is_what_value_iteration_converges_to(discount: float, rng: np.random.Generator) -> None:
    P = random_arms(rng, 1000, ends=300)
    expected = reference.advantage_by_value_iteration(P, np.zeros(1000), discount)
    np.testing.assert_allclose(pull_advantage(P, discount), expected, rtol=0, atol=1e-10)


def test_advantage_of_the_average_reward(rng: np.random.Generator) -> None:
    P = random_arms(rng, 1000, ends=300)
    P = P[(mixing(P) > 0).all(axis=1)]
    expected = reference.advantage_by_policies(P, np.zeros(len(P)), 1.0)
    np.testing.assert_allclose(pull_advantage(P, 1.0), expected, atol=1e-10)
    for_ever = pull_advantage([[0.0, 0.0], [0.5, 1.0]], 1.0)  # if pulled, good for ever; if not, some day bad for ever
    np.testing.assert_allclose(for_ever, [0.0, 0.5 / EPS])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: whittle_index([0.1, 0.2]), r"transitions must have shape \(\.\.\., 2, 2\) by state and action"),
        (lambda: whittle_index([[0.1, 0.2], [0.3, 1.5]]), r"transitions must lie between 0 and 1, got 1\.5"),
        (lambda: whittle_index([[0.1, np.nan], [0.3, 0.5]]), "transitions must lie between 0 and 1, got nan"),
        (lambda: whittle_index("a"), "transitions must be an array of numbers"),
        (lambda: whittle_index([[0.1, 0.2], [0.3, 0.5]], 1.1), r"discount must lie between 0 and 1, got 1\.1"),
        (lambda: pull_advantage([[0.1, 0.2], [0.3, 0.5]], -0.1), r"discount must lie between 0 and 1, got -0\.1"),
        (lambda: pull_advantage([[0.1, 0.2], [-0.3, 0.5]]), r"transitions must lie between 0 and 1, got -0\.3"),
        (
            lambda: largest_whittle_index(np.zeros((3, 2, 2)), np.ones((2, 2))),
            r"one shape, got \(3, 2, 2\) and \(2, 2\)",
        ),
        (
            lambda: largest_whittle_index(np.full((2, 2), 0.6), np.full((2, 2), 0.5)),
            r"lower must be at most upper, got 0\.6 and 0\.5",
        ),
        (
            lambda: largest_whittle_index(np.zeros((2, 2)), np.full((2, 2), 2.0)),
            "upper must lie between 0 and 1, got 2",
        ),
    ],
)
def test_mistakes_are_named(call: Any, message: str) -> None:
    with pytest.raises(mf.InputError, match=message):
        call()
