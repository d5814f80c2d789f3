r"""The timed lottery: what each arm is due by a lottery, given when a pull helps most.

At each step a lottery says what every arm is due, :math:`e_i`. What it is given, :math:`x_i`, depends on its state and
on its account :math:`d_i`, what it was due less what it was given so far: :mod:`meritfair.model.accounts` says how. K
arms are drawn with exactly the given exposures. So nobody is ever ahead or behind by more than `slack` pulls, whatever
the states do, and however wrong the estimates are. With a slack of 0 it is the lottery itself. What is due is not
bounded by it: that follows from outcomes as they are reported.

Where a state is not known, what is wanted is the mean over both states by how likely each is: of the log odds, and of
the bounds between which arms are given something to learn from. Neither what is due nor how accounts are kept depends
on it, so they stay within the slack.

Where a rule forbids to pull someone who is due something, accounts can leave the slack. They are then brought to one
level, so that those come back first who are farthest beyond it; docs/theory.md says what is guaranteed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from meritfair.core.arrays import FloatArray
from meritfair.core.checks import probabilities
from meritfair.core.errors import InputError
from meritfair.engine.rules import SEQUENTIAL
from meritfair.model.accounts import account_pull, check_slack, given_exposure, wanted_odds
from meritfair.model.draws import draw_exposures
from meritfair.policies.drawing import Situation, Step, at_belief
from meritfair.policies.plans import Lottery, Plan, StepFunctions


@dataclass(frozen=True)
class TimedLottery(Plan):
    """Give each arm what it is due by a lottery, when a pull helps most.

    Parameters
    ----------
    lottery : Lottery
        Says what each arm is due at a step; its design must be ``exact`` or ``systematic``.
    transitions : ndarray, shape (..., N, 2, 2), optional
        The arms, known or estimated, for which the exposures by state are chosen (`state_exposure`). Without them
        states do not matter.
    slack : float
        How far an account may be from 0, in pulls; infinity is no limit.
    explore : float or ndarray, shape (..., N, 2, 2)
        How much of each state and action is to be seen, as a part of what the lottery sees, from 0 to 1. An arm that is
        due e and in state s is given at least ``explore[s, 1] * e`` and at most ``1 - explore[s, 0] * (1 - e)``.

    Examples
    --------
    Two arms that a pull helps in the bad state alone; the first is in it.

    >>> arms = np.array([[[0.1, 0.9], [0.9, 0.9]]] * 2)
    >>> plan = TimedLottery(Lottery([1.0, 1.0], "exact"), arms, slack=1.0)
    >>> plan.exposure(1)  # what is due
    array([0.5, 0.5])
    >>> now = Situation.start(("Ada", "Bo"), states=np.array([0, 1]))
    >>> plan.play(now, 1, np.random.default_rng(1)).exposure.round(2)
    array([1., 0.])
    """

    lottery: Lottery
    transitions: FloatArray | None = None
    slack: float = 0.0
    explore: npt.ArrayLike = 0.0

    def __post_init__(self) -> None:
        if not isinstance(self.lottery, Lottery):
            raise InputError(f"lottery must be a Lottery, got {self.lottery!r}")
        if self.lottery.drawn_by == SEQUENTIAL:
            raise InputError("a timed lottery needs the design 'exact' or 'systematic': accounts need exact draws")
        object.__setattr__(self, "slack", check_slack(self.slack))
        explore = probabilities("explore", self.explore)
        object.__setattr__(self, "explore", float(explore) if explore.ndim == 0 else explore)
        if explore.ndim:
            self._check_shape("explore", explore.shape, (2, 2))
        if self.transitions is not None:
            object.__setattr__(self, "transitions", probabilities("transitions", self.transitions))
            self._check_shape("transitions", np.shape(self.transitions), (2, 2))

    def _check_shape(self, name: str, found: tuple[int, ...], own: tuple[int, ...]) -> None:
        if found not in ((*self.shape, *own), (self.n_arms, *own)):
            raise InputError(f"{name} must have shape {(*self.shape, *own)}, got {found}")

    @property
    def shape(self) -> tuple[int, ...]:
        return self.lottery.shape

    def check(self, n_arms: int, budget: int, runs: tuple[int, ...] = ()) -> None:
        self.lottery.check(n_arms, budget, runs)

    def share(self, budget: int) -> FloatArray:
        return self.lottery.share(budget)

    def exposure(self, budget: int) -> FloatArray:
        return self.lottery.exposure(budget)

    @property
    def drawn_by(self) -> int:
        return self.lottery.drawn_by

    @property
    def looks_at_states(self) -> bool:
        return self.transitions is not None

    @property
    def point(self) -> FloatArray | None:
        return self.transitions

    def step_functions(self, memory: FloatArray | None, *, restricted: bool = False) -> StepFunctions:  # noqa: ARG002
        from meritfair.engine.timed import play_timed

        cells = np.zeros((*self.shape, 2, 2))
        point, explore = (
            np.moveaxis(cells + np.asarray(each), -3, -1)
            for each in (0.0 if self.transitions is None else self.transitions, self.explore)
        )
        rows = (self.lottery.merit, self.lottery.floor, self.lottery.cap, point, explore)
        how = (self.slack, account_pull(self.slack), self.drawn_by, self.looks_at_states)
        return StepFunctions(play_timed, np.zeros((self.n_arms, 1)), timing=(*rows, *how))

    def belief_functions(self, memory: FloatArray | None) -> StepFunctions:
        from meritfair.engine.partial import play_timed_on_beliefs

        return self.step_functions(memory)._replace(play=play_timed_on_beliefs)

    def play(self, now: Situation, budget: int, rng: np.random.Generator) -> Step:
        most = min(budget, int(now.free.sum()))
        due = _in_all(self.lottery.due(now.entitled, budget, now.most_due), most)
        odds, least, most_given = self._wanted(due, now)
        given = given_exposure(odds, now.account, due, self.slack, most, now.free, least, most_given)
        pulled = draw_exposures(given, rng=rng, design=self.lottery.design)[0]
        return Step(given, pulled, now.memory, due)

    def _wanted(self, due: FloatArray, now: Situation) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the odds that are wanted for each arm at its belief, and between which bounds.

        The logarithm of the odds, and both bounds, are means over its states.
        """
        odds, belief = wanted_odds(self.transitions, due), now.belief
        cells = np.broadcast_to(np.asarray(self.explore), (len(due), 2, 2))
        cells = at_belief(cells[:, 0], cells[:, 1], belief[:, None])
        return _odds_at(odds[:, 0], odds[:, 1], belief), cells[:, 1] * due, 1 - cells[:, 0] * (1 - due)


