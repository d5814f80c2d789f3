"""What `meritfair doctor` finds out: about the machine, the machine code, and the store of programmes.

Nothing is changed: a store is not upgraded, and one that is not there is not made. Whether the folder for machine code
can be written to is tried out, since that alone tells.

Of the store all rows are read, unless it is to be quick: those of the ledgers along their chains, and all others by
their checksums and counts. What that cannot show is named among the checks, as skipped.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from time import perf_counter

from meritfair.core.checkup import (
    Check,
    check_disk,
    check_libraries,
    check_memory,
    check_port,
    check_python,
)
from meritfair.core.errors import InputError, MeritfairError
from meritfair.core.progress import Progress, following
from meritfair.core.texts import printable, several
from meritfair.programme.chain import ChainCheck, check_chain
from meritfair.programme.keeping import SETTING as HEADS
from meritfair.programme.keeping import read_places
from meritfair.programme.ledger.entries import parse_time
from meritfair.programme.ledger.heads import matching, read_heads
from meritfair.programme.storage.database import WAL_SINCE, Database
from meritfair.programme.storage.looking import Head, Look, look_at, looking, temporary_in, users_in
from meritfair.programme.storage.protection import unprotected
from meritfair.programme.storage.schema import HEAD
from meritfair.programme.storage.upgrading import is_newer

_TOLERANCE = timedelta(minutes=5)
_LONG = timedelta(days=2 * 365)
_Tell = Callable[[str, int, int], None]  # what is looked at, and how much of how much is done
_RESTORE = "Restore the last backup: meritfair restore FILE --replace"


def examine(url: str | None = None, port: int = 8000, *, quick: bool = False, progress: Progress = None) -> list[Check]:
    """Check everything that meritfair needs here.

    Parameters
    ----------
    url : str, optional
        Which store.
    port : int
        Where a server is to listen.
    quick : bool
        Do not read the ledgers and what is kept beside them.
    progress : bool or callable, optional
    """
    found = [check_python(), *check_libraries(), check_machine_code()]
    with following(progress) as tell:
        found += check_store(url, quick=quick, tell=tell)
    return [*found, check_disk("temporary folder", Path(tempfile.gettempdir())), check_memory(), check_port(port)]


def check_machine_code() -> Check:
    """Check where the engine's machine code is kept."""
    name = "machine code"
    try:
        from meritfair.engine.compiling import cache_directory

        directory = cache_directory()
    except (ImportError, MeritfairError, OSError) as error:
        return Check(name, "problem", f"the engine cannot be loaded: {error}", "pip install --force-reinstall numba")
    if directory is None:
        advice = "Let the variable NUMBA_CACHE_DIR name a folder that can be written to"
        return Check(name, "warning", "cannot be kept, so each process compiles for 10 to 40 seconds", advice)
    files = list(directory.glob("*.code"))
    size = sum(each.stat().st_size for each in files)
    kept = f"{size / 1e6:,.1f} MB in {several(len(files), 'file')}" if files else "none yet; the first use compiles it"
    return Check(name, "ok", f"{kept}, at {directory}")


def check_store(url: str | None, *, quick: bool = False, tell: _Tell = lambda *_: None) -> list[Check]:
    """Check a store: its database, schema, ledgers and clock, and the file that it is in."""
    try:
        database = Database(url)
    except (MeritfairError, ImportError) as error:
        return [Check("store", "problem", str(error), "Name another one with --store, or in MERITFAIR_STORE")]
    if not database.is_sqlite:
        return [Check("store", "ok", database.url), *_check_contents(database, quick, tell)]
    try:
        there = database.file.exists()
    except OSError as error:
        advice = "Look at the permissions of its folder, or ask as the user that the server runs as"
        return [Check("store", "problem", f"{database.file} cannot be looked at: {error.strerror}", advice)]
    if not there:
        nothing = Check("store", "ok", f"none yet at {database.file}", "meritfair programme create makes it")
        return [nothing, check_disk("disk of the store", database.file.parent), check_clock(None)]
    size = database.file.stat().st_size
    here = Check("store", "ok", f"{database.file}, {size / 1e6:,.1f} MB")
    disk = check_disk("disk of the store", database.file.parent, needed=3 * size)  # a backup and its check
    return [here, check_permissions(database.file), disk, *_check_contents(database, quick, tell)]


