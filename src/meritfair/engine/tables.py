"""Priority tables that stay as they are for an episode: the K arms with the largest index at their state.

The order of all 2N pairs of an arm and a state is found once, the largest index first. Who is where is a *bitmap* in
this order: bit k is set if the arm of pair k is in its state now. An arm that changes its state changes two bits, and
the first K bits that are set are the arms to pull. Pairs of an index of -inf have a place behind all others, which is
never looked at.

Pairs of the same index are a *level*. Only if the K arms end within a level chance decides, and for this level alone:
each choice of as many of its arms as are wanted is as likely as any other.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from meritfair.core.arrays import FloatArray, IntArray, WordArray
from meritfair.engine.bits import NONE, ONE, Word, count_ones, trailing_zeros
from meritfair.engine.coins import Coins, move, unpack
from meritfair.engine.compiling import inlined, part, stage
from meritfair.engine.random import ROW, uniform
from meritfair.engine.steps import StepPlan, Steps

_SIX, _LOW = np.uint64(6), np.uint64(63)


def table_order(index: FloatArray) -> IntArray:
    """Return the order of the pairs of a table (..., N, 2), of shape (..., 4, 2N).

    Its rows are: the place of each pair, by arm and state; the arm of the pair at each place; and where the level
    of that pair starts and ends.
    """
    flat = index.reshape(*index.shape[:-2], -1)
    pairs = flat.shape[-1]
    order = np.argsort(-flat, axis=-1, kind="stable")
    places, by_place = np.empty_like(order), np.broadcast_to(np.arange(pairs), order.shape)
    np.put_along_axis(places, order, by_place, axis=-1)
    values = np.take_along_axis(flat, order, axis=-1)
    new = np.ones((*values.shape[:-1], pairs + 1), np.bool_)
    new[..., 1:-1] = values[..., 1:] != values[..., :-1]
    starts = np.maximum.accumulate(np.where(new[..., :-1], by_place, 0), axis=-1)
    ends = np.minimum.accumulate(np.where(new[..., :0:-1], by_place[..., ::-1] + 1, pairs), axis=-1)[..., ::-1]
    places[flat == -np.inf] = 64 * (-(-pairs // 64))
    return np.stack([places, order // 2, starts, ends], axis=-2)


@part
def _flip(present: WordArray, place: Any) -> None:
    """Flip the bit of a place."""
    present[place >> _SIX] ^= ONE << (place & _LOW)


@part
def _enter(present: WordArray, order: IntArray, states: WordArray, n_arms: Any) -> None:
    """Set the bitmap for the states that arms are in."""
    for word in range(len(present)):
        present[word] = NONE
    for arm in range(n_arms):
        good = (states[arm >> _SIX] >> (arm & _LOW)) & ONE
        _flip(present, np.uint64(order[np.uint64(0), arm + arm + good]))


@part
def _change(present: WordArray, order: IntArray, states: WordArray, now: Any, blocks: Any) -> None:
    """Flip both bits of each arm that has changed its state in the step that starts here."""
    for block in range(blocks):
        changed = states[now + block] ^ states[now + blocks + block]
        first = block << np.uint64(7)
        while changed != NONE:
            pair = first + (trailing_zeros(changed) << ONE)
            _flip(present, np.uint64(order[np.uint64(0), pair]))
            _flip(present, np.uint64(order[np.uint64(0), pair + ONE]))
            changed &= changed - ONE


@part
def _pull(pulls: WordArray, at: Any, arm: Any) -> None:
    """Change whether an arm is pulled."""
    pulls[at + (arm >> _SIX)] ^= ONE << (arm & _LOW)


@part
def _next(present: WordArray, place: Any, end: Any) -> Any:
    """Return the first place from this one on that is set, or the end if there is none before it."""
    while place < end:
        rest = present[place >> _SIX] >> (place & _LOW)
        if rest != NONE:
            return min(place + trailing_zeros(rest), end)
        place = (place | _LOW) + ONE
    return end


@part
def _redraw(present: WordArray, order: IntArray, pulls: WordArray, at: Any, last: Any, rng: WordArray) -> None:
    """Draw anew who is pulled of the level that the last one pulled is in; all of them up to it are pulled so far."""
    start, end = np.uint64(order[2, last]), np.uint64(order[3, last])
    if _next(present, last + ONE, end) == end:
        return  # nobody of this level is left out
    level = left = 0
    place = _next(present, start, end)
    while place < end:
        level += 1
        left += place <= last
        place = _next(present, place + ONE, end)
    place = _next(present, start, end)
    while place < end:
        pulled = uniform(rng) * level < left
        if pulled != (place <= last):
            _pull(pulls, at, np.uint64(order[1, place]))
        left -= pulled
        level -= 1
        place = _next(present, place + ONE, end)


@part
def _choose(
    present: WordArray, order: IntArray, pulls: WordArray, at: Any, blocks: Any, rng: WordArray, budget: int
) -> None:
    """Pull the arms of the first K places that are set, ties at random."""
    for block in range(blocks):
        pulls[at + block] = NONE
    last, left = NONE, np.uint64(budget)
    for word in range(np.uint64(len(present)) - ONE):
        bits = present[word]
        n = min(left, count_ones(bits))
        for _ in range(n):
            last = (word << _SIX) + trailing_zeros(bits)
            _pull(pulls, at, np.uint64(order[np.uint64(1), last]))
            bits &= bits - ONE
        left -= n
        if left == NONE:
            break
    if left == NONE and budget > 0 and np.uint64(order[3, last]) > last + ONE:
        _redraw(present, order, pulls, at, last, rng)


@part
def _flips(order: IntArray, flips: WordArray, n_arms: Any) -> None:
    """Set the bits that each arm flips when it changes its state, for a bitmap of one word."""
    for arm in range(n_arms):
        flips[arm] = NONE
        for pair in range(arm + arm, arm + arm + np.uint64(2)):
            place = np.uint64(order[NONE, pair])
            flips[arm] |= ONE << place if place < ROW else NONE


@part
def _choose_few(present: Word, order: IntArray, pulls: WordArray, h: Any, budget: Any) -> Any:
    """Do as `_choose`, but for ties, for a bitmap of one word; return the last place, or 64 if there can be no tie."""
    pulled, last, rest = NONE, ROW, present
    for _ in range(min(budget, count_ones(present))):
        last = trailing_zeros(rest)
        pulled |= ONE << np.uint64(order[ONE, last])
        rest &= rest - ONE
    pulls[h] = pulled
    return last if rest != NONE else ROW


@inlined
def _play_few(coins: Coins, order: IntArray, present: WordArray, rng: WordArray, budget: int, bits: int) -> None:
    """Play by a bitmap of one word, for which there is no need to look into memory."""
    flips, pulls, states, now = coins.room, coins.pulls, coins.states, present[0]
    for h in range(np.uint64(bits)):
        last = _choose_few(now, order, pulls, h, np.uint64(budget))
        if last < ROW and np.uint64(order[np.uint64(3), last]) > last + ONE:
            present[0] = now
            _redraw(present, order, pulls, h, last, rng)
        move(coins, h)
        changed = states[h] ^ states[h + ONE]
        while changed != NONE:
            now ^= flips[trailing_zeros(changed)]
            changed &= changed - ONE


@stage
def play_by_table(plan: StepPlan, steps: Steps, rng: WordArray, budget: int, bits: int, _step: int) -> int:
    """Play that many steps of a word by a table that stays."""
    coins, order, present, n_arms = steps.coins, plan.order, steps.present, np.uint64(len(steps.states))
    blocks = np.uint64(len(coins.pulls)) >> _SIX
    _enter(present, order, coins.states, n_arms)
    if len(present) == 2:  # a word, and one that is never looked at
        _flips(order, coins.room, n_arms)
        _play_few(coins, order, present, rng, budget, bits)
    else:
        for h in range(np.uint64(bits)):
            _choose(present, order, coins.pulls, h * blocks, blocks, rng, budget)
            move(coins, h)
            _change(present, order, coins.states, h * blocks, blocks)
    unpack(coins.pulls, np.uint64(bits - 1) * blocks, steps.actions)
    return 0
