r"""Could anyone have steered the draws? What staff entered beside them, and by how much it moved whose chances.

A draw follows its chances, and these follow from who is there, the budget and the settings, all of which people enter.
So each of these is looked at by itself.

**Absences.** Whoever is withdrawn or away raises the chances of the others. An absence is looked at if the person
came back within `BACK` rounds, or may still. Each round with such absences is planned again as if all of them had
stayed. With :math:`d_{ri}` what person i was due in round r, :math:`d'_{ri}` what they are due in that plan, and
:math:`A_r` the absent, who were due nothing,

.. math:: G_i = \sum_r (d_{ri} - d'_{ri}), \quad M_r = \sum_{i \in A_r} d'_{ri}

are the gain of a person and what was moved in a round. Due exposures are compared, not chances: under a policy with
slack these lead or lag what is due, and an account makes up for it, so only what is due lasts; under others both are
the same. Both plans give out the same budget, so what the absent lose is what the others gain. What a user moved is
the sum of :math:`d'_{ri}` over the absences that they entered, so what users moved sums to all that was moved.

**Choice.** If absences have nothing to do with chances, those whose absence begins in a round are a random sample of
all who could have been drawn, and the sum of the chances that they have in the plan with them differs from its mean by
:math:`e_r`, of either sign. Whoever takes out those with large chances makes it positive, week after week, which shows
in :math:`\sum_r e_r / \sqrt{\sum_r e_r^2}`: a self-normalised sum, since what is entered together, such as a whole
ward, is one choice and not many.

**Answers.** Nothing to explain; something needs an explanation; or draws were not left to chance, since absences left
no more people than were drawn. The thresholds are what honest years hardly ever reach: ``benchmarks/steering.py`` plays
them, and `docs/programme.md` has the figures.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from meritfair.core.arrays import BoolArray, FloatArray, IntArray
from meritfair.programme.columns import Columns
from meritfair.programme.ledger.entries import Entry
from meritfair.programme.ledger.lottery import ONE
from meritfair.programme.ledger.rowtable import RowTable
from meritfair.programme.planning import PlannedRound, plan_round, unknown_states
from meritfair.programme.records import Records
from meritfair.programme.settings import Settings
from meritfair.programme.state import State
from meritfair.programme.work import Work

NOTHING, EXPLAIN, NOT_CHANCE = "nothing", "explain", "not-chance"

BACK = 8  # rounds within which someone who was taken out is back
ROUND_MOVED, ROUND_DRAWS = 0.75, 2.0  # part of the budget of one round, and draws, that absences move
EMPTIED = 3  # rounds with as many people as are drawn, where there were twice as many with those absent
GAINED, GAINED_PART = 1.0, 0.25  # draws that someone gained, and as a part of all that they were given
LOST, LOST_PART = 1.5, 0.5  # draws that someone lost, and as a part of all that they would have been given
SCORE, RATIO, EXCESS = 3.5, 1.75, 2.0  # of those taken out: how odd and how much larger their chances are, and in draws
OWN_BUDGETS, OWN_PART = 3, 0.125  # rounds with a budget of their own, and as a part of all rounds
OVERRIDES, OVERRIDES_PART = 5, 0.2  # reached without being drawn, and as a part of all who were reached
PERSON_PART = 0.5  # the same for one person
_LARGE, _ROUND_PART = 20_000, 0.05  # with so many people, rounds in which fewer are absent are not planned again
_MOST_PEOPLE = 10
_MOST_LISTED = 50
_SHOWN = 0.005  # draws


@dataclass(frozen=True)
class Finding:
    """Something that needs an explanation, or that took a draw away from chance.

    Attributes
    ----------
    kind : str
        ``emptied``, ``collapsed``, ``moved``, ``gained``, ``lost``, ``chosen``, ``budgets``, ``flipped``, ``overrides``
        or ``favoured``.
    rounds : tuple of int
        In which it shows.
    time : str
        Of the first of them.
    by : tuple of str
        Who entered it.
    reasons : tuple of str
        That were given, each once.
    people : tuple of int
        Whom it is about, by number in the ledger.
    value, of : float
        How much, and of how much; what these are depends on the kind.
    """

    kind: str
    rounds: tuple[int, ...]
    time: str
    by: tuple[str, ...]
    reasons: tuple[str, ...] = ()
    people: tuple[int, ...] = ()
    value: float = 0.0
    of: float = 0.0

    @property
    def answer(self) -> str:
        """What it means for the draws."""
        return NOT_CHANCE if self.kind == "emptied" else EXPLAIN


@dataclass(frozen=True)
class UserMoves:
    """What one user moved by absences: how many they entered, of how many people, how many draws that moved, why."""

    by: str
    absences: int
    people: int
    moved: float
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class PersonGain:
    """By how many draws more someone was due by absences, their own among them; and all that they were given."""

    number: int
    gain: float
    given: float


@dataclass(frozen=True)
class OwnBudget:
    """A round whose budget was not that of the settings."""

    round: int
    time: str
    by: str
    reason: str
    asked: tuple[int, ...]
    settings: tuple[int, ...]


@dataclass(frozen=True)
class Flip:
    """Settings that were changed and changed back, with draws in between."""

    first: int
    last: int
    time: str
    by: tuple[str, ...]
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class Choice:
    """Whether those who were taken out had larger chances than the others, at the beginning of their absence.

    Attributes
    ----------
    absences : int
    chances, expected : float
        The sum of their chances, and its mean if absences have nothing to do with chances.
    squares : float
        The sum of the squared differences of both in each round.
    """

    absences: int = 0
    chances: float = 0.0
    expected: float = 0.0
    squares: float = 0.0

    def __add__(self, other: Choice) -> Choice:
        return Choice(*(mine + yours for mine, yours in zip(vars(self).values(), vars(other).values(), strict=True)))

    @property
    def excess(self) -> float:
        """By how many draws their chances were larger than expected."""
        return self.chances - self.expected

    @property
    def ratio(self) -> float:
        """How many times as large as expected their chances were."""
        return self.chances / self.expected if self.expected > 0 else 1.0

    @property
    def score(self) -> float:
        """The excess as a self-normalised sum: at most the square root of the number of rounds."""
        return self.excess / math.sqrt(self.squares) if self.squares > 0 else 0.0

    @property
    def odd(self) -> bool:
        """Whether it is more than chance and habits explain."""
        return self.score >= SCORE and self.ratio >= RATIO and self.excess >= EXCESS


@dataclass(frozen=True)
class Reporters:
    """Who alone has entered all outcomes of somebody.

    Attributes
    ----------
    people : int
        Of whom outcomes were entered.
    alone : dict of str to int
        By user, for how many people nobody else has entered any.
    """

    people: int
    alone: dict[str, int]


@dataclass(frozen=True)
class MovedRound:
    """A round that was planned again: how many were there, and absent; its budget, and how many draws were moved."""

    round: int
    time: str
    present: int
    absent: int
    budget: int
    moved: float


@dataclass(frozen=True, eq=False)
class Steering:
    """Whether anyone could have steered the draws; made by `steering_of`.

    Attributes
    ----------
    findings : tuple of Finding
        What needs an explanation, draws that were not left to chance first.
    rounds : tuple of MovedRound
        Those that were planned again.
    gains, losses : tuple of PersonGain
        The largest gains; and the most that was lost by own absences, as gains below 0.
    users : tuple of UserMoves
        By how much they moved.
    choice : Choice
    budget : int
        All that was to be drawn, in all rounds.
    certain : int
        Draws with a chance of 1, as no more people were left than were to be drawn.
    thin : int
        Rounds with fewer than twice the budget there, whoever was taken out.
    budgets : tuple of OwnBudget
    flips : tuple of Flip
    hasty : int
        Changes of settings on the day of the next draw.
    reporters : Reporters
    """

    findings: tuple[Finding, ...]
    rounds: tuple[MovedRound, ...]
    gains: tuple[PersonGain, ...]
    losses: tuple[PersonGain, ...]
    users: tuple[UserMoves, ...]
    choice: Choice
    budget: int
    certain: int
    thin: int
    budgets: tuple[OwnBudget, ...]
    flips: tuple[Flip, ...]
    hasty: int
    reporters: Reporters

    @property
    def answer(self) -> str:
        """What came of it: ``nothing``, ``explain`` or ``not-chance``."""
        answers = {each.answer for each in self.findings}
        return NOT_CHANCE if NOT_CHANCE in answers else EXPLAIN if answers else NOTHING

    @property
    def moved(self) -> float:
        """How many draws absences have moved in all."""
        return float(sum(each.moved for each in self.rounds))

    @property
    def emptied(self) -> int:
        """Draws that were not left to chance, as absences left no more people than were drawn."""
        return int(sum(each.value for each in self.findings if each.kind == "emptied"))

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain values."""
        lists = ("rounds", "gains", "losses", "users", "budgets", "flips")
        flat = ("moved", "budget", "emptied", "certain", "thin", "hasty")
        return {
            "answer": self.answer,
            "findings": [asdict(each) | {"answer": each.answer} for each in self.findings],
            **{name: getattr(self, name) for name in flat},
            **{name: [asdict(each) for each in getattr(self, name)] for name in lists},
            "choice": asdict(self.choice) | {name: getattr(self.choice, name) for name in ("ratio", "score")},
            "reporters": asdict(self.reporters),
        }


