from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import meritfair as mf
from meritfair.model.gaps import fill
from meritfair.policies.track import from_text, gaps_of, last_known, of_gaps, parts, slot, to_text

BIT = st.sampled_from([-1, 0, 1])
SLOT = st.tuples(BIT, BIT, BIT, BIT)  # chosen, state, action, state after


def plain_gaps(rounds: list[tuple[int, int, int, int]]) -> list[tuple[int, int, list[int]]]:
    """Return the gaps of one arm by walking through its rounds."""
    found: list[tuple[int, int, list[int]]] = []
    start = -1
    actions: list[int] = []
    for t, (chosen, state, action, after) in enumerate(rounds):
        reported = action if action >= 0 or after >= 0 else chosen
        before = rounds[t - 1][3] if t else -1
        if before < 0 <= state and start >= 0 and actions:  # the state before ends a gap
            found.append((start, state, actions))
        if state >= 0 or before >= 0:
            start, actions = (state if state >= 0 else before), []
        if reported < 0:
            start, actions = -1, []
            continue
        actions = [*actions, reported]
        complete = state >= 0 and action >= 0 and after >= 0
        if after >= 0:
            if start >= 0 and not complete:
                found.append((start, after, actions))
            start, actions = -1, []
    return found


@given(st.lists(SLOT, min_size=1, max_size=9))
def test_gaps_are_those_of_a_plain_walk(rounds: list[tuple[int, int, int, int]]) -> None:
    columns = np.array(rounds).T
    track = slot(columns[1], columns[2], columns[3], columns[0])[None]
    assert [part[0].tolist() for part in parts(track)] == columns.tolist()
    gaps = gaps_of(track.astype(np.int8))
    found = [
        (int(gaps.start[g]), int(gaps.end[g]), gaps.actions[gaps.first[g] : gaps.first[g + 1]].tolist())
        for g in range(len(gaps))
    ]
    assert found == plain_gaps(rounds)
    assert np.array_equal(from_text(to_text(track), 1), track)


def test_gaps_become_tracks_and_tracks_become_gaps() -> None:
    log = mf.StateLog(
        ["a"] * 7 + ["b"] * 4 + ["c"] * 2,
        [*range(7), *range(4), 0, 1],
        [0, -1, 1, -1, -1, 0, -1, 1, -1, -1, 0, -1, -1],
        [1, 0, 1, 1, 0, 0, 0, 0, 1, 0, 1, 1, 0],
    )
    gaps = log.bridged
    again = gaps_of(of_gaps(gaps, 3))
    for name in ("arm", "start", "end", "first", "actions"):
        assert np.array_equal(vars(gaps)[name], vars(again)[name]), name


def test_the_last_known_state_and_what_was_done_since() -> None:
    states = np.array([[0, -1, -1], [-1, -1, -1], [1, 1, -1]])
    actions = np.array([[1, -1, -1], [-1, -1, -1], [0, 1, -1]])
    after = np.array([[-1, -1, -1], [-1, -1, -1], [1, 0, -1]])
    chosen = np.array([[1, 0, 1]] * 3)
    known, since = last_known(slot(states, actions, after, chosen).astype(np.int8))
    assert known.tolist() == [0, -1, 0]
    assert since.tolist() == [[1, 0, 1], [1, 0, 1], [-1, -1, 1]]


def play(learner: mf.Learner, truth: Any, rounds: int, observed: float, seed: int, **how: Any) -> None:
    """Play rounds in which each state is reported with a chance."""
    rng = np.random.default_rng(seed)
    now = rng.integers(0, 2, len(truth))
    seen = np.where(rng.random(len(truth)) < observed, now, -1)
    for _ in range(rounds):
        choice = learner.choose(seen)
        now = (rng.random(len(truth)) < truth[np.arange(len(truth)), now, choice.actions]).astype(int)
        after = np.where(rng.random(len(truth)) < observed, now, -1)
        learner.observe(seen, choice.actions, after, **{key: getattr(choice, value) for key, value in how.items()})
        seen = after


