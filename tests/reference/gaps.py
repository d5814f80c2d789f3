"""Gaps once more: every path of hidden states, one by one."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from meritfair.core.arrays import FloatArray

__all__ = ["path_counts", "product_entry"]


def path_counts(transitions: FloatArray, start: int, end: int, actions: list[int]) -> tuple[float, FloatArray]:
    """Return the likelihood of the end of a gap, and the expected number of each (state, action, next state)."""
    total, counts = 0.0, np.zeros((2, 2, 2))
    for hidden in itertools.product((0, 1), repeat=len(actions) - 1):
        path = [start, *hidden, end]
        chance = 1.0
        for s, a, then in zip(path, actions, path[1:], strict=False):
            chance *= transitions[s, a] if then else 1 - transitions[s, a]
        for s, a, then in zip(path, actions, path[1:], strict=False):
            counts[s, a, then] += chance
        total += chance
    return total, counts / total


def product_entry(transitions: FloatArray, start: int, end: int, actions: list[int]) -> float:
    """Return the entry of the product of the matrices of all rounds."""
    product = np.eye(2)
    for a in actions:
        good = transitions[:, a]
        product = product @ np.stack([1 - good, good], axis=1)
    return float(product[start, end])
