"""Names for the array types, and one helper that makes an array read-only."""

from __future__ import annotations

from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

AnyArray: TypeAlias = npt.NDArray[Any]
BoolArray: TypeAlias = npt.NDArray[np.bool_]
ByteArray: TypeAlias = npt.NDArray[np.uint8]
DateArray: TypeAlias = npt.NDArray[np.datetime64]
FloatArray: TypeAlias = npt.NDArray[np.float64]
Int8Array: TypeAlias = npt.NDArray[np.int8]
IntArray: TypeAlias = npt.NDArray[np.int64]
WordArray: TypeAlias = npt.NDArray[np.uint64]

_Scalar = TypeVar("_Scalar", bound=np.generic)


def frozen(array: npt.NDArray[_Scalar]) -> npt.NDArray[_Scalar]:
    """Return the array, contiguous and read-only; a caller's own array is copied first."""
    mine = np.array(array, order="C", copy=True)
    mine.setflags(write=False)
    return mine
