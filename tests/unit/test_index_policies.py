from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import meritfair as mf
from meritfair.model.whittle import pull_advantage, whittle_index
from meritfair.policies import View
from meritfair.policies.soft_fair import SoftFair
from meritfair.policies.thompson_whittle import ThompsonWhittle
from meritfair.policies.uc_whittle import UCWhittle
from meritfair.policies.view import KNOWN_OR_ESTIMATED
from meritfair.policies.whittle import Myopic, Whittle
from reference import plain

BOUNDS = ("penalty", "value", "extreme")
SOFT = [SoftFair(c=2.0, discount=0.8, estimate=estimate, delta=0.05) for estimate in KNOWN_OR_ESTIMATED]
EVERY = [Whittle(), Whittle(0.7), Myopic(), *(UCWhittle(bound) for bound in BOUNDS), ThompsonWhittle(), *SOFT]


def view(seed: int = 1, n_arms: int = 6, episode: int = 9, most: int = 2000) -> View:
    """Return a view in which some pairs of state and action were never seen."""
    rng = np.random.default_rng(seed)
    truth = rng.uniform(0.02, 0.98, (n_arms, 2, 2))
    visits = rng.integers(0, most, (n_arms, 2, 2)) * (rng.random((n_arms, 2, 2)) < 0.8)
    rngs = (np.random.default_rng(seed),)
    return View(mf.Counts(visits, rng.binomial(visits, truth)), episode, 2, truth, rngs)


def index(policy: Any, seen: View) -> Any:
    return policy.plan(seen).index


@pytest.mark.parametrize("discount", [0.6, 1.0])
def test_whittle_knows_the_truth(discount: float) -> None:
    seen = view()
    np.testing.assert_array_equal(index(Whittle(discount), seen), whittle_index(seen.true_transitions, discount))


def test_myopic_looks_one_step_ahead() -> None:
    seen = view()
    found = index(Myopic(), seen)
    for arm, P in enumerate(seen.true_transitions):
        assert found[arm].tolist() == [P[0, 1] - P[0, 0], P[1, 1] - P[1, 0]]


def box(seen: View, delta: float) -> tuple[Any, Any]:
    """Return the ends of the box in plain loops: the frequency, the full radius to either side, within [0, 1]."""
    visits, good = seen.counts.visits, seen.counts.good
    lower, upper = np.empty(visits.shape), np.empty(visits.shape)
    for at in np.ndindex(visits.shape):
        n = int(visits[at])
        frequency, radius = int(good[at]) / max(1, n), plain.radius(n, seen.episode, len(visits), delta)
        lower[at], upper[at] = max(0.0, frequency - radius), min(1.0, frequency + radius)
    return lower, upper


@pytest.mark.parametrize("bound", BOUNDS)
def test_uc_whittle_takes_its_point_of_the_box(bound: str) -> None:
    seen = view(most=20_000, n_arms=40)
    lower, upper = box(seen, 0.02)
    found = index(UCWhittle(bound, discount=0.8, delta=0.02), seen)
    helpless = 0
    for arm, (L, U) in enumerate(zip(lower, upper, strict=True)):
        points: dict[str, tuple[Any, Any]] = {
            "value": (U, U),
            "extreme": ([[L[0, 0], U[0, 1]], [L[1, 0], U[1, 1]]],) * 2,
        }
        others = U[1] if U[0, 1] >= L[0, 0] else L[1], L[0] if U[1, 1] >= L[1, 0] else U[0]
        points["penalty"] = [[L[0, 0], U[0, 1]], others[0]], [others[1], [L[1, 0], U[1, 1]]]
        helpless += (U[0, 1] < L[0, 0]) + (U[1, 1] < L[1, 0])
        expected = [whittle_index(point, 0.8)[s] for s, point in enumerate(points[bound])]
        np.testing.assert_allclose(found[arm], expected, rtol=1e-12)
    assert helpless > 5  # a pull surely harms: there the corner is another one


def test_uc_whittle_hopes_for_the_most_by_the_penalty() -> None:
    seen = view(most=20_000, n_arms=40)
    most = index(UCWhittle("penalty"), seen)
    for bound in ("value", "extreme"):
        assert (index(UCWhittle(bound), seen) <= most + 1e-12).all()
    within = np.random.default_rng(5).uniform(*box(seen, 1e-3), (200, 40, 2, 2))
    assert (whittle_index(within, 0.9) <= most + 1e-12).all()


