"""What the figures of programmes share: colours, names on an axis, and an axis of rounds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from meritfair.core.language import _
from meritfair.core.texts import for_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BLUE, ORANGE, GREY, PALE, GREEN = "#0072B2", "#D55E00", "#888888", "#BBBBBB", "#009E73"
_LONGEST = 24  # characters of a name on an axis


def short(name: str) -> str:
    """Return a name as an axis shows it.

    Examples
    --------
    >>> short("a group with a very long name indeed")
    'a group with a very lon…'
    """
    return for_figure(name if len(name) <= _LONGEST else name[: _LONGEST - 1] + "…")


def whole_rounds(axes: Axes) -> None:
    """Mark whole rounds alone on the axis."""
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def accounts_axis(axes: Axes, extent: float, slack: float | None) -> None:
    """Prepare the axis of accounts: around 0, with the slack if there is one."""
    axes.axhline(0, color="black", linewidth=1, linestyle=":")
    if slack:
        for bound in (slack, -slack):
            axes.axhline(bound, color="black", linewidth=1, linestyle="--")
    most = 1.15 * max(extent, slack or 0.0, 1e-3)
    axes.set(xlabel=_("round"), ylabel=_("← ahead · draws · owed →"), ylim=(-most, most))
    whole_rounds(axes)
