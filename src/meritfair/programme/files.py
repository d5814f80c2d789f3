"""Files of a programme: people who enrol, what was seen of them, and the list of those to be called.

================  ===================================================================================================
column            is
================  ===================================================================================================
``id``            what the programme calls the participant
``group``         to enrol: the group to which they belong
``staff``         to enrol: who calls them
any feature       to enrol: its value, for each feature that the programme was created with
``action``        to report: 1 if they were reached, 0 if not; empty if it is not said
``state``         to report: the state seen after the round, 0 (bad) or 1 (good); empty if it was not seen. To draw: the
                  state now
``before``        to report: the state at the start of the round, if it was observed
``reason``        to report: why someone was reached who was not drawn
``round``         to report: the round, the same in all rows; not needed
================  ===================================================================================================

In a correction the word ``unknown`` in place of an action or a state means that it is not known after all. Other
columns are ignored. The list of a draw has the columns of a report, to be filled in and handed back as it is.

A file is read and checked as a whole. Whatever is wrong is told with its line and column, also if the programme
refuses it (`locating`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from meritfair.core.arrays import IntArray
from meritfair.core.errors import FileError, RowError
from meritfair.core.tables import Table, first_duplicate, numbered, read_table, write_table
from meritfair.core.texts import listed
from meritfair.programme.columns import UNKNOWN
from meritfair.programme.inputs import Outcomes, ParticipantError, People
from meritfair.programme.rounds import Drawn, Round
from meritfair.programme.state import FORGOTTEN

if TYPE_CHECKING:
    from meritfair.programme.reading import RoundOutcome

REPORT = ("action", "state", "before", "reason")
LIST = ("round", "id", "group", "staff", "due", "chance", "action", "state", "reason")
_CODES = {"action": "must be 1 (reached) or 0 (not reached)"} | dict.fromkeys(
    ("state", "before"), "must be 0 (bad) or 1 (good)"
)
_EMPTY = {"action": "or empty if it is not said"} | dict.fromkeys(("state", "before"), "or empty if it was not seen")
_CALLED = {"ids": "id", "after": "state", "reasons": "reason"}  # columns that files call otherwise
_NOT_KNOWN = "unknown"
Tell = Callable[[int, int], None]
T = TypeVar("T")


@dataclass(frozen=True)
class FromFile(Generic[T]):
    """What was read of a file.

    Attributes
    ----------
    value : People, Outcomes or list of str
    table : Table
        The cells, with their lines.
    round : int, or None
        The round that the file says.
    """

    value: T
    table: Table
    round: int | None = None


def read_people(
    path: str | PathLike[str], features: Sequence[str] = (), *, encoding: str = "utf-8", tell: Tell | None = None
) -> FromFile[People]:
    """Read who enrols from a .csv or .parquet file.

    Parameters
    ----------
    path : path
    features : sequence of str
        Those of the programme; their columns must be there.
    encoding : str
        Of a .csv file.
    tell : callable, optional
        Is told how much of how much is read.
    """
    how: Any = {"encoding": encoding, "tell": tell}
    table = read_table(path, "participants", ["id", *features], ["group", "staff"], **how)
    ids = _ids(table)
    known = {name: _texts(table, name) for name in ("group", "staff")}
    values = {name: _texts(table, name) or [] for name in features}
    with locating(table):
        return FromFile(People(ids, known["group"], known["staff"], values), table)


def read_outcomes(
    path: str | PathLike[str], *, correcting: bool = False, encoding: str = "utf-8", tell: Tell | None = None
) -> FromFile[Outcomes]:
    """Read what was done and seen in a round from a .csv or .parquet file.

    Parameters
    ----------
    path : path
    correcting : bool
        Whether the word ``unknown`` may stand for what is not known after all.
    encoding, tell
        As for `read_people`.
    """
    table = read_table(path, "participants", ["id"], [*REPORT, "round"], encoding=encoding, tell=tell)
    if not set(table.columns) & {"action", "state", "before"}:
        found = listed([*table.columns, *table.ignored])
        raise FileError(table.file, f"has none of the columns action, state and before; it has {found}")
    codes = {name: _codes(table, name, correcting) for name in _CODES if name in table.columns}
    ids, reasons = _ids(table), _texts(table, "reason") or []
    said = {id_: reason for id_, reason in zip(ids, reasons, strict=False) if reason}
    with locating(table):
        outcomes = Outcomes(ids, codes.get("action"), codes.get("state"), codes.get("before"), said, correcting)
        return FromFile(outcomes, table, _round(table))


def read_states(path: str | PathLike[str], *, encoding: str = "utf-8", tell: Tell | None = None) -> FromFile[Outcomes]:
    """Read states that are observed before a draw, in the columns ``id`` and ``state``."""
    table = read_table(path, "participants", ["id", "state"], encoding=encoding, tell=tell)
    with locating(table):
        return FromFile(Outcomes(_ids(table), before=_codes(table, "state", correcting=False)), table)


def read_ids(path: str | PathLike[str], *, encoding: str = "utf-8", tell: Tell | None = None) -> FromFile[list[str]]:
    """Read a list of participants, in the column ``id``."""
    table = read_table(path, "participants", ["id"], encoding=encoding, tell=tell)
    return FromFile(_ids(table), table)


@contextmanager
def locating(table: Table | None) -> Iterator[None]:
    """Say in which line and column of a file something is that was refused; without a table nothing is added."""
    try:
        yield
    except ParticipantError as error:
        if table is None:
            raise
        column = _CALLED.get(error.column, error.column)
        place = column if column in table.columns else "id"
        raise table.error(error.row, place, str(error)) from None


def _ids(table: Table) -> list[str]:
    """Return the ids, all different."""
    ids = table.text("id")
    if len(set(ids)) < len(ids):
        twice = first_duplicate(numbered(ids)[1])
        assert twice is not None
        first, row = twice
        raise table.located(RowError(row, "id", f"the participant {ids[row]!r} is already in", first))
    return ids


def _texts(table: Table, column: str) -> list[str] | None:
    if column not in table.columns:
        return None
    return ["" if cell is None or cell != cell else str(cell).strip() for cell in table.with_points(column)]


def _codes(table: Table, column: str, correcting: bool) -> IntArray:
    """Return a column of 0 and 1, -1 where it is empty, and -2 where the word for it is there."""
    if not correcting:
        return table.bits(column, f"{_CODES[column]}, {_EMPTY[column]}", may_be_empty=True)
    cells = table.columns[column]
    forgotten = np.array([str(cell).strip().lower() == _NOT_KNOWN for cell in cells])
    plain = {column: ["" if word else cell for cell, word in zip(cells, forgotten, strict=True)]}
    wanted = f"{_CODES[column]}, the word {_NOT_KNOWN}, or empty to leave it as it is"
    codes = dataclasses.replace(table, columns=plain).bits(column, wanted, may_be_empty=True)
    return np.where(forgotten, FORGOTTEN, codes)


def _round(table: Table) -> int | None:
    """Return the round that a file says, if it says one."""
    if "round" not in table.columns:
        return None
    numbers = table.numbers("round", 1, 2**31, may_be_empty=True)
    said = np.flatnonzero(~np.isnan(numbers))
    if not len(said):
        return None
    first = int(said[0])
    wrong = said[(numbers[said] != numbers[first]) | (numbers[said] != np.round(numbers[said]))]
    if len(wrong):
        row = int(wrong[0])
        problem = f"is {numbers[row]:g}, but {numbers[first]:g} in line {table.lines[first]}: hand rounds in one by one"
        raise table.error(row, "round", problem)
    return int(numbers[first])


def the_round(found: FromFile[Outcomes], asked: int | None) -> int | None:
    """Return the round that a report is about: as asked for, and as the file says; refuse it if they differ."""
    if asked is not None and found.round is not None and asked != found.round:
        raise FileError(found.table.file, f"is about round {found.round}, as its column round says, not about {asked}")
    return found.round if asked is None else asked


# ---- out


def write_list(path: str | PathLike[str], drawn: Round, outcomes: Sequence[RoundOutcome] = ()) -> None:
    """Write who is to be called, with columns to be filled in and handed back as a report.

    Where `outcomes` has someone, what is known of them is filled in; handed back, it is known already.
    """
    people, known = drawn.people, {each.number: each for each in outcomes}
    columns: dict[str, list[Any]] = {name: [None] * len(people) for name in LIST}
    columns |= {"round": [drawn.number] * len(people), **_columns(people)}
    columns |= {name: [float(f"{number:.6g}") for number in columns[name]] for name in ("due", "chance")}  # to be read
    if known:
        columns["action"] = [_known(known[each.number].action) for each in people]
        columns["state"] = [_known(known[each.number].after) for each in people]
    write_table(path, "draws", columns)


def _known(code: int) -> int | None:
    return None if code == UNKNOWN else code


def write_preview(path: str | PathLike[str], people: Sequence[Drawn]) -> None:
    """Write what everyone enrolled would be due, and with which chance they would be drawn."""
    states = [None if each.state == UNKNOWN else each.state for each in people]
    write_table(path, "previews", {**_columns(people), "state": states})


def _columns(people: Sequence[Drawn]) -> dict[str, list[Any]]:
    return {name: [getattr(each, name) for each in people] for name in ("id", "group", "staff", "due", "chance")}
