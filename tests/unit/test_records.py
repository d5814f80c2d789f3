"""Records as a whole: how often states are missing, made-up records, files that come from spreadsheets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import chi2_contingency

import meritfair as mf
from meritfair.datasets.missing import missing_states


def log_missing(by_state: tuple[float, float], seed: int = 1) -> mf.StateLog:
    """Return a log of sticky states that are missing at a rate that depends on them."""
    rng, rows = np.random.default_rng(seed), []
    for arm in range(60):
        state = int(rng.integers(2))
        for t in range(40):
            seen = state if rng.random() >= by_state[state] else None
            rows.append((arm, t, seen, int(rng.random() < 0.3)))
            state = state if rng.random() < 0.85 else 1 - state
    arms, rounds, states, actions = zip(*rows, strict=True)
    return mf.StateLog(arms, rounds, list(states), actions)


def test_rates_of_missing_states_are_counted_and_tested() -> None:
    found = missing_states(log_missing((0.4, 0.1)))
    table = np.stack([found.missing.ravel(), (found.rounds - found.missing).ravel()])
    assert found.p_value == pytest.approx(chi2_contingency(table, correction=False).pvalue, rel=1e-9)
    assert found.uneven
    assert found.rates[0].min() > found.rates[1].max()
    even = missing_states(log_missing((0.25, 0.25)))
    assert not even.uneven
    assert even.rates == pytest.approx(np.full((2, 2), 0.25), abs=0.05)
    whole = missing_states(log_missing((0.0, 0.0)))
    assert (whole.p_value, whole.uneven, whole.missing.sum()) == (1.0, False, 0)
    nothing = missing_states(mf.StateLog(["a"], [1], [None], [1]))
    assert nothing.rounds.sum() == 0
    assert [row["rounds"] for row in nothing.to_dict()["after"]] == [0, 0, 0, 0]


def test_the_clinic_is_what_it_says_and_follows_from_the_seed() -> None:
    log = mf.datasets.clinic(seed=3)
    other = mf.datasets.clinic(seed=3)
    assert (log.n_arms, log.rounds.max()) == (200, 40)
    for name in ("arm", "rounds", "states", "actions", "exposure", "drawn"):
        np.testing.assert_array_equal(getattr(log, name), getattr(other, name))
    assert log.features == other.features
    assert log.exposure is not None
    assert log.drawn is not None
    for week in range(1, 41):
        here = log.rounds == week
        assert log.exposure[here].sum() == pytest.approx(30)
        assert log.drawn[here].sum() == log.actions[here].sum() == 30
    assert 0.18 < log.unobserved / len(log) < 0.22
    assert 0 < (log.drawn != log.actions).mean() < 0.02
    assert (log.first_rounds > 1).mean() > 0.1
    assert (log.last_rounds < 40).mean() > 0.05
    arms = mf.datasets.clinic_arms(seed=3)
    assert set(arms.names) == set(log.arms)
    draws = mf.DrawLog(log.rounds, [log.arms[i] for i in log.arm], log.exposure, log.drawn)
    assert not mf.audit(draws).overall.violated


def test_the_clinics_people_differ_by_features_and_the_fit_finds_them() -> None:
    log, arms = mf.datasets.clinic(seed=1), mf.datasets.clinic_arms(seed=1)
    truth = arms.benefit[[arms.names.index(name) for name in log.arms]]
    found = mf.fit(log, budget=30, estimate="pooled", method="delta")
    assert np.corrcoef(found.arms.benefit, truth)[0, 1] > 0.75
    young, old = (truth[[age == value for age in log.features["age"]]].mean() for value in ("18-24", "35 and over"))
    assert young > old + 0.1


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"budget": 0}, "budget must be between 1 and the 200 arms, got 0"),
        ({"rounds": 1}, "rounds must be at least 2, got 1"),
        ({"observed": 1.5}, "observed must lie between 0 and 1, got 1.5"),
        ({"n_arms": 0}, "n_arms must be at least 1, got 0"),
    ],
)
def test_a_clinic_that_cannot_be_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(mf.InputError, match=message):
        mf.datasets.clinic(**settings)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_saved_log_is_read_as_it_was(suffix: str, tmp_path: Path) -> None:
    log = mf.datasets.clinic(n_arms=12, rounds=6, budget=3, seed=2)
    log.save(tmp_path / f"log.{suffix}")
    again = mf.read_log(tmp_path / f"log.{suffix}", ["age", "gender"])
    assert again.arms == log.arms
    for name in ("arm", "rounds", "states", "actions", "exposure", "drawn"):
        np.testing.assert_array_equal(getattr(again, name), getattr(log, name))
    assert again.features["age"] == log.features["age"]
    weekly = mf.StateLog(["=a"] * 2, np.array(["2026-03-02", "2026-03-09"], "datetime64[D]"), [0, None], [1, None])
    weekly.save(tmp_path / f"weekly.{suffix}")
    assert repr(mf.read_log(tmp_path / f"weekly.{suffix}")) == repr(weekly)
    assert mf.read_log(tmp_path / f"weekly.{suffix}").arms == ("=a",)


def test_the_audit_reads_the_columns_of_all_logs(tmp_path: Path) -> None:
    file = tmp_path / "log.csv"
    file.write_text("arm,round,state,action,exposure\na,1,0,1,0.5\nb,1,1,0,0.5\nc,1,1,0,\na,2,1,0,1\n")
    draws = mf.read_draws(file)
    assert repr(draws) == "DrawLog(3 rows of 2 arms: 2 rounds)"
    assert draws.drawn.tolist() == [1, 0, 0]
    file.write_text("arm,round,state,action,exposure\na,1,0,1,\n")
    with pytest.raises(mf.FileError, match=r"line 2, column exposure: the cell is empty, and so are all others"):
        mf.read_draws(file)
    file.write_text("arm,round,exposure\na,1,0.5\n")
    with pytest.raises(mf.FileError, match="lacks the column drawn"):
        mf.read_draws(file)


HEADER = "arm,round,state,action,exposure\n"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("arm;round;state\nAda;1;0\n", "line 1: lacks the column action; it has arm, round, state"),
        (HEADER + "Ada,1,0,1,0,25\n", "line 2: has 6 cells, but the header has 5 columns: perhaps a decimal comma"),
        (HEADER + "Ada,02.03.2026,0,1,0.2\n", "line 2, column round: must be a whole number, or a date such as"),
        (HEADER + "Ada,3/2/2026,0,1,0.2\n", "line 2, column round: must be a whole number, or a date such as"),
        (HEADER + "Ada,1,#N/A,1,0.2\n", "line 2, column state: must be 0 (bad) or 1 (good)"),
        (HEADER + "Ada,1,0,1,20%\n", "line 2, column exposure: must be a number, got '20%'"),
        (HEADER + "Ada,1,0,1,20\n", "line 2, column exposure: must lie between 0 and 1, got '20'"),
        (
            HEADER + "Ada,1,0,1,0.2\nAda,1,0,1,0.2\n",
            "line 3, column round: the arm 'Ada' already has round 1 in line 2",
        ),
        (
            HEADER + "Ada,2026-03-02,0,1,0.2\nAda,2026-03-09,0,1,0.2\nAda,2026-03-17,0,1,0.2\n",
            "Ada' is here 8 days after",
        ),
        (HEADER + "Ada,2026-03-02,0,1,0.2\nAda,12,0,1,0.2\n", "line 3, column round: must be a date such as"),
    ],
)
def test_what_spreadsheets_do_is_refused_with_its_place(content: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "log.csv"
    file.write_text(content)
    with pytest.raises(mf.FileError) as caught:
        mf.read_log(file)
    assert message in str(caught.value)


def test_what_spreadsheets_do_is_repaired_where_it_can_be(tmp_path: Path) -> None:
    file = tmp_path / "log.csv"
    plain = "arm,round,state,action,exposure\nAda,2,1,0,\nAda,1,0,1,0.5\n"
    file.write_text(plain)
    want = mf.read_log(file)
    for content in (
        "\ufeff" + plain,
        plain.replace("\n", "\r\n"),
        plain + "\n,,,,\n\n",
        "arm,round,state,action,exposure,,\nAda , 2,TRUE,FALSE,,,\n Ada,1.0,0.0, 1 ,0.5,,\n",
    ):
        file.write_text(content, encoding="utf-8", newline="")
        found = mf.read_log(file)
        for name in ("rounds", "states", "actions", "exposure"):
            np.testing.assert_array_equal(getattr(found, name), getattr(want, name))
