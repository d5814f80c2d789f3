r"""How long people wait between draws, and how likely that was by the chances that they had.

A *wait* is a run of rounds, one after another, in which somebody took part and was not drawn. For rounds with the
chances :math:`p_1 \dots p_T`, and draws that are independent from round to round, let :math:`G_t` be the probability
that some wait has reached the length L by round t. It is reached for the first time in round t if it was not reached
before the last draw, which was in round t - L (or there was none yet):

.. math:: G_t = G_{t-1} + (1 - G_{t-L-1})\, p_{t-L} \prod_{s=t-L+1}^{t} (1 - p_s), \qquad p_0 = 1, \quad
    G_t = 0 \text{ for } t < L .

So all lengths are exact in time linear in T, and nothing is ever subtracted that is nearly equal: tiny probabilities
keep their digits. Chances are taken as they were recorded. Where they depend on earlier draws, as under a cool-down,
which rules a second draw out, this is the probability for chances that were fixed beforehand.

Of many people someone waits long. `allowing_for` is how likely it is at most that any of so many has a wait that is as
unlikely (Bonferroni), whatever their draws have to do with each other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from meritfair.core.arrays import BoolArray, FloatArray, IntArray
from meritfair.core.checks import check_whole, probabilities
from meritfair.core.errors import InputError


@dataclass(frozen=True)
class Wait:
    """The longest wait of one person, and the one that still lasts.

    Attributes
    ----------
    longest : int
        Rounds of the longest wait; the first of those that are equally long.
    first, last : int or None
        Its rounds; None if there was no round without a draw.
    probability : float
        How likely a wait of this length or more was.
    waiting : int
        Rounds since the last draw, or since the first round.
    waiting_probability : float
        How likely it was not to be drawn in any of these.
    """

    longest: int
    first: int | None
    last: int | None
    probability: float
    waiting: int
    waiting_probability: float

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values."""
        return dict(vars(self))


def wait_of(rounds: npt.ArrayLike, chances: npt.ArrayLike, drawn: npt.ArrayLike) -> Wait:
    """Return the longest wait of one person from the rounds in which they took part, in order.

    Examples
    --------
    >>> found = wait_of(rounds=[1, 2, 3, 4], chances=[0.5, 0.5, 0.5, 0.5], drawn=[1, 0, 0, 1])
    >>> found.longest, found.first, found.last, found.probability, found.waiting
    (2, 2, 3, 0.5, 0)
    """
    numbers, hits = np.asarray(rounds, np.int64), np.asarray(drawn, np.bool_)
    p = probabilities("chances", chances)
    if not numbers.shape == hits.shape == p.shape or p.ndim != 1:
        raise InputError("rounds, chances and drawn must be lists of the same length")
    runs = running_waits(hits[None])[0]
    longest, waiting = (int(runs.max()), int(runs[-1])) if len(runs) else (0, 0)
    end = int(np.argmax(runs)) if longest else 0
    first, last = (int(numbers[end - longest + 1]), int(numbers[end])) if longest else (None, None)
    still = float(np.prod(1 - p[len(p) - waiting :]))
    return Wait(longest, first, last, probability_of_wait(p, longest), waiting, still)


def probability_of_wait(chances: npt.ArrayLike, length: int) -> float:
    """Return the probability that some wait is this long or longer.

    Examples
    --------
    >>> probability_of_wait([0.5, 0.5, 0.5], 2)  # of 8 equally likely rows: 000, 001 and 100
    0.375
    """
    p = probabilities("chances", chances)
    return float(probabilities_of_waits(p[None], np.array([check_whole("length", length, 0)]))[0])


def probabilities_of_waits(chances: FloatArray, lengths: IntArray) -> FloatArray:
    """Return for each of N people the probability that some wait is as long as `lengths` says, or longer.

    Parameters
    ----------
    chances : ndarray, shape (N, T)
        A row for each; those with fewer rounds have chances of 1 behind them, where nobody waits.
    lengths : ndarray of int, shape (N,)
    """
    found = np.ones(len(lengths))
    for length in np.unique(lengths[lengths > 0]).tolist():
        rows = lengths == length
        found[rows] = _reached(chances[rows], length)
    return found


def _reached(chances: FloatArray, length: int) -> FloatArray:
    """Return the probability that a wait of this length is reached, for people with the same length."""
    people, rounds = chances.shape
    if length > rounds:
        return np.zeros(people)
    missed = np.lib.stride_tricks.sliding_window_view(1 - chances, length, axis=1).prod(axis=-1)
    reached = np.zeros((people, rounds + 1))  # G after each number of rounds
    reached[:, length] = missed[:, 0]
    for t in range(length + 1, rounds + 1):
        first = (1 - reached[:, t - length - 1]) * chances[:, t - length - 1] * missed[:, t - length]
        reached[:, t] = reached[:, t - 1] + first
    return np.asarray(np.minimum(reached[:, rounds], 1.0))


def running_waits(drawn: BoolArray) -> IntArray:
    """Return for each person and round, shape (N, T), for how many rounds they have waited.

    Examples
    --------
    >>> running_waits(np.array([[False, False, True, False]]))
    array([[1, 2, 0, 1]])
    """
    place = np.arange(1, drawn.shape[1] + 1)
    last = np.maximum.accumulate(np.where(drawn, place, 0), axis=1)
    return np.asarray(place - last)


class RowLayout:
    """Values of people as a row for each of them, from the left; of each, values stay in their order.

    Parameters
    ----------
    people : ndarray of int
        Whose each value is: numbers from 0, in any order.

    Attributes
    ----------
    who : ndarray of int
        Who there is, in order: the rows.

    Examples
    --------
    >>> layout = RowLayout(np.array([7, 3, 7]))
    >>> layout.who, layout.rows(np.array([0.2, 0.5, 0.4]), fill=1.0)
    (array([3, 7]), array([[0.5, 1. ],
           [0.2, 0.4]]))
    """

    def __init__(self, people: IntArray) -> None:
        lengths = np.bincount(people)
        self.who = np.flatnonzero(lengths)
        lengths = lengths[self.who]
        self._shape = len(self.who), int(lengths.max(initial=0))
        self._order = np.argsort(people, kind="stable")
        begins = np.arange(len(self.who)) * self._shape[1] - np.cumsum(lengths) + lengths
        self._place = np.arange(len(people)) + np.repeat(begins, lengths)

    def rows(self, values: npt.NDArray[Any], fill: Any) -> npt.NDArray[Any]:
        """Return the values; `fill` stands behind those of who has fewer."""
        made = np.full(self._shape[0] * self._shape[1], fill, values.dtype)
        made[self._place] = values[self._order]
        return made.reshape(self._shape)


def allowing_for(probability: float, people: int) -> float:
    """Return at most how likely it is that any of so many people has a wait that is as unlikely."""
    return min(1.0, probability * people)
