"""How often the interval of `whatif` holds the truth, whether it refuses what it should, and how long it takes.

Logs are simulated by a live learner on arms that are known here. The truth for a policy is the expected share in the
good state in the rounds after the log: the true arms, from the same states, played many times without the noise that
can be computed. Run it with `./mf python benchmarks/whatif.py [--logs 300] [--only coverage|refusal|speed]`.
"""

from __future__ import annotations

import argparse
import resource
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

import meritfair as mf
from meritfair.core.arrays import FloatArray, IntArray
from meritfair.scenarios.chains import Chains, whole
from meritfair.scenarios.known import as_known
from meritfair.scenarios.playing import Ahead, follow, plans_in, without_noise
from meritfair.scenarios.start import logged_chance, start_of

LOTTERY = "merit-fair:estimate=mean,design=exact"
RECOMMENDED = "merit-fair:estimate=pooled,design=exact,slack=2"
_PLAYS = 40  # of the true arms


@dataclass(frozen=True)
class Case:
    """A kind of log, and what is asked of it."""

    dataset: str
    n_arms: int
    budget: int
    rounds: int
    missing: float
    logged: str
    asked: str
    asked_budget: int

    def __str__(self) -> str:
        what = f"{self.asked}, budget {self.asked_budget}"
        return (
            f"{self.dataset} {self.n_arms} arms, {self.rounds} rounds, {100 * self.missing:.0f} % missing, logged by "
            f"{self.logged} with {self.budget}: {what}"
        )


def make_log(arms: mf.Arms, policy: str, budget: int, rounds: int, seed: int, missing: float = 0.0) -> mf.StateLog:
    """Return the log of a live learner; the last row of each arm is its state at the end."""
    rng, n_arms = np.random.default_rng(seed), arms.n_arms
    learner = mf.policies.create(policy).start(n_arms=n_arms, budget=budget, seed=seed)
    states, arm = rng.integers(0, 2, n_arms), np.arange(n_arms)
    rows: list[tuple[IntArray, FloatArray, FloatArray]] = []
    for _ in range(rounds):
        choice = learner.choose(states)
        actions = np.asarray(choice.actions, np.int64)
        after = (rng.random(n_arms) < arms.transitions[arm, states, actions]).astype(np.int64)
        learner.observe(states, actions, after)
        rows.append((states, actions.astype(np.float64), choice.exposure))
        states = after
    rows.append((states, np.full(n_arms, np.nan), np.full(n_arms, np.nan)))
    seen, done, exposure = (np.concatenate(column) for column in zip(*rows, strict=True))
    seen = np.where(rng.random(len(seen)) < missing, -1, seen)
    names, numbers = np.tile(arm, rounds + 1), np.repeat(np.arange(rounds + 1), n_arms)
    return mf.StateLog(names, numbers, seen, done, exposure=exposure)


def truth(arms: mf.Arms, log: mf.StateLog, policy: str, budget: int, rounds: int) -> float:
    """Return the expected share in the good state on the true arms in the rounds after the log."""
    belief = start_of(log).belief(arms.transitions)
    states = (np.random.default_rng(0).random((_PLAYS, arms.n_arms)) < belief).astype(np.int64)
    known = mf.fit(log, estimate="pooled", method="delta")
    plans = plans_in(rounds)
    run = mf.simulate(
        arms,
        as_known(mf.policies.create(policy), known.estimate),
        budget=budget,
        episodes=plans,
        horizon=rounds // plans,
        runs=_PLAYS,
        carry_states=True,
        states=states,
        history=whole(known.effective, np.arange(arms.n_arms)),
        criterion=mf.Criterion(design="exact"),
        seed=1,
        workers=1,
    )
    return float(without_noise(run, states, np.broadcast_to(belief, states.shape)).mean())


def truth_as_logged(arms: mf.Arms, log: mf.StateLog, rounds: int) -> float:
    """Return the same if arms are pulled as the log did in the mean."""
    start = start_of(log)
    chains = Chains(mf.Counts.none(arms.n_arms), arms.transitions, arms.transitions[None])
    return float(follow(Ahead(chains, start.belief(chains.draws), rounds, 1, 2, 0), logged_chance(log, start))[0][0])


