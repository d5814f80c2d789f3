"""Every page, light and dark, on a phone and a desktop: nothing fails or is asked elsewhere, and nobody is shut out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import pytest
from playwright.sync_api import Browser, Page, expect

from e2e.browser import PHONE, SCHEMES, SIZES, Watched, barriers, overflow, watched
from e2e.pages import OUTSIDE, PAGES, let_in, make_store, settle
from web.server import RunningServer, running_server

pytestmark = pytest.mark.slow

ASK_ELSEWHERE = "fetch('http://127.0.0.2:9/').catch(() => 0)"


@dataclass(frozen=True)
class Site:
    """A server and the session of an admin of it."""

    server: RunningServer
    session: str


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    store = str(tmp_path_factory.mktemp("pages") / "pages.db")
    session = make_store(store)
    with running_server(store) as server:
        yield Site(server, session)


def look_at(window: Watched, pages: dict[str, str]) -> dict[str, list[str]]:
    """Return what is wrong with each page."""
    found: dict[str, list[str]] = {}
    for name, path in pages.items():
        window.go(path)
        settle(window.page)
        problems = [*barriers(window.page), *window.complaints]
        if (wide := overflow(window.page)) > 0:
            problems.append(f"wider than the window by {wide} pixels")
        window.complaints.clear()
        if problems:
            found[name] = problems
    return found


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("size", SIZES)
def test_every_page(chromium: Browser, site: Site, size: str, scheme: Literal["light", "dark"]) -> None:
    with watched(chromium, site.server.address, SIZES[size], scheme) as window:
        window.expected.add(404)
        assert look_at(window, OUTSIDE) == {}
        let_in(window, site.session)
        assert look_at(window, PAGES) == {}


def test_every_page_in_german(chromium: Browser, site: Site) -> None:
    with watched(chromium, site.server.address, PHONE, locale="de-AT") as window:
        window.expected.add(404)
        let_in(window, site.session)
        assert look_at(window, PAGES) == {}
        assert window.page.locator("html").get_attribute("lang") == "de"


def test_a_page_can_be_used_by_keyboard_alone(chromium: Browser, site: Site) -> None:
    with watched(chromium, site.server.address) as window:
        let_in(window, site.session)
        window.go("/p/clinic/round")
        page = window.page
        page.keyboard.press("Tab")
        expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
        page.keyboard.press("Enter")
        seen = _tab_until(page, "Reached: good")
        assert seen, "the first answer can be reached by the Tab key"
        left = page.get_by_role("form").count()
        page.keyboard.press("Enter")
        expect(page.get_by_role("form")).to_have_count(left - 1)


def _tab_until(page: Page, words: str) -> bool:
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.textContent").strip().startswith(words):
            return True
    return False


def test_the_axe_finds_what_is_wrong(chromium: Browser, site: Site) -> None:
    """The checks themselves are able to fail."""
    with watched(chromium, site.server.address) as window:
        window.go("/sign-in")
        window.page.evaluate("document.querySelector('label').remove()")
        window.page.evaluate("document.querySelector('main').append(document.createElement('button'))")
        assert barriers(window.page)
        window.page.evaluate(ASK_ELSEWHERE)
        assert any("Content Security Policy" in each for each in window.complaints)
        window.complaints.clear()
    with watched(chromium, site.server.address, bypass_csp=True) as window:
        window.go("/sign-in")
        window.page.evaluate(ASK_ELSEWHERE)
        assert any("elsewhere" in each for each in window.complaints)
        window.complaints.clear()
