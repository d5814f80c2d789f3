"""How much of what slack allows is reached, in small systems that can be solved: `./mf python benchmarks/slack.py`.

Three arms, or four, one of them pulled at each step. What is due to each arm, what it is given and its account are
multiples of 1/m, so the states of all arms and their accounts are a finite Markov decision process. Its largest average
reward is found by dynamic programming: no policy that keeps all accounts within the slack, on this grid, has a larger
one. It is put beside the lottery, which is blind to states, and the bound that holds for any slack. Gains over the
lottery are given as parts of the gain of the bound. It takes about three minutes, with `--quick` some seconds.
"""

from __future__ import annotations

import argparse
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numba
import numpy as np

import meritfair as mf
from meritfair.cli.show import print_note, print_table
from meritfair.core.progress import progress_bar
from meritfair.datasets import instances

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from meritfair.core.arrays import FloatArray, IntArray

DATASETS = ("synthetic", "synthetic_alternate", "cpap")
MERIT = mf.Exponential(3.0)

_Function = TypeVar("_Function", bound="Callable[..., Any]")


def compiled(function: _Function) -> _Function:
    fast: Any = numba.njit()(function)
    kept: _Function = fast
    return kept


class Process(NamedTuple):
    """A Markov decision process: S states of all arms, D accounts, A given exposures."""

    reward: FloatArray  # (S,), how many arms are good
    moves: FloatArray  # (S, N, S), the next state of all arms by which arm is pulled
    given: FloatArray  # (A, N)
    following: IntArray  # (D, A), the next account; -1 is beyond the slack


def optimal_average(
    transitions: npt.ArrayLike, due: npt.ArrayLike, slack: float, grid: int, tolerance: float = 1e-6
) -> float:
    """Return the largest average number of good arms if one arm is pulled at a step and accounts keep within the slack.

    Parameters
    ----------
    transitions : array_like, shape (N, 2, 2)
        Probability that the next state is good, by arm, state and action.
    due : array_like, shape (N,)
        What each arm is due at each step: multiples of 1/grid above 0, with sum 1.
    slack : float
        How far any account may go from 0: a multiple of 1/grid.
    grid : int
        Exposures given, and so accounts, are multiples of 1/grid.
    tolerance : float
        How far the answer may be off.
    """
    process = _process(np.asarray(transitions, dtype=np.float64), _units(due, grid), int(_units(slack, grid)), grid)
    value = np.zeros((len(process.reward), len(process.following)))
    while True:  # modified policy iteration
        better, choice = _improve(_expected(process, value), process.given, process.following)
        change = better - value
        if np.ptp(change) < 2 * tolerance:  # the largest average lies between the least and the largest change
            return float(change.max() + change.min()) / 2
        value = _damped(value, better)
        for _ in range(40):
            ahead = _expected(process, value)
            value = _damped(value, _follow(ahead, process.given, process.following, choice))


def _damped(value: FloatArray, following: FloatArray) -> FloatArray:
    """Return a step towards the following values, short of a whole one, as accounts may be periodic."""
    step = 0.1 * value + 0.9 * following
    return np.asarray(step - step[0, 0])


def _units(numbers: npt.ArrayLike, grid: int) -> IntArray:
    """Return multiples of 1/grid as whole numbers."""
    exact = np.asarray(numbers, dtype=np.float64) * grid
    units = np.rint(exact).astype(np.int64)
    if np.abs(units - exact).max() > 1e-9:
        raise ValueError(f"due and slack must be multiples of 1/{grid}, got {exact / grid}")
    return units


def _process(P: FloatArray, due: IntArray, slack: int, grid: int) -> Process:
    n_arms = len(due)
    if due.sum() != grid or due.min() <= 0:
        raise ValueError(f"due must be above 0 and sum to 1, got {due / grid}")
    states = np.array(list(product((0, 1), repeat=n_arms)))
    given = _sum_to(grid, 0, grid, n_arms)
    accounts = _sum_to(0, -slack, slack, n_arms)
    number = np.full((2 * slack + 1,) * (n_arms - 1), -1)
    number[tuple(accounts[:, :-1].T + slack)] = np.arange(len(accounts))
    after = accounts[:, None, :] + due - given
    kept = (np.abs(after) <= slack).all(axis=2)
    inside = np.clip(after[..., :-1], -slack, slack) + slack
    following = np.where(kept, number[tuple(np.moveaxis(inside, 2, 0))], -1)
    return Process(states.sum(axis=1).astype(np.float64), _moves(P, states), given / grid, following)


