"""Checks of who is pulled: exactly K arms, by the exposures that are stated, whatever the order of arms."""

from __future__ import annotations

import numpy as np

from meritfair.core.arrays import AnyArray, BoolArray, FloatArray, IntArray
from meritfair.model.counts import Counts
from meritfair.policies.learner import Learner
from meritfair.policies.step_learner import StepLearner
from meritfair.policies.timed import TimedLottery
from meritfair.policies.view import View
from meritfair.simulation.run import Run
from meritfair.testing.cases import Case, Script, as_check, with_other_rngs
from meritfair.testing.judging import EXACT, check_choice, differ, fail, limit


@as_check
def check_pulls(case: Case) -> None:
    """Check that exactly K different arms are pulled at each step, live and in simulation.

    A budget is there to be spent and not to be exceeded. A policy that says ``spends_budget = False`` may pull fewer.
    And a run begins alike however long it is.
    """
    script, learner = case.script(10, seed=1), case.start(1)
    for t in range(10):
        pulled = script.round(learner, t).actions.sum()
        case.check_pulls(pulled, case.budget, f"in round {t + 1} of a learner (seed 1)")
    before, shorter = np.zeros((3, case.n_arms), np.int64), np.zeros((3, 0), np.int64)
    for step in range(1, 11):
        longer = case.simulate(2, runs=3, episodes=step, horizon=1)
        where = f"at step {step} of a simulation (seed 2, horizon 1)"
        if not np.array_equal(longer.reward[:, :-1], shorter):
            fail(f"a run must begin alike however long it is, but {where} what was before had changed")
        pulls = longer.pulls - before
        if not np.isin(pulls, (0, 1)).all():
            fail(f"an arm must be pulled once or not at all, but {where} pulls were {pulls.tolist()}")
        case.check_pulls(pulls.sum(axis=1), case.budget, where)
        shorter, before = longer.reward, longer.pulls
    long = case.simulate(3, runs=3, episodes=4, horizon=7)
    if long.pulls.max() > 28:
        fail(f"an arm can be pulled once at each of 28 steps, but one was {long.pulls.max()} times (seed 3)")
    case.check_pulls(long.pulls.sum(axis=1), case.budget * 28, "in 28 steps together (seed 3, horizon 7)")


@as_check
def check_exposures(case: Case) -> None:
    """Check that arms are pulled with the exposures that are stated.

    Whoever is told an exposure can hold the draws against it, and audits do. In a `Learner`, an arm with exposure 1 is
    pulled and one with exposure 0 is not, and learners that know the same pull each arm as often as they say. In a
    simulation, pulls are held against `Plan.exposure`.
    """
    script, learner = case.script(400, seed=11), case.start(11)
    for t in range(10):
        check_choice(script.round(learner, t), f"in round {t + 1} (seed 11)")
    script.teach(learner, np.random.default_rng(12).integers(0, 2, (400, case.n_arms)))
    where = "in a round of 150 learners that know the same"
    choices = [each.choose(script.states[0]) for each in with_other_rngs(learner, 150, seed=13)]
    for choice in choices:
        check_choice(choice, where)
    made, stated = np.sum([c.actions for c in choices], axis=0), np.sum([c.exposure for c in choices], axis=0)
    _check_frequency(made, stated, limit(np.ones(150), case.n_arms), where)
    _check_simulated(case, runs=60, horizon=60)


def _check_frequency(made: AnyArray, stated: AnyArray, most: AnyArray, where: str) -> None:
    """Check how often arms were pulled against how often they should be."""
    for arm in np.flatnonzero(np.abs(made - stated) > most):
        fail(
            f"arms must be pulled as often as is stated: {where} arm {arm} was pulled {made[arm]:g} times, "
            f"where {stated[arm]:.1f} were stated"
        )


def _check_simulated(case: Case, runs: int, horizon: int) -> None:
    """Check the pulls of the second episode against the exposures that its plan states, if it states any."""
    before, after = (case.simulate(14, runs=runs, episodes=number, horizon=horizon) for number in (1, 2))
    stated = [_stated(case, before, state) for state in (0, 1)]
    if stated[0] is None or stated[1] is None or not np.allclose(stated[0][0], stated[1][0], EXACT, EXACT):
        return  # pulls depend on states, or the plan is drawn at random
    due = horizon * np.broadcast_to(stated[0][0], before.pulls.shape).sum(axis=0)
    made, apart = (after.pulls - before.pulls).sum(axis=0), 2 * stated[0][1] * runs  # accounts may go from end to end
    where = f"in the second episode of {runs} runs (seed 14, horizon {horizon})"
    _check_frequency(made, due, limit(np.ones(runs * horizon), case.n_arms) + apart, where)


