"""Back through the ledger: entries with their tables, and what was known before one of them.

Tables are read without working out their Merkle roots, which is what takes long: the database has checked their bytes,
and whether they are those that the ledger was made with is for `verify` to say.
"""

from __future__ import annotations

from collections.abc import Iterator

from meritfair.core.checks import check_whole
from meritfair.programme.columns import Columns
from meritfair.programme.ledger.entries import Entry
from meritfair.programme.ledger.rowtable import RowTable
from meritfair.programme.state import State
from meritfair.programme.work import Work


def entries_of(work: Work, stop: int | None = None) -> Iterator[tuple[Entry, RowTable | None]]:
    """Yield the entries from the first on, before the one at `stop`, each with its table."""
    for seq, data, _ in work.session.entries(0, stop):
        entry = Entry.from_bytes(data)
        rows = None if entry.table is None else work.session.rows(seq)
        yield (
            entry,
            None if entry.table is None or rows is None else RowTable.from_bytes(entry.table, rows, check=False),
        )


def state_before(work: Work, seq: int) -> State:
    """Return what followed from the entries before one of them."""
    state = State(Columns())
    for entry, table in entries_of(work, seq):
        state.apply(entry, table)
    return state


def end_of_round(work: Work, round_: int) -> int:
    """Return how many entries there were when the round after this one was committed; all, if it was not yet."""
    summary = work.state.summary
    check_whole("round", round_, 0, summary.round, f"{summary.round}, the last one")
    return summary.commits[round_] if round_ < summary.round else work.session.length
