"""A folder of the lab as it is now: a sweep, or a reproduction of the paper.

The folder is looked at again for every request, as a sweep may be running; a shard is read again only if its file has
changed. A shard that is not whole is named, and the rest is used.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from os import PathLike, stat_result
from pathlib import Path
from threading import Lock
from typing import TypeAlias

from meritfair.core.errors import FileError
from meritfair.core.storage import naming
from meritfair.core.tables import read_table, rows_of
from meritfair.lab.results import Results, Wording, gather
from meritfair.lab.spec import Setting
from meritfair.lab.store import MANIFEST, SPEC, DamagedShardError, Manifest, Store
from meritfair.lab.tasks import Outcome, Task
from meritfair.reproduction.report import VERDICTS

REPORT = "report.html"
_COLUMNS = ("artefact", "title", "about", "verdict", "claim", "where", "found", "rule")
_Stamp: TypeAlias = tuple[int, int, int]


@dataclass(frozen=True, eq=False)
class Contents:
    """What is in a folder.

    Attributes
    ----------
    results : Results
        What was found so far.
    spec : str
        The spec as it was given; empty if it was not a file.
    others : int
        Shards of other specs or versions, which are not shown.
    reproduction : bool
        Whether it is a reproduction of the paper.
    report : bool
        Whether its report is there.
    verdicts : tuple of mappings
        A row for each claim, if they are there.
    problems : tuple of str
        What could not be read, apart from shards.
    """

    results: Results
    spec: str
    others: int
    reproduction: bool
    report: bool
    verdicts: tuple[Mapping[str, str], ...]
    problems: tuple[str, ...]

    @property
    def name(self) -> str:
        """What the folder is called."""
        return self.results.folder.resolve().name

    @cached_property
    def settings(self) -> tuple[Setting, ...]:
        """All that was to be played, done or not."""
        return tuple(dict.fromkeys(task.setting for task in self.results.manifest.tasks))

    @cached_property
    def wording(self) -> Wording:
        """How to tell these apart."""
        return Wording(self.settings)

    @property
    def tasks(self) -> int:
        """How many tasks there are."""
        return len(self.results.manifest.tasks)

    @property
    def done(self) -> int:
        """How many of them are there."""
        return self.tasks - self.results.missing

    @cached_property
    def runs(self) -> dict[Setting, int]:
        """How many runs of each setting were to be played."""
        counts = dict.fromkeys(self.settings, 0)
        for task in self.results.manifest.tasks:
            counts[task.setting] += task.runs
        return counts


class Folder:
    """A folder that is looked at again and again, by any thread.

    Parameters
    ----------
    path : path
        A FileError says why it cannot be shown, if so.
    """

    def __init__(self, path: str | PathLike[str]) -> None:
        self.path = Path(path)
        self._store, self._lock = Store(self.path), Lock()
        self._shards: dict[str, tuple[_Stamp, Outcome | DamagedShardError | None]] = {}
        self._last: tuple[object, Contents] | None = None
        if not Manifest.read(self.path).tasks:
            raise FileError(self.path, "has no tasks in it")

    def look(self) -> Contents:
        """Return what is in the folder now; the same value for as long as nothing has changed."""
        with self._lock:
            stamps = self._stamps()
            if self._last is None or self._last[0] != stamps:
                self._last = (stamps, self._read())
            return self._last[1]

    def _stamps(self) -> object:
        """Return what changes whenever something in the folder does."""
        shards = self._store.shards
        files = [self.path / name for name in (MANIFEST, SPEC, REPORT, VERDICTS)]
        with naming(shards, "cannot be read"):
            files += sorted(shards.glob("[!.]*")) if shards.is_dir() else []
            return tuple((file.name, _stamp(file)) for file in files)

    def _read(self) -> Contents:
        manifest = Manifest.read(self.path)
        results = gather(self.path, manifest, self._outcome)
        wanted = {task.key for task in manifest.tasks}
        self._shards = {key: kept for key, kept in self._shards.items() if key in wanted}
        spec, others = self.path / SPEC, len(self._store.foreign(manifest.tasks))
        parts = all((self.path / name).is_dir() for name in ("figures", "tables"))
        verdicts, problems = self._verdicts()
        report = (self.path / REPORT).is_file()
        with naming(spec, "cannot be read"):
            text = spec.read_text(encoding="utf-8", errors="replace") if spec.is_file() else ""
        return Contents(results, text, others, parts, report, verdicts, problems)

    def _outcome(self, task: Task) -> Outcome | None:
        """Return what is in a shard, as `Store.read` does; from memory if its file is the same."""
        stamp = _stamp(self._store.path(task))
        kept = self._shards.get(task.key)
        if kept is None or kept[0] != stamp:
            kept = (stamp, self._read_shard(task))
            self._shards[task.key] = kept
        if isinstance(kept[1], DamagedShardError):
            raise kept[1]
        return kept[1]

    def _read_shard(self, task: Task) -> Outcome | DamagedShardError | None:
        try:
            return self._store.read(task)
        except DamagedShardError as error:
            return error

    def _verdicts(self) -> tuple[tuple[Mapping[str, str], ...], tuple[str, ...]]:
        """Return the verdicts of a reproduction, and what went wrong, which hides nothing else."""
        file = self.path / VERDICTS
        if not file.is_file():
            return (), ()
        try:
            return tuple(rows_of(read_table(file, "verdicts", _COLUMNS).columns)), ()
        except FileError as error:
            return (), (str(error),)


def _stamp(file: Path) -> _Stamp:
    """Return what changes whenever a file does; zeros if there is none."""
    try:
        found: stat_result = file.stat()
    except OSError:
        return (0, 0, 0)
    return (found.st_mtime_ns, found.st_size, found.st_ino)
