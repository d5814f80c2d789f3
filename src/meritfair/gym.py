r"""Restless bandits as Gymnasium environments; needs the extra ``gym``.

An observation is the state of each arm, an action a 0 or 1 for each arm with at most K ones, the budget. Arm i then is
good with the chance :math:`P_i(s_i, a_i, 1)`, and the reward is how many arms are good after the step, as in
`Run.reward`. An episode ends, truncated, after ``horizon`` steps; it never terminates.

Importing this module registers ``meritfair/RestlessBandit-v0``. `RestlessBanditEnv` is one environment in NumPy,
`RestlessBanditVectorEnv` many of them in one compiled call. Each environment of the second has the random numbers that
it would have alone, so it does, number for number, what Gymnasium's ``SyncVectorEnv`` would do with the first.

An arm that is not always there has an ``availability``, the chance that it can be pulled at a step, independent of
everything else. The mask says who can: 1 may be pulled, 0 may not, as in the masks of Gymnasium's ``Discrete`` (in
those of its ``MultiBinary`` a 1 would have to be pulled).
"""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from meritfair.arrays import AnyArray
from meritfair.checks import check_budget, check_choice, check_settings, check_whole, float_array
from meritfair.errors import InputError, MissingExtraError
from meritfair.model.arms import Arms

try:
    import gymnasium
except ImportError:
    raise MissingExtraError("the Gymnasium environment", "gym") from None

from gymnasium.spaces import MultiBinary
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from meritfair.arrays import BoolArray, FloatArray, IntArray

__all__ = ["ENV_ID", "Pulls", "RestlessBanditEnv", "RestlessBanditVectorEnv", "register"]

ENV_ID = "meritfair/RestlessBandit-v0"

Bits: TypeAlias = npt.NDArray[np.int8]

_MOST_SHOWN = 60  # arms on a line of text


def register() -> None:
    """Make the environment known to Gymnasium; more than once is the same as once."""
    if ENV_ID not in gymnasium.registry:
        gymnasium.register(
            ENV_ID,
            entry_point="meritfair.gym:RestlessBanditEnv",
            vector_entry_point="meritfair.gym:RestlessBanditVectorEnv",
        )


class Pulls(MultiBinary):
    """The space of actions: a 0 or 1 for each arm, at most `budget` ones.

    Parameters
    ----------
    n : int or sequence of int
        How many arms; of several axes the last is the arms, and the budget is that of each row.
    budget : int
        Most arms that are pulled. A sample pulls just as many.
    seed : int or Generator, optional
        For the samples.

    Examples
    --------
    >>> space = Pulls(5, budget=2, seed=1)
    >>> int(space.sample().sum())
    2
    >>> np.array([1, 1, 1, 0, 0]) in space, np.array([1, 0, 0, 0, 0]) in space
    (False, True)
    >>> space.sample(mask=np.array([0, 1, 0, 0, 1], np.int8))
    array([0, 1, 0, 0, 1], dtype=int8)
    """

    def __init__(self, n: Sequence[int] | int, budget: int, seed: int | np.random.Generator | None = None) -> None:
        super().__init__(n, seed)
        self.budget = check_budget(budget, self.shape[-1])

    def sample(self, mask: Bits | None = None, probability: Any = None) -> Bits:
        """Pull `budget` arms, all sets of them equally likely; of arms with a mask of 1, or all if those are fewer."""
        if probability is not None:
            raise InputError("pulls are sampled with a mask or without, not with a probability")
        may = np.ones(self.shape, np.int8) if mask is None else _bits("mask", mask, self.shape)
        luck = np.where(may == 1, self.np_random.random(self.shape), 2.0)
        first = np.argpartition(luck, self.budget - 1, axis=-1)[..., : self.budget]
        pulls = np.zeros(self.shape, np.int8)
        np.put_along_axis(pulls, first, 1, axis=-1)
        return pulls & may

    def contains(self, x: Any) -> bool:
        return super().contains(x) and bool((np.asarray(x).sum(axis=-1) <= self.budget).all())

    def __repr__(self) -> str:
        return f"Pulls({self.n}, budget={self.budget})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Pulls) and self.n == other.n and self.budget == other.budget


