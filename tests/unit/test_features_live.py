"""Features in live use: who joins with them, plans that look at them, and files that keep them."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import meritfair as mf
from meritfair.core.errors import FileError, InputError
from meritfair.model.features import Features
from meritfair.policies import View
from meritfair.policies.enrolment import Enrolment

POOLED = mf.MeritFair(estimate="pooled", design="exact")


def trained(n_arms: int = 40, rounds: int = 25, **settings: Any) -> mf.Learner:
    """Return a learner of two kinds of people, whose area tells nine times in ten of which kind they are."""
    rng = np.random.default_rng(2)
    kind = np.arange(n_arms) % 2 == 0
    P = np.where(kind[:, None, None], [[0.1, 0.8], [0.4, 0.95]], [[0.7, 0.75], [0.85, 0.9]])
    area = np.where(kind ^ (np.arange(n_arms) % 10 == 9), "north", "south").tolist()
    learner = POOLED.start(n_arms, 8, seed=1, features={"area": area}, **settings)
    states = rng.integers(0, 2, n_arms)
    for _ in range(rounds):
        actions = (rng.random(n_arms) < 0.4).astype(int)
        after = (rng.random(n_arms) < P[np.arange(n_arms), states, actions]).astype(int)
        learner.observe(states, actions, after)
        states = after
    return learner


def test_a_newcomer_is_due_what_those_like_them_are_due() -> None:
    learner = trained()
    learner.join(["Ada", "Bo"], features={"area": ["north", "south"]})
    due = learner.choose().due
    assert due[-2] > 1.5 * due[-1]
    assert learner.features is not None
    assert learner.features["area"][-2:] == ("north", "south")


def test_a_plan_is_made_by_the_features_that_there_are() -> None:
    learner = trained()
    learner.join("Ada", features={"area": "north"})
    features, counts = learner.features, learner.counts
    assert features is not None
    prior = mf.fit_feature_prior(counts, features)
    assert prior.used == ("area",)
    view = View(counts, 1, 8, np.full((41, 2, 2), np.nan), features=features)
    np.testing.assert_array_equal(view.estimated_transitions("pooled"), prior.posterior(counts, features).mean)
    np.testing.assert_array_equal(view.estimated_transitions("mean"), counts.mean)
    np.testing.assert_array_equal(learner.choose().due, POOLED.plan(view).exposure(8))


def test_without_features_plans_are_as_they_were() -> None:
    one, other = POOLED.start(3, 1, seed=1), POOLED.start(3, 1, seed=1, features={"age": [30, 40, 50]})
    assert one.features is None
    assert one.to_dict()["features"] is None
    np.testing.assert_array_equal(one.choose().due, other.choose().due)


def test_those_who_leave_keep_their_features_unless_they_are_forgotten() -> None:
    learner = POOLED.start(budget=1, seed=1, names=["Ada", "Bo", "Cy"], features={"age": {"Ada": 30, "Bo": 40}})
    learner.leave(["Ada", "Bo"])
    learner.join(["Bo", "Ada"])
    assert learner.features == Features({"age": [None, 40, 30]})
    learner.leave("Ada", forget=True)
    learner.leave("Bo")
    learner.leave("Bo", forget=True)
    learner.join(["Ada", "Bo"])
    assert learner.features == Features({"age": [None, None, None]})
    learner.leave("Ada")
    learner.join("Ada", features={"age": 31})
    assert learner.features == Features({"age": [None, None, 31]})


def test_features_may_come_with_the_first_who_have_them() -> None:
    learner = POOLED.start(2, 1, seed=1)
    learner.join(2, features={"age": [20, 30]})
    assert learner.features == Features({"age": [None, None, 20, 30]})
    learner.join(1)
    assert learner.features == Features({"age": [None, None, 20, 30, None]})


def test_the_history_brings_its_features_also_for_those_who_are_not_there() -> None:
    log = mf.StateLog(
        ["Ada", "Ada", "Bo", "Bo"], [1, 2, 1, 2], [0, 1, 1, 1], [1, 0, 0, 0], features={"age": [30, 30, 40, 40]}
    )
    learner = POOLED.start(budget=1, seed=1, names=["Bo", "Cy"], history=log)
    assert learner.features == Features({"age": [40, None]})
    learner.join("Ada")
    assert learner.features == Features({"age": [40, None, 30]})
    given = POOLED.start(budget=1, seed=1, names=["Bo", "Cy"], history=log, features={"area": ["n", "s"]})
    assert given.features == Features({"area": ["n", "s"]})


@pytest.mark.parametrize(
    ("features", "problem"),
    [
        ({"agee": 3}, "features: there is no feature 'agee', did you mean 'age'?"),
        ({"height": 3}, "features: there is no feature 'height': there are age"),
        ({"age": [1, 2]}, "the feature 'age' must have one value for each of the 1 arms, got 2"),
        ({"age": {"Dee": 1, "Edd": 2}}, "the feature 'age': there is no arm 'Edd'"),
        ({"age": float("inf")}, "the feature 'age' must be finite, got inf"),
        ({}, "features must be a mapping of their names to values, got {}"),
        (["age"], r"features must be a mapping of their names to values, got ['age']"),
        (Features({"age": [1, 2]}), "features must be of the 1 arms, got those of 2"),
    ],
)
def test_features_that_cannot_be_taken_change_nothing(features: Any, problem: str) -> None:
    learner = POOLED.start(2, 1, seed=1, features={"age": [30, 40]})
    before = learner.to_dict()
    with pytest.raises(InputError) as error:
        learner.join("Dee", features=features)
    assert problem in str(error.value)
    assert learner.to_dict() == before


def test_a_learner_resumes_with_its_features(tmp_path: Path) -> None:
    learner = trained(horizon=5)
    learner.leave("arm-3")
    learner.choose()
    learner.save(tmp_path / "learner.json")
    loaded = mf.Learner.load(tmp_path / "learner.json")
    assert loaded.features == learner.features
    for _ in range(7):  # the plan of this episode, which is made again, and the next
        one, other = learner.choose(), loaded.choose()
        np.testing.assert_array_equal(one.due, other.due)
        np.testing.assert_array_equal(one.actions, other.actions)
    assert (loaded.join("arm-3"), loaded.to_dict()) == (learner.join("arm-3"), learner.to_dict())
    assert loaded.features is not None
    assert loaded.features["area"][-1] == "north"


def test_a_learner_that_was_saved_before_there_were_features_is_read(tmp_path: Path) -> None:
    values = POOLED.start(3, 1, seed=1).to_dict()
    del values["features"]
    assert mf.Learner.from_dict(values).features is None


@pytest.mark.parametrize(
    "features",
    [
        3,
        {},
        {"names": [], "by_arm": {}},
        {"names": ["age"], "by_arm": [1]},
        {"names": ["age"], "by_arm": {"Zed": {"age": "3"}}},
        {"names": ["age"], "by_arm": {"arm-1": {"height": "3"}}},
        {"names": ["age"], "by_arm": {"arm-1": 3}},
        {"names": [3], "by_arm": {"arm-1": {}}},
        {"names": ["age"], "by_arm": {"arm-1": {"age": [3]}}},
    ],
)
def test_features_in_a_file_are_not_trusted(features: Any) -> None:
    values = copy.deepcopy(POOLED.start(3, 1, seed=1).to_dict())
    with pytest.raises((InputError, FileError), match="feature"):
        mf.Learner.from_dict({**values, "features": features})


def test_an_enrolment_by_name() -> None:
    known = Enrolment().with_features(["Ada", "Bo"], {"age": {"Bo": 61}})
    assert known.features_of(["Bo", "Ada"]) == Features({"age": [61, None]})
    assert Enrolment.from_dict(known.to_dict(), ["Ada", "Bo"]) == known
    assert Enrolment().features_of(["Ada"]) is None
