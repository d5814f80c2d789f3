"""How much is seen of states: all, each with a chance, or those of arms that are pulled."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from meritfair.core.checks import check_number
from meritfair.core.errors import InputError

PULLED: Literal["pulled"] = "pulled"
Observation: TypeAlias = float | Literal["pulled"]


def check_observed(value: Any) -> Observation:
    """Return how much is seen, if it can be: a chance above 0, or "pulled". None is everything.

    Examples
    --------
    >>> check_observed(None), check_observed(0.7), check_observed("pulled")
    (1.0, 0.7, 'pulled')
    >>> check_observed("called")
    Traceback (most recent call last):
    ...
    meritfair.core.errors.InputError: observed must be a number above 0 and at most 1, or 'pulled', got 'called'
    """
    if isinstance(value, str):
        if value != PULLED:
            raise InputError(f"observed must be a number above 0 and at most 1, or 'pulled', got {value!r}")
        return PULLED
    chance = 1.0 if value is None else check_number("observed", value, 0, 1)
    if chance == 0:
        raise InputError("observed must be above 0, got 0: nothing could be learned")
    return chance


def observed_text(observed: Observation) -> str:
    """Return in words how much is seen; nothing if that is everything.

    Examples
    --------
    >>> observed_text(0.7), observed_text("pulled"), observed_text(1.0)
    ('70 % of states seen', 'states seen of those pulled', '')
    """
    if observed == PULLED:
        return "states seen of those pulled"
    return "" if observed == 1 else f"{100 * float(observed):g} % of states seen"
