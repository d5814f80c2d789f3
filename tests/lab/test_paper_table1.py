"""Table 1 and Theorem 5.5: analyses on made-up outcomes whose answers are known, and on tiny real runs."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import numpy as np
import pytest
from scipy import stats

from meritfair.core.arrays import FloatArray
from meritfair.lab.spec import Setting
from meritfair.lab.tasks import Outcome, Task, play
from meritfair.model.merit import Exponential
from meritfair.model.theory import exposure_regret_bound, regret_bound
from meritfair.reproduction import published
from meritfair.reproduction.artefact import DATASETS, SIZES, Findings, Results, Scale, Verdict
from meritfair.reproduction.bound import THEOREM_5_5, bounds, first_useful, make_bounds
from meritfair.reproduction.published import ALPHA, COMPARISONS, Printed, could_be, make_cell, printed
from meritfair.reproduction.table1 import TABLE_1, Bounded, _factor

pytestmark = pytest.mark.slow

FULL = Scale()
QUICK = Scale(episodes=1000, runs=10, quick=True)
Means: TypeAlias = Callable[[Printed], dict[str, float]]


def crosswise(row: Printed) -> dict[str, float]:
    return {"t0": row.G, "G": row.t0}


def as_printed(row: Printed) -> dict[str, float]:
    return {"t0": row.t0, "G": row.G}


def made_up(setting: Setting, runs: int, t0: FloatArray | float, G: FloatArray | float, **others: Any) -> Outcome:
    """Return an outcome with these t0 and G, both ways, and a regret of sqrt(T)."""
    episodes = np.unique(np.geomspace(1, setting.episodes, 40).round().astype(np.int64))
    numbers = {
        "first_valid_episode": t0,
        "first_valid_episode_authors": t0,
        "coverage_gap": G,
        "coverage_gap_authors": G,
        "coverage_gap_censored": 0.0,
        "largest_eta": 0.9,
        "largest_omega": 0.5,
        "fairness_regret": math.sqrt(setting.episodes),
        **others,
    }
    numbers["first_valid_episode_censored"] = np.asarray(numbers["first_valid_episode"]) >= setting.episodes
    measures = {name: np.broadcast_to(np.asarray(value, float), (runs,)) for name, value in numbers.items()}
    curves = {"fairness_regret": np.tile(np.sqrt(episodes), (runs, 1))}
    return Outcome(setting, np.arange(runs), episodes, measures, curves, {})


def around(mean: float, runs: int, spread: float = 0.2) -> FloatArray:
    """Return runs with exactly this mean, spread evenly around it."""
    return np.asarray(mean * (1 + spread * np.linspace(-1, 1, runs))) if runs > 1 else np.array([mean])


def table(means: Means, scale: Scale = FULL, **changes: Any) -> Findings:
    """Analyse a table of which each cell has the mean that is asked for; `changes` replace measures of all cells.

    Runs with a large t0 have a small G, on CPAP a small t0 and a large G, so that no two of them move together.
    """
    results = {}
    for setting in TABLE_1.specs(scale)[0].settings():
        row = printed()[DATASETS[setting.dataset], setting.n_arms]
        t0, G = (around(means(row)[name], scale.runs) for name in ("t0", "G"))
        t0, G = (t0[::-1], G) if row.dataset == "CPAP" else (t0, G[::-1])
        results[setting] = made_up(setting, scale.runs, t0, G, **changes)
    return TABLE_1.analyse(results, scale)


def verdict(findings: Findings, start: str) -> Verdict:
    (found,) = [each for each in findings.verdicts if each.claim.startswith(start)]
    return found


def test_the_published_table_is_whole() -> None:
    rows = printed()
    assert set(rows) == {(title, n) for title in DATASETS.values() for n, _ in SIZES}
    assert {(row.n_arms, row.budget) for row in rows.values()} == set(SIZES)
    assert [rows["CPAP", n].G for n, _ in SIZES] == [57, 84, 89, 106, 118]
    assert [rows["Synthetic-alternate", n].t0 for n, _ in SIZES] == [23, 22, 30, 31, 36]
    assert rows["Synthetic", 100] == ("Synthetic", 100, 20, 668, 13)


def test_the_range_of_a_normal_sample_is_that_of_student() -> None:
    values = stats.norm.ppf((np.arange(30) + 0.5) / 30) * 4 + 50
    for chance in (0.05, ALPHA / COMPARISONS):
        low, high = could_be(values, chance)
        half = stats.t.isf(chance / 2, 29) * values.std(ddof=1) * math.sqrt(2 / 30)
        assert low == pytest.approx(50 - half, abs=0.1 * half)
        assert high == pytest.approx(50 + half, abs=0.1 * half)


def test_the_range_keeps_a_heavy_tail_on_its_side() -> None:
    values = np.r_[np.linspace(20, 60, 29), 2900.0]  # one instance has more than all others together
    low, high = could_be(values, ALPHA / COMPARISONS)
    mean = values.mean()
    assert high - mean > 3 * (mean - low)
    assert low > -100 > mean - stats.t.isf(ALPHA / COMPARISONS / 2, 29) * values.std(ddof=1) * math.sqrt(2 / 30)


def test_the_range_of_equal_values_is_a_point_and_of_one_value_nothing() -> None:
    assert could_be(np.full(30, 7.0), 0.01) == pytest.approx((7.0, 7.0))
    assert all(map(math.isnan, could_be(np.array([7.0]), 0.01)))


def test_the_range_is_the_same_each_time_and_depends_on_the_seed() -> None:
    values = np.arange(30.0)
    assert could_be(values, 0.01) == could_be(values, 0.01) != could_be(values, 0.01, seed=1)


@pytest.fixture
def few_resamples(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Draw only as often as a range of 95 % needs."""
    monkeypatch.setattr(published, "_RESAMPLES", 3000)
    published._times_drawn.cache_clear()
    yield
    published._times_drawn.cache_clear()


