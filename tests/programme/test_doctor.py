"""What `meritfair doctor` finds in a store: overwritten bytes, edited rows, lost triggers, a log with holes."""

from __future__ import annotations

import gc
import random
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any
from zlib import compress

import psycopg
import pytest
import sqlalchemy as sa

from meritfair.core.checkup import Check
from meritfair.programme import chain, doctor
from meritfair.programme.ledger.canonical import canonical, from_canonical
from meritfair.programme.storage.access_rows import Counts
from meritfair.programme.storage.database import Database
from meritfair.programme.storage.looking import looking_into
from meritfair.programme.storage.schema import METADATA, checksum
from meritfair.programme.storage.store import Store
from meritfair.programme.storage.temporary_rows import JobRow, UploadRow, job_data
from meritfair.programme.users import Role, Users
from programme.clinics import clinic
from programme.servers import Server
from programme.test_store_failures import harm_of
from programme.writers import FULL

Change = Callable[[sa.Connection], Any]


def make(url: str) -> str:
    """Make a store with two programmes and some users; return it."""
    for name in ("calls", "visits"):
        calls = clinic(url, name=name)
        calls.play()
        calls.play()
        calls.programme.draw(by="Ada", key="third")
    users = Users(Store(url))
    for name in ("Bo", "Cy", "Di"):
        users.add(name, {"*": Role.AUDITOR}, by="Ada")
    return url


@pytest.fixture(scope="module")
def templates() -> dict[str, str]:
    """Stores that were made once, to be copied, by kind."""
    return {}


@pytest.fixture(params=["sqlite", "postgresql"])
def made(request: pytest.FixtureRequest, templates: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> str:
    """The URL of a copy of a store with two programmes and some users."""
    if request.param == "sqlite":
        file = tmp_path_factory.mktemp("made") / "x.db"
        if "sqlite" not in templates:
            templates["sqlite"] = make(f"sqlite:///{tmp_path_factory.mktemp('template') / 'x.db'}")
        shutil.copy(templates["sqlite"].removeprefix("sqlite:///"), file)
        file.chmod(0o600)
        return f"sqlite:///{file}"
    server: Server = request.getfixturevalue("postgresql")
    if "postgresql" not in templates:
        templates["postgresql"] = make(server.fresh_database())
    gc.collect()  # lets go of connections, while which a database cannot be copied
    name = f"made_{len(templates)}"
    templates[name] = server.url(name)
    server.execute(f"CREATE DATABASE {name} TEMPLATE {templates['postgresql'].rsplit('/', 1)[1]}")
    return templates[name]


def look(url: str, **options: Any) -> dict[str, Check]:
    return {each.name: each for each in doctor.check_store(url, **options)}


def problems(url: str, **options: Any) -> dict[str, str]:
    """Return what is found to be wrong, by what was checked."""
    found = look(url, **options)
    assert all(each.advice for each in found.values() if each.state == "problem")
    return {name: each.found for name, each in found.items() if each.state == "problem"}


def edit(url: str, *statements: str) -> None:
    """Change a store past all triggers and foreign keys, which are as they were afterwards."""
    if not url.startswith("sqlite"):
        with psycopg.connect(url) as server:
            server.execute("SET session_replication_role = replica")
            for each in statements:
                server.execute(each.encode())
        return
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)) as connection:
        triggers = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for name, _ in triggers:
            connection.execute(f"DROP TRIGGER {name}")
        for each in statements:
            connection.execute(each)
        for _, text in triggers:
            connection.execute(text)


def test_a_store_that_is_well_has_no_problems(made: str) -> None:
    found = look(made)
    assert problems(made) == {}
    assert "the database refuses edits" in found["append-only"].found
    assert found["users"].found.startswith("3 users, 3 rows of their log")
    assert "the chain and " in found["programme visits"].found


