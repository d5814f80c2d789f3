from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

import meritfair as mf
from meritfair import drifting


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


def test_the_bayes_factor_is_that_of_integrals() -> None:
    """Two arms and four rounds, by numerical integration over the shift."""
    log = mf.StateLog(["a"] * 5 + ["b"] * 5, [*range(5)] * 2, [1, 1, 1, 0, 0, 1, 0, 1, 0, 0], [0] * 10)
    mean = mf.fit_prior(log.counts).posterior(log.counts).mean
    outcomes = [
        [(mean[i, s, 0], then) for i in (0, 1) for s, then in [(log.states[5 * i + t], log.states[5 * i + t + 1])]]
        for t in range(4)
    ]

    def together(first: int, last: int) -> float:
        def inside(shift: float) -> float:
            value = norm.pdf(shift, 0, 0.7)
            for p, then in itertools.chain(*outcomes[first:last]):
                q = 1 / (1 + (1 / p - 1) * np.exp(-shift))
                value *= q if then else 1 - q
            return float(value)

        return float(quad(inside, -6, 6, epsabs=1e-12)[0])

    want = sum(together(0, t) * together(t, 4) / together(0, 4) / ((t + 1) * (t + 2)) for t in range(4)) + 1 / 5
    everywhere = mf.drift(log).cells[4]["e_value"]
    assert everywhere == pytest.approx(want, rel=2e-3)  # the grid ends at 3.4 standard deviations


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


@pytest.mark.slow
def test_alarms_without_a_change_are_rare_and_with_one_they_are_not() -> None:
    """100 programmes of 20 patients and 60 rounds: at 5 %, more than 13 alarms have a probability below 1e-3."""
    false = sum(mf.drift(log_with(0.0, 20, 60, 30, seed)).alarm is not None for seed in range(100))
    assert false <= 13
    found = sum(mf.drift(log_with(1.2, 20, 60, 30, seed)).alarm is not None for seed in range(20))
    assert found >= 16
