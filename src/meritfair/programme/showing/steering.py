r"""Could anyone have steered the draws? What staff entered beside them, and by how much it moved whose chances.

A draw follows its chances, and these follow from who is there, the budget and the settings, all of which people enter.
So each of these is looked at by itself.

**Absences.** Whoever is withdrawn or away raises the chances of the others. An absence is looked at if the person
came back, however late, or is away and may still. Each round with such absences is planned again as if all of them had
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

**Rounds.** Whoever may draw as often as they like can draw until a favourite comes up, and call only then. So rounds
are counted that came soon after the one before, compared with the usual time between draws: the median of the time
between two draws, weighted by its length, which many short ones hardly move. And rounds are counted after which nobody
of those drawn was reported as reached, nor how they were.

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
from datetime import timedelta
from functools import cached_property
from typing import Any

import numpy as np

from meritfair.core.arrays import BoolArray, FloatArray, IntArray
from meritfair.programme.columns import Columns
from meritfair.programme.ledger.entries import Entry, parse_time
from meritfair.programme.ledger.lottery import ONE
from meritfair.programme.ledger.rowtable import RowTable
from meritfair.programme.planning import PlannedRound, plan_round, unknown_states
from meritfair.programme.records import Records
from meritfair.programme.settings import Settings
from meritfair.programme.showing.happenings import Happenings
from meritfair.programme.state import State
from meritfair.programme.work import Work

NOTHING, EXPLAIN, NOT_CHANCE = "nothing", "explain", "not-chance"

SOON = 8  # rounds within which settings are changed back, and many leave
ROUND_MOVED, ROUND_DRAWS = 0.8, 2.0  # part of the budget of one round, and draws, that absences move
ALL_MOVED = 0.25  # part of the budget of all rounds, after `SOON` of them
EMPTIED, EMPTIED_PART = 3, 0.75  # rounds with no more people than are drawn, of twice as many; absent in a single one
GAINED, GAINED_PART = 1.0, 0.3  # draws that someone gained, and as a part of all that they were given
LOST, LOST_PART, LOST_TIMES = 1.5, 0.6, 3  # draws that someone lost, as a part of all theirs, by how many absences
SCORE, RATIO, EXCESS = 3.5, 1.75, 2.0  # of those taken out: how odd and how much larger their chances are, and in draws
OWN_BUDGETS, OWN_PART = 3, 0.15  # rounds with a budget of their own, and as a part of all rounds
FELL, FELL_PART = 4, 0.5  # people who left for good within `SOON` rounds, and as a part of all
BRIEF, BRIEF_PART, BRIEF_ROUNDS = 4, 0.25, 2  # people who left for good after so few rounds, and as a part of all
UNUSED, UNUSED_PART, NEWEST = 3, 0.125, 2  # rounds that were not carried out, as a part of all but the newest
UNLIKELY = 0.01  # probability that nobody who is drawn can be reached
HURRIED, HURRIED_PART = 3, 0.125  # rounds that came soon after the one before, and as a part of all rounds
HASTE, RHYTHM = 0.1, 12 * 3600.0  # part of the usual time between draws; seconds that this has at least
REGROUPED, REGROUPED_PART = 3, 0.1  # people whose group was changed, and as a part of all
OVERRIDES, OVERRIDES_PART = 5, 0.15  # reached without being drawn, and as a part of all who were reached
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
        ``emptied``, ``left``, ``brief``, ``moved``, ``gained``, ``lost``, ``chosen``, ``budgets``, ``flipped``,
        ``hurried``, ``unused``, ``regrouped``, ``overrides`` or ``favoured``.
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
    """Who has entered outcomes, and states for draws.

    Attributes
    ----------
    people : int
        Of whom any were entered.
    alone : dict of str to int
        By user, for how many people nobody else has entered any.
    told : dict of str to int
        By user, how many states they told for draws.
    """

    people: int
    alone: dict[str, int]
    told: dict[str, int]


@dataclass(frozen=True)
class Turnover:
    """Who was in the draws, and who came and went for good.

    Attributes
    ----------
    fewest, most : int
        People who could be drawn, in the round with the fewest and in that with the most.
    late : int
        People who joined after the first draw.
    left : int
        People who left and have not come back.
    brief : int
        Those of them who were in `BRIEF_ROUNDS` rounds at most.
    regrouped : int
        People whose group was changed after they had been in a draw.
    """

    fewest: int
    most: int
    late: int
    left: int
    brief: int
    regrouped: int


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
        Changes of settings within a day before the next draw.
    hurried, unused : tuple of int
        Rounds that came soon after the one before; and those after which nobody was reported as reached.
    turnover : Turnover
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
    hurried: tuple[int, ...]
    unused: tuple[int, ...]
    turnover: Turnover
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
        flat = ("moved", "budget", "emptied", "certain", "thin", "hasty", "hurried", "unused")
        return {
            "answer": self.answer,
            "findings": [asdict(each) | {"answer": each.answer} for each in self.findings],
            **{name: getattr(self, name) for name in flat},
            **{name: [asdict(each) for each in getattr(self, name)] for name in lists},
            "choice": asdict(self.choice) | {name: getattr(self.choice, name) for name in ("ratio", "score")},
            "turnover": asdict(self.turnover),
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
    absent = (_emptied, _left, _brief, _moved, _gained, _lost, _chosen)
    others = (_hurried, _unused, _budgets, _flipped, _regrouped, _overrides)
    findings = [each for look in (*absent, *others) for each in look(facts)]
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
        hurried=facts.hurried,
        unused=facts.unused,
        turnover=facts.turnover,
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
    """Goes through the entries, and has rounds planned again as if nobody had been absent for a time."""

    work: Work
    absences: Absences
    state: State = field(default_factory=lambda: State(Columns()))
    commits: list[Entry] = field(default_factory=list)
    times: list[str] = field(default_factory=list)
    asked: list[tuple[int, ...]] = field(default_factory=list)
    budgets: list[OwnBudget] = field(default_factory=list)
    plans: dict[int, Future[PlannedRound]] = field(default_factory=dict)
    changes: list[tuple[int, Entry, str]] = field(default_factory=list)  # first round, entry, settings before
    hasty: int = 0

    def __post_init__(self) -> None:
        absences = self.absences
        self.absent = {
            round_: absences.number[places]
            for round_, places in absences.by_round().items()
            if self._matters(len(places))
        }
        self.last_plan = max(self.absent, default=0)
        self.entered = np.full(len(self.absences.number), -1)  # by absence, which of `takers` has entered it
        self.takers: list[Entry] = []
        self._first = {
            (int(number), int(first)): place
            for place, (number, first) in enumerate(zip(absences.number, absences.first, strict=True))
        }
        self._users: dict[str, int] = {}
        people = self.work.state.people
        self._reporter = np.full(people, -1)
        self._told = Counter[str]()
        self.joined = np.full(people, -1)  # after so many rounds
        self.regrouped = np.zeros(people, np.bool_)
        self.regrouping: list[tuple[int, Entry]] = []  # the next round, and the entry
        self._group = np.full(people, "", dtype=object)
        self._settings: Settings | None = None
        self._waiting: list[str] = []  # times of changes since the last draw

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
            self._reported(entry.by, table["number"])
        elif entry.kind == "enrol" and table is not None:
            self._enrolled(entry, table)
        if len(self.times) < self.last_plan:
            self.state.apply(entry, table)

    def _set(self, entry: Entry) -> None:
        if self._settings is not None:
            self.changes.append((len(self.times) + 1, entry, str(self._settings.body())))
            self._waiting.append(entry.time)
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
        self.commits.append(entry)
        self.times.append(entry.time)
        self.asked.append(asked)
        self.hasty += sum(parse_time(entry.time) - parse_time(time) < timedelta(days=1) for time in self._waiting)
        self._waiting.clear()
        told = table["number"][table["state"] >= 0]
        if len(told):
            self._told[entry.by] += len(told)
            self._reported(entry.by, told)

    def _taken_out(self, entry: Entry, table: RowTable) -> None:
        numbers = table["number"] if entry.kind == "withdraw" else table["number"][table["away"] == 1]
        self.takers.append(entry)
        for number in numbers.tolist():
            place = self._first.get((number, len(self.times) + 1))
            if place is not None:
                self.entered[place] = len(self.takers) - 1

    def _enrolled(self, entry: Entry, table: RowTable) -> None:
        numbers = table["number"]
        known = self.joined[numbers] >= 0
        self.joined[numbers[~known]] = len(self.times)
        levels = entry.body["levels"].get("group")
        if levels is not None:
            group = np.array(levels, dtype=object)[table["group"]]
            changed = known & (self.joined[numbers] < len(self.times)) & (self._group[numbers] != group)
            if changed.any():
                self.regrouped[numbers[changed]] = True
                self.regrouping.append((min(len(self.times) + 1, self.work.state.summary.round), entry))
            self._group[numbers] = group

    def _reported(self, by: str, numbers: IntArray) -> None:
        user = self._users.setdefault(by, len(self._users))
        before = self._reporter[numbers]
        self._reporter[numbers] = np.where((before == -1) | (before == user), user, -2)

    def flips(self) -> Iterable[Flip]:
        """Yield settings that were changed and soon changed back, with draws in between."""
        assert self._settings is not None
        after = [before for _, _, before in self.changes[1:]] + [str(self._settings.body())]
        for k, (first, entry, before) in enumerate(self.changes):
            later = zip(self.changes[k + 1 :], after[k + 1 :], strict=True)
            end, other = next(((end, other) for (end, other, _), now in later if now == before), (0, entry))
            if before != after[k] and 0 < end - first <= SOON:
                reasons = tuple(dict.fromkeys(str(each.body["reason"]) for each in (entry, other)))
                yield Flip(first, end - 1, entry.time, tuple(dict.fromkeys((entry.by, other.by))), reasons)

    def reporters(self) -> Reporters:
        """Return who has entered outcomes and states, and who alone has entered all of them of somebody."""
        alone = np.bincount(self._reporter[self._reporter >= 0], minlength=len(self._users))
        known = {name: int(alone[place]) for name, place in self._users.items() if alone[place]}
        told = dict(self._told.most_common())
        return Reporters(int((self._reporter != -1).sum()), dict(Counter(known).most_common()), told)


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
    absences, entered = ledger.absences, ledger.entered
    users = np.array([each.by for each in ledger.takers] + [""], dtype=object)
    starts = np.searchsorted(found.round, np.arange(1, len(ledger.times) + 2))
    places = absences.by_round()
    for round_, future in ledger.plans.items():
        rows = slice(starts[round_ - 1], starts[round_])
        planned = future.result()
        due, chance = np.zeros((2, people))
        due[planned.number], chance[planned.number] = planned.due / ONE, planned.chance / ONE
        here = places[round_]
        absent = absences.number[here]
        moves.gain[found.number[rows]] += found.due[rows] / ONE
        moves.gain -= due
        moves.lost[absent] += due[absent]
        np.add.at(moves.moved, entered[here], due[absent])
        there = int((found.away[rows] == 0).sum())
        size = there, len(absent), int(sum(ledger.asked[round_ - 1])), float(due[absent].sum())
        moves.rounds.append(MovedRound(round_, ledger.times[round_ - 1], *size))
        new = here[absences.first[here] == round_]
        for by in {"", *users[entered[new]]}:
            own = new[users[entered[new]] == by] if by else new
            choice = _choice(absences.number[own], planned.number, chance, part)
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
            found = found & (absent >= EMPTIED_PART * (present + absent))
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

    @cached_property
    def hurried(self) -> tuple[int, ...]:
        """Rounds that came soon after the one before, compared with the usual time between draws."""
        waits = np.diff([parse_time(time).timestamp() for time in self.ledger.times])
        order = np.sort(waits)
        usual = order[np.searchsorted(np.cumsum(order), order.sum() / 2)] if len(waits) else 0.0
        if usual < RHYTHM:
            return ()
        return tuple((np.flatnonzero(waits < HASTE * usual) + 2).tolist())

    @cached_property
    def unused(self) -> tuple[int, ...]:
        """Rounds, but the newest, after which nobody of those drawn was reported as reached, nor how they were."""
        found, rounds = self.found, len(self.ledger.times)
        mine = (found.drawn == 1) & (found.round <= rounds - NEWEST)
        drawn, reached, known, seen = (
            np.bincount(found.round[mine & rows], minlength=rounds + 1)
            for rows in (True, found.action == 1, found.action >= 0, (found.action < 0) & (found.after >= 0))
        )
        some = (reached > 0) | (seen > 0)
        rate = reached[some].sum() / max(1, known[some].sum())
        unlikely = (known == 0) | ((1 - rate) ** known < UNLIKELY)
        return tuple(np.flatnonzero((drawn > 0) & ~some & unlikely).tolist())

    @cached_property
    def brief(self) -> BoolArray:
        """By person, whether they left for good, after few rounds or none."""
        state, found = self.ledger.work.state, self.found
        rounds = np.bincount(found.number[found.away == 0], minlength=state.people)
        return ~state.here & (rounds <= BRIEF_ROUNDS)

    @cached_property
    def turnover(self) -> Turnover:
        """Who was in the draws, and who came and went."""
        ledger, there = self.ledger, self.sizes[0].sum(axis=1)
        late, left = int((ledger.joined > 0).sum()), int((~ledger.work.state.here).sum())
        brief, regrouped = int(self.brief.sum()), int(ledger.regrouped.sum())
        return Turnover(int(there.min()), int(there.max()), late, left, brief, regrouped)

    @property
    def withdrawals(self) -> list[Entry]:
        """The entries that let people leave."""
        return [each for each in self.ledger.takers if each.kind == "withdraw"]

    @cached_property
    def overrides(self) -> dict[tuple[int, int], tuple[str, int, str]]:
        """By round and person who has reported an override, in which entry, and why; empty if no reason is kept."""
        work = self.ledger.work
        notes = {(seq, number): text.strip() for seq, number, text in work.session.notes()}
        found = Happenings.of(work).overrides.items()
        return {(round_, number): (by, seq, notes.get((seq, number), "")) for (round_, number), (by, seq) in found}

    def draws_of(self, rounds: Sequence[int]) -> list[Entry]:
        """Return the entries that began these rounds."""
        return [self.ledger.commits[round_ - 1] for round_ in rounds]

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
    rounds = (np.flatnonzero(facts.emptied.any(axis=1)) + 1).tolist()
    if not rounds:
        return []
    drawn, all_ = float(facts.sizes[0][facts.emptied].sum()), float(facts.found.drawn.sum())
    return [facts.finding("emptied", rounds, facts.entries_of(rounds), value=drawn, of=all_)]


def _left(facts: _Facts) -> list[Finding]:
    """Return rounds soon before which many left for good."""
    present, absent, asked = facts.sizes
    people = present + absent
    before = np.array([people[max(0, k - SOON) : k + 1].max(axis=0) for k in range(len(people))])
    fell = (before - people >= FELL) & (before - people >= FELL_PART * before) & (before >= 2 * asked) & (asked > 0)
    if not fell.any():
        return []
    rounds = (np.flatnonzero(fell.any(axis=1)) + 1).tolist()
    place = np.unravel_index(np.where(fell, before - people, 0).argmax(), fell.shape)
    times = facts.ledger.times
    since = times[max(0, rounds[0] - 1 - SOON)]
    entries = [each for each in facts.withdrawals if since <= each.time <= times[rounds[-1] - 1]]
    sums = {"value": float((before - people)[place]), "of": float(before[place])}
    return [facts.finding("left", rounds, entries, **sums)]


def _brief(facts: _Facts) -> list[Finding]:
    """Return many people who joined, and left for good after few rounds or none."""
    number, of = facts.turnover.brief, facts.ledger.work.state.people
    if number < max(BRIEF, BRIEF_PART * of):
        return []
    last = len(facts.ledger.times)
    rounds = sorted({min(last, int(each) + 1) for each in facts.ledger.joined[facts.brief]})
    people = _numbers(np.flatnonzero(facts.brief))
    return [facts.finding("brief", rounds, facts.withdrawals, people=people, value=float(number), of=float(of))]


def _moved(facts: _Facts) -> list[Finding]:
    """Return rounds in which absences moved much of the budget; all rounds, if they did in all."""
    emptied = set((np.flatnonzero(facts.emptied.any(axis=1)) + 1).tolist())
    large = [
        each
        for each in facts.moves.rounds
        if each.moved >= max(ROUND_MOVED * each.budget, ROUND_DRAWS) and each.round not in emptied
    ]
    all_, moved = sum(map(sum, facts.ledger.asked)), sum(each.moved for each in facts.moves.rounds)
    if not large and moved >= max(ALL_MOVED * all_, ROUND_DRAWS) and len(facts.ledger.times) >= SOON:
        large = [each for each in facts.moves.rounds if each.round not in emptied]
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
    absences = np.bincount(facts.absences.number, minlength=len(lost))
    people = np.flatnonzero((lost >= LOST) & (lost >= LOST_PART * (lost + given)) & (absences >= LOST_TIMES))
    if not len(people):
        return []
    people = people[np.argsort(-lost[people], kind="stable")]
    mine = np.isin(facts.absences.number, people)
    rounds = np.unique(facts.absences.first[mine]).tolist()
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


def _hurried(facts: _Facts) -> list[Finding]:
    """Return many rounds that came soon after the one before."""
    rounds, of = facts.hurried, len(facts.ledger.times)
    if len(rounds) <= max(HURRIED, HURRIED_PART * of):
        return []
    return [facts.finding("hurried", rounds, facts.draws_of(rounds), value=float(len(rounds)), of=float(of))]


def _unused(facts: _Facts) -> list[Finding]:
    """Return many rounds after which nobody of those drawn was reported as reached."""
    rounds, of = facts.unused, len(facts.ledger.times)
    if len(rounds) <= max(UNUSED, UNUSED_PART * (of - NEWEST)):
        return []
    return [facts.finding("unused", rounds, facts.draws_of(rounds), value=float(len(rounds)), of=float(of))]


def _regrouped(facts: _Facts) -> list[Finding]:
    """Return many people whose group was changed after they had been in a draw."""
    number, of = facts.turnover.regrouped, facts.ledger.work.state.people
    if number <= max(REGROUPED, REGROUPED_PART * of):
        return []
    entries, people = facts.ledger.regrouping, np.flatnonzero(facts.ledger.regrouped)
    rounds = sorted({round_ for round_, _ in entries})
    sums = {"people": _numbers(people), "value": float(number), "of": float(of)}
    return [facts.finding("regrouped", rounds, [entry for _, entry in entries], **sums)]


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
    made = []
    if number >= OVERRIDES and number > OVERRIDES_PART * reached:
        made.append(_overridden(facts, "overrides", rows, (), float(reached)))
    each = np.bincount(found.number[rows], minlength=people)
    all_ = np.bincount(found.number[found.action == 1], minlength=people)
    favoured = np.flatnonzero((each >= OVERRIDES) & (each > PERSON_PART * all_))
    if len(favoured):
        mine = rows & np.isin(found.number, favoured)
        made.append(_overridden(facts, "favoured", mine, _numbers(favoured), float(all_[favoured].sum())))
    return made


def _overridden(facts: _Facts, kind: str, rows: BoolArray, people: tuple[int, ...], of: float) -> Finding:
    """Return a finding about some who were reached without being drawn, with who has reported them, and why."""
    found = facts.found
    made = list(zip(found.round[rows].tolist(), found.number[rows].tolist(), strict=True))
    users, entries, reasons = zip(*(facts.overrides[each] for each in made), strict=True)
    return Finding(
        kind,
        rounds=tuple(sorted({round_ for round_, _ in made})),
        time=min(facts.ledger.work.entry(seq)[0].time for seq in set(entries)),
        by=tuple(name for name, _ in Counter(users).most_common()),
        reasons=tuple(text for text, _ in Counter(filter(None, reasons)).most_common()),
        people=people,
        value=float(len(made)),
        of=of,
    )


def _numbers(people: IntArray) -> tuple[int, ...]:
    return tuple(people[:_MOST_LISTED].tolist())


def _largest(values: FloatArray, given: FloatArray) -> tuple[PersonGain, ...]:
    """Return the people with the largest values, as far as these can be told from 0."""
    order = np.argsort(-values, kind="stable")[:_MOST_PEOPLE]
    return tuple(PersonGain(int(k), float(values[k]), float(given[k])) for k in order if values[k] >= _SHOWN)


def _users(facts: _Facts) -> tuple[UserMoves, ...]:
    """Return what users moved by absences, those first who moved most."""
    ledger, absences = facts.ledger, facts.absences
    made = []
    for by in {each.by for each in ledger.takers}:
        own = [k for k, each in enumerate(ledger.takers) if each.by == by]
        mine = np.isin(ledger.entered, own)
        if mine.any():
            reasons = _reasons(ledger.takers[k] for k in own)
            people = len(np.unique(absences.number[mine]))
            made.append(UserMoves(by, int(mine.sum()), people, float(facts.moves.moved[own].sum()), reasons))
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
        "not carried out": float(len(found.unused)),
        "left after few rounds": found.turnover.brief / max(1, found.turnover.most),
    }
