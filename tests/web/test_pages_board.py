"""The pages for board and auditors: what each role sees, that numbers are those of the core, and what is changed."""

from __future__ import annotations

import html
import json
import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import meritfair as mf
from meritfair.core.language import speaking
from meritfair.programme import Outcomes, People, Programme
from meritfair.programme.ledger.heads import HEADER, KeptHead, short_code
from meritfair.programme.users import Role
from meritfair.programme.work import Work
from meritfair.web.language import language_of
from meritfair.web.pages.settings import part_facts
from meritfair.web.rendering import number, signed
from programme.clinics import Clinic, clinic
from web.clients import TestClient, Web, serving

pytestmark = pytest.mark.slow
EVIL = "<script>alert(1)</script>"
PAGES = ("fairness", "learning", "ledger", "settings")


@dataclass(frozen=True)
class Server:
    """A server with a programme of three rounds, and a browser for each role."""

    web: Web
    url: str
    calls: Clinic
    browsers: dict[Role, TestClient]

    @property
    def programme(self) -> Programme:
        return self.calls.programme

    def fresh(self, name: str, rounds: int = 1, **settings: Any) -> Clinic:
        """Return another programme of the same store, which a test may change."""
        made = clinic(self.url, name=name, **settings)
        for _ in range(rounds):
            made.play()
        return made


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Server:
    folder = tmp_path_factory.mktemp("server")
    url = f"sqlite:///{folder / 'programmes.db'}"
    calls = clinic(url)
    for _ in range(3):
        calls.play()
    web = serving(url, folder / "run")
    browsers = {role: web.browser(role.word, {"*": role}) for role in Role}
    return Server(web, url, calls, browsers)


def shown(page: str) -> str:
    """Return the text of a page."""
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", " ", page)))


def settled(client: TestClient, address: str) -> str:
    """Return a page once nothing on it is worked out any more."""
    end = time.monotonic() + 120
    while time.monotonic() < end:
        answer = client.get(address)
        assert answer.status_code == 200, answer.text
        if "<progress" not in answer.text:
            return str(answer.text)
        time.sleep(0.05)
    raise AssertionError(f"{address} is still being worked out")


def key(page: str, action: str) -> str:
    """Return the key of a form of a page, by the end of its address."""
    found = re.search(rf'action="[^"]*{action}".*?name="key" value="([^"]+)"', page, re.DOTALL)
    assert found is not None, f"there is no form for {action}"
    return found[1]


# ---- who sees what


@pytest.mark.parametrize("role", list(Role))
@pytest.mark.parametrize("name", PAGES)
def test_every_role_sees_the_pages_of_a_board(server: Server, role: Role, name: str) -> None:
    page = settled(server.browsers[role], f"/p/calls/{name}")
    assert page.count("<h1>") == 1
    ids = [id_ for id_ in server.calls.ids if re.search(rf"\b{id_}\b", shown(page))]
    if role is Role.VIEWER:
        assert ids == [], "a viewer sees nobody"


def test_a_viewer_sees_no_person_and_no_names_of_those_who_report(server: Server) -> None:
    viewer, auditor = server.browsers[Role.VIEWER], server.browsers[Role.AUDITOR]
    assert viewer.get("/p/calls/people/1").status_code == 403
    assert viewer.get("/p/calls/people/1/proof").status_code == 403
    assert ">Ada</td>" not in viewer.get("/p/calls/ledger").text
    assert ">Ada</td>" in auditor.get("/p/calls/ledger").text


@pytest.mark.parametrize(
    ("address", "least"),
    [
        ("/p/calls/ledger/verify", Role.AUDITOR),
        ("/p/calls/ledger/export", Role.AUDITOR),
        ("/p/calls/people/1/away", Role.COORDINATOR),
        ("/p/calls/people/1/withdraw", Role.COORDINATOR),
        ("/p/calls/people/1/correct", Role.COORDINATOR),
        ("/p/calls/people/1/erase", Role.ADMIN),
        ("/p/calls/settings/change", Role.ADMIN),
        ("/p/calls/settings/end", Role.ADMIN),
    ],
)
def test_lower_roles_change_nothing(server: Server, address: str, least: Role) -> None:
    before = server.programme.status().head
    for role in Role:
        if role < least:
            assert server.browsers[role].post(address, data={"key": "x"}).status_code == 403
    assert server.programme.status().head == before


