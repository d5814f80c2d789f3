"""What the ledger says of one participant: when they took part, and each round with what was known when it was drawn.

It is read from the entries themselves, one after another, so that a round shows what was known then, and corrections
show beside what they corrected.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from meritfair.model.rules import Rules
from meritfair.programme.columns import UNKNOWN
from meritfair.programme.ledger.entries import NO_HASH, Entry
from meritfair.programme.ledger.lottery import ONE
from meritfair.programme.ledger.rowtable import RowTable
from meritfair.programme.state import FORGOTTEN
from meritfair.programme.view import ProgrammeView

_SEEN = ("before", "action", "after")


@dataclass(frozen=True)
class Stay:
    """A time in which someone took part: from the first round that they could be drawn in to the last one."""

    joined: str
    first: int
    left: str | None = None
    last: int | None = None


@dataclass(frozen=True)
class Correction:
    """A correction of what was reported of a round; `old` and `new` by what was corrected, -1 for not known."""

    time: str
    by: str
    reason: str
    old: Mapping[str, int]
    new: Mapping[str, int]


@dataclass(frozen=True)
class PersonRound:
    """One round of a participant.

    Attributes
    ----------
    round : int
    time : str
        When it was drawn, or committed if it is not drawn yet.
    state : int
        The last state that was known when the round was drawn; -1 if none was.
    seen_after : int or None
        After which round that state was seen: the one before, if it is up to date.
    due, chance : float
    drawn : bool or None
        None while a round waits for its public random value.
    action, after : int
        Whether they were reached, and the state after the round, as it is known now; -1 if it is not.
    account : float
        Due less given in all, after this round.
    kept_out : str
        The rule that kept them out of the draw: ``away``, ``cool-down``, ``warm-up`` or ``once``; empty if none did.
    people, budget : int
        How many there were in the same part, and how many of them were drawn.
    reason : str
        Why they were reached without being drawn, as far as it is kept.
    late : bool
        Whether something was reported after the next round had been drawn.
    corrections : tuple of Correction
    """

    round: int
    time: str
    state: int
    seen_after: int | None
    due: float
    chance: float
    drawn: bool | None
    action: int
    after: int
    account: float
    kept_out: str
    people: int
    budget: int
    reason: str
    late: bool
    corrections: tuple[Correction, ...]

    @property
    def override(self) -> bool:
        """Whether they were reached without being drawn."""
        return self.drawn is False and self.action == 1

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {**asdict(self), "corrections": [asdict(each) for each in self.corrections], "override": self.override}


@dataclass
class _Slot:
    """What is known of one round so far."""

    drawn: bool | None = None
    seen: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_SEEN, UNKNOWN))
    fixed: dict[str, Any] = field(default_factory=dict)  # what was known when it was committed
    time: str = ""
    late: bool = False
    noted_at: int | None = None  # the entry that has the reason of an override
    corrections: tuple[Correction, ...] = ()

    @property
    def done(self) -> bool:
        """Whether they were reached, as far as it is known."""
        return self.seen["action"] == 1 if self.seen["action"] >= 0 else bool(self.drawn)


class History:
    """All that some entries say of one participant.

    Parameters
    ----------
    number : int

    Attributes
    ----------
    stays : list of Stay
        The times in which they took part, in order.
    away : bool
    away_since, away_by : str
        Since when they are away, and who said so; empty if they are not.
    erased : str
        When they were erased; empty if they were not.
    round : int
        The last round of the programme.
    asked : int
        How many were to be drawn in their last round, if that many could be.
    time : str
        When the last entry was made.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self.stays: list[Stay] = []
        self.away, self.away_since, self.away_by, self.erased = False, "", "", ""
        self.round, self.asked, self.time = 0, 0, ""
        self._slots: dict[int, _Slot] = {}
        self._rules, self._account = Rules(), 0

    @classmethod
    def read(cls, view: ProgrammeView, number: int, stop: int) -> History:
        """Return what the entries before `stop` say."""
        made = cls(number)
        for entry, table in view.entries_about(number, stop):
            made._take(entry, table)
        return made

    @property
    def here(self) -> bool:
        """Whether they take part now."""
        return bool(self.stays) and self.stays[-1].left is None

    @property
    def before_first(self) -> list[dict[str, int]]:
        """State before, action and state after in the rounds before the first, in order."""
        return [self._slots[number].seen for number in sorted(self._slots) if number <= 0]

    def rounds(self, notes: Mapping[int, str]) -> tuple[PersonRound, ...]:
        """Return the rounds that they took part in; `notes` has reasons by the entry that they belong to."""
        return tuple(
            PersonRound(
                round=number,
                time=slot.time,
                drawn=slot.drawn,
                action=slot.seen["action"],
                after=slot.seen["after"],
                late=slot.late,
                corrections=slot.corrections,
                reason="" if slot.noted_at is None else notes.get(slot.noted_at, ""),
                **slot.fixed,
            )
            for number, slot in sorted(self._slots.items())
            if number > 0
        )

    def last_known(self, round_: int) -> tuple[int, int | None]:
        """Return the last state known before a round, and after which round it was seen."""
        for number in sorted((each for each in self._slots if each <= round_), reverse=True):
            seen = self._slots[number].seen
            if number < round_ and seen["after"] >= 0:
                return seen["after"], number
            if seen["before"] >= 0:
                return seen["before"], number - 1
        return UNKNOWN, None

    def kept_out(self, round_: int, away: bool) -> str:
        """Return the rule that keeps them out of a round, as it stands before it; empty if none does."""
        joined = self.stays[0].first - 1
        last = max((number for number, slot in self._slots.items() if 0 < number < round_ and slot.done), default=0)
        if away:
            return "away"
        if joined + self._rules.warmup >= round_:
            return "warm-up"
        if self._rules.once and last:
            return "once"
        return "cool-down" if last and last + self._rules.cooldown >= round_ else ""

    # ---- one entry after another

    def _take(self, entry: Entry, table: RowTable | None) -> None:
        self.time = entry.time
        if entry.kind in ("create", "change"):
            self._rules = Rules.from_settings(entry.body["rules"])
        if entry.kind == "commit":
            self.round = int(entry.body["round"])
        if entry.kind == "draw" and self.round in self._slots:
            self._slots[self.round].drawn, self._slots[self.round].time = False, entry.time
        for row in [] if table is None else self._rows(entry.kind, table):
            assert table is not None
            values = {name: int(table[name][row]) for name, kind in table.fields if kind != "h256"}
            self._take_row(entry, values, table)
            if entry.kind in ("report", "correct") and bytes(table["note"][row]) != NO_HASH:
                self._slots[int(entry.body["round"])].noted_at = entry.seq

    def _rows(self, kind: str, table: RowTable) -> list[int]:
        """Return the rows of this participant."""
        numbers = table["number"]
        if kind == "history":
            return [int(row) for row in np.flatnonzero(numbers == self.number)]
        row = int(np.searchsorted(numbers, self.number))
        return [row] if row < len(numbers) and int(numbers[row]) == self.number else []

    def _take_row(self, entry: Entry, row: dict[str, int], table: RowTable) -> None:
        """Take in what an entry says of this participant."""
        match entry.kind:
            case "history":
                self._slots[row["round"]] = _Slot(seen={name: row[name] for name in _SEEN})
            case "enrol":
                self.stays.append(Stay(entry.time, self.round + 1))
                self.away, self.away_since, self.away_by = False, "", ""
            case "withdraw":
                self.stays[-1] = replace(self.stays[-1], left=entry.time, last=self.round)
            case "away":
                self.away = bool(row["away"])
                self.away_since, self.away_by = (entry.time, entry.by) if self.away else ("", "")
            case "erase":
                self.erased = entry.time
            case "commit":
                self._commit(entry, row, table)
            case "draw":
                self._slots[self.round].drawn = True
            case "report":
                self._report(entry, row)
            case "correct":
                self._correct(entry, row)

    def _commit(self, entry: Entry, row: dict[str, int], table: RowTable) -> None:
        self._account += row["due"] - row["chance"]
        self.asked = int(entry.body["asked"][row["part"]])
        slot = _Slot(time=entry.time)
        slot.seen["before"] = row["state"]
        self._slots[self.round] = slot
        state, seen_after = self.last_known(self.round)
        slot.fixed = {
            "state": state,
            "seen_after": seen_after,
            "due": row["due"] / ONE,
            "chance": row["chance"] / ONE,
            "account": self._account / ONE,
            "kept_out": self.kept_out(self.round, bool(row["away"])),
            "people": int((table["part"] == row["part"]).sum()),
            "budget": int(entry.body["budgets"][row["part"]]),
        }

    def _report(self, entry: Entry, row: dict[str, int]) -> None:
        round_ = int(entry.body["round"])
        slot = self._slots[round_]
        slot.seen |= {name: row[name] for name in _SEEN if row[name] >= 0}
        slot.late |= round_ < self.round

    def _correct(self, entry: Entry, row: dict[str, int]) -> None:
        slot = self._slots[int(entry.body["round"])]
        new = {name: UNKNOWN if row[name] == FORGOTTEN else row[name] for name in _SEEN if row[name] != UNKNOWN}
        new = {name: value for name, value in new.items() if value != slot.seen[name]}
        old = {name: slot.seen[name] for name in new}
        slot.seen |= new
        slot.corrections += (Correction(entry.time, entry.by, str(entry.body["reason"]), old, new),)
