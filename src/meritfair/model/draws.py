"""Drawing the arms of one step, for given merits: what a live round does, or a test."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from meritfair.checks import check_budget, check_choice
from meritfair.model.exposure import DESIGNS, check_merit

if TYPE_CHECKING:
    import numpy.typing as npt

    from meritfair.arrays import BoolArray

__all__ = ["draw"]


def draw(
    merit: npt.ArrayLike,
    budget: int = 1,
    *,
    rng: np.random.Generator,
    size: int = 1,
    design: Any = "sequential",
) -> BoolArray:
    """Draw `size` times which arms are pulled, each time exactly `budget` different ones.

    Returns
    -------
    ndarray of bool, shape (size, N)
        Which arms are pulled in each draw.

    Examples
    --------
    >>> pulled = draw([5.0, 1.0, 1.0], budget=2, rng=np.random.default_rng(1), size=1000)
    >>> pulled.sum(axis=1).min(), pulled.sum(axis=1).max()
    (np.int64(2), np.int64(2))
    """
    check_choice("design", design, DESIGNS)
    g = check_merit(merit)
    K = check_budget(budget, g.shape[-1])
    # A race: arm i arrives after an exponential time of rate merit_i, and the first K to arrive have exactly the law of
    # drawing one after another. Done in logarithms, so that no merit is too small or too large.
    with np.errstate(divide="ignore"):  # an exponential number may be exactly 0: it arrives first
        arrival = np.log(rng.standard_exponential((size, g.shape[-1]))) - np.log(g)
    pulls = np.zeros(arrival.shape, dtype=np.bool_)
    np.put_along_axis(pulls, np.argpartition(arrival, K - 1, axis=-1)[:, :K], True, axis=-1)
    return pulls
