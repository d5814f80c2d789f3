"""Old names that work for one more release, with a `DeprecationWarning` that says the new one."""

from __future__ import annotations

import warnings
from typing import Any


def warn_renamed(old: str, new: str, *, level: int = 3) -> None:
    """Warn whoever called the caller that a name is old."""
    warnings.warn(f"{old} is now {new}; the old name goes in the next release", DeprecationWarning, stacklevel=level)


class Renamed:
    """The old name of an attribute or a method: it gives what the new one does.

    Examples
    --------
    >>> class Plan:
    ...     exposure = 0.5
    ...     chances = Renamed("exposure")
    """

    def __init__(self, new: str) -> None:
        self.new = new

    def __set_name__(self, owner: type, name: str) -> None:
        self.old = name

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        warn_renamed(self.old, self.new)
        return getattr(owner if instance is None else instance, self.new)
