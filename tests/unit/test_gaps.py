from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import meritfair as mf
from meritfair.model.gaps import Gaps, fill, log_likelihood, posterior
from meritfair.model.posterior import Prior, fit_prior
from reference.gaps import path_counts, product_entry


def gaps_of(rows: list[tuple[int, int, int, list[int]]], **more: Any) -> Gaps:
    """Return gaps from (arm, start, end, actions)."""
    arm, start, end, actions = zip(*rows, strict=True)
    first = np.cumsum([0, *map(len, actions)])
    return Gaps(arm, start, end, first, np.concatenate(actions), **more)  # type: ignore[arg-type]


def some_log(
    n_arms: int, rounds: int, missing: float, seed: int, *, pulled_only: bool = False
) -> tuple[mf.StateLog, Any]:
    """Return a log in which states are missing, and the true transitions."""
    rng = np.random.default_rng(seed)
    truth, now = rng.uniform(0.05, 0.95, (n_arms, 2, 2)), rng.integers(0, 2, n_arms)
    states, actions = np.empty((2, rounds, n_arms), np.int64)
    for t in range(rounds):
        states[t], actions[t] = now, rng.random(n_arms) < 0.3
        now = (rng.random(n_arms) < truth[np.arange(n_arms), now, actions[t]]).astype(int)
    seen = actions == 1 if pulled_only else rng.random(states.shape) >= missing
    arms, when = np.tile(np.arange(n_arms), rounds), np.repeat(np.arange(rounds), n_arms)
    return mf.StateLog(arms, when, np.where(seen, states, -1).ravel(), actions.ravel()), truth


@given(
    st.lists(st.integers(0, 1), min_size=2, max_size=7),
    st.integers(0, 1),
    st.integers(0, 1),
    st.lists(st.floats(0.01, 0.99), min_size=4, max_size=4),
)
def test_expected_counts_are_those_of_all_paths(actions: list[int], start: int, end: int, cells: list[float]) -> None:
    P = np.reshape(cells, (2, 2))
    likelihood, counts = path_counts(P, start, end, actions)
    assert likelihood == pytest.approx(product_entry(P, start, end, actions), rel=1e-12)
    nothing, gaps = mf.Counts.none(1), gaps_of([(0, start, end, actions)])
    assert log_likelihood(P[None], nothing, gaps)[0] == pytest.approx(np.log(likelihood), abs=1e-9)
    strong = 1e12  # a prior that holds the estimate where it is, so that one step of EM shows the expected counts
    filled = fill(nothing, gaps, strong * P[None], strong * (1 - P[None]))
    np.testing.assert_allclose(filled.expected.good[0], counts[..., 1], atol=1e-9)
    np.testing.assert_allclose(filled.expected.visits[0], counts.sum(axis=-1), atol=1e-9)


def height(P: Any, counts: mf.Counts, gaps: Gaps) -> Any:
    """Return what EM climbs, for each arm: the likelihood, and one good and one bad outcome for each cell."""
    return log_likelihood(P, counts, gaps) + (np.log(P) + np.log1p(-P)).sum(axis=(-2, -1))


@pytest.mark.parametrize(("missing", "pulled_only"), [(0.3, False), (0.6, False), (0.0, True)])
def test_the_gradient_is_zero_at_the_fixed_point_and_it_is_a_maximum(missing: float, pulled_only: bool) -> None:
    log, _ = some_log(30, 60, missing, seed=3, pulled_only=pulled_only)
    counts, gaps = log.counts, log.bridged
    P = fill(counts, gaps).estimate
    top, h = height(P, counts, gaps), 1e-6
    for s, a in np.ndindex(2, 2):
        step = np.zeros((2, 2))
        step[s, a] = h
        slope = (height(P + step, counts, gaps) - height(P - step, counts, gaps)) / (2 * h)
        np.testing.assert_allclose(slope, 0.0, atol=2e-4)
    rng = np.random.default_rng(1)
    for _ in range(20):
        near = np.clip(P + rng.normal(0, 0.01, P.shape), 0.001, 0.999)
        assert (height(near, counts, gaps) <= top + 1e-9).all()