@pytest.mark.parametrize(("law", "most"), [(stats.norm(50, 10), 0.06), (stats.lognorm(1.0), 0.1)])
def test_the_mean_of_other_runs_is_in_the_range_about_as_often_as_said(
    law: Any, most: float, few_resamples: None
) -> None:
    """Nominally 5 % are outside. The planted error forgets the chance in the other runs."""
    rng = np.random.default_rng(3)
    pairs, missed, planted = 300, 0, 0
    for _ in range(pairs):
        ours, other = law.rvs(30, random_state=rng), law.rvs(30, random_state=rng).mean()
        low, high = could_be(ours, 0.05)
        missed += not low <= other <= high
        low, high = could_be(ours, 0.05, runs=100_000)  # that many that only the chance in ours is left
        planted += not low <= other <= high
    level = 1e-4 / 6  # three comparisons for each of two laws
    assert stats.binom.sf(missed - 1, pairs, most) > level
    assert stats.binom.cdf(missed, pairs, 0.02) > level
    assert stats.binom.sf(planted - 1, pairs, most) < level


def test_swapped_columns_are_found() -> None:
    found = table(crosswise)
    columns = verdict(found, "G and t0 have")
    assert columns.holds is False
    assert "15 of 15 rows" in columns.found
    assert "crosswise" in columns.found
    swapped = verdict(found, "With its two columns swapped")
    assert swapped.holds is True
    assert swapped.found.startswith("30 of 30 ")
    assert "30 of 30 published numbers" in found.headline


def test_columns_that_are_right_are_not_swapped() -> None:
    found = table(as_printed)
    assert verdict(found, "G and t0 have").holds is True
    assert "0 of 15 rows" in verdict(found, "G and t0 have").found
    assert verdict(found, "With its two columns swapped").holds is False


def test_a_cell_that_misses_is_named_with_its_numbers() -> None:
    def planted(row: Printed) -> dict[str, float]:
        off = 2 if (row.dataset, row.n_arms) == ("CPAP", 40) else 1
        return {"t0": row.G, "G": row.t0 * off}

    found = table(planted)
    swapped = verdict(found, "With its two columns swapped")
    assert swapped.holds is False
    assert swapped.found.startswith("29 of 30 ")
    for named in ("G of CPAP with N = 40, K = 8", "46.0", "published 23"):
        assert named in swapped.found
    rows = found.tables[0].cells
    assert [row[-1] for row in rows].count("no") == 1
    assert found.tables[0].columns["G_fits_crosswise"].count(0.0) == 1


