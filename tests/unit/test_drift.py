from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import beta

import meritfair as mf
from meritfair import drifting
from reference import drift


def log_with(change: float, n_arms: int, rounds: int, at: int, seed: int, arms: Any = slice(None)) -> mf.StateLog:
    """Return a log of CPAP patients, of whom some have other log-odds from a round on."""
    rng = np.random.default_rng(seed)
    P = mf.datasets.cpap(n_arms=n_arms, seed=seed).transitions
    later = P.copy()
    later[arms] = 1 / (1 + (1 / P[arms] - 1) * np.exp(-change))
    now, states, actions = rng.integers(0, 2, n_arms), [], []
    for t in range(rounds):
        states.append(now)
        actions.append((rng.random(n_arms) < 0.3).astype(int))
        now = (rng.random(n_arms) < (later if t >= at else P)[np.arange(n_arms), now, actions[-1]]).astype(int)
    rows = np.tile(np.arange(n_arms), rounds), np.repeat(np.arange(1, rounds + 1), n_arms)
    return mf.StateLog(*rows, np.concatenate(states), np.concatenate(actions))


def test_a_change_of_everyone_is_found_when_it_happens() -> None:
    found = mf.drift(log_with(-0.8, 60, 60, 30, seed=1))
    assert found.alarm is not None
    assert 30 <= int(found.alarm) <= 38
    most = max(found.cells, key=lambda cell: cell["e_value"])
    assert 28 <= int(most["since"]) <= 33
    assert most["now"] < most["before"]
    assert "no longer fit" in found.description
    assert found.e_values[27] < 5


def test_no_change_is_no_alarm() -> None:
    found = mf.drift(log_with(0.0, 40, 50, 25, seed=2))
    assert found.alarm is None
    assert found.arms == ()
    assert repr(found).startswith("Drift(no sign of a change in 49 rounds: e-value ")
    assert found.to_dict()["alarm"] is None
    assert len(found.cells) == 5


def test_an_arm_that_changes_alone_is_named() -> None:
    rng = np.random.default_rng(1)
    states = (rng.random((10, 200)) < 0.5).astype(int)
    states[3, :100], states[3, 100:] = rng.random(100) < 0.8, rng.random(100) < 0.2
    log = mf.StateLog(np.repeat(list("abcdefghij"), 200), np.tile(np.arange(200), 10), states.ravel(), np.zeros(2000))
    assert mf.drift(log).arms == ("d",)


def small_log(n_arms: int = 6, rounds: int = 15) -> mf.StateLog:
    """Return a log with outcomes in that many rounds, of which the last is one where the prior is fitted anew."""
    rng = np.random.default_rng(4)
    states, actions = rng.integers(0, 2, (2, n_arms, rounds + 1))
    where = np.repeat(np.arange(n_arms), rounds + 1), np.tile(np.arange(rounds + 1), n_arms)
    return mf.StateLog(*where, states.ravel(), actions.ravel())


def test_e_values_are_those_of_plain_loops() -> None:
    log = small_log()
    score, covariance = drift.scores(drift.outcomes(log), 15, *drift.pooled(log))
    want = [drift.e_value(each) for each in zip(score, covariance, strict=True)]
    want.append(drift.e_value((score.sum(axis=0), covariance.sum(axis=0))))
    found = mf.drift(log)
    assert [cell["e_value"] for cell in found.cells] == pytest.approx(want, rel=1e-9)
    assert found.e_values[-1] == pytest.approx(np.dot(want, [1 / 8, 1 / 8, 1 / 8, 1 / 8, 1 / 2]), rel=1e-9)
    alone = []
    mean, variance = drift.pooled(log)
    for arm in range(6):
        mine = [each for each in drift.outcomes(log) if each.arm == arm]
        score, covariance = (x.sum(axis=0) for x in drift.scores(mine, 15, mean, variance))
        parts = covariance - np.outer(covariance[0], covariance[0]) / covariance[0, 0]
        assert (np.diagonal(parts) >= 0).all()
        total = 20 / 35
        for tau, (s, v) in enumerate(zip(score, np.diagonal(covariance), strict=True)):
            wide = 1 + v / 4
            total += 20 / ((tau + 20) * (tau + 21)) * np.exp(s**2 / 4 / (2 * wide)) / np.sqrt(wide)
        alone.append(total / 6)
    assert found.arm_e_values == pytest.approx(alone, rel=1e-9)


