"""The Gymnasium environments: what Gymnasium demands of any, what is refused, and their law.

The law is tested on the compiled vector environment; the single one does the same, number for number. Seeds are
fixed; the statistical tests together reject a correct program with probability below 1e-4, and find planted errors.
"""

from __future__ import annotations

import copy
import json
import pickle
import subprocess
import sys
from importlib import import_module
from itertools import combinations, product
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec
from gymnasium.spaces import MultiBinary
from gymnasium.utils.env_checker import check_env, data_equivalence
from gymnasium.utils.env_match import check_environments_match
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import meritfair as mf
from meritfair.core.arrays import AnyArray
from meritfair.gym import ENV_ID, Pulls, RestlessBanditEnv, RestlessBanditVectorEnv, register

ALPHA = 1e-4
COMPARISONS = 10
LEVEL = ALPHA / COMPARISONS

ARMS = mf.datasets.synthetic(n_arms=5, seed=1)
PROBLEM: dict[str, Any] = {"arms": ARMS, "budget": 2, "horizon": 6}


def make(**changes: Any) -> RestlessBanditEnv:
    return RestlessBanditEnv(**{**PROBLEM, **changes})


def make_vec(mode: str = "vector_entry_point", num_envs: int = 4, **changes: Any) -> Any:
    return gymnasium.make_vec(ENV_ID, num_envs, mode, **{**PROBLEM, **changes})


def play(env: Any, steps: int, seed: Any = 0) -> list[Any]:
    """Return all that an environment of either kind returns, under a random agent that keeps to the mask."""
    env.action_space.seed(1)
    seen: list[Any] = [env.reset(seed=seed)]
    for _ in range(steps):
        seen.append(env.step(env.action_space.sample(mask=seen[-1][-1]["action_mask"])))
        if seen[-1][3] is True:
            seen.append(env.reset())
    return seen


def chi_square(observed: AnyArray, expected: AnyArray) -> float:
    return float(stats.chi2.sf(((observed - expected) ** 2 / expected).sum(), len(expected) - 1))


# ---- the space of actions


@given(st.integers(1, 8), st.floats(0, 1), st.lists(st.integers(1, 3), max_size=2), st.floats(0, 1), st.integers(0, 99))
@settings(max_examples=80)
def test_a_sample_spends_the_budget_on_arms_that_can_be_pulled(
    n_arms: int, part: float, rows: list[int], available: float, seed: int
) -> None:
    budget = 1 + int(part * (n_arms - 1))
    space = Pulls((*rows, n_arms), budget, seed)
    mask = (np.random.default_rng(seed).random(space.shape) < available).astype(np.int8)
    sample, masked = space.sample(), space.sample(mask=mask)
    assert sample.dtype == masked.dtype == np.int8
    assert sample in space
    assert masked in space
    assert (sample.sum(axis=-1) == budget).all()
    assert (masked <= mask).all()
    assert (masked.sum(axis=-1) == np.minimum(budget, mask.sum(axis=-1))).all()


@pytest.mark.parametrize("mask", [[1, 1, 1, 1, 1, 1], [1, 0, 1, 1, 0, 1]])
def test_samples_are_uniform_over_sets(mask: list[int]) -> None:
    draws, budget, able = 40_000, 2, np.flatnonzero(mask)
    space = Pulls((draws, 6), budget, seed=1)
    codes = space.sample(mask=np.tile(np.array(mask, np.int8), (draws, 1))) @ (1 << np.arange(6))
    sets = [sum(1 << arm for arm in chosen) for chosen in combinations(able, budget)]
    observed = np.array([(codes == code).sum() for code in sets])
    assert observed.sum() == draws
    assert chi_square(observed, np.full(len(sets), draws / len(sets))) > LEVEL
    planted = 1 + 0.3 * (np.arange(len(sets)) == 0)
    assert chi_square(observed, draws * planted / planted.sum()) < LEVEL


@pytest.mark.parametrize(
    ("action", "inside"),
    [
        ([1, 1, 0], True),
        ([1, 0, 0], True),
        ([0, 0, 0], True),
        ([True, False, True], True),
        ([1.0, 0.0, 1.0], True),
        ([1, 1, 1], False),
        ([2, 0, 0], False),
        ([-1, 1, 1], False),
        ([0.5, 0, 0], False),
        ([1, 0], False),
        (1, False),
        (None, False),
        ("110", False),
    ],
)
def test_actions_are_of_the_space_or_not(action: Any, inside: bool) -> None:
    space = Pulls(3, 2)
    assert (action in space) is inside
    assert ((np.array(action) if isinstance(action, list) else action) in space) is inside


