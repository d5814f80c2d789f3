"""Priors, posteriors, and the prior that is fitted to all arms: analytic answers, the twin in NumPy, and bad data."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import integrate, stats
from scipy.special import betaln, digamma, expit, gammaln, polygamma

import meritfair as mf
from meritfair.core.arrays import AnyArray, FloatArray
from meritfair.core.errors import InputError
from meritfair.engine import gammas, pooling
from meritfair.model.posterior import Posterior, Prior, fit_prior, log_beta
from reference import pooling as reference
from reference.compiled import kernel_of_tests

TWO = Prior(
    [0.3, 0.7],
    [[[2.0, 1.0], [4.0, 3.0]], [[6.0, 8.0], [1.0, 0.5]]],
    [[[5.0, 6.0], [2.0, 1.0]], [[1.0, 2.0], [1.0, 0.5]]],
)


# ---- priors and posteriors


def test_the_uniform_prior_has_the_posterior_of_the_estimate_mean() -> None:
    seen = mf.Counts(np.arange(24).reshape(3, 2, 2, 2), np.arange(24).reshape(3, 2, 2, 2) // 3)
    posterior = Prior.uniform().posterior(seen)
    np.testing.assert_array_equal(posterior.mean, seen.mean)
    np.testing.assert_allclose(posterior.variance, stats.beta.var(seen.good + 1, seen.visits - seen.good + 1))


def test_the_chance_of_a_class_is_by_bayes_rule() -> None:
    seen = mf.Counts([[[3, 0], [7, 2]], [[0, 0], [0, 0]]], [[[1, 0], [6, 2]], [[0, 0], [0, 0]]])
    posterior = TWO.posterior(seen)
    weight = TWO.weights * stats.betabinom.pmf(seen.good[:, None], seen.visits[:, None], TWO.good, TWO.bad).prod((2, 3))
    np.testing.assert_allclose(posterior.weights, weight / weight.sum(axis=1, keepdims=True))
    np.testing.assert_allclose(posterior.weights[1], TWO.weights)


def test_mean_and_variance_are_those_of_a_mixture() -> None:
    seen = mf.Counts([[[3, 0], [7, 2]]], [[[1, 0], [6, 2]]])
    posterior = TWO.posterior(seen)
    law = stats.beta(posterior.good, posterior.bad)
    mean = np.einsum("nc,ncsa->nsa", posterior.weights, law.mean())
    spread = law.var() + (law.mean() - mean[:, None]) ** 2  # within classes and between them
    np.testing.assert_allclose(posterior.mean, mean)
    np.testing.assert_allclose(posterior.variance, np.einsum("nc,ncsa->nsa", posterior.weights, spread))


def test_leading_axes_are_kept() -> None:
    rng = np.random.default_rng(1)
    visits = rng.integers(0, 9, (4, 3, 5, 2, 2))
    seen = mf.Counts(visits, rng.binomial(visits, 0.4))
    posterior = TWO.posterior(seen)
    alone = TWO.posterior(mf.Counts(seen.visits[2, 1], seen.good[2, 1]))
    np.testing.assert_array_equal(posterior.mean[2, 1], alone.mean)
    assert posterior.draw(rng, 6).shape == (6, 4, 3, 5, 2, 2)


def test_a_class_of_weight_zero_is_never_believed() -> None:
    prior = Prior([1, 0], TWO.good, TWO.bad)
    seen = mf.Counts([[[9, 9], [9, 9]]], [[[9, 9], [9, 9]]])
    assert prior.posterior(seen).weights.tolist() == [[1.0, 0.0]]


@pytest.mark.parametrize(
    ("weights", "good", "bad", "message"),
    [
        ([1.0], np.ones((2, 2, 2)), np.ones((2, 2, 2)), r"weights must have shape \(C,\), good and bad \(C, 2, 2\)"),
        ([[1.0]], np.ones((1, 2, 2)), np.ones((1, 2, 2)), "weights must have shape"),
        ([0.5, 0.6], np.ones((2, 2, 2)), np.ones((2, 2, 2)), "weights must not be negative and sum to 1, got"),
        ([1.5, -0.5], np.ones((2, 2, 2)), np.ones((2, 2, 2)), "weights must not be negative and sum to 1, got"),
        ([1.0], np.zeros((1, 2, 2)), np.ones((1, 2, 2)), "good and bad must be positive and finite, got"),
        ([1.0], np.ones((1, 2, 2)), np.full((1, 2, 2), np.inf), "good and bad must be positive and finite, got"),
        (["x"], np.ones((1, 2, 2)), np.ones((1, 2, 2)), "weights must be an array of numbers"),
    ],
)
def test_priors_that_are_none_are_refused(weights: Any, good: Any, bad: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Prior(weights, good, bad)


@pytest.mark.parametrize("n", [1, 20, 600])
def test_the_beta_function_is_that_of_python_to_the_last_bit(n: int) -> None:
    a, b = np.random.default_rng(80).choice([0.1, 0.5, 1.0, 2.0, 7.25, 1e-9, 1e9], (2, n, 2))
    a[:, 1] += np.arange(n) / 7  # some values come again, others do not
    each = [math.lgamma(x) + math.lgamma(y) - math.lgamma(x + y) for x, y in zip(a.flat, b.flat, strict=True)]
    np.testing.assert_array_equal(log_beta(a, b), np.reshape(each, (n, 2)))


def test_draws_need_a_size() -> None:
    with pytest.raises(InputError, match="size must be at least 1, got 0"):
        Prior.uniform().posterior(mf.Counts.none(1)).draw(np.random.default_rng(1), 0)


# ---- the fitted prior


def planted(
    n_arms: int, classes: int, visits: float, seed: int, strength: float = 30.0, unseen: float = 0.0
) -> tuple[Prior, mf.Counts]:
    """Return a prior with well separated classes, and the counts of arms drawn from it."""
    rng = np.random.default_rng(seed)
    levels = np.linspace(0.15, 0.85, classes) if classes > 1 else np.array([0.3])
    mean = np.stack([np.roll(levels, shift) for shift in (0, 0, 1, 2)], axis=1).reshape(classes, 2, 2)
    weights = np.arange(2.0, 2.0 + classes) / np.arange(2.0, 2.0 + classes).sum()
    prior = Prior(weights, strength * mean, strength * (1 - mean))
    P = prior.posterior(mf.Counts.none(n_arms)).draw(rng)[0]
    seen = rng.poisson(visits, P.shape) * (rng.random(P.shape) >= unseen)
    return prior, mf.Counts(seen, rng.binomial(seen, P))


def even(n_arms: int, visits: float, seed: int) -> mf.Counts:
    """Return the counts of arms that have nothing in common."""
    rng = np.random.default_rng(seed)
    seen = rng.poisson(visits, (n_arms, 2, 2))
    return mf.Counts(seen, rng.binomial(seen, rng.random(seen.shape)))


def uneven(n_arms: int, seed: int) -> mf.Counts:
    """Return the counts of arms of two kinds, seen once or a hundred thousand times."""
    rng = np.random.default_rng(seed)
    seen = np.floor(np.exp(rng.uniform(0, 12, (n_arms, 4)))).astype(np.int64)
    good = rng.binomial(seen, rng.beta(12, 39, (2, 4))[rng.integers(0, 2, n_arms)])
    return mf.Counts(seen.reshape(-1, 2, 2), good.reshape(-1, 2, 2))


def fading(counts: mf.Counts, kept: tuple[float, ...]) -> mf.Counts:
    """Return counts of which arms keep different parts."""
    part = np.resize(kept, counts.n_arms)[:, None, None]
    return mf.Counts(part * counts.visits, part * counts.good)


def flat(counts: mf.Counts) -> tuple[AnyArray, AnyArray]:
    return counts.visits.reshape(-1, 4), counts.good.reshape(-1, 4)


def stacked(counts: mf.Counts) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return visits and good outcomes as the engine has them, and room for points."""
    visits, good = (np.array(x.transpose(1, 2, 0), np.float64, order="C") for x in (counts.visits, counts.good))
    return visits, good, np.full_like(visits, np.nan)


