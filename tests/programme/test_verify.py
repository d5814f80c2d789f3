"""Planted faults are found, and the first entry that is wrong is named."""

from __future__ import annotations

import json
import random
import secrets
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import meritfair as mf
from meritfair.programme import Outcomes, Store, verifying
from meritfair.programme.exporting import proof, read_export, write_export
from meritfair.programme.ledger.canonical import canonical, sha256
from meritfair.programme.ledger.entries import Entry
from meritfair.programme.ledger.lottery import ONE
from meritfair.programme.ledger.rowtable import RowTable
from meritfair.programme.ledger.standalone import check
from meritfair.programme.planning import PlannedRound, plan_round
from meritfair.programme.verifying import verify
from meritfair.programme.work import Work
from programme.clinics import Clinic, clinic
from programme.servers import server_folder


def played(url: str, rounds: int = 3) -> Clinic:
    here = clinic(url, 8, 2)
    for _ in range(rounds):
        here.play(seen=0.8)
    programme = here.programme
    drawn = programme.draw(by="Bo")
    other = next(id_ for id_ in here.ids if id_ not in drawn.ids)
    programme.report(Outcomes([other], [1], [1], reasons={other: "asked"}), by="Bo")
    programme.correct(Outcomes([drawn.ids[0]], after=[0]), round=1, reason="typed wrongly", by="Bo")
    return here


class Ledger:
    """A session with other entries than the database has."""

    def __init__(self, session: Any) -> None:
        self._session = session
        self.entries_ = [data for _, data, _ in session.entries()]
        self.tables = [session.rows(seq) for seq in range(session.length)]
        self.length, self.head = session.length, session.head

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    def entries(self, start: int = 0, stop: int | None = None) -> Any:
        yield from ((seq, data, sha256(data)) for seq, data in enumerate(self.entries_[start:stop], start))

    def rows(self, seq: int) -> bytes | None:
        rows: bytes | None = self.tables[seq]
        return rows

    def rechain(self, first: int) -> None:
        """Make a chain of the entries from one on, as someone would who can write to the database."""
        for seq in range(first, len(self.entries_)):
            values = json.loads(self.entries_[seq])
            values["previous"] = sha256(self.entries_[seq - 1]).hex()
            values["seq"] = seq
            self.entries_[seq] = canonical(values)
        self.length, self.head = len(self.entries_), sha256(self.entries_[-1])

    def replace_table(self, seq: int, **columns: Any) -> None:
        """Put another table into an entry, with its root."""
        entry = Entry.from_bytes(self.entries_[seq])
        assert entry.table is not None
        old = RowTable.from_bytes(entry.table, self.tables[seq] or b"")
        table = RowTable.of(old.fields, {**old.columns, **columns})
        values = json.loads(self.entries_[seq]) | {"table": table.describe()}
        self.entries_[seq], self.tables[seq] = canonical(values), table.to_bytes()

    def first(self, kind: str, last: bool = False) -> int:
        kinds = [json.loads(data)["kind"] for data in self.entries_]
        return len(kinds) - 1 - kinds[::-1].index(kind) if last else kinds.index(kind)

    def table(self, seq: int) -> RowTable:
        entry = Entry.from_bytes(self.entries_[seq])
        assert entry.table is not None
        return RowTable.from_bytes(entry.table, self.tables[seq] or b"")


def found(ledger: Ledger) -> tuple[int, str]:
    problems = verify(ledger).problems  # type: ignore[arg-type]
    assert problems
    return problems[0].entry, problems[0].text


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    url = str(tmp_path_factory.mktemp("ledger") / "calls.db")
    rng = random.Random(11)  # the same draws each time; this is made before the fixture of each test
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(secrets, "token_bytes", rng.randbytes)
        patch.setattr(secrets, "token_hex", lambda size: rng.randbytes(size).hex())
        return played(url).programme.store


def test_an_untouched_ledger_is_whole(store_url: str) -> None:
    here = played(store_url)
    result = here.programme.verify(heads=[here.programme.status().head])
    assert result.whole
    assert (result.rounds, result.draws, result.exact, result.near, result.tied) == (4, 4, 4, 0, True)


