"""A task: some runs of a setting, played in one go and kept as one shard; and what all those of a setting say together.

Of each run a shard has the numbers of `Run.measures`, curves added up over episodes at a few hundred of them, and
exposures by arm. That is what figures and tables are made of, and a hundredth of a `Run`.

A shard's key is a hash of everything that decides its numbers: the setting, which runs, and the versions of what plays
them. So a shard that is there under its key never has to be played again, and one of another version is never taken.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import json
import sys
import traceback
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

import meritfair
from meritfair.core.arrays import AnyArray, FloatArray, IntArray
from meritfair.core.errors import InputError, MeritfairError
from meritfair.core.machine import check_memory
from meritfair.core.parsing import split_settings
from meritfair.core.sealed import pack_shard, unpack_shard
from meritfair.lab.spec import Setting, Spec
from meritfair.policies import registry

CURVES = ("fairness_regret", "fairness_regret_authors", "exposure_regret", "reward")
RUNS_PER_TASK = 10
_PER_TASK = 130  # bytes, at least
_CURVE, _BY_ARM = "_by_episode", "_by_arm"  # how the names of columns end
# What decides the numbers of a shard; what shows, audits or reports them does not.
_SOURCES = (
    *(f"core/{name}.py" for name in ("arrays", "checks", "errors", "parsing", "sealed", "seeding")),
    *(
        f"simulation/{name}.py"
        for name in ("bootstrap", "metrics", "playables", "problem", "run", "runner", "simulate", "watching")
    ),
    *("datasets/*.py", "engine/*.py", "model/*.py", "policies/*.py", "lab/spec.py", "lab/tasks.py"),
)


class TaskError(MeritfairError):
    """A task cannot be played: its own failure, which says nothing about the others."""


class VersionError(MeritfairError):
    """Who should play a task would not play it as the others do."""


@dataclass(frozen=True)
class Task:
    """Some runs of a setting: `runs` of them from number `first` on."""

    setting: Setting
    first: int
    runs: int

    @property
    def versions(self) -> dict[str, str]:
        """The `versions`, and if the policy is not ours, its file or module with a hash of its source."""
        own = self.setting.own_policy
        origin = _origin(split_settings(self.setting.policy)[0]) if own is None else own.version
        return {**versions(), "policy": origin} if origin else versions()

    @property
    def about(self) -> dict[str, Any]:
        """Everything that decides the numbers, as plain values."""
        numbers = {"first": self.first, "runs": self.runs}
        return {"setting": self.setting.settings(), **numbers, "versions": self.versions}

    @property
    def key(self) -> str:
        """The name of the shard: 32 hexadecimal digits, of what it is about."""
        return hashlib.sha256(json.dumps(self.about, sort_keys=True).encode()).hexdigest()[:32]

    @property
    def work(self) -> int:
        """How much there is to play, in steps of single arms."""
        return self.runs * self.setting.episodes * self.setting.horizon * self.setting.n_arms


@dataclass(frozen=True, eq=False)
class Outcome:
    """What was measured of a setting, a row for each run.

    Attributes
    ----------
    setting : Setting
    runs : ndarray, shape (runs,)
        The numbers of the runs.
    episodes : ndarray, shape (points,)
        At the end of which episodes, counted from 1, curves are kept: the last of all is among them.
    measures : dict of str to ndarray, shape (runs,)
        As `Run.measures` has them, and ``largest_eta``, ``largest_omega``.
    curves : dict of str to ndarray, shape (runs, points)
        Regrets and reward added up from the first episode; the names are `CURVES`.
    by_arm : dict of str to ndarray, shape (runs, N)
        ``benefit``, ``exposure`` (what the arm was given at a step in the mean) and ``fair_exposure``.
    """

    setting: Setting
    runs: IntArray
    episodes: IntArray
    measures: dict[str, FloatArray]
    curves: dict[str, FloatArray]
    by_arm: dict[str, FloatArray]

    def columns(self) -> dict[str, AnyArray]:
        """Return all but setting and episodes as columns with a row for each run."""
        curves = {name + _CURVE: values for name, values in self.curves.items()}
        by_arm = {name + _BY_ARM: values for name, values in self.by_arm.items()}
        return {"run": self.runs, **self.measures, **curves, **by_arm}

    @classmethod
    def from_columns(cls, setting: Setting, episodes: IntArray, columns: Mapping[str, AnyArray]) -> Outcome:
        """Return the outcome with these `columns`."""
        rest = dict(columns)

        def ending(suffix: str) -> dict[str, FloatArray]:
            return {name.removesuffix(suffix): rest.pop(name) for name in columns if name.endswith(suffix)}

        runs, curves, by_arm = rest.pop("run"), ending(_CURVE), ending(_BY_ARM)
        return cls(setting, runs, episodes, rest, curves, by_arm)


def curve_episodes(episodes: int) -> IntArray:
    """Return at the end of which episodes curves are kept: some early ones, then evenly, to the last.

    Examples
    --------
    >>> curve_episodes(10_000)[[0, 1, 2, -2, -1]]
    array([    1,     2,     3,  9950, 10000])
    """
    even, early = np.linspace(1, episodes, 200), np.geomspace(1, episodes, 50)
    return np.unique(np.concatenate([even, early]).round().astype(np.int64))


def tasks(specs: Iterable[Spec]) -> tuple[Task, ...]:
    """Return what has to be played for these specs: at most ten runs in a task, no run twice.

    Runs are cut at every tenth, so that ten runs of a setting are the first task of its thirty.

    Examples
    --------
    >>> from meritfair.lab.spec import Spec
    >>> spec = Spec(datasets=("cpap",), sizes=((5, 1),), policies=("random",), episodes=10, runs=25)
    >>> [(task.first, task.runs) for task in tasks([spec])]
    [(0, 10), (10, 10), (20, 5)]
    """
    most: dict[Setting, int] = {}
    for spec in specs:
        for setting in spec.settings():
            most[setting] = max(spec.runs, most.get(setting, 0))
    count = sum(-(-runs // RUNS_PER_TASK) for runs in most.values())
    check_memory(f"a list of {count:,} tasks", _PER_TASK * count, "runs")
    return tuple(
        Task(setting, first, min(RUNS_PER_TASK, runs - first))
        for setting, runs in most.items()
        for first in range(0, runs, RUNS_PER_TASK)
    )


def versions() -> dict[str, str]:
    """Return what decides the numbers beside the settings: versions, and a hash of our source as ``code``."""
    return dict(_versions())


def differences(ones: Mapping[str, str], others: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Return which versions differ, both by name.

    Examples
    --------
    >>> differences({"numpy": "2.1", "scipy": "1.1"}, {"numpy": "2.2", "scipy": "1.1"})
    {'numpy': ('2.1', '2.2')}
    """
    both = {name: (ones.get(name, "none"), others.get(name, "none")) for name in sorted({*ones, *others})}
    return {name: (one, other) for name, (one, other) in both.items() if one != other}


