r"""Playing on beliefs: plans that look at states, where not every state is seen.

These are players as :mod:`meritfair.engine.steps` describes them, and they meet the same coins as the others. What is
seen, and what is believed of the others, is in :mod:`meritfair.engine.sight`. With b the belief that an arm is good,

* a priority table ranks by :math:`(1 - b)\, I(0) + b\, I(1)`, and -inf in a state that is possible is -inf;
* a step learner ranks arms as if they were in the more likely state, the bad one if b is 1/2, and learns from
  transitions of which both ends were seen;
* a timed lottery wants what is :math:`(1 - b) \log o(0) + b \log o(1)` in log odds, between bounds that are mixed in
  proportion. What is due, and how accounts are kept, does not depend on b: so accounts stay within the slack. (To mix
  exposures instead has less reward on all three data sets of the paper.)

For a state that is seen, each is what it is elsewhere, to the last bit. The index is linear in the belief. It is not
the Whittle index of the arm whose states are the beliefs themselves (a collapsing bandit), which also counts what is
learned by a pull.

A lottery or a rotation looks at no state; `play_drawn` draws as the open loop does, but moves arms by their coins step
by step, so that it is known who was where. Its numbers are those of the open loop.

References
----------
A. Mate, J. A. Killian, H. Xu, A. Perrault and M. Tambe, "Collapsing Bandits and Their Application to Public Health
Interventions", NeurIPS 2020, arXiv 2007.04432.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from meritfair.core.arrays import FloatArray, IntArray, WordArray
from meritfair.engine.bits import NONE, ONE, transpose
from meritfair.engine.coins import Coins, move, pack
from meritfair.engine.compiling import call, call_real, call_void, inlined, kernel, part, stage
from meritfair.engine.episodes import (
    Measures,
    RunSettings,
    RunState,
    Stages,
    count_pulls,
    end_episode,
    measure_episode,
)
from meritfair.engine.exact import shuffle
from meritfair.engine.lotteries import PULLS
from meritfair.engine.random import ROW, uniform
from meritfair.engine.rounds import note_pulled, set_free
from meritfair.engine.sight import arrive, depart, keep_word
from meritfair.engine.steps import Choosing, StepPlan, Steps, who_may
from meritfair.engine.timed import draw_given, find_due, give_now

_SIX = np.uint64(6)


# ---- at a belief


@part
def mixed(bad: float, good: float, belief: float) -> float:
    """Return what lies between the values of both states; -inf in a state that is possible is -inf."""
    if belief == 0.0 or bad == good:
        return bad
    if belief == 1.0:
        return good
    if bad == -np.inf or good == -np.inf:
        return -np.inf
    return (1.0 - belief) * bad + belief * good


@part
def rank_by_beliefs(table: FloatArray, belief: FloatArray, index: FloatArray) -> None:
    """Set the index of each arm at its belief, from a table of shape (N, 2)."""
    for arm in range(len(index)):
        index[arm] = mixed(table[arm, 0], table[arm, 1], belief[arm])


@part
def set_likely(states: IntArray, belief: FloatArray) -> None:
    """Set the more likely state of each arm, the bad one if both are as likely."""
    for arm in range(len(states)):
        states[arm] = belief[arm] > 0.5


@part
def look_at_beliefs(now: FloatArray, by_state: FloatArray, belief: FloatArray) -> None:
    """Set what holds at each arm's belief: a mean over its states."""
    for arm in range(len(now)):
        now[arm] = mixed(by_state[0, arm], by_state[1, arm], belief[arm])


@part
def look_at_odds(now: FloatArray, odds: FloatArray, belief: FloatArray) -> None:
    """Set the odds at each arm's belief: those whose logarithm is the mean over its states."""
    for arm in range(len(now)):
        bad, good, b = odds[0, arm], odds[1, arm], belief[arm]
        if b == 0.0 or bad == good:
            now[arm] = bad
        elif b == 1.0:
            now[arm] = good
        else:
            now[arm] = math.exp((1.0 - b) * math.log(bad) + b * math.log(good))


