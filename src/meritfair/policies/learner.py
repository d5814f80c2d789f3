r"""A policy at work: it chooses who is pulled in a round, sees what came of it, and goes on from there.

A `Learner` is what a policy becomes outside of simulation. `choose` says who is pulled now, and with which chance each
arm was, given all that happened before; `observe` takes in what is known of the outcomes, whenever it is known. Between
the two nothing is assumed: rounds without outcomes, outcomes that come late, and arms of whom nothing was seen are all
in order. Arms may join and leave. What a learner knows goes into one file, and a learner that is loaded goes on exactly
as the one that was saved would have.

**Chances.** At given states each kind of plan is a draw with known chances. A lottery has its exposures. In a priority
table those above the K-th index are certain, and those level with it share what is left. A step learner explores with
a chance :math:`\varepsilon`, so its chances are :math:`\varepsilon` times those of the ranking that explores and
:math:`1 - \varepsilon` times those of the other. In a rotation those with the lowest turn are next; an arm's turn is
when it was last pulled, and until then all are level: so the line is drawn as it is needed.
"""

from __future__ import annotations

import copy
import dataclasses
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np

from meritfair.checks import check_budget, check_known, check_whole, float_array
from meritfair.errors import FileError, InputError
from meritfair.model.arms import Arms
from meritfair.model.counts import Counts
from meritfair.policies.base import View
from meritfair.policies.own import as_policy
from meritfair.policies.plans import PriorityTable, StepLearner, check_plan
from meritfair.policies.rows import Planned, Rows, generator, plain
from meritfair.seeding import fresh_seed, stream
from meritfair.storage import check_suffix, write_whole

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from os import PathLike

    import numpy.typing as npt

    from meritfair.arrays import BoolArray, FloatArray, IntArray
    from meritfair.policies.base import Policy
    from meritfair.policies.plans import AnyPlan

__all__ = ["Choice", "Learner"]

_FORMAT = "meritfair-learner-1"
_UNKNOWN = -1
_Bits: TypeAlias = "npt.ArrayLike | Sequence[float | None]"  # 0 and 1, or missing


@dataclass(frozen=True, eq=False)
class Choice:
    """Who is pulled in a round.

    Attributes
    ----------
    arms : ndarray of int
        The places of those who are pulled, in order.
    names : tuple of str
        Their names.
    actions : ndarray of int, shape (N,)
        1 for those who are pulled, 0 for the others.
    exposure : ndarray, shape (N,)
        The chance that each arm had, given all that happened before; its sum is the number of arms pulled.
    """

    arms: IntArray
    names: tuple[str, ...]
    actions: IntArray
    exposure: FloatArray