@batch_space.register(Pulls)
def _batch_pulls(space: Pulls, n: int = 1) -> Pulls:
    """Return the space of the actions of n environments; Gymnasium's own would forget the budget."""
    return Pulls((n, *space.shape), space.budget, deepcopy(space.np_random))


class _Settings(NamedTuple):
    """What both kinds of environment are made of."""

    arms: Arms
    budget: int
    horizon: int
    availability: FloatArray  # (N,), or (0,) if all arms can always be pulled


def _settings(
    arms: Arms | npt.ArrayLike, budget: int, horizon: int, availability: npt.ArrayLike, render_mode: str | None
) -> _Settings:
    """Check what both kinds of environment are made of."""
    checked = arms if isinstance(arms, Arms) else Arms(arms)
    if render_mode is not None:
        check_choice("render_mode", render_mode, ["ansi"])
    return _Settings(
        checked,
        check_budget(budget, len(checked)),
        check_whole("horizon", horizon, 1),
        _chances(availability, len(checked)),
    )


def _chances(availability: npt.ArrayLike, n_arms: int) -> FloatArray:
    """Return the chance of each arm that it can be pulled, or none if all always can."""
    chances = float_array("availability", availability)
    if chances.shape not in ((), (n_arms,)):
        raise InputError(
            f"availability must be one number or one for each of the {n_arms} arms, got shape {chances.shape}"
        )
    chances = np.broadcast_to(chances, n_arms)
    wrong = ~((chances >= 0) & (chances <= 1))
    if wrong.any():
        arm = int(np.argmax(wrong))
        raise InputError(f"availability must lie between 0 and 1, got {chances[arm]} for arm {arm}")
    return np.zeros(0) if (chances == 1).all() else chances.copy()


def _shaped(name: str, value: Any, *shapes: tuple[int, ...]) -> AnyArray:
    """Return `value` as an array if it has one of these shapes."""
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise InputError(f"{name} must be an array of 0 and 1: {error}") from None
    if array.shape not in shapes:
        one_of = " or ".join(dict.fromkeys(map(str, shapes)))
        raise InputError(f"{name} must have shape {one_of}, with a 0 or 1 for each arm, got {array.shape}")
    return array


def _bits(name: str, value: Any, *shapes: tuple[int, ...]) -> Bits:
    """Return `value` as an array of 0 and 1 if it is one and has one of these shapes."""
    array = _shaped(name, value, *shapes)
    wrong = (array != 0) & (array != 1)
    if wrong.any():
        at = tuple(np.argwhere(wrong)[0])
        raise InputError(f"{name} must be 0 or 1 for each arm, got {array[at]} for arm {at[-1]}")
    return np.asarray(array == 1, np.int8)


def _check_pulls(name: str, action: Any, mask: Bits, budget: int) -> Bits:
    """Return the action of one environment as pulls, if it can be done."""
    pulls = _bits(name, action, mask.shape)
    if (total := int(pulls.sum())) > budget:
        raise InputError(f"{name} must pull at most {budget} arm{'s' * (budget != 1)}, the budget, got {total}")
    barred = np.flatnonzero(pulls > mask)
    if len(barred):
        raise InputError(f"{name} pulls arm {barred[0]}, which cannot be pulled at this step: its action_mask is 0")
    return pulls


def _check_options(options: Mapping[str, Any] | None, shape: tuple[int, ...]) -> dict[str, Bits]:
    """Return the options of a reset as arrays."""
    given = options or {}
    check_settings("reset", given, ["states", "available"])
    return {name: _bits(name, value, shape, shape[-1:]) for name, value in given.items()}


