"""The effect of a pull by its definition, in loops over dictionaries: the twin of `meritfair.effects`."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

KAPPA = 4.0


class Row(NamedTuple):
    """A row of a log; None where something was not recorded."""

    arm: str
    round: int
    state: int | None
    drawn: int | None
    exposure: float | None


class Used(NamedTuple):
    """A row that is used, with its pseudo-outcome and the square that stands for its variance."""

    arm: str
    round: int
    state: int
    drawn: int
    value: float
    square: float


def pseudo_outcomes(log: Iterable[Row]) -> list[Used]:
    """Return the pseudo-outcomes of all rows that can be used, in order of rounds."""
    rows = {(row.arm, row.round): row for row in log}
    made = []
    for (arm, t), row in sorted(rows.items(), key=lambda item: item[0][1]):
        after = rows.get((arm, t + 1))
        if row.state is None or row.drawn is None or after is None or after.state is None:
            continue
        if row.exposure is None or not 0 < row.exposure < 1:
            continue
        never, always = (_prediction(rows.values(), rows, row, action) for action in (0, 1))
        e, y = row.exposure, after.state
        residual = (y - always) / e if row.drawn else -(y - never) / (1 - e)
        n = sum(1 for other in rows.values() if other.round == t and _in_draw(other))
        made.append(Used(arm, t, row.state, row.drawn, always - never + residual, residual**2 * n / max(n - 1, 1)))
    return made


def estimate(used: Iterable[Used]) -> tuple[float, float]:
    """Return the mean of the pseudo-outcomes, and its standard error."""
    rows = list(used)
    return sum(row.value for row in rows) / len(rows), math.sqrt(sum(row.square for row in rows)) / len(rows)


def _in_draw(row: Row) -> bool:
    return row.state is not None and row.exposure is not None and 0 < row.exposure < 1


def _prediction(log: Iterable[Row], rows: dict[tuple[str, int], Row], now: Row, action: int) -> float:
    visits: dict[bool, float] = defaultdict(float)
    good: dict[bool, float] = defaultdict(float)
    for row in log:
        after = rows.get((row.arm, row.round + 1))
        known = row.round < now.round and row.state == now.state and row.drawn == action
        if not known or after is None or after.state is None:
            continue
        visits[row.arm == now.arm] += 1
        good[row.arm == now.arm] += after.state
    rate = (good[True] + good[False] + 1) / (visits[True] + visits[False] + 2)
    return (good[True] + KAPPA * rate) / (visits[True] + KAPPA)
