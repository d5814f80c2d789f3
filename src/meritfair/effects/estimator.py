r"""The effect of a pull on the next state, by augmented inverse-probability weighting with known exposures.

In round t arm i was drawn (:math:`A_{it} = 1`) with the known probability :math:`e_{it}`, and its next state was
:math:`Y_{it}`. Let :math:`m_a(i, t)` be a prediction of the next state under action a that was made before the draw.
The *pseudo-outcome*

.. math:: \varphi_{it} = m_1 - m_0 + A_{it}\frac{Y_{it} - m_1}{e_{it}} - (1 - A_{it})\frac{Y_{it} - m_0}{1 - e_{it}}

has, given all that happened before, the mean :math:`\tau_{it}`, by which a pull raises the probability of a good next
state, *whatever the predictions are*: they only make it vary less. So the mean of all :math:`\varphi` is an unbiased
estimate of the mean of all :math:`\tau`, also where exposures followed from states and outcomes before.

**Predictions** come from earlier rounds alone. With V visits and G good outcomes of arm i in its state under action a,
:math:`m_a = (G + \kappa r)/(V + \kappa)`, where r is the rate of all arms in that state under that action, with a
uniform prior; :math:`\kappa` is `SHRINKAGE`.

**Variance.** The second moment of :math:`\varphi_{it} - (m_1 - m_0)` is the variance of :math:`\varphi_{it}` and
:math:`(\tau_{it} - (m_1 - m_0))^2`, so the square

.. math:: q_{it} = A_{it}\frac{(Y_{it} - m_1)^2}{e_{it}^2} + (1 - A_{it})\frac{(Y_{it} - m_0)^2}{(1 - e_{it})^2}

is at least the variance on average, and hardly more once predictions are good. It is also an upper bound if potential
outcomes are taken as fixed and only draws as random (Ham et al. 2022).

**What is assumed of draws.** The variance of a sum over a round is taken as the sum of the variances, so *each arm must
be drawn by a chance of its own*. Then outcomes of different arms may depend on each other as they like: a week that is
bad for all moves those who were drawn and those who were not. Where whole clinics are drawn it moves the one and not
the other, and the variance is many times as large. Such arms are one *unit* u, and in the square stands the sum over
its arms in the round, which contains their covariances:

.. math:: q_{ut} = \Big(\sum_{i \in u} A_{it}\frac{Y_{it} - m_1}{e_{it}}
          - (1 - A_{it})\frac{Y_{it} - m_0}{1 - e_{it}}\Big)^2 .

Nothing else changes: each round draws anew, so units count once in every round, and two clinics in 40 rounds are 40
experiments. Units that are drawn once and for all are one experiment, whose exposures are 0 and 1 from then on.

The units of a round are drawn together. Draws of a fixed number make them compete, which lowers the variance of a sum
of numbers with one sign, and raises that of numbers that cancel each other by a factor of at most n/(n - 1) for n units
with equal exposures, and about that for others; the squares of a round are multiplied by it. All designs of meritfair
draw arms one by one in this sense: systematic sampling goes through them in random order.

The asymptotic interval takes the quantile of Student's t for :math:`2 (\sum q)^2 / \sum q^2` degrees of freedom
(Satterthwaite). It is hardly wider than the normal one, unless a few rows with small exposures carry most of the
variance.

References
----------
.. [1] J. Robins, A. Rotnitzky, L. P. Zhao, Estimation of Regression Coefficients When Some Regressors Are Not Always
   Observed, JASA 1994.
.. [2] A. Boruvka, D. Almirall, K. Witkiewitz, S. Murphy, Assessing Time-Varying Causal Effect Moderation in Mobile
   Health, JASA 2018.
.. [3] D. W. Ham, I. Bojinov, M. Lindon, M. Tingley, Design-Based Confidence Sequences, arXiv:2210.08639.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from meritfair.core.arrays import FloatArray, IntArray
from meritfair.effects.trial import Trial

SHRINKAGE = 4.0  # kappa: a rate of 0.5 that differs between arms by 0.22 (one standard deviation) is shrunk best


@dataclass(frozen=True, eq=False)
class PseudoOutcomes:
    """The pseudo-outcomes of the rows of a trial that are used.

    Attributes
    ----------
    value : ndarray
        One for each row, with the effect of a pull as its mean.
    residual : ndarray
        For each, by how much it differs from the effect that was predicted.
    factor : ndarray
        By how much the competition of the units of its round may raise the variance.
    """

    value: FloatArray
    residual: FloatArray
    factor: FloatArray


def pseudo_outcomes(trial: Trial) -> PseudoOutcomes:
    """Return the pseudo-outcomes of the rows that are used.

    Examples
    --------
    >>> from meritfair import StateLog
    >>> from meritfair.effects.trial import trial_of
    >>> log = StateLog(["Ada", "Bo"] * 2, [1, 1, 2, 2], [0] * 2 + [1] * 2, [1, 0, None, None], exposure=[0.5] * 4)
    >>> pseudo_outcomes(trial_of(log)).value  # nothing was seen before: both predictions are 0.5
    array([ 1., -1.])
    """
    used = trial.used
    never, always = predictions(trial)[:, used]
    e, drawn, outcome = trial.exposure[used], trial.drawn[used], trial.outcome[used]
    residual = np.where(drawn == 1, (outcome - always) / e, -(outcome - never) / (1 - e))
    return PseudoOutcomes(always - never + residual, residual, competition(trial)[used])


def competition(trial: Trial) -> FloatArray:
    """Return for each row n/(n - 1), for the n units of its round that were in the draw; 1 if it was alone."""
    _, first = np.unique(trial.unit_round[trial.usable], return_index=True)
    n = np.bincount(trial.round[trial.usable][first], minlength=len(trial.labels))[trial.round]
    return np.asarray(np.where(n > 1, n / np.maximum(n - 1, 1), 1.0))


def predictions(trial: Trial) -> FloatArray:
    """Return for each action and row the predicted probability of a good next state, from earlier rounds alone."""
    pooled, own = _before_by_state(trial), _before_by_arm(trial)
    rate = (pooled[:, 1] + 1) / (pooled[:, 0] + 2)  # the mean under a uniform prior
    return np.asarray((own[:, 1] + SHRINKAGE * rate) / (own[:, 0] + SHRINKAGE))


def _tallies(trial: Trial) -> IntArray:
    """Return for each action and row what it adds to visits and to good outcomes, shape (2, 2, rows)."""
    taken = trial.complete & (trial.drawn == np.arange(2)[:, None])
    return np.stack([taken, taken & (trial.outcome == 1)], axis=1).astype(np.int32)


def _before_by_arm(trial: Trial) -> IntArray:
    """Return the visits and the good outcomes of the row's arm in its state, in earlier rounds, by action."""
    return _before(trial, 2 * trial.arm + trial.state)


def _before_by_state(trial: Trial) -> FloatArray:
    """Return the visits and the good outcomes of all arms in the row's state, in earlier rounds, by action."""
    T = len(trial.labels)
    cell = 2 * trial.round + trial.state
    sums = [np.bincount(cell, tally, minlength=2 * T) for tally in _tallies(trial).reshape(4, -1)]
    by_round = np.stack(sums).reshape(2, 2, T, 2)
    before = np.cumsum(by_round, axis=2) - by_round
    return np.asarray(before.reshape(2, 2, -1)[..., cell])


def _before(trial: Trial, cell: IntArray) -> IntArray:
    """Return the sums of the tallies of earlier rows with the same number; a round has at most one of them."""
    order = np.argsort(cell, kind="stable")  # rows are in the order of rounds
    tallies = _tallies(trial)[..., order]
    total = np.cumsum(tallies, axis=-1, dtype=np.int32) - tallies
    start = np.r_[True, np.diff(cell[order]) != 0]
    since = total - total[..., np.maximum.accumulate(np.where(start, np.arange(len(order)), 0))]
    found = np.empty_like(since)
    found[..., order] = since
    return found
