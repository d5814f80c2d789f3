"""Figures 1 to 4, Appendix B and Optimal both ways, on made-up outcomes whose answers are known, and on a real one."""

import math
import pickle
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meritfair.lab import resampling
from meritfair.lab.spec import Setting
from meritfair.lab.tasks import Outcome, Task, curve_episodes, play
from meritfair.reproduction import growth
from meritfair.reproduction.appendix_b import APPENDIX_B
from meritfair.reproduction.artefact import DATASETS, SIZES, Artefact, Findings, Scale
from meritfair.reproduction.exposure import FIGURE_1, policy_exposure
from meritfair.reproduction.regret import BUDGETS, FIGURES_2_TO_4, OPTIMAL_BOTH_WAYS
from meritfair.simulation import bootstrap
from meritfair.simulation.bootstrap import Interval, interval

pytestmark = pytest.mark.slow

FIGURE_2, FIGURE_3, FIGURE_4 = FIGURES_2_TO_4
APPENDIX_B_C1, APPENDIX_B_C10 = APPENDIX_B
ALL = (FIGURE_1, FIGURE_2, FIGURE_3, FIGURE_4, APPENDIX_B_C1, APPENDIX_B_C10, OPTIMAL_BOTH_WAYS)
FULL, SMALL, ONE, QUICK = Scale(), Scale(60, 12), Scale(60, 1), Scale(60, 12, quick=True)
NAN = float("nan")
each_artefact = pytest.mark.parametrize("artefact", ALL, ids=lambda each: each.name)


@dataclass(frozen=True)
class Planted:
    """Regret of level · (episode / T)^power, times exp(sd · normal) in each run; the authors' is that many times it."""

    level: float = 100.0
    power: float = 0.6
    sd: float = 0.05
    authors: float = 1.0
    flatter: float = 0.0  # by how much the power of the authors' is less
    greedy: bool = False


Plan = Callable[[Setting], Planted]


def usual(setting: Setting) -> Planted:
    """What the paper says, in numbers."""
    c = {"exponential:c=1": 1, "exponential:c=3": 3, "exponential:c=10": 10}[setting.merit]
    if setting.policy == "optimal":
        return Planted(level=1000.0, power=1.0, authors=0.5, greedy=True)
    off = abs(setting.budget / setting.n_arms - (0.5 if "cpap" in setting.dataset else 0.3))
    return Planted(30.0 * c * (1 + 5 * off), 0.5 + 0.02 * c, 0.02 if "cpap" in setting.dataset else 0.2)


@cache
def made_up(setting: Setting, runs: int, planted: Planted) -> Outcome:
    problem = f"{setting.dataset} {setting.n_arms} {setting.budget}"
    whole = f"{problem} {setting.policy} {setting.merit} {setting.episodes}"  # not all fields: there may be new ones
    rng, arms = (np.random.default_rng(zlib.crc32(each.encode())) for each in (whole, problem))
    kept = curve_episodes(setting.episodes)
    noise = np.exp(planted.sd * rng.standard_normal((runs, 1)))
    own = planted.level * noise * (kept / setting.episodes) ** planted.power
    drawn = planted.authors * own * (kept / setting.episodes) ** -planted.flatter
    curves = {"fairness_regret": own, "fairness_regret_authors": drawn}
    benefit = np.sort(arms.uniform(-1, 1, (runs, setting.n_arms)))[:, ::-1]  # the best first, not as in the figure
    best = np.broadcast_to(np.arange(setting.n_arms) < setting.budget, benefit.shape).astype(float)
    steepness = float(setting.merit.rpartition("=")[2]) / 12
    fair = (1 - steepness) * setting.budget / setting.n_arms + steepness * best
    by_arm = {"benefit": benefit, "exposure": best if planted.greedy else fair, "fair_exposure": fair}
    measures = {name: curve[:, -1] for name, curve in curves.items()}
    return Outcome(setting, np.arange(runs), kept, measures, curves, by_arm)


def found_by(artefact: Artefact, plan: Plan = usual, scale: Scale = SMALL) -> Findings:
    wanted = {setting for spec in artefact.specs(scale) for setting in spec.settings()}
    return artefact.analyse({each: made_up(each, scale.runs, plan(each)) for each in wanted}, scale)


