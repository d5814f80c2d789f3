"""What a learner keeps of its arms, a row for each, and how that goes into a file."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from meritfair.core.checks import check_whole, float_array
from meritfair.core.errors import InputError
from meritfair.model.counts import Counts

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from meritfair.core.arrays import AnyArray, FloatArray, IntArray

__all__ = ["Known", "Planned", "Rows", "generator", "part", "plain"]

_ANY = -1  # a length that is not fixed
_SHAPES: dict[str, tuple[int, ...]] = {  # of what an arm has
    "truth": (2, 2),
    "visits": (2, 2),
    "good": (2, 2),
    "memory": (_ANY,),
    "pulled": (),
    "turn": (),
    "reported": (_ANY,),
    "states": (),
}
_BOUNDS = {  # what a step learner remembers has none
    "truth": (0, 1),
    "visits": (0, 2**53),
    "good": (0, 2**53),
    "pulled": (0, 1),
    "turn": (0, 2**53),
    "reported": (0, 2**63 - 1),
    "states": (-1, 1),
}
_FRACTIONS = ("truth", "memory", "turn")
_BITS = 63  # of a word that stays positive

_Kind = TypeVar("_Kind", bound="Known")


@dataclass
class Known:
    """What plans are made from: a row for each arm in every array."""

    truth: FloatArray  # (N, 2, 2), NaN where it is not known
    visits: IntArray  # (N, 2, 2)
    good: IntArray
    memory: FloatArray | None  # (N, m), of a step learner

    def __len__(self) -> int:
        return len(self.visits)

    @property
    def counts(self) -> Counts:
        """What was seen of the arms."""
        return Counts(self.visits, self.good)

    def _each(self: _Kind, change: Callable[[AnyArray], AnyArray]) -> _Kind:
        """Return the rows with each array changed."""
        changed: dict[str, Any] = {
            name: None if rows is None else change(rows) for name, rows in self._arrays().items()
        }
        return type(self)(**changed)

    def _arrays(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}

    def copy(self: _Kind) -> _Kind:
        """Return rows that may change by themselves."""
        return self._each(lambda rows: rows.copy())

    def only(self: _Kind, arms: Sequence[int] | IntArray) -> _Kind:
        """Return the rows of these arms alone."""
        return self._each(lambda rows: np.ascontiguousarray(rows[np.asarray(arms, np.int64)]))

    def to_dict(self) -> dict[str, Any]:
        """Return the rows as plain values; None for what nothing is known of."""
        return {name: None if _is_nothing(name, rows) else _numbers(rows) for name, rows in self._arrays().items()}

    def remembered(self, first: FloatArray) -> FloatArray:
        """Return what a step learner knows now, to be changed in place; at the first time it is a copy of `first`."""
        if self.memory is None:
            self.memory = np.array(first, order="C")
        return self.memory

    @classmethod
    def from_dict(cls: type[_Kind], values: Any, n_arms: int) -> _Kind:
        """Return the rows that `to_dict` has described, of so many arms."""
        given = {f.name: part(values, f.name) for f in dataclasses.fields(cls)}
        nothing: dict[str, Any] = {"truth": np.full((n_arms, 2, 2), np.nan), "memory": None}
        nothing["reported"] = np.zeros((n_arms, 0), np.int64)
        made = {
            name: nothing[name] if rows is None and name in nothing else _array(name, rows, n_arms)
            for name, rows in given.items()
        }
        rows = cls(**made)
        Counts(rows.visits, rows.good)  # checks that good is at most visits
        return rows


@dataclass
class Rows(Known):
    """All that is kept of the arms: a row for each in every array."""

    pulled: IntArray  # (N,), at the last round
    turn: FloatArray  # (N,), grows with the round of the last pull; those pulled together stay in line
    reported: IntArray  # (N, w), a bit for each round: whether its outcome was taken in; 0 where rounds have no number

    @classmethod
    def none(cls, truth: FloatArray) -> Rows:
        """Return the rows of arms of which nothing was seen yet."""
        n_arms = len(truth)
        visits, good = np.zeros((n_arms, 2, 2), np.int64), np.zeros((n_arms, 2, 2), np.int64)
        line = np.zeros(n_arms, np.int64), np.zeros(n_arms)
        return cls(truth, visits, good, None, *line, np.zeros((n_arms, 0), np.int64))

    def with_more(self, others: Rows) -> Rows:
        """Return these rows and those of others, without memory."""
        width = self.reported.shape[1]
        more = dataclasses.replace(others, reported=_widened(others.reported, width))
        names = (f.name for f in dataclasses.fields(self) if f.name != "memory")
        return Rows(memory=None, **{name: np.concatenate([getattr(self, name), getattr(more, name)]) for name in names})

    def put(self, place: int, known: Rows) -> None:
        """Put all but the memory of one arm in its place."""
        self.reported = _widened(self.reported, known.reported.shape[1])
        known = dataclasses.replace(known, reported=_widened(known.reported, self.reported.shape[1]))
        for name in (f.name for f in dataclasses.fields(self) if f.name != "memory"):
            getattr(self, name)[place] = getattr(known, name)[0]

    def known(self) -> Known:
        """Return a copy of what plans are made from."""
        return Known(self.truth, self.visits, self.good, self.memory).copy()

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


def _widened(words: IntArray, width: int) -> IntArray:
    """Return words with zeros behind them, at least so many for each arm."""
    return np.pad(words, ((0, 0), (0, max(0, width - words.shape[1]))))


@dataclass(frozen=True)
class Planned:
    """What a plan was made from."""

    episode: int
    round: int
    rows: Known
    states: IntArray
    luck: Mapping[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {
            "episode": self.episode,
            "round": self.round,
            "rows": self.rows.to_dict(),
            "states": self.states.tolist(),
            "luck": plain(self.luck),
        }

    @classmethod
    def from_dict(cls, values: Any, n_arms: int, last_round: int) -> Planned:
        """Return what `to_dict` has described, for so many arms."""
        states = _array("states", part(values, "states"), n_arms)
        episode = check_whole("episode", part(values, "episode"), 1, last_round + 1)
        number = check_whole("the round of the plan", part(values, "round"), 0, last_round)
        luck = part(values, "luck")
        generator(luck)  # checks it
        return cls(episode, number, Known.from_dict(part(values, "rows"), n_arms), states, luck)


def generator(state: Any) -> np.random.Generator:
    """Return a generator in a state that was kept."""
    generator = np.random.default_rng(0)
    try:
        generator.bit_generator.state = dict(state)
    except (TypeError, ValueError, KeyError, OverflowError) as error:
        raise InputError(f"luck must be the state of a PCG64 generator: {type(error).__name__}, {error}") from None
    return generator


def part(values: Any, name: str) -> Any:
    """Return what a description has under a name."""
    if not isinstance(values, Mapping) or name not in values:
        raise InputError(f"{name} is missing")
    return values[name]


def _array(name: str, given: Any, n_arms: int) -> Any:
    """Return the array of this name, if it has a row for each of so many arms and keeps its bounds."""
    array = float_array(name, given) if name in _FRACTIONS else _whole_numbers(name, given)
    shape = (n_arms, *_SHAPES[name])
    if array.ndim != len(shape) or any(b not in (a, _ANY) for a, b in zip(array.shape, shape, strict=True)):
        words = ", ".join("any" if length == _ANY else str(length) for length in shape)
        raise InputError(f"{name} must have the shape ({words}), got {array.shape}")
    low, high = _BOUNDS.get(name, (-np.inf, np.inf))
    outside = array[(array < low) | (array > high) | (np.isnan(array) & (name == "turn"))]
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


def _is_nothing(name: str, rows: AnyArray | None) -> bool:
    return rows is None or rows.size == 0 or (name == "truth" and bool(np.isnan(rows).all()))


def _numbers(rows: AnyArray) -> Any:
    """Return an array as lists; what is not finite as text, as JSON knows no such numbers."""
    if rows.dtype.kind != "f" or np.isfinite(rows).all():
        return rows.tolist()
    return np.where(np.isfinite(rows), rows.astype(object), rows.astype(str)).tolist()


def plain(value: Any) -> Any:
    """Return the state of a generator as plain values."""
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    return value.item() if isinstance(value, np.generic) else value
