"""How well the policies learn, and what their guarantees cost: `./mf python benchmarks/policies.py [--quick]`.

Two questions, on synthetic instances of 20 arms, 4 of them pulled, 200 steps an episode, states carried on:

1. How near does each learner come to the Whittle policy, which knows the arms? The measure is the intervention benefit:
   0 is never pulling anyone, 1 is the Whittle policy. It is that of the last tenth of the episodes. What the same
   policy has if it knows the arms is put beside it, as guarantees cost something even then.
2. What does each guarantee cost in reward, and is it kept?

It takes about six minutes on one core.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

import meritfair as mf
from meritfair.cli.show import policy_cell, print_note, print_table
from meritfair.core.progress import progress_bar
from meritfair.datasets import instances
from meritfair.engine.q_learning import explore_less, new_values, rank_by_values
from meritfair.simulation.columns import COLUMNS
from meritfair.simulation.metrics import intervention_benefit

if TYPE_CHECKING:
    from meritfair.core.arrays import FloatArray, IntArray

N_ARMS, BUDGET, HORIZON = 20, 4, 200
LENGTHS, RUNS = (20, 200, 2000), 30
FEW = 5  # runs of those that take long, at the greatest length


def learn_as_published(memory: FloatArray, states: IntArray, actions: IntArray, next_states: IntArray) -> None:
    """Move Q as WIQL does, but subtract nothing."""
    for arm in range(len(states)):
        at, after = 2 * states[arm] + actions[arm], next_states[arm]
        target = after + memory[arm, 8] * max(memory[arm, 2 * after], memory[arm, 2 * after + 1])
        memory[arm, at] += (target - memory[arm, at]) / (memory[arm, 4 + at] + 1.0)
        memory[arm, 4 + at] += 1.0


@dataclass(frozen=True)
class PublishedWIQL(mf.Policy):
    """WIQL without what is changed in it here; the paper's discount is 1."""

    name: ClassVar[str] = "published-wiql"
    plans_once = True
    discount: float = 1.0

    def plan(self, view: mf.policies.View) -> mf.policies.StepLearner:
        memory = np.tile(new_values(self.discount), (*view.counts.visits.shape[:-2], 1))
        return mf.policies.StepLearner(memory, rank_by_values, learn_as_published, explore_less)


LEARNERS: dict[str, mf.Policy] = {
    "thompson-whittle": mf.ThompsonWhittle(),
    "uc-whittle": mf.UCWhittle(),
    "uc-whittle:bound=penalty": mf.UCWhittle(bound="penalty"),
    "uc-whittle:bound=extreme": mf.UCWhittle(bound="extreme"),
    "wiql": mf.WIQL(),
    "wiql:as published": PublishedWIQL(),
    "wiql:as published,discount=0.9": PublishedWIQL(discount=0.9),
    "ab-whittle": mf.ABWhittle(),
    "ab-whittle:exploration=0.01": mf.ABWhittle(exploration=0.01),
    "fawt-q": mf.FaWTQ(),
    "fawt:estimate=mean": mf.FaWT(estimate="mean"),
    "soft-fair:c=10": mf.SoftFair(c=10.0),
    "prob-fair:lower=0,estimate=mean": mf.ProbFair(lower=0.0, estimate="mean"),
    "fair-ucrl:minimum=0": mf.FairUCRL(minimum=0.0),
}
IF_KNOWN: dict[str, mf.Policy] = {
    "fawt-q": mf.FaWT(),
    "fawt:estimate=mean": mf.FaWT(),
    "soft-fair:c=10": mf.SoftFair(c=10.0, estimate="known"),
    "prob-fair:lower=0,estimate=mean": mf.ProbFair(lower=0.0),
}  # of the others it is the Whittle policy
SLOW = ("prob-fair", "fair-ucrl")
GUARANTEES: dict[str, mf.Policy] = {
    "whittle": mf.Whittle(),
    "fawt:least=1,window=10": mf.FaWT(least=1, window=10),
    "fawt:least=2,window=15": mf.FaWT(least=2, window=15),
    "fawt-q:least=2,window=15": mf.FaWTQ(least=2, window=15),
    "prob-fair:lower=0.1": mf.ProbFair(lower=0.1),
    "fair-ucrl:minimum=0.1": mf.FairUCRL(minimum=0.1),
    "fair-oracle": mf.FairOracle(),
    "fair-oracle:design=exact": mf.FairOracle(design="exact"),
    "fair-oracle:design=exact,floor=0.1": mf.FairOracle(design="exact", floor=0.1),
    "soft-fair:estimate=known": mf.SoftFair(estimate="known"),
    "equitable": mf.Equitable(),
    "equitable:welfare=nash": mf.Equitable(welfare="nash"),
    "random": mf.Random(),
    "round-robin": mf.RoundRobin(),
}
BENEFIT = COLUMNS["intervention_benefit"]


