from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import meritfair as mf
from meritfair.model.benefit import benefit_gradient
from reference import plain

RNG = np.random.default_rng(20240506)


def test_steady_state_solves_the_chain() -> None:
    P = RNG.random((200, 2, 2))
    for p in (0.0, 0.3, 1.0):
        expected = [plain.steady_state(arm, p) for arm in P]
        np.testing.assert_allclose(mf.steady_state(P, p), expected, atol=1e-12)


def test_steady_state_takes_one_probability_for_each_arm() -> None:
    P, p = RNG.random((4, 2, 2)), np.array([0.0, 0.2, 0.7, 1.0])
    each = [float(mf.steady_state(arm, chance)) for arm, chance in zip(P, p, strict=True)]
    np.testing.assert_array_equal(mf.steady_state(P, p), each)


def test_any_leading_shape_works() -> None:
    P = RNG.random((3, 5, 2, 2))
    assert mf.benefit(P).shape == (3, 5)
    np.testing.assert_array_equal(mf.benefit(P)[1], mf.benefit(P[1]))
    assert mf.benefit(P[0, 0]).shape == ()


def test_benefit_is_the_long_run_gain_of_a_simulated_chain() -> None:
    P = np.array([[0.2, 0.6], [0.5, 0.9]])
    rng = np.random.default_rng(5)
    share = []
    for action in (1, 0):
        states = np.zeros(20_000, dtype=bool)
        for _ in range(100):
            states = rng.random(20_000) < np.where(states, P[1, action], P[0, action])
        share.append(states.mean())
    assert float(mf.benefit(P)) == pytest.approx(share[0] - share[1], abs=5 * np.sqrt(0.5 / 20_000))


def test_gradient_agrees_with_differences() -> None:
    P = RNG.uniform(0.05, 0.95, (20, 2, 2))
    gradient = benefit_gradient(P)
    for s in (0, 1):
        for a in (0, 1):
            step = np.zeros((2, 2))
            step[s, a] = 1e-6
            difference = (mf.benefit(P + step) - mf.benefit(P - step)) / 2e-6
            np.testing.assert_allclose(gradient[:, s, a], difference, rtol=1e-6, atol=1e-8)


def test_absorbing_arm_is_named() -> None:
    arms = mf.Arms([[[0.2, 0.6], [0.5, 0.9]], [[0.0, 0.6], [1.0, 0.9]]], names=["Ada", "Bo"])
    with pytest.raises(mf.InputError, match=r"arm 1 \('Bo'\) has no steady state.*arms.clip"):
        _ = arms.benefit
    with pytest.raises(mf.InputError, match="arm 1 has no steady state"):
        mf.steady_state(arms.transitions, 0.0)
    assert np.isfinite(mf.steady_state(arms.transitions, 0.5)).all()
    assert np.isfinite(arms.clip(0.01).benefit).all()


def test_an_absorbing_arm_is_found_behind_leading_axes_too() -> None:
    P = np.full((2, 3, 2, 2), 0.5)
    P[1, 2] = [[0.0, 0.5], [1.0, 0.5]]
    with pytest.raises(mf.InputError, match="arm 2 has no steady state"):
        mf.benefit(P)


@pytest.mark.parametrize("p", [-0.1, 1.1, float("nan"), [0.5, 2.0]])
def test_pull_probability_outside_0_1_is_refused(p: Any) -> None:
    with pytest.raises(mf.InputError, match="pull_probability must lie between 0 and 1"):
        mf.steady_state(RNG.random((2, 2, 2)), p)


def test_wrong_shape_is_refused() -> None:
    with pytest.raises(mf.InputError, match=r"shape \(\.\.\., 2, 2\)"):
        mf.benefit([0.5, 0.5])
