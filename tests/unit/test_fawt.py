"""Pulls in every window: the stages against trying everything, and the policies that use them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import meritfair as mf
from meritfair.engine.aged_values import learn_relative, rank_by_values
from meritfair.engine.q_learning import explore_less
from meritfair.engine.windows import new_windows, rank_by_table_in_windows
from meritfair.policies import View
from meritfair.policies.fawt import FaWT
from meritfair.policies.fawt_q import FaWTQ
from meritfair.policies.whittle import Whittle
from reference import windows as reference

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Wish = Callable[[int, Bools], npt.NDArray[Any]]  # the index of each arm, by step and last pulls

fawt: Any = FaWT  # takes settings of any type
fawt_q: Any = FaWTQ

LEAVES_NO_CHOICE = [(1, 1, 1, 1), (1, 1, 3, 3), (4, 4, 2, 2), (5, 1, 1, 5), (5, 2, 2, 5), (6, 4, 2, 3), (9, 3, 4, 12)]
LEAVES_SOME = [(2, 1, 1, 5), (3, 3, 2, 4), (7, 3, 3, 11), (20, 4, 2, 15), (12, 5, 1, 3), (10, 1, 3, 45), (30, 7, 5, 30)]


def wishes(n_arms: int, seed: int) -> dict[str, Wish]:
    """Return indices that change at random, stay the same, favour one arm, or whoever was pulled last or not."""
    rng = np.random.default_rng(seed)
    fixed, best = rng.normal(size=n_arms), (np.arange(n_arms) == n_arms // 2).astype(float)
    return {
        "random": lambda _, __: rng.normal(size=n_arms),
        "few values": lambda _, __: rng.integers(3, size=n_arms).astype(float),
        "constant": lambda _, __: fixed,
        "level": lambda _, __: np.zeros(n_arms),
        "one is best": lambda _, __: best,
        "pulled last": lambda _, pulled: pulled + 0.0,
        "turns over": lambda step, _: fixed * (-1) ** (step // 7),
    }


class Drive:
    """The ranking of arms, driven by hand: at each step the K with the largest index are pulled, ties at random."""

    def __init__(self, n_arms: int, budget: int, least: int, window: int, seed: int = 0) -> None:
        self.budget, self.step, self.rng = budget, 0, np.random.default_rng(seed)
        number = np.array(float(self.rng.integers(2**53)))
        self.memory = np.concatenate(
            [np.zeros((n_arms, 2)), new_windows(n_arms, budget, least, window, number)], axis=-1
        )
        self.pulled = np.zeros(n_arms, np.bool_)

    def rank(self, wish: Floats) -> Floats:
        index = np.full(len(self.memory), np.nan)
        self.memory[:, 0] = wish
        states, pulled = np.zeros(len(wish), np.int64), self.pulled.astype(np.int64)
        rank_by_table_in_windows(self.memory, states, pulled, self.step, False, index)
        return index

    def pull(self, wish: Floats, available: Bools | None = None) -> Bools:
        index = self.rank(wish)
        if available is not None:
            index[~available] = -np.inf
        order = np.lexsort((self.rng.random(len(index)), -index))
        self.pulled = np.isin(np.arange(len(index)), order[: self.budget])
        self.step += 1
        return self.pulled

    def run(self, wish: Wish, steps: int) -> Bools:
        return np.stack([self.pull(wish(step, self.pulled)) for step in range(steps)])


# ---- every window is kept


@pytest.mark.parametrize(("n_arms", "budget", "least", "window"), LEAVES_NO_CHOICE + LEAVES_SOME)
def test_every_window_has_its_pulls(n_arms: int, budget: int, least: int, window: int) -> None:
    for kind, wish in wishes(n_arms, 1).items():
        pulls = Drive(n_arms, budget, least, window).run(wish, 400)
        assert (pulls.sum(axis=1) == budget).all(), kind
        assert reference.fewest_in_a_window(pulls, window) >= least, kind
        if n_arms * least == budget * window:
            per_window = np.lib.stride_tricks.sliding_window_view(pulls, window, axis=0).sum(axis=-1)
            assert (per_window == least).all(), kind


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n_arms", "budget", "least", "window"), [(100, 20, 2, 10), (100, 20, 2, 15), (21, 5, 3, 13), (40, 1, 1, 40)]
)
def test_every_window_of_a_long_run_has_its_pulls(n_arms: int, budget: int, least: int, window: int) -> None:
    rng = np.random.default_rng(3)
    table = rng.normal(size=(n_arms, 2))
    drive = Drive(n_arms, budget, least, window)
    pulls = drive.run(lambda _, __: np.where(rng.random(n_arms) < 0.5, table[:, 0], table[:, 1]), 10_000)
    assert reference.fewest_in_a_window(pulls, window) == least  # the arm that is worth least gets no more


@pytest.mark.slow
@pytest.mark.parametrize(
    ("policy", "horizon"),
    [(FaWTQ(least=2, window=10), 1), (FaWT(least=1, window=7), 50)],
)
def test_every_window_of_a_long_programme_has_its_pulls(policy: FaWT | FaWTQ, horizon: int) -> None:
    arms, rng = mf.datasets.synthetic(n_arms=20, seed=1), np.random.default_rng(2)
    learner = policy.start(20, 4, seed=3, horizon=horizon, transitions=arms.transitions)
    states, pulls = np.zeros(20, np.int64), np.zeros((3001, 20), np.int64)
    for step in range(1, 3001):
        actions = learner.choose(states).actions
        next_states = (rng.random(20) < arms.transitions[np.arange(20), states, actions]).astype(np.int64)
        learner.observe(states, actions, next_states)
        states, pulls[step] = next_states, actions
    total = pulls.cumsum(axis=0)
    assert policy.window is not None
    assert (total[policy.window :] - total[: -policy.window]).min() == policy.least  # and no window has fewer


def test_without_windows_or_with_windows_looked_at_one_by_one_some_are_missed() -> None:
    n_arms, budget, least, window = 20, 4, 2, 11
    fixed = np.arange(n_arms) + 0.0
    best = np.tile(fixed >= n_arms - budget, (100, 1))
    assert reference.fewest_in_a_window(best, window) == 0
    histories, pulls = reference.first_histories(n_arms, least), []
    for now in range(100):  # pulls an arm for its window's sake only at its own deadline
        state = reference.state_of(histories, least, window, now)
        index = [np.inf if due[0] <= 0 else here for due, here in zip(state, fixed, strict=True)]
        chosen = sorted(range(n_arms), key=lambda arm, index=index: -index[arm])[:budget]  # type: ignore[misc]
        for arm in chosen:
            histories[arm].append(now)
        pulls.append(np.isin(np.arange(n_arms), chosen))
    assert reference.fewest_in_a_window(np.array(pulls), window) < least
    assert reference.fewest_in_a_window(Drive(20, 4, 2, 11).run(lambda _, __: fixed, 100), window) == least


@pytest.mark.slow
@pytest.mark.parametrize("horizon", [1, 7, 100])
@pytest.mark.parametrize(("least", "window"), [(1, 5), (1, 8), (2, 10), (3, 17)])
def test_windows_go_on_across_episodes_in_the_engine(least: int, window: int, horizon: int) -> None:
    arms = mf.datasets.synthetic(n_arms=20, seed=1)
    learners = [FaWTQ(least, window, update=update) for update in ("relative", "li", "published", "mended")]
    for policy in (FaWT(least, window), FaWT(least, window, estimate="mean"), *learners):
        run = mf.simulate(arms, policy, budget=4, episodes=-(-300 // horizon), horizon=horizon, runs=2, seed=1)
        assert run.longest_wait.max() <= window - least
        if 20 * least == 4 * window:
            assert np.ptp(run.pulls) <= least


# ---- and the arms pulled are the best that windows allow


@pytest.mark.parametrize(
    ("n_arms", "budget", "least", "window"), [(3, 1, 1, 3), (4, 1, 1, 5), (3, 1, 2, 6), (4, 2, 2, 4), (5, 2, 1, 4)]
)
def test_reference_knows_what_can_be_kept(n_arms: int, budget: int, least: int, window: int) -> None:
    reached, good = reference.all_that_can_be_kept(n_arms, budget, least, window)
    assert good == {state for state in reached if reference.can_be_kept(state, budget, window)}
    assert good < reached  # there are ways to come to owe too much


@pytest.mark.parametrize(
    ("n_arms", "budget", "least", "window"),
    [(5, 2, 1, 3), (5, 2, 1, 4), (6, 2, 2, 6), (6, 2, 2, 8), (7, 3, 2, 5), (6, 3, 3, 7), (4, 1, 2, 9), (5, 4, 2, 3)],
)
def test_no_set_of_arms_that_keeps_the_windows_is_better(n_arms: int, budget: int, least: int, window: int) -> None:
    every_wish, bound = wishes(n_arms, 5), 0
    for kind in ("random", "few values", "turns over", "level"):
        drive, histories = Drive(n_arms, budget, least, window), reference.first_histories(n_arms, least)
        for now in range(40):
            state, wish = reference.state_of(histories, least, window, now), every_wish[kind](now, drive.pulled)
            pulled = set(np.flatnonzero(drive.pull(wish)).tolist())
            most, sets = reference.best_sets(state, wish.tolist(), budget, window)
            assert pulled in sets
            bound += most < np.sort(wish)[-budget:].sum() - 1e-9
            for arm in pulled:
                histories[arm].append(now)
    assert bound > 20  # windows did get in the way


@pytest.mark.parametrize(("n_arms", "budget", "least", "window"), [(30, 7, 3, 14), (40, 4, 1, 10), (25, 12, 6, 13)])
def test_stages_pull_the_arms_of_their_twin(n_arms: int, budget: int, least: int, window: int) -> None:
    rng = np.random.default_rng(8)
    drive, histories = Drive(n_arms, budget, least, window), reference.first_histories(n_arms, least)
    trend, bound = rng.normal(size=n_arms), 0
    for now in range(150):
        wish = trend + 0.3 * rng.normal(size=n_arms)
        expected = reference.best_set(reference.state_of(histories, least, window, now), wish.tolist(), budget)
        assert set(np.flatnonzero(drive.pull(wish)).tolist()) == expected
        bound += expected != set(np.argsort(-wish)[:budget].tolist())
        for arm in expected:
            histories[arm].append(now)
    assert bound > 50


def test_a_window_that_never_ends_is_the_whittle_index() -> None:
    arms = mf.datasets.synthetic(n_arms=10, seed=3)
    how: dict[str, Any] = {"budget": 3, "episodes": 4, "horizon": 50, "runs": 2, "seed": 1}
    alone, windows = mf.simulate(arms, Whittle(), **how), mf.simulate(arms, FaWT(window=10**9), **how)
    np.testing.assert_array_equal(windows.visits, alone.visits)
    np.testing.assert_array_equal(windows.reward, alone.reward)


def test_longer_windows_cost_less_reward() -> None:
    arms = mf.datasets.synthetic(n_arms=20, seed=1)
    policies = [mf.policies.create("round-robin"), FaWT(2, 10), FaWT(2, 15), FaWT(2, 50), Whittle()]
    how: dict[str, Any] = {"budget": 4, "episodes": 10, "horizon": 200, "runs": 4, "seed": 1}
    reward = [mf.simulate(arms, policy, **how).reward.sum() for policy in policies]
    assert np.diff(reward).min() > 0.01 * reward[0]


# ---- ties


def test_ties_are_left_to_whoever_draws_where_indices_can_say_so() -> None:
    drive = Drive(6, 2, 1, 3)  # all windows are full: two of six must be pulled at once, and no place is left
    index = drive.rank(np.zeros(6))
    assert len(set(index.tolist())) == 1
    drive = Drive(6, 2, 1, 3)
    index = drive.rank(np.array([0.0, 0.0, 5.0, 0.0, 0.0, 0.0]))
    assert index[2] == np.inf
    assert len(set(index.tolist()) - {np.inf}) == 1


def competing(n_arms: int, seed: int) -> Floats:
    """Return a ranking at step 10 where all but the last six arms are level and due by step 11, the six later."""
    drive = Drive(n_arms, 3, 1, 7, seed)
    wish = np.where(np.arange(n_arms) < n_arms - 6, 0.0, 1.0)
    drive.step = 10
    drive.memory[:, 2 + 4] = 0  # not new
    drive.memory[:, 2 + 5] = drive.memory[:, 2 + 7] = np.where(wish == 1.0, 9, 4)  # the last pull
    return drive.rank(wish)


def test_ties_that_indices_cannot_say_are_drawn_fairly() -> None:
    draws, level = 4000, 5
    picked = np.array([np.isinf(competing(level + 6, seed)) for seed in range(draws)])
    assert (picked.sum(axis=1) == 2).all()  # of the five, three can be pulled at step 11
    assert not picked[:, level:].any()
    share = picked[:, :level].mean(axis=0)
    # Each of 5 is picked with a chance of 2/5: a band for 5 comparisons at an overall level of 1e-4.
    band = 4.3 * np.sqrt(0.4 * 0.6 / draws)
    assert np.abs(share - 0.4).max() < band
    assert band < 0.1  # who always picked the first ones would be found
    pairs = {tuple(np.flatnonzero(row)) for row in picked}
    assert len(pairs) == 10  # no two arms exclude each other


def test_alike_arms_are_pulled_alike_wherever_they_stand() -> None:
    alike = mf.Arms(np.tile([[0.3, 0.6], [0.5, 0.8]], (9, 1, 1)))
    for policy in (FaWT(2, 8), FaWTQ(2, 8), FaWTQ(2, 8, update="li")):
        run = mf.simulate(alike, policy, budget=3, episodes=4, horizon=50, runs=300, seed=4)
        gap = (run.pulls.mean(axis=0) - run.pulls.mean()) / (run.pulls.std(axis=0) / np.sqrt(run.runs))
        assert np.abs(gap).max() < 4.7  # 27 comparisons at an overall level of 1e-4


def test_a_ranking_is_the_same_each_time_and_another_with_another_rng() -> None:
    same = [competing(11, 3) for _ in range(5)]
    assert all(np.array_equal(each, same[0]) for each in same)
    assert any(not np.array_equal(competing(11, seed), same[0]) for seed in range(10))


# ---- arms that cannot be pulled, that join and leave


def test_an_arm_that_could_not_be_pulled_is_next() -> None:
    drive, available = Drive(6, 2, 2, 8), np.ones(6, np.bool_)
    wish = np.arange(6.0)
    available[0] = False
    pulls = np.array([drive.pull(wish, available) for _ in range(40)])
    assert reference.fewest_in_a_window(pulls[:, 1:], 8) >= 2
    more = drive.run(lambda _, __: wish, 40)
    assert more[0, 0]
    assert more[1, 0]
    assert reference.fewest_in_a_window(more, 8) >= 2


def joined(drive: Drive, n_arms: int, budget: int, least: int, window: int) -> Drive:
    """Let arms join as a learner does: with the last rows of a plan for everyone."""
    more = Drive(n_arms, budget, least, window).memory[len(drive.memory) :]
    drive.memory = np.concatenate([drive.memory, more])
    drive.pulled = np.append(drive.pulled, np.zeros(len(more), np.bool_))
    return drive


def test_an_arm_that_joins_has_its_windows_from_then_on() -> None:
    drive = Drive(5, 2, 2, 9)
    drive.run(lambda _, __: np.arange(5.0), 30)
    pulls = joined(drive, 6, 2, 2, 9).run(lambda _, __: np.array([1.0, 2, 3, 4, 5, 0]), 60)
    assert reference.fewest_in_a_window(pulls, 9) == 2
    np.testing.assert_array_equal(np.flatnonzero(pulls[:9, 5]), [7, 8])  # and not before it must be
    drive.memory, drive.pulled = drive.memory[2:].copy(), drive.pulled[2:]
    assert reference.fewest_in_a_window(drive.run(lambda _, __: np.array([3.0, 4, 5, 0]), 60), 9) >= 2


def test_a_window_that_grows_when_arms_join_grows_for_all() -> None:
    drive = Drive(5, 1, 1, 5)
    drive.run(lambda _, __: np.arange(5.0), 30)
    pulls = joined(drive, 8, 1, 1, 8).run(lambda _, __: np.arange(8.0), 80)  # no choice is left, before or after
    assert reference.fewest_in_a_window(pulls, 8) == 1


# ---- learning


@pytest.mark.parametrize(
    ("update", "twin"),
    [
        ("relative", reference.Values),
        ("li", reference.LiValues),
        ("published", reference.PublishedValues),
        ("mended", reference.MendedValues),
    ],
)
def test_values_and_indices_are_those_of_their_twin(update: str, twin: type[reference.Values]) -> None:
    n_arms, ages, discount, rng = 6, 4, 0.7, np.random.default_rng(2)
    plan = FaWTQ(1, 10**6, discount, ages, update).plan(view(n_arms, 2))
    memory, learn = plan.memory.copy(), plan.learn
    assert learn is not None
    twins = [twin(ages, discount) for _ in range(n_arms)]
    actions, states, index = np.zeros(n_arms, np.int64), rng.integers(2, size=n_arms), np.zeros(n_arms)
    for step in range(400):
        plan.rank(memory, states, actions, step, False, index)
        np.testing.assert_allclose(index, [each.index(state) for each, state in zip(twins, states, strict=True)])
        actions, next_states = (rng.random(n_arms) < 0.3).astype(np.int64), rng.integers(2, size=n_arms)
        learn(memory, states, actions, next_states)
        for arm, each in enumerate(twins):
            each.learn(int(states[arm]), int(actions[arm]), int(next_states[arm]))
        states = next_states
    cells = memory[:, 5 : 5 + 8 * ages].reshape(n_arms, 2, ages, 2, 2)
    for arm, each in enumerate(twins):
        assert len(each.value) == 4 * ages
        for (state, age, action), value in each.value.items():
            assert cells[arm, state, age, 1, action] == each.seen.get((state, age, action), 0)
            assert cells[arm, state, age, 0, action] == pytest.approx(value)


def test_values_of_li_and_varakantham_are_a_mean_of_the_last_few_visits() -> None:
    plan = FaWTQ(1, 40, discount=0.0, ages=1, update="li").plan(view(1, 1))
    memory, one, none = plan.memory.copy(), np.ones(1, np.int64), np.zeros(1, np.int64)
    assert plan.learn is not None
    for next_states in (one, one, none):
        plan.learn(memory, none, one, next_states)
    assert memory[0, 6] == pytest.approx(0.375)  # ((0 + 1) / 2 + 1) / 2, and half of that


def test_as_published_a_pull_forgets_all_pulls_before_it_unless_the_arm_was_just_pulled() -> None:
    values = {}
    for update in ("published", "mended"):
        plan = FaWTQ(1, 40, ages=3, update=update).plan(view(1, 1))
        memory, one = plan.memory.copy(), np.ones(1, np.int64)
        assert plan.learn is not None
        for _ in range(9):
            memory[0, 2] = 1  # its age: it was pulled two steps ago
            memory[0, 5 : 5 + 4 * 3] = 0.0  # nothing to come in the bad state
            plan.learn(memory, one, one, np.zeros(1, np.int64))
        values[update] = memory[0, 5 + 4 * 3 + 4 + 1]
    assert values == {"published": 1.0, "mended": pytest.approx(0.9)}  # a rate of 1, or of 1/2, 1/3, ... from 0


@pytest.mark.parametrize("discount", [0.0, 0.9, 1.0])
def test_values_stay_bounded(discount: float) -> None:
    plan, rng = FaWTQ(discount=discount).plan(view(5, 1)), np.random.default_rng(1)
    memory, states, actions = plan.memory.copy(), np.ones(5, np.int64), np.zeros(5, np.int64)
    good = np.array([0.1, 0.5, 0.9, 0.99, 1.0])  # the last arm is always good: its rewards add up to 20,000
    for step in range(20_000):
        rank_by_values(memory, states, actions, step, True, np.zeros(5))
        actions, next_states = np.eye(5, dtype=np.int64)[rng.integers(5)], (rng.random(5) < good).astype(np.int64)
        learn_relative(memory, states, actions, next_states)
        states = next_states
    assert np.abs(memory[:, 5:45].reshape(5, 10, 4)[..., :2]).max() < 5


def test_what_is_learned_of_some_arms_leaves_the_others() -> None:
    plan = FaWTQ().plan(view(5, 2))
    memory = plan.memory.copy()
    rank_by_values(memory, np.zeros(5, np.int64), np.zeros(5, np.int64), 0, False, np.zeros(5))
    one, rows = np.ones(2, np.int64), memory[[1, 3]]
    before = memory.copy()
    learn_relative(rows, one, one, one)
    memory[[1, 3]] = rows
    changed = np.any(memory != before, axis=1)
    np.testing.assert_array_equal(changed, [False, True, False, True, False])


def test_exploring_makes_all_level_but_for_the_windows() -> None:
    assert explore_less(np.zeros((5, 3)), 0) == 1.0
    assert explore_less(np.zeros((5, 3)), 15) == 0.25
    plan = FaWTQ(1, 4).plan(view(4, 1))
    memory, index, nobody = plan.memory.copy(), np.zeros(4), np.zeros(4, np.int64)
    memory[:, 5:13] = np.arange(32).reshape(4, 8)  # some values
    rank_by_values(memory, nobody, nobody, 0, True, index)
    assert len(set(index.tolist())) == 1
    plan = FaWTQ(1, 40).plan(view(4, 1))
    memory = plan.memory.copy()
    memory[:, 5:9] = [[0, 1, 1, 1], [0, 3, 1, 1], [2, 0, 1, 1], [0, 0, 1, 1]]
    rank_by_values(memory, nobody, nobody, 0, False, index)
    np.testing.assert_array_equal(index, [1, 3, -2, 0])
    rank_by_values(memory, nobody, nobody, 1, True, index)
    np.testing.assert_array_equal(index, 0)


def test_fawt_q_learns_whom_to_pull() -> None:
    arms = mf.datasets.synthetic(n_arms=20, seed=1)
    how: dict[str, Any] = {"budget": 4, "episodes": 20, "horizon": 200, "runs": 4, "seed": 1}
    reward = {
        name: mf.simulate(arms, policy, **how).reward.sum()
        for name, policy in {
            "none": mf.policies.create("none"),
            "round-robin": mf.policies.create("round-robin"),
            "learns": FaWTQ(window=50),
            "learns as li": FaWTQ(window=50, update="li"),
            "estimates": FaWT(window=50, estimate="mean"),
            "knows": FaWT(window=50),
        }.items()
    }
    floor, most = max(reward["none"], reward["round-robin"]), reward["knows"]
    assert floor + 0.6 * (most - floor) < reward["learns"] < most
    assert floor + 0.3 * (most - floor) < reward["learns as li"] < reward["learns"]
    assert floor + 0.8 * (most - floor) < reward["estimates"] < most * 1.01


# ---- settings and plans


def view(n_arms: int, budget: int, runs: tuple[int, ...] = (), seed: int = 0) -> View:
    rng = np.random.default_rng(seed)
    nothing = np.zeros((*runs, n_arms, 2, 2), np.int64)
    rngs = tuple(np.random.default_rng(run) for run in range(int(np.prod(runs))))
    return View(mf.Counts(nothing, nothing), 1, budget, rng.random((*runs, n_arms, 2, 2)), rngs)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: fawt(least=0), "least must be at least 1, got 0"),
        (lambda: fawt(least=1.5), "least must be a whole number, got 1.5"),
        (lambda: fawt(window=0), "window must be at least 1, got 0"),
        (lambda: fawt(least=3, window=2), "window must be at least the 3 pulls that each arm is to have in it, got 2"),
        (lambda: fawt(discount=1.1), "discount must lie between 0 and 1"),
        (lambda: fawt(estimate="true"), "estimate must be one of known, optimistic"),
        (lambda: fawt(delta=0), "delta must lie strictly between 0 and 1"),
        (lambda: fawt_q(least=0), "least must be at least 1, got 0"),
        (lambda: fawt_q(least=3, window=2), "window must be at least the 3 pulls"),
        (lambda: fawt_q(discount=1.1), "discount must lie between 0 and 1"),
        (lambda: fawt_q(discount=-0.1), "discount must lie between 0 and 1"),
        (lambda: fawt_q(ages=0), "ages must be at least 1, got 0"),
        (lambda: fawt_q(update="lie"), "update must be one of relative, li, got 'lie', did you mean 'li'"),
        (lambda: fawt_q(update=None), "update must be one of relative, li, got None"),
        (
            lambda: FaWT(2, 9).plan(view(20, 4)),
            "window must be at least 10 for 20 arms with 2 pulls each and a budget of 4, got 9",
        ),
        (
            lambda: FaWTQ(1, 6).plan(view(20, 3)),
            "window must be at least 7 for 20 arms with 1 pull each and a budget of 3, got 6",
        ),
    ],
)
def test_mistakes_are_named(call: Any, message: str) -> None:
    with pytest.raises(mf.InputError, match=message):
        call()


@pytest.mark.parametrize(
    ("n_arms", "budget", "least", "window"),
    [(20, 4, 2, 15), (20, 3, 2, 20), (5, 5, 40, 60), (1, 1, 1, 15)],
)
def test_without_a_window_one_is_chosen_that_can_be_kept(n_arms: int, budget: int, least: int, window: int) -> None:
    chosen = FaWT(least).plan(view(n_arms, budget)).memory[0, 2 + 2]
    assert chosen == window
    assert n_arms * least <= budget * chosen


def test_plans_say_who_knows_what() -> None:
    assert FaWT().oracle
    assert FaWT().plans_once
    assert not FaWT(estimate="mean").oracle
    assert not FaWT(estimate="mean").plans_once
    assert not FaWTQ().oracle
    assert FaWTQ().plans_once
    assert FaWT(3, 9).settings() == {"least": 3, "window": 9, "discount": 1.0, "estimate": "known", "delta": 0.01}
    assert FaWTQ().settings() == {"least": 2, "window": None, "discount": 0.5, "ages": 5, "update": "relative"}
    assert FaWTQ(update="li").settings() == {**FaWTQ().settings(), "discount": 0.95, "update": "li"}
    assert FaWTQ(update="li", discount=0.5).discount == 0.5
    assert mf.policies.create("fawt-q", update="li") == FaWTQ(update="li")


@pytest.mark.parametrize("policy", [FaWT(), FaWT(estimate="optimistic"), FaWTQ(), FaWTQ(update="li")])
def test_relabelled_arms_relabel_the_plan(policy: FaWT | FaWTQ) -> None:
    order = np.random.default_rng(1).permutation(8)
    before, after = view(8, 3, (2,)), view(8, 3, (2,))
    relabelled = View(before.counts, 1, 3, before.true_transitions[:, order], after.rngs)
    np.testing.assert_array_equal(policy.plan(relabelled).memory, policy.plan(before).memory[:, order])


@pytest.mark.parametrize("policy", [FaWT(), FaWTQ()])
def test_runs_planned_together_are_planned_as_if_alone(policy: FaWT | FaWTQ) -> None:
    together = view(6, 2, (2, 3))
    memory = policy.plan(together).memory
    for run, place in enumerate(np.ndindex(2, 3)):
        alone = view(6, 2)
        one = View(alone.counts, 1, 2, together.true_transitions[place], (np.random.default_rng(run),))
        np.testing.assert_array_equal(memory[place], policy.plan(one).memory)
    assert len(np.unique(memory[..., -8])) == 6  # a number of their own


def test_a_plan_without_rngs_takes_its_own() -> None:
    seen = view(4, 1)
    plans = [FaWT().plan(View(seen.counts, 1, 1, seen.true_transitions)).memory for _ in range(2)]
    assert plans[0].shape == plans[1].shape
    assert not np.array_equal(plans[0], plans[1])


def test_a_new_plan_takes_over_the_windows_and_forgets_the_index() -> None:
    policy, first = FaWT(estimate="mean"), view(5, 2)
    memory = np.arange(5 * 13.0).reshape(5, 13)
    seen = mf.Counts(np.full((5, 2, 2), 100), np.random.default_rng(0).integers(101, size=(5, 2, 2)))
    plan = policy.plan(View(seen, 2, 2, first.true_transitions, first.rngs, memory=memory))
    np.testing.assert_array_equal(plan.memory[:, 2:], memory[:, 2:])
    np.testing.assert_array_equal(
        plan.memory[:, :2], policy.plan(View(seen, 2, 2, first.true_transitions)).memory[:, :2]
    )
    assert not np.array_equal(plan.memory[:, :2], memory[:, :2])


def test_outcomes_from_before_the_first_choice_are_learned_and_leave_settings_alone() -> None:
    learner = FaWTQ(discount=0.7).start(n_arms=3, budget=1, seed=1)
    learner.observe([0, 1, 0], [1, 0, 0], [1, 1, 0])
    told = learner.to_dict()["arms"]["memory"]
    fresh = FaWTQ(discount=0.7).start(n_arms=3, budget=1, seed=1)
    fresh.choose([0, 1, 0])
    untouched = fresh.to_dict()["arms"]["memory"]
    assert [row[:2] for row in told] == [row[:2] for row in untouched]  # how many ages, and the discount
    assert told != untouched
    assert learner.counts.visits.sum() == 3
