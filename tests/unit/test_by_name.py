"""Values by arm: by position, by name, with what is missing in any form."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import meritfair as mf
from meritfair.policies.by_name import bits

NAMES = ("Ada", "Bo", "Cy", "Dee")
BACKWARDS = list(NAMES[::-1])
MASK = [False, False, True, False]


@pytest.mark.parametrize(
    "values",
    [
        [0, 1, None, 1],
        (False, True, float("nan"), True),
        np.array([0.0, 1.0, -1.0, 1.0]),
        [0, 1, pd.NA, 1],
        [0, 1, pd.NaT, 1],
        [0, 1, np.ma.masked, 1],
        [0, Decimal(1), Decimal("nan"), 1],
        np.ma.array([0, 1, 1, 1], mask=MASK),
        np.ma.array([False, True, True, True], mask=MASK),
        np.ma.array(np.array([0, 1, "?", 1], dtype=object), mask=MASK),
        {"Dee": 1, "Bo": 1, "Ada": 0},
        {"Dee": True, "Cy": None, "Bo": np.bool_(True), "Ada": 0.0},
        {"Dee": 1, "Cy": pd.NA, "Bo": 1, "Ada": 0},
        pd.Series({"Dee": 1, "Bo": 1, "Ada": 0}),
        pd.Series([1, None, 1, 0], index=BACKWARDS),
        pd.Series([1, pd.NA, 1, 0], index=BACKWARDS, dtype="Int64"),
        pd.Series([True, pd.NA, True, False], index=BACKWARDS, dtype="boolean"),
        pd.Series([1, None, 1, 0], index=pd.Index(BACKWARDS, dtype="category"), dtype=object),
        pd.Series([0, 1, None, 1]),  # pandas has numbered it by itself
        pd.array([0, 1, pd.NA, 1], dtype="Int64"),
        pa.array([0, 1, None, 1]),
    ],
    ids=lambda values: type(values).__name__,
)
def test_values_are_aligned_and_what_is_missing_is_unknown(values: Any) -> None:
    assert bits("states", values, NAMES).tolist() == [0, 1, -1, 1]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"Adda": 1}, "states: there is no arm 'Adda', did you mean 'Ada'?"),
        (pd.Series({"Ada": 1, "Dea": 1}), "states: there is no arm 'Dea', did you mean 'Dee'?"),
        ({0: 1}, "states: there is no arm 0: there are Ada, Bo, Cy, Dee"),
        (pd.Series([0, 1, 1], index=[0, 2, 3]), "states: there is no arm 0"),  # a part of what had been numbered
        (pd.Series([0, 1, 1, 1], index=[3, 2, 1, 0]), "states: there is no arm 3"),
        (pd.Series([0, 1], index=["Bo", "Bo"]), "one value for each arm, got two for 'Bo'"),
        ({"Eve": 1}, "states: 'Eve' has left"),
        ({"Bo": 3}, "must be 0 or 1, or missing, got 3 for 'Bo'"),
        ({"Bo": "sick"}, "must be an array of numbers: .*'sick'"),
        ({"Bo": [1]}, "states must"),
        ({"Bo": np.array([1, 0]), "Ada": 1}, "states must be an array of numbers"),
        (pd.Series([0, 1, 1]), r"each of the 4 arms, got shape \(3,\)"),
        (pd.DataFrame({"state": [0, 1]}, index=["Ada", "Bo"]), r"each of the 4 arms, got shape \(2, 1\)"),
        ([[0], [1, 0], 1, 1], "must be an array of numbers"),
        ([10**400, 0, 0, 0], "must be an array of numbers"),
    ],
)
def test_values_that_cannot_be(values: Any, message: str) -> None:
    with pytest.raises(mf.InputError, match=message):
        bits("states", values, NAMES, {"Eve"})


def test_a_name_that_nobody_has_among_very_many_is_one_line() -> None:
    names = [f"arm-{i}" for i in range(5000)]
    with pytest.raises(mf.InputError, match=r"no arm 'Zoë': there are arm-0, .* and 4,960 more") as caught:
        bits("states", {"Zoë": 1}, names)
    assert len(str(caught.value)) < 500


def test_a_learner_takes_everything_by_name() -> None:
    by_place = mf.policies.create("wiql").start(4, 2, seed=1, names=NAMES)
    by_name = mf.policies.create("wiql").start(4, 2, seed=1, names=NAMES)
    for _ in range(5):
        one = by_place.choose([0, 1, None, 1], available=[True, True, False, True])
        there = pd.Series([True, False, True, True], index=BACKWARDS)
        other = by_name.choose(pd.Series({"Dee": 1, "Bo": 1, "Ada": 0}), available=there)
        assert one.names == other.names
        by_place.observe([0, 1, 0, 1], one.actions, [1, 0, 1, None])
        done = dict(zip(NAMES, one.actions.tolist(), strict=True))
        masked = np.ma.array([1, 0, 1, 1], mask=[False, False, False, True])
        by_name.observe({"Dee": 1, "Cy": 0, "Bo": 1, "Ada": 0}, pd.Series(done)[::-1], masked)
    assert by_place.to_dict() == by_name.to_dict()
    assert by_name.counts.visits.sum(axis=(1, 2)).tolist() == [5, 5, 5, 0]
