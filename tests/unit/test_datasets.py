from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats

import meritfair as mf
from meritfair import datasets

MAKERS = [datasets.synthetic, datasets.synthetic_alternate, datasets.cpap]


@pytest.mark.parametrize("make", MAKERS)
def test_same_seed_same_arms(make: Any) -> None:
    assert make(7, seed=3) == make(7, seed=3)
    assert make(7, seed=3) != make(7, seed=4)
    assert make(7, seed=3) != make(7, seed=3, run=1)
    assert make(7) != make(7)


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("authors", [False, True])
def test_probabilities_stay_epsilon_away_from_certainty(make: Any, authors: bool) -> None:
    arms = make(200, seed=1, epsilon=0.05, authors=authors, budget=20 if authors else None)
    assert arms.epsilon >= 0.05 - 1e-12


def test_synthetic_is_uniform() -> None:
    P = datasets.synthetic(5000, seed=1, epsilon=0.0).transitions
    assert stats.kstest(P.ravel(), "uniform").pvalue > 1e-4


def test_alternate_satisfies_both_constraints_and_is_uniform_under_them() -> None:
    P = datasets.synthetic_alternate(4000, seed=1, epsilon=0.0).transitions
    assert (P[:, :, 1] >= P[:, :, 0]).all()
    assert (P[:, 1, :] >= P[:, 0, :]).all()
    rng = np.random.default_rng(2)
    drawn = rng.random((60_000, 2, 2))  # the same by rejection
    kept = drawn[(drawn[:, :, 1] >= drawn[:, :, 0]).all(axis=1) & (drawn[:, 1] >= drawn[:, 0]).all(axis=1)]
    for s in (0, 1):
        for a in (0, 1):
            assert stats.ks_2samp(P[:, s, a], kept[:, s, a]).pvalue > 1e-4
    assert stats.ks_2samp(P[:, 0, 1] - P[:, 1, 0], kept[:, 0, 1] - kept[:, 1, 0]).pvalue > 1e-4


def test_the_authors_alternate_breaks_the_first_constraint_at_times() -> None:
    broken = 0
    for seed in range(1, 31):
        P = datasets.synthetic_alternate(10, seed=seed, budget=2, authors=True).transitions
        assert (P[:, 1, :] >= P[:, 0, :]).all()
        broken += int((P[:, :, 1] < P[:, :, 0]).sum())
    assert broken > 0


def test_cpap_without_noise_is_the_model_of_the_paper() -> None:
    arms = datasets.cpap(10, seed=1, noise=0.0, epsilon=0.0)
    np.testing.assert_allclose(arms.transitions[2], [[0.2576, 0.28336], [0.4278, 0.47058]], atol=1e-12)
    np.testing.assert_allclose(arms.transitions[3], [[0.9615, 1.0], [0.9743, 1.0]], atol=1e-12)
    assert arms.names[2:4] == ("non-adherer-3", "adherer-1")


@pytest.mark.parametrize(
    ("variant", "first", "second", "share"),
    [
        ("probfair", (0.234, 0.666), (0.269, 0.828), 0.3),
        ("probfair-sex", (0.351, 0.853), (0.214, 0.791), 0.5),
    ],
)
def test_second_cpap_model(variant: str, first: tuple[float, float], second: tuple[float, float], share: float) -> None:
    arms = datasets.cpap(10, seed=1, variant=variant, noise=0.0)
    number = int(10 * share)
    np.testing.assert_allclose(arms.transitions[number - 1, :, 0], first, atol=1e-12)
    np.testing.assert_allclose(arms.transitions[number, :, 0], second, atol=1e-12)
    pulled = np.minimum(1.0, 1.1 * arms.transitions[:, :, 0])
    np.testing.assert_allclose(arms.transitions[:, :, 1], pulled, atol=1e-12)


@pytest.mark.parametrize("noise", [None, 0.3, 3.0])
@pytest.mark.parametrize("variant", ["probfair", "probfair-sex"])
def test_nobody_is_harmed_by_a_pull_or_a_good_state_in_the_second_model(variant: str, noise: float | None) -> None:
    for seed in range(40):
        arms = datasets.cpap(50, seed, variant=variant, noise=noise)
        assert (np.diff(arms.transitions, axis=1) >= 0).all()  # a good state
        assert (np.diff(arms.transitions, axis=2) >= 0).all()  # a pull
        assert arms.benefit.min() >= 0


def logits(arms: mf.Arms) -> npt.NDArray[np.float64]:
    return np.asarray(np.log(arms.transitions / (1 - arms.transitions)))


def test_noise_of_the_second_model_is_normal_but_for_those_drawn_again_and_one_sided_for_non_adherers() -> None:
    how: dict[str, Any] = {"variant": "probfair", "epsilon": 0.0}
    noise = logits(datasets.cpap(20_000, 1, **how)) - logits(datasets.cpap(20_000, 1, noise=0.0, **how))
    non_adherers, general = noise[:6000], noise[6000:]
    assert non_adherers.max() <= 0
    assert general.max() > 2.5
    # Twice the draws, by the definition: of normal noise with a standard deviation of 1, those that harm nobody.
    rng = np.random.default_rng(0)
    drawn = rng.standard_normal((120_000, 2, 2))
    for kept, base, found in ((-np.abs(drawn), (0.234, 0.666), non_adherers), (drawn, (0.269, 0.828), general)):
        still = np.array([[p, 1.1 * p] for p in base])
        there = np.log(still / (1 - still)) + kept
        fine = (np.diff(there, axis=1) > 0).all(axis=(1, 2)) & (np.diff(there, axis=2) > 0).all(axis=(1, 2))
        expected = kept[fine]
        for moment in (1, 2):
            sd = (expected**moment).std(axis=0) * np.sqrt(1 / len(found) + 1 / len(expected))
            gap = (found**moment).mean(axis=0) - (expected**moment).mean(axis=0)
            assert np.abs(gap / sd).max() < 4.6  # 16 comparisons at an overall level of 1e-4


