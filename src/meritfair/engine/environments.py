r"""Many environments of the same arms, each moved by one step in one call.

Every environment has the random numbers of a NumPy generator of its own, a PCG64, whose place is kept in four words.
So it goes, number for number, as it would alone in Python: what NumPy's ``random`` would return next decides first the
states and then, if some arms cannot always be pulled, which of them can.

The generator has a state of 128 bits, :math:`x \leftarrow a x + c \bmod 2^{128}`, and returns the exclusive or of the
two halves of x, rotated by its top six bits.

References
----------
M. O'Neill, "PCG: A family of simple fast space-efficient statistically good algorithms for random number
generation", Harvey Mudd College, HMC-CS-2014-0905 (2014).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from meritfair.core.arrays import FloatArray, IntArray, WordArray
from meritfair.engine.bits import Word
from meritfair.engine.compiling import kernel, part

_TWO_64 = 1 << 64
_A_HIGH = np.uint64(2549297995355413924)  # the multiplier a
_A_LOW = np.uint64(4865540595714422341)
_HALF = np.uint64(32)
_LOW_HALF = np.uint64(0xFFFFFFFF)
_TOP_SIX = np.uint64(58)
_LAST_SIX = np.uint64(63)
_WORD_BITS = np.uint64(64)


def generator_words(generator: np.random.Generator) -> WordArray:
    """Return the place of a generator that is a PCG64, shape (4,): x and then c, the upper word first."""
    place = generator.bit_generator.state["state"]
    halves = [divmod(place[name], _TWO_64) for name in ("state", "inc")]
    return np.array(halves, dtype=np.uint64).reshape(4)


def generator_at(words: WordArray) -> np.random.Generator:
    """Return a generator at this place."""
    high, low, c_high, c_low = words.tolist()
    numbers = np.random.PCG64(0)
    numbers.state = {**numbers.state, "state": {"state": high * _TWO_64 + low, "inc": c_high * _TWO_64 + c_low}}
    return np.random.Generator(numbers)


@part
def _upper_product(first: Word, second: Word) -> Word:
    """Return the upper word of a product of two words."""
    first_low, first_high = first & _LOW_HALF, first >> _HALF
    second_low, second_high = second & _LOW_HALF, second >> _HALF
    middle = first_high * second_low + (first_low * second_low >> _HALF)
    carry = first_low * second_high + (middle & _LOW_HALF)
    return first_high * second_high + (middle >> _HALF) + (carry >> _HALF)


@part
def _advance(high: Word, low: Word, c_high: Word, c_low: Word) -> tuple[float, Word, Word]:
    """Return the generator's next uniform number in [0, 1), of 53 bits, and its new state."""
    new_low = low * _A_LOW + c_low
    high = _upper_product(low, _A_LOW) + high * _A_LOW + low * _A_HIGH + c_high + np.uint64(new_low < c_low)
    mixed, turn = high ^ new_low, high >> _TOP_SIX
    word = (mixed >> turn) | (mixed << ((_WORD_BITS - turn) & _LAST_SIX))
    return np.float64(np.int64(word >> np.uint64(11))) * 1.1102230246251565e-16, high, new_low


@part
def _first_refused(
    actions: npt.NDArray[np.int8], masks: npt.NDArray[np.int8], steps: IntArray, budget: int, horizon: int
) -> int:
    """Return the first environment whose pulls are not 0 or 1, too many, or of arms masked out; or -1."""
    for place in range(len(steps)):
        pulls, fine = 0, True
        for arm in range(actions.shape[1]):
            action = actions[place, arm]
            fine &= action == 0 or (action == 1 and masks[place, arm] == 1)
            pulls += action
        if steps[place] < horizon and not (fine and pulls <= budget):
            return place
    return -1


@kernel
def step_environments(
    chances: FloatArray,
    availability: FloatArray,
    words: WordArray,
    states: npt.NDArray[np.int8],
    masks: npt.NDArray[np.int8],
    steps: IntArray,
    good: IntArray,
    actions: npt.NDArray[np.int8],
    budget: int,
    horizon: int,
) -> int:
    """Move all E environments by one step, or start them anew where the episode is over.

    Parameters
    ----------
    chances : (N, 2, 2)
        The chance of being good next, by arm, state and action.
    availability : (N,) or (0,)
        The chance that an arm can be pulled; empty if all always can.
    words : (E, 4), changed
        The places of the generators.
    states, masks : (E, N) int8, changed
        Who is good; who can be pulled.
    steps : (E,), changed
        Steps done in the episode; where it is `horizon`, actions are not looked at.
    good : (E,), set
        How many arms are good.
    actions : (E, N) int8

    Returns
    -------
    int
        -1, or the first environment whose action is refused; then nothing is changed.
    """
    refused = _first_refused(actions, masks, steps, budget, horizon)
    if refused >= 0:
        return refused
    n_arms = states.shape[1]
    for place in range(len(steps)):
        high, low, c_high, c_low = words[place, 0], words[place, 1], words[place, 2], words[place, 3]
        starts, total = steps[place] >= horizon, 0
        for arm in range(n_arms):
            number, high, low = _advance(high, low, c_high, c_low)
            chance = 0.5 if starts else chances[arm, states[place, arm], actions[place, arm]]
            states[place, arm] = number < chance
            total += number < chance
        for arm in range(n_arms):
            masks[place, arm] = 1
        for arm in range(len(availability)):
            number, high, low = _advance(high, low, c_high, c_low)
            masks[place, arm] = number < availability[arm]
        words[place, 0], words[place, 1] = high, low
        steps[place] = 0 if starts else steps[place] + 1
        good[place] = total
    return -1
