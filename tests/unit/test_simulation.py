from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import pytest

import meritfair as mf
from meritfair.policies import Lottery, Plan, PriorityTable, StepLearner, View
from meritfair.seeding import stream
from reference import numpy_simulator, plain

ARMS = mf.datasets.synthetic(n_arms=4, seed=5)


def play(policy: mf.Policy, **changes: Any) -> mf.Run:
    settings: dict[str, Any] = {"budget": 2, "episodes": 12, "horizon": 9, "runs": 3, "seed": 1, **changes}
    return mf.simulate(settings.pop("arms", ARMS), policy, **settings)


def shared_reference(arms: mf.Arms, seed: int, run: int, **settings: Any) -> dict[str, Any]:
    """Play the plain reference with the very random numbers that the NumPy simulator gives to a run."""
    environment, luck = stream(seed, "environment", run), stream(seed, "policy", run)
    N, H, K = arms.n_arms, settings["horizon"], settings["budget"]
    luck.permutation(N)  # the line that a rotation would follow
    rows: dict[str, Any] = {}

    def new_episode() -> None:
        rows["uniform"] = iter(environment.random((H, N)))
        rows["race"] = iter(luck.standard_exponential((H, N)))

    def choose(share: Any) -> set[int]:
        return set(np.argsort(next(rows["race"]) / share)[:K].tolist())

    return plain.mf_rmab(
        arms.transitions,
        start=lambda: environment.random(N) < 0.5,
        choose=choose,
        uniform=lambda: next(rows["uniform"]),
        new_episode=new_episode,
        **settings,
    )


@pytest.mark.parametrize("carry", [False, True])
@pytest.mark.parametrize(("budget", "horizon"), [(1, 7), (2, 30), (4, 5), (3, 1)])
def test_the_numpy_reference_equals_plain_loops_number_for_number(budget: int, horizon: int, carry: bool) -> None:
    merit = mf.Exponential(2.0)
    policy = mf.MeritFair(merit=merit, delta=0.3)
    settings: dict[str, Any] = {"budget": budget, "episodes": 12, "horizon": horizon, "delta": 0.3}
    run = numpy_simulator.simulate([ARMS] * 2, policy, merit=merit, carry_states=carry, seed=1, **settings)
    for r in range(2):
        plainly = shared_reference(ARMS, 1, r, c=2.0, carry=carry, **settings)
        np.testing.assert_array_equal(run["visits"][r], plainly["visits"])
        np.testing.assert_array_equal(run["good"][r], plainly["good"])
        np.testing.assert_array_equal(run["reward"][r], plainly["reward"])
        np.testing.assert_allclose(run["fairness_regret"][r], plainly["regret"], atol=1e-10)
        assert int(run["coverage_gap"][r]) == plain.longest_gap(plainly["covered"])


@dataclass(frozen=True)
class InPython(mf.Policy):
    """Any policy, so that its plans are made in Python and not in the engine."""

    name: ClassVar[str] = "in-python"
    inner: mf.Policy

    def plan(self, view: View) -> Plan:
        return self.inner.plan(view)

    def settings(self) -> dict[str, Any]:
        return self.inner.settings()


@pytest.mark.parametrize("carry", [False, True])
@pytest.mark.parametrize(
    "policy",
    [
        mf.MeritFair(merit=mf.Exponential(2.0)),
        mf.MeritFair(merit=mf.Exponential(2.0), estimate="mean"),
        mf.MeritFair(merit=mf.Exponential(2.0), estimate="pessimistic", delta=0.2),
        mf.MeritFair(merit=mf.Affine(1.0, 2.0)),
        mf.MeritFair(merit=mf.Power()),
        mf.MeritFair(merit=mf.Logistic()),
        mf.Optimal(),
        mf.Optimal(estimate="mean"),
        mf.FairOracle(),
        mf.Random(),
        mf.RoundRobin(),
        mf.NoAction(),
    ],
    ids=repr,
)
def test_plans_made_in_the_engine_are_those_made_in_python(policy: mf.Policy, carry: bool) -> None:
    settings: dict[str, Any] = {"carry_states": carry, "horizon": 70, "merit": mf.Exponential(3.0), "delta": 0.05}
    compiled, asked = play(policy, **settings), play(InPython(policy), **settings)
    for name in ("visits", "good", "reward", "longest_wait", "coverage_gap", "coverage_gap_authors"):
        np.testing.assert_array_equal(getattr(compiled, name), getattr(asked, name))
    for name in ("fairness_regret", "fairness_regret_authors", "eta", "omega"):
        np.testing.assert_allclose(getattr(compiled, name), getattr(asked, name), atol=1e-12)


