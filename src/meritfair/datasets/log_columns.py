"""The columns of a log as arrays: checked, with dates counted in rounds, and rounds without a row filled in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from meritfair.core.arrays import AnyArray, DateArray, FloatArray, IntArray
from meritfair.core.checks import check_dates, float_array
from meritfair.core.errors import InputError, RowError
from meritfair.core.machine import check_memory
from meritfair.core.tables import EMPTY, Labels, numbered
from meritfair.core.texts import several

LARGEST_ROUND = 2**53 - 1  # as a float, no other whole number is rounded to it
_MAY_BE_UNKNOWN = {"states": "0 or 1, or -1 if not observed", "actions": "0 or 1, or -1 if not recorded"}


def check_actions(columns: Mapping[str, AnyArray], order: IntArray, names: Sequence[str], reach: float) -> None:
    """Refuse an empty action if the arm has a row within so many rounds; `order` says where each sorted row stood."""
    arm, rounds, actions = columns["arm"], columns["rounds"], columns["actions"]
    followed = (arm[1:] == arm[:-1]) & (np.diff(rounds.astype(np.float64)) <= reach)
    open_ended = np.flatnonzero(followed & (actions[:-1] < 0))
    if len(open_ended):
        at = open_ended[np.argmin(order[open_ended])]
        row, after = order[at], order[at + 1]
        problem = f"is empty, but the arm {names[arm[at]]!r} has its next round, {columns['dates'][at + 1]}, in"
        raise RowError(row, "action", problem, after)


_UNKNOWN = {"states": EMPTY, "actions": 0, "drawn": EMPTY, "exposure": np.nan, "due": np.nan}


def with_absent(columns: dict[str, AnyArray]) -> tuple[dict[str, AnyArray], int]:
    """Return sorted columns with a row for each round between two rows of an arm, and how many were added."""
    arm, rounds, dates = columns["arm"], columns["rounds"], columns["dates"]
    missing = np.where(arm[1:] == arm[:-1], np.diff(rounds.astype(np.float64)) - 1, 0.0)
    check_memory("a row for each round between two rows of an arm", int(100 * missing.sum()), "the distance of rounds")
    more = missing.astype(np.int64)
    total = int(more.sum())
    into = np.arange(len(arm)) + np.r_[0, np.cumsum(more)]
    added = np.delete(np.arange(len(arm) + total), into)
    before = np.repeat(np.arange(len(arm) - 1), more)
    wide: dict[str, AnyArray] = {}
    for name, column in columns.items():
        wide[name] = np.empty(len(arm) + total, column.dtype)
        wide[name][into] = column
        if name in _UNKNOWN:
            wide[name][added] = _UNKNOWN[name]
    since = added - into[before]
    wide["arm"][added], wide["rounds"][added] = arm[before], rounds[before] + since
    if dates.dtype.kind == "M":
        apart = (dates[before + 1] - dates[before]) // (rounds[before + 1] - rounds[before])
        wide["dates"][added] = dates[before] + since * apart
    else:
        wide["dates"] = wide["rounds"]
    return wide, total


def of_arms(name: str, values: Sequence[object] | Labels, arm: IntArray, arms: Sequence[str]) -> tuple[str, ...]:
    """Return a feature of each arm as text; refuse one that is not the same in all rows of an arm."""
    if len(values) != len(arm):
        raise InputError(
            f"the feature {name!r} must have one value for each row, got {len(values)} for {len(arm)} rows"
        )
    texts, number = _texts(values)
    _, first = np.unique(arm, return_index=True)
    moved = np.flatnonzero(number != number[first][arm])
    if len(moved):
        row = int(moved[0])
        before = first[arm[row]]
        problem = f"the arm {arms[arm[row]]!r} has {texts[number[row]]!r} here, but {texts[number[before]]!r} in"
        raise RowError(row, name, problem, before)
    return tuple(texts[k] for k in number[first].tolist())


def _texts(values: Sequence[object] | Labels) -> tuple[tuple[str, ...], IntArray]:
    """Return the different values of a feature as text, without spaces around them, and the number of each row's."""
    if isinstance(values, Labels):
        texts, number = _texts(values.names)
        return texts, number[values.numbers]
    return numbered("" if value is None or value != value else str(value).strip() for value in values)


