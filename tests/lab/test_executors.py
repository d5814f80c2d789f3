"""Processes that carry out calls: each on its own, ended with whoever calls, and none left behind."""

from __future__ import annotations

import importlib
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import CancelledError, wait
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from meritfair.core.errors import FileError, MeritfairError
from meritfair.core.storage import check_suffix
from meritfair.lab import executors
from meritfair.lab.executors import Processes, WorkerDied, processes

SOON = 120  # seconds: a process that hangs is an error, not a wait for ever
pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks for processes in /proc")


def gone(pids: list[int]) -> bool:
    """Whether none of these processes is there any more, after a moment."""
    end = time.monotonic() + SOON
    while time.monotonic() < end:
        if not any(Path(f"/proc/{pid}").exists() for pid in pids):
            return True
        time.sleep(0.01)
    return False


def wait_for(path: Path) -> str:
    """What waits until there is a file, said to a shell, as workers do not know this module."""
    return f"until [ -e '{path}' ]; do sleep 0.02; done"


def our_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("meritfair-worker")]


def test_calls_are_carried_out_elsewhere() -> None:
    with processes(2) as pool:
        found = {pool.submit(os.getpid).result() for _ in range(5)}
        assert os.getpid() not in found
        assert found <= set(pool.pids)
        assert pool.submit(divmod, 17, 5).result() == (3, 2)
        assert pool.submit(int, "ff", base=16).result() == 255
        assert list(pool.map(abs, range(-50, 0))) == list(range(50, 0, -1))
    assert gone(sorted(found))
    assert our_threads() == []


ODD = """
class Odd(Exception):  # which cannot be made again from what it says
    def __init__(self, one, other):
        super().__init__(one + other)

def fail():
    raise Odd("a", "b")
"""


def test_errors_come_back(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "odd_errors.py").write_text(ODD)
    monkeypatch.syspath_prepend(tmp_path)
    odd = importlib.import_module("odd_errors")
    only_here: Any = ModuleType("only_here")
    exec("def function(): pass", only_here.__dict__)
    monkeypatch.setitem(sys.modules, "only_here", only_here)
    with processes(1) as pool:
        first = pool.submit(os.getpid).result()
        with pytest.raises(ZeroDivisionError):
            pool.submit(divmod, 1, 0).result()
        with pytest.raises(RuntimeError, match=r"^SystemExit: 3$"):
            pool.submit(sys.exit, 3).result()
        with pytest.raises(FileError, match=r"^a.txt: arms are kept in .csv files$"):
            pool.submit(check_suffix, Path("a.txt"), "arms", (".csv",)).result()
        with pytest.raises(RuntimeError, match=r"^Odd: ab$"):
            pool.submit(odd.fail).result()
        with pytest.raises((pickle.PicklingError, AttributeError)):
            pool.submit(lambda: 1).result()
        with pytest.raises(TypeError, match="pickle"):
            pool.submit(threading.Lock).result()  # a result that cannot be sent
        with pytest.raises(ModuleNotFoundError, match="only_here"):
            pool.submit(only_here.function).result()  # a call that cannot be understood
        assert pool.submit(os.getpid).result() == first  # all of that did not harm the process


def test_a_process_that_dies_takes_only_its_own_call_along(tmp_path: Path) -> None:
    with processes(2) as pool:
        other = pool.submit(os.system, wait_for(tmp_path / "go"))
        with pytest.raises(WorkerDied, match=r"^a worker process died \(exit code 7\)$"):
            pool.submit(os._exit, 7).result()
        assert pool.submit(abs, -1).result() == 1  # by another one in its place, as the first is busy
        assert len(pool.pids) == 2
        assert not other.done()
        (tmp_path / "go").touch()
        assert other.result(SOON) == 0


def test_a_process_that_is_killed_says_so() -> None:
    with processes(1) as pool:
        victim = pool.submit(os.getpid).result()
        sleeping = pool.submit(time.sleep, 60)
        time.sleep(0.1)
        os.kill(victim, signal.SIGTERM)
        with pytest.raises(WorkerDied, match=r"killed by signal 15\)$"):
            sleeping.result(SOON)
        os.kill(pool.submit(os.getpid).result(), signal.SIGKILL)
        with pytest.raises(WorkerDied, match=r"killed by signal 9, perhaps for lack of memory\)$"):
            pool.submit(os.getpid).result(SOON)
        assert pool.submit(os.getpid).result() != victim


