r"""Fair over time: the same exposures as the lottery, given when a pull helps most.

With `slack` B, the account of an arm, what it was due less what it was given, stays between -B and B pulls at every
step (:mod:`meritfair.model.accounts`). Slack 0 is the lottery, which is blind to states. Exposures in the long run are
the same for every slack, so no policy can have more good states than the linear programme for each arm says,
:func:`meritfair.best_good_share`.

*Known arms.* `FairOracle` with several slacks, on all data sets and sizes. The part of the possible gain is

.. math:: \frac{r_B - r_0}{\bar r - r(e)},

where :math:`r_B` is the measured reward with slack B, :math:`\bar r` the bound and :math:`r(e)` the lottery's reward in
the long run, both computed. Numerator and denominator are means over runs. What is claimed of it is claimed of the
paper's 30 instances. If all of them are played, the interval is over parts of the time, which is what is left to
chance; if not, it is over runs, as all others are.

*Learned arms.* `MeritFair` (estimate ``mean``) with and without slack, beside `FairOracle` with the same slack. Benefit
is reward above that of a policy that never pulls, which meets the same random numbers.

States carry over between episodes, so a run is one long programme and its random first states do not count. All
policies have the exact design.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from meritfair.core.arrays import FloatArray
from meritfair.core.figures import Band, draw_band, new_figure
from meritfair.lab.resampling import above, below, every
from meritfair.lab.tasks import Outcome
from meritfair.model.benefit import steady_state
from meritfair.model.timing import best_good_share
from meritfair.reproduction.artefact import DATASETS, SIZES, Artefact, Findings, Results, Scale, Specs
from meritfair.reproduction.figures import COLORS, add_legend, label_steps
from meritfair.reproduction.prose import compose, place
from meritfair.simulation.bootstrap import Interval, interval, ratio, ratio_interval, weights

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SLACKS = (0.0, 0.5, 1.0, 2.0, 5.0, 10.0, math.inf)
SLACK = 2.0  # the one that is learned with
_LEARNED = (20, 4)
_KNOWN_EPISODES, _LEARNED_EPISODES = 200, 1000
_JUDGED = ((20, 4), (100, 20))  # the sizes of the next claims
_PARTS = {  # of the possible gain, at least, on each data set
    0.5: dict(zip(DATASETS.values(), (0.70, 0.48, 0.70), strict=True)),
    SLACK: dict(zip(DATASETS.values(), (0.92, 0.75, 0.92), strict=True)),
    10.0: dict(zip(DATASETS.values(), (0.97, 0.93, 0.98), strict=True)),
}
_GROWS_TO = 5.0  # from there on little is left to gain
_OF_ORACLE, _REGRET = 0.95, 1.25
_LATE = 0.1  # the last part of a run
_ROUNDING = 1e-9
_BINS = 12
_INSTANCES = 30  # of each size, in the paper
_TIMES = 20  # parts of a run, each so long that they are nearly independent
_PLAYERS = {
    "oracle": f"fair-oracle:slack={SLACK:g}",
    "learned": f"merit-fair:estimate=mean,slack={SLACK:g}",
    "lottery": "merit-fair:estimate=mean",
    "never": "none",
}
_STYLES: dict[str, dict[str, Any]] = {
    "oracle": {"color": COLORS["optimal"], "linestyle": "--"},
    "learned": {"color": COLORS["mean"]},
    "lottery": {"color": COLORS["merit-fair"], "linestyle": "-."},
}
_BOUND: dict[str, Any] = {"color": COLORS["limit"], "linestyle": ":", "linewidth": 1.4}


@dataclass(frozen=True, eq=False)
class Known:
    """Benefits on one data set and size with known arms, in each run: good arms at a step above never pulling.

    ``benefit`` is measured, by slack, and so is ``by_time``, shape (runs, parts of the time); ``lottery`` and ``bound``
    are computed for the long run.
    """

    place: Mapping[str, Any]
    benefit: Mapping[float, FloatArray]
    by_time: Mapping[float, FloatArray]
    lottery: FloatArray
    bound: FloatArray
    seed: int

    def part(self, slack: float) -> Interval:
        """Return the part of the possible gain over the lottery that is reached with this slack."""
        possible = self.bound - self.lottery
        if len(possible) < _INSTANCES:
            return ratio_interval(self.benefit[slack] - self.benefit[0.0], possible, self.seed)
        gained = self.by_time[slack] - self.by_time[0.0]
        return interval(gained.mean(axis=0) / possible.mean(), self.seed)

    def of_bound(self, slack: float) -> Interval:
        """Return the benefit as a part of the bound."""
        return ratio_interval(self.benefit[slack], self.bound, self.seed)

    def of_lottery(self, slack: float) -> Interval:
        """Return the benefit as a multiple of the lottery's."""
        return ratio_interval(self.benefit[slack], self.benefit[0.0], self.seed)

    def step(self, less: float, more: float) -> Interval:
        """Return what more slack adds to the benefit."""
        return interval(self.benefit[more] - self.benefit[less], self.seed)


