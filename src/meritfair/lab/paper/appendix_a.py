r"""Appendix A: MF-RMAB against FaWT-Q, by exposure and by reward.

FaWT-Q gives each arm at least :math:`\eta = 2` pulls in every L steps, and otherwise follows the largest index that it
has learned. MF-RMAB draws by merits :math:`e^{c\mu}`. The larger L and c, the closer to greedy. Both are played on
Synthetic-alternate with T = 1,000 and H = 200, as in the paper, and beside them Optimal, to which a very high c
should come close. The paper does not say which c it plays; here they are the 1, 3 and 10 of its other experiments, and
100 as one that is very high beyond doubt.

:mod:`meritfair.lab.paper.appendix_a_claims` says how each of the paper's claims is measured.

*Departure.* FaWT-Q here is the algorithm of Li and Varakantham, with the changes that :mod:`meritfair.policies.fawt_q`
names, not the version of it that the paper was made with. That one counts visits at another key than the one it
updates and lets its values grow without bound, so its index is not what the algorithm would learn.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from meritfair.lab.figures import COLORS
from meritfair.lab.paper.appendix_a_claims import STRENGTHS, Panel, Player, claims, reward_at_same_inequality
from meritfair.lab.paper.artefact import Artefact, Findings, PaperTable
from meritfair.lab.paper.panels import add_remark
from meritfair.lab.resampling import interval_columns, shown, span
from meritfair.lab.spec import Setting
from meritfair.lab.wording import several
from meritfair.plots import new_figure

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from meritfair.lab.paper.artefact import Results, Scale
    from meritfair.lab.spec import Spec
    from meritfair.lab.tasks import Outcome
    from meritfair.metrics import Interval

__all__ = ["APPENDIX_A", "Numbers"]

_SIZES = ((5, 1), (10, 2))
_LEAST, _WINDOWS = 2, (15, 30, 50)
_MARKERS = ("o", "s", "^", "D")
_DASHES = ("-", "--", "-.", ":")


@dataclass(frozen=True)
class Numbers:
    """What the figure shows: a row for each size."""

    panels: tuple[Panel, ...]
    remark: str


def _specs(scale: Scale) -> tuple[Spec, ...]:
    same = {"datasets": ("synthetic-alternate",), "sizes": _SIZES, "episodes": scale.episodes_of(1000)}
    windows = tuple(f"fawt-q:least={_LEAST},window={window}" for window in _WINDOWS)
    merits = tuple(f"exponential:c={c}" for c in STRENGTHS)
    drawn = scale.spec(policies=("merit-fair",), merits=merits, **same)
    return scale.spec(policies=(*windows, "optimal"), **same), drawn


def _player(outcome: Outcome) -> Player:
    """Return what is told of an outcome."""
    setting, given = outcome.setting, outcome.by_arm["exposure"]
    kind = setting.policy.partition(":")[0]
    source = {"merit-fair": setting.merit, "fawt-q": setting.policy}.get(kind, "=0")
    knob = int(source.rpartition("=")[2])
    order = np.argsort(outcome.by_arm["benefit"], axis=1, kind="stable")
    share = np.take_along_axis(given, order, axis=1) / given.sum(axis=1, keepdims=True)
    least = _LEAST / knob * setting.n_arms / setting.budget if kind == "fawt-q" else 0.0
    found = outcome.measures
    return Player(kind, knob, least, found["gini"], found["good_state"], found["longest_wait"], share)


def _panels(results: Results, scale: Scale) -> tuple[Panel, ...]:
    settings = [setting for spec in _specs(scale) for setting in spec.settings()]
    kinds = ("merit-fair", "fawt-q", "optimal")

    def panel(n_arms: int, budget: int) -> Panel:
        players = [_player(results[each]) for each in settings if each.n_arms == n_arms]
        players.sort(key=lambda each: (kinds.index(each.kind), each.knob))
        return Panel(n_arms, budget, tuple(players), scale.seed)

    return tuple(panel(*size) for size in _SIZES)


def _table(panels: tuple[Panel, ...]) -> PaperTable:
    rows = [(panel, each) for panel in panels for each in panel.players]
    measures: dict[str, Callable[[Panel, Player], Interval]] = {
        "reward_of_optimal": lambda panel, each: panel.rewarded(each, panel.optimal),
        "gini": lambda panel, each: panel.mean(each.gini),
        "top_share": lambda panel, each: panel.mean(each.top),
        "worst_of_equal_share": lambda panel, each: panel.mean(each.worst),
        "longest_wait": lambda panel, each: panel.mean(each.longest_wait),
    }
    found = {name: [measure(*row) for row in rows] for name, measure in measures.items()}
    digits = {"longest_wait": 0}
    cells = [
        [
            f"{panel.n_arms}, {panel.budget}",
            each.label,
            *(shown(column[i], digits.get(name, 2)) for name, column in found.items()),
        ]
        for i, (panel, each) in enumerate(rows)
    ]
    columns: dict[str, list[Any]] = {
        "n_arms": [panel.n_arms for panel, _ in rows],
        "budget": [panel.budget for panel, _ in rows],
        "policy": [each.kind for _, each in rows],
        "knob": [each.knob for _, each in rows],
    }
    for name, column in found.items():
        columns |= interval_columns(name, column)
    headings = ["N, K", "policy", "reward, of Optimal's", "Gini", "best 2 in 5 arms get", "worst arm, of equal share"]
    title = "MF-RMAB and FaWT-Q on Synthetic-alternate, with 95 % intervals"
    return PaperTable("appendix-a", title, [*headings, "longest wait, steps"], cells, columns)


def _analyse(results: Results, scale: Scale) -> Findings:
    panels = _panels(results, scale)
    episodes = scale.episodes_of(1000)
    runs = len(panels[0].optimal.gini)
    remark = (
        f"Synthetic-alternate, the authors' instances · {episodes:,} episodes of {Setting.horizon} steps · "
        f"{several(runs, 'run')} · seed {scale.seed}. Bars: 95 % intervals."
    )
    caption = (
        "Left: which part of all pulls each arm gets, arms in order of benefit; the grey line is an equal share. "
        "Right: reward, as a part of that of Optimal, against inequality of the pulls; up is more rewarding, left is "
        "more equal. Points of a policy are joined in order of its knob, c or L. Means over runs; bars are 95 % "
        "bootstrap intervals, for rewards those of the ratio in the same runs. FaWT-Q is the algorithm of its own "
        "authors, not the version of it that this paper was made with, which counts visits at the wrong place and lets "
        "its values grow without bound."
    )
    same = [reward_at_same_inequality(panel, other).mean for panel in panels for other in panel.of("fawt-q")]
    headline = f"Where it is as equal as FaWT-Q, MF-RMAB has {span((100 * each for each in same), 0)} % of its reward."
    return Findings(Numbers(panels, remark), caption, (_table(panels),), claims(panels), headline)


def _draw(numbers: Numbers) -> Figure:
    rows = len(numbers.panels)
    with new_figure(1.0 + 3.5 * rows) as figure:
        grid = figure.subplots(rows, 2, squeeze=False, width_ratios=(1.15, 1))
        for (left, right), panel in zip(grid, numbers.panels, strict=True):
            lines = _draw_shares(left, panel)
            _draw_trade_off(right, panel)
            left.set_title(f"Exposure, N = {panel.n_arms}, K = {panel.budget}")
            right.set_title(f"Reward and equality, N = {panel.n_arms}, K = {panel.budget}")
        figure.legend(lines, [each.label for each in numbers.panels[0].players], loc="outside upper left", ncols=4)
        add_remark(figure, numbers.remark)
    return figure


def _style(panel: Panel, player: Player) -> dict[str, Any]:
    """Return how a policy is drawn: its colour by kind, its mark and line by the place of its knob."""
    place, color = panel.of(player.kind).index(player), COLORS[player.kind]
    marker = "P" if player is panel.optimal else _MARKERS[place]
    inside = "white" if player.kind == "fawt-q" else color
    line = {"color": color, "linestyle": _DASHES[place]}
    return {**line, "marker": marker, "markersize": 5.5, "markerfacecolor": inside}


def _draw_shares(axes: Axes, panel: Panel) -> list[Any]:
    place = np.arange(1, panel.n_arms + 1)
    axes.axhline(1 / panel.n_arms, color="#999999", linewidth=1)
    lines: list[Any] = []
    for player in panel.players:
        lines += axes.plot(place, player.share.mean(axis=0), linewidth=1.4, **_style(panel, player))
    axes.set(xlabel="arms, from least to most benefit", ylabel="part of all pulls", ylim=(0, None))
    axes.set_xticks(place)
    return lines


def _draw_trade_off(axes: Axes, panel: Panel) -> None:
    for kind, beside in (("merit-fair", (6, -11)), ("fawt-q", (-6, 6)), ("optimal", (0, 0))):
        players = panel.of(kind)
        rewards = [panel.rewarded(each, panel.optimal) for each in players]
        ginis = [panel.mean(each.gini) for each in players]
        axes.plot(
            [x.mean for x in ginis], [y.mean for y in rewards], color=COLORS[kind], linewidth=1.2, alpha=0.6, zorder=1
        )
        for player, gini, reward in zip(players, ginis, rewards, strict=True):
            color = COLORS[kind]
            axes.plot(gini[1:], [reward.mean] * 2, [gini.mean] * 2, reward[1:], color=color, linewidth=1, alpha=0.5)
            axes.plot(gini.mean, reward.mean, **{**_style(panel, player), "linestyle": ""})
            name = player.label.partition(", ")[2]  # none for Optimal: the legend has it
            align = "left" if beside[0] > 0 else "right"
            axes.annotate(name, (gini.mean, reward.mean), beside, textcoords="offset points", fontsize=8, ha=align)
    axes.set(xlabel="← more equal · Gini coefficient of the pulls", ylabel="reward, as a part of Optimal's")
    axes.margins(0.12, 0.1)


APPENDIX_A = Artefact(
    name="appendix-a",
    title="Appendix A: MF-RMAB and FaWT-Q",
    about=(
        "FaWT-Q, of Li and Varakantham, is fair in another sense: it promises every arm two pulls in every L steps, "
        "and gives all others where Q-learning expects the most. MF-RMAB promises each arm a chance by its merit, and "
        "c says how much more those get who benefit more. The paper finds MF-RMAB more equal and no less rewarding. "
        "Here both are played on the same arms, beside the paper's greedy Optimal. FaWT-Q is played as its own authors "
        "define it. The version that the paper was made with counts visits at the wrong key, refreshes the wrong index "
        "and lets Q grow without bound, so it is a weaker rival, which may be why the paper finds otherwise."
    ),
    specs=_specs,
    analyse=_analyse,
    draw=_draw,
)
