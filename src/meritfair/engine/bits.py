"""Words of 64 bits: one bit for each of 64 steps.

Kernels keep words as ``uint64`` and shift only by ``uint64``: mixed with a signed integer, Numba would turn
both into floats.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

Word: TypeAlias = Any  # a uint64

NONE = np.uint64(0)
ONE = np.uint64(1)
ALL = np.uint64(0xFFFFFFFFFFFFFFFF)


def _instruction(emit: Any) -> Any:
    """Return a compiled function of one word that is a single machine instruction."""

    def typed(_context: Any, _word: Any) -> Any:
        def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            return emit(builder, arguments[0])

        return types.uint64(types.uint64), generate

    return intrinsic(typed)


_DEFINED_FOR_ZERO = ir.Constant(ir.IntType(1), 0)  # LLVM's flag "zero is undefined": no

count_ones = _instruction(lambda builder, word: builder.ctpop(word))
trailing_zeros = _instruction(lambda builder, word: builder.cttz(word, _DEFINED_FOR_ZERO))
leading_zeros = _instruction(lambda builder, word: builder.ctlz(word, _DEFINED_FOR_ZERO))