def test_effective_counts_leave_the_variance_of_the_observed_information() -> None:
    log, _ = some_log(20, 80, 0.4, seed=5)
    counts, gaps = log.counts, log.bridged
    filled = fill(counts, gaps)
    P, h = filled.estimate, 1e-4
    cells = list(np.ndindex(2, 2))
    hessian = np.zeros((log.n_arms, 4, 4))
    for i, x in enumerate(cells):
        for j, y in enumerate(cells):
            for sx, sy in ((1, 1), (1, -1), (-1, 1), (-1, -1)):
                moved = P.copy()
                moved[(slice(None), *x)] += sx * h
                moved[(slice(None), *y)] += sy * h
                hessian[:, i, j] += sx * sy * height(moved, counts, gaps) / (4 * h * h)
    variance = np.linalg.inv(-hessian)[:, range(4), range(4)].reshape(P.shape)
    effective = filled.effective.visits
    inside = (effective > 1e-9) & (effective < filled.expected.visits - 1e-9)
    assert inside.mean() > 0.8
    np.testing.assert_allclose((P * (1 - P) / (effective + 2))[inside], variance[inside], rtol=2e-3)
    assert (effective <= filled.expected.visits + 1e-9).all()
    assert (filled.expected.visits.sum(axis=(1, 2)) - counts.visits.sum(axis=(1, 2))).sum() == pytest.approx(
        gaps.lengths.sum()
    )


def test_nothing_missing_gives_the_counts_themselves() -> None:
    log, _ = some_log(12, 30, 0.0, seed=2)
    assert len(log.bridged) == 0
    filled = fill(log.counts, log.bridged)
    assert filled.effective is log.counts
    np.testing.assert_array_equal(filled.estimate, log.counts.mean)
    with_one = gaps_of([(11, 0, 1, [1, 0])])  # the others are as they were
    other = fill(log.counts, with_one)
    np.testing.assert_allclose(other.effective.visits[:11], log.counts.visits[:11], rtol=1e-12)
    np.testing.assert_allclose(other.estimate[:11], log.counts.mean[:11], rtol=1e-12)
    assert (other.expected.visits[11] - log.counts.visits[11]).sum() == pytest.approx(2)


def test_relabelling_arms_relabels_the_answer() -> None:
    log, _ = some_log(9, 40, 0.5, seed=8)
    back = np.argsort([8, 3, 5, 1, 0, 7, 2, 6, 4])
    names = [str(back[i]) for i in log.arm]
    other = mf.StateLog(names, log.rounds, log.states, log.actions)
    place = [other.arms.index(str(back[i])) for i in range(9)]
    np.testing.assert_array_equal(
        fill(other.counts, other.bridged).estimate[place], fill(log.counts, log.bridged).estimate
    )


def test_a_weight_counts_as_often() -> None:
    rows = [(0, 0, 1, [1, 0]), (0, 0, 1, [1, 0]), (0, 0, 1, [1, 0]), (0, 1, 0, [0, 0, 1])]
    twice = gaps_of([rows[0], rows[3]], weight=[3.0, 1.0])
    seen = mf.Counts([[[3, 1], [2, 2]]], [[[1, 1], [1, 1]]])
    for one, other in zip(
        fill(seen, gaps_of(rows)).__dict__.values(), fill(seen, twice).__dict__.values(), strict=True
    ):
        if isinstance(one, mf.Counts):
            np.testing.assert_allclose(one.visits, other.visits, rtol=1e-9)
        else:
            np.testing.assert_allclose(one, other, rtol=1e-9)


def test_gaps_in_another_order_than_arms_are_refused() -> None:
    with pytest.raises(mf.InputError, match="gaps must be in order of the arms"):
        gaps_of([(1, 0, 1, [1, 0]), (0, 0, 1, [1, 0])])


@pytest.mark.slow
def test_the_truth_is_found_as_records_grow() -> None:
    errors = []
    for rounds in (100, 1_000, 10_000):
        log, truth = some_log(40, rounds, 0.5, seed=11)
        errors.append(np.abs(fill(log.counts, log.bridged).estimate - truth).mean())
    assert errors[2] < 0.02
    assert errors[1] / errors[0] < 0.55  # about 1 / sqrt(10)
    assert errors[2] / errors[1] < 0.55


def test_draws_have_the_moments_of_the_posterior_by_enumeration() -> None:
    """One arm, one gap: the posterior is a mixture over the hidden state, each part a product of Betas."""
    seen = mf.Counts([[[3, 2], [1, 4]]], [[[1, 2], [0, 3]]])
    gaps = gaps_of([(0, 0, 1, [1, 0])])
    prior = Prior([0.6, 0.4], [[[1, 1], [1, 1]], [[4, 2], [5, 3]]], [[[1, 1], [1, 1]], [[2, 2], [1, 1]]])
    parts, weights = [], []
    for hidden in (0, 1):
        visits, good = seen.visits[0].copy(), seen.good[0].copy()
        for s, a, then in ((0, 1, hidden), (hidden, 0, 1)):
            visits[s, a] += 1
            good[s, a] += then
        after = prior.posterior(mf.Counts(visits[None], good[None]))
        evidence = sum(
            w * np.exp((_log_beta(after.good[0, c], after.bad[0, c]) - _log_beta(prior.good[c], prior.bad[c])).sum())
            for c, w in enumerate(prior.weights)
        )
        parts.append(after)
        weights.append(evidence)
    share = np.array(weights) / sum(weights)
    mean = sum(w * part.mean[0] for w, part in zip(share, parts, strict=True))
    second = sum(w * (part.variance[0] + part.mean[0] ** 2) for w, part in zip(share, parts, strict=True))
    drawn = posterior(prior, seen, gaps).draw(np.random.default_rng(1), 60_000)[:, 0]
    np.testing.assert_allclose(drawn.mean(axis=0), mean, atol=0.006)  # five standard errors of 60,000 draws
    np.testing.assert_allclose((drawn**2).mean(axis=0), second, atol=0.006)


