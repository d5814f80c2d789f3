"""How often the interval of `whatif` holds the truth, whether it refuses what it should, and how long it takes.

Logs are simulated by a live learner on arms that are known here. The truth for a policy is the expected share in the
good state in the rounds after the log: the true arms, from the same states, played many times without the noise that
can be computed. Three populations are made for this benchmark: people of two kinds whose probabilities are independent
Betas; people whose four logits share an effect of the person, the only ones for whom the model of `whatif` is right;
and people of whom some are far from all others and half are not helped at all.
Run it with `./mf python benchmarks/whatif.py [--logs 200] [--only coverage|refusal|chains|speed] [--case 0 --case 1]`.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.special import expit, logit

import meritfair as mf
from meritfair.core.arrays import FloatArray, IntArray
from meritfair.scenarios.chains import Chains, whole
from meritfair.scenarios.known import as_known
from meritfair.scenarios.playing import Ahead, follow, plans_in, without_noise
from meritfair.scenarios.start import logged_chance, start_of

LOTTERY = "merit-fair:estimate=mean,design=exact"
RECOMMENDED = "merit-fair:estimate=pooled,design=exact,slack=2"
_PLAYS = 40  # of the true arms


def beta_classes(n_arms: int, rng: np.random.Generator) -> FloatArray:
    """Return people of two kinds, in each of whom the four probabilities are independent Betas."""
    good = np.array([[[2, 5], [7, 9]], [[4, 4.5], [9, 10]]])
    bad = np.array([[[8, 5], [3, 2]], [[6, 5.5], [3, 2.5]]])
    kind = (rng.random(n_arms) < 0.4).astype(np.int64)
    return rng.beta(good[kind], bad[kind])


def logit_normal(n_arms: int, rng: np.random.Generator) -> FloatArray:
    """Return people of whom some do better than others whatever their state, and whether they are called or not."""
    typical = np.array([[-1.0, -0.5], [1.0, 1.3]])
    return np.asarray(expit(typical + rng.normal(0, 1, (n_arms, 1, 1)) + rng.normal(0, 0.4, (n_arms, 2, 2))))


def skewed(n_arms: int, rng: np.random.Generator) -> FloatArray:
    """Return people with heavy tails, of whom a call helps half, some of them much, and the others not at all."""
    logits = np.repeat(np.array([[-1.0], [1.0]]) + rng.standard_t(3, (n_arms, 2, 1)), 2, axis=2)
    logits[..., 1] += (rng.exponential(1.2, n_arms) * (rng.random(n_arms) < 0.5))[:, None]
    return np.asarray(expit(logits))


POPULATIONS: dict[str, Callable[[int, np.random.Generator], FloatArray]] = {
    "two Beta classes": beta_classes,
    "logit-normal": logit_normal,
    "skewed": skewed,
}


def arms_of(population: str, n_arms: int, seed: int) -> mf.Arms:
    """Return arms of a data set of the package, or of a population of this benchmark."""
    if population in POPULATIONS:
        drawn = POPULATIONS[population](n_arms, np.random.default_rng(7000 + seed))
        return mf.Arms(np.clip(drawn, 1e-6, 1 - 1e-6))
    return mf.datasets.instances(population, n_arms, 1, seed=seed)[0]


@dataclass(frozen=True)
class Case:
    """A kind of log, and what is asked of it."""

    population: str
    n_arms: int
    budget: int
    rounds: int
    missing: float
    logged: str
    asked: tuple[str, ...]
    asked_budget: int

    def __str__(self) -> str:
        return (
            f"{self.population}, {self.n_arms} arms, {self.rounds} rounds, {100 * self.missing:.0f} % missing, "
            f"logged by {self.logged} with {self.budget}"
        )


@dataclass(frozen=True)
class Change:
    """What is added to all log-odds, so that arms are no chains."""

    state: float = 0.0  # by the state of the round before
    pull: float = 0.0  # if there was a pull in the round before
    step: float = 0.0  # from half time on
    slope: float = 0.0  # in all rounds together

    def __call__(self, before: IntArray, pulled: IntArray, late: float) -> FloatArray:
        """Return it, given the states and actions of the round before, and the part of the rounds that is over."""
        return self.state * (before - 0.5) + self.pull * pulled + self.step * (late >= 0.5) + self.slope * late


CHAINS = Change()


def make_log(
    arms: mf.Arms,
    policy: str,
    budget: int,
    rounds: int,
    seed: int,
    missing: float = 0.0,
    change: Change = CHAINS,
) -> mf.StateLog:
    """Return the log of a live learner; the last row of each arm is its state at the end."""
    rng, n_arms = np.random.default_rng(seed), arms.n_arms
    learner = mf.policies.create(policy).start(n_arms=n_arms, budget=budget, seed=seed)
    states, arm = rng.integers(0, 2, n_arms), np.arange(n_arms)
    rows: list[tuple[IntArray, FloatArray, FloatArray]] = []
    before, pulled = np.zeros((2, n_arms), np.int64)
    for t in range(rounds):
        choice = learner.choose(states)
        actions = np.asarray(choice.actions, np.int64)
        moved = expit(logit(arms.transitions[arm, states, actions]) + change(before, pulled, t / rounds))
        before, pulled, after = states, actions, (rng.random(n_arms) < moved).astype(np.int64)
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


@dataclass
class Tally:
    """How answers compare with the truth, over logs."""

    truths: list[float] = field(default_factory=list)
    errors: list[float] = field(default_factory=list)
    halves: list[float] = field(default_factory=list)
    held: int = 0

    def add(self, answer: Any, truth: float) -> None:
        """Count one more log."""
        self.truths.append(truth)
        self.errors.append(answer.mean - truth)
        self.halves.append((answer.high - answer.low) / 2)
        self.held += bool(answer.low <= truth <= answer.high)

    def __str__(self) -> str:
        of = len(self.truths)
        return (
            f"truth {100 * np.mean(self.truths):+6.2f}  bias {100 * np.mean(self.errors):+.2f}  error "
            f"{100 * np.std(self.errors):.2f}  half-width {100 * np.mean(self.halves):.2f}  holds "
            f"{100 * self.held / of:.1f} % of {of}"
        )


def cover(case: Case, logs: int, draws: int) -> None:
    """Print how often the intervals hold the truth, with bias, error and half-width in percentage points."""
    levels, differences = ({asked: Tally() for asked in case.asked} for _ in range(2))
    flags, refusals, r_hats = dict.fromkeys(case.asked, 0), dict.fromkeys(case.asked, 0), []
    for number in range(logs):
        arms = arms_of(case.population, case.n_arms, number)
        log = make_log(arms, case.logged, case.budget, case.rounds, number, case.missing)
        how: Any = {"rounds": case.rounds, "draws": draws, "extrapolate": True, "seed": number, "workers": 1}
        found = mf.whatif(log, case.asked, budget=case.asked_budget, **how)
        r_hats.append(found.r_hat)
        before = truth_as_logged(arms, log, case.rounds)
        for asked, outlook in zip(case.asked, found.asked, strict=True):
            true = truth(arms, log, asked, case.asked_budget, case.rounds)
            levels[asked].add(outlook.share, true)
            differences[asked].add(outlook.difference, true - before)
            flags[asked] += outlook.check.disagrees
            refusals[asked] += bool(outlook.check.refusal)
    noise = 196 * np.sqrt(0.95 * 0.05 / logs)
    converged = f"R-hat {np.median(r_hats):.2f} in the median, {max(r_hats):.2f} at most"
    print(f"{case} (noise of the coverage ±{noise:.1f} points; {converged})")
    for asked in case.asked:
        print(f"  {asked}, budget {case.asked_budget}")
        print(f"    share       {levels[asked]}")
        print(f"    difference  {differences[asked]}")
        print(
            f"    disagrees {100 * flags[asked] / logs:.1f} %, refused {100 * refusals[asked] / logs:.1f} %", flush=True
        )


def coverage_cases() -> list[Case]:
    """Return the kinds of logs that are tried: policies near the logged one."""
    by_state = (RECOMMENDED, "whittle")
    return [
        Case("cpap", 100, 20, 40, 0.0, LOTTERY, by_state, 20),
        Case("two Beta classes", 100, 20, 40, 0.0, LOTTERY, by_state, 20),
        Case("logit-normal", 100, 20, 40, 0.0, LOTTERY, by_state, 20),
        Case("skewed", 100, 20, 40, 0.0, LOTTERY, by_state, 20),
        Case("cpap", 100, 20, 40, 0.3, LOTTERY, by_state, 20),
        Case("synthetic", 100, 20, 40, 0.0, LOTTERY, (RECOMMENDED,), 25),
        Case("cpap", 200, 40, 60, 0.0, f"{LOTTERY},slack=2", (LOTTERY,), 50),
        Case("synthetic", 50, 5, 30, 0.0, LOTTERY, (LOTTERY,), 5),
    ]


def chains(logs: int = 40) -> None:
    """Print how often a log is refused whose arms are no chains, and why, by how much they are none."""
    print(f"arms that are no chains: logit-normal, 100 arms, 40 rounds, lottery with 20, {logs} logs each")
    sizes = (0.25, 0.5, 1.0)
    changes = [CHAINS] + [Change(**{name: size}) for name in ("state", "pull", "step", "slope") for size in sizes]
    for change in changes:
        refused = 0
        for number in range(logs):
            log = make_log(arms_of("logit-normal", 100, number), LOTTERY, 20, 40, number, change=change)
            found = mf.whatif(log, ["random"], rounds=4, draws=40, seed=number, workers=1).asked[0]
            refused += found.check.disagrees
        print(f"  {change}: {100 * refused / logs:.1f} % refused", flush=True)


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
    options.add_argument("--logs", type=int, default=200)
    options.add_argument("--draws", type=int, default=200)
    options.add_argument("--only", choices=("coverage", "refusal", "chains", "speed"))
    options.add_argument("--case", type=int, action="append")
    chosen = options.parse_args()
    if chosen.only in (None, "refusal"):
        refusals()
    if chosen.only in (None, "chains"):
        chains()
    if chosen.only in (None, "speed"):
        speed()
    if chosen.only in (None, "coverage"):
        cases = coverage_cases()
        for number in chosen.case or range(len(cases)):
            cover(cases[number], chosen.logs, chosen.draws)


if __name__ == "__main__":
    main()
