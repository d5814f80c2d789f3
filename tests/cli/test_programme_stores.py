"""`meritfair programme` on every kind of database: the same words, the same answers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import meritfair as mf
from programme.conftest import postgresql as postgresql
from programme.conftest import store_url as store_url

pytestmark = pytest.mark.slow


@pytest.fixture
def call(
    command: Callable[..., Any], store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Any]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MERITFAIR_STORE", store_url)
    monkeypatch.setenv("MERITFAIR_BY", "Dr. Osei")
    monkeypatch.setenv("COLUMNS", "100")
    Path("people.csv").write_text("id,group\n" + "".join(f"P{i},{'ns'[i % 2]}\n" for i in range(20)))
    return lambda *words: command("programme", *words)


def test_rounds_and_moving_to_a_file(call: Callable[..., Any]) -> None:
    assert call("create", "clinic", "--budget", "4,2", "--policy", "random").code == 0
    assert call("enrol", "people.csv").code == 0
    for round_, number in ((1, 4), (2, 2), (3, 4)):
        drawn = json.loads(call("draw", "--out", f"{round_}.csv", "--json").out)
        assert (drawn["number"], len(drawn["people"])) == (round_, number)
        lines = Path(f"{round_}.csv").read_text().splitlines()
        Path(f"{round_}.csv").write_text("\n".join([lines[0], *(line[:-2] + "1,0," for line in lines[1:])]))
        answer = call("report", f"{round_}.csv")
        assert answer.out == f"Round {round_}: took in what was seen of {number} participants.\n"
        assert call("close").code == 0
    bad = call("enrol", "people.csv")
    assert bad.err == "meritfair: people.csv, line 2, column id: the participant 'P0' is enrolled already\n"
    assert "The ledger is whole: 14 entries, 3 rounds, 3 draws checked." in call("verify").out
    assert call("export", "moving").code == 0
    head = json.loads(call("status", "--json").out)["head"]
    moved = json.loads(call("import", "moving", "--store", "moved.db", "--json").out)
    assert moved["head"] == head
    assert mf.programme.open("moved.db").verify(heads=[head]).whole


def test_no_password_is_shown(call: Callable[..., Any], store_url: str) -> None:
    with_password = store_url.replace("postgres@", "postgres:sesame@")
    for words in (["create", "clinic", "-k", 1], ["status"], ["list"]):
        answer = call(*words, "--store", with_password)
        assert answer.code == 0
        assert "sesame" not in answer.out + answer.err


def test_a_server_that_is_not_there(command: Callable[..., Any]) -> None:
    answer = command("programme", "status", "--store", "postgresql://me:sesame@127.0.0.1:1/none")
    assert answer.code == 2
    assert "cannot connect. See that the server runs" in answer.err
    assert "sesame" not in answer.err
    assert answer.err.count("\n") == 1
