"""What tests write into stores, in processes of their own that can be killed."""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from itertools import count
from multiprocessing.connection import Connection
from multiprocessing.context import BaseContext
from multiprocessing.process import BaseProcess
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

from meritfair.programme.storage import database
from meritfair.programme.storage.store import Session, Store, StoreError
from meritfair.programme.storage.upgrading import upgrade

FULL = os.environ.get("MERITFAIR_FULL") == "1"  # as often as promised, not only as often as there is time for
_DIALECT = "sqlalchemy.dialects.postgresql.psycopg"
NAME, IDENTITY, SECRET = "clinic", "0123456789abcdef" * 2, b"a secret of 32 bytes, or nearly so"


def processes() -> BaseContext:
    """Return how processes are started: quickly, from one that has all modules, where the system can."""
    if sys.platform != "linux":
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["meritfair.programme.storage.store", "alembic.command", "psycopg", _DIALECT])
    return context


@contextmanager
def process(target: Callable[..., None], *arguments: Any) -> Iterator[tuple[BaseProcess, Connection]]:
    """Start a process, which has the other end of a pipe as its first argument; it is gone in the end."""
    context = processes()
    here, there = context.Pipe()
    child = context.Process(target=target, args=(there, *arguments))  # type: ignore[attr-defined]
    child.start()
    there.close()
    try:
        yield child, here
    finally:
        child.kill()
        child.join()
        here.close()


def received(pipe: Connection) -> list[Any]:
    """Return what is still to be read from a process that has ended."""
    found = []
    try:
        while True:
            found.append(pipe.recv())
    except EOFError:
        return found


def entry(session: Session, body: Any = None, rows: bytes | None = None) -> int:
    """Append an entry."""
    table = None if rows is None else {"fields": [["x", "u8"]], "rows": len(rows), "root": sha256(rows).hexdigest()}
    fields = {"programme": session.identity, "seq": session.length, "previous": session.head.hex(), "kind": "report"}
    values = {"format": "test", **fields, "time": "2026-11-17T09:00:00Z", "by": "", "body": body, "table": table}
    data = json.dumps(values, sort_keys=True).encode()
    return session.append(data, sha256(data).digest(), rows)


def bodies(session: Session) -> list[Any]:
    """Return the bodies of all entries, after a look at the chain."""
    found, previous = [], bytes(32)
    for _, data, digest in session.entries():
        values = json.loads(data)
        assert values["previous"] == previous.hex()
        found.append(values["body"])
        previous = digest
    assert previous == session.head
    return found


def make(url: str) -> None:
    """Make a programme with nothing in it."""
    with Store(url).creating(NAME, IDENTITY, SECRET):
        pass


# What processes do


def allow_wal(allowed: bool) -> None:
    """Have SQLite use its write-ahead log, whatever version it is."""
    if allowed:
        database.WAL_SINCE = (3, 0, 0)


def write_rounds(pipe: Connection, url: str, wal: bool = False) -> None:
    """Write rounds until killed, each of two entries, a table, a vector, a person, a note and a summary."""
    allow_wal(wal)
    store = Store(url)
    while True:
        with store.writing(NAME) as session:
            number = session.summary.get("rounds", 0) + 1
            entry(session, ["commit", number], os.urandom(3000))
            last = entry(session, ["draw", number])
            session.put_vector("round", f"{number}".encode() * 500)
            session.add_people([number], [f"person {number}"], [os.urandom(16)], ["a"], ["b"])
            session.add_notes(last, {number: f"a reason in round {number}"})
            session.keep_answer(f"round {number}", bytes(32), f"answer {number}")
            session.set_summary({"rounds": number})
        pipe.send(number)


def write_in_turn(pipe: Connection, url: str, worker: str) -> None:
    """Write the entries [worker, 1], [worker, 2], … until killed; whenever it fails, look what there is and repeat."""
    store = Store(url)
    for number in count(1):
        while True:
            try:
                with store.writing(NAME) as session:
                    done = session.summary.get(worker, 0)
                    if done < number:
                        entry(session, [worker, number])
                        session.set_summary({**session.summary, worker: number})
                break
            except StoreError:  # any other error ends the process, which is noticed
                time.sleep(0.02)
        pipe.send(number)


def count_up(pipe: Connection, url: str, barrier: Barrier, times: int) -> None:
    """Read a number, add one, and write it, so many times."""
    store = Store(url)
    barrier.wait()
    for _ in range(times):
        with store.writing(NAME) as session:
            number = session.summary.get("number", 0) + 1
            entry(session, number)
            session.set_summary({"number": number})
    pipe.send("done")


def open_fresh(pipe: Connection, url: str, barrier: Barrier, name: str, wal: bool) -> None:
    """Open a store that is not there yet, at the same time as others."""
    allow_wal(wal)
    barrier.wait()
    with Store(url).creating(name, IDENTITY, SECRET) as session:
        entry(session, name)
    pipe.send("done")


def upgrade_with(pipe: Connection, url: str, folder: Path) -> None:
    """Apply the migrations in a folder."""
    upgrade(database.Database(url), folder)
    pipe.send("done")


def write_as_nobody(pipe: Connection, url: str) -> None:
    """Try to write, without the rights of the superuser."""
    if os.geteuid() == 0:
        os.setegid(65534)
        os.seteuid(65534)
    try:
        with Store(url).writing(NAME) as session:
            entry(session)
    except StoreError as error:
        pipe.send(str(error))
