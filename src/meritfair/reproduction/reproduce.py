"""The whole paper in one go: what its artefacts need is played as one sweep, then each is analysed, drawn and written.

A folder holds all of it: ``shards`` (what was measured, from which a second call resumes), ``figures``, ``tables``,
``report.html`` and ``verdicts.csv``. Artefacts are analysed and drawn in processes of their own, as each reads nothing
but its shards.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor, as_completed
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from importlib.util import find_spec
from os import PathLike
from pathlib import Path

from meritfair.core.checks import check_known
from meritfair.core.errors import FileError, MeritfairError, MissingExtraError
from meritfair.core.machine import available_cores
from meritfair.core.progress import Progress, following
from meritfair.core.texts import duration, several
from meritfair.lab.executors import check_workers, processes
from meritfair.lab.store import Store
from meritfair.lab.sweep import SweepSummary, outcomes, run_sweep
from meritfair.lab.tasks import Task, tasks, versions
from meritfair.reproduction import ARTEFACTS, BEYOND, HEADLINES
from meritfair.reproduction.artefact import Artefact, Scale
from meritfair.reproduction.report import SUFFIXES, Report, Section, save_figure, save_tables, write_report

FULL = Scale()
QUICK = Scale(episodes=1000, runs=10, quick=True)
_FIGURES, _TABLES = "figures", "tables"


@dataclass(frozen=True, eq=False)
class Selection:
    """Which artefacts are made, at which scale, where, and by how many processes; made by `plan`."""

    folder: Path
    scale: Scale
    artefacts: tuple[Artefact, ...]
    workers: int | None

    @cached_property
    def tasks(self) -> dict[str, tuple[Task, ...]]:
        """What each artefact needs, by name."""
        return {each.name: tasks(each.specs(self.scale)) for each in self.artefacts}

    @property
    def all_tasks(self) -> tuple[Task, ...]:
        """What has to be played: a task that several need is there once."""
        return tuple(dict.fromkeys(task for needed in self.tasks.values() for task in needed))

    @property
    def report(self) -> Path:
        """Where the report will be."""
        return self.folder / "report.html"

    def done(self) -> int:
        """Return how many tasks have a whole shard."""
        return len(Store(self.folder).scan(self.all_tasks)[0])


@dataclass(frozen=True)
class Played:
    """What came of the sweep, and how long it took."""

    tally: SweepSummary
    seconds: float


def reproduce(
    folder: str | PathLike[str],
    scale: Scale = FULL,
    only: Sequence[str] = (),
    *,
    workers: int | None = None,
    executor: AbstractContextManager[Executor] | None = None,
    force: bool = False,
    progress: Progress = None,
) -> Report:
    """Play, analyse, draw and write the paper's figures and tables, or some of them.

    Parameters
    ----------
    folder : path
        Where everything is kept. What is there already is not played again.
    scale : Scale
        `FULL` as in the paper, or `QUICK` for a look.
    only : sequence of str
        Names of artefacts; all by default.
    workers : int, optional
        How many processes; one for each core by default. Results do not depend on it.
    executor : context manager, optional
        Gives a `concurrent.futures.Executor` that plays the tasks, such as a cluster's. Figures are drawn here.
    force : bool
        Play everything again.
    progress : bool or callable
        True shows a bar. A function is told what is going on, and how many of how many parts are done.
    """
    wanted = plan(folder, scale, only, workers)
    with following(progress) as tell:
        played = play(wanted, executor=executor, force=force, progress=tell)
        return write(wanted, played, progress=tell)


def plan(
    folder: str | PathLike[str], scale: Scale = FULL, only: Sequence[str] = (), workers: int | None = None
) -> Selection:
    """Return what is to be made, after a look at whether it can be."""
    for library in ("jinja2", "matplotlib"):
        if find_spec(library) is None:
            raise MissingExtraError("meritfair reproduce", "lab")
    known = [each.name for each in ARTEFACTS]
    names = {check_known("figure or table", name, known) for name in only} or set(known)
    if workers is not None:
        check_workers(workers)
    wanted = Selection(Path(folder), scale, tuple(each for each in ARTEFACTS if each.name in names), workers)
    for part in (_FIGURES, _TABLES):
        try:
            (wanted.folder / part).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise FileError(wanted.folder, f"cannot be used as a folder for results: {error.strerror}") from None
    return wanted


def play(
    wanted: Selection,
    *,
    executor: AbstractContextManager[Executor] | None = None,
    force: bool = False,
    progress: Progress = None,
) -> Played:
    """Play what the artefacts need and is not there yet."""
    begin = time.perf_counter()
    workers = wanted.workers if executor is None else None
    tally = run_sweep(
        wanted.all_tasks, wanted.folder, executor=executor, workers=workers, force=force, progress=progress
    )
    return Played(tally, time.perf_counter() - begin)


def write(wanted: Selection, played: Played, *, progress: Progress = None) -> Report:
    """Analyse and draw the artefacts whose tasks are all there, and write figures, tables and the report."""
    begin = time.perf_counter()
    failed = {failure.task: failure.problem for failure in played.tally.failed}
    made: dict[str, Section | str] = {of.title: _missing(wanted.tasks[of.name], failed) for of in wanted.artefacts}
    whole, total = [each for each in wanted.artefacts if not made[each.title]], len(wanted.artefacts)
    with following(progress) as tell:
        for done, (artefact, section) in enumerate(_sections(wanted, whole), total - len(whole) + 1):
            made[artefact.title] = section
            tell(f"drew {artefact.name}", done, total)
    sections = tuple(each for each in made.values() if isinstance(each, Section))
    report = Report(
        wanted.scale,
        sections,
        _headlines(sections),
        _made_with(wanted, played, time.perf_counter() - begin),
        {title: each for title, each in made.items() if isinstance(each, str)},
        len(ARTEFACTS) - total,
    )
    write_report(report, wanted.report)
    return report


def _headlines(sections: Sequence[Section]) -> tuple[str, ...]:
    """Return what to remember: the main headlines as far as they are there, then others."""
    main = sorted(sections, key=lambda each: each.name not in HEADLINES)  # which keeps the order else
    return tuple(filter(None, (each.findings.headline for each in main)))[: len(HEADLINES)]


def _missing(needed: Sequence[Task], problems: dict[Task, str]) -> str:
    """Return what an artefact misses, empty if nothing."""
    failed = [problems[task] for task in needed if task in problems]
    return f"{len(failed)} of its {several(len(needed), 'task')} failed: {failed[0]}" if failed else ""


def _sections(wanted: Selection, whole: Sequence[Artefact]) -> Iterator[tuple[Artefact, Section | str]]:
    """Give each artefact's section, or what went wrong, as they are finished; one worker is this process itself."""
    number = min(wanted.workers or available_cores(), len(whole))
    longest = sorted(whole, key=lambda each: -len(wanted.tasks[each.name]))
    with processes(number) if number > 1 else ThreadPoolExecutor(1) as pool:
        drawn = {pool.submit(_section, each, wanted.scale, wanted.folder): each for each in longest}
        for done in as_completed(drawn):
            yield drawn[done], done.result()


