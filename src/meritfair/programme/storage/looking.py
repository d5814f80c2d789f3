"""A look at a store that changes nothing: not its schema, not its mode, whatever version wrote it.

Opening a `Store` brings its tables up to date. What is here reads what every schema has, so that a store can be
examined, and a backup be made of it, before that.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import sqlalchemy as sa

from meritfair.programme.storage.database import Database, sqlite_engine
from meritfair.programme.storage.schema import ENTRY, PROGRAMME
from meritfair.programme.storage.store_errors import StoreError, explaining
from meritfair.programme.storage.upgrading import is_newer, newer, schema_in

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
    """

    settings: dict[str, str]
    schema: str | None
    damage: str
    heads: tuple[Head, ...]
    times: dict[str, tuple[str, ...]]


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


def look_at(database: Database) -> Look:
    """Look at a store that is there: what the database is, and how far its programmes are."""
    with looking(database) as connection:
        settings = _settings(connection, database)
        damage = _quick_check(connection) if database.is_sqlite else ""
        schema = schema_in(connection) if not damage else None
        if schema is None or is_newer(schema):
            return Look(settings, schema, damage, (), {})
        return Look(settings, schema, damage, heads_in(connection), _times(connection))


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
    return tuple(sorted((Head(name, n, time or "", head.hex()) for name, n, time, head in rows), key=lambda h: h.name))


def _times(connection: sa.Connection) -> dict[str, tuple[str, ...]]:
    """Return the times of the last entries of each programme."""
    programmes = connection.execute(sa.select(PROGRAMME.c.id, PROGRAMME.c.name, PROGRAMME.c.length)).all()
    query = sa.select(ENTRY.c.time).order_by(ENTRY.c.seq)
    return {
        name: tuple(connection.execute(query.where(ENTRY.c.programme == row, ENTRY.c.seq >= length - _LAST)).scalars())
        for row, name, length in programmes
    }


def _settings(connection: sa.Connection, database: Database) -> dict[str, str]:
    if database.is_sqlite:
        mode = connection.exec_driver_sql("PRAGMA journal_mode").scalar()
        return {"version": sqlite3.sqlite_version, "journal_mode": str(mode)}
    return {name: str(connection.exec_driver_sql(f"SHOW {name}").scalar()) for name in _SETTINGS}


def _quick_check(connection: sa.Connection) -> str:
    found = connection.exec_driver_sql("PRAGMA quick_check(1)").scalars().all()
    return "" if found == ["ok"] else " ".join(map(str, found))