# ---- players


@inlined
def _learn(plan: StepPlan, steps: Steps, at: Any) -> None:
    """Let a step learner learn from the step before the one whose words begin at `at`, if there is one.

    It learns of the arms that were seen before and after that step.
    """
    sight, blocks = steps.sight, np.uint64(len(steps.coins.pulls) >> 6)
    if plan.choosing.learner != 0 and at > NONE:
        for arm in range(len(steps.states)):
            i, bit = at + (np.uint64(arm) >> _SIX), np.uint64(arm) & np.uint64(63)
            if (sight.seen[i] & sight.seen[i - blocks]) >> bit & ONE:
                steps.states[arm] = np.int64((sight.states[i - blocks] >> bit) & ONE)
                steps.actions[arm] = np.int64((sight.pulls[i - blocks] >> bit) & ONE)
                steps.next_states[arm] = np.int64((sight.states[i] >> bit) & ONE)
                call_void(
                    plan.choosing.learner,
                    plan.memory[arm : arm + 1],
                    steps.states[arm : arm + 1],
                    steps.actions[arm : arm + 1],
                    steps.next_states[arm : arm + 1],
                )


@inlined
def _first(steps: Steps, step: int) -> Any:
    """Return where the words of a step begin, which is counted through the run, in those of its episode."""
    blocks = np.uint64(len(steps.coins.pulls) >> 6)
    return (np.uint64(step) % (np.uint64(len(steps.sight.pulls)) // blocks)) * blocks


@inlined
def _arrive_at_end(plan: StepPlan, steps: Steps, bits: int, at: Any) -> None:
    """Note the states after the last step of an episode, if this is the end of it."""
    if at == np.uint64(len(steps.sight.pulls)):
        arrive(steps.sight, steps.coins, np.uint64(bits), at)
        if not steps.sight.pulled_only:
            _learn(plan, steps, at)


@stage
def play_on_beliefs(plan: StepPlan, steps: Steps, rng: WordArray, budget: int, bits: int, step: int) -> int:
    """Play that many steps of a word, as `play_by_index` does, by beliefs; without a ranker, memory is a table."""
    choosing, memory, coins, rounds, sight = plan.choosing, plan.memory, steps.coins, steps.rounds, steps.sight
    states, actions = steps.states, steps.actions
    blocks, last, at = np.uint64(len(coins.pulls) >> 6), 0.0, _first(steps, step)
    for h in range(np.uint64(bits)):
        arrive(sight, coins, h, at)
        if not sight.pulled_only:
            _learn(plan, steps, at)
        exploring = False
        if choosing.explorer != 0:
            exploring = uniform(rng) < call_real(choosing.explorer, memory, step)
        if choosing.ranker == 0:
            rank_by_beliefs(memory, sight.belief, steps.index)
        else:
            set_likely(states, sight.belief)
            call_void(choosing.ranker, memory, states, actions, step, exploring, steps.index)
        number = who_may(rounds, steps.index, step) if rounds.active else budget
        number = min(number, rounds.budgets[step % len(rounds.budgets)])
        if number > 0:
            last = call_real(choosing.chooser, steps, plan.groups, rng, number, last)
        else:
            actions[:] = 0
        if np.isnan(last):
            return -1 - step
        if rounds.active:
            note_pulled(actions, rounds.next_free, step, rounds.cooldown, rounds.once)
        pack(actions, coins.pulls, h * blocks)
        depart(sight, coins, h, at, actions)
        if sight.pulled_only:
            _learn(plan, steps, at)
        move(coins, h)
        at += blocks
        step += 1
    _arrive_at_end(plan, steps, bits, at)
    return 0


@stage
def play_timed_on_beliefs(plan: StepPlan, steps: Steps, rng: WordArray, _budget: int, bits: int, step: int) -> int:
    """Play that many steps of a word, as `play_timed` does, by beliefs."""
    timing, book, rounds, coins, sight = plan.timing, steps.accounts, steps.rounds, steps.coins, steps.sight
    blocks, cycle, at = np.uint64(len(coins.pulls) >> 6), len(rounds.budgets), _first(steps, step)
    shuffle(book.order, len(book.order), rng)
    for h in range(np.uint64(bits)):
        arrive(sight, coins, h, at)
        budget = number = rounds.budgets[step % cycle]
        if rounds.active:
            number = min(budget, set_free(rounds.free, rounds.next_free, step))
        if budget != book.budget[0] or step == rounds.warmup or rounds.once:
            find_due(plan, steps, budget, number, step)
        look_at_odds(book.odds_now, book.odds, sight.belief)
        look_at_beliefs(book.floor_now, book.floor, sight.belief)
        look_at_beliefs(book.ceiling_now, book.ceiling, sight.belief)
        give_now(timing, book, rounds, number)
        draw_given(plan, steps, rng)
        if rounds.active:
            note_pulled(steps.actions, rounds.next_free, step, rounds.cooldown, rounds.once)
        pack(steps.actions, coins.pulls, h * blocks)
        depart(sight, coins, h, at, steps.actions)
        move(coins, h)
        at += blocks
        step += 1
    _arrive_at_end(plan, steps, bits, at)
    return 0


# ---- what looks at no state


@inlined
def _turn_pulls(coins: Coins, pulls: WordArray, first: int, n_arms: int) -> None:
    """Turn the pulls of a word, by arm from this lane on, into words by step."""
    arms, blocks, room = np.uint64(n_arms), np.uint64(len(coins.pulls) >> 6), coins.room
    for block in range(blocks):
        n = min(ROW, arms - block * ROW)
        for i in range(ROW):
            room[i] = pulls[np.uint64(first) + block * ROW + i] if i < n else NONE
        transpose(room)
        for h in range(ROW):
            coins.pulls[h * blocks + block] = room[h]


@inlined
def _walk_drawn(
    settings: RunSettings, stages: Stages, how: Choosing, state: RunState, steps: Steps, weights: FloatArray
) -> int:
    """Play an episode of pulls that do not depend on states, step by step; return the reward."""
    chains, coins, drawing, n_arms = state.chains, steps.coins, state.drawing, len(state.chains.state)
    reward, left, at, new = 0, settings.horizon, NONE, True
    pulls, blocks = drawing.words[PULLS], np.uint64(len(coins.pulls) >> 6)
    pack(chains.state, coins.states, NONE)
    while left > 0:
        words = min(state.at_once, (left + 63) // 64)
        in_last = min(left - 64 * (words - 1), 64)
        call(stages.drawer, drawing, state.policy_rng, weights, settings.budget, words, in_last, new)
        for word in range(words):
            bits = in_last if word == words - 1 else 64
            call(how.maker, chains, coins, state.environment_rng, words, word)
            _turn_pulls(coins, pulls, word * n_arms, n_arms)
            for h in range(np.uint64(bits)):
                move(coins, h)
            keep_word(steps.sight, coins, np.uint64(bits), at)
            reward += call(how.counter, chains, state.tally, coins, pulls, bits)
            at += np.uint64(bits) * blocks
            left -= bits
        new = False
    return reward


@kernel
def play_drawn(
    settings: RunSettings,
    stages: Stages,
    how: Choosing,
    weights: FloatArray,
    state: RunState,
    steps: Steps,
    measures: Measures,
    pulled: FloatArray,
    t: int,
) -> None:
    """Play episode t, from 0, of a lottery or a rotation, as `play_episode` does, and keep who was where."""
    measure_episode(settings, state, measures, t)
    pulled[:] = 0.0
    count_pulls(state.tally, pulled)
    measures.reward[t] = _walk_drawn(settings, stages, how, state, steps, weights)
    count_pulls(state.tally, pulled)
    end_episode(settings, state, t == len(measures.reward) - 1)
