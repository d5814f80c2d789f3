"""Accounts in live use: what arms are due, what they are given, and how far one may be from the other."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import meritfair as mf
from meritfair.model.accounts import exploration
from meritfair.policies import Lottery, PriorityTable, Rotation, TimedLottery, create
from meritfair.policies.learner import Choice, Learner
from meritfair.policies.own import as_policy
from meritfair.policies.timed import with_accounts

ARMS = np.random.default_rng(5).uniform(0.05, 0.95, (6, 2, 2))
EXACT = 1e-9


def oracle(**settings: Any) -> mf.FairOracle:
    chosen: dict[str, Any] = {"design": "exact", "slack": 1.0, **settings}
    return mf.FairOracle(**chosen)


def timed(lottery: Lottery, transitions: Any = None, slack: float = 1.0, explore: Any = 0.0) -> Learner:
    plan = TimedLottery(lottery, transitions, slack, explore)
    return as_policy(lambda view: plan).start(plan.n_arms, 2, seed=1)


def same(one: Choice, other: Choice) -> bool:
    return all(np.array_equal(getattr(one, f.name), getattr(other, f.name)) for f in dataclasses.fields(Choice))


# ---- due, given, account


def test_an_account_is_what_was_due_less_what_was_given() -> None:
    learner, total = oracle().start(budget=2, seed=1, transitions=ARMS), np.zeros(6)
    assert learner.account.tolist() == [0] * 6
    due = mf.fair_exposure(mf.Exponential()(mf.benefit(ARMS)), 2, "exact")
    rng, apart = np.random.default_rng(2), 0.0
    for _ in range(60):
        choice = learner.choose(rng.integers(0, 2, 6))
        assert choice.due == pytest.approx(due, abs=1e-12)
        total += choice.due - choice.exposure
        assert choice.account == pytest.approx(total, abs=1e-12)
        assert np.array_equal(choice.account, learner.account)
        assert choice.exposure.sum() == pytest.approx(2, abs=EXACT)
        apart = max(apart, np.abs(choice.exposure - choice.due).max())
    assert apart > 0.2


def test_what_a_choice_or_a_learner_shows_can_be_changed_by_nobody() -> None:
    learner = oracle().start(budget=2, seed=1, transitions=ARMS)
    choice = learner.choose(np.zeros(6))
    kept = learner.account
    choice.account[:] = 9
    learner.account[:] = 9
    assert np.array_equal(learner.account, kept)


@pytest.mark.parametrize("policy", ["merit-fair", "random", "round-robin", "thompson-whittle", "wiql", "optimal"])
def test_without_slack_what_is_given_is_what_is_due(policy: str) -> None:
    learner = create(policy).start(5, 2, seed=1)
    for _ in range(5):
        choice = learner.choose([0, 1, 0, 1, 1], available=[1, 1, 0, 1, 1])
        assert np.array_equal(choice.due, choice.exposure)
        assert choice.account.tolist() == [0] * 5


def test_no_slack_at_all_is_the_lottery() -> None:
    merit = np.array([5.0, 1.0, 2.0, 1.0, 3.0])
    learner = timed(Lottery(merit, "exact", floor=0.1), ARMS[:5], slack=0.0)
    for states in np.random.default_rng(1).integers(0, 2, (30, 5)):
        choice = learner.choose(states)
        fair = mf.fair_exposure(merit, 2, "exact", floor=0.1)
        assert choice.exposure == pytest.approx(fair, abs=1e-12)
        assert np.abs(choice.account).max() < 1e-12


@pytest.mark.parametrize("slack", [0.3, 2.0, np.inf])
def test_those_whom_a_pull_helps_now_are_ahead(slack: float) -> None:
    arms = np.array([[[0.1, 0.9], [0.9, 0.9]]] * 4)  # only in the bad state
    learner = timed(Lottery(np.ones(4), "exact"), arms, slack)
    choice = learner.choose([0, 0, 1, 1])
    assert (choice.exposure[:2] > 0.5).all()
    assert (choice.exposure[2:] < 0.5).all()
    assert choice.exposure[0] == pytest.approx(0.8 if slack == 0.3 else choice.exposure[1])


def test_exploring_makes_states_matter_less() -> None:
    arms = np.array([[[0.1, 0.9], [0.9, 0.9]]] * 4)
    given = [timed(Lottery(np.ones(4), "exact"), arms, 2.0, rho).choose([0, 0, 1, 1]).exposure for rho in (0, 0.5, 1)]
    assert given[0][0] > given[1][0] > given[2][0] + 0.01
    assert given[2] == pytest.approx(0.5)
    cells = np.zeros((4, 2, 2))
    cells[1:, 1, 1] = 0.4  # the good state is to be seen under a pull
    each = timed(Lottery(np.ones(4), "exact"), arms, 2.0, cells).choose([0, 0, 1, 1]).exposure
    assert each[2:] == pytest.approx(0.4 * 0.5)
    assert each[:2] == pytest.approx(1 - 0.4 * 0.5)


def test_who_is_in_an_unknown_state_is_given_what_is_due() -> None:
    learner = timed(Lottery(np.ones(4), "exact"), np.array([[[0.1, 0.9], [0.9, 0.9]]] * 4), 2.0)
    choice = learner.choose()
    assert choice.exposure == pytest.approx(0.5)
    choice = learner.choose([0, None, None, 1])
    assert choice.exposure[1] == pytest.approx(choice.exposure[2])
    assert choice.exposure[0] > choice.exposure[1] > choice.exposure[3]


def test_what_is_due_is_shared_by_those_who_are_there() -> None:
    merit, here = np.array([5.0, 1.0, 2.0, 1.0, 3.0]), np.array([True, False, True, True, True])
    choice = timed(Lottery(merit, "exact"), ARMS[:5]).choose([0, 1, 0, 1, 0], available=here)
    assert choice.due[here] == pytest.approx(mf.fair_exposure(merit[here], 2, "exact"))
    assert choice.due[1] == choice.exposure[1] == choice.account[1] == 0
    assert choice.exposure.sum() == pytest.approx(2)


def test_frequencies_are_those_that_are_stated() -> None:
    learner = oracle(slack=2.0).start(budget=2, seed=3, transitions=ARMS)
    rng, made, stated = np.random.default_rng(4), np.zeros(6), np.zeros(6)
    for _ in range(600):
        choice = learner.choose(rng.integers(0, 2, 6))
        made += choice.actions
        stated += choice.exposure
    # Hoeffding at 1e-4 for 6 arms: 600 pulls differ from what is stated by at most sqrt(300 ln(1.2e5)) = 59.2
    assert np.abs(made - stated).max() < 59.2
    assert np.abs(stated - 600 * choice.due).max() <= 2.0 + EXACT


def test_a_plan_says_what_is_due() -> None:
    lottery = Lottery(np.array([[5.0, 1.0, 2.0], [1.0, 1.0, 2.0]]), "systematic")
    plan = TimedLottery(lottery, ARMS[:3], np.inf, np.zeros((2, 3, 2, 2)))
    plan.check(3, 2, (2,))
    assert np.array_equal(plan.exposure(2), lottery.exposure(2))
    assert np.array_equal(plan.share(2), lottery.share(2))
    assert (plan.shape, plan.drawn_by, plan.looks_at_states) == ((2, 3), 2, True)
    assert not TimedLottery(lottery).looks_at_states


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"lottery": Lottery(np.ones(3))}, "a timed lottery needs the design 'exact' or 'systematic'"),
        ({"lottery": Rotation(3)}, "lottery must be a Lottery, got Rotation"),
        ({"slack": -1.0}, "slack must be at least 0, got -1"),
        ({"slack": np.nan}, "slack must be at least 0, got nan"),
        ({"slack": "much"}, "slack must be a number, got 'much'"),
        ({"explore": 1.5}, r"explore must lie between 0 and 1, got 1\.5"),
        ({"explore": np.zeros(4)}, r"explore must have shape \(3, 2, 2\), got \(4,\)"),
        ({"transitions": ARMS[:4]}, r"transitions must have shape \(3, 2, 2\), got \(4, 2, 2\)"),
        ({"transitions": ARMS[:3] + 1}, "transitions must lie between 0 and 1"),
    ],
)
def test_timed_lotteries_that_cannot_be(settings: dict[str, Any], message: str) -> None:
    given_settings: dict[str, Any] = {"lottery": Lottery(np.ones(3), "exact"), **settings}
    with pytest.raises(mf.InputError, match=message):
        TimedLottery(**given_settings)


@pytest.mark.parametrize("policy", [mf.MeritFair, mf.FairOracle])
def test_slack_is_a_setting_that_needs_exact_draws(policy: Any) -> None:
    with pytest.raises(mf.InputError, match=r"slack needs another design.* got slack=2: type design='exact'"):
        policy(slack=2)
    with pytest.raises(mf.InputError, match=r"slack must be at least 0, got -0\.5"):
        policy(design="exact", slack=-0.5)
    assert policy(slack=0) == policy()
    assert policy(design="systematic", slack="inf").slack == np.inf
    assert create(f"{policy.name}:design=exact,slack=inf").settings()["slack"] == "inf"


def test_what_is_rarely_seen_is_explored_most() -> None:
    visits = np.random.default_rng(1).integers(0, 50, (3, 4, 2, 2))
    part = exploration(mf.Counts(visits, visits // 2))
    assert part.shape == (3, 4, 2, 2)
    assert ((part > 0) & (part <= 1)).all()
    assert (exploration(mf.Counts(np.zeros((1, 2, 2)), np.zeros((1, 2, 2)))) == 0.25).all()
    assert (part.sum(axis=(-2, -1)) <= 1 + 1e-12).all()  # of shares of the error
    share, often = np.array([[[0.2, 0.8], [0.5, 0.9]]]), np.full((1, 2, 2), 10**7)
    seldom = often.copy()
    seldom[0, 1, 1] = 10**6
    more, less = (exploration(mf.Counts(n, (share * n).astype(np.int64))) for n in (seldom, often))
    assert more[0, 1, 1] == pytest.approx(np.sqrt(10) * less[0, 1, 1], rel=1e-3)
    assert more[0, 0] == pytest.approx(less[0, 0], rel=1e-3)


# ---- within the slack, whatever happens


@st.composite
def programmes(draw: st.DrawFn) -> dict[str, Any]:
    """Return arms with bounds, a slack, and the seed of whatever happens to them."""
    n = draw(st.integers(2, 8))
    budget = draw(st.integers(1, n))
    floor = draw(st.sampled_from([0.0, 0.5 * budget / n]))
    cap = draw(st.sampled_from([1.0, min(1.0, 1.3 * budget / (n - 1))]))  # one may leave
    return {
        "n": n,
        "budget": budget,
        "bounds": {"floor": floor, "cap": cap},
        "slack": draw(st.sampled_from([0.0, 0.1, 0.5, 1.0, 3.0])),
        "design": draw(st.sampled_from(["exact", "systematic"])),
        "known": draw(st.booleans()),
        "seed": draw(st.integers(0, 10_000)),
    }


def policy_of(case: dict[str, Any]) -> mf.Policy:
    settings = {"design": case["design"], "slack": case["slack"], **case["bounds"]}
    return mf.FairOracle(**settings) if case["known"] else mf.MeritFair(estimate="mean", **settings)


def check_sums(choice: Choice, most: int) -> None:
    assert choice.exposure.sum() == pytest.approx(most, abs=EXACT)
    assert choice.due.sum() == pytest.approx(most, abs=1e-8)
    assert choice.actions.sum() == most
    assert ((choice.exposure >= 0) & (choice.exposure <= 1)).all()


@given(programmes())
def test_no_account_leaves_the_slack_whatever_the_states_and_whoever_comes_and_goes(case: dict[str, Any]) -> None:
    rng, policy, n = np.random.default_rng(case["seed"]), policy_of(case), case["n"]
    arms = rng.choice([0.01, 0.5, 0.99], (n, 2, 2)) if rng.random() < 0.3 else rng.random((n, 2, 2))
    learner = policy.start(n, case["budget"], case["seed"], transitions=arms, horizon=2)
    for t in range(25):
        if t == 8:
            learner.leave(0)
        if t == 14:
            learner.join(["arm-1", "Zoë"], rng.random((2, 2, 2)))
        here = rng.random(learner.n_arms) < (1.0 if t % 3 else 0.6)
        states = (learner.account < 0).astype(int) if t % 2 else rng.integers(-1, 2, learner.n_arms)
        choice = learner.choose(states, here)
        check_sums(choice, min(case["budget"], int(here.sum())))
        assert not choice.actions[~here].any()
        assert np.abs(choice.account).max() <= case["slack"] + EXACT
        after = rng.integers(-1, 2, learner.n_arms)
        learner.observe(rng.integers(-1, 2, learner.n_arms), choice.actions, after)


@settings(max_examples=40)
@given(programmes(), st.integers(0, 20))
def test_a_learner_that_is_saved_goes_on_with_its_accounts(case: dict[str, Any], when: int) -> None:
    rng, policy, n = np.random.default_rng(case["seed"]), policy_of(case), case["n"]
    rules = mf.Rules(warmup=case["seed"] % 3, once=case["seed"] % 5 == 0, accrue=case["seed"] % 2 == 0)
    learner = policy.start(n, case["budget"], case["seed"], transitions=rng.random((n, 2, 2)), rules=rules)
    twin = learner
    for t in range(21):
        if t == when:
            twin = Learner.from_dict(learner.to_dict())
            assert (twin.rules, twin.budget) == (learner.rules, learner.budget)
        states, here = rng.integers(-1, 2, n), rng.random(n) < 0.8
        if twin is not learner:
            assert same(twin.choose(states, here), learner.choose(states, here))
        else:
            learner.choose(states, here)


def test_accounts_do_not_depend_on_outcomes_when_arms_are_known() -> None:
    told, untold = (oracle().start(budget=2, seed=1, transitions=ARMS) for _ in range(2))
    for states in np.random.default_rng(2).integers(0, 2, (20, 6)):
        choice = told.choose(states)
        told.observe(states, choice.actions, 1 - states, round=choice.round)
        assert same(choice, untold.choose(states))


# ---- who leaves, returns, and other settings


def test_who_leaves_and_returns_has_the_account_of_before() -> None:
    learner = oracle().start(budget=2, seed=1, transitions=ARMS, names=list("abcdef"))
    for states in np.random.default_rng(2).integers(0, 2, (9, 6)):
        learner.choose(states)
    before = dict(zip(learner.names, learner.account.tolist(), strict=True))
    learner.leave(["b", "d"])
    assert learner.account.tolist() == [before[name] for name in learner.names]
    learner = Learner.from_dict(learner.to_dict())
    learner.choose([0, 1, 0, 1])
    learner.join(["d", "g"], ARMS[[3, 0]])
    assert learner.account[-2:].tolist() == [before["d"], 0]
    learner.leave("b", forget=True)
    learner.join("b", ARMS[1:2])
    assert learner.account[-1] == 0


@pytest.mark.parametrize("slack", [0.25, 0.0])
def test_with_less_slack_accounts_come_back_within_it(slack: float, tmp_path: Path) -> None:
    wide = oracle(slack=4.0)
    learner = wide.start(budget=2, seed=1, transitions=ARMS)
    worst = mf.state_exposure(ARMS, 1 / 3).argmax(axis=-1)  # where each should be pulled
    worst[3:] = 1 - worst[3:]
    for _ in range(24):
        learner.choose(worst)
    assert np.abs(learner.account).max() > 1
    learner.save(tmp_path / "learner.json")
    narrow = Learner.load(tmp_path / "learner.json", oracle(slack=slack), new_settings=True)
    sizes = [np.abs(narrow.choose([0, 0, 0, 1, 1, 1]).account).max() for _ in range(40)]
    assert (np.diff(sizes) <= EXACT).all()
    assert sizes[-1] <= slack + EXACT


def test_a_sequential_lottery_leaves_accounts_as_they_are() -> None:
    learner = oracle().start(budget=2, seed=1, transitions=ARMS)
    learner.choose([0, 0, 0, 1, 1, 1])
    kept = learner.account
    plain = Learner.from_dict(learner.to_dict(), mf.FairOracle(), new_settings=True)
    choice = plain.choose()
    assert np.array_equal(choice.account, kept)
    assert np.array_equal(choice.exposure, choice.due)


def test_which_plans_make_up_for_what_was_missed() -> None:
    table, alike = PriorityTable(np.zeros((3, 2))), Lottery(np.full((2, 3), 2.0))
    assert with_accounts(table) is table
    assert with_accounts(TimedLottery(Lottery(np.ones(3), "exact"), slack=2.0)).slack == 2.0  # type: ignore[attr-defined]
    found = with_accounts(alike)
    assert isinstance(found, TimedLottery)
    assert found.lottery.design == "exact"
    sequential = Lottery(np.array([1.0, 2.0, 3.0]))
    assert with_accounts(sequential) is sequential
