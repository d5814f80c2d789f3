"""Lists of people: who is asked for, and a page of them."""

from __future__ import annotations

from dataclasses import dataclass

from meritfair.core.checks import check_known, check_whole

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