def test_processes_do_not_get_what_the_terminal_sends() -> None:
    with processes(1) as pool:
        worker = pool.submit(os.getpid).result()
        assert os.getpgid(worker) != os.getpgid(0)
        os.kill(worker, signal.SIGINT)
        assert pool.submit(os.getpid).result() == worker


def test_each_process_has_one_thread_for_numbers_and_our_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pickle.py").write_text("raise RuntimeError('not this one')")  # must not be in the way
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path, "/of/the/caller"])
    with processes(1) as pool:
        assert pool.submit(os.getenv, "OMP_NUM_THREADS").result() == "1"
        assert pool.submit(eval, "__import__('sys').path").result() == sys.path


def test_an_error_ends_everything_at_once() -> None:
    calls, pids = [], []
    with suppress(LookupError), processes(2) as pool:
        pids = [pool.submit(os.getpid).result(), *pool.pids]
        calls = [pool.submit(time.sleep, 600) for _ in range(10)]
        while sum(call.running() for call in calls) < 2:
            time.sleep(0.01)
        raise LookupError
    assert gone(pids)
    assert our_threads() == []
    assert all(call.done() for call in calls)
    assert sum(call.cancelled() for call in calls) == 8
    with pytest.raises((WorkerDied, CancelledError)):
        calls[0].result()


def test_a_shutdown_waits_for_what_was_submitted() -> None:
    pool = Processes(1)
    calls = [pool.submit(abs, -number) for number in range(5)]
    pool.shutdown()
    assert [call.result(timeout=0) for call in calls] == list(range(5))
    assert pool.pids == []
    with pytest.raises(RuntimeError, match="after shutdown"):
        pool.submit(abs, 1)
    pool.shutdown()
    pool.stop()


def test_a_shutdown_can_cancel_what_waits(tmp_path: Path) -> None:
    with Processes(1) as pool:
        calls = [pool.submit(os.system, wait_for(tmp_path / "go")) for _ in range(4)]
        while not calls[0].running():
            time.sleep(0.01)
        pool.shutdown(wait=False, cancel_futures=True)
        (tmp_path / "go").touch()
    assert [call.cancelled() for call in calls] == [False, True, True, True]
    assert not wait(calls, SOON).not_done
    assert calls[0].result() == 0


def test_a_call_can_be_cancelled_while_it_waits(tmp_path: Path) -> None:
    with processes(1) as pool:
        pool.submit(os.system, wait_for(tmp_path / "go"))
        second, third = pool.submit(os._exit, 1), pool.submit(abs, -3)
        assert second.cancel()
        (tmp_path / "go").touch()
        assert third.result(SOON) == 3
        assert second.cancelled()


def test_processes_that_cannot_start_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executors, "_BOOT", "raise SystemExit(5)")
    with processes(1) as pool, pytest.raises(MeritfairError) as raised:
        pool.submit(abs, 1).result(60)
    said = "a worker process cannot be started: a worker process died (exit code 5), 5 times before it was ready"
    assert str(raised.value) == said
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with processes(1) as pool, pytest.raises(MeritfairError, match=r"cannot be started: No such file or directory$"):
        pool.submit(abs, 1).result(60)


LONG = """
import sys, time
from concurrent.futures import wait
from meritfair.lab.executors import processes
from meritfair.lab.spec import Setting
from meritfair.lab.tasks import Task, play

setting = Setting(dataset="cpap", n_arms=20, budget=2, policy="merit-fair", episodes=10**7)
with processes(2) as pool:
    pool.submit(play, Task(Setting(**{**setting.settings(), "episodes": 1}), 0, 1)).result()
    calls = [pool.submit(play, Task(setting, 0, 1)) for _ in range(3)]
    while sum(call.running() for call in calls) < 2:
        time.sleep(0.01)
    print(*pool.pids, flush=True)
    wait(calls)
"""


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_processes_end_with_the_one_that_started_them(how: signal.Signals) -> None:
    # In the middle of compiled code, of which there are hours to go.
    caller = subprocess.Popen([sys.executable, "-c", LONG], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert caller.stdout is not None
        pids = [int(pid) for pid in caller.stdout.readline().split()]
        assert len(pids) == 2
        assert all(Path(f"/proc/{pid}").exists() for pid in pids)
        caller.send_signal(how)
        _, errors = caller.communicate(timeout=60)
    finally:
        caller.kill()
    assert caller.returncode == -how
    assert gone(pids)
    assert errors.count("Traceback") == (how == signal.SIGINT)  # its own, of the KeyboardInterrupt; none of theirs
