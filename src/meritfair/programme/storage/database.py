"""The database that a store is in: which one, how it is opened, and its transactions.

A writing transaction has the database to itself from its start (SQLite: ``BEGIN IMMEDIATE``) or locks what it is about
(PostgreSQL: the caller reads the programme's row ``FOR UPDATE``), so that nothing changes between what it reads and
what it writes. A reading one sees one state from its start to its end, and cannot write. What is committed is on the
disk.

SQLite's write-ahead log lets readers and a writer work side by side, but could damage a database until 3.51.3; older
ones use a rollback journal. A new file is built under another name and put in place whole, with its tables, so that an
empty file is never taken for a new store.
"""

from __future__ import annotations

import os
import sqlite3
import sys
import tempfile
import weakref
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.pool import NullPool

from meritfair.core.errors import InputError, MissingExtraError
from meritfair.programme.storage.store_errors import StoreError, explaining
from meritfair.programme.storage.turns import Turns

PATIENCE = 60  # seconds that a transaction waits for another one
WAL_SINCE = (3, 51, 3)
_FORMS = "a store is PATH, sqlite:///PATH or postgresql://USER@HOST/DATABASE"
_READING = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY"
_WRITING = f"""
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
SELECT set_config('lock_timeout', '{PATIENCE}s', true),
       CASE current_setting('synchronous_commit') WHEN 'off' THEN set_config('synchronous_commit', 'on', true) END
"""


class Database:
    """An SQLite file or a PostgreSQL database; `url` shows which, without a password."""

    def __init__(self, url: str | None) -> None:
        address = _address(url or os.environ.get("MERITFAIR_STORE") or str(default_file()))
        self.is_sqlite = address.get_backend_name() == "sqlite"
        self.url, self._turns = _safe(address), Turns()
        self._password = address.password or str(address.query.get("password") or "") or None
        if self.is_sqlite:
            self.file = Path(address.database or "").expanduser().absolute()
            self.read_only = address.query.get("mode") == "ro"
            self.engine = sqlite_engine(self.file, self.read_only)
        else:
            self.engine = _postgresql_engine(address)
        weakref.finalize(self, _let_go, self.engine, os.getpid())

    @contextmanager
    def transaction(self, *, writing: bool) -> Iterator[sa.Connection]:
        """Run a transaction: committed at the end, rolled back on any exception; errors are told in words."""
        turn = self._turns.taking(writing=writing) if self.is_sqlite else nullcontext()
        with turn, explaining(self.url, self._password), self.engine.connect() as connection:
            if self.is_sqlite:
                connection.execution_options(sqlite_begin="IMMEDIATE" if writing else "DEFERRED")
            with connection.begin():
                if not self.is_sqlite:
                    connection.exec_driver_sql(_WRITING if writing else _READING)
                yield connection

    def tool_environment(self) -> dict[str, str]:
        """Return the variables for a program of PostgreSQL: the password is there, and never on a command line."""
        return {**os.environ, "PGCONNECT_TIMEOUT": "10", **({"PGPASSWORD": self._password} if self._password else {})}

    def hide(self, words: str) -> str:
        """Return what a program has said without the password."""
        return words.replace(self._password, "***") if self._password else words

    def connect(self) -> sqlite3.Connection:
        """Open the SQLite file by itself."""
        return _connect(self.file, self.read_only)

    def readers_block(self) -> bool:
        """Return whether whoever writes has to wait until all have read: in SQLite without a write-ahead log."""
        if not self.is_sqlite:
            return False
        with explaining(self.url), closing(self.connect()) as connection:
            return bool(connection.execute("PRAGMA journal_mode").fetchone() != ("wal",))

    def integrity(self) -> list[str]:
        """Return what an SQLite database says is wrong with itself; PostgreSQL has tools for that of its own."""
        if not self.is_sqlite:
            return []
        try:
            with explaining(self.url), closing(self.connect()) as connection:
                said = [*connection.execute("PRAGMA integrity_check"), *connection.execute("PRAGMA foreign_key_check")]
        except StoreError as error:
            return [str(error)]
        return [f"{self.url}: {' '.join(map(str, each))}" for each in said if each != ("ok",)]

    def prefer_wal(self) -> None:
        """Turn the write-ahead log of an SQLite file on, if it is safe and nobody else uses the file just now."""
        if sqlite3.sqlite_version_info < WAL_SINCE or self.read_only or not os.access(self.file, os.W_OK):
            return
        with explaining(self.url), closing(self.connect()) as connection:
            try:
                connection.execute("PRAGMA busy_timeout = 0")
                connection.execute("PRAGMA journal_mode = WAL")
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:  # whoever is next alone with it will do so
                    raise


