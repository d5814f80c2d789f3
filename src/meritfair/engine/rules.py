"""How built-in policies and merit functions are told to kernels: plain numbers, without Numba.

Kernels of the model import nothing from it, and the model imports only this.
"""

from __future__ import annotations

from typing import NamedTuple

EXPONENTIAL, AFFINE, POWER, LOGISTIC = range(4)
OPTIMISTIC, PESSIMISTIC, MEAN, POOLED, THOMPSON = range(5)
PAPER, BERNSTEIN, KL = range(3)  # kinds of ball
LOTTERY, GREEDY, FIXED = range(3)
SEQUENTIAL, EXACT, SYSTEMATIC, ROTATION = range(4)  # how arms are drawn


class MeritRule(NamedTuple):
    """A merit function that is compiled: its kind and two settings."""

    kind: int
    first: float
    second: float


class BallRule(NamedTuple):
    """How the ball is measured: its kind, the chance that it may miss the truth, and the stage of a tight one."""

    kind: int
    delta: float
    tightener: int = 0


class Rule(NamedTuple):
    """How a built-in policy plans: from the counts (LOTTERY, GREEDY), or always the same (FIXED)."""

    kind: int
    estimate: int
    design: int
    ball: BallRule
    merit: MeritRule
    slack: float = 0.0