def _log_beta(a: Any, b: Any) -> Any:
    from scipy.special import betaln

    return betaln(a, b)


def test_draws_in_chunks_are_draws_and_arms_without_gaps_have_their_own() -> None:
    seen = mf.Counts([[[9, 9], [9, 9]], [[8, 8], [8, 8]]], [[[1, 2], [3, 4]], [[2, 4], [6, 7]]])
    after = posterior(Prior.uniform(), seen, gaps_of([(0, 0, 1, [1, 0])]))
    drawn = np.concatenate(list(after.in_chunks(np.random.default_rng(3), 4_000, 700)))
    assert drawn.shape == (4_000, 2, 2, 2)
    np.testing.assert_allclose(drawn[:, 1].mean(axis=0), seen.mean[1], atol=0.015)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("missing", "pulled_only"), [(0.0, False), (0.1, False), (0.3, False), (0.6, False), (0.0, True)]
)
def test_intervals_cover_the_truth_as_often_as_they_say(missing: float, pulled_only: bool) -> None:
    """2,000 arms with uniform probabilities: four standard errors of a coverage of 95 % are 2 %."""
    rng = np.random.default_rng(4)
    truth = rng.random((2_000, 2, 2))
    states, actions = np.empty((2, 40, 2_000), np.int64)
    now = rng.integers(0, 2, 2_000)
    for t in range(40):
        states[t], actions[t] = now, rng.random(2_000) < 0.3
        now = (rng.random(2_000) < truth[np.arange(2_000), now, actions[t]]).astype(int)
    seen = actions == 1 if pulled_only else rng.random(states.shape) >= missing
    arms, when = np.tile(np.arange(2_000), 40), np.repeat(np.arange(40), 2_000)
    log = mf.StateLog(arms, when, np.where(seen, states, -1).ravel(), actions.ravel())
    found, benefit = mf.fit(log, budget=200).assessment, mf.benefit(truth)
    inside = (found.benefit_low <= benefit) & (benefit <= found.benefit_high)
    assert 0.93 <= inside.mean() <= 0.97


def test_a_fit_with_gaps_learns_more_than_from_transitions_alone() -> None:
    log, truth = some_log(300, 60, 0.5, seed=21)
    alone = mf.fit(log.counts, budget=30)
    for estimate in ("mean", "pooled"):
        found = mf.fit(log, budget=30, estimate=estimate)
        assert len(found.gaps) == len(log.bridged) > 1_000
        error, before = (np.abs(x.arms.benefit - mf.benefit(truth)).mean() for x in (found, alone))
        assert error < 0.9 * before
    now, then = ((x.assessment.benefit_high - x.assessment.benefit_low).mean() for x in (found, alone))
    assert now < 0.95 * then


@settings(max_examples=20)
@given(st.integers(0, 2**32))
def test_any_log_with_gaps_can_be_filled(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = int(rng.integers(2, 60))
    log = mf.StateLog(
        ["a"] * rows, np.cumsum(rng.choice([1, 1, 1, 2], rows)), rng.integers(-1, 2, rows), rng.integers(0, 2, rows)
    )
    filled = fill(log.counts, log.bridged)
    assert ((filled.estimate > 0) & (filled.estimate < 1)).all()
    assert filled.expected.visits.sum() == pytest.approx(log.transitions + log.bridged.lengths.sum())
    fit_prior(filled.effective)


def test_gaps_that_say_nothing_in_one_direction() -> None:
    """Two gaps back to where they began: EM starts at a saddle point, where the information has no inverse."""
    arm, both = np.zeros(2, np.int64), np.array([0, 1])
    gaps = Gaps(arm, start=both, end=both, first=np.array([0, 2, 4]), actions=np.zeros(4, np.int64))
    filled = fill(mf.Counts.none(1), gaps)
    assert filled.estimate == pytest.approx(0.5)
    assert filled.effective.visits == pytest.approx(0.0)
