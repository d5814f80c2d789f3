"""What slack gains, and how much of it is reached: `./mf python benchmarks/slack.py`.

Four parts, each of which can be run alone (`--part`):

bars
    Known arms. The gain of the timed lottery over the lottery, which is blind to states, as a part of the gain of the
    bound that holds for any slack; with the bars that it is to reach.
optimum
    Three arms, or four, one of them pulled at each step. What is due to each arm, what it is given and its account are
    multiples of 1/m, so the states of all arms and their accounts are a finite Markov decision process. Its largest
    average reward is found by dynamic programming: no policy that keeps all accounts within the slack, on this grid,
    has a larger one. What the timed lottery gains is put beside it; its own accounts need no grid.
learned
    Arms that are not known. Benefit, the reward beyond that of pulling nobody, relative to the timed lottery that knows
    the arms; and the fairness regret relative to the lottery that learns.
programme
    A programme that starts from nothing: its intervention benefit over all rounds, by how many rounds it has.

It takes about fifteen minutes on two cores, with `--quick` half a minute.
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
from meritfair.policies import Lottery, TimedLottery
from meritfair.simulation.metrics import intervention_benefit

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from meritfair.core.arrays import FloatArray, IntArray

DATASETS = ("synthetic", "synthetic-alternate", "cpap")
MERIT = mf.Exponential(3.0)
SIZES = ((5, 1), (20, 4), (100, 20))
PARTS = ("bars", "optimum", "learned", "programme")
ROUNDS = (50, 200, 1_000, 4_000, 40_000, 200_000)
BARS = {0.5: (0.70, 0.48, 0.70), 2.0: (0.92, 0.75, 0.92), 10.0: (0.97, 0.93, 0.98)}  # by slack, for each data set
SURE = 0.03
LEAST_BENEFIT, MOST_REGRET = 0.95, 1.25  # of what is learned

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


# ---- the parts


def gained(
    arms: tuple[mf.Arms, ...], due: FloatArray, slack: float, budget: int, steps: int
) -> tuple[FloatArray, FloatArray]:
    """Return what the timed lottery gains over the lottery at a step, for each set of arms, and its standard error.

    Both meet the same coins, so most of the noise is in both. A tenth of the steps comes first and does not count.
    """
    how: dict[str, Any] = {"budget": budget, "episodes": 22, "horizon": steps // 20, "carry_states": True, "seed": 1}
    lottery = Lottery(due, "exact")
    timed = TimedLottery(lottery, np.stack([each.transitions for each in arms]), slack)
    ours, blind = (mf.simulate(arms, _always(plan), **how).reward[:, 2:] for plan in (timed, lottery))
    apart = (ours - blind) / how["horizon"]
    return apart.mean(axis=1), apart.std(axis=1, ddof=1) / np.sqrt(apart.shape[1])


def _always(plan: Lottery | TimedLottery) -> Callable[[mf.policies.View], Lottery | TimedLottery]:
    return lambda view: plan  # noqa: ARG005


def largest_gain(arms: tuple[mf.Arms, ...], due: FloatArray) -> FloatArray:
    """Return what the bound has beyond the lottery, for each set of arms."""
    P = np.stack([each.transitions for each in arms])
    return np.asarray((mf.best_good_share(P, due) - mf.steady_state(P, due)).sum(axis=-1))


def bars(quick: bool) -> None:
    """Show the part of the bound's gain that is reached with known arms."""
    sizes = SIZES[:2] if quick else SIZES
    slacks = (0.5, 2.0) if quick else (0.5, 1.0, 2.0, 5.0, 10.0)
    n_instances, steps, rows = 5 if quick else 30, 20_000 if quick else 100_000, []
    with progress_bar(len(sizes) * len(slacks) * len(DATASETS)) as begin:
        for (number, name), slack in product(enumerate(DATASETS), slacks):
            parts = []
            for n_arms, budget in sizes:
                begin(f"{name}, {n_arms} arms, slack {slack:g}")
                parts.append(_part_of_bound(name, n_arms, budget, slack, n_instances, steps))
            bar = BARS[slack][number] if slack in BARS else None
            least = min(part.mean() for part in parts[1:])  # the bound of 5 arms is out of reach
            cells = [f"{part.mean():.3f} ±.{1000 * _half(part):03.0f}" for part in parts]
            rows.append([name, f"{slack:g}", *cells, *_judged(least, bar)])
    columns = ["data set", "slack", *(f"{n}, {k}" for n, k in sizes), "bar", "met"]
    print_table(columns, rows, "Known arms: part of the bound's gain over the lottery, by N and K")
    print_note(f"Means over {n_instances} of the authors' instances; ± is half of the 95 % interval.")


