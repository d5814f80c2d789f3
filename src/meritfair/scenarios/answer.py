"""What would have come of it: for each policy and budget the expected share in the good state, and how fair it is."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from meritfair.core.arrays import FloatArray
from meritfair.core.checks import check_known
from meritfair.core.storage import check_suffix
from meritfair.core.tables import SUFFIXES as NUMBERS
from meritfair.core.tables import TEXT_SUFFIXES, data_frame, write_table, write_text_table
from meritfair.core.texts import several
from meritfair.model.logit_normal import split_r_hat
from meritfair.scenarios.assumptions import Assumption
from meritfair.scenarios.checking import Check
from meritfair.scenarios.playing import expected
from meritfair.simulation.bootstrap import Interval, interval_row

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SUFFIXES = (*NUMBERS, *TEXT_SUFFIXES)
VARIED = ("floor", "slack", "merit")
MOST_R_HAT = 1.2
_NOTHING = Interval(math.nan, math.nan, math.nan)


@dataclass(frozen=True, eq=False)
class Outlook:
    """What one policy with one budget would do, or what was logged.

    Attributes
    ----------
    name : str
        All that tells it from others.
    policy : str
        Its label, without what varies.
    budget : float
        Arms pulled in a round in the mean.
    varied : dict of str to str
        Settings that vary: floor, slack, merit.
    share : Interval
        Expected share of arms in the good state over the rounds ahead.
    difference : Interval
        The same less that of the policy that others are held against, by the same draws of the chains.
    gain_per_pull : Interval
        Good rounds that a pull adds, compared with nobody pulled.
    misplaced : float
        The part of its pulls that would have to go to other arms to be as merit says, by the estimated chains.
    smallest_exposure : float
        The mean exposure of the arm that has the least.
    longest_wait : float
        Most rounds in a row without a pull of any arm, in the mean over draws.
    check : Check
        What the log itself says of it.
    answered : bool
        Whether there is an answer: if the log cannot answer for it or contradicts the chains, and these alone were not
        asked, there is none.
    draws, again : ndarray
        The share of each draw, and of some played once more.
    """

    name: str
    policy: str
    budget: float
    varied: dict[str, str]
    share: Interval
    difference: Interval
    gain_per_pull: Interval
    misplaced: float
    smallest_exposure: float
    longest_wait: float
    check: Check
    answered: bool
    draws: FloatArray
    again: FloatArray

    @property
    def verdict(self) -> str:
        """``agrees``; ``disagrees``, if the log contradicts the chains; ``refused``; or ``model alone``."""
        return "model alone" if self.check.refusal and self.answered else self.check.verdict

    def row(self) -> dict[str, Any]:
        """Return it as a row of a table."""
        shown = {"share": self.share, "difference": self.difference, "gain_per_pull": self.gain_per_pull}
        intervals = interval_row(shown if self.answered else dict.fromkeys(shown, _NOTHING))
        check = self.check
        return {
            "policy": self.policy,
            "budget": self.budget,
            **{name: self.varied.get(name, "") for name in VARIED},
            **intervals,
            "misplaced": self.misplaced,
            "smallest_exposure": self.smallest_exposure,
            "longest_wait": self.longest_wait,
            "verdict": self.verdict,
            "refusal": check.refusal,
            "windows": check.windows,
            "effective_windows": check.effective,
            "effective_pulls": check.effective_pulls,
            "uncovered": check.uncovered,
            "window_model": check.model,
            "window_ips": check.ips,
            "window_ips_error": check.ips_error,
            "window_snips": check.snips,
            "window_snips_error": check.snips_error,
            "window_robust": check.robust,
            "window_robust_error": check.robust_error,
        }


@dataclass(frozen=True, eq=False)
class WhatIf:
    """What policies would do in the rounds after a log; made by `whatif`.

    Attributes
    ----------
    outlooks : tuple of Outlook
        One for what was logged, then one for each policy and budget that was asked for.
    against : str
        The name of the one that others are held against.
    n_arms, left : int
        How many arms are there, and how many of the log have left.
    assumptions : tuple of Assumption
        What the log says of the assumption that arms are chains.
    settings : dict
        All settings, the seed and the versions, as plain values.
    """

    outlooks: tuple[Outlook, ...]
    against: str
    n_arms: int
    left: int
    assumptions: tuple[Assumption, ...]
    settings: dict[str, Any]

    @property
    def logged(self) -> Outlook:
        """What would come of doing as the log did."""
        return self.outlooks[0]

    @property
    def asked(self) -> tuple[Outlook, ...]:
        """What was asked for."""
        return self.outlooks[1:]

    @property
    def rounds(self) -> int:
        """How many rounds ahead there are."""
        return int(self.settings["rounds"])

    @property
    def refused(self) -> bool:
        """Whether there is no answer to anything that was asked."""
        return not any(each.answered for each in self.asked)

    @property
    def r_hat(self) -> float:
        """Split R-hat of the shares and differences: about 1 if there are enough draws (`MOST_R_HAT`)."""
        base = self[self.against].draws
        of_shares = [split_r_hat(each.draws) for each in self.outlooks]
        return max([*of_shares, *(split_r_hat(each.draws - base) for each in self.outlooks)])

    def __getitem__(self, name: str) -> Outlook:
        found = {each.name: each for each in self.outlooks}
        return found[check_known("scenario", name, found)]

    def difference(self, one: str, other: str) -> Interval:
        """Return the expected share of one scenario less that of another, by the same draws; with a 95 % interval."""
        return difference(self[one], self[other])

    @property
    def description(self) -> str:
        """What was asked, in one line."""
        s = self.settings
        gone = f", {self.left:,} left before" * (self.left > 0)
        return (
            f"{several(self.n_arms, 'arm')}{gone} · the next {several(self.rounds, 'round')} · "
            f"{several(s['draws'], 'draw')} of chains, estimate {s['estimate']} · merit {s['merit']} · seed {s['seed']}"
        )

    def __repr__(self) -> str:
        return f"WhatIf({several(len(self.asked), 'scenario')}: {self.description})"

    def rows(self) -> list[dict[str, Any]]:
        """Return the `table` as rows of plain values."""
        return [each.row() for each in self.outlooks]

    def table(self) -> pd.DataFrame:
        """Return a DataFrame with a row for what was logged and for each scenario; needs the extra ``lab``.

        An interval is ``name``, ``name_low`` and ``name_high``. What the log cannot answer is NaN.
        """
        return data_frame(self.rows())

    def save(self, path: str | PathLike[str]) -> None:
        """Write the table to a file, which replaces an old one once it is complete.

        A .csv or .parquet file has all numbers in full precision, a .md (Markdown) or .tex (LaTeX) file what people
        look at, rounded. All but .csv also hold the settings.
        """
        from meritfair.scenarios.wording import cells, headings

        file, about = Path(path), json.dumps(self.settings, sort_keys=True)
        if check_suffix(file, "scenarios", SUFFIXES) in NUMBERS:
            rows = self.rows()
            write_table(
                file, "scenarios", {name: [row[name] for row in rows] for name in rows[0]}, {"meritfair": about}
            )
        else:
            write_text_table(file, headings(self), cells(self), about=about, note=self.description)

    def plot(self, *, ax: Sequence[Axes] | None = None, figsize: tuple[float, float] | None = None) -> Figure:
        """Draw the expected share and fairness by budget, slack or floor, whichever varies, or by scenario.

        It needs the extra ``plots``. It is drawn into two Axes that are given, or on a new figure.
        """
        from meritfair.scenarios.figure import plot_whatif

        return plot_whatif(self, ax=ax, figsize=figsize)

    def write_html(self, path: str | PathLike[str]) -> None:
        """Write all of it to one .html file that needs nothing beside it; needs the extras ``lab`` and ``plots``."""
        from meritfair.core.pages import write_page
        from meritfair.scenarios.page import page_of

        write_page(page_of(self), path)


def difference(one: Outlook, other: Outlook) -> Interval:
    """Return the expected share of one less that of another, draw by draw."""
    if one is other:
        return Interval(0.0, 0.0, 0.0)
    both = min(len(one.again), len(other.again))
    return expected(one.draws - other.draws, one.again[:both] - other.again[:both])
