"""What a learner keeps of its arms, a row for each in every array, as its file has it."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from meritfair.core.arrays import AnyArray, FloatArray, Int8Array, IntArray
from meritfair.core.checks import float_array
from meritfair.core.errors import InputError
from meritfair.model.counts import Counts
from meritfair.policies.track import from_text, to_text

_BITS = 63  # of a word that stays positive
_NEVER = -1  # joined


# What each array holds of an arm: a shape, where None is any length, of which numbers, and their bounds.
_COLUMNS: dict[str, tuple[tuple[int | None, ...], type, float, float]] = {
    "truth": ((2, 2), float, 0, 1),
    "visits": ((2, 2), float, 0, 2**53),
    "good": ((2, 2), float, 0, 2**53),
    "memory": ((None,), float, -np.inf, np.inf),
    "pulled": ((), int, 0, 1),
    "turn": ((), float, 0, 2**53),
    "reported": ((None,), int, 0, 2**63 - 1),
    "account": ((), float, -(2**53), 2**53),
    "joined": ((), int, _NEVER, 2**53),
    "states": ((), int, -1, 1),
}

_ZERO_AT_FIRST = ("account", "joined", "track")


@dataclass
class Known:
    """What plans are made from."""

    truth: FloatArray  # (N, 2, 2), NaN where it is not known
    visits: IntArray | FloatArray  # (N, 2, 2)
    good: IntArray | FloatArray
    memory: FloatArray | None  # (N, m), of a step learner

    def __len__(self) -> int:
        return len(self.visits)

    @property
    def counts(self) -> Counts:
        """What was seen of the arms."""
        return Counts(self.visits, self.good)

    def only(self, arms: Sequence[int] | IntArray) -> Self:
        """Return the rows of these arms alone."""
        places = np.asarray(arms, np.int64)
        own: dict[str, Any] = {name: None if rows is None else rows[places] for name, rows in vars(self).items()}
        return type(self)(**own)

    def to_dict(self) -> dict[str, Any]:
        """Return the rows as plain values; None where nothing is known, or there is nothing yet."""
        arrays = vars(self) | {"truth": None if np.isnan(self.truth).all() else self.truth}
        empty = {name for name, rows in arrays.items() if rows is None or rows.size == 0}
        empty |= {name for name in _ZERO_AT_FIRST if name in arrays and not arrays[name].any()}
        plain = {"track": to_text}
        return {name: None if name in empty else plain.get(name, _numbers)(rows) for name, rows in arrays.items()}

    @classmethod
    def from_dict(cls, values: Any, n_arms: int) -> Self:
        """Return the rows that `to_dict` has described, of that many arms."""
        nothing, rows = vars(Rows.none(n_arms)), dict[str, Any]()
        for field in dataclasses.fields(cls):
            given = part(values, field.name)
            unknown = given is None and field.name in ("truth", "memory", "reported", *_ZERO_AT_FIRST)
            made = from_text if field.name == "track" else functools.partial(array_of, field.name)
            rows[field.name] = nothing[field.name] if unknown else made(given, n_arms)
        seen = Counts(rows["visits"], rows["good"])  # checks that good is at most visits
        return cls(**rows | {"visits": seen.visits.copy(), "good": seen.good.copy()})


@dataclass
class Rows(Known):
    """All that is kept of the arms."""

    pulled: IntArray  # (N,), at the last round
    turn: FloatArray  # (N,), grows with the round of the last pull; those pulled together stay in line
    reported: IntArray  # (N, w), a bit for each round: whether its outcome was taken in; 0 where rounds have no number
    account: FloatArray  # (N,), what was due so far, less what was given
    joined: IntArray  # (N,), how many rounds there were before it joined; -1 if it never did
    track: Int8Array  # (N, R), what was reported and chosen in each round, as in :mod:`meritfair.policies.track`

    @classmethod
    def none(cls, n_arms: int, truth: FloatArray | None = None) -> Rows:
        """Return the rows of arms who are there from the first round on, and of whom nothing was seen yet."""
        known = np.full((n_arms, 2, 2), np.nan) if truth is None else truth.copy()
        visits, good = np.zeros((2, n_arms, 2, 2), np.int64)
        (pulled, joined), (turn, account) = np.zeros((2, n_arms), np.int64), np.zeros((2, n_arms))
        reported, track = visits[:, 0, :0].copy(), np.zeros((n_arms, 0), np.int8)
        return cls(known, visits, good, None, pulled, turn, reported, account, joined, track)

    @classmethod
    def stranger(cls) -> Rows:
        """Return the row of an arm that has not joined yet."""
        return dataclasses.replace(cls.none(1), joined=np.full(1, _NEVER))

    @classmethod
    def together(cls, parts: Sequence[Rows]) -> Rows:
        """Return all rows in order, without memory."""
        width, length = (
            max(x.shape[1] for x in arrays) for arrays in zip(*((p.reported, p.track) for p in parts), strict=True)
        )
        wide = [vars(p) | {"reported": _widened(p.reported, width), "track": _widened(p.track, length)} for p in parts]
        names = [field.name for field in dataclasses.fields(cls) if field.name != "memory"]
        return cls(memory=None, **{name: np.concatenate([rows[name] for rows in wide]) for name in names})

    def note_joined(self, number: int) -> None:
        """Note after how many rounds those have joined who never had."""
        self.joined[self.joined == _NEVER] = number

    @property
    def last_pull(self) -> IntArray:
        """The round in which each was last pulled, 0 if never; shape (N,)."""
        return self.turn.astype(np.int64)

    def note_pulls(self, arms: IntArray, number: int, rng: np.random.Generator) -> None:
        """Note who is pulled in a round, and move them to the end of the line: in order, those level in any order."""
        order = np.lexsort((rng.random(len(arms)), self.turn[arms]))
        self.turn[arms[order]] = number + np.arange(len(arms)) / len(arms)
        self.pulled[:] = np.isin(np.arange(len(self)), arms)

    def slots(self, column: int) -> Int8Array:
        """Return what is known of a round, a column of the track, to look at and to change."""
        self.track = _widened(self.track, column + 1)
        return self.track[:, column]

    def was_reported(self, arms: IntArray, number: int) -> IntArray:
        """Return 1 for those of these arms whose outcome of a round was taken in, else 0."""
        word, bit = divmod(number - 1, _BITS)
        if word >= self.reported.shape[1]:
            return np.zeros(len(arms), np.int64)
        return np.asarray(self.reported[arms, word] >> bit & 1)

    @property
    def last_reported(self) -> int:
        """The last round of which any outcome was taken in, 0 if there is none."""
        words = np.bitwise_or.reduce(self.reported, axis=0).tolist()
        return max((word * _BITS + bits.bit_length() for word, bits in enumerate(words) if bits), default=0)

    def note_reported(self, arms: IntArray, number: int) -> None:
        """Note that the outcomes of these arms in a round were taken in."""
        word, bit = divmod(number - 1, _BITS)
        self.reported = _widened(self.reported, word + 1)
        self.reported[arms, word] |= 1 << bit


def _widened(words: Any, width: int) -> Any:
    """Return words with zeros behind them, at least that many for each arm."""
    more = width - words.shape[1]
    return np.pad(words, ((0, 0), (0, more))) if more > 0 else words


def part(values: Any, name: str) -> Any:
    """Return what a description has under a name."""
    if not isinstance(values, Mapping) or name not in values:
        raise InputError(f"{name} is missing")
    return values[name]


def array_of(name: str, given: Any, n_arms: int) -> Any:
    """Return the array of this name, if it has a row for each of that many arms and keeps its bounds."""
    own, kind, low, high = _COLUMNS[name]
    array, shape = (_whole_numbers if kind is int else float_array)(name, given), (n_arms, *own)
    if array.ndim != len(shape) or any(b not in (a, None) for a, b in zip(array.shape, shape, strict=True)):
        words = ", ".join("any" if length is None else str(length) for length in shape)
        raise InputError(f"{name} must have the shape ({words}), got {array.shape}")
    outside = array[(array < low) | (array > high) | (np.isnan(array) & (name in ("turn", "account")))]
    if outside.size:
        raise InputError(f"{name} must be between {low} and {high}, got {outside.flat[0]}")
    return np.array(array, order="C")


def _whole_numbers(name: str, given: Any) -> IntArray:
    try:
        array = np.array(given)
    except (ValueError, OverflowError) as error:  # rows of different lengths
        raise InputError(f"{name} must be an array of whole numbers: {error}") from None
    if array.dtype.kind != "i" and array.size:
        raise InputError(f"{name} must be an array of whole numbers, got {array.flat[0]!r} in it")
    return array.astype(np.int64)


def _numbers(rows: AnyArray) -> Any:
    """Return an array as lists; what is not finite as text, as JSON knows no such numbers."""
    if rows.dtype.kind != "f" or np.isfinite(rows).all():
        return rows.tolist()
    return np.where(np.isfinite(rows), rows.astype(object), rows.astype(str)).tolist()
