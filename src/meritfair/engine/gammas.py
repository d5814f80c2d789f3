r"""By how much gamma functions rise over a count: :math:`\log\Gamma(x + n) - \log\Gamma(x)`, and two derivatives of it.

For a given x they are tables with a place for each count that occurs, so that a count of an arm costs one look into
the table: arms have many counts in common, also where those are not whole. The places are the same for all x:

================ ========================================= ====================================================
count            place                                     value
================ ========================================= ====================================================
whole, below 64  the count itself                          sums over j < n, such as that of log(x + j)
other, below 64  from `ROOM` on, up to the first of `ends` eight steps of the recursion, then Stirling's series
64 or above      from the second of `ends` on              the sum up to 64, and the series from there
================ ========================================= ====================================================

For the derivatives, logarithms are taken in loops of their own: a loop that calls no function becomes vector
instructions, with the same results.
"""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from meritfair.core.arrays import FloatArray, IntArray
from meritfair.engine.compiling import kernel, part

PlaceArray: TypeAlias = npt.NDArray[np.uint32]

TABLE = 64  # whole counts below this are looked up by themselves
ROOM = TABLE + 1  # for them in a table
_SHIFT = 8  # steps up to where the series are exact to 1e-12
_MIX = np.uint64(0x9E3779B97F4A7C15)  # Knuth's multiplicative hashing: 2 ** 64 divided by the golden ratio
_HALF = np.uint64(32)


# ---- places


@part
def find_places(given: FloatArray, places: PlaceArray, counts: FloatArray, ends: IntArray, slots: PlaceArray) -> None:
    """Set the place of each count that is given, (N,), which is the same for those that are equal.

    Also sets `counts`, (ROOM + N,), to the count at each place from `ROOM` on, and `ends`, (2,). `slots`, (2 N + 1,),
    is room to work in.
    """
    ends[0], ends[1] = ROOM, len(counts)
    slots[:] = 0
    for i in range(len(given)):
        whole = int(min(given[i], TABLE))
        places[i] = whole if whole == given[i] and whole < TABLE else _place(given[i], counts, ends, slots)


@part
def _place(count: float, counts: FloatArray, ends: IntArray, slots: PlaceArray) -> int:
    """Return the place of a count that is large or not whole."""
    slot = _slot(count, counts, slots)
    if slots[slot] == 0:
        if count < TABLE:
            slots[slot] = ends[0]
            ends[0] += 1
        else:
            ends[1] -= 1
            slots[slot] = ends[1]
        counts[slots[slot]] = count
    return slots[slot]


@part
def _slot(value: float, values: FloatArray, slots: PlaceArray) -> int:
    """Return the slot of a hash table that holds the index of a value in `values`, or 0 if it has none yet."""
    mixed = np.float64(value).view(np.uint64) * _MIX
    slot = int(np.int64(((mixed >> _HALF) * np.uint64(len(slots))) >> _HALF))
    while slots[slot] != 0 and values[slots[slot]] != value:
        slot = slot + 1 if slot + 1 < len(slots) else 0
    return slot


@kernel
def number(given: FloatArray, numbers: PlaceArray, values: FloatArray, slots: PlaceArray) -> int:
    """Give numbers from 1 to the values given, (N,), the same to those that are equal; return how many there are.

    Sets `numbers`, (N,), and `values`, (N + 1,), by number. `slots`, (2 N + 1,), must be 0.
    """
    found = 0
    for i in range(len(given)):
        slot = _slot(given[i], values, slots)
        if slots[slot] == 0:
            found += 1
            slots[slot] = found
            values[found] = given[i]
        numbers[i] = slots[slot]
    return found


# ---- logarithms


@part
def tabulate_logs(table: FloatArray, counts: FloatArray, ends: IntArray, start: float, reach: int) -> None:
    """Set the table to log Gamma(start + count) - log Gamma(start), for whole counts below `reach` and all others."""
    below, above, total = ends[0], ends[1], 0.0
    for j in range(reach):
        table[j] = total
        total += math.log(start + j)
    _logs_below(table[ROOM:below], counts[ROOM:below], start)
    if reach > TABLE:
        _logs_above(table[above:], counts[above:], start, table[TABLE] - _log_gamma(start + TABLE))


