"""The tables of a trial, for a report by the CONSORT extension for adaptive designs (ACE).

Each table says which items of the checklist it is for. What the checklist asks of the authors themselves, such as the
eligibility criteria or why the trial ended, is not in a ledger.

**Outcomes.** People were randomised, so they are what is compared: of each the share of rounds, of those with a known
state, after which the state was good. The mean of these shares has the interval of a mean of independent values, and
two arms are compared by Welch's t. Shares by round have Wilson's intervals.

References
----------
M. Dimairo et al., "The Adaptive designs CONSORT Extension (ACE) statement", BMJ 369:m115 (2020).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from meritfair.core.arrays import BoolArray, FloatArray, IntArray
from meritfair.programme.ledger.lottery import ONE
from meritfair.programme.records import Records
from meritfair.programme.showing.happenings import Happenings, plain_change, policy_words
from meritfair.programme.showing.tallying import Tally
from meritfair.programme.work import Work

LEVEL = 0.95
_Z = 1.959963984540054  # of a normal distribution, for LEVEL
_FEW_LEVELS = 12  # a feature with more values is shown by mean and spread, if these are numbers

Row = dict[str, Any]


@dataclass(frozen=True)
class TrialTables:
    """The tables of a trial, as rows of plain values.

    Attributes
    ----------
    protocol : str
        The SHA-256 of the protocol, as it is in the first entry.
    first_entry, created, created_by : str
        The hash of that entry, when it was made and by whom.
    strata : tuple of str
    arms : list of dict
        Share of the randomisation, policy and budget of each arm, as planned (items 3a, 3b, 8a, 8b).
    changes : list of dict
        Changes of settings since then (items 3c, 14c).
    flow : list of dict
        Participants by arm (items 13a, 13b, 14a, 16).
    baseline : list of dict
        Groups and features by arm (item 15a).
    totals : list of dict
        What each arm was due, given, drawn and reached in all.
    allocation : list of dict
        Budget, draws and people reached by round and arm (items 8b, 14c).
    outcomes : list of dict
        The share in the good state by arm, and how far it is from that of the reference arm (item 17a).
    course : list of dict
        The share in the good state after each round, by arm (items 17a, 17c).
    reference : str
        The arm with the least budget, with which the others are compared.
    """

    protocol: str
    first_entry: str
    created: str
    created_by: str
    strata: tuple[str, ...]
    arms: list[Row]
    changes: list[Row]
    flow: list[Row]
    baseline: list[Row]
    totals: list[Row]
    allocation: list[Row]
    outcomes: list[Row]
    course: list[Row]
    reference: str

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain values."""
        return {**vars(self), "strata": list(self.strata)}


def trial_tables(work: Work, found: Records, happened: Happenings, ended: BoolArray) -> TrialTables:
    """Return the tables of a trial; `ended` says of which records the round has ended."""
    state, created = work.state, happened.created
    planned = type(state.settings).from_body(created.body)
    assert planned.trial is not None
    names = [part.name for part in planned.parts]
    reference = int(np.argmin([sum(part.budget) / len(part.budget) for part in planned.parts]))
    arms = [{"arm": part.name, "share": part.share, "plan": policy_words(part)} for part in planned.parts]
    return TrialTables(
        protocol=planned.trial.protocol,
        first_entry=created.digest.hex(),
        created=created.time,
        created_by=created.by,
        strata=planned.trial.strata,
        arms=arms,
        changes=[plain_change(each) for each in happened.changes],
        flow=_flow(work, found, happened, names),
        baseline=_baseline(work, names),
        totals=Tally.of(names, state.part, found, ended).rows("arm"),
        allocation=_allocation(found, happened, names),
        outcomes=_outcomes(found, names, reference),
        course=_course(found, names),
        reference=names[reference],
    )


def _flow(work: Work, found: Records, happened: Happenings, names: list[str]) -> list[Row]:
    """Return how many of each arm were randomised, left, were erased, were reached, and are analysed."""
    state = work.state
    part, here = state.part, state.here
    reached, known = (np.zeros(state.people, np.bool_) for _ in range(2))
    reached[found.number[found.action == 1]] = True
    known[found.number[found.after >= 0]] = True
    erased = np.isin(np.arange(state.people), list(happened.erased))
    rows = []
    for place, name in enumerate(names):
        mine = part == place
        joined = sorted(happened.joined[number] for number in np.flatnonzero(mine).tolist())
        counts = {
            "randomised": mine,
            "enrolled": mine & here,
            "withdrawn": mine & ~here,
            "erased": mine & erased,
            "reached": mine & reached,
            "analysed": mine & known,
        }
        ends = (
            {"first_joined": joined[0], "last_joined": joined[-1]}
            if joined
            else {"first_joined": "", "last_joined": ""}
        )
        rows.append({"arm": name, **{key: int(rows_.sum()) for key, rows_ in counts.items()}, **ends})
    return rows


