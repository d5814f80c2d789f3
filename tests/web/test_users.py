"""Signing in and out, one's own page, and the page of users, as a browser gets them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from meritfair.programme.users import Role
from meritfair.web.access import COOKIE
from meritfair.web.pages.sign_in import local
from programme.quick_hashes import quick_hashes as quick_hashes
from programme.writers import make
from web.clients import ADDRESS, TestClient, Web, serving

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("quick_hashes")]
PASSWORD = "correct horse"


@pytest.fixture
def web(tmp_path: Path) -> Web:
    url = f"sqlite:///{tmp_path / 'programmes.db'}"
    make(url)
    web = serving(url, tmp_path)
    web.users.add("Ada", {"*": Role.ADMIN}, by="test")
    return web


@pytest.fixture
def ada(web: Web) -> TestClient:
    """A browser in which an admin is signed in."""
    return web.browser("Ada")


def one(pattern: str, text: str) -> str:
    found = re.findall(pattern, text)
    assert len(set(found)) == 1, found
    return str(found[0])


def go_on(web: Web, client: TestClient) -> None:
    """Take the token of a new session, as the next page would bring it."""
    client.headers["X-CSRF-Token"] = web.csrf(client)


def sign_in(client: TestClient, name: str = "Ada", password: str = PASSWORD, **more: str) -> Any:
    return client.post("/sign-in", data={"name": name, "password": password, **more})


def test_the_first_user_signs_in_by_link_sets_a_password_and_signs_in_with_it(tmp_path: Path) -> None:
    web = serving(f"sqlite:///{tmp_path / 'x.db'}", tmp_path)
    first = web.users.first_sign_in(make_link=True)
    assert first is not None
    client = web.anyone()
    shown = client.get("/sign-in/link")
    assert shown.status_code == 200
    assert "link.js" in shown.text
    answer = client.post("/sign-in/link", data={"link": first.link})
    assert (answer.status_code, answer.headers["location"]) == (303, "/me")
    shown = client.get("/me")
    assert "Choose a password" in shown.text
    assert "Current password" not in shown.text
    form = {"csrf": one(r'name="csrf" value="(\w+)"', shown.text)}  # as without scripts
    first = client.cookies[COOKIE]
    answer = client.post("/me/password", data={**form, "password": PASSWORD, "again": PASSWORD})
    assert answer.status_code == 303
    assert client.cookies[COOKIE] != first
    assert web.users.session(first) is None
    assert "Your password is set" in client.get(answer.headers["location"]).text
    go_on(web, client)
    assert client.post("/sign-out").headers["location"] == "/sign-in"
    assert COOKIE not in client.cookies
    assert client.get("/me").status_code == 303
    assert sign_in(client, "Admin").headers["location"] == "/"
    assert client.get("/me").status_code == 200


def test_who_has_used_a_link_before_is_told(web: Web) -> None:
    link = web.users.link("Ada", by="test")
    assert web.anyone().post("/sign-in/link", data={"link": link}).status_code == 303
    answer = web.anyone().post("/sign-in/link", data={"link": link})
    assert answer.status_code == 401
    assert "has been used before" in answer.text
    assert "set-cookie" not in answer.headers


def test_a_wrong_password_is_told_and_the_name_kept(web: Web) -> None:
    web.users.set_password("Ada", PASSWORD, by="test")
    for name, password in (("Ada", "wrong"), ("<b>", PASSWORD), ("", "")):
        answer = sign_in(web.anyone(), name, password, next="/users")
        assert answer.status_code == 401
        assert "The name or the password is not right." in answer.text
        assert "<b>" not in answer.text
        assert 'value="/users"' in answer.text
        assert "set-cookie" not in answer.headers


def test_signing_in_leads_to_where_one_was_going_and_nowhere_else(web: Web) -> None:
    web.users.set_password("Ada", PASSWORD, by="test")
    asked = web.anyone().get("/users")
    assert asked.headers["location"] == "/sign-in?next=%2Fusers"
    assert 'name="next" value="/users"' in web.anyone().get(asked.headers["location"]).text
    assert sign_in(web.anyone(), next="/users").headers["location"] == "/users"
    for foreign in (
        "https://example.org",
        "//example.org",
        "/\\example.org",
        "\\\\example.org",
        "javascript:x",
        "/\t/x",
    ):
        assert local(foreign) == "/"
        assert sign_in(web.anyone(), next=foreign).headers["location"] == "/"
        assert "example.org" not in web.anyone().get("/sign-in", params={"next": foreign}).text


def test_a_session_that_was_stolen_before_signing_in_is_not_used(web: Web) -> None:
    web.users.set_password("Ada", PASSWORD, by="test")
    client = web.anyone()
    client.cookies.set(COOKIE, "chosen by someone else", domain="127.0.0.1")
    sign_in(client)
    assert web.users.session("chosen by someone else") is None


def test_changing_a_password_needs_the_old_one_and_ends_other_sessions(web: Web) -> None:
    web.users.set_password("Ada", PASSWORD, by="test")
    client, elsewhere = web.anyone(), web.anyone()
    for each in (client, elsewhere):
        sign_in(each)
        go_on(web, each)
    new = {"password": "a longer password", "again": "a longer password"}
    assert "Current password" in client.get("/me").text
    for wrong, told in (
        ({**new, "current": "wrong"}, "The current password is not right."),
        ({**new, "again": "another one", "current": PASSWORD}, "The two passwords are not the same."),
        ({"password": "short", "again": "short", "current": PASSWORD}, "at least 10 characters, got 5"),
    ):
        answer = client.post("/me/password", data=wrong)
        assert answer.status_code == 422
        assert told in answer.text
    assert web.users.knows("Ada", PASSWORD)
    assert client.post("/me/password", data={**new, "current": PASSWORD}).status_code == 303
    assert web.users.knows("Ada", new["password"])
    assert client.get("/me").status_code == 200
    assert elsewhere.get("/me").status_code == 303


def test_who_guesses_the_old_password_is_stopped(web: Web) -> None:
    web.users.set_password("Ada", PASSWORD, by="test")
    client = web.anyone()
    sign_in(client)
    go_on(web, client)
    form = {"password": "a longer password", "again": "a longer password", "current": "wrong"}
    codes = [client.post("/me/password", data=form).status_code for _ in range(11)]
    assert codes == [422] * 10 + [429]


def test_tokens_of_ones_own_are_made_shown_once_and_revoked(web: Web, ada: TestClient) -> None:
    answer = ada.post("/me/tokens", data={"label": "system <1>", "role": "2", "days": "30"})
    token = one(r"mf_[\w-]{43}", answer.text)
    caller = web.users.caller(token)
    assert caller is not None
    assert caller.roles == {"*": Role.AUDITOR}
    shown = ada.get("/me").text
    assert "system &lt;1&gt;" in shown
    assert token not in shown
    (made,) = web.users.tokens("Ada")
    assert ada.post("/me/tokens/revoke", data={"token": str(made.id)}).status_code == 303
    assert web.users.caller(token) is None
    for wrong in ({"label": ""}, {"label": "x", "days": "0"}, {"label": "x", "days": "x"}, {"label": "x", "role": "9"}):
        assert ada.post("/me/tokens", data=wrong).status_code == 422, wrong
    assert len(web.users.tokens()) == 1


def test_others_tokens_are_not_ones_own(web: Web) -> None:
    ben = web.browser("Ben", {"clinic": Role.COORDINATOR})
    made, token = web.users.new_token("Ada", "x", by="test")
    assert ben.post("/me/tokens/revoke", data={"token": str(made.id)}).status_code == 404
    assert web.users.caller(token) is not None
    answer = ben.post("/me/tokens", data={"label": "x", "role": "4"})  # no more than one has oneself
    caller = web.users.caller(one(r"mf_[\w-]{43}", answer.text))
    assert caller is not None
    assert caller.roles == {"clinic": Role.COORDINATOR}


def test_an_admin_adds_a_user_who_signs_in_by_the_link(web: Web, ada: TestClient) -> None:
    answer = ada.post("/users/add", data={"name": "Nurse Ama", "role": "3", "programme": "clinic"})
    assert answer.status_code == 200
    link = one(rf"{ADDRESS}/sign-in/link#([\w-]{{43}})", answer.text)
    client = web.anyone()
    assert client.post("/sign-in/link", data={"link": link}).headers["location"] == "/me"
    assert "<dt>clinic</dt><dd>coordinator</dd>" in client.get("/me").text
    assert client.get("/users").status_code == 403
    assert link not in ada.get("/users").text
    assert "Nurse Ama signed in by link" in ada.get("/users").text


def test_an_admin_changes_roles_and_disables(web: Web, ada: TestClient) -> None:
    ben = web.browser("Ben", {"clinic": Role.VIEWER})
    assert ada.post("/users/role", data={"name": "Ben", "role": "2", "programme": "*"}).status_code == 303
    assert web.users.get("Ben").roles == {"*": Role.AUDITOR, "clinic": Role.VIEWER}
    assert ada.post("/users/role", data={"name": "Ben", "role": "0", "programme": "clinic"}).status_code == 303
    assert web.users.get("Ben").roles == {"*": Role.AUDITOR}
    assert ada.post("/users/disable", data={"name": "Ben"}).status_code == 303
    assert ben.get("/me").status_code == 303
    assert "Enable" in ada.get("/users").text
    assert ada.post("/users/link", data={"name": "Ben"}).status_code == 422
    assert ada.post("/users/enable", data={"name": "Ben"}).status_code == 303
    assert not web.users.get("Ben").disabled
    assert ben.get("/me").status_code == 303  # the old session has ended for good


@pytest.mark.parametrize(
    ("path", "form", "told"),
    [
        ("add", {"name": "ada", "role": "2"}, "there is already a user"),
        ("add", {"name": "", "role": "2"}, "1 to 100 printable characters"),
        ("add", {"name": "Ben", "role": "7"}, "7"),
        ("add", {"name": "Ben", "role": "x"}, "role"),
        ("add", {"name": "Ben", "role": "2", "programme": "none"}, "a role is for a programme of the store"),
        ("role", {"name": "Ada", "role": "1", "programme": "*"}, "last admin"),
        ("role", {"name": "Nobody", "role": "1", "programme": "*"}, "there is no user"),
        ("disable", {"name": "Ada"}, "last admin"),
        ("enable", {"name": "Nobody"}, "there is no user"),
        ("link", {"name": "Nobody"}, "there is no user"),
        ("link", {}, "name"),
        ("tokens", {"name": "Ada", "label": "x", "role": "9"}, "9"),
        ("tokens", {"name": "Ada", "label": "x", "programme": "none"}, "a role is for a programme of the store"),
        ("tokens", {"name": "Ada", "label": "x", "days": "100000"}, "between 1 and 3650 days"),
        ("tokens/revoke", {"token": "77"}, "there is no token 77"),
    ],
)
def test_mistakes_are_told_and_change_nothing(
    web: Web, ada: TestClient, path: str, form: dict[str, str], told: str
) -> None:
    before = web.users.all(), web.users.tokens(), web.users.log()
    answer = ada.post(f"/users/{path}", data=form)
    assert answer.status_code == 422
    assert told in answer.text
    assert (web.users.all(), web.users.tokens(), web.users.log()) == before


def test_an_admin_makes_and_revokes_tokens_of_others(web: Web, ada: TestClient) -> None:
    web.users.add("System", {"*": Role.COORDINATOR}, by="test")
    form = {"name": "System", "label": "production", "role": "1", "programme": "clinic", "days": "7"}
    answer = ada.post("/users/tokens", data=form)
    token = one(r"mf_[\w-]{43}", answer.text)
    caller = web.users.caller(token)
    assert caller is not None
    assert caller.roles == {"clinic": Role.VIEWER}
    shown = ada.get("/users").text
    assert token not in shown
    assert "production" in shown
    assert ada.post("/users/tokens/revoke", data={"token": str(web.users.tokens()[0].id)}).status_code == 303
    assert web.users.caller(token) is None


def test_names_stay_text(web: Web, ada: TestClient) -> None:
    name = "<script>alert(1)</script>\"'"
    assert ada.post("/users/add", data={"name": name, "role": "1", "programme": "*"}).status_code == 200
    text = ada.get("/users").text
    assert "<script>alert" not in text
    assert text.count("&lt;script&gt;alert(1)&lt;/script&gt;") > 2
    assert "<script>alert" not in web.browser(name).get("/me").text


def test_a_language_is_chosen_and_kept(web: Web, ada: TestClient) -> None:
    answer = web.anyone().post("/language", data={"language": "de", "next": "/sign-in"})
    assert "meritfair_language=de" in answer.headers["set-cookie"]
    answer = ada.post("/language", data={"language": "de", "next": "/users"})
    assert answer.headers["location"] == "/users"
    assert '<html lang="de">' in ada.get("/users").text
    ada.post("/language", data={"language": "xx"})
    assert '<html lang="en">' in ada.get("/users").text


def test_visitors_of_the_demonstration_have_no_password(tmp_path: Path) -> None:
    web = serving(f"sqlite:///{tmp_path / 'x.db'}", tmp_path, demo=True)
    client = web.anyone()
    go_on(web, client)
    assert client.get("/me").status_code == 200
    assert client.get("/users").status_code == 200
    assert client.post("/me/password", data={"password": PASSWORD, "again": PASSWORD}).status_code == 403
    assert client.post("/me/tokens", data={"label": "x"}).status_code == 403
