"""What all figures share: their style and size, panels with a caption, and a curve with its band.

Needs the extra ``plots``; Matplotlib is imported when the first figure is drawn.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np

from meritfair.core.arrays import FloatArray, IntArray
from meritfair.core.checks import float_array
from meritfair.core.errors import InputError, MissingExtraError
from meritfair.core.texts import for_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOST_POINTS = 1000  # more than a figure can show
_WIDTH = 10.0  # of a figure of two panels, in inches
_NUMBERS = {2: "two", 3: "three"}


@dataclass(frozen=True)
class Band:
    """A curve over time: the mean over runs, and the middle 80 % of runs."""

    steps: FloatArray
    mean: FloatArray
    low: FloatArray
    high: FloatArray

    @classmethod
    def of_runs(cls, steps: FloatArray, values: FloatArray) -> Band:
        """Return the band of values that have a row for each run."""
        low, high = np.quantile(values, [0.1, 0.9], axis=0)
        return cls(steps, np.asarray(values.mean(axis=0)), low, high)


def draw_band(axes: Axes, shown: Band, color: str | None = None, **style: Any) -> Any:
    """Draw the mean as a line with the band around it; return the line."""
    (line,) = axes.plot(shown.steps, shown.mean, color=color, **style)
    axes.fill_between(shown.steps, shown.low, shown.high, color=line.get_color(), alpha=0.18, linewidth=0)
    return line


def evenly(length: int) -> IntArray:
    """Return the places of a curve that are drawn: all, or as many as a figure can show."""
    return np.unique(np.linspace(0, length - 1, min(length, _MOST_POINTS)).round().astype(np.int64))


def thousands(value: float, _: Any) -> str:
    """Return a number of steps as a label of an axis: 500, 20k, 2M."""
    if value >= 1e6:
        return f"{value / 1e6:g}M"
    return f"{value / 1e3:g}k" if value >= 1e3 else f"{value:g}"


def house_style() -> AbstractContextManager[None]:
    """Return the context in which figures are drawn and saved in the style of all of them."""
    try:
        import matplotlib.style
    except ImportError:
        raise MissingExtraError("drawing figures", "plots") from None
    return matplotlib.style.context(str(files("meritfair.core") / "meritfair.mplstyle"))


@contextmanager
def new_figure(height: float, figsize: tuple[float, float] | None = None, *, width: float = _WIDTH) -> Iterator[Figure]:
    """Give a figure of this height, or of the size that a caller asks for, while the style is in force."""
    sizes = float_array("figsize", (width, height) if figsize is None else figsize)
    if sizes.shape != (2,) or not (sizes > 0).all() or not np.isfinite(sizes).all():
        raise InputError(f"figsize must be a width and a height above 0, in inches, got {figsize!r}")
    with house_style():
        from meritfair.core.notebook_figure import Figure

        yield Figure(figsize=tuple(sizes), layout="constrained")


@contextmanager
def two_panels(
    caption: str,
    height: float,
    ax: Sequence[Axes] | None,
    figsize: tuple[float, float] | None,
    *,
    sharey: bool = False,
) -> Iterator[tuple[Figure, Axes, Axes]]:
    """Give a figure and two axes of it, as `panels` does."""
    with panels(2, caption, height, ax, figsize, sharey=sharey) as (figure, (left, right)):
        yield figure, left, right


@contextmanager
def panels(
    number: int,
    caption: str,
    height: float,
    ax: Sequence[Axes] | None,
    figsize: tuple[float, float] | None,
    *,
    sharey: bool = False,
) -> Iterator[tuple[Figure, list[Axes]]]:
    """Give a figure and some axes of it: those of the caller in their own style, or new ones with a caption below.

    With `sharey` the first two have the same vertical axis.
    """
    if ax is not None:
        given = _axes_given(ax, figsize, number)
        yield given[0].figure.figure, given  # the whole figure, also of axes in a part of it
        return
    with _with_caption(caption, height, figsize, width=_WIDTH * number / 2) as figure:
        made = list(figure.subplots(1, number))
        if sharey:
            made[1].sharey(made[0])
            made[1].tick_params(labelleft=False)
        yield figure, made


@contextmanager
def two_panels_and_one_below(
    caption: str, heights: tuple[float, float], ax: Sequence[Axes] | None, figsize: tuple[float, float] | None
) -> Iterator[tuple[Figure, Axes, Axes, Axes]]:
    """Give a figure and three axes of it, as `panels` does; new ones are two side by side and one below both."""
    if ax is not None:
        left, right, below = _axes_given(ax, figsize, 3)
        yield left.figure.figure, left, right, below
        return
    with _with_caption(caption, sum(heights), figsize) as figure:
        grid = figure.add_gridspec(2, 2, height_ratios=heights)
        left, right, below = (figure.add_subplot(part) for part in (grid[0, 0], grid[0, 1], grid[1, :]))
        yield figure, left, right, below


@contextmanager
def _with_caption(
    caption: str, height: float, figsize: tuple[float, float] | None, *, width: float = _WIDTH
) -> Iterator[Figure]:
    with new_figure(height, figsize, width=width) as figure:
        lines = "\n".join(map(for_figure, caption.split("\n")))
        figure.supxlabel(lines, fontsize=8.5, color="#444444", x=0.01, ha="left")
        yield figure


def _axes_given(ax: Any, figsize: tuple[float, float] | None, number: int) -> list[Any]:
    """Return the axes that a caller gives, in an array or a sequence."""
    from matplotlib.axes import Axes

    axes: list[Any] = np.ravel(np.asarray(ax, dtype=object)).tolist()
    all_axes = all(isinstance(each, Axes) for each in axes)
    if not all_axes or len(axes) != number:
        found = f"{len(axes)} Axes" if all_axes else repr(ax)
        raise InputError(f"ax must be {_NUMBERS[number]} Axes, as of plt.subplots(1, {number}), got {found}")
    if figsize is not None:
        raise InputError(f"figsize is for a new figure, and ax has one already, got {figsize!r}")
    return axes
