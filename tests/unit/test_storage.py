"""Files: modes, links and locks, the same for all that meritfair writes."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import meritfair as mf
from meritfair.core.storage import locked, write_whole

pytestmark = pytest.mark.skipif(os.name != "posix", reason="there are no such modes and links")


@pytest.fixture(autouse=True)
def usual_umask() -> Iterator[None]:
    before = os.umask(0o027)
    yield
    os.umask(before)


def mode(file: Path) -> int:
    return stat.S_IMODE(file.stat().st_mode)


def put(file: Path, text: str, private: bool = False) -> None:
    write_whole(file, lambda temporary: temporary.write_text(text), private=private)


@pytest.mark.parametrize("private", [False, True])
def test_a_new_file_has_the_usual_mode_and_an_old_one_keeps_its_own(private: bool, tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    put(file, "1", private)
    assert mode(file) == (0o600 if private else 0o640)
    for given in (0o664, 0o400):
        file.chmod(given)
        put(file, "2", private)
        assert (mode(file), file.read_text()) == (given, "2")


def test_a_symbolic_link_stays_and_its_file_is_replaced(tmp_path: Path) -> None:
    folder, link = tmp_path / "elsewhere", tmp_path / "link.csv"
    folder.mkdir()
    link.symlink_to("elsewhere/kept.csv")
    for text in ("new", "replaced"):  # at first it points to nothing
        put(link, text)
        assert link.is_symlink()
        assert (folder / "kept.csv").read_text() == text
    assert sorted(each.name for each in folder.iterdir()) == ["kept.csv"]


def test_tables_and_runs_follow_links_too(tmp_path: Path) -> None:
    arms = mf.datasets.synthetic(n_arms=3, seed=1)
    for suffix in (".csv", ".parquet"):
        file, link = tmp_path / f"arms{suffix}", tmp_path / f"link{suffix}"
        link.symlink_to(file)
        mf.datasets.write_arms(arms, link)
        assert link.is_symlink()
        assert mf.datasets.read_arms(file) == arms


def test_what_is_no_file_is_not_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.csv")
    (tmp_path / "folder.csv").mkdir()
    (tmp_path / "loop.csv").symlink_to("loop.csv")
    for name in ("pipe.csv", "folder.csv", "loop.csv"):
        with pytest.raises(
            mf.FileError, match=rf"{name}: cannot be written: (it is not a regular file|Too many levels)"
        ):
            put(tmp_path / name, "1")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["folder.csv", "loop.csv", "pipe.csv"]


def test_a_lock_is_held_by_one(tmp_path: Path) -> None:
    inside: list[str] = []

    def enter() -> None:
        with locked(tmp_path / "b.json"):
            inside.append("second")

    with locked(tmp_path / "a.json"):
        other = threading.Thread(target=enter)
        other.start()
        other.join(0.03)
        inside.append("first")
    other.join()
    assert inside == ["first", "second"]
    with locked(tmp_path / "missing" / "a.json"):  # whether it can be written there, the writer says
        pass
