"""What `effect` and `fit` assume, and what happens if it is wrong: `./mf python benchmarks/effect_assumptions.py`.

**Arms that are drawn together.** Whole sites are drawn, and each site has weeks that are good or bad for all of its
people. The interval at any time and the one for one look are looked at with and without ``cluster="site"``: the part
of the programmes in which the first held the truth after every round, and the second at the end. The bars are 95 % and
93 %. Beside them how often it is noticed that arms are drawn together, and half the width of the interval at any time.

**States that are missing because of what they are.** Those whom a draw did not help do not answer (*not helped*); or
those who are well do not answer if they were not drawn, and those who are not well if they were (*opposite*); both at
rates that are about equal for those drawn and for the others. Shown is the bias, how often rates warn of it, how often
the interval holds the mean effect of all arm-rounds as it is, and once it is moved by as much as those not seen
differed; how often the outer bounds hold it; and the median of the tipping point, beside by how much those not seen did
differ. Then the same for the mean benefit of a fit, which has no interval: its bias as it is and moved, how often the
bounds hold the truth, and the tipping point.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

import meritfair as mf
from meritfair.cli.show import print_table
from meritfair.core.progress import progress_bar
from meritfair.datasets.missing import missing_states
from meritfair.fitting import Fit

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from reference.programmes import Programme, Settings, make_arms, play, silenced, unseen_shift

SITES = Settings(n_arms=100, shared=0.3, helps=False)
TOGETHER = {
    "2 sites, 1 drawn": replace(SITES, sites=2, budget=1),
    "2 sites, 1 drawn, 150 rounds": replace(SITES, sites=2, budget=1, rounds=150),
    "3 sites, 1 drawn": replace(SITES, sites=3, budget=1),
    "5 sites, 2 drawn": replace(SITES, sites=5, budget=2),
    "10 sites, 3 drawn": replace(SITES, sites=10, budget=3),
    "10 sites, 3 drawn, lasting": replace(SITES, sites=10, budget=3, lasting=0.9),
    "10 sites, 3 drawn, an effect": replace(SITES, sites=10, budget=3, helps=True),
    "10 sites, 3 drawn, 30 % missing": replace(SITES, sites=10, budget=3, missing=0.3),
    "50 sites, 10 drawn, an effect": replace(SITES, sites=50, budget=10, helps=True),
    "10 sites, 30 people drawn one by one": replace(SITES, sites=10, budget=30, one_by_one=True),
}
MISSING = {
    "at random": (Settings(n_arms=100, budget=30), [[0.3, 0.3], [0.3, 0.3]]),
    "not helped": (Settings(n_arms=100, budget=30), [[0.31, 0.31], [0.5, 0.1]]),
    "opposite": (Settings(n_arms=100, budget=30, helps=False), [[0.1, 0.5], [0.335, 0.1]]),
}


def together(settings: Settings, programmes: int) -> list[list[str]]:
    """Return the cells for programmes that are analysed one by one, and by site."""
    played = [play(settings, np.random.default_rng([23, k])) for k in range(programmes)]
    return [_coverage(played, cluster) for cluster in (None, "site")]


def _coverage(played: list[Programme], cluster: str | None) -> list[str]:
    anytime, at_end, half, noticed = [], [], [], []
    for programme in played:
        found, truth = mf.effect(programme.log(), cluster=cluster), programme.truth()
        course = found.rounds
        anytime.append(not ((course.anytime_low > truth) | (course.anytime_high < truth)).any())
        at_end.append(found.asymptotic[0] <= truth[-1] <= found.asymptotic[1])
        half.append(found.interval[1] - found.interval[0])
        noticed.append(found.together is not None)
    parts = [f"{100 * np.mean(values):.1f} %" for values in (anytime, at_end, noticed)]
    return ["by site" if cluster else "one by one", *parts, f"{50 * np.nanmean(half):.1f}"]


def missing(settings: Settings, silent: list[list[float]], programmes: int) -> list[str]:
    """Return the cells for programmes in which these chances say who is silent."""
    rows = []
    for k in range(programmes):
        rng = np.random.default_rng([29, k])
        programme = silenced(play(settings, rng), np.array(silent), rng)
        found, truth, off = mf.effect(programme.log()), programme.mean_effect(), unseen_shift(programme)
        known = found.sensitivity
        low, high = found.interval
        tips = known.tipping["worse"]
        weight = known.weight.sum()
        rows.append(
            [
                found.estimate - truth,
                found.missing.differs,
                low <= truth <= high,
                low + off <= truth <= high + off,
                known.outer[0] <= truth <= known.outer[1],
                tips,
                -off / weight,
            ]
        )
    bias, warned, as_is, moved, outer, tips, differ = np.array(rows, float).T
    parts = [f"{100 * part.mean():.1f} %" for part in (warned, as_is, moved, outer)]
    return [f"{100 * bias.mean():+.1f}", *parts, f"{100 * np.median(tips):.0f}", f"{100 * differ.mean():.0f}"]


def fitted(settings: Settings, silent: list[list[float]], programmes: int) -> list[str]:
    """Return the cells for fits of such programmes."""
    rows = []
    for k in range(programmes):
        truth = mf.benefit(make_arms(settings, np.random.default_rng([29, k]))).mean()
        rng = np.random.default_rng([29, k])
        programme = silenced(play(settings, rng), np.array(silent), rng)
        log = programme.log()
        found = mf.fit(log, budget=settings.budget, estimate="pooled", method="delta")
        known = found.sensitivity
        assert known is not None
        moved = [_differed(programme, found, drawn) for drawn in (1, 0)]
        low, high = known.bounds
        size = (known.missing * [[-1, 1]]).sum(axis=(0, 1)) @ moved[::-1] / known.missing.sum()
        warned = missing_states(log).uneven
        off = known.mean_benefit() - truth, known.mean_benefit(*moved) - truth
        rows.append([off[0], warned, off[1], low <= truth <= high, known.tipping, -size])
    bias, warned, moved_bias, inside, tips, differ = np.array(rows, float).T
    parts = [f"{100 * warned.mean():.1f} %", f"{moved_bias.mean():+.3f}", f"{100 * inside.mean():.1f} %"]
    return [f"{bias.mean():+.3f}", *parts, f"{100 * np.median(tips):.0f}", f"{100 * differ.mean():.0f}"]


def _differed(programme: Programme, found: Fit, drawn: int) -> float:
    """Return by how much those who were not seen after a draw were good more often than estimated."""
    lost = programme.seen[:-1] & ~programme.seen[1:] & (programme.drawn == drawn)
    rounds, arms = np.nonzero(lost)
    expected = found.estimate[arms, programme.states[rounds, arms], drawn]
    return float((programme.states[rounds + 1, arms] - expected).mean())


def main() -> None:
    parser = argparse.ArgumentParser(description="What meritfair effect assumes.")
    parser.add_argument("--programmes", type=int, default=400)
    number = parser.parse_args().programmes
    rows, others, fits = [], [], []
    with progress_bar(len(TOGETHER) + 2 * len(MISSING)) as begin:
        for case, settings in TOGETHER.items():
            begin(case)
            rows += [[case, *cells] for cells in together(settings, number)]
        for case, (settings, silent) in MISSING.items():
            begin(case)
            others.append([case, *missing(settings, silent, number)])
            begin(f"{case}, fitted")
            fits.append([case, *fitted(settings, silent, max(1, number // 4))])
    title = f"{number} programmes each, of 40 rounds unless said otherwise"
    headings = ["programme", "analysed", "anytime", "one look", "noticed", "half\nwidth"]
    print_table(headings, rows, f"Arms drawn together: {title}", "llrrrr")
    headings = [
        "missing",
        "bias",
        "rates\nwarn",
        "interval\nholds",
        "moved,\nholds",
        "outer\nhold",
        "tipping",
        "in truth",
    ]
    print_table(headings, others, f"Effect, states missing because of what they are, in percentage points: {title}")
    headings = ["missing", "bias", "rates\nwarn", "moved,\nbias", "bounds\nhold", "tipping", "in truth"]
    print_table(headings, fits, f"Mean benefit of a fit: {max(1, number // 4)} programmes each")


if __name__ == "__main__":
    main()
