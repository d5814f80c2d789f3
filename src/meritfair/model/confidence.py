r"""How sure the counts make us: the radius, the ball of plausible arms, and its corners.

At episode :math:`t` (from 1), after :math:`N_i^t(s,a)` visits, the true row :math:`P_i^*(s,a,\cdot)` is
within :math:`d_i^t(s,a)` of the observed frequencies in L1 norm (Eq. 6), all arms at once, with
probability at least :math:`1 - \delta/t^4` (Proposition 5.3). With two states that is
:math:`|P_i(s,a,1) - \hat P_i^t(s,a,1)| \le d_i^t(s,a)/2`, a box for each arm: the ball (Eq. 7).

=============  =====================  ===========================================================
here           in the paper           is
=============  =====================  ===========================================================
``radius``     :math:`d`              how far in L1 norm the truth may be
``upper``      :math:`P^+(s,a,1)`     the corner where every next state is as good as it may be
``lower``      :math:`P^-(s,a,1)`     the opposite corner
``eta``        :math:`\eta_1,\eta_2`  most that starting good may help, pulled and not pulled
``omega``      :math:`\omega_1,\omega_2`  least that it may help, pulled and not pulled
=============  =====================  ===========================================================

Before the first visit the frequency is 0/0. The radius there is at least
:math:`\sqrt{4 \ln 8} > 2`, so whichever frequency one takes, the box is all of [0, 1]: upper is 1 and lower
is 0 (frequency 0 is used). So eta is 1 and omega is -1 for an action under which neither state was
seen; if only one was, they say what the other's box leaves open.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from meritfair.checks import check_choice, check_number, check_whole, float_array
from meritfair.errors import InputError

if TYPE_CHECKING:
    import numpy.typing as npt

    from meritfair.arrays import BoolArray, FloatArray
    from meritfair.model.counts import Counts

__all__ = ["ESTIMATES", "Ball", "confidence_radius"]

_STATES = 2
_ACTIONS = 2
_ROUNDING = 1e-12  # the corners of the ball count as inside
ESTIMATES = ("optimistic", "mean", "pessimistic")  # in the order of engine.rules


def confidence_radius(visits: npt.ArrayLike, episode: int, n_arms: int, delta: float = 0.01) -> FloatArray:
    """Return the confidence radius d of Eq. (6), of the shape of `visits`.

    Parameters
    ----------
    visits : array_like
        How often each (arm, state, action) was seen before this episode.
    episode : int
        The episode, counted from 1.
    n_arms : int
        How many arms share the guarantee.
    delta : float
        Chance of failure allowed, strictly between 0 and 1.

    Examples
    --------
    >>> confidence_radius([0, 1, 100], episode=1, n_arms=5, delta=0.01).round(3)
    array([5.76 , 5.76 , 0.576])
    """
    seen = float_array("visits", visits)
    if not np.all(seen >= 0):
        raise InputError(f"visits must not be negative, got {seen[~(seen >= 0)].flat[0]}")
    t = check_whole("episode", episode, 1)
    arms = check_whole("n_arms", n_arms, 1)
    allowed = check_number("delta", delta, 0.0, 1.0, open_ends=True)
    log_term = np.log(2 * _STATES * _ACTIONS * arms / allowed) + 4 * np.log(t)
    return np.asarray(np.sqrt(2 * _STATES * log_term / np.maximum(1, seen)))  # Eq. (6)


@dataclass(frozen=True)
class Ball:
    """The arms that the counts leave plausible at an episode, B^t of Eq. (7).

    Parameters
    ----------
    counts : Counts
        What was seen before the episode; leading axes are allowed.
    episode : int
        The episode, counted from 1.
    delta : float
        Chance of failure allowed, strictly between 0 and 1.

    Examples
    --------
    >>> from meritfair import Counts
    >>> ball = Ball(Counts(visits=[[[400, 400], [400, 400]]], good=[[[100, 200], [200, 300]]]), episode=9)
    >>> ball.upper.round(3)
    array([[[0.447, 0.697],
            [0.697, 0.947]]])
    >>> bool(ball.contains([[[0.3, 0.5], [0.5, 0.7]]])[0])
    True
    """

    counts: Counts
    episode: int
    delta: float = 0.01

    @cached_property
    def radius(self) -> FloatArray:
        """The radius d of Eq. (6), shape (..., N, 2, 2)."""
        return confidence_radius(self.counts.visits, self.episode, self.counts.n_arms, self.delta)

    @cached_property
    def upper(self) -> FloatArray:
        """P+: the chance of a good next state, as high as the ball allows."""
        return np.asarray(np.minimum(1.0, self.counts.frequency + self.radius / 2))

    @cached_property
    def lower(self) -> FloatArray:
        """P-: the chance of a good next state, as low as the ball allows."""
        return np.asarray(np.maximum(0.0, self.counts.frequency - self.radius / 2))

    @property
    def eta(self) -> FloatArray:
        """eta_1 (pulled) and eta_2 (not pulled) of each arm, shape (..., N, 2)."""
        return (self.upper[..., 1, :] - self.lower[..., 0, :])[..., ::-1]

    @property
    def omega(self) -> FloatArray:
        """omega_1 (pulled) and omega_2 (not pulled) of each arm, shape (..., N, 2)."""
        return (self.lower[..., 1, :] - self.upper[..., 0, :])[..., ::-1]

    def contains(self, transitions: npt.ArrayLike) -> BoolArray:
        """Return for each arm, shape (..., N), whether these transitions lie in its ball."""
        P = float_array("transitions", transitions)
        if P.shape[-3:] != self.radius.shape[-3:]:
            raise InputError(f"transitions must have shape {self.radius.shape[-3:]}, got {P.shape}")
        away = np.abs(P - self.counts.frequency)
        inside = away <= self.radius / 2 + _ROUNDING  # Eq. (7) for two states
        return np.asarray(inside.all(axis=(-2, -1)))

    def estimate(self, kind: Any = "optimistic") -> FloatArray:
        """Return the point of the ball that a policy believes, shape (..., N, 2, 2).

        ``optimistic`` is the paper's P+, ``pessimistic`` is P-, and ``mean`` is the posterior mean,
        which is always inside: it is within 1/(visits + 2) of the frequency, and half the radius is
        more than 1.4/sqrt(visits). Theorem 5.5 holds for each.
        """
        match check_choice("estimate", kind, ESTIMATES):
            case "optimistic":
                return self.upper
            case "pessimistic":
                return self.lower
        return self.counts.mean
