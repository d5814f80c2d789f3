"""A visitor who has never seen it opens the demonstration and finishes a round, without reading anything."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from e2e.browser import PHONE, watched
from web.server import running_server

pytestmark = pytest.mark.slow

CALLED, ROUND = 2, 3  # the most clicks for each person who is called, and for the rest of the round


def test_a_visitor_finishes_a_round(chromium: Browser, tmp_path: Path) -> None:
    environment = {"TMPDIR": str(tmp_path)}
    with running_server(demo=True, environment=environment) as server:
        assert server.link == "", "a visitor does not sign in"
        with watched(chromium, server.address, PHONE) as window:
            page, clicks = window.page, 0
            window.go("/")
            title = page.get_by_role("heading", level=1, name=re.compile("^Round"))
            expect(title).to_be_visible(timeout=120_000)  # once the clinic is set up, the page goes there by itself
            number = int(re.findall(r"\d+", title.inner_text())[0])
            forms = page.get_by_role("form", name=re.compile("What happened with"))
            people = forms.count()
            assert people > 5
            for left in range(people, 0, -1):
                forms.first.get_by_role("button", name=re.compile("^Reached: good")).click()
                clicks += 1
                expect(forms).to_have_count(left - 1)
            page.get_by_role("button", name=f"Close round {number}").click()
            clicks += 1
            page.get_by_role("button", name=f"Draw round {number + 1}").click()
            clicks += 1
            expect(page.get_by_role("heading", name=re.compile(f"^Round {number + 1}"))).to_be_visible()
            print(f"{clicks} clicks for {people} people and the round")
            assert clicks <= CALLED * people + ROUND
            assert clicks == people + 2, "one for each person, two for the round: close it, draw the next"

            page.get_by_role("button", name="Play the rest of this round").click()
            expect(page.get_by_role("heading", name=re.compile(f"^Round {number + 2}"))).to_be_visible()
            page.get_by_role("button", name="Play 5 rounds").click()
            expect(page.get_by_role("heading", name=re.compile(f"^Round {number + 7}"))).to_be_visible(timeout=60_000)
        assert server.stop() == 0
        assert not [*tmp_path.iterdir()], "the clinic is gone when the server stops"
