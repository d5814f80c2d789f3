"""The server as people start it: real processes, killed, stopped and started anew."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import httpx
import pytest

import meritfair as mf
from meritfair.programme import Outcomes, Programme
from meritfair.programme.reading import Reader
from meritfair.programme.storage.schema import VERSIONS
from meritfair.programme.storage.store import Store
from meritfair.programme.users import Role, SignInError, Users
from programme.clinics import clinic
from web.server import RunningServer, children_of, own_environment, running_server

pytestmark = pytest.mark.slow

KILLS = 4


def serve(*options: str) -> subprocess.CompletedProcess[str]:
    """Run a command that must not start a server."""
    command = [sys.executable, "-m", "meritfair", "serve", *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, env=own_environment())


def new_token(store_url: str, name: str = "Efua", role: Role = Role.ADMIN) -> str:
    """Make a user of a store; return an API token of theirs."""
    users = Users(mf.programme.open(store_url, "calls").store)
    users.add(name, {"*": role}, by="test")
    return users.new_token(name, "test", by="test")[1]


def signed_in(token: str, server: RunningServer) -> httpx.Client:
    """Return what asks the API with a token."""
    headers = {"Authorization": f"Bearer {token}"}
    return httpx.Client(base_url=f"{server.address}/api/v1", headers=headers, timeout=30)


def reports_of(programme: Programme) -> list[int]:
    """Return how many people each report in the ledger is about."""
    look = Reader(programme.store).look(programme.name)
    return [line.rows for line in look.entry_lines(0, look.entries) if line.kind == "report"]


def wait_for(what: str, seconds: float, is_so: object) -> None:
    """Wait until something is so."""
    assert callable(is_so)
    until = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < until, f"not within {seconds} seconds: {what}"
        time.sleep(0.05)


def is_alive(pid: int) -> bool:
    """Return whether a process runs, and is not merely waiting for its end to be noticed."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


# ---- starting


def test_first_start_says_where_it_is_and_how_to_sign_in_and_tells_no_secret(tmp_path: Path) -> None:
    store = str(tmp_path / "calls.db")
    with running_server(store) as server:
        assert httpx.get(f"{server.address}/healthz").status_code == 200
        assert httpx.get(f"{server.address}/readyz").status_code == 200
        assert "Nobody has signed in yet." in server.out.read_text()
        assert f"meritfair users link admin --url {server.address}" in server.out.read_text()
        assert "link#" not in server.out.read_text() + server.log.read_text(), "a journal is read by others"
        users = Users(mf.programme.open(store, "calls").store)
        link = users.link("admin", by="test")
    with running_server(store) as server:
        assert "admin has a link that can be used until 20" in server.out.read_text()
        assert "link#" not in server.out.read_text() + server.log.read_text()
    assert users.session(users.use_link(link)) is not None, "a start does not end it"
    with running_server(store) as server:
        assert "signed in" not in server.out.read_text(), "someone has: there is no first user any more"


@pytest.mark.skipif(os.name != "posix", reason="there is no pseudo-terminal")
def test_first_start_on_a_terminal_prints_a_link(tmp_path: Path) -> None:
    import pty

    store, (own, theirs) = str(tmp_path / "calls.db"), pty.openpty()
    command = [sys.executable, "-m", "meritfair", "serve", "--store", store, "--port", "0"]
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=theirs, stderr=log, env=own_environment({"COLUMNS": "500"}))
    os.close(theirs)
    try:
        said = ""
        while "Ctrl-C" not in said:
            said += os.read(own, 10_000).decode()
    finally:
        process.terminate()
        process.wait()
        os.close(own)
    token = re.search(r"/sign-in/link#(\S{22,})", said.replace("\r\n", " "))
    assert token is not None, said
    users = Users(Store(store))
    assert users.session(users.use_link(token[1])) is not None
    with pytest.raises(SignInError):
        users.use_link(token[1])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--host", "0.0.0.0"), "--url"),
        (("--host", "0.0.0.0", "--demo"), "lets everyone in"),
        (("--host", "0.0.0.0", "--url", "calls.example.org"), "--url must be an address"),
        (("--url", "https://calls.example.org/path"), "without a path"),
        (("--workers", "0"), "between 1 and 64, got 0"),
        (("--port", "70000"), "between 0 and 65535, got 70000"),
        (("--host", "no.such.host.invalid", "--url", "https://a.example"), "address of this machine"),
        (("--tls-cert", "a.pem"), "both --tls-cert and --tls-key"),
        (("--tls-cert", "no.pem", "--tls-key", "no.key"), "there is no file no.pem"),
        (("--store", "postgresql://postgres@127.0.0.1:1/nothing"), "127.0.0.1"),
        (("--store", "mysql://a/b"), "a store is PATH"),
    ],
)
def test_what_cannot_be_served_is_refused_in_one_line(tmp_path: Path, options: tuple[str, ...], said: str) -> None:
    own = () if {"--store", "--demo"} & set(options) else ("--store", str(tmp_path / "calls.db"))
    port = () if "--port" in options else ("--port", "0")
    done = serve(*own, *port, *options)
    assert done.returncode == 2
    assert said in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert done.stdout == ""


