"""The store: whole shards and nothing else, whatever happens to the files."""

from __future__ import annotations

import dataclasses
import json
import os
import random
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from meritfair.core import sealed
from meritfair.core.errors import FileError
from meritfair.core.sealed import check_shard, pack_shard, unpack_shard
from meritfair.lab.spec import Setting
from meritfair.lab.store import Store
from meritfair.lab.tasks import Task, play_shard, versions

SETTING = Setting(dataset="synthetic", n_arms=5, budget=2, policy="random", episodes=20, horizon=20)
TASKS = [Task(SETTING, first, 10) for first in (0, 10, 20)]
KEY = "0123456789abcdef" * 2


@pytest.fixture(scope="module")
def data() -> bytes:
    """The shard of the first task."""
    return play_shard(TASKS[0], versions())


@pytest.fixture
def full(tmp_path: Path, data: bytes) -> Store:
    """A store with the first task in it."""
    made = Store(tmp_path / "out")
    with made.claim():
        made.write(TASKS[0], data)
    return made


def names(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


# ---- the bytes


ROWS = 3
COLUMNS = arrays.arrays(
    st.sampled_from([np.float64, np.int64]), st.just((ROWS,)) | st.tuples(st.just(ROWS), st.integers(1, 5))
)


@settings(max_examples=50)
@given(st.dictionaries(st.text("abc", min_size=1), COLUMNS, min_size=1))
def test_arrays_go_there_and_back(columns: dict[str, Any]) -> None:
    packed = pack_shard(columns, {"a": 1}, KEY)
    assert packed == pack_shard(columns, {"a": 1}, KEY)
    back, about = unpack_shard(packed, KEY)
    assert about == {"a": 1}
    assert list(back) == list(columns)
    for name, values in columns.items():
        assert back[name].dtype == values.dtype
        assert back[name].tobytes() == values.tobytes()  # NaN, infinities and -0.0 as well


def test_every_bit_counts(data: bytes) -> None:
    rng, key = random.Random(1), TASKS[0].key
    check_shard(data, key)
    for place in [*range(8), *range(len(data) - 8, len(data)), *rng.sample(range(len(data)), 400)]:
        flipped = bytearray(data)
        flipped[place] ^= 1 << rng.randrange(8)
        with pytest.raises(ValueError, match=r"checksum|cut short|format|of something else"):
            unpack_shard(bytes(flipped), key)


def test_every_byte_must_be_there(data: bytes) -> None:
    rng, key = random.Random(2), TASKS[0].key
    for length in [0, 1, len(data) - 1, *rng.sample(range(len(data)), 100)]:
        with pytest.raises(ValueError, match=r"checksum|cut short"):
            unpack_shard(data[:length], key)
    for longer in (data + b"\0", data + data, b"\0" + data):
        with pytest.raises(ValueError, match="checksum"):
            unpack_shard(longer, key)


def test_a_whole_shard_of_another_format_or_key_is_refused(data: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match=rf"^it is the shard {TASKS[0].key}, of something else$"):
        check_shard(data, TASKS[1].key)
    monkeypatch.setattr(sealed, "_SHARD", "meritfair-shard-99")
    newer = pack_shard({"run": np.arange(3)}, {}, KEY)
    monkeypatch.undo()
    with pytest.raises(ValueError, match=r"^its format is meritfair-shard-99, not meritfair-shard-1$"):
        check_shard(newer, KEY)


def test_any_reader_of_parquet_can_read_a_shard(full: Store) -> None:
    file = pq.ParquetFile(full.path(TASKS[0]))
    table = file.read()
    assert table.num_rows == 10
    assert table.column("run").to_pylist() == list(range(10))
    assert {len(row) for row in table.column("fairness_regret_by_episode").to_pylist()} == {20}
    assert {len(row) for row in table.column("benefit_by_arm").to_pylist()} == {5}
    about = json.loads(file.metadata.metadata[b"meritfair"])
    assert about["setting"] == SETTING.settings()
    assert (about["first"], about["runs"], about["versions"]) == (0, 10, versions())
    assert about["episodes"] == list(range(1, 21))


# ---- reading and writing


def test_a_shard_lies_under_its_key(full: Store) -> None:
    assert full.path(TASKS[0]) == full.folder / "shards" / f"{TASKS[0].key}.parquet"
    assert names(full.folder) == [".lock", "shards"]
    assert names(full.shards) == [f"{TASKS[0].key}.parquet"]
    outcome = full.read(TASKS[0])
    assert outcome is not None
    assert outcome.runs.tolist() == list(range(10))


def test_a_missing_shard_has_no_outcome(full: Store) -> None:
    assert full.data(TASKS[1]) is None
    assert full.read(TASKS[1]) is None


def spoil(path: Path, how: str) -> None:
    content = path.read_bytes()
    middle = len(content) // 2
    spoilt = {
        "truncated": content[:middle],
        "empty": b"",
        "flipped": content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :],
        "something else": b"PAR1 is how it begins",
    }
    path.write_bytes(spoilt[how])


