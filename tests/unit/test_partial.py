"""Simulations in which not every state is seen: beliefs, what is learned, and that nobody peeks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import meritfair as mf
from meritfair.core.arrays import FloatArray, IntArray
from meritfair.model.accounts import given_exposure, wanted_odds
from meritfair.policies import names
from meritfair.policies.beliefs import beliefs
from meritfair.policies.plans import Lottery, Plan, PriorityTable, Rotation
from meritfair.policies.step_learner import StepLearner
from meritfair.policies.timed import TimedLottery
from meritfair.policies.view import View
from meritfair.simulation.watching import GapsSoFar, PartOfIt
from reference.partial import (
    beliefs_along,
    by_all_paths,
    episodes,
    likely_index,
    mixed_index,
    transitions_and_gaps,
)
from reference.planned import Planned

ALMOST = 1 - 2**-53  # everything is seen, but by way of beliefs
WAYS = [(0.4, False), (0.4, True), ("pulled", False), ("pulled", True)]
RECOMMENDED = "merit-fair:estimate=mean,design=exact,slack=2"


def some_arms(n_arms: int, seed: int = 1) -> FloatArray:
    return np.random.default_rng(seed).uniform(0.05, 0.95, (n_arms, 2, 2))


def known(plan: Plan) -> Planned:
    """Return a policy that has this plan in every episode, and knows the true arms."""
    policy = Planned(plan, once=False)
    policy.oracle = True
    return policy


# ---- beliefs


@pytest.mark.parametrize("last", [0, 1, -1])
def test_beliefs_are_those_of_all_paths(last: int) -> None:
    arms, since = some_arms(6), np.random.default_rng(3).integers(0, 2, (6, 6))
    for arm in range(6):
        since[arm, :arm] = -1  # seen after that many rounds
    found = beliefs(arms, np.full(6, last), since)
    share = arms[:, 0, 0] / (arms[:, 0, 0] + 1 - arms[:, 1, 0])  # of time, if never pulled
    good = share if last < 0 else np.full(6, float(last))
    for arm in range(6):
        start = np.array([1 - good[arm], good[arm]])
        assert found[arm] == pytest.approx(by_all_paths(arms[arm], start, since[arm, arm:]), abs=1e-12)


def test_of_an_arm_that_never_changes_nothing_is_believed_at_first() -> None:
    still = np.array([[[0.0, 0.3], [1.0, 1.0]]])
    assert beliefs(still, np.array([-1]), np.array([[0, 0, 0]])) == 0.5
    assert beliefs(still, np.array([-1]), np.zeros((1, 0), int)) == 0.5


# ---- the engine on beliefs


@pytest.mark.parametrize(("observed", "carry"), WAYS)
def test_a_table_ranks_by_beliefs(observed: Any, carry: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    arms, table = some_arms(70), np.random.default_rng(2).normal(size=(70, 2))
    table[5] = -np.inf
    policy = known(PriorityTable(table))
    settings = {"budget": 9, "episodes": 3, "horizon": 70, "seed": 4, "observed": observed, "carry_states": carry}
    run, happened = episodes(monkeypatch, mf.Arms(arms), policy, **settings)
    belief = np.full(70, 0.5)
    for each in happened:
        along = beliefs_along(arms, each, observed == "pulled", belief)
        for at, actions in zip(along, each.actions, strict=True):
            index = np.where(np.isinf(table[:, 0]), -np.inf, mixed_index(np.where(np.isinf(table), 0, table), at))
            assert set(np.flatnonzero(actions)) == set(np.argsort(-index)[:9])
        if carry:
            last, done = along[-1].copy(), each.actions[-1]
            pulled = each.seen[-2] if observed == "pulled" else np.zeros(70, bool)
            last[pulled] = each.states[-2][pulled]
            belief = (1 - last) * arms[range(70), 0, done] + last * arms[range(70), 1, done]
    assert run.pulls.sum() == 3 * 70 * 9
    if observed == "pulled":
        assert run.observed == pytest.approx(9 / 70)
    else:
        assert run.observed == pytest.approx(0.4, abs=0.02)  # of 14,700; five standard errors


def _rank(
    memory: FloatArray, states: IntArray, _last: IntArray, _step: int, _explores: bool, index: FloatArray
) -> None:
    for arm in range(len(states)):
        index[arm] = memory[arm, states[arm]]


def _learn(memory: FloatArray, states: IntArray, actions: IntArray, next_states: IntArray) -> None:
    for arm in range(len(states)):
        memory[arm, 2 + 4 * states[arm] + 2 * actions[arm] + next_states[arm]] += 1.0


@pytest.mark.parametrize("carry", [False, True])
def test_a_step_learner_takes_the_likely_state_and_learns_what_is_seen(
    carry: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    arms, memory = some_arms(9), np.zeros((9, 10))
    memory[:, :2] = table = np.random.default_rng(2).normal(size=(9, 2))
    kept: list[FloatArray] = []

    class Watched(Planned):
        oracle = True

        def plan(self, view: View) -> Plan:
            kept.append(memory if view.memory is None else view.memory[0].copy())
            return super().plan(view)

    settings = {"budget": 2, "episodes": 4, "horizon": 70, "seed": 4, "observed": 0.5, "carry_states": carry}
    _, happened = episodes(
        monkeypatch, mf.Arms(arms), Watched(StepLearner(memory, _rank, _learn), once=False), **settings
    )
    for each in happened[: 1 if carry else None]:
        for at, actions in zip(beliefs_along(arms, each, False, np.full(9, 0.5)), each.actions, strict=True):
            assert set(np.flatnonzero(actions)) == set(np.argsort(-likely_index(table, at))[:2])
    visits, good, _ = transitions_and_gaps(happened[:3], carry)
    learned = kept[3][:, 2:].reshape(9, 2, 2, 2)  # by state, action and next state
    assert np.array_equal(learned.sum(axis=-1), visits)
    assert np.array_equal(learned[..., 1], good)


@pytest.mark.parametrize(("observed", "carry"), WAYS)
def test_a_timed_lottery_gives_by_beliefs(observed: Any, carry: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    arms, n = some_arms(12), 12
    merit = np.random.default_rng(5).uniform(1, 3, n)
    explore = np.random.default_rng(6).uniform(0, 0.5, (n, 2, 2))
    plan = TimedLottery(Lottery(merit, "exact"), arms, 1.5, explore)
    settings = {"budget": 3, "episodes": 2, "horizon": 90, "seed": 4, "observed": observed, "carry_states": carry}
    run, happened = episodes(monkeypatch, mf.Arms(arms), known(plan), **settings)
    due, account, given_in_all, extremes = plan.exposure(3), np.zeros(n), np.zeros(n), [np.zeros(n)]
    odds, belief = np.log(wanted_odds(arms, due)), np.full(n, 0.5)
    for each in happened[:1]:  # the second follows if the first is right
        for at in beliefs_along(arms, each, observed == "pulled", belief):
            share = explore[:, 0] * (1 - at[:, None]) + explore[:, 1] * at[:, None]
            bounds = share[:, 1] * due, 1 - share[:, 0] * (1 - due)
            given = given_exposure(np.exp(mixed_index(odds, at)), account, due, 1.5, 3, None, *bounds)
            account, given_in_all = account + due - given, given_in_all + given
            extremes.append(account)
    first, _ = episodes(monkeypatch, mf.Arms(arms), known(plan), **{**settings, "episodes": 1})
    assert first.given[0] == pytest.approx(given_in_all, abs=1e-6)
    assert first.account_range[0, :, 1] == pytest.approx(np.max(extremes, axis=0), abs=1e-6)
    assert first.account_range[0, :, 0] == pytest.approx(np.min(extremes, axis=0), abs=1e-6)
    assert np.abs(run.account_range).max() <= 1.5 + 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("observed", [0.2, "pulled"])
def test_accounts_stay_within_the_slack_in_long_runs(observed: Any) -> None:
    arms = mf.datasets.cpap(n_arms=30, seed=2)
    for policy in (RECOMMENDED, "fair-oracle:design=systematic,slack=0.5"):
        run = mf.simulate(arms, policy, budget=4, episodes=300, seed=1, runs=2, observed=observed)
        slack = run.settings["policy"]["slack"]
        assert 0.9 * slack < np.abs(run.account_range).max() <= slack + 1e-7
        assert run.given.sum(axis=1) == pytest.approx(300 * 200 * 4)
        assert run.pulls.sum(axis=1).tolist() == [240_000] * 2


# ---- the same as when everything is seen

_SAME = ("reward", "visits", "good", "longest_wait", "pulls", "coverage_gap")
_CLOSE = ("given", "account_range", "fairness_regret", "fairness_regret_authors", "exposure_regret", "eta", "omega")


@pytest.mark.slow
@pytest.mark.parametrize("carry", [False, True])
@pytest.mark.parametrize("name", [*(name for name in names() if name != "prob-fair"), RECOMMENDED])
def test_if_all_is_seen_numbers_are_the_same(name: str, carry: bool) -> None:
    arms = mf.datasets.synthetic(n_arms=9, seed=1)
    how: Any = {"budget": 3, "episodes": 5, "horizon": 70, "runs": 2, "seed": 5, "carry_states": carry}
    usual, other = (mf.simulate(arms, name, **how, observed=observed) for observed in (None, ALMOST))
    for each in _SAME:
        assert np.array_equal(getattr(usual, each), getattr(other, each)), each
    for each in _CLOSE:
        assert getattr(usual, each) == pytest.approx(getattr(other, each), nan_ok=True), each
    assert (usual.observed == 1).all()
    assert (other.observed == 1).all()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["whittle", "round-robin", "fair-oracle:design=exact,slack=1", "soft-fair"])
@pytest.mark.parametrize("rules", [mf.Rules(cooldown=1, warmup=3), mf.Rules()])
def test_rules_and_budgets_that_change_are_kept(name: str, rules: mf.Rules) -> None:
    arms = mf.datasets.synthetic(n_arms=70, seed=1)  # more than fit into a word
    how: Any = {"budget": [7, 0, 20], "episodes": 3, "horizon": 130, "seed": 5, "rules": rules}
    usual, other = (mf.simulate(arms, name, **how, observed=observed) for observed in (None, ALMOST))
    for each in _SAME:
        assert np.array_equal(getattr(usual, each), getattr(other, each)), each
    less = mf.simulate(arms, name, **how, observed="pulled")
    assert less.pulls.sum() == usual.pulls.sum()


@pytest.mark.slow
def test_prob_fair_has_the_same_law_if_all_is_seen() -> None:
    """It draws in another order; means of 200 runs differ by at most four standard errors."""
    arms, how = mf.datasets.synthetic(n_arms=6, seed=1), {"budget": 2, "episodes": 4, "horizon": 30, "runs": 200}
    one, other = (mf.simulate(arms, "prob-fair", **how, seed=5, observed=x) for x in (None, ALMOST))  # type: ignore[arg-type]
    for x, y in ((one.reward.sum(axis=1), other.reward.sum(axis=1)), *zip(one.pulls.T, other.pulls.T, strict=True)):
        assert abs(x.mean() - y.mean()) <= 4 * np.sqrt((x.var() + y.var()) / 200) + 1e-9


@pytest.mark.parametrize("plan", [Lottery(np.arange(1.0, 8.0)), Lottery(np.arange(1.0, 8.0), "exact"), Rotation(7)])
@pytest.mark.parametrize("observed", [0.3, "pulled"])
def test_what_looks_at_no_state_does_the_same_whatever_is_seen(plan: Plan, observed: Any) -> None:
    arms, how = mf.Arms(some_arms(7)), {"budget": 2, "episodes": 3, "horizon": 130, "runs": 2, "seed": 3}
    usual, other = (mf.simulate(arms, known(plan), **how, observed=each) for each in (None, observed))  # type: ignore[arg-type]
    assert np.array_equal(usual.visits, other.visits)
    assert np.array_equal(usual.good, other.good)
    assert (other.observed < 0.4).all()


@pytest.mark.parametrize("observed", [0.6, "pulled"])
def test_results_depend_on_the_seed_alone(observed: Any) -> None:
    arms, how = mf.datasets.cpap(n_arms=6, seed=1), {"budget": 2, "episodes": 6, "horizon": 40, "seed": 3}
    runs = mf.simulate(arms, RECOMMENDED, **how, runs=3, workers=1, observed=observed)  # type: ignore[arg-type]
    again = mf.simulate(arms, RECOMMENDED, **how, runs=3, workers=3, observed=observed)  # type: ignore[arg-type]
    last = mf.simulate(arms, RECOMMENDED, **how, runs=1, first_run=2, observed=observed)  # type: ignore[arg-type]
    for name in ("reward", "visits", "observed", "account_range"):
        assert np.array_equal(getattr(runs, name), getattr(again, name))
        assert np.array_equal(getattr(runs, name)[2:], getattr(last, name))


def test_all_policies_see_the_same_arms(monkeypatch: pytest.MonkeyPatch) -> None:
    arms, how = mf.datasets.cpap(n_arms=6, seed=1), {"budget": 2, "episodes": 2, "horizon": 40, "seed": 3}
    one, other = (episodes(monkeypatch, arms, name, **how, observed=0.5)[1] for name in ("random", "whittle"))
    assert all(np.array_equal(x.seen, y.seen) for x, y in zip(one, other, strict=True))


# ---- what is learned


@pytest.mark.parametrize(("observed", "carry"), [*WAYS, (0.03, True)])
def test_transitions_and_gaps_are_noted(observed: Any, carry: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[PartOfIt] = []
    play = PartOfIt.play

    def keeping(self: PartOfIt, *args: Any) -> None:
        found.append(self)
        play(self, *args)

    monkeypatch.setattr(PartOfIt, "play", keeping)
    n_arms = 60 if observed == 0.03 else 5
    settings = {"budget": 1, "episodes": 5, "horizon": 90, "seed": 4, "observed": observed, "carry_states": carry}
    run, happened = episodes(monkeypatch, mf.Arms(some_arms(n_arms)), "random", **settings)
    visits, good, gaps = transitions_and_gaps(happened, carry)
    noted, kept = found[-1].noted[0], found[-1].gaps[0].all()
    assert np.array_equal(noted.visits, visits)
    assert np.array_equal(noted.good, good)
    assert kept.weight is not None
    named = zip(kept.arm, kept.start, kept.end, np.split(kept.actions, kept.first[1:-1]), kept.weight, strict=True)
    each = [(a, s, e, tuple(done)) for a, s, e, done, weight in named for _ in range(int(weight))]
    assert sorted(each) == gaps
    assert len(kept) <= len(gaps)
    if observed == 0.03:
        assert len(transitions_and_gaps(happened, carry, kept=1000)[2]) > len(gaps)  # some are too long
        assert (kept.lengths > 64).any()  # but some of those have no pull after the 64th step
    else:
        assert len(kept) < len(gaps)  # some are alike
    assert run.observed[0] == pytest.approx(np.mean([one.seen[:-1].mean() for one in happened]))


def test_many_arms_are_noted_piece_by_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    """The gaps of 5,000 arms are noted in two parts; put together early or late, they are the same."""
    found: list[PartOfIt] = []
    play = PartOfIt.play

    def keeping(self: PartOfIt, *args: Any) -> None:
        found.append(self)
        play(self, *args)

    monkeypatch.setattr(PartOfIt, "play", keeping)
    arms = mf.datasets.synthetic(n_arms=5_000, seed=1)
    kept = []
    for pending in (2**22, 10):
        monkeypatch.setattr("meritfair.simulation.watching._PENDING", pending)
        run = mf.simulate(arms, "random", budget=50, episodes=2, horizon=20, seed=1, observed=0.5)
        kept.append(found[-1].gaps[0].all())
        total = found[-1].noted[0].visits.sum()
    assert 4096 < kept[0].arm.max() == 4999
    for name, values in vars(kept[0]).items():
        assert np.array_equal(values, vars(kept[1])[name])
    assert total == pytest.approx(0.25 * 2 * 20 * 5000, rel=0.05)
    assert run.observed == pytest.approx(0.5, abs=0.01)


def test_there_may_be_no_gaps() -> None:
    assert len(GapsSoFar().all()) == 0


def _pull_the_bad(kind: str, n_arms: int) -> Plan:
    table = np.tile([1.0, 0.0], (n_arms, 1))
    if kind == "learner":
        return StepLearner(table, _rank)
    if kind == "timed":
        return TimedLottery(Lottery(np.ones(n_arms), "exact"), np.tile([[0.1, 0.9], [0.9, 0.9]], (n_arms, 1, 1)), 50.0)
    return PriorityTable(table, soft=kind == "soft")


@pytest.mark.parametrize("kind", ["table", "soft", "learner", "timed"])
def test_nobody_peeks(kind: str) -> None:
    """States that are drawn anew at each step cannot be known before they are seen: half of all pulls meet each.

    A plan that pulls those in the bad state would meet it nearly always if it could see it, as the same plan does if
    everything is seen.
    """
    arms = mf.Arms(np.full((20, 2, 2), 0.5))
    how: Any = {"budget": 4, "episodes": 5, "runs": 4, "seed": 1}
    shares = []
    for observed in (None, "pulled"):
        run = mf.simulate(arms, known(_pull_the_bad(kind, 20)), **how, observed=observed)
        shares.append(run.visits[:, :, 0, 1].sum() / run.pulls.sum())
    assert shares[0] > 0.65  # the soft one is not sure to pull them
    assert shares[1] == pytest.approx(0.5, abs=0.02)  # of 16,000; five standard errors


def test_plans_are_made_without_what_was_not_seen() -> None:
    views: list[View] = []

    def watching(view: View) -> Plan:
        views.append(view)
        return Lottery(np.ones(view.n_arms))

    arms = mf.datasets.synthetic(n_arms=30, seed=1)
    mf.simulate(arms, watching, budget=3, episodes=3, horizon=60, seed=1, observed=0.5)
    states = np.array([view.states for view in views])
    assert 0.3 < (states == -1).mean() < 0.7
    assert views[2].counts.visits.sum() <= 2 * 30 * 60
    views.clear()
    mf.simulate(arms, watching, budget=3, episodes=3, horizon=60, seed=1, observed="pulled")
    assert np.all([np.asarray(view.states) == -1 for view in views])


# ---- what it is worth


@pytest.mark.slow
@pytest.mark.parametrize(("observed", "bar"), [(0.5, 0.015), ("pulled", 0.06)])
def test_estimates_converge_to_the_truth(observed: Any, bar: float) -> None:
    """The error of all four probabilities falls below a bar, and is three times less than after the first episode."""
    arms, errors = mf.datasets.synthetic(n_arms=10, seed=1), []

    def watching(view: View) -> Plan:
        errors.append(np.abs(view.counts.mean - view.true_transitions).mean())
        return Lottery(np.ones(view.n_arms))

    mf.simulate(arms, watching, budget=3, episodes=60, seed=1, observed=observed)
    assert errors[-1] < bar
    assert errors[-1] < errors[1] / 3


@pytest.mark.parametrize("observed", [0.5, "pulled"])
def test_gaps_say_something(observed: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """With what was seen in gaps, estimates are nearer to the truth than with complete transitions alone."""
    arms, errors = mf.datasets.synthetic(n_arms=20, seed=1), {}

    def error() -> float:
        last: list[View] = []

        def watching(view: View) -> Plan:
            last[:] = [view]
            return Lottery(np.ones(view.n_arms))

        mf.simulate(arms, watching, budget=5, episodes=5, seed=1, observed=observed)
        return float(np.abs(last[0].counts.mean - arms.transitions).mean())

    errors["with gaps"] = error()
    monkeypatch.setattr("meritfair.simulation.watching.fills_before", lambda _: False)
    errors["complete"] = error()
    assert errors["with gaps"] < 0.9 * errors["complete"]


@pytest.mark.slow
@pytest.mark.parametrize("observed", [0.5, "pulled"])
def test_beliefs_are_better_than_chance(observed: Any) -> None:
    arms = [mf.datasets.cpap(n_arms=20, seed=seed) for seed in range(10)]
    how: Any = {"budget": 4, "episodes": 20, "seed": 1}
    whittle, random, everything = (
        mf.simulate(arms, name, **how, observed=seen).reward.sum(axis=1)
        for name, seen in (("whittle", observed), ("random", observed), ("whittle", None))
    )
    assert (random < whittle).all()
    assert (whittle < everything).all()


# ---- what is refused, shown and kept


@pytest.mark.parametrize(
    ("observed", "message"),
    [
        (0, "observed must be above 0, got 0"),
        (1.5, "observed must lie between 0 and 1, got 1.5"),
        ("called", "observed must be a number above 0 and at most 1, or 'pulled', got 'called'"),
        (True, "observed must be a number"),
    ],
)
def test_what_cannot_be_observed(observed: Any, message: str) -> None:
    with pytest.raises(mf.InputError, match=message):
        mf.simulate(mf.datasets.cpap(5, seed=1), "random", budget=1, episodes=1, observed=observed)


def test_who_learns_from_single_transitions_has_to_see_some() -> None:
    arms = mf.datasets.cpap(n_arms=8, seed=1)
    for name in ("wiql", "ab-whittle", "fawt-q:window=30"):
        with pytest.raises(mf.InputError, match="learns from single transitions needs some without a pull"):
            mf.simulate(arms, name, budget=4, episodes=1, observed="pulled")
        mf.simulate(arms, name, budget=4, episodes=1, observed=0.5)


def test_what_is_observed_is_shown_and_kept(tmp_path: Path) -> None:
    arms = mf.datasets.cpap(n_arms=5, seed=1)
    run = mf.simulate(arms, "random", budget=1, episodes=2, seed=1, observed=0.25)
    assert "25 % of states seen" in run.description
    run.save(tmp_path / "run.parquet")
    again = mf.Run.load(tmp_path / "run.parquet")
    assert again.observed == run.observed
    assert again.settings["problem"]["observed"] == 0.25
    assert mf.simulate(arms, "random", budget=1, episodes=2, seed=1).observed.tolist() == [1.0]


def test_comparisons_take_it_too() -> None:
    arms = mf.datasets.cpap(n_arms=6, seed=1)
    found = mf.compare(arms, budget=2, episodes=2, horizon=20, runs=2, seed=1, observed="pulled")
    assert {"wiql", "ab-whittle"} <= set(found.skipped)
    assert "states seen of those pulled" in found.description
    assert found.best.observed == pytest.approx(1 / 3)