def steering_of(work: Work, found: Records) -> Steering:
    """Return whether anyone could have steered the draws of a programme, from its records and its ledger."""
    absences = Absences.of(work, found)
    ledger = _Ledger(work, absences)
    with ThreadPoolExecutor(max(1, os.cpu_count() or 1)) as pool:
        for entry, table in work.entries():
            ledger.take(entry, table, pool)
    moves = _moves(ledger, found)
    people = work.state.people
    given = np.bincount(found.number, found.given, people).astype(np.float64)
    facts = _Facts(ledger, found, absences, moves, given)
    kinds = (_emptied(facts), _moved(facts), _gained(facts), _lost(facts), _chosen(facts), _budgets(facts))
    more = (_flipped(facts), _overrides(facts))
    findings = [each for some in (*kinds, *more) for each in some]
    return Steering(
        findings=tuple(sorted(findings, key=lambda each: each.answer != NOT_CHANCE)),
        rounds=tuple(moves.rounds),
        gains=_largest(moves.gain, given),
        losses=tuple(replace(each, gain=-each.gain) for each in _largest(moves.lost, given)),
        users=_users(facts),
        choice=moves.choice,
        budget=int(sum(sum(each) for each in ledger.asked)),
        certain=facts.certain,
        thin=facts.thin,
        budgets=tuple(ledger.budgets),
        flips=tuple(ledger.flips()),
        hasty=ledger.hasty,
        reporters=ledger.reporters(),
    )


