"""What an effect assumes: arms that are drawn one by one, or in clusters; and next states that were not observed."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import meritfair as mf
from meritfair.effects import Effect, EffectSensitivity
from meritfair.effects.page import effect_page
from meritfair.effects.together import drawn_together
from reference import effects as reference
from reference.programmes import Settings, play, silenced, unseen_shift
from unit.test_effect import made_columns, plain_rows

SITES = Settings(n_arms=40, rounds=30, sites=5, budget=2, shared=0.3)


def site_log(settings: Settings = SITES, seed: int = 1, **features: Any) -> mf.StateLog:
    log = play(settings, np.random.default_rng(seed)).log()
    log.features.update({name: tuple(values) for name, values in features.items()})
    return log


def by_cluster(seed: int) -> tuple[dict[str, Any], dict[str, str]]:
    """Return a log with everything amiss, and the clusters of those of its arms that have one."""
    columns = made_columns(seed)
    names = [f"patient {arm}" for arm in range(12)]
    cluster = {name: f"clinic {k % 4}" for k, name in enumerate(names) if k < 10}
    columns["features"] = {"clinic": [cluster.get(arm, "") for arm in columns["arms"]]}
    return columns, cluster


# ---- clusters


@pytest.mark.parametrize("seed", range(4))
def test_clusters_are_what_the_definition_says(seed: int) -> None:
    columns, cluster = by_cluster(seed)
    found = mf.effect(mf.StateLog(**columns), cluster="clinic", period=4)
    used = reference.pseudo_outcomes(plain_rows(columns), cluster)

    def check(table: Any, k: int, rows: list[reference.Used]) -> None:
        expected = reference.estimate(rows, cluster)
        assert (table.estimate[k], table.standard_error[k]) == pytest.approx(expected, rel=1e-12)
        drawn = {(cluster.get(row.arm, row.arm), row.round) for row in rows if row.drawn}
        others = {(cluster.get(row.arm, row.arm), row.round) for row in rows if not row.drawn}
        assert (table.units_drawn[k], table.units_not_drawn[k]) == (len(drawn), len(others))

    check(found.overall, 0, used)
    for s in (0, 1):
        check(found.states, s, [row for row in used if row.state == s])
    for k, name in enumerate(found.periods.names):
        check(found.periods, k, [row for row in used if row.round // 4 == int(name.split()[0]) // 4])
    for k, name in enumerate(found.rounds.names):
        check(found.rounds, k, [row for row in used if row.round <= int(name)])


def test_a_cluster_by_hand() -> None:
    """Two sites of two people; in the one round that counts all predictions are 1/2, and site a is drawn."""
    log = mf.StateLog(
        ["Ada", "Al", "Bo", "Ben"] * 2,
        [1] * 4 + [2] * 4,
        [0] * 4 + [1, 1, 1, 0],
        [1, 1, 0, 0] + [None] * 4,
        exposure=[0.5] * 4 + [None] * 4,
        features={"site": ["a", "a", "b", "b"] * 2},
    )
    found = mf.effect(log, cluster="site")
    a, b = (1 - 0.5) / 0.5 + (1 - 0.5) / 0.5, -(1 - 0.5) / 0.5 - (0 - 0.5) / 0.5
    assert found.estimate == pytest.approx((a + b) / 4)
    assert found.overall.standard_error[0] == pytest.approx(math.sqrt(2 * (a**2 + b**2)) / 4)  # 2 sites: 2 / (2 - 1)
    one_by_one = mf.effect(log)
    assert one_by_one.estimate == found.estimate
    assert one_by_one.overall.standard_error[0] == pytest.approx(math.sqrt(4 / 3 * 4) / 4)  # four residuals of ±1


def test_clusters_of_one_arm_change_nothing() -> None:
    columns = made_columns(n_arms=40)
    columns["features"] = {"own": columns["arms"].tolist()}
    log = mf.StateLog(**columns)
    plain = mf.effect(log)
    found = mf.effect(log, cluster="own")
    assert repr(found.table()) == repr(plain.table())  # NaN is not equal to itself
    assert found.missing.z == pytest.approx(plain.missing.z, rel=0.2)
    assert found.notes()[1].endswith("No two arms have the same own, so the intervals are those without clusters.")


def test_clusters_widen_intervals_where_what_happens_is_shared_and_hardly_where_it_is_not() -> None:
    shared, own = (site_log(replace(SITES, n_arms=100, shared=part)) for part in (0.4, 0.0))
    ratio = [
        np.diff(mf.effect(log, cluster="site").interval)[0] / np.diff(mf.effect(log).interval)[0]
        for log in (shared, own)
    ]
    assert ratio[0] > 2
    assert ratio[1] < 1.6


def test_an_interval_takes_enough_draws_of_clusters() -> None:
    few = mf.effect(site_log(replace(SITES, rounds=6)), cluster="site")
    assert few.overall.pulled[0] > 20  # people; the sites were drawn 12 times
    assert math.isnan(few.interval[0])
    assert str(few).endswith("at least 20 rounds of a cluster in which it was drawn, and 20 in which it was not.")
    assert math.isfinite(mf.effect(site_log(), cluster="site").interval[0])


def test_what_is_missing_by_chance_and_by_site_is_not_taken_for_a_difference() -> None:
    """Whole sites are out of reach in a week: by people that looks like a difference, by sites it does not."""
    z = []
    for seed in range(12):
        programme = play(replace(SITES, n_arms=100), np.random.default_rng(seed))
        out = np.random.default_rng([1, seed]).random((len(programme.states), 5)) < 0.3
        log = replace(programme, seen=~out[:, programme.site]).log()
        z.append([mf.effect(log, cluster=cluster).missing.z for cluster in (None, "site")])
    by_people, by_sites = np.abs(z).T
    assert by_people.max() > 4
    assert by_sites.max() < 2.58


@pytest.mark.parametrize(
    ("cluster", "problem"),
    [
        ("town", "cluster must be a feature of the arms, got 'town'"),
        (["site"], r"cluster must be a feature of the arms, got \['site'\]"),
        ("none", "cluster must say who is drawn with whom, but no arm has a value in the column none"),
    ],
)
def test_a_cluster_is_a_feature_with_values(cluster: Any, problem: str) -> None:
    with pytest.raises(mf.InputError, match=problem):
        mf.effect(site_log(none=[""] * 40), cluster=cluster)


def test_it_is_said_who_has_no_cluster_and_which_clusters_were_divided() -> None:
    """The value is lacking for 15 of 40 people; or districts are named, which cut across the sites that are drawn."""
    site = site_log().features["site"]
    some = ["" if k < 15 else name for k, name in enumerate(site)]
    assert "5 clusters and 15 arms without a value, drawn " in mf.effect(site_log(some=some), cluster="some").notes()[1]
    across = [f"district {k // 10}" for k in range(40)]
    line = mf.effect(site_log(across=across), cluster="across").notes()[1]
    assert "In 120 of their rounds only some of a cluster were drawn, and both numbers count them." in line


# ---- arms that were drawn together


def test_sites_that_are_drawn_are_noticed_and_named() -> None:
    found = mf.effect(site_log())
    assert found.together is not None
    assert (found.together.column, found.together.sets, found.together.arms) == ("site", 5, 40)
    (warning,) = found.warnings()
    assert warning.startswith(
        "Warning: arms with the same site were always either all drawn or all not drawn (5 sets)."
    )
    assert warning.endswith("Name the column: --cluster site, in Python cluster='site'.")
    assert effect_page(found).warnings == [warning]
    named = mf.effect(site_log(), cluster="site")
    assert named.together is None
    assert named.warnings() == []
    assert named.notes()[1] == (
        "Arms with the same site count as drawn together: 5 clusters, drawn 60 times and 90 times not. With so few "
        "clusters the intervals are wide, and hold more often than they say."
    )


def test_sites_are_noticed_by_their_draws_alone_also_if_people_join_and_leave() -> None:
    log = site_log()
    rng = np.random.default_rng(2)
    joined, left = rng.integers(0, 10, 40), rng.integers(20, 32, 40)
    rows = (log.rounds >= joined[log.arm]) & (log.rounds <= left[log.arm])
    here = mf.StateLog(
        log.arm[rows], log.rounds[rows], log.states[rows], log.actions[rows], exposure=log.exposure[rows]
    )
    found = drawn_together(here, np.arange(here.n_arms))
    assert found is not None
    assert (found.column, found.arms) == ("", 40)
    assert "--cluster COLUMN" in mf.effect(here).warnings()[0]


def test_one_person_more_who_is_drawn_alone_is_no_way_out() -> None:
    """Of six households of two, and 28 people who live alone, the households are noticed."""
    rng, T = np.random.default_rng(3), 60
    home = np.r_[np.repeat(np.arange(6), 2), np.arange(6, 34)]
    drawn = (rng.random((T, 34)) < 0.4)[:, home]
    names, when = np.tile(np.arange(40), T), np.repeat(np.arange(T), 40)
    features = {"home": np.tile([f"h{k}" if k < 6 else "" for k in home], T).tolist()}
    log = mf.StateLog(names, when, np.ones(40 * T), drawn.ravel(), exposure=np.full(40 * T, 0.4), features=features)
    found = drawn_together(log, np.arange(40))
    assert found is not None
    assert (found.column, found.sets, found.arms) == ("home", 6, 12)


@pytest.mark.parametrize(
    "settings",
    [
        Settings(sites=4, one_by_one=True),
        Settings(n_arms=200, budget=40, rounds=15, sites=10, one_by_one=True),
        Settings(n_arms=4, budget=2, rounds=60, sites=2, one_by_one=True),
        Settings(design="systematic", timed=3.0, rounds=15, sites=5, one_by_one=True),
        Settings(design="sequential", rounds=15, sites=5, one_by_one=True),
        Settings(slack=2.0, rounds=15, sites=5, one_by_one=True),
    ],
)
def test_draws_of_our_designs_are_one_by_one(settings: Settings) -> None:
    for seed in range(5):
        assert drawn_together(site_log(settings, seed), np.arange(settings.n_arms)) is None


def test_a_cluster_that_is_too_small_is_noticed() -> None:
    region = [f"region {k % 5}" for k in range(40)]  # of the sites, which are drawn with the others of their region
    half = [f"{region[k]}, half {k // 20}" for k in range(40)]
    found = mf.effect(site_log(region=region, half=half), cluster="half")
    assert found.together is not None
    assert found.together.column in ("site", "region")


# ---- states that were not observed


def with_missing(seed: int = 1, *, helps: bool = True) -> Effect:
    settings = Settings(n_arms=100, budget=30, missing=0.2, helps=helps)
    return mf.effect(play(settings, np.random.default_rng(seed)).log())


def known(found: Effect) -> EffectSensitivity:
    return found.sensitivity


@pytest.mark.parametrize("seed", range(4))
def test_bounds_are_the_effects_if_all_that_is_missing_was_bad_or_good(seed: int) -> None:
    columns, cluster = by_cluster(seed)
    found = mf.effect(mf.StateLog(**columns), cluster="clinic")
    for drawn_is_good, bound in zip((False, True), known(found).bounds, strict=True):
        rows, number = reference.filled(plain_rows(columns), drawn_is_good)
        mean, _ = reference.estimate(reference.pseudo_outcomes(rows, cluster), cluster)
        assert bound == pytest.approx(min(1.0, max(-1.0, mean)))
        assert known(found).missing == number


def test_it_is_what_its_formula_says_by_hand() -> None:
    """Four people in the bad state with a chance of 1/2: of two drawn one was not seen, of two others neither."""
    log = mf.StateLog(
        ["Ada", "Al", "Bo", "Ben", "Cy"] * 2,
        [1] * 5 + [2] * 5,
        [0] * 5 + [1, None, 0, None, 0],
        [1, 1, 0, 0, 0] + [None] * 5,
        exposure=[0.5] * 4 + [0.2] + [None] * 5,
    )
    found = known(mf.effect(log))
    assert (found.rows, found.missing, found.missing_drawn) == (5, 2, 1)
    np.testing.assert_allclose(found.weight, np.array([[2 / 5, 2 / 5], [0, 0]]))  # one row each, of weight 1 / 0.5
    np.testing.assert_allclose(found.good[0], [0.0, 1.0])  # Bo and Cy were bad; Ada was good
    assert found.shift(drawn=-0.1) == pytest.approx(-0.1 * 2 / 5)
    assert found.shift(not_drawn=0.3) == pytest.approx(-0.3 * 2 / 5)
    assert found.shift(drawn=0.5, not_drawn=-0.5) == 0  # Al cannot be better than good, nor Ben worse than bad
    low = (2 * 0.5 - 2 * 0.5 + 2 * 0.5 - 2 * 0.5 + 0.5 / 0.8) / 5  # Ada, Al, Bo, Ben, Cy; all predictions are 1/2
    assert found.bounds[0] == pytest.approx(low)
    assert found.tipping == pytest.approx({"worse": math.nan, "better": math.nan}, nan_ok=True)


def test_without_anything_missing_the_line_says_so() -> None:
    found = mf.effect(play(Settings(rounds=20), np.random.default_rng(1)).log())
    rows = int(found.overall.rows[0])
    assert (known(found).rows, known(found).missing) == (rows, 0)
    assert known(found).bounds == (found.estimate, found.estimate)
    assert known(found).outer == found.interval
    assert known(found).tipping == {"worse": math.inf, "better": math.inf}
    line = f"Not seen: nothing. The next states of all {rows} arm-rounds were observed"
    assert found.notes()[-1].startswith(line)
    (section,) = [each for each in effect_page(found).sections if each.heading == "States that were not observed"]
    assert section.paragraphs == [found.notes()[-1]]
    assert not section.tables


def test_a_tipping_point_is_where_the_interval_reaches_nothing() -> None:
    helps = with_missing()
    assert helps.interval[0] > 0
    tips = known(helps).tipping
    assert tips["better"] == math.inf
    assert 0 < tips["worse"] < 1
    assert helps.interval[0] + known(helps).shift(-tips["worse"], tips["worse"]) == pytest.approx(0, abs=1e-9)
    nothing = with_missing(helps=False)
    low, high = nothing.interval
    assert low < 0 < high
    tips = known(nothing).tipping
    assert low + known(nothing).shift(tips["better"], -tips["better"]) == pytest.approx(0, abs=1e-9)
    assert high + known(nothing).shift(-tips["worse"], tips["worse"]) == pytest.approx(0, abs=1e-9)


def test_an_effect_that_nothing_can_turn_says_so() -> None:
    found = known(with_missing())
    sure = replace(found, interval=(0.8, 0.9))
    assert sure.tipping == {"worse": math.inf, "better": math.inf}
    harm = replace(found, interval=(-0.3, -0.01))
    assert harm.tipping["worse"] == math.inf
    assert harm.tipping["better"] < 0.2


def test_differences_are_probabilities() -> None:
    with pytest.raises(mf.InputError, match=r"drawn must lie between -1 and 1, got 2"):
        known(with_missing()).shift(drawn=2)


def test_the_line_always_stands_there_and_names_its_numbers() -> None:
    found = with_missing()
    (line,) = [note for note in found.notes() if note.startswith("Not seen")]
    tips, moved = known(found).tipping["worse"], found.estimate + known(found).shift(drawn=-0.1)
    assert f"the effect would be {100 * moved:+.1f} instead of {100 * found.estimate:+.1f}" in line
    assert f"With {100 * tips:.0f} points for both, it would no longer be clear that a pull helps." in line
    assert "Whatever the unseen states were, the effect lies between " in line
    page = effect_page(found)
    (section,) = [each for each in page.sections if each.heading == "States that were not observed"]
    assert line in section.paragraphs
    (table,) = section.tables
    low, high = known(found).bounds
    shift = known(found).shift(-0.5, 0.5)
    assert table.cells[-1][0] == "50"
    assert table.cells[-1][1].startswith(f"{100 * (found.estimate + shift):+.1f}".replace("-", "−"))
    assert (
        abs(found.estimate + known(found).shift(-1, 1) - low) < 0.02
    )  # which is worked out anew, with what was predicted
    assert abs(found.estimate + known(found).shift(1, -1) - high) < 0.02


def test_before_there_is_an_interval_none_is_shown_for_other_differences() -> None:
    found = mf.effect(play(Settings(n_arms=6, budget=2, rounds=8, missing=0.3), np.random.default_rng(1)).log())
    assert math.isnan(found.interval[0])
    assert "It is too early for a conclusion that they could change." in found.notes()[-1]
    (section,) = [each for each in effect_page(found).sections if each.heading == "States that were not observed"]
    assert all(cell.endswith(" (–)") for row in section.tables[0].cells for cell in row[1:])


def test_the_shift_of_those_who_differed_is_what_the_effect_was_off_by() -> None:
    """By the definition in plain loops over what nobody saw: the estimate less the truth is minus that shift."""
    settings = Settings(n_arms=150, budget=50, helps=False)
    rng = np.random.default_rng(8)
    programme = silenced(play(settings, rng), np.array([[0.1, 0.5], [0.3, 0.1]]), rng)
    found = mf.effect(programme.log())
    off = unseen_shift(programme)
    assert found.estimate > 0.12  # where there is no effect
    assert found.interval[0] > 0
    assert found.estimate + off == pytest.approx(0, abs=0.03)
    assert not found.missing.differs  # rates show nothing
    assert known(found).tipping["worse"] < 0.4  # those who were not seen differed by about that
    low, high = known(found).bounds
    assert low <= programme.mean_effect() <= high
