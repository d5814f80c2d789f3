"""Reads of a server: always what the programme itself says, whoever writes meanwhile."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from threading import Event, Lock
from time import sleep
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa

import meritfair as mf
from meritfair import InputError
from meritfair.datasets.logs import StateLog
from meritfair.programme import Outcomes, Part, People, Programme, Store, Trial
from meritfair.programme.ledger.entries import Entry
from meritfair.programme.ledger.lottery import ONE
from meritfair.programme.ledger_cache import ByteCache
from meritfair.programme.listing import SORTS, STANDINGS, PeopleQuery, PersonLine
from meritfair.programme.reading import EntryLine, Reader, Snapshot
from meritfair.programme.rounds import committed
from meritfair.programme.showing.estimating import PartEstimates
from meritfair.programme.showing.person import PersonReport, person_of
from meritfair.programme.state import State
from meritfair.programme.storage.session import Session
from meritfair.programme.storage.store import StoreError
from meritfair.programme.work import Work
from programme.clinics import clinic

WRITER = """
import sys
import meritfair as mf
calls = mf.programme.open(sys.argv[1], "calls")
calls.away(["p3"], by="another")
calls.report(mf.programme.Outcomes([calls.round().ids[0]], [1], [0]), by="another")
"""


def plain_lines(work: Work) -> list[PersonLine]:
    """Return everyone, worked out one by one."""
    state, lines = work.state, []
    known = {each.number: each for each in work.session.people()}
    for number in range(state.people):
        who, drawn, last_drawn, last, when = known.get(number), 0, None, -1, None
        for round_ in range(1 - state.summary.before, state.summary.round + 1):
            chosen, before, _, after = state.seen(round_)[:, number].tolist()
            drawn, last_drawn = (drawn + 1, round_) if chosen == 1 else (drawn, last_drawn)
            last, when = (before, round_ - 1) if before >= 0 else (last, when)
            last, when = (after, round_) if after >= 0 else (last, when)
        texts = (who.id, who.group, who.staff) if who else (f"participant {number}", "", "")
        part = state.settings.parts[int(state.part[number])].name
        standing = "left" if not state.here[number] else "away" if state.away[number] else "enrolled"
        account = float(state.account[number] / ONE)
        lines.append(PersonLine(number, *texts, part, standing, account, drawn, last_drawn, last, when, who is None))
    return lines


def plain_list(lines: list[PersonLine], query: PeopleQuery) -> list[PersonLine]:
    """Return those of a list who are asked for, in order."""
    standings = {"enrolled": ("enrolled", "away"), "all": ("enrolled", "away", "left")}
    found = [each for each in lines if each.standing in standings.get(query.standing, (query.standing,))]
    for name in ("group", "staff", "part"):
        found = [each for each in found if vars(query)[name] in ("", vars(each)[name])]
    found = [
        each for each in found if not query.search or (not each.erased and query.search.lower() in each.id.lower())
    ]

    def key(line: PersonLine) -> tuple[object, ...]:
        if query.sort == "id":
            return line.erased, line.id if not line.erased else line.number
        return vars(line)[query.sort] or 0 if query.sort == "last_drawn" else vars(line)[query.sort], line.number

    return sorted(found, key=key, reverse=query.descending)


def check_same(reader: Reader, url: str, name: str = "calls") -> Snapshot:
    """Compare all that a snapshot says with what the programme says, read afresh from the database."""
    programme, snapshot = Programme(Store(url), name), reader.look(name)
    status = programme.status()
    assert (snapshot.status, snapshot.head, snapshot.entries) == (status, status.head, status.entries)
    for number in range(1, status.round + 1):
        assert snapshot.round(number) == programme.round(number)
        check_outcomes(snapshot, programme, number)
    with programme.store.reading(name) as session:
        work = Work(session)
        lines, identity, settings = plain_lines(work), session.identity, work.state.settings
        entries = [(Entry.from_bytes(data), digest) for _, data, digest in session.entries()]
    assert (snapshot.identity, snapshot.settings.body()) == (identity, settings.body())
    assert snapshot.time == entries[-1][0].time
    assert snapshot.groups == tuple(sorted({line.group for line in lines} - {""}))
    assert snapshot.staff == tuple(sorted({line.staff for line in lines} - {""}))
    assert list(snapshot.people(PeopleQuery(standing="all", sort="number", limit=10**6)).rows) == lines
    assert snapshot.entry_lines(0, 10**6) == tuple(
        EntryLine(e.seq, e.kind, e.time, e.by, e.body.get("round"), e.table["rows"] if e.table else 0, digest.hex())
        for e, digest in entries
    )
    for line in lines[:: max(1, len(lines) // 4)]:
        check_person(snapshot, programme, line)
    return snapshot


def told(report: Callable[[], PersonReport]) -> object:
    """Return all of a report, or why there is none."""
    try:
        return report().to_dict()
    except InputError as error:
        return str(error)


def check_person(snapshot: Snapshot, programme: Programme, line: PersonLine) -> None:
    with programme.store.reading(programme.name) as session:
        rounds = [None, *range(Work(session).state.summary.round + 1)]
        for round_ in rounds:
            found, right = partial(snapshot.person, line.number, round_), partial(person_of, Work(session), line.number)
            assert told(found) == told(partial(right, round=round_))
    if not line.erased:
        assert snapshot.number_of(line.id) == line.number


def check_outcomes(snapshot: Snapshot, programme: Programme, round_: int) -> None:
    found = {each.number: each for each in snapshot.outcomes(round_)}
    drawn = programme.round(round_)
    assert {number for number, each in found.items() if each.drawn} == {each.number for each in drawn.people}
    with programme.store.reading(programme.name) as session:
        work = Work(session)
        seen, (_, table) = work.state.seen(round_), committed(work, round_)
    overrides = set() if drawn.phase == "committed" else set(np.flatnonzero((seen[0] == 0) & (seen[2] == 1)).tolist())
    assert {number for number, each in found.items() if not each.drawn} == overrides
    for number, each in found.items():
        row = table["number"].tolist().index(number)
        assert (each.due, each.chance) == (table["due"][row] / ONE, table["chance"][row] / ONE)
        assert [each.drawn, each.before, each.action, each.after] == seen[:, number].tolist()
        own = next(mine for mine in snapshot.person(number).rounds if mine.round == round_)
        assert each.reason == own.reason


@pytest.mark.slow
def test_every_kind_of_entry(store_url: str) -> None:
    """Each change is made by another `Programme`, and then what the reader says is compared in full."""
    calls, reader = mf.programme.open(store_url, "calls"), Reader(Store(store_url))
    calls.create(3, features=["age"], by="Ada")
    check_same(reader, store_url)
    ids = [f"P{number}" for number in range(14)]
    groups, staff = [("north", "south")[number % 2] for number in range(14)], ["Kim", "", "Lee", "Kim"] * 3 + ["", ""]
    ages = {"age": [("old", "young")[number % 3 == 0] for number in range(14)]}

    def first_drawn(round_: int | None = None) -> str:
        return calls.round(round_).ids[0]

    def not_drawn() -> str:
        return next(id_ for id_ in ids[:12] if id_ not in calls.round().ids)

    steps: list[Callable[[], object]] = [
        lambda: calls.enrol(People(ids[:12], groups[:12], staff[:12], {"age": ages["age"][:12]}), by="Ada"),
        lambda: calls.away(["P1", "P2"], by="Ada"),
        lambda: calls.draw(by="Ada"),
        lambda: calls.report(Outcomes([first_drawn()], [1], [1], [0]), by="Ada"),
        lambda: calls.report(Outcomes([not_drawn()], [1], [0], reasons={not_drawn(): "fell ill"}), by="Ada"),
        lambda: calls.enrol(People(ids[12:], groups[12:], staff[12:], {"age": ages["age"][12:]}), by="Bo"),
        lambda: calls.close(by="Ada"),
        lambda: calls.report(Outcomes(list(calls.round(1).ids), [1] * 3, [1, -1, 0]), round=1, by="Bo"),
        lambda: calls.change(source="the lottery of Saturday", reason="more trust", by="Ada"),
        lambda: calls.draw(by="Ada"),
        lambda: calls.away(["P1"], back=True, by="Ada"),
        lambda: calls.draw(value="3 8 21 33 /", by="Ada"),
        lambda: calls.correct(
            Outcomes([first_drawn(1)], [0], [-2], forgets=True), round=1, reason="wrong person", by="Ada"
        ),
        lambda: calls.withdraw(["P4"], by="Ada"),
        lambda: calls.close(by="Ada"),
        lambda: calls.erase("P4", by="Ada"),
        lambda: calls.change(budget=2, source="secret", reason="fewer hands", by="Ada"),
        lambda: calls.withdraw(["P5"], by="Ada"),
        lambda: calls.enrol(People(["P5"], ["west"], ["Max"], {"age": ["old"]}), by="Ada"),
        lambda: calls.draw(by="Ada"),
        lambda: calls.close(by="Ada"),
        lambda: calls.end(by="Ada"),
    ]
    looks = []
    for step in steps:
        step()
        looks.append(check_same(reader, store_url))
    assert len({each.head for each in looks}) == len(looks)
    loaded = Reader(Store(store_url)).look("calls")  # which starts from what the database keeps, not from entries
    assert loaded.people(PeopleQuery(standing="all")) == looks[-1].people(PeopleQuery(standing="all"))


@pytest.mark.slow
def test_a_trial_and_a_history(store_url: str) -> None:
    rng = np.random.default_rng(2)
    arms, rounds = np.tile(np.arange(8), 3), np.repeat(np.arange(3), 8)
    states = rng.integers(0, 2, 24)
    order = np.lexsort((rounds, arms))
    history = StateLog([f"P{arm}" for arm in arms[order]], rounds[order], states[order], rng.integers(0, 2, 24))
    parts = [Part(2, name="calls"), Part(1, "random", name="by chance")]
    trial = mf.programme.open(store_url, "trial")
    trial.create(trial=Trial("ab" * 32), parts=parts, history=history, pseudonymise=True, by="Ada")
    reader = Reader(Store(store_url))
    check_same(reader, store_url, "trial")
    trial.draw(by="Ada")
    snapshot = check_same(reader, store_url, "trial")
    assert snapshot.parts == ("calls", "by chance")
    assert snapshot.number_of("P3") == snapshot.number_of(snapshot.people(PeopleQuery(sort="number")).rows[3].id)
    with pytest.raises(InputError, match="there is no participant 'P99'"):
        snapshot.number_of("P99")
    assert reader.names() == ["trial"]


@pytest.mark.slow
def test_lists_of_people(store_url: str) -> None:
    calls = clinic(store_url, people=30, budget=4)
    for seen in (0.5, 0.9):
        calls.play(seen=seen)
    programme, reader = calls.programme, Reader(Store(store_url))
    programme.enrol(People(["Änne", "anton"], ["east", ""], ["Kim", "Kim"]), by="Ada")
    programme.withdraw(["p7", "p8"], by="Ada")
    programme.erase("p7", by="Ada")
    programme.away(["p11", "p20"], reason="a holiday", by="Ada")
    programme.draw(by="Ada")
    snapshot = reader.look("calls")
    with programme.store.reading("calls") as session:
        lines = plain_lines(Work(session))
    asked = itertools.product(
        STANDINGS, SORTS, (False, True), ("", "P1", "än", "participant"), ("", "north", "nowhere")
    )
    for standing, sort, descending, search, group in asked:
        query = PeopleQuery(search, group, "", "", standing, sort, descending, 0, 100)
        right = plain_list(lines, query)
        page = snapshot.people(query)
        assert (page.total, list(page.rows)) == (len(right), right), query
    everyone = PeopleQuery(sort="drawn", standing="all", limit=7)
    pages = [snapshot.people(PeopleQuery(sort="drawn", standing="all", offset=first, limit=7)) for first in (0, 7, 14)]
    assert [row for page in pages for row in page.rows] == plain_list(lines, everyone)[:21]
    assert [row.id for row in snapshot.people(PeopleQuery(staff="Kim")).rows] == ["anton", "Änne"]
    assert (
        snapshot.people(PeopleQuery(staff="Lee")).total == snapshot.people(PeopleQuery(offset=99)).rows.__len__() == 0
    )
    with pytest.raises(InputError, match="limit must be at least 0, got -1"):
        PeopleQuery(limit=-1)
    with pytest.raises(InputError, match="sort"):
        PeopleQuery(sort="height")


@pytest.mark.slow
def test_orders_follow_what_is_reported(store_url: str) -> None:
    """An order that is kept from before is not used when what it depends on has changed."""
    calls = clinic(store_url, people=10, budget=2)
    reader = Reader(Store(store_url))
    for _ in range(3):
        drawn = calls.programme.draw(by="Ada")
        for id_ in (*drawn.ids, "p3"):
            reasons = {} if id_ in drawn.ids else {"p3": "asked for it"}
            after = np.random.default_rng(len(id_)).integers(0, 2)
            calls.programme.report(Outcomes([id_], [1], [after], reasons=reasons), by="Ada")
            with calls.programme.store.reading("calls") as session:
                lines = plain_lines(Work(session))
            for sort in SORTS:
                query = PeopleQuery(sort=sort)
                assert list(reader.look("calls").people(query).rows) == plain_list(lines, query)
        calls.programme.close(by="Ada")
    calls.programme.report(Outcomes(["p1"], after=[1]), round=1, by="Ada")  # late
    with calls.programme.store.reading("calls") as session:
        assert list(reader.look("calls").people(PeopleQuery(sort="state")).rows) == plain_list(
            plain_lines(Work(session)), PeopleQuery(sort="state")
        )


def test_a_snapshot_stays_as_it_was(store_url: str) -> None:
    calls = clinic(store_url)
    reader = Reader(Store(store_url))
    drawn = calls.programme.draw(by="Ada")
    before = reader.look("calls")
    assert reader.look("calls") is before
    person = before.person(0).to_dict()
    calls.programme.report(Outcomes([drawn.ids[0]], [1], [1]), by="Ada")
    calls.programme.close(by="Ada")
    after = reader.look("calls")
    assert after.entries == before.entries + 2
    assert (before.status.phase, after.status.phase) == ("open", "closed")
    assert before.person(0).to_dict() == person
    assert before.entry_lines(before.entries, 10**6) == ()
    assert [each.action for each in before.outcomes(1)].count(1) == 0
    assert [each.action for each in after.outcomes(1)].count(1) == 1


@pytest.mark.slow
def test_writes_of_another_process_are_seen(store_url: str) -> None:
    calls = clinic(store_url)
    reader = Reader(Store(store_url))
    reader.programme("calls").draw(by="Ada")
    assert reader.look("calls").status.away == 0
    subprocess.run([sys.executable, "-c", WRITER, store_url], check=True, timeout=120)
    assert reader.programme("calls").report(Outcomes([calls.programme.round().ids[1]], [1], [1]), by="Ada").taken == 1
    snapshot = check_same(reader, store_url)
    assert (snapshot.status.away, snapshot.status.reported) == (1, 2)
    assert calls.programme.verify().whole


def test_memory_writes_what_the_database_would(tmp_path: Path) -> None:
    """The same changes through a reader and without one leave the same columns, and a ledger that is whole."""
    columns = []
    for with_reader in (False, True):
        calls = clinic(f"sqlite:///{tmp_path}/{with_reader}.db", people=9, budget=2)
        reader = Reader(calls.programme.store)
        reader.look("calls")
        if with_reader:
            calls.programme = reader.programme("calls")
        for number in range(3):
            calls.programme.draw(by="Ada")
            calls.programme.away([f"p{number}"], by="Ada")
            calls.programme.report(Outcomes(["p5"], after=[number % 2]), by="Ada")
            calls.programme.close(by="Ada")
        assert calls.programme.verify().whole
        with calls.programme.store.reading("calls") as session:
            named = [each for each in session.vector_names() if each != ("account", 0)]
            columns.append({each: session.vector(*each) for each in named if each[0] != "seen"})
    assert columns[0] == columns[1]


@pytest.mark.slow
def test_what_fails_leaves_memory_as_it_was(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = clinic(store_url)
    reader = Reader(Store(store_url))
    live = reader.programme("calls")
    drawn = live.draw(by="Ada")
    before = reader.look("calls")
    first = PeopleQuery(sort="number")
    lines = before.people(first)
    with pytest.raises(InputError, match="such an override needs a reason"):
        live.report(Outcomes([next(f"p{n}" for n in range(12) if f"p{n}" not in drawn.ids)], [1], [1]), by="Ada")
    with monkeypatch.context() as patch:  # at the very end, when all is applied already
        patch.setattr(Work, "save", lambda _: (_ for _ in ()).throw(OSError("the disk is full")))
        with pytest.raises(OSError, match="the disk is full"):
            live.report(Outcomes([drawn.ids[0]], [1], [1]), by="Ada")
    assert reader.look("calls") is before
    assert before.people(first) == lines
    assert live.report(Outcomes([drawn.ids[0]], [1], [1]), by="Ada").taken == 1
    check_same(reader, store_url)
    assert calls.programme.verify().whole


def test_columns_in_memory_cannot_be_changed(store_url: str) -> None:
    calls = clinic(store_url)
    calls.programme.draw(by="Ada")
    reader = Reader(Store(store_url))
    reader.look("calls")
    calls.programme.report(Outcomes([calls.programme.round().ids[0]], [1], [1]), by="Ada")
    state = reader.look("calls").state
    with pytest.raises(ValueError, match="read-only"):
        state.seen(1)[0, 0] = 1


def test_another_ledger_in_the_same_place_is_loaded_afresh(tmp_path: Path) -> None:
    """A backup that was put back: the ledger is shorter, or goes on in another way."""
    url, copy = f"sqlite:///{tmp_path}/programmes.db", tmp_path / "backup.db"
    calls = clinic(url)
    calls.programme.store.backup(copy)
    calls.programme.away(["p1"], by="Ada")
    reader, second = Reader(Store(url)), Reader(Store(url))
    assert reader.look("calls").status.away == second.look("calls").status.away == 1
    (tmp_path / "programmes.db").write_bytes(copy.read_bytes())
    assert reader.look("calls").status.away == 0
    calls.programme.withdraw(["p2"], by="Ada")
    calls.programme.away(["p3"], by="Ada")
    for each in (reader, second):  # to the second one the ledger has only grown
        snapshot = check_same(each, url)
        assert [line.kind for line in snapshot.entry_lines(2, 9)] == ["withdraw", "away"]


@pytest.mark.slow
def test_entries_that_do_not_fit_in_memory_are_read_again(store_url: str) -> None:
    calls = clinic(store_url)
    for _ in range(3):
        calls.play()
    reader = Reader(Store(store_url))
    reader._kept = ByteCache(1)
    check_same(reader, store_url)
    calls.programme.draw(by="Ada")
    check_same(reader, store_url)


def test_what_is_made_ahead_is_used(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = clinic(store_url)
    calls.play()
    reader = Reader(Store(store_url))
    reader.prepare("calls")  # closed
    made = list[int]()
    of = PartEstimates.of
    monkeypatch.setattr(PartEstimates, "of", lambda *given: (made.append(1), of(*given))[1])  # type: ignore[func-returns-value]
    reader.look("calls").person(3)
    drawn = calls.programme.draw(by="Ada")
    calls.programme.report(Outcomes([drawn.ids[0]], [1], [1]), by="Ada")
    reader.look("calls").person(4)  # what was known at the commitment is what was known before it
    assert made == []
    calls.programme.close(by="Ada")
    reader.look("calls").person(4)
    assert made == [1]


@pytest.mark.slow
def test_few_past_rounds_are_worked_out_at_once_and_once_for_all_who_ask(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = clinic(str(tmp_path / "calls.db"))
    for _ in range(6):
        calls.play()
    reader, lock = Reader(calls.programme.store), Lock()
    of, now, most, made = PartEstimates.of, list[int](), list[int](), list[int]()

    def counted(state: State, *given: Any) -> PartEstimates:
        with lock:
            now.append(state.summary.round)
            made.append(state.summary.round)
            most.append(len(now))
        sleep(0.05)  # so that others come meanwhile
        with lock:
            now.remove(state.summary.round)
        return of(state, *given)

    monkeypatch.setattr(PartEstimates, "of", counted)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda k: reader.look("calls").person(k, 1 + k % 3), range(8)))
    assert max(most) == 1
    assert sorted(made) == [1, 2, 3]
    monkeypatch.setattr(PartEstimates, "of", of)
    assert [each.to_dict() for each in found] == [
        calls.programme.person(f"p{k}", round=1 + k % 3).to_dict() for k in range(8)
    ]


def test_estimates_of_few_rounds_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = clinic(str(tmp_path / "calls.db"))
    for _ in range(6):
        calls.play()
    monkeypatch.setattr("meritfair.programme.ledger_cache._PEOPLE", 36)
    look = Reader(calls.programme.store).look("calls")
    for round_ in range(6):
        look.person(1, round_)
    assert len(look._loaded.cache._before) == 3  # of 12 people each


def test_estimates_with_those_who_left_do_not_pile_up(tmp_path: Path) -> None:
    calls = clinic(str(tmp_path / "calls.db"))
    calls.play()
    calls.programme.withdraw(["p1", "p2", "p3"], by="Ada")
    look = Reader(calls.programme.store).look("calls")
    for number in (1, 2, 3):
        assert look.person(number).estimate == calls.programme.person(f"p{number}").estimate
    everyone = look._loaded.before_round(look.entries, look.state)
    assert {key[0] for key in everyone._made} == {"enrolled"}
    assert everyone._with_left is not None
    assert everyone._with_left[0] == 3


def test_threads_look_while_another_writes(store_url: str) -> None:
    """Whoever looks sees one head with all that belongs to it, and never an older one than before."""
    calls = clinic(store_url, people=20, budget=4)
    reader, done = Reader(Store(store_url)), Event()
    live = reader.programme("calls")

    def look() -> int:
        last, seen = 0, set()
        while not done.is_set():
            snapshot = reader.look("calls")
            assert snapshot.entries >= last
            last = snapshot.entries
            status, page = snapshot.status, snapshot.people(PeopleQuery(sort="state", limit=30))
            assert (status.entries, status.head) == (snapshot.entries, snapshot.head)
            assert status.enrolled == page.total == 20
            if status.round:
                outcomes = snapshot.outcomes(status.round)
                assert sum(each.drawn and each.action >= 0 for each in outcomes) == status.reported
                assert snapshot.person(3).head == snapshot.head
            seen.add(snapshot.head)
        return len(seen)

    with ThreadPoolExecutor(4) as pool:
        watching = [pool.submit(look) for _ in range(3)]
        try:
            for turn in range(4):
                writer = live if turn % 2 else calls.programme
                for id_ in writer.draw(by="Ada").ids:
                    writer.report(Outcomes([id_], [1], [turn % 2]), by="Ada")
                writer.close(by="Ada")
        finally:
            done.set()
        assert all(each.result(60) > 1 for each in watching)
    check_same(reader, store_url)


def test_the_same_key_has_one_effect(store_url: str) -> None:
    calls = clinic(store_url)
    reader = Reader(Store(store_url))
    live, other = reader.programme("calls"), mf.programme.open(store_url, "calls")
    drawn = live.draw(by="Ada", key="round 1")
    said = Outcomes([drawn.ids[0]], [1], [1])
    first = live.report(said, by="Ada", key="monday")
    assert live.report(said, by="Ada", key="monday") == other.report(said, by="Ada", key="monday") == first
    assert other.away(["p1"], by="Ada", key="tuesday").taken == 1
    assert live.away(["p1"], by="Ada", key="tuesday").taken == 1  # which another has kept
    with pytest.raises(mf.programme.KeyConflictError):
        live.away(["p2"], by="Ada", key="monday")
    assert reader.look("calls").status.away == 1
    assert reader.look("calls").entries == calls.programme.status().entries


def test_new_keys_need_no_look_at_all_answers(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = clinic(store_url).programme
    calls.away(["p1"], by="Ada", key="first")
    calls.away(["p1"], back=True, by="Ada", key="second")
    counted = list[str]()
    monkeypatch.setattr(Session, "_read_keys", lambda _, key: counted.append(key))
    for number in range(20):
        calls.away(["p2"], back=bool(number % 2), by="Ada", key=f"key {number}")
    assert counted == []


def test_an_answer_that_got_lost_is_noticed(store_url: str) -> None:
    """Nobody who deletes an answer, or changes its key, can make a request have a second effect."""
    calls = clinic(store_url).programme
    calls.away(["p1"], by="Ada", key="a")
    calls.away(["p2"], by="Ada", key="b")
    for harm in ("UPDATE answer SET key = 'c' WHERE key = 'a'", "DELETE FROM answer WHERE key = 'b'"):
        with calls.store._database.engine.connect() as connection:
            connection.execution_options(sqlite_begin="IMMEDIATE")
            with connection.begin():
                connection.execute(sa.text(harm))
        with pytest.raises(StoreError, match="answers"):
            calls.away(["p1"], by="Ada", key="a" if "UPDATE" in harm else "b")
        with pytest.raises(StoreError, match="answers"):
            mf.programme.open(store_url, "calls").away(["p3"], by="Ada", key="new")
    assert calls.status().away == 2


def test_a_key_of_a_failed_request_is_free_again(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = clinic(store_url).programme
    calls.away(["p1"], by="Ada", key="first")
    with monkeypatch.context() as patch:
        keep = Session.keep_answer

        def keep_and_fail(session: Session, key: str, request: bytes, answer: str) -> None:
            keep(session, key, request, answer)
            raise OSError("the disk is full")

        patch.setattr(Session, "keep_answer", keep_and_fail)
        with pytest.raises(OSError, match="the disk is full"):
            calls.away(["p2"], by="Ada", key="second")
    assert calls.status().away == 1
    assert calls.away(["p2"], by="Ada", key="second").taken == 1
    assert calls.away(["p2"], by="Ada", key="second").taken == 1
    assert calls.status().away == 2
