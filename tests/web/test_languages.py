"""Languages: the catalogues are complete, no text is left out of them, and numbers are written as readers do."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import meritfair as mf
from meritfair.lab import run_spec
from meritfair.lab.spec import Spec
from meritfair.programme import Outcomes, Part, Trial
from meritfair.programme.users import Role
from meritfair.web import catalogue, language
from meritfair.web.viewer.app import create_viewer
from programme.clinics import Clinic, clinic
from programme.quick_hashes import quick_hashes as quick_hashes
from web.clients import TestClient, Web, serving
from web.pseudo import Pseudo, forgotten, points

OTHERS = sorted(set(language.LANGUAGES) - {"en"})
HTMX = {"HX-Request": "true"}
GROUPS = ("north", "south", "harbour")
CHART = '{"x_label": "weeks", "y_label": "", "unit": "%", "names": [], "levels": [], "curves": []}'
SETTINGS = ("merit-fair", "random", "pooled", "exact")  # are written as they are typed
NURSES = ("Nurse Ama", "Nurse Efua", "Nurse Kofi", "Nurse Yaw")


# ---- catalogues


@pytest.mark.slow
@pytest.mark.parametrize("code", OTHERS)
def test_a_catalogue_is_complete_and_in_step_with_the_source(code: str) -> None:
    known = catalogue.read(code)
    assert catalogue.wrong(known) == []
    again = f"run `python -m meritfair.web.catalogue` and translate what is new in locale/{code}.po"
    assert catalogue.updated(code).decode() == (language.CATALOGUES / f"{code}.po").read_text("utf-8"), again


@pytest.mark.slow
def test_messages_are_found_in_code_and_in_templates() -> None:
    found = {str(each.id[0] if isinstance(each.id, tuple) else each.id) for each in catalogue.messages()}
    assert {"Round {number}: closed".replace("number", "round"), "Skip to content", "{n} person is enrolled."} <= found


def test_messages_within_other_strings_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = "f\"{_('one')} {ngettext('{n} x', '{n} y', 2)}\"; _(f'two'); _(three)"
    (tmp_path / "a.py").write_text(source, "utf-8")
    monkeypatch.setattr(catalogue, "SOURCE", tmp_path)
    assert {each.id for each in catalogue.messages() if each.id} == {"one", ("{n} x", "{n} y")}


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ('msgid "a"\nmsgstr ""\n', "no translation: a"),
        ('#, fuzzy\nmsgid "a"\nmsgstr "b"\n', "fuzzy: a"),
        ('msgid "{a} x"\nmsgstr "{b} x"\n', "other placeholders: {a} x"),
        ('msgid "%(a)s x"\nmsgstr "x"\n', "other placeholders: %(a)s x"),
        ('msgid "{n} x"\nmsgid_plural "{n} y"\nmsgstr[0] "{n} u"\nmsgstr[1] ""\n', "no translation: {n} x"),
        ('msgid "{n} x"\nmsgid_plural "{n} y"\nmsgstr[0] "{n} u"\nmsgstr[1] "v"\n', "other placeholders: {n} x"),
    ],
)
def test_what_is_wrong_with_a_catalogue_is_found(
    given: str, fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "de.po").write_text(given, "utf-8")
    monkeypatch.setattr(catalogue, "CATALOGUES", tmp_path)
    assert catalogue.wrong(catalogue.read("de")) == [fault]


# ---- pages in a language of brackets


@pytest.mark.parametrize(
    ("page", "texts"),
    [
        ("<p>⟦Round 3⟧</p> <b>p1</b>, 12 % – 0a1b2c3d4e…", []),
        ("<p>⟦Round <b>3</b> of p1⟧ drawn</p>", ["drawn"]),
        ("<p>Round ⟦drawn⟧</p>", ["Round"]),
        ('<button aria-label="Close">⟦x⟧</button><script>let a</script>', ["Close"]),
        (f"<p data-chart='{CHART}'>", ["weeks"]),
    ],
)
def test_what_is_outside_of_brackets_is_found(page: str, texts: list[str]) -> None:
    assert forgotten(page, ("p1",)) == texts


def test_numbers_with_a_point_are_found() -> None:
    assert points("<p>12·5 at http://127.0.0.1</p>") == []
    assert points("<p>12.5 %</p>") == ["12.5 %"]


@dataclass
class Visit:
    """A server whose pages are looked at, one after another."""

    web: Web
    clinics: dict[str, Clinic]
    known: tuple[str, ...]
    pages: dict[str, str] = field(default_factory=dict)

    def see(self, client: TestClient, address: str, data: dict[str, Any] | None = None, **how: Any) -> str:
        """Ask for a page, or send a form, and keep the page that comes of it."""
        end = time.monotonic() + 120
        while True:
            sent = client.get(address, **how) if data is None else client.post(address, data=data, **how)
            if sent.status_code in (302, 303):
                address, data, how = sent.headers["location"], None, {}
            elif "hx-redirect" in sent.headers:
                address, data, how = sent.headers["hx-redirect"], None, {}
            elif "<progress aria-labelledby" not in sent.text or data is not None or time.monotonic() > end:
                break
            else:
                self.pages.setdefault(f"waiting {address}", sent.text)
                time.sleep(0.05)
        if sent.headers.get("content-type", "").startswith("text/html"):
            name = f"{'POST' if data is not None else 'GET'} {address} {sent.status_code}"
            self.pages[name if name not in self.pages else f"{name} #{len(self.pages)}"] = sent.text
        return str(sent.text)


@pytest.fixture
def brackets(monkeypatch: pytest.MonkeyPatch) -> None:
    pseudo = Pseudo()
    monkeypatch.setattr(language, "choose", lambda *_: pseudo)
    monkeypatch.setattr(language, "language_of", lambda _: pseudo)


def set_up(folder: Path) -> Visit:
    """Return a server with programmes in every state."""
    url = f"sqlite:///{folder / 'programmes.db'}"
    made = {
        "calls": clinic(url, rules=mf.Rules(cooldown=1, accrue=True)),
        "fresh": clinic(url, name="fresh"),
        "over": clinic(url, name="over"),
        "arms": trial(url),
    }
    for _ in range(3):
        made["calls"].play(seen=0.8)
        made["arms"].play()
    made["over"].play()
    made["over"].programme.end(by="Ada")
    mf.programme.open(url, "empty").create(2, by="Ada")
    ids = tuple(f"p{number}" for number in range(40))
    names = ("empty", *GROUPS, "fair", "usual", "Ada", "Efua", "Kofi", "Boa", "Zoe", "test")
    known = (*ids, *made, *names, *SETTINGS, "id", "action", "state", "group")  # and columns of files
    return Visit(serving(url, folder / "run"), made, known)


def trial(url: str) -> Clinic:
    """Return a trial of two arms, without groups."""
    programme = mf.programme.open(url, "arms")
    parts = [Part(2, name="fair"), Part(2, "random", name="usual")]
    programme.create(trial=Trial("0" * 64), parts=parts, by="Ada")
    ids = [f"p{number}" for number in range(16)]
    programme.enrol(ids, by="Ada")
    return Clinic(programme, mf.datasets.cpap(n_arms=16, seed=1).transitions, np.random.default_rng(1), ids)


def act(visit: Visit) -> None:
    """Do all that pages are for, and look at what comes of it."""
    ada = visit.web.browser("Ada", {"*": Role.ADMIN})
    for name, role in {"Efua": Role.COORDINATOR, "Kofi": Role.AUDITOR, "Boa": Role.VIEWER}.items():
        visit.web.users.add(name, {"calls": role}, by="Ada")
    sign_in(visit)
    users(visit, ada)
    rounds(visit, ada)
    people(visit, ada)
    board(visit, ada)
    for name in ("fresh", "over", "empty", "arms"):
        for place in ("round", "people", "fairness", "learning", "ledger", "settings"):
            visit.see(ada, f"/p/{name}/{place}")
    see_board_page(visit, ada, visit.see(ada, "/p/arms/fairness/board", {}))
    viewer = visit.web.browser("Boa")
    for place in ("fairness", "learning", "ledger", "settings", "round"):
        visit.see(viewer, f"/p/calls/{place}")
    auditor = visit.web.browser("Kofi")
    for place in ("round", "people", "people/1"):
        visit.see(auditor, f"/p/calls/{place}")


def sign_in(visit: Visit) -> None:
    nobody = visit.web.anyone()
    visit.see(nobody, "/sign-in")
    visit.see(nobody, "/sign-in", {"name": "Ada", "password": "wrong"})
    visit.see(nobody, "/sign-in/link")
    visit.see(nobody, "/sign-in/link", {"link": "wrong"})
    visit.see(nobody, "/nowhere")


def users(visit: Visit, ada: TestClient) -> None:
    visit.see(ada, "/programmes")
    visit.see(ada, "/new")
    visit.see(ada, "/me")
    visit.see(ada, "/me/tokens", {"label": "Zoe", "role": "2", "days": "5"})
    visit.see(ada, "/me/password", {"password": "one of many", "again": "another one"})
    visit.see(ada, "/users/add", {"name": "Zoe", "role": "3", "programme": "*"})
    visit.see(ada, "/users/role", {"name": "Zoe", "role": "2", "programme": "calls"})
    visit.see(ada, "/users/role", {"name": "Zoe", "role": "0", "programme": "calls"})
    visit.see(ada, "/users/tokens", {"name": "Zoe", "label": "Zoe", "days": "9"})
    visit.see(ada, "/users/tokens", {"name": "Zoe", "label": "Zoe", "days": "x"})
    visit.see(ada, "/users/tokens/revoke", {"token": str(visit.web.users.tokens("Zoe")[0].id)})
    visit.see(ada, "/users/disable", {"name": "Zoe"})
    visit.see(ada, "/users/enable", {"name": "Zoe"})
    visit.see(ada, "/users")


def rounds(visit: Visit, ada: TestClient) -> None:
    calls = visit.clinics["calls"].programme
    for number in (1, 2, 3):
        visit.see(ada, f"/p/calls/round/{number}")
    many = "p1\np2\np3\np4"
    visit.see(ada, "/p/calls/draw", {"number": "4", "key": "d3", "budget": "0"})
    visit.see(ada, "/p/calls/draw", {"number": "4", "key": "d3", "budget": "0", "away": many}, headers=HTMX)
    visit.see(ada, "/p/calls/draw", {"number": "4", "key": "d4", "budget": "3"})
    drawn = calls.round()
    first, second = (each.number for each in drawn.people[:2])
    other = next(id_ for id_ in visit.clinics["calls"].ids if id_ not in drawn.ids)
    place = "/p/calls/round/4"
    visit.see(ada, f"{place}/people/{first}/report", {"outcome": "good", "key": "a"}, headers=HTMX)
    visit.see(ada, f"{place}/people/{second}/report", {"outcome": "missed", "key": "b"}, headers=HTMX)
    visit.see(ada, f"{place}/people/{first}/correct", {"state": "no", "reason": "Zoe", "key": "c"}, headers=HTMX)
    visit.see(ada, f"{place}/others", {"id": other, "outcome": "good", "reason": "Zoe", "key": "e"})
    visit.see(ada, f"{place}/others", {"id": "Zoe", "outcome": "good", "key": "f"})
    visit.see(ada, f"{place}/print")
    visit.see(ada, f"{place}/upload")
    calls.report(Outcomes([drawn.people[2].id], [1], [1]), by="Kofi")
    visit.see(ada, f"{place}/news?since=3")
    visit.see(ada, f"{place}?missing=1")
    upload(visit, ada, "report", f"id,action,state\n{drawn.people[2].id},1,1\n", number=4)
    upload(visit, ada, "correct", f"id,action,state\n{drawn.people[2].id},0,\n", number=4, reason="Zoe")
    visit.see(ada, f"{place}/close", {"key": "g"})
    visit.see(ada, f"{place}/close", {"key": "h"})
    visit.see(ada, "/p/calls/draw", {"number": "5", "key": "d5", "source": "https://example.org", "budget": "3"})
    visit.see(ada, "/p/calls/round/5/value", {"key": "v5", "value": "12" * 32})
    for did in (
        "drawn",
        "committed",
        "closed",
        "moved",
        "created",
        "discarded",
        "report",
        "correct",
        "enrol",
        "played",
    ):
        visit.see(ada, f"/p/calls/round?did={did}&n=2")


def upload(visit: Visit, ada: TestClient, kind: str, text: str, **more: Any) -> None:
    page = visit.see(ada, "/p/calls/uploads", {"kind": kind, **more}, files={"file": ("Zoe", text.encode())})
    found = re.search(r'action="(/p/calls/uploads/[^"/]+)"', page)
    if found is not None:
        visit.see(ada, found[1], {})


def people(visit: Visit, ada: TestClient) -> None:
    place = "/p/calls/people"
    visit.see(ada, f"{place}/enrol")
    visit.see(ada, f"{place}/enrol", {"id": "p20", "group": "north", "staff": "Efua", "key": "a"})
    visit.see(ada, f"{place}/upload")
    upload(visit, ada, "enrol", "id,group,Zoe\np21,north,1\np22,south,2\n")
    for query in ("", "?standing=all&sort=account&descending=1", "?search=zzz", "?standing=left"):
        visit.see(ada, place + query)
    visit.see(ada, f"{place}/standing", {"id": "p2", "action": "away", "key": "b"}, headers=HTMX)
    visit.see(ada, f"{place}/standing", {"id": "p3", "action": "withdraw", "key": "c"}, headers=HTMX)
    visit.see(ada, f"{place}?standing=all")
    for number in range(14):
        visit.see(ada, f"{place}/{number}")
    visit.see(ada, f"{place}/1?round=2")
    visit.see(ada, f"{place}/4/away", {"key": "d"})
    visit.see(ada, f"{place}/4/away", {"key": "e", "back": "1"})
    visit.see(ada, f"{place}/4/correct", {"key": "f", "round": "1", "state": "yes", "reason": "Zoe"})
    visit.see(ada, f"{place}/4/withdraw", {"key": "left 4"})
    visit.see(ada, f"{place}/4/enrol", {"key": "back 4"})
    visit.see(ada, f"{place}/5/erase", {"key": "i", "typed": "Zoe"})
    visit.see(ada, f"{place}/5/withdraw", {"key": "left 5"})
    visit.see(ada, f"{place}/5/erase", {"key": "gone 5", "typed": "p5"})
    visit.see(ada, f"{place}?standing=all")


def board(visit: Visit, ada: TestClient) -> None:
    head = visit.clinics["calls"].programme.status().head
    for place in ("fairness", "learning", "learning?budgets=3,6&rounds=4&extrapolate=1", "ledger", "settings"):
        visit.see(ada, f"/p/calls/{place}")
    visit.see(ada, f"/p/calls/ledger?kept={head}")
    visit.see(ada, f"/p/calls/ledger?kept={'0' * 64}")
    visit.see(ada, "/p/calls/ledger?kept=Zoe")
    visit.see(ada, "/p/calls/ledger/verify", {"heads": head})
    visit.see(ada, "/p/calls/ledger/export", {})
    page = visit.see(ada, "/p/calls/fairness/board", {})
    see_board_page(visit, ada, page)
    changed = {"budget": "5", "floor": "0.4", "slack": "2", "cooldown": "2", "warmup": "1", "once": "on"}
    visit.see(ada, "/p/calls/settings/preview?" + "&".join(f"{k}={v}" for k, v in changed.items()))
    visit.see(ada, "/p/calls/settings/preview?budget=Zoe")
    visit.see(ada, "/p/calls/settings/change", {**changed, "key": "a"})
    visit.see(ada, "/p/calls/round/5/close", {"key": "closed 5"})
    visit.see(ada, "/p/calls/settings/change", {**changed, "key": "b", "reason": "Zoe"})
    visit.see(ada, "/p/calls/settings")
    visit.see(ada, "/p/calls/settings/end", {"key": "c", "typed": "Zoe"})
    visit.see(ada, "/p/calls/fairness")


def see_board_page(visit: Visit, ada: TestClient, page: str) -> None:
    """Look at the page that is made for a board to download."""
    file = re.search(r'href="([^"]+/file)" download>⟦Download the page', page)
    assert file is not None
    visit.see(ada, file[1])


@pytest.mark.slow
@pytest.mark.usefixtures("brackets", "quick_hashes", "same_draws")
def test_every_text_of_the_pages_is_in_the_catalogue(tmp_path: Path) -> None:
    visit = set_up(tmp_path)
    act(visit)
    assert len(visit.pages) > 100
    assert not [name for name in visit.pages if name.endswith(" 500")]
    wrong = {name: found for name, page in visit.pages.items() if (found := forgotten(page, visit.known))}
    assert wrong == {}
    numbers = {name: found for name, page in visit.pages.items() if (found := points(page))}
    assert numbers == {}


@pytest.mark.slow
@pytest.mark.usefixtures("brackets", "quick_hashes")
def test_every_text_of_the_demonstration_is_in_the_catalogue(tmp_path: Path) -> None:
    web = serving(f"sqlite:///{tmp_path / 'programmes.db'}", tmp_path, demo=True)
    people = [f"P{number:03}" for number in range(1, 200)] + [
        f"Nurse {name}" for name in ("Ama", "Efua", "Kofi", "Yaw")
    ]
    for address in ("/", "/me", "/programmes", "/users"):
        page = web.anyone().get(address, follow_redirects=True).text
        assert forgotten(page, (*people, *NURSES, *GROUPS, "Visitor", "clinic")) == []


@contextmanager
def here() -> Iterator[Executor]:
    with ThreadPoolExecutor(1) as pool:
        yield pool


@pytest.mark.slow
@pytest.mark.usefixtures("brackets")
def test_every_text_of_the_viewer_is_in_the_catalogue(tmp_path: Path) -> None:
    policies = ("merit-fair", "none", "whittle")
    run_spec(
        Spec(datasets=("cpap",), sizes=((5, 1),), policies=policies, episodes=2, horizon=10, runs=3, seed=4),
        tmp_path / "found",
        executor=here(),
    )
    client = TestClient(create_viewer(tmp_path / "found"), "http://127.0.0.1:8000")
    of_the_lab = (  # the lab describes its problems in English
        "cpap · 5 arms, 1 pulled · 2 episodes, 10 steps each · merit exponential:c=3 · seed 4",
        "N = 5, K = 1",
        "exponential:c=3",
    )
    versions = ("code", "numba", "numpy", "pyarrow", "scipy")
    for address in ("/", "/compare", "/results", "/report", "/nowhere"):
        page = client.get(address).text
        assert forgotten(page, (*policies, *of_the_lab, *versions, "found", "cpap")) == []
        assert points(page.partition('id="versions"')[0]) == []


# ---- German


@pytest.mark.slow
@pytest.mark.usefixtures("quick_hashes", "same_draws")
def test_german_pages_are_german_with_decimal_commas(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'programmes.db'}"
    calls = clinic(url, budget=3, people=24)
    calls.play()
    web = serving(url, tmp_path)
    client = web.browser("Ada", {"*": Role.ADMIN})
    client.headers["Accept-Language"] = "de-AT, en;q=0.5"
    page = client.get("/p/calls/round").text
    assert '<html lang="de">' in page
    assert "Runde 1" in page
    assert "Chance 12,5\N{NO-BREAK SPACE}%" in page
    assert "12.5" not in page
    words = client.get("/p/calls/fairness").text
    assert "Nichts spricht gegen die 3 Ziehungen aus 1 Runde" in words
    assert "Nothing speaks" not in words
    refused = client.get("/p/calls/nowhere")
    assert (refused.status_code, "Diese Seite gibt es nicht." in refused.text) == (404, True)


@pytest.mark.slow
@pytest.mark.usefixtures("quick_hashes", "same_draws")
def test_the_page_for_the_board_is_in_the_language_of_who_asks(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'programmes.db'}"
    clinic(url).play()
    client = serving(url, tmp_path).browser("Ada", {"*": Role.ADMIN})
    client.headers["Accept-Language"] = "de"
    client.post("/p/calls/fairness/board")
    end, file = time.monotonic() + 120, None
    while file is None and time.monotonic() < end:
        file = re.search(r'href="([^"]+/file)" download>Seite herunterladen', client.get("/p/calls/fairness").text)
        time.sleep(0.05)
    assert file is not None
    made = client.get(file[1]).text
    assert "<h1>Prüfbericht zu calls</h1>" in made
    assert '<html lang="de">' in made
    client.headers["Accept-Language"] = "en"
    assert file[1] not in client.get("/p/calls/fairness").text
