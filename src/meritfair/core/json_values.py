"""Values as JSON can hold them."""

from __future__ import annotations

import json
import math
import struct
import zlib
from typing import Any

from meritfair.core.errors import InputError, MeritfairError
from meritfair.core.texts import shortened

MOST_NESTED = 64  # lists and objects inside each other
DAMAGE = (
    MeritfairError,
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
    struct.error,
    zlib.error,
)  # whatever values that nobody has checked may cause


def from_json(data: str | bytes) -> Any:
    """Return the value of JSON that anyone may have written; refuse what is none, or is nested too deep.

    Examples
    --------
    >>> from_json('{"budget": [3]}')
    {'budget': [3]}
    >>> from_json("[" * 100_000)
    Traceback (most recent call last):
    ...
    meritfair.core.errors.InputError: not JSON: it is nested too deep
    """
    try:
        value = json.loads(data)
    except RecursionError:
        raise InputError("not JSON: it is nested too deep") from None
    except (TypeError, ValueError) as error:
        raise InputError(f"not JSON: {shortened(str(error))}") from None
    level, depth = [value], 0
    while level := [each for part in level for each in _inside(part)]:
        depth += 1
        if depth > MOST_NESTED:
            raise InputError(f"values are nested at most {MOST_NESTED} deep")
    return value


def _inside(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


def finite(value: Any) -> Any:
    """Return plain values with None in place of every number that is infinite or NaN, which JSON does not know.

    Examples
    --------
    >>> finite({"low": float("-inf"), "rows": (1.5, float("nan"))})
    {'low': None, 'rows': [1.5, None]}
    """
    if isinstance(value, dict):
        return {key: finite(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
