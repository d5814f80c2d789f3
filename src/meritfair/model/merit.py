r"""Merit: how much exposure an arm deserves, as a function of its benefit.

The paper asks of a merit function :math:`g` on :math:`[-1, 1]` that it is non-decreasing, that it is
at least some :math:`\gamma > 0` (Condition 3.1), and that it is Lipschitz with some constant
:math:`L` (Condition 3.2). Every merit function here knows its own :math:`\gamma` and :math:`L`, and
its derivative, which the information limit needs. The paper uses :class:`Exponential`.

Only ratios of merits matter, so each function is fixed up to a factor.
"""

from __future__ import annotations

import dataclasses
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from meritfair.core.arrays import FloatArray
from meritfair.core.checks import check_choice, check_number, check_settings
from meritfair.core.errors import InputError
from meritfair.core.parsing import join_settings, split_inner
from meritfair.engine.rules import AFFINE, EXPONENTIAL, LOGISTIC, POWER, MeritRule

_LARGEST_EXPONENT = 700.0  # e^700 is about 1e304: the largest round number before doubles overflow
_GRID = np.linspace(-1.0, 1.0, 2001)


class Merit(ABC):
    """A positive, non-decreasing function of the benefit on [-1, 1]."""

    kind: ClassVar[str]
    __dataclass_fields__: ClassVar[dict[str, Any]]  # set by @dataclass on the subclass

    @abstractmethod
    def __call__(self, benefit: npt.ArrayLike) -> FloatArray:
        """Return the merit of each benefit."""

    @abstractmethod
    def derivative(self, benefit: npt.ArrayLike) -> FloatArray:
        """Return the slope of the merit at each benefit."""

    @property
    def gamma(self) -> float:
        """The least merit on [-1, 1], gamma of Condition 3.1: g(-1), as g does not decrease."""
        return float(self(-1.0))

    @property
    @abstractmethod
    def lipschitz(self) -> float:
        """The largest slope on [-1, 1], L of Condition 3.2."""

    def rule(self) -> MeritRule | None:
        """Return what the engine needs to compute this merit itself, or None if it cannot: then Python does."""
        return None

    def settings(self) -> dict[str, Any]:
        """Return what `merit_from_settings` needs to make this merit function again."""
        return {"kind": self.kind, **{f.name: getattr(self, f.name) for f in dataclasses.fields(self)}}

    def __str__(self) -> str:
        """Return the text that `merit_from_text` reads."""
        return join_settings(self.kind, {name: x for name, x in self.settings().items() if isinstance(x, float)})


@dataclass(frozen=True)
class Exponential(Merit):
    """The paper's merit, g(mu) = exp(c mu): c = 0 treats all alike, a large c is nearly greedy.

    Examples
    --------
    >>> g = Exponential(3.0)
    >>> g.gamma == math.exp(-3) and g.lipschitz == 3 * math.exp(3)
    True
    """

    kind: ClassVar[str] = "exponential"
    c: float = 3.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "c", check_number("c", self.c, 0.0, _LARGEST_EXPONENT))

    def __call__(self, benefit: npt.ArrayLike) -> FloatArray:
        return np.exp(self.c * np.asarray(benefit, dtype=np.float64))

    def derivative(self, benefit: npt.ArrayLike) -> FloatArray:
        return self.c * self(benefit)

    def rule(self) -> MeritRule:
        return MeritRule(EXPONENTIAL, self.c, 0.0)

    @property
    def lipschitz(self) -> float:
        return self.c * math.exp(self.c)


