"""What several figures of the lab share: a curve with its band, and axes in steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from meritfair.core.figures import Band, thousands

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from meritfair.lab.tasks import Outcome

__all__ = ["BAND", "COLORS", "band", "label_steps"]

BAND = "Lines: means of the runs; bands: the middle 80 % of them."
# those of the style that can be told apart by everyone, one for each role, the same in all figures
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
