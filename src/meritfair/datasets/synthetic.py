"""The two synthetic data sets of the paper (Section 6.1).

``synthetic`` draws all probabilities uniformly from [0, 1]. ``synthetic_alternate`` does so under two
constraints: acting helps, P(s,1,1) >= P(s,0,1), and a good state helps, P(1,a,1) >= P(0,a,1). All are then
clipped to [epsilon, 1 - epsilon].

With ``authors=True`` the instances are those of the authors' experiments, number for number: NumPy's
old generator, seeded by n_arms × budget × seed. Two things about theirs are worth knowing. Their
second pass over the alternate set can undo the first, so some arms break the first constraint; ours
never do. And their published numbers need a second clip at the end, which the released code lacks.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from meritfair.core.arrays import FloatArray
from meritfair.core.checks import check_flag, check_number, check_whole
from meritfair.core.errors import InputError
from meritfair.core.machine import check_arms
from meritfair.core.seeding import fresh_seed, stream
from meritfair.model.arms import Arms


def synthetic(
    n_arms: int,
    seed: int | None = None,
    *,
    epsilon: float = 0.01,
    authors: bool = False,
    budget: int | None = None,
    run: int = 0,
) -> Arms:
    """Return arms whose probabilities are all uniform on [0, 1].

    Parameters
    ----------
    n_arms : int
    seed : int, optional
        Fixes the arms; with `authors`, their seed number, 1 to 30 in the paper. None: new ones each time.
    epsilon : float
        Probabilities are clipped to [epsilon, 1 - epsilon].
    authors : bool
        Make the authors' own instance, which depends on the budget too.
    budget : int, optional
        Needed with `authors` only.
    run : int
        Which of the many instances of one seed; each run of a simulation can have its own.

    Examples
    --------
    >>> synthetic(n_arms=3, seed=1)
    Arms(3 arms, epsilon=0.01)
    >>> synthetic(n_arms=5, seed=1, budget=1, authors=True).benefit.round(4)
    array([ 0.6959, -0.1165,  0.1738, -0.6071, -0.114 ])
    """
    shape = (check_arms(n_arms), 2, 2)
    away = check_number("epsilon", epsilon, 0.0, 0.5)
    if check_flag("authors", authors):
        uniform = np.random.RandomState(legacy_seed(n_arms, budget, seed)).random_sample(shape)
    else:
        uniform = stream(fresh_seed(seed), "instance", run).random(shape)
    return Arms(np.clip(uniform, away, 1 - away))


def synthetic_alternate(
    n_arms: int,
    seed: int | None = None,
    *,
    epsilon: float = 0.01,
    authors: bool = False,
    budget: int | None = None,
    run: int = 0,
) -> Arms:
    """Return arms for which acting helps and a good state helps, otherwise uniform.

    Four uniform numbers in order are an exact draw from the uniform distribution under both
    constraints: the least is P(0,0,1), the largest P(1,1,1), and the two in between stand either way.

    Parameters
    ----------
    n_arms, seed, epsilon, authors, budget, run
        As for :func:`synthetic`.

    Examples
    --------
    >>> P = synthetic_alternate(n_arms=100, seed=1).transitions
    >>> bool((P[:, :, 1] >= P[:, :, 0]).all() and (P[:, 1] >= P[:, 0]).all())
    True
    """
    shape = (check_arms(n_arms), 2, 2)
    away = check_number("epsilon", epsilon, 0.0, 0.5)
    if check_flag("authors", authors):
        P = _authors_alternate(np.random.RandomState(legacy_seed(n_arms, budget, seed)), shape, away)
    else:
        rng = stream(fresh_seed(seed), "instance", run)
        ordered = np.sort(rng.random((n_arms, 4)), axis=1)
        swap = rng.random(n_arms) < 0.5
        ordered[swap, 1:3] = ordered[swap, 2:0:-1]
        P = ordered.reshape(shape)
    return Arms(np.clip(P, away, 1 - away))


def legacy_seed(n_arms: int, budget: Any, seed: Any) -> int:
    """Return the seed of the authors' generator for an instance."""
    if budget is None or seed is None:
        raise InputError("authors=True needs budget and seed: the authors' instances depend on both")
    K = check_whole("budget", budget, 1, n_arms, f"the {n_arms} arms")
    return n_arms * K * check_whole("seed", seed, 1)


def _authors_alternate(rng: np.random.RandomState, shape: tuple[int, int, int], epsilon: float) -> FloatArray:
    P = np.clip(rng.random_sample(shape), epsilon, 1 - epsilon)
    for arm in P:
        for state in (0, 1):
            if arm[state, 1] < arm[state, 0]:  # acting should help
                arm[state, 0] = arm[state, 1] * rng.random_sample()
    for arm in P:
        for action in (0, 1):
            if arm[1, action] < arm[0, action]:  # a good state should help
                arm[0, action] = arm[1, action] * rng.random_sample()
    return P
