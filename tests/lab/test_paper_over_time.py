"""Fair over time and Appendix A with slack, on made-up outcomes whose answers are known."""

from __future__ import annotations

import math
import re
from functools import cache
from typing import Any

import numpy as np
import pytest

from lab.planted import NOISE, Planted, made, outcome, verdicts
from meritfair.core.arrays import FloatArray
from meritfair.lab.spec import Setting
from meritfair.lab.tasks import Task, curve_episodes, play
from meritfair.model.exposure import fair_exposure
from meritfair.reproduction import over_time
from meritfair.reproduction.appendix_a_slack import APPENDIX_A_SLACK
from meritfair.reproduction.artefact import Scale
from meritfair.reproduction.over_time import OVER_TIME, SLACKS, Known, long_run
from meritfair.simulation.bootstrap import Interval

pytestmark = pytest.mark.slow

FULL = Scale(runs=6)
QUICK = Scale(episodes=1000, runs=6, quick=True)
PART_HALF, PART_2, PART_10, GROWS, LEARNED, REGRET, ACCOUNTS = range(7)
# of the possible gain, more than is claimed on every data set
PARTS = dict(zip(SLACKS, (0.0, 0.75, 0.85, 0.95, 0.98, 0.99, 1.0), strict=True))


@pytest.fixture(autouse=True)
def few_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the sizes that no claim is about."""
    monkeypatch.setattr(over_time, "SIZES", ((20, 4), (100, 20)))


def slack_of(setting: Setting) -> float:
    found = re.search(r"slack=([\w.]+)", setting.policy)
    return float(found[1]) if found else 0.0


@cache
def in_the_long_run(dataset: str, n_arms: int, budget: int) -> tuple[FloatArray, ...]:
    """Return fair exposures, and good arms of each run: never pulled, by the lottery, and at most."""
    setting = Setting(
        dataset=dataset, n_arms=n_arms, budget=budget, policy="none", design="exact", episodes=1, authors=True
    )
    benefit = np.stack([arms.benefit for arms in setting.arms(range(6))])
    due = fair_exposure(np.exp(3 * benefit), budget, "exact")
    return due, *long_run(outcome(setting, 6, {"by_arm": {"fair_exposure": due}}))


def story(
    parts: dict[float, float] = PARTS, learned: float = 0.97, regret: float = 1.1, account: float = 1.0
) -> Planted:
    """Plant parts of the gain by slack, and of a learner the part of the oracle's benefit and its regret."""

    def plant(setting: Setting) -> dict[str, Any]:
        due, never, lottery, best = in_the_long_run(setting.dataset, setting.n_arms, setting.budget)
        name, slack = setting.policy.partition(":")[0], slack_of(setting)
        benefit = lottery - never + parts[slack] * (best - lottery)
        level = {"none": 0.0, "fair-oracle": 1.0, "merit-fair": learned}[name]
        good = never + level * benefit * NOISE
        steps = curve_episodes(setting.episodes) * setting.horizon
        return {
            "measures": {
                "good_state": good / setting.n_arms,
                "fairness_regret": (regret if slack else 1.0) * 10 * NOISE,
                "largest_account": np.full(6, account * slack if slack else math.nan),
            },
            "curves": {"reward": good[:, None] * steps},
            "by_arm": {"fair_exposure": due},
        }

    return plant


def test_all_claims_hold_where_they_are_planted() -> None:
    found = OVER_TIME.analyse(made(OVER_TIME, FULL, story()), FULL)
    assert [verdict.holds for verdict in found.verdicts] == [True] * 7
    for each in found.numbers.known:
        for slack, part in PARTS.items():
            assert each.part(slack).mean == pytest.approx(part, abs=0.02)  # the noise is that of all benefit
    for each in found.numbers.learned:
        assert each.row["late_of_oracle"].mean == pytest.approx(0.97)
        assert each.row["regret_ratio"].mean == pytest.approx(1.1)
        np.testing.assert_allclose(each.bands["learned"].mean, 0.97 * each.bands["oracle"].mean)


@pytest.mark.parametrize(
    ("planted", "fails"),
    [
        ({"parts": PARTS | {0.5: 0.4}}, {PART_HALF}),
        ({"parts": PARTS | {2.0: 0.9}}, {PART_2}),
        ({"parts": PARTS | {10.0: 0.9}}, {PART_10}),
        ({"parts": PARTS | {5.0: 0.9}}, {GROWS}),
        ({"learned": 0.9}, {LEARNED}),
        ({"regret": 1.3}, {REGRET}),
        ({"account": 1.0 + 1e-6}, {ACCOUNTS}),
    ],
)
def test_each_claim_fails_by_its_own_numbers(planted: dict[str, Any], fails: set[int]) -> None:
    found = verdicts(OVER_TIME, FULL, story(**planted))
    assert {i for i, verdict in enumerate(found) if verdict.holds is False} == fails
    assert all(verdict.holds is not None for verdict in found)


