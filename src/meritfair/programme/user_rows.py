"""What the rows of users mean, and the steps of which changes of them are made, within one transaction."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256

from meritfair.core.errors import InputError
from meritfair.core.texts import printable
from meritfair.programme.roles import EVERYWHERE, Role, Token, User
from meritfair.programme.storage.access_rows import AccessRows, TokenRow, UserRow
from meritfair.programme.storage.schema import ACCESS_TOKEN

SESSION_HOURS, LINK_HOURS = 12.0, 24.0
PREFIX = "mf_"  # of API tokens, so that they are recognised where they should not be
LONGEST = 100  # characters of a name or a label
COLUMNS = ACCESS_TOKEN.c


def now(hours: float = 0.0) -> str:
    """Return the time, or the time in some hours."""
    return (datetime.now(UTC) + timedelta(hours=hours)).strftime("%Y-%m-%dT%H:%M:%SZ")


def digest(token: str) -> bytes:
    """Return what is kept of a token."""
    return sha256(token.encode("utf-8", "surrogatepass")).digest()


def is_valid(row: TokenRow) -> bool:
    """Return whether a token may be used at this time."""
    return not row.revoked and (not row.expires or now() < row.expires)


def roles_of(row: UserRow) -> dict[str, Role]:
    """Return the roles of a user by programme."""
    return {programme: Role(number) for programme, number in json.loads(row.roles).items()}


def roles_text(roles: Mapping[str, Role]) -> str:
    """Return how roles are kept."""
    return json.dumps({programme: int(roles[programme]) for programme in sorted(roles)}, ensure_ascii=False)


def is_admin(row: UserRow) -> bool:
    """Return whether a user may do everything."""
    return not row.disabled and roles_of(row).get(EVERYWHERE) == Role.ADMIN


def shown_user(row: UserRow) -> User:
    """Return a user as they may be shown."""
    return User(row.name, roles_of(row), bool(row.disabled), bool(row.password), row.created, row.signed_in)


def shown_token(row: TokenRow, user: str) -> Token:
    """Return an API token as it may be shown."""
    role = Role(row.role) if row.role else None
    return Token(row.id, user, row.label, role, row.programme, row.created, row.expires, row.revoked)


def check_text(what: str, text: str) -> str:
    """Return a name or a label without spaces around it, if it can be one."""
    text = text.strip()
    if not text or len(text) > LONGEST or printable(text) != text:
        raise InputError(f"{what} has 1 to {LONGEST} printable characters, got {text!r}")
    return text


def search(rows: AccessRows, name: str) -> UserRow | None:
    """Return the user of this name, in capitals or not; None if there is none."""
    wanted = name.strip().casefold()
    return next((row for row in rows.users() if row.name.casefold() == wanted), None)


def find(rows: AccessRows, name: str) -> UserRow:
    """Return the user of this name, who must be there."""
    row = search(rows, name)
    if row is None:
        raise InputError(f"there is no user {name!r}")
    return row


def add_user(rows: AccessRows, name: str, roles: Mapping[str, Role], by: str) -> UserRow:
    """Add a user."""
    row = rows.add_user(name, "", roles_text(roles), now())
    rows.add_log(now(), by, "add", name, ", ".join(f"{role.word} in {each}" for each, role in sorted(roles.items())))
    return row


def change_access(rows: AccessRows, user: UserRow) -> None:
    """Replace the row of a user, unless nobody would be left who may do everything."""
    before = rows.users()
    if any(map(is_admin, before)) and not any(is_admin(user if row.id == user.id else row) for row in before):
        raise InputError(f"the user {user.name!r} is the last admin of all programmes: make another one first")
    rows.change_user(user)


def begin_session(rows: AccessRows, user: UserRow, label: str) -> str:
    """Begin a session; those of all users that have expired are forgotten."""
    rows.remove_tokens(COLUMNS.kind.in_(["session", "link"]) & (COLUMNS.expires <= now()))
    rows.change_user(replace(user, signed_in=now()))
    token = secrets.token_urlsafe(32)
    add_token(rows, user, "session", token, label, SESSION_HOURS)
    return token


def end_sessions(rows: AccessRows, user: UserRow, *kinds: str) -> None:
    """End the sessions and links of a user, or only those of some kinds."""
    rows.remove_tokens((COLUMNS.user_id == user.id) & COLUMNS.kind.in_(kinds or ("session", "link")))


def new_link(rows: AccessRows, user: UserRow, by: str, hours: float) -> str:
    """Return a new one-time link of a user; older ones end."""
    end_sessions(rows, user, "link")
    token = secrets.token_urlsafe(32)
    add_token(rows, user, "link", token, "", hours)
    rows.add_log(now(), by, "link", user.name)
    return token


def add_token(
    rows: AccessRows,
    user: UserRow,
    kind: str,
    token: str,
    label: str,
    hours: float | None,
    role: Role | None = None,
    programme: str = "",
) -> TokenRow:
    """Keep a token of a user, by its SHA-256."""
    return rows.add_token(
        user_id=user.id,
        kind=kind,
        digest=digest(token),
        label=label,
        role=0 if role is None else int(role),
        programme=programme,
        created=now(),
        expires="" if hours is None else now(hours),
        revoked="",
    )
