"""Features of arms: what is refused and repaired, the numbers they become, and the classes they predict."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

import meritfair as mf
from meritfair.core.arrays import FloatArray
from meritfair.core.errors import InputError
from meritfair.model.by_feature import by_feature, class_words, groups
from meritfair.model.class_weights import (
    Classes,
    Tally,
    climb,
    fit_logit,
    fit_weights,
    height,
    logit_gradient,
)
from meritfair.model.features import LEAST_ARMS, MOST_LEVELS, Encoding, Features
from meritfair.model.gaps import Gaps, posterior
from meritfair.model.posterior import fit_prior
from reference import pooling as reference

PRIOR = mf.Prior(
    [0.4, 0.6],
    [[[2.0, 8.0], [5.0, 9.0]], [[7.0, 8.0], [9.0, 9.0]]],
    [[[8.0, 2.0], [5.0, 1.0]], [[3.0, 2.0], [1.0, 1.0]]],
)


def planted(n_arms: int, seed: int, right: float = 0.9, visits: float = 6.0) -> tuple[mf.Counts, Features, FloatArray]:
    """Return counts of arms of two classes, a feature that names the class so often, and the probabilities."""
    rng = np.random.default_rng(seed)
    second = rng.random(n_arms) < PRIOR.weights[1]
    P = rng.beta(PRIOR.good[second.astype(int)], PRIOR.bad[second.astype(int)])
    seen = rng.poisson(visits, P.shape)
    told = np.where(second ^ (rng.random(n_arms) > right), "south", "north").tolist()
    return mf.Counts(seen, rng.binomial(seen, P)), Features({"area": told}), P


# ---- values


@pytest.mark.parametrize(
    ("columns", "problem"),
    [
        ({"age": [1, float("inf")]}, "the feature 'age' must be finite, got inf"),
        ({"age": [1, [2]]}, r"the feature 'age' must be text or a number, got \[2\]"),
        ({"age": [1, 2], "sex": ["f"]}, "the feature 'sex' must have one value for each of the 2 arms, got 1"),
        ({"age": "34"}, "the feature 'age' must have a value for each arm, got '34'"),
        ({"age": 34}, "the feature 'age' must have a value for each arm, got 34"),
        ({"": [1]}, "the name of a feature must be text of at most 200 characters, got ''"),
        ({3: [1]}, "the name of a feature must be text of at most 200 characters, got 3"),
        ({"note": ["x" * 201]}, "the feature 'note' must have at most 200 characters, got 201"),
        ([1], "features must be a mapping of names to values, got list"),
    ],
)
def test_what_is_not_a_feature_is_refused(columns: Any, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        Features(columns)


def test_values_become_text_and_what_is_missing_is_empty() -> None:
    given = [None, float("nan"), pd.NA, "", "  ", 3, 3.0, 3.5, True, np.int64(7), " Hindi "]
    assert Features({"x": given})["x"] == ("", "", "", "", "", "3", "3", "3.5", "True", "7", "Hindi")


def test_a_name_that_there_is_not_is_refused_with_those_there_are() -> None:
    known = Features({"age": [1], "district": ["a"]})
    with pytest.raises(InputError, match="there is no feature 'distric', did you mean 'district'"):
        known.only(["distric"])
    with pytest.raises(InputError, match="there is no feature 'zzz': there are age, district"):
        known["zzz"]


def test_some_features_and_some_arms() -> None:
    known = Features({"age": [1, 2, 3], "sex": ["f", "m", ""]})
    assert known.rows([2, 0]) == Features({"age": [3, 1], "sex": [None, "f"]})
    assert known.only(["sex"]).names == ("sex",)
    assert known.numeric == {"age"}
    assert hash(known) == hash(Features({"age": ["1", "2", "3"], "sex": ["f", "m", None]}))


# ---- numbers


def test_numbers_are_standardised_and_what_is_far_away_counts_as_three() -> None:
    known = Features({"age": [20, 30, 40, 50]})
    encoding = Encoding.of(known)
    np.testing.assert_allclose(encoding.encode(known)[:, 0], np.array([-15, -5, 5, 15]) / np.sqrt(125))
    newcomers = Features({"age": [35, 900, -900, None, "old"]})
    np.testing.assert_allclose(encoding.encode(newcomers)[:, 0], [0, 3, -3, 0, 0])
    assert encoding.unknown(newcomers) == {"age": 1}


def test_levels_are_columns_less_their_means_and_rare_or_new_ones_are_not_known() -> None:
    known = Features({"area": ["n"] * 6 + ["s"] * 3 + ["rare"] * (LEAST_ARMS - 1)})
    encoding = Encoding.of(known)
    assert [column.level for column in encoding.columns] == ["n", "s"]
    x = encoding.encode(known)
    np.testing.assert_allclose(x[0], [1 / 3, -1 / 3])
    np.testing.assert_allclose(x[:9].mean(axis=0), 0, atol=1e-15)
    np.testing.assert_array_equal(x[9:], 0)
    assert encoding.unknown(known) == {"area": LEAST_ARMS - 1}
    np.testing.assert_array_equal(encoding.encode(Features({"area": ["new", None]})), 0)
    assert encoding.unknown(Features({"area": ["new", None, "n"]})) == {"area": 1}


def test_that_a_value_is_missing_is_a_column_if_enough_lack_it() -> None:
    known = Features({"age": [20, 30, 40, 50, None, None, None], "area": ["n"] * 3 + ["s"] * 3 + [None]})
    encoding = Encoding.of(known)
    assert [(column.feature, column.kind) for column in encoding.columns] == [
        ("age", "number"),
        ("age", "missing"),
        ("area", "level"),
        ("area", "level"),
    ]
    np.testing.assert_allclose(encoding.encode(known)[:, 1], np.r_[np.full(4, -3 / 7), np.full(3, 4 / 7)])
    np.testing.assert_array_equal(encoding.encode(known)[6, 2:], 0)


def test_a_feature_in_which_all_are_alike_has_no_columns() -> None:
    known = Features({"country": ["in"] * 5, "year": [3] * 5, "none": [None] * 5, "id": list("abcde")})
    assert Encoding.of(known).columns == ()
    assert Encoding.of(known).encode(known).shape == (5, 0)


def test_too_many_levels_are_refused() -> None:
    names = [f"p{i}" for i in range(MOST_LEVELS + 1)]
    with pytest.raises(
        InputError, match=f"'id' must have at most {MOST_LEVELS} different values, got {MOST_LEVELS + 1}"
    ):
        Encoding.of(Features({"id": names}))


def test_the_encoding_does_not_depend_on_the_order_of_arms() -> None:
    rng = np.random.default_rng(1)
    known = Features({"age": rng.normal(50, 12, 40).tolist(), "area": rng.choice(["a", "b", ""], 40).tolist()})
    assert Encoding.of(known) == Encoding.of(known.rows(rng.permutation(40)))


# ---- the logit and EM


def numeric_gradient(function: Callable[[FloatArray], float], at: FloatArray, step: float = 1e-5) -> FloatArray:
    slopes = np.empty(at.size)
    for i in range(at.size):
        move = np.zeros(at.size)
        move[i] = step
        slopes[i] = (function(at + move.reshape(at.shape)) - function(at - move.reshape(at.shape))) / (2 * step)
    return slopes.reshape(at.shape)


def logit_height(B: FloatArray, r: FloatArray, x: FloatArray, ridge: float) -> float:
    """Return what the logit maximises, in other words than the program."""
    z = B[0] + x @ B[1:]
    log_w = z - np.log(np.exp(z).sum(axis=1, keepdims=True))
    average = B[0] - np.log(np.exp(B[0]).sum())
    return float((r * log_w).sum() + average.sum() - ridge / 2 * (B[1:] ** 2).sum())


@pytest.mark.parametrize("n_classes", [2, 3, 4])
def test_the_logit_ends_where_the_gradient_is_zero(n_classes: int) -> None:
    rng = np.random.default_rng(n_classes)
    x, r = rng.normal(size=(60, 3)), rng.dirichlet(np.full(n_classes, 0.4), 60)
    here = rng.normal(size=(4, n_classes))
    np.testing.assert_allclose(
        logit_gradient(x, here, r, 0.7), numeric_gradient(lambda B: logit_height(B, r, x, 0.7), here), atol=1e-6
    )
    best = fit_logit(r, x, 0.7, np.zeros((4, n_classes)))
    np.testing.assert_allclose(numeric_gradient(lambda B: logit_height(B, r, x, 0.7), best), 0, atol=1e-4)
    np.testing.assert_allclose(logit_gradient(x, best, r, 0.7), 0, atol=1e-5)
    again = fit_logit(r, x, 0.7, rng.normal(size=(4, n_classes)))
    np.testing.assert_allclose(best[1:], again[1:] - again[1:].mean(axis=1, keepdims=True), atol=1e-4)
    for away in rng.normal(0, 0.1, (20, 4, n_classes)):
        assert logit_height(best + away, r, x, 0.7) < logit_height(best, r, x, 0.7) + 1e-9


def test_for_classes_that_stay_the_sum_is_at_a_maximum() -> None:
    rng = np.random.default_rng(5)
    x, evidence = rng.normal(size=(80, 2)), rng.normal(0, 2, (80, 3))

    def total(B: FloatArray) -> float:
        z = B[0] + x @ B[1:]
        w = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
        average = np.exp(B[0]) / np.exp(B[0]).sum()
        penalty = 0.5 * (B[1:] ** 2).sum()
        return float(np.log((w * np.exp(evidence)).sum(axis=1)).sum() + np.log(average).sum() - penalty)

    best = fit_weights(evidence, x, 1.0, np.zeros((3, 3)), enough=1e-12)
    np.testing.assert_allclose(numeric_gradient(total, best), 0, atol=1e-4)


def test_what_em_climbs_without_features_is_what_the_engine_climbs() -> None:
    counts, _, _ = planted(50, 1)
    alpha, beta = PRIOR.good.reshape(2, 4), PRIOR.bad.reshape(2, 4)
    twin = reference.Classes(PRIOR.weights, np.log(alpha / beta), np.log(alpha + beta))
    own = Classes.of(PRIOR.weights, PRIOR.good, PRIOR.bad, 0)
    expected = reference.height(counts.visits.reshape(-1, 4), counts.good.reshape(-1, 4), twin)
    assert height(Tally(counts), np.zeros((50, 0)), own, 1.0) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("fraction", [1.0, 0.83])
def test_the_sum_grows_at_each_step_of_em_and_ends_where_its_gradient_is_zero(fraction: float) -> None:
    counts, features, _ = planted(120, 2)
    counts = mf.Counts(fraction * counts.visits, fraction * counts.good)
    x, tally = Encoding.of(features).encode(features), Tally(counts)
    start = Classes.of(
        np.array([0.5, 0.5]), np.array([[[2.0, 3], [3, 4]], [[4, 4], [5, 6]]]), np.full((2, 2, 2), 3.0), 2
    )
    end, heights = climb(tally, x, start, 1.0, steps=2000, enough=1e-11)
    assert len(heights) > 10
    assert np.all(np.diff(heights) >= 0)
    for part in ("tilt", "strength", "coefficients"):

        def total(values: FloatArray, part: str = part) -> float:
            return height(tally, x, Classes(**{**vars(end), part: values}), 1.0)

        np.testing.assert_allclose(numeric_gradient(total, getattr(end, part)), 0, atol=2e-3)
        assert np.abs(numeric_gradient(total, getattr(start, part) + 0.3)).max() > 0.1  # it could fail


# ---- the prior


def test_a_useless_feature_leaves_the_estimate_as_it_is_to_the_last_bit() -> None:
    counts, _, _ = planted(80, 3)
    rng = np.random.default_rng(3)
    useless = Features({"coin": rng.choice(["a", "b"], 80).tolist(), "number": rng.normal(size=80).tolist()})
    found = mf.fit_feature_prior(counts, useless)
    assert found.used == ()
    assert set(found.gains) == {"coin", "number"}
    np.testing.assert_array_equal(found.posterior(counts, useless).mean, fit_prior(counts).posterior(counts).mean)
    np.testing.assert_array_equal(found.of(useless).posterior(counts).mean, fit_prior(counts).posterior(counts).mean)
    np.testing.assert_array_equal(found.weights_of(useless)[0], fit_prior(counts).weights)


@pytest.mark.parametrize("n_arms", [1, 5, 12])
def test_few_arms_and_arms_of_which_nothing_was_seen_are_in_order(n_arms: int) -> None:
    features = Features({"area": (["n", "s"] * n_arms)[:n_arms]})
    nothing = mf.Counts.none(n_arms)
    found = mf.fit_feature_prior(nothing, features)
    assert found.used == ()
    np.testing.assert_array_equal(found.posterior(nothing, features).mean, 0.5)


def test_a_feature_that_tells_is_used_and_newcomers_are_estimated_by_it() -> None:
    counts, features, _ = planted(150, 4)
    found = mf.fit_feature_prior(counts, features)
    assert found.used == ("area",)
    assert found.gains["area"] > 10
    newcomers = Features({"area": ["north", "south", "east", None]})
    weights = found.weights_of(newcomers)
    np.testing.assert_allclose(weights.sum(axis=1), 1)
    np.testing.assert_array_equal(weights[2], weights[3])  # a new level is as one that is missing
    np.testing.assert_allclose(weights[3], found.weights)
    after = found.posterior(mf.Counts.none(4), newcomers)
    np.testing.assert_allclose(after.weights, weights)
    np.testing.assert_allclose(after.mean, np.einsum("nc,csa->nsa", weights, found.good / (found.good + found.bad)))
    assert np.abs(after.mean[0] - after.mean[1]).max() > 0.3


def test_the_weights_of_arms_are_updated_by_bayes_rule() -> None:
    counts, features, _ = planted(100, 5)
    found = mf.fit_feature_prior(counts, features)
    each = [
        mf.Prior(weights, found.good, found.bad).posterior(mf.Counts(counts.visits[[i]], counts.good[[i]])).weights[0]
        for i, weights in enumerate(found.weights_of(features))
    ]
    np.testing.assert_allclose(found.posterior(counts, features).weights, each)


def test_relabelling_arms_relabels_the_answer() -> None:
    counts, features, _ = planted(90, 6)
    rng = np.random.default_rng(6)
    features = Features({**features.columns, "age": rng.normal(50, 9, 90).tolist()})
    order = rng.permutation(90)
    one = mf.fit_feature_prior(counts, features)
    other = mf.fit_feature_prior(mf.Counts(counts.visits[order], counts.good[order]), features.rows(order))
    np.testing.assert_array_equal(one.coefficients, other.coefficients)
    np.testing.assert_array_equal(one.good, other.good)
    assert one.gains == other.gains
    np.testing.assert_array_equal(
        one.posterior(counts, features).mean[order],
        other.posterior(mf.Counts(counts.visits[order], counts.good[order]), features.rows(order)).mean,
    )


def test_gaps_know_the_weights_of_each_arm() -> None:
    counts, features, _ = planted(60, 7)
    counts = mf.Counts(np.r_[counts.visits[:-1], np.zeros((1, 2, 2))], np.r_[counts.good[:-1], np.zeros((1, 2, 2))])
    found = mf.fit_feature_prior(counts, features)
    gaps = Gaps(np.array([0]), np.array([0]), np.array([1]), np.array([0, 2]), np.array([0, 1]))
    after = posterior(found.of(features), counts, gaps)
    drawn = np.mean(after.draw(np.random.default_rng(1), 4000), axis=0)
    np.testing.assert_allclose(drawn[-1], found.posterior(counts, features).mean[-1], atol=0.03)
    common = mf.Prior(found.weights, found.good, found.bad).posterior(counts).mean[-1]
    assert np.abs(drawn[-1] - common).max() > 0.06  # it could fail


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda c, f: mf.fit_feature_prior(c, f.rows([0])), "features must be of the 20 arms, got those of 1"),
        (
            lambda c, f: mf.FeaturePrior([1.0], np.ones((1, 2, 2)), np.ones((1, 2, 2)), Encoding((), ()), [[1.0]]),
            r"coefficients must be finite numbers of shape \(0, 1\), got shape \(1, 1\)",
        ),
    ],
)
def test_what_does_not_fit_together_is_refused(make: Any, problem: str) -> None:
    counts, features, _ = planted(20, 8)
    with pytest.raises(InputError, match=problem):
        make(counts, features)


def test_counts_of_other_arms_are_refused() -> None:
    counts, features, _ = planted(150, 4)
    found = mf.fit_feature_prior(counts, features)
    with pytest.raises(InputError, match=r"counts must be of the 150 arms, got shape \(3, 2, 2\)"):
        found.posterior(mf.Counts.none(3), features)


def test_planted_coefficients_are_recovered_as_arms_become_many() -> None:
    """Weights softmax(B x) with a numeric feature; the error of the log-odds falls about as one over the root of N."""
    slope, errors = 1.2, []
    for n_arms in (250, 1000, 2000):
        rng = np.random.default_rng(11)
        z = rng.normal(size=n_arms)
        second = rng.random(n_arms) < 1 / (1 + np.exp(-(0.3 + slope * z)))
        P = rng.beta(PRIOR.good[second.astype(int)], PRIOR.bad[second.astype(int)])
        seen = rng.poisson(12, P.shape)
        counts, features = mf.Counts(seen, rng.binomial(seen, P)), Features({"z": z.tolist()})
        found = mf.fit_feature_prior(counts, features)
        assert (found.used, found.classes) == (("z",), 2)
        w = found.weights_of(Features({"z": [-1.0, 0.0, 1.0]}))
        which = int(np.argmax(found.good[:, 0, 0] / (found.good + found.bad)[:, 0, 0]))  # the planted second class
        odds = np.log(w[:, which] / w[:, 1 - which])
        errors.append(float(np.abs(odds - (0.3 + slope * np.array([-1.0, 0.0, 1.0]))).max()))
    assert errors[-1] < 0.25, errors
    assert errors[-1] < errors[0] + 0.05, errors


# ---- tables


def test_due_by_feature_is_the_mean_over_those_with_each_value() -> None:
    rng = np.random.default_rng(9)
    known = Features({"age": [*range(40), None], "area": rng.choice(["n", "s"], 41).tolist()})
    exposure, benefit = rng.random(41), rng.normal(size=41)
    rows = by_feature(known, exposure, benefit)
    assert [row["value"] for row in rows] == ["0 to 9", "10 to 19", "20 to 29", "30 to 39", "not known", "n", "s"]
    assert rows[1]["exposure"] == pytest.approx(exposure[10:20].mean())
    north = np.array(known["area"]) == "n"
    assert (rows[5]["arms"], rows[5]["benefit"]) == (north.sum(), pytest.approx(benefit[north].mean()))
    assert sorted(np.concatenate([places for _, places in groups(known, "age")])) == list(range(41))


def test_words_tell_what_goes_with_a_class() -> None:
    known = Features({"area": ["n"] * 5 + [None] * 5, "coin": ["a", "b"] * 5})
    weights = np.repeat([[1.0, 0.0], [0.0, 1.0]], 5, axis=0)
    first, second = class_words(known.only(["area"]), weights)
    assert (first, second) == ("area n 100 % (all 50 %)", "area not known 100 % (all 50 %)")


def test_arms_carry_their_features() -> None:
    arms = mf.Arms(np.full((2, 2, 2), 0.005), ["Ada", "Bo"], {"age": [30, 40]})
    assert arms.features == Features({"age": [30, 40]})
    assert arms.clip(0.01).features == arms.features
    assert arms != mf.Arms(arms.transitions, arms.names)
    assert mf.Arms(arms.transitions, arms.names).features is None
    with pytest.raises(InputError, match="'age' must have one value for each of the 2 arms, got 1"):
        mf.Arms(np.full((2, 2, 2), 0.5), features={"age": [3]})


# ---- fits


def log_of(counts_seed: int = 1, n_arms: int = 60, rounds: int = 20, **more: Any) -> mf.StateLog:
    """Return a log of two kinds of arms with a feature that tells, a coin, and one that is forbidden."""
    rng = np.random.default_rng(counts_seed)
    kind = rng.random(n_arms) < 0.4
    P = np.where(kind[:, None, None], [[0.2, 0.7], [0.5, 0.9]], [[0.6, 0.65], [0.8, 0.85]])
    area = np.where(kind ^ (rng.random(n_arms) < 0.1), "north", "south")
    coin, gender = rng.choice(["a", "b"], n_arms), np.where(kind ^ (rng.random(n_arms) < 0.2), "f", "m")
    states, rows = rng.integers(0, 2, n_arms), []
    for t in range(rounds):
        actions = (rng.random(n_arms) < 0.3).astype(int)
        rows += [(f"p{i}", t, states[i], actions[i], area[i], coin[i], gender[i]) for i in range(n_arms)]
        states = (rng.random(n_arms) < P[np.arange(n_arms), states, actions]).astype(int)
    arm, number, state, action, *features = (list(column) for column in zip(*rows, strict=True))
    columns = dict(zip(("area", "coin", "gender"), features, strict=True))
    return mf.StateLog(arm, number, state, action, features=columns, **more)


def test_a_fit_with_features_shows_them_all_and_uses_those_that_may_and_help() -> None:
    log = log_of()
    found = mf.fit(log, budget=6, features=["area", "coin"], never=["gender"], method="delta")
    assert found.settings["estimate"] == "pooled"
    assert (found.settings["features"], found.settings["never"]) == (["area", "coin"], ["gender"])
    assert found.used_features == ("area",)
    assert set(found.feature_gains) == {"area", "coin"}
    assert "by area" in found.description
    assert {row["feature"] for row in found.due_by_feature} == {"area", "coin", "gender"}
    assert len(found.class_features) == found.posterior.weights.shape[1]
    assert found.rows()[0]["gender"] in "fm"
    assert found.feature_prior is not None
    means = found.feature_prior.good / (found.feature_prior.good + found.feature_prior.bad)
    np.testing.assert_allclose(found.class_benefits, mf.benefit(means))
    direct = mf.fit_feature_prior(log.counts, Features(log.features).only(["area", "coin"]))
    np.testing.assert_array_equal(found.estimate, direct.posterior(log.counts, Features(log.features)).mean)


def test_a_fit_without_features_is_as_it_was() -> None:
    log = log_of()
    plain = mf.StateLog([log.arms[i] for i in log.arm], log.rounds, log.states, log.actions)
    one, other = mf.fit(log, estimate="pooled", method="delta"), mf.fit(plain, estimate="pooled", method="delta")
    np.testing.assert_array_equal(one.estimate, other.estimate)
    assert one.feature_prior is None
    assert (other.due_by_feature, other.feature_gains, other.class_features, other.class_benefits) == ([], {}, [], [])


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"features": ["are"]}, "there is no feature 'are', did you mean 'area'?"),
        ({"features": ["zzz"]}, "there is no feature 'zzz': there are area, coin, gender"),
        ({"never": ["sex"]}, "there is no feature 'sex': there are area, coin, gender"),
        ({"features": ["area"], "never": ["area"]}, "the feature 'area' cannot both predict and never predict"),
        ({"features": ["area"], "estimate": "mean"}, "features need the estimate 'pooled', got 'mean'"),
        ({"features": "area"}, "features and never must be lists of names, got 'area'"),
    ],
)
def test_a_fit_refuses_features_that_it_cannot_use(settings: Any, problem: str) -> None:
    with pytest.raises(InputError) as error:
        mf.fit(log_of(rounds=3), **settings)
    assert problem in str(error.value)


def test_counts_have_no_features() -> None:
    with pytest.raises(InputError, match="there is no feature 'age': a log has features, if it is read with them"):
        mf.fit(mf.Counts.none(3), features=["age"])


def test_a_feature_by_the_name_of_another_column_is_refused() -> None:
    log = mf.StateLog(["a", "a"], [1, 2], [0, 1], [1, 0], features={"seen": [1, 1]})
    with pytest.raises(InputError, match="a feature must not be called 'seen'"):
        mf.fit(log).rows()
