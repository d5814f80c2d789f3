"""What several figures share: a curve with its band, axes in steps, a legend above all panels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from meritfair.simulation.plots import thousands

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from meritfair.core.arrays import FloatArray
    from meritfair.lab.tasks import Outcome

__all__ = ["COLORS", "Band", "add_legend", "band", "draw_band", "label_steps"]

# those of the style that everyone can tell apart, one for each role, the same in all figures
COLORS = {
    "merit-fair": "#0072B2",
    "optimal": "#009E73",
    "mean": "#D55E00",
    "pooled": "#CC79A7",
    "fawt-q": "#E69F00",
    "limit": "#000000",
}


@dataclass(frozen=True)
class Band:
    """A quantity added up over time: the mean over runs, and the middle 80 % of runs."""

    steps: FloatArray
    mean: FloatArray
    low: FloatArray
    high: FloatArray


def band(outcome: Outcome, curve: str = "fairness_regret") -> Band:
    """Return what a figure shows of a curve."""
    rows = outcome.curves[curve]
    low, high = np.quantile(rows, [0.1, 0.9], axis=0)
    steps = outcome.episodes * np.float64(outcome.setting.horizon)
    return Band(steps, np.asarray(rows.mean(axis=0)), low, high)


def draw_band(axes: Axes, shown: Band, color: str, **style: Any) -> Any:
    """Draw the mean as a line with the band around it; return the line."""
    (line,) = axes.plot(shown.steps, shown.mean, color=color, **style)
    axes.fill_between(shown.steps, shown.low, shown.high, color=color, alpha=0.18, linewidth=0)
    return line


def label_steps(axes: Axes) -> None:
    """Label the axis of steps in thousands and millions."""
    axes.set_xlabel("steps")
    axes.xaxis.set_major_formatter(thousands)


def add_legend(figure: Figure, lines: Sequence[Any], labels: Sequence[str], columns: int | None = None) -> None:
    """Put one legend above all panels, in one row by default."""
    figure.legend(lines, labels, loc="outside upper left", ncols=columns or len(labels))
