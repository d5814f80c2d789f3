"""What must hold for any merits, budget, floors and caps."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import meritfair as mf
from meritfair.core.arrays import AnyArray, FloatArray
from meritfair.model.allocation import Allocation, allocate, learning_cap
from meritfair.model.draws import draw_exposures, joint_exposure

EXACT = 1e-9


class Case(NamedTuple):
    merit: FloatArray
    budget: int
    floor: FloatArray
    cap: FloatArray

    def share(self, merit: AnyArray | None = None) -> FloatArray:
        given = self.merit if merit is None else merit
        return allocate(given, self.budget, floor=self.floor, cap=self.cap).exposure


@st.composite
def cases(draw: st.DrawFn, spread: float = 300.0, most: int = 10, *, bounded: bool = True) -> Case:
    """Draw merits within factors of e^spread, and floors and caps between which the budget can be shared."""
    n_arms = draw(st.integers(1, most))
    budget = draw(st.integers(1, n_arms))
    logs = draw(hnp.arrays(np.float64, n_arms, elements=st.floats(-spread, spread)))
    floor, cap = np.zeros(n_arms), np.ones(n_arms)
    if bounded and draw(st.booleans()):
        floor = draw(hnp.arrays(np.float64, n_arms, elements=st.floats(0, 1))) * budget / n_arms
    if bounded and draw(st.booleans()):
        cap = 1 - draw(hnp.arrays(np.float64, n_arms, elements=st.floats(0, 1))) * (1 - budget / n_arms)
        cap = np.maximum(floor, cap)
    return Case(np.exp(logs), budget, floor, cap)


@given(cases())
@settings(max_examples=200)
def test_the_budget_is_shared_between_floors_and_caps(case: Case) -> None:
    shared = allocate(case.merit, case.budget, floor=case.floor, cap=case.cap)
    assert abs(shared.exposure.sum() - case.budget) < EXACT
    assert ((shared.exposure >= case.floor) & (shared.exposure <= case.cap)).all()
    free = ~shared.saturated & ~shared.at_floor
    log_rate = np.log(np.maximum(shared.exposure[free], 1e-320)) - np.log(case.merit[free])
    if (shared.exposure[free] > 1e-300).all() and free.any():
        assert np.ptp(log_rate) < EXACT  # Eq. (1)


@given(cases(), st.randoms(use_true_random=False))
@settings(max_examples=100)
def test_relabelling_arms_relabels_exposures(case: Case, random: object) -> None:
    order = list(range(len(case.merit)))
    random.shuffle(order)  # type: ignore[attr-defined]
    other = Case(case.merit[order], case.budget, case.floor[order], case.cap[order])
    np.testing.assert_allclose(other.share(), case.share()[order], rtol=0, atol=EXACT)


@given(cases(), st.floats(-300, 300))
@settings(max_examples=100)
def test_only_ratios_of_merits_matter(case: Case, log_factor: float) -> None:
    np.testing.assert_allclose(case.share(case.merit * np.exp(log_factor)), case.share(), rtol=0, atol=EXACT)


@given(cases(spread=30.0), st.data(), st.floats(0, 30))
@settings(max_examples=200)
def test_more_merit_is_no_less_exposure_and_no_more_for_others(
    case: Case, data: st.DataObject, log_more: float
) -> None:
    arm = data.draw(st.integers(0, len(case.merit) - 1))
    merit = case.merit.copy()
    merit[arm] *= np.exp(log_more)
    change = case.share(merit) - case.share()
    assert change[arm] >= -EXACT
    assert (np.delete(change, arm) <= EXACT).all()


@given(cases(spread=5.0), st.data())
@settings(max_examples=150)
def test_no_other_way_to_share_is_better_for_who_has_least(case: Case, data: st.DataObject) -> None:
    # Exposure for a unit of merit, from the arm that has least: at the first difference the allocation is ahead.
    n_arms = len(case.merit)
    ours = case.share()
    logs = data.draw(hnp.arrays(np.float64, n_arms, elements=st.floats(-5, 5)))
    other = case.share(np.exp(logs))  # as good as any between the bounds
    part = data.draw(st.sampled_from([1.0, 0.1, 1e-3]))
    i, j = data.draw(st.integers(0, n_arms - 1)), data.draw(st.integers(0, n_arms - 1))
    amount = min(case.cap[i] - ours[i], ours[j] - case.floor[j]) if i != j else 0.0
    moved = ours.copy()
    moved[i], moved[j] = moved[i] + amount, moved[j] - amount
    for another in ((1 - part) * ours + part * other, moved):
        mine, theirs = np.sort(ours / case.merit), np.sort(another / case.merit)
        differ = np.flatnonzero(np.abs(mine - theirs) > 1e-9 * np.maximum(mine, theirs))
        assert not len(differ) or mine[differ[0]] > theirs[differ[0]]


@pytest.mark.slow
@given(cases(spread=5.0, bounded=False), st.data())
@settings(max_examples=200)
def test_exposures_move_no_more_than_the_bound_of_the_theory(case: Case, data: st.DataObject) -> None:
    # |e(g) - e(g')| <= 2 K / (N gamma) |g - g'|, both in L1 norm, for merits of at least gamma.
    n_arms = len(case.merit)
    logs = data.draw(hnp.arrays(np.float64, n_arms, elements=st.floats(-5, 5)))
    part = data.draw(st.sampled_from([1.0, 0.1, 1e-3]))
    other = (1 - part) * case.merit + part * np.exp(logs)
    gamma = min(case.merit.min(), other.min())
    moved = np.abs(case.share() - case.share(other)).sum()
    assert moved <= 2 * case.budget / (n_arms * gamma) * np.abs(case.merit - other).sum() + EXACT


def test_the_bound_of_the_theory_is_nearly_reached() -> None:
    # One of many arms of equal merit gains: a bound of half that size would not hold.
    merit = np.ones(1000)
    more = merit + 1e-3 * np.eye(1000)[0]
    moved = np.abs(allocate(more, 10).exposure - allocate(merit, 10).exposure).sum()
    assert moved > 0.99 * 2 * 10 / 1000 * 1e-3


class Learnt(NamedTuple):
    """True merits, estimates of them, and the caps under which an episode is played: what Section 4 is about."""

    true: FloatArray
    estimated: FloatArray
    budget: int
    floor: float
    cap: FloatArray

    def due(self, merit: FloatArray, cap: AnyArray | float = 1.0) -> Allocation:
        return allocate(merit, self.budget, floor=self.floor, cap=cap)


@st.composite
def learnt(draw: st.DrawFn) -> Learnt:
    """Draw fewer pulls than arms, merits within e^3, estimates that may be near, and visits that set caps.

    The first arm may be where saturation begins, and errors may be against those who are saturated.
    """
    n_arms = draw(st.integers(2, 8))
    budget = draw(st.integers(1, n_arms - 1))
    numbers = hnp.arrays(np.float64, n_arms, elements=st.floats(-3, 3))
    true, off = np.exp(draw(numbers)), draw(st.sampled_from([1.0, 0.1, 1e-2, 1e-4])) * draw(numbers)
    if budget > 1 and draw(st.booleans()):
        true[0] = true[1:].sum() / (budget - 1)  # lambda g = 1, if no other arm is saturated
    floor = draw(st.sampled_from([0.0, 0.3])) * budget / n_arms
    if draw(st.booleans()):
        off = np.abs(off) * np.where(allocate(true, budget, floor=floor).saturated, -1, 1)
    not_pulled = draw(hnp.arrays(np.int64, n_arms, elements=st.integers(0, 200))) ** draw(st.integers(1, 3))
    return Learnt(true, true * np.exp(off), budget, floor, learning_cap(not_pulled, budget, floor, 1.0))


@given(learnt())
@settings(max_examples=300)
def test_arms_at_their_cap_under_both_merits_move_nothing(case: Learnt) -> None:  # Lemma 1
    before, after = case.due(case.true, case.cap), case.due(case.estimated, case.cap)
    gamma = min(case.true.min(), case.estimated.min())
    counts = ~(before.saturated & after.saturated)
    errors = np.abs(case.true - case.estimated)[counts].sum()
    moved = np.abs(before.exposure - after.exposure).sum()
    assert moved <= 2 * case.budget / (len(case.true) * gamma) * errors + EXACT


@given(learnt())
@settings(max_examples=200)
def test_lower_caps_move_just_what_they_cut_off_and_as_much_to_others(case: Learnt) -> None:  # Lemma 2
    before = case.due(case.true).exposure
    moved = np.abs(case.due(case.true, case.cap).exposure - before).sum()
    assert abs(moved - 2 * np.maximum(0, before - case.cap).sum()) < EXACT


@pytest.mark.slow
@given(learnt())
@settings(max_examples=500)
def test_of_saturated_arms_only_what_they_lose_is_regret(case: Learnt) -> None:  # Lemma 4
    fair, played = case.due(case.true), case.due(case.estimated, case.cap).exposure
    n_arms, full = len(case.true), fair.saturated
    assume((played[full] >= case.budget / n_arms).all() and (case.cap[~full] >= fair.exposure[~full]).all())
    gamma = min(case.true.min(), case.estimated.min())
    errors = np.abs(case.true - case.estimated)[~full].sum()
    bound = 2 * (1 - played[full]).sum() + 2 * case.budget / (n_arms * gamma) * errors
    assert np.abs(fair.exposure - played).sum() <= bound + EXACT


@pytest.mark.slow
@given(learnt())
@settings(max_examples=500)
def test_saturated_arms_lose_no_more_than_caps_or_relative_errors(case: Learnt) -> None:  # Lemma 5
    fair, played = case.due(case.true), case.due(case.estimated, case.cap).exposure
    relative, full = np.abs(case.true - case.estimated) / case.true, fair.saturated
    most = np.maximum(1 - case.cap, relative + relative[~full].max())
    assert (1 - played <= most + EXACT)[full].all()


@given(cases(spread=20.0), st.data())
@settings(max_examples=100)
def test_learning_caps_can_always_be_kept(case: Case, data: st.DataObject) -> None:
    left_alone = data.draw(hnp.arrays(np.int64, len(case.merit), elements=st.integers(0, 10**6)))
    careful = learning_cap(left_alone, case.budget, case.floor, case.cap)
    assert ((careful >= case.floor) & (careful <= case.cap)).all()
    shared = allocate(case.merit, case.budget, floor=case.floor, cap=careful)
    assert abs(shared.exposure.sum() - case.budget) < EXACT


@given(cases(spread=50.0), st.integers(0, 2**32), st.sampled_from(["exact", "systematic"]))
@settings(max_examples=100)
def test_every_draw_pulls_as_many_arms_as_the_budget(case: Case, seed: int, design: str) -> None:
    exposure = case.share()
    pulled = draw_exposures(exposure, rng=np.random.default_rng(seed), size=100, design=design)
    assert (pulled.sum(axis=1) == case.budget).all()
    assert pulled[:, exposure == 1].all()
    assert not pulled[:, exposure == 0].any()


@given(cases(spread=5.0, most=6), st.sampled_from(["exact", "systematic"]), st.randoms(use_true_random=False))
@settings(max_examples=100)
def test_joint_exposures_are_those_of_draws_of_the_same_size(case: Case, design: str, random: object) -> None:
    exposure = case.share()
    order = list(range(len(exposure)))
    random.shuffle(order)  # type: ignore[attr-defined]
    both = joint_exposure(exposure, design, order)
    np.testing.assert_allclose(np.diag(both), exposure, rtol=0, atol=EXACT)
    np.testing.assert_allclose(both, both.T, rtol=0, atol=EXACT)
    np.testing.assert_allclose(both.sum(axis=1), case.budget * exposure, rtol=0, atol=1e-8)
    single = np.minimum.outer(exposure, exposure)
    assert (both <= single + EXACT).all()
    assert (both >= np.maximum(0, np.add.outer(exposure, exposure) - 1) - EXACT).all()


@given(cases(spread=3.0, most=8, bounded=False))
@settings(max_examples=50)
def test_the_exact_design_is_as_merit_fair_as_one_pull_can_be(case: Case) -> None:
    # Without saturation, exposures are the paper's shares times the budget.
    share = mf.merit_share(case.merit)
    exposure = mf.fair_exposure(case.merit, case.budget, "exact")
    if case.budget * share.max() <= 1:
        np.testing.assert_allclose(exposure, case.budget * share, rtol=1e-9)
    else:
        assert exposure.max() == 1
