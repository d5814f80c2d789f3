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

# Of timed lotteries; `meritfair.model.accounts` has the formulas.
LEAD = 12.0  # log odds by which the better state leads, where a pull matters most
ZEAL = 16.0  # how much is explored
LITTLE = 1e-3  # what the time of a pull matters at least
FAINT = 1e-3  # wanted exposures are kept this far from 0 and 1, so that accounts can move them
EQUAL = 1e-15  # rates that differ by less, relative to their sum, differ by rounding


class MeritRule(NamedTuple):
    """A merit function that is compiled: its kind and two settings."""

    kind: int
    first: float
    second: float


NO_MERIT = MeritRule(EXPONENTIAL, 0.0, 0.0)  # where none is needed, or it is not compiled


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
