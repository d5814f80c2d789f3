"""Timed lotteries in the engine, step by step: what is due, given and drawn equals the plain rule, and rules hold."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import meritfair as mf
from meritfair.core.arrays import FloatArray, IntArray, WordArray
from meritfair.engine.accounts import narrow, set_bounds
from meritfair.engine.random import new_source
from meritfair.engine.rounds import NEVER
from meritfair.engine.timed import _draw_by_rounding, _draw_systematically, _set_due
from meritfair.engine.timing import odds_by_state, set_exploration
from meritfair.model.accounts import exploration, wanted_odds
from meritfair.model.counts import Counts
from meritfair.policies import Lottery, Plan, PriorityTable, Rotation, StepLearner, TimedLottery
from meritfair.policies.drawing import Situation
from meritfair.policies.own import as_policy
from reference.accounts import plain_given
from reference.compiled import kernel_of_tests
from reference.histories import History, history
from reference.timed import due_of, highest_of, wanted_of

EXACT = 1e-12
CLOSE = 2e-8  # what the search for the scale may leave
FREE = mf.Rules()


# ---- against the plain rule


def case(seed: int) -> dict[str, Any]:
    """Return a timed lottery under some rules, with floors and caps."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 12))
    rules = mf.Rules(int(rng.choice([0, 0, 1, 2])), int(rng.choice([0, 0, 3])), bool(rng.random() < 0.2))
    most = max(1, n // (1 + rules.cooldown))
    cycle = tuple(rng.integers(0, most + 1, rng.integers(1, 4)).tolist())
    cycle = cycle if any(cycle) else (1,)
    if sum(cycle) * (1 + rules.cooldown) > n and rules.cooldown:
        cycle = (1,)
        rules = rules if 1 + rules.cooldown <= n else FREE
    floor = rng.choice([0.0, 0.3]) * rng.random(n) * max(cycle) / n
    cap = np.maximum(floor, rng.choice([0.2, 0.7, 1.0]) + 0.3 * rng.random(n)).clip(0, 1)
    cap = cap if cap.sum() > max(cycle) else np.ones(n)
    return {
        "transitions": rng.uniform(0.05, 0.95, (n, 2, 2)),
        "lottery": Lottery(np.exp(rng.normal(0, 1, n)), str(rng.choice(["exact", "systematic"])), floor, cap),
        "slack": float(rng.choice([0.0, 0.3, 1.0, 5.0, np.inf])),
        "explore": rng.choice([0.0, 1.0]) * rng.random((n, 2, 2)),
        "looks": bool(rng.random() < 0.8),
        "cycle": cycle,
        "rules": rules,
    }


def played(it: dict[str, Any], steps: int) -> History:
    arms = it["transitions"]
    plan = TimedLottery(it["lottery"], arms if it["looks"] else None, it["slack"], it["explore"])
    return history(arms, plan, it["cycle"], steps, it["rules"])


def standing(pulls: IntArray, rules: mf.Rules, step: int) -> tuple[Any, Any]:
    """Return who is due something at a step, and who may be pulled, from the pulls before it."""
    counts = np.full(pulls.shape[1], step >= rules.warmup)
    if rules.once:
        counts &= ~pulls[:step].any(axis=0)
    return counts, counts & ~pulls[max(0, step - rules.cooldown) : step].any(axis=0)


@pytest.mark.slow
@given(st.integers(0, 10**6))
@example(245453)  # a round without a budget, and an account at its limit but for rounding
@example(38724)  # Newton's method alone goes to and fro
@settings(max_examples=60, deadline=None)
def test_each_step_is_that_of_the_plain_rule(seed: int) -> None:
    it, steps = case(seed), 70
    seen = played(it, steps)
    lottery, rules, cycle, n = it["lottery"], it["rules"], it["cycle"], len(it["transitions"])
    account = np.zeros(n)
    for t in range(steps):
        budget, (entitled, free) = cycle[t % len(cycle)], standing(seen.pulls, rules, t)
        number = min(budget, int(free.sum()))
        highest = highest_of(cycle, rules.cooldown, budget)
        bound = (lottery.merit, np.asarray(lottery.floor), np.asarray(lottery.cap))
        due = due_of(*bound, entitled[None], budget, highest, np.array([[number]]))[0]
        np.testing.assert_allclose(seen.due[t], due, atol=1e-10)
        odds = wanted_of(it["transitions"], due[None])[0][np.arange(n), seen.states[t]] if it["looks"] else odds_of(due)
        cells = it["explore"][np.arange(n), seen.states[t]]
        least, most = cells[:, 1] * due, 1 - cells[:, 0] * (1 - due)
        odds, owed, e, low, high = (x.tolist() for x in (odds, account, due, least, most))
        pull = 0.2 + 10 / (1 + it["slack"])
        expected = plain_given(odds, owed, e, it["slack"], budget, free.tolist(), pull, low, high)
        np.testing.assert_allclose(seen.given[t], np.array(expected), atol=CLOSE)
        assert abs(seen.given[t].sum() - number) < 1e-9
        assert seen.given[t].min() >= 0
        assert seen.given[t].max() <= 1
        assert seen.pulls[t].sum() == number
        account = account + seen.due[t] - seen.given[t]
        np.testing.assert_allclose(seen.account[t], account, atol=EXACT)
        account = seen.account[t]
    np.testing.assert_array_equal(seen.least, np.minimum(0, seen.account.min(axis=0)))
    np.testing.assert_array_equal(seen.largest, np.maximum(0, seen.account.max(axis=0)))
    if not rules:
        assert np.abs(seen.account).max() <= it["slack"] + 1e-9


def odds_of(exposure: FloatArray) -> FloatArray:
    kept = np.clip(exposure, 1e-3, 1 - 1e-3)
    return np.asarray(kept / (1 - kept))


@given(st.integers(0, 10**6))
@example(358727)
@settings(max_examples=40, deadline=None)
def test_live_choices_are_given_what_the_engine_gives(seed: int) -> None:
    """The same states and the same pulls before it: then a live step has the exposures of the engine's step."""
    it, steps = case(seed), 40
    seen, rules, cycle = played(it, steps), it["rules"], it["cycle"]
    n, names = len(it["transitions"]), tuple(map(str, range(len(it["transitions"]))))
    plan = TimedLottery(it["lottery"], it["transitions"] if it["looks"] else None, it["slack"], it["explore"])
    account, rng = np.zeros(n), np.random.default_rng(1)
    for t in range(steps):
        entitled, free = standing(seen.pulls, rules, t)
        budget = cycle[t % len(cycle)]
        now = Situation.start(names, seen.states[t])
        most = rules.most_due(budget, cycle)
        here = Situation(
            now.names, now.states, now.available, now.last_actions, now.turn, None, t, account, free, entitled, most
        )
        step = plan.play(here, budget, rng)
        np.testing.assert_allclose(step.due, seen.due[t], atol=1e-10)
        np.testing.assert_allclose(step.exposure, seen.given[t], atol=CLOSE)
        account = seen.account[t]


@pytest.mark.parametrize("design", ["exact", "systematic"])
def test_a_learner_that_knows_the_arms_is_the_engines_plan(design: str) -> None:
    arms = np.random.default_rng(3).uniform(0.05, 0.95, (7, 2, 2))
    policy = mf.FairOracle(design=design, slack=1.5, floor=0.1)
    plan = policy.plan(_view(arms, 2))
    seen = history(arms, plan, 2, 200)
    learner = policy.start(budget=2, seed=1, transitions=arms)
    for t in range(200):
        choice = learner.choose(seen.states[t])
        np.testing.assert_allclose(choice.exposure, seen.given[t], atol=CLOSE)
        np.testing.assert_allclose(choice.account, seen.account[t], atol=1e-7)


def _view(arms: FloatArray, budget: int) -> mf.policies.View:
    return mf.policies.View(Counts(np.zeros(arms.shape), np.zeros(arms.shape)), 1, budget, arms)


def test_labels_of_arms_make_no_difference() -> None:
    it = case(7) | {"rules": FREE, "cycle": (2,)}
    order = np.random.default_rng(1).permutation(len(it["transitions"]))
    seen = played(it, 50)
    account, arms = np.zeros(len(order)), it["transitions"][order]
    bound = (np.asarray(x)[order] for x in (it["lottery"].merit, it["lottery"].floor, it["lottery"].cap))
    merit, floor, cap = bound
    lottery = Lottery(merit, "exact", floor, cap)
    for t in range(50):
        now = Situation.start(tuple(map(str, order)), seen.states[t][order])
        here = Situation(
            now.names,
            now.states,
            now.available,
            now.last_actions,
            now.turn,
            None,
            t,
            account,
            now.free,
            now.entitled,
        )
        plan = TimedLottery(lottery, arms if it["looks"] else None, it["slack"], it["explore"][order])
        step = plan.play(here, 2, np.random.default_rng(t))
        np.testing.assert_allclose(step.exposure, seen.given[t][order], atol=CLOSE)
        account = seen.account[t][order]


# ---- parts


@kernel_of_tests
def _odds(p: FloatArray, due: FloatArray, out: FloatArray) -> None:
    for arm in range(len(due)):
        out[arm, 0], out[arm, 1] = odds_by_state(p[arm, 0, 0], p[arm, 0, 1], p[arm, 1, 0], p[arm, 1, 1], due[arm])


@kernel_of_tests
def _explore(explore: FloatArray, visits: FloatArray, good: FloatArray) -> None:
    set_exploration(explore, visits, good)


@kernel_of_tests
def _due(
    due: FloatArray,
    room: FloatArray,
    merit: FloatArray,
    floor: FloatArray,
    cap: FloatArray,
    next_free: IntArray,
    budget: int,
    number: int,
    highest: float,
    started: bool,
) -> None:
    _set_due(due, room[0], room[1], merit, floor, cap, next_free, budget, number, highest, started)


@kernel_of_tests
def _bounds(rows: FloatArray, slack: float) -> None:
    low, high, account, due, floor, ceiling = rows
    set_bounds(low, high, account, due, slack)
    narrow(low, high, floor, ceiling)


@kernel_of_tests
def _draws(exposure: FloatArray, order: IntArray, rng: WordArray, systematic: bool, actions: IntArray) -> None:
    """Draw once for each row of actions."""
    for row in range(len(actions)):
        if systematic:
            _draw_systematically(actions[row], exposure, order, rng)
        else:
            _draw_by_rounding(actions[row], exposure, order, rng)


def degenerate(rng: np.random.Generator, shape: Any) -> FloatArray:
    numbers: FloatArray = rng.random(shape)
    ends = rng.random(shape) < 0.2
    numbers[ends] = rng.integers(0, 2, shape)[ends]
    return numbers


def test_odds_by_state_are_those_of_the_model() -> None:
    rng = np.random.default_rng(1)
    arms, due, out = degenerate(rng, (5000, 2, 2)), degenerate(rng, 5000), np.zeros((5000, 2))
    _odds(arms, due, out)
    np.testing.assert_allclose(out, wanted_odds(arms, due), rtol=EXACT)
    inner = rng.uniform(0.05, 0.95, (200, 2, 2))
    np.testing.assert_allclose(wanted_odds(inner, due[:200]), wanted_of(inner, due[None, :200])[0], rtol=1e-9)


def test_exploration_is_that_of_the_model() -> None:
    rng = np.random.default_rng(2)
    visits = rng.integers(0, 2000, (300, 2, 2)) * (rng.random((300, 2, 2)) < 0.8)
    good = rng.binomial(visits, degenerate(rng, (300, 2, 2)))
    out = np.zeros((2, 2, 300))
    rows = (np.ascontiguousarray(np.moveaxis(each.astype(np.float64), 0, -1)) for each in (visits, good))
    _explore(out, *rows)
    expected = exploration(Counts(visits, good))
    assert 0 < expected.min() < 0.5 < expected.max() <= 1
    np.testing.assert_allclose(np.moveaxis(out, -1, 0), expected, rtol=EXACT)


@given(st.integers(0, 10**6))
@settings(max_examples=200, deadline=None)
def test_what_is_due_is_that_of_the_lottery(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 15))
    merit, entitled = np.exp(rng.normal(0, 3, n)), rng.random(n) < rng.choice([0.3, 1.0])
    cap = rng.uniform(0.1, 1, n) if rng.random() < 0.5 else np.ones(n)
    floor = cap * rng.random(n) * rng.choice([0.0, 0.5])
    budget, highest = int(rng.integers(0, n + 1)), float(rng.choice([1.0, 0.5, 0.25]))
    number = int(rng.integers(0, min(budget, entitled.sum()) + 1))
    due, room = np.zeros(n), np.zeros((2, n))
    _due(due, room, merit, floor, cap, np.where(entitled, 0, NEVER), budget, number, highest, True)
    expected = Lottery(merit, "exact", floor, cap).due(entitled, budget, highest)
    total = expected.sum()
    expected = np.minimum(1.0, expected * (number / total)) if total > 0 else expected
    np.testing.assert_allclose(due, expected, atol=EXACT)
    plain = due_of(merit, floor, cap, entitled[None], budget, highest, np.array([[number]]))[0]
    np.testing.assert_allclose(due, plain, atol=1e-9)
    _due(due, room, merit, floor, cap, np.where(entitled, 0, NEVER), budget, 0, highest, False)
    assert not due.any()


