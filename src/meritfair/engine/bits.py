"""Words of 64 bits: one bit for each of 64 steps.

`transpose` turns 64 words of 64 bits, so that words by arm become words by step, or the other way round.

Kernels keep words as ``uint64`` and shift only by ``uint64``: mixed with a signed integer, Numba would turn
both into floats.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from meritfair.core.arrays import WordArray
from meritfair.engine.compiling import part

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

_HALF = np.uint64(32)
_HERE, _THERE = np.uint64(0), np.uint64(64)


@part
def _exchange(words: WordArray, start: Any, end: Any, shift: Word, low: Word) -> None:
    """Write 64 words to another place; exchange a bit of the row with one of the column, and rotate the row's bits.

    All rows are taken in the same order each time, so that loops become vector instructions.
    """
    for k in range(_HALF):
        upper, lower = words[start + k], words[start + _HALF + k]
        words[end + k + k] = (upper & low) | ((lower & low) << shift)
        words[end + k + k + ONE] = ((upper >> shift) & low) | (lower & ~low)


@part
def transpose(words: WordArray) -> None:
    """Transpose the first 64 words as a matrix of bits: bit j of word i becomes bit i of word j; changes 64 more."""
    _exchange(words, _HERE, _THERE, np.uint64(32), np.uint64(0x00000000FFFFFFFF))
    _exchange(words, _THERE, _HERE, np.uint64(16), np.uint64(0x0000FFFF0000FFFF))
    _exchange(words, _HERE, _THERE, np.uint64(8), np.uint64(0x00FF00FF00FF00FF))
    _exchange(words, _THERE, _HERE, np.uint64(4), np.uint64(0x0F0F0F0F0F0F0F0F))
    _exchange(words, _HERE, _THERE, np.uint64(2), np.uint64(0x3333333333333333))
    _exchange(words, _THERE, _HERE, np.uint64(1), np.uint64(0x5555555555555555))
