"""One look for many: of all threads that ask at the same time one looks, and the others wait for what it finds."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from threading import Lock
from time import monotonic
from typing import Generic, TypeVar

T = TypeVar("T")


class SharedLook(Generic[T]):
    """Something that changes outside of this process, looked at by many threads.

    What a thread gets was looked at after it has asked, so nobody sees less than was there when they asked.

    Parameters
    ----------
    look : callable
        Looks; it is never called by two threads at once.

    Examples
    --------
    >>> SharedLook(lambda: "now").get()
    'now'
    """

    def __init__(self, look: Callable[[], T]) -> None:
        self._look, self._lock = look, Lock()
        self._last: tuple[float, T | None] = (-inf, None)  # when the last look began, and what it found

    def get(self) -> T:
        """Return what there is now."""
        asked = monotonic()
        with self._lock:
            begun, found = self._last
            if found is None or begun <= asked:
                begun = monotonic()
                found = self._look()
                self._last = begun, found
            return found
