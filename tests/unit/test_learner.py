"""A policy live: what it chooses, sees, keeps in files, and refuses."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest

import meritfair as mf
from meritfair.core.arrays import FloatArray, IntArray
from meritfair.policies import Lottery, Policy, PriorityTable, Rotation, StepLearner, View, create, names
from meritfair.policies.drawing import Situation, Step
from meritfair.policies.learner import Choice, Learner
from meritfair.policies.own import as_policy, policy_from_function

TRUTH = np.random.default_rng(3).uniform(0.1, 0.9, (5, 2, 2))
INDEX = np.array([[3.0, 0.0], [2.0, 2.0], [2.0, 1.0], [0.0, 5.0], [-np.inf, 1.0]])
ALL = np.ones(5, np.int64)


def always(plan: Any) -> Policy:
    """Return a policy that has one plan."""
    return as_policy(lambda view: plan)


def start(plan: Any, budget: int = 2, seed: int = 1, **settings: Any) -> Learner:
    return always(plan).start(5, budget, seed, **settings)


def play(learner: Learner, rounds: int, seed: int = 9) -> list[Choice]:
    """Let a learner choose and see everything, in states that have nothing to do with its choices."""
    rng = np.random.default_rng(seed)
    choices = []
    for states, next_states in rng.integers(0, 2, (rounds, 2, learner.n_arms)):
        choices.append(learner.choose(states))
        learner.observe(states, choices[-1].actions, next_states)
    return choices


def same(one: list[Choice], other: list[Choice]) -> bool:
    return all(
        a.names == b.names and np.array_equal(a.exposure, b.exposure) and np.array_equal(a.actions, b.actions)
        for a, b in zip(one, other, strict=True)
    )


def same_learner(one: Learner, other: Learner) -> bool:
    return json.dumps(one.to_dict()) == json.dumps(other.to_dict())


# ---- choosing


def test_a_choice_says_who_is_pulled_in_every_way() -> None:
    learner = mf.MeritFair().start(4, 2, seed=3, names=["Ada", "Bo", "Cy", "Di"])
    choice = learner.choose()
    assert choice.arms.tolist() == np.flatnonzero(choice.actions).tolist()
    assert choice.names == tuple(learner.names[arm] for arm in choice.arms)
    assert choice.actions.dtype == np.int64
    assert choice.exposure == pytest.approx(0.5)
    assert repr(learner) == "Learner(merit-fair: round 1, 4 arms, budget 2)"


def test_the_seed_fixes_all_draws_and_a_new_one_is_told() -> None:
    assert same(play(mf.MeritFair().start(5, 2, 4), 10), play(mf.MeritFair().start(5, 2, 4), 10))
    assert not same(play(mf.MeritFair().start(5, 2, 4), 10), play(mf.MeritFair().start(5, 2, 5), 10))
    learner = mf.MeritFair().start(5, 2)
    assert same(play(mf.MeritFair().start(5, 2, learner.seed), 10), play(learner, 10))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"budget": 6}, "budget must be between 1 and the 5 arms, got 6"),
        ({"budget": 0}, "budget must be between 1 and the 5 arms, got 0"),
        ({"n_arms": 0}, "n_arms must be at least 1, got 0"),
        ({"n_arms": 2.5}, r"n_arms must be a whole number, got 2\.5"),
        ({"horizon": 0}, "horizon must be at least 1, got 0"),
        ({"seed": -1}, "seed must be at least 0, got -1"),
        ({"names": ["a", "b"]}, "names must give one name for each of the 5 arms, got 2"),
        ({"names": ["a", "b", "c", "b", "d"]}, "arms 1 and 3 have the same name, 'b'"),
        ({"transitions": TRUTH[:4]}, "5 arms"),
        ({"transitions": TRUTH + 1}, "must lie between 0 and 1"),
    ],
)
def test_starts_that_cannot_be(settings: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {"n_arms": 5, "budget": 2, **settings}
    with pytest.raises(mf.InputError, match=message):
        mf.MeritFair().start(**given)


@pytest.mark.parametrize(
    ("states", "message"),
    [
        ([0, 1], r"states must have one value for each of the 5 arms, got shape \(2,\)"),
        (1, r"got shape \(\)"),
        (np.zeros((1, 5)), r"got shape \(1, 5\)"),
        ([0, 1, 2, 0, 0], "states must be 0 or 1, or missing, got 2 for 'arm-3'"),
        ([0, 1, 0.5, 0, 0], r"got 0\.5 for 'arm-3'"),
        ([0, 0, 0, 0, -2], "got -2 for 'arm-5'"),
        ([0, np.inf, 0, 0, 0], "got inf for 'arm-2'"),
        (list("abcde"), "states must be an array of numbers"),
    ],
)
def test_states_that_cannot_be(states: Any, message: str) -> None:
    learner, twin = mf.MeritFair().start(5, 2, 1), mf.MeritFair().start(5, 2, 1)
    with pytest.raises(mf.InputError, match=message):
        learner.choose(states)
    assert same_learner(learner, twin)


@pytest.mark.parametrize(
    ("available", "message"),
    [
        ([True], r"one value for each of the 5 arms, got shape \(1,\)"),
        (np.ones((5, 1)), r"one value for each of the 5 arms, got shape \(5, 1\)"),
        ([1, 0, 2, 0, 0], "must be 0 or 1, or missing, got 2 for 'arm-3'"),
        ([1, 0, np.nan, 0, 0], "yes or no for each of the 5 arms, it does not for 'arm-3'"),
        ({"arm-1": True, "arm-2": False}, "yes or no for each of the 5 arms, it does not for 'arm-3'"),
        (np.ma.masked_equal([1, 0, 1, 1, 0], 0), "yes or no for each of the 5 arms, it does not for 'arm-2'"),
        ("yes", "must be an array of numbers: .*'yes'"),
    ],
)
def test_availability_that_cannot_be(available: Any, message: str) -> None:
    with pytest.raises(mf.InputError, match=f"available .*{message}"):
        mf.MeritFair().start(5, 2, 1).choose(available=available)


@pytest.mark.parametrize("unknown", [None, np.nan, -1])
def test_where_a_state_is_not_known_a_plan_works_on_how_likely_it_is(unknown: Any) -> None:
    index = np.array([[0.0, 4.0], [1.0, 3.0], [0.5, 0.5], [9.0, -np.inf], [0.0, 1.0]])
    states = [unknown, unknown, 1, unknown, 0]  # nothing was seen of these arms: both states are as likely
    assert start(PriorityTable(index)).choose(states).exposure.tolist() == [1.0, 1.0, 0.0, 0.0, 0.0]
    assert start(PriorityTable(index[:, ::-1])).choose([1, 0, 0, 0, unknown]).exposure.tolist() == [0, 1, 0.5, 0, 0.5]
    soft = start(PriorityTable(np.maximum(index, -9.0), soft=True)).choose(states)
    assert soft.exposure[0] == soft.exposure[1] > soft.exposure[2]
    likely = start(StepLearner(index[:, :1], rank_alike)).choose(states)
    assert likely.exposure.sum() == pytest.approx(2)


def test_beliefs_follow_from_what_was_counted() -> None:
    """The second arm is mostly good: if nothing is known, the first is more likely to be bad, and so it is pulled."""
    seen = np.full((2, 2, 2), 98)
    history = [[[49, 49], [49, 49]], [[97, 97], [97, 97]]]
    learner = as_policy(lambda view: PriorityTable(np.tile([1.0, 0.0], (2, 1)))).start(2, 1, seed=1)
    learner._record.arms.visits[:], learner._record.arms.good[:] = seen, history
    assert learner.choose([None, None]).exposure.tolist() == [1.0, 0.0]
    assert learner.choose([1, None]).exposure.tolist() == [0.0, 1.0]


def test_beliefs_follow_from_the_last_state_that_was_seen_and_what_was_done_since() -> None:
    """Arms mostly keep their state if they are not pulled, and a pull makes them good."""
    beliefs = []

    class Watching(PriorityTable):
        def play(self, now: Situation, budget: int, rng: np.random.Generator) -> Step:
            beliefs.append(now.belief)
            return super().play(now, budget, rng)

    class Oracle(Policy):
        name, oracle = "oracle", True

        def plan(self, view: View) -> PriorityTable:
            return Watching(np.tile([1.0, 0.0], (3, 1)))

    learner = Oracle().start(3, 1, seed=1, transitions=[[[0.1, 0.95], [0.9, 0.95]]] * 3)
    assert learner.choose([1, 0, 1]).arms.tolist() == [1]
    assert learner.choose([None, None, 0]).arms.tolist() == [2]
    assert beliefs[1] == pytest.approx([0.9, 0.95, 0.0])
    assert learner.choose().arms.tolist() == [0]
    assert beliefs[2] == pytest.approx([0.1 + 0.8 * 0.9, 0.1 + 0.8 * 0.95, 0.95])
    learner.observe([None] * 3, [None] * 3, [None, 0, None], round=2)  # late: the second was bad after round 2
    learner.choose()
    assert beliefs[3] == pytest.approx([0.95, 0.1, 0.1 + 0.8 * 0.95])


def test_records_from_before_do_not_say_in_which_state_arms_are_now() -> None:
    """Arms of which the records say the same, but that one was last seen bad, and the other good after a gap."""
    log = mf.StateLog(["a"] * 4 + ["b"] * 4, [1, 2, 3, 4] * 2, [0, 0, -1, 0, 1, 1, -1, 1], [0, 0, 0, 0] * 2)
    policy = as_policy(lambda view: PriorityTable(np.tile([1.0, 0.0], (2, 1))))
    learner = policy.start(budget=1, seed=1, history=log)
    assert len(log.bridged) == 2
    arms = learner.effective_counts.mean
    share = arms[:, 0, 0] / (arms[:, 0, 0] + 1 - arms[:, 1, 0])
    here = learner._believed(learner._plan, learner._record.known())
    assert here == pytest.approx(share)


def test_oracles_believe_by_the_true_arms() -> None:
    arms = [[[0.1, 0.9], [0.2, 0.9]], [[0.8, 0.9], [0.9, 0.9]]]
    assert mf.policies.create("myopic").start(budget=1, seed=1, transitions=arms).choose().arms.tolist() == [0]
    slack = mf.FairOracle(design="exact", slack=1.0).start(budget=1, seed=1, transitions=arms)
    assert slack.choose([None, None]).exposure.sum() == pytest.approx(1)
    assert np.abs(slack.choose([None, 0]).account).max() <= 1


def test_states_need_not_be_known_where_they_do_not_matter() -> None:
    for plan in (Lottery(np.ones(5)), PriorityTable.of(np.arange(5.0)), Rotation(5)):
        assert start(plan).choose().actions.sum() == 2
        assert start(plan).choose([None, 0, np.nan, 1, -1]).actions.sum() == 2


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (3, "must plan a Lottery, TimedLottery, PriorityTable, Rotation or StepLearner, got 3"),
        (None, "got None"),
        (Lottery(np.ones(4)), "the policy planned for 4 arms, but there are 5"),
        (Lottery(np.ones((1, 5))), r"planned for shape \(1, 5\), it must be \(5,\)"),
        (PriorityTable(np.zeros((6, 2))), "planned for 6 arms, but there are 5"),
        (PriorityTable(np.zeros((2, 5, 2))), r"planned for shape \(2, 5\), it must be \(5,\)"),
        (Rotation(3), "planned for 3 arms, but there are 5"),
        (StepLearner(np.zeros((4, 5)), lambda *_: None), "planned for 4 arms, but there are 5"),
        (Lottery(np.ones(5), "exact", floor=np.full(4, 0.1)), "floor must"),
        (Lottery(np.ones(5), "exact", floor=0.5), r"floors must add up to at most the budget of 2, got 2\.5"),
        (
            PriorityTable(np.zeros((5, 2)), groups=np.array([0, 0, 0, 1, 1]), quotas=np.array([1, 2])),
            r"quotas must sum to the budget 2, got \[1 2\]",
        ),
    ],
)
def test_plans_that_cannot_be_followed_are_told_at_the_start(plan: Any, message: str) -> None:
    with pytest.raises(mf.InputError, match=message):
        start(plan)


# ---- chances


def some(available: list[int]) -> Any:
    return np.array(available, np.bool_)


def test_a_lottery_is_one_among_those_who_are_available() -> None:
    merit, can = np.array([5.0, 1.0, 2.0, 1.0, 3.0]), some([1, 0, 1, 1, 0])
    exposure = start(Lottery(merit)).choose(available=can).exposure
    assert exposure[can] == pytest.approx(mf.fair_exposure(merit[can], 2), abs=1e-9)
    assert exposure[~can].tolist() == [0.0, 0.0]


def test_floors_and_caps_hold_while_they_can_and_then_give_way() -> None:
    plan = Lottery(np.array([1.0, 1.0, 1.0, 1.0, 96.0]), "exact", floor=0.1, cap=np.array([1, 1, 1, 1, 0.6]))
    assert start(plan).choose().exposure == pytest.approx([0.35, 0.35, 0.35, 0.35, 0.6])
    assert start(plan).choose(available=[1, 1, 0, 0, 1]).exposure == pytest.approx([0.7, 0.7, 0, 0, 0.6])
    # two of them share 2, which the cap of 0.6 has to let be
    assert start(plan).choose(available=[1, 0, 0, 0, 1]).exposure.tolist() == [1, 0, 0, 0, 1]
    uneven = Lottery(np.ones(5), "exact", floor=np.array([0.9, 0.6, 0.1, 0.1, 0.0]))
    assert start(uneven).choose().exposure == pytest.approx([0.9, 0.6, 1 / 6, 1 / 6, 1 / 6])
    assert start(uneven).choose(available=[1, 1, 0, 0, 1]).exposure == pytest.approx([0.9, 0.6, 0, 0, 0.5])
    # one arm that is left alone with the budget is pulled, whatever its cap
    assert start(plan).choose(available=[0, 0, 0, 0, 1]).exposure.tolist() == [0, 0, 0, 0, 1]


@pytest.mark.parametrize(
    ("states", "available", "exposure"),
    [
        ([0, 0, 0, 0, 0], ALL, [1, 0.5, 0.5, 0, 0]),  # two are level for the second place
        ([1, 1, 1, 1, 1], ALL, [0, 1, 0, 1, 0]),
        ([0, 0, 0, 0, 0], [0, 1, 1, 1, 1], [0, 1, 1, 0, 0]),
        ([1, 1, 1, 0, 0], [1, 0, 0, 1, 1], [1, 0, 0, 1, 0]),  # two level, two places
        ([0, 0, 0, 0, 0], [0, 0, 0, 1, 1], [0, 0, 0, 1, 0]),  # -inf is never pulled
        ([0, 0, 0, 0, 0], [0, 0, 0, 0, 0], [0, 0, 0, 0, 0]),
    ],
)
def test_in_a_table_those_above_are_certain_and_those_level_share(states: Any, available: Any, exposure: Any) -> None:
    choice = start(PriorityTable(INDEX)).choose(states, available)
    assert choice.exposure.tolist() == exposure
    assert choice.actions.sum() == sum(exposure)
    assert np.all(choice.actions[np.array(exposure) == 1] == 1)


def test_a_soft_table_is_a_lottery_by_the_exponential_of_the_index() -> None:
    index = np.array([[0.0, 1.0], [1.0, 0.0], [0.5, 0.5], [-1.0, 2.0], [0.0, -700.0]])
    states, can = np.array([0, 1, 1, 1, 0]), some([1, 1, 0, 1, 1])
    exposure = start(PriorityTable(index, soft=True)).choose(states, can).exposure
    here = np.exp(index[np.arange(5), states])
    assert exposure[can] == pytest.approx(mf.fair_exposure(here[can], 2), abs=1e-9)
    assert exposure[2] == 0.0
    assert start(PriorityTable(1000 * index, soft=True)).choose(states).exposure.sum() == pytest.approx(2)


def test_quotas_are_for_each_group_of_those_available() -> None:
    groups, quotas = np.array([0, 0, 0, 1, 1]), np.array([2, 1])
    plan = PriorityTable(np.maximum(INDEX, -9.0), groups=groups, quotas=quotas)
    assert start(plan, budget=3).choose([0, 0, 0, 0, 0]).exposure.tolist() == [1, 0.5, 0.5, 1, 0]
    assert start(plan, budget=3).choose([1, 1, 0, 1, 1]).exposure.tolist() == [0, 1, 1, 1, 0]
    # what a group cannot spend stays unspent
    choice = start(plan, budget=3).choose([0, 0, 0, 0, 0], [1, 0, 0, 1, 1])
    assert choice.exposure.tolist() == [1, 0, 0, 1, 0]
    assert choice.actions.tolist() == [1, 0, 0, 1, 0]
    level = PriorityTable(np.zeros((5, 2)), groups=groups, quotas=quotas)
    drawn = np.array([start(level, budget=3, seed=seed).choose(ALL).actions for seed in range(60)])
    assert np.all(drawn[:, :3].sum(axis=1) == 2)
    assert np.all(drawn[:, 3:].sum(axis=1) == 1)
    assert np.all(drawn.any(axis=0) & ~drawn.all(axis=0))


def test_fewer_than_the_budget_are_all_pulled() -> None:
    for plan in (Lottery(np.ones(5)), Lottery(np.ones(5), "exact"), PriorityTable(np.zeros((5, 2))), Rotation(5)):
        learner = start(plan, budget=3)
        assert learner.choose(ALL, [0, 1, 0, 1, 0]).exposure.tolist() == [0, 1, 0, 1, 0]
        assert learner.choose(ALL, np.zeros(5)).names == ()


# ---- rotations


def test_a_rotation_serves_everyone_equally() -> None:
    for budget in (1, 2, 3, 4):
        learner, served = start(Rotation(5), budget), np.zeros(5, np.int64)
        for _ in range(23):
            choice = learner.choose()
            assert choice.actions.sum() == budget
            served += choice.actions
            assert np.ptp(served) <= 1


def test_the_line_of_a_rotation_is_drawn_as_it_is_needed() -> None:
    learner = start(Rotation(5))
    assert learner.choose().exposure == pytest.approx(0.4)
    second = learner.choose().exposure
    assert sorted(second) == pytest.approx([0, 0, 2 / 3, 2 / 3, 2 / 3])
    third = learner.choose()
    last = np.flatnonzero(np.isclose(second, 2 / 3))
    assert third.actions[last].sum() == 1  # who was left, and one of those who were first
    firsts = {start(Rotation(5), seed=seed).choose().names for seed in range(100)}
    assert len(firsts) == 10  # each of the pairs


def test_who_could_not_be_served_is_next() -> None:
    learner = start(Rotation(5), budget=1)
    for _ in range(12):
        assert learner.choose(available=[1, 1, 0, 1, 1]).actions[2] == 0
    assert learner.choose().exposure.tolist() == [0, 0, 1, 0, 0]
    served = np.sum([learner.choose().actions for _ in range(5)], axis=0)
    assert served.tolist() == [1, 1, 1, 1, 1]


def test_newcomers_are_next_in_a_rotation_and_then_have_the_same_turns() -> None:
    learner = create("round-robin").start(4, 2, seed=1)
    for _ in range(5):
        learner.choose()
    learner.join(2)
    assert learner.choose().exposure.tolist() == [0, 0, 0, 0, 1, 1]
    served = np.sum([learner.choose().actions for _ in range(9)], axis=0)
    assert served.tolist() == [3, 3, 3, 3, 3, 3]
    learner.leave([0, 4])
    assert np.sum([learner.choose().actions for _ in range(10)], axis=0).tolist() == [5, 5, 5, 5]


# ---- step learners


def rank_alike(
    memory: FloatArray, states: IntArray, last_actions: IntArray, step: int, exploring: bool, index: FloatArray
) -> None:
    index[:] = 0.0


def rank_by_first_column(
    memory: FloatArray, states: IntArray, last_actions: IntArray, step: int, exploring: bool, index: FloatArray
) -> None:
    """Columns: what was learned, how often the arm was pulled, how often it was ranked, the last step."""
    memory[:, 1] += last_actions
    memory[:, 2] += 1
    memory[:, 3] = step
    index[:] = -np.arange(len(states)) if exploring else memory[:, 0]


def learn_good(memory: FloatArray, states: IntArray, actions: IntArray, next_states: IntArray) -> None:
    memory[:, 0] += next_states + 0.01 * states + 0.001 * actions


def stepwise(explore: Callable[[FloatArray, int], float] | None = None, keeps: bool = True) -> Policy:
    def planning(view: View) -> StepLearner:
        memory = np.zeros((view.n_arms, 4)) if view.memory is None else view.memory + np.array([10, 0, 0, 0])
        return StepLearner(memory, rank_by_first_column, learn_good, explore, keeps)

    return policy_from_function(planning, "stepwise")()


def memory_of(learner: Learner) -> FloatArray:
    return np.array(learner.to_dict()["arms"]["memory"], dtype=np.float64)


def test_a_step_learner_ranks_and_learns() -> None:
    learner = stepwise().start(3, 1, seed=1)
    pulled = learner.choose([0, 1, 0]).actions
    learner.observe([0, 1, 0], pulled, [0, 1, None])
    assert memory_of(learner)[:, 0] == pytest.approx([0.001 * pulled[0], 1.01 + 0.001 * pulled[1], 0])
    assert memory_of(learner)[:, 1].tolist() == [0, 0, 0]  # pulls are noted when it ranks again
    choice = learner.choose([0, 0, 0])
    assert choice.exposure.tolist() == [0, 1, 0]
    assert memory_of(learner)[:, 1:].tolist() == [[pulled[arm], 2, 1] for arm in range(3)]


def test_pulls_are_noted_even_if_nobody_is_available_next() -> None:
    learner = stepwise().start(3, 2, seed=1)
    pulled = learner.choose([0, 0, 0]).actions
    assert learner.choose(available=[0, 0, 0]).names == ()
    learner.choose([0, 0, 0])
    assert memory_of(learner)[:, 1].tolist() == pulled.tolist()
    assert memory_of(learner)[:, 2].tolist() == [3, 3, 3]


def test_outcomes_from_before_the_first_round_are_learned() -> None:
    learner = stepwise().start(3, 1, seed=1)
    learner.observe([0, 0, 0], [0, 0, 0], [0, 0, 1])
    assert learner.choose([0, 0, 0]).names == ("arm-3",)


@pytest.mark.parametrize("keeps", [True, False])
def test_outcomes_that_come_after_arms_have_joined_or_left_are_learned(keeps: bool) -> None:
    learner = stepwise(keeps=keeps).start(3, 1, seed=1)
    learner.choose([0, 0, 0])
    learner.join("late")
    learner.observe([0, 0, 0, None], [1, 0, 0, 0], [0, 1, 0, None])
    learner.leave("arm-1")
    learner.observe([0, 0, 0], [0, 0, 0], [1, 0, 0])
    assert memory_of(learner)[:, 0].tolist() == [2, 0, 0]
    assert learner.choose([0, 0, 0]).names == ("arm-2",)


def test_memory_goes_on_from_episode_to_episode_as_the_plan_says() -> None:
    for keeps, first in ((True, 0.0), (False, 20.0)):
        learner = stepwise(keeps=keeps).start(2, 1, seed=1, horizon=2)
        for _ in range(5):
            learner.choose([0, 0])
        assert memory_of(learner)[:, 0].tolist() == [first, first]
        assert memory_of(learner)[:, 3].tolist() == [4, 4]


def test_exploring_is_part_of_the_chances() -> None:
    policy, pulls = stepwise(lambda memory, step: 0.25), np.zeros(3)
    for seed in range(400):
        learner = policy.start(3, 1, seed=seed)
        learner.observe([0, 0, 0], [0, 0, 0], [0, 0, 1])
        choice = learner.choose([0, 0, 0])
        assert choice.exposure.tolist() == [0.25, 0, 0.75]
        pulls += choice.actions
    assert pulls[1] == 0
    # Hoeffding at 1e-4: 400 pulls differ from their mean by at most sqrt(200 ln(2e4)) = 44.5
    assert abs(pulls[0] - 100) < 44.5


@pytest.mark.parametrize("chance", [-0.5, 0.0, 1.0, 1.5])
def test_a_chance_to_explore_beyond_its_bounds_is_the_nearest(chance: float) -> None:
    learner = stepwise(lambda memory, step: chance).start(3, 1, seed=1)
    learner.observe([0, 0, 0], [0, 0, 0], [0, 0, 1])
    assert learner.choose([0, 0, 0]).exposure.tolist() == ([1, 0, 0] if chance >= 1 else [0, 0, 1])


def test_a_ranking_without_numbers_is_refused_and_nothing_has_happened() -> None:
    def rank(memory: Any, states: Any, last_actions: Any, step: int, exploring: bool, index: Any) -> None:
        memory += 1
        index[:] = 0.0
        if step == 1 and states[0] == 1:
            index[2] = np.nan

    learner, twin = (start(StepLearner(np.zeros((5, 1)), rank)) for _ in range(2))
    for each in (learner, twin):
        each.choose(0 * ALL)
    with pytest.raises(mf.InputError, match="rank must set a number for each arm, got nan for 'arm-3'"):
        learner.choose(ALL)
    assert same_learner(learner, twin)
    assert same([learner.choose(0 * ALL)], [twin.choose(0 * ALL)])


# ---- planning


def test_a_plan_is_made_for_each_episode_from_what_was_seen() -> None:
    seen: list[tuple[int, int, int, Any]] = []

    def watching(view: View) -> Lottery:
        states = None if view.states is None else view.states.tolist()
        seen.append((view.episode, view.step, int(view.counts.visits.sum()), states))
        assert view.memory is None
        assert np.isnan(view.true_transitions).all()
        assert len(view.rngs) == 1
        return Lottery(np.ones(view.n_arms))

    learner = as_policy(watching).start(2, 1, seed=1, horizon=3)
    for _ in range(7):
        choice = learner.choose([0, None])
        learner.observe([0, 0], choice.actions, [1, None])
    tried, *plans = seen
    assert tried == (1, 0, 0, [-1, -1])
    # the second arm's outcomes are not reported, but its states are, and so the outcomes of all rounds but the last
    assert plans == [(1, 0, 0, [0, -1]), (2, 3, 3 + 2, [0, -1]), (3, 6, 6 + 5, [0, -1])]


def test_after_arms_have_changed_a_plan_is_made_at_once() -> None:
    episodes: list[tuple[int, int]] = []

    def watching(view: View) -> Lottery:
        episodes.append((view.episode, view.n_arms))
        return Lottery(np.ones(view.n_arms))

    learner = as_policy(watching).start(2, 2, seed=1, horizon=4)
    learner.choose()
    learner.join()
    learner.choose()
    learner.choose()
    learner.leave([0, 1])
    learner.choose()
    learner.choose()
    assert [each for each in episodes if each[1] != 2] == [(1, 3), (1, 3), (1, 1), (1, 1), (2, 1)]


def test_a_plan_that_fails_leaves_the_learner_as_it_was() -> None:
    def moody(view: View) -> Lottery:
        view.rngs[0].random()
        if view.states is not None and view.states[0] == 1:
            raise RuntimeError("not today")
        return Lottery(np.ones(view.n_arms))

    learner, twin = (as_policy(moody).start(5, 2, seed=1) for _ in range(2))
    with pytest.raises(RuntimeError, match="not today"):
        learner.choose(ALL)
    assert same_learner(learner, twin)
    assert same(play_at(learner, 0 * ALL), play_at(twin, 0 * ALL))


def play_at(learner: Learner, states: IntArray) -> list[Choice]:
    return [learner.choose(states) for _ in range(5)]


# ---- observing


def test_what_is_seen_is_counted_and_what_is_not_known_is_not() -> None:
    learner = mf.MeritFair().start(5, 2, seed=1)
    learner.observe([0, 1, None, 1, 1], [1, 0, 1, np.nan, 1], [1, 0, 1, 1, -1])
    visits, good = np.zeros((5, 2, 2)), np.zeros((5, 2, 2))
    visits[0, 0, 1] = visits[1, 1, 0] = good[0, 0, 1] = 1
    assert np.array_equal(learner.counts.visits, visits)
    assert np.array_equal(learner.counts.good, good)
    learner.observe([0, 1, 0, 1, 1], [1, 0, 1, 0, 1], [0, 0, 1, 1, 1])  # late, and once more
    assert learner.counts.visits.sum() == 7
    assert learner.counts.visits[0, 0, 1] == 2
    assert learner.round == 0


@pytest.mark.parametrize(
    ("seen", "message"),
    [
        (([0] * 4, [0] * 5, [0] * 5), r"states must have one value for each of the 5 arms, got shape \(4,\)"),
        (([0] * 5, [0] * 6, [0] * 5), r"actions must have one value for each of the 5 arms, got shape \(6,\)"),
        (([0] * 5, [0] * 5, [[0] * 5]), r"next_states must have one value for each of the 5 arms, got shape \(1, 5\)"),
        (([0] * 5, [0, 2, 0, 0, 0], [0] * 5), "actions must be 0 or 1, or missing, got 2 for 'arm-2'"),
        (([0] * 5, [0] * 5, [0, 0, 0.3, 0, 0]), r"next_states must be 0 or 1, or missing, got 0\.3 for 'arm-3'"),
        (([0] * 5, ["no"] * 5, [0] * 5), "actions must be an array of numbers"),
    ],
)
def test_outcomes_that_cannot_be_change_nothing(seen: Any, message: str) -> None:
    learner = mf.MeritFair().start(5, 2, seed=1)
    with pytest.raises(mf.InputError, match=message):
        learner.observe(*seen)
    assert learner.counts.visits.sum() == 0


def test_counts_that_were_handed_out_stay_as_they_are() -> None:
    learner = mf.MeritFair().start(5, 2, seed=1)
    before = learner.counts
    learner.observe(ALL, ALL, ALL)
    assert before.visits.sum() == 0
    with pytest.raises(ValueError, match="read-only"):
        learner.counts.visits[0] = 9


# ---- rounds that have a number


def test_an_outcome_is_taken_in_once_for_each_arm_and_round() -> None:
    learner = mf.MeritFair().start(3, 1, seed=1, names=["Ada", "Bo", "Cy"])
    first, second = learner.choose(), learner.choose()
    assert (first.round, second.round) == (1, 2)
    learner.observe([0, 0, 0], first.actions, [1, None, 0], round=first.round)
    before = learner.to_dict()
    for late in ({"Bo": 1, "Cy": 1}, [1, 1, 1]):  # one of them was taken in
        with pytest.raises(mf.InputError, match=r"outcome of '(Ada|Cy)' in round 1 was observed already"):
            learner.observe([0, 0, 0], first.actions, late, round=1)
    assert learner.to_dict() == before
    learner.observe([0, 0, 0], first.actions, {"Bo": 1}, round=1)  # late
    learner.observe([0, 0, 0], second.actions, [1, 1, 1], round=2)
    assert learner.counts.visits.sum(axis=(1, 2)).tolist() == [2, 2, 2]
    learner.observe([0, 0, 0], second.actions, [1, 1, 1])  # without a number nobody can tell
    assert learner.counts.visits.sum(axis=(1, 2)).tolist() == [3, 3, 3]


@pytest.mark.parametrize("number", [0, -1, 3, 2.5, "1", True])
def test_rounds_that_were_not_chosen_are_refused(number: Any) -> None:
    learner = mf.MeritFair().start(3, 1, seed=1)
    learner.choose()
    learner.choose()
    with pytest.raises(mf.InputError, match=r"round must be (between 1 and 2, the last one chosen|a whole number)"):
        learner.observe([0, 0, 0], [0, 0, 0], [1, 1, 1], round=number)
    assert learner.counts.visits.sum() == 0


def test_very_many_rounds_are_told_apart_and_take_little_room() -> None:
    learner = create("random").start(2, 1, seed=1)
    for _ in range(200):
        learner.choose()
    for number in (200, 64, 63, 1, 127, 126):
        learner.observe([0, 0], [0, 0], [1, 1], round=number)
    learner = Learner.from_dict(json.loads(json.dumps(learner.to_dict())))
    for number in range(1, 201):
        if number in (200, 64, 63, 1, 127, 126):
            with pytest.raises(mf.InputError, match=f"'arm-2' in round {number} was observed already"):
                learner.observe([0, 0], [0, 0], {"arm-2": 1}, round=number)
        else:
            learner.observe([0, 0], [0, 0], {"arm-2": 1}, round=number)
    assert learner.counts.visits.sum(axis=(1, 2)).tolist() == [6, 200]
    assert np.shape(learner.to_dict()["arms"]["reported"]) == (2, 4)  # 63 rounds to a word


def test_a_step_learner_that_fails_to_learn_takes_nothing_in() -> None:
    def learn(memory: Any, states: Any, actions: Any, next_states: Any) -> None:
        if next_states.any():
            raise RuntimeError("not today")

    learner, twin = (start(StepLearner(np.zeros((5, 1)), rank_alike, learn)) for _ in range(2))
    for each in (learner, twin):
        each.choose(ALL)
    with pytest.raises(RuntimeError, match="not today"):
        learner.observe(ALL, ALL, ALL, round=1)
    assert same_learner(learner, twin)
    learner.observe(ALL, ALL, 0 * ALL, round=1)
    assert learner.counts.visits.sum() == 5


# ---- those who return


def test_who_returns_has_their_history_back() -> None:
    learner = mf.MeritFair(estimate="mean").start(3, 1, seed=1, names=["Ada", "Bo", "Cy"])
    play(learner, 8)
    learner.choose()
    learner.observe([0, 0, 0], [0, 0, 0], [1, 1, 1], round=9)
    counts, exposure = learner.counts, Learner.from_dict(learner.to_dict()).choose().exposure
    learner.leave("Bo")
    assert (learner.names, learner.departed) == (("Ada", "Cy"), ("Bo",))
    learner = Learner.from_dict(json.loads(json.dumps(learner.to_dict())))
    assert learner.join(["Bo", "Dee"]) == ("Bo", "Dee")
    assert learner.departed == ()
    assert learner.counts.visits[:3].tolist() == counts.visits[[0, 2, 1]].tolist()
    assert learner.counts.good[:3].tolist() == counts.good[[0, 2, 1]].tolist()
    assert learner.counts.visits[3].sum() == 0
    with pytest.raises(mf.InputError, match="'Bo' in round 9 was observed already"):
        learner.observe([0] * 4, [0] * 4, {"Bo": 1}, round=9)
    learner.leave("Dee")
    assert learner.choose().exposure == pytest.approx(exposure[[0, 2, 1]])


def test_who_returns_has_their_memory_and_their_turn() -> None:
    learner = stepwise().start(3, 1, seed=1, names=["Ada", "Bo", "Cy"])
    learner.choose([0, 0, 0])
    learner.observe([0, 0, 0], [0, 0, 0], [0, 1, 0])
    known = memory_of(learner)
    learner.leave("Bo")
    learner.join(["Dee", "Bo"])
    assert memory_of(learner).tolist() == [known[0].tolist(), known[2].tolist(), [0, 0, 0, 0], known[1].tolist()]
    assert learner.choose([0, 0, 0, 0]).names == ("Bo",)
    rotation = create("round-robin").start(3, 1, seed=1)
    order = [rotation.choose().names[0] for _ in range(3)]
    rotation.leave(order[1])
    assert rotation.choose().names == (order[0],)
    rotation.join(order[1])  # has waited longest
    assert [rotation.choose().names[0] for _ in range(3)] == [order[1], order[2], order[0]]


def test_a_memory_comes_back_to_a_learner_that_has_none_yet() -> None:
    learner = stepwise().start(2, 1, seed=1, names=["Ada", "Bo"])
    learner.observe([0, 0], [0, 0], [0, 1])
    values = learner.to_dict()
    gone = {name: [rows[1]] for name, rows in values["arms"].items() if rows is not None}
    fresh = stepwise().start(2, 1, seed=1, names=["Ada", "Cy"]).to_dict()
    nothing = dict.fromkeys(["truth", "reported", "account", "joined", "track"])
    learner = Learner.from_dict({**fresh, "departed": {"Bo": gone | nothing}}, stepwise())
    learner.join("Bo")
    assert memory_of(learner)[:, 0].tolist() == [0, 0, 1]


def test_who_is_forgotten_is_a_stranger() -> None:
    learner = mf.MeritFair().start(4, 1, seed=1, names=["Ada", "Bo", "Cy", "Dee"])
    play(learner, 4)
    learner.leave("Bo", forget=True)
    learner.leave(["Cy"])
    assert (learner.names, learner.departed) == (("Ada", "Dee"), ("Cy",))
    learner.leave(["Cy", "Dee"], forget=True)  # one of them has left before
    assert (learner.names, learner.departed) == (("Ada",), ())
    assert not any(name in json.dumps(learner.to_dict()) for name in ("Bo", "Cy", "Dee"))
    learner.join(["Bo", "Cy", "Dee"])
    assert learner.counts.visits[1:].sum() == 0


def test_only_those_who_have_left_can_be_forgotten_twice() -> None:
    learner = mf.MeritFair().start(3, 1, seed=1, names=["Ada", "Bo", "Cy"])
    learner.leave("Bo")
    for forget in (False, True):
        with pytest.raises(mf.InputError, match="there is no arm 'Dee'"):
            learner.leave(["Cy", "Bo", "Dee"] if forget else "Dee", forget=forget)
    with pytest.raises(mf.InputError, match="there is no arm 'Bo'"):
        learner.leave("Bo")
    assert (learner.names, learner.departed) == (("Ada", "Cy"), ("Bo",))
    with pytest.raises(mf.InputError, match="at least one arm must stay"):
        learner.leave(["Bo", "Ada", "Cy"], forget=True)
    assert learner.departed == ("Bo",)


def test_numbered_newcomers_are_nobody_who_was_there() -> None:
    learner = mf.MeritFair().start(3, 1, seed=1, names=["arm-1", "arm-4", "arm-5"])
    play(learner, 3)
    learner.leave("arm-5")
    assert learner.join(2) == ("arm-6", "arm-7")
    assert learner.counts.visits[2:].sum() == 0


def test_an_oracle_knows_again_who_returns() -> None:
    learner = mf.FairOracle().start(5, 2, seed=1, transitions=TRUTH)
    learner.leave("arm-2")
    learner.join("arm-2")
    due = mf.FairOracle().plan(View(mf.Counts.none(5), 1, 2, TRUTH[[0, 2, 3, 4, 1]])).exposure(2)
    assert learner.choose().exposure == pytest.approx(due)
    learner.leave("arm-3")
    with pytest.raises(mf.InputError, match="fair-oracle knows the true arms"):
        learner.join(["arm-3", "new"])
    learner.join(["arm-3"], TRUTH[:1])  # by now another
    due = mf.FairOracle().plan(View(mf.Counts.none(5), 1, 2, TRUTH[[0, 3, 4, 1, 0]])).exposure(2)
    assert learner.choose().exposure == pytest.approx(due)


# ---- what was recorded before


def some_log(rounds: int = 30) -> mf.StateLog:
    """Return records of Ada, Bo and Cy; Bo has a gap, and Cy is there only in the beginning."""
    rng = np.random.default_rng(4)
    rows = [(name, t, *rng.integers(0, 2, 2)) for t in range(rounds) for name in ("Ada", "Bo", "Cy")]
    seen = [row for row in rows if not (row[0] == "Bo" and row[1] == 3) and not (row[0] == "Cy" and row[1] > 8)]
    rng.shuffle(order := np.arange(len(seen)))
    return mf.StateLog(*zip(*(seen[i] for i in order), strict=True))


def test_a_history_is_taken_in_by_name() -> None:
    log = some_log()
    learner = mf.MeritFair().start(budget=1, seed=1, history=log)
    assert learner.names == log.arms
    assert np.array_equal(learner.counts.visits, log.counts.visits)
    assert np.array_equal(learner.counts.good, log.counts.good)
    learner = mf.MeritFair().start(2, 1, seed=1, names=["Dee", "Bo"], history=log)
    bo, cy = log.arms.index("Bo"), log.arms.index("Cy")
    assert learner.counts.visits.tolist() == [np.zeros((2, 2)).tolist(), log.counts.visits[bo].tolist()]
    assert set(learner.departed) == {"Ada", "Cy"}
    learner.join("Cy")
    assert learner.counts.good[2].tolist() == log.counts.good[cy].tolist()
    learner.choose()
    learner.observe([0] * 3, [0] * 3, [1] * 3, round=1)  # its rounds are others than those of the log


@pytest.mark.parametrize("policy", [mf.policies.create("wiql"), stepwise()], ids=lambda policy: policy.name)
def test_a_step_learner_learns_from_a_history_in_its_order(policy: Policy) -> None:
    log = some_log()
    learner, twin = policy.start(budget=1, seed=1, history=log), policy.start(3, 1, seed=1, names=log.arms)
    rows = zip(log.arm, log.rounds, log.states, log.actions, strict=True)
    known = {(log.arms[arm], t): (s, a) for arm, t, s, a in rows}
    for t in range(30):
        now, after = ({name: known.get((name, t + i)) for name in log.arms} for i in (0, 1))
        seen = [name for name in log.arms if now[name] and after[name]]
        twin.observe(*({name: of[name][i] for name in seen} for of, i in ((now, 0), (now, 1), (after, 0))))  # type: ignore[index]
    assert same_learner(learner, twin)
    assert memory_of(learner).any()


@pytest.mark.parametrize("estimate", ["mean", "pooled"])
@pytest.mark.parametrize("design", ["sequential", "exact"])
def test_a_learner_with_a_history_has_the_exposures_of_a_fit(design: str, estimate: str) -> None:
    bounds: dict[str, Any] = {} if design == "sequential" else {"floor": 0.1, "cap": 0.9}
    policy, log = mf.MeritFair(mf.Exponential(2.0), estimate=estimate, design=design, **bounds), some_log()
    learner = policy.start(budget=2, seed=1, history=log)
    found = mf.fit(log, budget=2, criterion=policy.criterion, estimate=estimate)
    assert learner.choose().exposure.tolist() == found.assessment.exposure.tolist()


def test_a_cap_of_one_is_approached_as_an_arm_was_not_pulled() -> None:
    pulls = {"Ada": 30, "Bo": 3, "Cy": 3}  # Ada is well when she is pulled, and else is not
    rows = [(name, t, t > 1 and t <= pulls[name], t < pulls[name]) for t in range(34) for name in pulls]
    log = mf.StateLog(*zip(*rows, strict=True))
    policy = mf.MeritFair(estimate="mean", design="exact", merit=mf.Exponential(40.0))
    fit = mf.fit(log, budget=1, criterion=mf.Criterion(policy.merit, "exact")).assessment.exposure
    first = policy.start(budget=1, history=log).choose().exposure
    top = int(np.argmax(fit))
    never = log.counts.visits[top, :, 0].sum()
    assert fit[top] > 0.95
    assert first[top] == pytest.approx(1 - (1 - 1 / 3) / (1 + never))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"history": [1, 2]}, r"history must be a StateLog, .*got \[1, 2\]"),
        ({"history": mf.StateLog(["Ada"] * 2, [7, 14], [0, 1], [1, 0])}, "no transitions: .* rounds step by 7"),
        ({"history": some_log(), "n_arms": 4}, "each of the 4 arms, got 3"),
        ({"history": some_log(), "names": ["Ada"], "n_arms": 2}, "each of the 2 arms, got 1"),
        ({"history": some_log(), "budget": 4}, "budget must be between 1 and the 3 arms, got 4"),
        ({"history": some_log(), "budget": None}, "budget must be a whole number, got None"),
        ({}, "n_arms must be given"),
        ({"names": 7}, "the name of arm 0 must be text, got 7"),
    ],
)
def test_histories_that_cannot_be(settings: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {"budget": 1, **settings}
    with pytest.raises(mf.InputError, match=message):
        mf.MeritFair().start(**given)


def test_names_or_transitions_say_how_many_arms_there_are() -> None:
    assert mf.MeritFair().start(budget=1, names=["Ada", "Bo"]).n_arms == 2
    assert mf.FairOracle().start(budget=1, transitions=TRUTH).n_arms == 5


# ---- threads and copies


@pytest.mark.parametrize(
    "other",
    [
        lambda learner: learner.choose(),
        lambda learner: learner.observe({"arm-1": 0}, {"arm-1": 0}, {"arm-1": 1}),
        lambda learner: learner.leave(learner.join()),
        lambda learner: learner.to_dict(),
        lambda learner: learner.counts,
    ],
)
def test_threads_wait_for_each_other(other: Callable[[Learner], Any]) -> None:
    threads: list[Thread] = []
    waited: list[bool] = []

    def planning(view: View) -> Lottery:
        if view.states is not None and view.states[0] == 1:  # in the middle of a choice
            threads.append(Thread(target=lambda: other(learner)))
            threads[0].start()
            threads[0].join(0.03)
            waited.append(threads[0].is_alive())
        return Lottery(np.ones(view.n_arms))

    learner = as_policy(planning).start(4, 2, seed=1)
    learner.choose([1, 0, 0, 0])
    threads[0].join()
    assert waited == [True]


def test_a_copy_goes_on_by_itself() -> None:
    learner = create("merit-fair").start(5, 2, seed=1, horizon=3)
    play(learner, 4)
    for twin in (copy.deepcopy(learner), pickle.loads(pickle.dumps(learner))):
        assert same_learner(learner, twin)
        assert same(play(twin, 5), play(copy.deepcopy(learner), 5))
        assert learner.round == 4


# ---- oracles


def test_an_oracle_needs_the_true_arms() -> None:
    message = "the policy fair-oracle knows the true arms: give their transitions"
    with pytest.raises(mf.InputError, match=message):
        mf.FairOracle().start(5, 2)
    learner = mf.FairOracle().start(5, 2, seed=1, transitions=TRUTH)
    with pytest.raises(mf.InputError, match=message):
        learner.join(["new"])
    assert learner.n_arms == 5
    with pytest.raises(mf.InputError, match="names must give one name for each of the 2 arms, got 1"):
        learner.join(["new"], TRUTH[:2])


def test_what_an_oracle_knows_goes_with_the_arms() -> None:
    learner = mf.FairOracle().start(5, 2, seed=1, transitions=TRUTH)
    due = mf.FairOracle().plan(View(mf.Counts.none(5), 1, 2, TRUTH)).exposure(2)
    assert learner.choose().exposure == pytest.approx(due)
    learner.leave([1, 3])
    learner.join(["new"], TRUTH[1:2])
    order = [0, 2, 4, 1]
    due = mf.FairOracle().plan(View(mf.Counts.none(4), 1, 2, TRUTH[order])).exposure(2)
    assert learner.choose().exposure == pytest.approx(due)
    loaded = Learner.from_dict(learner.to_dict())
    assert loaded.choose().exposure == pytest.approx(due)


# ---- joining and leaving


def test_arms_join_behind_the_others_with_names_that_nobody_had() -> None:
    learner = mf.MeritFair().start(3, 2, seed=1)
    learner.observe([0, 0, 0], [0, 1, 0], [1, 1, 1])
    assert learner.join() == ("arm-4",)
    assert learner.join(2) == ("arm-5", "arm-6")
    learner.leave(["arm-6"])
    assert learner.join() == ("arm-7",)
    assert learner.join("Ada") == ("Ada",)
    assert learner.join(["Bo", "Cy"]) == ("Bo", "Cy")
    assert learner.names == ("arm-1", "arm-2", "arm-3", "arm-4", "arm-5", "arm-7", "Ada", "Bo", "Cy")
    assert learner.counts.visits.sum(axis=(1, 2)).tolist() == [1, 1, 1] + 6 * [0]
    assert learner.choose(np.zeros(9)).actions.sum() == 2


@pytest.mark.parametrize(
    ("new", "message"),
    [
        (["arm-2"], "arms 1 and 3 have the same name, 'arm-2'"),
        (["x", "x"], "arms 3 and 4 have the same name, 'x'"),
        ([""], "the name of arm 3 must be text, got ''"),
        ([7], "the name of arm 3 must be text, got 7"),
        ([], "how many join must be at least 1, got 0"),
        (2.5, r"the name of arm 3 must be text, got 2\.5"),
        (None, "the name of arm 3 must be text, got None"),
        (0, "names must be at least 1, got 0"),
        (True, "names must be a whole number, got True"),
    ],
)
def test_arms_that_cannot_join_change_nothing(new: Any, message: str) -> None:
    learner, twin = mf.MeritFair().start(3, 2, seed=1), mf.MeritFair().start(3, 2, seed=1)
    with pytest.raises(mf.InputError, match=message):
        learner.join(new)
    assert same_learner(learner, twin)


@pytest.mark.parametrize("arms", [["Bo"], "Bo", [1], 1, ["Bo", 1], np.array([1]), np.int64(1)])
def test_arms_leave_by_name_or_by_place(arms: Any) -> None:
    learner = mf.MeritFair().start(3, 2, seed=1, names=["Ada", "Bo", "Cy"])
    learner.observe([0, 0, 0], [0, 1, 0], [1, None, 1])
    learner.leave(arms)
    assert learner.names == ("Ada", "Cy")
    assert learner.counts.visits.sum(axis=(1, 2)).tolist() == [1, 1]


@pytest.mark.parametrize(
    ("arms", "message"),
    [
        (["Boo"], "there is no arm 'Boo', did you mean 'Bo'"),
        ([3], "arm must be between 0 and 2, got 3"),
        ([-1], "arm must be between 0 and 2, got -1"),
        ([1.5], "arm must be a whole number"),
        (None, "arm must be a whole number, got None"),
        (2.5, r"arm must be a whole number, got 2\.5"),
        (np.array(1), "arm must be a whole number, got array"),
        (["Ada", "Bo", "Cy"], "at least one arm must stay"),
    ],
)
def test_arms_that_cannot_leave_stay(arms: Any, message: str) -> None:
    learner = mf.MeritFair().start(3, 2, seed=1, names=["Ada", "Bo", "Cy"])
    with pytest.raises(mf.InputError, match=message):
        learner.leave(arms)
    assert learner.names == ("Ada", "Bo", "Cy")


def test_the_budget_is_spent_as_far_as_there_are_arms() -> None:
    learner = mf.MeritFair().start(3, 2, seed=1)
    learner.leave([0, 1])
    assert learner.choose().exposure.tolist() == [1.0]
    learner.join(3)
    assert learner.choose().actions.sum() == 2


def test_settings_that_do_not_suit_other_arms_are_told_and_nothing_changes() -> None:
    policy = mf.MeritFair(design="exact", floor=(0.1, 0.2, 0.3))
    learner, twin = policy.start(3, 1, seed=1), policy.start(3, 1, seed=1)
    for change in (lambda: learner.join(), lambda: learner.leave([0])):
        with pytest.raises(mf.InputError, match=r"floor must .* arms"):
            change()
    assert same_learner(learner, twin)
    assert same(play(learner, 5), play(twin, 5))


# ---- keeping


@pytest.mark.parametrize("name", names())
def test_a_learner_is_plain_json_and_comes_back_from_it(name: str) -> None:
    learner = create(name).start(5, 2, seed=1, horizon=2, transitions=TRUTH)
    for rounds in (0, 3):
        play(learner, rounds)
        text = json.dumps(learner.to_dict(), allow_nan=False)
        loaded = Learner.from_dict(json.loads(text))
        assert json.dumps(loaded.to_dict(), allow_nan=False) == text
        assert (loaded.round, loaded.seed, loaded.budget, loaded.horizon) == (rounds, 1, 2, 2)
        assert loaded.names == learner.names
    assert same(play(learner, 5), play(loaded, 5))


def test_numbers_that_json_does_not_know_come_back() -> None:
    odd = np.array([[np.inf, -np.inf], [np.nan, 1 / 3], [5e-324, -0.0]])
    plan = StepLearner(odd, lambda memory, states, last_actions, step, exploring, index: index.fill(0.0))
    learner = always(plan).start(3, 1, seed=1)
    learner.choose([0, 0, 0])
    text = json.dumps(learner.to_dict(), allow_nan=False)
    loaded = Learner.from_dict(json.loads(text), learner.policy)
    assert loaded.to_dict()["arms"]["memory"] == [["inf", "-inf"], ["nan", 1 / 3], [5e-324, -0.0]]
    assert json.dumps(loaded.to_dict(), allow_nan=False) == text


@pytest.mark.parametrize("when", ["before", "between", "after"])
@pytest.mark.parametrize("name", ["merit-fair", "round-robin"])
def test_a_loaded_learner_goes_on_in_any_moment(name: str, when: str, tmp_path: Path) -> None:
    learner = create(name).start(5, 2, seed=1, horizon=3)
    play(learner, 4)  # in the middle of an episode
    if when != "before":
        choice = learner.choose(ALL)
    if when == "after":
        learner.observe(ALL, choice.actions, 1 - ALL)
    learner.save(tmp_path / "learner.json")
    loaded = Learner.load(tmp_path / "learner.json")
    if when == "between":
        for each in (learner, loaded):
            each.observe(ALL, choice.actions, 1 - ALL)
    assert same(play(learner, 7), play(loaded, 7))
    assert same_learner(learner, loaded)


def test_a_learner_whose_arms_have_just_changed_is_kept(tmp_path: Path) -> None:
    learner = stepwise().start(4, 2, seed=1, horizon=3)
    play(learner, 4)
    learner.join(2)
    learner.leave([0])
    learner.save(tmp_path / "learner.json")
    loaded = Learner.load(tmp_path / "learner.json", stepwise())
    for each in (learner, loaded):
        each.observe(ALL, 0 * ALL, ALL)
    assert same(play(learner, 7), play(loaded, 7))
    assert loaded.join() == learner.join() == ("arm-7",)


def test_a_policy_of_ones_own_is_handed_over(tmp_path: Path) -> None:
    learner, file = stepwise().start(3, 1, seed=1), tmp_path / "learner.json"
    play(learner, 3)
    learner.save(file)
    with pytest.raises(mf.InputError, match="there is no policy 'stepwise'"):
        Learner.load(file)
    with pytest.raises(mf.InputError, match="this learner has the policy 'stepwise', not 'random'"):
        Learner.load(file, create("random"))
    assert same(play(Learner.load(file, stepwise()), 5), play(learner, 5))


def test_a_merit_function_of_ones_own_is_handed_over_with_its_policy(tmp_path: Path) -> None:
    policy = mf.MeritFair(merit=mf.CustomMerit(lambda mu: 2 + mu, lipschitz=1.0))
    learner, file = policy.start(3, 1, seed=1), tmp_path / "learner.json"
    learner.save(file)
    with pytest.raises(mf.InputError, match="'merit-fair' has a merit function of its own: give the policy itself"):
        Learner.load(file)
    assert same(play(Learner.load(file, policy), 5), play(learner, 5))