def holds(found: Findings, words: str) -> bool | None:
    (verdict,) = [each for each in found.verdicts if words in each.claim]
    return verdict.holds


def only(change: Callable[[Setting, Planted], Planted]) -> Plan:
    return lambda setting: change(setting, usual(setting))


def runs_of(values: list[list[float]], episodes: list[int] | None = None) -> Outcome:
    """An outcome with these curves, a row for each run."""
    curve = np.array(values, dtype=float)
    kept = np.arange(1, curve.shape[1] + 1) if episodes is None else np.array(episodes)
    setting = Setting(dataset="synthetic", n_arms=5, budget=1, policy="merit-fair", episodes=int(kept[-1]))
    return Outcome(setting, np.arange(len(curve)), kept, {}, {"fairness_regret": curve}, {})


class TestResampling:
    def test_each_row_is_a_draw_of_all_runs(self) -> None:
        table = bootstrap.weights(7, seed=3)
        assert np.allclose(table.sum(axis=1), 1)
        assert np.array_equal(np.unique(np.round(table[1:] * 7, 9) % 1), [0.0])
        assert np.allclose(table[1:].mean(axis=0), 1 / 7, atol=0.01)  # sd of each mean 0.003

    def test_the_same_again_and_another_for_another_number(self) -> None:
        first = bootstrap.weights(5, seed=1).copy()
        bootstrap.weights.cache_clear()
        assert np.array_equal(first, bootstrap.weights(5, seed=1))
        assert not np.array_equal(first, bootstrap.weights(5, seed=1, number=1))
        with pytest.raises(ValueError, match="read-only"):
            bootstrap.weights(5, seed=1)[0, 0] = 1.0

    def test_a_mean_has_the_interval_that_it_has_elsewhere(self) -> None:
        runs = np.random.default_rng(0).gamma(2.0, size=30)
        ours, theirs = bootstrap.interval_of(bootstrap.weights(30, 0) @ runs), interval(runs, 0)
        assert tuple(ours) == pytest.approx(tuple(theirs), rel=1e-2)

    def test_one_run_has_no_interval(self) -> None:
        found = bootstrap.interval_of(bootstrap.weights(1) @ np.array([4.0]))
        assert found.mean == 4.0
        assert np.isnan(found.low)
        assert np.isnan(found.high)

    def test_what_cannot_be_divided_has_no_end(self) -> None:
        weight = bootstrap.weights(2)
        flat = bootstrap.ratio(np.ones(len(weight)), bootstrap.spread(np.array([1.0, 2.0]), weight))
        found = bootstrap.interval_of(flat)  # half of the resamples have one run twice
        assert (found.low, found.high) == (-np.inf, np.inf)
        assert found.mean == 2.0

    @given(st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=9), st.sampled_from([0.0, 1e9]))
    @settings(max_examples=50)
    def test_spread_is_the_standard_deviation(self, values: list[float], offset: float) -> None:
        runs = np.array(values) + offset
        weight = bootstrap.weights(len(runs))
        drawn = np.repeat(runs, np.round(weight[1] * len(runs)).astype(int))
        assert bootstrap.spread(runs, weight)[0] == pytest.approx(runs.std(), abs=1e-4)
        assert bootstrap.spread(runs, weight)[1] == pytest.approx(drawn.std(), abs=1e-4)

    @pytest.mark.parametrize(
        ("value", "is_below", "is_above"),
        [
            (Interval(0.5, 0.4, 0.6), True, False),
            (Interval(1.5, 1.4, 1.6), False, True),
            (Interval(1.0, 0.9, 1.1), None, None),
            (Interval(0.9, 0.8, 1.1), None, None),
            (Interval(1.1, 0.9, 1.2), None, None),
            (Interval(0.5, NAN, NAN), None, None),
            (Interval(0.5, -np.inf, np.inf), None, None),
        ],
    )
    def test_a_claim_needs_the_whole_interval(
        self, value: Interval, is_below: bool | None, is_above: bool | None
    ) -> None:
        assert resampling.below(value, 1.0) is is_below
        assert resampling.above(value, 1.0) is is_above

    def test_numbers_that_are_missing_are_dashes(self) -> None:
        assert resampling.shown(Interval(NAN, NAN, NAN)) == "–"
        assert resampling.span([NAN]) == "–"
        assert resampling.percent(NAN) == "–"
        assert resampling.shown(Interval(-1.5, -np.inf, 2.0), 1) == "−1.5 (−∞ to 2.0)"