def _line(states: Bits, pulls: Bits, step: int, horizon: int) -> str:
    """Return one environment as a line of text."""
    shown = "".join("○●△▲"[state + 2 * pull] for state, pull in zip(states[:_MOST_SHOWN], pulls, strict=False))
    more = "…" if len(states) > _MOST_SHOWN else ""
    return f"step {step:{len(str(horizon))}}/{horizon}  {shown}{more}  {states.sum(dtype=int)} of {len(states)} good"


def _renders(env: RestlessBanditEnv | RestlessBanditVectorEnv) -> bool:
    """Tell whether an environment was made to be rendered; warn, as Gymnasium's own do, if not."""
    if env.render_mode is None:
        gymnasium.logger.warn('render() needs an environment that was made with render_mode="ansi"')
    return env.render_mode is not None


class RestlessBanditEnv(gymnasium.Env[Bits, Bits]):
    """One restless bandit: ``gymnasium.make("meritfair/RestlessBandit-v0", arms=…, budget=…)``.

    Every random number is of ``np_random``, and one is used for each arm and step whatever is pulled: with the same
    seed, two agents meet the same luck.

    Parameters
    ----------
    arms : Arms or array_like, shape (N, 2, 2)
        The chance of being good next, by arm, state and action.
    budget : int
        Most arms that can be pulled at a step.
    horizon : int, default 200
        Steps in an episode.
    availability : float or array_like, shape (N,), default 1.0
        The chance that an arm can be pulled at a step. ``info["action_mask"]`` says who can at the next.
    render_mode : "ansi", optional
        Then `render` returns a line of text: ● good, ○ bad, and ▲ △ the same of arms that were just pulled.

    Examples
    --------
    >>> import gymnasium
    >>> arms = [[[0.2, 0.6], [0.5, 0.9]], [[0.3, 0.4], [0.7, 0.8]], [[0.1, 0.1], [0.9, 0.9]]]
    >>> env = gymnasium.make("meritfair/RestlessBandit-v0", arms=arms, budget=1, render_mode="ansi")
    >>> states, info = env.reset(seed=2, options={"states": [0, 0, 1]})
    >>> states, reward, terminated, truncated, info = env.step([1, 0, 0])
    >>> print(env.render())
    step   1/200  ▲○●  2 of 3 good
    >>> env.step([1, 1, 0])
    Traceback (most recent call last):
    ...
    meritfair.errors.InputError: action must pull at most 1 arm, the budget, got 2
    """

    metadata = {"render_modes": ["ansi"], "render_fps": 4}  # noqa: RUF012 - declared so by Gymnasium
    observation_space: MultiBinary
    action_space: Pulls

    def __init__(
        self,
        arms: Arms | npt.ArrayLike,
        budget: int,
        horizon: int = 200,
        availability: npt.ArrayLike = 1.0,
        render_mode: str | None = None,
    ) -> None:
        settings = _settings(arms, budget, horizon, availability, render_mode)
        self.arms, self.budget, self.horizon, self._availability = settings
        self.render_mode = render_mode
        n_arms = len(self.arms)
        self.observation_space = MultiBinary(n_arms)
        self.action_space = Pulls(n_arms, self.budget)
        self._every = np.arange(n_arms)
        self._states, self._pulls = np.zeros((2, n_arms), np.int8)
        self._mask = np.ones(n_arms, np.int8)
        self._steps = self.horizon  # an episode that is over: the first reset begins one

    @property
    def action_mask(self) -> Bits:
        """Who can be pulled at the next step, shape (N,)."""
        return self._mask.copy()

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[Bits, dict[str, Any]]:
        """Begin an episode; each arm is good with probability 1/2.

        The options "states" and "available" instead say who is good at the start, and who can be pulled at the first
        step. They change no random number that follows.
        """
        given = _check_options(options, self._states.shape)
        super().reset(seed=seed)
        self._move(np.full(len(self.arms), 0.5))
        self._states = given.get("states", self._states)
        self._mask = given.get("available", self._mask)
        self._pulls = np.zeros_like(self._states)
        self._steps = 0
        return self._seen()

    def step(self, action: npt.ArrayLike) -> tuple[Bits, float, bool, bool, dict[str, Any]]:
        """Pull arms and let all move; an action that cannot be done is refused and changes nothing."""
        if self._steps == self.horizon:
            raise gymnasium.error.ResetNeeded(f"reset() must begin an episode, which then has {self.horizon} steps")
        self._pulls = _check_pulls("action", action, self._mask, self.budget)
        self._move(self.arms.transitions[self._every, self._states, self._pulls])
        self._steps += 1
        states, info = self._seen()
        return states, float(info["good"]), False, self._steps == self.horizon, info

    def render(self) -> str | None:
        return _line(self._states, self._pulls, self._steps, self.horizon) if _renders(self) else None

    def _move(self, chances: FloatArray) -> None:
        """Make each arm good with its chance, then draw who can be pulled next."""
        self._states = (self.np_random.random(len(chances)) < chances).astype(np.int8)
        self._mask = np.ones_like(self._states)
        if len(self._availability):
            self._mask = (self.np_random.random(len(chances)) < self._availability).astype(np.int8)

    def _seen(self) -> tuple[Bits, dict[str, Any]]:
        """Return what an agent sees, as arrays that it can keep."""
        return self._states.copy(), {"action_mask": self.action_mask, "good": int(self._states.sum())}


