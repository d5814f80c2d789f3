"""Why this person: what the ledger says of one participant, in numbers and in plain words, now or at any time before.

Everything is worked out from what had been entered by then. So the report after round 30 shows what was known before
round 31 was drawn, and what is due in round 31 is what was committed for it, to the last bit.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np

from meritfair.core.checks import check_number
from meritfair.core.errors import InputError
from meritfair.policies.plans import Lottery
from meritfair.programme.ledger.lottery import ONE
from meritfair.programme.showing.estimating import LEVEL, Bound, PartEstimates
from meritfair.programme.showing.person_history import History, PersonRound, Stay
from meritfair.programme.showing.waits import Wait, wait_of
from meritfair.programme.state import CLOSED, State
from meritfair.programme.view import ProgrammeView, Texts, without_name

_NEAR = 1e-6  # draws: what rounding of chances may add up to


@dataclass(frozen=True)
class Enrolment:
    """When someone took part.

    Attributes
    ----------
    stays : tuple of Stay
    here, away : bool
        Whether they take part, and whether they are away.
    away_since, away_by : str
    erased : str
        When they were erased; empty if they were not.
    group, staff, part : str
    features : dict
    """

    stays: tuple[Stay, ...]
    here: bool
    away: bool
    away_since: str
    away_by: str
    erased: str
    group: str
    staff: str
    part: str
    features: dict[str, str]


@dataclass(frozen=True)
class Seen:
    """What was seen of someone in the rounds that they took part in, and in recorded rounds before the first.

    Attributes
    ----------
    rounds, before : int
        How many there are of each.
    good, bad, missing : int
        States after these rounds; those of a round that is not closed yet are missing only when it is.
    reports : int
        Rounds in which it was reported whether they were reached.
    late, corrected : int
        Rounds of which something came late, or was corrected.
    """

    rounds: int
    before: int
    good: int
    bad: int
    missing: int
    reports: int
    late: int
    corrected: int


@dataclass(frozen=True)
class Estimate:
    """What someone is estimated to gain from always being reached, rather than never.

    Attributes
    ----------
    benefit, low, high : float
        As a part of all rounds in the good state, with the interval.
    level : float
    pooled : bool
        Whether others say something of it, too.
    worth : float
        On how many outcomes of their own it rests, with what those around missing states are worth.
    merit : float or None
        None for policies that know no merit.
    mean_merit : float or None
        The mean of everyone who shares the budget.
    """

    benefit: float
    low: float
    high: float
    level: float
    pooled: bool
    worth: float
    merit: float | None
    mean_merit: float | None


@dataclass(frozen=True)
class NextDraw:
    """The round that is open or, if none is, the next one as it would be drawn now.

    Attributes
    ----------
    round : int
    open : bool
        Whether it is drawn, or at least committed, already.
    due, chance : float
    bound : Bound
        What decides how much is due.
    people, budget : int
        How many share the budget, and how many are drawn.
    """

    round: int
    open: bool
    due: float
    chance: float
    bound: Bound
    people: int
    budget: int

    @property
    def equal(self) -> float:
        """What everyone would be due if all were alike."""
        return self.budget / self.people


@dataclass(frozen=True)
class Account:
    """What someone was due in all and given in all, in draws; the balance is what is owed to them.

    Attributes
    ----------
    due, given, balance : float
    slack : float or None
        How far the balance may be from 0, if no rule prevents it; None if the policy keeps no such bound.
    rules : bool
        Whether rules in force can move it farther: a cool-down, or absence during which something is due.
    bounded : bool
        Whether it cannot leave the slack under the settings in force: there are no such rules, and no account that
        shares the budget is beyond it from a time with other settings.
    """

    due: float
    given: float
    balance: float
    slack: float | None
    rules: bool
    bounded: bool

    @property
    def beyond(self) -> bool:
        """Whether it is beyond the slack, in the digits that are shown."""
        return self.slack is not None and round(abs(self.balance), 2) > round(self.slack, 2)


@dataclass(frozen=True)
class PersonReport:
    """All that there is to say of one participant.

    Attributes
    ----------
    programme, id : str
    number : int
        In the ledger.
    round : int
        The last round that is looked at.
    time, head : str
        When the last entry that is looked at was made, and its hash.
    latest : bool
        Whether that is the last entry of all.
    ended : bool
        Whether the programme has ended.
    enrolment : Enrolment
    seen : Seen
    estimate : Estimate
    next : NextDraw or None
        None if they are not in it.
    account : Account
    wait : Wait
    rounds : tuple of PersonRound
    """

    programme: str
    id: str
    number: int
    round: int
    time: str
    head: str
    latest: bool
    ended: bool
    enrolment: Enrolment
    seen: Seen
    estimate: Estimate
    next: NextDraw | None
    account: Account
    wait: Wait
    rounds: tuple[PersonRound, ...]

    @cached_property
    def drawn(self) -> int:
        """How often they were drawn."""
        return sum(each.drawn is True for each in self.rounds)

    @cached_property
    def reached(self) -> int:
        """How often they were reached, drawn or not."""
        return sum(each.action == 1 for each in self.rounds)

    @cached_property
    def overrides(self) -> int:
        """How often they were reached without being drawn."""
        return sum(each.override for each in self.rounds)

    def sentences(self) -> list[str]:
        """Return in plain sentences why they were called in the last round or not, and how they fare in general."""
        from meritfair.programme.showing.person_words import sentences_of

        return sentences_of(self)

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain values."""
        values = asdict(self)
        counts = {"drawn": self.drawn, "reached": self.reached, "overrides": self.overrides}
        rounds = [each.to_dict() for each in self.rounds]
        return {**values, "rounds": rounds, **counts, "sentences": self.sentences()}


