r"""When to pull an arm whose exposure is given: the best chances of a pull by state.

An arm is to be pulled a fraction :math:`e` of the time in the long run. Which stationary policy, with chances
:math:`\varphi(0), \varphi(1)` of a pull by state, keeps it in the good state most of the time? With :math:`p_{sa}` the
probability of a good next state, let :math:`r_a = 1 - p_{1a} + p_{0a}` be how fast the arm forgets its state under
action a. Then

* if :math:`r_1 > r_0`, equivalently :math:`p_{01} - p_{00} > p_{11} - p_{10}`, a pull moves the next state more when
  the arm is bad. Pulls go to the bad state first, and :math:`y = e\, p_{01} - (1 - e)(1 - p_{10})`;
* if :math:`r_1 < r_0`, pulls go to the good state first, and :math:`y = e (1 - p_{11}) - (1 - e)\, p_{00}`;
* if :math:`r_1 = r_0` the time of a pull makes no difference, and it is blind, :math:`\varphi(0) = \varphi(1) = e`.

Here y says whether e is more than the first state can use. With :math:`\varphi` of the first state and :math:`\varphi'`
of the other,

.. math::
    y \le 0: \quad \varphi = \frac{e r_0}{e r_0 - y}, \; \varphi' = 0; \qquad
    y > 0: \quad \varphi = 1, \; \varphi' = \frac{y}{y + (1 - e) r_1} .

The arm is in the first state a fraction :math:`e - y / r_0` of the time if :math:`y \le 0`, and :math:`e - y / r_1` if
not. ``docs/theory.md`` has the proof, and shows that no policy does better, whatever it looks at: the sum of
`best_good_share` over arms bounds the reward of every policy with these long-run exposures.

*Degenerate arms.* The chances are :math:`x(s, 1) / x(s)` of the best stationary frequencies :math:`x`, and their limit
where a state is never visited. An exposure of 1 has chances of 1. If under these chances neither state is ever left,
the long run depends on the start. That is so where the first state is never left when pulled and never entered from
the other when not pulled: there :math:`\varphi = 1`, :math:`\varphi' = 0`, and the pull rate is e if the start is the
first state with probability e. Unless one of the states is never left under either action, there are chances as close
to these as one likes whose pull rate is e from every start, with a share as close to the best. An arm that never leaves
either state has blind chances, and its best share is 1, that of a good start.

=====================  ======================
here                   is
=====================  ======================
``transitions[s, a]``  :math:`p_{sa}`
``rate``               :math:`r_a`
``excess``             :math:`y`
=====================  ======================
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from meritfair.core.arrays import BoolArray, FloatArray
from meritfair.core.checks import probabilities
from meritfair.core.errors import InputError
from meritfair.engine.rules import EQUAL
from meritfair.model.benefit import by_state_and_action


class _Timing(NamedTuple):
    """What decides when an arm is pulled; all of one shape, (...)."""

    exposure: FloatArray
    rate: tuple[FloatArray, FloatArray]  # by action
    excess: FloatArray
    bad_first: BoolArray
    blind: BoolArray


def state_exposure(transitions: npt.ArrayLike, exposure: npt.ArrayLike) -> FloatArray:
    """Return the best chances of a pull in the bad and in the good state, for a given exposure in the long run.

    Of all ways to pull an arm with this frequency, these keep it in the good state most of the time.

    Parameters
    ----------
    transitions : array_like, shape (..., N, 2, 2)
        Probability that the next state is good, by arm, state and action.
    exposure : array_like, shape (..., N)
        How often each arm is pulled in the long run, from 0 to 1: one number, or one for each arm.

    Returns
    -------
    ndarray, shape (..., N, 2)
        The chance of a pull, by arm and state. Where the time of a pull makes no difference, the exposure itself.

    Examples
    --------
    The first arm needs a pull when it is bad, the second when it is good; for the third the state makes no difference.

    >>> arms = [[[0.2, 0.8], [0.6, 0.7]], [[0.2, 0.3], [0.4, 0.9]], [[0.2, 0.6], [0.5, 0.9]]]
    >>> state_exposure(arms, 0.25).round(4)
    array([[0.6   , 0.    ],
           [0.    , 0.6154],
           [0.25  , 0.25  ]])
    >>> state_exposure(arms[0], [0.5, 1.0]).round(4)
    array([[1.    , 0.2667],
           [1.    , 1.    ]])
    """
    e, rate, y, bad_first, blind = _timing(transitions, exposure)
    first = np.where(y > 0, 1.0, _ratio(e * rate[0], e * rate[0] - y, otherwise=e > 0))
    other = np.where(y > 0, _ratio(y, y + (1 - e) * rate[1], otherwise=True), 0.0)
    by_state = np.stack([np.where(bad_first, first, other), np.where(bad_first, other, first)], axis=-1)
    same = blind | (e == 1)
    return np.where(same[..., None], e[..., None], by_state)


def best_good_share(transitions: npt.ArrayLike, exposure: npt.ArrayLike) -> FloatArray:
    """Return how often each arm is good at most, in the long run, of all ways to pull it with this frequency.

    The sum over arms bounds the reward at a step of every policy with these exposures in the long run. Parameters are
    those of `state_exposure`.

    Returns
    -------
    ndarray, shape (..., N)

    Examples
    --------
    >>> arms = [[[0.2, 0.8], [0.6, 0.7]], [[0.2, 0.3], [0.4, 0.9]]]
    >>> best_good_share(arms, 0.25).round(4)
    array([0.5833, 0.4062])
    >>> from meritfair.model.benefit import steady_state
    >>> steady_state(arms, 0.25).round(4)    # pulled as often, but whatever the state
    array([0.4828, 0.3214])
    """
    e, rate, y, bad_first, _ = _timing(transitions, exposure)
    used = np.where(y > 0, rate[1], rate[0])
    first = e - _ratio(y, used, otherwise=False)
    never_moves = (rate[0] == 0) & (rate[1] == 0)
    return np.clip(np.where(never_moves, 1.0, np.where(bad_first, 1 - first, first)), 0.0, 1.0)


def good_share(transitions: npt.ArrayLike, by_state: npt.ArrayLike) -> FloatArray:
    """Return how often each arm is good in the long run if it is pulled with a chance for each state.

    Parameters
    ----------
    transitions : array_like, shape (..., N, 2, 2)
        Probability that the next state is good, by arm, state and action.
    by_state : array_like, shape (..., N, 2)
        The chance of a pull, by arm and state.

    Returns
    -------
    ndarray, shape (..., N)

    Examples
    --------
    >>> arm = [[0.2, 0.8], [0.6, 0.7]]
    >>> float(good_share(arm, state_exposure(arm, 0.25)).round(4))
    0.5833
    """
    P, phi = _chances(transitions), _by_state(by_state)
    good = (1 - phi) * P[..., 0] + phi * P[..., 1]  # (..., 2) by state
    enter, leave = good[..., 0], _complement(P, phi)
    rate = np.asarray(enter + leave)
    if np.any(rate == 0):
        arm = int(np.argwhere(np.atleast_1d(rate == 0))[0][-1])
        raise InputError(f"by_state must let arm {arm} leave one of its states, or its long run depends on the start")
    return np.asarray(enter / rate)


def _timing(transitions: npt.ArrayLike, exposure: npt.ArrayLike) -> _Timing:
    """Check arms and exposures, and decide in which state each arm is pulled first."""
    P, e = _chances(transitions), probabilities("exposure", exposure)
    try:
        np.broadcast_shapes(P.shape[:-2], e.shape)
    except ValueError:
        raise InputError(
            f"exposure must be one number or one for each arm, got shape {e.shape} for arms of shape {P.shape[:-2]}"
        ) from None
    e = e + np.zeros(P.shape[:-2])
    P = np.broadcast_to(P, (*e.shape, 2, 2))
    enter, leave = P[..., 0, :], 1 - P[..., 1, :]
    rate = enter + leave
    difference = rate[..., 1] - rate[..., 0]
    bad_first = difference >= 0
    y = np.where(bad_first, e * enter[..., 1] - (1 - e) * leave[..., 0], e * leave[..., 1] - (1 - e) * enter[..., 0])
    blind = np.abs(difference) <= EQUAL * rate.sum(axis=-1)
    return _Timing(e, (rate[..., 0], rate[..., 1]), y, bad_first, blind)


def _chances(transitions: npt.ArrayLike) -> FloatArray:
    return probabilities("transitions", by_state_and_action("transitions", transitions))


def _by_state(by_state: npt.ArrayLike) -> FloatArray:
    phi = probabilities("by_state", by_state)
    if phi.shape[-1:] != (2,):
        raise InputError(f"by_state must have shape (..., 2) by state, got {phi.shape}")
    return phi


def _complement(P: FloatArray, phi: FloatArray) -> FloatArray:
    """Return the chance of leaving the good state, exactly 0 where no action leaves it."""
    return np.asarray((1 - phi[..., 1]) * (1 - P[..., 1, 0]) + phi[..., 1] * (1 - P[..., 1, 1]))


def _ratio(above: FloatArray, below: FloatArray, *, otherwise: BoolArray | bool) -> FloatArray:
    """Return above / below, and 1 or 0 where that is 0 / 0."""
    defined = below != 0
    return np.where(defined, above / np.where(defined, below, 1.0), otherwise)