def cover(case: Case, logs: int, draws: int) -> str:
    """Return how often the interval holds the truth, with the mean error and the width."""
    errors, widths, held, gained, flags, refusals = [], [], 0, 0, 0, 0
    for number in range(logs):
        arms = mf.datasets.instances(case.dataset, case.n_arms, 1, seed=number)[0]
        log = make_log(arms, case.logged, case.budget, case.rounds, number, case.missing)
        how: Any = {"rounds": case.rounds, "draws": draws, "extrapolate": True, "seed": number, "workers": 1}
        found = mf.whatif(log, [case.asked], budget=case.asked_budget, **how).asked[0]
        true = truth(arms, log, case.asked, case.asked_budget, case.rounds)
        errors.append(found.share.mean - true)
        widths.append(found.share.high - found.share.low)
        held += found.share.low <= true <= found.share.high
        more = true - truth_as_logged(arms, log, case.rounds)
        gained += found.difference.low <= more <= found.difference.high
        flags += found.check.disagrees
        refusals += bool(found.check.refusal)
    part, noise = held / logs, 1.96 * np.sqrt(0.95 * 0.05 / logs)
    word = "holds" if 0.93 <= part <= 0.97 else "FAILS"
    return (
        f"{word} {100 * part:5.1f} % of {logs} (noise ±{100 * noise:.1f})  bias "
        f"{np.mean(errors):+.4f}  error {np.std(errors):.4f}  interval/3.92 {np.mean(widths) / 3.92:.4f}  "
        f"differences {100 * gained / logs:.1f} %  disagrees {100 * flags / logs:.1f} %  "
        f"refused {100 * refusals / logs:.1f} %  {case}"
    )


def coverage_cases() -> list[Case]:
    """Return the kinds of logs that are tried: policies near the logged one."""
    return [
        Case("cpap", 50, 10, 30, 0.0, LOTTERY, LOTTERY, 10),
        Case("cpap", 100, 20, 40, 0.0, LOTTERY, RECOMMENDED, 20),
        Case("cpap", 200, 40, 60, 0.0, f"{LOTTERY},slack=2", LOTTERY, 50),
        Case("cpap", 100, 20, 40, 0.3, LOTTERY, RECOMMENDED, 20),
        Case("synthetic", 50, 5, 30, 0.0, LOTTERY, LOTTERY, 5),
        Case("synthetic", 100, 20, 40, 0.0, LOTTERY, RECOMMENDED, 25),
    ]


def refusals() -> None:
    """Print which far-away policies are refused, with the reason."""
    arms = mf.datasets.cpap(n_arms=100, seed=1)
    log = make_log(arms, LOTTERY, 10, 40, 1)
    rare = make_log(arms, "merit-fair:estimate=mean,design=exact,merit=exponential:c=12", 2, 40, 1)
    far = [
        ("five times the budget", log, LOTTERY, 50),
        ("all arms", log, LOTTERY, 100),
        ("whittle on 2 %", rare, "whittle", 2),
    ]
    near = [("as it is", log, LOTTERY, 10), ("a fifth more", log, LOTTERY, 12)]
    for name, records, policy, budget in [*far, *near]:
        found = mf.whatif(records, [policy], budget=budget, draws=20).asked[0]
        wanted = (name, records, policy, budget) in far
        right = bool(found.check.refusal) == wanted
        print(f"{'holds' if right else 'FAILS'} {name}: {found.check.refusal or 'answered'}", flush=True)


def speed(n_arms: int = 10_000, rounds: int = 52) -> None:
    """Print how long eight policies take, from the file on, and the memory of this process at its largest."""
    arms = mf.datasets.cpap(n_arms=n_arms, seed=1)
    log = make_log(arms, LOTTERY, n_arms // 5, rounds, 1, missing=0.3)
    policies = [RECOMMENDED, LOTTERY, f"{LOTTERY},slack=2", "merit-fair:estimate=pooled,design=exact"]
    policies += ["random", "whittle", f"{RECOMMENDED},floor=0.05", "round-robin"]
    mf.whatif(log, policies, rounds=4, draws=20)  # compiles
    began, used = time.perf_counter(), time.process_time()
    mf.whatif(log, policies, progress=True)
    took, used = time.perf_counter() - began, time.process_time() - used
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{'holds' if took < 60 else 'FAILS'} {took:.1f} s of 60 for {n_arms:,} arms, {rounds} rounds, 8 policies;")
    print(f"      {used:.1f} s of processor time, on a machine that may have other things to do")
    print(f"{'holds' if memory < 1 else 'FAILS'} {memory:.2f} GB of 1, with the making of the log")


def main() -> None:
    """Measure what was asked for."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--logs", type=int, default=300)
    options.add_argument("--draws", type=int, default=100)
    options.add_argument("--only", choices=("coverage", "refusal", "speed"))
    options.add_argument("--case", type=int)
    chosen = options.parse_args()
    if chosen.only in (None, "refusal"):
        refusals()
    if chosen.only in (None, "speed"):
        speed()
    if chosen.only in (None, "coverage"):
        cases = coverage_cases()
        for case in cases if chosen.case is None else [cases[chosen.case]]:
            print(cover(case, chosen.logs, chosen.draws), flush=True)


if __name__ == "__main__":
    main()
