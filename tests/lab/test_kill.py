"""Sweeps that are killed, whoever and whenever: they resume to the same bytes, and what was finished stays."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from meritfair.lab.spec import Spec
from meritfair.lab.sweep import run_sweep
from meritfair.lab.tasks import tasks

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks for processes in /proc"),
]
SPEC: dict[str, Any] = {
    "datasets": ("synthetic", "cpap"),
    "sizes": ((10, 2),),
    "policies": ("merit-fair",),
    "episodes": 600,
    "runs": 400,
}
SHARDS = 80  # two data sets, ten runs in each shard
SOON = 120  # seconds: a process that hangs is an error, not a wait for ever
COORDINATOR = """
import json, sys
from meritfair.lab.spec import Spec
from meritfair.lab.sweep import run_sweep
from meritfair.lab.tasks import tasks

try:
    found = run_sweep(tasks([Spec(**json.loads(sys.argv[2]))]), sys.argv[1], workers=2)
except KeyboardInterrupt:
    print("interrupted", flush=True)
    raise SystemExit(130)
print(found.played + found.kept, len(found.failed), len(found.damaged), flush=True)
"""


class Coordinator:
    """A sweep in a process of its own, and its workers."""

    def __init__(self, folder: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", COORDINATOR, str(folder), json.dumps(SPEC)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.pid = self.process.pid

    @property
    def running(self) -> bool:
        return self.process.poll() is None

    @property
    def workers(self) -> list[int]:
        return [pid for pid in processes() if parent(pid) == self.pid]

    def end(self) -> tuple[str, str]:
        return self.process.communicate(timeout=SOON)


def processes() -> Iterator[int]:
    return (int(each.name) for each in Path("/proc").iterdir() if each.name.isdecimal())


def parent(pid: int) -> int:
    """Return who started a process, -1 if it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return -1
    return -1 if fields[0] == "Z" else int(fields[1])


def wait_until_gone(pids: list[int]) -> None:
    end = time.monotonic() + SOON
    while left := [pid for pid in pids if parent(pid) != -1]:
        assert time.monotonic() < end, f"still there: {left}"
        time.sleep(0.01)


def places(folder: Path) -> dict[str, tuple[int, int]]:
    """Where and when each shard was written: another one in its place would have another inode or time."""
    found = {path: path.stat() for path in (folder / "shards").glob("[!.]*")}
    return {path.name: (stat.st_ino, stat.st_mtime_ns) for path, stat in found.items()}


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (folder / "shards").iterdir()}


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The shards of a sweep that nothing has disturbed."""
    folder = tmp_path_factory.mktemp("reference")
    assert run_sweep(tasks([Spec(**SPEC)]), folder, workers=1).played == SHARDS
    return content(folder)


def disturb(folder: Path, kills: int, rng: random.Random) -> None:
    """Kill workers and coordinators at random, starting coordinators again; every finished shard must stay."""
    coordinator, hits = Coordinator(folder), 0
    seen: dict[str, tuple[int, int]] = {}
    (folder / "shards").mkdir(parents=True)
    for kill in range(kills):
        wanted = len(places(folder)) + rng.choice([0, 1, 2])  # 0: perhaps before anything is played
        while coordinator.running and len(places(folder)) < wanted:
            time.sleep(0.005)
        time.sleep(rng.choice([0.0, 0.01, 0.1, 0.3]))
        seen |= places(folder)
        workers = coordinator.workers
        hits += coordinator.running
        if kill % 3 and workers:
            os.kill(rng.choice(workers), signal.SIGKILL)
            continue
        coordinator.process.kill()
        coordinator.end()
        wait_until_gone(workers)
        assert seen.items() <= places(folder).items()
        coordinator = Coordinator(folder)
    out, errors = coordinator.end()
    assert out == f"{SHARDS} 0 0\n", errors  # all are there, none failed, none was damaged
    assert "Traceback" not in errors
    assert seen.items() <= places(folder).items()
    assert seen, "nothing was finished before the last kill: this shows nothing"
    assert hits > kills * 2 / 3, "it was over too early: this shows little"


def test_a_sweep_that_is_killed_ten_times_ends_in_the_same_bytes(reference: dict[str, bytes], tmp_path: Path) -> None:
    disturb(tmp_path, 10, random.Random(20))
    assert content(tmp_path) == reference  # half-written files are gone too


@pytest.mark.parametrize("shards", [0, 3])
def test_an_interrupt_stops_a_sweep_at_once(shards: int, reference: dict[str, bytes], tmp_path: Path) -> None:
    coordinator = Coordinator(tmp_path)
    while not (tmp_path / "shards").is_dir():  # from here on it is running
        time.sleep(0.005)
    while len(places(tmp_path)) < shards:
        time.sleep(0.005)
    time.sleep(0.05)
    workers = coordinator.workers
    os.killpg(coordinator.pid, signal.SIGINT)  # as a terminal does
    out, errors = coordinator.end()
    assert (out, coordinator.process.returncode) == ("interrupted\n", 130)
    assert "Traceback" not in errors
    wait_until_gone(workers)
    kept, found = places(tmp_path), content(tmp_path)
    assert shards <= len(found) < SHARDS
    assert found.items() <= reference.items()
    if shards:
        assert Coordinator(tmp_path).end()[0] == f"{SHARDS} 0 0\n"
        assert content(tmp_path) == reference
        assert kept.items() <= places(tmp_path).items()
