r"""What is seen of the arms of a run, where that is not everything, and what is believed of the others.

At each step an arm's state is seen or not. With a *chance*, that is known before arms are chosen; if states are seen of
those who are *pulled*, it is known after. The *belief* b of an arm is the probability that it is good, given all that
was seen and done. It is 0 or 1 when the state is seen, and then moves by

.. math:: b' = (1 - b)\, p(0, a) + b\, p(1, a)

with the arms that the plan is made for. Where states are seen with a chance, the coins that decide it have a source of
their own, so that all policies see the same arms at the same steps.

Who is seen, good and pulled at each step of an episode is kept as words, a bit for each arm. At the end of an episode
`note_seen` goes through them: a state that follows one seen before is a *transition*; a state seen after some that were
not ends a *gap*, of which the first 64 actions are kept in a word. A gap with a pull after these is left out: which
gaps are left out does not depend on the state at the end, so no estimate is biased by it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from meritfair.core.arrays import FloatArray, IntArray, WordArray
from meritfair.engine.bits import NONE, ONE, Word
from meritfair.engine.coins import Coins
from meritfair.engine.compiling import inlined, kernel, part
from meritfair.engine.random import LANES, ROW, new_source, thresholds, toss_words

_SIX = np.uint64(6)
UNKNOWN = -1
ARMS_AT_ONCE = 4096  # whose gaps are noted, as there may be many


class Sight(NamedTuple):
    """What is seen of the arms in an episode of H steps; words have a bit for each of 64 arms."""

    belief: FloatArray  # (N,), probability that each arm is good
    point: FloatArray  # (2, 2, N) by state and action: the arms by which beliefs move
    seen: WordArray  # (H + 1, blocks), whose state is seen before each step, and after the last
    states: WordArray  # (H + 1, blocks), who is good
    pulls: WordArray  # (H, blocks)
    pulled_only: bool  # whether states are seen of those who are pulled; else by chance
    limits: WordArray  # the chance of each word of `seen`, as a threshold
    rng: WordArray


def new_sight(n_arms: int, horizon: int, chance: float, pulled_only: bool, seeds: np.random.SeedSequence) -> Sight:
    """Return room for what is seen: with a chance, or of those who are pulled."""
    blocks = -(-n_arms // LANES)
    words = (horizon + 1) * blocks
    limits = np.array(thresholds(np.full(words + 3, chance)), np.uint64)
    seen, states = np.zeros(words + 3, np.uint64), np.zeros(words, np.uint64)
    belief, point, pulls = np.full(n_arms, 0.5), np.full((2, 2, n_arms), 0.5), np.zeros(horizon * blocks, np.uint64)
    return Sight(belief, point, seen, states, pulls, pulled_only, limits, new_source(seeds))


NO_SIGHT = new_sight(1, 1, 1.0, False, np.random.SeedSequence(0))  # of those who see everything


# ---- while an episode is played


@kernel
def begin_to_see(sight: Sight, carry: bool) -> None:
    """Begin an episode: draw who will be seen, if that is by chance.

    If states are carried over from an episode before, so are beliefs, and what was seen after its last step is seen
    before the first. Else every arm is good with probability 1/2.
    """
    words, blocks, first = len(sight.states), (len(sight.belief) + LANES - 1) // LANES, 0
    if carry:
        first = blocks
        copy_words(sight.seen, np.uint64(words - blocks), sight.seen, NONE, np.uint64(blocks))
    else:
        sight.belief[:] = 0.5
    if not sight.pulled_only:
        toss_words(sight.rng, sight.limits, sight.seen, first, words - first)


@part
def copy_words(source: WordArray, start: Any, target: WordArray, at: Any, number: Any) -> None:
    """Copy words from one place to another."""
    for i in range(number):
        target[at + i] = source[start + i]


@part
def set_known(belief: FloatArray, seen: WordArray, states: WordArray, first: Any) -> None:
    """Set the beliefs of those who are seen to their states."""
    n = np.uint64(len(belief))
    for start in range(np.uint64(0), n, ROW):
        known, good = seen[first + (start >> _SIX)], states[first + (start >> _SIX)]
        for i in range(min(ROW, n - start)):
            if (known >> i) & ONE:
                belief[start + i] = np.float64((good >> i) & ONE)


@part
def move_beliefs(belief: FloatArray, point: FloatArray, actions: IntArray) -> None:
    """Move beliefs by one step, under these actions."""
    for arm in range(len(belief)):
        b, action = belief[arm], actions[arm]
        belief[arm] = (1.0 - b) * point[0, action, arm] + b * point[1, action, arm]


@inlined
def arrive(sight: Sight, coins: Coins, h: Any, at: Any) -> None:
    """Note the states before a step, whose words begin at `at`; who is seen by chance is known from now on."""
    blocks = np.uint64(len(coins.pulls) >> 6)
    copy_words(coins.states, h * blocks, sight.states, at, blocks)
    if not sight.pulled_only:
        set_known(sight.belief, sight.seen, sight.states, at)


@inlined
def depart(sight: Sight, coins: Coins, h: Any, at: Any, actions: IntArray) -> None:
    """Note who is pulled at a step, who may be seen for that, and move beliefs on."""
    blocks = np.uint64(len(coins.pulls) >> 6)
    copy_words(coins.pulls, h * blocks, sight.pulls, at, blocks)
    if sight.pulled_only:
        copy_words(coins.pulls, h * blocks, sight.seen, at, blocks)
        set_known(sight.belief, sight.seen, sight.states, at)
    move_beliefs(sight.belief, sight.point, actions)


@inlined
def keep_word(sight: Sight, coins: Coins, bits: Any, at: Any) -> None:
    """Note that many steps of a word that was played by a plan which looks at no state."""
    blocks = np.uint64(len(coins.pulls) >> 6)
    copy_words(coins.states, NONE, sight.states, at, (bits + ONE) * blocks)
    copy_words(coins.pulls, NONE, sight.pulls, at, bits * blocks)
    if sight.pulled_only:
        copy_words(coins.pulls, NONE, sight.seen, at, bits * blocks)


# ---- after it


class Noted(NamedTuple):
    """What was seen in a run."""

    visits: IntArray  # (N, 2, 2) by arm, state and action: transitions
    good: IntArray  # (N, 2, 2)
    start: IntArray  # (N,), the last state that was seen of each arm, or UNKNOWN
    length: IntArray  # (N,), steps since
    actions: WordArray  # (N,), what was done at the first 64 of them
    beyond: IntArray  # (N,), whether the arm was pulled after these
    gap_arm: npt.NDArray[np.int32]  # the gaps that ended in the last episode
    gap_ends: npt.NDArray[np.int8]  # two times the state before the gap, and the one after it
    gap_length: npt.NDArray[np.int32]
    gap_actions: WordArray
    number: IntArray  # (2,), of these gaps, and of states that were seen in the run


def new_noted(n_arms: int, horizon: int) -> Noted:
    """Return that nothing was seen, with room for the gaps of up to `ARMS_AT_ONCE` arms."""
    visits, good = np.zeros((2, n_arms, 2, 2), np.int64)
    length, beyond = np.zeros((2, n_arms), np.int64)
    room = min(n_arms, ARMS_AT_ONCE) * (horizon // 2 + 1)
    gap_arm, gap_length = np.zeros((2, room), np.int32)
    ends, gap_actions = np.zeros(room, np.int8), np.zeros(room, np.uint64)
    start, actions = np.full(n_arms, UNKNOWN), np.zeros(n_arms, np.uint64)
    return Noted(
        visits, good, start, length, actions, beyond, gap_arm, ends, gap_length, gap_actions, np.zeros(2, np.int64)
    )


@inlined
def _see(noted: Noted, arm: Any, state: Any) -> None:
    """Take in that an arm was seen in this state: it ends a transition, or a gap."""
    before, length = noted.start[arm], noted.length[arm]
    if before != UNKNOWN and length == 1:
        action = np.int64(noted.actions[arm] & ONE)
        noted.visits[arm, before, action] += 1
        noted.good[arm, before, action] += state
    elif before != UNKNOWN and length > 1 and noted.beyond[arm] == 0:
        gap = noted.number[0]
        noted.gap_arm[gap], noted.gap_ends[gap] = arm, 2 * before + state
        noted.gap_length[gap], noted.gap_actions[gap] = length, noted.actions[arm]
        noted.number[0] = gap + 1
    noted.start[arm], noted.length[arm], noted.actions[arm], noted.beyond[arm] = state, 0, NONE, 0


@inlined
def _act(noted: Noted, arm: Any, action: Word) -> None:
    """Take in what was done with an arm."""
    length = noted.length[arm]
    if length < 64:
        noted.actions[arm] |= action << np.uint64(length)
    elif action != NONE:
        noted.beyond[arm] = 1
    noted.length[arm] = length + 1


@kernel
def note_seen(noted: Noted, sight: Sight, carry: bool, first: int) -> None:
    """Take in what was seen in an episode of `ARMS_AT_ONCE` arms from the first on, if there are that many.

    What was open before the episode stays open if states were carried over.
    """
    end, blocks = min(first + ARMS_AT_ONCE, len(noted.start)), np.uint64((len(noted.start) + LANES - 1) // LANES)
    steps = np.uint64(len(sight.pulls)) // blocks
    noted.number[0] = 0
    for arm in range(first, end):
        at, bit = np.uint64(arm) >> _SIX, np.uint64(arm) & np.uint64(63)
        if not carry:
            noted.start[arm], noted.length[arm], noted.actions[arm], noted.beyond[arm] = UNKNOWN, 0, NONE, 0
        for _ in range(steps):
            if (sight.seen[at] >> bit) & ONE:
                _see(noted, arm, np.int64((sight.states[at] >> bit) & ONE))
                noted.number[1] += 1
            _act(noted, arm, (sight.pulls[at] >> bit) & ONE)
            at += blocks
        if not sight.pulled_only and (sight.seen[at] >> bit) & ONE:
            _see(noted, arm, np.int64((sight.states[at] >> bit) & ONE))
