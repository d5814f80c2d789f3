"""`meritfair programme heads` and `verify --heads`; warnings of all verbs on the error stream."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import meritfair as mf
from meritfair.programme import work
from meritfair.programme.ledger.heads import short_code
from programme.clinics import clinic

Call = Callable[..., Any]


@pytest.fixture
def call(command: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MERITFAIR_STORE", "calls.db")
    monkeypatch.setenv("MERITFAIR_BY", "Dr. Osei")
    monkeypatch.setenv("COLUMNS", "200")
    return lambda *words: command("programme", *words)


@pytest.fixture
def calls(call: Call) -> mf.programme.Programme:
    return clinic("calls.db", policy="random").programme


def test_from_nowhere_to_a_file_and_off(call: Call, calls: mf.programme.Programme) -> None:
    assert "Heads are not kept by themselves." in call("heads").out
    answer = call("heads", "--append", "heads.tsv")
    assert answer.code == 0
    assert f"After each draw, the head is appended to {Path('heads.tsv').absolute()}" in answer.out
    assert "There was no draw yet." in answer.out
    drawn = call("draw")
    assert (drawn.code, drawn.err) == (0, "")
    head = calls.round().head
    assert f"Short code: {short_code(head)}" in drawn.out
    shown = call("heads")
    assert short_code(head) in shown.out
    assert " in the file" in shown.out
    values = json.loads(call("heads", "--json").out)
    assert values["file"] == str(Path("heads.tsv").absolute())
    assert [(each["head"], each["in_file"]) for each in values["heads"]] == [(head, True)]
    assert call("heads", "--off", "--append", "x.tsv").code == 2
    assert "Heads are not kept by themselves." in call("heads", "--off").out
    assert call("close").code == call("draw").code == 0
    assert len(Path("heads.tsv").read_text().splitlines()) == 3


def test_verify_takes_heads_from_a_file(call: Call, calls: mf.programme.Programme) -> None:
    call("heads", "--append", "heads.tsv")
    call("draw")
    answer = call("verify", "--heads", "heads.tsv", "--head", short_code(calls.round().head))
    assert answer.code == 0
    assert "It holds 3 heads that were kept elsewhere." in answer.out
    assert "1 of them was a short code of as little as 48 bits, which is weaker than a whole head" in answer.out
    Path("plain.txt").write_text("# of the board\n" + "0" * 64 + "\n")
    answer = call("verify", "--heads", "plain.txt")
    assert (answer.code, f"the head {'0' * 64} is not in the ledger" in answer.out) == (1, True)
    Path("wrong.txt").write_text("# of the board\n\nhello\n")
    answer = call("verify", "--heads", "wrong.txt")
    assert (answer.code, "wrong.txt, line 3: neither a head" in answer.err) == (2, True)
    Path("bytes.txt").write_bytes(b"\xff\xfe\x00")
    assert "bytes.txt: this is not a file of heads" in call("verify", "--heads", "bytes.txt").err
    assert "none.txt" in call("verify", "--heads", "none.txt").err
    Path("empty.txt").write_text("# nothing\n")
    answer = call("verify", "--heads", "empty.txt")
    assert (answer.code, answer.out, "empty.txt: there is no head of calls in it" in answer.err) == (2, "", True)
    assert "a head has 64 hexadecimal digits" in call("verify", "--head", "abc").err


def test_a_head_that_cannot_be_kept_is_told_and_the_draw_stands(call: Call, calls: mf.programme.Programme) -> None:
    call("heads", "--append", "heads.tsv")
    Path("heads.tsv").unlink()
    Path("heads.tsv").mkdir()
    answer = call("draw", "--json")
    assert answer.code == 0
    warning = "The head could not be kept at heads.tsv: Is a directory."
    assert answer.err.strip() == f"Warning: {warning}"
    assert json.loads(answer.out)["warning"] == warning
    assert warning in call("heads").err
    assert "Nothing was set" in call("heads", "--append", "heads.tsv").err
    assert "heads are posted to an address such as" in call("heads", "--post", "file:///etc/passwd").err


def test_what_is_noticed_is_told_by_every_verb(
    call: Call, calls: mf.programme.Programme, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:  # the clock was right, and is now set back
        patch.setattr(work, "now", lambda: f"{datetime.now(UTC) + timedelta(days=1):%Y-%m-%dT%H:%M:%SZ}")
        calls.away(["p3"], by="Ada")
    Path("new.csv").write_text("id\nq1\n")
    for words in (("draw",), ("close", "--json"), ("enrol", "new.csv"), ("withdraw", "q1"), ("away", "p1")):
        answer = call(*words)
        assert answer.code == 0, answer.err
        assert "Warning: The clock of this machine says" in answer.err, words