@pytest.mark.parametrize(
    ("change", "name", "words"),
    [
        ("UPDATE entry SET data = digest WHERE seq = 4 AND programme = 1", "programme calls", "entry 4"),
        ("DELETE FROM entry_rows WHERE seq = 2 AND programme = 2", "programme visits", "the table of entry 2"),
        (
            "INSERT INTO entry SELECT programme, 1000, kind, time, digest, checksum, data FROM entry "
            "WHERE programme = 1 AND seq = 2",
            "programme calls",
            "the list of its entries: there are",
        ),
        ("UPDATE person SET group_name = 'x' WHERE number = 7 AND programme = 1", "programme calls", "number 7"),
        ("DELETE FROM vector WHERE programme = 1 AND name = 'here'", "programme calls", "the list of its vectors"),
        ("UPDATE answer SET answer = '{}' WHERE programme = 1", "programme calls", "the answer to 'third'"),
        ("UPDATE programme SET secret = head WHERE id = 1", "database", "the row of programme 'calls'"),
        ("UPDATE store SET programmes = 1", "database", "the row of the store"),
        ("DELETE FROM access_log WHERE id = 2", "users", "the table access_log: there are 2 rows of 3"),
        ("DELETE FROM access_log WHERE id = 3", "users", "the table access_log: there are 2 rows of 3"),
        ("UPDATE access_log SET about = 'Eve' WHERE id = 1", "users", "row 1 of access_log"),
        ("UPDATE access_user SET disabled = 1 WHERE id = 1", "users", "row 1 of access_user"),
        ("UPDATE access SET logged = 2", "users", "row 1 of access"),
    ],
)
def test_rows_that_were_edited_are_found(made: str, change: str, name: str, words: str) -> None:
    edit(made, change)
    found = problems(made)
    assert list(found) == [name]
    assert words in found[name]


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ("UPDATE job SET words = 'zz'", "row "),
        ("UPDATE temporary_part SET data = digest", "part 0 of "),
        ("UPDATE upload SET round = 7", "row u of upload"),
    ],
)
def test_what_servers_keep_for_a_while_is_read_too(made: str, change: str, word: str) -> None:
    store = Store(made)
    with store.temporary(writing=True) as rows:
        rows.put_job(JobRow("a", "k", "calls", "i", "{}", "[]", 1, 1, "done", "h", 3))
        rows.put_data(job_data("a")[0], [b"1"])
        rows.put_upload(UploadRow("u", "calls", "Ada", "enrol", "x.csv", 0, "", 1, 1))
    assert look(made)["servers' work"].found.startswith("2 results and uploads")
    edit(made, change)
    found = look(made)["servers' work"]
    assert (found.state, word in found.found) == ("warning", True)
    with store.temporary() as rows:
        assert (rows.job("a") is None) == ("job" in change)
        assert (rows.uploads() == []) == ("upload" in change)


def test_what_is_replaced_on_sqlite_is_refused(tmp_path: Path) -> None:
    """SQLite deletes what it replaces without asking the triggers that refuse deletions."""
    make(f"sqlite:///{tmp_path / 'x.db'}")
    columns = {
        "entry": "programme, seq, kind, time, digest, checksum, data",
        "entry_rows": "programme, seq, digest, data",
        "access_log": "id, time, done_by, kind, about, detail, checksum",
    }
    with closing(sqlite3.connect(tmp_path / "x.db", isolation_level=None)) as connection:
        for table, names in columns.items():
            before = connection.execute(f"SELECT * FROM {table}").fetchall()
            assert before
            by_number = names.replace("seq", "seq + 1000", 1) if "seq" in names else names
            for statement in (
                f"INSERT OR REPLACE INTO {table} SELECT * FROM {table} LIMIT 1",
                f"INSERT OR REPLACE INTO {table} (rowid, {names}) SELECT rowid, {by_number} FROM {table} LIMIT 1",
                f"INSERT INTO {table} SELECT * FROM {table} LIMIT 1 OFFSET 0 "
                f"ON CONFLICT DO UPDATE SET {names.rpartition(' ')[2]} = 0",
                f"REPLACE INTO {table} SELECT * FROM {table} LIMIT 1",
                f"UPDATE OR REPLACE {table} SET {names.partition(',')[0]} = 1",
            ):
                with pytest.raises(sqlite3.IntegrityError, match="cannot be edited"):
                    connection.execute(statement)
            assert connection.execute(f"SELECT * FROM {table}").fetchall() == before


@pytest.mark.parametrize("column", ["external_id", "group_name", "staff"])
def test_a_text_that_is_none_any_more_is_found(tmp_path: Path, column: str) -> None:
    clinic(f"sqlite:///{tmp_path / 'x.db'}")
    edit(f"sqlite:///{tmp_path / 'x.db'}", f"UPDATE person SET {column} = CAST(X'C3' AS TEXT) WHERE number = 7")
    assert "the database is damaged" in problems(f"sqlite:///{tmp_path / 'x.db'}")["programme calls"]


def test_a_column_that_is_gone_is_found(made: str) -> None:
    edit(made, "ALTER TABLE upload RENAME COLUMN size TO siz")
    assert list(problems(made, quick=True)) == ["database"]


