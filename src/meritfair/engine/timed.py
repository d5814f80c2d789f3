"""Timed lotteries, step by step: exposures by state and account, a draw with just these, and accounts kept.

`play_timed` is a player as :mod:`meritfair.engine.steps` describes them. What is due changes with the plan, with the
budget, and with who is left if arms are pulled once at most: only then it is found anew. At each step what is given
follows from states and accounts (:mod:`meritfair.engine.accounts`), and arms are drawn by it, by rounding or
systematically (:mod:`meritfair.engine.exact` describes both), in an order that is shuffled for each word of steps.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from meritfair.core.arrays import FloatArray, IntArray, WordArray
from meritfair.engine import rules
from meritfair.engine.accounts import (
    Accounts,
    Timing,
    add_to,
    give,
    give_under_rules,
    leave_out,
    narrow,
    set_bounds,
    set_weights,
    settle,
)
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


@part
def _look(now: FloatArray, by_state: FloatArray, states: WordArray, first: Any) -> None:
    """Set what holds at each arm's state."""
    bad, good = by_state[0], by_state[1]
    n = np.uint64(len(now))
    for start in range(np.uint64(0), n, ROW):
        word = states[first + (start >> _SIX)]
        for i in range(min(ROW, n - start)):
            now[start + i] = good[start + i] if (word >> i) & ONE else bad[start + i]


@inlined
def give_now(timing: Timing, book: Accounts, rounds: Rounds, number: int) -> None:
    """Find what each arm is given at a step, and enter it into the accounts."""
    set_bounds(book.low, book.high, book.account, book.due, timing.slack)
    narrow(book.low, book.high, book.floor_now, book.ceiling_now)
    set_weights(book.weight, book.odds_now, book.account, timing.pull)
    given, weight, low, high = book.given, book.weight, book.low, book.high
    if rounds.active:
        leave_out(low, high, rounds.free)
        account, due, free, slack = book.account, book.due, rounds.free, timing.slack
        book.scale[0] = give_under_rules(
            given, weight, low, high, account, due, free, slack, float(number), book.scale[0]
        )
    else:
        book.scale[0] = give(given, weight, low, high, float(number), book.scale[0])
    settle(book.account, book.least, book.largest, book.due, book.given)
    add_to(book.total, book.given)


# ---- draws of single steps


@part
def _draw_by_rounding(actions: IntArray, given: FloatArray, order: IntArray, rng: WordArray) -> None:
    """Draw by dependent rounding of what is given: a carrier walks along the order."""
    for arm in range(len(given)):
        actions[arm] = 0
    carrier, end, whole = order[0], 0.0, 0.0
    for arm in order:
        exposure, pooled, before = given[arm], end - whole, whole
        end += exposure
        whole = min(np.floor(end), before + 1.0)  # the sum may be rounded up past two whole numbers at once
        full, both = whole > before, pooled + exposure
        taken = uniform(rng) * (2.0 - both if full else both) < (1.0 - pooled if full else exposure)
        actions[arm if taken else carrier] |= full
        carrier = arm if taken != full else carrier
    actions[carrier] |= end - whole > 0.5  # but for rounding, nothing is left


@part
def _draw_systematically(actions: IntArray, given: FloatArray, order: IntArray, rng: WordArray) -> None:
    """Draw systematically: exposures lie end to end, and one point is thrown for each whole number."""
    end = -uniform(rng)
    before = np.floor(end)
    for arm in order:
        end += given[arm]
        after = np.floor(end)
        actions[arm] = after > before
        before = after


# ---- playing


@inlined
def find_due(plan: StepPlan, steps: Steps, budget: int, number: int, step: int) -> None:
    """Find what is due and wanted at steps with this budget, if that many arms are pulled."""
    timing, book, rounds = plan.timing, steps.accounts, steps.rounds
    highest, low, high = 1.0, book.low, book.high
    if rounds.cooldown > 0:
        highest = min(1.0, budget * len(rounds.budgets) / rounds.budgets.sum() * rounds.most_often)
    merit, floor, cap, started = timing.merit, timing.floor, timing.cap, step >= rounds.warmup
    _set_due(book.due, low, high, merit, floor, cap, rounds.next_free, budget, number, highest, started)
    _set_wanted(timing, book)
    book.budget[0] = budget


@inlined
def draw_given(plan: StepPlan, steps: Steps, rng: WordArray) -> None:
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
            find_due(plan, steps, budget, number, step)
        _look(book.odds_now, book.odds, coins.states, h * blocks)
        _look(book.floor_now, book.floor, coins.states, h * blocks)
        _look(book.ceiling_now, book.ceiling, coins.states, h * blocks)
        give_now(timing, book, rounds, number)
        draw_given(plan, steps, rng)
        if rounds.active:
            note_pulled(steps.actions, rounds.next_free, step, rounds.cooldown, rounds.once)
        pack(steps.actions, coins.pulls, h * blocks)
        move(coins, h)
        step += 1
    return 0
