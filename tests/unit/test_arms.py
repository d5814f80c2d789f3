from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import meritfair as mf

GOOD = [[[0.2, 0.6], [0.5, 0.9]], [[0.3, 0.4], [0.7, 0.8]]]


def test_four_axes_mean_the_same_as_three() -> None:
    three = np.array(GOOD)
    four = np.stack([1 - three, three], axis=-1)
    assert mf.Arms(four) == mf.Arms(three)


def test_epsilon_is_the_distance_from_certainty_and_clip_sets_it() -> None:
    arms = mf.Arms([[[0.005, 0.6], [0.5, 1.0]]], names=["Ada"])
    assert arms.epsilon == 0.0
    clipped = arms.clip(0.01)
    assert clipped.epsilon == pytest.approx(0.01)
    assert clipped.names == ("Ada",)
    np.testing.assert_array_equal(clipped.transitions, [[[0.01, 0.6], [0.5, 0.99]]])


def test_arms_are_frozen_and_do_not_share_the_callers_array() -> None:
    mine = np.array(GOOD)
    arms = mf.Arms(mine)
    mine[0, 0, 0] = 0.99
    assert arms.transitions[0, 0, 0] == 0.2
    with pytest.raises(ValueError, match="read-only"):
        arms.transitions[0, 0, 0] = 0.5
    with pytest.raises(ValueError, match="read-only"):
        arms.benefit[0] = 0.5
    with pytest.raises(AttributeError):
        arms.names = ("x",)  # type: ignore[misc]


def test_equal_arms_have_equal_hashes() -> None:
    assert mf.Arms(GOOD) == mf.Arms(GOOD)
    assert hash(mf.Arms(GOOD)) == hash(mf.Arms(GOOD))
    assert mf.Arms(GOOD) != mf.Arms(GOOD, names=["a", "b"])
    assert mf.Arms(GOOD) != "arms"


@pytest.mark.parametrize(
    ("transitions", "message"),
    [
        (
            [[[0.2, 0.6], [0.5, -0.1]]],
            r"arm 0 \('arm-1'\) in state 1 under action 1 must lie between 0 and 1, got -0.1",
        ),
        ([[[0.2, 0.6], [1.2, 0.1]]], r"state 1 under action 0 must lie between 0 and 1, got 1.2"),
        ([[[0.2, float("nan")], [0.5, 0.1]]], r"state 0 under action 1 must lie between 0 and 1, got nan"),
        ([[[0.2, float("inf")], [0.5, 0.1]]], "got inf"),
        ([[0.2, 0.6], [0.5, 0.1]], r"shape \(N, 2, 2\) or \(N, 2, 2, 2\), got \(2, 2\)"),
        (np.zeros((3, 3, 2)), r"got \(3, 3, 2\)"),
        (np.zeros((0, 2, 2)), "at least one arm"),
        (np.full((1, 2, 2, 2), 0.4), r"arm 0 in state 0 under action 0 must sum to 1, got 0.4 \+ 0.4 = 0.8"),
        ("many", "array of numbers"),
        ([[[0.2, 0.6], [0.5]]], "array of numbers"),
    ],
)
def test_bad_transitions_are_refused_with_arm_and_value(transitions: Any, message: str) -> None:
    with pytest.raises(mf.InputError, match=message):
        mf.Arms(transitions)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["a"], "one name for each of the 2 arms, got 1"),
        (["a", "a"], "arms 0 and 1 have the same name, 'a'"),
        (["a", " "], "the name of arm 1 must be text, got ' '"),
        ([1, 2], "the name of arm 0 must be text, got 1"),
    ],
)
def test_bad_names_are_refused(names: Any, message: str) -> None:
    with pytest.raises(mf.InputError, match=message):
        mf.Arms(GOOD, names)


@pytest.mark.parametrize("epsilon", [-0.1, 0.6, float("nan"), "a"])
def test_clip_refuses_what_is_not_a_distance(epsilon: Any) -> None:
    with pytest.raises(mf.InputError, match="epsilon"):
        mf.Arms(GOOD).clip(epsilon)
