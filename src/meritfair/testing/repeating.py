"""Checks that what was done can be done again: by its seed, in any number of runs, and after a restart."""

from __future__ import annotations

import dataclasses
import tempfile
from copy import deepcopy
from pathlib import Path

import numpy as np

from meritfair.policies import registry
from meritfair.policies.base import Policy
from meritfair.policies.learner import Learner
from meritfair.simulation.run import Run
from meritfair.testing.cases import Case, as_check, hidden_state
from meritfair.testing.judging import check_same_choice, fail


@as_check
def check_seeds(case: Case) -> None:
    """Check that the seed fixes everything, and the number of workers nothing.

    What was simulated or drawn can then be made again by anyone. A policy draws from `View.rngs` alone, and keeps
    nothing outside of its plans: neither in NumPy's global generator nor in itself.
    """
    hidden = hidden_state(case)
    if hidden:
        fail(hidden)
    first = case.simulate(21, runs=4, episodes=6, horizon=5)
    for workers in (1, 2):
        again = case.simulate(21, runs=4, episodes=6, horizon=5, workers=workers)
        _check_same_run(first, again, 4, f"played again with the same seed, 21, by {workers} at a time")
    other = case.simulate(22, runs=4, episodes=6, horizon=5)
    if np.array_equal(first.visits, other.visits) and np.array_equal(first.reward, other.reward):
        fail("another seed must give another run, but those of the seeds 21 and 22 were the same")
    script = case.script(8, seed=23)
    one, twin = ([script.round(learner, t) for t in range(8)] for learner in (case.start(23), case.start(23)))
    for t in range(8):
        check_same_choice(one[t], twin[t], f"in round {t + 1} of two learners with the same seed, 23,")


@as_check
def check_runs(case: Case) -> None:
    """Check that a run does not depend on how many runs there are, nor on what happens in others.

    Else runs would not be independent, and intervals made from them would be wrong.
    """
    many = case.simulate(31, runs=3, episodes=8, horizon=5)
    for runs in (1, 2):
        few = case.simulate(31, runs=runs, episodes=8, horizon=5)
        _check_same_run(few, many, runs, f"as one of {runs} and as one of 3 (seed 31)")


def _check_same_run(first: Run, second: Run, runs: int, where: str) -> None:
    """Check that some runs, from the first on, are the same."""
    for name in (f.name for f in dataclasses.fields(first) if f.name != "settings"):
        one, other = getattr(first, name)[:runs], getattr(second, name)[:runs]
        if not np.array_equal(one, other, equal_nan=True):
            fail(f"a run must be the same, but {where} its {name} was another")


@as_check
def check_restart(case: Case) -> None:
    """Check that a learner that was saved and loaded does what it would have done.

    Programs stop and machines restart, in the middle of an episode or before the outcomes of a round are known. A
    policy therefore keeps nothing but its settings, which must be plain values, and what is in its plans. One that is
    not registered is handed to `Learner.load`.
    """
    fresh, script, learner = deepcopy(case.policy), case.script(11, seed=71), case.start(72, horizon=3)
    saved: dict[str, Learner] = {}
    for t in range(11):
        where = f"the choice of round {t + 1} (seed 72, horizon 3)"
        tried = t in (0, 3, 4, 5)  # at the start, between episodes, and within one
        if tried:
            saved[f"before {where}"] = _saved(learner, fresh)
        choice = learner.choose(script.states[t])
        for when, twin in saved.items():
            again = twin.choose(script.states[t])
            check_same_choice(choice, again, f"in round {t + 1} of one that was not and of a learner saved {when}")
        if tried:
            saved[f"after {where}"] = _saved(learner, fresh)
        for each in (learner, *saved.values()):
            script.see(each, t, choice.actions)
    for when, twin in saved.items():
        if not np.array_equal(twin.counts.visits, learner.counts.visits):
            fail(f"what was seen must be kept, but it was not by a learner saved {when}")


def _saved(learner: Learner, policy: Policy) -> Learner:
    """Return the learner that comes out of a file; the policy is as it was in the beginning."""
    with tempfile.TemporaryDirectory() as folder:
        learner.save(Path(folder) / "learner.json")
        return Learner.load(Path(folder) / "learner.json", None if _can_be_made(policy) else deepcopy(policy))


def _can_be_made(policy: Policy) -> bool:
    """Return whether the policy is made from its name and settings alone; what comes out then must be the same."""
    if policy.name not in registry.names() or registry.policy_class(policy.name) is not type(policy):
        return False
    settings = {"name": policy.name, **policy.settings()}
    if isinstance(settings.get("merit"), dict) and settings["merit"].get("kind") == "custom":
        return False
    made = registry.from_settings(settings)
    if made.settings() != policy.settings():
        fail(f"a policy must be made again from its settings, but {settings} became {made.settings()}")
    return True