@dataclass(frozen=True, eq=False)
class Learned:
    """What policies made of arms that they had to learn: by policy, its benefit as part of the bound over time.

    ``row`` has the numbers of the table.
    """

    dataset: str
    bands: Mapping[str, Band]
    row: Mapping[str, Any]


class Numbers(NamedTuple):
    """What the figure shows."""

    known: tuple[Known, ...]
    learned: tuple[Learned, ...]


def label(slack: float) -> str:
    """Return a slack as people write it.

    Examples
    --------
    >>> [label(each) for each in (0.5, 2.0, math.inf)]
    ['½', '2', '∞']
    """
    return {0.5: "½", math.inf: "∞"}.get(slack, f"{slack:g}")


def _common(scale: Scale, paper: int) -> dict[str, Any]:
    return {"episodes": scale.episodes_of(paper), "design": "exact", "carry_states": True}


def _oracle(slack: float) -> str:
    return f"fair-oracle:slack={slack:g}"


def _specs(scale: Scale) -> Specs:
    everywhere, policies = tuple(DATASETS), tuple(_oracle(slack) for slack in SLACKS)
    known = scale.spec(datasets=everywhere, sizes=SIZES, policies=policies, **_common(scale, _KNOWN_EPISODES))
    players, common = tuple(_PLAYERS.values()), _common(scale, _LEARNED_EPISODES)
    return known, scale.spec(datasets=everywhere, sizes=(_LEARNED,), policies=players, **common)