def default_file() -> Path:
    """Return where programmes are kept if nobody says where: in the user's data folder."""
    home = Path.home()
    if sys.platform == "win32":
        folder = Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local")
    elif sys.platform == "darwin":
        folder = home / "Library" / "Application Support"
    else:
        folder = Path(os.environ.get("XDG_DATA_HOME") or home / ".local" / "share")
    return folder / "meritfair" / "programmes.db"


def _address(url: str) -> sa.URL:
    """Return what a URL, or the path of an SQLite file, says."""
    if "://" not in url:
        return sa.URL.create("sqlite", database=url)
    try:
        address = sa.make_url(url)
    except (sa.exc.ArgumentError, ValueError):  # which would tell the password
        raise InputError(f"{_FORMS}, got a URL that cannot be read") from None
    if address.drivername == "sqlite" and address.database not in (None, "", ":memory:"):
        return address
    if address.drivername in ("postgres", "postgresql", "postgresql+psycopg"):
        return address.set(drivername="postgresql+psycopg")
    raise InputError(f"{_FORMS}, got {_safe(address)}")


def _safe(address: sa.URL) -> str:
    """Return a URL as it may be shown."""
    scheme = "postgresql" if address.drivername == "postgresql+psycopg" else address.drivername
    shown = address._replace(drivername=scheme, password=None).difference_update_query(["password"])
    return shown.render_as_string(hide_password=False)


def sqlite_engine(file: Path, read_only: bool = False) -> sa.Engine:
    """Return an engine that opens an SQLite file afresh for each transaction, which no fork or thread can disturb."""
    engine = sa.create_engine(
        "sqlite://", creator=lambda: _connect(file, read_only), poolclass=NullPool, hide_parameters=True
    )

    @event.listens_for(engine, "begin")
    def begin(connection: sa.Connection) -> None:
        how = connection.get_execution_options()["sqlite_begin"]
        connection.exec_driver_sql(f"PRAGMA query_only = {'OFF' if how == 'IMMEDIATE' else 'ON'}")
        connection.exec_driver_sql(f"BEGIN {how}")

    return engine


def _connect(file: Path, read_only: bool) -> sqlite3.Connection:
    connection = sqlite3.connect(
        f"{file.as_uri()}?mode={'ro' if read_only else 'rw'}",  # never makes a file
        uri=True,
        timeout=PATIENCE,
        isolation_level=None,  # transactions begin where they are told to, not where the driver thinks
        check_same_thread=False,
    )
    try:
        old = sqlite3.sqlite_version_info < WAL_SINCE
        if old or connection.execute("PRAGMA journal_mode").fetchone() != ("wal",):
            connection.execute("PRAGMA journal_mode = TRUNCATE")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA secure_delete = ON")  # who is erased is not left in unused pages
    except BaseException:
        connection.close()
        raise
    return connection


def _postgresql_engine(address: sa.URL) -> sa.Engine:
    try:
        import psycopg  # noqa: F401  (an extra)
    except ImportError:
        raise MissingExtraError("a store on PostgreSQL", "postgres") from None
    settings = {"connect_timeout": "10", "application_name": "meritfair", **address.query}
    engine = sa.create_engine(
        address.set(query=settings), pool_pre_ping=True, hide_parameters=True, use_native_hstore=False
    )

    @event.listens_for(engine, "connect")
    def note_process(_: Any, record: sa.pool.ConnectionPoolEntry) -> None:
        record.info["pid"] = os.getpid()

    @event.listens_for(engine, "checkout")
    def refuse_inherited(_: Any, record: sa.pool.ConnectionPoolEntry, fairy: sa.pool.PoolProxiedConnection) -> None:
        if record.info["pid"] != os.getpid():  # a fork shares the parent's connections, which both would use
            record.dbapi_connection = fairy.dbapi_connection = None  # type: ignore[misc]
            raise sa.exc.DisconnectionError("the connection is another process's")

    return engine


def _let_go(engine: sa.Engine, process: int) -> None:
    """Close the connections that are left, unless they are those of the process that this one was forked from."""
    engine.dispose(close=os.getpid() == process)


@contextmanager
def new_file(file: Path) -> Iterator[Path]:
    """Give a temporary file to fill, then put it in place in one step, unless another process has been faster."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.stem}-", suffix=file.suffix)  # its owner's alone
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        _put_in_place(temporary, file)
    finally:
        for each in (temporary, Path(f"{temporary}-journal")):
            each.unlink(missing_ok=True)


def _put_in_place(temporary: Path, file: Path) -> None:
    try:
        os.link(temporary, file)  # unlike a rename, it never replaces what another process has made meanwhile
    except FileExistsError:
        return
    except OSError:  # no links on this drive
        if not file.exists():
            temporary.rename(file)
