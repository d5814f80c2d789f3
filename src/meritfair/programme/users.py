"""The users of a store: who may do what in its programmes, and how they show who they are.

A *user* has a role in each programme, or in all. They show who they are by a *session*, which begins with a password or
a one-time link and ends after twelve hours, or by an *API token*, which can be limited to a role and a programme.
Tokens are random numbers of 256 bits, of which only the SHA-256 is kept; passwords are hashed with argon2id. Roles are
read anew each time. A user is disabled and never deleted, because the ledger has their name. Every change of users,
roles and tokens is in a log that cannot be edited.

Who may call these methods is for the caller to decide: whoever can open the store can do everything.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from meritfair.core.errors import InputError, MeritfairError
from meritfair.core.sharing import SharedLook
from meritfair.programme import user_rows
from meritfair.programme.passwords import hash_password, is_right
from meritfair.programme.roles import EVERYWHERE as EVERYWHERE
from meritfair.programme.roles import Caller as Caller
from meritfair.programme.roles import LogLine as LogLine
from meritfair.programme.roles import Role as Role
from meritfair.programme.roles import Token as Token
from meritfair.programme.roles import User as User
from meritfair.programme.storage.access_rows import Counts, TokenRow, UserRow
from meritfair.programme.storage.store import Store
from meritfair.programme.user_rows import COLUMNS, LINK_HOURS, PREFIX, now

FIRST = "admin"  # the name of the user that a server makes if there is none
_WRONG = "the name or the password is not right"
_USED = "this link has been used, or is too old: ask for another one"
_MOST_KNOWN = 10_000  # tokens in memory


class SignInError(MeritfairError):
    """Someone cannot sign in: the name and password, or the link, are not right."""


@dataclass(frozen=True)
class _Known:
    """A token and its user, as they were at some version of the users."""

    version: Counts
    row: TokenRow
    user: UserRow


@dataclass(frozen=True)
class FirstSignIn:
    """How the first user signs in.

    Attributes
    ----------
    name : str
        Of the user.
    link : str
        The token of a new one-time link; empty if none was made.
    until : str
        Until when an older link can be used, which whoever made it has; empty if there is none.
    """

    name: str
    link: str = ""
    until: str = ""


class Users:
    """The users of a store, for any number of threads and processes.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> users = Users(Store(f"{folder.name}/programmes.db"))
    >>> users.add("Ada", {"*": Role.COORDINATOR}, by="Dr. Osei")
    >>> _, token = users.new_token("Ada", "clinic system", role=Role.AUDITOR, by="Dr. Osei")
    >>> users.caller(token).role_in("clinic").word
    'auditor'
    >>> folder.cleanup()
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[bytes, _Known] = {}
        self._version = SharedLook(self._look_at_version)

    # Who is it?

    def caller(self, token: str) -> Caller | None:
        """Return whose API token this is; None if it is none, or none any more."""
        return self._bearer(token, "api")

    def session(self, token: str) -> Caller | None:
        """Return whose session this is; None if it is none, or has ended."""
        return self._bearer(token, "session")

    def sign_in(self, name: str, password: str) -> str:
        """Begin a session; return its token."""
        user = self._with_password(name, password)
        if user is None:
            raise SignInError(_WRONG)
        with self._store.access(writing=True) as rows:
            fresh = rows.user(user.id)
            if fresh.password != user.password or fresh.disabled:  # changed while it was being checked
                raise SignInError(_WRONG)
            return user_rows.begin_session(rows, fresh, "password")

    def knows(self, name: str, password: str) -> bool:
        """Return whether this is the password of a user."""
        return self._with_password(name, password) is not None

    def use_link(self, link: str) -> str:
        """Begin a session by a one-time link, which serves once; return the token of the session."""
        if self._bearer(link, "link") is None:  # whoever guesses keeps nobody from writing
            raise SignInError(_USED)
        with self._store.access(writing=True) as rows:
            row = rows.token(user_rows.digest(link))
            if row is None:  # someone was faster
                raise SignInError(_USED)
            user = rows.user(row.user_id)
            rows.remove_tokens(COLUMNS.id == row.id)
            rows.add_log(now(), user.name, "link used", user.name)
            return user_rows.begin_session(rows, user, "link")

    def end_session(self, token: str) -> None:
        """End a session, if it has not ended."""
        with self._store.access(writing=True) as rows:
            rows.remove_tokens((COLUMNS.digest == user_rows.digest(token)) & (COLUMNS.kind == "session"))

    # Users

    def all(self) -> list[User]:
        """Return all users by name."""
        with self._store.access() as rows:
            return sorted((user_rows.shown_user(each) for each in rows.users()), key=lambda each: each.name.casefold())

    def get(self, name: str) -> User:
        """Return a user."""
        with self._store.access() as rows:
            return user_rows.shown_user(user_rows.find(rows, name))

    def add(self, name: str, roles: Mapping[str, Role], *, by: str) -> None:
        """Add a user, who cannot sign in before they have a link, a password or a token."""
        name = user_rows.check_text("the name of a user", name)
        self._check_programmes(roles)
        with self._store.access(writing=True) as rows:
            there = user_rows.search(rows, name)
            if there is not None:
                raise InputError(f"there is already a user {there.name!r}")
            user_rows.add_user(rows, name, roles, by)

    def set_role(self, name: str, programme: str, role: Role | None, *, by: str) -> None:
        """Give a user a role in a programme, or in "*", all of them; None takes it away."""
        if role is not None:
            self._check_programmes([programme])
        with self._store.access(writing=True) as rows:
            user = user_rows.find(rows, name)
            roles = {each: its for each, its in user_rows.roles_of(user).items() if each != programme}
            roles |= {} if role is None else {programme: role}
            user_rows.change_access(rows, replace(user, roles=user_rows.roles_text(roles)))
            rows.add_log(now(), by, "role", user.name, f"{'none' if role is None else role.word} in {programme}")

    def disable(self, name: str, *, by: str) -> None:
        """Keep a user from signing in; their sessions and links end, and their tokens serve no more."""
        self._switch(name, "disable", by)

    def enable(self, name: str, *, by: str) -> None:
        """Let a user who was disabled sign in again; their API tokens serve again."""
        self._switch(name, "enable", by)

    def set_password(self, name: str, password: str, *, by: str) -> None:
        """Give a user a password; their sessions and links end."""
        hashed = hash_password(password)  # which takes a while: not within the transaction
        with self._store.access(writing=True) as rows:
            user = user_rows.find(rows, name)
            rows.change_user(replace(user, password=hashed))
            user_rows.end_sessions(rows, user)
            rows.add_log(now(), by, "password", user.name)

    def link(self, name: str, *, by: str, hours: float = LINK_HOURS) -> str:
        """Return a new one-time link of a user: a token to sign in with once; older ones end."""
        with self._store.access(writing=True) as rows:
            user = user_rows.find(rows, name)
            if user.disabled:
                raise InputError(f"the user {user.name!r} is disabled: enable them before they sign in")
            return user_rows.new_link(rows, user, by, hours)

    def first_sign_in(self, *, make_link: bool, by: str = "serve") -> FirstSignIn | None:
        """Return how the first user signs in, who is made if there is none and is admin of everything.

        A link is made if that is asked, and no admin has one that can still be used: that one stays. None if anyone has
        ever signed in, or could: whoever can open the store can make links for others.
        """
        with self._store.access(writing=True) as rows:
            users = rows.users()
            if any(each.signed_in or each.password for each in users):
                return None
            admins = [each for each in users if user_rows.is_admin(each)]
            if users and not admins:
                return None
            user = admins[0] if admins else user_rows.add_user(rows, FIRST, {EVERYWHERE: Role.ADMIN}, by)
            names = {each.id: each.name for each in admins}
            for row in rows.tokens():
                if row.kind == "link" and row.user_id in names and user_rows.is_valid(row):
                    return FirstSignIn(names[row.user_id], until=row.expires)
            return FirstSignIn(user.name, user_rows.new_link(rows, user, by, LINK_HOURS) if make_link else "")

    # API tokens

    def new_token(
        self,
        name: str,
        label: str,
        *,
        by: str,
        role: Role | None = None,
        programme: str = "",
        days: float | None = None,
    ) -> tuple[Token, str]:
        """Make an API token of a user; return what may be shown of it, and the token, which cannot be had again."""
        label = user_rows.check_text("the label of a token", label)
        if programme:
            self._check_programmes([programme])
        token = PREFIX + secrets.token_urlsafe(32)
        with self._store.access(writing=True) as rows:
            user = user_rows.find(rows, name)
            row = user_rows.add_token(
                rows, user, "api", token, label, None if days is None else days * 24, role, programme
            )
            rows.add_log(now(), by, "token", user.name, f"{label} ({row.id})")
            return user_rows.shown_token(row, user.name), token

    def tokens(self, name: str | None = None) -> list[Token]:
        """Return the API tokens of a user, or of all, those that were revoked too."""
        with self._store.access() as rows:
            users = {each.id: each.name for each in rows.users()}
            wanted = None if name is None else user_rows.find(rows, name).id
            own = [row for row in rows.tokens() if row.kind == "api" and wanted in (None, row.user_id)]
            return [user_rows.shown_token(row, users[row.user_id]) for row in own]

    def revoke(self, number: int, *, by: str) -> Token:
        """Revoke an API token, by its id."""
        with self._store.access(writing=True) as rows:
            for row in rows.tokens():
                if row.kind == "api" and row.id == number:
                    break
            else:
                raise InputError(f"there is no token {number}")
            user = rows.user(row.user_id)
            if not row.revoked:
                row = replace(row, revoked=now())
                rows.change_token(row)
                rows.add_log(now(), by, "revoke", user.name, f"{row.label} ({row.id})")
            return user_rows.shown_token(row, user.name)

    def log(self) -> list[LogLine]:
        """Return what was changed about users, from the last to the first."""
        with self._store.access() as rows:
            return [LogLine(row.time, row.done_by, row.kind, row.about, row.detail) for row in reversed(rows.log())]

    def _bearer(self, token: str, kind: str) -> Caller | None:
        found = self._token(user_rows.digest(token))
        if found is None or found.row.kind != kind or not user_rows.is_valid(found.row) or found.user.disabled:
            return None
        caller = Caller(found.user.name, user_rows.roles_of(found.user), found.row.label)
        return caller.limited(Role(found.row.role) if found.row.role else None, found.row.programme)

    def _token(self, digest: bytes) -> _Known | None:
        """Return a token and its user, from memory if no user has changed since it was read."""
        known = self._known.get(digest)
        if known is not None and known.version == self._version.get():
            return known
        with self._store.access() as rows:
            row = rows.token(digest)
            if row is None:
                return None
            known = _Known(rows.version, row, rows.user(row.user_id))
        if len(self._known) >= _MOST_KNOWN:
            self._known = {}
        self._known[digest] = known
        return known

    def _look_at_version(self) -> Counts:
        with self._store.access() as rows:
            return rows.version

    def _with_password(self, name: str, password: str) -> UserRow | None:
        """Return the user of this name, if this is their password and they may sign in."""
        with self._store.access() as rows:
            user = user_rows.search(rows, name)
        right = is_right(password, "" if user is None else user.password)
        return user if right and user is not None and not user.disabled else None

    def _switch(self, name: str, kind: str, by: str) -> None:
        with self._store.access(writing=True) as rows:
            user = user_rows.find(rows, name)
            disabled = int(kind == "disable")
            if user.disabled != disabled:
                user_rows.change_access(rows, replace(user, disabled=disabled))
                user_rows.end_sessions(rows, user)
                rows.add_log(now(), by, kind, user.name)

    def _check_programmes(self, programmes: Iterable[str]) -> None:
        there = self._store.names()
        for name in programmes:
            if name != EVERYWHERE and name not in there:
                names = ", ".join(map(repr, there))
                raise InputError(f"a role is for a programme of the store ({names or 'none yet'}) or '*', got {name!r}")
