"""The tables of a store, and what protects their rows.

A programme is a row of *programme* and rows of the other tables that name it. The ledger is in *entry* and *entry_rows*
(the table of an entry, compressed), which triggers keep from being edited. What follows from the ledger is kept beside
it: *vector* (columns of numbers by round, compressed). What must not be in the ledger is in ordinary tables that can be
queried: *person*, *note*. *answer* has what requests with a key were answered.

Users of a server are of the whole store: *access_user*, *access_token* (of which only the SHA-256 is kept) and
*access_log*, what was changed about them, which triggers keep from being edited. *access* has how many rows there are
of each; whoever changes one locks it. Values of the store itself, such as the key by which its servers sign, are in
*store_setting*.

What servers on the store share for a while is in the tables `TEMPORARY`: *job* (long work), *upload* (files that wait
until someone confirms them) and *temporary_part* (large data of both, in parts). Backups leave them out.

No bit of what is read may have changed unnoticed, whoever changed it (a disk, a copy, an editor):

- large data have their SHA-256, and rows a *checksum*: the CRC-32 of the programme's identity and their columns;
- how many rows there are is in *programme*, and how many programmes and settings in *store*, so that a row that cannot
  be found any more is missed: where something is said *not* to be there, all rows of the table are read, checked and
  counted. Rows of temporary tables are not counted: what is lost is asked, or uploaded, again.

The tables are made and changed by the scripts in ``migrations``; `HEAD` is the last of them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from zlib import crc32

from sqlalchemy import (
    BigInteger,
    Column,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
)

from meritfair.core.errors import InputError

HEAD = "1"
VERSIONS = "meritfair_schema"  # the table with the number of the schema; others may use alembic in the same database
METADATA = MetaData()


def _programme() -> Column[int]:
    return Column("programme", Integer, ForeignKey("programme.id"), primary_key=True, autoincrement=False)


def _number(name: str) -> Column[int]:
    return Column(name, BigInteger, primary_key=True, autoincrement=False)


def _checksum() -> Column[int]:
    return Column("checksum", BigInteger, nullable=False)


def _id() -> Column[int]:
    return Column("id", Integer, primary_key=True, autoincrement=False)


def _texts(*names: str) -> list[Column[str]]:
    return [Column(name, Text, nullable=False) for name in names]


def _numbers(*names: str) -> list[Column[int]]:
    return [Column(name, Integer, nullable=False) for name in names]


STORE = Table(
    "store",
    METADATA,
    Column("id", Integer, primary_key=True, autoincrement=False),
    *_numbers("programmes", "settings"),
    _checksum(),
)
STORE_SETTING = Table(
    "store_setting",
    METADATA,
    Column("name", Text, primary_key=True),
    *_texts("value"),
    _checksum(),
)
PROGRAMME = Table(
    "programme",
    METADATA,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("identity", Text, nullable=False),
    Column("name", Text, nullable=False, unique=True),
    Column("secret", LargeBinary, nullable=False),
    Column("length", BigInteger, nullable=False),
    Column("head", LargeBinary, nullable=False),
    Column("people", BigInteger, nullable=False),
    Column("notes", BigInteger, nullable=False),
    Column("vectors", BigInteger, nullable=False),
    Column("answers", BigInteger, nullable=False),
    Column("summary", Text, nullable=False),
    _checksum(),
)
ENTRY = Table(
    "entry",
    METADATA,
    _programme(),
    _number("seq"),
    Column("kind", Text, nullable=False),
    Column("time", Text, nullable=False),
    Column("digest", LargeBinary, nullable=False),
    _checksum(),
    Column("data", LargeBinary, nullable=False),
)
ENTRY_ROWS = Table(
    "entry_rows",
    METADATA,
    Column("programme", Integer, primary_key=True, autoincrement=False),
    _number("seq"),
    Column("digest", LargeBinary, nullable=False),
    Column("data", LargeBinary, nullable=False),
    ForeignKeyConstraint(["programme", "seq"], ["entry.programme", "entry.seq"]),
)
VECTOR = Table(
    "vector",
    METADATA,
    _programme(),
    Column("name", Text, primary_key=True),
    _number("round"),
    Column("digest", LargeBinary, nullable=False),
    _checksum(),
    Column("data", LargeBinary, nullable=False),
)
PERSON = Table(
    "person",
    METADATA,
    Column("programme", Integer, primary_key=True, autoincrement=False),  # a foreign key would cost as much as the rest
    _number("number"),
    Column("external_id", Text, nullable=False),
    Column("salt", LargeBinary, nullable=False),
    Column("group_name", Text, nullable=False),
    Column("staff", Text, nullable=False),
    _checksum(),
    UniqueConstraint("programme", "external_id"),
    sqlite_with_rowid=False,
)
NOTE = Table(
    "note",
    METADATA,
    _programme(),
    _number("seq"),
    _number("number"),
    _checksum(),
    Column("text", Text, nullable=False),
    ForeignKeyConstraint(["programme", "seq"], ["entry.programme", "entry.seq"]),
)
ANSWER = Table(
    "answer",
    METADATA,
    _programme(),
    Column("key", Text, primary_key=True),
    Column("request", LargeBinary, nullable=False),
    Column("time", Text, nullable=False),
    Column("digest", LargeBinary, nullable=False),
    _checksum(),
    Column("answer", Text, nullable=False),
)
ACCESS = Table(
    "access",
    METADATA,
    _id(),
    *_numbers("users", "tokens", "last_token", "logged"),
    _checksum(),
)
ACCESS_USER = Table(
    "access_user",
    METADATA,
    _id(),
    Column("name", Text, nullable=False, unique=True),
    *_texts("password", "roles"),
    *_numbers("disabled"),
    *_texts("created", "signed_in"),
    _checksum(),
)
ACCESS_TOKEN = Table(
    "access_token",
    METADATA,
    _id(),
    Column("user_id", Integer, ForeignKey("access_user.id"), nullable=False),
    *_texts("kind"),
    Column("digest", LargeBinary, nullable=False, unique=True),
    *_texts("label"),
    *_numbers("role"),
    *_texts("programme", "created", "expires", "revoked"),
    _checksum(),
)
ACCESS_LOG = Table("access_log", METADATA, _id(), *_texts("time", "done_by", "kind", "about", "detail"), _checksum())
JOB = Table(
    "job",
    METADATA,
    Column("id", Text, primary_key=True),
    *_texts("kind", "programme", "identity", "arguments", "askers"),
    Column("asked", BigInteger, nullable=False),
    Column("due", BigInteger, nullable=False),
    *_texts("state", "head"),
    *_numbers("entries", "done", "total"),
    *_texts("words", "error", "file"),
    *_numbers("tries"),
    *_texts("worker"),
    Column("lease", BigInteger, nullable=False),
    Column("ended", BigInteger, nullable=False),
    _checksum(),
    Index("job_by_state", "state"),
    Index("job_by_kind", "identity", "kind"),
)
UPLOAD = Table(
    "upload",
    METADATA,
    Column("token", Text, primary_key=True),
    *_texts("programme", "done_by", "kind", "name"),
    *_numbers("round"),
    *_texts("reason"),
    Column("size", BigInteger, nullable=False),
    Column("time", BigInteger, nullable=False),
    _checksum(),
)
TEMPORARY_PART = Table(
    "temporary_part",
    METADATA,
    Column("owner", Text, primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("digest", LargeBinary, nullable=False),
    Column("data", LargeBinary, nullable=False),
)
TEMPORARY = (JOB, UPLOAD, TEMPORARY_PART)


def check_texts(texts: Sequence[str]) -> None:
    r"""Refuse texts that not every database can hold.

    Examples
    --------
    >>> check_texts(["Größe"])
    >>> check_texts(["id 1", "id\0"])
    Traceback (most recent call last):
    ...
    meritfair.core.errors.InputError: a text must be Unicode without a null character, got 'id\x00'
    """
    whole = "".join(texts)
    try:
        right = b"\0" not in whole.encode()
    except UnicodeEncodeError:
        right = False
    if not right:
        wrong = next(each for each in texts if "\0" in each or re.search("[\ud800-\udfff]", each))
        raise InputError(f"a text must be Unicode without a null character, got {wrong!r}")


def checksum(*fields: str | int | bytes) -> int:
    """Return the CRC-32 of some fields; a text and bytes that spell it differ.

    Examples
    --------
    >>> checksum("call", 3) == checksum("call", 3)
    True
    >>> checksum("call", 3) == checksum(b"call", 3)
    False
    """
    return crc32(b"\0".join(b"b" + each if isinstance(each, bytes) else str(each).encode() for each in fields))
