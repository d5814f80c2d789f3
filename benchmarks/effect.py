"""Whether the intervals of `meritfair effect` hold: `./mf python benchmarks/effect.py [--programmes 1000]`.

Programmes with known effects are played, and their logs looked at after every round. For all arm-rounds, and for those
that began in the bad and in the good state:

- *anytime*: the part of the programmes in which the interval that is valid whenever one looks held the truth after
  every round from the first at which it is shown. The bar is 95 %.
- *at the end*: the part in which the asymptotic interval held it after the last round. The bar is 93 to 97 %.
- *called*: the part in which an interval was ever without 0. Where no pull has an effect the bar is 5 %. Beside it the
  part for somebody who looks at the asymptotic interval after every round.

Bars are for all arm-rounds. A number that misses its bar is marked if chance (1 in 100) does not explain it.
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
from meritfair.cli.show import print_note, print_table
from meritfair.core.arrays import FloatArray
from meritfair.core.progress import progress_bar

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from reference.programmes import Settings, play

SMALL, LARGE = Settings(), Settings(n_arms=200, budget=40)
TIMED = {"design": "systematic", "timed": 3.0}
CASES = {
    "20 arms, exact": SMALL,
    "20 arms, exact, no effect": replace(SMALL, helps=False),
    "20 arms, systematic, timed": replace(SMALL, **TIMED),  # type: ignore[arg-type]
    "20 arms, slack of 2": replace(SMALL, slack=2.0),
    "20 arms, slack of 2, no effect": replace(SMALL, slack=2.0, helps=False),
    "20 arms, sequential": replace(SMALL, design="sequential", replan=8),
    "20 arms, exact, 30 % missing": replace(SMALL, missing=0.3),
    "20 arms, exact, no effect, 150 rounds": replace(SMALL, helps=False, rounds=150),
    "200 arms, exact": LARGE,
    "200 arms, exact, weeks good or bad for all": replace(LARGE, shared=0.5),
    "200 arms, systematic, timed, no effect": replace(LARGE, helps=False, **TIMED),  # type: ignore[arg-type]
}
PARTS = {"all": None, "bad": 0, "good": 1}
_CHANCE = 0.01


class Outcome(NamedTuple):
    """What came of one programme: whether intervals held, and whether an effect was ever called one."""

    anytime: bool
    at_end: float
    called: bool
    naively: bool
    error: float
    standard_error: float
    half_width: float
    misled: float


def look(found: mf.Effect, truth: FloatArray) -> Outcome:
    """Return what the looks after every round, and the last one, came to."""
    course = found.rounds
    low, high, shown = course.anytime_low, course.anytime_high, course.shown
    with np.errstate(invalid="ignore"):
        held = (low <= truth) & (truth <= high)
        called, naively = (low > 0) | (high < 0), (course.low > 0) | (course.high < 0)
    inside = float(course.low[-1] <= truth[-1] <= course.high[-1]) if shown[-1] else np.nan
    return Outcome(
        anytime=bool(held[shown].all()),
        at_end=inside,
        called=bool(called[shown].any()),
        naively=bool(naively[shown].any()),
        error=course.estimate[-1] - truth[-1],
        standard_error=course.standard_error[-1],
        half_width=(high[-1] - low[-1]) / 2,
        misled=course.difference[-1] - truth[-1],
    )


def below(count: float, n: int, bar: float) -> bool:
    """Whether so few of n are less than the bar and chance explains."""
    return bool(stats.binom.cdf(count, n, bar) < _CHANCE)


def row(case: str, part: str, settings: Settings, found: list[Outcome]) -> list[str]:
    n = len(found)
    anytime, at_end, called, naively, error, spread, half, misled = np.array(found, dtype=np.float64).T
    ended = at_end[np.isfinite(at_end)]
    wrong = below(anytime.sum(), n, 0.95) or (
        part == "all" and (below(ended.sum(), len(ended), 0.93) or below(len(ended) - ended.sum(), len(ended), 0.03))
    )
    if not settings.helps:
        wrong |= below(n - called.sum(), n, 0.95)
    return [
        case if part == "all" else "",
        part,
        f"{100 * anytime.mean():.1f} %",
        f"{100 * ended.mean():.1f} %" if len(ended) else "–",
        f"{100 * called.mean():.1f} %",
        f"{100 * naively.mean():.1f} %",
        f"{100 * error.mean():+.2f}",
        f"{np.sqrt((spread**2).mean()) / error.std():.2f}",
        f"{100 * np.nanmean(half):.1f}",
        f"{100 * misled.mean():+.1f}",
        "✗" if wrong else "✓",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description="Coverage of the intervals of meritfair effect.")
    parser.add_argument("--programmes", type=int, default=1000)
    parser.add_argument("--only", default="", help="only cases whose names begin like this")
    given = parser.parse_args()
    cases = {name: settings for name, settings in CASES.items() if name.startswith(given.only)}
    rows = []
    with progress_bar(len(cases)) as begin:
        for case, settings in cases.items():
            tell, number = begin(case), list(CASES).index(case)
            found: dict[str, list[Outcome]] = {part: [] for part in PARTS}
            for k in range(given.programmes):
                programme = play(settings, np.random.default_rng([17, number, k]))
                for part, state in PARTS.items():
                    found[part].append(look(mf.effect(programme.log(state)), programme.truth(state)))
                tell(k + 1, given.programmes)
            rows += [row(case, part, settings, outcomes) for part, outcomes in found.items()]
    headings = ["programme", "rows", "anytime", "at the\nend", "called", "naively\ncalled", "bias"]
    headings += ["se /\ntrue", "half\nwidth", "plain\nbias", "bars"]
    print_table(headings, rows, f"{given.programmes} programmes each", "llrrrrrrrrr")
    print_note(
        "Anytime: the interval held the truth after every round. At the end: the asymptotic interval did, after the "
        "last. Called: ever without 0; naively: by the asymptotic one. Bias, of the plain difference too, and half "
        "width of the anytime interval in percentage points. se / true: mean standard error over the true one."
    )


if __name__ == "__main__":
    main()
