"""Values as JSON can hold them."""

from __future__ import annotations

import math
from typing import Any


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
