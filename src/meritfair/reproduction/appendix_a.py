r"""Appendix A: MF-RMAB against FaWT-Q, by exposure and by reward.

FaWT-Q gives each arm at least :math:`\eta = 2` pulls in every L steps, and otherwise follows the largest index that it
has learned. MF-RMAB draws by merits :math:`e^{c\mu}`. The larger L and c, the closer to greedy. Both are played on
Synthetic-alternate with T = 1,000 and H = 200, as in the paper, and beside them Optimal, to which a very high c
should come close. The text does not say which c are played; the authors' ``experiment.py`` has 1, 3 and 10, which are
played here, and 100 as one that is very high beyond doubt.

:mod:`meritfair.reproduction.appendix_a_claims` says how each of the paper's claims is measured.

*Which FaWT-Q.* Four versions are played, which differ only in how Q moves (:mod:`meritfair.policies.fawt_q`): that of
Li and Varakantham's own release, by which the claims are judged; ours; that of the MF-RMAB repository, with which the
paper's figure was made, visits counted and indices refreshed at the wrong age; and the same with both ages put right.
All but ours tell as many ages apart as a window has steps, as their sources do.

*Departures.* All versions have our windows, which are always kept, and break ties at random; in the repository windows
are looked at one by one, and the first arm is served first. Runs have the authors' seed numbers 1 to 30; their
benchmark has 0 to 29. Their figure sorts the pulls of each run by size before it takes means, so its bars do not say
which arms are favoured; here arms are in order of their benefit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from meritfair.core.figures import new_figure
from meritfair.core.parsing import join_settings, split_settings
from meritfair.core.texts import several
from meritfair.lab.resampling import interval_columns, shown, span
from meritfair.lab.spec import Setting
from meritfair.reproduction.appendix_a_claims import (
    STRENGTHS,
    VERSIONS,
    Panel,
    Player,
    claims,
    claims_by_version,
    rewards_at_same_inequality,
)
from meritfair.reproduction.artefact import Artefact, Findings, PaperTable
from meritfair.reproduction.figures import COLORS
from meritfair.reproduction.panels import add_remark
from meritfair.reproduction.report import standing

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from meritfair.core.arrays import FloatArray
    from meritfair.lab.spec import Spec
    from meritfair.lab.tasks import Outcome
    from meritfair.reproduction.artefact import Results, Scale, Verdict
    from meritfair.simulation.metrics import Interval

__all__ = ["APPENDIX_A", "Numbers"]

_SIZES = ((5, 1), (10, 2))
_LEAST, _WINDOWS = 2, (15, 30, 50)
_MARKERS = ("o", "s", "^", "D")
_DASHES = ("-", "--", "-.", ":")
_VERSION_COLORS = {"li": COLORS["fawt-q"], "relative": "#D55E00", "published": "#56B4E9", "mended": "#CC79A7"}


@dataclass(frozen=True)
class Numbers:
    """What the figure shows: a row for each size."""

    panels: tuple[Panel, ...]
    remark: str


def _specs(scale: Scale) -> tuple[Spec, ...]:
    same = {"datasets": ("synthetic-alternate",), "sizes": _SIZES, "episodes": scale.episodes_of(1000)}
    windows = tuple(_fawt_q(version, window) for version in VERSIONS for window in _WINDOWS)
    merits = tuple(f"exponential:c={c}" for c in STRENGTHS)
    drawn = scale.spec(policies=("merit-fair",), merits=merits, **same)
    return scale.spec(policies=(*windows, "optimal"), **same), drawn


def _fawt_q(version: str, window: int) -> str:
    """Return a FaWT-Q as settings have it."""
    how = {} if version == "relative" else {"ages": window, "update": version}
    return join_settings("fawt-q", {"least": _LEAST, "window": window, **how})


def _player(outcome: Outcome) -> Player:
    """Return what is told of an outcome."""
    setting, given = outcome.setting, outcome.by_arm["exposure"]
    kind, how = split_settings(setting.policy)
    version = str(how.get("update", "relative")) if kind == "fawt-q" else ""
    knob = int({"merit-fair": split_settings(setting.merit)[1].get("c"), "fawt-q": how.get("window")}.get(kind) or 0)
    order = np.argsort(outcome.by_arm["benefit"], axis=1, kind="stable")
    share = np.take_along_axis(given, order, axis=1) / given.sum(axis=1, keepdims=True)
    least = _LEAST / knob * setting.n_arms / setting.budget if kind == "fawt-q" else 0.0
    found = outcome.measures
    return Player(kind, version, knob, least, found["gini"], found["good_state"], found["longest_wait"], share)


def _panels(results: Results, scale: Scale) -> tuple[Panel, ...]:
    settings = [setting for spec in _specs(scale) for setting in spec.settings()]
    kinds, versions = ("merit-fair", "fawt-q", "optimal"), ("", *VERSIONS)

    def panel(n_arms: int, budget: int) -> Panel:
        players = [_player(results[each]) for each in settings if each.n_arms == n_arms]
        players.sort(key=lambda each: (kinds.index(each.kind), versions.index(each.version), each.knob))
        return Panel(n_arms, budget, tuple(players), scale.seed)

    return tuple(panel(*size) for size in _SIZES)


def _table(panels: tuple[Panel, ...]) -> PaperTable:
    rows = [(panel, each) for panel in panels for each in panel.players]
    measures: dict[str, Callable[[Panel, Player], Interval]] = {
        "reward_of_optimal": lambda panel, each: panel.rewarded(each, panel.optimal),
        "gini": lambda panel, each: panel.mean(each.gini),
        "top_share": lambda panel, each: panel.mean(each.top),
        "largest_share": lambda panel, each: panel.mean(each.most),
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
        "update": [each.version for _, each in rows],
        "knob": [each.knob for _, each in rows],
    }
    for name, column in found.items():
        columns |= interval_columns(name, column)
    headings = ["N, K", "policy", "reward, of Optimal's", "Gini", "best 2 in 5 arms get", "2 in 5 with most get"]
    title = "MF-RMAB and FaWT-Q on Synthetic-alternate, with 95 % intervals"
    more = ["worst arm, of equal share", "longest wait, steps"]
    return PaperTable("appendix-a", title, [*headings, *more], cells, columns)


def _version_table(panels: tuple[Panel, ...], found: dict[str, tuple[Verdict, ...]]) -> PaperTable:
    """Return which FaWT-Q gives which verdict; claims that are not about it are left out."""
    about = [rows for rows in zip(*found.values(), strict=True) if len({each.found for each in rows}) > 1]
    measured = {
        "MF-RMAB's part of its reward at the same Gini": {
            version: span(each.mean for each in rewards_at_same_inequality(panels, version)) for version in VERSIONS
        },
        "what its best 2 in 5 arms get": _parts(panels, lambda each: each.top),
        "what the 2 in 5 with most get, whoever they are": _parts(panels, lambda each: each.most),
    }
    cells = [[name, *(row[version] for version in VERSIONS)] for name, row in measured.items()]
    cells += [[rows[0].claim, *(standing(each).words for each in rows)] for rows in about]
    headings = ["", *(f"FaWT-Q: {name}" for name in VERSIONS.values())]
    columns = dict(zip(("claim", *VERSIONS), map(list, zip(*cells, strict=True)), strict=True))
    return PaperTable(
        "appendix-a-versions", "Which FaWT-Q gives which verdict, over both sizes", headings, cells, columns
    )


def _parts(panels: tuple[Panel, ...], part: Callable[[Player], FloatArray]) -> dict[str, str]:
    """Return for each version from which to which part of the pulls, over sizes and L."""
    each = {version: [p for panel in panels for p in panel.against(version).of("fawt-q")] for version in VERSIONS}
    return {version: f"{span((100 * part(p).mean() for p in of), 0)} %" for version, of in each.items()}


def _analyse(results: Results, scale: Scale) -> Findings:
    panels = _panels(results, scale)
    episodes = scale.episodes_of(1000)
    runs = len(panels[0].optimal.gini)
    remark = (
        f"Synthetic-alternate, the authors' instances · {episodes:,} episodes of {Setting.horizon} steps · "
        f"{several(runs, 'run')} · seed {scale.seed}. Bars: 95 % intervals."
    )
    caption = (
        "Left: which part of all pulls each arm gets, arms in order of benefit; the grey line is an equal share. Here "
        "FaWT-Q is that of its own authors' release. Right: reward, as a part of that of Optimal, against inequality "
        "of the pulls; up is more rewarding, left is more equal. Points of a policy are joined in order of its knob, c "
        "or L, and FaWT-Q is shown in four versions, which differ only in how it learns. Means over runs; bars are "
        "95 % bootstrap intervals, for rewards those of the ratio in the same runs. The paper's figure sorts the pulls "
        "of each run by size; here they stay with their arms."
    )
    same = {v: span((100 * each.mean for each in rewards_at_same_inequality(panels, v)), 0) for v in VERSIONS}
    headline = (
        f"Where it is as equal as FaWT-Q, MF-RMAB has {same['li']} % of its reward; with FaWT-Q as in the MF-RMAB "
        f"repository, visits counted at the wrong age, {same['published']} %, and {same['mended']} % with that mended."
    )
    found = claims_by_version(panels)
    tables = (_version_table(panels, found), _table(panels))
    return Findings(Numbers(panels, remark), caption, tables, claims(found), headline)


def _draw(numbers: Numbers) -> Figure:
    rows = len(numbers.panels)
    judged, *others = VERSIONS
    with new_figure(1.3 + 3.5 * rows) as figure:
        grid = figure.subplots(rows, 2, squeeze=False, width_ratios=(1.15, 1))
        for (left, right), panel in zip(grid, numbers.panels, strict=True):
            lines = _draw_shares(left, panel.against(judged))
            more = [_draw_trade_off(right, panel, version) for version in VERSIONS][1:]
            left.set_title(f"Exposure, N = {panel.n_arms}, K = {panel.budget}")
            right.set_title(f"Reward and equality, N = {panel.n_arms}, K = {panel.budget}")
        names = [each.label for each in numbers.panels[0].against(judged).players]
        names += [f"FaWT-Q ({VERSIONS[version]})" for version in others]
        figure.legend([*lines, *more], names, loc="outside upper left", ncols=4)
        add_remark(figure, numbers.remark)
    return figure


def _style(panel: Panel, player: Player) -> dict[str, Any]:
    """Return how a policy is drawn: its colour by kind and version, its mark and line by the place of its knob."""
    place = [each.knob for each in panel.against(player.version).of(player.kind)].index(player.knob)
    color = _VERSION_COLORS.get(player.version) or COLORS[player.kind]
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


def _draw_trade_off(axes: Axes, whole: Panel, version: str) -> Any:
    """Draw a version of FaWT-Q, with the first of them all else; return its line."""
    panel, first = whole.against(version), version == next(iter(VERSIONS))
    beside = {"fawt-q": (-6, 6), "merit-fair": (6, -11), "optimal": (0, 0)}
    for kind in beside if first else ("fawt-q",):
        players = panel.of(kind)
        rewards = [panel.rewarded(each, panel.optimal) for each in players]
        ginis = [panel.mean(each.gini) for each in players]
        styles = [_style(panel, each) for each in players]
        shape = {**styles[0], "linestyle": "-", "linewidth": 1.2, "zorder": 1, "markevery": [0]}
        (line,) = axes.plot([x.mean for x in ginis], [y.mean for y in rewards], **shape, alpha=0.6)
        for player, gini, reward, style in zip(players, ginis, rewards, styles, strict=True):
            color = style["color"]
            axes.plot(gini[1:], [reward.mean] * 2, [gini.mean] * 2, reward[1:], color=color, linewidth=1, alpha=0.5)
            axes.plot(gini.mean, reward.mean, **{**style, "linestyle": ""})
            name = player.label.partition(", ")[2] if first else ""  # none for Optimal: the legend has it
            align = "left" if beside[kind][0] > 0 else "right"
            axes.annotate(
                name, (gini.mean, reward.mean), beside[kind], textcoords="offset points", fontsize=8, ha=align
            )
    axes.set(xlabel="← more equal · Gini coefficient of the pulls", ylabel="reward, as a part of Optimal's")
    axes.margins(0.12, 0.1)
    return line


APPENDIX_A = Artefact(
    name="appendix-a",
    title="Appendix A: MF-RMAB and FaWT-Q",
    about=(
        "FaWT-Q, of Li and Varakantham, is fair in another sense: it promises every arm two pulls in every L steps, "
        "and gives all others where Q-learning expects the most. MF-RMAB promises each arm a chance by its merit, and "
        "c says how much more those get who benefit more. The paper finds MF-RMAB more equal and no less rewarding. "
        "Here both are played on the same arms, beside the paper's greedy Optimal. Whether the claims hold depends on "
        "how FaWT-Q learns, so four versions are played, with the same windows. The claims are judged by the first, "
        "that of Li and Varakantham's own release: a constant rate of 0.5, a discount of 0.95, no visits counted. The "
        "second is ours. The third is that of the MF-RMAB repository: it counts visits at the age after a step and "
        "reads them at the age before, refreshes the index of another age than it has updated, and lets Q grow without "
        "bound. The fourth is the third with both ages put right, which shows what that error does. The authors' "
        "experiment.py has c = 1, 3 and 10; 100 is added here."
    ),
    specs=_specs,
    analyse=_analyse,
    draw=_draw,
)
