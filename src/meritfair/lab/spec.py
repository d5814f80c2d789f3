"""What a sweep plays: a spec is a product of data sets, sizes, policies and merits; each point of it is a setting.

A setting says everything that decides its numbers, in the words that people type (``cpap:noise=0.2``,
``merit-fair:estimate=mean``), so it can be written down, hashed and compared. Its runs are numbered from 0; the
random numbers of a run depend on the seed and its number alone, so policies meet the same arms.

Arms of your own travel inside a setting, so that a worker needs no file; in its text they are a name and a checksum,
``clinic.csv@0a1b2c3d4e5f6071``, so that other arms of the same name are another setting. So does the source of a policy
of your own; its hash is among the versions of a task.

Every check says which key of a spec is to blame (`SpecError`), so that a file's error can have the line.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, TypeAlias, TypeVar

from meritfair import datasets
from meritfair.core.checks import check_choice, check_flag, check_number, check_whole
from meritfair.core.errors import InputError, MeritfairError
from meritfair.core.machine import check_size
from meritfair.core.parsing import is_own, split_name, split_settings
from meritfair.model.allocation import check_bounds
from meritfair.model.arms import Arms
from meritfair.model.confidence import BALLS
from meritfair.model.criterion import Confidence, Criterion
from meritfair.model.exposure import DESIGNS, check_design
from meritfair.model.merit import merit_from_text
from meritfair.model.observation import Observation, check_observed
from meritfair.model.rules import Budget, Rules, budget_text, check_budgets
from meritfair.policies import registry
from meritfair.policies.base import Policy
from meritfair.policies.own import PolicySource, as_policy
from meritfair.simulation.run import Run
from meritfair.simulation.simulate import simulate

_Value = TypeVar("_Value")
_Named: TypeAlias = "tuple[str, PolicySource | None]"  # a policy as text, and where it is defined if it is in no list
_SPECIAL = ("own_arms", "own_policy", "budgets", "rules")  # which are not plain values
_MARK = "@"  # between the name of arms of your own and their checksum


class SpecError(InputError):
    """A spec that cannot be played: which of its keys is to blame, and where in its list."""

    def __init__(self, key: str, problem: str, position: int | None = None) -> None:
        self.key, self.position = key, position
        super().__init__(problem if problem.startswith(key) else f"{key}: {problem}")


def _blaming(key: str, check: Callable[..., _Value], *values: Any, position: int | None = None) -> _Value:
    """Return what a check returns, or say which key of a spec is to blame."""
    try:
        return check(*values)
    except InputError as error:
        raise SpecError(key, str(error), position) from None


def _check_text(name: str, value: Any) -> str:
    if not isinstance(value, str) or not value.isprintable():
        raise InputError(f"{name} must be text, got {value!r}")
    return value


def _check_rules(value: Any) -> Rules:
    if isinstance(value, Rules):
        return value
    if value is not None and not isinstance(value, Mapping):
        raise InputError(f"rules must be a table, such as {{cooldown = 2}}, got {value!r}")
    return Rules.from_settings(value)


_CHECKS: dict[str, Callable[[str, Any], Any]] = {
    **dict.fromkeys(("episodes", "horizon", "runs", "n_arms", "budget"), lambda name, x: check_whole(name, x, 1)),
    **dict.fromkeys(("dataset", "policy", "merit"), _check_text),
    "seed": lambda name, x: check_whole(name, x, 0),
    "design": lambda name, x: check_choice(name, x, DESIGNS),
    "ball": lambda name, x: check_choice(name, x, BALLS),
    **dict.fromkeys(("floor", "cap"), lambda name, x: check_number(name, x, 0, 1)),
    "delta": lambda name, x: check_number(name, x, 0, 1, open_ends=True),
    "rules": lambda _, x: _check_rules(x),
    "observed": lambda _, x: check_observed(x),
    **dict.fromkeys(("authors", "same_arms", "carry_states", "exposure_regret"), check_flag),
}


_NO_RULES = Rules()


@dataclass(frozen=True, kw_only=True)
class _Common:
    """What a setting and a spec both say; the attributes are documented there."""

    episodes: int
    horizon: int = 200
    design: str = "sequential"
    floor: float = 0.0
    cap: float = 1.0
    ball: str = "paper"
    delta: float = 0.01
    authors: bool = False
    same_arms: bool = False
    carry_states: bool = False
    rules: Rules = _NO_RULES
    observed: Observation = 1.0
    exposure_regret: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        for each in dataclasses.fields(self):
            if each.name in _CHECKS:
                value = _blaming(each.name, _CHECKS[each.name], each.name, getattr(self, each.name))
                object.__setattr__(self, each.name, value)

    @property
    def confidence(self) -> Confidence:
        """How sure estimates are to be."""
        return Confidence(self.ball, self.delta)


@dataclass(frozen=True, kw_only=True)
class Setting(_Common):
    """One policy on one problem.

    Attributes
    ----------
    dataset, policy, merit : str
        A name, with settings: ``cpap:noise=0.2``. The policy takes over what the criterion below changes.
    n_arms, budget, episodes, horizon : int
        N, K, T and H; of budgets that change, the largest.
    budgets : tuple of int
        If the budget changes: one for each of some steps, which repeat.
    design, floor, cap, ball, delta
        With `merit`, the fairness criterion and the confidence.
    authors, same_arms, carry_states : bool
        The authors' own instances; all runs on one instance; states carry over between episodes.
    rules : Rules
        Who may be pulled; a mapping such as ``{"cooldown": 2}`` stands for them.
    observed : float or "pulled"
        The chance that a state is seen; or only the states of those who are pulled are.
    exposure_regret : bool
        Measure it also where that takes an integral for each episode.
    seed : int
    own_arms : Arms, optional
        Instead of those of a data set, which is then only a name; their checksum is added to it.
    own_policy : PolicySource, optional
        Where the policy is defined, if it is in no list.

    Examples
    --------
    >>> setting = Setting(dataset="cpap", n_arms=20, budget=4, policy="merit-fair:estimate=mean", episodes=100)
    >>> setting.make_policy().estimate, len(setting.arms(range(10, 13)))
    ('mean', 3)
    """

    dataset: str
    n_arms: int
    budget: int
    policy: str
    merit: str = "exponential:c=3"
    budgets: tuple[int, ...] = ()
    own_arms: Arms | None = field(default=None, compare=False, repr=False)
    own_policy: PolicySource | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.budgets != ():
            _blaming("budgets", self._check_budgets)
        if self.own_arms is not None:
            object.__setattr__(self, "dataset", _marked(self.dataset, self.own_arms))

    def _check_budgets(self) -> None:
        cycle = check_budgets(self.budgets, self.n_arms)
        if isinstance(cycle, int) or max(cycle) != self.budget:
            raise InputError(f"the largest of several budgets must be the budget of {self.budget}, got {cycle!r}")
        object.__setattr__(self, "budgets", cycle)

    def settings(self) -> dict[str, Any]:
        """Return all of it as plain values; of arms of your own, the name and the checksum.

        Rules and several budgets are left out if there are none.
        """
        names = (each.name for each in dataclasses.fields(self) if each.name not in _SPECIAL)
        own = {name: value for name, value in self.rules.settings().items() if value}
        several = {"budgets": list(self.budgets), "rules": own}
        return {name: getattr(self, name) for name in names} | {name: each for name, each in several.items() if each}

    @property
    def cycle(self) -> tuple[int, ...]:
        """The budget of each step, again from the start after the last."""
        return self.budgets or (self.budget,)

    @property
    def criterion(self) -> Criterion:
        """The fairness criterion."""
        return Criterion(merit_from_text(self.merit), self.design, self.floor, self.cap)

    def make_policy(self) -> Policy:
        """Return the policy."""
        if self.own_policy is None and is_own(split_name(self.policy)[0]):
            raise InputError(f"the source of {self.policy} is not here, only its name")
        return _make_policy(self.policy, self.own_policy, self.criterion, self.confidence)

    def arms(self, runs: range) -> tuple[Arms, ...]:
        """Return the arms of these runs."""
        if self.own_arms is not None:
            if self.own_arms.n_arms != self.n_arms:
                raise InputError(f"{self.dataset} has {self.own_arms.n_arms} arms, got a size of {self.n_arms}")
            return (self.own_arms,) * len(runs)
        if _MARK in self.dataset:
            raise InputError(f"the arms of {self.dataset} are not here, only their checksum")
        name, settings = split_settings(self.dataset)
        if self.authors and self.budgets:
            raise InputError(f"the authors' instances need one budget for all steps, got {list(self.budgets)}")
        budget, seed = (self.budget, None) if self.authors else (None, self.seed)
        first, number = (0, 1) if self.same_arms else (runs.start, len(runs))
        made = datasets.instances(
            name, self.n_arms, number, seed, authors=self.authors, budget=budget, first_run=first, **settings
        )
        return made * len(runs) if self.same_arms else made

    def play(self, runs: range) -> Run:
        """Play these runs, on one core."""
        return simulate(
            self.arms(runs),
            self.make_policy(),
            budget=self.budgets or self.budget,
            episodes=self.episodes,
            horizon=self.horizon,
            seed=self.seed,
            first_run=runs.start,
            rules=self.rules,
            carry_states=self.carry_states,
            observed=self.observed,
            exposure_regret=self.exposure_regret,
            workers=1,
            criterion=self.criterion,
            confidence=self.confidence,
        )


@dataclass(frozen=True, kw_only=True)
class Spec(_Common):
    """A sweep: every data set × size × merit × policy, each with that many runs.

    Attributes
    ----------
    datasets, policies, merits : tuple of str
        What would be typed on the command line; a single text stands for a tuple of one. Of policies, also functions
        that plan and policies themselves, which become text.
    sizes : tuple of (int, int)
        Pairs of N and K; a K that changes is a tuple, one for each of some steps, which repeat: ``(20, (4, 4, 0))``.
    runs : int
        Independent runs of each setting.
    own_arms : mapping of str to Arms
        Arms of your own, by the names that `datasets` has for them; their checksums are added to these.
    own_policies : mapping of str to PolicySource
        Where policies of your own are defined, by the names that `policies` has for them; made from `policies`.
    others
        As for `Setting`, the same for all.

    Examples
    --------
    >>> spec = Spec(datasets=("cpap",), sizes=((5, 1), (10, 2)), policies=("merit-fair", "optimal"), episodes=100)
    >>> len(spec.settings()), spec.settings()[0].policy
    (4, 'merit-fair')
    >>> Spec(datasets="cpap", sizes=[(5, 7)], policies="merit-fair", episodes=100)
    Traceback (most recent call last):
    ...
    meritfair.lab.spec.SpecError: sizes: budget must be between 1 and the 5 arms, got 7
    """

    datasets: tuple[str, ...]
    sizes: tuple[tuple[int, Budget], ...]
    policies: tuple[str, ...]
    merits: tuple[str, ...] = ("exponential:c=3",)
    runs: int = 30
    own_arms: Mapping[str, Arms] = field(default_factory=dict, compare=False, repr=False)
    own_policies: Mapping[str, PolicySource] = field(default_factory=dict, compare=False, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        _blaming("floor" if self.floor else "cap", check_design, self.design, self.floor, self.cap)
        names = {name: _marked(name, arms) for name, arms in self.own_arms.items()}

        def checked_dataset(text: Any) -> str:
            if isinstance(text, str) and text in names:
                return names[text]
            datasets.check_dataset(*split_settings(text))
            return str(text)

        set_ = object.__setattr__
        set_(self, "merits", _check_each("merits", self.merits, _checked_merit))
        policies = _check_each("policies", self.policies, self._checked_policy)
        set_(self, "own_policies", _sources(policies))
        set_(self, "policies", tuple(text for text, _ in policies))
        set_(self, "datasets", _check_each("datasets", self.datasets, checked_dataset))
        set_(self, "sizes", _check_each("sizes", self.sizes, self._checked_size))
        set_(self, "own_arms", {names[name]: arms for name, arms in self.own_arms.items()})
        for (position, name), (at, (n_arms, _)) in product(enumerate(self.datasets), enumerate(self.sizes)):
            if name in self.own_arms:
                self._check_own(position, at, name, n_arms)

    def _checked_size(self, pair: Any) -> tuple[int, Budget]:
        if not isinstance(pair, Sequence) or isinstance(pair, str) or len(pair) != 2:
            raise InputError(f"a size is a pair of arms and budget, such as [20, 4], got {pair!r}")
        n_arms = check_whole("arms", pair[0], 1)
        budget = check_budgets(pair[1], n_arms)
        check_size(n_arms, runs=1, episodes=self.episodes, horizon=self.horizon, workers=1)
        check_bounds(self.floor, self.cap, n_arms, _largest(budget))
        self.rules.check(n_arms, budget)
        return n_arms, budget

    def _checked_policy(self, given: Any) -> _Named:
        text, source = _as_text(given, self.own_policies)
        criterion = Criterion(merit_from_text(self.merits[0]), self.design, self.floor, self.cap)
        _make_policy(text, source, criterion, self.confidence)
        return text, source

    def _check_own(self, position: int, at: int, name: str, n_arms: int) -> None:
        if self.authors:
            raise SpecError("datasets", f"{_plain(name)} cannot go together with authors = true", position)
        if n_arms != self.own_arms[name].n_arms:
            found = self.own_arms[name].n_arms
            raise SpecError("sizes", f"{_plain(name)} has {found} arms, got a size of {n_arms}", at)

    def settings(self) -> tuple[Setting, ...]:
        """Return every point of the product, policies changing fastest."""
        same: dict[str, Any] = {each.name: getattr(self, each.name) for each in dataclasses.fields(_Common)}
        made = []
        for dataset, (n_arms, budget), merit, policy in product(self.datasets, self.sizes, self.merits, self.policies):
            budgets = () if isinstance(budget, int) else budget
            size = {"n_arms": n_arms, "budget": _largest(budget), "budgets": budgets}
            point = {**same, **size, "dataset": dataset, "merit": merit, "policy": policy}
            own: Any = {
                "own_arms": self.own_arms.get(dataset),
                "own_policy": self.own_policies.get(split_name(policy)[0]),
            }
            made.append(Setting(**point, **own))
        return tuple(made)

    def try_out(self, settings: Iterable[Setting], progress: Callable[[str, int, int], None] | None = None) -> None:
        """Play a single step of each of these settings, which finds what cannot be played before time is spent."""
        every = tuple(settings)
        for number, each in enumerate(every):
            if progress is not None:
                progress("checking", number, len(every))
            step = dataclasses.replace(each, episodes=1, horizon=1, exposure_regret=False)
            try:
                step.arms(range(1))
            except MeritfairError as error:
                problem = f"{each.dataset!r} with {each.n_arms} arms: {error}"
                raise SpecError("datasets", problem, self.datasets.index(each.dataset)) from error
            try:
                step.play(range(1))
            except MeritfairError as error:
                where = f"on {each.dataset} with {each.n_arms} arms and a budget of {budget_text(each.cycle)}"
                problem = f"{each.policy!r} cannot be played {where}: {error}"
                raise SpecError("policies", problem, self.policies.index(each.policy)) from error


def _check_each(key: str, values: Any, check: Callable[[Any], _Value]) -> tuple[_Value, ...]:
    """Return all of a list, checked; a single text, or a single size, stands for a list of one."""
    single = isinstance(values, (str, Policy)) or callable(values) or (key == "sizes" and _is_pair(values))
    if not single and (not isinstance(values, Sequence) or not len(values)):
        wanted = "pairs of arms and budget, such as [[20, 4]]" if key == "sizes" else "texts"
        raise SpecError(key, f"{key} must be a non-empty list of {wanted}, got {values!r}")
    checked: list[_Value] = []
    for position, value in enumerate([values] if single else values):
        checked.append(_blaming(key, check, value, position=position))
        if checked[-1] in checked[:-1]:
            raise SpecError(key, f"{value!r} is a duplicate", position)
    return tuple(checked)


def _as_text(given: Any, known: Mapping[str, PolicySource]) -> _Named:
    """Return a policy, given in any way, as text."""
    if not isinstance(given, str):
        return _text_of(as_policy(given))
    name, settings = split_name(given)
    if name not in known and not is_own(name):
        return given, None
    source = known[name] if name in known else PolicySource.read(name)
    return f"{source.name}:{settings}" if settings else source.name, source


def _text_of(policy: Policy) -> _Named:
    """Return the text of which a policy is made again."""
    listed = policy.name in registry.names() and registry.policy_class(policy.name) is type(policy)
    source = None if listed else PolicySource.of(policy)
    text = registry.text_of(policy, None if source is None else source.name)
    if _make_policy(text, source, Criterion(), Confidence()).settings() != policy.settings():
        raise InputError(f"settings in a sweep must be such that they can be typed, got {policy!r}")
    return text, source


def _make_policy(text: str, source: PolicySource | None, criterion: Criterion, confidence: Confidence) -> Policy:
    found = None if source is None else registry.policy_in(source)
    return registry.create_under(text, criterion, confidence, found)


def _sources(policies: Iterable[_Named]) -> dict[str, PolicySource]:
    """Return where policies are defined, by name, of those that are in no list."""
    found: dict[str, PolicySource] = {}
    for text, source in policies:
        if source is not None and found.setdefault(split_name(text)[0], source) != source:
            raise SpecError("policies", f"there are two files of the name {source.home}: rename one")
    return found


def _is_pair(values: Any) -> bool:
    return isinstance(values, Sequence) and len(values) == 2 and isinstance(values[0], int)


def _largest(budget: Budget) -> int:
    return budget if isinstance(budget, int) else max(budget)


def _checked_merit(text: str) -> str:
    merit_from_text(text)
    return text


def _plain(name: str) -> str:
    return name.partition(_MARK)[0]


def _marked(name: str, arms: Arms) -> str:
    """Return a name with the checksum of the arms that it stands for."""
    return f"{_plain(name)}{_MARK}{hashlib.sha256(arms.transitions.astype('<f8').tobytes()).hexdigest()[:16]}"
