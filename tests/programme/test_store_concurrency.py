"""Stores under processes that work at once, and that are killed: nothing lost, nothing by halves.

With ``MERITFAIR_FULL=1`` as often as promised, else as often as there is time for.
"""

from __future__ import annotations

import random
import sqlite3
import subprocess
import time
from collections.abc import Callable
from contextlib import ExitStack
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest

from meritfair.core.errors import InputError
from meritfair.programme.storage.store import Session, Store
from programme.servers import Server
from programme.writers import (
    FULL,
    IDENTITY,
    NAME,
    SECRET,
    bodies,
    count_up,
    entry,
    make,
    open_fresh,
    process,
    processes,
    received,
    write_in_turn,
    write_rounds,
)

pytestmark = pytest.mark.slow
SOON = 120  # seconds: whoever hangs is an error, not a wait for ever


def start_all(stack: ExitStack, target: Callable[..., None], *arguments: tuple[Any, ...]) -> list[Connection]:
    """Start a process for each of some arguments; return their pipes."""
    return [stack.enter_context(process(target, *each))[1] for each in arguments]


def end(pipes: list[Connection]) -> None:
    """Wait until each process says that it is done."""
    for pipe in pipes:
        assert pipe.poll(SOON), "a process hangs"
        assert pipe.recv() == "done"  # EOFError: it has failed


def check_rounds(session: Session) -> int:
    """Return how many whole rounds `write_rounds` has written; there must be no half one."""
    rounds = int(session.summary.get("rounds", 0))
    numbers = range(1, rounds + 1)
    assert bodies(session) == [[kind, number] for number in numbers for kind in ("commit", "draw")]
    assert [len(session.rows(seq) or b"") for seq in range(2 * rounds)] == [3000, 0] * rounds
    assert session.vector("round") == (f"{rounds}".encode() * 500 if rounds else None)
    assert [each.number for each in session.people()] == list(numbers)
    assert [each[:2] for each in session.notes()] == [(2 * number - 1, number) for number in numbers]
    assert [session.answer(f"round {number}") for number in numbers] == [(bytes(32), f"answer {n}") for n in numbers]
    return rounds


def kill_while_writing(url: str, wal: bool, rng: random.Random) -> list[int]:
    """Have a process write rounds, kill it, and return the rounds that it has acknowledged."""
    with process(write_rounds, url, wal) as (child, pipe):
        assert pipe.poll(SOON), "nothing is written"
        time.sleep(rng.uniform(0, 0.2 if FULL else 0.05))
        child.kill()
        child.join()
        return received(pipe)


def survive_kills(url: str, wal: bool = False) -> None:
    """Kill a writing process again and again; look whether all that it has acknowledged is there."""
    make(url)
    store, rng, acknowledged, torn = Store(url), random.Random(1), 0, 0
    for _ in range(100 if FULL else 6):
        rounds = kill_while_writing(url, wal, rng)
        if store._database.is_sqlite and not wal:
            torn += Path(f"{store._database.file}-journal").stat().st_size > 0
        with store.reading(NAME) as session:
            assert check_rounds(session) >= rounds[-1]
        assert store.check() == []
        acknowledged += len(rounds)
    print(f"\n{acknowledged} rounds acknowledged, none lost; {torn} kills in mid-commit as the journal tells")
    assert acknowledged > 6


def test_what_is_acknowledged_survives_kill_9(store_url: str) -> None:
    survive_kills(store_url)


def test_what_is_acknowledged_survives_kill_9_with_the_write_ahead_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("meritfair.programme.storage.database.WAL_SINCE", (3, 0, 0))
    survive_kills(str(tmp_path / "x.db"), wal=True)


def test_a_server_that_stops_at_once_loses_nothing(postgresql: Server) -> None:
    url, workers = postgresql.fresh_database(), ["a", "b", "c", "d"]
    make(url)
    with ExitStack() as stack:
        running = [stack.enter_context(process(write_in_turn, url, worker)) for worker in workers]
        for _ in range(20 if FULL else 2):
            for _, pipe in running:
                assert pipe.poll(SOON), "nothing is written"
            time.sleep(0.2)
            postgresql.stop("immediate")
            postgresql.start()
            for _, pipe in running:  # those that were acknowledged before
                while pipe.poll():
                    pipe.recv()
        acknowledged = [last_of(each) for each in running]
    with Store(url).reading(NAME) as session:
        written = bodies(session)
    print(f"\n{len(written)} entries by {len(workers)} writers")
    for worker, last in zip(workers, acknowledged, strict=True):
        numbers = [number for who, number in written if who == worker]
        assert numbers == list(range(1, len(numbers) + 1))  # each once, in order
        assert last <= len(numbers)
    assert Store(url).check() == []


def last_of(running: tuple[BaseProcess, Connection]) -> int:
    """Let a writer write once more, kill it, and return the last number that it has acknowledged."""
    child, pipe = running
    assert pipe.poll(SOON), "it does not go on after the server is back"
    child.kill()
    child.join()
    return int(received(pipe)[-1])


