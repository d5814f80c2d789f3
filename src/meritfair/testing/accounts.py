"""Checks of what arms are due: accounts within the slack whatever happens, and rules that nobody breaks."""

from __future__ import annotations

import math

import numpy as np

from meritfair.core.arrays import BoolArray, FloatArray, IntArray
from meritfair.model.rules import Rules
from meritfair.policies.learner import Choice, Learner
from meritfair.policies.plans import PriorityTable
from meritfair.policies.timed import TimedLottery
from meritfair.testing.cases import Case, as_check
from meritfair.testing.judging import EXACT, check_choice, check_same_choice, fail, same


@as_check
def check_accounts(case: Case) -> None:
    """Check that accounts say what was due less what was given, and stay within the slack of the plan.

    A policy that plans a `TimedLottery`, always with the same slack, may be ahead or behind by that many pulls, even if
    the states are those that hurt most, arms are away, and the learner is saved and loaded. With all other plans what
    is given is what is due.
    """
    plan = case.plan(case.view(runs=1, seed=141))
    slack = plan.slack if isinstance(plan, TimedLottery) else 0.0
    learner, rng, total = case.start(142, horizon=2), np.random.default_rng(143), np.zeros(case.n_arms)
    for t in range(40):
        there = rng.random(case.n_arms) < (0.7 if t % 4 == 3 else 1.0)
        states = _hurtful(learner, slack) if t % 2 else rng.integers(0, 2, case.n_arms)
        twin = Learner.from_dict(learner.to_dict(), case.policy)
        choice, where = learner.choose(states, available=there), f"in round {t + 1} (seed 142, horizon 2)"
        check_same_choice(choice, twin.choose(states, available=there), f"{where} of one that was and was not saved")
        total += choice.due - choice.exposure
        _check_account(choice, total, slack, where)
        learner.observe(states, choice.actions, rng.integers(0, 2, case.n_arms))


def _hurtful(learner: Learner, slack: float) -> IntArray:
    """Return states that push accounts on in the direction in which they are, if bad states are pulled first."""
    behind = learner.account > (0.0 if math.isinf(slack) else 0.1 * slack)
    return np.where(behind, 1, 0)


def _check_account(choice: Choice, total: FloatArray, slack: float, where: str) -> None:
    """Check the account of each arm after a round, where it was due that much more than it was given."""
    if not same(choice.account, total):
        fail(f"an account must be what was due less what was given, {total}, but {where} it was {choice.account}")
    if np.abs(choice.account).max() > slack + EXACT:
        fail(f"accounts must stay within the slack of {slack:g}, but {where} they were {choice.account}")
    if abs(choice.due.sum() - choice.exposure.sum()) > 1e-6:
        fail(f"what is given must be as much as is due in all, {choice.due.sum():g}, but {where} it was not")


@as_check
def check_rules(case: Case) -> None:
    """Check that rules are kept: who rests, is new, or was pulled once where that is all, is not pulled.

    Nothing fails in the middle of a programme, and the budget is spent as far as rules allow.
    """
    sequential = case.policy.criterion is not None and case.policy.criterion.design == "sequential"
    for rules in (Rules(warmup=2, once=True), Rules(cooldown=1, accrue=True)):
        if rules.needs_accounts and (sequential or 2 * case.budget > case.n_arms):
            continue
        learner, rng = case.start(151, rules=rules), np.random.default_rng(152)
        last_pull, joined = np.zeros((2, case.n_arms), np.int64)
        for t in range(1, 21):
            there, states = rng.random(case.n_arms) < 0.8, rng.integers(0, 2, case.n_arms)
            free = rules.standing(there, last_pull, joined, t).free
            choice = learner.choose(states, available=there)
            _check_kept(case, choice, free, f"in round {t} under {rules} (seed 151)")
            learner.observe(states, choice.actions, rng.integers(0, 2, case.n_arms))
            last_pull[choice.arms] = t


def _check_kept(case: Case, choice: Choice, free: BoolArray, where: str) -> None:
    """Check that only those are pulled who may be, and as many of them as the budget is for."""
    check_choice(choice, where)
    if np.any(choice.actions[~free]):
        fail(f"only arms that may be pulled by the rules must be chosen, but {where} arms {choice.arms} were")
    plan = case.plan(case.view(runs=1, seed=153))
    if not (isinstance(plan, PriorityTable) and plan.quotas is not None):
        case.check_pulls(choice.actions.sum(), min(case.budget, int(free.sum())), where)
