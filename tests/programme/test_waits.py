"""Waits between draws, against all rows of draws that there are."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from meritfair import InputError
from meritfair.core.arrays import FloatArray
from meritfair.programme.showing.waits import (
    RowLayout,
    Wait,
    allowing_for,
    probabilities_of_waits,
    probability_of_wait,
    running_waits,
    wait_of,
)


def longest(drawn: tuple[int, ...]) -> int:
    return max(map(len, "".join("x" if hit else "." for hit in drawn).split("x")))


def by_enumeration(chances: FloatArray, length: int) -> float:
    """Sum the probability of every row of draws with a wait of this length or more."""
    rows = (row for row in product((0, 1), repeat=len(chances)) if longest(row) >= length)
    return float(sum(np.prod(np.where(np.array(row) == 1, chances, 1 - chances)) for row in rows))


@pytest.mark.parametrize("rounds", [1, 2, 5, 9])
def test_probabilities_are_those_of_all_rows_of_draws(rounds: int) -> None:
    rng = np.random.default_rng(rounds)
    for chances in (rng.random(rounds), rng.choice([0.0, 0.3, 1.0], rounds), np.zeros(rounds), np.ones(rounds)):
        for length in range(rounds + 2):
            assert probability_of_wait(chances, length) == pytest.approx(by_enumeration(chances, length), abs=1e-14)


def test_tiny_probabilities_keep_their_digits() -> None:
    assert probability_of_wait(np.full(200, 0.5), 200) == 2.0**-200
    # 201 rounds: the wait may begin in the first round or, after a draw, in the second
    assert probability_of_wait(np.full(201, 0.5), 200) == pytest.approx(1.5 * 2.0**-200, rel=1e-12)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30))
def test_longer_waits_are_less_likely(chances: list[float]) -> None:
    found = [probability_of_wait(chances, length) for length in range(len(chances) + 2)]
    assert found[0] == 1.0
    assert found[-1] == 0.0
    assert all(0 <= later <= earlier + 1e-12 <= 1 + 1e-12 for earlier, later in pairwise(found))


def test_many_people_at_once_are_as_one_by_one() -> None:
    rng = np.random.default_rng(1)
    sizes = rng.integers(1, 12, 50)
    alone = [rng.random(size) for size in sizes]
    who = np.repeat(np.arange(50), sizes)
    layout = RowLayout(who)
    people, chances = layout.who, layout.rows(np.concatenate(alone), 1.0)
    assert people.tolist() == list(range(50))
    lengths = rng.integers(0, 12, 50)
    found = probabilities_of_waits(chances, lengths)
    expected = [probability_of_wait(each, int(length)) for each, length in zip(alone, lengths, strict=True)]
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_the_longest_wait_and_the_one_that_lasts() -> None:
    chances = [0.5, 0.2, 0.4, 0.1, 0.25]
    found = wait_of([3, 4, 6, 7, 8], chances, [0, 0, 1, 0, 0])  # not enrolled in round 5
    assert (found.longest, found.first, found.last, found.waiting) == (2, 3, 4, 2)  # the first of two
    assert found.probability == pytest.approx(by_enumeration(np.array(chances), 2))
    assert found.waiting_probability == pytest.approx(0.9 * 0.75)
    assert found.to_dict()["longest"] == 2


@pytest.mark.parametrize(
    ("chances", "drawn", "expected"),
    [
        ([], [], Wait(0, None, None, 1.0, 0, 1.0)),
        ([0.5], [1], Wait(0, None, None, 1.0, 0, 1.0)),
        ([0.5, 0.5], [0, 0], Wait(2, 1, 2, 0.25, 2, 0.25)),
        ([0.0, 0.0], [0, 0], Wait(2, 1, 2, 1.0, 2, 1.0)),
        ([0.5, 0.5], [0, 1], Wait(1, 1, 1, 0.75, 0, 1.0)),
    ],
)
def test_waits_of_few_rounds(chances: list[float], drawn: list[int], expected: Wait) -> None:
    assert wait_of(range(1, len(drawn) + 1), chances, drawn) == expected


def test_running_waits_begin_anew_after_each_draw() -> None:
    drawn = np.array([[0, 0, 1, 0], [1, 1, 0, 0]], np.bool_)
    assert running_waits(drawn).tolist() == [[1, 2, 0, 1], [0, 0, 1, 2]]


def test_somebody_of_many_waits_long() -> None:
    assert allowing_for(0.001, 20) == pytest.approx(0.02)
    assert allowing_for(0.1, 300) == 1.0


def test_rows_that_do_not_fit_are_refused() -> None:
    with pytest.raises(InputError, match="must be lists of the same length"):
        wait_of([1, 2], [0.5], [0])
    with pytest.raises(InputError, match="chances"):
        probability_of_wait([0.5, 1.5], 1)
    with pytest.raises(InputError, match="length must be"):
        probability_of_wait([0.5], -1)