def check_permissions(file: Path) -> Check:
    """Check that nobody but its owner can read a store, which holds the secret of the draws."""
    name, mode = "permissions", stat.S_IMODE(file.stat().st_mode)
    if os.name != "posix":
        return Check(name, "ok", "those of the folder")
    if not os.access(file, os.R_OK | os.W_OK):
        return Check(name, "problem", f"{mode:o}: you may not read and write it", f"Look at its owner: ls -l {file}")
    if mode & 0o077:
        who = "everyone" if mode & 0o007 else "its group"
        found = f"{mode:o}: open to {who} on this machine, who could foresee draws"
        return Check(name, "warning", found, f"chmod 600 {file}")
    return Check(name, "ok", f"{mode:o}: its owner's alone")


def _check_contents(database: Database, quick: bool, tell: _Tell) -> list[Check]:
    try:
        look = look_at(database, quick=quick, tell=lambda: tell("checking the database", 0, 1))
    except MeritfairError as error:
        problem = Check("database", "problem", printable(str(error)), _hint(database))
        return [problem, check_clock(None), _unread("the database cannot be read")]
    about = [check_sqlite(look)] if database.is_sqlite else [check_postgresql(look), check_tools(look)]
    if look.damage:
        return [*about, check_clock(None), _unread("the database is damaged")]
    found = [*about, check_schema(look, database)]
    if look.schema is None or is_newer(look.schema):
        return [*found, check_clock(look), _unread("its tables are not known")]
    found += [check_protection(database), check_users(database)]
    chains = list[ChainCheck]()
    for each in look.heads if not quick else ():
        check, chain = check_programme(database, each, tell)
        found.append(check)
        chains += [] if chain is None else [chain]
    found += check_programmes(look) if quick else [check_temporary(database)]
    return [*found, check_heads(look, chains), check_clock(look), *_skipped(database, look, quick)]


def _unread(why: str) -> Check:
    return Check("programmes, users", "skipped", f"not looked at, as {why}")


def _skipped(database: Database, look: Look, quick: bool) -> list[Check]:
    """Name what was not looked at, and what does."""
    found = []
    if quick and look.heads:
        advice = "Without --quick, meritfair doctor reads them"
        unread = "chains, tables, people, and what servers keep for a while were not read"
        found.append(Check("ledgers", "skipped", unread, advice))
    if not database.is_sqlite:
        found.append(Check("files", "skipped", "the server's own were not checked", "Its program pg_amcheck does that"))
    if look.heads:
        draws = "that draws and exposures follow from what was recorded was not worked out again"
        found.append(Check("draws", "skipped", draws, "meritfair programme verify does that, for each programme"))
    return found


def _hint(database: Database) -> str:
    """Say what may help with a store that cannot be looked at."""
    journal = Path(f"{database.file}-journal") if database.is_sqlite else None
    if journal is not None and journal.exists() and journal.stat().st_size:
        return "A write was cut off; the next command undoes it: meritfair programme list"
    return _RESTORE if database.is_sqlite else "Look at the server, and at --store"


def check_sqlite(look: Look) -> Check:
    """Check an SQLite database: its version, how it writes, and whether its pages are whole."""
    mode = {"wal": "a write-ahead log"}.get(look.settings["journal_mode"], "a rollback journal")
    found = f"SQLite {look.settings['version']} with {mode}"
    if look.damage:
        return Check("database", "problem", f"{found}: damaged ({look.damage})", _RESTORE)
    if mode == "a rollback journal":
        found += f" (readers and writers take turns; from {'.'.join(map(str, WAL_SINCE))} on they need not)"
    return Check("database", "ok", f"{found}; its own check found no damage")


