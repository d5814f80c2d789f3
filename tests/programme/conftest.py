"""Stores to test on: every test that asks for `store_url` runs on SQLite and on PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from programme.servers import Server, running_server, server_folder
from same_draws import same_draws as same_draws


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