def difference(prior: Prior, twin: reference.Classes) -> float:
    """Return how far a prior is from that of the twin, or infinity if the number of classes is not the same."""
    if prior.classes != len(twin.weights):
        return np.inf
    order = np.argsort(-twin.weights, kind="stable")
    weights = twin.weights[order] / twin.weights.sum()
    alpha, beta = (parameter[order].reshape(-1, 2, 2) for parameter in twin.parameters)
    apart = [prior.weights - weights, np.log(prior.good / alpha), np.log(prior.bad / beta)]
    return max(float(np.abs(x).max()) for x in apart)


CASES: dict[str, mf.Counts] = {
    "few visits": planted(60, 2, 2, seed=1)[1],
    "three classes": planted(150, 3, 12, seed=2)[1],
    "around the end of the tables": planted(80, 2, 64, seed=3)[1],
    "many visits": planted(50, 3, 5_000, seed=4)[1],
    "some never seen": planted(90, 2, 20, seed=5, unseen=0.6)[1],
    "nothing in common": even(70, 6, seed=6),
    "wide classes": planted(120, 2, 15, seed=7, strength=3.0)[1],
    "one arm": planted(1, 1, 10, seed=8)[1],
    "narrow classes": planted(60, 2, 2_000, seed=110, strength=1_000.0)[1],
    "steps that are too long and have to be halved": uneven(8, seed=1564),
    "counts that are not whole": fading(planted(120, 2, 12, seed=11)[1], (1.0, 0.7, 0.35)),
    "large counts that are not whole": fading(planted(80, 3, 90, seed=12)[1], (1.0, 0.83)),
    # The evidence of these is close, so that each of its terms decides.
    "three classes rather than two": planted(40, 3, 4, seed=117)[1],
    "four classes rather than three": planted(60, 4, 5, seed=109)[1],
    "two classes rather than three": planted(30, 3, 5, seed=261)[1],
    "three classes though two are less than none": planted(40, 3, 4, seed=110)[1],
}


