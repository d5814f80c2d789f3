"""What several figures share: colors, the curve of an outcome, axes in steps, a legend above all panels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from meritfair.core.figures import Band, thousands
from meritfair.lab.tasks import Outcome

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# those of the style that everyone can tell apart, one for each role, the same in all figures
COLORS = {
    "merit-fair": "#0072B2",
    "optimal": "#009E73",
    "mean": "#D55E00",
    "pooled": "#CC79A7",
    "fawt-q": "#E69F00",
    "limit": "#000000",
}


def band(outcome: Outcome, curve: str = "fairness_regret") -> Band:
    """Return what a figure shows of a curve."""
    return Band.of_runs(outcome.episodes * np.float64(outcome.setting.horizon), outcome.curves[curve])


def label_steps(axes: Axes) -> None:
    """Label the axis of steps in thousands and millions."""
    axes.set_xlabel("steps")
    axes.xaxis.set_major_formatter(thousands)


def add_legend(figure: Figure, lines: Sequence[Any], labels: Sequence[str], columns: int | None = None) -> None:
    """Put one legend above all panels, in one row by default."""
    figure.legend(lines, labels, loc="outside upper left", ncols=columns or len(labels))
