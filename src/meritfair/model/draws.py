r"""Drawing the arms of one step, for given merits: what a live round does, or a test.

A ``sequential`` draw is a race: arm i arrives after an exponential time of rate :math:`g_i`, and the first K to arrive
have exactly the law of drawing one after another. The draws ``exact`` and ``systematic`` are the engine's, one step at
a time, each in a freshly shuffled order: :mod:`meritfair.engine.exact` says how. Both pull each arm with exactly its
exposure, and exactly K arms; they differ in who is drawn together. For a given order, that is known:

**Rounding** (``exact``). Along the order 1, 2, …, let :math:`A_j` be whether the carrier after meeting arm j is pulled
in the end. Going back, :math:`A_{j-1}` and whether arm j is pulled depend on :math:`A_j` and on a coin of its own: a
Markov chain, from which the joint probabilities follow.

**Systematic.** Two arms are drawn together when the point falls where their arcs of the circle overlap.
"""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
import numpy.typing as npt

from meritfair.core.arrays import BoolArray, FloatArray
from meritfair.core.checks import check_budget, check_choice, check_merit, check_whole, float_array
from meritfair.core.errors import InputError
from meritfair.model.exposure import DESIGNS, check_design, fair_exposure

_ROUNDING = 1e-9
_MOST_ORDERS = 8  # arms whose orders are all gone through


def draw(
    merit: npt.ArrayLike,
    budget: int = 1,
    *,
    rng: np.random.Generator,
    size: int = 1,
    design: Any = "sequential",
    floor: npt.ArrayLike = 0.0,
    cap: npt.ArrayLike = 1.0,
) -> BoolArray:
    """Draw `size` times which arms are pulled, each time exactly `budget` different ones.

    Parameters
    ----------
    merit : array_like, shape (N,)
        Positive merits; only their ratios matter.
    budget : int
        Arms pulled, from 1 to N.
    rng : Generator
    size : int
        How many draws, each independent of the others.
    design, floor, cap
        As for `fair_exposure`, which says with which probability each arm is pulled.

    Returns
    -------
    ndarray of bool, shape (size, N)
        Which arms are pulled in each draw.

    Examples
    --------
    >>> pulled = draw([5.0, 1.0, 1.0], budget=2, rng=np.random.default_rng(1), size=1000)
    >>> pulled.sum(axis=1).min(), pulled.sum(axis=1).max()
    (np.int64(2), np.int64(2))
    """
    g = check_merit(merit)
    if g.ndim != 1:
        raise InputError(f"merit must have shape (N,), one number for each arm, got {g.shape}")
    if check_design(design, floor, cap) != "sequential":
        exposure = fair_exposure(g, budget, design, floor=floor, cap=cap)
        return draw_exposures(exposure, rng=rng, size=size, design=design)
    K = check_budget(budget, len(g))
    with np.errstate(divide="ignore"):  # an exponential number may be exactly 0: it arrives first
        arrival = np.log(rng.standard_exponential((check_whole("size", size, 1), len(g)))) - np.log(g)
    pulls = np.zeros(arrival.shape, dtype=np.bool_)
    np.put_along_axis(pulls, np.argpartition(arrival, K - 1, axis=-1)[:, :K], True, axis=-1)
    return pulls


def draw_exposures(
    exposure: npt.ArrayLike, *, rng: np.random.Generator, size: int = 1, design: Any = "exact"
) -> BoolArray:
    """Draw `size` times which arms are pulled, each arm with its exposure, and always the same number of arms.

    Parameters
    ----------
    exposure : array_like, shape (N,)
        Probabilities that sum to a whole number, which is how many arms are pulled.
    rng : Generator
    size : int
    design : {"exact", "systematic"}
        By dependent rounding, or by systematic sampling.

    Examples
    --------
    >>> pulled = draw_exposures([1.0, 0.4, 0.4, 0.2], rng=np.random.default_rng(1), size=10_000)
    >>> pulled.sum(axis=1).min(), pulled.sum(axis=1).max(), pulled.mean(axis=0).round(1)
    (np.int64(2), np.int64(2), array([1. , 0.4, 0.4, 0.2]))
    """
    from meritfair.engine.episodes import drawer  # takes a second to load
    from meritfair.engine.exact import draw_once_each
    from meritfair.engine.lotteries import new_drawing
    from meritfair.engine.random import new_source

    e, K = _check_exposure(exposure)
    name = check_choice("design", design, DESIGNS[1:])
    chosen = np.zeros((check_whole("size", size, 1), len(e)), dtype=np.bool_)
    drawing = new_drawing(len(e), K, 1, np.arange(len(e)))
    source = new_source(np.random.SeedSequence(rng.integers(0, 2**32, 8).tolist()))
    draw_once_each(drawer(len(e), K, DESIGNS.index(name)), drawing, source, np.ascontiguousarray(e), K, chosen)
    return chosen