@pytest.mark.parametrize("case", CASES)
def test_the_fit_is_that_of_the_twin(case: str) -> None:
    counts = CASES[case]
    twin = reference.fit(*flat(counts))
    assert difference(fit_prior(counts), twin.classes) < 1e-7
    room = pooling.new_pool(counts.n_arms)
    pooling.pool(room, *stacked(counts), True)
    tried = {n: evidence for n, evidence in enumerate(room.evidence.tolist()) if evidence > -np.inf}
    assert tried == pytest.approx({0: twin.uniform, **twin.evidence}, rel=1e-12, abs=1e-6)


def test_a_twin_that_ignores_the_chances_of_classes_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def ignorant(visits: AnyArray, good: AnyArray, classes: reference.Classes) -> tuple[float, FloatArray]:
        likelihood, chance = expect(visits, good, classes)
        return likelihood, np.full_like(chance, 1 / chance.shape[1])

    expect = reference.expect
    monkeypatch.setattr(reference, "expect", ignorant)
    for case in ("few visits", "three classes", "many visits"):
        twin = reference.fit(*flat(CASES[case]))
        assert difference(fit_prior(CASES[case]), twin.classes) > 1e-2


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_what_em_climbs_never_falls(case: str) -> None:
    climbs = reference.fit(*flat(CASES[case])).climbs
    assert climbs
    for _, heights in climbs:
        assert np.diff(heights).min(initial=0.0) > -1e-9


