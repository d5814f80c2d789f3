"""What tests in the browser share: one browser, and stores on SQLite and PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from e2e.browser import program, running_browser
from programme.conftest import postgresql as postgresql
from programme.conftest import store_url as store_url


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """The installed browser."""
    if program() is None:
        pytest.skip("no Chromium is installed, so no page is tried in a browser (on Debian: apt install chromium)")
    expect.set_options(timeout=30_000)  # on a machine that does other things too
    with running_browser() as browser:
        yield browser