def _stated(case: Case, before: Run, state: int) -> tuple[FloatArray, float] | None:
    """Return what is due in the episode after these, if all arms begin it in one state, and the slack.

    None if a plan has no exposures.
    """
    rngs = tuple(np.random.default_rng([15, state, run]) for run in range(before.runs))
    states, seen = np.full(before.pulls.shape, state), Counts(before.visits, before.good)
    step = before.episodes * before.horizon
    view = View(seen, before.episodes + 1, case.budget, before.transitions, rngs, states, step=step)
    plan = case.policy.plan(view)
    due = None if isinstance(plan, StepLearner) else plan.exposure(case.budget)
    return None if due is None else (due, plan.slack if isinstance(plan, TimedLottery) else 0.0)


@as_check
def check_ties(case: Case) -> None:
    """Check that arms that are alike are pulled alike: ties are broken at random, never by place.

    To favour whoever comes first in a list is unfair, and hard to see. Arms of which nothing is known, or that all have
    done the same, are watched in many first rounds, in rounds after a history, and in short simulations. Arms are not
    alike if a setting with one entry for each arm tells them apart.
    """
    same = np.array(np.broadcast_to([[0.3, 0.6], [0.5, 0.8]], (case.n_arms, 2, 2)))
    states = np.zeros(case.n_arms, np.int64)
    first = [case.start(seed, truth=same).choose(states).actions for seed in range(120)]
    _check_alike(case, np.array(first), "in 120 first rounds")
    learner, rng = case.start(61, truth=same), np.random.default_rng(62)
    learner.choose(states, available=np.zeros(case.n_arms))
    for _ in range(100):
        learner.observe(*(np.full(case.n_arms, each) for each in rng.integers(0, 2, 3)))
    later = [each.choose(states).actions for each in with_other_rngs(learner, 120, seed=63)]
    _check_alike(case, np.array(later), "in 120 rounds after a history that was the same for all arms")
    run = case.simulate(64, runs=120, episodes=2, horizon=5, truth=same)
    _check_alike(case, run.pulls, "in 120 simulations of 10 steps (seed 64)")


def _check_alike(case: Case, pulls: IntArray, where: str) -> None:
    """Check that arms of a kind were pulled equally often, in rows that do not depend on each other."""
    for arms in _kinds(case):
        own = pulls[:, arms]
        total, mean = own.sum(axis=0), own.sum() / len(arms)
        for place in np.flatnonzero(np.abs(total - mean) > limit(np.ptp(own, axis=1), case.n_arms)):
            fail(
                f"arms that are alike must be pulled alike: {where} arm {arms[place]} was pulled {total[place]} times, "
                f"and {mean:.1f} is the mean of such arms"
            )


def _kinds(case: Case) -> list[list[int]]:
    """Return the arms in groups that no setting tells apart."""
    kinds: dict[str, list[int]] = {}
    for arm in range(case.n_arms):
        kinds.setdefault(str([np.asarray(row[arm]).tolist() for row in case.per_arm.values()]), []).append(arm)
    return list(kinds.values())


@as_check
def check_relabelling(case: Case) -> None:
    """Check that exposures do not depend on the order of arms.

    A place in a list is no merit. Two learners are led through the same history, with arms in another order; settings
    with one entry for each arm are put in that order too. Where exposures are random, those of many learners are
    compared.
    """
    order = _another_order(case.n_arms)
    script = case.script(400, seed=41)
    forced = np.random.default_rng(42).random((4, case.n_arms)).argsort(axis=1) < case.budget  # K arms at random
    actions = np.random.default_rng(43).integers(0, 2, (400, case.n_arms))
    moved, learner = script.relabelled(order), case.start(44)
    other = case.relabelled(order).start(45, truth=moved.truth)
    script.teach(learner, actions)
    moved.teach(other, actions[:, order])
    for number in (2, 60):
        first = _exposures(with_other_rngs(learner, number, seed=46), script, forced)[:, order]
        second = _exposures(with_other_rngs(other, number, seed=47), moved, forced[:, order])
        if np.ptp(np.concatenate([first, second]), axis=0).max() <= EXACT:
            return
    if max(np.ptp(first, axis=0).max(), np.ptp(second, axis=0).max()) <= EXACT:
        wrong, how = np.flatnonzero(np.abs(first[0] - second[0]) > EXACT), ""
    else:
        wrong, how = differ(first, second), " on average"
    for place in wrong:
        fail(
            f"exposures must not depend on the order of arms: after the same history that of arm {order[place]} "
            f"was {first[:, place].mean():g}{how}, and {second[:, place].mean():g} when it was in place {place}"
        )


def _another_order(n_arms: int) -> IntArray:
    """Return an order of the arms in which none is at its old place, unless there is only one."""
    circle, order = np.random.default_rng(48).permutation(n_arms), np.empty(n_arms, np.int64)
    order[circle] = np.roll(circle, 1)
    return order


def _exposures(learners: list[Learner], script: Script, forced: BoolArray) -> FloatArray:
    """Lead learners through rounds in which only K arms are there; return their exposures of the round after them."""
    for learner in learners:
        for t, there in enumerate(forced):
            learner.choose(script.states[t], available=there)
            script.see(learner, t, there.astype(np.int64))
    return np.array([learner.choose(script.states[-1]).exposure for learner in learners])
