"""Adherence to CPAP, a treatment for sleep apnoea: the paper's third data set (Section 6.1).

A patient is good while they use the device. The model of Kang et al. (2016), brought to two states,
has two kinds of patient; a pull (a call, say) multiplies the chance of a good next state by 1.1, up to
1. Every probability gets normal noise of its own, so that no two patients are alike.

================  ===========  ===========  ===========  =======================
variant           kind         passive 0→1  passive 1→1  from
================  ===========  ===========  ===========  =======================
``kang``          adherer      0.9615       0.9743       the MF-RMAB paper
``kang``          non-adherer  0.2576       0.4278
``probfair``      general      0.269        0.828        Herlihy et al. (2023)
``probfair``      non-adherer  0.234        0.666
``probfair-sex``  male         0.351        0.853
``probfair-sex``  female       0.214        0.791
================  ===========  ===========  ===========  =======================

In the ProbFair variants noise is added on the logit scale, where it cannot leave (0, 1). The paper's
text gives the noise a *variance* of 0.1; the authors' code and numbers have a *standard deviation* of
0.1, as here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from meritfair.checks import check_choice, check_flag, check_number, check_whole
from meritfair.datasets.synthetic import legacy_seed
from meritfair.errors import InputError
from meritfair.model.arms import Arms
from meritfair.seeding import fresh_seed, stream

if TYPE_CHECKING:
    from meritfair.arrays import FloatArray

__all__ = ["VARIANTS", "cpap"]

# kind of patient -> passive chance of a good next state from bad and from good; the first kind is the share
_PASSIVE: dict[str, dict[str, tuple[float, float]]] = {
    "kang": {"non-adherer": (0.2576, 0.4278), "adherer": (0.9615, 0.9743)},
    "probfair": {"non-adherer": (0.234, 0.666), "general": (0.269, 0.828)},
    "probfair-sex": {"male": (0.351, 0.853), "female": (0.214, 0.791)},
}
_DEFAULT_SHARE = {"kang": 0.3, "probfair": 0.3, "probfair-sex": 0.5}
VARIANTS = tuple(_PASSIVE)


def cpap(
    n_arms: int,
    seed: int | None = None,
    *,
    non_adherers: float | None = None,
    improvement: float = 1.1,
    noise: float = 0.1,
    epsilon: float = 0.01,
    variant: str = "kang",
    reseed: bool = True,
    authors: bool = False,
    budget: int | None = None,
    run: int = 0,
) -> Arms:
    """Return patients who differ in how well they keep to their CPAP therapy.

    Parameters
    ----------
    n_arms : int
    seed : int, optional
        Fixes the arms; with `authors`, their seed number, 1 to 30 in the paper. None: new ones each time.
    non_adherers : float, optional
        Share of the first kind of patient, who come first; 0.3 by default, rounded down to whole arms.
        For ``probfair-sex`` it is the share of men, 0.5 by default.
    improvement : float
        A pull multiplies the chance of a good next state by this, up to 1.
    noise : float
        Standard deviation of the noise on each probability.
    epsilon : float
        Probabilities are clipped to [epsilon, 1 - epsilon].
    variant : {"kang", "probfair", "probfair-sex"}
        Which model of CPAP.
    reseed : bool
        With `authors` only: whether each arm has a generator of its own, as in their released code, or all arms of an
        instance share one, which is what their Table 1 fits.
    authors : bool
        Make the authors' own instance, which depends on the budget too.
    budget : int, optional
        Needed with `authors` only.
    run : int
        Which of the many instances of one seed.

    Examples
    --------
    >>> arms = cpap(n_arms=5, seed=1, budget=1, authors=True)
    >>> arms.names[:2], float(arms.benefit[1].round(4))
    (('non-adherer-1', 'adherer-1'), 0.144)
    """
    N = check_whole("n_arms", n_arms, 1)
    check_choice("variant", variant, VARIANTS)
    share = check_number("non_adherers", _DEFAULT_SHARE[variant] if non_adherers is None else non_adherers, 0.0, 1.0)
    gain = check_number("improvement", improvement, 0.0)
    sd = check_number("noise", noise, 0.0)
    away = check_number("epsilon", epsilon, 0.0, 0.5)
    if check_flag("authors", authors) and variant != "kang":
        raise InputError(f"authors=True needs the variant 'kang', got {variant!r}")
    base, names = _patients(variant, N, int(share * N + 1e-9), gain)
    if authors:
        first = legacy_seed(N, budget, seed)
        if check_flag("reseed", reseed):
            normal = np.stack([np.random.RandomState((i + 1) * first).normal(0.0, 1.0, (2, 2)) for i in range(N)])
        else:
            normal = np.random.RandomState(first).normal(0.0, 1.0, (N, 2, 2))
    else:
        normal = stream(fresh_seed(seed), "instance", run).standard_normal((N, 2, 2))
    P = base + sd * normal if variant == "kang" else _on_logit(base, sd * normal, away)
    return Arms(np.clip(P, away, 1 - away), names)


def _patients(variant: str, n_arms: int, first: int, improvement: float) -> tuple[FloatArray, list[str]]:
    """Return each patient's probabilities before noise, shape (N, 2, 2), and name."""
    kinds: Any = list(_PASSIVE[variant].items())
    numbered = [(*kinds[0], i + 1) if i < first else (*kinds[1], i + 1 - first) for i in range(n_arms)]
    passive = np.array([chances for _, chances, _ in numbered])
    pulled = np.minimum(1.0, improvement * passive)
    return np.stack([passive, pulled], axis=-1), [f"{kind}-{number}" for kind, _, number in numbered]


def _on_logit(P: FloatArray, noise: FloatArray, epsilon: float) -> FloatArray:
    """Add noise to the logit; a certain outcome, which has none, is first moved off the edge."""
    inside = np.clip(P, max(epsilon, 1e-12), 1 - max(epsilon, 1e-12))
    return np.asarray(1 / (1 + (1 - inside) / inside * np.exp(-noise)))
