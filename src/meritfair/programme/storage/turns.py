"""Turns of the threads of one process at an SQLite file: one reads and one writes at a time.

SQLite lets those who wait for a lock look again and again, each after a longer sleep, so that of fifty threads some
wait for seconds while others are served at once. Here they wait in a queue of the process instead, and only the first
of it asks SQLite. It is a matter of speed alone: what must hold is seen to by SQLite's own locks. Therefore nobody
waits for long: whoever has waited for `PATIENCE` goes ahead, and a thread that is at the file already does not wait for
itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock, get_ident

PATIENCE = 2.0  # seconds


class Turns:
    """Whose turn it is to read, and to write."""

    def __init__(self) -> None:
        self._locks = {True: Lock(), False: Lock()}
        self._owners: dict[bool, int | None] = {True: None, False: None}

    @contextmanager
    def taking(self, *, writing: bool) -> Iterator[None]:
        """Wait for one's turn, and let the next one in at the end."""
        own = get_ident()
        if own in self._owners.values() or not self._locks[writing].acquire(timeout=PATIENCE):
            yield
            return
        self._owners[writing] = own
        try:
            yield
        finally:
            self._owners[writing] = None
            self._locks[writing].release()
