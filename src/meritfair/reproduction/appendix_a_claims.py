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
verdict is the one against that of its own authors; what the others would say is added to it.

All policies meet the same arms in the same run, so differences and ratios are taken run by run. Where the paper speaks
of MF-RMAB without saying which c, it is taken at 1 and 3, which it does not call very high, against every L. A claim
holds if it surely does in every such pair, by a 95 % interval each, and does not if it surely fails in one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from meritfair.lab.resampling import above, below, every, interval_of, percent, ratio, shown, span, weights
from meritfair.reproduction.artefact import Verdict
from meritfair.reproduction.report import standing
from meritfair.simulation.metrics import interval, ratio_interval

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from meritfair.core.arrays import FloatArray
    from meritfair.simulation.metrics import Interval

__all__ = ["STRENGTHS", "VERSIONS", "Panel", "Player", "claims", "claims_by_version", "rewards_at_same_inequality"]

STRENGTHS = (1, 3, 10, 100)
# how FaWT-Q learns, by the policy's setting; the first is that of its own authors, by which claims are judged
VERSIONS = {"li": "Li's", "relative": "ours", "published": "MF-RMAB's code", "mended": "that code, mended"}
_MODERATE = (1, 3)  # what the paper does not call very high
_AS_GOOD = 0.99
_FOCUS = 0.5
_IGNORED = 0.1
_OPTIMAL, _LITTLE_FAIRNESS = 0.95, 0.9
_WHERE = "Appendix A, Figure 5"


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
        if self.kind == "fawt-q":
            return f"FaWT-Q ({VERSIONS[self.version]}), L = {self.knob}"
        return f"MF-RMAB, c = {self.knob}" if self.kind == "merit-fair" else "Optimal"

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
class Panel:
    """All policies on the problems of one size; Optimal is the last."""

    n_arms: int
    budget: int
    players: tuple[Player, ...]
    seed: int

    def of(self, kind: str, knobs: Sequence[int] | None = None) -> tuple[Player, ...]:
        """Return the policies of a kind, in order of their knob."""
        return tuple(each for each in self.players if each.kind == kind and (knobs is None or each.knob in knobs))

    def against(self, version: str) -> Panel:
        """Return the panel with this version of FaWT-Q alone."""
        return replace(self, players=tuple(each for each in self.players if each.version in ("", version)))

    @property
    def optimal(self) -> Player:
        """The greedy policy."""
        return self.players[-1]

    def mean(self, values: FloatArray) -> Interval:
        """Return a mean over runs with its interval."""
        return interval(values, self.seed)

    def rewarded(self, one: Player, other: Player) -> Interval:
        """Return the reward of one policy as a part of that of another."""
        return ratio_interval(one.reward, other.reward, self.seed)

    def unequal(self, one: Player, other: Player) -> Interval:
        """Return by how much the Gini coefficient of one policy is above that of another."""
        return self.mean(one.gini - other.gini)


def claims(found: dict[str, tuple[Verdict, ...]]) -> tuple[Verdict, ...]:
    """Return the verdicts against the FaWT-Q of its own authors, each with what other versions would make of it."""
    judged, *others = VERSIONS

    def told(number: int, verdict: Verdict) -> Verdict:
        beside = {version: found[version][number] for version in others}
        if all(each.found == verdict.found for each in beside.values()):
            return verdict  # it is not about FaWT-Q
        rest = "; ".join(f"{VERSIONS[version]}: {standing(each).words}" for version, each in beside.items())
        return replace(verdict, found=f"{verdict.found} With other versions of FaWT-Q: {rest}.")

    return tuple(told(*each) for each in enumerate(found[judged]))


def claims_by_version(panels: tuple[Panel, ...]) -> dict[str, tuple[Verdict, ...]]:
    """Return what each sentence of the appendix is found to be against each version of FaWT-Q."""
    return {version: _claims(tuple(panel.against(version) for panel in panels)) for version in VERSIONS}


def _claims(panels: tuple[Panel, ...]) -> tuple[Verdict, ...]:
    return (
        _egalitarian(panels),
        _as_rewarding(panels),
        _both_at_once(panels),
        _focus(panels),
        _ignores(panels),
        _worst_arms(panels),
        *(_nearly_greedy(panels, c) for c in STRENGTHS[-2:]),
        _knobs_turn(panels),
    )


def _pairs(panels: Iterable[Panel], knobs: Sequence[int]) -> list[tuple[Panel, Player, Player]]:
    """Return every MF-RMAB with one of these c beside every FaWT-Q of the same size."""
    return [(p, one, other) for p in panels for one in p.of("merit-fair", knobs) for other in p.of("fawt-q")]


