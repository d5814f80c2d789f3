"""The exact optimum of small systems, on which statements about slack rest."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import meritfair as mf
from meritfair.core.arrays import FloatArray
from reference.slack_optimum import optimal_average

FILE = Path(__file__).parents[2] / "benchmarks" / "slack.py"
ARMS = np.array([[[0.2, 0.8], [0.6, 0.7]], [[0.1, 0.6], [0.8, 0.9]]])
DUE = (Fraction(3, 4), Fraction(1, 4))
SHARES = [float(each) for each in DUE]


@pytest.fixture(scope="module")
def benchmark() -> Callable[..., float]:
    spec = importlib.util.spec_from_file_location("slack_benchmark", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    function: Callable[..., float] = module.optimal_average
    return function


def test_without_slack_it_is_the_lottery() -> None:
    assert optimal_average(ARMS, DUE, Fraction(0), 4) == pytest.approx(mf.steady_state(ARMS, SHARES).sum(), abs=1e-6)


def test_slack_gains_up_to_the_bound() -> None:
    found = [optimal_average(ARMS, DUE, Fraction(slack, 2), 4) for slack in range(4)]
    assert found == sorted(found)
    assert found[0] < found[1] - 0.01
    assert found[-1] < mf.best_good_share(ARMS, SHARES).sum()


def test_an_arm_that_is_good_after_each_pull_when_it_was_bad() -> None:
    """Two arms that forget in one step, and are good only if pulled when bad: to take turns keeps one good always."""
    arms = np.array([[[0.0, 1.0], [0.0, 0.0]]] * 2)
    half = (Fraction(1, 2), Fraction(1, 2))
    assert optimal_average(arms, half, Fraction(1, 2), 2) == pytest.approx(1.0, abs=1e-6)
    assert mf.best_good_share(arms, 0.5).sum() == pytest.approx(1.0)


@pytest.mark.slow
@pytest.mark.parametrize("n_arms", [2, 3])
def test_the_benchmarks_dynamic_programme_agrees(n_arms: int, benchmark: Callable[..., float]) -> None:
    rng = np.random.default_rng(n_arms)
    due = [Fraction(1, 2), *[Fraction(1, 2 * (n_arms - 1))] * (n_arms - 1)]
    for _ in range(3):
        arms: FloatArray = rng.random((n_arms, 2, 2))
        expected = optimal_average(arms, due, Fraction(1, 2), 4)
        found = benchmark(arms, [float(each) for each in due], 0.5, 4, tolerance=1e-8)
        assert found == pytest.approx(expected, abs=1e-6)
