"""The folder of long work: a folder for each job, with what was asked, how far it is, and what came of it.

``request.json`` is written once. ``status.json`` is replaced as a whole whenever something is new. ``claim`` is made by
whoever works on it, with the number of their process: it can be made only once, so nobody else does the same work.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from meritfair.core.language import _

KEPT = 5  # results of one kind of one programme
_AGE = 24 * 3600.0  # seconds that a result is kept
_TRIES = 2
MEDIA_TYPES = {".zip": "application/zip", ".html": "text/html", ".csv": "text/csv"}
_REQUEST = ("id", "kind", "programme", "identity", "arguments", "asked")


@dataclass(frozen=True)
class Job:
    """A piece of long work.

    Attributes
    ----------
    id, kind, programme, head : str
        What is worked out, of which programme, as of which entry: the last one when it was asked or, once someone works
        on it, when that began.
    state : {"waiting", "running", "done", "failed"}
    done, total : int
        How much of how much is done.
    words, error : str
        What is going on, and why it failed.
    result : dict or None
        What came of it, as plain values.
    file : str
        The name of a file that was made; empty if none was.
    entries : int
        How many entries the ledger had at that head.
    identity : str
        Of the programme.
    arguments : dict
    asked, ended : float
        When, in seconds.
    tries : int
        How often it was begun.
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
    entries: int = 0
    identity: str = ""
    arguments: dict[str, Any] = field(default_factory=dict)
    asked: float = 0.0
    ended: float = 0.0
    tries: int = 0

    @property
    def is_over(self) -> bool:
        """Whether nobody works on it any more."""
        return self.state in ("done", "failed")

    @property
    def media_type(self) -> str:
        """Of the file that was made."""
        return MEDIA_TYPES[Path(self.file).suffix]

    def is_like(self, other: Job) -> bool:
        """Return whether both ask the same, whatever the head."""
        return (self.kind, self.identity, self.arguments) == (other.kind, other.identity, other.arguments)


class JobFiles:
    """The jobs of one server, for all its processes.

    Parameters
    ----------
    folder : Path
        Made if it is not there; nobody else may look into it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def add(self, job: Job) -> None:
        """Write a new job, in place of one that has failed; one that is there by now stays."""
        target = self.folder / job.id
        old = self.read(job.id)
        if old is not None and old.state == "failed":
            shutil.rmtree(target, ignore_errors=True)
        made = Path(tempfile.mkdtemp(prefix=".new-", dir=self.folder))
        values = asdict(job)
        _write(made / "request.json", {name: values[name] for name in _REQUEST})
        _write(made / "status.json", _status(job))
        try:
            made.rename(target)
        except OSError:  # someone else was faster
            shutil.rmtree(made, ignore_errors=True)

    def read(self, id_: str, *, result: bool = True) -> Job | None:
        """Return a job; None if there is none."""
        folder = self.folder / id_
        if not (id_.isalnum() and id_.isascii()):
            return None
        try:
            job = Job(**{**_read(folder / "request.json"), **_read(folder / "status.json")})
            if result and job.state == "done" and (folder / "result.json").exists():
                return replace(job, result=_read(folder / "result.json"))
        except FileNotFoundError:  # there is none, or it was pruned meanwhile
            return None
        return job

    def all(self) -> list[Job]:
        """Return all jobs in the order in which they were asked, without what came of them."""
        found = [self.read(each.name, result=False) for each in self.folder.iterdir()]
        return sorted((each for each in found if each is not None), key=lambda each: each.asked)

    def waiting_like(self, job: Job) -> Job | None:
        """Return a job that waits and asks the same: it will be worked out for what is the head then."""
        return next((each for each in self.all() if each.state == "waiting" and each.is_like(job)), None)

    def latest_like(self, job: Job) -> Job | None:
        """Return the newest job that asks the same and is done."""
        found = [each for each in self.all() if each.state == "done" and each.is_like(job)]
        return self.read(max(found, key=lambda each: (each.entries, each.ended)).id) if found else None

    def recent(self, kind: str, identity: str) -> Job | None:
        """Return the job of a kind that was asked last."""
        found = [each for each in self.all() if (each.kind, each.identity) == (kind, identity)]
        return self.read(found[-1].id) if found else None

    def update(self, job: Job) -> None:
        """Write how far a job is."""
        _write(self.folder / job.id / "status.json", _status(job))

    def finish(self, job: Job) -> None:
        """Write what came of a job."""
        if job.result is not None:
            _write(self.folder / job.id / "result.json", job.result)
        self.update(replace(job, ended=time.time()))

    def claim(self, job: Job) -> bool:
        """Return whether this process may work on a job: nobody else does."""
        try:
            handle = os.open(self.folder / job.id / "claim", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        except (FileExistsError, FileNotFoundError):
            return False
        with os.fdopen(handle, "w") as file:
            file.write(str(os.getpid()))
        return True

    def put_back(self) -> None:
        """Let jobs be done again whose process has died; those of which two have died have failed."""
        for job in self.all():
            if job.is_over or not self._is_orphan(job):
                continue
            for left in (self.folder / job.id).glob("still-*"):  # a copy of the store, with all that is in it
                shutil.rmtree(left, ignore_errors=True)
            if job.tries >= _TRIES:
                why = _("The process that worked on this ended twice; it may need more memory than there is.")
                self.finish(replace(job, state="failed", error=why))
                continue
            self.update(replace(job, state="waiting", done=0, words=""))
            (self.folder / job.id / "claim").unlink(missing_ok=True)

    def prune(self) -> None:
        """Delete old results: all but the last few of a kind of a programme, and all after a day."""
        seen = dict[tuple[str, str], int]()
        for job in sorted((each for each in self.all() if each.is_over), key=lambda each: -each.ended):
            place = seen[job.kind, job.identity] = seen.get((job.kind, job.identity), 0) + 1
            if place > KEPT or time.time() - job.ended > _AGE:
                shutil.rmtree(self.folder / job.id, ignore_errors=True)

    def forget(self, programme: str) -> None:
        """Delete what has come of the jobs of a programme."""
        for job in self.all():
            if job.programme == programme and job.is_over:
                shutil.rmtree(self.folder / job.id, ignore_errors=True)

    def _is_orphan(self, job: Job) -> bool:
        try:
            process = int((self.folder / job.id / "claim").read_text() or 0)
        except (FileNotFoundError, ValueError):
            return False
        return not _is_alive(process)


def _is_alive(process: int) -> bool:
    if process <= 0:
        return False
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


_STATUS = tuple(each.name for each in fields(Job) if each.name not in (*_REQUEST, "result"))


def _status(job: Job) -> dict[str, Any]:
    values = vars(job)
    return {name: values[name] for name in _STATUS}


def _read(file: Path) -> dict[str, Any]:
    return dict(json.loads(file.read_text(encoding="utf-8")))


def _write(file: Path, values: dict[str, Any]) -> None:
    """Replace a file as a whole: whoever reads it sees the old one or the new one."""
    beside = file.with_name(f".{file.name}-{os.getpid()}-{time.monotonic_ns()}")
    beside.write_text(json.dumps(values), encoding="utf-8")
    beside.replace(file)
