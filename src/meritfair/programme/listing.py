"""Lists of people: who is asked for, in which order, and a page of them; made for a million people."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from meritfair.core.arrays import AnyArray, BoolArray, IntArray
from meritfair.core.checks import check_known, check_whole
from meritfair.programme.ledger.lottery import ONE
from meritfair.programme.roster import Roster
from meritfair.programme.state import State
from meritfair.programme.tallies import PersonTallies, Tallies
from meritfair.programme.view import Texts, without_name

STANDINGS = ("enrolled", "away", "left", "all")
SORTS = ("id", "number", "account", "drawn", "last_drawn", "state")


@dataclass(frozen=True)
class PeopleQuery:
    """Which people of a programme to list, and how.

    Attributes
    ----------
    search : str
        A part of the id, in upper or lower case.
    group, staff, part : str
        Only those of this group, member of staff or part; empty for all.
    standing : {"enrolled", "away", "left", "all"}
        Those who take part, those of them who are away, those who have left, or everyone.
    sort : {"id", "number", "account", "drawn", "last_drawn", "state"}
    descending : bool
    offset, limit : int
        Which page: how many are left out before it, and how many are on it at most.
    """

    search: str = ""
    group: str = ""
    staff: str = ""
    part: str = ""
    standing: str = "enrolled"
    sort: str = "id"
    descending: bool = False
    offset: int = 0
    limit: int = 50

    def __post_init__(self) -> None:
        check_known("standing", self.standing, STANDINGS)
        check_known("sort", self.sort, SORTS)
        check_whole("offset", self.offset, 0)
        check_whole("limit", self.limit, 0)


@dataclass(frozen=True)
class PersonLine:
    """One line of a list of people.

    Attributes
    ----------
    number : int
        In the ledger.
    id : str
        ``participant NUMBER`` for someone who was erased.
    group, staff, part : str
    standing : {"enrolled", "away", "left"}
    account : float
        What is owed to them, in draws.
    drawn : int
        How often they were drawn.
    last_drawn : int or None
        The round in which they were drawn last; None if they never were.
    state : int
        Their last known state; -1 if none is.
    state_round : int or None
        After which round that state was seen; None if none was.
    erased : bool
    """

    number: int
    id: str
    group: str
    staff: str
    part: str
    standing: str
    account: float
    drawn: int
    last_drawn: int | None
    state: int
    state_round: int | None
    erased: bool = False


@dataclass(frozen=True)
class PeoplePage:
    """A page of a list: how many there are in all, and the lines of this page."""

    total: int
    rows: tuple[PersonLine, ...]


class Listing:
    """Lists the people of a programme; orders are kept until what they depend on changes.

    Parameters
    ----------
    tallies : Tallies
        Of the same ledger.
    """

    def __init__(self, tallies: Tallies) -> None:
        self._tallies = tallies
        self._orders: dict[str, tuple[AnyArray, IntArray]] = {}  # by sort, with the column that it is the order of

    def page(self, state: State, roster: Roster, query: PeopleQuery) -> PeoplePage:
        """Return a page of a list."""
        wanted, order = _wanted(state, roster, query), self._order(state, roster, query.sort)
        found = order if wanted is None else order[wanted[order]]
        found = found[::-1] if query.descending else found
        return PeoplePage(len(found), lines_of(state, roster, found[query.offset : query.offset + query.limit]))

    def _order(self, state: State, roster: Roster, sort: str) -> IntArray:
        """Return the numbers of all participants, in order; those who are alike are in order of their numbers."""
        if sort == "number":
            return np.arange(state.people)
        if sort == "id":
            return roster.by_id
        column = self._column(state, sort)
        kept = self._orders.get(sort)
        if kept is None or kept[0] is not column or len(kept[1]) != state.people:
            grown = np.zeros(state.people, column.dtype)
            grown[: len(column)] = column
            kept = column, np.argsort(grown, kind="stable")
            self._orders[sort] = kept
        return kept[1]

    def _column(self, state: State, sort: str) -> AnyArray:
        if sort == "account":
            return state.columns.get("account")
        everyone = self._tallies.of_everyone(state)
        return {"drawn": everyone.drawn, "last_drawn": everyone.last_drawn, "state": everyone.state}[sort]


def _wanted(state: State, roster: Roster, query: PeopleQuery) -> BoolArray | None:
    """Return who is asked for; None for everyone."""
    masks = list[BoolArray]()
    if query.standing != "all":
        masks.append(~state.here if query.standing == "left" else state.here)
    if query.standing == "away":
        masks.append(state.away)
    if query.group:
        masks.append(roster.groups.has(query.group))
    if query.staff:
        masks.append(roster.staff.has(query.staff))
    if query.part:
        places = [place for place, part in enumerate(state.settings.parts) if part.name == query.part]
        masks.append(np.isin(state.part, places))
    if query.search:
        masks.append(roster.containing(query.search))
    return np.logical_and.reduce(masks) if masks else None


def lines_of(state: State, roster: Roster, numbers: IntArray) -> tuple[PersonLine, ...]:
    """Return the lines of these people."""
    own, who, nobody = PersonTallies.of(state, numbers), roster.texts(numbers.tolist()), Texts("", "", "")
    here, away, part, account = (column[numbers] for column in (state.here, state.away, state.part, state.account))
    lines = []
    for row, number in enumerate(numbers.tolist()):
        texts = who.get(number, nobody)
        known, drawn = int(own.state[row]), int(own.drawn[row])
        line = PersonLine(
            number=number,
            id=texts.id or without_name(number),
            group=texts.group,
            staff=texts.staff,
            part=state.settings.parts[int(part[row])].name,
            standing="left" if not here[row] else "away" if away[row] else "enrolled",
            account=float(account[row] / ONE),
            drawn=drawn,
            last_drawn=int(own.last_drawn[row]) if drawn else None,
            state=known,
            state_round=int(own.state_round[row]) if known >= 0 else None,
            erased=not texts.id,
        )
        lines.append(line)
    return tuple(lines)