def test_a_short_run_does_not_refute_what_is_said_of_learning() -> None:
    found = verdicts(OVER_TIME, QUICK, story(learned=0.9, regret=1.3))
    assert [found[k].holds for k in (LEARNED, REGRET)] == [None, None]
    assert "runs of 50 and 100 episodes, where the full version has 200 and 1,000" in found[LEARNED].found


def test_a_short_run_refutes_that_accounts_stay_within_the_slack() -> None:
    found = verdicts(OVER_TIME, QUICK, story(account=1.0 + 1e-6))
    assert found[ACCOUNTS].holds is False


def test_parts_of_the_gain_are_by_instances_unless_all_of_the_paper_are_played() -> None:
    rng = np.random.default_rng(1)

    def part(runs: int, noise: float) -> Interval:
        possible, reached = np.ones(runs), rng.uniform(0, 1, runs)
        by_time = {0.0: np.zeros((runs, 20)), 2.0: reached[:, None] + noise * rng.standard_normal((runs, 20))}
        benefit = {slack: each.mean(axis=1) for slack, each in by_time.items()}
        return Known({}, benefit, by_time, lottery=0 * possible, bound=possible, seed=0).part(2.0)

    few, whole, noisy = part(29, 0.0), part(30, 0.0), part(30, 0.5)
    assert few.high - few.low > 0.1  # by instances: the mean of 29 uniform numbers
    assert whole.high - whole.low == pytest.approx(0, abs=1e-12)
    assert 0.02 < noisy.high - noisy.low < 0.15  # by time: 2 · 1.96 · 0.5 / sqrt(600) is 0.08


def test_the_lottery_has_what_is_computed_for_the_long_run() -> None:
    common: Any = {"design": "exact", "carry_states": True, "authors": True}
    setting = Setting(dataset="synthetic", n_arms=20, budget=4, policy="fair-oracle", episodes=200, **common)
    found = play(Task(setting, 0, 3))
    never, lottery, best = long_run(found)
    np.testing.assert_allclose(20 * found.measures["good_state"], lottery, rtol=0.01)
    assert (never < lottery).all()
    assert (lottery < best).all()


# Appendix A with slack

GINIS = {1: 0.1, 3: 0.3, 10: 0.6, 100: 0.8}
BOTH, VERSIONS = range(2)


def beside_fawt_q(times: dict[float, float], better: str = "") -> Planted:
    """Plant this multiple of FaWT-Q's reward by slack, at every Gini coefficient; one version is a tenth better."""

    def plant(setting: Setting) -> dict[str, Any]:
        name, n = setting.policy.partition(":")[0], setting.n_arms
        knob = int((setting.merit if name == "merit-fair" else setting.policy + "=0").rpartition("=")[2])
        window = re.search(r"window=(\d+)", setting.policy)
        gini = int(window[1]) / 100 if window else GINIS.get(knob, 0.7)
        factor = times[slack_of(setting)] if name == "merit-fair" else 1.1 if better and better in setting.policy else 1
        flat = {"gini": gini, "good_state": factor * (0.5 + gini / 2), "longest_wait": 10.0}
        by_arm = {"benefit": np.linspace(0, 1, n), "exposure": np.full(n, setting.budget / n)}
        return {
            "measures": {key: value * NOISE for key, value in flat.items()},
            "by_arm": {key: np.tile(row, (6, 1)) for key, row in by_arm.items()},
        }

    return plant


@pytest.mark.parametrize(
    ("two", "better", "expected"),
    [(1.05, "", [True, True]), (0.9, "", [False, False]), (1.05, "update=mended", [True, False])],
)
def test_rewards_at_the_same_gini_are_those_planted(two: float, better: str, expected: list[bool]) -> None:
    plant = beside_fawt_q({0.0: 0.9, 2.0: two, 5.0: 1.2}, better)
    found = APPENDIX_A_SLACK.analyse(made(APPENDIX_A_SLACK, FULL, plant), FULL)
    assert [verdict.holds for verdict in found.verdicts] == expected
    for panel in found.numbers:
        for slack, times in ((0, 0.9), (2, two), (5, 1.2)):
            assert [each.mean for each in panel.at_same_gini(slack, "li")] == pytest.approx([times] * 3)
    assert "The lottery has 0.90: does not hold" in found.verdicts[BOTH].found
