"""A sweep: plays what is missing, keeps what is finished, and says what went wrong."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import threading
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from meritfair.core.errors import FileError, InputError, MeritfairError
from meritfair.lab import sweep
from meritfair.lab.executors import WorkerDied, processes
from meritfair.lab.spec import Spec
from meritfair.lab.store import Store
from meritfair.lab.sweep import SweepSummary, outcomes, run_spec, run_sweep
from meritfair.lab.tasks import Task, VersionError, play, play_shard, tasks

SPEC = Spec(
    datasets=("synthetic", "cpap"),
    sizes=((5, 1), (6, 2)),
    policies=("merit-fair", "random"),
    episodes=6,
    horizon=20,
    runs=13,
)
TASKS = tasks([SPEC])


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((folder / "shards").iterdir())}


def places(folder: Path) -> dict[str, tuple[int, int]]:
    """Where and when each shard was written: another one in its place would have another inode or time."""
    found = {path.name: path.stat() for path in (folder / "shards").iterdir()}
    return {name: (stat.st_ino, stat.st_mtime_ns) for name, stat in found.items()}


def quick(workers: int = 1) -> ThreadPoolExecutor:
    """Play in this process, which is quicker."""
    return ThreadPoolExecutor(workers)


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sweep that nothing has disturbed."""
    folder = tmp_path_factory.mktemp("reference")
    assert run_sweep(TASKS, folder, executor=quick()) == SweepSummary(16, 0, (), (), 0)
    return folder


@pytest.fixture
def copy(reference: Path, tmp_path: Path) -> Path:
    """The same, to be spoilt."""
    (tmp_path / "out" / "shards").mkdir(parents=True)
    for name, data in content(reference).items():
        (tmp_path / "out" / "shards" / name).write_bytes(data)
    return tmp_path / "out"


# ---- playing


def test_a_sweep_writes_one_shard_for_each_task(reference: Path) -> None:
    assert set(content(reference)) == {f"{task.key}.parquet" for task in TASKS}


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 3])
def test_the_bytes_do_not_depend_on_the_workers(workers: int, reference: Path, tmp_path: Path) -> None:
    assert run_sweep(TASKS, tmp_path, workers=workers) == SweepSummary(16, 0, (), (), 0)
    assert content(tmp_path) == content(reference)


def test_any_executor_will_do(reference: Path, tmp_path: Path) -> None:
    assert run_sweep(TASKS, tmp_path, executor=quick(3)).played == 16
    assert content(tmp_path) == content(reference)


def test_outcomes_are_all_runs_of_each_setting(reference: Path) -> None:
    found = outcomes(TASKS, reference)
    assert list(found) == list(SPEC.settings())
    for setting, outcome in found.items():
        whole = play(Task(setting, 0, 13))
        assert outcome.runs.tolist() == list(range(13))
        assert np.array_equal(outcome.curves["fairness_regret"], whole.curves["fairness_regret"])
        assert np.array_equal(outcome.by_arm["exposure"], whole.by_arm["exposure"])


def test_outcomes_leave_out_settings_that_are_not_done(copy: Path) -> None:
    Store(copy).path(TASKS[1]).unlink()
    found = outcomes(TASKS, copy)
    assert list(found) == [setting for setting in SPEC.settings() if setting != TASKS[1].setting]


def test_outcomes_do_not_take_damaged_shards(copy: Path) -> None:
    Store(copy).path(TASKS[1]).write_bytes(b"")
    with pytest.raises(FileError, match=TASKS[1].key):
        outcomes(TASKS, copy)


def test_no_tasks_are_no_work(tmp_path: Path) -> None:
    assert run_sweep([], tmp_path / "new") == SweepSummary(0, 0, (), (), 0)


# ---- resuming


class NotToBeUsed:
    def __enter__(self) -> Executor:
        raise AssertionError("there is nothing to play")

    def __exit__(self, *_: object) -> None: ...


def test_what_is_done_is_not_played_again(copy: Path) -> None:
    before = places(copy)
    assert run_sweep(TASKS, copy, executor=NotToBeUsed()) == SweepSummary(0, 16, (), (), 0)
    assert places(copy) == before


