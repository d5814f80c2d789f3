"""How a programme stands: what a coordinator wants to see first."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from meritfair.core.language import _, current
from meritfair.model.rules import budget_text
from meritfair.programme.ledger.lottery import ONE
from meritfair.programme.state import CLOSED, COMMITTED, OPEN
from meritfair.programme.tallies import RoundTally, drawn_rounds
from meritfair.programme.view import ProgrammeView


@dataclass(frozen=True)
class Status:
    """How a programme stands.

    Attributes
    ----------
    name, head, time : str
        Its name, the hash of its last entry, and when that was made.
    entries : int
    round : int
        The last round.
    phase : {"closed", "committed", "open"}
        Of that round.
    ended : bool
    enrolled, away, left : int
        How many take part, how many of them are away, and how many have left.
    drawn, reported, states : int
        In the last round: how many were drawn, of how many of them it is known what was done, and of how many
        participants the state after it is known.
    overdue : int
        Of the rounds before, how many draws have no report.
    largest_account : float
        The account farthest from 0, in pulls: above 0 someone is owed something.
    policy, budget, rules, source : str
    unchecked : int
        Draws on public values that no program can check.
    """

    name: str
    head: str
    time: str
    entries: int
    round: int
    phase: str
    ended: bool
    enrolled: int
    away: int
    left: int
    drawn: int
    reported: int
    states: int
    overdue: int
    largest_account: float
    policy: str
    budget: str
    rules: str
    source: str
    unchecked: int

    @property
    def next_step(self) -> str:
        """What to do next, in words."""
        if self.ended:
            return _("The programme has ended.")
        if self.enrolled == 0:
            return _("Enrol participants.")
        if self.phase == COMMITTED:
            said = _("Round {round} waits for its public value: draw with that value.")
        elif self.phase == OPEN and self.drawn > self.reported:
            said = _("Report on {missing} more who were drawn, or close round {round}.")
        elif self.phase == OPEN:
            said = _("Close round {round}.")
        else:
            return _("Draw round {round}.").format(round=self.round + 1)
        return said.format(round=self.round, missing=current().decimal(self.drawn - self.reported))


def status_of(view: ProgrammeView) -> Status:
    """Return how a programme stands."""
    state = view.state
    summary, here, account = state.summary, state.here, state.account
    last, overdue = RoundTally(0, 0, 0), 0
    for number in drawn_rounds(state):
        last = view.tally(number)
        if number < summary.round or summary.phase == CLOSED:
            overdue += last.drawn - last.reported
    parts = state.settings.parts
    largest = account[np.argmax(np.abs(account))] / ONE if len(account) else 0.0
    return Status(
        name=view.name,
        head=view.head.hex(),
        time=summary.time,
        entries=view.length,
        round=summary.round,
        phase=summary.phase,
        ended=summary.ended,
        enrolled=int(here.sum()),
        away=int((here & state.away).sum()),
        left=int(state.people - here.sum()),
        drawn=last.drawn,
        reported=last.reported,
        states=last.states,
        overdue=overdue,
        largest_account=float(largest),
        policy="; ".join(f"{part.name}: {part.policy.name}" if part.name else part.policy.name for part in parts),
        budget="; ".join(budget_text(part.budget) for part in parts),
        rules=str(state.settings.rules),
        source=state.settings.source,
        unchecked=summary.unchecked,
    )