# ---- who was absent


@dataclass(frozen=True, eq=False)
class Absences:
    """Absences that ended, or may still: an entry for each in every array.

    Attributes
    ----------
    number, first, last : ndarray of int
        Who, and the first and last round in which they could not be drawn.
    """

    number: IntArray
    first: IntArray
    last: IntArray

    @classmethod
    def of(cls, work: Work, found: Records) -> Absences:
        """Return all absences, those too that last: of people who are away now, but not of those who left.

        Each person has marks on a line: at 2r if they could be drawn in round r, at 2r + 1 if they joined or came back
        after it. An absence is a gap between two marks with a round in it. So someone who is back between two draws and
        gone again at the next has two absences.
        """
        there = found.away == 0
        numbers, marks = [found.number[there]], [2 * found.round[there]]
        round_ = 0
        for entry, _digest in work.heads():
            round_ += entry.kind == "commit"
            if entry.kind in ("enrol", "away"):
                _, table = work.entry(entry.seq)
                assert table is not None
                back = table["number"] if entry.kind == "enrol" else table["number"][table["away"] == 0]
                numbers.append(back.astype(np.int64))
                marks.append(np.full(len(back), 2 * round_ + 1))
        now = np.flatnonzero(work.state.here)
        number, mark = np.concatenate([*numbers, now]), np.concatenate([*marks, np.full(len(now), 2 * round_ + 1)])
        order = np.lexsort((mark, number))
        number, mark = number[order], mark[order]
        first, last = mark[:-1] // 2 + 1, (mark[1:] - 1) // 2
        gap = np.flatnonzero((number[1:] == number[:-1]) & (first <= last))
        return cls(number[gap], first[gap], last[gap])

    @cached_property
    def short(self) -> Absences:
        """Those of at most `BACK` rounds."""
        keep = self.last - self.first < BACK
        return Absences(self.number[keep], self.first[keep], self.last[keep])

    def covering(self, part: IntArray, parts: int, rounds: int) -> IntArray:
        """Return how many there are in each round and part, shape (rounds, parts)."""
        change = np.zeros((rounds + 2, parts), np.int64)
        np.add.at(change, (self.first, part[self.number]), 1)
        np.add.at(change, (self.last + 1, part[self.number]), -1)
        return np.cumsum(change, axis=0)[1 : rounds + 1]

    def by_round(self) -> dict[int, IntArray]:
        """Return the places of those that cover each round, by round."""
        length = self.last - self.first + 1
        place = np.repeat(np.arange(len(length)), length)
        round_ = self.first[place] + np.arange(len(place)) - np.repeat(np.cumsum(length) - length, length)
        order = np.argsort(round_, kind="stable")
        rounds, starts = np.unique(round_[order], return_index=True)
        parts = np.split(place[order], starts[1:]) if len(starts) else []
        return dict(zip(rounds.tolist(), parts, strict=True))