def test_what_is_measured_of_a_run_follows_from_its_counts() -> None:
    # Episode by episode, with the ball and the merits of the model.
    merit, policy = mf.Exponential(2.0), mf.MeritFair(merit=mf.Exponential(2.0), estimate="mean", delta=0.2)
    runs = [play(policy, episodes=t, merit=merit, delta=0.2) for t in range(1, 9)]
    for before, after in pairwise(runs):
        ball = mf.Ball(mf.Counts(before.visits, before.good), after.episodes, 0.2)
        share = mf.merit_share(merit(mf.benefit(ball.estimate("mean"))))
        fair = mf.merit_share(after.fair_merit)
        np.testing.assert_allclose(after.fairness_regret[:, -1], np.abs(share - fair).sum(axis=1), atol=1e-12)
        np.testing.assert_allclose(after.eta[:, -1], ball.eta.max(axis=(1, 2)), atol=1e-12)
        np.testing.assert_allclose(after.omega[:, -1], ball.omega.max(axis=(1, 2)), atol=1e-12)
        gained = (after.good - before.good).sum(axis=(1, 2, 3))
        np.testing.assert_array_equal(after.reward[:, -1], gained)


def test_shapes_are_those_of_the_contract() -> None:
    run = play(mf.MeritFair())
    assert run.fairness_regret.shape == run.reward.shape == (3, 12)
    assert run.visits.shape == run.good.shape == (3, 4, 2, 2)
    assert run.pulls.shape == run.longest_wait.shape == (3, 4)
    assert run.first_valid_episode.shape == run.coverage_gap.shape == (3,)


@pytest.mark.parametrize("name", mf.policies.names())
def test_books_balance(name: str) -> None:
    run = play(mf.policies.create(name))
    steps = 12 * 9
    assert (run.visits.sum(axis=(2, 3)) == steps).all()
    assert (run.pulls.sum(axis=1) == (0 if name == "none" else 2 * steps)).all()
    np.testing.assert_array_equal(run.reward.sum(axis=1), run.good.sum(axis=(1, 2, 3)))
    assert (run.good <= run.visits).all()


@pytest.mark.parametrize("name", mf.policies.names())
def test_a_run_does_not_depend_on_how_many_there_are(name: str) -> None:
    policy = mf.policies.create(name)
    few, many = play(policy, runs=2), play(policy, runs=5)
    np.testing.assert_array_equal(few.visits, many.visits[:2])
    np.testing.assert_array_equal(few.good, many.good[:2])
    np.testing.assert_array_equal(few.fairness_regret, many.fairness_regret[:2])


def test_same_seed_same_run_and_no_seed_a_new_one() -> None:
    policy = mf.MeritFair()
    np.testing.assert_array_equal(play(policy).visits, play(policy).visits)
    assert (play(policy).visits != play(policy, seed=2).visits).any()
    first, second = play(policy, seed=None), play(policy, seed=None)
    assert first.settings["seed"] != second.settings["seed"]
    again = play(policy, seed=first.settings["seed"])
    np.testing.assert_array_equal(first.visits, again.visits)


def test_each_run_can_have_its_own_arms() -> None:
    sets = mf.datasets.instances("cpap", 4, 3, seed=2)
    run = play(mf.MeritFair(), arms=sets, runs=None)
    assert run.runs == 3
    np.testing.assert_array_equal(run.transitions, [arms.transitions for arms in sets])
    assert run.arms == sets
    alone = play(mf.MeritFair(), arms=sets[0], runs=1)
    np.testing.assert_array_equal(run.visits[0], alone.visits[0])


def test_fair_oracle_has_no_regret_and_gives_fair_exposure() -> None:
    run = play(mf.FairOracle(), episodes=40, horizon=100, runs=20)
    assert run.fairness_regret.max() < 1e-14
    error = run.exposure.mean(axis=0) - run.fair_exposure[0]
    assert (np.abs(error) < 5 * np.sqrt(0.25 / (20 * 4000))).all()


def test_optimal_regret_is_that_of_its_own_exposure() -> None:
    run = play(mf.Optimal(), budget=1, episodes=300, horizon=100)
    fair = mf.merit_share(run.fair_merit)
    settled = run.fairness_regret[:, -1]  # all to one arm, not always the best one
    assert (np.abs(settled[:, None] - 2 * (1 - fair)).min(axis=1) < 1e-12).all()
    assert (run.fairness_regret_authors[:, -1] < settled).all()


