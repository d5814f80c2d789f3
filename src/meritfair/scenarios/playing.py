r"""The rounds ahead: a policy is played on each of the chains that the log leaves possible.

What is wanted is the expected share of arms in the good state, for each draw of the chains. A simulated share has noise
of its own, and most of it can be computed and taken away. Let :math:`P_i` be the chain of arm i, and
:math:`D_i = \sum_{s,a} (\text{good}_i(s,a) - \text{visits}_i(s,a) P_i(s,a))`, by how much more often it became good
than expected given its states and actions. Each term of D has mean 0 whatever the policy does, since actions are chosen
before the next state is drawn (a martingale). A surplus at one round lasts: with memory :math:`\rho_i` of the chain
(the eigenvalue that is not 1, at the mean rate of pulls), it adds :math:`1 + \rho_i + \rho_i^2 + \dots` good rounds. So

.. math:: \text{share} - \frac{1}{N R} \sum_i \Big( c_i D_i + g_i (s_i - b_i) \Big), \qquad
    c = \frac1R \sum_{k=1}^R \frac{1 - \rho^k}{1 - \rho}, \quad g = \rho \frac{1 - \rho^R}{1 - \rho} ,

has the same mean as the share and much less noise (a control variate); the second term is for starting states s that
were drawn by beliefs b. Some draws are played twice: how far the two differ tells how much noise is left, and
intervals are narrowed by that (:func:`expected`).

If a policy does the same in all draws, a chance of a pull by arm and state, no simulation is needed (`follow`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import stdtrit

from meritfair.core.arrays import FloatArray, IntArray
from meritfair.core.seeding import stream
from meritfair.model.arms import Arms
from meritfair.model.counts import Counts
from meritfair.model.criterion import Criterion
from meritfair.model.logit_normal import effective_draws
from meritfair.policies.base import Policy
from meritfair.scenarios.chains import Chains, Half
from meritfair.scenarios.known import as_known
from meritfair.scenarios.start import Start
from meritfair.simulation.bootstrap import Interval
from meritfair.simulation.run import Run
from meritfair.simulation.simulate import simulate

_AT_ONCE = 300_000  # arms of all runs that are played together
_MOST_PLANS = 8  # episodes
_FOR_CHANCES = 10  # runs from which the chance of a pull by state is counted


@dataclass(frozen=True, eq=False)
class Ahead:
    """The rounds ahead, the same for all policies.

    Attributes
    ----------
    chains : Chains
    belief : ndarray, shape (draws, N)
        The probability that each arm is good at the start.
    rounds : int
        How many are played.
    plans : int
        How often a policy that learns plans in them.
    again : int
        How many draws are played twice.
    seed : int
    """

    chains: Chains
    belief: FloatArray
    rounds: int
    plans: int
    again: int
    seed: int

    @property
    def draws(self) -> int:
        """How many draws there are."""
        return len(self.belief)


@dataclass(frozen=True, eq=False)
class Played:
    """What a policy did in the rounds ahead.

    Attributes
    ----------
    share : ndarray, shape (draws,)
        The expected share of arms in the good state, with what noise is left.
    again : ndarray, shape (again,)
        The same of the first draws, played once more.
    exposure : ndarray, shape (N,)
        The mean exposure of each arm.
    longest_wait : float
        The longest of any arm, in the mean over draws.
    """

    share: FloatArray
    again: FloatArray
    exposure: FloatArray
    longest_wait: float


def ahead_of(start: Start, chains: Chains, rounds: int, seed: int) -> Ahead:
    """Return the rounds ahead of a log that ended so."""
    draws = len(chains.draws)
    return Ahead(chains, start.belief(chains.draws), rounds, plans_in(rounds), max(2, draws // 4), seed)


def plans_in(rounds: int) -> int:
    """Return how often a policy plans: as often as divides the rounds, at most a few times.

    Examples
    --------
    >>> plans_in(52), plans_in(40), plans_in(37)
    (4, 8, 1)
    """
    return max(n for n in range(1, _MOST_PLANS + 1) if rounds % n == 0)


def play(
    ahead: Ahead,
    policy: Policy,
    budget: int,
    criterion: Criterion,
    workers: int | None,
    tell: Callable[[int, int], None],
) -> Played:
    """Play a policy on all draws, and on some once more."""
    total = ahead.draws + ahead.again
    of_run = np.r_[np.arange(ahead.draws), np.arange(ahead.again)]
    size = max(1, _AT_ONCE // ahead.belief.shape[1])
    share, wait = np.empty(total), np.empty(total)
    exposure = np.zeros(ahead.belief.shape[1])
    how: dict[str, Any] = {"budget": budget, "criterion": criterion, "workers": workers}
    for first in range(0, total, size):
        runs = of_run[first : first + size]
        states = _first_states(ahead, runs, first)
        run = _simulate(ahead, as_known(policy, ahead.chains.mean), runs, states, ahead.chains.counts, first, how)
        share[first : first + size] = without_noise(run, states, ahead.belief[runs])
        wait[first : first + size] = run.longest_wait.max(axis=1)
        exposure += run.exposure.sum(axis=0)
        tell(min(first + size, total), total)
    return Played(share[: ahead.draws], share[ahead.draws :], exposure / total, float(wait.mean()))


def chance_of(
    ahead: Ahead, policy: Policy, budget: int, criterion: Criterion, workers: int | None, seen: Half
) -> FloatArray:
    """Return a policy's chance of a pull by arm and state, shape (N, 2), if it had seen only half of the log."""
    runs = np.arange(min(_FOR_CHANCES, ahead.draws))
    how: dict[str, Any] = {"budget": budget, "criterion": criterion, "workers": workers}
    run = _simulate(ahead, as_known(policy, seen.mean), runs, _first_states(ahead, runs, 0), seen.counts, 0, how)
    visits, exposure = run.visits.sum(axis=0), run.exposure.mean(axis=0)
    return np.asarray(np.clip((visits[..., 1] + exposure[:, None]) / (visits.sum(axis=-1) + 1), 0, 1))