def person_of(view: ProgrammeView, id_: str | int, *, round: int | None = None, level: float = LEVEL) -> PersonReport:  # noqa: A002
    """Return all that there is to say of one participant.

    Parameters
    ----------
    view : ProgrammeView
    id_ : str or int
        Their id, or their number in the ledger.
    round : int, optional
        Show what was known after this round, before the next one was drawn; by default what is known now.
    level : float
        Of the interval of their benefit.
    """
    sure = check_number("level", level, 0.0, 1.0, open_ends=True)
    number = int(view.numbers([id_])[0]) if isinstance(id_, str) else _check_person(view, id_)
    stop = view.length if round is None else view.end_of_round(round)
    latest = stop == view.length
    history = History.read(view, number, stop)
    if not history.stays:
        raise InputError(f"the participant {id_!r} had not joined yet when round {history.round + 1} was drawn")
    state = view.state if latest else view.state_before(stop)
    stored = view.texts([number]).get(number, Texts("", "", ""))
    rounds = history.rounds(view.notes(number))
    estimate, upcoming = _standing(view, stop, state, history, rounds, sure)
    part = state.settings.parts[int(state.part[number])]
    return PersonReport(
        programme=view.name,
        id=id_ if isinstance(id_, str) else stored.id or without_name(number),
        number=number,
        round=history.round,
        time=history.time,
        head=(view.head if latest else _digest(view, stop - 1)).hex(),
        latest=latest,
        ended=state.summary.ended,
        enrolment=_enrolment(state, history, part.name, stored.staff),
        seen=_seen(history, rounds, state),
        estimate=estimate,
        next=upcoming,
        account=_account(rounds, state, int(state.part[number])),
        wait=_wait(rounds),
        rounds=rounds,
    )


def _check_person(view: ProgrammeView, number: int) -> int:
    if not 0 <= number < view.state.people:
        raise InputError(f"participants have numbers from 0 to {view.state.people - 1}, got {number}")
    return number


def _digest(view: ProgrammeView, seq: int) -> bytes:
    return next(digest for _, digest in view.heads(seq, seq + 1))


