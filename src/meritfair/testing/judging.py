r"""When two things are the same: exactly, but for rounding, or in distribution.

**What is random** is judged by inequalities that hold for any number of terms, not only in the limit of many. So a
policy that is in order fails by bad luck with a probability below :math:`\alpha = 10^{-6}`, which is shared by the m
comparisons of a check.

- A sum of terms, each of mean 0 given those before it and within an interval of length :math:`r_j`, is held against
  Hoeffding's inequality,

  .. math:: \Pr\Big(\Big|\sum_j x_j\Big| > \sqrt{\tfrac12 \ln(2m/\alpha) \textstyle\sum_j r_j^2}\Big) \le \alpha / m .

  Such terms are a pull less its stated exposure, with :math:`r = 1`; and the pulls of an arm less the mean of arms that
  are alike, each of whom is as likely to be the one with most: r is the difference of the most and the least.
- Two independent numbers that have one law if all is well differ by d as likely as by -d. So n such differences are
  held against Chernoff's bound for random signs,

  .. math::
      \Pr\Big(\Big|\sum_j \pm d_j\Big| \ge t\Big) \le 2 \min_{\lambda > 0} e^{-\lambda t} \prod_j \cosh(\lambda d_j) .
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from meritfair.core.arrays import AnyArray, FloatArray, IntArray
from meritfair.policies.learner import Choice
from meritfair.policies.plans import Plan

ALPHA = 1e-6
EXACT = 1e-9  # what is not random may differ by rounding


class ConformanceError(AssertionError):
    """A policy does not do what every policy must do."""


def fail(message: str) -> NoReturn:
    """Say what must hold and does not."""
    raise ConformanceError(message)


def limit(lengths: npt.ArrayLike, comparisons: int) -> FloatArray:
    """Return what a sum of terms of mean 0 within intervals of these lengths, down axis 0, exceeds hardly ever.

    Examples
    --------
    >>> limit(np.ones(100), comparisons=1).round(1)
    np.float64(26.9)
    """
    squares = np.sum(np.square(np.asarray(lengths, np.float64)), axis=0)
    return np.asarray(np.sqrt(math.log(2 * comparisons / ALPHA) / 2 * squares))[()]


def differ(first: AnyArray, second: AnyArray) -> IntArray:
    """Return which columns of two samples of n rows are not of one law, by the signs of their differences.

    Examples
    --------
    >>> before = np.arange(30)[:, None] % [3, 5]
    >>> differ(before, before[::-1] + [0, 9])
    array([1])
    """
    apart = np.abs(first - second).astype(np.float64)
    size = np.maximum(apart.max(axis=0), np.finfo(float).tiny)
    apart, total = apart / size, np.abs((first - second).sum(axis=0)) / size
    slopes = np.logspace(-3, 3, 61)[:, None, None]
    log_cosh = np.logaddexp(slopes * apart, -slopes * apart) - math.log(2)
    bound = (log_cosh.sum(axis=1) - slopes[:, 0] * total).min(axis=0) + math.log(2)
    return np.flatnonzero(bound < math.log(ALPHA / apart.shape[1]))


def same(first: Any, second: Any) -> bool:
    """Return whether two numbers, arrays or words are the same, but for rounding."""
    one, other = np.asarray(first), np.asarray(second)
    if {one.dtype.kind, other.dtype.kind} & set("OU"):  # None, or words
        return np.array_equal(one, other)
    return one.shape == other.shape and np.allclose(one, other, EXACT, EXACT, equal_nan=True)


def parts(plan: Plan) -> dict[str, Any]:
    """Return what a plan consists of, but for functions; of a plan inside it, all its parts."""
    found: dict[str, Any] = {"kind": type(plan).__name__}
    for name, value in ((f.name, getattr(plan, f.name)) for f in dataclasses.fields(plan) if f.init):  # type: ignore[arg-type]
        inside = parts(value) if isinstance(value, Plan) else None
        found |= {name: value} if inside is None else {f"{name}.{own}": each for own, each in inside.items()}
    return {name: value for name, value in found.items() if not callable(value)}


def difference(first: dict[str, Any], second: dict[str, Any]) -> str | None:
    """Return the name of a part in which two plans differ."""
    if first.keys() != second.keys():
        return "kind"
    return next((name for name in first if not same(first[name], second[name])), None)


def check_choice(choice: Choice, where: str) -> None:
    """Check that a choice is consistent in itself."""
    exposure, pulled = choice.exposure, choice.actions
    if not np.array_equal(choice.arms, np.flatnonzero(pulled)):
        fail(f"arms must be those with the action 1, but {where} they were {choice.arms} for {pulled}")
    if not np.all((exposure >= 0) & (exposure <= 1 + EXACT)):
        fail(f"an exposure must be between 0 and 1, but {where} they were {exposure}")
    if abs(exposure.sum() - pulled.sum()) > 1e-6:
        fail(f"exposures must sum to the {pulled.sum()} arms pulled, but {where} it was {exposure.sum():g}")
    if np.any((exposure >= 1) & (pulled == 0)) or np.any((exposure <= 0) & (pulled == 1)):
        fail(f"an exposure of 1 is certain and one of 0 never happens, but {where} {exposure} became {pulled}")


def check_same_choice(first: Choice, second: Choice, where: str) -> None:
    """Check that two choices are the same."""
    if first.names != second.names or not np.array_equal(first.actions, second.actions):
        fail(f"the choice must be the same, but {where} it was {first.names} and {second.names}")
    if not np.array_equal(first.exposure, second.exposure):
        fail(f"exposures must be the same, but {where} they were {first.exposure} and {second.exposure}")
    if not np.array_equal(first.due, second.due) or not np.array_equal(first.account, second.account):
        fail(f"accounts must be the same, but {where} they were {first.account} and {second.account}")
