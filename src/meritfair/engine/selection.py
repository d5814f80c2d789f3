"""Selection without sorting."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from meritfair.engine.compiling import part

if TYPE_CHECKING:
    from meritfair.arrays import FloatArray

__all__ = ["smallest"]

_BELOW, _UP_TO, _START = np.bool_(False), np.bool_(True), np.int64(0)  # plain ones have types of their own


@part
def smallest(values: FloatArray, n: int, rank: int, guess: float) -> float:
    """Return the value of this rank (0 is the smallest) among the first n, none of them NaN; changes their order.

    Takes O(n): parts the values around a pivot, first the guess and then a middle one, and goes on in the part that
    holds the rank. Parting is without branches: which value comes next cannot be foreseen.
    """
    low, high, pivot = _START, n, guess
    while True:
        less = _part(values, low, high, pivot, _BELOW)
        if rank < less:
            high = less
        else:
            level = _part(values, less, high, pivot, _UP_TO)
            if rank < level:
                return pivot
            low = level
        a, b, c = values[low], values[(low + high) >> 1], values[high - 1]
        pivot = max(min(a, b), min(max(a, b), c))  # the one in the middle


@part
def _part(values: FloatArray, low: int, high: int, pivot: float, with_equal: bool) -> int:
    """Put the values from low to high that are below the pivot (or equal) first; return where the others begin."""
    at = low
    for i in range(low, high):
        value = values[i]
        values[i] = values[at]
        values[at] = value
        at += value < pivot or (with_equal and value == pivot)
    return at
