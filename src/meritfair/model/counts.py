"""What has been seen of the arms: how often each was in a state under an action, and what came of it.

``visits[i, s, a]`` is the paper's :math:`N_i^t(s, a)` and ``good[i, s, a]`` its :math:`N_i^t(s, a, 1)`.
Arrays may carry leading axes, such as one for independent runs; all formulas go through them. Counts are whole numbers,
or where some states were not observed, expected numbers (:mod:`meritfair.model.gaps`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from meritfair.core.arrays import FloatArray, IntArray, frozen
from meritfair.core.checks import check_number, check_whole, float_array
from meritfair.core.errors import InputError


@dataclass(frozen=True, init=False, eq=False)
class Counts:
    """Counts of visits and of good outcomes, shape (..., N, 2, 2) by arm, state and action.

    Examples
    --------
    >>> seen = Counts(visits=[[[4, 2], [0, 3]]], good=[[[1, 1], [0, 3]]])
    >>> seen.frequency
    array([[[0.25, 0.5 ],
            [0.  , 1.  ]]])
    >>> seen.mean
    array([[[0.33333333, 0.5       ],
            [0.5       , 0.8       ]]])
    """

    visits: IntArray | FloatArray
    good: IntArray | FloatArray

    def __init__(self, visits: npt.ArrayLike, good: npt.ArrayLike) -> None:
        object.__setattr__(self, "visits", _count_array("visits", visits))
        object.__setattr__(self, "good", _count_array("good", good))
        if self.visits.shape != self.good.shape:
            raise InputError(f"visits and good must have one shape, got {self.visits.shape} and {self.good.shape}")
        if np.any(self.good > self.visits):
            at = tuple(int(i) for i in np.argwhere(self.good > self.visits)[0])
            raise InputError(f"good must be at most visits, got {self.good[at]} of {self.visits[at]} at {at}")

    @classmethod
    def none(cls, n_arms: int) -> Counts:
        """Return the counts before anything was seen."""
        empty = np.zeros((check_whole("n_arms", n_arms, 1), 2, 2), dtype=np.int64)
        return cls(empty, empty)

    @property
    def n_arms(self) -> int:
        """How many arms there are."""
        return int(self.visits.shape[-3])

    @property
    def frequency(self) -> FloatArray:
        r"""The share of good outcomes, :math:`\hat P(s, a, 1)`; 0 where nothing was seen."""
        return np.asarray(self.good / np.maximum(self.visits, 1))

    @property
    def mean(self) -> FloatArray:
        """The posterior mean under a uniform prior, (good + 1) / (visits + 2): never 0 nor 1."""
        return np.asarray((self.good + 1) / (self.visits + 2))

    def __add__(self, other: Counts) -> Counts:
        return Counts(self.visits + other.visits, self.good + other.good)


def _count_array(name: str, value: npt.ArrayLike) -> IntArray | FloatArray:
    """Return counts as whole numbers, or as floats if some are not whole."""
    array = np.asarray(value)
    if array.dtype.kind not in "iu":
        array = float_array(name, value)
        if not np.isfinite(array).all():
            raise InputError(f"{name} must be finite, got {array[~np.isfinite(array)].flat[0]}")
        array = array if np.any(array != np.round(array)) else array.astype(np.int64)
    if array.ndim < 3 or array.shape[-2:] != (2, 2):
        raise InputError(f"{name} must have shape (..., N, 2, 2) by arm, state and action, got {array.shape}")
    if array.size and array.min() < 0:
        raise InputError(f"{name} must not be negative, got {array.min()}")
    return frozen(array if array.dtype.kind == "f" else array.astype(np.int64))


def check_forget(forget: Any) -> float:
    """Return by what an outcome is multiplied with each round, if it is above 0 and at most 1."""
    if check_number("forget", forget, 0.0, 1.0) == 0.0:
        raise InputError(f"forget must be above 0 and at most 1, which forgets nothing, got {forget}")
    return float(forget)
