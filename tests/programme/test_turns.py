"""Threads of one process take turns at an SQLite file, and long reads let others write."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

import meritfair as mf
from meritfair.programme.reading import Reader
from meritfair.programme.storage import turns
from meritfair.programme.storage.turns import Turns
from programme.clinics import clinic


def in_thread(turns_: Turns, writing: bool) -> threading.Event:
    """Let another thread take a turn; the event is set once it has it."""
    there = threading.Event()

    def work() -> None:
        with turns_.taking(writing=writing):
            there.set()

    threading.Thread(target=work, daemon=True).start()
    return there


def test_one_reads_and_one_writes_at_a_time() -> None:
    own = Turns()
    with own.taking(writing=False):
        assert in_thread(own, writing=True).wait(1)
        waiting = in_thread(own, writing=False)
        assert not waiting.wait(0.1)
    assert waiting.wait(1)


def test_a_thread_does_not_wait_for_itself() -> None:
    own, began = Turns(), time.monotonic()
    with own.taking(writing=False), own.taking(writing=False), own.taking(writing=True):
        assert in_thread(own, writing=True).wait(1), "it has one turn, not both"
    assert time.monotonic() - began < 1


def test_nobody_waits_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "PATIENCE", 0.05)
    own = Turns()
    with own.taking(writing=True):
        assert in_thread(own, writing=True).wait(1)
        assert own.taking(writing=True)
    assert in_thread(own, writing=True).wait(1), "whoever went ahead has not ended another's turn"


def test_a_long_read_lets_others_write(store_url: str, tmp_path: Path) -> None:
    made = clinic(store_url)
    store, began = made.programme.store, time.monotonic()
    with store.still(tmp_path) as still, still.reading("calls") as session:
        made.programme.draw(by="Ada")
        assert session.length == 2, "as it was"
        assert mf.programme.open(store_url, "calls").status().round == 1
    assert time.monotonic() - began < 20, "the writer has not waited for the reader"
    assert not [*tmp_path.glob("still-*")]


def test_who_looks_at_the_same_time_sees_what_was_there_when_they_asked(store_url: str) -> None:
    made = clinic(store_url, people=30)
    reader, behind = Reader(made.programme.store), list[int]()
    stop = threading.Event()

    def look() -> None:
        while not stop.is_set():
            known = lengths[-1]
            if reader.look("calls").entries < known:
                behind.append(known)

    lengths = [2]
    threads = [threading.Thread(target=look) for _ in range(4)]
    for each in threads:
        each.start()
    for number in range(25):
        made.programme.withdraw([made.ids[number]], reason="they have moved", by="Ada")
        lengths.append(3 + number)
    stop.set()
    for each in threads:
        each.join()
    assert behind == []
    assert reader.has("calls")
    assert not reader.has("other")
