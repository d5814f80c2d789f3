"""Ledgers that someone has written to break their reader: each is refused in words, by verification and by import."""

from __future__ import annotations

import dataclasses
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import meritfair as mf
from meritfair.core.errors import FileError, InputError
from meritfair.core.json_values import MOST_NESTED, from_json
from meritfair.policies.registry import create
from meritfair.programme import Programme
from meritfair.programme.ledger import standalone
from meritfair.programme.ledger.canonical import canonical, from_canonical, sha256
from meritfair.programme.ledger.entries import Entry
from meritfair.programme.ledger.rowtable import RowTable
from meritfair.programme.settings import Part, Settings

DEEP = "[" * 5000
HUGE = 10**400
POLICIES = [DEEP, "{" * 5000, '{"a":' * 5000, "[" * 500 + "]" * 500, "1" * 5000, "", "null", "[]", '{"name":["x"]}']


@pytest.fixture
def clinic(tmp_path: Path) -> Programme:
    programme = mf.programme.open(f"sqlite:///{tmp_path / 'a.db'}", "clinic")
    programme.create(1, "random", by="Ada")
    return programme


def with_policy(entry: Entry, policy: str) -> Entry:
    """Return the entry that creates a programme, with another text in place of its policy."""
    body: dict[str, Any] = json.loads(json.dumps(entry.body))
    body["parts"][0]["policy"] = policy
    return dataclasses.replace(entry, body=body)


def first(programme: Programme) -> Entry:
    with programme.store.reading(programme.name) as session:
        return next(Entry.from_bytes(data) for _, data, _ in session.entries())


@pytest.mark.parametrize("policy", POLICIES)
def test_a_policy_that_is_none_is_a_problem_of_its_entry(clinic: Programme, policy: str) -> None:
    data = with_policy(first(clinic), policy).to_bytes()
    data = data.replace(first(clinic).programme.encode(), b"ab" * 16)
    with clinic.store.creating("other", "ab" * 16, b"x" * 32) as session:
        session.append(data, sha256(data), None)
        session.set_summary({})
    found = Programme(clinic.store, "other").verify()
    assert not found.whole
    assert found.problems[0].entry == 0
    assert len(str(found.problems[0])) < 1000


@pytest.mark.parametrize("policy", POLICIES)
def test_an_import_of_it_is_refused(
    clinic: Programme, policy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(standalone, "check", lambda _folder: ([], {}))  # as if it had overlooked it
    folder = clinic.export(tmp_path / "export")
    (folder / "ledger.jsonl").write_bytes(with_policy(first(clinic), policy).to_bytes() + b"\n")
    with pytest.raises(FileError, match=r"ledger.jsonl, line 1: entry 0 cannot be taken in: "):
        mf.programme.open(f"sqlite:///{tmp_path / 'b.db'}", "clinic").import_(folder)
    assert mf.programme.open(f"sqlite:///{tmp_path / 'b.db'}").store.names() == []


@pytest.mark.parametrize("text", [DEEP, "", "1", "null", '{"format": 1}', "\x00", '{"name": ' + "1" * 5000 + "}"])
def test_private_files_that_are_none(
    clinic: Programme, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(standalone, "check", lambda _folder: ([], {}))
    folder = clinic.export(tmp_path / "export")
    (folder / "private.json").write_text(text)
    with pytest.raises(FileError, match="does not hold what is private of an export"):
        mf.programme.open(f"sqlite:///{tmp_path / 'b.db'}", "clinic").import_(folder)


def test_json_that_is_nested_too_deep() -> None:
    assert from_json("[" * MOST_NESTED + "]" * MOST_NESTED)
    for text in (DEEP, "[" * (MOST_NESTED + 2) + "]" * (MOST_NESTED + 2), "[" * 900 + "]" * 900):
        for read in (from_json, lambda text: from_canonical(text.encode())):
            with pytest.raises(InputError, match=r"nested"):
                read(text)
    assert canonical({"a": [1]}) == b'{"a":[1]}'


@pytest.mark.parametrize("what", ["parts", "rules", "forget", "features", "trial", "source"])
@pytest.mark.parametrize("value", [HUGE, -HUGE, [], {}, [[1]], {"a": 1}, None, True, "x", 1.5, float("nan")])
def test_settings_of_any_kind_are_refused_in_words(what: str, value: Any) -> None:
    body = Settings((Part(2, "random"),)).body() | {what: value}
    with suppress(InputError):  # or they are settings after all
        Settings.from_body(body)


@pytest.mark.parametrize("policy", ["merit-fair:slack=", "merit-fair:delta=", "fair-oracle:merit=exponential:c="])
@pytest.mark.parametrize("number", ["9" * 400, "-" + "9" * 400, "9" * 5000, "1e999", "nan"])
def test_huge_numbers_are_refused(policy: str, number: str) -> None:
    if policy.endswith("slack=") and number in ("1e999", "9" * 5000):
        pytest.skip("an infinite slack is one")
    with pytest.raises(InputError):
        create(policy + number)


@pytest.mark.parametrize("rows", [-1, 10**15, 2])
def test_a_table_of_another_length_is_not_made(rows: int) -> None:
    table = RowTable.of((("number", "u32"),), {"number": [7]})
    described = table.describe() | {"rows": rows}
    with pytest.raises(InputError, match="not the one that the entry was made with"):
        RowTable.from_bytes(described, b"\x07\x00\x00\x00")
