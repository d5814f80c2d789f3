"""How long a server takes to read a programme, and to take in one report, by the number of participants.

    ./mf python benchmarks/reading.py [--quick] [--store URL]

Every size is a process of its own. *look* is after a report by another; *cold* is the first time in a process, *warm*
the median of later ones. Bars are those of a page that must feel immediate; the audit for a board is long work.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import meritfair as mf
from meritfair.programme import Outcomes, People
from meritfair.programme.listing import PeopleQuery
from meritfair.programme.reading import Reader

SIZES = {10_000: 52, 200_000: 20, 1_000_000: 3}  # participants, and rounds that were played
AUDITED = 200_000  # participants of whom an audit is made, at most
BARS = {  # seconds, at 10,000 and at more
    "look after a report": (0.02, 1.0),
    "status": (0.02, 1.0),
    "people, first page": (0.02, 0.3),
    "people, search": (0.02, 0.3),
    "people, by account": (0.02, 0.3),
    "people, by state, after a report": (0.05, 0.3),
    "round": (0.05, 1.0),
    "person, cold": (1.5, 60.0),
    "person, warm": (0.05, 1.0),
    "person, after a report": (0.05, 1.0),
    "report of one person": (0.02, 1.0),
    "report of one person, with a key": (0.02, 1.0),
    "audit for a board": (20.0, 20.0),
}


def prepare(url: str, people: int, rounds: int) -> list[str]:
    """Make a programme with some rounds that were played, and one that is open; return who is drawn in it."""
    calls = mf.programme.open(url, "calls")
    calls.create(max(1, people // 100), by="bench")
    ids = [f"participant-{number}" for number in range(people)]
    staff = [f"nurse {number % 7}" for number in range(people)]
    calls.enrol(People(ids, ["north", "south"] * (people // 2), staff), by="bench")
    arms, rng = mf.datasets.cpap(n_arms=people, seed=1).transitions, np.random.default_rng(1)
    states = rng.integers(0, 2, people)
    for round_ in range(rounds):
        actions = np.zeros(people, np.int64)
        actions[[each.number for each in calls.draw(by="bench").people]] = 1
        after = (rng.random(people) < arms[np.arange(people), states, actions]).astype(np.int64)
        known = np.where(rng.random(people) < 0.7, after, -1)
        calls.report(Outcomes(ids, actions, known, states if round_ == 0 else None), by="bench")
        calls.close(by="bench")
        states = after
    return list(calls.draw(by="bench").ids)


def timed(call: Callable[[], Any]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def median(call: Callable[[int], Any], times: int = 9) -> float:
    return float(np.median([timed(lambda turn=turn: call(turn)) for turn in range(times)]))  # type: ignore[misc]


def measure(url: str, people: int, drawn: list[str]) -> dict[str, float]:
    """Return the time of each kind of request, in seconds."""
    reader = Reader(mf.programme.Store(url))
    found = {"load, cold": timed(lambda: reader.look("calls"))}
    other, queue = mf.programme.open(url, "calls"), iter(drawn)

    def report(programme: Any, key: str | None = None) -> None:
        programme.report(Outcomes([next(queue)], [1], [1]), by="bench", key=key)

    def after_report(call: Callable[[], Any]) -> float:
        report(other)
        return timed(call)

    def people_page(**asked: Any) -> Callable[..., Any]:
        return lambda _=0: reader.look("calls").people(PeopleQuery(**asked))

    found["person, cold"] = timed(lambda: reader.look("calls").person(7))
    found["person, warm"] = median(lambda turn: reader.look("calls").person(turn * 31))

    def past(turn: int) -> Any:
        return reader.look("calls").person(turn, round=2)

    found["person after round 2, cold"], found["person after round 2, warm"] = timed(lambda: past(0)), median(past)
    found["look after a report"] = float(np.median([after_report(lambda: reader.look("calls")) for _ in range(5)]))
    found["look, nothing new"] = median(lambda _: reader.look("calls"))
    found["status"] = after_report(lambda: reader.look("calls").status)
    found["people, first page, cold"] = timed(people_page())
    found["people, first page"] = median(people_page())
    found["people, search"] = median(people_page(search="PANT-77"))
    found["people, of one nurse, away"] = median(people_page(staff="nurse 3", standing="away"))
    found["people, by account"] = median(people_page(sort="account", descending=True))
    found["people, by state, after a report"] = after_report(people_page(sort="state"))
    found["round"] = median(lambda _: reader.look("calls").round())
    found["outcomes"] = median(lambda _: reader.look("calls").outcomes(reader.look("calls").status.round))
    found["person, after a report"] = after_report(lambda: reader.look("calls").person(people // 2))
    found["report of one person"] = median(lambda _: report(reader.programme("calls")))
    found["report of one person, with a key"] = median(lambda turn: report(reader.programme("calls"), f"key {turn}"))
    found["report of one person, as before"] = median(lambda _: report(other), 3)
    if people <= AUDITED:
        found["audit for a board"] = timed(other.audit)
    found["memory in GB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="the small size alone")
    parser.add_argument("--store", metavar="URL", help="an empty database to measure on, for the small size")
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        url, people, drawn = given.one
        print(json.dumps(measure(url, int(people), json.loads(Path(drawn).read_text()))))
        return
    sizes = {people: rounds for people, rounds in SIZES.items() if people <= 10_000 or not (given.quick or given.store)}
    for people, rounds in sizes.items():
        with tempfile.TemporaryDirectory() as folder:
            url, drawn = given.store or f"{folder}/programmes.db", Path(folder) / "drawn.json"
            drawn.write_text(json.dumps(prepare(url, people, rounds)))
            command = [sys.executable, __file__, "--one", url, str(people), str(drawn)]
            found = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
        print(f"{people:,} participants, {rounds} rounds", flush=True)
        for what, seconds in found.items():
            bar = f"{BARS[what][people > 10_000] / seconds:8.1f}x within its bar" if what in BARS else ""
            shown = f"{seconds:10.2f}   " if what == "memory in GB" else f"{1000 * seconds:10.1f} ms"
            print(f"  {what:36} {shown} {bar}", flush=True)


if __name__ == "__main__":
    main()