def test_what_is_missing_or_damaged_is_played_again(copy: Path, reference: Path) -> None:
    store, before = Store(copy), places(copy)
    store.path(TASKS[3]).unlink()
    damaged = [store.path(TASKS[number]) for number in (5, 8)]
    damaged[0].write_bytes(damaged[0].read_bytes()[:-100])
    spoilt = bytearray(damaged[1].read_bytes())
    spoilt[1000] ^= 4
    damaged[1].write_bytes(spoilt)
    assert run_sweep(TASKS, copy, executor=quick()) == SweepSummary(3, 13, (), tuple(damaged), 0)
    assert content(copy) == content(reference)
    played = {store.path(TASKS[number]).name for number in (3, 5, 8)}
    after = places(copy)
    assert {name for name in after if after[name] != before[name]} == played
    assert run_sweep(TASKS, copy, executor=NotToBeUsed()) == SweepSummary(0, 16, (), (), 0)


def test_more_runs_play_only_what_is_new(copy: Path) -> None:
    more = tasks([dataclasses.replace(SPEC, runs=20)])
    before = places(copy)
    # the three runs from 10 on are ten now
    assert run_sweep(more, copy, executor=quick()) == SweepSummary(8, 8, (), (), 8)
    assert before.items() <= places(copy).items()
    assert all(len(each.runs) == 20 for each in outcomes(more, copy).values())


def test_another_spec_leaves_the_shards_of_the_first_alone(copy: Path) -> None:
    other, before = tasks([dataclasses.replace(SPEC, seed=1)]), places(copy)
    assert run_sweep(other, copy, executor=quick()) == SweepSummary(16, 0, (), (), 16)
    assert before.items() <= places(copy).items()


def test_force_plays_everything_again(copy: Path, reference: Path) -> None:
    before = places(copy)
    assert run_sweep(TASKS, copy, executor=quick(), force=True) == SweepSummary(16, 0, (), (), 0)
    assert all(places(copy)[name] != before[name] for name in before)
    assert content(copy) == content(reference)


def test_what_a_killed_sweep_has_left_half_written_is_taken_away(copy: Path, reference: Path) -> None:
    (copy / "shards" / f".{TASKS[0].key}-k3x9.parquet").write_bytes(b"PAR1")
    assert run_sweep(TASKS, copy, executor=NotToBeUsed()) == SweepSummary(0, 16, (), (), 0)
    assert content(copy) == content(reference)


def test_a_task_that_is_given_twice_is_played_once(tmp_path: Path) -> None:
    assert run_sweep([TASKS[0], TASKS[0]], tmp_path, executor=quick()).played == 1


# ---- order, room and progress


class Watched(ThreadPoolExecutor):
    """Notes what is submitted, and how much of it waits."""

    def __init__(self) -> None:
        super().__init__(1)
        self.submitted: list[Task] = []
        self.most = self.open = 0
        self.lock = threading.Lock()

    def submit(self, function: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        with self.lock:
            if function is play_shard:
                self.submitted.append(args[0])
            self.open += 1
            self.most = max(self.most, self.open)
        future = super().submit(function, *args, **kwargs)
        future.add_done_callback(self.ended)
        return future

    def ended(self, future: Future[Any]) -> None:
        with self.lock:
            self.open -= 1


def test_a_bounded_number_of_tasks_is_submitted_the_longest_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweep, "_AT_ONCE", 4)
    pool = Watched()
    assert run_sweep(TASKS, tmp_path, executor=pool).played == 16
    assert pool.most == 4
    work = [task.work for task in pool.submitted]
    assert work == sorted(work, reverse=True)
    assert len(set(work)) > 2


def test_a_little_of_each_kind_is_played_first() -> None:
    sizes = ((5, 1), (100, 20), (10, 2))
    policies = ("merit-fair", "merit-fair:delta=0.05", "merit-fair:estimate=mean")
    spec = Spec(datasets=("synthetic", "cpap"), sizes=sizes, policies=policies, episodes=10**7)
    found = sweep._samples(spec.settings())
    assert [(each.policy, each.n_arms) for each in found] == [
        ("merit-fair", 5),
        ("merit-fair", 100),
        ("merit-fair:estimate=mean", 5),
        ("merit-fair:estimate=mean", 100),
    ]
    for each in found:
        sweep._try_out(each)  # not all of it: that would take hours
    timed = ("merit-fair", "merit-fair:slack=1", "merit-fair:slack=2")
    kinds = Spec(datasets=("cpap",), sizes=((5, 2), (5, (2, 0))), policies=timed, design="exact", episodes=1)
    assert [(each.policy, each.budgets) for each in sweep._samples(kinds.settings())] == [
        *[(policy, budgets) for budgets in ((), (2, 0)) for policy in timed[:2]],
    ]