def test_uc_whittle_before_anything_was_seen() -> None:
    nothing = View(mf.Counts.none(3), 1, 1, np.full((3, 2, 2), np.nan))
    np.testing.assert_allclose(index(UCWhittle("penalty", 0.8), nothing), [[4.0, 0.8]] * 3)  # b / (1 - b), b
    np.testing.assert_array_equal(index(UCWhittle("value", 0.8), nothing), 0.0)  # good whatever one does
    np.testing.assert_allclose(index(UCWhittle("extreme", 0.8), nothing), 0.8)
    for bound in BOUNDS:
        assert np.isfinite(index(UCWhittle(bound, discount=1.0), nothing)).all()


@pytest.mark.parametrize("bound", BOUNDS)
def test_an_arm_that_is_never_left_alone_is_learnt_only_by_value(bound: str) -> None:
    """It is pulled whenever it is bad, which harms it: its chance is 0.3, not 0.6 as if left alone."""
    pulls = 10**6
    counts = mf.Counts([[[0, pulls], [pulls, 0]]], [[[0, 3 * pulls // 10], [9 * pulls // 10, 0]]])
    in_bad = index(UCWhittle(bound), View(counts, 100, 1, np.full((1, 2, 2), np.nan)))[0, 0]
    assert (in_bad < -1.0) if bound == "value" else (in_bad > 0.2)


@pytest.mark.parametrize("policy", [*(UCWhittle(bound, 0.9) for bound in BOUNDS), ThompsonWhittle(0.9)], ids=repr)
def test_with_all_seen_the_index_is_the_true_one(policy: Any) -> None:
    truth = view().true_transitions
    for visits, apart in ((10**6, 0.5), (10**12, 1e-3)):
        counts = mf.Counts(np.full(truth.shape, visits), np.round(truth * visits).astype(int))
        found = index(policy, View(counts, 3, 2, truth, (np.random.default_rng(1),)))
        assert 0 < np.abs(found - whittle_index(truth, 0.9)).max() < apart


def test_thompson_whittle_draws_from_the_posterior() -> None:
    seen = view()
    bad = seen.counts.visits - seen.counts.good
    drawn = np.random.default_rng(1).beta(1 + seen.counts.good, 1 + bad)
    np.testing.assert_array_equal(index(ThompsonWhittle(0.7), seen), whittle_index(drawn, 0.7))
    assert (index(ThompsonWhittle(0.7), seen) != whittle_index(drawn, 0.7)).all()  # the next draw is another one


def test_thompson_whittle_needs_an_rng_for_each_run() -> None:
    seen = view()
    with pytest.raises(mf.InputError, match=r"thompson-whittle .* 1 runs, got 0"):
        ThompsonWhittle().plan(View(seen.counts, 9, 2, seen.true_transitions))


@pytest.mark.parametrize("estimate", KNOWN_OR_ESTIMATED)
def test_soft_fair_draws_by_what_a_pull_gains(estimate: str) -> None:
    seen, again = view(), view()
    plan = SoftFair(c=2.5, discount=0.8, estimate=estimate, delta=0.05).plan(seen)
    estimated = again.true_transitions
    if estimate != "known":
        estimated = mf.Ball(again.counts, 9, 0.05).estimate(estimate, again.rngs)
    assert plan.soft
    np.testing.assert_array_equal(plan.index, 2.5 * pull_advantage(estimated, 0.8))


def test_who_is_an_oracle_and_who_is_constant() -> None:
    for policy in EVERY:
        knows = policy.name in ("whittle", "myopic") or getattr(policy, "estimate", "") == "known"
        assert (policy.oracle, policy.plans_once) == (knows, knows)
        assert policy.spends_budget
    assert not SoftFair.oracle  # settings of one are not those of all


@pytest.mark.parametrize("policy", [p for p in EVERY if "thompson" not in repr(p).lower()], ids=repr)
def test_relabelling_arms_relabels_the_plan(policy: Any) -> None:
    seen, order = view(), np.array([3, 0, 5, 1, 4, 2])
    counts = mf.Counts(seen.counts.visits[order], seen.counts.good[order])
    relabelled = View(counts, 9, 2, seen.true_transitions[order], seen.rngs)
    np.testing.assert_array_equal(index(policy, relabelled), index(policy, seen)[order])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Whittle(1.5), r"discount must lie between 0 and 1, got 1\.5"),
        (lambda: Whittle("high"), "discount must be a number, got 'high'"),  # type: ignore[arg-type]
        (lambda: ThompsonWhittle(-0.1), r"discount must lie between 0 and 1, got -0\.1"),
        (lambda: UCWhittle("penalties"), "one of value, penalty, extreme, got 'penalties', did you mean 'penalty'"),
        (lambda: UCWhittle(discount=2), "discount must lie between 0 and 1, got 2"),
        (lambda: UCWhittle(delta=0.0), r"delta must lie strictly between 0 and 1, got 0\.0"),
        (lambda: SoftFair(c=-1.0), r"c must be at least 0, got -1\.0"),
        (lambda: SoftFair(c=np.inf), "c must be at least 0, got inf"),
        (lambda: SoftFair(discount=np.nan), "discount must lie between 0 and 1, got nan"),
        (lambda: SoftFair(estimate="knwon"), "estimate must be one of known, optimistic, .*, did you mean 'known'"),
        (lambda: SoftFair(delta=1.0), r"delta must lie strictly between 0 and 1, got 1\.0"),
    ],
)
def test_mistakes_are_named(call: Any, message: str) -> None:
    with pytest.raises(mf.InputError, match=message):
        call()


def test_settings_are_plain_values() -> None:
    assert Whittle(1).settings() == {"discount": 1.0}
    assert Myopic().settings() == {}
    assert ThompsonWhittle().settings() == {"discount": 1.0}
    assert UCWhittle().settings() == {"bound": "value", "discount": 0.9, "delta": 1e-3}
    assert SoftFair().settings() == {"c": 3.0, "discount": 0.9, "estimate": "mean", "delta": 0.01}
    for policy in EVERY:
        assert type(policy)(**json.loads(json.dumps(policy.settings()))) == policy


ARMS = mf.datasets.synthetic(n_arms=20, seed=7)


def play(policy: mf.Policy, episodes: int = 200, runs: int = 4) -> mf.Run:
    return mf.simulate(ARMS, policy, budget=4, episodes=episodes, horizon=200, runs=runs, seed=5)


@pytest.fixture(scope="module")
def ends() -> tuple[float, float]:
    """The mean reward of an episode without pulls, and by the Whittle index."""
    return float(play(mf.NoAction()).reward.mean()), float(play(Whittle()).reward.mean())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("policy", "part"),
    [
        (UCWhittle("penalty"), 0.2),  # 0.30
        (UCWhittle("value"), 0.9),  # 0.94
        (UCWhittle("extreme"), 0.5),  # 0.65
        (ThompsonWhittle(), 0.98),  # 1.00
    ],
    ids=repr,
)
def test_learners_approach_the_oracle(policy: mf.Policy, part: float, ends: tuple[float, float]) -> None:
    """What they gain over no pulls, as a part of what the Whittle index gains; random pulls gain less than nothing."""
    none, best = ends
    benefit = (play(policy).reward.mean(axis=0) - none) / (best - none)
    assert benefit[100:].mean() > part
    assert benefit[100:].mean() > benefit[:5].mean() + 0.2
    assert (play(mf.Random()).reward.mean() - none) / (best - none) < 0.0


