r"""Gaps: stretches of rounds in which an arm's state was not observed, between two states that were.

What was done in each round of a gap is known. An arm that was in state s and, after the actions :math:`a_1 \dots a_m`,
in state s′ has said something of every round between: the likelihood is an entry of a product of matrices,

.. math:: \Pr(s' \mid s, a_1 \dots a_m) = \big( M(a_1) \cdots M(a_m) \big)_{s s'}, \qquad
    M(a) = \begin{pmatrix} 1 - P(0,a) & P(0,a) \\ 1 - P(1,a) & P(1,a) \end{pmatrix} .

**Estimates.** `fill` finds, arm by arm, the fixed point of EM,

.. math:: P(s,a) = \frac{\text{good}(s,a) + \alpha}{\text{visits}(s,a) + \alpha + \beta} ,

where visits and good outcomes are the complete ones and, for the rounds in gaps, those expected given P and all that
was observed. With :math:`\alpha = \beta = 1` and no gaps it is the posterior mean under a uniform prior. The fixed
point is a maximum of the likelihood times :math:`\prod P^\alpha (1 - P)^\beta`.

**How sure that is.** Expected visits are worth less than observed ones. The *effective* visits are those that, if they
had been observed, would leave the same variance as the observed information I (Louis 1982), that is minus the second
derivatives of the same function:

.. math:: \frac{P(s,a)\,(1 - P(s,a))}{n(s,a) + \alpha + \beta} = (I^{-1})_{sa,sa} .

They are at most the expected visits, and the same if nothing is missing. Policies and the classes of ``pooled`` learn
from effective counts; intervals by draws need no such approximation (`FilledPosterior`).

**What stays out.** States must be missing for reasons that have nothing to do with what they are, given the last
state that was observed and the actions since. Nothing in a log can prove that; `missing_rates` shows what would be
odd.

References
----------
T. A. Louis, "Finding the observed information matrix when using the EM algorithm", J. R. Statist. Soc. B 44 (1982).
A. Mate et al., "Collapsing bandits and their application to public health interventions", NeurIPS (2020).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from meritfair.core.arrays import BoolArray, FloatArray, IntArray, frozen
from meritfair.core.errors import InputError
from meritfair.core.machine import available_cores
from meritfair.engine.gaps import BAD, GOOD, GapArrays, add_expected, climb, curve, draw_filled
from meritfair.engine.random import new_source
from meritfair.model.counts import Counts
from meritfair.model.posterior import Posterior, Prior

_STEPS = 2000  # of EM, at most
_ENOUGH = 1e-11  # a step that moves no probability by more is the last
_LEAST = 1e-9  # information, where there is none
_BURN_IN = 30  # turns of data augmentation before the first draw
_TOGETHER = 500  # arms that share a random number generator


@dataclass(frozen=True, eq=False)
class Gaps:
    """Gaps of some arms, in order of the arms.

    Attributes
    ----------
    arm : ndarray of int, shape (G,)
        Whose gap each is.
    start, end : ndarray of int, shape (G,)
        The last state that was observed before it, and the first one after it.
    first : ndarray of int, shape (G + 1,)
        Where the actions of each gap begin; the last number is where those of the last end.
    actions : ndarray of int
        What was done, from the round of the state before the gap to the one before the state after it.
    weight : ndarray, shape (G,), optional
        How much each counts; by default 1.

    Examples
    --------
    An arm in the bad state was pulled, then not, and two rounds later it is in the good state:

    >>> gaps = Gaps(arm=[0], start=[0], end=[1], first=[0, 2], actions=[1, 0])
    >>> filled = fill(Counts.none(1), gaps)
    >>> filled.expected.visits.sum()
    np.float64(2.0)
    """

    arm: IntArray
    start: IntArray
    end: IntArray
    first: IntArray
    actions: IntArray
    weight: FloatArray | None = None

    def __post_init__(self) -> None:
        for name in ("arm", "start", "end", "first", "actions"):
            object.__setattr__(self, name, frozen(np.asarray(vars(self)[name], np.int64)))
        weight = np.ones(len(self.arm)) if self.weight is None else np.asarray(self.weight, np.float64)
        object.__setattr__(self, "weight", frozen(weight))
        if np.any(np.diff(self.arm) < 0):
            raise InputError("gaps must be in order of the arms")

    @classmethod
    def none(cls) -> Gaps:
        """Return no gaps."""
        nothing = np.zeros(0, np.int64)
        return cls(nothing, nothing, nothing, np.zeros(1, np.int64), nothing)

    def __len__(self) -> int:
        return len(self.arm)

    @property
    def lengths(self) -> IntArray:
        """How many rounds each takes, at least 2."""
        return np.asarray(np.diff(self.first))

    def merged(self) -> Gaps:
        """Return gaps in which those of an arm that are alike, without a pull, are one with their weight.

        Where pulls are rare most gaps are so, and their number does not grow with the rounds.

        Examples
        --------
        >>> Gaps([0, 0, 0], [1, 0, 1], [0, 0, 0], [0, 2, 4, 6], [0, 0, 1, 0, 0, 0]).merged().weight
        array([2., 1.])
        """
        pulls = np.add.reduceat(self.actions, self.first[:-1]) if len(self) else self.arm
        kind = 4 * self.lengths + 2 * self.start + self.end
        kind = np.where(pulls == 0, kind, kind.max(initial=0) + 1 + np.arange(len(self)))  # the others stay alone
        _, places, which = np.unique(
            self.arm * (kind.max(initial=0) + 1) + kind, return_index=True, return_inverse=True
        )
        if len(places) == len(self):
            return self
        lengths = self.lengths[places]
        first = np.r_[0, np.cumsum(lengths)]
        rows = np.arange(first[-1]) + np.repeat(self.first[places] - first[:-1], lengths)
        weight = np.bincount(which, self.weight, len(places)).astype(np.float64)
        return Gaps(self.arm[places], self.start[places], self.end[places], first, self.actions[rows], weight)

    def arrays(self, n_arms: int) -> GapArrays:
        """Return what kernels take, for that many arms."""
        bounds = np.searchsorted(self.arm, np.arange(n_arms + 1))
        return GapArrays(*(np.array(x) for x in (bounds, self.start, self.end, self.first, self.actions, self.weight)))

    @property
    def room(self) -> FloatArray:
        """Room for the rounds of the longest gap."""
        return np.empty(int(self.lengths.max(initial=0)))


@dataclass(frozen=True, eq=False)
class Filled:
    """What is known of arms with gaps.

    Attributes
    ----------
    estimate : ndarray, shape (N, 2, 2)
        The fixed point of EM.
    expected : Counts
        Complete outcomes, and those expected in gaps.
    effective : Counts
        What the expected ones are worth.
    """

    estimate: FloatArray
    expected: Counts
    effective: Counts


def fill(
    counts: Counts,
    gaps: Gaps,
    prior_good: FloatArray | float = 1.0,
    prior_bad: FloatArray | float = 1.0,
    first: FloatArray | None = None,
    steps: int = _STEPS,
    enough: float = _ENOUGH,
) -> Filled:
    """Return what is known of arms of which these complete outcomes and these gaps were observed.

    Parameters
    ----------
    counts : Counts
        Complete outcomes, shape (N, 2, 2).
    gaps : Gaps
    prior_good, prior_bad : float or ndarray, shape (N, 2, 2)
        What was known before: the alpha and beta of the module's formula.
    first : ndarray, shape (N, 2, 2), optional
        Where EM begins, such as where it was before more was observed; by default at what the complete outcomes say.
    steps : int
        Steps of EM, at most.
    enough : float
        A step that moves no probability by more is the last.
    """
    N = counts.n_arms
    seen = outcomes(counts)
    prior = _outcomes(*(np.broadcast_to(x, (N, 2, 2)) for x in (prior_good, prior_bad)))
    points = (seen[:, GOOD] + prior[:, GOOD]) / (seen + prior).sum(axis=1)
    if not len(gaps):
        return Filled(frozen(points.reshape(N, 2, 2)), counts, counts)
    if first is not None:
        points = np.array(first, np.float64).reshape(N, 4)
    some, which = np.unique(gaps.arm, return_inverse=True)  # of the others, all outcomes are complete
    own = dataclasses.replace(gaps, arm=which).merged()
    arrays, expected, effective = own.arrays(len(some)), seen.copy(), seen.copy()
    mine, theirs, found = seen[some], prior[some], points[some]
    inside = np.zeros_like(mine)
    climb(arrays, mine, theirs, found, own.room, inside, steps, enough)
    information = _information(arrays, found, mine + theirs)
    points[some], expected[some] = found, inside
    effective[some] = _effective(found, inside, theirs, information)
    return Filled(frozen(points.reshape(N, 2, 2)), _counts(expected), _counts(effective))


def log_likelihood(transitions: FloatArray, counts: Counts, gaps: Gaps) -> FloatArray:
    """Return the log-likelihood of what was observed of each arm, shape (N,), for given transitions."""
    P, heights = np.ascontiguousarray(transitions, np.float64).reshape(-1, 4), np.zeros(counts.n_arms)
    seen = outcomes(counts)
    add_expected(gaps.arrays(counts.n_arms), P, gaps.room, np.zeros_like(seen), heights)
    return np.asarray(heights + (seen[:, GOOD] * np.log(P) + seen[:, BAD] * np.log1p(-P)).sum(axis=1))


def outcomes(counts: Counts) -> FloatArray:
    """Return complete outcomes as kernels take them, shape (N, 2, 4): good and bad, by cell."""
    return _outcomes(counts.good, counts.visits - counts.good)


def _outcomes(good: FloatArray | IntArray, bad: FloatArray | IntArray) -> FloatArray:
    return np.stack([good.reshape(-1, 4), bad.reshape(-1, 4)], axis=1).astype(np.float64)


def _counts(outcomes: FloatArray) -> Counts:
    return Counts(outcomes.sum(axis=1).reshape(-1, 2, 2), outcomes[:, GOOD].reshape(-1, 2, 2))


def _information(gaps: GapArrays, points: FloatArray, outcomes: FloatArray) -> FloatArray:
    """Return the observed information on each arm's probabilities, shape (N, 4, 4)."""
    information = np.zeros((len(points), 4, 4))
    own = outcomes[:, GOOD] / points**2 + outcomes[:, BAD] / (1 - points) ** 2
    information[:, range(4), range(4)] = own
    curve(gaps, points, np.empty(4), np.empty((4, 4)), information)
    return information


