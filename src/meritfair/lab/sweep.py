"""Play a spec into a folder, on any executor, and keep every task that is finished.

What is done is what has a whole shard in the folder, so a sweep that was stopped, in whatever way, resumes when it is
run again. The coordinator, which calls `run_sweep`, is the only one that writes; workers get a task and return the
bytes of its shard. It keeps a bounded number of tasks submitted, the longest first, writes shards as they come in, and
plays nothing itself, so nothing that a policy does can harm it.
"""

from __future__ import annotations

import dataclasses
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable
from concurrent.futures import BrokenExecutor, CancelledError, wait
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from meritfair.core.errors import FileError, InputError, MeritfairError
from meritfair.core.machine import available_cores
from meritfair.core.parsing import split_settings
from meritfair.core.progress import Progress, following
from meritfair.engine.compiling import tell_if_cold
from meritfair.lab.executors import check_workers, processes
from meritfair.lab.spec import Setting, Spec
from meritfair.lab.spec_file import SpecFile
from meritfair.lab.store import Store, keep_manifest
from meritfair.lab.tasks import Outcome, Task, TaskError, by_setting, play, play_shard
from meritfair.lab.tasks import tasks as tasks_of

if TYPE_CHECKING:
    from concurrent.futures import Executor, Future

    _Tell = Callable[[str, int, int], None]

_TRIES = 3  # for a task whose worker dies
_AT_ONCE = 1000  # tasks that are submitted and not finished
_GLANCE = 0.2  # seconds between looks at how far it is


@dataclass(frozen=True)
class Failure:
    """A task that could not be played, and why."""

    task: Task
    problem: str


@dataclass(frozen=True)
class SweepSummary:
    """What a sweep has done.

    Attributes
    ----------
    played, kept : int
        Tasks played now, and those that were done before.
    failed : tuple of Failure
        Tasks that could not be played; they are tried again by the next sweep.
    damaged : tuple of Path
        Shards that were there but not whole, and were played again.
    foreign : int
        Shards of other specs or versions in the folder: not used, not touched.
    """

    played: int
    kept: int
    failed: tuple[Failure, ...]
    damaged: tuple[Path, ...]
    foreign: int


@dataclass(frozen=True, eq=False)
class Sweep:
    """A spec and the folder that it is played into.

    Attributes
    ----------
    spec : Spec
    folder : Path
    file : SpecFile, optional
        Where the spec stands, if it was read from a file.
    """

    spec: Spec
    folder: Path
    file: SpecFile | None = None

    @classmethod
    def of(cls, spec: Spec | str | PathLike[str], folder: str | PathLike[str]) -> Sweep:
        """Return the sweep of a spec, or of that of a .toml file."""
        if isinstance(spec, Spec):
            return cls(spec, Path(folder))
        file = SpecFile.read(spec)
        return cls(file.spec, Path(folder), file)

    @cached_property
    def tasks(self) -> tuple[Task, ...]:
        """All tasks, done or not."""
        return tasks_of([self.spec])

    def unfinished(self) -> list[Task]:
        """Return the tasks without a whole shard, as of now."""
        _, missing, damaged = Store(self.folder).scan(self.tasks)
        return [*missing, *damaged]

    def check(self, unfinished: Iterable[Task], progress: _Tell | None = None) -> None:
        """Play a step of each setting that has to be played, so that mistakes show before time is spent."""
        settings = dict.fromkeys(task.setting for task in unfinished)
        (self.file or self.spec).try_out(settings, progress)

    def play(self, **how: Any) -> SweepSummary:
        """Play the spec, with the options of `run_sweep`."""
        return run_sweep(self.tasks, self.folder, spec=self.file.text if self.file else None, **how)


def run_spec(
    spec: Spec | str | PathLike[str],
    folder: str | PathLike[str],
    *,
    executor: AbstractContextManager[Executor] | None = None,
    workers: int | None = None,
    force: bool = False,
    progress: Progress = None,
) -> SweepSummary:
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
    sweep = Sweep.of(spec, folder)
    with following(progress) as tell:
        sweep.check(sweep.tasks if force else sweep.unfinished(), tell)
        return sweep.play(executor=executor, workers=workers, force=force, progress=tell)


