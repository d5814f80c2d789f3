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
import functools
import itertools
import secrets
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

import numpy as np

from meritfair.core.checks import check_budget, check_known, check_whole
from meritfair.core.errors import FileError, InputError
from meritfair.core.seeding import fresh_seed, stream
from meritfair.core.storage import check_suffix
from meritfair.datasets.logs import Log
from meritfair.model.arms import Arms
from meritfair.policies import learner_file
from meritfair.policies.base import View
from meritfair.policies.by_name import UNKNOWN, bits
from meritfair.policies.drawing import Situation
from meritfair.policies.own import as_policy
from meritfair.policies.plans import StepLearner, check_plan
from meritfair.policies.rows import Planned, Rows, generator, part, plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from os import PathLike

    import numpy.typing as npt

    from meritfair.core.arrays import BoolArray, FloatArray, IntArray
    from meritfair.model.counts import Counts
    from meritfair.policies.base import Policy
    from meritfair.policies.by_name import Bits
    from meritfair.policies.learner_file import Saves
    from meritfair.policies.plans import AnyPlan
    from meritfair.policies.rows import Known

__all__ = ["Choice", "Learner"]

_Given = ParamSpec("_Given")
_Result = TypeVar("_Result")


def _one_at_a_time(
    method: Callable[Concatenate[Learner, _Given], _Result],
) -> Callable[Concatenate[Learner, _Given], _Result]:
    """Let threads that share a learner wait for each other."""

    @functools.wraps(method)
    def alone(self: Learner, /, *args: _Given.args, **kwargs: _Given.kwargs) -> _Result:
        with self._lock:
            return method(self, *args, **kwargs)

    return alone


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
    round : int
        The number of the round, from 1.
    """

    arms: IntArray
    names: tuple[str, ...]
    actions: IntArray
    exposure: FloatArray
    round: int


class Learner:
    """A policy at work on arms that nobody has simulated; made by `Policy.start`.

    Parameters
    ----------
    policy : Policy
    n_arms : int, optional
        How many arms there are at first; by default as many as `names`, `transitions` or `history` have.
    budget : int
        Arms pulled in a round, if so many are available.
    seed : int, optional
        Fixes every draw; None takes a new one from the system, which `seed` then tells.
    horizon : int
        Rounds in an episode: the policy plans anew after so many.
    names : iterable of str, optional
        A different name for each arm; by default those of `history`, or "arm-1", "arm-2" and so on.
    transitions : array_like, shape (N, 2, 2), optional
        The true arms, for policies that know them.
    history : Log, optional
        What was recorded before: all its transitions are taken in, in order. Arms that it does not name are unknown;
        those that it names and `names` does not have left, and bring what was seen of them when they join.

    Examples
    --------
    >>> import meritfair as mf
    >>> learner = mf.MeritFair(estimate="mean").start(n_arms=3, budget=1, seed=7, names=["Ada", "Bo", "Cy"])
    >>> choice = learner.choose(states=[0, 1, 0])
    >>> choice.names, choice.exposure.round(3)
    (('Ada',), array([0.333, 0.333, 0.333]))
    >>> learner.observe([0, 1, 0], choice.actions, {"Ada": 0, "Cy": 1}, round=choice.round)
    >>> learner.counts.visits.sum()
    np.int64(2)
    """

    def __init__(
        self,
        policy: Policy,
        n_arms: int | None = None,
        budget: int | None = None,
        seed: int | None = None,
        *,
        horizon: int = 1,
        names: Iterable[str] | None = None,
        transitions: npt.ArrayLike | None = None,
        history: Log | None = None,
    ) -> None:
        arms = _first_arms(n_arms, names, transitions, history)
        self.policy = as_policy(policy)
        self.budget = check_budget(budget, arms.n_arms)
        self.horizon = check_whole("horizon", horizon, 1)
        self.seed = fresh_seed(seed)
        self.round = 0  # how many choices were made
        self._names = arms.names
        self._numbered = arms.n_arms  # how many have joined
        self._luck = stream(self.seed, "policy")
        self._arms = Rows.none(
            np.full(arms.transitions.shape, np.nan) if transitions is None else arms.transitions.copy()
        )
        self._departed: dict[str, Rows] = {}  # what is kept of those who have left
        self._plan: AnyPlan | None = None
        self._planned_from: Planned | None = None
        self._saves: Saves = ()  # before those of this program
        self._token, self._saved = secrets.token_hex(4), 0  # of this program, and in how many states it was saved
        self._changed = True  # since it was saved or loaded
        self._lock = threading.RLock()
        self._tried: AnyPlan | None = self._try_plan(self._arms)  # settings that do not fit are told now
        if history is not None:
            self._take_in_history(history)

    @property
    def n_arms(self) -> int:
        """How many arms there are now."""
        return len(self._names)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the arms, in the order of all arrays."""
        return self._names

    @property
    def departed(self) -> tuple[str, ...]:
        """The names of those who have left and are not forgotten."""
        return tuple(self._departed)

    @property
    def counts(self) -> Counts:
        """What was seen of the arms."""
        with self._lock:
            return self._arms.counts

    def __repr__(self) -> str:
        return f"Learner({self.policy.name}: round {self.round}, {self.n_arms} arms, budget {self.budget})"

    # ---- choosing

    @_one_at_a_time
    def choose(self, states: Bits | None = None, available: Bits | None = None) -> Choice:
        """Draw who is pulled in the next round.

        Parameters
        ----------
        states : array_like of {0, 1}, shape (N,), or by name, optional
            The states of the arms now; None, NaN or -1 where a state is not known. Policies that look at states need
            those of all available arms.
        available : array_like of bool, shape (N,), or by name, optional
            Who can be pulled; by default everyone. It must say so of each arm. If fewer than the budget are available,
            all of them are pulled; by a plan with quotas, of each group no more than its quota.

        Notes
        -----
        By name means a mapping such as ``{"Ada": 1, "Bo": 0}`` or a pandas Series with names as its index. Who is not
        in it is unknown. Masked values are unknown too.
        """
        now = self._bits("states", states)
        can = np.ones(self.n_arms, np.bool_) if available is None else self._available(available)
        plans, known, luck = (self._plan, self._planned_from), self._arms.known(), self._luck.bit_generator.state
        try:
            exposure, pulled = self._choose(now, can, known)
        except BaseException:  # nothing has happened
            (self._plan, self._planned_from), self._arms.memory = plans, known.memory
            self._luck.bit_generator.state = luck
            raise
        places = np.flatnonzero(pulled)
        self._go_to_the_end_of_the_line(places)
        self._arms.pulled[:] = pulled
        self.round += 1
        self._changed = True
        chosen = tuple(self._names[arm] for arm in places)
        return Choice(places, chosen, pulled.astype(np.int64), exposure, self.round)

    def _bits(self, name: str, values: Bits | None) -> IntArray:
        return bits(name, values, self._names, self._departed)

    def _available(self, available: Bits) -> BoolArray:
        """Return who is available; to leave someone out of a draw has to be said."""
        can = self._bits("available", available)
        unsaid = np.flatnonzero(can == UNKNOWN)
        if len(unsaid):
            raise InputError(
                f"available must say yes or no for each of the {self.n_arms} arms, "
                f"it does not for {self._names[unsaid[0]]!r}"
            )
        return can.astype(np.bool_)

    def _choose(self, states: IntArray, can: BoolArray, before: Known) -> tuple[FloatArray, BoolArray]:
        """Return the chances of all arms and who of them is pulled, by a new plan if it is time for one.

        `before` is a copy of what is kept of the arms, for the plan to be made again from.
        """
        plan = self._plan
        if self.round % self.horizon == 0 or plan is None:
            plan = self._make_plan(states, before)
        here = Situation(self.policy.name, self._names, self._arms, states, can, self.round, self._luck)
        return here.draw(plan, self.budget)

    def _go_to_the_end_of_the_line(self, places: IntArray) -> None:
        """Note that arms have had their turn; among themselves they stay in line, and those level come in any order."""
        turn = self._arms.turn
        order = np.lexsort((self._luck.random(len(places)), turn[places]))
        turn[places[order]] = self.round + 1 + np.arange(len(places)) / len(places)

    def _make_plan(self, states: IntArray, rows: Known) -> AnyPlan:
        """Make the plan of a new episode, and note what it is made from, so that it can be made again."""
        noted = Planned(self.round // self.horizon + 1, self.round, rows, states, self._luck.bit_generator.state)
        plan = self._planned(noted, self._luck)
        if isinstance(plan, StepLearner) and not plan.keeps_memory:
            self._arms.memory = None
        self._plan, self._planned_from = plan, noted
        return plan

    def _planned(self, planned: Planned, luck: np.random.Generator) -> AnyPlan:
        """Return the plan that the policy makes from this."""
        rows, budget = planned.rows, min(self.budget, len(planned.rows))
        if self.policy.oracle and np.isnan(rows.truth).any():
            raise InputError(f"the policy {self.policy.name} knows the true arms: give their transitions")
        seen = rows.counts, planned.episode, budget, rows.truth
        view = View(*seen, (luck,), planned.states, rows.memory, planned.round)
        return check_plan(self.policy.plan(view), len(rows), budget)

    def _try_plan(self, rows: Rows) -> AnyPlan:
        """Return the plan for arms of which nothing is remembered, which is not followed; no random number is used."""
        unknown, forgot = np.full(len(rows), UNKNOWN), dataclasses.replace(rows, memory=None)
        planned = Planned(self.round // self.horizon + 1, self.round, forgot, unknown, {})
        return self._planned(planned, copy.deepcopy(self._luck))

    # ---- learning

    @_one_at_a_time
    def observe(
        self,
        states: Bits,
        actions: Bits,
        next_states: Bits,
        *,
        round: int | None = None,  # noqa: A002
    ) -> None:
        """Take in what was seen of a round, of this one or an earlier one.

        Parameters
        ----------
        states, actions, next_states : array_like of {0, 1}, shape (N,), or by name as for `choose`
            The state of each arm before, whether it was pulled, and its state after. None, NaN or -1 where something
            is not known: then nothing is learned of that arm.
        round : int, optional
            The number of the round, `Choice.round`. Then the outcome of an arm in a round is taken in once: if one of
            these was already, all are refused. Those that are not known may follow later.
        """
        before, done, after = (
            self._bits(name, values)
            for name, values in (("states", states), ("actions", actions), ("next_states", next_states))
        )
        seen = np.flatnonzero((before >= 0) & (done >= 0) & (after >= 0))
        if round is None:
            self._take_in(seen, before[seen], done[seen], after[seen])
            return
        number = check_whole("round", round, 1, self.round, f"{self.round}, the last one chosen")
        twice = seen[self._arms.was_reported(seen, number) == 1]
        if len(twice):
            raise InputError(
                f"the outcome of {self._names[twice[0]]!r} in round {number} was observed already; "
                "nothing of this call was taken in"
            )
        self._take_in(seen, before[seen], done[seen], after[seen])
        self._arms.note_reported(seen, number)

    def _take_in(self, arms: IntArray, states: IntArray, actions: IntArray, following: IntArray) -> None:
        """Count transitions, at most one of each arm, and let a step learner learn from them."""
        if self._plan is None and self._tried is None:
            self._tried = self._try_plan(self._arms)
        rows, plan = self._arms, self._plan or self._tried  # outcomes may come before there is a plan
        if isinstance(plan, StepLearner) and plan.learn is not None:
            memory = np.array(plan.memory, order="C") if rows.memory is None else rows.memory
            known = memory[arms]
            plan.learn(known, states, actions, following)
            memory[arms], rows.memory = known, memory
        rows.visits[arms, states, actions] += 1
        rows.good[arms, states, actions] += following
        self._changed = True

    def _take_in_history(self, history: Log) -> None:
        """Take in what was recorded before the first round, also of those who are not there now."""
        history.check_transitions()
        place = {name: i for i, name in enumerate(self._names)}
        places = np.array([place.get(name, -1) for name in history.arms])
        for arms, states, actions, following in history.by_round():
            here = places[arms] >= 0
            self._take_in(places[arms[here]], states[here], actions[here], following[here])
        for arm in np.flatnonzero(places < 0):
            rows = Rows.none(np.full((1, 2, 2), np.nan))
            rows.visits[0], rows.good[0] = history.counts.visits[arm], history.counts.good[arm]
            self._departed[history.arms[arm]] = rows

    # ---- who is there

    @_one_at_a_time
    def join(self, names: int | str | Iterable[str] = 1, transitions: npt.ArrayLike | None = None) -> tuple[str, ...]:
        """Let arms join, by name or so many; they come last in all arrays. Return their names.

        Who has left and joins again by the same name has all that was known of them. Nothing is known of the others,
        and in a rotation they are next. Oracles need the transitions of those they do not know.
        """
        new = self._new_names(names)
        everyone = (*self._names, *new)
        Arms(np.full((len(everyone), 2, 2), 0.5), everyone)  # checks that all names differ
        rows = self._arms.with_more(Rows.none(np.full((len(new), 2, 2), np.nan)))
        back = {place: self._departed[name] for place, name in enumerate(everyone) if name in self._departed}
        for place, known in back.items():
            rows.put(place, known)
        if transitions is not None:
            rows.truth[self.n_arms :] = Arms(transitions, new).transitions
        plan = self._try_plan(rows)
        if isinstance(plan, StepLearner):
            rows.memory = self._memory_with(plan, back)
        self._change_arms(everyone, rows, plan)
        self._numbered += len(new)
        self._departed = {name: kept for name, kept in self._departed.items() if name not in new}
        self._changed = True
        return new

    def _new_names(self, names: Any) -> tuple[str, ...]:
        """Return the names of those who join; by number they get names that nobody had."""
        if not isinstance(names, (int, np.integer)):
            check_whole("how many join", len(given := tuple(_each(names))), 1)
            return given
        taken = {*self._names, *self._departed}
        numbered = (f"arm-{i}" for i in itertools.count(self._numbered + 1))
        return tuple(itertools.islice((name for name in numbered if name not in taken), check_whole("names", names, 1)))

    def _memory_with(self, plan: StepLearner, back: Mapping[int, Rows]) -> FloatArray | None:
        """Return the memory of those who are there and of those who are back; of others it is that of the plan."""
        memory, now = np.array(plan.memory, order="C"), self._arms.memory
        kept = {place: rows.memory for place, rows in back.items() if rows.memory is not None}
        if now is None and not kept:
            return None
        if now is not None:
            memory[: len(now)] = now
        for place, row in kept.items():
            memory[place] = row[0]
        return memory

    @_one_at_a_time
    def leave(self, arms: int | str | Iterable[int | str], *, forget: bool = False) -> None:
        """Let arms leave, by place or by name; those behind them move up in all arrays.

        What was known of them is kept, here and in files, for when they join again by the same name. With `forget` it
        is not, and who has left before is forgotten as well.
        """
        given = _each(arms)
        gone = [forget and isinstance(arm, str) and arm in self._departed for arm in given]
        places = self._places([arm for arm, left in zip(given, gone, strict=True) if not left])
        if places:
            stay = np.delete(np.arange(self.n_arms), places)
            if len(stay) == 0:
                raise InputError("at least one arm must stay")
            rows = self._arms.only(stay)
            plan = self._try_plan(rows)
            if not forget:
                self._departed.update((self._names[place], self._arms.only([place])) for place in places)
            self._change_arms(tuple(self._names[place] for place in stay), rows, plan)
        for name in itertools.compress(given, gone):
            self._departed.pop(name, None)
        self._changed = True

    def _places(self, arms: list[Any]) -> list[int]:
        """Return the places of arms that are given by place or by name, each once."""
        place = {name: i for i, name in enumerate(self._names)}
        found = set()
        for arm in arms:
            if isinstance(arm, str):
                found.add(place[arm] if arm in place else place[check_known("arm", arm, place)])
            else:
                found.add(check_whole("arm", arm, 0, self.n_arms - 1))
        return sorted(found)

    def _change_arms(self, names: tuple[str, ...], rows: Rows, tried: AnyPlan) -> None:
        self._names, self._arms, self._tried = names, rows, tried
        self._plan = self._planned_from = None  # it was made for others

    # ---- keeping

    @_one_at_a_time
    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values, which JSON can hold."""
        return {
            "format": learner_file.FORMAT,
            "versions": learner_file.versions(),
            "policy": {"name": self.policy.name, **self.policy.settings()},
            "budget": self.budget,
            "horizon": self.horizon,
            "seed": self.seed,
            "round": self.round,
            "names": list(self._names),
            "numbered": self._numbered,
            "luck": plain(self._luck.bit_generator.state),
            "arms": self._arms.to_dict(),
            "departed": {name: rows.to_dict() for name, rows in self._departed.items()},
            "planned_from": None if self._planned_from is None else self._planned_from.to_dict(),
            "saves": [list(each) for each in self._saves_with(self._saved)],
        }

    def _saves_with(self, saved: int) -> Saves:
        """Return all saves that this learner goes back to, if this program has saved so many times."""
        return (*self._saves, (self._token, saved)) if saved else self._saves

    @classmethod
    def from_dict(
        cls, values: Mapping[str, Any], policy: Policy | None = None, *, new_settings: bool = False
    ) -> Learner:
        """Return the learner that `to_dict` has described.

        Parameters
        ----------
        values : mapping
        policy : Policy, optional
            The policy, if its name and settings do not say it all: one of your own that is not registered, or a merit
            function of your own.
        new_settings : bool
            Whether the policy may have other settings than it had: the learner goes on with those of `policy`.
        """
        values = learner_file.upgraded(values)
        if policy is None:
            policy = learner_file.policy_of(values)
        else:
            learner_file.check_policy(policy, values, new_settings)
        names = part(values, "names")
        if not isinstance(names, (list, tuple)):
            raise InputError(f"names must be a list, got {names!r}")
        rows = Rows.from_dict(part(values, "arms"), len(names))
        numbered = check_whole("numbered", part(values, "numbered"), len(names))
        budget = check_whole("budget", part(values, "budget"), 1, numbered)
        learner = cls(
            policy,
            len(names),
            min(budget, len(names)),
            check_whole("seed", part(values, "seed"), 0),
            horizon=part(values, "horizon"),
            names=names,
            transitions=None if np.isnan(rows.truth).any() else rows.truth,
        )
        learner.budget, learner._numbered, learner._arms = budget, numbered, rows
        learner._go_on(values)
        return learner

    def _go_on(self, values: Mapping[str, Any]) -> None:
        """Go on where the learner was that `to_dict` has described, with the arms that are there already."""
        self.round = check_whole("round", part(values, "round"), 0, 2**53)
        self._luck, self._saves = generator(part(values, "luck")), learner_file.saves_of(values)
        departed, planned = part(values, "departed"), part(values, "planned_from")
        if not isinstance(departed, Mapping):
            raise InputError(f"departed must be a mapping by name, got {departed!r}")
        everyone = (*self._names, *departed)
        Arms(np.full((len(everyone), 2, 2), 0.5), everyone)  # checks that all names differ
        self._departed = {name: Rows.from_dict(rows, 1) for name, rows in departed.items()}
        for rows in (self._arms, *self._departed.values()):
            check_whole("the last round reported", rows.last_reported, 0, self.round)
        if planned is not None:
            self._planned_from = Planned.from_dict(planned, self.n_arms, self.round)
        self._check_memory()
        self._tried = None  # it was for arms of which nothing was seen
        if self._planned_from is not None:
            self._plan = self._planned(self._planned_from, generator(self._planned_from.luck))

    def _check_memory(self) -> None:
        """Check that what is remembered is of the policy's kind."""
        if not isinstance(self._tried, StepLearner):
            return
        width = self._tried.memory.shape[-1]
        kept: list[Known] = [self._arms, *self._departed.values()]
        kept += [] if self._planned_from is None else [self._planned_from.rows]
        for found in {rows.memory.shape[1] for rows in kept if rows.memory is not None} - {width}:
            raise InputError(f"memory must have {width} numbers for each arm by this policy, got {found}")

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and pickle it by what describes it, as locks and plans cannot be."""
        return functools.partial(type(self).from_dict, new_settings=True), (self.to_dict(), self.policy)

    @_one_at_a_time
    def save(self, path: str | PathLike[str], *, overwrite: bool = False) -> None:
        """Write everything to one .json file, which replaces an old one once it is complete.

        A new file can be read by its owner alone. Only an earlier state of this learner is replaced: not another
        file, nor one that another program has saved meanwhile, unless `overwrite` is True.
        """
        file = Path(path)
        check_suffix(file, "learners", (".json",))
        saved = self._saved + self._changed
        saves = self._saves_with(saved)
        try:
            text = learner_file.text_of({**self.to_dict(), "saves": saves})
        except TypeError as error:
            raise InputError(f"the settings of the policy {self.policy.name} must be plain values: {error}") from None
        learner_file.write(file, text, saves, overwrite)
        self._saved, self._changed = saved, False

    @classmethod
    def load(cls, path: str | PathLike[str], policy: Policy | None = None, *, new_settings: bool = False) -> Learner:
        """Read a learner that `save` has written; `policy` and `new_settings` are as for `from_dict`."""
        file = Path(path)
        check_suffix(file, "learners", (".json",))
        values = learner_file.read(file)
        try:
            learner = cls.from_dict(values, policy, new_settings=new_settings)
        except (ValueError, OverflowError, MemoryError) as error:  # by a setting, a policy may fail in any of these
            raise FileError(file, f"{error}{learner_file.saved_by(values)}") from error
        learner._changed = new_settings
        return learner


def _first_arms(
    n_arms: int | None, names: Iterable[str] | None, transitions: npt.ArrayLike | None, history: Log | None
) -> Arms:
    """Return the arms that there are at first; their chances mean nothing if they are not given."""
    if not (history is None or isinstance(history, Log)):
        raise InputError(f"history must be a Log, such as read_log returns, got {history!r}")
    labels = None if names is None else tuple(_each(names))
    if labels is None and history is not None:
        labels = history.arms
    if n_arms is None and labels is None and transitions is None:
        raise InputError("n_arms must be given if there are neither names nor transitions nor a history")
    number = len(labels or ()) if n_arms is None else check_whole("n_arms", n_arms, 1)
    arms = Arms(np.full((number, 2, 2), 0.5) if transitions is None else transitions, labels)
    if n_arms is not None and arms.n_arms != number:
        raise InputError(f"transitions must hold the {number} arms, got {arms.n_arms}")
    return arms


def _each(given: Any) -> list[Any]:
    """Return one thing, or several, as a list."""
    if isinstance(given, str):
        return [given]
    try:
        return list(given)
    except TypeError:  # it is one
        return [given]
