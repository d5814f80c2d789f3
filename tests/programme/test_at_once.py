"""Many at once, crashes, and outcomes in any order."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from typing import Any

import numpy as np
import pytest

import meritfair as mf
from meritfair.programme import Outcomes, People
from meritfair.programme.planning import Known
from meritfair.programme.work import Work
from programme.clinics import clinic

FULL = os.environ.get("MERITFAIR_FULL") == "1"
CLIENT = """
import sys, time
import meritfair as mf
calls = mf.programme.open(sys.argv[1], "calls")
print("ready", flush=True)
sys.stdin.readline()
drawn = calls.draw(by=sys.argv[2])
print(drawn.number, drawn.commitment, *drawn.ids, flush=True)
"""
WRITER = """
import sys
import meritfair as mf
from meritfair.programme import Outcomes
calls = mf.programme.open(sys.argv[1], "calls")
last = calls.round()
first = int(sys.argv[2])
print("ready", flush=True)
for number in range(first, 10**6):
    who = f"p{number % 40}"
    round_ = 1 + number // 40
    if round_ > last.number:
        break
    calls.report(Outcomes([who], after=[number % 2]), round=round_, by="w")
    print(number, flush=True)
"""


def piece(arm: int, column: str, value: int) -> Outcomes:
    given: dict[str, Any] = {column: [value]}
    return Outcomes([f"p{arm}"], **given)


def started(code: str, *words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", code, *words]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_ten_clients_ask_for_the_same_round_at_once(store_url: str) -> None:
    clinic(store_url, 20, 4)
    clients = [started(CLIENT, store_url, f"client {number}") for number in range(10)]
    for client in clients:
        assert client.stdout is not None
        assert client.stdout.readline() == "ready\n"
    answers = set()
    for client in clients:
        assert client.stdin is not None
        client.stdin.write("go\n")
        client.stdin.flush()
    for client in clients:
        answers.add(client.communicate(timeout=120)[0])
        assert client.returncode == 0
    assert len(answers) == 1
    number, _, *ids = answers.pop().split()
    assert number == "1"
    assert len(set(ids)) == 4
    calls = mf.programme.open(store_url, "calls")
    assert calls.status().entries == 4  # create, enrol, commit, draw
    assert calls.verify().whole


@pytest.mark.slow
def test_reports_survive_a_kill_and_nothing_is_half_written(store_url: str) -> None:
    """The writer is killed at any time; whatever it has acknowledged is there, and the ledger is whole."""
    here = clinic(store_url, 40, 4)
    calls, rng = here.programme, random.Random(3)
    for _ in range(60):
        calls.draw()
        calls.close()
    acknowledged, kills = -1, 100 if FULL else 6
    for _ in range(kills):
        writer = started(WRITER, store_url, str(acknowledged + 1))
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
        time.sleep(rng.uniform(0.05, 0.3))
        writer.send_signal(signal.SIGKILL)
        said = [int(line) for line in writer.communicate()[0].split()]
        acknowledged = max([acknowledged, *said])
        with calls.store.reading("calls") as session:
            state = Work(session).state
            known = {(r, p) for r in range(1, 61) for p in np.flatnonzero(state.seen(r)[3] >= 0).tolist()}
        there = {(1 + number // 40, number % 40) for number in range(acknowledged + 1)}
        assert there <= known
        assert len(known - there) <= 1  # the one that was written and not acknowledged
        acknowledged = max(acknowledged, len(known) - 1)
    assert calls.store.check() == []
    assert calls.verify().whole
    print(f"{kills} kills, {acknowledged + 1} acknowledged, 0 lost")


@pytest.mark.parametrize("seed", range(3))
def test_outcomes_in_any_order_are_counted_as_if_from_scratch(store_url: str, seed: int) -> None:
    """Late, repeated, missing, corrected and out of order: counts are those of what is known in the end."""
    here, rng = clinic(store_url, 10, 3, seed=seed), random.Random(seed)
    calls, truth, pieces = here.programme, np.full((3, 8, 10), -1), []
    chosen = np.zeros((8, 10), int)
    for round_ in range(8):
        drawn = calls.draw()
        calls.close()
        actions = np.zeros(10, int)
        actions[[each.number for each in drawn.people]] = 1
        before, after = here.move(actions)
        chosen[round_] = actions
        for arm in range(10):
            for column, value in (("before", before[arm]), ("action", actions[arm]), ("after", after[arm])):
                if rng.random() < 0.8:
                    pieces.append((round_ + 1, arm, column, int(value)))
    rng.shuffle(pieces)
    place = {"before": 0, "action": 1, "after": 2}
    for number, (round_, arm, column, value) in enumerate(pieces):
        wrong = column != "action" and rng.random() < 0.1
        calls.report(piece(arm, column, 1 - value if wrong else value), round=round_, by="Ada")
        if wrong:
            calls.correct(piece(arm, column, value), round=round_, reason="typo", by="Ada")
        if number % 7 == 0:
            calls.report(piece(arm, column, value), round=round_, by="Ada")  # once more
        truth[place[column], round_ - 1, arm] = value
    visits = np.zeros((10, 2, 2), int)
    good = np.zeros((10, 2, 2), int)
    for round_, arm in np.ndindex(8, 10):
        s, a, t = truth[:, round_, arm]
        s = truth[2, round_ - 1, arm] if s < 0 and round_ > 0 else s  # as it was after the round before
        t = truth[0, round_ + 1, arm] if t < 0 and round_ < 7 else t  # as it was before the next
        a = chosen[round_, arm] if a < 0 else a  # as it was drawn
        if min(s, a, t) >= 0:
            visits[arm, s, a] += 1
            good[arm, s, a] += t
    with calls.store.reading("calls") as session:
        known = Known.of(Work(session).state, np.arange(10))
    assert np.array_equal(known.complete.visits, visits)
    assert np.array_equal(known.complete.good, good)
    assert calls.verify().whole


def test_every_past_round_is_recomputed_bit_for_bit(store_url: str) -> None:
    here = clinic(store_url, 30, 5, rules=mf.Rules(cooldown=1))
    for _ in range(10):
        here.play(seen=0.7)
    found = here.programme.verify()
    assert (found.exact, found.near, found.problems) == (10, 0, ())


def test_people_enrolled_together_and_one_by_one_have_the_same_numbers(store_url: str) -> None:
    calls = mf.programme.open(store_url, "calls")
    calls.create(1)
    calls.enrol(People(["b", "a"]))
    calls.withdraw("a", reason="a holiday")
    calls.enrol(People(["z", "a", "y"]))
    with calls.store.reading("calls") as session:
        assert Work(session).numbers(["b", "a", "z", "y"]).tolist() == [0, 1, 2, 3]
    assert calls.verify().whole
