"""What a worker works out ahead."""

from __future__ import annotations

from pathlib import Path
from threading import Event, Thread

import pytest

from meritfair.programme.reading import Reader, Snapshot
from meritfair.programme.storage.store import Store
from meritfair.web import preparing
from programme.clinics import clinic


def test_programmes_are_prepared_once_and_again_when_a_round_is_drawn_or_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programme = clinic(str(tmp_path / "calls.db"), people=6, budget=2).programme
    reader, prepared = Reader(Store(programme.store.url)), list[tuple[int, str]]()
    monkeypatch.setattr(Snapshot, "prepare", lambda self: prepared.append((self.status.round, self.status.phase)))
    made: dict[str, tuple[int, str]] = {}
    for _ in range(2):
        preparing._once(reader, made)
    programme.draw(by="Ada")
    for _ in range(2):
        preparing._once(reader, made)
    programme.close(by="Ada")
    preparing._once(reader, made)
    assert prepared == [(0, "closed"), (1, "open"), (1, "closed")]


def test_a_database_that_is_gone_for_a_while_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "calls.db"
    programme = clinic(str(file), people=6, budget=2).programme
    reader, done, prepared = Reader(Store(programme.store.url)), Event(), Event()
    monkeypatch.setattr(preparing, "_SECONDS", 0.01)
    monkeypatch.setattr(Snapshot, "prepare", lambda _: prepared.set())
    file.rename(tmp_path / "away.db")
    thread = Thread(target=preparing.prepare, args=(reader, done))
    thread.start()
    assert not prepared.wait(0.2)
    (tmp_path / "away.db").rename(file)
    assert prepared.wait(30)
    done.set()
    thread.join(30)
    assert not thread.is_alive()


def test_what_nobody_expected_is_logged_without_values_and_ends_the_thread(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_reader: object, _made: object) -> None:
        raise ValueError("Ada")

    monkeypatch.setattr(preparing, "warm_up", lambda: None)
    monkeypatch.setattr(preparing, "_once", fail)
    preparing.prepare(None, Event())  # type: ignore[arg-type]
    assert [record.message for record in caplog.records] == ["nothing is worked out ahead any more"]
