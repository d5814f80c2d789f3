r"""Accounts: what arms were due less what they were given, and what each is given next.

Fairness over time owes each arm its exposure in the long run, not at every step. An arm's *account* is what it was due
less what it was given since it joined, in pulls. `slack` bounds it, so that nobody is ever ahead or behind by more,
whatever the states do, unless a rule keeps an arm from being pulled that is due something; within it the policy chooses
when each arm is given its exposure. It bounds when pulls come. How many are due follows from the outcomes that are
reported.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from meritfair.core.arrays import BoolArray, FloatArray
from meritfair.core.checks import check_number, check_whole, float_array
from meritfair.core.errors import InputError
from meritfair.engine.rules import FAINT, LEAD, LITTLE, ZEAL
from meritfair.model.benefit import benefit_gradient
from meritfair.model.counts import Counts
from meritfair.model.timing import state_exposure


def check_slack(value: Any) -> float:
    """Return a slack as a number, if it is one: at least 0, or infinity."""
    return math.inf if value == math.inf else check_number("slack", value, 0)


def account_pull(slack: float) -> float:
    r"""Return how strongly an account acts on what its arm is given: log odds for each pull that it is owed.

    It is :math:`0.2 + 10 / (1 + B)` for a slack of B. So it is never 0: without a limit, too, exposures in the long run
    are those that are due.
    """
    return 0.2 + 10.0 / (1.0 + slack)


def wanted_odds(transitions: npt.ArrayLike | None, due: npt.ArrayLike) -> FloatArray:
    r"""Return the odds of a pull that is wanted in each state, shape (..., N, 2), before accounts are looked at.

    Wanted are the best exposures by state, :math:`\varphi`. Within a slack it pays to go further: to spend what can be
    spent in the better state, and to save in the other. As accounts sum to 0, arms compete for the room that slack
    leaves, and it should go to those for whom the time of a pull matters most. So with
    :math:`v = |r_1 / r_0 - 1|`, what one pull gains that is moved to the better state
    (`state_exposure` explains the rates r), the better state leads by

    .. math:: 12 \cdot \min(1, \sqrt v)

    in log odds, and the other lags by as much.

    Parameters
    ----------
    transitions : array_like, shape (..., N, 2, 2), or None
        The arms, known or estimated; None is blind to states.
    due : array_like, shape (..., N)
    """
    e = np.asarray(due, np.float64)
    if transitions is None:
        return np.stack([_odds(e), _odds(e)], axis=-1)
    P = np.asarray(transitions, np.float64)
    lead = _matters(P)
    lead = np.exp(LEAD * np.minimum(1.0, np.sqrt(np.abs(lead))) * np.where(lead >= 0, 1.0, -1.0))
    return np.asarray(_odds(state_exposure(P, e)) * np.stack([lead, 1 / lead], axis=-1))


def exploration(counts: Counts) -> FloatArray:
    r"""Return how much of each state and action is to be seen, as a part of what the lottery sees; (..., N, 2, 2).

    Benefit is learned from all four pairs of state and action, and pulls that come in one state alone starve some of
    them. Each has a part in the error of the estimated benefit :math:`\mu`: with n visits of probability p, it is
    :math:`\sigma = |\partial \mu / \partial p| \sqrt{p (1 - p) / (1 + n)}`. Each pair is explored in proportion to it,

    .. math:: \sigma \cdot \min\Big(\frac{1}{\sum \sigma},\ \frac{16}{\sqrt{v + 0.001}}\Big) ,

    where the sum is over the four pairs of the arm. At first this is the pair's share of the error. Later, when the
    error is small, it falls with :math:`1 / \sqrt n`. To see a pair costs the more, the more the time of a pull
    matters, :math:`v = |r_1 / r_0 - 1|` as in `wanted_odds`. Probabilities are posterior means under a uniform prior.

    Examples
    --------
    Nothing was seen yet; then little of pulls in the good state, of which most is to be learned.

    >>> exploration(Counts(np.zeros((1, 2, 2)), np.zeros((1, 2, 2))))
    array([[[0.25, 0.25],
            [0.25, 0.25]]])
    >>> exploration(Counts([[[200, 40], [90, 3]]], [[[50, 30], [60, 2]]])).round(2)
    array([[[0.13, 0.09],
            [0.16, 0.62]]])
    """
    P = counts.mean
    error = np.abs(benefit_gradient(P)) * np.sqrt(P * (1 - P) / (1 + counts.visits))
    most = ZEAL / np.sqrt(np.abs(_matters(P)) + LITTLE)
    return np.asarray(error * np.minimum(1 / error.sum(axis=(-2, -1)), most)[..., None, None])


def _matters(transitions: FloatArray) -> FloatArray:
    """Return what a pull gains if it comes in the bad state instead of the good one; where nothing is lost, 1."""
    unpulled, pulled = (transitions[..., 0, action] + (1 - transitions[..., 1, action]) for action in (0, 1))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(unpulled > 0, pulled / unpulled - 1.0, 1.0)


def _odds(exposure: FloatArray) -> FloatArray:
    """Return the odds of exposures, which are kept away from 0 and 1."""
    kept = np.clip(exposure, FAINT, 1 - FAINT)
    return np.asarray(kept / (1 - kept))


def given_exposure(
    odds: npt.ArrayLike,
    account: npt.ArrayLike,
    due: npt.ArrayLike,
    slack: float,
    budget: int,
    free: BoolArray | None = None,
    least: npt.ArrayLike = 0.0,
    most: npt.ArrayLike = 1.0,
) -> FloatArray:
    """Return what each arm is given at a step, shape (N,): it sums to the budget, and keeps accounts within the slack.

    Parameters
    ----------
    odds : array_like, shape (N,)
        The odds of a pull that are wanted for each arm at its state, as by `wanted_odds`.
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
        slack, accounts leave it, by as little as can be: all are brought to one level beyond it, and who is farthest
        beyond comes back first.
    least, most : array_like, shape (N,)
        What each arm is given at least and at most, as far as the slack allows: `least` is no more than what is due,
        and `most` no less.

    Examples
    --------
    The first arm should have most of its pulls now. Once it is ahead by half a pull, it is given less than it is due.

    >>> given_exposure([9, 0.1, 0.1], account=[0, 0, 0], due=[0.4, 0.3, 0.3], slack=0.5, budget=1).round(3)
    array([0.866, 0.067, 0.067])
    >>> given_exposure([9, 0.1, 0.1], account=[-0.5, 0.25, 0.25], due=[0.4, 0.3, 0.3], slack=0.5, budget=1).round(3)
    array([0.239, 0.38 , 0.38 ])
    """
    from meritfair.engine.accounts import give_once  # takes a second to load

    B, e, d = check_slack(slack), float_array("due", due), float_array("account", account)
    wanted = np.array(float_array("odds", odds))
    if not (e.ndim == 1 and e.shape == d.shape == wanted.shape):
        shapes = f"{wanted.shape}, {d.shape}, {e.shape}"
        raise InputError(f"odds, account and due must hold one number for each arm, got shapes {shapes}")
    who = np.ones(len(e), np.bool_) if free is None else np.ascontiguousarray(free, np.bool_)
    number = min(check_whole("budget", budget, 0), int(who.sum()))
    given, low, high = np.zeros((3, len(e)))
    floor, ceiling = (np.array(np.broadcast_to(each, e.shape), np.float64) for each in (least, most))
    give_once(given, wanted, low, high, floor, ceiling, np.array(d), np.array(e), who, B, number, account_pull(B))
    return given
