"""The first schema of a store."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from meritfair.programme.storage.schema import checksum

revision = "1"
down_revision = None

_REFUSAL = "the ledger cannot be edited: corrections are new entries"
_ON_SQLITE = """
CREATE TRIGGER {table}_no_{event} BEFORE {event} ON {table}
BEGIN SELECT RAISE(ABORT, '{refusal}'); END
"""
_FUNCTION = """
CREATE FUNCTION meritfair_refuse() RETURNS trigger LANGUAGE plpgsql
AS $$ BEGIN RAISE EXCEPTION '{refusal}'; END $$
"""
_ON_POSTGRESQL = """
CREATE TRIGGER {table}_no_edit BEFORE UPDATE OR DELETE OR TRUNCATE ON {table}
FOR EACH STATEMENT EXECUTE FUNCTION meritfair_refuse()
"""


def upgrade() -> None:
    """Make all tables, and the triggers that protect the ledger."""
    _make_programmes()
    _make_ledger()
    _make_others()
    _protect("entry", "entry_rows")


def _make_programmes() -> None:
    store = op.create_table(
        "store",
        sa.Column("id", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("programmes", sa.Integer(), nullable=False),
        _checksum(),
    )
    op.bulk_insert(store, [{"id": 1, "programmes": 0, "checksum": checksum(1, 0)}])
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


def _programme() -> sa.Column[int]:
    return sa.Column("programme", sa.Integer(), sa.ForeignKey("programme.id"), primary_key=True, autoincrement=False)


def _number(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger(), primary_key=True, autoincrement=False)


def _checksum() -> sa.Column[int]:
    return sa.Column("checksum", sa.BigInteger(), nullable=False)


def _protect(*tables: str) -> None:
    """Have the database refuse edits of these tables."""
    on_sqlite = op.get_bind().dialect.name == "sqlite"
    if not on_sqlite:
        op.execute(_FUNCTION.format(refusal=_REFUSAL))
    for table in tables:
        for event in ("UPDATE", "DELETE") if on_sqlite else (None,):
            op.execute((_ON_SQLITE if on_sqlite else _ON_POSTGRESQL).format(table=table, event=event, refusal=_REFUSAL))
