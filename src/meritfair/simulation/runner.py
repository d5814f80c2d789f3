"""How a simulation is carried out: whole runs on all cores, or episode by episode around a plan made in Python.

A built-in policy is compiled into the loop over episodes, so each run is one call of the engine; runs are independent
and go to a pool of threads, which run at the same time because the engine releases Python's lock. Any other policy is
asked for a plan before each episode, for all runs at once, and the engine plays the episode of each run.

Either way a run draws only from sources of its own, so its numbers depend on the seed and its own number alone.
"""

from __future__ import annotations

from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass
from itertools import repeat
from typing import TYPE_CHECKING, TypeAlias, cast

import numpy as np
from numba.core.errors import NumbaError

from meritfair.core.errors import InputError
from meritfair.core.seeding import sequence
from meritfair.engine.chains import LONGEST
from meritfair.engine.coverage import coverage_gaps
from meritfair.engine.episodes import (
    Game,
    Outcome,
    Player,
    Stages,
    begin_episode,
    end_episode,
    new_player,
    play_open_loop,
    play_run,
    play_steps,
    play_steps_run,
    stages,
    tightener,
)
from meritfair.engine.learning import EXPOSURE, MERIT, SHARE
from meritfair.engine.rules import EXPONENTIAL, FIXED, OPTIMISTIC, BallRule, MeritRule, Rule
from meritfair.engine.steps import (
    Choosing,
    Steps,
    choose_in_groups,
    choose_softly,
    choose_top,
    choosing,
    new_quotas,
    new_steps,
    rank_by_table,
)
from meritfair.model.benefit import benefit
from meritfair.model.confidence import Ball
from meritfair.model.counts import Counts
from meritfair.model.criterion import Criterion
from meritfair.model.exposure import merit_share
from meritfair.policies.base import View
from meritfair.policies.plans import Lottery, Plan, PriorityTable, StepLearner, check_plan
from meritfair.simulation import metrics

if TYPE_CHECKING:
    from collections.abc import Callable

    from meritfair.core.arrays import FloatArray, IntArray
    from meritfair.policies.base import Policy
    from meritfair.simulation.run import Run
    from meritfair.simulation.simulate import Problem

__all__ = ["play"]

_PlayRun: TypeAlias = "Callable[[int, Game, Player, Outcome, IntArray], None]"
_GLANCE = 0.1  # seconds between looks at how far the runs are
_NO_MERIT = MeritRule(EXPONENTIAL, 0.0, 0.0)


def play(
    problem: Problem,
    policy: Policy,
    measured: Run,
    seed: int,
    workers: int,
    progress: Callable[[int, int], None],
) -> None:
    """Play all runs, and fill the arrays of what is measured."""
    control = np.zeros((problem.runs, 2), np.int64)
    known = problem.exposure_regret or not problem.criterion.integrates(measured.fair_merit, problem.budget)
    fair_exposure = measured.fair_exposure if known else np.full(measured.fair_merit.shape, np.nan)
    stage = _Stage(problem, policy, measured, merit_share(measured.fair_merit), fair_exposure, seed, control, progress)
    whole_run = stage.whole_run()
    if whole_run is not None:
        stage.play_whole_runs(whole_run, workers)
    else:
        stage.play_by_episode(workers)


def _rows(values: FloatArray, shape: tuple[int, ...]) -> FloatArray:
    """Return one row for each run, of their own: the engine is compiled for arrays that can be written to."""
    return np.array(np.broadcast_to(values, shape), order="C")


def _integrates(design: str, budget: int, merit: FloatArray) -> bool:
    """Whether exposures take an integral."""
    return design == "sequential" and budget > 1 and bool(np.ptp(merit, axis=-1).any())


def _exposure(plan: Plan, problem: Problem) -> FloatArray | None:
    """Return the exposures of a plan, NaN where they take an integral and none is asked for; None if it has none."""
    unknown = isinstance(plan, Lottery) and _integrates(plan.design, problem.budget, plan.merit)
    return np.array(np.nan) if unknown and not problem.exposure_regret else plan.exposure(problem.budget)


def _with_stage(ball: BallRule) -> BallRule:
    """Return how a ball is measured, with the stage that it needs."""
    return ball._replace(tightener=tightener(ball.kind))


