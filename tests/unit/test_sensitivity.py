"""What states that were not observed could change of benefits: by hand, its bounds, and a record that misleads."""

from __future__ import annotations

import math

import numpy as np
import pytest

import meritfair as mf
from meritfair.datasets.missing import unseen_states
from meritfair.model.sensitivity import BenefitSensitivity
from reference.programmes import Settings, make_arms, play, silenced


def some(seed: int = 1, n_arms: int = 20) -> BenefitSensitivity:
    rng = np.random.default_rng(seed)
    visits = rng.integers(0, 30, (n_arms, 2, 2))
    return BenefitSensitivity(rng.random((n_arms, 2, 2)), visits, rng.binomial(visits, 0.3))


def test_by_hand() -> None:
    """Of one arm half of what followed a pull in the bad state is missing, and nothing else."""
    estimate = np.array([[[0.2, 0.6], [0.5, 0.9]]])
    found = BenefitSensitivity(estimate, np.array([[[10, 10], [10, 10]]]), np.array([[[0, 5], [0, 0]]]))
    moved = 0.6 + 0.5 * -0.2  # half of it is worse by 0.2
    assert found.transitions(pulled=-0.2)[0].tolist() == [[0.2, pytest.approx(moved)], [0.5, 0.9]]
    never = 0.2 / (1 - 0.5 + 0.2)
    assert found.mean_benefit(pulled=-0.2) == pytest.approx(moved / (1 - 0.9 + moved) - never)
    low, high = 0.5 * 0.6, 0.5 * 0.6 + 0.5
    assert found.bounds == pytest.approx((low / (0.1 + low) - never, high / (0.1 + high) - never))
    assert found.tipping == math.inf  # the benefit is above 0 also if all of them were bad
    assert found.mean_benefit(not_pulled=-0.2) == found.mean_benefit()


def test_where_nothing_was_seen_of_an_arm_the_part_of_all_arms_counts() -> None:
    visits = np.array([[[8, 0], [0, 0]], [[0, 0], [0, 0]]])
    found = BenefitSensitivity(np.full((2, 2, 2), 0.5), visits, visits // 4)
    assert found.part[:, 0, 0].tolist() == [0.25, 0.25]
    assert found.part[:, 1, 1].tolist() == [0, 0]


@pytest.mark.parametrize("seed", range(5))
def test_bounds_are_the_extremes_and_the_tipping_point_is_where_nothing_is_left(seed: int) -> None:
    found = some(seed)
    low, high = found.bounds
    grid = np.linspace(-1, 1, 9)
    inside = [found.mean_benefit(a, b) for a in grid for b in grid]
    assert min(inside) == pytest.approx(low)
    assert max(inside) == pytest.approx(high)
    assert found.mean_benefit() == pytest.approx(mf.benefit(found.estimate).mean())
    way = np.sign(found.mean_benefit())
    assert 0 < found.tipping <= 1
    assert found.mean_benefit(-way * found.tipping, way * found.tipping) == pytest.approx(0, abs=1e-9)


def test_differences_are_probabilities() -> None:
    with pytest.raises(mf.InputError, match=r"not_pulled must lie between -1 and 1, got -1.5"):
        some().mean_benefit(not_pulled=-1.5)


def test_what_was_not_seen_is_counted_by_last_state_and_action() -> None:
    log = mf.StateLog(
        ["Ada"] * 4 + ["Bo"] * 2 + ["Cy"],
        [1, 2, 3, 4, 1, 2, 4],
        [0, None, 1, 1, 1, 0, 1],
        [1, 0, 0, None, 0, 1, 1],
    )
    visits, missing = unseen_states(log)
    assert visits.tolist() == [[[0, 1], [1, 0]], [[0, 1], [1, 0]], [[0, 0], [0, 0]]]
    assert missing.tolist() == [[[0, 1], [0, 0]], [[0, 1], [0, 0]], [[0, 0], [0, 0]]]  # Bo left after round 2 of 4


def test_a_fit_of_a_log_has_it() -> None:
    programme = play(Settings(missing=0.2), np.random.default_rng(1))
    found = mf.fit(programme.log(), budget=4, method="delta")
    assert found.sensitivity is not None
    assert found.sensitivity.mean_benefit() == pytest.approx(found.assessment.benefit.mean())
    full = play(Settings(), np.random.default_rng(1)).log()
    nothing = mf.fit(full, budget=4, method="delta").sensitivity
    assert nothing is not None
    assert nothing.bounds == (nothing.mean_benefit(), nothing.mean_benefit())
    assert nothing.to_dict()["tipping"] is None
    assert str(nothing).startswith(f"Not seen: nothing. All {full.transitions:,} next states were observed, so the")
    single = mf.StateLog(["Ada"], [1], [1], [1])
    assert mf.fit(single, budget=1, method="delta").sensitivity is None  # no next state was due
    assert mf.fit(full.counts, budget=4, method="delta").sensitivity is None


def test_the_line_names_its_numbers() -> None:
    positive = BenefitSensitivity(np.array([[[0.2, 0.4], [0.6, 0.8]]]), np.full((1, 2, 2), 80), np.full((1, 2, 2), 40))
    line = str(positive)
    assert line.startswith("Not seen: 160 of 320 next states (50 %).")
    assert f"The mean benefit is {positive.mean_benefit():.2f}." in line
    assert f"10 percentage points less often than that, it would be {positive.mean_benefit(pulled=-0.1):.2f};" in line
    assert f"10 points more often, {positive.mean_benefit(not_pulled=0.1):.2f}." in line
    assert f"With {100 * positive.tipping:.0f} points for both, it would be 0." in line
    negative = BenefitSensitivity(positive.estimate[..., ::-1], positive.visits, positive.missing)
    assert f"10 percentage points more often than that, it would be {negative.mean_benefit(pulled=0.1):.2f};" in str(
        negative
    )
    few = BenefitSensitivity(positive.estimate, positive.visits, positive.missing // 20)
    assert "Not even 100 points for both would bring it to 0." in str(few)


@pytest.mark.slow
def test_people_whom_a_call_did_not_help_and_who_do_not_answer_make_a_fit_too_good() -> None:
    """The bounds hold the truth, and moved by as much as those not seen differed the mean is right."""
    off, moved = [], []
    for seed in range(8):
        settings = Settings(n_arms=100, budget=30, rounds=60)
        truth = mf.benefit(make_arms(settings, np.random.default_rng(seed))).mean()
        rng = np.random.default_rng(seed)
        programme = silenced(play(settings, rng), np.array([[0.31, 0.31], [0.5, 0.1]]), rng)
        found = mf.fit(programme.log(), budget=30, estimate="pooled", method="delta")
        known = found.sensitivity
        assert known is not None
        lost = programme.seen[:-1] & ~programme.seen[1:]
        differ = []
        for action in (1, 0):
            when, who = np.nonzero(lost & (programme.drawn == action))
            expected = found.estimate[who, programme.states[when, who], action]
            differ.append((programme.states[when + 1, who] - expected).mean())
        assert known.bounds[0] < truth < known.bounds[1]
        off.append(known.mean_benefit() - truth)
        moved.append(known.mean_benefit(*differ) - truth)
    assert np.mean(off) > 0.08
    assert abs(np.mean(moved)) < 0.02
