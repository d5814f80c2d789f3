r"""Gaps: stretches of rounds in which an arm's state was not observed, between two states that were.

What was done in each round of a gap is known. An arm that was in state s and, after the actions :math:`a_1 \dots a_m`,
in state s′ has said something of every round between: the likelihood is an entry of a product of matrices,

.. math:: \Pr(s' \mid s, a_1 \dots a_m) = \big( M(a_1) \cdots M(a_m) \big)_{s s'}, \qquad
    M(a) = \begin{pmatrix} 1 - P(0,a) & P(0,a) \\ 1 - P(1,a) & P(1,a) \end{pmatrix} .
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from meritfair.core.arrays import IntArray, frozen


@dataclass(frozen=True, eq=False)
class Gaps:
    """Gaps of some arms, in order of the arms.

    Attributes
    ----------
    arm : ndarray of int, shape (G,)
        Whose gap each is.
    start, end : ndarray of int, shape (G,)
        The last state that was observed before it, and the first one after it.
    first : ndarray of int, shape (G + 1,)
        Where the actions of each gap begin; the last number is where those of the last end.
    actions : ndarray of int
        What was done, from the round of the state before the gap to the one before the state after it.
    """

    arm: IntArray
    start: IntArray
    end: IntArray
    first: IntArray
    actions: IntArray

    def __post_init__(self) -> None:
        for name, values in vars(self).items():
            object.__setattr__(self, name, frozen(values))

    @classmethod
    def none(cls) -> Gaps:
        """Return no gaps."""
        nothing = np.zeros(0, np.int64)
        return cls(nothing, nothing, nothing, np.zeros(1, np.int64), nothing)

    def __len__(self) -> int:
        return len(self.arm)

    @property
    def lengths(self) -> IntArray:
        """How many rounds each takes, at least 2."""
        return np.asarray(np.diff(self.first))
