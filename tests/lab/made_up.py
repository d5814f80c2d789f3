"""Artefacts that are quick to play, for tests of what is made of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from meritfair.core.figures import Band, draw_band, new_figure
from meritfair.lab.spec import Spec
from meritfair.reproduction.artefact import Artefact, Findings, PaperTable, Results, Scale, Verdict
from meritfair.reproduction.figures import band

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TINY = Scale(episodes=4, runs=3, quick=True)


@dataclass(frozen=True)
class Numbers:
    shown: Band


def specs(scale: Scale, policy: str = "merit-fair") -> tuple[Spec, ...]:
    return (scale.spec(datasets=("synthetic",), sizes=((5, 1),), policies=(policy,), horizon=20),)


def analyse(results: Results, scale: Scale) -> Findings:
    (outcome,) = results.values()
    mean = float(outcome.measures["fairness_regret"].mean())
    table = PaperTable("plain-regret", "Regret", ["policy", "regret"], [["a_b", f"{mean:.2f}"]], {"regret": [mean]})
    verdict = Verdict("There is regret.", "Section 0", mean > 0, f"{mean:.2f} after {scale.episodes} episodes")
    return Findings(
        Numbers(band(outcome)),
        about="What is asked.",
        caption="Regret.",
        remark="A remark.",
        tables=(table,),
        verdicts=(verdict,),
        headline=f"Regret is {mean:.2f}.",
    )


def draw(numbers: Numbers) -> Figure:
    with new_figure(3.0) as figure:
        axes = figure.subplots()
        line = draw_band(axes, numbers.shown, "#0072B2")
        axes.set(title="Regret", xlabel="steps", ylabel="regret")
        figure.legend([line], ["merit-fair"], loc="outside upper left")
    return figure


def stumble(results: Results, scale: Scale) -> Findings:
    raise ZeroDivisionError("nothing to divide by")


PLAIN = Artefact("plain", "Plain: regret", specs, analyse, draw)
# the windows of fawt-q cannot be kept with that few pulls, which shows only when it is played
FAILING = replace(PLAIN, name="failing", title="Failing", specs=lambda scale: specs(scale, "fawt-q:window=5"))
STUMBLING = replace(PLAIN, name="stumbling", title="Stumbling", analyse=stumble)