# ---- fairness


def test_fairness_has_the_numbers_of_the_core(server: Server) -> None:
    page, report = shown(settled(server.browsers[Role.VIEWER], "/p/calls/fairness")), server.programme.audit()
    for name, due, given, drawn, reached in zip(
        report.groups.names,
        report.groups.due,
        report.groups.given,
        report.groups.drawn,
        report.groups.reached,
        strict=True,
    ):
        cells = [number(float(due), 1), number(float(given), 1), number(int(drawn)), number(int(reached))]
        assert f"{name} 6 {' '.join(cells)} {signed(float(drawn - due), 1)}" in page
    assert "Nothing speaks against the 9 draws of 3 rounds" in page
    assert "someone was" in page


def test_an_auditor_sees_who_waited_and_a_viewer_does_not(server: Server) -> None:
    report = server.programme.audit()
    worst = report.people.names[report.least_likely_waits(1)[0]]
    assert f">{worst}</a>" in settled(server.browsers[Role.AUDITOR], "/p/calls/fairness")
    assert not re.search(rf"\b{worst}\b", shown(settled(server.browsers[Role.VIEWER], "/p/calls/fairness")))


@pytest.mark.parametrize("name", [*PAGES, "people/1", "settings/preview?budget=5"])
def test_every_chart_has_its_table(server: Server, name: str) -> None:
    page = settled(server.browsers[Role.ADMIN], f"/p/calls/{name}")
    figures = re.findall(r'<figure class="chart".*?</figure>', page, re.DOTALL)
    assert bool(figures) == (name not in ("ledger", "settings"))
    for figure in figures:
        assert "<figcaption>" in figure
        assert 'aria-hidden="true"' in figure
        found = re.search(r'data-chart="([^"]*)"', figure)
        assert found is not None
        data = json.loads(html.unescape(found[1]), parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
        assert data["x"]
        assert all(len(curve["values"]) == len(data["x"]) for curve in data["curves"])
        assert re.search(r"<tbody>\s*<tr>", figure), "the table has rows"


def test_downloads_of_fairness(server: Server) -> None:
    viewer, auditor = server.browsers[Role.VIEWER], server.browsers[Role.AUDITOR]
    table = viewer.get("/p/calls/fairness/groups.csv")
    assert table.headers["content-type"].startswith("text/csv")
    assert table.text.splitlines()[0].startswith("group,people,rounds,due,given,drawn,reached")
    file = re.search(r'href="([^"]+/file)"', settled(auditor, "/p/calls/fairness"))
    assert file is not None
    assert len(auditor.get(file[1]).text.splitlines()) == 1 + len(server.calls.ids)
    assert viewer.get(file[1]).status_code == 403
    assert viewer.post("/p/calls/fairness/board").status_code == 303
    file = re.search(r'href="([^"]+/file)" download>Download the page', settled(viewer, "/p/calls/fairness"))
    assert file is not None
    page = viewer.get(file[1]).text
    assert "Audit of calls" in page
    assert not [id_ for id_ in server.calls.ids if re.search(rf">{id_}<| {id_} ", page)]


def test_before_the_first_draw_pages_teach_the_next_step(server: Server) -> None:
    server.fresh("new", rounds=0)
    for name in ("fairness", "learning"):
        page = server.browsers[Role.COORDINATOR].get(f"/p/new/{name}").text
        assert "There was no draw yet" in page
        assert "Draw the first round" in page
        assert "Draw the first round" not in server.browsers[Role.VIEWER].get(f"/p/new/{name}").text
    mf.programme.open(server.url, "empty").create(by="Ada")
    assert "Enrol people" in server.browsers[Role.COORDINATOR].get("/p/empty/fairness").text


def test_a_page_shows_the_newest_result_and_how_old_it_is(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    made, viewer = server.fresh("moving"), server.browsers[Role.VIEWER]
    settled(viewer, "/p/moving/fairness")
    monkeypatch.setattr("meritfair.web.pages.jobs._SMALL", 0)
    monkeypatch.setattr("meritfair.web.jobs.Jobs._begin", lambda self: None)
    made.programme.draw(by="Ada")
    page = viewer.get("/p/moving/fairness").text
    assert "As of entry 6, 2 entries ago. Bring it up to date" in shown(page)
    assert "<progress" not in page, "what is a few seconds old is not worked out anew with every entry"
    monkeypatch.setattr("meritfair.web.pages.jobs._FRESH", 0.0)
    for page in (viewer.get("/p/moving/fairness").text, viewer.get("/p/moving/fairness?fresh=1").text):
        assert "As of entry 6, 2 entries ago." in shown(page)
        assert "<progress" in page
        assert "stale=1" in page
    assert "In words" in page, "what there is, is shown"


# ---- learning


def test_learning_has_the_words_of_the_core(server: Server) -> None:
    from meritfair.programme.showing import report_words

    page, report = shown(settled(server.browsers[Role.VIEWER], "/p/calls/learning")), server.programme.audit()
    assert report_words.effect_words(report) in page
    assert report_words.learned_words(report)[0] in page
    assert "How sure the estimates are" in page


def test_learning_says_what_states_that_are_not_known_could_change(server: Server) -> None:
    from meritfair.programme.showing import report_words

    made = server.fresh("gaps", rounds=0, people=30, budget=8)
    for _ in range(8):
        made.play(seen=0.6)
    page, report = shown(settled(server.browsers[Role.VIEWER], "/p/gaps/learning")), made.programme.audit()
    (line,), learned = report_words.unseen_words(report.effect), report_words.learned_words(report)
    assert len(learned) == 2
    assert all(" ".join(each.split()) in page for each in [line, *learned])


def test_a_whatif_is_worked_out_and_survives_a_reload(server: Server) -> None:
    viewer = server.browsers[Role.VIEWER]
    address = "/p/calls/learning?budgets=3,6&rounds=5&extrapolate=true"
    assert "<progress" in viewer.get(address).text
    page = shown(settled(viewer, address))
    assert "People in the good state over the next 5 rounds" in page
    assert "6 a round" in page


@pytest.mark.parametrize(
    ("budgets", "problem"),
    [("many", "got many"), ("0", "got 0"), ("1,2,3,4,5,6,7", "got 7"), ("-3", "got -3"), ("3.5", "got 3.5")],
)
def test_a_whatif_that_makes_no_sense_is_refused_in_words(server: Server, budgets: str, problem: str) -> None:
    page = server.browsers[Role.VIEWER].get("/p/calls/learning", params={"budgets": budgets, "rounds": 5})
    assert problem in shown(page.text)


def test_a_trial_has_its_tables(server: Server) -> None:
    from meritfair.programme import Part, Trial

    trial = mf.programme.open(server.url, "trial")
    trial.create(trial=Trial("0" * 64), parts=[Part(1, "random", name="plain"), Part(2, name="fair")], by="Ada")
    trial.enrol([f"t{k}" for k in range(12)], by="Ada")
    drawn = trial.draw(by="Ada")
    trial.report(Outcomes(drawn.ids, [1] * len(drawn.ids), [1] * len(drawn.ids)), by="Ada")
    trial.close(by="Ada")
    page = settled(server.browsers[Role.VIEWER], "/p/trial/learning")
    assert "Who takes part, by arm" in page
    assert "What if the budget" not in page
    settings = server.browsers[Role.ADMIN].get("/p/trial/settings").text
    assert settings.count("<form") > server.browsers[Role.ADMIN].get("/p/calls/settings").text.count("<form")


# ---- one person


def test_a_person_is_told_why_with_the_numbers_of_the_core(server: Server) -> None:
    page = shown(server.browsers[Role.AUDITOR].get("/p/calls/people/4").text)
    person, english = server.programme.person("p4"), language_of("en")
    assert english is not None
    with speaking(english):
        sentences = person.sentences()
    for sentence in sentences:
        assert sentence.replace("\N{NO-BREAK SPACE}", " ") in page.replace("\N{NO-BREAK SPACE}", " ")
    assert signed(person.account.balance) in page


def test_a_person_can_be_looked_at_as_of_a_round(server: Server) -> None:
    page = shown(server.browsers[Role.AUDITOR].get("/p/calls/people/4?round=1").text)
    assert "This is what was known after round 1" in page
    assert server.programme.person("p4", round=1).head[:16] in page
    assert server.browsers[Role.AUDITOR].get("/p/calls/people/4?round=99").status_code == 422


@pytest.mark.parametrize("who", ["999", "-1"])
def test_nobody_has_this_number(server: Server, who: str) -> None:
    assert server.browsers[Role.AUDITOR].get(f"/p/calls/people/{who}").status_code == 404


def test_a_proof_is_that_of_the_core(server: Server) -> None:
    answer = server.browsers[Role.AUDITOR].get("/p/calls/people/4/proof")
    assert answer.headers["content-disposition"] == 'attachment; filename="proof-4.json"'
    assert answer.json() == server.programme.proof("p4")


def test_a_coordinator_notes_absences_and_lets_people_leave_and_come_back(server: Server) -> None:
    made, client = server.fresh("comings"), server.browsers[Role.COORDINATOR]
    own = "/p/comings/people/2"

    def do(action: str, **values: str) -> str:
        page = client.get(own).text
        answer = client.post(f"{own}/{action}", data={"key": key(page, action), **values})
        assert answer.status_code == 303, answer.text
        return shown(client.get(answer.headers["location"]).text)

    assert "Noted as away" in do("away")
    assert made.programme.status().away == 1
    assert "Noted as back" in do("away", back="1")
    assert made.programme.status().away == 0
    assert "They have left" in do("withdraw")
    assert made.programme.status().left == 1
    assert "enrolled again" in do("enrol")
    person = made.programme.person("p2")
    assert (person.enrolment.here, person.enrolment.group) == (True, "north")
    assert made.programme.verify().whole


def test_a_form_that_is_sent_twice_has_one_effect(server: Server) -> None:
    made, client = server.fresh("twice"), server.browsers[Role.COORDINATOR]
    sent = {"key": key(client.get("/p/twice/people/2").text, "withdraw")}
    answers = [client.post("/p/twice/people/2/withdraw", data=sent) for _ in range(2)]
    assert [each.status_code for each in answers] == [303, 303]
    assert made.programme.status().left == 1


def test_a_correction_needs_a_reason_and_shows_the_old_value(server: Server) -> None:
    made, client = server.fresh("wrong"), server.browsers[Role.COORDINATOR]
    old = made.programme.person("p3").rounds[0].after
    sent = {"round": "1", "state": "no" if old else "yes"}
    refused = client.post("/p/wrong/people/3/correct", data={**sent, "key": "a"})
    assert refused.status_code == 422
    assert "reason" in refused.text
    nothing = client.post("/p/wrong/people/3/correct", data={"round": "1", "reason": "typing error", "key": "b"})
    assert nothing.status_code == 422
    assert client.post("/p/wrong/people/3/correct", data={**sent, "reason": EVIL, "key": "c"}).status_code == 303
    page = client.get("/p/wrong/people/3").text
    words = ("good", "bad") if old else ("bad", "good")
    assert f"corrected by coordinator: state after {words[0]} → {words[1]} ({EVIL})" in shown(
        page.replace("&lt;", "&amp;lt;").replace("&gt;", "&amp;gt;")
    ).replace("&lt;", "<").replace("&gt;", ">")
    assert EVIL not in page


def test_erasing_needs_the_id_and_leaves_nothing(server: Server) -> None:
    made, client = server.fresh("gone"), server.browsers[Role.ADMIN]
    settled(client, "/p/gone/fairness")
    assert "Erase for good" not in client.get("/p/gone/people/5").text, "they must have left before"
    made.programme.withdraw("p5", by="Ada")
    page = client.get("/p/gone/people/5").text
    assert "Erase for good" not in server.browsers[Role.COORDINATOR].get("/p/gone/people/5").text
    refused = client.post("/p/gone/people/5/erase", data={"key": "a", "typed": "p6"})
    assert (refused.status_code, made.programme.person("p5").number) == (422, 5)
    sent = {"key": key(page, "erase"), "typed": "p5"}
    assert client.post("/p/gone/people/5/erase", data=sent).status_code == 303
    page = client.get("/p/gone/people/5?did=erased").text
    assert "participant 5" in page
    assert not re.search(r"\bp5\b", page)
    assert client.get("/p/gone/people/5/proof").status_code == 422
    assert server.web.frame.jobs.latest("report", "gone") is None


def test_names_are_shown_as_they_are_and_run_nothing(server: Server) -> None:
    evil = mf.programme.open(server.url, EVIL.replace("/", ""))
    evil.create(1, by=EVIL)
    evil.enrol(People([EVIL, "b"], [EVIL, EVIL], [EVIL, ""]), by=EVIL)
    drawn = evil.draw(by=EVIL)
    evil.report(Outcomes(drawn.ids, [1], [1]), by=EVIL)
    evil.close(by=EVIL)
    evil.change(budget=2, reason=EVIL, by=EVIL)
    client, own = server.browsers[Role.ADMIN], "/p/%3Cscript%3Ealert(1)%3Cscript%3E"
    for name in (*PAGES, "people/0", "settings/preview?budget=1"):
        page = settled(client, f"{own}/{name}")
        assert EVIL not in page, name
        assert "&lt;script&gt;" in page


# ---- the ledger


def test_the_ledger_has_all_entries_and_its_head(server: Server) -> None:
    status, client = server.programme.status(), server.browsers[Role.VIEWER]
    page = client.get("/p/calls/ledger").text
    assert f'<code class="head-of-ledger">{status.head}</code>' in page
    assert "Round 3: closed" in page
    assert "Programme created" in page
    assert f"Entries 0 to {status.entries - 1} of {status.entries}" in page
    late = client.get("/p/calls/ledger?start=9999").text
    assert f"Entries {status.entries - 1} to {status.entries - 1}" in late


def test_a_ledger_is_verified_in_the_browser(server: Server) -> None:
    client = server.browsers[Role.AUDITOR]
    assert client.post("/p/calls/ledger/verify").status_code == 303
    page = shown(settled(client, "/p/calls/ledger"))
    assert "The ledger is whole." in page
    assert "3 draws were made again, and agree." in page
    assert "The ledger is whole." not in server.browsers[Role.VIEWER].get("/p/calls/ledger").text


def test_a_damaged_ledger_is_told(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    from meritfair.programme import verifying

    client = server.browsers[Role.AUDITOR]
    monkeypatch.setattr(verifying, "drawn_rows", lambda *args: [])
    server.fresh("damaged")
    client.post("/p/damaged/ledger/verify")
    page = settled(client, "/p/damaged/ledger")
    assert "The ledger is not whole." in page
    assert 'class="banner error"' in page


def test_a_head_that_was_kept_is_looked_for(server: Server) -> None:
    made, client = server.fresh("kept"), server.browsers[Role.VIEWER]
    head = made.programme.status().head
    made.play()
    found = shown(client.get("/p/kept/ledger", params={"kept": f" {head.upper()} "}).text)
    assert "The ledger holds it: it is the hash of entry 5. Round 1: closed" in found
    assert "does not hold this head" in client.get("/p/kept/ledger", params={"kept": "0" * 64}).text
    assert "A head has 64 digits" in client.get("/p/kept/ledger", params={"kept": "abc"}).text
    auditor = server.browsers[Role.AUDITOR]
    auditor.post("/p/kept/ledger/verify", data={"heads": "0" * 64})
    assert "The ledger is not whole." in settled(auditor, "/p/kept/ledger")
    auditor.post("/p/kept/ledger/verify", data={"heads": head})
    assert "It still holds the head that you gave." in settled(auditor, "/p/kept/ledger")


def test_several_heads_and_short_codes_are_compared(server: Server) -> None:
    made, client = server.fresh("several"), server.browsers[Role.AUDITOR]
    heads = [made.programme.status().head, made.play().head]
    short = short_code(heads[1])
    found = shown(client.get("/p/several/ledger", params={"kept": short}).text)
    assert "The ledger holds it" in found
    assert short_code(made.programme.status().head) in found
    with made.programme.store.reading("several") as session:
        identity = session.identity
    kept = KeptHead("2026-11-17T09:00:00Z", "several", identity, 1, 3, heads[0])
    other = KeptHead("2026-11-17T09:00:00Z", "other", "f" * 32, 1, 3, "0" * 64)
    pasted = "\r\n".join([HEADER, kept.line(), other.line(), short])
    client.post("/p/several/ledger/verify", data={"heads": pasted})
    page = shown(settled(client, "/p/several/ledger"))
    assert "It still holds the 2 heads that you gave. A short code is weaker than a whole head" in page
    for wrong, words in {
        "what is this?": "These are not heads: what was entered, line 1: neither a head",
        other.line(): "None of these heads is one of this programme.",
    }.items():
        answer = client.post("/p/several/ledger/verify", data={"heads": wrong})
        assert (answer.status_code, words in shown(answer.text)) == (422, True)


def test_an_export_is_made_and_downloaded(server: Server, tmp_path: Path) -> None:
    client = server.browsers[Role.AUDITOR]
    assert client.post("/p/calls/ledger/export").status_code == 303
    file = re.search(r'href="([^"]+/file)" download>Download the ledger', settled(client, "/p/calls/ledger"))
    assert file is not None
    answer = client.get(file[1])
    assert answer.headers["content-type"] == "application/zip"
    assert answer.content[:2] == b"PK"
    assert server.browsers[Role.VIEWER].get(file[1]).status_code == 404
    other = file[1].replace("/p/calls/", "/p/kept/")
    assert client.get(other).status_code == 404, "a job belongs to its programme"


# ---- settings


def test_how_far_accounts_may_be_off_is_said_as_it_is(tmp_path: Path) -> None:
    """With less slack than an account has used, it is not "at most" that; a slack of 0.25 is not rounded."""
    policy = "merit-fair:estimate=mean,design=exact,slack={}"
    made = clinic(f"sqlite:///{tmp_path / 'programmes.db'}", policy=policy.format(2))

    def said() -> str:
        with made.programme.store.reading("calls") as session:
            return str(part_facts(Work(session).state, 0)["facts"]["Slack"])

    for _ in range(4):
        made.play()
    assert said() == "An account may be off by 2 draws at most, either way"
    made.programme.change(policy=policy.format(0.25), reason="sooner", by="Ada")
    assert said() == (
        "An account may be off by 0.25 draws, either way; some are off by more, from a time with other settings"
    )
    while "some are" in said():
        made.play()
    assert said() == "An account may be off by 0.25 draws at most, either way"
    made.programme.change(rules=mf.Rules(cooldown=1), reason="rest", by="Ada")
    assert said().endswith("0.25 draws, either way; as rules keep people out of draws, it can be more")
    made.programme.change(policy=policy.format("inf"), reason="any time", by="Ada")
    assert said() == "There is no bound on accounts"


def test_a_change_shows_what_it_would_do_and_needs_a_reason(server: Server) -> None:
    made, client = server.fresh("changing"), server.browsers[Role.ADMIN]
    before = made.programme.status().head
    asked = {"budget": "5", "floor": "0.5", "slack": "2", "cooldown": "0", "warmup": "0"}
    answer = client.get("/p/changing/settings/preview", params=asked)
    page = shown(answer.text)
    assert "budget 3 → 5" in page
    assert "floor 0.25 → 0.5 of an equal share" in page
    assert "people drawn 3 → 5" in page
    assert made.programme.status().head == before, "looking changes nothing"
    refused = client.post("/p/changing/settings/change", data={**asked, "key": "a"})
    assert refused.status_code == 422
    assert "A change needs a reason" in refused.text
    assert made.programme.status().head == before
    sent = {**asked, "key": key(answer.text, "settings/change"), "reason": "a new nurse"}
    assert client.post("/p/changing/settings/change", data=sent).status_code == 303
    page = shown(client.get("/p/changing/settings").text)
    assert "a new nurse" in page
    assert "budget 3 → 5; floor 0.25 → 0.5 of an equal share" in page
    drawn, _ = made.programme.preview()
    assert drawn.budgets == (5,)


def test_a_preview_is_what_the_next_draw_would_be(server: Server) -> None:
    made = server.fresh("preview")
    look = server.web.frame.reader.look("preview")
    shown_first = look.preview_change(look.settings.changed(budget=6))
    made.programme.change(budget=6, reason="more", by="Ada")
    planned, _ = made.programme.preview()
    due = dict(zip(planned.number.tolist(), (planned.due / 2**40).tolist(), strict=True))
    groups = {each.name: each.then for each in shown_first.groups}
    assert groups["north"] == pytest.approx(sum(due[k] for k in range(0, 12, 2)))
    assert shown_first.budget == (3, 6)
    for number_, _now, then in shown_first.people:
        assert then == pytest.approx(due[number_])


def test_with_many_people_a_preview_is_long_work(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    client, address = server.browsers[Role.ADMIN], "/p/calls/settings/preview?budget=5&slack=2"
    direct = settled(client, address)
    monkeypatch.setattr("meritfair.web.pages.settings._MANY", 0)
    assert "<progress" in client.get(address).text
    page = settled(client, address)
    keys = r'name="(key|csrf)" value="[^"]+"'
    assert re.sub(keys, "", page) == re.sub(keys, "", direct)


@pytest.mark.parametrize(
    ("asked", "problem"),
    [
        ({"budget": "x"}, "got 'x'"),
        ({"budget": "3", "floor": "2"}, "floor"),
        ({"budget": "3", "slack": "-1"}, "slack"),
        ({"budget": "3", "policy": "whittle"}, "knows the true transition probabilities"),
        ({"budget": "3", "policy": "nonsense"}, "nonsense"),
        ({"budget": "3", "part": "other"}, "'other'"),
        ({"budget": "3", "cooldown": "soon"}, "got 'soon'"),
    ],
)
def test_settings_that_cannot_be_are_refused_in_words(server: Server, asked: dict[str, str], problem: str) -> None:
    answer = server.browsers[Role.ADMIN].get("/p/calls/settings/preview", params=asked)
    assert answer.status_code == 422
    assert problem in shown(answer.text)


def test_a_change_that_changes_nothing_says_so(server: Server) -> None:
    page = server.browsers[Role.ADMIN].get("/p/calls/settings/preview?budget=3&floor=0.25&slack=2.0").text
    assert "Nothing would change" in page
    assert "Change the settings</button>" not in page


def test_ending_needs_the_name_and_publishes_the_secret(server: Server) -> None:
    made, client = server.fresh("over"), server.browsers[Role.ADMIN]
    refused = client.post("/p/over/settings/end", data={"key": "a", "typed": "calls"})
    assert refused.status_code == 422
    assert not made.programme.status().ended
    sent = {"key": key(client.get("/p/over/settings").text, "settings/end"), "typed": "over"}
    assert client.post("/p/over/settings/end", data=sent).status_code == 303
    assert made.programme.status().ended
    page = shown(client.get("/p/over/settings?did=ended").text)
    assert "The programme has ended" in page
    assert "Show what this would do" not in page
    assert "Programme ended, secret published" in client.get("/p/over/ledger").text


def test_an_open_round_must_be_closed_before_the_end(server: Server) -> None:
    made = server.fresh("open")
    made.programme.draw(by="Ada")
    page = server.browsers[Role.ADMIN].get("/p/open/settings").text
    assert "Round 2 must be closed first." in page
    assert "End it for good" not in page


def test_pages_after_a_newcomer_of_a_new_group(server: Server) -> None:
    made = server.fresh("newcomers", 1)
    made.programme.draw(by="Ada")
    made.programme.enrol(People(["D", "E"], group=["Kreuzberg", ""]), by="Ada")
    admin, viewer = server.browsers[Role.ADMIN], server.browsers[Role.VIEWER]
    for name in PAGES:
        for browser in (admin, viewer):
            assert "did not work" not in settled(browser, f"/p/newcomers/{name}"), name
    page = shown(settled(admin, "/p/newcomers/fairness"))
    assert "north" in page
    assert "Kreuzberg" not in page, "nobody of that group was in a draw"
    for address in ("/people", "/people/12", "/people/13"):
        assert admin.get(f"/p/newcomers{address}").status_code == 200
