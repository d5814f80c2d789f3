"""From what is known to the next draw: what each participant is due, and with which chance they are drawn.

Everything that a plan needs is worked out from the columns of `State`, each time from nothing: outcomes are counted in
the rounds that they belong to, whenever they were reported or corrected, so late and corrected outcomes need no care.
A policy that learns at every step sees the rounds in their order. Random numbers that a policy uses to plan (posterior
sampling) follow from the identity of the programme and the round, so that anyone gets the same plan; the draw itself
uses none of them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from meritfair.core.arrays import FloatArray, Int8Array, IntArray
from meritfair.model.counts import Counts
from meritfair.model.features import Features
from meritfair.model.gaps import fill
from meritfair.policies.beliefs import arms_behind, beliefs
from meritfair.policies.drawing import Observed, Situation
from meritfair.policies.plans import Plan, check_plan
from meritfair.policies.timed import with_accounts
from meritfair.policies.track import NOTHING, gaps_of, is_complete, last_known, parts, slot
from meritfair.policies.view import View
from meritfair.programme.columns import UNKNOWN
from meritfair.programme.ledger.canonical import sha256
from meritfair.programme.ledger.lottery import ONE, whole_chances
from meritfair.programme.state import State


@dataclass(frozen=True, eq=False)
class PlannedRound:
    """What is committed before a draw: a row for everyone enrolled, in order of their numbers.

    Attributes
    ----------
    number, part, away, state : ndarray of int
    due, chance : ndarray of int
        In units of 2^-40.
    budgets : tuple of int
        How many are drawn in each part.
    """

    number: IntArray
    part: IntArray
    away: IntArray
    state: IntArray
    due: IntArray
    chance: IntArray
    budgets: tuple[int, ...]

    def columns(self) -> dict[str, Any]:
        """Return the columns of its table."""
        return {name: getattr(self, name) for name in ("number", "part", "away", "state", "due", "chance")}


def plan_round(state: State, identity: str, states: IntArray, budgets: tuple[int | None, ...]) -> PlannedRound:
    """Return the next round as it would be committed now.

    Parameters
    ----------
    state : State
    identity : str
        Of the programme.
    states : ndarray of int, shape (people,)
        States that were observed at the start of the round; -1 where they were not.
    budgets : tuple of int or None
        For each part how many are to be drawn, None for that of its settings.
    """
    numbers, part = np.flatnonzero(state.here), state.part
    due, chance = np.zeros((2, state.people), np.int64)
    drawn = []
    for place, (own, given) in enumerate(zip(state.settings.parts, budgets, strict=True)):
        members = numbers[part[numbers] == place]
        budget = own.budget_in(state.summary.round + 1) if given is None else given
        due[members], chance[members], number = _plan_part(state, identity, place, members, states[members], budget)
        drawn.append(number)
    columns = part[numbers], state.away[numbers].astype(np.int64), states[numbers], due[numbers], chance[numbers]
    return PlannedRound(numbers, *columns, tuple(drawn))


def planning_rng(identity: str, round_: int, part: int) -> np.random.Generator:
    """Return the generator that a policy plans a round with; the line of a rotation is that of round 0."""
    seed = sha256(f"plan {identity} {round_} {part}".encode())
    return np.random.default_rng(int.from_bytes(seed, "big"))


def _plan_part(
    state: State, identity: str, place: int, members: IntArray, states: IntArray, budget: int
) -> tuple[IntArray, IntArray, int]:
    """Return what is due and the chances of the members of a part, and how many are drawn."""
    part, none = state.settings.parts[place], np.zeros(len(members), np.int64)
    if len(members) == 0 or budget == 0:
        return none, none, 0
    known, round_ = Known.of(state, members), state.summary.round
    largest = min(max(*part.budget, budget), len(members))
    policy, rng = part.policy_for(len(members), largest), planning_rng(identity, round_ + 1, place)
    nothing = np.full((len(members), 2, 2), np.nan)

    def planned(memory: FloatArray | None) -> Plan:
        view = View(known.counts, round_ + 1, largest, nothing, (rng,), states, memory, round_, known.features)
        return check_plan(policy.plan(view), len(members), largest)

    plan, memory = planned(None), None
    if plan.begin() is not None:
        memory = known.replayed(plan)
        plan = planned(memory)
        memory = plan.begin(memory)
    here = replace(known.situation(state, identity, place, members, states, budget), memory=memory)
    if plan.looks_at_states and (states < 0).any():
        arms = arms_behind(plan, known.counts, nothing, policy.oracle)
        here = replace(here, believed=beliefs(arms, *last_known(known.track[:, known.before :])))
    played = with_accounts(plan) if state.settings.rules or here.account.any() else plan
    step = played.play(here, budget, rng)  # only its exposures are used: the draw is made elsewhere
    number = round(float(step.exposure.sum()))
    return whole_chances(np.clip(step.due, 0, 1), number), whole_chances(np.clip(step.exposure, 0, 1), number), number


@dataclass(frozen=True, eq=False)
class Known:
    """What is known of some participants.

    Attributes
    ----------
    track : ndarray of int8, shape (n, before + rounds)
        A slot for each round, as in :mod:`meritfair.policies.track`.
    before : int
        Rounds of the history.
    counts : Counts
        Outcomes, with what gaps are worth.
    complete : Counts
        Complete outcomes alone.
    features : Features, or None
    """

    track: Int8Array
    before: int
    counts: Counts
    complete: Counts
    features: Features | None

    @classmethod
    def of(cls, state: State, members: IntArray) -> Known:
        """Return what is known of these participants."""
        track = track_of(state, members)
        ages = np.arange(track.shape[1] - 1, -1, -1, dtype=np.float64)
        complete = _counts(track, state.settings.forget**ages)
        counts = fill(complete, gaps_of(track, ages, state.settings.forget)).effective
        names = state.settings.features
        features = Features({name: _only(state.texts(name), members) for name in names}, len(members))
        return cls(track, state.summary.before, counts, complete, features if names else None)

    def done(self, column: int) -> IntArray:
        """Return whether each was pulled in a round: as reported or, where it was not, as drawn."""
        return np.maximum(parts(self.track[:, column])[2], 0)

    def situation(
        self, state: State, identity: str, place: int, members: IntArray, states: IntArray, budget: int
    ) -> Situation:
        """Return how the members of a part stand before the next round."""
        rules, round_, cycle = state.settings.rules, state.summary.round, state.settings.parts[place].budget
        turn = self.turns(planning_rng(identity, 0, place))
        present = ~state.away[members]
        joined = state.columns.grown("joined", state.people)[members].astype(np.int64)
        standing = rules.standing(present, turn.astype(np.int64), joined, round_ + 1)
        last = self.done(-1) if round_ else np.zeros(len(members), np.int64)
        account = state.account[members] / ONE
        most = rules.most_due(budget, cycle) if any(cycle) else 1.0
        names = tuple(map(str, members))
        return Situation(names, states, present, last, turn, None, round_, account, *standing, most)

    def turns(self, rng: np.random.Generator) -> FloatArray:
        """Return a number that grows with the round in which each was last pulled; 0 if never, ties in any order."""
        turn = np.zeros(len(self.track))
        for number, column in enumerate(range(self.before, self.track.shape[1]), start=1):
            arms = np.flatnonzero(self.done(column))
            order = np.lexsort((rng.random(len(arms)), turn[arms]))
            turn[arms[order]] = number + np.arange(len(arms)) / max(1, len(arms))
        return turn

    def replayed(self, plan: Plan) -> FloatArray | None:
        """Return the memory of a step learner that has seen all rounds in their order."""
        n, memory = len(self.track), plan.begin()
        nobody, names, last = np.zeros(n, np.bool_), ("",) * n, np.zeros(n, np.int64)
        for column in range(self.track.shape[1]):
            _, before, action, after = parts(self.track[:, column])
            if column >= self.before:
                here = Situation.start(names, before)
                here = replace(here, last_actions=last, memory=memory, step=column - self.before, free=nobody)
                memory = plan.play(here, 0, np.random.default_rng(0)).memory
                last = self.done(column)
            arms = np.flatnonzero(is_complete(self.track[:, column]))
            memory = plan.learn_from(memory, Observed(arms, before[arms], action[arms], after[arms]))
        return memory


def track_of(state: State, members: IntArray) -> Int8Array:
    """Return a slot for each of these participants and each round, those of the history first.

    A state at the start of a round that was not reported is the one after the round before, and the other way round;
    not so between the history and the first round, as nobody says how long that is. An action that was not reported is
    what was drawn.
    """
    rounds = range(1 - state.summary.before, state.summary.round + 1)
    track = np.full((len(rounds), len(members)), NOTHING, np.int8)
    everyone = len(members) == state.people
    last = None
    for place, number in enumerate(rounds):
        seen = state.seen(number)
        drawn, before, action, after = (seen if everyone else seen[:, members]).astype(np.int8)
        action = np.where(action < 0, drawn, action)
        if last is not None and number != 1:
            track[place - 1] = slot(last[1], last[2], np.where(last[3] < 0, before, last[3]), last[0])
            before = np.where(before < 0, last[3], before)
        track[place] = slot(before, action, after, drawn)
        last = drawn, before, action, after
    return track.T


def _counts(track: Int8Array, weight: FloatArray) -> Counts:
    """Return the complete outcomes of a track, each with the weight of its round."""
    plain = bool((weight == 1).all())
    visits, good = np.zeros((2, len(track), 2, 2), np.int64 if plain else np.float64)
    for column in range(track.shape[1]):
        arms = np.flatnonzero(is_complete(track[:, column]))
        _, before, action, after = parts(track[arms, column])
        worth = 1 if plain else weight[column]
        visits[arms, before, action] += worth
        good[arms, before, action] += worth * after
    return Counts(visits, good)


def _only(values: list[str], members: IntArray) -> list[str]:
    return values if len(members) == len(values) else [values[member] for member in members]


def unknown_states(people: int) -> IntArray:
    """Return the states of people of whom nothing was observed now."""
    return np.full(people, UNKNOWN, np.int64)
