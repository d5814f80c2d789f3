r"""What is known of arms when they enrol (age, language, district), and how it becomes columns of numbers.

A feature has a value for each arm, text or a number, or none. If all values that there are are numbers, it is *numeric*
and becomes one column :math:`(v - m) / \sigma`, with the mean :math:`m` and standard deviation :math:`\sigma` of all
arms; otherwise each of its values is a *level*, and becomes a column that is 1 for those who have it, less the mean of
all arms. So 0 in every column is an arm of which nothing is known: it counts as the average.

What is repaired, and counted by `Encoding.unknown`:

- a level that fewer than three arms have, or that a newcomer is the first to have, counts as not known; so does text
  in a numeric feature;
- a number more than three standard deviations from the mean counts as three.

A value that is missing counts as not known too, but where at least three arms lack it, lacking it is a column of its
own, as it may tell something. A feature in which all arms are alike has no columns. Codes that are numbers (a district
4) are taken for numbers; write text (district-4) if they are not.
"""

from __future__ import annotations

import math
import numbers
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from meritfair.core.arrays import FloatArray, IntArray
from meritfair.core.checks import check_known
from meritfair.core.errors import InputError

MISSING = ""
LEAST_ARMS = 3  # that share a level, for it to count
MOST_LEVELS = 60  # of a feature
LONGEST = 200  # characters of a value
_FURTHEST = 3.0  # standard deviations from the mean


