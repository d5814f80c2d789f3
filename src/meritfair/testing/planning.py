"""Checks of how a policy plans: for many runs at once, from what it may see, and once if it says so."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from meritfair.model.counts import Counts
from meritfair.policies.step_learner import StepLearner
from meritfair.policies.view import View
from meritfair.testing.cases import Case, as_check
from meritfair.testing.judging import difference, fail, parts


@as_check
def check_runs_together(case: Case) -> None:
    """Check that several runs that are planned at once are planned as each would be alone.

    `View.counts` and `View.memory` have an axis for runs in simulations and none in live use, and `View.rngs` has a
    generator for each run. A plan for several runs has that axis too, or is the same for all; and it is made without
    changing what the view shows.
    """
    view = case.view(runs=3, seed=101)
    for _ in range(2):
        together = case.plan(view)
        for run in range(3):
            alone = parts(case.plan(_run_of(view, run)))
            own = {name: _of_run(part, alone.get(name), run) for name, part in parts(together).items()}
            part = difference(alone, own)
            if part is not None:
                fail(f"a run must be planned as if it were alone, but the {part} of plans was another in run {run}")
        if not isinstance(together, StepLearner) or case.policy.plans_once:
            return
        view = dataclasses.replace(view, memory=np.array(together.memory), episode=view.episode + 1)


def _run_of(view: View, run: int) -> View:
    """Return what one of the runs would see if it were alone."""
    seen = Counts(view.counts.visits[run], view.counts.good[run])
    states, memory = (None if rows is None else np.array(rows[run]) for rows in (view.states, view.memory))
    truth, rngs = np.array(view.true_transitions[run]), (view.rngs[run],)
    return View(seen, view.episode, view.budget, truth, rngs, states, memory, view.step)


def _of_run(part: Any, alone: Any, run: int) -> Any:
    """Return what a part of a plan for three runs is in one of them."""
    try:
        return np.broadcast_to(part, (3, *np.shape(alone)))[run]
    except ValueError:
        return part  # of another shape


@as_check
def check_no_secrets(case: Case) -> None:
    """Check that a policy does not look at the true arms unless it says ``oracle = True``.

    In practice nobody knows them, so a policy that peeks would fail there, and would be compared unfairly in
    simulation.
    """
    if case.policy.oracle:
        return
    view = case.view(runs=2, seed=111)
    plan = parts(case.plan(view))
    for truth in (1 - view.true_transitions, np.full(view.true_transitions.shape, np.nan)):
        part = difference(plan, parts(case.plan(dataclasses.replace(view, true_transitions=truth))))
        if part is not None:
            fail(f"a plan must not depend on the true arms unless its policy is an oracle, but its {part} did")


@as_check
def check_constant(case: Case) -> None:
    """Check that a policy that says ``plans_once = True`` has one plan for all episodes.

    In a simulation it is asked for a plan once, so that all episodes are played in one go, and in live use at each
    episode. A step learner continues from the memory of the last episode, by itself if it keeps its memory.
    """
    if not case.policy.plans_once:
        return
    view = case.view(runs=2, seed=121)
    first = case.plan(view)
    if isinstance(first, StepLearner) and first.keeps_memory:
        return
    visits = np.random.default_rng(122).integers(0, 500, view.counts.visits.shape)
    memory = first.memory if isinstance(first, StepLearner) else None
    later = dataclasses.replace(view, counts=Counts(visits, visits // 3), episode=9, step=80, memory=memory)
    part = difference(parts(first), parts(case.plan(later)))
    if part is not None:
        fail(f"a policy that plans once must plan the same in all episodes, but the {part} of episodes 1 and 9 was not")
