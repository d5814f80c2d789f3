"""What a learner keeps of each round of each arm, so that a state that comes late, or never, loses nothing around it.

A *track* has a number for each arm and round, a *slot*. It says what was reported: the state before, the action and the
state after, each 0, 1 or not known; and what was chosen. An arm of which neither the action nor the state after was
reported counts as treated as it was chosen. Where the state before was not reported, it is the state after the round
before, and the other way round; what was reported of the round itself comes first, so complete outcomes are counted as
they were reported.

From a track follow the *gaps* that can be bridged (:mod:`meritfair.model.gaps`): between two states that are known,
with a known action in each round between.
"""

from __future__ import annotations

import numpy as np

from meritfair.core.arrays import AnyArray, BoolArray, FloatArray, Int8Array, IntArray
from meritfair.core.errors import InputError
from meritfair.model.gaps import Gaps

NOTHING = 0  # the slot of a round of which nothing is known
_UNKNOWN = -1
_CODES = 81  # three values each for what was chosen, the state before, the action and the state after
_FIRST = ord("!")  # the character of NOTHING in files


def slot(states: IntArray, actions: IntArray, next_states: IntArray, chosen: IntArray | int = _UNKNOWN) -> IntArray:
    """Return the slots for these values; -1 is not known.

    Examples
    --------
    >>> parts(slot(np.array([0]), np.array([1]), np.array([-1]), 1))
    (array([1]), array([0]), array([1]), array([-1]))
    """
    return np.asarray(27 * (np.asarray(chosen) + 1) + 9 * (states + 1) + 3 * (actions + 1) + next_states + 1)


def parts(track: AnyArray) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Return what was chosen, the state before, the action and the state after; -1 is not known."""
    return track // 27 - 1, track // 9 % 3 - 1, track // 3 % 3 - 1, track % 3 - 1


def merged(old: AnyArray, states: IntArray, actions: IntArray, next_states: IntArray) -> IntArray:
    """Return slots with what is new in place of what was known before; what is not known now stays."""
    chosen, *known = parts(old)
    news = (states, actions, next_states)
    before, done, after = (np.where(new >= 0, new, was) for was, new in zip(known, news, strict=True))
    return slot(before, done, after, chosen)


_COMPLETE = np.min(parts(np.arange(_CODES))[1:], axis=0) >= 0  # by slot: all three were reported


def is_complete(track: AnyArray) -> BoolArray:
    """Return where the state before, the action and the state after are all known."""
    return np.asarray(_COMPLETE[track])


def gaps_of(track: AnyArray, ages: FloatArray | None = None, forget: float = 1.0) -> Gaps:
    """Return the gaps that can be bridged, other than complete outcomes, in tracks of shape (N, R).

    The weight of a gap is `forget` to the power of the age of its last round; by default all are 1.
    """
    R = track.shape[1]
    some = np.flatnonzero((~is_complete(track) & (track != NOTHING)).any(axis=1))  # who may have gaps
    own = track[some]
    before, after, actions = _filled(own)
    known = np.flatnonzero((before >= 0).ravel())  # of rows of R + 1 boundaries
    start, end = known[:-1], known[1:]
    here = start // (R + 1) == end // (R + 1)
    unknown = np.cumsum(np.pad(actions < 0, ((0, 0), (1, 0))).ravel())  # boundary t counts the rounds before it
    first_slot = start - start // (R + 1)
    complete = (end - start == 1) & np.append(is_complete(own).ravel(), True)[first_slot]
    whole = here & (unknown[end] == unknown[start]) & ~complete
    start, end, first_slot = start[whole], end[whole], first_slot[whole]
    lengths = end - start
    first = np.r_[0, np.cumsum(lengths)]
    rows = np.arange(first[-1]) + np.repeat(first_slot - first[:-1], lengths)
    weight = None if ages is None or forget == 1 else forget ** ages[(end - 1) % (R + 1)]
    states = before.ravel()[start], after.ravel()[end]
    return Gaps(some[start // (R + 1)], *states, first, actions.ravel()[rows], weight)


def last_known(track: AnyArray) -> tuple[IntArray, IntArray]:
    """Return for each arm the last state that is known, shape (N,), and the actions since, shape (N, R).

    Actions are -1 up to the last known state. Where they are not known, as the arm was away, it was not pulled: 0.
    """
    before, _, actions = _filled(track)
    N, R = track.shape
    backwards = before[:, ::-1] >= 0
    at = np.where(backwards.any(axis=1), R - np.argmax(backwards, axis=1), 0)
    since = np.where(np.arange(R) >= at[:, None], np.maximum(actions, 0), _UNKNOWN)
    return before[np.arange(N), at], since


def _filled(track: AnyArray) -> tuple[IntArray, IntArray, IntArray]:
    """Return the states that rounds start from and end in, at all R + 1 boundaries, and actions, as far as known."""
    chosen, states, done, next_states = parts(track)
    starts = np.pad(states, ((0, 0), (0, 1)), constant_values=_UNKNOWN)
    ends = np.pad(next_states, ((0, 0), (1, 0)), constant_values=_UNKNOWN)
    silent = (done < 0) & (next_states < 0)
    return np.where(starts >= 0, starts, ends), np.where(ends >= 0, ends, starts), np.where(silent, chosen, done)


def of_gaps(gaps: Gaps, n_arms: int) -> Int8Array:
    """Return tracks that have exactly these gaps, with a round of which nothing is known after each."""
    total = np.bincount(gaps.arm, weights=gaps.lengths + 1, minlength=n_arms).astype(np.int64)
    track = np.full((n_arms, int(total.max(initial=0))), NOTHING, np.int8)
    place = np.zeros(n_arms, np.int64)
    for g, arm in enumerate(gaps.arm.tolist()):
        actions = gaps.actions[gaps.first[g] : gaps.first[g + 1]]
        hidden = np.full(len(actions), _UNKNOWN)
        states, after = hidden.copy(), hidden.copy()
        states[0], after[-1] = gaps.start[g], gaps.end[g]
        track[arm, place[arm] : place[arm] + len(actions)] = slot(states, actions, after)
        place[arm] += len(actions) + 1
    return track


def to_text(track: AnyArray) -> list[str]:
    """Return tracks as text, a character for each slot."""
    return [bytes(row).decode("ascii") for row in (track + _FIRST).astype(np.uint8)]


def from_text(texts: object, n_arms: int) -> Int8Array:
    """Return the tracks of that many arms that `to_text` has described."""
    if not isinstance(texts, list) or len(texts) != n_arms or not all(isinstance(text, str) for text in texts):
        raise InputError(f"track must hold a text for each of the {n_arms} arms")
    if len({len(text) for text in texts}) > 1:
        raise InputError("track must hold texts of one length")
    codes = np.array([list(map(ord, text)) for text in texts], np.int64).reshape(n_arms, -1) - _FIRST
    if codes.size and not 0 <= codes.min() <= codes.max() < _CODES:
        raise InputError(f"track must hold characters from {chr(_FIRST)!r} to {chr(_FIRST + _CODES - 1)!r}")
    return codes.astype(np.int8)
