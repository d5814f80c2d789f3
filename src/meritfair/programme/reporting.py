"""What was done and seen: reports, and corrections of them.

A report may say a part of a round, and come at any time: what is known already may be said again, and what is new is
added. It never changes what was reported before; that is a correction, which needs a reason and a name. Whoever was
reached without being drawn was an *override* of the draw, and needs a reason. Reasons are kept beside the ledger, which
has their salted hashes, so that they can be erased with the person.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from meritfair.core.arrays import BoolArray, IntArray
from meritfair.core.checks import check_whole
from meritfair.core.errors import InputError
from meritfair.programme.inputs import Outcomes, ParticipantError
from meritfair.programme.ledger.canonical import sha256
from meritfair.programme.ledger.entries import NO_HASH
from meritfair.programme.state import COMMITTED, FORGOTTEN
from meritfair.programme.work import Work

_COLUMNS = ("before", "action", "after")  # in the order of what was seen in a round


@dataclass(frozen=True)
class Receipt:
    """What came of a change.

    Attributes
    ----------
    what : str
        The kind of entry.
    round : int
        The round that it is about; the last one, if it is about none.
    taken : int
        How many participants something new is known of.
    repeated : int
        How many rows said what was known already.
    overrides : int
        How many were reached without being drawn.
    entries : int
        How many entries were added to the ledger.
    head : str
        The hash of the last entry.
    warning : str
        What was noticed, such as a clock that is behind; empty if nothing was.
    """

    what: str
    round: int
    taken: int
    repeated: int
    overrides: int
    entries: int
    head: str
    warning: str = ""


def report(work: Work, outcomes: Outcomes, round_: int | None, by: str) -> Receipt:
    """Take in what was done and seen in a round."""
    number, numbers, order = _checked(work, outcomes, round_)
    seen = work.state.seen(number)[:, numbers]
    columns = _ordered(outcomes, order)
    for place, name in enumerate(_COLUMNS, start=1):
        old, new = seen[place], columns[name]
        against = np.flatnonzero((old >= 0) & (new >= 0) & (old != new))
        if len(against):
            row = order[against[0]]
            raise ParticipantError(
                f"{_words(name)} of {outcomes.ids[row]!r} in round {number} was reported as {old[against[0]]}, not "
                f"{new[against[0]]}: correct it if that was wrong; nothing of this report was taken in",
                row,
                name,
            )
    news = np.zeros(len(numbers), np.bool_)
    for place, name in enumerate(_COLUMNS, start=1):
        news |= (columns[name] >= 0) & (seen[place] < 0)
    override = (columns["action"] == 1) & (seen[0] == 0) & news
    notes = _notes(outcomes, order, override & (seen[2] < 0), by)
    kept = np.flatnonzero(news)
    if len(kept):
        _append(work, "report", {"round": number}, numbers, columns, notes, kept, by)
    taken = len(kept)
    return receipt(work, "report", number, taken, len(numbers) - taken, int(override[kept].sum()), int(taken > 0))


def correct(work: Work, outcomes: Outcomes, round_: int | None, reason: str, by: str) -> Receipt:
    """Put other values in the place of what was reported of a round."""
    if not reason.strip():
        raise InputError("a correction needs a reason")
    number, numbers, order = _checked(work, outcomes, round_)
    seen, columns = work.state.seen(number)[:, numbers], _ordered(outcomes, order)
    news = np.zeros(len(numbers), np.bool_)
    for place, name in enumerate(_COLUMNS, start=1):
        new = columns[name]
        news |= (new >= 0) & (seen[place] != new) | (new == FORGOTTEN) & (seen[place] >= 0)
    override = (columns["action"] == 1) & (seen[0] == 0) & (seen[2] != 1)
    kept = np.flatnonzero(news)
    if len(kept):
        notes = _notes(outcomes, order, override, by, usual=reason)
        body = {"round": number, "reason": reason.strip()}
        _append(work, "correct", body, numbers, columns, notes, kept, by)
    taken = len(kept)
    return receipt(work, "correct", number, taken, len(numbers) - taken, int(override[kept].sum()), int(taken > 0))


def receipt(
    work: Work, what: str, round_: int, taken: int = 0, repeated: int = 0, overrides: int = 0, entries: int = 1
) -> Receipt:
    """Return what came of a change, with the head of the ledger."""
    return Receipt(what, round_, taken, repeated, overrides, entries, work.session.head.hex(), work.warning)


def _checked(work: Work, outcomes: Outcomes, round_: int | None) -> tuple[int, IntArray, IntArray]:
    """Return the round, and the participants in order of their numbers, with their places in what was handed in."""
    summary = work.state.summary
    last = summary.round - (summary.phase == COMMITTED)
    if last == 0:
        raise InputError("there is no round to report on yet")
    number = last if round_ is None else check_whole("round", round_, 1, last, f"{last}, the last one drawn")
    if not len(outcomes):
        raise InputError("nothing is reported")
    numbers = work.numbers(outcomes.ids)
    order = np.argsort(numbers)
    outside = np.flatnonzero(work.state.seen(number)[0, numbers] < 0)
    if len(outside):
        problem = f"the participant {outcomes.ids[outside[0]]!r} was not enrolled in round {number}"
        raise ParticipantError(problem, outside[0])
    return number, numbers[order], order


def _ordered(outcomes: Outcomes, order: IntArray) -> dict[str, IntArray]:
    return {name: getattr(outcomes, name)[order] for name in _COLUMNS}


def _words(name: str) -> str:
    return {"before": "the state before", "action": "the action", "after": "the state"}[name]


def _notes(outcomes: Outcomes, order: IntArray, override: BoolArray, by: str, usual: str = "") -> dict[int, str]:
    """Return the reasons by row; refuse an override that has none, or was made by nobody."""
    notes = {}
    for row in np.flatnonzero(override):
        id_ = outcomes.ids[order[row]]
        reason = str(outcomes.reasons.get(id_, usual)).strip()
        if not reason or not by.strip():
            missing = "a reason" if not reason else "the name of who reports it"
            problem = f"{id_!r} was reached without being drawn: such an override needs {missing}"
            raise ParticipantError(problem, order[row], "action" if reason else "reason")
        notes[int(row)] = reason
    return notes


def _append(
    work: Work,
    kind: str,
    body: dict[str, Any],
    numbers: IntArray,
    columns: dict[str, IntArray],
    notes: dict[int, str],
    kept: IntArray,
    by: str,
) -> None:
    """Add the entry, and keep the reasons beside it."""
    salts = (
        {each.number: each.salt for each in work.session.people([int(numbers[row]) for row in notes])} if notes else {}
    )
    hashes = [NO_HASH] * len(kept)
    for place, row in enumerate(kept.tolist()):
        if row in notes:
            hashes[place] = note_hash(salts[int(numbers[row])] or b"", notes[row])
    table = {"number": numbers[kept], **{name: columns[name][kept] for name in _COLUMNS}, "note": hashes}
    entry = work.append(kind, body, table, by)
    if notes:
        work.session.add_notes(entry.seq, {int(numbers[row]): text for row, text in notes.items()})


def note_hash(salt: bytes, text: str) -> bytes:
    """Return what the ledger has of a reason."""
    return sha256(salt, b"note", text.encode())
