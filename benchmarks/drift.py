"""How often `meritfair fit --drift` finds a change, also one that is not there: `./mf python benchmarks/drift.py`.

Programmes of three populations are played, without a change and with one: after half of the rounds all log-odds are
shifted. The columns are the part of the logs in which a change is found at a level of 5 %:

- *at any time*: the e-value had reached 20 after any of the rounds. The bar without a change is 5 %.
- *one look*: the p-value of the test for one look, after the last round, is at most 0.05. Its bar is 5 %, too.
- *plain*: a Mantel-Haenszel test in which each arm's own share is expected, with the same change times. It is here to
  show what pooling is for.

A number that misses its bar is marked if chance (1 in 100) does not explain it. *Findable* is the median shift which
the log says is found with a probability of 80 %, at any time and at one look.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy import stats

import meritfair as mf
from meritfair import drifting
from meritfair.cli.show import print_table
from meritfair.core.progress import progress_bar

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from reference.changing import POPULATIONS, Programme
from reference.drift import mantel_haenszel

LEVEL = 0.05
_CHANCE = 0.01
LARGE, SMALL = Programme(), Programme(n_arms=20)
UNCHANGED = {
    "100 people": LARGE,
    "100 people, 30 % missing": replace(LARGE, missing=0.3),
    "100 people, called by state": replace(LARGE, by_state=True),
    "20 people": SMALL,
    "2,000 people, 20 rounds": replace(LARGE, n_arms=2_000, rounds=20),
}
CHANGED = {
    "100 people, shift of -0.4": replace(LARGE, shift=-0.4),
    "100 people, 30 % missing, -0.4": replace(LARGE, shift=-0.4, missing=0.3),
    "20 people, -0.8": replace(SMALL, shift=-0.8),
}


class Found(NamedTuple):
    """What was found in one log, and which shift would have been."""

    any_time: bool
    one_look: bool
    plain: bool
    findable: float
    findable_at_one_look: float


def look(log: mf.StateLog, seed: int) -> Found:
    found = mf.drift(log, alpha=LEVEL, seed=seed)
    sizes = (np.nan if size is None else size.log_odds for size in (found.findable, found.findable_at_one_look))
    return Found(found.alarm is not None, found.p_value <= LEVEL, plain_p_value(log, seed) <= LEVEL, *sizes)


def plain_p_value(log: mf.StateLog, seed: int) -> float:
    parts = (np.concatenate([part, part.sum(axis=0, keepdims=True)])[None] for part in mantel_haenszel(log))
    return float(drifting._OneLook.of(drifting._Sums(*parts), np.random.default_rng(seed)).p_values.min())


def row(population: str, case: str, found: list[Found], changed: bool) -> list[str]:
    parts, sizes = np.array(found)[:, :3], np.array(found)[:, 3:]
    marks = ["" if changed or not _too_many(count, len(found)) else " ✗" for count in parts.sum(axis=0)]
    shares = [f"{100 * part:.1f} %{mark}" for part, mark in zip(parts.mean(axis=0), marks, strict=True)]
    return [population, case, *shares, *(f"{size:.2f}" for size in np.nanmedian(sizes, axis=0))]


def _too_many(count: float, logs: int) -> bool:
    return bool(stats.binom.sf(count - 1, logs, LEVEL) < _CHANCE)


def main() -> None:
    parser = argparse.ArgumentParser(description="False alarms and power of meritfair fit --drift.")
    parser.add_argument("--logs", type=int, default=400)
    parser.add_argument("--only", default="", help="only the programmes of this name")
    given = parser.parse_args()
    cases = [
        (population, name, replace(programme, population=population))
        for programmes in (UNCHANGED, CHANGED)
        for name, programme in programmes.items()
        for population in POPULATIONS
        if given.only in ("", name)
    ]
    rows = []
    with progress_bar(len(cases)) as begin:
        for population, case, programme in cases:
            tell, found = begin(f"{population}, {case}"), []
            for k in range(given.logs):
                rng = np.random.default_rng([28, POPULATIONS.index(population), k])
                found.append(look(programme.log(rng), k))
                tell(k + 1, given.logs)
            rows.append(row(population, case, found, programme.shift != 0))
    headings = ["people", "programme", "at any\ntime", "one\nlook", "plain", "findable\nat any time", "at one\nlook"]
    print_table(headings, rows, f"Changes found in {given.logs} logs each, at a level of 5 %", "llrrrrr")


if __name__ == "__main__":
    main()
