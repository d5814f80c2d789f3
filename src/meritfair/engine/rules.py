"""How built-in policies and merit functions are told to kernels: plain numbers, without Numba.

Kernels of the model import nothing from it, and the model imports only this.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = [
    "AFFINE",
    "EXPONENTIAL",
    "FIXED",
    "GREEDY",
    "LOGISTIC",
    "LOTTERY",
    "MEAN",
    "OPTIMISTIC",
    "PESSIMISTIC",
    "POWER",
    "MeritRule",
    "Rule",
]

EXPONENTIAL, AFFINE, POWER, LOGISTIC = range(4)
OPTIMISTIC, MEAN, PESSIMISTIC = range(3)
LOTTERY, GREEDY, FIXED = range(3)


class MeritRule(NamedTuple):
    """A merit function that is compiled: its kind and two settings."""

    kind: int
    first: float
    second: float


class Rule(NamedTuple):
    """How a built-in policy plans: from the counts (LOTTERY, GREEDY), or always the same (FIXED)."""

    kind: int
    estimate: int
    delta: float
    merit: MeritRule
