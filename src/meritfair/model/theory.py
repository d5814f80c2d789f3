r"""The paper's guarantees as numbers, and the limit that no estimate can beat.

=========================  ====================  =======================================================
here                       in the paper          is
=========================  ====================  =======================================================
``gamma``, ``lipschitz``   :math:`\gamma, L`     constants of the merit function, kept by it
``first_valid_episode``    :math:`t_0`           after this episode every eta is below 1, for good
``coverage_gap``           :math:`G`             longest wait for an episode that visits all (s, a)
``eta``, ``omega``         :math:`\eta, \omega`  their largest values after :math:`t_0` (Definition 5.2)
=========================  ====================  =======================================================

t0, G, eta and omega are known only after a run: a :class:`~meritfair.Run` has them, its own. G is its
longest wait, so it grows with the number of episodes, and fast if arms are saturated: a bound with the G of one run
does not say how regret grows. That is proved in ``docs/theory.md``, without G. The rate depends on whether an arm lies
where saturation begins (:func:`saturation_margin`).

The bound of Theorem 5.5 is far above what is measured, and for short runs even above the regret's own
limit of 2 for each episode: its factor L/gamma is :math:`c\,e^{2c}`, 1,210 for c = 3. How small regret can be is said
by :func:`information_limit`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from meritfair.core.arrays import FloatArray
from meritfair.core.checks import check_budget, check_number, check_whole, float_array
from meritfair.core.errors import InputError
from meritfair.model.allocation import allocate, shared_error
from meritfair.model.arms import Arms
from meritfair.model.benefit import benefit_gradient, by_state_and_action, steady_state
from meritfair.model.exposure import fair_exposure, merit_share
from meritfair.model.merit import Exponential, Merit

__all__ = [
    "benefit_error_bound",
    "coverage_gap_limit",
    "expected_visits",
    "exposure_regret_bound",
    "exposure_slope",
    "information_limit",
    "largest_exposure",
    "regret_bound",
    "saturation_margin",
]


def largest_exposure(n_arms: int, budget: int, merit: Merit) -> float:
    """Return the most exposure any arm can get, lambda of Lemma 5.1: its benefit is 1, all others' -1."""
    K = check_budget(budget, check_whole("n_arms", n_arms, 1))
    return float(fair_exposure(merit(np.r_[1.0, -np.ones(n_arms - 1)]), K)[0])


def coverage_gap_limit(epsilon: float, n_arms: int, budget: int, horizon: int, merit: Merit) -> float:
    """Return Lemma 5.1's limit on the mean wait behind G, in episodes; infinite where the lemma says nothing.

    It is one over the least probability that an episode sees all of an arm, so it limits the mean and not the longest
    wait, which is G: a measured G can be larger.

    With A the event of seeing only one state and B that of taking only one action in an episode,
    the lemma has P(A) <= 2 (1 - epsilon)^H and P(B) <= lambda^H + (1 - g(-1) / (N g(1)))^H, and
    G <= 1 / (1 - P(A) - P(B) + P(A) P(B)). Where P(A) or P(B) reaches 1 there is no limit; that
    is so for the paper's own setting, N = 5, H = 200, c = 3.

    Examples
    --------
    >>> round(coverage_gap_limit(0.1, n_arms=5, budget=1, horizon=200, merit=Exponential(1.0)), 3)
    1.004
    >>> coverage_gap_limit(0.01, n_arms=5, budget=1, horizon=200, merit=Exponential(3.0))
    inf
    """
    away = check_number("epsilon", epsilon, 0.0, 0.5)
    H = check_whole("horizon", horizon, 1)
    one_state = 2 * (1 - away) ** H
    least = merit.gamma / (n_arms * float(merit(1.0)))
    one_action = largest_exposure(n_arms, budget, merit) ** H + (1 - least) ** H
    if one_state >= 1 or one_action >= 1:
        return float("inf")
    return float(1 / (1 - (one_state + one_action - one_state * one_action)))