def test_updates_by_eight_processes_are_all_there(store_url: str) -> None:
    make(store_url)
    times = 200 if FULL else 15
    with ExitStack() as stack:
        barrier = processes().Barrier(8)
        start = time.monotonic()
        end(start_all(stack, count_up, *[(store_url, barrier, times)] * 8))
        print(f"\n{8 * times} updates in {time.monotonic() - start:.1f} s")
    store = Store(store_url)
    with store.reading(NAME) as session:
        assert session.summary == {"number": 8 * times}
        assert bodies(session) == list(range(1, 8 * times + 1))
    assert store.check() == []


def open_by_32(url: str, wal: bool = False) -> None:
    """Have 32 processes open a store that is not there yet, and each make a programme."""
    names = [f"programme {number:02}" for number in range(32)]
    with ExitStack() as stack:
        barrier = processes().Barrier(32)
        end(start_all(stack, open_fresh, *((url, barrier, name, wal) for name in names)))
    store = Store(url)
    assert store.names() == names
    assert store.check() == []
    if store._database.is_sqlite:
        assert not list(store._database.file.parent.glob(".*"))  # nothing half-made is left


def test_a_fresh_store_can_be_opened_by_32_processes_at_once(store_url: str) -> None:
    open_by_32(store_url)


def test_a_fresh_store_with_a_write_ahead_log_can_be_opened_by_32_processes_at_once(tmp_path: Path) -> None:
    open_by_32(str(tmp_path / "x.db"), wal=True)


def test_sqlite_uses_its_write_ahead_log_where_that_is_safe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def mode() -> str:
        with sqlite3.connect(tmp_path / "x.db") as connection:
            found: str = connection.execute("PRAGMA journal_mode").fetchone()[0]
        connection.close()
        return found

    monkeypatch.setattr("meritfair.programme.storage.database.WAL_SINCE", (3, 0, 0))
    url = str(tmp_path / "x.db")
    make(url)
    assert mode() == "wal"
    store = Store(url)
    with store.reading(NAME) as before:
        with store.writing(NAME) as session:  # readers do not keep it waiting
            entry(session, "new")
        assert before.length == 0
        assert list(before.entries()) == []
    store.backup(tmp_path / "copy.db")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["copy.db", "x.db"]
    monkeypatch.setattr("meritfair.programme.storage.database.WAL_SINCE", (9, 0, 0))  # an older SQLite on the same file
    assert Store(url).check() == []
    assert mode() != "wal"


def test_backups_that_are_taken_during_writes_restore(tmp_path: Path) -> None:
    url = str(tmp_path / "x.db")
    make(url)
    store, lengths = Store(url), set[int]()
    with process(write_rounds, url) as (_, pipe):
        for number in range(20 if FULL else 4):
            assert pipe.poll(SOON)
            while pipe.poll():
                acknowledged = pipe.recv()
            copy = tmp_path / f"copy {number}.db"
            store.backup(copy)
            assert copy.stat().st_mode & 0o077 == 0
            restored = Store(str(copy))
            assert restored.check() == []
            with restored.writing(NAME) as session:
                rounds = check_rounds(session)
                assert rounds >= acknowledged
                entry(session, "goes on")
            lengths.add(rounds)
    print(f"\nbackups after {sorted(lengths)} rounds")
    assert len(lengths) > 2
    with pytest.raises(InputError, match=r"must be another file than the store, got .*x\.db"):
        store.backup(url)
    assert store.check() == []


def test_dumps_of_postgresql_that_are_taken_during_writes_restore(postgresql: Server, tmp_path: Path) -> None:
    url = postgresql.fresh_database()
    make(url)
    with pytest.raises(InputError, match="is made by its own pg_dump"):
        Store(url).backup(tmp_path / "copy.db")
    with process(write_rounds, url) as (_, pipe):
        for number in range(5 if FULL else 1):
            assert pipe.poll(SOON)
            while pipe.poll():
                acknowledged = pipe.recv()
            dump, other = tmp_path / f"{number}.dump", postgresql.fresh_database()
            subprocess.run([postgresql.programs / "pg_dump", "-Fc", "-f", dump, url], check=True)
            subprocess.run([postgresql.programs / "pg_restore", "--exit-on-error", "-d", other, dump], check=True)
            restored = Store(other)
            assert restored.check() == []
            with restored.writing(NAME) as session:
                assert check_rounds(session) >= acknowledged
                entry(session, "goes on")


def test_only_one_of_many_can_make_a_programme(store_url: str) -> None:
    store = Store(store_url)
    with store.creating(NAME, IDENTITY, SECRET) as session:
        entry(session)
    with pytest.raises(InputError, match="there is already"), store.creating(NAME, IDENTITY, SECRET):
        pass
    assert store.names() == [NAME]
