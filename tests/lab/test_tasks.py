"""Tasks: what a sweep is cut into, what a key depends on, and that a shard is a matter of task and versions alone."""

from __future__ import annotations

import dataclasses
import importlib
import os
import pickle
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import meritfair as mf
from meritfair.lab import tasks as module
from meritfair.lab.spec import Setting, Spec
from meritfair.lab.tasks import (
    Outcome,
    Task,
    TaskError,
    VersionError,
    join,
    play,
    play_shard,
    read_shard,
    tasks,
    versions,
)
from meritfair.policies import own, registry

SPEC = Spec(datasets=("synthetic", "cpap"), sizes=((5, 1), (6, 2)), policies=("merit-fair", "random"), episodes=8)
SETTING = Setting(dataset="synthetic", n_arms=5, budget=2, policy="merit-fair", episodes=12, horizon=30)
SOURCE = Path(mf.__file__).parent
# beside all of the lab but spec, tasks and shards
HARMLESS = {
    "__init__.py",
    "core/__init__.py",
    "simulation/__init__.py",
    "simulation/columns.py",
    "simulation/plots.py",
} | {
    f"core/{name}.py"
    for name in ("csv_files", "deprecation", "lazy", "machine", "progress", "storage", "tables", "texts")
}


def assert_same(one: Outcome, other: Outcome) -> None:
    assert one.setting == other.setting
    assert one.runs.tolist() == other.runs.tolist()
    assert one.episodes.tolist() == other.episodes.tolist()
    for kind in ("measures", "curves", "by_arm"):
        first, second = getattr(one, kind), getattr(other, kind)
        assert list(first) == list(second)
        for name, values in first.items():
            assert values.dtype == second[name].dtype
            assert np.array_equal(values, second[name], equal_nan=True), name


# ---- tasks of specs


def test_runs_are_cut_at_every_tenth() -> None:
    made = tasks([dataclasses.replace(SPEC, runs=25)])
    assert len(made) == 8 * 3
    for setting in SPEC.settings():
        assert [(t.first, t.runs) for t in made if t.setting == setting] == [(0, 10), (10, 10), (20, 5)]


def test_more_runs_use_the_shards_of_fewer() -> None:
    few, many = ({task.key for task in tasks([dataclasses.replace(SPEC, runs=runs)])} for runs in (10, 30))
    assert few < many


def test_no_run_is_played_twice_for_several_specs() -> None:
    ten, thirty = dataclasses.replace(SPEC, runs=10), dataclasses.replace(SPEC, runs=30, policies=("random", "optimal"))
    made = tasks([ten, thirty])
    assert len(set(made)) == len(made) == 4 + 8 * 3
    assert tasks([ten, thirty, ten]) == made
    assert set(tasks([thirty, ten])) == set(made)
    assert [task.setting for task in made if task.first == 0] == [
        *ten.settings(),
        *(each for each in thirty.settings() if each.policy == "optimal"),
    ]  # the order is that of the specs


def test_no_specs_are_no_tasks() -> None:
    assert tasks([]) == ()


def test_work_counts_steps_of_single_arms() -> None:
    assert Task(SETTING, 20, 7).work == 7 * 12 * 30 * 5


# ---- keys


CHANGES: dict[str, Any] = {
    "dataset": "cpap",
    "n_arms": 6,
    "budget": 1,
    "policy": "merit-fair:estimate=mean",
    "episodes": 13,
    "horizon": 31,
    "merit": "exponential:c=1",
    "design": "exact",
    "floor": 0.1,
    "cap": 0.9,
    "ball": "kl",
    "delta": 0.02,
    "authors": True,
    "same_arms": True,
    "carry_states": True,
    "observed": 0.5,
    "exposure_regret": True,
    "seed": 1,
    "budgets": (2, 0),
    "rules": mf.Rules(cooldown=1),
}


def test_a_key_depends_on_every_field_of_a_setting() -> None:
    compared = {field.name for field in dataclasses.fields(Setting) if field.compare}
    assert compared == set(CHANGES)
    keys = {Task(dataclasses.replace(SETTING, **{name: value}), 0, 10).key for name, value in CHANGES.items()}
    keys |= {Task(SETTING, 0, 10).key, Task(SETTING, 10, 10).key, Task(SETTING, 0, 9).key}
    assert len(keys) == len(CHANGES) + 3
    assert all(len(key) == 32 and set(key) <= set("0123456789abcdef") for key in keys)


