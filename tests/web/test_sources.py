"""Attacks on public randomness through the API, with the token of a coordinator alone."""

from __future__ import annotations

import hashlib
import io
import json
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from typing import Any

import pytest

import meritfair as mf
from meritfair.programme import People
from meritfair.programme.ledger.standalone import draw, read_table
from meritfair.programme.users import Role
from programme.beacon import SIGNATURES, before, set_clock, time_of
from programme.quick_hashes import quick_hashes as quick_hashes
from web.clients import TestClient, Web, serving

pytestmark = pytest.mark.slow

P = "/api/v1/programmes/calls"
FAVOURITES = [3, 17, 29]
BUDGET = 3


@pytest.fixture
def web(store_url: str, tmp_path: Path) -> Web:
    """A server with a programme of forty people."""
    calls = mf.programme.open(store_url, "calls")
    calls.create(BUDGET, by="Ada")
    calls.enrol(People([f"p{number}" for number in range(40)]), by="Ada")
    return serving(store_url, tmp_path)


@pytest.fixture
def mallory(web: Web) -> TestClient:
    return web.program("Mallory", {"calls": Role.COORDINATOR})


def waited(client: TestClient, method: str, path: str) -> Any:
    """Ask until long work is done."""
    for _ in range(600):
        answer = client.request(method, path)
        if answer.status_code != 202:
            return answer.json()
        time.sleep(0.05)
    raise AssertionError(f"{path} took too long")


def export(client: TestClient, folder: Path) -> Path:
    """Return an anonymous export, unpacked."""
    made = waited(client, "POST", f"{P}/exports")
    with zipfile.ZipFile(io.BytesIO(client.get(made["file"]).content)) as packed:
        packed.extractall(folder)
    return next(folder.rglob("ledger.jsonl")).parent


def searched(folder: Path, size: int) -> bytes:
    """Return a value that would draw the favourites if seeds followed from what an export shows."""
    entries = [json.loads(line) for line in (folder / "ledger.jsonl").read_text(encoding="utf-8").splitlines()]
    commit = next(each for each in reversed(entries) if each["kind"] == "commit")
    rows = read_table(folder / f"tables/{commit['seq']}.z", **commit["table"])
    text = json.dumps(
        {key: commit[key] for key in ("body", "programme", "table")},
        ensure_ascii=False,
        sort_keys=True,
        separators=(",", ":"),
    )
    commitment = hashlib.sha256(text.encode()).digest()
    for number in range(200_000):
        value = number.to_bytes(size, "big")
        seed = hashlib.sha256(b"meritfair-draw" + commitment + value).digest()
        if sorted(draw(seed, rows, 1)) == FAVOURITES:
            return value
    raise AssertionError("no value draws them")


def test_a_coordinator_cannot_name_a_source(mallory: TestClient) -> None:
    answer = mallory.post(f"{P}/rounds", json={"source": "lottery of tonight"})
    assert answer.status_code == 422
    answer = mallory.patch(f"{P}/settings", json={"source": "lottery of tonight", "reason": "trust me"})
    assert answer.status_code == 403
    assert mallory.get(P).json()["settings"]["source"] == "secret"


def test_a_value_that_was_searched_for_draws_nobody_in_particular(
    web: Web, mallory: TestClient, tmp_path: Path
) -> None:
    admin = web.program("Ada", {"*": Role.ADMIN})
    changed = admin.patch(f"{P}/settings", json={"source": "lottery of tonight", "reason": "the board wants it"})
    assert changed.status_code == 200
    waiting = mallory.post(f"{P}/rounds").json()
    assert (waiting["phase"], waiting["source"]) == ("committed", "lottery of tonight")
    value = searched(export(mallory, tmp_path / "before"), 16)
    drawn = mallory.post(f"{P}/rounds", json={"value": value.hex()}).json()
    assert len(drawn["outcomes"]) == BUDGET
    assert sorted(each["number"] for each in drawn["outcomes"]) != FAVOURITES
    found = waited(mallory, "POST", f"{P}/verifications")["result"]
    assert (found["whole"], found["unchecked"]) == (True, 1)
    assert mallory.get(P).json()["unchecked"] == 1
    verdict = waited(mallory, "GET", f"{P}/audit")["verdict"]
    assert "; 1 of 1 round rests on a public value that no program can check." in verdict
    browser = web.browser("Mallory")
    assert "1 draw rests on a public value that no program can check" in browser.get("/p/calls/ledger").text
    folder = export(mallory, tmp_path / "after")
    said = subprocess.run([sys.executable, "-I", "-S", folder / "verify.py"], capture_output=True, text=True)
    assert said.returncode == 0
    assert "the seeds of all draws can be checked once the secret is published" in said.stdout
    assert f"compare {{'kind': 'named', 'name': 'lottery of tonight'}} with the value {value.hex()}" in said.stdout


def test_invented_bytes_are_no_value_of_drand(
    web: Web, mallory: TestClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as clock:
        set_clock(clock, before(1000))
        calls = mf.programme.open(web.frame.store.url, "beacon")
        calls.create(BUDGET, source="drand", by="Ada")
        calls.enrol(People([f"p{number}" for number in range(12)]), by="Ada")
        web.users.set_role("Mallory", "beacon", Role.COORDINATOR, by="test")
        at = "/api/v1/programmes/beacon"
        waiting = mallory.post(f"{at}/rounds").json()
        assert (waiting["source"], waiting["address"].rsplit("/", 1)[1]) == ("drand quicknet round 1000", "1000")
        set_clock(clock, time_of(1000))
        for made_up in (bytes(48).hex(), "ab" * 48, "ab" * 32, SIGNATURES[657413]):
            answer = mallory.post(f"{at}/rounds", json={"value": made_up})
            assert answer.status_code == 422, made_up
        drawn = mallory.post(f"{at}/rounds", json={"value": SIGNATURES[1000]})
        assert len(drawn.json()["outcomes"]) == BUDGET
        assert calls.verify().signed == 1
