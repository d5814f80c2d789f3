"""The effect of a pull: by hand, by its definition, by another library; what is left out, and what is refused."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

import meritfair as mf
from meritfair.effects import Effect, LeftOut
from meritfair.effects.estimator import predictions, pseudo_outcomes
from meritfair.effects.page import effect_page
from meritfair.effects.report import signed, verdict
from meritfair.effects.trial import trial_of
from reference import effects as reference
from reference.programmes import Settings, play

BY_HAND = {
    "arms": ["Ada", "Bo", "Ada", "Bo", "Ada", "Bo"],
    "rounds": [1, 1, 2, 2, 3, 3],
    "states": [0, 0, 1, 0, 0, 1],
    "actions": [1, 0, 0, 1, None, None],
    "exposure": [0.5, 0.25, 0.2, 0.5, None, None],
}


def made_log(seed: int = 1, n_arms: int = 12, rounds: int = 15, **changes: Any) -> mf.StateLog:
    """Return a log with everything that can be amiss: states unknown, draws certain, arms away, draws overridden."""
    columns = made_columns(seed, n_arms, rounds) | changes
    return mf.StateLog(**columns)


def made_columns(seed: int = 1, n_arms: int = 12, rounds: int = 15) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    arms, when = (each.ravel() for each in np.meshgrid(np.arange(n_arms), np.arange(rounds), indexing="ij"))
    exposure = rng.choice([0.0, 0.1, 0.3, 0.6, 1.0, np.nan], len(arms))
    drawn = (rng.random(len(arms)) < np.nan_to_num(exposure, nan=0.5)).astype(int)
    states = np.where(rng.random(len(arms)) < 0.1, -1, rng.random(len(arms)) < 0.5)
    kept = rng.random(len(arms)) < 0.93
    columns = {
        "arms": np.array([f"patient {arm}" for arm in arms]),
        "rounds": when,
        "states": states,
        "actions": np.where(rng.random(len(arms)) < 0.05, 1 - drawn, drawn),
        "drawn": drawn,
        "exposure": exposure,
    }
    features = {"district": np.array(["North", "South", ""])[arms % 3][kept].tolist()}
    return {name: values[kept] for name, values in columns.items()} | {"features": features}


def plain_rows(columns: dict[str, Any]) -> list[reference.Row]:
    """Return the rows as the reference wants them."""
    cells = zip(*(columns[name] for name in ("arms", "rounds", "states", "drawn", "exposure")), strict=True)
    return [
        reference.Row(str(arm), int(t), None if s < 0 else int(s), int(a), None if math.isnan(e) else float(e))
        for arm, t, s, a, e in cells
    ]


def test_an_example_by_hand() -> None:
    made = pseudo_outcomes(trial_of(mf.StateLog(**BY_HAND)))  # type: ignore[arg-type]
    ada_1 = (1 - 0.5) / 0.5  # nothing was seen before, so all predictions are 1/2
    bo_1 = -(0 - 0.5) / 0.75
    ada_2 = -(0 - 0.5) / 0.8  # the good state was not seen before
    always = 2 / 3  # Ada's one good outcome after a pull, and the prior
    never = (0 + 4 * 1 / 3) / (1 + 4)  # Bo's own bad outcome, and the rate of all, which is his and the prior
    bo_2 = always - never + (1 - always) / 0.5
    np.testing.assert_allclose(made.value, [ada_1, bo_1, ada_2, bo_2])
    squares = np.array([ada_1, bo_1, ada_2, (1 - always) / 0.5]) ** 2
    np.testing.assert_allclose(
        made.residual**2 * made.factor, 2 * squares
    )  # of the 2 arms of a round one is drawn: 2 / (2 - 1)
    found = mf.effect(mf.StateLog(**BY_HAND))  # type: ignore[arg-type]
    assert found.estimate == pytest.approx((ada_1 + bo_1 + ada_2 + bo_2) / 4)
    assert found.overall.standard_error[0] == pytest.approx(math.sqrt(2 * squares.sum()) / 4)
    assert found.difference == pytest.approx(1 - 0)


@pytest.mark.parametrize("seed", range(5))
def test_it_is_what_the_definition_says(seed: int) -> None:
    columns = made_columns(seed)
    found = mf.effect(mf.StateLog(**columns), group="district", period=4)
    used = reference.pseudo_outcomes(plain_rows(columns))

    def check(table: Any, k: int, rows: list[reference.Used]) -> None:
        assert (table.estimate[k], table.standard_error[k]) == pytest.approx(reference.estimate(rows), rel=1e-12)
        assert table.rows[k] == len(rows)
        assert table.pulled[k] == sum(row.drawn for row in rows)

    check(found.overall, 0, used)
    for s in (0, 1):
        check(found.states, s, [row for row in used if row.state == s])
    assert found.groups is not None
    assert found.groups.names == ("North", "South", "not recorded")
    for k in range(3):
        check(found.groups, k, [row for row in used if int(row.arm.split()[1]) % 3 == k])
    for k, name in enumerate(found.periods.names):
        check(found.periods, k, [row for row in used if row.round // 4 == int(name.split()[0]) // 4])
    for k, name in enumerate(found.rounds.names):
        check(found.rounds, k, [row for row in used if row.round <= int(name)])


def test_the_intervals_are_what_their_formulas_say() -> None:
    columns = made_columns(n_arms=60)
    found = mf.effect(mf.StateLog(**columns), level=0.9)
    rows = plain_rows(columns)
    used, alpha = reference.pseudo_outcomes(rows), 0.1
    first = [
        row.exposure for row in rows if row.round == 0 and row.state is not None and row.exposure not in (None, 0, 1)
    ]
    narrowest = 20 * sum(0.25 / (e * (1 - e)) for e in first if e is not None)
    rho_squared = (-2 * math.log(alpha) + math.log(1 - 2 * math.log(alpha))) / narrowest
    variance = sum(row.square for row in used)
    freedom = 2 * variance**2 / sum(row.square**2 for row in used)
    grown = rho_squared * variance + 1
    radius = math.sqrt(grown / rho_squared * math.log(grown / alpha**2)) / len(used)
    radius *= stats.t.ppf(stats.norm.cdf(3), freedom) / 3
    assert found.interval == pytest.approx((found.estimate - radius, found.estimate + radius))
    once = stats.t.ppf(1 - alpha / 2, freedom) * math.sqrt(variance) / len(used)
    assert found.asymptotic == pytest.approx((found.estimate - once, found.estimate + once))


def test_the_mean_of_a_pseudo_outcome_is_the_effect_whatever_was_predicted() -> None:
    past = {"arms": ["Ada"] * 4, "rounds": [1, 2, 3, 4], "exposure": [0.9, 0.2, 0.3, None]}
    chance, e, mean = {0: 0.2, 1: 0.9}, 0.3, 0.0
    for drawn, outcome in product((0, 1), repeat=2):
        log = mf.StateLog(states=[0, 0, 0, outcome], actions=[1, 1, drawn, None], **past)  # type: ignore[arg-type]
        trial = trial_of(log)
        assert predictions(trial)[:, 2].tolist() != [0.5, 0.5]
        weight = (e if drawn else 1 - e) * (chance[drawn] if outcome else 1 - chance[drawn])
        mean += weight * pseudo_outcomes(trial).value[2]
    assert mean == pytest.approx(0.9 - 0.2)


def test_predictions_know_nothing_of_the_round_or_of_later_ones() -> None:
    columns = made_columns()
    later = columns["rounds"] >= 8
    columns["states"] = np.where(columns["states"] < 0, 0, columns["states"])
    changed = columns | {"states": np.where(columns["rounds"] > 8, 1 - columns["states"], columns["states"])}
    changed["drawn"] = np.where(later, 1 - columns["drawn"], columns["drawn"])
    one, other = (trial_of(mf.StateLog(**each)) for each in (columns, changed))
    now = one.numbers[one.round] <= 8
    np.testing.assert_array_equal(predictions(one)[:, now], predictions(other)[:, now])
    assert (predictions(one)[:, ~now] != predictions(other)[:, ~now]).any()


def test_the_order_of_rows_and_the_names_of_arms_do_not_matter() -> None:
    columns = made_columns()
    order = np.random.default_rng(1).permutation(len(columns["rounds"]))
    mixed = {name: values[order] for name, values in columns.items() if name != "features"}
    names = {arm: f"{7 * k % 12:02d}" for k, arm in enumerate(sorted(set(columns["arms"])))}
    mixed["arms"] = [names[arm] for arm in mixed["arms"]]
    one, other = mf.effect(mf.StateLog(**columns)), mf.effect(mf.StateLog(**mixed))
    for (_, mine), (_, yours) in zip(one.parts, other.parts, strict=True):
        for name, values in mine.columns("part").items():
            if name != "part":
                np.testing.assert_allclose(values, yours.columns("part")[name], rtol=1e-11)


@pytest.mark.parametrize("mirrored", ["pulls", "states"])
def test_the_effect_of_the_opposite_is_the_opposite(mirrored: str) -> None:
    columns = made_columns(n_arms=40)
    columns["states"] = np.where(columns["states"] < 0, np.nan, columns["states"])
    names = {"pulls": ["drawn", "actions", "exposure"], "states": ["states"]}[mirrored]
    other = columns | {name: 1 - columns[name] for name in names}
    found, opposite = mf.effect(mf.StateLog(**columns)), mf.effect(mf.StateLog(**other))
    assert opposite.estimate == pytest.approx(-found.estimate)
    assert opposite.interval == pytest.approx((-found.interval[1], -found.interval[0]))
    assert opposite.difference == pytest.approx(-found.difference)


def test_rows_are_left_out_and_counted_by_what_they_lack() -> None:
    log = mf.StateLog(
        ["Ada"] * 8 + ["Bo"] * 2,
        [1, 2, 3, 4, 5, 6, 7, 8, 1, 2],
        [0, 1, 1, None, 0, 1, 0, 1, 0, 1],
        [1, 0, 0, 1, 0, 1, 0, None, 0, 1],
        exposure=[0.5, 1, 0.3, 0.5, np.nan, 0, 0.4, 0.4, 0.5, 0.5],
        drawn=[1, 0, 0, 1, 0, 1, None, None, 0, 1],
    )
    found = mf.effect(log)
    assert found.left_out == LeftOut(latest=1, no_exposure=1, certain=2, state_unknown=1, outcome_unknown=2, no_draw=1)
    assert found.left_out.total + found.overall.rows[0] == len(log)
    note, unseen = found.notes()
    assert unseen.startswith("Not seen: the next state of 2 of 4 arm-rounds (50 %), 1 of them drawn.")
    assert note.startswith("2 arm-rounds used, 1 of them drawn. 8 rows left out: 1 of the last round")
    assert "2 with an exposure of exactly 0 or 1 (nothing was left to chance)" in note


def test_what_was_drawn_counts_and_not_what_was_done() -> None:
    columns = made_columns(n_arms=80, rounds=8)
    as_drawn = mf.effect(mf.StateLog(**columns))
    assert as_drawn.overridden > 0
    done_otherwise = mf.effect(mf.StateLog(**columns | {"actions": 1 - columns["actions"]}))
    assert repr(done_otherwise.rows()) == repr(as_drawn.rows())  # NaN is not equal to itself
    assert done_otherwise.overridden == done_otherwise.overall.rows[0] - as_drawn.overridden
    assert "that of being drawn (intention to treat)" in as_drawn.notes()[1]
    assert len(mf.effect(mf.StateLog(**columns | {"drawn": columns["actions"]})).notes()) == 2


def test_outcomes_that_are_missing_by_draw_are_warned_of() -> None:
    programme = play(Settings(n_arms=60, budget=15, rounds=20), np.random.default_rng(3))
    rng = np.random.default_rng(4)
    evenly = replace(programme, seen=rng.random(programme.states.shape) > 0.2)
    chance = np.where(programme.drawn, 0.05, 0.2)  # those who were called are easier to reach
    by_draw = replace(programme, seen=np.vstack([evenly.seen[:1], rng.random(chance.shape) > chance]))
    assert not mf.effect(evenly.log()).missing.differs
    found = mf.effect(by_draw.log())
    assert found.missing.differs
    (warning,) = found.warnings()
    assert warning.startswith("Warning: the next state is missing for ")
    assert warning.endswith("If it is missing because of what it is, the effect is biased.")
    assert effect_page(found).warnings == [warning]


def test_a_log_without_chances_is_refused() -> None:
    log = mf.StateLog(["Ada"] * 3, [1, 2, 3], [0, 1, 1], [1, 0, 1])
    with pytest.raises(mf.InputError, match=r"no column exposure.*record for each arm and round the probability"):
        mf.effect(log)


@pytest.mark.parametrize(
    ("exposure", "problem"),
    [
        (
            [1, 0, 1],
            r"no row of the log can be used: 1 row of the last round .*; 2 rows with an exposure of exactly 0 or 1",
        ),
        ([None, None, 0.5], r"1 row of the last round .*; 2 rows without an exposure \(the arm was not in the draw\)"),
    ],
)
def test_a_log_in_which_nothing_was_left_to_chance_is_refused(exposure: list[float], problem: str) -> None:
    with pytest.raises(mf.InputError, match=problem):
        mf.effect(mf.StateLog(["Ada"] * 3, [1, 2, 3], [0, 1, 1], [1, 0, 1], exposure=exposure))


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"level": 1.0}, r"level must lie strictly between 0 and 1, got 1.0"),
        ({"period": 0}, r"period must be at least 1, got 0"),
        ({"group": "sex"}, r"group must be a feature of the arms, got 'sex', but the log was read with district"),
    ],
)
def test_settings_are_checked(changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(mf.InputError, match=problem):
        mf.effect(made_log(), **changes)


def test_only_a_log_has_an_effect() -> None:
    with pytest.raises(mf.InputError, match=r"log must be a StateLog, such as read_log returns, got 'log.csv'"):
        mf.effect("log.csv")  # type: ignore[arg-type]


def test_few_rows_have_an_estimate_and_no_interval() -> None:
    found = mf.effect(mf.StateLog(**BY_HAND))  # type: ignore[arg-type]
    assert math.isnan(found.interval[0])
    assert math.isnan(found.asymptotic[1])
    assert math.isfinite(found.estimate)
    assert str(found) == (
        "It cannot be said yet whether a pull makes a difference: that takes at least 20 draws that reached an arm, "
        "and 20 that did not."
    )
    assert found.plot().axes
    assert "–" in found.table().map(lambda cell: signed(cell) if isinstance(cell, float) else "").to_numpy()


@pytest.fixture(scope="module")
def programme_found() -> Effect:
    programme = play(Settings(n_arms=60, budget=15, rounds=20), np.random.default_rng(2))
    log = programme.log()
    district = [("North", "South", "<b>$x$</b>")[arm % 3] for arm in log.arm]
    names = [log.arms[arm] for arm in log.arm]
    columns = {"exposure": log.exposure, "features": {"district": district}}
    dated = mf.StateLog(names, np.datetime64("2026-01-05") + 7 * log.rounds, log.states, log.actions, **columns)
    return mf.effect(dated, group="district")


def test_intervals_lie_in_each_other_and_narrow(programme_found: Effect) -> None:
    for _, table in programme_found.parts:
        assert (table.anytime_low < table.low).all()
        assert (table.low < table.estimate).all()
        assert (table.estimate < table.high).all()
        assert (table.high < table.anytime_high).all()
    width = programme_found.rounds.anytime_high - programme_found.rounds.anytime_low
    shown = width[programme_found.rounds.shown]
    assert len(shown) >= 18
    assert shown[-1] < 0.4 * shown[0]
    errors = (programme_found.asymptotic[1] - programme_found.estimate) / programme_found.overall.standard_error[0]
    assert 1.959964 < errors < 1.98  # of Student's t with many degrees of freedom


def test_a_higher_level_is_wider(programme_found: Effect) -> None:
    log = play(Settings(rounds=20), np.random.default_rng(2)).log()
    narrow, wide = (mf.effect(log, level=level) for level in (0.8, 0.99))
    assert narrow.estimate == wide.estimate
    for name in ("interval", "asymptotic"):
        (a, b), (c, d) = (vars(type(each))[name].fget(each) for each in (narrow, wide))
        assert c < a < b < d


def test_the_effective_sample_size_is_the_number_of_rows_with_even_chances() -> None:
    columns = made_columns() | {"exposure": np.full(len(made_columns()["rounds"]), 0.5)}
    found = mf.effect(mf.StateLog(**columns))
    assert found.overall.effective[0] == pytest.approx(found.overall.rows[0])
    uneven = mf.effect(made_log())
    assert uneven.overall.effective[0] < uneven.overall.rows[0]


def test_rounds_are_called_as_they_are_in_the_log(programme_found: Effect) -> None:
    assert programme_found.rounds.names[0] == "2026-01-12"
    assert programme_found.periods.names[0] == "2026-01-12 to 2026-01-26"[:10] + " to 2026-02-02"
    assert programme_found.settings["period"] == 4


def test_tables_are_kept(programme_found: Effect, tmp_path: Path) -> None:
    for suffix in (".csv", ".parquet"):
        file, beside = programme_found.save(tmp_path / f"effect{suffix}")
        assert beside.name == f"effect-rounds{suffix}"
        assert file.is_file()
    import pandas as pd
    import pyarrow.parquet as pq

    frame = programme_found.table()
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "effect.parquet"), frame)
    assert json.loads(pq.read_schema(tmp_path / "effect.parquet").metadata[b"meritfair"]) == programme_found.settings
    assert frame["part"].tolist() == ["all", *["state"] * 2, *["district"] * 3, *["period"] * 5]
    assert len(programme_found.table("rounds")) == 20
    assert programme_found.rows()[1]["value"] == "bad (0)"
    with pytest.raises(mf.InputError, match="what must be one of parts, rounds, got 'arms'"):
        programme_found.table("arms")  # type: ignore[arg-type]


def test_a_group_may_be_called_like_a_part() -> None:
    columns = made_columns()
    columns["features"] = {"period": columns["features"]["district"]}
    found = mf.effect(mf.StateLog(**columns), group="period")
    assert [part for part, _ in found.parts] == ["all", "state", "period", "period"]
    assert len(found.rows()) == sum(len(table) for _, table in found.parts)


def test_the_page_says_it_and_names_stay_text(programme_found: Effect, tmp_path: Path) -> None:
    file = tmp_path / "effect.html"
    programme_found.write_page(file)
    text = file.read_text(encoding="utf-8")
    assert str(programme_found) in text
    assert "<b>$x$</b>" not in text
    assert "&lt;b&gt;$x$&lt;/b&gt;" in text
    assert "It misleads because" in text
    assert mf.__version__ in text


def test_the_figure_has_both_panels(programme_found: Effect) -> None:
    left, right = programme_found.plot().axes
    assert [label.get_text() for label in right.get_yticklabels()][::-1][:2] == ["all", "state bad (0)"]
    assert left.get_ylim()[0] < 0 < left.get_ylim()[1]
    with pytest.raises(mf.InputError, match="ax must be two Axes"):
        programme_found.plot(ax=[left])


@pytest.mark.parametrize(
    ("numbers", "begins"),
    [
        (
            (0.1234, 0.07, 0.17),
            "A pull raises the chance of a good next state by 12 percentage points (between 7 and 17",
        ),
        (
            (-0.1, -0.15, -0.05),
            "A pull lowers the chance of a good next state by 10 percentage points (between 5 and 15",
        ),
        ((0.0512, 0.045, 0.056), "A pull raises the chance of a good next state by 5.1 percentage points (between 4.5"),
        ((0.0, -0.05, 0.05), "It is not clear that a pull makes a difference: the estimate is 0 percentage points"),
    ],
)
def test_the_sentence_is_right(numbers: tuple[float, float, float], begins: str) -> None:
    assert verdict(*numbers, 0.95).startswith(begins)


@pytest.mark.slow
def test_it_agrees_with_weighted_least_squares_of_another_library() -> None:
    """At one look, weights of 1 over the probability of what was drawn and robust errors say the same."""
    from statsmodels.api import WLS

    programme = play(Settings(n_arms=200, budget=40, rounds=30, design="systematic", timed=3), np.random.default_rng(6))
    found = mf.effect(programme.log())
    drawn, outcome = programme.drawn.ravel().astype(float), programme.states[1:].ravel()
    e, state = programme.exposure.ravel(), programme.states[:-1].ravel()
    weights = 1 / np.where(drawn == 1, e, 1 - e)

    def weighted(*covariates: Any, rows: Any = slice(None)) -> tuple[float, float]:
        columns = np.column_stack([np.ones(len(drawn)), drawn, *covariates])[rows]
        fitted = WLS(outcome[rows], columns, weights=weights[rows]).fit(cov_type="HC0")
        return fitted.params[1], fitted.bse[1]

    more = state - state.mean()  # centred, so that the coefficient of drawn is the mean effect
    theirs = weighted(more, drawn * more), weighted(rows=state == 0), weighted(rows=state == 1)
    ours = (found.overall, 0), (found.states, 0), (found.states, 1)
    for (table, k), (effect, error) in zip(ours, theirs, strict=True):
        assert abs(table.estimate[k] - effect) < 0.35 * error  # it does not use what was seen of each arm before
        assert table.standard_error[k] == pytest.approx(error, rel=0.08)
    plain = outcome[drawn == 1].mean() - outcome[drawn == 0].mean()
    assert found.difference == pytest.approx(plain)
    assert abs(plain - found.estimate) > 4 * found.overall.standard_error[0]  # which is what misleads


@pytest.mark.slow
def test_the_mean_of_pseudo_outcomes_agrees_with_robust_regression_of_another_library() -> None:
    """Regressed on state, without a constant, they have the effects by state as coefficients, to the last digit."""
    from statsmodels.api import WLS

    log = play(Settings(n_arms=100, budget=20, rounds=30), np.random.default_rng(7)).log()
    found, trial = mf.effect(log), trial_of(log)
    value, state = pseudo_outcomes(trial).value, trial.state[trial.used]
    fitted = WLS(value, np.column_stack([state == 0, state == 1]).astype(float)).fit(cov_type="HC0")
    np.testing.assert_allclose(found.states.estimate, fitted.params, rtol=1e-12)
    np.testing.assert_allclose(found.states.standard_error, fitted.bse, rtol=0.03)  # which centres by the mean
