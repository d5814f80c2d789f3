"""What the checks are made of: a policy on a problem, what it may see, and rounds as they happen."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from meritfair.core.arrays import FloatArray, IntArray
from meritfair.core.errors import InputError
from meritfair.model.arms import Arms
from meritfair.model.counts import Counts
from meritfair.model.rules import Rules
from meritfair.policies import registry
from meritfair.policies.base import Policy
from meritfair.policies.learner import Choice, Learner
from meritfair.policies.plans import Plan
from meritfair.policies.view import View
from meritfair.simulation.run import Run
from meritfair.simulation.simulate import simulate
from meritfair.testing.judging import ConformanceError, check_choice, difference, fail, parts, same

AnyPolicy: TypeAlias = "Policy | Callable[..., Plan] | str"


class Check(Protocol):
    """One check of a policy, on that many arms with such a budget."""

    __name__: str

    def __call__(self, policy: AnyPolicy, n_arms: int = 6, budget: int = 2) -> None:
        """Raise a `ConformanceError` if the policy does not pass."""


def as_check(body: Callable[[Case], None]) -> Check:
    """Return a check that takes a policy in any form; whatever the policy raises is a failure.

    A policy with hidden state can fail any check, for reasons that are not its own. So that is said instead.
    """

    @functools.wraps(body)
    def check(policy: AnyPolicy, n_arms: int = 6, budget: int = 2) -> None:
        case = Case.of(policy, n_arms, budget)
        try:
            body(case)
        except Exception as error:
            own = str(error) if isinstance(error, ConformanceError) else _raised(error)
            raise ConformanceError(hidden_state(case) or own) from error

    del check.__wrapped__  # the signature is that of a check
    return check


def _raised(error: Exception) -> str:
    return f"nothing must be raised, but there was {type(error).__name__}: {error}"


@dataclass(frozen=True)
class Case:
    """A policy, and the size of the problem on which it is checked."""

    policy: Policy
    n_arms: int
    budget: int

    @classmethod
    def of(cls, policy: AnyPolicy, n_arms: int, budget: int) -> Case:
        """Return the case, if the policy can be started on it."""
        case = cls(registry.policy(policy), n_arms, budget)
        try:
            case.start(0)
        except InputError as error:
            if case.peeks():
                fail(f"a policy that is not an oracle must plan without the true arms, but it cannot: {error}")
            name = case.policy.name
            raise InputError(f"{name} cannot be checked on {n_arms} arms with budget {budget}: {error}") from error
        except Exception as error:
            raise ConformanceError(_raised(error)) from error
        return case

    def peeks(self) -> bool:
        """Return whether the policy can be started only if it knows the true arms, although it is no oracle."""
        try:
            self.policy.start(self.n_arms, self.budget, 0, transitions=self.truth)
        except InputError:
            return False
        return not self.policy.oracle

    @property
    def truth(self) -> FloatArray:
        """The true arms, all different, shape (N, 2, 2)."""
        return np.random.default_rng(17).uniform(0.05, 0.95, (self.n_arms, 2, 2))

    @property
    def per_arm(self) -> dict[str, Any]:
        """The settings with one entry for each arm."""
        values = {f.name: getattr(self.policy, f.name) for f in dataclasses.fields(self.policy) if f.init}
        kinds = tuple, list, np.ndarray
        return {name: each for name, each in values.items() if isinstance(each, kinds) and len(each) == self.n_arms}

    def relabelled(self, order: IntArray) -> Case:
        """Return the case with arm ``order[i]`` in place i."""
        changed = {
            name: value[order] if isinstance(value, np.ndarray) else type(value)(value[i] for i in order)
            for name, value in self.per_arm.items()
        }
        return dataclasses.replace(self, policy=dataclasses.replace(self.policy, **changed))

    def start(
        self, seed: int, horizon: int = 1, truth: FloatArray | None = None, rules: Rules | None = None
    ) -> Learner:
        """Start the policy in live use."""
        known = self.known(self.truth if truth is None else truth)
        return self.policy.start(self.n_arms, self.budget, seed, horizon=horizon, transitions=known, rules=rules)

    def known(self, truth: FloatArray) -> FloatArray | None:
        """Return true arms if the policy may know them."""
        return truth if self.policy.oracle else None

    def simulate(self, seed: int, truth: FloatArray | None = None, workers: int = 1, **lengths: float) -> Run:
        """Play the policy on the true arms, for some runs, episodes and a horizon, where not all may be observed."""
        arms = Arms(self.truth if truth is None else truth)
        return simulate(arms, self.policy, budget=self.budget, seed=seed, workers=workers, **lengths)  # type: ignore[arg-type]

    def script(self, rounds: int, seed: int) -> Script:
        """Return what happens in some rounds."""
        rng = np.random.default_rng(seed)
        return Script(self.truth, rng.integers(0, 2, (rounds, self.n_arms)), rng.random((rounds, self.n_arms)))

    def view(self, runs: int, seed: int) -> View:
        """Return a view of several runs, of which much was seen unless the policy plans but once."""
        rng, shape = np.random.default_rng(seed), (runs, self.n_arms, 2, 2)
        visits = rng.integers(0, 1 if self.policy.plans_once else 500, shape)
        seen = Counts(visits, rng.binomial(visits, self.truth))
        rngs = tuple(np.random.default_rng([seed, run]) for run in range(runs))
        truth = np.array(np.broadcast_to(self.truth, shape))
        return View(seen, 1 if self.policy.plans_once else 30, self.budget, truth, rngs, rng.integers(0, 2, shape[:2]))

    def plan(self, view: View) -> Plan:
        """Return the plan for a view, which must stay as it is; its generators do, too."""
        shown = deepcopy(view)
        plan = self.policy.plan(shown)
        for name in ("true_transitions", "states", "memory"):
            if not same(getattr(view, name), getattr(shown, name)):
                fail(f"a policy must leave its view as it is, but it has changed {name}")
        return plan

    def check_pulls(self, pulls: npt.ArrayLike, most: int, where: str) -> None:
        """Check numbers of pulls, where each could be that many."""
        for pulled in np.ravel(pulls):
            if pulled > most or (self.policy.spends_budget and pulled < most):
                must = "" if self.policy.spends_budget else "at most "
                fail(f"{must}{most} different arms must be pulled at each step, but {where} it was {pulled}")

    def check_round(self, choice: Choice, most: int, where: str) -> None:
        """Check a choice, and that it is of that many arms."""
        self.check_pulls(choice.actions.sum(), most, where)
        check_choice(choice, where)

    def refuses(self, attempt: Callable[[], Any], what: str) -> bool:
        """Return whether the policy refuses something, for which only its settings can be a reason."""
        try:
            attempt()
        except InputError as error:
            if not dataclasses.fields(self.policy):
                fail(f"a policy without settings must take {what}, but it refused: {error}")
            return True
        return False


@dataclass(frozen=True)
class Script:
    """Rounds as they happen to a learner: states, and how each arm fares by what is done."""

    truth: FloatArray  # (N, 2, 2)
    states: IntArray  # (rounds, N)
    uniform: FloatArray  # random numbers that decide the next states

    def after(self, t: int, actions: IntArray) -> IntArray:
        """Return the states after round t."""
        good = self.truth[np.arange(len(actions)), self.states[t], actions]
        return np.asarray(self.uniform[t] < good, np.int64)

    def relabelled(self, order: IntArray) -> Script:
        """Return the rounds with arm ``order[i]`` in place i."""
        return Script(self.truth[order], self.states[:, order], self.uniform[:, order])

    def see(self, learner: Learner, t: int, actions: IntArray) -> None:
        """Let a learner see all of round t."""
        learner.observe(self.states[t], actions, self.after(t, actions))

    def round(self, learner: Learner, t: int) -> Choice:
        """Let a learner choose in round t, and see what comes of it."""
        choice = learner.choose(self.states[t])
        self.see(learner, t, choice.actions)
        return choice

    def teach(self, learner: Learner, actions: IntArray) -> None:
        """Let a learner begin with a round in which nobody is there, then see rounds in which others have chosen."""
        learner.choose(self.states[0], available=np.zeros(learner.n_arms))
        for t, done in enumerate(actions):
            self.see(learner, t, done)


def with_other_rngs(learner: Learner, number: int, seed: int) -> list[Learner]:
    """Return learners that know all that this one knows, at the start of an episode, each with its own generator."""
    values = {**learner.to_dict(), "planned_from": None}  # they plan anew
    states = (np.random.default_rng([seed, each]).bit_generator.state for each in range(number))
    return [Learner.from_dict({**values, "rng": state}, learner.policy) for state in states]


def hidden_state(case: Case) -> str:
    """Return what is wrong if the same view, with the same generators, does not always give the same plan; else ""."""
    view, other = case.view(runs=2, seed=131), case.view(runs=2, seed=132)
    try:
        policy, twin = deepcopy(case.policy), deepcopy(case.policy)
        first, _, *again = (parts(policy.plan(deepcopy(each))) for each in (view, other, view, view, view))
        by_twin = parts(twin.plan(deepcopy(view)))
    except Exception:  # then something else is wrong as well
        return ""
    part = next(filter(None, (difference(first, each) for each in again)), None)
    if part is None:
        return ""
    if difference(first, by_twin) is None:
        what = "the policy changes itself between plans: it keeps hidden state"
    else:
        what = "the policy keeps hidden state outside of itself, or draws random numbers that are not from View.rngs"
    return (
        f"{what}. The same view gave another {part} when it was planned again. Runs would share such state and a "
        "restart would lose it: plan from the view and the settings alone; a StepLearner can learn in its memory"
    )
