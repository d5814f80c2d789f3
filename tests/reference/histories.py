"""What the engine does at each step: plans of all kinds, played one step at a time, and everything written down."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from meritfair.core.arrays import FloatArray, IntArray, WordArray
from meritfair.engine.chains import Chains, new_chains
from meritfair.engine.coins import pack, unpack
from meritfair.engine.compiling import call, call_user
from meritfair.engine.counting import Tally, new_tally
from meritfair.engine.random import new_source
from meritfair.engine.rounds import new_rounds
from meritfair.engine.steps import StepPlan, Steps, new_steps
from meritfair.model.criterion import Confidence, Criterion
from meritfair.model.rules import Rules
from meritfair.simulation.playables import OpenLoop, playable
from meritfair.simulation.problem import Problem
from reference.compiled import kernel_of_tests

if TYPE_CHECKING:
    from meritfair.policies.plans import Plan

__all__ = ["History", "history"]


class History(NamedTuple):
    """What happened at each step, (steps, N) each."""

    states: IntArray  # before the step
    pulls: IntArray
    due: FloatArray  # this and the next two are 0 if no accounts are kept
    given: FloatArray
    account: FloatArray  # after the step
    least: FloatArray  # (N,), at any step, as the engine says
    largest: FloatArray  # (N,)


@kernel_of_tests
def _play(
    chains: Chains,
    tally: Tally,
    steps: Steps,
    plan: StepPlan,
    source: WordArray,
    rng: WordArray,
    budget: int,
    by_arm: WordArray,
    numbers: IntArray,
    amounts: FloatArray,
) -> None:
    """Play steps one at a time; keep states and pulls, and what is due, given and owed."""
    how, coins, book = plan.choosing, steps.coins, steps.accounts
    pack(chains.state, coins.states, np.uint64(0))  # type: ignore[arg-type]  # words are numbers as well
    for step in range(numbers.shape[1]):
        call(how.maker, chains, coins, source, 1, 0)
        unpack(coins.states, np.uint64(0), numbers[0, step])
        call_user(how.player, plan, steps, rng, budget, 1, step)
        unpack(coins.pulls, np.uint64(0), numbers[1, step])
        for arm in range(len(book.due)):
            amounts[0, step, arm], amounts[1, step, arm] = book.due[arm], book.given[arm]
            amounts[2, step, arm] = book.account[arm]
        call(how.counter, chains, tally, coins, by_arm, 1)


def history(
    transitions: FloatArray,
    plan: Plan,
    budget: int | tuple[int, ...],
    steps: int,
    rules: Rules | None = None,
    seed: int = 1,
) -> History:
    """Play a plan for that many steps, from states at random."""
    n_arms, rng = len(transitions), np.random.default_rng(seed)
    problem = _problem(transitions, budget, steps, rules or Rules())
    how: Any = playable(plan, problem)
    assert not isinstance(how, OpenLoop)  # it is not played step by step
    kept = problem.rules
    restricted = kept.cooldown, kept.warmup, kept.once, kept.most_often(problem.cycle)
    room = new_steps(n_arms, 1, rounds=new_rounds(n_arms, problem.cycle, *restricted))
    chains, tally, by_arm = new_chains(transitions, 1), new_tally(n_arms), np.zeros(n_arms, np.uint64)
    chains.state[:] = rng.integers(0, 2, n_arms)
    source, luck = (new_source(np.random.SeedSequence([seed, k])) for k in (1, 2))
    numbers, amounts = np.zeros((2, steps, n_arms), np.int64), np.zeros((3, steps, n_arms))
    _play(chains, tally, room, how.plans[0], source, luck, problem.budget, by_arm, numbers, amounts)
    states, pulls = numbers
    due, given, account = amounts
    return History(states, pulls, due, given, account, room.accounts.least, room.accounts.largest)


def _problem(transitions: FloatArray, budget: int | tuple[int, ...], steps: int, rules: Rules) -> Problem:
    names = tuple(str(arm) for arm in range(len(transitions)))
    how = budget, rules, 1, steps, True, Criterion(), Confidence(), False, 1
    return Problem(np.array(transitions)[None], names, *how)