def _part_of_bound(name: str, n_arms: int, budget: int, slack: float, number: int, steps: int) -> FloatArray:
    arms = instances(name, n_arms, number, authors=True, budget=budget)
    due = mf.fair_exposure(MERIT(np.stack([each.benefit for each in arms])), budget, "exact")
    return gained(arms, due, slack, budget, steps)[0] / largest_gain(arms, due)


def _half(values: FloatArray) -> float:
    """Return half of the 95 % interval of a mean."""
    return float(1.96 * values.std(ddof=1) / np.sqrt(len(values)))


def _judged(value: float, bar: float | None) -> tuple[str, str]:
    """Return a bar and whether it is met."""
    return ("", "") if bar is None else (f"{bar:.2f}", "yes" if value >= bar else "NO")


def optimum(quick: bool) -> None:
    """Show what the rule gains of what the best policy gains, in small systems."""
    cases = [(3, slack, 10) for slack in (0.5, 1.0, 2.0)] + ([] if quick else [(4, 0.5, 10), (4, 1.0, 10)])
    rows = []
    with progress_bar(len(cases) * len(DATASETS)) as begin:
        for (n_arms, slack, grid), name in product(cases, DATASETS):
            begin(f"{name}, {n_arms} arms, slack {slack:g}")
            best, rule, error = _against_optimum(name, n_arms, slack, grid, 2 if quick else 10)
            whole, off = rule.sum() / best.sum(), 1.96 * np.sqrt((error**2).sum()) / best.sum()
            sure = 1.96 * error / best < SURE
            parts = (rule / best)[sure]
            cells = [f"{parts.mean():.3f}", f"{parts.min():.3f}"] if len(parts) else ["", ""]
            rows.append([str(n_arms), f"{slack:g}", name, f"{whole:.3f} ±{off:.3f}", *cells, str(len(parts))])
    columns = ["arms", "slack", "data set", "of all gains", "mean", "worst", "of"]
    print_table(columns, rows, "Small systems: what the timed lottery gains of what the optimum gains")
    print_note(
        "Over the lottery, one arm pulled at a step; ± is half of the 95 % interval. Mean and worst are of those "
        f"instances alone, {2 if quick else 10} at most, whose part is known to ±{SURE}: in the others slack gains too "
        "little to tell. The optimum is on a grid, so that a part can be a little above 1."
    )


