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
All but ours distinguish as many ages as a window has steps, as their sources do.

*Departures.* All versions have our windows, which are always kept, and break ties at random; in the repository windows
are looked at one by one, and the first arm is served first. Runs have the authors' seed numbers 1 to 30; their
benchmark has 0 to 29. Their figure sorts the pulls of each run by size before it takes means, so its bars do not say
which arms are favoured; here arms are in order of their benefit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from meritfair.core.figures import new_figure
from meritfair.core.parsing import join_settings
from meritfair.lab.resampling import span
from meritfair.lab.tasks import Outcome
from meritfair.reproduction.appendix_a_claims import BARS, STRENGTHS, VERSIONS, Against, FawtPanel, Pair, Player
from meritfair.reproduction.artefact import Artefact, Findings, Results, Scale, Specs
from meritfair.reproduction.figures import COLORS, add_legend
from meritfair.reproduction.prose import Rows, compose, span_percent, standing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DATASET, SIZES = "synthetic-alternate", ((5, 1), (10, 2))
EPISODES = 1000
_LEAST, WINDOWS = 2, (15, 30, 50)
_MARKERS = ("o", "s", "^", "D")
_DASHES = ("-", "--", "-.", ":")
_VERSION_COLORS = {"li": COLORS["fawt-q"], "relative": "#D55E00", "published": "#56B4E9", "mended": "#CC79A7"}


def _specs(scale: Scale) -> Specs:
    same = {"datasets": (DATASET,), "sizes": SIZES, "episodes": scale.episodes_of(EPISODES)}
    windows = tuple(fawt_q(version, window) for version in VERSIONS for window in WINDOWS)
    merits = tuple(f"exponential:c={c}" for c in STRENGTHS)
    drawn = scale.spec(policies=("merit-fair",), merits=merits, **same)
    return scale.spec(policies=(*windows, "optimal"), **same), drawn


def fawt_q(version: str, window: int) -> str:
    """Return a FaWT-Q as settings have it."""
    how = {} if version == "relative" else {"ages": window, "update": version}
    return join_settings("fawt-q", {"least": _LEAST, "window": window, **how})


def _panel(results: Results, scale: Scale, size: tuple[int, int]) -> FawtPanel:
    """Return all policies of one size."""
    of = partial(scale.outcome, results, DATASET, size, episodes=scale.episodes_of(EPISODES))
    ours = [make_player(of(c=c), "merit-fair", c) for c in STRENGTHS]
    theirs = [make_player(of(fawt_q(name, L)), "fawt-q", L, name) for name in VERSIONS for L in WINDOWS]
    return FawtPanel(*size, (*ours, *theirs, make_player(of("optimal"), "optimal")), scale.seed)


def make_player(outcome: Outcome, kind: str, knob: int = 0, version: str = "") -> Player:
    """Return what an outcome says of a policy."""
    setting, given, found = outcome.setting, outcome.by_arm["exposure"], outcome.measures
    order = np.argsort(outcome.by_arm["benefit"], axis=1, kind="stable")
    share = np.take_along_axis(given, order, axis=1) / given.sum(axis=1, keepdims=True)
    least = _LEAST / knob * setting.n_arms / setting.budget if kind == "fawt-q" else 0.0
    return Player(kind, version, knob, least, found["gini"], found["good_state"], found["longest_wait"], share)


def _analyse(results: Results, scale: Scale) -> Findings:
    panels = tuple(_panel(results, scale, size) for size in SIZES)
    evidence = {version: Against(tuple(panel.against(version) for panel in panels)) for version in VERSIONS}
    answers = {version: {name: scale.answer(x) for name, x in of.verdicts.items()} for version, of in evidence.items()}
    return compose(
        "appendix-a",
        scale,
        panels,
        specs=_specs,
        verdicts=evidence["li"].verdicts,
        tables={
            "appendix-a-versions": _version_rows(evidence, answers),
            "appendix-a": [_row(panel, each) for panel in panels for each in panel.players],
        },
        episodes=scale.episodes_of(EPISODES),
        evidence=evidence,
        answers=answers,
        versions=VERSIONS,
        strengths=STRENGTHS,
        bars=BARS,
    )


def _row(panel: FawtPanel, player: Player) -> Mapping[str, Any]:
    """Return a row of the table of all policies."""
    return {
        "n_arms": panel.n_arms,
        "budget": panel.budget,
        "policy": player.kind,
        "update": player.version,
        "knob": player.knob,
        "reward_of_optimal": Pair(panel, player, panel.optimal).rewarded,
        "gini": panel.mean(player.gini),
        "top_share": panel.mean(player.top),
        "largest_share": panel.mean(player.most),
        "worst_of_equal_share": panel.mean(player.worst),
        "longest_wait": panel.mean(player.longest_wait),
    }