def test_a_row_of_the_log_is_missed_whoever_corrects_the_count(made: str) -> None:
    fewer = Counts(1, 3, 0, 0, 2).columns()
    change = f"UPDATE access SET logged = 2, checksum = {fewer['checksum']}"
    edit(made, "DELETE FROM access_log WHERE id = 2", change)
    assert "the table access_log: row 2 is missing" in problems(made)["users"]


def rewritten(url: str, seq: int, change: Callable[[dict[str, Any]], Any], rows: bytes | None = None) -> None:
    """Change an entry of the first programme, with all of its own digests and checksums, as its owner could."""
    store = Store(url)
    with store.reading("calls") as session:
        _, data, _ = next(session.entries(seq, seq + 1))
        identity = session.identity
    values = from_canonical(data)
    change(values)
    new = canonical(values)
    digest = sha256(new).digest()
    right = checksum(identity, seq, values["kind"], values["time"], digest)
    where = f"WHERE programme = 1 AND seq = {seq}"
    literal = "X'{}'" if url.startswith("sqlite") else "decode('{}', 'hex')"
    blob = literal.format
    statements = [
        f"UPDATE entry SET data = {blob(new.hex())}, digest = {blob(digest.hex())}, checksum = {right} {where}"
    ]
    if rows is not None:
        place = sha256(f"{identity} rows {seq} ".encode() + rows).hexdigest()
        statements.append(f"UPDATE entry_rows SET data = {blob(compress(rows).hex())}, digest = {blob(place)} {where}")
    edit(url, *statements)


def test_an_entry_that_was_rewritten_with_its_digest_breaks_the_chain(made: str) -> None:
    rewritten(made, 3, lambda entry: entry.update(by="Eve"))
    found = problems(made)
    assert list(found) == ["programme calls"]
    assert "entry 4: the chain is broken" in found["programme calls"]
    assert problems(made, quick=True) == {}  # which says that it has not looked
    assert look(made, quick=True)["ledgers"].state == "skipped"


def test_a_table_that_was_rewritten_with_its_digest_is_not_that_of_its_entry(made: str) -> None:
    with Store(made).reading("calls") as session:
        rows = bytearray(session.rows(3) or b"")
    rows[0] ^= 1
    rewritten(made, 3, lambda entry: None, bytes(rows))
    assert "entry 3: the table is not the one" in problems(made)["programme calls"]


def test_triggers_of_sqlite_that_are_gone_or_changed_are_found(tmp_path: Path) -> None:
    url = make(f"sqlite:///{tmp_path / 'x.db'}")
    with closing(sqlite3.connect(tmp_path / "x.db", isolation_level=None)) as connection:
        triggers = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        assert len(triggers) == 9
        for name, text in triggers:
            connection.execute(f"DROP TRIGGER {name}")
            assert problems(url, quick=True) == {"append-only": f"the trigger {name} is missing"}
            connection.execute(text.replace("BEGIN", "AND 0 BEGIN" if "WHEN" in text else "WHEN 0 BEGIN"))
            assert problems(url, quick=True) == {"append-only": f"the trigger {name} is not as it was made"}
            connection.execute(f"DROP TRIGGER {name}")
            connection.execute(text)
            assert problems(url, quick=True) == {}


@pytest.mark.parametrize("table", ["entry", "entry_rows", "access_log"])
def test_triggers_of_postgresql_that_are_gone_or_off_are_found(postgresql: Server, table: str) -> None:
    url = postgresql.fresh_database()
    clinic(url)
    trigger, said = f"{table}_no_edit", f"the trigger {table}_no_edit "
    function = "meritfair_refuse_log" if table == "access_log" else "meritfair_refuse"
    made = f"CREATE TRIGGER {trigger} BEFORE UPDATE OR DELETE OR TRUNCATE ON {table} "
    made += f"FOR EACH STATEMENT EXECUTE FUNCTION {function}()"
    dropped = f"DROP TRIGGER {trigger} ON {table}"
    changes = {
        f"ALTER TABLE {table} DISABLE TRIGGER {trigger}": "is disabled",
        f"ALTER TABLE {table} DISABLE TRIGGER ALL": "is disabled",
        f"ALTER TABLE {table} ENABLE REPLICA TRIGGER {trigger}": "is disabled",
        dropped: "is missing",
        f"{dropped}; {made.replace('UPDATE OR ', '')}": "is not as it was made",
        f"{dropped}; {made.replace('EXECUTE', 'WHEN (false) EXECUTE')}": "is not as it was made",
    }
    for change, words in changes.items():
        postgresql.execute(change, url.rsplit("/", 1)[1])
        assert problems(url, quick=True) == {"append-only": said + words}, change
        postgresql.execute(f"DROP TRIGGER IF EXISTS {trigger} ON {table}; {made}", url.rsplit("/", 1)[1])
        assert problems(url, quick=True) == {}
    database = url.rsplit("/", 1)[1]
    nothing = (
        f"CREATE OR REPLACE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$"
    )
    postgresql.execute(nothing, database)
    assert "is not as it was made" in problems(url, quick=True)["append-only"]


