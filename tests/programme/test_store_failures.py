"""Stores that are full, read-only, damaged, of another schema: a clear error, no harm, and they go on afterwards."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, closing
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest
from sqlalchemy import event

import meritfair as mf
from meritfair.programme import People
from meritfair.programme.storage.database import Database
from meritfair.programme.storage.schema import HEAD, METADATA, TEMPORARY
from meritfair.programme.storage.store import Store, StoreError
from meritfair.programme.storage.temporary_rows import JobRow, UploadRow, job_data
from meritfair.programme.storage.upgrading import MIGRATIONS, upgrade
from programme.disks import small_disk
from programme.servers import Server
from programme.writers import (
    FULL,
    IDENTITY,
    NAME,
    SECRET,
    bodies,
    entry,
    make,
    process,
    upgrade_with,
    write_as_nobody,
)

NEXT = str(int(HEAD) + 1)
TIME = "2026-11-17T09:00:00Z"
SOON = 120  # seconds: whoever hangs is an error, not a wait for ever


def fill(url: str) -> Store:
    """Make a store with something of everything."""
    store, rng = Store(url), np.random.default_rng(5)
    for name, identity in ((NAME, IDENTITY), ("second", "f" * 32)):
        with store.creating(name, identity, SECRET) as session:
            for number in range(6):
                entry(session, [name, number], rng.bytes(400 * number) if number % 2 else None)
            numbers = range(30)
            salts = [rng.bytes(16) for _ in numbers]
            session.add_people(numbers, [f"id {n}" for n in numbers], salts, ["a", "b"] * 15, ["Ada"] * 30)
            session.add_notes(2, {3: "she moved", 4: "he was ill"})
            for number in range(4):
                session.put_vector("due", rng.bytes(300), number)
                session.keep_answer(f"key {number}", rng.bytes(32), f"answer {number}")
            session.put_vector("account", rng.bytes(900))
            session.set_summary({"round": 3})
    fill_users(store)
    store.set_setting("key", "first")
    store.set_setting("where", "/heads")
    fill_temporary(store)
    return store


def fill_users(store: Store) -> None:
    values = {"role": 2, "programme": NAME, "created": TIME, "expires": "", "revoked": ""}
    with store.access(writing=True) as rows:
        ada = rows.add_user("Ada", "$argon2id$", '{"*": 4}', TIME)
        for kind in ("api", "session"):
            rows.add_token(user_id=ada.id, kind=kind, digest=sha256(kind.encode()).digest(), label="x", **values)
        rows.add_log(TIME, "serve", "add", "Ada", "admin in *")


def fill_temporary(store: Store) -> None:
    with store.temporary(writing=True) as rows:
        rows.put_job(JobRow("f00d", "verify", NAME, IDENTITY, "{}", '["Ada"]', 1, 1, "done", "00", 6))
        rows.put_data(job_data("f00d")[0], [b"whole"])
        rows.put_upload(UploadRow("token", NAME, "Ada", "enrol", "people.csv", 0, "", 5, 1))
        rows.put_data("token", [b"id\na\n"])


def everyone(store: Store) -> Any:
    """Return all that a store can tell about users."""
    with store.access() as rows:
        users, tokens, log = rows.users(), rows.tokens(), rows.log()
        assert rows.token(sha256(b"api").digest()) in [None, *tokens]  # a lost index opens nothing
        return [users, tokens, log]


def everything(store: Store) -> Any:
    """Return all that a store can tell."""
    found: list[Any] = [store.names(), everyone(store), [store.setting(name) for name in ("key", "where", "none")]]
    for name in (NAME, "second"):
        with store.reading(name) as s:
            found += [s.identity, s.name, s.secret, s.length, s.head, s.summary, list(s.entries()), bodies(s)]
            found += [[s.rows(seq) for seq in range(6)], s.vectors("due"), s.vectors("account")]
            found += [[s.vector("due", number) for number in range(6)], s.vector("account"), s.vector("none")]
            found += [s.people(), s.people([3, 7]), s.people(range(40)), s.numbers_of(["id 5"]), s.numbers_of(["x"])]
            found += [s.numbers_of([f"id {number}" for number in range(40)]), s.notes(), s.notes(3)]
            found += [[s.answer(f"key {number}") for number in range(6)]]
    return found


def harm_is_noticed(url: str, right: Any) -> bool:
    """Return whether a `StoreError` names the damage; else all must be as it was."""
    try:
        found = everything(Store(url))
    except StoreError:
        return True
    assert found == right
    return False


# Full


def fill_up(session: Any) -> None:
    for _ in range(200):
        entry(session, rows=os.urandom(50_000))


def works_again(url: str, right: Any) -> None:
    """Check that nothing has changed, and that it can be written to."""
    store = Store(url)
    assert store.check() == []
    assert everything(store) == right
    with store.writing(NAME) as session:
        fill_up(session)
    assert store.check() == []


def test_a_full_sqlite_database_is_told_and_works_again(tmp_path: Path) -> None:
    url = str(tmp_path / "x.db")
    right = everything(fill(url))
    store = Store(url)

    @event.listens_for(store._database.engine, "connect")
    def limit(connection: sqlite3.Connection, _: object) -> None:
        connection.execute("PRAGMA max_page_count = 100")

    with pytest.raises(StoreError, match=r"no space left.*Free some space.*full"), store.writing(NAME) as session:
        fill_up(session)
    works_again(url, right)


@pytest.fixture
def disk() -> Iterator[Path]:
    """A disk of a megabyte."""
    with small_disk(1) as folder:
        yield folder


def test_a_full_disk_is_told_and_sqlite_works_again(disk: Path) -> None:
    url = str(disk / "x.db")
    right = everything(fill(url))
    with pytest.raises(StoreError, match=r"no space left.*Free some space.*full"), Store(url).writing(NAME) as session:
        fill_up(session)
    assert everything(Store(url)) == right  # even now
    (disk / "ballast").write_bytes(bytes(shutil.disk_usage(disk).free - 40_000))
    with pytest.raises(StoreError, match="no space left"), Store(url).writing(NAME) as session:
        entry(session, rows=os.urandom(100_000))
    subprocess.run(["mount", "-o", "remount,size=50m", disk], check=True)
    works_again(url, right)


def test_a_full_disk_is_told_and_postgresql_works_again(postgresql: Server) -> None:
    url = postgresql.fresh_database()
    right = everything(fill(url))
    name = url.rpartition("/")[2]
    postgresql.execute(
        "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.seq > 20 THEN "
        "RAISE 'could not extend file: No space left on device' USING ERRCODE = '53100'; END IF; RETURN NEW; END $$",
        name,
    )
    postgresql.execute(
        "CREATE TRIGGER full_disk BEFORE INSERT ON entry FOR EACH ROW EXECUTE FUNCTION full_disk()", name
    )
    store = Store(url)
    with pytest.raises(StoreError, match=r"no space left.*Free some space.*extend"), store.writing(NAME) as session:
        fill_up(session)
    postgresql.execute("DROP TRIGGER full_disk ON entry", name)
    works_again(url, right)


# Read-only


def test_a_read_only_store_can_be_read_and_says_so_when_written_to(store_url: str) -> None:
    right = everything(fill(store_url))
    read_only = f"{store_url}?mode=ro"
    if not store_url.startswith("sqlite"):
        with psycopg.connect(store_url, autocommit=True) as connection:
            connection.execute("CREATE ROLE reader LOGIN")
            connection.execute("ALTER ROLE reader SET default_transaction_read_only = on")
            connection.execute("GRANT ALL ON ALL TABLES IN SCHEMA public TO reader")
        read_only = store_url.replace("//postgres@", "//reader@")
    store = Store(read_only)
    assert everything(store) == right
    assert store.check() == []
    with pytest.raises(StoreError, match=r"is read-only; nothing was saved\. Look at"), store.writing(NAME) as session:
        entry(session)
    works_again(store_url, right)


@pytest.mark.skipif(os.name != "posix", reason="permissions are others there")
@pytest.mark.parametrize(
    ("folder_mode", "file_mode", "told"),
    [(0o555, 0o444, "is read-only"), (0o555, 0o000, "cannot be opened"), (0o000, 0o644, "cannot be opened or made")],
)
def test_missing_permissions_are_told(folder_mode: int, file_mode: int, told: str) -> None:
    with tempfile.TemporaryDirectory() as parent, ExitStack() as stack:
        Path(parent).chmod(0o755)
        folder = Path(parent) / "folder"
        file = folder / "x.db"
        right = everything(fill(str(file)))
        file.chmod(file_mode)
        folder.chmod(folder_mode)
        stack.callback(folder.chmod, 0o755)
        with process(write_as_nobody, str(file)) as (_, pipe):
            assert pipe.poll(SOON)
            assert told in pipe.recv()
        folder.chmod(0o755)
        file.chmod(0o644)
        works_again(str(file), right)


def test_a_store_cannot_be_made_where_nothing_can(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreError, match=r"x\.db: the file cannot be opened or made \(.*: '.*file'\)"):
        Store(str(tmp_path / "file" / "x.db"))
    with pytest.raises(StoreError, match=r"the file cannot be opened or made .*No such file"):
        Store(f"sqlite:///{tmp_path / 'none.db'}?mode=ro")
    with pytest.raises(StoreError, match="the database file cannot be opened"):
        Store(str(tmp_path))
    assert [each.name for each in tmp_path.iterdir()] == ["file"]


# Locked


def test_a_store_that_stays_locked_is_told(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make(store_url)
    monkeypatch.setattr("meritfair.programme.storage.database.PATIENCE", 0.1)
    monkeypatch.setattr("meritfair.programme.storage.database._WRITING", "SET LOCAL lock_timeout = '100ms'")
    one, other = Store(store_url), Store(store_url)
    with one.writing(NAME) as session:
        with pytest.raises(StoreError, match="kept the database locked"), other.writing(NAME):
            pass
        entry(session)
    with other.writing(NAME) as session:
        assert session.length == 1


# Damaged


def test_a_file_that_is_no_store_is_told(tmp_path: Path) -> None:
    file = tmp_path / "x.db"
    file.write_text("id,state\n" * 1000)
    with pytest.raises(StoreError, match=r"x\.db: the file is damaged, or is not an SQLite database"):
        Store(str(file))
    file.write_text("")
    with pytest.raises(StoreError, match=r"x\.db: the file is empty, so it was cut off\. Restore the last backup"):
        Store(str(file))
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TABLE another (x)")
    with pytest.raises(StoreError, match=r"x\.db: this is a database, but not one of programmes\. Name another file"):
        Store(str(file))


@pytest.mark.slow
def test_flipped_bits_of_an_sqlite_file_are_noticed_or_harmless(tmp_path: Path) -> None:
    right = everything(fill(str(tmp_path / "whole.db")))
    whole, rng = (tmp_path / "whole.db").read_bytes(), random.Random(8)
    times, noticed = 20_000 if FULL else 150, 0
    for _ in range(times):
        data = bytearray(whole)
        for place in rng.choices(range(len(data)), k=rng.choice([1, 1, 1, 20])):
            data[place] ^= 1 << rng.randrange(8)
        (tmp_path / "x.db").write_bytes(data)
        noticed += harm_is_noticed(str(tmp_path / "x.db"), right)
    print(f"\n{noticed} of {times} were noticed, the others harmless")
    assert noticed > times / 4


@pytest.mark.slow
def test_overwritten_and_swapped_pages_of_an_sqlite_file_are_noticed_or_harmless(tmp_path: Path) -> None:
    right = everything(fill(str(tmp_path / "whole.db")))
    whole, rng = (tmp_path / "whole.db").read_bytes(), random.Random(9)
    pages = [whole[start : start + 4096] for start in range(0, len(whole), 4096)]
    times, noticed = 2000 if FULL else 40, 0
    for time in range(times):
        one, other = rng.sample(range(len(pages)), 2)
        changed = list(pages)
        changed[one] = bytes(4096) if time % 2 else pages[other]
        (tmp_path / "x.db").write_bytes(b"".join(changed))
        noticed += harm_is_noticed(str(tmp_path / "x.db"), right)
    print(f"\n{noticed} of {times} were noticed, the others harmless")
    assert noticed > times / 2


@pytest.mark.slow
def test_a_cut_sqlite_file_is_noticed(tmp_path: Path) -> None:
    right = everything(fill(str(tmp_path / "whole.db")))
    whole, rng = (tmp_path / "whole.db").read_bytes(), random.Random(7)
    for length in [0, 1, 4096, *(rng.randrange(len(whole)) for _ in range(1000 if FULL else 30))]:
        (tmp_path / "x.db").write_bytes(whole[:length])
        assert harm_is_noticed(str(tmp_path / "x.db"), right), length


@pytest.mark.slow
def test_whatever_is_changed_in_rows_of_postgresql_is_noticed(postgresql: Server) -> None:
    url = postgresql.fresh_database()
    right = everything(fill(url))
    kept = [table for table in METADATA.sorted_tables if table not in TEMPORARY]
    edits = [(table.name, harm_of(table.name, each.name)) for table in kept for each in table.columns]
    edits += [(each.name, f"DELETE FROM {each} WHERE ctid = (SELECT max(ctid) FROM {each})") for each in kept]
    for table, edit in edits:
        with psycopg.connect(url) as connection:
            connection.execute("SET session_replication_role = replica")  # no triggers, no foreign keys
            connection.execute(f"CREATE TABLE copied AS SELECT * FROM {table}".encode())
            assert connection.execute(edit.encode()).rowcount == 1
            connection.commit()
            assert harm_is_noticed(url, right), edit
            assert not FULL or Store(url).check(), edit
            connection.execute(f"DELETE FROM {table}".encode())
            connection.execute(f"INSERT INTO {table} SELECT * FROM copied".encode())
            connection.execute("DROP TABLE copied")
    assert everything(Store(url)) == right


def harm_of(table: str, column: str) -> str:
    """Return a statement that changes one value of a column."""
    kind = str(METADATA.tables[table].c[column].type)
    new = {
        "TEXT": f"overlay({column} placing 'ß' from 1 for 1)",
        "BLOB": f"set_byte({column}, 1, get_byte({column}, 1) # 4)",
    }.get(kind, f"{column} + 1000")
    return f"UPDATE {table} SET {column} = {new} WHERE ctid = (SELECT max(ctid) FROM {table})"


@pytest.mark.parametrize(
    ("edit", "what"),
    [
        ("UPDATE programme SET length = length + 1 WHERE id = 1", "the row of programme 'clinic'"),
        ("UPDATE entry SET data = digest WHERE seq = 4 AND programme = 1", "programme 'clinic': entry 4"),
        ("DELETE FROM entry WHERE seq = 5 AND programme = 1", "programme 'clinic': entry 5"),
        ("UPDATE entry_rows SET data = digest WHERE seq = 3", "the table of entry 3"),
        ("DELETE FROM entry_rows WHERE seq = 3", "the table of entry 3"),
        ("UPDATE vector SET data = digest WHERE round = 2", "vector 'due' of round 2"),
        ("UPDATE person SET group_name = 'x' WHERE number = 17", "the row of person number 17"),
        ("DELETE FROM person WHERE number = 17", "the list of its people: there are 29 of 30"),
        ("UPDATE note SET text = 'x' WHERE number = 3", "a row of its notes"),
        ("UPDATE answer SET answer = 'x' WHERE key = 'key 2'", "the answer to 'key 2'"),
        ("UPDATE store SET programmes = 1", "the row of the store"),
        ("UPDATE store_setting SET value = 'x' WHERE name = 'key'", "the setting 'key' of the store"),
        ("DELETE FROM store_setting WHERE name = 'key'", "the settings of the store: there are 1 of 2"),
        ("UPDATE job SET askers = '[]'", "row f00d of job"),
        ("UPDATE upload SET done_by = 'Eve'", "row token of upload"),
        ("UPDATE temporary_part SET data = digest WHERE owner = 'token'", "part 0 of token"),
        ("UPDATE temporary_part SET data = digest WHERE owner <> 'token'", "part 0 of f00d result"),
        ("UPDATE access_user SET roles = '{\"*\": 1}'", "row 1 of access_user"),
        ("UPDATE access_token SET revoked = 'x' WHERE id = 2", "row 2 of access_token"),
        ("DELETE FROM access_token WHERE id = 2", "the table access_token: there are 1 rows of 2"),
        ("DELETE FROM access_log", "the table access_log: there are 0 rows of 1"),
        ("UPDATE access SET users = 2", "row 1 of access"),
    ],
)
def test_errors_name_what_is_damaged(store_url: str, edit: str, what: str) -> None:
    store = fill(store_url)
    if store._database.is_sqlite:
        with closing(sqlite3.connect(store._database.file, isolation_level=None)) as connection:
            for (trigger,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
                connection.execute(f"DROP TRIGGER {trigger}")
            connection.execute(edit)
    else:
        with psycopg.connect(store_url) as server:
            server.execute("SET session_replication_role = replica")  # no triggers, no foreign keys
            server.execute(edit.encode())
    told = store.check()
    assert any(f"{what} is not as it was written" in each or f"{what}, which is not" in each for each in told), told


# Other schemas


LATER = '''
"""A later schema, as another version may have one."""

import os
import signal
from pathlib import Path

import sqlalchemy as sa
from alembic import op

revision = "{after}"
down_revision = "{head}"


def die_at(point: int) -> None:
    if (Path(__file__).parents[1] / f"die at {{point}}").exists():
        os.kill(os.getpid(), getattr(signal, "SIGKILL", signal.SIGTERM))


def upgrade() -> None:
    die_at(0)
    op.add_column("person", sa.Column("phone", sa.Text(), nullable=True))
    die_at(1)
    op.execute("UPDATE person SET phone = 'none'")
    die_at(2)
    with op.batch_alter_table("note") as batch:
        batch.alter_column("text", new_column_name="words")
    die_at(3)
'''


@pytest.fixture
def later(tmp_path: Path) -> Path:
    """The migrations of a later version."""
    folder = tmp_path / "later"
    shutil.copytree(MIGRATIONS, folder, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "versions" / f"schema_{NEXT}.py").write_text(LATER.format(head=HEAD, after=NEXT))
    return folder


def columns(url: str) -> list[str]:
    with Database(url).transaction(writing=False) as connection:
        return list(connection.exec_driver_sql("SELECT * FROM person").keys())


@pytest.mark.slow
def test_an_upgrade_that_is_killed_recovers_and_a_newer_schema_is_refused(store_url: str, later: Path) -> None:
    right = everything(fill(store_url))
    for point in range(4):
        (later / f"die at {point}").touch()
        with process(upgrade_with, store_url, later) as (child, _):
            child.join(SOON)
            assert child.exitcode not in (0, 1, None)  # a signal, not an error
        (later / f"die at {point}").unlink()
        store = Store(store_url)  # of the schema that was
        assert store.check() == []
        assert everything(store) == right
        assert "phone" not in columns(store_url)
    with ExitStack() as stack:
        pipes = [stack.enter_context(process(upgrade_with, store_url, later))[1] for _ in range(4)]
        assert [pipe.poll(SOON) and pipe.recv() for pipe in pipes] == ["done"] * 4  # several may try at once
    assert columns(store_url)[-1] == "phone"
    with pytest.raises(StoreError, match=rf"the schema is '{NEXT}', and .* meritfair knows none after '{HEAD}'"):
        Store(store_url)
    upgrade(Database(store_url), later)  # nothing left to do
    assert columns(store_url).count("phone") == 1


def test_an_upgrade_that_fails_changes_nothing(store_url: str, later: Path) -> None:
    right = everything(fill(store_url))
    script = later / "versions" / f"schema_{NEXT}.py"
    script.write_text(script.read_text() + '    op.execute("UPDATE nothing SET x = 1")\n')
    with pytest.raises(StoreError, match="nothing"):
        upgrade(Database(store_url), later)
    assert everything(Store(store_url)) == right
    assert "phone" not in columns(store_url)


def test_a_backup_that_fails_on_a_full_disk_leaves_nothing_behind(tmp_path: Path) -> None:
    """In a process of its own, whose files may not grow beyond a limit."""
    source = tmp_path / "a.db"
    programme = mf.programme.open(f"sqlite:///{source}", "calls")
    programme.create(1, by="Ada")
    programme.enrol(People([f"p{number}" for number in range(2000)]), by="Ada")
    programme.store.close()
    folder = tmp_path / "backups"
    folder.mkdir()
    script = (
        "import resource, sys; from pathlib import Path\n"
        "from meritfair.programme.storage.backups import back_up\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]), resource.RLIM_INFINITY))\n"
        "back_up(sys.argv[1], Path(sys.argv[2]))\n"
    )
    for limit in (20_000, 100_000):
        words = [sys.executable, "-c", script, str(source), str(folder / "b.db"), str(limit)]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        assert "nothing was saved" in done.stderr
        assert list(folder.iterdir()) == []
