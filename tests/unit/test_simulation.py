from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import Any, ClassVar

import numpy as np
import pytest
from scipy import stats

import meritfair as mf
from meritfair.core.seeding import stream
from meritfair.policies import Lottery, Plan, PriorityTable, StepLearner, View
from reference import numpy_simulator, plain

ARMS = mf.datasets.synthetic(n_arms=4, seed=5)


def play(policy: mf.Policy | str, **changes: Any) -> mf.Run:
    """Simulate a few episodes; fields of the criterion and the confidence that are given replace the policy's own."""
    settings: dict[str, Any] = {"budget": 2, "episodes": 12, "horizon": 9, "runs": 3, "seed": 1, **changes}
    own = policy if isinstance(policy, mf.Policy) else mf.Random()
    fair, sure = own.criterion or mf.Criterion(), own.confidence or mf.Confidence()
    wholes: tuple[tuple[str, Any], ...] = ("criterion", fair), ("confidence", sure)
    for name, whole in wholes:
        given: dict[str, Any] = {key: settings.pop(key) for key in vars(whole) if key in settings}
        if given:
            settings[name] = dataclasses.replace(whole, **given)
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
        assert bool(run["coverage_gap_censored"][r]) == plain.longest_gap_is_open(plainly["covered"])


GAPS = ("coverage_gap", "coverage_gap_authors", "coverage_gap_censored")


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
        mf.MeritFair(merit=mf.Exponential(2.0), ball="bernstein", delta=0.3),
        mf.MeritFair(merit=mf.Exponential(2.0), ball="kl"),
        mf.MeritFair(merit=mf.Exponential(2.0), design="exact"),
        mf.MeritFair(merit=mf.Exponential(5.0), design="exact", estimate="mean", ball="kl", delta=0.9),
        mf.MeritFair(merit=mf.Exponential(3.0), design="systematic", estimate="mean"),
        mf.MeritFair(merit=mf.Exponential(3.0), design="exact", estimate="mean", floor=0.2, cap=0.8),
        mf.MeritFair(design="systematic", estimate="pessimistic", floor=(0.1, 0.0, 0.3, 0.0), cap=(1.0, 0.7, 1.0, 0.5)),
        mf.Optimal(),
        mf.Optimal(estimate="mean"),
        mf.Optimal(ball="kl", delta=0.9),
        mf.FairOracle(),
        mf.Random(),
        mf.RoundRobin(),
        mf.NoAction(),
    ],
    ids=repr,
)
def test_plans_made_in_the_engine_are_those_made_in_python(policy: mf.Policy, carry: bool) -> None:
    fair = dataclasses.replace(policy.criterion or mf.Criterion(), merit=mf.Exponential(3.0))
    sure = dataclasses.replace(policy.confidence or mf.Confidence(), delta=0.05)
    settings: dict[str, Any] = {"carry_states": carry, "horizon": 70, "criterion": fair, "confidence": sure}
    compiled, asked = play(policy, **settings), play(InPython(policy), **settings)
    for name in ("visits", "good", "reward", "longest_wait", *GAPS):
        np.testing.assert_array_equal(getattr(compiled, name), getattr(asked, name))
    for name in ("fairness_regret", "fairness_regret_authors", "exposure_regret"):
        np.testing.assert_allclose(getattr(compiled, name), getattr(asked, name), atol=1e-10)
    for name in ("eta", "omega"):
        np.testing.assert_allclose(getattr(compiled, name), getattr(asked, name), atol=1e-12)
    assert np.isnan(compiled.exposure_regret).all() == (fair.design == "sequential")


