"""What a sweep has found: a row for each setting, as a table for people or for files; or every run, as a DataFrame.

Results are read from the folder alone. A sweep that is not finished gives what there is of it and says what is missing:
runs do not depend on each other, so those that are there are a fair sample.
"""

from __future__ import annotations

import dataclasses
import json
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from meritfair.core.checks import check_choice
from meritfair.core.errors import FileError
from meritfair.core.storage import check_suffix
from meritfair.core.tables import SUFFIXES as NUMBERS
from meritfair.core.tables import TEXT_SUFFIXES, data_frame, write_table, write_text_table
from meritfair.core.texts import several
from meritfair.lab.spec import Setting
from meritfair.lab.store import DamagedShardError, Manifest, Store
from meritfair.lab.tasks import CURVES, Outcome, Task, by_setting
from meritfair.model.observation import observed_text
from meritfair.model.rules import budget_text
from meritfair.simulation.bootstrap import Interval, interval_row, intervals
from meritfair.simulation.columns import ACCOUNTS, BOUND_MEANING, chosen, column_of, has_bounds, marked

if TYPE_CHECKING:
    import pandas as pd

SUFFIXES = (*NUMBERS, *TEXT_SUFFIXES)
# what people are shown of the measures, the rest is in files of numbers
SHOWN = (
    "fairness_regret",
    "exposure_regret",
    "good_state",
    "gini",
    "smallest_exposure",
    "longest_wait",
    "first_valid_episode",
    "coverage_gap",
)

_NOT_SHOWN = ("own_arms", "own_policy", "budgets")
_HEADINGS = {"dataset": "data set", "n_arms": "arms", "budget": "budget", "merit": "merit"}  # these first
_USUAL = {each.name: each.default for each in dataclasses.fields(Setting) if each.name not in _NOT_SHOWN}
_USUAL["rules"] = ""
_SELDOM = [name for name in _USUAL if name not in (*_HEADINGS, "episodes", "horizon", "policy", "seed")] + ["seed"]


_UNKNOWN = Interval(np.nan, np.nan, np.nan)


def _in_words(setting: Setting) -> dict[str, Any]:
    """Return what a setting says, with rules as text, and several budgets as text in place of the largest."""
    several = {"budget": budget_text(setting.budgets)} if setting.budgets else {}
    values = {**setting.settings(), "rules": str(setting.rules), **several}
    return {name: value for name, value in values.items() if name in _USUAL}


@dataclass(frozen=True)
class Wording:
    """How to tell some settings apart.

    Examples
    --------
    >>> same = {"dataset": "cpap", "n_arms": 20, "budget": 4, "episodes": 100}
    >>> wording = Wording((Setting(policy="random", **same), Setting(policy="random", delta=0.1, **same)))
    >>> wording.same
    'random · cpap · 20 arms, 4 pulled · 100 episodes, 200 steps each · merit exponential:c=3 · seed 0'
    >>> wording.problem(wording.settings[1]), wording.headings
    (['delta 0.1'], ['delta', 'policy'])
    """

    settings: tuple[Setting, ...]

    @cached_property
    def varying(self) -> tuple[str, ...]:
        """The names of what differs between settings, and always the policy, at the end."""
        rows = [_in_words(setting) for setting in self.settings]
        names = dict.fromkeys([*_HEADINGS, *_USUAL])
        return (*(name for name in names if name != "policy" and len({row[name] for row in rows}) > 1), "policy")

    @property
    def several_policies(self) -> bool:
        """Whether policies differ."""
        return len({setting.policy for setting in self.settings}) > 1

    @property
    def headings(self) -> list[str]:
        """What is above `texts`."""
        return [_HEADINGS.get(name, name.replace("_", " ")) for name in self.varying]

    def texts(self, setting: Setting) -> list[str]:
        """Return the values of what differs, for one setting."""
        values = {**_in_words(setting), "dataset": self.dataset(setting)}
        plain = {True: "yes", False: "no"}
        return [plain[x] if isinstance(x := values[name], bool) else str(x) or "none" for name in self.varying]

    @property
    def same(self) -> str:
        """What is the same for all, in one line."""
        one = self.settings[0]
        policy = [] if self.several_policies else [one.policy]
        return " · ".join([*policy, *self._words(one, set(_USUAL) - set(self.varying))])

    def problem(self, setting: Setting) -> list[str]:
        """Return what differs but for the policy, in words, for one setting."""
        return self._words(setting, set(self.varying))

    def dataset(self, setting: Setting) -> str:
        """Return the data set: arms of your own without their checksum, unless that tells two apart."""
        name = setting.dataset.partition("@")[0]
        return name if self._names[name] == 1 else setting.dataset

    @cached_property
    def _names(self) -> Counter[str]:
        return Counter(text.partition("@")[0] for text in {setting.dataset for setting in self.settings})

    def _words(self, setting: Setting, names: set[str]) -> list[str]:
        """Return what a setting says under these names; of those that are seldom changed, only if they are."""
        words = {
            "dataset": self.dataset(setting),
            "n_arms": several(setting.n_arms, "arm"),
            "budget": f"{budget_text(setting.cycle)} pulled" + " in turn" * bool(setting.budgets),
            "episodes": several(setting.episodes, "episode"),
            "horizon": f"{setting.horizon} steps each",
            "merit": f"merit {setting.merit}",
            "seed": f"seed {setting.seed}",
        }
        if setting.rules or "rules" in self.varying:
            words["rules"] = str(setting.rules) or "no rules"
        for name, value in _in_words(setting).items():
            if name not in words and (name in self.varying or value != _USUAL[name]):
                label = name.replace("_", " ")
                words[name] = f"{label} {value}" if not isinstance(value, bool) else label + ": no" * (not value)
        groups = [["dataset"], ["n_arms", "budget"], ["episodes", "horizon"], ["merit"], *([name] for name in _SELDOM)]
        said = ([words[name] for name in group if name in names and name in words] for group in groups)
        return [", ".join(parts) for parts in said if parts]


