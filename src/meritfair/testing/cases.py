r"""What the checks are made of: a policy on a problem, rounds as they happen, and how what is random is judged.

**What is random** is judged by inequalities that hold for any number of terms, not only in the limit of many. So a
policy that is in order fails by bad luck with a chance below :math:`\alpha = 10^{-6}`, which is shared by the m
comparisons of a check.

- A sum of terms, each of mean 0 given those before it and within an interval of length :math:`r_j`, is held against
  Hoeffding's inequality,

  .. math:: \Pr\Big(\Big|\sum_j x_j\Big| > \sqrt{\tfrac12 \ln(2m/\alpha) \textstyle\sum_j r_j^2}\Big) \le \alpha / m .

  Such terms are a pull less its stated chance, with :math:`r = 1`; and the pulls of an arm less the mean of arms that
  are alike, each of whom is as likely to be the one with most: r is the difference of the most and the least.
- Two numbers that have one law if all is well, and do not depend on each other, differ by d as likely as by -d. So n
  such differences are held against Chernoff's bound for random signs,

  .. math::
      \Pr\Big(\Big|\sum_j \pm d_j\Big| \ge t\Big) \le 2 \min_{\lambda > 0} e^{-\lambda t} \prod_j \cosh(\lambda d_j) .
"""

from __future__ import annotations

import dataclasses
import functools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, TypeAlias

import numpy as np

from meritfair.core.errors import InputError
from meritfair.model.arms import Arms
from meritfair.policies import registry
from meritfair.policies.learner import Learner
from meritfair.policies.own import as_policy
from meritfair.simulation.simulate import simulate

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from meritfair.core.arrays import AnyArray, FloatArray, IntArray
    from meritfair.policies.base import Policy
    from meritfair.policies.learner import Choice
    from meritfair.policies.plans import Plan
    from meritfair.simulation.run import Run

__all__ = [
    "EXACT",
    "AnyPolicy",
    "Case",
    "Check",
    "ConformanceError",
    "Script",
    "as_check",
    "check_choice",
    "check_same_choice",
    "differ",
    "fail",
    "limit",
    "lucky",
]

AnyPolicy: TypeAlias = "Policy | Callable[..., Plan] | str"

ALPHA = 1e-6
EXACT = 1e-9  # what is not random may differ by rounding


class ConformanceError(AssertionError):
    """A policy does not do what every policy must do."""


class Check(Protocol):
    """One check of a policy, on so many arms with such a budget."""

    __name__: str

    def __call__(self, policy: AnyPolicy, n_arms: int = 6, budget: int = 2) -> None:
        """Raise a `ConformanceError` if the policy does not pass."""


def fail(message: str) -> NoReturn:
    """Say what must hold and does not."""
    raise ConformanceError(message)


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
            from meritfair.testing.views import hidden_state  # which has checks itself

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
        """Return the case, if the policy can be put to work on it."""
        made = registry.create(policy) if isinstance(policy, str) else as_policy(policy)
        case = cls(made, n_arms, budget)
        try:
            case.start(0)
        except InputError as error:
            if case.peeks():
                fail(f"a policy that is not an oracle must plan without the true arms, but it cannot: {error}")
            raise InputError(f"{made.name} cannot be checked on {n_arms} arms with budget {budget}: {error}") from error
        except Exception as error:
            raise ConformanceError(_raised(error)) from error
        return case

    def peeks(self) -> bool:
        """Return whether the policy can be put to work only if it knows the true arms, although it is no oracle."""
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

    def start(self, seed: int, horizon: int = 1, truth: FloatArray | None = None) -> Learner:
        """Put the policy to work."""
        known = self.known(self.truth if truth is None else truth)
        return self.policy.start(self.n_arms, self.budget, seed, horizon=horizon, transitions=known)

    def known(self, truth: FloatArray) -> FloatArray | None:
        """Return true arms if the policy may know them."""
        return truth if self.policy.oracle else None

    def simulate(
        self, seed: int, runs: int, episodes: int, horizon: int, workers: int = 1, truth: FloatArray | None = None
    ) -> Run:
        """Play the policy on the true arms."""
        how: dict[str, Any] = {"runs": runs, "episodes": episodes, "horizon": horizon, "workers": workers}
        return simulate(Arms(self.truth if truth is None else truth), self.policy, budget=self.budget, seed=seed, **how)

    def script(self, rounds: int, seed: int) -> Script:
        """Return what happens in some rounds."""
        rng = np.random.default_rng(seed)
        return Script(self.truth, rng.integers(0, 2, (rounds, self.n_arms)), rng.random((rounds, self.n_arms)))

    def check_number(self, pulled: int, most: int, where: str) -> None:
        """Check how many arms were pulled at a step, where it could be so many."""
        if pulled > most or (self.policy.spends_budget and pulled < most):
            must = "" if self.policy.spends_budget else "at most "
            fail(f"{must}{most} different arms must be pulled at each step, but {where} it was {pulled}")

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
    luck: FloatArray

    def after(self, t: int, actions: IntArray) -> IntArray:
        """Return the states after round t."""
        chance = self.truth[np.arange(len(actions)), self.states[t], actions]
        return np.asarray(self.luck[t] < chance, np.int64)

    def relabelled(self, order: IntArray) -> Script:
        """Return the rounds with arm ``order[i]`` in place i."""
        return Script(self.truth[order], self.states[:, order], self.luck[:, order])

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