def check_postgresql(look: Look) -> Check:
    """Check a PostgreSQL server: its version, the encoding, and whether what is saved survives a crash."""
    version, encoding = look.settings["server_version"], look.settings["server_encoding"]
    found = f"PostgreSQL {version}, encoding {encoding}"
    if encoding != "UTF8":
        return Check("database", "problem", found, "Make a database with the encoding UTF8: createdb -E UTF8 NAME")
    off = [name for name in ("fsync", "full_page_writes") if look.settings[name] != "on"]
    if off:
        advice = "Turn it on: what was drawn could be lost or damaged if the machine stops"
        return Check("database", "problem", f"{found}; {' and '.join(off)} off", advice)
    return Check("database", "ok", found)


def check_tools(look: Look) -> Check:
    """Check the programs that backups of PostgreSQL need."""
    name, path = "backup programs", shutil.which("pg_dump")
    advice = "Install PostgreSQL's client programs, of the server's version or newer: meritfair backup needs them"
    if path is None or shutil.which("pg_restore") is None:
        return Check(name, "warning", "pg_dump and pg_restore are not installed", advice)
    said = subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout
    version, server = "".join(re.findall(r"\) (\d+[.\d]*)", said)), look.settings["server_version"]
    if _major(version) < _major(server):
        return Check(name, "warning", f"pg_dump {version}, and the server is {server}", advice)
    return Check(name, "ok", f"pg_dump {version}")


def check_schema(look: Look, database: Database) -> Check:
    """Check whether the tables are those of this version."""
    if look.schema is None:
        if database.is_sqlite:
            return Check("schema", "problem", "these are not tables of programmes", "Name another file with --store")
        return Check("schema", "ok", "no tables yet", "The first command that opens the store makes them")
    if is_newer(look.schema):
        advice = "Install the version of meritfair that has written it, or a later one"
        return Check("schema", "problem", f"{look.schema}, and this version knows none after {HEAD}", advice)
    if look.schema != HEAD:
        advice = "Make a backup; then the next command or start of the server upgrades it"
        return Check("schema", "warning", f"{look.schema}, to be upgraded to {HEAD}", advice)
    return Check("schema", "ok", f"{look.schema}, up to date")


def check_protection(database: Database) -> Check:
    """Check that the database refuses edits of ledgers and of the log of users."""
    name = "append-only"
    try:
        with looking(database) as connection:
            found = unprotected(connection)
    except MeritfairError as error:
        return Check(name, "problem", printable(str(error)), _RESTORE)
    if found:
        advice = (
            "Someone has opened the ledger or the log of users to edits: find out who and why, compare with heads that "
            "were kept elsewhere (meritfair programme verify --head HASH), and restore the last backup"
        )
        return Check(name, "problem", "; ".join(found), advice)
    return Check(name, "ok", "the database refuses edits of ledgers and of the log of users")


def check_users(database: Database) -> Check:
    """Check the users, their tokens, and that no row is missing from the log of what was changed about them."""
    name = "users"
    try:
        users, logged, problems = users_in(database)
    except MeritfairError as error:
        return Check(name, "problem", printable(str(error)), _RESTORE)
    if problems:
        return Check(name, "problem", printable("; ".join(problems)), _RESTORE)
    return Check(name, "ok", f"{several(users, 'user')}, {several(logged, 'row')} of their log, all as written")


def check_temporary(database: Database) -> Check:
    """Check the long work and the uploads that servers keep for a while."""
    name = "servers' work"
    try:
        kept, problems = temporary_in(database)
    except MeritfairError as error:
        return Check(name, "problem", printable(str(error)), _RESTORE)
    if problems:
        advice = "It will be asked for, or uploaded, again; the rest of the database may be damaged as well: see above"
        return Check(name, "warning", printable("; ".join(problems)), advice)
    return Check(name, "ok", f"{several(kept, 'result or upload', 'results and uploads')} kept for a while, as written")


def check_programmes(look: Look) -> list[Check]:
    """Tell how far each programme is."""
    return [Check(_named(each), "ok", _how_far(each)) for each in look.heads]


def check_programme(database: Database, head: Head, tell: _Tell) -> tuple[Check, ChainCheck | None]:
    """Check the chain of a ledger, and all that is kept beside it."""
    start = perf_counter()
    try:
        chain = check_chain(database, head.name, lambda done, total: tell(f"reading {head.name}", done, total))
    except MeritfairError as error:
        return Check(_named(head), "problem", printable(str(error)), _RESTORE), None
    if chain.problems:
        return Check(_named(head), "problem", printable("; ".join(chain.problems)), _RESTORE), None
    took = f"{_what_was_read(chain)} in {perf_counter() - start:.1f} s"
    return Check(_named(head), "ok", f"{_how_far(head)}; {took}"), chain


