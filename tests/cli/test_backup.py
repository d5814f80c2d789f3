"""`meritfair backup` and `meritfair restore`: nothing is lost, whatever is handed to them, on either database."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import stat
import subprocess
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

import meritfair as mf
from meritfair.programme import People
from meritfair.programme.storage.database import Database
from meritfair.programme.storage.looking import look_at
from meritfair.programme.storage.store import Store
from meritfair.programme.storage.temporary_rows import UploadRow
from programme.clinics import clinic
from programme.conftest import postgresql as postgresql
from programme.conftest import store_url as store_url
from programme.servers import Server

Command = Callable[..., Any]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.delenv("MERITFAIR_STORE", raising=False)


def new_store(url: str, request: pytest.FixtureRequest) -> str:
    """The URL of a store that is not there yet, on the same kind of database."""
    if url.startswith("sqlite"):
        return "restored.db"
    server: Server = request.getfixturevalue("postgresql")
    return server.fresh_database()


def head_of(url: str, name: str = "calls") -> str:
    return mf.programme.open(url, name).status().head


@pytest.mark.slow
def test_there_and_back(command: Command, store_url: str, request: pytest.FixtureRequest) -> None:
    made = clinic(store_url)
    made.play()
    clinic(store_url, name="other")
    head = head_of(store_url)
    Path("kept").mkdir()
    answer = command("backup", "kept", "--store", store_url)
    assert answer.code == 0
    (file,) = Path("kept").iterdir()
    assert str(file) in answer.out
    assert head in answer.words
    assert "calls: 6 entries" in answer.words
    assert os.name != "posix" or stat.S_IMODE(file.stat().st_mode) == 0o600
    made.play()  # what comes after is not in it

    to = new_store(store_url, request)
    back = json.loads(command("restore", file, "--store", to, "--json").out)
    assert [each["name"] for each in back["programmes"]] == ["calls", "other"]
    assert back["programmes"][0]["head"] == head
    assert back["kept"] is None
    restored = mf.programme.open(to, "calls")
    assert restored.verify(heads=[head]).whole
    assert not restored.verify(heads=[head_of(store_url)]).whole  # a head that was published later
    assert restored.draw(by="Ada").number == 2


@pytest.mark.slow
def test_backups_during_writes(command: Command, store_url: str, request: pytest.FixtureRequest) -> None:
    programme = clinic(store_url).programme
    done = threading.Event()

    def write() -> None:
        for number in range(1000):
            if done.is_set():
                break
            programme.enrol(People([f"new {number}"], ["north"]), by="Ada")

    writer = threading.Thread(target=write)
    writer.start()
    try:
        made = [json.loads(command("backup", f"{n}.backup", "--store", store_url, "--json").out) for n in range(4)]
    finally:
        done.set()
        writer.join()
    assert len({each["programmes"][0]["entries"] for each in made}) > 1
    for each in made:
        to = new_store(store_url, request)
        back = json.loads(command("restore", each["file"], "--store", to, "--json").out)
        assert back["programmes"] == each["programmes"]  # just what was said when it was made
        assert mf.programme.open(to).verify(heads=[each["programmes"][0]["head"]]).whole
        if not to.startswith("postgresql"):
            Path(to).unlink()


def test_what_servers_share_for_a_while_is_left_out(
    command: Command, store_url: str, request: pytest.FixtureRequest
) -> None:
    store = clinic(store_url).programme.store
    store.set_setting("signing key", "kept")
    with store.temporary(writing=True) as rows:
        rows.put_upload(UploadRow("token", "calls", "Ada", "enrol", "people.csv", 0, "", 5, 1))
        rows.put_data("token", [b"id\nsomeone who is named only here\n" * 50])
    made = json.loads(command("backup", "copy", "--store", store_url, "--json").out)
    assert b"someone who is named only here" not in Path(made["file"]).read_bytes()
    to = new_store(store_url, request)
    command("restore", "copy", "--store", to)
    restored = Store(to)
    assert restored.setting("signing key") == "kept"
    with restored.temporary() as rows:
        assert rows.uploads() == []
    with store.temporary() as rows:
        assert len(rows.uploads()) == 1, "the store itself keeps it"


def test_what_is_replaced_is_kept(command: Command) -> None:
    made = clinic("store.db")
    command("backup", "copy.db", "--store", "store.db")
    before = head_of("store.db")
    made.programme.enrol(People(["late"], ["north"]), by="Ada")
    later = head_of("store.db")

    refused = command("restore", "copy.db", "--store", "store.db")
    assert (refused.code, refused.err.count("\n")) == (2, 1)
    assert "there is already a store" in refused.err
    assert head_of("store.db") == later

    answer = command("restore", "copy.db", "--store", "store.db", "--replace")
    assert answer.code == 0
    assert head_of("store.db") == before
    (kept,) = Path().glob("store.db.before-restore-*")
    assert kept.name in answer.out
    assert head_of(str(kept)) == later
    assert "calls: the backup lacks 1 entry that the store had." in answer.words
    assert os.name != "posix" or stat.S_IMODE(kept.stat().st_mode) == 0o600


@pytest.mark.parametrize("damage", ["cut", "foreign", "empty"])
def test_a_damaged_store_is_replaced(command: Command, damage: str) -> None:
    clinic("store.db")
    command("backup", "copy.db", "--store", "store.db")
    file, right = Path("store.db"), head_of("store.db")
    wrong = {"cut": file.read_bytes()[:20_000], "foreign": b"not a database" * 1000, "empty": b""}[damage]
    file.write_bytes(wrong)
    Path("store.db-journal").write_bytes(b"left over")  # must not be applied to what takes its place
    answer = command("restore", "copy.db", "--store", "store.db", "--replace")
    assert answer.code == 0, answer.err
    assert head_of("store.db") == right
    (kept,) = (each for each in Path().glob("store.db.before-restore-*") if "journal" not in each.name)
    assert kept.read_bytes() == wrong


def test_a_store_that_others_use_is_replaced_when_they_let_go(command: Command) -> None:
    clinic("store.db")
    command("backup", "copy.db", "--store", "store.db")
    with closing(sqlite3.connect("store.db", isolation_level=None)) as reader:
        reader.execute("SELECT count(*) FROM entry").fetchone()  # has the file open, as a server may
        assert command("restore", "copy.db", "--store", "store.db", "--replace").code == 0
        assert reader.execute("PRAGMA integrity_check").fetchone() == ("ok",)


@pytest.mark.slow
def test_a_store_that_others_keep_locked_is_left_as_it_is(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    from meritfair.programme.storage import backups

    made = clinic("store.db")
    command("backup", "copy.db", "--store", "store.db")
    made.programme.enrol(People(["late"], ["north"]), by="Ada")
    later = head_of("store.db")
    monkeypatch.setattr(backups, "_WAIT", 0)
    with closing(sqlite3.connect("store.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        refused = command("restore", "copy.db", "--store", "store.db", "--replace")
        other.execute("ROLLBACK")
    assert refused.code == 2
    assert "Stop the server first" in refused.err
    assert head_of("store.db") == later


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def flip(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) * 2 // 3 :] = bytes(len(content) - len(content) * 2 // 3)
    file.write_bytes(content)


def foreign(file: Path) -> None:
    file.write_text("id,group\n")


def empty(file: Path) -> None:
    file.write_bytes(b"")


@pytest.mark.slow
@pytest.mark.parametrize("spoil", [cut, flip, foreign, empty])
def test_a_file_that_is_no_backup_changes_nothing(
    command: Command, store_url: str, request: pytest.FixtureRequest, spoil: Callable[[Path], None]
) -> None:
    clinic(store_url)
    assert command("backup", "copy", "--store", store_url).code == 0
    spoil(Path("copy"))
    to = new_store(store_url, request)
    refused = command("restore", "copy", "--store", to)
    assert (refused.code, refused.err.count("\n")) == (2, 1), refused.err
    assert refused.err.startswith("meritfair: copy: this")
    if to == "restored.db":
        assert [each for each in Path().iterdir() if "restored" in each.name or each.name.startswith(".")] == []
    else:
        assert look_at(Database(to)).schema is None


def test_backups_of_a_newer_version_are_refused(
    command: Command, store_url: str, request: pytest.FixtureRequest
) -> None:
    clinic(store_url)
    database = Database(store_url)
    with database.transaction(writing=True) as connection:
        connection.execute(sa.text("UPDATE meritfair_schema SET version_num = '1000'"))
    refused = command("backup", "copy", "--store", store_url)
    assert (refused.code, Path("copy").exists()) == (2, False)
    assert "It was written by a newer version" in refused.err
    if database.is_sqlite:
        shutil.copy(database.file, "copy")
    else:
        subprocess.run(["pg_dump", "-Fc", "-f", "copy", store_url], check=True)
    to = new_store(store_url, request)
    refused = command("restore", "copy", "--store", to)
    assert refused.code == 2
    assert "copy: the schema is '1000'" in refused.err


def test_databases_of_something_else(command: Command, store_url: str, request: pytest.FixtureRequest) -> None:
    database = Database(store_url)
    if database.is_sqlite:
        sqlite3.connect(database.file).close()
    with database.engine.connect() as connection:
        connection.execution_options(sqlite_begin="IMMEDIATE")
        connection.execute(sa.text("CREATE TABLE fruit (name text)"))
        connection.commit()
    refused = command("backup", "copy", "--store", store_url)
    assert refused.code == 2
    assert "not one of programmes" in refused.err
    if database.is_sqlite:
        shutil.copy(database.file, "copy")
    else:
        subprocess.run(["pg_dump", "-Fc", "-f", "copy", store_url], check=True)
    refused = command("restore", "copy", "--store", new_store(store_url, request))
    assert (refused.code, refused.err.count("\n")) == (2, 1)
    assert "programmes" in refused.err


def test_a_database_with_tables_is_not_restored_into(command: Command, postgresql: Server) -> None:
    url = postgresql.fresh_database()
    head = clinic(url).programme.status().head
    command("backup", "copy", "--store", url)
    for more in ([], ["--replace"]):
        refused = command("restore", "copy", "--store", url, *more)
        assert refused.code == 2
        assert "a backup is restored into an empty one" in refused.err
    assert head_of(url) == head


def test_backups_do_not_move_to_another_kind_of_database(command: Command, postgresql: Server) -> None:
    url = postgresql.fresh_database()
    clinic(url)
    command("backup", "dump", "--store", url)
    clinic("file.db")
    command("backup", "copy.db", "--store", "file.db")
    for file, to in (("dump", "new.db"), ("copy.db", postgresql.fresh_database())):
        refused = command("restore", file, "--store", to)
        assert refused.code == 2
        assert "meritfair programme export and import" in refused.err


def test_passwords_stay_out_of_command_lines_and_messages(
    command: Command, postgresql: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = postgresql.fresh_database()
    clinic(url)
    secret = url.replace("postgres@", "postgres:sesame@")
    ran: list[tuple[Any, Any]] = []
    run = subprocess.run

    def note(words: Any, **how: Any) -> Any:
        ran.append((words, how.get("env")))
        return run(words, **how)

    monkeypatch.setattr(subprocess, "run", note)
    answer = command("backup", "copy", "--store", secret)
    assert answer.code == 0
    assert "sesame" not in answer.out + answer.err + str([words for words, _ in ran])
    assert ran[0][1]["PGPASSWORD"] == "sesame"
    refused = command("restore", "copy", "--store", secret.rpartition("/")[0] + "/sesame")
    assert refused.code == 2
    assert "postgres:sesame" not in refused.err


def test_without_the_programs_of_postgresql(
    command: Command, postgresql: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = postgresql.fresh_database()
    clinic(url)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    refused = command("backup", "copy", "--store", url)
    assert (refused.code, refused.err.count("\n")) == (2, 1)
    assert "pg_dump is not installed" in refused.err
    assert not Path("copy").exists()


def test_damage_is_not_backed_up(command: Command, store_url: str) -> None:
    clinic(store_url)
    with Database(store_url).transaction(writing=True) as connection:
        connection.execute(sa.text("UPDATE person SET group_name = 'west' WHERE number = 3"))
    refused = command("backup", "copy", "--store", store_url)
    assert refused.code == 2
    assert store_url in refused.err
    assert "is not as it was written" in refused.err
    assert not Path("copy").exists()


def test_files_that_are_there_are_not_overwritten(command: Command) -> None:
    clinic("store.db")
    Path("there").write_text("mine")
    refused = command("backup", "there", "--store", "store.db")
    assert refused.code == 2
    assert "there is such a file already" in refused.err
    assert Path("there").read_text() == "mine"
    assert command("backup", "nowhere/copy.db", "--store", "store.db").code == 2
    assert command("restore", "store.db", "--store", "store.db", "--replace").err.endswith("not a backup of it\n")
    assert "there is no store" in command("backup", "copy.db", "--store", "none.db").err
    assert "there is no such file" in command("restore", "none", "--store", "new.db").err
    assert not Path("none.db").exists()
    assert not Path("new.db").exists()


def test_an_empty_store(command: Command) -> None:
    mf.programme.Store("store.db").close()
    assert "There is no programme in it yet." in command("backup", "copy.db", "--store", "store.db").out
    assert json.loads(command("restore", "copy.db", "--store", "new.db", "--json").out)["programmes"] == []


@pytest.mark.slow
def test_stores_with_a_write_ahead_log(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("meritfair.programme.storage.database.WAL_SINCE", (3, 0, 0))
    made = clinic("store.db")
    assert look_at(Database("store.db")).settings["journal_mode"] == "wal"
    first = head_of("store.db")
    with closing(sqlite3.connect("store.db", isolation_level=None)) as reader:  # keeps the log from being taken in
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM entry").fetchone()
        made.programme.enrol(People(["late"], ["north"]), by="Ada")
        later = head_of("store.db")
        saved = json.loads(command("backup", "copy.db", "--store", "store.db", "--json").out)
        assert saved["programmes"][0]["head"] == later != first  # what is in the log alone is in the backup
        reader.execute("COMMIT")
        made.programme.enrol(People(["later"], ["north"]), by="Ada")
        assert command("restore", "copy.db", "--store", "store.db", "--replace").code == 0
        assert reader.execute("SELECT head FROM programme").fetchone() == (bytes.fromhex(later),)
    assert head_of("store.db") == later
    assert mf.programme.open("store.db").verify(heads=[first]).whole
    assert command("doctor", "--store", "store.db", "--json").code == 0
    assert not list(Path().glob("copy.db-*"))