def _names(pairs: Iterable[tuple[Panel, Player, Player]]) -> str:
    """Return pairs as text: "c = 3 against L = 15 (N = 5, 10)"."""
    sizes: dict[str, list[str]] = {}
    for panel, one, other in pairs:
        sizes.setdefault(f"c = {one.knob} against L = {other.knob}", []).append(str(panel.n_arms))
    return "; ".join(f"{name} (N = {', '.join(where)})" for name, where in sizes.items())


def _counted(pairs: Sequence[tuple[Panel, Player, Player]]) -> str:
    return f"{len(pairs)} ({_names(pairs)})" if pairs else "none"


def _scored(won: str, lost: str, pairs: Sequence[tuple[Panel, Player, Player]], answers: Sequence[bool | None]) -> str:
    """Return in how many pairs a claim holds, and for which it does not: "won in 2 of 3 pairs, lost for c = 3 ..."."""
    against = [pair for pair, answer in zip(pairs, answers, strict=True) if answer is False]
    found = f"{won} in {answers.count(True)} of {len(pairs)} pairs"
    return f"{found}, {lost} for {_names(against)}" if against else found


def _by_size(panels: Iterable[Panel], tell: Callable[[Panel], str]) -> str:
    return "; ".join(f"N = {each.n_arms}: {tell(each)}" for each in panels)


def _each(players: Iterable[Player], tell: Callable[[Player], str]) -> str:
    return ", ".join(f"{tell(each)} with {each.label.partition(', ')[2] or each.label}" for each in players)


def _knobs(knobs: Sequence[int]) -> str:
    return " and ".join(map(str, knobs))


def _egalitarian(panels: tuple[Panel, ...]) -> Verdict:
    pairs = _pairs(panels, _MODERATE)
    answers = [below(panel.unequal(one, other), 0.0) for panel, one, other in pairs]

    def ginis(panel: Panel) -> str:
        ours, theirs = panel.of("merit-fair", _MODERATE), panel.of("fawt-q")
        return "MF-RMAB {}, FaWT-Q {}".format(
            *(_each(kind, lambda each: f"{each.gini.mean():.2f}") for kind in (ours, theirs))
        )

    found = _scored("Its Gini coefficient is surely lower", "surely higher", pairs, answers)
    return Verdict(
        f"MF-RMAB (c = {_knobs(_MODERATE)}) is more egalitarian than FaWT-Q (each L).",
        _WHERE,
        every(answers),
        f"{found}. {_by_size(panels, ginis)}.",
    )


def _as_rewarding(panels: tuple[Panel, ...]) -> Verdict:
    pairs = _pairs(panels, _MODERATE)
    ratios = [panel.rewarded(one, other) for panel, one, other in pairs]
    answers = [above(each, _AS_GOOD) for each in ratios]
    return Verdict(
        f"MF-RMAB (c = {_knobs(_MODERATE)}) is equal or better in reward than FaWT-Q (each L).",
        _WHERE,
        every(answers),
        f"It has {span((100 * each.mean for each in ratios), 0)} % of the reward of FaWT-Q: surely at least "
        f"{percent(_AS_GOOD)} in {answers.count(True)} of {len(pairs)} pairs, less in {answers.count(False)}.",
    )


def rewards_at_same_inequality(panels: Iterable[Panel], version: str) -> list[Interval]:
    """Return the reward of MF-RMAB as a part of that of this FaWT-Q at the same inequality, for each size and L."""
    alone = (panel.against(version) for panel in panels)
    return [_reward_at_same_inequality(panel, other) for panel in alone for other in panel.of("fawt-q")]


def _reward_at_same_inequality(panel: Panel, other: Player) -> Interval:
    """Return the reward of MF-RMAB as a part of that of FaWT-Q at the same Gini coefficient.

    It is read off straight lines between the c that were played and Optimal, which is what c grows to.
    """
    ours, weight = (*panel.of("merit-fair"), panel.optimal), weights(len(other.gini), panel.seed)
    ginis, rewards = (np.stack([weight @ getattr(e, name) for e in ours], axis=1) for name in ("gini", "reward"))
    at, theirs = weight @ other.gini, weight @ other.reward
    reached = (at >= ginis.min(axis=1)) & (at <= ginis.max(axis=1))
    reward = np.array([np.interp(x, *each) for x, *each in zip(at, ginis, rewards, strict=True)])
    return interval_of(ratio(np.where(reached, reward, np.nan), theirs))


