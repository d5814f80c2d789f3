"""Copies of SQLite databases, as they are at one time, whoever writes meanwhile."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from meritfair.programme.storage.database import PATIENCE
from meritfair.programme.storage.schema import TEMPORARY
from meritfair.programme.storage.store_errors import damaged, explaining


def open_file(file: Path) -> sqlite3.Connection:
    """Open an SQLite file that is there; what a crash has left unfinished is undone, if it may be written."""
    return sqlite3.connect(f"{file.absolute().as_uri()}?mode=rw", uri=True, timeout=PATIENCE)


def copy_file(source: Path, target: Path, where: str) -> None:
    """Copy a database into one file, whatever mode it has; refuse a damaged one, which is named `where`.

    Nothing lies beside the file afterwards, also if the disk was full, which keeps SQLite from tidying up itself.
    """
    try:
        with explaining(where), closing(open_file(source)) as old, closing(sqlite3.connect(target)) as new:
            old.backup(new)
            new.execute("PRAGMA journal_mode = DELETE")
            problems = [each for (each,) in new.execute("PRAGMA integrity_check") if each != "ok"]
        if problems:
            raise damaged(where, f"something that was to be copied ({' '.join(problems[0].split())})")
    finally:
        for suffix in ("-journal", "-wal", "-shm"):
            Path(f"{target}{suffix}").unlink(missing_ok=True)


def empty_temporary_tables(file: Path, where: str) -> None:
    """Delete from a copy what servers share for a while only; nothing of it stays in unused pages."""
    with explaining(where), closing(sqlite3.connect(file, isolation_level=None)) as connection:
        deleted = sum(connection.execute(f"DELETE FROM {table.name}").rowcount for table in TEMPORARY)
        if deleted:
            connection.execute("VACUUM")
