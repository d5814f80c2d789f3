"""How many draws it takes until the audit finds a bias: `./mf python benchmarks/audit.py [--logs 30]`.

20 arms, 4 of them drawn a round, at level 0.05. The table has the number of draws until the overall e-value rejects:
the median of the logs, what nine in ten need, and how many of them are found within 100,000 draws. Below it, how many
fair logs are ever accused, if they are looked at after every round, by the audit and by z-tests used in the same way.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import stats

import meritfair as mf
from meritfair.auditing import DrawLog, audit
from meritfair.cli.show import print_note, print_table
from meritfair.core.arrays import AnyArray, FloatArray, IntArray
from meritfair.core.progress import progress_bar

N, K, MOST_DRAWS = 20, 4, 100_000
MERIT = np.exp(np.linspace(-1, 1, N))
UNEVEN, EVEN = mf.fair_exposure(MERIT, K), np.full(N, K / N)
GROUP = np.arange(N) % 2
HALVES = np.where(np.arange(N) < N // 2, 1, -1)
LONG = "one arm's exposure 2 % higher"  # takes so many draws that fewer logs have to do
FAIR_LOGS, FAIR_ROUNDS, FAIR_LEVEL = 400, 300, 0.2
Drawn = Callable[[np.random.Generator], IntArray]


def log_of(exposure: FloatArray, drawn: AnyArray, group: AnyArray | None = None) -> DrawLog:
    rounds, arms = drawn.shape
    groups = None if group is None else np.tile(group, rounds)
    numbers = np.repeat(np.arange(1, rounds + 1), arms), np.tile(np.arange(arms), rounds)
    return DrawLog(*numbers, np.broadcast_to(exposure, drawn.shape).ravel(), drawn.ravel(), groups)


def with_exposure(exposure: FloatArray, draws: int = MOST_DRAWS) -> Drawn:
    """Return how to draw with this exposure, whatever was stated."""
    return lambda rng: mf.draw_exposures(exposure, rng=rng, size=draws // K, design="systematic").astype(np.int64)


def with_favourite(exposure: FloatArray, favourite: int, share: float) -> Drawn:
    """Return how to draw if in a share of the rounds the favourite takes the place of an arm that was drawn."""

    def drawn(rng: np.random.Generator) -> IntArray:
        pulled = with_exposure(exposure)(rng)
        rows = np.flatnonzero((rng.random(len(pulled)) < share) & (pulled[:, favourite] == 0))
        out = np.where(pulled[rows] == 1, rng.random((len(rows), N)), -1).argmax(axis=1)
        pulled[rows, out], pulled[rows, favourite] = 0, 1
        return pulled

    return drawn


def biases() -> dict[str, tuple[FloatArray, Drawn, AnyArray | None]]:
    """Return what is stated, how it is drawn, and which groups are named."""
    by_group = UNEVEN + 0.02 * K / (N / 2) * np.where(GROUP == 0, 1, -1)
    one = EVEN + 0.02 * EVEN[0] * np.where(np.arange(N) == 0, 1, -1 / (N - 1))
    return {
        "thin: half of the arms 2 points above": (UNEVEN, with_exposure(UNEVEN + 0.02 * HALVES), None),
        "2 % of the draws diverted to a favourite": (EVEN, with_favourite(EVEN, 0, 1 - 0.98**K), None),
        "a group gets 2 % of all draws more": (UNEVEN, with_exposure(by_group), GROUP),
        "the same, groups not named": (UNEVEN, with_exposure(by_group), None),
        "a favourite in 2 % of the rounds": (UNEVEN, with_favourite(UNEVEN, 9, 0.02), None),
        "the same, all exposures 0.2": (EVEN, with_favourite(EVEN, 0, 0.02), None),
        LONG: (EVEN, with_exposure(one, 20 * MOST_DRAWS), None),
    }


def draws_needed(stated: FloatArray, drawn: Drawn, group: AnyArray | None, logs: int, begin: Any) -> list[str]:
    needed = []
    for number in range(logs):
        begin(f"log {number + 1}")
        found = audit(log_of(stated, drawn(np.random.default_rng(number)), group)).overall.found
        needed.append(np.inf if found is None else found * K)
    median, most = (f"{each:,.0f}" for each in np.quantile(needed, (0.5, 0.9), method="higher"))
    return [median, most, f"{100 * np.mean(np.array(needed) <= MOST_DRAWS):.0f} %"]


def ever_beyond(exposure: FloatArray, drawn: AnyArray) -> bool:
    """Whether z-tests of all arms, at a level for one look at all of them, ever reject in one of many looks."""
    n = np.arange(1, len(drawn) + 1)[:, None]
    z = np.cumsum(drawn - exposure, axis=0) / np.sqrt(n * exposure * (1 - exposure))
    return bool((np.abs(z[30:]) > stats.norm.isf(FAIR_LEVEL / (2 * drawn.shape[1]))).any())


def accused(logs: int, begin: Any) -> tuple[int, int]:
    """Return how many fair logs the audit and z-tests ever accuse."""
    rng, ours, theirs = np.random.default_rng(5), 0, 0
    begin("fair logs")
    for _ in range(logs):
        merit = np.exp(rng.normal(size=8))
        exposure, drawn = mf.fair_exposure(merit, 3), mf.draw(merit, 3, rng=rng, size=FAIR_ROUNDS)
        ours += audit(log_of(exposure, drawn, np.arange(8) % 2), FAIR_LEVEL, fixed_budget=True).overall.violated
        theirs += ever_beyond(exposure, drawn)
    return ours, theirs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--logs", type=int, default=30, help="of each bias")
    logs = parser.parse_args().logs
    fewer = {LONG: max(1, logs // 6)}
    with progress_bar(len(biases()) * logs + 1) as begin:
        rows = [[name, *draws_needed(*bias, fewer.get(name, logs), begin)] for name, bias in biases().items()]
        ours, theirs = accused(FAIR_LOGS, begin)
    print_table(["bias", "median", "nine in ten", "within 100,000"], rows, "Draws until the audit rejects")
    print_note(
        f"Fair logs of {FAIR_ROUNDS} rounds at level {FAIR_LEVEL:g}, looked at after each round: "
        f"of {FAIR_LOGS}, {ours} were ever accused; by z-tests {theirs}."
    )


if __name__ == "__main__":
    main()