class Learner:
    """A policy at work on arms that nobody has simulated; made by `Policy.start`.

    Parameters
    ----------
    policy : Policy
    n_arms : int
        How many arms there are at first.
    budget : int
        Arms pulled in a round, if so many are available.
    seed : int, optional
        Fixes every draw; None takes a new one from the system, which `seed` then tells.
    horizon : int
        Rounds in an episode: the policy plans anew after so many.
    names : iterable of str, optional
        A different name for each arm; by default "arm-1", "arm-2" and so on.
    transitions : array_like, shape (N, 2, 2), optional
        The true arms, for policies that know them.

    Examples
    --------
    >>> import meritfair as mf
    >>> learner = mf.MeritFair(estimate="mean").start(n_arms=3, budget=1, seed=7, names=["Ada", "Bo", "Cy"])
    >>> choice = learner.choose(states=[0, 1, 0])
    >>> choice.names, choice.exposure.round(3)
    (('Ada',), array([0.333, 0.333, 0.333]))
    >>> learner.observe(states=[0, 1, 0], actions=choice.actions, next_states=[0, None, 1])
    >>> learner.counts.visits.sum()
    np.int64(2)
    """

    def __init__(
        self,
        policy: Policy,
        n_arms: int,
        budget: int,
        seed: int | None = None,
        *,
        horizon: int = 1,
        names: Iterable[str] | None = None,
        transitions: npt.ArrayLike | None = None,
    ) -> None:
        N = check_whole("n_arms", n_arms, 1)
        self.policy = as_policy(policy)
        self.budget = check_budget(budget, N)
        self.horizon = check_whole("horizon", horizon, 1)
        self.seed = fresh_seed(seed)
        self.round = 0  # how many choices were made
        arms = Arms(np.full((N, 2, 2), 0.5) if transitions is None else transitions, names)
        if arms.n_arms != N:
            raise InputError(f"transitions must hold the {N} arms, got {arms.n_arms}")
        self._names = arms.names
        self._numbered = N  # how many arms there ever were
        self._luck = stream(self.seed, "policy")
        self._plan: AnyPlan | None = None
        self._planned_from: Planned | None = None
        self._arms = Rows.none(self._truth_of(transitions, arms))
        self._tried: AnyPlan | None = self._try_plan(self._arms)  # settings that do not fit are told now

    def _truth_of(self, transitions: npt.ArrayLike | None, arms: Arms) -> FloatArray:
        """Return the true arms where they are known, if the policy needs to know them."""
        if transitions is not None:
            return np.array(arms.transitions)
        if self.policy.oracle:
            raise InputError(f"the policy {self.policy.name} knows the true arms: give their transitions")
        return np.full((arms.n_arms, 2, 2), np.nan)

    @property
    def n_arms(self) -> int:
        """How many arms there are now."""
        return len(self._names)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the arms, in the order of all arrays."""
        return self._names

    @property
    def counts(self) -> Counts:
        """What was seen of the arms."""
        return Counts(self._arms.visits, self._arms.good)

    def __repr__(self) -> str:
        return f"Learner({self.policy.name}: round {self.round}, {self.n_arms} arms, budget {self.budget})"

    # ---- choosing

    def choose(self, states: _Bits | None = None, available: npt.ArrayLike | None = None) -> Choice:
        """Draw who is pulled in the next round.

        Parameters
        ----------
        states : array_like of {0, 1}, shape (N,), optional
            The states of the arms now; None, NaN or -1 where a state is not known. Policies that look at states need
            those of all available arms.
        available : array_like of bool, shape (N,), optional
            Who can be pulled; by default everyone. If fewer than the budget are, all of them are pulled; by a plan with
            quotas, of each group no more than its quota.
        """
        now = _bits("states", states, self._names)
        can = _mask(available, self.n_arms)
        before = self._plan, self._planned_from, self._arms.copy(), self._luck.bit_generator.state
        try:
            exposure, pulled = self._choose(now, can, before[2])
        except BaseException:  # nothing has happened
            self._plan, self._planned_from, self._arms, self._luck.bit_generator.state = before
            raise
        places = np.flatnonzero(pulled)
        self._go_to_the_end_of_the_line(places)
        self._arms.pulled[:] = pulled
        self.round += 1
        return Choice(places, tuple(self._names[arm] for arm in places), pulled.astype(np.int64), exposure)

    def _choose(self, states: IntArray, can: BoolArray, before: Rows) -> tuple[FloatArray, BoolArray]:
        """Return the chances of all arms and who of them is pulled, by a new plan if it is time for one.

        `before` is a copy of what is kept of the arms, for the plan to be made again from.
        """
        plan = self._plan
        if self.round % self.horizon == 0 or plan is None:
            plan = self._make_plan(states, before)
        exposure, pulled = np.zeros(self.n_arms), np.zeros(self.n_arms, np.bool_)
        budget = min(self.budget, int(can.sum()))
        if budget > 0:
            exposure[can], pulled[can] = self._draw(plan, states, can, budget)
        elif isinstance(plan, StepLearner):
            self._ranking(plan, self._memory_of(plan), np.maximum(states, 0), False)  # notes who was pulled before
        return exposure, pulled

    def _go_to_the_end_of_the_line(self, places: IntArray) -> None:
        """Note that arms have had their turn; among themselves they stay in line, and those level come in any order."""
        turn = self._arms.turn
        order = np.lexsort((self._luck.random(len(places)), turn[places]))
        turn[places[order]] = self.round + 1 + np.arange(len(places)) / len(places)

    def _make_plan(self, states: IntArray, rows: Rows) -> AnyPlan:
        """Make the plan of a new episode, and note what it is made from, so that it can be made again."""
        noted = Planned(self.round // self.horizon + 1, self.round, rows, states, self._luck.bit_generator.state)
        plan = self._planned(noted, self._luck)
        if isinstance(plan, StepLearner) and not plan.keeps_memory:
            self._arms.memory = None
        self._plan, self._planned_from = plan, noted
        return plan

    def _memory_of(self, plan: StepLearner) -> FloatArray:
        """Return what is known now; at first it is what the plan begins with."""
        if self._arms.memory is None:
            self._arms.memory = np.array(plan.memory, order="C")
        return self._arms.memory

    def _planned(self, planned: Planned, luck: np.random.Generator) -> AnyPlan:
        """Return the plan that the policy makes from this."""
        rows, n_arms = planned.rows, len(planned.rows.pulled)
        budget = min(self.budget, n_arms)
        seen = Counts(rows.visits, rows.good)
        view = View(seen, planned.episode, budget, rows.truth, (luck,), planned.states, rows.memory, planned.round)
        return check_plan(self.policy.plan(view), n_arms, budget)

    def _try_plan(self, rows: Rows) -> AnyPlan:
        """Return the plan for arms of which nothing is remembered, which is not followed; no random number is used."""
        unknown = np.full(len(rows.pulled), _UNKNOWN)
        forgot = dataclasses.replace(rows, memory=None)
        planned = Planned(self.round // self.horizon + 1, self.round, forgot, unknown, {})
        return self._planned(planned, copy.deepcopy(self._luck))

    def _draw(self, plan: AnyPlan, states: IntArray, can: BoolArray, budget: int) -> tuple[FloatArray, BoolArray]:
        """Return the chances of the available arms and who of them is pulled."""
        if isinstance(plan, StepLearner):
            return self._draw_by_rank(plan, states, can, budget)
        if isinstance(plan, PriorityTable) and plan.looks_at_states:
            self._check_known(states, can)
        here = plan.at(states, self._arms.turn).among(can, budget)
        return here.chances(budget), here.draw(budget, self._luck)

    def _draw_by_rank(
        self, plan: StepLearner, states: IntArray, can: BoolArray, budget: int
    ) -> tuple[FloatArray, BoolArray]:
        self._check_known(states, can)
        memory = self._memory_of(plan)
        known = np.maximum(states, 0)  # of those who are not available
        chance = 0.0 if plan.explore is None else float(np.clip(plan.explore(memory, self.round), 0.0, 1.0))
        exploring = bool(self._luck.random() < chance)
        before = memory.copy()
        here = self._ranking(plan, memory, known, exploring).among(can, budget)
        exposure, pulled = here.chances(budget), here.draw(budget, self._luck)
        other = (1 - chance) if exploring else chance
        if other > 0:
            exposure *= 1 - other
            there = self._ranking(plan, before, known, not exploring).among(can, budget)
            exposure += other * there.chances(budget)
        return exposure, pulled

    def _ranking(self, plan: StepLearner, memory: FloatArray, states: IntArray, exploring: bool) -> PriorityTable:
        index = np.full(self.n_arms, np.nan)
        plan.rank(memory, states, self._arms.pulled, self.round, exploring, index)
        missing = np.flatnonzero(np.isnan(index))
        if len(missing):
            raise InputError(f"rank must set a number for each arm, got nan for {self._names[missing[0]]!r}")
        return PriorityTable.of(index)

    def _check_known(self, states: IntArray, can: BoolArray) -> None:
        missing = np.flatnonzero((states == _UNKNOWN) & can)
        if len(missing):
            raise InputError(
                f"the policy {self.policy.name} looks at states: that of {self._names[missing[0]]!r} must be known"
            )

    # ---- learning

    def observe(self, states: _Bits, actions: _Bits, next_states: _Bits) -> None:
        """Take in what was seen of a round, of this one or an earlier one.

        Parameters
        ----------
        states, actions, next_states : array_like of {0, 1}, shape (N,)
            The state of each arm before, whether it was pulled, and its state after. None, NaN or -1 where something
            is not known: then nothing is learned of that arm.
        """
        before = _bits("states", states, self._names)
        done = _bits("actions", actions, self._names)
        after = _bits("next_states", next_states, self._names)
        seen = np.flatnonzero((before >= 0) & (done >= 0) & (after >= 0))
        rows, s, a, following = self._arms, before[seen], done[seen], after[seen]
        rows.visits[seen, s, a] += 1
        rows.good[seen, s, a] += following
        if self._plan is None and self._tried is None:
            self._tried = self._try_plan(rows)
        plan = self._plan or self._tried  # outcomes may come before there is a plan
        if isinstance(plan, StepLearner) and plan.learn is not None:
            memory = self._memory_of(plan)
            known = memory[seen]
            plan.learn(known, s, a, following)
            memory[seen] = known

    # ---- who is there

    def join(self, names: int | str | Iterable[str] = 1, transitions: npt.ArrayLike | None = None) -> tuple[str, ...]:
        """Let arms join, by name or so many; they come last in all arrays. Return their names.

        Nothing is known of them, and in a rotation they are next. Oracles need their transitions.
        """
        if isinstance(names, (int, np.integer)):
            new = tuple(f"arm-{self._numbered + i + 1}" for i in range(check_whole("names", names, 1)))
        else:
            new = (names,) if isinstance(names, str) else tuple(names)
        everyone = (*self._names, *new)
        Arms(np.full((len(everyone), 2, 2), 0.5), everyone)  # checks that all names differ
        arms = Arms(np.full((len(new), 2, 2), 0.5) if transitions is None else transitions, new)
        rows = self._arms.with_more(Rows.none(self._truth_of(transitions, arms)))
        plan = self._try_plan(rows)
        if isinstance(plan, StepLearner) and self._arms.memory is not None:
            rows.memory = np.concatenate([self._arms.memory, plan.memory[self.n_arms :]])
        self._change_arms(everyone, rows, plan)
        self._numbered += len(new)
        return new

    def leave(self, arms: Iterable[int | str]) -> None:
        """Let arms leave, by place or by name; those behind them move up in all arrays."""
        places = {self._place(arm) for arm in ([arms] if isinstance(arms, (int, str)) else arms)}
        stay = np.array([place for place in range(self.n_arms) if place not in places], dtype=np.int64)
        if len(stay) == 0:
            raise InputError("at least one arm must stay")
        rows = self._arms.only(stay)
        plan = self._try_plan(rows)
        self._change_arms(tuple(self._names[place] for place in stay), rows, plan)

    def _place(self, arm: int | str) -> int:
        if isinstance(arm, str):
            return self._names.index(check_known("arm", arm, self._names))
        return check_whole("arm", arm, 0, self.n_arms - 1)

    def _change_arms(self, names: tuple[str, ...], rows: Rows, tried: AnyPlan) -> None:
        self._names, self._arms, self._tried = names, rows, tried
        self._plan = self._planned_from = None  # it was made for others

    # ---- keeping

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values, which JSON can hold."""
        return {
            "policy": {"name": self.policy.name, **self.policy.settings()},
            "budget": self.budget,
            "horizon": self.horizon,
            "seed": self.seed,
            "round": self.round,
            "names": list(self._names),
            "numbered": self._numbered,
            "luck": plain(self._luck.bit_generator.state),
            "arms": self._arms.to_dict(),
            "planned_from": None if self._planned_from is None else self._planned_from.to_dict(),
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], policy: Policy | None = None) -> Learner:
        """Return the learner that `to_dict` has described.

        Parameters
        ----------
        values : mapping
        policy : Policy, optional
            The policy, if its name and settings do not say it all: one of your own that is not registered, or a merit
            function of your own.
        """
        from meritfair.policies.registry import from_settings

        learner = cls.__new__(cls)
        learner.policy = from_settings(values["policy"]) if policy is None else policy
        if learner.policy.name != values["policy"]["name"]:
            raise InputError(f"this learner has the policy {values['policy']['name']!r}, not {learner.policy.name!r}")
        learner.budget, learner.horizon = values["budget"], values["horizon"]
        learner.seed, learner.round = values["seed"], values["round"]
        learner._names, learner._numbered = tuple(values["names"]), values["numbered"]
        learner._arms = Rows.from_dict(values["arms"])
        learner._luck = generator(values["luck"])
        learner._plan = learner._tried = learner._planned_from = None
        if values["planned_from"] is not None:
            planned = learner._planned_from = Planned.from_dict(values["planned_from"])
            learner._plan = learner._planned(planned, generator(planned.luck))
        return learner

    def save(self, path: str | PathLike[str]) -> None:
        """Write everything to one .json file, which replaces an old one once it is complete."""
        file = Path(path)
        check_suffix(file, "learners", (".json",))
        values = self.to_dict()
        try:
            text = json.dumps({"format": _FORMAT, "digest": _digest(values), **values})
        except TypeError as error:
            raise InputError(f"the settings of the policy {self.policy.name} must be plain values: {error}") from None
        write_whole(file, lambda temporary: temporary.write_text(text, encoding="utf-8"))

    @classmethod
    def load(cls, path: str | PathLike[str], policy: Policy | None = None) -> Learner:
        """Read a learner that `save` has written; `policy` is as for `from_dict`."""
        file = Path(path)
        check_suffix(file, "learners", (".json",))
        if not file.is_file():
            raise FileError(file, "there is no such file")
        try:
            values = json.loads(file.read_text(encoding="utf-8"))
            found, digest = values.pop("format"), values.pop("digest")
            if found != _FORMAT:
                raise ValueError(f"its format is {found}, not {_FORMAT}")
            if digest != _digest(values):
                raise ValueError("its contents do not match their checksum")
        except Exception as error:  # damaged bytes can make a reader fail in any way
            raise FileError(file, f"does not hold a whole learner saved by meritfair ({error})") from error
        return cls.from_dict(values, policy)