def test_the_authors_regret_of_mf_rmab_is_its_own() -> None:
    run = play(mf.MeritFair())
    np.testing.assert_allclose(run.fairness_regret, run.fairness_regret_authors, atol=1e-15)


def test_nobody_pulled_is_a_regret_of_one() -> None:
    run = play(mf.NoAction())
    np.testing.assert_allclose(run.fairness_regret, 1.0)
    assert (run.longest_wait == 12 * 9).all()


def test_round_robin_keeps_everyone_waiting_equally() -> None:
    run = play(mf.RoundRobin(), arms=mf.datasets.synthetic(n_arms=7, seed=1), budget=3, horizon=14)
    assert int(np.ptp(run.pulls)) == 0
    assert run.longest_wait.max() <= 2  # with 3 of 7 pulled, nobody waits more than two steps


def test_longest_wait_counts_across_episodes() -> None:
    @dataclass(frozen=True)
    class FirstThenOthers(mf.Policy):
        name: ClassVar[str] = "first-then-others"

        def plan(self, view: View) -> Plan:
            first = view.episode in (1, 5)
            index = np.array([1.0, 0.0] if first else [0.0, 1.0])
            return PriorityTable(np.broadcast_to(index[:, None], (*view.counts.visits.shape[:-2], 2)))

    arms = mf.datasets.synthetic(n_arms=2, seed=1)
    run = play(FirstThenOthers(), arms=arms, budget=1, episodes=6, horizon=10)
    assert run.longest_wait.tolist() == [[30, 10]] * 3


def test_states_carry_on_when_asked() -> None:
    # These arms nearly keep their state, so carried states stay as they are and fresh ones do not.
    sticky = mf.Arms(np.tile([[1e-9, 1e-9], [1 - 1e-9, 1 - 1e-9]], (50, 1, 1)))
    carried = play(mf.Random(), arms=sticky, budget=5, horizon=1, episodes=30, runs=1, carry_states=True)
    fresh = play(mf.Random(), arms=sticky, budget=5, horizon=1, episodes=30, runs=1)
    assert np.ptp(carried.reward) == 0
    assert np.ptp(fresh.reward) > 0


def test_policy_in_plain_python() -> None:
    @dataclass(frozen=True)
    class NeedFirst(mf.Policy):
        """Merit by how seldom an arm was seen good."""

        name: ClassVar[str] = "need-first"

        def plan(self, view: View) -> Plan:
            return Lottery(1.0 / (1.0 + view.counts.good.sum(axis=(-2, -1))))

    run = play(NeedFirst())
    assert run.policy == "need-first"
    assert (run.pulls.sum(axis=1) == 2 * 12 * 9).all()


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (lambda: Lottery(np.ones(3)), "the policy planned for 3 arms, but there are 4"),
        (lambda: PriorityTable(np.ones((5, 2))), "the policy planned for 5 arms, but there are 4"),
        (lambda: Lottery(np.array([1.0, 0.0, 1.0, 1.0])), "merit must be positive and finite, got 0.0 for arm 1"),
        (lambda: Lottery(np.array([1.0, 1.0, np.nan, 1.0])), "got nan for arm 2"),
        (lambda: PriorityTable(np.ones(4)), r"index must have shape \(\.\.\., N, 2\) by arm and state, got \(4,\)"),
        (lambda: PriorityTable(np.full((4, 2), np.nan)), "got nan for arm 0"),
        (lambda: np.ones(4), "a policy must plan a Lottery, PriorityTable, Rotation or StepLearner"),
    ],
)
def test_a_plan_that_cannot_be_played_is_refused(plan: Any, message: str) -> None:
    @dataclass(frozen=True)
    class Broken(mf.Policy):
        name: ClassVar[str] = "broken"

        def plan(self, view: View) -> Plan:
            made: Plan = plan()
            return made

    with pytest.raises(mf.InputError, match=message):
        play(Broken())


def test_state_dependent_policies_are_measured_by_what_they_pulled() -> None:
    @dataclass(frozen=True)
    class HelpTheBad(mf.Policy):
        name: ClassVar[str] = "help-the-bad"

        def plan(self, view: View) -> Plan:
            return PriorityTable(np.broadcast_to(np.array([1.0, 0.0]), view.counts.visits.shape[:-1]))

    run = play(HelpTheBad(), episodes=1, horizon=50, runs=1)
    share = run.pulls[0] / run.pulls[0].sum()
    assert run.fairness_regret[0, 0] == pytest.approx(np.abs(share - mf.merit_share(run.fair_merit[0])).sum())


