r"""What Appendix A claims of MF-RMAB and FaWT-Q, each sentence of it a verdict.

What the paper says by the look of its bars needs a measure:

==============================  =======================================================================
said                            measured
==============================  =======================================================================
more egalitarian                the Gini coefficient of the pulls is lower
equal or better in reward       at least 99 % of the other's reward
focuses on the top few arms     the best two in five (2 of 5, 4 of 10) get more than half of all pulls
ignores an arm                  it gets less than a tenth of an equal share
effectively optimal             at least 95 % of the reward of Optimal
offers little fairness          a Gini coefficient of at least 90 % of that of Optimal
==============================  =======================================================================

Which FaWT-Q is meant decides most of this, so each claim is weighed against each version of it (`VERSIONS`). The
verdict is the one against that of its own authors; the verdicts against the others stand beside it.

All policies meet the same arms in the same run, so differences and ratios are taken run by run. Where the paper speaks
of MF-RMAB without saying which c, it is taken at 1 and 3, which it does not call very high, against every L. A claim
holds if it does in every such pair, by a 95 % interval each, and does not if it fails in one. The report says so with
each claim.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from meritfair.core.arrays import FloatArray
from meritfair.lab.resampling import above, below, every
from meritfair.simulation.bootstrap import Interval, interval, interval_of, ratio, ratio_interval, weights

STRENGTHS = (1, 3, 10, 100)
# how FaWT-Q learns, by the policy's setting; the first is that of its own authors, by which claims are judged
VERSIONS = {"li": "Li's", "relative": "ours", "published": "MF-RMAB's code", "mended": "that code, fixed"}
_MODERATE = (1, 3)  # what the paper does not call very high
AS_GOOD = 0.99
_FOCUS = 0.5
_IGNORED = 0.1
_OPTIMAL, _LITTLE_FAIRNESS = 0.95, 0.9
BARS = {
    "as_good": AS_GOOD,
    "focus": _FOCUS,
    "ignored": _IGNORED,
    "optimal": _OPTIMAL,
    "little_fairness": _LITTLE_FAIRNESS,
}


@dataclass(frozen=True, eq=False)
class Player:
    """A policy with its knob, and what it did in each run.

    Attributes
    ----------
    kind : {"merit-fair", "fawt-q", "optimal"}
    version : str
        Which FaWT-Q, a key of `VERSIONS`; empty for the others.
    knob : int
        c or L; 0 for Optimal.
    least : float
        The part of an equal share that each arm is promised by the window; 0 without one.
    gini, reward, longest_wait : ndarray, shape (runs,)
        Inequality of the pulls, the share of arms in the good state, and the longest wait of any arm in steps.
    share : ndarray, shape (runs, N)
        Each arm's part of all pulls, from least to most benefit.
    """

    kind: str
    version: str
    knob: int
    least: float
    gini: FloatArray
    reward: FloatArray
    longest_wait: FloatArray
    share: FloatArray

    @property
    def label(self) -> str:
        """What people call it."""
        name = {"merit-fair": "MF-RMAB, ", "fawt-q": f"FaWT-Q ({VERSIONS.get(self.version)}), ", "optimal": "Optimal"}
        return name[self.kind] + self.setting

    @property
    def setting(self) -> str:
        """Its knob, in words; empty for Optimal."""
        return {"merit-fair": f"c = {self.knob}", "fawt-q": f"L = {self.knob}", "optimal": ""}[self.kind]

    @property
    def worst(self) -> FloatArray:
        """What the arm of least benefit gets, as a part of an equal share, shape (runs,)."""
        return np.asarray(self.share[:, 0] * self.share.shape[1])

    @property
    def top(self) -> FloatArray:
        """The part of all pulls that the best two in five arms get, shape (runs,)."""
        return np.asarray(self.share[:, -(2 * self.share.shape[1] // 5) :].sum(axis=1))

    @property
    def most(self) -> FloatArray:
        """The part of all pulls that those two in five get who get most in their run, as the paper's figure has it."""
        return replace(self, share=np.sort(self.share, axis=1)).top


@dataclass(frozen=True)
class FawtPanel:
    """All policies on the problems of one size; Optimal is the last."""

    n_arms: int
    budget: int
    players: tuple[Player, ...]
    seed: int

    def of(self, kind: str, knobs: Sequence[int] | None = None) -> tuple[Player, ...]:
        """Return the policies of a kind, in order of their knob."""
        return tuple(each for each in self.players if each.kind == kind and (knobs is None or each.knob in knobs))

    def against(self, version: str) -> FawtPanel:
        """Return the panel with this version of FaWT-Q alone."""
        return replace(self, players=tuple(each for each in self.players if each.version in ("", version)))

    @property
    def optimal(self) -> Player:
        """The greedy policy."""
        return self.players[-1]

    def mean(self, values: FloatArray) -> Interval:
        """Return a mean over runs with its interval."""
        return interval(values, self.seed)


