"""`meritfair users` and `meritfair tokens`."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from meritfair.programme.storage.store import Store
from meritfair.programme.users import Role, Users

Call = Callable[..., Any]


@pytest.fixture
def call(command: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MERITFAIR_STORE", "calls.db")
    monkeypatch.setenv("COLUMNS", "140")
    with Store("calls.db").creating("clinic", "0" * 32, b"secret"):
        pass
    return command


@pytest.fixture
def users(call: Call) -> Users:
    assert call("users", "add", "Ada", "--role", "admin", "--by", "Dr. Osei").code == 0
    return Users(Store("calls.db"))


def test_there_must_be_a_store(command: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MERITFAIR_STORE", raising=False)
    for words in (("users", "list"), ("tokens", "list"), ("users", "add", "Ada", "--role", "admin")):
        answer = command(*words, "--store", tmp_path / "none.db")
        assert answer.code == 2
        assert "there is no store" in answer.err
    assert list(tmp_path.iterdir()) == []


def test_a_user_is_added_listed_and_changed(call: Call, users: Users) -> None:
    answer = call("users", "add", "Nurse Ama", "--role", "coordinator", "-p", "clinic")
    assert answer.out.startswith("Added Nurse Ama: coordinator in clinic.\n")
    assert "meritfair users link 'Nurse Ama'" in answer.out
    assert call("users", "role", "nurse ama", "viewer").out == (
        "Nurse Ama: viewer in all programmes, coordinator in clinic.\n"
    )
    assert call("users", "role", "Nurse Ama", "none", "-p", "clinic").out == "Nurse Ama: viewer in all programmes.\n"
    listed = call("users", "list").words
    assert "Nurse Ama viewer in all programmes never new" in listed
    assert "is disabled" in call("users", "disable", "Nurse Ama").out
    assert "Nurse Ama viewer in all programmes never disabled" in call("users", "list").words
    assert "is enabled: viewer" in call("users", "enable", "Nurse Ama").out
    shown = json.loads(call("users", "list", "--json").out)["users"]
    assert [(each["name"], each["roles"]) for each in shown] == [
        ("Ada", {"*": "admin"}),
        ("Nurse Ama", {"*": "viewer"}),
    ]
    assert {line.by for line in users.log()} == {"Dr. Osei", "command line"}


def test_there_may_be_nobody_yet(call: Call) -> None:
    assert "There is no user yet: meritfair users add" in call("users", "list").out
    assert "There is no token yet: meritfair tokens add" in call("tokens", "list").out
    assert json.loads(call("users", "list", "--json").out) == {"users": []}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("users add Ada --role admin", "there is already a user 'Ada'"),
        ("users add Ben --role boss", "a role is viewer, auditor, coordinator or admin, got 'boss'"),
        ("users add Ben --role admin -p school", "('clinic') or '*', got 'school'"),
        ("users add Ben", "Missing option '--role'"),
        ("users role Ben viewer", "there is no user 'Ben'"),
        ("users role Ada viewer", "'Ada' is the last admin of all programmes: make another one first"),
        ("users disable Ada", "'Ada' is the last admin"),
        ("users link Ben", "there is no user 'Ben'"),
        ("users link Ada --hours 0", "--hours must be between 1 and 720, got 0"),
        ("users link Ada --url example.org", "--url must begin with http:// or https://, got 'example.org'"),
        ("tokens add Ben --label x", "there is no user 'Ben'"),
        ("tokens add Ada --label x --days 0", "--days must be between 1 and 3650, got 0"),
        ("tokens add Ada --label x --role boss", "a role is viewer"),
        ("tokens revoke 7", "there is no token 7"),
    ],
)
def test_mistakes_are_told(call: Call, users: Users, words: str, told: str) -> None:
    before = users.all(), users.tokens(), users.log()
    answer = call(*words.split())
    assert answer.code == 2
    assert told in " ".join(answer.err.split())
    assert (users.all(), users.tokens(), users.log()) == before


def test_a_link_signs_in_once(call: Call, users: Users) -> None:
    answer = call("users", "link", "ada", "--url", "https://calls.example.org/")
    found = re.match(r"https://calls\.example\.org/sign-in/link#([\w-]{43})\n", answer.out)
    assert found is not None
    assert "within 24 hours" in answer.words
    session = users.session(users.use_link(found[1]))
    assert session is not None
    assert session.name == "Ada"
    shown = json.loads(call("users", "link", "Ada", "--json", "--hours", 2).out)
    assert shown["link"].startswith("http://127.0.0.1:8000/sign-in/link#")
    assert (shown["name"], shown["hours"]) == ("Ada", 2)


@pytest.mark.slow
def test_a_password_is_read_and_never_shown(call: Call, users: Users, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("correct horse\n"))
    answer = call("users", "password", "ada")
    assert answer.out == "Ada has a new password; sessions and links have ended.\n"
    assert users.knows("Ada", "correct horse")
    monkeypatch.setattr("sys.stdin", io.StringIO("short\n"))
    answer = call("users", "password", "Ada")
    assert answer.code == 2
    assert "at least 10 characters, got 5" in answer.err
    assert "short" not in answer.err


def test_a_token_is_shown_once_listed_and_revoked(call: Call, users: Users) -> None:
    answer = call("tokens", "add", "Ada", "--label", "system", "--role", "auditor", "-p", "clinic", "--days", 30)
    token = answer.out.split()[0]
    assert "Token 1 of Ada. Keep it as a password: it is not shown again." in answer.words
    caller = users.caller(token)
    assert caller is not None
    assert caller.roles == {"clinic": Role.AUDITOR}
    made = json.loads(call("tokens", "add", "Ada", "--label", "other", "--json").out)
    assert users.caller(made["token"]) is not None
    assert (made["role"], made["programme"], made["expires"], made["revoked"]) == (None, None, None, None)
    listed = call("tokens", "list").words
    assert "1 Ada system auditor in clinic" in listed
    assert "2 Ada other the user's roles" in listed
    assert token not in listed
    assert call("tokens", "revoke", 1).out == "Token 1 of Ada (system) is revoked.\n"
    assert users.caller(token) is None
    shown = json.loads(call("tokens", "list", "--user", "ada", "--json").out)["tokens"]
    assert [bool(each["revoked"]) for each in shown] == [True, False]
    assert all("token" not in each for each in shown)