@part
def _logs_below(table: FloatArray, counts: FloatArray, start: float) -> None:
    at_start = _log_gamma_of_any(start)
    for i in range(len(table)):
        table[i] = _log_gamma_of_any(start + counts[i]) - at_start


@part
def _logs_above(table: FloatArray, counts: FloatArray, start: float, before: float) -> None:
    for i in range(len(table)):
        table[i] = before + _log_gamma(start + counts[i])


@part
def _log_gamma_of_any(x: float) -> float:
    """Return log Gamma(x) but for a constant, for any positive x."""
    product = x
    for i in range(1, _SHIFT):
        product *= x + i
    return _log_gamma(x + _SHIFT) - math.log(product)


@part
def _log_gamma(x: float) -> float:
    """Return log Gamma(x) but for a constant, by Stirling's series; x is at least 8."""
    r = 1.0 / x
    s = r * r
    rest = 1.0 / 12.0 - s * (1.0 / 360.0 - s * (1.0 / 1260.0 - s * (1.0 / 1680.0 - s / 1188.0)))
    return (x - 0.5) * math.log(x) - x + r * rest


@part
def tabulate_log_gammas(table: FloatArray, counts: FloatArray, ends: IntArray, start: float, reach: int) -> None:
    """Set the table to log Gamma(start + count), for the same counts."""
    for j in range(reach):
        table[j] = math.lgamma(start + j)
    for j in range(ROOM, ends[0]):
        table[j] = math.lgamma(start + counts[j])
    for j in range(ends[1], len(table)):
        table[j] = math.lgamma(start + counts[j])


# ---- derivatives


@part
def tabulate_slopes(
    first: FloatArray, second: FloatArray, counts: FloatArray, ends: IntArray, start: float, reach: int
) -> None:
    """Set the tables to by how much digamma rises and trigamma falls from start to start + count."""
    below, above, once, twice = ends[0], ends[1], 0.0, 0.0
    for j in range(reach):
        first[j], second[j] = once, twice
        r = 1.0 / (start + j)
        once += r
        twice += r * r
    _slopes_below(first[ROOM:below], second[ROOM:below], counts[ROOM:below], start)
    if reach > TABLE:
        x = start + TABLE
        once, twice = first[TABLE] - _digamma(x, math.log(x)), second[TABLE] + _trigamma(x)
        _slopes_above(first[above:], second[above:], counts[above:], start, once, twice)


@part
def _slopes_below(first: FloatArray, second: FloatArray, counts: FloatArray, start: float) -> None:
    once_at_start, twice_at_start = _derivatives(start, math.log(start + _SHIFT))
    for i in range(len(first)):
        first[i] = math.log(start + counts[i] + _SHIFT)
    for i in range(len(first)):
        once, twice = _derivatives(start + counts[i], first[i])
        first[i], second[i] = once - once_at_start, twice_at_start - twice


@part
def _slopes_above(
    first: FloatArray, second: FloatArray, counts: FloatArray, start: float, once: float, twice: float
) -> None:
    for i in range(len(first)):
        first[i] = math.log(start + counts[i])
    for i in range(len(first)):
        x = start + counts[i]
        first[i], second[i] = once + _digamma(x, first[i]), twice - _trigamma(x)


@part
def _derivatives(x: float, log: float) -> tuple[float, float]:
    """Return digamma and trigamma of any positive x, given log(x + 8)."""
    once = twice = 0.0
    for i in range(_SHIFT):
        r = 1.0 / (x + i)
        once += r
        twice += r * r
    return _digamma(x + _SHIFT, log) - once, _trigamma(x + _SHIFT) + twice


@part
def _digamma(x: float, log: float) -> float:
    """Return the derivative of log Gamma, given log x; x is at least 8."""
    r = 1.0 / x
    s = r * r
    rest = 1.0 / 12.0 - s * (1.0 / 120.0 - s * (1.0 / 252.0 - s * (1.0 / 240.0 - s / 132.0)))
    return log - 0.5 * r - s * rest


@part
def _trigamma(x: float) -> float:
    """Return the second derivative of log Gamma; x is at least 8."""
    r = 1.0 / x
    s = r * r
    rest = 1.0 / 6.0 - s * (1.0 / 30.0 - s * (1.0 / 42.0 - s * (1.0 / 30.0 - s * 5.0 / 66.0)))
    return r + 0.5 * s + r * s * rest
