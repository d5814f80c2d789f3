"""What goes wrong with a database, in words that say what to do.

Drivers report an error code: SQLite one of its result codes, PostgreSQL a SQLSTATE. Each that a user can do something
about has a sentence here; the others are told as the driver tells them. A message never has a password or a value of a
participant in it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from traceback import walk_tb

from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as NoConnectionLeftError

from meritfair.core.errors import MeritfairError
from meritfair.core.texts import shortened


class StoreError(MeritfairError):
    """A store cannot be used: it is damaged, full, read-only, locked, out of reach, or of a newer schema."""


def damaged(where: str, what: str) -> StoreError:
    """Return the error for something in a store that is not as it was written.

    Examples
    --------
    >>> print(damaged("programmes.db, programme 'clinic'", "entry 7"))
    programmes.db, programme 'clinic': entry 7 is not as it was written, so the database is damaged. Restore the last
    backup, and compare its head with the one that was printed at the last draw
    """
    return StoreError(
        f"{where}: {what} is not as it was written, so the database is damaged. Restore the last backup, and compare "
        "its head with the one that was printed at the last draw"
    )


_DAMAGED = (
    "the database is damaged; nothing was changed. Restore the last backup, and compare its head with the one that "
    "was printed at the last draw"
)
_FULL = "there is no space left for the database; nothing was saved. Free some space, then repeat what you did"
_READ_ONLY = (
    "the database is read-only; nothing was saved. Look at the permissions of the file and of its folder, or of the "
    "database user"
)
_LOCKED = "another process has kept the database locked for a minute; nothing was saved. Repeat it later"
_CUT_OFF = (
    "the connection to the database was lost; what was under way is saved whole or not at all. See that the server "
    "runs, look at the status of the programme, then repeat what is missing"
)
_NO_CONNECTION = "cannot connect. See that the server runs, and that address, database, user and password are right"
_REFUSED = "the database refused it; nothing was saved"
_CONTRADICTS = "the database refuses what contradicts what it holds (an id, a number or a key that it has already)"

# Primary result codes: https://sqlite.org/rescode.html
_OF_SQLITE = {
    3: "the permission to use the database file is missing. Look at the permissions of the file and of its folder",
    5: _LOCKED,
    6: _LOCKED,
    7: "there is not enough memory; nothing was saved",
    8: _READ_ONLY,
    10: "the system could not read or write the database file; nothing was saved. Look at the disk, then repeat it",
    11: _DAMAGED,
    13: _FULL,
    14: "the database file cannot be opened. See that its folder is there, and that you may read and write in it",
    17: _DAMAGED,
    18: "a text or a table is larger than SQLite can hold; nothing was saved",
    19: _CONTRADICTS,
    26: "the file is damaged, or is not an SQLite database. See that it is the right file, or restore the last backup",
}
# SQLSTATE: https://www.postgresql.org/docs/current/errcodes-appendix.html
_OF_POSTGRESQL = {
    "23505": _CONTRADICTS,
    "25006": _READ_ONLY,
    "42501": _READ_ONLY,
    "53100": _FULL,
    "53300": "the server has no connection left. Repeat it later, or raise max_connections of the server",
    "55P03": _LOCKED,
    "57P01": _CUT_OFF,
    "57P02": _CUT_OFF,
    "57P03": "the server is starting or stopping. Repeat it in a few seconds",
    "XX001": _DAMAGED,
    "XX002": _DAMAGED,
}


@contextmanager
def explaining(where: str, password: str | None = None) -> Iterator[None]:
    """Turn errors of the drivers into `StoreError`, which says what to do; `where` is the database, named safely."""
    try:
        yield
    except NoConnectionLeftError:
        raise StoreError(f"{where}: all connections of this process are in use. Repeat it later") from None
    except DBAPIError as error:
        raise StoreError(f"{where}: {_in_words(error.orig or error, password)}") from None
    except Exception as error:  # errors of a driver that may not be installed: nothing else is touched
        if isinstance(error, UnicodeDecodeError) and _is_of_a_driver(error):  # SQLite tells what it cannot read
            raise StoreError(f"{where}: {_DAMAGED}") from None
        if not isinstance(error, sqlite3.Error) and not type(error).__module__.startswith("psycopg"):
            raise
        raise StoreError(f"{where}: {_in_words(error, password)}") from None


def _is_of_a_driver(error: BaseException) -> bool:
    """Return whether an error was raised by a statement, and not by what is done with its rows."""
    *_, (frame, _) = walk_tb(error.__traceback__)
    return str(frame.f_globals["__name__"]).startswith(
        ("sqlalchemy.", "meritfair.programme.storage.database", "sqlite3", "psycopg")
    )


def _in_words(error: BaseException, password: str | None) -> str:
    if isinstance(error, sqlite3.Error):
        sentence = _OF_SQLITE.get(getattr(error, "sqlite_errorcode", 1) & 0xFF, _DAMAGED)
        told, _, _ = str(error).partition(" with text ")  # what cannot be decoded may be anyone's name
        return f"{sentence} (SQLite says: {shortened(told, 300)})"
    state: str | None = getattr(error, "sqlstate", None)
    # The primary message alone: details and context have values of rows.
    told = " ".join((getattr(getattr(error, "diag", None), "message_primary", None) or str(error)).split())
    said = told.replace(password, "***") if password else told
    return f"{_OF_POSTGRESQL.get(state or '') or _unlisted(state, error)} (PostgreSQL says: {said})"


def _unlisted(state: str | None, error: BaseException) -> str:
    """Return a sentence for an error of PostgreSQL that is not listed: one of the connection has no SQLSTATE."""
    if type(error).__name__ == "ConnectionTimeout" or "connection failed" in str(error):
        return _NO_CONNECTION
    if state is None and type(error).__name__ != "OperationalError":
        return _REFUSED
    return _CUT_OFF if state is None or state.startswith("08") else _REFUSED