@pytest.mark.parametrize(
    "policy",
    [
        {"design": "exact", "estimate": "mean"},
        {"design": "systematic", "estimate": "mean", "floor": 0.1},
        {"design": "exact", "ball": "kl", "delta": 0.9},
        {"ball": "bernstein", "delta": 0.9},
    ],
    ids=str,
)
def test_a_merit_of_ones_own_gives_the_numbers_of_its_twin(policy: dict[str, Any]) -> None:
    # A merit that the engine does not know is planned in Python, with the same random numbers.
    own = mf.CustomMerit(lambda mu: np.exp(3 * mu), lipschitz=3 * np.exp(3))
    ours, twin = (play(mf.MeritFair(merit=merit, **policy), horizon=70) for merit in (own, mf.Exponential(3.0)))
    for name in ("visits", "good", "reward", "longest_wait", "coverage_gap"):
        np.testing.assert_array_equal(getattr(ours, name), getattr(twin, name))
    for name in ("fairness_regret", "fairness_regret_authors", "exposure_regret", "eta", "omega"):
        np.testing.assert_allclose(getattr(ours, name), getattr(twin, name), atol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("ball", ["paper", "kl"])
def test_thompson_of_a_merit_of_ones_own_has_the_law_of_its_twin(ball: str) -> None:
    # Beliefs are drawn by NumPy here and by the engine there: the same law, and from the second episode other numbers.
    own = mf.CustomMerit(lambda mu: np.exp(3 * mu), lipschitz=3 * np.exp(3))
    runs, level = 500, 1e-5
    settings: dict[str, Any] = {"design": "exact", "estimate": "thompson", "ball": ball, "delta": 0.9}
    ours, twin = (
        play(mf.MeritFair(merit=merit, **settings), runs=runs, episodes=5, seed=seed)
        for merit, seed in ((own, 30), (mf.Exponential(3.0), 31))
    )
    names = ("visits", "good", "fairness_regret", "exposure_regret", "reward")
    pairs = [(getattr(ours, name).reshape(runs, -1), getattr(twin, name).reshape(runs, -1)) for name in names]
    limit = stats.norm.isf(level / (2 * sum(a.shape[1] for a, _ in pairs)))
    for name, (a, b) in zip(names, pairs, strict=True):
        error = np.sqrt((a.var(axis=0) + b.var(axis=0)) / runs)
        assert (np.abs(a.mean(axis=0) - b.mean(axis=0)) < limit * error).all(), name
        assert (np.abs(a.mean(axis=0) - 1.15 * b.mean(axis=0)) > limit * error).any(), name  # planted


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


@pytest.mark.parametrize("kind", ["bernstein", "kl"])
def test_eta_and_omega_are_those_of_the_ball_that_is_asked_for(kind: str) -> None:
    policy = mf.MeritFair(estimate="mean", delta=0.2)
    runs = [play(policy, episodes=t, ball=kind, delta=0.6) for t in (7, 8)]
    ball = mf.Ball(mf.Counts(runs[0].visits, runs[0].good), 8, 0.6, kind)
    np.testing.assert_allclose(runs[1].eta[:, -1], ball.eta.max(axis=(1, 2)), atol=1e-10)
    np.testing.assert_allclose(runs[1].omega[:, -1], ball.omega.max(axis=(1, 2)), atol=1e-10)
    paper = play(policy, episodes=8)
    np.testing.assert_array_equal(paper.visits, runs[1].visits)  # the policy's own ball is what it was
    assert (paper.eta[:, -1] > runs[1].eta[:, -1]).all() or kind == "bernstein"
    own = play(mf.MeritFair(estimate="mean", ball=kind, delta=0.6), episodes=8)
    np.testing.assert_allclose(own.eta[:, 0], runs[1].eta[:, 0], atol=1e-12)
    assert own.settings["problem"]["ball"] == runs[1].settings["problem"]["ball"] == kind


# --- Exposure regret.


@pytest.mark.parametrize(
    "policy", [mf.MeritFair(), mf.Optimal(), mf.FairOracle(), mf.Random(), InPython(mf.MeritFair())]
)
def test_exposure_regret_of_one_pull_is_fairness_regret(policy: mf.Policy) -> None:
    for design in ("sequential", "exact"):
        run = play(policy, budget=1, design=design)
        np.testing.assert_allclose(run.exposure_regret, run.fairness_regret, atol=1e-12)


@pytest.mark.parametrize("design", ["exact", "systematic"])
def test_a_fair_oracle_has_no_exposure_regret(design: str) -> None:
    for policy in (mf.FairOracle(design=design), mf.FairOracle(design=design, floor=0.3, cap=0.9)):
        assert play(policy).exposure_regret.max() < 1e-12
    other = mf.FairOracle(design=design, merit=mf.Exponential(1.0))
    assert play(other, merit=mf.Exponential(3.0)).exposure_regret.min() > 0.1
    unbounded = play(mf.FairOracle(design=design, floor=0.3), floor=0.0)  # fair would be without the floor
    expected = np.abs(mf.fair_exposure(unbounded.fair_merit, 2, design, floor=0.3) - unbounded.fair_exposure).sum(
        axis=1
    )
    np.testing.assert_allclose(unbounded.exposure_regret, np.repeat(expected[:, None], 12, axis=1), atol=1e-12)
    assert expected.min() > 0.01


def test_exposure_regret_of_a_sequential_draw_is_there_if_asked_for() -> None:
    policy = mf.MeritFair(estimate="mean", merit=mf.Exponential(4.0))
    assert np.isnan(play(policy).exposure_regret).all()
    assert np.isnan(play(InPython(policy), merit=policy.merit).exposure_regret).all()
    runs = [play(policy, episodes=t, exposure_regret=True) for t in (1, 7, 8)]
    fair = mf.fair_exposure(runs[0].fair_merit, 2)
    np.testing.assert_allclose(
        runs[0].exposure_regret[:, 0], np.abs(0.5 - fair).sum(axis=1), atol=1e-6
    )  # 2 of 4, alike
    ball = mf.Ball(mf.Counts(runs[1].visits, runs[1].good), 8)
    merit = policy.merit(mf.benefit(ball.estimate("mean")))
    expected = np.abs(mf.fair_exposure(merit, 2) - fair).sum(axis=1)
    np.testing.assert_allclose(runs[2].exposure_regret[:, -1], expected, atol=1e-6)
    asked = play(InPython(policy), merit=policy.merit, episodes=8, exposure_regret=True)
    np.testing.assert_allclose(asked.exposure_regret, runs[2].exposure_regret, atol=1e-6)
    without = play(policy, episodes=8)
    np.testing.assert_array_equal(without.visits, runs[2].visits)  # measuring changes nothing


def test_exposure_regret_needs_no_integral_where_all_are_alike_or_all_are_pulled() -> None:
    flat = play(mf.Random(), merit=mf.Exponential(0.0))
    assert flat.exposure_regret.max() < 1e-12
    everyone = play(mf.MeritFair(design="exact"), budget=4)
    assert everyone.exposure_regret.max() < 1e-12


def test_exposure_regret_of_plans_that_are_no_lottery() -> None:
    fair = mf.fair_exposure(mf.Exponential()(ARMS.benefit), 2, "exact")
    turns = play(mf.RoundRobin(), design="exact")
    np.testing.assert_allclose(turns.exposure_regret, np.abs(0.5 - fair).sum(), atol=1e-12)
    nobody = play(mf.NoAction(), design="exact")
    np.testing.assert_allclose(nobody.exposure_regret, 2.0, atol=1e-12)
    greedy = play(mf.Optimal(), design="exact", episodes=60, horizon=100)
    best = np.abs(np.array([[i in pair for i in range(4)] for pair in combinations(range(4), 2)]) - fair).sum(axis=1)
    assert (np.abs(greedy.exposure_regret[:, -1][:, None] - best).min(axis=1) < 1e-12).all()
    assert np.isfinite(greedy.exposure_regret).all()


@pytest.mark.parametrize("constant", [True, False])
def test_exposure_regret_of_pulls_that_depend_on_states_is_that_of_the_pulls(constant: bool) -> None:
    @dataclass(frozen=True)
    class HelpTheBad(mf.Policy):
        name: ClassVar[str] = "help-the-bad"

        def plan(self, view: View) -> Plan:
            return PriorityTable(np.broadcast_to(np.array([1.0, 0.0]), view.counts.visits.shape[:-1]))

    HelpTheBad.plans_once = constant  # played as a whole run, or episode by episode
    run = play(HelpTheBad(), episodes=1, horizon=50, design="exact")
    np.testing.assert_allclose(
        run.exposure_regret[:, 0], np.abs(run.pulls / 50 - run.fair_exposure).sum(axis=1), atol=1e-12
    )


def test_exposure_regret_is_at_most_twice_the_budget() -> None:
    lonely = mf.Arms([[[0.01, 0.99], [0.01, 0.99]], *[[[0.99, 0.01], [0.99, 0.01]]] * 3])  # one helped, the others hurt
    run = play(mf.MeritFair(design="exact", estimate="pessimistic"), arms=lonely, budget=1, merit=mf.Exponential(20.0))
    assert 0 <= run.exposure_regret.min() <= run.exposure_regret.max() <= 2
    np.testing.assert_allclose(run.fair_exposure[0], [1, 0, 0, 0], atol=1e-9)


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
def test_later_runs_can_be_played_without_the_first(name: str) -> None:
    policy = mf.policies.create(name)
    all_of_them, last = play(policy, runs=5), play(policy, runs=2, first_run=3)
    np.testing.assert_array_equal(last.visits, all_of_them.visits[3:])
    np.testing.assert_array_equal(last.fairness_regret, all_of_them.fairness_regret[3:])
    assert last.settings["problem"]["first_run"] == 3


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
        (lambda: PriorityTable(np.ones((7, 4, 2))), r"planned for shape \(7, 4\), it must be \(\d, 4\)"),
        (lambda: Lottery(np.array([1.0, 0.0, 1.0, 1.0])), "merit must be positive and finite, got 0.0 for arm 1"),
        (lambda: Lottery(np.array([1.0, 1.0, np.nan, 1.0])), "got nan for arm 2"),
        (lambda: PriorityTable(np.ones(4)), r"index must have shape \(\.\.\., N, 2\) by arm and state, got \(4,\)"),
        (lambda: PriorityTable(np.full((4, 2), np.nan)), "got nan for arm 0"),
        (lambda: np.ones(4), "a policy must plan a Lottery, TimedLottery, PriorityTable, Rotation or StepLearner"),
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


def test_the_criterion_is_the_policys_own_unless_it_is_given() -> None:
    policy = mf.MeritFair(design="exact", floor=0.1, cap=0.9, ball="kl", delta=0.3)
    own = play(policy).settings["problem"]
    assert {name: own[name] for name in ("design", "floor", "cap", "ball", "delta")} == {
        "design": "exact",
        "floor": 0.1,
        "cap": 0.9,
        "ball": "kl",
        "delta": 0.3,
    }
    given = {"design": "systematic", "floor": 0.2, "cap": 0.8, "ball": "bernstein", "delta": 0.7}
    other = play(policy, **given)
    assert {name: other.settings["problem"][name] for name in given} == given
    np.testing.assert_array_equal(
        other.fair_exposure, mf.fair_exposure(other.fair_merit, 2, "systematic", floor=0.2, cap=0.8)
    )
    np.testing.assert_array_equal(other.visits, play(policy).visits)  # a criterion changes nothing that is done
    assert other.settings["policy"] == play(policy).settings["policy"]
    without = play(mf.Random()).settings["problem"]
    assert (without["design"], without["floor"], without["cap"], without["ball"]) == ("sequential", 0.0, 1.0, "paper")
    by_arm = play(mf.Random(), design="exact", floor=[0.1, 0.2, 0.3, 0.4])
    assert (by_arm.fair_exposure >= [0.1, 0.2, 0.3, 0.4]).all()
    expected = np.abs(0.5 - by_arm.fair_exposure).sum(axis=1)
    np.testing.assert_allclose(by_arm.exposure_regret, np.repeat(expected[:, None], 12, axis=1), atol=1e-12)


@pytest.mark.parametrize("budget", [1, 2, 3, 4])
@pytest.mark.parametrize("design", ["exact", "systematic"])
def test_books_balance_by_every_design(design: str, budget: int) -> None:
    for policy in (
        mf.MeritFair(design=design, estimate="mean"),
        mf.MeritFair(design=design, merit=mf.Exponential(30.0), estimate="thompson"),
        mf.FairOracle(design=design, merit=mf.Exponential(10.0)),
    ):
        run = play(policy, budget=budget, horizon=70, episodes=30)
        assert (run.visits.sum(axis=(2, 3)) == 30 * 70).all()
        assert (run.pulls.sum(axis=1) == budget * 30 * 70).all(), policy
        np.testing.assert_array_equal(run.reward.sum(axis=1), run.good.sum(axis=(1, 2, 3)))


def test_floors_are_kept_by_what_is_pulled() -> None:
    floor, cap = (0.5, 0.0, 0.3, 0.0), (1.0, 0.4, 1.0, 1.0)
    policy = mf.MeritFair(design="exact", floor=floor, cap=cap, merit=mf.Exponential(10.0), estimate="mean")
    run = play(policy, episodes=40, horizon=100, runs=10)
    spread = 5 * np.sqrt(0.25 / (40 * 100 * 10))
    assert (run.exposure.mean(axis=0) > np.array(floor) - spread).all()
    assert (run.exposure.mean(axis=0) < np.array(cap) + spread).all()


def test_nobody_is_never_left_alone_while_a_policy_learns() -> None:
    # One arm deserves every pull, but an estimate could be wrong: it is left alone about sqrt(2 h) times in h steps.
    arms = mf.Arms([[[0.02, 0.98], [0.02, 0.98]], *[[[0.5, 0.5], [0.5, 0.5]]] * 3])
    run = play(
        mf.MeritFair(design="exact", merit=mf.Exponential(20.0), estimate="mean"), arms=arms, budget=2, episodes=200
    )
    assert run.fair_exposure[0, 0] == 1
    steps = 200 * 9
    left_alone = run.visits[:, 0, :, 0].sum(axis=1)
    assert (left_alone > 0.5 * np.sqrt(2 * steps)).all()
    assert (left_alone < 4 * np.sqrt(2 * steps)).all()


def test_numbers_may_be_those_of_numpy() -> None:
    plain_numbers = play(mf.MeritFair(design="exact"))
    same = play(
        mf.MeritFair(design="exact"),
        budget=np.int32(2),
        episodes=np.int64(12),
        horizon=np.int16(9),
        runs=np.uint8(3),
        seed=np.int64(1),
        floor=np.float32(0.0),
        delta=np.float64(0.01),
    )
    np.testing.assert_array_equal(same.visits, plain_numbers.visits)
    assert type(same.settings["problem"]["budget"]) is int  # so that it can be saved


def test_the_fairness_criterion_can_be_set() -> None:
    flat = play(mf.Random(), merit=mf.Exponential(0.0))
    assert flat.fairness_regret.max() < 1e-15
    assert flat.settings["problem"]["merit"] == {"kind": "exponential", "c": 0.0}
    own = play(mf.MeritFair(merit=mf.Affine(1.0, 3.0)))
    np.testing.assert_allclose(own.fair_merit[0], 3 + ARMS.benefit)


def test_settings_of_a_function_that_are_called_like_a_criterions_are_its_own() -> None:
    def mine(view: mf.policies.View, cap: float = 3.0, design: str = "any", delta: int = 7) -> mf.policies.Lottery:
        return mf.policies.Lottery(np.full(view.counts.visits.shape[:-2], cap))

    run = mf.simulate(ARMS, mine, budget=2, episodes=3, runs=2, seed=1)
    assert run.settings["policy"] == {"name": "mine", "cap": 3.0, "design": "any", "delta": 7}
    problem = run.settings["problem"]
    assert (problem["cap"], problem["design"], problem["delta"]) == (1.0, "sequential", 0.01)


def test_loose_settings_still_work_and_say_what_to_use() -> None:
    policy = mf.MeritFair(design="exact", delta=0.2)
    simulate: Any = mf.simulate
    compare: Any = mf.compare
    with pytest.warns(DeprecationWarning, match=r"floor of simulate is now criterion=mf\.Criterion"):
        loose = simulate(ARMS, policy, budget=2, episodes=3, seed=1, floor=0.1, merit=None)
    with pytest.warns(DeprecationWarning, match=r"ball of simulate is now confidence=mf\.Confidence"):
        tight = simulate(ARMS, policy, budget=2, episodes=3, seed=1, ball="kl")
    whole = mf.simulate(ARMS, policy, budget=2, episodes=3, seed=1, criterion=mf.Criterion(design="exact", floor=0.1))
    assert loose.settings == whole.settings
    assert (tight.settings["problem"]["ball"], tight.settings["problem"]["delta"]) == ("kl", 0.2)
    with pytest.warns(DeprecationWarning, match="design of compare"):
        found = compare(ARMS, ["random"], budget=2, episodes=3, seed=1, design="exact")
    assert found.settings["problem"]["design"] == "exact"


def test_one_arm_and_all_arms() -> None:
    single = play(mf.MeritFair(), arms=mf.datasets.synthetic(1, seed=1), budget=1)
    assert single.fairness_regret.max() == 0
    everyone = play(mf.MeritFair(), budget=4)
    assert (everyone.longest_wait == 0).all()
    assert (everyone.coverage_gap == 13).all()  # nobody is ever left alone


def test_a_step_learner_learns_and_keeps_what_it_knows() -> None:
    def rank(memory: Any, states: Any, pulled: Any, step: int, exploring: bool, index: Any) -> None:
        for arm in range(len(states)):
            index[arm] = -memory[arm, 0]

    def learn(memory: Any, states: Any, pulls: Any, following: Any) -> None:
        for arm in range(len(states)):
            memory[arm, 0] += pulls[arm]

    @dataclass(frozen=True)
    class LeastPulled(mf.Policy):
        name: ClassVar[str] = "least-pulled"

        def plan(self, view: View) -> Plan:
            return StepLearner(np.zeros((view.n_arms, 1)), rank, learn)

    run = play(LeastPulled(), arms=mf.datasets.synthetic(n_arms=5, seed=1), horizon=10)
    assert (run.pulls == 48).all()  # all the same, as the memory lasts through steps and episodes
    assert run.longest_wait.max() <= 4


def test_memory_can_be_made_anew_from_the_last_one() -> None:
    def rank(memory: Any, states: Any, pulled: Any, step: int, exploring: bool, index: Any) -> None:
        for arm in range(len(states)):
            index[arm] = 0.0
            memory[arm, 0] += 1

    seen: list[Any] = []

    def twice_as_much(view: View) -> Plan:
        seen.append(None if view.memory is None else view.memory[:, 0, 0].copy())
        assert view.step == 10 * (view.episode - 1)
        assert view.states is not None
        assert view.states.shape == (3, view.n_arms)
        memory = np.zeros((view.n_arms, 1)) if view.memory is None else 2 * view.memory
        return StepLearner(memory, rank, keeps_memory=False)

    run = mf.simulate(ARMS, twice_as_much, budget=1, episodes=3, horizon=10, runs=3, seed=1)
    assert run.policy == "twice-as-much"
    assert seen[0] is None
    np.testing.assert_array_equal(seen[1:], [[10.0] * 3, [30.0] * 3])


def test_what_numba_cannot_compile_is_named() -> None:
    def rank(memory: Any, states: Any, pulled: Any, step: int, exploring: bool, index: Any) -> None:
        index[0] = undefined_name  # type: ignore[name-defined]  # noqa: F821

    def returns(memory: Any, states: Any, pulled: Any, step: int, exploring: bool, index: Any) -> int:
        return 1

    for function, message in ((rank, "undefined_name"), (returns, "returns must return none, not int64")):
        with pytest.raises(mf.InputError, match=f"functions of a StepLearner must be such that Numba .*{message}"):
            mf.simulate(ARMS, lambda view, f=function: StepLearner(np.zeros((4, 1)), f), budget=1, episodes=1)


def test_what_a_function_of_ones_own_raises_is_raised() -> None:
    def rank(memory: Any, states: Any, pulled: Any, step: int, exploring: bool, index: Any) -> None:
        if step == 7:
            raise KeyError("lost")
        for arm in range(len(states)):
            index[arm] = 0.0

    def plan(view: View) -> Plan:
        return StepLearner(np.zeros((view.n_arms, 1)), rank)

    with pytest.raises(KeyError, match="lost"):
        mf.simulate(ARMS, plan, budget=1, episodes=2, horizon=10, runs=2)


def test_quotas_must_sum_to_the_budget() -> None:
    def plan(view: View) -> Plan:
        return PriorityTable(np.zeros((4, 2)), groups=np.array([0, 0, 1, 1]), quotas=np.array([1, 1]))

    with pytest.raises(mf.InputError, match=r"quotas must sum to the budget 3, got \[1 1\]"):
        mf.simulate(ARMS, plan, budget=3, episodes=1)


def test_a_ranking_without_numbers_is_refused() -> None:
    def rank(memory: Any, states: Any, pulled: Any, step: int, exploring: bool, index: Any) -> None:
        for arm in range(len(states)):
            index[arm] = memory[0, 0] / memory[0, 0] if step == 30 and arm == 2 else 1.0

    @dataclass(frozen=True)
    class Lost(mf.Policy):
        name: ClassVar[str] = "lost"

        def plan(self, view: View) -> Plan:
            return StepLearner(np.zeros((view.n_arms, 1)), rank)

    with pytest.raises(mf.InputError, match=r"rank .* got nan at step 30"):
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
        ({"design": "exat"}, "design must be one of sequential, exact, systematic, got 'exat', did you mean 'exact'"),
        ({"ball": "kel"}, "ball must be one of paper, bernstein, kl, got 'kel'"),
        ({"floor": 0.1}, "floor and cap need the design 'exact' or 'systematic'"),
        ({"cap": 0.9, "design": "sequential"}, "floor and cap need the design 'exact' or 'systematic'"),
        ({"floor": 0.6, "design": "exact"}, "floors must add up to at most the budget of 2, got 2.4"),
        ({"cap": 0.4, "design": "exact"}, "caps must add up to at least the budget of 2, got 1.6"),
        (
            {"floor": [0.1, 0.2], "design": "exact"},
            r"floor must be one number, or one for each of the 4 arms, got shape \(2",
        ),
        ({"floor": [0.1, 0.1, 0.1, -0.1], "design": "exact"}, r"floor must be a number between 0 and 1.*-0\.1"),
        ({"floor": np.zeros((3, 4)), "design": "exact"}, "floor must be a number between 0 and 1, or one for each arm"),
        ({"floor": 0.5, "cap": 0.45, "design": "exact"}, "floor must be at most cap, got 0.5 and 0.45 for arm 0"),
        ({"arms": np.zeros((2, 2))}, "arms must be Arms or a sequence of Arms"),
        ({"arms": []}, "arms must be Arms or a sequence of Arms"),
        ({"arms": None}, "arms must be Arms or a sequence of Arms, got None"),
        ({"arms": 3}, "arms must be Arms or a sequence of Arms, got 3"),
        ({"carry_states": "no"}, "carry_states must be true or false, got 'no'"),
        ({"exposure_regret": 1}, "exposure_regret must be true or false, got 1"),
        ({"arms": [ARMS, ARMS], "runs": 3}, "runs must be the number of sets of arms, 2, got 3"),
        ({"arms": [ARMS, mf.datasets.synthetic(5, seed=1)], "runs": None}, "of one size, got sizes 4, 5"),
        ({"arms": [ARMS, mf.Arms(ARMS.transitions, "abcd")], "runs": None}, "must have the same names"),
    ],
)
def test_bad_problems_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(mf.InputError, match=message):
        play(mf.Random(), **changes)


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (mf.MeritFair(design="exact", floor=0.6), "floors must add up to at most the budget of 2, got 2.4"),
        (mf.MeritFair(design="exact", floor=(0.1, 0.2)), r"one for each of the 4 arms, got shape \(2,\)"),
        (mf.FairOracle(design="systematic", cap=0.4), "caps must add up to at least the budget of 2, got 1.6"),
        (mf.FairOracle(design="exact", cap=(0.5,) * 5), r"one for each of the 4 arms, got shape \(5,\)"),
    ],
)
def test_bounds_of_a_policy_must_suit_the_problem(policy: mf.Policy, message: str) -> None:
    with pytest.raises(mf.InputError, match=message):
        play(policy)
    with pytest.raises(mf.InputError, match=message):
        play(policy, floor=0.0, cap=1.0)  # another criterion does not help
    merit = mf.CustomMerit(np.exp, lipschitz=3.0)
    with pytest.raises(mf.InputError, match=message):
        play(policy, floor=0.0, cap=1.0, merit=merit)  # nor does a plan made in Python


