"""Passwords of users: hashed with argon2id, which takes time and memory on purpose.

A check for a user who is not there, or has no password, does the same work, so that the time tells nothing.
"""

from __future__ import annotations

from functools import cache
from threading import BoundedSemaphore
from typing import TYPE_CHECKING

from meritfair.core.errors import InputError, MissingExtraError

if TYPE_CHECKING:
    from argon2 import PasswordHasher

SHORTEST, LONGEST = 10, 1000  # characters
_AT_ONCE = BoundedSemaphore(2)  # each takes 64 MiB: many at once could take all memory


def hash_password(password: str) -> str:
    """Return the hash of a new password, with a salt of its own.

    Examples
    --------
    >>> hash_password("secret")
    Traceback (most recent call last):
    ...
    meritfair.core.errors.InputError: a password must have at least 10 characters, got 6
    """
    if len(password) < SHORTEST:
        raise InputError(f"a password must have at least {SHORTEST} characters, got {len(password)}")
    if len(password) > LONGEST:
        raise InputError(f"a password must have at most {LONGEST} characters, got {len(password)}")
    with _AT_ONCE:
        return _hasher().hash(_bytes(password))


def is_right(password: str, hashed: str) -> bool:
    """Return whether a password is the one of this hash; never if the hash is empty."""
    from argon2.exceptions import VerificationError

    if len(password) > LONGEST:
        return False
    target = hashed or _nobodys_hash()
    with _AT_ONCE:
        try:
            _hasher().verify(target, _bytes(password))
        except VerificationError:
            return False
    return bool(hashed)


def _bytes(password: str) -> bytes:
    return password.encode("utf-8", "surrogatepass")


@cache
def _hasher() -> PasswordHasher:
    try:
        from argon2 import PasswordHasher
    except ImportError:
        raise MissingExtraError("a password", "web") from None
    return PasswordHasher()


@cache
def _nobodys_hash() -> str:
    with _AT_ONCE:
        return _hasher().hash(b"the password of nobody")
