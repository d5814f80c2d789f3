"""Heads that are kept elsewhere by themselves: in a file, at an address; and what they are for."""

from __future__ import annotations

import json
import os
import shutil
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import meritfair as mf
from meritfair.programme import Programme, keeping
from meritfair.programme.keeping import Places, failure_of, places_of, set_places
from meritfair.programme.ledger.heads import HEADER, KeptHead, check_head, read_heads, short_code
from meritfair.programme.storage.store import Store
from programme.clinics import clinic
from programme.servers import free_port


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "heads.tsv"


def lines(file: Path) -> list[list[str]]:
    """Return the fields of all lines of a file of heads, without its first, which says what they are."""
    first, *rest = file.read_text().splitlines()
    assert first == HEADER
    return [each.split("\t") for each in rest]


class Receiver:
    """What was posted, and how it is answered."""

    def __init__(self) -> None:
        self.posts: list[dict[str, Any]] = []
        self.kinds: list[str | None] = []
        self.answers: list[int] = []  # the next ones; 204 when there is none left
        self.wait = threading.Event()  # is set when slow answers may go on
        self.slow = False
        self.location = ""
        self.address = ""


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """A server on the loopback interface that takes heads."""
    found = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            found.kinds.append(self.headers["Content-Type"])
            found.posts.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            if found.slow:
                found.wait.wait(20)
            self.send_response(found.answers.pop(0) if found.answers else 204)
            if found.location:
                self.send_header("Location", found.location)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as serving:
        serving.daemon_threads = True
        found.address = f"http://127.0.0.1:{serving.server_port}/heads"
        thread = threading.Thread(target=serving.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield found
        finally:
            found.wait.set()
            serving.shutdown()
            thread.join()


# ---- a file


def test_each_draw_appends_its_head_once(store_url: str, file: Path) -> None:
    calls = clinic(store_url)
    set_places(calls.programme.store, Places(str(file)))
    now = calls.programme.status()
    assert lines(file) == [[now.time, "calls", identity(calls.programme), "0", "1", now.head]]
    first = calls.programme.draw(by="Ada", key="one")
    assert first.warning == ""
    assert lines(file)[1] == [first.time, "calls", identity(calls.programme), "1", "3", first.head]
    for key in ("one", "two", None):  # the same request, and the same round
        assert calls.programme.draw(by="Ada", key=key).ids == first.ids
    assert len(lines(file)) == 2
    calls.programme.close(by="Ada")
    mf.programme.open(store_url, "calls").draw(by="Bo")  # another process would open it like this
    assert [each[3] for each in lines(file)] == ["0", "1", "2"]


def identity(programme: Programme) -> str:
    with programme.store.reading(programme.name) as session:
        return session.identity


def test_a_dry_look_or_a_refused_draw_keeps_nothing(tmp_path: Path, file: Path) -> None:
    calls = clinic(str(tmp_path / "x.db"))
    set_places(calls.programme.store, Places(str(file)))
    calls.programme.preview()
    with pytest.raises(mf.InputError, match="there is no participant"):
        calls.programme.draw(away=["nobody"], by="Ada")
    with pytest.raises(mf.InputError, match="something was entered since"):
        calls.programme.expecting("00" * 32).draw(by="Ada")
    assert len(lines(file)) == 1


def test_two_programmes_share_a_file(store_url: str, file: Path) -> None:
    first, second = clinic(store_url), clinic(store_url, name="home visits")
    set_places(first.programme.store, Places(str(file)))
    heads = {each.programme.name: each.play().head for each in (first, second)}
    assert [each[1] for each in lines(file)] == ["calls", "home visits"] * 2
    text = file.read_text()
    for each in (first, second):
        kept = read_heads(text, each.programme.name, identity(each.programme))
        assert len(kept) == 2
        assert kept[1] == heads[each.programme.name]
        assert each.programme.verify(heads=kept).whole
    assert not first.programme.verify(heads=read_heads(text, "home visits", identity(second.programme))).whole


def test_a_committed_round_is_kept_before_its_value_is_known(store_url: str, file: Path) -> None:
    calls = clinic(store_url, source="lottery")
    set_places(calls.programme.store, Places(str(file)))
    committed = calls.programme.draw(by="Ada")
    calls.programme.draw(by="Ada")
    drawn = calls.programme.draw(value="ab" * 32, by="Ada")
    assert [each[5] for each in lines(file)][1:] == [committed.head, drawn.head]


def test_a_line_that_was_cut_off_does_not_swallow_the_next(tmp_path: Path, file: Path) -> None:
    calls = clinic(str(tmp_path / "x.db"))
    set_places(calls.programme.store, Places(str(file)))
    file.write_text(file.read_text().rstrip("\n"))
    assert calls.programme.draw(by="Ada").warning == ""
    assert len(lines(file)) == 2


@pytest.mark.parametrize("broken", ["folder", "gone", "full"])
def test_a_draw_stands_if_the_file_cannot_be_written(store_url: str, file: Path, broken: str) -> None:
    if broken == "full" and not Path("/dev/full").exists():
        pytest.skip("there is no device that is always full")
    calls = clinic(store_url)
    store, shared = calls.programme.store, file.parent / "shared"
    shared.mkdir()
    set_places(store, Places(str(shared / "heads.tsv")))
    shutil.rmtree(shared)
    if broken != "gone":
        shared.mkdir()
        (shared / "heads.tsv").mkdir() if broken == "folder" else (shared / "heads.tsv").symlink_to("/dev/full")
    words = {"folder": "Is a directory", "gone": "No such file or directory", "full": "No space left on device"}
    drawn = calls.programme.draw(by="Ada")
    assert drawn.phase == "open"
    assert len(drawn.ids) == 3
    assert drawn.warning == f"The head could not be kept at heads.tsv: {words[broken]}."
    assert failure_of(store, identity(calls.programme)) == drawn.warning
    (shared / "heads.tsv").rmdir() if broken == "folder" else (shared / "heads.tsv").unlink(missing_ok=True)
    shared.mkdir(exist_ok=True)
    calls.programme.close(by="Ada")
    assert calls.programme.draw(by="Ada").warning == ""  # which covers the one that was not kept
    assert failure_of(store, identity(calls.programme)) == ""


@pytest.mark.skipif(os.name != "posix", reason="there are no pipes with names")
def test_a_pipe_that_nobody_reads_holds_nothing_up(tmp_path: Path) -> None:
    calls = clinic(str(tmp_path / "x.db"))
    set_places(calls.programme.store, Places(str(tmp_path / "heads.tsv")))
    (tmp_path / "heads.tsv").unlink()
    os.mkfifo(tmp_path / "heads.tsv")
    assert "The head could not be kept at heads.tsv" in calls.programme.draw(by="Ada").warning


def test_nothing_is_set_if_it_does_not_work_now(store_url: str, tmp_path: Path) -> None:
    store = Store(store_url)
    with pytest.raises(
        mf.InputError, match=r"could not be kept at heads\.tsv: No such file or directory\. Nothing was set"
    ):
        set_places(store, Places(str(tmp_path / "none" / "heads.tsv")))
    clinic(store_url)
    for address, words in {
        "ftp://example.org/heads": "heads are posted to an address such as https://",
        "file:///etc/passwd": "heads are posted to an address such as https://",
        "https://": "heads are posted to an address such as https://",
        "https://me:sesame@example.org": "no user and no password in it, got example.org",
        f"http://127.0.0.1:{free_port()}/": "could not be kept at 127.0.0.1: Connection refused. Nothing was set",
    }.items():
        with pytest.raises(mf.InputError) as refused:
            set_places(store, Places(address=address))
        assert words in str(refused.value)
        assert "sesame" not in str(refused.value)
    assert places_of(store) == Places()


# ---- an address


def test_each_draw_posts_its_head_once(store_url: str, receiver: Receiver) -> None:
    calls = clinic(store_url)
    set_places(calls.programme.store, Places(address=receiver.address))
    drawn = calls.programme.draw(by="Ada", key="one")
    calls.programme.draw(by="Ada", key="one")
    assert drawn.warning == ""
    kept = KeptHead(drawn.time, "calls", identity(calls.programme), 1, 3, drawn.head)
    assert receiver.posts[1:] == [vars(kept)]
    assert set(receiver.kinds) == {"application/json"}


@pytest.mark.parametrize(
    ("answers", "posts", "words"),
    [
        ([503], 2, ""),
        ([503, 503], 2, "it answers 503 Service Unavailable"),
        ([403], 1, "it answers 403 Forbidden"),
        ([302], 1, "it redirects to example.org: name that one instead"),
        ([307], 1, "it redirects to example.org: name that one instead"),
    ],
)
def test_an_address_that_answers_otherwise(
    tmp_path: Path, receiver: Receiver, answers: list[int], posts: int, words: str
) -> None:
    calls = clinic(str(tmp_path / "x.db"))
    set_places(calls.programme.store, Places(address=receiver.address))
    receiver.posts.clear()
    receiver.answers, receiver.location = answers, "http://example.org/secret-token"
    drawn = calls.programme.draw(by="Ada")
    assert drawn.warning == (f"The head could not be kept at 127.0.0.1: {words}." if words else "")
    assert len(receiver.posts) == posts
    assert len(drawn.ids) == 3


def test_a_redirect_to_a_file_is_not_followed(tmp_path: Path, receiver: Receiver) -> None:
    calls = clinic(str(tmp_path / "x.db"))
    set_places(calls.programme.store, Places(address=receiver.address))
    receiver.answers, receiver.location = [302], "file:///etc/passwd"
    assert calls.programme.draw(by="Ada").warning == "The head could not be kept at 127.0.0.1: it redirects."


def test_a_connection_that_is_refused_and_a_slow_server(
    tmp_path: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = clinic(str(tmp_path / "x.db"))
    monkeypatch.setattr(keeping, "SECONDS", 0.2)
    set_places(calls.programme.store, Places(address=receiver.address))
    receiver.slow = True
    warning = calls.programme.draw(by="Ada").warning
    assert warning == "The head could not be kept at 127.0.0.1: no answer within 0.2 seconds."
    assert len(receiver.posts) == 3  # the first, and two tries
    calls.programme.close(by="Ada")
    calls.programme.store.set_setting(keeping.SETTING, json.dumps({"address": f"http://127.0.0.1:{free_port()}"}))
    assert "could not be kept at 127.0.0.1: Connection refused." in calls.programme.draw(by="Ada").warning


@contextmanager
def dripping() -> Iterator[str]:
    """Serve an answer without an end, a little at a time, each in time."""
    stop = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while not stop.is_set():
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    try:
                        while not stop.wait(0.05):
                            connection.sendall(b"H")
                    except OSError:
                        continue

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}/"
        stop.set()


def test_a_server_that_never_ends_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = clinic(str(tmp_path / "x.db"))
    monkeypatch.setattr(keeping, "SECONDS", 0.2)
    with dripping() as address:
        calls.programme.store.set_setting(keeping.SETTING, json.dumps({"address": address}))
        assert "it took longer than 1.4 seconds" in calls.programme.draw(by="Ada").warning


def test_both_places_at_once_and_then_none(tmp_path: Path, file: Path, receiver: Receiver) -> None:
    calls = clinic(str(tmp_path / "x.db"))
    set_places(calls.programme.store, Places(str(file), receiver.address))
    calls.play()
    assert (len(lines(file)), len(receiver.posts)) == (2, 2)
    set_places(calls.programme.store, Places())
    calls.play()
    assert (len(lines(file)), len(receiver.posts)) == (2, 2)


# ---- what they are for


def test_a_ledger_that_its_owner_rewrites_is_found_by_the_file(tmp_path: Path, file: Path) -> None:
    """All is consistent after it: chain, draws, what is beside; only the file tells."""
    calls = clinic(str(tmp_path / "x.db"))
    calls.play()
    shutil.copy(tmp_path / "x.db", tmp_path / "copy.db")  # before the draw that the owner does not like
    set_places(calls.programme.store, Places(str(file)))
    assert len(calls.programme.draw(by="Ada").ids) == 3
    assert calls.programme.verify(heads=read_heads(file.read_text(), "calls", identity(calls.programme))).whole
    shutil.copy(tmp_path / "copy.db", tmp_path / "x.db")
    again = mf.programme.open(str(tmp_path / "x.db"), "calls")
    again.away(["p2"], by="Eve")
    again.draw(by="Eve")
    assert again.verify().whole
    kept = read_heads(file.read_text(), "calls", identity(again))
    assert len(kept) == 2
    found = again.verify(heads=kept)
    assert [f"the head {kept[1]} is not in the ledger" in str(each) for each in found.problems] == [True]
    short = again.verify(heads=[short_code(each) for each in kept])
    assert f"the head {kept[1][:12]} is not in the ledger" in str(short)


def test_a_programme_in_the_place_of_another_is_found_by_the_file(store_url: str, tmp_path: Path, file: Path) -> None:
    """Its name is the same, its identity and all of its hashes are new."""
    from meritfair.programme import doctor

    calls = clinic(store_url)
    set_places(calls.programme.store, Places(str(file)))
    lost = calls.play().head
    other = f"sqlite:///{tmp_path / 'new.db'}"
    again = clinic(other)
    again.play()
    kept = read_heads(file.read_text(), "calls", identity(again.programme))
    assert lost in kept
    assert f"the head {kept[0]} is not in the ledger" in str(again.programme.verify(heads=kept))
    set_places(again.programme.store, Places(str(file)))
    found = next(each for each in doctor.check_store(other) if each.name == "heads")
    assert (found.state, f"the first {kept[0]}" in found.found) == ("problem", True)


def test_the_doctor_compares_the_file(store_url: str, file: Path) -> None:
    from meritfair.programme import doctor

    calls = clinic(store_url)
    set_places(calls.programme.store, Places(str(file)))
    calls.play()

    def look() -> Any:
        return next(each for each in doctor.check_store(store_url) if each.name == "heads")

    assert (look().state, "hold 2 heads" in look().found) == ("ok", True)
    right = file.read_text()
    file.write_text(right.replace(lines(file)[0][5], "ab" * 32))
    assert (look().state, f"the first {'ab' * 32}" in look().found) == ("problem", True)
    file.write_text(f"{right}what is this?\n")
    assert (look().state, "line 4" in look().found) == ("warning", True)
    file.unlink()
    assert look().state == "warning"
    set_places(calls.programme.store, Places())
    assert (look().state, "meritfair programme heads" in look().advice) == ("skipped", True)


def test_short_codes(tmp_path: Path) -> None:
    calls = clinic(str(tmp_path / "x.db"))
    head = calls.play().head
    assert short_code(head).replace("-", "") == head[:12]
    for text in (short_code(head), head[:12], head[:20].upper(), f" {head}\n"):
        assert calls.programme.verify(heads=[text]).whole
    words = str(calls.programme.verify(heads=[short_code(head), head]))
    assert "It holds 2 heads that were kept elsewhere." in words
    assert "48 bits, which is weaker than a whole head" in words
    assert "weaker" not in str(calls.programme.verify(heads=[head]))
    assert not calls.programme.verify(heads=["0" * 12]).whole
    for wrong in (head[:11], head + "0", "xyz", ""):
        with pytest.raises(mf.InputError, match="a head has 64 hexadecimal digits, a short code at least 12"):
            calls.programme.verify(heads=[wrong])


def test_files_of_heads() -> None:
    mine, other = ("calls", "a" * 32), ("visits", "b" * 32)
    kept = [KeptHead("2026-11-17T09:00:00Z", *who, 1, 3, f"{k:064x}") for k, who in enumerate((mine, other))]
    text = "\n".join([HEADER, *(each.line() for each in kept), "", "  # a remark", f"{7:064X}", "6f52-3e21-ba67"])
    assert read_heads(f"\ufeff{text}\r\n", *mine) == [f"{0:064x}", f"{7:064x}", "6f523e21ba67"]
    assert check_head("6f52-3e21-ba67") == "6f523e21ba67"
    for wrong in ("hello", "a\tb\tc\td\te\tf", kept[0].line()[:-1], kept[0].line() + "\tmore", "6f52"):
        with pytest.raises(
            mf.InputError, match=r"heads\.tsv, line 2: neither a head that was kept nor a line of a file"
        ):
            read_heads(f"{HEADER}\n{wrong}", *mine, "heads.tsv")
