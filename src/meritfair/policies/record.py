"""All that a learner knows, apart from its policy: it can be saved, and a learner resumes from it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from meritfair.core.arrays import Int8Array, IntArray
from meritfair.core.checks import check_whole
from meritfair.core.errors import InputError
from meritfair.core.seeding import fresh_seed, stream
from meritfair.datasets.logs import StateLog
from meritfair.model.arms import Arms
from meritfair.model.counts import check_forget
from meritfair.model.gaps import Gaps, fill
from meritfair.model.rules import Budget, Rules, check_budgets
from meritfair.policies.enrolment import Enrolment
from meritfair.policies.learner_file import Saves, saves_of
from meritfair.policies.rows import Known, Rows, array_of, part
from meritfair.policies.track import gaps_of


@dataclass(frozen=True, eq=False)
class Origin:
    """What a plan was made from, so that it can be made again."""

    episode: int
    round: int
    rows: Known
    states: IntArray
    rng: Mapping[str, Any]  # the state of the generator before

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values."""
        return vars(self) | {"rows": self.rows.to_dict(), "states": self.states.tolist()}

    @classmethod
    def from_dict(cls, values: Any, n_arms: int, last_round: int) -> Origin:
        """Return what `to_dict` has described, for that many arms."""
        states = array_of("states", part(values, "states"), n_arms)
        episode = check_whole("episode", part(values, "episode"), 1, last_round + 1)
        number = check_whole("the round of the plan", part(values, "round"), 0, last_round)
        rows, rng = Known.from_dict(part(values, "rows"), n_arms), generator(part(values, "rng"))
        return cls(episode, number, rows, states, rng.bit_generator.state)


@dataclass(eq=False)
class Record:
    """All that a learner knows, apart from its policy and its plan."""

    budget: Budget
    horizon: int
    seed: int
    names: tuple[str, ...]
    numbered: int  # how many arms have ever joined
    rng: np.random.Generator
    arms: Rows
    round: int = 0  # how many choices were made
    departed: dict[str, Rows] = field(default_factory=dict)  # what is kept of those who have left
    saves: Saves = ()
    rules: Rules = field(default_factory=Rules)
    forget: float = 1.0  # what an outcome is worth one round later
    before: int = 0  # columns of tracks before that of the first round, for gaps of the history
    features: Enrolment = field(default_factory=Enrolment)  # also of those who have left

    @classmethod
    def new(
        cls,
        names: tuple[str, ...],
        arms: Rows,
        budget: Any,
        seed: int | None,
        horizon: int,
        rules: Rules,
        forget: float,
    ) -> Record:
        """Return the record before the first round; budget, seed, horizon and so on are those of `Policy.start`."""
        cycle, steps, seed = check_budgets(budget, len(arms)), check_whole("horizon", horizon, 1), fresh_seed(seed)
        kept = check_forget(forget)
        return cls(cycle, steps, seed, names, len(arms), stream(seed, "policy"), arms, rules=rules, forget=kept)

    def gaps(self) -> Gaps:
        """Return the gaps of the arms, each with its weight."""
        columns = self.arms.track.shape[1]
        ages = self.round - 1.0 - (np.arange(columns) - self.before)
        return gaps_of(self.arms.track, np.minimum(ages, self.round), self.forget)

    def known(self) -> Known:
        """Return a copy of what plans are made from: what was seen of the arms, with what gaps are worth."""
        rows = self.arms
        seen = fill(rows.counts, self.gaps()).effective
        return Known(rows.truth.copy(), seen.visits, seen.good, None if rows.memory is None else rows.memory.copy())

    def slots(self, number: int) -> Int8Array:
        """Return what is known of a round of all arms, to look at and to change."""
        return self.arms.slots(self.before + number - 1)

    @property
    def cycle(self) -> tuple[int, ...]:
        """The budgets of rounds, which repeat."""
        return (self.budget,) if isinstance(self.budget, int) else self.budget

    @property
    def budget_now(self) -> int:
        """The budget of the next round."""
        return self.cycle[self.round % len(self.cycle)]

    def most_due(self, budget: int) -> float:
        """Return the most that an arm is due by the rules in a round with this budget."""
        return self.rules.most_due(budget, self.cycle)

    def to_dict(self) -> dict[str, Any]:
        """Return the record as plain values."""
        return vars(self) | {
            "budget": list(self.budget) if isinstance(self.budget, tuple) else self.budget,
            "names": list(self.names),
            "rng": self.rng.bit_generator.state,
            "arms": self.arms.to_dict(),
            "departed": {name: rows.to_dict() for name, rows in self.departed.items()},
            "saves": [list(each) for each in self.saves],
            "rules": self.rules.settings(),
            "features": self.features.to_dict(),
        }

    @classmethod
    def from_dict(cls, values: Any) -> Record:
        """Return the record that `to_dict` has described; nothing in it is trusted."""
        names, departed = part(values, "names"), part(values, "departed")
        if not isinstance(names, (list, tuple)):
            raise InputError(f"names must be a list, got {names!r}")
        if not isinstance(departed, Mapping):
            raise InputError(f"departed must be a mapping by name, got {departed!r}")
        arms = Rows.from_dict(part(values, "arms"), len(names))
        check_names((*names, *departed))
        numbered = check_whole("numbered", part(values, "numbered"), len(names))
        record = cls(
            budget=check_budgets(part(values, "budget"), numbered),
            horizon=check_whole("horizon", part(values, "horizon"), 1),
            seed=check_whole("seed", part(values, "seed"), 0),
            names=tuple(names),
            numbered=numbered,
            rng=generator(part(values, "rng")),
            arms=arms,
            round=check_whole("round", part(values, "round"), 0, 2**53),
            departed={name: Rows.from_dict(rows, 1) for name, rows in departed.items()},
            saves=saves_of(values),
            rules=Rules.from_settings(part(values, "rules")),
            forget=check_forget(part(values, "forget")),
            before=check_whole("before", part(values, "before"), 0, 2**31),
            features=Enrolment.from_dict(values.get("features"), (*names, *departed)),
        )
        for rows in (arms, *record.departed.values()):
            check_whole("the last round reported", rows.last_reported, 0, record.round)
            check_whole("the length of a track", rows.track.shape[1], 0, record.before + record.round)
        return record


