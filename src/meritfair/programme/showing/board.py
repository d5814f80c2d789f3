"""The audit of a programme as plain values and sentences for pages of a server, without anyone's name.

What a board sees are sums. Who waited longest is told by numbers in the ledger alone, so nothing of these values is
about someone who can be told by it once they are erased; a page looks up who it is, for those who may know.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from meritfair.programme.showing import report_words as words
from meritfair.programme.showing.happenings import policy_words
from meritfair.programme.showing.report import ProgrammeReport
from meritfair.programme.showing.report_figure import shown_groups
from meritfair.programme.showing.steering_words import answer_words, finding_words, steering_words

_MOST_LOOKS = 200  # rounds that a chart shows
_MOST_PEOPLE = 10
_BARS = 24


def without_names(report: ProgrammeReport) -> ProgrammeReport:
    """Return a report in which every participant is called "someone"."""
    someone, audit = words.nobody_named(), report.audit
    people = replace(report.people, names=(someone,) * len(report.people))
    arms = replace(audit.arms, names=(someone,) * len(audit.arms))
    certain = tuple(each._replace(arm=someone) for each in audit.certain)
    return replace(report, people=people, audit=replace(audit, arms=arms, certain=certain))


def board_words(report: ProgrammeReport) -> dict[str, list[str]]:
    """Return what a board is told, by what it is about, in the current language."""
    shown = without_names(report)
    return {
        "verdict": [shown.verdict],
        "evidence": words.evidence_words(shown),
        "steering_answer": [answer_words(shown)],
        "steering_findings": [finding_words(shown, each) for each in shown.steering.findings],
        "steering": steering_words(shown),
        "accounts": [words.accounts_words(shown)],
        "waits": words.waits_words(shown),
        "overrides": words.override_details(shown),
        "data": words.data_words(shown),
        "learned": words.learned_words(shown),
        "effect": [words.effect_words(shown)],
        "effect_unseen": words.unseen_words(shown.effect),
        "effect_notes": [] if shown.effect is None else words.effect_notes(shown.effect),
        "settings": [policy_words(each) for each in shown.settings.parts],
    }


def board_values(report: ProgrammeReport) -> dict[str, Any]:
    """Return the numbers that pages show, as plain values: all of the report but single people, and curves."""
    values = {name: value for name, value in report.to_dict(people=False).items() if name != "verdict"}
    return values | {
        "has_groups": report.has_groups,
        "rates": _rates(report),
        "moved": _moved(report),
        "slack": report.audit.slack,
        "violated": report.audit.overall.violated,
        "proof": -math.log10(report.alpha),
        "course": _course(report),
        "accounts": _accounts(report),
        "waits": _waits(report),
        "effect_course": _effect_course(report),
    }


def people_columns(report: ProgrammeReport) -> dict[str, list[Any]]:
    """Return a row for everyone who was ever in a draw, by number in the ledger."""
    known, table = report.standings, report.people
    names = ("rounds", "due", "given", "drawn", "reached", "overrides", "missing")
    more = ("account", "farthest", "wait", "wait_end", "probability")
    return {
        "number": report.numbers.tolist(),
        "group": list(report.group),
        **{name: vars(table)[name].tolist() for name in names},
        **{name: vars(known)[name].tolist() for name in more},
    }


def _rates(report: ProgrammeReport) -> dict[str, list[Any]]:
    """Return by group what was due, given, drawn and reached in 100 rounds of one person, as charts show it."""
    table, places = report.groups, shown_groups(report)
    rounds = np.maximum(1, table.rounds[places])
    names = ("due", "given", "drawn", "reached")
    rates = {name: (100 * vars(table)[name][places] / rounds).tolist() for name in names}
    return {"group": [table.names[k] for k in places], **rates}


def _moved(report: ProgrammeReport) -> dict[str, float]:
    """Return for each group its part of those reached less its part of the draws that were reported on."""
    return dict(zip(report.groups.names, words.shifts(report).tolist(), strict=True))


def _course(report: ProgrammeReport) -> dict[str, list[Any]]:
    """Return by round the evidence, as a power of ten, and the range of all accounts."""
    length = len(report.audit.rounds)
    looks = np.unique(np.linspace(0, length - 1, min(length, _MOST_LOOKS)).round().astype(np.int64))
    course, account = report.audit.course_at(looks), report.audit.arms.account
    assert account is not None
    low, high = account.envelope(looks)
    power = course.overall / math.log(10)
    columns = {"evidence": power, "least_account": low, "largest_account": high}
    return {"round": course.rounds.tolist(), **{name: values.tolist() for name, values in columns.items()}}


def _accounts(report: ProgrammeReport) -> dict[str, Any]:
    """Return how many people have which account now."""
    known, slack = report.standings, report.audit.slack
    far = max(float(np.abs(known.account).max()), slack or 0.0) or 1.0
    people, edges = np.histogram(known.account, np.linspace(-far, far, _BARS + 1))
    beyond = int((known.beyond > 0).sum())
    middles = ((edges[1:] + edges[:-1]) / 2).tolist()
    return {"edges": edges.tolist(), "middles": middles, "people": people.tolist(), "beyond": beyond}


def _waits(report: ProgrammeReport) -> list[dict[str, Any]]:
    """Return the waits that were least likely."""
    known, table = report.standings, report.people
    return [
        {
            "number": int(report.numbers[k]),
            "rounds": int(table.rounds[k]),
            "due": float(table.due[k]),
            "drawn": int(table.drawn[k]),
            "wait": int(known.wait[k]),
            "wait_end": int(known.wait_end[k]),
            "probability": float(known.probability[k]),
            "expected": float(known.probability[k]) * len(report.people),
        }
        for k in report.least_likely_waits(_MOST_PEOPLE)
        if known.wait[k]
    ]


def _effect_course(report: ProgrammeReport) -> dict[str, list[Any]] | None:
    """Return the effect after each round, with both intervals."""
    if report.effect is None:
        return None
    rounds = report.effect.rounds
    places = np.unique(np.linspace(0, len(rounds) - 1, min(len(rounds), _MOST_LOOKS)).round().astype(np.int64))
    table = rounds.take(places.tolist())
    names = ("estimate", "low", "high", "anytime_low", "anytime_high")
    return {"round": [int(name) for name in table.names], **{name: vars(table)[name].tolist() for name in names}}
