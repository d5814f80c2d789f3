"""The checks of a spec: each says which key is to blame, so that a file's error can have the line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from meritfair.core.checks import check_choice, check_flag, check_number, check_whole
from meritfair.core.errors import InputError
from meritfair.model.confidence import BALLS
from meritfair.model.exposure import DESIGNS

__all__ = ["CHECKS", "SpecError", "blaming", "check_each"]

_Value = TypeVar("_Value")


class SpecError(InputError):
    """A spec that cannot be played: which of its keys is to blame, and where in its list."""

    def __init__(self, key: str, problem: str, position: int | None = None) -> None:
        self.key, self.position = key, position
        super().__init__(problem if problem.startswith(key) else f"{key}: {problem}")


def blaming(key: str, check: Callable[..., _Value], *values: Any, position: int | None = None) -> _Value:
    """Return what a check returns, or say which key of a spec is to blame."""
    try:
        return check(*values)
    except InputError as error:
        raise SpecError(key, str(error), position) from None


def check_each(key: str, values: Any, check: Callable[[Any], _Value]) -> tuple[_Value, ...]:
    """Return all of a list, checked; a single text, or a single size, stands for a list of one."""
    single = isinstance(values, str) or (key == "sizes" and _is_pair(values))
    if not single and (not isinstance(values, Sequence) or not len(values)):
        wanted = "pairs of arms and budget, such as [[20, 4]]" if key == "sizes" else "texts"
        raise SpecError(key, f"{key} must be a list of {wanted}, with at least one, got {values!r}")
    checked: list[_Value] = []
    for position, value in enumerate([values] if single else values):
        checked.append(blaming(key, check, value, position=position))
        if checked[-1] in checked[:-1]:
            raise SpecError(key, f"{value!r} is there twice", position)
    return tuple(checked)


def _is_pair(values: Any) -> bool:
    return isinstance(values, Sequence) and len(values) == 2 and all(isinstance(each, int) for each in values)


def _check_text(name: str, value: Any) -> str:
    if not isinstance(value, str) or not value.isprintable():
        raise InputError(f"{name} must be text, got {value!r}")
    return value


CHECKS: dict[str, Callable[[str, Any], Any]] = {
    **dict.fromkeys(("episodes", "horizon", "runs", "n_arms", "budget"), lambda name, x: check_whole(name, x, 1)),
    **dict.fromkeys(("dataset", "policy", "merit"), _check_text),
    "seed": lambda name, x: check_whole(name, x, 0),
    "design": lambda name, x: check_choice(name, x, DESIGNS),
    "ball": lambda name, x: check_choice(name, x, BALLS),
    **dict.fromkeys(("floor", "cap"), lambda name, x: check_number(name, x, 0, 1)),
    "delta": lambda name, x: check_number(name, x, 0, 1, open_ends=True),
    **dict.fromkeys(("authors", "same_arms", "carry_states", "exposure_regret"), check_flag),
}