def _enrolment(state: State, history: History, part: str, staff: str) -> Enrolment:
    number = history.number
    group = state.text("group", number)
    features = {name: state.text(name, number) for name in state.settings.features}
    away = history.away, history.away_since, history.away_by
    return Enrolment(tuple(history.stays), history.here, *away, history.erased, group, staff, part, features)


def _seen(history: History, rounds: tuple[PersonRound, ...], state: State) -> Seen:
    before = history.before_first
    over = [each for each in rounds if each.round < history.round or state.summary.phase == CLOSED or each.after >= 0]
    after = [each.after for each in over] + [each["after"] for each in before]
    return Seen(
        rounds=len(rounds),
        before=len(before),
        good=after.count(1),
        bad=after.count(0),
        missing=len(after) - after.count(0) - after.count(1),
        reports=sum(each.action >= 0 for each in rounds),
        late=sum(each.late for each in rounds),
        corrected=sum(bool(each.corrections) for each in rounds),
    )


def _account(rounds: tuple[PersonRound, ...], state: State, part: int) -> Account:
    due, given = sum(each.due for each in rounds), sum(each.chance for each in rounds)
    slack, rules = state.settings.parts[part].slack, state.settings.rules.needs_accounts
    bounded = not rules and not np.isinf(slack) and all_within(state, part)
    balance = rounds[-1].account if rounds else 0.0
    return Account(due, given, balance, None if np.isinf(slack) else slack, rules, bounded)


def all_within(state: State, part: int) -> bool:
    """Return whether every account of a part is within the slack that is in force."""
    everyone = state.account[state.part == part] / ONE
    return bool((np.abs(everyone) <= state.settings.parts[part].slack + _NEAR).all())


def _wait(rounds: tuple[PersonRound, ...]) -> Wait:
    made = [each for each in rounds if each.drawn is not None]
    return wait_of([each.round for each in made], [each.chance for each in made], [bool(each.drawn) for each in made])


def _standing(
    view: ProgrammeView, stop: int, state: State, history: History, rounds: tuple[PersonRound, ...], level: float
) -> tuple[Estimate, NextDraw | None]:
    """Return what is estimated, and how the participant stands in the round that is open, or the next one."""
    number, is_open = history.number, state.summary.phase != CLOSED
    now = rounds[-1] if is_open and rounds and rounds[-1].round == history.round else None
    if now is not None:  # as it was when the round was committed
        stop = state.summary.commits[-1]
        state = view.state_before(stop)
    everyone, place = view.before_round(stop, state), int(state.part[number])
    estimates, enrolled = everyone.estimates(place, number), everyone.enrolled(place)
    if not history.here or state.summary.ended or (is_open and now is None):
        return _estimate(estimates, number, level, None), None
    if now is None:
        planned = everyone.planned
        row, asked = int(np.searchsorted(planned.number, number)), estimates.budget(state.summary.round + 1)
        due, chance, budget = float(planned.due[row] / ONE), float(planned.chance[row] / ONE), planned.budgets[place]
        rule = history.kept_out(state.summary.round + 1, history.away)
    else:
        due, chance, budget, asked, rule = now.due, now.chance, now.budget, history.asked, now.kept_out
    bound = Bound(rule) if rule else everyone.bound(place, number, asked)
    upcoming = NextDraw(state.summary.round + 1, now is not None, due, chance, bound, len(enrolled), budget)
    return _estimate(estimates, number, level, everyone.lottery(place, number, asked)), upcoming


def _estimate(estimates: PartEstimates, number: int, level: float, lottery: Lottery | None) -> Estimate:
    place = estimates.place_of(number)
    known = float(estimates.benefit[place]), *estimates.interval(number, level), level
    merits = (None, None) if lottery is None else (float(lottery.merit[place]), float(lottery.merit.mean()))
    return Estimate(*known, estimates.pooled, float(estimates.worth[place]), *merits)
