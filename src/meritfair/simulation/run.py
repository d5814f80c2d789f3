"""A run: what a simulation measured, with everything needed to make it again.

The first axis of every array is the run (one independent repetition). Nothing about single steps is
kept. A `Run` goes into one file, Parquet (a row for each run, readable by any dataframe library) or
npz, with its settings, seed and versions inside.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from meritfair.core.arrays import AnyArray, BoolArray, FloatArray, IntArray
from meritfair.core.checks import check_choice
from meritfair.core.errors import FileError
from meritfair.core.sealed import load_arrays, save_arrays, seal, unseal
from meritfair.core.storage import check_readable, check_suffix, write_whole
from meritfair.core.tables import data_frame, html_table
from meritfair.model.arms import Arms
from meritfair.model.benefit import benefit
from meritfair.model.criterion import Criterion
from meritfair.model.merit import merit_from_settings
from meritfair.model.observation import observed_text
from meritfair.model.rules import Rules, budget_text
from meritfair.simulation import metrics
from meritfair.simulation.bootstrap import Interval, interval
from meritfair.simulation.columns import ACCOUNTS, COLUMNS, marked

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_FORMAT, _OLDER = "meritfair-run-3", "meritfair-run-2"
_SUFFIXES = (".parquet", ".npz")
_ROUNDING = 1e-9  # pulls
_BY_EPISODE = ("fairness_regret", "fairness_regret_authors", "exposure_regret", "reward", "eta", "omega")
_SHOWN = ("fairness_regret", "exposure_regret", "good_state", "gini", "smallest_exposure", "longest_wait")
_BY_ARM = ("pulls", "exposure", "fair_exposure", "longest_wait", "worst_window")


@dataclass(frozen=True, eq=False)
class Run:
    """The outcome of one policy on one problem, for one or many independent runs.

    Attributes
    ----------
    settings : dict
        Policy, problem, seed and versions, as plain values.
    transitions : ndarray, shape (runs, N, 2, 2)
        The true arms of each run.
    fair_merit : ndarray, shape (runs, N)
        The merit of each arm by its true benefit.
    fairness_regret : ndarray, shape (runs, episodes)
        Distance of each episode's shares from the fair ones, the terms of Eq. (3); not summed up.
    fairness_regret_authors : ndarray, shape (runs, episodes)
        The same, of the shares that MF-RMAB would form from this run's counts. That is what the
        paper's figures show for Optimal; for MF-RMAB itself the two are the same.
    exposure_regret : ndarray, shape (runs, episodes)
        Distance of each episode's exposures from `fair_exposure`, at most twice the budget. NaN where the draw is
        sequential, of several arms, and `simulate` was not asked to integrate.
    reward : ndarray, shape (runs, episodes)
        Arms in the good state after each step, summed over the episode's steps.
    eta, omega : ndarray, shape (runs, episodes)
        The largest eta and omega of any arm at the start of each episode.
    visits, good : ndarray, shape (runs, N, 2, 2)
        Final counts N(s, a) and N(s, a, 1).
    longest_wait : ndarray, shape (runs, N)
        Most steps in a row without a pull.
    given : ndarray, shape (runs, N)
        The exposures that each arm was given, summed over all steps: those of the draws, if the policy keeps accounts;
        otherwise its pulls.
    account_range : ndarray, shape (runs, N, 2)
        The least and the largest account of each arm at any step: what it was due less what it was given, in pulls,
        0 at the start. Where no accounts are kept, both are 0.
    coverage_gap, coverage_gap_authors : ndarray, shape (runs,)
        G by its definition, and as the authors' code has it.
    coverage_gap_censored : ndarray of bool, shape (runs,)
        Whether the longest wait was not over at the end of the run, so that G is only a lower bound.
    observed : ndarray, shape (runs,)
        The share of states that were seen, 1 unless `simulate` was told otherwise. Policies learn from these, and eta,
        omega and `fairness_regret_authors` are of them; visits, rewards and all else are of what happened.
    """

    settings: dict[str, Any]
    transitions: FloatArray
    fair_merit: FloatArray
    fairness_regret: FloatArray
    fairness_regret_authors: FloatArray
    exposure_regret: FloatArray
    reward: IntArray
    eta: FloatArray
    omega: FloatArray
    visits: IntArray
    good: IntArray
    longest_wait: IntArray
    given: FloatArray
    account_range: FloatArray
    coverage_gap: IntArray
    coverage_gap_authors: IntArray
    coverage_gap_censored: BoolArray
    observed: FloatArray

    @property
    def policy(self) -> str:
        """The policy's name."""
        return str(self.settings["policy"]["name"])

    @property
    def runs(self) -> int:
        """How many independent runs there are."""
        return len(self.fairness_regret)

    @property
    def episodes(self) -> int:
        """How many episodes each run has."""
        return int(self.fairness_regret.shape[1])

    @property
    def horizon(self) -> int:
        """Steps in an episode."""
        return int(self.settings["problem"]["horizon"])

    @property
    def budget(self) -> int:
        """Arms pulled at each step, the largest number if it changes."""
        return max(self.budgets)

    @property
    def budgets(self) -> tuple[int, ...]:
        """The budget of each step, again from the start after the last; one number if it does not change."""
        return tuple(np.atleast_1d(self.settings["problem"]["budget"]).tolist())

    @property
    def rules(self) -> Rules:
        """The rules that said who may be pulled."""
        return Rules.from_settings(self.settings["problem"].get("rules"))

    @property
    def n_arms(self) -> int:
        """How many arms there are."""
        return int(self.transitions.shape[1])

    @property
    def arms(self) -> tuple[Arms, ...]:
        """The arms of each run."""
        names = self.settings["problem"]["names"]
        return tuple(Arms(P, names) for P in self.transitions)

    @property
    def pulls(self) -> IntArray:
        """How often each arm was pulled, shape (runs, N)."""
        return np.asarray(self.visits[..., 1].sum(axis=-1))

    @property
    def exposure(self) -> FloatArray:
        """The exposure that each arm was given at a step in the mean, shape (runs, N); see `given`."""
        return np.asarray(self.given / (self.episodes * self.horizon))

    @property
    def worst_window(self) -> FloatArray:
        """The most by which what an arm was given in a row of steps differs from what it was due, shape (runs, N).

        In a row of steps the account changes by the difference. So the largest is that between its least and its
        largest value.
        """
        return np.asarray(self.account_range[..., 1] - self.account_range[..., 0])

    @cached_property
    def fair_exposure(self) -> FloatArray:
        """The exposure that each arm's true merit entitles it to, shape (runs, N)."""
        p = self.settings["problem"]
        criterion = Criterion(design=p["design"], floor=p["floor"], cap=p["cap"])  # merits are known
        return self.rules.fair_exposure(self.fair_merit, criterion, self.budgets)

    @property
    def first_valid_episode(self) -> IntArray:
        """The paper's t0 (Assumption 4.1), shape (runs,): every eta is below 1 after this episode.

        The convention: it is the last episode at which some eta was 1 or more, counted from 1, and 0 if there was none.
        So the first episode that the assumption covers is the one after it.
        """
        return metrics.first_valid_episode(self.eta)

    @property
    def first_valid_episode_censored(self) -> BoolArray:
        """Whether some eta is 1 or more at the last episode, so that t0 is only a lower bound; shape (runs,)."""
        return metrics.first_valid_episode_censored(self.eta)

    @property
    def t0(self) -> IntArray:
        """The paper's name for `first_valid_episode`: the last episode at which some eta was 1 or more."""
        return self.first_valid_episode

    @property
    def first_valid_episode_authors(self) -> IntArray:
        """t0 as the authors' code has it: the first episode with every eta below 1, shape (runs,)."""
        return metrics.first_valid_episode_authors(self.eta, self.horizon)

    @property
    def largest_eta(self) -> FloatArray:
        """The paper's eta (Definition 5.2): the largest after t0, NaN if t0 is the last episode; shape (runs,)."""
        return metrics.largest_after(self.eta, self.first_valid_episode)

    @property
    def largest_omega(self) -> FloatArray:
        """The paper's omega (Definition 5.2): the largest after t0, NaN if t0 is the last episode; shape (runs,)."""
        return metrics.largest_after(self.omega, self.first_valid_episode)

    @property
    def merit_label(self) -> str:
        """The merit function that fairness was measured by, in words."""
        settings = self.settings["problem"]["merit"]
        return str(settings["name"]) if settings["kind"] == "custom" else str(merit_from_settings(settings))

    @property
    def description(self) -> str:
        """What was simulated, in one line."""
        design = self.settings["problem"]["design"]
        fair = self.merit_label + f", {design}" * (design != "sequential")
        seen = observed_text(self.settings["problem"].get("observed", 1.0))
        pulled = f"{budget_text(self.budgets)} pulled at {'each step' if len(self.budgets) == 1 else 'steps in turn'}"
        return (
            f"{self.n_arms} arms, {pulled} · "
            + f"{self.rules} · " * bool(self.rules)
            + f"{seen} · " * bool(seen)
            + f"{self.episodes:,} episodes of {self.horizon} steps · "
            f"{self.runs} run{'s' * (self.runs != 1)} · merit {fair} · seed {self.settings['seed']}"
        )

    def measures(self) -> dict[str, FloatArray]:
        """Return the main numbers of each run, by name, shape (runs,).

        ``good_state`` is the share of arms in the good state; regret is the sum over all episodes;
        ``longest_wait`` is that of the arm that waited longest, ``smallest_exposure`` that of the arm pulled least;
        inequality is that of the pulls, and ``earth_mover`` their distance from round robin; ``largest_account`` is how
        far any arm was ever ahead of or behind what it was due, ``worst_window`` is that of the arm with the worst, and
        both are NaN where no accounts are kept. ``first_valid_episode`` and ``coverage_gap`` (t0 and G) are lower
        bounds where ``first_valid_episode_censored`` and ``coverage_gap_censored`` are 1: the run ended too early.
        """
        arm_steps = self.n_arms * self.horizon * self.episodes
        kept = 1.0 if (np.abs(self.account_range) > _ROUNDING).any() else np.nan  # without accounts nobody knows
        numbers = {
            "fairness_regret": self.fairness_regret.sum(axis=1),
            "fairness_regret_authors": self.fairness_regret_authors.sum(axis=1),
            "exposure_regret": self.exposure_regret.sum(axis=1),
            "good_state": self.reward.sum(axis=1) / arm_steps,
            "jain": metrics.jain(self.pulls),
            "gini": metrics.gini(self.pulls),
            "hhi": metrics.hhi(self.pulls),
            "earth_mover": metrics.earth_mover(self.pulls, self.episodes * self.horizon),
            "smallest_exposure": self.exposure.min(axis=1),
            "longest_wait": self.longest_wait.max(axis=1),
            "largest_account": kept * np.abs(self.account_range).max(axis=(1, 2)),
            "worst_window": kept * self.worst_window.max(axis=1),
            "first_valid_episode": self.first_valid_episode,
            "first_valid_episode_censored": self.first_valid_episode_censored,
            "first_valid_episode_authors": self.first_valid_episode_authors,
            "coverage_gap": self.coverage_gap,
            "coverage_gap_censored": self.coverage_gap_censored,
            "coverage_gap_authors": self.coverage_gap_authors,
        }
        return {name: np.asarray(values, dtype=np.float64) for name, values in numbers.items()}

    def summary(self) -> dict[str, Interval]:
        """Return the `measures`, each a mean over runs with a 95 % bootstrap interval.

        The mean of ``…_censored`` is the share of runs that ended too early; unless it is 0, the mean t0 or G, and both
        ends of its interval, are lower bounds.
        """
        seed = int(self.settings["seed"])
        return {name: interval(values, seed) for name, values in self.measures().items()}

    def plot(self, *, ax: Sequence[Axes] | None = None, figsize: tuple[float, float] | None = None) -> Figure:
        """Draw fairness regret over time and exposure by arm, as `plot_runs` does; needs the extra ``plots``."""
        from meritfair.simulation.plots import plot_runs

        return plot_runs([self], ax=ax, figsize=figsize)

    def table(self, what: Literal["episodes", "arms"] = "episodes") -> pd.DataFrame:
        """Return a DataFrame with a row for each run and episode, or for each run and arm.

        It needs the extra ``lab``. Runs have their numbers, episodes are counted from 1. Of an episode there are
        ``fairness_regret``, ``fairness_regret_authors``, ``exposure_regret``, ``reward``, ``eta`` and ``omega``; of an
        arm its name, true ``benefit`` and ``merit``, ``pulls``, ``exposure``, ``fair_exposure`` and ``longest_wait``.
        """
        problem = self.settings["problem"]
        if check_choice("what", what, ("episodes", "arms")) == "episodes":
            key, labels = "episode", list(range(1, self.episodes + 1))
            values = {name: getattr(self, name) for name in _BY_EPISODE}
        else:
            key, labels = "arm", list(problem["names"])
            values = {"benefit": benefit(self.transitions), "merit": self.fair_merit}
            values |= {name: getattr(self, name) for name in _BY_ARM}
        runs = np.repeat(np.arange(self.runs) + int(problem["first_run"]), len(labels))
        columns = {"run": runs, key: labels * self.runs}
        return data_frame(columns | {name: each.ravel() for name, each in values.items()})

    def _repr_html_(self) -> str:
        """Return the main measures as a table, which is how notebooks show a run."""
        found = self.summary()
        names = [name for name in (*_SHOWN, *ACCOUNTS) if not np.isnan(found[name].mean)]
        texts = {name: marked(COLUMNS[name].in_full(found[name]), name, found) for name in names}
        rows = [[COLUMNS[name].heading.replace("\n", " "), text] for name, text in texts.items()]
        over = "mean over runs, 95 % interval" if self.runs > 1 else "value"
        return html_table(["", over], rows, repr(self), self.description)

    def __repr__(self) -> str:
        return (
            f"Run({self.policy}: {self.runs} run{'s' * (self.runs != 1)} of {self.episodes} episodes, "
            f"{self.n_arms} arms, budget {budget_text(self.budgets)})"
        )

    def save(self, path: str | PathLike[str]) -> None:
        """Write everything to one .parquet or .npz file, which replaces an old one once it is complete."""
        file = Path(path)
        suffix = check_suffix(file, "runs", _SUFFIXES)
        arrays: dict[str, AnyArray] = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "settings"}
        meta = json.dumps(seal(_FORMAT, self.settings, arrays), sort_keys=True)
        write_whole(file, lambda temporary: save_arrays(temporary, arrays, meta, suffix))

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Run:
        """Read a run that `save` has written."""
        file = Path(path)
        suffix = check_suffix(file, "runs", _SUFFIXES)
        check_readable(file)
        try:
            arrays, meta = load_arrays(file, suffix)
            settings = unseal(json.loads(meta), _FORMAT, _OLDER, arrays=arrays)
            return cls(settings=settings, **_completed(arrays))
        except Exception as error:  # damaged bytes can make a reader fail in any way
            raise FileError(file, f"does not hold a whole run saved by meritfair ({error})") from error


def _completed(arrays: dict[str, AnyArray]) -> dict[str, AnyArray]:
    """Return the arrays of a run; those of older versions with accounts of 0, and all states seen.

    Older versions do not tell whether G is censored; it surely is where some arm was never covered.
    """
    given = arrays["visits"][..., 1].sum(axis=-1).astype(np.float64)
    older = {"given": given, "account_range": np.zeros((*given.shape, 2)), "observed": np.ones(len(given))}
    never = arrays["coverage_gap"] > arrays["eta"].shape[1]
    return older | {"coverage_gap_censored": never} | arrays
