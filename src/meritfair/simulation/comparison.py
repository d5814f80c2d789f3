r"""Comparison: policies on the same arms, measured against the best policy and against no pulls at all.

Two policies are always played along: ``none``, which pulls nobody, and ``whittle``, which knows the true arms and pulls
for reward alone. What a policy wins lies between them (`metrics` has the formulas): its intervention
benefit is 0 if it does as ``none`` and 1 if it does as ``whittle``, its price of fairness is the part of Whittle's
reward that it goes without. How fair each is, is measured by one fairness criterion for all, whatever it aims at.

Run number r has the same arms and the same environment for every policy: the coins that decide how an arm moves from
each state, pulled or not, are the same at every step. So policies differ only in whom they pull, and with K = N all
have the same reward. What is common to a run cancels in the difference of two policies: `Comparison.differences` are
paired over runs, and their intervals are narrower than those of policies that were played independently.

References
----------
C. Herlihy, A. Prins, A. Srinivasan and J. P. Dickerson, "Planning to Fairly Allocate: Probabilistic Fairness in the
Restless Bandit Setting", KDD 2023, for intervention benefit, price of fairness and the earth mover's distance.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from meritfair.core.checks import check_choice, check_known
from meritfair.core.errors import InputError
from meritfair.core.machine import check_size
from meritfair.core.progress import Progress, following, in_parts
from meritfair.core.seeding import fresh_seed
from meritfair.core.storage import check_suffix
from meritfair.core.tables import SUFFIXES as NUMBERS
from meritfair.core.tables import TEXT_SUFFIXES, data_frame, html_table, write_table, write_text_table
from meritfair.core.texts import several
from meritfair.model.arms import Arms
from meritfair.model.criterion import Confidence, Criterion, loose_settings_allowed
from meritfair.model.observation import Observation
from meritfair.model.rules import Rules
from meritfair.policies import registry
from meritfair.policies.base import Policy
from meritfair.policies.plans import Plan
from meritfair.simulation.bootstrap import Difference, Interval, difference, interval_row
from meritfair.simulation.columns import ACCOUNTS, Column, chosen, column_of, marked
from meritfair.simulation.metrics import intervention_benefit, price_of_fairness
from meritfair.simulation.players import Notes, players_of, try_out
from meritfair.simulation.run import Run
from meritfair.simulation.simulate import arms_of_runs, simulate
from meritfair.simulation.slack import with_slacks

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SUFFIXES = (*NUMBERS, *TEXT_SUFFIXES)
ORACLE = "°"  # marks a policy that knows the true arms
_DIFFERENCE = "difference"
_NONE, _BEST, _USUAL = "none", "whittle", "merit-fair"
_FROM_SUMMARY = (
    "good_state",
    "fairness_regret",
    "exposure_regret",
    "gini",
    "jain",
    "hhi",
    "earth_mover",
    "smallest_exposure",
    "longest_wait",
)
_Player: TypeAlias = "Policy | str | Callable[..., Plan]"


_SHOWN = (
    "intervention_benefit",
    "price_of_fairness",
    "good_state",
    "fairness_regret",
    "gini",
    "smallest_exposure",
    "longest_wait",
)  # in tables for people; files of numbers have all


@dataclass(frozen=True, eq=False)
class Comparison:
    """What policies did on one problem, and what that is worth; made by `compare`.

    Attributes
    ----------
    runs : dict of str to Run
        The runs of each policy, by label.
    none, best : Run
        Those of the two references, ``none`` and ``whittle``, whether they are listed or not.
    oracles : tuple of str
        Labels of the policies that look at the true arms, which nobody knows in practice.
    skipped : dict of str to str
        Why others were not played, by label.
    against : str, optional
        Label of the policy that others are held against; by default the first that is merit-fair, else the first.
    """

    runs: dict[str, Run]
    none: Run
    best: Run
    oracles: tuple[str, ...] = ()
    skipped: dict[str, str] = dataclasses.field(default_factory=dict)
    against: str = ""

    def __post_init__(self) -> None:
        if not self.against:
            usual = [label for label, run in self.runs.items() if run.policy == _USUAL]
            object.__setattr__(self, "against", [*usual, *self.runs, _NONE][0])

    @cached_property
    def measures(self) -> dict[str, dict[str, Interval]]:
        """All measures of each policy by label and name, means over runs with 95 % bootstrap intervals.

        They are ``intervention_benefit``, ``price_of_fairness``, and of `Run.summary`: the share in the good state,
        the regrets added up over episodes, inequality of the pulls, smallest exposure, longest wait, and the extremes
        of accounts. What cannot be measured is NaN: inequality where nobody is pulled, the benefit where even the best
        policy wins nothing. If that may be by chance, the interval of the benefit is infinite.
        """
        return {label: self._measures(run) for label, run in self.runs.items()}

    def _measures(self, run: Run) -> dict[str, Interval]:
        reward, none, best = (each.reward.sum(axis=1) for each in (run, self.none, self.best))
        seed, summary = int(self.none.settings["seed"]), run.summary()
        return {
            "intervention_benefit": intervention_benefit(reward, none, best, seed),
            "price_of_fairness": price_of_fairness(reward, best, seed),
            **{name: summary[name] for name in (*_FROM_SUMMARY, *ACCOUNTS)},
        }

    def differences(self, against: str | None = None, measure: str = "good_state") -> dict[str, Difference]:
        """Return how far each policy is above another, run by run, with 95 % bootstrap intervals; by label.

        Parameters
        ----------
        against : str, optional
            Label of the other, or ``none`` or ``whittle``; by default `Comparison.against`.
        measure : str
            Which of `Run.measures`; by default the share of arms in the good state.

        Returns
        -------
        dict of str to Difference
            ``paired`` has the interval of the differences over runs; ``unpaired`` is what the interval would be if
            policies had been played on other arms with other random numbers.
        """
        all_runs = {_NONE: self.none, _BEST: self.best, **self.runs}
        other = check_known("policy", self.against if against is None else against, all_runs)
        seed, values = int(self.none.settings["seed"]), all_runs[other].measures()
        check_choice("measure", measure, tuple(values))
        return {label: difference(run.measures()[measure], values[measure], seed) for label, run in self.runs.items()}

    @property
    def settings(self) -> dict[str, Any]:
        """Policies, problem, seed and versions, as plain values."""
        shared = {name: value for name, value in self.none.settings.items() if name != "policy"}
        policies = {label: run.settings["policy"] for label, run in self.runs.items()}
        return {"policies": policies, "skipped": self.skipped, **shared}

    @property
    def description(self) -> str:
        """What was simulated, in one line."""
        return self.none.description

    def __repr__(self) -> str:
        return f"Comparison({several(len(self.runs), 'policy', 'policies')}: {self.description})"

    @property
    def has_accounts(self) -> bool:
        """Whether some policy gave arms anything else at a step than what they were due."""
        return any(found[ACCOUNTS[0]].mean > 0 for found in self.measures.values())

    @property
    def _shown(self) -> tuple[str, ...]:
        return _SHOWN + ACCOUNTS * self.has_accounts

    def by_reward(self) -> Comparison:
        """Return the same with the most rewarding policies first."""
        order = sorted(self.runs.items(), key=lambda pair: -int(pair[1].reward.sum()))
        return dataclasses.replace(self, runs=dict(order))

    def rows(self, columns: str | Sequence[str] | None = None) -> list[dict[str, Any]]:
        """Return the `table` as rows of plain values, or only some of its columns."""
        names = chosen(columns, self._columns, self._columns)
        differences = self.differences() if _DIFFERENCE in names else {}
        ends = {label: {"against": self.against, **_difference_row(each)} for label, each in differences.items()}
        return [
            {
                "policy": label,
                **interval_row(_those(found, names)),
                **ends.get(label, {}),
            }
            for label, found in self.measures.items()
        ]

    def table(self) -> pd.DataFrame:
        """Return a DataFrame with a row for each policy; needs the extra ``lab``.

        Its label is in ``policy``, and each measure in ``name``, ``name_low`` and ``name_high``. At the end are the
        `differences` to the policy ``against``, paired and unpaired, of the share in the good state.
        """
        return data_frame(self.rows())

    @property
    def _columns(self) -> tuple[str, ...]:
        """What a table may have beside labels."""
        return (*next(iter(self.measures.values()), {}), _DIFFERENCE)

    def cells(self, columns: Sequence[str] | None = None) -> list[list[str]]:
        """Return what people are shown of each policy, as text: its label, then means with intervals below them."""
        names = self._shown if columns is None else columns
        differences = self.differences() if _DIFFERENCE in names else {}
        points = {label: Interval(*(100 * end for end in each.paired)) for label, each in differences.items()}
        rows = []
        for label, found in self.measures.items():
            name = " ".join(label.split()) + f" {ORACLE}" * (label in self.oracles)
            values = [found[each] if each in found else points[label] for each in names]
            texts = (self._column(each).in_full(x) for each, x in zip(names, values, strict=True))
            rows.append([name, *(marked(text, each, found) for each, text in zip(names, texts, strict=True))])
        return rows

    def _column(self, name: str) -> Column:
        if name != _DIFFERENCE:
            return column_of(name)
        return Column(f"difference to\n{self.against}, points", 2, "")

    def _headings(self, names: Sequence[str]) -> list[str]:
        return ["policy", *(self._column(name).heading for name in names)]

    def _repr_html_(self) -> str:
        """Return what people look at as a table, which is how notebooks show a comparison."""
        return html_table(self._headings(self._shown), self.cells(), repr(self), self._note())

    def plot(self, *, ax: Sequence[Axes] | None = None, figsize: tuple[float, float] | None = None) -> Figure:
        """Draw reward against fairness, a point for each policy; needs the extra ``plots``.

        If a policy was played with several slacks, a third panel has its reward against slack. It is drawn into two
        Axes that are given, or three with slacks, or on a new figure, by default of a size that suits.
        """
        from meritfair.simulation.plots import plot_comparison

        return plot_comparison(self, ax=ax, figsize=figsize)

    def save(self, path: str | PathLike[str], *, columns: str | Sequence[str] | None = None) -> None:
        """Write the table to a file, which replaces an old one once it is complete.

        Parameters
        ----------
        path : path
            A .csv or .parquet file has numbers in full precision, a .md (Markdown) or .tex (LaTeX, with booktabs) file
            rounded ones with intervals. All but .csv also hold settings, seed and versions.
        columns : str or sequence of str, optional
            Which of the `measures`, in this order, and ``difference``, that to the policy ``against``. By default all
            in files of numbers, and in text those that people look at most.
        """
        file = Path(path)
        suffix = check_suffix(file, "comparisons", SUFFIXES)
        if suffix in NUMBERS:
            rows = self.rows(columns)
            values = {name: [row[name] for row in rows] for name in rows[0]}
            write_table(file, "comparisons", values, {"meritfair": json.dumps(self.settings, sort_keys=True)})
        else:
            names = chosen(columns, self._columns, self._shown)
            write_text_table(file, self._headings(names), self.cells(names), about=self._about(), note=self._note())

    def _about(self) -> str:
        """Return settings, seed and versions in one line, without the names of the arms, which may be very many."""
        settings = self.settings
        settings["problem"] = {name: value for name, value in settings["problem"].items() if name != "names"}
        return json.dumps(settings, sort_keys=True)

    def _note(self) -> str:
        intervals = ", with 95 % bootstrap intervals" if self.none.runs > 1 else ""
        oracles = f" {ORACLE}: knows the true arms." if self.oracles else ""
        return f"{self.description}. Means over runs{intervals}; fairness regret is added up over episodes.{oracles}"


def _those(found: Mapping[str, Interval], names: Sequence[str]) -> dict[str, Interval]:
    return {name: found[name] for name in names if name in found}


def _difference_row(found: Difference) -> dict[str, float]:
    row = interval_row({"difference": found.paired, "difference_unpaired": found.unpaired})
    del row["difference_unpaired"]  # the mean is the same
    return row


_PAPER, _CONFIDENCE = Criterion(), Confidence()


@loose_settings_allowed(lambda *_, **__: (_PAPER, _CONFIDENCE))
def compare(
    arms: Arms | Sequence[Arms],
    policies: Mapping[str, _Player] | Sequence[_Player] | None = None,
    *,
    budget: int | Sequence[int],
    episodes: int,
    horizon: int = 200,
    runs: int | None = None,
    seed: int | None = None,
    carry_states: bool = False,
    criterion: Criterion = _PAPER,
    confidence: Confidence = _CONFIDENCE,
    rules: Rules | None = None,
    observed: Observation | None = None,
    slack: Sequence[float] | None = None,
    against: str | None = None,
    workers: int | None = None,
    progress: Progress = None,
) -> Comparison:
    """Play several policies on the same arms with the same seeds, and compare reward and fairness.

    Parameters
    ----------
    arms : Arms or sequence of Arms
        The true arms; or one set for each run.
    policies : mapping or sequence, optional
        Policies, their names (also with settings, as for `simulate`), or functions that plan, by label; in a sequence,
        labels are made from names and settings.
        One that cannot be played with these arms, this budget and these rules is an error, before others are played.
        By default all policies there are, and ``recommended``: merit-fair as we recommend it. Those that cannot be
        played are skipped: `Comparison.skipped` says which, and why.
    budget, episodes, horizon, runs, seed, carry_states, rules, observed, workers
        As for `simulate`.
    criterion : Criterion
        What counts as fair, the same for all; by default the paper's. Policies given by name take over what it changes,
        where they have such settings.
    confidence : Confidence
        The confidence ball behind eta and omega, in the same way.
    slack : sequence of float, optional
        Play every policy that has a setting ``slack``, and has it at 0, once with each of these instead.
    against : str, optional
        Label of the policy that others are held against, or ``none`` or ``whittle``; by default the first that is
        merit-fair, else the first.
    progress : bool or callable
        True shows a bar. A function is called now and then with the label of the policy that is playing, and how many
        episodes of how many are done, over all policies and runs.

    Examples
    --------
    >>> import meritfair as mf
    >>> arms = mf.datasets.cpap(n_arms=8, seed=1)
    >>> found = compare(arms, ["round-robin", mf.MeritFair(estimate="mean")], budget=2, episodes=5, runs=3, seed=0)
    >>> list(found.runs)
    ['round-robin', 'merit-fair:estimate=mean']
    >>> found.measures["round-robin"]["gini"]
    Interval(mean=0.0, low=0.0, high=0.0)
    """
    notes = Notes(may_skip=policies is None)
    players = players_of(policies, criterion, confidence, notes)
    players = players if slack is None else with_slacks(players, slack)
    if against is not None:
        check_known("policy", against, [*players, _NONE, _BEST])
    sets, number = arms_of_runs(arms, runs)
    each = arms if isinstance(arms, Arms) else sets
    shared: dict[str, Any] = {"budget": budget, "horizon": horizon, "carry_states": carry_states, "workers": workers}
    shared |= {"seed": fresh_seed(seed), "criterion": criterion, "confidence": confidence, "rules": rules}
    shared["observed"] = observed
    whole: dict[str, Any] = {**shared, "episodes": episodes, "runs": runs}
    none, best = registry.create(_NONE), registry.create(_BEST)
    others = {label: policy for label, policy in players.items() if policy not in (none, best)}
    n_kept = len(others) + 2  # of all of which the runs are kept
    check_size(sets[0].n_arms, runs=number, episodes=episodes, horizon=horizon, policies=n_kept)
    with following(progress) as tell:
        begin = in_parts(tell, n_kept)
        simulate(sets[0], none, **shared, episodes=1)  # finds what is wrong for all
        try_out(sets[0], {_BEST: best, **others}, notes, lambda what: tell(what, 0, 1), **shared)
        if against in notes.skipped:
            raise InputError(f"{against} cannot be played here: {notes.skipped[against]}")
        none_run = simulate(each, none, **whole, progress=begin(_NONE))
        best_run = simulate(each, best, **whole, progress=begin(_BEST))
        played = {}
        for label, policy in players.items():
            if label not in others:
                played[label] = none_run if policy == none else best_run
            elif label not in notes.skipped:
                with notes.about(label):
                    played[label] = simulate(each, policy, **whole, progress=begin(label))
    oracles = tuple(label for label in played if players[label].oracle)
    return Comparison(played, none_run, best_run, oracles, notes.skipped, against or "")
