"""The selection of RFC 3797, Section 4, once more: MD5 of the key string between two copies of a 16-bit counter.

It picks positions without replacement: the digest, read as one large number, modulo the number of those who are left
says which of them is next.
"""

from __future__ import annotations

import hashlib

__all__ = ["digests", "selection"]


def digests(key: str, count: int) -> list[str]:
    """Return the digests of the first steps, as the RFC prints them."""
    return [_digest(key, step).hex().upper() for step in range(count)]


def selection(key: str, pool: int, count: int) -> list[int]:
    """Return who is selected from a pool whose members are numbered from 1, in the order of selection."""
    left = list(range(1, pool + 1))
    return [left.pop(int.from_bytes(_digest(key, step), "big") % len(left)) for step in range(count)]


def _digest(key: str, step: int) -> bytes:
    counter = step.to_bytes(2, "big")
    return hashlib.md5(counter + key.encode("ascii") + counter, usedforsecurity=False).digest()
