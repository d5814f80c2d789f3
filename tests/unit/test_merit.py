from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import meritfair as mf
from meritfair.model.merit import MERITS, merit_from_settings, merit_from_text

GRID = np.linspace(-1, 1, 4001)
SOME = [
    mf.Exponential(0.0),
    mf.Exponential(3.0),
    mf.Exponential(10.0),
    mf.Affine(1.0, 1.5),
    mf.Affine(0.0, 1.0),
    mf.Power(2.0, 0.1),
    mf.Power(0.5, 0.1),
    mf.Power(0.0, 1.0),
    mf.Logistic(4.0),
    mf.Logistic(4.0, 2.0),
    mf.Logistic(4.0, -3.0),
    mf.CustomMerit(lambda mu: 2 + np.sin(mu), lipschitz=1.0),
]


@pytest.mark.parametrize("merit", SOME, ids=repr)
def test_constants_are_those_of_the_conditions(merit: mf.Merit) -> None:
    values = merit(GRID)
    assert (values > 0).all()
    assert (np.diff(values) >= 0).all()
    assert merit.gamma == pytest.approx(values.min(), rel=1e-12)
    steepest = (np.diff(values) / np.diff(GRID)).max()
    assert steepest <= merit.lipschitz * (1 + 1e-9) + 1e-12  # Condition 3.2 holds
    assert steepest >= merit.lipschitz * 0.99 - 1e-12  # and the constant is not larger than it need be


@pytest.mark.parametrize("merit", SOME, ids=repr)
def test_derivative_agrees_with_differences(merit: mf.Merit) -> None:
    x = np.linspace(-0.99, 0.99, 41)
    difference = (merit(x + 1e-6) - merit(x - 1e-6)) / 2e-6
    np.testing.assert_allclose(merit.derivative(x), difference, rtol=1e-5, atol=1e-8)


def test_exponential_has_the_papers_constants() -> None:
    merit = mf.Exponential(3.0)
    assert merit.gamma == math.exp(-3)
    assert merit.lipschitz == 3 * math.exp(3)


def test_exponentials_never_overflow() -> None:
    merit = mf.Exponential(700.0)
    values = merit(np.array([1.0, 1.0, 0.5, -1.0] * 50_000))
    assert np.isfinite(values).all()
    assert np.isfinite(merit.lipschitz)
    assert merit.gamma > 0
    share = mf.merit_share(values)
    assert share.sum() == pytest.approx(1.0)
    assert share[0] == pytest.approx(1e-5)
    exposure = mf.fair_exposure(merit([1.0, 0.9, 0.0, -1.0]), budget=2)
    np.testing.assert_allclose(exposure, [1, 1, 0, 0], atol=1e-8)


@pytest.mark.parametrize("merit", [m for m in SOME if not isinstance(m, mf.CustomMerit)], ids=repr)
def test_settings_make_the_same_again(merit: mf.Merit) -> None:
    assert merit_from_settings(merit.settings()) == merit


@pytest.mark.parametrize("merit", [m for m in SOME if not isinstance(m, mf.CustomMerit)], ids=repr)
def test_text_makes_the_same_again(merit: mf.Merit) -> None:
    assert merit_from_text(str(merit)) == merit
    assert merit_from_text(str(merit).replace(",", ":")) == merit  # as inside a policy's settings


def test_text_has_all_digits() -> None:
    merit = mf.Affine(slope=1 / 3, intercept=1e-7 + 1 / 3)
    assert merit_from_text(str(merit)) == merit


def test_custom_merit_says_what_it_is() -> None:
    merit = mf.CustomMerit(lambda mu: 2 + mu, lipschitz=1.0, gamma=0.5, name="two plus")
    assert str(merit) == "two plus"
    assert merit.gamma == 0.5
    assert merit.settings() == {"kind": "custom", "name": "two plus", "lipschitz": 1.0, "gamma": 0.5}
    with pytest.raises(mf.InputError, match="merit must be one of exponential"):
        merit_from_settings(merit.settings())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: mf.Exponential(-1.0), "c must lie between 0 and 700, got -1"),
        (lambda: mf.Exponential(701.0), "c must lie between 0 and 700, got 701"),
        (lambda: mf.Exponential(math.nan), "c must lie between 0 and 700, got nan"),
        (lambda: mf.Affine(2.0, 1.0), "intercept must be greater than the slope"),
        (lambda: mf.Affine(-1.0, 1.0), "slope must be at least 0, got -1"),
        (lambda: mf.Power(2.0, 0.0), "offset must be greater than 0, got 0"),
        (lambda: mf.Power(400.0, 0.01), "merit must be positive on .* got 0.0 for a benefit of -1"),
        (lambda: mf.Power(1e6, 1.0), "merit must be finite"),
        (lambda: mf.Logistic(2000.0), "merit must be positive on .* got 0.0"),
        (lambda: mf.CustomMerit(lambda mu: -mu + 2, lipschitz=1.0), "must not decrease"),
        (lambda: mf.CustomMerit(lambda mu: mu, lipschitz=1.0), "merit must be positive"),
        (lambda: mf.CustomMerit(lambda mu: mu * np.nan, lipschitz=1.0), "merit must be finite"),
        (lambda: mf.CustomMerit(np.exp, lipschitz=1.0), "lipschitz must be at least the slope of the merit, 2.71"),
        (lambda: mf.CustomMerit(np.exp, lipschitz=3.0, gamma=0.9), "gamma must be at most the least merit, 0.367"),
        (lambda: mf.CustomMerit(np.exp, lipschitz=3.0, gamma=-1), "gamma must be greater than 0, got -1"),
        (lambda: mf.CustomMerit(lambda mu: np.ones(3), lipschitz=3.0), "one merit for each benefit"),
        (lambda: merit_from_settings({"kind": "exponentail"}), "did you mean 'exponential'"),
        (
            lambda: merit_from_settings({"kind": "exponential", "d": 1.0}),
            "has no setting 'd'; its settings are c",
        ),
    ],
)
def test_what_is_not_a_merit_function_is_refused(make: Any, message: str) -> None:
    with pytest.raises(mf.InputError, match=message):
        make()


def test_every_kind_is_listed() -> None:
    assert list(MERITS) == ["exponential", "affine", "power", "logistic"]