@dataclass(frozen=True, eq=False)
class Results:
    """What a sweep has found, made by `read_results`.

    Attributes
    ----------
    folder : Path
    manifest : Manifest
        What was to be played.
    outcomes : dict of Setting to Outcome
        What was measured of each setting; of one that is not finished, the runs that are there.
    missing : int
        Tasks that are not done.
    damaged : tuple of Path
        Shards that are there, but not whole; these are counted as missing too.
    """

    folder: Path
    manifest: Manifest
    outcomes: dict[Setting, Outcome]
    missing: int
    damaged: tuple[Path, ...]

    @cached_property
    def measures(self) -> dict[Setting, dict[str, Interval]]:
        """All measures of each setting by name, means over runs with 95 % bootstrap intervals."""
        return {setting: intervals(found.measures, setting.seed) for setting, found in self.outcomes.items()}

    @cached_property
    def wording(self) -> Wording:
        """How to tell the settings apart."""
        return Wording(tuple(self.outcomes))

    @property
    def description(self) -> str:
        """What is the same for all settings, in one line."""
        counts = [len(found.runs) for found in self.outcomes.values()]
        if not counts:
            return "no settings"
        runs = several(max(counts), "run") if min(counts) == max(counts) else f"{min(counts)} to {max(counts)} runs"
        return f"{several(len(counts), 'setting')} · {self.wording.same} · {runs}"

    @property
    def warning(self) -> str:
        """What is not there, empty if all is."""
        total = len(self.manifest.tasks)
        if not self.missing:
            return ""
        damaged = f", {several(len(self.damaged), 'shard')} damaged" if self.damaged else ""
        return f"{self.missing:,} of {total:,} tasks are missing{damaged}: run the sweep again to resume"

    @property
    def shown(self) -> list[str]:
        """The measures for people.

        Regret on exposures only where it was measured and is not the same once more, accounts only where some are kept.
        """
        several_pulls = [found["exposure_regret"].mean for each, found in self.measures.items() if each.budget > 1]
        known = not np.isnan(several_pulls).all()
        accounts = any(each.get(ACCOUNTS[0], _UNKNOWN).mean > 0 for each in self.measures.values())
        return [name for name in SHOWN + ACCOUNTS * accounts if name != "exposure_regret" or known]

    def rows(self, columns: str | Sequence[str] | None = None) -> list[dict[str, Any]]:
        """Return the `table` of settings as rows of plain values, or only some of its measures."""
        names = chosen(columns, self._columns, self._columns)
        return [
            {
                **_in_order(setting),
                "runs": len(self.outcomes[setting].runs),
                **interval_row({name: found[name] for name in names}),
            }
            for setting, found in self.measures.items()
        ]

    @property
    def _columns(self) -> tuple[str, ...]:
        return tuple(next(iter(self.measures.values()), {}))

    def table(self, what: Literal["settings", "runs", "curves"] = "settings") -> pd.DataFrame:
        """Return a DataFrame with a row for each setting, run, or run and kept episode; needs the extra ``lab``.

        A setting has all that it says, its number of runs, and each measure with ``…_low`` and ``…_high``; the others
        are as `load` has them. ``first_valid_episode`` and ``coverage_gap`` (t0 and G) are lower bounds unless
        ``…_censored``, the share of runs that ended too early to know them, is 0.
        """
        if check_choice("what", what, ("settings", "runs", "curves")) == "settings":
            return data_frame(self.rows())
        return data_frame(*(_run_columns(outcome, curves=what == "curves") for outcome in self.outcomes.values()))

    def only(self, settings: Iterable[Setting]) -> Results:
        """Return the same of these settings alone, in their order, as far as they are there."""
        kept = {setting: self.outcomes[setting] for setting in settings if setting in self.outcomes}
        return dataclasses.replace(self, outcomes=kept)

    def save(self, path: str | PathLike[str], *, columns: str | Sequence[str] | None = None) -> None:
        """Write the table of settings to a file, which replaces an old one once it is complete.

        Parameters
        ----------
        path : path
            A .csv or .parquet file has all that settings say, and numbers in full precision; a .md (Markdown) or .tex
            (LaTeX, with booktabs) file what differs between settings, and rounded numbers with intervals.
        columns : str or sequence of str, optional
            Which of the `measures`, in this order. By default all in files of numbers, and in text those that people
            look at most.
        """
        file = Path(path)
        suffix = check_suffix(file, "results", SUFFIXES)
        if not self.outcomes:
            raise FileError(file, f"there are no results in {self.folder} yet")
        # what is not in the table: which versions have played, and how much is missing
        about = json.dumps({"versions": dict(self.manifest.versions), "missing": self.missing}, sort_keys=True)
        if suffix in NUMBERS:
            rows = self.rows(columns)
            values = {name: [row[name] for row in rows] for name in rows[0]}
            write_table(file, "results", values, {"meritfair": about})
        else:
            self._write_text(file, about, chosen(columns, self._columns, self.shown))

    def _write_text(self, file: Path, about: str, shown: Sequence[str]) -> None:
        wording = self.wording
        headings = [*wording.headings, *(column_of(name).heading for name in shown)]
        cells = [
            [*wording.texts(setting), *(marked(column_of(name).in_full(found[name]), name, found) for name in shown)]
            for setting, found in self.measures.items()
        ]
        more = any(len(found.runs) > 1 for found in self.outcomes.values())
        intervals = ", with 95 % bootstrap intervals" if more else ""
        missing = f" {self.warning}." if self.warning else ""
        bound = f" {BOUND_MEANING}" * has_bounds(cells)
        note = f"{self.description}. Means over runs{intervals}; regret is added up over episodes.{bound}{missing}"
        write_text_table(file, headings, cells, about=about, note=note)