@given(
    account=st.floats(-3, 3),
    due=st.floats(0, 1),
    floor=st.floats(0, 1),
    ceiling=st.floats(0, 1),
    slack=st.sampled_from([0.0, 0.5, 2.0, float("inf")]),
)
@settings(deadline=None)
def test_bounds_keep_accounts_within_the_slack(
    account: float, due: float, floor: float, ceiling: float, slack: float
) -> None:
    floor, ceiling = floor * due, due + ceiling * (1 - due)
    rows = np.array([[0.0], [0.0], [account], [due], [floor], [ceiling]])
    _bounds(rows, slack)
    low, high = rows[:2, 0].tolist()
    assert 0 <= low <= high <= 1
    if abs(account) <= slack:
        assert low <= due + 1e-12
        assert high >= due - 1e-12
        for got in (low, high):
            assert abs(account + due - got) <= slack + EXACT
        assert low == max(floor, 0.0, account + due - slack) or low == pytest.approx(high)
        assert high == min(ceiling, 1.0, account + due + slack) or low == pytest.approx(high)


@pytest.mark.parametrize("systematic", [False, True])
def test_draws_have_the_exposures_that_are_given_and_their_number(systematic: bool) -> None:
    rng, source = np.random.default_rng(4), new_source(np.random.SeedSequence(5))
    times = 60_000
    for n, number in ((1, 1), (2, 1), (5, 2), (9, 8), (30, 7), (6, 0)):
        exposure = np.full(n, number / n)
        for _ in range(200):  # exposures at random with this sum, some of them 0 or 1
            i, j = rng.integers(0, n, 2)
            most = min(1 - exposure[i], exposure[j]) if i != j else 0.0
            moved = most * rng.choice([0.3, 1.0], p=[0.9, 0.1])
            exposure[i], exposure[j] = exposure[i] + moved, exposure[j] - moved
        exposure = np.clip(exposure, 0, 1)
        actions = np.zeros((times, n), np.int64)
        _draws(exposure, rng.permutation(n), source, systematic, actions)
        assert (actions.sum(axis=1) == number).all()
        pulls = actions.sum(axis=0)
        sure = (exposure < 1e-9) | (exposure > 1 - 1e-9)
        np.testing.assert_array_equal(pulls[sure], np.round(exposure[sure] * times))
        error = np.sqrt(times * exposure * (1 - exposure))[~sure]
        assert (np.abs(pulls - times * exposure)[~sure] < 5 * error).all()
        assert (np.abs(pulls - 1.05 * times * exposure)[~sure] > 5 * error).any() or sure.all()  # it would be found