# ---- what the ledger says


@dataclass
class _Ledger:
    """Goes through the entries, and has rounds planned again as if nobody had been absent for a short time."""

    work: Work
    absences: Absences
    state: State = field(default_factory=lambda: State(Columns()))
    times: list[str] = field(default_factory=list)
    asked: list[tuple[int, ...]] = field(default_factory=list)
    budgets: list[OwnBudget] = field(default_factory=list)
    plans: dict[int, Future[PlannedRound]] = field(default_factory=dict)
    changes: list[tuple[int, Entry, str]] = field(default_factory=list)  # first round, entry, settings before
    hasty: int = 0

    def __post_init__(self) -> None:
        short = self.absences.short
        self.absent = {
            round_: short.number[places] for round_, places in short.by_round().items() if self._matters(len(places))
        }
        self.last_plan = max(self.absent, default=0)
        self.entered = np.full(len(self.absences.number), -1)  # by absence, which of `takers` has entered it
        self.takers: list[Entry] = []
        self._first = {
            (int(number), int(first)): place
            for place, (number, first) in enumerate(zip(self.absences.number, self.absences.first, strict=True))
        }
        self._users: dict[str, int] = {}
        self._reporter = np.full(self.work.state.people, -1)
        self._settings: Settings | None = None
        self._waiting: list[str] = []  # days of changes since the last draw

    def _matters(self, absent: int) -> bool:
        people = self.work.state.people
        return absent > 0 and (people <= _LARGE or absent >= _ROUND_PART * people)

    def take(self, entry: Entry, table: RowTable | None, pool: ThreadPoolExecutor) -> None:
        """Take in the next entry."""
        if entry.kind in ("create", "change"):
            self._set(entry)
        elif entry.kind == "commit" and table is not None:
            self._commit(entry, table, pool)
        elif entry.kind in ("away", "withdraw") and table is not None:
            self._taken_out(entry, table)
        elif entry.kind in ("report", "correct") and table is not None:
            self._reported(entry, table)
        if len(self.times) < self.last_plan:
            self.state.apply(entry, table)

    def _set(self, entry: Entry) -> None:
        if self._settings is not None:
            self.changes.append((len(self.times) + 1, entry, str(self._settings.body())))
            self._waiting.append(entry.time[:10])
        body = {} if self._settings is None else self._settings.body()
        self._settings = Settings.from_body({**body, **entry.body})

    def _commit(self, entry: Entry, table: RowTable, pool: ThreadPoolExecutor) -> None:
        assert self._settings is not None
        round_, asked = int(entry.body["round"]), tuple(map(int, entry.body["asked"]))
        if round_ in self.absent:
            states = unknown_states(self.state.people)
            states[table["number"]] = table["state"]
            stayed = _with_people(self.state, self.absent[round_])
            self.plans[round_] = pool.submit(plan_round, stayed, entry.programme, states, asked)
        own = tuple(part.budget_in(round_) for part in self._settings.parts)
        if own != asked:
            self.budgets.append(OwnBudget(round_, entry.time, entry.by, entry.body["reason"], asked, own))
        self.times.append(entry.time)
        self.asked.append(asked)
        self.hasty += sum(day == entry.time[:10] for day in self._waiting)
        self._waiting.clear()

    def _taken_out(self, entry: Entry, table: RowTable) -> None:
        numbers = table["number"] if entry.kind == "withdraw" else table["number"][table["away"] == 1]
        self.takers.append(entry)
        for number in numbers.tolist():
            place = self._first.get((number, len(self.times) + 1))
            if place is not None:
                self.entered[place] = len(self.takers) - 1

    def _reported(self, entry: Entry, table: RowTable) -> None:
        user = self._users.setdefault(entry.by, len(self._users))
        numbers = table["number"]
        before = self._reporter[numbers]
        self._reporter[numbers] = np.where((before == -1) | (before == user), user, -2)

    def flips(self) -> Iterable[Flip]:
        """Yield settings that were changed and soon changed back, with draws in between."""
        assert self._settings is not None
        after = [before for _, _, before in self.changes[1:]] + [str(self._settings.body())]
        for k, (first, entry, before) in enumerate(self.changes):
            later = zip(self.changes[k + 1 :], after[k + 1 :], strict=True)
            end, other = next(((end, other) for (end, other, _), now in later if now == before), (0, entry))
            if before != after[k] and 0 < end - first <= BACK:
                reasons = tuple(dict.fromkeys(str(each.body["reason"]) for each in (entry, other)))
                yield Flip(first, end - 1, entry.time, tuple(dict.fromkeys((entry.by, other.by))), reasons)

    def reporters(self) -> Reporters:
        """Return who alone has entered all outcomes of somebody."""
        alone = np.bincount(self._reporter[self._reporter >= 0], minlength=len(self._users))
        known = {name: int(alone[place]) for name, place in self._users.items() if alone[place]}
        return Reporters(int((self._reporter != -1).sum()), dict(Counter(known).most_common()))


