"""Users of a store: roles, passwords, sessions, links and tokens, on SQLite and on PostgreSQL."""

from __future__ import annotations

import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from meritfair.core.errors import InputError
from meritfair.programme import passwords, user_rows
from meritfair.programme.storage.store import Store, StoreError
from meritfair.programme.users import Caller, FirstSignIn, Role, SignInError, Users
from programme.quick_hashes import quick_hashes as quick_hashes
from programme.writers import make

PASSWORD = "correct horse"
Change = Callable[[], None]
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("quick_hashes")]


@pytest.fixture
def store(store_url: str) -> Store:
    make(store_url)
    return Store(store_url)


@pytest.fixture
def users(store: Store) -> Users:
    users = Users(store)
    users.add("Ada", {"*": Role.ADMIN}, by="test")
    users.add("Ben", {"clinic": Role.COORDINATOR}, by="Ada")
    return users


def in_hours(monkeypatch: pytest.MonkeyPatch, hours: float) -> None:
    """Move the clock."""

    def now(more: float = 0.0) -> str:
        return (datetime.now(UTC) + timedelta(hours=hours + more)).strftime("%Y-%m-%dT%H:%M:%SZ")

    monkeypatch.setattr(user_rows, "now", now)


def sign_in_by_link(users: Users, name: str) -> str:
    return users.use_link(users.link(name, by="Ada"))


def test_roles_are_for_a_programme_or_for_all() -> None:
    caller = Caller("Ada", {"*": Role.AUDITOR, "clinic": Role.VIEWER, "school": Role.ADMIN})
    assert [caller.role_in(name) for name in ("clinic", "school", "other")] == [Role.AUDITOR, Role.ADMIN, Role.AUDITOR]
    assert Caller("Ben", {"clinic": Role.ADMIN}).role_in("school") is None
    assert Caller("Ben", {}).role_in("clinic") is None


def test_a_limit_never_gives_more_than_its_user_has() -> None:
    caller = Caller("Ada", {"*": Role.AUDITOR, "clinic": Role.COORDINATOR})
    assert caller.limited(Role.ADMIN, "") == caller
    assert caller.limited(Role.VIEWER, "").roles == {"*": Role.VIEWER, "clinic": Role.VIEWER}
    assert caller.limited(None, "clinic").roles == {"clinic": Role.COORDINATOR}
    assert caller.limited(None, "school").roles == {"school": Role.AUDITOR}
    assert Caller("Ben", {"clinic": Role.ADMIN}).limited(None, "school").roles == {}


def test_who_has_a_password_signs_in_and_out(users: Users) -> None:
    with pytest.raises(SignInError):
        users.sign_in("Ben", "")  # there is none yet
    users.set_password("Ben", PASSWORD, by="Ada")
    token = users.sign_in(" ben ", PASSWORD)
    assert users.session(token) == Caller("Ben", {"clinic": Role.COORDINATOR}, "password")
    assert users.caller(token) is None  # a session is no API token
    assert users.get("Ben").signed_in
    users.end_session(token)
    assert users.session(token) is None
    users.end_session(token)  # once more does no harm


@pytest.mark.parametrize(
    ("name", "password"), [("Ben", "wrong password"), ("Nobody", PASSWORD), ("", ""), ("\ud800", "x")]
)
def test_a_wrong_name_or_password_is_refused_alike(users: Users, name: str, password: str) -> None:
    users.set_password("Ben", PASSWORD, by="Ada")
    with pytest.raises(SignInError, match=r"^the name or the password is not right$"):
        users.sign_in(name, password)
    assert not users.knows(name, password)


def test_a_wrong_name_takes_the_same_work_as_a_wrong_password(users: Users, monkeypatch: pytest.MonkeyPatch) -> None:
    users.set_password("Ben", PASSWORD, by="Ada")
    checked: list[str] = []
    real = passwords._hasher()

    class Watched:
        def hash(self, password: bytes) -> str:
            return real.hash(password)

        def verify(self, hashed: str, password: bytes) -> bool:
            checked.append(hashed)
            return real.verify(hashed, password)

    monkeypatch.setattr(passwords, "_hasher", Watched)
    for name in ("Ben", "Ada", "Nobody"):  # with a password, without one, not there
        with pytest.raises(SignInError):
            users.sign_in(name, "wrong password")
    assert len(checked) == 3
    assert all(each.startswith("$argon2id$") for each in checked)


