"""Names of programmes: none that cannot be seen, and no two that look alike, on both databases and by every way in."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import meritfair as mf
from meritfair import InputError
from meritfair.programme.ledger import standalone
from meritfair.programme.storage.names import check_name, folded
from meritfair.programme.users import Role
from web.clients import serving

ALIKE = ["clinic ", "CLINIC", "\tclinic", "\uff23linic", "Clinic"]
HIDDEN = ["cli\u200bnic", "cli\u00a0nic", "cli\u00adnic", "cli\nnic", "cli\x1bnic", "\u202eclinic", "cli\u2800nic"]
WRONG = [*HIDDEN, "", "  ", "..", "*", "a/b", "a\\b", "x" * 101, "\ud800"]


@pytest.mark.parametrize("name", WRONG)
def test_a_name_that_cannot_be_one_is_refused(name: str) -> None:
    with pytest.raises(InputError, match="the name of a programme"):
        check_name(name)


@pytest.mark.parametrize("name", ["clinic", "Klinik Süd", "診療所", "Clinic no. 3 (north)", "a.b", "مرکز"])
def test_names_of_any_script_are_taken(name: str) -> None:
    assert check_name(f" {name} ") == name


def test_names_that_look_alike_are_the_same() -> None:
    assert {folded(each) for each in ALIKE} == {"clinic"}
    assert folded("my  clinic") == folded("My clinic")
    assert folded("Cafe\u0301") == folded("caf\u00e9")
    assert folded("clinic 2") != folded("clinic 3")


def test_no_two_programmes_of_a_store_look_alike(store_url: str) -> None:
    made = mf.programme.open(store_url, " clinic ")
    made.create(1, by="Ada")
    assert made.name == "clinic"
    assert made.store.names() == ["clinic"]
    for name in ALIKE:
        with pytest.raises(InputError, match="there is already a programme 'clinic'"):
            mf.programme.open(store_url, name).create(1, by="Ada")
    assert mf.programme.open(store_url, "clinic ").status().name == "clinic"
    with pytest.raises(InputError, match="no programme 'CLINIC'; there are 'clinic'"):
        mf.programme.open(store_url, "CLINIC").status()


def test_two_who_create_at_once_do_not_make_two_that_look_alike(store_url: str) -> None:
    mf.programme.open(store_url, "first").create(1, by="Ada")

    def create(name: str) -> bool:
        try:
            mf.programme.open(store_url, name).create(1, by="Ada")
        except InputError:
            return False
        return True

    with ThreadPoolExecutor(4) as threads:
        made = list(threads.map(create, ["calls", "CALLS", "Calls", "cALLS"]))
    assert sum(made) == 1
    assert len(mf.programme.open(store_url).store.names()) == 2


def test_an_import_is_no_way_around(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standalone, "check", lambda _folder: ([], {}))  # what it says does not matter here
    url = f"sqlite:///{tmp_path / 'a.db'}"
    programme = mf.programme.open(url, "clinic")
    programme.create(1, by="Ada")
    programme.export(tmp_path / "export")
    for name, said in {"CLINIC": "already a programme 'clinic'", "cli\u200bnic": "all of which can be seen"}.items():
        with pytest.raises(InputError, match=said):
            mf.programme.open(url, name).import_(tmp_path / "export")


def test_the_api_and_the_page_refuse_it_too(tmp_path: Path) -> None:
    web = serving(f"sqlite:///{tmp_path / 'a.db'}", tmp_path)
    program, browser = web.program("Ada", {"*": Role.ADMIN}), web.browser("Bo", {"*": Role.ADMIN})

    def create(name: str) -> Any:
        return program.post("/api/v1/programmes", json={"name": name, "budget": 1})

    made = create(" clinic ")
    assert made.status_code == 201
    assert made.headers["location"] == "/api/v1/programmes/clinic"
    for name in ["CLINIC", *HIDDEN]:
        assert create(name).status_code == 422, name
        assert browser.post("/new", data={"name": name}).status_code == 422, name
    assert browser.post("/new", data={"name": " calls "}).headers["location"].startswith("/p/calls/")
    assert web.frame.reader.names() == ["calls", "clinic"]