def test_a_batch_of_actions_has_the_budget_in_each_row() -> None:
    space = batch_space(Pulls(4, 2, seed=3), 3)
    assert space == Pulls((3, 4), 2)
    assert (space.sample().sum(axis=1) == 2).all()
    assert np.array([[1, 1, 0, 0]] * 3) in space
    assert np.array([[1, 1, 1, 0], [0] * 4, [0] * 4]) not in space
    again = batch_space(Pulls(4, 2, seed=3), 3)
    np.testing.assert_array_equal(batch_space(Pulls(4, 2, seed=3), 3).sample(), again.sample())


def test_spaces_are_equal_only_with_the_same_budget() -> None:
    assert Pulls(4, 2) == Pulls(4, 2)
    assert Pulls(4, 2) != Pulls(4, 3)
    assert Pulls(4, 2) != Pulls(5, 2)
    assert Pulls(4, 2) != MultiBinary(4)
    assert MultiBinary(4) != Pulls(4, 2)
    assert repr(Pulls(4, 2)) == "Pulls(4, budget=2)"
    assert repr(Pulls((3, 4), 2)) == "Pulls((3, 4), budget=2)"


def test_samples_go_to_json_and_back_and_spaces_are_pickled() -> None:
    space = Pulls(6, 3, seed=5)
    samples = [space.sample() for _ in range(4)]
    back = space.from_jsonable(json.loads(json.dumps(space.to_jsonable(samples))))
    np.testing.assert_array_equal(back, samples)
    assert all(sample in space for sample in back)
    twin = pickle.loads(pickle.dumps(space))
    assert twin == space
    np.testing.assert_array_equal(twin.sample(), space.sample())


def test_a_space_refuses_what_it_cannot_use() -> None:
    with pytest.raises(mf.InputError, match="budget must be between 1 and the 4 arms, got 5"):
        Pulls(4, 5)
    with pytest.raises(mf.InputError, match="budget must be between 1 and the 4 arms, got 0"):
        Pulls((2, 4), 0)
    with pytest.raises(mf.InputError, match=r"mask must have shape \(4,\).* got \(3,\)"):
        Pulls(4, 2).sample(mask=np.ones(3, np.int8))
    with pytest.raises(mf.InputError, match="mask must be 0 or 1 for each arm, got 2 for arm 3"):
        Pulls(4, 2).sample(mask=np.array([0, 1, 1, 2], np.int8))
    with pytest.raises(mf.InputError, match="not with a probability"):
        Pulls(4, 2).sample(probability=np.full(4, 0.5))


# ---- what Gymnasium demands


@pytest.mark.parametrize("changes", [{}, {"budget": 5}, {"arms": ARMS.transitions[:1], "budget": 1}])
@pytest.mark.parametrize("render_mode", [None, "ansi"])
def test_gymnasium_finds_nothing_wrong(changes: dict[str, Any], render_mode: str | None) -> None:
    env = gymnasium.make(ENV_ID, **{**PROBLEM, **changes}, render_mode=render_mode)
    check_env(env.unwrapped)


@pytest.mark.parametrize("availability", [1.0, 0.5])
def test_equal_environments_match(availability: float) -> None:
    one, other = (make(availability=availability, render_mode="ansi") for _ in range(2))
    assert data_equivalence(play(one, 20), play(other, 20), exact=True)
    assert not data_equivalence(play(one, 20), play(other, 20, seed=1))
    if availability == 1:
        check_environments_match(one, other, num_steps=20)


def test_an_episode_is_truncated_and_never_terminated() -> None:
    env = make(horizon=3)
    env.reset(seed=0)
    ends = [env.step(env.action_space.sample())[2:4] for _ in range(3)]
    assert ends == [(False, False), (False, False), (False, True)]
    with pytest.raises(gymnasium.error.ResetNeeded, match="which then has 3 steps"):
        env.step(env.action_space.sample())
    env.reset()
    env.step(env.action_space.sample())


