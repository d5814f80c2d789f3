from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import meritfair as mf
from meritfair.engine.rules import EXACT, ROTATION, SEQUENTIAL, SYSTEMATIC
from meritfair.model.allocation import learning_cap
from meritfair.policies import Lottery, Plan, PriorityTable, Rotation, StepLearner, TimedLottery, View
from meritfair.policies.drawing import Observed, Situation
from meritfair.policies.registry import from_settings

RNG = np.random.default_rng(23)
merit_fair: Any = mf.MeritFair  # takes bounds of any type
fair_oracle: Any = mf.FairOracle


def view(n_arms: int = 5, budget: int = 2, episode: int = 9) -> View:
    visits = RNG.integers(0, 500, (n_arms, 2, 2))
    truth = RNG.uniform(0.05, 0.95, (n_arms, 2, 2))
    return View(mf.Counts(visits, RNG.binomial(visits, truth)), episode, budget, truth)


def test_registry_has_the_names_of_the_contract() -> None:
    contract = (
        "merit-fair optimal fair-oracle none random round-robin myopic whittle wiql ab-whittle uc-whittle "
        "thompson-whittle fawt fawt-q prob-fair soft-fair fair-ucrl equitable"
    )
    assert set(mf.policies.names()) >= set(contract.split())
    for name in contract.split():
        assert mf.policies.create(name).name == name


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: mf.policies.create("merit-fare"), "no policy 'merit-fare', did you mean 'merit-fair'"),
        (lambda: mf.policies.create("zzz"), "no policy 'zzz': there are merit-fair, optimal"),
        (lambda: mf.policies.create(3), "no policy 3"),  # type: ignore[arg-type]
        (lambda: mf.policies.create("merit-fair", estimat="mean"), "no setting 'estimat', did you mean 'estimate'"),
        (lambda: mf.policies.create("optimal", zzz=1), "its settings are delta, estimate, ball"),
        (lambda: mf.policies.create("random", zzz=1), "it has none"),
        (
            lambda: mf.MeritFair(estimate="best"),
            "estimate must be one of optimistic, pessimistic, mean, .*, got 'best'",
        ),
        (lambda: mf.MeritFair(design="best"), "design must be one of sequential, exact, systematic, got 'best'"),
        (lambda: mf.FairOracle(design="exakt"), "got 'exakt', did you mean 'exact'"),
        (lambda: mf.MeritFair(ball="kel"), "ball must be one of paper, bernstein, kl, got 'kel'"),
        (lambda: mf.Optimal(ball="best"), "ball must be one of paper, bernstein, kl, got 'best'"),
        (lambda: mf.MeritFair(floor=0.1), "floor and cap need the design 'exact' or 'systematic'"),
        (lambda: mf.FairOracle(cap=0.5), "floor and cap need the design 'exact' or 'systematic'"),
        (
            lambda: mf.MeritFair(design="exact", floor=1.5),
            "floor must be a number between 0 and 1, or one for each arm",
        ),
        (lambda: merit_fair(design="exact", floor=[0.1, -0.1]), r"one for each arm, got \[0\.1, -0\.1\]"),
        (lambda: mf.FairOracle(design="exact", cap=np.nan), "cap must be a number between 0 and 1"),
        (lambda: fair_oracle(design="exact", cap=[[0.5, 0.5]]), "cap must be a number between 0 and 1"),
        (lambda: merit_fair(design="exact", floor="low"), "floor must be an array of numbers"),
        (lambda: mf.MeritFair(merit=np.exp), r"wrap your own as CustomMerit\(function, lipschitz=\.\.\.\)"),  # type: ignore[arg-type]
        (lambda: mf.FairOracle(merit=3.0), "merit must be a merit function"),  # type: ignore[arg-type]
    ],
)
def test_mistakes_are_named(call: Any, message: str) -> None:
    with pytest.raises(mf.InputError, match=message):
        call()


@pytest.mark.parametrize("estimate", ["optimistic", "mean", "pessimistic"])
def test_merit_fair_uses_its_point_of_the_ball(estimate: str) -> None:
    seen = view()
    plan = mf.MeritFair(merit=mf.Affine(1.0, 2.0), delta=0.2, estimate=estimate).plan(seen)
    assert isinstance(plan, Lottery)
    estimated = mf.Ball(seen.counts, 9, 0.2).estimate(estimate)
    np.testing.assert_allclose(plan.merit, 2 + mf.benefit(estimated))