def _effective(points: FloatArray, expected: FloatArray, prior: FloatArray, information: FloatArray) -> FloatArray:
    """Return outcomes that would leave the same variances, between none and those expected, in the same ratio."""
    scale = np.sqrt(points * (1 - points))
    scaled = information * scale[:, :, None] * scale[:, None, :]  # about as large as counts
    scaled[np.linalg.det(scaled) == 0] += _LEAST * np.eye(4)  # at a saddle point nothing may be known in one direction
    variance = np.linalg.inv(scaled)[:, range(4), range(4)]
    before = prior.sum(axis=1)
    visits = np.where(variance > 0, 1 / variance, 0.0) - before
    visits = np.clip(visits, 0.0, expected.sum(axis=1))
    good = np.clip(points * (visits + before) - prior[:, GOOD], 0.0, visits)
    return np.stack([good, visits - good], axis=1)


@dataclass(frozen=True, eq=False)
class FilledPosterior(Posterior):
    """What is known of arms with gaps: a mixture of Beta distributions by effective counts, and draws that are exact.

    Attributes
    ----------
    prior : Prior
    counts : Counts
        Complete outcomes.
    gaps : Gaps
    class_weights : ndarray, shape (N, C)
        With which probability each arm belongs to each class before anything was seen of it.
    """

    prior: Prior
    counts: Counts
    gaps: Gaps
    class_weights: FloatArray

    def in_chunks(
        self, rng: np.random.Generator, size: int, chunk: int, settled: BoolArray | None = None
    ) -> Iterator[FloatArray]:
        """Yield draws of all probabilities, up to `chunk` at a time; of arms with gaps, one depends on the last.

        Arms that are `settled`, which may change between two chunks, need no more draws: theirs mean nothing.
        """
        N, C = self.class_weights.shape
        points, weights = np.array(self.mean, order="C").reshape(N, 4), np.array(self.class_weights, order="C")
        seen = outcomes(self.counts)
        known = self.gaps.arrays(N), seen, weights, _outcomes(self.prior.good, self.prior.bad), points
        seeds = np.random.SeedSequence(rng.integers(2**63, size=4).tolist()).spawn(-(-N // _TOGETHER))
        sources = [new_source(seed) for seed in seeds]  # by arms, so that results do not depend on the threads
        together = np.array_split(np.arange(N), np.arange(_TOGETHER, N, _TOGETHER))
        with ThreadPoolExecutor(available_cores(), thread_name_prefix="meritfair") as pool:
            for start in range(0, size, chunk):
                drawn = np.empty((min(chunk, size - start), N, 4))

                def work(part: int, drawn: FloatArray = drawn, burn_in: int = 0 if start else _BURN_IN) -> None:
                    room = self.gaps.room, np.empty((2, 4)), np.empty(C), sources[part]
                    arms = together[part] if settled is None else together[part][~settled[together[part]]]
                    draw_filled(*known, *room, arms, burn_in, drawn)

                list(pool.map(work, range(len(sources))))
                yield drawn.reshape(-1, N, 2, 2)


def posterior(prior: Prior, counts: Counts, gaps: Gaps, effective: Counts | None = None) -> Posterior:
    """Return what is known of arms after these complete outcomes and gaps; `effective` if it is known already."""
    if not len(gaps):
        return prior.posterior(counts)
    known = prior.posterior(fill(counts, gaps).effective if effective is None else effective)
    weights = prior.posterior(Counts.none(counts.n_arms)).weights
    return FilledPosterior(known.weights, known.good, known.bad, prior, counts, gaps, weights)
