"""How much narrower differences of policies are run by run: `./mf python benchmarks/paired.py [--quick]`.

In run r all policies meet the same arms and the same coins. What these do to all of them cancels in a difference, so
that its interval, drawn from differences of runs, is narrower than that of policies which were played independently.

The table has the half width of both intervals, of the difference to merit-fair in the share of good arms (CPAP, 20
arms, 4 pulled), and their ratio. At most half as wide is the aim for whittle, which looks at states as merit-fair does
not. Once each run has arms of its own, and once all have the same ones: then only the coins can cancel.
"""

from __future__ import annotations

import argparse
from typing import Any

import meritfair as mf
from meritfair.cli.show import print_note, print_table
from meritfair.core.progress import progress_bar
from meritfair.datasets import instances
from meritfair.simulation.bootstrap import Difference

N_ARMS, BUDGET, RUNS = 20, 4, 30
POLICIES = ["merit-fair", "whittle", "soft-fair", "wiql", "random", "none"]
AIM = 0.5


def half_widths(found: Difference) -> tuple[float, float]:
    """Return half the width of the paired and of the unpaired interval."""
    paired, unpaired = ((each.high - each.low) / 2 for each in found)
    return paired, unpaired


def row(arms: str, label: str, found: Difference) -> list[str]:
    """Return a row of the table, in percentage points."""
    paired, unpaired = half_widths(found)
    numbers = (f"{100 * value:.3f}" for value in (paired, unpaired))
    return [arms, label, f"{100 * found.paired.mean:+.2f}", *numbers, f"{paired / unpaired:.2f}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="20 episodes instead of 200")
    episodes = 20 if parser.parse_args().quick else 200
    rows, ratios = [], []
    settings: Any = {"budget": BUDGET, "episodes": episodes, "runs": RUNS, "seed": 1}
    own = instances("cpap", N_ARMS, RUNS, seed=1)
    problems: dict[str, Any] = {"own": own, "the same": own[0]}
    with progress_bar(2) as begin:
        for title, arms in problems.items():
            begin(f"arms of a run: {title}")
            differences = mf.compare(arms, POLICIES, **settings).differences(POLICIES[0])
            rows += [row(title, label, differences[label]) for label in POLICIES[1:]]
            paired, unpaired = half_widths(differences["whittle"])
            ratios.append(paired / unpaired)
    headings = ["arms of\na run", "policy", "difference to\nmerit-fair", "± paired", "± unpaired", "ratio"]
    print_table(
        headings, rows, f"Share of good arms, in percentage points, {RUNS} runs of {episodes} episodes", "llrrrr"
    )
    kept = "met" if max(ratios) <= AIM else "missed"
    print_note(f"whittle: ratio of at most {AIM} is {kept} ({' and '.join(f'{ratio:.2f}' for ratio in ratios)}).")


if __name__ == "__main__":
    main()