@pytest.mark.parametrize("case", ["few visits", "three classes", "many visits", "some never seen", "wide classes"])
def test_the_fit_is_a_top(case: str) -> None:
    # By the formula of the height alone, without any derivative.
    visits, good = flat(CASES[case])
    prior = fit_prior(CASES[case])
    alpha, beta = prior.good.reshape(-1, 4), prior.bad.reshape(-1, 4)
    top = reference.Classes(prior.weights, np.log(alpha / beta), np.log(alpha + beta))
    best = reference.height(visits, good, top)
    for c in range(prior.classes):
        for cell in range(4):
            for away in (-0.2, 0.2):
                tilt, strength = top.tilt.copy(), top.strength.copy()
                tilt[c, cell] += away
                assert reference.height(visits, good, reference.Classes(top.weights, tilt, top.strength)) < best
                strength[c, cell] += 2 * away
                lower = reference.height(visits, good, reference.Classes(top.weights, top.tilt, strength))
                assert lower < best + 1e-3


@pytest.mark.slow
def test_evidence_for_one_class_is_an_integral() -> None:
    # With one class the four cells are apart, and each has an integral over its mean and strength.
    _, counts = planted(60, 1, 8, seed=9)
    visits, good = flat(counts)
    twin = reference.fit(visits, good, max_classes=1)

    def density(x: float, y: float, cell: int, shift: float) -> float:
        k, m = np.exp(reference.SCALE * y + reference.STRENGTH), expit(reference.SCALE * x)
        each = betaln(k * m + good[:, cell], k * (1 - m) + (visits - good)[:, cell]) - betaln(k * m, k * (1 - m))
        return float(np.exp(each.sum() - (x**2 + y**2) / 2 - shift) / (2 * np.pi))

    exact = 0.0
    for cell in range(4):
        shift = float(betaln(1 + good[:, cell], 1 + (visits - good)[:, cell]).sum())
        grid_x, grid_y = np.linspace(-1.5, 0.5, 121), np.linspace(-3, 6, 121)
        values = np.array([[density(x, y, cell, shift) for x in grid_x] for y in grid_y])
        exact += shift + np.log(integrate.trapezoid(integrate.trapezoid(values, grid_x, axis=1), grid_y))
    assert twin.evidence[1] == pytest.approx(exact, abs=0.3)
    assert abs(twin.uniform - exact) > 5


@pytest.mark.parametrize("classes", [1, 2, 3, 4])
def test_planted_classes_are_counted_and_found(classes: int) -> None:
    truth, counts = planted(600, classes, 15, seed=20 + classes)
    prior = fit_prior(counts)
    assert prior.classes == classes
    means = prior.good / (prior.good + prior.bad)
    order = [int(np.abs(mean - truth.good / 30.0).sum((1, 2)).argmin()) for mean in means]
    assert sorted(order) == list(range(classes))
    np.testing.assert_allclose(prior.weights, truth.weights[order], atol=0.08)
    np.testing.assert_allclose(means, truth.good[order] / 30.0, atol=0.05)
    np.testing.assert_allclose(np.log(prior.good + prior.bad), np.log(30.0), atol=1.2)


def test_no_more_classes_than_allowed() -> None:
    _, counts = planted(300, 3, 15, seed=30)
    assert [fit_prior(counts, most).classes for most in (1, 2, 3, 7)] == [1, 2, 3, 3]


@pytest.mark.parametrize("visits", [0, 1, 6, 40, 3_000])
def test_arms_with_nothing_in_common_get_just_the_estimate_mean(visits: int) -> None:
    counts = even(100, visits, seed=40)
    prior = fit_prior(counts)
    assert prior.classes == 1
    np.testing.assert_array_equal(prior.good, 1.0)
    np.testing.assert_array_equal(prior.bad, 1.0)
    np.testing.assert_array_equal(prior.posterior(counts).mean, counts.mean)


