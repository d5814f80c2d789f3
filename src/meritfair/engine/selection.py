"""Selection without sorting."""

from __future__ import annotations

from meritfair.core.arrays import FloatArray
from meritfair.engine.compiling import part


@part
def smallest(values: FloatArray, n: int, rank: int, guess: float) -> float:
    """Return the value of this rank (0 is the smallest) among the first n, none of them NaN; changes their order.

    Takes O(n): parts the values around a pivot, first the guess and then a middle one, and continues in the part that
    holds the rank. Parting is without branches: which value comes next cannot be foreseen. It is compiled once for
    False and once for True, which makes selecting a quarter faster.
    """
    low, high, pivot = 0, n, guess
    while True:
        less = _part(values, low, high, pivot, False)
        if rank < less:
            high = less
        else:
            level = _part(values, less, high, pivot, True)
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
