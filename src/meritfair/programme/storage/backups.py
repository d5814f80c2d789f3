"""Backups of a store, and back from them.

A backup is one file: of SQLite a database like the store itself, of PostgreSQL a dump in its custom format. It is what
the store was at one time, whoever writes meanwhile, without what servers share for a while (long work, uploads that
wait), and is put in place only after it was checked. Making one does not
upgrade the store, so it can be made by the new version just before that does.

A restore never overwrites anything: it fills a new file or an empty database, or puts a file that it replaces aside.
What it brings back is as old as the backup. Ledgers are then shorter than they were, which shows against a head that
was published since; users, tokens and their roles are those of that time, too.
"""

from __future__ import annotations

import sqlite3
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import sqlalchemy as sa

from meritfair.core.errors import FileError, InputError
from meritfair.core.storage import check_readable, naming, write_whole
from meritfair.programme.storage import dumping
from meritfair.programme.storage.copying import copy_file, empty_temporary_tables, open_file
from meritfair.programme.storage.database import Database, new_file
from meritfair.programme.storage.looking import Head, heads_in, known_schema, looking
from meritfair.programme.storage.schema import HEAD
from meritfair.programme.storage.store import Store
from meritfair.programme.storage.store_errors import StoreError, explaining
from meritfair.programme.storage.upgrading import is_newer, newer

_SQLITE = b"SQLite format 3\0"
_WAIT = 10  # seconds for others to finish what they write to a file that is to be replaced


@dataclass(frozen=True)
class Backup:
    """A backup that was made and checked.

    Attributes
    ----------
    file : Path
        Where it is.
    size : int
        In bytes.
    schema : str
        Of the store, as it was.
    heads : tuple of Head
        How far the programmes in it are.
    """

    file: Path
    size: int
    schema: str
    heads: tuple[Head, ...]


@dataclass(frozen=True)
class Restored:
    """What came of a restore.

    Attributes
    ----------
    store : str
        Which store it is, without a password.
    heads : tuple of Head
        How far the programmes in it are.
    kept : Path or None
        Where the file is that was there before.
    before : tuple of Head
        How far the programmes in that one were.
    """

    store: str
    heads: tuple[Head, ...]
    kept: Path | None = None
    before: tuple[Head, ...] = ()


def back_up(url: str | None, path: Path) -> Backup:
    """Write a backup of a store to a new file, or to a file with the time in its name in a folder that is there."""
    database = Database(url)
    file = path / f"meritfair-{_now()}.{'db' if database.is_sqlite else 'dump'}" if path.is_dir() else path
    if file.exists():
        raise InputError(f"{file}: there is such a file already. Name a new one, or a folder")
    schema, heads = _back_up_file(database, file) if database.is_sqlite else _back_up_server(database, url, file)
    return Backup(file, file.stat().st_size, schema, heads)


def restore(path: Path, url: str | None, *, replace: bool = False) -> Restored:
    """Make a store from a backup; nothing is changed if the backup cannot be used."""
    check_readable(path)
    kind, database = _kind(path), Database(url)
    if kind == "sqlite" and database.is_sqlite:
        return _restore_file(path, database, replace)
    if kind == "postgresql" and not database.is_sqlite:
        return _restore_server(path, database, url, replace)
    raise InputError(
        f"{path}: this is a backup of {'SQLite' if kind == 'sqlite' else 'PostgreSQL'}, and {database.url} is another "
        "database. Programmes move from one to the other by meritfair programme export and import"
    )


def _kind(path: Path) -> str:
    with naming(path, "cannot be read"), path.open("rb") as file:
        start = file.read(16)
    if start == _SQLITE:
        return "sqlite"
    if start.startswith(dumping.MAGIC):
        return "postgresql"
    raise FileError(path, "this is not a backup" + ("; the file is empty" if not start else ""))


def _back_up_file(database: Database, file: Path) -> tuple[str, tuple[Head, ...]]:
    if not database.file.exists():
        raise InputError(f"there is no store {database.file}: --store names another")
    found: list[tuple[str, tuple[Head, ...]]] = []

    def write(temporary: Path) -> None:
        copy_file(database.file, temporary, database.url)
        with looking(Database(str(temporary))) as connection:
            schema = known_schema(connection, database.url)
        empty_temporary_tables(temporary, database.url)
        with _folder_beside(temporary) as folder:
            trial = folder / "trial.db"  # opening it as a store brings it up to date, which a backup is not for
            copy_file(temporary, trial, database.url)
            found.append((schema, _checked(str(trial), database.url)))

    write_whole(file, write, private=True)
    return found[0]


def _back_up_server(database: Database, url: str | None, file: Path) -> tuple[str, tuple[Head, ...]]:
    with looking(database) as connection:
        schema = known_schema(connection, database.url)
        if schema == HEAD:  # opening an older one as a store would upgrade it
            _checked(url, database.url)
        heads = heads_in(connection)
        snapshot = str(connection.exec_driver_sql("SELECT pg_export_snapshot()").scalar())
        write_whole(file, lambda temporary: dumping.dump(database, snapshot, temporary), private=True)
    return schema, heads


