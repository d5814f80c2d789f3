"""`meritfair doctor`: finds what was planted, says what to do, and changes nothing."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import threading
import tomllib
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from meritfair.core import checkup
from meritfair.core.checkup import check_disk, check_libraries, check_memory, check_port
from meritfair.programme import doctor
from meritfair.programme.doctor import check_clock, check_postgresql, check_tools
from meritfair.programme.storage.database import Database
from meritfair.programme.storage.looking import Head, Look, look_at
from programme.clinics import clinic
from programme.conftest import postgresql as postgresql
from programme.conftest import store_url as store_url
from programme.servers import Server, free_port

Command = Callable[..., Any]
ROOT = Path(__file__).parents[2]
SKIPPED = ("draws", "heads", "files")  # what is always named as not looked at
NOW = datetime(2100, 1, 1, tzinfo=UTC)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MERITFAIR_STORE", raising=False)


@pytest.fixture
def look(command: Command) -> Callable[..., dict[str, dict[str, str]]]:
    """Return what asks the doctor, and gives checks by name; the exit code must fit them."""

    def ask(*words: object) -> dict[str, dict[str, str]]:
        answer = command("doctor", "--json", "--port", free_port(), *words)
        found = json.loads(answer.out)
        states = [each["state"] for each in found["checks"]]
        assert (found["problems"], found["warnings"]) == (states.count("problem"), states.count("warning"))
        assert answer.code == (1 if found["problems"] else 0)
        assert all(each["advice"] for each in found["checks"] if each["state"] in ("problem", "warning"))
        return {each["name"]: each for each in found["checks"]}

    return ask


def test_a_store_that_is_well(look: Callable[..., Any], store_url: str) -> None:
    head = clinic(store_url).programme.status().head
    found = look("--store", store_url)
    others = ("memory", "temporary folder", *SKIPPED)
    assert {each["state"] for name, each in found.items() if name not in others} == {"ok"}
    assert {each["state"] for name, each in found.items() if name in SKIPPED} == {"skipped"}
    assert head[:16] in found["programme calls"]["found"]
    assert "numba" in found["libraries"]["found"]


def test_lines_for_people(command: Command) -> None:
    clinic("store.db")
    answer = command("doctor", "--store", "store.db", "--port", free_port())
    assert answer.code == 0
    lines = answer.out.splitlines()
    assert all(line.split()[0] in ("ok", "warning", "problem", "skipped", "→") for line in lines[:-1])
    assert lines[-1].startswith("0 problems, ")


def test_what_was_not_looked_at_is_named(look: Callable[..., Any], store_url: str) -> None:
    clinic(store_url)
    found = look("--store", store_url)
    assert "meritfair programme verify" in found["draws"]["advice"]
    assert "--head" in found["heads"]["advice"]
    assert "ledgers" not in found
    assert "read in " in found["programme calls"]["found"]
    quick = look("--store", store_url, "--quick")
    assert (quick["ledgers"]["state"], "--quick" in quick["ledgers"]["advice"]) == ("skipped", True)
    assert "read in " not in quick["programme calls"]["found"]
    assert quick["append-only"]["state"] == quick["users"]["state"] == "ok"


def test_a_store_that_is_not_there_is_not_made(look: Callable[..., Any]) -> None:
    assert "none yet" in look("--store", "none.db")["store"]["found"]
    assert list(Path().iterdir()) == []


def test_a_folder_that_may_not_be_looked_into(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Path, **_: Any) -> bool:
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "exists", refuse)
    found = doctor.check_store("store.db")
    assert [each.state for each in found] == ["problem"]
    assert "Permission denied" in found[0].found


def test_an_old_schema_is_told_and_left_as_it_is(look: Callable[..., Any]) -> None:
    clinic("old.db")
    with Database("old.db").transaction(writing=True) as connection:
        connection.execute(sa.text("UPDATE meritfair_schema SET version_num = '0'"))
    content, files = Path("old.db").read_bytes(), sorted(Path().iterdir())
    found = look("--store", "old.db")
    assert found["schema"]["state"] == "warning"
    assert found["schema"]["found"].startswith("0, to be upgraded to ")
    assert "Make a backup" in found["schema"]["advice"]
    assert Path("old.db").read_bytes() == content
    assert sorted(Path().iterdir()) == files


def test_a_database_without_tables_stays_without(look: Callable[..., Any], postgresql: Server) -> None:
    url = postgresql.fresh_database()
    assert look("--store", url)["schema"]["found"] == "no tables yet"
    assert look_at(Database(url)).schema is None


def test_a_newer_schema_is_a_problem(look: Callable[..., Any], store_url: str) -> None:
    clinic(store_url)
    with Database(store_url).transaction(writing=True) as connection:
        connection.execute(sa.text("UPDATE meritfair_schema SET version_num = '1000'"))
    found = look("--store", store_url)
    assert found["schema"]["state"] == "problem"
    assert found["schema"]["found"].startswith("1000")


@pytest.mark.parametrize("content", [b"", b"no database" * 1000, None])
def test_damaged_files_are_problems(look: Callable[..., Any], content: bytes | None) -> None:
    clinic("store.db")
    file = Path("store.db")
    file.write_bytes(file.read_bytes()[:30_000] if content is None else content)
    found = look("--store", "store.db")
    bad = [each for each in found.values() if each["state"] == "problem"]
    assert bad
    assert {each["name"] for each in bad} <= {"database", "schema"}


@pytest.mark.skipif(os.name != "posix", reason="files have no such permissions")
def test_a_file_that_others_can_read(look: Callable[..., Any]) -> None:
    clinic("store.db")
    for mode, who in ((0o644, "everyone"), (0o640, "its group")):
        Path("store.db").chmod(mode)
        found = look("--store", "store.db")["permissions"]
        assert found["state"] == "warning"
        assert who in found["found"]
        assert found["advice"].startswith("chmod 600 ")


def test_a_server_that_is_not_there(look: Callable[..., Any]) -> None:
    found = look("--store", "postgresql://me:sesame@127.0.0.1:1/none")
    assert found["database"]["state"] == "problem"
    assert "cannot connect" in found["database"]["found"]
    assert "sesame" not in str(found)
    assert look("--store", "mysql://x/y")["store"]["state"] == "problem"


def test_a_port_that_is_taken(command: Command) -> None:
    with server(404) as port:
        found = check_port(port)
        assert (found.state, "another program" in found.found) == ("warning", True)
    with server(200) as port:
        assert check_port(port).state == "ok"
    assert check_port(free_port()).found == "free"
    assert "port must be between 1 and 65535, got 70000" in command("doctor", "--port", 70_000).err


@contextmanager
def server(health: int) -> Iterator[int]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(health if self.path == "/healthz" else 404)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as serving:
        thread = threading.Thread(target=serving.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield serving.server_port
        finally:
            serving.shutdown()
            thread.join()


def a_look(*times: str, **settings: str) -> Look:
    heads = (Head("calls", len(times), times[-1], "00" * 32),) if times else ()
    return Look(settings, "1", "", heads, {"calls": times})


def test_the_clock() -> None:
    assert check_clock(a_look("2099-12-31T00:00:00Z"), NOW).state == "ok"
    assert check_clock(None, NOW).state == "ok"
    behind = check_clock(a_look("2100-01-01T00:10:00Z"), NOW)
    assert (behind.state, "before the last entry" in behind.found) == ("problem", True)
    assert check_clock(a_look("2100-01-01T00:04:00Z"), NOW).state == "ok"  # other machines are not so exact
    assert check_clock(a_look("2090-01-01T00:00:00Z"), NOW).state == "warning"
    back = check_clock(a_look("2099-12-31T00:00:00Z", "2099-12-30T00:00:00Z", "2099-12-31T01:00:00Z"), NOW)
    assert (back.state, "set back before an entry of calls at 2099-12-30" in back.found) == ("warning", True)
    assert "before this version was installed" in check_clock(None, datetime(2001, 1, 1, tzinfo=UTC)).found


def test_settings_of_postgresql() -> None:
    well = {"server_version": "17.2", "server_encoding": "UTF8", "fsync": "on", "full_page_writes": "on"}
    assert check_postgresql(a_look(**well)).state == "ok"
    assert check_postgresql(a_look(**{**well, "fsync": "off"})).state == "problem"
    assert check_postgresql(a_look(**{**well, "server_encoding": "LATIN1"})).state == "problem"


@pytest.mark.skipif(os.name != "posix", reason="plants shell scripts")
def test_programs_for_backups(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("pg_dump", "pg_restore"):
        (tmp_path / name).write_text('#!/bin/sh\necho "pg_dump (PostgreSQL) 15.6 (Debian 15.6-1)"\n')
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    assert check_tools(a_look(server_version="15.2")).found == "pg_dump 15.6"
    assert check_tools(a_look(server_version="17beta1")).state == "warning"
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert "not installed" in check_tools(a_look(server_version="15.2")).found


def test_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    needed = ["numba>=999.1", "numpy>=2.0", "fastapi>=0.1; extra == 'web'", "gymnasium>=999; extra == 'gym'"]
    needed += ["no-such-thing>=1; extra == 'dask'"]
    monkeypatch.setattr(metadata, "requires", lambda name: needed)
    found = {each.name: each for each in check_libraries()}
    assert found["libraries"].state == "problem"
    assert "numba is " in found["libraries"].found
    assert "999.1 or newer is needed" in found["libraries"].found
    assert found["extra web"].state == "ok"
    assert found["extra gym"].state == "warning"
    assert (found["extra dask"].state, found["extra dask"].advice) == ("ok", "pip install 'meritfair[dask]'")


def test_it_is_said_what_every_extra_is_for() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(checkup.PURPOSES) == set(extras) - {"all", "docs", "test"}


def test_disk_and_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    for free, state in ((10**7, "problem"), (5 * 10**8, "warning"), (10**11, "ok")):
        monkeypatch.setattr(shutil, "disk_usage", lambda folder, free=free: shutil._ntuple_diskusage(0, 0, free))
        assert check_disk("disk", Path("not/there/yet")).state == state
    assert check_disk("disk", Path(), needed=10**12).state == "warning"
    for memory, state in ((10**8, "warning"), (10**10, "ok"), (None, "ok")):
        monkeypatch.setattr(checkup, "available_memory", lambda memory=memory: memory)
        assert check_memory().state == state


def test_machine_code_that_cannot_be_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    from meritfair.engine import compiling

    monkeypatch.setattr(compiling, "cache_directory", lambda: None)
    found = doctor.check_machine_code()
    assert (found.state, "NUMBA_CACHE_DIR" in found.advice) == ("warning", True)


def test_a_write_that_was_cut_off(look: Callable[..., Any], command: Command) -> None:
    clinic("store.db", people=500)
    with closing(sqlite3.connect("store.db", isolation_level=None)) as writer:
        writer.execute("PRAGMA cache_size = 1")
        writer.execute("BEGIN IMMEDIATE")
        writer.execute("UPDATE person SET staff = hex(randomblob(2000))")
        for beside in ("", "-journal"):
            shutil.copy(f"store.db{beside}", f"crashed.db{beside}")
    found = look("--store", "crashed.db")
    assert found["database"]["state"] == "problem"
    assert "A write was cut off" in found["database"]["advice"]
    assert command("programme", "list", "--store", "crashed.db").code == 0
    assert look("--store", "crashed.db")["database"]["state"] == "ok"