def _bits(name: str, values: _Bits | None, names: Sequence[str]) -> IntArray:
    """Return one 0 or 1 for each arm, -1 where it is not known."""
    if values is None:
        return np.full(len(names), _UNKNOWN)
    given = float_array(name, cast("npt.ArrayLike", values))  # None becomes NaN
    if given.shape != (len(names),):
        raise InputError(f"{name} must have one value for each of the {len(names)} arms, got shape {given.shape}")
    known = np.where(np.isnan(given), _UNKNOWN, given)
    wrong = np.flatnonzero((known != _UNKNOWN) & (known != 0) & (known != 1))
    if len(wrong):
        raise InputError(f"{name} must be 0 or 1, or missing, got {given[wrong[0]]:g} for {names[wrong[0]]!r}")
    return known.astype(np.int64)


def _mask(available: npt.ArrayLike | None, n_arms: int) -> BoolArray:
    """Return who is available."""
    if available is None:
        return np.ones(n_arms, np.bool_)
    given = np.asarray(available)
    if given.shape != (n_arms,) or not np.all((given == 0) | (given == 1)):
        raise InputError(f"available must say yes or no for each of the {n_arms} arms, got {available!r}")
    return given.astype(np.bool_)


def _digest(values: Mapping[str, Any]) -> str:
    """Return a checksum of everything in a file, so that a damaged one is never taken for a whole one."""
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()