def test_the_reward_is_how_many_arms_are_good_after_the_step() -> None:
    certain = [[[0, 1], [0, 1]], [[1, 0], [1, 0]], [[1, 1], [1, 1]]]  # good if pulled, good if left, always good
    for env in (make(arms=certain, budget=3), make_vec(arms=certain, budget=3, num_envs=1)):
        env.reset(seed=0)
        for pulls, states in (([1, 1, 0], [1, 0, 1]), ([0, 0, 0], [0, 1, 1]), ([0, 1, 1], [0, 0, 1])):
            seen, reward, _, _, info = env.step(np.reshape(pulls, env.action_space.shape))
            np.testing.assert_array_equal(seen.ravel(), states)
            assert reward == info["good"] == sum(states)


@pytest.mark.parametrize(
    "wrapper",
    [
        gymnasium.wrappers.FlattenObservation,
        gymnasium.wrappers.RecordEpisodeStatistics,
        gymnasium.wrappers.Autoreset,
        lambda env: gymnasium.wrappers.TimeAwareObservation(gymnasium.wrappers.TimeLimit(env, 4)),
        lambda env: gymnasium.wrappers.FrameStackObservation(env, 2),
    ],
)
def test_wrappers_go_round_it(wrapper: Any) -> None:
    env = wrapper(gymnasium.make(ENV_ID, **PROBLEM))
    states, _ = env.reset(seed=1)
    assert states in env.observation_space
    truncated = False
    while not truncated:
        states, _, _, truncated, info = env.step(env.action_space.sample())
        assert states in env.observation_space
    if isinstance(env, gymnasium.wrappers.RecordEpisodeStatistics):
        assert info["episode"]["l"] == 6


def test_it_is_made_again_from_its_spec_and_from_json() -> None:
    env = gymnasium.make(ENV_ID, arms=ARMS.transitions.tolist(), budget=2, horizon=6)
    assert env.spec is not None
    back = EnvSpec.from_json(env.spec.to_json())
    for again in (gymnasium.make(env.spec), gymnasium.make(back)):
        assert data_equivalence(play(env, 12), play(again, 12), exact=True)


@pytest.mark.parametrize("kind", [make, make_vec])
def test_a_pickled_environment_goes_on_as_if_nothing_had_happened(kind: Any) -> None:
    env = kind(availability=0.7)
    play(env, 4)
    twin = pickle.loads(pickle.dumps(env))
    for _ in range(20):
        action = env.action_space.sample(mask=env.action_mask)
        seen = env.step(action)
        assert data_equivalence(seen, twin.step(action), exact=True)
        if seen[3] is True:
            env.reset()
            twin.reset()


def test_registering_twice_is_registering_once() -> None:
    before = gymnasium.registry[ENV_ID]
    register()
    assert gymnasium.registry[ENV_ID] is before


def test_a_new_process_finds_it_by_its_module_without_the_compiler() -> None:
    code = (
        "import sys, gymnasium\n"
        f"env = gymnasium.make('meritfair.gym:{ENV_ID}', arms=[[[0.1, 0.2], [0.3, 0.4]]], budget=1)\n"
        "env.reset(seed=1)\n"
        "env.step(env.action_space.sample())\n"
        "assert 'numba' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)


def test_without_gymnasium_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    monkeypatch.delitem(sys.modules, "meritfair.gym")
    with pytest.raises(mf.MissingExtraError, match=r"the Gymnasium environment .* pip install 'meritfair\[gym\]'"):
        import_module("meritfair.gym")


# ---- where an episode begins


@pytest.mark.parametrize("kind", [make, make_vec])
def test_an_episode_begins_where_the_options_say(kind: Any) -> None:
    env, states, available = kind(), [1, 0, 1, 1, 0], [0, 1, 1, 0, 1]
    seen, info = env.reset(seed=1, options={"states": states, "available": available})
    assert (seen == states).all()
    assert (info["action_mask"] == available).all()
    assert np.all(info["good"] == 3)
    step = env.step(np.broadcast_to([0, 1, 0, 0, 1], env.action_space.shape))
    assert (step[-1]["action_mask"] == 1).all()  # for the first step only
    plain = kind()
    plain.reset(seed=1)
    assert not (plain.reset(seed=1)[0] == states).all()
    plain.step(np.broadcast_to([0, 1, 0, 0, 1], env.action_space.shape))
    assert data_equivalence(env.reset(), plain.reset(), exact=True)  # the same random numbers were used


def test_each_environment_can_begin_elsewhere() -> None:
    envs, states = make_vec(num_envs=2), np.array([[1, 0, 1, 1, 0], [0, 0, 0, 0, 1]])
    seen, infos = envs.reset(seed=1, options={"states": states})
    np.testing.assert_array_equal(seen, states)
    np.testing.assert_array_equal(infos["good"], [3, 1])


@pytest.mark.parametrize("kind", [make, make_vec])
@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"state": [0] * 5}, "reset has no setting 'state', did you mean 'states'"),
        ({"states": [0] * 4}, r"states must have shape .*\(5,\), .* got \(4,\)"),
        ({"states": [[0, 1], [0]]}, "states must be an array of 0 and 1"),
        ({"states": [0, 0, 3, 0, 0]}, "states must be 0 or 1 for each arm, got 3 for arm 2"),
        ({"states": [0, 0, np.nan, 0, 0]}, "states must be 0 or 1 for each arm, got nan for arm 2"),
        ({"available": ["a", "b", "c", "d", "e"]}, "available must be 0 or 1 for each arm, got a for arm 0"),
    ],
)
def test_options_that_cannot_be_used_are_refused(kind: Any, options: dict[str, Any], problem: str) -> None:
    env = kind()
    env.reset(seed=1)
    before = pickle.dumps(env)
    with pytest.raises(mf.InputError, match=problem):
        env.reset(seed=2, options=options)
    assert pickle.dumps(env) == before