class Pair(NamedTuple):
    """Two policies on the problems of one size."""

    panel: FawtPanel
    one: Player
    other: Player

    @property
    def knobs(self) -> tuple[int, int]:
        """The knobs of both."""
        return self.one.knob, self.other.knob

    @property
    def rewarded(self) -> Interval:
        """The reward of one as a multiple of that of the other."""
        return ratio_interval(self.one.reward, self.other.reward, self.panel.seed)

    @property
    def gini_ratio(self) -> Interval:
        """The Gini coefficient of one as a multiple of that of the other."""
        return ratio_interval(self.one.gini, self.other.gini, self.panel.seed)

    @property
    def unequal(self) -> Interval:
        """By how much the Gini coefficient of one is above that of the other."""
        return self.panel.mean(self.one.gini - self.other.gini)

    @property
    def worst(self) -> Interval:
        """By how much the arm of least benefit gets more by one, in parts of an equal share."""
        return self.panel.mean(self.one.worst - self.other.worst)

    @property
    def reward_at_same_gini(self) -> Interval:
        """The reward of MF-RMAB as a multiple of that of the other policy, at the other's Gini coefficient.

        It is read off straight lines between the c that were played and Optimal, which is what c grows to.
        """
        ours = (*self.panel.of("merit-fair"), self.panel.optimal)
        return reward_at_same_gini(ours, self.other, self.panel.seed)


def reward_at_same_gini(ours: Sequence[Player], other: Player, seed: int) -> Interval:
    """Return what policies with a growing c would have at another's Gini coefficient, as a multiple of its reward.

    It is read off straight lines between them; NaN where none of them is as equal, or as unequal.
    """
    weight = weights(len(other.gini), seed)
    ginis = np.stack([weight @ each.gini for each in ours], axis=1)
    rewards = np.stack([weight @ each.reward for each in ours], axis=1)
    at, theirs = weight @ other.gini, weight @ other.reward
    reached = (at >= ginis.min(axis=1)) & (at <= ginis.max(axis=1))
    reward = np.array([np.interp(x, *each) for x, *each in zip(at, ginis, rewards, strict=True)])
    return interval_of(ratio(np.where(reached, reward, np.nan), theirs))


@dataclass(frozen=True)
class Against:
    """What the runs say of MF-RMAB beside one version of FaWT-Q, on panels with that version alone."""

    panels: tuple[FawtPanel, ...]

    def pairs(self, *knobs: int) -> list[Pair]:
        """Return every MF-RMAB with one of these c beside every FaWT-Q of the same size."""
        return [
            Pair(panel, one, other)
            for panel in self.panels
            for one in panel.of("merit-fair", knobs)
            for other in panel.of("fawt-q")
        ]

    def steps(self) -> list[Pair]:
        """Return each c and L beside the one before it."""
        return [
            Pair(panel, more, less)
            for panel in self.panels
            for kind in ("merit-fair", "fawt-q")
            for less, more in pairwise(panel.of(kind))
        ]

    def beside_optimal(self, c: int) -> list[Pair]:
        """Return MF-RMAB with this c beside Optimal, for each size."""
        return [Pair(panel, panel.of("merit-fair", [c])[0], panel.optimal) for panel in self.panels]

    def same_gini(self) -> list[Interval]:
        """Return the reward of MF-RMAB as a multiple of that of each L at the same inequality."""
        return [pair.reward_at_same_gini for pair in self.pairs(STRENGTHS[0])]

    @cached_property
    def verdicts(self) -> dict[str, bool | None]:
        """Whether each sentence of the appendix holds, in order."""
        moderate, steps = self.pairs(*_MODERATE), self.steps()
        theirs = [(panel, each) for panel in self.panels for each in panel.of("fawt-q")]
        return {
            "egalitarian": every(below(pair.unequal, 0.0) for pair in moderate),
            "rewarding": every(above(pair.rewarded, AS_GOOD) for pair in moderate),
            "both": every(above(each, AS_GOOD) for each in self.same_gini()),
            "focus": every(above(panel.mean(each.top), _FOCUS) for panel, each in theirs),
            "ignores": every(below(panel.mean(each.worst), _IGNORED) for panel, each in theirs),
            "worst": every(above(pair.worst, 0.0) for pair in moderate),
            **{f"greedy_{c}": every(map(_is_nearly_greedy, self.beside_optimal(c))) for c in STRENGTHS[-2:]},
            "knobs": every(
                above(value, bar) for step in steps for value, bar in ((step.rewarded, 1), (step.unequal, 0))
            ),
        }


def _is_nearly_greedy(pair: Pair) -> bool | None:
    return every([above(pair.rewarded, _OPTIMAL), above(pair.gini_ratio, _LITTLE_FAIRNESS)])