def benefit_error_bound(radius: npt.ArrayLike, eta: float, omega: float) -> FloatArray:
    """Return Theorem 5.4's bound on how far an estimated benefit is from the true one.

    Parameters
    ----------
    radius : array_like, shape (..., 2, 2)
        Confidence radius by state and action.
    eta, omega : float
        As in Definition 5.2, below 1; or an arm's own at this episode, which is tighter.
    """
    d = by_state_and_action("radius", radius)
    numerator = d[..., 1, 1] + 2 * d[..., 0, 1] + d[..., 1, 0] + 2 * d[..., 0, 0]
    return np.asarray(numerator / (_gap("eta", eta) * _gap("omega", omega)))  # Theorem 5.4


def regret_bound(
    episodes: npt.ArrayLike,
    *,
    n_arms: int,
    merit: Merit,
    delta: float,
    first_valid_episode: float,
    coverage_gap: float,
    eta: float,
    omega: float,
) -> FloatArray:
    """Return Theorem 5.5's bound on the fairness regret of T episodes for K = 1, constants included.

    N t0 + N sqrt(T) + 96 L sqrt(G T ln(8 N T / delta)) / (gamma (1 - eta) (1 - omega)), which holds for
    T > t0 with probability at least 1 - delta.

    Parameters
    ----------
    episodes : array_like
        T: one number or many, as for a figure.
    n_arms : int
    merit : Merit
    delta : float
    first_valid_episode, coverage_gap, eta, omega : float
        t0, G, eta and omega of T episodes. Those of a longer run are larger.

    Examples
    --------
    >>> known = dict(n_arms=5, merit=Exponential(1.0), delta=0.01, first_valid_episode=8, coverage_gap=20,
    ...              eta=0.9, omega=0.5)
    >>> bound = regret_bound([10_000, 40_000], **known)
    >>> float((bound[1] / bound[0]).round(2))          # four times the episodes: about twice the bound
    2.08
    """
    T, N = _positive(episodes), check_whole("n_arms", n_arms, 1)
    t0, G, log_term = _growth(T, N, delta, first_valid_episode, coverage_gap)
    growth = np.sqrt(G * T * log_term)
    constant = 96 * merit.lipschitz / (merit.gamma * _gap("eta", eta) * _gap("omega", omega))
    return np.asarray(N * t0 + N * np.sqrt(T) + constant * growth)  # Theorem 5.5


def exposure_regret_bound(
    episodes: npt.ArrayLike,
    *,
    n_arms: int,
    budget: int,
    merit: Merit,
    delta: float,
    first_valid_episode: float,
    coverage_gap: float,
    eta: float,
) -> FloatArray:
    """Return the bound of Theorem 1 of `docs/theory.md` on the exposure regret of T episodes, for any K.

    2 K max(t0, G) + 32 K L sqrt(G T ln(8 N T / delta)) / (gamma (1 - eta)) + 3/2 K G ln(1 + 2 T / G), with probability
    at least 1 - delta.

    It is for `MeritFair` with an exact or systematic design, any estimate, the ball ``paper`` or ``kl``, at most
    900 N / delta steps to an episode, no slack, and no floor or cap. For K = 1 it is a bound on the paper's regret too,
    about three times below Theorem 5.5 and without its factor 1 / (1 - omega).

    Parameters
    ----------
    episodes : array_like
        T: one number or many, as for a figure.
    n_arms : int
    budget : int
    merit : Merit
    delta : float
    first_valid_episode, coverage_gap, eta : float
        t0, G and eta of T episodes. With saturated arms G grows at least as the square root of T, so that with one G
        for all T the bound does not say how regret grows.

    Examples
    --------
    >>> known = dict(n_arms=20, budget=4, merit=Exponential(1.0), delta=0.01, first_valid_episode=8, coverage_gap=20,
    ...              eta=0.9)
    >>> bound = exposure_regret_bound([10_000, 1_000_000], **known)
    >>> float((bound[1] / bound[0]).round(1))          # a hundred times the episodes, and the same G
    11.2
    """
    T, N = _positive(episodes), check_whole("n_arms", n_arms, 1)
    K = check_budget(budget, N)
    t0, G, log_term = _growth(T, N, delta, first_valid_episode, coverage_gap)
    estimates = 32 * K * merit.lipschitz * np.sqrt(G * T * log_term) / (merit.gamma * _gap("eta", eta))
    caps = 1.5 * K * G * np.log1p(2 * T / G)  # what they take from arms that are hardly seen without a pull
    return np.asarray(2 * K * max(t0, G) + estimates + caps)