@pytest.mark.parametrize("how", [{}, {"round": "round"}])
def test_a_learner_knows_what_a_log_of_the_same_rounds_would_say(how: dict[str, str]) -> None:
    truth = np.random.default_rng(1).uniform(0.1, 0.9, (12, 2, 2))
    learner = mf.MeritFair(estimate="mean", design="exact").start(12, 4, seed=2)
    rng = np.random.default_rng(3)
    now, rows = rng.integers(0, 2, 12), []
    seen = np.where(rng.random(12) < 0.6, now, -1)
    for _ in range(40):
        choice = learner.choose(seen)
        rows.append((seen, choice.actions))
        now = (rng.random(12) < truth[np.arange(12), now, choice.actions]).astype(int)
        after = np.where(rng.random(12) < 0.6, now, -1)
        learner.observe(seen, choice.actions, after, **({"round": choice.round} if how else {}))
        seen = after
    rows.append((seen, np.full(12, -1)))
    states, actions = (np.stack(each).T.ravel() for each in zip(*rows, strict=True))
    log = mf.StateLog(np.repeat(np.arange(12), 41), np.tile(np.arange(41), 12), states, actions)
    want = fill(log.counts, log.bridged).effective
    np.testing.assert_array_equal(learner.counts.visits, log.counts.visits)
    np.testing.assert_allclose(learner.effective_counts.visits, want.visits, rtol=1e-9)
    np.testing.assert_allclose(learner.effective_counts.good, want.good, rtol=1e-9)
    started = mf.MeritFair(estimate="mean", design="exact").start(budget=4, seed=2, history=log)
    np.testing.assert_allclose(started.effective_counts.visits, want.visits, rtol=1e-9)


def test_late_states_fill_their_gap_in_any_order() -> None:
    truth = np.random.default_rng(1).uniform(0.1, 0.9, (6, 2, 2))
    learners = [mf.MeritFair(estimate="mean").start(6, 2, seed=2) for _ in range(2)]
    rng = np.random.default_rng(5)
    now, reports = rng.integers(0, 2, 6), []
    for _ in range(15):
        choices = [learner.choose() for learner in learners]
        assert choices[0].names == choices[1].names  # until then neither has heard of anything
        then = (rng.random(6) < truth[np.arange(6), now, choices[0].actions]).astype(int)
        reports.append((now, choices[0].actions, then))
        now = then
    for number, (states, actions, after) in enumerate(reports, 1):
        learners[0].observe(states, actions, after, round=number)
    nothing = [None] * 6
    for number in rng.permutation(15):
        states, actions, after = reports[number]
        pieces = [(states, nothing, nothing), (nothing, actions, nothing), (nothing, nothing, after)]
        for piece in rng.permutation(3):
            learners[1].observe(*pieces[piece], round=int(number) + 1)
    for name in ("visits", "good"):
        np.testing.assert_array_equal(getattr(learners[0].counts, name), getattr(learners[1].counts, name))
        one, other = (getattr(learner.effective_counts, name) for learner in learners)
        np.testing.assert_array_equal(one, other)
    with pytest.raises(mf.InputError, match="in round 3 was observed already; nothing of this call was taken in"):
        learners[1].observe(1 - reports[2][0], nothing, nothing, round=3)
    learners[1].observe(reports[2][0], nothing, nothing, round=3)  # the same again does no harm


def test_a_learner_with_gaps_resumes_identically(tmp_path: Any) -> None:
    truth = np.random.default_rng(1).uniform(0.1, 0.9, (8, 2, 2))
    learner = mf.MeritFair(estimate="pooled", design="exact", slack=1).start(8, 3, seed=2, forget=0.9)
    play(learner, truth, 9, 1.0, 4)
    learner.leave(["arm-3"])
    learner.join(["arm-3", "new"])
    play(learner, np.vstack([truth, truth[:1]]), 9, 1.0, 4)
    learner.save(tmp_path / "learner.json")
    other = mf.Learner.load(tmp_path / "learner.json")
    for each in (learner, other):
        play(each, np.vstack([truth, truth[:1]]), 5, 1.0, 9)
    assert learner.choose([0] * 9).exposure.tolist() == other.choose([0] * 9).exposure.tolist()


def test_forgetting_discounts_by_age() -> None:
    learner = mf.MeritFair().start(1, 1, seed=1, forget=0.5)
    for _ in range(3):
        choice = learner.choose()
        learner.observe([0], [1], [1], round=choice.round)
    assert learner.counts.visits[0, 0, 1] == 1 + 0.5 + 0.25
    learner.choose()
    learner.choose()
    learner.observe([0], [1], [0], round=4)  # one round late
    assert learner.counts.visits[0, 0, 1] == (1 + 0.5 + 0.25) / 4 + 0.5
    log = mf.StateLog(["a"] * 4, range(4), [0, 0, 0, 1], [1, 1, 1, 0])
    assert log.weighted_counts(0.5).visits[0, 0, 1] == 1.75
    assert log.weighted_counts(0.5).good[0, 0, 1] == 1.0
    started = mf.MeritFair().start(budget=1, history=log, forget=0.5)
    assert started.counts.visits[0, 0, 1] == 1.75
    wrong: Any
    for wrong in (0, -0.1, 1.1, "x"):
        with pytest.raises(mf.InputError, match="forget must"):
            mf.MeritFair().start(1, 1, forget=wrong)