def _against_optimum(
    name: str, n_arms: int, slack: float, grid: int, number: int
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return what the optimum and the timed lottery gain over the lottery, and the error, for each instance."""
    arms = instances(name, n_arms, number, seed=1)
    due = np.stack([due_on_grid(each, grid) for each in arms])
    best = [optimal_average(each.transitions, e, slack, grid) for each, e in zip(arms, due, strict=True)]
    lottery = mf.steady_state(np.stack([each.transitions for each in arms]), due).sum(axis=-1)
    return np.array(best) - lottery, *gained(arms, due, slack, 1, 4_000_000)


def learned(quick: bool) -> None:
    """Show what the learned policy has of the benefit and of the regret."""
    episodes, repeats, n_instances = (60, 1, 5) if quick else (1000, 3, 30)
    rows = []
    with progress_bar(2 * len(DATASETS)) as begin:
        for (n_arms, budget), name in product(((5, 1), (20, 4)), DATASETS):
            begin(f"{name}, {n_arms} arms")
            arms = instances(name, n_arms, n_instances, authors=True, budget=budget) * repeats
            rows.append([str(n_arms), name, *_learned_row(arms, budget, episodes)])
    columns = ["arms", "data set", "benefit,\nall", "last\ntenth", "met", "blind,\nall", "regret", "met"]
    print_table(columns, rows, f"Learned, slack 2, {episodes:,} episodes of 200 steps")
    print_note(
        "Benefit relative to that of the timed lottery that knows the arms; blind: the learned lottery without slack. "
        f"Regret: of planned shares, relative to that lottery's. The bars are {LEAST_BENEFIT} at the end and "
        f"{MOST_REGRET}. {n_instances} instances, {repeats} of each."
    )


def _learned_row(arms: tuple[mf.Arms, ...], budget: int, episodes: int) -> list[str]:
    def play(policy: mf.Policy) -> mf.Run:
        return mf.simulate(arms, policy, budget=budget, episodes=episodes, seed=1, carry_states=True)

    ours, blind = (play(mf.MeritFair(merit=MERIT, estimate="mean", design="exact", slack=B)) for B in (2.0, 0.0))
    oracle, none = play(mf.FairOracle(merit=MERIT, design="exact", slack=2.0)), play(mf.NoAction())

    def benefit(run: mf.Run, first: int) -> float:
        own, best = (float((each.reward - none.reward)[:, first:].mean()) for each in (run, oracle))
        return own / best

    whole, end, unaware = benefit(ours, 0), benefit(ours, -(episodes // 10)), benefit(blind, 0)
    regret = float(ours.fairness_regret.sum() / blind.fairness_regret.sum())
    met = ["yes" if kept else "NO" for kept in (end >= LEAST_BENEFIT, regret <= MOST_REGRET)]
    return [f"{whole:.3f}", f"{end:.3f}", met[0], f"{unaware:.3f}", f"{regret:.3f}", met[1]]


def programme(quick: bool) -> None:
    """Show the intervention benefit of whole programmes, by their number of rounds."""
    numbers, n_instances, rows = ROUNDS[:3] if quick else ROUNDS, 5 if quick else 30, []
    learned = [mf.MeritFair(merit=MERIT, estimate="mean", design="exact", slack=B) for B in (0.0, 2.0)]
    known = [mf.FairOracle(merit=MERIT, design="exact", slack=B) for B in (0.0, 2.0)]
    with progress_bar(len(DATASETS) * len(numbers)) as begin:
        for name in DATASETS:
            cells = []
            for rounds in numbers:
                begin(f"{name}, {rounds:,} rounds")
                repeats = 1 if quick else max(3, 10_000 // rounds)
                arms = instances(name, 20, n_instances, authors=True, budget=4) * repeats
                cells.append(_programme(arms, learned, 4, rounds))
            cells.append(_programme(arms, known, 4, numbers[-1]))
            for slack, row in zip(("0", "2"), zip(*cells, strict=True), strict=True):
                rows.append([name, slack, *row])
    columns = ["data set", "slack", *(f"{rounds:,}" for rounds in numbers), "known"]
    print_table(columns, rows, "A programme that starts from nothing: intervention benefit, by rounds")
    print_note(
        f"0 is never pulling, 1 is whittle. Estimate mean, N = 20, K = 4, {n_instances} instances, each several times. "
        "There is a plan for each round, and from 1,000 rounds on there are 1,000 plans in all. Known: the arms are "
        "known, in the longest programme."
    )


def _programme(arms: tuple[mf.Arms, ...], policies: Sequence[mf.Policy], budget: int, rounds: int) -> list[str]:
    """Return the intervention benefit of each policy over that many rounds."""
    episodes = min(rounds, 1000)
    how: dict[str, Any] = {"budget": budget, "episodes": episodes, "horizon": rounds // episodes, "seed": 1}

    def reward(policy: mf.Policy) -> IntArray:
        return np.asarray(mf.simulate(arms, policy, carry_states=True, **how).reward.sum(axis=1))

    none, best = reward(mf.NoAction()), reward(mf.Whittle())
    return [f"{intervention_benefit(reward(policy), none, best).mean:.3f}" for policy in policies]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few instances, short: to see that it works")
    parser.add_argument("--part", choices=PARTS, action="append", help="run this part alone; may be repeated")
    settings = parser.parse_args()
    functions = {"bars": bars, "optimum": optimum, "learned": learned, "programme": programme}
    for name in settings.part or PARTS:
        functions[name](settings.quick)


if __name__ == "__main__":
    main()