def test_passwords_have_a_least_length_and_are_hashed(users: Users, store: Store) -> None:
    with pytest.raises(InputError, match="at least 10 characters, got 9"):
        users.set_password("Ben", "123456789", by="Ada")
    with pytest.raises(InputError, match="at most 1000 characters, got 1001"):
        users.set_password("Ben", "x" * 1001, by="Ada")
    users.set_password("Ben", "pässwörter", by="Ada")
    assert users.knows("Ben", "pässwörter")
    with store.access() as rows:
        assert rows.users()[1].password.startswith("$argon2id$")


def test_a_session_ends_after_twelve_hours(users: Users, monkeypatch: pytest.MonkeyPatch, store: Store) -> None:
    token = sign_in_by_link(users, "Ben")
    in_hours(monkeypatch, 11.9)
    assert users.session(token) is not None
    in_hours(monkeypatch, 12.1)
    assert users.session(token) is None
    sign_in_by_link(users, "Ben")
    with store.access() as rows:
        assert [row.kind for row in rows.tokens()] == ["session"]  # what has expired is forgotten


def test_a_password_or_disabling_ends_sessions_and_links(users: Users) -> None:
    changes: list[Change] = [
        lambda: users.set_password("Ben", PASSWORD, by="Ada"),
        lambda: users.disable("Ben", by="Ada"),
    ]
    for change in changes:
        session, link = sign_in_by_link(users, "Ben"), users.link("Ben", by="Ada")
        other = sign_in_by_link(users, "Ada")
        change()
        assert users.session(session) is None
        with pytest.raises(SignInError):
            users.use_link(link)
        assert users.session(other) is not None


def test_who_is_disabled_is_kept_out_until_enabled(users: Users) -> None:
    users.set_password("Ben", PASSWORD, by="Ada")
    _, token = users.new_token("Ben", "x", by="Ada")
    users.disable("Ben", by="Ada")
    assert users.caller(token) is None
    assert users.get("Ben").disabled
    with pytest.raises(SignInError):
        users.sign_in("Ben", PASSWORD)
    with pytest.raises(InputError, match="'Ben' is disabled"):
        users.link("Ben", by="Ada")
    users.enable("Ben", by="Ada")
    assert users.caller(token) is not None
    users.sign_in("Ben", PASSWORD)


def test_a_change_of_roles_counts_at_once(users: Users) -> None:
    session = sign_in_by_link(users, "Ben")
    _, token = users.new_token("Ben", "x", by="Ada")
    users.set_role("Ben", "clinic", Role.VIEWER, by="Ada")
    users.set_role("Ben", "*", Role.AUDITOR, by="Ada")
    for caller in (users.session(session), users.caller(token)):
        assert caller is not None
        assert caller.roles == {"clinic": Role.VIEWER, "*": Role.AUDITOR}
    users.set_role("Ben", "*", None, by="Ada")
    users.set_role("Ben", "clinic", None, by="Ada")
    caller = users.session(session)
    assert caller is not None
    assert caller.role_in("clinic") is None


def test_a_link_serves_once_and_the_last_one_only(users: Users, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = users.link("Ben", by="Ada"), users.link("Ben", by="Ada")
    with pytest.raises(SignInError, match="has been used, or is too old"):
        users.use_link(first)
    session = users.session(users.use_link(second))
    assert session is not None
    assert (session.name, session.label) == ("Ben", "link")
    with pytest.raises(SignInError):
        users.use_link(second)
    late = users.link("Ben", by="Ada", hours=2)
    in_hours(monkeypatch, 2.1)
    with pytest.raises(SignInError):
        users.use_link(late)
    for wrong in ("", "x", "\ud800"):
        with pytest.raises(SignInError):
            users.use_link(wrong)


def test_of_many_who_use_a_link_at_once_one_is_let_in(users: Users) -> None:
    link = users.link("Ben", by="Ada")

    def use(_: int) -> bool:
        try:
            return users.session(users.use_link(link)) is not None
        except SignInError:
            return False

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(use, range(16))) == 1


