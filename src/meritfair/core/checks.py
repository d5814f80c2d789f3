"""Checks of what a caller gives, each with a message that names the value and its bound."""

from __future__ import annotations

import difflib
import math
import numbers
from collections.abc import Iterable
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from meritfair.core.arrays import DateArray, FloatArray
from meritfair.core.errors import InputError
from meritfair.core.texts import listed

_Kind = TypeVar("_Kind")

_MOST_NAMES = 40  # in a message
_MOST_WORDS, _LONGEST_WORD = 1000, 100  # that a misspelt one is compared with


def check_whole(name: str, value: Any, low: int, high: int | None = None, high_words: str = "") -> int:
    """Return `value` as an int if it is a whole number between the bounds.

    Examples
    --------
    >>> check_whole("runs", 3, 1)
    3
    >>> check_whole("runs", 0, 1)
    Traceback (most recent call last):
    ...
    meritfair.core.errors.InputError: runs must be at least 1, got 0
    """
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Integral):
        raise InputError(f"{name} must be a whole number, got {value!r}")
    whole = int(value)
    if high is None and whole < low:
        raise InputError(f"{name} must be at least {low}, got {whole}")
    if high is not None and not low <= whole <= high:
        raise InputError(f"{name} must be between {low} and {high_words or high}, got {whole}")
    return whole


def check_budget(budget: Any, n_arms: int) -> int:
    """Return the budget as an int if that many distinct arms can be pulled at a step.

    Examples
    --------
    >>> check_budget(7, 5)
    Traceback (most recent call last):
    ...
    meritfair.core.errors.InputError: budget must be between 1 and the 5 arms, got 7
    """
    return check_whole("budget", budget, 1, n_arms, f"the {n_arms} arms" if n_arms > 1 else "the only arm")


def check_number(
    name: str, value: Any, low: float = -math.inf, high: float = math.inf, *, open_ends: bool = False
) -> float:
    """Return `value` as a float if it is a finite number between the bounds.

    Examples
    --------
    >>> check_number("delta", 1, 0, 1, open_ends=True)
    Traceback (most recent call last):
    ...
    meritfair.core.errors.InputError: delta must lie strictly between 0 and 1, got 1
    """
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Real):
        raise InputError(f"{name} must be a number, got {value!r}")
    number = _as_float(value)
    inside = low < number < high if open_ends else low <= number <= high
    if math.isfinite(number) and inside:
        return number
    if math.isinf(low) and math.isinf(high):
        raise InputError(f"{name} must be finite, got {value}")
    if math.isinf(high):
        raise InputError(f"{name} must be {'greater than' if open_ends else 'at least'} {low:g}, got {value}")
    raise InputError(f"{name} must lie {'strictly ' if open_ends else ''}between {low:g} and {high:g}, got {value}")


def _as_float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:  # a whole number with hundreds of digits
        return math.inf if value > 0 else -math.inf


def check_kind(name: str, value: Any, kind: type[_Kind]) -> _Kind:
    """Return `value` if it is of this class.

    Examples
    --------
    >>> check_kind("name", 3, str)
    Traceback (most recent call last):
    ...
    meritfair.core.errors.InputError: name must be a str, got 3
    """
    if not isinstance(value, kind):
        raise InputError(f"{name} must be a {kind.__name__}, got {value!r}")
    return value


def check_flag(name: str, value: Any) -> bool:
    """Return `value` as a bool if it is true or false.

    Examples
    --------
    >>> check_flag("carry_states", "no")
    Traceback (most recent call last):
    ...
    meritfair.core.errors.InputError: carry_states must be true or false, got 'no'
    """
    if not isinstance(value, (bool, np.bool_)):
        raise InputError(f"{name} must be true or false, got {value!r}")
    return bool(value)


def _suggestion(word: Any, known: Iterable[str]) -> str:
    """Return ", did you mean 'x'?" when a known word is close, else an empty string.

    Words are compared letter by letter, so that long words, or many, would take long.
    """
    if not isinstance(word, str) or len(word) > _LONGEST_WORD:
        return ""
    words = [each for each in known if len(each) <= 2 * _LONGEST_WORD]
    if len(words) > _MOST_WORDS:
        words = [each for each in words if each[:2] == word[:2]][:_MOST_WORDS]
    close = difflib.get_close_matches(word, words, n=1, cutoff=0.6)
    return f", did you mean '{close[0]}'?" if close else ""


