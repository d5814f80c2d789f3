"""The best that slack allows, by relative value iteration over the states and accounts of all arms, one at a time.

One arm is pulled at a step. Exposures and accounts are whole numbers of units of 1/m, so there are finitely many.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import prod
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

    from meritfair.core.arrays import FloatArray

    Whole: TypeAlias = tuple[int, ...]  # one number for each arm

__all__ = ["optimal_average"]


def optimal_average(
    transitions: FloatArray, due: Sequence[Fraction], slack: Fraction, grid: int, tolerance: float = 1e-7
) -> float:
    """Return the largest average number of good arms of any policy that keeps all accounts within the slack."""
    owed, most = tuple(int(each * grid) for each in due), int(slack * grid)
    every_state = list(product((0, 1), repeat=len(owed)))
    every_account = [d for d in product(range(-most, most + 1), repeat=len(owed)) if sum(d) == 0]
    value = dict.fromkeys(product(every_state, every_account), 0.0)
    allowed = {d: [x for x in shared(grid, len(owed)) if within(after(d, owed, x), most)] for d in every_account}
    moves = {(s, arm): next_states(transitions, s, arm) for s in every_state for arm in range(len(owed))}

    while True:
        ahead = {
            (s, pulled, d): sum(chance * value[t, d] for t, chance in chances.items())
            for (s, pulled), chances in moves.items()
            for d in every_account
        }
        better = {
            (s, d): sum(s)
            + max(
                sum(x[arm] / grid * ahead[s, arm, after(d, owed, x)] for arm in range(len(x)) if x[arm])
                for x in allowed[d]
            )
            for s, d in value
        }
        changes = [better[each] - value[each] for each in value]
        if max(changes) - min(changes) < tolerance:
            return (max(changes) + min(changes)) / 2
        base = next(iter(better.values()))
        value = {each: 0.2 * value[each] + 0.8 * (better[each] - base) for each in value}  # accounts may be periodic


def shared(units: int, arms: int) -> list[Whole]:
    """Return all ways to share that many units."""
    return [x for x in product(range(units + 1), repeat=arms) if sum(x) == units]


def after(account: Whole, due: Whole, given: Whole) -> Whole:
    return tuple(d + e - x for d, e, x in zip(account, due, given, strict=True))


def within(account: Whole, slack: int) -> bool:
    return all(-slack <= each <= slack for each in account)


def next_states(P: FloatArray, states: Whole, pulled: int) -> dict[Whole, float]:
    """Return the chance of each next state of all arms if one is pulled."""
    good = [float(P[arm, state, int(arm == pulled)]) for arm, state in enumerate(states)]
    return {
        follow: prod(g if state else 1 - g for g, state in zip(good, follow, strict=True))
        for follow in product((0, 1), repeat=len(states))
    }
