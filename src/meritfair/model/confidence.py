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

That is the paper's ball. There are two tighter ones, whose guarantee is stronger: with probability at least
:math:`1 - \delta` they hold the truth at all episodes at once, however the number of visits came about. Each of the 4N
probabilities gets its part :math:`\alpha = \delta / 4N`; n is its number of visits, V its empirical variance
:math:`\hat P(1 - \hat P)`:

- ``bernstein``: :math:`|P - \hat P| \le \sqrt{2 V x / n} + 3 x / n` with :math:`x = \ln(3 n (n+1) / \alpha)`
  (Audibert, Munos and Szepesvári 2009, and a union bound over n);
- ``kl``: those P for which :math:`M_n(P) < 1/\alpha`. :math:`M_n(P)` is the likelihood of what was seen, averaged over
  P from Beta(1/2, 1/2), over the likelihood under P. It is a martingale that starts at 1, so it ever reaches
  :math:`1/\alpha` with probability at most :math:`\alpha` (Ville's inequality; Robbins 1970). The tightest.

Before the first visit the frequency is 0/0. The paper's radius there is at least :math:`\sqrt{4 \ln 8} > 2`, so
whichever frequency one takes, the box is all of [0, 1], as it is for the other balls: upper is 1 and lower is 0. So eta
is 1 and omega is -1 for an action under which neither state was seen; if only one was, they say what the other's box
leaves open.

References
----------
J.-Y. Audibert, R. Munos and C. Szepesvári, "Exploration-exploitation tradeoff using variance estimates in multi-armed
bandits", Theor. Comput. Sci. 410 (2009). H. Robbins, "Statistical methods related to the law of the iterated
logarithm", Ann. Math. Statist. 41 (1970).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from meritfair.core.arrays import BoolArray, FloatArray
from meritfair.core.checks import check_choice, check_number, check_whole, float_array
from meritfair.core.deprecation import warn_renamed
from meritfair.core.errors import InputError
from meritfair.model.counts import Counts
from meritfair.model.features import Features
from meritfair.model.posterior import Prior, fit_prior, log_beta

_STATES = 2
_ACTIONS = 2
_ROUNDING = 1e-12  # the corners of the ball count as inside
ESTIMATES = ("optimistic", "pessimistic", "mean", "pooled", "thompson")  # in the order of engine.rules
BALLS = ("paper", "bernstein", "kl")  # in the order of engine.rules
_NEWTON_STEPS = 60


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
        Probability of failure allowed, strictly between 0 and 1.

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
        Probability of failure allowed, strictly between 0 and 1.
    kind : {"paper", "bernstein", "kl"}
        How it is measured; the last two are tighter.
    features : Features, optional
        What else is known of the arms, if the counts are of one run; the estimate ``pooled`` looks at it.

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
    kind: str = "paper"
    features: Features | None = None

    def __post_init__(self) -> None:
        check_choice("ball", self.kind, BALLS)
        check_number("delta", self.delta, 0.0, 1.0, open_ends=True)

    @cached_property
    def _ends(self) -> tuple[FloatArray, FloatArray]:
        if self.kind == "kl":
            return _kl_ends(self.counts, self.delta)
        middle = self.counts.frequency
        return np.maximum(0.0, middle - self.radius / 2), np.minimum(1.0, middle + self.radius / 2)

    @cached_property
    def radius(self) -> FloatArray:
        """The radius d, shape (..., N, 2, 2): that of Eq. (6), or for other balls the width of the box."""
        match self.kind:
            case "paper":
                return confidence_radius(self.counts.visits, self.episode, self.counts.n_arms, self.delta)
            case "bernstein":
                return 2 * _bernstein_radius(self.counts, self.delta)
        return self.upper - self.lower

    @property
    def upper(self) -> FloatArray:
        """P+: the probability of a good next state, as high as the ball allows, shape (..., N, 2, 2)."""
        return self._ends[1]

    @property
    def lower(self) -> FloatArray:
        """P-: the probability of a good next state, as low as the ball allows, shape (..., N, 2, 2)."""
        return self._ends[0]

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
        if P.shape[-3:] != self.upper.shape[-3:]:
            raise InputError(f"transitions must have shape {self.upper.shape[-3:]}, got {P.shape}")
        inside = (self.lower - _ROUNDING <= P) & (self.upper + _ROUNDING >= P)  # Eq. (7) for two states
        return np.asarray(inside.all(axis=(-2, -1)))

    def estimate(
        self,
        kind: Any = "optimistic",
        rngs: Sequence[np.random.Generator] = (),
        *,
        luck: Sequence[np.random.Generator] | None = None,
    ) -> FloatArray:
        """Return the point of the ball that a policy takes for true, shape (..., N, 2, 2).

        Parameters
        ----------
        kind : {"optimistic", "pessimistic", "mean", "pooled", "thompson"}
            ``optimistic`` is the paper's P+, ``pessimistic`` is P-. ``mean`` is the posterior mean under a uniform
            prior, ``pooled`` under a prior of latent classes that is fitted to all arms (`fit_prior`), and
            ``thompson`` is a draw from the posterior under a uniform prior. Where one of these three is outside the
            ball, the nearest point of it is taken, so Theorem 5.5 holds for each.
        rngs : sequence of Generator
            What ``thompson`` draws from: one for each run, along the leading axis of the counts.
        luck : sequence of Generator, optional
            The old name of `rngs`.
        """
        if luck is not None:
            warn_renamed("luck of Ball.estimate", "rngs")
            rngs = luck
        match check_choice("estimate", kind, ESTIMATES):
            case "optimistic":
                return self.upper
            case "pessimistic":
                return self.lower
            case "mean":
                point = self.counts.mean
            case "pooled":
                point = _each_run(self.counts, lambda seen, _: _pooled(seen, self.features).posterior(seen).mean)
            case _:
                if len(rngs) != len(self.counts.visits.reshape(-1, *self.counts.visits.shape[-3:])):
                    raise InputError("the estimate 'thompson' needs a generator for each run")
                draw = Prior.uniform().posterior
                point = _each_run(self.counts, lambda seen, run: draw(seen).draw(rngs[run])[0])
        return np.clip(point, self.lower, self.upper)


def _pooled(counts: Counts, features: Features | None) -> Prior:
    """Return the prior of these arms that is fitted to all of them."""
    if features is None:
        return fit_prior(counts)
    from meritfair.model.feature_prior import fit_feature_prior  # takes a while to load

    return fit_feature_prior(counts, features).of(features)


def _each_run(counts: Counts, make: Callable[[Counts, int], FloatArray]) -> FloatArray:
    """Return what is made of the counts of each run, along all leading axes."""
    shape = counts.visits.shape
    visits, good = counts.visits.reshape(-1, *shape[-3:]), counts.good.reshape(-1, *shape[-3:])
    runs = zip(visits, good, strict=True)
    return np.reshape([make(Counts(v, g), run) for run, (v, g) in enumerate(runs)], shape)


def _bernstein_radius(counts: Counts, delta: float) -> FloatArray:
    """Return how far the truth may be from the frequency, by an empirical Bernstein bound for all n at once."""
    n = np.maximum(1, counts.visits).astype(np.float64)
    middle = counts.frequency
    x = np.log(3 * n * (n + 1) * 2 * _STATES * counts.n_arms / delta)
    radius = np.sqrt(2 * middle * (1 - middle) * x / n) + 3 * x / n
    return np.where(counts.visits > 0, radius, 1.0)


def _kl_ends(counts: Counts, delta: float) -> tuple[FloatArray, FloatArray]:
    """Return the smallest and the largest probability at which the martingale of the docstring has not reached 1/alpha.

    With z = ln(P / (1 - P)), the logarithm of the likelihood under P is good · z - n ln(1 + e^z), which is concave in
    z: Newton's method from outside approaches each end from one side.
    """
    n, good = counts.visits.astype(np.float64), counts.good.astype(np.float64)
    bad = n - good
    allowed = np.log(_STATES * _ACTIONS * counts.n_arms / delta)
    level = log_beta(good + 0.5, bad + 0.5) - log_beta(np.array(0.5), np.array(0.5)) - allowed
    seen = np.maximum(n, 1)
    lower = np.where(good == 0, 0.0, np.where(bad == 0, np.exp(level / seen), _newton(good, bad, level, -1.0)))
    upper = np.where(bad == 0, 1.0, np.where(good == 0, -np.expm1(level / seen), _newton(good, bad, level, 1.0)))
    return np.where(n == 0, 0.0, lower), np.where(n == 0, 1.0, upper)


def _newton(good: FloatArray, bad: FloatArray, level: FloatArray, side: float) -> FloatArray:
    """Return the probability on one side of the frequency at which good · z - n ln(1 + e^z) equals the level."""
    n, few = good + bad, np.maximum(bad if side > 0 else good, 0.5)
    z = -side * level / few  # beyond the end: there the logarithm of the likelihood is below -few |z|
    for _ in range(_NEWTON_STEPS):
        slope = good - n * _expit(z)
        step = (good * z - n * np.logaddexp(0.0, z) - level) / np.where(slope == 0, -side, slope)
        z = z - step
        if np.all(np.abs(step) <= 1e-13 * (1 + np.abs(z))):
            break
    return _expit(z)


def _expit(z: FloatArray) -> FloatArray:
    """Return the probability whose log-odds are z."""
    return np.asarray(np.exp(-np.logaddexp(0.0, -z)))
