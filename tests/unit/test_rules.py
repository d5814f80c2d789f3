"""Rules of a programme: who may be pulled in a round, what is due, and budgets that change."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import meritfair as mf
from meritfair.model.rules import check_budgets
from meritfair.policies import Lottery, PriorityTable, TimedLottery, create
from meritfair.policies.learner import Choice, Learner
from meritfair.policies.own import as_policy

EXACT = 1e-9
MERIT = np.array([5.0, 1.0, 2.0, 1.0, 3.0, 1.0])


def lottery(design: str = "exact", **bounds: Any) -> mf.Policy:
    def by_merit(view: Any) -> Lottery:
        return Lottery(np.resize(MERIT, view.n_arms), design, **bounds)

    return as_policy(by_merit)


def rounds(learner: Learner, number: int, **given_values: Any) -> list[Choice]:
    return [learner.choose(**given_values) for _ in range(number)]


def pulls(choices: list[Choice]) -> Any:
    return np.array([choice.actions for choice in choices])


# ---- settings


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"cooldown": -1}, "cooldown must be between 0 and 1000000000, got -1"),
        ({"cooldown": 1.5}, r"cooldown must be a whole number, got 1\.5"),
        ({"warmup": 10**30}, "warmup must be between 0 and 1000000000"),
        ({"once": 1}, "once must be true or false, got 1"),
        ({"accrue": "no"}, "accrue must be true or false, got 'no'"),
    ],
)
def test_rules_that_cannot_be(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(mf.InputError, match=message):
        mf.Rules(**settings)


def test_rules_are_plain_values_in_files() -> None:
    rules = mf.Rules(cooldown=2, once=True)
    assert mf.Rules.from_settings(rules.settings()) == rules
    assert mf.Rules.from_settings(None) == mf.Rules()
    with pytest.raises(mf.InputError, match="rules has no setting 'warm', did you mean 'warmup'"):
        mf.Rules.from_settings({"warm": 1})
    with pytest.raises(mf.InputError, match="rules must be a Rules, got 3"):
        lottery().start(6, 2, rules=3)  # type: ignore[arg-type]


def test_rules_as_people_read_them() -> None:
    assert str(mf.Rules(cooldown=2, warmup=3, once=True, accrue=True)) == "cooldown 2, warmup 3, once, accrue"
    assert str(mf.Rules()) == ""


@pytest.mark.parametrize(
    ("budget", "rules", "message"),
    [
        (3, mf.Rules(cooldown=2), "cooldown of 2, 9 different arms are pulled in 3 rounds, but there are 6"),
        ([4, 3, 0], mf.Rules(cooldown=1), "cooldown of 1, 7 different arms are pulled in 2 rounds, but there are 6"),
        ([2, 1], mf.Rules(cooldown=4), "cooldown of 4, 8 different arms are pulled in 5 rounds, but there are 6"),
    ],
)
def test_a_cooldown_that_leaves_too_few_is_refused_at_the_start(budget: Any, rules: mf.Rules, message: str) -> None:
    with pytest.raises(mf.InputError, match=message):
        lottery().start(6, budget, rules=rules)


@pytest.mark.parametrize(("rules", "rule"), [(mf.Rules(cooldown=1), "cooldown"), (mf.Rules(accrue=True), "accrue")])
def test_a_policy_with_sequential_draws_cannot_make_up(rules: mf.Rules, rule: str) -> None:
    with pytest.raises(mf.InputError, match=f"{rule} needs the design 'exact' or 'systematic'"):
        mf.MeritFair().start(6, 2, rules=rules)
    mf.MeritFair(design="exact").start(6, 2, rules=rules)
    mf.MeritFair().start(6, 2, rules=mf.Rules(warmup=1, once=True))
    create("random").start(6, 2, rules=rules)  # all are alike, so designs do not differ


# ---- cool-down


def test_who_was_pulled_rests_and_loses_nothing_by_it() -> None:
    choices = rounds(lottery().start(6, 2, seed=1, rules=mf.Rules(cooldown=2)), 100)
    made = pulls(choices)
    for wait in (1, 2):
        assert not (made[wait:] & made[:-wait]).any()
    assert (made.sum(axis=1) == 2).all()
    due = choices[0].due
    assert due == pytest.approx(np.full(6, 1 / 3))  # K (1 + c) = N: nobody can have more
    free = rounds(lottery().start(6, 1, seed=1, rules=mf.Rules(cooldown=1)), 600)
    due = free[0].due
    assert due == pytest.approx(mf.fair_exposure(MERIT, 1, "exact", cap=0.5))
    given_in_all = np.sum([choice.exposure for choice in free], axis=0)
    assert given_in_all / 600 == pytest.approx(due, abs=2 / 600)  # what is missed is made up for
    assert np.max([np.abs(choice.account) for choice in free]) < 2


def test_what_is_due_is_capped_by_the_cooldown_and_runs_on_while_an_arm_rests() -> None:
    first, second = rounds(lottery().start(6, 1, seed=1, rules=mf.Rules(cooldown=3)), 2)
    assert first.due.max() == pytest.approx(0.25)
    assert first.due.sum() == pytest.approx(1)
    rests = first.arms[0]
    assert second.exposure[rests] == 0
    assert second.due[rests] == pytest.approx(first.due[rests])
    assert second.account[rests] == pytest.approx(first.account[rests] + second.due[rests])


@pytest.mark.parametrize(
    ("cycle", "cooldown", "rate"),
    [
        ((4,), 0, 1),
        ((4,), 3, 1 / 4),
        ((4, 4, 4, 4, 0), 0, 4 / 5),
        ((4, 4, 4, 4, 0), 1, 4 / 10),  # in rounds 1, 3 and 6, 8: round 5 has no budget
        ((4, 4, 4, 4, 0), 2, 3 / 10),  # in rounds 1, 4, 7 and 11
        ((0, 7, 7, 7, 7, 0, 0), 1, 2 / 7),
        ((0, 1), 10**9 - 2, 1 / 10**9),
    ],
)
def test_how_often_an_arm_can_be_pulled(cycle: tuple[int, ...], cooldown: int, rate: float) -> None:
    rules = mf.Rules(cooldown=cooldown)
    assert rules.most_often(cycle) == pytest.approx(rate)
    due = np.mean([rules.most_due(budget, cycle) for budget in cycle])
    assert cooldown == 0 or due == pytest.approx(rate)


def test_accounts_do_not_drift_where_rounds_without_a_budget_come_between() -> None:
    rules, budget = mf.Rules(cooldown=1), (2, 2, 2, 2, 0, 0, 0)
    choices = rounds(lottery().start(6, budget, seed=1, rules=rules), 700)
    assert choices[0].due.max() == pytest.approx(0.5)  # two pulls in a cycle, of which four rounds have a budget
    # with 1 / (1 + c) of all rounds, 3.5 pulls would be due in each of 100 cycles, of which 2 can be given
    assert np.max([np.abs(choice.account) for choice in choices]) < 10


@pytest.mark.parametrize("slack", [0.0, 0.5])
def test_accounts_do_not_drift_under_a_cooldown(slack: float) -> None:
    """Two arms are due as much as the cool-down allows, and five nothing; all that is behind must go first.

    Where what is missing was shared in proportion instead, with a slack of 0 one account was at 122 after 3,000 rounds.
    """
    merit = np.array([90.0, 90.0, 1.0, 1.0, 1.0, *[1e-12] * 5])
    plan = TimedLottery(Lottery(merit, "exact"), slack=slack)
    learner = as_policy(lambda _: plan).start(10, 1, seed=1, rules=mf.Rules(cooldown=2))
    choices = rounds(learner, 1500)
    assert choices[0].due[:2] == pytest.approx([1 / 3, 1 / 3])
    assert np.max([np.abs(choice.account) for choice in choices]) < slack + 1


@given(st.integers(0, 10**6), st.integers(1, 4), st.sampled_from([0.0, 0.5, 2.0]))
@settings(max_examples=30, deadline=None)
def test_what_a_cooldown_can_add_to_an_account(seed: int, cooldown: int, slack: float) -> None:
    """The second proposition of "Under rules" in docs/theory.md, until a round is short, and until one is full."""
    rng = np.random.default_rng(seed)
    budget = int(rng.integers(1, 3))
    n = budget * (1 + cooldown) + int(rng.integers(1, 8))
    arms = mf.datasets.synthetic(n_arms=n, seed=seed).transitions
    plan = TimedLottery(Lottery(np.exp(rng.normal(size=n)), "exact"), arms, slack=slack)
    learner = as_policy(lambda _: plan).start(n, budget, seed=seed, rules=mf.Rules(cooldown=cooldown))
    before, rested, short, full = np.zeros(n), np.zeros(n, np.int64), False, False
    for _ in range(40):
        choice = learner.choose(states=rng.integers(0, 2, n))
        free, after = rested == 0, before + choice.due
        short |= np.clip(after - slack, 0, 1)[free].sum() > budget + EXACT
        full |= np.clip(after + slack, 0, 1)[free].sum() < budget - EXACT
        before = choice.account
        if not short:
            assert before.max() <= slack + cooldown * choice.due.max() + EXACT
            assert before[free].max() <= slack + EXACT
        if not full:
            assert before.min() >= -slack - EXACT
        assert abs(before.sum()) < 1e-6
        rested = np.maximum(0, rested - 1)
        rested[choice.arms] = cooldown


def test_a_floor_above_what_a_cooldown_allows_gives_way() -> None:
    floor = [0.9, 0.0, 0.0, 0.0, 0.0, 0.0]
    choice = lottery(floor=floor).start(6, 1, seed=1, rules=mf.Rules(cooldown=1)).choose()
    assert choice.due[0] == pytest.approx(0.5)
    assert choice.due.sum() == pytest.approx(1)


def test_when_too_few_are_left_the_cooldown_holds_and_fewer_are_pulled() -> None:
    learner = lottery().start(6, 3, seed=1, rules=mf.Rules(cooldown=1))
    rounds(learner, 2)
    learner.leave([0, 1, 2])
    choices = rounds(learner, 400)
    made = pulls(choices)
    assert not (made[1:] & made[:-1]).any()
    assert np.mean([choice.due for choice in choices], axis=0) == pytest.approx([0.5, 0.5, 0.5], abs=0.01)
    assert made.sum() == pytest.approx(600, abs=3)
    assert np.abs(choices[-1].account).max() < 3


def test_accounts_stay_low_when_cooldown_and_absences_leave_less_than_the_budget() -> None:
    learner, rng = lottery().start(6, 2, seed=1, rules=mf.Rules(cooldown=2)), np.random.default_rng(1)
    choices = [learner.choose(available=rng.random(6) < 0.7) for _ in range(600)]
    assert 600 < pulls(choices).sum() < 1000
    assert np.max([np.abs(choice.account) for choice in choices]) < 4
    assert sum(choices[-1].account) == pytest.approx(0, abs=EXACT)


def test_a_sequential_lottery_of_ones_own_passes_over_those_who_rest() -> None:
    choices = rounds(lottery("sequential").start(6, 2, seed=1, rules=mf.Rules(cooldown=1)), 20)
    made = pulls(choices)
    assert not (made[1:] & made[:-1]).any()
    for choice in choices:
        assert np.array_equal(choice.due, choice.exposure)


def test_a_table_passes_over_those_who_rest() -> None:
    policy = as_policy(lambda view: PriorityTable.of(np.arange(6.0)))
    choices = rounds(policy.start(6, 2, seed=1, rules=mf.Rules(cooldown=1)), 4)
    assert [choice.arms.tolist() for choice in choices] == [[4, 5], [2, 3], [4, 5], [2, 3]]
    assert not np.any([choice.account for choice in choices])


def test_those_who_rest_are_not_pulled_whatever_is_known_of_them() -> None:
    policy = as_policy(lambda view: PriorityTable(np.stack([np.arange(4.0), np.arange(4.0) + 1], axis=-1)))
    learner = policy.start(4, 1, seed=1, rules=mf.Rules(cooldown=2))
    assert learner.choose([0, 0, 0, 0]).arms.tolist() == [3]
    assert learner.choose([0, 0, 0, None]).arms.tolist() == [2]
    assert learner.choose([None, 1, None, None]).arms.tolist() == [1]


# ---- newcomers, and once


def test_newcomers_are_not_pulled_before_they_have_warmed_up() -> None:
    learner = lottery().start(6, 2, seed=1, rules=mf.Rules(warmup=2))
    first = rounds(learner, 4)
    assert pulls(first).sum(axis=1).tolist() == [0, 0, 2, 2]
    assert [choice.due.sum() for choice in first] == pytest.approx([0, 0, 2, 2])
    learner.join("Zoë")
    later = rounds(learner, 3)
    assert [choice.exposure[-1] > 0 for choice in later] == [False, False, True]
    assert [choice.due[-1] > 0 for choice in later] == [False, False, True]
    assert np.abs(later[-1].account).max() < 1e-12
    learner.leave("Zoë")
    learner.join("Zoë")  # who was there before is no newcomer
    assert learner.choose().exposure[-1] > 0


def test_who_was_in_a_history_alone_is_a_newcomer_when_they_join() -> None:
    log = mf.StateLog(["Ada", "Ada", "Bo", "Bo"], [1, 2, 1, 2], [0, 1, 1, 0], [0, 0, 1, 0])
    policy = mf.MeritFair(estimate="mean", design="exact")
    learner = policy.start(budget=1, seed=1, names=["Ada", "Cy"], history=log, rules=mf.Rules(warmup=1))
    rounds(learner, 3)
    learner.join("Bo")
    assert learner.counts.visits[-1].sum() == 1
    assert [choice.exposure[-1] > 0 for choice in rounds(learner, 2)] == [False, True]


def test_once_is_once() -> None:
    choices = rounds(lottery().start(6, 4, seed=1, rules=mf.Rules(once=True)), 4)
    assert pulls(choices).sum(axis=0).tolist() == [1] * 6
    assert pulls(choices).sum(axis=1).tolist() == [4, 2, 0, 0]
    assert choices[1].due == pytest.approx(1 - choices[0].actions)
    assert not choices[2].due.any()
    assert np.abs(choices[3].account).max() < 1e-12


# ---- those who are away


def test_who_is_away_is_due_nothing_unless_it_accrues() -> None:
    here = [True, False, True, True, True, True]
    plain = lottery().start(6, 2, seed=1).choose(available=here)
    assert plain.due[1] == plain.account[1] == 0
    learner = lottery().start(6, 2, seed=1, rules=mf.Rules(accrue=True))
    everyone = mf.fair_exposure(MERIT, 2, "exact")
    away = [learner.choose(available=here) for _ in range(4)]
    for number, choice in enumerate(away, 1):
        assert choice.due == pytest.approx(everyone)
        assert choice.exposure[1] == 0
        assert choice.account[1] == pytest.approx(number * everyone[1])
        assert choice.exposure.sum() == pytest.approx(2)
    back = rounds(learner, 30)
    assert back[0].exposure[1] > 2 * everyone[1]
    assert np.abs(back[-1].account).max() < 1e-9


# ---- budgets


def test_a_budget_may_change_by_round_and_repeats() -> None:
    learner = lottery().start(6, [3, 0, 1], seed=1)
    choices = rounds(learner, 7)
    assert pulls(choices).sum(axis=1).tolist() == [3, 0, 1, 3, 0, 1, 3]
    assert learner.budget == (3, 0, 1)
    assert repr(learner) == "Learner(by-merit: round 7, 6 arms, budget (3, 0, 1))"
    assert choices[2].exposure == pytest.approx(mf.fair_exposure(MERIT, 1, "exact"))


def test_a_budget_may_be_for_one_round_alone() -> None:
    learner = mf.MeritFair(design="exact", slack=1.0).start(6, 2, seed=1)
    made = [learner.choose(budget=budget).actions.sum() for budget in (5, None, 0, 9)]
    assert made == [5, 2, 0, 6]
    assert np.abs(learner.account).max() <= 1
    for wrong in (-1, 2.5, "3"):
        with pytest.raises(mf.InputError, match="budget must be"):
            learner.choose(budget=wrong)  # type: ignore[arg-type]
    assert learner.round == 4


def test_floors_give_way_where_the_budget_is_lower() -> None:
    floor = [0.5, 0.5, 0.5, 0.1, 0.1, 0.1]
    learner = lottery(floor=floor).start(6, [2, 1], seed=1)
    full, less = rounds(learner, 2)
    assert (full.exposure >= np.array(floor) - EXACT).all()
    assert less.exposure.sum() == pytest.approx(1)
    assert less.exposure == pytest.approx(np.array(floor) / 1.8)
    assert learner.choose(budget=0).exposure.tolist() == [0] * 6


@pytest.mark.parametrize(
    ("budget", "message"),
    [
        ([0, 0], r"budget must be above 0 in some round, got \[0, 0\]"),
        ([], r"budget must be above 0 in some round, got \[\]"),
        ([1, 7], "budget must be between 0 and the 6 arms in each round, got 7"),
        ([1, -1], "in each round, got -1"),
        ([1, 2.5], r"budget must be a whole number, got 2\.5"),
        ([[1, 2], [3]], r"budget must be a whole number, got \[1, 2\]"),
        ("3", "budget must be a whole number, got '3'"),
        (np.array(3), r"budget must be a whole number, got array\(3\)"),
        (None, "budget must be a whole number, got None"),
    ],
)
def test_budgets_that_cannot_be(budget: Any, message: str) -> None:
    with pytest.raises(mf.InputError, match=message):
        lottery().start(6, budget)


def test_one_budget_is_that_of_all_rounds() -> None:
    assert check_budgets([3], 5) == check_budgets(3, 5) == 3
    assert check_budgets(np.array([3, 1]), 5) == (3, 1)


def test_quotas_are_for_one_budget() -> None:
    policy = create("equitable", groups=("a", "a", "b", "b", "b", "b"), estimate="mean")
    with pytest.raises(mf.InputError, match="the policy equitable has quotas for a budget of 2, got 1"):
        policy.start(6, [2, 1], seed=1)
    learner = policy.start(6, 2, seed=1)
    with pytest.raises(mf.InputError, match="quotas for a budget of 2, got 1"):
        learner.choose([0] * 6, budget=1)
    assert learner.choose([0] * 6, budget=2).actions.sum() == 2


def test_a_cooldown_goes_with_budgets_that_change() -> None:
    learner = lottery().start(6, [4, 0, 0, 2, 0, 0], seed=1, rules=mf.Rules(cooldown=2))
    choices = rounds(learner, 600)
    assert pulls(choices).sum(axis=1).tolist() == [4, 0, 0, 2, 0, 0] * 100
    assert np.abs(choices[-1].account).max() < 2  # what is due is what can be given
    assert np.sum([choice.due for choice in choices], axis=0).max() <= 200 + EXACT


# ---- files, and whatever happens


def test_rules_and_rests_are_in_the_file(tmp_path: Path) -> None:
    rules = mf.Rules(cooldown=2, warmup=1)
    learner = lottery().start(6, [2, 0, 1], seed=1, rules=rules)
    rounds(learner, 4)
    learner.leave(0)
    learner.join("Zoë")
    learner.save(tmp_path / "learner.json")
    loaded = Learner.load(tmp_path / "learner.json", learner.policy)
    assert (loaded.rules, loaded.budget) == (rules, (2, 0, 1))
    for one, other in zip(rounds(learner, 9), rounds(loaded, 9), strict=True):
        assert one.names == other.names
        assert np.array_equal(one.exposure, other.exposure)
        assert np.array_equal(one.account, other.account)


NAMES = ["merit-fair", "fair-oracle", "random", "round-robin", "whittle", "wiql", "soft-fair", "fawt", "none"]


@st.composite
def programmes(draw: st.DrawFn) -> dict[str, Any]:
    n = draw(st.integers(3, 9))
    cooldown = draw(st.integers(0, 2))
    most = n // (1 + cooldown)
    cycle = draw(st.lists(st.integers(0, most), min_size=1, max_size=3).filter(any))
    rules = mf.Rules(cooldown, draw(st.integers(0, 3)), draw(st.booleans()), draw(st.booleans()))
    name, slack = draw(st.sampled_from(NAMES)), draw(st.sampled_from([0.0, 0.5, 2.0]))
    fair = name in ("merit-fair", "fair-oracle")
    settings: dict[str, Any] = {"design": "exact", "slack": slack} if fair else {}
    return {
        "n": n,
        "cycle": cycle,
        "rules": rules,
        "policy": create(name, **settings),
        "seed": draw(st.integers(0, 99)),
    }


@given(programmes())
def test_no_rule_is_ever_broken_and_nothing_fails(case: dict[str, Any]) -> None:
    rng, rules, n, policy = np.random.default_rng(case["seed"]), case["rules"], case["n"], case["policy"]
    learner = policy.start(n, case["cycle"], case["seed"], transitions=rng.random((n, 2, 2)), rules=rules)
    last: dict[str, int] = {}
    joined = dict.fromkeys(learner.names, 0)
    total: dict[str, float] = {}
    for t in range(1, 25):
        if t in (8, 9):
            learner.leave(int(rng.integers(learner.n_arms)))
        if t == 15:
            new = ["Zoë", *learner.departed[:1]]
            learner.join(new, rng.random((len(new), 2, 2)))
            joined["Zoë"] = t - 1
        here = rng.random(learner.n_arms) < 0.8
        choice = learner.choose(rng.integers(0, 2, learner.n_arms), here)
        free = [
            bool(there)
            and t > joined[name] + rules.warmup
            and (name not in last or (not rules.once and t > last[name] + rules.cooldown))
            for name, there in zip(learner.names, here, strict=True)
        ]
        assert not choice.actions[~np.array(free)].any()
        assert not choice.exposure[~np.array(free)].any()
        budget = case["cycle"][(t - 1) % len(case["cycle"])]
        if policy.spends_budget:
            assert choice.actions.sum() == min(budget, sum(free))
        assert choice.exposure.sum() == pytest.approx(choice.actions.sum(), abs=EXACT)
        assert ((choice.due >= 0) & (choice.due <= 1 + EXACT)).all()
        assert choice.due.sum() == pytest.approx(choice.exposure.sum(), abs=1e-8)
        for name, due, got, account in zip(learner.names, choice.due, choice.exposure, choice.account, strict=True):
            total[name] = total.get(name, 0.0) + due - got
            assert account == pytest.approx(total[name], abs=EXACT)
        last |= dict.fromkeys(choice.names, t)