def test_rounding_is_allowed_for() -> None:
    row = Printed("Synthetic", 5, 1, G=38, t0=8)
    (setting,) = FULL.spec(datasets=("synthetic",), sizes=((5, 1),), policies=("merit-fair",)).settings()
    cell = make_cell(made_up(setting, 30, np.full(30, 37.6), 8.0), "t0", row, 0)
    assert [cell.fits(n) for n in (36, 37, 38, 39)] == [False, False, True, False]


@pytest.mark.parametrize("scale", [QUICK, Scale(runs=10), Scale(episodes=1000, runs=1), Scale(runs=1)])
def test_less_than_the_papers_runs_are_not_compared(scale: Scale) -> None:
    found = table(crosswise, scale)
    swapped = verdict(found, "With its two columns swapped")
    assert swapped.holds is None
    assert "30 of 30 need 30 runs of 10,000 episodes" in swapped.found
    assert verdict(found, "G and t0 have").holds is False  # the sign test needs no spread
    assert {row[-1] for row in found.tables[0].cells} == {"–"}
    assert "30 runs of 10,000 episodes" in found.caption
    assert "15 of 15 rows" in found.headline
    TABLE_1.draw(found.numbers).draw_without_rendering()


def test_in_shorter_runs_only_a_t0_that_all_have_reached_is_compared() -> None:
    row, scale = Printed("Synthetic", 5, 1, G=38, t0=8), Scale(episodes=1000)
    (setting,) = scale.spec(datasets=("synthetic",), sizes=((5, 1),), policies=("merit-fair",)).settings()
    reached = made_up(setting, 30, around(38, 30), 8.0)
    assert make_cell(reached, "t0", row, 0).fits(38) is True
    assert make_cell(reached, "G", row, 0).fits(8) is None
    t0 = around(38, 30)
    t0[3] = 1000.0
    outcome = made_up(setting, 30, t0, 8.0, first_valid_episode_authors=np.where(t0 == 1000, 200.0, t0))
    cell = make_cell(outcome, "t0", row, 0)
    assert (cell.censored, cell.fits(38)) == (1, None)
    longer = dataclasses.replace(outcome, setting=dataclasses.replace(setting, episodes=20_000))
    assert make_cell(longer, "G", row, 0).fits(8) is None


@pytest.mark.parametrize(("scale", "holds"), [(FULL, False), (QUICK, None)])
def test_runs_that_never_get_to_t0_are_counted(scale: Scale, holds: bool | None) -> None:
    found = table(crosswise, scale, first_valid_episode=np.r_[float(scale.episodes), np.full(scale.runs - 1, 50.0)])
    reached = verdict(found, "There is a t0")
    assert reached.holds is holds
    assert f"{15 * (scale.runs - 1)} of {15 * scale.runs} runs" in reached.found
    assert "1 of CPAP with N = 100" in reached.found
    assert "largest t0 reached is 50" in reached.found
    assert found.tables[1].columns["t0_censored"] == [1] * 15
    assert found.tables[1].columns["G_censored"] == [0] * 15
    assert [row[3].startswith("≥ ") for row in found.tables[1].cells] == [True] * 15
    assert not any(row[5].startswith("≥") for row in found.tables[1].cells)
    assert "not reached in 15 runs" in verdict(found, "t0 is mostly").found


def test_g_of_runs_that_end_within_the_longest_wait_is_a_lower_bound() -> None:
    found = table(crosswise, coverage_gap_censored=np.r_[1.0, np.zeros(29)])
    assert [row[5].startswith("≥ ") for row in found.tables[1].cells] == [True] * 15
    assert not any(row[3].startswith("≥") for row in found.tables[1].cells)
    assert "15 runs ended within the longest wait" in verdict(found, "G gets larger").found
    assert found.tables[1].columns["G_censored"] == [1] * 15


@pytest.mark.parametrize(("t0", "holds"), [(30.0, None), (20.0, True)])
def test_a_t0_that_some_runs_have_not_reached_is_never_called_low(t0: float, holds: bool | None) -> None:
    # Both are below 40; the first is no more than the length of the run.
    found = table(lambda row: {"t0": t0, "G": 5.0}, Scale(episodes=30, runs=10), first_valid_episode=t0)
    assert verdict(found, "t0 remains low").holds is holds