@pytest.mark.parametrize("how", ["truncated", "empty", "flipped", "something else"])
def test_a_damaged_shard_is_named_and_not_done(full: Store, how: str) -> None:
    path = full.path(TASKS[0])
    spoil(path, how)
    with pytest.raises(FileError, match=rf"^{re.escape(str(path))}: does not hold a whole shard: "):
        full.read(TASKS[0])
    assert full.scan(TASKS) == ([], TASKS[1:], TASKS[:1])


def test_the_shard_of_another_task_is_not_taken(full: Store) -> None:
    full.path(TASKS[0]).rename(full.path(TASKS[1]))
    with pytest.raises(FileError, match=f"it is the shard {TASKS[0].key}, of something else"):
        full.read(TASKS[1])
    assert full.scan(TASKS) == ([], [TASKS[0], TASKS[2]], [TASKS[1]])


def test_what_is_not_a_whole_shard_of_the_task_is_not_written(full: Store, data: bytes) -> None:
    for wrong in (b"", data[:-1], data):
        with pytest.raises(FileError, match="is not written, as what a worker returned is not its shard"):
            full.write(TASKS[1], wrong)
    assert names(full.shards) == [f"{TASKS[0].key}.parquet"]


def test_a_shard_is_replaced_in_one_step(full: Store, data: bytes) -> None:
    before = full.path(TASKS[0]).stat().st_ino
    full.write(TASKS[0], data)
    assert full.path(TASKS[0]).stat().st_ino != before
    assert names(full.shards) == [f"{TASKS[0].key}.parquet"]


def test_shards_of_others_are_found_and_not_touched(full: Store) -> None:
    theirs = Task(dataclasses.replace(SETTING, seed=1), 0, 10)
    full.write(theirs, play_shard(theirs, versions()))
    (full.shards / ".half-xyz.parquet").write_bytes(b"half")
    (full.shards / "notes.txt").write_text("mine")
    assert full.foreign(TASKS) == [full.path(theirs)]
    assert full.foreign([theirs]) == [full.path(TASKS[0])]
    assert full.scan(TASKS) == (TASKS[:1], TASKS[1:], [])


def test_a_folder_that_is_not_there_has_nothing(tmp_path: Path) -> None:
    nothing = Store(tmp_path / "nowhere")
    assert nothing.scan(TASKS) == ([], TASKS, [])
    assert nothing.foreign(TASKS) == []
    assert not nothing.folder.exists()


# ---- one at a time


def test_a_claim_takes_away_what_was_left_half_written(full: Store) -> None:
    half = full.shards / f".{TASKS[1].key}-abc.parquet"
    half.write_bytes(b"half")
    with full.claim():
        assert names(full.shards) == [f"{TASKS[0].key}.parquet"]


@pytest.mark.parametrize("content", ["file", "file/below"])
def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path, content: str) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(FileError, match=rf"{content}: cannot be written to: "), Store(tmp_path / content).claim():
        pass


RUNNING = "another sweep is running in this folder"


@pytest.mark.skipif(os.name != "posix", reason="there are no such locks")
def test_a_folder_is_for_one_sweep_at_a_time(full: Store) -> None:
    with full.claim(), pytest.raises(FileError, match=f"out: {RUNNING}"), Store(full.folder).claim():
        pass
    with full.claim():
        pass


@pytest.mark.skipif(os.name != "posix", reason="there are no such locks")
def test_a_claim_ends_with_its_process_however_it_ends(full: Store) -> None:
    code = "import sys, time; from meritfair.lab.store import Store\n"
    code += "with Store(sys.argv[1]).claim(): print('claimed', flush=True); time.sleep(600)"
    process = subprocess.Popen([sys.executable, "-c", code, str(full.folder)], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "claimed\n"
        with pytest.raises(FileError, match=RUNNING), full.claim():
            pass
    finally:
        process.kill()
        process.communicate()
    with full.claim():
        pass


class NoLocks:
    LOCK_EX = LOCK_NB = 0

    @staticmethod
    def flock(handle: int, how: int) -> None:
        raise OSError(95, "Operation not supported")


@pytest.mark.parametrize("locks", [None, NoLocks])
def test_a_folder_can_be_used_where_there_are_no_locks(
    full: Store, locks: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "fcntl", locks)
    with full.claim(), full.claim():
        pass
