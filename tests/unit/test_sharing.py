"""What threads that ask at the same time share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from time import monotonic, sleep

import pytest

from meritfair.core.errors import BusyError
from meritfair.core.sharing import WorkSlots

SOON = 30.0


@contextmanager
def working(slots: WorkSlots, piece: str) -> Iterator[None]:
    """Let another thread work on a piece meanwhile."""
    begun, done = Event(), Event()

    def work() -> None:
        with slots.request():
            slots.take(piece)
            begun.set()
            assert done.wait(SOON)

    thread = Thread(target=work)
    thread.start()
    assert begun.wait(SOON)
    try:
        yield
    finally:
        done.set()
        thread.join(SOON)


def waiting(slots: WorkSlots, number: int) -> None:
    """Wait until that many threads wait."""
    until = monotonic() + SOON
    while len(slots._queue) < number:
        assert monotonic() < until
        sleep(0.001)


def test_a_slot_is_kept_to_the_end_of_a_request_and_taken_once() -> None:
    slots = WorkSlots(slots=1, patience=0.0)
    with slots.request():
        slots.take("one")
        slots.take("another")  # by the same request, which has its slot
        with slots.request():
            slots.take("one")
        assert list(slots._working.elements()) == ["one"]
    assert not slots._working
    with slots.request():
        slots.take("another")


def test_who_asks_for_another_piece_waits_for_a_slot_in_order() -> None:
    slots, order = WorkSlots(slots=1, patience=SOON), list[str]()

    def work(piece: str) -> None:
        with slots.request():
            slots.take(piece)
            order.append(piece)

    threads = [Thread(target=work, args=(piece,)) for piece in "bcd"]
    with working(slots, "a"):
        for place, thread in enumerate(threads, start=1):
            thread.start()
            waiting(slots, place)
        assert order == []
    for thread in threads:
        thread.join(SOON)
    assert order == ["b", "c", "d"]


def test_who_asks_for_the_same_piece_joins() -> None:
    slots = WorkSlots(slots=1, patience=0.0)
    with working(slots, "a"), slots.request():
        slots.take("a")


def test_who_has_waited_for_too_long_is_refused_and_told_when_to_ask_again() -> None:
    slots = WorkSlots(slots=1, patience=0.01)
    with working(slots, "a"), slots.request():
        with pytest.raises(BusyError, match="try again in 10 seconds") as told:
            slots.take("b")
        assert told.value.seconds == 10
    with slots.request():
        slots.take("b")


def test_not_too_many_wait_or_join() -> None:
    slots = WorkSlots(slots=1, most=2, patience=SOON)
    with working(slots, "a"), working(slots, "a"), slots.request(), pytest.raises(BusyError):
        slots.take("a")


def test_outside_of_a_request_nobody_waits() -> None:
    slots = WorkSlots(slots=1, patience=0.0)
    with working(slots, "a"):
        slots.take("b")
