"""Sweeps on a real dask cluster: a scheduler and workers as processes of their own, on loopback."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import io
import json
import logging
import os
import re
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from meritfair.core.errors import FileError, InputError, MissingExtraError
from meritfair.core.machine import WORKER
from meritfair.lab import cluster as module
from meritfair.lab.cluster import ClusterError, WorkersDied, cluster
from meritfair.lab.spec import Spec
from meritfair.lab.sweep import run_sweep
from meritfair.lab.tasks import VersionError, play_shard, tasks, versions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


SPEC = Spec(datasets=("synthetic",), sizes=((4, 1),), policies=("merit-fair", "random"), episodes=20, runs=20)
TASKS = tasks([SPEC])
SOON = 30.0  # seconds: a machine may be busy
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks for processes in /proc"),
]


def until(happened: Callable[[], bool]) -> None:
    """Wait until something has happened."""
    deadline = time.monotonic() + SOON
    while not happened():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)


def alive(pid: int) -> bool:
    """Whether a process is running; one that only waits to be noticed is not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@dataclass
class Machines:
    """A scheduler and its workers, started by dask's own commands."""

    folder: Path
    scheduler: subprocess.Popen[bytes]
    workers: list[subprocess.Popen[bytes]]

    @classmethod
    @contextlib.contextmanager
    def started(cls, folder: Path, workers: int = 1, port: int = 0) -> Iterator[Machines]:
        scheduler = cls.scheduler_at(folder, port)
        machines = cls(folder, scheduler, [])
        try:
            machines.add(workers)
            yield machines
        finally:
            machines.end()

    @staticmethod
    def scheduler_at(folder: Path, port: int) -> subprocess.Popen[bytes]:
        file = folder / "scheduler.json"
        file.unlink(missing_ok=True)
        options = ("--host", "127.0.0.1", "--port", str(port), "--no-dashboard", "--dashboard-address", "127.0.0.1:0")
        scheduler = _dask(
            "scheduler", *options, "--scheduler-file", str(file), DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES="0"
        )
        until(lambda: file.exists() and bool(file.read_bytes()))
        return scheduler

    @property
    def address(self) -> str:
        address: str = json.loads((self.folder / "scheduler.json").read_bytes())["address"]
        return address

    def add(self, workers: int, **environment: str) -> None:
        """Start workers, each with one thread."""
        options = ("--nthreads", "1", "--no-dashboard", "--local-directory", str(self.folder))
        self.workers += [_dask("worker", self.address, *options, **environment) for _ in range(workers)]

    def restart_scheduler(self) -> None:
        port = int(self.address.rpartition(":")[2])
        self.scheduler.kill()
        self.scheduler.wait()
        self.scheduler = self.scheduler_at(self.folder, port)

    def tasks(self) -> int:
        """Return how many tasks the scheduler knows."""
        return self._ask(lambda dask_scheduler: len(dask_scheduler.tasks))

    def count(self) -> int:
        """Return how many workers the scheduler knows."""
        return self._ask(lambda dask_scheduler: len(dask_scheduler.workers))

    def _ask(self, question: Callable[..., int]) -> int:
        from distributed import Client

        with Client(self.address, set_as_default=False) as client:  # type: ignore[no-untyped-call]
            return int(client.run_on_scheduler(question))

    def end(self) -> None:
        for process in (*self.workers, self.scheduler):
            process.send_signal(signal.SIGCONT)
            process.kill()  # what the workers started ends with them
            process.wait()


def _dask(*arguments: str, **environment: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "dask", *arguments],
        env={**os.environ, **environment},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machines]:
    with Machines.started(tmp_path_factory.mktemp("machines"), workers=2) as started:
        until(lambda: started.count() == 2)
        yield started


@pytest.fixture
def said() -> list[str]:
    return []


# Workers do not know this module: they get functions from inside functions, which travel by value.


def napping() -> Callable[[float], int]:
    def nap(seconds: float) -> int:
        time.sleep(seconds)
        return os.getpid()

    return nap


def marking(folder: Path) -> Callable[[float], int]:
    """Return what leaves a file with the number of its process, and works for a while."""

    def mark(seconds: float) -> int:
        (folder / f"{os.getpid()}").touch()
        time.sleep(seconds)
        return os.getpid()

    return mark


def deadly() -> Callable[[], None]:
    def die() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    return die


WORKS_FOR_A_MINUTE = """
            print(executor.submit(os.getpid).result(), flush=True)
            executor.submit(time.sleep, 60).result()
"""

KILLS_WORKERS = """
            killer, others = executor.submit(os._exit, 1), [executor.submit(pow, 2, power) for power in range(4)]
            print(type(killer.exception()).__name__, [other.result() for other in others])
"""