def _with_people(state: State, numbers: IntArray) -> State:
    """Return the state as it would be if these people could be drawn."""
    made = state.copy()
    here, away = state.here, state.away
    here[numbers], away[numbers] = True, False
    made.columns.put("here", here)
    made.columns.put("away", away)
    return made


# ---- what absences moved


@dataclass
class _Moves:
    """What absences moved: by person, round, user and absence."""

    gain: FloatArray
    lost: FloatArray
    moved: FloatArray  # by entry that took people out; the last is for absences that none has entered
    rounds: list[MovedRound] = field(default_factory=list)
    choice: Choice = field(default_factory=Choice)
    choices: dict[str, Choice] = field(default_factory=dict)


def _moves(ledger: _Ledger, found: Records) -> _Moves:
    """Compare each round that was planned again with the round as it was."""
    people, part = ledger.work.state.people, ledger.work.state.part
    moves = _Moves(np.zeros(people), np.zeros(people), np.zeros(len(ledger.takers) + 1))
    short, entered = ledger.absences.short, ledger.entered[ledger.absences.last - ledger.absences.first < BACK]
    users = np.array([each.by for each in ledger.takers] + [""], dtype=object)
    starts = np.searchsorted(found.round, np.arange(1, len(ledger.times) + 2))
    places = short.by_round()
    for round_, future in ledger.plans.items():
        rows = slice(starts[round_ - 1], starts[round_])
        planned = future.result()
        due, chance = np.zeros((2, people))
        due[planned.number], chance[planned.number] = planned.due / ONE, planned.chance / ONE
        here = places[round_]
        absent = short.number[here]
        moves.gain[found.number[rows]] += found.due[rows] / ONE
        moves.gain -= due
        moves.lost[absent] += due[absent]
        np.add.at(moves.moved, entered[here], due[absent])
        there = int((found.away[rows] == 0).sum())
        size = there, len(absent), int(sum(ledger.asked[round_ - 1])), float(due[absent].sum())
        moves.rounds.append(MovedRound(round_, ledger.times[round_ - 1], *size))
        new = here[short.first[here] == round_]
        for by in {"", *users[entered[new]]}:
            own = new[users[entered[new]] == by] if by else new
            choice = _choice(short.number[own], planned.number, chance, part)
            if by:
                moves.choices[by] = moves.choices.get(by, Choice()) + choice
            else:
                moves.choice += choice
    return moves