def run_sweep(
    tasks: Iterable[Task],
    folder: str | PathLike[str],
    *,
    executor: AbstractContextManager[Executor] | None = None,
    workers: int | None = None,
    force: bool = False,
    spec: str | None = None,
    progress: Progress = None,
) -> SweepSummary:
    """Play the tasks that have no whole shard in the folder.

    Parameters
    ----------
    tasks : iterable of Task
        As `meritfair.lab.tasks.tasks` makes them from specs.
    folder : path
        Made if need be. Only one sweep at a time may use it.
    executor : context manager of an Executor, optional
        Where tasks are played; by default `processes` of this machine.
    workers : int, optional
        How many processes, by default one for each core. Results do not depend on it.
    force : bool
        Play all tasks, also those that are done.
    spec : str, optional
        The text of the file that tasks were made from, to be kept with the results.
    progress : bool or callable
        True shows a bar. A function is called some times a second with what is going on, and how much of how much is
        done, in steps of single arms; what was done before is not counted.

    Returns
    -------
    SweepSummary

    Raises
    ------
    FileError
        If a shard cannot be written, as when the disk is full; those before it are kept.
    MeritfairError
        If there is nobody to play: no worker can be started, one has other versions, a cluster is lost.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from meritfair.lab.spec import Spec
    >>> from meritfair.lab.tasks import tasks
    >>> spec = Spec(datasets=("cpap",), sizes=((5, 1),), policies=("random",), episodes=10, runs=20)
    >>> with TemporaryDirectory() as folder:
    ...     first, second = (run_sweep(tasks([spec]), folder, workers=1) for _ in range(2))
    >>> first.played, second.kept
    (2, 2)
    """
    count = available_cores() if workers is None else check_workers(workers)
    if executor is not None and workers is not None:
        raise InputError(f"workers are for processes of this machine, not for an executor of your own, got {workers}")
    store, chosen = Store(folder), tuple(dict.fromkeys(tasks))
    with store.claim():
        keep_manifest(chosen, store.folder, spec)
        _, missing, damaged = store.scan(chosen)
        to_play = list(chosen) if force else [*missing, *damaged]
        failed: tuple[Failure, ...] = ()
        if to_play:
            with following(progress) as tell, executor or processes(min(count, len(to_play))) as pool:
                failed = _Coordinator(store, pool, to_play, tell).play()
        return SweepSummary(
            played=len(to_play) - len(failed),
            kept=len(chosen) - len(to_play),
            failed=failed,
            damaged=tuple(store.path(task) for task in damaged),
            foreign=len(store.foreign(chosen)),
        )


def outcomes(tasks: Iterable[Task], folder: str | PathLike[str]) -> dict[Setting, Outcome]:
    """Return what was measured of each setting, of which all tasks are done; others are left out.

    A shard that is there but not whole raises a FileError that names it.
    """
    store = Store(folder)
    found = {task: store.read(task) for task in dict.fromkeys(tasks)}
    unfinished = {task.setting for task, outcome in found.items() if outcome is None}
    return by_setting(each for each in found.values() if each is not None and each.setting not in unfinished)