def _open_loop(plan: Plan, problem: Problem) -> tuple[Stages, FloatArray] | None:
    """Return how the engine plays a plan that does not look at states, and weights for each run; None for others."""
    weights = plan.weights(problem.budget)
    if weights is None:
        return None
    rows = _rows(weights, (problem.runs, problem.n_arms))
    return stages(problem.n_arms, problem.budget, plan.drawn_by), rows


@dataclass(frozen=True)
class _Stepwise:
    """How the engine plays a plan that chooses at each step: its stages, and what it knows in each run."""

    how: Choosing
    memory: FloatArray  # (runs, N, m)
    quotas: list[IntArray] | None

    @classmethod
    def of(cls, plan: PriorityTable | StepLearner, problem: Problem, memory: FloatArray | None = None) -> _Stepwise:
        """Return how a plan is played, after an episode that ended with this memory."""
        if isinstance(plan, StepLearner):
            if memory is None or not plan.keeps_memory:
                memory = _rows(plan.memory, (problem.runs, *plan.memory.shape[-2:]))
            return cls(_compiled(plan), memory, None)
        rows = _rows(plan.index, (problem.runs, problem.n_arms, 2))
        if plan.groups is None or plan.quotas is None:
            choose = choose_softly if plan.soft else choose_top
            return cls(choosing(rank_by_table, choose=choose), rows, None)
        quotas = np.broadcast_to(plan.quotas, (problem.runs, plan.quotas.shape[-1]))
        return cls(
            choosing(rank_by_table, choose=choose_in_groups), rows, [new_quotas(plan.groups, each) for each in quotas]
        )

    def prepare(self, run: int, steps: Steps) -> FloatArray:
        """Set the quotas of a run, and return its memory."""
        if self.quotas is not None:
            steps.quotas[:] = self.quotas[run]
        return np.asarray(self.memory[run])


def _compiled(plan: StepLearner) -> Choosing:
    """Return the functions of a plan, compiled."""
    try:
        return choosing(plan.rank, plan.learn, plan.explore)
    except (NumbaError, TypeError) as error:
        said = " ".join(str(error).split())
        raise InputError(f"the functions of a StepLearner must be such that Numba can compile them: {said}") from error


def _check_reward(reward: int) -> int:
    """Return the reward of an episode, if it was played to its end."""
    if reward < 0:
        raise InputError(f"rank must set a number for each arm, got nan at step {-1 - reward}")
    return reward


