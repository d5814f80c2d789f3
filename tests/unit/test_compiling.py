"""How kernels are compiled and kept: each trap of a cache of machine code has a test that falls into it.

A test that needs a cold start uses a small kernel, compiled in two or three seconds; only one compiles a whole run.
"""

from __future__ import annotations

import ast
import errno
import json
import os
import pickle
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numba
import numpy as np
import pytest
from numba.core.dispatcher import Dispatcher
from numba.core.registry import cpu_target

import meritfair as mf
from meritfair.engine import compiling
from reference.compiled import kernel_not_kept

if TYPE_CHECKING:
    from meritfair.core.arrays import IntArray

SOURCE = Path(mf.__file__).parent
ENGINE = sorted((SOURCE / "engine").glob("*.py"))
MESSAGE = "meritfair: compiling the engine"

# Each script tells what it found as JSON; `bits` stand for every bit of the answer.
SMALL = """
import hashlib, json
import numpy as np
from meritfair.engine import compiling
from meritfair.engine.options import draw_posterior
from meritfair.engine.random import new_source
from meritfair.engine.steps import rank_by_table

points, index, states = np.zeros((2, 2, 3)), np.zeros(3), np.zeros(3, np.int64)
draw_posterior(points, np.full((2, 2, 3), 9.0), np.full((2, 2, 3), 4.0), new_source(np.random.SeedSequence(1)))
rank_by_table(points[0].T.copy(), states, states, 1, False, index)
bits = hashlib.sha256(points.tobytes() + index.tobytes())
print(json.dumps({"bits": bits.hexdigest(), "cache": str(compiling.cache_directory()), "source": compiling.__file__}))
"""
WHOLE = """
import dataclasses, hashlib, json
import numpy as np
import meritfair as mf

arms = mf.datasets.synthetic(5, seed=1)
run = mf.simulate(arms, mf.MeritFair(), budget=1, episodes=5, horizon=20, runs=2, seed=1, workers=2)
values = [getattr(run, field.name) for field in dataclasses.fields(run)]
bits = hashlib.sha256(b"".join(value.tobytes() for value in values if isinstance(value, np.ndarray)))
print(json.dumps({"bits": bits.hexdigest()}))
"""


def environment(**changes: str | Path | None) -> dict[str, str]:
    """Return this process's environment with changes; None takes a variable away."""
    changed = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **changes}
    return {name: str(value) for name, value in changed.items() if value is not None}


def start(script: str, **changes: str | Path | None) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", script],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(**changes),
    )


def finish(process: subprocess.Popen[str]) -> tuple[Any, str]:
    """Return what a script told, and its error stream."""
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    return json.loads(out) if out else None, err


def tell(script: str, **changes: str | Path | None) -> tuple[Any, str]:
    return finish(start(script, **changes))