class _Coordinator:
    """Submits tasks, and writes what comes back."""

    def __init__(self, store: Store, pool: Executor, tasks: list[Task], progress: _Tell) -> None:
        self._store, self._pool, self._progress = store, pool, progress
        self._waiting = deque(sorted(tasks, key=lambda task: -task.work))
        self._playing: dict[Future[bytes], Task] = {}
        self._finished: SimpleQueue[Future[bytes]] = SimpleQueue()
        self._deaths: Counter[Task] = Counter()
        self._failed: list[Failure] = []
        self._tasks, self._work = len(tasks), sum(task.work for task in tasks)
        self._played = self._done = 0
        self._told = -1.0

    def play(self) -> tuple[Failure, ...]:
        """Play all tasks; return which could not be played."""
        self._compile()
        try:
            while self._waiting or self._playing:
                self._submit()
                self._tell()
                with suppress(Empty):
                    self._settle(self._finished.get(timeout=_GLANCE))
            self._tell(at_once=True)
        finally:
            self._leave()
        return tuple(self._failed)

    def _compile(self) -> None:
        """Have a little of each kind played, one after another, so that the engine is compiled once and not by all."""
        samples = _samples(task.setting for task in self._waiting)
        tell_if_cold()
        for number, setting in enumerate(samples):
            what = f"getting ready, {number} of {len(samples)}"
            future = self._hand_over(_try_out, setting)
            self._tell(what, at_once=True)
            while not future.done():
                wait([future], timeout=_GLANCE)
                self._tell(what)
            error = None if future.cancelled() else future.exception()
            if isinstance(error, MeritfairError):  # any other will show again when its task has its turn
                raise error

    def _submit(self) -> None:
        """Submit the next tasks."""
        while self._waiting and len(self._playing) < _AT_ONCE:
            task = self._waiting.popleft()
            future = self._hand_over(play_shard, task, task.versions)
            self._playing[future] = task
            future.add_done_callback(self._finished.put)

    def _hand_over(self, function: Callable[..., Any], *args: Any) -> Future[Any]:
        """Submit a call to whoever is to carry it out."""
        try:
            return self._pool.submit(function, *args)
        except MeritfairError:
            raise
        except RuntimeError as error:  # a broken executor, or one that was shut down
            raise MeritfairError(f"the workers are lost, what is finished is kept: {error}") from error

    def _settle(self, future: Future[bytes]) -> None:
        """Keep what came back."""
        task = self._playing.pop(future)
        try:
            data = future.result()
        except CancelledError:
            raise MeritfairError("the workers are lost, what is finished is kept") from None
        except TaskError as error:
            self._fail(task, str(error))
        except MeritfairError:  # about the workers, not about the task
            raise
        except BrokenExecutor as error:
            self._deaths[task] += 1
            if self._deaths[task] < _TRIES:
                self._waiting.appendleft(task)
            else:  # it may be the reason
                self._fail(task, f"{error}, {_TRIES} times with this task")
        except Exception as error:  # an executor of others may fail in any way
            self._fail(task, f"{type(error).__name__}: {error}")
        else:
            self._store.write(task, data)
            self._played += 1
            self._done += task.work

    def _fail(self, task: Task, problem: str) -> None:
        self._failed.append(Failure(task, problem))
        self._done += task.work

    def _tell(self, what: str = "", *, at_once: bool = False) -> None:
        now = time.monotonic()
        if at_once or now - self._told >= _GLANCE:
            self._told = now
            finished = self._played + len(self._failed)
            self._progress(what or f"{finished} of {self._tasks} tasks", self._done, self._work)

    def _leave(self) -> None:
        """Cancel what is not finished, and keep what is, if the sweep ends early."""
        for future in self._playing:
            future.cancel()
        with suppress(FileError):  # then another error is on its way
            for future, task in self._playing.items():
                if future.done() and not future.cancelled() and future.exception() is None:
                    self._store.write(task, future.result())


def _samples(settings: Iterable[Setting]) -> tuple[Setting, ...]:
    """Return a small and a large setting of each kind: that is how parts of the engine are chosen."""
    kinds: dict[tuple[object, ...], list[Setting]] = {}
    for setting in dict.fromkeys(settings):
        policy, own = split_settings(setting.policy)
        words = tuple(value for value in own.values() if isinstance(value, str))  # numbers choose nothing
        fairness = (split_settings(setting.merit)[0], setting.design, setting.ball, setting.exposure_regret)
        timed = (setting.rules, setting.observed, len(setting.budgets) > 0, own.get("slack", 0) != 0)
        kinds.setdefault((policy, words, fairness, timed), []).append(setting)

    def pulls(setting: Setting) -> int:
        return setting.n_arms * (setting.budget + 1)

    return tuple(dict.fromkeys(pick(same, key=pulls) for same in kinds.values() for pick in (min, max)))


def _try_out(setting: Setting) -> None:
    """Play an episode of a setting, to compile what it needs; what fails here will fail again, and be reported."""
    with suppress(Exception):
        play(Task(dataclasses.replace(setting, episodes=1), 0, 1))