def long_run(outcome: Outcome) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return how many arms are good in the long run, of each run: never pulled, by the lottery, and at most."""
    arms = outcome.setting.arms(range(int(outcome.runs[0]), int(outcome.runs[-1]) + 1))
    P, due = np.stack([each.transitions for each in arms]), outcome.by_arm["fair_exposure"]
    never, lottery, best = steady_state(P, 0.0), steady_state(P, due), best_good_share(P, due)
    return never.sum(axis=1), lottery.sum(axis=1), best.sum(axis=1)


def _known(outcomes: Mapping[float, Outcome], seed: int) -> Known:
    setting = outcomes[0.0].setting
    never, lottery, best = long_run(outcomes[0.0])
    good = {slack: setting.n_arms * each.measures["good_state"] for slack, each in outcomes.items()}
    benefit = {slack: each - never for slack, each in good.items()}
    by_time = {slack: _by_time(each) - never[:, None] for slack, each in outcomes.items()}
    return Known(place(setting), benefit, by_time, lottery - never, best - never, seed)


def _by_time(outcome: Outcome) -> FloatArray:
    """Return how many arms are good at a step in each part of the time, shape (runs, parts)."""
    episodes = np.append(0, outcome.episodes)
    total = np.insert(outcome.curves["reward"], 0, 0.0, axis=1)
    ends = np.unique(np.searchsorted(episodes, np.linspace(0, episodes[-1], _TIMES + 1)))
    return np.asarray(np.diff(total[:, ends]) / np.diff(episodes[ends]) / outcome.setting.horizon)


def _learned(outcomes: Mapping[str, Outcome], seed: int) -> Learned:
    never, _, best = long_run(outcomes["oracle"])
    players = {name: outcomes[name] for name in _STYLES}
    late = {name: _late(each) - _late(outcomes["never"]) for name, each in players.items()}
    regret = {name: each.measures["fairness_regret"] for name, each in players.items()}
    row = {
        **place(outcomes["oracle"].setting),
        "late_of_oracle": ratio_interval(late["learned"], late["oracle"], seed),
        "lottery_of_oracle": ratio_interval(late["lottery"], late["oracle"], seed),
        "regret": interval(regret["learned"], seed),
        "lottery_regret": interval(regret["lottery"], seed),
        "regret_ratio": ratio_interval(regret["learned"], regret["lottery"], seed),
        "largest_account": float(outcomes["learned"].measures["largest_account"].max()),
    }
    bands = {name: _over_time(each, outcomes["never"], best - never, seed) for name, each in players.items()}
    return Learned(row["dataset"], bands, row)


def _late(outcome: Outcome) -> FloatArray:
    """Return how many arms are good at a step in the last tenth of the run, of each run."""
    total, episodes = outcome.curves["reward"], outcome.episodes
    start = min(int(np.searchsorted(episodes, (1 - _LATE) * episodes[-1])), len(episodes) - 2)
    return np.asarray((total[:, -1] - total[:, start]) / (episodes[-1] - episodes[start]) / outcome.setting.horizon)


def _over_time(outcome: Outcome, never: Outcome, bound: FloatArray, seed: int) -> Band:
    """Return the benefit as a part of the bound over time, with its 95 % interval, in ever longer parts of a run."""
    episodes = outcome.episodes
    last = np.unique(np.searchsorted(episodes, np.geomspace(1, episodes[-1], _BINS).round()))
    total = outcome.curves["reward"][:, last] - never.curves["reward"][:, last]
    length = np.diff(episodes[last], prepend=0)
    benefit = np.diff(total, axis=1, prepend=0) / (length * outcome.setting.horizon)
    weight = weights(len(bound), seed)
    rows = ratio(weight @ benefit, (weight @ bound)[:, None])
    low, high = np.quantile(rows[1:] if len(rows) > 1 else rows, [0.025, 0.975], axis=0)
    middle = (episodes[last] - length / 2) * np.float64(outcome.setting.horizon)
    return Band(middle, rows[0], low, high)


def _analyse(results: Results, scale: Scale) -> Findings:
    common = [_common(scale, paper) for paper in (_KNOWN_EPISODES, _LEARNED_EPISODES)]
    found = {
        (dataset, size): {s: scale.outcome(results, dataset, size, _oracle(s), **common[0]) for s in SLACKS}
        for dataset, size in product(DATASETS, SIZES)
    }
    known = [_known(each, scale.seed) for each in found.values()]
    learned = [
        _learned({k: scale.outcome(results, of, _LEARNED, p, **common[1]) for k, p in _PLAYERS.items()}, scale.seed)
        for of in DATASETS
    ]
    accounts = {
        s: max(float(each[s].measures["largest_account"].max()) for each in found.values()) for s in SLACKS[1:-1]
    }
    accounts[SLACK] = max(accounts[SLACK], *(each.row["largest_account"] for each in learned))
    judged = [each for each in known if (each.place["n_arms"], each.place["budget"]) in _JUDGED]
    return compose(
        "over-time",
        scale,
        Numbers(tuple(known), tuple(learned)),
        specs=_specs,
        at_any_length=("accounts",),
        verdicts={
            **{
                f"part_{s:g}": every(above(of.part(s), bars[of.place["dataset"]]) for of in judged)
                for s, bars in _PARTS.items()
            },
            "grows": every(above(each.step(*pair), 0.0) for each in known for pair in _steps()),
            "learned": every(above(each.row["late_of_oracle"], _OF_ORACLE) for each in learned),
            "regret": every(below(each.row["regret_ratio"], _REGRET) for each in learned),
            "accounts": all(most <= slack + _ROUNDING for slack, most in accounts.items()),
        },
        tables={"over-time": [_row(each) for each in known], "over-time-learned": [each.row for each in learned]},
        slacks={slack: label(slack) for slack in SLACKS},
        slack=SLACK,
        judged=judged,
        sizes=_JUDGED,
        instances=_INSTANCES,
        parts=_PARTS,
        steps=_steps(),
        accounts=accounts,
        bars={"oracle": _OF_ORACLE, "regret": _REGRET},
        episodes={"known": common[0]["episodes"], "learned": common[1]["episodes"], "full": _LEARNED_EPISODES},
    )


def _steps() -> list[tuple[float, float]]:
    """Return each slack with the next, as far as benefit should grow."""
    return [pair for pair in pairwise(SLACKS) if pair[1] <= _GROWS_TO]


def _row(known: Known) -> Mapping[str, Any]:
    """Return a row of the table of known arms."""
    parts = {f"part_{slack:g}": known.part(slack) for slack in SLACKS[1:]}
    bound = ratio_interval(known.bound, known.lottery, known.seed)
    return {**known.place, "bound_of_lottery": bound, "of_lottery": known.of_lottery(SLACK), **parts}


def _draw(numbers: Numbers) -> Figure:
    with new_figure(7.4) as figure:
        top, bottom = figure.subplots(2, len(DATASETS), sharey="row")
        for axes, dataset in zip(top, DATASETS.values(), strict=True):
            sizes = _draw_slacks(axes, [each for each in numbers.known if each.place["dataset"] == dataset])
            axes.set_title(f"{dataset}, known arms", fontsize=9.5)
        for axes, each in zip(bottom, numbers.learned, strict=True):
            lines = [draw_band(axes, each.bands[name], **style) for name, style in _STYLES.items()]
            bound = axes.axhline(1, **_BOUND)
            axes.set_xscale("log")
            axes.set_title(f"{each.dataset}, learned, N = {_LEARNED[0]}", fontsize=9.5)
            label_steps(axes)
        for axes in (top[0], bottom[0]):
            axes.set_ylabel("benefit, relative to the bound")
        names = [f"known, slack {SLACK:g}", f"learned, slack {SLACK:g}", "learned, lottery", "bound"]
        add_legend(figure, [*sizes, *lines, bound], [*(f"N = {n}, K = {k}" for n, k in SIZES), *names], columns=5)
    return figure


def _draw_slacks(axes: Axes, known: Sequence[Known]) -> list[Any]:
    """Draw benefit against slack, a line for each size, the larger the darker; return the lines."""
    axes.axhline(1, **_BOUND)
    at, lines = np.arange(len(SLACKS)), []
    for each, shade, marker in zip(known, np.linspace(0.35, 1.0, len(known)), "osD^v", strict=True):
        found = [each.of_bound(slack) for slack in SLACKS]
        lines += axes.plot(at, [x.mean for x in found], marker=marker, markersize=4, color="#333333", alpha=shade)
    axes.set(xlabel="slack, in pulls")
    axes.set_xticks(at, [label(slack) for slack in SLACKS])
    return lines


OVER_TIME = Artefact("over-time", "Beyond the paper: fair over time", _specs, _analyse, _draw)
