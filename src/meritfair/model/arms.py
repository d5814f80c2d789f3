"""Arms: the people (or machines, or sites) among whom the budget is shared.

An arm is a Markov decision process with two states, bad (0) and good (1), and two actions, pull (1)
or not (0). All that sets it apart is the probability that its next state is good,
``transitions[i, s, a]``, the paper's :math:`P_i(s, a, 1)`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from meritfair.core.arrays import FloatArray, frozen
from meritfair.core.checks import check_number, float_array
from meritfair.core.errors import InputError
from meritfair.model.benefit import benefit
from meritfair.model.features import Features

_SUM_TOLERANCE = 1e-9


@dataclass(frozen=True, init=False, eq=False)
class Arms:
    """A set of arms, checked once and then frozen.

    Parameters
    ----------
    transitions : array_like, shape (N, 2, 2) or (N, 2, 2, 2)
        ``transitions[i, s, a]`` is the probability that arm i is good next when it is in state s and
        gets action a. With a fourth axis, its last entry is that and the two entries sum to 1.
    names : iterable of str, optional
        A different name for each arm; by default "arm-1", "arm-2" and so on.
    features : Features or mapping of str to sequence, optional
        What else is known of the arms: for each feature a value for each arm. They are carried along; simulations do
        not use them, and files of arms do not keep them.

    Examples
    --------
    >>> arms = Arms([[[0.2, 0.6], [0.5, 0.9]], [[0.3, 0.3], [0.7, 0.8]]], names=["Ada", "Bo"])
    >>> arms
    Arms(2 arms, epsilon=0.1)
    >>> arms.benefit.round(3)
    array([0.571, 0.1  ])
    """

    transitions: FloatArray
    names: tuple[str, ...]
    features: Features | None

    def __init__(
        self,
        transitions: npt.ArrayLike,
        names: Iterable[str] | None = None,
        features: Features | Mapping[str, Sequence[Any]] | None = None,
    ) -> None:
        P = _good_next(float_array("transitions", transitions))
        labels = _usual_names(len(P)) if names is None else tuple(names)
        if names is not None:
            _check_names(labels, len(P))
        _check_probabilities(P, labels)
        object.__setattr__(self, "transitions", frozen(P))
        object.__setattr__(self, "names", labels)
        columns = features.columns if isinstance(features, Features) else features
        object.__setattr__(self, "features", None if columns is None else Features(columns, len(P)))

    @property
    def n_arms(self) -> int:
        """How many arms there are, the paper's N."""
        return len(self.transitions)

    def __len__(self) -> int:
        return self.n_arms

    def __repr__(self) -> str:
        return f"Arms({self.n_arms} arm{'s' * (self.n_arms != 1)}, epsilon={self.epsilon:g})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Arms):
            return NotImplemented
        same = self.names == other.names and self.features == other.features
        return same and np.array_equal(self.transitions, other.transitions)

    def __hash__(self) -> int:
        return hash((self.names, self.transitions.tobytes()))

    @cached_property
    def benefit(self) -> FloatArray:
        """The benefit of each arm, mu of Eq. (4), shape (N,)."""
        return frozen(benefit(self.transitions, self.names))

    @property
    def epsilon(self) -> float:
        """How far all probabilities stay from 0 and 1: the paper's non-degeneracy; 0 means degenerate."""
        return float(min(self.transitions.min(), (1 - self.transitions).min()))

    def clip(self, epsilon: float) -> Arms:
        """Return these arms with every probability moved into [epsilon, 1 - epsilon].

        Examples
        --------
        >>> Arms([[[0.0, 1.0], [0.5, 0.5]]]).clip(0.01).epsilon
        0.01
        """
        bound = check_number("epsilon", epsilon, 0.0, 0.5)
        return Arms(np.clip(self.transitions, bound, 1 - bound), self.names, self.features)


def _good_next(P: FloatArray) -> FloatArray:
    """Bring either accepted shape to (N, 2, 2)."""
    if P.ndim == 4 and P.shape[1:] == (2, 2, 2):
        off = np.abs(P.sum(axis=-1) - 1)
        if np.any(off > _SUM_TOLERANCE):
            arm, state, action = np.unravel_index(int(np.argmax(off)), off.shape)
            pair = P[arm, state, action]
            raise InputError(
                f"transitions of arm {arm} in state {state} under action {action} must sum to 1, "
                f"got {pair[0]} + {pair[1]} = {pair.sum()}"
            )
        P = P[..., 1]
    if P.ndim != 3 or P.shape[1:] != (2, 2):
        raise InputError(f"transitions must have shape (N, 2, 2) or (N, 2, 2, 2), got {P.shape}")
    if len(P) == 0:
        raise InputError("transitions must hold at least one arm, got none")
    return P


@lru_cache(maxsize=8)
def _usual_names(n_arms: int) -> tuple[str, ...]:
    """Return names for arms that have none; draws of the same arms share them."""
    return tuple(f"arm-{i + 1}" for i in range(n_arms))


def _check_names(names: tuple[str, ...], n_arms: int) -> None:
    if len(names) != n_arms:
        raise InputError(f"names must give one name for each of the {n_arms} arms, got {len(names)}")
    seen: dict[str, int] = {}
    for i, name in enumerate(names):
        if not isinstance(name, str) or not name.strip():
            raise InputError(f"the name of arm {i} must be text, got {name!r}")
        if name in seen:
            raise InputError(f"arms {seen[name]} and {i} have the same name, {name!r}")
        seen[name] = i


def _check_probabilities(P: FloatArray, names: tuple[str, ...]) -> None:
    wrong = ~((P >= 0) & (P <= 1))  # also true for NaN
    if np.any(wrong):
        arm, state, action = np.argwhere(wrong)[0]
        raise InputError(
            f"transitions of arm {arm} ('{names[arm]}') in state {state} under action {action} "
            f"must lie between 0 and 1, got {P[arm, state, action]}"
        )
