"""What the client returns: frozen values, with None for what is not known.

Where the library has the same value, that is used: `meritfair.programme.reporting.Receipt`, and the parts of a report
about one person.
"""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from meritfair.programme.showing.person import Account, Enrolment, Estimate, NextDraw, Seen
from meritfair.programme.showing.waits import Wait

T = TypeVar("T")


@dataclass(frozen=True)
class ProgrammeLine:
    """A programme in a list; `role` is yours in it."""

    name: str
    role: str
    round: int
    phase: str
    ended: bool
    enrolled: int
    next_step: str
    head: str


@dataclass(frozen=True)
class PartSettings:
    """People who share a budget under one policy: all participants, or one arm of a trial."""

    name: str
    budget: tuple[int, ...]
    policy: Mapping[str, Any]
    floor: float
    share: int


@dataclass(frozen=True)
class RuleSettings:
    """Who may be drawn."""

    cooldown: int
    warmup: int
    once: bool
    accrue: bool


@dataclass(frozen=True)
class TrialSettings:
    """What is fixed of a trial."""

    protocol: str
    strata: tuple[str, ...]


@dataclass(frozen=True)
class ProgrammeSettings:
    """The settings in force."""

    parts: tuple[PartSettings, ...]
    rules: RuleSettings
    forget: float
    features: tuple[str, ...]
    trial: TrialSettings | None
    source: str


@dataclass(frozen=True)
class ProgrammeStatus:
    """How a programme stands, as `meritfair.programme.status.Status`, with your role and the settings."""

    name: str
    identity: str
    role: str
    head: str
    entries: int
    time: str
    round: int
    phase: str
    ended: bool
    enrolled: int
    away: int
    left: int
    drawn: int
    reported: int
    states: int
    overdue: int
    largest_account: float
    unchecked: int
    next_step: str
    settings: ProgrammeSettings


@dataclass(frozen=True)
class Participant:
    """Someone who takes part, or has; `account` is what is owed to them, in draws."""

    number: int
    id: str
    group: str
    staff: str
    part: str
    standing: str
    account: float
    drawn: int
    last_drawn: int | None
    state: int | None
    state_round: int | None
    erased: bool


@dataclass(frozen=True)
class ParticipantAccount:
    """What is owed to someone: what they were due less what they were given, in draws."""

    number: int
    id: str
    group: str
    part: str
    standing: str
    account: float
    drawn: int


@dataclass(frozen=True)
class CorrectedValues:
    """A correction of what was reported of a round."""

    time: str
    by: str
    reason: str
    old: Mapping[str, int | None]
    new: Mapping[str, int | None]


@dataclass(frozen=True)
class RoundOfPerson:
    """One round of a participant."""

    round: int
    time: str
    state: int | None
    seen_after: int | None
    due: float
    chance: float
    drawn: bool | None
    action: int | None
    after: int | None
    account: float
    kept_out: str
    people: int
    budget: int
    reason: str
    late: bool
    override: bool
    corrections: tuple[CorrectedValues, ...]


@dataclass(frozen=True)
class PersonExplained:
    """Why someone was drawn or not, in numbers and in sentences."""

    programme: str
    id: str
    number: int
    round: int
    time: str
    head: str
    latest: bool
    ended: bool
    sentences: tuple[str, ...]
    drawn: int
    reached: int
    overrides: int
    enrolment: Enrolment
    seen: Seen
    estimate: Estimate
    next: NextDraw | None
    account: Account
    wait: Wait
    rounds: tuple[RoundOfPerson, ...]


@dataclass(frozen=True)
class PlannedPerson:
    """Someone in a draw that would be made."""

    number: int
    id: str
    group: str
    staff: str
    due: float
    chance: float
    state: int | None


@dataclass(frozen=True)
class Preview:
    """What the next draw would be committed to; `budgets` are how many would be drawn, by part."""

    round: int
    budgets: tuple[int, ...]
    participants: tuple[PlannedPerson, ...]


@dataclass(frozen=True)
class RemoteOutcome:
    """What came of someone who was drawn, or who was reached without being drawn."""

    number: int
    id: str
    group: str
    staff: str
    due: float
    chance: float
    drawn: bool
    before: int | None
    action: int | None
    after: int | None
    reason: str


@dataclass(frozen=True)
class RemoteRound:
    """A round, with what came of those drawn and of those reached without being drawn."""

    number: int
    phase: str
    enrolled: int
    away: int
    commitment: str
    seed: str
    source: str
    address: str
    appears: str
    time: str
    warning: str
    head: str
    outcomes: tuple[RemoteOutcome, ...]

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of those who are drawn."""
        return tuple(each.id for each in self.outcomes if each.drawn)


@dataclass(frozen=True)
class RoundLine:
    """A round in a list."""

    number: int
    phase: str
    enrolled: int
    drawn: int
    committed_at: str
    drawn_at: str | None
    closed_at: str | None


@dataclass(frozen=True)
class Entry:
    """An entry of the ledger."""

    seq: int
    kind: str
    time: str
    by: str
    round: int | None
    rows: int
    digest: str


@dataclass(frozen=True)
class Head:
    """The public head: whoever keeps it can tell if anything before it is ever changed."""

    programme: str
    identity: str
    entries: int
    time: str
    head: str


def decode(kind: type[T], value: Any) -> T:
    """Return plain values as a frozen value; fields that a newer server adds are left out.

    Examples
    --------
    >>> decode(Head, {"programme": "calls", "identity": "", "entries": 7, "time": "", "head": "4be7", "new": 1}).entries
    7
    """
    made: T = _decode(kind, value)
    return made


def _decode(kind: Any, value: Any) -> Any:
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        wanted = [each for each in inner if each is not type(None)]
        return None if value is None else _decode(wanted[0], value)
    if origin is tuple:
        return tuple(_decode(inner[0], each) for each in value)
    if isinstance(kind, type) and is_dataclass(kind):
        hints = _hints(kind)
        return kind(**{each.name: _decode(hints[each.name], value[each.name]) for each in fields(kind)})
    return value


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)