@pytest.mark.parametrize("seed", [-1, 1.5, np.int64(3)])
@pytest.mark.parametrize("kind", [make, make_vec])
def test_seeds_that_gymnasium_refuses_change_nothing(kind: Any, seed: Any) -> None:
    env = kind()
    env.reset(seed=1)
    before = pickle.dumps(env)
    with pytest.raises(gymnasium.error.Error, match="Seed must be"):
        env.reset(seed=seed)
    assert pickle.dumps(env) == before


# ---- what is refused

MAKING = [
    ({"budget": 6}, "budget must be between 1 and the 5 arms, got 6"),
    ({"budget": 0}, "budget must be between 1 and the 5 arms, got 0"),
    ({"budget": 1.5}, "budget must be a whole number, got 1.5"),
    ({"arms": [[[0.1, 0.2], [0.3, 0.4]]]}, "budget must be between 1 and the only arm, got 2"),
    ({"arms": "cpap"}, "transitions must be an array of numbers"),
    ({"arms": [0.5, 0.5]}, r"transitions must have shape \(N, 2, 2\)"),
    ({"arms": [[[0.1, 0.2], [0.3, 1.4]]]}, "must lie between 0 and 1, got 1.4"),
    ({"horizon": 0}, "horizon must be at least 1, got 0"),
    ({"horizon": None}, "horizon must be a whole number, got None"),
    ({"availability": 1.2}, "availability must lie between 0 and 1, got 1.2 for arm 0"),
    ({"availability": [1, 1, 1, -0.1, 1]}, "availability must lie between 0 and 1, got -0.1 for arm 3"),
    ({"availability": [1, np.nan, 1, 1, 1]}, "availability must lie between 0 and 1, got nan for arm 1"),
    ({"availability": [1, 1]}, r"availability must be one number or one for each of the 5 arms, got shape \(2,\)"),
    ({"availability": "often"}, "availability must be an array of numbers"),
    ({"render_mode": "human"}, "render_mode must be 'ansi', got 'human'"),
]


