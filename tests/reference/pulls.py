"""Looking at the words of pulls that a drawer of the engine has filled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from meritfair.engine.bits import ONE
from reference.compiled import kernel_of_tests

if TYPE_CHECKING:
    from meritfair.core.arrays import WordArray

__all__ = ["wrong_steps"]


@kernel_of_tests
def wrong_steps(pulls: WordArray, first: int, n_arms: int, wanted: int) -> int:
    """Return at how many of the 64 steps of the word that begins at this lane not exactly so many arms are pulled."""
    wrong: Any = 0
    for step in range(64):
        total: Any = 0
        for arm in range(n_arms):
            total += np.int64((pulls[first + arm] >> np.uint64(step)) & ONE)
        wrong += total != wanted
    return wrong  # type: ignore[no-any-return]