@dataclass(frozen=True, eq=False)
class _Stage:
    """Where the runs of a problem are played."""

    problem: Problem
    policy: Policy
    measured: Run
    fair_share: FloatArray
    fair_exposure: FloatArray
    seed: int
    control: IntArray  # for each run: episodes done, and whether to stop
    progress: Callable[[int, int], None]

    def _game(self, run: int) -> Game:
        p = self.problem
        fair, merit = (self.fair_share[run], self.fair_exposure[run]), p.criterion.merit.rule() or _NO_MERIT
        return Game(*fair, p.budget, p.horizon, p.carry_states, self._ball, merit)

    @property
    def _ball(self) -> BallRule:
        return _with_stage(self.problem.confidence.rule())

    def _player(self, run: int) -> Player:
        p = self.problem
        number = p.first_run + run
        environment, luck = sequence(self.seed, "environment", number), sequence(self.seed, "policy", number)
        needs = {"integrates": self._integrates, "pools": getattr(self.policy, "estimate", "") == "pooled"}
        return new_player(p.transitions[run], p.budget, p.episodes, p.horizon, environment, luck, **needs)

    @property
    def _integrates(self) -> bool:
        return self.problem.exposure_regret and self.problem.budget > 1

    def _outcome(self, run: int) -> Outcome:
        """Return where the engine writes the episodes of a run."""
        m = self.measured
        regrets = m.fairness_regret[run], m.fairness_regret_authors[run], m.exposure_regret[run]
        return Outcome(*regrets, m.eta[run], m.omega[run], m.reward[run])

    def _close(self, run: int, player: Player) -> None:
        """Take over what a run has counted."""
        m = self.measured
        m.visits[run] = player.tally.visits.transpose(2, 0, 1)
        m.good[run] = player.tally.good.transpose(2, 0, 1)
        m.longest_wait[run] = player.tally.ints[LONGEST]
        m.coverage_gap[run], m.coverage_gap_authors[run] = coverage_gaps(player.coverage)

    def _tell(self) -> None:
        self.progress(int(self.control[:, 0].sum()), self.problem.runs * self.problem.episodes)

    def whole_run(self) -> _PlayRun | None:
        """Return how the engine plays a whole run of the policy in one call, or None if it cannot."""
        problem, policy = self.problem, self.policy
        if problem.criterion.merit.rule() is None:
            return None
        rule, N, K = policy.rule(), problem.n_arms, problem.budget
        bounds = np.stack((policy.criterion or Criterion()).bounds(N, K))
        if rule is not None:
            learning, nothing = rule._replace(ball=_with_stage(rule.ball)), np.zeros((5, 0))
            how = stages(N, K, rule.design, estimate=rule.estimate, integrates=self._integrates)
            return lambda _run, game, player, *records: play_run(game, learning, how, nothing, bounds, player, *records)
        if not policy.constant:
            return None
        none = Counts(*(np.zeros(problem.transitions.shape, np.int64) for _ in range(2)))
        view = View(none, 1, K, problem.transitions, self._luck())
        plan = check_plan(policy.plan(view), N, K, (problem.runs,))
        open_loop, share, exposure = _open_loop(plan, problem), plan.share(K), _exposure(plan, problem)
        if open_loop is not None and share is not None and exposure is not None:
            how, weights = open_loop
            rows = np.zeros((problem.runs, 5, N))
            rows[:, MERIT], rows[:, SHARE], rows[:, EXPOSURE] = weights, share, exposure
            fixed = Rule(FIXED, OPTIMISTIC, plan.drawn_by, self._ball, _NO_MERIT)
            return lambda run, game, player, *records: play_run(game, fixed, how, rows[run], bounds, player, *records)
        if isinstance(plan, (PriorityTable, StepLearner)):
            return self._steps_run(_Stepwise.of(plan, problem))
        return None

    def _steps_run(self, stepwise: _Stepwise) -> _PlayRun:
        """Return how the engine plays a whole run of a plan that chooses at each step."""

        def play_one(run: int, game: Game, player: Player, outcome: Outcome, control: IntArray) -> None:
            steps = new_steps(self.problem.transitions[run])
            play_steps_run(game, stepwise.how, stepwise.prepare(run, steps), player, steps, outcome, control)
            _check_reward(int(outcome.reward.min(initial=0)))

        return play_one

    def _luck(self) -> tuple[np.random.Generator, ...]:
        """Return what plans made in Python draw from, one source for each run."""
        first = self.problem.first_run
        runs = range(first, first + self.problem.runs)
        return tuple(np.random.default_rng(sequence(self.seed, "policy", run).spawn(2)[1]) for run in runs)

    def play_whole_runs(self, play_one: _PlayRun, workers: int) -> None:
        """Play each run in one call of the engine, on a pool of threads; an interrupt stops them within an episode."""
        control = self.control
        self._compile(play_one)

        to_play = iter(range(self.problem.runs))  # shared: each worker takes the next

        def work() -> None:
            for run in to_play:
                if control[run, 1]:
                    return
                player = self._player(run)
                play_one(run, self._game(run), player, self._outcome(run), control[run])
                self._close(run, player)

        threads = min(workers, self.problem.runs)
        pool = ThreadPoolExecutor(threads, thread_name_prefix="meritfair")
        try:
            waiting = {pool.submit(work) for _ in range(threads)}
            while waiting:
                done, waiting = wait(waiting, _GLANCE, FIRST_EXCEPTION)
                for each in done:
                    each.result()  # raises what the run has raised
                self._tell()
        finally:
            control[:, 1] = 1
            pool.shutdown(wait=True, cancel_futures=True)

    def _compile(self, play_one: _PlayRun) -> None:
        """Play no episode on one arm: so that an interrupt stops the compiler, which it cannot in a pool of threads."""
        problem, seeds = self.problem, sequence(self.seed, "policy")
        player = new_player(problem.transitions[0, :1].copy(), 1, 0, problem.horizon, seeds, seeds)
        empty = np.zeros(0)
        outcome = Outcome(empty, empty, empty, empty, empty, np.zeros(0, np.int64))
        play_one(0, self._game(0), player, outcome, np.zeros(2, np.int64))

    def play_by_episode(self, workers: int) -> None:
        """Ask the policy for a plan before each episode, for all runs at once, and play it."""
        problem, measured = self.problem, self.measured
        runs = range(problem.runs)
        players = [self._player(run) for run in runs]
        actor = _Actor(problem, [self._game(run) for run in runs], players, [self._outcome(run) for run in runs])
        luck, memory = self._luck(), None
        with ThreadPoolExecutor(min(workers, problem.runs), thread_name_prefix="meritfair") as pool:
            for t in range(problem.episodes):
                counts = Counts(
                    np.stack([player.tally.visits.transpose(2, 0, 1) for player in players]).astype(np.int64),
                    np.stack([player.tally.good.transpose(2, 0, 1) for player in players]).astype(np.int64),
                )
                list(pool.map(actor.begin, runs, repeat(t)))
                states = np.stack([player.chains.state for player in players]).astype(np.int64)
                view = View(
                    counts, t + 1, problem.budget, problem.transitions, luck, states, memory, t * problem.horizon
                )
                plan = check_plan(self.policy.plan(view), problem.n_arms, problem.budget, (problem.runs,))
                play_one, memory = actor.episode(plan, t, memory)
                pulls = np.stack(list(pool.map(play_one, runs))) / problem.horizon
                share, exposure = plan.share(problem.budget), _exposure(plan, problem)
                made = pulls / problem.budget if share is None else share
                measured.fairness_regret[:, t] = metrics.fairness_regret(made, self.fair_share)
                made = pulls if exposure is None else exposure
                measured.exposure_regret[:, t] = metrics.fairness_regret(made, self.fair_exposure)
                if problem.criterion.merit.rule() is None:
                    ball = Ball(counts, t + 1, problem.confidence.delta, problem.confidence.ball)
                    softmax = merit_share(problem.criterion.merit(benefit(ball.upper)))
                    measured.fairness_regret_authors[:, t] = metrics.fairness_regret(softmax, self.fair_share)
                self.control[:, 0] = t + 1
                self._tell()
        for run, player in enumerate(players):
            self._close(run, player)