def test_merit_fair_treats_all_alike_before_it_has_seen_anything() -> None:
    nothing = View(mf.Counts.none(4), 1, 1, np.full((4, 2, 2), np.nan))
    for estimate in ("optimistic", "mean", "pessimistic"):
        np.testing.assert_allclose(mf.MeritFair(estimate=estimate).plan(nothing).share(1), 0.25)


def test_fair_oracle_knows_the_truth() -> None:
    seen = view()
    np.testing.assert_allclose(
        mf.FairOracle().plan(seen).share(2), mf.merit_share(np.exp(3 * mf.benefit(seen.true_transitions)))
    )


def test_optimal_gives_all_to_the_k_best() -> None:
    seen = view(n_arms=6, budget=2)
    plan = mf.Optimal().plan(seen)
    best = np.argsort(mf.benefit(mf.Ball(seen.counts, 9, 0.01).upper))[-2:]
    share = plan.share(2)
    assert share is not None
    np.testing.assert_array_equal(np.flatnonzero(share), np.sort(best))
    np.testing.assert_array_equal(share[best], 0.5)


def test_priority_table_shares_out_ties_and_leaves_minus_infinity() -> None:
    index = np.repeat(np.array([3.0, 1.0, 1.0, 1.0, -np.inf])[:, None], 2, axis=1)
    share = np.asarray(PriorityTable(index).share(2))
    np.testing.assert_allclose(share, np.array([1, 1 / 3, 1 / 3, 1 / 3, 0]) / 2)
    np.testing.assert_array_equal(np.asarray(PriorityTable(index).weights(2)), [np.inf, 1, 1, 1, 0])
    np.testing.assert_array_equal(np.asarray(PriorityTable(index).weights(5)), [np.inf, np.inf, np.inf, np.inf, 0])
    runs = np.stack([index, index[::-1]])
    np.testing.assert_allclose(np.asarray(PriorityTable(runs).share(2)), np.stack([share, share[::-1]]))


def test_priority_table_that_looks_at_states_is_no_lottery() -> None:
    plan = PriorityTable(np.array([[0.0, 5.0], [1.0, 1.0]]))
    assert plan.share(1) is None
    assert plan.exposure(1) is None
    assert plan.weights(1) is None


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"groups": [0, 1, 1]}, "groups and quotas go together"),
        ({"quotas": [1, 1]}, "groups and quotas go together"),
        ({"groups": [0, 1, 1], "quotas": [1, 1], "soft": True}, "groups and quotas go together, and not with soft"),
        ({"groups": [0, 1], "quotas": [1, 1]}, "groups must hold for each of the 3 arms"),
        ({"groups": [0, 1, 2], "quotas": [1, 1]}, "one of the groups that quotas has"),
        ({"groups": [0, -1, 1], "quotas": [1, 1]}, "one of the groups that quotas has"),
        ({"groups": [0, 1, 1], "quotas": [2, 0]}, r"quotas must be between 0 and the sizes of the groups, \[1 2\]"),
        ({"groups": [0, 1, 1], "quotas": [-1, 2]}, "quotas must be between 0"),
    ],
)
def test_groups_and_quotas_must_fit(settings: Any, message: str) -> None:
    with pytest.raises(mf.InputError, match=message):
        PriorityTable(np.zeros((3, 2)), **settings)


def test_groups_have_exposures_of_their_own() -> None:
    index, groups = np.array([[3.0, 1.0, 1.0, 2.0], [0.0, 5.0, 5.0, 9.0]]), np.array([0, 1, 1, 0])
    plan = PriorityTable.of(index, groups, np.array([[1, 1], [2, 0]]))  # two runs, with other quotas
    np.testing.assert_allclose(np.asarray(plan.exposure(2)), np.array([[1, 0.5, 0.5, 0], [1, 0, 0, 1]]))
    np.testing.assert_allclose(np.asarray(plan.share(2)), np.asarray(plan.exposure(2)) / 2)
    assert plan.weights(2) is None  # one draw by weights cannot keep quotas
    assert PriorityTable(np.zeros((3, 2)), soft=True).exposure(1) is None
    with pytest.raises(mf.InputError, match="a soft index must be finite, got -inf"):
        PriorityTable(np.full((3, 2), -np.inf), soft=True)


def test_rotation_gives_everyone_the_same() -> None:
    np.testing.assert_array_equal(Rotation(4).share(2), np.full(4, 0.25))
    np.testing.assert_array_equal(Rotation(4).exposure(2), np.full(4, 0.5))
    np.testing.assert_array_equal(Rotation(4).weights(2), np.ones(4))
    assert Rotation(4).drawn_by == ROTATION


