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
class RoundView:
    """A round, and a page of its list.

    Attributes
    ----------
    look : Snapshot
    round : Round
    calls : tuple of RoundOutcome
        Those who are listed: drawn, of the staff and kind that was asked for.
    others : tuple of RoundOutcome
        Those who were reached without being drawn.
    drawn, missing : int
        How many were drawn, and of how many of them it is not known yet whether they were reached.
    staff : tuple of str
        Who calls those who were drawn.
    chosen, only_missing, start, total
        What was asked for: one member of staff, those that are missing alone, from which line on; and how many that is.
    last_seen : mapping of int to PersonLine
        By number, what is known of those listed; of the last round alone, as it is what is known now.
    """

    look: Snapshot
    round: Round
    calls: tuple[RoundOutcome, ...]
    others: tuple[RoundOutcome, ...]
    drawn: int
    missing: int
    staff: tuple[str, ...]
    chosen: str
    only_missing: bool
    start: int
    total: int
    last_seen: Mapping[int, PersonLine]

    @property
    def is_last(self) -> bool:
        """Whether it is the last round so far."""
        return self.round.number == self.look.status.round

    @property
    def is_open(self) -> bool:
        """Whether it can be closed."""
        return self.round.phase == OPEN

    @property
    def may_draw(self) -> bool:
        """Whether the next round can be drawn."""
        return self.is_last and self.round.phase == CLOSED and not self.look.status.ended

    @property
    def done(self) -> int:
        """Of how many of those drawn it is known whether they were reached."""
        return self.drawn - self.missing


def round_view(
    look: Snapshot, number: int | None = None, *, staff: str = "", only_missing: bool = False, start: int = 0
) -> RoundView:
    """Return a round, by default the last one."""
    found = look.round(number)
    outcomes = look.outcomes(found.number)
    drawn = [each for each in outcomes if each.drawn]
    missing = sum(each.action < 0 for each in drawn)
    listed = [each for each in drawn if staff in ("", each.staff) and (not only_missing or each.action < 0)]
    shown = tuple(listed[start : start + ON_A_PAGE])
    is_last = found.number == look.status.round
    return RoundView(
        look=look,
        round=found,
        calls=shown,
        others=tuple(each for each in outcomes if not each.drawn),
        drawn=len(drawn),
        missing=missing,
        staff=tuple(sorted({each.staff for each in drawn} - {""})),
        chosen=staff,
        only_missing=only_missing,
        start=start,
        total=len(listed),
        last_seen={each.number: each for each in look.lines([one.number for one in shown])} if is_last else {},
    )


def outcome_of(look: Snapshot, round_: int, number: int) -> RoundOutcome:
    """Return what is known of someone in a round, by their number in the ledger."""
    for each in look.outcomes(round_):
        if each.number == number:
            return each
    said = _("participant {number} was not drawn in round {round}, nor reached otherwise")
    raise InputError(said.format(number=number, round=round_))


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