@pytest.mark.parametrize("n_arms", [0, 1, 2, 1_000])
def test_without_a_visit_nothing_is_fitted(n_arms: int) -> None:
    nothing = np.zeros((n_arms, 2, 2), np.int64)
    prior = fit_prior(mf.Counts(nothing, nothing))
    assert prior.classes == 1
    np.testing.assert_array_equal([prior.good, prior.bad], 1.0)


@pytest.mark.parametrize(
    ("visits", "good"),
    [
        (np.full((50, 2, 2), 30), np.full((50, 2, 2), 12)),  # all alike
        (np.full((50, 2, 2), 30), np.zeros((50, 2, 2))),  # never good
        (np.full((50, 2, 2), 30), np.full((50, 2, 2), 30)),  # never bad
        (np.full((50, 2, 2), 10**9), np.full((50, 2, 2), 4 * 10**8)),
        (np.full((1, 2, 2), 10**6), np.full((1, 2, 2), 7)),
        (np.full((3, 2, 2), 1), np.eye(2, dtype=int)[None].repeat(3, axis=0)),
        (np.full((40, 2, 2), 5) * np.array([[1, 0], [0, 0]]), np.full((40, 2, 2), 2) * np.array([[1, 0], [0, 0]])),
        (np.arange(80).reshape(20, 2, 2) ** 4, np.arange(80).reshape(20, 2, 2) ** 3),  # from 0 to millions
    ],
)
def test_odd_counts_give_a_prior_all_the_same(visits: AnyArray, good: AnyArray) -> None:
    counts = mf.Counts(visits, good)
    prior = fit_prior(counts)
    mean = prior.posterior(counts).mean
    assert np.all((mean > 0) & (mean < 1))
    assert np.all(np.isfinite([prior.good, prior.bad]))
    assert difference(prior, reference.fit(*flat(counts)).classes) < 1e-4


def test_arms_that_are_all_alike_are_one_class_of_great_strength() -> None:
    counts = mf.Counts(np.full((50, 2, 2), 30), np.full((50, 2, 2), 12))
    prior = fit_prior(counts)
    assert prior.classes == 1
    np.testing.assert_allclose(prior.good / (prior.good + prior.bad), 0.4, atol=0.01)
    assert np.all(prior.good + prior.bad > 100)


def test_what_is_never_seen_stays_open() -> None:
    visits = np.full((80, 2, 2), 20) * np.array([[1, 1], [1, 0]])
    good = np.where(np.arange(80)[:, None, None] < 30, 4, 16) * np.array([[1, 1], [1, 0]])
    prior = fit_prior(mf.Counts(visits, good))
    assert prior.classes == 2
    np.testing.assert_allclose(prior.good[:, 1, 1] / prior.bad[:, 1, 1], 1.0, atol=1e-3)


@pytest.mark.parametrize("case", ["few visits", "three classes", "some never seen", "wide classes", "many visits"])
def test_relabelling_arms_changes_nothing(case: str) -> None:
    counts = CASES[case]
    shuffled = np.random.default_rng(50).permutation(counts.n_arms)
    one, other = fit_prior(counts), fit_prior(mf.Counts(counts.visits[shuffled], counts.good[shuffled]))
    assert one.classes == other.classes
    for name in ("weights", "good", "bad"):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=1e-6)


@pytest.mark.parametrize("case", ["few visits", "three classes", "many visits"])
def test_calling_good_bad_turns_the_prior_around(case: str) -> None:
    counts = CASES[case]
    one, other = fit_prior(counts), fit_prior(mf.Counts(counts.visits, counts.visits - counts.good))
    np.testing.assert_allclose(one.good, other.bad, rtol=1e-6)
    np.testing.assert_allclose(one.bad, other.good, rtol=1e-6)


def test_the_same_counts_give_the_same_bits() -> None:
    counts = CASES["three classes"]
    np.testing.assert_array_equal(fit_prior(counts).good, fit_prior(counts).good)


