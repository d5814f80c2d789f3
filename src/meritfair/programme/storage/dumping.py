"""Backups of PostgreSQL by its own programs, pg_dump and pg_restore, in their custom format.

A password is handed over in the environment of the program, never on its command line, and is taken out of what the
program says.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from meritfair.programme.storage.database import Database
from meritfair.programme.storage.schema import TEMPORARY, VERSIONS
from meritfair.programme.storage.store_errors import StoreError

MAGIC = b"PGDMP"  # how a dump in the custom format begins
_SAME = ("--no-owner", "--no-privileges", "--no-comments")  # whoever restores it owns it


def dump(database: Database, snapshot: str, target: Path) -> None:
    """Write what a transaction sees that has exported a snapshot, and read the file again."""
    where = ("--format=custom", f"--snapshot={snapshot}", f"--file={target}", f"--dbname={database.url}")
    left_out = (f"--exclude-table-data={table.name}" for table in TEMPORARY)
    _run("pg_dump", *_SAME, *left_out, *where, subject=database.url, database=database)
    check_dump(target)


def check_dump(file: Path) -> None:
    """Read the whole of a dump; refuse one that is cut off or damaged."""
    _run("pg_restore", f"--file={os.devnull}", str(file), subject=str(file))


def schema_of_dump(file: Path) -> str | None:
    """Return the schema of the store that a dump was made of, None if it is one of something else."""
    said = _run("pg_restore", "--data-only", f"--table={VERSIONS}", "--file=-", str(file), subject=str(file))
    lines = said.splitlines()
    starts = [number for number, line in enumerate(lines) if line.startswith("COPY ") and VERSIONS in line]
    return lines[starts[0] + 1] if starts else None


def load(database: Database, file: Path) -> None:
    """Put a dump into a database that is empty: all of it, or nothing."""
    how = ("--single-transaction", "--exit-on-error", f"--dbname={database.url}", str(file))
    _run("pg_restore", *_SAME, *how, subject=database.url, database=database)


def _run(program: str, *options: str, subject: str, database: Database | None = None) -> str:
    """Run one of PostgreSQL's programs; return what it prints, or raise what it complains about."""
    path = shutil.which(program)
    if path is None:
        raise StoreError(
            f"{subject}: {program} is not installed, which backups of PostgreSQL need. Install PostgreSQL's client "
            "programs, of the server's version or newer (on Debian: apt install postgresql-client)"
        )
    environment = None if database is None else database.tool_environment()
    done = subprocess.run(
        [path, *options], capture_output=True, encoding="utf-8", errors="replace", env=environment, check=False
    )
    if done.returncode:
        said = " ".join(done.stderr.split()) or f"exit code {done.returncode}"
        raise StoreError(f"{subject}: {said if database is None else database.hide(said)}")
    return done.stdout