def _check_exposure(exposure: npt.ArrayLike) -> tuple[FloatArray, int]:
    """Return exposures and their sum, if they can be those of a draw."""
    e = np.array(float_array("exposure", exposure))
    if e.ndim != 1 or len(e) == 0 or not np.all((e >= 0) & (e <= 1)):
        raise InputError(f"exposure must hold one probability for each arm, got {exposure!r}")
    total = float(e.sum())
    if abs(total - round(total)) > _ROUNDING * len(e):
        raise InputError(f"exposures must sum to a whole number, got {total:.12g}")
    return e, round(total)


def joint_exposure(exposure: npt.ArrayLike, design: Any = "exact", order: npt.ArrayLike | None = None) -> FloatArray:
    """Return the probability that two arms are pulled together, by pairs; on the diagonal are the exposures.

    Parameters
    ----------
    exposure : array_like, shape (N,)
        Probabilities that sum to a whole number.
    design : {"exact", "systematic"}
    order : array_like of int, shape (N,), optional
        The order of the arms. By default the average over all orders, for up to 8 arms: draws shuffle the
        order, and for more arms the average over some random orders comes close.

    Examples
    --------
    >>> joint_exposure([0.5, 0.5, 0.5, 0.5])
    array([[0.5       , 0.16666667, 0.16666667, 0.16666667],
           [0.16666667, 0.5       , 0.16666667, 0.16666667],
           [0.16666667, 0.16666667, 0.5       , 0.16666667],
           [0.16666667, 0.16666667, 0.16666667, 0.5       ]])
    """
    e, _ = _check_exposure(exposure)
    joint = _joint_rounding if check_choice("design", design, DESIGNS[1:]) == "exact" else _joint_systematic
    n_arms = len(e)
    if order is None:
        if n_arms > _MOST_ORDERS:
            raise InputError(f"order must be given for more than {_MOST_ORDERS} arms, got {n_arms} arms and none")
        orders = [np.array(each) for each in permutations(range(n_arms))]
    else:
        orders = [np.asarray(order)]
        if orders[0].shape != (n_arms,) or not np.array_equal(np.sort(orders[0]), np.arange(n_arms)):
            raise InputError(f"order must hold each of the {n_arms} arms once, counted from 0, got {order!r}")
    total = np.zeros((n_arms, n_arms))
    for each in orders:
        total[np.ix_(each, each)] += joint(e[each])
    return total / len(orders)


def _joint_rounding(p: FloatArray) -> FloatArray:
    """Return the joint probabilities of arms in this order."""
    n_arms, joint = len(p), np.diag(p)
    pooled = 0.0
    back = np.zeros((n_arms, 2, 2))  # by arm: probability of A[j-1], the last axis, given A[j]
    pulled = np.zeros((n_arms, 2, 2))  # the same, and that arm j is pulled
    for j in range(n_arms):
        both = pooled + p[j]
        if both < 1:
            takes = p[j] / both if both > 0 else 1.0
            outcomes = [(0, 0, 0, 1.0), (1, 1, 0, takes), (1, 0, 1, 1 - takes)]  # after, arm j, before, probability
            pooled = both
        else:
            takes = (1 - pooled) / (2 - both) if both < 2 else 1.0
            outcomes = [(1, 1, 1, 1.0), (0, 1, 0, takes), (0, 0, 1, 1 - takes)]
            pooled = both - 1
        for after, arm, before, probability in outcomes:
            back[j, after, before] += probability
            pulled[j, after, before] += arm * probability
    law = np.array([1.0, 0.0]) if pooled < 0.5 else np.array([0.0, 1.0])  # of the carrier after the last arm
    for j in range(n_arms - 1, -1, -1):
        with_j = law @ pulled[j]
        for i in range(j - 1, -1, -1):
            joint[i, j] = joint[j, i] = (with_j @ pulled[i]).sum()
            with_j = with_j @ back[i]
        law = law @ back[j]
    return joint


def _joint_systematic(p: FloatArray) -> FloatArray:
    """Return the joint probabilities of arms that lie in this order on the circle."""
    end = np.cumsum(p)
    start = (end - p) % 1.0
    stop = start + p
    joint = np.zeros((len(p), len(p)))
    for turn in (-1.0, 0.0, 1.0):
        overlap = np.minimum.outer(stop, stop + turn) - np.maximum.outer(start, start + turn)
        joint += np.maximum(0.0, overlap)
    np.fill_diagonal(joint, p)
    return joint