def test_bounds_say_only_what_they_know() -> None:
    four, two = np.array([4.0, 3.9, 4.1]), np.array([2.0, 1.9, 2.1])
    at_least, exact = Bounded(four, larger=True), Bounded(two)
    assert (at_least.above(3), at_least.below(3), at_least.below(5), at_least.above(5)) == (True, False, None, None)
    assert (exact.above(1), exact.below(3), exact.above(3), exact.below(1)) == (True, True, False, False)
    at_most = exact.over(at_least)
    assert (at_most.larger, at_most.smaller) == (False, True)
    assert (at_most.below(1), at_most.above(1), at_most.above(0.1), at_most.below(0.1)) == (True, False, None, None)
    assert at_least.over(at_least).text().startswith("~ 1.00")
    assert at_least.over(at_least).below(5) is None


def test_a_factor_over_sizes_is_a_lower_bound_if_the_largest_mean_is() -> None:
    small, large = Bounded(np.array([2.0])), Bounded(np.array([8.0]), larger=True)
    assert _factor([small, large]).text(0) == "≥ 4"
    assert _factor([small._replace(larger=True), large]).text(0) == "~ 4"
    assert _factor([small, large._replace(larger=False)]).text(0) == "4"


def test_t0_that_is_always_reached() -> None:
    reached = verdict(table(crosswise), "There is a t0")
    assert reached.holds is True
    assert "450 of 450" in reached.found


@pytest.mark.parametrize(("t0", "holds"), [(20.0, True), (60.0, False), (40.0, None)])
def test_whether_t0_stays_low(t0: float, holds: bool | None) -> None:
    low = verdict(table(lambda row: {"t0": t0, "G": 5.0}), "t0 remains low")
    assert low.holds is holds
    assert f"t0 is {t0:.0f} on average" in low.found


@pytest.mark.parametrize(("exponents", "holds"), [((0.1, 1.0), True), ((1.0, 0.1), False), ((0.5, 0.5), None)])
def test_which_of_t0_and_g_varies_more(exponents: tuple[float, float], holds: bool | None) -> None:
    found = table(lambda row: {"t0": 9 * row.n_arms ** exponents[0], "G": 9 * row.n_arms ** exponents[1]})
    steady = verdict(found, "t0 is mostly consistent")
    assert steady.holds is holds
    assert f"Synthetic: t0 {20 ** exponents[0]:.1f}" in steady.found  # from N = 5 to N = 100


@pytest.mark.parametrize(("exponent", "holds"), [(0.5, True), (-0.5, False), (0.0, None)])
def test_whether_g_grows(exponent: float, holds: bool | None) -> None:
    found = table(lambda row: {"t0": 50.0, "G": 20 * row.n_arms**exponent})
    assert verdict(found, "G gets larger").holds is holds


@pytest.mark.parametrize(("cpap", "others", "holds"), [(0.1, 1.0, True), (1.0, 0.1, False), (0.5, 0.5, None)])
def test_whether_cpap_is_more_uniform(cpap: float, others: float, holds: bool | None) -> None:
    def means(row: Printed) -> dict[str, float]:
        return dict.fromkeys(("t0", "G"), 9 * row.n_arms ** (cpap if row.dataset == "CPAP" else others))

    assert verdict(table(means), "On CPAP").holds is holds


def test_tables_have_both_ways_and_all_digits() -> None:
    found = table(crosswise, coverage_gap=around(99, 30), first_valid_episode=around(88, 30))
    compared, both = found.tables
    assert compared.cells[0][:5] == ["Synthetic", "5", "1", "38", compared.cells[0][4]]
    assert compared.columns["published_under_G"][0] == 38
    assert compared.columns["t0_authors"][0] == pytest.approx(38)
    assert both.columns["t0"][0] == pytest.approx(88)
    assert both.columns["G"][0] == pytest.approx(99)
    for each in found.tables:
        assert {len(row) for row in each.cells} == {len(each.headings)}
        assert {len(column) for column in each.columns.values()} == {15}