@pytest.mark.parametrize("kind", [make, make_vec])
@pytest.mark.parametrize(("changes", "problem"), MAKING)
def test_what_cannot_be_made_is_refused(kind: Any, changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(mf.InputError, match=problem):
        kind(**changes)


@pytest.mark.parametrize("number", [0, -3, 2.0])
def test_the_number_of_environments_is_checked(number: Any) -> None:
    with pytest.raises(mf.InputError, match=r"num_envs must be .*, got"):
        make_vec(num_envs=number)


ACTIONS = [
    ([1, 1, 1, 0, 0], "must pull at most 2 arms, the budget, got 3"),
    ([0, 0, 2, 0, 0], "must be 0 or 1 for each arm, got 2 for arm 2"),
    ([0, -1, 0, 0, 0], "must be 0 or 1 for each arm, got -1 for arm 1"),
    ([0, 256, 0, 0, 0], "must be 0 or 1 for each arm, got 256 for arm 1"),
    ([0, 0.5, 0, 0, 0], "must be 0 or 1 for each arm, got 0.5 for arm 1"),
    ([np.nan, 0, 0, 0, 0], "must be 0 or 1 for each arm, got nan for arm 0"),
    ([0, 0, 0, 0, 1], "pulls arm 4, which cannot be pulled at this step: its action_mask is 0"),
]


@pytest.mark.parametrize(("action", "problem"), ACTIONS)
@pytest.mark.parametrize("row", [None, 0, 2])
def test_an_action_that_cannot_be_done_is_refused_and_changes_nothing(
    action: list[Any], problem: str, row: int | None
) -> None:
    env = make() if row is None else make_vec(num_envs=3)
    env.reset(seed=1, options={"available": [1, 1, 1, 1, 0]})
    actions = action if row is None else np.where(np.arange(3)[:, None] == row, action, 0)
    before = pickle.dumps(env)
    whose = "action" if row is None else f"the action of environment {row}"
    with pytest.raises(mf.InputError, match=f"^{whose} {problem}$"):
        env.step(actions)
    assert pickle.dumps(env) == before
    env.step(np.zeros(env.action_space.shape))


def test_refused_bytes_are_refused_like_numbers() -> None:
    envs = make_vec(num_envs=1)  # int8 is handed on as it is
    envs.reset(seed=1)
    for value in (2, -1, -128):
        with pytest.raises(mf.InputError, match=f"got {value} for arm 1"):
            envs.step(np.array([[0, value, 0, 0, 0]], np.int8))


@pytest.mark.parametrize("kind", [make, make_vec])
@pytest.mark.parametrize("action", [[1, 0], 1, None, [[1], [0, 1]]])
def test_an_action_of_another_shape_is_refused(kind: Any, action: Any) -> None:
    env = kind()
    env.reset(seed=1)
    with pytest.raises(mf.InputError, match=r"actions? must (have shape \(.*5,?\),|be an array)"):
        env.step(action)


@pytest.mark.parametrize("kind", [make, make_vec])
def test_a_step_before_the_first_reset_is_refused(kind: Any) -> None:
    env = kind()
    with pytest.raises(gymnasium.error.ResetNeeded, match=r"reset\(\) must begin"):
        env.step(np.zeros(env.action_space.shape))


# ---- many at once


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"horizon": 1},
        {"availability": 0.6},
        {"availability": [1, 0, 0.5, 0.9, 1], "horizon": 4},
        {"arms": ARMS.transitions[:1], "budget": 1},
        {"arms": mf.datasets.synthetic(70, seed=2), "budget": 70, "num_envs": 1},
        {"arms": [[[0, 1], [1, 0]], [[0, 0], [1, 1]]], "num_envs": 9},  # what is certain
    ],
)
@pytest.mark.parametrize("seed", [7, [5, 5, 0, 2**70]])
def test_all_at_once_is_one_after_another_number_for_number(changes: dict[str, Any], seed: Any) -> None:
    if isinstance(seed, list):
        seed = (3 * seed)[: changes.get("num_envs", 4)]
    ours, theirs = make_vec(**changes), make_vec("sync", **changes)
    assert ours.action_space == theirs.action_space
    assert ours.observation_space == theirs.observation_space
    assert ours.single_action_space == theirs.single_action_space
    assert ours.metadata["autoreset_mode"] is theirs.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
    assert data_equivalence(play(ours, 30, seed), play(theirs, 30, seed), exact=True)
    assert data_equivalence(ours.reset(), theirs.reset(), exact=True)  # goes on with the same random numbers
    assert ours.np_random_seed == theirs.np_random_seed
    for mine, its in zip(ours.np_random, theirs.np_random, strict=True):
        assert mine.bit_generator.state["state"] == its.bit_generator.state["state"]


def test_an_environment_does_not_depend_on_how_many_there_are() -> None:
    few, many = make_vec(num_envs=2, availability=0.8), make_vec(num_envs=50, availability=0.8)
    few.reset(seed=[9, 4])
    many.reset(seed=[4, *range(100, 148), 9])
    for _ in range(20):
        masks = few.action_mask
        np.testing.assert_array_equal(masks, many.action_mask[[-1, 0]])
        pulls, all_pulls = few.action_space.sample(mask=masks), np.zeros((50, 5), np.int8)
        all_pulls[[-1, 0]] = pulls
        np.testing.assert_array_equal(few.step(pulls)[0], many.step(all_pulls)[0][[-1, 0]])