class RestlessBanditVectorEnv(VectorEnv[Bits, npt.ArrayLike, AnyArray]):
    """Many restless bandits of the same arms, moved by one compiled call.

    Made by ``gymnasium.make_vec("meritfair/RestlessBandit-v0", num_envs=…, arms=…, budget=…)``. An environment whose
    episode is over begins a new one at the next step, whatever its action then is (``AutoresetMode.NEXT_STEP``).
    Parameters are those of `RestlessBanditEnv`, and the number of environments.

    Examples
    --------
    >>> import gymnasium
    >>> arms = [[[0.2, 0.6], [0.5, 0.9]], [[0.3, 0.4], [0.7, 0.8]], [[0.1, 0.1], [0.9, 0.9]]]
    >>> envs = gymnasium.make_vec("meritfair/RestlessBandit-v0", num_envs=1000, arms=arms, budget=1)
    >>> states, infos = envs.reset(seed=1)
    >>> states, rewards, terminated, truncated, infos = envs.step(envs.action_space.sample())
    >>> states.shape, rewards.shape
    ((1000, 3), (1000,))
    """

    metadata = {"render_modes": ["ansi"], "render_fps": 4, "autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012
    single_observation_space: MultiBinary
    single_action_space: Pulls
    action_space: Pulls

    def __init__(
        self,
        num_envs: int,
        arms: Arms | npt.ArrayLike,
        budget: int,
        horizon: int = 200,
        availability: npt.ArrayLike = 1.0,
        render_mode: str | None = None,
    ) -> None:
        settings = _settings(arms, budget, horizon, availability, render_mode)
        self.arms, self.budget, self.horizon, self._availability = settings
        self.num_envs = check_whole("num_envs", num_envs, 1)
        self.render_mode = render_mode
        shape = self.num_envs, len(self.arms)
        self.single_observation_space = MultiBinary(len(self.arms))
        self.single_action_space = Pulls(len(self.arms), self.budget)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = _batch_pulls(self.single_action_space, self.num_envs)
        self._states, self._pulls = np.zeros((2, *shape), np.int8)
        self._masks = np.ones(shape, np.int8)
        self._steps = np.full(self.num_envs, self.horizon)
        self._chances = self.arms.transitions.copy()
        self._words = np.zeros((self.num_envs, 4), np.uint64)  # the places of the generators
        self._seeds: tuple[int, ...] = ()

    @property  # type: ignore[misc]  # not to be set
    def np_random(self) -> tuple[np.random.Generator, ...]:  # type: ignore[override]  # as in SyncVectorEnv
        """A generator for each environment, which stands where that environment's own does; a copy."""
        from meritfair.engine.environments import generator_at

        return tuple(map(generator_at, self._words)) if self._seeds else ()

    @property
    def np_random_seed(self) -> tuple[int, ...]:  # type: ignore[override]  # as in SyncVectorEnv
        """The seed of each environment; none before the first reset."""
        return self._seeds

    @property
    def action_mask(self) -> Bits:
        """Who can be pulled at the next step, shape (num_envs, N)."""
        return self._masks.copy()

    def reset(
        self, *, seed: int | Iterable[int | None] | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[Bits, dict[str, Any]]:
        """Begin an episode in all environments.

        With a seed environment i gets `seed` + i, or the i-th of several. Options are as in `RestlessBanditEnv`, for
        all environments or, with another axis in front, for each.
        """
        given = _check_options(options, self._states.shape)
        self._seed(seed)
        self._steps[:] = self.horizon
        self._move(self._pulls)
        for name, own in (("states", self._states), ("available", self._masks)):
            own[:] = given.get(name, own)
        return self._states.copy(), self._infos(self._states.sum(axis=1))

    def step(self, actions: npt.ArrayLike) -> tuple[Bits, FloatArray, BoolArray, BoolArray, dict[str, Any]]:
        """Pull arms and let all move; if one action cannot be done, all are refused and nothing is changed."""
        if not self._seeds:
            raise gymnasium.error.ResetNeeded("reset() must begin the episodes")
        begins = self._steps == self.horizon
        good = self._move(_shaped("actions", actions, self._states.shape))
        truncated = self._steps == self.horizon
        return (
            self._states.copy(),
            np.where(begins, 0.0, good),
            np.zeros_like(truncated),
            truncated,
            self._infos(good),
        )

    def render(self) -> tuple[str, ...] | None:
        if not _renders(self):
            return None
        pulls = self._pulls * (self._steps > 0)[:, None]
        return tuple(_line(*row, self.horizon) for row in zip(self._states, pulls, self._steps, strict=True))

    def _seed(self, seed: int | Iterable[int | None] | None) -> None:
        """Give new generators to environments with a seed, and to all at first."""
        from meritfair.engine.environments import generator_words

        n = self.num_envs
        seeds: list[int | None]
        if seed is None:
            seeds = [None] * n
        else:
            seeds = list(seed) if isinstance(seed, Iterable) else [seed + i for i in range(n)]
        if len(seeds) != n:
            raise InputError(f"seed must be one number or one for each of the {n} environments, got {len(seeds)}")
        news = {i: seeding.np_random(seed) for i, seed in enumerate(seeds) if seed is not None or not self._seeds}
        for i, (generator, _) in news.items():
            self._words[i] = generator_words(generator)
        self._seeds = tuple(news[i][1] if i in news else self._seeds[i] for i in range(n))

    def _move(self, actions: AnyArray) -> IntArray:
        """Move all environments by one step; return how many arms are good in each."""
        from meritfair.engine.environments import step_environments

        bits = actions if actions.dtype == np.int8 else np.where(actions == 1, 1, np.where(actions == 0, 0, 2))
        pulls, good = np.array(bits, np.int8, order="C"), np.zeros(self.num_envs, np.int64)
        refused = step_environments(
            self._chances,
            self._availability,
            self._words,
            self._states,
            self._masks,
            self._steps,
            good,
            pulls,
            self.budget,
            self.horizon,
        )
        if refused >= 0:
            _check_pulls(f"the action of environment {refused}", actions[refused], self._masks[refused], self.budget)
        self._pulls = pulls
        return good

    def _infos(self, good: IntArray) -> dict[str, Any]:
        """Return what is known beside the states, as Gymnasium's own vector environments lay it out."""
        there = np.ones(self.num_envs, np.bool_)
        return {"action_mask": self.action_mask, "_action_mask": there, "good": good, "_good": there.copy()}


register()
