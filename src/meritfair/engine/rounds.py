"""Rules of rounds, as kernels have them: how many arms are pulled at a step, and which may be."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from meritfair.core.arrays import BoolArray, IntArray
from meritfair.engine.compiling import part

NEVER = np.int64(2**62)


class Rounds(NamedTuple):
    """What is asked of each step of a run. A step is a round."""

    budgets: IntArray  # the budget of each step, again from the start after the last
    next_free: IntArray  # (N,), the first step at which each arm may be pulled
    free: BoolArray  # (N,), whether it may be at this step
    active: bool  # whether there is any rule
    cooldown: int
    warmup: int
    once: bool
    most_often: float  # in which part of all steps an arm can be pulled, with this cool-down


def new_rounds(
    n_arms: int,
    budgets: tuple[int, ...],
    cooldown: int = 0,
    warmup: int = 0,
    once: bool = False,
    most_often: float = 1.0,
) -> Rounds:
    """Return the rules before the first step, when all arms are newcomers."""
    active = cooldown > 0 or warmup > 0 or once
    first, free = np.full(n_arms, warmup, np.int64), np.ones(n_arms, np.bool_)
    return Rounds(np.array(budgets, np.int64), first, free, active, cooldown, warmup, once, most_often)


@part
def set_free(free: BoolArray, next_free: IntArray, step: int) -> int:
    """Set who may be pulled at a step; return how many they are."""
    number = 0
    for arm in range(len(free)):
        free[arm] = next_free[arm] <= step
        number += free[arm]
    return number


@part
def note_pulled(actions: IntArray, next_free: IntArray, step: int, cooldown: int, once: bool) -> None:
    """Note who is pulled at a step, and until when they may not be pulled again."""
    after = NEVER if once else np.int64(step + 1 + cooldown)
    for arm in range(len(actions)):
        next_free[arm] = after if actions[arm] != 0 else next_free[arm]
