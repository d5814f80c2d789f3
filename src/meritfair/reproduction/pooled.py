r"""A short programme: what each arm's record says of it, and what the records of all arms say together.

100 arms, 20 of which are pulled at each round; each is seen once a round, and states run on from round to round. With
so few observations, the estimate ``pooled`` of `MeritFair` learns classes of arms from all records, and believes of
each arm the posterior mean that its own record has under these classes. It is held against the posterior mean of each
arm by itself, against the paper's estimate, and against pulling at random, which is what a policy does that knows
nothing.

The part of the regret that pooling saves up to a round is 1 less the ratio of the two regrets, each a mean over the
same runs, with a 95 % bootstrap interval. Up to 2 % either way counts as nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from meritfair.core.figures import new_figure
from meritfair.core.texts import several
from meritfair.lab.resampling import (
    above,
    below,
    every,
    interval_columns,
    interval_of,
    percent,
    ratio,
    shown,
    weights,
)
from meritfair.reproduction.artefact import DATASETS, Artefact, Findings, PaperTable, Verdict
from meritfair.reproduction.estimates import BELIEFS, WHERE, Curves, draw_curves
from meritfair.reproduction.figures import BAND, COLORS, band
from meritfair.reproduction.panels import add_legend, add_remark
from meritfair.simulation.metrics import Interval, interval, ratio_interval

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from meritfair.core.arrays import FloatArray
    from meritfair.lab.spec import Spec
    from meritfair.lab.tasks import Outcome
    from meritfair.reproduction.artefact import Results, Scale

__all__ = ["POOLED", "Gain", "Numbers"]

_SIZE = (100, 20)
_ROUNDS = 50
_SAVED, _NOTHING = 0.45, 0.02
_BLIND = "random"
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


@dataclass(frozen=True)
class Numbers:
    """What the figure shows: curves of each data set, and what pooling saves."""

    curves: tuple[Curves, ...]
    gains: tuple[Gain, ...]
    remark: str


def _specs(scale: Scale) -> tuple[Spec, ...]:
    return (
        scale.spec(
            datasets=tuple(DATASETS),
            sizes=(_SIZE,),
            policies=(*(each.policy for each in BELIEFS.values()), _BLIND),
            episodes=scale.episodes_of(4 * _ROUNDS),
            horizon=1,
            carry_states=True,
        ),
    )


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
    (spec,) = _specs(scale)
    found: dict[str, dict[str, Outcome]] = {label: {} for label in DATASETS.values()}
    names = {each.policy: name for name, each in BELIEFS.items()}
    for setting in spec.settings():
        found[DATASETS[setting.dataset]][names.get(setting.policy, _BLIND)] = results[setting]
    gains = {label: _gain(label, of["mean"], of["pooled"], scale.seed) for label, of in found.items()}
    curves = tuple(Curves(label, {name: band(of[name]) for name in BELIEFS}) for label, of in found.items())
    remark = (
        f"{_SIZE[0]} arms, {_SIZE[1]} pulled at each round, the authors' instances · {spec.episodes} rounds, states "
        f"run on · {several(spec.runs, 'run')} · merit exp(3 · benefit) · seed {spec.seed}.\n"
        f"{BAND} Last panel: 95 % intervals; grey line: {_ROUNDS} rounds."
    )
    return Findings(
        Numbers(curves, tuple(gains.values()), remark),
        "Fairness regret added up over rounds, for each data set, and the part of the regret of the posterior mean "
        f"that pooling saves up to each round. {BAND} In the last panel bands are 95 % bootstrap intervals, and the "
        f"grey line is at {_ROUNDS} rounds. CPAP has two kinds of patients, so what is seen of one says much of the "
        "others; on Synthetic every arm is drawn by itself.",
        (_table(found, tuple(gains.values()), scale.seed),),
        (*_verdicts(gains), _shrinks(gains["CPAP"]), _knows_nothing(found["CPAP"], scale.seed)),
        f"After {_ROUNDS} rounds on CPAP, learning of each arm from all saves "
        f"{percent(gains['CPAP'].after(_ROUNDS).mean)} of the fairness regret.",
    )


def _percent(value: Interval, digits: int) -> str:
    return shown(Interval(*(100 * each for each in value)), digits) + " %"


def _verdicts(gains: Mapping[str, Gain]) -> tuple[Verdict, ...]:
    early = {label: gain.after(_ROUNDS) for label, gain in gains.items()}
    synthetic, each = early["Synthetic"], (f"{label} {_percent(found, 1)}" for label, found in early.items())
    return (
        Verdict(
            f"On CPAP, pooling saves at least {percent(_SAVED)} of the regret of the mean in {_ROUNDS} rounds.",
            WHERE,
            above(early["CPAP"], _SAVED),
            f"It saves {_percent(early['CPAP'], 0)}.",
        ),
        Verdict(
            "On Synthetic, where arms have nothing in common, pooling saves nothing.",
            WHERE,
            every([above(synthetic, -_NOTHING), below(synthetic, _NOTHING)]),
            f"It saves {_percent(synthetic, 1)} of the regret of the mean in {_ROUNDS} rounds.",
        ),
        Verdict(
            "Pooling costs nothing, on any data set.",
            WHERE,
            every(above(found, -_NOTHING) for found in early.values()),
            f"It saves in {_ROUNDS} rounds: {'; '.join(each)}.",
        ),
    )


def _shrinks(gain: Gain) -> Verdict:
    last = int(gain.rounds[-1])
    change = interval_of(gain.saved[:, _index(gain.rounds, _ROUNDS)] - gain.saved[:, -1])
    found = f"It saves {_percent(gain.after(_ROUNDS), 0)} in {_ROUNDS} rounds"
    more = f"{_percent(gain.after(last), 0)} in {last}" if last > _ROUNDS else "no more were played"
    return Verdict(
        "On CPAP, what pooling saves shrinks as each arm speaks for itself.",
        WHERE,
        above(change, 0.0) if last > _ROUNDS else None,
        f"{found}; {more}.",
    )


def _knows_nothing(found: Mapping[str, Outcome], seed: int) -> Verdict:
    upper, middle, blind = (_regret(found[name], _ROUNDS) for name in ("optimistic", "mean", _BLIND))
    to_mean, to_blind = ratio_interval(upper, middle, seed), ratio_interval(upper, blind, seed)
    return Verdict(
        "On CPAP, the paper's estimate looks better than the mean at first only because it knows nothing.",
        WHERE,
        every([below(to_mean, 1.0), above(to_blind, 1 - _NOTHING), below(to_blind, 1 + _NOTHING)]),
        f"In {_ROUNDS} rounds it has {shown(to_mean)} times the regret of the mean, and {shown(to_blind)} times that "
        "of pulling at random.",
    )


def _table(found: Mapping[str, Mapping[str, Outcome]], gains: Sequence[Gain], seed: int) -> PaperTable:
    last = int(gains[0].rounds[-1])
    rows = [(gain, after) for gain in gains for after in sorted({min(_ROUNDS, last), last})]
    measured = {
        name: [interval(_regret(found[gain.dataset][name], after), seed) for gain, after in rows]
        for name in (*BELIEFS, _BLIND)
    }
    saved = [gain.after(after) for gain, after in rows]
    cells = [
        [gain.dataset, str(after), *(shown(column[i], 1) for column in measured.values()), _percent(saved[i], 1)]
        for i, (gain, after) in enumerate(rows)
    ]
    columns: dict[str, Sequence[Any]] = {"dataset": [g.dataset for g, _ in rows], "rounds": [r for _, r in rows]}
    for name, column in {**measured, "saved": saved}.items():
        columns |= interval_columns(name, column)
    headings = ["data set", "rounds", *measured, "saved by pooling"]
    return PaperTable("pooled", "Fairness regret of a short programme, with 95 % intervals", headings, cells, columns)


def _draw(numbers: Numbers) -> Figure:
    with new_figure(7.2) as figure:
        (first, second), (third, last) = figure.subplots(2, 2)
        for axes, curves in zip((first, second, third), numbers.curves, strict=True):
            lines = draw_curves(axes, curves)
            axes.set(xlabel="rounds", ylabel="regret, added up over rounds", xlim=(0, None), ylim=(0, None))
        add_legend(figure, lines, [BELIEFS[name].label for name in numbers.curves[0].bands])
        _draw_gains(last, numbers.gains)
        add_remark(figure, numbers.remark)
    return figure


def _draw_gains(axes: Axes, gains: Sequence[Gain]) -> None:
    """Draw what pooling saves on each data set, with its interval."""
    color = COLORS["pooled"]
    axes.axhline(0, color="#CCCCCC", linewidth=1)
    axes.axvline(_ROUNDS, color="#999999", linewidth=1)
    for gain in gains:
        rows = 100 * gain.saved
        axes.plot(gain.rounds, rows[0], color=color, linestyle=_DASHES[gain.dataset], linewidth=2.2, label=gain.dataset)
        if len(rows) > 1:
            low, high = np.quantile(rows[1:], [0.025, 0.975], axis=0)
            axes.fill_between(gain.rounds, low, high, color=color, alpha=0.18, linewidth=0)
    axes.set_title("Saved by pooling", fontsize=10)
    axes.set(xlabel="rounds", ylabel="% of the regret of the posterior mean", xlim=(0, None))
    axes.legend(loc="center right")


POOLED = Artefact(
    name="pooled",
    title="Ours: learning of each arm from all arms",
    about=(
        "A programme with people is short: 100 of them, 20 calls a round, and after 50 rounds each was called about "
        "ten times. If people are of a few kinds, what is seen of some says much of the others. The pooled estimate "
        "learns the kinds from all arms, and believes of each arm what its kind and its own record say together."
    ),
    specs=_specs,
    analyse=_analyse,
    draw=_draw,
)
