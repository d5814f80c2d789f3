from __future__ import annotations

import hashlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from meritfair import InputError
from meritfair.programme.ledger.lottery import ONE, Stream, draw_once, whole_chances


def seed(number: int) -> bytes:
    return hashlib.sha256(number.to_bytes(8, "big")).digest()


@given(st.lists(st.floats(0, 1), min_size=1, max_size=40), st.integers(0, 10**6))
def test_chances_sum_exactly_and_exactly_that_many_are_drawn(numbers: list[float], number: int) -> None:
    x = np.array(numbers)
    total = round(x.sum())
    room = 1 - x if total > x.sum() else x
    if room.sum() > 0:
        x = np.clip(x + room * (total - x.sum()) / room.sum(), 0, 1)
    if abs(x.sum() - total) > 1e-9:
        return
    chances = whole_chances(x, total)
    assert chances.sum() == total * ONE
    assert chances.min() >= 0
    assert chances.max() <= ONE
    assert np.abs(chances / ONE - x).max() < 1e-9
    drawn = draw_once(chances, Stream(seed(number)))
    assert drawn.sum() == total
    assert not drawn[chances == 0].any()
    assert drawn[chances == ONE].all()


def test_chances_that_do_not_sum_to_the_number_drawn_are_refused() -> None:
    with pytest.raises(InputError, match="must sum to the number drawn"):
        whole_chances(np.array([1.0, 1.0]), 3)
    with pytest.raises(InputError, match="between 0 and 1"):
        whole_chances(np.array([1.5, 0.5]), 2)


def test_words_are_those_of_the_format_wherever_one_stops() -> None:
    plain = [
        int.from_bytes(hashlib.sha256(seed(3) + block.to_bytes(8, "big")).digest()[8 * k : 8 * k + 8], "big")
        for block in range(5)
        for k in range(4)
    ]
    stream = Stream(seed(3))
    assert [int(word) for number in (1, 2, 5, 0, 9) for word in stream.take(number)] == plain[:17]


def test_a_draw_equals_the_plain_definition() -> None:
    rng = np.random.default_rng(7)
    for number in range(50):
        x = rng.dirichlet(np.ones(9)) * 2
        chances = whole_chances(np.minimum(x, 1), 2) if x.max() <= 1 else whole_chances(np.full(9, 2 / 9), 2)
        stream = Stream(seed(number))
        start, keys = int(stream.take(1)[0]) % ONE, stream.take(9).tolist()
        points, at, expected = {start, start + ONE}, 0, np.zeros(9, bool)
        for arm in sorted(range(9), key=lambda arm: keys[arm]):
            expected[arm] = any(at <= point < at + int(chances[arm]) for point in points)
            at += int(chances[arm])
        assert np.array_equal(draw_once(chances, Stream(seed(number))), expected)


def frequencies(chances: np.ndarray, draws: int, bias: float = 0.0) -> float:
    """Return the p-value that draws have these chances; with a bias, some of the first one's draws go to the next."""
    rng, counts = np.random.default_rng(5), np.zeros(len(chances))
    for number in range(draws):
        drawn = draw_once(chances, Stream(seed(number)))
        if bias and drawn[0] and not drawn[1] and rng.random() < bias:
            drawn[0], drawn[1] = False, True
        counts += drawn
    expected = chances / ONE * draws
    variance = expected * (1 - chances / ONE)
    return float(2 * stats.norm.sf(np.abs((counts - expected) / np.sqrt(variance)).max()) * len(chances))


@pytest.mark.slow
def test_frequencies_of_100_000_draws_are_the_chances_and_a_bias_of_2_percent_is_found() -> None:
    chances = whole_chances(np.array([0.7, 0.1, 0.35, 0.05, 0.5, 0.3]), 2)
    assert frequencies(chances, 100_000) > 1e-4
    assert frequencies(chances, 100_000, bias=0.02) < 1e-4
