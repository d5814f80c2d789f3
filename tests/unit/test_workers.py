"""Runs on many threads: the same bits however they are spread, and nothing left behind when they stop early."""

from __future__ import annotations

import dataclasses
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import meritfair as mf
from meritfair.engine.episodes import new_run_state
from meritfair.policies import Lottery, Plan, PriorityTable, View

ARMS = mf.datasets.synthetic(n_arms=6, seed=5)
SETTINGS: dict[str, Any] = {"budget": 2, "episodes": 12, "horizon": 70, "runs": 7, "seed": 1}
LONG: dict[str, Any] = {"episodes": 10**6, "horizon": 2000}  # played to the end, it would take minutes


@dataclass(frozen=True)
class NeedFirst(mf.Policy):
    """Merit by how seldom an arm was seen good: a lottery in plain Python."""

    name: ClassVar[str] = "need-first"

    def plan(self, view: View) -> Plan:
        return Lottery(1.0 / (1.0 + view.counts.good.sum(axis=(-2, -1))))


@dataclass(frozen=True)
class HelpTheBad(mf.Policy):
    """Those in the bad state first, all alike: ties are drawn at every step."""

    name: ClassVar[str] = "help-the-bad"

    def plan(self, view: View) -> Plan:
        return PriorityTable(np.broadcast_to(np.array([1.0, 0.0]), view.counts.visits.shape[:-1]))


@dataclass(frozen=True)
class FailsAt(mf.Policy):
    """Breaks when it plans this episode."""

    name: ClassVar[str] = "fails-at"
    episode: int = 1

    def plan(self, view: View) -> Plan:
        if view.episode == self.episode:
            raise ZeroDivisionError("planned to fail")
        return Lottery(np.ones(view.n_arms))


@dataclass(frozen=True)
class ConstantFailure(FailsAt):
    name: ClassVar[str] = "constant-failure"
    plans_once = True


# Whole runs in the engine by a rule, by another, of a plan that never changes; episode by episode for the others.
POLICIES = [mf.MeritFair(), mf.Optimal(), mf.Random(), mf.RoundRobin(), NeedFirst(), HelpTheBad()]
LUCKY = [  # these draw from the luck of a run, for beliefs or orders, in the engine and in Python
    mf.MeritFair(design="exact", estimate="thompson"),
    mf.MeritFair(design="systematic", ball="kl", floor=0.1),
    mf.FairOracle(design="exact"),
    mf.MeritFair(merit=mf.CustomMerit(np.exp, lipschitz=3.0), design="exact", estimate="thompson"),
]
BOTH_WAYS = [mf.MeritFair(), NeedFirst()]
by_name: Any = {"ids": lambda policy: policy.name}


def arrays(run: mf.Run) -> dict[str, Any]:
    values = {field.name: getattr(run, field.name) for field in dataclasses.fields(run)}
    return {name: value for name, value in values.items() if isinstance(value, np.ndarray)}


def assert_same_bits(one: mf.Run, other: mf.Run) -> None:
    first, second = arrays(one), arrays(other)
    assert len(first) == len(dataclasses.fields(mf.Run)) - 1  # all but the settings
    for name, values in first.items():
        assert values.dtype == second[name].dtype
        assert values.tobytes() == second[name].tobytes(), name
    assert one.settings == other.settings


def play(policy: mf.Policy, **changes: Any) -> mf.Run:
    return mf.simulate(ARMS, policy, **{**SETTINGS, **changes})


def our_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("meritfair")]


# ---- the same bits


@pytest.mark.parametrize("policy", POLICIES + LUCKY, ids=repr)
def test_results_do_not_depend_on_the_number_of_workers(policy: mf.Policy) -> None:
    alone = play(policy, workers=1)
    assert len({values.tobytes() for values in alone.visits}) == 7  # else runs could be mixed up unseen
    for workers in (2, 3, 5, None, 100):
        assert_same_bits(alone, play(policy, workers=workers))
    assert our_threads() == []


@pytest.mark.parametrize("policy", BOTH_WAYS, **by_name)
def test_results_are_the_same_from_threads_of_ones_own(policy: mf.Policy) -> None:
    with ThreadPoolExecutor(3) as pool:
        for each in [pool.submit(play, policy, workers=2) for _ in range(3)]:
            assert_same_bits(play(policy, workers=1), each.result())


