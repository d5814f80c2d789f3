"""No sentence about somebody contradicts their own rows: every number that is said is read back and compared.

Programmes are played over rules, slacks, floors, budgets, absences, leaves, overrides, late reports, corrections and
changes of settings. A sentence with a number that no pattern here knows fails, so that a new one is checked too.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, event, given, settings
from hypothesis import strategies as st

import meritfair as mf
from meritfair.programme import Outcomes, Programme
from meritfair.programme.showing.person import PersonReport, person_of
from meritfair.programme.showing.person_page import person_page
from meritfair.programme.showing.wording import percent
from meritfair.programme.work import Work
from meritfair.web.pages.person import account_chart
from programme.clinics import Clinic, clinic

PEOPLE, ROUNDS = 7, 7
DRAWS, PART = r"([\d.]+) draws?", r"((?:less than |more than )?[\d.]+) %"

Check = Callable[[PersonReport, Any], None]


def shown(part: float) -> str:
    return percent(part).replace("\N{NO-BREAK SPACE}%", "")


def alike(number: str, value: float, digits: int = 2) -> None:
    assert abs(float(number) - value) <= 0.5 * 10**-digits + 1e-9, (number, value)


# ---- what each sentence says, and what it must agree with


def drawn(person: PersonReport, said: Any) -> None:
    last = person.rounds[-1]
    assert int(said[1]) == last.round
    assert last.drawn is (said[3] == "was drawn")
    text = said[4]
    assert (", and was reached" in text) == (last.drawn is True and last.action == 1)
    assert (", and was not reached" in text) == (last.drawn is True and last.action == 0)
    assert ("not reported yet" in text) == (last.drawn is True and last.action < 0)
    assert ("reached all the same" in text) == last.override
    if last.reason:
        assert not last.override or f"({last.reason})" in text


def of_people(person: PersonReport, said: Any) -> None:
    last = person.rounds[-1]
    assert (int(said[1]), int(said[2])) == (last.people, last.budget)
    assert ("no chance" in said[3]) == (last.chance == 0)
    assert ("certain" in said[3]) == (last.chance >= 1)


def chance(person: PersonReport, said: Any) -> None:
    last = person.rounds[-1]
    assert said[1] == shown(last.chance)
    if said[2]:
        alike(said[2].replace(",", ""), 1 / last.chance, 0)


def timed(person: PersonReport, said: Any) -> None:
    last = person.rounds[-1]
    assert said[2] == shown(last.due)
    assert said[2] != shown(last.chance)  # else it would be neither less nor more
    assert (said[1] == "less") == (last.chance < last.due)
    if "at most" in said[3]:
        assert person.account.bounded
    if "rules keep" in said[3]:
        assert person.account.rules


def kept_out(person: PersonReport, said: Any) -> None:
    last = person.rounds[-1]
    rule = {"marked as away": "away", "been reached shortly": "cool-down", "joined shortly": "warm-up"}
    assert last.kept_out == next((name for words, name in rule.items() if words in said[0]), "once")
    assert last.chance == 0


def sums(person: PersonReport, said: Any) -> None:
    assert int(said[1]) == len(person.rounds)
    alike(said[2], sum(each.due for each in person.rounds), 1)
    alike(said[3], sum(each.chance for each in person.rounds), 1)
    often = {"never": 0, "once": 1}
    for words, number in ((said[4], person.drawn), (said[5], person.reached)):
        assert number == (often[words] if words in often else int(words.split()[0]))
    assert (int(said[6].split()[0]) if said[6] and said[6] != "once" else int(said[6] == "once")) == person.overrides


def balance(person: PersonReport, said: Any) -> None:
    account = sum(each.due - each.chance for each in person.rounds)
    assert account == pytest.approx(person.rounds[-1].account, abs=1e-9)
    alike(said[1], abs(account))
    assert float(said[1]) > 0
    assert (said[2] == "behind") == (account > 0)


def even(person: PersonReport, _: Any) -> None:
    alike("0", person.rounds[-1].account)


def at_most(person: PersonReport, said: Any) -> None:
    alike(said[1], person.account.slack or 0.0)
    assert person.account.bounded
    assert not person.account.rules
    assert abs(person.rounds[-1].account) <= (person.account.slack or 0.0) + 1e-6
    event("bounded")


def beyond(person: PersonReport, said: Any) -> None:
    alike(said[1], person.account.slack or 0.0)
    assert round(abs(person.rounds[-1].account), 2) > float(said[1])
    assert person.account.rules == ("keep people out" in said[0])
    event("beyond")


def within(person: PersonReport, said: Any) -> None:
    alike(said[1], person.account.slack or 0.0)
    assert round(abs(person.rounds[-1].account), 2) <= float(said[1])
    assert not person.account.bounded
    event("within, not bounded")


def waits(person: PersonReport, said: Any) -> None:
    runs = [len(list(run)) for is_drawn, run in groupby(each.drawn for each in person.rounds) if is_drawn is False]
    assert int(said[1]) == max(runs)
    first, last = int(said[2]), int(said[3] or said[2])
    inside = [each for each in person.rounds if first <= each.round <= last]
    assert len(inside) == int(said[1])
    assert not any(each.drawn for each in inside)


def probability(person: PersonReport, said: Any) -> None:
    assert said[1] == shown(person.wait.probability)


def waited(person: PersonReport, said: Any) -> None:
    since = next((k for k, each in enumerate(reversed(person.rounds)) if each.drawn), len(person.rounds))
    assert int(said[1]) == since


def due(person: PersonReport, said: Any) -> None:
    assert person.next is not None
    assert (int(said[1]), said[2]) == (person.next.round, shown(person.next.due))
    if "open round" in said[0]:
        assert person.next.due == person.rounds[-1].due


def if_now(person: PersonReport, said: Any) -> None:
    assert person.next is not None
    assert said[1] == shown(person.next.chance)
    assert said[1] != shown(person.next.due)


def equal(person: PersonReport, said: Any) -> None:
    assert person.next is not None
    assert said[1] == shown(person.next.budget / person.next.people)


def seen(person: PersonReport, said: Any) -> None:
    known, missing = re.search(r"(\d+) good, (\d+) bad", said[0]), re.search(r"missing for (\d+)", said[0])
    found = person.seen
    assert int(said[1]) == found.good + found.bad
    assert [int(each) for each in known.groups()] == [found.good, found.bad] if known else int(said[1]) == 0
    assert (int(missing[1]) if missing else 0) == found.missing
    assert found.good == sum(each.after == 1 for each in person.rounds)


def late(person: PersonReport, said: Any) -> None:
    parts = dict(re.findall(r"(\d+) (reports?|rounds?)", said[0])[::-1])
    found = {name.rstrip("s"): int(n) for n, name in re.findall(r"(\d+) (reports?|rounds?)", said[0])}
    assert parts
    assert found.get("report", 0) == sum(each.late for each in person.rounds)
    assert found.get("round", 0) == sum(bool(each.corrections) for each in person.rounds)


def benefit(person: PersonReport, said: Any) -> None:
    values = [float(each.replace("−", "-")) for each in said.groups()]
    low, middle, high = values[1], values[0], values[2]
    assert low <= middle <= high
    alike(str(middle), 100 * person.estimate.benefit, 0)


def rests(person: PersonReport, said: Any) -> None:
    alike(said[1], person.estimate.worth, 0)


def merit(person: PersonReport, said: Any) -> None:
    assert person.estimate.merit is not None
    assert person.estimate.mean_merit is not None
    alike(said[1], person.estimate.merit / person.estimate.mean_merit)


def away_due(person: PersonReport, said: Any) -> None:
    assert person.next is not None
    assert person.next.chance == 0
    assert (person.next.due > 0) == ("stays in the account" in said[0])


def bound(person: PersonReport, said: Any) -> None:
    """At a bound, others have more or less for their merit; between bounds all have the same."""
    draw, merit = person.next, person.estimate.merit
    assert draw is not None
    assert merit
    assert {"floor": "keeps it from being less", "cap": "keeps it from being more"}.get(draw.bound.kind, "") in said[0]
    assert draw.bound.value is None or draw.due == pytest.approx(draw.bound.value, abs=1e-6)


def nothing(_: PersonReport, __: Any) -> None:
    """Check nothing: it has no number but that of the round."""


NUMBER = r"([−+\d.]+)"
SENTENCES: dict[str, Check] = {
    r"In round (\d+), drawn on (.*?), p\d+ (was drawn|was not drawn)(.*)": drawn,
    r"Of (\d+) (?:people|person) (\d+) (?:was|were) drawn(.*)": of_people,
    rf"The chance of p\d+ was {PART}(?:, about 1 in ([\d,]+))?: a lottery .*": chance,
    rf"That is (less|more) than the {PART} that were due: (.*)": timed,
    r"The reason: p\d+ .*": kept_out,
    r"In (\d+) rounds? p\d+ was due to be drawn ([\d.]+) times, had chances that add up to ([\d.]+), was (?:drawn )?"
    r"(never|once|\d+ times)(?: drawn)?, and was (?:reached )?(never|once|\d+ times)(?: reached)?"
    r"(?: \((.*?) (?:times )?without being drawn\))?\.": sums,
    rf"The account of p\d+ is {DRAWS} (behind|ahead of) what was due\.": balance,
    r"The account of p\d+ is even: .*": even,
    rf"It may be off by {DRAWS} at most, either way\.": at_most,
    rf"That is beyond the slack of {DRAWS}, .*": beyond,
    rf"Its slack is {DRAWS}, either way\..*": within,
    r"The longest time without being drawn was (\d+) rounds? \(rounds? (\d+)(?: to (\d+))?\)\.": waits,
    rf"With the chances .* a wait of that length or more had a probability of {PART}\.": probability,
    r"It still lasts; not to be drawn in these (\d+) rounds? .*": waited,
    r"Now it has been (\d+) rounds?; .*": waited,
    rf"In (?:the open )?round (\d+),? (?:the next one, )?p\d+ is due a chance of {PART}\.": due,
    rf"If it were drawn now, the chance would be {PART}\.": if_now,
    rf"An equal share would be {PART}\.": equal,
    r"The state afterwards is known for (\d+) rounds?.*": seen,
    r"\d+ (?:reports?|rounds?) (?:came after|was corrected|were corrected).*": late,
    rf"If p\d+ were reached in every round .* estimated {NUMBER} percentage .* \(95 % interval: {NUMBER} to "
    rf"{NUMBER}\)\.": benefit,
    r"This rests on (\d+) outcomes? of their own.*": rests,
    rf"From this follows a merit of [\d.]+, {NUMBER} times the mean of all\.": merit,
    r"That is because they are away\.": away_due,
    r"They (?:were reached shortly before|are away) and cannot be drawn now; .*": away_due,
    r"It is at neither floor nor cap\.": bound,
    r"The (?:floor|cap), which .*": bound,
    r"p\d+ was not enrolled in the last \d+ rounds?\.": nothing,
    r"p\d+ joined after round \d+ was drawn.*": nothing,
    r"p\d+ does not take part any more.*": nothing,
    r"There was no draw yet since p\d+ joined\.": nothing,
}
_BREAK = re.compile(r"(?<=[.)]) (?=[A-Z])")


def check_sentences(person: PersonReport) -> list[str]:
    """Compare every number in the sentences about somebody with their rows; return the sentences."""
    text = [each.replace("\N{NO-BREAK SPACE}", " ") for each in person.sentences()]
    pieces = [piece for each in text for piece in _BREAK.split(each)]
    for piece in pieces:
        found = [(check, match) for pattern, check in SENTENCES.items() if (match := re.fullmatch(pattern, piece))]
        assert found or not re.search(r"(?<!p)\b\d", piece), f"no pattern knows {piece!r}"
        for check, match in found:
            check(person, match)
    return pieces


def check_figures(person: PersonReport) -> None:
    """Check what is said of the lines of the slack, on the page to print and on that of the server."""
    printed = " ".join(each.drawing.caption for each in person_page(person).sections if each.drawing is not None)
    for text in (printed, account_chart(person).note):
        assert ("not to leave" in text) == person.account.bounded
        assert ("keep people out" in text) == (person.account.rules and person.account.slack is not None)


# ---- programmes


@dataclass
class Story:
    """A programme that is played, with all that may happen in it."""

    made: Clinic
    rng: np.random.Generator
    away: set[int] = field(default_factory=set)
    left: set[int] = field(default_factory=set)
    promised: dict[int, float] = field(default_factory=dict)  # accounts that are said not to leave their slack

    @property
    def programme(self) -> Programme:
        return self.made.programme

    def play(self) -> None:
        """Play a round: some are away or leave, some are called who were not drawn, some states are not seen."""
        self.come_and_go()
        there = [number for number in range(PEOPLE) if number not in self.left]
        choice = self.programme.draw(by="Ada")
        actions = np.zeros(PEOPLE, np.int64)
        actions[[each.number for each in choice.people]] = self.rng.random(len(choice.people)) < 0.9
        over = [number for number in there if not actions[number] and self.rng.random() < 0.1]
        actions[over] = 1
        drawn_now = {each.number for each in choice.people}
        reasons = {f"p{number}": "in need" for number in over if number not in drawn_now}
        _, after = self.made.move(actions)
        known = np.where(self.rng.random(PEOPLE) < 0.8, after, -1)
        self.check(open_=True)
        ids = [f"p{number}" for number in there]
        self.programme.report(Outcomes(ids, actions[there], known[there], reasons=reasons), by="Ada")
        self.programme.close(by="Ada")
        if self.rng.random() < 0.3:
            right = Outcomes([ids[0]], after=[int(after[there[0]])])
            self.programme.correct(right, round=choice.number, reason="misread", by="Ada")
        self.check(open_=False)

    def come_and_go(self) -> None:
        for number in range(PEOPLE):
            if number not in self.left and self.rng.random() < 0.12:
                back = number in self.away
                self.programme.away(f"p{number}", back=back, reason="on leave", by="Ada")
                self.away ^= {number}
        if self.rng.random() < 0.1 and len(self.left) < 2:
            number = int(self.rng.integers(PEOPLE))
            if number not in self.left:
                self.programme.withdraw(f"p{number}", reason="moved", by="Ada")
                self.left.add(number)
                self.away.discard(number)

    def check(self, open_: bool) -> None:
        """Check all that is said of two of them, and that what was promised of accounts was kept."""
        with self.programme.store.reading(self.programme.name) as session:
            work = Work(session)
            for number, slack in self.promised.items():
                assert abs(float(work.state.account[number])) / 2**40 <= slack + 1e-6
            for number in self.rng.choice(PEOPLE, 1 if open_ else 2, replace=False):
                person = person_of(work, int(number))
                said = check_sentences(person)
                if person.rounds:
                    check_figures(person)
                if any(each.startswith("It may be off") for each in said):
                    assert person.account.slack is not None
                    self.promised[int(number)] = person.account.slack


CASES = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 10**6),
        "slack": st.sampled_from([0.0, 0.5, 2.0]),
        "floor": st.sampled_from([0.0, 0.25, 0.8]),
        "cap": st.sampled_from([1.0, 1.0, 0.5]),
        "budget": st.sampled_from([1, 2, [2, 0, 1]]),
        "rules": st.builds(
            mf.Rules,
            cooldown=st.sampled_from([0, 0, 1, 2]),
            warmup=st.sampled_from([0, 1]),
            once=st.sampled_from([False, False, False, True]),
            accrue=st.booleans(),
        ),
        "change": st.sampled_from([{}, {}, {"rules": mf.Rules()}, {"rules": mf.Rules(cooldown=1)}, {"slack": 0.25}]),
    }
)


@pytest.mark.slow
@given(CASES)
@settings(max_examples=8, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
def test_no_sentence_contradicts_the_rows(case: dict[str, Any]) -> None:
    policy = f"merit-fair:estimate=mean,design=exact,cap={case['cap']}" + ",slack={:g}"
    with TemporaryDirectory() as folder:
        settings_ = {name: case[name] for name in ("floor", "budget", "rules")}
        url = f"sqlite:///{Path(folder) / 'programmes.db'}"
        made = clinic(url, people=PEOPLE, policy=policy.format(case["slack"]), **settings_)
        story = Story(made, np.random.default_rng(case["seed"]))
        for number in range(ROUNDS):
            if number == ROUNDS // 2 and case["change"]:
                change = dict(case["change"])
                if "slack" in change:
                    change["policy"] = policy.format(change.pop("slack"))
                made.programme.change(**change, reason="a new rule", by="Ada")
                story.promised.clear()  # promises hold under the settings that they were made under
            story.play()
