"""The space of actions, and the checks of what an environment is given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import TYPE_CHECKING, Any, TypeAlias

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium.spaces import MultiBinary
from gymnasium.vector.utils import batch_space

from meritfair.core.arrays import AnyArray, FloatArray
from meritfair.core.checks import check_budget, check_choice, check_settings, check_whole, float_array
from meritfair.core.errors import InputError
from meritfair.model.arms import Arms

if TYPE_CHECKING:
    from gymnasium.vector import VectorEnv

Bits: TypeAlias = npt.NDArray[np.int8]

_MOST_SHOWN = 60  # arms on a line of text


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
        may = np.ones(self.shape, np.int8) if mask is None else bits("mask", mask, self.shape)
        order = np.where(may == 1, self.np_random.random(self.shape), 2.0)
        first = np.argpartition(order, self.budget - 1, axis=-1)[..., : self.budget]
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
def batch_pulls(space: Pulls, n: int = 1) -> Pulls:
    """Return the space of the actions of n environments; Gymnasium's own would forget the budget."""
    return Pulls((n, *space.shape), space.budget, deepcopy(space.np_random))


def check_environment(
    arms: Arms | npt.ArrayLike, budget: int, horizon: int, availability: npt.ArrayLike, render_mode: str | None
) -> tuple[Arms, int, int, FloatArray]:
    """Return what both kinds of environment are made of, checked; no availability if all arms can always be pulled."""
    checked = arms if isinstance(arms, Arms) else Arms(arms)
    if render_mode is not None:
        check_choice("render_mode", render_mode, ["ansi"])
    pulled, steps = check_budget(budget, len(checked)), check_whole("horizon", horizon, 1)
    return checked, pulled, steps, _availability(availability, len(checked))


def _availability(availability: npt.ArrayLike, n_arms: int) -> FloatArray:
    """Return each arm's probability that it can be pulled, or none if all always can."""
    chance = float_array("availability", availability)
    if chance.shape not in ((), (n_arms,)):
        raise InputError(
            f"availability must be one number or one for each of the {n_arms} arms, got shape {chance.shape}"
        )
    chance = np.broadcast_to(chance, n_arms)
    wrong = ~((chance >= 0) & (chance <= 1))
    if wrong.any():
        arm = int(np.argmax(wrong))
        raise InputError(f"availability must lie between 0 and 1, got {chance[arm]} for arm {arm}")
    return np.zeros(0) if (chance == 1).all() else chance.copy()


def shaped(name: str, value: Any, *shapes: tuple[int, ...]) -> AnyArray:
    """Return `value` as an array if it has one of these shapes."""
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise InputError(f"{name} must be an array of 0 and 1: {error}") from None
    if array.shape not in shapes:
        one_of = " or ".join(dict.fromkeys(map(str, shapes)))
        raise InputError(f"{name} must have shape {one_of}, with a 0 or 1 for each arm, got {array.shape}")
    return array


def bits(name: str, value: Any, *shapes: tuple[int, ...]) -> Bits:
    """Return `value` as an array of 0 and 1 if it is one and has one of these shapes."""
    array = shaped(name, value, *shapes)
    wrong = (array != 0) & (array != 1)
    if wrong.any():
        at = tuple(np.argwhere(wrong)[0])
        raise InputError(f"{name} must be 0 or 1 for each arm, got {array[at]} for arm {at[-1]}")
    return np.asarray(array == 1, np.int8)


def check_pulls(name: str, action: Any, mask: Bits, budget: int) -> Bits:
    """Return the action of one environment as pulls, if it can be done."""
    pulls = bits(name, action, mask.shape)
    if (total := int(pulls.sum())) > budget:
        raise InputError(f"{name} must pull at most {budget} arm{'s' * (budget != 1)}, the budget, got {total}")
    barred = np.flatnonzero(pulls > mask)
    if len(barred):
        raise InputError(f"{name} pulls arm {barred[0]}, which cannot be pulled at this step: its action_mask is 0")
    return pulls


def check_options(options: Mapping[str, Any] | None, shape: tuple[int, ...]) -> dict[str, Bits]:
    """Return the options of a reset as arrays."""
    given = options or {}
    check_settings("reset", given, ["states", "available"])
    return {name: bits(name, value, shape, shape[-1:]) for name, value in given.items()}


def line(states: Bits, pulls: Bits, step: int, horizon: int) -> str:
    """Return one environment as a line of text."""
    shown = "".join("○●△▲"[state + 2 * pull] for state, pull in zip(states[:_MOST_SHOWN], pulls, strict=False))
    more = "…" if len(states) > _MOST_SHOWN else ""
    return f"step {step:{len(str(horizon))}}/{horizon}  {shown}{more}  {states.sum(dtype=int)} of {len(states)} good"


def renders(env: gymnasium.Env[Any, Any] | VectorEnv[Any, Any, Any]) -> bool:
    """Tell whether an environment was made to be rendered; warn, as Gymnasium's own do, if not."""
    if env.render_mode is None:
        gymnasium.logger.warn('render() needs an environment that was made with render_mode="ansi"')
    return env.render_mode is not None