def round_array(rounds: npt.ArrayLike) -> AnyArray:
    """Return rounds as whole numbers or, if they are dates, as datetime64."""
    given = np.asarray(rounds)
    if given.dtype.kind == "M":
        return given
    if given.dtype.kind == "i":
        return _as_days(given.astype(np.int64))
    numbers = float_array("rounds", rounds)
    wrong = numbers[~((np.abs(numbers) <= LARGEST_ROUND) & (numbers == np.round(numbers)))]
    if wrong.size:
        raise InputError(f"rounds must hold whole numbers below 2^53, got {wrong.flat[0]}")
    return _as_days(numbers.astype(np.int64))


def _as_days(numbers: IntArray) -> AnyArray:
    """Return whole numbers as days if each is one of 1900 to 2099, written YYYYMMDD; otherwise as they are."""
    year, month, day = numbers // 10000, numbers // 100 % 100, numbers % 100
    if not (numbers.size and ((year >= 1900) & (year < 2100) & (month >= 1) & (month <= 12) & (day >= 1)).all()):
        return numbers
    months = (12 * (year - 1970) + month - 1).astype("datetime64[M]")
    days = months.astype("datetime64[D]") + (day - 1)
    return days if (days.astype("datetime64[M]") == months).all() else numbers


def regular(dates: DateArray) -> DateArray:
    """Return dates by day, or by month if all are of the same day of different months."""
    days, months = check_dates("rounds", dates), dates.astype("datetime64[M]")
    same_day = len(np.unique(days - months.astype(days.dtype))) == 1
    return months if same_day and len(np.unique(months)) > 1 else days


def count_rounds(dates: DateArray, arm: IntArray, names: Sequence[str]) -> tuple[IntArray, str]:
    """Return the rounds of dates, from 0, and how long one is: what most often lies between two rows of an arm."""
    word = {"D": "day", "M": "month"}[np.datetime_data(dates.dtype)[0]]
    place = (dates - dates.min()).astype(np.int64)
    order = np.lexsort((place, arm))
    apart = np.where(np.diff(arm[order]) == 0, np.diff(place[order]), 0)
    lengths, often = np.unique(apart[apart > 0], return_counts=True)
    length = int(lengths[np.argmax(often)]) if len(lengths) else 1
    odd = np.flatnonzero(apart % length)
    if len(odd):
        at = odd[np.argmin(order[odd + 1])]
        mostly = f"mostly {several(length, word)} apart (weeks can be written 2026-W10, months 2026-03)"
        here = f"{names[arm[order[at]]]!r} is here {several(int(apart[at]), word)} after"
        raise RowError(order[at + 1], "round", f"rounds are {mostly}, but {here}", order[at])
    return place // length, several(length, word)


def bit_array(name: str, values: Any) -> IntArray:
    """Return a column of 0 and 1, with -1 where something is not known."""
    numbers = float_array(name, values)
    numbers = np.where(np.isnan(numbers), float(EMPTY), numbers)
    wrong = np.flatnonzero(~np.isin(numbers, (EMPTY, 0, 1)))
    if len(wrong):
        allowed = _MAY_BE_UNKNOWN.get(name, "0 or 1, or -1 if not known")
        raise InputError(f"{name} must be {allowed}, got {numbers.flat[wrong[0]]:g} in row {wrong[0]}")
    return numbers.astype(np.int64)


def probability_array(name: str, values: Any) -> FloatArray:
    """Return a column of probabilities, with NaN where something is not known."""
    numbers = float_array(name, values)
    wrong = np.flatnonzero(~((numbers >= 0) & (numbers <= 1) | np.isnan(numbers)))
    if len(wrong):
        raise InputError(f"{name} must lie between 0 and 1, got {numbers.flat[wrong[0]]:g} in row {wrong[0]}")
    return numbers