def test_step_learner_is_measured_by_what_it_does() -> None:
    def rank(memory: Any, states: Any, last_actions: Any, step: int, exploring: bool, index: Any) -> None:
        index[:] = memory[:, 0]

    learner = StepLearner(np.zeros((3, 1)), rank)
    assert learner.n_arms == 3
    plan: Plan = learner
    assert plan.share(1) is None
    assert plan.exposure(1) is None
    assert plan.weights(1) is None
    with pytest.raises(mf.InputError, match="memory must be an array of numbers"):
        StepLearner("abc", rank)  # type: ignore[arg-type]
    with pytest.raises(mf.InputError, match=r"memory must have shape \(\.\.\., N, m\), a row for each arm, got \(3,\)"):
        StepLearner(np.zeros(3), rank)


def test_settings_are_plain_values() -> None:
    common = {"merit": {"kind": "exponential", "c": 2.0}, "design": "sequential", "floor": 0.0, "cap": 1.0}
    common["slack"] = 0.0
    learning = {"delta": 0.01, "estimate": "optimistic", "ball": "paper"}
    assert mf.MeritFair(merit=mf.Exponential(2.0)).settings() == {**common, **learning}
    assert mf.FairOracle(merit=mf.Exponential(2.0)).settings() == common
    assert mf.Optimal().settings() == learning
    bounded = merit_fair(design="exact", floor=np.array([0.1, 0.2]), cap=1)
    assert bounded.settings()["cap"] == 1.0
    assert list(bounded.settings()["floor"]) == [0.1, 0.2]
    assert json.loads(json.dumps(bounded.settings()))["floor"] == [0.1, 0.2]
    assert hash(bounded) == hash(merit_fair(design="exact", floor=[0.1, 0.2]))
    assert mf.Random().settings() == {}
    endless = mf.FairOracle(design="exact", slack=np.inf).settings()
    assert json.loads(json.dumps(endless, allow_nan=False))["slack"] == "inf"
    assert from_settings({"name": "fair-oracle", **endless}) == mf.FairOracle(design="exact", slack=np.inf)


def test_lottery_weights_are_merits_on_any_scale() -> None:
    merit = np.exp(np.linspace(-300, 300, 7))
    weights = Lottery(merit).weights(3)
    assert weights.max() == 1
    np.testing.assert_allclose(np.log(weights), np.log(merit) - 300)


def test_exposures_of_a_lottery_are_those_of_its_design() -> None:
    merit = np.array([5.0, 2.0, 2.0, 1.0])
    sequential = Lottery(merit)
    np.testing.assert_array_equal(sequential.exposure(2), mf.fair_exposure(merit, 2))
    assert sequential.drawn_by == SEQUENTIAL
    for design, drawn_by in (("exact", EXACT), ("systematic", SYSTEMATIC)):
        plan = Lottery(merit, design, 0.25, [0.9, 1.0, 1.0, 1.0])
        expected = mf.fair_exposure(merit, 2, design, floor=0.25, cap=[0.9, 1.0, 1.0, 1.0])
        np.testing.assert_array_equal(plan.exposure(2), expected)
        np.testing.assert_array_equal(plan.weights(2), expected)  # that is what is drawn by
        np.testing.assert_allclose(plan.share(2), merit / 10)
        assert plan.drawn_by == drawn_by
    with pytest.raises(mf.InputError, match="design must be one of"):
        Lottery(merit, "best")
    with pytest.raises(mf.InputError, match="floor and cap need the design"):
        Lottery(merit, floor=0.1)
    with pytest.raises(mf.InputError, match=r"floors must add up to at most the budget of 1, got 1\.2"):
        Lottery(merit, "exact", 0.3).exposure(1)


def test_exposures_of_a_priority_table_share_out_ties() -> None:
    index = np.repeat(np.array([3.0, 1.0, 1.0, 1.0, -np.inf])[:, None], 2, axis=1)
    np.testing.assert_allclose(np.asarray(PriorityTable(index).exposure(2)), [1, 1 / 3, 1 / 3, 1 / 3, 0])


