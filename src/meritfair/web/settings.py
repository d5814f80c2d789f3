"""What a server is started with."""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass, field
from urllib.parse import urlsplit

MEGABYTE = 1 << 20


@dataclass(frozen=True)
class ServerSettings:
    """How a server runs.

    Attributes
    ----------
    store : str
        URL of the store, or path of an SQLite file; empty for the default one.
    host : str
    port : int
    url : str
        The address by which people reach it, such as ``https://meritfair.example.org``; empty on one's own machine.
    workers : int
    demo : bool
        Whether it shows a simulated clinic: whoever looks is signed in.
    run_folder : str
        Where the files of a run are, such as those that long work makes; one for all workers.
    job_process : bool
        Whether a process of its own does long work; otherwise a thread does.
    key : str
        Random, for this run of the server: it makes pseudonyms of users in the log.
    max_body : int
        The most bytes that a request may have.
    """

    store: str = ""
    host: str = "127.0.0.1"
    port: int = 8000
    url: str = ""
    workers: int = 1
    demo: bool = False
    run_folder: str = ""
    job_process: bool = False
    key: str = field(default_factory=lambda: secrets.token_hex(32), repr=False)
    max_body: int = 64 * MEGABYTE

    @property
    def run(self) -> str:
        """A name of this run of the server, which no other has."""
        return hashlib.sha256(f"run {self.key}".encode()).hexdigest()[:16]

    @property
    def address(self) -> str:
        """The address by which people reach it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return self.url.rstrip("/") or f"http://{host}:{self.port}"

    def sign_in_link(self, token: str) -> str:
        """Return a one-time link."""
        return sign_in_link(self.address, token)

    @property
    def secure(self) -> bool:
        """Whether people reach it by https."""
        return self.address.startswith("https://")

    @property
    def hosts(self) -> tuple[str, ...]:
        """The names of hosts by which it may be asked: others are a trick of a foreign page."""
        own = (urlsplit(self.address).hostname or "", self.host)
        return tuple(dict.fromkeys(each for each in (*own, "127.0.0.1", "localhost", "::1") if each))


def sign_in_link(address: str, token: str) -> str:
    """Return a one-time link: the token is behind #, which browsers do not send, so that no log has it."""
    return f"{address.rstrip('/')}/sign-in/link#{token}"
