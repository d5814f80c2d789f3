r"""A draw in whole numbers, that anyone can repeat: chances, a stream of random words, systematic sampling.

A *chance* is a whole multiple of :math:`2^{-40}`; the chances of a draw sum to the number K that is drawn, exactly. The
seed of a draw gives a stream of 64-bit words: block j is the SHA-256 hash of the seed and j, and has four words. The
first word modulo :math:`2^{40}` is the start u, which is exactly uniform; the next words, one for each participant who
has a chance, are the keys by which they are put in order. In that order their chances are laid end to end, and a
participant is drawn whose interval holds a point :math:`u + m \cdot 2^{40}`. So each is drawn with exactly their
chance, whatever the order, and exactly K are drawn; the order decides who is drawn together.
"""

from __future__ import annotations

import hashlib

import numpy as np

from meritfair.core.arrays import BoolArray, FloatArray, IntArray
from meritfair.core.errors import InputError

DESIGN = "systematic-sha256-1"
BITS = 40
ONE = 1 << BITS  # a chance of 1
_WORDS = 4  # of 64 bits in a block


def whole_chances(exposure: FloatArray, total: int) -> IntArray:
    """Return exposures as whole multiples of 2^-40 that sum to `total` exactly: the largest remainders round up.

    Examples
    --------
    >>> whole_chances(np.array([1 / 3, 1 / 3, 1 / 3, 1.0, 0.0]), 2)
    array([ 366503875926,  366503875925,  366503875925, 1099511627776,
                       0])
    """
    scaled = np.asarray(exposure, np.float64) * ONE
    if len(scaled) and (not np.isfinite(scaled).all() or scaled.min() < 0 or scaled.max() > ONE):
        raise InputError(f"exposures must lie between 0 and 1, got {exposure}")
    chances = np.floor(scaled).astype(np.int64)
    missing = total * ONE - int(chances.sum())
    room = np.flatnonzero((scaled > 0) & (chances < ONE) if missing > 0 else (chances > 0) & (chances < ONE))
    if missing == 0:
        return chances
    step = 1 if missing > 0 else -1
    remainder = (scaled - chances)[room] * step
    order = room[np.argsort(-remainder, kind="stable")]
    _spread(chances, order, missing)
    return chances


def _spread(chances: IntArray, order: IntArray, missing: int) -> None:
    """Add what is missing to the sum, as evenly as can be over these places, from the first on; in place."""
    while missing and len(order):
        each, rest = divmod(abs(missing), len(order))
        extra = np.full(len(order), each, np.int64)
        extra[:rest] += 1
        now = chances[order]
        changed = np.clip(now + extra if missing > 0 else now - extra, 0, ONE)
        missing -= int((changed - now).sum())
        chances[order] = changed
        order = order[(changed < ONE) & (changed > 0)]
    if missing:
        raise InputError(f"exposures must sum to the number drawn; {missing / ONE:g} is missing")


class Stream:
    """The random words of a seed, taken many at a time.

    Examples
    --------
    >>> [hex(word) for word in Stream(bytes(32)).take(2).tolist()]
    ['0x2c34ce1df23b838c', '0x5abf2a7f6437cca3']
    """

    def __init__(self, seed: bytes) -> None:
        self._seed, self._taken = seed, 0

    def take(self, number: int) -> IntArray:
        """Return the next words, as unsigned 64-bit numbers."""
        first, last = self._taken // _WORDS, -(-(self._taken + number) // _WORDS)
        seed, new = self._seed, hashlib.sha256
        data = b"".join([new(seed + block.to_bytes(8, "big")).digest() for block in range(first, last)])
        start = self._taken - first * _WORDS
        self._taken += number
        return np.frombuffer(data, ">u8")[start : start + number].astype(np.uint64)


def draw_once(chances: IntArray, stream: Stream) -> BoolArray:
    """Draw who is drawn, shape (N,), each with exactly their chance.

    Examples
    --------
    >>> draw_once(np.array([ONE // 2, ONE, 0, ONE // 2]), Stream(bytes(32)))
    array([False,  True, False,  True])
    """
    drawn, some = np.zeros(len(chances), np.bool_), np.flatnonzero(chances)
    if not len(some):
        return drawn
    start = int(stream.take(1)[0]) % ONE
    order = some[np.argsort(stream.take(len(some)), kind="stable")]
    ends = np.cumsum(chances[order])
    points = -((start - ends) // ONE)  # how many points lie before each end
    drawn[order] = np.diff(points, prepend=0) > 0
    return drawn
