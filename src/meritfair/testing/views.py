"""Checks of how a policy plans: for many runs at once, from what it may see, and once if it says so."""

from __future__ import annotations

import dataclasses
from copy import deepcopy
from typing import TYPE_CHECKING, Any

import numpy as np

from meritfair.model.counts import Counts
from meritfair.policies.base import View
from meritfair.policies.plans import PriorityTable, StepLearner
from meritfair.testing.cases import EXACT, as_check, fail

if TYPE_CHECKING:
    from collections.abc import Mapping

    from meritfair.policies.plans import Plan
    from meritfair.testing.cases import Case

__all__ = ["check_constant", "check_no_secrets", "check_runs_together", "has_quotas", "hidden_state"]


@as_check
def check_runs_together(case: Case) -> None:
    """Check that several runs that are planned at once are planned as each would be alone.

    `View.counts` and `View.memory` have an axis for runs in simulations and none in live use, and `View.rngs` has a
    source for each run. A plan for several runs has that axis too, or is the same for all; and it is made without
    changing what the view shows.
    """
    view = _view(case, runs=3, seed=101)
    for _ in range(2):
        together = _plan(case, view)
        for run in range(3):
            alone = _parts(_plan(case, _run_of(view, run)))
            own = {name: _of_run(part, alone.get(name), run) for name, part in _parts(together).items()}
            part = _difference(alone, own)
            if part is not None:
                fail(f"a run must be planned as if it were alone, but the {part} of plans was another in run {run}")
        if not isinstance(together, StepLearner) or case.policy.plans_once:
            return
        view = dataclasses.replace(view, memory=np.array(together.memory), episode=view.episode + 1)


@as_check
def check_no_secrets(case: Case) -> None:
    """Check that a policy does not look at the true arms unless it says ``oracle = True``.

    In life nobody knows them, so a policy that peeks would fail there, and would be compared unfairly in simulation.
    """
    if case.policy.oracle:
        return
    view = _view(case, runs=2, seed=111)
    plan = _parts(_plan(case, view))
    for truth in (1 - view.true_transitions, np.full(view.true_transitions.shape, np.nan)):
        part = _difference(plan, _parts(_plan(case, dataclasses.replace(view, true_transitions=truth))))
        if part is not None:
            fail(f"a plan must not depend on the true arms unless its policy is an oracle, but its {part} did")


@as_check
def check_constant(case: Case) -> None:
    """Check that a policy that says ``plans_once = True`` has one plan for all episodes.

    In a simulation it is asked for a plan once, so that all episodes are played in one go, and in live use at each
    episode. A step learner goes on from the memory of the last episode, by itself if it keeps its memory.
    """
    if not case.policy.plans_once:
        return
    view = _view(case, runs=2, seed=121)
    visits = np.random.default_rng(122).integers(0, 500, view.counts.visits.shape)
    first = _plan(case, view)
    memory = first.memory if isinstance(first, StepLearner) else None
    if isinstance(first, StepLearner) and first.keeps_memory:
        return
    later = dataclasses.replace(view, counts=Counts(visits, visits // 3), episode=9, step=80, memory=memory)
    part = _difference(_parts(first), _parts(_plan(case, later)))
    if part is not None:
        fail(f"a constant policy must plan the same in all episodes, but the {part} of episodes 1 and 9 was not")


def hidden_state(case: Case) -> str:
    """Return what is wrong if the same view, with the same luck, does not always give the same plan; else ""."""
    view, other = _view(case, runs=2, seed=131), _view(case, runs=2, seed=132)
    try:
        policy, twin = deepcopy(case.policy), deepcopy(case.policy)
        first, _, *again = (_parts(policy.plan(deepcopy(each))) for each in (view, other, view, view, view))
        by_twin = _parts(twin.plan(deepcopy(view)))
    except Exception:  # then something else is wrong as well
        return ""
    part = next(filter(None, (_difference(first, each) for each in again)), None)
    if part is None:
        return ""
    if _difference(first, by_twin) is None:
        what = "the policy changes itself between plans: it keeps hidden state"
    else:
        what = "the policy keeps hidden state outside of itself, or draws random numbers that are not from View.rngs"
    return (
        f"{what}. The same view gave another {part} when it was planned again. Runs would share such state and a "
        "restart would lose it: plan from the view and the settings alone; a StepLearner can learn in its memory"
    )


def has_quotas(case: Case) -> bool:
    """Return whether the policy plans so many pulls for each of some groups."""
    plan = _plan(case, _run_of(_view(case, runs=1, seed=84), 0))
    return isinstance(plan, PriorityTable) and plan.quotas is not None


def _view(case: Case, runs: int, seed: int) -> View:
    """Return a view of several runs, of which much was seen unless the policy plans but once."""
    rng, shape = np.random.default_rng(seed), (runs, case.n_arms, 2, 2)
    visits = rng.integers(0, 1 if case.policy.plans_once else 500, shape)
    seen = Counts(visits, rng.binomial(visits, case.truth))
    luck = tuple(np.random.default_rng([seed, run]) for run in range(runs))
    truth = np.array(np.broadcast_to(case.truth, shape))
    return View(seen, 1 if case.policy.plans_once else 30, case.budget, truth, luck, rng.integers(0, 2, shape[:2]))


def _run_of(view: View, run: int) -> View:
    """Return what one of the runs would see if it were alone."""
    seen = Counts(view.counts.visits[run], view.counts.good[run])
    states, memory = (None if rows is None else np.array(rows[run]) for rows in (view.states, view.memory))
    truth, luck = np.array(view.true_transitions[run]), (view.rngs[run],)
    return View(seen, view.episode, view.budget, truth, luck, states, memory, view.step)


def _plan(case: Case, view: View) -> Plan:
    """Return the plan for a view, which must stay as it is; its luck does, too."""
    shown = deepcopy(view)
    plan = case.policy.plan(shown)
    for name in ("true_transitions", "states", "memory"):
        if not _same(getattr(view, name), getattr(shown, name)):
            fail(f"a policy must leave its view as it is, but it has changed {name}")
    return plan


def _parts(plan: Plan) -> dict[str, Any]:
    """Return what a plan consists of, but for functions."""
    parts = {f.name: getattr(plan, f.name) for f in dataclasses.fields(plan) if f.init}  # type: ignore[arg-type]
    return {"kind": type(plan).__name__, **{name: part for name, part in parts.items() if not callable(part)}}


def _of_run(part: Any, alone: Any, run: int) -> Any:
    """Return what a part of a plan for three runs is in one of them."""
    if isinstance(part, (str, bool, type(None))) or alone is None:
        return part
    try:
        return np.broadcast_to(part, (3, *np.shape(alone)))[run]
    except ValueError:
        return part  # of another shape


def _difference(first: Mapping[str, Any], second: Mapping[str, Any]) -> str | None:
    """Return the name of a part in which two plans differ."""
    if first.keys() != second.keys():
        return "kind"
    return next((name for name in first if not _same(first[name], second[name])), None)


def _same(first: Any, second: Any) -> bool:
    """Return whether two parts are the same, but for rounding."""
    words = str, bool, type(None)
    if isinstance(first, words) or isinstance(second, words):
        return type(first) is type(second) and bool(first == second)
    one, other = np.asarray(first, np.float64), np.asarray(second, np.float64)
    return one.shape == other.shape and np.allclose(one, other, EXACT, EXACT, equal_nan=True)