def first_arms(
    n_arms: int | None, names: Iterable[str] | None, transitions: npt.ArrayLike | None, history: StateLog | None
) -> tuple[tuple[str, ...], Rows]:
    """Return the names and rows of the arms that there are at first; the parameters are those of `Policy.start`."""
    if not (history is None or isinstance(history, StateLog)):
        raise InputError(f"history must be a StateLog, such as read_log returns, got {history!r}")
    labels = None if names is None else tuple(as_list(names))
    if labels is None and history is not None:
        labels = history.arms
    if n_arms is None and labels is None and transitions is None:
        raise InputError("n_arms must be given if there are neither names nor transitions nor a history")
    number = len(labels or ()) if n_arms is None else check_whole("n_arms", n_arms, 1)
    arms = Arms(np.full((number, 2, 2), 0.5) if transitions is None else transitions, labels)
    if n_arms is not None and arms.n_arms != number:
        raise InputError(f"transitions must hold the {number} arms, got {arms.n_arms}")
    return arms.names, Rows.none(arms.n_arms, None if transitions is None else arms.transitions)


def enrolled(names: tuple[str, ...], features: Any, history: StateLog | None) -> Enrolment:
    """Return the features that are given or, where none are, those of the history."""
    if features is not None or history is None or not history.features:
        return Enrolment().with_features(names, features)
    return Enrolment().with_features(history.arms, history.features)


def check_names(names: tuple[str, ...]) -> None:
    """Refuse names that are not text, or not all different."""
    Arms(np.full((len(names), 2, 2), 0.5), names)


def as_list(given: Any) -> list[Any]:
    """Return one thing, or several, as a list."""
    if isinstance(given, str):
        return [given]
    try:
        return list(given)
    except TypeError:  # it is one
        return [given]


def generator(state: Any) -> np.random.Generator:
    """Return a generator in a state that was kept."""
    made = np.random.default_rng(0)
    try:
        made.bit_generator.state = dict(state)
    except (TypeError, ValueError, KeyError, OverflowError) as error:
        raise InputError(f"rng must be the state of a PCG64 generator: {type(error).__name__}, {error}") from None
    return made
