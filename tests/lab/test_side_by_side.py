"""Policies of a sweep beside each other: curves, exposures, reward against fairness."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

import meritfair as mf
from meritfair.lab.results import Results
from meritfair.lab.side_by_side import BENEFIT, FIGURES, GOOD, side_by_side
from meritfair.lab.spec import Setting, Spec
from meritfair.lab.store import Manifest
from meritfair.lab.tasks import Outcome, Task, by_setting, play, tasks
from meritfair.simulation.bootstrap import interval

SPEC = Spec(
    datasets=("cpap",),
    sizes=((6, 2),),
    policies=("merit-fair", "none", "whittle"),
    episodes=4,
    horizon=20,
    runs=4,
    seed=3,
)


@pytest.fixture(scope="module")
def outcomes() -> dict[Setting, Outcome]:
    return by_setting(play(task) for task in tasks([SPEC]))


def test_numbers_are_those_of_compare(outcomes: dict[Setting, Outcome]) -> None:
    shown = side_by_side(outcomes, SPEC.settings())
    arms = SPEC.settings()[0].arms(range(4))
    found = mf.compare(arms, SPEC.policies, budget=2, episodes=4, horizon=20, seed=3)
    assert shown.reward == BENEFIT
    for policy in SPEC.policies:
        expected = found.measures[policy]
        for name in (BENEFIT, "fairness_regret", "good_state"):
            np.testing.assert_allclose(shown.measures[policy][name], expected[name], rtol=1e-9, atol=1e-9)
    assert shown.trade_off.labels == SPEC.policies


def test_curves_have_the_interval_of_each_episode(outcomes: dict[Setting, Outcome]) -> None:
    setting = SPEC.settings()[0]
    band = side_by_side(outcomes, [setting]).curves()["merit-fair"]
    assert band.steps.tolist() == [1, 2, 3, 4]
    direct = setting.play(range(4)).fairness_regret.cumsum(axis=1)
    expected = [interval(column, seed=3) for column in direct.T]
    np.testing.assert_allclose(np.stack([band.mean, band.low, band.high], axis=1), expected, rtol=1e-9)


def test_exposures_are_by_rank_of_benefit_in_each_run(outcomes: dict[Setting, Outcome]) -> None:
    shown = side_by_side(outcomes, SPEC.settings())
    run = SPEC.settings()[0].play(range(4))
    order = np.argsort(np.stack([arms.benefit for arms in run.arms]), axis=1)
    fair = np.take_along_axis(run.fair_exposure, order, axis=1).mean(axis=0)
    np.testing.assert_allclose(shown.exposures.fair, fair)
    np.testing.assert_allclose(shown.exposures.given.sum(axis=1), [2, 0, 2])


def test_without_references_reward_is_the_good_state(outcomes: dict[Setting, Outcome]) -> None:
    kept = {setting: found for setting, found in outcomes.items() if setting.policy != "whittle"}
    shown = side_by_side(kept, SPEC.settings())
    assert list(shown.outcomes) == ["merit-fair", "none"]
    assert shown.reward == GOOD
    assert np.isnan(shown.measures["none"][BENEFIT].mean)


def test_benefit_is_over_the_runs_that_all_three_have(outcomes: dict[Setting, Outcome]) -> None:
    fair, none, best = SPEC.settings()
    part = {**outcomes, best: play(Task(best, 1, 2))}
    expected = by_setting(play(Task(setting, 1, 2)) for setting in SPEC.settings())
    shown, other = side_by_side(part, [fair, none]), side_by_side(expected, [fair])
    assert shown.measures["merit-fair"][BENEFIT] == other.measures["merit-fair"][BENEFIT]
    apart = {fair: play(Task(fair, 0, 1)), none: outcomes[none], best: play(Task(best, 1, 2))}
    assert side_by_side(apart, [fair]).reward == GOOD


def test_several_problems_are_refused(outcomes: dict[Setting, Outcome]) -> None:
    other = dataclasses.replace(SPEC.settings()[0], delta=0.1)
    both = {**outcomes, other: outcomes[SPEC.settings()[0]]}
    with pytest.raises(mf.InputError, match="policies are shown on one problem, got 2"):
        side_by_side(both, both)
    with pytest.raises(mf.InputError, match="policies are shown on one problem, got 0"):
        side_by_side({}, SPEC.settings())


@pytest.mark.parametrize("figure", FIGURES)
def test_figures_have_what_is_the_same_below(outcomes: dict[Setting, Outcome], figure: str) -> None:
    drawn = side_by_side(outcomes, SPEC.settings()).plot(figure)
    assert drawn._supxlabel is not None  # type: ignore[attr-defined]
    assert drawn._supxlabel.get_text().startswith("cpap · 6 arms, 2 pulled · 4 episodes, 20 steps each")  # type: ignore[attr-defined]


def test_a_figure_that_there_is_not(outcomes: dict[Setting, Outcome]) -> None:
    with pytest.raises(mf.InputError, match="figure must be regret, exposure or benefit, got 'regrets'"):
        side_by_side(outcomes, SPEC.settings()).plot("regrets")


def test_some_settings_of_results(outcomes: dict[Setting, Outcome]) -> None:
    found = Results(Path("here"), Manifest((), {}), outcomes, 0, ())
    first, second, _ = SPEC.settings()
    missing = dataclasses.replace(first, delta=0.5)
    assert list(found.only([second, missing, first]).outcomes) == [second, first]
    assert set(found.only([second]).table()["policy"]) == {"none"}
