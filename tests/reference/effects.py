"""The effect of a pull by its definition, in loops over dictionaries: the twin of `meritfair.effects`."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
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
    """A row that is used, with its pseudo-outcome, how far it is from its prediction, and what competition adds."""

    arm: str
    round: int
    state: int
    drawn: int
    value: float
    residual: float
    factor: float

    @property
    def square(self) -> float:
        """What stands for its variance, if it is drawn by itself."""
        return self.residual**2 * self.factor


def pseudo_outcomes(log: Iterable[Row], cluster: Mapping[str, str] | None = None) -> list[Used]:
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
        there = (other.arm for other in rows.values() if other.round == t and _in_draw(other))
        n = len({(cluster or {}).get(other, other) for other in there})
        factor = n / max(n - 1, 1)
        made.append(Used(arm, t, row.state, row.drawn, always - never + residual, residual, factor))
    return made


def estimate(used: Iterable[Used], cluster: Mapping[str, str] | None = None) -> tuple[float, float]:
    """Return the mean of the pseudo-outcomes, and its standard error."""
    rows = list(used)
    residuals: dict[tuple[str, int], float] = defaultdict(float)
    factors = {row.round: row.factor for row in rows}
    for row in rows:
        residuals[(cluster or {}).get(row.arm, row.arm), row.round] += row.residual
    variance = sum(total**2 * factors[t] for (_, t), total in residuals.items())
    return sum(row.value for row in rows) / len(rows), math.sqrt(variance) / len(rows)


def filled(log: Iterable[Row], drawn_is_good: bool) -> tuple[list[Row], int]:
    """Return a log whose missing next states are known, and how many were missing.

    The next state of a row is put into a row of its own arm and the next round, in which nobody is in a draw.
    """
    rows = {(row.arm, row.round): row for row in log}
    last, number = max(t for _, t in rows), 0
    for (arm, t), row in list(rows.items()):
        after = rows.get((arm, t + 1))
        if not _in_draw(row) or row.drawn is None or t == last or (after is not None and after.state is not None):
            continue
        number += 1
        rows[arm, t + 1] = Row(arm, t + 1, int((row.drawn == 1) == drawn_is_good), None, None)
    return list(rows.values()), number


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