def test_a_store_of_a_newer_version_is_refused_before_anything_starts(tmp_path: Path) -> None:
    file = tmp_path / "newer.db"
    mf.programme.open(str(file), "calls").create(1, by="Ada")
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute(f"UPDATE {VERSIONS} SET version_num = '99'")
    done = serve("--store", str(file), "--port", "0")
    assert done.returncode == 2
    assert "newer version" in done.stderr


def test_a_port_that_is_taken_is_named() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        done = serve("--store", "never-made.db", "--port", port)
    assert done.returncode == 2
    assert f"port {port}" in done.stderr
    assert "--port" in done.stderr
    assert not Path("never-made.db").exists()


# ---- stopping


def _enrol_slowly(server: RunningServer, token: str, begun: threading.Event) -> bytes:
    """Enrol someone by a request whose body takes a while: the server is in the middle of it."""
    host, port = server.address.removeprefix("http://").split(":")
    head = (
        f"POST /api/v1/programmes/calls/participants HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n"
        "Content-Type: text/csv\r\nContent-Length: 8\r\n\r\nid\n"
    )
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        connection.sendall(head.encode())
        time.sleep(0.5)
        begun.set()
        time.sleep(2)
        connection.sendall(b"Kwam\n")
        return connection.recv(1 << 16)


def test_a_request_in_its_middle_is_finished_before_the_server_stops(tmp_path: Path) -> None:
    store, begun = str(tmp_path / "calls.db"), threading.Event()
    clinic(store)
    token = new_token(store)
    with running_server(store, workers=2) as server, ThreadPoolExecutor(1) as pool:
        answer = pool.submit(_enrol_slowly, server, token, begun)
        begun.wait()
        server.process.send_signal(signal.SIGTERM)
        time.sleep(1)
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"{server.address}/healthz")
        assert answer.result().startswith(b"HTTP/1.1 20")
        assert server.process.wait(30) == 0
    assert mf.programme.open(store, "calls").status().enrolled == 13


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_nothing_is_left_after_a_stop(tmp_path: Path, how: signal.Signals) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    with running_server(str(tmp_path / "calls.db"), workers=2, environment={"TMPDIR": str(temporary)}) as server:
        (folder,) = temporary.glob("meritfair-serve-*")
        assert folder.stat().st_mode & 0o777 == 0o700
        processes = server.workers()
        assert len(processes) == 3
        assert server.stop(how) == 0
        assert not any(map(is_alive, processes))
        assert not [*temporary.iterdir()]


def test_processes_end_by_themselves_if_their_parent_is_killed(tmp_path: Path) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    with running_server(str(tmp_path / "calls.db"), workers=2, environment={"TMPDIR": str(temporary)}) as server:
        processes = children_of(server.process.pid)
        server.process.kill()
        server.process.wait()
        wait_for("all processes end", 20, lambda: not any(map(is_alive, processes)))
        assert not [*temporary.glob("meritfair-serve-*")]


# ---- processes that die


def test_a_process_that_is_killed_is_replaced(tmp_path: Path) -> None:
    with running_server(str(tmp_path / "calls.db"), workers=2) as server:
        wait_for("all processes are there", 20, lambda: len(server.workers()) == 3)
        before = server.workers()
        for pid in before:
            os.kill(pid, signal.SIGKILL)
        wait_for("they are replaced", 20, lambda: len(set(server.workers()) - set(before)) == 3)
        assert httpx.get(f"{server.address}/healthz", timeout=30).status_code == 200
        assert "has died" in server.log.read_text()