def _script(folder: Path, body: str) -> Path:
    """Return a script that uses a cluster of its own."""
    script = folder / "script.py"
    script.write_text(
        f"""
import os, time
from meritfair.lab.cluster import cluster

if __name__ == "__main__":
    try:
        with cluster("local:1", say=lambda _: None) as executor:
            {body.strip()}
    except KeyboardInterrupt:
        print("stopped")
"""
    )
    return script


class TestPlaying:
    def test_shards_have_the_same_bytes_as_on_one_machine(self, machines: Machines, tmp_path: Path) -> None:
        run_sweep(TASKS, tmp_path / "here", workers=1)
        tally = run_sweep(TASKS, tmp_path / "there", executor=cluster(machines.address))
        assert (tally.played, tally.failed) == (len(TASKS), ())
        here, there = (
            {file.name: file.read_bytes() for file in (tmp_path / folder).rglob("*.parquet")}
            for folder in ("here", "there")
        )
        assert len(here) == len(TASKS)
        assert here == there

    def test_a_scheduler_file_is_an_address_too(self, machines: Machines) -> None:
        with cluster(str(machines.folder / "scheduler.json")) as executor:
            assert executor.submit(pow, 2, 10).result(SOON) == 1024

    def test_errors_of_a_call_come_back(self, machines: Machines) -> None:
        def fail() -> None:
            raise FileError("arms.csv", "must be positive", line=3)  # made from other arguments than it keeps

        with cluster(machines.address) as executor:
            with pytest.raises(ZeroDivisionError):
                executor.submit(divmod, 1, 0).result(SOON)
            with pytest.raises(Exception, match="line 3: must be positive"):
                executor.submit(fail).result(SOON)
            with pytest.raises(FileNotFoundError):  # not taken for a lost connection
                executor.submit(os.stat, "/no/such/file").result(SOON)
            with pytest.raises(VersionError, match=r"numpy is .* instead of 1"):
                executor.submit(play_shard, TASKS[0], {**versions(), "numpy": "1"}).result(SOON)

    def test_arguments_arrive_as_they_are(self, machines: Machines) -> None:
        with cluster(machines.address) as executor:
            given = [("a", {"b": [1.5, None]}), {"list": (1, 2)}]
            assert executor.submit(list, given).result(SOON) == given
            assert executor.submit(dict, key="k", pure=True, workers="w").result(SOON) == {
                "key": "k",
                "pure": True,
                "workers": "w",
            }

    def test_the_cluster_keeps_nothing(self, machines: Machines) -> None:
        with cluster(machines.address) as executor:
            assert [len(data) for data in executor.map(bytes, range(100_000, 100_050))] == [*range(100_000, 100_050)]
            until(lambda: machines.tasks() == 0)

    def test_local_workers_use_one_thread_and_end(self) -> None:
        with cluster("local:2") as executor:
            pids = set(executor.map(napping(), [0.3] * 6))
            assert executor.submit(os.getenv, "OMP_NUM_THREADS").result(SOON) == "1"
            assert executor.submit(os.getenv, WORKER).result(SOON) == "1"
        assert WORKER not in os.environ  # this process still says when it compiles
        assert len(pids) == 2
        until(lambda: not any(map(alive, pids)))

    def test_no_call_after_shutdown(self, machines: Machines) -> None:
        with cluster(machines.address) as executor:
            before = executor.submit(pow, 2, 3)
            executor.shutdown()
            assert before.done()
            with pytest.raises(RuntimeError, match="after its shutdown"):
                executor.submit(pow, 2, 3)


class TestDeaths:
    def test_a_worker_that_is_killed_in_mid_task(self, machines: Machines, tmp_path: Path) -> None:
        with cluster(machines.address) as executor:
            call = executor.submit(marking(tmp_path), 1.0)
            until(lambda: any(tmp_path.iterdir()))
            first = int(next(tmp_path.iterdir()).name)
            os.kill(first, signal.SIGKILL)
            assert call.result(SOON) != first

    def test_a_call_that_kills_its_workers_fails_alone(self, machines: Machines) -> None:
        with cluster(machines.address) as executor:
            others = [executor.submit(napping(), 0.1) for _ in range(4)]
            killer = executor.submit(deadly())
            others += [executor.submit(napping(), 0.1) for _ in range(8)]
            with pytest.raises(WorkersDied, match="2 workers died with this task, the last at tcp"):
                killer.result(SOON)
            for other in others:
                other.result(SOON)

    def test_a_local_cluster_stays_quiet_over_it(self, tmp_path: Path) -> None:
        script = _script(tmp_path, KILLS_WORKERS)
        answer = subprocess.run([sys.executable, script], capture_output=True, check=True, timeout=4 * SOON)
        assert (answer.stdout, answer.stderr) == (b"WorkersDied [1, 2, 4, 8]\n", b"")


