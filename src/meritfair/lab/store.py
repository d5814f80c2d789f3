"""Where the shards of a sweep are kept: a folder with one file for each task, named by its key.

A shard is put in place in one step, so a file under its name is whole, unless something outside went wrong; then its
seal tells (`meritfair.core.sealed`). There is no index that could disagree with the files: what is done is what is
there. Shards of other specs or versions have other names; they are counted, and left alone.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from meritfair.core.errors import FileError
from meritfair.core.sealed import check_shard
from meritfair.core.storage import write_whole
from meritfair.lab.tasks import Outcome, Task, read_shard

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator

__all__ = ["Store"]

_SUFFIX = ".parquet"


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
        """Return the bytes of a task's shard, None if there is none; a FileError names a file that cannot be read."""
        path = self.path(task)
        try:
            return path.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:  # not damage: it may be whole for those who may read it
            raise FileError(path, f"cannot be read: {error.strerror or error}") from None

    def read(self, task: Task) -> Outcome:
        """Return what is in the shard of a task; a FileError names the file if it is not there or not whole."""
        path, data = self.path(task), self.data(task)
        if data is None:
            raise FileError(path, "there is no such shard: the sweep is not finished")
        try:
            return read_shard(task, data)
        except ValueError as error:
            raise FileError(path, f"does not hold a whole shard: {error}") from None

    def scan(self, tasks: Iterable[Task]) -> tuple[list[Task], list[Task], list[Task]]:
        """Return which tasks are done, which are missing, and which have a damaged shard."""
        done: list[Task] = []
        missing: list[Task] = []
        damaged: list[Task] = []
        for task in tasks:
            data = self.data(task)
            if data is None:
                missing.append(task)
                continue
            try:
                check_shard(data, self.path(task).stem)
                done.append(task)
            except ValueError:
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
        try:
            self.shards.mkdir(parents=True, exist_ok=True)
            lock = (self.folder / ".lock").open("a+")
        except OSError as error:
            raise FileError(self.folder, f"cannot be written to: {error.strerror or error}") from None
        with lock:
            if not _locked(lock.fileno()):
                raise FileError(self.folder, "another sweep is at work in this folder: wait for it, or take another")
            for left in self.shards.glob(f".*{_SUFFIX}"):
                with suppress(OSError):  # it does no harm where it is
                    left.unlink()
            yield


def _locked(handle: int) -> bool:
    """Lock an open file, until it is closed or its process ends; return False if another process has done so."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # some network file systems have no locks
        return True
    return True