@pytest.mark.parametrize("systematic", [False, True])
def test_exposures_that_are_1_but_for_rounding_are_pulled(systematic: bool) -> None:
    rng, source = np.random.default_rng(7), new_source(np.random.SeedSequence(8))
    for n in (2, 5, 9, 70):
        for _ in range(200):
            exposure = np.asarray(1.0 - rng.integers(0, 4, n) * 2.0**-53, np.float64)
            actions = np.zeros((20, n), np.int64)
            _draws(exposure, rng.permutation(n), source, systematic, actions)
            assert actions.all()


@pytest.mark.parametrize("design", ["exact", "systematic"])
@pytest.mark.parametrize("rules", [FREE, mf.Rules(cooldown=1)])
def test_pulls_have_the_frequencies_that_are_given(design: str, rules: mf.Rules) -> None:
    arms = np.random.default_rng(6).uniform(0.05, 0.95, (8, 2, 2))
    plan = TimedLottery(Lottery(np.exp(np.linspace(-1, 1, 8)), design), arms, 2.0)
    seen = history(arms, plan, (3, 1, 2), 30_000, rules)
    for state in (0, 1):  # a martingale, whatever the states
        here = seen.states == state
        gap = ((seen.pulls - seen.given) * here).sum(axis=0)
        error = np.sqrt((seen.given * (1 - seen.given) * here).sum(axis=0))
        assert (np.abs(gap) < 5 * np.maximum(error, 1)).all()
        swapped = ((seen.pulls - seen.given[:, ::-1]) * here).sum(axis=0)
        assert (np.abs(swapped) > 5 * error).any()  # it would be found