def test_counts_of_many_runs_and_no_classes_are_refused() -> None:
    counts = mf.Counts(np.ones((2, 3, 2, 2), np.int64), np.ones((2, 3, 2, 2), np.int64))
    with pytest.raises(InputError, match=r"counts .* \(N, 2, 2\), got \(2, 3, 2, 2\)"):
        fit_prior(counts)
    with pytest.raises(InputError, match="max_classes must be at least 1, got 0"):
        fit_prior(mf.Counts.none(3), 0)


@pytest.mark.slow
def test_a_hundred_thousand_arms() -> None:
    truth, counts = planted(100_000, 2, 10, seed=60)
    prior = fit_prior(counts, most_arms=None)
    assert prior.classes == 2
    np.testing.assert_allclose(prior.weights, truth.weights[::-1], atol=0.01)
    np.testing.assert_allclose(prior.good + prior.bad, 30.0, rtol=0.13)  # five standard errors


# ---- the same inside the engine


@kernel_of_tests
def _places(given: FloatArray, places: AnyArray, counts: FloatArray, ends: AnyArray, slots: AnyArray) -> None:
    gammas.find_places(given, places, counts, ends, slots)


def found_places(given: FloatArray) -> tuple[AnyArray, FloatArray, AnyArray]:
    """Return the places of counts, the counts at places, and the ends."""
    places, counts = np.zeros(len(given), np.uint32), np.full(gammas.ROOM + len(given), np.nan)
    ends, slots = np.zeros(2, np.int64), np.full(2 * len(given) + 1, 7, np.uint32)
    _places(given, places, counts, ends, slots)
    return places, counts, ends


def test_each_count_has_one_place() -> None:
    rng = np.random.default_rng(81)
    few = np.r_[0.0, 63.0, 64.0, 1e9, rng.gamma(1.0, 40.0, 500), rng.integers(0, 130, 40), np.arange(1, 300) / 128]
    given = few[rng.integers(0, len(few), 4_000)]
    places, counts, (below, above) = found_places(given)
    counts[: gammas.TABLE] = np.arange(gammas.TABLE)
    np.testing.assert_array_equal(counts[places], given)
    assert len(set(places.tolist())) == len(set(given.tolist()))
    whole, large = given == np.round(given), given >= gammas.TABLE
    np.testing.assert_array_equal(places < gammas.TABLE, whole & ~large)
    np.testing.assert_array_equal(places >= above, large)
    assert set(places[~whole & ~large].tolist()) == set(range(gammas.ROOM, below))
    assert set(places[large].tolist()) == set(range(above, len(counts)))


@pytest.mark.parametrize("n", [0, 1, 2, 500])
def test_there_is_room_for_counts_that_are_all_different(n: int) -> None:
    given = 0.1 + math.pi * np.arange(float(n))
    places, counts, _ = found_places(given)
    np.testing.assert_array_equal(counts[places], given)


@kernel_of_tests
def _gamma(tables: FloatArray, counts: FloatArray, ends: AnyArray, start: float) -> None:
    gammas.tabulate_logs(tables[0], counts, ends, start, gammas.ROOM)
    gammas.tabulate_slopes(tables[1], tables[2], counts, ends, start, gammas.ROOM)
    gammas.tabulate_log_gammas(tables[3], counts, ends, start, gammas.ROOM)


