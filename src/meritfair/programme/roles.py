"""Who may do what in a programme: roles, and someone who has some."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

from meritfair.core.errors import InputError

EVERYWHERE = "*"  # stands for all programmes of a store, those to come too


class Role(IntEnum):
    """What someone may do in a programme; each may do all that those below may.

    Attributes
    ----------
    VIEWER
        Sees sums, such as fairness and what was learned, and nothing about single participants.
    AUDITOR
        Sees everything, changes nothing.
    COORDINATOR
        Draws, reports, enrols.
    ADMIN
        Changes settings, erases participants, creates and ends programmes; for all programmes, also manages users.

    Examples
    --------
    >>> Role.COORDINATOR >= Role.AUDITOR, Role.AUDITOR.word
    (True, 'auditor')
    """

    VIEWER = 1
    AUDITOR = 2
    COORDINATOR = 3
    ADMIN = 4

    @property
    def word(self) -> str:
        """Its name as people write it."""
        return self.name.lower()

    @classmethod
    def named(cls, word: str) -> Role:
        """Return the role of this name.

        Examples
        --------
        >>> Role.named("boss")
        Traceback (most recent call last):
        ...
        meritfair.core.errors.InputError: a role is viewer, auditor, coordinator or admin, got 'boss'
        """
        for role in cls:
            if role.word == word.strip().lower():
                return role
        raise InputError(f"a role is viewer, auditor, coordinator or admin, got {word!r}")


@dataclass(frozen=True)
class Caller:
    """Someone who has shown who they are.

    Attributes
    ----------
    name : str
    roles : mapping from str to Role
        By programme; "*" counts in all of them.
    label : str
        What they have shown: "password" or "link" for a session, the label of an API token.

    Examples
    --------
    >>> ada = Caller("Ada", {"*": Role.VIEWER, "clinic": Role.COORDINATOR})
    >>> ada.role_in("clinic").word, ada.role_in("school").word
    ('coordinator', 'viewer')
    """

    name: str
    roles: Mapping[str, Role]
    label: str = ""

    def role_in(self, programme: str) -> Role | None:
        """Return the role in a programme; None if there is none."""
        there = [self.roles[each] for each in (programme, EVERYWHERE) if each in self.roles]
        return max(there, default=None)

    def limited(self, role: Role | None, programme: str) -> Caller:
        """Return them with no more than this role, and only in this programme, unless it is empty."""
        if programme:
            own = self.role_in(programme)
            roles = {} if own is None else {programme: own}
        else:
            roles = dict(self.roles)
        most = Role.ADMIN if role is None else role
        return Caller(self.name, {name: min(each, most) for name, each in roles.items()}, self.label)


@dataclass(frozen=True)
class User:
    """Someone who can sign in; `signed_in` is the last time, empty if there has been none."""

    name: str
    roles: Mapping[str, Role]
    disabled: bool
    has_password: bool
    created: str
    signed_in: str


@dataclass(frozen=True)
class Token:
    """An API token as it may be shown: without the token itself, which nobody keeps.

    Attributes
    ----------
    role : Role, optional
        The highest that it gives; without it, that of its user.
    programme : str
        The only one that it is for; empty for all of its user.
    expires, revoked : str
        Times; empty if it does not, or is not.
    """

    id: int
    user: str
    label: str
    role: Role | None
    programme: str
    created: str
    expires: str
    revoked: str


@dataclass(frozen=True)
class LogLine:
    """Something that was done about a user: `kind` is one of `KINDS`."""

    time: str
    by: str
    kind: str
    about: str
    detail: str


KINDS = ("add", "role", "disable", "enable", "password", "link", "link used", "token", "revoke")