@pytest.mark.parametrize(("off", "words"), [(5e-7, "agree to 1e-6, not bit for bit"), (2e-6, "do not follow from")])
def test_exposures_that_another_processor_rounds_otherwise_are_not_wrong(
    store: Store, monkeypatch: pytest.MonkeyPatch, off: float, words: str
) -> None:
    """Logarithms and exponentials differ in their last digits, and what iterates ends elsewhere by some 1e-9."""

    def elsewhere(*arguments: Any) -> PlannedRound:
        planned = plan_round(*arguments)
        return replace(planned, due=planned.due + (np.arange(len(planned.due)) == 0) * int(off * ONE))

    monkeypatch.setattr(verifying, "plan_round", elsewhere)
    with store.reading("calls") as session:
        result = verify(session)
    assert words in str(result)
    assert (result.whole, result.near) == (off < 1e-6, 4 * (off < 1e-6))


def test_a_thousand_random_edits_are_found(store: Store) -> None:
    rng = random.Random(7)
    with store.reading("calls") as session:
        for _ in range(1000):
            ledger = Ledger(session)
            seq = rng.randrange(ledger.length)
            kind = rng.choice(["flip", "delete", "swap", "insert", "table", "cut"])
            if kind == "flip":
                data = bytearray(ledger.entries_[seq])
                data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
                ledger.entries_[seq] = bytes(data)
            elif kind == "delete":
                del ledger.entries_[seq], ledger.tables[seq]
            elif kind == "swap":
                seq = min(seq, ledger.length - 2)
                for rows in (ledger.entries_, ledger.tables):
                    rows[seq], rows[seq + 1] = rows[seq + 1], rows[seq]
            elif kind == "insert":
                other = rng.choice([place for place in range(ledger.length) if place != seq])
                ledger.entries_.insert(seq, ledger.entries_[other])
                ledger.tables.insert(seq, ledger.tables[other])
            elif kind == "table":
                seq = rng.choice([place for place, rows in enumerate(ledger.tables) if rows])
                rows_ = bytearray(ledger.tables[seq] or b"")
                rows_[rng.randrange(len(rows_))] ^= 1 << rng.randrange(8)
                ledger.tables[seq] = bytes(rows_)
            else:
                del ledger.entries_[seq:], ledger.tables[seq:]
            assert found(ledger)[0] in (seq, seq + 1 if kind == "flip" else seq), kind


