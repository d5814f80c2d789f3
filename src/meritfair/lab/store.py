"""The folder of a sweep: one file for each task, named by its key, and what is needed to read them.

A shard is put in place in one step, so a file under its name is whole, unless something outside went wrong; then its
seal tells (`meritfair.core.sealed`). There is no index that could disagree with the files: what is done is what is
there. Shards of other specs or versions have other names; they are counted, and not touched.

Beside the shards there is the *manifest*, so that results can be read without the spec, and by later versions:
``sweep.json`` has every setting of the last sweep into the folder, which shard has which of its runs, versions, and
arms and policies of your own; ``spec.toml`` is the spec as it was given, if it was a file.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from meritfair.core.errors import FileError
from meritfair.core.sealed import check_shard
from meritfair.core.storage import lock, naming, write_text, write_whole
from meritfair.lab.spec import Setting
from meritfair.lab.tasks import Outcome, Task, differences, read_shard, versions

_SUFFIX = ".parquet"
MANIFEST, SPEC = "sweep.json", "spec.toml"
_FORMAT = "meritfair-sweep-1"


class DamagedShardError(FileError):
    """A shard that is there, but not whole."""


class Store:
    """The shards in a folder.

    Examples
    --------
    >>> from meritfair.lab import Setting
    >>> setting = Setting(dataset="cpap", n_arms=5, budget=1, policy="random", episodes=10)
    >>> len(Store("results").path(Task(setting, 0, 10)).stem)
    32
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self.shards = self.folder / "shards"

    def path(self, task: Task) -> Path:
        """Return where the shard of a task is, or would be."""
        return self.shards / f"{task.key}{_SUFFIX}"

    def write(self, task: Task, data: bytes) -> None:
        """Put the shard of a task in place, in one step."""
        path = self.path(task)
        try:
            check_shard(data, path.stem)
        except ValueError as error:
            raise FileError(path, f"is not written, as what a worker returned is not its shard: {error}") from None
        write_whole(path, lambda temporary: temporary.write_bytes(data))

    def data(self, task: Task) -> bytes | None:
        """Return the bytes of a task's shard, None if there is none.

        A FileError names a file that cannot be read, a `DamagedShardError` one that is not whole.
        """
        path = self.path(task)
        with naming(path, "cannot be read"):  # not damage: it may be whole for those who may read it
            try:
                data = path.read_bytes()
            except (FileNotFoundError, NotADirectoryError):
                return None
        try:
            check_shard(data, path.stem)
        except ValueError as error:
            raise DamagedShardError(path, f"does not hold a whole shard: {error}") from None
        return data

    def read(self, task: Task) -> Outcome | None:
        """Return what is in the shard of a task, with the errors of `data`."""
        data = self.data(task)
        return None if data is None else read_shard(task, data)

    def scan(self, tasks: Iterable[Task]) -> tuple[list[Task], list[Task], list[Task]]:
        """Return which tasks are done, which are missing, and which have a damaged shard."""
        done, missing, damaged = (list[Task]() for _ in range(3))
        for task in tasks:
            try:
                (missing if self.data(task) is None else done).append(task)
            except DamagedShardError:
                damaged.append(task)
        return done, missing, damaged

    def foreign(self, tasks: Iterable[Task]) -> list[Path]:
        """Return the shards of other specs or versions, which are never used."""
        own = {self.path(task).name for task in tasks}
        found = sorted(self.shards.glob(f"*{_SUFFIX}")) if self.shards.is_dir() else []
        return [path for path in found if path.name not in own and not path.name.startswith(".")]

    @contextmanager
    def claim(self) -> Iterator[None]:
        """Make the folder if need be, and keep others from writing to it at the same time.

        What a sweep that was killed has left half written is taken away.
        """
        with naming(self.folder, "cannot be written to"):
            self.shards.mkdir(parents=True, exist_ok=True)
            claimed = (self.folder / ".lock").open("a+")
        with claimed:
            if not lock(claimed.fileno()):
                raise FileError(self.folder, "another sweep is running in this folder: wait for it, or use another")
            for left in self.shards.glob(f".*{_SUFFIX}"):
                with suppress(OSError):  # it does no harm where it is
                    left.unlink()
            yield


@dataclass(frozen=True)
class KeptTask(Task):
    """A task whose shard has the name that it was given then, whichever versions there are now."""

    kept_as: str

    @property
    def key(self) -> str:
        """The name of the shard."""
        return self.kept_as


def keep_manifest(tasks: Sequence[Task], folder: Path, spec: str | None = None) -> None:
    """Write down in a folder what is to be played there, and the spec as it was given, if it comes from a file."""
    write_text(folder / MANIFEST, json.dumps(_content(tasks), indent=1))
    if spec is not None:
        write_text(folder / SPEC, spec)
        return
    with naming(folder / SPEC, "cannot be removed"):
        (folder / SPEC).unlink(missing_ok=True)  # that of an earlier sweep


def _content(tasks: Sequence[Task]) -> dict[str, Any]:
    settings = {setting: number for number, setting in enumerate(dict.fromkeys(task.setting for task in tasks))}
    own = {setting.dataset: setting.own_arms for setting in settings if setting.own_arms is not None}
    sources = [setting.own_policy for setting in settings if setting.own_policy is not None]
    return {
        "format": _FORMAT,
        "versions": versions(),
        "settings": [setting.settings() for setting in settings],
        "tasks": [{"setting": settings[t.setting], "first": t.first, "runs": t.runs, "shard": t.key} for t in tasks],
        "own_arms": {
            name: {"names": list(arms.names), "transitions": arms.transitions.tolist()} for name, arms in own.items()
        },
        "own_policies": {source.name: source.text for source in sources},
    }


@dataclass(frozen=True)
class Manifest:
    """What was to be played in a folder, done or not, and by which versions."""

    tasks: tuple[KeptTask, ...]
    versions: Mapping[str, str]

    @classmethod
    def read(cls, folder: Path) -> Manifest:
        """Return what a folder says of itself."""
        file = folder / MANIFEST
        with naming(file, "cannot be read"):
            if not folder.is_dir():
                raise FileError(folder, "is not a folder" if folder.exists() else "there is no such folder")
            if not file.exists():
                raise FileError(folder, "has no results of a sweep in it")
            text = file.read_bytes()
        try:
            return _from_content(json.loads(text))
        except (ValueError, LookupError, TypeError, RecursionError) as error:
            problem = str(error).splitlines()[0] if str(error) else type(error).__name__
            again = "the sweep's command writes it again, and keeps all shards"
            raise FileError(file, f"cannot be read ({problem}): {again}") from None

    @property
    def changed(self) -> dict[str, tuple[str, str]]:
        """Which versions are others than here: then and now, by name."""
        return differences(self.versions, versions())


def _from_content(content: Any) -> Manifest:
    if content["format"] != _FORMAT:
        raise ValueError(f"its format is {content['format']}, not {_FORMAT}")
    settings, kept = [Setting(**each) for each in content["settings"]], []
    for each in content["tasks"]:
        if not re.fullmatch("[0-9a-f]{32}", each["shard"]):
            raise ValueError(f"{each['shard']!r} is not the name of a shard")
        kept.append(KeptTask(settings[each["setting"]], each["first"], each["runs"], each["shard"]))
    return Manifest(tuple(kept), dict(content["versions"]))