@dataclass(frozen=True)
class Affine(Merit):
    """Merit that grows in a straight line, g(mu) = intercept + slope mu.

    Examples
    --------
    >>> Affine(slope=1.0, intercept=1.5)([-1, 0, 1])
    array([0.5, 1.5, 2.5])
    """

    kind: ClassVar[str] = "affine"
    slope: float = 1.0
    intercept: float = 1.5

    def __post_init__(self) -> None:
        object.__setattr__(self, "slope", check_number("slope", self.slope, 0.0))
        object.__setattr__(self, "intercept", check_number("intercept", self.intercept))
        if self.intercept <= self.slope:
            raise InputError(
                f"intercept must be greater than the slope, {self.slope:g}, so that merit is positive "
                f"for a benefit of -1, got {self.intercept:g}"
            )

    def __call__(self, benefit: npt.ArrayLike) -> FloatArray:
        return self.intercept + self.slope * np.asarray(benefit, dtype=np.float64)

    def derivative(self, benefit: npt.ArrayLike) -> FloatArray:
        return np.full(np.shape(benefit), self.slope)

    def rule(self) -> MeritRule:
        return MeritRule(AFFINE, self.slope, self.intercept)

    @property
    def lipschitz(self) -> float:
        return self.slope


@dataclass(frozen=True)
class Power(Merit):
    """Merit as a power of the benefit brought to [0, 1], g(mu) = (offset + (1 + mu) / 2) ^ exponent.

    Examples
    --------
    >>> Power(exponent=2.0, offset=0.5)([-1, 0, 1])
    array([0.25, 1.  , 2.25])
    """

    kind: ClassVar[str] = "power"
    exponent: float = 2.0
    offset: float = 0.1

    def __post_init__(self) -> None:
        object.__setattr__(self, "exponent", check_number("exponent", self.exponent, 0.0))
        object.__setattr__(self, "offset", check_number("offset", self.offset, 0.0, open_ends=True))
        _check_range(self)

    def __call__(self, benefit: npt.ArrayLike) -> FloatArray:
        return self._base(benefit) ** self.exponent

    def derivative(self, benefit: npt.ArrayLike) -> FloatArray:
        return 0.5 * self.exponent * self._base(benefit) ** (self.exponent - 1)

    def rule(self) -> MeritRule:
        return MeritRule(POWER, self.exponent, self.offset)

    @property
    def lipschitz(self) -> float:
        return float(np.max(self.derivative([-1.0, 1.0])))  # the derivative is monotone

    def _base(self, benefit: npt.ArrayLike) -> FloatArray:
        return self.offset + (1 + np.asarray(benefit, dtype=np.float64)) / 2


@dataclass(frozen=True)
class Logistic(Merit):
    """Merit that rises from nearly 0 to nearly 1 around a midpoint, g(mu) = 1 / (1 + exp(-steepness (mu - midpoint))).

    Examples
    --------
    >>> Logistic(steepness=4.0)([-1, 0, 1]).round(3)
    array([0.018, 0.5  , 0.982])
    """

    kind: ClassVar[str] = "logistic"
    steepness: float = 4.0
    midpoint: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "steepness", check_number("steepness", self.steepness, 0.0))
        object.__setattr__(self, "midpoint", check_number("midpoint", self.midpoint))
        _check_range(self)

    def __call__(self, benefit: npt.ArrayLike) -> FloatArray:
        x = self.steepness * (np.asarray(benefit, dtype=np.float64) - self.midpoint)
        return np.exp(-np.logaddexp(0.0, -x))  # neither end overflows

    def derivative(self, benefit: npt.ArrayLike) -> FloatArray:
        g = self(benefit)
        return self.steepness * g * (1 - g)

    def rule(self) -> MeritRule:
        return MeritRule(LOGISTIC, self.steepness, self.midpoint)

    @property
    def lipschitz(self) -> float:
        return float(self.derivative(min(1.0, max(-1.0, self.midpoint))))  # steepest nearest the midpoint


