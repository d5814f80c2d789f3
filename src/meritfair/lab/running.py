"""Play a spec into a folder, which is then all that is needed to read the results."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from meritfair.core.progress import following
from meritfair.lab.spec import Spec
from meritfair.lab.spec_file import SpecFile, try_out
from meritfair.lab.store import Store
from meritfair.lab.sweep import Tally, run_sweep
from meritfair.lab.tasks import Task, tasks

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Executor
    from contextlib import AbstractContextManager
    from os import PathLike

    from meritfair.core.progress import Progress
    from meritfair.lab.spec import Setting

    _Progress = Callable[[str, int, int], None]

__all__ = ["Sweep", "run_spec"]


@dataclass(frozen=True, eq=False)
class Sweep:
    """A spec and the folder that it is played into.

    Attributes
    ----------
    source : Spec or SpecFile
    folder : Path
    """

    source: Spec | SpecFile
    folder: Path

    @property
    def spec(self) -> Spec:
        """What is played."""
        return self.source if isinstance(self.source, Spec) else self.source.spec

    @cached_property
    def tasks(self) -> tuple[Task, ...]:
        """All tasks, done or not."""
        return tasks([self.spec])

    def unfinished(self) -> list[Task]:
        """Return the tasks without a whole shard, as of now."""
        _, missing, damaged = Store(self.folder).scan(self.tasks)
        return [*missing, *damaged]

    def check(self, unfinished: list[Task], progress: _Progress | None = None) -> None:
        """Play a step of each setting that has to be played, so that mistakes show before time is spent."""
        settings: tuple[Setting, ...] = tuple(dict.fromkeys(task.setting for task in unfinished))
        if isinstance(self.source, SpecFile):
            self.source.try_out(settings, progress)
        else:
            try_out(self.source, settings, progress)

    def play(
        self,
        *,
        executor: AbstractContextManager[Executor] | None = None,
        workers: int | None = None,
        force: bool = False,
        progress: Progress = None,
    ) -> Tally:
        """Play the spec, as `run_sweep` does."""
        text = None if isinstance(self.source, Spec) else self.source.text
        how: dict[str, Any] = {"executor": executor, "workers": workers, "force": force, "progress": progress}
        return run_sweep(self.tasks, self.folder, spec=text, **how)


def run_spec(
    spec: Spec | str | PathLike[str],
    folder: str | PathLike[str],
    *,
    executor: AbstractContextManager[Executor] | None = None,
    workers: int | None = None,
    force: bool = False,
    progress: Progress = None,
) -> Tally:
    """Play a spec, or that of a .toml file, into a folder; what is there already is not played again.

    Parameters
    ----------
    spec : Spec or path
    folder : path
        Made if need be; `load` and `read_results` read it.
    executor, workers, force, progress
        As for `run_sweep`.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> spec = Spec(datasets="cpap", sizes=[(5, 1)], policies=["random", "none"], episodes=2, runs=3)
    >>> with TemporaryDirectory() as folder:
    ...     run_spec(spec, folder, workers=1).played, run_spec(spec, folder).kept
    (2, 2)
    """
    sweep = Sweep(spec if isinstance(spec, Spec) else SpecFile.read(spec), Path(folder))
    with following(progress) as tell:
        sweep.check(list(sweep.tasks) if force else sweep.unfinished(), tell)
        return sweep.play(executor=executor, workers=workers, force=force, progress=tell)