def check_heads(look: Look, chains: Sequence[ChainCheck]) -> Check:
    """Check that ledgers hold the heads of them that are kept in a file."""
    places = read_places(look.values.get(HEADS))
    if not places.file or not chains:
        unknown = "not compared; a ledger that its owner has rewritten whole, with all hashes, looks like a true one"
        advice = "Compare those that were kept elsewhere: meritfair programme verify --head HASH"
        return Check("heads", "skipped", unknown, advice + "; meritfair programme heads keeps them" * (not places))
    file, number = Path(places.file), 0
    try:
        text = file.read_text(encoding="utf-8")
        for chain in chains:
            kept = read_heads(text, chain.name, chain.identity, str(file))
            hashes = {each.hex() for each in chain.hashes}
            lost = [head for head in kept if not matching(head, {head} & hashes or hashes)]
            if lost:
                return _lost(file, lost)
            number += len(kept)
    except (InputError, UnicodeDecodeError, OSError) as error:
        return Check("heads", "warning", printable(f"cannot be compared: {error}"), f"Look at {file}")
    return Check("heads", "ok", f"the ledgers hold {several(number, 'head')} that {file} has of them")


def _lost(file: Path, lost: Sequence[str]) -> Check:
    found = f"the ledger does not hold {several(len(lost), 'head')} that {file} has of it, the first {lost[0]}"
    advice = "Entries were replaced or cut off since, or an old backup was restored: find out who has done that"
    return Check("heads", "problem", found, advice)


def _what_was_read(chain: ChainCheck) -> str:
    return f"the chain and {several(chain.rows, 'row')} are as written, read"


def _named(head: Head) -> str:
    return printable(f"programme {head.name}")


def _how_far(head: Head) -> str:
    return f"{several(head.entries, 'entry', 'entries')}, the last at {head.time}, head {head.head[:16]}…"


def check_clock(look: Look | None, now: datetime | None = None) -> Check:
    """Check the clock against the times of the last entries, and of the files of this version."""
    time = now or datetime.now(UTC)
    found = f"{time:%Y-%m-%d %H:%M:%S} UTC"
    advice = "Set the clock, and let the system keep it (timedatectl set-ntp true)"
    installed = datetime.fromtimestamp(Path(__file__).stat().st_mtime, UTC)
    if time < installed - timedelta(days=1):
        return Check("clock", "problem", f"{found}, before this version was installed ({installed:%Y-%m-%d})", advice)
    wrong = [text for texts in look.times.values() for text in texts if not _is_time(text)] if look else []
    if wrong:
        return Check("clock", "problem", printable(f"an entry has the time {wrong[0]!r}, which is none"), _RESTORE)
    last = max((each.time for each in look.heads if each.time), default="") if look else ""
    if last and _read(last) > time + _TOLERANCE:
        return Check("clock", "problem", f"{found}, before the last entry ({last})", advice)
    if last and _read(last) < time - _LONG:
        return Check("clock", "warning", f"{found}, years after the last entry ({last})", f"If that is wrong: {advice}")
    back = _steps_back(look) if look else []
    if back:
        return Check("clock", "warning", f"{found}; it was set back before {back[0]}", advice)
    return Check("clock", "ok", found)


def _steps_back(look: Look) -> list[str]:
    """Name entries that are dated well before the one before them."""
    return [
        printable(f"an entry of {name} at {later}, after one at {earlier}")
        for name, times in look.times.items()
        for earlier, later in pairwise(times)
        if _read(later) < _read(earlier) - _TOLERANCE
    ]


def _major(version: str) -> int:
    found = re.match(r"\d+", version)
    return int(found[0]) if found else 0


def _is_time(text: str) -> bool:
    try:
        return bool(parse_time(text))
    except InputError:
        return False


def _read(time: str) -> datetime:
    return datetime.fromisoformat(time)