def _choice(taken: IntArray, roster: IntArray, chance: FloatArray, part: IntArray) -> Choice:
    """Return how large the chances of those taken out were, compared with a random sample of their part."""
    found = Choice()
    for place in np.unique(part[taken]):
        mine, all_ = chance[taken[part[taken] == place]], chance[roster[part[roster] == place]]
        chances, expected = float(mine.sum()), len(mine) * float(all_.mean())
        found += Choice(len(mine), chances, expected, (chances - expected) ** 2)
    return found


# ---- what needs an explanation


@dataclass(frozen=True, eq=False)
class _Facts:
    """All that findings are made of."""

    ledger: _Ledger
    found: Records
    absences: Absences
    moves: _Moves
    given: FloatArray

    @cached_property
    def sizes(self) -> tuple[IntArray, IntArray, IntArray]:
        """How many were there, how many were absent and came back, and the budget: by round and part."""
        found, rounds = self.found, len(self.ledger.times)
        parts = len(self.ledger.work.state.settings.parts)
        there = found.away == 0
        count = np.bincount((found.round[there] - 1) * parts + found.part[there], minlength=rounds * parts)
        absent = self.absences.covering(self.ledger.work.state.part, parts, rounds)
        asked = np.array(self.ledger.asked).reshape(rounds, parts)
        return count.reshape(rounds, parts), absent, asked

    @cached_property
    def full(self) -> BoolArray:
        """By round and part, whether no more people were there than were to be drawn."""
        present, _, asked = self.sizes
        return (present <= asked) & (present > 0) & (asked > 0)

    @cached_property
    def emptied(self) -> BoolArray:
        """By round and part, whether that was so because of absences, where there would have been twice as many."""
        present, absent, asked = self.sizes
        found = self.full & (present + absent >= 2 * asked)
        if found.any(axis=1).sum() < EMPTIED:  # a few are what a closed ward does where few are enrolled
            found = found & (absent >= ROUND_MOVED * (present + absent))
        return np.asarray(found)

    @property
    def certain(self) -> int:
        """Draws in such rounds."""
        return int(self.sizes[0][self.full].sum())

    @property
    def thin(self) -> int:
        """Rounds with fewer than twice the budget there."""
        present, _, asked = self.sizes
        return int((present < 2 * asked).any(axis=1).sum())

    def entries_of(self, rounds: Sequence[int], people: IntArray | None = None) -> list[Entry]:
        """Return the entries that began absences which last in some of these rounds; of all people, or of some."""
        absences, wanted = self.absences, np.unique(rounds)
        lasts = np.searchsorted(wanted, absences.first) < np.searchsorted(wanted, absences.last, side="right")
        places = np.flatnonzero(lasts if people is None else lasts & np.isin(absences.number, people))
        return [self.ledger.takers[k] for k in np.unique(self.ledger.entered[places]) if k >= 0]

    def finding(self, kind: str, rounds: Sequence[int], entries: Sequence[Entry], **more: Any) -> Finding:
        """Return a finding with who entered what it is about, and why."""
        by, reasons = _by(entries), _reasons(entries)
        time = entries[0].time if entries else self.ledger.times[rounds[0] - 1]
        return Finding(kind, tuple(rounds), time, by, reasons, **more)


def _by(entries: Iterable[Entry]) -> tuple[str, ...]:
    return tuple(name for name, _ in Counter(each.by for each in entries).most_common())


