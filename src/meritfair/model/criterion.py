r"""What counts as fair, and how sure an estimate is: two values that travel whole.

The **fairness criterion** says which exposure each arm is due. Its merit function g turns benefit into merit, its
design says how K arms are drawn by merit, and floors and caps bound the result:

.. math:: e = \text{exposure of design}\,(g(\mu_1), \dots, g(\mu_N);\ K,\ \text{floor},\ \text{cap}) .

A policy that draws by merit has a criterion of its own. Any policy can be measured by any criterion.

**Confidence** is the kind of ball that is built around the counts and the probability delta that it misses the truth.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ParamSpec, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from meritfair.core.arrays import FloatArray
from meritfair.core.checks import check_choice, check_number, float_array
from meritfair.core.deprecation import warn_renamed
from meritfair.core.errors import InputError
from meritfair.engine.rules import BallRule
from meritfair.model.allocation import check_bounds
from meritfair.model.confidence import BALLS
from meritfair.model.exposure import check_design, fair_exposure, takes_integral
from meritfair.model.merit import Exponential, Merit

Bound: TypeAlias = "float | Sequence[float]"  # one number for all arms, or one for each
_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")


@dataclass(frozen=True)
class Criterion:
    """The fairness criterion: which exposure each arm is due.

    Parameters
    ----------
    merit : Merit
        Merit of a benefit; the paper's is Exponential(3).
    design : {"sequential", "exact", "systematic"}
        How K arms are drawn by merit, as for `fair_exposure`; the paper's is ``sequential``.
    floor, cap : float or sequence of float
        The least and the most exposure of each arm, for designs other than ``sequential``.

    Examples
    --------
    >>> Criterion(design="exact", floor=0.1).exposure([5.0, 2.0, 2.0, 0.1], budget=2)
    array([1.  , 0.45, 0.45, 0.1 ])
    """

    merit: Merit = field(default_factory=Exponential)
    design: str = "sequential"
    floor: Bound = 0.0
    cap: Bound = 1.0

    def __post_init__(self) -> None:
        if not isinstance(self.merit, Merit):
            if callable(self.merit):
                raise InputError(
                    "merit must be a merit function; wrap your own as CustomMerit(function, lipschitz=...)"
                )
            raise InputError(f"merit must be a merit function such as Exponential(3.0), got {self.merit!r}")
        for name in ("floor", "cap"):
            object.__setattr__(self, name, bound_setting(name, getattr(self, name)))
        check_design(self.design, self.floor, self.cap)

    def bounds(self, n_arms: int, budget: int) -> tuple[FloatArray, FloatArray]:
        """Return the floors and the caps of that many arms, if the budget can be shared between them."""
        return check_bounds(self.floor, self.cap, n_arms, budget)

    def exposure(self, merit: npt.ArrayLike, budget: int) -> FloatArray:
        """Return the exposure that arms of these merits are due, shape (..., N); it sums to the budget."""
        return fair_exposure(merit, budget, self.design, floor=self.floor, cap=self.cap)

    def integrates(self, merit: FloatArray, budget: int) -> bool:
        """Whether these exposures take an integral: those of a sequential draw of several arms that differ."""
        return takes_integral(merit, budget, self.design)

    def settings(self) -> dict[str, Any]:
        """Return it as plain values, as files have it."""
        return plain(self)


@dataclass(frozen=True)
class Confidence:
    """How sure an estimate is to be.

    Parameters
    ----------
    ball : {"paper", "bernstein", "kl"}
        How the confidence ball is measured; the last two are tighter.
    delta : float
        Probability that it misses the truth, strictly between 0 and 1.
    """

    ball: str = "paper"
    delta: float = 0.01

    def __post_init__(self) -> None:
        check_choice("ball", self.ball, BALLS)
        object.__setattr__(self, "delta", check_number("delta", self.delta, 0.0, 1.0, open_ends=True))

    def rule(self) -> BallRule:
        """Return it as numbers, for the engine."""
        return BallRule(BALLS.index(self.ball), self.delta)


def plain(settings: Any) -> dict[str, Any]:
    """Return the fields of a dataclass as plain values, as they come back from a file."""
    values = {each.name: getattr(settings, each.name) for each in dataclasses.fields(settings)}
    return {name: _plain(value) for name, value in values.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, Merit):
        return value.settings()
    if isinstance(value, float) and math.isinf(value):
        return str(value)  # JSON has no such number
    return list(value) if isinstance(value, tuple) else value


def changed(settings: Criterion | Confidence) -> dict[str, Any]:
    """Return the fields that differ from the defaults.

    Examples
    --------
    >>> changed(Criterion(design="exact")), changed(Confidence())
    ({'design': 'exact'}, {})
    """
    usual = type(settings)()
    values = {each.name: getattr(settings, each.name) for each in dataclasses.fields(settings)}
    return {name: value for name, value in values.items() if value != getattr(usual, name)}


def bound_setting(name: str, value: Any) -> Bound:
    """Return a floor or a cap as a setting: one number between 0 and 1, or one for each arm."""
    numbers = float_array(name, value)
    if numbers.ndim > 1 or not np.all((numbers >= 0) & (numbers <= 1)):
        raise InputError(f"{name} must be a number between 0 and 1, or one for each arm, got {value!r}")
    return float(numbers) if numbers.ndim == 0 else tuple(numbers.tolist())


def loose_settings_allowed(
    base: Callable[..., tuple[Criterion, Confidence]],
) -> Callable[[Callable[_Parameters, _Result]], Callable[_Parameters, _Result]]:
    """Let a function that takes `criterion` and `confidence` also take their fields one by one, for one release.

    `base` has the same arguments, and returns what the fields that are given depart from.
    """

    def decorate(function: Callable[_Parameters, _Result]) -> Callable[_Parameters, _Result]:
        @functools.wraps(function)
        def with_loose(*args: _Parameters.args, **kwargs: _Parameters.kwargs) -> _Result:
            for kind, name in ((Criterion, "criterion"), (Confidence, "confidence")):
                loose = {each.name: kwargs.pop(each.name) for each in dataclasses.fields(kind) if each.name in kwargs}
                given: dict[str, Any] = {key: value for key, value in loose.items() if value is not None}
                if given:
                    warn_renamed(f"{', '.join(given)} of {function.__name__}", f"{name}=mf.{kind.__name__}(...)")
                    whole = base(*args, **kwargs)[kind is Confidence]
                    kwargs[name] = dataclasses.replace(whole, **given)
            return function(*args, **kwargs)

        return with_loose

    return decorate