@pytest.mark.parametrize("design", ["exact", "systematic"])
def test_merit_fair_keeps_bounds_and_learns_under_caps(design: str) -> None:
    seen = view(n_arms=5, budget=2)
    policy = mf.MeritFair(design=design, estimate="mean", floor=0.05, cap=(1.0, 1.0, 0.3, 1.0, 1.0))
    plan = policy.plan(seen)
    assert isinstance(plan, Lottery)
    assert plan.design == design
    left_alone = seen.counts.visits[:, 0, 0] + seen.counts.visits[:, 1, 0]
    cap = learning_cap(left_alone, 2, 0.05, [1.0, 1.0, 0.3, 1.0, 1.0])
    np.testing.assert_array_equal(np.asarray(plan.cap), cap)
    np.testing.assert_allclose(plan.exposure(2), mf.fair_exposure(plan.merit, 2, design, floor=0.05, cap=cap))
    everyone_seen = plan.exposure(2)
    timed = dataclasses.replace(policy, slack=1.5).plan(seen)
    assert isinstance(timed, TimedLottery)
    assert (timed.slack, timed.lottery.design) == (1.5, design)
    np.testing.assert_array_equal(timed.exposure(2), everyone_seen)
    np.testing.assert_array_equal(timed.transitions, seen.estimated_transitions("mean"))
    assert (everyone_seen >= 0.05).all()
    assert everyone_seen[2] <= 0.3
    assert everyone_seen.max() < 1  # else it would never be seen left alone


def test_fair_oracle_knows_the_truth_by_every_design() -> None:
    seen = view()
    merit = np.exp(3 * mf.benefit(seen.true_transitions))
    for design in ("sequential", "exact", "systematic"):
        exposure = mf.FairOracle(design=design).plan(seen).exposure(2)
        np.testing.assert_array_equal(exposure, mf.fair_exposure(merit, 2, design))
    bounded = mf.FairOracle(design="exact", floor=0.3, cap=0.5).plan(seen).exposure(2)
    np.testing.assert_array_equal(bounded, mf.fair_exposure(merit, 2, "exact", floor=0.3, cap=0.5))


@pytest.mark.parametrize("policy", [mf.MeritFair, mf.Optimal])
@pytest.mark.parametrize("kind", ["paper", "bernstein", "kl"])
def test_the_ball_is_the_one_that_was_chosen(policy: Any, kind: str) -> None:
    seen = view()
    estimated = mf.benefit(mf.Ball(seen.counts, 9, 0.2, kind).estimate("optimistic"))
    plan = policy(delta=0.2, ball=kind).plan(seen)
    found = plan.index[:, 0] if isinstance(plan, PriorityTable) else np.log(plan.merit) / 3
    np.testing.assert_allclose(found, estimated, atol=1e-12)


@pytest.mark.parametrize("policy", [mf.MeritFair(estimate="thompson"), mf.Optimal(estimate="thompson")], ids=repr)
def test_thompson_draws_its_estimates_from_the_rng_of_each_run(policy: mf.Policy) -> None:
    seen = view()

    def share(*seeds: int, runs: int = 1) -> Any:
        counts = mf.Counts(*(np.broadcast_to(x, (runs, *x.shape)) for x in (seen.counts.visits, seen.counts.good)))
        rngs = tuple(np.random.default_rng(seed) for seed in seeds)
        return policy.plan(View(counts, 9, 2, seen.true_transitions, rngs))

    def planned(plan: Any) -> Any:
        return plan.merit if isinstance(plan, Lottery) else plan.index

    one, two = planned(share(1)), planned(share(2))
    assert (one != two).any()
    np.testing.assert_array_equal(planned(share(1)), one)
    np.testing.assert_array_equal(planned(share(1, 2, runs=2)), np.concatenate([one, two]))
    with pytest.raises(mf.InputError, match="the estimate 'thompson' needs a generator for each run"):
        share()
    with pytest.raises(mf.InputError, match="the estimate 'thompson' needs a generator for each run"):
        share(1, runs=2)


@pytest.mark.parametrize("name", mf.policies.names())
def test_a_constant_policy_plans_the_same_whatever_it_sees(name: str) -> None:
    policy, seen = mf.policies.create(name), view()
    plans = [
        policy.plan(View(counts, episode, seen.budget, seen.true_transitions, (np.random.default_rng(1),)))
        for counts, episode in ((seen.counts, 9), (seen.counts + seen.counts, 77))
    ]
    if policy.plans_once:
        assert policy.rule() is None
        for name in vars(plans[0]):
            one, other = (getattr(plan, name) for plan in plans)
            assert one is other or np.array_equal(one, other), name


# ---- one step of a plan

HELPED = np.array([[[0.1, 0.9], [0.9, 0.9]], [[0.5, 0.5], [0.1, 0.9]], [[0.5, 0.5], [0.5, 0.5]]])  # by state 0, 1, none


def situation(memory: Any = None) -> Situation:
    names, nothing, here = ("Ada", "Bo", "Cy"), np.zeros(3, np.int64), np.array([True, True, False])
    return Situation(names, nothing, here, nothing, np.array([0.0, 1.0, 2.0]), memory, 4, np.zeros(3), here, here)