def play(policy: mf.Policy, episodes: int, runs: int, progress: Any = None) -> mf.Run:
    arms = instances("synthetic", N_ARMS, runs, 7)
    return mf.simulate(
        arms, policy, budget=BUDGET, episodes=episodes, horizon=HORIZON, seed=1, carry_states=True, progress=progress
    )


def last_tenth(run: mf.Run) -> Any:
    return run.reward[:, -max(1, run.episodes // 10) :].mean(axis=1)


def learning(lengths: tuple[int, ...], runs: int) -> list[list[str]]:
    """Return for each learner the benefit after so many episodes, and if it knows the arms."""
    rows = []
    with progress_bar(2 * len(lengths) + len(LEARNERS) * (len(lengths) + 1)) as begin:

        def ends(name: str, policy: mf.Policy, episodes: int, number: int = runs) -> Any:
            return last_tenth(play(policy, episodes, number, begin(name)))

        none, best = ([ends(p.name, p, n) for n in lengths] for p in (mf.NoAction(), mf.Whittle()))
        for name, policy in LEARNERS.items():
            known = ends(name, IF_KNOWN.get(name, mf.Whittle()), lengths[1])
            cells = [policy_cell(name), BENEFIT.number(intervention_benefit(known, none[1], best[1]).mean)]
            for episodes, nothing, all_ in zip(lengths, none, best, strict=True):
                slow = name.startswith(SLOW) and episodes == max(LENGTHS)
                own = ends(name, policy, episodes, FEW if slow else runs)
                found = intervention_benefit(own, nothing[: len(own)], all_[: len(own)])
                cells.append(BENEFIT.in_short(found))
            rows.append(cells)
    return rows


def guarantees(episodes: int, runs: int) -> list[list[str]]:
    """Return for each policy with a guarantee what it costs, and what everyone gets."""
    rows = []
    with progress_bar(len(GUARANTEES) + 1) as begin:
        none = play(mf.NoAction(), episodes, runs, begin("none"))
        best = none
        for name, policy in GUARANTEES.items():
            run = play(policy, episodes, runs, begin(name))
            best = run if name == "whittle" else best  # the first
            benefit = intervention_benefit(*(each.reward.sum(axis=1) for each in (run, none, best)))
            good = run.good.sum(axis=(-2, -1)) / run.visits.sum(axis=(-2, -1))
            rows.append(
                [
                    policy_cell(name),
                    BENEFIT.in_short(benefit),
                    f"{run.exposure.min(axis=1).mean():.3f}",
                    f"{run.longest_wait.max():,}",
                    f"{run.fairness_regret.mean():.2f}",
                    f"{float(np.mean(mf.metrics.gini(run.pulls))):.2f}",
                    f"{good.min(axis=1).mean():.1%}",
                ]
            )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few runs, short: to see that it works")
    quick = parser.parse_args().quick
    lengths, runs = ((5, 20), 3) if quick else (LENGTHS, RUNS)
    steps = [f"{n * HORIZON:,}\nsteps" for n in lengths]
    columns = ["learner", "if it knew\nthe arms", *steps]
    print_table(columns, learning(lengths, runs), "Intervention benefit at the end: 0 is none, 1 is the Whittle policy")
    headings = ("benefit", "smallest\nexposure", "longest\nwait", "fairness\nregret", "Gini", "worst arm\nis good")
    print_table(
        ["policy", *headings], guarantees(lengths[1], runs), f"What guarantees cost, {lengths[1] * HORIZON:,} steps"
    )
    print_note(
        "After ±: half of the 95 % interval, mostly because instances differ, and these are the same for all. Smallest "
        "exposure, worst arm: means over runs. Longest wait: of any arm in any run. Fairness regret: an episode."
    )


if __name__ == "__main__":
    main()