def test_the_noise_of_each_model_has_its_own_default() -> None:
    assert datasets.cpap(20, 1) == datasets.cpap(20, 1, noise=0.1)
    assert datasets.cpap(20, 1, variant="probfair") == datasets.cpap(20, 1, variant="probfair", noise=1.0)


def test_cpap_parameters_do_what_they_say() -> None:
    arms = datasets.cpap(10, seed=1, non_adherers=0.5, improvement=1.5, noise=0.0, epsilon=0.0)
    assert sum(name.startswith("non") for name in arms.names) == 5
    assert arms.transitions[0, 0, 1] == pytest.approx(1.5 * 0.2576)
    noisy = datasets.cpap(4000, seed=1, non_adherers=1.0, noise=0.05).transitions
    assert noisy[:, 1, 0].std() == pytest.approx(0.05, rel=0.1)


def test_instances_give_each_run_its_own_arms() -> None:
    made = datasets.instances("synthetic_alternate", 4, 3, seed=9)
    assert len(set(made)) == 3
    assert made[1] == datasets.synthetic_alternate(4, 9, run=1)
    theirs = datasets.instances("cpap", 5, 2, authors=True, budget=1)
    assert theirs[1] == datasets.cpap(5, 2, authors=True, budget=1)
    assert datasets.instances("synthetic_alternate", 4, 2, seed=9, first_run=1) == made[1:]
    assert datasets.instances("cpap", 5, 1, authors=True, budget=1, first_run=1) == theirs[1:]


def test_arms_of_an_instance_of_the_authors_can_share_a_generator() -> None:
    normal = np.random.RandomState(10 * 2 * 3).normal(0.0, 0.1, (10, 2, 2))  # N K times the seed number
    still = datasets.cpap(10, noise=0.0, epsilon=0.0).transitions
    made = datasets.cpap(10, 3, budget=2, authors=True, reseed=False).transitions
    np.testing.assert_allclose(made, np.clip(still + normal, 0.01, 0.99), atol=1e-12)
    assert not np.allclose(made, datasets.cpap(10, 3, budget=2, authors=True).transitions)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: datasets.synthetic(0), "n_arms must be at least 1, got 0"),
        (lambda: datasets.synthetic(2.5), "n_arms must be a whole number, got 2.5"),  # type: ignore[arg-type]
        (lambda: datasets.synthetic(3, -1), "seed must be at least 0, got -1"),
        (lambda: datasets.synthetic(3, epsilon=0.7), "epsilon must lie between 0 and 0.5, got 0.7"),
        (lambda: datasets.synthetic(3, 1, authors=True), "authors=True needs budget and seed"),
        (lambda: datasets.synthetic(3, authors=True, budget=1), "authors=True needs budget and seed"),
        (lambda: datasets.synthetic(3, 1, authors=True, budget=4), "budget must be between 1 and the 3 arms, got 4"),
        (lambda: datasets.synthetic_alternate(3, 0, authors=True, budget=1), "seed must be at least 1, got 0"),
        (lambda: datasets.cpap(3, variant="knag"), "did you mean 'kang'"),
        (lambda: datasets.cpap(3, noise=-0.1), "noise must be at least 0, got -0.1"),
        (lambda: datasets.cpap(3, non_adherers=1.5), "non_adherers must lie between 0 and 1, got 1.5"),
        (lambda: datasets.cpap(3, 1, variant="probfair", authors=True, budget=1), "needs the variant 'kang'"),
        (
            lambda: datasets.cpap(3, 1, variant="probfair", improvement=0.5, noise=0.0),
            "improvement and noise must be such that a pull helps, got 0.5 and 0: .* general-1",
        ),
        (lambda: datasets.instances("sintetic", 3, 2), "no data set 'sintetic', did you mean 'synthetic'"),
        (lambda: datasets.instances("zzz", 3, 2), "there are synthetic, synthetic-alternate, cpap"),
        (lambda: datasets.instances("cpap", 3, 0), "runs must be at least 1, got 0"),
        (lambda: datasets.instances("cpap", 3, 1, first_run=-1), "first_run must be at least 0, got -1"),
    ],
)
def test_bad_parameters_are_refused(call: Any, message: str) -> None:
    with pytest.raises(mf.InputError, match=message):
        call()


@pytest.mark.parametrize("make", [mf.datasets.synthetic, mf.datasets.synthetic_alternate, mf.datasets.cpap])
def test_a_flag_is_true_or_false(make: Any) -> None:
    with pytest.raises(mf.InputError, match="authors must be true or false, got 'no'"):
        make(3, 1, authors="no", budget=1)
    with pytest.raises(mf.InputError, match="authors must be true or false, got 'no'"):
        mf.datasets.instances(make.__name__, 3, 2, 1, authors="no", budget=1)  # type: ignore[arg-type]
