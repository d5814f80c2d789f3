"""What staff can do and see does not tell or change whom a draw will favour, beyond what the ledger shows."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import meritfair as mf
from meritfair.programme import Outcomes, People, Programme
from meritfair.programme.ledger.lottery import ONE
from meritfair.programme.records import records
from meritfair.programme.work import Work

N, K, ROUNDS, FAVOURITE = 8, 2, 60, 3
NAMES = [f"p{number}" for number in range(N)]
OTHERS = [number for number in range(N) if number != FAVOURITE]
ABSENT = [(), *itertools.combinations(OTHERS, 1), *itertools.combinations(OTHERS, 2)]
POLICY = mf.Random()


def surplus(drawn: int, chances: list[float]) -> float:
    """Return the p-value that draws with these chances hit that often or more."""
    mean, variance = sum(chances), sum(p * (1 - p) for p in chances)
    return float(stats.norm.sf((drawn - 0.5 - mean) / np.sqrt(variance)))


def test_the_attack_works_on_a_learner_that_can_be_copied(tmp_path: Path) -> None:
    """Marking one or two others away and looking again, on copies of a saved learner: this is what must not be."""
    learner, drawn = POLICY.start(n_arms=N, budget=K, seed=1, names=NAMES), 0
    chances: list[float] = []
    for _ in range(ROUNDS):
        for absent in ABSENT:
            here = [arm not in absent for arm in range(N)]
            copy = mf.Learner.from_dict(learner.to_dict())
            choice = copy.choose(available=here)
            if FAVOURITE in choice.arms:
                break
        choice = learner.choose(available=here)
        drawn, chances = drawn + int(FAVOURITE in choice.arms), [*chances, float(choice.exposure[FAVOURITE])]
    assert drawn > 0.55 * ROUNDS
    assert surplus(drawn, chances) < 1e-4


class PowerCutError(Exception):
    pass


@contextmanager
def power_cut_before_the_end(programme: Programme, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let a draw be made, and fail before anything of it is kept or shown."""

    def fail(self: Work) -> None:
        raise PowerCutError

    with monkeypatch.context() as patch:
        patch.setattr(Work, "save", fail)
        yield


@pytest.mark.slow
def test_the_attack_gains_nothing_on_a_programme(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = mf.programme.open(store_url, "calls")
    calls.create(K, POLICY, floor=0.0)
    calls.enrol(People(NAMES), by="Mallory")
    rng = np.random.default_rng(1)
    for _ in range(ROUNDS):
        shown = []
        for absent in (ABSENT[place] for place in rng.permutation(len(ABSENT))[:2]):  # tries, one after another
            if absent:
                calls.away([NAMES[arm] for arm in absent], by="Mallory")
            planned, _ = calls.preview()
            shown.append(planned.chance[FAVOURITE] / ONE)
            with power_cut_before_the_end(calls, monkeypatch), pytest.raises(PowerCutError):
                calls.draw(by="Mallory")
            if absent:
                calls.away([NAMES[arm] for arm in absent], back=True, by="Mallory")
        first = calls.draw(by="Mallory")
        assert [calls.draw(by="Mallory") for _ in range(2)] == [first] * 2
        calls.close(by="Mallory")
    with calls.store.reading("calls") as session:
        found = records(Work(session))
        entries = [data for _, data, _ in session.entries()]
    mine = found.only(found.number == FAVOURITE)
    assert surplus(int(mine.drawn.sum()), (mine.chance / ONE).tolist()) > 1e-4
    assert sum(b'"kind":"away"' in data and b'"by":"Mallory"' in data for data in entries) > ROUNDS  # it all shows
    assert calls.verify().whole


def test_the_same_situation_is_drawn_differently_with_another_secret(tmp_path: Path) -> None:
    """Nothing in the ledger, a dry run or the settings tells a draw: it takes the secret."""
    draws = set()
    for number in range(12):
        calls = mf.programme.open(str(tmp_path / f"{number}.db"), "calls")
        calls.create(K, POLICY)
        calls.enrol(People(NAMES))
        draws.add(calls.draw().ids)
    assert len(draws) > 3


def test_a_draw_that_was_lost_is_made_again_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A crash cannot be used to have another draw of the same situation."""
    from meritfair.programme import rounds

    calls = mf.programme.open(str(tmp_path / "calls.db"), "calls")
    calls.create(K, POLICY)
    calls.enrol(People(NAMES))
    lost, plain = [], rounds.drawn_rows

    def watched(*given: object) -> object:
        lost.append(plain(*given))  # type: ignore[arg-type]
        return lost[-1]

    monkeypatch.setattr(rounds, "drawn_rows", watched)
    for _ in range(3):
        with power_cut_before_the_end(calls, monkeypatch), pytest.raises(PowerCutError):
            calls.draw()
    drawn = calls.draw()
    assert [each.number for each in drawn.people] == np.flatnonzero(lost[0]).tolist()
    assert all(np.array_equal(lost[0], each) for each in lost)


def test_a_public_value_must_not_exist_when_it_is_named(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from datetime import UTC, datetime, timedelta

    from meritfair.programme import work
    from meritfair.programme.ledger import randomness
    from meritfair.programme.ledger.randomness import next_round

    calls = mf.programme.open(store_url, "calls")
    calls.create(K, POLICY)
    calls.enrol(People(NAMES))
    with pytest.raises(mf.InputError, match="was published at"):
        calls.draw(source="drand quicknet round 1000")
    number = next_round(datetime.now(UTC) + timedelta(hours=1))
    pending = calls.draw(source=f"drand quicknet round {number}")
    assert (pending.phase, pending.people) == ("committed", ())
    assert calls.draw(source=f"drand quicknet round {number}") == pending
    with pytest.raises(mf.InputError, match=f"waits for drand quicknet round {number}"):
        calls.draw()
    with pytest.raises(mf.InputError, match="there is no round to report on yet"):
        calls.report(Outcomes(["p1"], after=[1]))
    value = "fe290beca10872ef2fb164d2aa4442de4566183ec51c56ff3cd603d930e54fdd"
    with pytest.raises(mf.InputError, match="it can have no value before that"):
        calls.draw(value=value)
    monkeypatch.setattr(work, "now", lambda: f"{datetime.now(UTC) + timedelta(hours=2):%Y-%m-%dT%H:%M:%SZ}")
    monkeypatch.setattr(randomness, "check_published", lambda *_: None)  # two hours later
    drawn = calls.draw(value=value)
    assert len(drawn.people) == K
    assert calls.draw(value=value) == drawn
    with pytest.raises(mf.InputError, match="with another value"):
        calls.draw(value="ab" * 32)
    monkeypatch.undo()
    found = calls.verify()
    assert found.whole
    assert found.tied
