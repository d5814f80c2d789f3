"""A round as its page shows it: the list of those drawn, what is known of each, and what is still missing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from meritfair.core.errors import InputError
from meritfair.core.language import _
from meritfair.programme.inputs import Outcomes
from meritfair.programme.listing import PersonLine
from meritfair.programme.reading import RoundOutcome, Snapshot
from meritfair.programme.rounds import Round
from meritfair.programme.state import CLOSED, FORGOTTEN, OPEN

ON_A_PAGE = 100
# What a tap says: whether the person was reached, and their state; None is not said.
TAPS: dict[str, tuple[int | None, int | None]] = {
    "good": (1, 1),
    "bad": (1, 0),
    "reached": (1, None),
    "missed": (0, None),
    "state-good": (None, 1),
    "state-bad": (None, 0),
}
_CORRECTED = {"yes": 1, "no": 0, "unknown": FORGOTTEN}


@dataclass(frozen=True)
class RoundState:
    """How a round stands.

    Attributes
    ----------
    look : Snapshot
    number : int
    drawn, missing : int
        How many were drawn, and of how many of them it is not known yet whether they were reached.
    """

    look: Snapshot
    number: int
    drawn: int
    missing: int

    @property
    def phase(self) -> str:
        """The phase of the round."""
        return self.look.status.phase if self.is_last else CLOSED

    @property
    def is_last(self) -> bool:
        """Whether it is the last round so far."""
        return self.number == self.look.status.round

    @property
    def is_open(self) -> bool:
        """Whether it can be closed."""
        return self.phase == OPEN

    @property
    def may_draw(self) -> bool:
        """Whether the next round can be drawn."""
        return self.is_last and self.phase == CLOSED and not self.look.status.ended

    @property
    def done(self) -> int:
        """Of how many of those drawn it is known whether they were reached."""
        return self.drawn - self.missing


@dataclass(frozen=True)
class RoundPage:
    """A page of the list of a round.

    Attributes
    ----------
    round : Round
    calls : tuple of RoundOutcome
        Those who are listed: drawn, of the staff and kind that was asked for.
    others : tuple of RoundOutcome
        Those who were reached without being drawn.
    staff : tuple of str
        Who calls those who were drawn.
    chosen, only_missing, start, total
        What was asked for: one member of staff, those that are missing alone, from which line on; and how many that is.
    last_seen : mapping of int to PersonLine
        By number, what is known of those listed; of the last round alone, as it is what is known now.
    """

    round: Round
    calls: tuple[RoundOutcome, ...]
    others: tuple[RoundOutcome, ...]
    staff: tuple[str, ...]
    chosen: str
    only_missing: bool
    start: int
    total: int
    last_seen: Mapping[int, PersonLine]


def round_state(look: Snapshot, number: int | None = None) -> RoundState:
    """Return how a round stands, by default the last one."""
    found = look.status.round if number is None else number
    drawn, known = look.progress(found)
    return RoundState(look, found, drawn, drawn - known)


def round_page(state: RoundState, *, staff: str = "", only_missing: bool = False, start: int = 0) -> RoundPage:
    """Return a page of the list of a round."""
    look = state.look
    outcomes = look.outcomes(state.number)
    drawn = [each for each in outcomes if each.drawn]
    listed = [each for each in drawn if staff in ("", each.staff) and (not only_missing or each.action < 0)]
    shown = tuple(listed[start : start + ON_A_PAGE])
    known = look.lines([each.number for each in shown]) if state.is_last else ()
    return RoundPage(
        round=look.round(state.number),
        calls=shown,
        others=tuple(each for each in outcomes if not each.drawn),
        staff=tuple(sorted({each.staff for each in drawn} - {""})),
        chosen=staff,
        only_missing=only_missing,
        start=start,
        total=len(listed),
        last_seen={each.number: each for each in known},
    )


def tapped(id_: str, tap: str, reason: str = "") -> Outcomes:
    """Return what a tap says of someone."""
    if tap not in TAPS:
        raise InputError(f"an outcome is one of {', '.join(TAPS)}, got {tap!r}")
    action, after = TAPS[tap]
    return Outcomes([id_], [action], [after], reasons={id_: reason} if reason.strip() else {})


def corrected(id_: str, action: str, state: str) -> Outcomes:
    """Return what a correction says of someone: yes, no or unknown, or empty to leave it as it is."""
    for name, value in (("action", action), ("state", state)):
        if value and value not in _CORRECTED:
            raise InputError(f"{name} is one of {', '.join(_CORRECTED)}, or empty, got {value!r}")
    return Outcomes([id_], [_CORRECTED.get(action)], [_CORRECTED.get(state)], forgets=True)


def outcome_words(outcome: RoundOutcome) -> str:
    """Return in words what is known of someone, such as "Reached, good"."""
    action = {1: _("Reached"), 0: _("Not reached")}.get(outcome.action, _("Not reported yet"))
    state = {1: _("good"), 0: _("bad")}.get(outcome.after, "")
    return f"{action}, {state}" if state else action
