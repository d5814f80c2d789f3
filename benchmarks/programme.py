"""How long a programme takes: draw, report and verify, by the number of participants, on SQLite and PostgreSQL.

    ./mf python benchmarks/programme.py [--quick] [--postgresql URL]

Every size is a process of its own, so its memory is its own. People drift as in the CPAP data set; seven states in ten
are seen, and verification is measured with all states seen, too. Per participant the cost must be flat; a row also says
how often the measured time would fit into the bar.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import meritfair as mf
from meritfair.programme import Outcomes, People

SIZES = {2_000: 20, 10_000: 20, 100_000: 5, 1_000_000: 4}  # participants, and rounds to play
BARS = {10_000: (0.3, 0.3, ""), 1_000_000: (10.0, 10.0, "2 GB")}
ON_POSTGRESQL = {1_000_000: (20.0, 20.0, "")}


def play(url: str, people: int, rounds: int, verify: bool, seen: float) -> dict[str, Any]:
    """Return the median times of a draw and of a report, without the first round, which compiles."""
    calls = mf.programme.open(url, f"n{people}-{rounds}-{seen}")
    calls.create(max(1, people // 100), by="bench")
    ids = [f"participant-{number}" for number in range(people)]
    began = time.perf_counter()
    calls.enrol(People(ids, group=["north", "south"] * (people // 2)), by="bench")
    enrol = time.perf_counter() - began
    arms, rng = mf.datasets.cpap(n_arms=people, seed=1).transitions, np.random.default_rng(1)
    states, draws, reports = rng.integers(0, 2, people), [], []
    for round_ in range(rounds):
        began = time.perf_counter()
        drawn = calls.draw(by="bench")
        draws.append(time.perf_counter() - began)
        actions = np.zeros(people, np.int64)
        actions[[each.number for each in drawn.people]] = 1
        after = (rng.random(people) < arms[np.arange(people), states, actions]).astype(np.int64)
        known = np.where(rng.random(people) < seen, after, -1)
        outcomes = Outcomes(ids, actions, known, states if round_ == 0 else None)
        began = time.perf_counter()
        calls.report(outcomes, by="bench")
        reports.append(time.perf_counter() - began)
        calls.close(by="bench")
        states = after
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    found = {"enrol": enrol, "draw": float(np.median(draws[1:])), "report": float(np.median(reports[1:]))}
    found |= {"draw_last": draws[-1], "report_last": reports[-1], "memory": memory}
    if verify:
        began = time.perf_counter()
        result = calls.verify()
        assert result.whole, str(result)
        found["verify"] = time.perf_counter() - began
    return found


def measured(*words: object) -> dict[str, Any]:
    command = [sys.executable, __file__, "--one", *map(str, words)]
    return dict(json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout))


def table(url: str, sizes: dict[int, int], bars: dict[int, tuple[float, float, str]]) -> None:
    print("participants  enrol  draw    µs each  report  µs each  last draw  memory   bar / draw  bar / report")
    for people, rounds in sizes.items():
        row = measured(url, people, rounds, 0, 0.7)
        bar = bars.get(people)
        ratios = "" if bar is None else f"{bar[0] / row['draw']:9.1f}x  {bar[1] / row['report']:10.1f}x  {bar[2]}"
        print(
            f"{people:12,}  {row['enrol']:5.2f}  {row['draw']:6.3f}  {1e6 * row['draw'] / people:7.1f}  "
            f"{row['report']:6.3f}  {1e6 * row['report'] / people:7.1f}  {row['draw_last']:9.3f}  "
            f"{row['memory']:5.2f} GB  {ratios}",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes alone")
    parser.add_argument("--postgresql", metavar="URL", help="also on this database")
    parser.add_argument("--one", nargs=5, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        url, people, rounds, verify, seen = given.one
        print(json.dumps(play(url, int(people), int(rounds), verify == "1", float(seen))))
        return
    sizes = {people: rounds for people, rounds in SIZES.items() if people <= 10_000} if given.quick else SIZES
    with tempfile.TemporaryDirectory() as folder:
        print("SQLite")
        table(str(Path(folder) / "programmes.db"), sizes, BARS)
        people, rounds = (2_000, 20) if given.quick else (10_000, 200)
        for seen in (1.0, 0.7):
            row = measured(str(Path(folder) / "verified.db"), people, rounds, 1, seen)
            ratio = "" if given.quick else f", bar 30 s: {30 / row['verify']:.1f}x"
            print(f"verify, {people:,} x {rounds} rounds, {seen:.0%} of states seen: {row['verify']:.1f} s{ratio}")
            print(f"  draw in the last of these rounds {row['draw_last']:.3f} s, in the median one {row['draw']:.3f} s")
    if given.postgresql:
        print("PostgreSQL")
        table(given.postgresql, sizes, ON_POSTGRESQL)


if __name__ == "__main__":
    main()