def saturation_margin(merit: npt.ArrayLike, budget: int) -> float:
    """Return how far arms are from where saturation begins: the least abs(lambda g - 1) of any arm.

    Here lambda is such that the exposures min(1, lambda g) sum to the budget. Where the margin of the true merits is
    above 0, the exposure regret of `MeritFair` with an exact design, no floor, cap or slack is O(sqrt(T ln T)); where
    it is 0, only T^(2/3) is proved, and with the same constant for all margins T^(3/4) (`docs/theory.md`, Theorem 2).

    Parameters
    ----------
    merit : array_like, shape (N,)
    budget : int
        K; if all arms are pulled, the margin is infinite.

    Examples
    --------
    >>> round(saturation_margin([6.0, 2.0, 2.0, 1.0], budget=2), 2)  # lambda is 1/5: others share 1 pull
    0.2
    >>> round(saturation_margin([5.0, 2.0, 2.0, 1.0], budget=2), 2)
    0.0
    """
    g = float_array("merit", merit)
    if check_budget(budget, g.shape[-1]) == g.shape[-1]:
        return float("inf")
    return float(np.abs(allocate(g, budget).rate * g - 1).min())


def expected_visits(arms: Arms, exposure: npt.ArrayLike, horizon: int) -> FloatArray:
    """Return how often one episode visits each (arm, state, action), on average.

    Arms start good with probability 1/2 and are pulled with the same exposure at each step. The probability
    of the good state at step h (from 0) is f + r^h (1/2 - f), with f the steady state and r the
    difference that the current state makes.

    Returns
    -------
    ndarray, shape (N, 2, 2)
    """
    H = check_whole("horizon", horizon, 1)
    e = float_array("exposure", exposure)
    f = steady_state(arms.transitions, e, arms.names)
    from_state = arms.transitions[..., 0] * (1 - e)[:, None] + arms.transitions[..., 1] * e[:, None]
    r = from_state[:, 1] - from_state[:, 0]
    good = H * f + (0.5 - f) * (1 - r**H) / (1 - r)
    state = np.stack([H - good, good], axis=-1)
    action = np.stack([1 - e, e], axis=-1)
    return np.asarray(state[:, :, None] * action[:, None, :])


def exposure_slope(merit: Merit, benefit: FloatArray, budget: int, design: str) -> tuple[FloatArray, FloatArray]:
    """Return the derivative of shares or exposures by the benefits, as two vectors a and b of shape (N,).

    For the sequential design that of the paper's shares pi, for the others that of the exposures. The derivative of
    that of arm i by the benefit of arm j is (1 if i = j else 0) a[j] - b[i] a[j]: saturated arms do not move, and what
    one of the others gains is taken from all of them, in proportion to what they have.
    """
    value = merit(benefit)
    with np.errstate(under="ignore"):
        growth = merit.derivative(benefit) / value
    if design == "sequential":
        share = merit_share(value)
        return growth * share, share
    shared = allocate(value, budget)
    moving = np.where(shared.saturated, 0.0, shared.exposure)
    return growth * moving, moving / max(float(moving.sum()), np.finfo(float).tiny)


