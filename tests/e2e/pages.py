"""Every page of a server with something on it, for tests that look at each of them and for screenshots."""

from __future__ import annotations

from playwright.sync_api import Page, expect

import meritfair as mf
from e2e.browser import Watched
from meritfair.programme import Outcomes
from meritfair.programme.demo import make_demo
from meritfair.programme.users import Role, Users

PAGES = {
    "programmes": "/",
    "new-programme": "/new",
    "round": "/p/clinic/round",
    "past-round": "/p/clinic/round/3",
    "print": "/p/clinic/round/13/print",
    "upload": "/p/clinic/round/13/upload",
    "people": "/p/clinic/people",
    "people-none": "/p/clinic/people?search=nobody-has-this-id",
    "enrol": "/p/clinic/people/enrol",
    "enrol-file": "/p/clinic/people/upload",
    "person": "/p/clinic/people/7",
    "person-then": "/p/clinic/people/7?round=5",
    "fairness": "/p/clinic/fairness",
    "learning": "/p/clinic/learning",
    "ledger": "/p/clinic/ledger",
    "settings": "/p/clinic/settings",
    "first-round": "/p/empty/round",
    "nobody": "/p/empty/people",
    "fairness-empty": "/p/empty/fairness",
    "learning-empty": "/p/empty/learning",
    "ledger-empty": "/p/empty/ledger",
    "users": "/users",
    "me": "/me",
    "not-found": "/p/none",
}
OUTSIDE = {"sign-in": "/sign-in", "link": "/sign-in/link"}  # for those who are not signed in


def make_store(url: str) -> str:
    """Make a store with a clinic in the middle of a round, an empty programme and users; return an admin's session."""
    clinic = mf.programme.open(url, "clinic")
    make_demo(clinic, 150, 12, seed=3)
    drawn = clinic.draw(by="Dr. Osei")
    clinic.report(Outcomes(drawn.ids[:5], action=[1, 1, 0, 1, 1], after=[1, 0, -1, 1, -1]), by="Nurse Ama")
    mf.programme.open(url, "empty").create(5, by="Dr. Osei")
    users = Users(clinic.store)
    users.add("Efua Sutherland", {"*": Role.ADMIN}, by="Dr. Osei")
    users.add("Kofi Annor", {"clinic": Role.COORDINATOR}, by="Efua Sutherland")
    users.add("Board", {"clinic": Role.VIEWER}, by="Efua Sutherland")
    users.new_token("Kofi Annor", "the clinic's own system", by="Efua Sutherland")
    return users.use_link(users.link("Efua Sutherland", by="Dr. Osei"))


def let_in(window: Watched, session: str) -> None:
    """Sign a window in by the cookie of a session."""
    window.context.add_cookies([{"name": "meritfair_session", "value": session, "url": window.address}])


def settle(page: Page) -> None:
    """Wait until a page shows all that it will: long work has ended, charts are drawn."""
    page.wait_for_load_state("networkidle")
    expect(page.locator(".job progress")).to_have_count(0, timeout=60_000)
    page.wait_for_load_state("networkidle")