def test_a_key_is_the_same_for_equal_settings() -> None:
    typed: dict[str, Any] = {"floor": 0, "n_arms": np.int64(5), "delta": np.float64(0.01)}
    same = dataclasses.replace(SETTING, **typed)
    assert same == SETTING
    assert Task(same, 0, 10).key == Task(SETTING, 0, 10).key


@pytest.mark.parametrize("name", sorted(versions()))
def test_a_key_depends_on_every_version(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before, others = Task(SETTING, 0, 10).key, {**versions(), name: "another"}
    monkeypatch.setattr(module, "versions", lambda: others)
    assert Task(SETTING, 0, 10).key != before


def test_versions_name_what_decides_numbers() -> None:
    assert list(versions()) == ["meritfair", "code", "numba", "numpy", "pyarrow", "scipy"]
    assert versions()["meritfair"] == mf.__version__
    assert versions()["numpy"] == np.__version__


def test_the_hash_of_the_code_follows_what_decides_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = tmp_path / "meritfair"
    shutil.copytree(SOURCE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    code = module._versions.__wrapped__  # which remembers nothing
    here = module._versions()
    monkeypatch.setattr("meritfair.__file__", str(copy / "__init__.py"))
    assert code() == here  # wherever it is installed
    (copy / "cli" / "simulate.py").write_text("")
    (copy / "lab" / "report.py").write_text("")
    merit = (copy / "model" / "merit.py").read_bytes()
    (copy / "model" / "merit.py").write_bytes(merit.replace(b"\n", b"\r\n"))
    assert code() == here
    (copy / "model" / "merit.py").write_bytes(merit + b"# \n")
    assert code() != here
    (copy / "model" / "merit.py").write_bytes(merit)
    assert code() == here
    (copy / "policies" / "new.py").write_text("")
    assert code() != here


@pytest.mark.slow
def test_all_that_is_loaded_for_playing_is_part_of_the_hash() -> None:
    code = """
import sys
from pathlib import Path
from meritfair.lab.spec import Setting
from meritfair.lab.tasks import Task, _SOURCES, play_shard, versions
for policy in ("merit-fair", "fawt-q"):
    setting = Setting(dataset="cpap", n_arms=5, budget=2, policy=policy, episodes=2, horizon=5)
    play_shard(Task(setting, 0, 1), versions())
root = Path(sys.modules["meritfair"].__file__).parent
hashed = {file for pattern in _SOURCES for file in root.glob(pattern)}
loaded = {Path(each.__file__) for name, each in sys.modules.items() if name.startswith("meritfair")}
print(*sorted(file.relative_to(root).as_posix() for file in loaded - hashed))
print(*sorted(pattern for pattern in _SOURCES if not list(root.glob(pattern))))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    missing, empty = done.stdout.split("\n")[:2]
    assert {file for file in missing.split() if not file.startswith("lab/")} <= HARMLESS
    assert not empty  # every pattern finds something


# ---- shards


@pytest.mark.parametrize("policy", ["merit-fair", "uc-whittle", "random"])
def test_a_shard_says_what_was_played(policy: str) -> None:
    task = Task(dataclasses.replace(SETTING, policy=policy), 10, 3)
    data = play_shard(task, versions())
    assert_same(read_shard(task, data), play(task))
    assert np.isnan(read_shard(task, data).measures["exposure_regret"]).all()  # NaN goes there and back


@pytest.mark.slow
def test_a_shard_is_the_same_bytes_in_another_place(tmp_path: Path) -> None:
    task = Task(SETTING, 0, 2)
    here = play_shard(task, versions())
    assert play_shard(task, versions()) == here
    code = "import pickle, sys; from meritfair.lab.tasks import play_shard, versions\n"
    code += "sys.stdout.buffer.write(play_shard(pickle.load(sys.stdin.buffer), versions()))"
    there = subprocess.run(
        [sys.executable, "-c", code],
        input=pickle.dumps(task),
        capture_output=True,
        check=True,
        cwd=tmp_path,
        env={**os.environ, "TZ": "Asia/Tokyo", "PYTHONHASHSEED": "5", "USER": "somebody"},
        timeout=120,
    ).stdout
    assert there == here
    for word in (socket.gethostname(), str(Path.cwd()), str(SOURCE)):
        assert word.encode() not in here


def test_shards_of_a_setting_join_to_all_of_its_runs() -> None:
    parts = [Task(SETTING, 0, 10), Task(SETTING, 10, 10), Task(SETTING, 20, 3)]
    joined = join([read_shard(part, play_shard(part, versions())) for part in reversed(parts)])
    assert joined.runs.tolist() == list(range(23))
    assert_same(joined, play(Task(SETTING, 0, 23)))


def test_a_worker_with_other_versions_refuses() -> None:
    other = {**versions(), "numpy": "1.0"}
    here = np.__version__
    with pytest.raises(
        VersionError, match=rf"^a worker has other versions than the sweep: numpy is {here} instead of 1.0$"
    ):
        play_shard(Task(SETTING, 0, 1), other)
    with pytest.raises(VersionError, match=r"code is \w+ instead of none"):
        play_shard(Task(SETTING, 0, 1), {name: text for name, text in versions().items() if name != "code"})


# ---- policies of others


BY_OTHERS = """
import sys
import numpy as np
from meritfair.policies import Lottery, registry

@registry.register
def by_others(view, fails=False, leaves=False):
    if fails:
        raise ZeroDivisionError("not this one")
    if leaves:
        sys.exit(3)
    return Lottery(np.ones(view.n_arms))
"""
Install = Callable[[str], None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Write a module with policies and import it, for this test only."""
    monkeypatch.syspath_prepend(tmp_path)

    def write(source: str) -> None:
        monkeypatch.setattr(registry, "_POLICIES", {n: p for n, p in registry._POLICIES.items() if n != "by-others"})
        monkeypatch.delitem(sys.modules, "others_policies", raising=False)
        (tmp_path / "others_policies.py").write_text(source)
        shutil.rmtree(tmp_path / "__pycache__", ignore_errors=True)
        importlib.invalidate_caches()
        import linecache

        linecache.clearcache()
        importlib.import_module("others_policies")

    return write


def other(settings: str = "") -> Task:
    return Task(dataclasses.replace(SETTING, policy=f"by-others{settings}", episodes=2), 0, 1)


def test_the_source_of_a_policy_of_others_is_part_of_the_key(install: Install) -> None:
    install(BY_OTHERS)
    before = other().versions["policy"]
    assert before.startswith("others_policies ")
    assert other().versions == {**versions(), "policy": before}
    key, ours = other().key, Task(SETTING, 0, 1).key
    install(BY_OTHERS + "\n# changed\n")
    assert other().versions["policy"] != before
    assert other().key != key
    assert Task(SETTING, 0, 1).key == ours


@pytest.mark.slow
def test_a_worker_imports_the_module_of_a_policy(install: Install, tmp_path: Path) -> None:
    install(BY_OTHERS)
    task = other()
    code = "import pickle, sys; from meritfair.lab.tasks import play_shard\n"
    code += "sys.stdout.buffer.write(play_shard(*pickle.load(sys.stdin.buffer)))"

    def there(folder: Path) -> subprocess.CompletedProcess[bytes]:
        path = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
        given = pickle.dumps((task, task.versions))
        environment = {**os.environ, "PYTHONPATH": path}
        return subprocess.run(
            [sys.executable, "-c", code], input=given, capture_output=True, env=environment, timeout=120, check=False
        )

    assert there(tmp_path).stdout == play_shard(task, task.versions)
    said = there(tmp_path / "elsewhere").stderr.decode()
    assert "VersionError: a worker cannot import others_policies, which has a policy" in said


def test_a_failure_of_a_policy_says_where(install: Install) -> None:
    install(BY_OTHERS)
    failing = other(":fails=true")
    with pytest.raises(TaskError, match=r"^ZeroDivisionError: not this one \(others_policies.py, line 9\)$") as raised:
        play_shard(failing, failing.versions)
    assert str(pickle.loads(pickle.dumps(raised.value))) == str(raised.value)


def test_a_policy_that_leaves_is_a_failure_of_its_task(install: Install) -> None:
    install(BY_OTHERS)
    leaving = other(":leaves=true")
    with pytest.raises(TaskError, match="SystemExit: 3"):
        play_shard(leaving, leaving.versions)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"policy": "merit-fare"}, "there is no policy 'merit-fare', did you mean 'merit-fair'?"),
        ({"dataset": "synthetics"}, "there is no data set 'synthetics', did you mean 'synthetic'?"),
        ({"budget": 7}, "budget must be between 1 and the 5 arms, got 7"),
    ],
)
def test_a_task_that_cannot_be_played_says_why(changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(TaskError) as raised:
        play_shard(Task(dataclasses.replace(SETTING, **changes), 0, 1), versions())
    assert str(raised.value) == problem


def test_a_policy_in_the_main_script_is_refused_before_anything_is_played() -> None:
    code = """
import numpy as np
from meritfair.lab.spec import Setting
from meritfair.lab.tasks import Task
from meritfair.policies import Lottery, registry
@registry.register
def mine(view):
    return Lottery(np.ones(view.n_arms))
Task(Setting(dataset="cpap", n_arms=5, budget=1, policy="mine", episodes=1), 0, 1).key
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120)
    wanted = "the policy 'mine' must be in a module with a file that workers can import, not in __main__"
    assert done.stderr.splitlines()[-1] == f"meritfair.core.errors.InputError: {wanted}"


# ---- policies of your own, which travel with their tasks


MINE = """
import numpy as np
from meritfair.policies import Lottery

def alike(view, weight=1.0):
    return Lottery(np.full(view.n_arms, weight))
"""


def own_task(folder: Path, source: str = MINE, settings: str = "") -> Task:
    (folder / "mine.py").write_text(source)
    policy = f"{folder}/mine.py:alike{settings}"
    spec = Spec(datasets="cpap", sizes=(5, 1), policies=policy, episodes=2, horizon=5, runs=1)  # type: ignore[arg-type]
    return tasks([spec])[0]


def test_a_changed_file_is_another_task(tmp_path: Path) -> None:
    task, same = own_task(tmp_path), own_task(tmp_path)
    assert task.setting.policy == "mine.py:alike"  # wherever it is
    assert task.versions["policy"].startswith("mine.py ")
    assert task.key == same.key
    assert own_task(tmp_path, MINE + "\n# changed\n").key != task.key
    assert own_task(tmp_path, settings=":weight=2").key != task.key
    (tmp_path / "elsewhere").mkdir()
    assert own_task(tmp_path / "elsewhere").key == task.key


@pytest.mark.slow
def test_a_worker_needs_no_copy_of_the_file(tmp_path: Path) -> None:
    task = own_task(tmp_path)
    (tmp_path / "mine.py").unlink()
    code = "import pickle, sys; from meritfair.lab.tasks import play_shard\n"
    code += "sys.stdout.buffer.write(play_shard(*pickle.load(sys.stdin.buffer)))"
    given = pickle.dumps((task, task.versions))
    (tmp_path / "empty").mkdir()
    done = subprocess.run(
        [sys.executable, "-c", code], input=given, capture_output=True, cwd=tmp_path / "empty", timeout=120, check=True
    )
    assert done.stdout == play_shard(task, task.versions)


def test_a_worker_that_cannot_import_what_a_file_needs_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "only_here.py").write_text("weight = 1.0\n")
    monkeypatch.syspath_prepend(tmp_path)
    task = own_task(tmp_path, "import only_here\n" + MINE)
    monkeypatch.delitem(sys.modules, "only_here")
    monkeypatch.setattr(sys, "path", [each for each in sys.path if each != str(tmp_path)])
    own._run.cache_clear()
    own._loaded.cache_clear()
    with pytest.raises(TaskError, match=r"^mine.py, line 1: ModuleNotFoundError: No module named 'only_here'$"):
        play_shard(task, task.versions)


def test_a_failure_of_a_policy_in_a_file_says_where(tmp_path: Path) -> None:
    task = own_task(tmp_path, MINE.replace("return", "1 / 0; return"))
    with pytest.raises(TaskError, match=r"^ZeroDivisionError: division by zero \(mine.py, line 6\)$"):
        play_shard(task, task.versions)


def test_a_policy_in_a_file_that_is_not_here_can_be_read_about_and_not_played() -> None:
    task = Task(dataclasses.replace(SETTING, policy="mine.py:alike"), 0, 1)
    with pytest.raises(mf.InputError, match=r"the source of mine.py:alike is not here, only its name"):
        task.setting.make_policy()