@pytest.mark.parametrize("text", ["random", "merit-fair", "merit-fair:estimate=mean"])
def test_a_policy_may_be_given_by_name(text: str) -> None:
    by_name, made = play(text), play(mf.policies.create(text))
    assert by_name.settings == made.settings
    np.testing.assert_array_equal(by_name.fairness_regret, made.fairness_regret)


def test_a_policy_given_by_name_is_made_by_the_same_rules() -> None:
    rules: dict[str, Any] = {"merit": mf.Affine(), "design": "exact", "floor": 0.1, "cap": 0.9, "delta": 0.2}
    by_name, made = play("merit-fair:delta=0.3", **rules), play(mf.MeritFair(**rules | {"delta": 0.3}), **rules)
    assert by_name.settings == made.settings
    assert by_name.settings["problem"]["delta"] == 0.2
    np.testing.assert_array_equal(by_name.fairness_regret, made.fairness_regret)
    with pytest.raises(mf.InputError, match="there is no policy 'merit-fare', did you mean 'merit-fair'"):
        play("merit-fare")


def test_what_is_no_policy_is_refused() -> None:
    with pytest.raises(mf.InputError, match="its name, or a function that plans, got 3"):
        mf.simulate(ARMS, 3, budget=1, episodes=1)  # type: ignore[arg-type]


def test_absorbing_arms_are_named_before_anything_is_played() -> None:
    stuck = mf.Arms([[[0.0, 0.5], [1.0, 0.5]]], names=["Ada"])
    with pytest.raises(mf.InputError, match=r"arm 0 \('Ada'\) has no steady state"):
        mf.simulate(stuck, mf.Random(), budget=1, episodes=1)


def test_a_flag_of_numpy_is_one() -> None:
    assert play(mf.Random(), carry_states=np.True_).settings["problem"]["carry_states"] is True