def _first_states(ahead: Ahead, runs: IntArray, first: int) -> IntArray:
    """Draw the states in which runs start, the same for all policies."""
    shape = ahead.belief.shape[1]
    level = np.stack([stream(ahead.seed, "instance", first + k).random(shape) for k in range(len(runs))])
    return np.asarray(level < ahead.belief[runs], dtype=np.int64)


def _simulate(
    ahead: Ahead, policy: Policy, runs: IntArray, states: IntArray, seen: Counts, first: int, how: dict[str, Any]
) -> Run:
    return simulate(
        [Arms(ahead.chains.draws[draw]) for draw in runs],
        policy,
        **how,
        episodes=ahead.plans,
        horizon=ahead.rounds // ahead.plans,
        carry_states=True,
        states=states,
        history=seen,
        seed=ahead.seed,
        first_run=first,
    )


def without_noise(run: Run, states: IntArray, belief: FloatArray) -> FloatArray:
    """Return the share of arms in the good state in each run, less the noise that can be computed; shape (runs,)."""
    rounds, rate = run.episodes * run.horizon, float(run.pulls.sum()) / (run.pulls.size * run.episodes * run.horizon)
    surplus = (run.good - run.visits * run.transitions).sum(axis=(-2, -1))
    lasting, first = _lasting(run.transitions, rate, rounds)
    noise = (lasting * surplus + first * (states - belief)).mean(axis=1) / rounds
    return np.asarray(run.reward.sum(axis=1) / (run.n_arms * rounds) - noise)


def _lasting(transitions: FloatArray, rate: float, rounds: int) -> tuple[FloatArray, FloatArray]:
    """Return how many good rounds a surplus of one adds, in the mean over rounds, and one at the start."""
    memory = transitions[..., 1, :] - transitions[..., 0, :]
    rho = np.clip((1 - rate) * memory[..., 0] + rate * memory[..., 1], -0.999, 0.999)
    power = rho * (1 - rho**rounds) / (1 - rho)  # of rho, rho^2, ..., summed
    return (1 - power / rounds) / (1 - rho), power


def follow(ahead: Ahead, chance: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the expected share in the good state if arms are pulled by a chance for each state, and their exposures.

    `chance` has shape (N, 2); the shares (draws,), and the exposures (N,), in the mean over draws and rounds.
    """
    moves = (1 - chance) * ahead.chains.draws[..., 0] + chance * ahead.chains.draws[..., 1]  # (draws, N, 2)
    good, share = ahead.belief.copy(), np.zeros(ahead.draws)
    exposure = np.zeros(good.shape[1])
    for _ in range(ahead.rounds):
        exposure += (good * chance[:, 1] + (1 - good) * chance[:, 0]).mean(axis=0)
        good = good * moves[..., 1] + (1 - good) * moves[..., 0]
        share += good.mean(axis=1)
    return share / ahead.rounds, exposure / ahead.rounds


def expected(values: FloatArray, again: FloatArray) -> Interval:
    """Return the mean over draws with the 95 % interval that holds the expected value, of which draws have noise left.

    By the law of total variance the draws vary by what is not known of the chains, and by noise; two plays of the same
    draw differ by noise alone. The error of the mean comes on top of what is not known, and as draws from a sampler
    depend on each other, there are effectively fewer of them, also for the degrees of freedom of Student's t.

    Examples
    --------
    >>> [round(x, 3) for x in expected(np.array([0.5, 0.6, 0.7]), np.array([0.5, 0.6]))]
    [0.6, 0.103, 1.097]
    """
    mean, variance, number = float(values.mean()), float(values.var(ddof=1)), effective_draws(values)
    noise = float(((values[: len(again)] - again) ** 2).mean() / 2)
    error = math.sqrt(max(variance - noise, 0.0) + variance / number)
    width = float(stdtrit(max(number - 1, 1.0), 0.975)) * error
    return Interval(mean, mean - width, mean + width)
