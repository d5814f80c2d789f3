"""What threads that ask at the same time share: one look for all of them, and few slots for heavy work."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from math import inf
from threading import Condition, Lock, get_ident
from time import monotonic
from typing import Generic, TypeVar

from meritfair.core.errors import BusyError
from meritfair.core.language import _

T = TypeVar("T")
_RETRY = 10  # seconds after which a request that was refused is worth sending again


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


class WorkSlots:
    """Slots for heavy work: few pieces are worked on at once, and neither many threads wait for a slot nor for long.

    A request takes a slot when it first needs one, and keeps it to its end, so that what requests have in memory
    while they are worked on is bounded, too. Who asks for a piece that another is at joins them without a slot.

    Parameters
    ----------
    slots : int
        Pieces at once.
    most : int
        Requests at once, those that wait or have joined included; the next one is refused.
    patience : float
        Seconds that a request waits for a slot.

    Examples
    --------
    >>> slots = WorkSlots(slots=1, patience=0.0)
    >>> with slots.request():
    ...     slots.take("the estimates of round 3")
    """

    def __init__(self, slots: int = 1, most: int = 12, patience: float = 20.0) -> None:
        self._slots, self._most, self._patience = slots, most, patience
        self._changed = Condition()
        self._working: Counter[Hashable] = Counter()  # how many requests are at a piece
        self._queue: list[int] = []  # the threads that wait, in order
        self._held: dict[int, list[Hashable]] = {}  # by thread, the piece that its request is at, if it needs one

    @contextmanager
    def request(self) -> Iterator[None]:
        """Let the slot that is taken inside go at the end."""
        own = get_ident()
        if own in self._held:  # within another request of this thread
            yield
            return
        self._held[own] = []
        try:
            yield
        finally:
            for piece in self._held.pop(own):
                self._leave(piece)

    def take(self, piece: Hashable) -> None:
        """Wait until the request of this thread may work on a piece; outside of a request, nobody waits.

        Raises
        ------
        BusyError
            If too many wait already, or it took too long.
        """
        own = get_ident()
        held = self._held.get(own)
        if held is None or held:
            return
        with self._changed:
            if self._working.total() + len(self._queue) >= self._most:
                raise _busy()
            self._queue.append(own)
            try:
                if not self._changed.wait_for(lambda: self._may(own, piece), self._patience):
                    raise _busy()
                self._working[piece] += 1
                held.append(piece)
            finally:
                self._queue.remove(own)
                self._changed.notify_all()

    def _may(self, own: int, piece: Hashable) -> bool:
        return piece in self._working or (len(self._working) < self._slots and self._queue[0] == own)

    def _leave(self, piece: Hashable) -> None:
        with self._changed:
            self._working[piece] -= 1
            if not self._working[piece]:
                del self._working[piece]
            self._changed.notify_all()


def _busy() -> BusyError:
    said = _("Much is being worked out for others now: try again in {seconds} seconds.").format(seconds=_RETRY)
    return BusyError(said, _RETRY)