def lucky(learner: Learner, number: int, seed: int) -> list[Learner]:
    """Return learners that know all that this one knows, at the start of an episode, each with luck of its own."""
    values = {**learner.to_dict(), "planned_from": None}  # they plan anew
    states = (np.random.default_rng([seed, each]).bit_generator.state for each in range(number))
    return [Learner.from_dict({**values, "rng": state}, learner.policy) for state in states]


def limit(lengths: npt.ArrayLike, comparisons: int) -> FloatArray:
    """Return what a sum of terms of mean 0 within intervals of these lengths, down axis 0, exceeds hardly ever.

    Examples
    --------
    >>> limit(np.ones(100), comparisons=1).round(1)
    np.float64(26.9)
    """
    squares = np.sum(np.square(np.asarray(lengths, np.float64)), axis=0)
    return np.asarray(np.sqrt(math.log(2 * comparisons / ALPHA) / 2 * squares))[()]


def differ(first: AnyArray, second: AnyArray) -> IntArray:
    """Return which columns of two samples of n rows are not of one law, by the signs of their differences.

    Examples
    --------
    >>> before = np.arange(30)[:, None] % [3, 5]
    >>> differ(before, before[::-1] + [0, 9])
    array([1])
    """
    apart = np.abs(first - second).astype(np.float64)
    size = np.maximum(apart.max(axis=0), np.finfo(float).tiny)
    apart, total = apart / size, np.abs((first - second).sum(axis=0)) / size
    slopes = np.logspace(-3, 3, 61)[:, None, None]
    log_cosh = np.logaddexp(slopes * apart, -slopes * apart) - math.log(2)
    bound = (log_cosh.sum(axis=1) - slopes[:, 0] * total).min(axis=0) + math.log(2)
    return np.flatnonzero(bound < math.log(ALPHA / apart.shape[1]))


def check_choice(choice: Choice, where: str) -> None:
    """Check that a choice is in itself as it says."""
    chance, pulled = choice.exposure, choice.actions
    if not np.array_equal(choice.arms, np.flatnonzero(pulled)):
        fail(f"arms must be those with the action 1, but {where} they were {choice.arms} for {pulled}")
    if not np.all((chance >= 0) & (chance <= 1 + EXACT)):
        fail(f"a chance must be between 0 and 1, but {where} they were {chance}")
    if abs(chance.sum() - pulled.sum()) > 1e-6:
        fail(f"chances must sum to the {pulled.sum()} arms pulled, but {where} it was {chance.sum():g}")
    if np.any((chance >= 1) & (pulled == 0)) or np.any((chance <= 0) & (pulled == 1)):
        fail(f"a chance of 1 is certain and one of 0 never comes, but {where} {chance} became {pulled}")


def check_same_choice(first: Choice, second: Choice, where: str) -> None:
    """Check that two choices are the same."""
    if first.names != second.names or not np.array_equal(first.actions, second.actions):
        fail(f"the choice must be the same, but {where} it was {first.names} and {second.names}")
    if not np.array_equal(first.exposure, second.exposure):
        fail(f"chances must be the same, but {where} they were {first.exposure} and {second.exposure}")