@cache  # as they were when they were imported, or soon after
def _versions() -> dict[str, str]:
    """Return versions, and a hash of the source that numbers depend on, whichever way its lines end."""
    root, total = Path(meritfair.__file__).parent, hashlib.sha256()
    for file in sorted(file for pattern in _SOURCES for file in root.glob(pattern)):
        total.update(f"{file.relative_to(root).as_posix()}\n".encode())
        total.update(file.read_bytes().replace(b"\r\n", b"\n"))
    libraries = {name: version(name) for name in ("numba", "numpy", "pyarrow", "scipy")}
    return {"meritfair": meritfair.__version__, "code": total.hexdigest()[:16], **libraries}


def _origin(policy: str) -> str:
    """Return the module of a policy of others and a hash of its source, or "" for one of ours or none."""
    home = registry.policy_class(policy).__module__ if policy in registry.names() else "meritfair"
    if home.split(".")[0] == "meritfair":
        return ""
    source = ""
    with suppress(OSError, TypeError):  # compiled, or typed in
        source = "" if home == "__main__" else inspect.getsource(sys.modules[home])
    if not source:
        raise InputError(
            f"the policy {policy!r} must be in a module with a file that workers can import, not in {home}"
        )
    return f"{home} {hashlib.sha256(source.encode()).hexdigest()[:16]}"