@pytest.mark.slow
def test_results_are_the_same_from_a_spawned_process() -> None:
    by_episode = mf.MeritFair(merit=mf.CustomMerit(np.exp, lipschitz=3.0))  # the engine does not know this merit
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        for policy in (mf.MeritFair(), mf.Random(), by_episode):
            there = pool.submit(mf.simulate, ARMS, policy, **SETTINGS, workers=2).result(timeout=120)
            assert_same_bits(play(policy, workers=1), there)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_results_are_the_same_from_a_fork_after_playing() -> None:
    # A pool of threads that outlived its simulation would be dead in the child, and the child would wait forever.
    script = """
import os, meritfair as mf
arms = mf.datasets.synthetic(n_arms=6, seed=5)
def play():
    run = mf.simulate(arms, mf.MeritFair(), budget=2, episodes=12, horizon=70, runs=7, seed=1, workers=2)
    return run.visits.tobytes()
here = play()
child = os.fork()
if child == 0:
    os._exit(0 if play() == here else 3)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", script], check=True, timeout=120)


# ---- an end before the end


INTERRUPTED = """
import sys, threading
from dataclasses import dataclass
import numpy as np
import meritfair as mf
from meritfair.policies import Lottery

@dataclass(frozen=True)
class Own(mf.Policy):
    name = "own"

    def plan(self, view):
        return Lottery(np.ones(view.n_arms))

began = False

def progress(done, total):
    global began
    if done and not began:
        began = True
        print("began", flush=True)

policy = {"built-in": mf.MeritFair(), "constant": mf.Random(), "own": Own()}[sys.argv[1]]
arms = mf.datasets.synthetic(20, seed=1)
try:
    mf.simulate(arms, policy, budget=2, episodes=10**7, horizon=10**5, runs=3, seed=1, workers=2, progress=progress)
except KeyboardInterrupt:
    print("interrupted", threading.active_count(), flush=True)
