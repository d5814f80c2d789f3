"""One value for each arm, from whatever a user has: a list, an array, a pandas Series, a mapping by name.

What is labelled by name is aligned by name, and arms without a label are unknown. What has no labels, or only the
numbers 0, 1, 2, … that pandas gives by itself, is taken by position. pandas is not needed.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from meritfair.core.arrays import FloatArray, IntArray
from meritfair.core.checks import check_known, float_array
from meritfair.core.errors import InputError

UNKNOWN = -1
Bits: TypeAlias = "npt.ArrayLike | Sequence[float | None] | Mapping[str, float | None]"  # 0 and 1, or missing


def bits(name: str, values: Bits | None, names: Sequence[str], departed: Container[str] = ()) -> IntArray:
    """Return one 0 or 1 for each arm, -1 where it is not known: None, NaN, -1, pandas' NA, masked, or no label.

    Values for unknown names are refused, and those `departed` have a message of their own.

    Examples
    --------
    >>> bits("states", {"Cy": 1, "Ada": 0}, ["Ada", "Bo", "Cy"])
    array([ 0, -1,  1])
    >>> bits("states", {"Adda": 1}, ["Ada", "Bo", "Cy"])
    Traceback (most recent call last):
    ...
    meritfair.core.errors.InputError: states: there is no arm 'Adda', did you mean 'Ada'?
    """
    if values is None:
        return np.full(len(names), UNKNOWN)
    given = _in_order(name, values, names, departed)
    if given.shape != (len(names),):
        raise InputError(f"{name} must have one value for each of the {len(names)} arms, got shape {given.shape}")
    known = np.where(np.isnan(given), UNKNOWN, given)
    wrong = np.flatnonzero((known != UNKNOWN) & (known != 0) & (known != 1))
    if len(wrong):
        raise InputError(f"{name} must be 0 or 1, or missing, got {given[wrong[0]]:g} for {names[wrong[0]]!r}")
    return known.astype(np.int64)


def _in_order(name: str, values: Any, names: Sequence[str], departed: Container[str]) -> FloatArray:
    """Return the numbers in the order of the arms, NaN where one is missing."""
    labels = _labels(values)
    given = _numbers(name, list(values.values()) if isinstance(values, Mapping) else values)
    if labels is None or given.shape != (len(labels),):
        return given
    place = {each: i for i, each in enumerate(names)}
    ordered, seen = np.full(len(names), np.nan), set()
    for label, number in zip(labels, given.tolist(), strict=True):
        if label in departed:
            raise InputError(f"{name}: {label!r} has left, and must join again first")
        if label not in place:
            check_known("arm", label, names, where=name)
        if label in seen:
            raise InputError(f"{name} must have one value for each arm, got two for {label!r}")
        seen.add(label)
        ordered[place[label]] = number
    return ordered


def _labels(values: Any) -> list[Any] | None:
    """Return the names that values are labelled with, if they are."""
    index = values if isinstance(values, Mapping) else getattr(values, "index", None)
    if index is None or callable(index):  # that of a list is a method
        return None
    labels = list(index)
    by_position = not isinstance(values, Mapping) and labels == list(range(len(labels)))
    return None if by_position else labels


def _numbers(name: str, values: Any) -> FloatArray:
    """Return an array of numbers, NaN where one is missing."""
    try:
        if isinstance(values, np.ma.MaskedArray):
            given = np.ma.filled(values.astype(object), np.nan)
        else:
            given = np.asarray(values) if hasattr(values, "__array__") else np.array(values, dtype=object)
    except ValueError as error:  # rows of different lengths
        raise InputError(f"{name} must be an array of numbers: {error}") from None
    if given.dtype == object:
        missing = np.fromiter(map(_is_missing, given.flat), np.bool_, given.size).reshape(given.shape)
        given = np.where(missing, np.nan, given)
    return float_array(name, given)


def _is_missing(value: Any) -> bool:
    """Return whether this is None, NaN, NaT, pandas' NA or masked."""
    if value is None or value is np.ma.masked:
        return True
    differs = value != value  # as NaN and NaT do from themselves
    return bool(differs) if isinstance(differs, (bool, np.bool_)) else differs is value  # NA compares as itself