def test_the_action_of_an_ended_episode_is_not_looked_at() -> None:
    envs = make_vec(num_envs=2, horizon=1)
    envs.reset(seed=1)
    assert envs.step(np.zeros((2, 5)))[3].all()
    _, rewards, terminated, truncated, infos = envs.step(np.full((2, 5), np.nan))
    assert not np.any([rewards, terminated, truncated])
    assert rewards.dtype == np.float64
    assert infos["good"].any()


def test_the_kind_of_number_of_an_action_does_not_matter() -> None:
    pulls = np.array([[1, 0, 0, 0, 1], [0, 1, 0, 0, 0]])
    kinds = [pulls.astype(t) for t in (np.int8, np.bool_, np.int64, np.uint8, np.float32)]
    kinds += [pulls.tolist(), np.asfortranarray(pulls.astype(np.int8)), np.repeat(pulls, 2, axis=1)[:, ::2]]
    states = []
    for kind in kinds:
        envs = make_vec(num_envs=2)
        envs.reset(seed=3)
        states.append(envs.step(kind)[0])
    assert all((each == states[0]).all() for each in states)


def test_what_was_returned_is_never_changed_later() -> None:
    envs = make_vec(availability=0.5)
    seen = play(envs, 15)
    kept = copy.deepcopy(seen)
    for one, other in combinations([array for step in seen for array in [step[0], *step[-1].values()]], 2):
        assert not np.shares_memory(one, other)
    for step in seen:
        step[0][:] = 9
        step[-1]["action_mask"][:] = 9
    assert data_equivalence(play(make_vec(availability=0.5), 15), kept, exact=True)
    assert envs.step(np.zeros((4, 5)))[0].max() <= 1


def test_without_a_seed_each_environment_has_a_new_one_that_is_told() -> None:
    envs = make_vec(num_envs=3)
    assert envs.np_random_seed == envs.np_random == ()
    first, _ = envs.reset()
    seeds = envs.np_random_seed
    assert len(set(seeds)) == 3
    again = make_vec(num_envs=3)
    np.testing.assert_array_equal(again.reset(seed=seeds)[0], first)
    again.reset(seed=[None, 5, None])
    assert again.np_random_seed == (seeds[0], 5, seeds[2])
    with pytest.raises(mf.InputError, match=r"seed .* 3 environments, got 2"):
        envs.reset(seed=[1, 2])


@pytest.mark.parametrize(
    "wrapper",
    [
        gymnasium.wrappers.vector.RecordEpisodeStatistics,
        gymnasium.wrappers.vector.FlattenObservation,
        gymnasium.wrappers.vector.DictInfoToList,
    ],
)
def test_vector_wrappers_go_round_it(wrapper: Any) -> None:
    envs = wrapper(make_vec())
    envs.reset(seed=1)
    for step in range(1, 15):
        *_, truncated, infos = envs.step(envs.action_space.sample())
        assert (truncated == (step % 7 == 6)).all()  # six steps, and one that begins the next episode
        if truncated.any() and isinstance(envs, gymnasium.wrappers.vector.RecordEpisodeStatistics):
            assert (infos["episode"]["l"] == 6).all()


@pytest.mark.slow
def test_processes_of_gymnasium_do_the_same() -> None:
    theirs = make_vec("async", num_envs=2, vector_kwargs={"context": "spawn"})
    try:
        assert data_equivalence(play(theirs, 10), play(make_vec(num_envs=2), 10), exact=True)
    finally:
        theirs.close()


@pytest.mark.parametrize("kind", [make, make_vec])
def test_a_mask_that_an_agent_changes_changes_nothing_else(kind: Any) -> None:
    env = kind()
    _, info = env.reset(seed=1, options={"available": [0, 1, 1, 1, 1]})
    info["action_mask"][:] = 1
    env.action_mask[:] = 1
    with pytest.raises(mf.InputError, match="pulls arm 0, which cannot be pulled"):
        env.step(np.broadcast_to([1, 0, 0, 0, 0], env.action_space.shape))


# ---- the law


def paths(transitions: AnyArray, pulls: list[list[int]]) -> AnyArray:
    """Return the chance of each path of two arms through all states, under given pulls, by enumeration."""
    law = []
    for path in product(product((0, 1), repeat=2), repeat=len(pulls) + 1):
        chance = 0.25
        for before, after, pulled in zip(path, path[1:], pulls, strict=False):
            for arm in range(2):
                good = transitions[arm, before[arm], pulled[arm]]
                chance *= good if after[arm] else 1 - good
        law.append(chance)
    return np.array(law)


