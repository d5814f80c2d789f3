"""Draws of programmes that are the same each time, for all folders of tests that make some."""

from __future__ import annotations

import random
import secrets
import zlib
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def same_draws(request: pytest.FixtureRequest) -> Iterator[None]:
    """Secrets follow from the name of the test: whom a draw favours never decides whether it passes."""
    rng = random.Random(zlib.crc32(request.node.nodeid.encode()))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(secrets, "token_bytes", lambda size=32: rng.randbytes(size))
        patch.setattr(secrets, "token_hex", lambda size=32: rng.randbytes(size).hex())
        yield