class TestGrowth:
    @pytest.mark.parametrize("power", [0.5, 0.62, 1.0])
    def test_a_planted_exponent_is_found(self, power: float) -> None:
        setting = Setting(dataset="synthetic", n_arms=5, budget=1, policy="merit-fair", episodes=10_000)
        found = growth.exponent(made_up(setting, 30, Planted(power=power, sd=0.5)))
        assert found == pytest.approx((power, power, power), abs=1e-9)

    def test_only_the_last_nine_tenths_count(self) -> None:
        t = np.arange(1.0, 1001.0)
        curve = np.where(t < 100, t, 10 * np.sqrt(t))  # linear, then as the root
        assert growth.exponent(runs_of([curve.tolist()])).mean == pytest.approx(0.5)
        assert growth.slope(t, curve) > 0.51  # all of it would not do

    def test_it_is_that_of_the_mean_not_the_mean_of_those_of_the_runs(self) -> None:
        t = np.arange(1.0, 1001.0)
        found = growth.exponent(runs_of([(1e-6 * np.sqrt(t)).tolist(), t.tolist()]))
        assert found.mean == pytest.approx(1.0, abs=1e-3)
        assert found.low == pytest.approx(0.5)  # resamples with the small run twice

    def test_no_regret_and_one_point_have_no_exponent(self) -> None:
        for values in ([[0.0] * 20, [0.0] * 20], [[1.0], [1.0]]):
            found = growth.exponent(runs_of(values))
            assert np.isnan(found.mean)
            assert growth.is_sublinear([found]) is None
            assert growth.is_linear([found]) is None

    @given(st.floats(0.1, 1.5), st.floats(1e-6, 1e6))
    @settings(max_examples=30)
    def test_units_do_not_matter(self, power: float, factor: float) -> None:
        t = np.arange(1.0, 60.0)
        assert growth.slope(t, factor * t**power) == pytest.approx(power, abs=1e-6)

    def test_the_bars(self) -> None:
        low, high, wide = Interval(0.9, 0.8, 0.94), Interval(1.02, 1.0, 1.04), Interval(0.97, 0.9, 1.01)
        assert [growth.is_sublinear([each]) for each in (low, high, wide)] == [True, False, None]
        assert [growth.is_linear([each]) for each in (low, high, wide)] == [False, True, None]
        assert growth.is_sublinear([low, wide]) is None
        assert growth.is_sublinear([low, wide, high]) is False

    @pytest.mark.parametrize("episodes", [1000, 10_000])
    def test_the_rate_of_the_theorem_is_a_half_and_its_logarithm(self, episodes: int) -> None:
        # d ln sqrt(t ln t) / d ln t = 1/2 + 1 / (2 ln t), here from T/10 to T
        ends = [0.5 + 0.5 / math.log(t) for t in (episodes, episodes / 10)]
        assert ends[0] < growth.rate_of_theorem(episodes) < ends[1]