@pytest.mark.parametrize("start", [1e-3, 0.4, 1.0, 7.3, 900.0])
def test_gamma_functions_within_the_tables_and_beyond(start: float) -> None:
    given = np.array([0, 0.3, 1, 2, 7.75, 62, 63, 63.5, 64, 64.2, 65, 66, 1_000, 1e6, *np.arange(0.1, 90.0, 0.9)])
    places, counts, ends = found_places(given)
    tables = np.full((4, len(counts)), np.nan)
    _gamma(tables, counts, ends, start)
    rise, slope, bend, plain = tables[:, places]
    end = start + given
    np.testing.assert_allclose(rise, gammaln(end) - gammaln(start), rtol=1e-12, atol=1e-11)
    np.testing.assert_allclose(slope, digamma(end) - digamma(start), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(bend, polygamma(1, start) - polygamma(1, end), rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(plain, gammaln(end), rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("case", CASES)
def test_the_stage_has_the_numbers_of_the_fitted_prior(case: str) -> None:
    counts = CASES[case]
    visits, good, points = stacked(counts)
    prior = fit_prior(counts)
    assert pooling.pool(pooling.new_pool(counts.n_arms), visits, good, points, True) == prior.classes
    np.testing.assert_allclose(points.transpose(2, 0, 1), prior.posterior(counts).mean, rtol=1e-9)


def test_the_stage_keeps_its_prior_until_it_is_fitted_anew() -> None:
    _, before = planted(70, 2, 4, seed=70)
    _, after = planted(70, 3, 9, seed=71)
    room = pooling.new_pool(70)
    visits, good, points = stacked(before)
    pooling.pool(room, visits, good, points, True)
    visits, good, points = stacked(after)
    assert pooling.pool(room, visits, good, points, False) == 2
    np.testing.assert_allclose(points.transpose(2, 0, 1), fit_prior(before).posterior(after).mean, rtol=1e-9)
    pooling.pool(room, visits, good, points, True)  # from a cold start: nothing of the old prior is left
    for mine, fresh in zip(pooling.fitted_prior(room), vars(fit_prior(after)).values(), strict=True):
        np.testing.assert_array_equal(mine, fresh)


def test_before_the_first_fit_the_prior_is_uniform() -> None:
    counts = even(9, 5, seed=72)
    visits, good, points = stacked(counts)
    assert pooling.pool(pooling.new_pool(9), visits, good, points, False) == 1
    np.testing.assert_allclose(points.transpose(2, 0, 1), counts.mean, rtol=1e-14)


@kernel_of_tests
def _refits(when: AnyArray) -> None:
    for episode in range(1, len(when)):
        when[episode] = pooling.refits_at(episode)


def test_refits_become_rare() -> None:
    when = np.zeros(100_001, np.bool_)
    _refits(when)
    episodes = np.flatnonzero(when)
    assert episodes[:20].tolist() == list(range(1, 21))
    assert [pooling.refits_at(int(episode)) for episode in (19, 20, 21, 22)] == when[19:23].tolist()
    later = episodes[19:]
    assert len(later) < 95
    assert np.all(later[1:] <= 1.1 * later[:-1] + 1)
    assert np.all(later[2:] >= 1.1 * later[:-2])


def test_a_posterior_is_a_value() -> None:
    posterior = TWO.posterior(mf.Counts.none(2))
    assert isinstance(posterior, Posterior)
    with pytest.raises(AttributeError):
        posterior.weights = np.ones((2, 2))  # type: ignore[misc]
    with pytest.warns(DeprecationWarning, match="chance is now weights"):
        assert posterior.chance is posterior.weights


def test_of_many_arms_a_prior_is_fitted_to_some_and_their_order_does_not_matter() -> None:
    rng = np.random.default_rng(3)
    kinds = np.array([[[0.2, 0.6], [0.5, 0.9]], [[0.7, 0.75], [0.9, 0.95]]])[rng.integers(0, 2, 10_000)]
    visits = rng.integers(0, 12, kinds.shape)
    counts = mf.Counts(visits, rng.binomial(visits, kinds))
    some, whole = fit_prior(counts), fit_prior(counts, most_arms=None)
    order = rng.permutation(len(kinds))
    again = fit_prior(mf.Counts(counts.visits[order], counts.good[order]))
    assert np.array_equal(some.good, again.good)
    assert some.classes == whole.classes == 2
    errors = [np.sqrt(np.mean((prior.posterior(counts).mean - kinds) ** 2)) for prior in (some, whole)]
    assert errors[0] < 1.03 * errors[1]  # as good for single arms
    with pytest.raises(InputError, match="most_arms must be at least 1, got 0"):
        fit_prior(counts, most_arms=0)