def test_many_sign_in_at_once(users: Users, store: Store) -> None:
    users.set_password("Ben", PASSWORD, by="Ada")
    with ThreadPoolExecutor(8) as pool:
        tokens = list(pool.map(lambda _: users.sign_in("Ben", PASSWORD), range(24)))
    assert len(set(tokens)) == 24
    assert all(users.session(token) for token in tokens)
    assert store.check() == []


def test_tokens_are_long_hashed_limited_and_revocable(users: Users, store: Store) -> None:
    made, token = users.new_token("Ada", "clinic system", by="Ada", role=Role.AUDITOR, programme="clinic")
    assert re.fullmatch(r"mf_[\w-]{43}", token)  # 256 bits
    assert users.caller(token) == Caller("Ada", {"clinic": Role.AUDITOR}, "clinic system")
    assert users.session(token) is None  # an API token is no session
    with pytest.raises(SignInError):
        users.use_link(token)
    with store.access() as rows:
        assert token.removeprefix("mf_") not in repr([rows.users(), rows.tokens(), rows.log()])
    assert users.tokens("Ben") == []
    assert users.tokens() == users.tokens("Ada") == [made]
    assert users.revoke(made.id, by="Ada").revoked
    assert users.caller(token) is None
    assert users.revoke(made.id, by="Ada") == users.tokens()[0]  # once more changes nothing
    with pytest.raises(InputError, match="there is no token 99"):
        users.revoke(99, by="Ada")


def test_a_session_cannot_be_revoked_as_a_token(users: Users) -> None:
    session = sign_in_by_link(users, "Ben")
    for number in range(1, 5):
        with pytest.raises(InputError, match="there is no token"):
            users.revoke(number, by="Ada")
    assert users.session(session) is not None


def test_a_token_expires(users: Users, monkeypatch: pytest.MonkeyPatch) -> None:
    _, token = users.new_token("Ben", "x", by="Ada", days=2)
    in_hours(monkeypatch, 47)
    assert users.caller(token) is not None
    in_hours(monkeypatch, 49)
    assert users.caller(token) is None


@pytest.mark.parametrize("token", ["", "x", "mf_", "mf_" + "A" * 43, "\0", "\ud800", "é"])
def test_what_is_no_token_is_nobodys(users: Users, token: str) -> None:
    assert users.caller(token) is None
    assert users.session(token) is None


def test_the_last_admin_stays(users: Users) -> None:
    changes: list[Change] = [
        lambda: users.disable("Ada", by="Ada"),
        lambda: users.set_role("Ada", "*", Role.COORDINATOR, by="Ada"),
        lambda: users.set_role("Ada", "*", None, by="Ada"),
    ]
    for change in changes:
        with pytest.raises(InputError, match="'Ada' is the last admin of all programmes: make another one first"):
            change()
    users.set_role("Ben", "*", Role.ADMIN, by="Ada")
    users.disable("Ada", by="Ben")
    with pytest.raises(InputError, match="'Ben' is the last admin"):
        users.disable("Ben", by="Ben")


def test_of_two_admins_who_disable_each_other_at_once_one_stays(users: Users) -> None:
    for _ in range(5):
        users.enable("Ada", by="test")
        users.enable("Ben", by="test")
        users.set_role("Ben", "*", Role.ADMIN, by="test")

        def disable(name: str) -> bool:
            try:
                users.disable(name, by="test")
            except InputError:
                return False
            return True

        with ThreadPoolExecutor(2) as pool:
            assert sorted(pool.map(disable, ["Ada", "Ben"])) == [False, True]


@pytest.mark.parametrize("name", ["", "  ", "x" * 101, "a\nb", "\x1b[31m", "a\0"])
def test_a_name_can_be_printed(users: Users, name: str) -> None:
    with pytest.raises(InputError, match="the name of a user has 1 to 100 printable characters"):
        users.add(name, {}, by="Ada")


def test_a_name_is_one_users(users: Users) -> None:
    for name in ("Ben", "BEN", " ben "):
        with pytest.raises(InputError, match="there is already a user 'Ben'"):
            users.add(name, {}, by="Ada")
    with pytest.raises(InputError, match="there is no user 'Cleo'"):
        users.link("Cleo", by="Ada")