class TestFigures2To4:
    @pytest.mark.parametrize("artefact", [FIGURE_2, FIGURE_3, FIGURE_4], ids=lambda each: each.name)
    def test_what_the_paper_says_holds_where_it_is_planted(self, artefact: Artefact) -> None:
        found = found_by(artefact)
        assert [each.holds for each in found.verdicts] == [True] * (4 if artefact is FIGURE_4 else 5)
        assert found.numbers.budgets.least == pytest.approx(0.5 if artefact is FIGURE_4 else 0.3)
        assert found.numbers.panels[0].lines["merit_fair"].growth.mean == pytest.approx(0.56)

    def test_regret_that_is_linear_is_not_called_sublinear(self) -> None:
        linear = only(lambda s, p: replace(p, power=1.02) if s.n_arms == 40 else p)
        assert holds(found_by(FIGURE_2, linear), "sublinear") is False

    def test_the_distance_to_a_half_is_told_and_decides_nothing(self) -> None:
        slow = found_by(FIGURE_2, only(lambda s, p: replace(p, power=0.9))).verdicts[0]
        assert slow.holds is True
        assert "Above ½ by 0.40" in slow.found
        assert "is below 1" in slow.rule

    def test_optimal_that_learns_is_not_called_linear(self) -> None:
        learns = only(lambda s, p: replace(p, power=0.6) if s.policy == "optimal" else p)
        (verdict,) = [each for each in found_by(FIGURE_2, learns).verdicts if each.claim.startswith("Optimal")]
        assert verdict.holds is False

    def test_optimal_is_judged_by_its_own_regret(self) -> None:
        drawn_flat = only(lambda s, p: replace(p, flatter=0.3))
        found = found_by(FIGURE_2, drawn_flat)
        lines = found.numbers.panels[0].lines
        assert lines["authors"].regret.mean == pytest.approx(0.5 * lines["optimal"].regret.mean)
        assert lines["authors"].growth.mean == pytest.approx(lines["optimal"].growth.mean - 0.3)
        assert found.verdicts[1].holds is True
        assert found_by(OPTIMAL_BOTH_WAYS, drawn_flat).verdicts[1].holds is False

    def test_runs_that_vary_as_little_as_on_cpap(self) -> None:
        calm = only(lambda s, p: replace(p, sd=0.001) if s.dataset == "synthetic" else p)
        assert holds(found_by(FIGURE_2, calm), "variance") is False

    @pytest.mark.parametrize(("best", "expected"), [(2, True), (3, True), (4, True), (5, False), (9, False)])
    def test_the_least_is_where_it_is_planted(self, best: int, expected: bool) -> None:
        def plan(setting: Setting) -> Planted:
            by_budget = Planted(level=100.0 + 100.0 * abs(setting.budget - best))
            return by_budget if setting.n_arms == 10 and setting.policy == "merit-fair" else usual(setting)

        found = found_by(FIGURE_2, plan)
        assert found.numbers.budgets.least == best / 10
        assert holds(found, "least around") is expected
        assert holds(found, "Increasing K") is (best < 6)

    def test_two_that_are_as_good_are_inconclusive(self) -> None:
        def plan(setting: Setting) -> Planted:
            return Planted(level=100.0 if setting.budget in (3, 8) else 200.0, sd=0.3)

        found = found_by(FIGURE_2, plan, SMALL)
        chances = found.numbers.budgets.chance
        assert chances[[2, 7]].sum() > 0.9
        assert chances[[2, 7]].min() > 0.05
        assert holds(found, "least around") is None

    def test_a_place_that_is_chance_is_not_taken_for_sure(self) -> None:
        """All K the same: no K is the least in most resamples, for most seeds."""
        flat = only(lambda s, p: Planted(sd=0.5))
        assert holds(found_by(FIGURE_2, flat), "least around") is None


class TestFigure1:
    def test_planted_policies(self) -> None:
        found = found_by(FIGURE_1)
        greedy, fair = found.numbers["optimal"], found.numbers["merit-fair"]
        assert [each.mean for each in greedy.by_rank] == [0, 0, 0, 0, 1]  # in order of benefit
        assert greedy.ignored.mean == 1.0
        assert greedy.suboptimal.mean == 0.0
        assert fair.misplaced.mean == pytest.approx(0.0, abs=1e-12)
        assert greedy.misplaced.mean == pytest.approx(1 - fair.fair[:, -1].mean())
        assert [each.holds for each in found.verdicts] == [True, True]

    def test_policies_that_change_places(self) -> None:
        swapped = only(lambda s, p: replace(p, greedy=not p.greedy))
        assert [each.holds for each in found_by(FIGURE_1, swapped).verdicts] == [False, False]

    def test_more_than_one_pull(self) -> None:
        setting = Setting(dataset="synthetic", n_arms=4, budget=2, policy="optimal", episodes=10)
        outcome = made_up(setting, 3, Planted(greedy=True))
        even = {**outcome.by_arm, "fair_exposure": np.full((3, 4), 0.5)}
        found = policy_exposure(replace(outcome, by_arm=even))
        assert found.suboptimal.mean == 0.0
        assert found.misplaced.mean == pytest.approx(0.5)  # one of two pulls


