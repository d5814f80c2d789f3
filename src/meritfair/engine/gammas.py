r"""By how much gamma functions rise over a count: :math:`\log\Gamma(x + n) - \log\Gamma(x)`, and two derivatives of it.

For a given x they are tables of sums over :math:`j < n`, such as :math:`\sum \log(x + j)`, while counts are small, and
asymptotic series beyond, so that a count costs a few additions.
"""

from __future__ import annotations

import math

from meritfair.core.arrays import FloatArray
from meritfair.engine.compiling import part

TABLE = 64  # counts below this are looked up


@part
def tabulate_logs(table: FloatArray, start: float, reach: int) -> None:
    """Set table[j] to the sum of log(start + i) over i < j, with the last entry made ready for larger counts."""
    total = 0.0
    for j in range(reach):
        table[j] = total
        total += math.log(start + j)
    if reach > TABLE:
        table[TABLE] -= _log_gamma(start + TABLE)


@part
def log_rise(table: FloatArray, start: float, count: float) -> float:
    """Return log Gamma(start + count) - log Gamma(start)."""
    if count < TABLE:
        return table[int(count)]
    return table[TABLE] + _log_gamma(start + count)


@part
def _log_gamma(x: float) -> float:
    """Return log Gamma(x) but for a constant, by Stirling's series; x is at least 64."""
    r = 1.0 / x
    return (x - 0.5) * math.log(x) - x + r * (1.0 / 12.0 - r * r * (1.0 / 360.0 - r * r / 1260.0))


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


@part
def rises(first: FloatArray, second: FloatArray, start: float, count: float) -> tuple[float, float]:
    """Return by how much digamma rises and trigamma falls from start to start + count."""
    if count < TABLE:
        return first[int(count)], second[int(count)]
    return first[TABLE] + _digamma(start + count), second[TABLE] - _trigamma(start + count)


@part
def _digamma(x: float) -> float:
    """Return the derivative of log Gamma; x is at least 64."""
    r = 1.0 / x
    return math.log(x) - 0.5 * r - r * r * (1.0 / 12.0 - r * r * (1.0 / 120.0 - r * r / 252.0))


@part
def _trigamma(x: float) -> float:
    """Return the second derivative of log Gamma; x is at least 64."""
    r = 1.0 / x
    return r + 0.5 * r * r + r * r * r * (1.0 / 6.0 - r * r * (1.0 / 30.0 - r * r / 42.0))
