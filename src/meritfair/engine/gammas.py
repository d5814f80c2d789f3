r"""By how much gamma functions rise over a count: :math:`\log\Gamma(x + n) - \log\Gamma(x)`, and two derivatives of it.

For a given x they are tables of sums over :math:`j < n`, such as :math:`\sum \log(x + j)`, while counts are small, and
asymptotic series beyond, so that a count costs a few additions. Small counts that are not whole, as expected counts
are, are not in the tables: they take eight steps of the recursion and then the series.
"""

from __future__ import annotations

import math

from meritfair.core.arrays import FloatArray
from meritfair.engine.compiling import part

TABLE = 64  # whole counts below this are looked up
ROOM = TABLE + 2  # of a table: the last entry is the function at the start
_SHIFT = 8  # steps up to where the series are exact to 1e-12


@part
def tabulate_logs(table: FloatArray, start: float, reach: int) -> None:
    """Set table[j] to the sum of log(start + i) over i < j, with the last entries made ready for other counts."""
    total = 0.0
    for j in range(reach):
        table[j] = total
        total += math.log(start + j)
    if reach > TABLE:
        table[TABLE] -= _log_gamma(start + TABLE)
    table[ROOM - 1] = _log_gamma_of_any(start)


@part
def log_rise(table: FloatArray, start: float, count: float) -> float:
    """Return log Gamma(start + count) - log Gamma(start)."""
    if count < TABLE:
        whole = int(count)
        return table[whole] if whole == count else _log_gamma_of_any(start + count) - table[ROOM - 1]
    return table[TABLE] + _log_gamma(start + count)


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
def tabulate_slopes(first: FloatArray, second: FloatArray, start: float, reach: int) -> None:
    """Set first[j] and second[j] to the sums of 1 / (start + i) and of its square over i < j, as `tabulate_logs`."""
    once = twice = 0.0
    for j in range(reach):
        first[j], second[j] = once, twice
        r = 1.0 / (start + j)
        once += r
        twice += r * r
    if reach > TABLE:
        first[TABLE] -= _digamma(start + TABLE)
        second[TABLE] += _trigamma(start + TABLE)
    first[ROOM - 1], second[ROOM - 1] = _derivatives(start)


@part
def rises(first: FloatArray, second: FloatArray, start: float, count: float) -> tuple[float, float]:
    """Return by how much digamma rises and trigamma falls from start to start + count."""
    if count < TABLE:
        whole = int(count)
        if whole == count:
            return first[whole], second[whole]
        once, twice = _derivatives(start + count)
        return once - first[ROOM - 1], second[ROOM - 1] - twice
    return first[TABLE] + _digamma(start + count), second[TABLE] - _trigamma(start + count)


@part
def _derivatives(x: float) -> tuple[float, float]:
    """Return digamma and trigamma of any positive x."""
    once = twice = 0.0
    for i in range(_SHIFT):
        r = 1.0 / (x + i)
        once += r
        twice += r * r
    return _digamma(x + _SHIFT) - once, _trigamma(x + _SHIFT) + twice


@part
def _digamma(x: float) -> float:
    """Return the derivative of log Gamma; x is at least 8."""
    r = 1.0 / x
    s = r * r
    rest = 1.0 / 12.0 - s * (1.0 / 120.0 - s * (1.0 / 252.0 - s * (1.0 / 240.0 - s / 132.0)))
    return math.log(x) - 0.5 * r - s * rest


@part
def _trigamma(x: float) -> float:
    """Return the second derivative of log Gamma; x is at least 8."""
    r = 1.0 / x
    s = r * r
    rest = 1.0 / 6.0 - s * (1.0 / 30.0 - s * (1.0 / 42.0 - s * (1.0 / 30.0 - s * 5.0 / 66.0)))
    return r + 0.5 * s + r * s * rest
