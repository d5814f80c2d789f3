"""Users of a server: who they are, how they sign in, and what was changed about them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from meritfair.programme.storage.schema import checksum

revision = "2"
down_revision = "1"

_REFUSAL = "the log of users cannot be edited"
_ON_SQLITE = """
CREATE TRIGGER access_log_no_{event} BEFORE {event} ON access_log
BEGIN SELECT RAISE(ABORT, '{refusal}'); END
"""
_FUNCTION = """
CREATE FUNCTION meritfair_refuse_log() RETURNS trigger LANGUAGE plpgsql
AS $$ BEGIN RAISE EXCEPTION '{refusal}'; END $$
"""
_ON_POSTGRESQL = """
CREATE TRIGGER access_log_no_edit BEFORE UPDATE OR DELETE OR TRUNCATE ON access_log
FOR EACH STATEMENT EXECUTE FUNCTION meritfair_refuse_log()
"""


def upgrade() -> None:
    """Make the tables of users, and the triggers that protect their log."""
    access = op.create_table("access", _id(), *_numbers("users", "tokens", "last_token", "logged"), _checksum())
    op.bulk_insert(
        access,
        [
            {
                "id": 1,
                "users": 0,
                "tokens": 0,
                "last_token": 0,
                "logged": 0,
                "checksum": checksum("access", 1, 0, 0, 0, 0),
            }
        ],
    )
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
    _protect()


def _id() -> sa.Column[int]:
    return sa.Column("id", sa.Integer(), primary_key=True, autoincrement=False)


def _texts(*names: str) -> list[sa.Column[str]]:
    return [sa.Column(name, sa.Text(), nullable=False) for name in names]


def _numbers(*names: str) -> list[sa.Column[int]]:
    return [sa.Column(name, sa.Integer(), nullable=False) for name in names]


def _checksum() -> sa.Column[int]:
    return sa.Column("checksum", sa.BigInteger(), nullable=False)


def _protect() -> None:
    """Have the database refuse edits of the log."""
    if op.get_bind().dialect.name == "sqlite":
        for event in ("UPDATE", "DELETE"):
            op.execute(_ON_SQLITE.format(event=event, refusal=_REFUSAL))
    else:
        op.execute(_FUNCTION.format(refusal=_REFUSAL))
        op.execute(_ON_POSTGRESQL)