def _section(artefact: Artefact, scale: Scale, folder: Path) -> Section | str:
    """Read, analyse, draw and write an artefact; return its section, or what went wrong, which stops no other."""
    specs = artefact.specs(scale)
    try:
        findings = artefact.analyse(outcomes(tasks(specs), folder), scale)
        drawing = artefact.draw(findings.numbers)
    except Exception as error:  # what cannot be read, or a mistake of ours in one of them
        return str(error) if isinstance(error, MeritfairError) else f"{type(error).__name__}: {error}"
    note = artefact.note(scale)
    figure = save_figure(drawing, folder / _FIGURES, artefact.name, findings.remark, note)
    files = [f"{_FIGURES}/{artefact.name}{suffix}" for suffix in SUFFIXES]
    files += [f"{_TABLES}/{file.name}" for file in save_tables(findings.tables, folder / _TABLES)]
    said, beyond = replace(findings, numbers=None), artefact.name in BEYOND
    return Section(artefact.name, artefact.title, said, beyond, specs, note, figure, tuple(files))


def _made_with(wanted: Selection, played: Played, drawing: float) -> dict[str, str]:
    """Return what the report says of how it was made."""
    tally, scale = played.tally, wanted.scale
    kept = f", {tally.kept:,} kept from an earlier call" if tally.kept else ""
    damaged = f"; {several(len(tally.damaged), 'shard')} had been damaged and played again" if tally.damaged else ""
    files = {name: (wanted.folder / name).glob("*") for name in ("shards", _FIGURES, _TABLES)}
    sizes = [f"{name} {sum(file.stat().st_size for file in of) / 1e6:.1f} MB" for name, of in files.items()]
    return {
        "Scale": f"{'quick' if scale.quick else 'full'}, {several(scale.runs, 'run')}, seed {scale.seed}",
        "Played": f"{several(tally.played, 'task')} of up to ten runs{kept}{damaged}",
        "Time": f"{duration(played.seconds)} for playing, {duration(drawing)} for analysing and drawing",
        "On disk": ", ".join(sizes),
        "Machine": _machine(),
        "System": f"{platform.platform()}, Python {platform.python_version()}",
        "Versions": ", ".join(f"{name} {version}" for name, version in versions().items()),
        "Finished": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
    }


def _machine() -> str:
    """Return processor, cores and memory, as far as the system tells."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(errors="replace").splitlines() if info.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    processor = (names or [platform.processor()])[0] or platform.machine()
    parts = [processor, f"{available_cores()} cores"]
    if hasattr(os, "sysconf") and {"SC_PAGE_SIZE", "SC_PHYS_PAGES"} <= set(os.sysconf_names):
        parts.append(f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GB of memory")
    return ", ".join(parts)