class TestBothWays:
    def test_planted(self) -> None:
        found = found_by(OPTIMAL_BOTH_WAYS)
        assert [each.holds for each in found.verdicts] == [False, True, True]
        assert "2.0 times as unfair" in found.headline

    def test_the_same_curve_is_the_same(self) -> None:
        same = only(lambda s, p: replace(p, authors=1.01))
        assert holds(found_by(OPTIMAL_BOTH_WAYS, same), "show its fairness regret") is True

    def test_one_setting_that_differs_is_enough(self) -> None:
        one = only(lambda s, p: replace(p, authors=1.2 if s.n_arms == 40 else 1.0))
        found = found_by(OPTIMAL_BOTH_WAYS, one)
        assert holds(found, "show its fairness regret") is False
        assert "in 12 of 15 settings (not in 3)" in found.verdicts[0].found

    def test_mf_rmab_that_is_worse(self) -> None:
        worse = only(lambda s, p: replace(p, level=2000.0) if s.policy == "merit-fair" else p)
        assert holds(found_by(OPTIMAL_BOTH_WAYS, worse), "less regret") is False


class TestAppendixB:
    def test_planted_for_a_large_c(self) -> None:
        found = found_by(APPENDIX_B_C10)
        assert [each.holds for each in found.verdicts] == [True] * 4
        lines, columns = found.numbers[0].lines, found.tables[1].columns
        assert lines["merit_fair"].growth.mean == pytest.approx(0.7)
        assert lines["reference"].growth.mean == pytest.approx(0.56)  # with c = 3
        assert columns["exponent"] == pytest.approx([0.14] * 15)
        assert columns["regret"] == pytest.approx([10 / 3] * 15, rel=0.35)

    def test_regret_that_does_not_grow_with_c(self) -> None:
        plain = only(lambda s, p: replace(p, level=100.0, power=0.6, sd=0.3) if s.policy == "merit-fair" else p)
        found = found_by(APPENDIX_B_C10, plain)
        assert holds(found, "higher regret") is None
        assert holds(found, "more linear") in (None, False)
        falls = only(lambda s, p: replace(p, level=10.0, power=0.4) if s.merit.endswith("=10") else p)
        assert holds(found_by(APPENDIX_B_C10, falls), "higher regret") is False
        assert holds(found_by(APPENDIX_B_C10, falls), "more linear") is False

    def test_a_claim_has_to_hold_on_every_data_set(self) -> None:
        here = only(lambda s, p: replace(p, power=0.56) if "cpap" in s.dataset else p)
        assert holds(found_by(APPENDIX_B_C10, here), "more linear") in (None, False)

    @pytest.mark.parametrize(
        ("sd", "level", "absolute", "relative"),
        [(0.5, 90.0, True, True), (0.5, 9.0, False, True), (0.01, 90.0, False, False), (0.01, 9.0, False, False)],
    )
    def test_both_readings_of_variance(self, sd: float, level: float, absolute: bool, relative: bool) -> None:
        def plan(setting: Setting) -> Planted:
            return Planted(level, 0.6, sd) if setting.merit.endswith("=1") else Planted(90.0, 0.6, 0.1)

        found = found_by(APPENDIX_B_C1, plan, Scale(60, 30))
        first, second = [each.holds for each in found.verdicts if "variance" in each.claim]
        assert first is absolute
        assert second is relative

    def test_runs_are_compared_with_themselves(self) -> None:
        """The same random numbers with 10 % less regret: far less than runs differ, and yet sure."""

        def plan(setting: Setting) -> Planted:
            return Planted(90.0 if setting.merit.endswith("=1") else 100.0, sd=0.5)

        wanted = {s for spec in APPENDIX_B_C1.specs(SMALL) for s in spec.settings()}
        results = {s: made_up(replace(s, merit="exponential:c=3"), SMALL.runs, plan(s)) for s in wanted}
        assert holds(APPENDIX_B_C1.analyse(results, SMALL), "directly influences") is True


