r"""Beliefs: the probability that an arm is good, given all that was seen of it and done with it.

A state that is not seen is not unknown altogether. With :math:`p(s, a)` the probability of a good next state, the
belief of an arm that was last seen in state s is s at that round, and after each round with action a

.. math:: b' = (1 - b)\, p(0, a) + b\, p(1, a) .

Of an arm that was never seen since it joined, b starts at the share of time that it would be good if it were never
pulled, :math:`p(0,0) / (p(0,0) + 1 - p(1,0))`, and at 1/2 if it would never change: before it joined nobody pulled it.
How long before that a state in a history was, nobody says: so it is not used here.

Plans are played on beliefs where they look at states. The arms p are those that the plan was made for, if it says so;
the true ones if the policy knows them; else the posterior means of what was counted. That a belief is right only if
these are is no danger to fairness: what is due, accounts and the exposures that are stated do not depend on it.

References
----------
A. Mate, J. A. Killian, H. Xu, A. Perrault and M. Tambe, "Collapsing Bandits and Their Application to Public Health
Interventions", NeurIPS 2020, arXiv 2007.04432.
"""

from __future__ import annotations

import numpy as np

from meritfair.core.arrays import FloatArray, IntArray
from meritfair.model.counts import Counts
from meritfair.policies.plans import Plan

UNKNOWN = -1


def beliefs(transitions: FloatArray, last: IntArray, since: IntArray) -> FloatArray:
    """Return the probability that each arm is good now, shape (N,).

    Parameters
    ----------
    transitions : ndarray, shape (N, 2, 2)
        Probability that the next state is good, by arm, state and action.
    last : ndarray of int, shape (N,)
        The state in which each arm was seen last; -1 if it was never seen.
    since : ndarray of int, shape (N, R)
        What was done with each arm in each round, from the one in which it was seen; -1 in rounds before that.

    Examples
    --------
    Two arms alike: the first was seen good two rounds ago and not pulled since, the second was never seen.

    >>> arms = np.array([[[0.2, 0.8], [0.6, 0.9]]] * 2)
    >>> beliefs(arms, np.array([1, -1]), np.array([[-1, 0, 0], [-1, -1, -1]])).round(4)
    array([0.44  , 0.3333])
    """
    belief = np.where(last == UNKNOWN, _when_never_pulled(transitions), last.astype(np.float64))
    for actions in since.T[(since >= 0).any(axis=0)]:
        arms = np.flatnonzero(actions >= 0)
        good = transitions[arms, :, actions[arms]]  # (n, 2), by state
        belief[arms] = (1 - belief[arms]) * good[:, 0] + belief[arms] * good[:, 1]
    return belief


def _when_never_pulled(transitions: FloatArray) -> FloatArray:
    """Return the share of time that each arm is good if it is never pulled; 1/2 if it never changes."""
    enter, leave = transitions[..., 0, 0], 1 - transitions[..., 1, 0]
    rate = enter + leave
    return np.where(rate > 0, enter / np.where(rate > 0, rate, 1.0), 0.5)


def arms_behind(plan: Plan, counts: Counts, truth: FloatArray, oracle: bool) -> FloatArray:
    """Return the arms by which the beliefs of a plan move, shape (..., N, 2, 2)."""
    if plan.point is not None:
        return plan.point
    return truth if oracle else counts.mean
