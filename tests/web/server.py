"""A server for tests and benchmarks: `meritfair serve` as people start it, in processes of its own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from meritfair.programme.storage.store import Store
from meritfair.programme.users import Users
from meritfair.web.settings import sign_in_link

PATIENCE = 180.0  # seconds in which a server answers, on a machine that does other things too


@dataclass(frozen=True)
class RunningServer:
    """A server that runs.

    Attributes
    ----------
    address : str
        Such as ``http://127.0.0.1:41234``.
    link : str
        A one-time link of the first user, empty if someone has signed in.
    process : Popen
        The parent of its processes.
    log : Path
        What it writes down.
    seconds : float
        From the command until it said its address.
    """

    address: str
    link: str
    process: subprocess.Popen[bytes]
    log: Path
    out: Path
    seconds: float

    @property
    def token(self) -> str:
        """What the first user's link signs in with."""
        return self.link.partition("#")[2]

    def workers(self) -> list[int]:
        """Return the process ids of all its processes that answer requests or do long work."""
        return [pid for pid in children_of(self.process.pid) if b"spawn_main" in command_of(pid)]

    def stop(self, how: signal.Signals = signal.SIGTERM, patience: float = 40.0) -> int:
        """Tell it to stop; return its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(how)
        return self.process.wait(patience)


@contextmanager
def running_server(
    store_url: str = "",
    *options: str,
    workers: int = 1,
    demo: bool = False,
    environment: dict[str, str] | None = None,
) -> Iterator[RunningServer]:
    """Start a server on a free port of 127.0.0.1; stop it at the end, whatever happens."""
    with tempfile.TemporaryDirectory(prefix="meritfair-test-server-") as folder:
        files = Path(folder) / "out", Path(folder) / "log"
        where = ["--demo"] if demo else ["--store", store_url]
        command = [sys.executable, "-m", "meritfair", "serve", *where, "--port", "0", "--workers", str(workers)]
        started = time.monotonic()
        with files[0].open("wb") as out, files[1].open("wb") as log:
            process = subprocess.Popen(
                [*command, *options], stdout=out, stderr=log, stdin=subprocess.DEVNULL, env=own_environment(environment)
            )
        try:
            text = _wait_until_it_answers(process, *files)
            seconds = time.monotonic() - started
            address = re.search(r"Open (\S+)", text)
            assert address is not None, text
            link = "" if demo else _first_link(store_url, address[1])
            yield RunningServer(address[1], link, process, files[1], files[0], seconds)
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                try:
                    process.wait(40)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()


def _first_link(store_url: str, address: str) -> str:
    """Make a link for the first user, as `meritfair users link` does, if nobody has signed in yet."""
    store = Store(store_url)
    try:
        first = Users(store).first_sign_in(make_link=True)
    finally:
        store.close()
    return sign_in_link(address, first.link) if first is not None and first.link else ""


def own_environment(more: dict[str, str] | None = None) -> dict[str, str]:
    """Return the environment of a command that shares nothing with the user's own store."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("MERITFAIR_")}
    return {**own, "PYTHONUNBUFFERED": "1", **(more or {})}


def _wait_until_it_answers(process: subprocess.Popen[bytes], out: Path, log: Path) -> str:
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        text = out.read_text()
        if "Ctrl-C" in text:
            return text
        if process.poll() is not None:
            break
        time.sleep(0.02)
    raise AssertionError(f"the server did not start: {out.read_text()}{log.read_text()}")


def children_of(parent: int) -> list[int]:
    """Return the process ids of all children of a process."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            status = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:  # it has ended meanwhile
            continue
        if int(status[1]) == parent and status[0] != "Z":
            found.append(int(folder.name))
    return sorted(found)


def command_of(pid: int) -> bytes:
    """Return the command line of a process, empty if it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