"""


@pytest.fixture(scope="module")
def warm() -> None:
    """Compile what is interrupted below: before that, one would interrupt the compiler."""
    for policy in BOTH_WAYS:
        play(policy)


def interrupt(process: subprocess.Popen[str]) -> tuple[str, str]:
    """Send what Ctrl-C sends; return what the process has said. Left to itself it would play for hours."""
    process.send_signal(signal.SIGINT)
    try:
        return process.communicate(timeout=600)
    finally:
        process.kill()


def start(*command: str) -> subprocess.Popen[str]:
    """Start Python in a group of processes of its own."""
    return subprocess.Popen(
        [sys.executable, *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def assert_no_process_is_left(group: int) -> None:
    with pytest.raises(ProcessLookupError):
        os.killpg(group, 0)


posix = pytest.mark.skipif(os.name != "posix", reason="sends a signal, and looks for a group of processes")


@pytest.mark.slow
@posix
@pytest.mark.usefixtures("warm")
@pytest.mark.parametrize("kind", ["built-in", "constant", "own"])
def test_an_interrupt_stops_the_library_at_once(kind: str) -> None:
    process = start("-c", INTERRUPTED, kind)
    assert process.stdout is not None
    assert process.stdout.readline() == "began\n"
    out, err = interrupt(process)
    assert out == "interrupted 1\n"  # the main thread is the only one
    assert "Traceback" not in err
    assert process.returncode == 0
    assert_no_process_is_left(process.pid)


@pytest.mark.slow
@posix
@pytest.mark.usefixtures("warm")
def test_an_interrupt_stops_the_command_with_one_line(tmp_path: Path) -> None:
    out_folder = tmp_path / "out"
    command = ["simulate", "-d", "synthetic", "-n", "20", "-k", "2", "--episodes", "10000000", "--runs", "3"]
    command += ["--horizon", "100000"]
    process = start("-m", "meritfair", *command, "--out", str(out_folder))
    while not out_folder.exists() and process.poll() is None:  # made just before the first policy is played
        time.sleep(0.05)
    time.sleep(0.5)
    assert process.poll() is None
    out, err = interrupt(process)
    assert process.returncode == 130
    assert err.strip().splitlines()[-1] == "meritfair: stopped"
    assert "Traceback" not in out + err
    assert list(out_folder.iterdir()) == []
    assert_no_process_is_left(process.pid)


def assert_stops_all(action: Callable[[], Any], error: type[Exception], message: str) -> None:
    threads = threading.active_count()
    with pytest.raises(error, match=message):
        action()
    assert our_threads() == []
    assert threading.active_count() == threads


@pytest.mark.usefixtures("warm")
@pytest.mark.parametrize("policy", BOTH_WAYS, **by_name)
def test_an_error_while_telling_progress_stops_all_runs(policy: mf.Policy) -> None:
    told: list[int] = []

    def progress(done: int, total: int) -> None:
        told.append(done)
        if len(told) == 3:
            raise LookupError(f"enough after {done}")

    assert_stops_all(lambda: play(policy, **LONG, workers=2, progress=progress), LookupError, "enough after")
    assert len(told) == 3  # nobody is told more
    assert 0 < told[-1] < 7 * LONG["episodes"]


@pytest.mark.parametrize("policy", [FailsAt(episode=1), FailsAt(episode=5), ConstantFailure()], **by_name)
def test_an_error_in_a_plan_stops_all_runs(policy: FailsAt) -> None:
    told: list[int] = []
    assert_stops_all(
        lambda: play(policy, **LONG, workers=3, progress=lambda done, total: told.append(done)),
        ZeroDivisionError,
        "planned to fail",
    )
    assert told == [7 * episode for episode in range(1, policy.episode)]


@pytest.mark.parametrize("policy", BOTH_WAYS, **by_name)
def test_an_error_in_one_run_stops_the_others(policy: mf.Policy, monkeypatch: pytest.MonkeyPatch) -> None:
    # The engine raises nothing, but memory can run out: here, when the state of the last run is made.
    made: list[int] = []

    def no_room_for_three(*arguments: Any, **options: Any) -> Any:
        made.append(1)
        if len(made) == 3:
            raise MemoryError("no room for the third")
        return new_run_state(*arguments, **options)

    monkeypatch.setattr("meritfair.simulation.runner.new_run_state", no_room_for_three)
    told = [0]
    assert_stops_all(
        lambda: play(policy, **LONG, runs=3, workers=3, progress=lambda done, total: told.append(done)),
        MemoryError,
        "no room for the third",
    )
    assert told[-1] < 2 * LONG["episodes"]  # the other two were not played to the end


# ---- progress


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("policy", POLICIES, **by_name)
def test_progress_never_goes_back_and_ends_at_the_end(policy: mf.Policy, workers: int) -> None:
    told: list[tuple[int, int]] = []
    play(policy, workers=workers, progress=lambda done, total: told.append((done, total)))
    assert {total for _, total in told} == {7 * 12}
    counts = [done for done, _ in told]
    assert counts == sorted(counts)
    assert counts[0] >= 0
    assert counts[-1] == 7 * 12


def test_progress_is_told_after_every_episode_that_python_plans() -> None:
    told: list[tuple[int, int]] = []
    play(NeedFirst(), progress=lambda done, total: told.append((done, total)))
    assert told == [(7 * episode, 7 * 12) for episode in range(1, 13)]


@pytest.mark.usefixtures("warm")
def test_progress_is_told_while_the_engine_plays() -> None:
    # Two looks in one run, which is one call: the engine has released Python's lock.
    told: list[int] = []

    def progress(done: int, total: int) -> None:
        told.append(done)
        if 0 < told[0] < done < total:
            raise StopIteration

    with pytest.raises(StopIteration):
        play(mf.MeritFair(), runs=1, **LONG, progress=progress)


def test_progress_is_told_to_the_thread_that_asked() -> None:
    # So that a callback may draw, or raise, without locks of its own.
    asked: set[int] = set()
    for policy in BOTH_WAYS:
        play(policy, workers=3, progress=lambda done, total: asked.add(threading.get_ident()))
    assert asked == {threading.get_ident()}


# ---- mistakes, and room


@pytest.mark.parametrize("policy", BOTH_WAYS, **by_name)
def test_workers_must_be_a_whole_number(policy: mf.Policy) -> None:
    for workers in (0, -2):
        with pytest.raises(mf.InputError, match=rf"workers .* 1, got {workers}$"):
            play(policy, workers=workers)
    for wrong in (1.5, 2.0, "2", True):
        with pytest.raises(mf.InputError, match=rf"workers .* whole number, got {wrong!r}$"):
            play(policy, workers=wrong)


def test_workers_may_be_a_numpy_integer() -> None:
    assert_same_bits(play(mf.Random(), workers=np.int64(2)), play(mf.Random()))


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="other systems count memory otherwise")
@pytest.mark.usefixtures("warm")
def test_thirty_long_runs_of_a_hundred_arms_fit_into_300_mb() -> None:
    # The peak is VmHWM, not ru_maxrss: that one starts from the peak of who started the process, here pytest.
    script = """
import json
from pathlib import Path
import meritfair as mf

arms = mf.datasets.synthetic(100, seed=1)
run = mf.simulate(arms, mf.MeritFair(), budget=10, episodes=10_000, horizon=20, runs=30, seed=1)
assert (run.visits.sum(axis=(2, 3)) == 10_000 * 20).all()
lines = Path("/proc/self/status").read_text().splitlines()
print(json.dumps(next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 1000))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=600)
    megabytes = json.loads(done.stdout)
    # 12 MB are the arrays of the result, 30 runs of 10,000 episodes by 5 numbers; most are Python, NumPy and Numba.
    assert 12 < megabytes < 300, f"{megabytes} MB"
