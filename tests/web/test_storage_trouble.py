"""A server that runs while its storage is in trouble: backups during writes, and disks that are full."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

import meritfair as mf
from meritfair.programme import Programme
from meritfair.programme.reading import Reader
from programme.clinics import clinic
from programme.disks import fill, small_disk
from programme.servers import Server
from web.server import RunningServer, own_environment, running_server
from web.test_serving import new_token, signed_in

pytestmark = pytest.mark.slow

WRITERS, BACKUPS = 4, 3
OUTCOMES = "/programmes/calls/rounds/1/outcomes"


class Writers:
    """Threads that report on one person after another, and what the server has acknowledged."""

    def __init__(self, server: RunningServer, token: str, people: int) -> None:
        self._server, self._token, self._people = server, token, people
        self._stop, self._lock = threading.Event(), threading.Lock()
        self.acknowledged: set[int] = set()
        self.others: list[httpx.Response] = []

    @contextmanager
    def writing(self) -> Iterator[None]:
        threads = [threading.Thread(target=self._write, args=(each,)) for each in range(WRITERS)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._stop.set()
            for thread in threads:
                thread.join()

    def until(self, number: int) -> set[int]:
        """Wait for that many; return those that are acknowledged by then."""
        waited = threading.Event()
        for _ in range(6000):
            with self._lock:
                assert not self.others, self.others[0].text
                if len(self.acknowledged) >= number:
                    return set(self.acknowledged)
            waited.wait(0.02)
        raise AssertionError(f"only {len(self.acknowledged)} of {number} reports after two minutes")

    def _write(self, own: int) -> None:
        with signed_in(self._token, self._server) as client:
            for number in range(own, self._people, WRITERS):
                if self._stop.is_set():
                    return
                answer = report(client, number)
                with self._lock:
                    if answer.status_code in (200, 201):
                        self.acknowledged.add(number)
                    else:
                        self.others.append(answer)


def report(client: httpx.Client, number: int) -> httpx.Response:
    """Report what came of one person, with a key of its own."""
    body = {"outcomes": [{"id": f"p{number}", "state": number % 2}]}
    return client.post(OUTCOMES, json=body, headers={"Idempotency-Key": f"key-{number}"})


def waited(client: httpx.Client, path: str) -> httpx.Response:
    """Return the answer of long work, once it is over."""
    end = time.monotonic() + 120
    while (answer := client.get(path)).status_code == 202:
        assert time.monotonic() < end, answer.text
        time.sleep(0.1)
    return answer


def reported(programme: Programme) -> set[int]:
    """Return of whom the ledger has a state after round 1."""
    after = Reader(programme.store).look(programme.name).state.seen(1)[3]
    return {number for number, state in enumerate(after.tolist()) if state >= 0}


def cli(*words: str | Path) -> dict[str, object]:
    """Run a command with ``--json``; return what it says."""
    command = [sys.executable, "-m", "meritfair", *map(str, words), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, env=own_environment())
    assert done.returncode == 0, done.stdout + done.stderr
    return dict(json.loads(done.stdout))


def no_traceback(server: RunningServer) -> None:
    """Check that nothing was answered with 500, and that no error is in the log."""
    lines = server.log.read_text().splitlines()
    assert not [each for each in lines if '"error"' in each or '"status": 500' in each or "Traceback" in each]


# ---- backups


def test_backups_while_a_server_writes_hold_all_that_was_acknowledged_before(
    store_url: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    made = clinic(store_url, people=1200, budget=5)
    made.programme.draw(by="Ada")
    token, kept = new_token(store_url), list[tuple[Path, set[int]]]()
    with running_server(store_url, workers=2) as server:
        writers = Writers(server, token, 1200)
        with writers.writing():
            for turn in range(BACKUPS):
                before = writers.until(10 * (turn + 1) if turn == 0 else len(kept[-1][1]) + 10)
                file = tmp_path / f"{turn}.backup"
                cli("backup", file, "--store", store_url)
                kept.append((file, before))
            writers.until(len(kept[-1][1]) + 10)  # it went on all the time
        assert not writers.others
        no_traceback(server)
    live = Reader(made.programme.store).look("calls")
    assert reported(made.programme) >= writers.acknowledged
    for turn, (file, before) in enumerate(kept):
        to = str(tmp_path / f"{turn}.db")
        if store_url.startswith("postgresql"):
            postgresql: Server = request.getfixturevalue("postgresql")
            to = postgresql.fresh_database()
        cli("restore", file, "--store", to)
        restored = mf.programme.open(to, "calls")
        look = Reader(restored.store).look("calls")
        assert before <= reported(restored), "acknowledged before the backup began"
        assert look.head == live.entry_lines(look.entries - 1, look.entries)[0].digest, "the same ledger, up to there"
        assert restored.verify(heads=[look.head]).whole


# ---- disks that are full


def works_through_a_full_disk(store_url: str, disk: Path, people: int) -> None:
    """Fill the disk of a store under a running server, and make room again."""
    made = clinic(store_url, people=people, budget=5)
    made.programme.draw(by="Ada")
    token = new_token(store_url)
    with running_server(store_url, workers=2) as server, signed_in(token, server) as client:
        acknowledged = {number for number in range(10) if report(client, number).status_code in (200, 201)}
        assert len(acknowledged) == 10
        ballast, refused = fill(disk), 0
        for number in range(10, people):  # what the database has room for by itself is still taken in
            answer = report(client, number)
            if answer.status_code in (200, 201):
                acknowledged.add(number)
                continue
            assert answer.status_code == 503, answer.text
            assert "no space left" in answer.json()["detail"]
            assert "nothing was saved" in answer.json()["detail"]
            assert "Traceback" not in answer.text
            refused += 1
            if refused == 5:
                break
        assert refused == 5
        assert client.get("/programmes/calls").status_code == 200, "what is there can be read"
        assert client.get("/programmes/calls/participants/3/report").status_code == 200
        assert httpx.get(f"{server.address}/healthz").status_code == 200
        assert reported(made.programme) == acknowledged
        ballast.unlink()
        again = {number for number in range(people) if report(client, number).status_code in (200, 201)}
        assert again == set(range(people)), "the same keys, with or without an effect before"
        no_traceback(server)
    assert reported(made.programme) == set(range(people))
    assert sum(line.rows for line in ledger(made.programme) if line.kind == "report") == people, "each of them once"
    assert made.programme.verify().whole


def ledger(programme: Programme) -> tuple[mf.programme.reading.EntryLine, ...]:
    look = Reader(programme.store).look(programme.name)
    return look.entry_lines(0, look.entries)


def test_a_full_disk_under_a_server_on_sqlite() -> None:
    with small_disk(8) as disk:
        works_through_a_full_disk(f"sqlite:///{disk / 'calls.db'}", disk, 60)


def test_a_full_disk_under_a_server_on_postgresql(postgresql: Server) -> None:
    with small_disk(40) as disk:
        folder = disk / "tables"
        folder.mkdir()
        subprocess.run(["chown", "postgres", folder], check=True)
        postgresql.execute(f"CREATE TABLESPACE small LOCATION '{folder}'")
        postgresql.execute("CREATE DATABASE on_small TABLESPACE small")
        try:
            works_through_a_full_disk(postgresql.url("on_small"), disk, 300)
        finally:
            postgresql.execute("DROP DATABASE IF EXISTS on_small WITH (FORCE)")
            postgresql.execute("DROP TABLESPACE small")


def test_a_full_disk_of_temporary_files(tmp_path: Path) -> None:
    url = str(tmp_path / "calls.db")
    made = clinic(url, people=30, budget=5)
    made.programme.draw(by="Ada")
    token = new_token(url)
    with (
        small_disk(4) as disk,
        running_server(url, workers=1, environment={"TMPDIR": str(disk)}) as server,
        signed_in(token, server) as client,
    ):
        csv = {"Content-Type": "text/csv"}
        assert client.post(OUTCOMES, content="id,state\np1,1\n", headers=csv).status_code in (200, 201)
        ballast = fill(disk)
        for path, body in ((OUTCOMES, "id,state\np2,1\n"), ("/programmes/calls/participants", "id\nnew\n")):
            refused = client.post(path, content=body, headers=csv)
            assert refused.status_code == 507, refused.text
            assert "no space left on the server; nothing was saved" in refused.json()["detail"]
        failed = waited(client, "/programmes/calls/audit")
        assert (failed.status_code, "no space left" in failed.json()["detail"]) == (422, True), failed.text
        assert client.get("/programmes/calls").status_code == 200
        assert report(client, 3).status_code in (200, 201), "what needs no file is taken in"
        ballast.unlink()
        assert client.post(OUTCOMES, content="id,state\np2,1\n", headers=csv).status_code in (200, 201)
        assert waited(client, "/programmes/calls/audit").status_code == 200
        no_traceback(server)
    assert reported(made.programme) == {1, 2, 3}
    assert made.programme.verify().whole