def test_the_figure_is_drawn() -> None:
    figure = TABLE_1.draw(table(crosswise).numbers)
    figure.draw_without_rendering()
    assert [axes.get_title("left") for axes in figure.axes] == ["As printed", "With its columns swapped"]


# Theorem 5.5


def one_setting(scale: Scale = FULL, c: int = 3) -> Setting:
    spec = scale.spec(
        datasets=("synthetic",), sizes=((5, 1),), policies=("merit-fair",), merits=(f"exponential:c={c}",)
    )
    return spec.settings()[0]


def theorem(scale: Scale = FULL, **changes: Any) -> Findings:
    """Analyse made-up outcomes, all the same but for their merit."""
    curve = changes.pop("curve", 1.0)
    results: dict[Setting, Outcome] = {}
    for setting in THEOREM_5_5.specs(scale)[0].settings():
        outcome = made_up(setting, scale.runs, **{"t0": 20.0, "G": 10.0, **changes})
        scaled = {name: curve * values for name, values in outcome.curves.items()}
        results[setting] = dataclasses.replace(outcome, curves=scaled)
    return THEOREM_5_5.analyse(results, scale)


def test_bounds_are_those_of_the_theory_from_t0_on() -> None:
    outcome = made_up(one_setting(), 3, np.array([5.0, 20.0, 10_000.0]), np.array([2.0, 7.0, 9.0]))
    T = np.array([5.0, 6.0, 20.0, 100.0])
    theirs, ours = bounds(outcome, T)
    assert theirs.shape == ours.shape == (2, 4)  # the third run never got to t0
    assert (
        np.isnan(theirs).tolist() == np.isnan(ours).tolist() == [[True, False, False, False], [True, True, True, False]]
    )
    known: dict[str, Any] = {
        "n_arms": 5,
        "merit": Exponential(3.0),
        "delta": 0.01,
        "first_valid_episode": 20,
        "coverage_gap": 7,
        "eta": 0.9,
    }
    assert theirs[1, 3] == pytest.approx(float(regret_bound(100, omega=0.5, **known)))
    assert ours[1, 3] == pytest.approx(float(exposure_regret_bound(100, budget=1, **known)))
    by_hand = 5 * 20 + 5 * 10 + 96 * 3 * math.exp(6) * math.sqrt(7 * 100 * math.log(8 * 5 * 100 / 0.01)) / (0.1 * 0.5)
    assert theirs[1, 3] == pytest.approx(by_hand)


def test_from_where_on_a_bound_says_something() -> None:
    T = np.array([1.0, 10.0, 100.0, 1000.0])
    rows = [100 * np.sqrt(T), np.array([1.0, 30.0, 1.0, 1.0]), np.ones(4), 3 * T, np.array([np.nan, 1.0, 1.0, 1.0])]
    assert first_useful(np.stack(rows), T).tolist() == [math.inf, 100.0, 1.0, math.inf, 10.0]
    assert first_useful(np.stack([100 * np.sqrt(T * 10)]), T * 10).tolist() == [10_000.0]  # 100 sqrt(T) = 2 T at 2,500
    assert first_useful(np.empty((0, 4)), T).tolist() == []


def test_where_the_bound_is_useful_is_where_it_crosses_2t() -> None:
    outcome = made_up(one_setting(), 2, 20.0, 10.0)
    found = make_bounds(outcome, 3, 0)
    useful = found.row["useful_from_median"]
    at = bounds(outcome, np.array([useful / 1.05, useful * 1.05]))[0][0]
    assert at[0] > 2 * useful / 1.05
    assert at[1] < 2 * useful * 1.05


def test_regret_below_the_bound_keeps_the_theorem() -> None:
    kept = verdict(theorem(), "For T > t0")
    assert kept.holds is True
    assert "270 of 270 runs" in kept.found
    numbers = verdict(theorem(), "At the length")
    assert numbers.holds is False
    assert "c = 10" in numbers.found


def test_regret_above_the_bound_is_noticed() -> None:
    kept = verdict(theorem(curve=1e30), "For T > t0")
    assert kept.holds is False
    assert "0 of 270 runs" in kept.found


