r"""A policy live: it chooses who is pulled in a round, sees what came of it, and learns.

A `Learner` is what a policy becomes outside of simulation. `choose` says who is pulled now, and with which exposure
each arm was drawn, given all that happened before; `observe` takes in what is known of the outcomes, whenever it is
known. Between the two nothing is assumed: rounds without outcomes, late outcomes, and arms of which nothing was seen
are all in order. Arms may join and leave. What a learner knows goes into one file, and a learner that is loaded resumes
exactly as the one that was saved would have.

**Exposure.** In a given situation each kind of plan is a draw with known exposures. A lottery states its own. In a
priority table those above the K-th index are certain, and those level with it share what is left. A step learner
explores with a probability :math:`\varepsilon`, so its exposures are :math:`\varepsilon` times those of the ranking
that explores and :math:`1 - \varepsilon` times those of the other. In a rotation those with the lowest turn are next;
an arm's turn is when it was last pulled, and until then all are level: so the line is drawn as it is needed.

**State.** A learner is a policy, a `Record` of what it knows, and the plan that it follows. A plan is not saved but
made again from its `Origin`. Each call first works out what is new, which may fail, and then puts it in place.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import secrets
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
import numpy.typing as npt

from meritfair.core.arrays import BoolArray, FloatArray, IntArray
from meritfair.core.checks import check_known, check_whole
from meritfair.core.errors import FileError, InputError
from meritfair.core.storage import check_suffix
from meritfair.datasets.logs import StateLog
from meritfair.model.arms import Arms
from meritfair.model.counts import Counts
from meritfair.model.features import Features
from meritfair.model.rules import Budget, Rules
from meritfair.policies import learner_file
from meritfair.policies.beliefs import arms_behind, beliefs
from meritfair.policies.by_name import UNKNOWN, Bits, bits
from meritfair.policies.drawing import Observed, Situation
from meritfair.policies.plans import Plan, check_plan
from meritfair.policies.record import Origin, Record, as_list, check_names, generator
from meritfair.policies.rows import Known, Rows, part
from meritfair.policies.timed import with_accounts
from meritfair.policies.track import is_complete, last_known, merged, of_gaps, parts, slot
from meritfair.policies.view import Planner, View

_Method = TypeVar("_Method", bound=Callable[..., Any])


def _one_at_a_time(method: _Method) -> _Method:
    """Let threads that share a learner wait for each other."""

    @functools.wraps(method)
    def alone(self: Learner, /, *args: Any, **kwargs: Any) -> Any:
        with self._lock:
            return method(self, *args, **kwargs)

    return cast(_Method, alone)


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
        The probability with which each arm was drawn, given all that happened before; its sum is the number of arms
        pulled.
    round : int
        The number of the round, from 1.
    due : ndarray, shape (N,)
        The exposure that each arm was due in this round. It is the same as `exposure` unless the policy is fair over
        time, or rules kept someone from being pulled.
    account : ndarray, shape (N,)
        What each arm was due since it joined less what it was given, in pulls, after this round: above 0 it is owed
        something.
    """

    arms: IntArray
    names: tuple[str, ...]
    actions: IntArray
    exposure: FloatArray
    round: int
    due: FloatArray
    account: FloatArray


