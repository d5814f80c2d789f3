"""Checks of live use: any number of arms, who come and go, of whom not all is known."""

from __future__ import annotations

import dataclasses

import numpy as np

from meritfair.core.arrays import AnyArray, FloatArray, IntArray
from meritfair.policies.learner import Learner
from meritfair.policies.plans import PriorityTable
from meritfair.testing.cases import Case, as_check
from meritfair.testing.judging import check_same_choice, differ, fail


@as_check
def check_sizes(case: Case) -> None:
    """Check that one arm, two arms, and a budget for all arms are nothing special.

    If the budget is enough for everyone, everyone is pulled at every step.
    """
    for n_arms, budget in ((1, 1), (2, 1), (2, 2), (case.n_arms, case.n_arms)):
        size = dataclasses.replace(case, n_arms=n_arms, budget=budget)
        what = f"{n_arms} arm{'s' * (n_arms > 1)} and a budget of {budget}"
        if case.refuses(lambda size=size: size.start(51), what):  # type: ignore[misc]
            continue
        script, learner = size.script(4, seed=51), size.start(51, horizon=3)
        for t in range(4):
            size.check_round(script.round(learner, t), budget, f"with {what} (seed 51)")
        run = size.simulate(51, runs=2, episodes=3, horizon=3)
        size.check_pulls(run.pulls.sum(axis=1), 9 * budget, f"in 9 steps together, with {what} (seed 51),")


@as_check
def check_missing(case: Case) -> None:
    """Check that arms that are not available are not chosen, and that what is not known is not counted.

    In practice some arms cannot be reached, and outcomes are missing, or are known from before the first round. If
    fewer arms than the budget are available, all of them are pulled; where a plan has quotas, as many of each group as
    its quota is and are available.
    """
    rng, learner, plan = np.random.default_rng(81), case.start(82, horizon=2), case.plan(case.view(runs=1, seed=84))
    has_quotas = isinstance(plan, PriorityTable) and plan.quotas is not None
    script, past = case.script(116, seed=83), np.random.default_rng(84).integers(0, 2, (116, case.n_arms))
    for t in range(16, 116):
        script.see(learner, t, past[t])
    counted = 100 * case.n_arms
    for t in range(16):
        there = rng.random(case.n_arms) < (0.0 if t == 3 else rng.random())
        states = np.where(there, script.states[t], np.nan)
        choice, most = learner.choose(states, available=there), min(case.budget, int(there.sum()))
        where = f"in round {t + 1} with {there.sum()} arms available (seed 82)"
        if np.any(choice.actions[~there]):
            fail(f"only available arms must be chosen, but {where} arms {choice.arms} were")
        case.check_round(choice, min(most, choice.actions.sum()) if has_quotas else most, where)
        following = np.where(rng.random(case.n_arms) < 0.3, np.nan, script.after(t, choice.actions))
        learner.observe(states, choice.actions, following)
        counted += int((~np.isnan(states + following)).sum())
        if learner.counts.visits.sum() != counted:
            fail(f"{counted} transitions were seen, but {where} {learner.counts.visits.sum()} were counted")


@as_check
def check_unseen_states(case: Case) -> None:
    """Check that a policy chooses where states are not known, live and in simulations, with all of its budget.

    In practice not every state is seen. A policy that looks at states works on how likely each arm is good.
    """
    rng, learner, script = np.random.default_rng(141), case.start(142, horizon=2), case.script(12, seed=143)
    for t in range(12):
        states = np.where(rng.random(case.n_arms) < t / 12, script.states[t], np.nan)
        choice = learner.choose(states)
        case.check_round(
            choice, case.budget, f"in round {t + 1} with {np.isnan(states).sum()} states unknown (seed 142)"
        )
        learner.observe(states, choice.actions, script.after(t, choice.actions))
    run = case.simulate(144, runs=2, episodes=3, horizon=5, observed=0.5)
    case.check_pulls(run.pulls.sum(axis=1), 15 * case.budget, "in 15 steps together, with half of all states unseen,")


