"""What a learner keeps of its arms, a row for each, and how that goes into a file."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from meritfair.arrays import AnyArray, FloatArray, IntArray

__all__ = ["Planned", "Rows", "generator", "plain"]

_WHOLE = ("visits", "good", "pulled")


@dataclass
class Rows:
    """What is kept of the arms: a row for each in every array."""

    truth: FloatArray  # (N, 2, 2), NaN where it is not known
    visits: IntArray  # (N, 2, 2)
    good: IntArray
    pulled: IntArray  # (N,), at the last round
    turn: FloatArray  # (N,), grows with the round of the last pull; those pulled together stay in line
    memory: FloatArray | None  # (N, m), of a step learner

    @classmethod
    def none(cls, truth: FloatArray) -> Rows:
        """Return the rows of arms of which nothing was seen yet."""
        n_arms = len(truth)
        visits, good = np.zeros((n_arms, 2, 2), np.int64), np.zeros((n_arms, 2, 2), np.int64)
        return cls(truth, visits, good, np.zeros(n_arms, np.int64), np.zeros(n_arms), None)

    def _each(self, change: Callable[[str, AnyArray], AnyArray]) -> Rows:
        """Return the rows with each array changed."""
        made: dict[str, Any] = {}
        for name, rows in self._arrays().items():
            made[name] = None if rows is None else change(name, rows)
        return Rows(**made)

    def _arrays(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}

    def copy(self) -> Rows:
        """Return rows that may change by themselves."""
        return self._each(lambda _, rows: rows.copy())

    def only(self, stay: IntArray) -> Rows:
        """Return the rows of these arms alone."""
        return self._each(lambda _, rows: np.ascontiguousarray(rows[stay]))

    def with_more(self, others: Rows) -> Rows:
        """Return these rows and those of others, who bring no memory."""
        forgot = dataclasses.replace(self, memory=None)
        return forgot._each(lambda name, rows: np.concatenate([rows, getattr(others, name)]))

    def to_dict(self) -> dict[str, Any]:
        """Return the rows as plain values."""
        return {name: None if rows is None else _numbers(rows) for name, rows in self._arrays().items()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Rows:
        """Return the rows that `to_dict` has described."""
        made: dict[str, Any] = {}
        for f in dataclasses.fields(cls):
            given, kind = values[f.name], np.int64 if f.name in _WHOLE else np.float64
            made[f.name] = None if given is None else np.array(given, dtype=kind)
        return cls(**made)


@dataclass(frozen=True)
class Planned:
    """What a plan was made from."""

    episode: int
    round: int
    rows: Rows
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
    def from_dict(cls, values: Mapping[str, Any]) -> Planned:
        """Return what `to_dict` has described."""
        rows, states = Rows.from_dict(values["rows"]), np.array(values["states"], np.int64)
        return cls(values["episode"], values["round"], rows, states, values["luck"])


def generator(state: Mapping[str, Any]) -> np.random.Generator:
    """Return a generator in a state that was kept."""
    generator = np.random.default_rng(0)
    generator.bit_generator.state = dict(state)
    return generator


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