class TestLosses:
    def test_a_scheduler_that_starts_anew(
        self, tmp_path: Path, said: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(module, "_BEAT", 0.2)
        with Machines.started(tmp_path) as few:
            with cluster(few.address) as executor:
                executor.submit(napping(), 0).result(SOON)
                executor._say = said.append  # type: ignore[attr-defined]
                calls = [executor.submit(napping(), 0.3) for _ in range(3)]
                few.restart_scheduler()
                until(lambda: bool(said))
                assert said == [f"the cluster at {few.address} has no worker left; waiting for one ..."]
                few.add(1)
                assert all(call.result(SOON) > 0 for call in calls)
            monkeypatch.setattr(module, "CONNECT", 1.0)
            self.lose_in_mid_sweep(few, tmp_path / "sweep")

    @staticmethod
    def lose_in_mid_sweep(few: Machines, folder: Path) -> None:
        """See that a sweep ends with the scheduler, and resumes elsewhere."""

        def kill(_: str, done: int, __: int) -> None:
            if done:
                few.scheduler.kill()

        long = tasks([dataclasses.replace(SPEC, episodes=8000, runs=60)])
        with pytest.raises(ClusterError, match="does not answer any more; what is finished is kept"):
            run_sweep(long, folder, executor=cluster(few.address), progress=kill)
        kept = len(list(folder.rglob("*.parquet")))
        assert 1 <= kept < len(long)
        tally = run_sweep(long, folder, workers=1)
        assert (tally.kept, tally.played, tally.damaged) == (kept, len(long) - kept, ())

    def test_a_scheduler_that_says_nothing(self, machines: Machines, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "_BEAT", 0.2)
        monkeypatch.setattr(module, "SILENCE", 1.0)
        with cluster(machines.address) as executor:
            call = executor.submit(time.sleep, 4)
            time.sleep(0.5)
            machines.scheduler.send_signal(signal.SIGSTOP)
            try:
                with pytest.raises(ClusterError, match="does not answer any more"):
                    call.result(SOON)
                with pytest.raises(ClusterError, match="does not answer any more"):
                    executor.submit(pow, 2, 2)
            finally:
                machines.scheduler.send_signal(signal.SIGCONT)


class TestLeaving:
    def test_an_interrupt_cancels_what_waits_and_nothing_else(self, machines: Machines) -> None:
        with contextlib.suppress(KeyboardInterrupt), cluster(machines.address) as executor:
            calls = [executor.submit(napping(), 0.5) for _ in range(50)]
            calls[0].result(SOON)
            raise KeyboardInterrupt
        assert sum(call.cancelled() for call in calls) > 40
        until(lambda: machines.tasks() == 0)
        with cluster(machines.address) as executor:
            assert executor.submit(pow, 2, 5).result(SOON) == 32

    def test_a_coordinator_that_is_killed_leaves_no_work_behind(self, machines: Machines) -> None:
        code = (
            "import time; from meritfair.lab.cluster import cluster\n"
            f"with cluster({machines.address!r}) as executor:\n"
            "    calls = [executor.submit(time.sleep, 0.5) for _ in range(50)]; calls[0].result(); print(flush=True)\n"
            "    time.sleep(60)\n"
        )
        with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as coordinator:
            assert coordinator.stdout is not None
            coordinator.stdout.readline()
            assert machines.tasks() > 40
            coordinator.kill()
        until(lambda: machines.tasks() == 0)

    def test_ctrl_c_ends_a_local_cluster_at_once_and_quietly(self, tmp_path: Path) -> None:
        pipe, script = subprocess.PIPE, _script(tmp_path, WORKS_FOR_A_MINUTE)
        with subprocess.Popen([sys.executable, script], stdout=pipe, stderr=pipe, start_new_session=True) as process:
            assert process.stdout is not None
            worker = int(process.stdout.readline())
            os.killpg(process.pid, signal.SIGINT)  # as a terminal does
            answer = process.communicate(timeout=SOON)
        assert answer == (b"stopped\n", b"")
        until(lambda: not alive(worker))


class TestRefusals:
    def test_workers_with_other_code(self, machines: Machines, tmp_path: Path) -> None:
        other = {**versions(), "code": "0123456789abcdef"}
        package = tmp_path / "meritfair" / "lab"
        package.mkdir(parents=True)
        (package / "__init__.py").touch()
        (package.parent / "__init__.py").touch()
        (package / "tasks.py").write_text(f"def versions():\n    return {other}\n")
        machines.add(1, PYTHONPATH=str(tmp_path))
        try:
            until(lambda: machines.count() == 3)
            with pytest.raises(ClusterError, match="have other versions") as refused, cluster(machines.address):
                pass
        finally:
            stranger = machines.workers.pop()
            stranger.kill()
            stranger.wait()
        here, there = (line for line in str(refused.value).splitlines() if "code" in line)
        assert here == f"  here: code {versions()['code']};"
        assert re.fullmatch(r"  tcp://127.0.0.1:\d+: code 0123456789abcdef;", there)

    def test_workers_that_do_not_answer(
        self, machines: Machines, said: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(module, "ANSWER", 0.01)
        monkeypatch.setattr("distributed.Client.run", lambda *_, **__: asyncio.sleep(3600.0))
        with cluster(machines.address, say=said.append) as executor:
            assert executor.submit(pow, 2, 2).result(SOON) == 4
        assert len(said) == 1
        assert said[0].startswith(f"not all workers at {machines.address} answer")

    def test_who_has_what(self) -> None:
        ours = {"meritfair": "2", "numpy": "5", "scipy": "9"}
        found = {
            "tcp://a:1": ours,
            "tcp://b:1": {**ours, "numpy": "4"},
            "tcp://c:1": {**ours, "numpy": "4"},
            "tcp://d:1": ModuleNotFoundError("No module named 'meritfair'"),
            "tcp://e:1": OSError("gone"),
        }
        with pytest.raises(ClusterError) as refused:
            module._check_versions(found, ours, "tcp://s:1")
        assert str(refused.value).splitlines() == [
            "workers at tcp://s:1 have other versions than this process:",
            "  here: numpy 5;",
            "  tcp://b:1, tcp://c:1: numpy 4;",
            "  tcp://d:1: cannot load meritfair (No module named 'meritfair');",
            "install the same everywhere, and start those workers again",
        ]
        module._check_versions({"tcp://a:1": dict(ours), "tcp://e:1": OSError("gone")}, ours, "tcp://s:1")

    def test_nobody_to_work(self, tmp_path: Path, said: list[str]) -> None:
        with Machines.started(tmp_path, workers=0) as none:
            waiting = cluster(none.address, patience=0.5, say=said.append)
            with pytest.raises(ClusterError, match=r"no worker came to .* within 0\.5 s"), waiting:
                pass
        assert said == [f"waiting up to 0.5 s for a worker at {none.address} (dask worker {none.address}) ..."]

    @pytest.mark.parametrize("kind", ["nobody", "mute"])
    def test_no_scheduler(self, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "CONNECT", 0.5)
        with socket.socket() as other:
            other.bind(("127.0.0.1", 0))
            if kind == "mute":
                other.listen()
            address = f"tcp://127.0.0.1:{other.getsockname()[1]}"
            problem = rf"no dask scheduler answers at {address} within 0\.5 s"
            with pytest.raises(ClusterError, match=problem), cluster(address):
                pass

    @pytest.mark.parametrize(
        ("address", "problem"),
        [
            ("local", "local:N, where N is the number of workers, got 'local'"),
            ("local:0", "for each core), got 0"),
            ("local:999999999", "for each core), got 999999999"),
            (f"local:{'9' * 5000}", "got 'local:9999"),
            ("local:many", "got 'local:many'"),
            ("local:-2", "got 'local:-2'"),
            ("", "a cluster is local:N, the address of a scheduler"),
            ("host", "such as tcp://host:8786, or its scheduler.json, got 'host'"),
            ("tcp://host", "got 'tcp://host'"),
            ("tcp://host:port", "got 'tcp://host:port'"),
            ("foo://host:1", "unknown address scheme 'foo'"),
        ],
    )
    def test_addresses(self, address: str, problem: str) -> None:
        with pytest.raises(InputError, match=re.escape(problem)), cluster(address):
            pass

    def test_scheduler_files(self, tmp_path: Path) -> None:
        file = tmp_path / "scheduler.json"
        with pytest.raises(FileError, match=r"is the scheduler running.*No such file or directory"), cluster(str(file)):
            pass
        for text in ("", "[]", "{}", '{"address": 3}', "[" * 100_000):
            file.write_text(text)
            with pytest.raises(FileError, match="is no file of a dask scheduler"), cluster(str(file)):
                pass

    def test_without_dask(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "distributed", None)
        with pytest.raises(MissingExtraError, match=r"a cluster needs the extra 'dask'"), cluster("local:1"):
            pass


class TestQuiet:
    def test_only_the_handlers_of_dask_are_silent(self, tmp_path: Path) -> None:
        logger = logging.getLogger("distributed")
        said = io.StringIO()
        theirs, ours = logging.StreamHandler(said), logging.FileHandler(tmp_path / "log")
        before = list(logger.handlers)
        logger.addHandler(theirs)
        logger.addHandler(ours)
        try:
            with module._quiet():
                logger.error("unheard")
            logger.error("heard")
            assert said.getvalue() == "heard\n"
            assert (tmp_path / "log").read_text() == "unheard\nheard\n"
        finally:
            logger.handlers[:] = before
            ours.close()