def _both_at_once(panels: tuple[Panel, ...]) -> Verdict:
    pairs = _pairs(panels, STRENGTHS)
    ahead = [p for p in pairs if below(p[0].unequal(*p[1:]), 0.0) and above(p[0].rewarded(*p[1:]), 1.0)]
    behind = [p for p in pairs if above(p[0].unequal(*p[1:]), 0.0) and below(p[0].rewarded(*p[1:]), 1.0)]
    same = {other: _reward_at_same_inequality(panel, other) for panel in panels for other in panel.of("fawt-q")}
    found = _by_size(panels, lambda panel: _each(panel.of("fawt-q"), lambda other: shown(same[other])))
    return Verdict(
        "MF-RMAB is both at once: where it is as egalitarian as FaWT-Q, it is equal or better in reward.",
        _WHERE,
        every(above(each, _AS_GOOD) for each in same.values()),
        f"At the Gini coefficient of FaWT-Q, on straight lines between c and Optimal, it has this part of its reward. "
        f"{found}. Of {len(pairs)} pairs of c and L, MF-RMAB is surely more equal and more rewarding in "
        f"{_counted(ahead)}, FaWT-Q in {_counted(behind)}. FaWT-Q sees the states at every step; MF-RMAB draws without "
        "looking at them.",
    )


def _focus(panels: tuple[Panel, ...]) -> Verdict:
    def tops(panel: Panel) -> str:
        return _each(panel.of("fawt-q"), lambda each: percent(each.top.mean())) + (
            " (MF-RMAB: " + _each(panel.of("merit-fair"), lambda each: percent(each.top.mean())) + ")"
        )

    most = span((100 * each.most.mean() for panel in panels for each in panel.of("fawt-q")), 0)
    return Verdict(
        "FaWT-Q focuses on the top few arms.",
        _WHERE,
        every(above(panel.mean(each.top), _FOCUS) for panel in panels for each in panel.of("fawt-q")),
        f"The best two in five arms get this part of all pulls. {_by_size(panels, tops)}. The paper's figure sorts the "
        f"arms of each run by their pulls, whoever they are; then the first two in five get {most} %.",
    )


def _ignores(panels: tuple[Panel, ...]) -> Verdict:
    def worst(panel: Panel) -> str:
        return _each(
            panel.of("fawt-q"), lambda each: f"{percent(each.worst.mean())} ({percent(each.least)} by the window)"
        )

    greedy = span((100 * panel.optimal.worst.mean() for panel in panels), 0)
    return Verdict(
        "FaWT-Q ignores the rest of the arms.",
        _WHERE,
        every(below(panel.mean(each.worst), _IGNORED) for panel in panels for each in panel.of("fawt-q")),
        f"The arm of least benefit gets this part of an equal share. {_by_size(panels, worst)}. By Optimal "
        f"it gets {greedy} %.",
    )


def _worst_arms(panels: tuple[Panel, ...]) -> Verdict:
    pairs = _pairs(panels, _MODERATE)
    answers = [above(panel.mean(one.worst - other.worst), 0.0) for panel, one, other in pairs]

    def worst(panel: Panel) -> str:
        return _each(panel.of("merit-fair"), lambda each: percent(each.worst.mean()))

    found = _scored("It gets more than with FaWT-Q", "less", pairs, answers)
    return Verdict(
        f"MF-RMAB (c = {_knobs(_MODERATE)}) gives exposure to the worst arms as well, where FaWT-Q does not.",
        _WHERE,
        every(answers),
        f"The arm of least benefit gets this part of an equal share. {_by_size(panels, worst)}. {found}.",
    )


def _nearly_greedy(panels: tuple[Panel, ...], c: int) -> Verdict:
    pairs = [(panel, panel.of("merit-fair", [c])[0], panel.optimal) for panel in panels]
    rewards = {panel: panel.rewarded(one, best) for panel, one, best in pairs}
    ginis = {panel: ratio_interval(one.gini, best.gini, panel.seed) for panel, one, best in pairs}
    found = _by_size(panels, lambda each: f"{shown(rewards[each])} and {shown(ginis[each])}")
    answers = [above(each, _OPTIMAL) for each in rewards.values()]
    return Verdict(
        f"A very high c ({c}) makes MF-RMAB effectively optimal, and offers little fairness.",
        _WHERE,
        every([*answers, *(above(each, _LITTLE_FAIRNESS) for each in ginis.values())]),
        f"Its reward and its Gini coefficient as a part of those of Optimal: {found}.",
    )


def _knobs_turn(panels: tuple[Panel, ...]) -> Verdict:
    steps = [
        (panel, more, less)
        for panel in panels
        for kind in ("merit-fair", "fawt-q")
        for less, more in zip(panel.of(kind), panel.of(kind)[1:], strict=False)
    ]
    rewards = [above(panel.rewarded(more, less), 1.0) for panel, more, less in steps]
    ginis = [above(panel.unequal(more, less), 0.0) for panel, more, less in steps]
    return Verdict(
        "Higher L and c mean a more optimal algorithm, lower ones more fairness.",
        "Appendix A",
        every([*rewards, *ginis]),
        f"From each c and L to the next, reward surely rises in {rewards.count(True)} and the Gini coefficient in "
        f"{ginis.count(True)} of {len(steps)} steps.",
    )