@dataclass(frozen=True, init=False, eq=False)
class Features:
    """The features of each arm, as text; empty where a value is missing.

    Parameters
    ----------
    columns : mapping of str to sequence
        For each feature a value for each arm: text or a number; None, NaN or empty text where it is missing.
    n_arms : int, optional
        How many arms there are; by default as many as there are values.

    Examples
    --------
    >>> known = Features({"age": [34, 61, None], "language": ["Hindi", "Marathi", "Hindi"]})
    >>> known
    Features(3 arms: age, language)
    >>> known.of(1)
    {'age': '61', 'language': 'Marathi'}
    """

    columns: Mapping[str, tuple[str, ...]]
    n_arms: int

    def __init__(self, columns: Mapping[str, Sequence[Any]], n_arms: int | None = None) -> None:
        if not isinstance(columns, Mapping):
            raise InputError(f"features must be a mapping of names to values, got {type(columns).__name__}")
        texts = {_name(name): _texts(name, values) for name, values in columns.items()}
        lengths = {name: len(values) for name, values in texts.items()}
        number = next(iter(lengths.values()), 0) if n_arms is None else n_arms
        for name, length in lengths.items():
            if length != number:
                raise InputError(
                    f"the feature {name!r} must have one value for each of the {number} arms, got {length}"
                )
        object.__setattr__(self, "columns", texts)
        object.__setattr__(self, "n_arms", number)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the features."""
        return tuple(self.columns)

    def __len__(self) -> int:
        return self.n_arms

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)

    def __getitem__(self, name: str) -> tuple[str, ...]:
        return self.columns[check_known("feature", name, self.columns)]

    def __repr__(self) -> str:
        return f"Features({self.n_arms} arm{'s' * (self.n_arms != 1)}: {', '.join(self.columns) or 'none'})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Features):
            return NotImplemented
        return self.n_arms == other.n_arms and dict(self.columns) == dict(other.columns)

    def __hash__(self) -> int:
        return hash((self.n_arms, tuple(sorted(self.columns.items()))))

    def of(self, arm: int) -> dict[str, str]:
        """Return the features of one arm, by its place."""
        return {name: values[arm] for name, values in self.columns.items()}

    def only(self, names: Iterable[str]) -> Features:
        """Return some of the features; a name that there is not is refused."""
        return Features({name: self[name] for name in names}, self.n_arms)

    def rows(self, arms: Sequence[int] | IntArray) -> Features:
        """Return the features of some arms, by their places."""
        places = np.asarray(arms, np.int64).tolist()
        return Features({name: [values[i] for i in places] for name, values in self.columns.items()}, len(places))

    @cached_property
    def numeric(self) -> frozenset[str]:
        """Which features are numeric: those of which at least one value is there, and all that are are numbers."""
        return frozenset(name for name, values in self.columns.items() if _all_numbers(values))

    def numbers(self, name: str) -> FloatArray:
        """Return a feature as numbers, NaN where it is missing or text; shape (N,)."""
        return np.array([_number(value) for value in self[name]], np.float64)


@dataclass(frozen=True)
class Column:
    """One column of an encoding: a number, a level, or that the value is missing; less its centre, by its scale."""

    feature: str
    kind: str  # "number", "level" or "missing"
    level: str
    centre: float
    scale: float = 1.0


@dataclass(frozen=True)
class Encoding:
    """How features become numbers, fixed once, so that it can be applied to newcomers.

    Examples
    --------
    >>> known = Features({"age": [30, 40, 50, 60], "sex": ["f", "m", "f", "f"]})
    >>> Encoding.of(known).encode(known).round(2)
    array([[-1.34],
           [-0.45],
           [ 0.45],
           [ 1.34]])

    The level "m" of a single arm counts as not known, and all others are alike.
    """

    columns: tuple[Column, ...]
    names: tuple[str, ...]

    @classmethod
    def of(cls, features: Features) -> Encoding:
        """Return the encoding that suits these arms; their order does not matter."""
        found = [column for name in features for column in _columns_of(name, features)]
        return cls(tuple(found), features.names)

    def only(self, names: Iterable[str]) -> Encoding:
        """Return the encoding of some of the features alone."""
        kept = tuple(names)
        return Encoding(tuple(column for column in self.columns if column.feature in kept), kept)

    def encode(self, features: Features) -> FloatArray:
        """Return the columns of these arms, shape (N, P); 0 where a value is not known."""
        found = [self._encoded(column, features) for column in self.columns]
        return np.column_stack(found) if found else np.zeros((features.n_arms, 0))

    def unknown(self, features: Features) -> dict[str, int]:
        """Return for each feature how many arms have a value that counts as not known, though it is not missing."""
        counted = {name: sum(not self._knows(name, value) for value in features[name]) for name in self.names}
        return {name: number for name, number in counted.items() if number}

    @cached_property
    def _kinds(self) -> dict[str, frozenset[str]]:
        return {name: frozenset(each.kind for each in self.columns if each.feature == name) for name in self.names}

    @cached_property
    def _levels(self) -> dict[str, frozenset[str]]:
        levels = {name: {each.level for each in self.columns if each.feature == name} for name in self.names}
        return {name: frozenset(values) for name, values in levels.items()}

    def _knows(self, name: str, value: str) -> bool:
        """Whether a value has an effect, or is missing; all values of a feature without columns do as they are."""
        if value == MISSING or not self._kinds[name]:
            return True
        return not math.isnan(_number(value)) if "number" in self._kinds[name] else value in self._levels[name]

    def _encoded(self, column: Column, features: Features) -> FloatArray:
        if column.kind == "number":
            values = features.numbers(column.feature)
            z = np.clip((values - column.centre) / column.scale, -_FURTHEST, _FURTHEST)
            return np.where(np.isnan(values), 0.0, z)
        texts = features[column.feature]
        has = np.array([value == column.level for value in texts], np.float64)
        known = np.array([self._is_told(column, value) for value in texts], np.bool_)
        return np.where(known, has - column.centre, 0.0)

    def _is_told(self, column: Column, value: str) -> bool:
        """Whether a value says of a column of levels, or of that for missing values, what is in it."""
        if column.kind == "missing":
            return self._knows(column.feature, value)
        return value in self._levels[column.feature]


def _columns_of(name: str, features: Features) -> list[Column]:
    """Return the columns of one feature; none if all arms are alike in it."""
    texts, n_arms = features[name], features.n_arms
    often = Counter(texts)
    missing = often.pop(MISSING, 0)
    columns = []
    if name in features.numeric:
        values = np.sort(features.numbers(name))[: n_arms - missing]  # NaN comes last; sums in one order
        spread = float(values.std())
        if spread > 0 and math.isfinite(spread):
            columns.append(Column(name, "number", MISSING, float(values.mean()), spread))
    else:
        _check_levels(name, len(often))
        kept = sorted(level for level, number in often.items() if number >= LEAST_ARMS)
        told = sum(often[level] for level in kept) + (missing if missing >= LEAST_ARMS else 0)
        columns.extend(Column(name, "level", level, often[level] / told) for level in kept if often[level] < told)
    if LEAST_ARMS <= missing <= n_arms - LEAST_ARMS:
        columns.append(Column(name, "missing", MISSING, missing / n_arms))
    return columns


def _check_levels(name: str, found: int) -> None:
    if found > MOST_LEVELS:
        raise InputError(
            f"the feature {name!r} must have at most {MOST_LEVELS} different values, got {found}: "
            "group them, or leave it out if it names single arms"
        )


def _name(name: Any) -> str:
    if not isinstance(name, str) or not name.strip() or len(name) > LONGEST:
        raise InputError(f"the name of a feature must be text of at most {LONGEST} characters, got {name!r}")
    return name


def _texts(name: str, values: Any) -> tuple[str, ...]:
    """Return the values of a feature as text."""
    if isinstance(values, (str, bytes, Mapping)) or not isinstance(values, Iterable):
        raise InputError(f"the feature {name!r} must have a value for each arm, got {values!r}")
    return tuple(text_of(name, value) for value in values)


def text_of(name: str, value: Any) -> str:
    """Return the value of a feature as text: whole numbers without a point, what is missing as nothing.

    Examples
    --------
    >>> text_of("age", 34.0), text_of("age", float("nan")), text_of("language", " Hindi ")
    ('34', '', 'Hindi')
    """
    if _is_missing(value):
        return MISSING
    if isinstance(value, (bool, np.bool_)):
        return str(bool(value))
    if isinstance(value, numbers.Real):
        number = float(value)
        if not math.isfinite(number):
            raise InputError(f"the feature {name!r} must be finite, got {value}")
        return str(int(number)) if number.is_integer() else repr(number)
    if not isinstance(value, str):
        raise InputError(f"the feature {name!r} must be text or a number, got {value!r}")
    text = value.strip()
    if len(text) > LONGEST:
        raise InputError(f"the feature {name!r} must have at most {LONGEST} characters, got {len(text)}")
    return text


def _is_missing(value: Any) -> bool:
    """Return whether this is None, NaN, or pandas' NA, which compares as itself."""
    differs = None if value is None else value != value
    return bool(differs) if isinstance(differs, (bool, np.bool_)) else differs is value


def _number(text: str) -> float:
    """Return the finite number that a text is, or NaN."""
    try:
        found = float(text)
    except ValueError:
        return math.nan
    return found if math.isfinite(found) else math.nan


def _all_numbers(values: Sequence[str]) -> bool:
    there = {value for value in values if value != MISSING}
    return bool(there) and not any(math.isnan(_number(value)) for value in there)
