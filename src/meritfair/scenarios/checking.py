r"""Whether the log itself bears out what the chains say of a policy: importance weights over a few rounds.

A *window* is h rounds of one arm, one after another, of which all states are known, and with which chance p the action
of each round was taken. Another policy would have taken that action, in that state, with chance q. With

.. math:: w_k = \prod_{j \le k} \frac{q(a_j \mid s_j)}{p(a_j)}

the state s at the end of the windows says what it would have been under the other policy, without any model:

.. math:: \text{IPS} = \frac1n \sum w_h s_h, \qquad \text{SNIPS} = \frac{\sum w_h s_h}{\sum w_h}, \qquad
    \text{DR} = \frac1n \sum \Big( V_0(s_0) + \sum_{k < h} w_{k+1} \big( V_{k+1}(s_{k+1}) - Q_k(s_k, a_k) \big) \Big) .

Here V and Q are what the fitted chain of the arm expects of the end of the window under the other policy:
:math:`V_h(s) = s`, :math:`Q_k(s,a) = P(s,a) V_{k+1}(1) + (1 - P(s,a)) V_{k+1}(0)` and
:math:`V_k(s) = \sum_a q(a \mid s) Q_k(s,a)`. DR (doubly robust) is right if either the chances or the chains are. Its
difference from the mean of :math:`V_0(s_0)`, the *model* on the same windows, is what the log holds against the chains.
Windows do not overlap; standard errors are those of sums over arms, which are independent of each other.

Where states are missing, windows with all states known are not like the others if some states are followed by missing
ones more often. So a window counts for :math:`\prod_k 1 / o(s_k, a_k)`, scaled to a mean of 1, where o is how often the
next state is known after state s and action a, in all arms together.

A policy that learns from the log prefers arms that did well in it, by chance also, and would look too good in the same
rounds. So q in the first half of the log is that of the policy if it had seen the second half alone, and the other
way round.

Weights are worth less the more they differ: n windows count for :math:`(\sum w)^2 / \sum w^2`, the effective sample
size. Below `FEWEST` the error of a share is more than 5 percentage points, and nothing that matters could be
contradicted; below `LEAST_PART` of the windows the check speaks for few of the arms and rounds. Where few are pulled,
windows without a pull say nothing of what the policy does, so the pulls of the log are weighed by themselves, too,
each by q / p: below `FEWEST_PULLS` the error of what came of them is more than 9 percentage points. An action that the
log takes with a chance below `RARE` is not covered by it: weights that large are hardly ever seen, and those that are
seen look fine. Where one of these holds for a policy, the log cannot answer for it, nor where it contradicts the chains
by more than `SIGNIFICANT` standard errors.

References
----------
N. Jiang and L. Li, "Doubly Robust Off-policy Value Evaluation for Reinforcement Learning", ICML 2016.
L. Kish, Survey Sampling, 1965, for the effective sample size.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from meritfair.core.arrays import FloatArray, IntArray
from meritfair.core.texts import several
from meritfair.datasets.logs import StateLog
from meritfair.datasets.missing import missing_states
from meritfair.scenarios.start import Start

FEWEST = 100.0  # effective windows
LEAST_PART = 0.1  # of all windows
FEWEST_PULLS = 30.0  # effective pulls
RARE = 0.01
MOST_UNCOVERED = 0.05  # of a policy's pulls, or of when it does not pull
SIGNIFICANT = 3.0  # standard errors


@dataclass(frozen=True, eq=False)
class Windows:
    """Rounds of arms, h one after another, with what was done in each and with which chance.

    Attributes
    ----------
    arm : ndarray of int, shape (n,)
        Whose window each is, among the arms that are there.
    states : ndarray of int, shape (n, h + 1)
    actions : ndarray of int, shape (n, h)
    exposure : ndarray, shape (n, h)
        The chance of a pull.
    half : ndarray of int, shape (n,)
        In which half of the log each is, 0 or 1.
    weight : ndarray, shape (n,)
        For how many windows it stands, in the mean 1: more where the next state is often missing.
    """

    arm: IntArray
    states: IntArray
    actions: IntArray
    exposure: FloatArray
    half: IntArray
    weight: FloatArray

    def __len__(self) -> int:
        return len(self.arm)

    @cached_property
    def chance(self) -> FloatArray:
        """The chance of the action that was taken, shape (n, h)."""
        return np.where(self.actions == 1, self.exposure, 1 - self.exposure)


def windows_of(log: StateLog, start: Start, rounds: int) -> Windows:
    """Return the windows of that many rounds of the arms that are there; none if the log states no exposures.

    Rounds in which someone else was pulled than was drawn are left out.
    """
    place = np.full(log.n_arms, -1)
    place[start.arms] = np.arange(start.n_arms)
    if log.exposure is None or log.drawn is None:
        none, rows = np.zeros(0, np.int64), np.zeros((0, rounds), np.int64)
        return Windows(none, rows, rows, rows.astype(np.float64), none, np.zeros(0))
    chance = np.where(log.drawn == 1, log.exposure, 1 - log.exposure)
    usable = log.has_outcome & (log.drawn == log.actions) & (chance > 0) & (place[log.arm] >= 0)
    whole = np.append(usable, np.zeros(rounds, np.bool_))
    begins = ((log.rounds - log.rounds.min()) % rounds == 0) & np.all(
        [whole[k : k + len(log)] for k in range(rounds)], axis=0
    )
    rows = np.flatnonzero(begins)[:, None] + np.arange(rounds + 1)
    inner, half = rows[:, :-1], (log.rounds[rows[:, 0]] >= middle_of(log, rounds)).astype(np.int64)
    weight = np.prod(1 / _observed(log)[log.states[inner], log.actions[inner]], axis=1)
    weight = weight / weight.mean() if len(weight) else weight
    return Windows(place[log.arm[rows[:, 0]]], log.states[rows], log.actions[inner], log.exposure[inner], half, weight)


def _observed(log: StateLog) -> FloatArray:
    """Return how often the next state is known after a state that is and an action, shape (2, 2)."""
    found = missing_states(log)
    known = found.rounds - found.missing
    return np.asarray(np.where(known > 0, known / np.maximum(found.rounds, 1), 1.0))


def middle_of(log: StateLog, rounds: int) -> int:
    """Return the round in the middle of a log at which a window begins."""
    first, windows = int(log.rounds.min()), int(log.rounds.max() - log.rounds.min()) // rounds
    return first + rounds * (windows // 2)


@dataclass(frozen=True)
class Check:
    """What the log itself says of a policy over a few rounds.

    Attributes
    ----------
    model : float
        The share in the good state after these rounds, by the chains.
    ips, ips_error, snips, snips_error, robust, robust_error : float
        The same by weights alone, by weights that are normalised, and doubly robust, with standard errors.
    difference, difference_error : float
        The doubly robust estimate less that of the model.
    windows : int
        How many there are.
    effective : float
        What they are worth under this policy.
    effective_pulls : float
        What the pulls of the log are worth for those of this policy.
    uncovered : float
        The part of the policy's pulls at which the log pulls hardly ever, or the other way round if that is more.
    refusal : str
        Why there is no answer for this policy; empty if there is.
    disagrees : bool
        Whether that is because the log contradicts the chains.
    """

    model: float
    ips: float
    ips_error: float
    snips: float
    snips_error: float
    robust: float
    robust_error: float
    difference: float
    difference_error: float
    windows: int
    effective: float
    effective_pulls: float
    uncovered: float
    refusal: str
    disagrees: bool = False

    @property
    def verdict(self) -> str:
        """``refused``, ``disagrees`` or ``agrees``."""
        if self.disagrees:
            return "disagrees"
        return "refused" if self.refusal else "agrees"

    def refused(self, refusal: str) -> Check:
        """Return a check that says that the log contradicts the chains, and how."""
        return dataclasses.replace(self, refusal=refusal, disagrees=True)


def check(windows: Windows, chance: FloatArray, transitions: FloatArray, pull: FloatArray | None = None) -> Check:
    """Weigh the windows by a policy's chance of a pull, shape (2, N, 2) by half, arm and state.

    The chains have shape (N, 2, 2). If the chance at each round of the windows is known, `pull`, shape (n, h), weights
    are by that.
    """
    if not len(windows):
        nan = math.nan
        return Check(nan, nan, nan, nan, nan, nan, nan, nan, nan, 0, 0.0, 0.0, 1.0, _NO_WINDOWS)
    if pull is None:
        pull = np.take_along_axis(chance[windows.half, windows.arm], windows.states[:, :-1], axis=1)
    taken = np.where(windows.actions == 1, pull, 1 - pull)
    ratios: FloatArray = np.asarray(taken / windows.chance, np.float64)
    weights: FloatArray = np.asarray(np.cumprod(ratios, axis=1), np.float64)
    expected, surprise = _surprises(windows, transitions, _values(chance, transitions, windows.actions.shape[1]))
    end, last, arm = windows.states[:, -1].astype(np.float64), windows.weight * weights[:, -1], windows.arm
    expected = windows.weight * expected
    correction: FloatArray = np.asarray(windows.weight * (weights * surprise).sum(axis=1), np.float64)
    snips = float((last * end).sum() / last.sum()) if last.any() else math.nan
    worth = len(windows), effective_size(last), effective_size(ratios[windows.actions == 1]), _uncovered(windows, pull)
    found = Check(
        float(expected.mean()),
        float((last * end).mean()),
        _error(last * end, arm),
        snips,
        _error(last * (end - snips) / max(last.mean(), 1e-300), arm),
        float((expected + correction).mean()),
        _error(expected + correction, arm),
        float(correction.mean()),
        _error(correction, arm),
        *worth,
        _refusal(*worth, pulls=bool(pull.any())),
    )
    contradicts = not found.refusal and abs(found.difference) > SIGNIFICANT * found.difference_error
    return found.refused(_contradiction(found, windows.actions.shape[1])) if contradicts else found


def _contradiction(of: Check, rounds: int) -> str:
    word = "more" if of.difference > 0 else "fewer"
    size = f"{100 * abs(of.difference):.1f} ± {196 * of.difference_error:.1f} percentage points {word}"
    return f"the log contradicts the model: over {several(rounds, 'round')} it says {size}"


def _values(chance: FloatArray, transitions: FloatArray, rounds: int) -> FloatArray:
    """Return V by round, half, arm and state, shape (h + 1, 2, N, 2): the expected state at the end of a window."""
    values = np.empty((rounds + 1, *chance.shape))
    values[rounds] = [0.0, 1.0]
    moves = (1 - chance) * transitions[..., 0] + chance * transitions[..., 1]
    for k in range(rounds - 1, -1, -1):
        bad, good = values[k + 1, ..., :1], values[k + 1, ..., 1:]
        values[k] = moves * good + (1 - moves) * bad
    return values


def _surprises(windows: Windows, transitions: FloatArray, values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return what the chains expect of each window, and by how much each of its rounds differs from that."""
    half, arm, states = windows.half, windows.arm, windows.states
    rounds = len(values) - 1
    surprise = np.empty((len(windows), rounds))
    for k in range(rounds):
        p = transitions[arm, states[:, k], windows.actions[:, k]]
        bad, good = values[k + 1, half, arm].T
        surprise[:, k] = np.where(states[:, k + 1] == 1, good, bad) - (p * good + (1 - p) * bad)
    return values[0, half, arm, states[:, 0]], surprise