def test_paths_have_the_law_of_the_arms() -> None:
    transitions = np.array([[[0.2, 0.9], [0.6, 0.35]], [[0.15, 0.5], [0.8, 0.7]]])
    pulls, num_envs, rounds = [[1, 0], [0, 1], [1, 1]], 2000, 400
    envs = make_vec(arms=transitions, horizon=3, num_envs=num_envs)
    states, _ = envs.reset(seed=1)
    observed = np.zeros(256)
    for _ in range(rounds):
        code = states @ [2, 1]
        for pulled in pulls:
            states, *_ = envs.step(np.broadcast_to(pulled, (num_envs, 2)))
            code = 4 * code + states @ [2, 1]
        observed += np.bincount(code, minlength=256)
        states, *_ = envs.step(np.zeros((num_envs, 2)))  # begins the next episode
    assert chi_square(observed, observed.sum() * paths(transitions, pulls)) > LEVEL
    for arm, state, action in product(range(2), repeat=3):
        planted = transitions.copy()
        planted[arm, state, action] += 0.02
        assert chi_square(observed, observed.sum() * paths(planted, pulls)) < LEVEL


def test_arms_can_be_pulled_as_often_as_they_should() -> None:
    availability, steps = np.array([0.1, 0.5, 0.9, 1.0, 0.0]), 40
    envs = make_vec(num_envs=1000, availability=availability, horizon=9)
    _, infos = envs.reset(seed=1)
    masks = [infos["action_mask"]]
    for _ in range(steps):
        masks.append(envs.step(np.zeros((1000, 5)))[-1]["action_mask"])
    share, sides = np.mean(masks, axis=(0, 1)), slice(3)
    assert share[3:].tolist() == [1, 0]
    limit = stats.norm.isf(LEVEL / 6) * np.sqrt(availability * (1 - availability) / (1000 * (steps + 1)))
    assert (np.abs(share - availability)[sides] < limit[sides]).all()
    assert (np.abs(share - availability - 0.02)[sides] > limit[sides]).all()


# ---- a line of text


def test_a_line_shows_states_pulls_steps_and_who_is_good() -> None:
    certain = [[[0, 1], [0, 1]], [[1, 0], [1, 0]], [[1, 1], [1, 1]], [[0, 0], [0, 0]]]
    line = "step  1/20  ▲△●○  2 of 4 good"
    env = make(arms=certain, horizon=20, render_mode="ansi")
    env.reset(seed=0, options={"states": [0, 1, 0, 1]})
    assert env.render() == "step  0/20  ○●○●  2 of 4 good"
    env.step([1, 1, 0, 0])
    assert env.render() == line
    envs = make_vec(arms=certain, horizon=20, render_mode="ansi", num_envs=2)
    envs.reset(seed=0)
    envs.step([[1, 1, 0, 0], [0, 0, 0, 0]])
    assert envs.render() == (line, "step  1/20  ○●●○  2 of 4 good")


def test_a_line_stays_short() -> None:
    env = make(arms=mf.datasets.synthetic(500, seed=1), render_mode="ansi")
    env.reset(seed=0)
    assert len(env.render() or "") < 100
    assert "…" in (env.render() or "")


def test_an_episode_that_begins_by_itself_shows_no_pulls() -> None:
    envs = make_vec(num_envs=1, horizon=1, render_mode="ansi")
    envs.reset(seed=0)
    envs.step([[1, 1, 0, 0, 0]])
    envs.step([[1, 1, 0, 0, 0]])
    assert not set("△▲") & set(envs.render()[0])


@pytest.mark.parametrize("kind", [make, make_vec])
def test_rendering_what_was_not_made_for_it_warns(kind: Any) -> None:
    env = kind()
    env.reset(seed=0)
    with pytest.warns(UserWarning, match='render_mode="ansi"'):
        assert env.render() is None


def test_lines_are_collected_by_gymnasium() -> None:
    env: Any = gymnasium.make(ENV_ID, **PROBLEM, render_mode="ansi_list")
    env.reset(seed=0)
    env.step(env.action_space.sample())
    assert [line[:8] for line in env.render()] == ["step 0/6", "step 1/6"]


def test_the_classes_are_what_the_registry_makes() -> None:
    assert isinstance(gymnasium.make(ENV_ID, **PROBLEM).unwrapped, RestlessBanditEnv)
    assert isinstance(make_vec(), RestlessBanditVectorEnv)
