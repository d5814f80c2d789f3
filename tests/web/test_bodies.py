"""What is read of requests: strangers may send little, slow and unfinished bodies are bounded, and lengths are clear.

All by sockets: what a library of HTTP sends is not what an attacker does.
"""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
import uvicorn
from fastapi import Request
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from meritfair.programme.users import Role
from meritfair.web import worker
from meritfair.web.access import COOKIE
from meritfair.web.middleware import BodyBounds, BodyLimit
from web.clients import serving
from web.server import running_server

PATIENCE = 30.0
FORM = "Content-Type: application/x-www-form-urlencoded\r\n"


async def reading(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with the number of bytes that came."""
    body = await Request(scope, receive).body()
    await PlainTextResponse(str(len(body)))(scope, receive, send)


@contextmanager
def answering(app: Any) -> Iterator[int]:
    """Serve an application as a worker does; give the port."""
    config = uvicorn.Config(
        app, port=0, http=worker.Connection, ws="none", lifespan="off", log_config=None, timeout_graceful_shutdown=1
    )
    server = uvicorn.Server(config)
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    listening.listen(256)
    thread = threading.Thread(target=server.run, args=([listening],))
    thread.start()
    try:
        yield listening.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(PATIENCE)


def bounded(known: bool = False, **bounds: Any) -> BodyLimit:
    return BodyLimit(reading, bounds=BodyBounds(**bounds), known=lambda _request: known)


def connect(port: int, text: str, source: str = "127.0.0.1") -> socket.socket:
    made = socket.create_connection(("127.0.0.1", port), PATIENCE, (source, 0))
    made.sendall(text.encode())
    return made


def head(length: int | str, path: str = "/", more: str = "") -> str:
    return f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {length}\r\n{more}\r\n"


def answer(connection: socket.socket) -> str:
    """Return all that comes until the other side closes, or the answer is whole."""
    data = b""
    try:
        while piece := connection.recv(65536):
            data += piece
            there, whole, body = data.partition(b"\r\n\r\n")
            said = [line for line in there.lower().split(b"\r\n") if line.startswith(b"content-length:")]
            if whole and said and len(body) >= int(said[0].split(b":")[1]):
                break
    except ConnectionResetError:
        pass
    return data.decode("utf-8", "replace")


def status(connection: socket.socket) -> int:
    said = answer(connection)
    return int(said.split(" ")[1]) if said else 0


# ---- unclear lengths


TWICE = "5\r\nTransfer-Encoding: chunked"


@pytest.mark.parametrize(
    "text",
    [
        head(TWICE) + "0\r\n\r\n",
        head(5, more="Transfer-Encoding: chunked\r\n") + "5\r\nhello\r\n0\r\n\r\n",
        head("5\r\nContent-Length: 6") + "hello!",
        head("5, 6") + "hello!",
        head("+5") + "hello",
        head(5, more="Transfer-Encoding: identity\r\n") + "hello",
        head(5, more="Transfer-Encoding: xchunked\r\n") + "hello",
    ],
)
def test_a_request_of_unclear_length_is_refused(text: str) -> None:
    with answering(bounded()) as port, connect(port, text + head(0)) as made:
        said = answer(made)
        assert said.split(" ")[1] in ("400", "501"), said
        assert "connection: close" in said.lower()
        assert said.count("HTTP/1.1") == 1, "what follows is not taken for a request"


@pytest.mark.parametrize("text", [head(5) + "hello", head("5\r\nContent-Length: 5") + "hello"])
def test_a_clear_length_is_taken(text: str) -> None:
    with answering(bounded()) as port, connect(port, text) as made:
        assert answer(made).endswith("5")


# ---- how much


def test_bodies_that_are_too_large_are_refused_as_they_come() -> None:
    chunks = (
        "POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n" + "3e8\r\n" + "x" * 1000 + "\r\n"
    )
    for known, most in ((False, 100), (True, 900)):
        with answering(bounded(known, most=900, unknown=100)) as port:
            for text in (head(most) + "x" * most, head(0)):
                with connect(port, text) as made:
                    assert status(made) == 200
            for text in (head(most + 1) + "x" * (most + 1), head(10**18), chunks):
                with connect(port, text) as made:
                    assert status(made) == 413, text[:100]


def test_the_bytes_of_all_requests_are_bounded() -> None:
    with answering(bounded(unknown=1000, held=1500)) as port:
        with connect(port, head(1000) + "x" * 900) as first, connect(port, head(1000) + "x" * 1000) as second:
            assert status(second) == 503
            first.sendall(b"x" * 100)
            assert status(first) == 200
        with connect(port, head(1000) + "x" * 1000) as third:
            assert status(third) == 200, "what was answered is not held any more"


# ---- slow and unfinished


def test_who_opens_many_connections_keeps_nobody_else_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "MOST_WITHOUT_HEAD", 3)
    monkeypatch.setattr(worker, "GRACE_SECONDS", 0.1)
    with answering(bounded()) as port, ExitStack() as stack:
        many = []
        for _ in range(8):
            many.append(stack.enter_context(connect(port, "GET / H")))
            time.sleep(0.15)
        assert [answer(made) for made in many[:4]] == [""] * 4, "the oldest are closed"
        with connect(port, head(1) + "x") as made:
            assert status(made) == 200
        many[-1].sendall(b"TTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\nx")
        assert status(many[-1]) == 200, "the newest is still there"


def test_slow_bodies_time_out_and_steady_ones_do_not() -> None:
    with answering(bounded(seconds=0.5, rate=1000, unknown=10_000)) as port:
        with connect(port, head(10) + "x") as made:
            assert status(made) == 408
            assert made.recv(1) == b""
        with connect(port, head(5000)) as made:
            for _ in range(5):
                made.sendall(b"x" * 1000)
                time.sleep(0.2)
            assert status(made) == 200


def test_a_head_that_does_not_come_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "HEAD_SECONDS", 0.5)
    with answering(bounded()) as port:
        with connect(port, "POST / HTTP/1.1\r\nHost:") as made:
            assert answer(made) == ""
        with connect(port, "") as made:
            assert answer(made) == ""
        with connect(port, head(1) + "x") as made:  # one request, and half of another
            assert status(made) == 200
            made.sendall(b"POST")
            assert answer(made) == ""
        with connect(port, head(1) + "x") as made:
            assert status(made) == 200
            time.sleep(0.7)
            made.sendall((head(1) + "x").encode())
            assert status(made) == 200, "between requests there is more time"


def test_an_address_has_few_unfinished_bodies() -> None:
    with answering(bounded(of_address=3)) as port:
        held = [connect(port, head(10) + "x") for _ in range(3)]
        with connect(port, head(1)) as waiting:  # its body comes later
            assert status(waiting) == 429
        with connect(port, head(10) + "x" * 10) as other:
            assert status(other) == 429
        with connect(port, head(10) + "x" * 10, "127.0.0.2") as other:
            assert status(other) == 200
        held[0].sendall(b"x" * 9)
        assert status(held[0]) == 200
        held[1].close()
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:  # that someone has gone is seen a moment later
            with connect(port, head(10) + "x" * 10) as other:
                if status(other) == 200:
                    break
        else:
            raise AssertionError("who has gone is still waited for")
        for each in held:
            each.close()


def test_too_many_in_all_give_up_the_oldest_of_who_has_most() -> None:
    with answering(bounded(of_address=3, waiting=4)) as port:
        alone = connect(port, head(10) + "x", "127.0.0.2")
        held = [connect(port, head(10) + "x") for _ in range(3)]
        time.sleep(0.3)
        new = connect(port, head(10) + "x", "127.0.0.3")
        assert status(held[0]) == 408
        for each in (alone, new, *held[1:]):
            each.sendall(b"x" * 9)
            assert status(each) == 200
        for each in (alone, new, *held):
            each.close()


# ---- the server itself


def test_only_a_valid_token_or_session_lifts_the_limit(tmp_path: Any) -> None:
    web = serving(f"sqlite:///{tmp_path / 'x.db'}", tmp_path)
    much = {"name": "x" * 70_000}
    for headers in ({"Cookie": "a=b"}, {"Cookie": f"{COOKIE}=made-up"}, {"Authorization": "Bearer made-up"}):
        assert web.anyone().post("/sign-in", data=much, headers=headers).status_code == 413, headers
    program = web.program("Ada", {"*": Role.ADMIN})
    assert program.post("/sign-in", data=much).status_code == 413, "a token is for the API"
    body = {"name": "x" * 70_000}
    assert program.post("/api/v1/programmes", json=body).status_code == 422
    assert web.browser("Bo", {"*": Role.ADMIN}).post("/me/tokens", data={"label": "x" * 70_000}).status_code == 422


def test_guessing_by_large_bodies_is_counted(tmp_path: Any) -> None:
    web = serving(f"sqlite:///{tmp_path / 'x.db'}", tmp_path)
    guesser = web.anyone("192.0.2.7")
    tried = [
        guesser.post("/sign-in", data={"name": "x" * 70_000}, headers={"Cookie": f"{COOKIE}=guess-{k}"}).status_code
        for k in range(70)
    ]
    assert tried[0] == 413
    assert tried[-1] == 429


@pytest.mark.slow
def test_a_server_answers_others_while_bodies_are_held_back(tmp_path: Any) -> None:
    with running_server(f"sqlite:///{tmp_path / 'x.db'}") as server:
        port, number = int(server.address.rpartition(":")[2]), 1500
        text = head(60_000, "/sign-in", FORM) + "x" * 1000
        began, held = time.monotonic(), list[socket.socket]()
        with ExitStack() as stack:
            for _ in range(number):  # refused at once, but for a few
                made = stack.enter_context(connect(port, text, "127.0.0.2"))
                held.append(made)
            with connect(port, "GET /sign-in HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n") as other:
                assert status(other) == 200
            with connect(port, head(7, "/sign-in", FORM) + "name=Bo") as other:
                assert status(other) in (401, 403, 422)
            answers = Counter(status(made) for made in held)
            refused, slow = answers.pop(429), answers.pop(408)
            assert not answers
            assert refused + slow == number
            waits = 1 + (time.monotonic() - began) // BodyBounds().seconds  # who times out makes room for another
            assert slow <= waits * BodyBounds().of_address


def test_bodies_are_given_up_in_turn() -> None:
    """Nothing of a body that was given up is counted after it has ended."""

    async def main() -> None:
        unfinished = bounded(waiting=2)._unfinished
        first, second, third = (unfinished.begin(f"192.0.2.{k}") for k in range(3))
        assert list(unfinished._waiting) == [second, third]
        for each in (first, second, third, first):
            unfinished.end(each)
        assert not unfinished._waiting

    asyncio.run(main())
