"""The checks of policies find what they are meant to find, and let pass what is in order."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import pytest

import meritfair as mf
from meritfair import testing
from meritfair.core.arrays import AnyArray, BoolArray, FloatArray, IntArray
from meritfair.model.accounts import given_exposure
from meritfair.policies import Lottery, Policy, PriorityTable, Rotation, StepLearner, View, registry, timed
from meritfair.policies.drawing import Ranking, Situation, Step
from meritfair.policies.learner import Choice, Learner
from meritfair.policies.rows import Rows
from meritfair.testing import CHECKS, Check, ConformanceError, cases, check_policy, judging


def gain(view: View) -> FloatArray:
    """What a pull seems to gain, by arm and state."""
    return np.asarray(view.counts.mean[..., 1] - view.counts.mean[..., 0])


# ---- policies that are in order


def by_gain(view: View, weight: float = 1.0) -> PriorityTable:
    return PriorityTable(weight * gain(view))


@dataclass(frozen=True)
class Hopeful(Policy):
    """A lottery, with a bonus for what was seen little, by posterior draws."""

    name: ClassVar[str] = "hopeful"
    bonus: float = 1.0

    def plan(self, view: View) -> Lottery:
        seen = view.counts.visits.sum(axis=(-1, -2))
        noise = np.reshape([rng.random(view.n_arms) for rng in view.rngs], seen.shape)
        return Lottery(np.exp(gain(view).mean(axis=-1) + noise) + self.bonus / (1 + seen))


def rank_by_memory(
    memory: FloatArray, states: IntArray, pulled: IntArray, step: int, exploring: bool, index: FloatArray
) -> None:
    for arm in range(len(states)):
        memory[arm, 1] = 0.0 if pulled[arm] else memory[arm, 1] + 1.0
        index[arm] = 0.0 if exploring else memory[arm, 0] + 0.1 * memory[arm, 1] - 0.2 * states[arm]


def learn_into_memory(memory: FloatArray, states: IntArray, pulls: IntArray, following: IntArray) -> None:
    for arm in range(len(states)):
        memory[arm, 0] += 0.1 * (2 * pulls[arm] - 1) * (following[arm] - states[arm])


def explore_at_first(memory: FloatArray, step: int) -> float:
    return 5.0 / (5.0 + step)


@dataclass(frozen=True)
class Remembering(Policy):
    """A step learner that goes on from one episode to the next, with half of what it knew."""

    name: ClassVar[str] = "remembering"

    def plan(self, view: View) -> StepLearner:
        memory = np.zeros((*view.counts.visits.shape[:-2], 2)) if view.memory is None else view.memory / 2
        return StepLearner(memory, rank_by_memory, learn_into_memory, explore_at_first, keeps_memory=False)


@dataclass(frozen=True)
class Wards(Policy):
    """So many of each ward, which is a setting for each arm."""

    name: ClassVar[str] = "wards"
    wards: tuple[str, ...] = ("x", "y", "x", "y", "y")

    def plan(self, view: View) -> PriorityTable:
        if len(self.wards) != view.n_arms:
            raise mf.InputError(f"wards must be given for each of the {view.n_arms} arms, got {len(self.wards)}")
        groups = np.array([0 if ward == "x" else 1 for ward in self.wards])
        return PriorityTable(gain(view), groups=groups, quotas=np.array([1, view.budget - 1]))


@pytest.mark.slow
@pytest.mark.parametrize("policy", [by_gain, Hopeful(), Remembering()], ids=["function", "class", "step learner"])
def test_policies_that_are_in_order_pass(policy: Any) -> None:
    check_policy(policy)


@pytest.mark.slow
def test_a_policy_with_settings_for_each_arm_passes_on_arms_that_suit_it() -> None:
    check_policy(Wards(), n_arms=5, budget=3)
    with pytest.raises(mf.InputError, match=r"wards .* 6 arms with budget 2: wards .* 6"):
        check_policy(Wards())


# ---- policies that are not


def first_comes_first(view: View) -> PriorityTable:
    order = np.argsort(-gain(view).mean(axis=-1), axis=-1, kind="stable")
    return PriorityTable.of(-np.argsort(order, axis=-1).astype(float))


def first_comes_first_later(view: View) -> PriorityTable:
    level = PriorityTable(np.zeros(view.counts.visits.shape[:-1]))
    return first_comes_first(view) if view.counts.visits.ndim == 3 and view.episode > 1 else level


def first_comes_first_in_simulation(view: View) -> PriorityTable:
    level = PriorityTable(np.zeros(view.counts.visits.shape[:-1]))
    return first_comes_first(view) if view.counts.visits.ndim > 3 else level


def always_the_same(view: View) -> PriorityTable:
    return PriorityTable.of(-np.arange(float(view.n_arms)))


def spends_too_little(view: View) -> PriorityTable:
    index = gain(view).mean(axis=-1) + np.random.default_rng(0).random(view.n_arms)
    last = np.sort(index, axis=-1)[..., -view.budget + 1 :].min(axis=-1, keepdims=True)
    return PriorityTable.of(np.where(index >= last, index, -np.inf))


def spends_too_little_when_simulated(view: View) -> PriorityTable:
    return by_gain(view) if view.counts.visits.ndim == 3 else spends_too_little(view)


def favours_the_first(view: View) -> Lottery:
    merit = np.exp(gain(view).mean(axis=-1))
    merit[..., 0] *= 1.001
    return Lottery(merit)


def favours_the_first_by_chance(view: View) -> PriorityTable:
    index = np.stack([rng.random(view.n_arms) for rng in view.rngs])
    index[:, 0] += 1
    return PriorityTable.of(index.reshape(view.counts.visits.shape[:-2]))


def looks_at_neighbours(view: View) -> Lottery:
    own = gain(view).mean(axis=-1)
    return Lottery(np.exp(own + 0.1 * np.roll(own, 1, axis=-1)))


def draws_from_the_global_generator(view: View) -> PriorityTable:
    return PriorityTable.of(np.random.random(view.counts.visits.shape[:-2]))  # noqa: NPY002


@dataclass(frozen=True)
class Counting(Policy):
    """Knows how often it has planned."""

    name: ClassVar[str] = "counting"
    plans: list[int] = field(default_factory=list)

    def plan(self, view: View) -> PriorityTable:
        self.plans.append(1)
        index = np.random.default_rng(len(self.plans)).random(view.n_arms)
        return PriorityTable.of(np.broadcast_to(index, view.counts.visits.shape[:-2]))

    def settings(self) -> dict[str, Any]:
        return {}


@dataclass(frozen=True)
class Alternating(Policy):
    """Favours one half of the arms, then the other."""

    name: ClassVar[str] = "alternating"

    def plan(self, view: View) -> Lottery:
        turn = getattr(self, "_turn", 0)
        object.__setattr__(self, "_turn", 1 - turn)
        return Lottery(1.0 + (np.arange(float(view.n_arms)) + turn) % 2)


TURNS: list[int] = []


def alternates_by_a_global(view: View) -> Lottery:
    TURNS.append(1)
    return Lottery(1.0 + (np.arange(float(view.n_arms)) + len(TURNS)) % 2)


@dataclass(frozen=True)
class LearningInItself(Policy):
    """Remembers the best that it ever saw of an arm, outside of its memory."""

    name: ClassVar[str] = "learning-in-itself"
    best: ClassVar[dict[int, FloatArray]] = {}

    def plan(self, view: View) -> PriorityTable:
        now = gain(view)
        if now.shape == self.best.get(now.size, now).shape:
            now = np.maximum(now, self.best.get(now.size, now))
        self.best[now.size] = now
        return PriorityTable(now)


def leaks_between_runs(view: View) -> Lottery:
    merit = np.exp(5 * gain(view).mean(axis=-1))
    return Lottery(merit if merit.ndim == 1 else np.broadcast_to(merit.mean(axis=0), merit.shape))


def depends_on_the_number_of_runs(view: View) -> Lottery:
    return Lottery(np.exp(len(view.rngs) * gain(view).mean(axis=-1)))


def shares_rngs_between_runs(view: View) -> PriorityTable:
    return PriorityTable.of(view.rngs[0].random(view.counts.visits.shape[:-2]))


class Boastful(Lottery):
    """States chances in proportion to merit, and draws all alike."""

    def exposure(self, budget: int) -> FloatArray:
        return np.asarray(budget * self.merit / self.merit.sum(axis=-1, keepdims=True))

    def weights(self, budget: int) -> FloatArray:
        return np.ones(self.merit.shape)

    def among(self, available: BoolArray, budget: int, highest: float = 1.0) -> Lottery:
        boasts = available.sum() > budget
        return Boastful(self.merit[available]) if boasts else super().among(available, budget, highest)

    def draw(self, budget: int, rng: np.random.Generator) -> BoolArray:
        return Lottery(np.ones(self.n_arms)).draw(budget, rng)


class BoastfulInSimulation(Lottery):
    """The same, where nobody draws in person."""

    def exposure(self, budget: int) -> FloatArray:
        return np.asarray(budget * self.merit / self.merit.sum(axis=-1, keepdims=True))

    def weights(self, budget: int) -> FloatArray:
        return np.ones(self.merit.shape)

    def play(self, now: Situation, budget: int, rng: np.random.Generator) -> Step:
        return Lottery(np.ones(self.n_arms)).play(now, budget, rng)


class UpsideDown(Ranking):
    """Draws those who have no chance."""

    def among(self, available: BoolArray, budget: int) -> Ranking:
        return UpsideDown(self.index[available])

    def draw(self, budget: int, rng: np.random.Generator) -> BoolArray:
        pulled = np.zeros(len(self.index), np.bool_)
        pulled[np.argsort(self.index)[:budget]] = True
        return pulled


class Contrary(PriorityTable):
    """Pulls those who have no chance."""

    def play(self, now: Situation, budget: int, rng: np.random.Generator) -> Step:
        return now.draw(UpsideDown(self.index[:, 0]), budget, rng)


def distinct(view: View) -> FloatArray:
    seen = view.counts
    return np.asarray(1.0 + 4 * seen.mean[..., 0, 1] / (1 + seen.visits.sum(axis=(-1, -2)) % 5))


def boasts(view: View) -> Lottery:
    return Boastful(distinct(view))


def boasts_in_simulation(view: View) -> Lottery:
    return BoastfulInSimulation(distinct(view))


def pulls_those_without_a_chance(view: View) -> PriorityTable:
    return Contrary.of(distinct(view))


def peeks(view: View) -> PriorityTable:
    return PriorityTable(view.true_transitions[..., 1] - view.true_transitions[..., 0])


def peeks_in_simulation(view: View) -> PriorityTable:
    return by_gain(view) if np.isnan(view.true_transitions).any() else peeks(view)


@dataclass(frozen=True)
class SaysItIsConstant(Policy):
    """Plans anew for each episode, but says that it does not."""

    name: ClassVar[str] = "says-it-is-constant"
    plans_once = True

    def plan(self, view: View) -> PriorityTable:
        return by_gain(view)


def changes_its_view(view: View) -> PriorityTable:
    view.true_transitions[...] = 1.0
    return by_gain(view)


def changes_the_memory_of_its_view(view: View) -> StepLearner:
    if view.memory is None:
        return StepLearner(np.zeros((*view.counts.visits.shape[:-2], 2)), rank_by_memory, learn_into_memory)
    view.memory[...] += 1.0
    return StepLearner(view.memory, rank_by_memory, learn_into_memory, keeps_memory=False)


@dataclass(frozen=True)
class ForgetsWhenLive(Policy):
    """Goes on from its memory in a simulation, where it is asked once, and begins anew in live use."""

    name: ClassVar[str] = "forgets-when-live"
    plans_once = True

    def plan(self, view: View) -> StepLearner:
        memory = np.zeros((*view.counts.visits.shape[:-2], 2)) + view.episode
        return StepLearner(memory, rank_by_memory, learn_into_memory, keeps_memory=False)


@dataclass(frozen=True)
class RulesOtherwise(mf.MeritFair):
    """Is simulated as MF-RMAB, but plans for the least deserving."""

    name: ClassVar[str] = "rules-otherwise"
    estimate: str = "mean"

    def plan(self, view: View) -> Lottery:
        return Lottery(np.exp(-10 * gain(view).mean(axis=-1)))


def pulls_others_when_live(view: View) -> PriorityTable:
    """Pulls those in the bad state when it is simulated, and those in the good state in live use."""
    index = [1.0, 0.0] if view.counts.visits.ndim > 3 else [0.0, 1.0]
    return PriorityTable(np.broadcast_to(index, view.counts.visits.shape[:-1]))


def ignores_that_there_may_be_one(view: View) -> PriorityTable:
    index = gain(view)
    return PriorityTable(index - np.sort(index, axis=-2)[..., -2:-1, :][..., [0], :])


def is_made_for_six(view: View) -> Lottery:
    return Lottery(np.ones((*view.counts.visits.shape[:-3], 6)))


@dataclass(frozen=True)
class NotPlain(Policy):
    """Has a setting that no file can hold."""

    name: ClassVar[str] = "not-plain"
    score: Callable[[AnyArray], AnyArray] = np.tanh

    def plan(self, view: View) -> PriorityTable:
        return PriorityTable(self.score(gain(view)))


def rank_by_dice(
    memory: FloatArray, states: IntArray, pulled: IntArray, step: int, exploring: bool, index: FloatArray
) -> None:
    for arm in range(len(states)):
        index[arm] = np.random.random()  # noqa: NPY002


def leaves_the_ranking_to_chance(view: View) -> StepLearner:
    return StepLearner(np.zeros((*view.counts.visits.shape[:-2], 1)), rank_by_dice)


def rank_some(
    memory: FloatArray, states: IntArray, pulled: IntArray, step: int, exploring: bool, index: FloatArray
) -> None:
    for arm in range(len(states)):
        index[arm] = np.nan if step == 7 and arm == 1 else 0.0


def forgets_to_rank(view: View) -> StepLearner:
    return StepLearner(np.zeros((*view.counts.visits.shape[:-2], 1)), rank_some)


BROKEN: list[tuple[Any, Check, str]] = [
    (
        spends_too_little,
        testing.check_pulls,
        "2 different arms must be pulled at each step, but in round 1 of a learner",
    ),
    (spends_too_little_when_simulated, testing.check_pulls, "but at step 1 of a simulation .* it was 1"),
    (forgets_to_rank, testing.check_pulls, "there was InputError: rank must set a number for each arm"),
    (boasts, testing.check_exposures, "as often as is stated: in a round of 150 learners that know the same arm"),
    (boasts_in_simulation, testing.check_exposures, "as often as is stated: in the second episode of 60 runs"),
    (RulesOtherwise(), testing.check_exposures, "as often as is stated: in the second episode of 60 runs"),
    (pulls_those_without_a_chance, testing.check_exposures, "an exposure of 1 is certain and one of 0 never happens"),
    (first_comes_first, testing.check_ties, "in 120 first rounds arm 0 was pulled 120 times, and 40.0 is the mean"),
    (first_comes_first_later, testing.check_ties, "in 120 rounds after a history that was the same for all arms arm 0"),
    (first_comes_first_in_simulation, testing.check_ties, "in 120 simulations of 10 steps .* arm 0 was pulled"),
    (favours_the_first_by_chance, testing.check_ties, "in 120 first rounds arm 0 was pulled 120 times"),
    (favours_the_first, testing.check_relabelling, "after the same history that of arm"),
    (looks_at_neighbours, testing.check_relabelling, "after the same history that of arm"),
    (favours_the_first_by_chance, testing.check_relabelling, "on average"),
    (draws_from_the_global_generator, testing.check_seeds, "random numbers that are not from View.rngs"),
    (Counting(), testing.check_seeds, "changes itself between plans: it keeps hidden state"),
    (Alternating(), testing.check_seeds, "changes itself between plans: it keeps hidden state"),
    (alternates_by_a_global, testing.check_seeds, "keeps hidden state outside of itself"),
    (LearningInItself(), testing.check_seeds, "keeps hidden state outside of itself"),
    (leaves_the_ranking_to_chance, testing.check_seeds, "a run must be the same"),
    (leaks_between_runs, testing.check_runs, "a run must be the same, but as one of 1 and as one of 3"),
    (depends_on_the_number_of_runs, testing.check_runs, "a run must be the same"),
    (shares_rngs_between_runs, testing.check_runs, "a run must be the same"),
    (draws_from_the_global_generator, testing.check_restart, "random numbers that are not from View.rngs"),
    (Counting(), testing.check_restart, "changes itself between plans: it keeps hidden state"),
    (
        NotPlain(),
        testing.check_restart,
        "there was InputError: the settings of the policy not-plain must be plain values",
    ),
    (leaks_between_runs, testing.check_runs_together, "but the merit of plans was another in run 0"),
    (depends_on_the_number_of_runs, testing.check_runs_together, "planned as if it were alone"),
    (shares_rngs_between_runs, testing.check_runs_together, "but the index of plans was another"),
    (changes_its_view, testing.check_runs_together, "leave its view as it is, but it has changed true_transitions"),
    (changes_the_memory_of_its_view, testing.check_runs_together, "leave its view as it is, but it has changed memory"),
    (Counting(), testing.check_no_secrets, "changes itself between plans: it keeps hidden state"),
    (peeks, testing.check_no_secrets, "not an oracle must plan without the true arms, but it cannot: index must"),
    (peeks_in_simulation, testing.check_no_secrets, "must not depend on the true arms unless its policy is an oracle"),
    (SaysItIsConstant(), testing.check_constant, "the index of episodes 1 and 9 was not"),
    (ForgetsWhenLive(), testing.check_constant, "the memory of episodes 1 and 9 was not"),
    (ignores_that_there_may_be_one, testing.check_sizes, "there was IndexError"),
    (is_made_for_six, testing.check_sizes, "without settings must take 1 arm and a budget of 1, but it refused"),
    (is_made_for_six, testing.check_join_and_leave, "without settings must take an arm that joins, but it refused"),
    (
        pulls_others_when_live,
        testing.check_learner_and_simulation,
        "live use and simulation must agree, but in 40 runs of 35",
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("policy", "check", "message"),
    BROKEN,
    ids=[f"{check.__name__}-{getattr(policy, 'name', None) or policy.__name__}" for policy, check, _ in BROKEN],
)
def test_what_is_broken_is_found(policy: Any, check: Check, message: str) -> None:
    with pytest.raises(ConformanceError, match=message):
        check(policy)


@pytest.mark.slow
def test_hidden_state_is_told_once_with_all_the_checks_that_it_fails() -> None:
    with pytest.raises(ConformanceError) as raised:
        check_policy(Counting())
    text = str(raised.value)
    assert text.count("it keeps hidden state") == 1
    assert "check_seeds, check_runs, check_restart" in text
    assert "must not depend on the true arms" not in text


# ---- a broken engine or learner, where no policy can do wrong


def test_choosing_who_is_not_available_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    choose = Learner.choose

    def regardless(self: Learner, states: Any = None, available: Any = None) -> Choice:
        return choose(self, np.nan_to_num(states), None)

    monkeypatch.setattr(Learner, "choose", regardless)
    with pytest.raises(ConformanceError, match=r"available .* in round 1 .* \(seed 82\)"):
        testing.check_missing("random")


def test_too_few_pulls_where_few_are_available_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    choose = Learner.choose

    def sparing(self: Learner, states: Any = None, available: Any = None) -> Choice:
        scarce = available is not None and np.sum(available) <= self.budget
        return choose(self, states, np.zeros(self.n_arms) if scarce else available)

    monkeypatch.setattr(Learner, "choose", sparing)
    with pytest.raises(ConformanceError, match="different arms must be pulled at each step, but in round"):
        testing.check_missing("random")
    testing.check_missing("none")


def test_accounts_beyond_the_slack_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = mf.MeritFair(estimate="mean", design="exact", slack=0.1)
    testing.check_accounts(policy)

    def endless(odds: Any, account: Any, due: Any, slack: float, budget: int, free: Any, *_: Any) -> FloatArray:
        return given_exposure(odds, 0 * account, due, np.inf, budget, free)

    monkeypatch.setattr(timed, "given_exposure", endless)
    with pytest.raises(ConformanceError, match=r"accounts must stay within the slack of 0\.1, but in round"):
        testing.check_accounts(policy)


def test_accounts_that_are_wrong_or_lost_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    policy, to_dict = mf.FairOracle(design="exact", slack=1.0), Rows.to_dict
    testing.check_accounts(policy)
    with monkeypatch.context() as patch:
        patch.setattr(Rows, "to_dict", lambda self: {**to_dict(self), "account": None})
        with pytest.raises(ConformanceError, match="must be the same, but in round"):
            testing.check_accounts(policy)
    choose = Learner.choose

    def doubled(self: Learner, *args: Any, **kwargs: Any) -> Choice:
        choice = choose(self, *args, **kwargs)
        return dataclasses.replace(choice, account=2 * choice.account)

    monkeypatch.setattr(Learner, "choose", doubled)
    with pytest.raises(ConformanceError, match="an account must be what was due less what was given"):
        testing.check_accounts(policy)


@pytest.mark.parametrize("name", ["random", "whittle", "round-robin"])
def test_rules_that_are_not_kept_are_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    testing.check_rules(name)
    situation = Learner._situation

    def free(self: Learner, *args: Any) -> Situation:
        now = situation(self, *args)
        return dataclasses.replace(now, free=now.available)

    monkeypatch.setattr(Learner, "_situation", free)
    with pytest.raises(ConformanceError, match="only arms that may be pulled by the rules must be chosen"):
        testing.check_rules(name)


def test_counting_what_is_not_known_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    observe = Learner.observe

    def guessing(self: Learner, states: Any, actions: Any, next_states: Any) -> None:
        observe(self, states, actions, np.nan_to_num(next_states))

    monkeypatch.setattr(Learner, "observe", guessing)
    with pytest.raises(ConformanceError, match=r"transitions were seen, but in round 1 .* were counted"):
        testing.check_missing("random")


def test_a_refusal_that_leaves_something_behind_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    join = Learner.join

    def half(self: Learner, names: Any = 1, transitions: Any = None) -> Any:
        join(self, names, transitions)
        raise mf.InputError("no")

    monkeypatch.setattr(Learner, "join", half)
    with pytest.raises(ConformanceError, match="when an arm could not join there must be"):
        testing.check_join_and_leave("merit-fair")
    with pytest.raises(ConformanceError, match="a policy without settings must take an arm that joins"):
        testing.check_join_and_leave("random")


def test_losing_what_was_seen_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    leave = Learner.leave

    def forgetful(self: Learner, arms: Any) -> None:
        leave(self, arms)
        self._record.arms.visits[:] = self._record.arms.good[:] = 0

    with monkeypatch.context() as patch:
        patch.setattr(Learner, "leave", forgetful)
        with pytest.raises(ConformanceError, match=r"when an arm returned what was seen .* must be kept"):
            testing.check_join_and_leave("random")
    monkeypatch.setattr(Learner, "leave", lambda self, arms: leave(self, arms, forget=True))
    with pytest.raises(ConformanceError, match=r"when an arm returned what was seen .* must be kept"):
        testing.check_join_and_leave("random")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda given: {**given, "seed": 1}, "another seed must give another run"),
        (lambda given: {**given, "seed": given["workers"]}, "played again with the same seed, 21, by 2 at a time"),
    ],
)
def test_seeds_and_workers_that_do_the_wrong_thing_are_found(
    change: Callable[[dict[str, Any]], dict[str, Any]], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cases, "simulate", lambda *args, **given: mf.simulate(*args, **change(given)))
    with pytest.raises(ConformanceError, match=message):
        testing.check_seeds("random")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda given: {**given, "seed": given["episodes"]}, "what was before had changed|once or not at all"),
        (lambda given: {**given, "budget": 3}, "at step 1 of a simulation .* it was 3"),
        (lambda given: {**given, "horizon": 2 * given["horizon"]}, "once or not at all|it was 4"),
    ],
)
def test_simulations_that_pull_too_much_or_begin_differently_are_found(
    change: Callable[[dict[str, Any]], dict[str, Any]], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cases, "simulate", lambda *args, **given: mf.simulate(*args, **change(given)))
    with pytest.raises(ConformanceError, match=message):
        testing.check_pulls("random")


def test_a_learner_that_loses_its_rng_in_a_file_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    to_dict = Learner.to_dict

    def without(self: Learner) -> dict[str, Any]:
        return {**to_dict(self), "rng": np.random.default_rng(1).bit_generator.state}

    monkeypatch.setattr(Learner, "to_dict", without)
    with pytest.raises(ConformanceError, match="must be the same, but in round 1 "):
        testing.check_restart("random")


def test_a_registered_policy_that_is_not_made_again_from_its_settings_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    @dataclass(frozen=True)
    class Doubling(Policy):
        name: ClassVar[str] = "doubling"
        weight: float = 1.0

        def __post_init__(self) -> None:
            object.__setattr__(self, "weight", 2 * self.weight)

        def plan(self, view: View) -> PriorityTable:
            return by_gain(view, self.weight)

    monkeypatch.setitem(registry._POLICIES, "doubling", Doubling)
    with pytest.raises(ConformanceError, match=r"made again from its settings, but .*2\.0.* became .*4\.0"):
        testing.check_restart("doubling")


def test_rotations_may_not_lose_their_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def play(self: Rotation, now: Situation, budget: int, rng: np.random.Generator) -> Step:
        return now.draw(Ranking(np.arange(float(self.length))), budget, rng)

    monkeypatch.setattr(Rotation, "play", play)
    with pytest.raises(ConformanceError, match="arms that are alike must be pulled alike"):
        testing.check_ties("round-robin")
    with pytest.raises(ConformanceError, match="live use and simulation must agree"):
        testing.check_learner_and_simulation("round-robin")


def test_a_learner_that_does_not_learn_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    observe = Learner.observe

    def unteachable(self: Learner, *seen: Any) -> None:
        memory = self._record.arms.memory
        before = None if memory is None else memory.copy()
        observe(self, *seen)
        self._record.arms.memory = before

    monkeypatch.setattr(Learner, "observe", unteachable)
    with pytest.raises(ConformanceError, match=r"sum of squares of pulls was .* live and .* simulated"):
        testing.check_learner_and_simulation("ab-whittle")


def test_a_learner_that_does_not_say_who_was_pulled_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    ranking = StepLearner._ranking

    def silent(self: StepLearner, now: Situation, *given: Any) -> Ranking:
        return ranking(self, dataclasses.replace(now, last_actions=np.zeros_like(now.last_actions)), *given)

    monkeypatch.setattr(StepLearner, "_ranking", silent)
    with pytest.raises(ConformanceError, match="live use and simulation must agree"):
        testing.check_learner_and_simulation("fawt-q")


# ---- how the checks are used


@pytest.mark.slow
def test_all_failures_are_told_at_once() -> None:
    with pytest.raises(ConformanceError) as found:
        check_policy(always_the_same)
    lines = str(found.value).splitlines()
    assert lines[0] == "always-the-same fails 2 of 17 checks:"
    assert [line.split(":")[0] for line in lines[1:]] == ["check_ties", "check_relabelling"]
    assert isinstance(found.value, AssertionError)


def test_checks_are_public_and_say_what_must_hold() -> None:
    assert len(set(CHECKS)) == len(CHECKS) == 17
    for check in CHECKS:
        assert getattr(testing, check.__name__) is check
        assert check.__name__ in testing.__all__
        told = inspect.getdoc(check)
        assert told is not None
        assert told.startswith("Check that ")
        assert list(inspect.signature(check).parameters) == ["policy", "n_arms", "budget"]


def test_a_policy_can_be_given_in_any_form() -> None:
    for policy in ("random", mf.policies.Random(), lambda view: Lottery(np.ones(view.counts.visits.shape[:-2]))):
        testing.check_pulls(policy)
    with pytest.raises(mf.InputError, match="no policy 'randon', did you mean 'random'"):
        check_policy("randon")
    with pytest.raises(mf.InputError, match="policy must be a Policy"):
        check_policy(mf.policies.Random)  # type: ignore[arg-type]
    with pytest.raises(mf.InputError, match=r"random .* 3 arms with budget 4: budget must be"):
        testing.check_pulls("random", n_arms=3, budget=4)


def test_a_policy_that_cannot_plan_at_all_fails() -> None:
    def divides(view: View) -> Lottery:
        raise ZeroDivisionError("by nothing")

    with pytest.raises(ConformanceError, match="ZeroDivisionError: by nothing"):
        testing.check_pulls(divides)
    with pytest.raises(ConformanceError, match="ZeroDivisionError"):
        check_policy(divides)


def test_pulling_fewer_is_in_order_for_a_policy_that_says_so() -> None:
    @dataclass(frozen=True)
    class Sparing(Policy):
        name: ClassVar[str] = "sparing"
        spends_budget = False

        def plan(self, view: View) -> PriorityTable:
            index = gain(view)
            return PriorityTable(np.where(index < -0.05, -np.inf, index))

    testing.check_pulls(Sparing())
    testing.check_missing(Sparing())
    testing.check_sizes(Sparing())


# ---- how what is random is judged


def test_the_limit_is_that_of_hoeffding() -> None:
    # 100 terms of length 1: P(|S| > t) <= 2 exp(-2 t^2 / 100), which is 1e-6 / 5 at this t
    t = float(judging.limit(np.ones(100), comparisons=5))
    assert 2 * np.exp(-2 * t**2 / 100) == pytest.approx(1e-6 / 5)
    assert np.allclose(judging.limit(np.full((100, 3), 2.0), comparisons=5), 2 * t)


def test_samples_of_one_law_agree_and_others_do_not() -> None:
    rng = np.random.default_rng(5)
    for _ in range(500):
        assert len(judging.differ(rng.integers(0, 9, (40, 3)), rng.integers(0, 9, (40, 3)))) == 0
        assert len(judging.differ(rng.random((40, 3)) < 0.05, (rng.random((40, 3)) < 0.05).astype(int))) == 0
    one, other = rng.normal(size=(40, 3)), rng.normal(size=(40, 3))
    other[:, 1] += 2.0
    assert judging.differ(one, other).tolist() == [1]
    same = np.ones((40, 2))
    assert judging.differ(same, same).tolist() == []
    assert judging.differ(same, same + np.array([0.0, 1e-3])).tolist() == [1]  # what never varies must be the same


def test_the_chance_that_samples_of_one_law_differ_is_as_small_as_it_is_said_to_be() -> None:
    # n differences of 1 with random signs: all alike with a chance of 2^(1 - n), which is below 1e-6 from n = 21 on;
    # Chernoff's bound is 2 * 2^(-n) there, so it is as sharp as can be
    for n in range(15, 30):
        found = judging.differ(np.ones((n, 1)), np.zeros((n, 1))).tolist()
        assert found == ([0] if 2.0 ** (1 - n) < 1e-6 else [])
    # one sign of 40 that is otherwise, or 41 ways in 2^40 to be so far off on either side: 7e-11, bounded by 2e-10
    signs = np.ones((40, 1))
    signs[7] = -1
    assert judging.differ(signs, 0 * signs).tolist() == [0]
    # with 8 of 40 it is 1.8e-4 and must not be found
    signs[:8] = -1
    assert judging.differ(signs, 0 * signs).tolist() == []
