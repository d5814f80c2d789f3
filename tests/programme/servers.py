"""A PostgreSQL server for tests: the installed one, on data of its own in a temporary folder."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

_ALWAYS = {"listen_addresses": "127.0.0.1", "max_connections": "100", "shared_buffers": "64MB", "fsync": "on"}


def server_folder() -> Path | None:
    """Return where the programs of the newest installed server are, None if there is none that tests can start."""
    if os.name != "posix":  # what pg_ctl starts there never lets go of its output
        return None
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda each: float(each.parent.name), reverse=True)
    on_path = shutil.which("initdb")
    folders = [*debian, *([Path(os.path.realpath(on_path)).parent] if on_path else [])]
    return next((each for each in folders if (each / "initdb").exists() and (each / "pg_ctl").exists()), None)


class Server:
    """A server that listens on 127.0.0.1, where everyone is the superuser ``postgres``."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self.programs, self.data, self.port, self._databases = programs, folder / "data", free_port(), 0
        self._user: dict[str, Any] = {}
        if hasattr(os, "geteuid") and os.geteuid() == 0:  # a server refuses to be root's
            shutil.chown(folder, "postgres", "postgres")
            self._user = {"user": "postgres", "group": "postgres", "extra_groups": []}
        self._run("initdb", "-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale=C", "-D", self.data)
        settings = {**_ALWAYS, "port": str(self.port), "unix_socket_directories": str(folder)}
        with (self.data / "postgresql.conf").open("a") as file:
            file.writelines(f"{name} = '{value}'\n" for name, value in settings.items())

    def _run(self, program: str, *options: str | Path) -> None:
        done = subprocess.run(
            [self.programs / program, *options], capture_output=True, text=True, cwd=self.data.parent, **self._user
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def start(self) -> None:
        self._run("pg_ctl", "start", "-w", "-t", "600", "-D", self.data, "-l", self.data.parent / "log")

    def stop(self, how: str = "fast") -> None:
        self._run("pg_ctl", "stop", "-w", "-t", "600", "-m", how, "-D", self.data)

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    def execute(self, statement: str, database: str = "postgres") -> None:
        """Run a statement as the superuser, by itself."""
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            connection.execute(statement.encode())

    def fresh_database(self) -> str:
        """Make a new database; return its URL."""
        self._databases += 1
        name = f"test_{self._databases}"
        self.execute(f"CREATE DATABASE {name}")
        return self.url(name)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def running_server(programs: Path) -> Iterator[Server]:
    """Start a server; stop it and delete its data at the end, whatever happens."""
    folder = Path(tempfile.mkdtemp(prefix="meritfair-postgresql-"))
    try:
        server = Server(programs, folder)
        server.start()
        try:
            yield server
        finally:
            if (server.data / "postmaster.pid").exists():  # unless a test has stopped it
                server.stop("immediate")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
