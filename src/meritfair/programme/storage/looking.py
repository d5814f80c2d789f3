"""A look at a store that changes nothing: not its schema, not its mode, whatever version wrote it.

Opening a `Store` brings its tables up to date. What is here reads what every schema has, so that a store can be
examined, and a backup be made of it, before that.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa

from meritfair.programme.storage.access_rows import AccessRows
from meritfair.programme.storage.checked_rows import programme_rows
from meritfair.programme.storage.database import Database, sqlite_engine
from meritfair.programme.storage.schema import ENTRY, HEAD, METADATA, PROGRAMME
from meritfair.programme.storage.session import Session
from meritfair.programme.storage.store_errors import StoreError, explaining
from meritfair.programme.storage.store_settings import StoreSettings
from meritfair.programme.storage.temporary_rows import TemporaryRows
from meritfair.programme.storage.upgrading import is_newer, newer, schema_in

_STEPS = 100_000  # of SQLite's machine, between two times that it tells that it is at work
_LAST = 200  # entries of each programme whose times are looked at
_SETTINGS = ("server_version", "server_encoding", "fsync", "full_page_writes")


@dataclass(frozen=True)
class Head:
    """How far the ledger of a programme goes.

    Attributes
    ----------
    name : str
        Of the programme.
    entries : int
        How many there are.
    time : str
        Of the last one; empty if there is none.
    head : str
        The hash that stands for all of them.
    """

    name: str
    entries: int
    time: str
    head: str


@dataclass(frozen=True)
class Look:
    """What a database says of itself.

    Attributes
    ----------
    settings : dict
        Its version and its settings, by name.
    schema : str or None
        The number of the schema; None if there are no tables of programmes.
    damage : str
        What a quick check found, empty if nothing.
    heads : tuple of Head
        Of all programmes.
    times : dict
        The times of the last entries of each programme, in order.
    values : dict
        The settings of the store, by name.
    """

    settings: dict[str, str]
    schema: str | None
    damage: str
    heads: tuple[Head, ...]
    times: dict[str, tuple[str, ...]]
    values: dict[str, str] = field(default_factory=dict)


@contextmanager
def looking(database: Database) -> Iterator[sa.Connection]:
    """Open a transaction in which nothing can be changed."""
    if not database.is_sqlite:
        with database.transaction(writing=False) as connection:
            yield connection
        return
    engine = sqlite_engine(database.file, read_only=True)
    with explaining(database.url), engine.connect() as connection:
        connection.execution_options(sqlite_begin="DEFERRED")
        with connection.begin():
            yield connection


@contextmanager
def looking_into(database: Database, name: str) -> Iterator[Session]:
    """Open a programme to read it, whatever schema it is in."""
    with looking(database) as connection:
        row = next(each for each in programme_rows(connection, database.url) if each.name == name)
        yield Session(connection, row, database.url, writable=False)


def users_in(database: Database) -> tuple[int, int, list[str]]:
    """Return how many users and rows of their log there are, and what is damaged of them, in words."""
    with looking(database) as connection:
        rows = AccessRows(connection, database.url, writable=False)
        return rows.version.users, rows.version.logged, rows.problems()


def temporary_in(database: Database) -> tuple[int, list[str]]:
    """Return how many jobs and uploads of servers are kept for a while, and what is damaged of them, in words."""
    with looking(database) as connection:
        rows = TemporaryRows(connection, database.url, writable=False)
        return len(rows.live_jobs()) + len(rows.ended_jobs()) + len(rows.uploads()), rows.problems()


def look_at(database: Database, *, quick: bool = True, tell: Callable[[], None] = lambda: None) -> Look:
    """Look at a store that is there: what the database is, and how far its programmes are.

    Parameters
    ----------
    database : Database
    quick : bool
        Have SQLite check its pages alone; otherwise also its indices, and that rows refer to rows that are there.
    tell : callable
        Called now and then while it does so.
    """
    with looking(database) as connection:
        settings = _settings(connection, database)
        damage = _damage(connection, quick, tell) if database.is_sqlite else ""
        schema = schema_in(connection) if not damage else None
        if schema is None or is_newer(schema):
            return Look(settings, schema, damage, (), {})
        if schema == HEAD:
            _check_columns(connection)
        programme_rows(connection, database.url)
        values = StoreSettings(connection, database.url).all()
        return Look(settings, schema, damage, heads_in(connection), _times(connection), values)


def known_schema(connection: sa.Connection, where: str) -> str:
    """Return the schema of a store, if it is one that this version knows."""
    found = schema_in(connection)
    if found is None:
        raise StoreError(f"{where}: this is a database, but not one of programmes")
    if is_newer(found):
        raise newer(where, found)
    return found


def heads_in(connection: sa.Connection) -> tuple[Head, ...]:
    """Return the heads of all programmes, in the order of their names."""
    last = sa.and_(ENTRY.c.programme == PROGRAMME.c.id, ENTRY.c.seq == PROGRAMME.c.length - 1)
    query = sa.select(PROGRAMME.c.name, PROGRAMME.c.length, ENTRY.c.time, PROGRAMME.c.head)
    rows = connection.execute(query.select_from(PROGRAMME.outerjoin(ENTRY, last))).all()
    return tuple(
        sorted((Head(name, n, str(time or ""), head.hex()) for name, n, time, head in rows), key=lambda h: h.name)
    )


def _times(connection: sa.Connection) -> dict[str, tuple[str, ...]]:
    """Return the times of the last entries of each programme."""
    programmes = connection.execute(sa.select(PROGRAMME.c.id, PROGRAMME.c.name, PROGRAMME.c.length)).all()
    query = sa.select(ENTRY.c.time).order_by(ENTRY.c.seq)
    return {
        name: tuple(
            map(str, connection.execute(query.where(ENTRY.c.programme == row, ENTRY.c.seq >= length - _LAST)).scalars())
        )
        for row, name, length in programmes
    }


def _settings(connection: sa.Connection, database: Database) -> dict[str, str]:
    if database.is_sqlite:
        mode = connection.exec_driver_sql("PRAGMA journal_mode").scalar()
        return {"version": sqlite3.sqlite_version, "journal_mode": str(mode)}
    return {name: str(connection.exec_driver_sql(f"SHOW {name}").scalar()) for name in _SETTINGS}


def _check_columns(connection: sa.Connection) -> None:
    """Have the database name every column of this schema, also of tables that nobody reads here."""
    for table in METADATA.sorted_tables:
        connection.execute(sa.select(table).limit(0))


def _damage(connection: sa.Connection, quick: bool, tell: Callable[[], None]) -> str:
    """Return what SQLite finds wrong with its file, empty if nothing."""
    driver: Any = connection.connection.driver_connection
    driver.set_progress_handler(tell, _STEPS)
    found = connection.exec_driver_sql(f"PRAGMA {'quick' if quick else 'integrity'}_check(1)").scalars().all()
    if found != ["ok"]:
        return " ".join(map(str, found))
    lost = [] if quick else connection.exec_driver_sql("PRAGMA foreign_key_check").all()
    return f"a row of {lost[0][0]} refers to one of {lost[0][2]} that is not there" if lost else ""