def test_one_step_ahead_is_not_far_enough(ends: tuple[float, float]) -> None:
    none, best = ends
    assert none < play(Myopic()).reward.mean() < best - 0.01 * (best - none)


@pytest.mark.parametrize("c", [0.0, 0.5])
def test_soft_fair_without_sharpness_draws_all_alike(c: float) -> None:
    exposure = play(SoftFair(c=c, estimate="known"), 20).exposure.mean(axis=0)  # of 16,000 steps
    z = np.abs(exposure - 0.2).max() / np.sqrt(0.2 * 0.8 / 16_000)
    assert (z < 4.71) == (c == 0.0)  # 1e-4 split over 20 arms, two-sided; a little sharpness is found


@pytest.mark.slow
def test_soft_fair_gains_and_leaves_nobody_out(ends: tuple[float, float]) -> None:
    none, best = ends
    known, learnt = play(SoftFair(estimate="known")), play(SoftFair())
    for run in (known, learnt):
        assert run.exposure.min() > 1e-3
    assert play(Whittle()).exposure.min() == 0.0
    benefit, soon = ((run.reward.mean() - none) / (best - none) for run in (known, learnt))
    assert 0.4 < benefit < 0.9
    assert abs(soon - benefit) < 0.02  # the posterior mean is soon near the truth