@each_artefact
@pytest.mark.parametrize("scale", [SMALL, ONE], ids=["small", "one run"])
def test_everything_is_said_and_drawn(artefact: Artefact, scale: Scale) -> None:
    found = found_by(artefact, scale=scale)
    texts = [found.caption, found.headline, found.about, found.remark, *(each.found for each in found.verdicts)]
    for text in texts:
        assert text
        assert "nan" not in text
        assert "  " not in text
    assert all(each.where and each.claim.endswith(".") for each in found.verdicts)
    assert all(" hold" in each.rule and each.rule.endswith(".") for each in found.verdicts)
    for table in found.tables:
        assert {len(row) for row in table.cells} == {len(table.headings)}
        assert {len(column) for column in table.columns.values()} == {len(table.cells)}
        assert not any("nan" in cell for row in table.cells for cell in row)
    if scale is ONE:  # nothing that needs an interval is known
        assert {each.holds for each in found.verdicts if "c = 0" not in each.claim} == {None}
        if artefact is not FIGURE_1 and artefact is not FIGURE_2:
            return  # drawn as with more runs
    figure = artefact.draw(pickle.loads(pickle.dumps(found.numbers)))  # it may be drawn in another process
    figure.draw_without_rendering()
    assert figure.get_suptitle() == ""
    assert all(axes.has_data() for axes in figure.axes)


@pytest.mark.parametrize("artefact", [FIGURE_2, OPTIMAL_BOTH_WAYS], ids=lambda each: each.name)
def test_no_regret_at_all_is_no_crash(artefact: Artefact) -> None:
    found = found_by(artefact, only(lambda s, p: replace(p, level=0.0)), Scale(60, 3))
    assert True not in {each.holds for each in found.verdicts}
    artefact.draw(found.numbers).draw_without_rendering()


def test_a_quick_look_does_not_speak_against_the_paper() -> None:
    """Growth needs long runs; that Optimal's curve is another's does not."""
    linear, quick = only(lambda s, p: replace(p, power=1.02 if s.policy == "merit-fair" else 0.9)), QUICK
    assert found_by(FIGURE_2, linear).verdicts[0].holds is False
    short = found_by(FIGURE_2, linear, quick).verdicts[0]
    assert short.holds is None
    assert f"runs of {QUICK.episodes} episodes, where the full version has 10,000" in short.found
    assert found_by(FIGURE_2, scale=quick).verdicts[0].holds is True
    assert found_by(OPTIMAL_BOTH_WAYS, linear, quick).verdicts[0].holds is False
    assert found_by(OPTIMAL_BOTH_WAYS, linear, quick).verdicts[1].holds is None


def test_settings_are_shared() -> None:
    """All artefacts together play each setting once: three c, two policies, and N = 10 with eight K more."""
    played = {setting for artefact in ALL for spec in artefact.specs(FULL) for setting in spec.settings()}
    extra = [size for size in BUDGETS if size not in SIZES]
    assert len(played) == len(DATASETS) * (len(SIZES) * 3 * 2 + len(extra)) == 114
    assert {(each.episodes, each.authors, each.seed) for each in played} == {(10_000, True, 0)}


def test_names_are_those_of_the_paper() -> None:
    assert [each.name for each in ALL] == [
        "figure-1",
        "figure-2",
        "figure-3",
        "figure-4",
        "appendix-b-c1",
        "appendix-b-c10",
        "optimal-both-ways",
    ]


def test_a_real_run() -> None:
    scale = Scale(60, 3, quick=True)
    wanted = {setting for spec in FIGURE_1.specs(scale) for setting in spec.settings()}
    results = {each: play(Task(each, 0, scale.runs)) for each in wanted}
    found = FIGURE_1.analyse(results, scale)
    greedy, fair = found.numbers["optimal"], found.numbers["merit-fair"]
    assert np.allclose(greedy.exposure.sum(axis=1), 1)
    assert greedy.misplaced.mean > fair.misplaced.mean
    ours = next(each for setting, each in results.items() if setting.policy == "merit-fair")
    theirs = next(each for setting, each in results.items() if setting.policy == "optimal")
    assert np.allclose(ours.curves["fairness_regret"], ours.curves["fairness_regret_authors"])
    assert not np.allclose(theirs.curves["fairness_regret"], theirs.curves["fairness_regret_authors"])
    assert growth.exponent(theirs).mean > growth.exponent(ours).mean
