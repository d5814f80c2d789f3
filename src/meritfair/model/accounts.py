r"""Accounts: what arms were due less what they were given, and what each is given next.

Fairness over time owes each arm its exposure in the long run, not at every step. An arm's *account* is what it was due
less what it was given since it joined, in pulls. `slack` bounds it, so that nobody is ever ahead or behind by more,
whatever the states do; within it the policy chooses when each arm is given its exposure.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from meritfair.core.arrays import BoolArray, FloatArray
from meritfair.core.checks import check_number, check_whole, float_array
from meritfair.core.errors import InputError

_FAINT = 1e-3  # wanted exposures are kept this far from 0 and 1, so that accounts can move them


def check_slack(value: Any) -> float:
    """Return a slack as a number, if it is one: at least 0, or infinity."""
    return math.inf if value == math.inf else check_number("slack", value, 0)


def account_pull(slack: float) -> float:
    """Return how strongly an account acts on what its arm is given: log odds for each pull that it is owed."""
    return max(0.05, min(1.0, 2.0 / slack)) if slack > 0 else 1.0


def wanted_odds(wanted: npt.ArrayLike) -> FloatArray:
    """Return wanted exposures as odds, kept away from 0 and infinity."""
    chance = np.clip(wanted, _FAINT, 1 - _FAINT)
    return np.asarray(chance / (1 - chance))


def given_exposure(
    wanted: npt.ArrayLike,
    account: npt.ArrayLike,
    due: npt.ArrayLike,
    slack: float,
    budget: int,
    free: BoolArray | None = None,
) -> FloatArray:
    """Return what each arm is given at a step, shape (N,): it sums to the budget, and keeps accounts within the slack.

    Parameters
    ----------
    wanted : array_like, shape (N,)
        The exposure that each arm would have at its state if only its long-run exposure mattered.
    account : array_like, shape (N,)
        What each arm was due so far, less what it was given.
    due : array_like, shape (N,)
        What each is due at this step.
    slack : float
        How far an account may be from 0, at least 0; infinity is no limit.
    budget : int
        Arms pulled at this step; if fewer are free, all of them are.
    free : ndarray of bool, shape (N,), optional
        Who may be pulled at this step; the others are given nothing. Where that leaves no exposures within the
        slack, accounts leave it.

    Examples
    --------
    The first arm should have most of its pulls now. It is owed nothing, so it can be ahead by half a pull at most.

    >>> given_exposure([0.9, 0.1, 0.1], account=[0, 0, 0], due=[0.4, 0.3, 0.3], slack=0.5, budget=1).round(3)
    array([0.86, 0.07, 0.07])
    >>> given_exposure([0.9, 0.1, 0.1], account=[-0.5, 0.25, 0.25], due=[0.4, 0.3, 0.3], slack=0.5, budget=1).round(3)
    array([0.4, 0.3, 0.3])
    """
    from meritfair.engine.accounts import give_once  # takes a second to load

    B, e, d = check_slack(slack), float_array("due", due), float_array("account", account)
    odds = wanted_odds(float_array("wanted", wanted))
    if not (e.ndim == 1 and e.shape == d.shape == odds.shape):
        shapes = f"{odds.shape}, {d.shape}, {e.shape}"
        raise InputError(f"wanted, account and due must hold one number for each arm, got shapes {shapes}")
    who = np.ones(len(e), np.bool_) if free is None else np.ascontiguousarray(free, np.bool_)
    number = min(check_whole("budget", budget, 0), int(who.sum()))
    given, low, high = np.zeros((3, len(e)))
    give_once(given, odds, low, high, np.array(d), np.array(e), who, B, number, account_pull(B))
    return given