def check_known(what: str, name: Any, known: Iterable[str], where: str = "") -> str:
    """Return `name` if it is the name of a `what` that there is; `where` says what it was named in.

    Examples
    --------
    >>> check_known("policy", "merit-fare", ["merit-fair", "random"])
    Traceback (most recent call last):
    ...
    meritfair.core.errors.InputError: there is no policy 'merit-fare', did you mean 'merit-fair'?
    """
    names = list(known)
    if isinstance(name, str) and name in names:
        return name
    place, others = (
        f"{where}: " if where else "",
        _suggestion(name, names) or f": there are {listed(names, _MOST_NAMES)}",
    )
    raise InputError(f"{place}there is no {what} {name!r}{others}")


def check_settings(owner: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Refuse a setting that its owner does not have.

    Examples
    --------
    >>> check_settings("cpap", ["nois"], ["noise", "variant"])
    Traceback (most recent call last):
    ...
    meritfair.core.errors.InputError: cpap has no setting 'nois', did you mean 'noise'?
    """
    names = list(known)
    has = f"; its settings are {', '.join(names)}" if names else "; it has none"
    for setting in given:
        if setting not in names:
            raise InputError(f"{owner} has no setting {setting!r}{_suggestion(setting, names) or has}")


def check_choice(name: str, value: Any, choices: Iterable[str]) -> str:
    """Return `value` if it is one of the choices.

    Examples
    --------
    >>> check_choice("estimate", "optimist", ["optimistic", "mean"])
    Traceback (most recent call last):
    ...
    meritfair.core.errors.InputError: estimate must be one of optimistic, mean, got 'optimist', did you mean ...
    """
    known = list(choices)
    if isinstance(value, str) and value in known:
        return value
    one_of = f"one of {', '.join(known)}" if len(known) > 1 else f"'{known[0]}'"
    raise InputError(f"{name} must be {one_of}, got {value!r}{_suggestion(value, known)}")


def float_array(name: str, value: npt.ArrayLike) -> FloatArray:
    """Return `value` as a float64 array, refusing what is not numbers."""
    try:
        return np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"{name} must be an array of numbers: {error}") from None


def probabilities(name: str, value: npt.ArrayLike) -> FloatArray:
    """Return `value` as a float64 array if every number lies between 0 and 1.

    Examples
    --------
    >>> probabilities("floor", [0.1, -0.2])
    Traceback (most recent call last):
    ...
    meritfair.core.errors.InputError: floor must lie between 0 and 1, got -0.2
    """
    array = float_array(name, value)
    wrong = ~((array >= 0) & (array <= 1))  # also true for NaN
    if np.any(wrong):
        raise InputError(f"{name} must lie between 0 and 1, got {array[wrong][0]:g}")
    return array


def check_dates(name: str, dates: DateArray) -> DateArray:
    """Return dates by day, or by month if they are months; refuse missing ones, and a time of day.

    Examples
    --------
    >>> check_dates("rounds", np.array(["2026-03-02T09:30"], "datetime64[s]"))
    Traceback (most recent call last):
    ...
    meritfair.core.errors.InputError: rounds must be dates without a time of day, got 2026-03-02T09:30:00
    """
    if np.isnat(dates).any():
        raise InputError(f"{name} must be dates, got NaT")
    if np.datetime_data(dates.dtype)[0] == "M":
        return dates
    days = dates.astype("datetime64[D]")
    if (days != dates).any():
        raise InputError(f"{name} must be dates without a time of day, got {dates[days != dates][0]}")
    return days


def check_merit(merit: npt.ArrayLike) -> FloatArray:
    """Return merits as an array if each is positive and finite."""
    g = float_array("merit", merit)
    if g.ndim == 0 or g.shape[-1] == 0:
        raise InputError(f"merit must hold one number for each arm, got shape {g.shape}")
    wrong = ~(np.isfinite(g) & (g > 0))
    if np.any(wrong):
        at = np.argwhere(wrong)[0]
        raise InputError(f"merit must be positive and finite, got {g[tuple(at)]} for arm {at[-1]}")
    return g