def test_a_part_delta_of_the_runs_may_be_above() -> None:
    few = np.ones((30, 1))
    few[0] = 1e30  # one run of thirty in every setting is more than 1 %
    assert verdict(theorem(curve=few), "For T > t0").holds is False


def test_a_theorem_that_applies_to_no_run_decides_nothing() -> None:
    nothing = theorem(QUICK, t0=1000.0, largest_eta=np.nan, largest_omega=np.nan)
    assert [each.holds for each in nothing.verdicts[:2]] == [None, None]
    assert "90 runs did not reach t0" in nothing.verdicts[0].found
    assert nothing.headline == ""
    THEOREM_5_5.draw(nothing.numbers).draw_without_rendering()


def test_runs_without_t0_are_left_out() -> None:
    t0 = np.r_[10_000.0, np.full(29, 20.0)]
    eta = np.r_[np.nan, np.full(29, 0.9)]
    found = theorem(t0=t0, largest_eta=eta, largest_omega=eta / 2)
    assert "261 of 261 runs" in found.verdicts[0].found
    assert "9 runs did not reach t0" in found.verdicts[0].found
    assert found.tables[0].columns["runs_with_bound"] == [29] * 9


@pytest.mark.parametrize(("G", "holds"), [(1.0, True), (2.0, False)])
def test_the_lemmas_limit_where_there_is_one(G: float, holds: bool) -> None:
    lemma = verdict(theorem(G=G), "In every G episodes")
    assert lemma.holds is holds
    assert "1/psi is 1.37" in lemma.found
    assert "c = 3 and 10" in lemma.found  # for which the limit is infinite


def test_a_g_that_is_a_lower_bound_does_not_keep_the_lemma() -> None:
    assert verdict(theorem(G=1.0, coverage_gap_censored=1.0), "In every G episodes").holds is None
    found = theorem(G=2.0, coverage_gap_censored=1.0)
    assert verdict(found, "In every G episodes").holds is False
    assert {row[3] for row in found.tables[0].cells} == {"≥ 2.0 (2.0 to 2.0)"}
    assert not any(row[2].startswith("≥") for row in found.tables[0].cells)


def test_a_single_run_has_a_bound_but_no_intervals() -> None:
    found = theorem(Scale(runs=1))
    assert "9 of 9 runs" in found.verdicts[0].found
    assert found.verdicts[2].holds is None
    assert "(" not in found.tables[0].cells[0][2]


# both, on real runs


def played(artefact_specs: Any, scale: Scale) -> Results:
    settings = [setting for spec in artefact_specs(scale) for setting in spec.settings()]
    return {setting: play(Task(setting, 0, scale.runs)) for setting in settings}


@pytest.mark.parametrize("artefact", [TABLE_1, THEOREM_5_5])
def test_a_tiny_run_goes_through(artefact: Any) -> None:
    scale = Scale(episodes=30, runs=2, quick=True)
    found = artefact.analyse(played(artefact.specs, scale), scale)
    artefact.draw(found.numbers).draw_without_rendering()
    assert found.verdicts
    assert found.caption
    assert all(each.found and each.claim.endswith(".") for each in found.verdicts)
    assert found.tables[0].name == artefact.name


def test_both_share_the_settings_of_five_arms() -> None:
    shared = set(TABLE_1.specs(FULL)[0].settings()) & set(THEOREM_5_5.specs(FULL)[0].settings())
    assert {setting.dataset for setting in shared} == set(DATASETS)
    assert all(setting.authors and setting.n_arms == 5 for setting in shared)


@pytest.mark.parametrize("name", DATASETS)
def test_five_arms_at_full_scale_match_the_published_row_crosswise(name: str) -> None:
    """Each of the six cells is looked at with the level of all thirty; as printed, G is far outside."""
    (setting,) = FULL.spec(datasets=(name,), sizes=((5, 1),), policies=("merit-fair",)).settings()
    outcome, row = play(Task(setting, 0, 30)), printed()[DATASETS[name], 5]
    t0, G = (make_cell(outcome, quantity, row, 0) for quantity in ("t0", "G"))
    assert t0.fits(row.G) is True
    assert G.fits(row.t0) is True
    assert G.fits(row.G) is False