def _reasons(entries: Iterable[Entry]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(text for each in entries if (text := str(each.body.get("reason", "")))))


def _emptied(facts: _Facts) -> list[Finding]:
    """Return rounds in which absences left no more people than were drawn."""
    present, absent, asked = facts.sizes
    before = np.array([present[max(0, k - BACK) : k + 1].max(axis=0) for k in range(len(present))])
    fell = facts.full & (present + absent < 2 * asked) & (before >= 2 * asked)
    made = []
    for kind, where in (("emptied", facts.emptied), ("collapsed", fell)):
        rounds = (np.flatnonzero(where.any(axis=1)) + 1).tolist()
        if rounds:
            drawn = int(present[where].sum())
            entries = facts.entries_of(rounds) if kind == "emptied" else _withdrawals(facts, rounds)
            made.append(facts.finding(kind, rounds, entries, value=float(drawn), of=float(facts.found.drawn.sum())))
    return made


def _withdrawals(facts: _Facts, rounds: Sequence[int]) -> list[Entry]:
    """Return the entries that took people out in the rounds before the first of these."""
    times = facts.ledger.times
    since = times[max(0, rounds[0] - 1 - BACK)]
    return [each for each in facts.ledger.takers if since <= each.time <= times[rounds[-1] - 1]]


def _moved(facts: _Facts) -> list[Finding]:
    """Return rounds in which absences moved much of the budget."""
    emptied = set((np.flatnonzero(facts.emptied.any(axis=1)) + 1).tolist())
    large = [
        each
        for each in facts.moves.rounds
        if each.moved >= max(ROUND_MOVED * each.budget, ROUND_DRAWS) and each.round not in emptied
    ]
    if not large:
        return []
    rounds = [each.round for each in large]
    value, of = sum(each.moved for each in large), float(sum(each.budget for each in large))
    return [facts.finding("moved", rounds, facts.entries_of(rounds), value=value, of=of)]


def _gained(facts: _Facts) -> list[Finding]:
    """Return people whose chances the absences of others raised, again and again."""
    gain, given = facts.moves.gain, facts.given
    people = np.flatnonzero((gain >= GAINED) & (gain >= GAINED_PART * given))
    if not len(people):
        return []
    people = people[np.argsort(-gain[people], kind="stable")]
    rounds = [each.round for each in facts.moves.rounds]
    sums = {"value": float(gain[people].sum()), "of": float(given[people].sum())}
    return [facts.finding("gained", rounds, facts.entries_of(rounds), people=_numbers(people), **sums)]


def _lost(facts: _Facts) -> list[Finding]:
    """Return people who lost most of their chances, as they were taken out again and again."""
    lost, given = facts.moves.lost, facts.given
    people = np.flatnonzero((lost >= LOST) & (lost >= LOST_PART * (lost + given)))
    if not len(people):
        return []
    people = people[np.argsort(-lost[people], kind="stable")]
    short = facts.absences.short
    mine = np.isin(short.number, people)
    rounds = np.unique(short.first[mine]).tolist()
    sums = {"value": float(lost[people].sum()), "of": float((lost + given)[people].sum())}
    return [facts.finding("lost", rounds, facts.entries_of(rounds, people), people=_numbers(people), **sums)]


def _chosen(facts: _Facts) -> list[Finding]:
    """Return users who took out those with large chances; all together, if no single one stands out."""
    odd = {by: each for by, each in facts.moves.choices.items() if each.odd}
    if not odd and facts.moves.choice.odd:
        odd = {"": facts.moves.choice}
    made = []
    for by, choice in odd.items():
        rounds = [each.round for each in facts.moves.rounds]
        entries = [each for each in facts.entries_of(rounds) if by in ("", each.by)]
        made.append(facts.finding("chosen", rounds, entries, value=choice.chances, of=choice.expected))
    return made