@as_check
def check_join_and_leave(case: Case) -> None:
    """Check that arms may join, leave and return in live use, and all keep what was seen of them.

    A policy whose settings do not suit the new number of arms may refuse by an `InputError`; then nothing has changed.
    """
    script, learner, twin = case.script(6, seed=91), case.start(92, horizon=2), case.start(92, horizon=2)
    for t in range(3):
        script.round(learner, t)
        script.round(twin, t)
    names, seen = learner.names, learner.counts.visits
    if case.refuses(lambda: learner.join(["newcomer"], case.known(case.truth[:1])), "an arm that joins"):
        _check_who(learner, names, seen, "could not join")
        for t in range(3, 6):
            check_same_choice(script.round(learner, t), script.round(twin, t), "after an arm could not join (seed 92)")
    else:
        _check_who(learner, (*names, "newcomer"), np.concatenate([seen, np.zeros((1, 2, 2))]), "joined")
        _check_next(case, learner, "after an arm joined (seed 92)")
        everyone, seen = learner.names, learner.counts.visits
        learner.leave(["newcomer"])
        learner.join(["newcomer"])
        _check_who(learner, everyone, seen, "returned")
        _check_next(case, learner, "after an arm returned (seed 92)")
        learner.leave(["newcomer"])
    for left in range(case.n_arms - 1, 0, -1):
        seen = learner.counts.visits
        if case.refuses(lambda: learner.leave([0]), "that an arm leaves"):
            _check_who(learner, names[-left - 1 :], seen, "could not leave")
            return
        _check_who(learner, names[-left:], seen[1:], "left")
        _check_next(case, learner, f"after all but {left} arms left (seed 92)")


def _check_who(learner: Learner, names: tuple[str, ...], visits: AnyArray, did: str) -> None:
    """Check who is there, and what was seen of them."""
    if learner.names != names:
        fail(f"when an arm {did} there must be {names}, but there were {learner.names}")
    if not np.array_equal(learner.counts.visits, visits):
        fail(f"when an arm {did} what was seen of those who are there must be kept, but it was not")


def _check_next(case: Case, learner: Learner, where: str) -> None:
    """Check a round of a learner that has other arms now."""
    states = np.arange(learner.n_arms) % 2
    choice = learner.choose(states)
    case.check_round(choice, min(case.budget, learner.n_arms), where)
    learner.observe(states, choice.actions, 1 - states)


@as_check
def check_learner_and_simulation(case: Case) -> None:
    """Check that what is simulated is what happens in live use: rewards, pulls and waits have the same law.

    Else simulations would say nothing about practice.
    """
    runs, episodes, horizon = 40, 5, 7
    run = case.simulate(131, runs=runs, episodes=episodes, horizon=horizon)
    simulated = _summary(run.reward.sum(axis=1), run.visits, run.longest_wait)
    live = _summary(*_live(case, runs, episodes, horizon))
    for column in differ(simulated, live):
        fail(
            f"live use and simulation must agree, but in {runs} runs of {episodes * horizon} steps the mean "
            f"{_words(case.n_arms)[column]} was {live[:, column].mean():g} live "
            f"and {simulated[:, column].mean():g} simulated"
        )


def _summary(reward: IntArray, visits: IntArray, longest_wait: IntArray) -> FloatArray:
    """Return the numbers of each run that are compared, in the order of `_words`."""
    pulls = visits[..., 1]  # by arm and state
    uneven = np.square(pulls.sum(axis=-1)).sum(axis=-1)
    waits = longest_wait.min(axis=-1), longest_wait.max(axis=-1)
    return np.column_stack([reward, uneven, *waits, pulls.reshape(len(pulls), -1)]).astype(np.float64)


def _words(n_arms: int) -> list[str]:
    by_arm = [f"pulls of arm {arm} in state {state}" for arm in range(n_arms) for state in (0, 1)]
    return ["reward", "sum of squares of pulls", "shortest longest wait", "longest wait", *by_arm]


def _live(case: Case, runs: int, episodes: int, horizon: int) -> tuple[IntArray, IntArray, IntArray]:
    """Return rewards, visits and longest waits of learners in the same environment as a simulation has."""
    rng, learners = np.random.default_rng(132), [case.start(seed, horizon) for seed in range(runs)]
    reward, (states, waited, longest) = np.zeros(runs, np.int64), np.zeros((3, runs, case.n_arms), np.int64)
    for step in range(episodes * horizon):
        if step % horizon == 0:
            states = rng.integers(0, 2, states.shape)
        actions = np.array([learner.choose(own).actions for learner, own in zip(learners, states, strict=True)])
        good = case.truth[np.arange(case.n_arms), states, actions]
        after = (rng.random(states.shape) < good).astype(np.int64)
        for learner, *seen in zip(learners, states, actions, after, strict=True):
            learner.observe(*seen)
        states, waited = after, (waited + 1) * (1 - actions)
        longest, reward = np.maximum(longest, waited), reward + after.sum(axis=1)
    return reward, np.array([learner.counts.visits for learner in learners]), longest
