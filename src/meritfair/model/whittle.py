r"""What a pull is worth to an arm now, given its state: the Whittle index, and its kin.

*The index.* Take one arm by itself and pay a subsidy :math:`\lambda` for each step at which it is not pulled. The
reward is 1 at each step that finds the arm in the good state, before anyone acts, so a pull can pay from the next step
on: hence the factor :math:`\beta`, the discount, in what follows. The value :math:`V` of acting as well as possible
satisfies

.. math::
    V(s) = s + \max_a \{ \lambda (1 - a) + \beta V(0) + \beta p_{sa} D \}, \qquad D = V(1) - V(0),

with :math:`p_{sa}` the probability that the next state is good. Pulling gains :math:`\beta d_s D - \lambda`, where
:math:`d_s = p_{s1} - p_{s0}`. The Whittle index :math:`W(s)` is the subsidy at which pulling in state s and not
pulling are worth the same.

*Two states are always indexable.* Subtracting the two equations, :math:`D = 1 + m_1(D) - m_0(D)` with
:math:`m_s(D) = \max(\lambda + \beta p_{s0} D,\; \beta p_{s1} D)`. Each :math:`m_s` has slopes between 0 and
:math:`\beta`, and the right-hand side is 1 at D = 0, so for :math:`\beta < 1` there is one solution, and it is
positive: a good state is worth more than a bad one, whatever the arm and the subsidy. So pulling pays where :math:`d_s`
is larger if it pays at all. Let hi be that state and lo the other. Pulling in neither state is best if and only if
:math:`\lambda \ge \beta d_{hi} D` for the :math:`D` of doing so; pulling in both if and only if
:math:`\lambda \le \beta d_{lo} D` for the :math:`D` of doing that; in between, only hi is pulled. As the subsidy grows,
lo and then hi are given up, each for good, which is indexability. Under one action a in both states
:math:`D = 1 / (1 - \beta k_a)` with :math:`k_a = p_{1a} - p_{0a}`, so

.. math:: W(hi) = \frac{\beta d_{hi}}{1 - \beta k_0}, \qquad W(lo) = \frac{\beta d_{lo}}{1 - \beta k_1} .

As :math:`k_1 - k_0 = d_1 - d_0`, hi is the good state if :math:`k_1 \ge k_0` and the bad one if :math:`k_1 \le k_0`.
Either way, and with no case for ties,

.. math::
    W(0) = \frac{\beta d_0}{1 - \beta \max(k_0, k_1)}, \qquad W(1) = \frac{\beta d_1}{1 - \beta \min(k_0, k_1)} .

*Average reward* is the limit :math:`\beta = 1`. There :math:`1 - k_a` can be 0: under a the arm stays where it is for
ever. Then :math:`W(0)` tends to infinity if only a pull can ever lead out of the bad state, and to minus infinity if
only not pulling can; it is 0 if nothing can, and :math:`W(1)` is always finite. Infinite values are given as
:math:`d_0 / \epsilon` with :math:`\epsilon \approx 2.2 \cdot 10^{-16}`, the resolution of floating-point numbers: that
is beyond all other values, keeps such arms in the order of :math:`d_0`, and leaves no arm at minus infinity, which in a
priority table would mean that it is not to be pulled even when budget is left.

*The largest index in a box.* If each :math:`p_{sa}` is only known to lie between L and U, the formulas say at which
corner the index is largest. Taken as functions of one probability at a time, :math:`W(0)` falls with :math:`p_{00}` and
rises with :math:`p_{01}`, always; with :math:`p_{10}` and :math:`p_{11}` it rises if :math:`d_0 \ge 0` and falls if
not. :math:`W(1)` rises with :math:`p_{11}` and falls with :math:`p_{10}`, always; with :math:`p_{00}` and
:math:`p_{01}` it falls if :math:`d_1 \ge 0` and rises if not. So the corners are

=========  ============  ============  ============  ============  ==========================
state      p00           p01           p10           p11           if
=========  ============  ============  ============  ============  ==========================
0          L             U             U             U             U01 >= L00: a pull may help
0          L             U             L             L             it cannot
1          L             L             L             U             U11 >= L10: a pull may help
1          U             U             L             U             it cannot
=========  ============  ============  ============  ============  ==========================

*The gain of a free pull.* Without a subsidy, the better action is that with the larger :math:`p_{sa}`, so
:math:`D = 1 / (1 - \beta (\max_a p_{1a} - \max_a p_{0a}))` and, with Q the value of an action now and the best ever
after, :math:`Q(s, 1) - Q(s, 0) = \beta d_s D`: what value iteration converges to.

=====================  ======================================
here                   is
=====================  ======================================
``transitions[s, a]``  :math:`p_{sa}`
``discount``           :math:`\beta`
``gain``               :math:`d_s`
``mixing``             :math:`1 - \beta k_a`
``inverse_spread``     :math:`1 / D`
=====================  ======================================

References
----------
P. Whittle, "Restless bandits: activity allocation in a changing world", J. Appl. Probab. 25A (1988).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from meritfair.core.arrays import FloatArray
from meritfair.core.checks import check_number, probabilities
from meritfair.core.errors import InputError
from meritfair.model.benefit import by_state_and_action

_RESOLUTION = float(np.finfo(np.float64).eps)


def whittle_index(transitions: npt.ArrayLike, discount: float = 1.0) -> FloatArray:
    """Return the Whittle index of each arm in each state, by the closed form for two states.

    Parameters
    ----------
    transitions : array_like, shape (..., 2, 2)
        Probability that the next state is good, by state and action.
    discount : float
        What a reward is worth a step later, from 0 to 1; 1 is the average reward in the long run. At 0 every index
        is 0, as no pull can pay.

    Returns
    -------
    ndarray, shape (..., 2)
        By arm and state: what a pull is worth, as a number of steps in the good state. Negative where pulling harms.
        Always finite: with a discount of 1, an infinite index is some 1e15 (see the module's docstring).

    Examples
    --------
    >>> whittle_index([[[0.2, 0.6], [0.5, 0.9]], [[0.3, 0.3], [0.7, 0.8]]]).round(4)
    array([[0.5714, 0.5714],
           [0.    , 0.1667]])
    >>> whittle_index([[0.2, 0.6], [0.5, 0.6]], discount=0.9).round(4)
    array([0.4932, 0.09  ])
    """
    P, beta = _arm("transitions", transitions), check_discount(discount)
    mixing = (1 - beta * P[..., 1, :]) + beta * P[..., 0, :]  # exact where it is small, if beta is 1
    smaller, larger = mixing.min(axis=-1), mixing.max(axis=-1)
    return _worth(P, beta, np.stack([smaller, larger], axis=-1))


def largest_whittle_index(lower: npt.ArrayLike, upper: npt.ArrayLike, discount: float = 1.0) -> FloatArray:
    """Return the largest Whittle index, for each state by itself, of any arm between two corners.

    Parameters
    ----------
    lower, upper : array_like, shape (..., 2, 2)
        The least and the greatest that each probability of a good next state may be, by state and action.
    discount : float
        As for `whittle_index`.

    Returns
    -------
    ndarray, shape (..., 2)

    Examples
    --------
    >>> largest_whittle_index([[0.1, 0.4], [0.4, 0.7]], [[0.3, 0.8], [0.6, 1.0]], discount=0.9).round(4)
    array([1.1455, 0.7397])
    """
    L, U = _arm("lower", lower), _arm("upper", upper)
    if L.shape != U.shape:
        raise InputError(f"lower and upper must have one shape, got {L.shape} and {U.shape}")
    if np.any(L > U):
        raise InputError(f"lower must be at most upper, got {L[L > U][0]} and {U[L > U][0]}")
    helps_bad, helps_good = U[..., 0, 1] >= L[..., 0, 0], U[..., 1, 1] >= L[..., 1, 0]
    from_bad = np.stack([L[..., 0, 0], U[..., 0, 1]], axis=-1)
    from_good = np.where(helps_bad[..., None], U[..., 1, :], L[..., 1, :])
    in_bad = whittle_index(np.stack([from_bad, from_good], axis=-2), discount)
    from_bad = np.where(helps_good[..., None], L[..., 0, :], U[..., 0, :])
    from_good = np.stack([L[..., 1, 0], U[..., 1, 1]], axis=-1)
    in_good = whittle_index(np.stack([from_bad, from_good], axis=-2), discount)
    return np.stack([in_bad[..., 0], in_good[..., 1]], axis=-1)


def pull_advantage(transitions: npt.ArrayLike, discount: float = 0.9) -> FloatArray:
    """Return Q(s, 1) - Q(s, 0): what pulling now gains over not pulling now, if pulls are free ever after.

    Parameters
    ----------
    transitions : array_like, shape (..., 2, 2)
        Probability that the next state is good, by state and action.
    discount : float
        As for `whittle_index`.

    Returns
    -------
    ndarray, shape (..., 2)
        By arm and state.

    Examples
    --------
    >>> pull_advantage([[0.2, 0.6], [0.5, 0.9]]).round(4)
    array([0.4932, 0.4932])
    """
    P, beta = _arm("transitions", transitions), check_discount(discount)
    best = P.max(axis=-1)
    return _worth(P, beta, (1 - beta * best[..., 1:]) + beta * best[..., :1])


def check_discount(discount: float) -> float:
    """Return the discount as a float if it lies between 0 and 1."""
    return check_number("discount", discount, 0.0, 1.0)


def _worth(P: FloatArray, beta: float, inverse_spread: FloatArray) -> FloatArray:
    """Return beta d_s D, by arm and state."""
    gain = P[..., 1] - P[..., 0]
    return np.asarray(beta * gain / np.maximum(inverse_spread, _RESOLUTION))


def _arm(name: str, values: npt.ArrayLike) -> FloatArray:
    return probabilities(name, by_state_and_action(name, values))