def _sum_to(total: int, low: int, high: int, n_arms: int) -> IntArray:
    """Return all whole numbers between two bounds, one for each arm, with this sum; shape (..., N)."""
    firsts = np.array(list(product(range(low, high + 1), repeat=n_arms - 1)), dtype=np.int64)
    last = total - firsts.sum(axis=1)
    possible = (last >= low) & (last <= high)
    return np.asarray(np.column_stack([firsts, last])[possible])


def _moves(P: FloatArray, states: IntArray) -> FloatArray:
    """Return the chance of each next state of all arms, by state and by which arm is pulled."""
    S, n_arms = states.shape
    moves = np.ones((S, n_arms, S))
    for pulled in range(n_arms):
        for arm in range(n_arms):
            good = P[arm, states[:, arm], int(arm == pulled)][:, None]
            moves[:, pulled] *= np.where(states[:, arm] == 1, good, 1 - good)
    return moves


def _expected(process: Process, value: FloatArray) -> FloatArray:
    """Return reward plus the expected next value, by state, next account and which arm is pulled: (S, D, N)."""
    ahead = np.tensordot(process.moves, value, axes=1) + process.reward[:, None, None]
    return np.ascontiguousarray(ahead.transpose(0, 2, 1))


@compiled
def _improve(ahead: FloatArray, given: FloatArray, following: IntArray) -> tuple[FloatArray, IntArray]:
    """Return the largest value of each state and account, and which given exposures have it."""
    best = np.full(ahead.shape[:2], -np.inf)
    choice = np.zeros(ahead.shape[:2], dtype=np.int64)
    for state in range(ahead.shape[0]):
        for account in range(ahead.shape[1]):
            for action in range(len(given)):
                after = following[account, action]
                if after >= 0:
                    worth = 0.0
                    for arm in range(given.shape[1]):
                        worth += given[action, arm] * ahead[state, after, arm]
                    if worth > best[state, account]:
                        best[state, account] = worth
                        choice[state, account] = action
    return best, choice


@compiled
def _follow(ahead: FloatArray, given: FloatArray, following: IntArray, choice: IntArray) -> FloatArray:
    """Return the value of each state and account if these exposures are given."""
    worth = np.zeros(choice.shape)
    for state in range(choice.shape[0]):
        for account in range(choice.shape[1]):
            action = choice[state, account]
            after = following[account, action]
            for arm in range(given.shape[1]):
                worth[state, account] += given[action, arm] * ahead[state, after, arm]
    return worth


def due_on_grid(arms: mf.Arms, grid: int) -> FloatArray:
    """Return the fair exposures for one pull, in multiples of 1/grid, none below the first."""
    exact = mf.fair_exposure(MERIT(arms.benefit), 1) * grid
    units = np.maximum(1, np.floor(exact))
    while units.sum() != grid:
        if units.sum() < grid:
            units[np.argmax(exact - units)] += 1
        else:
            units[np.argmax(np.where(units > 1, units - exact, -np.inf))] -= 1
    return np.asarray(units / grid)


def reached(name: str, n_arms: int, slack: float, grid: int, n_instances: int) -> list[float]:
    """Return the optimum's part of the bound's gain over the lottery, for each instance."""
    parts = []
    for arms in instances(name, n_arms, n_instances, seed=1):
        due = due_on_grid(arms, grid)
        lottery = float(mf.steady_state(arms.transitions, due).sum())
        bound = float(mf.best_good_share(arms.transitions, due).sum())
        parts.append((optimal_average(arms.transitions, due, slack, grid) - lottery) / (bound - lottery))
    return parts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="three arms, two instances")
    quick = parser.parse_args().quick
    cases = [(3, slack, 10) for slack in (0.5, 1.0, 2.0)] + ([] if quick else [(4, 0.5, 10), (4, 1.0, 10)])
    rows = []
    with progress_bar(len(cases) * len(DATASETS)) as begin:
        for n_arms, slack, grid in cases:
            parts = []
            for name in DATASETS:
                begin(f"{name}, {n_arms} arms, slack {slack:g}")
                parts.append(np.mean(reached(name, n_arms, slack, grid, 2 if quick else 10)))
            rows.append([str(n_arms), f"{slack:g}", *(f"{part:.3f}" for part in parts)])
    print_table(["arms", "slack", *DATASETS], rows)
    print_note("The best policy's part of the bound's gain over the lottery; one arm is pulled at a step.")


if __name__ == "__main__":
    main()