def test_the_first_bad_entry_is_named_when_everything_after_it_was_chained_anew(store: Store) -> None:
    with store.reading("calls") as session:
        ledger = Ledger(session)  # somebody else is drawn
        seq = ledger.first("draw")
        drawn = set(ledger.table(seq)["number"].tolist())
        ledger.replace_table(seq, number=sorted([min(drawn), next(k for k in range(8) if k not in drawn)]))
        ledger.rechain(seq + 1)
        assert found(ledger) == (seq, "other participants are drawn than follow from the seed")

        ledger = Ledger(session)  # a favourite's chance is raised, and the draw made again with the secret
        seq = ledger.first("commit", last=True)
        chance = ledger.table(seq)["chance"].astype(np.int64)
        chance[[0, 1]] += [chance[1] // 2, -(chance[1] // 2)]
        ledger.replace_table(seq, chance=chance)
        ledger.rechain(seq + 1)
        entry, text = found(ledger)
        assert entry in (seq, seq + 1)
        assert "follow" in text or "committed" in text

        ledger = Ledger(session)  # an outcome is changed, so exposures no longer follow
        seq = ledger.first("report")
        after = ledger.table(seq)["after"].copy()
        after[:] = 1
        ledger.replace_table(seq, after=after)
        ledger.rechain(seq + 1)
        place, text = found(ledger)
        assert place > seq
        assert "follow from what was recorded" in text

        ledger = Ledger(session)  # another seed
        seq = ledger.first("draw")
        values = json.loads(ledger.entries_[seq])
        values["body"]["seed"] = "00" * 32
        ledger.entries_[seq] = canonical(values)
        ledger.rechain(seq + 1)
        assert found(ledger) == (seq, "the seed does not follow from the commitment")


def test_a_whole_other_ledger_shows_against_a_published_head(store_url: str, tmp_path: Path) -> None:
    here = clinic(store_url, 8, 2)
    here.play()
    if store_url.startswith("sqlite"):
        here.programme.store.backup(tmp_path / "backup.db")
    old = here.programme.status().head
    here.play()
    published = here.programme.status().head
    assert here.programme.verify(heads=[old, published]).whole
    if store_url.startswith("sqlite"):
        restored = mf.programme.open(str(tmp_path / "backup.db"))
        assert restored.verify().whole  # it cannot show by itself
        assert "an old backup was restored" in str(restored.verify(heads=[published]))
    assert "is not in the ledger" in str(here.programme.verify(heads=["ab" * 32]))


def test_what_is_kept_beside_the_ledger_is_compared(store_url: str) -> None:
    here = played(store_url)
    calls = here.programme
    with calls.store.writing("calls") as session:
        work = Work(session)
        account = work.state.account
        account[0] += 1
        work.columns.put("account", account)
        work.columns.save()
    assert "the column 'account' that is kept beside the ledger" in str(calls.verify())


def test_exports_move_between_databases_with_the_same_head(
    store_url: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    here = played(store_url)
    calls = here.programme
    folder = calls.export(tmp_path / "out")
    problems, _ = check(folder, [calls.status().head])
    assert problems == []
    assert oct((folder / "private.json").stat().st_mode)[-3:] == "600"
    other = str(tmp_path / "moved.db")
    if store_url.startswith("sqlite") and server_folder() is not None:
        other = request.getfixturevalue("postgresql").fresh_database()
    moved = mf.programme.open(other, "calls")
    moved.import_(folder)
    assert moved.status() == calls.status()
    assert moved.verify().whole
    one, two = calls.draw(), moved.draw()
    assert one == two
    calls.close(by="Ada")
    assert calls.preview()[1] == _closed(moved)
    public = calls.export(tmp_path / "public", anonymous=True)
    assert not (public / "private.json").exists()
    text = b"".join(file.read_bytes() for file in public.rglob("*") if file.is_file())
    assert not any(f'"{id_}"'.encode() in text for id_ in here.ids)
    with pytest.raises(mf.FileError, match=r"private\.json"):
        read_export(Store(str(tmp_path / "third.db")), "third", public)
    with pytest.raises(mf.FileError, match="is not empty"):
        calls.export(public)


def _closed(programme: mf.programme.Programme) -> Any:
    programme.close(by="Ada")
    return programme.preview()[1]


def test_a_damaged_export_is_not_imported(store: Store, tmp_path: Path) -> None:
    with store.reading("calls") as session:
        folder = write_export(session, tmp_path / "out", anonymous=False)
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    lines = (copy / "ledger.jsonl").read_bytes().splitlines(keepends=True)
    (copy / "ledger.jsonl").write_bytes(b"".join(lines[:-2] + lines[-1:]))
    target = mf.programme.open(str(tmp_path / "target.db"), "calls")
    with pytest.raises(mf.FileError, match="does not hold a whole ledger"):
        target.import_(copy)
    assert target.store.names() == []


def test_a_person_can_prove_their_own_rows_and_that_they_were_not_drawn(store: Store, tmp_path: Path) -> None:
    with store.reading("calls") as session:
        work = Work(session)
        folder = write_export(session, tmp_path / "out", anonymous=True)
        for id_ in ("p0", "p3", "p7"):
            mine = proof(work, id_)
            assert not any(f'"p{other}"' in json.dumps(mine) for other in range(8) if f"p{other}" != id_)
            file = tmp_path / f"{id_}.json"
            file.write_text(json.dumps(mine))
            problems, found = check(folder, [], file)
            assert problems == []
            text = " ".join(found)
            assert "not shown" not in text
            number = int(work.numbers([id_])[0])
            for round_ in range(1, 5):
                drawn = work.state.seen(round_)[0, number] == 1
                assert any(f"round {round_}:" in line and ("not drawn" in line) != drawn for line in found), text
            row = bytearray.fromhex(mine["rows"][-1]["row"])
            row[0] ^= 1
            mine["rows"][-1]["row"] = row.hex()
            file.write_text(json.dumps(mine))
            assert check(folder, [], file)[0]


def test_numbers_of_a_named_source_are_told(store_url: str) -> None:
    calls = clinic(store_url, 8, 2).programme
    calls.change(source="two lotteries of 21 November", reason="the board asked for it", by="Ann")
    calls.draw()
    calls.draw(value="9319 / 2 5 12 8 10 / 9 18 26 34 41 45")
    with calls.store.reading("calls") as session:
        *_, (_, data, _) = session.entries()
    assert json.loads(data)["body"]["numbers"] == "9319./2.5.8.10.12./9.18.26.34.41.45./"
    assert calls.verify().whole


def test_features_may_have_names_in_any_language(store_url: str, tmp_path: Path) -> None:
    calls = mf.programme.open(store_url, "calls")
    calls.create(1, features=["Größe", "भाषा"])
    calls.enrol(mf.programme.People(["a", "b"], features={"Größe": [1, 2], "भाषा": ["हिन्दी", ""]}))
    calls.draw()
    assert calls.verify().whole
    assert check(calls.export(tmp_path / "out"))[0] == []
