"""Which arms are pulled: selections of K of N, along the last axis of any arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from meritfair.arrays import BoolArray, FloatArray, IntArray

__all__ = ["first_pulls", "sequential_pulls", "to_the_end"]


def sequential_pulls(log_merit: FloatArray, exponential: FloatArray, budget: int) -> BoolArray:
    """Pull K arms one after another by merit, without putting back.

    A race: arm i arrives at the time exponential_i / merit_i, and the first K to arrive have exactly
    the law of the sequential draw. Done in logarithms, so that no merit is too small or too large.

    Parameters
    ----------
    log_merit : ndarray, shape (..., N)
    exponential : ndarray, shape (..., N)
        Independent standard exponential numbers; broadcasts against `log_merit`.
    budget : int
    """
    with np.errstate(divide="ignore"):  # an exponential number may be exactly 0: it arrives first
        arrival = np.log(exponential) - log_merit
    pulls = np.zeros(arrival.shape, dtype=np.bool_)
    first = np.argpartition(arrival, budget - 1, axis=-1)[..., :budget]
    np.put_along_axis(pulls, first, True, axis=-1)
    return pulls


def first_pulls(index: FloatArray, noise: FloatArray, budget: int) -> BoolArray:
    """Pull the K arms with the largest index; `noise` breaks ties, and an index of -inf is never pulled.

    Parameters
    ----------
    index, noise : ndarray, shape (..., N)
    budget : int
    """
    first = np.lexsort((noise, -index), axis=-1)[..., :budget]
    pulls = np.zeros(index.shape, dtype=np.bool_)
    np.put_along_axis(pulls, first, True, axis=-1)
    return pulls & (index > -np.inf)


def to_the_end(line: IntArray, pulls: BoolArray) -> IntArray:
    """Return everyone's place in line after those who were pulled have gone to its end, in the order they had."""
    return np.argsort(np.argsort(line + line.shape[-1] * pulls, axis=-1), axis=-1)