def read_results(folder: str | PathLike[str]) -> Results:
    """Read what a sweep has found so far."""
    place = Path(folder)
    return gather(place, Manifest.read(place), Store(place).read)


def gather(folder: Path, manifest: Manifest, read: Callable[[Task], Outcome | None]) -> Results:
    """Return what a sweep has found so far, its shards read by `read`, as `Store.read` does."""
    found, damaged = [], []
    for task in manifest.tasks:
        try:
            found.append(read(task))
        except DamagedShardError:
            damaged.append(Store(folder).path(task))
    whole = [each for each in found if each is not None]
    return Results(folder, manifest, by_setting(whole), len(manifest.tasks) - len(whole), tuple(damaged))


def load(folder: str | PathLike[str], *, curves: bool = False) -> pd.DataFrame:
    """Return the results of a sweep as a pandas DataFrame, with a warning if some are missing.

    Parameters
    ----------
    folder : path
        The folder of a sweep.
    curves : bool
        Instead of a row for each run with all its measures, a row for each run and each kept episode, with regrets and
        reward added up from the first episode to that one.
    """
    found = read_results(folder)
    if not found.outcomes:
        raise FileError(folder, f"has no results yet: {found.warning}")
    if found.warning:
        warnings.warn(f"{folder}: {found.warning}", stacklevel=2)
    return found.table("curves" if curves else "runs")


def _run_columns(outcome: Outcome, *, curves: bool) -> dict[str, Any]:
    same = _in_order(outcome.setting)
    if not curves:
        return {**same, "run": outcome.runs, **outcome.measures}
    runs, points = len(outcome.runs), len(outcome.episodes)
    places = {"run": np.repeat(outcome.runs, points), "episode": np.tile(outcome.episodes, runs)}
    return {**same, **places, **{name: outcome.curves[name].ravel() for name in CURVES}}


def _in_order(setting: Setting) -> dict[str, Any]:
    """Return what a setting says, the most telling first; whether regret on exposures was asked for, its NaN tells.

    Several budgets, rules, and how much is observed are texts, empty if there is nothing to say.
    """
    values = {name: value for name, value in setting.settings().items() if name != "exposure_regret"}
    values |= {"budgets": budget_text(setting.budgets), "rules": str(setting.rules)}
    values["observed"] = observed_text(setting.observed)
    first = ("dataset", "n_arms", "budget", "policy", "merit", "episodes", "horizon")
    return {**{name: values[name] for name in first}, **values}