# ---- slack 0


@pytest.mark.parametrize("looks", [False, True])
def test_no_slack_gives_what_is_due(looks: bool) -> None:
    arms = np.random.default_rng(8).uniform(0.05, 0.95, (9, 2, 2))
    lottery = Lottery(np.exp(np.linspace(-2, 2, 9)), "exact", 0.05, 0.8)
    seen = history(arms, TimedLottery(lottery, arms if looks else None, 0.0), 3, 2000)
    np.testing.assert_allclose(seen.given, np.tile(lottery.exposure(3), (2000, 1)), atol=1e-9)
    assert np.abs(seen.account).max() < 1e-9


@pytest.mark.parametrize("design", ["exact", "systematic"])
def test_a_policy_without_slack_is_the_lottery_number_for_number(design: str) -> None:
    arms = mf.datasets.synthetic(n_arms=8, seed=1)
    how: dict[str, Any] = {"budget": 2, "episodes": 5, "horizon": 80, "seed": 3}
    one, other = (
        mf.simulate(arms, p, **how) for p in (mf.MeritFair(design=design), mf.MeritFair(design=design, slack=0))
    )
    np.testing.assert_array_equal(one.visits, other.visits)
    np.testing.assert_array_equal(one.reward, other.reward)
    assert one.settings["policy"] == other.settings["policy"]