class _Actor:
    """Plays single episodes of any plan, for any of the runs."""

    def __init__(self, problem: Problem, games: list[Game], players: list[Player], outcomes: list[Outcome]) -> None:
        self.problem, self.games, self.players, self.outcomes = problem, games, players, outcomes
        self.pulled = np.zeros((problem.runs, problem.n_arms))
        self.steps = [new_steps(transitions) for transitions in problem.transitions]

    def begin(self, run: int, t: int) -> None:
        """Begin episode t, from 0, of a run."""
        begin_episode(self.games[run], self.players[run], self.outcomes[run], self.pulled[run], t)

    def episode(
        self, plan: Plan, t: int, memory: FloatArray | None
    ) -> tuple[Callable[[int], FloatArray], FloatArray | None]:
        """Return a function that plays episode t of a run and returns how often each arm was pulled; and its memory."""
        problem, last = self.problem, t == self.problem.episodes - 1
        open_loop = _open_loop(plan, problem)
        if open_loop is None:
            stepwise = _Stepwise.of(cast("PriorityTable | StepLearner", plan), problem, memory)

        def play_one(run: int) -> FloatArray:
            game, player, pulled, steps = self.games[run], self.players[run], self.pulled[run], self.steps[run]
            if open_loop is not None:
                how, weights = open_loop
                reward = play_open_loop(game, how, player, weights[run])
            else:
                reward = play_steps(game, stepwise.how, stepwise.prepare(run, steps), player, steps, t)
            self.outcomes[run].reward[t] = _check_reward(reward)
            end_episode(player.tally, player.coverage, pulled, last)
            return np.asarray(pulled)

        return play_one, stepwise.memory if isinstance(plan, StepLearner) else None