def test_a_programme_must_be_there(users: Users) -> None:
    told = r"a role is for a programme of the store \('clinic'\) or '\*', got 'clinc'"
    with pytest.raises(InputError, match=told):
        users.set_role("Ben", "clinc", Role.ADMIN, by="Ada")
    with pytest.raises(InputError, match=told):
        users.new_token("Ben", "x", by="Ada", programme="clinc")
    with pytest.raises(InputError, match=told):
        users.add("Cleo", {"clinc": Role.ADMIN}, by="Ada")


def test_the_first_user_is_made_once_and_gets_one_link(store: Store) -> None:
    users = Users(store)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: Users(store).first_sign_in(make_link=True), range(4)))
    assert [user.name for user in users.all()] == ["admin"]
    assert users.get("admin").roles == {"*": Role.ADMIN}
    (made,) = [each for each in found if each is not None and each.link]
    assert all(each is not None and each.until for each in found if each != made), "others are told that there is one"
    users.use_link(made.link)
    assert users.first_sign_in(make_link=True) is None


@pytest.mark.parametrize("make_link", [True, False])
def test_a_link_that_an_admin_has_stays(store: Store, make_link: bool) -> None:
    users = Users(store)
    users.add("Ada", {"*": Role.ADMIN}, by="command line")
    users.add("Bea", {"*": Role.ADMIN}, by="command line")
    link = users.link("Bea", by="command line")
    found = users.first_sign_in(make_link=make_link)
    assert found is not None
    assert (found.name, found.link) == ("Bea", "")
    assert found.until > "2026"
    assert users.use_link(link)


def test_a_link_is_made_only_where_that_is_asked_and_once_the_old_one_is_over(store: Store) -> None:
    users = Users(store)
    assert users.first_sign_in(make_link=False) == FirstSignIn("admin")
    users.link("admin", by="test", hours=-1)
    found = users.first_sign_in(make_link=True)
    assert found is not None
    assert users.use_link(found.link)


def test_a_store_with_users_who_can_sign_in_needs_no_first_link(users: Users) -> None:
    users.set_password("Ben", PASSWORD, by="Ada")
    assert users.first_sign_in(make_link=True) is None


def test_every_change_is_in_the_log_which_cannot_be_edited(users: Users, store: Store) -> None:
    users.set_password("Ben", PASSWORD, by="Ben")
    sign_in_by_link(users, "Ben")
    made, _ = users.new_token("Ben", "system", by="Ada")
    users.revoke(made.id, by="Ada")
    users.set_role("Ben", "*", Role.VIEWER, by="Ada")
    users.disable("Ben", by="Ada")
    users.disable("Ben", by="Ada")  # changes nothing
    users.enable("Ben", by="Ada")
    lines = [(line.by, line.kind, line.about, line.detail) for line in reversed(users.log())]
    assert lines == [
        ("test", "add", "Ada", "admin in *"),
        ("Ada", "add", "Ben", "coordinator in clinic"),
        ("Ben", "password", "Ben", ""),
        ("Ada", "link", "Ben", ""),
        ("Ben", "link used", "Ben", ""),
        ("Ada", "token", "Ben", f"system ({made.id})"),
        ("Ada", "revoke", "Ben", f"system ({made.id})"),
        ("Ada", "role", "Ben", "viewer in *"),
        ("Ada", "disable", "Ben", ""),
        ("Ada", "enable", "Ben", ""),
    ]
    for statement in ("DELETE FROM access_log", "UPDATE access_log SET done_by = 'x'"):
        with pytest.raises(StoreError, match="log of users cannot be edited"):
            run(store, statement)
    assert len(users.log()) == len(lines)


def run(store: Store, statement: str) -> Any:
    with store._database.transaction(writing=True) as connection:
        connection.exec_driver_sql(statement)


def test_nothing_is_written_where_users_are_only_read(store: Store) -> None:
    with store.access() as rows, pytest.raises(InputError, match="opened for reading"):
        rows.add_user("Ada", "", "{}", "")