def test_yardstick_of_fairness_can_be_set() -> None:
    flat = play(mf.Random(), merit=mf.Exponential(0.0))
    assert flat.fairness_regret.max() < 1e-15
    assert flat.settings["problem"]["merit"] == {"kind": "exponential", "c": 0.0}
    own = play(mf.MeritFair(merit=mf.Affine(1.0, 3.0)))
    np.testing.assert_allclose(own.fair_merit[0], 3 + ARMS.benefit)


def test_one_arm_and_all_arms() -> None:
    single = play(mf.MeritFair(), arms=mf.datasets.synthetic(1, seed=1), budget=1)
    assert single.fairness_regret.max() == 0
    everyone = play(mf.MeritFair(), budget=4)
    assert (everyone.longest_wait == 0).all()
    assert (everyone.coverage_gap == 13).all()  # nobody is ever left alone


def test_a_step_learner_learns_and_keeps_what_it_knows() -> None:
    def rank(memory: Any, states: Any, step: int, luck: float, index: Any) -> None:
        for arm in range(len(states)):
            index[arm] = -memory[arm]
        memory[-1] = step

    def learn(memory: Any, states: Any, pulls: Any, following: Any) -> None:
        for arm in range(len(states)):
            memory[arm] += pulls[arm]

    @dataclass(frozen=True)
    class LeastPulled(mf.Policy):
        name: ClassVar[str] = "least-pulled"

        def plan(self, view: View) -> Plan:
            return StepLearner(view.n_arms, np.zeros(view.n_arms + 1), rank, learn)

    run = play(LeastPulled(), arms=mf.datasets.synthetic(n_arms=5, seed=1), horizon=10)
    assert (run.pulls == 48).all()  # all the same, as the memory lasts through steps and episodes
    assert run.longest_wait.max() <= 4


def test_a_ranking_without_numbers_is_refused() -> None:
    def rank(memory: Any, states: Any, step: int, luck: float, index: Any) -> None:
        for arm in range(len(states)):
            index[arm] = memory[0] / memory[0] if step == 30 and arm == 2 else 1.0

    @dataclass(frozen=True)
    class Lost(mf.Policy):
        name: ClassVar[str] = "lost"

        def plan(self, view: View) -> Plan:
            return StepLearner(view.n_arms, np.zeros(1), rank)

    with pytest.raises(mf.InputError, match="rank must set a number for each arm, got nan at step 30"):
        play(Lost())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"budget": 0}, "budget must be between 1 and the 4 arms, got 0"),
        ({"budget": 5}, "budget must be between 1 and the 4 arms, got 5"),
        ({"budget": 1.5}, "budget must be a whole number, got 1.5"),
        ({"episodes": 0}, "episodes must be at least 1, got 0"),
        ({"horizon": 0}, "horizon must be at least 1, got 0"),
        ({"runs": 0}, "runs must be at least 1, got 0"),
        ({"seed": -1}, "seed must be at least 0, got -1"),
        ({"seed": 1.0}, "seed must be a whole number, got 1.0"),
        ({"delta": 1.0}, "delta must lie strictly between 0 and 1, got 1.0"),
        ({"merit": 3.0}, "merit must be a merit function"),
        ({"arms": np.zeros((2, 2))}, "arms must be Arms or a sequence of Arms"),
        ({"arms": []}, "arms must be Arms or a sequence of Arms"),
        ({"arms": [ARMS, ARMS], "runs": 3}, "runs must be the number of sets of arms, 2, got 3"),
        ({"arms": [ARMS, mf.datasets.synthetic(5, seed=1)], "runs": None}, "of one size, got sizes 4, 5"),
        ({"arms": [ARMS, mf.Arms(ARMS.transitions, "abcd")], "runs": None}, "must have the same names"),
    ],
)
def test_bad_problems_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(mf.InputError, match=message):
        play(mf.Random(), **changes)


def test_a_name_is_not_a_policy() -> None:
    with pytest.raises(mf.InputError, match=r"policies.create\('random'\), got 'random'"):
        mf.simulate(ARMS, "random", budget=1, episodes=1)  # type: ignore[arg-type]


def test_absorbing_arms_are_named_before_anything_is_played() -> None:
    stuck = mf.Arms([[[0.0, 0.5], [1.0, 0.5]]], names=["Ada"])
    with pytest.raises(mf.InputError, match=r"arm 0 \('Ada'\) has no steady state"):
        mf.simulate(stuck, mf.Random(), budget=1, episodes=1)
