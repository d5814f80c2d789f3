"""A team runs a programme in the browser, from the first link to the third round; all is found by role or label."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

import meritfair as mf
from e2e.browser import Watched, watched
from web.server import running_server

pytestmark = pytest.mark.slow

PASSWORD = "seven plain words are enough here"
PEOPLE = [f"Person {number:02}" for number in range(1, 13)]


def button(page: Page | Locator, name: str | re.Pattern[str], exact: bool = False) -> Locator:
    return page.get_by_role("button", name=name, exact=exact)


def link(page: Page, name: str | re.Pattern[str], exact: bool = True) -> Locator:
    return page.get_by_role("link", name=name, exact=exact)


def heading(page: Page, name: str | re.Pattern[str]) -> Locator:
    return page.get_by_role("heading", name=name)


def open_tab(page: Page, name: str) -> None:
    page.get_by_role("navigation", name="Programme").get_by_role("link", name=name).click()


def sign_in_by_link(window: Watched, address: str) -> None:
    """Open the one-time link and choose a password."""
    page = window.page
    window.go(address)
    expect(page).not_to_have_url(re.compile("#"))  # the token is gone from the address
    button(page, "Sign in").click()
    page.get_by_label("New password", exact=True).fill(PASSWORD)
    page.get_by_label("New password again").fill(PASSWORD)
    button(page, "Set password").click()
    expect(page.get_by_text("Your password is set")).to_be_visible()


def sign_out(window: Watched) -> None:
    menu = window.page.get_by_role("banner")
    menu.locator("summary").click()
    button(menu, "Sign out").click()
    expect(heading(window.page, "Sign in")).to_be_visible()


def sign_in(window: Watched, name: str) -> None:
    page = window.page
    window.go("/")
    page.get_by_label("Name").fill(name)
    page.get_by_label("Password").fill(PASSWORD)
    button(page, "Sign in", exact=True).click()
    expect(heading(page, "Programmes")).to_be_visible()


def upload(page: Page, file: Path, text: str) -> None:
    file.write_text(text)
    page.get_by_label("CSV file").set_input_files(file)
    button(page, "Show what it would change").click()


def tap_all(page: Page, answers: list[str]) -> None:
    """Report everyone of the round, with answers in turn."""
    forms = page.get_by_role("form", name=re.compile("What happened with"))
    for place in range(forms.count()):
        left = forms.count()
        button(forms.first, re.compile(f"^{answers[place % len(answers)]}")).click()
        expect(forms).to_have_count(left - 1)


def draw(page: Page, number: int) -> None:
    button(page, f"Draw round {number}").click()
    expect(heading(page, re.compile(f"^Round {number}"))).to_be_visible()


def close(page: Page, number: int) -> None:
    button(page, f"Close round {number}").click()
    expect(heading(page, f"Next: draw round {number + 1}")).to_be_visible()


def test_a_team_runs_three_rounds(chromium: Browser, store_url: str, tmp_path: Path) -> None:
    with running_server(store_url, workers=2) as server, watched(chromium, server.address) as window:
        page = window.page
        sign_in_by_link(window, server.link)
        name = page.get_by_role("heading", level=1).inner_text()
        sign_out(window)
        sign_in(window, name)

        _create(page, tmp_path)
        _first_round(page)
        before = _fairness(page)
        _second_round(window, tmp_path)
        after = _fairness(page)
        assert after != before, "the page shows what has happened meanwhile"
        _third_round(page)
        _verify(page)
        sign_out(window)
        window.go("/p/calls/round")
        expect(heading(page, "Sign in")).to_be_visible()
    programme = mf.programme.open(store_url, "calls")
    assert programme.status().round == 3
    assert programme.verify().whole


def _create(page: Page, tmp_path: Path) -> None:
    link(page, "New programme").click()
    page.get_by_label("Name").fill("calls")
    page.get_by_label("People drawn in a round").fill("3")
    button(page, "Create programme").click()
    link(page, "Upload a list").click()
    rows = [f"{name},{('north', 'south')[place % 2]},Efua" for place, name in enumerate(PEOPLE)]
    upload(page, tmp_path / "people.csv", "\n".join(["id,group,staff", *rows]))
    button(page, "Enrol 12 people").click()
    expect(page.get_by_role("status").filter(has_text=re.compile("12")).first).to_be_visible()


def _first_round(page: Page) -> None:
    open_tab(page, "This round")
    draw(page, 1)
    expect(page.get_by_text("3 of 3 still to report")).to_be_visible()
    tap_all(page, ["Reached: good", "Reached: bad", "Not reached"])
    expect(page.get_by_text("All 3 reported")).to_be_visible()
    close(page, 1)


def _fairness(page: Page) -> str:
    open_tab(page, "Fairness")
    expect(heading(page, "Fairness").first).to_be_visible()
    expect(page.get_by_role("progressbar")).to_have_count(0)
    return page.get_by_role("main").inner_text()


def _second_round(window: Watched, tmp_path: Path) -> None:
    """Someone else is called, with a reason; the rest comes as a file, at first one with a mistake."""
    page = window.page
    open_tab(page, "This round")
    draw(page, 2)
    drawn = [each for each in page.get_by_role("listitem").all_inner_texts() if "chance" in each]
    names = [next(name for name in PEOPLE if name in each) for each in drawn]
    other = next(name for name in PEOPLE if name not in names)
    page.get_by_text("Someone else was called").click()
    panel = page.get_by_role("group").filter(has_text="Calls beside the draw")
    panel.get_by_label("Who?").fill(other)
    button(panel, "Reached: good").click()  # without a reason: the browser asks for it
    expect(page.get_by_text("not drawn, called because")).to_have_count(0)
    panel.get_by_label("Why?").fill("asked to be called")
    button(panel, "Reached: good").click()
    expect(page.get_by_text("not drawn, called because: asked to be called")).to_be_visible()

    link(page, "Upload CSV").click()
    window.expected.add(422)
    upload(page, tmp_path / "bad.csv", f"id,action,state\n{names[0]},1,good\n")
    expect(page.get_by_role("alert")).to_contain_text("line 2")
    expect(page.get_by_role("alert")).to_contain_text("state")
    upload(page, tmp_path / "good.csv", "id,action,state\n" + "".join(f"{name},1,1\n" for name in names))
    button(page, "Save 3 outcomes").click()
    expect(page.get_by_text("All 3 reported")).to_be_visible()
    close(page, 2)


def _third_round(page: Page) -> None:
    open_tab(page, "This round")
    draw(page, 3)
    tap_all(page, ["Reached: good"])
    close(page, 3)


def _verify(page: Page) -> None:
    open_tab(page, "Ledger")
    button(page, re.compile("Verify|Check")).first.click()
    expect(page.get_by_text(re.compile("The ledger is whole"))).to_be_visible(timeout=60_000)
