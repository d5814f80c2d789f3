"""Appendix A again, with slack: the reward of merit-fair over time and of FaWT-Q where both are as equal.

The paper says that MF-RMAB is more egalitarian than FaWT-Q and equal or better in reward. FaWT-Q looks at the states at
every step and MF-RMAB does not. With `slack`, merit-fair does: each arm has the same exposure, when a pull helps most.
The claim is measured as in :mod:`meritfair.reproduction.appendix_a_claims`: at the Gini coefficient of each FaWT-Q, by
straight lines between the c that were played. Instances, episodes and FaWT-Q are those of Appendix A; merit-fair learns
by the posterior mean and has the exact design, with slack 0 (a lottery), 2 and 5.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from meritfair.core.figures import new_figure
from meritfair.lab.resampling import above, every
from meritfair.reproduction.appendix_a import DATASET, EPISODES, SIZES, WINDOWS, fawt_q, make_player
from meritfair.reproduction.appendix_a_claims import AS_GOOD, STRENGTHS, VERSIONS, Player, reward_at_same_gini
from meritfair.reproduction.artefact import Artefact, Findings, Results, Scale, Specs
from meritfair.reproduction.figures import COLORS, add_legend
from meritfair.reproduction.prose import compose
from meritfair.simulation.bootstrap import Interval, interval, ratio_interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_SLACKS = (0, 2, 5)
_SLACK = 2  # of the claims
_JUDGED = next(iter(VERSIONS))  # FaWT-Q of its own authors
_COLORS = {0: COLORS["merit-fair"], 2: COLORS["mean"], 5: COLORS["pooled"]}
_MARKERS = {0: "o", 2: "s", 5: "^"}


@dataclass(frozen=True, eq=False)
class SlackPanel:
    """Policies on the problems of one size: merit-fair by slack in order of c, and FaWT-Q by version in order of L."""

    n_arms: int
    budget: int
    fair: Mapping[int, Sequence[Player]]
    fawt: Mapping[str, Sequence[Player]]
    optimal: Player
    seed: int

    def at_same_gini(self, slack: int, version: str) -> list[Interval]:
        """Return the reward with this slack as a multiple of that of each FaWT-Q, at its Gini coefficient."""
        return [reward_at_same_gini(self.fair[slack], each, self.seed) for each in self.fawt[version]]

    def point(self, player: Player) -> tuple[Interval, Interval]:
        """Return the Gini coefficient of a policy, and its reward as a part of Optimal's."""
        return interval(player.gini, self.seed), ratio_interval(player.reward, self.optimal.reward, self.seed)


def _policy(slack: int) -> str:
    return f"merit-fair:estimate=mean,slack={slack}"


def _specs(scale: Scale) -> Specs:
    same = {"datasets": (DATASET,), "sizes": SIZES, "episodes": scale.episodes_of(EPISODES)}
    theirs = tuple(fawt_q(version, window) for version in VERSIONS for window in WINDOWS)
    merits = tuple(f"exponential:c={c}" for c in STRENGTHS)
    ours = scale.spec(policies=tuple(map(_policy, _SLACKS)), merits=merits, design="exact", **same)
    return scale.spec(policies=(*theirs, "optimal"), **same), ours


def _panel(results: Results, scale: Scale, size: tuple[int, int]) -> SlackPanel:
    of = partial(scale.outcome, results, DATASET, size, episodes=scale.episodes_of(EPISODES))
    fair = {
        slack: [make_player(of(_policy(slack), c, design="exact"), "merit-fair", c) for c in STRENGTHS]
        for slack in _SLACKS
    }
    fawt = {name: [make_player(of(fawt_q(name, L)), "fawt-q", L, name) for L in WINDOWS] for name in VERSIONS}
    return SlackPanel(*size, fair, fawt, make_player(of("optimal"), "optimal"), scale.seed)


def _analyse(results: Results, scale: Scale) -> Findings:
    panels = tuple(_panel(results, scale, size) for size in SIZES)
    found = {
        slack: {name: [x for panel in panels for x in panel.at_same_gini(slack, name)] for name in VERSIONS}
        for slack in _SLACKS
    }
    answers = {
        slack: {name: every(above(x, AS_GOOD) for x in own) for name, own in of.items()} for slack, of in found.items()
    }
    return compose(
        "appendix-a-slack",
        scale,
        panels,
        specs=_specs,
        verdicts={"both": answers[_SLACK][_JUDGED], "versions": every(answers[_SLACK].values())},
        tables={"appendix-a-slack": [row for panel in panels for row in _rows(panel)]},
        slack=_SLACK,
        slacks=_SLACKS,
        judged=_JUDGED,
        versions=VERSIONS,
        found=found,
        answers={slack: {name: scale.answer(x) for name, x in of.items()} for slack, of in answers.items()},
        as_good=AS_GOOD,
        episodes=scale.episodes_of(EPISODES),
    )


def _rows(panel: SlackPanel) -> list[Mapping[str, Any]]:
    """Return a row of the table for each FaWT-Q."""
    by_slack = {(name, slack): panel.at_same_gini(slack, name) for name in panel.fawt for slack in _SLACKS}
    return [
        {
            "n_arms": panel.n_arms,
            "budget": panel.budget,
            "update": name,
            "window": each.knob,
            "gini": panel.point(each)[0],
            **{f"slack_{slack}": by_slack[name, slack][place] for slack in _SLACKS},
        }
        for name, players in panel.fawt.items()
        for place, each in enumerate(players)
    ]


def _draw(panels: tuple[SlackPanel, ...]) -> Figure:
    with new_figure(4.6) as figure:
        grid = figure.subplots(1, len(panels), squeeze=False)[0]
        for axes, panel in zip(grid, panels, strict=True):
            lines = [_draw_line(axes, panel, panel.fair[slack], slack) for slack in _SLACKS]
            lines.append(_draw_line(axes, panel, panel.fawt[_JUDGED]))
            axes.set_title(f"N = {panel.n_arms}, K = {panel.budget}")
            axes.set(xlabel="← more equal · Gini coefficient of the pulls", ylabel="reward, relative to Optimal's")
            axes.margins(0.1, 0.1)
        names = ["lottery (slack 0)", *(f"slack {slack}" for slack in _SLACKS[1:])]
        add_legend(figure, lines, [*names, f"FaWT-Q ({VERSIONS[_JUDGED]})"])
    return figure


def _draw_line(axes: Axes, panel: SlackPanel, players: Sequence[Player], slack: int | None = None) -> Any:
    """Draw reward against inequality, with 95 % intervals; return the line."""
    color, marker = (COLORS["fawt-q"], "D") if slack is None else (_COLORS[slack], _MARKERS[slack])
    points = [panel.point(each) for each in players]
    for gini, reward in points:
        axes.plot(gini[1:], [reward.mean] * 2, [gini.mean] * 2, reward[1:], color=color, linewidth=1, alpha=0.5)
    x, y = ([each[k].mean for each in points] for k in range(2))
    (line,) = axes.plot(x, y, color=color, marker=marker, markersize=5, linewidth=1.4)
    if slack in (None, _SLACKS[-1]):  # the same c are nearly above one another
        style: dict[str, Any] = {"xytext": (5, -11)} if slack is None else {"xytext": (-5, 6), "ha": "right"}
        for player, place in zip(players, zip(x, y, strict=True), strict=True):
            axes.annotate(player.setting, place, textcoords="offset points", fontsize=8, **style)
    return line


APPENDIX_A_SLACK = Artefact("appendix-a-slack", "Beyond the paper: Appendix A with slack", _specs, _analyse, _draw)