def information_limit(
    arms: Arms,
    budget: int,
    episodes: npt.ArrayLike,
    horizon: int = 200,
    merit: Merit | None = None,
    design: Any = "sequential",
) -> FloatArray:
    r"""Return about the least fairness regret that any unbiased estimate can have after T episodes.

    With the fair exposures, one episode visits (s, a) of arm i so often on average, and no unbiased
    estimate of the benefit has a smaller variance than
    :math:`v_i = \sum_{s,a} (\partial\mu_i/\partial P_i(s,a))^2 P_i(s,a)(1 - P_i(s,a)) / \text{visits}_i(s,a)`
    (Cramér and Rao). With :math:`J` the derivative of the shares :math:`\pi` by the benefits, or of the exposures, the
    regret of normal errors of that size is, after t episodes each, in all

    .. math:: \sqrt{2/\pi}\, \sum_i \sqrt{\textstyle\sum_j J_{ij}^2 v_j}\; \sum_{t=1}^{T} 1/\sqrt{t} .

    Parameters
    ----------
    arms : Arms
    budget : int
        Arms pulled at each step; with all arms pulled nothing is learned of leaving them: infinite.
    episodes : array_like of int
        T: one number or many, as for a figure.
    horizon : int
    merit : Merit, optional
        By default the paper's, Exponential(3).
    design : {"sequential", "exact", "systematic"}
        For the sequential design the limit is on `Run.fairness_regret`, of shares; for the others on
        `Run.exposure_regret`.

    Examples
    --------
    >>> import meritfair as mf
    >>> arms = mf.datasets.synthetic(n_arms=5, seed=1, budget=1, authors=True)
    >>> float(information_limit(arms, 1, 10_000).round(2))
    38.4
    """
    T = np.asarray(episodes)
    if T.dtype.kind not in "iu" or not np.all(T >= 1):
        raise InputError(f"episodes must be whole numbers of at least 1, got {episodes!r}")
    g = Exponential() if merit is None else merit
    visits = expected_visits(arms, fair_exposure(g(arms.benefit), budget, design), horizon)
    P = arms.transitions
    spread = benefit_gradient(P) ** 2 * P * (1 - P)
    with np.errstate(divide="ignore"):
        variance = np.divide(spread, visits, out=np.zeros_like(spread), where=spread > 0).sum(axis=(-2, -1))
    slope, part = exposure_slope(g, arms.benefit, check_budget(budget, arms.n_arms), design)
    each = np.multiply(slope**2, variance, out=np.zeros_like(slope), where=slope > 0)
    if np.isinf(each).any():  # some (s, a) is never visited
        return np.full(T.shape, np.inf)
    series = np.cumsum(1 / np.sqrt(np.arange(1, int(T.max()) + 1)))
    return np.asarray(np.sqrt(2 / np.pi) * shared_error(part, each).sum() * series[T - 1])


def _positive(episodes: npt.ArrayLike) -> FloatArray:
    """Return T, one number or many."""
    T = float_array("episodes", episodes)
    if not np.all(T > 0):
        raise InputError(f"episodes must be positive, got {T[~(T > 0)].flat[0]}")
    return T


def _growth(T: FloatArray, N: int, delta: float, t0: float, G: float) -> tuple[float, float, FloatArray]:
    """Return t0, G and the logarithm that bounds have in common, checked."""
    allowed = check_number("delta", delta, 0.0, 1.0, open_ends=True)
    waits = check_number("first_valid_episode", t0, 0.0), check_number("coverage_gap", G, 1.0)
    return *waits, np.log(8 * N * T / allowed)


def _gap(name: str, value: float) -> float:
    """Return how far eta or omega is from 1, refusing values for which the theorems say nothing."""
    if not -1.0 <= value < 1.0:
        raise InputError(f"{name} must be below 1 (it is not before t0), got {value}")
    return 1 - value
