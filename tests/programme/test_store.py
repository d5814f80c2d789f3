"""What a store promises, on SQLite and on PostgreSQL alike."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from meritfair.core.errors import InputError
from meritfair.programme.storage.database import default_file
from meritfair.programme.storage.schema import METADATA, VERSIONS
from meritfair.programme.storage.store import Person, Session, Store, StoreError
from meritfair.programme.storage.temporary_rows import JobRow, UploadRow, in_parts, job_data
from programme.servers import Server
from programme.writers import IDENTITY, NAME, SECRET, bodies, entry, make


@pytest.fixture
def store(store_url: str) -> Store:
    make(store_url)
    return Store(store_url)


def run_sql(store: Store, statement: str) -> None:
    """Do what somebody with another tool could do."""
    with store._database.transaction(writing=True) as connection:
        connection.exec_driver_sql(statement)


def add_people(session: Session, first: int, n: int) -> list[Person]:
    numbers = range(first, first + n)
    people = [Person(i, f"id-{(i * 7919) % 100_003}-é", bytes([i % 256] * 16), f"group {i % 3}", "") for i in numbers]
    columns = list(zip(*people, strict=True))
    session.add_people(np.array(columns[0]), columns[1], columns[2], columns[3], columns[4])
    return people


def test_everything_comes_back_as_it_was_written(store: Store) -> None:
    rows, vector = os.urandom(100_000), np.arange(1000.0).tobytes()
    with store.writing(NAME) as session:
        assert (session.identity, session.name, session.secret) == (IDENTITY, NAME, SECRET)
        assert (session.length, session.head, session.summary) == (0, bytes(32), {})
        assert [entry(session, "first"), entry(session, {"ü": "x"}, rows), entry(session, 3, b"")] == [0, 1, 2]
        session.set_summary({"round": 1, "name": "Größe"})
        session.put_vector("due", vector)
        session.put_vector("due", b"", 5)
        session.put_vector("due", b"old", 2)
        session.put_vector("due", b"new", 2)
        session.put_vector("given", b"x", 7)
        people = add_people(session, 0, 20)
        session.add_notes(1, {3: "she asked\nnot to be called", 2: ""})
        session.keep_answer("key", b"\0" * 32, '{"drawn": ["é"]}')
        written = list(session.entries())
        assert session.people() == people  # within the same transaction, too
    with store.reading(NAME) as session:
        assert list(session.entries()) == written
        assert (session.length, session.head) == (3, written[-1][2])
        assert bodies(session) == ["first", {"ü": "x"}, 3]
        assert [session.rows(seq) for seq in range(3)] == [None, rows, b""]
        assert session.summary == {"round": 1, "name": "Größe"}
        assert session.vector("due") == vector
        assert [session.vector("due", number) for number in (5, 2, 3)] == [b"", b"new", None]
        assert (session.vectors("due"), session.vectors("given"), session.vectors("none")) == ([0, 2, 5], [7], [])
        assert session.people() == people
        numbers, ids = session.people_columns()
        assert numbers.tolist() == list(range(20))
        assert ids == [each.id for each in people]
        assert session.notes() == [(1, 2, ""), (1, 3, "she asked\nnot to be called")]
        assert session.notes(3) == [(1, 3, "she asked\nnot to be called")]
        assert session.answer("key") == (b"\0" * 32, '{"drawn": ["é"]}')
        assert session.answer("another") is None
    assert store.check() == []


def test_parts_of_the_ledger_are_read_in_order(store: Store) -> None:
    with store.writing(NAME) as session:
        for number in range(2500):
            entry(session, number)
    with store.reading(NAME) as session:
        assert bodies(session) == list(range(2500))
        assert [seq for seq, _, _ in session.entries(990, 1010)] == list(range(990, 1010))
        assert [seq for seq, _, _ in session.entries(2498, 9999)] == [2498, 2499]
        assert list(session.entries(2500)) == []
        with pytest.raises(InputError, match="must be one of the 2500 that there are, counted from 0, got 2500"):
            session.rows(2500)


@pytest.mark.parametrize("failure", [ValueError, KeyboardInterrupt])
def test_a_failure_leaves_nothing_behind(store: Store, failure: type[BaseException]) -> None:
    def fill(session: Session) -> None:
        entry(session, rows=b"abc")
        session.put_vector("v", b"1")
        add_people(session, 0, 5)
        session.add_notes(0, {1: "note"})
        session.keep_answer("key", b"", "answer")
        session.set_summary({"a": 1})

    with pytest.raises(failure), store.writing(NAME) as session:  # noqa: PT012
        fill(session)
        raise failure
    with pytest.raises(failure), store.creating("second", IDENTITY, SECRET) as session:  # noqa: PT012
        fill(session)
        raise failure
    assert store.names() == [NAME]
    with store.writing(NAME) as session:
        assert (session.length, session.head, session.summary) == (0, bytes(32), {})
        assert (session.people(), session.notes(), session.vector("v"), session.answer("key")) == ([], [], None, None)
        fill(session)
    assert store.check() == []


def test_programmes_are_apart(store: Store) -> None:
    with store.creating("a second", "f" * 32, b"other") as session:
        entry(session, "other", b"rows")
        people = add_people(session, 0, 3)
    with store.writing(NAME) as session:
        assert (session.length, session.people(), session.numbers_of([people[0].id])) == (0, [], {})
        assert add_people(session, 0, 3) == people  # the same ids
    assert store.names() == ["a second", NAME]


def test_a_name_serves_once_and_an_unknown_one_tells_those_there_are(store: Store) -> None:
    with pytest.raises(InputError, match="there is already a programme 'clinic'"), store.creating(NAME, IDENTITY, b""):
        pass
    with pytest.raises(InputError, match=r"there is no programme 'clinc'; there are 'clinic'$"), store.writing("clinc"):
        pass
    with pytest.raises(InputError, match="32 hex digits, got 'ABC'"), store.creating("x", "ABC", b""):
        pass
    for name in ("*", "north/south"):
        with (
            pytest.raises(InputError, match=r"has no / or .* and is not \*, which stands for all"),
            store.creating(name, "a" * 32, b""),
        ):
            pass
    with store.reading(NAME) as session:
        assert session.length == 0


def test_who_reads_cannot_write(store: Store) -> None:
    with store.reading(NAME) as session:
        for write in (
            lambda: entry(session),
            lambda: session.put_vector("v", b""),
            lambda: add_people(session, 0, 1),
            lambda: session.update_people([]),
            lambda: session.erase(0),
            lambda: session.keep_answer("k", b"", ""),
            lambda: session.set_summary({}),
        ):
            with pytest.raises(InputError, match="programme 'clinic': it was opened for reading"):
                write()
    with pytest.raises(StoreError, match="read-only"), store._database.transaction(writing=False) as connection:
        connection.exec_driver_sql("UPDATE programme SET length = 7")


def test_who_reads_sees_one_state_while_others_write(store: Store) -> None:
    def write() -> None:
        with store.writing(NAME) as session:
            entry(session, "later")
            session.put_vector("v", b"later")

    with store.writing(NAME) as session:
        entry(session, "sooner")
    writer = threading.Thread(target=write)
    with store.reading(NAME) as session:
        writer.start()
        writer.join(0.3)  # SQLite's rollback journal has it wait
        assert bodies(session) == ["sooner"]
        assert session.vector("v") is None
    writer.join()
    with store.reading(NAME) as session:
        assert bodies(session) == ["sooner", "later"]


def test_entries_come_with_their_digest_and_their_table(store: Store) -> None:
    data = b'{"kind": "x", "time": "t", "table": null}'
    with pytest.raises(InputError, match="must be its SHA-256, got 0000"), store.writing(NAME) as session:
        session.append(data, bytes(32), None)
    for table, rows in (("null", b""), ("[]", None)):
        given = data.replace(b"null", table.encode())
        with pytest.raises(InputError, match="entry 0 must come with the rows"), store.writing(NAME) as session:
            session.append(given, sha256(given).digest(), rows)


@pytest.mark.parametrize("table", ["entry", "entry_rows"])
def test_the_database_refuses_to_edit_the_ledger(store: Store, table: str) -> None:
    with store.writing(NAME) as session:
        entry(session, rows=b"abc")
    statements = [f"UPDATE {table} SET digest = digest", f"DELETE FROM {table}"]
    for statement in [*statements, *([] if store._database.is_sqlite else [f"TRUNCATE {table} CASCADE"])]:
        with pytest.raises(StoreError, match="the ledger cannot be edited: corrections are new entries"):
            run_sql(store, statement)
    assert store.check() == []


def test_people_are_found_by_id_and_by_number_and_can_be_changed(store: Store) -> None:
    with store.writing(NAME) as session:
        people = add_people(session, 0, 300)
    with store.writing(NAME) as session:
        for some in (people[17:18], people[5:15], people):  # few are looked up, many are picked out of all
            assert session.numbers_of([each.id for each in some]) == {each.id: each.number for each in some}
            assert session.people([each.number for each in reversed(some)]) == some
        assert session.numbers_of(["nobody", people[3].id]) == {people[3].id: 3}
        assert session.numbers_of([]) == {}
        assert session.people([299, 5, 1000, 5]) == [people[5], people[299]]
        session.update_people(np.array([7, 5]), ["new 7", "new 5"])
        session.update_people([5], None, ["Ada"])
        session.update_people([])
    with store.reading(NAME) as session:
        assert session.people([5, 7]) == [
            people[5]._replace(group="new 5", staff="Ada"),
            people[7]._replace(group="new 7"),
        ]
        assert len(session.people()) == 300


def test_people_who_are_there_cannot_be_added_and_others_cannot_be_changed(store: Store) -> None:
    with store.writing(NAME) as session:
        people = add_people(session, 0, 3)
    for number, name in ((0, "new"), (3, people[0].id)):
        with pytest.raises(StoreError, match="contradicts what it holds") as told, store.writing(NAME) as session:
            session.add_people([number], [name], [b""], [""], [""])
        assert people[0].id not in str(told.value)
    with (
        pytest.raises(InputError, match="must be equally long, got"),
        store.writing(NAME) as session,
    ):
        session.add_people([9], ["new"], [b""], [""], ["", ""])
    with pytest.raises(InputError, match="must be there, got number 9"), store.writing(NAME) as session:
        session.update_people([2, 9])
    with store.reading(NAME) as session:
        assert session.people() == people


def test_who_is_erased_is_gone_even_from_the_file(store: Store) -> None:
    with store.writing(NAME) as session:
        entry(session)
        people = add_people(session, 0, 2000)
        session.add_notes(0, {1000: "a note about number 1000", 1001: "another"})
    with store.writing(NAME) as session:
        session.update_people([1000], ["a group of her own"])
        session.erase(1000)
        with pytest.raises(InputError, match="must be there, got number 1000"):
            session.erase(1000)
    with store.reading(NAME) as session:
        assert session.people() == [*people[:1000], *people[1001:]]
        assert session.numbers_of([people[1000].id]) == {}
        assert session.notes() == [(0, 1001, "another")]
    assert store.check() == []
    if store._database.is_sqlite:
        data = store._database.file.read_bytes()
        assert people[1001].id.encode() in data
        for trace in (people[1000].id, "a note about number 1000", "a group of her own"):
            assert trace.encode() not in data


def test_a_setting_of_the_store_is_kept_and_replaced(store: Store, store_url: str) -> None:
    assert store.setting("where") is None
    store.set_setting("where", "/heads/é")
    store.set_setting("key", "")
    assert [Store(store_url).setting(name) for name in ("where", "key", "none")] == ["/heads/é", "", None]
    store.set_setting("where", "elsewhere")
    assert Store(store_url).setting("where") == "elsewhere"
    assert store.names() == [NAME]
    with store.creating("after", "e" * 32, b"x"):
        pass
    assert store.setting("where") == "elsewhere"
    assert store.check() == []
    with pytest.raises(InputError, match="null character"):
        store.set_setting("where", "a\0b")


def test_all_who_make_a_setting_at_once_get_the_same(store_url: str) -> None:
    stores = [Store(store_url) for _ in range(8)]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda each: each.setting_or_new("key", lambda: os.urandom(8).hex()), stores))
    assert len(set(found)) == 1
    assert stores[0].setting("key") == found[0] == stores[1].setting_or_new("key", lambda: "another")
    assert stores[0].check() == []


def job_row(id_: str, **values: Any) -> JobRow:
    usual: dict[str, Any] = {"kind": "verify", "state": "waiting", "asked": 5, "due": 5}
    about = {"programme": NAME, "identity": IDENTITY, "arguments": "{}", "askers": '["Ada"]', "head": "00"}
    return JobRow(id=id_, entries=3, **{**usual, **about, **values})


def test_jobs_are_kept_replaced_and_found(store: Store, store_url: str) -> None:
    first, second = job_row("a1"), job_row("b2", state="running", asked=2, kind="whatif")
    over = job_row("c3", state="done", asked=1)
    with store.temporary(writing=True) as rows:
        for each in (first, second, over):
            rows.put_job(each)
        rows.put_data(job_data("c3")[0], [b"x" * 10, b""])
        rows.put_job(replace(first, words="checking", done=2**31 - 1, lease=2**40))
        assert rows.job("b2") == second  # within the same transaction, too
    with Store(store_url).temporary() as rows:
        changed = rows.job("a1")
        assert changed == replace(first, words="checking", done=2**31 - 1, lease=2**40)
        assert rows.job("none") is None
        assert rows.live_jobs() == [second, changed]
        assert rows.ended_jobs() == [over]
        assert rows.jobs_of(IDENTITY, "verify") == [over, changed]
        assert rows.jobs_of("f" * 32, "verify") == []
        assert list(rows.data(job_data("c3")[0])) == [b"x" * 10, b""]
        assert rows.size_of_data(job_data("c3")[0]) == 10
        assert abs(rows.now() / 1000 - time.time()) < 60
        with pytest.raises(InputError, match="opened for reading"):
            rows.put_job(first)
    with store.temporary(writing=True) as rows:
        rows.remove_job(over)
        assert (rows.job("c3"), list(rows.data(job_data("c3")[0]))) == (None, [])
    assert store.check() == []


def test_uploads_are_kept_and_removed_with_their_data(store: Store) -> None:
    row = UploadRow("token", NAME, "Ada", "enrol", "é.csv", 0, "", 3, 7)
    data = os.urandom(3_000_000)
    with store.temporary(writing=True) as rows:
        rows.put_upload(row)
        rows.put_upload(replace(row, token="older", time=6))
        rows.put_data("token", [b"old"] * 5)
        rows.put_data("token", in_parts(data))
    with store.temporary() as rows:
        assert [each.token for each in rows.uploads()] == ["older", "token"]
        assert rows.upload("token") == row
        assert b"".join(rows.data("token")) == data
        assert rows.data_part("token", 3) is None
    with store.temporary(writing=True) as rows:
        rows.remove_upload("token")
        assert rows.upload("token") is None
        assert list(rows.data("token")) == []


def test_who_writes_what_servers_share_is_alone(store: Store) -> None:
    def count(_: int) -> None:
        with store.temporary(writing=True) as rows:
            row = rows.job("a1") or job_row("a1")
            rows.put_job(replace(row, done=row.done + 1))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(count, range(24)))
    with store.temporary() as rows:
        found = rows.job("a1")
        assert found is not None
        assert found.done == 24


@pytest.mark.parametrize("text", ["a\0b", "half a pair \ud800"])
def test_texts_that_a_database_cannot_hold_are_refused(store: Store, text: str) -> None:
    with store.writing(NAME) as session:
        entry(session)
        for write in (
            lambda: session.add_people([0, 1], ["id", text], [b"", b""], ["", ""], ["", ""]),
            lambda: session.add_people([0], ["id"], [b""], [text], [""]),
            lambda: session.numbers_of([text]),
            lambda: session.add_notes(0, {1: text}),
            lambda: session.keep_answer(text, b"", ""),
            lambda: session.keep_answer("key", b"", text),
        ):
            with pytest.raises(InputError, match="must be Unicode without a null character"):
                write()
        session.set_summary({"a": text})
    with pytest.raises(InputError, match="all of which can be seen"), store.creating(text, IDENTITY, SECRET):
        pass
    with pytest.raises(InputError, match="must be Unicode"), store.reading(text):
        pass
    assert store.check() == []


def test_an_answer_is_kept_once(store: Store) -> None:
    with store.writing(NAME) as session:
        session.keep_answer("key", b"request", "answer")
    with pytest.raises(InputError, match="serves one request, got 'key' again"), store.writing(NAME) as session:
        session.keep_answer("key", b"request", "another")
    with store.reading(NAME) as session:
        assert session.answer("key") == (b"request", "answer")


def test_threads_can_share_a_store(store: Store) -> None:
    def count() -> None:
        for _ in range(5):
            with store.writing(NAME) as session:
                session.set_summary({"n": session.summary.get("n", 0) + 1})

    threads = [threading.Thread(target=count) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    with store.reading(NAME) as session:
        assert session.summary == {"n": 40}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_does_not_use_its_parents_connections(store_url: str) -> None:
    code = (
        "import os, sys\n"
        "from meritfair.programme.storage.store import Store\n"
        "store = Store(sys.argv[1])\n"
        "store.names()\n"
        "for child in [os.fork() for _ in range(1)]:\n"
        "    if child == 0:\n"
        "        with store.writing('clinic') as session: session.set_summary({'by': 'child'})\n"
        "        os._exit(0)\n"
        "    assert os.waitpid(child, 0)[1] == 0\n"
        "with store.reading('clinic') as session: print(session.summary)\n"
    )
    make(store_url)
    done = subprocess.run([sys.executable, "-c", code, store_url], capture_output=True, text=True)
    assert done.stdout == "{'by': 'child'}\n", done.stderr


@pytest.mark.slow
def test_a_hundred_thousand_people_go_in_and_out(store: Store) -> None:
    with store.writing(NAME) as session:
        people = add_people(session, 0, 100_000)
    with store.reading(NAME) as session:
        assert session.people() == people
        assert len(session.numbers_of([each.id for each in people])) == 100_000
        assert session.people(range(0, 100_000, 20)) == people[::20]


def test_the_migrations_make_the_tables_that_are_used(store: Store) -> None:
    with store._database.transaction(writing=False) as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True, "version_table": VERSIONS})
        assert compare_metadata(context, METADATA) == []


def test_what_is_up_to_date_is_opened_without_alembic(store_url: str) -> None:
    make(store_url)
    code = (
        "import sys, meritfair.programme\n"
        "assert 'sqlalchemy' not in sys.modules\n"
        "from meritfair.programme.storage.store import Store\n"
        "print(Store(sys.argv[1]).names(), 'alembic' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code, store_url], capture_output=True, text=True)
    assert done.stdout == "['clinic'] False\n", done.stderr


# Where stores are


def test_an_sqlite_file_is_named_by_path_url_or_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "a folder" / "ä %20 store?.db"
    make(str(file))
    assert stat.S_IMODE(file.stat().st_mode) == (0o600 if os.name == "posix" else 0o666)
    assert sorted(each.name for each in file.parent.iterdir()) == [file.name, f"{file.name}-journal"]
    monkeypatch.setenv("MERITFAIR_STORE", str(file))
    monkeypatch.chdir(tmp_path)
    for url in (None, file, f"sqlite:///{str(file).replace('?', '%3F').replace(' %20', '%20%2520')}"):
        assert Store(url).names() == [NAME]
    assert Store("a folder/ä %20 store?.db").names() == [NAME]


def test_the_usual_file_is_in_the_users_data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MERITFAIR_STORE", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    make(None)  # type: ignore[arg-type]
    assert default_file().is_file()
    assert default_file().is_relative_to(tmp_path)
    assert Store().names() == [NAME]


def test_postgresql_urls_can_be_written_in_several_ways(postgresql: Server) -> None:
    store_url = postgresql.fresh_database()
    make(store_url)
    for scheme in ("postgres", "postgresql", "postgresql+psycopg"):
        with_password = re.sub(r"^postgresql://postgres@", f"{scheme}://postgres:hidden%40word@", store_url)
        store = Store(f"{with_password}?application_name=test")
        assert store.names() == [NAME]
        assert store.url == f"{store_url}?application_name=test"
        assert "hidden" not in repr(store)
        store.close()
        assert store.names() == [NAME]


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("mysql://root:hunter2@localhost/x", "a store is PATH, .* got mysql"),
        ("postgresql+asyncpg://root:hunter2@localhost/x", "got postgresql"),
        ("postgresql://root:hunter2@local:host:hunter2/x", "got a URL that cannot be read"),
        ("postgresql://root:hunter2@127.0.0.1:1/x?connect_timeout=2", "root@127.0.0.1:1/x.*: cannot connect. See that"),
        ("postgresql://root@127.0.0.1:1/x?password=hunter2", "127.0.0.1:1/x: cannot connect. See that the server runs"),
        ("sqlite://", "a store is PATH, sqlite:///PATH"),
        ("sqlite:///:memory:", "a store is PATH, sqlite:///PATH"),
    ],
)
def test_what_cannot_be_a_store_is_refused_without_telling_a_password(url: str, told: str) -> None:
    with pytest.raises((InputError, StoreError), match=told) as error:
        Store(url)
    assert "hunter2" not in str(error.value)
    assert error.value.__suppress_context__ or error.value.__cause__ is None


def test_a_wrong_database_or_user_is_told(postgresql: Server) -> None:
    with pytest.raises(StoreError, match=r'cannot connect.*database "nothing" does not exist'):
        Store(postgresql.url("nothing"))
    with pytest.raises(StoreError, match=r'cannot connect.*role "nobody" does not exist'):
        Store(postgresql.url().replace("//postgres@", "//nobody@"))


def test_a_database_of_another_encoding_is_refused(postgresql: Server) -> None:
    postgresql.execute("CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0")
    with pytest.raises(StoreError, match="must have the encoding UTF8, got LATIN1"):
        Store(postgresql.url("latin"))
