"""Many restless bandits as one Gymnasium vector environment, in one compiled call."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium.spaces import MultiBinary
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from meritfair.core.arrays import AnyArray, BoolArray, FloatArray, IntArray
from meritfair.core.checks import check_whole
from meritfair.core.errors import InputError
from meritfair.gym.actions import (
    Bits,
    Pulls,
    batch_pulls,
    check_environment,
    check_options,
    check_pulls,
    line,
    renders,
    shaped,
)
from meritfair.model.arms import Arms


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
        checked = check_environment(arms, budget, horizon, availability, render_mode)
        self.arms, self.budget, self.horizon, self._availability = checked
        self.num_envs = check_whole("num_envs", num_envs, 1)
        self.render_mode = render_mode
        shape = self.num_envs, len(self.arms)
        self.single_observation_space = MultiBinary(len(self.arms))
        self.single_action_space = Pulls(len(self.arms), self.budget)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_pulls(self.single_action_space, self.num_envs)
        self._states, self._pulls = np.zeros((2, *shape), np.int8)
        self._masks = np.ones(shape, np.int8)
        self._steps = np.full(self.num_envs, self.horizon)
        self._transitions = self.arms.transitions.copy()
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
        given = check_options(options, self._states.shape)
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
        good = self._move(shaped("actions", actions, self._states.shape))
        truncated, rewards = self._steps == self.horizon, np.where(begins, 0.0, good)
        return self._states.copy(), rewards, np.zeros_like(truncated), truncated, self._infos(good)

    def render(self) -> tuple[str, ...] | None:
        if not renders(self):
            return None
        pulls = self._pulls * (self._steps > 0)[:, None]
        return tuple(line(*row, self.horizon) for row in zip(self._states, pulls, self._steps, strict=True))

    def _seed(self, seed: int | Iterable[int | None] | None) -> None:
        """Give new generators to environments with a seed, and to all at first."""
        from meritfair.engine.environments import generator_words

        n = self.num_envs
        seeds = list(seed) if isinstance(seed, Iterable) else [None if seed is None else seed + i for i in range(n)]
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
        own = self._transitions, self._availability, self._words, self._states, self._masks, self._steps
        refused = step_environments(*own, good, pulls, self.budget, self.horizon)
        if refused >= 0:
            check_pulls(f"the action of environment {refused}", actions[refused], self._masks[refused], self.budget)
        self._pulls = pulls
        return good

    def _infos(self, good: IntArray) -> dict[str, Any]:
        """Return what is known beside the states, as Gymnasium's own vector environments lay it out."""
        there = np.ones(self.num_envs, np.bool_)
        return {"action_mask": self.action_mask, "_action_mask": there, "good": good, "_good": there.copy()}
