r"""A short programme: what each arm's record says of it, and what the records of all arms say together.

100 arms, 20 of which are pulled at each round; each is seen once a round, and states run on from round to round. With
so few observations, the estimate ``pooled`` of `MeritFair` learns classes of arms from all records, and takes for each
arm the posterior mean that its own record has under these classes. It is compared with the posterior mean of each arm
by itself, with the paper's estimate, and with pulling at random, which is what a policy does that knows nothing.

The part of the regret that pooling saves up to a round is 1 less the ratio of the two regrets, each a mean over the
same runs, with a 95 % bootstrap interval. Up to 2 % either way counts as nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from meritfair.core.arrays import FloatArray
from meritfair.core.figures import Band, draw_band, new_figure
from meritfair.lab.resampling import above, below, every
from meritfair.lab.tasks import Outcome
from meritfair.reproduction.artefact import DATASETS, Artefact, Findings, Results, Scale, Specs
from meritfair.reproduction.estimates import ESTIMATORS, Curves, draw_curves
from meritfair.reproduction.figures import COLORS, add_legend, band
from meritfair.reproduction.growth import between
from meritfair.reproduction.prose import Rows, compose
from meritfair.simulation.bootstrap import Interval, interval, interval_of, ratio, ratio_interval, weights

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_SIZE = (100, 20)
_ROUNDS = 50
_SAVED, _NOTHING = 0.45, 0.02
_BLIND = "random"
_POLICIES = {**{name: each.policy for name, each in ESTIMATORS.items()}, _BLIND: _BLIND}
_DASHES = dict(zip(DATASETS.values(), (":", "--", "-"), strict=True))


@dataclass(frozen=True, eq=False)
class Gain:
    """The part of the regret of the posterior mean that pooling saves, up to each round.

    ``saved`` has a row for the runs as they were played and one for each resample, shape (rows, rounds).
    """

    dataset: str
    rounds: FloatArray
    saved: FloatArray

    def after(self, rounds: int) -> Interval:
        """Return the part that is saved up to a round."""
        return interval_of(self.saved[:, _index(self.rounds, rounds)])


class Numbers(NamedTuple):
    """What the figure shows: curves of each data set, and what pooling saves."""

    curves: tuple[Curves, ...]
    gains: tuple[Gain, ...]


def _settings(scale: Scale) -> dict[str, Any]:
    """Return what a short programme has of its own."""
    return {"episodes": scale.episodes_of(4 * _ROUNDS), "horizon": 1, "carry_states": True}


def _specs(scale: Scale) -> Specs:
    policies = tuple(_POLICIES.values())
    return (scale.spec(datasets=tuple(DATASETS), sizes=(_SIZE,), policies=policies, **_settings(scale)),)


def _index(rounds: FloatArray, last: int) -> int:
    """Return the place of the last round that was kept up to this one."""
    return max(int(np.searchsorted(rounds, last, side="right")) - 1, 0)


def _regret(outcome: Outcome, rounds: int) -> FloatArray:
    """Return the regret of each run up to a round."""
    return outcome.curves["fairness_regret"][:, _index(outcome.episodes.astype(np.float64), rounds)]


def _gain(label: str, mean: Outcome, pooled: Outcome, seed: int) -> Gain:
    weight = weights(len(mean.runs), seed)
    less, more = (weight @ each.curves["fairness_regret"] for each in (pooled, mean))
    return Gain(label, mean.episodes.astype(np.float64), 1 - ratio(less, more))


def _analyse(results: Results, scale: Scale) -> Findings:
    settings = _settings(scale)
    found = {
        label: {name: scale.outcome(results, dataset, _SIZE, policy, **settings) for name, policy in _POLICIES.items()}
        for dataset, label in DATASETS.items()
    }
    gains = {label: _gain(label, of["mean"], of["pooled"], scale.seed) for label, of in found.items()}
    curves = tuple(Curves(label, {name: band(of[name]) for name in ESTIMATORS}) for label, of in found.items())
    early = {label: gain.after(_ROUNDS) for label, gain in gains.items()}
    regret = {name: _regret(each, _ROUNDS) for name, each in found["CPAP"].items()}
    versus = {name: ratio_interval(regret["optimistic"], regret[name], scale.seed) for name in ("mean", _BLIND)}
    return compose(
        "pooled",
        scale,
        Numbers(curves, tuple(gains.values())),
        specs=_specs,
        at_any_length=("cpap", "synthetic", "costs", "knows_nothing"),  # all of them about the first rounds alone
        verdicts={
            "cpap": above(early["CPAP"], _SAVED),
            "synthetic": between(early["Synthetic"], -_NOTHING, _NOTHING),
            "costs": every(above(each, -_NOTHING) for each in early.values()),
            "shrinks": _shrinks(gains["CPAP"]),
            "knows_nothing": every([below(versus["mean"], 1.0), between(versus[_BLIND], 1 - _NOTHING, 1 + _NOTHING)]),
        },
        tables={"pooled": _rows(found, tuple(gains.values()), scale.seed)},
        size=_SIZE,
        rounds=_ROUNDS,
        last=settings["episodes"],
        saved=_SAVED,
        nothing=_NOTHING,
        early=early,
        versus=versus,
    )


def _shrinks(gain: Gain) -> bool | None:
    """Return whether less is saved in the end, None if nothing was played after the first rounds."""
    change = interval_of(gain.saved[:, _index(gain.rounds, _ROUNDS)] - gain.saved[:, -1])
    return above(change, 0.0) if gain.rounds[-1] > _ROUNDS else None


def _rows(found: Mapping[str, Mapping[str, Outcome]], gains: Sequence[Gain], seed: int) -> Rows:
    """Return the regrets after the first rounds and at the end, and what pooling saves."""
    last = int(gains[0].rounds[-1])
    return [
        {"dataset": gain.dataset, "rounds": after}
        | {name: interval(_regret(found[gain.dataset][name], after), seed) for name in _POLICIES}
        | {"saved": gain.after(after)}
        for gain in gains
        for after in sorted({min(_ROUNDS, last), last})
    ]


def _draw(numbers: Numbers) -> Figure:
    with new_figure(7.2) as figure:
        (first, second), (third, last) = figure.subplots(2, 2)
        for axes, curves in zip((first, second, third), numbers.curves, strict=True):
            lines = draw_curves(axes, curves)
            axes.set(xlabel="rounds", ylabel="regret, added up over rounds", xlim=(0, None), ylim=(0, None))
        add_legend(figure, lines, [ESTIMATORS[name].label for name in numbers.curves[0].bands])
        _draw_gains(last, numbers.gains)
    return figure


def _draw_gains(axes: Axes, gains: Sequence[Gain]) -> None:
    """Draw what pooling saves on each data set, with its interval."""
    color = COLORS["pooled"]
    axes.axhline(0, color="#CCCCCC", linewidth=1)
    axes.axvline(_ROUNDS, color="#999999", linewidth=1)
    for gain in gains:
        rows = 100 * gain.saved
        low, high = np.quantile(rows[1:] if len(rows) > 1 else rows, [0.025, 0.975], axis=0)
        style: dict[str, Any] = {"linestyle": _DASHES[gain.dataset], "linewidth": 2.2, "label": gain.dataset}
        draw_band(axes, Band(gain.rounds, rows[0], low, high), color, **style)
    axes.set_title("Saved by pooling", fontsize=10)
    axes.set(xlabel="rounds", ylabel="% of the regret of the posterior mean", xlim=(0, None))
    axes.legend(loc="center right")


POOLED = Artefact("pooled", "Beyond the paper: learning about each arm from all arms", _specs, _analyse, _draw)