def test_a_retry_after_a_worker_was_killed_in_mid_request_has_one_effect(store_url: str) -> None:
    """Whether the worker dies before, while or after it writes, the client's retry with its key has one effect."""
    clinic(store_url, people=40)
    programme = mf.programme.open(store_url, "calls")
    token = new_token(store_url)
    with running_server(store_url, workers=2) as server, signed_in(token, server) as client:
        drawn = _retried(client, "POST", "/programmes/calls/rounds", "draw", {})
        number = drawn.json()["number"]
        with ThreadPoolExecutor(2) as pool:
            for place in range(KILLS):
                body = {"outcomes": [{"id": f"p{place}", "state": place % 2}]}
                sent = pool.submit(
                    _retried, client, "POST", f"/programmes/calls/rounds/{number}/outcomes", f"k{place}", body
                )
                time.sleep(0.008 * place)
                for pid in server.workers()[:2]:
                    os.kill(pid, signal.SIGKILL)
                assert sent.result(200).status_code in (200, 201)
    assert len(reports_of(programme)) == KILLS
    assert programme.verify().whole


def _retried(client: httpx.Client, method: str, path: str, key: str, body: object) -> httpx.Response:
    for _ in range(1000):
        try:
            return client.request(method, path, json=body, headers={"Idempotency-Key": key})
        except httpx.TransportError:
            time.sleep(0.1)
    raise AssertionError("no answer")


# ---- several at once


def test_two_workers_and_a_command_line_on_one_store(store_url: str) -> None:
    made = clinic(store_url, people=60, budget=6)
    token = new_token(store_url)
    own = mf.programme.open(store_url, "calls")
    with running_server(store_url, workers=2) as server:
        for number in range(1, 4):
            with ThreadPoolExecutor(7) as pool:
                draws = [pool.submit(_draw, server, token, f"{number}-{each}") for each in range(6)]
                by_command = pool.submit(lambda: sorted(own.draw(by="Ada").ids))
                drawn = {tuple(sorted(each.result())) for each in draws} | {tuple(by_command.result())}
            assert len(drawn) == 1, "one draw a round"
            with ThreadPoolExecutor(6) as pool:
                shares = [made.ids[part::6] for part in range(6)]
                sent = [pool.submit(_report, server, token, number, ids) for ids in shares[:4]]
                sent += [pool.submit(_command_line_report, store_url, ids) for ids in shares[4:]]
                for each in sent:
                    each.result()
            own.close(by="Ada")
    assert sum(reports_of(own)) == 3 * 60, "nothing is lost, nothing is there twice"
    assert own.verify().whole


def _draw(server: RunningServer, token: str, key: str) -> list[str]:
    with signed_in(token, server) as client:
        answer = client.post("/programmes/calls/rounds", json={}, headers={"Idempotency-Key": key})
        assert answer.status_code in (200, 201), answer.text
        return [each["id"] for each in answer.json()["outcomes"] if each["drawn"]]


def _report(server: RunningServer, token: str, number: int, ids: list[str]) -> None:
    with signed_in(token, server) as client:
        body = {"outcomes": [{"id": each, "state": 1} for each in ids]}
        answer = client.post(f"/programmes/calls/rounds/{number}/outcomes", json=body)
        assert answer.status_code in (200, 201), answer.text


def _command_line_report(store_url: str, ids: list[str]) -> None:
    mf.programme.open(store_url, "calls").report(Outcomes(ids, after=[1] * len(ids)), by="Ada")


# ---- what it writes down


def test_the_log_names_routes_and_nobody(tmp_path: Path) -> None:
    store = str(tmp_path / "calls.db")
    made = clinic(store, people=12)
    made.play()
    token = new_token(store, "Efua Sutherland")
    with running_server(store) as server, signed_in(token, server) as client:
        for path in ("/programmes", "/programmes/calls", "/programmes/calls/participants?search=p11"):
            client.get(path)
        client.get("/programmes/calls/participants/7")
        client.post("/programmes/calls/participants/withdraw", json={"ids": ["p11"]})
        client.post("/programmes/calls/participants/withdraw", json={"ids": ["p11-nobody"]})
        client.get("/programmes/secret-name")
        client.get("/no/such/p11")
        httpx.get(f"{server.address}/api/v1/programmes", headers={"Authorization": "Bearer mf_wrong-token"})
        httpx.get(f"{server.address}/p/calls/people?search=p11", cookies={"meritfair_session": "wrong-session"})
        answer = client.get("/programmes")
        server.stop()
        log, out = server.log.read_text(), server.out.read_text()
    lines = [json.loads(line) for line in log.splitlines()]
    requests = [line for line in lines if "route" in line]
    assert len(requests) >= 11
    assert answer.headers["X-Request-Id"] in {line["request"] for line in requests}
    assert "/api/v1/programmes/{programme}/participants/{number}" in {line["route"] for line in requests}
    assert {line["user"] for line in requests} > {""}
    for secret in ("p11", "Efua", token, "mf_", "wrong-", "secret-name", server.token, "calls"):
        assert secret not in log, secret
    assert server.token not in out