def later(log: mf.StateLog, joined: list[int]) -> mf.StateLog:
    """Return the log of arms that have joined in these rounds."""
    rows = log.rounds >= np.array(joined)[log.arm]
    return mf.StateLog(log.arm[rows], log.rounds[rows], log.states[rows], log.actions[rows])


def test_arms_that_joined_later_are_cohorts_of_their_own() -> None:
    """Who joined in round 2 or 3 is one, and in rounds 4 to 7."""
    log = later(small_log(), [0, 5, 2, 3, 0, 7])
    cohorts = []
    for members in ([0, 4], [2, 3], [1, 5]):
        mine = [each for each in drift.outcomes(log) if each.arm in members]
        score, covariance = drift.scores(mine, 15, *drift.pooled(log))
        cohorts.append((score.sum(axis=0), covariance.sum(axis=0)))
    assert mf.drift(log).cells[-1]["e_value"] == pytest.approx(drift.e_value(*cohorts), rel=1e-9)


def test_scores_are_derivatives_of_the_marginal_likelihood() -> None:
    """By numerical integration over the chance of each cell, and differences in the shift."""
    log, tau, cell = small_log(), 7, 2
    prior = mf.fit_prior(log.counts)
    assert prior.classes == 1  # so the likelihood is a product over cells
    score, covariance = drift.scores(drift.outcomes(log), 15, *drift.pooled(log))

    def log_likelihood(shift: float) -> float:
        total = 0.0
        for arm in range(6):
            mine = [each for each in drift.outcomes(log) if (each.arm, each.cell) == (arm, cell)]

            def density(p: float, mine: list[drift.Outcome] = mine) -> float:
                value = beta.pdf(p, prior.good[0].ravel()[cell], prior.bad[0].ravel()[cell])
                for each in mine:
                    q = p * np.exp(shift) / (1 - p + p * np.exp(shift)) if each.round >= tau else p
                    value *= q if each.good else 1 - q
                return float(value)

            total += np.log(quad(density, 0, 1, epsabs=0, epsrel=1e-11)[0])
        return total

    step = 0.02
    low, middle, high = (log_likelihood(shift) for shift in (-step, 0, step))
    assert score[cell, tau] == pytest.approx((high - low) / (2 * step), rel=1e-3)
    assert covariance[cell, tau, tau] == pytest.approx(-(high - 2 * middle + low) / step**2, rel=1e-3)


def test_what_is_said_after_a_round_does_not_depend_on_later_rounds() -> None:
    log = log_with(-0.8, 30, 90, 40, seed=3)
    log = later(log, [0, 0, 50, 70, *range(26)])
    first = log.rounds <= 61
    part = mf.StateLog(log.arm[first], log.rounds[first], log.states[first], log.actions[first])
    assert mf.drift(part).e_values == pytest.approx(mf.drift(log).e_values[:60], rel=1e-9)


def test_many_rounds_are_looked_at_less_often_and_arms_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    assert drifting._grid(5).tolist() == [0, 1, 2, 3, 4]
    assert drifting._grid(140)[62:68].tolist() == [62, 63, 65, 67, 69, 71]
    assert np.diff(drifting._grid(600))[-1] == 16
    log = log_with(-0.8, 30, 90, 40, seed=3)
    whole = mf.drift(log)
    assert len(whole.e_values) == len(whole.rounds) == 89
    assert whole.e_values[64] == whole.e_values[63] != whole.e_values[65]
    monkeypatch.setattr(drifting, "_AT_ONCE", 2_000)
    in_parts = mf.drift(log)
    assert in_parts.e_values == pytest.approx(whole.e_values, rel=1e-9)
    assert in_parts.arm_e_values == pytest.approx(whole.arm_e_values, rel=1e-9)
    assert in_parts.p_value == whole.p_value


