"""Records of what was done and what came of it: a row for each arm and round, in CSV or Parquet files.

======================  ============================================================================================
column                  is
======================  ============================================================================================
``arm``                 a name
``round``               a whole number, where the next round is one more, or a date
``state``               the state at the start of the round, 0 (bad) or 1 (good); empty if it was not observed
``action``              whether the arm was pulled in the round, 0 (no) or 1 (yes); empty if the next round has no row
``exposure``            the probability with which the arm was drawn in the round; empty if it was not in the draw
``drawn``               whether it was drawn, 0 or 1; by default the action. They differ where a draw was overridden
``due``                 the exposure that it was due in the round, where that may differ from the one it was given
any other               a feature of the arm, such as its district: the same in all its rows. Ignored unless asked for
======================  ============================================================================================

Every command reads these columns: `fit` needs the first four; `audit` needs arm, round, exposure and drawn (or action);
`effect` and `whatif` need all five. Rows may come in any order, and arms may join late and leave early.

What came of a round is the state in the arm's row for the next round, so two such rows make one *transition*. Where the
state was not observed there is a *gap*: the next state that is known says something of all rounds since the last, if
it is known what was done in each (:mod:`meritfair.model.gaps`). Where rounds have no row, it is not, and nothing is
counted across them; unless the log says that arms are not pulled in rounds without a row (``absent="not-pulled"``).

Where rounds are dates, a round is what most often lies between two rows of an arm: if that is 7 days, 14 days are a
gap. Dates that are all of the same day of the month are counted in months.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from os import PathLike
from typing import Any

import numpy as np
import numpy.typing as npt

from meritfair.core.arrays import AnyArray, BoolArray, DateArray, FloatArray, IntArray, frozen
from meritfair.core.checks import check_choice
from meritfair.core.errors import InputError, RowError
from meritfair.core.tables import Labels, column_names, first_duplicate, numbered, read_table, write_table
from meritfair.core.texts import several
from meritfair.datasets.log_columns import (
    LARGEST_ROUND,
    bit_array,
    check_actions,
    count_rounds,
    of_arms,
    probability_array,
    regular,
    round_array,
    with_absent,
)
from meritfair.model.counts import Counts, check_forget
from meritfair.model.gaps import Gaps

_COLUMNS = ("arm", "round", "state", "action")
_MORE_COLUMNS = ("exposure", "drawn", "due")
ABSENT = ("unknown", "not-pulled")  # what is known of rounds without a row
_STATES = "must be 0 (bad) or 1 (good), or false or true, or empty if not observed"
_ACTIONS = "must be 0 (not pulled) or 1 (pulled), or false or true, or empty if the arm has no row for the next round"


class StateLog:
    """What was recorded of each arm in each round, sorted by arm and then by round.

    Parameters
    ----------
    arms : iterable
        The name of the arm, for each row.
    rounds : array_like
        The number of the round, for each row: any whole numbers, where the next round is one more; or dates, as
        datetime64 or as numbers that are all of the form YYYYMMDD.
    states : array_like
        0 (bad) or 1 (good), for each row; -1, None or NaN where the state was not observed.
    actions : array_like
        0 (not pulled) or 1 (pulled), for each row; -1, None or NaN where the arm has no row for the next round.
    exposure, due : array_like, optional
        For each row the probability with which the arm was drawn, and the exposure that it was due; NaN where it was
        not in the draw.
    drawn : array_like, optional
        0 or 1, for each row, whether the arm was drawn; by default as `actions` says.
    features : mapping of str to sequence, optional
        Further columns, with a value for each row; the same in all rows of an arm.
    absent : {"unknown", "not-pulled"}
        What is known of the rounds between two rows of an arm that have no row: nothing, or that it was not pulled and
        its state not observed.

    Attributes
    ----------
    arms : tuple of str
        The names, in order of first appearance.
    arm : ndarray
        Which of them, for each row.
    rounds, states, actions : ndarray
        As above; what is not known is -1, and dates are counted in rounds from the first one, which is 0.
    exposure, due, drawn : ndarray, or None
        As above; `drawn` is -1 where it is not known.
    features : dict of str to tuple of str
        For each feature its value for each arm, as text; empty where it was.
    dates : ndarray of datetime64, or None
        The dates, where there are any, by day or by month.
    round_length : str
        How far apart dates are, such as "7 days"; empty where there are none.
    added : int
        How many rows were added for rounds without one.

    Examples
    --------
    >>> log = StateLog(["Ada", "Bo", "Ada", "Ada"], rounds=[1, 1, 2, 4], states=[0, 1, 1, 1], actions=[1, 0, 0, None])
    >>> log
    StateLog(4 rows of 2 arms: 1 transition, 1 gap)
    >>> log.counts.visits[0]
    array([[0, 1],
           [0, 0]])
    >>> StateLog(["Ada"] * 3, rounds=[1, 2, 3], states=[0, None, 1], actions=[1, 0, 0]).bridged.actions
    array([1, 0])
    """

    def __init__(
        self,
        arms: Iterable[object] | Labels,
        rounds: npt.ArrayLike,
        states: npt.ArrayLike | Sequence[float | None],
        actions: npt.ArrayLike | Sequence[float | None],
        *,
        exposure: npt.ArrayLike | None = None,
        drawn: npt.ArrayLike | Sequence[float | None] | None = None,
        due: npt.ArrayLike | None = None,
        features: Mapping[str, Sequence[object] | Labels] | None = None,
        absent: str = "unknown",
    ) -> None:
        self.arms, arm = numbered(arms)
        given = round_array(rounds)
        columns = {"rounds": given, "states": bit_array("states", states), "actions": bit_array("actions", actions)}
        for name, values in {"exposure": exposure, "due": due}.items():
            if values is not None:
                columns[name] = probability_array(name, values)
        if drawn is not None:
            columns["drawn"] = bit_array("drawn", drawn)
        if not len(arm) or any(column.shape != arm.shape for column in columns.values()):
            names = ", ".join(("arms", *columns))
            shapes = ", ".join(str(column.shape) for column in (arm, *columns.values()))
            raise InputError(f"{names} must have one value for each row, got shapes {shapes}")
        check_choice("absent", absent, ABSENT)
        self.features = {name: of_arms(name, values, arm, self.arms) for name, values in (features or {}).items()}
        self.round_length = ""
        if given.dtype.kind == "M":
            given = regular(given)
            columns["rounds"], self.round_length = count_rounds(given, arm, self.arms)
        twice = first_duplicate(columns["rounds"], arm)
        if twice:
            problem = f"the arm {self.arms[arm[twice[1]]]!r} already has round {given[twice[1]]} in"
            raise RowError(twice[1], "round", problem, twice[0])
        order = np.lexsort((columns["rounds"], arm))
        columns = {name: column[order] for name, column in columns.items()}
        columns |= {"arm": arm[order], "dates": given[order]}
        filled = absent == "not-pulled"
        check_actions(columns, order, self.arms, np.inf if filled else 1)
        columns, self.added = with_absent(columns) if filled else (columns, 0)
        self.arm, self.rounds = frozen(columns["arm"]), frozen(columns["rounds"])
        self.states, self.actions = frozen(columns["states"]), frozen(columns["actions"])
        self.exposure, self.due = (_frozen_or_none(columns.get(name)) for name in ("exposure", "due"))
        self.drawn = self.actions if self.exposure is not None else None
        if drawn is not None:
            self.drawn = frozen(columns["drawn"])
        self.dates: DateArray | None = frozen(columns["dates"]) if self.round_length else None

    def check_transitions(self) -> None:
        """Refuse a log in which arms have several rows, but none for two rounds in a row: they must be misnumbered."""
        if self._same_arm.any() and not self._followed.any():
            apart = np.gcd.reduce(np.diff(self.rounds)[self._same_arm])
            raise InputError(
                f"the log has no transitions: the next round must be one more, but rounds step by {apart} or more; "
                "number them 1, 2, 3 or write dates such as 2026-03-02"
            )

    @cached_property
    def _same_arm(self) -> BoolArray:
        """Whether the next row is of the same arm; one shorter than the rows."""
        return np.asarray(self.arm[1:] == self.arm[:-1])

    @cached_property
    def _followed(self) -> BoolArray:
        """Whether the next row is of the same arm's next round; one shorter than the rows."""
        return np.asarray(self._same_arm & (self.rounds[1:] - self.rounds[:-1] == 1))

    @cached_property
    def followed(self) -> BoolArray:
        """For each row, whether the arm has a row for the next round."""
        return np.append(self._followed, False)

    @cached_property
    def has_outcome(self) -> BoolArray:
        """For each row, whether its state and the state of the arm's next round were both observed."""
        seen = self.states >= 0
        return np.append(self._followed & seen[:-1] & seen[1:], False)

    @property
    def n_arms(self) -> int:
        """How many arms there are."""
        return len(self.arms)

    @property
    def transitions(self) -> int:
        """How many rows have an outcome: the state was observed, and that of the same arm's next round too."""
        return int(self.has_outcome.sum())

    @property
    def unobserved(self) -> int:
        """In how many rows the state was not observed."""
        return int((self.states < 0).sum())

    @property
    def gaps(self) -> int:
        """How often an arm was lost sight of for a round or more, and then seen again."""
        seen = self.arm[self.states >= 0]
        return int((seen[1:] == seen[:-1]).sum()) - self.transitions

    @property
    def bridged(self) -> Gaps:
        """The gaps of which it is known what was done in each round."""
        return self._bridged[0]

    @cached_property
    def _bridged(self) -> tuple[Gaps, IntArray]:
        """The gaps that can be bridged, and the round in which each ends."""
        seen = np.flatnonzero(self.states >= 0)
        broken = np.r_[0, np.cumsum(~self._followed)]  # rows with the same number follow each other
        before, after = seen[:-1], seen[1:]
        apart = (broken[before] == broken[after]) & (after - before > 1)
        before, after = before[apart], after[apart]
        first = np.r_[0, np.cumsum(after - before)]
        rows = np.arange(first[-1]) + np.repeat(before - first[:-1], after - before)
        gaps = Gaps(self.arm[before], self.states[before], self.states[after], first, self.actions[rows])
        return gaps, self.rounds[after]

    @cached_property
    def counts(self) -> Counts:
        """What followed what: counts of the transitions."""
        return self.counts_of(self.has_outcome)

    def counts_of(self, rows: BoolArray, worth: FloatArray | None = None) -> Counts:
        """Return the counts of the transitions of these rows, each as often as its row is worth; by default once."""
        now = np.flatnonzero(rows & self.has_outcome)
        where, good = 4 * self.arm[now] + 2 * self.states[now] + self.actions[now], self.states[now + 1] == 1
        each = None if worth is None else worth[now]
        visits = np.bincount(where, each, 4 * self.n_arms)
        among = np.bincount(where[good], None if each is None else each[good], 4 * self.n_arms)
        return Counts(visits.reshape(-1, 2, 2), np.minimum(among, visits).reshape(-1, 2, 2))

    def weighted_counts(self, forget: float) -> Counts:
        """Return counts in which a transition is worth `forget` to the power of its age in rounds.

        The age is how many rounds before the last of the log it was.
        """
        if forget == 1:
            return self.counts
        age = (self.rounds.max() - 1 - self.rounds).astype(np.float64)
        return self.counts_of(self.has_outcome, check_forget(forget) ** age)

    def weighted_gaps(self, forget: float) -> Gaps:
        """Return the gaps that are bridged, each with the worth that a transition at its end would have."""
        if forget == 1:
            return self.bridged
        worth = check_forget(forget) ** (self.rounds.max() - self._bridged[1]).astype(np.float64)
        return dataclasses.replace(self.bridged, weight=worth)

    @property
    def outcome_rounds(self) -> list[int]:
        """The rounds that have transitions, in order."""
        return [int(number) for number in np.unique(self.rounds[self.has_outcome])]

    def by_round(self) -> Iterator[tuple[IntArray, IntArray, IntArray, IntArray]]:
        """Yield the transitions of each round, in order: arms, states, actions and next states."""
        now = np.flatnonzero(self.has_outcome)
        now = now[np.argsort(self.rounds[now], kind="stable")]
        for rows in np.split(now, np.flatnonzero(np.diff(self.rounds[now])) + 1):
            yield self.arm[rows], self.states[rows], self.actions[rows], self.states[rows + 1]

    @property
    def first_rounds(self) -> IntArray:
        """The first round of each arm, shape (N,)."""
        return np.asarray(self.rounds[np.r_[True, ~self._same_arm]])

    @property
    def last_rounds(self) -> IntArray:
        """The last round of each arm, shape (N,)."""
        return np.asarray(self.rounds[np.r_[~self._same_arm, True]])

    def to_columns(self) -> dict[str, list[Any]]:
        """Return the log as columns of a table, as `read_log` reads them; what is not known is None."""
        columns: dict[str, list[Any]] = {
            "arm": [self.arms[i] for i in self.arm],
            "round": self.rounds.tolist() if self.dates is None else self.dates.astype(str).tolist(),
            "state": _known_bits(self.states),
            "action": _known_bits(self.actions),
        }
        for name, values in (("exposure", self.exposure), ("due", self.due)):
            if values is not None:
                columns[name] = [None if np.isnan(value) else value for value in values.tolist()]
        if self.drawn is not None and not np.array_equal(self.drawn, self.actions):
            columns["drawn"] = _known_bits(self.drawn)
        return columns | {name: [values[i] for i in self.arm] for name, values in self.features.items()}

    def save(self, path: str | PathLike[str]) -> None:
        """Write the log to a .csv or .parquet file, which replaces an old one once it is complete."""
        write_table(path, "observations", self.to_columns())

    def __len__(self) -> int:
        return len(self.rounds)

    def __repr__(self) -> str:
        rows, arms = several(len(self), "row"), several(self.n_arms, "arm")
        bridged = f", {len(self.bridged):,} of them bridged" * (len(self.bridged) > 0)
        seen = f"{several(self.transitions, 'transition')}, {several(self.gaps, 'gap')}{bridged}"
        return f"StateLog({rows} of {arms}: {seen})"


