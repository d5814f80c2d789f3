"""How a simulation is carried out: `play` decides, and the engine plays.

========================================  =========================================================================
the policy                                is played
========================================  =========================================================================
has a rule that the engine knows          all episodes of a run in one call, planning included
makes one plan for all episodes           its plan is made once; then all episodes of a run are one call
any other, or a merit function in Python  it plans each episode for all runs at once; each run's episode is one call
========================================  =========================================================================

Runs are independent, and go to a pool of threads: the engine releases Python's lock. Each draws from random number
generators of its own, so its numbers depend on the seed and its own number alone.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from itertools import repeat

import numpy as np

from meritfair.core.arrays import AnyArray, FloatArray
from meritfair.core.seeding import sequence
from meritfair.engine.coverage import coverage_gaps
from meritfair.engine.episodes import (
    Measures,
    RunSettings,
    RunState,
    new_run_state,
    new_states,
)
from meritfair.engine.pooling import Pool, keep_prior
from meritfair.engine.rounds import new_rounds
from meritfair.engine.rules import GREEDY, NO_MERIT, POOLED
from meritfair.model.benefit import benefit
from meritfair.model.confidence import Ball
from meritfair.model.counts import Counts
from meritfair.model.criterion import Criterion
from meritfair.model.exposure import merit_share
from meritfair.model.posterior import fitted_pool
from meritfair.policies.base import Policy
from meritfair.policies.plans import Plan, check_plan
from meritfair.policies.view import View
from meritfair.simulation import metrics
from meritfair.simulation.playables import (
    Episode,
    Playable,
    exposure_of,
    learned,
    playable,
    room_for_steps,
    with_stage,
)
from meritfair.simulation.problem import Problem
from meritfair.simulation.watching import watching

_GLANCE = 0.1  # seconds between looks at how far the runs are


def play(
    problem: Problem, policy: Policy, fair_merit: FloatArray, workers: int, progress: Callable[[int, int], None]
) -> dict[str, AnyArray]:
    """Play all runs; return what was measured, an array for each field of `Run` that has runs first."""
    runs = _Runs(problem, policy, fair_merit)
    plan = _plan_of_all_episodes(runs)
    if plan is not None:
        _play_whole_runs(runs, plan, workers, progress)
    else:
        _play_by_episode(runs, workers, progress)
    return runs.measured


# ---- what the engine is given


class _Runs:
    """The runs of a problem: what the engine is given for each, and where it writes."""

    def __init__(self, problem: Problem, policy: Policy, fair_merit: FloatArray) -> None:
        self.problem, self.policy, self.rule = problem, policy, policy.rule()
        criterion = problem.criterion
        known = problem.exposure_regret or not criterion.integrates(fair_merit, problem.budget)
        self.fair_share = merit_share(fair_merit)
        self.fair_exposure = np.full(fair_merit.shape, np.nan)
        if known:
            self.fair_exposure = problem.rules.fair_exposure(fair_merit, criterion, problem.budgets)
        self.ball = with_stage(problem.confidence.rule())
        by_run, by_arm = (problem.runs, problem.episodes), problem.transitions.shape
        self.measures = _new_measures(by_run)
        self.visits, self.good = np.zeros(by_arm, np.int64), np.zeros(by_arm, np.int64)
        self.longest_wait = np.zeros(by_arm[:2], np.int64)
        self.given, self.account_range = np.zeros(by_arm[:2]), np.zeros((*by_arm[:2], 2))
        self.coverage_gaps = np.zeros((3, problem.runs), np.int64)
        self.control = np.zeros((problem.runs, 2), np.int64)  # episodes done, and whether to stop
        self.watch = watching(problem)
        self.pools = self.rule is not None and self.rule.estimate == POOLED
        self.pool = fitted_pool(problem.history) if self.pools and problem.history is not None else None

    def settings(self, run: int) -> RunSettings:
        p = self.problem
        merit = p.criterion.merit.rule() or NO_MERIT
        fair = self.fair_share[run], self.fair_exposure[run]
        return RunSettings(*fair, p.budget, p.mean_budget, p.horizon, p.carry_states, self.ball, merit)

    def new_state(self, run: int) -> RunState:
        p, r = self.problem, self.problem.rules
        seeds = (sequence(p.seed, name, p.first_run + run) for name in ("environment", "policy"))
        state = new_run_state(
            p.transitions[run],
            p.budget,
            p.episodes,
            p.horizon,
            *seeds,
            integrates=p.integrates,
            pools=self.pools,
            rounds=new_rounds(p.n_arms, p.cycle, r.cooldown, r.warmup, r.once, r.most_often(p.cycle)),
        )
        new_states(state.chains.state, state.environment_rng)
        if p.states is not None:
            state.chains.state[:] = p.states[run]
        if p.history is not None:
            _remember(state, p.history, self.pool)
        return state

    def measures_of(self, run: int) -> Measures:
        return Measures(*(each[run] for each in self.measures))

    def rngs(self) -> tuple[np.random.Generator, ...]:
        """Return what plans made in Python draw from, one generator for each run."""
        first, seed = self.problem.first_run, self.problem.seed
        numbers = range(first, first + self.problem.runs)
        return tuple(np.random.default_rng(sequence(seed, "policy", run).spawn(2)[1]) for run in numbers)

    def keep(self, run: int, state: RunState) -> None:
        """Take over what a run has counted."""
        before = self.problem.history or Counts.none(self.problem.n_arms)
        self.visits[run] = np.rint(state.tally.visits.transpose(2, 0, 1) - before.visits)
        self.good[run] = np.rint(state.tally.good.transpose(2, 0, 1) - before.good)
        self.longest_wait[run] = state.tally.longest_wait
        book, pulls = state.accounts, self.visits[run, ..., 1].sum(axis=-1)
        self.given[run] = book.total if book.total.any() else pulls
        self.account_range[run] = np.stack([book.least, book.largest], axis=-1)
        self.coverage_gaps[:, run] = coverage_gaps(state.coverage)

    def tell(self, progress: Callable[[int, int], None]) -> None:
        progress(int(self.control[:, 0].sum()), self.problem.runs * self.problem.episodes)

    @property
    def measured(self) -> dict[str, AnyArray]:
        gap, gap_authors, censored = self.coverage_gaps
        return {
            **self.measures._asdict(),
            "visits": self.visits,
            "good": self.good,
            "longest_wait": self.longest_wait,
            "given": self.given,
            "account_range": self.account_range,
            "observed": self.watch.share,
            "coverage_gap": gap,
            "coverage_gap_authors": gap_authors,
            "coverage_gap_censored": censored.astype(np.bool_),
        }


def _remember(state: RunState, history: Counts, fitted: Pool | None) -> None:
    """Let a run begin with what was seen before it, and with the prior that was fitted to that, if it pools arms."""
    state.tally.visits[:] = history.visits.transpose(1, 2, 0)
    state.tally.good[:] = history.good.transpose(1, 2, 0)
    if fitted is not None:
        keep_prior(state.pool, fitted)


def _new_measures(shape: tuple[int, ...]) -> Measures:
    """Return room for what is kept of each episode."""
    regret, regret_authors, exposure_regret, eta, omega = np.zeros((5, *shape))
    return Measures(regret, regret_authors, exposure_regret, eta, omega, np.zeros(shape, np.int64))


def _plan_of_all_episodes(runs: _Runs) -> Playable | None:
    """Return how the engine plays whole runs of the policy, or None if it has to be asked before each episode."""
    problem, policy, rule = runs.problem, runs.policy, runs.rule
    N, K = problem.n_arms, problem.budget
    if problem.criterion.merit.rule() is None or not problem.sees_all:
        return None
    if rule is not None and not (problem.restricted and rule.kind == GREEDY):
        return learned(rule, policy.criterion or Criterion(), problem)
    if not policy.plans_once:
        return None
    seen = problem.history or Counts.none(N)
    before = Counts(*(np.broadcast_to(x, problem.transitions.shape) for x in (seen.visits, seen.good)))
    view = View(before, 1, K, problem.transitions, runs.rngs())
    return playable(check_plan(policy.plan(view), N, K, (problem.runs,)), problem)


# ---- playing


def _play_whole_runs(runs: _Runs, plan: Playable, workers: int, progress: Callable[[int, int], None]) -> None:
    """Play each run in one call of the engine, on a pool of threads; an interrupt stops them within an episode."""
    control = runs.control
    _compile(runs, plan)
    to_play = iter(range(runs.problem.runs))  # shared: each worker takes the next

    def work() -> None:
        for run in to_play:
            if control[run, 1]:
                return
            state = runs.new_state(run)
            plan.play_run(run, runs.settings(run), state, runs.measures_of(run), control[run])
            runs.keep(run, state)

    threads = min(workers, runs.problem.runs)
    pool = ThreadPoolExecutor(threads, thread_name_prefix="meritfair")
    try:
        waiting = {pool.submit(work) for _ in range(threads)}
        while waiting:
            done, waiting = wait(waiting, _GLANCE, FIRST_EXCEPTION)
            for each in done:
                each.result()  # raises what the run has raised
            runs.tell(progress)
    finally:
        control[:, 1] = 1
        pool.shutdown(wait=True, cancel_futures=True)


def _compile(runs: _Runs, plan: Playable) -> None:
    """Play no episode on one arm: so that an interrupt stops the compiler, which it cannot in a pool of threads."""
    problem, seed = runs.problem, sequence(runs.problem.seed, "policy")
    one = problem.transitions[0, :1].copy()
    state = new_run_state(one, 1, 0, problem.horizon, seed, seed, rounds=new_rounds(1, problem.cycle))
    new_states(state.chains.state, state.environment_rng)
    plan.play_run(0, runs.settings(0), state, _new_measures((0,)), np.zeros(2, np.int64))


def _new_episode(runs: _Runs, run: int, pulled: FloatArray) -> Episode:
    """Return where a run is before its first episode."""
    state = runs.new_state(run)
    return Episode(
        state, room_for_steps(state, runs.watch.sight(run)), runs.measures_of(run), pulled, runs.control[run]
    )


def _play_by_episode(runs: _Runs, workers: int, progress: Callable[[int, int], None]) -> None:
    """Ask the policy for a plan before each episode, for all runs at once, and play it."""
    problem, watch, rngs = runs.problem, runs.watch, runs.rngs()
    numbers, settings = range(problem.runs), [runs.settings(run) for run in range(problem.runs)]
    pulled = np.zeros((problem.runs, problem.n_arms))
    at = [_new_episode(runs, run, pulled[run]) for run in numbers]
    memory, once = None, runs.policy.plans_once and not problem.sees_all
    with ThreadPoolExecutor(min(workers, problem.runs), thread_name_prefix="meritfair") as pool:
        for t in range(problem.episodes):
            counts, states = watch.begin(t, at)
            if t == 0 or not once:
                step = t * problem.horizon
                view = View(counts, t + 1, problem.budget, problem.transitions, rngs, states, memory, step)
                plan = check_plan(runs.policy.plan(view), problem.n_arms, problem.budget, (problem.runs,))
                how = playable(plan, problem, memory)
            watch.plan(plan, counts, runs.policy.oracle)
            list(pool.map(watch.play, repeat(how), repeat(t), numbers, settings, at))
            memory = how.learned
            _measure_plan(runs, t, plan, pulled, counts)
            runs.control[:, 0] = t + 1
            runs.tell(progress)
    for run, each in enumerate(at):
        runs.keep(run, each.state)


def _measure_plan(runs: _Runs, t: int, plan: Plan, pulled: FloatArray, counts: Counts) -> None:
    """Note the regrets of an episode planned in Python: of the plan, or of the pulls if they depend on states."""
    problem, measures, K = runs.problem, runs.measures, runs.problem.budget
    share, exposure, made = plan.share(K), exposure_of(plan, problem), pulled / problem.horizon
    share = made / problem.mean_budget if share is None else share
    exposure = made if exposure is None else exposure
    measures.fairness_regret[:, t] = metrics.fairness_regret(share, runs.fair_share)
    measures.exposure_regret[:, t] = metrics.fairness_regret(exposure, runs.fair_exposure)
    if problem.criterion.merit.rule() is None or not problem.sees_all:
        ball = Ball(counts, t + 1, problem.confidence.delta, problem.confidence.ball)
        optimistic = merit_share(problem.criterion.merit(benefit(ball.upper)))
        measures.fairness_regret_authors[:, t] = metrics.fairness_regret(optimistic, runs.fair_share)
    if not problem.sees_all:
        measures.eta[:, t], measures.omega[:, t] = (x.max(axis=(1, 2)) for x in (ball.eta, ball.omega))