# ---- rules, for plans of every kind


def _rank(
    memory: FloatArray, states: IntArray, _pulled: IntArray, step: int, exploring: bool, index: FloatArray
) -> None:
    for arm in range(len(states)):
        index[arm] = memory[arm, 0] + states[arm] * (step % 7) - exploring


def _learn(memory: FloatArray, states: IntArray, pulls: IntArray, following: IntArray) -> None:
    for arm in range(len(states)):
        memory[arm, 0] += 0.1 * (states[arm] - pulls[arm]) + 0.3 * following[arm]


def _sometimes(_memory: FloatArray, step: int) -> float:
    return 1.0 / (1.0 + step)


def plans(n: int, cycle: tuple[int, ...], rng: np.random.Generator) -> Iterator[Plan]:
    """Return plans of every kind."""
    merit, table = rng.random(n) + 0.1, rng.normal(size=(n, 2))
    arms = rng.random((n, 2, 2))
    for design in ("exact", "systematic"):
        yield Lottery(merit, design)
        yield TimedLottery(Lottery(merit, design), arms, 1.0, rng.random((n, 2, 2)))
    if max(cycle) == 1:
        yield Lottery(merit)  # drawn one after another
    yield Rotation(n)
    yield PriorityTable(table)
    yield PriorityTable(np.round(table))  # with ties
    yield PriorityTable.of(table[:, 0])
    yield PriorityTable(table, soft=True)
    yield StepLearner(rng.random((n, 1)), _rank, _learn, _sometimes)
    if len(cycle) == 1:
        groups = np.arange(n) % 2
        quotas = np.bincount(np.arange(cycle[0]) % 2, minlength=2)
        yield PriorityTable(table, groups=groups, quotas=quotas)


