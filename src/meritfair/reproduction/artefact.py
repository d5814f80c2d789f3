"""What every figure and table of the reproduction is made of: specs, a pure analysis, a drawing, a template of words.

`Artefact.specs` says what has to be played. `Artefact.analyse` turns the outcomes into `Findings`: numbers, tables, and
a verdict for each claim of the paper, all computed; its words are in a template (:mod:`meritfair.reproduction.prose`).
`Artefact.draw` draws the numbers and decides nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from meritfair.core.texts import several
from meritfair.lab.spec import Setting, Spec
from meritfair.lab.tasks import Outcome

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# the authors' instances; for CPAP those that their Table 1 fits
DATASETS = {"synthetic": "Synthetic", "synthetic-alternate": "Synthetic-alternate", "cpap:reseed=false": "CPAP"}
SIZES = ((5, 1), (10, 2), (20, 4), (40, 8), (100, 20))

Results: TypeAlias = Mapping[Setting, Outcome]
Specs: TypeAlias = tuple[Spec, ...]


@dataclass(frozen=True)
class Scale:
    """How much is played: the paper's T = 10,000 episodes and 30 runs, or less for a quick look."""

    episodes: int = 10_000
    runs: int = 30
    seed: int = 0
    quick: bool = False

    @property
    def note(self) -> str:
        """What a whole report has to say of it, empty at full scale; `Artefact.note` is about one part."""
        runs = f"{several(self.runs, 'run')} instead of {Scale.runs}"
        return f"Quick look: {runs}, and shorter ones; each part says how long" if self.quick else ""

    def answer(self, holds: bool | None) -> bool | None:
        """Return an answer about long runs; a quick look can speak for them, but not against.

        Examples
        --------
        >>> Scale().answer(False), Scale(quick=True).answer(False), Scale(quick=True).answer(True)
        (False, None, True)
        """
        return None if self.quick and holds is False else holds

    def episodes_of(self, paper: int) -> int:
        """Return how many episodes to play where the paper has another number, in proportion, but 50 at least."""
        return max(min(paper, 50), paper * self.episodes // 10_000)

    def spec(self, **settings: Any) -> Spec:
        """Return a spec on the authors' instances at this scale; what is given comes first."""
        same = {"episodes": self.episodes, "runs": self.runs, "seed": self.seed, "authors": True}
        return Spec(**{**same, **settings})

    def outcome(
        self, results: Results, dataset: str, size: tuple[int, int], policy: str = "merit-fair", c: int = 3, **more: Any
    ) -> Outcome:
        """Return the outcome of a policy on a data set of the paper, with merit exp(c · benefit)."""
        merits = (f"exponential:c={c}",)
        spec = self.spec(datasets=(dataset,), sizes=(size,), policies=(policy,), merits=merits, **more)
        (setting,) = spec.settings()
        return results[setting]


@dataclass(frozen=True)
class Length:
    """How many runs of how many episodes something is made of, here and in the full version.

    Examples
    --------
    >>> def specs(scale):
    ...     return (scale.spec(datasets="cpap", sizes=(5, 1), policies="none", episodes=scale.episodes_of(1000)),)
    >>> Length.of(specs, Scale(episodes=1000, runs=10, quick=True)).note
    'Quick look: 10 runs of 100 episodes; the full version has 30 of 1,000'
    """

    runs: int
    episodes: tuple[int, ...]
    full_runs: int
    full_episodes: tuple[int, ...]
    quick: bool

    @classmethod
    def of(cls, specs: Callable[[Scale], Specs], scale: Scale) -> Length:
        """Return the length of what has these specs."""
        here, full = specs(scale), specs(Scale())
        return cls(here[0].runs, _episodes(here), full[0].runs, _episodes(full), scale.quick)

    @property
    def here(self) -> str:
        """How many episodes, in words."""
        return _in_words(self.episodes)

    @property
    def full(self) -> str:
        """How many episodes the full version has, in words."""
        return _in_words(self.full_episodes)

    @property
    def note(self) -> str:
        """What a quick look has to say of it, empty at full scale."""
        more = f"the full version has {self.full_runs} of {self.full}"
        return f"Quick look: {several(self.runs, 'run')} of {self.here} episodes; {more}" if self.quick else ""


def _episodes(specs: Specs) -> tuple[int, ...]:
    return tuple(sorted({spec.episodes for spec in specs}))


def _in_words(numbers: tuple[int, ...]) -> str:
    return " and ".join(f"{each:,}" for each in numbers)


@dataclass(frozen=True)
class Verdict:
    """Whether a claim of the paper holds in what was played.

    Attributes
    ----------
    claim : str
        What the paper says, in our words, one sentence.
    where : str
        Where it says so: "Section 6.3, Figure 2".
    holds : bool or None
        None if the data cannot decide, as when an interval lies on both sides.
    found : str
        The numbers behind it, with intervals.
    rule : str
        What the numbers have to be for the claim to hold, with every bar, and where the bar comes from.
    """

    claim: str
    where: str
    holds: bool | None
    found: str
    rule: str = ""


@dataclass(frozen=True)
class PaperTable:
    """A table: text for people, and the same in full precision for files.

    Attributes
    ----------
    name : str
        The name of its files, without suffix.
    title : str
    headings : sequence of str
    cells : sequence of rows of str
    columns : dict of str to list
        For .csv: numbers as numbers.
    """

    name: str
    title: str
    headings: Sequence[str]
    cells: Sequence[Sequence[str]]
    columns: Mapping[str, Sequence[Any]]


@dataclass(frozen=True)
class Findings:
    """What an artefact says; made by `prose.compose`.

    Attributes
    ----------
    numbers : Any
        What is drawn.
    about : str
        For a newcomer: what is asked here, and what was done. A short paragraph of plain text.
    caption : str
        What the figure shows, which band or bar means what, and how to read it.
    remark : str
        What stands below the figure itself: the settings, in a line or two.
    tables : tuple of PaperTable
    verdicts : tuple of Verdict
    headline : str
        The one number to remember, in a sentence; empty if it has none.
    """

    numbers: Any
    about: str = ""
    caption: str = ""
    remark: str = ""
    tables: tuple[PaperTable, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    headline: str = ""


@dataclass(frozen=True)
class Artefact:
    """A figure or table of the reproduction.

    Attributes
    ----------
    name : str
        The name of its files and of its place in the report: "figure-2".
    title : str
        "Figure 2: regret on Synthetic".
    specs : callable
        From the scale to what has to be played.
    analyse : callable
        From the outcomes of all settings of the specs, and the scale, to findings. Pure.
    draw : callable
        From the numbers to a figure, in the style of all figures.
    """

    name: str
    title: str
    specs: Callable[[Scale], Specs]
    analyse: Callable[[Results, Scale], Findings]
    draw: Callable[[Any], Figure]

    def note(self, scale: Scale) -> str:
        """Return what has to be said of how long its runs are, empty at full scale."""
        return Length.of(self.specs, scale).note
