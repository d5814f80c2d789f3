"""Long work of a server: it is done in a process of its own, shows its progress, and survives a reload of the page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from meritfair.web.settings import ServerSettings


@dataclass(frozen=True)
class Job:
    """A piece of long work.

    Attributes
    ----------
    id, kind, programme, head : str
        What is worked out, of which programme, as of which entry.
    state : {"waiting", "running", "done", "failed"}
    done, total : int
    words, error : str
    result : dict or None
    file : str
        Where a file is that was made; empty if none was.
    """

    id: str
    kind: str
    programme: str
    head: str
    state: str = "waiting"
    done: int = 0
    total: int = 0
    words: str = ""
    error: str = ""
    result: dict[str, Any] | None = None
    file: str = ""


class Jobs:
    """The long work of a server."""

    def __init__(self, settings: ServerSettings) -> None:
        self._settings = settings

    def ask(self, kind: str, programme: str, arguments: dict[str, Any]) -> Job:
        """Return the job for what is asked; it is begun if it is not there yet."""
        raise NotImplementedError

    def get(self, id_: str) -> Job | None:
        """Return a job."""
        raise NotImplementedError