def _baseline(work: Work, names: list[str]) -> list[Row]:
    """Return how many of each arm have each value of a group or feature; of numbers, mean and standard deviation."""
    state = work.state
    columns = [*(["group"] if state.summary.levels.get("group") else []), *state.settings.features]
    rows = []
    for column in columns:
        texts = np.array(state.texts(column), dtype=object)
        values = sorted(set(texts.tolist()))
        numbers = _as_numbers(texts) if len(values) > _FEW_LEVELS else None
        if numbers is not None:
            rows.append({"what": column, "value": "mean (standard deviation)", **_spreads(numbers, state.part, names)})
            continue
        for value in values:
            counts = np.bincount(state.part[texts == value], minlength=len(names))
            rows.append(
                {"what": column, "value": value or "not known", **dict(zip(names, counts.tolist(), strict=True))}
            )
    return rows


def _as_numbers(texts: Any) -> FloatArray | None:
    """Return texts as numbers, NaN where one is empty; None if one is no number."""
    try:
        return np.array([float(text) if text else math.nan for text in texts])
    except ValueError:
        return None


def _spreads(numbers: FloatArray, part: IntArray, names: list[str]) -> dict[str, list[float]]:
    found = {}
    for place, name in enumerate(names):
        own = numbers[(part == place) & np.isfinite(numbers)]
        found[name] = [float(own.mean()), float(own.std(ddof=1))] if len(own) > 1 else [math.nan, math.nan]
    return found


def _allocation(found: Records, happened: Happenings, names: list[str]) -> list[Row]:
    """Return budget, due, draws and people reached, by round and arm."""
    rounds, size = int(found.round.max()), len(names)
    cell = (found.round - 1) * size + found.part

    def table(weights: Any) -> Any:
        return np.bincount(cell, weights, rounds * size).reshape(rounds, size)

    people, due = table(None), table(found.due / ONE)
    drawn, reached = table((found.drawn == 1) * 1.0), table((found.action == 1) * 1.0)
    return [
        {
            "round": number + 1,
            "time": happened.times[number],
            "arm": name,
            "people": int(people[number, place]),
            "budget": happened.asked[number][place],
            "due": float(due[number, place]),
            "drawn": int(drawn[number, place]),
            "reached": int(reached[number, place]),
        }
        for number in range(rounds)
        for place, name in enumerate(names)
    ]


def _outcomes(found: Records, names: list[str], reference: int) -> list[Row]:
    """Return by arm the mean over people of their share of good states, and its distance from the reference arm."""
    known = found.after >= 0
    good = np.bincount(found.number[known], found.after[known])
    rounds = np.bincount(found.number[known])
    part = np.zeros(len(rounds), np.int64)
    part[found.number[known]] = found.part[known]
    shares = [
        good[(part == place) & (rounds > 0)] / rounds[(part == place) & (rounds > 0)] for place in range(len(names))
    ]
    rows = []
    for place, name in enumerate(names):
        mean, error, freedom = _mean(shares[place])
        row = {"arm": name, "people": len(shares[place]), "share": mean, **_ends("", mean, error, freedom)}
        if place != reference:
            row |= _difference(shares[place], shares[reference])
        rows.append(row)
    return rows


def _mean(values: FloatArray) -> tuple[float, float, float]:
    """Return a mean, its standard error, and degrees of freedom; NaN of too few."""
    n = len(values)
    error = float(values.std(ddof=1)) / math.sqrt(n) if n > 1 else math.nan
    return float(values.mean()) if n else math.nan, error, n - 1.0


def _ends(prefix: str, mean: float, error: float, freedom: float) -> dict[str, float]:
    from scipy.special import stdtrit

    radius = float(stdtrit(freedom, (1 + LEVEL) / 2)) * error if freedom > 0 else math.nan
    return {f"{prefix}low": mean - radius, f"{prefix}high": mean + radius}


def _difference(one: FloatArray, other: FloatArray) -> dict[str, float]:
    """Return the difference of two means, with the interval of Welch's t."""
    (a, s, n), (b, t, m) = _mean(one), _mean(other)
    difference, error = a - b, math.hypot(s, t)
    parts = s**4 / n + t**4 / m if min(n, m) > 0 else math.nan
    freedom = error**4 / parts if parts > 0 else math.nan
    return {"difference": difference, **_ends("difference_", difference, error, freedom)}


def _course(found: Records, names: list[str]) -> list[Row]:
    """Return by round and arm the share of known states that are good, with Wilson's interval."""
    rounds, size = int(found.round.max()), len(names)
    known = found.after >= 0
    cell = ((found.round - 1) * size + found.part)[known]
    n = np.bincount(cell, minlength=rounds * size)
    good = np.bincount(cell, found.after[known], rounds * size)
    rows = []
    for k in range(rounds * size):
        share, low, high = wilson(int(good[k]), int(n[k]))
        row = {"round": k // size + 1, "arm": names[k % size], "people": int(n[k]), "share": share}
        rows.append({**row, "low": low, "high": high})
    return rows


def wilson(good: int, number: int) -> tuple[float, float, float]:
    """Return a share and Wilson's 95 % interval; NaN of none.

    Examples
    --------
    >>> [round(end, 3) for end in wilson(8, 10)]
    [0.8, 0.49, 0.943]
    """
    if number == 0:
        return math.nan, math.nan, math.nan
    share, extra = good / number, _Z**2 / number
    middle = (share + extra / 2) / (1 + extra)
    radius = _Z * math.sqrt(share * (1 - share) / number + extra / number / 4) / (1 + extra)
    return share, max(0.0, middle - radius), min(1.0, middle + radius)