def test_one_look_finds_what_the_test_at_any_time_does_not_yet() -> None:
    found = mf.drift(log_with(-0.35, 60, 60, 30, seed=7))
    assert found.alarm is None
    assert found.p_value < 0.05
    assert found.description.startswith("no alarm, e-value ")
    assert "but at one look outcomes after any state and action no longer fit earlier ones" in found.description
    assert found.p_value == min(cell["p_value"] for cell in found.cells)


def test_a_change_of_the_size_that_is_said_shifts_scores_as_far_as_that_takes() -> None:
    """It takes 1.96 + 0.84 standard errors if one knows when; not knowing costs up to half more."""
    found = mf.drift(log_with(0.0, 100, 60, 30, seed=2))
    assert found.findable is not None
    assert found.findable_at_one_look is not None
    assert found.findable_at_one_look.log_odds < found.findable.log_odds < 0.6
    counts = log_with(0.0, 100, 60, 30, seed=2).counts
    chance = mf.fit_prior(counts).posterior(counts).mean
    information = (counts.visits * chance * (1 - chance)).sum() / 4  # half before, half after
    assert found.findable_at_one_look.log_odds > (1.96 + 0.84) / np.sqrt(information)
    assert found.findable_at_one_look.log_odds < 1.5 * (1.96 + 0.84) / np.sqrt(information)
    assert found.power.startswith("A change for everyone after half of the rounds would be found with")
    lower = chance / (chance + (1 - chance) * np.exp(found.findable.log_odds))
    assert found.findable.points == pytest.approx(100 * np.average(chance - lower, weights=counts.visits), rel=1e-6)
    few = mf.drift(log_with(0.0, 2, 6, 3, seed=2))
    assert few.findable is None
    assert few.to_dict()["findable"] is None
    assert "not even 3 in log-odds at any time" in few.power


def test_dates_name_rounds_and_gaps_are_not_looked_at() -> None:
    days = np.datetime64("2026-03-02") + 7 * np.arange(20)
    log = mf.StateLog(["a"] * 20, days, [0, 1, -1, 1] * 5, [0] * 20)
    found = mf.drift(log)
    assert found.rounds[0] == "2026-03-02"
    assert len(found.rounds) == 9


def test_what_cannot_be_tested_is_refused() -> None:
    with pytest.raises(mf.InputError, match="the log has no transitions, so there is nothing to compare"):
        mf.drift(mf.StateLog(["a"], [1], [1], [1]))
    with pytest.raises(mf.InputError, match="alpha must lie strictly between 0 and 1, got 1"):
        mf.drift(log_with(0, 3, 5, 2, seed=1), alpha=1)
    with pytest.raises(mf.InputError, match="log must be a StateLog"):
        mf.drift([1])  # type: ignore[arg-type]


def test_a_strong_change_is_still_a_number_and_can_be_drawn() -> None:
    states = np.repeat([[1] * 150 + [0] * 150], 50, axis=0)
    log = mf.StateLog(np.repeat(np.arange(50), 300), np.tile(np.arange(300), 50), states.ravel(), np.zeros(states.size))
    found = mf.drift(log)
    assert np.isfinite(found.e_values).all()
    assert found.alarm in ("149", "150", "151")
    assert len(found.plot().axes) == 2


def test_the_bounds_of_e_values() -> None:
    assert drifting._exp(np.array([0.0, 1e9])).tolist() == [1.0, pytest.approx(1e300)]