@st.composite
def restrictions(draw: st.DrawFn) -> tuple[int, tuple[int, ...], mf.Rules, int]:
    n, cooldown = draw(st.integers(2, 70) | st.integers(2, 8)), draw(st.integers(0, 3))
    cycle = tuple(draw(st.lists(st.integers(0, max(1, n // (1 + cooldown))), min_size=1, max_size=3).filter(any)))
    rules = mf.Rules(cooldown, draw(st.integers(0, 5)), draw(st.booleans()))
    try:
        rules.check(n, cycle)
    except mf.InputError:
        cycle, rules = (1,), mf.Rules(0, rules.warmup, rules.once)
    if not rules and len(cycle) == 1:
        rules = mf.Rules(warmup=1)
    return n, cycle, rules, draw(st.integers(0, 99))


@given(restrictions())
@settings(max_examples=40, deadline=None)
def test_no_rule_is_broken_by_any_kind_of_plan(it: tuple[int, tuple[int, ...], mf.Rules, int]) -> None:
    n, cycle, rules, seed = it
    rng, steps = np.random.default_rng(seed), 30
    arms = rng.random((n, 2, 2))
    for plan in plans(n, cycle, rng):
        seen = history(arms, plan, cycle if len(cycle) > 1 else cycle[0], steps, rules, seed)
        grouped = isinstance(plan, PriorityTable) and plan.groups is not None
        for t in range(steps):
            _, free = standing(seen.pulls, rules, t)
            assert not seen.pulls[t][~free].any(), plan
            number = min(cycle[t % len(cycle)], int(free.sum()))
            if grouped:
                number = sum(min(int(free[k::2].sum()), (cycle[0] + 1 - k) // 2) for k in (0, 1))
            assert seen.pulls[t].sum() == number, plan
        if isinstance(plan, (Lottery, TimedLottery)):
            assert np.abs(seen.given.sum(axis=1) - seen.pulls.sum(axis=1)).max() < 1e-9
            assert np.abs(seen.account.sum(axis=1)).max() < 1e-8  # just as much is due as is given


@pytest.mark.parametrize(
    "policy", ["merit-fair", "fair-oracle", "random", "round-robin", "whittle", "wiql", "soft-fair"]
)
def test_simulations_keep_rules_over_episodes(policy: str) -> None:
    """Rests and pulls go on from one episode to the next, and so do the rounds of a budget."""
    fair = {"design": "exact", "slack": 1.0} if policy in ("merit-fair", "fair-oracle") else {}
    arms, made = mf.datasets.synthetic(n_arms=9, seed=1), mf.policies.create(policy, **fair)
    how: dict[str, Any] = {"seed": 2, "runs": 3}
    run = mf.simulate(arms, made, budget=2, episodes=7, horizon=5, rules=mf.Rules(once=True), **how)
    np.testing.assert_array_equal(run.pulls, 1)
    run = mf.simulate(arms, made, budget=[3, 0, 1], episodes=10, horizon=7, **how)
    assert (run.pulls.sum(axis=1) == 23 * 4 + 3).all()
    run = mf.simulate(arms, made, budget=3, episodes=4, horizon=5, rules=mf.Rules(warmup=12), **how)
    assert (run.pulls.sum(axis=1) == 3 * 8).all()
    assert (run.longest_wait >= 12).all()
    run = mf.simulate(arms, made, budget=3, episodes=20, horizon=5, rules=mf.Rules(cooldown=2), **how)
    np.testing.assert_array_equal(run.longest_wait, 2)  # three of nine in turns: nobody else may be pulled
    assert np.ptp(run.pulls) <= 1


# ---- the same coins


@pytest.mark.parametrize("carry", [False, True])
@pytest.mark.parametrize(("n_arms", "horizon"), [(1, 1), (1, 200), (5, 64), (5, 65), (70, 200)])
def test_if_all_are_pulled_a_timed_lottery_has_the_outcome_of_every_plan(
    n_arms: int, horizon: int, carry: bool
) -> None:
    arms = mf.datasets.synthetic(n_arms=n_arms, seed=3)
    how: dict[str, Any] = {"budget": n_arms, "episodes": 3, "horizon": horizon, "carry_states": carry, "seed": 4}
    first = mf.simulate(arms, mf.Random(), **how)
    merit = np.linspace(1, 2, n_arms)
    own = [as_policy(lambda view, d=d: TimedLottery(Lottery(merit, d), arms.transitions, 1.0)) for d in DESIGNS]
    settings: list[dict[str, Any]] = [{"design": d, "slack": slack} for d in DESIGNS for slack in (0.5, np.inf)]
    for policy in (*own, *(made(**each) for each in settings for made in (mf.MeritFair, mf.FairOracle))):
        run = mf.simulate(arms, policy, **how)
        for name in ("reward", "visits", "good", "longest_wait", "coverage_gap"):
            np.testing.assert_array_equal(vars(run)[name], vars(first)[name])


DESIGNS = ("exact", "systematic")


def test_if_nobody_may_be_pulled_every_plan_has_the_outcome_of_none() -> None:
    arms = mf.datasets.synthetic(n_arms=40, seed=3)
    how: dict[str, Any] = {"budget": 4, "episodes": 3, "horizon": 70, "seed": 4}
    none = mf.simulate(arms, mf.NoAction(), **how)
    for made in (mf.FairOracle(design="exact", slack=2.0), mf.MeritFair(design="exact", slack=2.0), mf.Whittle()):
        run = mf.simulate(arms, made, rules=mf.Rules(warmup=210), **how)
        np.testing.assert_array_equal(run.reward, none.reward)
        np.testing.assert_array_equal(run.visits, none.visits)
        assert not np.array_equal(mf.simulate(arms, made, rules=mf.Rules(warmup=209), **how).reward, none.reward)