def _odds_at(bad: FloatArray, good: FloatArray, belief: FloatArray) -> FloatArray:
    """Return the odds between those of both states, whose logarithm is the mean."""
    between = np.exp((1 - belief) * np.log(bad) + belief * np.log(good))
    return np.where((belief == 0) | (bad == good), bad, np.where(belief == 1, good, between))


def _in_all(due: FloatArray, number: int) -> FloatArray:
    """Return what is due, in the same proportions, if just as much is due in all as can be given."""
    total = due.sum()
    return np.minimum(due * (number / total), 1.0) if total > 0 else due


def with_accounts(plan: Plan) -> Plan:
    """Return a plan as it is played where arms have accounts: a lottery then makes up for what was missed.

    A sequential draw cannot, unless all arms are alike, as it then has the exposures of an exact one.
    """
    if not isinstance(plan, Lottery):
        return plan
    if plan.drawn_by != SEQUENTIAL:
        return TimedLottery(plan)
    alike = not np.ptp(plan.merit, axis=-1).any()
    return TimedLottery(replace(plan, design="exact")) if alike else plan


def slack_setting(slack: Any, design: str) -> float:
    """Return the slack of a policy that draws by this design, if it can have one; in files infinity is a text."""
    number = check_slack(math.inf if isinstance(slack, str) and slack == "inf" else slack)
    if number > 0 and design == "sequential":
        raise InputError(
            f"slack needs another design than 'sequential', got slack={number:g}: type design='exact' beside it"
        )
    return number