class CustomMerit(Merit):
    """Your own merit function, with its constants; refused if it is not what the paper asks for.

    Parameters
    ----------
    function : callable
        Takes an array of benefits in [-1, 1], returns an array of merits.
    lipschitz : float
        Your L of Condition 3.2: no slope on [-1, 1] may be larger.
    gamma : float, optional
        Your gamma of Condition 3.1; by default the merit of a benefit of -1.
    name : str
        Says what it is in results; a function cannot be written to a file.

    Examples
    --------
    >>> g = CustomMerit(lambda mu: 2 + np.sin(mu), lipschitz=1.0)
    >>> round(g.gamma, 3)
    1.159
    >>> CustomMerit(lambda mu: 0.5 - mu, lipschitz=1.0)
    Traceback (most recent call last):
    ...
    meritfair.core.errors.InputError: merit must be positive on [-1, 1], got 0.0 for a benefit of 0.5
    """

    kind: ClassVar[str] = "custom"

    def __init__(
        self,
        function: Callable[[FloatArray], npt.ArrayLike],
        lipschitz: float,
        gamma: float | None = None,
        name: str = "custom",
    ) -> None:
        self._function = function
        self._name = name
        values = _check_range(self)
        least = float(values[0])
        self._gamma = least if gamma is None else check_number("gamma", gamma, 0.0, open_ends=True)
        if self._gamma > least:
            raise InputError(f"gamma must be at most the least merit, {least:g}, got {self._gamma:g}")
        self._lipschitz = check_number("lipschitz", lipschitz, 0.0)
        slopes = np.diff(values) / np.diff(_GRID)
        if slopes.max() > self._lipschitz * (1 + 1e-9) + 1e-12:
            at = _GRID[int(np.argmax(slopes))]
            raise InputError(
                f"lipschitz must be at least the slope of the merit, {slopes.max():g} near a benefit of {at:g}, "
                f"got {self._lipschitz:g}"
            )

    def __call__(self, benefit: npt.ArrayLike) -> FloatArray:
        x = np.asarray(benefit, dtype=np.float64)
        merit = np.asarray(self._function(x), dtype=np.float64)
        if merit.shape != x.shape:
            raise InputError(f"the merit function must return one merit for each benefit: {merit.shape} for {x.shape}")
        return merit

    def derivative(self, benefit: npt.ArrayLike) -> FloatArray:
        x = np.asarray(benefit, dtype=np.float64)
        low, high = np.maximum(x - 1e-5, -1.0), np.minimum(x + 1e-5, 1.0)
        return np.asarray((self(high) - self(low)) / (high - low))

    @property
    def gamma(self) -> float:
        return self._gamma

    @property
    def lipschitz(self) -> float:
        return self._lipschitz

    def settings(self) -> dict[str, Any]:
        return {"kind": self.kind, "name": self._name, "lipschitz": self._lipschitz, "gamma": self._gamma}

    def __repr__(self) -> str:
        return f"CustomMerit({self._name}, lipschitz={self._lipschitz:g}, gamma={self._gamma:g})"

    def __str__(self) -> str:
        return self._name


MERITS: dict[str, type[Merit]] = {m.kind: m for m in (Exponential, Affine, Power, Logistic)}


def merit_from_settings(settings: Mapping[str, Any]) -> Merit:
    """Make a built-in merit function from its settings.

    Examples
    --------
    >>> merit_from_settings({"kind": "exponential", "c": 1.0})
    Exponential(c=1.0)
    """
    given = dict(settings)
    kind = check_choice("merit", given.pop("kind", None), MERITS)
    check_settings(f"{kind} merit", given, (f.name for f in dataclasses.fields(MERITS[kind])))
    return MERITS[kind](**given)


def merit_from_text(text: str) -> Merit:
    """Make a built-in merit function from the text that people type.

    Examples
    --------
    >>> merit_from_text("exponential:c=1"), str(Affine(slope=0.5))
    (Exponential(c=1.0), 'affine:intercept=1.5,slope=0.5')
    """
    kind, settings = split_inner(text)
    return merit_from_settings({"kind": kind, **settings})


def _check_range(merit: Merit) -> FloatArray:
    """Return the merits on a grid over [-1, 1] if they are finite, positive and non-decreasing."""
    with np.errstate(over="ignore", under="ignore"):
        values = merit(_GRID)
    wrong = ~(np.isfinite(values) & (values > 0))
    if wrong.any():
        at = int(np.argmax(wrong))
        word = "positive" if np.isfinite(values[at]) else "finite"
        raise InputError(f"merit must be {word} on [-1, 1], got {values[at]} for a benefit of {_GRID[at]}")
    falls = np.diff(values) < 0
    if falls.any():
        at = int(np.argmax(falls))
        raise InputError(f"merit must not decrease on [-1, 1], but it falls just above a benefit of {_GRID[at]:g}")
    return values
