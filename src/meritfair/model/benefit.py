r"""What pulling an arm is worth: its steady state, and the benefit of always over never pulling.

An arm that is pulled with probability :math:`p` at every step is a two-state Markov chain. It moves
to the good state from state :math:`s` with probability :math:`(1-p) P(s,0,1) + p P(s,1,1)`, and in
the long run it is good a fraction :math:`f(P, p)` of the time (Eq. 5). The benefit, which the paper
calls reward, is :math:`\mu = f(P, 1) - f(P, 0)` (Eq. 4).

=====================  =======================================  ==================
here                   is                                       in the paper
=====================  =======================================  ==================
``transitions[s, a]``  probability that the next state is good  :math:`P(s, a, 1)`
``pull_probability``   probability of a pull at each step       :math:`p`
=====================  =======================================  ==================

Where both states keep themselves forever (from bad never to good, from good never to bad) the long
run depends on the start and f is 0/0. The paper rules that out by its non-degeneracy assumption; here
it is an error that names the arm.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from meritfair.core.arrays import FloatArray
from meritfair.core.checks import float_array, probabilities
from meritfair.core.errors import InputError


def steady_state(
    transitions: npt.ArrayLike, pull_probability: npt.ArrayLike, names: Sequence[str] | None = None
) -> FloatArray:
    """Return the long-run probability of the good state, f(P, p) of Eq. (5).

    Parameters
    ----------
    transitions : array_like, shape (..., 2, 2)
        Probability that the next state is good, by state and action.
    pull_probability : array_like
        Probability of a pull at each step: one number, or one for each arm.
    names : sequence of str, optional
        Names of the arms, for the error message.

    Returns
    -------
    ndarray, shape (...)

    Examples
    --------
    >>> float(steady_state([[0.2, 0.6], [0.5, 0.9]], 0.0).round(4))    # never pulled: 0.2 / (1 - 0.5 + 0.2)
    0.2857
    """
    P = by_state_and_action("transitions", transitions)
    p = probabilities("pull_probability", pull_probability)
    from_bad = (1 - p) * P[..., 0, 0] + p * P[..., 0, 1]
    leave_good = 1 - ((1 - p) * P[..., 1, 0] + p * P[..., 1, 1])
    rate = from_bad + leave_good
    if np.any(rate == 0):
        raise InputError(_absorbing(rate == 0, names))
    return np.asarray(from_bad / rate)  # Eq. (5)


def benefit(transitions: npt.ArrayLike, names: Sequence[str] | None = None) -> FloatArray:
    """Return the benefit of always over never pulling, mu of Eq. (4), in [-1, 1].

    Examples
    --------
    >>> float(benefit([[0.2, 0.6], [0.5, 0.9]]).round(4))
    0.5714
    """
    return np.asarray(steady_state(transitions, 1.0, names) - steady_state(transitions, 0.0, names))  # Eq. (4)


def benefit_gradient(transitions: npt.ArrayLike) -> FloatArray:
    """Return the derivative of the benefit by each of an arm's four probabilities, shape (..., 2, 2).

    From f = b / (1 - g + b), with b and g the probabilities of the good state from bad and from good:
    df/db = (1 - g) / (1 - g + b)^2 and df/dg = b / (1 - g + b)^2.
    """
    P = by_state_and_action("transitions", transitions)
    from_bad, from_good = P[..., 0, :], P[..., 1, :]
    square = (1 - from_good + from_bad) ** 2
    sign = np.array([-1.0, 1.0])  # never pulling counts against
    return np.stack([sign * (1 - from_good) / square, sign * from_bad / square], axis=-2)


def by_state_and_action(name: str, values: npt.ArrayLike) -> FloatArray:
    """Return an array whose last two axes are state and action."""
    array = float_array(name, values)
    if array.shape[-2:] != (2, 2):
        raise InputError(f"{name} must have shape (..., 2, 2) by state and action, got {array.shape}")
    return array


def _absorbing(stuck: npt.NDArray[np.bool_] | np.bool_, names: Sequence[str] | None) -> str:
    which = int(np.argmax(np.atleast_1d(stuck).reshape(-1, np.atleast_1d(stuck).shape[-1]).any(axis=0)))
    arm = f"arm {which} ('{names[which]}')" if names is not None else f"arm {which}"
    return (
        f"{arm} has no steady state: it never leaves the state it is in "
        "(from bad to good 0, from good to bad 0); keep its probabilities off 0 and 1, for example by arms.clip(0.01), "
        "or by --clip 0.01 in the commands simulate, compare and theory"
    )