def _version_rows(evidence: Mapping[str, Against], answers: Mapping[str, Mapping[str, bool | None]]) -> Rows:
    """Return which FaWT-Q gives which numbers and verdicts; claims that are not about it are left out."""

    def row(name: str, values: Sequence[str]) -> Mapping[str, str]:
        return {"claim": name, **dict(zip(evidence, values, strict=True))}

    each = list(evidence.values())
    theirs = [[player for panel in of.panels for player in panel.of("fawt-q")] for of in each]
    claims = [name for name in each[0].verdicts if not name.startswith("greedy")]
    return [
        row("reward_at_same_gini", [span(found.mean for found in of.same_gini()) for of in each]),
        row("top_share", [span_percent(player.top.mean() for player in of) for of in theirs]),
        row("largest_share", [span_percent(player.most.mean() for player in of) for of in theirs]),
        *(row(name, [standing(of[name]).words for of in answers.values()]) for name in claims),
    ]


def _draw(panels: tuple[FawtPanel, ...]) -> Figure:
    judged, *others = VERSIONS
    with new_figure(1.3 + 3.5 * len(panels)) as figure:
        grid = figure.subplots(len(panels), 2, squeeze=False, width_ratios=(1.15, 1))
        for (left, right), panel in zip(grid, panels, strict=True):
            lines = _draw_shares(left, panel.against(judged))
            more = [_draw_trade_off(right, panel, version) for version in VERSIONS][1:]
            left.set_title(f"Exposure, N = {panel.n_arms}, K = {panel.budget}")
            right.set_title(f"Reward and equality, N = {panel.n_arms}, K = {panel.budget}")
        names = [each.label for each in panels[0].against(judged).players]
        names += [f"FaWT-Q ({VERSIONS[version]})" for version in others]
        add_legend(figure, [*lines, *more], names, columns=4)
    return figure


def _style(panel: FawtPanel, player: Player) -> dict[str, Any]:
    """Return how a policy is drawn: its colour by kind and version, its mark and line by the place of its knob."""
    place = [each.knob for each in panel.against(player.version).of(player.kind)].index(player.knob)
    color = _VERSION_COLORS.get(player.version) or COLORS[player.kind]
    marker = "P" if player is panel.optimal else _MARKERS[place]
    inside = {"markerfacecolor": "white" if player.kind == "fawt-q" else color, "markersize": 5.5}
    return {"color": color, "linestyle": _DASHES[place], "marker": marker, **inside}


def _draw_shares(axes: Axes, panel: FawtPanel) -> list[Any]:
    place = np.arange(1, panel.n_arms + 1)
    axes.axhline(1 / panel.n_arms, color="#999999", linewidth=1)
    shares = [(each.share.mean(axis=0), _style(panel, each)) for each in panel.players]
    lines = [axes.plot(place, share, linewidth=1.4, **style)[0] for share, style in shares]
    axes.set(xlabel="arms, from least to most benefit", ylabel="share of all pulls", ylim=(0, None))
    axes.set_xticks(place)
    return lines


def _draw_trade_off(axes: Axes, whole: FawtPanel, version: str) -> Any:
    """Draw a version of FaWT-Q, with the first of them all else; return its line."""
    panel, first = whole.against(version), version == next(iter(VERSIONS))
    beside = {"fawt-q": (-6, 6), "merit-fair": (6, -11), "optimal": (0, 0)}
    for kind in beside if first else ("fawt-q",):
        players = panel.of(kind)
        rewards = [Pair(panel, each, panel.optimal).rewarded for each in players]
        ginis = [panel.mean(each.gini) for each in players]
        styles = [_style(panel, each) for each in players]
        shape = {**styles[0], "linestyle": "-", "linewidth": 1.2, "zorder": 1, "markevery": [0]}
        (line,) = axes.plot([x.mean for x in ginis], [y.mean for y in rewards], **shape, alpha=0.6)
        for player, gini, reward, style in zip(players, ginis, rewards, styles, strict=True):
            color = style["color"]
            axes.plot(gini[1:], [reward.mean] * 2, [gini.mean] * 2, reward[1:], color=color, linewidth=1, alpha=0.5)
            axes.plot(gini.mean, reward.mean, **{**style, "linestyle": ""})
            if first:
                place, align = (gini.mean, reward.mean), "left" if kind == "merit-fair" else "right"
                axes.annotate(player.setting, place, beside[kind], textcoords="offset points", fontsize=8, ha=align)
    axes.set(xlabel="← more equal · Gini coefficient of the pulls", ylabel="reward, relative to Optimal's")
    axes.margins(0.12, 0.1)
    return line


APPENDIX_A = Artefact("appendix-a", "Appendix A: MF-RMAB and FaWT-Q", _specs, _analyse, _draw)