def test_what_goes_wrong_while_getting_ready_is_told_by_its_task(tmp_path: Path) -> None:
    class Unready(ThreadPoolExecutor):
        def submit(self, function: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
            if function is play_shard:
                return super().submit(function, *args, **kwargs)
            failed: Future[Any] = Future()
            failed.set_exception(error)
            return failed

    error: Exception = WorkerDied("gone")
    assert run_sweep(TASKS, tmp_path, executor=Unready(1)).played == 16
    error = LostError("the cluster is lost")
    with pytest.raises(LostError):
        run_sweep(TASKS, tmp_path, executor=Unready(1), force=True)


def test_progress_counts_work(copy: Path) -> None:
    for task in TASKS[:4]:
        Store(copy).path(task).unlink()
    told: list[tuple[str, int, int]] = []
    run_sweep(TASKS, copy, executor=quick(), progress=lambda *what: told.append(what))
    work = sum(task.work for task in TASKS[:4])
    assert {total for _, _, total in told} == {work}
    assert [done for _, done, _ in told] == sorted(done for _, done, _ in told)
    assert told[0][0].startswith("getting ready, 0 of ")
    assert told[0][1] == 0
    assert told[-1] == ("4 of 4 tasks", work, work)


def test_a_bar_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec = dataclasses.replace(SPEC, datasets=("cpap",), sizes=((5, 1),), policies=("random",), runs=1)
    run_spec(spec, tmp_path, executor=quick(), progress=True)
    assert capsys.readouterr().err.splitlines()[-1].startswith("1 of 1 tasks: 100%|")
    with pytest.raises(InputError, match=r"progress must be True, False, or a function .*, got 'yes'"):
        run_spec(spec, tmp_path, progress="yes")  # type: ignore[arg-type]


def test_progress_is_told_while_waiting(tmp_path: Path) -> None:
    waiting = threading.Event()

    class Slow(ThreadPoolExecutor):
        def submit(self, function: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
            super().submit(waiting.wait, 120)
            return super().submit(function, *args, **kwargs)

    told: list[int] = []

    def progress(name: str, done: int, total: int) -> None:
        told.append(done)
        if len(told) == 6:  # while the task still waits
            waiting.set()

    assert run_sweep(TASKS[:1], tmp_path, executor=Slow(1), progress=progress).played == 1
    assert told[:6] == [0] * 6


def test_an_error_in_progress_stops_the_sweep_and_keeps_what_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweep, "_AT_ONCE", 1)
    monkeypatch.setattr(sweep, "_GLANCE", 0.0)  # told after each task

    def progress(name: str, done: int, total: int) -> None:
        if done:
            raise LookupError("enough")

    with pytest.raises(LookupError, match="enough"):
        run_sweep(TASKS, tmp_path, executor=quick(), progress=progress)
    done, _, damaged = Store(tmp_path).scan(TASKS)
    assert 1 <= len(done) <= 2  # the second was begun, and may have been finished
    assert not damaged


# ---- what goes wrong


def broken(**changes: Any) -> Task:
    return Task(dataclasses.replace(TASKS[0].setting, **changes), 0, 10)


def test_a_failing_task_is_recorded_and_the_rest_goes_on(tmp_path: Path, reference: Path) -> None:
    wrong = [broken(policy="merit-fare"), broken(n_arms=3, budget=5)]
    found = run_sweep([wrong[0], *TASKS, wrong[1]], tmp_path, executor=quick())
    assert (found.played, found.kept) == (16, 0)
    assert {failure.task: failure.problem for failure in found.failed} == {
        wrong[0]: "there is no policy 'merit-fare', did you mean 'merit-fair'?",
        wrong[1]: "budget must be between 1 and the 3 arms, got 5",
    }
    assert content(tmp_path) == content(reference)
    again = run_sweep([*wrong, *TASKS], tmp_path, executor=quick())
    assert (again.played, again.kept, len(again.failed)) == (0, 16, 2)


class Faulty(ThreadPoolExecutor):
    """Fails for some tasks, in ways that executors do."""

    def __init__(self, errors: dict[Task, list[Exception]]) -> None:
        super().__init__(1)
        self.errors = errors

    def submit(self, function: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        if function is play_shard and self.errors.get(args[0]):
            failed: Future[Any] = Future()
            failed.set_exception(self.errors[args[0]].pop())
            return failed
        return super().submit(function, *args, **kwargs)


def test_a_task_whose_worker_died_is_played_again(tmp_path: Path, reference: Path) -> None:
    faulty = Faulty({TASKS[2]: [WorkerDied("gone")], TASKS[9]: [WorkerDied("gone"), BrokenExecutor("gone")]})
    assert run_sweep(TASKS, tmp_path, executor=faulty) == SweepSummary(16, 0, (), (), 0)
    assert content(tmp_path) == content(reference)


def test_a_task_whose_worker_died_thrice_is_a_failure(tmp_path: Path) -> None:
    faulty = Faulty({TASKS[2]: [WorkerDied("a worker process died (exit code 3)")] * 4})
    found = run_sweep(TASKS, tmp_path, executor=faulty)
    assert found.played == 15
    (failure,) = found.failed
    assert failure.task == TASKS[2]
    assert failure.problem == "a worker process died (exit code 3), 3 times with this task"
    assert len(faulty.errors[TASKS[2]]) == 1


def test_an_executor_that_fails_in_its_own_way_fails_the_task(tmp_path: Path) -> None:
    found = run_sweep(TASKS, tmp_path, executor=Faulty({TASKS[2]: [OSError("no route")]}))
    assert [(each.task, each.problem) for each in found.failed] == [(TASKS[2], "OSError: no route")]
    assert found.played == 15


class LostError(MeritfairError, BrokenExecutor):
    """As a cluster raises it."""


@pytest.mark.parametrize(
    "error",
    [LostError("the cluster is lost"), VersionError("a worker has other versions"), MeritfairError("no workers")],
)
def test_an_error_about_the_workers_stops_the_sweep_and_keeps_what_is_done(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweep, "_AT_ONCE", 1)
    last = sorted(TASKS, key=lambda task: -task.work)[-1]
    with pytest.raises(type(error), match=str(error)):
        run_sweep(TASKS, tmp_path, executor=Faulty({last: [error]}))
    assert Store(tmp_path).scan(TASKS)[1:] == ([last], [])


def test_what_is_finished_is_kept_if_the_sweep_is_stopped(tmp_path: Path) -> None:
    # The first to come back is an error; all others are finished by then, and wait to be written.
    class AllAtOnce(ThreadPoolExecutor):
        def submit(self, function: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
            future: Future[Any] = Future()
            if function is play_shard and args[0] == longest:
                future.set_exception(VersionError("other versions"))
            else:
                future.set_result(function(*args, **kwargs))
            return future

    longest = max(TASKS, key=lambda task: task.work)
    with pytest.raises(VersionError):
        run_sweep(TASKS, tmp_path, executor=AllAtOnce(1))
    assert Store(tmp_path).scan(TASKS)[1:] == ([longest], [])


@pytest.mark.slow
def test_a_pool_that_breaks_as_a_whole_stops_the_sweep(tmp_path: Path) -> None:
    pool = ProcessPoolExecutor(1, mp_context=get_context("spawn"))

    def progress(name: str, done: int, total: int) -> None:
        for process in list(pool._processes.values()):
            process.kill()

    with pytest.raises(MeritfairError, match="the workers are lost, what is finished is kept: "):
        run_sweep(TASKS, tmp_path, executor=pool, progress=progress)


class Cancelling(ThreadPoolExecutor):
    def submit(self, function: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.cancel()
        future.set_running_or_notify_cancel()
        return future


def test_tasks_that_others_cancel_stop_the_sweep(tmp_path: Path) -> None:
    with pytest.raises(MeritfairError, match=r"the workers are lost, what is finished is kept$"):
        run_sweep(TASKS, tmp_path, executor=Cancelling(1))


class Lying(ThreadPoolExecutor):
    def submit(self, function: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(b"PAR1, more or less")
        return future


def test_bytes_that_are_no_shard_are_not_kept(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="what a worker returned is not its shard"):
        run_sweep(TASKS, tmp_path, executor=Lying(1))
    assert content(tmp_path) == {}


def test_a_folder_in_use_is_refused(tmp_path: Path) -> None:
    with Store(tmp_path).claim(), pytest.raises(FileError, match="another sweep is running"):
        run_sweep(TASKS, tmp_path, executor=NotToBeUsed())


@pytest.mark.parametrize(
    ("workers", "message"),
    [
        (0, "workers must be between 1 .*, got 0"),
        (10**6, r"\(32 for each core\), got 1000000"),
        ("2", "workers must be a whole number, got '2'"),
    ],
)
def test_workers_must_be_a_whole_number(workers: Any, message: str, tmp_path: Path) -> None:
    for chosen in (TASKS, TASKS[:0]):
        with pytest.raises(InputError, match=message):
            run_sweep(chosen, tmp_path, workers=workers)
    with pytest.raises(InputError, match=message), processes(workers):
        pass


def test_workers_go_with_processes_only(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"not for an executor of your own, got 2$"):
        run_sweep(TASKS, tmp_path, workers=2, executor=NotToBeUsed())


# ---- with processes, as a user would


MISCHIEF = """
import os
import signal
import numpy as np
from meritfair.policies import Lottery, registry

@registry.register
def mischief(view, how="print"):
    if how == "print":
        print("hello from a policy")
        os.system("echo hello from its shell; cat")
    if how == "exit":
        os._exit(7)
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "raise":
        raise ZeroDivisionError("planned")
    return Lottery(np.ones(view.n_arms))
"""
SCRIPT = """
import json, sys
import mischief_policies
from meritfair.lab.spec import Spec
from meritfair.lab.sweep import run_sweep
from meritfair.lab.tasks import tasks

policies = ["random", *(f"mischief:how={how}" for how in sys.argv[2:])]
spec = Spec(datasets=("cpap",), sizes=((5, 1),), policies=tuple(policies), episodes=3, horizon=5, runs=10)
found = run_sweep(tasks([spec]), sys.argv[1], workers=2)  # in no function, and behind no if
failed = {each.task.setting.policy: each.problem for each in found.failed}
print(json.dumps({"played": found.played, "kept": found.kept, "failed": failed}))
"""


def script(folder: Path, *how: str) -> tuple[dict[str, Any], str]:
    """Run a script that has no guard, with policies that do such things; return what it found, and its errors."""
    (folder / "mischief_policies.py").write_text(MISCHIEF)
    (folder / "script.py").write_text(SCRIPT)
    command = [sys.executable, "script.py", str(folder / "out"), *how]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True, timeout=120, input="typed")
    return json.loads(done.stdout), done.stderr


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="sends a signal")
def test_a_policy_can_do_its_worst(tmp_path: Path) -> None:
    found, errors = script(tmp_path, "print", "exit", "kill", "raise")
    assert (found["played"], found["kept"]) == (2, 0)
    died = "a worker process died ({}), 3 times with this task"
    problems = {
        "exit": died.format("exit code 7"),
        "kill": died.format("killed by signal 9, perhaps for lack of memory"),
        "raise": "ZeroDivisionError: planned (mischief_policies.py, line 17)",
    }
    assert found["failed"] == {f"mischief:how={how}": problem for how, problem in problems.items()}
    assert "hello from a policy" in errors  # and not among the answers, as this worked
    assert "Traceback" not in errors
    found, _ = script(tmp_path, "print", "raise")
    assert (found["played"], found["kept"], len(found["failed"])) == (0, 2, 1)


FULL_DISK = """
import resource, sys
from meritfair.lab.spec import Spec
from meritfair.lab.sweep import run_sweep
from meritfair.lab.tasks import tasks

def limit(name, done, total):
    if not name.startswith("getting ready"):  # the worker has read what is compiled, or kept it
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))

same = {"datasets": ("cpap",), "sizes": ((5, 1),), "policies": ("random",), "runs": 20}
few, many = Spec(**same, episodes=5, horizon=200), Spec(**same, episodes=300, horizon=1)  # more work, larger shards
print(run_sweep(tasks([few, many]), sys.argv[1], workers=1, progress=limit).played)
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="there is no such limit")
def test_a_disk_that_is_full_stops_the_sweep_and_keeps_what_is_done(tmp_path: Path) -> None:
    def attempt(limit: int) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", FULL_DISK, str(tmp_path), str(limit)]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)

    stopped = attempt(30_000).stderr.splitlines()[-1]
    assert stopped.startswith("meritfair.core.errors.FileError: ")
    assert stopped.endswith(".parquet: cannot be written: File too large")
    kept = places(tmp_path)
    assert len(kept) == 2  # the small ones, which come first; nothing half written
    assert attempt(10_000_000).stdout == "2\n"
    assert len(places(tmp_path)) == 4
    assert kept.items() <= places(tmp_path).items()