def test_a_database_that_passes_triggers_by_is_found(postgresql: Server) -> None:
    url = postgresql.fresh_database()
    clinic(url)
    postgresql.execute(f"ALTER DATABASE {url.rsplit('/', 1)[1]} SET session_replication_role = replica")
    assert problems(url, quick=True) == {"append-only": "session_replication_role is replica, so no trigger is at work"}


def test_a_ledger_is_read_in_short_transactions_while_others_write(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls, told = clinic(store_url), list[tuple[int, int]]()
    calls.play()
    monkeypatch.setattr(chain, "_TURN", 0.0)  # one entry in each

    def tell(done: int, total: int) -> None:
        told.append((done, total))

    database, opened = Database(store_url), list[str]()

    def looking(database: Database, name: str) -> Any:
        if len(opened) == 3:
            calls.programme.draw(by="Bo")
        opened.append(name)
        return looking_into(database, name)

    monkeypatch.setattr(chain, "looking_into", looking)
    found = chain.check_chain(database, "calls", tell)
    assert found.problems == ()
    assert found.entries == 6
    assert len(opened) == 7
    assert told[-1][0] == told[-1][1]
    assert [done for done, _ in told] == sorted(done for done, _ in told)


def rows_of(file: Path) -> Any:
    """Return all rows of a file, and its triggers."""
    with closing(sqlite3.connect(file)) as connection:
        found = [connection.execute(f"SELECT * FROM {name}").fetchall() for name in sorted(METADATA.tables)]
        return [*found, connection.execute("SELECT sql FROM sqlite_master WHERE type = 'trigger'").fetchall()]


@pytest.mark.slow
def test_overwritten_bytes_of_an_sqlite_file_are_found_or_harmless(tmp_path: Path) -> None:
    make(f"sqlite:///{tmp_path / 'whole.db'}")
    whole, rng, file = (tmp_path / "whole.db").read_bytes(), random.Random(5), tmp_path / "x.db"
    right = rows_of(tmp_path / "whole.db")
    step, found = 1 if FULL else len(whole) // 250, 0
    for place in range(rng.randrange(step), len(whole), step):
        data = bytearray(whole)
        data[place] = rng.choice([byte for byte in range(256) if byte != whole[place]])
        file.write_bytes(data)
        file.chmod(0o600)
        if problems(f"sqlite:///{file}"):
            found += 1
        else:
            assert rows_of(file) == right, place
    print(f"\n{found} of {len(range(0, len(whole), step))} bytes were found, the others harmless")
    assert found * step > len(whole) / 8


@pytest.mark.slow
def test_whatever_is_changed_in_rows_of_postgresql_is_found(postgresql: Server) -> None:
    url = make(postgresql.fresh_database())
    with Store(url).access(writing=True) as rows:
        empty = {"label": "", "role": 2, "programme": "", "created": "", "expires": "", "revoked": ""}
        rows.add_token(user_id=1, kind="api", digest=bytes(32), **empty)
    with psycopg.connect(url) as connection:
        tables = [name for name in METADATA.tables if connection.execute(f"SELECT 1 FROM {name}".encode()).fetchone()]
    edits = [(name, harm_of(name, each.name)) for name in tables for each in METADATA.tables[name].columns]
    edits += [(name, f"DELETE FROM {name} WHERE ctid = (SELECT max(ctid) FROM {name})") for name in tables]
    for table, change in edits:
        with psycopg.connect(url) as connection:
            connection.execute("SET session_replication_role = replica")
            connection.execute(f"CREATE TABLE copied AS SELECT * FROM {table}".encode())
            assert connection.execute(change.encode()).rowcount == 1
            connection.commit()
            assert problems(url), change
            connection.execute(f"DELETE FROM {table}".encode())
            connection.execute(f"INSERT INTO {table} SELECT * FROM copied".encode())
            connection.execute("DROP TABLE copied")
    assert problems(url) == {}
