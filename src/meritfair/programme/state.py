"""What follows from the ledger: who takes part, which round it is, what was seen and what is owed.

There is one way from entries to all of this, `State.apply`. Live use applies each entry as it is made and keeps the
result; verification applies all entries from the first, and compares. So nothing is known that is not in the ledger.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from meritfair.core.arrays import AnyArray, BoolArray, IntArray
from meritfair.core.errors import InputError
from meritfair.programme.columns import UNKNOWN, Columns
from meritfair.programme.ledger.entries import Entry, parse_time
from meritfair.programme.ledger.randomness import is_drand, source_for
from meritfair.programme.ledger.rowtable import RowTable
from meritfair.programme.settings import Settings

CLOSED, COMMITTED, OPEN = "closed", "committed", "open"  # the phases of a round
FORGOTTEN = -2  # in a correction: not known after all


@dataclass
class Summary:
    """The small things that follow from the ledger, kept as JSON."""

    settings: dict[str, Any] = field(default_factory=dict)
    round: int = 0  # the last one committed
    phase: str = CLOSED  # of that round
    people: int = 0  # who ever enrolled
    before: int = 0  # rounds of the history
    levels: dict[str, list[str]] = field(default_factory=dict)  # of groups and features
    commits: list[int] = field(default_factory=list)  # by round, the entry that commits it
    ended: bool = False
    unchecked: int = 0  # draws on public values that no program can check
    time: str = ""  # of the last entry


class State:
    """All that follows from the entries so far.

    Parameters
    ----------
    columns : Columns
    summary : mapping, optional
        What `to_dict` has returned, to go on from there.
    """

    def __init__(self, columns: Columns, summary: Mapping[str, Any] | None = None) -> None:
        self.columns = columns
        self.summary = Summary(**summary) if summary else Summary()
        self._settings: Settings | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the small things as plain values."""
        return asdict(self.summary)

    def copy(self, columns: Columns | None = None) -> State:
        """Return the state as it is now, which later entries do not change; `columns` are a copy of its own."""
        made = State(self.columns.copy() if columns is None else columns)
        made.summary = replace(self.summary, levels=dict(self.summary.levels))  # which alone is changed in place
        made._settings = self._settings
        return made

    def with_settings(self, settings: Settings) -> State:
        """Return the same under other settings, to plan with; it shares the columns, so apply nothing to it."""
        made = State(self.columns, self.to_dict())
        made._settings = settings
        return made

    @property
    def settings(self) -> Settings:
        """The settings in force."""
        if self._settings is None:
            self._settings = Settings.from_body(self.summary.settings)
        return self._settings

    @property
    def people(self) -> int:
        """How many ever enrolled."""
        return self.summary.people

    @property
    def here(self) -> BoolArray:
        """Who is enrolled now, shape (people,)."""
        return self.columns.grown("here", self.people).astype(np.bool_)

    @property
    def away(self) -> BoolArray:
        """Who is away now."""
        return self.columns.grown("away", self.people).astype(np.bool_)

    @property
    def part(self) -> IntArray:
        """To which part each belongs."""
        return self.columns.grown("part", self.people).astype(np.int64)

    @property
    def account(self) -> IntArray:
        """What each was due less what they were given, in units of 2^-40 pulls."""
        return self.columns.grown("account", self.people).astype(np.int64)

    def seen(self, round_: int) -> AnyArray:
        """Return what was seen in a round: drawn, state before, action and state after, shape (4, people)."""
        return self.columns.seen(round_, self.people)

    def texts(self, column: str) -> list[str]:
        """Return the values of a group or feature for all participants, as text; empty where not known."""
        levels = np.array([*self.summary.levels.get(column, []), ""], dtype=object)
        name = column if column == "group" else f"feature:{column}"
        return [str(each) for each in levels[self.columns.grown(name, self.people)]]

    def text(self, column: str, number: int) -> str:
        """Return the value of a group or feature of one participant, as text; empty where not known."""
        codes = self.columns.get(column if column == "group" else f"feature:{column}")
        levels, code = self.summary.levels.get(column, []), int(codes[number]) if number < len(codes) else UNKNOWN
        return "" if code < 0 else str(levels[code])

    # ---- one entry after another

    def apply(self, entry: Entry, table: RowTable | None) -> None:
        """Take in an entry; refuse one that does not fit what was before."""
        if self.summary.ended:
            raise InputError("the programme has ended")
        if (entry.kind == "create") != (entry.seq == 0):
            raise InputError("a ledger begins with the entry that creates the programme, and has no other")
        if entry.time < self.summary.time:
            raise InputError(f"its time, {entry.time}, is before that of the entry before, {self.summary.time}")
        _TAKE_IN[entry.kind](self, entry, table)
        self.summary.time = entry.time

    def _create(self, entry: Entry, _: RowTable | None) -> None:
        self._set(entry.body)

    def _set(self, body: Mapping[str, Any]) -> None:
        keys = ("parts", "rules", "forget", "features", "trial", "source")
        given = {key: body[key] for key in keys}
        self._settings = Settings.from_body(given)  # which refuses what are none
        self.summary.settings = given

    def _change(self, entry: Entry, _: RowTable | None) -> None:
        self._check_phase(CLOSED)
        if len(entry.body["parts"]) != len(self.settings.parts):
            raise InputError("a change keeps the number of parts")
        self._set({**self.summary.settings, **{key: entry.body[key] for key in ("parts", "rules", "source")}})

    def _history(self, entry: Entry, table: RowTable | None) -> None:
        numbers = self._numbers(table, enrolled=False)
        rounds = table["round"].astype(np.int64)  # type: ignore[index]
        if self.summary.round or (len(rounds) and (rounds.max() > 0 or rounds.min() <= -entry.body["rounds"])):
            raise InputError("a history has the rounds before the first")
        for number in np.unique(rounds):
            rows, seen = rounds == number, np.full((4, self.people), UNKNOWN, np.int8)
            for place, name in enumerate(("before", "action", "after"), start=1):
                seen[place, numbers[rows]] = table[name][rows]  # type: ignore[index]
            self.columns.put_seen(int(number), seen)
        self.summary.before = entry.body["rounds"]

    def _enrol(self, entry: Entry, table: RowTable | None) -> None:
        assert table is not None
        numbers, known = table["number"].astype(np.int64), self.people
        new = numbers[numbers >= known]
        if not np.array_equal(new, np.arange(known, known + len(new))) or len(np.unique(numbers)) < len(numbers):
            raise InputError("those who enrol have new numbers in order, or come back with their own")
        here, part = self.here, self.part
        if here[numbers[numbers < known]].any():
            raise InputError("someone who is enrolled cannot enrol again")
        back = numbers < known
        if (table["part"][back] != part[numbers[back]]).any():
            raise InputError("those who come back stay in their part")
        self.summary.people = known + len(new)
        for name, values in (("here", 1), ("away", 0), ("part", table["part"])):
            column = self.columns.grown(name, self.people)
            column[numbers] = values
            self.columns.put(name, column)
        joined = self.columns.grown("joined", self.people)
        joined[new] = self.summary.round
        self.columns.put("joined", joined)
        self.columns.put("account", self.columns.grown("account", self.people))
        for name, levels in entry.body["levels"].items():
            self._take_levels(name, levels, numbers, table[name].astype(np.int64))

    def _take_levels(self, name: str, levels: list[str], numbers: IntArray, codes: IntArray) -> None:
        """Note the values of a group or feature, which an entry lists for itself."""
        known = {level: place for place, level in enumerate(self.summary.levels.get(name, []))}
        place = np.array([known.setdefault(level, len(known)) for level in levels], np.int64)
        self.summary.levels[name] = list(known)
        column = name if name == "group" else f"feature:{name}"
        values = self.columns.grown(column, self.people)
        values[numbers] = place[codes] if len(place) else UNKNOWN
        self.columns.put(column, values)

    def _withdraw(self, _: Entry, table: RowTable | None) -> None:
        here = self.columns.grown("here", self.people)
        here[self._numbers(table)] = 0
        self.columns.put("here", here)

    def _away(self, _: Entry, table: RowTable | None) -> None:
        away, numbers = self.columns.grown("away", self.people), self._numbers(table)
        away[numbers] = table["away"]  # type: ignore[index]
        self.columns.put("away", away)

    def _commit(self, entry: Entry, table: RowTable | None) -> None:
        assert table is not None
        self._check_phase(CLOSED)
        if entry.body["round"] != self.summary.round + 1:
            raise InputError(f"the next round is {self.summary.round + 1}, not {entry.body['round']}")
        if entry.body["source"] != source_for(self.settings.source, parse_time(entry.time)):
            raise InputError("its source of randomness is not the one of the settings")
        numbers = table["number"].astype(np.int64)
        here, away = self.here, self.away
        if not np.array_equal(numbers, np.flatnonzero(here)) or not np.array_equal(away[here], table["away"] == 1):
            raise InputError("a draw is among those who are enrolled, with those away who were said to be")
        if not np.array_equal(self.part[here], table["part"]):
            raise InputError("participants are drawn in their own part")
        self.summary.round, self.summary.phase = entry.body["round"], COMMITTED
        self.summary.commits = [*self.summary.commits, entry.seq]
        account = self.account
        account[numbers] += table["due"].astype(np.int64) - table["chance"].astype(np.int64)
        self.columns.put("account", account)
        seen = np.full((4, self.people), UNKNOWN, np.int8)
        seen[0, numbers], seen[1, numbers] = 0, table["state"]
        self.columns.put_seen(self.summary.round, seen)

    def _draw(self, entry: Entry, table: RowTable | None) -> None:
        self._check_phase(COMMITTED, entry)
        seen = self.seen(self.summary.round).copy()
        seen[0, self._numbers(table)] = 1
        self.columns.put_seen(self.summary.round, seen)
        self.summary.phase = OPEN
        self.summary.unchecked += entry.body["value"] is not None and not is_drand(self.settings.source)

    def _report(self, entry: Entry, table: RowTable | None) -> None:
        self._take_in(entry, table, correcting=False)

    def _correct(self, entry: Entry, table: RowTable | None) -> None:
        self._take_in(entry, table, correcting=True)

    def _take_in(self, entry: Entry, table: RowTable | None, *, correcting: bool) -> None:
        """Put what was reported of a round in its place; a report may not change what is known."""
        assert table is not None
        round_, numbers = entry.body["round"], self._numbers(table, enrolled=False)
        if not 1 <= round_ <= self.summary.round or (round_ == self.summary.round and self.summary.phase == COMMITTED):
            raise InputError(f"there is no round {round_} to report on")
        seen = self.seen(round_).copy()
        if (seen[0, numbers] < 0).any():
            raise InputError(f"only those who were enrolled in round {round_} can be reported on")
        for place, name in enumerate(("before", "action", "after"), start=1):
            new, old = table[name].astype(np.int8), seen[place, numbers]
            if not correcting and ((old >= 0) & (new >= 0) & (old != new)).any():
                raise InputError("a report cannot change what was reported before")
            kept = np.where(new >= 0, new, old)
            seen[place, numbers] = np.where(new == FORGOTTEN, UNKNOWN, kept) if correcting else kept
        self.columns.put_seen(round_, seen)

    def _close(self, entry: Entry, _: RowTable | None) -> None:
        self._check_phase(OPEN, entry)
        self.summary.phase = CLOSED

    def _erase(self, _: Entry, table: RowTable | None) -> None:
        if self.here[self._numbers(table, enrolled=False)].any():
            raise InputError("someone who is enrolled must be withdrawn before they are erased")

    def _end(self, _: Entry, __: RowTable | None) -> None:
        self._check_phase(CLOSED)
        self.summary.ended = True

    def _check_phase(self, phase: str, entry: Entry | None = None) -> None:
        round_ = self.summary.round
        if self.summary.phase != phase or (entry is not None and entry.body["round"] != round_):
            raise InputError(f"round {round_} is {self.summary.phase}")

    def _numbers(self, table: RowTable | None, *, enrolled: bool = True) -> IntArray:
        """Return the participants of a table, each once."""
        assert table is not None
        numbers = table["number"].astype(np.int64)
        if len(numbers) and (numbers.max() >= self.people or ((np.diff(numbers) <= 0).any() and not _rounds(table))):
            raise InputError("a table names participants that there are, in order of their numbers")
        if enrolled and not self.here[numbers].all():
            raise InputError("only those who are enrolled can be named here")
        return np.asarray(numbers)


def _rounds(table: RowTable) -> bool:
    """Whether a table has a row for each round of a participant."""
    return "round" in table.columns


_TAKE_IN = {
    "create": State._create,
    "history": State._history,
    "enrol": State._enrol,
    "withdraw": State._withdraw,
    "away": State._away,
    "commit": State._commit,
    "draw": State._draw,
    "report": State._report,
    "correct": State._correct,
    "close": State._close,
    "change": State._change,
    "erase": State._erase,
    "end": State._end,
}
