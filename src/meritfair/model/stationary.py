r"""The exposures between two bounds that keep most arms in the good state in the long run: the programme of ProbFair.

Arm i, pulled with probability :math:`p_i` at every step whatever its state, is good a fraction :math:`f_i(p_i)` of the
time (`steady_state`, Eq. 5). Wanted are the exposures

.. math:: \max \sum_i f_i(p_i), \qquad l \le p_i \le u, \qquad \sum_i p_i = K .

*One arm.* Equation 5 is a ratio of two straight lines in p. With :math:`p = l + \theta (u - l)`, :math:`b(p)` the
denominator, :math:`G = f(u) - f(l)` and :math:`q = b(u) / b(l)`, it reads

.. math::
    f(p) = f(l) + G \frac{\theta q}{1 - \theta + \theta q}, \qquad
    \frac{df}{d\theta} = \frac{G q}{(1 - \theta + \theta q)^2} .

So f is concave if :math:`G (q - 1) > 0`, convex if it is negative, and straight if it is 0.

*Concave arms* by themselves take :math:`\theta_i` up to where their slope is a common multiplier :math:`\lambda`. With
:math:`\kappa = \mathrm{sign}(\lambda) \sqrt{|\lambda|}`, :math:`\theta_i` is straight in :math:`1/\kappa` and
:math:`f_i` is straight in :math:`\kappa`, between the :math:`\kappa` at which the arm leaves 0 and that at which it
reaches 1. So as :math:`\kappa` grows, the vector of all :math:`\theta_i` moves along a polyline whose vertices are
known; the point with a given sum is found by bisection over vertices and one interpolation, without iteration.

*Convex arms are at an end, but for one.* If two were strictly inside, moving a little from one to the other, in one
direction or in the other, would gain. Of those at an end, the ones at u are those with the largest G, as swapping two
changes the sum by the difference of their G. So the convex arms are described by the number m at u, and by which arm j
is inside and where.

*Only one m matters.* Let :math:`R(y)` be the most that can be had if convex arms take :math:`y` in all (the sum of
their :math:`\theta`) and are replaced by their chords, which lie above them. R is concave, and at whole y it is
attained by the arms themselves. Let :math:`y^*` be where R is largest and :math:`m = \lfloor y^* \rfloor`. Outside
[m, m + 1], R is at most its value at the nearer of m and m + 1, which is attained. So the best solution has y in
[m, m + 1]: m arms at u and one arm j inside, or at an end.

*The arm inside.* For each j, with T the sum of all :math:`\theta`, the concave arms have the rest,
:math:`T - m - \theta_j`. Along one edge of their polyline, :math:`\theta_j` and the rest are straight in
:math:`1/\kappa`, so the sum is stationary at one point at most, which is found by interpolation; where straight arms
fill up, the sum is convex and has its maximum at an end. All of these are tried, and all ends of edges: O(N log N) in
all but rare cases.

References
----------
C. Herlihy, A. Prins, A. Srinivasan and J. P. Dickerson, "Planning to Fairly Allocate: Probabilistic Fairness in the
Restless Bandit Setting", KDD 2023.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from meritfair.core.arrays import FloatArray, IntArray
from meritfair.core.checks import check_budget, check_number, float_array
from meritfair.core.errors import InputError
from meritfair.model.benefit import steady_state

_STRAIGHT = 1e-12  # an arm that bends by less counts as straight, so that rounding cannot tell equal arms apart
_ROUNDING = 1e-12


def best_exposure(
    transitions: npt.ArrayLike,
    budget: int,
    lower: float = 0.0,
    upper: float = 1.0,
    rng: np.random.Generator | None = None,
) -> FloatArray:
    """Return the exposures between two bounds with the largest expected number of good arms in the long run.

    Parameters
    ----------
    transitions : array_like, shape (N, 2, 2)
        Probability that the next state is good, by arm, state and action.
    budget : int
        What the exposures sum to.
    lower, upper : float
        The least and the most exposure of any arm; `budget` / N must lie between them.
    rng : Generator, optional
        Decides which of several arms are at `upper` where they are worth the same there; else their order does.

    Examples
    --------
    The first arm gains less and less by each further pull, the second more and more; the third is harmed.

    >>> arms = [[[0.1, 0.5], [0.5, 0.6]], [[0.1, 0.2], [0.5, 0.9]], [[0.3, 0.2], [0.7, 0.6]]]
    >>> best_exposure(arms, budget=1, lower=0.1).round(4)
    array([0.1, 0.8, 0.1])
    >>> best_exposure(arms, budget=2, lower=0.1).round(4)
    array([0.9, 1. , 0.1])
    """
    P = float_array("transitions", transitions)
    if P.ndim != 3:
        raise InputError(f"transitions must have shape (N, 2, 2) by arm, state and action, got {P.shape}")
    N, K = len(P), check_budget(budget, len(P))
    check_between(lower, upper, N, K)
    gain = steady_state(P, upper) - steady_state(P, lower)
    if upper == lower:
        return np.full(N, lower)
    bend = _rate(P, upper) / _rate(P, lower)
    bend = np.where(np.abs(gain * (bend - 1)) <= _STRAIGHT * np.minimum(1.0, bend), 1.0, bend)
    total = min(float(N), max(0.0, (K - N * lower) / (upper - lower)))
    return np.clip(lower + (upper - lower) * _best(gain, bend, total, rng), lower, upper)


def check_between(lower: float, upper: float, n_arms: int, budget: int) -> None:
    """Refuse bounds between which a budget cannot be shared."""
    check_number("lower", lower, 0.0, 1.0)
    check_number("upper", upper, 0.0, 1.0)
    equal = f"an equal share of the budget, {budget} / {n_arms} = {budget / n_arms:.4g}"
    if lower > budget / n_arms + _ROUNDING:
        raise InputError(f"lower must be at most {equal}, got {lower:g}")
    if upper < budget / n_arms - _ROUNDING:
        raise InputError(f"upper must be at least {equal}, got {upper:g}")


def _rate(P: FloatArray, p: float) -> FloatArray:
    """Return the denominator of Eq. (5)."""
    leave = 1 - P[:, 1] + P[:, 0]
    return np.asarray((1 - p) * leave[:, 0] + p * leave[:, 1])


def _value(gain: FloatArray, bend: FloatArray, theta: FloatArray) -> FloatArray:
    """Return f(p) - f(l)."""
    return np.asarray(gain * theta * bend / (1 - theta + theta * bend))


def _root(slope: FloatArray) -> FloatArray:
    """Return kappa for lambda."""
    return np.sign(slope) * np.sqrt(np.abs(slope))


def _best(gain: FloatArray, bend: FloatArray, total: float, rng: np.random.Generator | None) -> FloatArray:
    """Return theta of all arms, with the given sum."""
    is_convex = gain * (bend - 1) < 0
    if not is_convex.any():
        return _Path(gain, bend).share(total)
    with_chords = _Path(gain, np.where(is_convex, 1.0, bend)).share(total)
    concave, convex = np.flatnonzero(~is_convex), _by_gain(np.flatnonzero(is_convex), gain, rng)
    m = min(int(with_chords[convex].sum()), len(convex) - 1)
    path = _Path(gain[concave], bend[concave])
    j, inside = _one_inside(path, gain[convex], bend[convex], m, total - m)
    theta = np.zeros(len(gain))
    theta[np.delete(convex, j)[:m]] = 1.0
    theta[convex[j]] = inside
    theta[concave] = path.share(total - m - inside)
    return theta


def _by_gain(arms: IntArray, gain: FloatArray, rng: np.random.Generator | None) -> IntArray:
    """Return arms from the largest gain to the smallest, with ties at random."""
    if rng is not None and len(np.unique(gain[arms])) < len(arms):
        arms = rng.permutation(arms)
    return arms[np.argsort(-gain[arms], kind="stable")]


def _one_inside(path: _Path, gain: FloatArray, bend: FloatArray, m: int, rest: float) -> tuple[int, float]:
    """Return which convex arm is inside, and its theta, if m others are at u; arms are in order of their gain.

    The arm inside and the concave arms have `rest` between them. Arrays have a row for each arm j that could be inside
    and a column for each edge of the path, or each vertex.
    """
    vertices = np.arange(path.reach(rest), path.reach(rest - 1) + 2)
    taken = path.at(vertices)
    left, worth, key = rest - taken.sum(axis=-1), _value(path.gain, path.bend, taken).sum(axis=-1), path.key[vertices]
    before, after = slice(None, -1), slice(1, None)  # of each edge
    with np.errstate(divide="ignore", invalid="ignore"):
        ends = np.nan_to_num(np.clip((np.array([[0.0], [1.0]]) - left[before]) / np.diff(left), 0.0, 1.0))
        wanted = (_root(gain * bend)[:, None] / key - 1) / (bend[:, None] - 1)  # theta_j where its slope is kappa^2
        missing = left - wanted
        level = np.nan_to_num(missing[:, before] / (missing[:, before] - missing[:, after]))
        at = np.stack([np.broadcast_to(end, level.shape) for end in ends] + [np.clip(level, *ends)])  # 0 to 1 on edges
        curve = key[after] + at * (key[before] - key[after])
        straight_in_key = np.where(curve == 0, at, at * key[before] / curve)
    theta = np.clip(left[before] + at * np.diff(left), 0.0, 1.0)
    others = np.where(np.arange(len(gain)) < m, gain[: m + 1].sum() - gain, gain[:m].sum())  # the m best but j
    worth = worth[before] + straight_in_key * np.diff(worth)
    value = _value(gain[:, None], bend[:, None], theta) + others[:, None] + worth
    best = np.unravel_index(np.argmax(value), value.shape)
    return int(best[1]), float(theta[best])


@dataclass(frozen=True, eq=False)
class _Path:
    """The polyline of theta of concave and straight arms as kappa grows.

    Each kappa at which something happens has two vertices: before and after straight arms of that slope give up all
    they have. So edges are by turns of one kappa, and between two.
    """

    gain: FloatArray
    bend: FloatArray

    @property
    def size(self) -> int:
        """How many arms there are."""
        return len(self.gain)

    @cached_property
    def leaves(self) -> FloatArray:
        """Kappa at which an arm has nothing left."""
        return _root(self.gain * self.bend)

    @cached_property
    def reaches(self) -> FloatArray:
        """Kappa up to which an arm has all it can take."""
        return np.minimum(self.leaves, _root(self.gain / self.bend))

    @cached_property
    def key(self) -> FloatArray:
        """Kappa at each vertex."""
        return np.repeat(np.unique(np.concatenate([self.leaves, self.reaches, [] if self.size else [0.0]])), 2)

    def at(self, vertices: IntArray) -> FloatArray:
        """Return theta at some vertices, shape (vertices, arms)."""
        key, before = self.key[vertices][:, None], (vertices % 2 == 0)[:, None]
        with np.errstate(divide="ignore", invalid="ignore"):
            inside = np.clip((self.leaves / key - 1) / (self.bend - 1), 0.0, 1.0)
        moving = np.where(self.leaves == self.reaches, before, inside)
        return np.where(self.reaches > key, 1.0, np.where(self.leaves < key, 0.0, moving))

    def reach(self, total: float) -> int:
        """Return the edge, by its first vertex, along which the sum of theta falls to `total`."""
        last = len(self.key) - 1
        falls = bisect_right(range(last), -total, 1, last, key=lambda vertex: -self.at(np.array([vertex])).sum())
        return falls - 1

    def share(self, total: float) -> FloatArray:
        """Return the best theta with a given sum."""
        edge = self.reach(total)
        more, less = self.at(np.array([edge, edge + 1]))
        span = more.sum() - less.sum()
        part = min(1.0, max(0.0, (total - less.sum()) / span)) if span > 0 else 0.0
        return np.asarray(less + part * (more - less))
