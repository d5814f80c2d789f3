"""The first schema of a store: programmes with their ledgers, users, and what servers share for a while."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from meritfair.programme.storage.schema import checksum

revision = "1"
down_revision = None

_LEDGER = "the ledger cannot be edited: corrections are new entries"
_LOG = "the log of users cannot be edited"
_ON_SQLITE = """
CREATE TRIGGER {table}_no_{event} BEFORE {event} ON {table}
BEGIN SELECT RAISE(ABORT, '{refusal}'); END
"""
_REPLACE = """
CREATE TRIGGER {table}_no_REPLACE BEFORE INSERT ON {table}
WHEN EXISTS (SELECT 1 FROM {table} WHERE {key}) OR EXISTS (SELECT 1 FROM {table} WHERE rowid = NEW.rowid)
BEGIN SELECT RAISE(ABORT, '{refusal}'); END
"""  # SQLite deletes what INSERT OR REPLACE replaces without asking the trigger for DELETE
_KEY = "programme = NEW.programme AND seq = NEW.seq"
_FUNCTION = """
CREATE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql
AS $$ BEGIN RAISE EXCEPTION '{refusal}'; END $$
"""
_ON_POSTGRESQL = """
CREATE TRIGGER {table}_no_edit BEFORE UPDATE OR DELETE OR TRUNCATE ON {table}
FOR EACH STATEMENT EXECUTE FUNCTION {function}()
"""


def upgrade() -> None:
    """Make all tables, and the triggers that protect the ledger and the log of users."""
    _make_store()
    _make_programmes()
    _make_ledger()
    _make_others()
    _make_users()
    _make_temporary()
    _protect("meritfair_refuse", _LEDGER, {"entry": _KEY, "entry_rows": _KEY})
    _protect("meritfair_refuse_log", _LOG, {"access_log": "id = NEW.id"})


def _make_store() -> None:
    store = op.create_table("store", _id(), *_numbers("programmes", "settings"), _checksum())
    op.bulk_insert(store, [{"id": 1, "programmes": 0, "settings": 0, "checksum": checksum(1, 0, 0)}])
    op.create_table("store_setting", sa.Column("name", sa.Text(), primary_key=True), *_texts("value"), _checksum())


def _make_programmes() -> None:
    op.create_table(
        "programme",
        sa.Column("id", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("identity", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False, unique=True),
        sa.Column("secret", sa.LargeBinary(), nullable=False),
        sa.Column("length", sa.BigInteger(), nullable=False),
        sa.Column("head", sa.LargeBinary(), nullable=False),
        *(sa.Column(name, sa.BigInteger(), nullable=False) for name in ("people", "notes", "vectors", "answers")),
        sa.Column("summary", sa.Text(), nullable=False),
        _checksum(),
    )


def _make_ledger() -> None:
    op.create_table(
        "entry",
        _programme(),
        _number("seq"),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("time", sa.Text(), nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        _checksum(),
        sa.Column("data", sa.LargeBinary(), nullable=False),
    )
    op.create_table(
        "entry_rows",
        sa.Column("programme", sa.Integer(), primary_key=True, autoincrement=False),
        _number("seq"),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["programme", "seq"], ["entry.programme", "entry.seq"]),
    )


def _make_others() -> None:
    op.create_table(
        "vector",
        _programme(),
        sa.Column("name", sa.Text(), primary_key=True),
        _number("round"),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        _checksum(),
        sa.Column("data", sa.LargeBinary(), nullable=False),
    )
    op.create_table(
        "person",
        sa.Column("programme", sa.Integer(), primary_key=True, autoincrement=False),
        _number("number"),
        sa.Column("external_id", sa.Text(), nullable=False),
        sa.Column("salt", sa.LargeBinary(), nullable=False),
        sa.Column("group_name", sa.Text(), nullable=False),
        sa.Column("staff", sa.Text(), nullable=False),
        _checksum(),
        sa.UniqueConstraint("programme", "external_id"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "note",
        _programme(),
        _number("seq"),
        _number("number"),
        _checksum(),
        sa.Column("text", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["programme", "seq"], ["entry.programme", "entry.seq"]),
    )
    op.create_table(
        "answer",
        _programme(),
        sa.Column("key", sa.Text(), primary_key=True),
        sa.Column("request", sa.LargeBinary(), nullable=False),
        sa.Column("time", sa.Text(), nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        _checksum(),
        sa.Column("answer", sa.Text(), nullable=False),
    )


def _make_users() -> None:
    counts = ("users", "tokens", "last_token", "logged")
    access = op.create_table("access", _id(), *_numbers(*counts), _checksum())
    none = {"id": 1, **dict.fromkeys(counts, 0)}
    op.bulk_insert(access, [{**none, "checksum": checksum("access", *none.values())}])
    op.create_table(
        "access_user",
        _id(),
        sa.Column("name", sa.Text(), nullable=False, unique=True),
        *_texts("password", "roles"),
        *_numbers("disabled"),
        *_texts("created", "signed_in"),
        _checksum(),
    )
    op.create_table(
        "access_token",
        _id(),
        sa.Column("user_id", sa.Integer(), sa.ForeignKey("access_user.id"), nullable=False),
        *_texts("kind"),
        sa.Column("digest", sa.LargeBinary(), nullable=False, unique=True),
        *_texts("label"),
        *_numbers("role"),
        *_texts("programme", "created", "expires", "revoked"),
        _checksum(),
    )
    op.create_table("access_log", _id(), *_texts("time", "done_by", "kind", "about", "detail"), _checksum())


def _make_temporary() -> None:
    op.create_table(
        "job",
        sa.Column("id", sa.Text(), primary_key=True),
        *_texts("kind", "programme", "identity", "arguments", "askers"),
        *_large_numbers("asked", "due"),
        *_texts("state", "head"),
        *_numbers("entries", "done", "total"),
        *_texts("words", "error", "file"),
        *_numbers("tries"),
        *_texts("worker"),
        *_large_numbers("lease", "ended"),
        _checksum(),
    )
    op.create_index("job_by_state", "job", ["state"])
    op.create_index("job_by_kind", "job", ["identity", "kind"])
    op.create_table(
        "upload",
        sa.Column("token", sa.Text(), primary_key=True),
        *_texts("programme", "done_by", "kind", "name"),
        *_numbers("round"),
        *_texts("reason"),
        *_large_numbers("size", "time"),
        _checksum(),
    )
    op.create_table(
        "temporary_part",
        sa.Column("owner", sa.Text(), primary_key=True),
        sa.Column("number", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
    )


def _programme() -> sa.Column[int]:
    return sa.Column("programme", sa.Integer(), sa.ForeignKey("programme.id"), primary_key=True, autoincrement=False)


def _number(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger(), primary_key=True, autoincrement=False)


def _checksum() -> sa.Column[int]:
    return sa.Column("checksum", sa.BigInteger(), nullable=False)


def _id() -> sa.Column[int]:
    return sa.Column("id", sa.Integer(), primary_key=True, autoincrement=False)


def _texts(*names: str) -> list[sa.Column[str]]:
    return [sa.Column(name, sa.Text(), nullable=False) for name in names]


def _numbers(*names: str) -> list[sa.Column[int]]:
    return [sa.Column(name, sa.Integer(), nullable=False) for name in names]


def _large_numbers(*names: str) -> list[sa.Column[int]]:
    return [sa.Column(name, sa.BigInteger(), nullable=False) for name in names]


def _protect(function: str, refusal: str, tables: dict[str, str]) -> None:
    """Have the database refuse edits of these tables, by table what says that a row is there already."""
    on_sqlite = op.get_bind().dialect.name == "sqlite"
    if not on_sqlite:
        op.execute(_FUNCTION.format(function=function, refusal=refusal))
    for table, key in tables.items():
        if on_sqlite:
            for event in ("UPDATE", "DELETE"):
                op.execute(_ON_SQLITE.format(table=table, event=event, refusal=refusal))
            op.execute(_REPLACE.format(table=table, key=key, refusal=refusal))
        else:
            op.execute(_ON_POSTGRESQL.format(table=table, function=function))
