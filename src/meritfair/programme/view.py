"""A programme as of one entry of its ledger, to look at, wherever it comes from.

`Work` reads from the database within one transaction; `LoadedProgramme` has most of it in memory, for a server. What is
shown of a programme (a round, a person, how it stands) is worked out from either, by the same functions.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from meritfair.core.arrays import IntArray
from meritfair.core.checks import check_whole
from meritfair.core.language import _
from meritfair.programme.columns import Columns
from meritfair.programme.ledger.entries import Entry
from meritfair.programme.ledger.rowtable import RowTable
from meritfair.programme.state import State
from meritfair.programme.tallies import RoundTally

if TYPE_CHECKING:
    from meritfair.programme.showing.before_round import BeforeRound


NO_GROUP = "(none)"  # the group of those who have none, where others have one


class Texts(NamedTuple):
    """What is kept of someone in words; of those who were erased there is nothing."""

    id: str
    group: str
    staff: str


def without_name(number: int) -> str:
    """Return what someone is called who was erased.

    Examples
    --------
    >>> without_name(17)
    'participant 17'
    """
    return _("participant {number}").format(number=number)


class ProgrammeView(ABC):
    """A programme as of one entry of its ledger.

    Attributes
    ----------
    state : State
        What follows from the entries.
    """

    state: State

    @property
    @abstractmethod
    def name(self) -> str:
        """The programme's name."""

    @property
    @abstractmethod
    def identity(self) -> str:
        """The programme's identity, 32 hexadecimal digits."""

    @property
    @abstractmethod
    def length(self) -> int:
        """How many entries there are."""

    @property
    @abstractmethod
    def head(self) -> bytes:
        """The hash of the last entry."""

    # ---- the ledger

    @abstractmethod
    def heads(self, start: int = 0, stop: int | None = None) -> Iterator[tuple[Entry, bytes]]:
        """Yield the entries from `start` on, before `stop`, without their tables, each with its hash."""

    @abstractmethod
    def entry(self, seq: int) -> tuple[Entry, RowTable | None]:
        """Return an entry and its table; that it is as it was written, the store has checked."""

    @abstractmethod
    def entries(self, start: int = 0, stop: int | None = None) -> Iterator[tuple[Entry, RowTable | None]]:
        """Yield the entries from `start` on, before `stop`, each with its table."""

    def entries_about(self, number: int, stop: int) -> Iterator[tuple[Entry, RowTable | None]]:  # noqa: ARG002
        """Yield the entries before `stop` that may say something of a participant, and the last one in any case."""
        return self.entries(0, stop)

    def end_of_round(self, round_: int) -> int:
        """Return how many entries there were when the round after this one was committed; all, if it was not yet."""
        summary = self.state.summary
        check_whole("round", round_, 0, summary.round, f"{summary.round}, the last one")
        return summary.commits[round_] if round_ < summary.round else self.length

    def tally(self, round_: int) -> RoundTally:
        """Return how many were drawn and reported in a round."""
        return RoundTally.of(self.state.seen(round_))

    def state_before(self, seq: int) -> State:
        """Return what followed from the entries before one of them."""
        state = State(Columns())
        for entry, table in self.entries(0, seq):
            state.apply(entry, table)
        return state

    def before_round(self, seq: int, state: State) -> BeforeRound:  # noqa: ARG002
        """Return how everyone stood before the next round, by the first `seq` entries, from which `state` follows."""
        from meritfair.programme.showing.before_round import BeforeRound

        return BeforeRound(state, self.identity)

    # ---- who is who

    @abstractmethod
    def numbers(self, ids: Sequence[str], *, enrolled: bool = False) -> IntArray:
        """Return the numbers of participants; refuse someone who is not known, or not enrolled."""

    @abstractmethod
    def texts(self, numbers: Sequence[int]) -> dict[int, Texts]:
        """Return who these participants are, by number, without those who were erased."""

    @abstractmethod
    def notes(self, number: int) -> dict[int, str]:
        """Return the reasons that were given about a participant, by entry."""