def _error(values: FloatArray, arm: IntArray) -> float:
    """Return the standard error of a mean over windows, of which those of one arm may depend on each other."""
    sums = np.bincount(arm, values - values.mean())
    groups = len(np.unique(arm))
    return math.sqrt(float((sums**2).sum()) * groups / max(groups - 1, 1)) / len(values)


def effective_size(weights: FloatArray) -> float:
    """Return how many equal weights these are worth.

    Examples
    --------
    >>> effective_size(np.array([1.0, 1.0, 1.0])), effective_size(np.array([1.0, 0.0, 0.0]))
    (3.0, 1.0)
    """
    return float(weights.sum() ** 2 / max((weights**2).sum(), 1e-300))


def _uncovered(windows: Windows, pull: FloatArray) -> float:
    """Return the part of a policy's pulls at which the log pulls hardly ever; or the other way round, if more."""
    never = (pull * (windows.exposure < RARE)).sum() / max(pull.sum(), 1e-300)
    always = ((1 - pull) * (windows.exposure > 1 - RARE)).sum() / max((1 - pull).sum(), 1e-300)
    return float(max(never, always))


_NO_WINDOWS = "the log does not state the chances of its draws (exposure), or not in enough rounds with known states"


def _refusal(windows: int, effective: float, effective_pulls: float, uncovered: float, *, pulls: bool) -> str:
    if windows < FEWEST:
        return f"the log has {windows} windows of rounds with known states and chances, fewer than {FEWEST:.0f}"
    if uncovered > MOST_UNCOVERED:
        return (
            f"{100 * uncovered:.0f} % of what it does, to pull or not, the log does with a chance below "
            f"{100 * RARE:g} % there"
        )
    worth = f"the log's {windows:,} windows are worth {effective:.0f} under it"
    if effective < FEWEST:
        return f"{worth}, fewer than {FEWEST:.0f}"
    if effective < LEAST_PART * windows:
        return f"{worth}, less than {100 * LEAST_PART:.0f} %"
    if pulls and effective_pulls < FEWEST_PULLS:
        return f"the log's pulls are worth {effective_pulls:.0f} under it, fewer than {FEWEST_PULLS:.0f}"
    return ""
