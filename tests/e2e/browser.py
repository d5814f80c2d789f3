"""A real browser that watches what pages do: errors, requests to elsewhere, and what would shut people out."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal

from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

AXE = Path(__file__).parents[1] / "data" / "axe" / "axe.min.js"
PHONE, DESKTOP = (390, 844), (1280, 900)
SIZES = {"phone": PHONE, "desktop": DESKTOP}
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
_OPTIONS = ["--no-sandbox", "--disable-background-networking", "--disable-component-update", "--disable-sync"]
_SERIOUS = ("serious", "critical")


def program() -> str | None:
    """Return where the installed browser is, None if there is none."""
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@contextmanager
def running_browser() -> Iterator[Browser]:
    """Start the installed browser; nothing is downloaded."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program(), args=_OPTIONS)
        try:
            yield browser
        finally:
            browser.close()


@dataclass
class Watched:
    """A browser window and what was seen in it.

    Attributes
    ----------
    address : str
        Of the server: nothing else may be asked.
    page : Page
    complaints : list of str
        Errors on the console (what the content policy refuses is one), scripts that failed, answers of 500 and more,
        and requests to elsewhere.
    """

    address: str
    context: BrowserContext
    page: Page
    complaints: list[str] = field(default_factory=list)
    expected: set[int] = field(default_factory=set)  # statuses that a test brings about by itself

    def go(self, path: str) -> None:
        """Open an address of the server, and wait until nothing more is loaded."""
        self.page.goto(path if path.startswith("http") else self.address + path, wait_until="load")

    def refuse_elsewhere(self) -> None:
        """Note all that must not happen."""
        self.context.on("request", lambda each: self._note_request(each.url))
        self.context.on("console", lambda each: self._note_console(each.type, each.text))
        self.context.on("weberror", lambda each: self.complaints.append(f"script: {each.error}"))
        self.context.on("response", lambda each: self._note_status(each.status, each.url))

    def _note_request(self, url: str) -> None:
        if not url.startswith((self.address, "data:", "blob:", "about:")):
            self.complaints.append(f"request to elsewhere: {url}")

    def _note_console(self, kind: str, text: str) -> None:
        known = any(f"status of {each}" in text for each in self.expected)
        if kind in ("error", "warning") and not known:
            self.complaints.append(f"console, {self.page.url}: {text}")

    def _note_status(self, status: int, url: str) -> None:
        if status >= 500:
            self.complaints.append(f"{status}: {url}")


@contextmanager
def watched(
    browser: Browser,
    address: str,
    size: tuple[int, int] = DESKTOP,
    scheme: Literal["light", "dark"] = "light",
    locale: str = "en-GB",
    **options: Any,
) -> Iterator[Watched]:
    """Open a window; whatever a page must not do fails at the end."""
    width, height = size
    context = browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme=scheme,
        locale=locale,
        timezone_id="Europe/London",
        reduced_motion="reduce",
        **options,
    )
    context.set_default_timeout(60_000)
    try:
        found = Watched(address, context, context.new_page())
        found.refuse_elsewhere()
        try:
            yield found
        except BaseException as error:
            error.add_note(f"{found.page.url} {found.complaints}")
            raise
        assert not found.complaints, found.complaints
    finally:
        context.close()


@cache
def _axe() -> str:
    return AXE.read_text(encoding="utf-8")


def barriers(page: Page) -> list[str]:
    """Return what axe-core finds that shuts people out, in one line each."""
    page.evaluate(_axe())
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{each['impact']} {each['id']}: {each['help']}: {node['target']} {node['failureSummary']}"
        for each in found["violations"]
        if each["impact"] in _SERIOUS
        for node in each["nodes"][:5]
    ]


def overflow(page: Page) -> int:
    """Return by how many pixels a page is wider than its window."""
    return int(page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"))
