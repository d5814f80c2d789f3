"""The tables of a store are made and brought up to date, in one transaction.

Alembic applies the scripts in ``migrations``, one for each schema. It is loaded only if there is something to do.
"""

from __future__ import annotations

from pathlib import Path
from threading import Lock

import sqlalchemy as sa

from meritfair.programme.storage.database import Database, new_file, sqlite_engine
from meritfair.programme.storage.schema import HEAD, VERSIONS
from meritfair.programme.storage.store_errors import StoreError, explaining

MIGRATIONS = Path(__file__).parent / "migrations"
_LOCK = 0x4D465052  # of PostgreSQL, for whoever changes the tables
_ONE_AT_A_TIME = Lock()  # alembic keeps in global variables what it is doing


def prepare(database: Database) -> None:
    """Make the tables of a store, or bring them up to date, unless they are."""
    if database.is_sqlite:
        _prepare_file(database)
    with database.transaction(writing=False) as connection:
        found = schema_in(connection)
        if found is None and database.is_sqlite:
            raise StoreError(f"{database.url}: this is a database, but not one of programmes. Name another file")
        if not database.is_sqlite:
            _check_encoding(connection, database.url)
    if found != HEAD:
        upgrade(database)


def upgrade(database: Database, folder: Path = MIGRATIONS) -> None:
    """Apply the scripts in `folder` that have not been applied yet: all of them, or none."""
    with database.transaction(writing=True) as connection:
        if not database.is_sqlite:
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_LOCK})")
        _apply(connection, database.url, folder)


def is_newer(found: str) -> bool:
    """Return whether a schema is one that this version does not know.

    Examples
    --------
    >>> is_newer("1"), is_newer("1000")
    (False, True)
    """
    return not found.isdecimal() or int(found) > int(HEAD)


def newer(where: str, found: str, last: str = HEAD) -> StoreError:
    """Return the error for a schema that this version does not know."""
    return StoreError(
        f"{where}: the schema is {found!r}, and this version of meritfair knows none after {last!r}. "
        "It was written by a newer version: install that one, or a later one"
    )


def _prepare_file(database: Database) -> None:
    """Make an SQLite file with all tables, if there is none."""
    try:
        if not database.file.exists() and not database.read_only:
            with new_file(database.file) as temporary, explaining(database.url):
                _make_tables(temporary, database.url)
        empty = database.file.stat().st_size == 0
    except OSError as error:
        raise StoreError(f"{database.url}: the file cannot be opened or made ({error})") from None
    if empty:
        raise StoreError(
            f"{database.url}: the file is empty, so it was cut off. Restore the last backup, or delete it to start anew"
        )
    database.prefer_wal()


def _make_tables(file: Path, where: str) -> None:
    engine = sqlite_engine(file)
    with engine.connect() as connection, connection.execution_options(sqlite_begin="IMMEDIATE").begin():
        _apply(connection, where, MIGRATIONS)


def schema_in(connection: sa.Connection) -> str | None:
    """Return the number of the schema, None if there are no tables."""
    if not sa.inspect(connection).has_table(VERSIONS):
        return None
    return str(connection.exec_driver_sql(f"SELECT version_num FROM {VERSIONS}").scalar())


def _check_encoding(connection: sa.Connection, url: str) -> None:
    encoding = connection.exec_driver_sql("SHOW server_encoding").scalar()
    if encoding != "UTF8":
        raise StoreError(f"{url}: the database must have the encoding UTF8, got {encoding}. Make one that has it")


def _apply(connection: sa.Connection, where: str, folder: Path) -> None:
    from alembic import command
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    config = Config()
    config.set_main_option("script_location", str(folder).replace("%", "%%"))
    config.attributes["connection"] = connection
    scripts = ScriptDirectory.from_config(config)
    found, known = schema_in(connection), [each.revision for each in scripts.walk_revisions()]
    if found is not None and found not in known:
        raise newer(where, found, known[0])
    with _ONE_AT_A_TIME:
        command.upgrade(config, "head")