def _budgets(facts: _Facts) -> list[Finding]:
    """Return many rounds with a budget of their own."""
    own, rounds = facts.ledger.budgets, len(facts.ledger.times)
    if len(own) <= max(OWN_BUDGETS, OWN_PART * rounds):
        return []
    by = tuple(name for name, _ in Counter(each.by for each in own).most_common())
    reasons = tuple(dict.fromkeys(each.reason for each in own))
    listed = tuple(each.round for each in own)
    return [Finding("budgets", listed, own[0].time, by, reasons, value=float(len(own)), of=float(rounds))]


def _flipped(facts: _Facts) -> list[Finding]:
    """Return settings that were changed and changed back."""
    flips = list(facts.ledger.flips())
    if not flips:
        return []
    rounds = sorted({round_ for each in flips for round_ in range(each.first, each.last + 1)})
    by, reasons = (tuple(dict.fromkeys(text for each in flips for text in getattr(each, k))) for k in ("by", "reasons"))
    return [Finding("flipped", tuple(rounds), flips[0].time, by, reasons, value=float(len(flips)))]


def _overrides(facts: _Facts) -> list[Finding]:
    """Return many who were reached without being drawn, or one person again and again."""
    found, people = facts.found, facts.ledger.work.state.people
    rows = (found.drawn == 0) & (found.action == 1)
    number, reached = int(rows.sum()), int((found.action == 1).sum())
    rounds = np.unique(found.round[rows]).tolist()
    made = []
    if number >= OVERRIDES and number > OVERRIDES_PART * reached:
        made.append(facts.finding("overrides", rounds, [], value=float(number), of=float(reached)))
    each = np.bincount(found.number[rows], minlength=people)
    all_ = np.bincount(found.number[found.action == 1], minlength=people)
    favoured = np.flatnonzero((each >= OVERRIDES) & (each > PERSON_PART * all_))
    if len(favoured):
        mine = np.unique(found.round[rows & np.isin(found.number, favoured)]).tolist()
        sums = {"value": float(each[favoured].sum()), "of": float(all_[favoured].sum())}
        made.append(facts.finding("favoured", mine, [], people=_numbers(favoured), **sums))
    return made


def _numbers(people: IntArray) -> tuple[int, ...]:
    return tuple(people[:_MOST_LISTED].tolist())


def _largest(values: FloatArray, given: FloatArray) -> tuple[PersonGain, ...]:
    """Return the people with the largest values, as far as these can be told from 0."""
    order = np.argsort(-values, kind="stable")[:_MOST_PEOPLE]
    return tuple(PersonGain(int(k), float(values[k]), float(given[k])) for k in order if values[k] >= _SHOWN)


def _users(facts: _Facts) -> tuple[UserMoves, ...]:
    """Return what users moved by absences, those first who moved most."""
    ledger, short = facts.ledger, facts.absences.last - facts.absences.first < BACK
    entered, number = ledger.entered[short], facts.absences.number[short]
    made = []
    for by in {each.by for each in ledger.takers}:
        own = [k for k, each in enumerate(ledger.takers) if each.by == by]
        mine = np.isin(entered, own)
        if mine.any():
            reasons = _reasons(ledger.takers[k] for k in own)
            sums = int(mine.sum()), len(np.unique(number[mine])), float(facts.moves.moved[own].sum())
            made.append(UserMoves(by, *sums, reasons))
    return tuple(sorted(made, key=lambda each: (-each.moved, each.by)))


def statistics(found: Steering) -> Mapping[str, float]:
    """Return the numbers that thresholds are set on, for the benchmark."""
    gains = [each.gain for each in found.gains]
    parts = [each.gain / each.given for each in found.gains if each.given and each.gain >= GAINED]
    lost = [each.gain / (each.gain - each.given) for each in found.losses if -each.gain >= LOST]
    rounds = [each.moved / each.budget for each in found.rounds if each.budget and each.moved >= ROUND_DRAWS]
    return {
        "moved": found.moved / max(1, found.budget),
        "moved in a round": max(rounds, default=0.0),
        "gain": max(gains, default=0.0),
        "gain as a part": max(parts, default=0.0),
        "loss as a part": max(lost, default=0.0),
        "score": found.choice.score,
        "ratio": found.choice.ratio,
        "own budgets": float(len(found.budgets)),
    }
