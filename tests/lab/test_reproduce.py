"""The whole paper in one go: what is made, what is kept, and what is said of what went wrong."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from lab.made_up import FAILING, PLAIN, STUMBLING, TINY
from meritfair.core.errors import FileError, InputError, MissingExtraError
from meritfair.lab.sweep import SweepSummary
from meritfair.reproduction import ARTEFACTS, BEYOND, HEADLINES
from meritfair.reproduction import reproduce as lab
from meritfair.reproduction.artefact import Findings, Scale
from meritfair.reproduction.report import Report, Section


def make(folder: Path, scale: Scale = TINY, only: Sequence[str] = (), **options: object) -> Report:
    """Reproduce in this process, where artefacts that are made up are known."""
    with ThreadPoolExecutor(1) as pool:
        return lab.reproduce(folder, scale, only, executor=pool, workers=1, **options)  # type: ignore[arg-type]


@pytest.fixture
def with_artefacts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lab, "ARTEFACTS", (PLAIN, FAILING, STUMBLING))


def content(folder: Path) -> dict[str, bytes]:
    files = (file for part in ("figures", "tables", "shards") for file in (folder / part).iterdir())
    return {str(file.relative_to(folder)): file.read_bytes() for file in files}


@pytest.mark.slow
@pytest.mark.usefixtures("with_artefacts")
def test_everything_is_written_and_a_second_call_plays_nothing(tmp_path: Path) -> None:
    told: list[tuple[str, int, int]] = []
    report = make(tmp_path, only=["plain"], progress=lambda *now: told.append(now))
    assert told[-1] == ("drew plain", 1, 1)
    (section,) = report.sections
    assert section.files == tuple(
        f"{folder}/{name}"
        for folder, name in [
            ("figures", "plain.svg"),
            ("figures", "plain.png"),
            ("figures", "plain.pdf"),
            ("tables", "plain-regret.csv"),
            ("tables", "plain-regret.tex"),
        ]
    )
    before = content(tmp_path)
    assert set(section.files) <= set(before)
    assert "1 task of up to ten runs" in report.made_with["Played"]
    again = make(tmp_path, only=["plain"])
    assert "0 tasks" in again.made_with["Played"]
    assert "1 kept from an earlier call" in again.made_with["Played"]
    assert content(tmp_path) == before
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "Plain: regret" in page
    assert "2 more" in page  # which were not asked for


@pytest.mark.usefixtures("with_artefacts")
def test_what_fails_is_left_out_and_named_and_the_rest_is_made(tmp_path: Path) -> None:
    report = make(tmp_path)
    assert [each.name for each in report.sections] == ["plain"]
    assert report.left_out["Failing"].startswith("1 of its 1 task failed: window must be at least 10")
    assert report.left_out["Stumbling"] == "ZeroDivisionError: nothing to divide by"
    assert "Parts are missing" in (tmp_path / "report.html").read_text(encoding="utf-8")


@pytest.mark.usefixtures("with_artefacts")
def test_a_shard_that_is_damaged_later_is_named(tmp_path: Path) -> None:
    make(tmp_path, only=["plain"])
    (shard,) = (tmp_path / "shards").iterdir()
    shard.write_bytes(shard.read_bytes()[:-1])
    wanted = lab.plan(tmp_path, TINY, ["plain"], workers=1)
    assert wanted.done() == 0
    report = lab.write(wanted, lab.Played(SweepSummary(0, 1, (), (), 0), 0.0))
    assert shard.name in report.left_out["Plain: regret"]
    assert "damaged" in make(tmp_path, only=["plain"]).made_with["Played"]
    assert wanted.done() == 1


def test_a_task_that_two_need_is_played_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    twin = replace(PLAIN, name="twin", title="Twin")
    monkeypatch.setattr(lab, "ARTEFACTS", (PLAIN, twin))
    wanted = lab.plan(tmp_path, TINY)
    assert len(wanted.all_tasks) == 1
    assert wanted.tasks["plain"] == wanted.tasks["twin"] == wanted.all_tasks


def test_headlines_are_the_main_ones_then_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lab, "HEADLINES", ("b", "d"))

    def section(name: str, headline: str) -> Section:
        return Section(name, name, Findings(None, headline=headline))

    sections = [section("a", "A."), section("b", "B."), section("c", ""), section("d", "D.")]
    assert lab._headlines(sections) == ("B.", "D.")
    assert lab._headlines(sections[:2]) == ("B.", "A.")
    assert lab._headlines([sections[2]]) == ()


def test_an_unknown_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no figure or table 'figure-22', did you mean 'figure-2'"):
        lab.plan(tmp_path, only=["figure-22"])
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_a_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "paper"
    file.touch()
    with pytest.raises(FileError, match="paper: cannot be used as a folder for results"):
        lab.plan(file)


def test_workers_are_at_least_one(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"workers must be between 1 and .* core\), got 0"):
        lab.plan(tmp_path, workers=0)


@pytest.mark.parametrize("library", ["jinja2", "matplotlib"])
def test_a_missing_library_is_told_before_anything_is_played(
    library: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lab, "find_spec", lambda name: None if name == library else object())
    with pytest.raises(MissingExtraError, match=r"meritfair\[lab\]"):
        lab.plan(tmp_path)


def test_artefacts_have_names_of_their_own() -> None:
    names = [each.name for each in ARTEFACTS]
    assert len(set(names)) == len(names)
    assert all(part.isalnum() for name in names for part in name.split("-"))
    assert set(BEYOND) | set(HEADLINES) <= set(names)


@pytest.mark.slow
def test_processes_draw_the_same_as_this_one(tmp_path: Path) -> None:
    scale, only = Scale(episodes=4, runs=2, quick=True), ["figure-1", "table-1"]
    make(tmp_path / "here", scale, only)
    found = lab.reproduce(tmp_path / "there", scale, only, workers=2)
    assert not found.left_out
    assert content(tmp_path / "here") == content(tmp_path / "there")


def test_the_machine_is_said_in_words() -> None:
    assert "cores" in lab._machine()