def rank_by_memory(memory: Any, states: Any, last_actions: Any, step: int, exploring: bool, index: Any) -> None:
    memory[:, 1] += 1
    index[:] = memory[:, 0]


def learn_next_states(memory: Any, states: Any, actions: Any, next_states: Any) -> None:
    memory[:, 0] = next_states


@pytest.mark.parametrize(
    ("plan", "exposure", "looks"),
    [
        (Lottery(np.array([3.0, 1.0, 4.0])), [0.75, 0.25, 0], False),
        (TimedLottery(Lottery(np.array([3.0, 1.0, 4.0]), "exact")), [0.75, 0.25, 0], False),
        (TimedLottery(Lottery(np.array([3.0, 1.0, 4.0]), "exact"), HELPED), [0.75, 0.25, 0], True),
        (TimedLottery(Lottery(np.array([3.0, 1.0, 4.0]), "exact"), HELPED, 0.2), [0.95, 0.05, 0], True),
        (PriorityTable.of(np.array([1.0, 2.0, 3.0])), [0, 1, 0], False),
        (PriorityTable(np.array([[1.0, 0.0], [1.0, 9.0], [3.0, 3.0]])), [0.5, 0.5, 0], True),
        (PriorityTable(np.array([[0.0, 9.0], [np.log(3), 9.0], [3.0, 9.0]]), soft=True), [0.25, 0.75, 0], True),
        (Rotation(3), [1, 0, 0], False),
        (StepLearner(np.array([[1.0, 0], [2.0, 0], [3.0, 0]]), rank_by_memory), [0, 1, 0], True),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Plan) else None,
)
def test_every_plan_draws_one_step_with_the_exposures_that_it_states(plan: Plan, exposure: Any, looks: bool) -> None:
    assert plan.looks_at_states == looks
    plan.check(3, 1)
    pulls, rng = np.zeros(3), np.random.default_rng(1)
    for _ in range(400):
        step = plan.play(situation(), 1, rng)
        np.testing.assert_allclose(step.exposure, exposure)
        pulls += step.pulled
    assert pulls.sum() == 400
    # Hoeffding at 1e-4: 400 pulls differ from their mean by at most sqrt(200 ln(2e4)) = 44.5
    assert np.abs(pulls - 400 * np.array(exposure)).max() < 44.5


def test_a_step_of_a_step_learner_changes_nothing_but_what_it_returns() -> None:
    plan = StepLearner(np.zeros((3, 2)), rank_by_memory, learn_next_states, keeps_memory=False)
    kept = np.array([[5.0, 1], [4.0, 1], [3.0, 1]])
    step = plan.play(situation(kept), 1, np.random.default_rng(1))
    assert step.memory is not None
    assert step.memory.tolist() == [[5, 2], [4, 2], [3, 2]]
    seen = Observed(*(np.array(values) for values in ([0, 2], [0, 0], [1, 0], [7, 8])))
    learned = plan.learn_from(kept, seen)
    assert learned is not None
    assert learned.tolist() == [[7, 1], [4, 1], [8, 1]]
    assert kept.tolist() == [[5, 1], [4, 1], [3, 1]]
    assert plan.begin(kept).tolist() == np.zeros((3, 2)).tolist()
    assert StepLearner(np.zeros((3, 2)), rank_by_memory).begin(kept) is kept
    assert Rotation(3).begin() is None


# ---- old names


def test_old_names_of_a_view_and_a_plan_warn() -> None:
    seen = view()
    with pytest.warns(DeprecationWarning, match="luck is now rngs"):
        assert seen.luck == seen.rngs
    with pytest.warns(DeprecationWarning, match="believed is now estimated_transitions"):
        assert np.array_equal(seen.believed("mean"), seen.estimated_transitions("mean"))
    with pytest.warns(DeprecationWarning, match="chances is now exposure"):
        assert Rotation(4).chances(2).tolist() == [0.5] * 4


def test_a_policy_that_says_constant_still_plans_once() -> None:
    with pytest.warns(DeprecationWarning, match="constant is now plans_once") as warned:

        class Old(mf.Random):
            constant = True

    assert Path(warned[0].filename).name == "test_policies.py"
    with pytest.warns(DeprecationWarning, match="constant is now plans_once"):

        class Never(mf.Random):
            constant = False

    assert (Old().plans_once, Never().plans_once, mf.Random().plans_once) == (True, False, True)
    with pytest.warns(DeprecationWarning, match="constant is now plans_once"):
        assert Old().constant