def copy_of_the_package(folder: Path) -> Path:
    """Copy the source to where it can be edited; return the copy of the package."""
    copy = folder / "meritfair"
    shutil.copytree(SOURCE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    return copy


def machine_code(folder: Path) -> list[str]:
    """Return the files of our cache and of Numba's anywhere below a folder."""
    return sorted(str(file) for pattern in ("*.code", "*.nbi", "*.nbc") for file in folder.rglob(pattern))


# ---- what the cache is keyed by


@pytest.mark.slow
def test_an_edit_in_another_file_is_not_answered_from_the_cache(tmp_path: Path) -> None:
    # The kernel is in options.py, the edit in random.py, which it imports. Numba alone looks at options.py only: with
    # one directory for all sources the second answer is that of the first, and this test fails.
    package, kept, fresh = copy_of_the_package(tmp_path / "source"), tmp_path / "kept", tmp_path / "fresh"
    before, message = tell(SMALL, PYTHONPATH=package.parent, NUMBA_CACHE_DIR=kept)
    assert before["source"] == str(package / "engine" / "compiling.py")
    assert MESSAGE in message
    with (package / "engine" / "random.py").open("a") as file:
        file.write("\n\nusual = next_word\n\n\n@part\ndef next_word(source: Any) -> Any:\n    return ~usual(source)\n")
    after, message = tell(SMALL, PYTHONPATH=package.parent, NUMBA_CACHE_DIR=kept)
    truth, _ = tell(SMALL, PYTHONPATH=package.parent, NUMBA_CACHE_DIR=fresh)
    assert MESSAGE in message
    assert after["bits"] == truth["bits"] != before["bits"]
    assert after["cache"] != before["cache"]
    assert Path(after["cache"]).name == Path(truth["cache"]).name


@pytest.fixture
def edited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a copy of the package that `cache_directory` takes for its own."""
    package = copy_of_the_package(tmp_path / "source")
    monkeypatch.setattr(compiling, "__file__", str(package / "engine" / "compiling.py"))
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "kept"))
    return package


def test_every_file_of_the_engine_counts(edited: Path) -> None:
    found = [compiling.cache_directory()]
    for each in ENGINE:
        with (edited / "engine" / each.name).open("a") as file:
            file.write("# another source\n")
        found.append(compiling.cache_directory())
        assert found[-1] not in found[:-1], each.name
    assert len({directory.parent for directory in found if directory is not None}) == 1


def test_a_new_file_and_another_name_count_and_other_packages_do_not(edited: Path) -> None:
    engine = edited / "engine"
    found = [compiling.cache_directory()]
    (edited / "metrics.py").write_text("# another source\n")
    found.append(compiling.cache_directory())
    assert found[0] == found[1]
    (engine / "new.py").write_text("X = 1\n")
    found.append(compiling.cache_directory())
    (engine / "new.py").rename(engine / "newer.py")
    found.append(compiling.cache_directory())
    assert len(set(found)) == 3


def test_kernels_are_made_of_nothing_but_the_engine() -> None:
    # What a kernel takes from elsewhere would not be in the hash; core.arrays has only names of types. In compiling.py
    # there are no kernels, as the next test says.
    for file in (file for file in ENGINE if file.stem != "compiling"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("meritfair"):
                assert node.module == "meritfair.core.arrays" or str(node.module).startswith("meritfair.engine"), (
                    file.name
                )
            elif isinstance(node, ast.Import):
                assert not any(alias.name.startswith("meritfair") for alias in node.names), file.name


def test_the_compiler_module_has_no_kernels() -> None:
    assert not [value for value in vars(compiling).values() if isinstance(value, Dispatcher)]


def test_what_is_not_of_the_engine_is_not_kept() -> None:
    # The name of the directory says nothing of this file: a later edit of it would meet old machine code.
    assert compiling.kernel(add_up).stats.cache_path is None  # type: ignore[attr-defined]


# ---- where it lies


@pytest.mark.parametrize(
    ("platform", "variables", "expected"),
    [
        ("linux", {"NUMBA_CACHE_DIR": "numba", "XDG_CACHE_HOME": "xdg"}, "numba"),
        ("linux", {"XDG_CACHE_HOME": "xdg"}, "xdg"),
        ("linux", {}, "home/.cache"),
        ("darwin", {}, "home/Library/Caches"),
        ("win32", {"LOCALAPPDATA": "local"}, "local"),
        ("win32", {"NUMBA_CACHE_DIR": "numba", "LOCALAPPDATA": "local"}, "numba"),
    ],
)
def test_it_lies_where_the_system_keeps_caches(
    platform: str, variables: dict[str, str], expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"HOME": "home", **variables}.items():
        monkeypatch.setenv(name, str(tmp_path / value))
    monkeypatch.setattr("sys.platform", platform)
    found = compiling.cache_directory()
    assert found is not None
    assert found.is_dir()
    assert found.parent == tmp_path / expected / "meritfair"


def test_an_empty_variable_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("NUMBA_CACHE_DIR", "")  # as Numba has it: no directory was named
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    found = compiling.cache_directory()
    assert found is not None
    assert found.parent == tmp_path / "xdg" / "meritfair"


@pytest.mark.slow
def test_without_a_place_to_write_it_works_uncached_and_says_so(tmp_path: Path) -> None:
    # A path below a file cannot be made by anyone, not even by root.
    package = copy_of_the_package(tmp_path / "source")
    (tmp_path / "file").write_text("")
    nowhere = tmp_path / "file" / "x"
    good, _ = tell(SMALL, PYTHONPATH=package.parent, NUMBA_CACHE_DIR=tmp_path / "kept")
    places = {"HOME": nowhere, "XDG_CACHE_HOME": nowhere, "LOCALAPPDATA": nowhere}
    told, err = tell(SMALL, PYTHONPATH=package.parent, NUMBA_CACHE_DIR=None, **places)
    assert told["cache"] == "None"
    assert told["bits"] == good["bits"]
    assert err.count(MESSAGE) == 1
    assert "in every new process, as no cache directory can be written to; NUMBA_CACHE_DIR can name one" in err
    assert "once for this version" not in err
    assert "Traceback" not in err
    assert told["source"] == str(package / "engine" / "compiling.py")
    assert not machine_code(package.parent)  # Numba's own second choice is __pycache__
    assert machine_code(tmp_path / "kept")  # so that the line above could have found something


# ---- who compiles, and who is told


@pytest.mark.slow
def test_the_first_process_compiles_and_says_so_once_and_the_next_does_neither(tmp_path: Path) -> None:
    cold, message = tell(WHOLE, NUMBA_CACHE_DIR=tmp_path)
    kept = machine_code(tmp_path)
    warm, silence = tell(WHOLE, NUMBA_CACHE_DIR=tmp_path)
    assert message.count(MESSAGE) == 1  # though two threads were waiting for it
    assert "once for this version" in message
    assert len(message.splitlines()) == 1
    assert silence == ""
    assert warm["bits"] == cold["bits"]
    assert machine_code(tmp_path) == kept


SPEC = """
datasets = "cpap"
sizes = [5, 1]
policies = ["merit-fair", "whittle", "merit-fair:slack=1,design=exact"]
episodes = 2
runs = 12
exposure_regret = true
"""
ARMS_AND_LENGTH = ["-d", "cpap", "-n", "5", "--episodes", "2", "--horizon", "5", "--runs", "2", "--seed", "1"]
POLICIES = ["-p", "merit-fair", "-p", "whittle", "-p", "merit-fair:design=exact,slack=1"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        ["simulate", *ARMS_AND_LENGTH, *POLICIES, "--exposure-regret"],
        ["compare", *ARMS_AND_LENGTH, *POLICIES],
        ["sweep", "spec.toml", "--out", "found", "--workers", "2"],
        ["reproduce", "--quick", "--only", "pooled", "--workers", "2"],
    ],
    ids=lambda command: command[0],
)
def test_a_command_says_once_that_it_compiles(command: list[str], tmp_path: Path) -> None:
    (tmp_path / "spec.toml").write_text(SPEC)
    run = [sys.executable, "-m", "meritfair", *command]
    how: dict[str, Any] = {"capture_output": True, "text": True, "cwd": tmp_path, "timeout": 600, "check": True}
    cold = subprocess.run(run, env=environment(NUMBA_CACHE_DIR=tmp_path / "kept"), **how)
    assert cold.stderr.count("compiling") == 1, cold.stderr
    assert f"{MESSAGE} for this machine, once for this version: 10 to 40 seconds ...\n" in cold.stderr
    kept = machine_code(tmp_path / "kept")
    assert kept
    again = [*run, "--force"] if command[0] in ("sweep", "reproduce") else run
    assert "compiling" not in subprocess.run(again, env=environment(NUMBA_CACHE_DIR=tmp_path / "kept"), **how).stderr
    assert machine_code(tmp_path / "kept") == kept


@pytest.mark.slow
def test_a_part_that_was_not_used_before_is_not_said_to_be_once(tmp_path: Path) -> None:
    tell(SMALL, NUMBA_CACHE_DIR=tmp_path)
    _, message = tell(WHOLE, NUMBA_CACHE_DIR=tmp_path)
    assert message == "meritfair: compiling a part of the engine that was not used before: up to a minute ...\n"


@pytest.mark.slow
def test_a_process_that_works_for_another_leaves_it_to_that(tmp_path: Path) -> None:
    told, silence = tell(SMALL, NUMBA_CACHE_DIR=tmp_path, MERITFAIR_WORKER="1")
    assert silence == ""
    assert machine_code(Path(told["cache"]))


@pytest.mark.slow
def test_nothing_is_said_where_nothing_of_ours_is_compiled(tmp_path: Path) -> None:
    script = """
import numba
from meritfair.engine import compiling, episodes

@numba.njit
def add_one(x):
    return x + 1

assert add_one(1) == 2
"""
    assert tell(script, NUMBA_CACHE_DIR=tmp_path) == (None, "")
    assert not machine_code(tmp_path)


STEP_LEARNER = """
from dataclasses import dataclass
import json, sys
import numpy as np
import meritfair as mf
from meritfair.policies.step_learner import StepLearner

def rank(memory, states, pulled, step, exploring, index):
    for arm in range(len(states)):
        index[arm] = memory[arm, 0]

@dataclass(frozen=True)
class Learner(mf.Policy):
    name = "learner"

    def plan(self, view):
        return StepLearner(np.zeros((view.n_arms, 1)), rank)

mf.simulate(mf.datasets.synthetic(3, seed=1), Learner(), budget=1, episodes=2, horizon=3, seed=1)
"""


@pytest.mark.slow
def test_what_is_compiled_in_every_process_is_not_said_to_be_compiled_once() -> None:
    tell(STEP_LEARNER)  # fills the cache with what can be kept
    _, err = tell(STEP_LEARNER)
    assert "once for this version" not in err


@pytest.mark.slow
def test_processes_may_start_cold_at_once_and_survive_a_damaged_cache(tmp_path: Path) -> None:
    together = [start(SMALL, NUMBA_CACHE_DIR=tmp_path) for _ in range(2)]
    told = [finish(process)[0] for process in together]
    later, silence = tell(SMALL, NUMBA_CACHE_DIR=tmp_path)
    assert {each["bits"] for each in told} == {later["bits"]}
    assert silence == ""  # what they left behind can be used
    assert not [file for file in tmp_path.rglob("*") if file.is_file() and file.suffix != ".code"]

    files = [Path(file) for file in machine_code(tmp_path)]
    assert len(files) > 1
    for number, file in enumerate(files):
        content = file.read_bytes()
        file.write_bytes(b"" if number == 0 else content[: len(content) // 2] + bytes(len(content) // 2))
    again, err = tell(SMALL, NUMBA_CACHE_DIR=tmp_path)
    assert again["bits"] == later["bits"]
    assert len(err.splitlines()) == 1
    assert f"damaged machine code in {again['cache']}" in err
    assert tell(SMALL, NUMBA_CACHE_DIR=tmp_path) == (later, "")  # the files were replaced


@pytest.mark.slow
def test_kernels_are_compiled_for_one_signature_whatever_is_played() -> None:
    # A second one costs all its seconds anew, and two processes that write different ones at once can mix them up.
    # Plans come in any layout and type: for one run or all, read-only, by columns, of integers or short floats.
    script = """
import json
from dataclasses import dataclass
import numpy as np
import meritfair as mf
from numba.core.dispatcher import Dispatcher
from meritfair.engine import arrivals, chains, coins, episodes, exact, inclusion, lotteries, options, passes, pooling
from meritfair.engine import steps, tables
from meritfair.policies import Lottery, PriorityTable

@dataclass(frozen=True)
class Own(mf.Policy):
    index: object
    name = "own"

    def plan(self, view):
        return PriorityTable(self.index) if self.index is not None else Lottery(np.arange(1, 4))

arms = mf.datasets.synthetic(3, seed=1)
table = np.arange(6, dtype=np.float32).reshape(3, 2)
table.flags.writeable = False
policies = [
    *map(mf.policies.create, mf.policies.names()),
    mf.MeritFair(merit=mf.Affine(1, 3), delta=0.5, estimate="mean"),
    mf.MeritFair(merit=mf.Exponential(2)),
    mf.MeritFair(design="exact", ball="kl", floor=0.1),
    mf.MeritFair(design="systematic", estimate="thompson", cap=[1.0, 0.9, 1.0]),
    mf.MeritFair(estimate="pooled"),
    mf.FairOracle(design="systematic"),
    mf.MeritFair(merit=mf.CustomMerit(np.exp, lipschitz=3)),
    Own(table),
    Own(table.T.copy().T.astype(int)),
    Own(None),
]
for policy in policies:
    for given, budget in ((arms, 1), ([mf.Arms(arms.transitions.tolist())] * 2, np.int32(2))):
        for criterion in (None, mf.Criterion(mf.Logistic(2, 1))):
            carry = budget == 1
            mf.simulate(given, policy, budget=budget, episodes=2, horizon=70, seed=1, criterion=criterion,
                        carry_states=carry, exposure_regret=not carry)
modules = (arrivals, chains, coins, episodes, exact, inclusion, lotteries, options, passes, pooling, steps,
           tables)
found = {name: x for m in modules for name, x in vars(m).items() if isinstance(x, Dispatcher)}
kernels = {name: x for name, x in found.items() if x.stats.cache_path is not None}  # parts have no cache
print(json.dumps({name: len(x.signatures) for name, x in kernels.items() if x.signatures}))
"""
    told, _ = tell(script)
    assert set(told) >= {"play_run", "play_episode", "play_steps", "new_states"}
    assert set(told) >= {"make_coins", "play_by_table", "count_word"}
    assert set(told) >= {"draw_in_passes", "draw_by_arrival", "rotate", "walk", "include", "pool"}
    assert set(told) >= {"tighten", "draw_posterior", "allot"}
    assert set(told) >= {"draw_by_rounding", "draw_systematically"}
    assert {name: signatures for name, signatures in told.items() if signatures > 1} == {}


# ---- damaged files


SIGNATURE = (numba.types.Array(numba.int64, 1, "C"), numba.int64)


def kept_in(folder: Path, function: Any) -> Any:
    """Return a function that is compiled unless its machine code is in this folder, as in a new process."""
    compiled: Any = kernel_not_kept(function)
    compiled._cache = compiling.CodeFiles(function, folder)
    return compiled


class Kept:
    """A small kernel whose machine code is kept in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.call()
        (self.file,) = folder.iterdir()
        self.good = self.file.read_bytes()

    def call(self) -> bool:
        """Return whether kept code was used."""
        compiled = kept_in(self.folder, add_up)
        assert compiled(np.arange(10), 4) == 6
        return bool(compiled.stats.cache_hits)

    def refuses(self, content: bytes) -> bool:
        """Return whether these bytes are not taken for code; nothing is compiled."""
        self.file.write_bytes(content)
        found = compiling.CodeFiles(add_up, self.folder).load_overload(SIGNATURE, cpu_target.target_context)
        return found is None


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kept:
    monkeypatch.setattr(compiling, "_told", {"compiling"})
    return Kept(tmp_path)


def test_code_is_kept_in_one_file_and_used(kept: Kept, capsys: pytest.CaptureFixture[str]) -> None:
    assert kept.call()
    assert list(kept.folder.iterdir()) == [kept.file]
    assert kept.file.read_bytes() == kept.good
    assert not kept.refuses(kept.good)
    assert capsys.readouterr().err == ""


def test_no_wrong_bit_is_ever_loaded(kept: Kept) -> None:
    # One bit in each of some hundred places, in the checksum, in the pickle and in the code.
    rng = np.random.default_rng(1)
    places = [*range(40), *rng.integers(len(kept.good), size=200), len(kept.good) - 1]
    for place in places:
        flipped = bytearray(kept.good)
        flipped[place] ^= 1 << int(rng.integers(8))
        assert kept.refuses(bytes(flipped)), place
    assert not kept.refuses(kept.good)


def test_no_part_of_a_file_is_ever_loaded(kept: Kept) -> None:
    for length in [*range(40), len(kept.good) // 2, len(kept.good) - 1]:
        assert kept.refuses(kept.good[:length]), length
    assert kept.refuses(kept.good + b"\n")
    assert kept.refuses(kept.good[:32])
    assert kept.refuses(bytes(len(kept.good)))
    assert kept.refuses(pickle.dumps("some other file"))


def subtract(values: IntArray, n: int) -> int:
    return int(values[0] - n)


def test_code_of_another_function_or_processor_is_never_loaded(kept: Kept, tmp_path: Path) -> None:
    assert kept_in(tmp_path, subtract)(np.arange(3), 2) == -2
    (other,) = tmp_path.glob("subtract-*")
    assert kept.refuses(other.read_bytes())  # though its checksum is right, where it belongs
    kept.file.write_bytes(kept.good)
    target = cpu_target.target_context
    elsewhere = SimpleNamespace(magic_tuple=lambda: ("x86_64-unknown-linux-gnu", "other-cpu", "+sse2"))
    files = compiling.CodeFiles(add_up, tmp_path)
    there = SimpleNamespace(refresh=target.refresh, codegen=lambda: elsewhere)
    assert files.load_overload(SIGNATURE, there) is None
    kept.file.rename(files._place(SIGNATURE, elsewhere)[0])  # a cache that was copied under the wrong name
    assert files.load_overload(SIGNATURE, there) is None


@pytest.mark.parametrize("content", [b"", b"cut", None], ids=["empty", "cut", "a wrong bit"])
def test_a_damaged_file_is_said_once_and_replaced(
    content: bytes | None, kept: Kept, capsys: pytest.CaptureFixture[str]
) -> None:
    kept.file.write_bytes(kept.good[:-1] + bytes([kept.good[-1] ^ 1]) if content is None else content)
    assert not kept.call()
    assert kept.call()
    kept.file.write_bytes(b"")
    assert not kept.call()
    said = capsys.readouterr().err
    assert len(said.splitlines()) == 1
    assert f"damaged machine code in {kept.folder} is not used" in said


@pytest.mark.parametrize("place", ["file", "file/below"], ids=["a file", "below a file"])
def test_code_that_cannot_be_kept_is_compiled_each_time(place: str, tmp_path: Path) -> None:
    # Nobody can write there, not even root; a full disk and a read-only one fail in the same way.
    (tmp_path / "file").write_text("")
    assert kept_in(tmp_path / place, add_up)(np.arange(10), 4) == 6
    assert [each.name for each in tmp_path.iterdir()] == ["file"]


def test_a_full_disk_leaves_the_old_file_and_no_other(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(file: Path, content: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    assert kept_in(kept.folder, add_up)(np.arange(10, dtype=np.int32), 4) == 6  # a signature that is not kept yet
    assert [(each, each.read_bytes()) for each in kept.folder.iterdir()] == [(kept.file, kept.good)]


def test_a_kernel_that_numba_may_not_compile_is_one_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numba.config, "DISABLE_JIT", 1)
    for how in (compiling.kernel, compiling.stage, compiling.part, compiling.inlined, compiling.own_stage):
        with pytest.raises(mf.MeritfairError, match="NUMBA_DISABLE_JIT"):
            how(add_up)


def test_a_command_names_the_variable_that_stops_the_compiler() -> None:
    command = [sys.executable, "-m", "meritfair", "simulate", "-d", "synthetic"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(NUMBA_DISABLE_JIT="1"))
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert "NUMBA_DISABLE_JIT is set" in done.stderr


# ---- what others must not notice


USERS_OWN = """
import json
import numba
before = numba.config.CACHE_DIR
from meritfair.engine import compiling, episodes

@numba.njit(cache=True)
def add_one(x):
    return x + 1

add_one(1)
print(json.dumps({"before": before, "after": numba.config.CACHE_DIR, "path": add_one.stats.cache_path,
    "ours": str(compiling.cache_directory()), "kernel": episodes.play_run.stats.cache_path}))
"""


@pytest.mark.slow
@pytest.mark.parametrize("named", [True, False], ids=["NUMBA_CACHE_DIR", "home"])
def test_other_peoples_functions_are_kept_where_they_were_before(named: bool, tmp_path: Path) -> None:
    file, kept, home = tmp_path / "own.py", tmp_path / "kept", tmp_path / "home"
    file.write_text(USERS_OWN)
    variables = environment(NUMBA_CACHE_DIR=kept if named else None, XDG_CACHE_HOME=home, LOCALAPPDATA=home)
    done = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, env=variables, check=True)
    told = json.loads(done.stdout)
    assert told["before"] == told["after"] == (str(kept) if named else "")
    assert told["ours"] == told["kernel"]
    assert Path(told["ours"]) not in Path(told["path"]).parents
    assert (kept if named else tmp_path / "__pycache__") in [Path(told["path"]), *Path(told["path"]).parents]
    assert any("add_one" in file for file in machine_code(Path(told["path"])))


def dispatchers() -> dict[str, Any]:
    """Return all compiled functions of the engine by name."""
    modules = [import_module(f"meritfair.engine.{file.stem}") for file in ENGINE if file.stem != "__init__"]
    return {
        f"{module.__name__}.{name}": value
        for module in modules
        for name, value in vars(module).items()
        if isinstance(value, Dispatcher)
    }


def test_kernels_are_serial_and_release_the_lock() -> None:
    found = dispatchers()
    assert {"meritfair.engine.episodes.play_run", "meritfair.engine.random.uniform"} <= set(found)
    for name, function in found.items():
        assert not function.targetoptions.get("parallel"), name
        assert function.targetoptions.get("nogil") is True, name


@pytest.mark.parametrize("how", ["kernel", "stage", "own_stage", "part", "inlined"])
def test_every_way_of_compiling_is_serial_and_releases_the_lock(how: str) -> None:
    def nothing() -> None: ...

    options = getattr(compiling, how)(nothing).targetoptions
    assert options["nogil"] is True
    assert not options.get("parallel")


@pytest.mark.parametrize("code", ["import meritfair", "import meritfair.cli; meritfair.cli.main(['--help'])"])
def test_a_start_does_not_wait_for_the_compiler(code: str) -> None:
    script = f"import atexit, os, sys\natexit.register(lambda: 'numba' in sys.modules and os._exit(7))\n{code}"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


# ---- stages, which are called by address


@kernel_not_kept
def _by_address(place: int, values: IntArray, n: int) -> Any:
    return compiling.call(place, values, n)


def add_up(values: IntArray, n: int) -> int:
    total = 0
    for i in range(n):
        total += values[i]
    return total


def test_a_stage_is_called_by_its_address() -> None:
    stage, values = compiling.stage(add_up), np.arange(10)
    place = compiling.address(stage, values, 1)
    assert _by_address(place, values, 4) == 6
    assert _by_address(place, values[2:], 8) == 44
    assert compiling.address(stage, values, 2) == place


def test_a_stage_is_not_called_with_what_it_was_not_compiled_for() -> None:
    place = compiling.address(compiling.stage(add_up), np.arange(3), 1)
    with pytest.raises(TypeError, match="no stage takes"):  # as machine code it would read the bytes as integers
        _by_address(place, np.ones(3, np.float32), 3)
