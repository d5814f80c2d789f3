"""The best time of a pull: against the linear programme, the compiled twin, and cases known by hand."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import linprog

import meritfair as mf
from meritfair.core.arrays import AnyArray, FloatArray
from meritfair.engine.timing import set_state_exposure
from meritfair.model.fluid import arm_worth
from reference.compiled import kernel_of_tests

EXACT = 1e-9


@kernel_of_tests
def compiled(point: FloatArray, exposure: FloatArray, out: FloatArray) -> None:
    set_state_exposure(point, exposure, out)


def some_arms(seed: int, n_arms: int, degenerate: float = 0.3) -> tuple[FloatArray, FloatArray]:
    """Return arms and exposures of which that part of the numbers is 0 or 1."""
    rng = np.random.default_rng(seed)
    P, e = rng.random((n_arms, 2, 2)), rng.random(n_arms)
    for numbers in (P, e):
        ends = rng.random(numbers.shape) < degenerate
        numbers[ends] = rng.integers(0, 2, numbers.shape)[ends]
    tied = rng.random(n_arms) < 0.1
    P[tied, 1] = P[tied, 0]
    return P, e


def constraints(P: FloatArray, e: float) -> tuple[FloatArray, FloatArray]:
    """Return A and b of A x = b for stationary frequencies x of (state, action): 00, 01, 10, 11."""
    leaves, enters = [-P[0, 0], -P[0, 1]], [1 - P[1, 0], 1 - P[1, 1]]
    return np.array([[1.0, 1, 1, 1], [0, 1, 0, 1], [*leaves, *enters]]), np.array([1.0, e, 0.0])


def largest_share(P: FloatArray, e: FloatArray) -> FloatArray:
    """Return the optimum of the linear programme of each arm, which is one of its at most four vertices."""
    systems = [constraints(arm, each) for arm, each in zip(P, e, strict=True)]
    A, b = np.array([each[0] for each in systems]), np.array([each[1] for each in systems])
    best = np.full(len(e), -np.inf)
    for without in range(4):  # a basic solution: one frequency is 0
        x = np.zeros((len(e), 4))
        square = np.delete(A, without, axis=2)
        regular = np.abs(np.linalg.det(square)) > 1e-14
        solved = np.linalg.solve(square[regular], b[regular][..., None])[..., 0]
        x[np.ix_(regular, np.delete(np.arange(4), without))] = solved
        feasible = regular & (x > -1e-12).all(axis=1)
        best = np.where(feasible, np.maximum(best, x[:, 2] + x[:, 3]), best)
    return best


def ergodic(P: FloatArray, phi: FloatArray) -> AnyArray:
    """Return which arms leave one of their states under these chances."""
    moves = (1 - phi) * P[..., 0] + phi * P[..., 1]
    stays = (1 - phi) * (1 - P[..., 0]) + phi * (1 - P[..., 1])
    return np.asarray(moves[:, 0] + stays[:, 1] > 0)


def test_the_best_share_is_the_linear_programmes() -> None:
    P, e = some_arms(1, 10_000)
    expected = largest_share(P, e)
    solved = np.isfinite(expected)
    assert solved.mean() > 0.9  # the others never move under some action: by linprog, below
    assert_allclose(mf.best_good_share(P, e)[solved], expected[solved], atol=EXACT, rtol=0)


def test_the_best_share_is_the_linear_programmes_also_where_arms_stay_for_ever() -> None:
    P, e = some_arms(2, 600, degenerate=0.7)
    for arm, each in zip(P, e, strict=True):
        A, b = constraints(arm, each)
        programme = linprog([0.0, 0.0, -1.0, -1.0], A_eq=A, b_eq=b)
        assert float(mf.best_good_share(arm, each)) == pytest.approx(-programme.fun, abs=EXACT), (arm, each)


@pytest.mark.parametrize("degenerate", [0.0, 0.3, 0.6])
def test_the_chances_by_state_reach_it_with_the_given_exposure(degenerate: float) -> None:
    P, e = some_arms(3, 10_000, degenerate)
    phi = mf.state_exposure(P, e)
    assert ((phi >= 0) & (phi <= 1)).all()
    regular = ergodic(P, phi)
    assert regular.mean() > 0.7
    share = mf.good_share(P[regular], phi[regular])
    assert_allclose((1 - share) * phi[regular, 0] + share * phi[regular, 1], e[regular], atol=EXACT, rtol=0)
    assert_allclose(share, mf.best_good_share(P, e)[regular], atol=EXACT, rtol=0)


def test_chances_that_are_not_ergodic_reach_it_from_some_start() -> None:
    P, e = some_arms(4, 10_000, 0.6)
    phi = mf.state_exposure(P, e)
    stuck = ~ergodic(P, phi) & (phi[:, 0] != phi[:, 1])
    assert stuck.sum() > 100
    assert_array_equal(phi[stuck].sum(axis=1), 1.0)  # (1, 0) or (0, 1)
    share = np.where(phi[stuck, 1] == 1, e[stuck], 1 - e[stuck])  # of the good state, for a pull rate of e
    assert_allclose(mf.best_good_share(P, e)[stuck], share, atol=EXACT, rtol=0)


def test_the_best_share_is_what_pulls_are_worth() -> None:
    P, e = some_arms(5, 2_000, degenerate=0.0)
    assert_allclose(mf.best_good_share(P, e), arm_worth(P).at(e), atol=EXACT, rtol=0)


def test_the_compiled_twin_agrees() -> None:
    P, e = some_arms(6, 20_000)
    out = np.empty((len(e), 2))
    compiled(np.ascontiguousarray(P.transpose(1, 2, 0)), e, out)
    assert_allclose(out, mf.state_exposure(P, e), atol=1e-12, rtol=0)


def test_pulls_go_to_the_state_where_they_move_the_next_state_most() -> None:
    bad_first = [[0.1, 0.9], [0.7, 0.8]]
    good_first = [[0.3, 0.4], [0.1, 0.9]]
    assert mf.state_exposure(bad_first, 0.1)[1] == mf.state_exposure(good_first, 0.1)[0] == 0.0
    assert mf.state_exposure(bad_first, 0.9)[0] == mf.state_exposure(good_first, 0.9)[1] == 1.0
    harmful = [[0.9, 0.1], [0.9, 0.8]]  # a pull harms less in the good state
    assert mf.state_exposure(harmful, 0.1)[0] == 0.0


def test_pulling_and_not_pulling_can_change_places() -> None:
    P, e = some_arms(7, 1_000, degenerate=0.0)
    swapped = P[..., ::-1]  # to pull this arm is not to pull the other, so it is pulled 1 - e of the time
    assert_allclose(mf.state_exposure(swapped, 1 - e), 1 - mf.state_exposure(P, e), atol=EXACT, rtol=0)


@pytest.mark.parametrize("e", [0.0, 0.25, 1.0])
def test_where_the_state_makes_no_difference_pulls_are_blind(e: float) -> None:
    for arm in ([[0.2, 0.6], [0.5, 0.9]], [[0.3, 0.3], [0.7, 0.7]], [[0.0, 0.0], [1.0, 1.0]], [[0.3, 0.8], [0.3, 0.8]]):
        assert_array_equal(mf.state_exposure(arm, e), [e, e])


def test_nothing_and_everything_do_not_depend_on_the_state() -> None:
    P, _ = some_arms(8, 2_000)
    assert (mf.state_exposure(P, 0.0) == 0.0).all()
    assert (mf.state_exposure(P, 1.0) == 1.0).all()


@pytest.mark.parametrize(
    ("arm", "e", "chances", "share"),
    [
        ([[0.0, 0.5], [1.0, 1.0]], 0.3, (1.0, 0.3), 1.0),  # good for ever, once it is: bad is never visited
        ([[0.0, 0.0], [0.2, 0.7]], 0.3, (0.3, 1.0), 0.0),  # bad for ever
        ([[0.0, 0.0], [0.0, 1.0]], 0.3, (0.0, 1.0), 0.3),  # good for as long as it is pulled, bad for ever afterwards
        ([[0.0, 1.0], [0.0, 1.0]], 0.3, (0.3, 0.3), 0.3),  # good if it was pulled
        ([[0.0, 1.0], [0.0, 0.0]], 0.5, (1.0, 0.0), 0.5),  # pulled at every second step: good after each pull
        ([[0.0, 1.0], [0.0, 0.0]], 0.6, (1.0, 0.2), 0.5),  # one pull in ten steps is of no use
    ],
)
def test_arms_known_by_hand(arm: list[list[float]], e: float, chances: tuple[float, float], share: float) -> None:
    assert_allclose(mf.state_exposure(arm, e), chances, atol=1e-12)
    assert float(mf.best_good_share(arm, e)) == pytest.approx(share, abs=1e-12)


def test_leading_axes_broadcast() -> None:
    P, _ = some_arms(9, 12)
    P = P.reshape(3, 4, 2, 2)
    e = np.linspace(0, 1, 20).reshape(5, 1, 4)
    phi = mf.state_exposure(P, e)
    assert phi.shape == (5, 3, 4, 2)
    assert_array_equal(phi[2, 1], mf.state_exposure(P[1], e[2, 0]))
    assert mf.best_good_share(P, e).shape == (5, 3, 4)
    assert mf.state_exposure(P[0, 0], 0.5).shape == (2,)


def test_bad_input_is_refused() -> None:
    arms = np.full((3, 2, 2), 0.5)
    with pytest.raises(mf.InputError, match=r"exposure must lie between 0 and 1, got 1\.5"):
        mf.state_exposure(arms, 1.5)
    with pytest.raises(mf.InputError, match="exposure must lie between 0 and 1, got nan"):
        mf.state_exposure(arms, np.nan)
    with pytest.raises(mf.InputError, match=r"exposure must be one number or one for each arm, got shape \(2,\)"):
        mf.best_good_share(arms, [0.1, 0.2])
    with pytest.raises(mf.InputError, match=r"transitions must have shape \(\.\.\., 2, 2\)"):
        mf.state_exposure(np.zeros((3, 2)), 0.5)
    with pytest.raises(mf.InputError, match=r"transitions must lie between 0 and 1, got -0\.1"):
        mf.good_share(arms - 0.6, [0.5, 0.5])
    with pytest.raises(mf.InputError, match=r"by_state must have shape \(\.\.\., 2\)"):
        mf.good_share(arms, 0.5)
    with pytest.raises(mf.InputError, match="by_state must let arm 1 leave one of its states"):
        mf.good_share([arms[0], [[0.0, 0.3], [0.8, 1.0]]], [0.0, 1.0])
