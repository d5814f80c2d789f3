"""Timed lotteries, step by step: exposures by state and account, a draw with just these, and accounts kept.

`play_timed` is a player as :mod:`meritfair.engine.steps` describes them. What is due changes with the plan, with the
budget, and with who is left if arms are pulled once at most: only then it is found anew. At each step what is given
follows from states and accounts (:mod:`meritfair.engine.accounts`), and arms are drawn by it, by rounding or
systematically (:mod:`meritfair.engine.exact` describes both), in an order that is shuffled for each word of steps.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from meritfair.core.arrays import FloatArray, IntArray, WordArray
from meritfair.engine import rules
from meritfair.engine.accounts import Accounts, Timing, bounds, give, shift
from meritfair.engine.bits import ONE
from meritfair.engine.coins import move, pack
from meritfair.engine.compiling import inlined, part, stage
from meritfair.engine.exact import shuffle
from meritfair.engine.options import share_out
from meritfair.engine.random import ROW, uniform
from meritfair.engine.rounds import NEVER, Rounds, note_pulled, set_free
from meritfair.engine.steps import StepPlan, Steps
from meritfair.engine.timing import odds_by_state, odds_of

_SIX = np.uint64(6)


# ---- what is due, and what is wanted


@part
def _set_due(
    due: FloatArray,
    low: FloatArray,
    high: FloatArray,
    merit: FloatArray,
    floor: FloatArray,
    cap: FloatArray,
    next_free: IntArray,
    budget: int,
    number: int,
    highest: float,
    started: bool,
) -> None:
    """Set what each arm is due at a step with this budget, at most the highest; `low` and `high` are room.

    Who may never be pulled again is due nothing. Caps that are too low for those who are left are raised, and floors
    that are too high for the budget are reduced, each in proportion. In all, just as much is due as can be given: the
    budget, or as many arms as may be pulled.
    """
    room = most = 0.0
    for arm in range(len(due)):
        entitled = started and next_free[arm] != NEVER
        due[arm] = highest if entitled else 0.0
        high[arm] = min(cap[arm], due[arm])
        room += due[arm]
        most += high[arm]
    if 0 < budget < room:
        least = 0.0
        for arm in range(len(due)):
            if most < budget and due[arm] > 0.0:
                high[arm] = highest - (highest - high[arm]) * ((room - budget) / (room - most))
            low[arm] = min(floor[arm], high[arm])
            least += low[arm]
        for arm in range(len(due)):
            low[arm] *= budget / least if least > budget else 1.0
        share_out(merit, due, low, high, budget)
    _scale_to(due, number)


@part
def _scale_to(due: FloatArray, number: int) -> None:
    """Scale what is due so that it sums to a number, but for those who are due 1."""
    total = 0.0
    for each in due:
        total += each
    for arm in range(len(due) if total > 0.0 else 0):
        due[arm] = min(1.0, due[arm] * (number / total))


@inlined
def _set_wanted(timing: Timing, book: Accounts) -> None:
    """Set what is wanted in each state, and between which bounds, so that every state and action is seen."""
    point, explore = timing.point, timing.explore
    for arm in range(len(book.due)):
        e = book.due[arm]
        if timing.looks:
            p00, p01, p10, p11 = point[0, 0, arm], point[0, 1, arm], point[1, 0, arm], point[1, 1, arm]
            book.odds[0, arm], book.odds[1, arm] = odds_by_state(p00, p01, p10, p11, e)
        else:
            book.odds[0, arm] = book.odds[1, arm] = odds_of(e)
        for state in range(2):
            book.floor[state, arm] = explore[state, 1, arm] * e
            book.ceiling[state, arm] = 1.0 - explore[state, 0, arm] * (1.0 - e)


@inlined
def _set_terms(timing: Timing, book: Accounts, rounds: Rounds, states: WordArray, first: Any) -> None:
    """Set the odds of each arm at its state, raised by what it is owed, and what it can be given."""
    slack, pull, n = timing.slack, timing.pull, np.uint64(len(book.weight))
    for start in range(np.uint64(0), n, ROW):
        word = states[first + (start >> _SIX)]
        for i in range(min(ROW, n - start)):
            arm = start + i
            state = (word >> i) & ONE
            account = book.account[arm]
            least, most = bounds(account, book.due[arm], book.floor[state, arm], book.ceiling[state, arm], slack)
            book.low[arm] = least if rounds.free[arm] else 0.0
            book.high[arm] = most if rounds.free[arm] else 0.0
            book.weight[arm] = book.odds[state, arm] * shift(pull * account)


@part
def _settle(
    account: FloatArray, least: FloatArray, largest: FloatArray, total: FloatArray, due: FloatArray, given: FloatArray
) -> None:
    """Enter what was due and what is given."""
    for arm in range(len(account)):
        balance = account[arm] + (due[arm] - given[arm])
        account[arm] = balance
        least[arm] = min(least[arm], balance)
        largest[arm] = max(largest[arm], balance)
        total[arm] += given[arm]


# ---- draws of single steps


@part
def _draw_by_rounding(actions: IntArray, given: FloatArray, order: IntArray, rng: WordArray) -> None:
    """Draw by dependent rounding of what is given: a carrier walks along the order."""
    for arm in range(len(given)):
        actions[arm] = 0
    carrier, pooled = order[0], 0.0
    for arm in order:
        exposure = given[arm]
        both = pooled + exposure
        full = both >= 1.0
        taken = uniform(rng) * (2.0 - both if full else both) < (1.0 - pooled if full else exposure)
        actions[arm if taken else carrier] |= full
        carrier = arm if taken != full else carrier
        pooled = both - 1.0 if full else both
    actions[carrier] |= pooled > 0.5


@part
def _draw_systematically(actions: IntArray, given: FloatArray, order: IntArray, rng: WordArray) -> None:
    """Draw systematically: exposures lie end to end, and one point is thrown for each whole number."""
    point, end = uniform(rng), 0.0
    before = math.floor(end - point)
    for arm in order:
        end += given[arm]
        after = math.floor(end - point)
        actions[arm] = after > before
        before = after


# ---- playing


@inlined
def _find_due(plan: StepPlan, steps: Steps, budget: int, number: int, step: int) -> None:
    """Find what is due and wanted at steps with this budget, if that many arms are pulled."""
    timing, book, rounds = plan.timing, steps.accounts, steps.rounds
    highest, low, high = 1.0, book.low, book.high
    if rounds.cooldown > 0:
        highest = min(1.0, budget * len(rounds.budgets) / rounds.budgets.sum() / (1 + rounds.cooldown))
    merit, floor, cap, started = timing.merit, timing.floor, timing.cap, step >= rounds.warmup
    _set_due(book.due, low, high, merit, floor, cap, rounds.next_free, budget, number, highest, started)
    _set_wanted(timing, book)
    book.budget[0] = budget


@inlined
def _draw(plan: StepPlan, steps: Steps, rng: WordArray) -> None:
    """Draw who is pulled."""
    book = steps.accounts
    if plan.timing.design == rules.SYSTEMATIC:
        _draw_systematically(steps.actions, book.given, book.order, rng)
    else:
        _draw_by_rounding(steps.actions, book.given, book.order, rng)


@stage
def play_timed(plan: StepPlan, steps: Steps, rng: WordArray, _budget: int, bits: int, step: int) -> int:
    """Play that many steps of a word, counted from `step`: give, draw, move, and keep accounts."""
    timing, book, rounds, coins = plan.timing, steps.accounts, steps.rounds, steps.coins
    blocks, cycle = np.uint64(len(coins.pulls) >> 6), len(rounds.budgets)
    shuffle(book.order, len(book.order), rng)
    for h in range(np.uint64(bits)):
        budget = number = rounds.budgets[step % cycle]
        if rounds.active:
            number = min(budget, set_free(rounds.free, rounds.next_free, step))
        if budget != book.budget[0] or step == rounds.warmup or rounds.once:
            _find_due(plan, steps, budget, number, step)
        _set_terms(timing, book, rounds, coins.states, h * blocks)
        book.scale[0] = give(book.given, book.weight, book.low, book.high, rounds.free, float(number), book.scale[0])
        _settle(book.account, book.least, book.largest, book.total, book.due, book.given)
        _draw(plan, steps, rng)
        if rounds.active:
            note_pulled(steps.actions, rounds.next_free, step, rounds.cooldown, rounds.once)
        pack(steps.actions, coins.pulls, h * blocks)
        move(coins, h)
        step += 1
    return 0
