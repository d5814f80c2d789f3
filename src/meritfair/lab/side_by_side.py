r"""Policies of a sweep on one problem, beside each other: regret by episode, exposure by arm, reward against fairness.

All settings are the same but for the policy, so run number r has the same arms and the same coins for all of them.
Where ``none`` and ``whittle`` were played too, whether they are shown or not, reward is the intervention benefit of
`meritfair.simulation.metrics`: 0 is as if nobody was pulled, 1 as the best policy. Else it is the share of arms in the
good state. Means are over runs, with 95 % bootstrap intervals. First come the numbers, then the drawing, which needs
the extra ``plots``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from meritfair.core.arrays import FloatArray
from meritfair.core.errors import InputError
from meritfair.core.figures import Band, draw_band, new_figure, thousands
from meritfair.core.texts import for_figure
from meritfair.lab.results import Wording
from meritfair.lab.spec import Setting
from meritfair.lab.tasks import Outcome
from meritfair.simulation.bootstrap import Interval, intervals
from meritfair.simulation.metrics import intervention_benefit
from meritfair.simulation.plots import ExposureBars, TradeOff, draw_exposures, draw_trade_off, trade_off

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

REGRETS = ("fairness_regret", "exposure_regret")
FIGURES = ("regret", "exposure", "benefit")
BENEFIT, GOOD = "intervention_benefit", "good_state"
_NONE, _BEST = "none", "whittle"
_WIDTH, _HEIGHT = 9.0, 4.6  # inches
_LINES, _COLORS = ("-", "--", ":"), 7  # lines look different once the style has no more colors
_UPWARD = {BENEFIT: "intervention benefit: none is 0, whittle is 1", GOOD: "share of arms in the good state"}


@dataclass(frozen=True, eq=False)
class SideBySide:
    """What policies did on one problem; made by `side_by_side`.

    Attributes
    ----------
    outcomes : dict of str to Outcome
        What is shown, by policy.
    references : dict of str to Outcome
        Those of ``none`` and ``whittle`` on the same problem, empty unless both were played.
    """

    outcomes: dict[str, Outcome]
    references: dict[str, Outcome]

    @cached_property
    def measures(self) -> dict[str, dict[str, Interval]]:
        """All measures by policy and name; the intervention benefit is NaN where it cannot be measured."""
        return {
            policy: {**intervals(found.measures, found.setting.seed), BENEFIT: self._benefit(found)}
            for policy, found in self.outcomes.items()
        }

    def _benefit(self, found: Outcome) -> Interval:
        """Return the intervention benefit over the runs that the policy and both references have."""
        parts = [found, *self.references.values()]
        common = reduce(np.intersect1d, [each.runs for each in parts])
        if not self.references or not len(common):
            return Interval(np.nan, np.nan, np.nan)
        reward, none, best = (each.curves["reward"][np.isin(each.runs, common), -1] for each in parts)
        return intervention_benefit(reward, none, best, found.setting.seed)

    def has(self, regret: str) -> bool:
        """Return whether one of `REGRETS` was measured for some policy."""
        return any(not np.isnan(found.curves[regret]).all() for found in self.outcomes.values())

    def curves(self, regret: str = REGRETS[0]) -> dict[str, Band]:
        """Return a regret added up over episodes, by policy: its mean over runs, with 95 % intervals as the band."""
        return {policy: _curve(found, regret) for policy, found in self.outcomes.items()}

    @cached_property
    def exposures(self) -> ExposureBars:
        """What each arm was given and was due at a step in the mean, arms in order of benefit in each run."""
        most = max(self.outcomes.values(), key=lambda found: len(found.runs))
        given = [_by_benefit(found, "exposure") for found in self.outcomes.values()]
        return ExposureBars(np.stack(given), _by_benefit(most, "fair_exposure"))

    @property
    def reward(self) -> str:
        """By which measure policies are rewarding: the intervention benefit if it is known of all of them."""
        benefits = [found[BENEFIT] for found in self.measures.values()]
        known = not any(np.isnan(each.mean) or np.isinf(each.low) for each in benefits)
        return BENEFIT if known else GOOD

    @cached_property
    def trade_off(self) -> TradeOff:
        """Reward against fairness regret, a point for each policy."""
        return trade_off(self.measures, REGRETS[0], self.reward)

    @property
    def description(self) -> str:
        """What is the same for all policies, in one line."""
        one = next(iter(self.outcomes.values())).setting
        return Wording((one, dataclasses.replace(one, policy=""))).same  # two policies, so that neither is named

    def plot(self, figure: str, regret: str = REGRETS[0], *, width: float = _WIDTH) -> Figure:
        """Draw one of `FIGURES`, of a width in inches."""
        if figure not in FIGURES:
            raise InputError(f"figure must be {', '.join(FIGURES[:-1])} or {FIGURES[-1]}, got {figure!r}")
        if figure == "regret":
            return self._drawn(lambda axes: self._draw_regret(axes, regret), "Bands: 95 % intervals.", width)
        if figure == "exposure":
            return self._drawn(self._draw_exposure, "", width)
        return self._drawn(self._draw_benefit, "Grey line: no policy is both fairer and more rewarding.", width)

    def _drawn(self, draw: Callable[[Axes], list[Any]], remark: str, width: float) -> Figure:
        """Return a figure with a legend above and a caption below, if there is anything to say."""
        with new_figure(_HEIGHT, width=width) as figure:
            caption = for_figure(f"{self.description}. Means over runs. {remark}".rstrip())
            figure.supxlabel(caption, fontsize=8, color="#444444", x=0.01, ha="left", wrap=True)
            marks = draw(figure.subplots())
            names = [*map(for_figure, self.outcomes), "fair exposure"][: len(marks)]
            if marks:
                columns = max(1, int(width / (0.5 + 0.085 * max(map(len, names)))))
                figure.legend(marks, names, loc="outside upper left", ncols=min(columns, 4))
        return figure

    def _draw_regret(self, axes: Axes, regret: str) -> list[Any]:
        lines = [
            draw_band(axes, band, linestyle=_LINES[number // _COLORS % len(_LINES)])
            for number, band in enumerate(self.curves(regret).values())
        ]
        words = regret.replace("_", " ")
        axes.set(title=words.capitalize(), xlabel="episodes", ylabel=f"{words}, added up", ylim=(0, None))
        axes.set_xlim(0, max(int(found.episodes[-1]) for found in self.outcomes.values()))
        axes.xaxis.set_major_formatter(thousands)
        return lines

    def _draw_exposure(self, axes: Axes) -> list[Any]:
        return draw_exposures(axes, self.exposures)

    def _draw_benefit(self, axes: Axes) -> list[Any]:
        axes.set(title="Benefit and fairness", ylabel=_UPWARD[self.reward])
        axes.set(xlabel="← fairer · fairness regret, added up over episodes")
        draw_trade_off(axes, self.trade_off)
        return []


def side_by_side(outcomes: Mapping[Setting, Outcome], settings: Iterable[Setting]) -> SideBySide:
    """Return settings of one problem beside each other, as far as they are there.

    Parameters
    ----------
    outcomes : mapping of Setting to Outcome
        All that was found, as in `Results.outcomes`.
    settings : iterable of Setting
        Which to show; they differ in nothing but the policy.
    """
    shown = [setting for setting in settings if setting in outcomes]
    problems = {dataclasses.replace(setting, policy="") for setting in shown}
    if len(problems) != 1:
        raise InputError(f"policies are shown on one problem, got {len(problems)}")
    problem = problems.pop()
    references = {name: outcomes.get(dataclasses.replace(problem, policy=name)) for name in (_NONE, _BEST)}
    known = {name: found for name, found in references.items() if found is not None}
    return SideBySide({each.policy: outcomes[each] for each in shown}, known if len(known) == len(references) else {})


def _curve(found: Outcome, regret: str) -> Band:
    """Return the mean over runs of a curve, with its 95 % interval at each point as the band."""
    points = {str(episode): column for episode, column in zip(found.episodes, found.curves[regret].T, strict=True)}
    mean, low, high = np.array(list(intervals(points, found.setting.seed).values())).T
    return Band(found.episodes.astype(np.float64), mean, low, high)


def _by_benefit(found: Outcome, what: str) -> FloatArray:
    order = np.argsort(found.by_arm["benefit"], axis=1, kind="stable")
    return np.asarray(np.take_along_axis(found.by_arm[what], order, axis=1).mean(axis=0))