def read_log(path: str | PathLike[str], features: Sequence[str] = (), *, absent: str = "unknown") -> StateLog:
    r"""Read what was recorded from a .csv or .parquet file with the columns arm, round, state, action.

    Parameters
    ----------
    path : path
        The columns exposure, drawn and due are read as well if they are there, and others that `features` names.
    features : sequence of str
        Columns with features of the arms.
    absent : {"unknown", "not-pulled"}
        As for `StateLog`.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder, "log.csv")
    ...     _ = file.write_text("arm,round,state,action\nAda,1,0,1\nAda,2,1,0\nAda,3,1,\n")
    ...     read_log(file)
    StateLog(3 rows of 1 arm: 2 transitions, 0 gaps)
    """
    wanted = tuple(dict.fromkeys(features))
    known = [name for name in (*_COLUMNS, *_MORE_COLUMNS) if name in wanted]
    if known:
        raise InputError(f"features must be columns of their own, got {known[0]!r}")
    table = read_table(path, "observations", (*_COLUMNS, *wanted), _MORE_COLUMNS)
    more: dict[str, Any] = {
        name: table.numbers(name, 0, 1, may_be_empty=True) for name in ("exposure", "due") if name in table.columns
    }
    if "drawn" in table.columns:
        more["drawn"] = table.bits("drawn", may_be_empty=True)
    try:
        return StateLog(
            table.text("arm"),
            table.rounds("round", -LARGEST_ROUND, LARGEST_ROUND),
            table.bits("state", _STATES, may_be_empty=True),
            table.bits("action", _ACTIONS, may_be_empty=True),
            features={name: table.columns[name] for name in wanted},
            absent=absent,
            **{name: values for name, values in more.items() if not _all_unknown(values)},
        )
    except RowError as bad:
        raise table.located(bad) from None


def read_features(path: str | PathLike[str]) -> dict[str, tuple[str, ...]]:
    """Return every column of a file that is the same in all rows of an arm, with its value for each of the arms."""
    known = {*_COLUMNS, *_MORE_COLUMNS}
    names = [name for name in column_names(path, "observations") if name and name.lower() not in known]
    table = read_table(path, "observations", ("arm", *dict.fromkeys(names)))
    arms, arm = numbered(table.text("arm"))
    features = dict[str, tuple[str, ...]]()
    for name in names:
        with suppress(RowError):  # a column that changes is no feature
            features[name] = of_arms(name, table.columns[name], arm, arms)
    return features


def _known_bits(values: IntArray) -> list[int | None]:
    return [None if value < 0 else value for value in values.tolist()]


def _all_unknown(values: AnyArray) -> bool:
    """Whether all cells of a column are empty."""
    return bool((np.isnan(values) if values.dtype.kind == "f" else values < 0).all())


def _frozen_or_none(values: AnyArray | None) -> Any:
    return None if values is None else frozen(values)
