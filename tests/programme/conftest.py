"""Stores to test on: every test that asks for `store_url` runs on SQLite and on PostgreSQL."""

from __future__ import annotations

import random
import secrets
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from programme.servers import Server, running_server, server_folder


@pytest.fixture(scope="session")
def postgresql() -> Iterator[Server]:
    """A PostgreSQL server of our own."""
    programs = server_folder()
    if programs is None:
        pytest.skip("no PostgreSQL server is installed, so nothing is tested on it (on Debian: apt install postgresql)")
    with running_server(programs) as server:
        yield server


@pytest.fixture(params=["sqlite", "postgresql"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a fresh database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'programmes.db'}"
    server: Server = request.getfixturevalue("postgresql")
    return server.fresh_database()


@pytest.fixture(autouse=True)
def _same_draws(request: pytest.FixtureRequest) -> Iterator[None]:
    """Secrets follow from the name of the test: whom a draw favours never decides whether it passes."""
    rng = random.Random(zlib.crc32(request.node.nodeid.encode()))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(secrets, "token_bytes", lambda size=32: rng.randbytes(size))
        patch.setattr(secrets, "token_hex", lambda size=32: rng.randbytes(size).hex())
        yield