class Learner:
    """A policy in live use; made by `Policy.start`, or by `load` from a file.

    Parameters
    ----------
    policy : Policy
    record : Record
        What is known at the start.
    origin : Origin, optional
        What the current plan was made from, if there is one already.
    history : StateLog, optional
        What was recorded before: all its transitions are taken in.

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
        self, policy: Planner, record: Record, origin: Origin | None = None, history: StateLog | None = None
    ) -> None:
        self.policy = policy
        self._record = record
        self._token = secrets.token_hex(4)  # of this program, among those that save
        self._changed = True  # since it was last saved
        self._lock = threading.RLock()
        self._plan = self._tried(record.arms)  # settings that do not fit are reported now
        self._origin = origin  # of the plan; None if that was only tried, and will not be followed
        self._check_memory()
        if origin is not None:
            self._plan = self._plan_from(origin, generator(origin.rng), self.features)
        for each in record.cycle:
            self._check_quotas(self._plan, each)
        if history is not None:
            self._take_in_history(history)

    def _check_memory(self) -> None:
        """Refuse a memory that is not of the policy's kind."""
        first, record, origin = self._plan.begin(), self._record, self._origin
        if first is None:
            return
        width = first.shape[-1]
        kept: list[Known] = [record.arms, *record.departed.values(), *([] if origin is None else [origin.rows])]
        for found in {rows.memory.shape[1] for rows in kept if rows.memory is not None} - {width}:
            raise InputError(f"memory must have {width} numbers for each arm by this policy, got {found}")

    @property
    def budget(self) -> Budget:
        """Arms pulled in a round, if that many are available; or one number for each of some rounds, which repeat."""
        return self._record.budget

    @property
    def rules(self) -> Rules:
        """Who may be pulled, besides those who are away."""
        return self._record.rules

    @property
    def account(self) -> FloatArray:
        """What each arm was due since it joined, less what it was given, in pulls; shape (N,)."""
        with self._lock:
            return self._record.arms.account.copy()

    @property
    def horizon(self) -> int:
        """Rounds in an episode."""
        return self._record.horizon

    @property
    def seed(self) -> int:
        """What fixes every draw."""
        return self._record.seed

    @property
    def round(self) -> int:
        """How many choices were made."""
        return self._record.round

    @property
    def n_arms(self) -> int:
        """How many arms there are now."""
        return len(self._record.names)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the arms, in the order of all arrays."""
        return self._record.names

    @property
    def departed(self) -> tuple[str, ...]:
        """The names of those who have left and are not forgotten."""
        return tuple(self._record.departed)

    @property
    def counts(self) -> Counts:
        """The complete outcomes of the arms; with `forget`, what they are worth now."""
        with self._lock:
            return self._record.arms.counts

    @property
    def features(self) -> Features | None:
        """What is known of the arms from when they enrolled; None if no feature was ever given."""
        with self._lock:
            return self._record.features.features_of(self._record.names)

    @property
    def effective_counts(self) -> Counts:
        """What plans are made from: the complete outcomes, with what is known across gaps (`meritfair.model.gaps`)."""
        with self._lock:
            return self._record.known().counts

    def __repr__(self) -> str:
        return f"Learner({self.policy.name}: round {self.round}, {self.n_arms} arms, budget {self.budget})"

    # ---- choosing

    @_one_at_a_time
    def choose(self, states: Bits | None = None, available: Bits | None = None, budget: int | None = None) -> Choice:
        """Draw who is pulled in the next round.

        Parameters
        ----------
        states : array_like of {0, 1}, shape (N,), or by name, optional
            The states of the arms now; None, NaN or -1 where a state is not known. There a policy that looks at states
            works on the probability that the arm is good (:mod:`meritfair.policies.beliefs`).
        available : array_like of bool, shape (N,), or by name, optional
            Who can be pulled; by default everyone. It must be given for each arm. If fewer than the budget are
            available, all of them are pulled; by a plan with quotas, of each group no more than its quota.
        budget : int, optional
            Arms pulled in this round alone, from 0; by default that of the learner.

        Notes
        -----
        By name means a mapping such as ``{"Ada": 1, "Bo": 0}`` or a pandas Series with names as its index. Who is not
        in it is unknown. Masked values are unknown too.
        """
        record, rows, plan, origin = self._record, self._record.arms, self._plan, self._origin
        now = self._bits("states", states)
        can = np.ones(self.n_arms, np.bool_) if available is None else self._available(available)
        rng, memory = generator(record.rng.bit_generator.state), rows.memory
        if origin is None or record.round % record.horizon == 0:
            origin = self._origin_now(record.known(), now)
            plan = self._plan_from(origin, rng, self.features)
            memory = plan.begin(memory)
        spent = record.budget_now if budget is None else check_whole("budget", budget, 0)
        self._check_quotas(plan, spent)
        here = self._situation(now, can, memory, record.most_due(spent))
        if plan.looks_at_states and (now == UNKNOWN).any():
            here = dataclasses.replace(here, believed=self._believed(plan, origin.rows))
        played = with_accounts(plan) if record.rules or rows.account.any() else plan
        step = played.play(here, spent, rng)
        # only now does anything change
        places = np.flatnonzero(step.pulled)
        rows.note_pulls(places, record.round + 1, rng)
        rows.account = rows.account + (step.due - step.exposure)
        rows.memory, record.rng, record.round = step.memory, rng, record.round + 1
        self._note_choice(now, step.pulled.astype(np.int64))
        self._plan, self._origin, self._changed = plan, origin, True
        chosen, done = tuple(record.names[arm] for arm in places), step.pulled.astype(np.int64)
        return Choice(places, chosen, done, step.exposure, record.round, step.due, rows.account.copy())

    def _note_choice(self, states: IntArray, chosen: IntArray) -> None:
        """Note what was chosen and which states were known; what was seen before is worth less from now on."""
        record, unknown = self._record, np.full(self.n_arms, UNKNOWN)
        record.slots(record.round)[:] = slot(states, unknown, unknown, chosen)
        if record.forget < 1:
            visits, good = (record.forget * x.astype(np.float64) for x in (record.arms.visits, record.arms.good))
            record.arms.visits, record.arms.good = visits, good

    def _situation(self, states: IntArray, available: BoolArray, memory: FloatArray | None, most: float) -> Situation:
        """Return the arms at the next round; at most that much is due to each."""
        record, rows = self._record, self._record.arms
        standing = record.rules.standing(available, rows.last_pull, rows.joined, record.round + 1)
        before = rows.pulled.copy(), rows.turn.copy(), memory, record.round, rows.account.copy()
        return Situation(record.names, states, available, *before, *standing, most)

    def _check_quotas(self, plan: Plan, budget: int) -> None:
        """Refuse a budget that a plan with quotas was not made for."""
        whole = self._largest_budget(self.n_arms)
        if not plan.takes_any_budget and min(budget, self.n_arms) != whole:
            raise InputError(f"the policy {self.policy.name} has quotas for a budget of {whole}, got {budget}")

    def _bits(self, name: str, values: Bits | None) -> IntArray:
        return bits(name, values, self._record.names, self._record.departed)

    def _available(self, available: Bits) -> BoolArray:
        """Return who is available; nobody is left out of a draw by an oversight."""
        can = self._bits("available", available)
        missing = np.flatnonzero(can == UNKNOWN)
        if len(missing):
            raise InputError(
                f"available must say yes or no for each of the {self.n_arms} arms, "
                f"it does not for {self.names[missing[0]]!r}"
            )
        return can.astype(np.bool_)

    def _believed(self, plan: Plan, rows: Known) -> FloatArray:
        """Return how likely each arm is good, by what was seen of it last and done since; `rows` has the counts."""
        arms = arms_behind(plan, rows.counts, rows.truth, self.policy.oracle)
        return beliefs(arms, *last_known(self._record.arms.track[:, self._record.before :]))  # not of records before

    # ---- planning

    def _origin_now(self, rows: Known, states: IntArray) -> Origin:
        """Return what a plan for the next round is made from."""
        episode, state = self.round // self.horizon + 1, self._record.rng.bit_generator.state
        return Origin(episode, self.round, rows, states, state)

    def _plan_from(self, origin: Origin, rng: np.random.Generator, features: Features | None = None) -> Plan:
        """Return the plan that the policy makes from this."""
        rows, budget = origin.rows, self._largest_budget(len(origin.rows))
        if self.policy.oracle and np.isnan(rows.truth).any():
            raise InputError(f"the policy {self.policy.name} knows the true arms: give their transitions")
        before = origin.states, rows.memory, origin.round, features
        view = View(rows.counts, origin.episode, budget, rows.truth, (rng,), *before)
        return check_plan(self.policy.plan(view), len(rows), budget)

    def _largest_budget(self, n_arms: int) -> int:
        """Return the largest budget of any round, which plans are made for."""
        return min(max(self._record.cycle), n_arms)

    def _tried(self, rows: Rows) -> Plan:
        """Return the plan for arms of which nothing is remembered, which is not followed; no random number is used."""
        origin = self._origin_now(dataclasses.replace(rows, memory=None), np.full(len(rows), UNKNOWN))
        return self._plan_from(origin, generator(origin.rng))

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
            is not known. Nothing is lost by that: what is known is kept, may be completed later, and what it says of
            the rounds around a gap is used (`meritfair.model.gaps`). An arm of which neither the action nor the state
            after is reported in a round counts as treated as it was chosen.
        round : int, optional
            The number of the round, `Choice.round`; by default the last one. If it is given, the outcome of an arm in a
            round is taken in once: if one of these was already, all are refused. Those that are not known may follow
            later.
        """
        given = {"states": states, "actions": actions, "next_states": next_states}
        found = [self._bits(name, values) for name, values in given.items()]
        whole = np.min(found, axis=0) > UNKNOWN
        if round is None:
            number = self.round
        else:
            number = check_whole("round", round, 1, self.round, f"{self.round}, the last one chosen")
            self._check_not_reported(found, number)
        if number == 0:  # nothing was chosen yet
            self._take_in(_observed(np.flatnonzero(whole), found), 0)
            return
        slots = self._record.slots(number)
        after = np.where(is_complete(slots), slots, merged(slots, *found))
        completed = is_complete(after) & ~is_complete(slots)
        new = np.flatnonzero(completed | whole)
        known = [np.where(now >= 0, now, then) for now, then in zip(found, parts(after)[1:], strict=True)]
        self._take_in(_observed(new, known), self.round - number)
        self._record.slots(number)[:] = after
        if round is not None:
            self._record.arms.note_reported(new, number)

    def _check_not_reported(self, found: list[IntArray], number: int) -> None:
        """Refuse an outcome that was taken in already, and what contradicts it."""
        everyone, known = np.arange(self.n_arms), parts(self._record.slots(number))[1:]
        again = np.min(found, axis=0) > UNKNOWN
        for now, then in zip(found, known, strict=True):
            again |= (now >= 0) & (now != then)
        twice = everyone[again & (self._record.arms.was_reported(everyone, number) == 1)]
        if len(twice):
            raise InputError(
                f"the outcome of {self.names[twice[0]]!r} in round {number} was observed already; "
                "nothing of this call was taken in"
            )

    def _take_in(self, seen: Observed, age: int) -> None:
        """Let the plan learn from outcomes, and count them; outcomes may come before there is a plan to follow."""
        rows, worth = self._record.arms, self._record.forget**age
        rows.memory = self._plan.learn_from(rows.memory, seen)
        if worth < 1:
            rows.visits, rows.good = rows.visits.astype(np.float64), rows.good.astype(np.float64)
        rows.visits[seen.arms, seen.states, seen.actions] += worth if worth < 1 else 1
        rows.good[seen.arms, seen.states, seen.actions] += worth * seen.next_states if worth < 1 else seen.next_states
        self._changed = True

    def _take_in_history(self, history: StateLog) -> None:
        """Take in what was recorded before the first round, also of those who are not there now."""
        history.check_transitions()
        place = {name: i for i, name in enumerate(self.names)}
        places = np.array([place.get(name, -1) for name in history.arms])
        last, rounds = int(history.rounds.max()) - 1, history.outcome_rounds
        for number, (arms, *outcomes) in zip(rounds, history.by_round(), strict=True):
            here = places[arms] >= 0
            self._take_in(Observed(places[arms[here]], *(values[here] for values in outcomes)), last - number)
        record, track = self._record, of_gaps(history.bridged, history.n_arms)
        record.before = track.shape[1]
        there = places >= 0
        record.arms.track = np.zeros((self.n_arms, record.before), np.int8)
        record.arms.track[places[there]] = track[there]
        seen = history.weighted_counts(record.forget)
        for arm in np.flatnonzero(~there):
            rows = dataclasses.replace(Rows.stranger(), track=track[[arm]])
            rows.visits, rows.good = seen.visits[[arm]].copy(), seen.good[[arm]].copy()
            self._record.departed[history.arms[arm]] = rows

    # ---- who is there

    @_one_at_a_time
    def join(
        self,
        names: int | str | Iterable[str] = 1,
        transitions: npt.ArrayLike | None = None,
        *,
        features: Features | Mapping[str, Any] | None = None,
    ) -> tuple[str, ...]:
        """Let arms join, by name or by number; they come last in all arrays. Return their names.

        Who has left and joins again by the same name has all that was known of them. Of the others only the features
        are known, and in a rotation they are next. Oracles need the transitions of those they do not know.

        Parameters
        ----------
        names : int, str or iterable of str
        transitions : array_like, shape (N, 2, 2), optional
            The true arms, of those who join.
        features : Features or mapping of str to sequence, optional
            For each feature a value for each of those who join, in order or by name; for one arm the value alone. One
            that is not given is missing; of those who join again it stays as it was.
        """
        record, new = self._record, self._new_names(names)
        everyone = (*record.names, *new)
        check_names(everyone)
        parts = [record.arms, *(record.departed.get(name) or Rows.stranger() for name in new)]
        rows = Rows.together(parts)
        rows.note_joined(record.round)
        if transitions is not None:
            rows.truth[self.n_arms :] = Arms(transitions, new).transitions
        enrolled = record.features.with_features(new, features)
        tried = self._tried(rows)
        rows.memory = _joined_memory(parts, tried.begin())
        self._change_arms(everyone, rows, tried)
        record.numbered += len(new)
        record.features = enrolled
        record.departed = {name: kept for name, kept in record.departed.items() if name not in new}
        return new

    def _new_names(self, names: Any) -> tuple[str, ...]:
        """Return the names of those who join; by number they get names that nobody had."""
        if not isinstance(names, (int, np.integer)):
            check_whole("how many join", len(given := tuple(as_list(names))), 1)
            return given
        taken = {*self._record.names, *self._record.departed}
        numbered = (f"arm-{i}" for i in itertools.count(self._record.numbered + 1))
        return tuple(itertools.islice((name for name in numbered if name not in taken), check_whole("names", names, 1)))

    @_one_at_a_time
    def leave(self, arms: int | str | Iterable[int | str], *, forget: bool = False) -> None:
        """Let arms leave, by place or by name; those behind them move up in all arrays.

        What was known of them is kept, here and in files, for when they join again by the same name. With `forget` it
        is not, and who has left before is forgotten as well.
        """
        record, given = self._record, as_list(arms)
        gone = {arm for arm in given if forget and isinstance(arm, str) and arm in record.departed}
        places = self._places([arm for arm in given if not (isinstance(arm, str) and arm in gone)])
        if places:
            stay = np.delete(np.arange(self.n_arms), places)
            if len(stay) == 0:
                raise InputError("at least one arm must stay")
            rows = record.arms.only(stay)
            tried = self._tried(rows)
            if not forget:
                record.departed.update((record.names[place], record.arms.only([place])) for place in places)
            gone |= {record.names[place] for place in places if forget}
            self._change_arms(tuple(record.names[place] for place in stay), rows, tried)
        for name in gone:
            record.departed.pop(name, None)
        record.features = record.features.without(gone)
        self._changed = True

    def _places(self, arms: list[Any]) -> list[int]:
        """Return the places of arms that are given by place or by name, each once."""
        place = {name: i for i, name in enumerate(self.names)}
        found = set()
        for arm in arms:
            if isinstance(arm, str):
                found.add(place[arm] if arm in place else place[check_known("arm", arm, place)])
            else:
                found.add(check_whole("arm", arm, 0, self.n_arms - 1))
        return sorted(found)

    def _change_arms(self, names: tuple[str, ...], rows: Rows, tried: Plan) -> None:
        """Put other arms in place; the next choice makes a new plan for them."""
        self._record.names, self._record.arms = names, rows
        self._plan, self._origin, self._changed = tried, None, True

    # ---- keeping

    @_one_at_a_time
    def to_dict(self) -> dict[str, Any]:
        """Return all there is to know as plain values, from which `from_dict` resumes."""
        return {
            "format": learner_file.FORMAT,
            "versions": learner_file.versions(),
            "policy": {"name": self.policy.name, **self.policy.settings()},
            **self._record.to_dict(),
            "planned_from": None if self._origin is None else self._origin.to_dict(),
        }

    @classmethod
    def from_dict(
        cls, values: Mapping[str, Any], policy: Planner | None = None, *, new_settings: bool = False
    ) -> Learner:
        """Return the learner that `to_dict` has described.

        Parameters
        ----------
        values : mapping
        policy : Policy, optional
            The policy, if its name and settings are not enough: one of your own that is not registered, or a merit
            function of your own.
        new_settings : bool
            Whether the policy may have other settings than it had: the learner resumes with those of `policy`.
        """
        values = learner_file.upgraded(values)
        policy = learner_file.policy_of(values, policy, new_settings)
        record, planned = Record.from_dict(values), part(values, "planned_from")
        origin = None if planned is None else Origin.from_dict(planned, len(record.names), record.round)
        return cls(policy, record, origin)

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and pickle it by its description, as locks and plans cannot be."""
        return functools.partial(type(self).from_dict, new_settings=True), (self.to_dict(), self.policy)

    @_one_at_a_time
    def save(self, path: str | PathLike[str], *, overwrite: bool = False) -> None:
        """Write everything to one .json file, which replaces an old one once it is complete.

        A new file can be read by its owner alone. Only an earlier state of this learner is replaced: not another
        file, nor one that another program has saved meanwhile, unless `overwrite` is True.
        """
        file = Path(path)
        check_suffix(file, "learners", (".json",))
        saves = self._record.saves
        if self._changed:
            saves = learner_file.next_saves(saves, self._token)
        learner_file.write(file, {**self.to_dict(), "saves": saves}, overwrite)
        self._record.saves, self._changed = saves, False

    @classmethod
    def load(cls, path: str | PathLike[str], policy: Planner | None = None, *, new_settings: bool = False) -> Learner:
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


def _observed(arms: IntArray, found: list[IntArray]) -> Observed:
    """Return the outcomes of these arms, of arrays for all."""
    return Observed(arms, *(values[arms] for values in found))


def _joined_memory(parts: list[Rows], first: FloatArray | None) -> FloatArray | None:
    """Return the memory of all arms, that of the plan where there is none yet; None if there is none at all."""
    if first is None or all(rows.memory is None for rows in parts):
        return None
    new = np.split(first, np.cumsum([len(rows) for rows in parts])[:-1])
    return np.concatenate([own if rows.memory is None else rows.memory for rows, own in zip(parts, new, strict=True)])