def _restore_file(path: Path, database: Database, replace: bool) -> Restored:
    there = database.file.exists()
    if there and path.samefile(database.file):
        raise InputError(f"{path}: this is the store itself, not a backup of it")
    if there and not replace:
        raise InputError(
            f"there is already a store {database.file}. --replace puts the backup in its place, and keeps what is "
            "there now beside it"
        )
    if there:
        return _replace_file(path, database)
    with naming(database.file, "cannot be written"), new_file(database.file) as temporary:
        heads = _ready(path, temporary)
    return Restored(database.url, _same(heads, database))


def _replace_file(path: Path, database: Database) -> Restored:
    """Put a backup in the place of a store; others may have the file open meanwhile."""
    kept = database.file.with_name(f"{database.file.name}.before-restore-{_now()}")
    with naming(database.file, "cannot be written"), _folder_beside(database.file) as folder:
        restored = folder / "restored.db"
        heads = _ready(path, restored)
        if _is_damaged(database):
            before: tuple[Head, ...] = ()
            _move_aside(database.file, kept)
            restored.replace(database.file)
        else:
            before = _heads_in(database)
            write_whole(kept, lambda temporary: copy_file(database.file, temporary, database.url), private=True)
            _write_over(database, restored)
    return Restored(database.url, _same(heads, database), kept, before)


def _restore_server(path: Path, database: Database, url: str | None, replace: bool) -> Restored:
    with _refusing(path):
        dumping.check_dump(path)
    schema = dumping.schema_of_dump(path)
    if schema is None:
        raise FileError(path, "this is a dump of a database, but not of one of programmes")
    if is_newer(schema):
        raise newer(str(path), schema)
    with looking(database) as connection:
        filled = sa.inspect(connection).get_table_names()
    if filled:
        raise InputError(
            f"{database.url}: there are tables in this database already, and a backup is restored into an empty one"
            + "; --replace is for files" * replace
            + ". Make one (createdb NAME), restore into it, and name it with --store from then on"
        )
    dumping.load(database, path)
    return Restored(database.url, _checked(url, database.url))


def _ready(path: Path, target: Path) -> tuple[Head, ...]:
    """Make a store of a backup: checked, up to date, in one file."""
    with _refusing(path):
        copy_file(path, target, str(path))
    with looking(Database(str(target))) as connection:
        known_schema(connection, str(path))
    with _refusing(path):
        heads = _checked(str(target), str(path))
    with closing(sqlite3.connect(target)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
    return heads


@contextmanager
def _refusing(path: Path) -> Iterator[None]:
    """Say that damage is that of a backup, not of the store."""
    try:
        yield
    except StoreError as error:
        problem = f"this backup is cut off or damaged, and nothing was changed; take another one. ({error})"
        raise FileError(path, problem) from None


def _write_over(database: Database, source: Path) -> None:
    """Write a database over another in one transaction, which waits for those of others."""
    latest = time.monotonic() + _WAIT

    def give_up(status: int, *_: int) -> None:
        if status in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED) and time.monotonic() > latest:
            raise StoreError(f"{database.url}: others are using the store; nothing was restored. Stop the server first")

    with explaining(database.url), closing(open_file(source)) as new, closing(database.connect()) as old:
        old.execute("PRAGMA busy_timeout = 1000")
        new.backup(old, progress=give_up)


def _is_damaged(database: Database) -> bool:
    """Return whether a file is no SQLite database of programmes any more, so that nothing can be copied from it."""
    try:
        with closing(open_file(database.file)) as connection:
            connection.execute("SELECT name, head FROM programme").fetchall()
            return bool(connection.execute("PRAGMA integrity_check(1)").fetchone() != ("ok",))
    except sqlite3.DatabaseError as error:
        if error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise StoreError(f"{database.url}: others are using the store. Stop the server first") from None
        return True


def _move_aside(file: Path, kept: Path) -> None:
    """Give a file another name, and with it what SQLite keeps beside it."""
    for suffix in ("-journal", "-wal", "-shm", ""):
        beside = Path(f"{file}{suffix}")
        if beside.exists():
            beside.rename(f"{kept}{suffix}")


@contextmanager
def _folder_beside(file: Path) -> Iterator[Path]:
    """Give a folder on the same drive as a file, for its owner alone, that is gone at the end."""
    with tempfile.TemporaryDirectory(dir=file.parent, prefix=".meritfair-") as folder:
        yield Path(folder)


def _checked(url: str | None, where: str) -> tuple[Head, ...]:
    """Read everything in a store, which is brought up to date; return its heads if all is well."""
    store = None
    try:
        store = Store(url)
        problems = store.check()
        if problems:
            raise StoreError(problems[0])
        return _heads_in(Database(url))
    except StoreError as error:
        raise StoreError(str(error).replace(Database(url).url, where)) from None
    finally:
        if store is not None:
            store.close()


def _heads_in(database: Database) -> tuple[Head, ...]:
    with looking(database) as connection:
        return heads_in(connection)


def _same(heads: tuple[Head, ...], database: Database) -> tuple[Head, ...]:
    """Return the heads of a store, if they are those that were restored."""
    if _heads_in(database) != heads:
        raise StoreError(f"{database.url}: another process has changed the store meanwhile. Look at its programmes")
    return heads


def _now() -> str:
    return datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