def play(task: Task) -> Outcome:
    """Play the runs of a task."""
    numbers = range(task.first, task.first + task.runs)
    run = task.setting.play(numbers)
    kept = curve_episodes(run.episodes)
    curves = {name: np.cumsum(getattr(run, name), axis=1, dtype=np.float64)[:, kept - 1] for name in CURVES}
    benefit = np.stack([arms.benefit for arms in run.arms])
    measures = {**run.measures(), "largest_eta": run.largest_eta, "largest_omega": run.largest_omega}
    by_arm = {"benefit": benefit, "exposure": run.exposure, "fair_exposure": run.fair_exposure}
    return Outcome(task.setting, np.array(numbers), kept, measures, curves, by_arm)


def join(outcomes: Sequence[Outcome]) -> Outcome:
    """Return the outcomes of tasks of one setting as one, runs in order."""
    first, *_ = parts = sorted(outcomes, key=lambda each: int(each.runs[0]))
    tables = [each.columns() for each in parts]
    stacked = {name: np.concatenate([table[name] for table in tables]) for name in tables[0]}
    return Outcome.from_columns(first.setting, first.episodes, stacked)


def by_setting(outcomes: Iterable[Outcome]) -> dict[Setting, Outcome]:
    """Return the outcomes of tasks, those of each setting joined."""
    parts: dict[Setting, list[Outcome]] = {}
    for each in outcomes:
        parts.setdefault(each.setting, []).append(each)
    return {setting: join(found) for setting, found in parts.items()}


def play_shard(task: Task, expected: Mapping[str, str]) -> bytes:
    """Play a task and return its shard: what workers do, wherever they are.

    Raises
    ------
    VersionError
        If the versions here are not those expected, so that the numbers could be others.
    TaskError
        If the task itself cannot be played; the message says why.
    """
    _check_versions(task, expected)
    try:
        outcome = play(task)
    except (Exception, SystemExit) as error:  # whatever a policy may raise: as text, since not all errors can travel
        raise TaskError(_words(error)) from error
    return pack_shard(outcome.columns(), {**task.about, "episodes": outcome.episodes.tolist()}, task.key)


def _words(error: BaseException) -> str:
    """Return what went wrong, and where if nobody had foreseen it."""
    if isinstance(error, MeritfairError):
        return str(error)
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({Path(last.filename).name}, line {last.lineno})"


def _check_versions(task: Task, expected: Mapping[str, str]) -> None:
    """Refuse to play for someone whose numbers could be others."""
    own = task.setting.own_policy
    if "policy" in expected and (own is None or own.text is None):
        home = expected["policy"].split()[0]
        try:
            importlib.import_module(home)  # there the policy is, or joins the registry
        except Exception as error:
            raise VersionError(f"a worker cannot import {home}, which has a policy: {error}") from error
    different = differences(task.versions, expected)
    if different:
        words = ", ".join(f"{name} is {here} instead of {there}" for name, (here, there) in different.items())
        raise VersionError(f"a worker has other versions than the sweep: {words}")


def read_shard(task: Task, data: bytes) -> Outcome:
    """Return the outcome of a task from its shard; raise a ValueError if that is not whole, or of another task."""
    columns, about = unpack_shard(data, task.key)
    return Outcome.from_columns(task.setting, np.array(about["episodes"]), columns)
