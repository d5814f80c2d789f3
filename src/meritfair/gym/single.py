"""One restless bandit as a Gymnasium environment, in NumPy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium.spaces import MultiBinary

from meritfair.core.arrays import FloatArray
from meritfair.gym.actions import Bits, Pulls, check_environment, check_options, check_pulls, line, renders
from meritfair.model.arms import Arms


class RestlessBanditEnv(gymnasium.Env[Bits, Bits]):
    """One restless bandit: ``gymnasium.make("meritfair/RestlessBandit-v0", arms=…, budget=…)``.

    Every random number is of ``np_random``, and one is used for each arm and step whatever is pulled: with the same
    seed, two agents meet the same random numbers.

    Parameters
    ----------
    arms : Arms or array_like, shape (N, 2, 2)
        The probability of being good next, by arm, state and action.
    budget : int
        Most arms that can be pulled at a step.
    horizon : int, default 200
        Steps in an episode.
    availability : float or array_like, shape (N,), default 1.0
        The probability that an arm can be pulled at a step. ``info["action_mask"]`` says who can at the next.
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
    meritfair.core.errors.InputError: action must pull at most 1 arm, the budget, got 2
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
        checked = check_environment(arms, budget, horizon, availability, render_mode)
        self.arms, self.budget, self.horizon, self._availability = checked
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
        given = check_options(options, self._states.shape)
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
        self._pulls = check_pulls("action", action, self._mask, self.budget)
        self._move(self.arms.transitions[self._every, self._states, self._pulls])
        self._steps += 1
        states, info = self._seen()
        return states, float(info["good"]), False, self._steps == self.horizon, info

    def render(self) -> str | None:
        return line(self._states, self._pulls, self._steps, self.horizon) if renders(self) else None

    def _move(self, probability: FloatArray) -> None:
        """Make each arm good with its probability, then draw who can be pulled next."""
        self._states = (self.np_random.random(len(probability)) < probability).astype(np.int8)
        self._mask = np.ones_like(self._states)
        if len(self._availability):
            self._mask = (self.np_random.random(len(probability)) < self._availability).astype(np.int8)

    def _seen(self) -> tuple[Bits, dict[str, Any]]:
        """Return what an agent sees, as arrays that it can keep."""
        return self._states.copy(), {"action_mask": self.action_mask, "good": int(self._states.sum())}
