"""The users of a store as it keeps them: who they are, their tokens, and the log of what was changed about them.

They belong to the whole store, not to one programme. As with all rows, each proves itself by a checksum when it is
read, and the row of *access* says how many there are. Whoever writes has that row locked, so that two who change users
at once do so one after the other. Of a token only its SHA-256 is here.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass, replace
from typing import Any, ClassVar, TypeVar

import sqlalchemy as sa

from meritfair.core.errors import InputError
from meritfair.programme.storage.checked_rows import CheckedRow
from meritfair.programme.storage.schema import ACCESS, ACCESS_LOG, ACCESS_TOKEN, ACCESS_USER, check_texts
from meritfair.programme.storage.store_errors import StoreError, damaged


@dataclass(frozen=True)
class _Row(CheckedRow):
    """A row of a table about users."""

    id: int


_R = TypeVar("_R", bound=_Row)


@dataclass(frozen=True)
class Counts(_Row):
    """How many rows there are, and the last number that a token has had."""

    table: ClassVar[sa.Table] = ACCESS
    users: int
    tokens: int
    last_token: int
    logged: int


@dataclass(frozen=True)
class UserRow(_Row):
    """A user.

    Attributes
    ----------
    password : str
        Its argon2 hash; empty if there is none.
    roles : str
        JSON: the role for each programme, or for "*".
    created, signed_in : str
        Times; `signed_in` is the last one, empty if there has been none.
    """

    table: ClassVar[sa.Table] = ACCESS_USER
    name: str
    password: str
    roles: str
    disabled: int
    created: str
    signed_in: str


@dataclass(frozen=True)
class TokenRow(_Row):
    """A token of a user.

    Attributes
    ----------
    kind : {"api", "session", "link"}
    digest : bytes
        The SHA-256 of the token.
    role : int
        The highest role that it gives; 0 if it has no limit of its own.
    programme : str
        The only programme that it is for; empty if it has no limit of its own.
    expires, revoked : str
        Times; empty if it does not, or is not.
    """

    table: ClassVar[sa.Table] = ACCESS_TOKEN
    user_id: int
    kind: str
    digest: bytes
    label: str
    role: int
    programme: str
    created: str
    expires: str
    revoked: str


@dataclass(frozen=True)
class LogRow(_Row):
    """Something that was done about a user."""

    table: ClassVar[sa.Table] = ACCESS_LOG
    time: str
    done_by: str
    kind: str
    about: str
    detail: str


class AccessRows:
    """The rows of users within one transaction; `meritfair.programme.storage.store.Store` opens it."""

    def __init__(self, connection: sa.Connection, where: str, *, writable: bool) -> None:
        self._connection, self._where, self._writable = connection, where, writable
        query = sa.select(ACCESS).where(ACCESS.c.id == 1)
        row = connection.execute(query.with_for_update() if writable else query).mappings().one_or_none()
        if row is None:
            raise damaged(where, "the row of access")
        self._counts = Counts.of(row, where)

    @property
    def version(self) -> Counts:
        """What differs after every change: each adds to the log, or adds or removes a token, and ids only grow."""
        return self._counts

    def users(self) -> list[UserRow]:
        """Return all users, in the order in which they were made."""
        return self._numbered(UserRow, self._counts.users)

    def user(self, number: int) -> UserRow:
        """Return the user of this id, who must be there."""
        query = sa.select(ACCESS_USER).where(ACCESS_USER.c.id == number)
        row = self._connection.execute(query).mappings().one_or_none()
        if row is None:
            raise damaged(self._where, f"the list of users at {number}")
        return UserRow.of(row, self._where)

    def add_user(self, name: str, password: str, roles: str, created: str) -> UserRow:
        """Add a user."""
        row = UserRow(self._counts.users + 1, name, password, roles, 0, created, "")
        self._insert(row)
        self._count(users=row.id)
        return row

    def change_user(self, row: UserRow) -> None:
        """Replace the row of a user."""
        self._update(row)

    def tokens(self) -> list[TokenRow]:
        """Return all tokens, in the order in which they were made."""
        return self._all(TokenRow, self._counts.tokens)

    def token(self, digest: bytes) -> TokenRow | None:
        """Return the token with this SHA-256; one that is lost with damage opens nothing, and `check` misses it."""
        query = sa.select(ACCESS_TOKEN).where(ACCESS_TOKEN.c.digest == digest)
        row = self._connection.execute(query).mappings().one_or_none()
        return None if row is None else TokenRow.of(row, self._where)

    def add_token(self, **values: Any) -> TokenRow:
        """Add a token; its id has never been another one's."""
        row = TokenRow(id=self._counts.last_token + 1, **values)
        self._insert(row)
        self._count(tokens=self._counts.tokens + 1, last_token=row.id)
        return row

    def change_token(self, row: TokenRow) -> None:
        """Replace the row of a token."""
        self._update(row)

    def remove_tokens(self, condition: sa.ColumnElement[bool]) -> int:
        """Delete the tokens for which a condition on `ACCESS_TOKEN` holds; return how many there were."""
        self._check_writable()
        removed = self._connection.execute(sa.delete(ACCESS_TOKEN).where(condition)).rowcount
        if removed:
            self._count(tokens=self._counts.tokens - removed)
        return removed

    def log(self) -> list[LogRow]:
        """Return what was done about users, from the first time to the last."""
        return self._numbered(LogRow, self._counts.logged)

    def add_log(self, time: str, done_by: str, kind: str, about: str, detail: str = "") -> None:
        """Note what is done about a user."""
        row = LogRow(self._counts.logged + 1, time, done_by, kind, about, detail)
        self._insert(row)
        self._count(logged=row.id)

    def problems(self) -> list[str]:
        """Read everything; return what is damaged, in words."""
        found = []
        for read in (self.users, self.tokens, self.log):
            try:
                read()
            except StoreError as error:
                found.append(str(error))
        return found

    def _all(self, kind: type[_R], count: int) -> list[_R]:
        query = sa.select(kind.table).order_by(kind.table.c.id)
        rows = [kind.of(each, self._where) for each in self._connection.execute(query).mappings()]
        if len(rows) != count:
            raise damaged(self._where, f"the table {kind.table.name}: there are {len(rows)} rows of {count}, which")
        return rows

    def _numbered(self, kind: type[_R], count: int) -> list[_R]:
        """Return all rows of a table from which none is ever deleted, so that they are numbered without gaps."""
        rows = self._all(kind, count)
        for number, row in enumerate(rows, start=1):
            if row.id != number:
                raise damaged(self._where, f"the table {kind.table.name}: row {number} is missing, and so it")
        return rows

    def _insert(self, row: _Row) -> None:
        self._check_writable()
        check_texts([each for each in astuple(row) if isinstance(each, str)])
        self._connection.execute(sa.insert(row.table).values(row.columns()))

    def _update(self, row: _Row) -> None:
        self._check_writable()
        check_texts([each for each in astuple(row) if isinstance(each, str)])
        self._connection.execute(sa.update(row.table).where(row.table.c.id == row.id).values(row.columns()))

    def _count(self, **values: int) -> None:
        self._counts = replace(self._counts, **values)
        self._update(self._counts)

    def _check_writable(self) -> None:
        if not self._writable:
            raise InputError(f"{self._where}: users were opened for reading, so nothing can be written")
