"""Passwords that are hashed with the least work, for tests that do not depend on it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from meritfair.programme import passwords


@pytest.fixture
def quick_hashes(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Hash passwords quickly."""
    from argon2 import PasswordHasher

    hasher = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
    monkeypatch.setattr(passwords, "_hasher", lambda: hasher)
    passwords._nobodys_hash.cache_clear()
    yield
    passwords._nobodys_hash.cache_clear()
