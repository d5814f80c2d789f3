r"""Rules of a programme: who may be pulled in a round, and who is due something in it.

A rule never fails in the middle of a programme. Where it stands against what an arm is due, the rule wins, and the
arm's account, what it was due less what it was given, says by how much.

With a cool-down of c rounds an arm can be pulled in a part r of all rounds at most, so it is due at most

.. math:: e_i(t) \le \min\Big(1, r\,\frac{K_t}{\bar K}\Big) ,

where :math:`K_t` is the budget of the round and :math:`\bar K` its mean over all rounds. If the budget is always the
same, that is r = 1/(1 + c). It is less if an arm may have to wait longer for a round with a budget: r is how often an
arm is pulled that is pulled whenever it may be. In all, just as much is due in a round as can be given in it, so that
accounts sum to 0: if fewer than :math:`K_t` arms may be pulled, what is due is reduced in proportion. If that few are
left that the bound cannot hold, all are due the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from meritfair.core.arrays import BoolArray, FloatArray, IntArray
from meritfair.core.checks import check_budget, check_flag, check_kind, check_settings, check_whole
from meritfair.core.errors import InputError
from meritfair.model.allocation import fitting_bounds
from meritfair.model.criterion import Criterion, plain
from meritfair.model.exposure import fair_exposure

Budget = int | tuple[int, ...]  # the same in all rounds, or one for each of some rounds, which repeat
_MOST_ROUNDS = 1_000_000_000


class Standing(NamedTuple):
    """How the arms stand in a round, each of shape (N,)."""

    free: BoolArray  # who may be pulled
    entitled: BoolArray  # who is due something


@dataclass(frozen=True)
class Rules:
    """Who may be pulled, besides those who are away.

    Parameters
    ----------
    cooldown : int
        Rounds after a pull in which an arm may not be pulled. Meanwhile it is due what it was, so it loses nothing.
    warmup : int
        Rounds before a newcomer is pulled; nothing is due in them.
    once : bool
        Whether each arm is pulled at most once; afterwards nothing is due.
    accrue : bool
        Whether those who are away are due what they would be if they were there. Otherwise they are due nothing.

    Examples
    --------
    >>> Rules(cooldown=2)
    Rules(cooldown=2, warmup=0, once=False, accrue=False)
    >>> bool(Rules()), bool(Rules(once=True))
    (False, True)
    >>> print(Rules(cooldown=2, once=True))
    cooldown 2, once
    """

    cooldown: int = 0
    warmup: int = 0
    once: bool = False
    accrue: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "cooldown", check_whole("cooldown", self.cooldown, 0, _MOST_ROUNDS))
        object.__setattr__(self, "warmup", check_whole("warmup", self.warmup, 0, _MOST_ROUNDS))
        object.__setattr__(self, "once", check_flag("once", self.once))
        object.__setattr__(self, "accrue", check_flag("accrue", self.accrue))

    def __bool__(self) -> bool:
        return self != Rules()

    def __str__(self) -> str:
        """Return the rules that there are, in one line; without any it is empty."""
        return ", ".join(
            name if value is True else f"{name} {value}" for name, value in self.settings().items() if value
        )

    def settings(self) -> dict[str, Any]:
        """Return the rules as plain values, as files have them."""
        return plain(self)

    @classmethod
    def from_settings(cls, settings: Any) -> Rules:
        """Return the rules that `settings` has described; None stands for no rule."""
        if settings is None:
            return cls()
        given = dict(check_kind("rules", settings, Mapping))  # type: ignore[type-abstract]
        check_settings("rules", given, cls().settings())
        return cls(**given)

    @property
    def needs_accounts(self) -> bool:
        """Whether an arm may be due something in a round in which it may not be pulled."""
        return self.cooldown > 0 or self.accrue

    def check(self, n_arms: int, budget: Budget, criterion: Criterion | None = None) -> None:
        """Refuse rules under which this budget cannot be spent, or which draws by this criterion cannot keep."""
        cycle = (budget,) if isinstance(budget, int) else budget
        most = _largest_sum(cycle, 1 + self.cooldown)
        if self.cooldown and most > n_arms:
            raise InputError(
                f"with a cooldown of {self.cooldown}, {most} different arms are pulled in {1 + self.cooldown} rounds, "
                f"but there are {n_arms}: the cooldown or the budget must be lower"
            )
        if self.needs_accounts and criterion is not None and criterion.design == "sequential":
            rule = "cooldown" if self.cooldown else "accrue"
            raise InputError(
                f"{rule} needs the design 'exact' or 'systematic': a sequential draw cannot make up for missed rounds"
            )

    def standing(self, present: BoolArray, last_pull: IntArray, joined: IntArray, number: int) -> Standing:
        """Return who may be pulled in a round, and who is due something.

        Parameters
        ----------
        present : ndarray of bool, shape (N,)
        last_pull : ndarray of int, shape (N,)
            The round in which each was last pulled, 0 if never.
        joined : ndarray of int, shape (N,)
            How many rounds there were before each joined.
        number : int
            The number of the round, from 1.

        Examples
        --------
        >>> everyone = np.ones(4, np.bool_)
        >>> Rules(cooldown=1, warmup=2).standing(everyone, np.array([8, 9, 0, 0]), np.array([0, 0, 8, 7]), 10)
        Standing(free=array([ True, False, False,  True]), entitled=array([ True,  True, False,  True]))
        """
        if not self:
            return Standing(present, present)
        counts = joined + self.warmup < number
        if self.once:
            counts &= last_pull == 0
        rested = (last_pull == 0) | (last_pull + self.cooldown < number)
        return Standing(present & counts & rested, counts if self.accrue else present & counts)

    def fair_exposure(self, merit: FloatArray, criterion: Criterion, budget: Budget) -> FloatArray:
        """Return the mean exposure that arms of these merits are due, shape (..., N), over the rounds of a budget.

        Who has been pulled once, if that is all, counts as if they could be pulled again.

        Examples
        --------
        >>> Rules(cooldown=1).fair_exposure(np.array([9.0, 1.0, 1.0, 1.0]), Criterion(design="exact"), 1)
        array([0.5       , 0.16666667, 0.16666667, 0.16666667])
        """
        cycle = (budget,) if isinstance(budget, int) else budget
        if len(cycle) == 1 and not self.cooldown:
            return criterion.exposure(merit, cycle[0])
        due = {each: self._due(merit, criterion, each, cycle) for each in set(cycle)}
        return np.asarray(np.mean([due[each] for each in cycle], axis=0))

    def _due(self, merit: FloatArray, criterion: Criterion, budget: int, cycle: tuple[int, ...]) -> FloatArray:
        """Return what is due in a round with this budget."""
        if budget == 0:
            return np.zeros(merit.shape)
        if criterion.design == "sequential":
            return criterion.exposure(merit, budget)
        floor, cap = (np.broadcast_to(np.asarray(each), merit.shape[-1:]) for each in (criterion.floor, criterion.cap))
        floor, cap = fitting_bounds(floor, cap, budget, self.most_due(budget, cycle))
        return fair_exposure(merit, budget, criterion.design, floor=floor, cap=cap)

    def most_due(self, budget: int, cycle: tuple[int, ...]) -> float:
        """Return the most exposure that an arm is due in a round with this budget, one of the budgets that repeat.

        Examples
        --------
        >>> Rules(cooldown=3).most_due(2, (2,)), Rules().most_due(2, (2,))
        (0.25, 1.0)
        """
        return min(1.0, budget * len(cycle) / sum(cycle) * self.most_often(cycle)) if self.cooldown else 1.0

    def most_often(self, cycle: tuple[int, ...]) -> float:
        """Return in which part of all rounds an arm is pulled that is pulled whenever it may be.

        Examples
        --------
        >>> Rules(cooldown=1).most_often((4,)), Rules(cooldown=1).most_often((4, 4, 4, 0, 0))
        (0.5, 0.4)
        """
        return _most_often(tuple(each > 0 for each in cycle), self.cooldown)


@cache
def _most_often(open_: tuple[bool, ...], cooldown: int) -> float:
    """Return how often an arm is pulled in a round, if it is pulled as early as can be in those that are open.

    From where it is pulled in the cycle follows where it is pulled next. So after at most as many pulls as the cycle
    has rounds it comes to the same places again and again, and it is the same rate wherever it begins.
    """
    length, place, rounds = len(open_), open_.index(True), 0
    seen: dict[int, tuple[int, int]] = {}
    while place not in seen:
        seen[place] = len(seen), rounds
        rested = (place + 1 + cooldown) % length
        waits = next(k for k in range(length) if open_[(rested + k) % length])
        place, rounds = (rested + waits) % length, rounds + 1 + cooldown + waits
    pulls_before, rounds_before = seen[place]
    return (len(seen) - pulls_before) / (rounds - rounds_before)


def _largest_sum(cycle: tuple[int, ...], rounds: int) -> int:
    """Return the largest sum of that many consecutive numbers of a cycle."""
    whole, rest = divmod(rounds, len(cycle))
    return whole * sum(cycle) + max(int(np.sum(np.roll(cycle, -first)[:rest])) for first in range(len(cycle)))


def check_rules(rules: Any) -> Rules:
    """Return the rules that are given, none if it is None."""
    return Rules() if rules is None else check_kind("rules", rules, Rules)


def check_budgets(budget: Any, n_arms: int) -> Budget:
    """Return the budget of all rounds, or the budgets of rounds that repeat, if that many arms can be pulled.

    Examples
    --------
    >>> check_budgets([3, 0, 2], 5)
    (3, 0, 2)
    >>> check_budgets([3, 7], 5)
    Traceback (most recent call last):
    ...
    meritfair.core.errors.InputError: budget must be between 0 and the 5 arms in each round, got 7
    """
    several = isinstance(budget, np.ndarray) and budget.ndim > 0
    if not several and (not isinstance(budget, Sequence) or isinstance(budget, str)):
        return check_budget(budget, n_arms)
    words = f"the {n_arms} arms in each round" if n_arms > 1 else "the only arm in each round"
    cycle = tuple(check_whole("budget", each, 0, n_arms, words) for each in budget)
    if not any(cycle):
        raise InputError(f"budget must be above 0 in some round, got {budget!r}")
    return cycle[0] if len(cycle) == 1 else cycle


def budget_text(cycle: Sequence[int]) -> str:
    """Return the budgets of rounds that repeat as they are typed.

    Examples
    --------
    >>> budget_text([4]), budget_text((4, 4, 0))
    ('4', '4,4,0')
    """
    return ",".join(map(str, cycle))
