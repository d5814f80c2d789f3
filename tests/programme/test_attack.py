"""What staff can do and see does not tell or change whom a draw will favour, beyond what the ledger shows."""

from __future__ import annotations

import hashlib
import hmac
import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import meritfair as mf
from meritfair.programme import Outcomes, People, Programme
from meritfair.programme.ledger import randomness
from meritfair.programme.ledger.lottery import ONE
from meritfair.programme.records import records
from meritfair.programme.work import Work
from programme.beacon import SIGNATURES, before, set_clock, time_of

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


def public(store_url: str, source: str) -> Programme:
    calls = mf.programme.open(store_url, "calls")
    calls.create(K, POLICY, source=source)
    calls.enrol(People(NAMES))
    return calls


def test_a_round_with_drand_is_committed_first(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    set_clock(monkeypatch, before(1000))
    calls = public(store_url, "drand")
    pending = calls.draw()
    assert (pending.phase, pending.people, pending.source) == ("committed", (), "drand quicknet round 1000")
    assert pending.appears == f"{time_of(1000):%Y-%m-%dT%H:%M:%SZ}"
    assert pending.address.endswith("/public/1000")
    assert calls.draw() == pending
    with pytest.raises(mf.InputError, match="its budget was"):
        calls.draw(budget=1)
    with pytest.raises(mf.InputError, match="there is no round to report on yet"):
        calls.report(Outcomes(["p1"], after=[1]))
    with pytest.raises(mf.InputError, match="it can have no value before that"):
        calls.draw(value=SIGNATURES[1000])
    set_clock(monkeypatch, time_of(1000))
    with pytest.raises(mf.InputError, match="the signature does not fit"):
        calls.draw(value=SIGNATURES[657413])
    drawn = calls.draw(value=SIGNATURES[1000])
    assert len(drawn.people) == K
    assert calls.draw(value=SIGNATURES[1000]) == drawn
    with pytest.raises(mf.InputError, match="the signature does not fit"):
        calls.draw(value=SIGNATURES[657413])
    found = calls.verify()
    assert found.whole
    assert (found.tied, found.signed, found.unsigned, found.unchecked) == (True, 1, 0, 0)
    assert "1 value of drand fits the signature of its round." in str(found)
    assert calls.status().unchecked == 0


def test_values_that_nobody_can_check_are_counted(store_url: str) -> None:
    calls = public(store_url, "the lottery of tonight")
    for _ in range(2):
        calls.draw()
        calls.draw(value="9319 / 2 5 12 8 10 / 9 18 26 34 41 45")
        calls.close()
    calls.change(source="secret", reason="the lottery was shut", by="Dr. Osei")
    calls.draw()
    found = calls.verify()
    assert (found.whole, found.draws, found.unchecked, calls.status().unchecked) == (True, 3, 2, 2)
    assert "2 draws of 3 rest on public values that no program can check" in str(found)


def test_verify_finds_a_value_that_does_not_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody who can write to the database enters what drand has never published, and hashes all again."""
    set_clock(monkeypatch, before(1000))
    calls = public(str(tmp_path / "calls.db"), "drand")
    calls.draw()
    set_clock(monkeypatch, time_of(1000))
    with monkeypatch.context() as patch:
        patch.setattr(randomness, "first_unfit", lambda _: None)
        calls.draw(value=SIGNATURES[657413])
    found = calls.verify()
    assert [str(each) for each in found.problems] == ["entry 3: its value is not the signature of round 1000 of drand"]
    with monkeypatch.context() as patch:
        patch.setattr(randomness, "can_check_signatures", lambda: False)
        found = calls.verify()
    assert (found.whole, found.signed, found.unsigned) == (True, 0, 1)
    assert "1 draw of 1 rests on a value of drand whose signature was not checked here" in str(found)


def test_nobody_can_search_for_a_value_without_the_secret(tmp_path: Path) -> None:
    """With all that an export shows, other values make no draw that could be foreseen."""
    calls = public(str(tmp_path / "calls.db"), "my dice")
    commitment = bytes.fromhex(calls.draw().commitment)
    guess = hashlib.sha256(b"meritfair-draw" + commitment + bytes(16)).digest()
    drawn = calls.draw(value="00" * 16)
    assert bytes.fromhex(drawn.seed) not in (guess, hmac.digest(bytes(32), commitment + bytes(16), "sha256"))
    with calls.store.reading("calls") as session:
        work = Work(session)
        assert bytes.fromhex(drawn.seed) == hmac.digest(work.secret, commitment + bytes(16), "sha256")


# ---- times


def test_a_clock_that_has_gone_back(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = mf.programme.open(store_url, "calls")
    noon = datetime(2026, 11, 17, 12, tzinfo=UTC)
    set_clock(monkeypatch, noon)
    assert calls.create(K, POLICY).warning == ""
    set_clock(monkeypatch, noon - timedelta(seconds=4))
    assert calls.enrol(People(NAMES)).warning == ""
    set_clock(monkeypatch, noon - timedelta(hours=1))
    drawn = calls.draw()
    assert "The clock of this machine says 2026-11-17T11:00:00Z, which is before the last entry" in drawn.warning
    assert drawn.time == "2026-11-17T12:00:00Z"
    set_clock(monkeypatch, noon + timedelta(hours=1))
    closed = calls.close()
    assert closed.warning == ""
    with calls.store.reading("calls") as session:
        times = [entry.time for entry, _ in Work(session).heads()]
    assert times == sorted(times)
    assert times[-1] == "2026-11-17T13:00:00Z"
    assert calls.verify().whole
